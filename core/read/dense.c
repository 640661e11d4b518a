/* dense.c: batches of a dense array. Each selected cell comes from its owner, the newest fragment that wrote it.
 *
 * Candidates. The fragments whose boxes meet the selected cells of a space tile are its candidates, from the newest
 * down to the first that covers all of these cells. Space tiles are prepared in windows: the shortcut may take whole
 * tiles; among several candidates, those that own no selected cell are found, so that their tiles are not decoded; and
 * statistics exclude candidates in which no cell satisfies the predicates. The next window loads while the caller takes
 * rows of the current one.
 *
 * Owners. A single candidate that covers the selection gives its cells as they are. Otherwise the space tile is read
 * subtile by subtile: a map of owners is made, and the cells of each owner become a part, which becomes a batch. Cells
 * without an owner were never written. They form parts of their own (written = false), if they satisfy the predicates.
 *
 * Sparse fragments. A sparse fragment in a dense array, such as the uncommitted cells of a transaction, owns only the
 * single cells that it holds. Its tiles are loaded for the subtiles that they reach into, so that few of them are in
 * memory at once even if one space tile has many of its cells. If all candidates of a space tile do not fit in memory,
 * each is loaded for its own batch only.
 *
 * Sections: one space tile and its candidates; windows; a request; then the iterator: its state, sparse fragments,
 * subtiles into batches, the iterator itself.
 */
#include "read/reader.h"

#include <string.h>

#include "base/arithmetic.h"
#include "array/array.h"
#include "environment/environment.h"
#include "model/datatype.h"
#include "format/fragment_metadata.h"

#define TILES_INSPECTED_MAX 1024 /* space tiles inspected for one window, at most */
#define CROWDED_EIGHTHS     5 /* a space tile whose candidates take more eighths of the budget is crowded */

/* ---- One space tile ---------------------------------------------------------------------------------------------- */

/* Finds the selected cells of the walk's current tile. */
static int select_in_tile(const tsr_dense_windows *w, tsr_space_tile *tile, tsr_error *error) {
  const uint32_t n = w->dimensions;
  uint64_t *memory;
  TSR_TRY(TSR_ARENA_RAW(w->making.arena, 4 * n, &memory, error));
  *tile = (tsr_space_tile){.at = memory, .cells = 1};
  tile->first = tile->at + n;
  tile->low = tile->first + n;
  tile->high = tile->low + n;
  memcpy(tile->at, w->walk.at, n * sizeof(uint64_t));
  memcpy(tile->first, w->walk.first, n * sizeof(uint64_t));
  for (uint32_t d = 0; d < n; d++) {
    const tsr_dimension_selection *selected = &w->plan->selections[d];
    const uint64_t start = tsr__grid_start(w->grid, tile->at, d), end = tsr__grid_end(w->grid, tile->at, d);
    uint64_t values = 0, i = tile->first[d];
    tile->low[d] = TSR_MAX(selected->spans[i].low, start);
    for (; i < selected->count && selected->spans[i].low <= end; i++) {
      tile->high[d] = TSR_MIN(selected->spans[i].high, end);
      values += tile->high[d] - TSR_MAX(selected->spans[i].low, start) + 1;
    }
    tile->cells *= values; /* at most the cells of a tile: cannot overflow */
  }
  return TSR_OK;
}

static uint64_t tile_number_in_fragment(const tsr_dense_windows *w, const tsr_fragment *fragment, const uint64_t *at) {
  uint64_t number = 0;
  for (uint32_t k = 0; k < w->dimensions; k++) {
    const uint32_t d = tsr__grid_slowest(w->grid, k);
    number = number * fragment->dense.tile_count[d] + (at[d] - fragment->dense.tile_low[d]);
  }
  return number;
}

static bool box_meets(const tsr_dense_windows *w, const tsr_space_tile *tile, const tsr_plan_box *box) {
  for (uint32_t d = 0; d < w->dimensions; d++)
    if (box->low[d] > tile->high[d] || box->high[d] < tile->low[d]) return false;
  return true;
}

static bool box_covers(const tsr_dense_windows *w, const tsr_space_tile *tile, const tsr_plan_box *box) {
  for (uint32_t d = 0; d < w->dimensions; d++)
    if (box->low[d] > tile->low[d] || box->high[d] < tile->high[d]) return false;
  return !box->sparse;
}

/* Finds the candidates of a tile, from the newest fragment down to the first that covers all selected cells: older
 * fragments own none of them. */
static int find_candidates(tsr_dense_windows *w, tsr_space_tile *tile, tsr_error *error) {
  const uint32_t met = w->walk.list_counts[w->dimensions];
  TSR_TRY(TSR_ARENA_ARRAY(w->making.arena, met, &tile->candidates, error));
  for (uint32_t i = met; i-- > 0;) {
    const tsr_plan_box *box = &w->plan->boxes[w->walk.lists[w->dimensions][i]];
    if (!box_meets(w, tile, box)) continue;
    tsr_candidate *c = &tile->candidates[tile->count++];
    c->box = box;
    if (!box->sparse)
      c->number = tile_number_in_fragment(w, w->reader->snapshot->fragments[box->fragment].fragment, tile->at);
    if (!box_covers(w, tile, box)) continue;
    tile->covered = tile->count == 1;
    break;
  }
  if (tile->count == 1) tile->candidates[0].used = !tile->candidates[0].box->sparse;
  return TSR_OK;
}

/* Makes a map of owners for the cells of a subtile, by position. An owner is the index of a candidate; at first every
 * cell has tile->count: no owner. The map belongs to the reader and lives until the next call. */
static int dense_owners_reset(tsr_dense_windows *w, tsr_space_tile *tile, const tsr_subtile *subtile, uint32_t **owners,
                              tsr_error *error) {
  tsr_buffer *buffer = &w->reader->dense.owners;
  buffer->size = 0;
  TSR_TRY(tsr__buffer_reserve(buffer, subtile->cells * sizeof(uint32_t), error));
  *owners = (uint32_t *)(void *)buffer->data;
  for (uint64_t i = 0; i < subtile->cells; i++) (*owners)[i] = tile->count;
  return TSR_OK;
}

/* Makes the dense candidate `c` the owner of all cells in its box that have no owner yet. Returns their number. */
static uint64_t claim_box(const tsr_subtile *subtile, const tsr_space_tile *tile, uint32_t c, uint32_t *owners) {
  const tsr_plan_box *box = tile->candidates[c].box;
  return tsr__subtile_claim(subtile, box->low, box->high, c, tile->count, owners);
}

