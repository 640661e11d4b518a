/* ops.h: what is done with arrays: planning, reading, writing (maintenance and checks join them here).
 *
 * A request becomes spans (one set per dimension), the spans choose fragments, then tiles; readers decode tiles in
 * windows that go to the pool, and hand out batches that point into them. Dense arrays are walked space tile by space
 * tile, the newest fragment that covers a cell owns it. Sparse tiles whose boxes meet no other fragment's stream
 * straight through; the others go through the sweep, where the newest version of each coordinate wins.
 */
#ifndef TSR_OPS_H
#define TSR_OPS_H

#include "array.h"

/* ---- plan.c: the planner and the reader use the same code ---- */
typedef struct tsr_plan_tile {
  uint32_t fragment; /* index in the snapshot */
  bool inside; /* its box lies within the spans */
  uint64_t tile;
} tsr_plan_tile;
typedef struct tsr_side { /* of a dense request, on one dimension: ordinals within the non-empty domain, sorted, apart
                           */
  uint64_t count;
  tsr_span *spans;
} tsr_side;
typedef struct tsr_plan_box { /* dense: a fragment whose box meets the request */
  uint32_t fragment;
  bool sparse; /* its cells own single cells of the array (formats to 10 wrote such fragments) */
  bool excluded; /* none of its cells satisfies the predicates, by its statistics */
  const uint64_t *low, *high; /* ordinals */
} tsr_plan_box;
typedef struct tsr_plan {
  bool empty; /* nothing can be found */
  bool lossy; /* coordinates go through a filter that changes them: boxes say nothing of them */
  tsr_spans *spans; /* one per dimension */
  /* sparse: tiles that may hold cells of the request, by fragment, then tile */
  uint64_t tile_count;
  tsr_plan_tile *tiles;
  /* dense: what the request wants of each dimension, fragments oldest first; tiles are enumerated by read_dense.c */
  tsr_side *sides;
  uint64_t box_count;
  tsr_plan_box *boxes;
} tsr_plan;
/* All memory comes from `arena`. Loads R-trees. */
int tsr__plan_make(tsr_snapshot *snapshot, const tsr_ranges *dimensions, tsr_arena *arena, tsr_plan *plan,
                   tsr_error *error);
/* The same of spans, which the plan borrows: a part of another plan, and not counted again. */
int tsr__plan_make_within(tsr_snapshot *snapshot, tsr_spans *spans, tsr_arena *arena, tsr_plan *plan, tsr_error *error);
/* Has a dense fragment the tiles of the snapshot's schema? */
bool tsr__fragment_fits(const tsr_snapshot *snapshot, const tsr_fragment *fragment);
/* How many values the sides hold, and how many tiles of `extent` they meet, counted from `low` to `high`. */
uint64_t tsr__side_values(const tsr_side *side);
uint64_t tsr__side_tiles(const tsr_side *side, uint64_t extent, uint64_t low, uint64_t high);

/* ---- predicate.c: predicates on attributes ---- */
typedef struct tsr_test { /* a predicate, made ready */
  uint32_t field;
  tsr_predicate_kind kind;
  bool nan, nat; /* NaN, NaT are nulls of this field */
  bool negated; /* TSR_PREDICATE_WITHIN */
  bool never; /* nothing passes */
  tsr_spans spans; /* TSR_PREDICATE_WITHIN */
} tsr_test;
typedef struct tsr_held tsr_held;
int tsr__tests_make(tsr_reader *reader, const tsr_request *request, tsr_error *error);
/* May minimum, maximum and null count of a field of the fragment's schema be believed? Floats: the sum decides. */
bool tsr__statistics_believed(const tsr_fragment_metadata *metadata, uint32_t field);
/* Of floats: are these bounds of a tile without NaN, infinity, or a sum that stuck? */
bool tsr__statistics_plain(const tsr_field *field, const uint8_t *min, const uint8_t *max, const uint64_t *sum);
/* Of a slot's tiles, or of all of them together (`own`). No file may be in use. */
int tsr__statistics_load(tsr_array *array, tsr_fragment *fragment, uint32_t slot, bool own, tsr_statistics *statistics,
                         tsr_error *error);
/* Do believable statistics of a tile say that none of its cells pass? */
bool tsr__test_excludes(const tsr_test *test, const tsr_field *field, const tsr_statistics *statistics, uint64_t tile,
                        uint64_t cells);
