/* rising.c: keys that rise with a dimension, such as t / 1000: if they are equal at both ends of a tile, the whole tile
 * is one group, and statistics can answer for it.
 *
 * Such a key is made of one integer dimension, constants, and operations that never make a greater value from a lesser
 * one: sums, differences and products with constants, quotients by constants above 0, roundings. Rounding of reals
 * keeps that order, too. The values at the ends are those that kernels.c computes for cells; where they would overflow,
 * the cells are read.
 *
 * Sections: which expressions rise, values at a coordinate. */
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "query/query.h"

#define RISING_NODES 24u /* of an expression; keys are short */

/* ---- Which expressions rise -------------------------------------------------------------------------------------- */

static bool rising_is_positive(const tsr_node *node) {
  if (node->operation != TSR_OP_CONSTANT) return false;
  return node->value.type == TSR_VALUE_INTEGER ? node->value.as.integer > 0 : node->value.as.real > 0;
}

static bool rising_is_number(const tsr_value *value) {
  return value->type == TSR_VALUE_INTEGER || (value->type == TSR_VALUE_REAL && isfinite(value->as.real));
}

static bool rising_dimension(const tsr_schema *schema, uint32_t field) {
  if (field >= schema->dimension_count || schema->fields[field].values_per_cell != 1) return false;
  const tsr_kind kind = tsr_datatype_kind(schema->fields[field].datatype);
  return (kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED) && schema->fields[field].datatype != TSR_UINT64;
}

/* Returns true if node n does not fall as the dimension rises. varies[m] says of each earlier node whether it depends
 * on the dimension. */
static bool rising_node(const tsr_expression *expression, uint32_t n, bool *varies) {
  const tsr_node *node = &expression->nodes[n];
  const uint32_t a = node->operand_count > 0 ? node->operands[0] : 0,
                 b = node->operand_count > 1 ? node->operands[1] : 0;
  switch (node->operation) {
  case TSR_OP_CONSTANT: return rising_is_number(&node->value);
  case TSR_OP_ADD: varies[n] = varies[a] || varies[b]; return true;
  case TSR_OP_SUBTRACT: varies[n] = varies[a]; return !varies[b];
  case TSR_OP_MULTIPLY:
    varies[n] = varies[a] || varies[b];
    return varies[a] ? rising_is_positive(&expression->nodes[b])
                     : !varies[b] || rising_is_positive(&expression->nodes[a]);
  case TSR_OP_DIVIDE: varies[n] = varies[a]; return !varies[b] && rising_is_positive(&expression->nodes[b]);
  case TSR_OP_TO_INTEGER:
  case TSR_OP_TO_REAL:
  case TSR_OP_PLUS:
  case TSR_OP_FLOOR:
  case TSR_OP_CEIL:
  case TSR_OP_TRUNC: varies[n] = varies[a]; return true;
  default: return false;
  }
}

bool tsr__query_rises(const tsr_schema *schema, const tsr_expression *expression, uint32_t *field) {
  bool varies[RISING_NODES] = {false};
  *field = schema->dimension_count;
  if (expression->count == 0 || expression->count > RISING_NODES) return false;
  for (uint32_t n = 0; n < expression->count; n++) {
    const tsr_node *node = &expression->nodes[n];
    if (node->operation != TSR_OP_FIELD) {
      if (!rising_node(expression, n, varies)) return false;
      continue;
    }
    if (!rising_dimension(schema, node->field) || (*field != schema->dimension_count && *field != node->field))
      return false;
    *field = node->field;
    varies[n] = true;
  }
  return varies[expression->count - 1];
}

/* ---- Values at a coordinate -------------------------------------------------------------------------------------- */

static double rising_real(const tsr_value *value) {
  return value->type == TSR_VALUE_REAL ? value->as.real : (double)value->as.integer;
}

/* Computes an operation of integers. Returns false if it overflows. */
static bool rising_integers(tsr_operation operation, int64_t a, int64_t b, int64_t *out) {
  switch (operation) {
  case TSR_OP_ADD: return !__builtin_add_overflow(a, b, out);
  case TSR_OP_SUBTRACT: return !__builtin_sub_overflow(a, b, out);
  case TSR_OP_MULTIPLY: return !__builtin_mul_overflow(a, b, out);
  case TSR_OP_DIVIDE: *out = a / b; return true; /* b is above 0 */
  default: *out = a; return true; /* rounding changes no integer */
  }
}

static double rising_reals(tsr_operation operation, double a, double b) {
  switch (operation) {
  case TSR_OP_ADD: return a + b;
  case TSR_OP_SUBTRACT: return a - b;
  case TSR_OP_MULTIPLY: return a * b;
  case TSR_OP_DIVIDE: return a / b;
  case TSR_OP_FLOOR: return floor(a);
  case TSR_OP_CEIL: return ceil(a);
  case TSR_OP_TRUNC: return trunc(a);
  default: return a;
  }
}

/* Computes an operation. Returns false if the value is not certain to be what the kernels compute. */
static bool rising_compute(tsr_operation operation, const tsr_value *a, const tsr_value *b, tsr_value *out) {
  const bool real = a->type == TSR_VALUE_REAL || (b && b->type == TSR_VALUE_REAL);
  if (!real && operation != TSR_OP_TO_REAL) {
    out->type = TSR_VALUE_INTEGER;
    return rising_integers(operation, a->as.integer, b ? b->as.integer : 0, &out->as.integer);
  }
  const double number = rising_reals(operation, rising_real(a), b ? rising_real(b) : 0);
  if (operation == TSR_OP_TO_INTEGER) {
    if (!(fabs(number) <= (double)TSR_EXACT_REAL)) return false;
    *out = (tsr_value){.type = TSR_VALUE_INTEGER, .as.integer = (int64_t)number};
    return true;
  }
  *out = (tsr_value){.type = TSR_VALUE_REAL, .as.real = number};
  return isfinite(number);
}

bool tsr__query_rising_word(const tsr_expression *expression, tsr_value_type type, int64_t coordinate, uint64_t *word) {
  tsr_value values[RISING_NODES];
  for (uint32_t n = 0; n < expression->count; n++) {
    const tsr_node *node = &expression->nodes[n];
    if (node->operation == TSR_OP_CONSTANT) values[n] = node->value;
    else if (node->operation == TSR_OP_FIELD)
      values[n] = (tsr_value){.type = TSR_VALUE_INTEGER, .as.integer = coordinate};
    else if (!rising_compute(node->operation, &values[node->operands[0]],
                             node->operand_count > 1 ? &values[node->operands[1]] : NULL, &values[n]))
      return false;
  }
  const tsr_value *value = &values[expression->count - 1];
  if (value->type != type) return false;
  if (type == TSR_VALUE_INTEGER) *word = (uint64_t)value->as.integer;
  else tsr__words_of_reals(&value->as.real, 1, word);
  return true;
}
