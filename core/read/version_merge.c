/* version merge.c: sparse tiles whose boxes overlap, merged so that one version of each coordinate is left.
 *
 * Tiles are taken together in groups that overlap directly or through others; only tiles of different fragments can
 * hold the same coordinate, or those of a merged fragment, which keeps old versions. Within a group, tiles enter by the
 * low corners of their boxes, in lexicographic order of the version merge's dimensions; a heap holds the tiles that have
 * entered, by their next cell. A cell below the low corner of the next tile is final: no version of it can follow. Of
 * equal coordinates the latest wins: by time of the cell (or the start of its fragment), then by the order of
 * fragments. A tile is given out once all of its cells are decided.
 *
 * The order of cells in a tile is not trusted (TileDB writes Hilbert order, its own order of strings, and once wrote
 * what was not sorted): each tile is looked through, and sorted if need be. Boxes are trusted only as far as they are
 * true: a cell outside its tile's box is TSR_CORRUPT. (Where a lossy filter moves coordinates they are not true: then
 * all tiles enter before anything is decided.)
 *
 * Where the coordinates of all tiles of the version merge fit, as distances from a common corner, into 64 bits together, one
 * key holds them all, and a comparison is one of integers (`exact`). Else the key is the first dimension's, and equal
 * ones are looked into.
 *
 * The version merge's dimensions are the array's, reversed where cells lie in column-major order, so that tiles enter about as
 * they stand in their fragments and few of them are open at a time.
 */
#include "read/version_merge.h"

#include <string.h>

#include "base/heap.h"
#include "base/sort.h"
#include "model/datatype.h"
#include "format/fragment_slot.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/snapshot.h"
#include "read/reader.h"

#define POLL_CELLS     65536u
#define PARALLEL_CELLS 16384u /* in a window; fewer are not worth waking workers */

typedef struct swept_tile { /* one block of memory with all its arrays */
  tsr_sparse_tile tile; /* cells: in version merge order; those in front of `winners` are the ones that won */
  const uint64_t *times; /* of cells; NULL: `time` is of all */
  uint64_t time;
  uint64_t at, winners;
  uint64_t *first; /* by position: the key; of a string, its first 8 bytes */
  /* where keys are not exact: */
  uint64_t **keys; /* [k], by position: keys of each dimension; NULL for strings */
  tsr_coordinates *text; /* [k], by cell: strings */
  struct swept_tile *next; /* in the queue or among those finished */
} swept_tile;

typedef struct heap_entry {
  uint64_t key; /* of the tile's next cell */
  swept_tile *tile;
} heap_entry;

struct tsr_version_merge {
  tsr_reader *reader;
  uint32_t dimensions;
  uint32_t *dimension; /* [k]: the version merge's dimensions */
  const tsr_rtree **rtrees; /* by fragment */
  const uint64_t *order; /* tiles of the version merge, indices in the plan */
  const uint32_t *groups; /* of each of them */
  uint64_t count, entered; /* tiles that are in the heap or gone; those behind them wait in the queue */
  uint32_t group; /* the present one */
  bool exact;
  uint64_t *low; /* [k], exact: the common corner ... */
  unsigned *shift; /* ... and where dimension k's distance from it stands in the key */
  swept_tile *queue, **queue_end;
  heap_entry *heap;
  uint64_t heap_count, heap_capacity;
  swept_tile *finished, *given; /* given: to the caller, until the next call */
};

/* ---- Boxes ------------------------------------------------------------------------------------------------------ */

typedef struct version_merge_box {
  const uint64_t *keys, *sizes; /* of the R-tree's leaf: low and high of each dimension */
  const uint8_t *text;
} version_merge_box;

static version_merge_box box_of(const tsr_version_merge *s, const tsr_plan_tile *tile) {
  const tsr_rtree *rtree = s->rtrees[tile->fragment];
  const uint32_t leaf = rtree->levels - 1;
  const uint64_t at = tile->tile * s->dimensions * 2;
  return (version_merge_box){
      .keys = rtree->keys[leaf] + at, .sizes = rtree->sizes ? rtree->sizes[leaf] + at : NULL, .text = rtree->text};
}

