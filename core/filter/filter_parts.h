/* filter_parts.h: the metadata that byteshuffle, bitshuffle, xor and scale_float share, and a run over its parts.
 *
 * u32 number of parts, then for each u32 bytes of it. Data: the parts, nothing between them. Writers give one part, but
 * bitshuffle two where the size is no multiple of 8.
 */
#ifndef TSR_FILTER_PARTS_H
#define TSR_FILTER_PARTS_H

#include "filter/filter.h"

/* What happens to one part of `size` bytes, values of `width` bytes; as many bytes come out. */
typedef int (*tsr_part_transform)(unsigned width, const uint8_t *in, uint64_t size, uint8_t *out, tsr_error *error);

/* Both ways for filters that keep the size of each part. Forward, several parts become one piece of data. */
int tsr__parts_decode(const tsr_filter_context *context, tsr_part_transform transform, tsr_input *metadata,
                      tsr_input data, tsr_part *data_out, tsr_error *error);
int tsr__parts_encode(const tsr_filter_context *context, tsr_part_transform transform, const tsr_chunk *in,
                      tsr_chunk *out, tsr_error *error);

/* The sizes of the parts, which together are data_size: *sizes is `count` unaligned u32, borrowed from the metadata. */
int tsr__parts_read(tsr_input *metadata, uint64_t data_size, const uint8_t **sizes, uint32_t *count, tsr_error *error);
/* The bytes of all data parts together; TSR_TOOBIG past the 32 bits that the format has for them. */
int tsr__parts_size(const tsr_chunk *in, uint64_t *size, tsr_error *error);

#endif
