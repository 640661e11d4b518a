/* neighbours.c: neighbourhoods: joins of an array with itself by offsets.
 *
 *   SELECT a.y, a.x, avg(b.v) FROM dem a JOIN dem b
 *     ON b.y BETWEEN a.y - 1 AND a.y + 1 AND b.x BETWEEN a.x - 1 AND a.x + 1 GROUP BY a.y, a.x
 *   SELECT a.y, a.x, sum(b.v * k.w) FROM dem a JOIN kernel k JOIN dem b ON b.y = a.y + k.dy AND b.x = a.x + k.dx
 *     GROUP BY a.y, a.x
 *
 * GROUP BY makes a group of each cell of one of the two, the centre; the other has the neighbours. So the text means a
 * query of cells in which each aggregate is a window around the cell: a box, or with a table of offsets a list of them
 * (tsr_window_kernel). tsx_around_take rewrites it so: names of both become names of the array, aggregates become
 * windows, conditions on neighbours decide what windows see, those on the centre and HAVING which cells are given. A
 * cell without a neighbour has no group: the condition `exists`, which mostly holds for all cells, and is dropped then.
 *
 * The kernel's rows are read once for each run: the offsets, and the weights of each window.
 *
 * Sections: sides; offsets in ON; checks; rewriting; the kernel; windows. */
#include "query/query_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"

/* ---- Sides ------------------------------------------------------------------------------------------------------- */

/* What a tree depends on. OTHER: an alias, or something that only names.c knows. */
enum { SIDE_CENTRE = 1, SIDE_NEIGHBOUR = 2, SIDE_KERNEL = 4, SIDE_OTHER = 8 };

typedef struct around_take { /* a text that may be a neighbourhood */
  tsx_query *query;
  tsx_select *select;
  const char *centre, *neighbour; /* the names of the array */
  tsx_join *kernel; /* or NULL */
  tsx_around *around;
  uint64_t constant; /* bit d: a condition sets the centre's dimension d equal to a constant */
  tsx_expr *cells, *neighbours; /* conditions on the centre, on the neighbours; or NULL */
  bool failed; /* memory is exhausted */
} around_take;

static int kernel_column(const around_take *t, const char *name) {
  for (uint32_t i = 0; t->kernel && i < t->kernel->column_count; i++)
    if (!sqlite3_stricmp(t->kernel->columns[i].name, name)) return (int)i;
  return -1;
}

static unsigned side_of_name(const around_take *t, const tsx_expr *tree) {
  if (!tree->table) return kernel_column(t, tree->name) >= 0 ? SIDE_KERNEL : SIDE_OTHER;
  if (!sqlite3_stricmp(tree->table, t->centre)) return SIDE_CENTRE;
  if (!sqlite3_stricmp(tree->table, t->neighbour)) return SIDE_NEIGHBOUR;
  return t->kernel && !sqlite3_stricmp(tree->table, tsx_source_name(&t->kernel->source)) &&
                 kernel_column(t, tree->name) >= 0
             ? SIDE_KERNEL
             : SIDE_OTHER;
}

static unsigned sides_of(const around_take *t, const tsx_expr *tree) {
  if (!tree) return 0;
  if (tree->kind == TSX_EXPR_NAME) return side_of_name(t, tree);
  unsigned sides = sides_of(t, tree->base) | sides_of(t, tree->call.filter);
  for (uint32_t i = 0; i < tree->count; i++) sides |= sides_of(t, tree->operands[i]);
  return sides;
}

/* Returns the dimension that a name of one side is, or -1. */
static int dimension_of(const around_take *t, const tsx_expr *tree, unsigned side) {
  const tsx_table *table = t->query->table;
  if (tree->kind != TSX_EXPR_NAME || side_of_name(t, tree) != side) return -1;
  for (uint32_t c = 0; c < table->column_count; c++)
    if (!sqlite3_stricmp(table->columns[c].name, tree->name))
      return table->columns[c].description->is_dimension && table->columns[c].form <= TSX_UINT32
                 ? (int)table->columns[c].field
                 : -1;
  return -1;
}

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

/* Reads a whole number, as a literal with a sign or without. */
static bool whole_number(const tsx_expr *tree, int64_t *number) {
  bool negative = false;
  for (; tree->kind == TSX_EXPR_UNARY && (tree->operation == TSR_OP_NEGATE || tree->operation == TSR_OP_PLUS);
       tree = tree->operands[0])
    negative ^= tree->operation == TSR_OP_NEGATE;
  if (tree->kind != TSX_EXPR_LITERAL || tree->end == tree->begin || tree->end - tree->begin > 9) return false;
  *number = 0;
  for (const char *c = tree->begin; c < tree->end; c++) {
    if (*c < '0' || *c > '9') return false;
    *number = 10 * *number + (*c - '0');
  }
  if (negative) *number = -*number;
  return true;
}

/* Returns true if two sources are the same array, at the same times. */
static bool same_source(const tsx_source *a, const tsx_source *b, const tsx_table *table) {
  for (int i = 0; i < 2; i++) {
    const tsx_expr *x = a->times[i], *y = b->times[i];
    if (!x != !y) return false;
    if (x && (x->end - x->begin != y->end - y->begin || memcmp(x->begin, y->begin, (size_t)(x->end - x->begin)) != 0))
      return false;
  }
  return !sqlite3_stricmp(b->schema, table->schema_name) && !sqlite3_stricmp(b->table, table->name);
}

