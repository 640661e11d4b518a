/* statistics.c: checks minima, maxima, sums and null counts of tiles against their cells, and those of a fragment
 * against its tiles.
 *
 * TileDB writes wrong statistics in known cases (errata.md, "Statistics"). These cases are skipped, since TileDB's own
 * arrays would otherwise be reported as damaged:
 * - Text: TileDB compares CHAR and ASCII only up to a NUL, and below version 18 beyond the end of the value. Values
 *   with a NUL, and these versions, are not checked.
 * - Dense arrays: variable text is not checked, and nullable text not below version 21.
 * - NaN among the cells: minimum and maximum depend on its position and are not checked.
 * - Sums are checked only if no partial sum can have saturated at the limits of 64 bits or of doubles.
 * - Dense tiles that reach beyond the written box: the statistics may be those of the written cells, or of all cells
 *   with the padding. Below version 16 minimum and maximum need only include all written cells.
 * - Lossy filters: the statistics are those of the values before filtering, and are not checked.
 */
#include "check/check.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "model/datatype.h"
#include "filter/pipeline.h"
#include "format/fragment_metadata.h"
#include "format/schema.h"
#include "format/layout.h"

typedef enum statistics_kind { KIND_NONE, KIND_NUMBER, KIND_TEXT } statistics_kind;

typedef struct tile_measures { /* the true statistics of a tile's cells that are not null */
  uint64_t cells, nulls; /* cells that are not null, and that are */
  bool nan; /* some cell is NaN */
  uint8_t min[8], max[8]; /* numbers */
  tsr_check_bound min_text, max_text; /* text */
  bool nul; /* some text contains a NUL byte */
  tsr_wide sum; /* integers, CHAR */
  double float_sum;
  double magnitude; /* of floats: the sum of absolute values */
} tile_measures;

struct tsr_check_summary { /* statistics of several tiles, merged as TileDB merges them */
  uint64_t tiles, null_count;
  bool any; /* some tile has a cell that is not null */
  bool unknown; /* minimum and maximum are unknowable */
  uint8_t min[8], max[8]; /* numbers */
  tsr_check_bound min_text, max_text; /* text */
  bool summed; /* a sum was added */
  bool overflowed; /* the sum has overflowed 64 bits */
  int64_t signed_sum;
  uint64_t unsigned_sum;
  double float_sum, magnitude;
};

typedef struct statistics_field {
  statistics_kind kind;
  tsr_datatype datatype;
  uint64_t size; /* bytes of a cell; 0: variable */
  bool nullable, has_sum;
} statistics_field;

/* Determines which statistics of a slot can be checked; KIND_NONE: none. */
static statistics_field field_of(const tsr_fragment_check *f, uint32_t slot) {
  tsr_system_column system_column = TSR_SLOT_COORDS;
  int64_t number = tsr__fragment_slot_field(&f->metadata, slot, &system_column);
  if (number < 0 && system_column == TSR_SLOT_COORDS) return (statistics_field){0};
  if (number < 0) return (statistics_field){KIND_NUMBER, TSR_UINT64, 8, false, true};
  const tsr_field *field = &f->metadata.schema->fields[number];
  if (field->is_dimension || tsr__pipeline_is_lossy(tsr__schema_pipeline(f->metadata.schema, (uint32_t)number)))
    return (statistics_field){0};
  statistics_field made = {.datatype = field->datatype, .size = field->cell_size, .nullable = field->nullable};
  if (field->datatype == TSR_CHAR || field->datatype == TSR_ASCII) {
    made.kind = KIND_TEXT;
    made.has_sum = field->datatype == TSR_CHAR && made.size == 1;
    if (!layout_has_string_statistics(f->metadata.version)) made.kind = KIND_NONE;
    if (f->metadata.dense &&
        (made.size == 0 || (made.nullable && !layout_has_nullable_string_statistics(f->metadata.version))))
      made.kind = KIND_NONE;
    return made;
  }
  tsr_kind kind = tsr_datatype_kind(field->datatype);
  made.has_sum = field->values_per_cell == 1 && kind != TSR_KIND_TEXT && kind != TSR_KIND_BYTES;
  made.kind = made.has_sum ? KIND_NUMBER : KIND_NONE;
  return made;
}

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