static bool version_merge_is_text(const tsr_version_merge *s, uint32_t d) {
  return s->reader->snapshot->schema->fields[d].values_per_cell == TSR_VARIABLE;
}

/* Compares an end (0 low, 1 high) of one box with an end of another. */
static int version_merge_compare_ends(const tsr_version_merge *s, const version_merge_box *a, unsigned a_end,
                                      const version_merge_box *b, unsigned b_end, uint32_t d) {
  const uint64_t i = 2 * d + a_end, j = 2 * d + b_end;
  if (version_merge_is_text(s, d))
    return tsr__bytes_compare(a->text + a->keys[i], a->sizes[i], b->text + b->keys[j], b->sizes[j]);
  return a->keys[i] < b->keys[j] ? -1 : a->keys[i] > b->keys[j];
}

static bool boxes_meet(const tsr_version_merge *s, const version_merge_box *a, const version_merge_box *b) {
  for (uint32_t d = 0; d < s->dimensions; d++)
    if (version_merge_compare_ends(s, a, 0, b, 1, d) > 0 || version_merge_compare_ends(s, b, 0, a, 1, d) > 0)
      return false;
  return true;
}

static int version_merge_compare_corners(const void *argument, uint32_t a, uint32_t b) {
  const tsr_version_merge *s = argument;
  const tsr_plan_tile *tiles = s->reader->plan.tiles;
  const version_merge_box x = box_of(s, &tiles[a]), y = box_of(s, &tiles[b]);
  for (uint32_t k = 0; k < s->dimensions; k++) {
    const int c = version_merge_compare_ends(s, &x, 0, &y, 0, s->dimension[k]);
    if (c) return c;
  }
  return 0;
}

/* ---- Groups ----------------------------------------------------------------------------------------------------- */

static uint32_t root_of(uint32_t *parents, uint32_t i) {
  while (parents[i] != i) i = parents[i] = parents[parents[i]];
  return i;
}

static bool version_merge_has_times(const tsr_version_merge *s, const tsr_plan_tile *tile) {
  return s->reader->snapshot->fragments[tile->fragment].fragment->metadata.has_times;
}

/* All tiles of the plan by the low corners of their boxes. */
static int sort_corners(const tsr_version_merge *s, tsr_pair **sorted, tsr_error *error) {
  const tsr_plan *plan = &s->reader->plan;
  const uint32_t d = s->dimension[0];
  TSR_TRY(TSR_ARENA_ARRAY(&s->reader->arena, tsr__mul_sat(2, plan->tile_count), sorted, error));
  for (uint64_t i = 0; i < plan->tile_count; i++) {
    const version_merge_box b = box_of(s, &plan->tiles[i]);
    (*sorted)[i].cell = (uint32_t)i;
    (*sorted)[i].key =
        version_merge_is_text(s, d) ? tsr__text_prefix(b.text + b.keys[2 * d], b.sizes[2 * d]) : b.keys[2 * d];
  }
  tsr__pairs_sort_ties(*sorted, *sorted + plan->tile_count, plan->tile_count, version_merge_compare_corners, s);
  return TSR_OK;
}

/* Joins the tiles that may hold a coordinate in common: along the first dimension, each is compared with those whose
 * boxes still reach it. */
static int join_tiles(const tsr_version_merge *s, const tsr_pair *sorted, uint32_t *parents, uint32_t *active,
                      tsr_error *error) {
  const tsr_plan_tile *tiles = s->reader->plan.tiles;
  const uint32_t d = s->dimension[0];
  uint64_t reaching = 0, compared = 0;
  for (uint64_t i = 0; i < s->reader->plan.tile_count; i++) {
    const uint32_t t = sorted[i].cell;
    const version_merge_box b = box_of(s, &tiles[t]);
    uint64_t kept = 0;
    for (uint64_t k = 0; k < reaching; k++) {
      const uint32_t other = active[k];
      const version_merge_box o = box_of(s, &tiles[other]);
      if (!s->reader->plan.lossy && version_merge_compare_ends(s, &o, 1, &b, 0, d) < 0) continue;
      active[kept++] = other;
      if (tiles[other].fragment == tiles[t].fragment && !version_merge_has_times(s, &tiles[t])) continue;
      if (s->reader->plan.lossy || boxes_meet(s, &o, &b)) parents[root_of(parents, t)] = root_of(parents, other);
    }
    compared += reaching + 1;
    reaching = kept;
    active[reaching++] = t;
    if (compared >= POLL_CELLS) {
      compared = 0;
      TSR_TRY(tsr__environment_cancelled(s->reader->snapshot->array->environment, error));
    }
  }
  return TSR_OK;
}

