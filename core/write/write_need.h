/* write_need.h: counts, as cells and removed rows come, the memory that a writer's commit will need, so that no commit
 * fails because memory is short. */
#ifndef TSR_WRITE_NEED_H
#define TSR_WRITE_NEED_H

#include "base/memory.h"

typedef struct tsr_buffered tsr_buffered;
typedef struct tsr_writer tsr_writer;

#define TSR_COMMIT_BYTES (UINT64_C(16) << 20) /* bytes past memory_mb to spill and prepare (docs/reference/limits.md) */
#define TSR_SIZE_CLASSES 40

/* bytes of cells in fields of variable size, by classes: class k counts cells of 2^k to 2^(k + 1) - 1 bytes */
typedef struct tsr_sizes {
  uint64_t counts[TSR_SIZE_CLASSES], bytes[TSR_SIZE_CLASSES];
} tsr_sizes;

typedef struct tsr_need {
  bool variable; /* a field has variable size */
  uint64_t row; /* bytes of a cell in a tile of the array, without values of variable size */
  uint64_t coordinates; /* bytes of `row` that a removed row has, too */
  uint64_t tile_cells; /* cells of a tile of the array, at most */
  uint64_t codecs; /* bytes that filters take beside a tile */
  tsr_sizes memory, spilled; /* of the cells in memory; of all runs on disk together */
  tsr_buffer runs; /* tsr_sizes of each run on disk */
} tsr_need;

/* Finds the size of a tile as far as the schema tells it. */
int tsr__need_open(tsr_writer *writer, tsr_error *error);
void tsr__need_release(tsr_writer *writer);

/* Counts cells first..end, which were appended. They are indices in memory. */
void tsr__need_add(tsr_writer *writer, uint64_t first, uint64_t end);

/* Takes back the count of cells first..end, which are about to go. */
void tsr__need_take(tsr_writer *writer, uint64_t first, uint64_t end);

/* Reserves the memory that tsr__need_spilled takes. */
int tsr__need_reserve(tsr_writer *writer, tsr_error *error);

/* Counts the cells in memory as a run on disk. */
void tsr__need_spilled(tsr_writer *writer);

/* Takes back the count of the last run on disk. */
void tsr__need_drop_run(tsr_writer *writer);

/* Checks that a commit of the writer's cells fits its budget and TSR_COMMIT_BYTES. Errors: TSR_BUDGET. */
int tsr__need_check_cells(const tsr_writer *writer, tsr_error *error);

/* Checks the same of a commit of its removed rows. */
int tsr__need_check_removed(const tsr_writer *writer, tsr_error *error);

/* Lends the writer TSR_COMMIT_BYTES past its budget, or ends the loan. */
void tsr__need_lend(tsr_writer *writer, bool lend);

#endif
