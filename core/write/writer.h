/* writer.h: columns of cells in the order in which they are appended, and the checks of what they may hold. */
#ifndef TSR_WRITE_WRITER_H
#define TSR_WRITE_WRITER_H

#include <stdatomic.h>

#include "base/memory.h"
#include "model/datatype.h"
#include "base/sort.h"
#include "base/pool.h"
#include "array/array.h"
#include "format/commits.h"
#include "log/log.h"
#include "store/store.h"
#include "format/layout.h"
#include "write/fragment_writer.h"
#include "tessera.h"

typedef struct tsr_buffered { /* a column of cells in the order in which they were appended */
  tsr_buffer values, offsets, validity; /* variable size: count + 1 offsets; none before the first append */
} tsr_buffered;

/* Makes an empty column that `memory` pays for. */
void tsr__buffered_init(tsr_buffered *column, tsr_memory *memory);
void tsr__buffered_release(tsr_buffered *column);

/* Appends cells selection[0..count) of a column; if `selection` is NULL, its first `count` cells. After an error the
 * column may have some of these cells in parts: truncate it. */
int tsr__buffered_append(const tsr_field *field, tsr_buffered *to, const tsr_column *column, const uint32_t *selection,
                         uint64_t count, tsr_error *error);

typedef struct tsr_limit { /* the limits of a field's cells, for tsr__buffered_append_cell */
  uint64_t size; /* bytes; 0: variable size */
  uint64_t low, high; /* order keys, if `bounded` */
  tsr_physical_type physical;
  tsr_datatype datatype;
  bool bounded, nullable;
  bool general; /* only the checks for many cells below can tell */
} tsr_limit;

/* Finds the limits of a field. */
void tsr__limit_make(const tsr_schema *schema, uint32_t field, tsr_limit *limit);

/* Appends the first cell of `columns`, which are those of all fields, if each column has room and the cell keeps to the
 * limits; sets *bytes to the bytes that the cell takes. Otherwise returns false and changes nothing: the functions for
 * many cells make room, or tell the error. */
bool tsr__buffered_append_cell(const tsr_limit *limits, uint32_t fields, tsr_buffered *to, const tsr_column *columns,
                               uint64_t *bytes);

/* Keeps the first `count` cells. */
void tsr__buffered_truncate(const tsr_field *field, tsr_buffered *column, uint64_t count);

/* Gives back most of the memory that the column's cells do not need. */
void tsr__buffered_shrink(tsr_buffered *column);

/* Returns the cells from index `first` on as a column, borrowed until the next change. */
tsr_column tsr__buffered_column(const tsr_field *field, const tsr_buffered *column, uint64_t first);

/* Returns the bytes of memory that the column has. */
uint64_t tsr__buffered_bytes(const tsr_buffered *column);

/* Checks that coordinates lie within the domain and the current domain: cells selection[0..count) of a column; if
 * `selection` is NULL, its first `count` cells. Errors: TSR_RANGE. */
int tsr__check_coordinates(const tsr_schema *schema, uint32_t dimension, const tsr_column *column,
                           const uint32_t *selection, uint64_t count, tsr_error *error);

/* Checks that a field that is not nullable gets no null. Errors: TSR_CONSTRAINT. */
int tsr__check_nulls(const tsr_field *field, const tsr_column *column, const uint32_t *selection, uint64_t count,
                     tsr_error *error);

/* Checks that floats fit the integers of a filter scale_float, if that is the field's first filter; nulls are passed
 * over. Errors: TSR_RANGE. */
int tsr__check_scaled(const tsr_schema *schema, uint32_t field, const tsr_column *column, const uint32_t *selection,
                      uint64_t count, tsr_error *error);

/* The log of rows that a writer has removed, found by rowid. */

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

/* Finds the cell at some coordinates: first among a writer's cells in memory, then in its spilled runs
 * and in the snapshot below. */

/* hash table over the coordinates of cells in memory: chains, newest cell first */
typedef struct tsr_coordinate_index {
  uint64_t count; /* cells in the table, from the first one in memory on */
  tsr_buffer heads, next; /* u32: a cell's index in memory + 1; 0: end of the chain */
} tsr_coordinate_index;

