/* program.c: makes programs of expressions: a list of steps, each with a kernel, that evaluate.c runs.
 *
 * - Comparing: two expressions are the same if their nodes are.
 * - Types: finds the static type of each node, and refuses nodes that cannot be evaluated.
 * - Steps: each node becomes the step of its operation, after the steps that convert its operands. Equal steps are
 *   shared (common subexpressions), by a hash of operation and operands.
 * - Registers: steps that no result needs are marked dead; each live step gets a register, which is free again
 *   after the last step that reads it.
 */
#include "query/program.h"

#include <string.h>
#include <stdlib.h>
#include <math.h>

#include "base/arithmetic.h"
#include "base/hash.h"

/* ---- Comparing expressions --------------------------------------------------------------------------------------- */

static bool same_value(const tsr_value *a, const tsr_value *b) {
  if (a->type != b->type) return false;
  if (a->type == TSR_VALUE_NULL) return true;
  if (a->type != TSR_VALUE_TEXT) return a->as.unsigned_integer == b->as.unsigned_integer;
  return a->as.text.size == b->as.text.size &&
         (a->as.text.size == 0 || memcmp(a->as.text.bytes, b->as.text.bytes, a->as.text.size) == 0);
}

static bool same_node(const tsr_node *a, const tsr_node *b) {
  if (a->operation != b->operation || a->operand_count != b->operand_count) return false;
  for (uint32_t i = 0; i < a->operand_count; i++)
    if (a->operands[i] != b->operands[i]) return false;
  switch (a->operation) {
  case TSR_OP_CONSTANT: return same_value(&a->value, &b->value);
  case TSR_OP_FIELD: return a->field == b->field && a->nat_is_null == b->nat_is_null;
  case TSR_OP_TABLE: return a->table == b->table;
  case TSR_OP_LOOKUP: return a->list == b->list;
  case TSR_OP_WINDOW: return a->window == b->window;
  case TSR_OP_WITHIN: return a->within.intervals == b->within.intervals && a->within.count == b->within.count;
  case TSR_OP_MATCH: return a->match == b->match && a->match_argument == b->match_argument;
  default: return true;
  }
}

bool tsr__expressions_equal(const tsr_expression *a, const tsr_expression *b) {
  if (a->count != b->count) return false;
  for (uint32_t i = 0; i < a->count; i++)
    if (!same_node(&a->nodes[i], &b->nodes[i])) return false;
  return true;
}

/* ---- Types: the static type of each node ------------------------------------------------------------------------ */

static const uint8_t operand_limits[TSR_OP_COUNT][2] = {
#define X(name, least, greatest) [TSR_OP_##name] = {least, greatest},
    TSR_OPERATIONS(X)
#undef X
};

typedef struct typing {
  const tsr_schema *schema;
  const tsr_expression *expression;
  tsr_typed *types;
  tsr_expression_fault fault;
} typing;

static bool is_number(tsr_value_type type) {
  return type == TSR_VALUE_INTEGER || type == TSR_VALUE_REAL || type == TSR_VALUE_UNSIGNED ||
         type == TSR_VALUE_NUMBER || type == TSR_VALUE_NULL;
}

static tsr_typed plain_type(tsr_value_type type) { return (tsr_typed){.type = type}; }

static tsr_typed type_refused(typing *t, tsr_expression_fault fault) {
  t->fault = fault;
  return plain_type(TSR_VALUE_NULL);
}

static tsr_typed field_type(const tsr_field *field) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  if (kind == TSR_KIND_TEXT && tsr_datatype_size(field->datatype) == 1) return plain_type(TSR_VALUE_TEXT);
  if (kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES || field->values_per_cell != 1)
    return plain_type(TSR_VALUE_OPAQUE);
  if (kind == TSR_KIND_FLOAT) return plain_type(TSR_VALUE_REAL);
  if (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME)
    return (tsr_typed){.type = TSR_VALUE_INSTANT, .datatype = field->datatype};
  return plain_type(field->datatype == TSR_UINT64 ? TSR_VALUE_UNSIGNED : TSR_VALUE_INTEGER);
}

static tsr_typed node_field_type(const typing *t, const tsr_node *node) {
  const tsr_typed typed = field_type(&t->schema->fields[node->field]);
  return typed.type == TSR_VALUE_INSTANT && node->as_integer ? plain_type(TSR_VALUE_INTEGER) : typed;
}

/* Returns the common type of two branches. A literal INTEGER beside a REAL makes a NUMBER. */
static tsr_typed type_of_both(typing *t, tsr_typed a, tsr_typed b) {
  if (a.type == TSR_VALUE_NULL) return b;
  if (b.type == TSR_VALUE_NULL) return a;
  if (a.type == TSR_VALUE_OPAQUE || b.type == TSR_VALUE_OPAQUE) return type_refused(t, TSR_FAULT_TYPE);
  if (a.type == b.type) {
    if (a.type == TSR_VALUE_INSTANT && a.datatype != b.datatype) return type_refused(t, TSR_FAULT_MIXED);
    return (tsr_typed){.type = a.type,
                       .datatype = a.datatype,
                       .literal = a.literal && b.literal,
                       .negative = a.negative || b.negative};
  }
  if (b.literal || (b.type == TSR_VALUE_REAL && a.type == TSR_VALUE_NUMBER)) {
    const tsr_typed c = a;
    a = b, b = c;
  }
  const bool literal = a.literal && a.type == TSR_VALUE_INTEGER;
  if (b.type == TSR_VALUE_REAL && literal) return plain_type(TSR_VALUE_NUMBER);
  if (b.type == TSR_VALUE_NUMBER && (literal || a.type == TSR_VALUE_REAL)) return plain_type(TSR_VALUE_NUMBER);
  if (b.type == TSR_VALUE_UNSIGNED && literal && !a.negative) return plain_type(TSR_VALUE_UNSIGNED);
  return type_refused(t, TSR_FAULT_MIXED);
}

static tsr_typed type_of_arithmetic(typing *t, tsr_operation operation, tsr_typed a, tsr_typed b) {
  if (!is_number(a.type) || !is_number(b.type)) return type_refused(t, TSR_FAULT_TYPE);
  if (a.type == TSR_VALUE_NULL || b.type == TSR_VALUE_NULL) return plain_type(TSR_VALUE_NULL);
  if (a.type == TSR_VALUE_REAL || b.type == TSR_VALUE_REAL) return plain_type(TSR_VALUE_REAL);
  if (a.type == TSR_VALUE_NUMBER || b.type == TSR_VALUE_NUMBER) return type_refused(t, TSR_FAULT_MIXED);
  return plain_type(TSR_VALUE_INTEGER);
}

