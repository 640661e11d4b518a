/* test_order.c: tile numbers, finding a cell, and Hilbert codes. Codes in the tables are of cells whose order in arrays written by
 * TileDB 2.30 (some by 2.3 to 2.25) these codes explain. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "model/domain.h"

static void set(tsr_field *field, tsr_datatype datatype, const void *low, const void *high, const void *extent) {
  *field = (tsr_field){.is_dimension = true, .datatype = datatype, .values_per_cell = low ? 1 : TSR_VARIABLE};
  uint64_t size = tsr_datatype_size(datatype);
  if (low) {
    field->has_domain = true;
    memcpy(field->low, low, size);
    memcpy(field->high, high, size);
  }
  if (extent) {
    field->has_extent = true;
    memcpy(field->extent, extent, size);
  }
}

#define SET(field, datatype, type, low, high, extent)                                                                  \
  set(field, datatype, &(const type){low}, &(const type){high}, &(const type){extent})

#define TILE(field, type, value) tsr__tile_number(field, &(const type){value})

static void test_tile_numbers_of_integers(void **state) {
  tsr_field f;
  SET(&f, TSR_INT8, int8_t, -128, 126, 5);
  assert_true(TILE(&f, int8_t, -128) == 0 && TILE(&f, int8_t, -124) == 0 && TILE(&f, int8_t, -123) == 1);
  assert_true(TILE(&f, int8_t, 126) == 50);
  SET(&f, TSR_INT64, int64_t, INT64_MIN, INT64_MAX - 100, 100);
  assert_true(TILE(&f, int64_t, INT64_MAX - 100) == (UINT64_MAX - 100) / 100);
  SET(&f, TSR_UINT64, uint64_t, 7, UINT64_MAX - 1, 1);
  assert_true(TILE(&f, uint64_t, 7) == 0 && TILE(&f, uint64_t, UINT64_MAX - 1) == UINT64_MAX - 8);
  SET(&f, TSR_DATETIME_DAY, int64_t, -10, 1000, 7);
  assert_true(TILE(&f, int64_t, -4) == 0 && TILE(&f, int64_t, -3) == 1);
  SET(&f, TSR_INT32, int32_t, 0, 9, 0); /* an extent of 0: no schema has it, but there must be no division by it */
  assert_true(TILE(&f, int32_t, 5) == 0);
  set(&f, TSR_INT32, &(int32_t){0}, &(int32_t){9}, NULL);
  assert_true(TILE(&f, int32_t, 5) == 0);
  set(&f, TSR_ASCII, NULL, NULL, NULL);
  assert_true(tsr__tile_number(&f, "abc") == 0);
}

static void test_tile_numbers_of_floats_match_x86_64(void **state) {
  tsr_field f;
  SET(&f, TSR_FLOAT64, double, 0, 1e300, 1);
  assert_true(TILE(&f, double, 0.99) == 0 && TILE(&f, double, 1) == 1 && TILE(&f, double, 5.5) == 5);
  assert_true(TILE(&f, double, 9223372036854775808.0) == UINT64_C(1) << 63);
  assert_true(TILE(&f, double, 1.5e19) == UINT64_C(15000000000000000000));
  assert_true(TILE(&f, double, 18446744073709549568.0) == UINT64_MAX - 2047);
  /* stored order: these come before 1.0 */
  assert_true(TILE(&f, double, 18446744073709551616.0) == 0 && TILE(&f, double, 1e25) == 0);
  assert_true(TILE(&f, double, INFINITY) == 0);
  /* stored order: NaN comes after 9e18 */
  assert_true(TILE(&f, double, NAN) == UINT64_C(1) << 63);
  assert_true(TILE(&f, double, -3.5) == UINT64_MAX - 2 && TILE(&f, double, -1e300) == UINT64_C(1) << 63);

  SET(&f, TSR_FLOAT32, float, 0, 1000, 0.1f);
  /* in double they would be 4 and 9 */
  assert_true(TILE(&f, float, 0.5f) == 5 && TILE(&f, float, 1.0f) == 10);
}

