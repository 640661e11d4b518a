/* reader.h: a started request: its plan, the tiles that it has loaded, and the iterator that makes its batches.
 *
 * A request becomes spans, one set per dimension; the spans choose fragments, then tiles. Iterators load tiles in
 * windows, decoded by the thread pool, and hand out batches that point into decoded tiles. A dense array is read space
 * tile by space tile: the newest fragment that wrote a cell owns it (dense.c). Sparse tiles whose MBRs meet no
 * tile of another fragment give a batch each; the others go through the version merge, where the newest version of each
 * coordinate wins (sparse.c). Single cells of dense arrays and ordered rows have iterators of their own
 * (point.c, ordered.c).
 *
 * A reader is used by one thread at a time. Workers only touch the tiles that they decode (tile_loader.h).
 */
#ifndef TSR_READ_READER_H
#define TSR_READ_READER_H

#include "read/tile_loader.h"
#include "read/plan.h"
#include "read/space_tiles.h"
#include "tessera.h"
#include "base/memory.h"

typedef struct tsr_subtile tsr_subtile;
typedef struct tsr_test tsr_test;

typedef struct tsr_pinned_tile tsr_pinned_tile;

/* One tile of a fragment, with the decoded slots of it that a reader has loaded. They stay in memory until the tile is
 * unpinned. */
struct tsr_pinned_tile {
  uint32_t fragment; /* index in the snapshot */
  bool counted; /* its cells are in the counter cells_decoded */
  uint64_t number, cells; /* number in the fragment; how many cells it has */
  uint64_t first, end; /* only the cells first..end-1 are read: values of other cells may be missing */
  struct tsr_pinned_tile *next; /* in tsr_reader_tiles.free */
  tsr_tile *tiles[]; /* by slot; owned; NULL where not loaded */
};

#define TSR_KEPT_MAX 16

typedef struct tsr_kept_tile { /* a decoded slot of a tile that was unpinned */
  uint64_t fragment; /* the fragment's id */
  uint32_t slot;
  uint64_t number; /* of the tile in the fragment */
  tsr_tile *tile; /* owned, and charged to the reader's memory */
} tsr_kept_tile;

/* Tiles that a reader has unpinned and keeps for its next start: a join starts it for each outer row. */
typedef struct tsr_kept_tiles {
  bool started, restarted; /* the reader was started; was started before that, so that tiles are worth keeping */
  uint32_t count;
  uint64_t bytes; /* of all of them, decoded */
  tsr_kept_tile tiles[TSR_KEPT_MAX]; /* the one that was unpinned last comes last */
} tsr_kept_tiles;

typedef struct tsr_reader_tiles { /* memory of pinned tiles, and tiles that were unpinned */
  uint32_t slot_count; /* of the fragment that has the most */
  tsr_pinned_tile *free; /* a list, for the next tiles that are pinned */
  tsr_kept_tiles kept;
} tsr_reader_tiles;

typedef struct tsr_batch_iterator { /* makes the batches of a started reader */
  /* Sets the fields of *batch: 1; 0 at the end; < 0: error. A batch is valid until the next call. */
  int (*next)(struct tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error);
  int (*column)(struct tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error);
  /* Gives back the tiles that it has pinned. The iterator's memory belongs to the reader. */
  void (*close)(struct tsr_batch_iterator *iterator);
  /* NULL, or a function: the subtile of a dense tile whose cells the batch's indices count; it returns NULL where the
   * indices count cells of a sparse fragment. */
  const struct tsr_subtile *(*subtile)(struct tsr_batch_iterator *iterator);
} tsr_batch_iterator;

#define TSR_NO_FRAGMENT UINT32_MAX

/* Cells that a whole-tile shortcut can take without reading them. Either a tile that the request selects fully, none of
 * whose cells is deleted or can have another version: `cells` is all that its fragment wrote of it. Or a box of a dense
 * array in which no cell was ever written, in one space tile or in many. */
typedef struct tsr_whole_tile {
  uint32_t fragment; /* index in the snapshot; TSR_NO_FRAGMENT: never written */
  uint64_t tile, cells; /* number in the fragment; UINT64_MAX cells: that many or more */
  const uint64_t *low, *high; /* dense: the box, in ordinals by dimension; sparse: NULL, the R-tree has the MBR */
} tsr_whole_tile;

/* Called for each fully selected tile before it is read. Returns 1: its cells are consumed, no batch shall have them;
 * 0: read it; < 0: error. May load statistics: no borrowed file is in use during the call. */
typedef int (*tsr_whole_tile_shortcut)(void *argument, const tsr_whole_tile *whole, tsr_error *error);

