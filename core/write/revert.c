/* revert.c: writes an earlier state of an array over its present one, as changes of a writer.
 *
 * Two readers, of the state now and of the old one, return their cells in the same order, that of the dimensions; cells
 * of dense arrays that were never written are left out. A walk over both, as in a merge of sorted lists, finds what is
 * in one state only, and what differs. Cells are compared by their bytes.
 *
 * Most reverts undo little of a large array. A cell is the same in both states if all fragments around it are the same,
 * and what deletes cells, too. So the walk visits only the boxes of the fragments that one state lacks, and of the
 * tiles in which deletes that one state lacks, or the transaction, may have removed cells ("Where the states may
 * differ").
 *
 * Changes are often scattered over all boxes. If few places have been touched between the two states, of a sparse array
 * the walk visits these, one by one, instead of the boxes ("Touched places").
 *
 * An array with duplicates has many cells at one place. They are equal if they are the same cells, in any order; else
 * all of them are removed and the old ones written. */
#include "write/writer.h"

#include <string.h>

#include "array/array.h"
#include "base/arithmetic.h"
#include "base/hash.h"
#include "base/sort.h"
#include "environment/environment.h"
#include "format/schema.h"
#include "model/datatype.h"
#include "model/domain.h"
#include "read/reader.h"
#include "tessera_host.h"

typedef struct revert_side { /* one of the two states: a reader, and its present cell */
  tsr_reader *reader;
  const tsr_batch *batch;
  const tsr_column **columns; /* of the batch, by field */
  uint64_t row; /* of the batch */
  uint64_t at; /* the row's index in the columns */
  int64_t rowid;
  bool ended;
  /* arrays with duplicates: all cells at the place of the present one */
  tsr_buffered *run; /* by field */
  tsr_buffer rowids; /* int64_t */
  tsr_pair *order; /* the run's cells, sorted by a hash of their attributes */
} revert_side;

typedef struct revert {
  tsr_writer *writer;
  const tsr_schema *schema;
  uint32_t fields;
  tsr_snapshot *snapshots[2]; /* the states now and old */
  tsr_snapshot *const *touched; /* see tsr_writer_revert */
  double cells; /* that a walk over the boxes decodes, of one state */
  revert_side now, old;
  tsr_column *cell; /* by field: the cell to write */
  tsr_column *unwritten; /* dense arrays, by field: a cell that was never written */
  uint64_t changed;
} revert;

static const uint8_t null_cell = 0;

/* ---- Cells ------------------------------------------------------------------------------------------------------- */

/* Returns true if the value is null. An attribute that the cell's fragment lacks is null if it may be. */
static bool revert_is_null(const tsr_field *field, const tsr_column *column, uint64_t at) {
  if (column->unwritten) return field->nullable;
  return field->nullable && column->validity && !column->validity[column->constant ? 0 : at];
}

static const uint8_t *revert_value(const tsr_field *field, const tsr_column *column, uint64_t at, uint64_t *size) {
  const uint64_t cell = column->constant ? 0 : at;
  if (field->cell_size) {
    *size = field->cell_size;
    return (const uint8_t *)column->values + cell * field->cell_size;
  }
  *size = column->offsets[cell + 1] - column->offsets[cell];
  return (const uint8_t *)column->values + column->offsets[cell];
}

static bool revert_same(const tsr_field *field, const tsr_column *a, uint64_t i, const tsr_column *b, uint64_t j) {
  const bool null = revert_is_null(field, a, i);
  uint64_t n, m;
  if (null || revert_is_null(field, b, j)) return null && revert_is_null(field, b, j);
  const uint8_t *x = revert_value(field, a, i, &n), *y = revert_value(field, b, j, &m);
  return n == m && (n == 0 || memcmp(x, y, n) == 0);
}

/* Makes column `to` hold the one value of `from` at an index. */
static void revert_take(const tsr_field *field, const tsr_column *from, uint64_t at, tsr_column *to) {
  const uint64_t cell = from->constant ? 0 : at;
  uint64_t size;
  *to = (tsr_column){.values = revert_value(field, from, at, &size), .cell_size = from->cell_size};
  if (!field->cell_size) {
    to->values = from->values;
    to->offsets = from->offsets + cell;
  }
  if (revert_is_null(field, from, at)) to->validity = &null_cell;
}

/* Makes the columns of a cell of a dense array that was never written: null, or the fill value. Those of dimensions are
 * left out. */
