/* same.c: compares expressions node by node. */
#include "compute/same.h"

#include <string.h>

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
  case TSR_OP_FIELD: return a->field == b->field;
  case TSR_OP_TABLE: return a->table == b->table;
  case TSR_OP_LOOKUP: return a->list == b->list;
  case TSR_OP_WITHIN: return a->within.intervals == b->within.intervals && a->within.count == b->within.count;
  case TSR_OP_MATCH: return a->match == b->match && a->match_argument == b->match_argument;
  default: return true;
  }
}

bool tsr__expressions_same(const tsr_expression *a, const tsr_expression *b) {
  if (a->count != b->count) return false;
  for (uint32_t i = 0; i < a->count; i++)
    if (!same_node(&a->nodes[i], &b->nodes[i])) return false;
  return true;
}
