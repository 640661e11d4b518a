/* interleave.h: cells of several sources, in an order of their own, into a fragment. */
#ifndef TSR_INTERLEAVE_H
#define TSR_INTERLEAVE_H

#include "base/memory.h"

typedef struct tsr_fragment_writer tsr_fragment_writer;

#define TSR_NO_SOURCE UINT32_MAX /* padding of a dense tile */

typedef struct tsr_pick {
  uint32_t source, cell;
} tsr_pick;

typedef struct tsr_interleaver { /* `= {0}`; release frees */
  const tsr_schema *schema;
  uint32_t columns; /* of a source: one for each field, then u64 ones */
  bool dense; /* columns of dimensions are not looked at */
  tsr_memory *memory;
  tsr_fragment_writer *writer;
  tsr_buffer order;
  tsr_column *staged; /* what comes from several sources */
  struct tsr_interleaved *buffers;
} tsr_interleaver;

int tsr__interleaver_init(tsr_interleaver *interleaver, const tsr_schema *schema, uint32_t system_columns, bool dense,
                          tsr_memory *memory, tsr_fragment_writer *writer, tsr_error *error);

/* Appends the cells in the order of the picks; sources[s] are the columns of source s. */
int tsr__interleaver_write(tsr_interleaver *interleaver, const tsr_column *const *sources, const tsr_pick *picks,
                           uint64_t count, tsr_error *error);
void tsr__interleaver_release(tsr_interleaver *interleaver);

#endif
