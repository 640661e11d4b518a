/* partition.c: divides a request into slices of about equal work, for many readers at once.
 *
 * The request is cut into two parts, and these again, until each part is one slice. Each part carries its share: the
 * number of slices that it will become. A cut divides a part on one dimension, the one with the best cut:
 * - Dense: between space tiles, where the numbers of cells come nearest to the shares. If several dimensions are
 *   equally good, the slowest in tile order is cut.
 * - Sparse: at the low end of a tile's MBR, so that about the first share of the cells lies before the cut. Tiles that
 *   straddle the cut are read for both parts, so their cells count against a cut.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/datatype.h"
#include "format/fragment_metadata.h"
#include "array/array.h"
#include "environment/environment.h"
#include "read/reader.h"

#define SLICES_MAX 1000000u

typedef struct partition_item { /* a tile of a sparse fragment that meets a part */
  uint32_t tile; /* index in the plan's tiles */
  double cells; /* estimated number of its cells in the part */
} partition_item;

typedef struct partition_part {
  uint64_t share; /* slices that it will become */
  tsr_cut *cuts; /* [dimension] */
  uint64_t *low, *high; /* dense: [dimension], ordinals, inclusive */
  uint64_t item_count; /* sparse: its tiles */
  partition_item *items;
} partition_part;

typedef struct splitter {
  tsr_snapshot *snapshot;
  tsr_arena arena;
  tsr_plan plan;
  uint32_t dimensions;
  uint32_t *order; /* dimensions, the slowest in tile order first */
  uint64_t *fragment_bytes; /* [fragment]: average stored bytes of a tile, all fields together */
  tsr_partitions *partitions; /* the result so far */
  uint64_t capacity; /* of its list */
} splitter;

/* The result that the caller gets, with the memory that it points to. */
typedef struct partitions_result {
  tsr_partitions base;
  splitter splitter;
} partitions_result;

static int copy_part(splitter *s, const partition_part *from, partition_part *to, tsr_error *error) {
  const uint32_t n = s->dimensions;
  *to = (partition_part){.share = from->share};
  TSR_TRY(TSR_ARENA_COPY(&s->arena, from->cuts, n * sizeof(tsr_cut), &to->cuts, error));
  if (!from->low) return TSR_OK;
  TSR_TRY(TSR_ARENA_COPY(&s->arena, from->low, 2 * n * sizeof(uint64_t), &to->low, error));
  to->high = to->low + n;
  return TSR_OK;
}

static int add_partition(splitter *s, const partition_part *p, uint64_t tiles, uint64_t cells, uint64_t bytes,
                         tsr_error *error) {
  TSR_TRY(TSR_ARENA_GROW(&s->arena, &s->partitions->partitions, s->partitions->count, &s->capacity, 16, error));
  tsr_partition *all = (tsr_partition *)s->partitions->partitions;
  all[s->partitions->count++] = (tsr_partition){.cuts = p->cuts, .tiles = tiles, .cells = cells, .bytes = bytes};
  return TSR_OK;
}

/* Returns true if a cut at this key can be written in SQL: the key and the one before it must map to a number or a
 * printable time. */
static bool can_cut(tsr_datatype datatype, uint64_t key) {
  const tsr_kind kind = tsr_datatype_kind(datatype);
  char text[48];
  int64_t value;
  if (key <= tsr__key_min(datatype) || key > tsr__key_max(datatype)) return false;
  if (datatype == TSR_UINT64) return key <= INT64_MAX;
  if (kind != TSR_KIND_DATETIME && kind != TSR_KIND_TIME) return true;
  for (uint64_t k = key - 1; k <= key; k++) {
    tsr__key_value(datatype, k, &value);
    if (tsr_datetime_print(datatype, value, text) == 0) return false;
  }
  return true;
}

/* ---- Dense ------------------------------------------------------------------------------------------------------- */

/* Returns how many selected values of a dimension lie in low..high. */
static uint64_t values_between(const tsr_dimension_selection *selected, uint64_t low, uint64_t high) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < selected->count; i++) {
    const uint64_t a = TSR_MAX(selected->spans[i].low, low), b = TSR_MIN(selected->spans[i].high, high);
    if (a <= b) n = tsr__add_sat(n, tsr__add_sat(b - a, 1));
  }
  return n;
}

