/* write_removed.h: the log of rows that a writer has removed, found by rowid. */
#ifndef TSR_WRITE_REMOVED_H
#define TSR_WRITE_REMOVED_H

#include "base/memory.h"

typedef struct tsr_buffered tsr_buffered;

typedef struct tsr_removed {
  const tsr_schema *schema; /* borrowed */
  uint64_t count;
  uint64_t own; /* uncommitted rows among them */
  tsr_buffer rows; /* int64_t: rowids in the order of removal */
  tsr_buffered *coordinates; /* by dimension, of each row */
  /* hash table of u64: position in the log + 1; an entry past `count`, or at which another row stands, counts for
   * nothing */
  tsr_buffer slots;
  uint64_t used; /* entries of `slots` that are not 0 */
  int64_t low, high; /* around all rows that the log has ever had */
} tsr_removed;

/* Makes an empty log. `memory` pays for it, `arena` for the list of its columns. */
int tsr__removed_open(tsr_removed *removed, const tsr_schema *schema, tsr_arena *arena, tsr_memory *memory,
                      tsr_error *error);
void tsr__removed_release(tsr_removed *removed);

/* Appends a row with the coordinates of cell `index` of the columns, unless the log has it. On failure the log is
 * unchanged. */
int tsr__removed_add(tsr_removed *removed, int64_t row, const tsr_column *coordinates, uint64_t index,
                     tsr_error *error);

/* Forgets all but the first `count` rows. */
void tsr__removed_rewind(tsr_removed *removed, uint64_t count);

/* Returns true if the row is among the `first` first rows of the log. */
bool tsr__removed_has(const tsr_removed *removed, int64_t row, uint64_t first);

/* Returns false only if the log has no row of low..high. */
bool tsr__removed_meets(const tsr_removed *removed, int64_t low, int64_t high);

#endif
