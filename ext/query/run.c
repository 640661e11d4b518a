/* run.c: runs a compiled tessera_query and gives its rows.
 *
 * tsx_run_open takes a snapshot, finds and evaluates the axes, plans, and starts the engine. If the items are just
 * keys, aggregates or columns of cells, and nothing filters, orders or limits the rows, they come straight from the
 * engine. Otherwise a nested SELECT (nested.c) runs over the engine's rows, with the words of the query and slots for
 * keys and aggregates.
 *
 * Sections: rowids; a run; rows of the engine; the nested SELECT; opening; reading; blocks of cells. */
#include "query/query_internal.h"

#include <limits.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/statement.h"

/* ---- Rowids ------------------------------------------------------------------------------------------------------ */

/* A rowid is a hash of the values that identify a row: the keys of a group, all items of a cell's row. Equal rows of
 * cells also get different rowids, by their occurrence. */

#define ROOM_AT_FIRST 64

typedef struct tsx_occurrence {
  uint64_t hash, count; /* count 0: the entry is free */
} tsx_occurrence;

/* Adds a value and its type to a hash. */
static uint64_t rowid_add(uint64_t hash, const tsr_value *value) {
  const double real = value->type == TSR_VALUE_REAL ? value->as.real + 0.0 : 0; /* -0.0 is 0.0 */
  hash ^= (uint64_t)value->type;
  switch (value->type) {
  case TSR_VALUE_TEXT: return tsr_hash(hash, value->as.text.bytes, value->as.text.size);
  case TSR_VALUE_REAL: return tsr_hash(hash, &real, sizeof real);
  case TSR_VALUE_INTEGER:
  case TSR_VALUE_UNSIGNED: return tsr_hash(hash, &value->as, sizeof value->as.integer);
  default: return tsr_hash(hash, "", 1);
  }
}

/* Returns the entry of a hash, or the free entry for it. */
static tsx_occurrence *occurrence_find(const tsx_occurrences *o, uint64_t hash) {
  uint64_t place = hash & (o->room - 1);
  while (o->entries[place].count && o->entries[place].hash != hash) place = (place + 1) & (o->room - 1);
  return &o->entries[place];
}

static int occurrences_grow(tsx_occurrences *o, tsr_error *error) {
  tsx_occurrences more = {.room = o->room ? 2 * o->room : ROOM_AT_FIRST, .count = o->count};
  more.entries = sqlite3_malloc64(more.room * sizeof *more.entries);
  if (!more.entries) return tsx_out_of_memory(error);
  memset(more.entries, 0, more.room * sizeof *more.entries);
  for (uint64_t i = 0; i < o->room; i++)
    if (o->entries[i].count) *occurrence_find(&more, o->entries[i].hash) = o->entries[i];
  sqlite3_free(o->entries);
  *o = more;
  return TSR_OK;
}

/* Makes the rowid of the next row with this hash. Equal rows satisfy the same constraints, so the n-th of them is the
 * n-th in every scan. */
static int rowid_of_next(tsx_occurrences *o, uint64_t hash, int64_t *rowid, tsr_error *error) {
  TSX_TRY(2 * o->count < o->room ? TSR_OK : occurrences_grow(o, error));
  tsx_occurrence *found = occurrence_find(o, hash);
  if (!found->count) o->count++;
  found->hash = hash;
  *rowid = (int64_t)(found->count ? tsr_hash(hash, &found->count, sizeof found->count) : hash);
  found->count++;
  return TSR_OK;
}

static void rowids_free(tsx_occurrences *o) { sqlite3_free(o->entries); }

/* ---- A run ------------------------------------------------------------------------------------------------------- */

typedef struct run_source { /* where a value comes from in the engine's results */
  enum { SOURCE_NONE, SOURCE_KEY, SOURCE_AGGREGATE, SOURCE_COLUMN } kind;
  uint32_t number;
  const tsx_column *shows; /* the datetime column whose format its values have, or NULL */
} run_source;

