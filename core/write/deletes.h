/* deletes.h: turns the coordinates of removed cells into delete conditions. */
#ifndef TSR_WRITE_DELETES_H
#define TSR_WRITE_DELETES_H

#include "base/memory.h"

typedef struct tsr_deletes { /* `= {0}` can be released safely */
  uint64_t count; /* conditions; 0: nothing was removed */
  tsr_buffer bytes; /* content of the .del files (generic tiles), concatenated */
  tsr_buffer ends; /* u64: where each file ends in `bytes` */
} tsr_deletes;

/* Frees the conditions. */
void tsr__deletes_release(tsr_deletes *deletes);

/* Makes as few conditions as possible that delete exactly the cells at these coordinates: cells selection[0..count) of
 * `columns` (NULL: the first `count`), one column for each dimension, in any order and possibly repeated. If the array
 * does not allow duplicates, the caller leaves out the coordinates of uncommitted cells that stay. `version` is the
 * format version of the commit, 16 or later. The caller releases `deletes`. */
int tsr__deletes_make(const tsr_schema *schema, uint32_t version, const uint8_t *key, const tsr_column *columns,
                      const uint32_t *selection, uint64_t count, tsr_memory *memory, tsr_deletes *deletes,
                      tsr_error *error);

/* For arrays with duplicates: checks that all cells of a snapshot at these coordinates are among
 * rows[selection[0..count)]. The snapshot shows the array's current state. Since the rows were chosen, merges may have
 * copied them, which changes their rowids. `chosen` is when the rows were chosen, in milliseconds since 1970: a cell
 * with another rowid counts as such a copy if it is not newer and its coordinates have no more cells than were removed.
 * 0: only the rowids decide. Errors: TSR_CONSTRAINT if the conditions would delete another cell. */
int tsr__deletes_check(tsr_snapshot *snapshot, const tsr_column *columns, const int64_t *rows,
                       const uint32_t *selection, uint64_t count, uint64_t chosen, tsr_memory *memory, unsigned threads,
                       tsr_error *error);

#endif
