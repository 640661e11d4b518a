/* writer.h: everything that the files of this folder share about a writer (tsr_writer): its columns of appended cells
 * and log of removed rows, lookups by coordinates, sorting, spilling to disk, snapshots with its changes on top, and
 * the commit with its fragments. Callers outside of this folder use tessera.h; the structure of the writer itself is in
 * the section on writer.c. */
#ifndef TSR_WRITE_WRITER_H
#define TSR_WRITE_WRITER_H

#include <stdatomic.h>

#include "base/hash.h"
#include "base/memory.h"
#include "model/datatype.h"
#include "base/sort.h"
#include "base/pool.h"
#include "array/array.h"
#include "format/commits.h"
#include "log/log.h"
#include "store/store.h"
#include "format/constraint.h"
#include "format/layout.h"
#include "query/program.h"
#include "write/fragment_writer.h"
#include "tessera_host.h"

/* ---- buffer.c: columns of cells in the order of appending, and checks of what they may hold ---------------------- */

typedef struct tsr_buffered { /* a column of cells in the order in which they were appended */
  tsr_buffer values, offsets, validity; /* variable size: count + 1 offsets; none before the first append */
} tsr_buffered;

/* Makes an empty column whose memory is charged to `memory`. */
void tsr__buffered_init(tsr_buffered *column, tsr_memory *memory);
void tsr__buffered_release(tsr_buffered *column);

/* Makes room for `count` more cells, whose values have `bytes` bytes together, if memory allows. */
void tsr__buffered_reserve(const tsr_field *field, tsr_buffered *column, uint64_t count, uint64_t bytes);

/* Appends cells selection[0..count) of a column; if `selection` is NULL, its first `count` cells. After an error some
 * of these cells may have been appended in part: truncate the column. */
int tsr__buffered_append(const tsr_field *field, tsr_buffered *to, const tsr_column *column, const uint32_t *selection,
                         uint64_t count, tsr_error *error);

typedef struct tsr_limit { /* the limits of a field's cells, for tsr__buffered_append_cell */
  uint64_t size; /* bytes; 0: variable size */
  uint64_t low, high; /* order keys, if `bounded` */
  tsr_physical_type physical;
  tsr_datatype datatype;
  bool bounded, nullable;
  bool general; /* this struct cannot express the limits: use tsr__check_coordinates and the other checks below */
} tsr_limit;

/* Finds the limits of a field. */
void tsr__limit_make(const tsr_schema *schema, uint32_t field, tsr_limit *limit);

/* The fast path for a single cell: appends the first cell of `columns`, which has one column for each field, if each
 * column has room and the cell is within the limits; sets *bytes to the bytes that the cell takes. Otherwise returns
 * false and changes nothing: the functions for many cells then make room, or report the error. */
bool tsr__buffered_append_cell(const tsr_limit *limits, uint32_t fields, tsr_buffered *to, const tsr_column *columns,
                               uint64_t *bytes);

/* Keeps the first `count` cells. */
void tsr__buffered_truncate(const tsr_field *field, tsr_buffered *column, uint64_t count);

/* Frees most of the column's unused memory. */
void tsr__buffered_shrink(tsr_buffered *column);

/* Returns the cells from index `first` on as a column, borrowed until the next change of `column`. */
tsr_column tsr__buffered_column(const tsr_field *field, const tsr_buffered *column, uint64_t first);

/* Returns the bytes of memory that the column has. */
uint64_t tsr__buffered_bytes(const tsr_buffered *column);

/* Checks that coordinates are within the domain and the current domain: cells selection[0..count) of a column; if
 * `selection` is NULL, its first `count` cells. Errors: TSR_RANGE. */
int tsr__check_coordinates(const tsr_schema *schema, uint32_t dimension, const tsr_column *column,
                           const uint32_t *selection, uint64_t count, tsr_error *error);

/* Checks that a non-nullable field gets no null. Errors: TSR_CONSTRAINT. */
int tsr__check_nulls(const tsr_field *field, const tsr_column *column, const uint32_t *selection, uint64_t count,
                     tsr_error *error);

/* Checks that floats fit into the integers of a scale_float filter, if that is the field's first filter; skips nulls.
 * Errors: TSR_RANGE. */
int tsr__check_scaled(const tsr_schema *schema, uint32_t field, const tsr_column *column, const uint32_t *selection,
                      uint64_t count, tsr_error *error);

/* ---- buffer.c: the log of removed rows, searchable by rowid ------------------------------------------------------ */

