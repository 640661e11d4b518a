/* domain.c: ranges of a dimension, and the geometry of dense arrays.
 *
 * Spans are the values that a query selects on one dimension. All functions maintain and rely on these invariants:
 *   - The spans are sorted and disjoint, and none is empty. Adjacent spans are joined where that is cheap to detect.
 *   - Keys lie between the datatype's least and greatest key, so no span of floats contains NaN. No span of floats
 *     begins or ends at the key just below that of 0.0, which belongs to no value.
 *   - The low bound of strings is inclusive; the high bound is inclusive, exclusive or open.
 *   - If `all` is set, every value is selected and there are no spans.
 *
 * A grid describes a dense array in ordinals. Each tile extent is at least 1 and their product is below 2^32, so the
 * position of a cell in its tile is a uint32. A tile is always stored with all its cells, even if it extends beyond the
 * domain.
 *
 * Order: making spans of ranges and intersecting them; comparing boxes with spans, for pruning; selecting cells by
 * spans; the grid; sets of boxes.
 */
#include "model/domain.h"

#include <inttypes.h>
#include <string.h>

#include "base/heap.h"
#include "model/datatype.h"
#include "base/arithmetic.h"

/* ---- Sorting --------------------------------------------------------------------------------- */

/* An in-place heap sort, because some C libraries' qsort allocates memory that no budget counts. after(unused, a, b) is
 * a strict order: true if *a belongs after *b. The top of the heap is the last item of the sorted list. */