/* Adds a part to the result: counts its cells and tiles. */
static int finish_dense(splitter *s, const partition_part *p, tsr_error *error) {
  const tsr_grid *grid = &s->snapshot->grid;
  uint64_t cells = 1, tiles = 0, bytes = 0;
  for (uint32_t d = 0; d < s->dimensions; d++)
    cells = tsr__mul_sat(cells, values_between(&s->plan.selections[d], p->low[d], p->high[d]));
  for (uint64_t i = 0; i < s->plan.box_count; i++) {
    const tsr_plan_box *box = &s->plan.boxes[i];
    uint64_t met = 1;
    for (uint32_t d = 0; d < s->dimensions; d++)
      met = tsr__mul_sat(met, tsr__dimension_selection_tiles(&s->plan.selections[d], grid->extent[d],
                                                             TSR_MAX(box->low[d], p->low[d]),
                                                             TSR_MIN(box->high[d], p->high[d])));
    if (box->sparse) /* the R-tree is not read, so space tiles are only an upper bound */
      met = TSR_MIN(met, s->snapshot->fragments[box->fragment].fragment->metadata.tile_count);
    tiles = tsr__add_sat(tiles, met);
    bytes = tsr__add_sat(bytes, tsr__mul_sat(met, s->fragment_bytes[box->fragment]));
  }
  return add_partition(s, p, tiles, cells, bytes, error);
}

/* Returns the best cut on a dimension: the first ordinal of the second part, or 0 if there is none. *miss is the
 * difference between the first part's fraction of the values and `share`. */
static uint64_t find_cut(const splitter *s, const partition_part *p, uint32_t d, double share, double *miss) {
  const uint64_t extent = s->snapshot->grid.extent[d], low = p->low[d], high = p->high[d];
  const uint64_t first = low / extent + 1, last = high / extent; /* tiles that can begin the second part */
  if (first > last) return 0;
  const tsr_dimension_selection *selected = &s->plan.selections[d];
  const double all = (double)values_between(selected, low, high);
  uint64_t a = first, b = last;
  while (a < b) { /* find the first tile with at least the share before it */
    const uint64_t middle = a + (b - a) / 2;
    if ((double)values_between(selected, low, middle * extent - 1) < share * all) a = middle + 1;
    else b = middle;
  }
  uint64_t best = 0;
  for (uint64_t tile = a > first ? a - 1 : a; tile <= a; tile++) {
    const double part_of = (double)values_between(selected, low, tile * extent - 1) / all;
    const tsr_datatype datatype = s->snapshot->schema->fields[d].datatype;
    if (!can_cut(datatype, s->snapshot->grid.low_key[d] + tile * extent)) continue;
    const double off = part_of > share ? part_of - share : share - part_of;
    if (part_of <= 0 || part_of >= 1 || (best && off >= *miss)) continue;
    best = tile * extent;
    *miss = off;
  }
  return best;
}

static int split_dense(splitter *s, const partition_part *p, tsr_error *error) {
  const uint64_t first_share = p->share / 2;
  uint64_t best = 0;
  uint32_t on = 0;
  double least = 2;
  TSR_TRY(tsr__cancelled(&s->snapshot->array->environment->memory, error));
  for (uint32_t k = 0; k < s->dimensions && p->share > 1; k++) {
    double miss = 2;
    const uint64_t cut = find_cut(s, p, s->order[k], (double)first_share / (double)p->share, &miss);
    if (cut == 0 || miss > least - 1e-9) continue;
    best = cut;
    on = s->order[k];
    least = miss;
  }
  if (best == 0) return finish_dense(s, p, error);
  partition_part a, b;
  const tsr_datatype datatype = s->snapshot->schema->fields[on].datatype;
  const uint64_t low_key = s->snapshot->grid.low_key[on];
  TSR_TRY(copy_part(s, p, &a, error));
  TSR_TRY(copy_part(s, p, &b, error));
  a.share = first_share;
  b.share = p->share - first_share;
  a.high[on] = best - 1;
  b.low[on] = best;
  a.cuts[on].has_high = b.cuts[on].has_low = true;
  tsr__key_value(datatype, low_key + best - 1, a.cuts[on].values.high);
  tsr__key_value(datatype, low_key + best, b.cuts[on].values.low);
  TSR_TRY(split_dense(s, &a, error)); /* the recursion depth is log2 of the share */
  return split_dense(s, &b, error);
}

