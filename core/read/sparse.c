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
 * Times of cells. If the snapshot cuts a fragment's range of times, cells outside since..as_of do not exist. A cell is
 * deleted if its deletion time is not later than as_of. A delete condition applies to cells of its own time or older.
 *
 * What was dropped. A snapshot may show the cells that its conditions delete, instead of the others (seen.c). The plan
 * then leaves out the tiles that can have none (read/dropped.c).
 *
 * Sections: what to load of a tile; cells within the request; deleted cells; cells that deletes have dropped; cells
 * that satisfy the predicates; windows; the iterator.
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
  bool by_coordinates; /* drops_by_coordinates */
  tsr_sparse_tile present; /* the tile of the current batch */
  tsr_buffer keep; /* scratch: a byte per selected cell; 0 drops it */
} sparse_iterator;

static const tsr_snapshot_fragment *fragment_of(const sparse_iterator *it, const tsr_sparse_tile *tile) {
  return &it->reader->snapshot->fragments[tile->plan.fragment];
}

static int64_t system_slot(const tsr_snapshot_fragment *f, tsr_system_column system_column) {
  return tsr__fragment_system_slot(&f->fragment->metadata, system_column);
}

static const uint64_t *system_values(const sparse_iterator *it, const tsr_sparse_tile *tile,
                                     tsr_system_column system_column) {
  return (const uint64_t *)(const void *)tile->pinned->tiles[system_slot(fragment_of(it, tile), system_column)]->values;
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
  const tsr_rtree *rtree = fragment_of(it, tile)->fragment->metadata.rtree; /* the plan has loaded it */
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
  const tsr_snapshot_fragment *f = fragment_of(it, tile);
  const tsr_fragment_metadata *m = &f->fragment->metadata;
  for (uint32_t d = 0; d < it->reader->snapshot->schema->dimension_count; d++)
    if (merged || it->by_coordinates || it->reader->plan.places || must_compare(it, tile, d))
      TSR_TRY(tsr__reader_request(it->reader, tile->pinned, f->slots[d], error));
  if (m->has_times &&
      (merged || f->cut || it->reader->request.times || it->reader->snapshot->shows == TSR_SHOWS_DROPPED ||
       f->fragment->run.uncommitted || conditions_have_times(f)))
    TSR_TRY(tsr__reader_request(it->reader, tile->pinned, system_slot(f, TSR_SLOT_TIMES), error));
  if (m->has_delete_metadata)
    TSR_TRY(tsr__reader_request(it->reader, tile->pinned, system_slot(f, TSR_SLOT_DELETE_TIMES), error));
  return TSR_OK;
}

static int find_field(const sparse_iterator *it, const tsr_sparse_tile *tile, const tsr_condition *condition,
                      const char *name, const tsr_field **field, int64_t *slot, tsr_error *error) {
  const tsr_snapshot *snapshot = it->reader->snapshot;
  return tsr__condition_field(snapshot->array, snapshot->schema, fragment_of(it, tile)->fragment, condition, name,
                              field, slot, error);
}

