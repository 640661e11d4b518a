/* read_dense.c: batches of a dense array: each wanted cell from the newest fragment whose box covers it.
 *
 * The space tiles that hold wanted cells are walked lazily (walk.c), windows of them at once. One fragment that covers all
 * that is wanted of a tile gives its cells at once; where there are several, or gaps, a map of owners is made piece by piece.
 * Cells that no fragment covers form batches of their own (written = false), where such cells may satisfy the predicates.
 *
 * A sparse fragment in a dense array, and a writer's run, owns the cells that it holds. Its tiles around a space tile are
 * loaded for the pieces that they reach into: of many rows in one space tile only some are in memory at once. Where memory
 * has no room for all fragments of a space tile, each is loaded for its batch alone.
 */
#include "read/read_dense.h"

#include <string.h>

#include "model/datatype.h"
#include "format/fragment_slot.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/snapshot.h"
#include "read/subtile.h"
#include "read/predicate.h"
#include "read/reader.h"
#include "read/walk.h"

#define TILES_LOOKED_AT 1024 /* for a window, at most */
#define SPARSE_PART     8 /* of the budget, for tiles of sparse fragments that are held for a piece */
#define WAITING_PART    4 /* past this part of it their attributes wait until they are given out */
#define SLOT_BYTES      512u /* that loading a slot of one takes beside its values, about */
#define PIECE_MIN       256u /* cells of such a piece */
#define CROWDED_EIGHTHS 5 /* of the budget: past them the dense fragments of one space tile are not held together */

typedef struct candidate { /* a fragment for the cells of a space tile, newest first */
  const tsr_plan_box *box;
  bool used; /* it owns cells */
  bool excluded; /* and statistics say that none of them satisfies the predicates */
  uint64_t number; /* dense: of its tile */
  tsr_pinned_tile *pinned;
} candidate;

typedef struct space_tile {
  uint64_t *at, *first; /* coordinates; the first span of each side that meets it */
  uint64_t *low, *high; /* the box around what is wanted of it, in ordinals */
  uint64_t cells; /* wanted */
  uint32_t count;
  candidate *candidates;
  bool covered; /* the one candidate's box covers all that is wanted */
  bool
      crowded; /* memory has no room for all candidates at once: each is loaded for its batch, and let go of behind it */
} space_tile;

typedef struct sparse_tile { /* of a sparse fragment, around the present space tile */
  uint32_t candidate;
  uint64_t number;
  uint64_t bytes; /* that it takes in memory, about, with all of its fields, whichever are asked for */
  bool reaches; /* into the present piece; else it is not loaded: */
  tsr_pinned_tile *pinned;
  uint32_t *cells; /* those that own cells of the piece */
  uint64_t count;
} sparse_tile;

typedef struct read_dense_part { /* a batch of the present piece */
  tsr_pinned_tile *pinned; /* NULL: never written */
  bool sparse;
  uint64_t from; /* sparse: the tile's index; else the candidate's, if it is held */
  const uint32_t *cells; /* NULL: one run */
  uint64_t count, first;
} read_dense_part;

typedef struct read_dense_window { /* of space tiles */
  space_tile *tiles;
  uint64_t count, cells;
} read_dense_window;

typedef struct dense_iterator {
  tsr_batch_iterator base;
  tsr_reader *reader;
  const tsr_plan *plan;
  const tsr_grid *grid;
  uint32_t dimensions;
  tsr_walk walk;
  uint64_t *scratch; /* one for each dimension */
  uint64_t *gap; /* the ends of a box */
  tsr_coordinates *coordinates;
  /* the window, and the one behind it */
  read_dense_window now, next;
  uint64_t tile_at; /* of now */
  bool has_next; /* the walk has gone through it */
  bool loads; /* of the window that is being made: some attribute is loaded with it */
  tsr_arena *arena; /* and where it lies */
  /* the present tile and piece */
  bool open; /* pieces stand in now.tiles[tile_at] */
  tsr_subtiles subtiles;
  uint64_t sparse_count;
  sparse_tile *sparse;
  bool waiting; /* memory is short: they are loaded one by one, to see which cells are theirs, and for their batch */
  read_dense_part *parts;
  uint64_t part_count, part_at, part_capacity;
  bool *values_ready; /* reader->values[d] is of this piece */
} dense_iterator;

/* ---- The window ------------------------------------------------------------------------------------------------- */

/* What is wanted of the tile at which the walk stands. */
static int note_wanted(const dense_iterator *s, space_tile *tile, tsr_error *error) {
  const uint32_t n = s->dimensions;
  uint64_t *memory;
  TSR_TRY(TSR_ARENA_RAW(s->arena, 4 * n, &memory, error));
  *tile = (space_tile){.at = memory, .cells = 1};
  tile->first = tile->at + n;
  tile->low = tile->first + n;
  tile->high = tile->low + n;
  memcpy(tile->at, s->walk.at, n * sizeof(uint64_t));
  memcpy(tile->first, s->walk.first, n * sizeof(uint64_t));
  for (uint32_t d = 0; d < n; d++) {
    const tsr_dimension_selection *selected = &s->plan->selections[d];
    const uint64_t start = tsr__grid_start(s->grid, tile->at, d), end = tsr__grid_end(s->grid, tile->at, d);
    uint64_t values = 0, i = tile->first[d];
    tile->low[d] = TSR_MAX(selected->spans[i].low, start);
    for (; i < selected->count && selected->spans[i].low <= end; i++) {
      tile->high[d] = TSR_MIN(selected->spans[i].high, end);
      values += tile->high[d] - TSR_MAX(selected->spans[i].low, start) + 1;
    }
    tile->cells *= values; /* no more than the tile has */
  }
  return TSR_OK;
}

static uint64_t fragment_tile(const dense_iterator *s, const tsr_fragment *fragment, const uint64_t *at) {
  uint64_t number = 0;
  for (uint32_t k = 0; k < s->dimensions; k++) {
    const uint32_t d = tsr__grid_slowest(s->grid, k);
    number = number * fragment->tile_count[d] + (at[d] - fragment->tile_low[d]);
  }
  return number;
}

