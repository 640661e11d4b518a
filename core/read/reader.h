/* reader.h: what the files of core/read/ offer each other. Together they find the cells that a request selects.
 *
 * A request becomes a plan; an iterator loads the plan's tiles in windows and hands out batches of cells. The sections:
 *
 * - plan.c: the plan: which fragments, tiles and ordinals the request selects
 * - written_boxes.c: the parts of a dense array in which any cell was written
 * - space_tiles.c: walks the space tiles of a dense plan, and cuts each into subtiles
 * - tile_loader.c: loads and decodes tiles on the thread pool
 * - predicate.c: tests predicates against statistics and cells
 * - reader.c: the reader: pinned tiles, columns, windows, reading ahead
 * - dense.c, point.c, sparse.c, ordered.c: the iterators
 * - places.c, expected.c: cells at many places, and look-ups of them that were announced
 * - version_merge.c: picks the newest version of each cell, for sparse.c
 * - deleted_cells.c: drops the deleted cells of a tile, for sparse.c
 * - dropped.c: chooses the tiles that deletes may have touched, for plan.c and deleted_cells.c
 * - key_range.c: cuts an ordered read into key ranges, for ordered.c
 * - row_block.c: rows of many batches, copied
 *
 * block.c, code_bounds.c, estimate.c, find_row.c, gaps.c, partition.c and unchanged.c use these and have no section:
 * hosts call them (tessera.h, tessera_host.h).
 *
 * Boxes and spans are inclusive at both ends. An ordinal counts the values of a dimension from the start of its domain.
 */
#ifndef TSR_READ_READER_H
#define TSR_READ_READER_H

#include "array/array.h"
#include "base/memory.h"
#include "model/domain.h"
#include "base/pool.h"
#include "tessera.h"
#include "base/sort.h"
#include "format/rtree.h"
#include "tessera_host.h"

/* ---- plan.c: which fragments and tiles a request can find cells in ---------------------------------------------- */
/* The reader executes a plan; estimate.c estimates what that takes. A sparse plan lists tiles. A dense plan lists the
 * selected ordinals of each dimension and the boxes of the fragments that meet them; dense.c enumerates its space
 * tiles.
 */

typedef struct tsr_plan_tile { /* a tile of a sparse fragment */
  uint32_t fragment; /* index in the snapshot */
  bool inside; /* the tile's MBR lies within the spans: no cell needs to be compared with them */
  uint64_t tile; /* number in the fragment */
} tsr_plan_tile;

typedef struct tsr_dimension_selection { /* the ordinals of one dimension that a dense request selects */
  uint64_t count;
  tsr_span *spans; /* ordinals, inclusive; within the array's non-empty domain; sorted and disjoint */
} tsr_dimension_selection;

typedef struct tsr_plan_box { /* a fragment of a dense array whose box meets the request */
  uint32_t fragment; /* index in the snapshot */
  bool sparse; /* a sparse fragment: it owns single cells of the box (format versions up to 10 wrote such fragments) */
  bool excluded; /* the fragment's statistics say that no cell of it satisfies the predicates */
  const uint64_t *low, *high; /* ordinals by dimension, inclusive */
} tsr_plan_box;

typedef struct tsr_written_box { /* a box of a dense array that may hold written cells: see tsr__written_boxes_make */
  const uint64_t *low, *high; /* ordinals by dimension, inclusive */
} tsr_written_box;

struct tsr_place_window;

typedef struct tsr_plan {
  bool empty; /* no cell can satisfy the request */
  bool lossy; /* a lossy filter changed the stored coordinates, so MBRs say nothing about them */
  tsr_spans *spans; /* one per dimension */
  const struct tsr_place_window *places; /* NULL, or sparse arrays: only cells at these places */
  /* sparse arrays: tiles that may hold cells of the request, by fragment, then by tile number */
  uint64_t tile_count;
  tsr_plan_tile *tiles;
  /* dense arrays: */
  tsr_dimension_selection *selections; /* one per dimension */
  uint64_t box_count;
  tsr_plan_box *boxes; /* oldest fragment first */
  uint64_t written_box_count;
  tsr_written_box *written_boxes; /* set by tsr__written_boxes_make */
} tsr_plan;

/* Plans a request for ranges of the dimensions (one per dimension, or NULL: all cells). The plan's memory is in
 * `arena`. Loads R-trees, and adds to the counters of considered and skipped fragments and tiles. */
int tsr__plan_make(tsr_snapshot *snapshot, const tsr_ranges *dimensions, tsr_arena *arena, tsr_plan *plan,
                   tsr_error *error);

/* Plans a request for spans (one per dimension), which the plan borrows. Leaves the counters alone: it serves parts of
 * a request whose fragments and tiles tsr__plan_make has counted. */
int tsr__plan_make_within(tsr_snapshot *snapshot, tsr_spans *spans, tsr_arena *arena, tsr_plan *plan, tsr_error *error);

/* Plans a read of the cells at the places of a window, which the plan borrows. Counts as tsr__plan_make does. */
int tsr__plan_make_at(tsr_snapshot *snapshot, const struct tsr_place_window *window, tsr_arena *arena, tsr_plan *plan,
                      tsr_error *error);

/* The steps of a plan that an estimate takes, too: */

/* Makes the spans of ranges (one per dimension, or NULL: all cells). Sets *empty if a dimension has none. */
int tsr__request_spans(const tsr_schema *schema, const tsr_ranges *dimensions, tsr_arena *arena, tsr_spans **spans,
                       bool *empty, tsr_error *error);

/* Returns true if the fragment's non-empty domain meets the spans. */
bool tsr__fragment_meets(const tsr_schema *schema, const tsr_fragment *fragment, const tsr_spans *spans);

/* Hints to the store that the R-trees of the fragments that meet the spans will be read; if coordinates are lossy, of
 * all fragments. */
void tsr__plan_prefetch(tsr_snapshot *snapshot, const tsr_spans *spans, bool lossy);

/* Selects the ordinals and boxes of a dense array by plan->spans. `count`: adds to the counters. */
int tsr__plan_dense(tsr_snapshot *snapshot, bool count, tsr_arena *arena, tsr_plan *plan, tsr_error *error);

/* Returns true if a dense fragment has the same space tiles and cell order as the snapshot's schema. */
bool tsr__fragment_fits(const tsr_snapshot *snapshot, const tsr_fragment *fragment);

/* Returns the number of selected values; saturates at UINT64_MAX. */
uint64_t tsr__dimension_selection_values(const tsr_dimension_selection *selected);

/* Returns how many selected values lie in low..high. */
uint64_t tsr__dimension_selection_values_within(const tsr_dimension_selection *selected, uint64_t low, uint64_t high);

/* Returns the number of tiles, `extent` values long, that hold selected ordinals in low..high. */
uint64_t tsr__dimension_selection_tiles(const tsr_dimension_selection *selected, uint64_t extent, uint64_t low,
                                        uint64_t high);

/* ---- written_boxes.c: where a dense request has to look for written cells --------------------------------------- */
/* Boxes of a dense array that together hold every cell that was ever written. A plan gets written boxes if the reader
 * may skip space tiles without any written cell. The walk over space tiles and the key ranges of an ordered read then
 * jump over everything between written boxes.
 */

/* Sets plan->written_boxes, allocated from `arena`: each cell that a fragment of the plan wrote lies in at least one
 * written box. Written boxes may overlap. Loads the R-trees of sparse fragments. */