static int request_conditions(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot_fragment *f = fragment_of(it, tile);
  for (uint32_t i = 0; i < f->condition_count; i++)
    for (uint32_t k = 0; k < f->conditions[i]->field_count; k++) {
      const tsr_field *field;
      int64_t slot;
      TSR_TRY(find_field(it, tile, f->conditions[i], f->conditions[i]->fields[k], &field, &slot, error));
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
  const tsr_snapshot_fragment *f = fragment_of(it, tile);
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

/* Returns the tile's selection for writing; allocates one if all cells are still selected. */
static int writable_selection(sparse_iterator *it, tsr_sparse_tile *tile, uint32_t **cells, tsr_error *error) {
  if (!tile->cells) return TSR_ARENA_RAW(&it->reader->window.arena, tile->pinned->cells, cells, error);
  *cells = tile->cells;
  return TSR_OK;
}

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

/* Returns true if binary search finds the cell of a place: the cells of a tile are in the order of their places, one at
 * each. */
static bool has_unique_places(const sparse_iterator *it, const tsr_sparse_tile *tile) {
  const tsr_schema *schema = it->reader->snapshot->schema;
  const tsr_fragment *fragment = fragment_of(it, tile)->fragment;
  return schema->cell_order != TSR_ORDER_HILBERT && !schema->allows_duplicates && !schema->dense &&
         schema->dimension_count <= TSR_JOINT_MAX && !fragment->metadata.has_times && !fragment->run.tiles &&
         !it->reader->plan.lossy;
}

/* Finds the cell of a point query by binary search. Returns 1; 0 if the cells must be compared one by one: the request
 * is not a point, several cells of the tile may have the same coordinates, or there is no cell at the point. */
static int find_point(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_schema *schema = it->reader->snapshot->schema;
  tsr_point_column columns[TSR_JOINT_MAX];
  uint8_t room[TSR_JOINT_MAX][8];
  uint32_t count = 0, cell, *cells;
  if (!has_unique_places(it, tile)) return 0;
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
  TSR_TRY(writable_selection(it, tile, &cells, error));
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
  TSR_TRY(writable_selection(it, tile, &cells, error));
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
  const tsr_place_tile sought = {.rtree = fragment_of(it, tile)->fragment->metadata.rtree,
                                 .number = tile->plan.tile,
                                 .cells = tile->count,
                                 .coordinates = coordinates,
                                 .unique = has_unique_places(it, tile)};
  TSR_TRY(writable_selection(it, tile, &cells, error));
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
    TSR_TRY(writable_selection(it, tile, &cells, error));
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
  const tsr_snapshot_fragment *f = fragment_of(it, tile);
  uint32_t *cells;
  tile->count = tile->pinned->cells;
  TSR_TRY(it->reader->plan.places ? select_places(it, tile, error) : select_within(it, tile, error));
  if (!f->cut || !f->fragment->metadata.has_times || tile->count == 0) return TSR_OK;
  const uint64_t *times = system_values(it, tile, TSR_SLOT_TIMES);
  const uint64_t since = f->fragment->run.uncommitted ? 0 : snapshot->since;
  const uint64_t as_of = f->fragment->run.uncommitted ? TSR_UNCOMMITTED_TIMES + f->run_end - 1 : snapshot->as_of;
  uint64_t n = 0;
  TSR_TRY(writable_selection(it, tile, &cells, error));
  for (uint64_t i = 0; i < tile->count; i++) {
    const uint32_t cell = tile->cells ? tile->cells[i] : (uint32_t)i;
    cells[n] = cell;
    n += times[cell] >= since && times[cell] <= as_of;
  }
  tile->cells = cells;
  tile->count = n;
  return TSR_OK;
}

/* ---- Deleted cells ----------------------------------------------------------------------------------------------- */

typedef struct condition_columns {
  sparse_iterator *iterator;
  const tsr_sparse_tile *tile;
  const tsr_condition *condition;
  tsr_column *columns; /* one for each of the condition's fields */
  uint32_t count;
} condition_columns;

static int condition_column(void *argument, const char *name, const tsr_field **field, const tsr_column **column,
                            tsr_error *error) {
  condition_columns *c = argument;
  tsr_column *out = &c->columns[c->count++];
  int64_t slot;
  TSR_TRY(find_field(c->iterator, c->tile, c->condition, name, field, &slot, error));
  if (!*field) return tsr__fail(error, TSR_ERROR, "it names the field '%s', which the array lacks", name);
  *out = (tsr_column){.constant = true, .unwritten = true};
  if (slot >= 0) tsr__reader_slot_column(c->iterator->reader, c->tile->pinned, *field, slot, 0, out);
  *column = out;
  return TSR_OK;
}

/* Keeps the selected cells whose keep[position] is not 0. */
static int keep_selected(sparse_iterator *it, tsr_sparse_tile *tile, const uint8_t *keep, tsr_error *error) {
  uint32_t *cells;
  uint64_t n = 0;
  if (!memchr(keep, 0, tile->count)) return TSR_OK;
  TSR_TRY(writable_selection(it, tile, &cells, error));
  for (uint64_t i = 0, word; i < tile->count; i++) {
    if (i + sizeof word <= tile->count) { /* often few are kept: skip 8 cells at once if none of them is */
      memcpy(&word, keep + i, sizeof word);
      if (word == 0) {
        i += sizeof word - 1;
        continue;
      }
    }
    cells[n] = tile->cells ? tile->cells[i] : (uint32_t)i;
    n += keep[i] != 0;
  }
  tile->cells = cells;
  tile->count = n;
  return TSR_OK;
}

/* Sets it->keep[position] to 0 for the selected cells whose values the condition deletes, else to another value. */
static int evaluate_condition(sparse_iterator *it, const tsr_sparse_tile *tile, const tsr_condition *condition,
                              tsr_error *error) {
  condition_columns columns = {.iterator = it, .tile = tile, .condition = condition};
  TSR_TRY(TSR_ARENA_ARRAY(&it->reader->window.arena, condition->field_count, &columns.columns, error));
  if (tsr__condition_evaluate(condition, condition_column, &columns, tile->cells, tile->count, it->keep.data,
                              &it->reader->memory, error) < 0)
    return tsr__wrap(error, "fragment %s, tile %llu", fragment_of(it, tile)->fragment->name,
                     (unsigned long long)tile->plan.tile);
  return TSR_OK;
}

/* The same, but the condition does not delete cells that are newer than itself. */
static int evaluate_condition_at_time(sparse_iterator *it, const tsr_sparse_tile *tile, const tsr_condition *condition,
                                      tsr_error *error) {
  const tsr_snapshot_fragment *f = fragment_of(it, tile);
  TSR_TRY(evaluate_condition(it, tile, condition, error));
  if (f->fragment->metadata.has_times && condition->time < f->fragment->parsed.end) {
    const uint64_t *times = system_values(it, tile, TSR_SLOT_TIMES);
    for (uint64_t i = 0; i < tile->count; i++)
      it->keep.data[i] |= times[tile->cells ? tile->cells[i] : i] > condition->time;
  }
  return TSR_OK;
}

static int apply_condition(sparse_iterator *it, tsr_sparse_tile *tile, const tsr_condition *condition,
                           tsr_error *error) {
  TSR_TRY(evaluate_condition_at_time(it, tile, condition, error));
  return keep_selected(it, tile, it->keep.data, error);
}

static int64_t first_row(const sparse_iterator *it, const tsr_sparse_tile *tile) {
  const tsr_fragment *fragment = fragment_of(it, tile)->fragment;
  return fragment->row_base + (int64_t)(tile->plan.tile * fragment->cells_per_tile);
}

/* Sets it->keep[position] to 0 for the selected rows that the transaction has deleted, else to 1. Returns 1; 0 if there
 * is no such row, and `keep` is not set. */
static int find_removed(sparse_iterator *it, const tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot *snapshot = it->reader->snapshot;
  const bool uncommitted = fragment_of(it, tile)->fragment->run.uncommitted;
  const uint64_t *times = uncommitted ? system_values(it, tile, TSR_SLOT_TIMES) : NULL;
  const int64_t first = first_row(it, tile);
  if (snapshot->view.removed == 0 || tile->count == 0) return 0;
  if (!uncommitted &&
      !snapshot->view.functions->hides_some(snapshot->view.writer, first, first + (int64_t)tile->pinned->cells - 1))
    return 0;
  it->keep.size = 0;
  TSR_TRY(tsr__buffer_reserve(&it->keep, tile->count, error));
  for (uint64_t i = 0; i < tile->count; i++) {
    const uint32_t cell = tile->cells ? tile->cells[i] : (uint32_t)i;
    const int64_t row = uncommitted ? tsr__uncommitted_rowid(times[cell] - TSR_UNCOMMITTED_TIMES) : first + cell;
    it->keep.data[i] = !snapshot->view.functions->hides(snapshot->view.writer, row, snapshot->view.removed);
  }
  return 1;
}

static int drop_removed(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  const int some = find_removed(it, tile, error);
  return some <= 0 ? some : keep_selected(it, tile, it->keep.data, error);
}

/* ---- Cells that deletes have dropped ----------------------------------------------------------------------------- */
/* For snapshots that show these instead of all others (TSR_SHOWS_DROPPED). */

#define NOT_DROPPED (UINT64_MAX - 1) /* UINT64_MAX: by the transaction, which has no time yet */

static void record_dropped(const sparse_iterator *it, const tsr_sparse_tile *tile, uint64_t time) {
  for (uint64_t i = 0; i < tile->count; i++) {
    uint64_t *recorded = &tile->dropped[tile->cells ? tile->cells[i] : i];
    if (!it->keep.data[i] && (*recorded == NOT_DROPPED || time < *recorded)) *recorded = time;
  }
}

/* Returns true if the snapshot has a condition of this time. */
static bool has_condition(const tsr_snapshot *snapshot, uint64_t time) {
  uint64_t low = 0, high = snapshot->condition_count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (snapshot->conditions[middle]->time < time) low = middle + 1;
    else high = middle;
  }
  return low < snapshot->condition_count && snapshot->conditions[low]->time == time;
}

/* Records the cells that a merge has marked as deleted by one of the snapshot's conditions. */
static void record_dated(const sparse_iterator *it, const tsr_sparse_tile *tile) {
  const tsr_snapshot *snapshot = it->reader->snapshot;
  if (!fragment_of(it, tile)->fragment->metadata.has_delete_metadata) return;
  const uint64_t *times = system_values(it, tile, TSR_SLOT_DELETE_TIMES);
  for (uint64_t i = 0; i < tile->count; i++) {
    const uint64_t cell = tile->cells ? tile->cells[i] : i;
    if (times[cell] <= snapshot->as_of && has_condition(snapshot, times[cell]))
      tile->dropped[cell] = TSR_MIN(tile->dropped[cell], times[cell]);
  }
}

/* Keeps the cells that were recorded; a cell that was written at the time when it was dropped, or later, gets 0. */
static int keep_recorded(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot_fragment *f = fragment_of(it, tile);
  const tsr_fragment *fragment = f->fragment;
  const uint64_t *times = fragment->metadata.has_times ? system_values(it, tile, TSR_SLOT_TIMES) : NULL;
  const uint64_t latest = TSR_MAX(f->time, fragment->parsed.end);
  for (uint64_t i = 0; i < tile->count; i++) {
    const uint64_t cell = tile->cells ? tile->cells[i] : i, written = times ? times[cell] : latest;
    it->keep.data[i] = tile->dropped[cell] != NOT_DROPPED;
    if (tile->dropped[cell] != UINT64_MAX && written >= tile->dropped[cell]) tile->dropped[cell] = 0;
  }
  return keep_selected(it, tile, it->keep.data, error);
}

/* Returns true if coordinates alone tell which cells may have been dropped: then cells are chosen before the version
 * merge, which is left with few. Other versions of a cell have its coordinates, and so are chosen, too. */
static bool drops_by_coordinates(const tsr_snapshot *snapshot) {
  if (snapshot->shows != TSR_SHOWS_DROPPED || snapshot->view.removed > 0) return false;
  for (uint64_t i = 0; i < snapshot->condition_count; i++)
    for (uint32_t k = 0; k < snapshot->conditions[i]->field_count; k++) {
      const int64_t field = tsr__schema_field(snapshot->schema, snapshot->conditions[i]->fields[k]);
      if (field < 0 || field >= snapshot->schema->dimension_count) return false;
    }
  return true;
}

#define PLACES_MAX 256u /* places of a condition's child that are looked up one by one, at most */

typedef struct value_list { /* of a dimension, within a tile's MBR */
  tsr_place_coordinate values[PLACES_MAX];
  uint32_t count;
} value_list;

/* Adds a value, unless it is beside a side of a tile's MBR, or NaN. Returns false if there are too many. */
static bool add_value(const tsr_field *dimension, const tsr_rtree *rtree, uint64_t side, const uint8_t *value,
                      uint64_t size, value_list *list) {
  const uint32_t leaf = rtree->levels - 1;
  const uint64_t *ends = rtree->keys[leaf] + side;
  tsr_place_coordinate c = {size, value};
  if (dimension->cell_size) {
    c = (tsr_place_coordinate){.key = tsr__key(dimension->datatype, value)};
    if (ends[0] <= ends[1] && (c.key < ends[0] || c.key > ends[1])) return true;
    if (c.key == TSR_KEY_NAN && tsr_datatype_kind(dimension->datatype) == TSR_KIND_FLOAT) return true;
  } else {
    const uint64_t *sizes = rtree->sizes[leaf] + side;
    if (tsr__bytes_compare(value, size, rtree->text + ends[0], sizes[0]) < 0 ||
        tsr__bytes_compare(value, size, rtree->text + ends[1], sizes[1]) > 0)
      return true;
  }
  if (list->count == PLACES_MAX) return false;
  list->values[list->count++] = c;
  return true;
}

/* Adds the values within a side of a tile's MBR for which a node is false, if it says "not in this set" of the
 * dimension; else returns false. */
static bool list_values(const tsr_condition_node *node, const tsr_field *dimension, const tsr_rtree *rtree,
                        uint64_t side, value_list *list) {
  if (node->expression) {
    if (node->op != TSR_JOIN_AND) return false;
    for (uint32_t i = 0; i < node->child_count; i++)
      if (!list_values(&node->children[i], dimension, rtree, side, list)) return false;
    return true;
  }
  const uint64_t size = dimension->cell_size;
  if ((node->op != TSR_NE && node->op != TSR_NOT_IN) || strcmp(node->field, dimension->name) != 0) return false;
  if (node->op == TSR_NE)
    return (!size || node->value_size == size) &&
           add_value(dimension, rtree, side, node->value, node->value_size, list);
  for (uint64_t i = 0; i < node->value_count; i++) {
    const uint64_t *at = node->value_offsets + i;
    if ((size && at[1] - at[0] != size) || !add_value(dimension, rtree, side, node->value + at[0], at[1] - at[0], list))
      return false;
  }
  return true;
}

/* If a condition's child is false at some places only, lists their coordinates for each dimension. Such a child is an
 * OR that says of each dimension "not in this set", or that alone if there is one dimension. Returns the number of
 * places within the tile's MBR, or -1. */
static int64_t list_places(const sparse_iterator *it, const tsr_sparse_tile *tile, const tsr_condition_node *child,
                           value_list *lists) {
  const tsr_schema *schema = it->reader->snapshot->schema;
  const tsr_rtree *rtree = fragment_of(it, tile)->fragment->metadata.rtree; /* the plan has loaded it */
  const uint32_t n = schema->dimension_count;
  const bool joins = n > 1;
  int64_t places = 1;
  if (joins && (!child->expression || child->op != TSR_JOIN_OR || child->child_count != n)) return -1;
  for (uint32_t d = 0; d < n; d++) {
    bool known = false;
    for (uint32_t i = 0; i < (joins ? n : 1) && !known; i++) {
      lists[d].count = 0;
      known = list_values(joins ? &child->children[i] : child, &schema->fields[d], rtree, (tile->plan.tile * n + d) * 2,
                          &lists[d]);
    }
    if (!known) return -1;
    places *= lists[d].count;
    if (places > PLACES_MAX) return -1;
  }
  return places;
}

/* Returns true if a cell of a tile is at a place. */
static bool is_at(const tsr_schema *schema, const tsr_point_column *sought, const tsr_place_coordinate *place,
                  uint64_t cell) {
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_point_column *c = &sought[d];
    const uint64_t size = schema->fields[d].cell_size;
    if (size ? tsr__key(schema->fields[d].datatype, c->values + cell * size) != place[d].key
             : tsr__bytes_compare(c->values + c->offsets[cell], c->offsets[cell + 1] - c->offsets[cell], place[d].text,
                                  place[d].key) != 0)
      return false;
  }
  return true;
}