static bool meets(const dense_iterator *s, const space_tile *tile, const tsr_plan_box *box) {
  for (uint32_t d = 0; d < s->dimensions; d++)
    if (box->low[d] > tile->high[d] || box->high[d] < tile->low[d]) return false;
  return true;
}

static bool covers(const dense_iterator *s, const space_tile *tile, const tsr_plan_box *box) {
  for (uint32_t d = 0; d < s->dimensions; d++)
    if (box->low[d] > tile->low[d] || box->high[d] < tile->high[d]) return false;
  return !box->sparse;
}

/* The fragments that may own cells of the tile: those behind one that covers all do not. */
static int find_candidates(dense_iterator *s, space_tile *tile, tsr_error *error) {
  const uint32_t met = s->walk.list_counts[s->dimensions];
  TSR_TRY(TSR_ARENA_ARRAY(s->arena, met, &tile->candidates, error));
  for (uint32_t i = met; i-- > 0;) {
    const tsr_plan_box *box = &s->plan->boxes[s->walk.lists[s->dimensions][i]];
    if (!meets(s, tile, box)) continue;
    candidate *c = &tile->candidates[tile->count++];
    c->box = box;
    if (!box->sparse) c->number = fragment_tile(s, s->reader->snapshot->fragments[box->fragment].fragment, tile->at);
    if (!covers(s, tile, box)) continue;
    tile->covered = tile->count == 1;
    break;
  }
  if (tile->count == 1) tile->candidates[0].used = !tile->candidates[0].box->sparse;
  return TSR_OK;
}

/* Who of the candidates (dense ones) owns each cell of a piece; `count` stands for nobody. */
static int own_subtile(dense_iterator *s, space_tile *tile, const tsr_subtile *subtile, uint32_t **owners,
                       tsr_error *error) {
  tsr_buffer *buffer = &s->reader->owners;
  buffer->size = 0;
  TSR_TRY(tsr__buffer_reserve(buffer, subtile->cells * sizeof(uint32_t), error));
  *owners = (uint32_t *)(void *)buffer->data;
  for (uint64_t i = 0; i < subtile->cells; i++) (*owners)[i] = tile->count;
  return TSR_OK;
}

static uint64_t read_dense_own_box(const tsr_subtile *subtile, const space_tile *tile, uint32_t c, uint32_t *owners) {
  const tsr_plan_box *box = tile->candidates[c].box;
  return tsr__subtile_own(subtile, box->low, box->high, c, tile->count, owners);
}

/* Finds out which candidates own cells, so that no other tile is decoded. */
static int mark_used(dense_iterator *s, space_tile *tile, tsr_error *error) {
  tsr_subtiles subtiles;
  uint32_t unused = 0;
  for (uint32_t c = 0; c < tile->count; c++) unused += !tile->candidates[c].box->sparse && !tile->candidates[c].used;
  if (unused == 0) return TSR_OK;
  TSR_TRY(tsr__subtiles_init(s->grid, s->plan->selections, tile->at, tile->first, TSR_SUBTILE_CELLS, s->arena,
                             &subtiles, error));
  while (unused > 0 && tsr__subtiles_next(&subtiles)) {
    uint32_t *owners;
    uint64_t left = subtiles.subtile.cells;
    TSR_TRY(tsr__environment_cancelled(s->reader->snapshot->array->environment, error));
    TSR_TRY(own_subtile(s, tile, &subtiles.subtile, &owners, error));
    for (uint32_t c = 0; c < tile->count && left > 0; c++) {
      if (tile->candidates[c].box->sparse) continue;
      const uint64_t owned = read_dense_own_box(&subtiles.subtile, tile, c, owners);
      left -= owned;
      if (owned > 0 && !tile->candidates[c].used) {
        tile->candidates[c].used = true;
        unused--;
      }
    }
  }
  return TSR_OK;
}

/* Of its tile only what lies between the first and the last wanted cell is asked for. */
static int hold(dense_iterator *s, const space_tile *tile, candidate *c, tsr_error *error) {
  if (c->pinned) return TSR_OK;
  TSR_TRY(tsr__reader_hold(s->reader, c->box->fragment, c->number, s->grid->tile_cells, &c->pinned, error));
  c->pinned->first = tsr__grid_cell(s->grid, tile->low);
  c->pinned->end = tsr__grid_cell(s->grid, tile->high) + 1;
  return TSR_OK;
}

/* Bytes that the tile's used candidates will take. */
static int read_dense_cost_of(dense_iterator *s, const space_tile *tile, uint64_t *bytes, tsr_error *error) {
  *bytes = 0;
  for (uint32_t c = 0; c < tile->count; c++) {
    uint64_t cost;
    if (!tile->candidates[c].used) continue;
    TSR_TRY(tsr__reader_cost(s->reader, tile->candidates[c].box->fragment, tile->candidates[c].number, &cost, error));
    *bytes = tsr__add_sat(*bytes, cost);
  }
  return TSR_OK;
}

/* Which tiles need not be decoded: their cells stay theirs, and are passed over. */
static int exclude(dense_iterator *s, space_tile *tile, tsr_error *error) {
  for (uint32_t c = 0; c < tile->count; c++) {
    candidate *it = &tile->candidates[c];
    if (!it->used) continue;
    const int rc = it->box->excluded ? 1 : tsr__tests_exclude(s->reader, it->box->fragment, it->number, error);
    if (rc < 0) return rc;
    it->excluded = rc > 0;
    it->used = !it->excluded;
  }
  return TSR_OK;
}

static void read_dense_drop_tile(dense_iterator *s, space_tile *tile) {
  for (uint32_t c = 0; c < tile->count; c++) {
    tsr__reader_drop(s->reader, tile->candidates[c].pinned);
    tile->candidates[c].pinned = NULL;
  }
}

