/* test_domain.c: spans of fixed-size values and of strings, their relation to intervals, the cells that they select,
 * and the grids of dense arrays. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/datatype.h"
#include "model/domain.h"
#include "format/fragment_metadata.h"

typedef struct fixture {
  tsr_memory root, memory;
  tsr_arena arena;
} fixture;

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  tsr__memory_init_root(&f->root, NULL, NULL);
  tsr__memory_init(&f->memory, &f->root, UINT64_MAX, "test");
  tsr__arena_init(&f->arena, &f->memory);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  tsr__arena_release(&f->arena);
  assert_int_equal(f->root.used, 0);
  free(f);
  return 0;
}

static tsr_field dimension(tsr_datatype datatype) {
  return (tsr_field){.name = (char *)"d",
                     .is_dimension = true,
                     .datatype = datatype,
                     .values_per_cell = datatype == TSR_ASCII ? TSR_VARIABLE : 1};
}

static tsr_spans make(void **state, tsr_datatype datatype, const tsr_range *ranges, uint64_t count) {
  fixture *f = *state;
  tsr_field field = dimension(datatype);
  tsr_spans spans = {.count = 99};
  tsr_error error = {0};
  assert_int_equal(tsr__spans_make(&field, &(tsr_ranges){.ranges = ranges, .count = count}, &f->arena, &spans, &error),
                   TSR_OK);
  return spans;
}

/* ---- Fixed-size values ---- */

#define IN(type, a, b)                                                                                                 \
  {                                                                                                                    \
    .low = &(const type){a}, .high = &(const type) { b }                                                               \
  }
#define OPEN(type, a, b)                                                                                               \
  { .low = &(const type){a}, .high = &(const type){b}, .low_exclusive = true, .high_exclusive = true }
#define FROM(type, a)                                                                                                  \
  {                                                                                                                    \
    .low = &(const type) { a }                                                                                         \
  }
#define TO(type, b)                                                                                                    \
  {                                                                                                                    \
    .high = &(const type) { b }                                                                                        \
  }
#define ABOVE(type, a)                                                                                                 \
  { .low = &(const type){a}, .low_exclusive = true }
#define BELOW(type, b)                                                                                                 \
  { .high = &(const type){b}, .high_exclusive = true }
#define MAKE(datatype, ...)                                                                                            \
  make(state, datatype, (const tsr_range[]){__VA_ARGS__}, sizeof((const tsr_range[]){__VA_ARGS__}) / sizeof(tsr_range))

static void check_int32(const tsr_spans *spans, uint64_t count, const int32_t *ends) {
  assert_false(spans->all || spans->text || spans->floats);
  assert_int_equal(spans->count, count);
  for (uint64_t i = 0; i < count; i++) {
    int32_t low, high;
    tsr__key_value(TSR_INT32, spans->spans[i].low, &low);
    tsr__key_value(TSR_INT32, spans->spans[i].high, &high);
    assert_int_equal(low, ends[2 * i]);
    assert_int_equal(high, ends[2 * i + 1]);
  }
}

static void test_ranges_of_integers_become_sorted_spans(void **state) {
  tsr_spans s = MAKE(TSR_INT32, IN(int32_t, -5, 10));
  check_int32(&s, 1, (const int32_t[]){-5, 10});
  s = MAKE(TSR_INT32, OPEN(int32_t, -5, 10));
  check_int32(&s, 1, (const int32_t[]){-4, 9});
  s = MAKE(TSR_INT32, ABOVE(int32_t, 7));
  check_int32(&s, 1, (const int32_t[]){8, INT32_MAX});
  s = MAKE(TSR_INT32, TO(int32_t, 7));
  check_int32(&s, 1, (const int32_t[]){INT32_MIN, 7});

  s = MAKE(TSR_INT32, IN(int32_t, 10, -5), OPEN(int32_t, 3, 3), OPEN(int32_t, 3, 4), ABOVE(int32_t, INT32_MAX),
           BELOW(int32_t, INT32_MIN)); /* each of these ranges is empty */
  check_int32(&s, 0, NULL);
  s = make(state, TSR_INT32, NULL, 0);
  check_int32(&s, 0, NULL);

  /* any order, overlapping, adjacent, repeated, one within another */
  s = MAKE(TSR_INT32, IN(int32_t, 20, 30), IN(int32_t, 1, 3), IN(int32_t, 4, 4), IN(int32_t, 25, 35),
           IN(int32_t, 26, 27), IN(int32_t, 37, 37), IN(int32_t, 1, 3), IN(int32_t, 9, 9));
  check_int32(&s, 4, (const int32_t[]){1, 4, 9, 9, 20, 35, 37, 37});
  s = MAKE(TSR_INT32, BELOW(int32_t, 5), IN(int32_t, INT32_MIN, 2), FROM(int32_t, 5));
  check_int32(&s, 1, (const int32_t[]){INT32_MIN, INT32_MAX});

  s = MAKE(TSR_INT32, IN(int32_t, 5, 6), {0}); /* a range without bounds */
  assert_true(s.all);
  tsr_field field = dimension(TSR_INT32);
  fixture *f = *state;
  assert_int_equal(tsr__spans_make(&field, &(tsr_ranges){.all = true}, &f->arena, &s, NULL), TSR_OK);
  assert_true(s.all && s.count == 0);
}

static void test_ranges_at_the_limits_of_a_type(void **state) {
  tsr_spans s = MAKE(TSR_UINT64, ABOVE(uint64_t, UINT64_MAX), BELOW(uint64_t, 0));
  assert_int_equal(s.count, 0);
  s = MAKE(TSR_UINT64, ABOVE(uint64_t, UINT64_MAX - 1), BELOW(uint64_t, 1));
  assert_int_equal(s.count, 2);
  assert_true(s.spans[0].low == 0 && s.spans[0].high == 0);
  assert_true(s.spans[1].low == UINT64_MAX && s.spans[1].high == UINT64_MAX);
  s = MAKE(TSR_UINT8, ABOVE(uint8_t, 255));
  assert_int_equal(s.count, 0);
  s = MAKE(TSR_DATETIME_NS, FROM(int64_t, INT64_MIN));
  assert_true(s.count == 1 && s.spans[0].low == 0 && s.spans[0].high == UINT64_MAX);
}

