/* write_deletes.h: removed coordinates -> delete conditions. */
#ifndef TSR_WRITE_DELETES_H
#define TSR_WRITE_DELETES_H

#include "base/memory.h"

typedef struct tsr_deletes { /* `= {0}`; release frees */
  uint64_t count; /* conditions: 0 if nothing was removed */
  tsr_buffer bytes; /* .del files (generic tiles), one after the other */
  tsr_buffer ends; /* u64: where each ends */
} tsr_deletes;

void tsr__deletes_release(tsr_deletes *deletes);

/* As few conditions as say that exactly the cells at these coordinates are gone: cells selection[0..count) of `columns`
 * (NULL: the first `count`), one column for each dimension, in any order, also more than once. Coordinates of own cells
 * that live must have been left out where the array has no duplicates. `version` is that of the commit, 16 or later. */
int tsr__deletes_make(const tsr_schema *schema, uint32_t version, const uint8_t *key, const tsr_column *columns,
                      const uint32_t *selection, uint64_t count, tsr_memory *memory, tsr_deletes *deletes,
                      tsr_error *error);

/* Arrays with duplicates: do all cells of a (fresh) snapshot at these coordinates belong to rows[selection[0..count)]?
 * TSR_CONSTRAINT if the conditions would delete another one. */
int tsr__deletes_check(tsr_snapshot *snapshot, const tsr_column *columns, const int64_t *rows,
                       const uint32_t *selection, uint64_t count, tsr_memory *memory, unsigned threads,
                       tsr_error *error);

#endif