/* The same of all tests of the reader: 1, 0, or < 0. Loads statistics; no file may be in use. */
int tsr__tests_exclude(tsr_reader *reader, uint32_t fragment, uint64_t tile, tsr_error *error);
/* The same of a whole fragment, by its own statistics. */
int tsr__tests_exclude_fragment(tsr_reader *reader, uint32_t fragment, tsr_error *error);
/* Keeps the cells that pass: of the selection, or of 0..count-1 where it is NULL. `out` may be the selection. */
uint64_t tsr__test_select(const tsr_reader *reader, const tsr_test *test, const tsr_column *column,
                          const uint32_t *selection, uint64_t count, uint32_t *out);
/* The same by all tests, for a held tile whose cells count from `first` (NULL: cells that were never written). */
int tsr__tests_select(tsr_reader *reader, tsr_held *held, uint64_t first, const uint32_t *selection, uint64_t *count,
                      uint32_t *out, tsr_error *error);
int tsr__tests_any(tsr_reader *reader, tsr_held *held, tsr_error *error); /* 1: some cell of the tile passes */
int tsr__tests_want(tsr_reader *reader, tsr_held *held, tsr_error *error); /* the fields of the tests */

/* ---- load.c: decoded tiles of fragments, from the cache or the store ---- */
typedef struct tsr_want {
  tsr_fragment *fragment;
  uint32_t slot;
  uint64_t number;
  uint64_t first, end; /* cells whose values are wanted; end 0: all */
  tsr_tile *tile; /* out: held */
  bool decoded; /* out: it was not in the cache */
  tsr_held *held; /* for whom */
} tsr_want;
/* Loads all, in parallel, or none; each is held for the caller, and its bytes charged to `memory`: give both back with
 * tsr__tile_return. Wants of one slot with consecutive numbers that stand together are read together. */
int tsr__tiles_load(tsr_array *array, unsigned threads, tsr_want *wants, uint64_t count, tsr_memory *memory,
                    tsr_error *error);
void tsr__tile_return(tsr_tile *tile, tsr_memory *memory);
/* The same in two parts, between which workers are at it: each load that was started is finished or cancelled, and stays
 * where it is, as do its wants. `ahead`: before the tiles are wanted; that is counted, and the caller has something else to
 * do. What a cancelled load has decoded by then goes into the cache, its wants get nothing. */
typedef struct tsr_load {
  tsr_array *array;
  tsr_memory *memory;
  tsr_want *wants;
  uint64_t count, found; /* found: in the cache */
  bool ahead;
  struct tsr_fetch *fetches;
  struct tsr_fetch_run *runs;
  uint64_t fetch_count, run_count;
  tsr_job job;
} tsr_load;
int tsr__load_start(tsr_load *load, tsr_array *array, unsigned workers, bool ahead, tsr_want *wants, uint64_t count,
                    tsr_memory *memory, tsr_error *error);
int tsr__load_finish(tsr_load *load, tsr_error *error);
void tsr__load_cancel(tsr_load *load);
/* Bytes in memory of a tile of a slot, before it is decoded. */
int tsr__tile_cost(tsr_array *array, tsr_fragment *fragment, uint32_t slot, uint64_t number, uint64_t *bytes,
                   tsr_error *error);

/* The slots of one tile of a fragment that a reader has in hand. */
struct tsr_held {
  uint32_t fragment; /* index in the snapshot */
  bool counted; /* in cells_decoded */
  uint64_t number, cells;
  uint64_t first, end; /* no other cells are asked for: their values may be missing */
  struct tsr_held *next; /* among those free */
  tsr_tile *tiles[]; /* by slot, NULL where not loaded */
};

/* ---- reader.c ---- */
typedef struct tsr_source { /* of batches: read_dense.c and read_sparse.c */
  int (*next)(struct tsr_source *source, tsr_batch *batch, tsr_error *error); /* 1, 0, < 0 */
  int (*column)(struct tsr_source *source, uint32_t field, tsr_column *column, tsr_error *error);
  void (*close)(struct tsr_source *source); /* gives back what it holds; its memory is the reader's arena's */
  /* NULL, or: the piece of a dense tile by whose cells the batch's indices count; NULL where they do not. */
  const struct tsr_piece *(*piece)(struct tsr_source *source);
} tsr_source;
/* A tile of whose cells all are wanted, none is deleted, and none can have another version: all that its fragment has
 * written of it. Or cells of a dense array that were never written. */