/* Tiles that are alone in their groups first; then group by group, by low corners. */
static int make_order(tsr_version_merge *s, const tsr_pair *sorted, uint32_t *parents, uint64_t *order,
                      uint64_t *streams, tsr_error *error) {
  const tsr_plan *plan = &s->reader->plan;
  const uint64_t n = plan->tile_count;
  uint32_t *sizes;
  TSR_TRY(TSR_ARENA_ARRAY(&s->reader->arena, tsr__mul_sat(n, 3), &sizes, error));
  uint32_t *ranks = sizes + n, *groups = ranks + n;
  for (uint64_t i = 0; i < n; i++) sizes[root_of(parents, (uint32_t)i)]++;
  uint64_t alone = 0;
  for (uint64_t i = 0; i < n; i++) /* in the plan's order, which is that of files */
    if (sizes[root_of(parents, (uint32_t)i)] == 1 && !version_merge_has_times(s, &plan->tiles[i])) order[alone++] = i;
  /* where each group begins, then where its next tile goes; ranks + 1, 0: not met yet */
  uint32_t group = 0;
  uint64_t place = alone;
  uint64_t *places;
  TSR_TRY(TSR_ARENA_ARRAY(&s->reader->arena, n, &places, error));
  for (uint64_t i = 0; i < n; i++) {
    const uint32_t t = sorted[i].cell, root = root_of(parents, t);
    if (sizes[root] == 1 && !version_merge_has_times(s, &plan->tiles[t])) continue;
    if (ranks[root] == 0) {
      ranks[root] = ++group;
      places[root] = place;
      place += sizes[root];
    }
    groups[places[root] - alone] = ranks[root];
    order[places[root]++] = t;
  }
  s->order = order + alone;
  s->groups = groups;
  s->count = n - alone;
  *streams = alone;
  return TSR_OK;
}

/* Where the coordinates of all tiles of the version merge fit into one key. */
static int find_exact(tsr_version_merge *s, tsr_error *error) {
  const tsr_plan *plan = &s->reader->plan;
  unsigned bits = 0;
  TSR_TRY(TSR_ARENA_ARRAY(&s->reader->arena, s->dimensions, &s->low, error));
  TSR_TRY(TSR_ARENA_ARRAY(&s->reader->arena, s->dimensions, &s->shift, error));
  if (plan->lossy) return TSR_OK;
  for (uint32_t k = s->dimensions; k-- > 0;) { /* the last one lowest */
    const uint32_t d = s->dimension[k];
    uint64_t low = UINT64_MAX, high = 0;
    if (version_merge_is_text(s, d) ||
        tsr_datatype_kind(s->reader->snapshot->schema->fields[d].datatype) == TSR_KIND_FLOAT)
      return TSR_OK;
    for (uint64_t i = 0; i < s->count; i++) {
      const version_merge_box b = box_of(s, &plan->tiles[s->order[i]]);
      low = TSR_MIN(low, b.keys[2 * d]);
      high = TSR_MAX(high, b.keys[2 * d + 1]);
    }
    if (low > high) return TSR_OK;
    s->low[k] = low;
    s->shift[k] = bits % 64; /* at 64 there is no room left: the dimension must have one value */
    if (high > low) bits += 64 - (unsigned)__builtin_clzll(high - low);
    if (bits > 64) return TSR_OK;
  }
  s->exact = true;
  return TSR_OK;
}