/* Minimum and maximum start as in TileDB, at the greatest and least finite values. So if all cells are +infinity, the
 * minimum is the greatest finite value. */
#define DEFINE_MEASURE(name, type, greatest, smallest, ADD)                                                            \
  static void measure_##name(const tsr_tile *tile, const uint8_t *mask, tile_measures *out) {                          \
    type min = greatest, max = smallest;                                                                               \
    for (uint64_t i = 0; i < tile->cells; i++) {                                                                       \
      type v;                                                                                                          \
      if (mask && !mask[i]) continue;                                                                                  \
      if (tile->validity && !tile->validity[i]) {                                                                      \
        out->nulls++;                                                                                                  \
        continue;                                                                                                      \
      }                                                                                                                \
      memcpy(&v, tile->values + i * sizeof v, sizeof v);                                                               \
      out->cells++;                                                                                                    \
      min = v < min ? v : min;                                                                                         \
      max = v > max ? v : max;                                                                                         \
      ADD;                                                                                                             \
    }                                                                                                                  \
    memcpy(out->min, &min, sizeof min);                                                                                \
    memcpy(out->max, &max, sizeof max);                                                                                \
  }
#define ADD_INTEGER out->sum += v
#define ADD_FLOAT                                                                                                      \
  do {                                                                                                                 \
    out->nan = out->nan || v != v;                                                                                     \
    out->float_sum += (double)v;                                                                                       \
    out->magnitude += fabs((double)v);                                                                                 \
  } while (0)
DEFINE_MEASURE(I8, int8_t, INT8_MAX, INT8_MIN, ADD_INTEGER)
DEFINE_MEASURE(I16, int16_t, INT16_MAX, INT16_MIN, ADD_INTEGER)
DEFINE_MEASURE(I32, int32_t, INT32_MAX, INT32_MIN, ADD_INTEGER)
DEFINE_MEASURE(I64, int64_t, INT64_MAX, INT64_MIN, ADD_INTEGER)
DEFINE_MEASURE(U8, uint8_t, UINT8_MAX, 0, ADD_INTEGER)
DEFINE_MEASURE(U16, uint16_t, UINT16_MAX, 0, ADD_INTEGER)
DEFINE_MEASURE(U32, uint32_t, UINT32_MAX, 0, ADD_INTEGER)
DEFINE_MEASURE(U64, uint64_t, UINT64_MAX, 0, ADD_INTEGER)
DEFINE_MEASURE(F32, float, FLT_MAX, -FLT_MAX, ADD_FLOAT)
DEFINE_MEASURE(F64, double, DBL_MAX, -DBL_MAX, ADD_FLOAT)