/* Returns the tree of an item that a term of GROUP BY names by ordinal or alias, or the term. */
static const tsx_expr *group_meaning(const around_take *t, const tsx_expr *term) {
  const tsx_select *s = t->select;
  int64_t ordinal;
  if (whole_number(term, &ordinal) && ordinal >= 1 && ordinal <= s->item_count) return s->items[ordinal - 1].tree;
  /* a column of the kernel comes before an alias */
  if (term->kind != TSX_EXPR_NAME || term->table || kernel_column(t, term->name) >= 0) return term;
  for (uint32_t i = 0; i < s->item_count; i++)
    if (s->items[i].name && !sqlite3_stricmp(s->items[i].name, term->name)) return s->items[i].tree;
  return term;
}

/* Returns the sides of GROUP BY, without aliases. */
static unsigned sides_of_groups(const around_take *t) {
  unsigned sides = 0;
  for (uint32_t i = 0; i < t->select->group_count; i++) sides |= sides_of(t, group_meaning(t, t->select->group[i]));
  return sides;
}

/* Returns true if the clauses may be those of a neighbourhood, and finds its tables. */
static bool find_tables(around_take *t) {
  const tsx_select *s = t->select;
  const tsx_join *array = NULL;
  if (s->inner.begin || s->join_count < 1 || s->join_count > 2 || s->group_count == 0 || s->distinct ||
      s->windows.count || t->query->table->schema->dimension_count > 32)
    return false;
  for (uint32_t i = 0; i < s->item_count; i++)
    if (!s->items[i].tree) return false;
  for (uint32_t j = 0; j < s->join_count; j++) {
    tsx_join *join = &t->select->joins[j];
    if (join->left || join->same_count) return false;
    const bool same = join->is_array && same_source(&s->source, &join->source, t->query->table);
    if (same && !array) array = join;
    else if (!same && !t->kernel) t->kernel = join;
    else return false;
  }
  if (!array) return false;
  t->centre = tsx_source_name(&s->source);
  t->neighbour = tsx_source_name(&array->source);
  if (sides_of_groups(t) & SIDE_NEIGHBOUR) {
    const char *name = t->centre;
    t->centre = t->neighbour;
    t->neighbour = name;
  }
  return !(sides_of_groups(t) & (SIDE_NEIGHBOUR | SIDE_KERNEL)) && sqlite3_stricmp(t->centre, t->neighbour) != 0;
}

/* ---- Offsets in ON ----------------------------------------------------------------------------------------------- */

typedef struct around_place { /* dimension + offset, or dimension + column of the kernel */
  int dimension, column; /* column < 0: none */
  int64_t offset;
  bool backwards; /* the column is subtracted */
} around_place;

/* Reads a place beside a cell of one side. */
static bool read_place(const around_take *t, const tsx_expr *tree, unsigned side, around_place *place) {
  *place = (around_place){.dimension = dimension_of(t, tree, side), .column = -1};
  if (place->dimension >= 0) return true;
  const bool minus = tree->operation == TSR_OP_SUBTRACT;
  if (tree->kind != TSX_EXPR_BINARY || (tree->operation != TSR_OP_ADD && !minus)) return false;
  const tsx_expr *cell = tree->operands[0], *offset = tree->operands[1];
  if (!minus && dimension_of(t, cell, side) < 0) {
    cell = tree->operands[1];
    offset = tree->operands[0];
  }
  place->dimension = dimension_of(t, cell, side);
  place->backwards = minus;
  if (place->dimension < 0) return false;
  if (offset->kind == TSX_EXPR_NAME && side_of_name(t, offset) == SIDE_KERNEL) {
    place->column = kernel_column(t, offset->name);
    return true;
  }
  if (!whole_number(offset, &place->offset)) return false;
  if (minus) place->offset = -place->offset;
  return true;
}

/* Narrows one end of where neighbours are. */
static void narrow_end(tsx_around_axis *axis, int end, int64_t offset) {
  if (!axis->given[end] || (end ? offset < axis->ends[1] : offset > axis->ends[0])) axis->ends[end] = offset;
  axis->given[end] = true;
}

/* Takes `dimension operation place`, of a neighbour and a place beside the centre. Returns false if it has another
 * form. */
static bool take_offset(const around_take *t, tsr_operation operation, int dimension, const around_place *place) {
  if (dimension != place->dimension) return false;
  tsx_around_axis *axis = &t->around->axes[dimension];
  if (place->column >= 0) {
    const bool same = axis->column == place->column && axis->backwards == place->backwards;
    if (operation != TSR_OP_EQUAL || (axis->column >= 0 && !same)) return false;
    axis->column = place->column;
    axis->backwards = place->backwards;
    return true;
  }
  const bool outside = operation == TSR_OP_GREATER || operation == TSR_OP_LESS;
  const bool low = operation == TSR_OP_GREATER || operation == TSR_OP_GREATER_EQUAL || operation == TSR_OP_EQUAL;
  const bool high = operation == TSR_OP_LESS || operation == TSR_OP_LESS_EQUAL || operation == TSR_OP_EQUAL;
  if (low) narrow_end(axis, 0, place->offset + outside);
  if (high) narrow_end(axis, 1, place->offset - outside);
  return low || high;
}

/* Takes a comparison of a neighbour's dimension with a place beside the centre, or of the centre's with one beside a
 * neighbour. */