/* Can two tiles of the plan hold one coordinate at all? */
static bool may_overlap(const tsr_reader *reader) {
  const tsr_plan *plan = &reader->plan;
  if (reader->snapshot->schema->allows_duplicates) return false;
  for (uint64_t i = 0; i < plan->tile_count; i++)
    if (plan->tiles[i].fragment != plan->tiles[0].fragment ||
        reader->snapshot->fragments[plan->tiles[i].fragment].fragment->metadata.has_times)
      return true;
  return false;
}

static int find_groups(tsr_version_merge *s, uint64_t *order, uint64_t *streams, tsr_error *error) {
  tsr_reader *reader = s->reader;
  tsr_snapshot *snapshot = reader->snapshot;
  const tsr_plan *plan = &reader->plan;
  if (plan->tile_count >= UINT32_MAX)
    return tsr__fail(error, TSR_UNSUPPORTED, "%llu tiles to be merged at once", (unsigned long long)plan->tile_count);
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, s->dimensions, &s->dimension, error));
  for (uint32_t k = 0; k < s->dimensions; k++)
    s->dimension[k] = snapshot->schema->cell_order == TSR_ORDER_COL ? s->dimensions - 1 - k : k;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, snapshot->fragment_count, &s->rtrees, error));
  for (uint64_t i = 0; i < plan->tile_count; i++) {
    const uint32_t f = plan->tiles[i].fragment;
    if (!s->rtrees[f])
      TSR_TRY(tsr__fragment_rtree(snapshot->array, snapshot->fragments[f].fragment, &s->rtrees[f], error));
  }
  tsr_pair *sorted;
  TSR_TRY(sort_corners(s, &sorted, error));
  uint32_t *parents;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, tsr__mul_sat(2, plan->tile_count), &parents, error));
  for (uint64_t i = 0; i < plan->tile_count; i++) parents[i] = (uint32_t)i;
  TSR_TRY(join_tiles(s, sorted, parents, parents + plan->tile_count, error));
  TSR_TRY(make_order(s, sorted, parents, order, streams, error));
  return find_exact(s, error);
}

int tsr__version_merge_open(tsr_reader *reader, uint64_t **order, uint64_t *streams, tsr_version_merge **merge,
                            tsr_error *error) {
  const uint64_t n = reader->plan.tile_count;
  TSR_TRY(TSR_ARENA_RAW(&reader->arena, n, order, error));
  *streams = n;
  *merge = NULL;
  if (!may_overlap(reader)) {
    for (uint64_t i = 0; i < n; i++) (*order)[i] = i;
    return TSR_OK;
  }
  tsr_version_merge *s;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, 1, &s, error));
  s->reader = reader;
  s->dimensions = reader->snapshot->schema->dimension_count;
  s->queue_end = &s->queue;
  TSR_TRY(find_groups(s, *order, streams, error));
  if (s->count > 0) *merge = s;
  return TSR_OK;
}

/* ---- Tiles with their keys -------------------------------------------------------------------------------------- */

/* The keys of chosen cells, in their order. */
static void version_merge_gather_keys(const tsr_field *field, const uint8_t *values, const uint32_t *cells,
                                      uint64_t count, uint64_t *keys) {
  if (!cells) {
    tsr__keys(field->datatype, values, count, keys);
    return;
  }
  for (uint64_t i = 0; i < count; i++) keys[i] = tsr__key(field->datatype, values + cells[i] * field->cell_size);
}

static tsr_slice version_merge_text_at(const swept_tile *t, uint32_t k, uint64_t position) {
  const uint64_t cell = t->tile.cells[position];
  const tsr_coordinates *c = &t->text[k];
  return (tsr_slice){c->values + c->offsets[cell], c->offsets[cell + 1] - c->offsets[cell]};
}

