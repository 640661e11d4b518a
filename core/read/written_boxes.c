/* written_boxes.c: where a dense request has to look for written cells.
 *
 * A dense array may have 10^10 tiles, two of which fragments meet. If the request excludes cells that were never
 * written, or if all of those can be taken at once, the walk over space tiles (space_tiles.c) and the key ranges of an
 * ordered read (key_range.c) keep to the written boxes, which hold all cells of the fragments, and as little else as is
 * cheap to find out.
 *
 * A dense fragment has one, its box. The box of a sparse fragment says little if it has a few cells far apart. If
 * its box spans many space tiles, its written boxes are the MBRs of its tiles or, for uncommitted cells in memory, the
 * space tiles that hold them.
 */
#include "read/reader.h"

#include <string.h>

#include "array/array.h"
#include "base/arithmetic.h"
#include "format/fragment_metadata.h"
#include "model/datatype.h"

#define WIDE_TILES         16u /* a sparse fragment that spans at most so many space tiles counts as one box */
#define FRAGMENT_BOXES_MAX 4096u /* written boxes of one sparse fragment, at most */
#define WRITTEN_BOX_BYTES  64u /* approximate bytes of a written box for each dimension */
#define WRITTEN_BOXES_PART 16 /* written boxes of sparse fragments take at most 1/WRITTEN_BOXES_PART of the budget */

typedef struct box_list {
  tsr_snapshot *snapshot;
  tsr_plan *plan;
  tsr_arena *arena;
  uint64_t capacity;
  uint64_t boxes_max; /* from so many written boxes on, a sparse fragment counts as one box */
} box_list;

/* Adds a written box; the caller fills in its bounds. */
static int add_written_box(box_list *list, uint64_t **low, uint64_t **high, tsr_error *error) {
  const uint32_t n = list->snapshot->grid.dimensions;
  tsr_plan *plan = list->plan;
  TSR_TRY(TSR_ARENA_GROW(list->arena, &plan->written_boxes, plan->written_box_count, &list->capacity, 16, error));
  TSR_TRY(TSR_ARENA_RAW(list->arena, 2 * n, low, error));
  *high = *low + n;
  plan->written_boxes[plan->written_box_count++] = (tsr_written_box){*low, *high};
  return TSR_OK;
}

static int add_whole_box(box_list *list, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  uint64_t *to_low, *to_high;
  const uint64_t size = list->snapshot->grid.dimensions * sizeof(uint64_t);
  TSR_TRY(add_written_box(list, &to_low, &to_high, error));
  memcpy(to_low, low, size);
  memcpy(to_high, high, size);
  return TSR_OK;
}

/* Adds the MBRs of a sparse fragment's tiles, clipped to the fragment's box. */
static int add_tile_boxes(box_list *list, const tsr_plan_box *box, const tsr_rtree *rtree, tsr_error *error) {
  const tsr_grid *grid = &list->snapshot->grid;
  const uint32_t n = grid->dimensions;
  const uint64_t *keys = rtree->keys[rtree->levels - 1];
  for (uint64_t leaf = 0; leaf < rtree->counts[rtree->levels - 1]; leaf++, keys += 2 * n) {
    uint64_t *low, *high;
    bool empty = false;
    for (uint32_t d = 0; d < n && !empty; d++)
      empty = keys[2 * d] > grid->low_key[d] + box->high[d] || keys[2 * d + 1] < grid->low_key[d] + box->low[d];
    if (empty) continue;
    TSR_TRY(add_written_box(list, &low, &high, error));
    for (uint32_t d = 0; d < n; d++) {
      low[d] = TSR_MAX(keys[2 * d], grid->low_key[d] + box->low[d]) - grid->low_key[d];
      high[d] = TSR_MIN(keys[2 * d + 1], grid->low_key[d] + box->high[d]) - grid->low_key[d];
    }
  }
  return TSR_OK;
}

