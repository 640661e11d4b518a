/* version_merge.c: merges sparse tiles whose boxes (MBRs) overlap, so that one version of each coordinate is left.
 *
 * Groups. The same coordinate can occur in tiles of different fragments, and in tiles of one consolidated fragment,
 * which keeps old versions with their times. Tiles whose boxes overlap, directly or through other tiles, form a group.
 * A tile that is alone in its group needs no merge: it is a stream.
 *
 * The merge. Within a group, tiles enter a heap in the order of the low corners of their boxes, compared dimension by
 * dimension. The heap orders them by their next cell. The cell at the top is final if it sorts before the low corner of
 * the next tile to enter: no other version of it can follow. Of equal coordinates the latest version wins: by the time
 * of the cell (or the start time of its fragment), then by the order of fragments. A tile is returned once all of its
 * cells are decided.
 *
 * Trust. The order of cells in a tile is not trusted, since TileDB writes Hilbert order, its own order of strings, and
 * once wrote unsorted cells: each tile is checked, and sorted if necessary. Boxes are checked too: a cell outside its
 * tile's box is TSR_CORRUPT. If a lossy filter moves coordinates, boxes are not true, and all tiles enter before any
 * cell is decided.
 *
 * Keys. If the coordinates of all tiles, as distances from a common low corner, fit into 64 bits together, one key
 * holds them all, and two cells compare as two integers (`exact`). Otherwise the key is that of the first dimension,
 * and cells with equal keys are compared on all dimensions.
 *
 * Dimensions are compared in the array's order, reversed if cells are in column-major order. So tiles enter in about
 * the order that they have in their fragments, and few of them are in memory at a time.
 *
 * Sections: boxes; groups, which make the order of loading; tiles with their keys; the heap; merging.
 */
#include "read/reader.h"

#include <string.h>

#include "base/heap.h"
#include "base/sort.h"
#include "model/datatype.h"
#include "format/fragment_metadata.h"
#include "array/array.h"
#include "environment/environment.h"

#define POLL_CELLS     65536u /* cells between two checks for cancellation */
#define PARALLEL_CELLS 16384u /* fewer cells in a window are not worth waking workers */

typedef struct merging_tile { /* a tile in the merge: one block of memory that includes all of its arrays */
  tsr_sparse_tile tile; /* cells: sorted by coordinates; those before position `winners` have won */
  const uint64_t *times; /* by cell; NULL: all cells have `time` */
  uint64_t time;
  uint64_t at, winners; /* position of the next cell; how many cells have won */
  uint64_t *first; /* by position: the exact key, or that of the first dimension; for strings, the first 8 bytes */
  /* if keys are not exact, by number k of the dimension in the order of comparison: */
  uint64_t **keys; /* [k][position]: order keys; NULL for strings */
  tsr_coordinates *text; /* [k]: strings, by cell */
  struct merging_tile *next; /* in the queue, or in the list of finished tiles */
} merging_tile;

typedef struct heap_entry {
  uint64_t key; /* of the tile's next cell */
  merging_tile *tile;
} heap_entry;

typedef struct merge_keys { /* how coordinates are compared; by number k of the dimension in the order of comparison */
  uint32_t *dimension; /* [k] */
  bool exact; /* one key holds all coordinates */
  uint64_t *low; /* [k], exact: the common low corner */
  unsigned *shift; /* [k], exact: the position in the key of the lowest bit of the distance from `low` */
} merge_keys;

typedef struct merge_plan { /* the tiles to merge: group by group, by low corner */
  const uint64_t *order; /* indices in the reader's plan */
  const uint32_t *groups; /* the group of each of them */
  uint64_t count, entered; /* number of tiles; of tiles that have moved from the queue to the heap */
  uint32_t group; /* of the tile that entered last */
} merge_plan;

typedef struct merge_heap { /* tiles that have entered, by their next cell */
  heap_entry *entries;
  uint64_t count, capacity;
} merge_heap;

struct tsr_version_merge {
  tsr_reader *reader;
  uint32_t dimensions;
  const tsr_rtree **rtrees; /* by fragment */
  merge_keys key;
  merge_plan plan;
  merge_heap heap;
  merging_tile *queue, **queue_end; /* tiles that were added and have not entered, in order */
  merging_tile *finished; /* list of tiles whose cells are all decided */
  merging_tile *returned; /* the tile that the caller uses until the next call */
};

