/* plan.c: decides which fragments and tiles a request can find cells in, for the reader and, as an estimate, for
 * SQLite's planner.
 *
 * Plans. Ranges become spans of order keys. Fragments whose non-empty domain does not meet the spans are skipped; the
 * R-tree of a sparse fragment then gives the tiles. A dense plan lists no tiles, since there may be 2^60 of them: it
 * has the selected ordinals of each dimension and the boxes of the fragments that meet them.
 *
 * Estimates. The estimate descends each R-tree level by level. All cells of a node inside the spans count; a node that
 * the spans cut is expanded. In a leaf that is cut, cells are assumed to be spread evenly over its MBR. If a level has
 * many nodes, a sample represents them all, so that an estimate takes about the same time for any array.
 */
#include "read/reader.h"

#include <math.h>
#include <string.h>

#include "store/store.h"
#include "model/datatype.h"
#include "filter/pipeline.h"
#include "format/fragment_metadata.h"
#include "format/schema.h"
#include "array/array.h"
#include "environment/environment.h"

/* ---- Spans, selections, boxes ------------------------------------------------------------------------------------ */

static int make_spans(const tsr_schema *schema, const tsr_ranges *dimensions, tsr_arena *arena, tsr_spans **spans,
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

/* Returns true if the fragment's non-empty domain meets the spans. */
static bool fragment_meets(const tsr_schema *schema, const tsr_fragment *fragment, const tsr_spans *spans) {
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
  if (plan->tile_count == list->capacity) { /* doubles: the old array stays in the arena until it is reset */
    uint64_t capacity = TSR_MAX(4, list->capacity * 2);
    tsr_plan_tile *tiles;
    TSR_TRY(TSR_ARENA_RAW(list->arena, capacity, &tiles, error));
    if (plan->tile_count) memcpy(tiles, plan->tiles, plan->tile_count * sizeof(tsr_plan_tile));
    plan->tiles = tiles;
    list->capacity = capacity;
  }
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

/* Hints to the store that the metadata of the fragments that meet the spans will be read. */
static void prefetch_metadata(tsr_snapshot *snapshot, const tsr_spans *spans, bool lossy) {
  tsr_fragment **met;
  uint64_t n = 0;
  if (!tsr__store_prefetches(snapshot->array->store) || snapshot->fragment_count == 0 ||
      TSR_ALLOC_RAW(&snapshot->array->memory, snapshot->fragment_count, &met, NULL) < 0)
    return;
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    tsr_fragment *fragment = snapshot->fragments[f].fragment;
    if (lossy || fragment_meets(snapshot->schema, fragment, spans)) met[n++] = fragment;
  }
  tsr__fragments_expect(snapshot->array, met, n);
  tsr__free(met);
}

/* The same for a dense plan: for the fragments of its boxes, from the newest down to the first that covers the whole
 * selection. */
static void prefetch_metadata_of_boxes(tsr_snapshot *snapshot, const tsr_plan *plan) {
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
  tsr__fragments_expect(snapshot->array, met, n);
  tsr__free(met);
}

static int plan_sparse(tsr_snapshot *snapshot, bool count, tsr_arena *arena, tsr_plan *plan, tsr_error *error) {
  tsr_environment *environment = snapshot->array->environment;
  tile_list list = {.plan = plan, .arena = arena};
  uint64_t skipped = 0;
  plan->lossy = tsr_coordinates_lossy(snapshot->schema);
  prefetch_metadata(snapshot, plan->spans, plan->lossy);
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    tsr_fragment *fragment = snapshot->fragments[f].fragment;
    if (!plan->lossy && !fragment_meets(snapshot->schema, fragment, plan->spans)) {
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

static int plan_dense(tsr_snapshot *snapshot, bool count, tsr_arena *arena, tsr_plan *plan, tsr_error *error) {
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
  TSR_TRY(plan_dense(snapshot, count, arena, plan, error));
  if (!plan->empty) prefetch_metadata_of_boxes(snapshot, plan);
  return TSR_OK;
}

/* Fails if the request selects cells that the snapshot has lost: a merge or a purge has removed them from the past. */
static int check_kept(tsr_snapshot *snapshot, const tsr_spans *spans, tsr_error *error) {
  const tsr_loss *losses = (const tsr_loss *)(const void *)snapshot->losses.data;
  for (uint64_t i = 0; i < snapshot->losses.size / sizeof *losses; i++)
    if (!losses[i].fragment || tsr_coordinates_lossy(snapshot->schema) ||
        fragment_meets(snapshot->schema, losses[i].fragment, spans))
      return tsr__loss_fail(snapshot, &losses[i], error);
  return TSR_OK;
}

int tsr__plan_make(tsr_snapshot *snapshot, const tsr_ranges *dimensions, tsr_arena *arena, tsr_plan *plan,
                   tsr_error *error) {
  *plan = (tsr_plan){0};
  TSR_TRY(make_spans(snapshot->schema, dimensions, arena, &plan->spans, &plan->empty, error));
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

/* ---- Estimates -------------------------------------------------------------------------------------------------- */

#define ESTIMATE_NODES 256 /* nodes examined on each level of an R-tree: an even sample if there are more */
#define ESTIMATE_SPANS 64 /* spans of a dimension that are examined: the first ones */

typedef struct estimator {
  const tsr_schema *schema;
  const tsr_spans *spans;
  const tsr_fragment *fragment;
  const tsr_rtree *rtree;
  double rows, tiles, cells;
} estimator;

static double float_of(tsr_datatype datatype, uint64_t key) {
  float f32 = 0;
  double f64 = 0;
  if (datatype == TSR_FLOAT32) tsr__key_value(datatype, key, &f32);
  else tsr__key_value(datatype, key, &f64);
  return datatype == TSR_FLOAT32 ? (double)f32 : f64;
}

/* Returns the distance between the values of two keys. */
static double distance(tsr_datatype datatype, uint64_t from, uint64_t to) {
  if (tsr_datatype_kind(datatype) == TSR_KIND_FLOAT) return float_of(datatype, to) - float_of(datatype, from);
  return (double)(to - from);
}

/* Returns the fraction of the cells in low..high that the spans select, assuming that cells are spread evenly. `least`
 * is the fraction that a span of floats selects at least, however narrow it is. */
static double part_fixed(tsr_datatype datatype, const tsr_spans *spans, uint64_t low, uint64_t high, double least) {
  const bool floats = tsr_datatype_kind(datatype) == TSR_KIND_FLOAT;
  const double unit = floats ? 0 : 1, width = distance(datatype, low, high) + unit;
  if (low > high || !(width > 0 && width < INFINITY)) return 1; /* bounds may be infinite */
  uint64_t from = 0;
  for (uint64_t a = 0, b = spans->count; a < b;) {
    uint64_t middle = a + (b - a) / 2;
    if (spans->spans[middle].high < low) a = from = middle + 1;
    else b = middle;
  }
  double part = 0;
  uint64_t i = from;
  for (; i < spans->count && i - from < ESTIMATE_SPANS && spans->spans[i].low <= high; i++) {
    const double taken =
        distance(datatype, TSR_MAX(spans->spans[i].low, low), TSR_MIN(spans->spans[i].high, high)) + unit;
    part += TSR_MAX(taken / width, floats ? least : 0);
  }
  if (i < spans->count && spans->spans[i].low <= high) /* assume that the remaining spans are as dense */
    part *= width / TSR_MAX(distance(datatype, low, spans->spans[i].low), 1e-300);
  return TSR_MIN(part, 1);
}

/* Returns the position of `text` among strings that share its first `skip` bytes, from 0 to 1: its next bytes read as a
 * fraction. */
static double text_fraction(const uint8_t *text, uint64_t size, uint64_t skip) {
  double fraction = 0, unit = 1;
  for (uint64_t i = skip; i < skip + 8; i++) {
    unit /= 256;
    if (i < size) fraction += unit * text[i];
  }
  return fraction;
}

static double part_text(const tsr_spans *spans, const uint8_t *low, uint64_t low_size, const uint8_t *high,
                        uint64_t high_size, double least) {
  uint64_t skip = 0;
  while (skip < low_size && skip < high_size && low[skip] == high[skip]) skip++;
  const double first = text_fraction(low, low_size, skip), last = text_fraction(high, high_size, skip);
  if (!(last > first)) return 1;
  double part = 0;
  uint64_t seen = 0;
  for (uint64_t i = 0; i < spans->count && seen < ESTIMATE_SPANS; i++) {
    const tsr_text_span *s = &spans->texts[i];
    if (!s->high_open && tsr__bytes_compare(s->high, s->high_size, low, low_size) < 0) continue;
    if (tsr__bytes_compare(s->low, s->low_size, high, high_size) > 0) break;
    const bool from_low = tsr__bytes_compare(s->low, s->low_size, low, low_size) <= 0,
               to_high = s->high_open || tsr__bytes_compare(s->high, s->high_size, high, high_size) >= 0;
    const double a = from_low ? first : text_fraction(s->low, s->low_size, skip),
                 b = to_high ? last : text_fraction(s->high, s->high_size, skip);
    part += TSR_MAX((b - a) / (last - first), least);
    seen++;
  }
  return TSR_MIN(part, 1);
}

/* Relates the MBR of an R-tree node with about `cells` cells to the spans, and estimates the fraction of its cells that
 * they select. */
static tsr_relation estimate_node(const estimator *e, uint32_t level, uint64_t node, double cells, double *part) {
  const uint32_t n = e->rtree->dimensions;
  const uint64_t *keys = e->rtree->keys[level] + node * n * 2;
  const uint64_t *sizes = e->rtree->sizes ? e->rtree->sizes[level] + node * n * 2 : NULL;
  tsr_relation relation = TSR_INSIDE;
  const double least = pow(TSR_MAX(cells, 1), -1.0 / n);
  *part = 1;
  for (uint32_t d = 0; d < n; d++) {
    const tsr_spans *s = &e->spans[d];
    if (s->all) continue;
    const uint64_t low = keys[2 * d], high = keys[2 * d + 1];
    const uint8_t *text = e->rtree->text;
    const tsr_relation r = s->text ? tsr__spans_relate_text(s, text + low, sizes[2 * d], text + high, sizes[2 * d + 1])
                                   : tsr__spans_relate(s, low, high);
    if (r == TSR_OUTSIDE) return r;
    if (r == TSR_INSIDE) continue;
    relation = TSR_OVERLAP;
    *part *= s->text ? part_text(s, text + low, sizes[2 * d], text + high, sizes[2 * d + 1], least)
                     : part_fixed(e->schema->fields[d].datatype, s, low, high, least);
  }
  return relation;
}

/* Returns the number of leaves below a node, and sets *cells to the number of their cells. */
static double leaves_below(const estimator *e, uint32_t level, uint64_t node, double *cells) {
  const uint64_t leaves = e->rtree->counts[e->rtree->levels - 1];
  uint64_t each = 1;
  for (uint32_t l = level + 1; l < e->rtree->levels; l++) each = tsr__mul_sat(each, e->rtree->fanout);
  const uint64_t first = TSR_MIN(tsr__mul_sat(node, each), leaves), n = TSR_MIN(each, leaves - first);
  *cells = (double)n * (double)e->fragment->cells_per_tile;
  if (n > 0 && first + n == leaves)
    *cells -=
        (double)e->fragment->cells_per_tile - (double)tsr__fragment_tile_cells(&e->fragment->metadata, leaves - 1);
  return (double)n;
}

/* Picks the i-th sample, one of each `step` nodes. Its position within the step varies, since MBRs may repeat at
 * regular distances. */
static uint64_t pick_sample(uint64_t i, double step, uint64_t count) {
  const double jitter = (double)(i * 40503 % 65536) / 65536;
  return TSR_MIN(tsr__whole(((double)i + (step > 1 ? jitter : 0)) * step), count - 1);
}

/* Adds the estimate for one fragment. `weight` is the number of nodes that each sampled node represents. */
static void estimate_fragment(estimator *e) {
  uint64_t nodes[ESTIMATE_NODES], cut[ESTIMATE_NODES];
  const tsr_rtree *rtree = e->rtree;
  if (rtree->levels == 0) return;
  uint64_t count = TSR_MIN(rtree->counts[0], ESTIMATE_NODES);
  double weight = count ? (double)rtree->counts[0] / (double)count : 0;
  for (uint64_t i = 0; i < count; i++) nodes[i] = pick_sample(i, weight, rtree->counts[0]);
  for (uint32_t level = 0; level < rtree->levels && count > 0; level++) {
    const bool leaf = level + 1 == rtree->levels;
    uint64_t cuts = 0;
    for (uint64_t i = 0; i < count; i++) {
      double cells, part, tiles = leaves_below(e, level, nodes[i], &cells);
      const tsr_relation relation = estimate_node(e, level, nodes[i], cells, &part);
      if (relation == TSR_OUTSIDE) continue;
      if (relation == TSR_OVERLAP && !leaf) {
        cut[cuts++] = nodes[i];
        continue;
      }
      e->tiles += weight * tiles;
      e->cells += weight * cells;
      e->rows += weight * cells * part;
    }
    if (leaf) break;
    const uint64_t fanout = TSR_MAX(rtree->fanout, 1), kept_max = TSR_MAX(1, ESTIMATE_NODES / fanout);
    const double step = cuts > kept_max ? (double)cuts / (double)kept_max : 1;
    const uint64_t kept = TSR_MIN(cuts, kept_max);
    count = 0;
    for (uint64_t i = 0; i < kept; i++) {
      const uint64_t child = cut[pick_sample(i, step, cuts)] * fanout;
      for (uint64_t c = child; c < child + fanout && c < rtree->counts[level + 1] && count < ESTIMATE_NODES; c++)
        nodes[count++] = c;
    }
    weight *= step;
  }
}

/* Returns how many coordinates the spans contain; INFINITY if they are unbounded or too many to count. A sparse array
 * without duplicates has no more rows than that. */
static double coordinates_of(const tsr_schema *schema, const tsr_spans *spans) {
  double n = 1;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    if (spans[d].all || spans[d].count > 4 * ESTIMATE_SPANS) return INFINITY;
    double values = 0;
    for (uint64_t i = 0; i < spans[d].count; i++) {
      if (spans[d].text) {
        const tsr_text_span *s = &spans[d].texts[i];
        if (s->high_open || s->high_exclusive || tsr__bytes_compare(s->low, s->low_size, s->high, s->high_size) != 0)
          return INFINITY;
        values += 1;
      } else if (spans[d].spans[i].low == spans[d].spans[i].high) {
        values += 1;
      } else {
        if (tsr_datatype_kind(schema->fields[d].datatype) == TSR_KIND_FLOAT) return INFINITY;
        values += (double)(spans[d].spans[i].high - spans[d].spans[i].low) + 1;
      }
    }
    n *= values;
  }
  return n;
}

/* Adds all cells of a fragment. */
static void estimate_whole_fragment(estimator *e) {
  const tsr_fragment_metadata *m = &e->fragment->metadata;
  const double tiles = (double)m->tile_count;
  const double cells =
      (tiles - 1) * (double)e->fragment->cells_per_tile + (double)tsr__fragment_tile_cells(m, m->tile_count - 1);
  e->tiles += tiles;
  e->cells += cells;
  e->rows += cells;
}

static int estimate_sparse(tsr_snapshot *snapshot, const tsr_spans *spans, tsr_estimate *estimate, tsr_error *error) {
  estimator e = {.schema = snapshot->schema, .spans = spans};
  bool all = true;
  for (uint32_t d = 0; d < snapshot->schema->dimension_count; d++) all = all && spans[d].all;
  if (!all) prefetch_metadata(snapshot, spans, false);
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    e.fragment = snapshot->fragments[f].fragment;
    if (!fragment_meets(snapshot->schema, e.fragment, spans)) continue;
    estimate->fragments++;
    if (all) {
      if (e.fragment->metadata.tile_count > 0) estimate_whole_fragment(&e);
      continue;
    }
    TSR_TRY(tsr__fragment_rtree(snapshot->array, snapshot->fragments[f].fragment, &e.rtree, error));
    estimate_fragment(&e);
  }
  if (!snapshot->schema->allows_duplicates) e.rows = TSR_MIN(e.rows, coordinates_of(snapshot->schema, spans));
  estimate->rows = estimate->written = e.rows;
  estimate->tiles = e.tiles;
  estimate->cells = e.cells;
  return TSR_OK;
}

static void estimate_dense(const tsr_snapshot *snapshot, const tsr_plan *plan, tsr_estimate *estimate) {
  const tsr_grid *grid = &snapshot->grid;
  estimate->rows = 1;
  for (uint32_t d = 0; d < grid->dimensions; d++)
    estimate->rows *= (double)tsr__dimension_selection_values(&plan->selections[d]);
  for (uint64_t i = plan->box_count; i-- > 0;) { /* newest first; one that covers the selection hides all older ones */
    const tsr_plan_box *box = &plan->boxes[i];
    bool covers = !box->sparse;
    double tiles = 1, cells = 1;
    for (uint32_t d = 0; d < grid->dimensions; d++) {
      const tsr_dimension_selection *selected = &plan->selections[d];
      tiles *= (double)tsr__dimension_selection_tiles(selected, grid->extent[d], box->low[d], box->high[d]);
      cells *= (double)tsr__dimension_selection_values_within(selected, box->low[d], box->high[d]);
      if (selected->spans[0].low < box->low[d] || selected->spans[selected->count - 1].high > box->high[d])
        covers = false;
    }
    estimate->fragments++;
    estimate->tiles += tiles;
    estimate->written += cells;
    if (covers) break;
  }
  estimate->written = TSR_MIN(estimate->written, estimate->rows);
  estimate->cells = estimate->tiles * (double)grid->tile_cells;
}

int tsr_request_estimate(tsr_snapshot *snapshot, const tsr_request *request, tsr_estimate *estimate, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_arena arena;
  tsr_plan plan = {0};
  tsr_estimate result = {0};
  tsr__arena_init(&arena, &snapshot->array->memory);
  int rc = make_spans(snapshot->schema, request->dimensions, &arena, &plan.spans, &plan.empty, error);
  if (rc >= 0 && !plan.empty && snapshot->schema->dense) {
    rc = plan_dense(snapshot, false, &arena, &plan, error);
    if (rc >= 0 && !plan.empty) estimate_dense(snapshot, &plan, &result);
  } else if (rc >= 0 && !plan.empty) {
    rc = estimate_sparse(snapshot, plan.spans, &result, error);
  }
  tsr__arena_release(&arena);
  if (rc < 0) return tsr__wrap(error, "%s", snapshot->array->path);
  *estimate = result;
  return TSR_OK;
}