/* Coordinates of two cells, by position, whose keys are equal. */
static int compare_rest(const tsr_version_merge *s, const swept_tile *a, uint64_t i, const swept_tile *b, uint64_t j) {
  for (uint32_t k = 0; k < s->dimensions && !s->exact; k++) {
    if (a->keys[k]) {
      if (a->keys[k][i] != b->keys[k][j]) return a->keys[k][i] < b->keys[k][j] ? -1 : 1;
      continue;
    }
    const tsr_slice x = version_merge_text_at(a, k, i), y = version_merge_text_at(b, k, j);
    const int c = tsr__bytes_compare(x.bytes, x.size, y.bytes, y.size);
    if (c) return c;
  }
  return 0;
}

typedef struct version_merge_tie_context {
  const tsr_version_merge *merge;
  const swept_tile *tile;
} version_merge_tie_context;

static int version_merge_compare_ties(const void *argument, uint32_t a, uint32_t b) {
  const version_merge_tie_context *c = argument;
  return compare_rest(c->merge, c->tile, a, c->tile, b);
}

/* Puts the cells of a tile, and their keys, into version merge order where they are not. */
static int version_merge_sort_cells(const tsr_version_merge *s, swept_tile *t, tsr_error *error) {
  const uint64_t n = t->tile.count;
  uint64_t i = 1;
  while (i < n &&
         (t->first[i - 1] < t->first[i] || (t->first[i - 1] == t->first[i] && compare_rest(s, t, i - 1, t, i) <= 0)))
    i++;
  if (i >= n) return TSR_OK;

  tsr_pair *memory;
  TSR_TRY(TSR_ALLOC_RAW(&s->reader->memory, 2 * n, &memory, error));
  tsr_pair *pairs = memory, *room = pairs + n;
  for (i = 0; i < n; i++) pairs[i] = (tsr_pair){.key = t->first[i], .cell = (uint32_t)i};
  tsr__pairs_sort_ties(pairs, room, n, s->exact ? NULL : version_merge_compare_ties,
                       &(version_merge_tie_context){.merge = s, .tile = t});
  uint64_t *keys = (uint64_t *)(void *)room;
  for (uint32_t k = 0; k < s->dimensions && !s->exact; k++) {
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

/* Cells must lie in their tile's box, else what the version merge takes for final is not. A NaN is in no box. */
static uint64_t version_merge_count_outside(const uint64_t *keys, uint64_t count, uint64_t low, uint64_t high,
                                            bool floats) {
  uint64_t outside = 0, nans = 0;
  for (uint64_t i = 0; i < count; i++) outside += (keys[i] < low) | (keys[i] > high);
  for (uint64_t i = 0; i < count && floats && outside > 0; i++) nans += keys[i] > high && keys[i] == TSR_KEY_NAN;
  return outside - nans;
}

static uint64_t count_outside_text(const swept_tile *t, uint32_t k, const version_merge_box *b, uint32_t d) {
  uint64_t outside = 0;
  for (uint64_t i = 0; i < t->tile.count; i++) {
    const tsr_slice x = version_merge_text_at(t, k, i);
    outside += tsr__bytes_compare(x.bytes, x.size, b->text + b->keys[2 * d], b->sizes[2 * d]) < 0 ||
               tsr__bytes_compare(x.bytes, x.size, b->text + b->keys[2 * d + 1], b->sizes[2 * d + 1]) > 0;
  }
  return outside;
}

/* The keys of a tile's cells, and whether they lie in its box. `room`: for as many keys, where they are exact. */
static int fill_keys(const tsr_version_merge *s, swept_tile *t, const uint32_t *cells, uint64_t *room,
                     tsr_error *error) {
  const tsr_schema *schema = s->reader->snapshot->schema;
  const uint64_t n = t->tile.count;
  const version_merge_box b = box_of(s, &t->tile.plan);
  for (uint64_t i = 0; i < n; i++) t->tile.cells[i] = cells ? cells[i] : (uint32_t)i;
  if (s->exact) memset(t->first, 0, n * sizeof(uint64_t));
  for (uint32_t k = 0; k < s->dimensions; k++) {
    const uint32_t d = s->dimension[k];
    const tsr_field *field = &schema->fields[d];
    const tsr_coordinates c = tsr__pinned_coordinates(s->reader, t->tile.pinned, d);
    uint64_t outside;
    if (version_merge_is_text(s, d)) {
      t->text[k] = c;
      outside = count_outside_text(t, k, &b, d);
      for (uint64_t i = 0; k == 0 && i < n; i++) {
        const tsr_slice x = version_merge_text_at(t, k, i);
        t->first[i] = tsr__text_prefix(x.bytes, x.size);
      }
    } else {
      uint64_t *keys = s->exact ? room : t->keys[k];
      version_merge_gather_keys(field, c.values, cells, n, keys);
      outside = version_merge_count_outside(keys, n, b.keys[2 * d], b.keys[2 * d + 1],
                                            tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT);
      for (uint64_t i = 0; s->exact && i < n; i++) t->first[i] |= (keys[i] - s->low[k]) << s->shift[k];
    }
    if (outside > 0 && !s->reader->plan.lossy)
      return tsr__fail(error, TSR_CORRUPT, "fragment %s, tile %llu: %llu cells lie outside its box on dimension %s",
                       s->reader->snapshot->fragments[t->tile.plan.fragment].fragment->name,
                       (unsigned long long)t->tile.plan.tile, (unsigned long long)outside, field->name);
  }
  return TSR_OK;
}

/* One block for the tile and its arrays. */
static int allocate_tile(const tsr_version_merge *s, const tsr_sparse_tile *tile, swept_tile **out, tsr_error *error) {
  const uint32_t n = s->dimensions;
  const bool text_first = version_merge_is_text(s, s->dimension[0]);
  uint64_t columns = s->exact || text_first; /* of u64 */
  for (uint32_t d = 0; d < n && !s->exact; d++) columns += !version_merge_is_text(s, d);
  uint64_t bytes = sizeof(swept_tile) + n * (sizeof(uint64_t *) + sizeof(tsr_coordinates));
  bytes = tsr__add_sat(bytes, tsr__mul_sat(tile->count, columns * sizeof(uint64_t) + sizeof(uint32_t)));
  swept_tile *t;
  TSR_TRY(TSR_ALLOC_RAW_BYTES(&s->reader->memory, bytes, &t, error));
  *t = (swept_tile){.tile = *tile};
  t->text = (tsr_coordinates *)(void *)(t + 1);
  t->keys = (uint64_t **)(void *)(t->text + n);
  uint64_t *keys = (uint64_t *)(void *)(t->keys + n);
  t->first = keys;
  if (s->exact || text_first) keys += tile->count;
  for (uint32_t k = 0; k < n && !s->exact; k++) {
    t->keys[k] = version_merge_is_text(s, s->dimension[k]) ? NULL : keys;
    if (t->keys[k]) keys += tile->count;
  }
  t->tile.cells = (uint32_t *)(void *)keys;
  *out = t;
  return TSR_OK;
}

static int version_merge_make_tile(const tsr_version_merge *s, const tsr_sparse_tile *tile, swept_tile **out,
                                   tsr_error *error) {
  const tsr_fragment *fragment = s->reader->snapshot->fragments[tile->plan.fragment].fragment;
  swept_tile *t;
  uint64_t *room = NULL;
  TSR_TRY(allocate_tile(s, tile, &t, error));
  t->time = s->reader->snapshot->fragments[tile->plan.fragment].time;
  if (fragment->metadata.has_times && tile->count > 0) {
    const int64_t slot = tsr__fragment_system_slot(&fragment->metadata, TSR_SLOT_TIMES);
    t->times = (const uint64_t *)(const void *)tile->pinned->tiles[slot]->values;
  }
  int rc = TSR_OK;
  if (s->exact) rc = TSR_ALLOC_RAW(&s->reader->memory, tile->count, &room, error);
  if (rc >= 0) rc = fill_keys(s, t, tile->cells, room, error);
  tsr__free(room);
  if (rc >= 0) rc = version_merge_sort_cells(s, t, error);
  if (rc >= 0) *out = t;
  else tsr__free(t);
  return rc;
}

typedef struct version_merge_making {
  const tsr_version_merge *merge;
  const tsr_sparse_tile *tiles;
  swept_tile **made;
} version_merge_making;

static int make_one(void *argument, uint64_t index, tsr_error *error) {
  const version_merge_making *m = argument;
  return version_merge_make_tile(m->merge, &m->tiles[index], &m->made[index], error);
}

int tsr__version_merge_add(tsr_version_merge *merge, const tsr_sparse_tile *tiles, uint64_t count, tsr_error *error) {
  tsr_reader *reader = merge->reader;
  uint64_t cells = 0;
  swept_tile **memory;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->window, count, &memory, error));
  version_merge_making m = {.merge = merge, .tiles = tiles, .made = memory};
  for (uint64_t i = 0; i < count; i++) cells += tiles[i].count;
  const bool alone = cells < PARALLEL_CELLS || reader->snapshot->array->environment->single_threaded;
  const int rc = tsr__parallel_for(alone ? 1 : reader->threads, count, make_one, &m, error);
  for (uint64_t i = 0; i < count; i++) {
    if (rc < 0) {
      tsr__free(m.made[i]);
      continue;
    }
    *merge->queue_end = m.made[i];
    merge->queue_end = &m.made[i]->next;
  }
  return rc;
}

