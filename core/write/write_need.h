/* write_need.h: what a writer's commit will take of memory. */
#ifndef TSR_WRITE_NEED_H
#define TSR_WRITE_NEED_H

#include "base/memory.h"

typedef struct tsr_buffered tsr_buffered;
typedef struct tsr_writer tsr_writer;

#define TSR_COMMIT_BYTES                                                                                               \
  (UINT64_C(16) << 20) /* past memory_mb, that spilling and preparing may take beside it (docs/sql.md) */
#define TSR_SIZE_CLASSES 40

typedef struct
    tsr_sizes { /* bytes that cells have in fields of variable size: class k counts those of 2^k to 2^(k + 1) - 1 */
  uint64_t counts[TSR_SIZE_CLASSES], bytes[TSR_SIZE_CLASSES];
} tsr_sizes;

typedef struct tsr_need {
  bool variable; /* some fields are */
  uint64_t row; /* bytes of a cell in a tile of the array, without those of variable size */
  uint64_t coordinates; /* of these what a removed row has */
  uint64_t tile_cells; /* at most */
  uint64_t codecs; /* what filters take beside a tile */
  tsr_sizes memory, spilled; /* of the cells in memory; of all runs */
  tsr_buffer runs; /* tsr_sizes of each run on disk */
} tsr_need;

int tsr__need_open(tsr_writer *writer, tsr_error *error);
void tsr__need_release(tsr_writer *writer);

/* Cells first.. of the columns have come, or are about to go: numbers within those in memory. */
void tsr__need_add(tsr_writer *writer, uint64_t first, uint64_t end);
void tsr__need_take(tsr_writer *writer, uint64_t first, uint64_t end);

/* The cells in memory become a run, for which there has been room; the last run goes. */
int tsr__need_reserve(tsr_writer *writer, tsr_error *error);
void tsr__need_spilled(tsr_writer *writer);
void tsr__need_drop_run(tsr_writer *writer);

/* TSR_BUDGET where a commit of what the writer holds may take more than its budget and TSR_COMMIT_BYTES: of cells, of removed rows. */
int tsr__need_check_cells(const tsr_writer *writer, tsr_error *error);
int tsr__need_check_removed(const tsr_writer *writer, tsr_error *error);

/* Lets the writer have TSR_COMMIT_BYTES past its budget, or takes them back. */
void tsr__need_lend(tsr_writer *writer, bool lend);

#endif
