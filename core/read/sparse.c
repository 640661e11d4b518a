/* sparse.c: batches of a sparse array: the newest version of each cell, unless deleted.
 *
 * Windows. Tiles of the plan are loaded in windows, each in up to three steps: first the dimensions on which cells must
 * be compared with the spans (not those on which the tile's MBR lies within them); then, for tiles with selected cells,
 * the fields that delete conditions and predicates read; then the requested fields. Fields that are certain to be
 * needed are loaded in the first step. While a window is handed out, the first step of the next window is under way.
 *
 * Streams and the merge. A tile that can share no coordinate with another tile is a stream: it becomes a batch as it
 * comes. The others go through the version merge (version_merge.c), and become batches when their cells are decided.
 * Deletes come last: first the newest version of a cell is chosen, then it is dropped if it is deleted.
 *
 * Times of cells. If the snapshot cuts a fragment's range of times, cells outside since..as_of do not exist.
 *
 * Sections: tiles and their selections; what to load of a tile; cells within the request; cells that satisfy the
 * predicates; windows; the iterator. deleted_cells.c drops the deleted cells.
 */
#include "read/reader.h"

#include <stdatomic.h>
#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "model/datatype.h"
#include "format/fragment_metadata.h"
#include "format/schema.h"
#include "array/array.h"
#include "environment/environment.h"

typedef struct sparse_window {
  tsr_sparse_tile *tiles;
  uint64_t count;
} sparse_window;

typedef struct sparse_iterator {
  tsr_batch_iterator base;
  tsr_reader *reader;
  uint64_t *order; /* indices in the plan: first `streams` tiles that need no merge, then the tiles to merge */
  uint64_t streams, count, at; /* at: the next tile to load, in `order` */
  tsr_version_merge *merge; /* NULL if no tile needs it */
  bool merging; /* all streams have been handed out */
  sparse_window now, next; /* the current window and the next one */
  uint64_t tile_at; /* the next tile of `now` to hand out */
  bool has_next; /* `next` has been made */
  bool by_coordinates; /* tsr__deletes_by_coordinates */
  tsr_sparse_tile present; /* the tile of the current batch */
  tsr_delete_filter deletes;
} sparse_iterator;

/* ---- Tiles and their selections ---------------------------------------------------------------------------------- */

int tsr__sparse_condition_field(const tsr_reader *reader, const tsr_sparse_tile *tile, const tsr_condition *condition,
                                const char *name, const tsr_field **field, int64_t *slot, tsr_error *error) {
  const tsr_snapshot *snapshot = reader->snapshot;
  return tsr__condition_field(snapshot->array, snapshot->schema, tsr__sparse_fragment(reader, tile)->fragment,
                              condition, name, field, slot, error);
}

int tsr__sparse_selection(tsr_reader *reader, tsr_sparse_tile *tile, uint32_t **cells, tsr_error *error) {
  if (!tile->cells) return TSR_ARENA_RAW(&reader->window.arena, tile->pinned->cells, cells, error);
  *cells = tile->cells;
  return TSR_OK;
}

bool tsr__sparse_has_unique_places(const tsr_reader *reader, const tsr_sparse_tile *tile) {
  const tsr_schema *schema = reader->snapshot->schema;
  const tsr_fragment *fragment = tsr__sparse_fragment(reader, tile)->fragment;
  return schema->cell_order != TSR_ORDER_HILBERT && !schema->allows_duplicates && !schema->dense &&
         schema->dimension_count <= TSR_JOINT_MAX && !fragment->metadata.has_times && !fragment->run.tiles &&
         !reader->plan.lossy;
}

/* ---- What to load of a tile ------------------------------------------------------------------------------------- */

/* Returns true if the fragment has cell times, and a delete condition older than some of its cells. */
static bool conditions_have_times(const tsr_snapshot_fragment *f) {
  for (uint32_t i = 0; i < f->condition_count; i++)
    if (f->conditions[i]->time < f->fragment->parsed.end) return f->fragment->metadata.has_times;
  return false;
}

