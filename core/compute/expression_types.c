/* expression_types.c: finds the static type of each node of an expression, and which nodes cannot be evaluated. */
#include <stdlib.h>

#include "compute/program.h"

#define LITERAL_MAX (INT64_C(1) << 53) /* integers up to here are doubles */

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

/* The type that both of two branches have; a literal INTEGER beside a REAL makes a NUMBER. */
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

/* NEGATE, PLUS, ABS and roundings, which keep the type. */
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
  type.literal = value->as.integer >= -LITERAL_MAX && value->as.integer <= LITERAL_MAX;
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

/* Returns true if a list says what it holds. */
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

/* Checks what a host may have got wrong. */
static int check_typed_node(const tsr_schema *schema, const tsr_node *nodes, uint32_t n, tsr_error *error) {
  const tsr_node *node = &nodes[n];
  const uint32_t fields = schema->dimension_count + schema->attribute_count;
  if ((uint32_t)node->operation >= TSR_OP_COUNT) return tsr__fail(error, TSR_ERROR, "node %u: no such operation", n);
  const uint8_t *limits = operand_limits[node->operation];
  if (node->operand_count < limits[0] || (limits[1] < 9 && node->operand_count > limits[1]))
    return tsr__fail(error, TSR_ERROR, "node %u: %u operands", n, node->operand_count);
  for (uint32_t i = 0; i < node->operand_count; i++)
    if (node->operands[i] >= n) return tsr__fail(error, TSR_ERROR, "node %u: an operand is no earlier node", n);
  if (node->operation == TSR_OP_FIELD && node->field >= fields)
    return tsr__fail(error, TSR_ERROR, "node %u: no field %u", n, node->field);
  if (node->operation == TSR_OP_CONSTANT &&
      (node->value.type == TSR_VALUE_OPAQUE || node->value.type == TSR_VALUE_NUMBER))
    return tsr__fail(error, TSR_ERROR, "node %u: a constant of no type of SQL", n);
  if (node->operation == TSR_OP_MATCH && !node->match) return tsr__fail(error, TSR_ERROR, "node %u: no function", n);
  if (node->operation == TSR_OP_LOOKUP && !is_value_list(node->list))
    return tsr__fail(error, TSR_ERROR, "node %u: a list of values of no such type", n);
  if (node->operation != TSR_OP_TABLE) return TSR_OK;
  const tsr_value_table *table = node->table;
  if (!table || table->field >= fields) return tsr__fail(error, TSR_ERROR, "node %u: a table without a field", n);
  const tsr_value_type type = field_type(&schema->fields[table->field]).type;
  if (type != TSR_VALUE_INTEGER && type != TSR_VALUE_UNSIGNED && type != TSR_VALUE_INSTANT)
    return tsr__fail(error, TSR_ERROR, "node %u: a table of %s, which is no integer", n,
                     schema->fields[table->field].name);
  if (table->type != TSR_VALUE_INTEGER && table->type != TSR_VALUE_REAL && table->type != TSR_VALUE_TEXT &&
      table->type != TSR_VALUE_NUMBER && table->type != TSR_VALUE_NULL)
    return tsr__fail(error, TSR_ERROR, "node %u: a table of values of no such type", n);
  return TSR_OK;
}

int tsr__expression_types(const tsr_schema *schema, const tsr_expression *expression, tsr_typed *types, uint32_t *node,
                          tsr_expression_fault *fault, tsr_error *error) {
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
  const int code = tsr__expression_types(schema, expression, typed, node, fault, error);
  const uint32_t count = code == TSR_OK ? expression->count : code == TSR_MISMATCH ? *node : 0;
  for (uint32_t n = 0; n < count; n++) types[n] = typed[n].type;
  return code;
}