typedef struct tsr_removed {
  const tsr_schema *schema; /* borrowed */
  uint64_t count;
  uint64_t own; /* uncommitted rows among them */
  tsr_buffer rows; /* int64_t: rowids in the order of removal */
  tsr_buffered *coordinates; /* by dimension, of each row */
  /* from rowids to positions in the log. A slot is stale, and ignored, if its position is past `count` or if another
   * row is there */
  tsr_hash_index index;
  uint64_t used; /* slots of `index` that are not free */
  int64_t low, high; /* around all rows that the log has ever had */
} tsr_removed;

/* Makes an empty log, charged to `memory`; the list of its columns is allocated in `arena`. */
int tsr__removed_open(tsr_removed *removed, const tsr_schema *schema, tsr_arena *arena, tsr_memory *memory,
                      tsr_error *error);
void tsr__removed_release(tsr_removed *removed);

/* Appends a row with the coordinates of cell `index` of the columns, unless it is in the log already. On failure the
 * log is unchanged. */
int tsr__removed_add(tsr_removed *removed, int64_t row, const tsr_column *coordinates, uint64_t index,
                     tsr_error *error);

/* Forgets all but the first `count` rows. */
void tsr__removed_rewind(tsr_removed *removed, uint64_t count);

/* Returns true if the row is among the first `first` rows of the log. */
bool tsr__removed_has(const tsr_removed *removed, int64_t row, uint64_t first);

/* Returns true if the log may have a row in low..high; false if it certainly has none. */
bool tsr__removed_may_overlap(const tsr_removed *removed, int64_t low, int64_t high);

/* ---- lookup.c: finds the cell at given coordinates, in memory, in the spilled runs and in the snapshot below ----- */

/* A hash table over the coordinates of the cells in memory: chains, newest cell first, since arrays with duplicates may
 * have many cells at one place. */
typedef struct tsr_coordinate_index {
  uint64_t count; /* cells in the table, from the first one in memory on */
  tsr_buffer heads, next; /* u32: a cell's index in memory + 1; 0: end of the chain */
} tsr_coordinate_index;

typedef struct tsr_finder { /* a reader over a snapshot and the spilled runs, for one point at a time */
  tsr_reader *reader; /* owned; NULL: not open */
  tsr_snapshot *base; /* the snapshot, a reference */
  uint64_t spilled; /* spilled runs that the reader sees */
} tsr_finder;

/* Frees the hash table and closes the reader. The next lookup recreates them. */
void tsr__index_release(tsr_writer *writer);

/* Removes the cells from number `count` on from the hash table. Call before dropping them. */
void tsr__index_rewind(tsr_writer *writer, uint64_t count);

/* Closes the reader. */
void tsr__finder_close(tsr_writer *writer);

/* Finds the newest cell in memory at these coordinates, removed or not. Returns 1 and its number, or 0. */
int tsr__find_uncommitted(tsr_writer *writer, const tsr_column *coordinates, uint64_t index, uint64_t *number,
                          tsr_error *error);

/* Finds a row at these coordinates in `base` and the spilled runs. Returns 1 and its rowid, or 0. `any`: also finds
 * rows that the writer has removed. */
int tsr__find_elsewhere(tsr_writer *writer, tsr_snapshot *base, const tsr_column *coordinates, uint64_t index, bool any,
                        int64_t *row, tsr_error *error);

/* ---- sort.c: sorts cells into the schema's global order ---------------------------------------------------------- */

/* Number of cells in a block that is sorted by Hilbert codes in the background, while more cells arrive. */
#define TSR_ORDER_BLOCK 32768u

typedef struct tsr_sorted_blocks {
  tsr_pair *const *blocks; /* by block; NULL: this block was skipped */
  uint64_t count; /* complete blocks, from the first cell on */
} tsr_sorted_blocks;

/* Sets order[0..*count) to the numbers of the cells in the schema's global order; cells with equal coordinates keep the
 * order of their numbers. If the schema does not allow duplicates, only the last of equal cells remains, and *count
 * decreases. `columns` has the dimensions. `sorted` has the blocks of an array in Hilbert order that were sorted in the
 * background; NULL: none. */
int tsr__order_cells(const tsr_schema *schema, const tsr_column *columns, tsr_memory *memory, unsigned threads,
                     const tsr_sorted_blocks *sorted, uint32_t *order, uint64_t *count, tsr_error *error);