/* Returns true if the tile's cells must be compared with the spans of dimension d: the tile's MBR alone does not show
 * that they lie within. */
static bool must_compare(const sparse_iterator *it, const tsr_sparse_tile *tile, uint32_t d) {
  const tsr_spans *spans = &it->reader->plan.spans[d];
  const tsr_rtree *rtree =
      tsr__sparse_fragment(it->reader, tile)->fragment->metadata.rtree; /* the plan has loaded it */
  if (tile->plan.inside || spans->all) return false;
  if (it->reader->plan.lossy) return true;
  const uint32_t leaf = rtree->levels - 1;
  const uint64_t at = (tile->plan.tile * rtree->dimensions + d) * 2;
  const uint64_t *keys = rtree->keys[leaf] + at, *sizes = rtree->sizes ? rtree->sizes[leaf] + at : NULL;
  if (spans->text)
    return tsr__spans_relate_text(spans, rtree->text + keys[0], sizes[0], rtree->text + keys[1], sizes[1]) !=
           TSR_INSIDE;
  return tsr__spans_relate(spans, keys[0], keys[1]) != TSR_INSIDE;
}

static int request_coordinates(sparse_iterator *it, tsr_sparse_tile *tile, bool merged, tsr_error *error) {
  const tsr_snapshot_fragment *f = tsr__sparse_fragment(it->reader, tile);
  const tsr_fragment_metadata *m = &f->fragment->metadata;
  for (uint32_t d = 0; d < it->reader->snapshot->schema->dimension_count; d++)
    if (merged || it->by_coordinates || it->reader->plan.places || must_compare(it, tile, d))
      TSR_TRY(tsr__reader_request(it->reader, tile->pinned, f->slots[d], error));
  if (m->has_times &&
      (merged || f->cut || it->reader->request.times || it->reader->snapshot->shows == TSR_SHOWS_DROPPED ||
       f->fragment->run.uncommitted || conditions_have_times(f)))
    TSR_TRY(tsr__reader_request(it->reader, tile->pinned, tsr__sparse_system_slot(f, TSR_SLOT_TIMES), error));
  if (m->has_delete_metadata)
    TSR_TRY(tsr__reader_request(it->reader, tile->pinned, tsr__sparse_system_slot(f, TSR_SLOT_DELETE_TIMES), error));
  return TSR_OK;
}

static int request_conditions(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot_fragment *f = tsr__sparse_fragment(it->reader, tile);
  for (uint32_t i = 0; i < f->condition_count; i++)
    for (uint32_t k = 0; k < f->conditions[i]->field_count; k++) {
      const tsr_field *field;
      int64_t slot;
      TSR_TRY(tsr__sparse_condition_field(it->reader, tile, f->conditions[i], f->conditions[i]->fields[k], &field,
                                          &slot, error));
      TSR_TRY(tsr__reader_request(it->reader, tile->pinned, slot, error));
    }
  return TSR_OK;
}

/* Returns true if the requested fields of a tile should be loaded only when it is handed out. The version merge holds
 * many tiles until all of their cells are decided; past half of the budget they hold their coordinates only. */
static bool must_defer_fields(const sparse_iterator *it, bool merged) {
  const tsr_memory *memory = &it->reader->memory;
  return merged && atomic_load_explicit(&memory->used, memory_order_relaxed) > memory->limit / 2;
}

/* Loads requested fields. If memory is short, succeeds without them: each loads when its column is read. */
static int load_fields(tsr_reader *reader, tsr_error *error) {
  const int rc = tsr__reader_load(reader, error);
  return tsr__lacks_memory(rc) ? TSR_OK : rc;
}

/* Requests the fields that are certain to be needed, of a tile with all cells selected. If the store prefetches, also
 * of a tile of which only some cells may be selected: rarely is none of them, and a second wait costs more than the
 * bytes of such a tile. */