/* Is the tile taken as a whole? Its box must be all that is wanted, and all that its one fragment has of it. */
static int read_dense_offer(dense_iterator *s, const space_tile *tile, tsr_error *error) {
  uint64_t cells = 1;
  if (!s->reader->take || s->reader->test_count > 0 || (tile->count > 0 && !tile->covered)) return 0;
  const tsr_plan_box *box = tile->count > 0 ? tile->candidates[0].box : NULL;
  for (uint32_t d = 0; d < s->dimensions; d++) {
    cells *= tile->high[d] - tile->low[d] + 1; /* no more than the tile has */
    if (box && (tile->low[d] > TSR_MAX(box->low[d], tsr__grid_start(s->grid, tile->at, d)) ||
                tile->high[d] < TSR_MIN(box->high[d], tsr__grid_end(s->grid, tile->at, d))))
      return 0;
  }
  if (tile->cells != cells) return 0;
  const tsr_whole_tile whole = {.fragment = box ? box->fragment : TSR_NO_FRAGMENT,
                                .tile = box ? tile->candidates[0].number : 0,
                                .cells = cells,
                                .low = tile->low,
                                .high = tile->high};
  return s->reader->take(s->reader->shortcut_argument, &whole, error);
}

/* All tiles up to the next that a fragment meets, or a part of them, taken as one box: 1, and the walk stands behind them; 0;
 * < 0. */
static int offer_gap(dense_iterator *s, tsr_error *error) {
  tsr_whole_tile whole = {.fragment = TSR_NO_FRAGMENT, .low = s->gap, .high = s->gap + s->dimensions};
  if (!s->reader->take || s->reader->test_count > 0) return 0;
  if (!tsr__walk_gap(&s->walk, s->gap, s->gap + s->dimensions, &whole.cells)) return 0;
  const int rc = s->reader->take(s->reader->shortcut_argument, &whole, error);
  if (rc > 0) tsr__walk_pass(&s->walk);
  return rc;
}

/* The tile at which the walk stands: 1: it goes into the window, for so many bytes; 0: it is taken as a whole, or nothing
 * of it is given out. */
static int read_dense_look_at(dense_iterator *s, space_tile *tile, uint64_t *bytes, tsr_error *error) {
  TSR_TRY(note_wanted(s, tile, error));
  TSR_TRY(find_candidates(s, tile, error));
  if (tile->count == 0 && !s->reader->passes_unwritten) return 0;
  const int taken = read_dense_offer(s, tile, error);
  if (taken != 0) return taken < 0 ? taken : 0;
  *bytes = 0;
  if (s->loads) TSR_TRY(mark_used(s, tile, error));
  if (s->reader->test_count > 0) TSR_TRY(exclude(s, tile, error));
  if (s->loads) TSR_TRY(read_dense_cost_of(s, tile, bytes, error));
  return 1;
}

/* Asks for what is loaded with the window: that which the predicates look at comes first. */
static int read_dense_request_tile(dense_iterator *s, space_tile *tile, tsr_error *error) {
  tsr_reader *reader = s->reader;
  for (uint32_t c = 0; c < tile->count && s->loads; c++) {
    if (tile->candidates[c].excluded)
      tsr__count(reader->snapshot->array->environment, TSR_COUNT_tiles_skipped_by_value, 1);
    if (!tile->candidates[c].used || tile->crowded) continue;
    TSR_TRY(hold(s, tile, &tile->candidates[c], error));
    if (reader->test_count > 0) TSR_TRY(tsr__tests_request(reader, tile->candidates[c].pinned, error));
    else TSR_TRY(tsr__reader_request_fields(reader, tile->candidates[c].pinned, error));
  }
  return TSR_OK;
}

/* The next tiles, and what is to be loaded of them. The first always goes in, unless it is `ahead`; others as the budget
 * and the limit allow. After an error the window is what it was before the tile at which the walk still stands. */
static int read_dense_make_window(dense_iterator *s, read_dense_window *w, bool ahead, uint64_t *bytes,
                                  tsr_error *error) {
  tsr_reader *reader = s->reader;
  const uint64_t most = tsr__reader_window(reader), budget = reader->memory.limit / 4;
  const uint32_t attributes = reader->snapshot->schema->attribute_count;
  *w = (read_dense_window){0};
  *bytes = 0;
  s->arena = ahead ? &reader->ahead.arena : &reader->window;
  s->loads = memchr(reader->fields + s->dimensions, true, attributes) != NULL;
  tsr__arena_reset(s->arena);
  TSR_TRY(TSR_ARENA_ARRAY(s->arena, most, &w->tiles, error));
  for (uint64_t looked = 0; w->count < most && looked < TILES_LOOKED_AT && !s->walk.ended; looked++) {
    space_tile *tile = &w->tiles[w->count];
    const uint64_t requests = reader->requests.size;
    uint64_t cost;
    int rc = offer_gap(s, error);
    if (rc < 0) return rc;
    if (rc > 0) continue;
    rc = read_dense_look_at(s, tile, &cost, error);
    if (rc > 0) {
      const uint64_t sum = tsr__add_sat(*bytes, cost);
      if ((ahead || w->count > 0) && sum > budget) break; /* looked at again in the next window */
      tile->crowded = tile->count > 1 && cost > reader->memory.limit / 8 * CROWDED_EIGHTHS;
      rc = read_dense_request_tile(s, tile, error);
      if (rc >= 0) {
        *bytes = sum;
        w->cells = tsr__add_sat(w->cells, tile->cells);
        w->count++;
      }
    }
    if (rc < 0) {
      reader->requests.size = requests;
      read_dense_drop_tile(s, tile);
      return rc;
    }
    tsr__walk_next(&s->walk);
    if (tsr__reader_suffices(reader, w->cells)) break;
  }
  return TSR_OK;
}

/* What the predicates do not look at, of tiles in which some cell satisfies them. */
static int load_others(dense_iterator *s, tsr_error *error) {
  for (uint64_t i = 0; i < s->now.count; i++)
    for (uint32_t c = 0; c < s->now.tiles[i].count; c++) {
      tsr_pinned_tile *pinned = s->now.tiles[i].candidates[c].pinned;
      if (!pinned) continue;
      const int rc = tsr__tests_any(s->reader, pinned, error);
      if (rc < 0) return rc;
      if (rc > 0) TSR_TRY(tsr__reader_request_fields(s->reader, pinned, error));
    }
  return tsr__reader_load(s->reader, error);
}