static void test_ranges_of_floats_exclude_nan(void **state) {
  tsr_spans s = MAKE(TSR_FLOAT64, FROM(double, NAN), TO(double, NAN), IN(double, NAN, 5), IN(double, 5, NAN),
                     ABOVE(double, INFINITY), BELOW(double, -INFINITY));
  assert_true(s.floats);
  assert_int_equal(s.count, 0);
  s = MAKE(TSR_FLOAT64, IN(double, -INFINITY, INFINITY));
  assert_true(s.count == 1 && s.spans[0].low == tsr__key_min(TSR_FLOAT64) &&
              s.spans[0].high == tsr__key_max(TSR_FLOAT64));
  s = MAKE(TSR_FLOAT32, OPEN(float, 1, 2));
  float low, high;
  tsr__key_value(TSR_FLOAT32, s.spans[0].low, &low);
  tsr__key_value(TSR_FLOAT32, s.spans[0].high, &high);
  assert_true(low == nextafterf(1, 2) && high == nextafterf(2, 1));
  s = MAKE(TSR_FLOAT64, OPEN(double, -5e-324, 0.0)); /* there is no double between the bounds */
  assert_int_equal(s.count, 0);
  s = MAKE(TSR_FLOAT64, IN(double, 0.0, -0.0));
  assert_int_equal(s.count, 1);
}

static void test_intervals_relate_to_spans(void **state) {
  tsr_spans s = MAKE(TSR_UINT64, IN(uint64_t, 10, 20), IN(uint64_t, 30, 40), IN(uint64_t, 50, 50));
  static const struct {
    uint64_t low, high;
    tsr_relation relation;
  } boxes[] = {{0, 9, TSR_OUTSIDE},           {0, 10, TSR_OVERLAP},         {10, 10, TSR_INSIDE},
               {10, 20, TSR_INSIDE},          {11, 19, TSR_INSIDE},         {20, 21, TSR_OVERLAP},
               {21, 29, TSR_OUTSIDE},         {20, 30, TSR_OVERLAP},        {12, 35, TSR_OVERLAP},
               {30, 40, TSR_INSIDE},          {41, 49, TSR_OUTSIDE},        {50, 50, TSR_INSIDE},
               {51, UINT64_MAX, TSR_OUTSIDE}, {0, UINT64_MAX, TSR_OVERLAP}, {UINT64_MAX, UINT64_MAX, TSR_OUTSIDE},
               {25, 22, TSR_OVERLAP}};
  for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++)
    assert_int_equal(tsr__spans_relate(&s, boxes[i].low, boxes[i].high), boxes[i].relation);
  tsr_spans all = {.all = true}, none = {0};
  assert_int_equal(tsr__spans_relate(&all, 9, 3), TSR_INSIDE);
  assert_int_equal(tsr__spans_relate(&none, 3, 9), TSR_OUTSIDE);
  assert_int_equal(tsr__spans_relate(&none, 9, 3), TSR_OUTSIDE);
}

static void test_intervals_of_floats_may_hide_nans(void **state) {
  tsr_spans s = MAKE(TSR_FLOAT32, IN(float, 1, 5));
  const float one = 1, two = 2, six = 6, nan = NAN;
  uint64_t k1 = tsr__key(TSR_FLOAT32, &one), k2 = tsr__key(TSR_FLOAT32, &two), k6 = tsr__key(TSR_FLOAT32, &six),
           kn = tsr__key(TSR_FLOAT32, &nan);
  assert_int_equal(tsr__spans_relate(&s, k1, k2), TSR_OVERLAP); /* the interval may stand for NaNs, too */
  assert_int_equal(tsr__spans_relate(&s, k6, k6), TSR_OUTSIDE);
  assert_int_equal(tsr__spans_relate(&s, kn, kn), TSR_OVERLAP);
  assert_int_equal(tsr__spans_relate(&s, kn, k6), TSR_OVERLAP);
  assert_int_equal(tsr__spans_relate(&s, 0, UINT64_MAX), TSR_OVERLAP);
  s.all = true;
  assert_int_equal(tsr__spans_relate(&s, kn, kn), TSR_INSIDE);
}

/* ---- Selecting ---- */

/* Compares the selection with a simple loop: for one span and several, with and without a given selection, in place and
 * not. */