static int request_certain(sparse_iterator *it, tsr_sparse_tile *tile, bool merged, tsr_error *error) {
  const tsr_snapshot_fragment *f = tsr__sparse_fragment(it->reader, tile);
  if (f->cut || (!tile->plan.inside && !tsr__store_prefetches(it->reader->snapshot->array->store))) return TSR_OK;
  TSR_TRY(request_conditions(it, tile, error));
  TSR_TRY(tsr__predicates_request(it->reader, tile->pinned, error));
  if (it->reader->predicates.count > 0 || f->condition_count > 0 || f->fragment->metadata.has_delete_metadata)
    return TSR_OK;
  return it->reader->snapshot->view.removed > 0 || must_defer_fields(it, merged)
             ? TSR_OK
             : tsr__reader_request_fields(it->reader, tile->pinned, error);
}

/* ---- Cells within the request ------------------------------------------------------------------------------------ */

/* Returns true if the spans are one value, which is *value with *size bytes. `room` has 8 bytes. */
static bool is_one_value(const tsr_spans *spans, tsr_datatype datatype, uint8_t *room, const void **value,
                         uint64_t *size) {
  if (spans->all || spans->nans || spans->count != 1) return false;
  if (spans->text) {
    const tsr_text_span *text = &spans->texts[0];
    *value = text->low;
    *size = text->low_size;
    return !text->high_open && !text->high_exclusive &&
           tsr__bytes_compare(text->low, text->low_size, text->high, text->high_size) == 0;
  }
  tsr__key_value(datatype, spans->spans[0].low, room);
  *value = room;
  return spans->spans[0].low == spans->spans[0].high;
}

/* Finds the cell of a point query by binary search. Returns 1; 0 if the cells must be compared one by one: the request
 * is not a point, several cells of the tile may have the same coordinates, or there is no cell at the point. */
static int find_point(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_schema *schema = it->reader->snapshot->schema;
  tsr_point_column columns[TSR_JOINT_MAX];
  uint8_t room[TSR_JOINT_MAX][8];
  uint32_t count = 0, cell, *cells;
  if (!tsr__sparse_has_unique_places(it->reader, tile)) return 0;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    tsr_point_column *c = &columns[count];
    *c = (tsr_point_column){.dimension = d};
    if (!is_one_value(&it->reader->plan.spans[d], schema->fields[d].datatype, room[count], &c->sought, &c->sought_size))
      return 0;
    if (!must_compare(it, tile, d)) continue; /* all cells have this coordinate */
    const tsr_coordinates coordinates = tsr__pinned_coordinates(it->reader, tile->pinned, d);
    c->values = coordinates.values;
    c->offsets = coordinates.offsets;
    count++;
  }
  if (count == 0 || !tsr__global_order_find(schema, columns, count, tile->count, &cell)) return 0;
  TSR_TRY(tsr__sparse_selection(it->reader, tile, &cells, error));
  *cells = cell;
  tile->cells = cells;
  tile->count = 1;
  return 1;
}

/* Selects the cells within the intervals of all dimensions that have one. Does nothing if there are fewer than two:
 * then select_cells selects by each dimension. Sets joint[d] for those that it has selected by. */
static int select_joint(sparse_iterator *it, tsr_sparse_tile *tile, bool *joint, tsr_error *error) {
  const tsr_schema *schema = it->reader->snapshot->schema;
  tsr_select_column columns[TSR_JOINT_MAX];
  uint32_t *cells, count = 0;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_spans *spans = &it->reader->plan.spans[d];
    joint[d] = count < TSR_JOINT_MAX && tsr__spans_are_one(spans) && must_compare(it, tile, d);
    if (joint[d])
      columns[count++] = (tsr_select_column){spans, schema->fields[d].datatype,
                                             tsr__pinned_coordinates(it->reader, tile->pinned, d).values};
  }
  if (count < 2) return memset(joint, 0, schema->dimension_count * sizeof *joint), TSR_OK;
  TSR_TRY(tsr__sparse_selection(it->reader, tile, &cells, error));
  tile->count = tsr__select_joint(columns, count, tile->count, cells);
  tile->cells = cells;
  return TSR_OK;
}