struct tsx_run {
  tsx_query *query;
  tsx_plan plan;
  tsx_snapshot *snapshot;
  tsr_query_run *core;
  int64_t count, numbered, rowid; /* rows so far; `rowid` is that of row `numbered` */
  tsx_occurrences occurrences;
  bool direct; /* the items are just what the engine gives: there is no nested SELECT */
  run_source *items; /* [select.item_count], if it is direct */
  char instant[48]; /* holds the datetime text that tsx_run_value returns */
  /* over groups: */
  uint64_t group, group_count; /* `group` counts from 1 */
  /* over cells: */
  tsr_query_block block;
  uint64_t row;
  /* with a nested SELECT: */
  tsx_rows rows;
  sqlite3_stmt *statement;
  tsx_slots used;
  run_source slots[TSX_SLOT_COUNT];
  bool full; /* the slots were not enough */
};

/* ---- Rows of the engine ------------------------------------------------------------------------------------------ */

/* Adds to the error of a sum the words that it is about. */
static int run_sum_overflow(const tsx_run *run, const tsx_expr *tree, tsr_error *error) {
  return tsx_expr_fail(&run->query->select, tree->begin, tree->end, TSR_SUM_OVERFLOW ": ", "total() gives a REAL",
                       error);
}

static int run_overflow(const tsx_run *run, const tsx_lowered *lowered, uint32_t node, tsr_error *error) {
  const tsx_expr *tree = lowered->trees[node];
  const tsx_select *s = &run->query->select;
  if (error->code == TSR_RANGE) {
    const tsr_error own = *error;
    char *what = sqlite3_mprintf("%s: ", own.message);
    tsx_expr_fail(s, tree->begin, tree->end, what ? what : "", "", error);
    sqlite3_free(what);
    error->code = own.code;
    return error->code;
  }
  if (!strcmp(error->message, TSR_SUM_OVERFLOW)) return run_sum_overflow(run, tree, error);
  if (tree->kind == TSX_EXPR_BINARY && !strncmp(error->message, "integer overflow", 16))
    return tsx_expr_fail(s, tree->begin, tree->end,
                         "integer overflow past 64 bits: ", "write 1.0 * for the REAL that SQL gives", error);
  return error->code;
}

/* Adds the words of the query that an engine error is about to its message. */
static int run_error(const tsx_run *run, tsr_error *error) {
  uint32_t node = 0;
  const tsr_expression *fault = run->core ? tsr_query_fault(run->core, &node) : NULL;
  const tsx_plan *plan = &run->plan;
  if (!fault || (error->code != TSR_ERROR && error->code != TSR_RANGE)) return error->code;
  const tsx_lowered *found = plan->where.expression.nodes == fault->nodes ? &plan->where : NULL;
  for (uint32_t i = 0; i < run->query->select.group_count && !found && plan->keys; i++)
    if (plan->keys[i].lowered.expression.nodes == fault->nodes) found = &plan->keys[i].lowered;
  for (uint32_t i = 0; i < plan->aggregate_count && !found; i++) {
    if (plan->aggregates[i].argument.expression.nodes == fault->nodes) found = &plan->aggregates[i].argument;
    if (plan->aggregates[i].filter.expression.nodes == fault->nodes) found = &plan->aggregates[i].filter;
  }
  if (!found) found = tsx_windows_expression(run->query, fault->nodes);
  for (uint32_t i = 0; i < plan->column_count && !found; i++)
    if (plan->columns[i].lowered.expression.nodes == fault->nodes) found = &plan->columns[i].lowered;
  return found && node < found->expression.count ? run_overflow(run, found, node, error) : error->code;
}

static int run_advance(tsx_run *run, tsr_error *error) {
  if (run->query->over_groups) return run->group++ < run->group_count;
  if (++run->row < run->block.count) return 1;
  run->row = 0;
  const int code = tsr_query_next(run->core, &run->block, error);
  if (code <= 0) run->block.count = 0;
  return code < 0 ? run_error(run, error) : code;
}

/* Returns the column if a tree is a bare column, else NULL. */
static const tsx_column *column_of_tree(const tsx_run *run, const tsx_expr *tree) {
  tree = tsx_expr_meaning(tree);
  return tree->kind == TSX_EXPR_NAME ? &run->query->table->columns[tree->column] : NULL;
}

/* Returns a column that the values of a tree may come from, preferably a datetime, or NULL. If they are datetimes, all
 * such columns have the same datatype. */
