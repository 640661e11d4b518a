/* dense_window.c: walks the space tiles of a dense request lazily (walk.h), a window of them at once.
 *
 * The fragments whose boxes meet the selected cells of a space tile are its candidates, from the newest to the first
 * that covers these cells. Before a window is loaded, the shortcut may take whole tiles; of several candidates those
 * that own no selected cell are found, so that their tiles are not decoded; and statistics exclude candidates of whose
 * cells none satisfies the predicates. The next window is loaded while the caller takes rows of the present one.
 */
#include "read/dense_window.h"

#include <string.h>

#include "base/arithmetic.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/snapshot.h"
#include "read/predicate.h"
#include "read/reader.h"

#define TILES_INSPECTED_MAX 1024 /* space tiles that are inspected for one window */
#define CROWDED_EIGHTHS     5 /* eighths of the budget: if the candidates of a space tile take more, it is crowded */

/* ---- One space tile ---------------------------------------------------------------------------------------------- */

/* Finds the selected cells of the tile at which the walk stands. */
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

/* Finds the candidates of a tile, from the newest fragment to the first that covers all selected cells: older fragments
 * own none of them. */
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

int tsr__dense_owners_reset(tsr_dense_windows *w, tsr_space_tile *tile, const tsr_subtile *subtile, uint32_t **owners,
                            tsr_error *error) {
  tsr_buffer *buffer = &w->reader->dense.owners;
  buffer->size = 0;
  TSR_TRY(tsr__buffer_reserve(buffer, subtile->cells * sizeof(uint32_t), error));
  *owners = (uint32_t *)(void *)buffer->data;
  for (uint64_t i = 0; i < subtile->cells; i++) (*owners)[i] = tile->count;
  return TSR_OK;
}

uint64_t tsr__dense_claim_box(const tsr_subtile *subtile, const tsr_space_tile *tile, uint32_t c, uint32_t *owners) {
  const tsr_plan_box *box = tile->candidates[c].box;
  return tsr__subtile_claim(subtile, box->low, box->high, c, tile->count, owners);
}

/* Finds out which dense candidates own selected cells, so that no other tile is decoded. */
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
    TSR_TRY(tsr__dense_owners_reset(w, tile, &subtiles.subtile, &owners, error));
    for (uint32_t c = 0; c < tile->count && left > 0; c++) {
      if (tile->candidates[c].box->sparse) continue;
      const uint64_t owned = tsr__dense_claim_box(&subtiles.subtile, tile, c, owners);
      left -= owned;
      if (owned > 0 && !tile->candidates[c].used) {
        tile->candidates[c].used = true;
        unused--;
      }
    }
  }
  return TSR_OK;
}

int tsr__dense_pin(tsr_dense_windows *w, const tsr_space_tile *tile, tsr_candidate *c, tsr_error *error) {
  if (c->pinned) return TSR_OK;
  TSR_TRY(tsr__reader_pin(w->reader, c->box->fragment, c->number, w->grid->tile_cells, &c->pinned, error));
  c->pinned->first = tsr__grid_cell(w->grid, tile->low);
  c->pinned->end = tsr__grid_cell(w->grid, tile->high) + 1;
  return TSR_OK;
}

/* Computes the memory that the tile's used candidates will take, in bytes. */
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

/* Excludes candidates of whose cells none satisfies the predicates. Such a candidate still owns its cells; they come in
 * no batch, and its tile is not decoded. */
static int exclude_candidates(tsr_dense_windows *w, tsr_space_tile *tile, tsr_error *error) {
  for (uint32_t c = 0; c < tile->count; c++) {
    tsr_candidate *owner = &tile->candidates[c];
    if (!owner->used) continue;
    const int rc = owner->box->excluded ? 1 : tsr__tests_exclude(w->reader, owner->box->fragment, owner->number, error);
    if (rc < 0) return rc;
    owner->excluded = rc > 0;
    owner->used = !owner->excluded;
  }
  return TSR_OK;
}