typedef struct value {
  const char *text; /* of string dimensions */
  uint64_t size;
  double number;
} value;

static uint64_t code_of(const tsr_field *fields, uint32_t count, const value *values) {
  tsr_schema schema = {.dimension_count = count, .fields = (tsr_field *)fields};
  uint8_t bytes[16][8];
  const void *pointers[16];
  uint64_t sizes[16];
  for (uint32_t d = 0; d < count; d++) {
    pointers[d] = bytes[d];
    sizes[d] = values[d].size;
    switch (fields[d].datatype) {
    case TSR_ASCII: pointers[d] = values[d].text; break;
    case TSR_FLOAT32: memcpy(bytes[d], &(float){(float)values[d].number}, 4); break;
    case TSR_FLOAT64: memcpy(bytes[d], &values[d].number, 8); break;
    default: tsr__store64(bytes[d], (uint64_t)(int64_t)values[d].number);
    }
  }
  return tsr__hilbert_code(&schema, pointers, sizes);
}

#define N(x)                                                                                                           \
  { NULL, 0, x }
#define S(text)                                                                                                        \
  { text, sizeof text - 1, 0 }

static void test_hilbert_codes_of_two_integers(void **state) {
  tsr_field f[2];
  SET(&f[0], TSR_INT32, int32_t, -50, 49, 100);
  SET(&f[1], TSR_INT32, int32_t, 1, 64, 64);
  static const struct {
    value v[2];
    uint64_t code;
  } cells[] = {{{N(-50), N(1)}, 0},
               {{N(-28), N(12)}, UINT64_C(0x02cc26e8e42cc26e)},
               {{N(-1), N(14)}, UINT64_C(0x0699272784177322)},
               {{N(9), N(33)}, UINT64_C(0x20f39a703d152efc)},
               {{N(49), N(64)}, UINT64_C(0x2aaaaaaaaaaaaaaa)},
               {{N(0), N(1)}, UINT64_C(0x3aaac413bffec53a)},
               {{N(25), N(7)}, UINT64_C(0x3cf05a405ff900ae)}};
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) assert_true(code_of(f, 2, cells[i].v) == cells[i].code);
}

static void test_hilbert_codes_of_strings(void **state) {
  tsr_field f[2];
  set(&f[0], TSR_ASCII, NULL, NULL, NULL);
  SET(&f[1], TSR_FLOAT32, float, -1, 1, 2);
  static const struct {
    value v[2];
    uint64_t code;
  } cells[] = {{{S(""), N(-0.90782017)}, UINT64_C(0x0013fc3c3abeafff)},
               {{S("_bYcX"), N(-0.98243135)}, UINT64_C(0x04fc6454f7904a56)},
               {{S("aa"), N(0.571031)}, UINT64_C(0x1b9a25c5903b1555)},
               {{S("YYbXb"), N(0.004610304)}, UINT64_C(0x1efade1f2f68a65f)},
               {{S("a\x80"
                   "b"),
                 N(0.5)},
                UINT64_C(0x2c000ffff0feffff)},
               {{S("longer than eight"), N(-1)}, UINT64_C(0x053c053fc53fafaf)}};
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) assert_true(code_of(f, 2, cells[i].v) == cells[i].code);

  /* one dimension has 63 bits; a byte from 0x80 on sets all bits before it */
  static const struct {
    value v;
    uint64_t code;
  } alone[] = {{S(""), 0},
               {S("a"), UINT64_C(0x3080000000000000)},
               {S("b"), UINT64_C(0x3100000000000000)},
               {S("\x80"), UINT64_C(0x4000000000000000)},
               {S("z\xff"), UINT64_C(0x7fff800000000000)}};
  for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) assert_true(code_of(f, 1, &alone[i].v) == alone[i].code);
}