#define CHECK_SELECT(name, datatype, type, make_value)                                                                 \
  static void name(void **state) {                                                                                     \
    enum { CELLS = 1000 };                                                                                             \
    type values[CELLS];                                                                                                \
    uint32_t random = 12345;                                                                                           \
    for (int i = 0; i < CELLS; i++) {                                                                                  \
      random = random * 1664525 + 1013904223;                                                                          \
      int r = (int)(random >> 16) % 200;                                                                               \
      values[i] = (type)(make_value);                                                                                  \
    }                                                                                                                  \
    const type ends[] = {values[1], values[2], values[3], values[4], values[5], values[6], values[7], values[8]};      \
    for (uint64_t n = 1; n <= 4; n++) {                                                                                \
      tsr_range ranges[4] = {{0}};                                                                                     \
      for (uint64_t i = 0; i < n; i++)                                                                                 \
        ranges[i] = (tsr_range){                                                                                       \
            .low = &ends[2 * i], .high = &ends[2 * i + 1], .low_exclusive = n % 2, .high_exclusive = n > 2};           \
      tsr_spans spans = make(state, datatype, ranges, n);                                                              \
      uint32_t expected[CELLS], chosen[CELLS], out[CELLS + 1], count = 0, chosen_count = 0;                            \
      for (uint32_t c = 0; c < CELLS; c++) {                                                                           \
        bool in = false;                                                                                               \
        for (uint64_t i = 0; i < n; i++)                                                                               \
          in |= (n % 2 ? values[c] > ends[2 * i] : values[c] >= ends[2 * i]) &&                                        \
                (n > 2 ? values[c] < ends[2 * i + 1] : values[c] <= ends[2 * i + 1]);                                  \
        if (in) expected[count++] = c;                                                                                 \
      }                                                                                                                \
      out[CELLS] = 4711;                                                                                               \
      assert_int_equal(tsr__spans_select(&spans, datatype, values, NULL, CELLS, out), count);                          \
      assert_memory_equal(out, expected, count * sizeof *out);                                                         \
      assert_int_equal(out[CELLS], 4711);                                                                              \
      count = 0;                                                                                                       \
      for (uint32_t c = 0; c < CELLS; c++)                                                                             \
        if (c % 3 == 0) chosen[chosen_count++] = c;                                                                    \
      uint64_t all = tsr__spans_select(&spans, datatype, values, NULL, CELLS, out);                                    \
      for (uint64_t i = 0; i < all; i++)                                                                               \
        if (out[i] % 3 == 0) expected[count++] = out[i];                                                               \
      assert_int_equal(tsr__spans_select(&spans, datatype, values, chosen, chosen_count, out), count);                 \
      assert_memory_equal(out, expected, count * sizeof *out);                                                         \
      assert_int_equal(tsr__spans_select(&spans, datatype, values, chosen, chosen_count, chosen), count);              \
      assert_memory_equal(chosen, expected, count * sizeof *out);                                                      \
    }                                                                                                                  \
    for (int i = 0; i < 8; i++) { /* a value that only some blocks have */                                             \
      const tsr_range one = {.low = &ends[i], .high = &ends[i]};                                                       \
      tsr_spans spans = make(state, datatype, &one, 1);                                                                \
      uint32_t expected[CELLS], out[CELLS], count = 0;                                                                 \
      for (uint32_t c = 0; c < CELLS; c++)                                                                             \
        if (values[c] == ends[i]) expected[count++] = c;                                                               \
      assert_int_equal(tsr__spans_select(&spans, datatype, values, NULL, CELLS, out), count);                          \
      assert_memory_equal(out, expected, count * sizeof *out);                                                         \
      const tsr_range wide = {.low = &ends[(i + 1) % 8], .high = &ends[(i + 2) % 8]}; /* of the next cell */           \
      const tsr_spans other = make(state, datatype, &wide, 1);                                                         \
      if (!tsr__spans_are_one(&spans) || !tsr__spans_are_one(&other)) continue; /* empty, or NaN */                    \
      const tsr_select_column both[2] = {{&spans, datatype, values}, {&other, datatype, values + 1}};                  \
      for (uint32_t cells = CELLS - 70; cells < CELLS; cells++) {                                                      \
        count = 0;                                                                                                     \
        for (uint32_t c = 0; c < cells; c++)                                                                           \
          if (values[c] == ends[i] && values[c + 1] >= ends[(i + 1) % 8] && values[c + 1] <= ends[(i + 2) % 8])        \
            expected[count++] = c;                                                                                     \
        assert_int_equal(tsr__select_joint(both, 2, cells, out), count);                                               \
        assert_memory_equal(out, expected, count * sizeof *out);                                                       \
      }                                                                                                                \
    }                                                                                                                  \
  }

CHECK_SELECT(test_select_int8, TSR_INT8, int8_t, r - 100)
CHECK_SELECT(test_select_int16, TSR_INT16, int16_t, r * 300 - 30000)
CHECK_SELECT(test_select_int32, TSR_INT32, int32_t, (r - 100) * 20000000)
CHECK_SELECT(test_select_int64, TSR_DATETIME_NS, int64_t, (r - 100) * INT64_C(90000000000000000))
CHECK_SELECT(test_select_uint8, TSR_UINT8, uint8_t, r)
CHECK_SELECT(test_select_uint16, TSR_UINT16, uint16_t, r * 327)
CHECK_SELECT(test_select_uint32, TSR_UINT32, uint32_t, (uint32_t)r * 21000000u)
CHECK_SELECT(test_select_uint64, TSR_UINT64, uint64_t, (uint64_t)r *UINT64_C(90000000000000000))
CHECK_SELECT(test_select_float32, TSR_FLOAT32, float, r % 11 ? (r - 100) / 7.0f : r % 2 ? -0.0f : 0.0f)
CHECK_SELECT(test_select_float64, TSR_FLOAT64, double, r % 11 ? (r - 100) / 7.0 : r % 3 ? -0.0 : NAN)

/* Spans of 64-bit integers of any width. Few values of a block lie at the ends of the span. */
static void test_cells_of_every_width_are_selected(void **state) {
  enum { CELLS = 500 };
  uint64_t random = 4711;
  for (int round = 0; round < 3000; round++) {
    uint64_t values[CELLS], ends[2];
    uint32_t out[CELLS], count = 0;
    for (int i = 0; i < 2; i++) {
      random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
      ends[i] = random >> (random % 64);
      if (random >> 61 == 0) ends[i] = random >> 62 & 1 ? UINT64_MAX : 0;
      if (random >> 61 == 1) ends[i] = UINT64_C(1) << 63;
      if (random >> 61 == 2) ends[i] = UINT64_MAX >> 1;
    }
    const bool is_signed = round % 2;
    if (is_signed ? (int64_t)ends[0] > (int64_t)ends[1] : ends[0] > ends[1]) {
      const uint64_t other = ends[0];
      ends[0] = ends[1];
      ends[1] = other;
    }
    for (int i = 0; i < CELLS; i++) {
      random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
      values[i] = round % 3 ? ends[0] - 1 - (random >> 40) : random; /* most values lie just below the span */
      if (random % 70 == 0) values[i] = ends[random >> 32 & 1] + (random >> 33 & 1);
      if (random % 70 == 1) values[i] = ends[random >> 32 & 1] - (random >> 33 & 1);
      if (random % 70 == 2) values[i] = (random >> 32 & 1 ? UINT64_MAX : 0) ^ (random >> 33 & 1) << 63;
    }
    const tsr_range range = {.low = &ends[0], .high = &ends[1]};
    const tsr_datatype datatype = is_signed ? TSR_INT64 : TSR_UINT64;
    const tsr_spans spans = make(state, datatype, &range, 1);
    assert_int_equal(spans.count, 1);
    const uint64_t found = tsr__spans_select(&spans, datatype, values, NULL, CELLS, out);
    for (uint32_t i = 0; i < CELLS; i++) {
      const bool in = is_signed ? (int64_t)values[i] >= (int64_t)ends[0] && (int64_t)values[i] <= (int64_t)ends[1]
                                : values[i] >= ends[0] && values[i] <= ends[1];
      if (!in) continue;
      assert_true(count < found);
      assert_int_equal(out[count++], i);
    }
    assert_int_equal(count, found);
  }
}