/* Chooses the cells at a place. `found` has room for the tile's cells. */
static void choose_place(const sparse_iterator *it, const tsr_sparse_tile *tile, const tsr_place_coordinate *place,
                         uint32_t *found, uint8_t *chosen) {
  const tsr_schema *schema = it->reader->snapshot->schema;
  const uint32_t n = schema->dimension_count;
  tsr_point_column sought[TSR_JOINT_MAX];
  tsr_select_column columns[TSR_JOINT_MAX];
  tsr_span span[TSR_JOINT_MAX];
  tsr_spans spans[TSR_JOINT_MAX];
  uint8_t room[TSR_JOINT_MAX][8];
  bool text = false;
  for (uint32_t d = 0; d < n; d++) {
    const tsr_coordinates c = tsr__pinned_coordinates(it->reader, tile->pinned, d);
    sought[d] = (tsr_point_column){
        .dimension = d, .values = c.values, .offsets = c.offsets, .sought = place[d].text, .sought_size = place[d].key};
    text |= c.offsets != NULL;
    if (c.offsets) continue;
    tsr__key_value(schema->fields[d].datatype, place[d].key, room[d]);
    sought[d].sought = room[d];
    span[d] = (tsr_span){place[d].key, place[d].key};
    spans[d] = (tsr_spans){.count = 1, .spans = &span[d]};
    columns[d] = (tsr_select_column){&spans[d], schema->fields[d].datatype, c.values};
  }
  if (has_unique_places(it, tile) && tsr__global_order_find(schema, sought, n, tile->count, found)) {
    chosen[*found] = 1;
  } else if (text) {
    for (uint64_t cell = 0; cell < tile->count; cell++) chosen[cell] |= is_at(schema, sought, place, cell);
  } else {
    const uint64_t count = tsr__select_joint(columns, n, tile->count, found);
    for (uint64_t i = 0; i < count; i++) chosen[found[i]] = 1;
  }
}