typedef struct tsr_finder { /* a reader over a snapshot and the spilled runs, for one point at a time */
  tsr_reader *reader; /* owned; NULL: not open */
  tsr_snapshot *base; /* the snapshot, a reference */
  uint64_t spilled; /* spilled runs that the reader sees */
} tsr_finder;

/* Frees the hash table and closes the reader. Both are made anew when they are used next. */
void tsr__index_release(tsr_writer *writer);

/* Closes the reader. */
void tsr__finder_close(tsr_writer *writer);

/* Finds the newest cell in memory at these coordinates, removed or not. Returns 1 and its number, or 0. */
int tsr__find_uncommitted(tsr_writer *writer, const tsr_column *coordinates, uint64_t index, uint64_t *number,
                          tsr_error *error);

/* Finds a row at these coordinates in `base` and the spilled runs. Returns 1 and its rowid, or 0. `any`: a row that the
 * writer has removed counts, too. */
int tsr__find_elsewhere(tsr_writer *writer, tsr_snapshot *base, const tsr_column *coordinates, uint64_t index, bool any,
                        int64_t *row, tsr_error *error);

/* Finds the global order of sparse cells. */

/* Cells of a block that sort.c sorts by Hilbert codes before the others have come. */
#define TSR_ORDER_BLOCK 32768u

typedef struct tsr_order_ahead {
  tsr_pair *const *blocks; /* by block; NULL: this block was not sorted */
  uint64_t count; /* complete blocks, from the first cell on */
} tsr_order_ahead;

/* Sets order[0..*count) to the numbers of the cells in the schema's global order; cells with equal coordinates stand in
 * the order of their numbers. If the schema has no duplicates, only the last of equal cells is left, and *count falls.
 * `columns` holds the dimensions. `ahead` has blocks that were sorted ahead, of an array in Hilbert order; NULL:
 * none. */
int tsr__order_cells(const tsr_schema *schema, const tsr_column *columns, tsr_memory *memory, unsigned threads,
                     const tsr_order_ahead *ahead, uint32_t *order, uint64_t *count, tsr_error *error);

/* Returns true if so few codes equal others that sorting by them alone pays off. */
static inline bool tsr__order_few_ties(uint64_t ties, uint64_t count) { return ties <= count / 8; }

/* The global order as lists of numbers, one number for each cell, the most significant list first. Returns how many
 * lists there are. */
uint32_t tsr__order_lists(const tsr_schema *schema);

/* Sets numbers[0..count) to the numbers of one list, and *dimension to the dimension whose coordinates they are, or to
 * the number of dimensions if they are none (tiles, Hilbert codes). The list of a string dimension has no numbers:
 * compare its values as bytes. */
int tsr__order_list(const tsr_schema *schema, uint32_t list, const tsr_column *columns, uint64_t count,
                    uint64_t *numbers, uint32_t *dimension, tsr_error *error);

/* Ranks strings, so that numbers stand for them in a sort. */

/* Sorts the pairs by the strings of their cells, stably, and sets each key to the rank of its string: how many
 * different strings are less. `spare` is room for as many pairs. */
int tsr__pairs_rank(const tsr_column *column, tsr_pair *pairs, tsr_pair *spare, uint64_t count, tsr_memory *memory,
                    tsr_error *error);

/* Sorts cells into Hilbert order in blocks, on many threads. */

typedef struct tsr_order_ahead tsr_order_ahead;

/* Makes a pair of code and number for each of `count` cells from `first` on, sorted by code. `number` is the first
 * cell's number. `spare` is room for as many pairs. */
void tsr__order_block(const tsr_schema *schema, const tsr_column *columns, uint64_t first, uint64_t count,
                      uint64_t number, tsr_pair *pairs, tsr_pair *spare);

/* Sorts the writer's cells in memory into Hilbert order, block by block on worker threads, while the
 * caller appends more.
 *
 * All functions do nothing for arrays that have another order, and if the writer has one thread. */