static int start_dense(splitter *s, partition_part *p, tsr_error *error) {
  TSR_TRY(TSR_ARENA_ARRAY(&s->arena, 2 * s->dimensions, &p->low, error));
  p->high = p->low + s->dimensions;
  for (uint32_t d = 0; d < s->dimensions; d++) {
    const tsr_dimension_selection *selected = &s->plan.selections[d];
    p->low[d] = selected->spans[0].low;
    p->high[d] = selected->spans[selected->count - 1].high;
  }
  return split_dense(s, p, error);
}

/* ---- Sparse ------------------------------------------------------------------------------------------------------ */

typedef struct box_end { /* an end of a tile's MBR on one dimension, or a cut position */
  uint64_t key;
  const uint8_t *text; /* for string dimensions; else NULL */
  uint64_t size; /* of the text, in bytes */
} box_end;

static bool partition_is_text(const splitter *s, uint32_t d) {
  return s->snapshot->schema->fields[d].values_per_cell == TSR_VARIABLE;
}

static int partition_compare_ends(const box_end *a, const box_end *b) {
  if (a->text) return tsr__bytes_compare(a->text, a->size, b->text, b->size);
  return (a->key > b->key) - (a->key < b->key);
}

/* Sets *limit to a part's end on a dimension. Returns false if it is unbounded there. */
static bool limit_of(const splitter *s, const partition_part *p, uint32_t d, bool high, box_end *limit) {
  const tsr_cut *cut = &p->cuts[d];
  const tsr_spans *spans = &s->plan.spans[d];
  if (high ? cut->has_high : cut->has_low) {
    if (partition_is_text(s, d))
      *limit = high ? (box_end){.text = cut->values.high_text, .size = cut->values.high_size}
                    : (box_end){.text = cut->values.low_text, .size = cut->values.low_size};
    else
      *limit = (box_end){
          .key = tsr__key(s->snapshot->schema->fields[d].datatype, high ? cut->values.high : cut->values.low)};
    return true;
  }
  if (spans->all) return false;
  if (!partition_is_text(s, d)) {
    *limit = (box_end){.key = high ? spans->spans[spans->count - 1].high : spans->spans[0].low};
    return true;
  }
  const tsr_text_span *last = &spans->texts[spans->count - 1];
  if (high && last->high_open) return false;
  *limit = high ? (box_end){.text = last->high, .size = last->high_size}
                : (box_end){.text = spans->texts[0].low, .size = spans->texts[0].low_size};
  return limit->text != NULL;
}

/* Returns an end of an item's MBR on a dimension, clipped to the part. */
static box_end partition_end_of(const splitter *s, const partition_part *p, const partition_item *it, uint32_t d,
                                bool high) {
  const tsr_plan_tile *tile = &s->plan.tiles[it->tile];
  const tsr_rtree *rtree = s->snapshot->fragments[tile->fragment].fragment->metadata.rtree;
  const uint64_t at = (tile->tile * rtree->dimensions + d) * 2 + high;
  const uint64_t key = rtree->keys[rtree->levels - 1][at];
  box_end end = {.key = key}, limit;
  if (partition_is_text(s, d)) end = (box_end){.text = rtree->text + key, .size = rtree->sizes[rtree->levels - 1][at]};
  if (!limit_of(s, p, d, high, &limit)) return end;
  const int order = partition_compare_ends(&end, &limit);
  return (high ? order > 0 : order < 0) ? limit : end;
}

typedef struct partition_ranked { /* an item's ends on the dimension being tried */
  box_end low, high;
  double cells;
} partition_ranked;

static int compare_ranked(const void *a, const void *b) {
  return partition_compare_ends(&((const partition_ranked *)a)->low, &((const partition_ranked *)b)->low);
}

/* Returns the length of the prefix that a cut can use: ASCII without NUL, at most TSR_CUT_TEXT bytes. */
static uint64_t clean_size(const uint8_t *text, uint64_t size) {
  uint64_t n = 0;
  while (n < size && n < TSR_CUT_TEXT && text[n] > 0 && text[n] < 0x80) n++;
  return n;
}

/* Returns the key of a float above `low` and not above `key` that can be written with few digits, so that SQL reads
 * back exactly this value. Returns `key` if there is none. */
