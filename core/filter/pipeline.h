/* pipeline.h: filter pipelines as schemas store them, the rules for which filters a pipeline may have, and what filters
 * that transform parts have in common. */
#ifndef TSR_FILTER_PIPELINE_H
#define TSR_FILTER_PIPELINE_H

#include "base/input.h"
#include "base/memory.h"
#include "filter/filter.h"

/* Returns true if decoding may not restore the encoded values exactly (scale_float). */
bool tsr__pipeline_is_lossy(const tsr_pipeline *pipeline);

/* Checks that filter number `place` of a pipeline may be there for this datatype (format.md, schema rules). If not,
 * fails with TSR_CONSTRAINT and the reason. */
int tsr__filter_allowed(const tsr_pipeline *pipeline, uint32_t place, tsr_datatype datatype, uint32_t values_per_cell,
                        bool is_dimension, tsr_error *error);

/* Read and write a stored pipeline, whose layout pipeline.c describes. Reading allocates from `arena`. It fails with
 * TSR_UNSUPPORTED for unknown types, and with TSR_CORRUPT for options of the wrong size. */
int tsr__pipeline_read(tsr_input *in, uint32_t version, tsr_arena *arena, tsr_pipeline *pipeline, tsr_error *error);
int tsr__pipeline_write(const tsr_pipeline *pipeline, uint32_t version, tsr_buffer *out, tsr_error *error);

/* Returns true if the value that scale_float (scale.c) would store, a float of `size` bytes, is in the range of the
 * filter's integers, so that only rounding loses information. */
bool tsr__scale_fits(const tsr_filter *filter, uint64_t size, const void *value);

/* ---- Parts: the layout that byteshuffle, bitshuffle, xor and scale_float share ----
 *
 * Metadata: u32 number of parts, then the u32 size in bytes of each. Data: the parts, without gaps. Writers make one
 * part, except that bitshuffle makes two if the size is not a multiple of 8.
 */

/* Transforms one part of `size` bytes, which holds values of `width` bytes, into `size` bytes. */
typedef int (*tsr_part_transform)(unsigned width, const uint8_t *in, uint64_t size, uint8_t *out, tsr_error *error);

/* The methods of a filter that transforms each part without changing its size. Encoding joins the parts into one data
 * part. */
int tsr__parts_decode(const tsr_filter_context *context, tsr_part_transform transform, tsr_input *metadata,
                      tsr_input data, tsr_part *data_out, tsr_error *error);
int tsr__parts_encode(const tsr_filter_context *context, tsr_part_transform transform, const tsr_chunk *in,
                      tsr_chunk *out, tsr_error *error);

/* Reads the sizes of the parts. Sets *sizes to `count` unaligned u32, borrowed from the metadata. Fails with
 * TSR_CORRUPT if their sum is not data_size. */
int tsr__parts_read(tsr_input *metadata, uint64_t data_size, const uint8_t **sizes, uint32_t *count, tsr_error *error);

/* Sets *size to the total size in bytes of all data parts. Fails with TSR_TOOBIG if it does not fit into the format's
 * 32 bits. */
int tsr__parts_size(const tsr_chunk *in, uint64_t *size, tsr_error *error);

#endif
