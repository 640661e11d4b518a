/* condition_write.c: writes delete conditions, node by node, parents first. condition.c describes the bytes. */
#include "format/condition_write.h"

#include <string.h>

#include "base/arithmetic.h"

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