static const tsx_column *column_of_values(const tsx_run *run, const tsx_expr *tree) {
  const tsx_column *found = column_of_tree(run, tree);
  tree = tsx_expr_meaning(tree);
  const bool chooses = tree->kind == TSX_EXPR_CASE || (tree->kind == TSX_EXPR_FUNCTION && *tree->name == 'i' &&
                                                       (!strcmp(tree->name, "iif") || !strcmp(tree->name, "if")));
  for (uint32_t i = 0; i < tree->count && (!found || found->form != TSX_DATETIME); i++)
    if (!chooses || i % 2 == 1 || i + 1 == tree->count) found = column_of_values(run, tree->operands[i]);
  return found;
}

/* Sets the column whose format the values of a source have. */
static void set_shows(const tsx_run *run, run_source *source) {
  const tsx_expr *tree = source->kind == SOURCE_KEY         ? run->query->select.group[source->number]
                         : source->kind == SOURCE_AGGREGATE ? run->plan.aggregates[source->number].tree
                         : source->kind == SOURCE_COLUMN    ? run->plan.columns[source->number].tree
                                                            : NULL;
  source->shows = tree ? column_of_values(run, tree) : NULL;
}

/* Gives the value of key k in the current group. An extra aggregate supplies it if part->least >= 0; on an axis, the
 * engine's number or coordinate is mapped to the axis's value. */
static int run_key(const tsx_run *run, uint32_t k, tsr_value *value, tsr_error *error) {
  const tsx_key_part *part = &run->plan.keys[k];
  const tsx_axis *axis = part->axis < 0 ? NULL : &run->query->axes[part->axis];
  if (part->least >= 0) {
    TSX_TRY(tsr_query_aggregate_value(run->core, run->group - 1, (uint32_t)part->least, value, error));
    if (!axis) return TSR_OK;
    const uint64_t place = (uint64_t)value->as.integer - (uint64_t)axis->low;
    if (value->type != TSR_VALUE_NULL && place < axis->count) {
      *value = axis->values[part->tree][place];
      return TSR_OK;
    }
  }
  tsr_query_key_value(run->core, run->group - 1, k, value);
  if (axis && (uint64_t)value->as.integer < part->number_count)
    *value = axis->values[part->tree][part->places[value->as.integer]];
  return TSR_OK;
}

/* Sets *value, which is NULL on entry. Assigning member by member is faster: copying a struct that was just stored in
 * pieces stalls on store forwarding. */
static void run_cell(const tsx_run *run, uint32_t i, tsr_value *value) {
  const tsx_column_part *part = &run->plan.columns[i];
  const tsr_query_column *column = &run->block.columns[i];
  const uint64_t row = run->row;
  if (column->nulls && column->nulls[row]) return;
  if (part->axis >= 0) {
    const tsx_axis *axis = &run->query->axes[part->axis];
    const uint64_t place = (uint64_t)column->as.integers[row] - (uint64_t)axis->low;
    if (place < axis->count) *value = axis->values[part->axis_tree][place];
    return;
  }
  value->type = column->type;
  switch (column->type) {
  case TSR_VALUE_TEXT:
    value->as.text.bytes = column->as.texts[row].bytes;
    value->as.text.size = column->as.texts[row].size;
    return;
  case TSR_VALUE_NUMBER:
    if (column->whole && column->whole[row]) {
      value->type = TSR_VALUE_INTEGER;
      value->as.integer = (int64_t)column->as.reals[row];
      return;
    }
    value->type = TSR_VALUE_REAL;
    value->as.real = column->as.reals[row];
    return;
  case TSR_VALUE_REAL: value->as.real = column->as.reals[row]; return;
  default: value->as.integer = column->as.integers[row];
  }
}

static int run_aggregate(const tsx_run *run, uint32_t number, tsr_value *value, tsr_error *error) {
  const int code = tsr_query_aggregate_value(run->core, run->group - 1, number, value, error);
  const tsx_expr *tree = run->plan.aggregates[number].tree;
  return code < 0 && tree && !strcmp(error->message, TSR_SUM_OVERFLOW) ? run_sum_overflow(run, tree, error) : code;
}

static int run_source_value(const tsx_run *run, const run_source *source, tsr_value *value, tsr_error *error) {
  value->type = TSR_VALUE_NULL;
  switch (source->kind) {
  case SOURCE_KEY: return run_key(run, source->number, value, error);
  case SOURCE_AGGREGATE: return run_aggregate(run, source->number, value, error);
  case SOURCE_COLUMN: run_cell(run, source->number, value); return TSR_OK;
  case SOURCE_NONE:
  default: return TSR_OK;
  }
}

