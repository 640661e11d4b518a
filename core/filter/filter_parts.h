/* filter_parts.h: the layout that byteshuffle, bitshuffle, xor and scale_float share, and the loop over its parts.
 *
 * Metadata: u32 number of parts, then the u32 size in bytes of each. Data: the parts, without gaps. Writers make one
 * part, except that bitshuffle makes two if the size is not a multiple of 8.
 */
#ifndef TSR_FILTER_PARTS_H
#define TSR_FILTER_PARTS_H

#include "filter/filter.h"

/* Transforms one part of `size` bytes, which are values of `width` bytes, into `size` bytes. */
typedef int (*tsr_part_transform)(unsigned width, const uint8_t *in, uint64_t size, uint8_t *out, tsr_error *error);

/* The methods of a filter that transforms each part without changing its size. The encoded parts become one data
 * part. */
int tsr__parts_decode(const tsr_filter_context *context, tsr_part_transform transform, tsr_input *metadata,
                      tsr_input data, tsr_part *data_out, tsr_error *error);
int tsr__parts_encode(const tsr_filter_context *context, tsr_part_transform transform, const tsr_chunk *in,
                      tsr_chunk *out, tsr_error *error);

/* Reads the sizes of the parts. Sets *sizes to `count` unaligned u32, borrowed from the metadata. Fails with
 * TSR_CORRUPT if their sum is not data_size. */
int tsr__parts_read(tsr_input *metadata, uint64_t data_size, const uint8_t **sizes, uint32_t *count, tsr_error *error);

/* Sets *size to the size in bytes of all data parts together. Fails with TSR_TOOBIG if it does not fit into the 32 bits
 * that the format has for it. */
int tsr__parts_size(const tsr_chunk *in, uint64_t *size, tsr_error *error);

#endif