/* Finds out which dense candidates own selected cells: only their tiles are decoded. */
static int mark_used(tsr_dense_windows *w, tsr_space_tile *tile, tsr_error *error) {
  tsr_subtiles subtiles;
  uint32_t unused = 0;
  for (uint32_t c = 0; c < tile->count; c++) unused += !tile->candidates[c].box->sparse && !tile->candidates[c].used;
  if (unused == 0) return TSR_OK;
  TSR_TRY(tsr__subtiles_init(w->grid, w->plan->selections, tile->at, tile->first, TSR_SUBTILE_CELLS, w->making.arena,
                             &subtiles, error));
  while (unused > 0 && tsr__subtiles_next(&subtiles)) {
    uint32_t *owners;
    uint64_t left = subtiles.subtile.cells;
    TSR_TRY(tsr__cancelled(&w->reader->snapshot->array->environment->memory, error));
    TSR_TRY(dense_owners_reset(w, tile, &subtiles.subtile, &owners, error));
    for (uint32_t c = 0; c < tile->count && left > 0; c++) {
      if (tile->candidates[c].box->sparse) continue;
      const uint64_t owned = claim_box(&subtiles.subtile, tile, c, owners);
      left -= owned;
      if (owned > 0 && !tile->candidates[c].used) {
        tile->candidates[c].used = true;
        unused--;
      }
    }
  }
  return TSR_OK;
}

/* Pins a dense candidate's tile, to be read from its first to its last selected cell, unless it is pinned already. */
static int dense_pin(tsr_dense_windows *w, const tsr_space_tile *tile, tsr_candidate *c, tsr_error *error) {
  if (c->pinned) return TSR_OK;
  TSR_TRY(tsr__reader_pin(w->reader, c->box->fragment, c->number, w->grid->tile_cells, &c->pinned, error));
  c->pinned->first = tsr__grid_cell(w->grid, tile->low);
  c->pinned->end = tsr__grid_cell(w->grid, tile->high) + 1;
  return TSR_OK;
}

/* Computes the decoded size of the tile's used candidates, in bytes. */
static int dense_window_cost(tsr_dense_windows *w, const tsr_space_tile *tile, uint64_t *bytes, tsr_error *error) {
  *bytes = 0;
  for (uint32_t c = 0; c < tile->count; c++) {
    uint64_t cost;
    if (!tile->candidates[c].used) continue;
    TSR_TRY(tsr__reader_cost(w->reader, tile->candidates[c].box->fragment, tile->candidates[c].number, &cost, error));
    *bytes = tsr__add_sat(*bytes, cost);
  }
  return TSR_OK;
}

/* Excludes candidates in which no cell satisfies the predicates. Such a candidate still owns its cells, but they come
 * in no batch, and its tile is not decoded. */
static int exclude_candidates(tsr_dense_windows *w, tsr_space_tile *tile, tsr_error *error) {
  for (uint32_t c = 0; c < tile->count; c++) {
    tsr_candidate *owner = &tile->candidates[c];
    if (!owner->used) continue;
    const int rc =
        owner->box->excluded ? 1 : tsr__predicates_exclude(w->reader, owner->box->fragment, owner->number, error);
    if (rc < 0) return rc;
    owner->excluded = rc > 0;
    owner->used = !owner->excluded;
  }
  return TSR_OK;
}

/* Gives back the tiles of a space tile's candidates. */
static void drop_tile(tsr_dense_windows *w, tsr_space_tile *tile) {
  for (uint32_t c = 0; c < tile->count; c++) {
    tsr__reader_unpin(w->reader, tile->candidates[c].pinned);
    tile->candidates[c].pinned = NULL;
  }
}

static int offer(tsr_dense_windows *w, const tsr_whole_tile *whole, tsr_error *error) {
  const int rc = w->reader->mode.take(w->reader->mode.take_argument, whole, error);
  w->offer_failed = rc < 0;
  return rc;
}

/* Offers the tile to the whole-tile shortcut, if its selected cells form a box and are all that its one fragment wrote
 * in the tile. Returns 1 if they are taken, 0 if not, or < 0. */
static int offer_whole_tile(tsr_dense_windows *w, const tsr_space_tile *tile, tsr_error *error) {
  uint64_t cells = 1;
  if (!tsr__reader_offers(w->reader) || (tile->count > 0 && !tile->covered)) return 0;
  const tsr_plan_box *box = tile->count > 0 ? tile->candidates[0].box : NULL;
  for (uint32_t d = 0; d < w->dimensions; d++) {
    cells *= tile->high[d] - tile->low[d] + 1; /* no more than the tile has */
    if (box && (tile->low[d] > TSR_MAX(box->low[d], tsr__grid_start(w->grid, tile->at, d)) ||
                tile->high[d] < TSR_MIN(box->high[d], tsr__grid_end(w->grid, tile->at, d))))
      return 0;
  }
  if (tile->cells != cells) return 0;
  const tsr_whole_tile whole = {.fragment = box ? box->fragment : TSR_NO_FRAGMENT,
                                .tile = box ? tile->candidates[0].number : 0,
                                .cells = cells,
                                .low = tile->low,
                                .high = tile->high};
  return offer(w, &whole, error);
}

/* Offers the tiles before the next one that a written box meets, or some of them, to the whole-tile shortcut as one
 * box. Returns 1 if they are taken, and moves the walk past them; 0 if not; or < 0. */
static int offer_gap(tsr_dense_windows *w, tsr_error *error) {
  tsr_whole_tile whole = {.fragment = TSR_NO_FRAGMENT, .low = w->gap_box, .high = w->gap_box + w->dimensions};
  if (!tsr__reader_offers(w->reader)) return 0;
  if (!tsr__walk_gap(&w->walk, w->gap_box, w->gap_box + w->dimensions, &whole.cells)) return 0;
  const int rc = offer(w, &whole, error);
  if (rc > 0) tsr__walk_pass(&w->walk);
  return rc;
}

/* Inspects the walk's current tile. Returns 1 if it belongs in the window, and sets *bytes to its decoded size; 0 if
 * the shortcut took it, or none of its cells can come in a batch; < 0: error. */
static int inspect_tile(tsr_dense_windows *w, tsr_space_tile *tile, uint64_t *bytes, tsr_error *error) {
  TSR_TRY(select_in_tile(w, tile, error));
  TSR_TRY(find_candidates(w, tile, error));
  if (tile->count == 0 && !w->reader->request.gives_unwritten) return 0;
  const int taken = offer_whole_tile(w, tile, error);
  if (taken != 0) return taken < 0 ? taken : 0;
  *bytes = 0;
  if (w->making.loads) TSR_TRY(mark_used(w, tile, error));
  if (w->reader->predicates.count > 0) TSR_TRY(exclude_candidates(w, tile, error));
  if (w->making.loads) TSR_TRY(dense_window_cost(w, tile, bytes, error));
  return 1;
}

/* Requests the fields to be loaded with the window: with predicates only the fields that they read, else all requested
 * fields. */