typedef struct tsr_reader_shortcut { /* set between open and start */
  tsr_whole_tile_shortcut take; /* NULL: all selected cells come in batches */
  void *argument;
} tsr_reader_shortcut;

typedef struct tsr_reader_request { /* which cells and columns the start has requested, beside the plan and the tests */
  bool *fields; /* by field: decoded with the window, in parallel */
  bool times; /* batches have the times of cells */
  bool distinct; /* sparse: of rows that are equal in the order's dimensions, one is enough */
  bool written_only; /* set between open and start: cells of a dense array that were never written are left out */
  /* set between open and start: cells of tiles that are read come without being tested; the predicates only say which
   * tiles, and unwritten cells, are left out */
  bool untested;
  bool gives_unwritten; /* cells that were never written come in batches: they are selected, and pass all tests */
  bool is_part; /* the request is a part of another reader's, which has counted its fragments */
} tsr_reader_request;

/* The window after the present one. Its tiles are loaded while the batches of the present window are given out. */
typedef struct tsr_read_ahead {
  tsr_arena arena; /* becomes reader->window.arena when the window becomes the present one */
  tsr_buffer requests; /* array of tsr_tile_request */
  bool loading; /* `load` has been started with these requests */
  tsr_load load;
} tsr_read_ahead;

typedef struct tsr_read_window { /* the tiles that the iterator loads at once */
  tsr_arena arena; /* reset by the iterator for each window */
  tsr_buffer requests; /* array of tsr_tile_request that tsr__reader_load is to load */
  tsr_read_ahead ahead;
} tsr_read_window;

typedef struct tsr_reader_tests { /* the request's predicates (predicate.h) */
  uint32_t count;
  tsr_test *list;
  bool fill_unwritten; /* cells that were never written have the fill value; false: they are null */
  bool has_other_fields; /* the request decodes fields that no test reads */
  tsr_buffer passing; /* scratch, uint32_t: indices of cells that passed */
} tsr_reader_tests;

typedef struct tsr_reader_progress { /* decides how large the next window is */
  uint64_t limit; /* cells that are likely to be taken; 0: all. Doubled when more are taken */
  uint64_t given; /* cells in the windows so far */
  uint64_t window_tiles; /* tiles in the next window, at most */
} tsr_reader_progress;

typedef struct tsr_reader_columns { /* by field, and the rowids */
  tsr_column *current; /* of the present batch */
  bool *ready; /* `current` has been filled */
  tsr_column *fills; /* of cells that were never written, or whose fragment lacks the attribute */
  uint64_t (*fill_offsets)[2]; /* of variable fill values */
  tsr_buffer rowids; /* scratch: int64_t row numbers of a batch, or uint64_t counts */
} tsr_reader_columns;

/* Scratch of reads of dense arrays. It lies in the reader so that its memory is used again at the next start. */
typedef struct tsr_dense_scratch {
  tsr_buffer selection; /* uint32_t: cells of the present subtile */
  tsr_buffer owners; /* uint32_t: the owner of each of them */
  tsr_buffer sorted; /* uint32_t: the same cells, sorted by owner */
  tsr_buffer *coordinates; /* by dimension: coordinates of the present subtile's, or batch's, cells */
} tsr_dense_scratch;

struct tsr_reader {
  tsr_snapshot *snapshot; /* held */
  tsr_memory memory; /* the query's budget */
  tsr_arena arena; /* reset at each start */
  tsr_plan plan;
  tsr_batch_iterator *iterator; /* NULL: not started, or nothing can be found */
  tsr_batch_iterator *ordered; /* owned; kept from start to start; NULL until an order is requested */
  bool done; /* after the last batch, or an error */
  unsigned threads; /* at least 1 */
  tsr_reader_shortcut shortcut;
  tsr_reader_request request;
  tsr_reader_tests tests;
  tsr_reader_progress progress;
  tsr_batch batch; /* the present one */
  tsr_reader_columns columns;
  tsr_read_window window;
  tsr_dense_scratch dense;
  tsr_reader_tiles tiles;
};

/* Gives back the tiles that the reader keeps for its next start. */
void tsr__reader_forget(tsr_reader *reader);

/* Ends what the reader was started for, without a new request. Returns TSR_INTERRUPT if the host cancels. */
int tsr__reader_start_nothing(tsr_reader *reader, tsr_error *error);

/* Opens a reader whose budget is part of the budget `memory`. */
int tsr__reader_open_within(tsr_snapshot *snapshot, tsr_memory *memory, tsr_reader **reader, tsr_error *error);