/* ---- Boxes ------------------------------------------------------------------------------------------------------ */

typedef struct tile_box {
  const uint64_t *keys, *sizes; /* low and high of each dimension; for strings: offsets in `text`, and sizes in bytes */
  const uint8_t *text;
} tile_box;

static tile_box box_of(const tsr_version_merge *merge, const tsr_plan_tile *tile) {
  const tsr_rtree *rtree = merge->rtrees[tile->fragment];
  const uint32_t leaf = rtree->levels - 1;
  const uint64_t at = tile->tile * merge->dimensions * 2;
  return (tile_box){
      .keys = rtree->keys[leaf] + at, .sizes = rtree->sizes ? rtree->sizes[leaf] + at : NULL, .text = rtree->text};
}

static bool is_text(const tsr_version_merge *merge, uint32_t d) {
  return merge->reader->snapshot->schema->fields[d].values_per_cell == TSR_VARIABLE;
}

/* Compares an end (0: low, 1: high) of one box with an end of another box, on dimension d. */
static int compare_ends(const tsr_version_merge *merge, const tile_box *a, unsigned a_end, const tile_box *b,
                        unsigned b_end, uint32_t d) {
  const uint64_t i = 2 * d + a_end, j = 2 * d + b_end;
  if (is_text(merge, d))
    return tsr__bytes_compare(a->text + a->keys[i], a->sizes[i], b->text + b->keys[j], b->sizes[j]);
  return a->keys[i] < b->keys[j] ? -1 : a->keys[i] > b->keys[j];
}

static bool boxes_meet(const tsr_version_merge *merge, const tile_box *a, const tile_box *b) {
  for (uint32_t d = 0; d < merge->dimensions; d++)
    if (compare_ends(merge, a, 0, b, 1, d) > 0 || compare_ends(merge, b, 0, a, 1, d) > 0) return false;
  return true;
}

static int compare_corners(const void *argument, uint32_t a, uint32_t b) {
  const tsr_version_merge *merge = argument;
  const tsr_plan_tile *tiles = merge->reader->plan.tiles;
  const tile_box x = box_of(merge, &tiles[a]), y = box_of(merge, &tiles[b]);
  for (uint32_t k = 0; k < merge->dimensions; k++) {
    const int c = compare_ends(merge, &x, 0, &y, 0, merge->key.dimension[k]);
    if (c) return c;
  }
  return 0;
}

/* ---- Groups ----------------------------------------------------------------------------------------------------- */

static uint32_t root_of(uint32_t *parents, uint32_t i) {
  while (parents[i] != i) i = parents[i] = parents[parents[i]];
  return i;
}

static bool has_cell_times(const tsr_version_merge *merge, const tsr_plan_tile *tile) {
  return merge->reader->snapshot->fragments[tile->fragment].fragment->metadata.has_times;
}

/* Sorts all tiles of the plan by the low corners of their boxes. */
static int sort_corners(const tsr_version_merge *merge, tsr_pair **sorted, tsr_error *error) {
  const tsr_plan *plan = &merge->reader->plan;
  const uint32_t d = merge->key.dimension[0];
  TSR_TRY(TSR_ARENA_ARRAY(&merge->reader->arena, tsr__mul_sat(2, plan->tile_count), sorted, error));
  for (uint64_t i = 0; i < plan->tile_count; i++) {
    const tile_box b = box_of(merge, &plan->tiles[i]);
    (*sorted)[i].cell = (uint32_t)i;
    (*sorted)[i].key = is_text(merge, d) ? tsr__text_prefix(b.text + b.keys[2 * d], b.sizes[2 * d]) : b.keys[2 * d];
  }
  tsr__pairs_sort_ties(*sorted, *sorted + plan->tile_count, plan->tile_count, compare_corners, merge);
  return TSR_OK;
}

/* Joins tiles that may hold the same coordinate into groups: a sweep along the first dimension, which compares each
 * tile with the earlier ones whose boxes reach it. */
