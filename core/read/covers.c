/* covers.c: where a dense request has to look for cells that have been written.
 *
 * A dense array may have 10^10 tiles of which fragments meet two. Where nothing is wanted of cells that were never written, or
 * all of them can be taken at once, the walk over tiles (read_dense.c) and the key ranges of an order (read_ordered.c) keep to
 * covers: boxes that hold all cells of the fragments, and as little else as is cheap to find out.
 *
 * A dense fragment is its box. A sparse one says little by its own where it has few cells far apart: then it is the boxes of
 * its tiles; or, of a writer's own cells in memory, the space tiles that they lie in.
 */
#include "read/covers.h"

#include <string.h>

#include "model/datatype.h"
#include "format/fragment_slot.h"
#include "array/snapshot.h"
#include "read/plan.h"

#define WIDE_TILES  16u /* space tiles that a sparse fragment may span before it is looked into */
#define PARTS_MAX   4096u /* covers of one sparse fragment */
#define COVER_BYTES 64u /* that a cover takes for each dimension, about */
#define COVERS_PART 16 /* of the budget, for covers of sparse fragments */

typedef struct covers_list {
  tsr_snapshot *snapshot;
  tsr_plan *plan;
  tsr_arena *arena;
  uint64_t capacity;
  uint64_t most; /* past which a sparse fragment is one */
} covers_list;

/* Room for one more: its ends are to be filled in. */
static int covers_add(covers_list *l, uint64_t **low, uint64_t **high, tsr_error *error) {
  const uint32_t n = l->snapshot->grid.dimensions;
  tsr_plan *plan = l->plan;
  tsr_cover *memory;
  if (plan->cover_count == l->capacity) { /* doubles: the old lists stay in the arena until it is reset */
    l->capacity = TSR_MAX(16, 2 * l->capacity);
    TSR_TRY(TSR_ARENA_ARRAY(l->arena, l->capacity, &memory, error));
    if (plan->cover_count) memcpy(memory, plan->covers, plan->cover_count * sizeof(tsr_cover));
    plan->covers = memory;
  }
  TSR_TRY(TSR_ARENA_RAW(l->arena, 2 * n, low, error));
  *high = *low + n;
  plan->covers[plan->cover_count++] = (tsr_cover){*low, *high};
  return TSR_OK;
}

static int covers_add_box(covers_list *l, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  uint64_t *to_low, *to_high;
  const uint64_t size = l->snapshot->grid.dimensions * sizeof(uint64_t);
  TSR_TRY(covers_add(l, &to_low, &to_high, error));
  memcpy(to_low, low, size);
  memcpy(to_high, high, size);
  return TSR_OK;
}

/* The boxes of a sparse fragment's tiles, cut to its own, which the plan keeps to. */
static int add_leaves(covers_list *l, const tsr_plan_box *box, const tsr_rtree *rtree, tsr_error *error) {
  const tsr_grid *grid = &l->snapshot->grid;
  const uint32_t n = grid->dimensions;
  const uint64_t *keys = rtree->keys[rtree->levels - 1];
  for (uint64_t leaf = 0; leaf < rtree->counts[rtree->levels - 1]; leaf++, keys += 2 * n) {
    uint64_t *low, *high;
    bool empty = false;
    for (uint32_t d = 0; d < n && !empty; d++)
      empty = keys[2 * d] > grid->low_key[d] + box->high[d] || keys[2 * d + 1] < grid->low_key[d] + box->low[d];
    if (empty) continue;
    TSR_TRY(covers_add(l, &low, &high, error));
    for (uint32_t d = 0; d < n; d++) {
      low[d] = TSR_MAX(keys[2 * d], grid->low_key[d] + box->low[d]) - grid->low_key[d];
      high[d] = TSR_MIN(keys[2 * d + 1], grid->low_key[d] + box->high[d]) - grid->low_key[d];
    }
  }
  return TSR_OK;
}