/* The window that was begun while the last one was given out; fields may have been asked for since. */
static int take_next(dense_iterator *s, tsr_error *error) {
  s->now = s->next;
  s->next = (read_dense_window){0};
  s->has_next = false;
  TSR_TRY(tsr__reader_take_ahead(s->reader, error));
  if (s->reader->test_count > 0) return TSR_OK;
  for (uint64_t i = 0; i < s->now.count; i++)
    for (uint32_t c = 0; c < s->now.tiles[i].count; c++) {
      tsr_pinned_tile *pinned = s->now.tiles[i].candidates[c].pinned;
      if (pinned) TSR_TRY(tsr__reader_request_fields(s->reader, pinned, error));
    }
  return tsr__reader_load(s->reader, error);
}

/* Begins the next window. What fails there is met again, if it lasts, when its tiles are wanted. */
static int read_dense_begin_next(dense_iterator *s, tsr_error *error) {
  tsr_error trouble;
  uint64_t bytes;
  if (s->walk.ended || !tsr__reader_may_ahead(s->reader)) return TSR_OK;
  const int rc = read_dense_make_window(s, &s->next, true, &bytes, &trouble);
  if (rc == TSR_INTERRUPT) return tsr__fail(error, rc, "%s", trouble.message);
  s->has_next = s->next.count > 0;
  return s->has_next ? tsr__reader_load_ahead(s->reader, bytes, error) : TSR_OK;
}

static int read_dense_fill_window(dense_iterator *s, tsr_error *error) {
  tsr_reader *reader = s->reader;
  uint64_t bytes;
  if (reader->window_tiles > 1) /* else the caller has just begun */
    TSR_TRY(tsr__environment_cancelled(reader->snapshot->array->environment, error));
  s->tile_at = 0;
  s->now.count = 0;
  if (s->has_next) {
    TSR_TRY(take_next(s, error));
  } else {
    TSR_TRY(read_dense_make_window(s, &s->now, false, &bytes, error));
    TSR_TRY(tsr__reader_load(reader, error));
  }
  reader->given = tsr__add_sat(reader->given, s->now.cells);
  TSR_TRY(read_dense_begin_next(s, error));
  return reader->test_count > 0 && reader->others ? load_others(s, error) : TSR_OK;
}

/* ---- Sparse fragments ------------------------------------------------------------------------------------------- */

typedef struct leaf_list {
  dense_iterator *iterator;
  uint32_t candidate;
} leaf_list;

/* The fragment of a sparse tile, of the present space tile. */
static uint32_t read_dense_fragment_of(const dense_iterator *s, const sparse_tile *tile) {
  return s->now.tiles[s->tile_at].candidates[tile->candidate].box->fragment;
}

static int weigh_leaf(dense_iterator *s, sparse_tile *tile, tsr_error *error) {
  tsr_snapshot *snapshot = s->reader->snapshot;
  const tsr_snapshot_fragment *item = &snapshot->fragments[read_dense_fragment_of(s, tile)];
  const uint32_t fields = s->dimensions + snapshot->schema->attribute_count;
  const uint64_t cells = tsr__fragment_tile_cells(&item->fragment->metadata, tile->number);
  uint64_t bytes = cells * (sizeof(uint64_t) + sizeof(uint32_t)), one;
  for (uint32_t f = 0; f < fields; f++) {
    if (item->slots[f] < 0) continue;
    if (snapshot->schema->fields[f].cell_size) one = tsr__mul_sat(cells, snapshot->schema->fields[f].cell_size);
    else TSR_TRY(tsr__tile_cost(snapshot->array, item->fragment, (uint32_t)item->slots[f], tile->number, &one, error));
    bytes = tsr__add_sat(bytes, one);
  }
  tile->bytes = tsr__add_sat(tsr__mul_sat(2, bytes), (fields + 1) * (uint64_t)SLOT_BYTES); /* stored, and decoded */
  return TSR_OK;
}

static int add_leaf(void *argument, uint64_t leaf, bool inside, tsr_error *error) {
  dense_iterator *s = ((leaf_list *)argument)->iterator;
  sparse_tile *memory;
  (void)inside;
  if ((s->sparse_count & (s->sparse_count - 1)) == 0) { /* a power of two: double */
    TSR_TRY(TSR_ARENA_ARRAY(&s->reader->window, TSR_MAX(1, 2 * s->sparse_count), &memory, error));
    if (s->sparse_count) memcpy(memory, s->sparse, s->sparse_count * sizeof(sparse_tile));
    s->sparse = memory;
  }
  sparse_tile *tile = &s->sparse[s->sparse_count++];
  *tile = (sparse_tile){.candidate = ((leaf_list *)argument)->candidate, .number = leaf};
  return weigh_leaf(s, tile, error);
}

/* The tiles of sparse fragments around what is wanted of the present tile. */
static int find_sparse(dense_iterator *s, const space_tile *tile, tsr_error *error) {
  tsr_snapshot *snapshot = s->reader->snapshot;
  tsr_spans *spans;
  tsr_span *around;
  bool any = false;
  for (uint32_t c = 0; c < tile->count; c++) any |= tile->candidates[c].box->sparse;
  if (!any) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&s->reader->window, s->dimensions, &spans, error));
  TSR_TRY(TSR_ARENA_ARRAY(&s->reader->window, s->dimensions, &around, error));
  for (uint32_t d = 0; d < s->dimensions; d++) {
    around[d] = (tsr_span){s->grid->low_key[d] + tile->low[d], s->grid->low_key[d] + tile->high[d]};
    spans[d] = (tsr_spans){.count = 1, .spans = &around[d]};
  }
  for (uint32_t c = 0; c < tile->count; c++) {
    if (!tile->candidates[c].box->sparse) continue;
    const tsr_rtree *rtree;
    leaf_list list = {.iterator = s, .candidate = c};
    TSR_TRY(tsr__fragment_rtree(snapshot->array, snapshot->fragments[tile->candidates[c].box->fragment].fragment,
                                &rtree, error));
    TSR_TRY(tsr__rtree_query(rtree, spans, add_leaf, &list, error));
  }
  return TSR_OK;
}