typedef struct tsr_whole {
  uint32_t fragment; /* TSR_NO_FRAGMENT: never written */
  uint64_t tile, cells;
  const uint64_t *low, *high; /* dense: its box, in ordinals; sparse: NULL, the R-tree has it */
} tsr_whole;
#define TSR_NO_FRAGMENT UINT32_MAX
/* The window behind the present one: its tiles are being loaded while the present one's batches are given out. */
typedef struct tsr_read_ahead {
  tsr_arena arena; /* in the place of reader->window */
  tsr_buffer wants; /* tsr_want */
  bool loading; /* they are in the hands of `load` */
  tsr_load load;
} tsr_read_ahead;
/* 1: its cells are taken, no batch has them; 0; < 0. No file is in use. */
typedef int (*tsr_taker)(void *argument, const tsr_whole *whole, tsr_error *error);
struct tsr_reader {
  tsr_snapshot *snapshot;
  tsr_memory memory; /* the query's budget */
  tsr_arena arena; /* reset at each start */
  tsr_arena window; /* reset by the source for each window */
  tsr_plan plan;
  tsr_source *source; /* NULL: nothing can be found */
  bool done; /* after the last batch, or an error */
  tsr_taker take; /* NULL, or asked for each whole tile before it is read; set between open and start */
  void *taker;
  bool *fields; /* decoded ahead */
  bool times;
  uint32_t test_count; /* predicates */
  tsr_test *tests;
  bool fill_unwritten;
  bool distinct; /* sparse: of rows that are equal in the order's dimensions, one is enough */
  bool part; /* of another reader's request, whose counters have it already */
  tsr_source *ordered; /* kept from start to start; NULL until an order is asked for */
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
  tsr_held *free;
  tsr_buffer wants; /* tsr_want: what tsr__reader_load loads */
  tsr_read_ahead ahead;
  tsr_buffer selection, owners, sorted, numbers, *values; /* dense: of the present piece; values by dimension */
};
/* Ends what it was started for, and forgets it. */
int tsr__reader_start_nothing(tsr_reader *reader, tsr_error *error);
/* The rows of reader->plan in an order of dimensions; `limit` as in a request. Closed by tsr__read_ordered_free alone. */
int tsr__read_ordered_open(tsr_reader *reader, const tsr_sort *order, uint32_t count, uint64_t limit,
                           tsr_source **source, tsr_error *error);
void tsr__read_ordered_free(tsr_reader *reader);
/* A reader within another one's budget. */
int tsr__reader_open_within(tsr_snapshot *snapshot, tsr_memory *memory, tsr_reader **reader, tsr_error *error);
/* Starts a reader on a part of what another one, of the same snapshot, has been started on. Its `fields` are set by the
 * caller; `spans` are borrowed until the next start. */
int tsr__reader_start_part(tsr_reader *reader, const tsr_reader *whole, tsr_spans *spans, tsr_error *error);
int tsr__read_dense_open(tsr_reader *reader, tsr_source **source, tsr_error *error);
int tsr__read_sparse_open(tsr_reader *reader, tsr_source **source, tsr_error *error);
/* Where the request is one cell of a dense array, which has been written: 1, and no plan is needed; else 0. */
int tsr__read_point_open(tsr_reader *reader, const tsr_request *request, tsr_source **source, tsr_error *error);

/* Cells that the started reader may give, at most. */
uint64_t tsr__reader_cells(const tsr_reader *reader);
/* The order keys of rows from..from+count-1 of a batch; `column` is that of a dimension of fixed size. */
#define TSR_KEYS_MOST 2048u /* rows at once */
void tsr__batch_keys(const tsr_batch *batch, const tsr_column *column, tsr_datatype datatype, uint64_t from,
                     uint64_t count, uint64_t *keys);

int tsr__reader_hold(tsr_reader *reader, uint32_t fragment, uint64_t number, uint64_t cells, tsr_held **held,
                     tsr_error *error);
void tsr__reader_drop(tsr_reader *reader, tsr_held *held); /* NULL is fine */
/* Asks for a slot of a held tile (slot -1 and what is there already: nothing), then loads all that was asked for. */
int tsr__reader_want(tsr_reader *reader, tsr_held *held, int64_t slot, tsr_error *error);
int tsr__reader_want_fields(tsr_reader *reader, tsr_held *held, tsr_error *error); /* those of the request */
int tsr__reader_load(tsr_reader *reader, tsr_error *error);
/* A field's column of a held tile from cell `first` on; the slot is loaded if it is not there. Index 0 is that cell. */
int tsr__reader_column(tsr_reader *reader, tsr_held *held, uint32_t field, uint64_t first, tsr_column *column,
                       tsr_error *error);