static bool take_comparison(const around_take *t, tsr_operation operation, const tsx_expr *left,
                            const tsx_expr *right) {
  around_place place;
  int dimension = dimension_of(t, left, SIDE_NEIGHBOUR);
  if (dimension >= 0 && read_place(t, right, SIDE_CENTRE, &place)) return take_offset(t, operation, dimension, &place);
  dimension = dimension_of(t, left, SIDE_CENTRE);
  if (dimension < 0 || !read_place(t, right, SIDE_NEIGHBOUR, &place)) return false;
  place.offset = -place.offset;
  place.backwards = !place.backwards;
  return take_offset(t, tsx_bound_flipped(operation), dimension, &place);
}

/* Takes a term that compares a dimension of the centre with the same of a neighbour. */
static bool take_offset_term(const around_take *t, const tsx_expr *tree) {
  if (tree->kind == TSX_EXPR_BETWEEN && !tree->negated)
    return take_comparison(t, TSR_OP_GREATER_EQUAL, tree->operands[0], tree->operands[1]) &&
           take_comparison(t, TSR_OP_LESS_EQUAL, tree->operands[0], tree->operands[2]);
  if (tree->kind != TSX_EXPR_BINARY) return false;
  return take_comparison(t, tree->operation, tree->operands[0], tree->operands[1]) ||
         take_comparison(t, tsx_bound_flipped(tree->operation), tree->operands[1], tree->operands[0]);
}

/* Makes a AND b; either may be NULL. The words are those of b alone: whoever needs words takes the terms apart. */
static tsx_expr *both(around_take *t, tsx_expr *a, tsx_expr *b) {
  if (!a || !b) return a ? a : b;
  tsx_expr *tree = tsx_arena_take(&t->select->arena, sizeof *tree);
  tsx_expr **operands = tsx_arena_take(&t->select->arena, 2 * sizeof *operands);
  if (!tree || !operands) {
    t->failed = true;
    return NULL;
  }
  operands[0] = a;
  operands[1] = b;
  *tree = (tsx_expr){.kind = TSX_EXPR_BINARY,
                     .operation = TSR_OP_AND,
                     .begin = b->begin,
                     .end = b->end,
                     .operands = operands,
                     .count = 2,
                     .column = -1};
  return tree;
}

/* Adds a condition on the kernel. */
static void filter_kernel(around_take *t, tsx_expr *tree) {
  tsx_around *around = t->around;
  tsx_expr **more = tsx_arena_take(&t->select->arena, (around->filter_count + UINT64_C(1)) * sizeof *more);
  if (!more) {
    t->failed = true;
    return;
  }
  for (uint32_t i = 0; i < around->filter_count; i++) more[i] = around->filters[i];
  more[around->filter_count++] = tree;
  around->filters = more;
}

/* Assigns each AND term of ON and WHERE. Returns false if one has another form. */
static bool take_terms(around_take *t, tsx_expr *tree) {
  if (!tree) return true;
  if (tree->kind == TSX_EXPR_BINARY && tree->operation == TSR_OP_AND)
    return take_terms(t, tree->operands[0]) && take_terms(t, tree->operands[1]);
  const unsigned sides = sides_of(t, tree);
  if ((sides & SIDE_CENTRE) && (sides & SIDE_NEIGHBOUR)) return take_offset_term(t, tree);
  if (sides == SIDE_KERNEL) {
    filter_kernel(t, tree);
    return true;
  }
  if (sides == SIDE_NEIGHBOUR) {
    t->neighbours = both(t, t->neighbours, tree);
    return true;
  }
  if (sides & ~(unsigned)(SIDE_CENTRE | SIDE_OTHER)) return false;
  for (int i = 0; i < 2 && tree->kind == TSX_EXPR_BINARY && tree->operation == TSR_OP_EQUAL; i++) {
    const int dimension = dimension_of(t, tree->operands[i], SIDE_CENTRE);
    if (dimension >= 0 && dimension < 64 && sides_of(t, tree->operands[1 - i]) == 0)
      t->constant |= UINT64_C(1) << dimension;
  }
  t->cells = both(t, t->cells, tree);
  return true;
}

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

/* Returns true if each cell of the centre has a group of its own. */
static bool groups_are_cells(const around_take *t) {
  uint64_t missing = (UINT64_C(1) << t->query->table->schema->dimension_count) - 1;
  for (uint32_t i = 0; i < t->select->group_count; i++) {
    const int dimension = dimension_of(t, group_meaning(t, t->select->group[i]), SIDE_CENTRE);
    if (dimension >= 0) missing &= ~(UINT64_C(1) << dimension);
  }
  return (missing & ~t->constant) == 0;
}

static bool axes_are_complete(const around_take *t) {
  for (uint32_t d = 0; d < t->query->table->schema->dimension_count; d++) {
    const tsx_around_axis *axis = &t->around->axes[d];
    if (axis->column < 0 ? !axis->given[0] || !axis->given[1] : axis->given[0] || axis->given[1]) return false;
  }
  return true;
}

static int refuse(const around_take *t, const tsx_expr *tree, const char *why, tsr_error *error) {
  return tsx_not_evaluated(t->select, tree->begin, tree->end, why, error);
}

/* Returns true if a median may be taken: along one dimension, or of so few cells that they can be listed. */
static bool has_median(const around_take *t) {
  uint64_t cells = 1, axes = 0;
  for (uint32_t d = 0; d < t->query->table->schema->dimension_count && !t->kernel; d++) {
    const int64_t *ends = t->around->axes[d].ends;
    const uint64_t extent = ends[0] <= ends[1] ? (uint64_t)ends[1] - (uint64_t)ends[0] + 1 : 1;
    axes += ends[0] != 0 || ends[1] != 0;
    cells = extent > TSR_KERNEL_OFFSETS || cells > TSR_KERNEL_OFFSETS ? UINT64_MAX : cells * extent;
  }
  return axes <= 1 || cells <= TSR_KERNEL_OFFSETS;
}