/* Computes the coordinates of the space tile that holds a cell in memory. */
static void find_tile_of_cell(const box_list *list, const tsr_fragment *fragment, uint64_t t, uint64_t cell,
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
 * that are adjacent along the fastest dimension become one written box. Returns 0, and adds nothing, if there would be
 * too many written boxes. */
static int add_cell_boxes(box_list *list, const tsr_fragment *fragment, tsr_error *error) {
  const tsr_grid *grid = &list->snapshot->grid;
  const uint32_t n = grid->dimensions, fast = grid->col_major_tiles ? 0 : n - 1;
  const uint64_t before = list->plan->written_box_count;
  uint64_t *low = NULL, *high = NULL, at[TSR_MAX_DIMENSIONS];
  for (uint64_t t = 0; t < fragment->metadata.tile_count; t++)
    for (uint64_t cell = 0; cell < tsr__fragment_tile_cells(&fragment->metadata, t); cell++) {
      bool row = low != NULL;
      find_tile_of_cell(list, fragment, t, cell, at);
      for (uint32_t d = 0; d < n && row; d++) row = d == fast || at[d] == low[d] / grid->extent[d];
      const uint64_t end = tsr__add_sat(at[fast] * grid->extent[fast], grid->extent[fast] - 1);
      if (row && at[fast] >= high[fast] / grid->extent[fast] && at[fast] - high[fast] / grid->extent[fast] <= 1) {
        high[fast] = TSR_MIN(end, grid->last[fast]);
        continue;
      }
      if (list->plan->written_box_count - before == FRAGMENT_BOXES_MAX ||
          list->plan->written_box_count >= list->boxes_max) {
        list->plan->written_box_count = before;
        return 0;
      }
      TSR_TRY(add_written_box(list, &low, &high, error));
      for (uint32_t d = 0; d < n; d++) {
        low[d] = at[d] * grid->extent[d];
        high[d] = TSR_MIN(tsr__add_sat(low[d], grid->extent[d] - 1), grid->last[d]);
      }
    }
  return 1;
}

static int add_sparse_fragment(box_list *list, const tsr_plan_box *box, tsr_error *error) {
  tsr_fragment *fragment = list->snapshot->fragments[box->fragment].fragment;
  uint64_t tiles = 1;
  for (uint32_t d = 0; d < list->snapshot->grid.dimensions; d++)
    tiles =
        tsr__mul_sat(tiles, tsr__dimension_selection_tiles(&list->plan->selections[d], list->snapshot->grid.extent[d],
                                                           box->low[d], box->high[d]));
  if (tiles <= WIDE_TILES || list->plan->written_box_count >= list->boxes_max)
    return add_whole_box(list, box->low, box->high, error);
  if (fragment->run.tiles) {
    const int rc = add_cell_boxes(list, fragment, error);
    if (rc != 0) return rc < 0 ? rc : TSR_OK;
  }
  const tsr_rtree *rtree;
  TSR_TRY(tsr__fragment_rtree(list->snapshot->array, fragment, &rtree, error));
  const uint64_t leaves = rtree->levels > 0 ? rtree->counts[rtree->levels - 1] : 0;
  if (leaves == 0 || leaves > FRAGMENT_BOXES_MAX || leaves > list->boxes_max - list->plan->written_box_count)
    return add_whole_box(list, box->low, box->high, error);
  return add_tile_boxes(list, box, rtree, error);
}

int tsr__written_boxes_make(tsr_snapshot *snapshot, tsr_arena *arena, tsr_plan *plan, tsr_error *error) {
  box_list list = {.snapshot = snapshot, .plan = plan, .arena = arena};
  list.boxes_max = arena->memory->limit / WRITTEN_BOXES_PART / (snapshot->grid.dimensions * WRITTEN_BOX_BYTES);
  plan->written_box_count = 0;
  for (uint64_t i = 0; i < plan->box_count; i++) {
    const tsr_plan_box *box = &plan->boxes[i];
    TSR_TRY(box->sparse ? add_sparse_fragment(&list, box, error) : add_whole_box(&list, box->low, box->high, error));
  }
  return TSR_OK;
}
