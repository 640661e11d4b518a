/* condition_write.h: writes the content of a delete condition's generic tile, node by node, parents first. condition.c
 * describes the bytes. On an error `out` is unchanged. */
#ifndef TSR_CONDITION_WRITE_H
#define TSR_CONDITION_WRITE_H

#include "format/condition.h"

#define TSR_JOIN_AND 0
#define TSR_JOIN_OR  1

/* Appends an expression that joins its children by TSR_JOIN_AND or TSR_JOIN_OR. The caller appends its `count`
 * children, at least two, next. */
int tsr__condition_put_expression(uint8_t join, uint64_t count, tsr_buffer *out, tsr_error *error);

/* Appends a comparison with any operator but IN and NOT IN. `size`: of the value, in bytes. */
int tsr__condition_put_comparison(tsr_condition_op op, const char *field, const void *value, uint64_t size,
                                  tsr_buffer *out, tsr_error *error);

/* Appends a comparison with IN or NOT IN (format version 20 and later). `values` holds the values one after the other,
 * `size` bytes in all, at least one; `offsets` says where each of the `count` values begins, in bytes. */
int tsr__condition_put_set(tsr_condition_op op, const char *field, const void *values, uint64_t size,
                           const uint64_t *offsets, uint64_t count, tsr_buffer *out, tsr_error *error);

#endif