#define DEFINE_SORT(name, type, after)                                                                                 \
  TSR_DEFINE_HEAP(name##_heap, void, type, after)                                                                      \
  static void name(type *items, uint64_t count) {                                                                      \
    uint64_t sorted = 1; /* most lists are already sorted */                                                           \
    while (sorted < count && !after(NULL, &items[sorted - 1], &items[sorted])) sorted++;                               \
    if (sorted >= count) return;                                                                                       \
    name##_heap_build(NULL, items, count);                                                                             \
    for (uint64_t end = count - 1; end > 0; end--) {                                                                   \
      const type last = items[end];                                                                                    \
      items[end] = items[0];                                                                                           \
      name##_heap_sink(NULL, items, end, 0, last);                                                                     \
    }                                                                                                                  \
  }

static bool span_after(const void *unused, const tsr_span *a, const tsr_span *b) {
  (void)unused;
  return a->low > b->low;
}
static bool text_after(const void *unused, const tsr_text_span *a, const tsr_text_span *b) {
  (void)unused;
  return tsr__bytes_compare(a->low, a->low_size, b->low, b->low_size) > 0;
}
DEFINE_SORT(sort_spans, tsr_span, span_after)
DEFINE_SORT(sort_texts, tsr_text_span, text_after)

/* ---- Spans of fixed-size values -------------------------------------------------------------- */

/* Set the low, or the high, bound of a span from a range. Return false if that bound makes the range empty. */
static bool make_low(const tsr_field *field, const tsr_range *range, tsr_span *span) {
  span->low = tsr__key_min(field->datatype);
  if (!range->low) return true;
  uint64_t key = tsr__key(field->datatype, range->low), max = tsr__key_max(field->datatype);
  if (key > max || (range->low_exclusive && key == max)) return false; /* NaN, or no value lies above the bound */
  span->low = key + range->low_exclusive;
  return true;
}

static bool make_high(const tsr_field *field, const tsr_range *range, tsr_span *span) {
  span->high = tsr__key_max(field->datatype);
  if (!range->high) return true;
  uint64_t key = tsr__key(field->datatype, range->high), min = tsr__key_min(field->datatype);
  if (key > span->high || (range->high_exclusive && key == min)) return false;
  span->high = key - range->high_exclusive;
  return true;
}

/* Moves a bound of floats away from the key just below that of 0.0. As a float that bound would be -0.0, which equals
 * 0.0, so 0.0 would be selected wrongly. */
static void avoid_key_of_minus_zero(tsr_datatype datatype, tsr_span *span) {
  const uint8_t zero[8] = {0};
  uint64_t hole = tsr__key(datatype, zero) - 1;
  if (span->low == hole) span->low++;
  if (span->high == hole) span->high--;
}

static int make_fixed(const tsr_field *field, const tsr_ranges *ranges, tsr_arena *arena, tsr_spans *spans,
                      tsr_error *error) {
  tsr_span *list;
  TSR_TRY(TSR_ARENA_ARRAY(arena, ranges->count, &list, error));
  uint64_t count = 0, merged = 0;
  for (uint64_t i = 0; i < ranges->count; i++) {
    tsr_span span;
    if (!make_low(field, &ranges->ranges[i], &span) || !make_high(field, &ranges->ranges[i], &span)) continue;
    if (spans->floats) avoid_key_of_minus_zero(field->datatype, &span);
    if (span.low <= span.high) list[count++] = span;
  }
  sort_spans(list, count);
  for (uint64_t i = 0; i < count; i++) {
    tsr_span *last = merged ? &list[merged - 1] : NULL;
    if (last && (list[i].low <= last->high || list[i].low - last->high == 1)) {
      last->high = TSR_MAX(last->high, list[i].high);
    } else {
      list[merged++] = list[i];
    }
  }
  spans->spans = list;
  spans->count = merged;
  return TSR_OK;
}

/* ---- Spans of strings ------------------------------------------------------------------------ */

static int compare_low(const tsr_text_span *span, const uint8_t *value, uint64_t size) {
  return tsr__bytes_compare(span->low, span->low_size, value, size);
}

/* Returns true unless the value lies above the span. */
static bool text_span_reaches(const tsr_text_span *span, const uint8_t *value, uint64_t size) {
  if (span->high_open) return true;
  int c = tsr__bytes_compare(value, size, span->high, span->high_size);
  return span->high_exclusive ? c < 0 : c <= 0;
}

/* Returns true if `next`, whose low bound is not below that of `span`, overlaps `span` or begins right after it. The
 * successor of a string v is v with a NUL byte appended. */
static bool adjoins(const tsr_text_span *span, const tsr_text_span *next) {
  if (text_span_reaches(span, next->low, next->low_size)) return true;
  uint64_t size = span->high_size + !span->high_exclusive;
  return next->low_size == size && memcmp(next->low, span->high, span->high_size) == 0 &&
         (span->high_exclusive || next->low[size - 1] == 0);
}

static bool ends_before(const tsr_text_span *a, const tsr_text_span *b) {
  if (a->high_open || b->high_open) return !a->high_open;
  int c = tsr__bytes_compare(a->high, a->high_size, b->high, b->high_size);
  return c ? c < 0 : a->high_exclusive && !b->high_exclusive;
}

static int make_texts(const tsr_ranges *ranges, tsr_arena *arena, tsr_spans *spans, tsr_error *error) {
  tsr_text_span *list;
  TSR_TRY(TSR_ARENA_ARRAY(arena, ranges->count, &list, error));
  uint64_t count = 0, merged = 0;
  for (uint64_t i = 0; i < ranges->count; i++) {
    const tsr_range *range = &ranges->ranges[i];
    tsr_text_span span = {.high_open = !range->high, .high_exclusive = range->high && range->high_exclusive};
    TSR_TRY(TSR_ARENA_COPY(arena, range->low, range->low ? range->low_size : 0, &span.low,
                           error)); /* including the NUL byte after the copy: with it, the least string above low */
    span.low_size = range->low ? range->low_size + range->low_exclusive : 0;
    if (range->high) {
      TSR_TRY(TSR_ARENA_COPY(arena, range->high, range->high_size, &span.high, error));
      span.high_size = range->high_size;
    }
    if (text_span_reaches(&span, span.low, span.low_size)) list[count++] = span;
  }
  sort_texts(list, count);
  for (uint64_t i = 0; i < count; i++) {
    tsr_text_span *last = merged ? &list[merged - 1] : NULL;
    if (!last || !adjoins(last, &list[i])) {
      list[merged++] = list[i];
    } else if (ends_before(last, &list[i])) {
      last->high = list[i].high;
      last->high_size = list[i].high_size;
      last->high_open = list[i].high_open;
      last->high_exclusive = list[i].high_exclusive;
    }
  }
  spans->texts = list;
  spans->count = merged;
  return TSR_OK;
}

/* Makes the spans of a union of ranges. */
static int make_union(const tsr_field *field, const tsr_ranges *ranges, tsr_arena *arena, tsr_spans *spans,
                      tsr_error *error) {
  tsr_spans made = {.text = field->values_per_cell == TSR_VARIABLE,
                    .floats = tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT,
                    .all = ranges->all};
  for (uint64_t i = 0; i < ranges->count && !made.all; i++)
    made.all = !ranges->ranges[i].low && !ranges->ranges[i].high;
  if (!made.all) {
    if (made.text) TSR_TRY(make_texts(ranges, arena, &made, error));
    else TSR_TRY(make_fixed(field, ranges, arena, &made, error));
  }
  *spans = made;
  return TSR_OK;
}

/* ---- Intersections --------------------------------------------------------------------------- */

static uint64_t intersect_fixed(const tsr_spans *a, const tsr_spans *b, tsr_span *out) {
  uint64_t n = 0;
  for (uint64_t i = 0, j = 0; i < a->count && j < b->count;) {
    uint64_t low = TSR_MAX(a->spans[i].low, b->spans[j].low), high = TSR_MIN(a->spans[i].high, b->spans[j].high);
    if (low <= high) out[n++] = (tsr_span){low, high};
    if (a->spans[i].high < b->spans[j].high) i++;
    else j++;
  }
  return n;
}

static uint64_t intersect_text(const tsr_spans *a, const tsr_spans *b, tsr_text_span *out) {
  uint64_t n = 0;
  for (uint64_t i = 0, j = 0; i < a->count && j < b->count;) {
    const tsr_text_span *x = &a->texts[i], *y = &b->texts[j];
    bool x_first = ends_before(x, y);
    tsr_text_span both = x_first ? *x : *y; /* ends like the span that ends first; its low bound may be raised below */
    const tsr_text_span *later = tsr__bytes_compare(x->low, x->low_size, y->low, y->low_size) < 0 ? y : x;
    both.low = later->low;
    both.low_size = later->low_size;
    if (text_span_reaches(&both, both.low, both.low_size)) out[n++] = both;
    if (x_first) i++;
    else j++;
  }
  return n;
}

/* Intersects `spans` with `others`. */
static int intersect(tsr_spans *spans, const tsr_spans *others, tsr_arena *arena, tsr_error *error) {
  if (others->all) return TSR_OK;
  if (spans->all) {
    *spans = *others;
    return TSR_OK;
  }
  const uint64_t most =
      tsr__add_sat(spans->count, others->count); /* each span of the result ends where an input span ends */
  if (spans->text) {
    tsr_text_span *made;
    TSR_TRY(TSR_ARENA_ARRAY(arena, most, &made, error));
    spans->count = intersect_text(spans, others, made);
    spans->texts = made;
  } else {
    tsr_span *made;
    TSR_TRY(TSR_ARENA_ARRAY(arena, most, &made, error));
    spans->count = intersect_fixed(spans, others, made);
    spans->spans = made;
  }
  return TSR_OK;
}

int tsr__spans_make(const tsr_field *field, const tsr_ranges *ranges, tsr_arena *arena, tsr_spans *spans,
                    tsr_error *error) {
  tsr_spans made, other;
  TSR_TRY(make_union(field, ranges, arena, &made, error));
  for (const tsr_ranges *also = ranges->also; also; also = also->also) {
    TSR_TRY(make_union(field, also, arena, &other, error));
    TSR_TRY(intersect(&made, &other, arena, error));
  }
  *spans = made;
  return TSR_OK;
}

int tsr__spans_clip(const tsr_field *field, const tsr_spans *spans, uint64_t low, uint64_t high, tsr_arena *arena,
                    tsr_spans *out, tsr_error *error) {
  tsr_span *memory;
  tsr_span range = {TSR_MAX(low, tsr__key_min(field->datatype)), TSR_MIN(high, tsr__key_max(field->datatype))};
  TSR_TRY(TSR_ARENA_ARRAY(arena, 1, &memory, error));
  *out = (tsr_spans){.floats = tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT, .spans = memory};
  if (out->floats && range.low <= range.high) avoid_key_of_minus_zero(field->datatype, &range);
  out->spans[0] = range;
  out->count = range.low <= range.high;
  return intersect(out, spans, arena, error);
}

int tsr__spans_clip_text(const tsr_field *field, const tsr_spans *spans, const tsr_range *range, tsr_arena *arena,
                         tsr_spans *out, tsr_error *error) {
  const tsr_ranges ranges = {.ranges = range, .count = 1};
  TSR_TRY(make_union(field, &ranges, arena, out, error));
  return intersect(out, spans, arena, error);
}

/* ---- Comparing boxes with spans -------------------------------------------------------------- */

/* Lower bound: the index of the first span that ends at or above `key`, or `count` if there is none. */
static inline uint64_t find_span(const tsr_span *spans, uint64_t count, uint64_t key) {
  uint64_t low = 0, high = count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (spans[middle].high < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

static uint64_t find_text(const tsr_spans *spans, const uint8_t *value, uint64_t size) {
  uint64_t low = 0, high = spans->count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (text_span_reaches(&spans->texts[middle], value, size)) high = middle;
    else low = middle + 1;
  }
  return low;
}

tsr_relation tsr__spans_relate(const tsr_spans *spans, uint64_t low, uint64_t high) {
  if (spans->all) return TSR_INSIDE;
  if (spans->nans) return TSR_OVERLAP;
  if (spans->count == 0) return TSR_OUTSIDE;
  if (low > high || (spans->floats && high == TSR_KEY_NAN)) return TSR_OVERLAP;
  uint64_t i = find_span(spans->spans, spans->count, low);
  if (i == spans->count || spans->spans[i].low > high) return TSR_OUTSIDE;
  bool inside = spans->spans[i].low <= low && high <= spans->spans[i].high;
  return inside && !spans->floats ? TSR_INSIDE : TSR_OVERLAP;
}

tsr_relation tsr__spans_relate_text(const tsr_spans *spans, const uint8_t *low, uint64_t low_size, const uint8_t *high,
                                    uint64_t high_size) {
  if (spans->all) return TSR_INSIDE;
  if (spans->count == 0) return TSR_OUTSIDE;
  if (tsr__bytes_compare(low, low_size, high, high_size) > 0) return TSR_OVERLAP;
  uint64_t i = find_text(spans, low, low_size);
  if (i == spans->count || compare_low(&spans->texts[i], high, high_size) > 0) return TSR_OUTSIDE;
  bool inside =
      compare_low(&spans->texts[i], low, low_size) <= 0 && text_span_reaches(&spans->texts[i], high, high_size);
  return inside ? TSR_INSIDE : TSR_OVERLAP;
}

bool tsr__spans_contain_text(const tsr_spans *spans, const uint8_t *value, uint64_t size) {
  if (spans->all) return true;
  uint64_t i = find_text(spans, value, size);
  return i < spans->count && compare_low(&spans->texts[i], value, size) <= 0;
}

/* ---- Selecting cells by spans ---------------------------------------------------------------- */

uint64_t tsr__select_all(const uint32_t *selection, uint64_t count, uint32_t *out) {
  if (selection && selection != out) memmove(out, selection, count * sizeof *out);
  for (uint64_t i = 0; !selection && i < count; i++) out[i] = (uint32_t)i;
  return count;
}

#define DOMAIN_BLOCK 64

/* Returns true if one of the block's 64-bit integers lies between low and low + width. The loop uses only operations
 * that compilers vectorize on every machine. If the top bit of `width` is clear, the top bit of `beyond` is set exactly
 * for the integers outside the interval. If it is set, the function tests for integers outside the complement
 * instead. */
static bool any_within(uint64_t low, uint64_t width, const uint8_t *values) {
  uint64_t none = UINT64_MAX, flip = 0;
  if (width == UINT64_MAX) return true;
  if (width >> 63) {
    low += width + 1;
    width = UINT64_MAX - 1 - width;
    flip = UINT64_MAX;
  }
  for (unsigned i = 0; i < DOMAIN_BLOCK; i++) {
    const uint64_t distance = tsr__load64(values + 8 * i) - low, beyond = distance | (width - distance);
    none &= beyond ^ flip;
  }
  return !(none >> 63);
}

#define IS_WHOLE64(type) (sizeof(type) == 8 && (type)0.5 == 0)

/* Select by one span. Values are compared in their own type, in which NaN fails every comparison and -0.0 equals 0.0.
 * Most spans are narrow, so a vectorized loop first skips the blocks without a selected value. */
#define DEFINE_SELECT(name, type)                                                                                      \
  static bool any_##name(type low, type high, const uint8_t *values) {                                                 \
    type value;                                                                                                        \
    unsigned any = 0;                                                                                                  \
    uint64_t from = 0, to = 0;                                                                                         \
    memcpy(&from, &low, sizeof low);                                                                                   \
    memcpy(&to, &high, sizeof high);                                                                                   \
    if (IS_WHOLE64(type)) return any_within(from, to - from, values);                                                  \
    for (unsigned i = 0; i < DOMAIN_BLOCK; i++) {                                                                      \
      memcpy(&value, values + i * sizeof value, sizeof value);                                                         \
      any |= (value >= low) & (value <= high);                                                                         \
    }                                                                                                                  \
    return any != 0;                                                                                                   \
  }                                                                                                                    \
                                                                                                                       \
  static uint64_t select_##name(type low, type high, const uint8_t *values, const uint32_t *selection, uint64_t count, \
                                uint32_t *out) {                                                                       \
    uint64_t kept = 0;                                                                                                 \
    type value;                                                                                                        \
    if (selection) {                                                                                                   \
      for (uint64_t i = 0; i < count; i++) {                                                                           \
        uint32_t cell = selection[i];                                                                                  \
        memcpy(&value, values + cell * sizeof value, sizeof value);                                                    \
        out[kept] = cell;                                                                                              \
        kept += (value >= low) & (value <= high);                                                                      \
      }                                                                                                                \
    }                                                                                                                  \
    for (uint64_t first = 0; !selection && first < count; first += DOMAIN_BLOCK) {                                     \
      uint64_t end = TSR_MIN(first + DOMAIN_BLOCK, count);                                                             \
      const uint8_t *block = values + first * sizeof value;                                                            \
      if (end - first == DOMAIN_BLOCK && !any_##name(low, high, block)) continue;                                      \
      for (uint64_t i = first; i < end; i++) {                                                                         \
        memcpy(&value, values + i * sizeof value, sizeof value);                                                       \
        out[kept] = (uint32_t)i;                                                                                       \
        kept += (value >= low) & (value <= high);                                                                      \
      }                                                                                                                \
    }                                                                                                                  \
    return kept;                                                                                                       \
  }
TSR_PHYSICAL_TYPES(DEFINE_SELECT)

/* Clears mask[i] for the cells of a block that the interval from `low` to `high` does not contain. Returns false if all
 * are cleared. */
#define DEFINE_MASK(name, type)                                                                                        \
  static bool mask_##name(const uint8_t *bounds, const uint8_t *restrict values, uint64_t count,                       \
                          uint8_t *restrict mask) {                                                                    \
    type low, high, value;                                                                                             \
    uint8_t any = 0;                                                                                                   \
    memcpy(&low, bounds, sizeof low);                                                                                  \
    memcpy(&high, bounds + 8, sizeof high);                                                                            \
    if (count == DOMAIN_BLOCK) {                                                                                       \
      for (unsigned i = 0; i < DOMAIN_BLOCK; i++) {                                                                    \
        memcpy(&value, values + i * sizeof value, sizeof value);                                                       \
        mask[i] &= (uint8_t)((value >= low) & (value <= high));                                                        \
      }                                                                                                                \
      for (unsigned i = 0; i < DOMAIN_BLOCK; i++) any |= mask[i];                                                      \
      return any != 0;                                                                                                 \
    }                                                                                                                  \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      memcpy(&value, values + i * sizeof value, sizeof value);                                                         \
      any |= mask[i] &= (uint8_t)((value >= low) & (value <= high));                                                   \
    }                                                                                                                  \
    return any != 0;                                                                                                   \
  }