static void run_instant(sqlite3_context *context, const tsx_column *shows, const tsr_value *value) {
  const tsr_column cells = {.values = (const uint8_t *)&value->as.integer, .cell_size = 8};
  if (shows) tsx_column_result(context, shows, &cells, 0, false);
}

static int run_result(const tsx_run *run, sqlite3_context *context, const run_source *source, tsr_error *error) {
  tsr_value value;
  TSX_TRY(run_source_value(run, source, &value, error));
  switch (value.type) {
  case TSR_VALUE_INTEGER: sqlite3_result_int64(context, value.as.integer); return TSR_OK;
  case TSR_VALUE_REAL: sqlite3_result_double(context, value.as.real); return TSR_OK;
  case TSR_VALUE_UNSIGNED: tsx_result_unsigned(context, value.as.unsigned_integer); return TSR_OK;
  case TSR_VALUE_INSTANT: run_instant(context, source->shows, &value); return TSR_OK;
  case TSR_VALUE_TEXT:
    sqlite3_result_text64(context, value.as.text.bytes, value.as.text.size, SQLITE_TRANSIENT, SQLITE_UTF8);
    return TSR_OK;
  case TSR_VALUE_NUMBER:
  case TSR_VALUE_OPAQUE:
  case TSR_VALUE_NULL:
  default: return TSR_OK;
  }
}

/* ---- The nested SELECT ------------------------------------------------------------------------------------------- */

static int nested_next(tsx_rows *rows, tsr_error *error) { return run_advance(rows->state, error); }

static int nested_column(tsx_rows *rows, sqlite3_context *context, int slot, tsr_error *error) {
  const tsx_run *run = rows->state;
  return run_result(run, context, &run->slots[slot], error);
}

/* Returns the source of a tree in a query over groups: a key, an aggregate or a bare column; NONE for other trees. */
static run_source source_of(const tsx_run *run, const tsx_expr *tree) {
  tree = tsx_expr_meaning(tree);
  const int key = tree->field == TSX_FIELD_NONE && tree->kind != TSX_EXPR_AGGREGATE
                      ? -1
                      : tsx_select_key(&run->query->select, tree);
  if (key >= 0) return (run_source){SOURCE_KEY, (uint32_t)key, NULL};
  if (tree->kind != TSX_EXPR_AGGREGATE && !tsx_expr_is_column(tree)) return (run_source){SOURCE_NONE, 0, NULL};
  return (run_source){SOURCE_AGGREGATE, tsx_plan_aggregate(&run->plan, tree), NULL};
}

/* Finds the slot of a source, or takes a new one. */
static int slot_of(tsx_run *run, const run_source *source, tsx_affinity affinity) {
  for (int i = 0; i < TSX_SLOT_COUNT; i++)
    if (run->slots[i].kind == source->kind && run->slots[i].number == source->number) return i;
  const int slot = tsx_slot_take(&run->used, affinity);
  if (slot < 0) {
    run->full = true;
    return slot;
  }
  run->slots[slot] = *source;
  set_shows(run, &run->slots[slot]);
  return slot;
}

static bool nested_replace(void *argument, const tsx_expr *tree, sqlite3_str *out) {
  tsx_run *run = argument;
  const run_source source = source_of(run, tree);
  if (source.kind != SOURCE_NONE) {
    const char *declared = tree->kind == TSX_EXPR_AGGREGATE ? "" : tsx_query_declared(run->query, tree);
    const int slot = slot_of(run, &source, tsx_slot_affinity(declared));
    if (slot >= 0) tsx_slot_append(out, slot);
    return true;
  }
  if (tree->kind != TSX_EXPR_NAME || !tree->alias) return false;
  tsx_words_append(out, tree->alias, nested_replace, argument);
  return true;
}

/* Writes an item or a term of ORDER BY. Over cells, it is the engine's column `number`. */
static void nested_part(tsx_run *run, sqlite3_str *out, const tsx_expr *tree, uint32_t number) {
  if (run->query->over_groups) {
    sqlite3_str_appendchar(out, 1, '(');
    if (!nested_replace(run, tree, out)) tsx_words_append(out, tree, nested_replace, run);
    sqlite3_str_appendchar(out, 1, ')');
    return;
  }
  const run_source source = {SOURCE_COLUMN, number, NULL};
  const int slot = slot_of(run, &source, TSX_SLOT_NONE);
  if (slot >= 0) tsx_slot_append(out, slot);
}

