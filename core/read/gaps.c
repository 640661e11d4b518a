/* gaps.c: the cells of a dense array that no commit has written, as boxes.
 *
 * The boxes of the fragments are cut out of the box that is asked for, the largest first, so that few parts come and
 * go; what remains is joined until no two boxes form one. With `by`, all of that happens on one dimension: a coordinate
 * drops out if any box has a cell there. Only metadata is read, but of sparse fragments in dense arrays (format
 * versions up to 10) the coordinates. */
#include <string.h>

#include "array/array.h"
#include "base/arithmetic.h"
#include "base/sort.h"
#include "environment/environment.h"
#include "format/fragment_metadata.h"
#include "format/layout.h"
#include "model/datatype.h"
#include "read/reader.h"

#define COUNT_MASK 0xFFu /* cuts between two polls of the host, less one */

typedef struct gaps_result { /* the result that the caller gets, with the memory that it points to */
  tsr_gaps base;
  tsr_memory memory;
  tsr_arena arena;
  tsr_snapshot *snapshot;
  uint32_t dimensions;
  uint32_t by; /* a dimension; `dimensions`: none */
  uint64_t *low, *high; /* what is asked for, in ordinals, inclusive */
  tsr_box_set left; /* not cut out yet; with `by` it has that dimension only */
  uint64_t cuts;
} gaps_result;

/* ---- Cutting out what was written -------------------------------------------------------------------------------- */

static bool gaps_meet(const gaps_result *g, const uint64_t *low, const uint64_t *high) {
  for (uint32_t d = 0; d < g->dimensions; d++)
    if (low[d] > g->high[d] || high[d] < g->low[d]) return false;
  return true;
}

static int too_many(const gaps_result *g, tsr_error *error) {
  return tsr__fail(error, TSR_TOOBIG,
                   "the cells that were never written form more than %u boxes: take a smaller slice%s", TSR_GAPS_MAX,
                   g->by == g->dimensions ? ", or the gaps by one dimension" : "");
}

static int join_all(gaps_result *g, tsr_error *error);

static int cut(gaps_result *g, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  if (!gaps_meet(g, low, high)) return TSR_OK;
  if ((++g->cuts & COUNT_MASK) == 0) TSR_TRY(tsr__cancelled(&g->snapshot->array->environment->memory, error));
  const uint32_t first = g->by == g->dimensions ? 0 : g->by;
  TSR_TRY(tsr__box_set_cut(&g->left, &low[first], &high[first], error));
  if (tsr__box_set_count(&g->left) <= TSR_GAPS_MAX) return TSR_OK;
  TSR_TRY(join_all(g, error));
  return tsr__box_set_count(&g->left) > TSR_GAPS_MAX ? too_many(g, error) : TSR_OK;
}

/* Cuts out the cells of one tile of a sparse fragment; cells that follow each other on the last dimension at once.
 * values[d] has their coordinates on dimension d. */
static int cut_cells(gaps_result *g, const uint8_t *const *values, uint64_t count, tsr_error *error) {
  const tsr_grid *grid = &g->snapshot->grid;
  const tsr_field *fields = g->snapshot->schema->fields;
  const uint32_t n = g->dimensions, fast = n - 1;
  uint64_t low[TSR_MAX_DIMENSIONS], high[TSR_MAX_DIMENSIONS], at[TSR_MAX_DIMENSIONS];
  for (uint64_t i = 0; i < count; i++) {
    for (uint32_t d = 0; d < n; d++)
      at[d] = tsr__key(fields[d].datatype, values[d] + i * fields[d].cell_size) - grid->low_key[d];
    if (i > 0 && memcmp(at, low, fast * sizeof *at) == 0 && at[fast] > high[fast] && at[fast] - high[fast] == 1) {
      high[fast]++;
      continue;
    }
    if (i > 0) TSR_TRY(cut(g, low, high, error));
    memcpy(low, at, n * sizeof *at);
    memcpy(high, at, n * sizeof *at);
  }
  return count > 0 ? cut(g, low, high, error) : TSR_OK;
}

/* Cuts out the cells of a sparse fragment. Before format version 5 one slot holds the coordinates of all dimensions,
 * one dimension after the other. */
