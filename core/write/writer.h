/* writer.h: the structure of a writer, for the files that take its changes in, show them to readers and commit them.
 *
 * A writer numbers cells 0, 1, ... as the caller appends them, and removed rows as the caller removes them. It changes
 * nothing in place, so two counts (and one of boxes) are a mark to which it can be rewound. Cells from number
 * `cells.first` on are in memory, as columns; the cells before them are in spilled runs.
 *
 * A sorted run is a sparse fragment (in a dense array, too) of cells with consecutive numbers that only this writer
 * knows. It is sorted, keeps all versions of a coordinate, and the times of its cells are their numbers plus
 * TSR_UNCOMMITTED_TIMES. The writer makes runs in memory when a statement wants a snapshot with the writer's changes,
 * and runs on disk when the cells in memory take too much of its budget. */
#ifndef TSR_WRITER_H
#define TSR_WRITER_H

#include "write/transaction_view.h"
#include "write/write_ahead.h"
#include "write/write_buffer.h"
#include "write/write_commit.h"
#include "write/write_find.h"
#include "write/write_need.h"
#include "write/write_removed.h"
#include "write/write_spill.h"

typedef struct tsr_cell_buffer { /* cells in memory: numbers first..count */
  tsr_buffered *columns; /* by field */
  tsr_limit *limits; /* by field */
  uint64_t first, count;
  uint64_t unweighed; /* bytes of cells that were appended since tsr__spill_if_full weighed them */
  bool kept; /* tsr_writer_keep: cells are not spilled */
  tsr_coordinate_index index; /* of their coordinates */
  tsr_ahead ahead; /* their order, as far as it is known */
} tsr_cell_buffer;

struct tsr_writer {
  uint32_t references; /* 1 of the caller, and 1 of each snapshot */
  tsr_array *array; /* borrowed */
  const tsr_schema *schema; /* of the cells */
  uint32_t field_count;
  uint32_t version; /* format version of the commit */
  tsr_memory memory; /* the budget, memory_mb */
  tsr_arena arena; /* memory that lives as long as the writer: columns, boxes, the schema of runs */
  unsigned threads;
  tsr_cell_buffer cells;
  tsr_removed removed;
  tsr_need need;
  tsr_runs runs;
  tsr_kept_view view;
  tsr_finder finder;
  tsr_commit_state commit;
};

/* Releases one reference to the writer; the last one frees it. Snapshots hold references: their fragments and schema
 * belong to the writer. */
void tsr__writer_drop(tsr_writer *writer);

/* Fails if the writer has published its commit: it takes no changes then. */
int tsr__writer_check_open(const tsr_writer *writer, tsr_error *error);

/* Returns the number of cells in memory. */
static inline uint64_t tsr__writer_in_memory(const tsr_writer *writer) {
  return writer->cells.count - writer->cells.first;
}

/* Returns `rc`, an error with the array's path in front of its message. */
static inline int tsr__writer_wrap(const tsr_writer *writer, int rc, tsr_error *error) {
  return rc < 0 ? tsr__wrap(error, "array %s", writer->array->path) : rc;
}

#endif