static void measure_number(tsr_datatype datatype, const tsr_tile *tile, const uint8_t *mask, tile_measures *out) {
  switch (tsr__datatype_physical(datatype)) {
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name: measure_##name(tile, mask, out); break;
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
}

static tsr_check_bound text_at(const tsr_tile *tile, uint64_t cell) {
  if (!tile->offsets) return (tsr_check_bound){tile->cell_size, tile->values + cell * tile->cell_size};
  return (tsr_check_bound){tile->offsets[cell + 1] - tile->offsets[cell], tile->values + tile->offsets[cell]};
}

static int compare_text(tsr_check_bound a, tsr_check_bound b) {
  return tsr__bytes_compare(a.text, a.key, b.text, b.key);
}

static void measure_text(const tsr_tile *tile, const uint8_t *mask, tile_measures *out) {
  for (uint64_t i = 0; i < tile->cells; i++) {
    if (mask && !mask[i]) continue;
    if (tile->validity && !tile->validity[i]) {
      out->nulls++;
      continue;
    }
    tsr_check_bound v = text_at(tile, i);
    if (out->cells == 0 || compare_text(v, out->min_text) < 0) out->min_text = v;
    if (out->cells == 0 || compare_text(v, out->max_text) > 0) out->max_text = v;
    out->cells++;
    out->nul = out->nul || (v.key != 1 && memchr(v.text, 0, v.key) != NULL);
    if (v.key == 1) out->sum += (int8_t)v.text[0];
  }
}

static tile_measures measure_tile(const statistics_field *field, const tsr_tile *tile, const uint8_t *mask) {
  tile_measures m = {0};
  if (field->kind == KIND_TEXT) measure_text(tile, mask, &m);
  else measure_number(field->datatype, tile, mask, &m);
  return m;
}

/* ---- A tile's statistics ----------------------------------------------------------------------------------------- */

typedef struct stored { /* the stored statistics of a tile; NULL if there are none */
  const uint8_t *min, *max;
  uint64_t min_size, max_size;
  const uint64_t *sum, *null_count;
} stored;

static stored find_stored(const tsr_statistics *s, uint64_t tile) {
  stored found = {.sum = s->sums ? &s->sums[tile] : NULL, .null_count = s->null_counts ? &s->null_counts[tile] : NULL};
  if (s->min) {
    found.min = s->min + (s->value_size ? tile * s->value_size : s->min_offsets[tile]);
    found.min_size = s->value_size ? s->value_size : s->min_offsets[tile + 1] - s->min_offsets[tile];
  }
  if (s->max) {
    found.max = s->max + (s->value_size ? tile * s->value_size : s->max_offsets[tile]);
    found.max_size = s->value_size ? s->value_size : s->max_offsets[tile + 1] - s->max_offsets[tile];
  }
  return found;
}

static int compare_value(const statistics_field *field, const uint8_t *a, uint64_t a_size, const uint8_t *b,
                         uint64_t b_size) {
  if (field->kind == KIND_TEXT) return tsr__bytes_compare(a, a_size, b, b_size);
  uint64_t x = tsr__key(field->datatype, a), y = tsr__key(field->datatype, b);
  return x < y ? -1 : x > y;
}

typedef struct verdict { /* which of the four statistics are right */
  bool min, max, sum, nulls;
} verdict;

/* Returns true if a stored sum is right, or cannot be checked because a partial sum may have saturated. */
static bool sum_fits(const statistics_field *field, const tile_measures *m, uint64_t value) {
  if (tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT) {
    double claimed;
    memcpy(&claimed, &value, sizeof claimed);
    return !isfinite(m->magnitude) || m->magnitude > 1e300 || fabs(claimed - m->float_sum) <= 1e-9 * m->magnitude;
  }
  uint64_t greatest =
      0; /* absolute value of all cells: with it no partial sum overflows 64 bits, or the sum is skipped */
  for (int end = 0; end < 2 && field->kind == KIND_NUMBER; end++) {
    uint64_t zero = tsr__key(field->datatype, (const uint8_t[8]){0});
    uint64_t key = tsr__key(field->datatype, end ? m->max : m->min);
    greatest = TSR_MAX(greatest, key > zero ? key - zero : zero - key);
  }
  if (field->kind == KIND_TEXT) greatest = 128;
  if (tsr__mul_sat(greatest, m->cells) > INT64_MAX) return true;
  return (uint64_t)(int64_t)m->sum == value;
}

/* Compares stored statistics with measured ones. If `bounds`, minimum and maximum need only include the cells. */
static verdict judge(const statistics_field *field, const stored *s, const tile_measures *m, bool bounds) {
  verdict v = {true, true, true, true};
  if (s->null_count && !bounds) v.nulls = *s->null_count == m->nulls;
  if (m->cells == 0) return v; /* if all cells are null, the other statistics have no meaning */
  if (s->sum && field->has_sum && !m->nan) v.sum = sum_fits(field, m, *s->sum);
  if (m->nan || m->nul) return v;
  bool text = field->kind == KIND_TEXT;
  const uint8_t *min = text ? m->min_text.text : m->min, *max = text ? m->max_text.text : m->max;
  if (s->min) {
    int c = compare_value(field, s->min, s->min_size, min, m->min_text.key);
    v.min = bounds ? c <= 0 : c == 0;
  }
  if (s->max) {
    int c = compare_value(field, s->max, s->max_size, max, m->max_text.key);
    v.max = bounds ? c >= 0 : c == 0;
  }
  return v;
}

static bool all_right(verdict v) { return v.min && v.max && v.sum && v.nulls; }

static const char *show_value(const statistics_field *field, const uint8_t *value, uint64_t size,
                              tsr_check_words *words) {
  if (field->kind == KIND_NUMBER) return tsr__check_show_value(field->datatype, value, words);
  snprintf(words->text, sizeof words->text, "'%.*s'", (int)TSR_MIN(size, 60), (const char *)value);
  return words->text;
}

static int report_bound(tsr_fragment_check *f, uint32_t slot, uint64_t number, const statistics_field *field,
                        const char *what, const uint8_t *claimed, uint64_t claimed_size, const uint8_t *actual,
                        uint64_t actual_size) {
  tsr_check_words words, a, b;
  return tsr__check_say(f->c, TSR_SEVERITY_ERROR, f->metadata_path.text,
                        "statistics: %s, tile %llu: the %s is said to be %s, the cells have %s",
                        tsr__check_field(f, slot, &words), (unsigned long long)number, what,
                        show_value(field, claimed, claimed_size, &a), show_value(field, actual, actual_size, &b));
}

static int report_sum(tsr_fragment_check *f, uint32_t slot, uint64_t number, const statistics_field *field,
                      uint64_t claimed, const tile_measures *m) {
  tsr_kind kind = tsr_datatype_kind(field->datatype);
  tsr_check_words words, a, b;
  int64_t sum = (int64_t)m->sum;
  tsr_datatype as = kind == TSR_KIND_FLOAT                                  ? TSR_FLOAT64
                    : kind == TSR_KIND_UNSIGNED || kind == TSR_KIND_BOOLEAN ? TSR_UINT64
                                                                            : TSR_INT64;
  return tsr__check_say(f->c, TSR_SEVERITY_ERROR, f->metadata_path.text,
                        "statistics: %s, tile %llu: the sum is said to be %s, the cells have %s",
                        tsr__check_field(f, slot, &words), (unsigned long long)number,
                        tsr__check_show_value(as, &claimed, &a),
                        tsr__check_show_value(as, as == TSR_FLOAT64 ? (const void *)&m->float_sum : &sum, &b));
}

/* Reports the statistics of a tile that are wrong. */
static int report_tile(tsr_fragment_check *f, uint32_t slot, uint64_t number, const statistics_field *field,
                       const stored *s, const tile_measures *m, verdict v) {
  tsr_check_words words;
  bool text = field->kind == KIND_TEXT;
  if (!v.min)
    TSR_TRY(report_bound(f, slot, number, field, "minimum", s->min, s->min_size, text ? m->min_text.text : m->min,
                         m->min_text.key));
  if (!v.max)
    TSR_TRY(report_bound(f, slot, number, field, "maximum", s->max, s->max_size, text ? m->max_text.text : m->max,
                         m->max_text.key));
  if (!v.sum) TSR_TRY(report_sum(f, slot, number, field, *s->sum, m));
  if (v.nulls) return TSR_OK;
  return tsr__check_say(f->c, TSR_SEVERITY_ERROR, f->metadata_path.text,
                        "statistics: %s, tile %llu: the null count is said to be %llu, %llu cells are null",
                        tsr__check_field(f, slot, &words), (unsigned long long)number,
                        (unsigned long long)*s->null_count, (unsigned long long)m->nulls);
}

/* ---- Summaries --------------------------------------------------------------------------------------------------- */

/* Merges the minimum and maximum of a tile into a summary. As in TileDB, the new value replaces the kept one unless the
 * kept one is certainly less (or greater). So NaN replaces every value, and every value replaces NaN. */
#define DEFINE_WIDEN_BOUNDS(name, type, greatest, smallest)                                                            \
  static void widen_##name(tsr_check_summary *s, const void *min, const void *max) {                                   \
    type a, b, v;                                                                                                      \
    memcpy(&a, s->min, sizeof a);                                                                                      \
    memcpy(&b, s->max, sizeof b);                                                                                      \
    if (!s->any) a = greatest, b = smallest;                                                                           \
    memcpy(&v, min, sizeof v);                                                                                         \
    a = a < v ? a : v;                                                                                                 \
    memcpy(&v, max, sizeof v);                                                                                         \
    b = b > v ? b : v;                                                                                                 \
    memcpy(s->min, &a, sizeof a);                                                                                      \
    memcpy(s->max, &b, sizeof b);                                                                                      \
  }