static void test_minus_zero_is_selected_with_zero(void **state) {
  const double values[] = {-0.0, 0.0, NAN, -5e-324, 5e-324, -NAN, INFINITY, -INFINITY};
  uint32_t out[8];
  tsr_spans s = MAKE(TSR_FLOAT64, IN(double, 0.0, 0.0));
  assert_int_equal(tsr__spans_select(&s, TSR_FLOAT64, values, NULL, 8, out), 2);
  s = MAKE(TSR_FLOAT64, IN(double, -0.0, -0.0), IN(double, 100, 101));
  assert_int_equal(tsr__spans_select(&s, TSR_FLOAT64, values, NULL, 8, out), 2);
  s = MAKE(TSR_FLOAT64, BELOW(double, 0.0)); /* selects neither zero */
  assert_int_equal(tsr__spans_select(&s, TSR_FLOAT64, values, NULL, 8, out), 2);
  assert_true(out[0] == 3 && out[1] == 7);
  s = MAKE(TSR_FLOAT64, ABOVE(double, -5e-324)); /* selects both zeros */
  assert_int_equal(tsr__spans_select(&s, TSR_FLOAT64, values, NULL, 8, out), 4);
  s = MAKE(TSR_FLOAT64, BELOW(double, -0.0), ABOVE(double, 0.0));
  assert_int_equal(s.count, 2);
  assert_int_equal(tsr__spans_select(&s, TSR_FLOAT64, values, NULL, 8, out), 4);
  s = MAKE(TSR_FLOAT64, IN(double, -INFINITY, INFINITY)); /* selects no NaN */
  assert_int_equal(tsr__spans_select(&s, TSR_FLOAT64, values, NULL, 8, out), 6);
  s = (tsr_spans){.all = true, .floats = true};
  assert_int_equal(tsr__spans_select(&s, TSR_FLOAT64, values, NULL, 8, out), 8);
  assert_int_equal(out[7], 7);
  assert_int_equal(tsr__spans_select(&s, TSR_FLOAT64, values, (const uint32_t[]){5, 2}, 2, out), 2);
  assert_true(out[0] == 5 && out[1] == 2);
  s = (tsr_spans){.floats = true};
  assert_int_equal(tsr__spans_select(&s, TSR_FLOAT64, values, NULL, 8, out), 0);
}

/* ---- Strings ---- */

#define T(from, to)                                                                                                    \
  { .low = from, .low_size = sizeof from - 1, .high = to, .high_size = sizeof to - 1 }
#define TO_TEXT(to)                                                                                                    \
  { .high = to, .high_size = sizeof to - 1 }

static bool has(const tsr_spans *s, const char *text) {
  bool in = tsr__spans_contain_text(s, (const uint8_t *)text, strlen(text));
  uint64_t offsets[] = {0, strlen(text)};
  uint32_t out[1];
  assert_int_equal(tsr__spans_select_text(s, (const uint8_t *)text, offsets, NULL, 1, out), in);
  return in;
}

static tsr_relation relate_text(const tsr_spans *s, const char *low, const char *high) {
  return tsr__spans_relate_text(s, (const uint8_t *)low, strlen(low), (const uint8_t *)high, strlen(high));
}

static void test_bounds_of_strings_are_exact(void **state) {
  tsr_spans s = MAKE(TSR_ASCII, T("b", "d"));
  assert_true(s.text && s.count == 1);
  assert_true(has(&s, "b") && has(&s, "bz") && has(&s, "d") && has(&s, "c\xff"));
  assert_false(has(&s, "a") || has(&s, "az") || has(&s, "da") || has(&s, ""));
  s = MAKE(TSR_ASCII,
           {.low = "b", .low_size = 1, .high = "d", .high_size = 1, .low_exclusive = true, .high_exclusive = true});
  assert_true(has(&s, "b!") && has(&s, "cz"));
  assert_false(has(&s, "b") || has(&s, "d"));
  s = MAKE(TSR_ASCII, {.low = "b", .low_size = 1});
  assert_true(has(&s, "b") && has(&s, "\xff\xff"));
  assert_false(has(&s, "a\xff"));
  s = MAKE(TSR_ASCII, TO_TEXT("b"));
  assert_true(has(&s, "") && has(&s, "b"));
  assert_false(has(&s, "ba"));
  s = MAKE(TSR_ASCII, T("", ""));
  assert_true(has(&s, ""));
  assert_false(has(&s, "a"));
  s = MAKE(TSR_ASCII, T("d", "b"), {.low = "b", .low_size = 1, .high = "b", .high_size = 1, .high_exclusive = true},
           {.high = "", .high_exclusive = true});
  assert_true(s.count == 0 && !s.all);
  assert_false(has(&s, "b"));
  s = MAKE(TSR_ASCII, {0});
  assert_true(s.all && has(&s, ""));
}

static void test_ranges_of_strings_are_merged(void **state) {
  tsr_spans s = MAKE(TSR_ASCII, T("x", "y"), T("b", "d"), T("c", "cc"), T("d", "e"), T("m", "m"));
  assert_int_equal(s.count, 3);
  assert_true(has(&s, "dz") && has(&s, "e") && has(&s, "m") && has(&s, "xx"));
  assert_false(has(&s, "ea") || has(&s, "ma") || has(&s, "n") || has(&s, "z"));
  /* [a, b) and [b, c]; [m, n] and (n, o] */
  s = MAKE(TSR_ASCII, {.low = "a", .low_size = 1, .high = "b", .high_size = 1, .high_exclusive = true}, T("b", "c"),
           T("m", "n"), {.low = "n", .low_size = 1, .high = "o", .high_size = 1, .low_exclusive = true});
  assert_int_equal(s.count, 2);
  assert_true(has(&s, "b") && has(&s, "n") && has(&s, "n!"));
  /* [a, b) and (b, c] leave b out */
  s = MAKE(TSR_ASCII, {.low = "a", .low_size = 1, .high = "b", .high_size = 1, .high_exclusive = true},
           {.low = "b", .low_size = 1, .high = "c", .high_size = 1, .low_exclusive = true});
  assert_int_equal(s.count, 2);
  assert_false(has(&s, "b"));
  /* when ranges are merged, an inclusive end is kept before an exclusive one, and an open end before both */
  s = MAKE(TSR_ASCII, {.low = "a", .low_size = 1, .high = "b", .high_size = 1, .high_exclusive = true}, T("a", "b"));
  assert_true(s.count == 1 && has(&s, "b"));
  s = MAKE(TSR_ASCII, T("a", "b"), {.low = "a", .low_size = 1}, T("q", "r"));
  assert_true(s.count == 1 && has(&s, "zz"));
}