TSR_PHYSICAL_TYPES(DEFINE_MASK)

typedef bool (*mask_function)(const uint8_t *bounds, const uint8_t *restrict values, uint64_t count,
                              uint8_t *restrict mask);

static mask_function mask_of(tsr_datatype datatype) {
  switch (tsr__datatype_physical(datatype)) {
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name: return mask_##name;
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
  return NULL;
}

bool tsr__spans_are_one(const tsr_spans *spans) {
  return !spans->all && !spans->nans && !spans->text && spans->count == 1;
}

uint64_t tsr__select_joint(const tsr_select_column *columns, uint32_t count, uint64_t cells, uint32_t *out) {
  uint64_t kept = 0, sizes[TSR_JOINT_MAX];
  uint8_t bounds[TSR_JOINT_MAX][16], mask[DOMAIN_BLOCK];
  mask_function masks[TSR_JOINT_MAX];
  for (uint32_t c = 0; c < count; c++) {
    const tsr_span *span = &columns[c].spans->spans[0];
    masks[c] = mask_of(columns[c].datatype);
    sizes[c] = tsr_datatype_size(columns[c].datatype);
    tsr__key_value(columns[c].datatype, span->low, bounds[c]);
    tsr__key_value(columns[c].datatype, span->high, bounds[c] + 8);
  }
  for (uint64_t first = 0; first < cells; first += DOMAIN_BLOCK) {
    const uint64_t n = TSR_MIN(cells - first, DOMAIN_BLOCK);
    uint32_t c = 0;
    memset(mask, 1, sizeof mask);
    while (c < count && masks[c](bounds[c], (const uint8_t *)columns[c].values + first * sizes[c], n, mask)) c++;
    for (uint64_t i = 0; i < n && c == count; i++) {
      out[kept] = (uint32_t)(first + i);
      kept += mask[i];
    }
  }
  return kept;
}

/* Selects by several spans: computes the keys of a block of cells and looks up each. */
static uint64_t select_several(const tsr_spans *spans, tsr_datatype datatype, const uint8_t *values,
                               const uint32_t *selection, uint64_t count, uint32_t *out) {
  uint64_t size = tsr_datatype_size(datatype), kept = 0, keys[DOMAIN_BLOCK];
  uint8_t gathered[DOMAIN_BLOCK * 8];
  for (uint64_t first = 0; first < count; first += DOMAIN_BLOCK) {
    uint64_t n = TSR_MIN(count - first, DOMAIN_BLOCK);
    const uint8_t *block = values + first * size;
    if (selection) {
      for (uint64_t i = 0; i < n; i++) memcpy(gathered + i * size, values + selection[first + i] * size, size);
      block = gathered;
    }
    tsr__keys(datatype, block, n, keys);
    for (uint64_t i = 0; i < n; i++) {
      uint64_t at = find_span(spans->spans, spans->count, keys[i]);
      out[kept] = selection ? selection[first + i] : (uint32_t)(first + i);
      kept += at < spans->count && spans->spans[at].low <= keys[i];
    }
  }
  return kept;
}

static uint64_t select_nans(tsr_datatype datatype, const uint8_t *values, const uint32_t *selection, uint64_t count,
                            uint32_t *out) {
  const uint64_t size = tsr_datatype_size(datatype);
  uint64_t kept = 0;
  for (uint64_t i = 0; i < count; i++) {
    const uint32_t cell = selection ? selection[i] : (uint32_t)i;
    out[kept] = cell;
    kept += tsr__key(datatype, values + cell * size) == TSR_KEY_NAN;
  }
  return kept;
}

uint64_t tsr__spans_select(const tsr_spans *spans, tsr_datatype datatype, const void *values, const uint32_t *selection,
                           uint64_t count, uint32_t *out) {
  if (spans->all) return tsr__select_all(selection, count, out);
  if (spans->nans) return select_nans(datatype, values, selection, count, out);
  if (spans->count == 0) return 0;
  if (spans->count > 1) return select_several(spans, datatype, values, selection, count, out);
  switch (tsr__datatype_physical(datatype)) {
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name: {                                                                                          \
    type low, high;                                                                                                    \
    tsr__key_value(datatype, spans->spans[0].low, &low);                                                               \
    tsr__key_value(datatype, spans->spans[0].high, &high);                                                             \
    return select_##name(low, high, values, selection, count, out);                                                    \
  }
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
  return 0;
}

/* Selects the cells that equal one string, as for WHERE name = 'x'. Compares the sizes first. */
static uint64_t select_equal(const tsr_text_span *span, const uint8_t *values, const uint64_t *offsets,
                             const uint32_t *selection, uint64_t count, uint32_t *out) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint32_t cell = selection ? selection[i] : (uint32_t)i;
    uint64_t at = offsets[cell], size = offsets[cell + UINT64_C(1)] - at;
    out[kept] = cell;
    kept += size == span->low_size && (size == 0 || memcmp(values + at, span->low, size) == 0);
  }
  return kept;
}