typedef struct tsr_ahead { /* the order of cells in memory, found by workers while others come (sort.c) */
  uint64_t next; /* number of cells in memory at which the next block is complete; UINT64_MAX: no block is made */
  tsr_buffer blocks; /* tsr_pair * for each block: its sorted pairs; NULL: a block that was left out */
  bool working; /* a worker sorts a block: */
  tsr_job job;
  uint64_t number; /* index in memory of the block's first cell */
  tsr_pair *pairs, *spare;
  tsr_column *columns; /* copies of the block's coordinates, by dimension */
  _Atomic bool sorted;
} tsr_ahead;

/* Decides whether blocks are sorted ahead. */
void tsr__ahead_open(tsr_writer *writer);

/* Drops all blocks and frees the room of the worker. */
void tsr__ahead_release(tsr_writer *writer);

/* Starts the next block, if no worker is busy. Call when ahead.next cells or more are in memory. */
void tsr__ahead_more(tsr_writer *writer);

/* Drops the blocks that have cells from index `cells` in memory on. A worker goes on with an earlier block. */
void tsr__ahead_rewind(tsr_writer *writer, uint64_t cells);

/* Waits for the block in work and returns all blocks, from the first cell in memory on. They stay valid until the next
 * call that changes the writer's cells. */
tsr_order_ahead tsr__ahead_blocks(tsr_writer *writer);
/* Returns the bytes of the sorted blocks. */
uint64_t tsr__ahead_bytes(const tsr_writer *writer);

/* Sorted runs on disk, for cells that a writer cannot keep in memory, and their merge into fragments. */

typedef struct tsr_fragment_target tsr_fragment_target;

#define TSR_RUN_VERSION  22 /* format version of runs, which are no part of an array */
#define TSR_RUN_CAPACITY 4096u /* cells in a tile of a run, at most */

typedef struct tsr_sorted_run {
  uint64_t first, end; /* numbers of its cells; `end` falls if the writer is rewound to a number within a spilled run */
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
  tsr_schema *part_schema; /* of parts into which runs are merged; its capacity is that of the last merge */
  tsr_scratch scratch;
} tsr_runs;

static inline tsr_sorted_run *tsr__run_at(const tsr_runs *runs, uint64_t index) {
  return (tsr_sorted_run *)(void *)runs->list.data + index;
}
static inline uint64_t tsr__run_count(const tsr_runs *runs) { return runs->list.size / sizeof(tsr_sorted_run); }

/* Writes all cells in memory to a run on disk, if they take too much of the budget. Call before cells are appended. */
int tsr__spill_if_full(tsr_writer *writer, tsr_error *error);

/* Writes all cells in memory to a run on disk. On failure they stay in memory. */
int tsr__spill(tsr_writer *writer, tsr_error *error);

/* Forgets cells from number `count` on that are in runs on disk. */
void tsr__spill_rewind(tsr_writer *writer, uint64_t count);

/* Merges all runs, which are on disk, into the fragment of `target`: the newest version of each coordinate, without
 * removed rows. Sets *cells to the number of cells written. */
int tsr__spill_merge(tsr_writer *writer, const tsr_fragment_target *target, uint64_t *cells, tsr_error *error);

/* Merges all runs into fragments that follow each other in the array's order, and appends them to `runs` as
 * tsr_sorted_run. The caller drops the fragments, after an error, too. */
int tsr__spill_join(tsr_writer *writer, tsr_buffer *runs, tsr_error *error);

/* Sets *position to the place of the cell that is number `at` of a spilled run. */
int tsr__spill_position(tsr_array *array, tsr_fragment *run, uint64_t at, uint64_t *position, tsr_error *error);

/* Snapshots with a writer's uncommitted changes on top of the committed state, so that a
 * transaction's statements see them. */

typedef struct tsr_sorted_run tsr_sorted_run;

typedef struct tsr_kept_view { /* the last snapshot with the writer's changes */
  tsr_snapshot *snapshot; /* a reference; NULL: none */
  tsr_mark mark; /* the writer's mark when it was opened */
} tsr_kept_view;

/* Makes the schema of the writer's sorted runs: the array's without filters, with duplicates and with small tiles. Does
 * nothing if it exists. */
int tsr__run_schema(tsr_writer *writer, tsr_error *error);

/* Drops the runs in memory that have cells from number `count` on, and the snapshot that the writer keeps. Call before
 * these cells go. */
