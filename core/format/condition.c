/* condition.c: delete conditions. A condition is the content of the generic tile in __commits/NAME.del (version 16 and
 * later), or of the tile that follows its name in a .con file.
 *
 *   node: u8 0 | u8 0 AND, 1 OR, 2 NOT | u64 count, at least 2 | nodes
 *         u8 1 | u8 operator (tsr_condition_op) | u32 length, field | u64 length, value
 *              | IN and NOT IN (version 20 and later): u64 size, u64 offsets of the values in the value
 *
 * The tree is the negation of the DELETE's condition: cells that satisfy the tree are kept. Decoding accepts at most
 * DEPTH_MAX levels, known operators, and offsets that never decrease. It refuses NOT, which TileDB cannot read either.
 * Whether values fit their fields depends on the schema, so evaluation checks that first.
 *
 * Evaluation takes blocks of CONDITION_BLOCK cells and walks the tree once per block. A comparison fills a byte mask in
 * a loop specialized for its datatype. An expression joins the masks of its children, and short-circuits once all cells
 * of the block are decided. If there is a selection, values of fixed size are first gathered into a contiguous buffer,
 * so that these loops can be vectorized.
 *
 * Guards. Deletes of single cells give an AND of many children such as (x <> 1 OR y <> 5). Each of these is true unless
 * x has one particular value: x <> 1 "guards" it. Such an AND has a hash index from values of one field to the children
 * that they guard. For each cell, only the children in the group of its value are evaluated, and the few children
 * without a guard.
 *
 * Sections: decoding; guards (building the index); evaluation: operands, a block, sets, the tree; encoding.
 */
#include "format/condition.h"

#include <stdlib.h>
#include <string.h>

#include "model/datatype.h"
#include "base/arithmetic.h"
#include "base/hash.h"

#define DEPTH_MAX 256
/* bytes of the smallest comparison; an expression, which holds two nodes, is never smaller */
#define NODE_MIN        14
#define CONDITION_BLOCK 1024

enum { CONDITION_NODE_EXPRESSION = 0, CONDITION_NODE_COMPARISON = 1 };
enum { JOIN_AND = 0, JOIN_OR = 1, JOIN_NOT = 2 };

#define GUARDS_FROM  16 /* fewest guarded children for which an index pays off */
#define GUARD_FIELDS 16 /* most fields to try as the key of an index */

/* The values of IN or NOT IN, sorted. If all values have one size of 1, 2, 4 or 8 bytes, they are stored as integers,
 * else as slices. */
typedef struct tsr_condition_set {
  uint64_t count;
  uint64_t width; /* of a value in bytes, if `keys` is used; 0: `slices` is used */
  uint64_t *keys;
  tsr_slice *slices;
} tsr_condition_set;

/* A hash index from values of one field to the children of an AND that are true unless the field has that value. The
 * children of one value form a group. */
typedef struct tsr_condition_guards {
  uint32_t field; /* field number */
  tsr_hash_index index; /* of the groups, over slots in the arena */
  uint64_t *keys; /* of each group: its value (guard_key) */
  uint32_t *firsts; /* of each group: where it begins in `children`; one more entry for the end */
  uint32_t *children; /* numbers of the guarded children, group by group */
  uint32_t other_count;
  uint32_t *others; /* numbers of the children without a guard, which are always evaluated */
} tsr_condition_guards;

static bool is_set(uint8_t op) { return op == TSR_IN || op == TSR_NOT_IN; }

/* ---- Decoding ---------------------------------------------------------------------------------------------------- */

typedef struct condition_decoder {
  tsr_input *in;
  tsr_arena *arena;
  tsr_error *error;
  uint32_t depth;
  uint64_t comparisons;
} condition_decoder;

static int compare_keys(const void *a, const void *b) {
  uint64_t x, y;
  memcpy(&x, a, 8);
  memcpy(&y, b, 8);
  return x < y ? -1 : x > y;
}

static uint64_t load_key(const uint8_t *bytes, uint64_t width) {
  uint64_t key = 0;
  memcpy(&key, bytes, width);
  return key;
}

static int make_set(condition_decoder *d, tsr_condition_node *node) {
  uint64_t count = node->value_count, width = count ? node->value_offsets[1] - node->value_offsets[0] : 0;
  tsr_condition_set *set;
  TSR_TRY(TSR_ARENA_ARRAY(d->arena, 1, &set, d->error));
  set->count = count;
  if (width != 1 && width != 2 && width != 4 && width != 8) width = 0;
  for (uint64_t i = 0; i < count; i++)
    if (node->value_offsets[i + 1] - node->value_offsets[i] != width) width = 0;
  set->width = width;
  if (width) {
    TSR_TRY(TSR_ARENA_ARRAY(d->arena, count, &set->keys, d->error));
    for (uint64_t i = 0; i < count; i++) set->keys[i] = load_key(node->value + node->value_offsets[i], width);
    qsort(set->keys, count, 8, compare_keys);
  } else {
    TSR_TRY(TSR_ARENA_ARRAY(d->arena, count, &set->slices, d->error));
    for (uint64_t i = 0; i < count; i++) {
      uint64_t at = node->value_offsets[i];
      set->slices[i] = (tsr_slice){node->value + at, node->value_offsets[i + 1] - at};
    }
    qsort(set->slices, count, sizeof(tsr_slice), tsr__slices_compare);
  }
  node->set = set;
  return TSR_OK;
}