static int revert_make_unwritten(revert *r, tsr_arena *arena, tsr_error *error) {
  uint64_t *offsets;
  TSR_TRY(TSR_ARENA_ARRAY(arena, r->fields, &r->unwritten, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, 2 * (uint64_t)r->fields, &offsets, error));
  for (uint32_t f = r->schema->dimension_count; f < r->fields; f++, offsets += 2) {
    const tsr_field *field = &r->schema->fields[f];
    r->unwritten[f] = (tsr_column){.values = field->fill, .cell_size = field->cell_size};
    if (!field->cell_size) r->unwritten[f].offsets = offsets;
    offsets[1] = field->nullable ? 0 : field->fill_size;
    if (field->nullable) r->unwritten[f].validity = &null_cell;
  }
  return TSR_OK;
}

/* ---- The two states ---------------------------------------------------------------------------------------------- */

static int revert_open_side(const revert *r, revert_side *side, tsr_snapshot *snapshot, tsr_error *error) {
  tsr_memory *memory = &r->writer->array->memory;
  TSR_TRY(TSR_ALLOC_ARRAY(memory, r->fields, &side->columns, error));
  side->rowids.memory = memory;
  if (r->schema->allows_duplicates) {
    TSR_TRY(TSR_ALLOC_ARRAY(memory, r->fields, &side->run, error));
    for (uint32_t f = 0; f < r->fields; f++) tsr__buffered_init(&side->run[f], memory);
  }
  const tsr_reader_mode mode = {.written_only = true};
  return tsr__reader_open_as(snapshot, &snapshot->array->memory, &mode, &side->reader, error);
}

static void revert_close_side(const revert *r, revert_side *side) {
  tsr_reader_close(side->reader);
  for (uint32_t f = 0; side->run && f < r->fields; f++) tsr__buffered_release(&side->run[f]);
  tsr__buffer_release(&side->rowids);
  tsr__free(side->run);
  tsr__free(side->order);
  tsr__free(side->columns);
}

/* Steps to the next cell; the first call steps to the first one. */
static int revert_step(revert *r, revert_side *side, tsr_error *error) {
  if (side->batch) side->row++;
  while (!side->batch || side->row == side->batch->count) {
    const int rc = tsr_reader_next(side->reader, &side->batch, error);
    side->ended = rc == 0;
    if (rc <= 0) return rc;
    side->row = side->batch->written ? 0 : side->batch->count;
    for (uint32_t f = 0; f < r->fields && side->batch->written; f++)
      TSR_TRY(tsr_reader_column(side->reader, f, &side->columns[f], error));
  }
  side->at = tsr_batch_index(side->batch, side->row);
  side->rowid = tsr_batch_rowid(side->batch, side->at);
  return TSR_OK;
}

/* Compares coordinates in the order of the readers, in which NaN comes before all numbers. */
static int revert_compare(const revert *r, const tsr_column *const *a, uint64_t i, const tsr_column *const *b,
                          uint64_t j) {
  for (uint32_t d = 0; d < r->schema->dimension_count; d++) {
    const tsr_field *field = &r->schema->fields[d];
    uint64_t n, m;
    const uint8_t *x = revert_value(field, a[d], i, &n), *y = revert_value(field, b[d], j, &m);
    int order;
    if (!field->cell_size) {
      order = tsr__bytes_compare(x, n, y, m);
    } else {
      uint64_t k = tsr__key(field->datatype, x), l = tsr__key(field->datatype, y);
      if (tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT) k++, l++; /* TSR_KEY_NAN becomes 0 */
      order = (k > l) - (k < l);
    }
    if (order) return order;
  }
  return 0;
}

/* ---- Changes ----------------------------------------------------------------------------------------------------- */

static int revert_append(revert *r, tsr_error *error) {
  if ((++r->changed & 0xFFFF) == 0) TSR_TRY(tsr__cancelled(&r->writer->array->environment->memory, error));
  return tsr_writer_append(r->writer, r->cell, NULL, 1, error);
}

/* Writes the old state's present cell. */
static int revert_write_old(revert *r, tsr_error *error) {
  for (uint32_t f = 0; f < r->fields; f++)
    revert_take(&r->schema->fields[f], r->old.columns[f], r->old.at, &r->cell[f]);
  return revert_append(r, error);
}

/* Takes away the present cell of the state now. One of a dense array gets what a cell has that was never written. */
static int revert_take_away(revert *r, tsr_error *error) {
  const uint32_t dimensions = r->schema->dimension_count;
  bool differs = false;
  for (uint32_t d = 0; d < dimensions; d++)
    revert_take(&r->schema->fields[d], r->now.columns[d], r->now.at, &r->cell[d]);
  if (!r->schema->dense) {
    r->changed++;
    return tsr_writer_remove(r->writer, r->now.rowid, r->cell, 0, error);
  }
  for (uint32_t f = dimensions; f < r->fields; f++) {
    r->cell[f] = r->unwritten[f];
    differs |= !revert_same(&r->schema->fields[f], r->now.columns[f], r->now.at, &r->cell[f], 0);
  }
  return differs ? revert_append(r, error) : TSR_OK;
}

