/* query_where.c: the comparisons of a WHERE with which the reader can leave out tiles by their statistics.
 *
 * These are the terms `FIELD op CONSTANT` that AND joins, of attributes that are numbers. They become predicates whose
 * ranges may be wider than the comparison: the query tests each cell itself.
 */
#include "analyze/query_where.h"

#include <math.h>
#include <string.h>

#include "model/datatype.h"

#define EXACT_INTEGERS (INT64_C(1) << 53) /* as doubles, up to here */

typedef struct where_predicates {
  tsr_query_run *run;
  tsr_predicate *list;
  uint32_t count;
} where_predicates;

/* Writes the bound of a range in a field's datatype, rounded outwards. Returns false if it has none there. */
static bool where_bound(const tsr_field *field, const tsr_value *value, bool is_low, uint8_t *bound) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  if (kind == TSR_KIND_FLOAT) {
    if (value->type == TSR_VALUE_INTEGER && (value->as.integer > EXACT_INTEGERS || value->as.integer < -EXACT_INTEGERS))
      return false;
    const double wanted = value->type == TSR_VALUE_INTEGER ? (double)value->as.integer : value->as.real;
    if (!isfinite(wanted)) return false;
    if (field->datatype == TSR_FLOAT64) {
      memcpy(bound, &wanted, sizeof wanted);
      return true;
    }
    if (fabs(wanted) > 3e38) return false;
    float nearest = (float)wanted;
    if (is_low && (double)nearest > wanted) nearest = nextafterf(nearest, -INFINITY);
    if (!is_low && (double)nearest < wanted) nearest = nextafterf(nearest, INFINITY);
    memcpy(bound, &nearest, sizeof nearest);
    return true;
  }
  if (value->type != TSR_VALUE_INTEGER || field->datatype == TSR_UINT64) return false;
  if (kind != TSR_KIND_SIGNED && kind != TSR_KIND_UNSIGNED) return false;
  const unsigned bits = 8 * (unsigned)field->cell_size;
  const int64_t least = kind == TSR_KIND_UNSIGNED ? 0 : bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1));
  const int64_t most = kind == TSR_KIND_UNSIGNED ? (INT64_C(1) << bits) - 1 : -(least + 1);
  if (value->as.integer < least || value->as.integer > most) return false;
  memcpy(bound, &value->as.integer, field->cell_size); /* little-endian */
  return true;
}

static tsr_operation where_mirrored(tsr_operation operation) {
  switch (operation) {
  case TSR_OP_LESS: return TSR_OP_GREATER;
  case TSR_OP_LESS_EQUAL: return TSR_OP_GREATER_EQUAL;
  case TSR_OP_GREATER: return TSR_OP_LESS;
  case TSR_OP_GREATER_EQUAL: return TSR_OP_LESS_EQUAL;
  default: return operation;
  }
}

static int where_compare(where_predicates *to, tsr_operation operation, const tsr_node *field_node,
                         const tsr_node *constant, tsr_error *error) {
  const tsr_schema *schema = to->run->snapshot->schema;
  const tsr_field *field = &schema->fields[field_node->field];
  const bool has_low = operation != TSR_OP_LESS && operation != TSR_OP_LESS_EQUAL;
  const bool has_high = operation != TSR_OP_GREATER && operation != TSR_OP_GREATER_EQUAL;
  uint8_t low[8] = {0}, high[8] = {0}, *bounds;
  tsr_range *range;
  if (field->is_dimension || field->values_per_cell != 1) return TSR_OK;
  if (constant->value.type != TSR_VALUE_INTEGER && constant->value.type != TSR_VALUE_REAL) return TSR_OK;
  if ((has_low && !where_bound(field, &constant->value, true, low)) ||
      (has_high && !where_bound(field, &constant->value, false, high)))
    return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&to->run->arena, 16, &bounds, error));
  TSR_TRY(TSR_ARENA_ARRAY(&to->run->arena, 1, &range, error));
  memcpy(bounds, low, sizeof low);
  memcpy(bounds + 8, high, sizeof high);
  *range = (tsr_range){.low = has_low ? bounds : NULL, .high = has_high ? bounds + 8 : NULL};
  to->list[to->count++] = (tsr_predicate){
      .field = field_node->field, .kind = TSR_PREDICATE_WITHIN, .ranges = {.ranges = range, .count = 1}};
  return TSR_OK;
}

int tsr__query_where_predicates(tsr_query_run *run, const tsr_predicate **predicates, uint32_t *count,
                                tsr_error *error) {
  const tsr_expression *where = &run->query.where;
  where_predicates to = {.run = run};
  bool *holds; /* by node: it must be true for the WHERE to be true */
  *count = 0;
  if (!run->expressions.where) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, where->count, &holds, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, where->count, &to.list, error));
  holds[where->count - 1] = true;
  for (uint32_t n = where->count; n-- > 0;) {
    const tsr_node *node = &where->nodes[n];
    if (!holds[n]) continue;
    if (node->operation == TSR_OP_AND) holds[node->operands[0]] = holds[node->operands[1]] = true;
    if (node->operation != TSR_OP_EQUAL && node->operation != TSR_OP_LESS && node->operation != TSR_OP_LESS_EQUAL &&
        node->operation != TSR_OP_GREATER && node->operation != TSR_OP_GREATER_EQUAL)
      continue;
    const tsr_node *a = &where->nodes[node->operands[0]], *b = &where->nodes[node->operands[1]];
    if (a->operation == TSR_OP_FIELD && b->operation == TSR_OP_CONSTANT)
      TSR_TRY(where_compare(&to, node->operation, a, b, error));
    else if (b->operation == TSR_OP_FIELD && a->operation == TSR_OP_CONSTANT)
      TSR_TRY(where_compare(&to, where_mirrored(node->operation), b, a, error));
  }
  *predicates = to.list;
  *count = to.count;
  return TSR_OK;
}
