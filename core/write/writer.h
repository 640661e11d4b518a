/* writer.h: the structure of a writer, for the files that take its changes in, show them to readers and commit them.
 *
 * A writer numbers cells 0, 1, ... as the caller appends them, and removed rows as the caller removes them. It changes
 * nothing in place, so two counts (and one of boxes) are a mark to which it can be rewound. Cells from number `first`
 * on are in memory, as columns; the cells before them are in spilled runs.
 *
 * A sorted run is a sparse fragment (in a dense array, too) of cells with consecutive numbers that only this writer
 * knows. It is sorted, keeps all versions of a coordinate, and the times of its cells are their numbers plus
 * TSR_UNCOMMITTED_TIMES. The writer makes runs in memory when a statement wants a snapshot with the writer's changes,
 * and runs on disk when the cells in memory take too much of its budget. */
#ifndef TSR_WRITER_H
#define TSR_WRITER_H

#include <stdatomic.h>

#include "base/pool.h"
#include "base/sort.h"
#include "format/commits.h"
#include "format/layout.h"
#include "array/fragment.h"
#include "array/pending.h"
#include "write/fragment_writer.h"
#include "write/write_need.h"
#include "write/write_removed.h"

typedef struct tsr_limit tsr_limit;

#define TSR_RUN_VERSION  22 /* format version of runs, which are no part of an array */
#define TSR_RUN_CAPACITY 4096u /* cells in a tile of a run, at most */

typedef struct tsr_buffered { /* a column of cells in the order in which they were appended */
  tsr_buffer values, offsets, validity; /* variable size: count + 1 offsets; none before the first append */
} tsr_buffered;

typedef struct tsr_piece_on_disk { /* a fragment on disk that no commit names yet */
  char name[128]; /* provisional (".UUID") until the commit is prepared */
  tsr_interval *box; /* of a dense fragment; borrowed from the writer's arena */
} tsr_piece_on_disk;

typedef struct tsr_sorted_run {
  uint64_t first, end; /* numbers of its cells; `end` falls if the writer is rewound to a number within a spilled run */
  uint64_t stored; /* cells in the fragment: more than end - first after such a rewind */
  tsr_fragment *fragment;
} tsr_sorted_run;

/* hash table over the coordinates of cells in memory: chains, newest cell first */
typedef struct tsr_coordinate_index {
  uint64_t count; /* cells in the table, from the first one in memory on */
  tsr_buffer heads, next; /* u32: a cell's index in memory + 1; 0: end of the chain */
} tsr_coordinate_index;

typedef struct tsr_ahead { /* the order of cells in memory, found by workers while others come (write_ahead.c) */
  uint64_t next; /* number of cells in memory at which the next block is complete; UINT64_MAX: no block is made */
  tsr_buffer blocks; /* tsr_pair * for each block: its sorted pairs; NULL: a block that was left out */
  bool working; /* a worker sorts the last block: */
  tsr_job job;
  uint64_t number; /* index in memory of the block's first cell */
  tsr_pair *pairs, *spare;
  tsr_column *columns; /* copies of the block's coordinates, by dimension */
  _Atomic bool sorted;
} tsr_ahead;

struct tsr_writer {
  uint32_t references; /* the caller's, and those of snapshots */
  tsr_array *array;
  const tsr_schema *schema;
  bool part; /* it lacks attributes of the newest, so that a snapshot's fields are others */
  uint32_t version;
  tsr_memory memory;
  tsr_arena arena; /* boxes, the schema of runs */
  unsigned threads;
  bool durable;
  char *owner, *owner_file; /* or NULL */
  tsr_file *lock; /* the marker of `commit`, locked by this writer; or NULL */
  const tsr_host_store *scratch_host; /* or NULL: runs on disk lie in the array's store */
  void *scratch_argument;
  tsr_store *scratch; /* once it is open */
  const tsr_commits *carried; /* delete conditions that are committed as they are, under their own names; or NULL */
  bool listed; /* from version 12 on the commit is a list, also of one fragment: so its publication is a rename */
  uint64_t asked_time, time;
  uint32_t field_count;
  tsr_buffered *columns;
  tsr_limit *limits; /* by field */
  uint64_t first, count; /* see above */
  bool kept; /* see tsr_writer_keep */
  uint64_t unweighed; /* bytes since tsr__spill_if_full was asked */
  tsr_ahead ahead;
  tsr_removed removed;
  tsr_need need;
  tsr_schema *run_schema; /* without filters, with duplicates */
  /* the same, of what runs are merged into before they become a fragment: its capacity is the last merge's */
  tsr_schema *part_schema;
  tsr_buffer runs; /* tsr_sorted_run, by number: `spilled` ones, then those in memory */
  uint64_t spilled;
  tsr_snapshot *view; /* the last one that was asked for, of this state: */
  tsr_mark view_mark;
  tsr_coordinate_index index;
  tsr_reader *finder; /* over the snapshot and the spilled runs below */
  tsr_snapshot *finder_base;
  uint64_t finder_spilled;
  tsr_buffer pieces;
  uint64_t boxes; /* the first pieces: boxes that were appended; the others are made when it is prepared */
  bool prepared; /* all of it has its name; nothing was changed since */
  bool reusable; /* it had, for a commit that failed; nothing was changed since: the pieces hold all cells */
  bool published;
  bool reopened; /* `commit` was published, and is to be taken back */
  tsr_buffer withdrawn; /* char[TSR_COMMIT_PATH] each: commits that were; the host may have brought one back */
  char commit[TSR_COMMIT_PATH]; /* what publishes, or '' */
};

/* Releases one reference to the writer; the last one frees it. Snapshots hold references: their fragments and schema
 * belong to the writer. */
void tsr__writer_drop(tsr_writer *writer);

/* Adds a fragment to the commit, as tsr_writer_append_box does, but `write` makes its files. The box lies within the
 * domain and meets no other box of the commit. `write` gets the fragment's target, which is borrowed for the call. */
typedef int (*tsr_piece_writer)(void *argument, const tsr_fragment_target *target, tsr_error *error);

int tsr__writer_add_piece(tsr_writer *writer, const tsr_interval *box, tsr_piece_writer write, void *argument,
                          tsr_error *error);

static inline tsr_sorted_run *tsr__writer_run(const tsr_writer *writer, uint64_t index) {
  return (tsr_sorted_run *)(void *)writer->runs.data + index;
}
static inline uint64_t tsr__writer_runs(const tsr_writer *writer) { return writer->runs.size / sizeof(tsr_sorted_run); }

/* Makes a directory for a fragment under a provisional name, in the root of `scratch`, or among the array's fragments
 * if `scratch` is NULL. */
int tsr__writer_directory(tsr_writer *writer, tsr_store *scratch, char name[128], tsr_error *error);

static inline const char *tsr__writer_fragments(const tsr_writer *writer) {
  return layout_has_commits_folder(writer->version) ? TSR_DIR_FRAGMENTS "/" : "";
}

/* Returns the target for a fragment's files in an existing directory. `directory` and `box` are borrowed. */
tsr_fragment_target tsr__writer_target(tsr_writer *writer, const char *directory, const tsr_interval *box);

#endif
