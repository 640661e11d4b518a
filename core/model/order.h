/* order.h: global order of sparse cells, Hilbert codes (format.md, "Orders"). */
#ifndef TSR_ORDER_H
#define TSR_ORDER_H

#include "tessera.h"

/* Number of the space tile of a coordinate: (v - low) / extent in the dimension's own arithmetic (float32 stays
 * float32), truncated. */
uint64_t tsr__tile_number(const tsr_field *dimension, const void *value);

/* Hilbert code of a cell: bits per dimension = floor(63 / dimensions); values[d], sizes[d] (strings) as in facts of
 * format.md. */
uint64_t tsr__hilbert_code(const tsr_schema *schema, const void *const *values, const uint64_t *sizes);

/* The same of many cells, of dimensions that are no strings: values[d] are the cells' values, one after the other. */
void tsr__hilbert_codes(const tsr_schema *schema, const void *const *values, uint64_t count, uint64_t *codes);

#endif