static int dense_window_request_tile(tsr_dense_windows *w, tsr_space_tile *tile, tsr_error *error) {
  tsr_reader *reader = w->reader;
  for (uint32_t c = 0; c < tile->count && w->making.loads; c++) {
    if (tile->candidates[c].excluded)
      tsr__count(reader->snapshot->array->environment, TSR_COUNT_tiles_skipped_by_value, 1);
    if (!tile->candidates[c].used || tile->crowded) continue;
    TSR_TRY(dense_pin(w, tile, &tile->candidates[c], error));
    if (reader->predicates.count > 0) TSR_TRY(tsr__predicates_request(reader, tile->candidates[c].pinned, error));
    else TSR_TRY(tsr__reader_request_fields(reader, tile->candidates[c].pinned, error));
  }
  return TSR_OK;
}

/* ---- Windows ----------------------------------------------------------------------------------------------------- */

/* Fills a window with the next tiles, requests their fields, and sets *bytes to their decoded size. The first tile
 * always goes in, unless the window is made `ahead`; others go in as the budget and the limit allow. After an error the
 * window has the tiles before the walk's current one. */
static int make_dense_window(tsr_dense_windows *w, tsr_dense_window *window, bool ahead, uint64_t *bytes,
                             tsr_error *error) {
  tsr_reader *reader = w->reader;
  const uint64_t tiles_max = tsr__reader_window(reader), budget = reader->memory.limit / 4;
  const uint32_t attributes = reader->snapshot->schema->attribute_count;
  *window = (tsr_dense_window){0};
  *bytes = 0;
  w->making.arena = ahead ? &reader->window.ahead.arena : &reader->window.arena;
  w->making.loads = memchr(reader->request.fields + w->dimensions, true, attributes) != NULL;
  tsr__arena_reset(w->making.arena);
  TSR_TRY(TSR_ARENA_ARRAY(w->making.arena, tiles_max, &window->tiles, error));
  for (uint64_t inspected = 0; window->count < tiles_max && inspected < TILES_INSPECTED_MAX && !w->walk.ended;
       inspected++) {
    tsr_space_tile *tile = &window->tiles[window->count];
    const uint64_t requests = reader->window.requests.size;
    uint64_t cost;
    int rc = offer_gap(w, error);
    if (rc < 0) return rc;
    if (rc > 0) continue;
    rc = inspect_tile(w, tile, &cost, error);
    if (rc > 0) {
      const uint64_t sum = tsr__add_sat(*bytes, cost);
      if ((ahead || window->count > 0) && sum > budget) break; /* the next window inspects it again */
      tile->crowded = tile->count > 1 && cost > reader->memory.limit / 8 * CROWDED_EIGHTHS;
      rc = dense_window_request_tile(w, tile, error);
      if (rc >= 0) {
        *bytes = sum;
        window->cells = tsr__add_sat(window->cells, tile->cells);
        window->count++;
      }
    }
    if (rc < 0) {
      reader->window.requests.size = requests;
      drop_tile(w, tile);
      return rc;
    }
    tsr__walk_next(&w->walk);
    if (tsr__reader_suffices(reader, window->cells)) break;
  }
  return TSR_OK;
}

/* Marks what is needed of the window's tiles, where some of it is not in memory. */
static int mark_tiles(tsr_dense_windows *w, tsr_error *error) {
  tsr_pinned_tile **tiles;
  uint64_t most = 0, count = 0;
  if (w->reader->mode.untested && !w->reader->mode.skips) return TSR_OK;
  for (uint64_t i = 0; i < w->now.count; i++) most += w->now.tiles[i].count;
  TSR_TRY(TSR_ARENA_ARRAY(&w->reader->window.arena, most, &tiles, error));
  for (uint64_t i = 0; i < w->now.count; i++)
    for (uint32_t c = 0; c < w->now.tiles[i].count; c++) {
      tsr_pinned_tile *pinned = w->now.tiles[i].candidates[c].pinned;
      if (pinned && tsr__predicates_may_mark(w->reader, pinned)) tiles[count++] = pinned;
    }
  return tsr__predicates_mark(w->reader, tiles, count, error);
}

/* Loads the fields that no predicate reads, for tiles in which some cell satisfies the predicates. */
static int load_untested_fields(tsr_dense_windows *w, tsr_error *error) {
  TSR_TRY(mark_tiles(w, error));
  for (uint64_t i = 0; i < w->now.count; i++)
    for (uint32_t c = 0; c < w->now.tiles[i].count; c++) {
      tsr_pinned_tile *pinned = w->now.tiles[i].candidates[c].pinned;
      if (!pinned) continue;
      int rc = 1;
      if (pinned->needed) rc = tsr__predicates_marked_any(pinned);
      else if (!w->reader->mode.untested) rc = tsr__predicates_any(w->reader, pinned, error);
      if (rc < 0) return rc;
      if (rc > 0) TSR_TRY(tsr__reader_request_fields(w->reader, pinned, error));
    }
  return tsr__reader_load(w->reader, error);
}

/* Makes the next window the current one. Loads fields that the caller has begun to read since that window was made. */
static int take_next_window(tsr_dense_windows *w, tsr_error *error) {
  w->now = w->next;
  w->next = (tsr_dense_window){0};
  w->has_next = false;
  TSR_TRY(tsr__reader_finish_ahead(w->reader, error));
  if (w->reader->predicates.count > 0) return TSR_OK;
  for (uint64_t i = 0; i < w->now.count; i++)
    for (uint32_t c = 0; c < w->now.tiles[i].count; c++) {
      tsr_pinned_tile *pinned = w->now.tiles[i].candidates[c].pinned;
      if (pinned) TSR_TRY(tsr__reader_request_fields(w->reader, pinned, error));
    }
  return tsr__reader_load(w->reader, error);
}

/* Makes the next window and starts to load it. Ignores errors: if they persist, they are reported when the window
 * becomes the current one. Not those of the shortcut, which may have counted some of the cells that it was offered. */
static int begin_next_window(tsr_dense_windows *w, tsr_error *error) {
  tsr_error one = {0};
  uint64_t bytes;
  if (w->walk.ended || !tsr__reader_may_load_ahead(w->reader)) return TSR_OK;
  const int rc = make_dense_window(w, &w->next, true, &bytes, &one);
  if (rc < 0 && w->offer_failed) return tsr__fail(error, rc, "%s", one.message);
  TSR_TRY(tsr__only_cancelled(rc, &one, error));
  w->has_next = w->next.count > 0;
  return w->has_next ? tsr__reader_load_ahead(w->reader, bytes, error) : TSR_OK;
}