static int join_tiles(const tsr_version_merge *merge, const tsr_pair *sorted, uint32_t *parents, uint32_t *active,
                      tsr_error *error) {
  const tsr_plan_tile *tiles = merge->reader->plan.tiles;
  const uint32_t d = merge->key.dimension[0];
  uint64_t reaching = 0, compared = 0;
  for (uint64_t i = 0; i < merge->reader->plan.tile_count; i++) {
    const uint32_t t = sorted[i].cell;
    const tile_box b = box_of(merge, &tiles[t]);
    uint64_t kept = 0;
    for (uint64_t k = 0; k < reaching; k++) {
      const uint32_t other = active[k];
      const tile_box o = box_of(merge, &tiles[other]);
      if (!merge->reader->plan.lossy && compare_ends(merge, &o, 1, &b, 0, d) < 0) continue;
      active[kept++] = other;
      if (tiles[other].fragment == tiles[t].fragment && !has_cell_times(merge, &tiles[t])) continue;
      if (merge->reader->plan.lossy || boxes_meet(merge, &o, &b))
        parents[root_of(parents, t)] = root_of(parents, other);
    }
    compared += reaching + 1;
    reaching = kept;
    active[reaching++] = t;
    if (compared >= POLL_CELLS) {
      compared = 0;
      TSR_TRY(tsr__cancelled(&merge->reader->snapshot->array->environment->memory, error));
    }
  }
  return TSR_OK;
}

/* Makes the order of tiles: first the tiles that are alone in their groups, then group by group, by low corner. A tile
 * of a fragment with cell times can hold several versions of a coordinate, so it is always merged. */
static int make_order(tsr_version_merge *merge, const tsr_pair *sorted, uint32_t *parents, uint64_t *order,
                      uint64_t *streams, tsr_error *error) {
  const tsr_plan *plan = &merge->reader->plan;
  const uint64_t n = plan->tile_count;
  uint32_t *sizes;
  TSR_TRY(TSR_ARENA_ARRAY(&merge->reader->arena, tsr__mul_sat(n, 3), &sizes, error));
  uint32_t *ranks = sizes + n, *groups = ranks + n;
  for (uint64_t i = 0; i < n; i++) sizes[root_of(parents, (uint32_t)i)]++;
  uint64_t alone = 0;
  for (uint64_t i = 0; i < n; i++) /* in the plan's order, so that files are read from front to back */
    if (sizes[root_of(parents, (uint32_t)i)] == 1 && !has_cell_times(merge, &plan->tiles[i])) order[alone++] = i;
  /* By root: ranks is the group's number, 0 before its first tile; places is the position of its next tile. */
  uint32_t group = 0;
  uint64_t place = alone;
  uint64_t *places;
  TSR_TRY(TSR_ARENA_ARRAY(&merge->reader->arena, n, &places, error));
  for (uint64_t i = 0; i < n; i++) {
    const uint32_t t = sorted[i].cell, root = root_of(parents, t);
    if (sizes[root] == 1 && !has_cell_times(merge, &plan->tiles[t])) continue;
    if (ranks[root] == 0) {
      ranks[root] = ++group;
      places[root] = place;
      place += sizes[root];
    }
    groups[places[root] - alone] = ranks[root];
    order[places[root]++] = t;
  }
  merge->plan.order = order + alone;
  merge->plan.groups = groups;
  merge->plan.count = n - alone;
  *streams = alone;
  return TSR_OK;
}

/* Finds out whether the coordinates of all tiles fit into one key, and where each dimension's bits are in it. */
static int choose_exact_keys(tsr_version_merge *merge, tsr_error *error) {
  const tsr_plan *plan = &merge->reader->plan;
  unsigned bits = 0;
  TSR_TRY(TSR_ARENA_ARRAY(&merge->reader->arena, merge->dimensions, &merge->key.low, error));
  TSR_TRY(TSR_ARENA_ARRAY(&merge->reader->arena, merge->dimensions, &merge->key.shift, error));
  if (plan->lossy) return TSR_OK;
  for (uint32_t k = merge->dimensions; k-- > 0;) { /* the last dimension takes the lowest bits */
    const uint32_t d = merge->key.dimension[k];
    uint64_t low = UINT64_MAX, high = 0;
    if (is_text(merge, d) || tsr_datatype_kind(merge->reader->snapshot->schema->fields[d].datatype) == TSR_KIND_FLOAT)
      return TSR_OK;
    for (uint64_t i = 0; i < merge->plan.count; i++) {
      const tile_box b = box_of(merge, &plan->tiles[merge->plan.order[i]]);
      low = TSR_MIN(low, b.keys[2 * d]);
      high = TSR_MAX(high, b.keys[2 * d + 1]);
    }
    if (low > high) return TSR_OK;
    merge->key.low[k] = low;
    merge->key.shift[k] = bits % 64; /* with 64 bits used up, the dimension must have a single value */
    if (high > low) bits += 64 - (unsigned)__builtin_clzll(high - low);
    if (bits > 64) return TSR_OK;
  }
  merge->key.exact = true;
  return TSR_OK;
}

