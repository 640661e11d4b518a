/* inspect.c: describes fragments and tiles to the host without decoding a cell: boxes, sizes and statistics as stored
 * in the fragment's metadata, which is loaded on demand.
 *
 * Sections: fragments of a snapshot, tiles of a fragment, boxes of tiles (from the grid if dense, from the R-tree's
 * leaves if sparse), sizes and statistics of tiles.
 */
#include <string.h>

#include "model/datatype.h"
#include "format/fragment_metadata.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"

struct tsr_tiles {
  tsr_snapshot *snapshot;
  tsr_fragment *fragment;
  tsr_arena arena;
  uint32_t slot_count;
  uint32_t *slots; /* slots that have tiles: dimensions or __coords, then attributes */
  const tsr_rtree *rtree; /* sparse fragments */
  tsr_interval *box; /* of the tile box_tile, one per dimension */
  uint64_t box_tile; /* UINT64_MAX: `box` is not set */
  uint64_t box_cells; /* dense: number of cells in the box */
  uint32_t calls; /* of tsr_tiles_describe: every 4096th checks for cancellation */
};

bool tsr_interval_is_open(const tsr_interval *interval) {
  return interval->high_text && interval->high_size == TSR_TOP_TEXT_SIZE &&
         memcmp(interval->high_text, tsr__top_text, TSR_TOP_TEXT_SIZE) == 0;
}

/* ---- Fragments -------------------------------------------------------------------------------------------------- */

uint64_t tsr_fragment_count(const tsr_snapshot *snapshot) { return snapshot->fragment_count; }

uint64_t tsr_snapshot_condition_count(const tsr_snapshot *snapshot) {
  uint64_t most = 0;
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) most = TSR_MAX(most, snapshot->fragments[f].condition_count);
  return most;
}

uint64_t tsr_snapshot_comparison_count(const tsr_snapshot *snapshot) {
  uint64_t most = 0;
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    const tsr_snapshot_fragment *fragment = &snapshot->fragments[f];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < fragment->condition_count; i++) sum += fragment->conditions[i]->comparisons;
    most = TSR_MAX(most, sum);
  }
  return most;
}

bool tsr_snapshot_written(const tsr_snapshot *snapshot, uint64_t *first, uint64_t *last) {
  uint64_t begin = UINT64_MAX, end = 0;
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    const tsr_name *name = &snapshot->fragments[f].fragment->parsed;
    begin = TSR_MIN(begin, name->start);
    end = TSR_MAX(end, name->end);
  }
  for (uint64_t i = 0; i < snapshot->condition_count; i++) {
    begin = TSR_MIN(begin, snapshot->conditions[i]->visible);
    end = TSR_MAX(end, snapshot->conditions[i]->visible);
  }
  *first = begin;
  *last = end;
  return snapshot->fragment_count + snapshot->condition_count > 0;
}

uint64_t tsr_snapshot_replaced_count(const tsr_snapshot *snapshot) {
  const tsr_commit_listing *listing = snapshot->array->log.listing;
  return listing ? listing->vacuums.count : 0;
}

uint64_t tsr__fragment_cells(const tsr_fragment *fragment) {
  const tsr_fragment_metadata *m = &fragment->metadata;
  if (m->tile_count == 0) return 0;
  if (!m->dense) return tsr__add_sat(tsr__mul_sat(m->tile_count - 1, m->schema->capacity), m->last_tile_cells);
  uint64_t cells = 1;
  for (uint32_t d = 0; d < m->schema->dimension_count; d++)
    cells = tsr__mul_sat(cells, tsr__add_sat(fragment->dense.box_high[d] - fragment->dense.box_low[d], 1));
  return cells;
}

