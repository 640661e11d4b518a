/* deleted_cells.c: drops the deleted cells from the selections of a sparse array's tiles.
 *
 * Cells are deleted in three ways. A delete condition deletes the cells of its own time or older whose values it
 * names; conditions are stored negated (format/condition.h). A merge marks the cells that a condition has deleted with
 * the time of that deletion, which counts if that condition is in view. The transaction deletes rows by rowid.
 *
 * What was dropped. A snapshot may show the cells that its conditions delete, instead of the others (array/seen.c).
 * The plan then leaves out the tiles that can have none (dropped.c). Where coordinates alone tell which cells may have
 * been dropped, cells are chosen before the version merge; deletes of single cells, of which there may be many, are
 * looked up one by one instead of compared with every cell.
 *
 * Sections: conditions; rows that the transaction has deleted; when cells were dropped; cells at single places; all
 * together.
 */
#include "read/reader.h"

#include <string.h>

#include "array/array.h"
#include "format/condition.h"
#include "format/fragment_metadata.h"
#include "format/schema.h"
#include "model/datatype.h"

/* ---- Conditions -------------------------------------------------------------------------------------------------- */

typedef struct condition_columns {
  tsr_delete_filter *filter;
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
  TSR_TRY(tsr__sparse_condition_field(c->filter->reader, c->tile, c->condition, name, field, &slot, error));
  if (!*field) return tsr__fail(error, TSR_ERROR, "it names the field '%s', which the array lacks", name);
  *out = (tsr_column){.constant = true, .unwritten = true};
  if (slot >= 0) tsr__reader_slot_column(c->filter->reader, c->tile->pinned, *field, slot, 0, out);
  *column = out;
  return TSR_OK;
}

/* Keeps the selected cells whose keep[position] is not 0. */
static int keep_selected(tsr_delete_filter *filter, tsr_sparse_tile *tile, const uint8_t *keep, tsr_error *error) {
  uint32_t *cells;
  uint64_t n = 0;
  if (!memchr(keep, 0, tile->count)) return TSR_OK;
  TSR_TRY(tsr__sparse_selection(filter->reader, tile, &cells, error));
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

/* Sets filter->keep[position] to 0 for the selected cells whose values the condition deletes, else to another value. */
static int evaluate_condition(tsr_delete_filter *filter, const tsr_sparse_tile *tile, const tsr_condition *condition,
                              tsr_error *error) {
  condition_columns columns = {.filter = filter, .tile = tile, .condition = condition};
  TSR_TRY(TSR_ARENA_ARRAY(&filter->reader->window.arena, condition->field_count, &columns.columns, error));
  if (tsr__condition_evaluate(condition, condition_column, &columns, tile->cells, tile->count, filter->keep.data,
                              &filter->reader->memory, error) < 0)
    return tsr__wrap(error, "fragment %s, tile %llu", tsr__sparse_fragment(filter->reader, tile)->fragment->name,
                     (unsigned long long)tile->plan.tile);
  return TSR_OK;
}

/* The same, but the condition does not delete cells that are newer than itself. */
static int evaluate_condition_at_time(tsr_delete_filter *filter, const tsr_sparse_tile *tile,
                                      const tsr_condition *condition, tsr_error *error) {
  const tsr_snapshot_fragment *f = tsr__sparse_fragment(filter->reader, tile);
  TSR_TRY(evaluate_condition(filter, tile, condition, error));
  if (f->fragment->metadata.has_times && condition->time < f->fragment->parsed.end) {
    const uint64_t *times = tsr__sparse_times(filter->reader, tile, TSR_SLOT_TIMES);
    for (uint64_t i = 0; i < tile->count; i++)
      filter->keep.data[i] |= times[tile->cells ? tile->cells[i] : i] > condition->time;
  }
  return TSR_OK;
}

static int apply_condition(tsr_delete_filter *filter, tsr_sparse_tile *tile, const tsr_condition *condition,
                           tsr_error *error) {
  TSR_TRY(evaluate_condition_at_time(filter, tile, condition, error));
  return keep_selected(filter, tile, filter->keep.data, error);
}

/* ---- Rows that the transaction has deleted ----------------------------------------------------------------------- */

/* Sets filter->keep[position] to 0 for the selected rows that the transaction has deleted, else to 1. Returns 1; 0 if
 * there is no such row, and `keep` is not set. */
static int find_removed(tsr_delete_filter *filter, const tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot *snapshot = filter->reader->snapshot;
  const bool uncommitted = tsr__sparse_fragment(filter->reader, tile)->fragment->run.uncommitted;
  const uint64_t *times = uncommitted ? tsr__sparse_times(filter->reader, tile, TSR_SLOT_TIMES) : NULL;
  const int64_t first = tsr__sparse_first_row(filter->reader, tile);
  if (snapshot->view.removed == 0 || tile->count == 0) return 0;
  if (!uncommitted &&
      !snapshot->view.functions->hides_some(snapshot->view.writer, first, first + (int64_t)tile->pinned->cells - 1))
    return 0;
  filter->keep.size = 0;
  TSR_TRY(tsr__buffer_reserve(&filter->keep, tile->count, error));
  for (uint64_t i = 0; i < tile->count; i++) {
    const uint32_t cell = tile->cells ? tile->cells[i] : (uint32_t)i;
    const int64_t row = uncommitted ? tsr__uncommitted_rowid(times[cell] - TSR_UNCOMMITTED_TIMES) : first + cell;
    filter->keep.data[i] = !snapshot->view.functions->hides(snapshot->view.writer, row, snapshot->view.removed);
  }
  return 1;
}

static int drop_removed(tsr_delete_filter *filter, tsr_sparse_tile *tile, tsr_error *error) {
  const int some = find_removed(filter, tile, error);
  return some <= 0 ? some : keep_selected(filter, tile, filter->keep.data, error);
}

/* ---- When cells were dropped ------------------------------------------------------------------------------------- */
/* For snapshots that show these cells instead of all others (TSR_SHOWS_DROPPED). */

#define NOT_DROPPED (UINT64_MAX - 1) /* UINT64_MAX: by the transaction, which has no time yet */

static void record_dropped(const tsr_delete_filter *filter, const tsr_sparse_tile *tile, uint64_t time) {
  for (uint64_t i = 0; i < tile->count; i++) {
    uint64_t *recorded = &tile->dropped[tile->cells ? tile->cells[i] : i];
    if (!filter->keep.data[i] && (*recorded == NOT_DROPPED || time < *recorded)) *recorded = time;
  }
}

/* Returns the snapshot's condition of this time, or NULL. */
static const tsr_condition *condition_of(const tsr_snapshot *snapshot, uint64_t time) {
  uint64_t low = 0, high = snapshot->condition_count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (snapshot->conditions[middle]->time < time) low = middle + 1;
    else high = middle;
  }
  return low < snapshot->condition_count && snapshot->conditions[low]->time == time ? snapshot->conditions[low] : NULL;
}