/* Selects the cells at the places that the plan is for. */
static int select_places(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_schema *schema = it->reader->snapshot->schema;
  tsr_coordinates coordinates[TSR_JOINT_MAX];
  uint32_t *cells;
  for (uint32_t d = 0; d < schema->dimension_count; d++)
    coordinates[d] = tsr__pinned_coordinates(it->reader, tile->pinned, d);
  const tsr_place_tile sought = {.rtree = tsr__sparse_fragment(it->reader, tile)->fragment->metadata.rtree,
                                 .number = tile->plan.tile,
                                 .cells = tile->count,
                                 .coordinates = coordinates,
                                 .unique = tsr__sparse_has_unique_places(it->reader, tile)};
  TSR_TRY(tsr__sparse_selection(it->reader, tile, &cells, error));
  tile->count = tsr__place_window_cells(it->reader->plan.places, schema, &sought, cells);
  tile->cells = cells;
  return TSR_OK;
}

/* Selects the cells within the spans. */
static int select_within(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_schema *schema = it->reader->snapshot->schema;
  bool joint[TSR_MAX_DIMENSIONS];
  uint32_t *cells;
  const int found = find_point(it, tile, error);
  if (found != 0) return found;
  TSR_TRY(select_joint(it, tile, joint, error));
  for (uint32_t d = 0; d < schema->dimension_count && tile->count > 0; d++) {
    const tsr_spans *spans = &it->reader->plan.spans[d];
    if (joint[d] || !must_compare(it, tile, d)) continue;
    const tsr_coordinates c = tsr__pinned_coordinates(it->reader, tile->pinned, d);
    TSR_TRY(tsr__sparse_selection(it->reader, tile, &cells, error));
    tile->count = spans->text
                      ? tsr__spans_select_text(spans, c.values, c.offsets, tile->cells, tile->count, cells)
                      : tsr__spans_select(spans, schema->fields[d].datatype, c.values, tile->cells, tile->count, cells);
    tile->cells = cells;
  }
  return TSR_OK;
}

/* Selects the cells within the spans, or at the places, and within the snapshot's times. */
static int select_cells(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot *snapshot = it->reader->snapshot;
  const tsr_snapshot_fragment *f = tsr__sparse_fragment(it->reader, tile);
  uint32_t *cells;
  tile->count = tile->pinned->cells;
  TSR_TRY(it->reader->plan.places ? select_places(it, tile, error) : select_within(it, tile, error));
  if (!f->cut || !f->fragment->metadata.has_times || tile->count == 0) return TSR_OK;
  const uint64_t *times = tsr__sparse_times(it->reader, tile, TSR_SLOT_TIMES);
  const uint64_t since = f->fragment->run.uncommitted ? 0 : snapshot->since;
  const uint64_t as_of = f->fragment->run.uncommitted ? TSR_UNCOMMITTED_TIMES + f->run_end - 1 : snapshot->as_of;
  uint64_t n = 0;
  TSR_TRY(tsr__sparse_selection(it->reader, tile, &cells, error));
  for (uint64_t i = 0; i < tile->count; i++) {
    const uint32_t cell = tile->cells ? tile->cells[i] : (uint32_t)i;
    cells[n] = cell;
    n += times[cell] >= since && times[cell] <= as_of;
  }
  tile->cells = cells;
  tile->count = n;
  return TSR_OK;
}

/* ---- Cells that satisfy the predicates --------------------------------------------------------------------------- */