/* Starts a reader on a part of what `parent`, a reader of the same snapshot, has been started on: on the cells within
 * `spans` (one per dimension). The caller sets reader->request.fields before. The spans are borrowed until the next
 * start, and so are the parent's tests. */
int tsr__reader_start_part(tsr_reader *reader, const tsr_reader *parent, tsr_spans *spans, tsr_error *error);

/* Returns an upper bound of the number of cells that the started reader can give; UINT64_MAX: that many or more. */
uint64_t tsr__reader_cells(const tsr_reader *reader);

#define TSR_KEYS_MAX 2048u

/* Writes the order keys of the rows from..from+count-1 of a batch; count is at most TSR_KEYS_MAX. `column` is the
 * batch's column of a dimension of fixed size. */
void tsr__batch_keys(const tsr_batch *batch, const tsr_column *column, tsr_datatype datatype, uint64_t from,
                     uint64_t count, uint64_t *keys);

/* Pins a tile of `cells` cells: the caller requests and loads its slots, and ends with tsr__reader_unpin. `fragment` is
 * an index in the snapshot. */
int tsr__reader_pin(tsr_reader *reader, uint32_t fragment, uint64_t number, uint64_t cells, tsr_pinned_tile **pinned,
                    tsr_error *error);
void tsr__reader_unpin(tsr_reader *reader, tsr_pinned_tile *pinned); /* NULL is fine */

/* Requests a slot of a pinned tile, for the next tsr__reader_load. Does nothing for slot -1, and for a slot that is
 * loaded or requested already. */
int tsr__reader_request(tsr_reader *reader, tsr_pinned_tile *pinned, int64_t slot, tsr_error *error);

/* Requests the slots of all of reader->request.fields. */
int tsr__reader_request_fields(tsr_reader *reader, tsr_pinned_tile *pinned, tsr_error *error);

/* Loads all that was requested, or nothing of it. If memory ends, cancels the window that is being loaded ahead and
 * tries again. */
int tsr__reader_load(tsr_reader *reader, tsr_error *error);

/* Makes the column of a field, from the pinned tile's cell `first` on: index 0 is that cell. Loads the slot if need be.
 * The fill value's column if the fragment lacks the field. */
int tsr__reader_column(tsr_reader *reader, tsr_pinned_tile *pinned, uint32_t field, uint64_t first, tsr_column *column,
                       tsr_error *error);

/* Does the same for a slot that is loaded; `field` is the field that it holds. */
void tsr__reader_slot_column(const tsr_reader *reader, const tsr_pinned_tile *pinned, const tsr_field *field,
                             int64_t slot, uint64_t first, tsr_column *column);

/* The coordinates of a tile of a sparse fragment in one dimension: of its own slot, or its part of a __coords tile. */
typedef struct tsr_coordinates {
  const uint8_t *values;
  const uint64_t *offsets; /* strings; else NULL */
} tsr_coordinates;

/* Returns the coordinates of a pinned tile whose slot of the dimension is loaded. */
tsr_coordinates tsr__pinned_coordinates(const tsr_reader *reader, const tsr_pinned_tile *pinned, uint32_t dimension);

/* Returns the rowid of a transaction's own cell by its number. */
static inline int64_t tsr__uncommitted_rowid(uint64_t number) { return -2 - (int64_t)number; }

/* Sets batch->rowids for cells of a pinned tile of an uncommitted fragment, whose slot of times, which holds the cells'
 * numbers, is loaded. `cells` has `count` indices; NULL: 0..count-1. The rowids live until the next batch. */
int tsr__uncommitted_rowids(tsr_reader *reader, const tsr_pinned_tile *pinned, const uint32_t *cells, uint64_t count,
                            tsr_batch *batch, tsr_error *error);

/* Returns how many tiles the next window may have: 1, 2, 4, ... up to some for each thread. */
uint64_t tsr__reader_window(tsr_reader *reader);

/* Returns true if a window of so many cells completes the cells that are likely to be taken. */
bool tsr__reader_suffices(const tsr_reader *reader, uint64_t cells);

/* Returns true if the next window should be loaded while the present one is given out: not during the first window, not
 * past the limit, and only with more than one thread. */
bool tsr__reader_may_ahead(const tsr_reader *reader);

/* Starts to load what was requested as the next window, whose memory is window.ahead.arena, and whose tiles take
 * `bytes` when decoded. If the load cannot be started, for want of memory or by a failure, tsr__reader_take_ahead does
 * all of it; only TSR_INTERRUPT is an error here. */