static int count_bytes(tsr_array *array, tsr_fragment *fragment, uint64_t *bytes, tsr_error *error) {
  const tsr_fragment_metadata *m = &fragment->metadata;
  uint64_t sum = m->at.file_size;
  if (sum == 0) { /* the footer came from a .meta, so the file has not been opened yet */
    tsr_file *file;
    TSR_TRY(tsr__fragment_metadata_file(array, fragment, &file, error));
    sum = file->size;
    tsr__array_files_done(array);
  }
  for (uint32_t s = 0; s < m->slot_count; s++)
    for (unsigned p = 0; m->slots[s].present && p < TSR_PART_COUNT; p++)
      if (tsr__fragment_slot_has_part(m, s, p)) sum = tsr__add_sat(sum, m->slots[s].file_size[p]);
  *bytes = sum;
  return TSR_OK;
}

int tsr_fragment_describe(tsr_snapshot *snapshot, uint64_t number, tsr_fragment_info *info, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (number >= snapshot->fragment_count)
    return tsr__fail(error, TSR_RANGE, "there are %llu fragments, and none with number %llu",
                     (unsigned long long)snapshot->fragment_count, (unsigned long long)number);
  tsr_fragment *fragment = snapshot->fragments[number].fragment;
  const tsr_fragment_metadata *m = &fragment->metadata;
  tsr_fragment_info made = {.name = fragment->name,
                            .start = fragment->parsed.start,
                            .end = fragment->parsed.end,
                            .version = m->version,
                            .dense = m->dense,
                            .schema = m->schema,
                            .cells = tsr__fragment_cells(fragment),
                            .tiles = m->tile_count,
                            .non_empty_domain = m->tile_count > 0 ? m->non_empty_domain : NULL};
  TSR_TRY(count_bytes(snapshot->array, fragment, &made.bytes, error));
  *info = made;
  return TSR_OK;
}

bool tsr_fragment_has(const tsr_snapshot *snapshot, uint64_t fragment, uint32_t field) {
  return fragment < snapshot->fragment_count && snapshot->fragments[fragment].slots[field] >= 0;
}

/* ---- Tiles of a fragment ---------------------------------------------------------------------------------------- */

/* Lists the slots of dimensions, then those of attributes: the order of columns. */
static int list_slots(tsr_tiles *tiles, tsr_error *error) {
  const tsr_fragment_metadata *m = &tiles->fragment->metadata;
  TSR_TRY(TSR_ARENA_ARRAY(&tiles->arena, m->slot_count, &tiles->slots, error));
  for (int dimensions = 1; dimensions >= 0; dimensions--)
    for (uint32_t s = 0; s < m->slot_count; s++) {
      tsr_system_column system_column = TSR_SLOT_TIMES;
      int64_t field = tsr__fragment_slot_field(m, s, &system_column);
      bool coordinates = field >= 0 ? field < m->schema->dimension_count : system_column == TSR_SLOT_COORDS;
      if (!m->slots[s].present || coordinates != (dimensions == 1) || (field < 0 && !coordinates)) continue;
      tiles->slots[tiles->slot_count++] = s;
    }
  TSR_TRY(TSR_ARENA_ARRAY(&tiles->arena, m->schema->dimension_count, &tiles->box, error));
  return TSR_OK;
}

int tsr_tiles_open(tsr_snapshot *snapshot, uint64_t number, tsr_tiles **tiles, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (number >= snapshot->fragment_count)
    return tsr__fail(error, TSR_RANGE, "there are %llu fragments, and none with number %llu",
                     (unsigned long long)snapshot->fragment_count, (unsigned long long)number);
  tsr_tiles *t;
  TSR_TRY(TSR_ALLOC(&snapshot->array->memory, &t, error));
  t->snapshot = snapshot;
  t->fragment = snapshot->fragments[number].fragment;
  t->box_tile = UINT64_MAX;
  tsr__arena_init(&t->arena, &snapshot->array->memory);
  int rc = list_slots(t, error);
  if (rc >= 0 && !t->fragment->metadata.dense && t->fragment->metadata.tile_count > 0)
    rc = tsr__fragment_rtree(snapshot->array, t->fragment, &t->rtree, error);
  tsr__array_files_done(snapshot->array);
  if (rc < 0) {
    tsr_tiles_close(t);
    return rc;
  }
  *tiles = t;
  return TSR_OK;
}

