/* walk.c: the space tiles that a dense request wants something of, one after the other in tile order.
 *
 * An odometer of tile coordinates; nothing is kept of those that have passed. Which fragments' boxes meet the present tile is
 * known from lists that are narrowed dimension by dimension.
 *
 * There may be far more tiles that no fragment meets than could be walked: 10^10. Where nothing is wanted of them the walk goes
 * from one tile that a cover meets (covers.c) to the next; where they can be taken at once they are offered as boxes, each up
 * to the next tile that a cover meets.
 *
 * Invariants: dimensions are in tile order here, number 0 the slowest; lists[k] has the boxes that meet the tile in those
 * before k. `first` is the first span of each side that meets the tile.
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

/* Narrows the lists of dimension k by where the walk stands on it. */
static void walk_narrow(tsr_walk *w, uint32_t k) {
  const tsr_plan *plan = w->plan;
  const uint32_t d = tsr__grid_slowest(w->grid, k);
  const uint64_t low = tsr__grid_start(w->grid, w->at, d), high = tsr__grid_end(w->grid, w->at, d);
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->list_counts[k]; i++) {
    const uint32_t box = w->lists[k][i];
    if (plan->boxes[box].low[d] <= high && plan->boxes[box].high[d] >= low) w->lists[k + 1][n++] = box;
  }
  w->list_counts[k + 1] = n;
  if (!w->covers) return;
  n = 0;
  for (uint32_t i = 0; i < w->cover_counts[k]; i++) {
    const uint32_t cover = w->covers[k][i];
    if (plan->covers[cover].low[d] <= high && plan->covers[cover].high[d] >= low) w->covers[k + 1][n++] = cover;
  }
  w->cover_counts[k + 1] = n;
}

/* On dimension k, the first ordinal from `from` on that a cover of its list has; UINT64_MAX if none has. */
static uint64_t next_met(const tsr_walk *w, uint32_t k, uint64_t from) {
  const uint32_t d = tsr__grid_slowest(w->grid, k);
  uint64_t next = UINT64_MAX;
  for (uint32_t i = 0; i < w->cover_counts[k]; i++) {
    const tsr_cover *cover = &w->plan->covers[w->covers[k][i]];
    if (cover->high[d] >= from) next = TSR_MIN(next, TSR_MAX(cover->low[d], from));
  }
  return next;
}

/* Puts dimension k on its first tile from the ordinal `from` on in which something is wanted, and which, where gaps are passed
 * over, a cover meets. False where there is none. */
static bool seek(tsr_walk *w, uint32_t k, uint64_t from) {
  const uint32_t d = tsr__grid_slowest(w->grid, k);
  const tsr_dimension_selection *selected = &w->plan->selections[d];
  const uint64_t extent = w->grid->extent[d];
  for (;;) {
    while (w->first[d] < selected->count && selected->spans[w->first[d]].high < from) w->first[d]++;
    if (w->first[d] == selected->count) return false;
    w->at[d] = TSR_MAX(selected->spans[w->first[d]].low, from) / extent;
    if (w->gaps) return true;
    const uint64_t met = next_met(w, k, w->at[d] * extent);
    if (met == UINT64_MAX) return false;
    if (met / extent == w->at[d]) return true;
    from = met / extent * extent;
  }
}

/* To the first tile that has the present one's coordinates in the dimensions before k (`begin`), or to the next behind all of
 * those. */
static void walk_walk(tsr_walk *w, uint32_t k, bool begin) {
  while (!begin || k < w->grid->dimensions) {
    if (begin) {
      w->first[tsr__grid_slowest(w->grid, k)] = 0;
      begin = seek(w, k, 0);
      if (begin) walk_narrow(w, k++);
    } else if (k > 0) {
      const uint32_t d = tsr__grid_slowest(w->grid, k - 1);
      const uint64_t end = tsr__grid_end(w->grid, w->at, d);
      begin = end < w->grid->last[d] && seek(w, k - 1, end + 1);
      if (begin) walk_narrow(w, k - 1);
      else k--;
    } else {
      w->ended = true;
      return;
    }
  }
}

int tsr__walk_open(const tsr_plan *plan, const tsr_grid *grid, bool gaps, bool offered, tsr_arena *arena, tsr_walk *w,
                   tsr_error *error) {
  *w = (tsr_walk){.plan = plan, .grid = grid, .gaps = gaps};
  TSR_TRY(TSR_ARENA_ARRAY(arena, 2 * grid->dimensions, &w->at, error));
  w->first = w->at + grid->dimensions;
  TSR_TRY(open_lists(plan->box_count, grid->dimensions, arena, &w->lists, &w->list_counts, error));
  if (!gaps || offered)
    TSR_TRY(open_lists(plan->cover_count, grid->dimensions, arena, &w->covers, &w->cover_counts, error));
  walk_walk(w, 0, true);
  return TSR_OK;
}

void tsr__walk_next(tsr_walk *w) { walk_walk(w, w->grid->dimensions, false); }

/* ---- Gaps ------------------------------------------------------------------------------------------------------- */

/* What is wanted of dimension k, from the present tile to the last before the next that a cover of its list meets: one range,
 * or false. */
static bool find_gap(const tsr_walk *w, uint32_t k, uint64_t *low, uint64_t *high) {
  const uint32_t d = tsr__grid_slowest(w->grid, k);
  const tsr_dimension_selection *selected = &w->plan->selections[d];
  const uint64_t extent = w->grid->extent[d], start = tsr__grid_start(w->grid, w->at, d), met = next_met(w, k, start);
  const tsr_span *span = &selected->spans[w->first[d]], *next = w->first[d] + 1 < selected->count ? span + 1 : NULL;
  *low = TSR_MAX(span->low, start);
  *high = met == UINT64_MAX ? span->high : TSR_MIN(span->high, met / extent * extent - 1);
  if (next && next->low / extent == *high / extent) { /* more is wanted of the last tile */
    if (*high / extent == *low / extent) return false;
    *high = *high / extent * extent - 1;
  }
  return true;
}

bool tsr__walk_gap(tsr_walk *w, uint64_t *low, uint64_t *high, uint64_t *cells) {
  const uint32_t n = w->grid->dimensions;
  uint32_t k = 0;
  while (k < n && w->cover_counts[k + 1] > 0) k++;
  if (k == n) return false;
  *cells = 1;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t d = tsr__grid_slowest(w->grid, i);
    const tsr_dimension_selection *selected = &w->plan->selections[d];
    const tsr_span *span = &selected->spans[w->first[d]];
    const uint64_t end = tsr__grid_end(w->grid, w->at, d);
    if (i == k) {
      if (!find_gap(w, k, &low[d], &high[d])) return false;
    } else if (i < k) {
      if (w->first[d] + 1 < selected->count && span[1].low <= end) return false;
      low[d] = TSR_MAX(span->low, tsr__grid_start(w->grid, w->at, d));
      high[d] = TSR_MIN(span->high, end);
    } else {
      if (selected->count > 1 || w->at[d] != span->low / w->grid->extent[d])
        return false; /* some of them have passed */
      low[d] = span->low;
      high[d] = span->high;
    }
    *cells = tsr__mul_sat(*cells, tsr__add_sat(high[d] - low[d], 1));
  }
  w->gap_at = k;
  w->gap_end = high[tsr__grid_slowest(w->grid, k)];
  return true;
}

void tsr__walk_pass(tsr_walk *w) {
  const uint32_t d = tsr__grid_slowest(w->grid, w->gap_at);
  w->at[d] = w->gap_end / w->grid->extent[d];
  walk_walk(w, w->gap_at + 1, false);
}