static bool revert_cells_differ(const revert *r) {
  for (uint32_t f = r->schema->dimension_count; f < r->fields; f++)
    if (!revert_same(&r->schema->fields[f], r->now.columns[f], r->now.at, r->old.columns[f], r->old.at)) return true;
  return false;
}

static int revert_cells(revert *r, tsr_error *error) {
  while (!r->now.ended || !r->old.ended) {
    const int order = r->now.ended   ? 1
                      : r->old.ended ? -1
                                     : revert_compare(r, r->now.columns, r->now.at, r->old.columns, r->old.at);
    if (order < 0) TSR_TRY(revert_take_away(r, error));
    else if (order > 0 || revert_cells_differ(r)) TSR_TRY(revert_write_old(r, error));
    if (order <= 0) TSR_TRY(revert_step(r, &r->now, error));
    if (order >= 0) TSR_TRY(revert_step(r, &r->old, error));
  }
  return TSR_OK;
}

/* ---- Duplicates -------------------------------------------------------------------------------------------------- */

static uint64_t run_count(const revert_side *side) { return side->rowids.size / sizeof(int64_t); }

static uint64_t run_hash(const revert *r, const revert_side *side, uint64_t at) {
  uint64_t hash = 0, size;
  for (uint32_t f = r->schema->dimension_count; f < r->fields; f++) {
    const tsr_field *field = &r->schema->fields[f];
    const tsr_column column = tsr__buffered_column(field, &side->run[f], 0);
    if (revert_is_null(field, &column, at)) {
      hash = tsr__hash_mix(hash, 1);
      continue;
    }
    const uint8_t *value = revert_value(field, &column, at, &size);
    hash = tsr__hash_bytes(hash, value, size);
  }
  return hash;
}

/* Gathers all cells at the coordinates of the side's present cell, and moves past them; none unless the side is
 * `here`. */
static int run_gather(revert *r, revert_side *side, bool here, tsr_error *error) {
  tsr_pair *spare = NULL;
  side->rowids.size = 0;
  for (uint32_t f = 0; f < r->fields; f++) tsr__buffered_truncate(&r->schema->fields[f], &side->run[f], 0);
  while (here) {
    tsr_column first[TSR_MAX_DIMENSIONS];
    const tsr_column *place[TSR_MAX_DIMENSIONS];
    for (uint32_t f = 0; f < r->fields; f++) {
      tsr_column cell;
      revert_take(&r->schema->fields[f], side->columns[f], side->at, &cell);
      TSR_TRY(tsr__buffered_append(&r->schema->fields[f], &side->run[f], &cell, NULL, 1, error));
    }
    TSR_TRY(tsr__buffer_append(&side->rowids, &side->rowid, sizeof side->rowid, error));
    TSR_TRY(revert_step(r, side, error));
    if (side->ended) break;
    for (uint32_t d = 0; d < r->schema->dimension_count; d++) {
      first[d] = tsr__buffered_column(&r->schema->fields[d], &side->run[d], 0);
      place[d] = &first[d];
    }
    here = revert_compare(r, side->columns, side->at, place, 0) == 0;
  }
  tsr__free(side->order);
  side->order = NULL;
  TSR_TRY(TSR_ALLOC_RAW(&r->writer->array->memory, run_count(side) + 1, &side->order, error));
  TSR_TRY(TSR_ALLOC_RAW(&r->writer->array->memory, run_count(side) + 1, &spare, error));
  for (uint64_t i = 0; i < run_count(side); i++) side->order[i] = (tsr_pair){run_hash(r, side, i), (uint32_t)i};
  tsr__pairs_sort(side->order, spare, run_count(side));
  tsr__free(spare);
  return TSR_OK;
}

static bool runs_differ(const revert *r) {
  if (run_count(&r->now) != run_count(&r->old)) return true;
  for (uint32_t f = r->schema->dimension_count; f < r->fields; f++) {
    const tsr_field *field = &r->schema->fields[f];
    const tsr_column now = tsr__buffered_column(field, &r->now.run[f], 0);
    const tsr_column old = tsr__buffered_column(field, &r->old.run[f], 0);
    for (uint64_t i = 0; i < run_count(&r->now); i++)
      if (!revert_same(field, &now, r->now.order[i].cell, &old, r->old.order[i].cell)) return true;
  }
  return false;
}