/* Returns true if so few codes are equal that it pays to sort by the codes alone. */
static inline bool tsr__order_few_ties(uint64_t ties, uint64_t count) { return ties <= count / 8; }

/* The global order as lists of sort keys, with one number for each cell in each list, the most significant list first.
 * Returns the number of lists. */
uint32_t tsr__order_lists(const tsr_schema *schema);

/* Sets numbers[0..count) to the numbers of one list, and *dimension to the dimension whose coordinates they are, or to
 * the number of dimensions if they are tile numbers or Hilbert codes. The list of a string dimension has no numbers:
 * compare its values as bytes. */
int tsr__order_list(const tsr_schema *schema, uint32_t list, const tsr_column *columns, uint64_t count,
                    uint64_t *numbers, uint32_t *dimension, tsr_error *error);

/* ---- sort.c: ranks strings, so that numbers can be sorted in their place ----------------------------------------- */

/* Sorts the pairs by the strings of their cells, stably, and sets each key to the rank of its string: the number of
 * distinct smaller strings. `spare` has room for as many pairs. */
int tsr__pairs_rank(const tsr_column *column, tsr_pair *pairs, tsr_pair *spare, uint64_t count, tsr_memory *memory,
                    tsr_error *error);

/* ---- sort.c: sorts blocks of cells by Hilbert code --------------------------------------------------------------- */

/* Makes a pair of Hilbert code and number for each of `count` cells from `first` on, sorted by code. `number` is the
 * number of the first cell. `spare` has room for as many pairs. */
void tsr__order_block(const tsr_schema *schema, const tsr_column *columns, uint64_t first, uint64_t count,
                      uint64_t number, tsr_pair *pairs, tsr_pair *spare);

/* ---- sort.c: sorts the writer's cells into Hilbert order on a worker thread, while the caller appends ----------- */

/* These functions do nothing for arrays with another cell order, or if the writer has only one thread. */

typedef struct tsr_background_sort { /* blocks of the cells in memory that were sorted in the background */
  /* number of cells in memory at which the next block is complete; UINT64_MAX: no blocks are sorted */
  uint64_t next;
  tsr_buffer blocks; /* tsr_pair * for each block: its sorted pairs; NULL: the block was skipped */
  bool working; /* a worker is sorting a block, which the rest describes */
  tsr_job job;
  uint64_t number; /* index in memory of the block's first cell */
  tsr_pair *pairs, *spare;
  tsr_column *columns; /* copies of the block's coordinates, by dimension */
  _Atomic bool sorted;
} tsr_background_sort;

/* Decides whether blocks are sorted in the background. */
void tsr__background_sort_open(tsr_writer *writer);

/* Drops all blocks and frees the worker's buffers. */
void tsr__background_sort_release(tsr_writer *writer);

/* Starts the next block if no worker is busy. Call when at least `next` cells are in memory. */
void tsr__background_sort_start(tsr_writer *writer);

/* Drops the blocks that contain cells from index `cells` on. A worker that is sorting an earlier block continues. */
void tsr__background_sort_rewind(tsr_writer *writer, uint64_t cells);

/* Waits for the worker and returns all blocks, from the first cell in memory on. They stay valid until the next call
 * that changes the writer's cells. */
tsr_sorted_blocks tsr__background_sort_blocks(tsr_writer *writer);
/* Returns the bytes of the sorted blocks. */
uint64_t tsr__background_sort_bytes(const tsr_writer *writer);

/* ---- spill.c: sorted runs on disk, for cells that do not fit into memory, and their merge into fragments --------- */

#define TSR_RUN_VERSION  22 /* format version of runs; runs are not part of an array */
#define TSR_RUN_CAPACITY 4096u /* cells in a tile of a run, at most */

typedef struct tsr_sorted_run {
  /* numbers of its cells; `end` decreases if the writer is rewound to a number within a spilled run */
  uint64_t first, end;
  uint64_t stored; /* cells in the fragment; more than end - first after a rewind */
  tsr_fragment *fragment;
} tsr_sorted_run;

typedef struct tsr_scratch { /* the store of runs on disk */
  const tsr_host_store *host; /* borrowed; NULL: in the array's store */
  void *argument; /* of `host`, borrowed */
  tsr_store *store; /* owned; NULL: not open */
} tsr_scratch;