/* Makes the next window the current one and loads it. It may be empty: the shortcut took every tile inspected. */
static int dense_windows_fill(tsr_dense_windows *w, tsr_error *error) {
  tsr_reader *reader = w->reader;
  uint64_t bytes;
  if (reader->progress.window_tiles > 1) /* for the first window, the start has just checked */
    TSR_TRY(tsr__cancelled(&reader->snapshot->array->environment->memory, error));
  w->tile_at = 0;
  w->now.count = 0;
  if (w->has_next) {
    TSR_TRY(take_next_window(w, error));
  } else {
    TSR_TRY(make_dense_window(w, &w->now, false, &bytes, error));
    TSR_TRY(tsr__reader_load(reader, error));
  }
  reader->progress.given = tsr__add_sat(reader->progress.given, w->now.cells);
  TSR_TRY(begin_next_window(w, error));
  return reader->predicates.count > 0 && reader->predicates.has_other_fields ? load_untested_fields(w, error) : TSR_OK;
}

/* ---- A request --------------------------------------------------------------------------------------------------- */

/* Excludes dense fragments whose own statistics prove that none of their cells satisfies the predicates. They still own
 * their cells. */
static int exclude_dense_fragments(tsr_reader *reader, tsr_error *error) {
  uint64_t excluded = 0;
  if (reader->predicates.count == 0) return TSR_OK;
  for (uint64_t i = 0; i < reader->plan.box_count; i++) {
    tsr_plan_box *box = &reader->plan.boxes[i];
    if (box->sparse) continue;
    const int rc = tsr__predicates_exclude_fragment(reader, box->fragment, error);
    if (rc < 0) return rc;
    box->excluded = rc > 0;
    excluded += box->excluded;
  }
  if (!reader->request.is_part) tsr__count(reader->snapshot->array->environment, TSR_COUNT_fragments_skipped, excluded);
  return TSR_OK;
}

/* Begins to walk the reader's plan. Uses the reader's memory only. Close it before the reader starts again. */
static int dense_windows_open(tsr_dense_windows *w, tsr_reader *reader, tsr_error *error) {
  const tsr_grid *grid = &reader->snapshot->grid;
  *w = (tsr_dense_windows){.reader = reader, .plan = &reader->plan, .grid = grid, .dimensions = grid->dimensions};
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, 2 * w->dimensions, &w->gap_box, error));
  TSR_TRY(tsr__walk_open(w->plan, grid, reader->request.gives_unwritten, reader->mode.take != NULL, &reader->arena,
                         &w->walk, error));
  return exclude_dense_fragments(reader, error);
}

/* Gives back the tiles of all windows. */
static void dense_windows_close(tsr_dense_windows *w) {
  for (uint64_t i = w->tile_at; i < w->now.count; i++) drop_tile(w, &w->now.tiles[i]);
  for (uint64_t i = 0; i < w->next.count; i++) drop_tile(w, &w->next.tiles[i]);
}

/* ---- The state of the iterator ----------------------------------------------------------------------------------- */

#define SPARSE_TILES_PART 8 /* sparse fragments' tiles for a subtile should take at most this part of the budget */
#define DEFER_PART        4 /* if they take more than this part, each is loaded for its own batch only */
#define SLOT_OVERHEAD     512u /* approximate bytes for loading a slot, beside its values */
#define SUBTILE_CELLS_MIN 256u /* selected cells of a subtile with tiles of sparse fragments, at least */

typedef struct sparse_tile { /* a tile of a sparse fragment whose MBR meets the current space tile */
  uint32_t candidate;
  uint64_t number;
  uint64_t bytes; /* approximate decoded size of all of its fields */
  bool reaches; /* its MBR meets the current subtile; else it is not loaded */
  tsr_pinned_tile *pinned; /* owned; NULL: not loaded */
  uint32_t *cells; /* owned: those of its cells that the subtile takes */
  uint64_t count;
} sparse_tile;

typedef struct dense_part { /* the cells of the current subtile with one owner: one batch */
  tsr_pinned_tile *pinned; /* borrowed; NULL: never written, or a sparse fragment's tile that is not loaded yet */
  bool sparse; /* the owner is a sparse fragment */
  uint64_t from; /* sparse: index in sparse_tiles.tiles; else index of the candidate */
  const uint32_t *cells; /* indices in the subtile, or in the sparse fragment's tile; NULL: contiguous */
  uint64_t count, first; /* number of cells; the first index, if contiguous */
} dense_part;

typedef struct sparse_tiles { /* the sparse tiles of the current space tile */
  uint64_t count;
  sparse_tile *tiles; /* of all candidates; those of one candidate in order of their numbers */
  bool deferred; /* memory is short: a sparse tile is loaded to find its cells, and again for its batch */
} sparse_tiles;

typedef struct part_list { /* the parts of the current subtile */
  dense_part *list;
  uint64_t count, at, capacity; /* at: the current part */
} part_list;

typedef struct dense_scratch { /* by dimension */
  uint64_t *ordinals;
  tsr_coordinates *coordinates;
} dense_scratch;

typedef struct dense_iterator {
  tsr_batch_iterator base;
  tsr_reader *reader;
  const tsr_grid *grid;
  uint32_t dimensions;
  tsr_dense_windows windows;
  bool open; /* `subtiles` and `sparse` belong to the current space tile */
  tsr_subtiles subtiles; /* of the current space tile */
  bool *values_ready; /* by dimension: reader->dense.coordinates has those of the current subtile */
  part_list parts;
  sparse_tiles sparse;
  dense_scratch scratch;
} dense_iterator;

/* ---- Sparse fragments -------------------------------------------------------------------------------------------- */

typedef struct sparse_tile_search {
  dense_iterator *iterator;
  uint32_t candidate;
} sparse_tile_search;

/* Returns the fragment of a sparse tile, as an index in the snapshot. */
static uint32_t fragment_of(const dense_iterator *it, const sparse_tile *tile) {
  return it->windows.now.tiles[it->windows.tile_at].candidates[tile->candidate].box->fragment;
}

static int estimate_sparse_tile(dense_iterator *it, sparse_tile *tile, tsr_error *error) {
  tsr_snapshot *snapshot = it->reader->snapshot;
  const tsr_snapshot_fragment *item = &snapshot->fragments[fragment_of(it, tile)];
  const uint32_t fields = it->dimensions + snapshot->schema->attribute_count;
  const uint64_t cells = tsr__fragment_tile_cells(&item->fragment->metadata, tile->number);
  uint64_t bytes = cells * (sizeof(uint64_t) + sizeof(uint32_t)), one;
  for (uint32_t f = 0; f < fields; f++) {
    if (item->slots[f] < 0) continue;
    if (snapshot->schema->fields[f].cell_size) one = tsr__mul_sat(cells, snapshot->schema->fields[f].cell_size);
    else TSR_TRY(tsr__tile_cost(snapshot->array, item->fragment, (uint32_t)item->slots[f], tile->number, &one, error));
    bytes = tsr__add_sat(bytes, one);
  }
  tile->bytes = tsr__add_sat(tsr__mul_sat(2, bytes), (fields + 1) * (uint64_t)SLOT_OVERHEAD);
  return TSR_OK;
}