int tsr__written_boxes_make(tsr_snapshot *snapshot, tsr_arena *arena, tsr_plan *plan, tsr_error *error);

/* ---- dropped.c: which tiles deletes may have touched ------------------------------------------------------------- */
/* By the MBRs of tiles, so the plan must have loaded the R-trees. */

/* Returns 0 only if a condition, by its number in the snapshot, deletes no cell of a tile; else 1, and the condition as
 * far as it matters in the tile, which borrows from the snapshot and the arena. */
int tsr__may_drop(const tsr_snapshot *snapshot, uint32_t fragment, uint64_t tile, uint64_t number, tsr_arena *arena,
                  tsr_condition *narrowed, tsr_error *error);

/* Returns false only if none of these conditions deletes a cell of a tile. */
bool tsr__any_may_drop(const tsr_snapshot *snapshot, uint32_t fragment, uint64_t tile,
                       const tsr_condition *const *conditions, uint64_t count);

/* Returns true if the transaction may have removed rows of a committed tile. */
bool tsr__removes_some(const tsr_snapshot *snapshot, uint32_t fragment, uint64_t tile);

/* Of the tiles from number `from` to `end` - 1, all of one fragment, keeps those that may have a cell that the
 * snapshot's conditions have dropped. Returns the new end. */
uint64_t tsr__dropped_tiles(const tsr_snapshot *snapshot, uint32_t number, tsr_plan_tile *tiles, uint64_t from,
                            uint64_t end);

/* ---- space_tiles.c: the walk over the space tiles of a dense plan ----------------------------------------------- */
/* Visits the space tiles in tile order. A dense plan may select far more space tiles than any fragment meets, so the
 * walk can skip tiles that no written box meets, or offer all tiles between two written boxes as one box: a gap.
 */

typedef struct tsr_walk {
  const tsr_plan *plan; /* borrowed */
  const tsr_grid *grid; /* borrowed */
  bool ended;
  bool gaps; /* visit tiles that no written box meets, too */
  uint64_t *at, *first; /* by dimension: the tile's coordinates; the first span of the selection that meets the tile */
  /* Lists of indices in plan->boxes. lists[k] has the boxes that meet the tile in the k slowest dimensions; the last
   * list has the boxes that meet the tile in all dimensions, oldest fragment first. */
  uint32_t **lists, *list_counts;
  /* the same lists of plan->written_boxes; NULL if the walk needs no written boxes */
  uint32_t **written_boxes, *written_box_counts;
  uint32_t gap_at; /* of the last gap: the dimension, in tile order, along which it ends */
  uint64_t gap_end; /* the last ordinal of the gap in that dimension */
} tsr_walk;

/* Moves the walk to the first tile, or ends it. `gaps`: visit tiles that no written box meets, too. `gaps_offered`: the
 * caller will call tsr__walk_gap. The plan must have written boxes if `gaps` is false or `gaps_offered` is true.
 * Allocates only from `arena`. */
int tsr__walk_open(const tsr_plan *plan, const tsr_grid *grid, bool gaps, bool gaps_offered, tsr_arena *arena,
                   tsr_walk *walk, tsr_error *error);

/* Steps to the next tile, or ends the walk. */
void tsr__walk_next(tsr_walk *walk);

/* Returns true if a gap begins at the current tile: a box low..high (ordinals by dimension) of fully selected cells in
 * tiles that no written box meets. Sets *cells to its number of cells, saturated at UINT64_MAX. tsr__walk_pass then
 * skips the gap. */
bool tsr__walk_gap(tsr_walk *walk, uint64_t *low, uint64_t *high, uint64_t *cells);

/* Steps to the first tile after the gap that tsr__walk_gap last returned. */
void tsr__walk_pass(tsr_walk *walk);

/* ---- space_tiles.c: subtiles, the parts of a space tile --------------------------------------------------------- */
/* A space tile may be huge; a subtile is small enough for a selection vector, a map of owners and coordinate columns.
 *
 * The cells that a dense request selects in a space tile are the product of one set of spans per dimension.
 * tsr__subtiles_init divides this product into subtiles, which are products too, and tsr__subtiles_next steps through
 * them. A cell of a subtile has two numbers: its index is the distance from the subtile's first cell in the tile's cell
 * order (with gaps where cells are not selected); its position counts selected cells only.
 */

#define TSR_SUBTILE_CELLS 65536u /* selected cells of a subtile, usually at most */
#define TSR_SUBTILE_REACH (UINT64_C(1) << 20) /* indices of a subtile, at most, if it has more than one row */

typedef struct tsr_axis { /* a dimension of a tile; axes are ordered from the slowest to the fastest in cell order */
  uint32_t dimension;
  uint64_t base; /* ordinal of the tile's first value */
  uint64_t extent; /* values in the tile */
  uint64_t stride; /* distance in cells between two neighbours along this axis */
  uint64_t count; /* selected values */
  uint64_t span_count;
  tsr_span *spans; /* selected values, counted from base, inclusive */
} tsr_axis;

typedef struct tsr_subtile { /* the product of its axes */
  uint32_t dimensions;
  tsr_axis *axes;
  uint64_t cells; /* selected cells */
  uint64_t origin; /* number in the tile of the first selected cell, which has index 0 */
  uint64_t index_count; /* number of indices: the last selected cell's index plus 1 */
  uint64_t *values, *at; /* scratch of the walk over rows: value, and its span, by axis */
} tsr_subtile;

typedef struct tsr_subtiles { /* the subtiles of one tile */
  tsr_axis *tile_axes; /* of all that is selected in the tile */
  tsr_subtile subtile; /* the current one */
  uint32_t split; /* a subtile has one value on each earlier axis, some on this one, all on each later axis */
  uint64_t rows_max; /* selected values of the split axis in a subtile, at most */
  uint64_t width_max; /* the largest distance between two values of the split axis in a subtile */
  bool started; /* `subtile` is valid */
  uint64_t *span_at, *value; /* by axis up to `split`: where the next subtile begins */
} tsr_subtiles;

/* Prepares the subtiles of the tile at coordinates `tile` (by dimension), of at most `cells_max` selected cells each.
 * first[d] is the first span of selections[d] that meets the tile. All memory comes from `arena`. */
int tsr__subtiles_init(const tsr_grid *grid, const tsr_dimension_selection *selections, const uint64_t *tile,
                       const uint64_t *first, uint64_t cells_max, tsr_arena *arena, tsr_subtiles *subtiles,
                       tsr_error *error);

/* Steps to the next subtile, in cell order of the split axes; false after the last one. */
bool tsr__subtiles_next(tsr_subtiles *subtiles);

/* Returns true if the subtile selects every index, so that its cells are contiguous in the tile. */
bool tsr__subtile_is_contiguous(const tsr_subtile *subtile);

/* Writes the indices of the subtile's cells, in cell order. `cells` has room for subtile->cells. */
void tsr__subtile_select(const tsr_subtile *subtile, uint32_t *cells);

/* Sets owners[position] to `owner` for each cell in the box low..high (ordinals by dimension) whose owner is still
 * `none`. Returns how many cells it claimed. */
uint64_t tsr__subtile_claim(const tsr_subtile *subtile, const uint64_t *low, const uint64_t *high, uint32_t owner,
                            uint32_t none, uint32_t *owners);

/* Returns the position of the cell at these ordinals (by dimension); -1 if the subtile does not select it. */
int64_t tsr__subtile_find(const tsr_subtile *subtile, const uint64_t *ordinals);