uint64_t tsr__spans_select_text(const tsr_spans *spans, const uint8_t *values, const uint64_t *offsets,
                                const uint32_t *selection, uint64_t count, uint32_t *out) {
  if (spans->all) return tsr__select_all(selection, count, out);
  if (spans->count == 0) return 0;
  const tsr_text_span *first = &spans->texts[0];
  if (spans->count == 1 && !first->high_open && !first->high_exclusive &&
      compare_low(first, first->high, first->high_size) == 0)
    return select_equal(first, values, offsets, selection, count, out);
  uint64_t kept = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint32_t cell = selection ? selection[i] : (uint32_t)i;
    uint64_t at = offsets[cell];
    out[kept] = cell;
    kept += tsr__spans_contain_text(spans, values + at, offsets[cell + UINT64_C(1)] - at);
  }
  return kept;
}

/* ---- Dense geometry -------------------------------------------------------------------------- */

static int grid_make_dimension(const tsr_field *dimension, tsr_grid *grid, uint32_t d, tsr_error *error) {
  tsr_datatype datatype = dimension->datatype;
  tsr_kind kind = tsr_datatype_kind(datatype);
  if (kind == TSR_KIND_FLOAT || kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES || kind == TSR_KIND_BOOLEAN)
    return tsr__fail(error, TSR_CORRUPT, "a dense array cannot have the datatype %s", tsr_datatype_name(datatype));
  if (!dimension->has_domain) return tsr__fail(error, TSR_CORRUPT, "a dense array needs a domain");
  uint64_t low = tsr__key(datatype, dimension->low), high = tsr__key(datatype, dimension->high);
  if (low > high) return tsr__fail(error, TSR_CORRUPT, "the domain's low end is above its high end");
  grid->low_key[d] = low;
  grid->last[d] = high - low;
  if (!dimension->has_extent) {
    if (!tsr__add(high - low, 1, &grid->extent[d]))
      return tsr__fail(error, TSR_UNSUPPORTED, "a tile as large as the domain of 2^64 cells");
    return TSR_OK;
  }
  grid->extent[d] = tsr__extent(dimension);
  return grid->extent[d] ? TSR_OK : tsr__fail(error, TSR_CORRUPT, "the tile extent is not positive");
}