static void nested_limit(sqlite3_str *out, const tsx_select *s) {
  if (s->limit) sqlite3_str_appendf(out, " LIMIT (%.*s)", (int)(s->limit->end - s->limit->begin), s->limit->begin);
  if (s->offset) sqlite3_str_appendf(out, " OFFSET (%.*s)", (int)(s->offset->end - s->offset->begin), s->offset->begin);
}

/* Opens the nested SELECT: the items over slots, HAVING as WHERE, then ORDER BY and LIMIT as written. */
static int nested_open(tsx_run *run, tsr_error *error) {
  const tsx_select *s = &run->query->select;
  sqlite3_str *out = sqlite3_str_new(run->query->connection->db);
  sqlite3_str_appendall(out, s->distinct ? "SELECT DISTINCT " : "SELECT ");
  for (uint32_t i = 0; i < s->item_count; i++) {
    if (i) sqlite3_str_appendall(out, ", ");
    nested_part(run, out, s->items[i].tree, i);
  }
  sqlite3_str_appendall(out, TSX_ROWS_FROM);
  if (s->having) {
    sqlite3_str_appendall(out, " WHERE ");
    nested_part(run, out, s->having, 0);
  }
  uint32_t more = s->item_count;
  for (uint32_t i = 0; i < s->order_count; i++) {
    const tsx_order *order = &s->order[i];
    sqlite3_str_appendall(out, i ? ", " : " ORDER BY ");
    if (order->item >= 0) sqlite3_str_appendf(out, "%d", order->item + 1);
    else nested_part(run, out, order->tree, more++);
    sqlite3_str_appendf(out, " %.*s", (int)(order->end - order->rest), order->rest);
  }
  nested_limit(out, s);
  if (run->full) {
    sqlite3_free(sqlite3_str_finish(out));
    return tsx_fail(error, TSR_ERROR, "ORDER BY or LIMIT over more than %d columns", TSX_SLOTS_NONE);
  }
  run->rows = (tsx_rows){.next = nested_next, .column = nested_column, .state = run};
  return tsx_rows_prepare(run->query->connection, out, &run->rows, &run->statement, error);
}