/* Chooses the cells for which a condition's child is false, if it names places; else returns false. */
static bool choose_places(const sparse_iterator *it, const tsr_sparse_tile *tile, const tsr_condition_node *child,
                          value_list *lists, uint32_t *found, uint8_t *chosen) {
  const uint32_t n = it->reader->snapshot->schema->dimension_count;
  const int64_t places = list_places(it, tile, child, lists);
  tsr_place_coordinate place[TSR_JOINT_MAX];
  for (int64_t i = 0; i < places; i++) {
    uint64_t rest = (uint64_t)i;
    for (uint32_t d = 0; d < n; d++) {
      place[d] = lists[d].values[rest % lists[d].count];
      rest /= lists[d].count;
    }
    choose_place(it, tile, place, found, chosen);
  }
  return places >= 0;
}

/* Chooses the cells that a condition's children delete at single places, and leaves the other children in the
 * condition. Deletes of single cells come as many children; evaluating each compares it with all cells of the tile.
 * Returns 0 if none is left, else 1. */
static int choose_single_cells(sparse_iterator *it, const tsr_sparse_tile *tile, tsr_condition *narrowed,
                               uint8_t *chosen, tsr_error *error) {
  tsr_arena *arena = &it->reader->window.arena;
  tsr_condition_node *root = &narrowed->root, *left;
  value_list *lists;
  uint32_t *found, count = 0;
  if (tile->cells || it->reader->snapshot->schema->dimension_count > TSR_JOINT_MAX || it->reader->plan.lossy) return 1;
  TSR_TRY(TSR_ARENA_RAW(arena, tile->count, &found, error));
  TSR_TRY(TSR_ARENA_RAW(arena, it->reader->snapshot->schema->dimension_count, &lists, error));
  if (!root->expression || root->op != TSR_JOIN_AND) return !choose_places(it, tile, root, lists, found, chosen);
  if (root->guards) return 1; /* many children, which the index tells apart */
  TSR_TRY(TSR_ARENA_RAW(arena, root->child_count, &left, error));
  for (uint32_t i = 0; i < root->child_count; i++)
    if (!choose_places(it, tile, &root->children[i], lists, found, chosen)) left[count++] = root->children[i];
  root->children = left;
  root->child_count = count;
  if (count == 1) *root = left[0];
  return count > 0;
}

