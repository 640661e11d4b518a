/* plan.c: decides which fragments and tiles a request can find cells in.
 *
 * Ranges become spans of order keys. Fragments whose non-empty domain does not meet the spans are skipped; the R-tree
 * of a sparse fragment then gives the tiles. A dense plan lists no tiles, since there may be 2^60 of them: it has the
 * selected ordinals of each dimension and the boxes of the fragments that meet them.
 */
#include "read/reader.h"

#include <string.h>

#include "store/store.h"
#include "model/datatype.h"
#include "filter/pipeline.h"
#include "format/fragment_metadata.h"
#include "format/schema.h"
#include "array/array.h"
#include "environment/environment.h"

/* ---- Spans, selections, boxes ------------------------------------------------------------------------------------ */

int tsr__request_spans(const tsr_schema *schema, const tsr_ranges *dimensions, tsr_arena *arena, tsr_spans **spans,
                       bool *empty, tsr_error *error) {
  TSR_TRY(TSR_ARENA_ARRAY(arena, schema->dimension_count, spans, error));
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    tsr_spans *s = &(*spans)[d];
    if (!dimensions || (dimensions[d].all && !dimensions[d].also)) {
      s->all = true;
      s->text = schema->fields[d].values_per_cell == TSR_VARIABLE;
    } else if (tsr__spans_make(&schema->fields[d], &dimensions[d], arena, s, error) < 0) {
      return tsr__wrap(error, "dimension %s", schema->fields[d].name);
    }
    if (!s->all && s->count == 0) *empty = true;
  }
  return TSR_OK;
}

static tsr_relation relate_interval(const tsr_field *dimension, const tsr_spans *spans, const tsr_interval *interval) {
  if (spans->all) return TSR_INSIDE;
  if (spans->text)
    return tsr__spans_relate_text(spans, interval->low_text, interval->low_size, interval->high_text,
                                  interval->high_size);
  return tsr__spans_relate(spans, tsr__key(dimension->datatype, interval->low),
                           tsr__key(dimension->datatype, interval->high));
}

bool tsr__fragment_meets(const tsr_schema *schema, const tsr_fragment *fragment, const tsr_spans *spans) {
  if (fragment->metadata.empty_domain || !fragment->metadata.non_empty_domain) return false;
  for (uint32_t d = 0; d < schema->dimension_count; d++)
    if (relate_interval(&schema->fields[d], &spans[d], &fragment->metadata.non_empty_domain[d]) == TSR_OUTSIDE)
      return false;
  return true;
}

/* Makes the selection of a dimension: the values within the spans, between the ordinals low and high, as ordinals. */
static int select_dimension(const tsr_spans *spans, uint64_t low_key, uint64_t low, uint64_t high, tsr_arena *arena,
                            tsr_dimension_selection *selected, tsr_error *error) {
  const uint64_t first = low_key + low, last = low_key + high;
  const tsr_span box = {first, last};
  const tsr_span *all = spans->all ? &box : spans->spans;
  uint64_t from = 0, end = spans->all ? 1 : spans->count;
  for (uint64_t a = 0, b = end; a < b;) { /* find the first span that ends in the box or after it */
    uint64_t middle = a + (b - a) / 2;
    if (all[middle].high < first) a = from = middle + 1;
    else b = middle;
  }
  uint64_t to = from;
  while (to < end && all[to].low <= last) to++;
  TSR_TRY(TSR_ARENA_RAW(arena, to - from, &selected->spans, error));
  selected->count = to - from;
  for (uint64_t i = from; i < to; i++)
    selected->spans[i - from] = (tsr_span){TSR_MAX(all[i].low, first) - low_key, TSR_MIN(all[i].high, last) - low_key};
  return TSR_OK;
}

uint64_t tsr__dimension_selection_values(const tsr_dimension_selection *selected) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < selected->count; i++)
    n = tsr__add_sat(n, tsr__add_sat(selected->spans[i].high - selected->spans[i].low, 1));
  return n;
}

uint64_t tsr__dimension_selection_values_within(const tsr_dimension_selection *selected, uint64_t low, uint64_t high) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < selected->count && selected->spans[i].low <= high; i++) {
    const uint64_t a = TSR_MAX(selected->spans[i].low, low), b = TSR_MIN(selected->spans[i].high, high);
    if (a <= b) n = tsr__add_sat(n, tsr__add_sat(b - a, 1));
  }
  return n;
}