/* Returns true if two tiles of the plan can hold the same coordinate at all. */
static bool may_overlap(const tsr_reader *reader) {
  const tsr_plan *plan = &reader->plan;
  if (reader->snapshot->schema->allows_duplicates) return false;
  for (uint64_t i = 0; i < plan->tile_count; i++)
    if (plan->tiles[i].fragment != plan->tiles[0].fragment ||
        reader->snapshot->fragments[plan->tiles[i].fragment].fragment->metadata.has_times)
      return true;
  return false;
}

static int find_groups(tsr_version_merge *merge, uint64_t *order, uint64_t *streams, tsr_error *error) {
  tsr_reader *reader = merge->reader;
  tsr_snapshot *snapshot = reader->snapshot;
  const tsr_plan *plan = &reader->plan;
  if (plan->tile_count >= UINT32_MAX)
    return tsr__fail(error, TSR_UNSUPPORTED, "%llu tiles to be merged at once", (unsigned long long)plan->tile_count);
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, merge->dimensions, &merge->key.dimension, error));
  for (uint32_t k = 0; k < merge->dimensions; k++)
    merge->key.dimension[k] = snapshot->schema->cell_order == TSR_ORDER_COL ? merge->dimensions - 1 - k : k;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, snapshot->fragment_count, &merge->rtrees, error));
  for (uint64_t i = 0; i < plan->tile_count; i++) {
    const uint32_t f = plan->tiles[i].fragment;
    if (!merge->rtrees[f])
      TSR_TRY(tsr__fragment_rtree(snapshot->array, snapshot->fragments[f].fragment, &merge->rtrees[f], error));
  }
  tsr_pair *sorted;
  TSR_TRY(sort_corners(merge, &sorted, error));
  uint32_t *parents;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, tsr__mul_sat(2, plan->tile_count), &parents, error));
  for (uint64_t i = 0; i < plan->tile_count; i++) parents[i] = (uint32_t)i;
  TSR_TRY(join_tiles(merge, sorted, parents, parents + plan->tile_count, error));
  TSR_TRY(make_order(merge, sorted, parents, order, streams, error));
  return choose_exact_keys(merge, error);
}

int tsr__version_merge_open(tsr_reader *reader, uint64_t **order, uint64_t *streams, tsr_version_merge **out,
                            tsr_error *error) {
  const uint64_t n = reader->plan.tile_count;
  TSR_TRY(TSR_ARENA_RAW(&reader->arena, n, order, error));
  *streams = n;
  *out = NULL;
  if (!may_overlap(reader)) {
    for (uint64_t i = 0; i < n; i++) (*order)[i] = i;
    return TSR_OK;
  }
  tsr_version_merge *merge;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, 1, &merge, error));
  merge->reader = reader;
  merge->dimensions = reader->snapshot->schema->dimension_count;
  merge->queue_end = &merge->queue;
  TSR_TRY(find_groups(merge, *order, streams, error));
  if (merge->plan.count > 0) *out = merge;
  return TSR_OK;
}

/* ---- Tiles with their keys -------------------------------------------------------------------------------------- */

/* Computes the keys of these cells, in their order; NULL: of all cells. */
static void cell_keys(const tsr_field *field, const uint8_t *values, const uint32_t *cells, uint64_t count,
                      uint64_t *keys) {
  if (!cells) {
    tsr__keys(field->datatype, values, count, keys);
    return;
  }
  for (uint64_t i = 0; i < count; i++) keys[i] = tsr__key(field->datatype, values + cells[i] * field->cell_size);
}

static tsr_slice text_at(const merging_tile *t, uint32_t k, uint64_t position) {
  const uint64_t cell = t->tile.cells[position];
  const tsr_coordinates *c = &t->text[k];
  return (tsr_slice){c->values + c->offsets[cell], c->offsets[cell + 1] - c->offsets[cell]};
}