static void test_hilbert_codes_of_one_dimension(void **state) {
  tsr_field f;
  SET(&f, TSR_INT64, int64_t, 0, INT64_MAX - 1, 1);
  assert_true(code_of(&f, 1, &(value)N(0)) == 0 && code_of(&f, 1, &(value)N(5)) == 5);
  assert_true(code_of(&f, 1, &(value)N(4611686018427387904.0)) == UINT64_C(1) << 62);
  const int64_t last = INT64_MAX - 1; /* the value's bucket is 2^63 */
  tsr_schema schema = {.dimension_count = 1, .fields = &f};
  assert_true(tsr__hilbert_code(&schema, (const void *const[]){&last}, NULL) == INT64_MAX);
}

/* A domain of one value makes a division of 0 by 0, a domain wider than the largest double one by infinity. */
static void test_hilbert_codes_of_degenerate_domains(void **state) {
  tsr_field f[2];
  SET(&f[0], TSR_INT32, int32_t, 5, 5, 1);
  SET(&f[1], TSR_INT32, int32_t, 0, 100, 10);
  static const struct {
    double v;
    uint64_t code;
  } cells[] = {{0, 0},
               {3, UINT64_C(0x000ff13faac40ff1)},
               {20, UINT64_C(0x0141414141414141)},
               {50, UINT64_C(0x0fffffffffffffff)},
               {100, UINT64_C(0x1555555555555555)}};
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
    assert_true(code_of(f, 2, (value[]){N(5), N(cells[i].v)}) == cells[i].code);

  SET(&f[0], TSR_FLOAT64, double, -1.7e308, 1.7e308, 1);
  assert_true(code_of(f, 1, &(value)N(0)) == 0 && code_of(f, 1, &(value)N(-1e308)) == 0);
  assert_true(code_of(f, 1, &(value)N(1e308)) == INT64_MAX);
  assert_true(code_of(f, 2, (value[]){N(1e308), N(100)}) == cells[4].code);
}

static void test_hilbert_codes_of_four_types(void **state) {
  tsr_field f[4];
  SET(&f[0], TSR_DATETIME_DAY, int64_t, 0, 20000, 10);
  SET(&f[1], TSR_INT16, int16_t, -100, 100, 10);
  SET(&f[2], TSR_FLOAT64, double, 0, 1, 1);
  SET(&f[3], TSR_UINT8, uint8_t, 0, 250, 10);
  assert_true(code_of(f, 4, (value[]){N(0), N(0), N(0.5), N(7)}) == UINT64_C(0x002222dddaad252d));
  assert_true(code_of(f, 4, (value[]){N(19999), N(-100), N(0.25), N(250)}) == UINT64_C(0x0ee95555555555a5));
  assert_true(code_of(f, 4, (value[]){N(12345), N(77), N(0.999), N(1)}) == UINT64_C(0x0baac2234a855a90));
}

/* What makes it a Hilbert curve: seen on a coarse grid of 2^level cells a side, the upper bits of the codes number the
 * cells without a gap, from the origin, and cells that follow each other are neighbours. */
static void check_walk(uint32_t dimensions, unsigned level) {
  tsr_field f[16];
  for (uint32_t d = 0; d < dimensions; d++) SET(&f[d], TSR_FLOAT64, double, 0, 1, 1);
  unsigned side = 1u << level, cells = 1u << (level * dimensions), bits = 63 / dimensions * dimensions;
  int *at = test_malloc(cells * sizeof *at); /* for each position on the curve the number of its cell + 1 */
  memset(at, 0, cells * sizeof *at);
  for (unsigned cell = 0; cell < cells; cell++) {
    value v[16] = {{0}};
    for (uint32_t d = 0; d < dimensions; d++) v[d].number = ((cell >> (level * d) & (side - 1)) + 0.5) / side;
    uint64_t place = code_of(f, dimensions, v) >> (bits - level * dimensions);
    assert_true(place < cells && at[place] == 0);
    at[place] = (int)cell + 1;
  }
  assert_int_equal(at[0], 1);
  for (unsigned place = 1; place < cells; place++) {
    unsigned from = (unsigned)at[place - 1] - 1, to = (unsigned)at[place] - 1, steps = 0;
    for (uint32_t d = 0; d < dimensions; d++)
      steps += (unsigned)abs((int)(from >> (level * d) & (side - 1)) - (int)(to >> (level * d) & (side - 1)));
    assert_int_equal(steps, 1);
  }
  test_free(at);
}