int tsr__grid_make(const tsr_schema *schema, tsr_arena *arena, tsr_grid *grid, tsr_error *error) {
  uint32_t n = schema->dimension_count;
  if (n == 0 || n > TSR_MAX_DIMENSIONS)
    return tsr__fail(error, TSR_CORRUPT, "a dense array cannot have %" PRIu32 " dimensions", n);
  tsr_grid made = {.dimensions = n,
                   .col_major_cells = schema->cell_order == TSR_ORDER_COL,
                   .col_major_tiles = schema->tile_order == TSR_ORDER_COL,
                   .tile_cells = 1};
  TSR_TRY(TSR_ARENA_ARRAY(arena, 3 * (uint64_t)n, &made.last, error));
  made.extent = made.last + n;
  made.low_key = made.extent + n;
  bool fits = true;
  for (uint32_t d = 0; d < n; d++) {
    if (grid_make_dimension(&schema->fields[d], &made, d, error) < 0)
      return tsr__wrap(error, "dimension '%s'", schema->fields[d].name);
    fits = fits && tsr__mul(made.tile_cells, made.extent[d], &made.tile_cells);
  }
  if (!fits) return tsr__fail(error, TSR_UNSUPPORTED, "tiles of more than %" PRIu64 " cells", UINT64_MAX);
  if (made.tile_cells > UINT32_MAX)
    return tsr__fail(error, TSR_UNSUPPORTED, "tiles of %" PRIu64 " cells; no more than %" PRIu32 " can be read",
                     made.tile_cells, UINT32_MAX);
  *grid = made;
  return TSR_OK;
}