/* Compares the coordinates of two cells, by position, whose keys are equal. */
static int compare_rest(const tsr_version_merge *merge, const merging_tile *a, uint64_t i, const merging_tile *b,
                        uint64_t j) {
  for (uint32_t k = 0; k < merge->dimensions && !merge->key.exact; k++) {
    if (a->keys[k]) {
      if (a->keys[k][i] != b->keys[k][j]) return a->keys[k][i] < b->keys[k][j] ? -1 : 1;
      continue;
    }
    const tsr_slice x = text_at(a, k, i), y = text_at(b, k, j);
    const int c = tsr__bytes_compare(x.bytes, x.size, y.bytes, y.size);
    if (c) return c;
  }
  return 0;
}

typedef struct tie_context {
  const tsr_version_merge *merge;
  const merging_tile *tile;
} tie_context;

static int compare_ties(const void *argument, uint32_t a, uint32_t b) {
  const tie_context *c = argument;
  return compare_rest(c->merge, c->tile, a, c->tile, b);
}

/* Sorts the cells of a tile and their keys by coordinates, unless they are sorted. */
static int sort_cells(const tsr_version_merge *merge, merging_tile *t, tsr_error *error) {
  const uint64_t n = t->tile.count;
  uint64_t i = 1;
  while (i < n && (t->first[i - 1] < t->first[i] ||
                   (t->first[i - 1] == t->first[i] && compare_rest(merge, t, i - 1, t, i) <= 0)))
    i++;
  if (i >= n) return TSR_OK;

  tsr_pair *memory;
  TSR_TRY(TSR_ALLOC_RAW(&merge->reader->memory, 2 * n, &memory, error));
  tsr_pair *pairs = memory, *room = pairs + n;
  for (i = 0; i < n; i++) pairs[i] = (tsr_pair){.key = t->first[i], .cell = (uint32_t)i};
  tsr__pairs_sort_ties(pairs, room, n, merge->key.exact ? NULL : compare_ties,
                       &(tie_context){.merge = merge, .tile = t});
  uint64_t *keys = (uint64_t *)(void *)room;
  for (uint32_t k = 0; k < merge->dimensions && !merge->key.exact; k++) {
    if (!t->keys[k] || t->keys[k] == t->first) continue;
    for (i = 0; i < n; i++) keys[i] = t->keys[k][pairs[i].cell];
    memcpy(t->keys[k], keys, n * sizeof(uint64_t));
  }
  for (i = 0; i < n; i++) keys[i] = t->tile.cells[pairs[i].cell];
  for (i = 0; i < n; i++) t->tile.cells[i] = (uint32_t)keys[i];
  for (i = 0; i < n; i++) t->first[i] = pairs[i].key;
  tsr__free(memory);
  return TSR_OK;
}

/* Counts cells outside their tile's box: because of them a cell that looks final might not be. A NaN lies in no box and
 * does not count. */
static uint64_t count_outside(const uint64_t *keys, uint64_t count, uint64_t low, uint64_t high, bool floats) {
  uint64_t outside = 0, nans = 0;
  for (uint64_t i = 0; i < count; i++) outside += (keys[i] < low) | (keys[i] > high);
  for (uint64_t i = 0; i < count && floats && outside > 0; i++) nans += keys[i] > high && keys[i] == TSR_KEY_NAN;
  return outside - nans;
}

static uint64_t count_outside_text(const merging_tile *t, uint32_t k, const tile_box *b, uint32_t d) {
  uint64_t outside = 0;
  for (uint64_t i = 0; i < t->tile.count; i++) {
    const tsr_slice x = text_at(t, k, i);
    outside += tsr__bytes_compare(x.bytes, x.size, b->text + b->keys[2 * d], b->sizes[2 * d]) < 0 ||
               tsr__bytes_compare(x.bytes, x.size, b->text + b->keys[2 * d + 1], b->sizes[2 * d + 1]) > 0;
  }
  return outside;
}

/* Computes the keys of a tile's cells and checks that they lie in its box. `room` is scratch for as many keys, used if
 * keys are exact. */