/* Sets values[index] of each cell to its coordinate on an axis, in an integer datatype of `size` bytes. `low` is the
 * coordinate with ordinal 0. `values` has room for subtile->index_count values; cells that are not selected keep
 * theirs. */
void tsr__subtile_values(const tsr_subtile *subtile, uint32_t axis, const uint8_t *low, uint64_t size, void *values);

/* Sets numbers[index] of each cell to base + the sum of ordinal * strides[dimension]: its row-major number in a domain
 * with these strides. `numbers` has room for subtile->index_count numbers. */
void tsr__subtile_numbers(const tsr_subtile *subtile, const uint64_t *strides, int64_t base, int64_t *numbers);

/* ---- tile_loader.c: loads decoded tiles from the cache or the store --------------------------------------------- */
/* tsr__tiles_load loads a list of requests at once. tsr__load_start and tsr__load_finish split this in two, so that the
 * caller can do something else while workers read and decode.
 */

typedef struct tsr_pinned_tile tsr_pinned_tile;

/* Gets the cells of a tile while they are decoded, in place of the tile. Workers call `take`. */
typedef struct tsr_tile_sink {
  tsr_tile_take take;
  void *argument;
  bool once; /* nobody will ask for the tile again, so it need not go into the cache */
} tsr_tile_sink;

typedef struct tsr_tile_request { /* one slot of one tile */
  tsr_fragment *fragment;
  uint32_t slot;
  uint64_t number; /* of the tile in the fragment */
  uint64_t first, end; /* only the cells first..end-1 are needed; end 0: all cells */
  const uint8_t *needed; /* of these, only the cells in blocks that it marks (tsr_tile_source); NULL: all; borrowed */
  uint64_t partly; /* for the loader: cells that earlier loads decoded in parts */
  /* NULL, or what gets the cells, in order, if the tile is not in memory, would not go into the cache either and
   * tsr__tile_divides: then `tile` stays NULL. Borrowed. */
  const tsr_tile_sink *sink;
  tsr_tile *tile; /* out: the caller's reference */
  bool decoded; /* out: the tile was not in the cache */
  tsr_pinned_tile *pinned; /* for the reader that made the request; the loader ignores it */
} tsr_tile_request;

/* Loads all requests on up to `threads` threads, or none of them. The caller gets a reference to each tile, whose bytes
 * are charged to `memory`; tsr__tile_return gives back both. Requests of one slot for consecutive tiles share reads of
 * the file. */
int tsr__tiles_load(tsr_array *array, unsigned threads, tsr_tile_request *requests, uint64_t count, tsr_memory *memory,
                    tsr_error *error);
void tsr__tile_return(tsr_tile *tile, tsr_memory *memory);

/* Hints to the store that these tiles will be loaded soon, so that it can fetch them together; charges nothing. The
 * requests must be valid. Returns the number of bytes that the store may fetch for them. */
uint64_t tsr__tiles_prefetch(tsr_array *array, const tsr_tile_request *requests, uint64_t count);

/* Returns true if a decoded tile has the values that the request needs. If not, notes in the request how many cells of
 * the tile have been decoded in parts: when these add up, all cells are decoded. */
bool tsr__tile_request_fits(tsr_tile_request *request, const tsr_tile *tile);

/* Returns true if a request can be served without decoding anything. */
bool tsr__tile_is_in_memory(tsr_array *array, tsr_tile_request request);

/* A load in progress. Finish it or cancel it, exactly once; until then neither the load nor its requests may move. The
 * fields are private to the loader. */
typedef struct tsr_load {
  tsr_array *array;
  tsr_memory *memory;
  tsr_tile_request *requests;
  uint64_t count, cached_count; /* all requests; requests served from the cache */
  bool ahead;
  struct tsr_fetch *fetches; /* for tiles that are not in the cache */
  struct tsr_fetch_group *groups;
  uint64_t fetch_count, group_count;
  tsr_job job;
} tsr_load;

/* Starts to load the requests with up to `workers` workers beside the caller. `ahead`: the tiles are not needed yet, so
 * the caller's thread does not help before the finish; the loaded tiles count as tiles_ahead. If the start fails, there
 * is nothing to finish or cancel. */
int tsr__load_start(tsr_load *load, tsr_array *array, unsigned workers, bool ahead, tsr_tile_request *requests,
                    uint64_t count, tsr_memory *memory, tsr_error *error);

/* Does the rest of the load and waits for the workers. If it fails, no request has a tile. */
int tsr__load_finish(tsr_load *load, tsr_error *error);

/* Ends the load. Tiles decoded so far go into the cache; no request gets a tile. */
void tsr__load_cancel(tsr_load *load);

/* Sets *bytes to the decoded size of a slot of a tile. Reads only the sizes in the metadata. */
int tsr__tile_cost(tsr_array *array, tsr_fragment *fragment, uint32_t slot, uint64_t number, uint64_t *bytes,
                   tsr_error *error);

/* ---- predicate.c: predicates on attributes, against statistics and cells ---------------------------------------- */
/* tsr__predicates_make prepares the predicates of a request for its reader. tsr__predicates_exclude says which tiles
 * need not be read at all, and tsr__predicates_select which cells of a loaded tile pass. */

typedef struct tsr_typed_predicate { /* a predicate, prepared for its attribute's datatype */
  uint32_t field;
  tsr_predicate_kind kind;
  bool nan, nat; /* NaN, or NaT, counts as null in this attribute */
  bool negated; /* TSR_PREDICATE_WITHIN: cells outside the spans pass, nulls included */
  bool never; /* no cell passes */
  tsr_spans spans; /* TSR_PREDICATE_WITHIN */
} tsr_typed_predicate;

/* Sets reader->predicates from the request's predicates; they live in the reader's arena until its next start. Fails
 * if a predicate is not on an attribute, or compares with ranges an attribute whose values have no order. */
int tsr__predicates_make(tsr_reader *reader, const tsr_request *request, tsr_error *error);

/* Returns true if the minimum, maximum and null count of a field of the fragment's schema can be trusted. For floats,
 * tsr__statistics_plain must check each tile as well. */
bool tsr__statistics_trusted(const tsr_fragment_metadata *metadata, uint32_t field);

/* Returns true if the bounds of a tile of floats can be trusted: neither NaN nor infinity nor an overflow of the sum
 * has spoiled them. min and max point to values of the field; if sum is NULL, returns false. */
bool tsr__statistics_plain(const tsr_field *field, const uint8_t *min, const uint8_t *max, const uint64_t *sum);

/* Loads the statistics of a slot: of its tiles or, with `of_fragment`, of the whole fragment. The fragment owns the
 * statistics. May close the array's open files, so no borrowed file may be in use. */
int tsr__statistics_load(tsr_array *array, tsr_fragment *fragment, uint32_t slot, bool of_fragment,
                         tsr_statistics *statistics, tsr_error *error);

/* Returns true if the statistics of a tile, which must be trustworthy, prove that none of its cells satisfies the
 * predicate. `cells` is the number of cells in the tile; UINT64_MAX if unknown. */
bool tsr__predicate_excludes(const tsr_typed_predicate *predicate, const tsr_field *field,
                             const tsr_statistics *statistics, uint64_t tile, uint64_t cells);

/* Returns 1 if statistics prove that no cell of a tile satisfies all of the reader's predicates, else 0; < 0: error.
 * Loads statistics: no borrowed file may be in use. */
int tsr__predicates_exclude(tsr_reader *reader, uint32_t fragment, uint64_t tile, tsr_error *error);

