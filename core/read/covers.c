/* covers.c: where a dense request has to look for written cells.
 *
 * A dense array may have 10^10 tiles of which fragments meet two. If the request does not select cells that were never
 * written, or if all of those can be taken at once, the walk over tiles (walk.c) and the key ranges of an ordered read
 * (read_ordered.c) keep to covers: boxes that hold all cells of the fragments, and as little else as is cheap to find
 * out.
 *
 * A dense fragment has one cover, its box. The box of a sparse fragment says little if the fragment has few cells far
 * apart. If the box spans many space tiles, the MBRs of the fragment's tiles are the covers instead; of uncommitted
 * cells in memory, the space tiles in which they lie.
 */
#include "read/covers.h"

#include <string.h>

#include "model/datatype.h"
#include "format/fragment_slot.h"
#include "array/snapshot.h"
#include "read/plan.h"

#define WIDE_TILES          16u /* a sparse fragment that spans up to so many space tiles has its box as its cover */
#define FRAGMENT_COVERS_MAX 4096u /* covers of one sparse fragment, at most */
#define COVER_BYTES         64u /* bytes that a cover takes for each dimension, about */
#define COVERS_PART         16 /* covers of sparse fragments take at most this part of the budget */

typedef struct covers_list {
  tsr_snapshot *snapshot;
  tsr_plan *plan;
  tsr_arena *arena;
  uint64_t capacity;
  uint64_t covers_max; /* if there are so many covers, each further sparse fragment has its box alone */
} covers_list;

/* Adds a cover, whose bounds the caller fills in. */
static int covers_add(covers_list *list, uint64_t **low, uint64_t **high, tsr_error *error) {
  const uint32_t n = list->snapshot->grid.dimensions;
  tsr_plan *plan = list->plan;
  tsr_cover *memory;
  if (plan->cover_count == list->capacity) { /* doubles: the old array stays in the arena until it is reset */
    list->capacity = TSR_MAX(16, 2 * list->capacity);
    TSR_TRY(TSR_ARENA_ARRAY(list->arena, list->capacity, &memory, error));
    if (plan->cover_count) memcpy(memory, plan->covers, plan->cover_count * sizeof(tsr_cover));
    plan->covers = memory;
  }
  TSR_TRY(TSR_ARENA_RAW(list->arena, 2 * n, low, error));
  *high = *low + n;
  plan->covers[plan->cover_count++] = (tsr_cover){*low, *high};
  return TSR_OK;
}

static int covers_add_box(covers_list *list, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  uint64_t *to_low, *to_high;
  const uint64_t size = list->snapshot->grid.dimensions * sizeof(uint64_t);
  TSR_TRY(covers_add(list, &to_low, &to_high, error));
  memcpy(to_low, low, size);
  memcpy(to_high, high, size);
  return TSR_OK;
}

/* Adds the MBRs of a sparse fragment's tiles, clipped to the fragment's box. */
static int add_tile_boxes(covers_list *list, const tsr_plan_box *box, const tsr_rtree *rtree, tsr_error *error) {
  const tsr_grid *grid = &list->snapshot->grid;
  const uint32_t n = grid->dimensions;
  const uint64_t *keys = rtree->keys[rtree->levels - 1];
  for (uint64_t leaf = 0; leaf < rtree->counts[rtree->levels - 1]; leaf++, keys += 2 * n) {
    uint64_t *low, *high;
    bool empty = false;
    for (uint32_t d = 0; d < n && !empty; d++)
      empty = keys[2 * d] > grid->low_key[d] + box->high[d] || keys[2 * d + 1] < grid->low_key[d] + box->low[d];
    if (empty) continue;
    TSR_TRY(covers_add(list, &low, &high, error));
    for (uint32_t d = 0; d < n; d++) {
      low[d] = TSR_MAX(keys[2 * d], grid->low_key[d] + box->low[d]) - grid->low_key[d];
      high[d] = TSR_MIN(keys[2 * d + 1], grid->low_key[d] + box->high[d]) - grid->low_key[d];
    }
  }
  return TSR_OK;
}

/* Computes the coordinates of the space tile of a cell in memory. */
static void covers_find_tile(const covers_list *list, const tsr_fragment *fragment, uint64_t t, uint64_t cell,
                             uint64_t *at) {
  const tsr_grid *grid = &list->snapshot->grid;
  const tsr_fragment_metadata *m = &fragment->metadata;
  for (uint32_t d = 0; d < grid->dimensions; d++) {
    const tsr_tile *tile = fragment->run.tiles[(uint64_t)tsr__fragment_slot(m, d) * m->tile_count + t];
    const uint64_t key = tsr__key(m->schema->fields[d].datatype, tile->values + cell * tile->cell_size);
    at[d] = (key - grid->low_key[d]) / grid->extent[d];
  }
}