static uint64_t round_key(tsr_datatype datatype, uint64_t low, uint64_t key) {
  for (int digits = 3; digits <= 9; digits++) {
    char text[40];
    double value;
    float narrow;
    if (datatype == TSR_FLOAT32) {
      tsr__key_value(datatype, key, &narrow);
      value = (double)narrow;
    } else tsr__key_value(datatype, key, &value);
    snprintf(text, sizeof text, "%.*e", digits, value);
    value = strtod(text, NULL);
    narrow = (float)value;
    const bool exact = datatype == TSR_FLOAT64 || (double)narrow == value;
    const uint64_t rounded = tsr__key(datatype, datatype == TSR_FLOAT32 ? (const void *)&narrow : &value);
    if (exact && rounded > low && rounded <= key) return rounded;
  }
  return key;
}

#define CANDIDATES 3

/* Lists candidates for a cut near `target` cells, and returns their number. Values below the cut belong to the first
 * part; for strings, so does the value of the cut itself. */
static unsigned list_ends(const splitter *s, const partition_ranked *ranks, uint64_t count, uint32_t d, double target,
                          box_end ends[CANDIDATES]) {
  const tsr_datatype datatype = s->snapshot->schema->fields[d].datatype;
  double before = 0;
  uint64_t i = 0;
  unsigned n = 0;
  while (i + 1 < count && before + ranks[i].cells <= target) before += ranks[i++].cells;
  if (partition_is_text(s, d)) {
    const box_end *texts[CANDIDATES] = {i > 0 ? &ranks[i - 1].high : NULL, &ranks[i].low, &ranks[0].low};
    for (unsigned c = 0; c < CANDIDATES; c++) {
      if (!texts[c]) continue;
      ends[n] = *texts[c];
      ends[n].size = clean_size(ends[n].text, ends[n].size);
      n += ends[n].size > 0 && partition_compare_ends(&ranks[0].low, &ends[n]) <= 0;
    }
    return n;
  }
  uint64_t from = i, to = i; /* items from..to-1 have the same low end as item i: cut before or after them */
  while (from > 0 && ranks[from - 1].low.key == ranks[i].low.key) from--;
  while (to < count && ranks[to].low.key == ranks[i].low.key) to++;
  const uint64_t at[2] = {from, to};
  for (unsigned c = 0; c < 2; c++) {
    if (at[c] == 0 || at[c] == count) continue;
    ends[n] = (box_end){.key = ranks[at[c]].low.key};
    if (!can_cut(datatype, ends[n].key)) continue;
    if (tsr_datatype_kind(datatype) == TSR_KIND_FLOAT)
      ends[n].key = round_key(datatype, ranks[at[c] - 1].low.key, ends[n].key);
    n += can_cut(datatype, ends[n].key);
  }
  return n;
}

/* Sets *before and *behind: whether the item reaches into the part before the cut, and into the part after it. */
static void partition_locate(const splitter *s, const partition_part *p, const partition_item *it, uint32_t d,
                             const box_end *at, bool *before, bool *behind) {
  const box_end low = partition_end_of(s, p, it, d, false), high = partition_end_of(s, p, it, d, true);
  const int equal = at->text ? 0 : -1; /* strings: the value of the cut belongs to the first part */
  *before = partition_compare_ends(&low, at) <= equal;
  *behind = partition_compare_ends(&high, at) > equal || !*before;
}

/* Estimates the fraction of an item that lies before a cut through it. */
static double part_before(const splitter *s, const partition_part *p, const partition_item *it, uint32_t d,
                          const box_end *at) {
  if (at->text || tsr_datatype_kind(s->snapshot->schema->fields[d].datatype) == TSR_KIND_FLOAT) return 0.5;
  const box_end low = partition_end_of(s, p, it, d, false), high = partition_end_of(s, p, it, d, true);
  return high.key < low.key ? 0.5 : (double)(at->key - low.key) / ((double)(high.key - low.key) + 1);
}

/* Computes the *loss of a cut: the cells of tiles that straddle it, plus the difference between the first part's cells
 * and `target`. Returns false if the cut makes neither part smaller. */
static bool weigh_cut(const splitter *s, const partition_part *p, uint32_t d, const box_end *at, double target,
                      double *loss) {
  double both = 0, first = 0;
  uint64_t in_front = 0, behind_it = 0;
  for (uint64_t i = 0; i < p->item_count; i++) {
    bool before, behind;
    partition_locate(s, p, &p->items[i], d, at, &before, &behind);
    in_front += before;
    behind_it += behind;
    if (before && behind) both += p->items[i].cells;
    if (before) first += p->items[i].cells * (behind ? part_before(s, p, &p->items[i], d, at) : 1);
  }
  *loss = both + (first > target ? first - target : target - first);
  return in_front > 0 && behind_it > 0 && in_front + behind_it < 2 * p->item_count;
}