void tsr__dense_drop_tile(tsr_dense_windows *w, tsr_space_tile *tile) {
  for (uint32_t c = 0; c < tile->count; c++) {
    tsr__reader_unpin(w->reader, tile->candidates[c].pinned);
    tile->candidates[c].pinned = NULL;
  }
}

/* Offers the tile to the whole-tile shortcut, if its selected cells are a box, and all that its one fragment wrote of
 * the tile. Returns 1 if they are taken, 0, or < 0. */
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
  return w->reader->shortcut.take(w->reader->shortcut.argument, &whole, error);
}

/* Offers the tiles before the next one that a cover meets, or some of them, to the whole-tile shortcut as one box.
 * Returns 1 if they are taken, and the walk stands after them; 0; or < 0. */
static int offer_gap(tsr_dense_windows *w, tsr_error *error) {
  tsr_whole_tile whole = {.fragment = TSR_NO_FRAGMENT, .low = w->gap_box, .high = w->gap_box + w->dimensions};
  if (!tsr__reader_offers(w->reader)) return 0;
  if (!tsr__walk_gap(&w->walk, w->gap_box, w->gap_box + w->dimensions, &whole.cells)) return 0;
  const int rc = w->reader->shortcut.take(w->reader->shortcut.argument, &whole, error);
  if (rc > 0) tsr__walk_pass(&w->walk);
  return rc;
}

/* Inspects the tile at which the walk stands. Returns 1 if it goes into the window, and sets *bytes to the memory that
 * it will take; 0 if the shortcut took it, or none of its cells can come in a batch; < 0: error. */
static int inspect_tile(tsr_dense_windows *w, tsr_space_tile *tile, uint64_t *bytes, tsr_error *error) {
  TSR_TRY(select_in_tile(w, tile, error));
  TSR_TRY(find_candidates(w, tile, error));
  if (tile->count == 0 && !w->reader->request.gives_unwritten) return 0;
  const int taken = offer_whole_tile(w, tile, error);
  if (taken != 0) return taken < 0 ? taken : 0;
  *bytes = 0;
  if (w->making.loads) TSR_TRY(mark_used(w, tile, error));
  if (w->reader->tests.count > 0) TSR_TRY(exclude_candidates(w, tile, error));
  if (w->making.loads) TSR_TRY(dense_window_cost(w, tile, bytes, error));
  return 1;
}

/* Requests what is loaded with the window: with predicates only the fields that they read, else all requested
 * fields. */
static int dense_window_request_tile(tsr_dense_windows *w, tsr_space_tile *tile, tsr_error *error) {
  tsr_reader *reader = w->reader;
  for (uint32_t c = 0; c < tile->count && w->making.loads; c++) {
    if (tile->candidates[c].excluded)
      tsr__count(reader->snapshot->array->environment, TSR_COUNT_tiles_skipped_by_value, 1);
    if (!tile->candidates[c].used || tile->crowded) continue;
    TSR_TRY(tsr__dense_pin(w, tile, &tile->candidates[c], error));
    if (reader->tests.count > 0) TSR_TRY(tsr__tests_request(reader, tile->candidates[c].pinned, error));
    else TSR_TRY(tsr__reader_request_fields(reader, tile->candidates[c].pinned, error));
  }
  return TSR_OK;
}

/* ---- Windows ----------------------------------------------------------------------------------------------------- */

/* Fills a window with the next tiles, requests what is to be loaded of them, and sets *bytes to the memory that they
 * will take. The first tile always goes in, unless the window is made `ahead`; others go in as the budget and the limit
 * allow. After an error the window has the tiles before the one at which the walk still stands. */
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
      tsr__dense_drop_tile(w, tile);
      return rc;
    }
    tsr__walk_next(&w->walk);
    if (tsr__reader_suffices(reader, window->cells)) break;
  }
  return TSR_OK;
}