void tsr__transaction_view_rewind(tsr_writer *writer, uint64_t count);

/* Drops all runs and the kept snapshot: everything that holds a reference to fragments or to the writer. */
void tsr__transaction_view_release(tsr_writer *writer);

/* Opens a snapshot of `base` with the runs on top, later runs last. `alone`: the snapshot has the runs and no fragment
 * of `base`. The snapshot holds references to base and runs. The caller closes it. */
int tsr__transaction_view_stack(tsr_writer *writer, tsr_snapshot *base, bool alone, const tsr_sorted_run *runs,
                                uint64_t count, tsr_snapshot **snapshot, tsr_error *error);

/* Opens a snapshot of `base` with the spilled runs on top; returns `base` itself, with a reference, if no run is
 * spilled. The caller closes it. */
int tsr__transaction_view_spilled(tsr_writer *writer, tsr_snapshot *base, tsr_snapshot **snapshot, tsr_error *error);

/* Counts, as cells and removed rows come, the memory that a writer's commit will need, so that no commit
 * fails because memory is short. */

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

/* The commit of a writer: prepares it, publishes it, and takes it back. The functions are those of
 * tessera.h (tsr_writer_prepare, tsr_writer_publish, tsr_writer_reopen, tsr_writer_abandon); this header has the
 * commit's state. */

typedef struct tsr_commit_options { /* how the writer commits: from tsr_writer_options, or set by recovery */
  char *owner, *owner_file; /* in the writer's arena; NULL: none */
  uint64_t time; /* 0: preparing chooses the time */
  bool durable; /* files and directories are synced */
  bool part; /* the schema lacks attributes of the array's newest one, so that gaps between boxes cannot be filled */
  bool listed; /* from format version 12 on the commit is a list even of one fragment, published by a rename */
  const tsr_commits *carried; /* delete conditions that are committed unchanged, by their own names; NULL: none */
} tsr_commit_options;

typedef struct tsr_commit_state {
  tsr_commit_options options;
  /* tsr_piece of each fragment on disk: first `boxes` pieces that were appended as boxes, then pieces made of cells */
  tsr_buffer pieces;
  uint64_t boxes;
  uint64_t time; /* of the prepared commit */
  char path[TSR_COMMIT_PATH]; /* the file whose creation publishes the commit; "": none */
  tsr_file *lock; /* the marker of `path`, locked by this writer; NULL: none */
  struct tsr_turn *turn; /* of the prepared commit; NULL: none */
  bool prepared; /* all files have their names, and nothing was changed since */
  bool reusable; /* a prepared commit has failed, and nothing was changed since: the pieces hold all cells */
  bool published;
  bool refused; /* publishing has failed before: others may have removed the pieces since */
  bool reopened; /* `path` was published and must be withdrawn */
  tsr_buffer withdrawn; /* char[TSR_COMMIT_PATH]: commits that were withdrawn; the host may have brought one back */
} tsr_commit_state;

/* Notes a change: the pieces on disk no longer hold all cells to be committed. */
static inline void tsr__commit_outdate(tsr_commit_state *commit) { commit->prepared = commit->reusable = false; }

/* Frees the state. Files of a prepared commit stay: recovery finds them by the marker. */
void tsr__commit_release(tsr_commit_state *commit);

/* Closes the marker, which was removed or is left to recovery. */
void tsr__commit_unlock(tsr_commit_state *commit);

/* The structure of a writer, for the files that take its changes in, show them to readers and commit them.
 *
 * A writer numbers cells 0, 1, ... as the caller appends them, and removed rows as the caller removes them. It changes
 * nothing in place, so two counts (and one of boxes) are a mark to which it can be rewound. Cells from number
 * `cells.first` on are in memory, as columns; the cells before them are in spilled runs.
 *
 * A sorted run is a sparse fragment (in a dense array, too) of cells with consecutive numbers that only this writer
 * knows. It is sorted, keeps all versions of a coordinate, and the times of its cells are their numbers plus
 * TSR_UNCOMMITTED_TIMES. The writer makes runs in memory when a statement wants a snapshot with the writer's changes,
 * and runs on disk when the cells in memory take too much of its budget. */

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