static int run_replace(revert *r, tsr_error *error) {
  const int64_t *rowids = (const int64_t *)(const void *)r->now.rowids.data;
  for (uint32_t f = 0; f < r->schema->dimension_count; f++)
    r->cell[f] = tsr__buffered_column(&r->schema->fields[f], &r->now.run[f], 0);
  for (uint64_t i = 0; i < run_count(&r->now); i++) TSR_TRY(tsr_writer_remove(r->writer, rowids[i], r->cell, i, error));
  for (uint32_t f = 0; f < r->fields; f++) r->cell[f] = tsr__buffered_column(&r->schema->fields[f], &r->old.run[f], 0);
  r->changed += run_count(&r->now) + run_count(&r->old);
  if (run_count(&r->old) == 0) return TSR_OK;
  return tsr_writer_append(r->writer, r->cell, NULL, run_count(&r->old), error);
}

static int revert_runs(revert *r, tsr_error *error) {
  while (!r->now.ended || !r->old.ended) {
    const int order = r->now.ended   ? 1
                      : r->old.ended ? -1
                                     : revert_compare(r, r->now.columns, r->now.at, r->old.columns, r->old.at);
    TSR_TRY(run_gather(r, &r->now, order <= 0, error));
    TSR_TRY(run_gather(r, &r->old, order >= 0, error));
    if (order != 0 || runs_differ(r)) TSR_TRY(run_replace(r, error));
    TSR_TRY(tsr__cancelled(&r->writer->array->environment->memory, error));
  }
  return TSR_OK;
}

/* ---- Where the states may differ --------------------------------------------------------------------------------- */

#define REGIONS_MAX 256 /* with more boxes the walk visits the box around all of them */

/* Returns true if another snapshot shows the same of a fragment. */
static bool shows(const tsr_map *others, const tsr_snapshot *other, const tsr_snapshot_fragment *item) {
  const uint64_t number = (uint64_t)(uintptr_t)tsr__map_get(others, item->fragment->name);
  if (!number || item->cut || item->fragment->run.uncommitted) return false;
  const tsr_snapshot_fragment *same = &other->fragments[number - 1];
  return !same->cut && same->time == item->time && same->prepared == item->prepared;
}

/* Adds the box of a fragment, in order keys. */
static int add_region(const tsr_snapshot *snapshot, const tsr_snapshot_fragment *item, tsr_box_set *regions,
                      tsr_error *error) {
  const tsr_fragment_metadata *m = &item->fragment->metadata;
  uint64_t low[TSR_MAX_DIMENSIONS], high[TSR_MAX_DIMENSIONS];
  if (m->empty_domain) return TSR_OK;
  for (uint32_t d = 0; d < snapshot->schema->dimension_count; d++) {
    const tsr_datatype datatype = snapshot->schema->fields[d].datatype;
    low[d] = tsr__key(datatype, m->non_empty_domain[d].low);
    high[d] = tsr__key(datatype, m->non_empty_domain[d].high);
    if (low[d] > high[d]) return tsr__fail(error, TSR_CORRUPT, "fragment %s: its box is empty", item->fragment->name);
  }
  return tsr__box_set_add(regions, low, high, error);
}

/* Adds the boxes of the fragments that `other` does not show in the same way. */
static int add_regions(const revert *r, const tsr_snapshot *snapshot, const tsr_snapshot *other, tsr_box_set *regions,
                       tsr_error *error) {
  tsr_map names = {.memory = &r->writer->array->memory};
  int rc = TSR_OK;
  for (uint64_t i = 0; i < other->fragment_count && rc >= 0; i++)
    rc = tsr__map_put(&names, other->fragments[i].fragment->name, (void *)(uintptr_t)(i + 1), error);
  for (uint64_t i = 0; i < snapshot->fragment_count && rc >= 0; i++)
    if (!shows(&names, other, &snapshot->fragments[i]))
      rc = add_region(snapshot, &snapshot->fragments[i], regions, error);
  tsr__map_release(&names);
  return rc;
}

/* Returns true if the states may differ in any cell, or if boxes do not tell where: coordinates without order keys, and
 * a state that is not whole, which the walk reports. */
static bool may_differ_anywhere(const revert *r, const tsr_snapshot *now, const tsr_snapshot *old) {
  if (r->schema->dense && (now->condition_count || now->view.removed)) return true; /* no writer makes such */
  for (uint32_t d = 0; d < r->schema->dimension_count; d++)
    if (!r->schema->fields[d].cell_size || tsr_datatype_kind(r->schema->fields[d].datatype) == TSR_KIND_FLOAT)
      return true;
  return old->view.removed || old->losses.size;
}