/* Tries cuts on a dimension. If one loses less than *loss, sets *best and *loss and returns 1; else returns 0. */
static int try_dimension(splitter *s, const partition_part *p, uint32_t d, double all, partition_ranked *ranks,
                         box_end *best, double *loss, tsr_error *error) {
  const double target = all * (double)(p->share / 2) / (double)p->share;
  box_end ends[CANDIDATES];
  int better = 0;
  TSR_TRY(tsr__cancelled(&s->snapshot->array->environment->memory, error));
  for (uint64_t i = 0; i < p->item_count; i++)
    ranks[i] = (partition_ranked){.low = partition_end_of(s, p, &p->items[i], d, false),
                                  .high = partition_end_of(s, p, &p->items[i], d, true),
                                  .cells = p->items[i].cells};
  qsort(ranks, p->item_count, sizeof *ranks, compare_ranked);
  const unsigned n = list_ends(s, ranks, p->item_count, d, target, ends);
  for (unsigned c = 0; c < n; c++) {
    double lost;
    if (!weigh_cut(s, p, d, &ends[c], target, &lost) || lost >= *loss) continue;
    *best = ends[c];
    *loss = lost;
    better = 1;
  }
  return better;
}

/* Adds a part to the result. */
static int finish_sparse(splitter *s, const partition_part *p, tsr_error *error) {
  double cells = 0;
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < p->item_count; i++) {
    cells += p->items[i].cells;
    bytes = tsr__add_sat(bytes, s->fragment_bytes[s->plan.tiles[p->items[i].tile].fragment]);
  }
  return add_partition(s, p, p->item_count, tsr__whole(cells + 0.5), bytes, error);
}

/* Sets the cuts of both parts on a dimension. */
static int set_cut(splitter *s, partition_part *a, partition_part *b, uint32_t d, const box_end *at, tsr_error *error) {
  const tsr_datatype datatype = s->snapshot->schema->fields[d].datatype;
  tsr_cut *first = &a->cuts[d], *second = &b->cuts[d];
  first->has_high = second->has_low = true;
  if (at->text) {
    uint8_t *copy;
    TSR_TRY(TSR_ARENA_COPY(&s->arena, at->text, at->size, &copy, error));
    first->values.high_text = second->values.low_text = copy;
    first->values.high_size = second->values.low_size = at->size;
    second->low_after = true;
    return TSR_OK;
  }
  tsr__key_value(datatype, at->key - 1, first->values.high);
  tsr__key_value(datatype, at->key, second->values.low);
  tsr__key_value(datatype, at->key, first->next);
  return TSR_OK;
}

/* Divides the items of a part; an item that straddles the cut goes to both. */
static int share_items(splitter *s, const partition_part *p, partition_part *a, partition_part *b, uint32_t d,
                       const box_end *at, tsr_error *error) {
  TSR_TRY(TSR_ARENA_ARRAY(&s->arena, p->item_count, &a->items, error));
  TSR_TRY(TSR_ARENA_ARRAY(&s->arena, p->item_count, &b->items, error));
  for (uint64_t i = 0; i < p->item_count; i++) {
    bool before, behind;
    partition_item first = p->items[i], second = p->items[i];
    partition_locate(s, p, &first, d, at, &before, &behind);
    if (before && behind) {
      first.cells *= part_before(s, p, &p->items[i], d, at);
      second.cells -= first.cells;
    }
    if (before) a->items[a->item_count++] = first;
    if (behind) b->items[b->item_count++] = second;
  }
  return TSR_OK;
}

static int split_sparse(splitter *s, const partition_part *p, tsr_error *error) {
  double all = 0, least = INFINITY;
  box_end best = {0};
  uint32_t on = UINT32_MAX;
  partition_ranked *ranks;
  if (p->share <= 1 || p->item_count <= 1 || s->plan.lossy) return finish_sparse(s, p, error);
  for (uint64_t i = 0; i < p->item_count; i++) all += p->items[i].cells;
  TSR_TRY(TSR_ALLOC_ARRAY(s->arena.memory, p->item_count, &ranks, error));
  int rc = TSR_OK;
  for (uint32_t k = 0; k < s->dimensions && rc >= 0; k++) {
    rc = try_dimension(s, p, s->order[k], all, ranks, &best, &least, error);
    if (rc > 0) on = s->order[k];
  }
  tsr__free(ranks);
  if (rc < 0) return rc;
  if (on == UINT32_MAX) return finish_sparse(s, p, error);
  partition_part a, b;
  TSR_TRY(copy_part(s, p, &a, error));
  TSR_TRY(copy_part(s, p, &b, error));
  a.share = p->share / 2;
  b.share = p->share - a.share;
  TSR_TRY(set_cut(s, &a, &b, on, &best, error));
  TSR_TRY(share_items(s, p, &a, &b, on, &best, error));
  TSR_TRY(split_sparse(s, &a, error));
  return split_sparse(s, &b, error);
}