static void test_strings_are_copied_into_the_arena(void **state) {
  char low[] = "b", high[] = "d";
  tsr_spans s = MAKE(TSR_ASCII, {.low = low, .low_size = 1, .high = high, .high_size = 1});
  low[0] = high[0] = 'z';
  assert_true(has(&s, "c"));
}

static void test_intervals_of_strings_relate_to_spans(void **state) {
  tsr_spans s =
      MAKE(TSR_ASCII, T("b", "d"), {.low = "m", .low_size = 1, .high = "p", .high_size = 1, .high_exclusive = true});
  assert_int_equal(relate_text(&s, "a", "az"), TSR_OUTSIDE);
  assert_int_equal(relate_text(&s, "a", "b"), TSR_OVERLAP);
  assert_int_equal(relate_text(&s, "b", "d"), TSR_INSIDE);
  assert_int_equal(relate_text(&s, "c", "da"), TSR_OVERLAP);
  assert_int_equal(relate_text(&s, "da", "lz"), TSR_OUTSIDE);
  assert_int_equal(relate_text(&s, "c", "n"), TSR_OVERLAP);
  assert_int_equal(relate_text(&s, "m", "oz"), TSR_INSIDE);
  assert_int_equal(relate_text(&s, "m", "p"), TSR_OVERLAP);
  assert_int_equal(relate_text(&s, "p", "z"), TSR_OUTSIDE);
  assert_int_equal(relate_text(&s, "", "\xff"), TSR_OVERLAP);
  assert_int_equal(relate_text(&s, "z", "f"), TSR_OVERLAP);
  tsr_spans open = MAKE(TSR_ASCII, {.low = "b", .low_size = 1}), none = {.text = true};
  assert_int_equal(relate_text(&open, "c", "\xff\xff"), TSR_INSIDE);
  assert_int_equal(relate_text(&open, "", "a"), TSR_OUTSIDE);
  assert_int_equal(relate_text(&none, "a", "b"), TSR_OUTSIDE);
}

static void test_strings_are_selected(void **state) {
  const uint8_t values[] = "chr1chr10chr2chr1X";
  const uint64_t offsets[] = {0, 4, 9, 9, 13, 17, 18}; /* chr1 chr10 '' chr2 chr1 X */
  uint32_t out[6];
  tsr_spans s = MAKE(TSR_ASCII, T("chr1", "chr1"));
  assert_int_equal(tsr__spans_select_text(&s, values, offsets, NULL, 6, out), 2);
  assert_true(out[0] == 0 && out[1] == 4);
  s = MAKE(TSR_ASCII, T("chr1", "chr1"), T("X", "X"));
  assert_int_equal(tsr__spans_select_text(&s, values, offsets, NULL, 6, out), 3);
  assert_true(out[2] == 5);
  uint32_t selection[] = {1, 3, 4, 5};
  assert_int_equal(tsr__spans_select_text(&s, values, offsets, selection, 4, selection), 2);
  assert_true(selection[0] == 4 && selection[1] == 5);
  s = MAKE(TSR_ASCII, T("", ""));
  assert_int_equal(tsr__spans_select_text(&s, values, offsets, NULL, 6, out), 1);
  assert_int_equal(out[0], 2);
  s = (tsr_spans){.text = true, .all = true};
  assert_int_equal(tsr__spans_select_text(&s, values, offsets, NULL, 6, out), 6);
  s = (tsr_spans){.text = true};
  assert_int_equal(tsr__spans_select_text(&s, values, offsets, NULL, 6, out), 0);
}

/* ---- Several unions that must hold together ---- */

#define LIST(...)                                                                                                      \
  .ranges = (const tsr_range[]){__VA_ARGS__}, .count = sizeof((const tsr_range[]){__VA_ARGS__}) / sizeof(tsr_range)

static tsr_spans make_chain(void **state, tsr_datatype datatype, const tsr_ranges *ranges) {
  fixture *f = *state;
  tsr_field field = dimension(datatype);
  tsr_spans spans;
  assert_int_equal(tsr__spans_make(&field, ranges, &f->arena, &spans, NULL), TSR_OK);
  return spans;
}

static void test_intersections_of_ranges(void **state) {
  const tsr_ranges third = {LIST(BELOW(int32_t, 40))};
  const tsr_ranges second = {LIST(IN(int32_t, 5, 8), IN(int32_t, 10, 25), IN(int32_t, 30, 60)), .also = &third};
  const tsr_ranges first = {LIST(IN(int32_t, 0, 6), IN(int32_t, 8, 12), IN(int32_t, 20, 33), IN(int32_t, 35, 99)),
                            .also = &second};
  tsr_spans s = make_chain(state, TSR_INT32, &first);
  check_int32(&s, 6, (const int32_t[]){5, 6, 8, 8, 10, 12, 20, 25, 30, 33, 35, 39});

  const tsr_ranges any = {.all = true}, all_also = {.all = true, .also = &third},
                   also_all = {LIST(IN(int32_t, 1, 2)), .also = &any};
  s = make_chain(state, TSR_INT32, &all_also);
  check_int32(&s, 1, (const int32_t[]){INT32_MIN, 39});
  s = make_chain(state, TSR_INT32, &also_all);
  check_int32(&s, 1, (const int32_t[]){1, 2});
  const tsr_ranges nothing = {LIST(IN(int32_t, 50, 60)), .also = &third};
  s = make_chain(state, TSR_INT32, &nothing);
  check_int32(&s, 0, NULL);
}