typedef struct tsr_runs { /* the sorted runs of a writer */
  tsr_buffer list; /* tsr_sorted_run by number: `spilled` runs on disk, then the runs in memory */
  uint64_t spilled;
  tsr_schema *schema; /* of runs (tsr__run_schema), in the writer's arena; NULL: not made yet */
  tsr_schema *part_schema; /* of the parts into which runs are merged; its capacity is that of the last merge */
  tsr_scratch scratch;
} tsr_runs;

static inline tsr_sorted_run *tsr__run_at(const tsr_runs *runs, uint64_t index) {
  return (tsr_sorted_run *)(void *)runs->list.data + index;
}
static inline uint64_t tsr__run_count(const tsr_runs *runs) { return runs->list.size / sizeof(tsr_sorted_run); }

/* Spills the cells in memory to a run on disk if they take too much of the budget. Call before appending cells. */
int tsr__spill_if_full(tsr_writer *writer, tsr_error *error);

/* Spills all cells in memory to a run on disk. On failure they stay in memory. */
int tsr__spill(tsr_writer *writer, tsr_error *error);

/* Forgets cells from number `count` on that are in runs on disk. */
void tsr__spill_rewind(tsr_writer *writer, uint64_t count);

/* Merges all runs, which must be on disk, into the fragment of `target`: the newest version of each coordinate, without
 * removed rows. Sets *cells to the number of cells written. */
int tsr__spill_merge(tsr_writer *writer, const tsr_fragment_target *target, uint64_t *cells, tsr_error *error);

/* Merges all runs into fragments that follow each other in the array's global order, and appends them to `runs` as
 * tsr_sorted_run. The caller drops the fragments, even after an error. */
int tsr__spill_join(tsr_writer *writer, tsr_buffer *runs, tsr_error *error);

/* Sets *position to the position, within a spilled run, of the cell that was appended as number `at` of the run. */
int tsr__spill_position(tsr_array *array, tsr_fragment *run, uint64_t at, uint64_t *position, tsr_error *error);

/* ---- transaction_view.c: snapshots with the writer's uncommitted changes on top ---------------------------------- */

typedef struct tsr_kept_view { /* the last snapshot with the writer's changes */
  tsr_snapshot *snapshot; /* a reference; NULL: none */
  tsr_mark mark; /* the writer's mark when it was opened */
} tsr_kept_view;

/* Makes the schema of the writer's sorted runs: the array's, but without filters, with duplicates and with small tiles.
 * Does nothing if it exists already. */
int tsr__run_schema(tsr_writer *writer, tsr_error *error);

/* Drops the runs in memory that have cells from number `count` on, and the kept snapshot. Call before dropping these
 * cells. */
void tsr__transaction_view_rewind(tsr_writer *writer, uint64_t count);

/* Drops all runs and the kept snapshot: everything that holds a reference to fragments or to the writer. */
void tsr__transaction_view_release(tsr_writer *writer);

/* Opens a snapshot of `base` with the runs on top, later runs last. `alone`: only the runs, without the fragments of
 * `base`. The snapshot holds references to base and runs. The caller closes it. */
int tsr__transaction_view_stack(tsr_writer *writer, tsr_snapshot *base, bool alone, const tsr_sorted_run *runs,
                                uint64_t count, tsr_snapshot **snapshot, tsr_error *error);

/* Opens a snapshot of `base` with the spilled runs on top; returns `base` itself, with a reference, if no run is
 * spilled. The caller closes it. */
int tsr__transaction_view_spilled(tsr_writer *writer, tsr_snapshot *base, tsr_snapshot **snapshot, tsr_error *error);

/* ---- commit_budget.c: tracks the memory that the commit will need, so that too much is refused before the commit - */

/* Bytes beyond memory_mb to spill and prepare (docs/reference/limits.md). */
#define TSR_COMMIT_BYTES (UINT64_C(16) << 20)
#define TSR_SIZE_CLASSES 40

/* A histogram of the sizes of cells in fields of variable size: class k counts cells of 2^k to 2^(k + 1) - 1 bytes. */
typedef struct tsr_sizes {
  uint64_t counts[TSR_SIZE_CLASSES], bytes[TSR_SIZE_CLASSES];
} tsr_sizes;

typedef struct tsr_commit_budget {
  bool variable; /* a field has variable size */
  uint64_t row; /* bytes of a cell in a tile of the array, excluding values of variable size */
  uint64_t coordinates; /* the part of `row` that a removed row needs, too */
  uint64_t tile_cells; /* most cells in a tile of the array */
  uint64_t codecs; /* bytes that filters need in addition to a tile */
  tsr_sizes memory, spilled; /* for the cells in memory; for all runs on disk together */
  tsr_buffer runs; /* tsr_sizes of each run on disk */
} tsr_commit_budget;