/* May the tile of a sparse fragment hold cells of the piece, by its box? */
static bool read_dense_reaches(const dense_iterator *s, const tsr_subtile *subtile, const sparse_tile *tile) {
  const tsr_rtree *rtree = s->reader->snapshot->fragments[read_dense_fragment_of(s, tile)].fragment->metadata.rtree;
  const uint64_t *keys = rtree->keys[rtree->levels - 1] + tile->number * s->dimensions * 2;
  for (uint32_t i = 0; i < s->dimensions; i++) {
    const tsr_axis *axis = &subtile->axes[i];
    const uint32_t d = axis->dimension;
    const uint64_t low = axis->base + axis->spans[0].low, high = axis->base + axis->spans[axis->span_count - 1].high;
    if (keys[2 * d] - s->grid->low_key[d] > high || keys[2 * d + 1] - s->grid->low_key[d] < low) return false;
  }
  return true;
}

static void drop_pinned(dense_iterator *s, sparse_tile *tile) {
  tsr__reader_drop(s->reader, tile->pinned);
  tile->pinned = NULL;
}

static void drop_leaf(dense_iterator *s, sparse_tile *tile) {
  drop_pinned(s, tile);
  tsr__free(tile->cells);
  tile->cells = NULL;
}

static void drop_sparse(dense_iterator *s) {
  for (uint64_t i = 0; i < s->sparse_count; i++) drop_leaf(s, &s->sparse[i]);
  s->sparse_count = 0;
}

/* Asks for what a tile is needed for: its coordinates, with room for those of its cells that count; what is wanted of them. */
static int want_leaf(dense_iterator *s, sparse_tile *tile, bool coordinates, bool fields, tsr_error *error) {
  const uint32_t f = read_dense_fragment_of(s, tile);
  const tsr_snapshot_fragment *item = &s->reader->snapshot->fragments[f];
  const uint64_t cells = tsr__fragment_tile_cells(&item->fragment->metadata, tile->number);
  if (!tile->pinned) TSR_TRY(tsr__reader_hold(s->reader, f, tile->number, cells, &tile->pinned, error));
  if (!tile->cells) { TSR_TRY(TSR_ALLOC_RAW(&s->reader->memory, cells, &tile->cells, error)); }
  for (uint32_t d = 0; d < s->dimensions && coordinates; d++)
    TSR_TRY(tsr__reader_request(s->reader, tile->pinned, item->slots[d], error));
  if (item->fragment->uncommitted)
    TSR_TRY(tsr__reader_request(s->reader, tile->pinned,
                                tsr__fragment_system_slot(&item->fragment->metadata, TSR_SLOT_TIMES), error));
  return fields ? tsr__reader_request_fields(s->reader, tile->pinned, error) : TSR_OK;
}

/* Which tiles of sparse fragments reach into a piece? They are in hand, unless memory is short, and no others. */
static int load_sparse(dense_iterator *s, const tsr_subtile *subtile, tsr_error *error) {
  bool any = false;
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < s->sparse_count; i++) {
    s->sparse[i].count = 0;
    s->sparse[i].reaches = read_dense_reaches(s, subtile, &s->sparse[i]);
    if (s->sparse[i].reaches) bytes = tsr__add_sat(bytes, s->sparse[i].bytes);
    else drop_leaf(s, &s->sparse[i]);
  }
  s->waiting = bytes > s->reader->memory.limit / WAITING_PART;
  for (uint64_t i = 0; i < s->sparse_count; i++) {
    if (s->waiting) drop_pinned(s, &s->sparse[i]);
    if (!s->sparse[i].reaches || s->sparse[i].pinned || s->waiting) continue;
    TSR_TRY(want_leaf(s, &s->sparse[i], true, true, error));
    any = true;
  }
  return any ? tsr__reader_load(s->reader, error) : TSR_OK;
}

/* Of a run that the writer was rewound into, cells from this number on do not count; else NULL. */
static const uint64_t *numbers_of(const dense_iterator *s, const sparse_tile *tile, uint64_t *end) {
  const tsr_snapshot_fragment *item = &s->reader->snapshot->fragments[tile->pinned->fragment];
  if (!item->fragment->uncommitted || !item->cut) return NULL;
  *end = TSR_UNCOMMITTED_TIMES + item->run_end;
  const int64_t slot = tsr__fragment_system_slot(&item->fragment->metadata, TSR_SLOT_TIMES);
  return (const uint64_t *)(const void *)tile->pinned->tiles[slot]->values;
}

/* The cells of a tile in hand take what nobody newer has: the last stored first. */
static void own_leaf(dense_iterator *s, const tsr_subtile *subtile, sparse_tile *tile, uint32_t none,
                     uint32_t *owners) {
  const tsr_schema *schema = s->reader->snapshot->schema;
  uint64_t end = 0;
  const uint64_t *numbers = numbers_of(s, tile, &end);
  for (uint32_t d = 0; d < s->dimensions; d++) s->coordinates[d] = tsr__pinned_coordinates(s->reader, tile->pinned, d);
  for (uint64_t cell = tile->pinned->cells; cell-- > 0;) {
    if (numbers && numbers[cell] >= end) continue;
    for (uint32_t d = 0; d < s->dimensions; d++) {
      const tsr_field *f = &schema->fields[d];
      const uint8_t *value = s->coordinates[d].values + cell * f->cell_size;
      s->scratch[d] = tsr__key(f->datatype, value) - s->grid->low_key[d];
    }
    const int64_t position = tsr__subtile_find(subtile, s->scratch);
    if (position < 0 || owners[position] != none) continue;
    owners[position] = tile->candidate;
    tile->cells[tile->count++] = (uint32_t)cell;
  }
}