static void test_intersections_of_ranges_of_strings(void **state) {
  const tsr_ranges second = {LIST(T("c", "e"), T("k", "k"), {.low = "p", .low_size = 1})};
  const tsr_ranges first = {
      LIST(T("a", "c"), {.low = "d", .low_size = 1, .high = "k", .high_size = 1, .high_exclusive = true}, T("q", "r")),
      .also = &second};
  tsr_spans s = make_chain(state, TSR_ASCII, &first);
  assert_int_equal(s.count, 3);
  assert_true(has(&s, "c") && has(&s, "d") && has(&s, "e") && has(&s, "q") && has(&s, "r"));
  assert_false(has(&s, "b") || has(&s, "ca") || has(&s, "ea") || has(&s, "k") || has(&s, "p") || has(&s, "ra"));
}

/* ---- Long lists, no memory ---- */

static void test_long_lists_of_ranges_are_sorted(void **state) {
  enum { COUNT = 5000 };
  static int32_t points[COUNT];
  static tsr_range ranges[COUNT];
  for (int order = 0; order < 3; order++) { /* rising, falling, shuffled; every third value */
    for (int i = 0; i < COUNT; i++) {
      points[i] = 3 * (order == 0 ? i : order == 1 ? COUNT - 1 - i : (int)((uint32_t)i * 2477u % COUNT));
      ranges[i] = (tsr_range){.low = &points[i], .high = &points[i]};
    }
    tsr_spans s = make(state, TSR_INT32, ranges, COUNT);
    assert_int_equal(s.count, COUNT);
    const int32_t zero = 0;
    for (uint64_t i = 0; i < COUNT; i++) assert_true(s.spans[i].low == tsr__key(TSR_INT32, &zero) + 3 * i);
  }
}

static void test_spans_past_the_budget_fail(void **state) {
  fixture *f = *state;
  const tsr_range ranges[] = {T("some text", "some text to copy"), T("z", "zz")};
  tsr_field field = dimension(TSR_ASCII);
  int failed = 0;
  for (uint64_t limit = 0; limit < 8192; limit += 16) {
    tsr_memory memory;
    tsr__memory_init(&memory, &f->root, limit, "budget");
    tsr_arena arena;
    tsr__arena_init(&arena, &memory);
    tsr_spans s = {.count = 99};
    tsr_error error = {0};
    int code = tsr__spans_make(&field, &(tsr_ranges){.ranges = ranges, .count = 2}, &arena, &s, &error);
    if (code < 0) {
      failed++;
      assert_int_equal(code, TSR_BUDGET);
      assert_int_equal(s.count, 99); /* unchanged */
    } else {
      assert_int_equal(s.count, 2);
    }
    tsr__arena_release(&arena);
  }
  assert_true(failed > 0 && failed < 512);
}

/* ---- Grids ---- */

#define SIDE(type, code, from, to, step) side(code, &(const type){from}, &(const type){to}, &(const type){step})

static tsr_field side(tsr_datatype datatype, const void *low, const void *high, const void *extent) {
  tsr_field field = dimension(datatype);
  uint64_t size = tsr_datatype_size(datatype);
  field.has_domain = true;
  memcpy(field.low, low, size);
  memcpy(field.high, high, size);
  uint64_t step = 0;
  memcpy(&step, extent, size);
  field.has_extent = step != 0;
  memcpy(field.extent, extent, size);
  return field;
}

static int grid_of(void **state, tsr_field *fields, uint32_t count, tsr_grid *grid, tsr_error *error) {
  fixture *f = *state;
  tsr_schema schema = {.dense = true, .dimension_count = count, .fields = fields};
  return tsr__grid_make(&schema, &f->arena, grid, error);
}

static void test_grids_number_cells_in_tiles(void **state) {
  fixture *f = *state;
  tsr_field fields[] = {SIDE(int32_t, TSR_INT32, -5, 4, 4), SIDE(int32_t, TSR_INT32, 1, 3, 2),
                        SIDE(int32_t, TSR_INT32, 0, 99, 0)};
  tsr_schema schema = {.dense = true, .dimension_count = 3, .fields = fields};
  tsr_grid grid;
  assert_int_equal(tsr__grid_make(&schema, &f->arena, &grid, NULL), TSR_OK);
  assert_int_equal(grid.dimensions, 3);
  assert_true(grid.last[0] == 9 && grid.last[1] == 2 && grid.last[2] == 99);
  /* Without an extent the domain is one tile. */
  assert_true(grid.extent[0] == 4 && grid.extent[1] == 2 && grid.extent[2] == 100);
  assert_int_equal(grid.tile_cells, 800);
  const int32_t value = 2;
  assert_true(tsr__key(TSR_INT32, &value) == grid.low_key[0] + 7);
  assert_int_equal(tsr__grid_cell(&grid, (const uint64_t[]){0, 0, 0}), 0);
  assert_int_equal(tsr__grid_cell(&grid, (const uint64_t[]){9, 1, 57}), (1 * 2 + 1) * 100 + 57);
  assert_int_equal(tsr__grid_cell(&grid, (const uint64_t[]){7, 2, 99}), 3 * 200 + 99);
  schema.cell_order = TSR_ORDER_COL;
  schema.tile_order = TSR_ORDER_COL;
  assert_int_equal(tsr__grid_make(&schema, &f->arena, &grid, NULL), TSR_OK);
  assert_true(grid.col_major_cells && grid.col_major_tiles);
  assert_int_equal(tsr__grid_cell(&grid, (const uint64_t[]){9, 1, 57}), 1 + 4 * (1 + 2 * 57));

  tsr_field small = SIDE(int8_t, TSR_INT8, -128, 126, 0);
  assert_int_equal(grid_of(state, &small, 1, &grid, NULL), TSR_OK);
  assert_true(grid.extent[0] == 255 && grid.last[0] == 254);
  small = (tsr_field)SIDE(int8_t, TSR_INT8, -128, 126, -1); /* extents are unsigned */
  assert_int_equal(grid_of(state, &small, 1, &grid, NULL), TSR_OK);
  assert_int_equal(grid.extent[0], 255);
  tsr_field wide = SIDE(int64_t, TSR_DATETIME_DAY, INT64_MIN, INT64_MAX, 1000);
  assert_int_equal(grid_of(state, &wide, 1, &grid, NULL), TSR_OK);
  assert_true(grid.last[0] == UINT64_MAX && grid.extent[0] == 1000);
  tsr_field over = SIDE(uint16_t, TSR_UINT16, 5, 9, 100); /* an extent larger than the domain */
  assert_int_equal(grid_of(state, &over, 1, &grid, NULL), TSR_OK);
  assert_int_equal(grid.tile_cells, 100);
}