static int fill_keys(const tsr_version_merge *merge, merging_tile *t, const uint32_t *cells, uint64_t *room,
                     tsr_error *error) {
  const tsr_schema *schema = merge->reader->snapshot->schema;
  const uint64_t n = t->tile.count;
  const tile_box b = box_of(merge, &t->tile.plan);
  for (uint64_t i = 0; i < n; i++) t->tile.cells[i] = cells ? cells[i] : (uint32_t)i;
  if (merge->key.exact) memset(t->first, 0, n * sizeof(uint64_t));
  for (uint32_t k = 0; k < merge->dimensions; k++) {
    const uint32_t d = merge->key.dimension[k];
    const tsr_field *field = &schema->fields[d];
    const tsr_coordinates c = tsr__pinned_coordinates(merge->reader, t->tile.pinned, d);
    uint64_t outside;
    if (is_text(merge, d)) {
      t->text[k] = c;
      outside = count_outside_text(t, k, &b, d);
      for (uint64_t i = 0; k == 0 && i < n; i++) {
        const tsr_slice x = text_at(t, k, i);
        t->first[i] = tsr__text_prefix(x.bytes, x.size);
      }
    } else {
      uint64_t *keys = merge->key.exact ? room : t->keys[k];
      cell_keys(field, c.values, cells, n, keys);
      outside = count_outside(keys, n, b.keys[2 * d], b.keys[2 * d + 1],
                              tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT);
      for (uint64_t i = 0; merge->key.exact && i < n; i++)
        t->first[i] |= (keys[i] - merge->key.low[k]) << merge->key.shift[k];
    }
    if (outside > 0 && !merge->reader->plan.lossy)
      return tsr__fail(error, TSR_CORRUPT, "fragment %s, tile %llu: %llu cells are outside of its box on dimension %s",
                       merge->reader->snapshot->fragments[t->tile.plan.fragment].fragment->name,
                       (unsigned long long)t->tile.plan.tile, (unsigned long long)outside, field->name);
  }
  return TSR_OK;
}

/* Allocates a tile and its arrays as one block. */
static int allocate_tile(const tsr_version_merge *merge, const tsr_sparse_tile *tile, merging_tile **out,
                         tsr_error *error) {
  const uint32_t n = merge->dimensions;
  const bool text_first = is_text(merge, merge->key.dimension[0]);
  uint64_t columns = merge->key.exact || text_first; /* of u64 */
  for (uint32_t d = 0; d < n && !merge->key.exact; d++) columns += !is_text(merge, d);
  uint64_t bytes = sizeof(merging_tile) + n * (sizeof(uint64_t *) + sizeof(tsr_coordinates));
  bytes = tsr__add_sat(bytes, tsr__mul_sat(tile->count, columns * sizeof(uint64_t) + sizeof(uint32_t)));
  merging_tile *t;
  TSR_TRY(TSR_ALLOC_RAW_BYTES(&merge->reader->memory, bytes, &t, error));
  *t = (merging_tile){.tile = *tile};
  t->text = (tsr_coordinates *)(void *)(t + 1);
  t->keys = (uint64_t **)(void *)(t->text + n);
  uint64_t *keys = (uint64_t *)(void *)(t->keys + n);
  t->first = keys;
  if (merge->key.exact || text_first) keys += tile->count;
  for (uint32_t k = 0; k < n && !merge->key.exact; k++) {
    t->keys[k] = is_text(merge, merge->key.dimension[k]) ? NULL : keys;
    if (t->keys[k]) keys += tile->count;
  }
  t->tile.cells = (uint32_t *)(void *)keys;
  *out = t;
  return TSR_OK;
}

static int make_tile(const tsr_version_merge *merge, const tsr_sparse_tile *tile, merging_tile **out,
                     tsr_error *error) {
  const tsr_fragment *fragment = merge->reader->snapshot->fragments[tile->plan.fragment].fragment;
  merging_tile *t;
  uint64_t *room = NULL;
  TSR_TRY(allocate_tile(merge, tile, &t, error));
  t->time = merge->reader->snapshot->fragments[tile->plan.fragment].time;
  if (fragment->metadata.has_times && tile->count > 0) {
    const int64_t slot = tsr__fragment_system_slot(&fragment->metadata, TSR_SLOT_TIMES);
    t->times = (const uint64_t *)(const void *)tile->pinned->tiles[slot]->values;
  }
  int rc = TSR_OK;
  if (merge->key.exact) rc = TSR_ALLOC_RAW(&merge->reader->memory, tile->count, &room, error);
  if (rc >= 0) rc = fill_keys(merge, t, tile->cells, room, error);
  tsr__free(room);
  if (rc >= 0) rc = sort_cells(merge, t, error);
  if (rc >= 0) *out = t;
  else tsr__free(t);
  return rc;
}

typedef struct tile_preparation {
  const tsr_version_merge *merge;
  const tsr_sparse_tile *tiles;
  merging_tile **made;
} tile_preparation;