static int read_set(condition_decoder *d, tsr_condition_node *node) {
  uint64_t size = tsr__input_u64(d->in);
  const uint8_t *stored = tsr__input_take(d->in, size);
  TSR_TRY(tsr__input_check(d->in, "it", d->error));
  uint64_t count = size / 8;
  if (size % 8 || (!count && node->value_size))
    return tsr__fail(d->error, TSR_CORRUPT, "%llu bytes of offsets for %llu bytes of values", (unsigned long long)size,
                     (unsigned long long)node->value_size);
  uint64_t *offsets;
  TSR_TRY(TSR_ARENA_ARRAY(d->arena, count + 1, &offsets, d->error));
  offsets[count] = node->value_size;
  for (uint64_t i = 0; i < count; i++) offsets[i] = tsr__load64(stored + 8 * i);
  for (uint64_t i = 0; i < count; i++)
    if (offsets[i] > offsets[i + 1])
      return tsr__fail(d->error, TSR_CORRUPT, "value %llu ends before it begins, at byte %llu of %llu",
                       (unsigned long long)i, (unsigned long long)offsets[i], (unsigned long long)node->value_size);
  node->value_offsets = offsets;
  node->value_count = count;
  return make_set(d, node);
}

static int read_comparison(condition_decoder *d, tsr_condition_node *node) {
  node->op = tsr__input_u8(d->in);
  uint64_t name_size = tsr__input_u32(d->in);
  const uint8_t *name = tsr__input_take(d->in, name_size);
  node->value_size = tsr__input_u64(d->in);
  const uint8_t *value = tsr__input_take(d->in, node->value_size);
  TSR_TRY(tsr__input_check(d->in, "it", d->error));
  if (node->op > TSR_NOT_IN && node->op != TSR_ALWAYS_TRUE && node->op != TSR_ALWAYS_FALSE)
    return tsr__fail(d->error, TSR_CORRUPT, "operator %u is unknown", node->op);
  if (memchr(name, 0, name_size)) return tsr__fail(d->error, TSR_CORRUPT, "a field's name holds a NUL byte");
  TSR_TRY(TSR_ARENA_COPY(d->arena, name, name_size, &node->field, d->error));
  TSR_TRY(TSR_ARENA_COPY(d->arena, value, node->value_size, &node->value, d->error));
  d->comparisons++;
  return is_set(node->op) ? read_set(d, node) : TSR_OK;
}

/* Recursive, at most DEPTH_MAX calls deep. */
static int read_node(condition_decoder *d, tsr_condition_node *node, uint32_t depth) {
  if (depth > DEPTH_MAX) return tsr__fail(d->error, TSR_CORRUPT, "its tree has more than %d levels", DEPTH_MAX);
  d->depth = TSR_MAX(d->depth, depth);
  uint8_t type = tsr__input_u8(d->in);
  TSR_TRY(tsr__input_check(d->in, "it", d->error));
  if (type == CONDITION_NODE_COMPARISON) return read_comparison(d, node);
  if (type != CONDITION_NODE_EXPRESSION) return tsr__fail(d->error, TSR_CORRUPT, "node type %u is unknown", type);

  node->expression = true;
  node->op = tsr__input_u8(d->in);
  uint64_t count = tsr__input_u64(d->in);
  TSR_TRY(tsr__input_check(d->in, "it", d->error));
  if (node->op > JOIN_NOT) return tsr__fail(d->error, TSR_CORRUPT, "combination %u is unknown", node->op);
  if (node->op == JOIN_NOT) return tsr__fail(d->error, TSR_UNSUPPORTED, "it holds a NOT");
  if (count < 2 || count > UINT32_MAX || !tsr__input_fits(d->in, count, NODE_MIN))
    return tsr__fail(d->error, TSR_CORRUPT, "an expression of %llu nodes, with %llu bytes left",
                     (unsigned long long)count, (unsigned long long)tsr__input_left(d->in));
  TSR_TRY(TSR_ARENA_ARRAY(d->arena, count, &node->children, d->error));
  node->child_count = (uint32_t)count;
  for (uint64_t i = 0; i < count; i++) TSR_TRY(read_node(d, node->children + i, depth + 1));
  return TSR_OK;
}

static void collect(tsr_condition_node *node, tsr_condition_node ***next) {
  if (!node->expression) *(*next)++ = node;
  for (uint32_t i = 0; i < node->child_count; i++) collect(node->children + i, next);
}

static int compare_fields(const void *a, const void *b) {
  const tsr_condition_node *const *x = a, *const *y = b;
  return strcmp((*x)->field, (*y)->field);
}

/* Adds a comparison to what its field is compared with. */
static void note_values(const tsr_condition_node *node, bool first, tsr_condition_values *values) {
  const bool single = !is_set(node->op) && node->op != TSR_ALWAYS_TRUE && node->op != TSR_ALWAYS_FALSE;
  if (first) *values = (tsr_condition_values){single, node->value_size};
  values->single &= single;
  if (values->size != node->value_size) values->size = UINT64_MAX;
}