int tsr__reader_load_ahead(tsr_reader *reader, uint64_t bytes, tsr_error *error);

/* Makes the next window the present one: finishes its load, and makes its arena reader->window.arena. */
int tsr__reader_take_ahead(tsr_reader *reader, tsr_error *error);

/* Cancels the next window. */
void tsr__reader_drop_ahead(tsr_reader *reader);

/* Returns how many threads the caller may use on the present batch: one while workers are loading the next window. */
unsigned tsr__reader_threads(const tsr_reader *reader);

/* Returns true if whole tiles are offered to the shortcut: with predicates only if it tests the cells itself. */
static inline bool tsr__reader_offers(const tsr_reader *reader) {
  return reader->shortcut.take && (reader->tests.count == 0 || reader->request.untested);
}

/* Sets *bytes to the memory that the request's fields of a tile take when decoded; to 0 if the request has no
 * fields. */
int tsr__reader_cost(tsr_reader *reader, uint32_t fragment, uint64_t number, uint64_t *bytes, tsr_error *error);

/* The space tiles of a dense request with the fragments that may own their cells, a window at once. */

typedef struct tsr_pinned_tile tsr_pinned_tile;

typedef struct tsr_candidate { /* a fragment that may own cells of a space tile */
  const tsr_plan_box *box;
  bool used; /* dense: it owns selected cells that may satisfy the predicates: its tile is to be loaded */
  bool excluded; /* dense: it owns cells, but its statistics say that none of them satisfies the predicates */
  uint64_t number; /* dense: number of its tile */
  tsr_pinned_tile *pinned; /* owned; NULL: not loaded */
} tsr_candidate;

typedef struct tsr_space_tile {
  uint64_t *at, *first; /* by dimension: its coordinates; the first span of the selection that meets it */
  uint64_t *low, *high; /* the box around its selected cells, in ordinals, inclusive */
  uint64_t cells; /* selected */
  uint32_t count;
  tsr_candidate *candidates; /* newest first */
  bool covered; /* there is one candidate, a dense one, whose box covers all selected cells */
  bool crowded; /* memory has no room for all candidates at once: each is loaded for its batch, then dropped */
} tsr_space_tile;

typedef struct tsr_dense_window {
  tsr_space_tile *tiles;
  uint64_t count, cells; /* tiles; selected cells in them */
} tsr_dense_window;

typedef struct tsr_dense_making { /* the window that is being made */
  bool loads; /* some attribute is loaded with it */
  tsr_arena *arena; /* its memory */
} tsr_dense_making;

typedef struct tsr_dense_windows {
  tsr_reader *reader; /* borrowed */
  const tsr_plan *plan; /* the reader's */
  const tsr_grid *grid;
  uint32_t dimensions;
  tsr_walk walk;
  tsr_dense_window now, next; /* the present window, and the next one */
  uint64_t tile_at; /* the present space tile in `now` */
  bool has_next; /* `next` has been made */
  tsr_dense_making making;
  uint64_t *gap_box; /* scratch, by dimension: low, then high ordinals */
} tsr_dense_windows;

/* Begins to walk the reader's plan. All memory is the reader's. Close it before the reader starts again. */
int tsr__dense_windows_open(tsr_dense_windows *windows, tsr_reader *reader, tsr_error *error);

/* Makes the next window the present one and loads it. It has no tile if the shortcut took all that were inspected. */
int tsr__dense_windows_fill(tsr_dense_windows *windows, tsr_error *error);

/* Gives back the tiles of all windows. */
void tsr__dense_windows_close(tsr_dense_windows *windows);

/* Gives back the tiles of a space tile's candidates. */
void tsr__dense_drop_tile(tsr_dense_windows *windows, tsr_space_tile *tile);

/* Pins a dense candidate's tile, to be read from the first to the last selected cell, unless it is pinned. */
int tsr__dense_pin(tsr_dense_windows *windows, const tsr_space_tile *tile, tsr_candidate *candidate, tsr_error *error);

/* Makes a map of owners for the cells of a subtile, by position, in which no cell has an owner yet: tile->count stands
 * for that, an index of a candidate for an owner. The map is the reader's and lives until the next call. */
int tsr__dense_owners_reset(tsr_dense_windows *windows, tsr_space_tile *tile, const tsr_subtile *subtile,
                            uint32_t **owners, tsr_error *error);

/* Makes candidate `c`, a dense one, the owner of all cells in its box that have no owner yet. Returns their number. */
uint64_t tsr__dense_claim_box(const tsr_subtile *subtile, const tsr_space_tile *tile, uint32_t c, uint32_t *owners);