static int prepare_one(void *argument, uint64_t index, tsr_error *error) {
  const tile_preparation *m = argument;
  return make_tile(m->merge, &m->tiles[index], &m->made[index], error);
}

/* Makes the tiles on some threads. After an error none is made. */
static int prepare_all(tile_preparation *m, uint64_t count, unsigned threads, tsr_error *error) {
  const int rc = tsr__parallel_for(threads, count, prepare_one, m, error);
  for (uint64_t i = 0; i < count && rc < 0; i++) {
    tsr__free(m->made[i]);
    m->made[i] = NULL;
  }
  return rc;
}

int tsr__version_merge_add(tsr_version_merge *merge, const tsr_sparse_tile *tiles, uint64_t count, tsr_error *error) {
  tsr_reader *reader = merge->reader;
  uint64_t cells = 0;
  merging_tile **memory;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->window.arena, count, &memory, error));
  tile_preparation m = {.merge = merge, .tiles = tiles, .made = memory};
  for (uint64_t i = 0; i < count; i++) cells += tiles[i].count;
  const bool alone = cells < PARALLEL_CELLS || reader->snapshot->array->environment->single_threaded;
  int rc = prepare_all(&m, count, alone ? 1 : reader->threads, error);
  if (tsr__lacks_memory(rc) && !alone && reader->threads > 1) /* each tile sorts its keys: one by one they take less */
    rc = prepare_all(&m, count, 1, error);
  for (uint64_t i = 0; i < count && rc >= 0; i++) {
    *merge->queue_end = m.made[i];
    merge->queue_end = &m.made[i]->next;
  }
  return rc;
}

/* ---- The heap --------------------------------------------------------------------------------------------------- */

static inline bool comes_before(const tsr_version_merge *merge, const heap_entry *a, const heap_entry *b) {
  if (a->key != b->key) return a->key < b->key;
  return !merge->key.exact && compare_rest(merge, a->tile, a->tile->at, b->tile, b->tile->at) < 0;
}

TSR_DEFINE_HEAP(entry_heap, tsr_version_merge, heap_entry, comes_before)

static int push(tsr_version_merge *merge, merging_tile *t, tsr_error *error) {
  TSR_TRY(
      TSR_ARENA_GROW(&merge->reader->arena, &merge->heap.entries, merge->heap.count, &merge->heap.capacity, 16, error));
  entry_heap_rise(merge, merge->heap.entries, merge->heap.count++, (heap_entry){.key = t->first[t->at], .tile = t});
  return TSR_OK;
}

/* Steps past the current cell of the tile at the top. A tile without more cells moves from the heap to `finished`. */
static inline void advance_top(tsr_version_merge *merge, merging_tile **finished) {
  heap_entry e = merge->heap.entries[0];
  if (++e.tile->at < e.tile->tile.count) {
    e.key = e.tile->first[e.tile->at];
  } else {
    e.tile->next = *finished;
    *finished = e.tile;
    e = merge->heap.entries[--merge->heap.count];
  }
  entry_heap_sink(merge, merge->heap.entries, merge->heap.count, 0, e);
}

/* Returns true if b's cell is the later version of two cells with equal coordinates. In a consolidated fragment the
 * later version comes first. */
static bool is_later(const merging_tile *a, uint64_t i, const merging_tile *b, uint64_t j) {
  const uint32_t x = a->tile.cells[i], y = b->tile.cells[j];
  const uint64_t first_time = a->times ? a->times[x] : a->time, second_time = b->times ? b->times[y] : b->time;
  if (first_time != second_time) return second_time > first_time;
  if (a->tile.plan.fragment != b->tile.plan.fragment) return b->tile.plan.fragment > a->tile.plan.fragment;
  const bool further = a->tile.plan.tile != b->tile.plan.tile ? b->tile.plan.tile > a->tile.plan.tile : y > x;
  return a->times ? !further : further;
}

/* Decides the coordinate at the top of the heap. The winner moves to the front of its tile's cells, over cells that are
 * already decided. */
