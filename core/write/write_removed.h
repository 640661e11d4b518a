/* write_removed.h: the log of removed rows, found by rowid. */
#ifndef TSR_WRITE_REMOVED_H
#define TSR_WRITE_REMOVED_H

#include "base/memory.h"

typedef struct tsr_buffered tsr_buffered;

/* Has the writer removed the row, among its first `removed` ones? Some row of low..high? (write_removed.c) */
bool tsr__writer_hides(const tsr_writer *writer, int64_t row, uint64_t removed);
bool tsr__writer_hides_some(const tsr_writer *writer, int64_t low, int64_t high);

typedef struct tsr_removed {
  uint64_t count;
  uint64_t own; /* rows of the writer's own among them */
  tsr_buffer rows; /* int64_t each */
  tsr_buffered *coordinates; /* by dimension */
  tsr_buffer slots; /* hash table of u64: position + 1; one that is past the count, or of another row, is void */
  uint64_t used; /* slots that are not 0 */
  int64_t low, high; /* around all rows that were ever in it */
} tsr_removed;

int tsr__removed_open(tsr_writer *writer, tsr_error *error);
void tsr__removed_release(tsr_writer *writer);
int tsr__removed_add(tsr_writer *writer, int64_t row, const tsr_column *coordinates, uint64_t index, tsr_error *error);
void tsr__removed_rewind(tsr_writer *writer, uint64_t count);

#endif