/* Batches of a dense array. Each selected cell comes from the newest fragment that wrote it. */

typedef struct tsr_batch_iterator tsr_batch_iterator;

/* Opens an iterator over reader->plan, in tile order. The iterator lives in the reader's arena until its next start;
 * close it before that. */
int tsr__read_dense_open(tsr_reader *reader, tsr_batch_iterator **iterator, tsr_error *error);

/* The short way to a single cell of a dense array, as lookups and joins request it. */

typedef struct tsr_batch_iterator tsr_batch_iterator;

/* Returns 1, with an iterator of one batch of one cell, if the request selects a single cell of a dense array and a
 * dense fragment has written it: no plan is needed. Returns 0 if the request needs a plan; < 0: error. The iterator
 * lives in the reader's arena. */
int tsr__read_point_open(tsr_reader *reader, const tsr_request *request, tsr_batch_iterator **iterator,
                         tsr_error *error);

/* Batches of a sparse array: the newest version of each cell, without deleted ones. */

typedef struct tsr_batch_iterator tsr_batch_iterator;

/* Opens an iterator over reader->plan, in no particular order. The iterator lives in the reader's arena until its next
 * start; close it before that. */
int tsr__read_sparse_open(tsr_reader *reader, tsr_batch_iterator **iterator, tsr_error *error);

/* Rows of many batches, copied into columns of their own. */

typedef struct tsr_batch_iterator tsr_batch_iterator;

typedef struct tsr_row_block_column {
  bool ready; /* holds all rows of the block; tsr__row_block_append adds to ready columns. Set by the user */
  bool variable, nulls; /* has offsets; has a validity byte for each row */
  uint64_t cell_size; /* in bytes; 0 if variable */
  tsr_buffer values, offsets, validity;
} tsr_row_block_column;

typedef struct tsr_row_block {
  const tsr_schema *schema; /* borrowed */
  bool fill_unwritten; /* as in a request; false: cells that were never written are null */
  tsr_row_block_column *columns; /* by field */
  uint64_t rows;
  bool written, unwritten; /* the block holds rows of written cells; of cells that were never written */
  tsr_buffer rowids, times, flags; /* by row: int64_t; uint64_t; a byte, 1 if the cell was written */
} tsr_row_block;

/* Makes an empty block whose memory is charged to `memory`. Borrows the schema. tsr__row_block_release may be called
 * after a failure, too. */
int tsr__row_block_init(tsr_row_block *block, const tsr_schema *schema, tsr_memory *memory, tsr_error *error);
void tsr__row_block_release(tsr_row_block *block);

/* Removes all rows, and makes no column ready. Keeps the memory for the next rows. */
void tsr__row_block_clear(tsr_row_block *block);

/* Removes all rows and gives back their memory. */
void tsr__row_block_empty(tsr_row_block *block);

/* Gives back the memory of all columns but one. */
void tsr__row_block_drop_others(tsr_row_block *block, uint32_t field);

/* Appends the rows of the iterator's present batch to the ready columns. After a failure block->rows is unchanged. */
int tsr__row_block_append(tsr_row_block *block, tsr_batch_iterator *iterator, const tsr_batch *batch, tsr_error *error);

/* Appends one column of the iterator's present batch, of whose rows `before` have been appended to this column already.
 * For columns that are read after the block was filled. */
int tsr__row_block_append_column(tsr_row_block *block, tsr_batch_iterator *iterator, uint32_t field, uint64_t before,
                                 const tsr_batch *batch, tsr_error *error);

/* Returns a column of the block, borrowed until rows are added or removed. The caller sets its `unwritten`. */
tsr_column tsr__row_block_column(const tsr_row_block *block, uint32_t field);

/* The rows of a request in an order of dimensions, whatever the order of its tiles and cells. */

typedef struct tsr_batch_iterator tsr_batch_iterator;

/* Opens an iterator over the rows of reader->plan, in an order of `count` dimensions. `limit` is a hint as in a
 * request: how many rows are likely to be taken, 0: all. The iterator belongs to the reader, which reuses it at its
 * next start: closing it gives back tiles only; tsr__read_ordered_free frees it. */
int tsr__read_ordered_open(tsr_reader *reader, const tsr_sort *order, uint32_t count, uint64_t limit,
                           tsr_batch_iterator **iterator, tsr_error *error);
void tsr__read_ordered_free(tsr_reader *reader); /* does nothing if the reader has never been ordered */

/* Gives back the tiles that the inner reader keeps from start to start. */
void tsr__read_ordered_forget(tsr_reader *reader);

#endif