/* Drops cells that do not satisfy the predicates. */
static int apply_predicates(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  uint32_t *cells;
  if (it->reader->predicates.count == 0 || it->reader->mode.untested || tile->count == 0) return TSR_OK;
  TSR_TRY(tsr__sparse_selection(it->reader, tile, &cells, error));
  TSR_TRY(tsr__predicates_select(it->reader, tile->pinned, 0, tile->cells, &tile->count, cells, error));
  tile->cells = cells;
  return TSR_OK;
}

/* Marks the blocks of a tile that are needed, for a caller that leaves out the others. If none is, the tile is left
 * without selected cells. */
static int mark_tile(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  if (!it->reader->mode.skips || it->reader->predicates.count == 0 || tile->count == 0 || tile->pinned->needed ||
      !tsr__predicates_may_mark(it->reader, tile->pinned))
    return TSR_OK;
  TSR_TRY(tsr__predicates_mark(it->reader, &tile->pinned, 1, error));
  if (!tsr__predicates_marked_any(tile->pinned)) tile->count = 0;
  return TSR_OK;
}

/* ---- Windows ---------------------------------------------------------------------------------------------------- */

/* Offers a stream to the whole-tile shortcut, if all of its cells are selected and none can be deleted. Returns 1 if
 * they are taken, 0 if not, or < 0. */
static int offer_whole_tile(sparse_iterator *it, const tsr_plan_tile *planned, uint64_t cells, tsr_error *error) {
  const tsr_snapshot_fragment *f = &it->reader->snapshot->fragments[planned->fragment];
  if (!tsr__reader_offers(it->reader) || !planned->inside || f->cut || f->condition_count > 0) return 0;
  if (f->fragment->metadata.has_delete_metadata || it->reader->snapshot->view.removed > 0) return 0;
  if (it->reader->snapshot->shows == TSR_SHOWS_DROPPED) return 0;
  const tsr_whole_tile whole = {.fragment = planned->fragment, .tile = planned->tile, .cells = cells};
  return it->reader->mode.take(it->reader->mode.take_argument, &whole, error);
}

#define SORT_WORDS 4 /* of a cell whose keys the version merge sorts */

/* Inspects a planned tile. Returns 1 if it belongs in the window, and sets *bytes to the memory that it will take; 0 if
 * statistics exclude it or the shortcut took it; < 0: error. */
static int inspect_tile(sparse_iterator *it, const tsr_plan_tile *planned, uint64_t cells, bool merged, uint64_t *bytes,
                        tsr_error *error) {
  tsr_reader *reader = it->reader;
  if (!merged) { /* tiles to be merged may hide older versions of their cells */
    const int excluded = tsr__predicates_exclude(reader, planned->fragment, planned->tile, error);
    if (excluded > 0) tsr__count(reader->snapshot->array->environment, TSR_COUNT_tiles_skipped_by_value, 1);
    if (excluded != 0) return excluded < 0 ? excluded : 0;
    const int taken = offer_whole_tile(it, planned, cells, error);
    if (taken != 0) return taken < 0 ? taken : 0;
  }
  TSR_TRY(tsr__reader_cost(reader, planned->fragment, planned->tile, bytes, error));
  const uint64_t words = (uint64_t)reader->snapshot->schema->dimension_count + 1 + (merged ? SORT_WORDS : 0);
  *bytes = tsr__add_sat(*bytes, tsr__mul_sat(cells, 8 * words));
  return 1;
}

static void drop_tile(sparse_iterator *it, tsr_sparse_tile *tile) {
  tsr__reader_unpin(it->reader, tile->pinned);
  tile->pinned = NULL;
}

/* Fills a window with the next tiles, up to `end` in the order, requests what loads with them, and sets *bytes to the
 * memory that they will take. `merged`: the tiles go to the version merge. The first tile always goes in, unless the
 * window is made `ahead`; others go in as the budget and the limit allow. After an error the window has the tiles
 * before the one at it->at. */
