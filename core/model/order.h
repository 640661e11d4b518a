/* order.h: tile numbers and Hilbert codes, by which the cells of a sparse array are put in global order (format.md,
 * "Orders"). */
#ifndef TSR_ORDER_H
#define TSR_ORDER_H

#include "tessera.h"

/* Returns the number of the space tile that contains `value` on this dimension: (value - low) / extent, truncated,
 * computed in the dimension's own type (FLOAT32 in float). */
uint64_t tsr__tile_number(const tsr_field *dimension, const void *value);

/* Returns the Hilbert code of a cell. values[d] is the cell's value in dimension d, sizes[d] its size in bytes if the
 * dimension is of strings; `sizes` may be NULL if none is. Each dimension contributes floor(63 / dimensions) bits. */
uint64_t tsr__hilbert_code(const tsr_schema *schema, const void *const *values, const uint64_t *sizes);

/* Sets the Hilbert codes of `count` cells of a schema without string dimensions. values[d] are the values of all cells
 * in dimension d. */
void tsr__hilbert_codes(const tsr_schema *schema, const void *const *values, uint64_t count, uint64_t *codes);

#endif