static void check_comparable(typing *t, tsr_typed a, tsr_typed b) {
  if (a.type == TSR_VALUE_NULL || b.type == TSR_VALUE_NULL || (is_number(a.type) && is_number(b.type))) return;
  const bool text_a = a.type == TSR_VALUE_TEXT, text_b = b.type == TSR_VALUE_TEXT;
  if (text_a && text_b) return;
  if (a.type == TSR_VALUE_INSTANT && b.type == TSR_VALUE_INSTANT && a.datatype == b.datatype) return;
  t->fault = (text_a && is_number(b.type)) || (text_b && is_number(a.type)) ? TSR_FAULT_TEXT_NUMBER : TSR_FAULT_TYPE;
}

static tsr_typed type_of_branches(typing *t, const tsr_node *node) {
  tsr_typed type = plain_type(TSR_VALUE_NULL);
  bool first = true;
  for (uint32_t i = 0; i < node->operand_count && t->fault == TSR_FAULT_NONE; i++) {
    const tsr_typed operand = t->types[node->operands[i]];
    const bool condition = node->operation == TSR_OP_CASE && i % 2 == 0 && i + 1 < node->operand_count;
    if (condition && !is_number(operand.type)) return type_refused(t, TSR_FAULT_TYPE);
    if (condition) continue;
    type = first ? operand : type_of_both(t, type, operand);
    first = false;
  }
  if (type.type == TSR_VALUE_OPAQUE && node->operation != TSR_OP_COALESCE) return type_refused(t, TSR_FAULT_TYPE);
  const bool extreme = node->operation == TSR_OP_LEAST || node->operation == TSR_OP_GREATEST;
  for (uint32_t i = 0; extreme && i < node->operand_count; i++)
    if (t->types[node->operands[i]].type == TSR_VALUE_NULL) return plain_type(TSR_VALUE_NULL);
  type.literal = false;
  return type;
}

/* NEGATE, PLUS, ABS and the roundings, which keep the type. */
static tsr_typed type_of_same(typing *t, tsr_operation operation, tsr_typed a) {
  if (operation == TSR_OP_PLUS) return a;
  if (!is_number(a.type)) return type_refused(t, TSR_FAULT_TYPE);
  if (a.type == TSR_VALUE_UNSIGNED) return plain_type(TSR_VALUE_INTEGER);
  if (operation == TSR_OP_NEGATE) a.negative = !a.negative;
  else a.literal = false;
  return a;
}

static tsr_typed constant_type(const tsr_value *value) {
  tsr_typed type = plain_type(value->type);
  if (value->type != TSR_VALUE_INTEGER) return type;
  type.literal = value->as.integer >= -TSR_EXACT_REAL && value->as.integer <= TSR_EXACT_REAL;
  type.negative = value->as.integer < 0;
  return type;
}

static tsr_typed type_of_function(typing *t, const tsr_node *node) {
  bool null = false;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    const tsr_value_type type = t->types[node->operands[i]].type;
    if (!is_number(type)) return type_refused(t, TSR_FAULT_TYPE);
    null |= type == TSR_VALUE_NULL;
  }
  if (null) return plain_type(TSR_VALUE_NULL);
  switch (node->operation) {
  case TSR_OP_BIT_AND:
  case TSR_OP_BIT_OR:
  case TSR_OP_SHIFT_LEFT:
  case TSR_OP_SHIFT_RIGHT:
  case TSR_OP_BIT_NOT:
  case TSR_OP_TO_INTEGER:
  case TSR_OP_SIGN: return plain_type(TSR_VALUE_INTEGER);
  default: return plain_type(TSR_VALUE_REAL);
  }
}

static tsr_typed type_of_test(typing *t, const tsr_node *node) {
  const tsr_typed a = t->types[node->operands[0]];
  switch (node->operation) {
  case TSR_OP_AND:
  case TSR_OP_OR:
  case TSR_OP_NOT:
    for (uint32_t i = 0; i < node->operand_count; i++)
      if (!is_number(t->types[node->operands[i]].type)) t->fault = TSR_FAULT_TYPE;
    break;
  case TSR_OP_WITHIN:
    if (a.type != TSR_VALUE_INSTANT && a.type != TSR_VALUE_NULL) t->fault = TSR_FAULT_TYPE;
    break;
  case TSR_OP_MATCH:
    if (a.type != TSR_VALUE_TEXT && a.type != TSR_VALUE_NULL) t->fault = TSR_FAULT_TYPE;
    break;
  case TSR_OP_IS_NULL:
  case TSR_OP_NOT_NULL: break;
  default: /* comparisons, IS, IN */
    for (uint32_t i = 1; i < node->operand_count && t->fault == TSR_FAULT_NONE; i++)
      check_comparable(t, a, t->types[node->operands[i]]);
  }
  return plain_type(TSR_VALUE_INTEGER);
}

static tsr_typed node_type(typing *t, const tsr_node *node) {
  const tsr_typed none = plain_type(TSR_VALUE_NULL);
  const tsr_typed a = node->operand_count > 0 ? t->types[node->operands[0]] : none;
  const tsr_typed b = node->operand_count > 1 ? t->types[node->operands[1]] : none;
  switch (node->operation) {
  case TSR_OP_CONSTANT: return constant_type(&node->value);
  case TSR_OP_FIELD: return node_field_type(t, node);
  case TSR_OP_TABLE: return plain_type(node->table->type);
  case TSR_OP_ROW: return plain_type(TSR_VALUE_INTEGER);
  case TSR_OP_WINDOW: return plain_type(node->window->type);
  case TSR_OP_LOOKUP:
    if (a.type != TSR_VALUE_INTEGER && a.type != TSR_VALUE_NULL) return type_refused(t, TSR_FAULT_TYPE);
    return plain_type(node->list->type);
  case TSR_OP_ADD:
  case TSR_OP_SUBTRACT:
  case TSR_OP_MULTIPLY:
  case TSR_OP_DIVIDE:
  case TSR_OP_REMAINDER: return type_of_arithmetic(t, node->operation, a, b);
  case TSR_OP_NEGATE:
  case TSR_OP_PLUS:
  case TSR_OP_ABS:
  case TSR_OP_FLOOR:
  case TSR_OP_CEIL:
  case TSR_OP_TRUNC: return type_of_same(t, node->operation, a);
  case TSR_OP_CASE:
  case TSR_OP_COALESCE:
  case TSR_OP_LEAST:
  case TSR_OP_GREATEST: return type_of_branches(t, node);
  case TSR_OP_NULLIF: check_comparable(t, a, b); return a;
  default: break;
  }
  const bool test = (node->operation >= TSR_OP_AND && node->operation <= TSR_OP_MATCH);
  return test ? type_of_test(t, node) : type_of_function(t, node);
}