/* The same of a slot that is loaded; `field` says what it holds. */
void tsr__reader_slot_column(const tsr_reader *reader, const tsr_held *held, const tsr_field *field, int64_t slot,
                             uint64_t first, tsr_column *column);
/* The values of dimension d in a tile of a sparse fragment: its own slot, or its part of a __coords tile. */
typedef struct tsr_coordinates {
  const uint8_t *values;
  const uint64_t *offsets; /* strings */
} tsr_coordinates;
tsr_coordinates tsr__held_coordinates(const tsr_reader *reader, const tsr_held *held, uint32_t dimension);
/* The time of a fragment's cells where they have none of their own: its end. */
static inline uint64_t tsr__fragment_time(const tsr_fragment *fragment) { return fragment->parsed.end; }

/* The rowid of a writer's own cell, and those of cells of a run's tile, whose times are loaded. */
static inline int64_t tsr__own_row(uint64_t number) { return -2 - (int64_t)number; }
int tsr__own_rows(tsr_reader *reader, const tsr_held *held, const uint32_t *cells, uint64_t count, tsr_batch *batch,
                  tsr_error *error);
/* Has the writer removed the row, among its first `removed` ones? Some row of low..high? (write_removed.c) */
bool tsr__writer_hides(const tsr_writer *writer, int64_t row, uint64_t removed);
bool tsr__writer_hides_some(const tsr_writer *writer, int64_t low, int64_t high);

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

/* ---- gather.c: rows of many batches as columns of their own ---- */
typedef struct tsr_gathered_column {
  bool ready; /* it has all rows; batches that come are added to it */
  bool variable, nulls;
  uint64_t cell_size;
  tsr_buffer values, offsets, validity;
} tsr_gathered_column;
typedef struct tsr_gathered {
  const tsr_schema *schema;
  bool fill_unwritten; /* as in a request: false: what was never written is null */
  tsr_gathered_column *columns; /* [field] */
  uint64_t rows;
  bool written, unwritten; /* some of the rows are */
  tsr_buffer rowids, times, flags; /* by row; flags: a byte, was it written? */
} tsr_gathered;
/* The schema is borrowed. After a failure, too, release is fine. */
int tsr__gathered_init(tsr_gathered *gathered, const tsr_schema *schema, tsr_memory *memory, tsr_error *error);
void tsr__gathered_release(tsr_gathered *gathered);
/* No rows, and no column is ready; memory is kept. */
void tsr__gathered_clear(tsr_gathered *gathered);
void tsr__gathered_empty(tsr_gathered *gathered); /* and neither */
/* Gives back the memory of all columns but one. */
void tsr__gathered_drop_others(tsr_gathered *gathered, uint32_t field);
/* The source's batch goes behind the rows that are there. After a failure `rows` is what it was. */
int tsr__gather_batch(tsr_gathered *gathered, tsr_source *source, const tsr_batch *batch, tsr_error *error);
/* One column of a batch, `before` rows of which came already. */
int tsr__gather_column(tsr_gathered *gathered, tsr_source *source, uint32_t field, uint64_t before,
                       const tsr_batch *batch, tsr_error *error);
/* Borrowed until rows are added or cleared; `unwritten` is left to the caller. */
tsr_column tsr__gathered_column(const tsr_gathered *gathered, uint32_t field);

/* ---- piece.c: parts of a space tile, small enough for selections and maps of owners ---- */
#define TSR_PIECE_CELLS 65536u /* wanted cells of a piece, at most */
#define TSR_PIECE_REACH (UINT64_C(1) << 20) /* from its first to its last cell, where it has more than one row */
typedef struct tsr_axis { /* of a tile; axes stand from the slowest to the fastest in cell order */
  uint32_t dimension;
  uint64_t base; /* ordinal of the tile's first value */
  uint64_t extent, stride;
  uint64_t count; /* wanted values */
  uint64_t span_count;
  tsr_span *spans; /* wanted values, counted from base */
} tsr_axis;
typedef struct tsr_piece { /* the product of its axes */
  uint32_t dimensions;
  tsr_axis *axes;
  uint64_t cells, origin, reach; /* origin: its first cell's index in the tile; indices below count from there */
  uint64_t *values, *at; /* scratch of the walk over its rows */
} tsr_piece;
typedef struct tsr_pieces { /* what is wanted of a tile, piece by piece */
  tsr_axis *whole;
  tsr_piece piece; /* the present one */
  uint32_t split; /* axes before it have one value in a piece, it has some, those behind have all */
  uint64_t rows_most; /* values of the split axis in a piece */
  uint64_t width_most; /* and how far apart */
  bool started;
  uint64_t *span_at, *value; /* where the next piece begins on the axes to `split` */
} tsr_pieces;
/* The tile at `tile` (coordinates by dimension); `first` is the first span of each side that meets it. All of it lies
 * in `arena`. */
