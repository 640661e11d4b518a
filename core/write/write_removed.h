/* write_removed.h: the log of rows that a writer has removed, found by rowid. */
#ifndef TSR_WRITE_REMOVED_H
#define TSR_WRITE_REMOVED_H

#include "base/memory.h"

typedef struct tsr_buffered tsr_buffered;

/* tsr__writer_hides returns true if the row is among the first `removed` rows that the writer has removed.
 * tsr__writer_hides_some returns false only if the writer has removed no row of low..high. */
bool tsr__writer_hides(const tsr_writer *writer, int64_t row, uint64_t removed);
bool tsr__writer_hides_some(const tsr_writer *writer, int64_t low, int64_t high);

typedef struct tsr_removed {
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

int tsr__removed_open(tsr_writer *writer, tsr_error *error);
void tsr__removed_release(tsr_writer *writer);
int tsr__removed_add(tsr_writer *writer, int64_t row, const tsr_column *coordinates, uint64_t index, tsr_error *error);
void tsr__removed_rewind(tsr_writer *writer, uint64_t count);

#endif
