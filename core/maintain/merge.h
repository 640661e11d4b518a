/* merge.h: sorted sources -> one stream in global order. */
#ifndef TSR_MERGE_H
#define TSR_MERGE_H

#include "write/fragment_writer.h"

typedef struct tsr_merge_block { /* cells of a source that follow each other */
  uint64_t count; /* less than 2^32 */
  const tsr_column *columns; /* one for each field, then the system columns (u64): time, time of deletion, condition */
} tsr_merge_block;

typedef struct tsr_merge_source {
  /* The next block: 1, or 0 at the end. It lives until the next call. */
  int (*next)(struct tsr_merge_source *source, tsr_merge_block *block, tsr_error *error);
  /* Before that: coordinates that none of the next block's is below in any dimension, one column for each, or NULL
   * where they are not known. A block is asked for when a cell of it may be next. */
  const tsr_column *(*corner)(struct tsr_merge_source *source);
  bool loose; /* cells may be out of order within a block: they are sorted; blocks still follow each other */
} tsr_merge_source;

typedef struct tsr_merge_options {
  const tsr_schema *schema;
  uint32_t system_columns; /* 0; 1: times; 3: times, times of deletion, conditions */
  /* Without duplicates: of equal coordinates only the newest is kept; where there are times all of different times are,
   * the newest first. With duplicates all are. */
  /* Cells with a time of deletion go, and older ones of their coordinates: of the system columns, times alone are written. */
  bool purge;
  tsr_environment *environment;
  tsr_memory *memory;
} tsr_merge_options;

/* Of sources[0..count) the later is the newer where times do not tell. Returns TSR_OK and how many cells were written;
 * TSR_CORRUPT, and `*unsorted` is the source, where the blocks of one do not follow each other; else it is UINT32_MAX. */
int tsr__merge(const tsr_merge_options *options, tsr_merge_source *const *sources, uint32_t count,
               tsr_fragment_writer *writer, uint64_t *cells, uint32_t *unsorted, tsr_error *error);

#endif