static void refuse(void **state, tsr_field *fields, uint32_t count, int code, const char *message) {
  tsr_grid grid = {.dimensions = 99};
  tsr_error error = {0};
  assert_int_equal(grid_of(state, fields, count, &grid, &error), code);
  assert_string_equal(error.message, message);
  assert_int_equal(grid.dimensions, 99);
}

static void test_impossible_grids_are_refused(void **state) {
  tsr_field f[] = {SIDE(int32_t, TSR_INT32, 0, INT32_MAX, 65536), SIDE(int32_t, TSR_INT32, 0, INT32_MAX, 65536)};
  refuse(state, f, 2, TSR_UNSUPPORTED, "tiles of 4294967296 cells; no more than 4294967295 can be read");
  tsr_grid grid;
  f[1] = SIDE(int32_t, TSR_INT32, 0, INT32_MAX, 65535);
  assert_int_equal(grid_of(state, f, 2, &grid, NULL), TSR_OK);
  f[0] = f[1] = SIDE(uint64_t, TSR_UINT64, 0, UINT64_MAX - 1, UINT64_MAX);
  refuse(state, f, 2, TSR_UNSUPPORTED, "tiles of more than 18446744073709551615 cells");
  f[0] = SIDE(uint64_t, TSR_UINT64, 0, UINT64_MAX, 0);
  refuse(state, f, 1, TSR_UNSUPPORTED, "dimension 'd': a tile as large as the domain of 2^64 cells");
  f[0] = SIDE(int32_t, TSR_INT32, 5, 4, 1);
  refuse(state, f, 1, TSR_CORRUPT, "dimension 'd': the domain's low end is above its high end");
  f[0] = SIDE(int32_t, TSR_INT32, 0, 9, 0);
  f[0].has_extent = true;
  refuse(state, f, 1, TSR_CORRUPT, "dimension 'd': the tile extent is not positive");
  f[0].has_domain = false;
  refuse(state, f, 1, TSR_CORRUPT, "dimension 'd': a dense array needs a domain");
  f[0] = SIDE(double, TSR_FLOAT64, 0, 9, 1);
  refuse(state, f, 1, TSR_CORRUPT, "dimension 'd': a dense array cannot have the datatype FLOAT64");
  f[0] = dimension(TSR_ASCII);
  refuse(state, f, 1, TSR_CORRUPT, "dimension 'd': a dense array cannot have the datatype ASCII");
  refuse(state, f, 0, TSR_CORRUPT, "a dense array cannot have 0 dimensions");
}

/* ---- Clipping ---- */