/* Makes one box of all. */
static int join_regions(tsr_box_set *regions, tsr_error *error) {
  const uint64_t count = tsr__box_set_count(regions);
  const uint32_t n = regions->dimensions;
  uint64_t low[TSR_MAX_DIMENSIONS], high[TSR_MAX_DIMENSIONS];
  const uint64_t *ends = (const uint64_t *)(const void *)regions->ends.data;
  for (uint64_t b = 0; b < count; b++)
    for (uint32_t d = 0; d < n; d++, ends += 2) {
      low[d] = b ? TSR_MIN(low[d], ends[0]) : ends[0];
      high[d] = b ? TSR_MAX(high[d], ends[1]) : ends[1];
    }
  regions->ends.size = 0;
  return tsr__box_set_add(regions, low, high, error);
}

/* Lists the conditions that `other` lacks; those of an array have one place in memory each. */
static int list_new_conditions(const tsr_snapshot *snapshot, const tsr_snapshot *other, tsr_buffer *conditions,
                               tsr_error *error) {
  for (uint64_t i = 0; i < snapshot->condition_count; i++) {
    const tsr_condition *one = snapshot->conditions[i];
    uint64_t k = 0;
    while (k < other->condition_count && other->conditions[k] != one) k++;
    if (k == other->condition_count) TSR_TRY(tsr__buffer_append(conditions, &one, sizeof one, error));
  }
  return TSR_OK;
}

/* Adds a tile's MBR. A set of many boxes is slow to add to: it becomes one box. */
static int add_tile_region(const tsr_snapshot *snapshot, const tsr_rtree *rtree, uint64_t tile, tsr_box_set *regions,
                           tsr_error *error) {
  const uint32_t n = snapshot->schema->dimension_count;
  const uint64_t *keys = rtree->keys[rtree->levels - 1] + tile * n * 2;
  uint64_t low[TSR_MAX_DIMENSIONS], high[TSR_MAX_DIMENSIONS];
  for (uint32_t d = 0; d < n; d++) {
    low[d] = keys[2 * d];
    high[d] = keys[2 * d + 1];
    if (low[d] > high[d])
      return tsr__fail(error, TSR_CORRUPT, "the box of tile %llu is empty", (unsigned long long)tile);
  }
  TSR_TRY(tsr__box_set_add(regions, low, high, error));
  return tsr__box_set_count(regions) > REGIONS_MAX ? join_regions(regions, error) : TSR_OK;
}

/* Adds the tiles in which conditions, or the transaction, may have removed cells. */
static int add_tile_regions(tsr_snapshot *snapshot, const tsr_condition *const *conditions, uint64_t count,
                            tsr_box_set *regions, tsr_error *error) {
  const tsr_rtree *rtree;
  for (uint32_t f = 0; f < snapshot->fragment_count; f++) {
    tsr_fragment *fragment = snapshot->fragments[f].fragment;
    if (fragment->metadata.empty_domain || fragment->run.uncommitted) continue;
    TSR_TRY(tsr__fragment_rtree(snapshot->array, fragment, &rtree, error));
    for (uint64_t tile = 0; tile < fragment->metadata.tile_count; tile++) {
      if (!tsr__removes_some(snapshot, f, tile) && !tsr__any_may_drop(snapshot, f, tile, conditions, count)) continue;
      const int rc = add_tile_region(snapshot, rtree, tile, regions, error);
      if (rc < 0) return tsr__wrap(error, "fragment %s", fragment->name);
    }
  }
  return TSR_OK;
}

/* Adds where deletes that `other` lacks, or the transaction, may have removed cells. */
static int add_deleted(tsr_snapshot *snapshot, const tsr_snapshot *other, tsr_box_set *regions, tsr_error *error) {
  tsr_buffer conditions = {.memory = &snapshot->array->memory};
  if (snapshot->schema->dense) return TSR_OK;
  int rc = list_new_conditions(snapshot, other, &conditions, error);
  const uint64_t count = conditions.size / sizeof(const tsr_condition *);
  if (rc >= 0 && (count || snapshot->view.removed))
    rc = add_tile_regions(snapshot, (const tsr_condition *const *)(const void *)conditions.data, count, regions, error);
  tsr__buffer_release(&conditions);
  return rc;
}

/* ---- Walks ------------------------------------------------------------------------------------------------------- */

static int revert_open_sides(revert *r, tsr_error *error) {
  TSR_TRY(revert_open_side(r, &r->now, r->snapshots[0], error));
  return revert_open_side(r, &r->old, r->snapshots[1], error);
}