/* The pieces of a commit: fragments on disk, under provisional names until the commit is prepared, that
 * hold the writer's cells. */

typedef struct tsr_fragment_target tsr_fragment_target;

typedef struct tsr_piece {
  char name[128]; /* of its directory */
  tsr_interval *box; /* of a box that was appended, in the writer's arena; NULL: made of cells */
} tsr_piece;

static inline uint64_t tsr__piece_count(const tsr_commit_state *commit) {
  return commit->pieces.size / sizeof(tsr_piece);
}
static inline tsr_piece *tsr__piece_at(const tsr_commit_state *commit, uint64_t index) {
  return (tsr_piece *)(void *)commit->pieces.data + index;
}

/* Writes the cells in memory and in runs as pieces: of a sparse array one fragment at most, of a dense array one for
 * each box that they form. Pieces that were written stay in the list after an error. */
int tsr__pieces_write(tsr_writer *writer, tsr_error *error);

/* Removes the pieces from number `from` on, with their files. */
int tsr__pieces_remove(tsr_writer *writer, uint64_t from, tsr_error *error);

/* Opens a snapshot of the array's present state, which the transaction itself may not see. The caller closes it.
 * `argument` is the writer. */
int tsr__pieces_open_present(void *argument, tsr_snapshot **snapshot, tsr_error *error);

/* Adds a fragment to the commit, as tsr_writer_append_box does, but `write` makes its files. The box lies within the
 * domain and meets no other box of the commit. `write` gets the fragment's target, which is borrowed for the call. */
typedef int (*tsr_piece_writer)(void *argument, const tsr_fragment_target *target, tsr_error *error);

int tsr__pieces_add_box(tsr_writer *writer, const tsr_interval *box, tsr_piece_writer write, void *argument,
                        tsr_error *error);

/* Directories of fragments under provisional names, ".UUID", which no reader takes for a fragment's. */

/* Returns the path of a fragment of the writer's array. */
static inline tsr_path tsr__writer_path(const tsr_writer *writer, const char *name) {
  return tsr__path_of(layout_has_commits_folder(writer->version) ? TSR_DIR_FRAGMENTS "/" : "", name, "");
}

/* Makes a provisional name. */
int tsr__provisional_name(char name[128], tsr_error *error);

/* Makes a directory for a fragment under a provisional name, in the root of `scratch`, or among the array's fragments
 * if `scratch` is NULL. */
int tsr__provisional_directory(tsr_writer *writer, tsr_store *scratch, char name[128], tsr_error *error);

/* Makes a directory of the array's layout if it does not exist. */
int tsr__provisional_folder(tsr_writer *writer, const char *folder, tsr_error *error);

/* Returns the target for a fragment's files in an existing directory. `directory` and `box` are borrowed. */
tsr_fragment_target tsr__provisional_target(tsr_writer *writer, const char *directory, const tsr_interval *box);

/* Writes cells in global order as a sparse fragment. */

typedef struct tsr_fragment_target tsr_fragment_target;

/* Writes cells order[0..count) of `columns`, which are in global order. */
int tsr__write_ordered(const tsr_fragment_target *target, const tsr_column *columns, const uint32_t *order,
                       uint64_t count, tsr_error *error);

/* Gives the cells of a dense fragment tile by tile. The writer calls it for each tile that the box touches, in tile
 * order, with the tile's coordinates in units of tiles. It sets *columns and order[cells of a tile] as
 * tsr__fragment_writer_add takes them. */
typedef int (*tsr_tile_filler)(void *argument, const uint64_t *tile, uint64_t *order, const tsr_column **columns,
                               tsr_error *error);

/* Writes the cells of a box as a dense fragment: every tile that the box touches, in tile order, each
 * complete. Where a tile reaches beyond the box, its cells are padding. */

typedef struct tsr_fragment_target tsr_fragment_target;

/* Writes the cells of target->box, all in `columns`: in row-major order of the box or, if `array_order`, in the array's
 * cell order. */
int tsr__write_dense(const tsr_fragment_target *target, bool array_order, const tsr_column *columns, tsr_error *error);
int tsr__write_dense_tiles(const tsr_fragment_target *target, tsr_tile_filler fill, void *argument, tsr_error *error);

#endif