/* Spans that have been made by hand: those behind `count` must not be looked at. */
static void test_spans_are_clipped_to_an_interval(void **state) {
  fixture *f = *state;
  const tsr_field field = dimension(TSR_UINT8);
  tsr_span list[] = {{10, 20}, {30, 40}, {50, 60}};
  static const struct {
    uint64_t low, high, listed, count, first, last; /* `count` spans from `first` to `last` */
  } cases[] = {
      {0, 100, 1, 1, 10, 20}, {0, 100, 2, 2, 10, 40},  {0, 100, 0, 0, 0, 0}, {0, 15, 1, 1, 10, 15},
      {15, 15, 1, 1, 15, 15}, {20, 30, 2, 2, 20, 30},  {21, 29, 2, 0, 0, 0}, {0, 9, 2, 0, 0, 0},
      {41, 300, 2, 0, 0, 0},  {40, 300, 2, 1, 40, 40}, {12, 11, 2, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const tsr_spans spans = {.spans = list, .count = cases[i].listed};
    tsr_spans out;
    assert_int_equal(tsr__spans_clip(&field, &spans, cases[i].low, cases[i].high, &f->arena, &out, NULL), TSR_OK);
    if (out.count != cases[i].count ||
        (out.count && (out.spans[0].low != cases[i].first || out.spans[out.count - 1].high != cases[i].last)))
      fail_msg("case %d: %d spans", (int)i, (int)out.count);
  }
  const tsr_spans all = {.all = true};
  tsr_spans out;
  assert_int_equal(tsr__spans_clip(&field, &all, 0, 300, &f->arena, &out, NULL), TSR_OK);
  assert_true(out.count == 1 && out.spans[0].low == 0 && out.spans[0].high == UINT8_MAX);
}

static void test_spans_of_strings_are_clipped_to_a_range(void **state) {
  fixture *f = *state;
  const tsr_field field = dimension(TSR_ASCII);
  tsr_text_span list[2] = {{.low = (uint8_t *)"b", .low_size = 1, .high = (uint8_t *)"d", .high_size = 1},
                           {.low = (uint8_t *)"m", .low_size = 1, .high = (uint8_t *)"p", .high_size = 1}};
  static const struct {
    const char *low, *high;
    uint64_t listed, count;
  } cases[] = {{"a", "z", 1, 1}, {"a", "z", 2, 2}, {"a", "z", 0, 0}, {"a", "c", 1, 1}, {"e", "l", 2, 0},
               {"d", "m", 2, 2}, {"a", "a", 2, 0}, {"q", "z", 2, 0}, {"p", "z", 2, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const tsr_spans spans = {.text = true, .texts = list, .count = cases[i].listed};
    const tsr_range range = {.low = cases[i].low, .low_size = 1, .high = cases[i].high, .high_size = 1};
    tsr_spans out;
    assert_int_equal(tsr__spans_clip_text(&field, &spans, &range, &f->arena, &out, NULL), TSR_OK);
    if (out.count != cases[i].count) fail_msg("case %d: %d spans", (int)i, (int)out.count);
  }
}

/* ---- Sets of boxes ---- */

/* Adds boxes to a set, cuts others from it, and compares it with a bitmap of a small grid: no cell is lost, none is in
 * two boxes. */
static void test_sets_of_boxes_have_the_cells_of_a_bitmap(void **state) {
  enum { SIDE_OF_GRID = 6, STEPS = 400 };
  fixture *f = *state;
  uint32_t random = 4711;
  tsr_box_set set = {.dimensions = 2, .ends.memory = &f->memory};
  bool expected[SIDE_OF_GRID][SIDE_OF_GRID] = {{false}};
  for (int step = 0; step < STEPS; step++) {
    uint64_t low[2], high[2];
    for (int d = 0; d < 2; d++) {
      random = random * 1664525 + 1013904223;
      low[d] = (random >> 16) % SIDE_OF_GRID;
      high[d] = low[d] + (random >> 24) % (SIDE_OF_GRID - low[d]);
    }
    const bool add = step % 3 != 2;
    bool had = false;
    for (uint64_t y = low[0]; y <= high[0]; y++)
      for (uint64_t x = low[1]; x <= high[1]; x++) {
        had |= expected[y][x];
        expected[y][x] = add;
      }
    if (add) assert_int_equal(tsr__box_set_add(&set, low, high, NULL), TSR_OK);
    else assert_int_equal(tsr__box_set_cut(&set, low, high, NULL), had);

    int cells[SIDE_OF_GRID][SIDE_OF_GRID] = {{0}};
    uint64_t count = 0;
    const uint64_t *box = (const uint64_t *)(const void *)set.ends.data;
    for (uint64_t i = 0; i < tsr__box_set_count(&set); i++, box += 4)
      for (uint64_t y = box[0]; y <= box[1]; y++)
        for (uint64_t x = box[2]; x <= box[3]; x++) cells[y][x]++;
    for (int y = 0; y < SIDE_OF_GRID; y++)
      for (int x = 0; x < SIDE_OF_GRID; x++) {
        if (cells[y][x] != expected[y][x]) fail_msg("step %d: cell %d, %d is in %d boxes", step, y, x, cells[y][x]);
        count += (uint64_t)expected[y][x];
      }
    assert_int_equal(tsr__box_set_cells(&set), count);
    if (step % 50 == 49) set.ends.size = 0, memset(expected, 0, sizeof expected); /* begin again with an empty set */
  }
  tsr__buffer_release(&set.ends);
}

/* Boxes that touch in one dimension, and are equal in the others, become one; boxes at the ends of 64 bits count. */
static void test_boxes_that_touch_are_joined(void **state) {
  fixture *f = *state;
  static const struct {
    uint64_t a[4], b[4]; /* low and high, for each of two dimensions */
    uint64_t count;
  } cases[] = {
      {{0, 3, 0, 1}, {4, 9, 0, 1}, 1},
      {{4, 9, 0, 1}, {0, 3, 0, 1}, 1},
      {{0, 3, 0, 1}, {5, 9, 0, 1}, 2},
      {{5, 9, 0, 1}, {0, 3, 0, 1}, 2},
      {{0, 3, 0, 1}, {4, 9, 0, 2}, 2},
      {{0, 3, 0, 1}, {0, 3, 2, 2}, 1},
      {{0, 0, 0, 0}, {UINT64_MAX, UINT64_MAX, 0, 0}, 2},
      {{UINT64_MAX, UINT64_MAX, 0, 0}, {0, 0, 0, 0}, 2},
      {{0, 3, 0, 1}, {0, 3, 0, 1}, 1},
      {{0, 3, 0, 1}, {1, 2, 0, 0}, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_box_set set = {.dimensions = 2, .ends.memory = &f->memory};
    const uint64_t *a = cases[i].a, *b = cases[i].b;
    assert_int_equal(tsr__box_set_add(&set, (uint64_t[]){a[0], a[2]}, (uint64_t[]){a[1], a[3]}, NULL), TSR_OK);
    assert_int_equal(tsr__box_set_add(&set, (uint64_t[]){b[0], b[2]}, (uint64_t[]){b[1], b[3]}, NULL), TSR_OK);
    if (tsr__box_set_count(&set) != cases[i].count)
      fail_msg("case %d: %d boxes", (int)i, (int)tsr__box_set_count(&set));
    tsr__buffer_release(&set.ends);
  }
  tsr_box_set set = {.dimensions = 2, .ends.memory = &f->memory};
  assert_int_equal(tsr__box_set_add(&set, (uint64_t[]){0, 0}, (uint64_t[]){UINT64_MAX, UINT64_MAX}, NULL), TSR_OK);
  assert_true(tsr__box_set_cells(&set) == UINT64_MAX);
  tsr__buffer_release(&set.ends);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {TEST(test_ranges_of_integers_become_sorted_spans),
                                     TEST(test_ranges_at_the_limits_of_a_type),
                                     TEST(test_ranges_of_floats_exclude_nan),
                                     TEST(test_intervals_relate_to_spans),
                                     TEST(test_intervals_of_floats_may_hide_nans),
                                     TEST(test_select_int8),
                                     TEST(test_select_int16),
                                     TEST(test_select_int32),
                                     TEST(test_select_int64),
                                     TEST(test_select_uint8),
                                     TEST(test_select_uint16),
                                     TEST(test_select_uint32),
                                     TEST(test_select_uint64),
                                     TEST(test_select_float32),
                                     TEST(test_select_float64),
                                     TEST(test_minus_zero_is_selected_with_zero),
                                     TEST(test_bounds_of_strings_are_exact),
                                     TEST(test_ranges_of_strings_are_merged),
                                     TEST(test_strings_are_copied_into_the_arena),
                                     TEST(test_intervals_of_strings_relate_to_spans),
                                     TEST(test_strings_are_selected),
                                     TEST(test_intersections_of_ranges),
                                     TEST(test_intersections_of_ranges_of_strings),
                                     TEST(test_long_lists_of_ranges_are_sorted),
                                     TEST(test_spans_past_the_budget_fail),
                                     TEST(test_grids_number_cells_in_tiles),
                                     TEST(test_impossible_grids_are_refused),
                                     TEST(test_spans_are_clipped_to_an_interval),
                                     TEST(test_spans_of_strings_are_clipped_to_a_range),
                                     TEST(test_sets_of_boxes_have_the_cells_of_a_bitmap),
                                     TEST(test_boxes_that_touch_are_joined),
                                     TEST(test_cells_of_every_width_are_selected)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