/* Begins with all tiles of the plan. A tile that the request selects only in part counts with all of its cells, since
 * it is not known how many of them the request selects. */
static int start_sparse(splitter *s, partition_part *p, tsr_error *error) {
  TSR_TRY(TSR_ARENA_ARRAY(&s->arena, s->plan.tile_count, &p->items, error));
  p->item_count = s->plan.tile_count;
  for (uint64_t i = 0; i < p->item_count; i++) {
    const tsr_plan_tile *tile = &s->plan.tiles[i];
    const tsr_fragment *fragment = s->snapshot->fragments[tile->fragment].fragment;
    p->items[i] = (partition_item){.tile = (uint32_t)i,
                                   .cells = (double)tsr__fragment_tile_cells(&fragment->metadata, tile->tile)};
  }
  return split_sparse(s, p, error);
}

/* ---- The request ------------------------------------------------------------------------------------------------- */

/* Finds the average stored size of each fragment's tiles. */
static int find_bytes(splitter *s, tsr_error *error) {
  uint64_t *memory;
  TSR_TRY(TSR_ARENA_ARRAY(&s->arena, s->snapshot->fragment_count, &memory, error));
  s->fragment_bytes = memory;
  for (uint64_t f = 0; f < s->snapshot->fragment_count; f++) {
    tsr_fragment_info info;
    if (s->snapshot->fragments[f].fragment->run.tiles) continue; /* an uncommitted fragment, in memory */
    TSR_TRY(tsr_fragment_describe(s->snapshot, f, &info, error));
    s->fragment_bytes[f] = info.tiles ? info.bytes / info.tiles : 0;
  }
  return TSR_OK;
}

static int partition_split(splitter *s, const tsr_ranges *dimensions, uint64_t count, tsr_error *error) {
  const tsr_schema *schema = s->snapshot->schema;
  partition_part all = {.share = TSR_MIN(count, SLICES_MAX)};
  if (count < 1) return tsr__fail(error, TSR_RANGE, "no slices: one or more are possible");
  s->dimensions = schema->dimension_count;
  TSR_TRY(TSR_ARENA_ARRAY(&s->arena, s->dimensions, &all.cuts, error));
  TSR_TRY(TSR_ARENA_ARRAY(&s->arena, s->dimensions, &s->order, error));
  for (uint32_t k = 0; k < s->dimensions; k++)
    s->order[k] = schema->tile_order == TSR_ORDER_COL ? s->dimensions - 1 - k : k;
  TSR_TRY(tsr__plan_make(s->snapshot, dimensions, &s->arena, &s->plan, error));
  if (s->plan.empty) return TSR_OK;
  TSR_TRY(find_bytes(s, error));
  return schema->dense ? start_dense(s, &all, error) : start_sparse(s, &all, error);
}

int tsr_partitions_open(tsr_snapshot *snapshot, const tsr_ranges *dimensions, uint64_t count,
                        tsr_partitions **partitions, tsr_error *error) {
  TSR_OWN_ERROR(error);
  partitions_result *made;
  TSR_TRY(TSR_ALLOC(&snapshot->array->memory, &made, error));
  splitter *s = &made->splitter;
  s->snapshot = snapshot;
  s->partitions = &made->base;
  tsr__snapshot_hold(snapshot);
  tsr__arena_init(&s->arena, &snapshot->array->memory);
  if (partition_split(s, dimensions, count, error) < 0) {
    tsr_partitions_close(&made->base);
    return tsr__wrap(error, "%s", snapshot->array->path);
  }
  *partitions = &made->base;
  return TSR_OK;
}

void tsr_partitions_close(tsr_partitions *partitions) {
  if (!partitions) return;
  partitions_result *made = (partitions_result *)(void *)partitions;
  tsr_snapshot *snapshot = made->splitter.snapshot;
  tsr__arena_release(&made->splitter.arena);
  tsr__free(made);
  tsr_snapshot_close(snapshot);
}