/* Returns true if a list's type and datatype agree. */
static bool is_value_list(const tsr_value_list *list) {
  if (!list) return false;
  const tsr_kind kind = tsr_datatype_kind(list->datatype);
  switch (list->type) {
  case TSR_VALUE_NULL:
  case TSR_VALUE_TEXT: return true;
  case TSR_VALUE_NUMBER: return list->whole;
  case TSR_VALUE_REAL: return kind == TSR_KIND_FLOAT;
  case TSR_VALUE_UNSIGNED: return list->datatype == TSR_UINT64;
  case TSR_VALUE_INTEGER: return kind == TSR_KIND_SIGNED || (kind == TSR_KIND_UNSIGNED && list->datatype != TSR_UINT64);
  default: return false;
  }
}

/* Checks everything that a host may have got wrong in a node. */
static int check_typed_node(const tsr_schema *schema, const tsr_node *nodes, uint32_t n, tsr_error *error) {
  const tsr_node *node = &nodes[n];
  const uint32_t fields = schema->dimension_count + schema->attribute_count;
  if ((uint32_t)node->operation >= TSR_OP_COUNT) return tsr__fail(error, TSR_ERROR, "node %u: no such operation", n);
  const uint8_t *limits = operand_limits[node->operation];
  if (node->operand_count < limits[0] || (limits[1] < 9 && node->operand_count > limits[1]))
    return tsr__fail(error, TSR_ERROR, "node %u: %u operands", n, node->operand_count);
  for (uint32_t i = 0; i < node->operand_count; i++)
    if (node->operands[i] >= n) return tsr__fail(error, TSR_ERROR, "node %u: an operand is not an earlier node", n);
  if (node->operation == TSR_OP_FIELD && node->field >= fields)
    return tsr__fail(error, TSR_ERROR, "node %u: no field %u", n, node->field);
  if (node->operation == TSR_OP_CONSTANT &&
      (node->value.type == TSR_VALUE_OPAQUE || node->value.type == TSR_VALUE_NUMBER))
    return tsr__fail(error, TSR_ERROR, "node %u: a constant of no type of SQL", n);
  if (node->operation == TSR_OP_MATCH && !node->match) return tsr__fail(error, TSR_ERROR, "node %u: no function", n);
  if (node->operation == TSR_OP_LOOKUP && !is_value_list(node->list))
    return tsr__fail(error, TSR_ERROR, "node %u: a list of values of no such type", n);
  if (node->operation == TSR_OP_WINDOW && !node->window) return tsr__fail(error, TSR_ERROR, "node %u: no window", n);
  if (node->operation != TSR_OP_TABLE) return TSR_OK;
  const tsr_value_table *table = node->table;
  if (!table || table->field >= fields) return tsr__fail(error, TSR_ERROR, "node %u: a table without a field", n);
  const tsr_value_type type = field_type(&schema->fields[table->field]).type;
  if (type != TSR_VALUE_INTEGER && type != TSR_VALUE_UNSIGNED && type != TSR_VALUE_INSTANT)
    return tsr__fail(error, TSR_ERROR, "node %u: a table of %s, which is not an integer", n,
                     schema->fields[table->field].name);
  if (table->type != TSR_VALUE_INTEGER && table->type != TSR_VALUE_REAL && table->type != TSR_VALUE_TEXT &&
      table->type != TSR_VALUE_NUMBER && table->type != TSR_VALUE_NULL)
    return tsr__fail(error, TSR_ERROR, "node %u: a table of values of no such type", n);
  return TSR_OK;
}

static int expression_types(const tsr_schema *schema, const tsr_expression *expression, tsr_typed *types,
                            uint32_t *node, tsr_expression_fault *fault, tsr_error *error) {
  typing t = {.schema = schema, .expression = expression, .types = types};
  *node = 0;
  *fault = TSR_FAULT_NONE;
  if (expression->count == 0 || expression->count > TSR_EXPRESSION_NODES)
    return tsr__fail(error, TSR_ERROR, "an expression of %u nodes", expression->count);
  for (uint32_t n = 0; n < expression->count; n++) {
    *node = n;
    TSR_TRY(check_typed_node(schema, expression->nodes, n, error));
    types[n] = node_type(&t, &expression->nodes[n]);
    *fault = t.fault;
    if (t.fault == TSR_FAULT_MIXED)
      return tsr__fail(error, TSR_MISMATCH, "node %u: INTEGER in one branch, REAL in another", n);
    if (t.fault == TSR_FAULT_TEXT_NUMBER)
      return tsr__fail(error, TSR_MISMATCH, "node %u: compares a number with text", n);
    if (t.fault != TSR_FAULT_NONE)
      return tsr__fail(error, TSR_MISMATCH, "node %u: an operand's type has no such operation", n);
  }
  return TSR_OK;
}

int tsr_expression_types(const tsr_schema *schema, const tsr_expression *expression, tsr_value_type *types,
                         uint32_t *node, tsr_expression_fault *fault, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_typed typed[TSR_EXPRESSION_NODES];
  const int code = expression_types(schema, expression, typed, node, fault, error);
  const uint32_t count = code == TSR_OK ? expression->count : code == TSR_MISMATCH ? *node : 0;
  for (uint32_t n = 0; n < count; n++) types[n] = typed[n].type;
  return code;
}

/* ---- Making steps ----------------------------------------------------------------------------------------------- */

typedef struct program_maker {
  tsr_program *program;
  tsr_arena *arena;
  tsr_error *error;
  tsr_hash_index index; /* of the steps, over slots in the arena */
  uint64_t capacity; /* steps */
  uint32_t expression, node; /* the node being converted */
  int rc;
} program_maker;

static tsr_step *step_at(const program_maker *m, uint32_t number) { return &m->program->steps[number]; }

/* ---- Equal steps are shared ------------------------------------------------------------------------------------- */