static int cut_sparse(gaps_result *g, const tsr_snapshot_fragment *item, unsigned threads, tsr_error *error) {
  tsr_array *array = g->snapshot->array;
  const bool apart = layout_has_dimension_files(item->fragment->metadata.version);
  const uint32_t slots = apart ? g->dimensions : 1;
  const uint8_t *values[TSR_MAX_DIMENSIONS];
  tsr_tile_request *requests;
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, slots, &requests, error));
  for (uint64_t t = 0; t < item->fragment->metadata.tile_count; t++) {
    const uint64_t cells = tsr__fragment_tile_cells(&item->fragment->metadata, t);
    for (uint32_t k = 0; k < slots; k++)
      requests[k] = (tsr_tile_request){.fragment = item->fragment, .slot = (uint32_t)item->slots[k], .number = t};
    TSR_TRY(tsr__cancelled(&array->environment->memory, error));
    TSR_TRY(tsr__tiles_load(array, threads, requests, slots, &g->memory, error));
    for (uint32_t d = 0; d < g->dimensions; d++)
      values[d] = apart ? requests[d].tile->values
                        : requests[0].tile->values + d * cells * g->snapshot->schema->fields[d].cell_size;
    const int rc = cut_cells(g, values, cells, error);
    for (uint32_t k = 0; k < slots; k++) tsr__tile_return(requests[k].tile, &g->memory);
    tsr__array_files_done(array);
    TSR_TRY(rc);
  }
  return TSR_OK;
}

static uint64_t cells_between(uint32_t dimensions, const uint64_t *low, const uint64_t *high) {
  uint64_t cells = 1;
  for (uint32_t d = 0; d < dimensions; d++) cells = tsr__mul_sat(cells, tsr__add_sat(high[d] - low[d], 1));
  return cells;
}

/* Returns true if a fragment has written all cells of a box: it is dense, and not empty. */
static bool has_box(const tsr_snapshot_fragment *item) {
  return item->fragment->metadata.dense && !item->fragment->metadata.empty_domain;
}

static int cut_fragments(gaps_result *g, unsigned threads, tsr_error *error) {
  const tsr_snapshot *s = g->snapshot;
  tsr_pair *order, *spare;
  TSR_TRY(TSR_ARENA_RAW(&g->arena, s->fragment_count, &order, error));
  TSR_TRY(TSR_ARENA_RAW(&g->arena, s->fragment_count, &spare, error));
  for (uint64_t i = 0; i < s->fragment_count; i++) {
    const tsr_snapshot_fragment *item = &s->fragments[i];
    const uint64_t cells =
        has_box(item) ? cells_between(g->dimensions, item->box_low, item->box_high) : 0; /* after all with a box */
    order[i] = (tsr_pair){UINT64_MAX - cells, (uint32_t)i};
  }
  tsr__pairs_sort(order, spare, s->fragment_count);
  for (uint64_t i = 0; i < s->fragment_count && g->left.ends.size > 0; i++) {
    const tsr_snapshot_fragment *item = &s->fragments[order[i].cell];
    if (item->fragment->metadata.empty_domain) continue;
    TSR_TRY(has_box(item) ? cut(g, item->box_low, item->box_high, error) : cut_sparse(g, item, threads, error));
  }
  return TSR_OK;
}

/* ---- Joining what is left ---------------------------------------------------------------------------------------- */

static uint64_t *left_at(const tsr_box_set *set, uint64_t i) {
  return (uint64_t *)(void *)set->ends.data + i * 2 * set->dimensions;
}

/* Sorts the boxes by their low ends, those of dimension 0 first; with `axis`, by both ends of all other dimensions, and
 * then by the low end on that one. */
