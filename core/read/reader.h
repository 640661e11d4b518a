/* reader.h: what is done with arrays: planning, reading, writing (maintenance and checks join them here).
 *
 * A request becomes spans (one set per dimension), the spans choose fragments, then tiles; readers decode tiles in
 * windows that go to the pool, and hand out batches that point into them. Dense arrays are walked space tile by space
 * tile, the newest fragment that covers a cell owns it. Sparse tiles whose boxes meet no other fragment's stream
 * straight through; the others go through the version merge, where the newest version of each coordinate wins.
 */
#ifndef TSR_READER_H
#define TSR_READER_H

#include "read/tile_loader.h"
#include "read/plan.h"

typedef struct tsr_subtile tsr_subtile;
typedef struct tsr_test tsr_test;

typedef struct tsr_pinned_tile tsr_pinned_tile;

/* The slots of one tile of a fragment that a reader has in hand. */
struct tsr_pinned_tile {
  uint32_t fragment; /* index in the snapshot */
  bool counted; /* in cells_decoded */
  uint64_t number, cells;
  uint64_t first, end; /* no other cells are asked for: their values may be missing */
  struct tsr_pinned_tile *next; /* among those free */
  tsr_tile *tiles[]; /* by slot, NULL where not loaded */
};

/* Tiles that a reader has let go of, and that its next start may want again: of a join's lookups, say. */
#define TSR_KEPT_MAX 16

typedef struct tsr_kept_tile {
  uint64_t fragment; /* its id */
  uint32_t slot;
  uint64_t number;
  tsr_tile *tile; /* held, and charged to the reader */
} tsr_kept_tile;

typedef struct tsr_batch_iterator { /* of batches: read_dense.c and read_sparse.c */
  int (*next)(struct tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error); /* 1, 0, < 0 */
  int (*column)(struct tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error);
  void (*close)(struct tsr_batch_iterator *iterator); /* gives back what it holds; its memory is the reader's arena's */
  /* NULL, or: the piece of a dense tile by whose cells the batch's indices count; NULL where they do not. */
  const struct tsr_subtile *(*subtile)(struct tsr_batch_iterator *iterator);
} tsr_batch_iterator;

/* A tile of whose cells all are wanted, none is deleted, and none can have another version: all that its fragment has
 * written of it. Or a box of a dense array of which no cell was ever written, in one tile or in many; its number of cells may
 * be UINT64_MAX, which is "that many or more". */
typedef struct tsr_whole_tile {
  uint32_t fragment; /* TSR_NO_FRAGMENT: never written */
  uint64_t tile, cells;
  const uint64_t *low, *high; /* dense: its box, in ordinals; sparse: NULL, the R-tree has it */
} tsr_whole_tile;

#define TSR_NO_FRAGMENT UINT32_MAX

/* The window behind the present one: its tiles are being loaded while the present one's batches are given out. */
typedef struct tsr_read_ahead {
  tsr_arena arena; /* in the place of reader->window */
  tsr_buffer requests; /* tsr_tile_request */
  bool loading; /* they are in the hands of `load` */
  tsr_load load;
} tsr_read_ahead;

/* 1: its cells are taken, no batch has them; 0; < 0. No file is in use. */
typedef int (*tsr_whole_tile_shortcut)(void *argument, const tsr_whole_tile *whole, tsr_error *error);

struct tsr_reader {
  tsr_snapshot *snapshot;
  tsr_memory memory; /* the query's budget */
  tsr_arena arena; /* reset at each start */
  tsr_arena window; /* reset by the source for each window */
  tsr_plan plan;
  tsr_batch_iterator *iterator; /* NULL: nothing can be found */
  bool done; /* after the last batch, or an error */
  tsr_whole_tile_shortcut take; /* NULL, or asked for each whole tile before it is read; set between open and start */
  void *shortcut_argument;
  bool *fields; /* decoded ahead */
  bool times;
  uint32_t test_count; /* predicates */
  tsr_test *tests;
  bool fill_unwritten;
  bool distinct; /* sparse: of rows that are equal in the order's dimensions, one is enough */
  bool written_only; /* cells of a dense array that were never written are not wanted; set between open and start */
  bool passes_unwritten; /* they may come: they are wanted, and the tests hold of them */
  bool part; /* of another reader's request, whose counters have it already */
  tsr_batch_iterator *ordered; /* kept from start to start; NULL until an order is asked for */
  bool others; /* fields are decoded ahead that no test looks at */
  tsr_buffer chosen; /* cells that passed the tests: of the present piece, dense */
  uint64_t limit; /* cells that are likely to be taken; 0: all. Grows when more are */
  uint64_t given; /* cells that windows have had so far */
  unsigned threads;
  tsr_batch batch;
  tsr_column *columns, *fills; /* per field: of the current batch; the fill value */
  bool *column_ready;
  uint64_t (*fill_offsets)[2];
  uint32_t slot_count; /* the most that a fragment has */
  uint64_t window_tiles; /* of the next window */
  tsr_pinned_tile *free;
  bool started, again; /* it was started; and before that, too */
  uint32_t kept_count;
  uint64_t kept_bytes;
  tsr_kept_tile kept[TSR_KEPT_MAX]; /* the last one that was let go of comes last */
  tsr_buffer requests; /* tsr_tile_request: what tsr__reader_load loads */
  tsr_read_ahead ahead;
  tsr_buffer selection, owners, sorted, numbers, *values; /* dense: of the present piece; values by dimension */
};