/* Checks an aggregate: its argument is of the neighbours, of the kernel, or the product of both. */
static int check_aggregate(const around_take *t, const tsx_expr *tree, tsr_error *error) {
  static const char why[] = "in a neighbourhood, an aggregate is of the neighbours, of the kernel, or of their product";
  const tsx_expr *argument = tree->count ? tree->operands[0] : NULL;
  const unsigned sides = sides_of(t, argument), filter = sides_of(t, tree->call.filter);
  const tsr_aggregate_function function = tree->call.function->aggregates;
  if (tree->call.distinct) return refuse(t, tree, "DISTINCT in a neighbourhood", error);
  if ((function == TSR_AGGREGATE_MEDIAN || function == TSR_AGGREGATE_PERCENTILE) && !has_median(t))
    return refuse(t, tree, "this function over more than 65536 neighbours in several dimensions", error);
  if (filter != 0 && filter != SIDE_NEIGHBOUR && filter != SIDE_KERNEL)
    return refuse(t, tree->call.filter, "in a neighbourhood, FILTER tests the neighbours, or the kernel", error);
  if (sides == 0 || sides == SIDE_NEIGHBOUR || sides == SIDE_KERNEL) return TSR_OK;
  const bool product = argument->kind == TSX_EXPR_BINARY && argument->operation == TSR_OP_MULTIPLY;
  for (int i = 0; i < 2 && product; i++)
    if (sides_of(t, argument->operands[i]) == SIDE_NEIGHBOUR && sides_of(t, argument->operands[1 - i]) == SIDE_KERNEL)
      return TSR_OK;
  return refuse(t, argument, why, error);
}

/* Checks a tree around aggregates. */
static int check_result(const around_take *t, const tsx_expr *tree, tsr_error *error) {
  if (!tree) return TSR_OK;
  if (tree->kind == TSX_EXPR_AGGREGATE) return check_aggregate(t, tree, error);
  if (tree->kind == TSX_EXPR_NAME && (side_of_name(t, tree) & (SIDE_NEIGHBOUR | SIDE_KERNEL)))
    return tsx_fail(error, TSR_ERROR, "'%.*s' is neither a key of GROUP BY nor in an aggregate",
                    (int)(tree->end - tree->begin), tree->begin);
  TSX_TRY(check_result(t, tree->base, error));
  for (uint32_t i = 0; i < tree->count; i++) TSX_TRY(check_result(t, tree->operands[i], error));
  return TSR_OK;
}

static int check_results(const around_take *t, tsr_error *error) {
  const tsx_select *s = t->select;
  for (uint32_t i = 0; i < s->item_count; i++) TSX_TRY(check_result(t, s->items[i].tree, error));
  for (uint32_t i = 0; i < s->order_count; i++) TSX_TRY(check_result(t, s->order[i].tree, error));
  return check_result(t, s->having, error);
}

/* ---- Rewriting --------------------------------------------------------------------------------------------------- */

/* Makes names those of the array, or of the kernel. */
static void rewrite_names(const around_take *t, tsx_expr *tree) {
  if (!tree) return;
  if (tree->kind == TSX_EXPR_NAME) {
    const unsigned side = side_of_name(t, tree);
    if (side == SIDE_KERNEL) {
      tree->kind = TSX_EXPR_JOINED;
      tree->column = kernel_column(t, tree->name);
      tree->join = 0;
    } else if (side != SIDE_OTHER) {
      tree->table = NULL;
    }
    return;
  }
  rewrite_names(t, tree->base);
  rewrite_names(t, tree->call.filter);
  for (uint32_t i = 0; i < tree->count; i++) rewrite_names(t, tree->operands[i]);
}

/* Makes an aggregate a window, and takes off what the kernel gives to it. */
static void rewrite_aggregate(around_take *t, tsx_expr *tree) {
  tsx_expr *argument = tree->count ? tree->operands[0] : NULL;
  const unsigned sides = sides_of(t, argument);
  if (sides_of(t, tree->call.filter) == SIDE_KERNEL) {
    tree->call.chosen = tree->call.filter;
    tree->call.filter = NULL;
  }
  if (sides == SIDE_KERNEL) {
    tree->call.weight = argument;
    tree->count = 0;
  } else if (sides & SIDE_KERNEL) {
    const int factor = sides_of(t, argument->operands[0]) == SIDE_KERNEL ? 0 : 1;
    tree->call.weight = argument->operands[factor];
    tree->operands[0] = argument->operands[1 - factor];
  }
  rewrite_names(t, tree->call.weight);
  rewrite_names(t, tree->call.chosen);
  rewrite_names(t, tree->call.filter);
  for (uint32_t i = 0; i < tree->count; i++) rewrite_names(t, tree->operands[i]);
  tree->kind = TSX_EXPR_WINDOW;
  tree->over = &t->around->over;
  t->select->windows.count++;
}

static void rewrite_result(around_take *t, tsx_expr *tree) {
  if (!tree) return;
  if (tree->kind == TSX_EXPR_AGGREGATE) {
    rewrite_aggregate(t, tree);
    return;
  }
  if (tree->kind == TSX_EXPR_NAME) rewrite_names(t, tree);
  rewrite_result(t, tree->base);
  for (uint32_t i = 0; i < tree->count; i++) rewrite_result(t, tree->operands[i]);
}

