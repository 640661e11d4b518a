/* walk.c: the space tiles in which a dense request selects cells, one after the other in tile order.
 *
 * The walk is an odometer of tile coordinates. Which fragments' boxes meet the present tile is known from lists that
 * are narrowed dimension by dimension: when a digit of the odometer turns, only the lists after it are made again.
 *
 * There may be 10^10 tiles that no fragment meets, too many to be walked. If the request does not select cells that
 * were never written, the walk goes from one tile that a cover meets (covers.c) to the next. If such cells can be taken
 * at once, the tiles between two covers are offered as boxes (gaps).
 *
 * Invariants: k numbers the dimensions in tile order, 0 is the slowest. lists[k] has the boxes that meet the tile in
 * the dimensions before k. first[d] is the first span of the selection that meets the tile in dimension d.
 */
#include "read/walk.h"

#include "base/arithmetic.h"
#include "read/plan.h"

static int open_lists(uint64_t count, uint32_t dimensions, tsr_arena *arena, uint32_t ***lists, uint32_t **counts,
                      tsr_error *error) {
  TSR_TRY(TSR_ARENA_ARRAY(arena, dimensions + 1, counts, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, dimensions + 1, lists, error));
  for (uint32_t k = 0; k <= dimensions; k++) { TSR_TRY(TSR_ARENA_RAW(arena, count, &(*lists)[k], error)); }
  for (uint32_t i = 0; i < count; i++) (*lists)[0][i] = i;
  (*counts)[0] = (uint32_t)count;
  return TSR_OK;
}

/* Makes the lists after dimension k from those at k: keeps the boxes that meet the present tile in this dimension. */
static void walk_narrow(tsr_walk *walk, uint32_t k) {
  const tsr_plan *plan = walk->plan;
  const uint32_t d = tsr__grid_slowest(walk->grid, k);
  const uint64_t low = tsr__grid_start(walk->grid, walk->at, d), high = tsr__grid_end(walk->grid, walk->at, d);
  uint32_t n = 0;
  for (uint32_t i = 0; i < walk->list_counts[k]; i++) {
    const uint32_t box = walk->lists[k][i];
    if (plan->boxes[box].low[d] <= high && plan->boxes[box].high[d] >= low) walk->lists[k + 1][n++] = box;
  }
  walk->list_counts[k + 1] = n;
  if (!walk->covers) return;
  n = 0;
  for (uint32_t i = 0; i < walk->cover_counts[k]; i++) {
    const uint32_t cover = walk->covers[k][i];
    if (plan->covers[cover].low[d] <= high && plan->covers[cover].high[d] >= low) walk->covers[k + 1][n++] = cover;
  }
  walk->cover_counts[k + 1] = n;
}

/* Returns the first ordinal of dimension k, from `from` on, that lies in a cover of the list at k; UINT64_MAX: none
 * does. */
static uint64_t next_covered(const tsr_walk *walk, uint32_t k, uint64_t from) {
  const uint32_t d = tsr__grid_slowest(walk->grid, k);
  uint64_t next = UINT64_MAX;
  for (uint32_t i = 0; i < walk->cover_counts[k]; i++) {
    const tsr_cover *cover = &walk->plan->covers[walk->covers[k][i]];
    if (cover->high[d] >= from) next = TSR_MIN(next, TSR_MAX(cover->low[d], from));
  }
  return next;
}

/* Places dimension k on the first tile, from the ordinal `from` on, in which the request selects values, and which a
 * cover meets if the walk skips gaps. Returns false if there is none. */
static bool seek(tsr_walk *walk, uint32_t k, uint64_t from) {
  const uint32_t d = tsr__grid_slowest(walk->grid, k);
  const tsr_dimension_selection *selected = &walk->plan->selections[d];
  const uint64_t extent = walk->grid->extent[d];
  for (;;) {
    while (walk->first[d] < selected->count && selected->spans[walk->first[d]].high < from) walk->first[d]++;
    if (walk->first[d] == selected->count) return false;
    walk->at[d] = TSR_MAX(selected->spans[walk->first[d]].low, from) / extent;
    if (walk->gaps) return true;
    const uint64_t covered_at = next_covered(walk, k, walk->at[d] * extent);
    if (covered_at == UINT64_MAX) return false;
    if (covered_at / extent == walk->at[d]) return true;
    from = covered_at / extent * extent;
  }
}

/* With `begin`, steps to the first tile that has the present tile's coordinates in the dimensions before k. Without,
 * steps to the first tile after all of those. */