int tsr__pieces_init(const tsr_grid *grid, const tsr_side *sides, const uint64_t *tile, const uint64_t *first,
                     tsr_arena *arena, tsr_pieces *pieces, tsr_error *error);
bool tsr__pieces_next(tsr_pieces *pieces);
void tsr__pieces_rewind(tsr_pieces *pieces);
/* Are its cells one run in the tile? */
bool tsr__piece_is_run(const tsr_piece *piece);
/* The indices of its cells, in cell order. */
void tsr__piece_select(const tsr_piece *piece, uint32_t *cells);
/* owners[position] = owner where it is `none` and the cell lies in the box low..high (ordinals by dimension); returns
 * how many. Positions are those of tsr__piece_select. */
uint64_t tsr__piece_own(const tsr_piece *piece, const uint64_t *low, const uint64_t *high, uint32_t owner,
                        uint32_t none, uint32_t *owners);
/* The position of the cell at these ordinals; -1 if it is not of the piece. */
int64_t tsr__piece_find(const tsr_piece *piece, const uint64_t *ordinals);
/* values[index] of each cell: what the axis's ordinal stands for in a datatype of `size` bytes, whose ordinal 0 is
 * `low`. */
void tsr__piece_values(const tsr_piece *piece, uint32_t axis, const uint8_t *low, uint64_t size, void *values);
/* values[index] = base + the cell's row-major ordinal in a domain of these strides (by dimension) */
void tsr__piece_numbers(const tsr_piece *piece, const uint64_t *strides, int64_t base, int64_t *numbers);

/* ---- sort.c ---- */
typedef struct tsr_pair {
  uint64_t key;
  uint32_t cell; /* or what else is sorted */
} tsr_pair;
/* By key; stable. The result is in `pairs`. */
void tsr__pairs_sort(tsr_pair *pairs, tsr_pair *spare, uint64_t count);
/* The same, by several threads. */
void tsr__pairs_sort_many(tsr_pair *pairs, tsr_pair *spare, uint64_t count, unsigned threads);
/* Equal keys as `ties` says: < 0, 0, > 0 for two of the pairs' cells; NULL: as they stand. */
typedef int (*tsr_tie_breaker)(const void *argument, uint32_t a, uint32_t b);
void tsr__pairs_sort_ties(tsr_pair *pairs, tsr_pair *spare, uint64_t count, tsr_tie_breaker ties, const void *argument);

/* ---- corners.c: where the tiles of a sparse plan begin along a dimension ---- */
typedef struct tsr_corners {
  tsr_reader *reader; /* whose plan it is */
  const tsr_field *field;
  uint32_t dimension;
  bool descending;
  bool known; /* else nothing is: of dense arrays, and where there is no memory for it */
  tsr_pair *corners;
  uint64_t capacity, count, first, at; /* at: the first that has not begun; what begins before `first` has ended */
} tsr_corners;
/* In memory of the reader's present start. */
void tsr__corners_make(tsr_reader *reader, uint32_t dimension, bool descending, tsr_corners *corners);
/* Along another dimension, of those tiles of `outer` alone whose boxes have a value, a directed key or a string, in it. `c` is
 * zeroed, or was made for the same dimension by this. */
void tsr__corners_within(const tsr_corners *outer, uint64_t key, const tsr_buffer *text, uint32_t dimension, bool descending,
                         tsr_corners *c);
/* The first place, from `from` on, where there may be rows. */
uint64_t tsr__corners_begin(tsr_corners *corners, uint64_t from);
/* Until where, from `from` on, are about so many rows to be expected? Directed keys; UINT64_MAX: there are not so many.
 * What lies before `from` is over. */