static void test_neighbours_on_the_curve_are_neighbours_in_space(void **state) {
  check_walk(1, 8);
  check_walk(2, 5);
  check_walk(3, 4);
  check_walk(4, 3);
  check_walk(7, 2);
  check_walk(12, 1);
  check_walk(16, 1); /* 3 bits for each dimension */
}

static void test_too_many_dimensions_have_one_code(void **state) {
  static tsr_field f[64];
  static const double half = 0.5;
  static const void *pointers[64];
  for (int d = 0; d < 64; d++) {
    SET(&f[d], TSR_FLOAT64, double, 0, 1, 1);
    pointers[d] = &half;
  }
  tsr_schema schema = {.dimension_count = 64, .fields = f};
  assert_true(tsr__hilbert_code(&schema, pointers, NULL) == 0);
  schema.dimension_count = 63;
  tsr__hilbert_code(&schema, pointers, NULL);
  schema.dimension_count = 0;
  assert_true(tsr__hilbert_code(&schema, pointers, NULL) == 0);
}

/* Codes of many cells at once equal the codes of single cells. */
static void test_many_codes_at_once_equal_single_codes(void **state) {
  static tsr_field f[3];
  static int64_t integers[200];
  static double reals[200];
  static uint8_t bytes[200];
  uint64_t seed = 99;
  SET(&f[0], TSR_INT64, int64_t, -1000, 1000000, 10);
  SET(&f[1], TSR_FLOAT64, double, -2.5, 1e6, 1);
  SET(&f[2], TSR_UINT8, uint8_t, 3, 250, 1);
  for (int i = 0; i < 200; i++) {
    seed = seed * UINT64_C(6364136223846793005) + 1;
    integers[i] = i == 7 ? -1000 : i == 8 ? 1000000 : (int64_t)(seed >> 33) % 1001001 - 1000;
    reals[i] = i == 7 ? -2.5 : i == 8 ? 1e6 : i == 9 ? (double)NAN : (double)(seed >> 40) / 16777216 * 1e6;
    bytes[i] = (uint8_t)(3 + (seed >> 20) % 248);
  }
  const void *const columns[3] = {integers, reals, bytes};
  for (uint32_t first = 0; first < 3; first++)
    for (uint32_t n = 1; n <= 3 - first; n++) {
      static const uint64_t counts[] = {0, 1, 7, 8, 9, 63, 64, 65, 200};
      const tsr_schema schema = {.dimension_count = n, .fields = f + first};
      for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        uint64_t codes[201];
        codes[counts[c]] = 12345;
        tsr__hilbert_codes(&schema, columns + first, counts[c], codes);
        assert_true(codes[counts[c]] == 12345);
        for (uint64_t i = 0; i < counts[c]; i++) {
          const void *const cell[3] = {&integers[i], &reals[i], &bytes[i]};
          assert_true(codes[i] == tsr__hilbert_code(&schema, cell + first, NULL));
        }
      }
    }
}

/* ---- Finding a cell ---------------------------------------------------------------------------------------------- */

enum { SOUGHT = 600 };

typedef struct sought_cell {
  int32_t x;
  double y;
  char text[4];
} sought_cell;

static const tsr_schema *sought_schema;

static int by_dimension(const sought_cell *a, const sought_cell *b, uint32_t d) {
  if (d == 0) return (a->x > b->x) - (a->x < b->x);
  return d == 1 ? (a->y > b->y) - (a->y < b->y) : strcmp(a->text, b->text);
}

static int in_global_order(const void *p, const void *q) {
  const sought_cell *a = p, *b = q;
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t d = sought_schema->tile_order == TSR_ORDER_COL ? 1 - i : i;
    const uint64_t s = tsr__tile_number(&sought_schema->fields[d], d ? (const void *)&a->y : (const void *)&a->x),
                   t = tsr__tile_number(&sought_schema->fields[d], d ? (const void *)&b->y : (const void *)&b->x);
    if (s != t) return s > t ? 1 : -1;
  }
  for (uint32_t i = 0; i < 3; i++) {
    const int order = by_dimension(a, b, sought_schema->cell_order == TSR_ORDER_COL ? 2 - i : i);
    if (order) return order;
  }
  return 0;
}