/* Records the cells that a merge has marked as deleted by one of the snapshot's conditions. */
static void record_dated(const tsr_delete_filter *filter, const tsr_sparse_tile *tile) {
  const tsr_snapshot *snapshot = filter->reader->snapshot;
  if (!tsr__sparse_fragment(filter->reader, tile)->fragment->metadata.has_delete_metadata) return;
  const uint64_t *times = tsr__sparse_times(filter->reader, tile, TSR_SLOT_DELETE_TIMES);
  for (uint64_t i = 0; i < tile->count; i++) {
    const uint64_t cell = tile->cells ? tile->cells[i] : i;
    const tsr_condition *condition = condition_of(snapshot, times[cell]);
    if (condition) tile->dropped[cell] = TSR_MIN(tile->dropped[cell], condition->visible);
  }
}

/* Keeps the cells that were recorded; a cell that was written at the time when it was dropped, or later, gets 0. */
static int keep_recorded(tsr_delete_filter *filter, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot_fragment *f = tsr__sparse_fragment(filter->reader, tile);
  const tsr_fragment *fragment = f->fragment;
  const uint64_t *times = fragment->metadata.has_times ? tsr__sparse_times(filter->reader, tile, TSR_SLOT_TIMES) : NULL;
  const uint64_t latest = TSR_MAX(f->time, fragment->parsed.end);
  for (uint64_t i = 0; i < tile->count; i++) {
    const uint64_t cell = tile->cells ? tile->cells[i] : i, written = times ? times[cell] : latest;
    filter->keep.data[i] = tile->dropped[cell] != NOT_DROPPED;
    if (tile->dropped[cell] != UINT64_MAX && written >= tile->dropped[cell]) tile->dropped[cell] = 0;
  }
  return keep_selected(filter, tile, filter->keep.data, error);
}