static void sort_left(const tsr_box_set *set, uint32_t axis, tsr_pair *pairs, tsr_pair *spare) {
  const uint64_t count = tsr__box_set_count(set);
  const uint32_t n = set->dimensions;
  for (uint64_t i = 0; i < count; i++)
    pairs[i] = (tsr_pair){left_at(set, i)[2 * (axis < n ? axis : n - 1)], (uint32_t)i};
  tsr__pairs_sort(pairs, spare, count);
  for (uint32_t k = 2 * n; k-- > 0;) {
    if (axis < n ? k / 2 == axis : k % 2 == 1 || k / 2 == n - 1) continue;
    for (uint64_t i = 0; i < count; i++) pairs[i].key = left_at(set, pairs[i].cell)[k];
    tsr__pairs_sort(pairs, spare, count);
  }
}

/* Puts the boxes into the order of sort_left, and joins those that touch on the axis and are equal on all others. */
static int join_on(gaps_result *g, uint32_t axis, tsr_error *error) {
  const uint64_t count = tsr__box_set_count(&g->left), width = 2 * (uint64_t)g->left.dimensions;
  tsr_box_set joined = {.dimensions = g->left.dimensions, .ends.memory = &g->memory};
  tsr_pair *pairs = NULL, *spare = NULL;
  int rc = TSR_ALLOC_RAW(&g->memory, count, &pairs, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(&g->memory, count, &spare, error);
  if (rc >= 0) rc = tsr__buffer_reserve(&joined.ends, g->left.ends.size, error);
  if (rc >= 0) sort_left(&g->left, axis, pairs, spare);
  uint64_t *last = NULL;
  for (uint64_t i = 0; rc >= 0 && i < count; i++) {
    const uint64_t *next = left_at(&g->left, pairs[i].cell);
    bool touches = last && axis < g->left.dimensions && last[2 * axis + 1] + 1 == next[2 * axis];
    for (uint64_t k = 0; touches && k < width; k++) touches = k / 2 == axis || last[k] == next[k];
    if (touches) {
      last[2 * axis + 1] = next[2 * axis + 1];
      continue;
    }
    rc = tsr__buffer_append(&joined.ends, next, width * sizeof *next, error);
    if (rc >= 0) last = left_at(&joined, tsr__box_set_count(&joined) - 1);
  }
  tsr__free(pairs);
  tsr__free(spare);
  if (rc < 0) {
    tsr__buffer_release(&joined.ends);
    return rc;
  }
  tsr__buffer_release(&g->left.ends);
  g->left = joined;
  return TSR_OK;
}

/* Joins until no two boxes form one. Each round but the last has fewer boxes than the one before. */
static int join_all(gaps_result *g, tsr_error *error) {
  for (uint64_t before = UINT64_MAX, count; (count = tsr__box_set_count(&g->left)) < before && count > 1;) {
    before = count;
    for (uint32_t k = g->left.dimensions; k-- > 0;) {
      TSR_TRY(tsr__cancelled(&g->snapshot->array->environment->memory, error));
      TSR_TRY(join_on(g, k, error));
    }
  }
  return TSR_OK;
}

/* ---- The result -------------------------------------------------------------------------------------------------- */

static void set_interval(const gaps_result *g, uint32_t d, uint64_t low, uint64_t high, tsr_interval *interval) {
  const tsr_datatype datatype = g->snapshot->schema->fields[d].datatype;
  tsr__key_value(datatype, g->snapshot->grid.low_key[d] + low, interval->low);
  tsr__key_value(datatype, g->snapshot->grid.low_key[d] + high, interval->high);
}

static int list_gaps(gaps_result *g, tsr_error *error) {
  const uint64_t count = tsr__box_set_count(&g->left);
  tsr_gap *gaps;
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, count, &gaps, error));
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t *ends = left_at(&g->left, i);
    uint64_t low[TSR_MAX_DIMENSIONS], high[TSR_MAX_DIMENSIONS];
    tsr_interval *box;
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, g->dimensions, &box, error));
    for (uint32_t d = 0; d < g->dimensions; d++) {
      const bool whole = g->by != g->dimensions && g->by != d;
      const uint64_t *end = ends + (g->by == g->dimensions ? 2 * (uint64_t)d : 0);
      low[d] = whole ? g->low[d] : end[0];
      high[d] = whole ? g->high[d] : end[1];
      set_interval(g, d, low[d], high[d], &box[d]);
    }
    gaps[i] = (tsr_gap){.box = box, .cells = cells_between(g->dimensions, low, high)};
  }
  g->base = (tsr_gaps){.count = count, .gaps = gaps};
  return TSR_OK;
}