uint64_t tsr__dimension_selection_tiles(const tsr_dimension_selection *selected, uint64_t extent, uint64_t low,
                                        uint64_t high) {
  uint64_t n = 0, next = 0; /* next: the first tile not yet counted */
  for (uint64_t i = 0; i < selected->count; i++) {
    uint64_t a = TSR_MAX(selected->spans[i].low, low), b = TSR_MIN(selected->spans[i].high, high);
    if (a > b) continue;
    a = TSR_MAX(a / extent, next);
    b = b / extent;
    if (a > b) continue;
    n = tsr__add_sat(n, tsr__add_sat(b - a, 1));
    next = b + 1;
  }
  return n;
}

static bool selection_meets(const tsr_dimension_selection *selected, uint64_t low, uint64_t high) {
  for (uint64_t i = 0; i < selected->count && selected->spans[i].low <= high; i++)
    if (selected->spans[i].high >= low) return true;
  return false;
}

/* ---- Plans ------------------------------------------------------------------------------------------------------ */

typedef struct tile_list {
  tsr_plan *plan;
  tsr_arena *arena;
  uint64_t capacity;
  uint32_t fragment;
} tile_list;

static int add_tile(void *argument, uint64_t leaf, bool inside, tsr_error *error) {
  tile_list *list = argument;
  tsr_plan *plan = list->plan;
  TSR_TRY(TSR_ARENA_GROW(list->arena, &plan->tiles, plan->tile_count, &list->capacity, 4, error));
  plan->tiles[plan->tile_count++] = (tsr_plan_tile){.fragment = list->fragment, .inside = inside, .tile = leaf};
  return TSR_OK;
}

bool tsr_coordinates_lossy(const tsr_schema *schema) {
  for (uint32_t d = 0; d < schema->dimension_count; d++)
    if (tsr__pipeline_is_lossy(tsr__schema_pipeline(schema, d))) return true;
  return false;
}

static int add_all_tiles(tile_list *list, const tsr_fragment *fragment, tsr_error *error) {
  for (uint64_t t = 0; t < fragment->metadata.tile_count; t++) TSR_TRY(add_tile(list, t, false, error));
  return TSR_OK;
}

void tsr__plan_prefetch(tsr_snapshot *snapshot, const tsr_spans *spans, bool lossy) {
  tsr_fragment **met;
  uint64_t n = 0;
  if (!tsr__store_prefetches(snapshot->array->store) || snapshot->fragment_count == 0 ||
      TSR_ALLOC_RAW(&snapshot->array->memory, snapshot->fragment_count, &met, NULL) < 0)
    return;
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    tsr_fragment *fragment = snapshot->fragments[f].fragment;
    if (lossy || tsr__fragment_meets(snapshot->schema, fragment, spans)) met[n++] = fragment;
  }
  tsr__fragments_prefetch(snapshot->array, met, n);
  tsr__free(met);
}

/* The same for a dense plan: for the fragments of its boxes, from the newest down to the first that covers the whole
 * selection. */
static void plan_prefetch_boxes(tsr_snapshot *snapshot, const tsr_plan *plan) {
  tsr_fragment **met;
  uint64_t n = 0;
  bool covered = false;
  if (!tsr__store_prefetches(snapshot->array->store) || plan->box_count == 0 ||
      TSR_ALLOC_RAW(&snapshot->array->memory, plan->box_count, &met, NULL) < 0)
    return;
  for (uint64_t i = plan->box_count; i-- > 0 && !covered;) {
    const tsr_plan_box *box = &plan->boxes[i];
    met[n++] = snapshot->fragments[box->fragment].fragment;
    covered = !box->sparse;
    for (uint32_t d = 0; d < snapshot->grid.dimensions && covered; d++) {
      const tsr_dimension_selection *selected = &plan->selections[d];
      covered = selected->spans[0].low >= box->low[d] && selected->spans[selected->count - 1].high <= box->high[d];
    }
  }
  tsr__fragments_prefetch(snapshot->array, met, n);
  tsr__free(met);
}