DEFINE_WIDEN_BOUNDS(I8, int8_t, INT8_MAX, INT8_MIN)
DEFINE_WIDEN_BOUNDS(I16, int16_t, INT16_MAX, INT16_MIN)
DEFINE_WIDEN_BOUNDS(I32, int32_t, INT32_MAX, INT32_MIN)
DEFINE_WIDEN_BOUNDS(I64, int64_t, INT64_MAX, INT64_MIN)
DEFINE_WIDEN_BOUNDS(U8, uint8_t, UINT8_MAX, 0)
DEFINE_WIDEN_BOUNDS(U16, uint16_t, UINT16_MAX, 0)
DEFINE_WIDEN_BOUNDS(U32, uint32_t, UINT32_MAX, 0)
DEFINE_WIDEN_BOUNDS(U64, uint64_t, UINT64_MAX, 0)
DEFINE_WIDEN_BOUNDS(F32, float, FLT_MAX, -FLT_MAX)
DEFINE_WIDEN_BOUNDS(F64, double, DBL_MAX, -DBL_MAX)

static void widen_number(tsr_check_summary *s, tsr_datatype datatype, const void *min, const void *max) {
  switch (tsr__datatype_physical(datatype)) {
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name: widen_##name(s, min, max); break;
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
}

/* Merges the least and greatest string of a tile into a summary. If `copy_texts`, the strings belong to a tile that is
 * freed later, and are copied. */
static int widen_text(tsr_fragment_check *f, tsr_check_summary *s, tsr_check_bound min, tsr_check_bound max,
                      bool copy_texts) {
  for (int end = 0; end < 2; end++) {
    tsr_check_bound *kept = end ? &s->max_text : &s->min_text, v = end ? max : min;
    int c = s->any ? compare_text(v, *kept) : 0;
    s->unknown = s->unknown || memchr(v.text ? v.text : (const uint8_t *)"", 0, v.key) != NULL;
    if (s->any && (end ? c <= 0 : c >= 0)) continue;
    if (copy_texts) { TSR_TRY(TSR_ARENA_COPY(&f->arena, v.text, v.key, &v.text, f->c->error)); }
    *kept = v;
  }
  return TSR_OK;
}

static void add_sum(tsr_check_summary *s, const statistics_field *field, uint64_t value) {
  switch (tsr_datatype_kind(field->datatype)) {
  case TSR_KIND_FLOAT: {
    double v;
    memcpy(&v, &value, sizeof v);
    s->float_sum += v;
    s->magnitude += fabs(v);
    break;
  }
  case TSR_KIND_UNSIGNED:
  case TSR_KIND_BOOLEAN:
    s->overflowed = s->overflowed || __builtin_add_overflow(s->unsigned_sum, value, &s->unsigned_sum);
    break;
  default:
    s->overflowed = s->overflowed || __builtin_add_overflow(s->signed_sum, (int64_t)value, &s->signed_sum);
    break;
  }
  s->summed = true;
}

/* Adds a tile to a summary: its stored statistics where the verdict calls them right, else the measured ones. */
static int add_to_summary(tsr_fragment_check *f, tsr_check_summary *summary, uint64_t number,
                          const statistics_field *field, const stored *s, const tile_measures *m, verdict v) {
  uint64_t nulls = !v.nulls ? m->nulls : s->null_count ? *s->null_count : 0, sum = 0;
  bool text = field->kind == KIND_TEXT;
  summary->tiles++;
  summary->null_count += nulls;
  bool looked_at = m->cells + m->nulls > 0;
  if (!looked_at && f->metadata.dense && nulls > 0)
    summary->unknown = true; /* the null count may include cells of a dense tile that were not written */
  if (field->nullable && (nulls == tsr__fragment_tile_cells(&f->metadata, number) || (looked_at && m->cells == 0))) {
    summary->unknown = summary->unknown || text; /* after such a tile, TileDB uses a string of the wrong tile */
    return TSR_OK;
  }
  if (s->sum) sum = *s->sum;
  if (!v.sum && tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT) memcpy(&sum, &m->float_sum, 8);
  else if (!v.sum) sum = (uint64_t)(int64_t)m->sum;
  if (s->sum) add_sum(summary, field, sum);
  if (!s->min || !s->max) {
    summary->unknown = true;
    return TSR_OK;
  }
  if (text)
    TSR_TRY(widen_text(f, summary, v.min ? (tsr_check_bound){s->min_size, s->min} : m->min_text,
                       v.max ? (tsr_check_bound){s->max_size, s->max} : m->max_text, !v.min || !v.max));
  else widen_number(summary, field->datatype, v.min ? s->min : m->min, v.max ? s->max : m->max);
  summary->any = true;
  return TSR_OK;
}

int tsr__check_summaries(tsr_fragment_check *f) {
  TSR_TRY(TSR_ARENA_ARRAY(&f->arena, tsr__mul_sat(2, f->metadata.slot_count), &f->summaries, f->c->error));
  return TSR_OK;
}

int tsr__check_tile_statistics(tsr_fragment_check *f, uint32_t slot, uint64_t number, const tsr_tile *tile,
                               const uint8_t *mask) {
  const tsr_statistics *all = f->metadata.slots[slot].statistics;
  const statistics_field field = field_of(f, slot);
  if (!layout_has_tile_statistics(f->metadata.version) || !f->statistics_sound[slot] || !all || field.kind == KIND_NONE)
    return TSR_OK;
  stored s = find_stored(all, number);
  verdict v = {true, true, true, true};
  tile_measures m = {0};
  if (tile) {
    m = measure_tile(&field, tile, mask);
    v = judge(&field, &s, &m, mask && !layout_has_statistics_of_cells_alone(f->metadata.version));
    if (!all_right(v) && mask) {
      tile_measures padded = measure_tile(&field, tile, NULL);
      verdict other = judge(&field, &s, &padded, false);
      if (all_right(other)) v = other;
    }
    TSR_TRY(report_tile(f, slot, number, &field, &s, &m, v));
  }
  const verdict right = {true, true, true, true};
  TSR_TRY(add_to_summary(f, &f->summaries[2 * slot], number, &field, &s, &m, right));
  return add_to_summary(f, &f->summaries[2 * slot + 1], number, &field, &s, &m, v);
}

/* ---- Statistics of the fragment ---------------------------------------------------------------------------------- */

typedef struct fragment_totals { /* stored statistics of a slot of the whole fragment */
  const uint8_t *min, *max;
  uint64_t min_size, max_size, sum, null_count;
} fragment_totals;

static int report_fragment(tsr_fragment_check *f, uint32_t slot, const char *what) {
  tsr_check_words words;
  return tsr__check_say(f->c, TSR_SEVERITY_ERROR, f->metadata_path.text,
                        "fragment statistics: %s: the %s is not that of its tiles", tsr__check_field(f, slot, &words),
                        what);
}

static bool fragment_sum_fits(const statistics_field *field, const tsr_check_summary *s, uint64_t claimed) {
  double v;
  if (!field->has_sum || field->kind == KIND_TEXT || !s->summed || s->overflowed) return true;
  switch (tsr_datatype_kind(field->datatype)) {
  case TSR_KIND_FLOAT:
    memcpy(&v, &claimed, sizeof v);
    return !isfinite(s->magnitude) || s->magnitude > 1e300 || fabs(v - s->float_sum) <= 1e-9 * s->magnitude;
  case TSR_KIND_UNSIGNED:
  case TSR_KIND_BOOLEAN: return claimed == s->unsigned_sum;
  default: return claimed == (uint64_t)s->signed_sum;
  }
}

static bool same_number(const statistics_field *field, const uint8_t *a, const uint8_t *b) {
  return tsr__key(field->datatype, a) == tsr__key(field->datatype, b);
}

/* Compares the fragment's statistics with a summary. */
static verdict judge_fragment(const statistics_field *field, const fragment_totals *totals,
                              const tsr_check_summary *s) {
  verdict v = {true, true, fragment_sum_fits(field, s, totals->sum), totals->null_count == s->null_count};
  bool text = field->kind == KIND_TEXT;
  if (!s->any || s->unknown) return v;
  if (totals->min_size > 0)
    v.min = text ? compare_text((tsr_check_bound){totals->min_size, totals->min}, s->min_text) == 0
                 : totals->min_size == field->size && same_number(field, totals->min, s->min);
  if (totals->max_size > 0)
    v.max = text ? compare_text((tsr_check_bound){totals->max_size, totals->max}, s->max_text) == 0
                 : totals->max_size == field->size && same_number(field, totals->max, s->max);
  return v;
}

/* Checks one slot. A statistic is right if it agrees with either summary: of the tiles' stored statistics, or of their
 * true ones. */
static int check_fragment_totals(tsr_fragment_check *f, uint32_t slot, const fragment_totals *totals) {
  const tsr_check_summary *s = &f->summaries[2 * slot];
  const tsr_statistics *all = f->metadata.slots[slot].statistics;
  const statistics_field field = field_of(f, slot);
  if (field.kind == KIND_NONE || !f->statistics_sound[slot] || s->tiles != f->metadata.tile_count) return TSR_OK;
  const verdict a = judge_fragment(&field, totals, &s[0]), b = judge_fragment(&field, totals, &s[1]);
  if (!a.nulls && !b.nulls && all && all->null_counts) TSR_TRY(report_fragment(f, slot, "null count"));
  if (!a.sum && !b.sum) TSR_TRY(report_fragment(f, slot, "sum"));
  if (!a.min && !b.min) TSR_TRY(report_fragment(f, slot, "minimum"));
  return a.max || b.max ? TSR_OK : report_fragment(f, slot, "maximum");
}

int tsr__check_fragment_statistics(tsr_fragment_check *f) {
  tsr_fragment_metadata *m = &f->metadata;
  tsr_buffer content = {.memory = &f->c->memory};
  tsr_error fault = {0};
  if (!layout_has_fragment_statistics(m->version) || !f->summary_sound) return TSR_OK;
  int rc = tsr__fragment_metadata_tile(m, f->file, m->at.fragment_statistics, f->c->key, UINT64_MAX, &content, &fault);
  if (rc < 0) rc = tsr__check_fault(f->c, f->metadata_path.text, &fault, "fragment statistics");
  tsr_input in = tsr__input(content.data, content.size);
  for (uint32_t slot = 0; rc >= 0 && slot < m->slot_count && !in.failed; slot++) {
    fragment_totals totals = {0};
    totals.min_size = tsr__input_u64(&in);
    totals.min = tsr__input_take(&in, totals.min_size);
    totals.max_size = tsr__input_u64(&in);
    totals.max = tsr__input_take(&in, totals.max_size);
    totals.sum = tsr__input_u64(&in);
    totals.null_count = tsr__input_u64(&in);
    if (!in.failed && m->slots[slot].present) rc = check_fragment_totals(f, slot, &totals);
  }
  if (rc >= 0 && (in.failed || tsr__input_left(&in) > 0))
    rc = tsr__check_say(f->c, TSR_SEVERITY_ERROR, f->metadata_path.text,
                        "fragment statistics at byte %llu: %llu bytes are not those of %u fields",
                        (unsigned long long)m->at.fragment_statistics, (unsigned long long)content.size, m->slot_count);
  tsr__buffer_release(&content);
  return rc;
}