/* Chooses the cells at whose coordinates a condition, whatever its time, deletes. */
static int choose_by_coordinates(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot *snapshot = it->reader->snapshot;
  uint8_t *chosen;
  if (tile->count == 0) return TSR_OK;
  it->keep.size = 0;
  TSR_TRY(tsr__buffer_reserve(&it->keep, tile->count, error));
  TSR_TRY(TSR_ARENA_ARRAY(&it->reader->window.arena, tile->count, &chosen, error));
  for (uint64_t i = 0; i < snapshot->condition_count; i++) {
    tsr_condition narrowed = *snapshot->conditions[i];
    int some = 1;
    if (!it->reader->plan.lossy)
      TSR_TRY(some = tsr__may_drop(snapshot, tile->plan.fragment, tile->plan.tile, i, &it->reader->window.arena,
                                   &narrowed, error));
    if (some > 0) TSR_TRY(some = choose_single_cells(it, tile, &narrowed, chosen, error));
    if (some == 0) continue;
    TSR_TRY(evaluate_condition(it, tile, &narrowed, error));
    for (uint64_t k = 0; k < tile->count; k++) chosen[k] |= !it->keep.data[k];
  }
  return keep_selected(it, tile, chosen, error);
}

/* For a snapshot that shows what deletes have dropped: keeps these cells, and records when each of them was dropped. */
static int keep_dropped(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot_fragment *f = fragment_of(it, tile);
  if (tile->count == 0) return TSR_OK;
  it->keep.size = 0;
  TSR_TRY(tsr__buffer_reserve(&it->keep, tile->count, error));
  TSR_TRY(TSR_ARENA_RAW(&it->reader->window.arena, tile->pinned->cells, &tile->dropped, error));
  for (uint64_t i = 0; i < tile->count; i++) tile->dropped[tile->cells ? tile->cells[i] : i] = NOT_DROPPED;
  const int removed = it->reader->snapshot->view.writer ? find_removed(it, tile, error) : 0;
  if (removed < 0) return removed;
  if (removed > 0) record_dropped(it, tile, UINT64_MAX);
  record_dated(it, tile);
  for (uint32_t i = 0; i < f->condition_count; i++) {
    TSR_TRY(evaluate_condition_at_time(it, tile, f->conditions[i], error));
    record_dropped(it, tile, f->conditions[i]->time);
  }
  return keep_recorded(it, tile, error);
}