static int add_sparse_tile(void *argument, uint64_t leaf, bool inside, tsr_error *error) {
  dense_iterator *it = ((sparse_tile_search *)argument)->iterator;
  sparse_tile *memory;
  (void)inside;
  if ((it->sparse.count & (it->sparse.count - 1)) == 0) { /* the array is full at powers of two */
    TSR_TRY(TSR_ARENA_ARRAY(&it->reader->window.arena, TSR_MAX(1, 2 * it->sparse.count), &memory, error));
    if (it->sparse.count) memcpy(memory, it->sparse.tiles, it->sparse.count * sizeof(sparse_tile));
    it->sparse.tiles = memory;
  }
  sparse_tile *tile = &it->sparse.tiles[it->sparse.count++];
  *tile = (sparse_tile){.candidate = ((sparse_tile_search *)argument)->candidate, .number = leaf};
  return estimate_sparse_tile(it, tile, error);
}

/* Finds the tiles of sparse fragments whose MBRs meet the bounding box of the current tile's selected cells. */
static int find_sparse_tiles(dense_iterator *it, const tsr_space_tile *tile, tsr_error *error) {
  tsr_snapshot *snapshot = it->reader->snapshot;
  tsr_spans *spans;
  tsr_span *around;
  bool any = false;
  for (uint32_t c = 0; c < tile->count; c++) any |= tile->candidates[c].box->sparse;
  if (!any) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&it->reader->window.arena, it->dimensions, &spans, error));
  TSR_TRY(TSR_ARENA_ARRAY(&it->reader->window.arena, it->dimensions, &around, error));
  for (uint32_t d = 0; d < it->dimensions; d++) {
    around[d] = (tsr_span){it->grid->low_key[d] + tile->low[d], it->grid->low_key[d] + tile->high[d]};
    spans[d] = (tsr_spans){.count = 1, .spans = &around[d]};
  }
  for (uint32_t c = 0; c < tile->count; c++) {
    if (!tile->candidates[c].box->sparse) continue;
    const tsr_rtree *rtree;
    sparse_tile_search list = {.iterator = it, .candidate = c};
    TSR_TRY(tsr__fragment_rtree(snapshot->array, snapshot->fragments[tile->candidates[c].box->fragment].fragment,
                                &rtree, error));
    TSR_TRY(tsr__rtree_query(rtree, spans, add_sparse_tile, &list, error));
  }
  return TSR_OK;
}

/* Returns true if the MBR of a sparse tile meets the subtile. */
static bool mbr_reaches(const dense_iterator *it, const tsr_subtile *subtile, const sparse_tile *tile) {
  const tsr_rtree *rtree = it->reader->snapshot->fragments[fragment_of(it, tile)].fragment->metadata.rtree;
  const uint64_t *keys = rtree->keys[rtree->levels - 1] + tile->number * it->dimensions * 2;
  for (uint32_t i = 0; i < it->dimensions; i++) {
    const tsr_axis *axis = &subtile->axes[i];
    const uint32_t d = axis->dimension;
    const uint64_t low = axis->base + axis->spans[0].low, high = axis->base + axis->spans[axis->span_count - 1].high;
    if (keys[2 * d] - it->grid->low_key[d] > high || keys[2 * d + 1] - it->grid->low_key[d] < low) return false;
  }
  return true;
}

static void unpin_sparse_tile(dense_iterator *it, sparse_tile *tile) {
  tsr__reader_unpin(it->reader, tile->pinned);
  tile->pinned = NULL;
}

static void drop_sparse_tile(dense_iterator *it, sparse_tile *tile) {
  unpin_sparse_tile(it, tile);
  tsr__free(tile->cells);
  tile->cells = NULL;
}

static void drop_sparse_tiles(dense_iterator *it) {
  for (uint64_t i = 0; i < it->sparse.count; i++) drop_sparse_tile(it, &it->sparse.tiles[i]);
  it->sparse.count = 0;
}

/* Requests slots of a sparse tile: its coordinates, the requested fields, or both. Allocates room for the list of cells
 * that it owns. */
static int request_sparse_tile(dense_iterator *it, sparse_tile *tile, bool coordinates, bool fields, tsr_error *error) {
  const uint32_t f = fragment_of(it, tile);
  const tsr_snapshot_fragment *item = &it->reader->snapshot->fragments[f];
  const uint64_t cells = tsr__fragment_tile_cells(&item->fragment->metadata, tile->number);
  if (!tile->pinned) TSR_TRY(tsr__reader_pin(it->reader, f, tile->number, cells, &tile->pinned, error));
  if (!tile->cells) { TSR_TRY(TSR_ALLOC_RAW(&it->reader->memory, cells, &tile->cells, error)); }
  for (uint32_t d = 0; d < it->dimensions && coordinates; d++)
    TSR_TRY(tsr__reader_request(it->reader, tile->pinned, item->slots[d], error));
  if (item->fragment->run.uncommitted)
    TSR_TRY(tsr__reader_request(it->reader, tile->pinned,
                                tsr__fragment_system_slot(&item->fragment->metadata, TSR_SLOT_TIMES), error));
  return fields ? tsr__reader_request_fields(it->reader, tile->pinned, error) : TSR_OK;
}

/* Loads the sparse tiles that reach into a subtile, unless memory is too short for all of them, and drops all
 * others. Sets sparse.deferred if memory is too short. */
static int load_sparse_tiles(dense_iterator *it, const tsr_subtile *subtile, tsr_error *error) {
  bool any = false;
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < it->sparse.count; i++) {
    it->sparse.tiles[i].count = 0;
    it->sparse.tiles[i].reaches = mbr_reaches(it, subtile, &it->sparse.tiles[i]);
    if (it->sparse.tiles[i].reaches) bytes = tsr__add_sat(bytes, it->sparse.tiles[i].bytes);
    else drop_sparse_tile(it, &it->sparse.tiles[i]);
  }
  it->sparse.deferred = bytes > it->reader->memory.limit / DEFER_PART;
  for (uint64_t i = 0; i < it->sparse.count; i++) {
    if (it->sparse.deferred) unpin_sparse_tile(it, &it->sparse.tiles[i]);
    if (!it->sparse.tiles[i].reaches || it->sparse.tiles[i].pinned || it->sparse.deferred) continue;
    TSR_TRY(request_sparse_tile(it, &it->sparse.tiles[i], true, true, error));
    any = true;
  }
  return any ? tsr__reader_load(it->reader, error) : TSR_OK;
}

/* After a rollback to a savepoint, cells of an uncommitted fragment with numbers of at least *end no longer exist.
 * Returns the numbers of the tile's cells; NULL for all other fragments, which lose no cells to a rollback. */