static int plan_sparse(tsr_snapshot *snapshot, bool count, tsr_arena *arena, tsr_plan *plan, tsr_error *error) {
  tsr_environment *environment = snapshot->array->environment;
  tile_list list = {.plan = plan, .arena = arena};
  uint64_t skipped = 0;
  plan->lossy = tsr_coordinates_lossy(snapshot->schema);
  tsr__plan_prefetch(snapshot, plan->spans, plan->lossy);
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    tsr_fragment *fragment = snapshot->fragments[f].fragment;
    if (!plan->lossy && !tsr__fragment_meets(snapshot->schema, fragment, plan->spans)) {
      skipped++;
      continue;
    }
    const tsr_rtree *rtree;
    TSR_TRY(tsr__fragment_rtree(snapshot->array, fragment, &rtree, error));
    const uint64_t before = plan->tile_count;
    list.fragment = (uint32_t)f;
    if (plan->places) TSR_TRY(tsr__place_window_tiles(plan->places, rtree, add_tile, &list, error));
    else if (plan->lossy) TSR_TRY(add_all_tiles(&list, fragment, error));
    else TSR_TRY(tsr__rtree_query(rtree, plan->spans, add_tile, &list, error));
    if (snapshot->shows == TSR_SHOWS_DROPPED && !plan->lossy)
      plan->tile_count = tsr__dropped_tiles(snapshot, (uint32_t)f, plan->tiles, before, plan->tile_count);
    if (!count) continue;
    tsr__count(environment, TSR_COUNT_tiles_considered, fragment->metadata.tile_count);
    tsr__count(environment, TSR_COUNT_tiles_skipped_by_domain,
               fragment->metadata.tile_count - TSR_MIN(fragment->metadata.tile_count, plan->tile_count - before));
  }
  plan->empty = plan->tile_count == 0;
  if (!count) return TSR_OK;
  tsr__count(environment, TSR_COUNT_fragments_considered, snapshot->fragment_count);
  tsr__count(environment, TSR_COUNT_fragments_skipped, skipped);
  return TSR_OK;
}

bool tsr__fragment_fits(const tsr_snapshot *snapshot, const tsr_fragment *fragment) {
  const tsr_grid *grid = &snapshot->grid, *own = &fragment->dense.grid;
  if (own->col_major_cells != grid->col_major_cells) return false;
  for (uint32_t d = 0; d < grid->dimensions; d++)
    if (own->extent[d] != grid->extent[d] || own->low_key[d] != grid->low_key[d]) return false;
  return true;
}

/* Finds the box of a fragment of a dense array, in ordinals. A sparse fragment's box is its non-empty domain. */
static int find_box(tsr_snapshot *snapshot, uint32_t f, tsr_arena *arena, tsr_plan_box *box, tsr_error *error) {
  const tsr_fragment *fragment = snapshot->fragments[f].fragment;
  const tsr_grid *grid = &snapshot->grid;
  *box = (tsr_plan_box){.fragment = f, .sparse = !fragment->metadata.dense};
  if (!box->sparse) {
    if (!tsr__fragment_fits(snapshot, fragment))
      return tsr__fail(error, TSR_CORRUPT, "fragment %s: its schema %s has other tiles than the array's",
                       fragment->name, fragment->metadata.schema_name);
    box->low = snapshot->fragments[f].box_low;
    box->high = snapshot->fragments[f].box_high;
    return TSR_OK;
  }
  uint64_t *low;
  TSR_TRY(TSR_ARENA_RAW(arena, 2 * grid->dimensions, &low, error));
  uint64_t *high = low + grid->dimensions;
  for (uint32_t d = 0; d < grid->dimensions; d++) {
    const tsr_datatype datatype = snapshot->schema->fields[d].datatype;
    const uint64_t a = tsr__key(datatype, fragment->metadata.non_empty_domain[d].low),
                   b = tsr__key(datatype, fragment->metadata.non_empty_domain[d].high);
    if (a < grid->low_key[d] || a > b || b - grid->low_key[d] > grid->last[d])
      return tsr__fail(error, TSR_CORRUPT, "fragment %s: its non-empty domain is outside the domain on %s",
                       fragment->name, snapshot->schema->fields[d].name);
    low[d] = a - grid->low_key[d];
    high[d] = b - grid->low_key[d];
  }
  box->low = low;
  box->high = high;
  return TSR_OK;
}

