/* ops_writer.h: a writer from inside: what write_buffer.c, write_removed.c, write_ahead.c, overlay.c, write_spill.c and writer.c share.
 *
 * Cells are numbered 0, 1, ... as they are appended, removed rows as they are removed; nothing is changed in place, so
 * that a mark is two counts. Cells from `first` on are in memory, in columns; those before are in spilled runs. A run is
 * a sparse fragment of some consecutive cells that only this writer knows: sorted, all versions of a coordinate kept,
 * the times of its cells being their numbers plus TSR_OWN_TIMES. Runs in memory are made when a snapshot with the
 * writer's changes is asked for; runs on disk when the buffer is full.
 */
#ifndef TSR_OPS_WRITER_H
#define TSR_OPS_WRITER_H

#include "ops.h"

#define TSR_RUN_VERSION  22 /* of the format: runs are no part of an array */
#define TSR_RUN_CAPACITY 4096u /* cells of a tile, at most */

typedef struct tsr_buffered { /* a column of cells in the order in which they came */
  tsr_buffer values, offsets, validity; /* variable: count + 1 offsets, none before the first append */
} tsr_buffered;

/* ---- write_buffer.c ---- */
void tsr__buffered_init(tsr_buffered *column, tsr_memory *memory);
void tsr__buffered_release(tsr_buffered *column);
/* Appends cells selection[0..count) of a column (NULL: the first `count`). */
int tsr__buffered_append(const tsr_field *field, tsr_buffered *to, const tsr_column *column, const uint32_t *selection,
                         uint64_t count, tsr_error *error);
typedef struct tsr_limit { /* what the cells of a field may be */
  uint64_t size; /* 0: variable */
  uint64_t low, high; /* keys, where it is bounded */
  tsr_machine machine;
  tsr_datatype datatype;
  bool bounded, nullable;
  bool general; /* the checks below alone know */
} tsr_limit;
void tsr__limit_make(const tsr_schema *schema, uint32_t field, tsr_limit *limit);
/* Appends the first cell of `columns`, of all fields, where there is room and nothing to object: false leaves all as it
 * was, and the functions here that take many cells say why, or make room. *bytes: what the cell takes. */
bool tsr__buffered_append_cell(const tsr_limit *limits, uint32_t fields, tsr_buffered *to, const tsr_column *columns,
                               uint64_t *bytes);
void tsr__buffered_truncate(const tsr_field *field, tsr_buffered *column, uint64_t count);
/* Gives back most of the room that its cells do not need. */
void tsr__buffered_shrink(tsr_buffered *column);
/* Its cells from `first` on. */
tsr_column tsr__buffered_column(const tsr_field *field, const tsr_buffered *column, uint64_t first);
uint64_t tsr__buffered_bytes(const tsr_buffered *column);
/* Are coordinates within the domain, and values not null where they cannot be? */
int tsr__check_coordinates(const tsr_schema *schema, uint32_t dimension, const tsr_column *column,
                           const uint32_t *selection, uint64_t count, tsr_error *error);
int tsr__check_nulls(const tsr_field *field, const tsr_column *column, const uint32_t *selection, uint64_t count,
                     tsr_error *error);

/* ---- write_removed.c: the log of removed rows, found by rowid ---- */
typedef struct tsr_removed {
  uint64_t count;
  uint64_t own; /* rows of the writer's own among them */
  tsr_buffer rows; /* int64_t each */
  tsr_buffered *coordinates; /* by dimension */
  tsr_buffer slots; /* hash table of u64: position + 1; one that is past the count, or of another row, is void */
  uint64_t used; /* slots that are not 0 */
  int64_t low, high; /* around all rows that were ever in it */
} tsr_removed;

/* ---- The writer ---- */
typedef struct tsr_piece_on_disk { /* a fragment on disk, not published */
  char name[128]; /* ".UUID", or its own */
  tsr_interval *box; /* dense */
} tsr_piece_on_disk;

typedef struct tsr_own_run {
  uint64_t first, end; /* numbers of its cells; `end` falls when the writer is rewound into a spilled one */
  uint64_t stored; /* cells that it holds */
  tsr_fragment *fragment;
} tsr_own_run;

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
  bool kept; /* in memory: tsr_writer_keep */
  uint64_t asked_time, time;
  uint32_t field_count;
  tsr_buffered *columns;
  tsr_limit *limits; /* by field */
  uint64_t first, count; /* see above */
  uint64_t unweighed; /* bytes since tsr__spill_if_full was asked */
  tsr_ahead ahead;
  tsr_removed removed;
  tsr_schema *run_schema; /* without filters, with duplicates */
  tsr_buffer runs; /* tsr_own_run, by number: `spilled` ones, then those in memory */
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