static void decide(tsr_version_merge *merge) {
  const uint64_t key = merge->heap.entries[0].key;
  merging_tile *best = merge->heap.entries[0].tile, *finished = NULL;
  uint64_t at = best->at;
  advance_top(merge, &finished);
  while (merge->heap.count > 0 && merge->heap.entries[0].key == key) {
    merging_tile *t = merge->heap.entries[0].tile;
    if (compare_rest(merge, best, at, t, t->at) != 0) break;
    if (is_later(best, at, t, t->at)) {
      best = t;
      at = t->at;
    }
    advance_top(merge, &finished);
  }
  best->tile.cells[best->winners++] = best->tile.cells[at];
  while (finished) {
    merging_tile *t = finished;
    finished = t->next;
    t->next = merge->finished;
    merge->finished = t;
  }
}

/* ---- Merging ----------------------------------------------------------------------------------------------------- */

/* Compares the cell at the top of the heap with the low corner of a box. */
static int compare_corner(const tsr_version_merge *merge, const tile_box *b) {
  const merging_tile *t = merge->heap.entries[0].tile;
  uint64_t corner = 0;
  for (uint32_t k = 0; k < merge->dimensions; k++) {
    const uint32_t d = merge->key.dimension[k];
    int c;
    if (merge->key.exact) {
      corner |= (b->keys[2 * d] - merge->key.low[k]) << merge->key.shift[k];
      continue;
    }
    if (t->keys[k]) {
      c = t->keys[k][t->at] < b->keys[2 * d] ? -1 : t->keys[k][t->at] > b->keys[2 * d];
    } else {
      const tsr_slice x = text_at(t, k, t->at);
      c = tsr__bytes_compare(x.bytes, x.size, b->text + b->keys[2 * d], b->sizes[2 * d]);
    }
    if (c) return c;
  }
  return !merge->key.exact ? 0 : merge->heap.entries[0].key < corner ? -1 : merge->heap.entries[0].key > corner;
}

/* Returns true if the next tile must enter the heap before the top cell can be decided. */
static bool must_enter_next(const tsr_version_merge *merge) {
  if (merge->plan.entered == merge->plan.count) return false;
  if (merge->heap.count == 0 || merge->reader->plan.lossy) return true;
  if (merge->plan.groups[merge->plan.entered] != merge->plan.group) return false;
  const tile_box b = box_of(merge, &merge->reader->plan.tiles[merge->plan.order[merge->plan.entered]]);
  return compare_corner(merge, &b) >= 0;
}

static int enter_next(tsr_version_merge *merge, tsr_error *error) {
  merging_tile *t = merge->queue;
  merge->queue = t->next;
  if (!merge->queue) merge->queue_end = &merge->queue;
  merge->plan.group = merge->plan.groups[merge->plan.entered++];
  const int rc = t->tile.count > 0 ? push(merge, t, error) : TSR_OK;
  if (t->tile.count == 0 || rc < 0) { /* no cell to decide; or, after an error, so that it is freed */
    t->next = merge->finished;
    merge->finished = t;
  }
  return rc;
}

int tsr__version_merge_next(tsr_version_merge *merge, tsr_sparse_tile *tile, tsr_error *error) {
  tsr__free(merge->returned);
  merge->returned = NULL;
  for (uint64_t decided = 1;; decided++) {
    if (merge->finished) {
      merging_tile *t = merge->finished;
      merge->finished = t->next;
      merge->returned = t;
      t->tile.count = t->winners;
      *tile = t->tile;
      return TSR_VERSION_MERGE_TILE;
    }
    if (decided % POLL_CELLS == 0) TSR_TRY(tsr__cancelled(&merge->reader->snapshot->array->environment->memory, error));
    if (must_enter_next(merge)) {
      if (!merge->queue) return TSR_VERSION_MERGE_NEEDS;
      TSR_TRY(enter_next(merge, error));
      continue;
    }
    if (merge->heap.count == 0) return TSR_VERSION_MERGE_END;
    decide(merge);
  }
}

static void drop_merging_tiles(tsr_version_merge *merge, merging_tile *list) {
  while (list) {
    merging_tile *t = list;
    list = t->next;
    tsr__reader_unpin(merge->reader, t->tile.pinned);
    tsr__free(t);
  }
}

void tsr__version_merge_close(tsr_version_merge *merge) {
  if (!merge) return;
  for (uint64_t i = 0; i < merge->heap.count; i++) {
    merge->heap.entries[i].tile->next = NULL;
    drop_merging_tiles(merge, merge->heap.entries[i].tile);
  }
  drop_merging_tiles(merge, merge->queue);
  drop_merging_tiles(merge, merge->finished);
  tsr__free(merge->returned); /* the pinned tile belongs to the caller */
}