/* Drops the deleted cells. */
static int drop_deleted(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot_fragment *f = fragment_of(it, tile);
  const bool dated = f->fragment->metadata.has_delete_metadata;
  if (it->reader->snapshot->shows == TSR_SHOWS_ALL) return TSR_OK;
  if (it->reader->snapshot->shows == TSR_SHOWS_DROPPED) return keep_dropped(it, tile, error);
  if (it->reader->snapshot->view.writer) TSR_TRY(drop_removed(it, tile, error));
  if ((!dated && f->condition_count == 0) || tile->count == 0) return TSR_OK;
  it->keep.size = 0;
  TSR_TRY(tsr__buffer_reserve(&it->keep, tile->count, error));
  if (dated) {
    const uint64_t *times = system_values(it, tile, TSR_SLOT_DELETE_TIMES), as_of = it->reader->snapshot->as_of;
    for (uint64_t i = 0; i < tile->count; i++) {
      const uint64_t time = times[tile->cells ? tile->cells[i] : i];
      it->keep.data[i] = time > as_of || time == UINT64_MAX;
    }
    TSR_TRY(keep_selected(it, tile, it->keep.data, error));
  }
  for (uint32_t i = 0; i < f->condition_count && tile->count > 0; i++)
    TSR_TRY(apply_condition(it, tile, f->conditions[i], error));
  return TSR_OK;
}