/* Adds the space tiles of the cells of an uncommitted fragment in memory. The cells come in tile order, and space tiles
 * that follow each other along the fastest dimension become one cover. Returns 0, and adds nothing, if there are too
 * many. */
static int covers_add_cells(covers_list *list, const tsr_fragment *fragment, tsr_error *error) {
  const tsr_grid *grid = &list->snapshot->grid;
  const uint32_t n = grid->dimensions, fast = grid->col_major_tiles ? 0 : n - 1;
  const uint64_t before = list->plan->cover_count;
  uint64_t *low = NULL, *high = NULL, at[TSR_MAX_DIMENSIONS];
  for (uint64_t t = 0; t < fragment->metadata.tile_count; t++)
    for (uint64_t cell = 0; cell < tsr__fragment_tile_cells(&fragment->metadata, t); cell++) {
      bool row = low != NULL;
      covers_find_tile(list, fragment, t, cell, at);
      for (uint32_t d = 0; d < n && row; d++) row = d == fast || at[d] == low[d] / grid->extent[d];
      const uint64_t end = tsr__add_sat(at[fast] * grid->extent[fast], grid->extent[fast] - 1);
      if (row && at[fast] >= high[fast] / grid->extent[fast] && at[fast] - high[fast] / grid->extent[fast] <= 1) {
        high[fast] = TSR_MIN(end, grid->last[fast]);
        continue;
      }
      if (list->plan->cover_count - before == FRAGMENT_COVERS_MAX || list->plan->cover_count >= list->covers_max) {
        list->plan->cover_count = before;
        return 0;
      }
      TSR_TRY(covers_add(list, &low, &high, error));
      for (uint32_t d = 0; d < n; d++) {
        low[d] = at[d] * grid->extent[d];
        high[d] = TSR_MIN(tsr__add_sat(low[d], grid->extent[d] - 1), grid->last[d]);
      }
    }
  return 1;
}

static int add_sparse_fragment(covers_list *list, const tsr_plan_box *box, tsr_error *error) {
  tsr_fragment *fragment = list->snapshot->fragments[box->fragment].fragment;
  uint64_t tiles = 1;
  for (uint32_t d = 0; d < list->snapshot->grid.dimensions; d++)
    tiles =
        tsr__mul_sat(tiles, tsr__dimension_selection_tiles(&list->plan->selections[d], list->snapshot->grid.extent[d],
                                                           box->low[d], box->high[d]));
  if (tiles <= WIDE_TILES || list->plan->cover_count >= list->covers_max)
    return covers_add_box(list, box->low, box->high, error);
  if (fragment->run.tiles) {
    const int rc = covers_add_cells(list, fragment, error);
    if (rc != 0) return rc < 0 ? rc : TSR_OK;
  }
  const tsr_rtree *rtree;
  TSR_TRY(tsr__fragment_rtree(list->snapshot->array, fragment, &rtree, error));
  const uint64_t leaves = rtree->levels > 0 ? rtree->counts[rtree->levels - 1] : 0;
  if (leaves == 0 || leaves > FRAGMENT_COVERS_MAX || leaves > list->covers_max - list->plan->cover_count)
    return covers_add_box(list, box->low, box->high, error);
  return add_tile_boxes(list, box, rtree, error);
}

int tsr__covers_make(tsr_snapshot *snapshot, tsr_arena *arena, tsr_plan *plan, tsr_error *error) {
  covers_list list = {.snapshot = snapshot, .plan = plan, .arena = arena};
  list.covers_max = arena->memory->limit / COVERS_PART / (snapshot->grid.dimensions * COVER_BYTES);
  plan->cover_count = 0;
  for (uint64_t i = 0; i < plan->box_count; i++) {
    const tsr_plan_box *box = &plan->boxes[i];
    TSR_TRY(box->sparse ? add_sparse_fragment(&list, box, error) : covers_add_box(&list, box->low, box->high, error));
  }
  return TSR_OK;
}

uint64_t tsr__dimension_selection_values_within(const tsr_dimension_selection *selected, uint64_t low, uint64_t high) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < selected->count && selected->spans[i].low <= high; i++) {
    const uint64_t a = TSR_MAX(selected->spans[i].low, low), b = TSR_MIN(selected->spans[i].high, high);
    if (a <= b) n = tsr__add_sat(n, tsr__add_sat(b - a, 1));
  }
  return n;
}