static const uint64_t *rewound_numbers(const dense_iterator *it, const sparse_tile *tile, uint64_t *end) {
  const tsr_snapshot_fragment *item = &it->reader->snapshot->fragments[tile->pinned->fragment];
  if (!item->fragment->run.uncommitted || !item->cut) return NULL;
  *end = TSR_UNCOMMITTED_TIMES + item->run_end;
  const int64_t slot = tsr__fragment_system_slot(&item->fragment->metadata, TSR_SLOT_TIMES);
  return (const uint64_t *)(const void *)tile->pinned->tiles[slot]->values;
}

/* Claims, for a loaded sparse tile, the cells of the subtile that have no owner yet. If coordinates repeat, the cell
 * stored last wins. */
static void claim_sparse_tile(dense_iterator *it, const tsr_subtile *subtile, sparse_tile *tile, uint32_t none,
                              uint32_t *owners) {
  const tsr_schema *schema = it->reader->snapshot->schema;
  uint64_t end = 0;
  const uint64_t *numbers = rewound_numbers(it, tile, &end);
  for (uint32_t d = 0; d < it->dimensions; d++)
    it->scratch.coordinates[d] = tsr__pinned_coordinates(it->reader, tile->pinned, d);
  for (uint64_t cell = tile->pinned->cells; cell-- > 0;) {
    if (numbers && numbers[cell] >= end) continue;
    for (uint32_t d = 0; d < it->dimensions; d++) {
      const tsr_field *f = &schema->fields[d];
      const uint8_t *value = it->scratch.coordinates[d].values + cell * f->cell_size;
      it->scratch.ordinals[d] = tsr__key(f->datatype, value) - it->grid->low_key[d];
    }
    const int64_t position = tsr__subtile_find(subtile, it->scratch.ordinals);
    if (position < 0 || owners[position] != none) continue;
    owners[position] = tile->candidate;
    tile->cells[tile->count++] = (uint32_t)cell;
  }
}

/* Claims cells for all tiles of a sparse candidate. *left counts the cells without an owner. */
static int claim_sparse_tiles(dense_iterator *it, const tsr_subtile *subtile, uint32_t c, uint32_t none,
                              uint32_t *owners, uint64_t *left, tsr_error *error) {
  for (uint64_t i = it->sparse.count; i-- > 0 && *left > 0;) {
    sparse_tile *tile = &it->sparse.tiles[i];
    if (tile->candidate != c || !tile->reaches) continue;
    if (it->sparse.deferred) {
      TSR_TRY(request_sparse_tile(it, tile, true, false, error));
      TSR_TRY(tsr__reader_load(it->reader, error));
    }
    claim_sparse_tile(it, subtile, tile, none, owners);
    *left -= tile->count;
    if (it->sparse.deferred) unpin_sparse_tile(it, tile);
    if (it->sparse.deferred && tile->count == 0) drop_sparse_tile(it, tile);
  }
  return TSR_OK;
}

/* ---- Subtiles into batches --------------------------------------------------------------------------------------- */

static int add_part(dense_iterator *it, dense_part p, tsr_error *error) {
  if (p.count == 0) return TSR_OK;
  TSR_TRY(TSR_ARENA_GROW(&it->reader->arena, &it->parts.list, it->parts.count, &it->parts.capacity, 4, error));
  it->parts.list[it->parts.count++] = p;
  return TSR_OK;
}

static int select_cells(tsr_buffer *buffer, const tsr_subtile *subtile, uint32_t **cells, tsr_error *error) {
  buffer->size = 0;
  TSR_TRY(tsr__buffer_reserve(buffer, subtile->cells * sizeof(uint32_t), error));
  *cells = (uint32_t *)(void *)buffer->data;
  tsr__subtile_select(subtile, *cells);
  return TSR_OK;
}

/* Returns the end of the run of positions from `i` on with the same owner. Neighbours mostly share one. */
static uint64_t end_of_owner(const uint32_t *owners, uint64_t i, uint64_t cells) {
  const uint32_t owner = owners[i];
  while (++i < cells && owners[i] == owner) {}
  return i;
}

/* Sorts the cells of a subtile by owner (a counting sort), and makes a part for each dense candidate, and one for cells
 * without an owner. */
static int split_by_owner(dense_iterator *it, tsr_space_tile *tile, const tsr_subtile *subtile, const uint32_t *owners,
                          tsr_error *error) {
  tsr_reader *reader = it->reader;
  uint32_t *cells;
  TSR_TRY(select_cells(&reader->dense.selection, subtile, &cells, error));
  reader->dense.sorted.size = 0;
  TSR_TRY(tsr__buffer_reserve(&reader->dense.sorted, subtile->cells * sizeof(uint32_t), error));
  uint32_t *sorted = (uint32_t *)(void *)reader->dense.sorted.data;
  reader->columns.rowids.size = 0;
  TSR_TRY(tsr__buffer_reserve(&reader->columns.rowids, (tile->count + 2) * sizeof(uint64_t), error));
  uint64_t *ends = (uint64_t *)(void *)reader->columns.rowids.data; /* by owner: where its sorted cells end */
  memset(ends, 0, (tile->count + 2) * sizeof(uint64_t));
  for (uint64_t i = 0, end; i < subtile->cells; i = end) {
    end = end_of_owner(owners, i, subtile->cells);
    ends[owners[i] + 1] += end - i;
  }
  for (uint32_t c = 0; c <= tile->count; c++) ends[c + 1] += ends[c];
  for (uint64_t i = 0; i < subtile->cells;) {
    const uint32_t owner = owners[i];
    uint64_t to = ends[owner];
    for (const uint64_t end = end_of_owner(owners, i, subtile->cells); i < end; i++) sorted[to++] = cells[i];
    ends[owner] = to;
  }
  for (uint32_t c = 0; c <= tile->count; c++) {
    const uint64_t from = c ? ends[c - 1] : 0, n = ends[c] - from;
    if (n == 0 || (c < tile->count ? tile->candidates[c].box->sparse || tile->candidates[c].excluded
                                   : !it->reader->request.gives_unwritten))
      continue;
    if (c < tile->count) TSR_TRY(dense_pin(&it->windows, tile, &tile->candidates[c], error));
    const bool contiguous = sorted[from + n - 1] - sorted[from] == n - 1;
    TSR_TRY(add_part(it,
                     (dense_part){.pinned = c < tile->count ? tile->candidates[c].pinned : NULL,
                                  .from = c,
                                  .cells = contiguous ? NULL : sorted + from,
                                  .first = sorted[from],
                                  .count = n},
                     error));
  }
  return TSR_OK;
}