/* The same for all cells of a fragment, by the statistics of the whole fragment. Loads statistics: no borrowed file may
 * be in use. */
int tsr__predicates_exclude_fragment(tsr_reader *reader, uint32_t fragment, tsr_error *error);

/* Writes the indices of the cells that pass to `out`, and returns their number. `selection` has the `count` indices to
 * test; NULL: 0..count-1. `out` has room for `count` indices and may be the selection itself. */
uint64_t tsr__predicate_select(const tsr_reader *reader, const tsr_typed_predicate *predicate, const tsr_column *column,
                               const uint32_t *selection, uint64_t count, uint32_t *out);

/* Writes the indices of the cells that satisfy all predicates to `out`. *count is the number of cells to test, and
 * becomes the number that passed. Index 0 is the pinned tile's cell `first`. pinned NULL: cells that were never
 * written. Loads the fields that the predicates read, unless they are loaded. */
int tsr__predicates_select(tsr_reader *reader, tsr_pinned_tile *pinned, uint64_t first, const uint32_t *selection,
                           uint64_t *count, uint32_t *out, tsr_error *error);

/* Returns 1 if some cell of the pinned tile satisfies all predicates, else 0; < 0: error. */
int tsr__predicates_any(tsr_reader *reader, tsr_pinned_tile *pinned, tsr_error *error);

/* Returns true if it is worth marking the pinned tile: some requested field that no predicate reads is not in memory,
 * and marks have spared something before. */
bool tsr__predicates_may_mark(tsr_reader *reader, const tsr_pinned_tile *pinned);

/* Marks what is needed of pinned tiles (tsr_pinned_tile.needed), on several threads. The fields that the predicates
 * read are loaded. */
int tsr__predicates_mark(tsr_reader *reader, tsr_pinned_tile *const *tiles, uint64_t count, tsr_error *error);

/* Returns true if some cell of a marked tile may satisfy the predicates. */
bool tsr__predicates_marked_any(const tsr_pinned_tile *pinned);

/* Requests the fields that the predicates read, for the next tsr__reader_load. */
int tsr__predicates_request(tsr_reader *reader, tsr_pinned_tile *pinned, tsr_error *error);

/* Returns true if a cell that was never written satisfies all predicates. */
bool tsr__predicates_pass_unwritten(const tsr_reader *reader);

/* ---- reader.c: a started request: its plan, its loaded tiles and its iterator ----------------------------------- */
/* The iterator loads tiles in windows, decoded by the thread pool, and hands out batches that point into decoded tiles.
 * Dense arrays are read space tile by space tile: the newest fragment that wrote a cell owns it (dense.c). A sparse
 * tile whose MBR meets no tile of another fragment gives a batch of its own; the others go through the version merge,
 * where the newest version of each coordinate wins (sparse.c). Single cells of dense arrays and ordered rows have
 * iterators of their own (point.c, ordered.c).
 *
 * One thread at a time uses a reader. Workers touch only the tiles that they decode (tile_loader.c).
 */

enum { TSR_NEEDED_NEAR = 1, TSR_NEEDED_PASS = 2 };

/* One tile of a fragment with those of its slots that the reader has decoded. They stay in memory until the tile is
 * unpinned. */