/* The same of a candidate's tiles; *left: cells of the piece that have no owner yet. */
static int own_cells(dense_iterator *s, const tsr_subtile *subtile, uint32_t c, uint32_t none, uint32_t *owners,
                     uint64_t *left, tsr_error *error) {
  for (uint64_t i = s->sparse_count; i-- > 0 && *left > 0;) {
    sparse_tile *tile = &s->sparse[i];
    if (tile->candidate != c || !tile->reaches) continue;
    if (s->waiting) {
      TSR_TRY(want_leaf(s, tile, true, false, error));
      TSR_TRY(tsr__reader_load(s->reader, error));
    }
    own_leaf(s, subtile, tile, none, owners);
    *left -= tile->count;
    if (s->waiting) drop_pinned(s, tile);
    if (s->waiting && tile->count == 0) drop_leaf(s, tile);
  }
  return TSR_OK;
}

/* ---- Pieces into batches ---------------------------------------------------------------------------------------- */

static int read_dense_add_part(dense_iterator *s, read_dense_part p, tsr_error *error) {
  if (p.count == 0) return TSR_OK;
  if (s->part_count == s->part_capacity) {
    const uint64_t capacity = TSR_MAX(4, 2 * s->part_capacity);
    read_dense_part *memory;
    TSR_TRY(TSR_ARENA_ARRAY(&s->reader->arena, capacity, &memory, error));
    if (s->part_count) memcpy(memory, s->parts, s->part_count * sizeof(read_dense_part));
    s->parts = memory;
    s->part_capacity = capacity;
  }
  s->parts[s->part_count++] = p;
  return TSR_OK;
}

static int read_dense_select_cells(tsr_buffer *buffer, const tsr_subtile *subtile, uint32_t **cells, tsr_error *error) {
  buffer->size = 0;
  TSR_TRY(tsr__buffer_reserve(buffer, subtile->cells * sizeof(uint32_t), error));
  *cells = (uint32_t *)(void *)buffer->data;
  tsr__subtile_select(subtile, *cells);
  return TSR_OK;
}

/* Behind the cells from `i` on that have one owner: neighbours mostly do. */
static uint64_t run_of_owner(const uint32_t *owners, uint64_t i, uint64_t cells) {
  const uint32_t owner = owners[i];
  while (++i < cells && owners[i] == owner) {}
  return i;
}

/* Sorts cells by owner, one part for each; owner `count` is nobody. */
static int split_by_owner(dense_iterator *s, space_tile *tile, const tsr_subtile *subtile, const uint32_t *owners,
                          tsr_error *error) {
  tsr_reader *reader = s->reader;
  uint32_t *cells;
  TSR_TRY(read_dense_select_cells(&reader->selection, subtile, &cells, error));
  reader->sorted.size = 0;
  TSR_TRY(tsr__buffer_reserve(&reader->sorted, subtile->cells * sizeof(uint32_t), error));
  uint32_t *sorted = (uint32_t *)(void *)reader->sorted.data;
  reader->numbers.size = 0;
  TSR_TRY(tsr__buffer_reserve(&reader->numbers, (tile->count + 2) * sizeof(uint64_t), error));
  uint64_t *ends = (uint64_t *)(void *)reader->numbers.data; /* of each owner's cells, once they are all in place */
  memset(ends, 0, (tile->count + 2) * sizeof(uint64_t));
  for (uint64_t i = 0, end; i < subtile->cells; i = end) {
    end = run_of_owner(owners, i, subtile->cells);
    ends[owners[i] + 1] += end - i;
  }
  for (uint32_t c = 0; c <= tile->count; c++) ends[c + 1] += ends[c];
  for (uint64_t i = 0; i < subtile->cells;) {
    const uint32_t owner = owners[i];
    uint64_t to = ends[owner];
    for (const uint64_t end = run_of_owner(owners, i, subtile->cells); i < end; i++) sorted[to++] = cells[i];
    ends[owner] = to;
  }
  for (uint32_t c = 0; c <= tile->count; c++) {
    const uint64_t from = c ? ends[c - 1] : 0, n = ends[c] - from;
    if (n == 0 || (c < tile->count ? tile->candidates[c].box->sparse || tile->candidates[c].excluded
                                   : !s->reader->passes_unwritten))
      continue;
    if (c < tile->count) TSR_TRY(hold(s, tile, &tile->candidates[c], error));
    const bool run = sorted[from + n - 1] - sorted[from] == n - 1;
    TSR_TRY(read_dense_add_part(s,
                                (read_dense_part){.pinned = c < tile->count ? tile->candidates[c].pinned : NULL,
                                                  .from = c,
                                                  .cells = run ? NULL : sorted + from,
                                                  .first = sorted[from],
                                                  .count = n},
                                error));
  }
  return TSR_OK;
}

static int make_parts(dense_iterator *s, space_tile *tile, tsr_error *error) {
  const tsr_subtile *subtile = &s->subtiles.subtile;
  s->part_count = s->part_at = 0;
  memset(s->values_ready, 0, s->dimensions * sizeof(bool));
  if (tile->covered && tile->candidates[0].excluded) return TSR_OK;
  if (tile->covered || tile->count == 0) {
    read_dense_part p = {.count = subtile->cells};
    uint32_t *cells = NULL;
    if (tile->covered) {
      TSR_TRY(hold(s, tile, &tile->candidates[0], error));
      p.pinned = tile->candidates[0].pinned;
    }
    if (!tsr__subtile_is_contiguous(subtile))
      TSR_TRY(read_dense_select_cells(&s->reader->selection, subtile, &cells, error));
    p.cells = cells;
    return read_dense_add_part(s, p, error);
  }
  uint32_t *owners;
  uint64_t left = subtile->cells;
  TSR_TRY(load_sparse(s, subtile, error));
  TSR_TRY(own_subtile(s, tile, subtile, &owners, error));
  for (uint32_t c = 0; c < tile->count && left > 0; c++) {
    if (tile->candidates[c].box->sparse) TSR_TRY(own_cells(s, subtile, c, tile->count, owners, &left, error));
    else left -= read_dense_own_box(subtile, tile, c, owners);
  }
  TSR_TRY(split_by_owner(s, tile, subtile, owners, error));
  for (uint64_t i = 0; i < s->sparse_count; i++) {
    const sparse_tile *t = &s->sparse[i];
    TSR_TRY(read_dense_add_part(
        s, (read_dense_part){.pinned = t->pinned, .sparse = true, .from = i, .cells = t->cells, .count = t->count},
        error));
  }
  return TSR_OK;
}