/* Lists the fields of the condition, and sets the field number of each comparison. */
static int number_fields(condition_decoder *d, tsr_condition *condition) {
  tsr_condition_node **all;
  TSR_TRY(TSR_ALLOC_ARRAY(d->arena->memory, d->comparisons, &all, d->error));
  tsr_condition_node **next = all;
  collect(&condition->root, &next);
  qsort(all, d->comparisons, sizeof *all, compare_fields);
  uint32_t number = 0;
  for (uint64_t i = 0; i < d->comparisons; i++) {
    if (i && compare_fields(all + i - 1, all + i)) number++;
    all[i]->field_number = number;
  }
  condition->field_count = number + 1;
  int rc = TSR_ARENA_ARRAY(d->arena, condition->field_count, &condition->fields, d->error);
  if (rc >= 0) rc = TSR_ARENA_ARRAY(d->arena, condition->field_count, &condition->values, d->error);
  if (rc >= 0) {
    for (uint64_t i = 0; i < d->comparisons; i++) condition->fields[all[i]->field_number] = all[i]->field;
    for (uint64_t i = 0; i < d->comparisons; i++)
      note_values(all[i], i == 0 || all[i - 1]->field_number != all[i]->field_number,
                  &condition->values[all[i]->field_number]);
  }
  tsr__free(all);
  return rc;
}

/* ---- Guards ------------------------------------------------------------------------------------------------------ */

static uint64_t guard_key(const uint8_t *value, uint64_t size) {
  if (size <= 8) return load_key(value, size);
  return tsr__hash_bytes(0, value, size);
}

/* Returns true for values that may be a floating-point zero of either sign. Both zeros compare equal but have different
 * bytes, so they cannot be keys of the index. */
static bool condition_is_zero(const tsr_condition_node *node) {
  if (node->value_size != 4 && node->value_size != 8) return false;
  uint64_t bits = load_key(node->value, node->value_size);
  return (bits & ~(UINT64_C(1) << (8 * node->value_size - 1))) == 0;
}

/* Returns the comparison FIELD <> VALUE that guards the child: the child itself or, if it is an OR, one of its
 * children. NULL if there is none. */
static const tsr_condition_node *guard_of(const tsr_condition_node *child, uint32_t field) {
  const tsr_condition_node *nodes = child->expression && child->op == JOIN_OR ? child->children : child;
  uint32_t count = child->expression ? (child->op == JOIN_OR ? child->child_count : 0) : 1;
  for (uint32_t i = 0; i < count; i++)
    if (!nodes[i].expression && nodes[i].op == TSR_NE && nodes[i].field_number == field && nodes[i].value_size &&
        !condition_is_zero(nodes + i))
      return nodes + i;
  return NULL;
}

typedef struct keyed {
  uint64_t key;
  uint32_t child;
} keyed;

static int compare_keyed(const void *a, const void *b) {
  const keyed *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->child < y->child ? -1 : x->child > y->child;
}

/* Fills `all` with the children that a comparison of the field guards, sorted by key, and returns their number. The
 * numbers of all other children go to `others`, if that is not NULL. */
static uint32_t sort_guards(const tsr_condition_node *node, uint32_t field, keyed *all, uint32_t *others) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < node->child_count; i++) {
    const tsr_condition_node *guard = guard_of(node->children + i, field);
    if (guard) all[count++] = (keyed){guard_key(guard->value, guard->value_size), i};
    else if (others) *others++ = i;
  }
  qsort(all, count, sizeof *all, compare_keyed);
  return count;
}

/* The cost of an index over this field: how many children are evaluated on average for a cell that the condition names,
 * namely all children without a guard and those of one group. UINT64_MAX: an index over this field does not pay off. */
static uint64_t weigh_guards(const tsr_condition_node *node, uint32_t field, keyed *all) {
  const uint32_t count = sort_guards(node, field, all, NULL);
  uint64_t squares = 0;
  if (count < GUARDS_FROM) return UINT64_MAX;
  for (uint32_t first = 0, i = 1; i <= count; i++) {
    if (i < count && all[i].key == all[first].key) continue;
    squares += (uint64_t)(i - first) * (i - first);
    first = i;
  }
  return node->child_count - count + squares / count;
}

static int fill_guards(condition_decoder *d, const tsr_condition_node *node, keyed *all, tsr_condition_guards *g) {
  uint32_t groups = 0;
  TSR_TRY(TSR_ARENA_ARRAY(d->arena, tsr__mul_sat(2, (uint64_t)node->child_count + 1), &g->children, d->error));
  g->others = g->children + node->child_count;
  const uint32_t count = sort_guards(node, g->field, all, g->others);
  g->other_count = node->child_count - count;
  for (uint32_t i = 0; i < count; i++) groups += !i || all[i].key != all[i - 1].key;
  g->index.mask = tsr__hash_slots_for(groups) - 1;
  TSR_TRY(TSR_ARENA_ARRAY(d->arena, g->index.mask + 1, &g->index.slots, d->error));
  TSR_TRY(TSR_ARENA_ARRAY(d->arena, groups, &g->keys, d->error));
  TSR_TRY(TSR_ARENA_ARRAY(d->arena, (uint64_t)groups + 1, &g->firsts, d->error));
  groups = 0;
  for (uint32_t i = 0; i < count; i++) {
    g->children[i] = all[i].child;
    if (i && all[i].key == all[i - 1].key) continue;
    tsr__hash_add(&g->index, all[i].key, groups);
    g->keys[groups] = all[i].key;
    g->firsts[groups++] = i;
  }
  g->firsts[groups] = count;
  return TSR_OK;
}