static int make_window(sparse_iterator *it, sparse_window *w, uint64_t end, bool merged, bool ahead, uint64_t *bytes,
                       tsr_error *error) {
  tsr_reader *reader = it->reader;
  const uint64_t tiles_max = tsr__reader_window(reader), budget = reader->memory.limit / 4;
  tsr_arena *arena = ahead ? &reader->window.ahead.arena : &reader->window.arena;
  uint64_t cells = 0;
  *w = (sparse_window){0};
  *bytes = 0;
  tsr__arena_reset(arena);
  TSR_TRY(TSR_ARENA_ARRAY(arena, tiles_max, &w->tiles, error));
  for (; w->count < tiles_max && it->at < end; it->at++) {
    const tsr_plan_tile *planned = &reader->plan.tiles[it->order[it->at]];
    const tsr_fragment *fragment = reader->snapshot->fragments[planned->fragment].fragment;
    const uint64_t n = tsr__fragment_tile_cells(&fragment->metadata, planned->tile),
                   requests = reader->window.requests.size;
    uint64_t cost;
    int rc = inspect_tile(it, planned, n, merged, &cost, error);
    if (rc < 0) return rc;
    if (rc == 0) continue;
    const uint64_t sum = tsr__add_sat(*bytes, cost);
    if ((ahead || w->count > 0) && sum > budget) break;
    tsr_sparse_tile *tile = &w->tiles[w->count];
    *tile = (tsr_sparse_tile){.plan = *planned};
    TSR_TRY(tsr__reader_pin(reader, planned->fragment, planned->tile, n, &tile->pinned, error));
    rc = request_coordinates(it, tile, merged, error);
    if (rc >= 0) rc = request_certain(it, tile, merged, error);
    if (rc < 0) {
      reader->window.requests.size = requests;
      drop_tile(it, tile);
      return rc;
    }
    w->count++;
    *bytes = sum;
    if (!planned->inside) continue;
    cells = tsr__add_sat(cells, n);
    if (tsr__reader_suffices(reader, cells)) {
      it->at++;
      break;
    }
  }
  return TSR_OK;
}

/* Makes the next window and starts to load it. Ignores errors: if they persist, they are reported when the window
 * becomes the current one. */
static int begin_next_window(sparse_iterator *it, uint64_t end, bool merged, tsr_error *error) {
  tsr_error ignored;
  uint64_t bytes;
  if (it->at >= end || it->has_next || !tsr__reader_may_load_ahead(it->reader)) return TSR_OK;
  const int rc = make_window(it, &it->next, end, merged, true, &bytes, &ignored);
  TSR_TRY(tsr__only_cancelled(rc, &ignored, error));
  it->has_next = it->next.count > 0;
  return it->has_next ? tsr__reader_load_ahead(it->reader, bytes, error) : TSR_OK;
}

/* Loads the next window and selects the cells of its tiles. Cells to be merged are not tested yet, since it is unknown
 * which versions are the newest. */
