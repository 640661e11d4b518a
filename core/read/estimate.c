/* estimate.c: estimates the rows and the cost of a request, for SQLite's planner.
 *
 * A dense estimate counts the cells and tiles of a plan. A sparse one makes no plan, but descends each R-tree level by
 * level. All cells of a node inside the spans count; a node that the spans cut is expanded. In a leaf that is cut,
 * cells are assumed to be spread evenly over its MBR. If a level has many nodes, a sample represents them all, so that
 * an estimate takes about the same time for any array.
 */
#include "read/reader.h"

#include <math.h>

#include "array/array.h"
#include "base/arithmetic.h"
#include "base/options.h"
#include "format/fragment_metadata.h"
#include "model/datatype.h"

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
  if (!all) tsr__plan_prefetch(snapshot, spans, false);
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    e.fragment = snapshot->fragments[f].fragment;
    if (!tsr__fragment_meets(snapshot->schema, e.fragment, spans)) continue;
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
  tsr_request own;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_request, threads, request, &own, error));
  request = &own;
  tsr_arena arena;
  tsr_plan plan = {0};
  tsr_estimate result = {0};
  tsr__arena_init(&arena, &snapshot->array->memory);
  int rc = tsr__request_spans(snapshot->schema, request->dimensions, &arena, &plan.spans, &plan.empty, error);
  if (rc >= 0 && !plan.empty && snapshot->schema->dense) {
    rc = tsr__plan_dense(snapshot, false, &arena, &plan, error);
    if (rc >= 0 && !plan.empty) estimate_dense(snapshot, &plan, &result);
  } else if (rc >= 0 && !plan.empty) {
    rc = estimate_sparse(snapshot, plan.spans, &result, error);
  }
  tsr__arena_release(&arena);
  if (rc < 0) return tsr__wrap(error, "%s", snapshot->array->path);
  *estimate = result;
  return TSR_OK;
}