static void walk_step(tsr_walk *walk, uint32_t k, bool begin) {
  while (!begin || k < walk->grid->dimensions) {
    if (begin) {
      walk->first[tsr__grid_slowest(walk->grid, k)] = 0;
      begin = seek(walk, k, 0);
      if (begin) walk_narrow(walk, k++);
    } else if (k > 0) {
      const uint32_t d = tsr__grid_slowest(walk->grid, k - 1);
      const uint64_t end = tsr__grid_end(walk->grid, walk->at, d);
      begin = end < walk->grid->last[d] && seek(walk, k - 1, end + 1);
      if (begin) walk_narrow(walk, k - 1);
      else k--;
    } else {
      walk->ended = true;
      return;
    }
  }
}

int tsr__walk_open(const tsr_plan *plan, const tsr_grid *grid, bool gaps, bool gaps_offered, tsr_arena *arena,
                   tsr_walk *walk, tsr_error *error) {
  *walk = (tsr_walk){.plan = plan, .grid = grid, .gaps = gaps};
  TSR_TRY(TSR_ARENA_ARRAY(arena, 2 * grid->dimensions, &walk->at, error));
  walk->first = walk->at + grid->dimensions;
  TSR_TRY(open_lists(plan->box_count, grid->dimensions, arena, &walk->lists, &walk->list_counts, error));
  if (!gaps || gaps_offered)
    TSR_TRY(open_lists(plan->cover_count, grid->dimensions, arena, &walk->covers, &walk->cover_counts, error));
  walk_step(walk, 0, true);
  return TSR_OK;
}

void tsr__walk_next(tsr_walk *walk) { walk_step(walk, walk->grid->dimensions, false); }

/* ---- Gaps ------------------------------------------------------------------------------------------------------- */

/* Finds the gap's range in dimension k: what the request selects from the present tile up to the last tile before the
 * next cover. Returns false if that is not one range. */
static bool find_gap(const tsr_walk *walk, uint32_t k, uint64_t *low, uint64_t *high) {
  const uint32_t d = tsr__grid_slowest(walk->grid, k);
  const tsr_dimension_selection *selected = &walk->plan->selections[d];
  const uint64_t extent = walk->grid->extent[d], start = tsr__grid_start(walk->grid, walk->at, d),
                 covered_at = next_covered(walk, k, start);
  const tsr_span *span = &selected->spans[walk->first[d]],
                 *next = walk->first[d] + 1 < selected->count ? span + 1 : NULL;
  *low = TSR_MAX(span->low, start);
  *high = covered_at == UINT64_MAX ? span->high : TSR_MIN(span->high, covered_at / extent * extent - 1);
  if (next && next->low / extent == *high / extent) { /* the next span selects more of the last tile */
    if (*high / extent == *low / extent) return false;
    *high = *high / extent * extent - 1;
  }
  return true;
}

bool tsr__walk_gap(tsr_walk *walk, uint64_t *low, uint64_t *high, uint64_t *cells) {
  const uint32_t n = walk->grid->dimensions;
  uint32_t k = 0;
  while (k < n && walk->cover_counts[k + 1] > 0) k++;
  if (k == n) return false;
  *cells = 1;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t d = tsr__grid_slowest(walk->grid, i);
    const tsr_dimension_selection *selected = &walk->plan->selections[d];
    const tsr_span *span = &selected->spans[walk->first[d]];
    const uint64_t end = tsr__grid_end(walk->grid, walk->at, d);
    if (i == k) {
      if (!find_gap(walk, k, &low[d], &high[d])) return false;
    } else if (i < k) {
      if (walk->first[d] + 1 < selected->count && span[1].low <= end) return false;
      low[d] = TSR_MAX(span->low, tsr__grid_start(walk->grid, walk->at, d));
      high[d] = TSR_MIN(span->high, end);
    } else {
      if (selected->count > 1 || walk->at[d] != span->low / walk->grid->extent[d])
        return false; /* the walk has passed some of the tiles */
      low[d] = span->low;
      high[d] = span->high;
    }
    *cells = tsr__mul_sat(*cells, tsr__add_sat(high[d] - low[d], 1));
  }
  walk->gap_at = k;
  walk->gap_end = high[tsr__grid_slowest(walk->grid, k)];
  return true;
}

void tsr__walk_pass(tsr_walk *walk) {
  const uint32_t d = tsr__grid_slowest(walk->grid, walk->gap_at);
  walk->at[d] = walk->gap_end / walk->grid->extent[d];
  walk_step(walk, walk->gap_at + 1, false);
}