static uint64_t hash_of_step(const tsr_step *step) {
  uint64_t hash = tsr__hash_mix(step->operation, step->form);
  for (uint32_t i = 0; i < step->operand_count; i++) hash = tsr__hash_mix(hash, step->operands[i]);
  if (step->operation == TSR_OP_FIELD) hash = tsr__hash_mix(hash, step->field);
  if (step->operation != TSR_OP_CONSTANT || step->null) return hash;
  const tsr_value *value = &step->source->value;
  return step->form == TSR_VALUE_TEXT ? tsr__hash_bytes(hash, value->as.text.bytes, value->as.text.size)
                                      : tsr__hash_mix(hash, value->as.unsigned_integer);
}

static bool same_constant(const tsr_step *a, const tsr_step *b) {
  if (a->null || b->null) return a->null == b->null;
  const tsr_value *x = &a->source->value, *y = &b->source->value;
  if (a->form != TSR_VALUE_TEXT) return x->as.unsigned_integer == y->as.unsigned_integer;
  return x->as.text.size == y->as.text.size && !memcmp(x->as.text.bytes, y->as.text.bytes, x->as.text.size);
}

static bool same_step(const tsr_step *a, const tsr_step *b) {
  if (a->operation != b->operation || a->form != b->form || a->operand_count != b->operand_count) return false;
  for (uint32_t i = 0; i < a->operand_count; i++)
    if (a->operands[i] != b->operands[i]) return false;
  switch (a->operation) {
  case TSR_OP_CONSTANT: return same_constant(a, b);
  case TSR_OP_FIELD: return a->field == b->field && a->nat_is_null == b->nat_is_null;
  case TSR_OP_TABLE: return a->source->table == b->source->table;
  case TSR_OP_LOOKUP: return a->source->list == b->source->list;
  case TSR_OP_WINDOW: return a->source->window == b->source->window;
  case TSR_OP_WITHIN:
  case TSR_OP_MATCH: return a->source == b->source;
  default: return true;
  }
}

static uint32_t add_step(program_maker *m, tsr_step step) {
  uint64_t slot = tsr__hash_slot(&m->index, hash_of_step(&step));
  for (uint32_t known; tsr__hash_item(&m->index, slot, &known); slot = tsr__hash_next(&m->index, slot))
    if (same_step(step_at(m, known), &step)) return known;
  if (m->program->step_count == m->capacity) { /* make_capacity counted too few */
    if (m->rc == TSR_OK) m->rc = tsr__fail(m->error, TSR_ERROR, "an expression has more steps than it can have");
    return 0;
  }
  step.number = m->program->step_count++;
  step.origin.expression = m->expression;
  step.origin.node = m->node;
  if (step.operand_count) step.from = step_at(m, step.operands[0])->form;
  if (step.form == TSR_VALUE_INTEGER && step.operand_count) tsr__step_interval(m->program, &step);
  tsr__hash_set(&m->index, slot, step.number);
  *step_at(m, step.number) = step;
  return step.number;
}

/* ---- Conversions ------------------------------------------------------------------------------------------------- */

static uint32_t add_one(program_maker *m, uint32_t operation, tsr_form form, tsr_kernel kernel, uint32_t a) {
  return add_step(
      m, (tsr_step){.operation = operation, .form = form, .operand_count = 1, .operands = {a}, .kernel = kernel});
}
static uint32_t add_two(program_maker *m, uint32_t operation, tsr_form form, tsr_kernel kernel, uint32_t a,
                        uint32_t b) {
  return add_step(
      m, (tsr_step){.operation = operation, .form = form, .operand_count = 2, .operands = {a, b}, .kernel = kernel});
}
static uint32_t add_three(program_maker *m, uint32_t operation, tsr_form form, tsr_kernel kernel,
                          const uint32_t *operands) {
  return add_step(m, (tsr_step){.operation = operation,
                                .form = form,
                                .operand_count = 3,
                                .operands = {operands[0], operands[1], operands[2]},
                                .kernel = kernel});
}
static uint32_t add_null(program_maker *m, tsr_form form) {
  return add_step(m, (tsr_step){.operation = TSR_OP_CONSTANT, .form = form, .null = true});
}
static uint32_t convert(program_maker *m, uint32_t operation, tsr_form form, uint32_t a) {
  return add_one(m, operation, form, tsr__convert_kernel(operation, step_at(m, a)->form), a);
}

static uint32_t as_integer(program_maker *m, uint32_t a) {
  switch (step_at(m, a)->form) {
  case TSR_FORM_TRUTH: return convert(m, TSR_STEP_OF_TRUTH, TSR_VALUE_INTEGER, a);
  case TSR_VALUE_UNSIGNED: return convert(m, TSR_STEP_OF_UNSIGNED, TSR_VALUE_INTEGER, a);
  case TSR_VALUE_REAL:
  case TSR_VALUE_NUMBER: return convert(m, TSR_OP_TO_INTEGER, TSR_VALUE_INTEGER, a);
  case TSR_VALUE_NULL: return add_null(m, TSR_VALUE_INTEGER);
  default: return a;
  }
}

/* An integer of at most 32 bits is loaded as a double directly. */
static uint32_t as_real(program_maker *m, uint32_t a) {
  const tsr_step *step = step_at(m, a);
  if (step->form == TSR_VALUE_REAL) return a;
  if (step->form == TSR_VALUE_NULL) return add_null(m, TSR_VALUE_REAL);
  if (step->form == TSR_VALUE_NUMBER) return convert(m, TSR_OP_TO_REAL, TSR_VALUE_REAL, a);
  if (step->form == TSR_VALUE_INTEGER && step->operation == TSR_OP_FIELD &&
      tsr_datatype_size(m->program->schema->fields[step->field].datatype) < 8)
    return add_step(m, (tsr_step){.operation = TSR_OP_FIELD, .form = TSR_VALUE_REAL, .field = step->field});
  return convert(m, TSR_OP_TO_REAL, TSR_VALUE_REAL, as_integer(m, a));
}

static uint32_t as_truth(program_maker *m, uint32_t a) {
  const tsr_form form = step_at(m, a)->form;
  if (form == TSR_FORM_TRUTH) return a;
  return form == TSR_VALUE_NULL ? add_null(m, TSR_FORM_TRUTH) : convert(m, TSR_STEP_TRUTH, TSR_FORM_TRUTH, a);
}