/* Computes the part of a tile's size that the schema determines. */
int tsr__commit_budget_open(tsr_writer *writer, tsr_error *error);
void tsr__commit_budget_release(tsr_writer *writer);

/* Counts cells first..end, which have been appended. They are indices in memory. */
void tsr__commit_budget_add(tsr_writer *writer, uint64_t first, uint64_t end);

/* Subtracts cells first..end, which are about to be dropped. */
void tsr__commit_budget_subtract(tsr_writer *writer, uint64_t first, uint64_t end);

/* Reserves the memory that tsr__commit_budget_spilled needs, so that it cannot fail. */
int tsr__commit_budget_reserve(tsr_writer *writer, tsr_error *error);

/* Moves the counts of the cells in memory to a new run on disk. */
void tsr__commit_budget_spilled(tsr_writer *writer);

/* Subtracts the last run on disk. */
void tsr__commit_budget_drop_run(tsr_writer *writer);

/* Checks that a commit of the writer's cells fits its budget and TSR_COMMIT_BYTES. Errors: TSR_BUDGET. */
int tsr__commit_budget_check_cells(const tsr_writer *writer, tsr_error *error);

/* The same for a commit of the writer's removed rows. */
int tsr__commit_budget_check_removed(const tsr_writer *writer, tsr_error *error);

/* Lends the writer TSR_COMMIT_BYTES beyond its budget, or ends the loan. */
void tsr__commit_budget_lend(tsr_writer *writer, bool lend);

/* ---- deletes.c: turns the coordinates of removed cells into delete conditions ------------------------------------ */

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

/* ---- commit.c: prepares, publishes and withdraws the commit ------------------------------------------------------ */

/* The functions are tsr_writer_prepare, tsr_writer_publish and tsr_writer_abandon of tessera.h, and tsr_writer_reopen
 * of tessera_host.h. */

typedef struct tsr_commit_options { /* how the writer commits: from tsr_writer_options, or set by recovery */
  char *owner, *owner_file; /* in the writer's arena; NULL: none */
  uint64_t time; /* 0: tsr_writer_prepare chooses the time */
  bool durable; /* files and directories are synced */
  bool part; /* the schema lacks attributes of the array's newest one, so gaps between boxes cannot be filled */
  bool listed; /* from format version 12 on: commit even a single fragment as a list, published by a rename */
  const tsr_commits *carried; /* delete conditions to commit unchanged, under their own names; NULL: none */
} tsr_commit_options;

/* The stages of a commit. A change (a cell, a removed row, a rewind) leads from PREPARED and REUSABLE to COLLECTING; a
 * failure of prepare or publish leaves the stage as it is, or COLLECTING once prepare has begun to replace files.
 *
 *                 prepare               publish
 *   COLLECTING ------------> PREPARED ------------> PUBLISHED
 *     ^    ^                   |  ^                     |
 *     |    |           reopen  |  | prepare             | reopen: a savepoint of the host
 *     |    | a change          v  | keeps the files     v was rolled back
 *     |    +---------------- REUSABLE                REOPENED
 *     +-------------------------------------------------+
 *                 prepare withdraws the published commit first, and goes on to PREPARED
 *
 * Stores in one file (is_one_file) have no REUSABLE: their savepoints may take files back, too. */
typedef enum tsr_commit_stage {
  TSR_COMMIT_COLLECTING, /* the fragments on disk do not hold all changes */
  TSR_COMMIT_PREPARED, /* all files have their final names, and nothing has changed since */
  TSR_COMMIT_REUSABLE, /* a prepared commit has failed, and nothing has changed since: the fragments hold all cells */
  TSR_COMMIT_PUBLISHED,
  TSR_COMMIT_REOPENED /* like COLLECTING, but the commit `path` was published and must be withdrawn */
} tsr_commit_stage;

typedef struct tsr_commit_state {
  tsr_commit_options options;
  tsr_commit_stage stage;
  /* tsr_commit_fragment for each fragment on disk: first `boxes` ones that were appended as boxes, then those made
   * from cells */
  tsr_buffer fragments;
  uint64_t boxes;
  uint64_t time; /* of the prepared commit */
  char path[TSR_COMMIT_PATH]; /* the file whose creation publishes the commit; "": none */
  tsr_file *lock; /* the marker of `path`, locked by this writer; NULL: none */
  struct tsr_turn *turn; /* of the prepared commit; NULL: none */
  bool refused; /* publishing has failed before, so others may have removed the fragments since */
  tsr_buffer withdrawn; /* char[TSR_COMMIT_PATH]: withdrawn commits; a savepoint of the host may bring one back */
} tsr_commit_state;