/* ---- Cells that satisfy the predicates --------------------------------------------------------------------------- */

/* Drops cells that do not satisfy the predicates. */
static int apply_predicates(sparse_iterator *it, tsr_sparse_tile *tile, tsr_error *error) {
  uint32_t *cells;
  if (it->reader->predicates.count == 0 || it->reader->mode.untested || tile->count == 0) return TSR_OK;
  TSR_TRY(writable_selection(it, tile, &cells, error));
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
    if (it->by_coordinates) TSR_TRY(choose_by_coordinates(it, &it->now.tiles[i], error));
    if (it->now.tiles[i].count > 0) TSR_TRY(request_conditions(it, &it->now.tiles[i], error));
    if (it->now.tiles[i].count > 0) TSR_TRY(tsr__predicates_request(reader, it->now.tiles[i].pinned, error));
  }
  TSR_TRY(tsr__reader_load(reader, error));
  const bool deferred = must_defer_fields(it, merged);
  for (uint64_t i = 0; i < it->now.count; i++) {
    tsr_sparse_tile *tile = &it->now.tiles[i];
    if (!merged) TSR_TRY(drop_deleted(it, tile, error));
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
      TSR_TRY(drop_deleted(it, &it->present, error));
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
  const tsr_fragment *fragment = fragment_of(it, tile)->fragment;
  batch->count = tile->count;
  batch->selection = tile->cells;
  batch->row_base = first_row(it, tile);
  batch->written = true;
  batch->fragment = tile->pinned->fragment;
  batch->time = tsr__fragment_time(fragment);
  batch->times = tile->dropped;
  if (fragment->run.uncommitted) {
    rc = tsr__uncommitted_rowids(it->reader, tile->pinned, tile->cells, tile->count, batch, error);
    return rc < 0 ? rc : 1;
  }
  if (fragment->metadata.has_times && it->reader->request.times && !tile->dropped)
    batch->times = system_values(it, tile, TSR_SLOT_TIMES);
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
  tsr__buffer_release(&it->keep);
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
  it->keep.memory = &reader->memory;
  it->by_coordinates = drops_by_coordinates(reader->snapshot);
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