struct tsr_pinned_tile {
  uint32_t fragment; /* index in the snapshot */
  bool counted; /* its cells are in the counter cells_decoded */
  uint64_t number, cells; /* number in the fragment; how many cells it has */
  uint64_t first, end; /* only the cells first..end-1 are read: other cells may not be decoded */
  /* In the window's arena: a byte for each block of TSR_NEEDED_CELLS cells: TSR_NEEDED_PASS if some cell in it may
   * satisfy the predicates, TSR_NEEDED_NEAR in blocks beside those, else 0. Fields that are requested from then on may
   * be decoded in blocks that are not 0 only. NULL: all cells are read. */
  uint8_t *needed;
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

/* Tiles that a reader has unpinned but keeps for its next start: a join restarts its reader for each outer row. */
typedef struct tsr_kept_tiles {
  bool started, restarted; /* the reader was started at least once; at least twice, so that tiles are worth keeping */
  uint32_t count;
  uint64_t bytes; /* their decoded size, in total */
  tsr_kept_tile tiles[TSR_KEPT_MAX]; /* in the order in which they were unpinned */
} tsr_kept_tiles;

typedef struct tsr_reader_tiles { /* memory for pinned tiles, and kept tiles */
  uint32_t slot_count; /* the greatest number of slots in a fragment */
  tsr_pinned_tile *free; /* free list: the next pins reuse these */
  tsr_kept_tiles kept;
} tsr_reader_tiles;

typedef struct tsr_batch_iterator { /* makes the batches of a started reader */
  /* Fills in *batch and returns 1; returns 0 at the end; < 0: error. A batch is valid until the next call. */
  int (*next)(struct tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error);
  int (*column)(struct tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error);
  /* Unpins its tiles. The iterator's memory belongs to the reader. */
  void (*close)(struct tsr_batch_iterator *iterator);
  /* May be NULL. Returns the subtile of a dense tile that the batch's indices refer to; NULL if they refer to cells of
   * a sparse fragment's tile. */
  const struct tsr_subtile *(*subtile)(struct tsr_batch_iterator *iterator);
  /* May be NULL. Returns tsr_pinned_tile.needed of the batch's tile, which may be NULL, and sets *origin to the number
   * in the tile of the cell with index 0. */
  const uint8_t *(*needed)(struct tsr_batch_iterator *iterator, uint64_t *origin);
} tsr_batch_iterator;

#define TSR_NO_FRAGMENT UINT32_MAX

/* Cells that a whole-tile shortcut can take without reading them: either a tile that the request selects fully, in
 * which no cell is deleted or can have another version (`cells` is everything that its fragment wrote there); or a box
 * of a dense array in which no cell was ever written, in one space tile or in many. */
typedef struct tsr_whole_tile {
  uint32_t fragment; /* index in the snapshot; TSR_NO_FRAGMENT: never written */
  uint64_t tile, cells; /* number in the fragment; `cells` saturates at UINT64_MAX */
  const uint64_t *low, *high; /* dense: the box, in ordinals by dimension; sparse: NULL, the R-tree has the MBR */
} tsr_whole_tile;

/* Called for each fully selected tile before it is read. Returns 1 if it consumed the cells, which then come in no
 * batch; 0 if the tile must be read; < 0: error. May load statistics: no borrowed file is in use during the call. */
typedef int (*tsr_whole_tile_shortcut)(void *argument, const tsr_whole_tile *whole, tsr_error *error);

/* Differences between the engine's own readers and those that hosts open. They hold for all requests of the reader. `=
 * {0}`: none. */
typedef struct tsr_reader_mode {
  tsr_whole_tile_shortcut take; /* is offered whole tiles; NULL: all selected cells come in batches */
  void *take_argument;
  bool written_only; /* cells of a dense array that were never written are left out */
  /* The cells of tiles that are read come untested; the predicates only say which tiles, and which unwritten cells, to
   * leave out. */
  bool untested;
  bool skips; /* with `untested`: the caller leaves out cells in blocks that the iterator's `needed` does not mark */
} tsr_reader_mode;

typedef struct tsr_reader_request { /* which cells and columns the start requested, besides plan and predicates */
  bool *fields; /* by field: decoded with the window, in parallel */
  bool times; /* batches carry the times of cells */
  bool distinct; /* sparse: one of all rows that are equal in the order's dimensions is enough */
  bool gives_unwritten; /* batches include cells that were never written: requested, and satisfying all predicates */
  bool is_part; /* the request is part of another reader's request, which has already counted its fragments */
} tsr_reader_request;

/* The next window. Its tiles are loaded while batches of the current window are handed out. */
typedef struct tsr_read_ahead {
  tsr_arena arena; /* becomes reader->window.arena when the window becomes the current one */
  tsr_buffer requests; /* array of tsr_tile_request */
  bool loading; /* `load` has been started with these requests */
  tsr_load load;
} tsr_read_ahead;

typedef struct tsr_read_window { /* the tiles that the iterator loads at once */
  tsr_arena arena; /* reset by the iterator for each window */
  tsr_buffer requests; /* array of tsr_tile_request that the next tsr__reader_load loads */
  tsr_read_ahead ahead;
} tsr_read_window;

typedef struct tsr_reader_predicates { /* the request's predicates (predicate.c) */
  uint32_t count;
  tsr_typed_predicate *list;
  bool fill_unwritten; /* cells that were never written have the fill value, not null */
  bool has_other_fields; /* the request decodes fields that no predicate reads */
  /* tiles that were marked, their cells, and those of them in chunks that are not needed */
  uint64_t marked_tiles, marked, spared;
  tsr_buffer passing; /* scratch, uint32_t: indices of cells that passed */
} tsr_reader_predicates;

typedef struct tsr_reader_progress { /* decides how large the next window is */
  uint64_t limit; /* number of cells that the caller is likely to read; 0: all. Doubled when it reads more */
  uint64_t given; /* selected cells in the windows so far */
  uint64_t window_tiles; /* tiles in the next window, at most */
} tsr_reader_progress;

typedef struct tsr_reader_columns { /* by field, and the rowids */
  tsr_column *current; /* of the current batch */
  bool *ready; /* `current` has been filled */
  tsr_column *fills; /* for cells that were never written, or whose fragment lacks the attribute */
  uint64_t (*fill_offsets)[2]; /* of variable fill values */
  tsr_buffer rowids; /* scratch: int64_t row numbers of a batch, or uint64_t counts */
} tsr_reader_columns;

/* Scratch for reads of dense arrays, in the reader so that the next start reuses its memory. */
typedef struct tsr_dense_scratch {
  tsr_buffer selection; /* uint32_t: cells of the current subtile */
  tsr_buffer owners; /* uint32_t: the owner of each of them */
  tsr_buffer sorted; /* uint32_t: the same cells, sorted by owner */
  tsr_buffer *coordinates; /* by dimension: coordinates of the cells of the current subtile or batch */
} tsr_dense_scratch;

struct tsr_reader {
  tsr_snapshot *snapshot; /* held */
  tsr_memory memory; /* the query's budget */
  tsr_arena arena; /* reset at each start */
  tsr_plan plan;
  tsr_batch_iterator *iterator; /* NULL: not started, or the plan is empty */
  tsr_batch_iterator *ordered; /* owned; kept across starts; NULL until an order is requested */
  struct tsr_expected *expected; /* owned; NULL: no look-ups are expected */
  bool done; /* after the last batch, or an error */
  unsigned threads; /* at least 1 */
  tsr_reader_mode mode;
  tsr_reader_request request;
  tsr_reader_predicates predicates;
  tsr_reader_progress progress;
  tsr_batch batch; /* the current one */
  tsr_reader_columns columns;
  tsr_read_window window;
  tsr_dense_scratch dense;
  tsr_reader_tiles tiles;
};

/* Ends the present request, and releases what it holds except for kept tiles. Each start begins with this. */
void tsr__reader_rewind(tsr_reader *reader);

/* Releases the tiles that the reader keeps for its next start. */
void tsr__reader_forget(tsr_reader *reader);

/* Opens a reader whose budget is part of the budget `memory`; `mode` NULL: as for a host. */
int tsr__reader_open_as(tsr_snapshot *snapshot, tsr_memory *memory, const tsr_reader_mode *mode, tsr_reader **reader,
                        tsr_error *error);

/* Starts a reader on a part of the request that `parent`, a started reader of the same snapshot, executes: the cells
 * within `spans` (one per dimension). Set reader->request.fields first. The spans and the parent's predicates are
 * borrowed until the next start. */
int tsr__reader_start_part(tsr_reader *reader, const tsr_reader *parent, tsr_spans *spans, tsr_error *error);

/* Starts a reader on the cells at the places of a window, with the budget and the threads of `parent`. Set
 * reader->request.fields first. The window is borrowed until the next start. */
int tsr__reader_start_at(tsr_reader *reader, const tsr_reader *parent, const struct tsr_place_window *window,
                         tsr_error *error);

/* Returns an upper bound of the number of cells that the started reader can give; saturates at UINT64_MAX. */
uint64_t tsr__reader_cells(const tsr_reader *reader);

#define TSR_KEYS_MAX 2048u

/* Writes the order keys of the rows from..from+count-1 of a batch; count is at most TSR_KEYS_MAX. `column` is the
 * batch's column of a dimension of fixed size. */
void tsr__batch_keys(const tsr_batch *batch, const tsr_column *column, tsr_datatype datatype, uint64_t from,
                     uint64_t count, uint64_t *keys);

/* Pins a tile of `cells` cells: the caller then requests and loads its slots, and finally calls tsr__reader_unpin.
 * `fragment` is an index in the snapshot. */
int tsr__reader_pin(tsr_reader *reader, uint32_t fragment, uint64_t number, uint64_t cells, tsr_pinned_tile **pinned,
                    tsr_error *error);
void tsr__reader_unpin(tsr_reader *reader, tsr_pinned_tile *pinned); /* NULL is fine */

/* Requests a slot of a pinned tile, for the next tsr__reader_load. Does nothing if slot is -1, or already loaded or
 * requested. */
int tsr__reader_request(tsr_reader *reader, tsr_pinned_tile *pinned, int64_t slot, tsr_error *error);

/* Requests the slots of all of reader->request.fields. */
int tsr__reader_request_fields(tsr_reader *reader, tsr_pinned_tile *pinned, tsr_error *error);

/* Loads all requests, or none. If memory runs out, cancels the window that is being loaded ahead and tries again. */
int tsr__reader_load(tsr_reader *reader, tsr_error *error);

/* Makes the column of a field, starting at the pinned tile's cell `first`, which gets index 0. Loads the slot if
 * necessary. If the fragment lacks the field, the column is the fill value's. */
int tsr__pinned_column(tsr_reader *reader, tsr_pinned_tile *pinned, uint32_t field, uint64_t first, tsr_column *column,
                       tsr_error *error);

/* Does the same for a slot that is loaded; `field` is the field that it holds. */
void tsr__reader_slot_column(const tsr_reader *reader, const tsr_pinned_tile *pinned, const tsr_field *field,
                             int64_t slot, uint64_t first, tsr_column *column);

/* The coordinates of a sparse fragment's tile in one dimension: in a slot of their own, or in a __coords tile. */
typedef struct tsr_coordinates {
  const uint8_t *values;
  const uint64_t *offsets; /* strings; else NULL */
} tsr_coordinates;

/* Returns the coordinates of a pinned tile whose slot of the dimension is loaded. */
tsr_coordinates tsr__pinned_coordinates(const tsr_reader *reader, const tsr_pinned_tile *pinned, uint32_t dimension);

/* Returns the rowid of a transaction's own cell by its number. */
static inline int64_t tsr__uncommitted_rowid(uint64_t number) { return -2 - (int64_t)number; }

/* Sets batch->rowids for cells of a pinned tile of an uncommitted fragment. The slot of times, which holds the cells'
 * numbers, must be loaded. `cells` has `count` indices; NULL: 0..count-1. The rowids live until the next batch. */
int tsr__uncommitted_rowids(tsr_reader *reader, const tsr_pinned_tile *pinned, const uint32_t *cells, uint64_t count,
                            tsr_batch *batch, tsr_error *error);

/* Returns how many tiles the next window may have: 1, 2, 4, ... up to a few for each thread. */
uint64_t tsr__reader_window(tsr_reader *reader);

/* Returns true if a window of so many cells reaches the number of cells that the caller is likely to take. */
bool tsr__reader_suffices(const tsr_reader *reader, uint64_t cells);

/* Returns true if the next window should be loaded while the current one is handed out: not during the first window,
 * not past the limit, and only with more than one thread. */
bool tsr__reader_may_load_ahead(const tsr_reader *reader);

/* Starts to load the requests as the next window, which lives in window.ahead.arena and whose tiles take `bytes` when
 * decoded. If the load cannot start, for lack of memory or for another reason, tsr__reader_finish_ahead does all of it;
 * TSR_INTERRUPT is the only error here. */
int tsr__reader_load_ahead(tsr_reader *reader, uint64_t bytes, tsr_error *error);

/* Makes the next window the current one: finishes its load, and makes its arena reader->window.arena. */
int tsr__reader_finish_ahead(tsr_reader *reader, tsr_error *error);

/* Cancels the next window. */
void tsr__reader_cancel_ahead(tsr_reader *reader);

/* Returns how many threads the caller may use on the current batch: 1 while workers load the next window. */
unsigned tsr__reader_threads(const tsr_reader *reader);

/* Returns true if whole tiles may be offered to the shortcut. With predicates, only if it tests the cells itself. */
static inline bool tsr__reader_offers(const tsr_reader *reader) {
  return reader->mode.take && (reader->predicates.count == 0 || reader->mode.untested);
}

/* Sets *bytes to the decoded size of the request's fields of a tile; 0 if the request has no fields. */
int tsr__reader_cost(tsr_reader *reader, uint32_t fragment, uint64_t number, uint64_t *bytes, tsr_error *error);

/* ---- dense.c: batches of a dense array; each cell comes from the newest fragment that wrote it ------------------ */

typedef struct tsr_candidate { /* a fragment that may own cells of a space tile */
  const tsr_plan_box *box;
  bool used; /* dense: it owns selected cells that may satisfy the predicates, so its tile must be loaded */
  bool excluded; /* dense: it owns cells, but its statistics prove that none of them satisfies the predicates */
  uint64_t number; /* dense: number of its tile */
  tsr_pinned_tile *pinned; /* owned; NULL: not loaded */
} tsr_candidate;

typedef struct tsr_space_tile {
  uint64_t *at, *first; /* by dimension: its coordinates; the first span of the selection that meets it */
  uint64_t *low, *high; /* bounding box of its selected cells, in ordinals, inclusive */
  uint64_t cells; /* selected */
  uint32_t count;
  tsr_candidate *candidates; /* newest first */
  bool covered; /* its only candidate is a dense fragment whose box covers all selected cells */
  bool crowded; /* memory has no room for all candidates at once: each is loaded for its batch, then dropped */
} tsr_space_tile;

typedef struct tsr_dense_window {
  tsr_space_tile *tiles;
  uint64_t count, cells; /* tiles; selected cells in them */
} tsr_dense_window;

typedef struct tsr_dense_making { /* the window under construction */
  bool loads; /* it loads some attribute */
  tsr_arena *arena; /* its memory */
} tsr_dense_making;

typedef struct tsr_dense_windows {
  tsr_reader *reader; /* borrowed */
  const tsr_plan *plan; /* the reader's */
  const tsr_grid *grid;
  uint32_t dimensions;
  tsr_walk walk;
  tsr_dense_window now, next; /* the current window, and the next one */
  uint64_t tile_at; /* the current space tile in `now` */
  bool has_next; /* `next` has been made */
  bool offer_failed; /* the last offer to the shortcut was an error */
  tsr_dense_making making;
  uint64_t *gap_box; /* scratch, by dimension: low, then high ordinals */
} tsr_dense_windows;

/* Opens an iterator over reader->plan, in tile order. The iterator lives in the reader's arena until its next start;
 * close it before that. */
int tsr__read_dense_open(tsr_reader *reader, tsr_batch_iterator **iterator, tsr_error *error);

/* ---- places.c: the cells at many places of a sparse array ------------------------------------------------------- */
/* A set of places (tsr_places) numbers them in the order in which they were added; one that is gathered, by coordinates
 * (tsr__places_number). A window is a part of it, sorted. */

#define TSR_PLACES_MAX   65536u /* a set is cleared before a batch makes it larger; places of a window */
#define TSR_GATHERED_MAX (UINT64_C(1) << 28) /* places of a set in any case; the others are not announced */

typedef struct tsr_place_coordinate {
  uint64_t key; /* the order key; of a string, its size in bytes */
  const uint8_t *text; /* strings */
} tsr_place_coordinate;

uint64_t tsr__places_count(const tsr_places *places);
uint64_t tsr__places_generation(const tsr_places *places); /* changes if numbers do */

/* Numbers a gathered set by coordinates, if places were added since. Does nothing to other sets. */
int tsr__places_number(tsr_places *places, tsr_error *error);

/* Returns the number of a place, one coordinate for each dimension; UINT32_MAX if the set lacks it. */
uint32_t tsr__places_find(const tsr_places *places, const tsr_place_coordinate *place);

typedef struct tsr_place_window { /* all borrowed */
  const tsr_places *places;
  uint64_t first, count; /* numbers of places; at least one */
  uint32_t by; /* the dimension in which they differ most */
  tsr_pair *sorted; /* along it; for strings, by their first bytes */
  tsr_spans *spans; /* by dimension: around all of them */
} tsr_place_window;

/* Makes a window of the places from number `first` on, in `arena`. */
int tsr__place_window_make(const tsr_places *places, uint64_t first, uint64_t count, tsr_arena *arena,
                           tsr_place_window *window, tsr_error *error);

/* Calls `visit` for each leaf whose MBR has a place of the window, in the order of the leaves. */
int tsr__place_window_tiles(const tsr_place_window *window, const tsr_rtree *rtree, tsr_rtree_visitor visit,
                            void *argument, tsr_error *error);

typedef struct tsr_place_tile { /* a tile in which cells are sought */
  const tsr_rtree *rtree;
  uint64_t number, cells;
  const struct tsr_coordinates *coordinates; /* by dimension */
  bool unique; /* one cell for each place, in the array's order */
} tsr_place_tile;

/* Writes the indices of the cells that are at places of the window to `cells`, ascending, and returns their number.
 * There is room for all cells of the tile. */
uint64_t tsr__place_window_cells(const tsr_place_window *window, const tsr_schema *schema, const tsr_place_tile *tile,
                                 uint32_t *cells);

/* ---- expected.c: look-ups of cells that a caller has announced -------------------------------------------------- */

typedef struct tsr_expected tsr_expected;

/* Returns 1 and an iterator if the request is for a single place that the reader expects, and all of these are read or
 * have been; 0 if the request needs a plan; < 0: error. */
int tsr__read_expected_open(tsr_reader *reader, const tsr_request *request, tsr_batch_iterator **iterator,
                            tsr_error *error);
void tsr__read_expected_free(tsr_reader *reader); /* does nothing if the reader expects nothing */

/* ---- point.c: some neighbouring cells of a dense array, as look-ups request them, without a plan ---------------- */

/* Returns a range whose two ends are the only value of a dimension that a request selects; NULL: there may be more. */
const tsr_range *tsr__single_value(const tsr_field *field, const tsr_ranges *ranges);

/* Returns 1 and an iterator with one batch, if the request selects a small box of cells in one tile of a dense array,
 * and the last dense fragment to write any has written them all. Returns 0 if the request needs a plan; < 0: error. The
 * iterator lives in the reader's arena. */
int tsr__read_point_open(tsr_reader *reader, const tsr_request *request, tsr_batch_iterator **iterator,
                         tsr_error *error);

/* ---- sparse.c: batches of a sparse array: the newest version of each cell, unless deleted ----------------------- */

/* Opens an iterator over reader->plan, in no particular order. The iterator lives in the reader's arena until its next
 * start; close it before that. */
int tsr__read_sparse_open(tsr_reader *reader, tsr_batch_iterator **iterator, tsr_error *error);

typedef struct tsr_sparse_tile { /* a loaded tile, and a selection of its cells */
  tsr_plan_tile plan;
  tsr_pinned_tile *pinned; /* owned */
  uint32_t *cells; /* indices of the selected cells; NULL: all */
  uint64_t count;
  uint64_t *dropped; /* of each cell, if the snapshot shows what was dropped: when (tsr_changed_kind); else NULL */
} tsr_sparse_tile;

static inline const tsr_snapshot_fragment *tsr__sparse_fragment(const tsr_reader *reader, const tsr_sparse_tile *tile) {
  return &reader->snapshot->fragments[tile->plan.fragment];
}

static inline int64_t tsr__sparse_system_slot(const tsr_snapshot_fragment *f, tsr_system_column system_column) {
  return tsr__fragment_system_slot(&f->fragment->metadata, system_column);
}

/* Returns the times of a tile's cells, which are loaded. */
static inline const uint64_t *tsr__sparse_times(const tsr_reader *reader, const tsr_sparse_tile *tile,
                                                tsr_system_column system_column) {
  const int64_t slot = tsr__sparse_system_slot(tsr__sparse_fragment(reader, tile), system_column);
  return (const uint64_t *)(const void *)tile->pinned->tiles[slot]->values;
}

/* Returns the rowid of a tile's first cell. */
static inline int64_t tsr__sparse_first_row(const tsr_reader *reader, const tsr_sparse_tile *tile) {
  const tsr_fragment *fragment = tsr__sparse_fragment(reader, tile)->fragment;
  return fragment->row_base + (int64_t)(tile->plan.tile * fragment->cells_per_tile);
}

/* Finds a field that a condition names, and its slot in the tile's fragment, as tsr__condition_field does. */
int tsr__sparse_condition_field(const tsr_reader *reader, const tsr_sparse_tile *tile, const tsr_condition *condition,
                                const char *name, const tsr_field **field, int64_t *slot, tsr_error *error);

/* Gives the tile's selection for writing; allocates one if all cells are still selected. */
int tsr__sparse_selection(tsr_reader *reader, tsr_sparse_tile *tile, uint32_t **cells, tsr_error *error);

/* Returns true if binary search finds the cell of a place: the cells of a tile are in the order of their places, one at
 * each. */
bool tsr__sparse_has_unique_places(const tsr_reader *reader, const tsr_sparse_tile *tile);

/* ---- deleted_cells.c: drops the deleted cells from the selections of tiles --------------------------------------- */

typedef struct tsr_delete_filter {
  tsr_reader *reader;
  tsr_buffer keep; /* scratch: a byte per selected cell; 0 drops it */
} tsr_delete_filter;

/* Drops the deleted cells from a tile's selection; if the snapshot shows what was dropped, all others, and sets
 * tile->dropped. What the conditions read must be loaded. */
int tsr__delete_filter_apply(tsr_delete_filter *filter, tsr_sparse_tile *tile, tsr_error *error);

/* Returns true if coordinates alone tell which cells may have been dropped: then cells are chosen before the version
 * merge, which is left with few. Other versions of a cell have its coordinates, and so are chosen, too. */
bool tsr__deletes_by_coordinates(const tsr_snapshot *snapshot);

/* In that case, selects the cells at whose coordinates a condition, whatever its time, deletes. */
int tsr__delete_filter_choose(tsr_delete_filter *filter, tsr_sparse_tile *tile, tsr_error *error);

/* ---- row_block.c: rows of many batches, copied into columns of their own ---------------------------------------- */

typedef struct tsr_row_block_column {
  bool ready; /* set by the user: it holds all rows of the block, and appending to the block appends to it */
  bool variable, nulls; /* has offsets; has a validity byte for each row */
  uint64_t cell_size; /* in bytes; 0 if variable */
  tsr_buffer values, offsets, validity;
} tsr_row_block_column;

typedef struct tsr_row_block {
  const tsr_schema *schema; /* borrowed */
  bool fill_unwritten; /* as in a request: cells that were never written have the fill value, not null */
  tsr_row_block_column *columns; /* by field */
  uint64_t rows;
  bool written, unwritten; /* it has rows of written cells; it has rows of cells that were never written */
  tsr_buffer rowids, times, flags; /* by row: int64_t; uint64_t; a byte, 1 if the cell was written */
} tsr_row_block;

/* Makes an empty block whose memory is charged to `memory`. Borrows the schema. Call tsr__row_block_release even
 * after a failure. */
int tsr__row_block_init(tsr_row_block *block, const tsr_schema *schema, tsr_memory *memory, tsr_error *error);

/* Removes all rows and gives back their memory; the second function that of the block itself, too. */
void tsr__row_block_empty(tsr_row_block *block);
void tsr__row_block_release(tsr_row_block *block);

/* Removes all rows and makes all columns not ready. Keeps the memory for the next rows. */
void tsr__row_block_clear(tsr_row_block *block);

/* Gives back the memory of all columns but one. */
void tsr__row_block_drop_others(tsr_row_block *block, uint32_t field);

/* Appends one column of the iterator's current batch. `before` rows have been appended to this column already. For
 * columns that are read after the block was filled. */
int tsr__row_block_append_column(tsr_row_block *block, tsr_batch_iterator *iterator, uint32_t field, uint64_t before,
                                 const tsr_batch *batch, tsr_error *error);

/* Appends the rows of the iterator's current batch to the ready columns. After a failure block->rows is unchanged. */
int tsr__row_block_append(tsr_row_block *block, tsr_batch_iterator *iterator, const tsr_batch *batch, tsr_error *error);

/* Returns a column of the block, borrowed until rows are added or removed. The caller sets its `unwritten`. */
tsr_column tsr__row_block_column(const tsr_row_block *block, uint32_t field);

/* ---- ordered.c: the rows of a request in an order of dimensions, whatever the order of its tiles and cells ------ */
/* Opens an iterator over the rows of reader->plan, in an order of `count` dimensions. `limit` is a hint as in a
 * request: how many rows the caller is likely to take, 0: all. The reader owns the iterator and reuses it at its next
 * start: closing it only gives back tiles; tsr__read_ordered_free frees it. */
int tsr__read_ordered_open(tsr_reader *reader, const tsr_sort *order, uint32_t count, uint64_t limit,
                           tsr_batch_iterator **iterator, tsr_error *error);
void tsr__read_ordered_free(tsr_reader *reader); /* does nothing if the reader never had an order */

/* Gives back the tiles that the inner reader keeps across starts. */
void tsr__read_ordered_forget(tsr_reader *reader);

/* ---- version_merge.c: merges overlapping sparse tiles, so that one version of each coordinate is left ----------- */
/* tsr__version_merge_open says in which order to load the plan's tiles. The caller loads the tiles to be merged in that
 * order and passes them to tsr__version_merge_add; tsr__version_merge_next returns them with the cells that won, or
 * asks for the next tile first.
 */

typedef struct tsr_version_merge tsr_version_merge;

/* Divides the tiles of the reader's plan. *order gets their indices in the plan: first *streams tiles that share no
 * coordinate with any other tile and need no merge, then the tiles for the version merge. *merge is NULL if no tile
 * needs merging. The results live in the reader's arena. */
int tsr__version_merge_open(tsr_reader *reader, uint64_t **order, uint64_t *streams, tsr_version_merge **merge,
                            tsr_error *error);

/* Adds the next tiles. All of their coordinates must be loaded, and for tiles with selected cells the cell times, if
 * the fragment has them. Copies the selections. On success the tiles belong to the version merge. */
int tsr__version_merge_add(tsr_version_merge *merge, const tsr_sparse_tile *tiles, uint64_t count, tsr_error *error);

typedef enum tsr_version_merge_result {
  TSR_VERSION_MERGE_END, /* all tiles have been returned */
  TSR_VERSION_MERGE_TILE, /* *tile is the caller's; its selection, the cells that won, lives until the next call */
  TSR_VERSION_MERGE_NEEDS /* call tsr__version_merge_add first */
} tsr_version_merge_result;

/* Returns a tsr_version_merge_result, or < 0: error. A tile is returned once all of its cells are decided. */
int tsr__version_merge_next(tsr_version_merge *merge, tsr_sparse_tile *tile, tsr_error *error);

/* Gives back its tiles. NULL is fine. The memory of the version merge itself is in the reader's arena. */
void tsr__version_merge_close(tsr_version_merge *merge);

/* ---- key_range.c: cuts an ordered read into key ranges ---------------------------------------------------------- */
/* The request is cut along the first dimension of its order. A single value with too many rows is cut along the next
 * dimension, and so on: each dimension of the order is a level.
 *
 * Keys here are directed: order keys, complemented if the order descends, so that they always ascend along the order.
 * NaNs lie in no span: they are a key range of their own, before all numbers.
 */

/* Where the tiles of a sparse plan begin along a dimension, to predict how many rows a key range has. Key ranges are
 * chosen from front to back, so tiles that end before the current position are forgotten. */

typedef struct tsr_tile_starts {
  tsr_reader *reader; /* borrowed; its plan has the tiles */
  const tsr_field *field;
  uint32_t dimension;
  bool descending;
  bool known; /* false, and all else is unset, for dense arrays, untrustworthy MBRs, or lack of memory */
  tsr_pair *tiles; /* key: where the tile begins (for strings, the first bytes); cell: index in the plan; sorted */
  uint64_t capacity, count;
  uint64_t first, at; /* first..at-1: tiles that began and have not ended; at..count-1: tiles that have not begun */
} tsr_tile_starts;

typedef struct tsr_key_level { /* a dimension of the order: what is left of it, and its current key range */
  uint32_t dimension;
  bool descending, text;
  /* what is left: */
  bool nans; /* NaNs are still to come */
  bool numbers; /* numbers, or strings, are still to come */
  uint64_t from; /* numbers: the first directed key; the last one is UINT64_MAX */
  tsr_buffer at; /* strings: the first one, in the order's direction */
  bool at_set, at_exclusive; /* false: all strings are left; `at` itself is done */
  /* the key range, which begins at `from` or `at`: */
  bool nan; /* it is the NaNs */
  bool single; /* it is one value, `end` or `end_text`, to be cut along the next level */
  uint64_t end; /* numbers: the last directed key, inclusive */
  tsr_buffer end_text; /* strings: the last one, in the order's direction */
  bool end_set, end_exclusive; /* false: it is open-ended; `end_text` itself is excluded */
  tsr_tile_starts starts; /* sparse: for the tiles that may hold the single values of the levels above */
} tsr_key_level;

typedef struct tsr_key_ranges { /* the current key range, and how large the next one should be */
  tsr_reader *reader; /* borrowed; it has the request and its plan */
  uint32_t level_count, depth; /* depth: the current level, along which key ranges are cut */
  tsr_key_level *levels; /* room for all dimensions */
  tsr_arena arena; /* holds `spans` */
  tsr_spans *spans; /* by dimension: of the current key range */
  unsigned restarts; /* how often the current key range has been cut smaller */
  uint64_t target, rows_max; /* rows that the next key range should have; most rows of any key range */
  uint64_t overestimate; /* sparse: factor by which predictions from tile starts exceed the actual rows */
  bool cached; /* dense: the tiles of one value of the slowest dimension fit in the cache */
} tsr_key_ranges;

static inline uint64_t tsr__directed_key(const tsr_key_level *level, uint64_t key) {
  return level->descending ? ~key : key;
}

/* Initializes an empty structure whose memory is charged to the reader. Release it even if this fails. */
int tsr__key_ranges_init(tsr_key_ranges *ranges, tsr_reader *reader, tsr_error *error);
void tsr__key_ranges_release(tsr_key_ranges *ranges);

/* Begins to cut the reader's plan along an order of `count` dimensions. `limit` is a hint: how many rows the caller is
 * likely to take, 0: all. A dimension that repeats in the order is ignored. */
int tsr__key_ranges_begin(tsr_key_ranges *ranges, const tsr_sort *order, uint32_t count, uint64_t limit,
                          tsr_error *error);

/* Chooses the next key range of the current level. Returns 1; 0 if the level is exhausted; 2 if the key range is a
 * single value to be cut along the next level, because it has too many cells or is better streamed. */
int tsr__key_ranges_choose(tsr_key_ranges *ranges, tsr_error *error);

/* Makes `spans` of the current key range: the key ranges of the first `levels` levels, and everything that the request
 * selects in the other dimensions. */
int tsr__key_ranges_spans(tsr_key_ranges *ranges, uint32_t levels, tsr_error *error);

/* Feeds back how many rows a complete key range had. If they were few, because tiles have fewer cells than the schema
 * says or because deletes and tests drop most of them, the next key ranges are made wider. Without this, a damaged
 * schema that claims huge tiles would make a key range of every single value. */
void tsr__key_ranges_note(tsr_key_ranges *ranges, uint64_t rows);

/* Steps past the current key range of the current level. */
int tsr__key_ranges_pass(tsr_key_ranges *ranges, tsr_error *error);

/* Raises the target after a key range was read. */
void tsr__key_ranges_grow(tsr_key_ranges *ranges);

/* Lowers the targets of this and all later key ranges because memory ran out. */
void tsr__key_ranges_shrink(tsr_key_ranges *ranges);

/* Steps to the next level, within the single value of the current one. Returns true if the rows of that value are
 * already in order: then the next level does not begin, and the caller streams them. The caller returns to the level
 * above by `depth--`, and then passes its single value. */
bool tsr__key_ranges_descend(tsr_key_ranges *ranges);

/* Sets the text of a level: `at` or `end_text`. */
int tsr__key_text_set(tsr_buffer *buffer, const void *bytes, uint64_t size, tsr_error *error);

#endif