/* Notes a change: the fragments on disk no longer hold all cells to be committed. */
static inline void tsr__commit_mark_dirty(tsr_commit_state *commit) {
  if (commit->stage == TSR_COMMIT_PREPARED || commit->stage == TSR_COMMIT_REUSABLE)
    commit->stage = TSR_COMMIT_COLLECTING;
}

/* Frees the state. The files of a prepared commit stay: recovery finds them by the marker. */
void tsr__commit_release(tsr_commit_state *commit);

/* Says whether readers of the writer's array handle count its prepared commit, which has no marker, as committed. */
void tsr__commit_count(tsr_writer *writer, bool counts);

/* Closes the marker file, which was removed or is left to recovery. */
void tsr__commit_unlock(tsr_commit_state *commit);

/* ---- constraints.c: CHECK constraints, evaluated over blocks of cells -------------------------------------------- */

/* Tests the cells of a writer before it takes them, and finds the cells of a snapshot that break a constraint. The
 * public functions are tsr_array_constraints and others in tessera.h, and tsr_writer_test in tessera_host.h. */

typedef struct tsr_constraint_item {
  tsr_constraint shown;
  tsr_expression expression; /* its negation; without nodes if `shown.fault` says why */
  tsr_program *program; /* of `expression` */
  tsr_block_scratch *scratch;
  bool *reads; /* [fields] */
} tsr_constraint_item;

typedef struct tsr_constraint_set {
  tsr_constraints shown; /* must be the first member: the caller's pointer points to it */
  tsr_arena arena;
  const tsr_schema *schema; /* borrowed */
  uint32_t fields, count;
  tsr_constraint_item *items; /* [TSR_CONSTRAINTS_MAX] */
  tsr_block_input *inputs; /* [fields + 1]: of the present block */
  uint64_t **coordinates; /* [dimensions][TSR_BLOCK_CELLS]: of a block of a box; NULL: not needed yet */
  uint32_t *broken; /* [TSR_BLOCK_CELLS] */
} tsr_constraint_set;

/* The cells to test. In a box the columns of dimensions are ignored, and the cells are in row-major order or, if
 * `array_order` is true, in the array's cell order. */
typedef struct tsr_constraint_cells {
  const tsr_column *columns; /* one for each field */
  const uint32_t *selection; /* NULL: the cells from `first` on */
  uint64_t first, count;
  const tsr_interval *box; /* NULL: the columns have the coordinates */
  bool array_order;
} tsr_constraint_cells;

/* Reads the constraints of the array as they are now, for cells of a schema. One that cannot be read is an item with a
 * fault. `memory` pays for the set. */
int tsr__constraints_open(tsr_array *array, const tsr_schema *schema, tsr_memory *memory, tsr_constraint_set **set,
                          tsr_error *error);
void tsr__constraints_close(tsr_constraint_set *set); /* NULL is allowed */

/* Fails with TSR_CHECK if a cell breaks a constraint; the message names both. `changed`: one for each field;
 * constraints that read none of these fields are not tested; NULL: all are. TSR_ERROR: a constraint cannot be read or
 * evaluated. */
int tsr__constraints_test(tsr_constraint_set *set, const tsr_constraint_cells *cells, const bool *changed,
                          tsr_error *error);

#define TSR_FINDING_TEXT 400
typedef struct tsr_constraint_finding {
  uint64_t cells; /* that break the constraint */
  char first[TSR_FINDING_TEXT]; /* of the first of them: "where v is 1 at x=2", or "at x=2"; "" if there is none */
  char fault[TSR_FINDING_TEXT]; /* why it could not be evaluated; "": it was */
} tsr_constraint_finding;

/* Looks for cells of a snapshot that break a constraint. `found` has an element for each item from `from` on. `fill`:
 * an attribute that a cell lacks is null, and must not break the constraint with its fill value either; otherwise it is
 * null. */
int tsr__constraints_find(tsr_constraint_set *set, uint32_t from, tsr_snapshot *snapshot, bool fill,
                          uint64_t memory_bytes, tsr_constraint_finding *found, tsr_error *error);