/* Converts a branch to the common form of all branches. */
static uint32_t as_form(program_maker *m, uint32_t a, tsr_form form) {
  const tsr_form from = step_at(m, a)->form;
  if (from == form) return a;
  if (from == TSR_VALUE_NULL) return add_null(m, form);
  if (form == TSR_VALUE_INTEGER) return as_integer(m, a);
  if (form == TSR_VALUE_UNSIGNED) return convert(m, TSR_STEP_UNSIGNED, form, a);
  if (form == TSR_VALUE_NUMBER) return convert(m, TSR_STEP_NUMBER, form, from == TSR_FORM_TRUTH ? as_integer(m, a) : a);
  return as_real(m, a);
}

/* ---- Comparisons ------------------------------------------------------------------------------------------------- */

tsr_operation tsr__mirrored(uint32_t operation) {
  switch (operation) {
  case TSR_OP_LESS: return TSR_OP_GREATER;
  case TSR_OP_LESS_EQUAL: return TSR_OP_GREATER_EQUAL;
  case TSR_OP_GREATER: return TSR_OP_LESS;
  case TSR_OP_GREATER_EQUAL: return TSR_OP_LESS_EQUAL;
  default: return (tsr_operation)operation;
  }
}

static uint32_t as_comparable(program_maker *m, uint32_t a) {
  const tsr_form form = step_at(m, a)->form;
  if (form == TSR_FORM_TRUTH) return as_integer(m, a);
  return form == TSR_VALUE_NUMBER ? as_real(m, a) : a;
}

static bool is_exact_as_real(const tsr_step *step) {
  return step->form == TSR_VALUE_INTEGER && step->interval.low >= -TSR_EXACT_REAL &&
         step->interval.high <= TSR_EXACT_REAL;
}

static uint32_t add_comparison(program_maker *m, uint32_t operation, uint32_t a, uint32_t b) {
  a = as_comparable(m, a);
  b = as_comparable(m, b);
  if (step_at(m, a)->form == TSR_VALUE_NULL || step_at(m, b)->form == TSR_VALUE_NULL)
    return add_null(m, TSR_FORM_TRUTH);
  if (step_at(m, a)->form == TSR_VALUE_REAL && is_exact_as_real(step_at(m, b))) b = as_real(m, b);
  if (step_at(m, b)->form == TSR_VALUE_REAL && is_exact_as_real(step_at(m, a))) a = as_real(m, a);
  tsr_form x = step_at(m, a)->form, y = step_at(m, b)->form;
  const bool greater = operation == TSR_OP_GREATER || operation == TSR_OP_GREATER_EQUAL;
  /* Kernels of two forms take UNSIGNED or INTEGER first; kernels of one form have no GREATER. */
  const bool swap = x == y ? greater : x == TSR_VALUE_REAL || y == TSR_VALUE_UNSIGNED;
  if (swap) {
    const uint32_t c = a;
    a = b, b = c;
    operation = tsr__mirrored(operation);
    x = step_at(m, a)->form, y = step_at(m, b)->form;
  }
  return add_two(m, operation, TSR_FORM_TRUTH, tsr__compare_kernel(operation, x, y), a, b);
}