uint64_t tsr__grid_cell(const tsr_grid *grid, const uint64_t *ordinals) {
  uint64_t cell = 0;
  for (uint32_t i = 0; i < grid->dimensions; i++) {
    uint32_t d = grid->col_major_cells ? grid->dimensions - 1 - i : i;
    cell = cell * grid->extent[d] + ordinals[d] % grid->extent[d];
  }
  return cell;
}

/* ---- Sets of boxes ---------------------------------------------------------------------------
 *
 * A box that is added or removed is cut along the boxes of the set, one dimension after the other, so that the boxes
 * stay disjoint. Two boxes that differ in only one dimension, and touch there, are joined.
 */

static uint64_t *box_at(const tsr_box_set *set, uint64_t i) {
  return (uint64_t *)(void *)set->ends.data + i * 2 * set->dimensions;
}

static void remove_box(tsr_box_set *set, uint64_t i) {
  uint64_t size = 2 * sizeof(uint64_t) * set->dimensions, last = tsr__box_set_count(set) - 1;
  if (i < last) memcpy(box_at(set, i), box_at(set, last), size);
  set->ends.size -= size;
}

/* If the union of both boxes is a box, makes `a` that box and returns true. */
static bool domain_boxes_join(uint32_t n, uint64_t *a, const uint64_t *b) {
  uint32_t differ = n;
  for (uint32_t d = 0; d < n; d++) {
    if (a[2 * d] == b[2 * d] && a[2 * d + 1] == b[2 * d + 1]) continue;
    if (differ < n) return false;
    differ = d;
  }
  if (differ == n) return true;
  uint64_t *x = a + 2 * differ;
  const uint64_t *y = b + 2 * differ;
  if (x[0] > y[0] ? x[0] - 1 != y[1] : y[0] == 0 || y[0] - 1 != x[1]) return false;
  x[0] = TSR_MIN(x[0], y[0]);
  x[1] = TSR_MAX(x[1], y[1]);
  return true;
}