static int fill_window(sparse_iterator *it, uint64_t end, bool merged, tsr_error *error) {
  tsr_reader *reader = it->reader;
  uint64_t bytes;
  if (reader->progress.window_tiles > 1) /* for the first window, the start has just checked */
    TSR_TRY(tsr__cancelled(&reader->snapshot->array->environment->memory, error));
  it->tile_at = 0;
  it->now.count = 0;
  if (it->has_next) {
    it->now = it->next;
    it->next = (sparse_window){0};
    it->has_next = false;
    TSR_TRY(tsr__reader_finish_ahead(reader, error));
  } else {
    TSR_TRY(make_window(it, &it->now, end, merged, false, &bytes, error));
    TSR_TRY(tsr__reader_load(reader, error));
  }
  if (!merged && reader->progress.limit == 0) TSR_TRY(begin_next_window(it, end, merged, error));
  for (uint64_t i = 0; i < it->now.count; i++) {
    TSR_TRY(select_cells(it, &it->now.tiles[i], error));
    if (it->by_coordinates) TSR_TRY(tsr__delete_filter_choose(&it->deletes, &it->now.tiles[i], error));
    if (it->now.tiles[i].count > 0) TSR_TRY(request_conditions(it, &it->now.tiles[i], error));
    if (it->now.tiles[i].count > 0) TSR_TRY(tsr__predicates_request(reader, it->now.tiles[i].pinned, error));
  }
  TSR_TRY(tsr__reader_load(reader, error));
  const bool deferred = must_defer_fields(it, merged);
  for (uint64_t i = 0; i < it->now.count; i++) {
    tsr_sparse_tile *tile = &it->now.tiles[i];
    if (!merged) TSR_TRY(tsr__delete_filter_apply(&it->deletes, tile, error));
    if (!merged) TSR_TRY(apply_predicates(it, tile, error));
    if (!merged) TSR_TRY(mark_tile(it, tile, error));
    reader->progress.given = tsr__add_sat(reader->progress.given, tile->count);
    if (deferred || (merged && reader->predicates.count > 0)) continue; /* it is not yet known which cells win */
    if (tile->count > 0) TSR_TRY(tsr__reader_request_fields(reader, tile->pinned, error));
  }
  return load_fields(reader, error); /* fields first read after the window was made ahead may not fit in memory */
}

/* ---- The iterator ------------------------------------------------------------------------------------------------ */

/* Steps to the next stream that has cells: 1; 0 at the end; < 0: error. */
static int next_stream(sparse_iterator *it, tsr_error *error) {
  for (;;) {
    while (it->tile_at < it->now.count) {
      tsr_sparse_tile *tile = &it->now.tiles[it->tile_at++];
      if (tile->count > 0) {
        it->present = *tile;
        tile->pinned = NULL;
        return 1;
      }
      drop_tile(it, tile);
    }
    if (it->at >= it->streams && !it->has_next) return 0;
    TSR_TRY(fill_window(it, it->streams, false, error));
    TSR_TRY(begin_next_window(it, it->streams, false, error));
  }
}

static int next_merged(sparse_iterator *it, tsr_error *error) {
  for (;;) {
    const int rc = tsr__version_merge_next(it->merge, &it->present, error);
    if (rc < 0 || rc == TSR_VERSION_MERGE_END) return rc;
    if (rc == TSR_VERSION_MERGE_TILE) {
      TSR_TRY(tsr__delete_filter_apply(&it->deletes, &it->present, error));
      TSR_TRY(apply_predicates(it, &it->present, error));
      TSR_TRY(mark_tile(it, &it->present, error));
      if (it->present.count > 0) {
        TSR_TRY(tsr__reader_request_fields(it->reader, it->present.pinned, error)); /* the fields not loaded yet */
        TSR_TRY(load_fields(it->reader, error));
        return 1;
      }
      drop_tile(it, &it->present);
      continue;
    }
    TSR_TRY(fill_window(it, it->count, true, error));
    TSR_TRY(tsr__version_merge_add(it->merge, it->now.tiles, it->now.count, error));
    it->tile_at = it->now.count;
    TSR_TRY(begin_next_window(it, it->count, true, error));
  }
}

static int next_batch(tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error) {
  sparse_iterator *it = (sparse_iterator *)iterator;
  drop_tile(it, &it->present);
  int rc = it->merging ? 0 : next_stream(it, error);
  it->merging = rc == 0;
  if (rc == 0 && it->merge) rc = next_merged(it, error);
  if (rc <= 0) return rc;
  const tsr_sparse_tile *tile = &it->present;
  const tsr_fragment *fragment = tsr__sparse_fragment(it->reader, tile)->fragment;
  batch->count = tile->count;
  batch->selection = tile->cells;
  batch->row_base = tsr__sparse_first_row(it->reader, tile);
  batch->written = true;
  batch->fragment = tile->pinned->fragment;
  batch->time = tsr__fragment_time(fragment);
  batch->times = tile->dropped;
  if (fragment->run.uncommitted) {
    rc = tsr__uncommitted_rowids(it->reader, tile->pinned, tile->cells, tile->count, batch, error);
    return rc < 0 ? rc : 1;
  }
  if (fragment->metadata.has_times && it->reader->request.times && !tile->dropped)
    batch->times = tsr__sparse_times(it->reader, tile, TSR_SLOT_TIMES);
  return 1;
}