/* Sets the sources of the items. Returns false if the rows need a nested SELECT. */
static bool run_direct(tsx_run *run) {
  const tsx_select *s = &run->query->select;
  if (s->having || s->order_count || s->limit || (s->distinct && run->query->over_groups)) return false;
  for (uint32_t i = 0; i < s->item_count; i++) {
    run->items[i] = run->query->over_groups ? source_of(run, s->items[i].tree) : (run_source){SOURCE_COLUMN, i, NULL};
    if (run->items[i].kind == SOURCE_NONE) return false;
    set_shows(run, &run->items[i]);
  }
  return true;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

/* Reads the argument as_of (which = 0) or since (1) of the table in FROM; leaves *time unchanged if it is absent. */
static int run_time(const tsx_query *query, int which, uint64_t *time, tsr_error *error) {
  const tsx_expr *tree = query->select.source.times[which];
  sqlite3_value *value = NULL;
  int code = tree ? tsx_query_constant(query, tree, &value, error) : TSR_OK;
  if (!tree || code < 0) return code;
  if (sqlite3_value_type(value) != SQLITE_NULL) code = tsx_time_value(value, which ? "since" : "as_of", time, error);
  sqlite3_value_free(value);
  return code;
}

static int run_snapshot(tsx_run *run, tsr_error *error) {
  tsx_query *query = run->query;
  tsx_table *table = query->table;
  uint64_t as_of = table->options.times.as_of, since = table->options.times.since;
  TSX_TRY(tsx_array_permitted(query->connection, table->array, error));
  TSX_TRY(run_time(query, 0, &as_of, error));
  TSX_TRY(run_time(query, 1, &since, error));
  TSX_TRY(tsx_array_snapshot(query->connection, table->array, table->schema, since, as_of,
                             table->array->transaction != NULL, &run->snapshot, error));
  return tsx_table_update_enumerations(table, error);
}

/* Plans the query and makes the engine's request. The order matters: the outer bounds narrow the axes, all expressions
 * are requested before the axes are evaluated, and constraints drop coordinates only then. */
static int run_prepare(tsx_run *run, tsx_outer_constraint *outer, uint32_t count, tsr_error *error) {
  tsx_query *query = run->query;
  TSX_TRY(tsx_pushdown_bounds(query, outer, count, error));
  const int any = tsx_axes_find(query, run->snapshot, error);
  if (any < 0) return any;
  run->plan.nothing = !any;
  TSX_TRY(tsx_plan_make(&run->plan, error));
  TSX_TRY(tsx_pushdown_request(query, outer, count, error));
  tsx_connection *connection = query->connection;
  const tsx_compiling running = {.outer = connection->compiling, .home = query->home, .text = query->select.text};
  connection->compiling = &running; /* a query that joins itself fails */
  int code = tsx_axes_evaluate(query, error);
  if (code >= 0) code = tsx_plan_drop_joins(&run->plan, error);
  connection->compiling = running.outer;
  if (code < 0) return code;
  if (!run->plan.nothing) TSX_TRY(tsx_pushdown_apply(&run->plan, outer, count, error));
  return tsx_plan_finish(&run->plan, error);
}

int tsx_run_check(tsx_query *query, tsr_error *error) {
  tsx_plan plan = {.query = query};
  TSX_TRY(tsx_axes_none(query, error));
  return tsx_plan_make(&plan, error);
}

/* Fails if an attribute that the query uses was dropped after its table had been connected. */
static int find_dropped(const tsx_query *query, tsr_error *error) {
  const tsx_table *table = query->table;
  const tsr_schema *newest = table->schema;
  if (table->options.times.has_as_of) return TSR_OK;
  TSX_TRY(tsr_array_schema_listed(table->array->core, TSR_TIME_NOW, &newest, error));
  for (uint32_t i = 0; newest != table->schema && i < table->column_count; i++) {
    bool shown = !query->select.meaning.used[i];
    for (uint32_t f = 0; !shown && f < newest->dimension_count + newest->attribute_count; f++)
      shown = tsx_column_shows(&table->columns[i], &newest->fields[f]);
    if (!shown)
      return tsx_fail(error, TSR_ERROR, "%s: the attribute %s has been dropped: open the database again", table->path,
                      table->columns[i].name);
  }
  return TSR_OK;
}

/* Fails if SQLite may show another value for a key than this run (tsx_key_part.least). */
static int find_mixed(const tsx_run *run, tsr_error *error) {
  for (uint32_t k = 0; k < run->query->select.group_count; k++)
    if (run->plan.keys[k].least >= 0)
      return tsx_fail(error, TSR_RANGE, "a key is INTEGER in some rows, and an equal REAL in others");
  return TSR_OK;
}

int tsx_run_prepare(tsx_query *query, tsx_outer_constraint *outer, uint32_t outer_count, tsx_run **out,
                    tsr_error *error) {
  tsx_run *run = sqlite3_malloc64(sizeof *run);
  *out = run;
  if (!run) return tsx_out_of_memory(error);
  memset(run, 0, sizeof *run);
  run->query = run->plan.query = query;
  run->items = tsx_arena_take(&query->select.arena, query->select.item_count * sizeof *run->items);
  if (!run->items) return tsx_out_of_memory(error);
  TSX_TRY(tsx_query_permitted(query, error));
  TSX_TRY(run_snapshot(run, error));
  TSX_TRY(find_dropped(query, error));
  TSX_TRY(tsx_subqueries_evaluate(query, error));
  TSX_TRY(run_prepare(run, outer, outer_count, error));
  if (query->exact) TSX_TRY(find_mixed(run, error));
  run->direct = run_direct(run);
  return TSR_OK;
}

int tsx_run_start(tsx_run *run, tsr_error *error) {
  const int code = tsr_query_start(run->snapshot->core, &run->plan.request, &run->core, error);
  if (code < 0) return run_error(run, error);
  if (run->query->over_groups) run->group_count = tsr_query_groups(run->core);
  return run->direct ? TSR_OK : nested_open(run, error);
}

int tsx_run_open(tsx_query *query, tsx_outer_constraint *outer, uint32_t outer_count, tsx_run **run, tsr_error *error) {
  TSX_TRY(tsx_run_prepare(query, outer, outer_count, run, error));
  return tsx_run_start(*run, error);
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

int tsx_run_next(tsx_run *run, tsr_error *error) {
  const int sound = tsx_snapshot_check(run->snapshot, error);
  if (sound < 0) return sound;
  run->count++;
  if (run->statement) return tsx_rows_step(run->query->connection, run->statement, error);
  return run_advance(run, error);
}

int tsx_run_column(tsx_run *run, sqlite3_context *context, uint32_t item, tsr_error *error) {
  if (!run->statement) return run_result(run, context, &run->items[item], error);
  sqlite3_result_value(context, sqlite3_column_value(run->statement, (int)item));
  return TSR_OK;
}

int tsx_run_value(tsx_run *run, uint32_t item, tsr_value *value, tsr_error *error) {
  const tsx_column *shows = run->items[item].shows;
  if (run->statement) return tsx_query_value(sqlite3_column_value(run->statement, (int)item), value, error);
  const int code = run_source_value(run, &run->items[item], value, error);
  if (code < 0 || value->type != TSR_VALUE_INSTANT || !shows) return code;
  if (shows->datetimes_integer) {
    value->type = TSR_VALUE_INTEGER;
    return TSR_OK;
  }
  const int size = tsr_datetime_print(shows->description->datatype, value->as.integer, run->instant);
  value->type = value->as.integer == INT64_MIN ? TSR_VALUE_NULL : TSR_VALUE_INTEGER; /* as tsx_column_result shows it */
  if (size <= 0) return TSR_OK;
  *value = (tsr_value){.type = TSR_VALUE_TEXT, .as.text = {.bytes = run->instant, .size = (uint64_t)size}};
  return TSR_OK;
}

int tsx_run_rowid(tsx_run *run, int64_t *rowid, tsr_error *error) {
  const tsx_query *query = run->query;
  uint64_t hash = TSX_ROWID_BEGIN;
  *rowid = run->numbered == run->count ? run->rowid : run->count;
  if (run->numbered == run->count || !tsx_pushdown_possible(query)) return TSR_OK;
  for (uint32_t i = 0; i < query->select.item_count; i++) {
    tsr_value value;
    if (query->over_groups && tsx_select_key(&query->select, query->select.items[i].tree) < 0) continue;
    TSX_TRY(tsx_run_value(run, i, &value, error));
    hash = rowid_add(hash, &value);
  }
  *rowid = (int64_t)hash; /* groups differ in their keys */
  if (!query->over_groups) TSX_TRY(rowid_of_next(&run->occurrences, hash, rowid, error));
  run->rowid = *rowid;
  run->numbered = run->count;
  return TSR_OK;
}

void tsx_run_close(tsx_run *run) {
  if (!run) return;
  sqlite3_finalize(run->statement);
  tsr_query_close(run->core);
  tsx_snapshot_release(run->snapshot);
  rowids_free(&run->occurrences);
  sqlite3_free(run);
}

/* ---- Blocks of cells --------------------------------------------------------------------------------------------- */

/* Returns true if some coordinate of an axis is left out. */
static bool axis_has_gaps(const tsx_axis *axis) {
  return axis->kept && axis->count && memchr(axis->kept, 0, axis->count) != NULL;
}

bool tsx_run_is_box(const tsx_run *run) {
  const tsx_query *query = run->query;
  bool box = run->direct && !query->over_groups && query->table->schema->dense && !run->plan.nothing &&
             run->plan.condition_count == 0 && !query->decided && query->outer_count == 0;
  for (const tsx_bound_range *b = query->bounds; b; b = b->next) box &= !b->after;
  for (uint32_t i = 0; i < query->axis_count; i++)
    if (query->table->columns[query->axes[i].column].description->is_dimension)
      box &= query->axes[i].usable && !axis_has_gaps(&query->axes[i]);
  return box;
}

bool tsx_run_axis(const tsx_run *run, uint32_t item, uint32_t *dimension, int64_t *low, uint64_t *count) {
  const tsx_expr *tree = tsx_expr_meaning(run->query->select.items[item].tree);
  if (run->plan.columns[item].axis >= 0 || run->plan.columns[item].type != TSR_VALUE_INTEGER) return false;
  for (uint32_t i = 0; i < run->query->axis_count && tree->kind == TSX_EXPR_NAME; i++) {
    const tsx_axis *axis = &run->query->axes[i];
    if (axis->column != tree->column || !run->query->table->columns[axis->column].description->is_dimension) continue;
    *dimension = (uint32_t)axis->column;
    *low = axis->low;
    *count = axis->count;
    return true;
  }
  return false;
}

void tsx_run_place(tsx_run *run, uint32_t item, const tsr_query_grid *grid) {
  run->plan.request.columns += item;
  run->plan.request.column_count = 1;
  run->plan.request.grid = grid;
}

tsr_value_type tsx_run_type(const tsx_run *run, uint32_t item) {
  const tsx_column_part *part = tsx_run_is_box(run) ? &run->plan.columns[item] : NULL;
  return part && part->axis < 0 ? part->type : TSR_VALUE_OPAQUE;
}

int tsx_run_block(tsx_run *run, const tsr_query_block **block, tsr_error *error) {
  TSX_TRY(tsx_snapshot_check(run->snapshot, error));
  const int code = tsr_query_next(run->core, &run->block, error);
  *block = &run->block;
  return code < 0 ? run_error(run, error) : code;
}

bool tsx_run_is_cells(const tsx_run *run) { return !run->statement && !run->query->over_groups; }

uint64_t tsx_run_rows(const tsx_run *run, uint64_t *row) {
  *row = run->row;
  return run->block.count;
}

void tsx_run_at(tsx_run *run, uint64_t row) {
  run->count += (int64_t)row - (int64_t)run->row;
  run->row = row;
}

/* Looks up the values of an axis. Returns false if they are not numbers of one type. */
static bool run_axis_block(const tsx_run *run, uint32_t item, uint64_t *words, uint8_t *nulls,
                           tsr_query_column *column) {
  const tsx_column_part *part = &run->plan.columns[item];
  const tsx_axis *axis = &run->query->axes[part->axis];
  const tsr_query_column *places = &run->block.columns[item];
  const tsr_value *values = axis->values[part->axis_tree];
  *column = (tsr_query_column){.type = TSR_VALUE_NULL, .nulls = nulls};
  for (uint64_t r = 0; r < run->block.count; r++) {
    const uint64_t place = (uint64_t)places->as.integers[r] - (uint64_t)axis->low;
    nulls[r] = 1;
    words[r] = 0;
    if ((places->nulls && places->nulls[r]) || place >= axis->count || values[place].type == TSR_VALUE_NULL) continue;
    if (column->type == TSR_VALUE_NULL) column->type = values[place].type;
    if (values[place].type != column->type) return false;
    if (column->type != TSR_VALUE_INTEGER && column->type != TSR_VALUE_REAL) return false;
    nulls[r] = 0;
    memcpy(&words[r], &values[place].as, sizeof *words);
  }
  column->as.unsigned_integers = words;
  return true;
}

/* Makes instants integers: NaT is NULL, as tsx_run_value has it. */
static void run_instant_block(const tsx_run *run, uint64_t *words, uint8_t *nulls, tsr_query_column *column) {
  for (uint64_t r = 0; r < run->block.count; r++) {
    words[r] = column->as.unsigned_integers[r];
    nulls[r] = (column->nulls && column->nulls[r]) || column->as.integers[r] == INT64_MIN;
  }
  column->type = TSR_VALUE_INTEGER;
  column->nulls = nulls;
  column->as.unsigned_integers = words;
}

tsr_value_type tsx_run_cell_type(const tsx_run *run, uint32_t item) {
  const uint32_t i = run->items[item].number;
  return run->plan.columns[i].axis >= 0 ? TSR_VALUE_OPAQUE : run->block.columns[i].type;
}

bool tsx_run_column_block(const tsx_run *run, uint32_t item, tsr_datatype instants, uint64_t *words, uint8_t *nulls,
                          tsr_query_column *column) {
  const run_source *source = &run->items[item];
  const uint32_t i = source->number;
  if (run->plan.columns[i].axis >= 0) return run_axis_block(run, i, words, nulls, column);
  *column = run->block.columns[i];
  const tsx_column *shows = source->shows;
  if (column->type == TSR_VALUE_INSTANT && shows && shows->form == TSX_DATETIME &&
      shows->description->datatype == instants) {
    run_instant_block(run, words, nulls, column);
    return true;
  }
  return column->type == TSR_VALUE_INTEGER || column->type == TSR_VALUE_REAL || column->type == TSR_VALUE_NULL;
}