/* Sets broken[i] to 1 for each cell that breaks a constraint of the writer's array, else to 0, and *count to their
 * number. `first` receives the message of the first of them. The cells are in no box. TSR_ERROR: a constraint cannot be
 * read or evaluated. */
int tsr__writer_broken(tsr_writer *writer, const tsr_constraint_cells *cells, uint8_t *broken, uint64_t *count,
                       tsr_error *first, tsr_error *error);

/* Tests cells against the constraints of the writer's array, unless the writer trusts them. The constraints are read
 * when the first cells come. `changed` as above. Errors: TSR_CHECK. */
int tsr__writer_test(tsr_writer *writer, const tsr_constraint_cells *cells, const bool *changed, tsr_error *error);

/* ---- writer.c: the writer itself --------------------------------------------------------------------------------- */

/* A writer numbers cells 0, 1, ... as the caller appends them, and removed rows as the caller removes them. It changes
 * nothing in place, so two counts (and the number of boxes) form a mark to which it can be rewound. Cells from number
 * `cells.first` on are in memory, as columns; the cells before them are in spilled runs.
 *
 * A sorted run is a sparse fragment (even in a dense array) of consecutively numbered cells, known only to this writer.
 * It is in global order, keeps all versions of a coordinate, and the times of its cells are their numbers plus
 * TSR_UNCOMMITTED_TIMES. The writer makes runs in memory when a statement needs a snapshot with the writer's changes,
 * and runs on disk when the cells in memory take too much of its budget. */

typedef struct tsr_cell_buffer { /* cells in memory: numbers first..count */
  tsr_buffered *columns; /* by field */
  tsr_limit *limits; /* by field */
  uint64_t first, count;
  uint64_t unweighed; /* bytes appended since tsr__spill_if_full last checked the budget */
  bool kept; /* tsr_writer_keep: cells are not spilled */
  tsr_coordinate_index index; /* of their coordinates */
  tsr_background_sort background; /* blocks of them that are sorted already */
} tsr_cell_buffer;

typedef struct tsr_writer_constraints { /* constraints.c */
  tsr_constraint_set *set; /* NULL: not read yet */
  uint64_t changes; /* environment->metadata_changes when they were read */
  bool trusts; /* cells are not tested */
} tsr_writer_constraints;

struct tsr_writer {
  uint32_t references; /* one held by the caller, and one by each snapshot */
  tsr_array *array; /* borrowed */
  const tsr_schema *schema; /* of the cells */
  uint32_t field_count;
  uint32_t version; /* format version of the commit */
  tsr_memory memory; /* the budget, memory_mb */
  tsr_arena arena; /* lives as long as the writer: columns, boxes, the schema of runs */
  unsigned threads;
  tsr_cell_buffer cells;
  tsr_removed removed;
  tsr_commit_budget commit_budget;
  tsr_runs runs;
  tsr_kept_view view;
  tsr_finder finder;
  tsr_commit_state commit;
  tsr_writer_constraints constraints;
};

/* Releases one reference to the writer; the last one frees it. Snapshots hold references because their fragments and
 * schema belong to the writer. */
void tsr__writer_drop(tsr_writer *writer);

/* Fails if the writer has published its commit: it accepts no more changes then. */
int tsr__writer_check_open(const tsr_writer *writer, tsr_error *error);

/* Makes room for `cells` cells that will be appended, so that their columns need not grow, unless they are too many to
 * stay in memory. `bytes`, by field: what the values of these cells take. */
void tsr__writer_reserve(tsr_writer *writer, uint64_t cells, const uint64_t *bytes);

/* Forgets the array's CHECK constraints: they are read again when cells come. */
static inline void tsr__writer_forget_constraints(tsr_writer *writer) {
  tsr__constraints_close(writer->constraints.set);
  writer->constraints.set = NULL;
}

/* Returns true if cells need no test: there is no constraint, or the writer trusts them. */
static inline bool tsr__writer_untested(const tsr_writer *writer) {
  const tsr_writer_constraints *c = &writer->constraints;
  return c->trusts || (c->set && c->set->count == 0 && c->changes == writer->array->environment->metadata_changes);
}

/* Returns the number of cells in memory. */
static inline uint64_t tsr__writer_in_memory(const tsr_writer *writer) {
  return writer->cells.count - writer->cells.first;
}