/* Builds the index over the field of lowest cost, if an index pays off at all. */
static int make_guards(condition_decoder *d, tsr_condition_node *node, uint32_t fields) {
  keyed *all;
  tsr_condition_guards *g;
  uint64_t least = UINT64_MAX;
  TSR_TRY(TSR_ARENA_ARRAY(d->arena, 1, &g, d->error));
  TSR_TRY(TSR_ALLOC_ARRAY(d->arena->memory, node->child_count, &all, d->error));
  for (uint32_t f = 0; f < fields && f < GUARD_FIELDS; f++) {
    const uint64_t weight = weigh_guards(node, f, all);
    if (weight < least) g->field = f;
    least = TSR_MIN(least, weight);
  }
  int rc = least < UINT64_MAX ? fill_guards(d, node, all, g) : TSR_OK;
  tsr__free(all);
  if (rc >= 0 && least < UINT64_MAX) node->guards = g;
  return rc;
}

/* Builds the indexes of all nodes. Recursive, as deep as the tree. */
static int guard_tree(condition_decoder *d, tsr_condition_node *node, uint32_t fields) {
  for (uint32_t i = 0; i < node->child_count; i++)
    if (node->children[i].expression) TSR_TRY(guard_tree(d, node->children + i, fields));
  if (!node->expression || node->op != JOIN_AND || node->child_count < GUARDS_FROM) return TSR_OK;
  return make_guards(d, node, fields);
}

static int condition_decode(condition_decoder *d, const char *name, tsr_condition *condition) {
  TSR_TRY(TSR_ARENA_COPY(d->arena, name, strlen(name), &condition->name, d->error));
  TSR_TRY(read_node(d, &condition->root, 1));
  if (tsr__input_left(d->in))
    return tsr__fail(d->error, TSR_CORRUPT, "%llu bytes follow its end", (unsigned long long)tsr__input_left(d->in));
  condition->depth = d->depth;
  condition->comparisons = d->comparisons;
  TSR_TRY(number_fields(d, condition));
  return guard_tree(d, &condition->root, condition->field_count);
}

int tsr__condition_decode(tsr_input *in, const char *name, uint64_t time, tsr_arena *arena, tsr_condition *condition,
                          tsr_error *error) {
  tsr_condition c = {.time = time};
  condition_decoder d = {in, arena, error, 0, 0};
  int rc = condition_decode(&d, name, &c);
  if (rc < 0)
    tsr__wrap(error, "delete condition '%s', byte %llu of %llu", name, (unsigned long long)in->at,
              (unsigned long long)in->size);
  else *condition = c;
  return rc;
}

/* ---- Evaluation: operands ---------------------------------------------------------------------------------------- */

typedef enum compared_as {
  AS_NUMBER, /* one number, datetime or time per cell */
  AS_CHAR, /* CHAR of fixed size: the first byte, as a signed number; IN and NOT IN compare all bytes */
  AS_TEXT, /* all bytes of the cell, unsigned */
  AS_NOTHING /* TileDB cannot compare this datatype */
} compared_as;

typedef struct operand { /* the cells of one field */
  const tsr_field *field;
  const tsr_column *column;
  compared_as as;
  uint8_t *gathered, *gathered_validity; /* buffers for the cells of one block */
  const uint8_t *values, *validity; /* of the block's cells, contiguous; `values` is set only for AS_NUMBER */
} operand;

typedef struct evaluation {
  operand *operands;
  uint32_t operand_count;
  /* the cells' fragment lacks one of the fields: an OR may be false although one of its children is true */
  bool lacking;
  const uint32_t *selection;
  uint64_t first, count; /* the block: cells first to first + count - 1 of the selection */
  uint8_t *scratch; /* a mask of CONDITION_BLOCK bytes for each level of the tree */
  tsr_error *error;
} evaluation;

static compared_as class_of(const tsr_field *field) {
  bool one = field->values_per_cell == 1;
  switch (tsr_datatype_kind(field->datatype)) {
  case TSR_KIND_TEXT:
    if (field->datatype == TSR_ASCII || field->datatype == TSR_UTF8) return AS_TEXT;
    if (field->datatype == TSR_CHAR) return field->values_per_cell == TSR_VARIABLE ? AS_TEXT : AS_CHAR;
    return AS_NOTHING;
  case TSR_KIND_BYTES: return AS_NOTHING;
  default: return one ? AS_NUMBER : AS_NOTHING;
  }
}

/* Returns true if the comparison is a test for null, which is stored as a comparison with an empty value. TileDB writes
 * such conditions and cannot read them back for fields of fixed size (errata.md). For a text field the stored form
 * cannot be told from a comparison with ''. */
static bool is_null_test(const tsr_condition_node *node, const tsr_field *field) {
  const compared_as as = class_of(field);
  return (node->op == TSR_EQ || node->op == TSR_NE) && !node->value_size && field->nullable &&
         (as == AS_NUMBER || as == AS_NOTHING);
}

