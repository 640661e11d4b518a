/* condition_write.h: the content of a delete's generic tile, node by node (condition.c has the bytes). */
#ifndef TSR_CONDITION_WRITE_H
#define TSR_CONDITION_WRITE_H

#include "format/condition.h"

#define TSR_JOIN_AND 0
#define TSR_JOIN_OR  1

/* Its `count` children, at least two, are appended next. */
int tsr__condition_put_expression(uint8_t join, uint64_t count, tsr_buffer *out, tsr_error *error);

/* Any operator but IN and NOT IN. */
int tsr__condition_put_comparison(tsr_condition_op op, const char *field, const void *value, uint64_t size,
                                  tsr_buffer *out, tsr_error *error);

/* IN, NOT IN (format version 20 and later): `offsets` are those of `count` values, which take `size` bytes in all, not
 * none. */
int tsr__condition_put_set(tsr_condition_op op, const char *field, const void *values, uint64_t size,
                           const uint64_t *offsets, uint64_t count, tsr_buffer *out, tsr_error *error);

#endif