uint64_t tsr__corners_next(tsr_corners *corners, uint64_t from, uint64_t rows);
/* Are more rows to be expected of the one value that `next` has come to? */
bool tsr__corners_expect(const tsr_corners *corners, uint64_t key, uint64_t rows);
/* Where begins the next tile when those before it, that begin at `from` (behind it, where it is exclusive; NULL: at the first),
 * have so many cells? NULL: nowhere. Where tiles of nothing but the string at which it begins have more than `many`, it is
 * that one, and `single`. */
const uint8_t *tsr__corners_next_text(tsr_corners *corners, const tsr_buffer *from, bool exclusive, uint64_t rows, uint64_t many,
                                      uint64_t *size, bool *single);

/* ---- sweep.c: sparse tiles that overlap: one version of each coordinate ---- */
typedef struct tsr_sparse_tile { /* in hand */
  tsr_plan_tile plan;
  tsr_held *held;
  uint32_t *cells; /* those that count; NULL: all */
  uint64_t count;
} tsr_sparse_tile;
typedef struct tsr_sweep tsr_sweep;
/* Which tiles of the plan may be given as they come, and which hold coordinates that others may hold, too: `order` has
 * their indices, `streams` that may come first, then those of the sweep, which is NULL where there are none. */
int tsr__sweep_open(tsr_reader *reader, uint64_t **order, uint64_t *streams, tsr_sweep **sweep, tsr_error *error);
/* Gives the sweep the next tiles in order; the coordinates of those with cells, and their cell times where they have
 * some, are loaded. `cells` are copied. If it succeeds the tiles are the sweep's. */
int tsr__sweep_add(tsr_sweep *sweep, const tsr_sparse_tile *tiles, uint64_t count, tsr_error *error);
typedef enum tsr_sweep_result { TSR_SWEEP_END, TSR_SWEEP_TILE, TSR_SWEEP_NEEDS } tsr_sweep_result;
/* A tile of which all is known: its cells are those that won; the caller takes it, its cells live until the next call.
 * Or it needs the next tile first. */
int tsr__sweep_next(tsr_sweep *sweep, tsr_sparse_tile *tile, tsr_error *error);
void tsr__sweep_close(tsr_sweep *sweep); /* NULL is fine; its own memory is the reader's arena's */

/* ---- aggregate_sums.c: count, sum, minimum and maximum in typed loops ---- */
typedef struct tsr_sums { /* of one group */
  uint64_t count, nulls; /* cells that are no null, and those that are; NaN is null */
  union {
    uint64_t integer[2]; /* 128 bits, two's complement, low first: memory may be aligned to 8 only */
    double real[2]; /* the sum, and what was lost in rounding it (no number once it has met infinity) */
  } sum;
  union {
    int64_t i;
    uint64_t u;
    double f;
  } min, max; /* if count > 0 */
  double doubt; /* how far sums of floats that came from statistics may be off, about */
} tsr_sums;
/* Values as they stand in a column: pointers to those of index 0. */
typedef struct tsr_cells {
  tsr_machine machine;
  const uint8_t *values, *validity; /* validity NULL: no nulls */
  const uint32_t *selection; /* NULL: 0..count-1 */
  uint64_t count; /* at most TSR_SUMS_CELLS */
} tsr_cells;
#define TSR_SUMS_CELLS 65536u
void tsr__sums_init(tsr_machine machine, tsr_sums *sums);
void tsr__sums_add(const tsr_cells *cells, tsr_sums *sums);
/* Each to its own group: cell r to sums[groups[r]]. */
void tsr__sums_scatter(const tsr_cells *cells, const uint32_t *groups, tsr_sums *sums);
void tsr__sums_merge(tsr_machine machine, tsr_sums *sums, const tsr_sums *more);
/* Adds `count` values, of which these are minimum, maximum (both in the machine's type) and sum (as statistics have it:
 * a double, or 64 bits). */
void tsr__sums_add_known(tsr_machine machine, uint64_t count, const void *min, const void *max, uint64_t sum,
                         tsr_sums *sums);
double tsr__sums_real(tsr_machine machine, const tsr_sums *sums); /* the sum as a double */