/* ---- The source ------------------------------------------------------------------------------------------------- */

/* Rowids of cells that were never written: by row-major ordinal in the domain, or tile by tile where there are too many
 * of those. */
static int read_dense_number_unwritten(dense_iterator *s, const space_tile *tile, tsr_batch *batch, tsr_error *error) {
  const tsr_subtile *subtile = &s->subtiles.subtile;
  tsr_reader *reader = s->reader;
  const tsr_snapshot *snapshot = reader->snapshot;
  if (snapshot->unwritten_row_base >= 0) {
    tsr_buffer *buffer = &reader->numbers;
    uint64_t stride = 1;
    buffer->size = 0;
    TSR_TRY(tsr__buffer_reserve(buffer, tsr__mul_sat(subtile->reach, sizeof(int64_t)), error));
    for (uint32_t d = s->dimensions; d-- > 0; stride *= s->grid->last[d] + 1) s->scratch[d] = stride;
    tsr__subtile_numbers(subtile, s->scratch, snapshot->unwritten_row_base, (int64_t *)(void *)buffer->data);
    batch->rowids = (const int64_t *)(const void *)buffer->data;
    return TSR_OK;
  }
  tsr_buffer name = {.memory = &reader->memory};
  int rc = tsr__buffer_printf(&name, error, "never written in tile");
  for (uint32_t d = 0; d < s->dimensions && rc >= 0; d++)
    rc = tsr__buffer_printf(&name, error, " %llu", (unsigned long long)tile->at[d]);
  if (rc >= 0) rc = tsr__buffer_append_u8(&name, 0, error);
  if (rc >= 0)
    rc = tsr__environment_rows(snapshot->array->environment, snapshot->array->path, (const char *)name.data,
                               s->grid->tile_cells, &batch->row_base, error);
  tsr__buffer_release(&name);
  batch->row_base += (int64_t)subtile->origin;
  return rc;
}

static int give_part(dense_iterator *s, const read_dense_part *p, tsr_batch *batch, tsr_error *error) {
  batch->count = p->count;
  batch->selection = p->cells;
  batch->first = p->cells ? 0 : p->first;
  batch->written = p->pinned != NULL; /* of a sparse tile it is here by now */
  if (!p->pinned) return read_dense_number_unwritten(s, &s->now.tiles[s->tile_at], batch, error);
  batch->fragment = p->pinned->fragment;
  const tsr_fragment *fragment = s->reader->snapshot->fragments[p->pinned->fragment].fragment;
  batch->time = tsr__fragment_time(fragment);
  if (fragment->uncommitted) return tsr__uncommitted_rowids(s->reader, p->pinned, p->cells, p->count, batch, error);
  batch->row_base = fragment->row_base + (int64_t)(p->pinned->number * fragment->cells_per_tile);
  if (!p->sparse) batch->row_base += (int64_t)s->subtiles.subtile.origin;
  return TSR_OK;
}

/* Keeps the cells of the present part that satisfy the predicates. */
static int test_part(dense_iterator *s, tsr_error *error) {
  read_dense_part *p = &s->parts[s->part_at];
  tsr_buffer *room = &s->reader->chosen;
  if (s->reader->test_count == 0) return TSR_OK;
  const uint64_t first = p->cells ? 0 : p->first;
  room->size = 0;
  TSR_TRY(tsr__buffer_reserve(room, tsr__mul_sat(p->count, sizeof(uint32_t)), error));
  uint32_t *cells = (uint32_t *)(void *)room->data;
  TSR_TRY(tsr__tests_select(s->reader, p->pinned, (p->sparse ? 0 : s->subtiles.subtile.origin) + first, p->cells,
                            &p->count, cells, error));
  for (uint64_t i = 0; first > 0 && i < p->count; i++) cells[i] += (uint32_t)first;
  p->cells = cells;
  return TSR_OK;
}

/* To the part behind the present one. */
static void pass_part(dense_iterator *s) {
  const read_dense_part *p = &s->parts[s->part_at++];
  space_tile *tile = &s->now.tiles[s->tile_at];
  if (p->sparse && s->waiting) drop_leaf(s, &s->sparse[p->from]);
  if (p->sparse || !p->pinned || !tile->crowded) return;
  tsr__reader_drop(s->reader, p->pinned);
  tile->candidates[p->from].pinned = NULL;
}

/* What a part has waited for, where memory is short. */
static int take_part(dense_iterator *s, read_dense_part *p, tsr_error *error) {
  if (p->sparse && !p->pinned) {
    sparse_tile *tile = &s->sparse[p->from];
    TSR_TRY(want_leaf(s, tile, false, s->reader->test_count == 0, error));
    TSR_TRY(tsr__reader_load(s->reader, error));
    p->pinned = tile->pinned;
  } else if (!p->sparse && p->pinned && s->now.tiles[s->tile_at].crowded && s->reader->test_count == 0) {
    TSR_TRY(tsr__reader_request_fields(s->reader, p->pinned, error));
    TSR_TRY(tsr__reader_load(s->reader, error));
  }
  return TSR_OK;
}

/* From the present part to the first that has cells. */
static int find_part(dense_iterator *s, tsr_error *error) {
  for (; s->part_at < s->part_count; pass_part(s)) {
    TSR_TRY(take_part(s, &s->parts[s->part_at], error));
    TSR_TRY(test_part(s, error));
    if (s->parts[s->part_at].count > 0) break;
  }
  return TSR_OK;
}

/* How many cells a piece may have: fewer where there are many cells of sparse fragments, whose tiles are held for it. Whatever
 * fields are asked for, for rows that are read again come as before. */