static void revert_close_sides(revert *r) {
  revert_close_side(r, &r->now);
  revert_close_side(r, &r->old);
  r->now = r->old = (revert_side){0};
}

/* Walks over both states, which are open, within a request. */
static int revert_walk(revert *r, const tsr_request *request, tsr_error *error) {
  for (int i = 0; i < 2; i++) {
    revert_side *side = i ? &r->old : &r->now;
    side->batch = NULL;
    TSR_TRY(tsr_reader_start(side->reader, request, error));
    TSR_TRY(revert_step(r, side, error));
  }
  return r->schema->allows_duplicates ? revert_runs(r, error) : revert_cells(r, error);
}

/* Walks over both states, within ranges of the dimensions. */
static int revert_within(revert *r, const tsr_request *request, tsr_error *error) {
  int rc = revert_open_sides(r, error);
  if (rc >= 0) rc = revert_walk(r, request, error);
  revert_close_sides(r);
  return rc < 0 ? rc : TSR_OK;
}

/* Adds the cells that a walk decodes. */
static int revert_estimate(revert *r, const tsr_request *request, tsr_error *error) {
  tsr_estimate estimate;
  TSR_TRY(tsr_request_estimate(r->snapshots[0], request, &estimate, error));
  r->cells += estimate.cells;
  return TSR_OK;
}

typedef int (*revert_visit)(revert *r, const tsr_request *request, tsr_error *error);

/* Visits each region, within the ranges of the request; all of them if `regions` is NULL. */
static int revert_regions(revert *r, const tsr_request *request, const tsr_box_set *regions, revert_visit visit,
                          tsr_arena *arena, tsr_error *error) {
  uint64_t *values;
  tsr_range *ranges;
  tsr_ranges *dimensions;
  tsr_request within = *request;
  if (!regions) return visit(r, request, error);
  TSR_TRY(TSR_ARENA_ARRAY(arena, 2 * (uint64_t)regions->dimensions, &values, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, regions->dimensions, &ranges, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, regions->dimensions, &dimensions, error));
  within.dimensions = dimensions;
  const uint64_t *ends = (const uint64_t *)(const void *)regions->ends.data;
  for (uint64_t b = 0; b < tsr__box_set_count(regions); b++) {
    for (uint32_t d = 0; d < regions->dimensions; d++, ends += 2) {
      const tsr_datatype datatype = r->schema->fields[d].datatype;
      tsr__key_value(datatype, ends[0], &values[2 * d]);
      tsr__key_value(datatype, ends[1], &values[2 * d + 1]);
      ranges[d] = (tsr_range){.low = &values[2 * d], .high = &values[2 * d + 1]};
      dimensions[d] =
          (tsr_ranges){.ranges = &ranges[d], .count = 1, .also = request->dimensions ? &request->dimensions[d] : NULL};
    }
    TSR_TRY(visit(r, &within, error));
  }
  return TSR_OK;
}

/* ---- Touched places ---------------------------------------------------------------------------------------------- */

#define PLACES_MAX 65536u /* places that are visited one by one */
#define PLACE_COST 16 /* cells that a walk over boxes passes in the time of one place */

typedef struct revert_places {
  const tsr_schema *schema;
  tsr_places *expected; /* the same places, which both readers look up together */
  tsr_buffered *columns; /* by dimension */
  tsr_column *values; /* of all places, by dimension */
  uint64_t count, max;
} revert_places;

/* Adds the coordinates of a batch. Returns 0 if there are more than places->max, or a NaN, which no range has. */
static int places_add(revert_places *places, tsr_reader *reader, const tsr_batch *batch, tsr_error *error) {
  if (batch->count > places->max - places->count) return 0;
  for (uint32_t d = 0; d < places->schema->dimension_count; d++) {
    const tsr_field *field = &places->schema->fields[d];
    const bool real = field->cell_size && tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT;
    const tsr_column *column;
    TSR_TRY(tsr_reader_column(reader, d, &column, error));
    for (uint64_t i = 0; i < batch->count; i++) {
      tsr_column one;
      revert_take(field, column, tsr_batch_index(batch, i), &one);
      if (real && tsr__key(field->datatype, one.values) == TSR_KEY_NAN) return 0;
      TSR_TRY(tsr__buffered_append(field, &places->columns[d], &one, NULL, 1, error));
    }
  }
  places->count += batch->count;
  return 1;
}