/* ---- fragment_writer.c: cells in global order, or dense tiles -> the files of one fragment ---- */
typedef struct tsr_fragment_target {
  tsr_environment *environment; /* asked for interrupts, once for each window of tiles; told of cells */
  tsr_store *store;
  const char *directory; /* of the fragment: exists, is empty */
  const char *metadata_name; /* __fragment_metadata.tdb, or what is to be renamed to it */
  const tsr_schema *schema;
  uint32_t version; /* of the fragment */
  const uint8_t *key; /* NULL: not encrypted */
  const tsr_interval *box; /* of a dense fragment; NULL: a sparse one */
  bool has_times, has_delete_metadata; /* columns behind the fields': times; times and numbers of deletion (u64) */
  uint32_t processed_count; /* delete conditions that its cells have been through: names */
  char **processed;
  tsr_memory *memory;
  uint64_t window_bytes; /* of cells that are gathered, about; 0: some MiB */
  unsigned threads;
  bool durable; /* files and directory are synced */
  bool in_bulk; /* most cells come in calls of tsr__fragment_writer_window */
} tsr_fragment_target;
typedef struct tsr_fragment_writer tsr_fragment_writer;
#define TSR_NO_CELL UINT64_MAX
/* The target's pointers are borrowed until the writer is closed. */
int tsr__fragment_writer_open(const tsr_fragment_target *target, tsr_fragment_writer **writer, tsr_error *error);
/* Appends cells order[0..count) of `columns` (NULL: the first `count`): one column for each field, those of dimensions
 * not looked at in dense fragments, then the special ones. Sparse: in global order. Dense: tile after tile in tile
 * order, each whole and in cell order, TSR_NO_CELL where the box does not reach. Values are copied. */
int tsr__fragment_writer_add(tsr_fragment_writer *writer, const tsr_column *columns, const uint64_t *order,
                             uint64_t count, tsr_error *error);
/* How many cells are best given to it at once, or a multiple: in bulk they are written without being copied first. */
uint64_t tsr__fragment_writer_window(const tsr_fragment_writer *writer);
/* The rest of the files, and the metadata; after it the fragment only lacks its name. */
int tsr__fragment_writer_finish(tsr_fragment_writer *writer, tsr_error *error);
void tsr__fragment_writer_close(tsr_fragment_writer *writer); /* NULL is fine; leaves the files */

/* ---- write_rank.c: strings into numbers ---- */
/* Sorts by the strings of their cells; then each key is how many different strings are below the cell's own. Stable. */
int tsr__pairs_rank(const tsr_column *column, tsr_pair *pairs, tsr_pair *spare, uint64_t count, tsr_memory *memory,
                    tsr_error *error);

/* ---- write_order.c: the global order of sparse cells ---- */
/* Blocks of cells that were sorted by their Hilbert codes before. */
#define TSR_ORDER_BLOCK 32768u
typedef struct tsr_order_ahead {
  tsr_pair *const *blocks; /* NULL where one was not */
  uint64_t count; /* of whole ones, from the first cell on */
} tsr_order_ahead;
/* order[0..*count) becomes the numbers of the cells in the schema's global order, equal coordinates in the order of
 * their numbers; where the schema has no duplicates only the last of equals is left. `columns` has the dimensions.
 * `ahead`, of an array in Hilbert order, may be NULL. */
int tsr__order_cells(const tsr_schema *schema, const tsr_column *columns, tsr_memory *memory, unsigned threads,
                     const tsr_order_ahead *ahead, uint32_t *order, uint64_t *count, tsr_error *error);
/* Hilbert codes of the cells from `first` on. */
void tsr__order_codes(const tsr_schema *schema, const tsr_column *columns, uint64_t first, uint64_t count,
                      uint64_t *codes);
/* The order of two cells whose codes are equal. */
int tsr__order_compare(const tsr_schema *schema, const tsr_column *columns, uint32_t a, uint32_t b);
/* Are so few codes equal to others that sorting by them alone suffices? */
static inline bool tsr__order_few_ties(uint64_t ties, uint64_t count) { return ties <= count / 8; }

/* The same as lists of numbers, the most significant first: numbers[0..count) become those of one list. `dimension` is
 * whose coordinates they are, or the number of dimensions; of strings there are none, they are compared as bytes. */
uint32_t tsr__order_lists(const tsr_schema *schema);
int tsr__order_list(const tsr_schema *schema, uint32_t list, const tsr_column *columns, uint64_t count,
                    uint64_t *numbers, uint32_t *dimension, tsr_error *error);

/* ---- write_hilbert.c: Hilbert order from blocks ---- */
/* Cells from `first` on, `count` of them, as pairs of code and number, sorted; the first one's number is `number`. */
void tsr__order_block(const tsr_schema *schema, const tsr_column *columns, uint64_t first, uint64_t count,
                      uint64_t number, tsr_pair *pairs, tsr_pair *spare);