int tsr__removed_open(tsr_writer *writer, tsr_error *error);
void tsr__removed_release(tsr_writer *writer);
int tsr__removed_add(tsr_writer *writer, int64_t row, const tsr_column *coordinates, uint64_t index, tsr_error *error);
void tsr__removed_rewind(tsr_writer *writer, uint64_t count);

static inline tsr_own_run *tsr__writer_run(const tsr_writer *writer, uint64_t index) {
  return (tsr_own_run *)(void *)writer->runs.data + index;
}
static inline uint64_t tsr__writer_runs(const tsr_writer *writer) { return writer->runs.size / sizeof(tsr_own_run); }

/* ---- write_ahead.c ---- */
void tsr__ahead_open(tsr_writer *writer);
void tsr__ahead_release(tsr_writer *writer);
void tsr__ahead_more(tsr_writer *writer); /* there are ahead.next cells in memory, or more */
void tsr__ahead_rewind(tsr_writer *writer, uint64_t cells); /* those in memory from there on go */
/* What is sorted, when all is: of cells in memory, from the first on. */
tsr_order_ahead tsr__ahead_blocks(tsr_writer *writer);
uint64_t tsr__ahead_bytes(const tsr_writer *writer);

/* ---- overlay.c ---- */
/* Makes the schema of runs, once. */
int tsr__run_schema(tsr_writer *writer, tsr_error *error);
/* Before cells from `count` on go: the runs in memory that hold them, the snapshot that is kept. */
void tsr__overlay_rewind(tsr_writer *writer, uint64_t count);
void tsr__overlay_release(tsr_writer *writer); /* all that holds references */
/* Where the cell that came as number `at` of a run in memory, whose first is number `first`, stands in it. */
int tsr__overlay_position(tsr_fragment *run, uint64_t first, uint64_t at, uint64_t *position, tsr_error *error);
/* The base with the spilled runs on top alone. */
int tsr__overlay_spilled(tsr_writer *writer, tsr_snapshot *base, tsr_snapshot **snapshot, tsr_error *error);

/* A new directory for a fragment, under a provisional name. */
int tsr__writer_directory(tsr_writer *writer, char name[128], tsr_error *error);
static inline const char *tsr__writer_fragments(const tsr_writer *writer) {
  return writer->version < 12 ? "" : "__fragments/";
}
/* Where a fragment's files are written; the name is of a directory that exists. */
tsr_fragment_target tsr__writer_target(tsr_writer *writer, const char *directory, const tsr_interval *box);

/* ---- write_spill.c ---- */
/* Before cells come: writes all that are in memory to a run on disk if they take too much of it. */
int tsr__spill_if_full(tsr_writer *writer, tsr_error *error);
int tsr__spill(tsr_writer *writer, tsr_error *error);
/* Cells from `count` on go, where some of them are on disk. */
void tsr__spill_rewind(tsr_writer *writer, uint64_t count);
/* All runs, which are on disk, merged: the newest version of each coordinate, but what has been removed. */
int tsr__spill_merge(tsr_writer *writer, const tsr_fragment_target *target, uint64_t *cells, tsr_error *error);
/* Where the cell that came as number `at` of a spilled run stands in it. */
int tsr__spill_position(tsr_array *array, tsr_fragment *run, uint64_t at, uint64_t *position, tsr_error *error);

/* ---- write_find.c ---- */
void tsr__index_rewind(tsr_writer *writer, uint64_t count);
void tsr__index_release(tsr_writer *writer);
void tsr__finder_close(tsr_writer *writer);
/* The newest cell in memory at these coordinates, whether it has been removed or not: 1 and its number, or 0. */
int tsr__find_own(tsr_writer *writer, const tsr_column *coordinates, uint64_t index, uint64_t *number,
                  tsr_error *error);
/* A row at these coordinates in the base and the spilled runs: 1 and its rowid, or 0. `any`: a removed one, too. */
int tsr__find_elsewhere(tsr_writer *writer, tsr_snapshot *base, const tsr_column *coordinates, uint64_t index, bool any,
                        int64_t *row, tsr_error *error);

#endif