/* Returns the size of the comparison's value that does not have the size of the field's cells, in bytes; the size of
 * the cells if all values have it. */
static uint64_t odd_size(const tsr_condition_node *node, const tsr_field *field) {
  const uint64_t cell = field->cell_size;
  if (!is_set(node->op)) return class_of(field) == AS_NUMBER ? node->value_size : cell;
  for (uint64_t i = 0; i < node->value_count && cell; i++)
    if (node->value_offsets[i + 1] - node->value_offsets[i] != cell)
      return node->value_offsets[i + 1] - node->value_offsets[i];
  return cell;
}

static bool fits(const tsr_condition_node *node, uint32_t number, const tsr_field *field) {
  for (uint32_t i = 0; node->expression && i < node->child_count; i++)
    if (!fits(node->children + i, number, field)) return false;
  if (node->expression || node->field_number != number || is_null_test(node, field)) return true;
  return class_of(field) != AS_NOTHING && odd_size(node, field) == field->cell_size;
}

bool tsr__condition_fits(const tsr_condition *condition, const tsr_field *field) {
  for (uint32_t i = 0; i < condition->field_count; i++)
    if (strcmp(condition->fields[i], field->name) == 0) return fits(&condition->root, i, field);
  return true;
}

static int check_node(const evaluation *e, const tsr_condition_node *node) {
  if (node->expression) {
    for (uint32_t i = 0; i < node->child_count; i++) TSR_TRY(check_node(e, node->children + i));
    return TSR_OK;
  }
  const operand *o = e->operands + node->field_number;
  if (is_null_test(node, o->field) || node->op == TSR_ALWAYS_TRUE || node->op == TSR_ALWAYS_FALSE) return TSR_OK;
  if (o->as == AS_NOTHING)
    return tsr__fail(e->error, TSR_UNSUPPORTED, "it compares field '%s', cells of %s", node->field,
                     tsr_datatype_name(o->field->datatype));
  const uint64_t cell = o->field->cell_size, size = odd_size(node, o->field);
  if (size != cell)
    return tsr__fail(e->error, TSR_CORRUPT, "it compares field '%s', %llu bytes of %s, with %llu bytes", node->field,
                     (unsigned long long)cell, tsr_datatype_name(o->field->datatype), (unsigned long long)size);
  return TSR_OK;
}

/* Returns true if check_node would find nothing, which the values' sizes tell without a walk over the tree: a condition
 * that deletes many single cells has a comparison for each coordinate, and a lookup evaluates it on one cell. */
static bool is_checked(const evaluation *e, const tsr_condition *condition) {
  if (!condition->values) return false;
  for (uint32_t i = 0; i < condition->field_count; i++) {
    const operand *o = e->operands + i;
    const tsr_condition_values *values = &condition->values[i];
    if (!values->single || o->as == AS_NOTHING || (o->as == AS_NUMBER && values->size != o->field->cell_size))
      return false;
  }
  return true;
}

/* ---- Evaluation: a block ----------------------------------------------------------------------------------------- */

static uint64_t cell_of(const evaluation *e, const operand *o, uint64_t row) {
  if (o->column->constant) return 0;
  return e->selection ? e->selection[e->first + row] : e->first + row;
}

static void gather_bytes(const evaluation *e, const operand *o, const uint8_t *from, uint64_t width, uint8_t *to) {
#define GATHER(w)                                                                                                      \
  case w:                                                                                                              \
    for (uint64_t r = 0; r < e->count; r++) memcpy(to + r * w, from + cell_of(e, o, r) * w, w);                        \
    break
  switch (width) {
    GATHER(1);
    GATHER(2);
    GATHER(4);
    GATHER(8);
  }
#undef GATHER
}

static void condition_place(const evaluation *e, operand *o) {
  if (o->column->unwritten) return;
  const uint8_t *values = o->column->values, *validity = o->column->validity;
  uint64_t width = o->field->cell_size;
  bool as_it_stands = !e->selection && !o->column->constant;
  if (o->as == AS_NUMBER) {
    if (as_it_stands) o->values = values + e->first * width;
    else gather_bytes(e, o, values, width, o->gathered);
  }
  if (validity) {
    if (as_it_stands) o->validity = validity + e->first;
    else gather_bytes(e, o, validity, 1, o->gathered_validity);
  }
}

#define EACH(OPERATOR)                                                                                                 \
  for (uint64_t r = 0; r < count; r++) {                                                                               \
    memcpy(&v, values + r * sizeof v, sizeof v);                                                                       \
    mask[r] = v OPERATOR x;                                                                                            \
  }                                                                                                                    \
  break
#define COMPARE_NUMBERS(NAME, TYPE)                                                                                    \
  static void compare_##NAME(uint8_t op, const uint8_t *values, const uint8_t *value, uint64_t count, uint8_t *mask) { \
    TYPE v, x;                                                                                                         \
    memcpy(&x, value, sizeof x);                                                                                       \
    switch (op) {                                                                                                      \
    case TSR_LT: EACH(<);                                                                                              \
    case TSR_LE: EACH(<=);                                                                                             \
    case TSR_GT: EACH(>);                                                                                              \
    case TSR_GE: EACH(>=);                                                                                             \
    case TSR_EQ: EACH(==);                                                                                             \
    default: EACH(!=);                                                                                                 \
    }                                                                                                                  \
  }