static uint32_t add_logic(program_maker *m, uint32_t operation, uint32_t a, uint32_t b) {
  return add_two(m, operation, TSR_FORM_TRUTH, tsr__choose_kernel(operation, TSR_FORM_TRUTH), a, b);
}
static uint32_t add_not(program_maker *m, uint32_t a) {
  return add_one(m, TSR_OP_NOT, TSR_FORM_TRUTH, tsr__choose_kernel(TSR_OP_NOT, TSR_FORM_TRUTH), a);
}
static uint32_t add_is_null(program_maker *m, uint32_t a) {
  return add_one(m, TSR_OP_IS_NULL, TSR_FORM_TRUTH, tsr__choose_kernel(TSR_OP_IS_NULL, TSR_FORM_TRUTH), a);
}
static uint32_t add_is(program_maker *m, uint32_t a, uint32_t b) {
  if (step_at(m, a)->form == TSR_VALUE_NULL) return add_is_null(m, b);
  if (step_at(m, b)->form == TSR_VALUE_NULL) return add_is_null(m, a);
  const uint32_t operands[] = {add_comparison(m, TSR_OP_EQUAL, a, b), add_is_null(m, a), add_is_null(m, b)};
  return add_three(m, TSR_OP_IS, TSR_FORM_TRUTH, tsr__compare_kernel(TSR_OP_IS, 0, 0), operands);
}
static uint32_t add_choice(program_maker *m, uint32_t truth, uint32_t x, uint32_t y, tsr_form form) {
  const uint32_t operands[] = {truth, as_form(m, x, form), as_form(m, y, form)};
  return add_three(m, TSR_STEP_CHOOSE, form, tsr__choose_kernel(TSR_STEP_CHOOSE, form), operands);
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */

static void set_field_interval(const tsr_field *field, tsr_step *step) {
  step->interval.low = INT64_MIN, step->interval.high = INT64_MAX;
  if (step->form == TSR_VALUE_INSTANT) {
    char text[48];
    int64_t bad_low = INT64_MIN, bad_high = INT64_MAX, good = 0; /* the epoch can be printed */
    for (step->interval.low = good; step->interval.low - 1 > bad_low;) {
      const int64_t middle = bad_low + (int64_t)(((uint64_t)step->interval.low - (uint64_t)bad_low) / 2);
      if (tsr_datetime_print(field->datatype, middle, text)) step->interval.low = middle;
      else bad_low = middle;
    }
    if (tsr_datetime_print(field->datatype, bad_high, text)) return;
    for (step->interval.high = good; step->interval.high + 1 < bad_high;) {
      const int64_t middle = step->interval.high + (bad_high - step->interval.high) / 2;
      if (tsr_datetime_print(field->datatype, middle, text)) step->interval.high = middle;
      else bad_high = middle;
    }
    return;
  }
  const uint64_t bits = tsr_datatype_size(field->datatype) * 8;
  const bool is_signed = tsr_datatype_kind(field->datatype) == TSR_KIND_SIGNED;
  if (bits < 64) {
    step->interval.low = is_signed ? -(INT64_C(1) << (bits - 1)) : 0;
    step->interval.high = (INT64_C(1) << (is_signed ? bits - 1 : bits)) - 1;
  }
  if (!field->is_dimension || !field->has_domain || !is_signed) return;
  step->interval.low = (int64_t)(tsr__key(field->datatype, field->low) - (UINT64_C(1) << 63));
  step->interval.high = (int64_t)(tsr__key(field->datatype, field->high) - (UINT64_C(1) << 63));
}

static uint32_t add_field(program_maker *m, const tsr_node *node, tsr_form form) {
  tsr_step step = {.operation = TSR_OP_FIELD, .form = form, .field = node->field};
  if (form == TSR_VALUE_INTEGER || form == TSR_VALUE_INSTANT)
    set_field_interval(&m->program->schema->fields[node->field], &step);
  step.nat_is_null = form == TSR_VALUE_INSTANT || (node->as_integer && node->nat_is_null);
  if (step.nat_is_null && step.interval.low == INT64_MIN) step.interval.low++;
  return add_step(m, step);
}

static uint32_t add_row(program_maker *m) {
  tsr_step step = {.operation = TSR_OP_ROW, .form = TSR_VALUE_INTEGER};
  step.interval.high = UINT32_MAX;
  return add_step(m, step);
}

static uint32_t add_window(program_maker *m, const tsr_node *node) {
  tsr_step step = {.operation = TSR_OP_WINDOW, .form = node->window->type, .source = node};
  step.interval = (tsr_step_interval){.low = INT64_MIN, .high = INT64_MAX};
  return add_step(m, step);
}

static uint32_t add_constant(program_maker *m, const tsr_node *node) {
  tsr_step step = {.operation = TSR_OP_CONSTANT, .form = node->value.type, .source = node};
  if (node->value.type == TSR_VALUE_INTEGER) step.interval.low = step.interval.high = node->value.as.integer;
  step.null = node->value.type == TSR_VALUE_NULL || (node->value.type == TSR_VALUE_REAL && isnan(node->value.as.real));
  return add_step(m, step);
}

/* Copies the values of a table into an array of its form, with a null after the last one. */
static int copy_table(program_maker *m, const tsr_value_table *table, tsr_step *step) {
  uint8_t *nulls, *whole;
  int64_t *words;
  tsr_text_value *texts;
  const bool text = table->type == TSR_VALUE_TEXT, number = table->type == TSR_VALUE_NUMBER;
  const bool real = number || table->type == TSR_VALUE_REAL;
  const double null = NAN;
  TSR_TRY(TSR_ARENA_ARRAY(m->arena, table->count + 1, &nulls, m->error));
  TSR_TRY(TSR_ARENA_ARRAY(m->arena, number ? table->count + 1 : 1, &whole, m->error));
  TSR_TRY(TSR_ARENA_ARRAY(m->arena, text ? 1 : table->count + 1, &words, m->error));
  TSR_TRY(TSR_ARENA_ARRAY(m->arena, text ? table->count + 1 : 1, &texts, m->error));
  step->interval.low = INT64_MAX, step->interval.high = INT64_MIN;
  bool any_null = false;
  for (uint64_t i = 0; i <= table->count; i++) {
    nulls[i] = i == table->count || table->values[i].type == TSR_VALUE_NULL;
    any_null |= nulls[i] && i < table->count;
    if (text) texts[i] = (tsr_text_value){"", 0};
    else if (nulls[i] && real) memcpy(&words[i], &null, sizeof null);
    if (nulls[i]) continue;
    const tsr_value *value = &table->values[i];
    if (text) texts[i] = (tsr_text_value){value->as.text.bytes, value->as.text.size};
    else words[i] = value->as.integer; /* or the bits of a REAL */
    if (number && value->type == TSR_VALUE_INTEGER) {
      const double as_real = (double)value->as.integer;
      memcpy(&words[i], &as_real, sizeof as_real);
      whole[i] = 1;
    }
    step->interval.low = TSR_MIN(step->interval.low, value->as.integer);
    step->interval.high = TSR_MAX(step->interval.high, value->as.integer);
  }
  if (step->interval.low > step->interval.high || table->type != TSR_VALUE_INTEGER)
    step->interval.low = step->interval.high = 0;
  step->table.values = text ? (const void *)texts : words;
  step->table.nulls = any_null ? nulls : NULL;
  step->table.whole = whole;
  return TSR_OK;
}

static uint32_t add_table(program_maker *m, const tsr_node *node) {
  if (node->table->type == TSR_VALUE_NULL) return add_null(m, TSR_VALUE_NULL);
  tsr_step step = {.operation = TSR_OP_TABLE, .form = node->table->type, .source = node, .field = node->table->field};
  const uint32_t before = m->program->step_count, number = add_step(m, step);
  if (m->rc == TSR_OK && number == before) m->rc = copy_table(m, node->table, step_at(m, number));
  return number;
}

static uint32_t add_lookup(program_maker *m, const tsr_node *node, uint32_t index) {
  const tsr_value_list *list = node->list;
  if (list->type == TSR_VALUE_NULL || step_at(m, index)->form == TSR_VALUE_NULL) return add_null(m, list->type);
  const uint32_t place = as_integer(m, index);
  const tsr_step_interval *places = &step_at(m, place)->interval;
  if (list->is_identity && places->low >= 0 && (uint64_t)places->high < list->count) return place;
  return add_step(m, (tsr_step){.operation = TSR_OP_LOOKUP,
                                .form = list->type,
                                .operand_count = 1,
                                .operands = {place},
                                .source = node,
                                .kernel = tsr__lookup_kernel(list->type, list->datatype)});
}

static uint32_t add_arithmetic(program_maker *m, const tsr_node *node, tsr_form form, uint32_t a, uint32_t b) {
  if (form == TSR_VALUE_NULL) return add_null(m, form);
  if (form == TSR_VALUE_INTEGER || node->operation == TSR_OP_REMAINDER) { /* 7.9 % 2 is 7 % 2, as a REAL */
    const uint32_t integer = add_two(m, node->operation, TSR_VALUE_INTEGER, tsr__integer_kernel(node->operation),
                                     as_integer(m, a), as_integer(m, b));
    return as_form(m, integer, form);
  }
  return add_two(m, node->operation, form, tsr__real_kernel(node->operation), as_real(m, a), as_real(m, b));
}

/* NEGATE, ABS, FLOOR, CEIL, TRUNC */
static uint32_t add_same(program_maker *m, const tsr_node *node, tsr_form form, uint32_t a) {
  if (form == TSR_VALUE_NULL) return add_null(m, form);
  if (form != TSR_VALUE_INTEGER) return add_one(m, node->operation, form, tsr__real_kernel(node->operation), a);
  a = as_integer(m, a);
  const tsr_kernel kernel = tsr__integer_kernel(node->operation);
  return kernel ? add_one(m, node->operation, form, kernel, a) : a;
}

/* Functions whose operands are all INTEGER (bit operations) or all REAL. */
static uint32_t add_function(program_maker *m, const tsr_node *node, tsr_form form, const uint32_t *operands) {
  uint32_t converted[2] = {0, 0};
  if (form == TSR_VALUE_NULL) return add_null(m, form);
  const uint32_t operation = node->operation;
  const tsr_form first = step_at(m, operands[0])->form;
  const bool whole = first != TSR_VALUE_REAL && first != TSR_VALUE_NUMBER;
  const bool integers = form == TSR_VALUE_INTEGER && (operation != TSR_OP_SIGN || whole);
  if (operation == TSR_OP_TO_INTEGER) return as_integer(m, operands[0]);
  if (operation == TSR_OP_TO_REAL) return as_real(m, operands[0]);
  for (uint32_t i = 0; i < node->operand_count; i++)
    converted[i] = integers ? as_integer(m, operands[i]) : as_real(m, operands[i]);
  const tsr_kernel kernel = integers ? tsr__integer_kernel(operation) : tsr__real_kernel(operation);
  return node->operand_count == 1 ? add_one(m, operation, form, kernel, converted[0])
                                  : add_two(m, operation, form, kernel, converted[0], converted[1]);
}

static uint32_t add_case(program_maker *m, const tsr_node *node, tsr_form form, const uint32_t *made) {
  const uint32_t pairs = node->operand_count / 2;
  uint32_t value = node->operand_count % 2 ? made[node->operands[node->operand_count - 1]] : add_null(m, form);
  value = as_form(m, value, form);
  for (uint32_t i = pairs; i-- > 0;)
    value = add_choice(m, as_truth(m, made[node->operands[2 * i]]), made[node->operands[2 * i + 1]], value, form);
  return value;
}

static uint32_t add_coalesce(program_maker *m, const tsr_node *node, tsr_form form, const uint32_t *made) {
  uint32_t value = as_form(m, made[node->operands[node->operand_count - 1]], form);
  for (uint32_t i = node->operand_count - 1; i-- > 0;) {
    const uint32_t x = made[node->operands[i]];
    value = add_choice(m, add_is_null(m, x), value, x, form);
  }
  return value;
}

static uint32_t add_extreme(program_maker *m, const tsr_node *node, tsr_form form, const uint32_t *made) {
  if (form == TSR_VALUE_NULL) return add_null(m, form);
  uint32_t value = as_form(m, made[node->operands[0]], form);
  for (uint32_t i = 1; i < node->operand_count; i++)
    value = add_two(m, node->operation, form, tsr__choose_kernel(node->operation, form), value,
                    as_form(m, made[node->operands[i]], form));
  return value;
}

static uint32_t add_in(program_maker *m, const tsr_node *node, const uint32_t *made) {
  static const tsr_node falsehood = {.operation = TSR_OP_CONSTANT, .value = {.type = TSR_VALUE_INTEGER}};
  const uint32_t a = made[node->operands[0]];
  if (node->operand_count == 1) return as_truth(m, add_constant(m, &falsehood));
  uint32_t any = add_comparison(m, TSR_OP_EQUAL, a, made[node->operands[1]]);
  for (uint32_t i = 2; i < node->operand_count; i++)
    any = add_logic(m, TSR_OP_OR, any, add_comparison(m, TSR_OP_EQUAL, a, made[node->operands[i]]));
  return any;
}

static uint32_t add_source_test(program_maker *m, const tsr_node *node, uint32_t a) {
  if (step_at(m, a)->form == TSR_VALUE_NULL) return add_null(m, TSR_FORM_TRUTH);
  return add_step(m, (tsr_step){.operation = node->operation,
                                .form = TSR_FORM_TRUTH,
                                .operand_count = 1,
                                .operands = {a},
                                .source = node,
                                .kernel = tsr__choose_kernel(node->operation, TSR_FORM_TRUTH)});
}

static uint32_t add_node(program_maker *m, const tsr_node *node, tsr_form form, const uint32_t *made) {
  const uint32_t a = node->operand_count > 0 ? made[node->operands[0]] : 0;
  const uint32_t b = node->operand_count > 1 ? made[node->operands[1]] : 0;
  const uint32_t operands[] = {a, b};
  switch (node->operation) {
  case TSR_OP_CONSTANT: return add_constant(m, node);
  case TSR_OP_FIELD: return add_field(m, node, form);
  case TSR_OP_TABLE: return add_table(m, node);
  case TSR_OP_LOOKUP: return add_lookup(m, node, a);
  case TSR_OP_ROW: return add_row(m);
  case TSR_OP_WINDOW: return add_window(m, node);
  case TSR_OP_ADD:
  case TSR_OP_SUBTRACT:
  case TSR_OP_MULTIPLY:
  case TSR_OP_DIVIDE:
  case TSR_OP_REMAINDER: return add_arithmetic(m, node, form, a, b);
  case TSR_OP_NEGATE:
  case TSR_OP_ABS:
  case TSR_OP_FLOOR:
  case TSR_OP_CEIL:
  case TSR_OP_TRUNC: return add_same(m, node, form, a);
  case TSR_OP_AND:
  case TSR_OP_OR: return add_logic(m, node->operation, as_truth(m, a), as_truth(m, b));
  case TSR_OP_NOT: return add_not(m, as_truth(m, a));
  case TSR_OP_EQUAL:
  case TSR_OP_UNEQUAL:
  case TSR_OP_LESS:
  case TSR_OP_LESS_EQUAL:
  case TSR_OP_GREATER:
  case TSR_OP_GREATER_EQUAL: return add_comparison(m, node->operation, a, b);
  case TSR_OP_IS: return add_is(m, a, b);
  case TSR_OP_IS_NOT: return add_not(m, add_is(m, a, b));
  case TSR_OP_IS_NULL: return add_is_null(m, a);
  case TSR_OP_NOT_NULL: return add_not(m, add_is_null(m, a));
  case TSR_OP_IN: return add_in(m, node, made);
  case TSR_OP_WITHIN:
  case TSR_OP_MATCH: return add_source_test(m, node, a);
  case TSR_OP_CASE: return add_case(m, node, form, made);
  case TSR_OP_COALESCE: return add_coalesce(m, node, form, made);
  case TSR_OP_NULLIF: return add_choice(m, add_comparison(m, TSR_OP_EQUAL, a, b), add_null(m, form), a, form);
  case TSR_OP_LEAST:
  case TSR_OP_GREATEST: return add_extreme(m, node, form, made);
  case TSR_OP_PLUS: return a;
  default: return add_function(m, node, form, operands);
  }
}

/* ---- The program ------------------------------------------------------------------------------------------------- */

/* An upper bound of the number of steps: a node has at most 3 steps of its own, and 6 for each operand: two
 * conversions, a comparison with two tests for null, and a choice. */
static uint64_t make_capacity(const tsr_expression *const *expressions, uint32_t count) {
  uint64_t steps = 0;
  for (uint32_t e = 0; e < count; e++)
    for (uint32_t n = 0; n < expressions[e]->count; n++)
      steps += 4 + UINT64_C(6) * expressions[e]->nodes[n].operand_count;
  return steps + count;
}

static int make_expression(program_maker *m, const tsr_expression *expression) {
  tsr_typed *types;
  uint32_t *made, node;
  tsr_expression_fault fault;
  TSR_TRY(TSR_ARENA_RAW(m->arena, TSR_MAX(expression->count, 1u), &made, m->error));
  TSR_TRY(TSR_ARENA_RAW(m->arena, TSR_MAX(expression->count, 1u), &types, m->error));
  TSR_TRY(expression_types(m->program->schema, expression, types, &node, &fault, m->error));
  for (m->node = 0; m->node < expression->count; m->node++) {
    made[m->node] = add_node(m, &expression->nodes[m->node], types[m->node].type, made);
    TSR_TRY(m->rc);
  }
  uint32_t root = made[expression->count - 1];
  m->node = expression->count - 1;
  if (step_at(m, root)->form == TSR_FORM_TRUTH) root = as_integer(m, root);
  m->program->roots[m->expression] = root;
  m->program->types[m->expression] = (tsr_value_type)step_at(m, root)->form;
  return m->rc;
}

/* Finds the steps that depend on the row alone, and those of them that results or other steps need: these keep their
 * registers for the whole run. */
static void find_kept(tsr_program *p, uint32_t *last) {
  for (uint32_t s = 0; s < p->step_count; s++) {
    tsr_step *step = &p->steps[s];
    step->of_row = step->operation == TSR_OP_ROW;
    bool all = true, any = false;
    for (uint32_t i = 0; i < step->operand_count; i++) {
      any |= p->steps[step->operands[i]].of_row;
      all &= p->steps[step->operands[i]].of_row || p->steps[step->operands[i]].operation == TSR_OP_CONSTANT;
    }
    step->of_row |= any && all;
    for (uint32_t i = 0; i < step->operand_count && step->live && !step->of_row; i++)
      p->steps[step->operands[i]].kept |= p->steps[step->operands[i]].of_row;
  }
  for (uint32_t e = 0; e < p->root_count; e++) p->steps[p->roots[e]].kept |= p->steps[p->roots[e]].of_row;
  bool suits = true;
  for (uint32_t s = 0; s < p->step_count; s++) {
    tsr_step *step = &p->steps[s];
    if (!step->kept) continue;
    suits &= step->form == TSR_VALUE_REAL || step->form == TSR_VALUE_INTEGER;
    step->kept = ++p->kept_count;
    last[s] = UINT32_MAX;
  }
  if (!suits || p->kept_count > TSR_KEPT_STEPS) p->kept_count = 0;
}

uint32_t tsr__program_kept(const tsr_program *program) { return program->kept_count; }

/* Marks the live steps, those that results need, and gives each a register that no step in use has. */
static int give_rooms(program_maker *m) {
  tsr_program *p = m->program;
  uint32_t *last, *idle, idle_count = 0; /* the last step that reads a step */
  TSR_TRY(TSR_ARENA_ARRAY(m->arena, p->step_count, &last, m->error));
  TSR_TRY(TSR_ARENA_ARRAY(m->arena, p->step_count, &idle, m->error));
  for (uint32_t e = 0; e < p->root_count; e++) {
    p->steps[p->roots[e]].live = true;
    last[p->roots[e]] = UINT32_MAX;
  }
  for (uint32_t s = p->step_count; s-- > 0;)
    for (uint32_t i = 0; p->steps[s].live && i < p->steps[s].operand_count; i++) {
      p->steps[p->steps[s].operands[i]].live = true;
      last[p->steps[s].operands[i]] = TSR_MAX(last[p->steps[s].operands[i]], s);
    }
  find_kept(p, last);
  for (uint32_t s = 0; s < p->step_count; s++) {
    tsr_step *step = &p->steps[s];
    if (!step->live || step->operation == TSR_OP_CONSTANT) continue;
    step->reg = idle_count > 0 ? idle[--idle_count] : p->register_count++;
    for (uint32_t i = 0; i < step->operand_count; i++) {
      const tsr_step *operand = &p->steps[step->operands[i]];
      bool again = false;
      for (uint32_t k = 0; k < i; k++) again |= step->operands[k] == step->operands[i];
      if (last[step->operands[i]] == s && operand->operation != TSR_OP_CONSTANT && !again)
        idle[idle_count++] = operand->reg;
    }
  }
  return TSR_OK;
}

int tsr__program_make(const tsr_schema *schema, const tsr_expression *const *expressions, uint32_t count,
                      tsr_arena *arena, tsr_program **program, tsr_error *error) {
  program_maker m = {.arena = arena, .error = error, .capacity = make_capacity(expressions, count)};
  TSR_TRY(TSR_ARENA_ARRAY(arena, 1, &m.program, error));
  m.program->schema = schema;
  m.program->root_count = count;
  TSR_TRY(TSR_ARENA_ARRAY(arena, TSR_MAX(count, 1u), &m.program->roots, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, TSR_MAX(count, 1u), &m.program->types, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, m.capacity + 1, &m.program->steps, error));
  m.index.mask = tsr__hash_slots_for(m.capacity + 1) - 1;
  TSR_TRY(TSR_ARENA_ARRAY(arena, m.index.mask + 1, &m.index.slots, error));
  for (m.expression = 0; m.expression < count; m.expression++) TSR_TRY(make_expression(&m, expressions[m.expression]));
  for (uint32_t s = 0; s < m.program->step_count; s++) m.program->texts |= m.program->steps[s].form == TSR_VALUE_TEXT;
  TSR_TRY(give_rooms(&m));
  *program = m.program;
  return TSR_OK;
}

void tsr__program_fields(const tsr_program *program, bool *fields) {
  for (uint32_t s = 0; s < program->step_count; s++) {
    const tsr_step *step = &program->steps[s];
    if (step->live && (step->operation == TSR_OP_FIELD || step->operation == TSR_OP_TABLE)) fields[step->field] = true;
  }
}

tsr_value_type tsr__program_type(const tsr_program *program, uint32_t expression) { return program->types[expression]; }
