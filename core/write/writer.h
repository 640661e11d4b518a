/* writer.h: a writer from inside: what write_buffer.c, write_removed.c, write_ahead.c, transaction_view.c,
 * write_spill.c and writer.c share.
 *
 * Cells are numbered 0, 1, ... as they are appended, removed rows as they are removed; nothing is changed in place, so
 * that a mark is two counts. Cells from `first` on are in memory, in columns; those before are in spilled runs. A run
 * is
 * a sparse fragment (also in a dense array) of some consecutive cells that only this writer knows: sorted, all versions
 * of a
 * coordinate kept, the times of its cells being their numbers plus TSR_UNCOMMITTED_TIMES. Runs in memory are made when a
 * snapshot with the
 * writer's changes is asked for; runs on disk when the buffer is full.
 */
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

#define TSR_RUN_VERSION  22 /* of the format: runs are no part of an array */
#define TSR_RUN_CAPACITY 4096u /* cells of a tile, at most */

typedef struct tsr_buffered { /* a column of cells in the order in which they came */
  tsr_buffer values, offsets, validity; /* variable: count + 1 offsets, none before the first append */
} tsr_buffered;

typedef struct tsr_piece_on_disk { /* a fragment on disk, not published */
  char name[128]; /* ".UUID", or its own */
  tsr_interval *box; /* dense */
} tsr_piece_on_disk;

typedef struct tsr_sorted_run {
  uint64_t first, end; /* numbers of its cells; `end` falls when the writer is rewound into a spilled one */
  uint64_t stored; /* cells that it holds */
  tsr_fragment *fragment;
} tsr_sorted_run;

typedef struct tsr_coordinate_index { /* of cells in memory: chains of those whose hash ends the same, newest first */
  uint64_t count; /* cells that are in it */
  tsr_buffer heads, next; /* u32: index of a cell + 1 */
} tsr_coordinate_index;

typedef struct tsr_ahead { /* cells in memory whose order is found while others come: see write_ahead.c */
  uint64_t next; /* cells that make one more block whole; UINT64_MAX: there are none */
  tsr_buffer blocks; /* tsr_pair *: NULL where it was left out */
  bool working; /* on the last one: the job, of */
  tsr_job job;
  uint64_t number; /* its first cell's */
  tsr_pair *pairs, *spare;
  tsr_column *columns; /* its coordinates */
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
  tsr_schema *
      /* the same, of what runs are merged into before they become a fragment: its capacity is the last merge's */
      part_schema;
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

void tsr__writer_drop(tsr_writer *writer); /* one of its references */

/* As tsr_writer_append_box, but `write` makes the fragment of the box, which is within the domain and meets no
 * other. */
typedef int (*tsr_piece_writer)(void *argument, const tsr_fragment_target *target, tsr_error *error);

int tsr__writer_add_piece(tsr_writer *writer, const tsr_interval *box, tsr_piece_writer write, void *argument,
                          tsr_error *error);

static inline tsr_sorted_run *tsr__writer_run(const tsr_writer *writer, uint64_t index) {
  return (tsr_sorted_run *)(void *)writer->runs.data + index;
}
static inline uint64_t tsr__writer_runs(const tsr_writer *writer) { return writer->runs.size / sizeof(tsr_sorted_run); }

/* A new directory for a fragment, under a provisional name: among the array's fragments, or in the root of `scratch`, if that
 * is not NULL. */
int tsr__writer_directory(tsr_writer *writer, tsr_store *scratch, char name[128], tsr_error *error);

static inline const char *tsr__writer_fragments(const tsr_writer *writer) {
  return layout_has_commits_folder(writer->version) ? TSR_DIR_FRAGMENTS "/" : "";
}

/* Where a fragment's files are written; the name is of a directory that exists. */
tsr_fragment_target tsr__writer_target(tsr_writer *writer, const char *directory, const tsr_interval *box);

#endif