static int make_parts(dense_iterator *it, tsr_space_tile *tile, tsr_error *error) {
  const tsr_subtile *subtile = &it->subtiles.subtile;
  it->parts.count = it->parts.at = 0;
  memset(it->values_ready, 0, it->dimensions * sizeof(bool));
  if (tile->covered && tile->candidates[0].excluded) return TSR_OK;
  if (tile->covered || tile->count == 0) {
    dense_part p = {.count = subtile->cells};
    uint32_t *cells = NULL;
    if (tile->covered) {
      TSR_TRY(dense_pin(&it->windows, tile, &tile->candidates[0], error));
      p.pinned = tile->candidates[0].pinned;
    }
    if (!tsr__subtile_is_contiguous(subtile))
      TSR_TRY(select_cells(&it->reader->dense.selection, subtile, &cells, error));
    p.cells = cells;
    return add_part(it, p, error);
  }
  uint32_t *owners;
  uint64_t left = subtile->cells;
  TSR_TRY(load_sparse_tiles(it, subtile, error));
  TSR_TRY(dense_owners_reset(&it->windows, tile, subtile, &owners, error));
  for (uint32_t c = 0; c < tile->count && left > 0; c++) {
    if (tile->candidates[c].box->sparse) TSR_TRY(claim_sparse_tiles(it, subtile, c, tile->count, owners, &left, error));
    else left -= claim_box(subtile, tile, c, owners);
  }
  TSR_TRY(split_by_owner(it, tile, subtile, owners, error));
  for (uint64_t i = 0; i < it->sparse.count; i++) {
    const sparse_tile *t = &it->sparse.tiles[i];
    TSR_TRY(add_part(
        it, (dense_part){.pinned = t->pinned, .sparse = true, .from = i, .cells = t->cells, .count = t->count}, error));
  }
  return TSR_OK;
}

/* ---- The iterator ------------------------------------------------------------------------------------------------ */

/* Sets the rowids of cells that were never written: by row-major ordinal in the domain or, if the domain has too many
 * cells for that, from a range that the environment assigns to each tile on demand. */
static int number_unwritten(dense_iterator *it, const tsr_space_tile *tile, tsr_batch *batch, tsr_error *error) {
  const tsr_subtile *subtile = &it->subtiles.subtile;
  tsr_reader *reader = it->reader;
  const tsr_snapshot *snapshot = reader->snapshot;
  if (snapshot->unwritten_row_base >= 0) {
    tsr_buffer *buffer = &reader->columns.rowids;
    uint64_t stride = 1;
    buffer->size = 0;
    TSR_TRY(tsr__buffer_reserve(buffer, tsr__mul_sat(subtile->index_count, sizeof(int64_t)), error));
    for (uint32_t d = it->dimensions; d-- > 0; stride *= it->grid->last[d] + 1) it->scratch.ordinals[d] = stride;
    tsr__subtile_numbers(subtile, it->scratch.ordinals, snapshot->unwritten_row_base, (int64_t *)(void *)buffer->data);
    batch->rowids = (const int64_t *)(const void *)buffer->data;
    return TSR_OK;
  }
  tsr_buffer name = {.memory = &reader->memory};
  int rc = tsr__buffer_printf(&name, error, "never written in tile");
  for (uint32_t d = 0; d < it->dimensions && rc >= 0; d++)
    rc = tsr__buffer_printf(&name, error, " %llu", (unsigned long long)tile->at[d]);
  if (rc >= 0) rc = tsr__buffer_append_u8(&name, 0, error);
  if (rc >= 0)
    rc = tsr__environment_rows(snapshot->array->environment, snapshot->array->path, (const char *)name.data,
                               it->grid->tile_cells, &batch->row_base, error);
  tsr__buffer_release(&name);
  batch->row_base += (int64_t)subtile->origin;
  return rc;
}

static int fill_batch(dense_iterator *it, const dense_part *p, tsr_batch *batch, tsr_error *error) {
  batch->count = p->count;
  batch->selection = p->cells;
  batch->first = p->cells ? 0 : p->first;
  batch->written = p->pinned != NULL; /* find_part has loaded sparse tiles */
  if (!p->pinned) return number_unwritten(it, &it->windows.now.tiles[it->windows.tile_at], batch, error);
  batch->fragment = p->pinned->fragment;
  const tsr_fragment *fragment = it->reader->snapshot->fragments[p->pinned->fragment].fragment;
  batch->time = tsr__fragment_time(fragment);
  if (fragment->run.uncommitted)
    return tsr__uncommitted_rowids(it->reader, p->pinned, p->cells, p->count, batch, error);
  batch->row_base = fragment->row_base + (int64_t)(p->pinned->number * fragment->cells_per_tile);
  if (!p->sparse) batch->row_base += (int64_t)it->subtiles.subtile.origin;
  return TSR_OK;
}

/* Selects the cells of the current part that satisfy the predicates. */
static int test_part(dense_iterator *it, tsr_error *error) {
  dense_part *p = &it->parts.list[it->parts.at];
  tsr_buffer *room = &it->reader->predicates.passing;
  if (it->reader->predicates.count == 0 || it->reader->mode.untested) return TSR_OK;
  const uint64_t first = p->cells ? 0 : p->first;
  room->size = 0;
  TSR_TRY(tsr__buffer_reserve(room, tsr__mul_sat(p->count, sizeof(uint32_t)), error));
  uint32_t *cells = (uint32_t *)(void *)room->data;
  TSR_TRY(tsr__predicates_select(it->reader, p->pinned, (p->sparse ? 0 : it->subtiles.subtile.origin) + first, p->cells,
                                 &p->count, cells, error));
  for (uint64_t i = 0; first > 0 && i < p->count; i++) cells[i] += (uint32_t)first;
  p->cells = cells;
  return TSR_OK;
}

static void drop_dense_part(dense_iterator *it, tsr_space_tile *tile, const dense_part *p) {
  if (p->sparse || !p->pinned) return;
  tsr__reader_unpin(it->reader, tile->candidates[p->from].pinned);
  tile->candidates[p->from].pinned = NULL;
}

/* Steps to the next part. Drops the tile if only the current part needed it.
 *
 * Columns that the caller first asks for when it has the batch were not foreseen when the window was made. If they push
 * memory over half of the budget, the space tile is crowded after all, and the tiles of all earlier parts are dropped.
 * So the next part finds half of the budget free, or everything that the earlier parts took. */
static void leave_part(dense_iterator *it) {
  const dense_part *p = &it->parts.list[it->parts.at++];
  tsr_space_tile *tile = &it->windows.now.tiles[it->windows.tile_at];
  if (p->sparse && it->sparse.deferred) drop_sparse_tile(it, &it->sparse.tiles[p->from]);
  if (tile->crowded) {
    drop_dense_part(it, tile, p);
  } else if (tile->count > 1 && it->reader->memory.used > it->reader->memory.limit / 2) {
    tile->crowded = true;
    for (uint64_t i = 0; i < it->parts.at; i++) drop_dense_part(it, tile, &it->parts.list[i]);
  }
}