COMPARE_NUMBERS(i8, int8_t)
COMPARE_NUMBERS(u8, uint8_t)
COMPARE_NUMBERS(i16, int16_t)
COMPARE_NUMBERS(u16, uint16_t)
COMPARE_NUMBERS(i32, int32_t)
COMPARE_NUMBERS(u32, uint32_t)
COMPARE_NUMBERS(i64, int64_t)
COMPARE_NUMBERS(u64, uint64_t)
COMPARE_NUMBERS(f32, float)
COMPARE_NUMBERS(f64, double)

static void compare_numbers(const tsr_condition_node *node, const operand *o, uint64_t count, uint8_t *mask) {
#define COMPARE(NAME) compare_##NAME(node->op, o->values, node->value, count, mask)
  switch (o->field->datatype) {
  case TSR_INT8: COMPARE(i8); break;
  case TSR_BOOL:
  case TSR_UINT8: COMPARE(u8); break;
  case TSR_INT16: COMPARE(i16); break;
  case TSR_UINT16: COMPARE(u16); break;
  case TSR_INT32: COMPARE(i32); break;
  case TSR_UINT32: COMPARE(u32); break;
  case TSR_UINT64: COMPARE(u64); break;
  case TSR_FLOAT32: COMPARE(f32); break;
  case TSR_FLOAT64: COMPARE(f64); break;
  default: COMPARE(i64); break; /* INT64, datetimes, times */
  }
#undef COMPARE
}

static tsr_slice text_of(const evaluation *e, const operand *o, uint64_t row) {
  uint64_t i = cell_of(e, o, row), cell = o->field->cell_size;
  const uint8_t *values = o->column->values;
  if (cell) return (tsr_slice){values + i * cell, cell};
  uint64_t at = o->column->offsets[i];
  return (tsr_slice){values + at, o->column->offsets[i + 1] - at};
}

/* For each operator: bits 0 to 2 say whether it is true where the cell is less than, equal to or greater than the
 * value. */
static const uint8_t satisfied[] = {[TSR_LT] = 1, [TSR_LE] = 3, [TSR_GT] = 4, [TSR_GE] = 6, [TSR_EQ] = 2, [TSR_NE] = 5};

static void condition_compare_texts(const evaluation *e, const tsr_condition_node *node, const operand *o,
                                    uint8_t *mask) {
  const uint8_t *value = node->value;
  uint64_t size = node->value_size;
  unsigned bits = satisfied[node->op];
  if (node->op == TSR_EQ || node->op == TSR_NE) {
    for (uint64_t r = 0; r < e->count; r++) {
      tsr_slice text = text_of(e, o, r);
      mask[r] = (text.size == size && !memcmp(text.bytes, value, size)) == (node->op == TSR_EQ);
    }
    return;
  }
  for (uint64_t r = 0; r < e->count; r++) {
    tsr_slice text = text_of(e, o, r);
    int order = tsr__bytes_compare(text.bytes, text.size, value, size);
    mask[r] = bits >> ((order > 0) - (order < 0) + 1) & 1;
  }
}

static void compare_chars(const evaluation *e, const tsr_condition_node *node, const operand *o, uint8_t *mask) {
  int8_t x = node->value_size ? (int8_t)node->value[0] : 0;
  unsigned bits = satisfied[node->op];
  for (uint64_t r = 0; r < e->count; r++) {
    int8_t v = (int8_t)text_of(e, o, r).bytes[0];
    mask[r] = bits >> ((v > x) - (v < x) + 1) & 1;
  }
}

/* ---- Sets -------------------------------------------------------------------------------------------------------- */

static bool condition_has_key(const tsr_condition_set *set, uint64_t key) {
  const uint64_t *base = set->keys;
  for (uint64_t count = set->count; count > 1; count -= count / 2) base += base[count / 2] <= key ? count / 2 : 0;
  return *base == key;
}

static bool condition_has_text(const tsr_condition_set *set, tsr_slice text) {
  if (set->width) return text.size == set->width && condition_has_key(set, load_key(text.bytes, set->width));
  uint64_t low = 0, high = set->count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    int order = tsr__slices_compare(&text, set->slices + middle);
    if (!order) return true;
    if (order < 0) high = middle;
    else low = middle + 1;
  }
  return false;
}

static void find_in_set(const evaluation *e, const tsr_condition_node *node, const operand *o, uint8_t *mask) {
  const tsr_condition_set *set = node->set;
  bool in = node->op == TSR_IN;
  uint64_t width = o->field->cell_size;
  if (!set->count) {
    memset(mask, !in, e->count);
    return;
  }
  if (o->as != AS_NUMBER) {
    for (uint64_t r = 0; r < e->count; r++) mask[r] = condition_has_text(set, text_of(e, o, r)) == in;
    return;
  }
#define FIND(TYPE)                                                                                                     \
  case sizeof(TYPE):                                                                                                   \
    for (uint64_t r = 0; r < e->count; r++) {                                                                          \
      TYPE v;                                                                                                          \
      memcpy(&v, o->values + r * sizeof v, sizeof v);                                                                  \
      mask[r] = condition_has_key(set, v) == in;                                                                       \
    }                                                                                                                  \
    break
  switch (width) {
    FIND(uint8_t);
    FIND(uint16_t);
    FIND(uint32_t);
    FIND(uint64_t);
  }
#undef FIND
}

