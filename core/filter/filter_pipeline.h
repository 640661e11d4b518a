/* filter_pipeline.h: pipelines as they are stored, and which filters a schema may name where. */
#ifndef TSR_FILTER_PIPELINE_H
#define TSR_FILTER_PIPELINE_H

#include "base/input.h"
#include "base/memory.h"

/* Does this pipeline give back other values than went in? */
bool tsr__pipeline_is_lossy(const tsr_pipeline *pipeline);

/* May this filter stand in this place of a pipeline over this datatype (schema rules, format.md)? TSR_CONSTRAINT says
 * why not. */
int tsr__filter_allowed(const tsr_pipeline *pipeline, uint32_t place, tsr_datatype datatype, uint32_t values_per_cell,
                        bool is_dimension, tsr_error *error);

/* Stored pipelines (filter_pipeline.c): u32 max chunk size, u32 count, then u8 type, u32 size, options each. Decoding
 * refuses unknown types (TSR_UNSUPPORTED, by name for WebP) and wrong option sizes; arrays come from `arena`. */
int tsr__pipeline_read(tsr_input *in, uint32_t version, tsr_arena *arena, tsr_pipeline *pipeline, tsr_error *error);
int tsr__pipeline_write(const tsr_pipeline *pipeline, uint32_t version, tsr_buffer *out, tsr_error *error);

#endif