/* ---- The heap --------------------------------------------------------------------------------------------------- */

static inline bool version_merge_before(const tsr_version_merge *s, const heap_entry *a, const heap_entry *b) {
  if (a->key != b->key) return a->key < b->key;
  return !s->exact && compare_rest(s, a->tile, a->tile->at, b->tile, b->tile->at) < 0;
}

TSR_DEFINE_HEAP(version_merge_heap, tsr_version_merge, heap_entry, version_merge_before)

static int version_merge_push(tsr_version_merge *s, swept_tile *t, tsr_error *error) {
  if (s->heap_count == s->heap_capacity) {
    const uint64_t capacity = TSR_MAX(16, 2 * s->heap_capacity);
    heap_entry *memory;
    TSR_TRY(TSR_ARENA_ARRAY(&s->reader->arena, capacity, &memory, error));
    if (s->heap_count) memcpy(memory, s->heap, s->heap_count * sizeof(heap_entry));
    s->heap = memory;
    s->heap_capacity = capacity;
  }
  version_merge_heap_rise(s, s->heap, s->heap_count++, (heap_entry){.key = t->first[t->at], .tile = t});
  return TSR_OK;
}

/* Past the top tile's present cell; a tile that has no more leaves the heap. */
static inline void step_top(tsr_version_merge *s, swept_tile **finished) {
  heap_entry e = s->heap[0];
  if (++e.tile->at < e.tile->tile.count) {
    e.key = e.tile->first[e.tile->at];
  } else {
    e.tile->next = *finished;
    *finished = e.tile;
    e = s->heap[--s->heap_count];
  }
  version_merge_heap_sink(s, s->heap, s->heap_count, 0, e);
}