/* ---- Cells at single places -------------------------------------------------------------------------------------- */

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
static int64_t list_places(const tsr_delete_filter *filter, const tsr_sparse_tile *tile,
                           const tsr_condition_node *child, value_list *lists) {
  const tsr_schema *schema = filter->reader->snapshot->schema;
  const tsr_rtree *rtree =
      tsr__sparse_fragment(filter->reader, tile)->fragment->metadata.rtree; /* the plan has loaded it */
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
static void choose_place(const tsr_delete_filter *filter, const tsr_sparse_tile *tile,
                         const tsr_place_coordinate *place, uint32_t *found, uint8_t *chosen) {
  const tsr_schema *schema = filter->reader->snapshot->schema;
  const uint32_t n = schema->dimension_count;
  tsr_point_column sought[TSR_JOINT_MAX];
  tsr_select_column columns[TSR_JOINT_MAX];
  tsr_span span[TSR_JOINT_MAX];
  tsr_spans spans[TSR_JOINT_MAX];
  uint8_t room[TSR_JOINT_MAX][8];
  bool text = false;
  for (uint32_t d = 0; d < n; d++) {
    const tsr_coordinates c = tsr__pinned_coordinates(filter->reader, tile->pinned, d);
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
  if (tsr__sparse_has_unique_places(filter->reader, tile) &&
      tsr__global_order_find(schema, sought, n, tile->count, found)) {
    chosen[*found] = 1;
  } else if (text) {
    for (uint64_t cell = 0; cell < tile->count; cell++) chosen[cell] |= is_at(schema, sought, place, cell);
  } else {
    const uint64_t count = tsr__select_joint(columns, n, tile->count, found);
    for (uint64_t i = 0; i < count; i++) chosen[found[i]] = 1;
  }
}

/* Chooses the cells for which a condition's child is false, if it names places; else returns false. */
static bool choose_places(const tsr_delete_filter *filter, const tsr_sparse_tile *tile, const tsr_condition_node *child,
                          value_list *lists, uint32_t *found, uint8_t *chosen) {
  const uint32_t n = filter->reader->snapshot->schema->dimension_count;
  const int64_t places = list_places(filter, tile, child, lists);
  tsr_place_coordinate place[TSR_JOINT_MAX];
  for (int64_t i = 0; i < places; i++) {
    uint64_t rest = (uint64_t)i;
    for (uint32_t d = 0; d < n; d++) {
      place[d] = lists[d].values[rest % lists[d].count];
      rest /= lists[d].count;
    }
    choose_place(filter, tile, place, found, chosen);
  }
  return places >= 0;
}

/* Chooses the cells that a condition's children delete at single places, and leaves the other children in the
 * condition. Deletes of single cells come as many children; evaluating each compares it with all cells of the tile.
 * Returns 0 if none is left, else 1. */
static int choose_single_cells(tsr_delete_filter *filter, const tsr_sparse_tile *tile, tsr_condition *narrowed,
                               uint8_t *chosen, tsr_error *error) {
  tsr_arena *arena = &filter->reader->window.arena;
  tsr_condition_node *root = &narrowed->root, *left;
  value_list *lists;
  uint32_t *found, count = 0;
  if (tile->cells || filter->reader->snapshot->schema->dimension_count > TSR_JOINT_MAX || filter->reader->plan.lossy)
    return 1;
  TSR_TRY(TSR_ARENA_RAW(arena, tile->count, &found, error));
  TSR_TRY(TSR_ARENA_RAW(arena, filter->reader->snapshot->schema->dimension_count, &lists, error));
  if (!root->expression || root->op != TSR_JOIN_AND) return !choose_places(filter, tile, root, lists, found, chosen);
  if (root->guards) return 1; /* many children, which the index tells apart */
  TSR_TRY(TSR_ARENA_RAW(arena, root->child_count, &left, error));
  for (uint32_t i = 0; i < root->child_count; i++)
    if (!choose_places(filter, tile, &root->children[i], lists, found, chosen)) left[count++] = root->children[i];
  root->children = left;
  root->child_count = count;
  if (count == 1) *root = left[0];
  return count > 0;
}

bool tsr__deletes_by_coordinates(const tsr_snapshot *snapshot) {
  if (snapshot->shows != TSR_SHOWS_DROPPED || snapshot->view.removed > 0) return false;
  for (uint64_t i = 0; i < snapshot->condition_count; i++)
    for (uint32_t k = 0; k < snapshot->conditions[i]->field_count; k++) {
      const int64_t field = tsr__schema_field(snapshot->schema, snapshot->conditions[i]->fields[k]);
      if (field < 0 || field >= snapshot->schema->dimension_count) return false;
    }
  return true;
}

int tsr__delete_filter_choose(tsr_delete_filter *filter, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot *snapshot = filter->reader->snapshot;
  uint8_t *chosen;
  if (tile->count == 0) return TSR_OK;
  filter->keep.size = 0;
  TSR_TRY(tsr__buffer_reserve(&filter->keep, tile->count, error));
  TSR_TRY(TSR_ARENA_ARRAY(&filter->reader->window.arena, tile->count, &chosen, error));
  for (uint64_t i = 0; i < snapshot->condition_count; i++) {
    tsr_condition narrowed = *snapshot->conditions[i];
    int some = 1;
    if (!filter->reader->plan.lossy)
      TSR_TRY(some = tsr__may_drop(snapshot, tile->plan.fragment, tile->plan.tile, i, &filter->reader->window.arena,
                                   &narrowed, error));
    if (some > 0) TSR_TRY(some = choose_single_cells(filter, tile, &narrowed, chosen, error));
    if (some == 0) continue;
    TSR_TRY(evaluate_condition(filter, tile, &narrowed, error));
    for (uint64_t k = 0; k < tile->count; k++) chosen[k] |= !filter->keep.data[k];
  }
  return keep_selected(filter, tile, chosen, error);
}

/* ---- All together ------------------------------------------------------------------------------------------------ */

/* For a snapshot that shows what deletes have dropped: keeps these cells, and records when each of them was dropped. */
static int keep_dropped(tsr_delete_filter *filter, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot_fragment *f = tsr__sparse_fragment(filter->reader, tile);
  if (tile->count == 0) return TSR_OK;
  filter->keep.size = 0;
  TSR_TRY(tsr__buffer_reserve(&filter->keep, tile->count, error));
  TSR_TRY(TSR_ARENA_RAW(&filter->reader->window.arena, tile->pinned->cells, &tile->dropped, error));
  for (uint64_t i = 0; i < tile->count; i++) tile->dropped[tile->cells ? tile->cells[i] : i] = NOT_DROPPED;
  const int removed = filter->reader->snapshot->view.writer ? find_removed(filter, tile, error) : 0;
  if (removed < 0) return removed;
  if (removed > 0) record_dropped(filter, tile, UINT64_MAX);
  record_dated(filter, tile);
  for (uint32_t i = 0; i < f->condition_count; i++) {
    TSR_TRY(evaluate_condition_at_time(filter, tile, f->conditions[i], error));
    record_dropped(filter, tile, f->conditions[i]->visible);
  }
  return keep_recorded(filter, tile, error);
}

int tsr__delete_filter_apply(tsr_delete_filter *filter, tsr_sparse_tile *tile, tsr_error *error) {
  const tsr_snapshot_fragment *f = tsr__sparse_fragment(filter->reader, tile);
  const bool dated = f->fragment->metadata.has_delete_metadata;
  if (filter->reader->snapshot->shows == TSR_SHOWS_ALL) return TSR_OK;
  if (filter->reader->snapshot->shows == TSR_SHOWS_DROPPED) return keep_dropped(filter, tile, error);
  if (filter->reader->snapshot->view.writer) TSR_TRY(drop_removed(filter, tile, error));
  if ((!dated && f->condition_count == 0) || tile->count == 0) return TSR_OK;
  filter->keep.size = 0;
  TSR_TRY(tsr__buffer_reserve(&filter->keep, tile->count, error));
  if (dated) {
    const uint64_t *times = tsr__sparse_times(filter->reader, tile, TSR_SLOT_DELETE_TIMES),
                   until = filter->reader->snapshot->deleted_until;
    for (uint64_t i = 0; i < tile->count; i++) {
      const uint64_t time = times[tile->cells ? tile->cells[i] : i];
      filter->keep.data[i] = time > until || time == UINT64_MAX;
    }
    TSR_TRY(keep_selected(filter, tile, filter->keep.data, error));
  }
  for (uint32_t i = 0; i < f->condition_count && tile->count > 0; i++)
    TSR_TRY(apply_condition(filter, tile, f->conditions[i], error));
  return TSR_OK;
}