static int column_of(tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error) {
  sparse_iterator *it = (sparse_iterator *)iterator;
  return tsr__pinned_column(it->reader, it->present.pinned, field, 0, column, error);
}

static const uint8_t *needed_of(tsr_batch_iterator *iterator, uint64_t *origin) {
  *origin = 0;
  return ((const sparse_iterator *)iterator)->present.pinned->needed;
}

static void close_sparse(tsr_batch_iterator *iterator) {
  sparse_iterator *it = (sparse_iterator *)iterator;
  tsr__reader_cancel_ahead(it->reader);
  drop_tile(it, &it->present);
  for (uint64_t i = it->tile_at; i < it->now.count; i++) drop_tile(it, &it->now.tiles[i]);
  for (uint64_t i = 0; i < it->next.count; i++) drop_tile(it, &it->next.tiles[i]);
  tsr__version_merge_close(it->merge);
  tsr__buffer_release(&it->deletes.keep);
}

/* Removes from the streams all tiles of fragments in which no cell satisfies the predicates. Tiles to be merged must
 * stay, since they may hide older versions of their cells. The version merge has its own pointer to its part of the
 * order. */
static int exclude_fragments(sparse_iterator *it, tsr_error *error) {
  enum { UNKNOWN, READ, MERGED, EXCLUDED };
  tsr_reader *reader = it->reader;
  uint8_t *decisions;
  uint64_t fragments = 0, from = it->streams;
  if (reader->predicates.count == 0) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, reader->snapshot->fragment_count, &decisions, error));
  for (uint64_t i = it->streams; i < it->count; i++) decisions[reader->plan.tiles[it->order[i]].fragment] = MERGED;
  for (uint64_t i = it->streams; i-- > 0;) { /* the tiles that stay move to the end of the streams */
    const uint32_t f = reader->plan.tiles[it->order[i]].fragment;
    if (decisions[f] == UNKNOWN) {
      const int rc = tsr__predicates_exclude_fragment(reader, f, error);
      if (rc < 0) return rc;
      decisions[f] = rc > 0 ? EXCLUDED : READ;
      fragments += rc > 0;
    }
    if (decisions[f] != EXCLUDED) it->order[--from] = it->order[i];
  }
  if (!reader->request.is_part)
    tsr__count(reader->snapshot->array->environment, TSR_COUNT_fragments_skipped, fragments);
  tsr__count(reader->snapshot->array->environment, TSR_COUNT_tiles_skipped_by_value, from);
  it->at = from;
  return TSR_OK;
}

int tsr__read_sparse_open(tsr_reader *reader, tsr_batch_iterator **iterator, tsr_error *error) {
  sparse_iterator *it;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, 1, &it, error));
  it->base = (tsr_batch_iterator){.next = next_batch, .column = column_of, .close = close_sparse, .needed = needed_of};
  it->reader = reader;
  it->deletes = (tsr_delete_filter){.reader = reader, .keep.memory = &reader->memory};
  it->by_coordinates = tsr__deletes_by_coordinates(reader->snapshot);
  it->count = reader->plan.tile_count;
  TSR_TRY(tsr__version_merge_open(reader, &it->order, &it->streams, &it->merge, error));
  const int rc = exclude_fragments(it, error);
  if (rc < 0) {
    tsr__version_merge_close(it->merge);
    return rc;
  }
  *iterator = &it->base;
  return TSR_OK;
}