static uint64_t subtile_cells(const dense_iterator *s, const space_tile *tile) {
  uint64_t bytes = 0;
  if (s->sparse_count == 0) return TSR_SUBTILE_CELLS;
  for (uint64_t i = 0; i < s->sparse_count; i++) bytes = tsr__add_sat(bytes, s->sparse[i].bytes);
  const uint64_t each = tsr__add_sat(bytes / TSR_MAX(tile->cells, 1), 1); /* for a cell of the tile */
  return TSR_MIN(TSR_SUBTILE_CELLS, TSR_MAX(s->reader->memory.limit / SPARSE_PART / each, PIECE_MIN));
}

static int read_dense_next(tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error) {
  dense_iterator *s = (dense_iterator *)iterator;
  if (s->part_at < s->part_count) pass_part(s);
  TSR_TRY(find_part(s, error));
  while (s->part_at == s->part_count) {
    const bool first = !s->subtiles.started;
    if (s->open && tsr__subtiles_next(&s->subtiles)) {
      if (!first) TSR_TRY(tsr__environment_cancelled(s->reader->snapshot->array->environment, error));
      TSR_TRY(make_parts(s, &s->now.tiles[s->tile_at], error));
      TSR_TRY(find_part(s, error));
      continue;
    }
    if (s->open) {
      drop_sparse(s);
      read_dense_drop_tile(s, &s->now.tiles[s->tile_at++]);
      s->open = false;
    }
    if (s->tile_at == s->now.count) {
      if (s->walk.ended && !s->has_next) return 0;
      TSR_TRY(read_dense_fill_window(s, error));
      if (s->now.count == 0) continue; /* all taken */
    }
    const space_tile *tile = &s->now.tiles[s->tile_at];
    TSR_TRY(find_sparse(s, tile, error));
    TSR_TRY(tsr__subtiles_init(s->grid, s->plan->selections, tile->at, tile->first, subtile_cells(s, tile),
                               &s->reader->window, &s->subtiles, error));
    s->open = true;
  }
  TSR_TRY(give_part(s, &s->parts[s->part_at], batch, error));
  return 1;
}

/* A dimension of a dense batch: made of the piece once, when it is first asked for. */
static int dimension_column(dense_iterator *s, uint32_t d, tsr_column *column, tsr_error *error) {
  const tsr_subtile *subtile = &s->subtiles.subtile;
  const tsr_field *field = &s->reader->snapshot->schema->fields[d];
  const uint32_t axis = s->grid->col_major_cells ? s->dimensions - 1 - d : d;
  tsr_buffer *buffer = &s->reader->values[d];
  const bool constant = subtile->axes[axis].count == 1;
  if (!s->values_ready[d]) {
    buffer->size = 0;
    TSR_TRY(tsr__buffer_reserve(buffer, tsr__mul_sat(constant ? 1 : subtile->reach, field->cell_size), error));
    if (constant)
      tsr__key_value(field->datatype, s->grid->low_key[d] + subtile->axes[axis].base + subtile->axes[axis].spans[0].low,
                     buffer->data);
    else tsr__subtile_values(subtile, axis, field->low, field->cell_size, buffer->data);
    s->values_ready[d] = true;
  }
  *column = (tsr_column){.values = buffer->data, .cell_size = field->cell_size, .constant = constant};
  return TSR_OK;
}

static int read_dense_column_of(tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error) {
  dense_iterator *s = (dense_iterator *)iterator;
  const read_dense_part *p = &s->parts[s->part_at];
  if (p->sparse) return tsr__reader_column(s->reader, p->pinned, field, 0, column, error);
  if (field < s->dimensions) return dimension_column(s, field, column, error);
  if (p->pinned) return tsr__reader_column(s->reader, p->pinned, field, s->subtiles.subtile.origin, column, error);
  *column = s->reader->fills[field];
  return TSR_OK;
}

static const tsr_subtile *subtile_of(tsr_batch_iterator *iterator) {
  const dense_iterator *s = (const dense_iterator *)iterator;
  return s->parts[s->part_at].sparse ? NULL : &s->subtiles.subtile;
}

static void close_dense(tsr_batch_iterator *iterator) {
  dense_iterator *s = (dense_iterator *)iterator;
  tsr__reader_drop_ahead(s->reader);
  drop_sparse(s);
  for (uint64_t i = s->tile_at; i < s->now.count; i++) read_dense_drop_tile(s, &s->now.tiles[i]);
  for (uint64_t i = 0; i < s->next.count; i++) read_dense_drop_tile(s, &s->next.tiles[i]);
}

/* Whole fragments of which no cell satisfies the predicates: they still own their cells. */
static int read_dense_exclude_fragments(tsr_reader *reader, tsr_error *error) {
  uint64_t excluded = 0;
  if (reader->test_count == 0) return TSR_OK;
  for (uint64_t i = 0; i < reader->plan.box_count; i++) {
    tsr_plan_box *box = &reader->plan.boxes[i];
    if (box->sparse) continue;
    const int rc = tsr__tests_exclude_fragment(reader, box->fragment, error);
    if (rc < 0) return rc;
    box->excluded = rc > 0;
    excluded += box->excluded;
  }
  if (!reader->part) tsr__count(reader->snapshot->array->environment, TSR_COUNT_fragments_skipped, excluded);
  return TSR_OK;
}

int tsr__read_dense_open(tsr_reader *reader, tsr_batch_iterator **iterator, tsr_error *error) {
  const tsr_grid *grid = &reader->snapshot->grid;
  const uint32_t n = grid->dimensions;
  dense_iterator *s;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, 1, &s, error));
  s->base = (tsr_batch_iterator){
      .next = read_dense_next, .column = read_dense_column_of, .close = close_dense, .subtile = subtile_of};
  s->reader = reader;
  s->plan = &reader->plan;
  s->grid = grid;
  s->dimensions = n;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, 3 * n, &s->scratch, error));
  s->gap = s->scratch + n;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, n, &s->coordinates, error));
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, n, &s->values_ready, error));
  TSR_TRY(
      tsr__walk_open(s->plan, grid, reader->passes_unwritten, reader->take != NULL, &reader->arena, &s->walk, error));
  TSR_TRY(read_dense_exclude_fragments(reader, error));
  *iterator = &s->base;
  return TSR_OK;
}