/* Adds a box that overlaps no box of the set, after joining it with boxes of the set where the union is a box. */
static int put_box(tsr_box_set *set, uint64_t *box, tsr_error *error) {
  for (uint64_t i = 0; i < tsr__box_set_count(set);) {
    if (domain_boxes_join(set->dimensions, box, box_at(set, i))) {
      remove_box(set, i);
      i = 0;
    } else {
      i++;
    }
  }
  return tsr__buffer_append(&set->ends, box, 2 * sizeof(uint64_t) * set->dimensions, error);
}

static bool domain_boxes_meet(uint32_t n, const uint64_t *a, const uint64_t *b) {
  for (uint32_t d = 0; d < n; d++)
    if (a[2 * d] > b[2 * d + 1] || b[2 * d] > a[2 * d + 1]) return false;
  return true;
}

/* Replaces box number `i` of the set by those parts of it that lie outside `box`. The parts are appended to the set. */
static int domain_boxes_cut(tsr_box_set *parts, uint64_t i, const uint64_t *box, uint64_t *scratch, tsr_error *error) {
  uint32_t n = parts->dimensions;
  uint64_t size = 2 * sizeof(uint64_t) * n, *rest = scratch, *part = scratch + 2 * n;
  memcpy(rest, box_at(parts, i), size);
  remove_box(parts, i);
  for (uint32_t d = 0; d < n; d++) {
    uint64_t low = box[2 * d], high = box[2 * d + 1];
    if (rest[2 * d] < low) {
      memcpy(part, rest, size);
      part[2 * d + 1] = low - 1;
      TSR_TRY(tsr__buffer_append(&parts->ends, part, size, error));
      rest[2 * d] = low;
    }
    if (rest[2 * d + 1] > high) {
      memcpy(part, rest, size);
      part[2 * d] = high + 1;
      TSR_TRY(tsr__buffer_append(&parts->ends, part, size, error));
      rest[2 * d + 1] = high;
    }
  }
  return TSR_OK;
}

