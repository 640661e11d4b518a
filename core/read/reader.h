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
#ifndef TSR_READER_H
#define TSR_READER_H

#include "read/tile_loader.h"
#include "read/plan.h"

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

#endif
