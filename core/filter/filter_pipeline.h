/* filter_pipeline.h: filter pipelines as schemas store them, and the rules which filters a pipeline may have. */
#ifndef TSR_FILTER_PIPELINE_H
#define TSR_FILTER_PIPELINE_H

#include "base/input.h"
#include "base/memory.h"

/* Returns true if decoding may not give exactly the values that were encoded (scale_float). */
bool tsr__pipeline_is_lossy(const tsr_pipeline *pipeline);

/* Checks that the filter number `place` of a pipeline is allowed there for this datatype (format.md, schema rules).
 * Fails with TSR_CONSTRAINT and the reason if it is not. */
int tsr__filter_allowed(const tsr_pipeline *pipeline, uint32_t place, tsr_datatype datatype, uint32_t values_per_cell,
                        bool is_dimension, tsr_error *error);

/* Read and write a stored pipeline, whose layout filter_pipeline.c describes. Reading allocates from `arena`. It fails
 * with TSR_UNSUPPORTED for unknown types, and refuses options of the wrong size. */
int tsr__pipeline_read(tsr_input *in, uint32_t version, tsr_arena *arena, tsr_pipeline *pipeline, tsr_error *error);
int tsr__pipeline_write(const tsr_pipeline *pipeline, uint32_t version, tsr_buffer *out, tsr_error *error);

#endif