/* A cell's space tile. */
static void covers_find_tile(const covers_list *l, const tsr_fragment *run, uint64_t t, uint64_t cell, uint64_t *at) {
  const tsr_grid *grid = &l->snapshot->grid;
  const tsr_fragment_metadata *m = &run->metadata;
  for (uint32_t d = 0; d < grid->dimensions; d++) {
    const tsr_tile *tile = run->tiles[(uint64_t)tsr__fragment_slot(m, d) * m->tile_count + t];
    const uint64_t key = tsr__key(m->schema->fields[d].datatype, tile->values + cell * tile->cell_size);
    at[d] = (key - grid->low_key[d]) / grid->extent[d];
  }
}

/* The space tiles of a run's cells, which come in their order; those that follow each other in a row are one. 0: there are
 * too many. */
static int covers_add_cells(covers_list *l, const tsr_fragment *run, tsr_error *error) {
  const tsr_grid *grid = &l->snapshot->grid;
  const uint32_t n = grid->dimensions, fast = grid->col_major_tiles ? 0 : n - 1;
  const uint64_t before = l->plan->cover_count;
  uint64_t *low = NULL, *high = NULL, at[TSR_MAX_DIMENSIONS];
  for (uint64_t t = 0; t < run->metadata.tile_count; t++)
    for (uint64_t cell = 0; cell < tsr__fragment_tile_cells(&run->metadata, t); cell++) {
      bool row = low != NULL;
      covers_find_tile(l, run, t, cell, at);
      for (uint32_t d = 0; d < n && row; d++) row = d == fast || at[d] == low[d] / grid->extent[d];
      const uint64_t end = tsr__add_sat(at[fast] * grid->extent[fast], grid->extent[fast] - 1);
      if (row && at[fast] >= high[fast] / grid->extent[fast] && at[fast] - high[fast] / grid->extent[fast] <= 1) {
        high[fast] = TSR_MIN(end, grid->last[fast]);
        continue;
      }
      if (l->plan->cover_count - before == PARTS_MAX || l->plan->cover_count >= l->most) {
        l->plan->cover_count = before;
        return 0;
      }
      TSR_TRY(covers_add(l, &low, &high, error));
      for (uint32_t d = 0; d < n; d++) {
        low[d] = at[d] * grid->extent[d];
        high[d] = TSR_MIN(tsr__add_sat(low[d], grid->extent[d] - 1), grid->last[d]);
      }
    }
  return 1;
}

static int add_sparse(covers_list *l, const tsr_plan_box *box, tsr_error *error) {
  tsr_fragment *fragment = l->snapshot->fragments[box->fragment].fragment;
  uint64_t tiles = 1;
  for (uint32_t d = 0; d < l->snapshot->grid.dimensions; d++)
    tiles = tsr__mul_sat(tiles, tsr__dimension_selection_tiles(&l->plan->selections[d], l->snapshot->grid.extent[d],
                                                               box->low[d], box->high[d]));
  if (tiles <= WIDE_TILES || l->plan->cover_count >= l->most) return covers_add_box(l, box->low, box->high, error);
  if (fragment->tiles) {
    const int rc = covers_add_cells(l, fragment, error);
    if (rc != 0) return rc < 0 ? rc : TSR_OK;
  }
  const tsr_rtree *rtree;
  TSR_TRY(tsr__fragment_rtree(l->snapshot->array, fragment, &rtree, error));
  const uint64_t leaves = rtree->levels > 0 ? rtree->counts[rtree->levels - 1] : 0;
  if (leaves == 0 || leaves > PARTS_MAX || leaves > l->most - l->plan->cover_count)
    return covers_add_box(l, box->low, box->high, error);
  return add_leaves(l, box, rtree, error);
}

int tsr__covers_make(tsr_snapshot *snapshot, tsr_arena *arena, tsr_plan *plan, tsr_error *error) {
  covers_list l = {.snapshot = snapshot, .plan = plan, .arena = arena};
  l.most = arena->memory->limit / COVERS_PART / (snapshot->grid.dimensions * COVER_BYTES);
  plan->cover_count = 0;
  for (uint64_t i = 0; i < plan->box_count; i++) {
    const tsr_plan_box *box = &plan->boxes[i];
    TSR_TRY(box->sparse ? add_sparse(&l, box, error) : covers_add_box(&l, box->low, box->high, error));
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