/* Loads the fields that no predicate reads, of tiles in which some cell satisfies the predicates. */
static int load_untested_fields(tsr_dense_windows *w, tsr_error *error) {
  for (uint64_t i = 0; i < w->now.count; i++)
    for (uint32_t c = 0; c < w->now.tiles[i].count; c++) {
      tsr_pinned_tile *pinned = w->now.tiles[i].candidates[c].pinned;
      if (!pinned) continue;
      const int rc = w->reader->request.untested ? 1 : tsr__tests_any(w->reader, pinned, error);
      if (rc < 0) return rc;
      if (rc > 0) TSR_TRY(tsr__reader_request_fields(w->reader, pinned, error));
    }
  return tsr__reader_load(w->reader, error);
}

/* Makes the next window the present one. Loads fields that the caller has started to read since it was requested. */
static int take_next_window(tsr_dense_windows *w, tsr_error *error) {
  w->now = w->next;
  w->next = (tsr_dense_window){0};
  w->has_next = false;
  TSR_TRY(tsr__reader_take_ahead(w->reader, error));
  if (w->reader->tests.count > 0) return TSR_OK;
  for (uint64_t i = 0; i < w->now.count; i++)
    for (uint32_t c = 0; c < w->now.tiles[i].count; c++) {
      tsr_pinned_tile *pinned = w->now.tiles[i].candidates[c].pinned;
      if (pinned) TSR_TRY(tsr__reader_request_fields(w->reader, pinned, error));
    }
  return tsr__reader_load(w->reader, error);
}

/* Makes the next window and starts to load it. Errors are ignored: if they last, they are met again when the window
 * becomes the present one. */
static int begin_next_window(tsr_dense_windows *w, tsr_error *error) {
  tsr_error ignored;
  uint64_t bytes;
  if (w->walk.ended || !tsr__reader_may_ahead(w->reader)) return TSR_OK;
  const int rc = make_dense_window(w, &w->next, true, &bytes, &ignored);
  TSR_TRY(tsr__only_cancelled(rc, &ignored, error));
  w->has_next = w->next.count > 0;
  return w->has_next ? tsr__reader_load_ahead(w->reader, bytes, error) : TSR_OK;
}

int tsr__dense_windows_fill(tsr_dense_windows *w, tsr_error *error) {
  tsr_reader *reader = w->reader;
  uint64_t bytes;
  if (reader->progress.window_tiles > 1) /* before the first window, the start has just checked */
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
  return reader->tests.count > 0 && reader->tests.has_other_fields ? load_untested_fields(w, error) : TSR_OK;
}

/* ---- A request --------------------------------------------------------------------------------------------------- */

/* Excludes dense fragments of which no cell satisfies the predicates by their own statistics. They still own their
 * cells. */
static int exclude_dense_fragments(tsr_reader *reader, tsr_error *error) {
  uint64_t excluded = 0;
  if (reader->tests.count == 0) return TSR_OK;
  for (uint64_t i = 0; i < reader->plan.box_count; i++) {
    tsr_plan_box *box = &reader->plan.boxes[i];
    if (box->sparse) continue;
    const int rc = tsr__tests_exclude_fragment(reader, box->fragment, error);
    if (rc < 0) return rc;
    box->excluded = rc > 0;
    excluded += box->excluded;
  }
  if (!reader->request.is_part) tsr__count(reader->snapshot->array->environment, TSR_COUNT_fragments_skipped, excluded);
  return TSR_OK;
}

int tsr__dense_windows_open(tsr_dense_windows *w, tsr_reader *reader, tsr_error *error) {
  const tsr_grid *grid = &reader->snapshot->grid;
  *w = (tsr_dense_windows){.reader = reader, .plan = &reader->plan, .grid = grid, .dimensions = grid->dimensions};
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, 2 * w->dimensions, &w->gap_box, error));
  TSR_TRY(tsr__walk_open(w->plan, grid, reader->request.gives_unwritten, reader->shortcut.take != NULL, &reader->arena,
                         &w->walk, error));
  return exclude_dense_fragments(reader, error);
}

void tsr__dense_windows_close(tsr_dense_windows *w) {
  for (uint64_t i = w->tile_at; i < w->now.count; i++) tsr__dense_drop_tile(w, &w->now.tiles[i]);
  for (uint64_t i = 0; i < w->next.count; i++) tsr__dense_drop_tile(w, &w->next.tiles[i]);
}