/* Of two cells at one coordinate: is b's version the later one? In a merged fragment the later stands first. */
static bool version_merge_is_later(const swept_tile *a, uint64_t i, const swept_tile *b, uint64_t j) {
  const uint32_t x = a->tile.cells[i], y = b->tile.cells[j];
  const uint64_t s = a->times ? a->times[x] : a->time, t = b->times ? b->times[y] : b->time;
  if (s != t) return t > s;
  if (a->tile.plan.fragment != b->tile.plan.fragment) return b->tile.plan.fragment > a->tile.plan.fragment;
  const bool further = a->tile.plan.tile != b->tile.plan.tile ? b->tile.plan.tile > a->tile.plan.tile : y > x;
  return a->times ? !further : further;
}

/* Decides the coordinate at the top of the heap. Winners take places of cells that were decided before. */
static void version_merge_decide(tsr_version_merge *s) {
  const uint64_t key = s->heap[0].key;
  swept_tile *best = s->heap[0].tile, *finished = NULL;
  uint64_t at = best->at;
  step_top(s, &finished);
  while (s->heap_count > 0 && s->heap[0].key == key) {
    swept_tile *t = s->heap[0].tile;
    if (compare_rest(s, best, at, t, t->at) != 0) break;
    if (version_merge_is_later(best, at, t, t->at)) {
      best = t;
      at = t->at;
    }
    step_top(s, &finished);
  }
  best->tile.cells[best->winners++] = best->tile.cells[at];
  while (finished) {
    swept_tile *t = finished;
    finished = t->next;
    t->next = s->finished;
    s->finished = t;
  }
}

