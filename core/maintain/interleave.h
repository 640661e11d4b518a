/* interleave.h: writes a fragment from cells of several sources, in an order that the caller picks. */
#ifndef TSR_MAINTAIN_INTERLEAVE_H
#define TSR_MAINTAIN_INTERLEAVE_H

#include "base/memory.h"
#include "write/fragment_writer.h"

#define TSR_NO_SOURCE UINT32_MAX /* padding of a dense tile */

typedef struct tsr_pick {
  uint32_t source, cell;
} tsr_pick;

typedef struct tsr_interleaver { /* `= {0}` can be released safely */
  const tsr_schema *schema;
  uint32_t columns; /* columns of a source: one for each field, then system columns (u64) */
  bool dense; /* columns of dimensions are not read */
  tsr_memory *memory;
  tsr_fragment_writer *writer;
  tsr_buffer order;
  tsr_column *staged; /* by column: the current cells, if they come from several sources */
  struct tsr_interleaved *buffers;
} tsr_interleaver;

/* Makes an interleaver that appends to `writer`. Release it even after an error. Each source has `system_columns`
 * columns after its fields. */
int tsr__interleaver_init(tsr_interleaver *interleaver, const tsr_schema *schema, uint32_t system_columns, bool dense,
                          tsr_memory *memory, tsr_fragment_writer *writer, tsr_error *error);

/* Appends cells in the order of the picks; sources[s] has the columns of source s. */
int tsr__interleaver_write(tsr_interleaver *interleaver, const tsr_column *const *sources, const tsr_pick *picks,
                           uint64_t count, tsr_error *error);
void tsr__interleaver_release(tsr_interleaver *interleaver);

#endif