/* Sets what is asked for: `within`, or else the domain; no more than the current domain. Returns 1; 0 if that is
 * nothing. */
static int take_box(gaps_result *g, const tsr_interval *within, tsr_error *error) {
  const tsr_schema *schema = g->snapshot->schema;
  const tsr_grid *grid = &g->snapshot->grid;
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, 2 * (uint64_t)g->dimensions, &g->low, error));
  g->high = g->low + g->dimensions;
  const tsr_interval *current = schema->current_domain;
  if (!within) within = current;
  for (uint32_t d = 0; d < g->dimensions; d++) {
    g->high[d] = grid->last[d];
    if (!within) continue;
    const tsr_datatype datatype = schema->fields[d].datatype;
    const uint64_t zero = grid->low_key[d], low = tsr__key(datatype, within[d].low);
    const uint64_t high = tsr__key(datatype, within[d].high);
    if (low > high || low < zero || high - zero > grid->last[d])
      return tsr__fail(error, TSR_RANGE, "dimension '%s': its interval is reversed, or outside of the domain",
                       schema->fields[d].name);
    g->low[d] = current ? TSR_MAX(low, tsr__key(datatype, current[d].low)) - zero : low - zero;
    g->high[d] = current ? TSR_MIN(high, tsr__key(datatype, current[d].high)) - zero : high - zero;
    if (g->low[d] > g->high[d]) return 0;
  }
  return 1;
}

static int find_gaps(gaps_result *g, const tsr_interval *within, unsigned threads, tsr_error *error) {
  if (!g->snapshot->schema->dense)
    return tsr__fail(error, TSR_ERROR, "the array is sparse: only dense arrays have cells that were never written");
  if (g->by > g->dimensions) return tsr__fail(error, TSR_RANGE, "there is no dimension %u", g->by);
  const int some = take_box(g, within, error);
  if (some <= 0) return some;
  const uint32_t first = g->by == g->dimensions ? 0 : g->by;
  g->left.dimensions = g->by == g->dimensions ? g->dimensions : 1;
  TSR_TRY(tsr__box_set_add(&g->left, &g->low[first], &g->high[first], error));
  TSR_TRY(cut_fragments(g, threads, error));
  TSR_TRY(join_all(g, error));
  if (tsr__box_set_count(&g->left) > 1) TSR_TRY(join_on(g, g->left.dimensions, error)); /* only sorts */
  return list_gaps(g, error);
}

int tsr_gaps_open(tsr_snapshot *snapshot, const tsr_interval *within, uint32_t by, uint64_t memory_bytes,
                  tsr_gaps **gaps, tsr_error *error) {
  TSR_OWN_ERROR(error);
  gaps_result *g;
  TSR_TRY(TSR_ALLOC(&snapshot->array->memory, &g, error));
  tsr__memory_init(&g->memory, &snapshot->array->memory, memory_bytes ? memory_bytes : UINT64_C(1) << 30, "memory_mb");
  tsr__arena_init(&g->arena, &g->memory);
  g->snapshot = snapshot;
  g->dimensions = snapshot->schema->dimension_count;
  g->by = by == TSR_GAPS_BOXES ? g->dimensions : by;
  g->left.ends.memory = &g->memory;
  tsr__snapshot_hold(snapshot);
  const int rc = by == g->dimensions ? tsr__fail(error, TSR_RANGE, "there is no dimension %u", by)
                                     : find_gaps(g, within, snapshot->array->threads, error);
  tsr__buffer_release(&g->left.ends);
  if (rc < 0) {
    tsr_gaps_close(&g->base);
    return tsr__wrap(error, "array %s", snapshot->array->path);
  }
  *gaps = &g->base;
  return TSR_OK;
}

void tsr_gaps_close(tsr_gaps *gaps) {
  if (!gaps) return;
  gaps_result *g = (gaps_result *)(void *)gaps;
  tsr_snapshot *snapshot = g->snapshot;
  tsr__arena_release(&g->arena);
  tsr__free(g);
  tsr_snapshot_close(snapshot);
}