/* Makes the condition that a cell has a neighbour: the count of its neighbours is not 0. */
static tsx_expr *make_exists(around_take *t) {
  tsx_around *around = t->around;
  const tsx_expr *words = t->select->group[0];
  tsx_expr *tree = tsx_arena_take(&t->select->arena, sizeof *tree);
  if (!tree) {
    t->failed = true;
    return NULL;
  }
  around->alone = (tsx_over){.begin = words->begin, .end = words->end};
  *tree = (tsx_expr){.kind = TSX_EXPR_WINDOW,
                     .operation = TSR_OP_COUNT,
                     .begin = words->begin,
                     .end = words->end,
                     .name = (char *)(uintptr_t) "count",
                     .call = {.function = tsx_function_find("count", 0), .star = true},
                     .over = &around->alone,
                     .column = -1};
  t->select->windows.count++;
  return around->exists = tree;
}

static void rewrite_clauses(around_take *t) {
  tsx_select *s = t->select;
  for (uint32_t i = 0; i < s->item_count; i++) rewrite_result(t, s->items[i].tree);
  for (uint32_t i = 0; i < s->order_count; i++) rewrite_result(t, s->order[i].tree);
  rewrite_result(t, s->having);
  rewrite_names(t, t->cells);
  rewrite_names(t, t->neighbours);
  for (uint32_t i = 0; i < t->around->filter_count; i++) rewrite_names(t, t->around->filters[i]);
  s->windows.level = 0;
  s->windows.where[0] = t->neighbours;
  s->where = both(t, both(t, t->cells, s->having), make_exists(t));
  s->having = NULL;
  s->group_count = 0;
  t->around->join_count = s->join_count;
  s->join_count = 0;
  s->around = t->around;
}

/* ---- A neighbourhood --------------------------------------------------------------------------------------------- */

int tsx_around_take(tsx_query *query, tsr_error *error) {
  tsx_select *s = &query->select;
  around_take t = {.query = query, .select = s};
  if (!find_tables(&t)) return TSR_OK;
  const uint32_t dimensions = query->table->schema->dimension_count;
  t.around = tsx_arena_take(&s->arena, sizeof *t.around);
  tsx_around_axis *axes = tsx_arena_take(&s->arena, dimensions * sizeof *axes);
  tsx_join *kernel = t.kernel ? tsx_arena_take(&s->arena, sizeof *kernel) : NULL; /* the SELECT may move */
  if (!t.around || !axes || (t.kernel && !kernel)) return tsx_out_of_memory(error);
  if (kernel) *kernel = *t.kernel;
  *t.around = (tsx_around){.axes = axes, .kernel = kernel};
  for (uint32_t d = 0; d < dimensions; d++) axes[d] = (tsx_around_axis){.column = -1};
  bool fits = take_terms(&t, s->where);
  for (uint32_t j = 0; j < s->join_count && fits; j++)
    fits = s->joins[j].comma || take_terms(&t, s->joins[j].on.tree); /* a comma's terms are in WHERE */
  if (t.failed) return tsx_out_of_memory(error);
  if (!fits || !axes_are_complete(&t) || !groups_are_cells(&t)) return TSR_OK;
  TSX_TRY(check_results(&t, error));
  rewrite_clauses(&t);
  return t.failed ? tsx_out_of_memory(error) : TSR_OK;
}

/* Returns a datetime in a tree, or NULL. */
static const tsx_expr *find_datetime(const tsx_query *query, const tsx_expr *tree) {
  if (tree->kind == TSX_EXPR_NAME && !tree->alias && tree->column >= 0 &&
      query->table->columns[tree->column].form == TSX_DATETIME)
    return tree;
  const tsx_expr *found = tree->base ? find_datetime(query, tree->base) : NULL;
  for (uint32_t i = 0; i < tree->count && !found; i++) found = find_datetime(query, tree->operands[i]);
  return found;
}