/* Loads what was not loaded with the subtile or the window because memory is short. */
static int load_deferred_part(dense_iterator *it, dense_part *p, tsr_error *error) {
  if (p->sparse && !p->pinned) {
    sparse_tile *tile = &it->sparse.tiles[p->from];
    TSR_TRY(request_sparse_tile(it, tile, false, it->reader->predicates.count == 0, error));
    TSR_TRY(tsr__reader_load(it->reader, error));
    p->pinned = tile->pinned;
  } else if (!p->sparse && p->pinned && it->windows.now.tiles[it->windows.tile_at].crowded &&
             it->reader->predicates.count == 0) {
    TSR_TRY(tsr__reader_request_fields(it->reader, p->pinned, error));
    TSR_TRY(tsr__reader_load(it->reader, error));
  }
  return TSR_OK;
}

/* Finds the first part, from the current one on, in which some cell satisfies the predicates. */
static int find_part(dense_iterator *it, tsr_error *error) {
  for (; it->parts.at < it->parts.count; leave_part(it)) {
    TSR_TRY(load_deferred_part(it, &it->parts.list[it->parts.at], error));
    TSR_TRY(test_part(it, error));
    if (it->parts.list[it->parts.at].count > 0) break;
  }
  return TSR_OK;
}

/* Chooses how many cells a subtile may have: fewer if it needs many cells of sparse fragments in memory. The result
 * must not depend on the requested fields, since ordered.c rereads the same rows for other fields and expects the same
 * batches. */
static uint64_t choose_subtile_cells(const dense_iterator *it, const tsr_space_tile *tile) {
  uint64_t bytes = 0;
  if (it->sparse.count == 0) return TSR_SUBTILE_CELLS;
  for (uint64_t i = 0; i < it->sparse.count; i++) bytes = tsr__add_sat(bytes, it->sparse.tiles[i].bytes);
  const uint64_t each = tsr__add_sat(bytes / TSR_MAX(tile->cells, 1), 1); /* bytes for each selected cell of the tile */
  return TSR_MIN(TSR_SUBTILE_CELLS, TSR_MAX(it->reader->memory.limit / SPARSE_TILES_PART / each, SUBTILE_CELLS_MIN));
}

static int next_batch(tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error) {
  dense_iterator *it = (dense_iterator *)iterator;
  if (it->parts.at < it->parts.count) leave_part(it);
  TSR_TRY(find_part(it, error));
  while (it->parts.at == it->parts.count) {
    const bool first = !it->subtiles.started;
    if (it->open && tsr__subtiles_next(&it->subtiles)) {
      if (!first) TSR_TRY(tsr__cancelled(&it->reader->snapshot->array->environment->memory, error));
      TSR_TRY(make_parts(it, &it->windows.now.tiles[it->windows.tile_at], error));
      TSR_TRY(find_part(it, error));
      continue;
    }
    if (it->open) {
      drop_sparse_tiles(it);
      drop_tile(&it->windows, &it->windows.now.tiles[it->windows.tile_at++]);
      it->open = false;
    }
    if (it->windows.tile_at == it->windows.now.count) {
      if (it->windows.walk.ended && !it->windows.has_next) return 0;
      TSR_TRY(dense_windows_fill(&it->windows, error));
      if (it->windows.now.count == 0) continue; /* the shortcut took all tiles */
    }
    const tsr_space_tile *tile = &it->windows.now.tiles[it->windows.tile_at];
    TSR_TRY(find_sparse_tiles(it, tile, error));
    TSR_TRY(tsr__subtiles_init(it->grid, it->windows.plan->selections, tile->at, tile->first,
                               choose_subtile_cells(it, tile), &it->reader->window.arena, &it->subtiles, error));
    it->open = true;
  }
  TSR_TRY(fill_batch(it, &it->parts.list[it->parts.at], batch, error));
  return 1;
}

/* Makes the column of a dimension, once for each subtile. */
static int dimension_column(dense_iterator *it, uint32_t d, tsr_column *column, tsr_error *error) {
  const tsr_subtile *subtile = &it->subtiles.subtile;
  const tsr_field *field = &it->reader->snapshot->schema->fields[d];
  const uint32_t axis = it->grid->col_major_cells ? it->dimensions - 1 - d : d;
  tsr_buffer *buffer = &it->reader->dense.coordinates[d];
  const bool constant = subtile->axes[axis].count == 1;
  if (!it->values_ready[d]) {
    buffer->size = 0;
    TSR_TRY(tsr__buffer_reserve(buffer, tsr__mul_sat(constant ? 1 : subtile->index_count, field->cell_size), error));
    if (constant)
      tsr__key_value(field->datatype,
                     it->grid->low_key[d] + subtile->axes[axis].base + subtile->axes[axis].spans[0].low, buffer->data);
    else tsr__subtile_values(subtile, axis, field->low, field->cell_size, buffer->data);
    it->values_ready[d] = true;
  }
  *column = (tsr_column){.values = buffer->data, .cell_size = field->cell_size, .constant = constant};
  return TSR_OK;
}

static int column_of(tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error) {
  dense_iterator *it = (dense_iterator *)iterator;
  const dense_part *p = &it->parts.list[it->parts.at];
  if (p->sparse) return tsr__pinned_column(it->reader, p->pinned, field, 0, column, error);
  if (field < it->dimensions) return dimension_column(it, field, column, error);
  if (p->pinned) return tsr__pinned_column(it->reader, p->pinned, field, it->subtiles.subtile.origin, column, error);
  *column = it->reader->columns.fills[field];
  return TSR_OK;
}

static const tsr_subtile *subtile_of(tsr_batch_iterator *iterator) {
  const dense_iterator *it = (const dense_iterator *)iterator;
  return it->parts.list[it->parts.at].sparse ? NULL : &it->subtiles.subtile;
}

static const uint8_t *needed_of(tsr_batch_iterator *iterator, uint64_t *origin) {
  const dense_iterator *it = (const dense_iterator *)iterator;
  const dense_part *p = &it->parts.list[it->parts.at];
  *origin = p->sparse ? 0 : it->subtiles.subtile.origin;
  return p->pinned ? p->pinned->needed : NULL;
}

static void close_dense(tsr_batch_iterator *iterator) {
  dense_iterator *it = (dense_iterator *)iterator;
  tsr__reader_cancel_ahead(it->reader);
  drop_sparse_tiles(it);
  dense_windows_close(&it->windows);
}

int tsr__read_dense_open(tsr_reader *reader, tsr_batch_iterator **iterator, tsr_error *error) {
  const tsr_grid *grid = &reader->snapshot->grid;
  const uint32_t n = grid->dimensions;
  dense_iterator *it;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, 1, &it, error));
  it->base = (tsr_batch_iterator){
      .next = next_batch, .column = column_of, .close = close_dense, .subtile = subtile_of, .needed = needed_of};
  it->reader = reader;
  it->grid = grid;
  it->dimensions = n;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, n, &it->scratch.ordinals, error));
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, n, &it->scratch.coordinates, error));
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, n, &it->values_ready, error));
  TSR_TRY(dense_windows_open(&it->windows, reader, error));
  *iterator = &it->base;
  return TSR_OK;
}