void tsr_tiles_close(tsr_tiles *tiles) {
  if (!tiles) return;
  tsr__arena_release(&tiles->arena);
  tsr__free(tiles);
}

uint32_t tsr_tiles_fields(const tsr_tiles *tiles) { return tiles->slot_count; }

int64_t tsr_tiles_field(const tsr_tiles *tiles, uint32_t index) {
  tsr_system_column system_column;
  return tsr__fragment_slot_field(&tiles->fragment->metadata, tiles->slots[index], &system_column);
}

/* ---- Boxes ------------------------------------------------------------------------------------------------------ */

static void find_dense_box(tsr_tiles *tiles, uint64_t tile) {
  const tsr_fragment *fragment = tiles->fragment;
  const tsr_grid *grid = &fragment->dense.grid;
  tiles->box_cells = 1;
  for (uint32_t i = 0; i < grid->dimensions; i++) {
    uint32_t d = grid->col_major_tiles ? i : grid->dimensions - 1 - i; /* the fastest dimension first */
    uint64_t low = (fragment->dense.tile_low[d] + tile % fragment->dense.tile_count[d]) * grid->extent[d];
    uint64_t high = tsr__add_sat(low, grid->extent[d] - 1);
    tile /= fragment->dense.tile_count[d];
    low = TSR_MAX(low, fragment->dense.box_low[d]);
    high = TSR_MIN(high, fragment->dense.box_high[d]);
    tsr_datatype datatype = fragment->metadata.schema->fields[d].datatype;
    tsr__key_value(datatype, grid->low_key[d] + low, tiles->box[d].low);
    tsr__key_value(datatype, grid->low_key[d] + high, tiles->box[d].high);
    tiles->box_cells = tsr__mul_sat(tiles->box_cells, high - low + 1);
  }
}

static void find_sparse_box(tsr_tiles *tiles, uint64_t tile) {
  const tsr_rtree *rtree = tiles->rtree;
  const tsr_schema *schema = tiles->fragment->metadata.schema;
  uint32_t leaves = rtree->levels - 1;
  for (uint32_t d = 0; d < rtree->dimensions; d++) {
    const uint64_t *keys = &rtree->keys[leaves][(tile * rtree->dimensions + d) * 2];
    tsr_interval *interval = &tiles->box[d];
    if (schema->fields[d].values_per_cell != TSR_VARIABLE) {
      tsr__key_value(schema->fields[d].datatype, keys[0], interval->low);
      tsr__key_value(schema->fields[d].datatype, keys[1], interval->high);
      continue;
    }
    const uint64_t *sizes = &rtree->sizes[leaves][(tile * rtree->dimensions + d) * 2];
    interval->low_text = rtree->text + keys[0];
    interval->low_size = sizes[0];
    interval->high_text = rtree->text + keys[1];
    interval->high_size = sizes[1];
  }
}

/* ---- Sizes and statistics --------------------------------------------------------------------------------------- */