/* Gathers the places of cells that a snapshot shows. Returns 0 if they are too many, or a range cannot tell them. */
static int places_gather(revert_places *places, tsr_snapshot *snapshot, const tsr_request *request, tsr_error *error) {
  const tsr_request within = {.dimensions = request->dimensions, .memory_bytes = request->memory_bytes};
  const tsr_batch *batch;
  tsr_reader *reader;
  TSR_TRY(tsr_reader_open(snapshot, &reader, error));
  int rc = tsr_reader_start(reader, &within, error), fits = 1;
  while (rc >= 0 && fits > 0 && (rc = tsr_reader_next(reader, &batch, error)) > 0) {
    rc = fits = places_add(places, reader, batch, error);
    if (rc > 0) rc = tsr_places_add(places->expected, reader, batch, error);
  }
  tsr_reader_close(reader);
  return rc < 0 ? rc : fits;
}

static int places_compare(const void *argument, uint32_t a, uint32_t b) {
  const revert_places *places = argument;
  int order = 0;
  for (uint32_t d = 0; d < places->schema->dimension_count && order == 0; d++) {
    const tsr_field *field = &places->schema->fields[d];
    uint64_t n, m;
    const uint8_t *x = revert_value(field, &places->values[d], a, &n),
                  *y = revert_value(field, &places->values[d], b, &m);
    const uint64_t k = field->cell_size ? tsr__key(field->datatype, x) : 0,
                   l = field->cell_size ? tsr__key(field->datatype, y) : 0;
    order = field->cell_size ? (k > l) - (k < l) : tsr__bytes_compare(x, n, y, m);
  }
  return order;
}

/* Sorts the places, so that neighbours follow each other and each is visited once. */
static int places_sort(revert_places *places, tsr_arena *arena, tsr_pair **sorted, tsr_error *error) {
  const tsr_field *first = &places->schema->fields[0];
  uint64_t size;
  TSR_TRY(TSR_ARENA_RAW(arena, 2 * places->count + 1, sorted, error));
  for (uint32_t d = 0; d < places->schema->dimension_count; d++)
    places->values[d] = tsr__buffered_column(&places->schema->fields[d], &places->columns[d], 0);
  for (uint64_t i = 0; i < places->count; i++) {
    const uint8_t *value = revert_value(first, &places->values[0], i, &size);
    (*sorted)[i] =
        (tsr_pair){first->cell_size ? tsr__key(first->datatype, value) : tsr__text_prefix(value, size), (uint32_t)i};
  }
  tsr__pairs_sort_ties(*sorted, *sorted + places->count, places->count, places_compare, places);
  return TSR_OK;
}

/* Compares the two states at each place. */
static int places_visit(revert *r, revert_places *places, const tsr_request *request, tsr_arena *arena,
                        tsr_error *error) {
  uint64_t visited = 0;
  tsr_pair *sorted;
  tsr_range *ranges;
  tsr_ranges *dimensions;
  TSR_TRY(places_sort(places, arena, &sorted, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, r->schema->dimension_count, &ranges, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, r->schema->dimension_count, &dimensions, error));
  const tsr_request at = {.dimensions = dimensions, .fields = request->fields, .memory_bytes = request->memory_bytes};
  for (uint32_t d = 0; d < r->schema->dimension_count; d++) dimensions[d] = (tsr_ranges){&ranges[d], 1, false, NULL};
  TSR_TRY(tsr_reader_expect(r->now.reader, places->expected, error));
  TSR_TRY(tsr_reader_expect(r->old.reader, places->expected, error));
  for (uint64_t i = 0; i < places->count; i++) {
    const uint32_t place = sorted[i].cell;
    if (i > 0 && places_compare(places, sorted[i - 1].cell, place) == 0) continue;
    for (uint32_t d = 0; d < r->schema->dimension_count; d++) {
      uint64_t size;
      const void *value = revert_value(&r->schema->fields[d], &places->values[d], place, &size);
      ranges[d] = (tsr_range){.low = value, .high = value, .low_size = size, .high_size = size};
    }
    TSR_TRY(revert_walk(r, &at, error));
    visited++;
  }
  tsr_environment_count_changes(r->writer->array->environment, visited, 0);
  return TSR_OK;
}

static int revert_places_within(revert *r, revert_places *places, const tsr_request *request, tsr_arena *arena,
                                tsr_error *error) {
  for (int i = 0; i < 2; i++) {
    const int rc = places_gather(places, r->touched[i], request, error);
    if (rc <= 0) return rc;
  }
  int rc = revert_open_sides(r, error);
  if (rc >= 0) rc = places_visit(r, places, request, arena, error);
  revert_close_sides(r);
  return rc < 0 ? rc : 1;
}