int tsr__plan_dense(tsr_snapshot *snapshot, bool count, tsr_arena *arena, tsr_plan *plan, tsr_error *error) {
  const tsr_grid *grid = &snapshot->grid;
  tsr_environment *environment = snapshot->array->environment;
  if (!snapshot->domain.exists) {
    plan->empty = true;
    return TSR_OK;
  }
  TSR_TRY(TSR_ARENA_ARRAY(arena, grid->dimensions, &plan->selections, error));
  for (uint32_t d = 0; d < grid->dimensions; d++) {
    TSR_TRY(select_dimension(&plan->spans[d], grid->low_key[d], snapshot->domain.box_low[d],
                             snapshot->domain.box_high[d], arena, &plan->selections[d], error));
    if (plan->selections[d].count == 0) plan->empty = true;
  }
  uint64_t considered = 0, met = 0;
  if (!plan->empty) {
    TSR_TRY(TSR_ARENA_RAW(arena, snapshot->fragment_count, &plan->boxes, error));
    for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
      const tsr_fragment *fragment = snapshot->fragments[f].fragment;
      if (fragment->metadata.empty_domain) continue;
      tsr_plan_box *box = &plan->boxes[plan->box_count];
      TSR_TRY(find_box(snapshot, (uint32_t)f, arena, box, error));
      uint64_t tiles = 1;
      bool meets = true;
      for (uint32_t d = 0; d < grid->dimensions && meets; d++) {
        meets = selection_meets(&plan->selections[d], box->low[d], box->high[d]);
        if (meets && count)
          tiles = tsr__mul_sat(
              tiles, tsr__dimension_selection_tiles(&plan->selections[d], grid->extent[d], box->low[d], box->high[d]));
      }
      if (!meets) continue;
      plan->box_count++;
      considered += fragment->metadata.tile_count;
      met += TSR_MIN(tiles, fragment->metadata.tile_count);
    }
  }
  if (count) {
    tsr__count(environment, TSR_COUNT_tiles_considered, considered);
    tsr__count(environment, TSR_COUNT_tiles_skipped_by_domain, considered - met);
    tsr__count(environment, TSR_COUNT_fragments_considered, snapshot->fragment_count);
    tsr__count(environment, TSR_COUNT_fragments_skipped, snapshot->fragment_count - plan->box_count);
  }
  return TSR_OK;
}

static int make_plan(tsr_snapshot *snapshot, bool count, tsr_arena *arena, tsr_plan *plan, tsr_error *error) {
  if (!snapshot->schema->dense) return plan_sparse(snapshot, count, arena, plan, error);
  TSR_TRY(tsr__plan_dense(snapshot, count, arena, plan, error));
  if (!plan->empty) plan_prefetch_boxes(snapshot, plan);
  return TSR_OK;
}

/* Fails if the request selects cells that the snapshot has lost: a merge or a purge has removed them from the past. */
static int check_kept(tsr_snapshot *snapshot, const tsr_spans *spans, tsr_error *error) {
  const tsr_loss *losses = (const tsr_loss *)(const void *)snapshot->losses.data;
  for (uint64_t i = 0; i < snapshot->losses.size / sizeof *losses; i++)
    if (!losses[i].fragment || tsr_coordinates_lossy(snapshot->schema) ||
        tsr__fragment_meets(snapshot->schema, losses[i].fragment, spans))
      return tsr__loss_fail(snapshot, &losses[i], error);
  return TSR_OK;
}

int tsr__plan_make(tsr_snapshot *snapshot, const tsr_ranges *dimensions, tsr_arena *arena, tsr_plan *plan,
                   tsr_error *error) {
  *plan = (tsr_plan){0};
  TSR_TRY(tsr__request_spans(snapshot->schema, dimensions, arena, &plan->spans, &plan->empty, error));
  if (plan->empty) return TSR_OK;
  TSR_TRY(check_kept(snapshot, plan->spans, error));
  return make_plan(snapshot, true, arena, plan, error);
}

int tsr__plan_make_at(tsr_snapshot *snapshot, const tsr_place_window *window, tsr_arena *arena, tsr_plan *plan,
                      tsr_error *error) {
  *plan = (tsr_plan){.spans = window->spans, .places = window};
  return plan_sparse(snapshot, true, arena, plan, error);
}

int tsr__plan_make_within(tsr_snapshot *snapshot, tsr_spans *spans, tsr_arena *arena, tsr_plan *plan,
                          tsr_error *error) {
  *plan = (tsr_plan){.spans = spans};
  for (uint32_t d = 0; d < snapshot->schema->dimension_count; d++)
    if (!spans[d].all && !spans[d].nans && spans[d].count == 0) plan->empty = true;
  if (plan->empty) return TSR_OK;
  return make_plan(snapshot, false, arena, plan, error);
}