void tsr__reader_forget(tsr_reader *reader); /* the tiles that it keeps */

/* Ends what it was started for, and forgets it. */
int tsr__reader_start_nothing(tsr_reader *reader, tsr_error *error);

/* A reader within another one's budget. */
int tsr__reader_open_within(tsr_snapshot *snapshot, tsr_memory *memory, tsr_reader **reader, tsr_error *error);

/* Starts a reader on a part of what another one, of the same snapshot, has been started on. Its `fields` are set by the
 * caller; `spans` are borrowed until the next start. */
int tsr__reader_start_part(tsr_reader *reader, const tsr_reader *whole, tsr_spans *spans, tsr_error *error);

/* Cells that the started reader may give, at most. */
uint64_t tsr__reader_cells(const tsr_reader *reader);

/* The order keys of rows from..from+count-1 of a batch; `column` is that of a dimension of fixed size. */
#define TSR_KEYS_MAX 2048u /* rows at once */
void tsr__batch_keys(const tsr_batch *batch, const tsr_column *column, tsr_datatype datatype, uint64_t from,
                     uint64_t count, uint64_t *keys);
int tsr__reader_hold(tsr_reader *reader, uint32_t fragment, uint64_t number, uint64_t cells, tsr_pinned_tile **pinned,
                     tsr_error *error);
void tsr__reader_drop(tsr_reader *reader, tsr_pinned_tile *pinned); /* NULL is fine */

/* Asks for a slot of a pinned tile (slot -1 and what is there already: nothing), then loads all that was asked for. */
int tsr__reader_request(tsr_reader *reader, tsr_pinned_tile *pinned, int64_t slot, tsr_error *error);
int tsr__reader_request_fields(tsr_reader *reader, tsr_pinned_tile *pinned,
                               tsr_error *error); /* those of the request */
int tsr__reader_load(tsr_reader *reader, tsr_error *error);

/* A field's column of a pinned tile from cell `first` on; the slot is loaded if it is not there. Index 0 is that cell. */
int tsr__reader_column(tsr_reader *reader, tsr_pinned_tile *pinned, uint32_t field, uint64_t first, tsr_column *column,
                       tsr_error *error);

/* The same of a slot that is loaded; `field` says what it holds. */
void tsr__reader_slot_column(const tsr_reader *reader, const tsr_pinned_tile *pinned, const tsr_field *field,
                             int64_t slot, uint64_t first, tsr_column *column);

/* The values of dimension d in a tile of a sparse fragment: its own slot, or its part of a __coords tile. */
typedef struct tsr_coordinates {
  const uint8_t *values;
  const uint64_t *offsets; /* strings */
} tsr_coordinates;

tsr_coordinates tsr__pinned_coordinates(const tsr_reader *reader, const tsr_pinned_tile *pinned, uint32_t dimension);

/* The rowid of a writer's own cell, and those of cells of a run's tile, whose times are loaded. */
static inline int64_t tsr__uncommitted_rowid(uint64_t number) { return -2 - (int64_t)number; }

int tsr__uncommitted_rowids(tsr_reader *reader, const tsr_pinned_tile *pinned, const uint32_t *cells, uint64_t count,
                            tsr_batch *batch, tsr_error *error);

/* How many tiles the next window may have: 1, 2, 4, ... up to a few for each thread. */
uint64_t tsr__reader_window(tsr_reader *reader);

/* Has a window of so many cells, with those that were given before, all that are likely to be taken? */
bool tsr__reader_suffices(const tsr_reader *reader, uint64_t cells);

/* Is the next window to be begun while the present one is given out? Not behind the first, nor past the limit. */
bool tsr__reader_may_ahead(const tsr_reader *reader);

/* Begins to load what was asked for, for the next window, whose own memory lies in reader->ahead.arena and which is to hold
 * `bytes` of decoded tiles. Where it cannot be begun, for want of memory or because something fails, the take does it all.
 * TSR_INTERRUPT alone is an error. */
int tsr__reader_load_ahead(tsr_reader *reader, uint64_t bytes, tsr_error *error);

/* The next window becomes the present one: its tiles are there, its arena is reader->window. */
int tsr__reader_take_ahead(tsr_reader *reader, tsr_error *error);

/* Nobody wants the next window any more. */
void tsr__reader_drop_ahead(tsr_reader *reader);

/* How many threads the caller may use on the present batch: the others are at the next window. */
unsigned tsr__reader_threads(const tsr_reader *reader);

/* Bytes in memory of the request's fields of a tile; 0 where they are asked for one by one. */
int tsr__reader_cost(tsr_reader *reader, uint32_t fragment, uint64_t number, uint64_t *bytes, tsr_error *error);

#endif