/* ---- The tree ---------------------------------------------------------------------------------------------------- */

static void evaluate_comparison(const evaluation *e, const tsr_condition_node *node, uint8_t *mask) {
  const operand *o = e->operands + node->field_number;
  if (o->column->unwritten) {
    memset(mask, 0, e->count);
    return;
  }
  if (is_null_test(node, o->field)) {
    bool null = node->op == TSR_EQ;
    for (uint64_t r = 0; r < e->count; r++) mask[r] = (o->validity && !o->validity[r]) == null;
    return;
  }
  if (node->op == TSR_ALWAYS_TRUE || node->op == TSR_ALWAYS_FALSE) memset(mask, node->op == TSR_ALWAYS_TRUE, e->count);
  else if (is_set(node->op)) find_in_set(e, node, o, mask);
  else if (o->as == AS_NUMBER) compare_numbers(node, o, e->count, mask);
  else if (o->as == AS_CHAR) compare_chars(e, node, o, mask);
  else condition_compare_texts(e, node, o, mask);
  if (o->validity)
    for (uint64_t r = 0; r < e->count; r++) mask[r] &= o->validity[r] != 0;
}

/* Returns the first child of an expression to evaluate. In an OR, TileDB ignores all children before the last
 * comparison of an attribute that the fragment lacks, and results must be the same as TileDB's. */
static uint32_t condition_first_child(const evaluation *e, const tsr_condition_node *node) {
  uint32_t first = node->child_count;
  if (node->op != JOIN_OR) return 0;
  while (first-- > 0) {
    const tsr_condition_node *child = node->children + first;
    if (!child->expression && e->operands[child->field_number].column->unwritten) return first;
  }
  return 0;
}

static bool all_are(const uint8_t *mask, uint64_t count, uint8_t value) { return !memchr(mask, !value, count); }

static void evaluate_node(const evaluation *e, const tsr_condition_node *node, uint32_t level, uint8_t *mask);

static uint64_t key_at(const evaluation *e, const operand *o, uint64_t row) {
  if (o->as == AS_NUMBER) return load_key(o->values + row * o->field->cell_size, o->field->cell_size);
  tsr_slice text = text_of(e, o, row);
  return guard_key(text.bytes, text.size);
}

/* Sets *group to the number of the key's group. Returns false if no group has the key. */
static bool find_group(const tsr_condition_guards *g, uint64_t key, uint32_t *group) {
  uint64_t slot = tsr__hash_slot(&g->index, key);
  for (; tsr__hash_item(&g->index, slot, group); slot = tsr__hash_next(&g->index, slot))
    if (g->keys[*group] == key) return true;
  return false;
}

/* Shifts the start of the operands' blocks by `rows` cells, which may be negative. */
static void move_operands(const evaluation *e, uint32_t count, int64_t rows) {
  for (uint32_t i = 0; i < count; i++) {
    operand *o = e->operands + i;
    if (o->as == AS_NUMBER && !o->column->unwritten) o->values += rows * (int64_t)o->field->cell_size;
    if (o->validity) o->validity += rows;
  }
}

static void evaluate_guarded(const evaluation *e, const tsr_condition_node *node, uint32_t level, uint8_t *mask) {
  const tsr_condition_guards *g = node->guards;
  const operand *o = e->operands + g->field;
  uint8_t *other = e->scratch + (uint64_t)level * CONDITION_BLOCK;
  memset(mask, 1, e->count);
  for (uint32_t i = 0; i < g->other_count; i++) {
    evaluate_node(e, node->children + g->others[i], level + 1, other);
    for (uint64_t r = 0; r < e->count; r++) mask[r] &= other[r];
  }
  for (uint64_t begin = 0, end; begin < e->count; begin = end) {
    uint64_t key = key_at(e, o, begin);
    for (end = begin + 1; end < e->count && key_at(e, o, end) == key;) end++;
    uint32_t group;
    if (!find_group(g, key, &group)) continue;
    evaluation part = *e;
    part.first += begin;
    part.count = end - begin;
    move_operands(e, e->operand_count, (int64_t)begin);
    for (uint32_t i = g->firsts[group]; i < g->firsts[group + 1]; i++) {
      evaluate_node(&part, node->children + g->children[i], level + 1, other);
      for (uint64_t r = 0; r < part.count; r++) mask[begin + r] &= other[r];
    }
    move_operands(e, e->operand_count, -(int64_t)begin);
  }
}

static bool is_guarded(const evaluation *e, const tsr_condition_node *node) {
  if (!node->guards || e->lacking) return false;
  const operand *o = e->operands + node->guards->field;
  return !o->column->validity && (o->as == AS_NUMBER || o->as == AS_TEXT);
}