/* Visits the touched places. Returns 0, and has done nothing, if walking over the boxes costs less. */
static int revert_touched(revert *r, const tsr_request *request, tsr_arena *arena, tsr_error *error) {
  revert_places places = {.schema = r->schema};
  if (!r->touched || r->schema->dense) return 0;
  places.max = r->cells / PLACE_COST < PLACES_MAX ? (uint64_t)(r->cells / PLACE_COST) : PLACES_MAX;
  TSR_TRY(TSR_ARENA_ARRAY(arena, r->schema->dimension_count, &places.values, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, r->schema->dimension_count, &places.columns, error));
  for (uint32_t d = 0; d < r->schema->dimension_count; d++)
    tsr__buffered_init(&places.columns[d], &r->writer->array->memory);
  int rc = tsr_places_open(r->writer->array->environment, r->schema, &places.expected, error);
  if (rc >= 0) rc = revert_places_within(r, &places, request, arena, error);
  tsr_places_close(places.expected);
  for (uint32_t d = 0; d < r->schema->dimension_count; d++) tsr__buffered_release(&places.columns[d]);
  return rc;
}

/* ---- The revert -------------------------------------------------------------------------------------------------- */

/* Finds where the states may differ. Returns 0 if they may do so anywhere. */
static int find_regions(const revert *r, tsr_box_set *regions, tsr_error *error) {
  tsr_snapshot *now = r->snapshots[0], *old = r->snapshots[1];
  if (may_differ_anywhere(r, now, old)) return 0;
  TSR_TRY(add_regions(r, now, old, regions, error));
  TSR_TRY(add_regions(r, old, now, regions, error));
  TSR_TRY(add_deleted(now, old, regions, error));
  TSR_TRY(add_deleted(old, now, regions, error));
  if (tsr__box_set_count(regions) > REGIONS_MAX) TSR_TRY(join_regions(regions, error));
  return 1;
}

/* Finds where the states may differ, and goes there. A state that is lost is read whole, which reports it. */
static int revert_differing(revert *r, const tsr_request *request, tsr_arena *arena, tsr_error *error) {
  tsr_box_set regions = {.dimensions = r->schema->dimension_count, .ends.memory = &r->writer->array->memory};
  int rc = find_regions(r, &regions, error);
  const tsr_box_set *known = rc > 0 ? &regions : NULL;
  if (rc >= 0) rc = revert_regions(r, request, known, revert_estimate, arena, error);
  const bool whole = r->snapshots[1]->losses.size == 0;
  if (rc >= 0) rc = whole ? revert_touched(r, request, arena, error) : 0;
  if (rc == 0) rc = revert_regions(r, request, known, revert_within, arena, error);
  tsr__buffer_release(&regions.ends);
  return rc < 0 ? rc : TSR_OK;
}

static int revert_run(revert *r, const tsr_ranges *dimensions, uint64_t memory_bytes, tsr_arena *arena,
                      tsr_error *error) {
  tsr_sort *order;
  bool *fields;
  for (int i = 0; i < 2; i++)
    if (r->snapshots[i]->schema->dimension_count + r->snapshots[i]->schema->attribute_count != r->fields)
      return tsr__fail(error, TSR_ERROR, "both states must have the fields of the writer's schema");
  TSR_TRY(TSR_ARENA_ARRAY(arena, r->schema->dimension_count, &order, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, r->fields, &fields, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, r->fields, &r->cell, error));
  for (uint32_t d = 0; d < r->schema->dimension_count; d++) order[d].dimension = d;
  memset(fields, true, r->fields);
  if (r->schema->dense) TSR_TRY(revert_make_unwritten(r, arena, error));
  const tsr_request request = {.dimensions = dimensions,
                               .fields = fields,
                               .order = order,
                               .order_count = r->schema->dimension_count,
                               .memory_bytes = memory_bytes};
  return revert_differing(r, &request, arena, error);
}

int tsr_writer_revert(tsr_writer *writer, tsr_snapshot *now, tsr_snapshot *old, tsr_snapshot *const *touched,
                      const tsr_ranges *dimensions, uint64_t memory_bytes, uint64_t *changed, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_mark mark = tsr_writer_mark(writer);
  revert r = {.writer = writer, .schema = writer->schema, .snapshots = {now, old}, .touched = touched};
  tsr_arena arena = tsr__arena(&writer->array->memory);
  r.fields = r.schema->dimension_count + r.schema->attribute_count;
  int rc = tsr__writer_check_open(writer, error);
  if (rc >= 0) rc = revert_run(&r, dimensions, memory_bytes, &arena, error);
  tsr__arena_release(&arena);
  if (rc < 0) {
    tsr_error unseen;
    tsr_writer_rewind(writer, mark, &unseen);
    return rc;
  }
  *changed = r.changed;
  return TSR_OK;
}