/* As tsr__order_cells: 1; 0 and nothing if too many codes are equal. */
int tsr__order_blocks(const tsr_schema *schema, const tsr_column *columns, tsr_memory *memory, unsigned threads,
                      const tsr_order_ahead *ahead, uint32_t *order, uint64_t *count, tsr_error *error);

/* ---- write_sparse.c, write_dense.c: one fragment into an empty directory ---- */
/* Cells order[0..count), which are in global order. */
int tsr__write_ordered(const tsr_fragment_target *target, const tsr_column *columns, const uint32_t *order,
                       uint64_t count, tsr_error *error);
/* The cells of target->box in row-major (or the array's own) cell order of the box. */
int tsr__write_dense(const tsr_fragment_target *target, bool array_order, const tsr_column *columns, tsr_error *error);
/* The same, tile by tile: `fill` is called for each tile that the box touches (its coordinates, absolute), in tile order,
 * and gives columns and order[cells of a tile] for tsr__fragment_writer_add. */
typedef int (*tsr_tile_filler)(void *argument, const uint64_t *tile, uint64_t *order, const tsr_column **columns,
                               tsr_error *error);
int tsr__write_dense_tiles(const tsr_fragment_target *target, tsr_tile_filler fill, void *argument, tsr_error *error);
/* How many cells a box has. TSR_RANGE where it is no box within the domain. */
int tsr__box_cells(const tsr_schema *schema, const tsr_interval *box, tsr_memory *memory, uint64_t *cells,
                   tsr_error *error);

/* ---- write_deletes.c: removed coordinates -> delete conditions ---- */
typedef struct tsr_deletes { /* `= {0}`; release frees */
  uint64_t count; /* conditions: 0 if nothing was removed */
  tsr_buffer bytes; /* .del files (generic tiles), one after the other */
  tsr_buffer ends; /* u64: where each ends */
} tsr_deletes;
void tsr__deletes_release(tsr_deletes *deletes);
/* As few conditions as say that exactly the cells at these coordinates are gone: cells selection[0..count) of `columns`
 * (NULL: the first `count`), one column for each dimension, in any order, also more than once. Coordinates of own cells
 * that live must have been left out where the array has no duplicates. `version` is that of the commit, 16 or later. */
int tsr__deletes_make(const tsr_schema *schema, uint32_t version, const uint8_t *key, const tsr_column *columns,
                      const uint32_t *selection, uint64_t count, tsr_memory *memory, tsr_deletes *deletes,
                      tsr_error *error);
/* Arrays with duplicates: do all cells of a (fresh) snapshot at these coordinates belong to rows[selection[0..count)]?
 * TSR_CONSTRAINT if the conditions would delete another one. */
int tsr__deletes_check(tsr_snapshot *snapshot, const tsr_column *columns, const int64_t *rows,
                       const uint32_t *selection, uint64_t count, tsr_memory *memory, unsigned threads,
                       tsr_error *error);

/* ---- write_boxes.c: cells of a dense array, of any shape -> exact boxes ---- */
typedef struct tsr_boxes tsr_boxes;
#define TSR_BOXES_MOST 1000 /* in a commit; one below format version 12 */
typedef struct tsr_boxes_source {
  const tsr_schema *schema;
  const tsr_column *columns; /* of all fields, borrowed until close; cells in any order, of equals the last counts */
  uint64_t count;
  uint64_t most; /* boxes; 0: none but what there are */
  /* The present state, listed anew: asked for where there are more boxes; closed by the boxes. */
  int (*open_snapshot)(void *argument, tsr_snapshot **snapshot, tsr_error *error);
  void *argument;
  tsr_memory *memory;
  unsigned threads;
} tsr_boxes_source;
/* The boxes of these cells, apart from each other. Past `most` they are joined over gaps whose cells are all written;
 * such cells are written again as they are. TSR_FULL if too many are left. */
int tsr__boxes_open(const tsr_boxes_source *source, tsr_boxes **boxes, tsr_error *error);
uint64_t tsr__boxes_count(const tsr_boxes *boxes);
/* One interval for each dimension; borrowed. */
const tsr_interval *tsr__boxes_box(const tsr_boxes *boxes, uint64_t index);
/* Writes box `index` as one fragment, tile by tile. target->box is that box. */
int tsr__boxes_write(tsr_boxes *boxes, uint64_t index, const tsr_fragment_target *target, tsr_error *error);
void tsr__boxes_close(tsr_boxes *boxes); /* NULL is fine */

#endif