static void evaluate_node(const evaluation *e, const tsr_condition_node *node, uint32_t level, uint8_t *mask) {
  if (!node->expression) {
    evaluate_comparison(e, node, mask);
    return;
  }
  if (is_guarded(e, node)) {
    evaluate_guarded(e, node, level, mask);
    return;
  }
  uint8_t *other = e->scratch + (uint64_t)level * CONDITION_BLOCK, decided = node->op == JOIN_OR;
  uint32_t i = condition_first_child(e, node);
  evaluate_node(e, node->children + i, level + 1, mask);
  for (i++; i < node->child_count && !all_are(mask, e->count, decided); i++) {
    evaluate_node(e, node->children + i, level + 1, other);
    if (node->op == JOIN_AND)
      for (uint64_t r = 0; r < e->count; r++) mask[r] &= other[r];
    else
      for (uint64_t r = 0; r < e->count; r++) mask[r] |= other[r];
  }
}

static int condition_prepare(const tsr_condition *condition, tsr_column_getter column, void *argument, evaluation *e,
                             uint8_t *room) {
  for (uint32_t i = 0; i < condition->field_count; i++, room += 9 * CONDITION_BLOCK) {
    operand *o = e->operands + i;
    int rc = column(argument, condition->fields[i], &o->field, &o->column, e->error);
    if (rc < 0) return rc;
    o->as = class_of(o->field);
    e->lacking = e->lacking || o->column->unwritten;
    o->values = o->gathered = room;
    o->gathered_validity = room + 8 * CONDITION_BLOCK;
    if (o->column->validity) o->validity = o->gathered_validity;
  }
  return is_checked(e, condition) ? TSR_OK : check_node(e, &condition->root);
}

static int evaluate(const tsr_condition *condition, tsr_column_getter column, void *argument, evaluation *e,
                    uint8_t *room, uint64_t count, uint8_t *keep) {
  TSR_TRY(condition_prepare(condition, column, argument, e, room));
  for (e->first = 0; e->first < count; e->first += CONDITION_BLOCK) {
    e->count = TSR_MIN(count - e->first, CONDITION_BLOCK);
    for (uint32_t i = 0; i < condition->field_count; i++) condition_place(e, e->operands + i);
    evaluate_node(e, &condition->root, 0, keep + e->first);
  }
  return TSR_OK;
}

int tsr__condition_evaluate(const tsr_condition *condition, tsr_column_getter column, void *argument,
                            const uint32_t *selection, uint64_t count, uint8_t *keep, tsr_memory *memory,
                            tsr_error *error) {
  evaluation e = {.operand_count = condition->field_count, .selection = selection, .error = error};
  operand *operands = NULL;
  uint8_t *room = NULL;
  uint64_t masks = (uint64_t)condition->depth * CONDITION_BLOCK,
           gathered = (uint64_t)condition->field_count * 9 * CONDITION_BLOCK;
  int rc = TSR_ALLOC_ARRAY(memory, condition->field_count, &operands, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(memory, masks + gathered, &room, error);
  if (rc >= 0) {
    e.operands = operands;
    e.scratch = room;
    rc = evaluate(condition, column, argument, &e, room + masks, count, keep);
  }
  if (rc < 0) tsr__wrap(error, "delete condition '%s'", condition->name);
  tsr__free(room);
  tsr__free(operands);
  return rc;
}

/* ---- Encoding ---------------------------------------------------------------------------------------------------- */

enum { CONDITION_WRITE_NODE_EXPRESSION = 0, CONDITION_WRITE_NODE_COMPARISON = 1 };

int tsr__condition_put_expression(uint8_t join, uint64_t count, tsr_buffer *out, tsr_error *error) {
  uint8_t node[10] = {CONDITION_WRITE_NODE_EXPRESSION, join};
  tsr__store64(node + 2, count);
  return tsr__buffer_append(out, node, sizeof node, error);
}

static int put_values(tsr_condition_op op, const char *field, const void *values, uint64_t size, tsr_buffer *out,
                      tsr_error *error) {
  uint8_t head[6] = {CONDITION_WRITE_NODE_COMPARISON, (uint8_t)op};
  uint64_t name = strlen(field);
  tsr__store32(head + 2, (uint32_t)name);
  TSR_TRY(tsr__buffer_append(out, head, sizeof head, error));
  TSR_TRY(tsr__buffer_append(out, field, name, error));
  TSR_TRY(tsr__buffer_append_u64(out, size, error));
  return tsr__buffer_append(out, values, size, error);
}

int tsr__condition_put_comparison(tsr_condition_op op, const char *field, const void *value, uint64_t size,
                                  tsr_buffer *out, tsr_error *error) {
  uint64_t before = out->size;
  int rc = put_values(op, field, value, size, out, error);
  if (rc < 0) out->size = before;
  return rc;
}

int tsr__condition_put_set(tsr_condition_op op, const char *field, const void *values, uint64_t size,
                           const uint64_t *offsets, uint64_t count, tsr_buffer *out, tsr_error *error) {
  uint64_t before = out->size;
  int rc = put_values(op, field, values, size, out, error);
  if (rc >= 0) rc = tsr__buffer_append_u64(out, 8 * count, error);
  if (rc >= 0) rc = tsr__buffer_append(out, offsets, 8 * count, error);
  if (rc < 0) out->size = before;
  return rc;
}