/* Returns `rc`; prefixes the message of an error with the array's path. */
static inline int tsr__writer_wrap(const tsr_writer *writer, int rc, tsr_error *error) {
  return rc < 0 ? tsr__wrap(error, "array %s", writer->array->path) : rc;
}

/* ---- commit_fragments.c: the fragments of a commit --------------------------------------------------------------- */

/* Fragments on disk that hold the writer's cells. They have provisional names until the commit is prepared. */

typedef struct tsr_commit_fragment {
  char name[128]; /* of its directory */
  tsr_interval *box; /* the box that was appended, in the writer's arena; NULL: made from cells */
} tsr_commit_fragment;

static inline uint64_t tsr__commit_fragment_count(const tsr_commit_state *commit) {
  return commit->fragments.size / sizeof(tsr_commit_fragment);
}
static inline tsr_commit_fragment *tsr__commit_fragment_at(const tsr_commit_state *commit, uint64_t index) {
  return (tsr_commit_fragment *)(void *)commit->fragments.data + index;
}

/* Writes the cells in memory and in runs as fragments: at most one fragment for a sparse array; one for each box that
 * the cells form for a dense array. Fragments that have been written stay in the list after an error. */
int tsr__commit_fragments_write(tsr_writer *writer, tsr_error *error);

/* Removes the fragments from number `from` on, with their files. */
int tsr__commit_fragments_remove(tsr_writer *writer, uint64_t from, tsr_error *error);

/* Opens a snapshot of the array's current state, which the transaction itself may not see. The caller closes it.
 * `argument` is the writer. */
int tsr__writer_open_current(void *argument, tsr_snapshot **snapshot, tsr_error *error);

/* Adds a fragment to the commit like tsr_writer_append_box, but `write` makes its files. The box is within the domain
 * and intersects no other box of the commit. `write` gets the fragment's target, borrowed for the call. */
typedef int (*tsr_box_writer)(void *argument, const tsr_fragment_target *target, tsr_error *error);

int tsr__commit_fragments_add_box(tsr_writer *writer, const tsr_interval *box, tsr_box_writer write, void *argument,
                                  tsr_error *error);

/* ---- commit_fragments.c: provisional directories, ".UUID", which no reader takes for fragments ------------------- */

/* Returns the path of a fragment of the writer's array. */
static inline tsr_path tsr__writer_path(const tsr_writer *writer, const char *name) {
  return tsr__path_of(layout_has_commits_folder(writer->version) ? TSR_DIR_FRAGMENTS "/" : "", name, "");
}

/* Makes a new provisional name. */
int tsr__provisional_name(char name[128], tsr_error *error);

/* Makes a directory for a fragment under a provisional name, in the root of `scratch` or, if `scratch` is NULL, among
 * the array's fragments. */
int tsr__provisional_directory(tsr_writer *writer, tsr_store *scratch, char name[128], tsr_error *error);

/* Makes a directory of the array's layout if it does not exist. */
int tsr__provisional_folder(tsr_writer *writer, const char *folder, tsr_error *error);

/* Returns the target for a fragment's files in an existing directory. `directory` and `box` are borrowed. */
tsr_fragment_target tsr__provisional_target(tsr_writer *writer, const char *directory, const tsr_interval *box);

/* ---- commit_fragments.c: writes cells as a sparse or a dense fragment -------------------------------------------- */

/* Writes cells order[0..count) of `columns`, which are in global order. */
int tsr__write_ordered(const tsr_fragment_target *target, const tsr_column *columns, const uint32_t *order,
                       uint64_t count, tsr_error *error);

/* Supplies the cells of a dense fragment tile by tile. Called for each tile that the box touches, in tile order, with
 * the tile's coordinates in units of tiles. Sets *columns and order[cells of a tile] as tsr__fragment_writer_add takes
 * them. */
typedef int (*tsr_tile_filler)(void *argument, const uint64_t *tile, uint64_t *order, const tsr_column **columns,
                               tsr_error *error);

/* A dense fragment has every tile that its box touches, in tile order, each complete. Where a tile reaches beyond the
 * box, its cells are padding. */

/* Write the cells of target->box: from `columns`, in row-major order of the box or, if `array_order`, in the array's
 * cell order; or tile by tile as `fill` supplies them. */
int tsr__write_dense(const tsr_fragment_target *target, bool array_order, const tsr_column *columns, tsr_error *error);
int tsr__write_dense_tiles(const tsr_fragment_target *target, tsr_tile_filler fill, void *argument, tsr_error *error);

#endif