/* Each cell of a tile is found at its place, in each combination of orders. Others are not found. */
static void test_cells_are_found_in_global_order(void **state) {
  static tsr_field f[3];
  static sought_cell cells[SOUGHT], all[SOUGHT];
  static int32_t x[SOUGHT];
  static double y[SOUGHT];
  static char bytes[4 * SOUGHT];
  static uint64_t offsets[SOUGHT + 1];
  uint64_t seed = 7;
  SET(&f[0], TSR_INT32, int32_t, -100, 99, 7);
  SET(&f[1], TSR_FLOAT64, double, -2, 3, 0.75);
  set(&f[2], TSR_ASCII, NULL, NULL, NULL);
  for (int i = 0; i < SOUGHT; i++) {
    seed = seed * UINT64_C(6364136223846793005) + 1;
    all[i] = (sought_cell){.x = (int32_t)(seed >> 40) % 40 - 100, .y = (double)(seed >> 50 & 15) / 4 - 2};
    snprintf(all[i].text, sizeof all[i].text, "%u", (unsigned)(seed >> 30 & 127));
  }
  for (int orders = 0; orders < 4; orders++) {
    const tsr_schema schema = {.dimension_count = 3,
                               .fields = f,
                               .tile_order = orders & 1 ? TSR_ORDER_COL : TSR_ORDER_ROW,
                               .cell_order = orders & 2 ? TSR_ORDER_COL : TSR_ORDER_ROW};
    uint32_t count = 0, at;
    sought_schema = &schema;
    memcpy(cells, all, sizeof cells);
    qsort(cells, SOUGHT, sizeof *cells, in_global_order);
    for (int i = 0; i < SOUGHT; i++) { /* each coordinates once, and some of them not at all */
      if ((i > 0 && in_global_order(&cells[i - 1], &cells[i]) == 0) || cells[i].x % 5 == 0) continue;
      x[count] = cells[i].x;
      y[count] = cells[i].y;
      strcpy(bytes + offsets[count], cells[i].text);
      offsets[count + 1] = offsets[count] + strlen(cells[i].text);
      count++;
    }
    for (int i = 0; i < SOUGHT; i++) {
      const tsr_point_column columns[3] = {
          {.dimension = 0, .values = (uint8_t *)x, .sought = &all[i].x},
          {.dimension = 1, .values = (uint8_t *)y, .sought = &all[i].y},
          {.dimension = 2, .values = (uint8_t *)bytes, .offsets = offsets, all[i].text, strlen(all[i].text)}};
      const bool found = tsr__global_order_find(&schema, columns, 3, count, &at);
      assert_int_equal(found, all[i].x % 5 != 0);
      if (!found) continue;
      assert_true(at < count && x[at] == all[i].x && y[at] == all[i].y);
      assert_memory_equal(bytes + offsets[at], all[i].text, offsets[at + 1] - offsets[at]);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tile_numbers_of_integers),
                                     cmocka_unit_test(test_tile_numbers_of_floats_match_x86_64),
                                     cmocka_unit_test(test_hilbert_codes_of_two_integers),
                                     cmocka_unit_test(test_hilbert_codes_of_strings),
                                     cmocka_unit_test(test_hilbert_codes_of_one_dimension),
                                     cmocka_unit_test(test_hilbert_codes_of_degenerate_domains),
                                     cmocka_unit_test(test_hilbert_codes_of_four_types),
                                     cmocka_unit_test(test_neighbours_on_the_curve_are_neighbours_in_space),
                                     cmocka_unit_test(test_too_many_dimensions_have_one_code),
                                     cmocka_unit_test(test_many_codes_at_once_equal_single_codes),
                                     cmocka_unit_test(test_cells_are_found_in_global_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