static int box_set_add_parts(tsr_box_set *set, tsr_box_set *parts, uint64_t *scratch, tsr_error *error) {
  uint32_t n = set->dimensions;
  for (uint64_t b = 0; b < tsr__box_set_count(set); b++)
    for (uint64_t i = 0; i < tsr__box_set_count(parts);) {
      if (domain_boxes_meet(n, box_at(parts, i), box_at(set, b)))
        TSR_TRY(domain_boxes_cut(parts, i, box_at(set, b), scratch, error));
      else i++;
    }
  for (uint64_t i = 0; i < tsr__box_set_count(parts); i++) TSR_TRY(put_box(set, box_at(parts, i), error));
  return TSR_OK;
}

int tsr__box_set_add(tsr_box_set *set, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  tsr_box_set parts = {.dimensions = set->dimensions, .ends.memory = set->ends.memory};
  uint64_t *scratch;
  TSR_TRY(TSR_ALLOC_ARRAY(set->ends.memory, 4 * (uint64_t)set->dimensions, &scratch, error));
  int rc = TSR_OK;
  for (uint32_t d = 0; d < set->dimensions && rc >= 0; d++) {
    rc = tsr__buffer_append_u64(&parts.ends, low[d], error);
    if (rc >= 0) rc = tsr__buffer_append_u64(&parts.ends, high[d], error);
  }
  if (rc >= 0) rc = box_set_add_parts(set, &parts, scratch, error);
  tsr__buffer_release(&parts.ends);
  tsr__free(scratch);
  return rc;
}

int tsr__box_set_cut(tsr_box_set *set, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  const uint32_t n = set->dimensions;
  bool found = false;
  uint64_t *memory;
  TSR_TRY(TSR_ALLOC_ARRAY(set->ends.memory, 6 * (uint64_t)n, &memory, error));
  uint64_t *box = memory, *scratch = box + 2 * n;
  int rc = TSR_OK;
  for (uint32_t d = 0; d < n; d++) {
    box[2 * d] = low[d];
    box[2 * d + 1] = high[d];
  }
  for (uint64_t i = 0; i < tsr__box_set_count(set) && rc >= 0;) {
    const bool meets = domain_boxes_meet(n, box_at(set, i), box);
    if (meets) rc = domain_boxes_cut(set, i, box, scratch, error); /* appends the parts of box i that lie outside */
    else i++;
    found |= meets;
  }
  tsr__free(memory);
  return rc < 0 ? rc : found;
}

uint64_t tsr__box_set_cells(const tsr_box_set *set) {
  uint64_t cells = 0;
  for (uint64_t i = 0; i < tsr__box_set_count(set); i++) {
    uint64_t one = 1;
    for (uint32_t d = 0; d < set->dimensions; d++)
      one = tsr__mul_sat(one, tsr__add_sat(box_at(set, i)[2 * d + 1] - box_at(set, i)[2 * d], 1));
    cells = tsr__add_sat(cells, one);
  }
  return cells;
}