/* ---- Sweeping --------------------------------------------------------------------------------------------------- */

/* The cell at the top of the heap against the low corner of a box. */
static int compare_corner(const tsr_version_merge *s, const version_merge_box *b) {
  const swept_tile *t = s->heap[0].tile;
  uint64_t corner = 0;
  for (uint32_t k = 0; k < s->dimensions; k++) {
    const uint32_t d = s->dimension[k];
    int c;
    if (s->exact) {
      corner |= (b->keys[2 * d] - s->low[k]) << s->shift[k];
      continue;
    }
    if (t->keys[k]) {
      c = t->keys[k][t->at] < b->keys[2 * d] ? -1 : t->keys[k][t->at] > b->keys[2 * d];
    } else {
      const tsr_slice x = version_merge_text_at(t, k, t->at);
      c = tsr__bytes_compare(x.bytes, x.size, b->text + b->keys[2 * d], b->sizes[2 * d]);
    }
    if (c) return c;
  }
  return !s->exact ? 0 : s->heap[0].key < corner ? -1 : s->heap[0].key > corner;
}

/* Must the next tile enter before the top cell can be decided? */
static bool must_enter(const tsr_version_merge *s) {
  if (s->entered == s->count) return false;
  if (s->heap_count == 0 || s->reader->plan.lossy) return true;
  if (s->groups[s->entered] != s->group) return false;
  const version_merge_box b = box_of(s, &s->reader->plan.tiles[s->order[s->entered]]);
  return compare_corner(s, &b) >= 0;
}

static int version_merge_enter(tsr_version_merge *s, tsr_error *error) {
  swept_tile *t = s->queue;
  s->queue = t->next;
  if (!s->queue) s->queue_end = &s->queue;
  s->group = s->groups[s->entered++];
  const int rc = t->tile.count > 0 ? version_merge_push(s, t, error) : TSR_OK;
  if (t->tile.count == 0 || rc < 0) { /* given back, or freed at the end */
    t->next = s->finished;
    s->finished = t;
  }
  return rc;
}

int tsr__version_merge_next(tsr_version_merge *merge, tsr_sparse_tile *tile, tsr_error *error) {
  tsr__free(merge->given);
  merge->given = NULL;
  for (uint64_t decided = 1;; decided++) {
    if (merge->finished) {
      swept_tile *t = merge->finished;
      merge->finished = t->next;
      merge->given = t;
      t->tile.count = t->winners;
      *tile = t->tile;
      return TSR_VERSION_MERGE_TILE;
    }
    if (decided % POLL_CELLS == 0)
      TSR_TRY(tsr__environment_cancelled(merge->reader->snapshot->array->environment, error));
    if (must_enter(merge)) {
      if (!merge->queue) return TSR_VERSION_MERGE_NEEDS;
      TSR_TRY(version_merge_enter(merge, error));
      continue;
    }
    if (merge->heap_count == 0) return TSR_VERSION_MERGE_END;
    version_merge_decide(merge);
  }
}

static void drop_list(tsr_version_merge *s, swept_tile *list) {
  while (list) {
    swept_tile *t = list;
    list = t->next;
    tsr__reader_drop(s->reader, t->tile.pinned);
    tsr__free(t);
  }
}

void tsr__version_merge_close(tsr_version_merge *merge) {
  if (!merge) return;
  for (uint64_t i = 0; i < merge->heap_count; i++) {
    merge->heap[i].tile->next = NULL;
    drop_list(merge, merge->heap[i].tile);
  }
  drop_list(merge, merge->queue);
  drop_list(merge, merge->finished);
  tsr__free(merge->given); /* its tile is the caller's */
}