int tsx_around_check(const tsx_query *query, tsr_error *error) {
  const tsx_select *s = &query->select;
  const tsx_expr *before = s->around ? s->windows.where[0] : NULL,
                 *found = before ? find_datetime(query, before) : NULL;
  return found ? tsx_not_evaluated(s, found->begin, found->end, "a condition on a neighbour's datetime", error)
               : TSR_OK;
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

typedef struct kernel_row {
  const int64_t *offsets; /* [dimensions] */
  uint32_t dimensions;
  uint64_t number; /* in the order in which the rows came */
  bool chosen;
  tsr_value weight; /* NULL: there is none, or it is null */
} kernel_row;

typedef struct kernel_reader {
  tsx_query *query;
  const tsx_around *around;
  const tsx_expr *const *trees;
  uint32_t tree_count, dimensions;
  kernel_row *rows[TSR_QUERY_WINDOWS]; /* by window: [count] */
  uint64_t count, room;
} kernel_reader;

/* Writes a column of the kernel, for tsx_words_append. */
static bool write_column(void *argument, const tsx_expr *tree, sqlite3_str *out) {
  const tsx_around *around = argument;
  if (tree->kind != TSX_EXPR_JOINED) return false;
  sqlite3_str_appendf(out, "\"%w\"", around->kernel->columns[tree->column].name);
  return true;
}

/* Prepares a SELECT of all columns, then for each window of the weight and whether its FILTER chooses the row. */
static int prepare_kernel(const kernel_reader *r, sqlite3_stmt **statement, tsr_error *error) {
  const tsx_around *around = r->around;
  const tsx_join *kernel = around->kernel;
  void *argument = (void *)(uintptr_t)around;
  sqlite3_str *out = sqlite3_str_new(r->query->connection->db);
  for (uint32_t c = 0; c < kernel->column_count; c++)
    sqlite3_str_appendf(out, "%s\"%w\"", c ? ", " : "SELECT ", kernel->columns[c].name);
  for (uint32_t w = 0; w < r->tree_count; w++) {
    const tsx_call *call = &r->trees[w]->call;
    sqlite3_str_appendall(out, ", (");
    if (call->weight) tsx_words_append(out, call->weight, write_column, argument);
    else sqlite3_str_appendall(out, "NULL");
    sqlite3_str_appendall(out, "), ((");
    if (call->chosen) tsx_words_append(out, call->chosen, write_column, argument);
    else sqlite3_str_appendall(out, "1");
    sqlite3_str_appendall(out, ") IS TRUE)");
  }
  sqlite3_str_appendf(out, " FROM \"%w\".\"%w\"", kernel->source.schema, kernel->source.table);
  if (kernel->source.times_begin) /* of an array */
    sqlite3_str_append(out, kernel->source.times_begin, (int)(kernel->source.times_end - kernel->source.times_begin));
  for (uint32_t i = 0; i < around->filter_count; i++) {
    sqlite3_str_appendall(out, i ? ") AND (" : " WHERE (");
    tsx_words_append(out, around->filters[i], write_column, argument);
  }
  if (around->filter_count) sqlite3_str_appendchar(out, 1, ')');
  TSX_TRY(tsx_rows_prepare(r->query->connection, out, NULL, statement, error));
  for (uint32_t c = 0; c < kernel->column_count; c++) {
    const int visible = tsx_column_visible(*statement, (int)c, kernel->columns[c].name, error);
    if (visible < 0) return visible;
    if (!visible)
      return tsx_fail(error, TSR_AUTH, "the authorizer hides %s.%s: only a view gives NULL for it",
                      kernel->source.table, kernel->columns[c].name);
  }
  return TSR_OK;
}

/* Reads the ends of a row's offsets in a dimension. Returns 1; 0 if it leads to no cell, < 0 on error. */
static int read_ends(const kernel_reader *r, sqlite3_stmt *statement, uint32_t d, int64_t ends[2], tsr_error *error) {
  const tsx_around_axis *axis = &r->around->axes[d];
  ends[0] = axis->ends[0];
  ends[1] = axis->ends[1];
  if (axis->column < 0) return ends[0] <= ends[1];
  const tsx_join *kernel = r->around->kernel;
  sqlite3_value *value = sqlite3_column_value(statement, axis->column);
  const int type = sqlite3_value_type(value);
  const double real = sqlite3_value_double(value);
  if (type == SQLITE_NULL) return 0;
  if ((type != SQLITE_INTEGER && type != SQLITE_FLOAT) || real != floor(real))
    return tsx_fail(error, TSR_ERROR, TSX_NOT_EVALUATED "%s.%s: '%s' is no whole number", kernel->source.table,
                    kernel->columns[axis->column].name, sqlite3_value_text(value));
  if (fabs(real) > TSX_COORDINATES_MAX) return 0; /* no axis is so long */
  ends[0] = ends[1] = axis->backwards ? -(int64_t)real : (int64_t)real;
  return 1;
}

static int reserve_rows(kernel_reader *r, uint64_t more, tsr_error *error) {
  if (r->count + more > TSR_KERNEL_OFFSETS)
    return tsx_fail(error, TSR_TOOBIG, TSX_NOT_EVALUATED "a neighbourhood of more than %u cells by %s",
                    TSR_KERNEL_OFFSETS, r->around->kernel->source.table);
  if (r->count + more <= r->room) return TSR_OK;
  r->room = 2 * (r->count + more);
  for (uint32_t w = 0; w < r->tree_count; w++) {
    kernel_row *rows = tsx_arena_take(&r->query->select.arena, r->room * sizeof *rows);
    if (!rows) return tsx_out_of_memory(error);
    if (r->count) memcpy(rows, r->rows[w], r->count * sizeof *rows);
    r->rows[w] = rows;
  }
  return TSR_OK;
}

static int read_weight(const kernel_reader *r, uint32_t w, sqlite3_value *value, tsr_value *weight, tsr_error *error) {
  const tsx_expr *tree = r->trees[w]->call.weight;
  const int type = sqlite3_value_type(value);
  *weight = (tsr_value){.type = TSR_VALUE_NULL};
  if (type == SQLITE_INTEGER)
    *weight = (tsr_value){.type = TSR_VALUE_INTEGER, .as.integer = sqlite3_value_int64(value)};
  else if (type == SQLITE_FLOAT) *weight = (tsr_value){.type = TSR_VALUE_REAL, .as.real = sqlite3_value_double(value)};
  else if (type != SQLITE_NULL)
    return tsx_not_evaluated(&r->query->select, tree->begin, tree->end, "a weight that is no number: CAST it", error);
  return TSR_OK;
}

/* Adds the offsets of a row: one, or a box of them. */
static int add_row(kernel_reader *r, sqlite3_stmt *statement, tsr_error *error) {
  int64_t ends[32][2];
  uint64_t cells = 1;
  for (uint32_t d = 0; d < r->dimensions; d++) {
    const int any = read_ends(r, statement, d, ends[d], error);
    if (any <= 0) return any;
    const uint64_t extent = (uint64_t)(ends[d][1] - ends[d][0]) + 1;
    cells = extent > TSR_KERNEL_OFFSETS ? UINT64_C(1) << 32 : cells * extent;
    if (cells > TSR_KERNEL_OFFSETS) cells = TSR_KERNEL_OFFSETS + UINT64_C(1);
  }
  TSX_TRY(reserve_rows(r, cells, error));
  int64_t *offsets = tsx_arena_take(&r->query->select.arena, cells * r->dimensions * sizeof *offsets);
  if (!offsets) return tsx_out_of_memory(error);
  for (uint64_t c = 0; c < cells; c++) {
    uint64_t left = c;
    for (uint32_t d = r->dimensions; d-- > 0;) {
      const uint64_t extent = (uint64_t)(ends[d][1] - ends[d][0]) + 1;
      offsets[c * r->dimensions + d] = ends[d][0] + (int64_t)(left % extent);
      left /= extent;
    }
  }
  for (uint32_t w = 0; w < r->tree_count; w++) {
    const int column = (int)(r->around->kernel->column_count + 2 * w);
    kernel_row row = {.dimensions = r->dimensions, .chosen = sqlite3_column_int(statement, column + 1) != 0};
    TSX_TRY(read_weight(r, w, sqlite3_column_value(statement, column), &row.weight, error));
    for (uint64_t c = 0; c < cells; c++) {
      row.offsets = offsets + c * r->dimensions;
      row.number = r->count + c;
      r->rows[w][r->count + c] = row;
    }
  }
  r->count += cells;
  return TSR_OK;
}

static int compare_rows(const void *a, const void *b) {
  const kernel_row *x = a, *y = b;
  for (uint32_t d = 0; d < x->dimensions; d++)
    if (x->offsets[d] != y->offsets[d]) return x->offsets[d] < y->offsets[d] ? -1 : 1;
  return (x->number > y->number) - (x->number < y->number);
}

/* Makes the kernel of a window: the rows that FILTER chooses, without those whose weight is null. */
static int make_kernel(const kernel_reader *r, uint32_t w, tsx_kernel *kernel, tsr_error *error) {
  tsx_arena *arena = &r->query->select.arena;
  const tsx_expr *weight = r->trees[w]->call.weight;
  kernel_row *rows = r->rows[w];
  int64_t *offsets = tsx_arena_take(arena, (r->count * r->dimensions + 1) * sizeof *offsets);
  tsr_value *weights = tsx_arena_take(arena, (r->count + 1) * sizeof *weights);
  int64_t *words = tsx_arena_take(arena, (r->count + 1) * sizeof *words);
  uint64_t n = 0, integers = 0;
  if (!offsets || !weights || !words) return tsx_out_of_memory(error);
  if (r->count) qsort(rows, r->count, sizeof *rows, compare_rows);
  for (uint64_t i = 0; i < r->count; i++) {
    if (!rows[i].chosen || (weight && rows[i].weight.type == TSR_VALUE_NULL)) continue;
    memcpy(offsets + n * r->dimensions, rows[i].offsets, r->dimensions * sizeof *offsets);
    integers += rows[i].weight.type == TSR_VALUE_INTEGER;
    weights[n++] = rows[i].weight;
  }
  *kernel = (tsx_kernel){.weight = weight};
  kernel->list = (tsr_window_kernel){.count = n, .offsets = offsets, .type = TSR_VALUE_NULL, .weights = words};
  if (!weight) return TSR_OK;
  kernel->list.type = integers == n ? TSR_VALUE_INTEGER : TSR_VALUE_REAL;
  kernel->mixed = integers > 0 && integers < n;
  for (uint64_t i = 0; i < n; i++) {
    const double real = weights[i].type == TSR_VALUE_REAL ? weights[i].as.real : (double)weights[i].as.integer;
    if (kernel->list.type == TSR_VALUE_INTEGER) words[i] = weights[i].as.integer;
    else memcpy(&words[i], &real, sizeof real);
  }
  return TSR_OK;
}

static int read_kernel(kernel_reader *r, sqlite3_stmt *statement, tsr_error *error) {
  tsx_query *query = r->query;
  int code;
  while ((code = tsx_rows_step(query->connection, statement, error)) > 0) TSX_TRY(add_row(r, statement, error));
  if (code < 0) return code;
  query->kernels = tsx_arena_take(&query->select.arena, (r->tree_count + UINT64_C(1)) * sizeof *query->kernels);
  if (!query->kernels) return tsx_out_of_memory(error);
  for (uint32_t w = 0; w < r->tree_count; w++) TSX_TRY(make_kernel(r, w, &query->kernels[w], error));
  return TSR_OK;
}

int tsx_around_read(tsx_query *query, const tsx_expr *const *trees, uint32_t count, tsr_error *error) {
  kernel_reader reader = {.query = query,
                          .around = query->select.around,
                          .trees = trees,
                          .tree_count = count,
                          .dimensions = query->table->schema->dimension_count};
  sqlite3_stmt *statement = NULL;
  if (!reader.around->kernel || query->kernels) return TSR_OK;
  int code = prepare_kernel(&reader, &statement, error);
  if (code >= 0) code = read_kernel(&reader, statement, error);
  sqlite3_finalize(statement);
  return code;
}

/* ---- Windows ----------------------------------------------------------------------------------------------------- */

static const tsx_axis *axis_of_field(const tsx_query *query, uint32_t field) {
  for (uint32_t i = 0; i < query->axis_count; i++)
    if (query->table->columns[query->axes[i].column].field == field &&
        query->table->columns[query->axes[i].column].description->is_dimension)
      return &query->axes[i];
  return NULL;
}

/* Returns true if each cell of a full box has a neighbour: for each corner, some offset leads towards it by at most
 * half of the box. */
static bool meets_each_cell(const tsx_query *query, const tsr_window_kernel *kernel) {
  const uint32_t dimensions = query->table->schema->dimension_count;
  for (uint32_t corner = 0; corner < UINT32_C(1) << dimensions; corner++) {
    bool found = false;
    for (uint64_t k = 0; k < kernel->count && !found; k++) {
      found = true;
      for (uint32_t d = 0; d < dimensions; d++) {
        const tsx_axis *axis = axis_of_field(query, d);
        const int64_t offset = kernel->offsets[k * dimensions + d], towards = corner >> d & 1 ? offset : -offset;
        found &= axis && towards >= 0 && (uint64_t)towards <= axis->count / 2;
      }
    }
    if (!found) return false;
  }
  return true;
}

bool tsx_around_always(const tsx_query *query, uint32_t number) {
  const tsx_select *s = &query->select;
  const uint32_t dimensions = query->table->schema->dimension_count;
  bool itself = true;
  if (s->windows.where[0]) return false;
  for (uint32_t d = 0; d < dimensions; d++)
    itself &= s->around->axes[d].ends[0] <= 0 && s->around->axes[d].ends[1] >= 0;
  if (!s->around->kernel) return itself;
  return query->table->schema->dense && dimensions <= 8 && meets_each_cell(query, &query->kernels[number].list);
}

/* Makes the frames of a dimension: from ends[0] to ends[1] beside each coordinate. */
static int make_frames(tsx_query *query, uint32_t d, tsr_window_axis *made, tsr_error *error) {
  const tsx_axis *axis = axis_of_field(query, d);
  const int64_t *ends = query->select.around->axes[d].ends;
  if (!axis || !axis->usable || axis->listed)
    return tsx_fail(error, TSR_ERROR, TSX_NOT_EVALUATED "neighbours along a dimension of more than %u coordinates",
                    TSX_COORDINATES_MAX);
  tsr_window_frame *frames = tsx_arena_take(&query->select.arena, (axis->count + 1) * sizeof *frames);
  if (!frames) return tsx_out_of_memory(error);
  const int64_t n = (int64_t)axis->count;
  for (int64_t i = 0; i < n; i++) {
    frames[i].first = i + ends[0] > 0 ? i + ends[0] : 0;
    frames[i].last = i + ends[1] < n ? i + ends[1] : n - 1;
  }
  *made = (tsr_window_axis){.dimension = d, .low = axis->low, .count = axis->count, .frames = frames};
  return TSR_OK;
}

int tsx_around_window(tsx_query *query, uint32_t number, tsr_window *window, tsr_error *error) {
  const tsx_around *around = query->select.around;
  const uint32_t dimensions = query->table->schema->dimension_count;
  window->axis_count = 0;
  if (around->kernel) {
    window->kernel = &query->kernels[number].list;
    return TSR_OK;
  }
  tsr_window_axis *axes = tsx_arena_take(&query->select.arena, dimensions * sizeof *axes);
  if (!axes) return tsx_out_of_memory(error);
  window->axes = axes;
  for (uint32_t d = dimensions; d-- > 0;) {
    const int64_t *ends = around->axes[d].ends;
    if (ends[0] == 0 && ends[1] == 0 && (d > 0 || window->axis_count > 0)) continue; /* at least one axis */
    TSX_TRY(make_frames(query, d, &axes[window->axis_count++], error));
  }
  return TSR_OK;
}

int tsx_around_type(const tsx_query *query, uint32_t number, tsr_value_type argument, tsr_value_type *type,
                    tsr_error *error) {
  *type = argument;
  if (!query->kernels) return TSR_OK;
  const tsx_kernel *kernel = &query->kernels[number];
  const tsr_value_type weight = kernel->list.type;
  if (weight == TSR_VALUE_NULL) return TSR_OK;
  if (kernel->mixed && argument != TSR_VALUE_REAL)
    return tsx_not_evaluated(&query->select, kernel->weight->begin, kernel->weight->end,
                             "an INTEGER in some rows and a REAL in others: CAST it", error);
  const bool number_type = argument == TSR_VALUE_INTEGER || argument == TSR_VALUE_REAL;
  if (argument == TSR_VALUE_NULL || argument == TSR_VALUE_INTEGER) *type = weight;
  else if (!number_type) *type = TSR_VALUE_OPAQUE;
  return TSR_OK;
}

void tsx_around_explain(const tsx_query *query, sqlite3_str *out) {
  const tsx_around *around = query->select.around;
  const char *between = "; around ";
  for (uint32_t c = 0; c < query->table->column_count; c++) {
    const tsx_column *column = &query->table->columns[c];
    if (!column->description->is_dimension) continue;
    const tsx_around_axis *axis = &around->axes[column->field];
    sqlite3_str_appendf(out, "%s%s ", between, column->name);
    if (axis->column < 0) sqlite3_str_appendf(out, "%lld..%lld", (long long)axis->ends[0], (long long)axis->ends[1]);
    else
      sqlite3_str_appendf(out, "%c %s.%s", axis->backwards ? '-' : '+', tsx_source_name(&around->kernel->source),
                          around->kernel->columns[axis->column].name);
    between = ", ";
  }
}