static int find_sizes(tsr_tiles *tiles, uint32_t slot, uint64_t tile, tsr_tile_info *info, tsr_error *error) {
  const tsr_fragment_metadata *m = &tiles->fragment->metadata;
  TSR_TRY(tsr__fragment_load_slot(tiles->snapshot->array, tiles->fragment, slot, error));
  const tsr_slot *s = &m->slots[slot];
  for (unsigned p = 0; p < TSR_PART_COUNT; p++)
    if (s->offsets[p]) info->bytes = tsr__add_sat(info->bytes, s->offsets[p][tile + 1] - s->offsets[p][tile]);
  tsr_system_column system_column;
  int64_t field = tsr__fragment_slot_field(m, slot, &system_column);
  uint64_t cells = tsr__fragment_tile_cells(m, tile), bytes = 0;
  if (field < 0) { /* __coords */
    for (uint32_t d = 0; d < m->schema->dimension_count; d++) bytes += tsr_datatype_size(m->schema->fields[d].datatype);
    info->decoded_bytes = tsr__mul_sat(cells, bytes);
    return TSR_OK;
  }
  const tsr_field *found = &m->schema->fields[field];
  bytes = found->values_per_cell == TSR_VARIABLE
              ? tsr__add_sat(tsr__mul_sat(cells, 8), s->var_sizes ? s->var_sizes[tile] : 0)
              : tsr__mul_sat(cells, found->cell_size);
  info->decoded_bytes = tsr__add_sat(bytes, found->nullable ? cells : 0);
  return TSR_OK;
}

/* Returns a tile's entry in a list of minima or maxima, or NULL. */
static const void *bound_at(const uint8_t *values, const uint64_t *offsets, uint64_t value_size, uint64_t tile,
                            uint64_t *size) {
  if (!values) return NULL;
  *size = value_size ? value_size : offsets[tile + 1] - offsets[tile];
  return values + (value_size ? tile * value_size : offsets[tile]);
}

static int find_statistics(tsr_tiles *tiles, uint32_t slot, uint64_t tile, tsr_tile_info *info, tsr_error *error) {
  tsr_array *array = tiles->snapshot->array;
  tsr_fragment_metadata *m = &tiles->fragment->metadata;
  tsr_statistics statistics;
  tsr_file *file = NULL;
  int rc = TSR_OK;
  if (!m->slots[slot].statistics) rc = tsr__fragment_metadata_file(array, tiles->fragment, &file, error);
  if (rc < 0) return rc;
  rc = tsr__fragment_metadata_statistics(m, slot, file, tsr__array_key(array), &statistics, error);
  if (rc < 0) {
    tsr__wrap(error, "array %s: fragment %s", array->path, tiles->fragment->name);
    return tsr__damage(rc, error);
  }
  info->min = bound_at(statistics.min, statistics.min_offsets, statistics.value_size, tile, &info->min_size);
  info->max = bound_at(statistics.max, statistics.max_offsets, statistics.value_size, tile, &info->max_size);
  info->has_sum = statistics.sums != NULL;
  if (info->has_sum) memcpy(info->sum, &statistics.sums[tile], 8);
  info->has_null_count = statistics.null_counts != NULL;
  if (info->has_null_count) info->null_count = statistics.null_counts[tile];
  return TSR_OK;
}

int tsr_tiles_describe(tsr_tiles *tiles, uint32_t index, uint64_t tile, tsr_tile_info *info, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_array *array = tiles->snapshot->array;
  const tsr_fragment_metadata *m = &tiles->fragment->metadata;
  if (index >= tiles->slot_count || tile >= m->tile_count)
    return tsr__fail(error, TSR_RANGE, "fragment %s has %u fields with %llu tiles each", tiles->fragment->name,
                     tiles->slot_count, (unsigned long long)m->tile_count);
  if (++tiles->calls % 4096 == 0) TSR_TRY(tsr__cancelled(&array->environment->memory, error));
  tsr_tile_info made = {0};
  int rc = find_sizes(tiles, tiles->slots[index], tile, &made, error);
  if (rc >= 0) rc = find_statistics(tiles, tiles->slots[index], tile, &made, error);
  tsr__array_files_done(array);
  if (rc < 0) return rc;
  if (tiles->box_tile != tile) {
    if (m->dense) find_dense_box(tiles, tile);
    else find_sparse_box(tiles, tile);
    tiles->box_tile = tile;
  }
  made.box = tiles->box;
  made.cells = m->dense ? tiles->box_cells : tsr__fragment_tile_cells(m, tile);
  *info = made;
  return TSR_OK;
}
