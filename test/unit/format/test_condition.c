/* test_condition.c: which cells conditions keep: by datatype, with nulls, sets, and attributes that a fragment lacks;
 * which conditions are refused. The expected results of the odd cases (CHAR of fixed size, OR with a lacking attribute,
 * sets of floats) were observed with TileDB 2.30.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/condition.h"
#include "format/fragment_metadata.h"
#include "format_test.h"

/* ---- Trees in their stored form ---------------------------------------------------------------------------------- */

static void put_comparison(bytes *b, uint8_t op, const char *field, const void *value, uint64_t size) {
  put8(b, 1), put8(b, op), put_text32(b, field), put64(b, size), put(b, value, size);
}
static void put_set(bytes *b, uint8_t op, const char *field, const void *values, uint64_t size, const uint64_t *offsets,
                    uint64_t count) {
  put_comparison(b, op, field, values, size);
  put64(b, 8 * count), put(b, offsets, 8 * count);
}
static void put_expression(bytes *b, uint8_t op, uint64_t count) { put8(b, 0), put8(b, op), put64(b, count); }
static void put_int(bytes *b, uint8_t op, const char *field, int32_t value) { put_comparison(b, op, field, &value, 4); }

static int decode(tsr_input in, tsr_arena *arena, tsr_error *error) {
  tsr_condition condition;
  return tsr__condition_decode(&in, "__1_1_aa", 1, arena, &condition, error);
}

/* ---- Columns ----------------------------------------------------------------------------------------------------- */

typedef struct cells {
  const char *name;
  tsr_field field;
  tsr_column column;
} cells;
typedef struct table {
  const cells *cells;
  int count, asked;
} table;

static int get_column(void *argument, const char *field, const tsr_field **description, const tsr_column **column,
                      tsr_error *error) {
  table *t = argument;
  t->asked++;
  for (int i = 0; i < t->count; i++) {
    if (strcmp(t->cells[i].name, field)) continue;
    *description = &t->cells[i].field;
    *column = &t->cells[i].column;
    return TSR_OK;
  }
  return tsr__fail(error, TSR_CORRUPT, "no field '%s'", field);
}

static cells fixed(const char *name, tsr_datatype datatype, uint32_t values, const void *data,
                   const uint8_t *validity) {
  uint64_t size = values * tsr_datatype_size(datatype);
  return (cells){name,
                 {.datatype = datatype, .values_per_cell = values, .cell_size = size, .nullable = validity != NULL},
                 {.values = data, .validity = validity, .cell_size = size}};
}
static cells variable(const char *name, tsr_datatype datatype, const char *data, const uint64_t *offsets,
                      const uint8_t *validity) {
  return (cells){name,
                 {.datatype = datatype, .values_per_cell = TSR_VARIABLE, .nullable = validity != NULL},
                 {.values = data, .offsets = offsets, .validity = validity}};
}

/* Evaluates a condition on all cells, and on a selection of them in reverse order; both must agree. Gives one digit for
 * each of up to 64 cells. */
static int evaluate(bytes *tree, const cells *columns, int count, uint64_t rows, char *kept, tsr_error *error) {
  room r;
  room_open(&r, UINT64_MAX);
  tsr_condition condition;
  tsr_input in = tsr__input(tree->data, tree->size);
  int code = tsr__condition_decode(&in, "__1_1_aa", 1, &r.arena, &condition, error);
  drop(tree); /* the condition must not borrow from the input */
  if (code >= 0) {
    table t = {columns, count, 0};
    uint8_t forward[64] = {0}, backward[64] = {0};
    uint32_t selection[64];
    uint64_t used = r.memory.used;
    for (uint64_t i = 0; i < rows; i++) selection[i] = (uint32_t)(rows - 1 - i);
    code = tsr__condition_evaluate(&condition, get_column, &t, NULL, rows, forward, &r.memory, error);
    if (code >= 0) {
      assert_int_equal(t.asked, condition.field_count);
      assert_int_equal(tsr__condition_evaluate(&condition, get_column, &t, selection, rows, backward, &r.memory, error),
                       TSR_OK);
      for (uint64_t i = 0; i < rows; i++) assert_int_equal(forward[i], backward[rows - 1 - i]);
    }
    assert_int_equal(r.memory.used, used);
    for (uint64_t i = 0; i < rows; i++) kept[i] = (char)('0' + forward[i]);
    kept[rows] = 0;
  }
  room_close(&r);
  return code;
}

static void assert_kept(bytes tree, const cells *columns, int count, const char *expected) {
  char kept[65];
  tsr_error error = {0};
  if (evaluate(&tree, columns, count, strlen(expected), kept, &error) < 0) fail_msg("%s", error.message);
  assert_string_equal(kept, expected);
}
static void assert_fails(bytes tree, const cells *columns, int count, uint64_t rows, int code, const char *says) {
  char kept[65];
  tsr_error error = {0};
  assert_int_equal(evaluate(&tree, columns, count, rows, kept, &error), code);
  if (!strstr(error.message, says)) fail_msg("%s", error.message);
}

static bytes comparison(uint8_t op, const char *field, const void *value, uint64_t size) {
  bytes b = {0};
  put_comparison(&b, op, field, value, size);
  return b;
}

/* ---- Comparisons ------------------------------------------------------------------------------------------------- */

/* Compares the cells least, 0, 1 and greatest of each datatype with 1. */
#define CHECK_NUMBERS(DATATYPE, TYPE, MIN, GREATEST)                                                                   \
  do {                                                                                                                 \
    const TYPE values[] = {MIN, 0, 1, GREATEST}, one = 1;                                                              \
    cells c = fixed("f", DATATYPE, 1, values, NULL);                                                                   \
    static const char *const expected[] = {"1100", "1110", "0001", "0011", "0010", "1101"};                            \
    for (uint8_t op = 0; op < 6; op++) assert_kept(comparison(op, "f", &one, sizeof one), &c, 1, expected[op]);        \
  } while (0)

static void test_numbers_compare(void **state) {
  CHECK_NUMBERS(TSR_INT8, int8_t, INT8_MIN, INT8_MAX);
  CHECK_NUMBERS(TSR_INT16, int16_t, INT16_MIN, INT16_MAX);
  CHECK_NUMBERS(TSR_INT32, int32_t, INT32_MIN, INT32_MAX);
  CHECK_NUMBERS(TSR_INT64, int64_t, INT64_MIN, INT64_MAX);
  CHECK_NUMBERS(TSR_UINT8, uint8_t, 0, UINT8_MAX);
  CHECK_NUMBERS(TSR_UINT16, uint16_t, 0, UINT16_MAX);
  CHECK_NUMBERS(TSR_UINT32, uint32_t, 0, UINT32_MAX);
  CHECK_NUMBERS(TSR_UINT64, uint64_t, 0, UINT64_MAX);
  CHECK_NUMBERS(TSR_FLOAT32, float, -3e38f, 3e38f);
  CHECK_NUMBERS(TSR_FLOAT64, double, -1e300, 1e300);
  CHECK_NUMBERS(TSR_BOOL, uint8_t, 0, 2);
  for (int t = TSR_DATETIME_YEAR; t <= TSR_TIME_AS; t++) CHECK_NUMBERS((tsr_datatype)t, int64_t, INT64_MIN, INT64_MAX);
}

static void test_floats_compare(void **state) {
  const double values[] = {0.0, -0.0, (double)NAN, 1}, zero = 0.0, negative = -0.0, nan = (double)NAN;
  const uint64_t first = 0;
  cells c = fixed("f", TSR_FLOAT64, 1, values, NULL);
  assert_kept(comparison(TSR_EQ, "f", &zero, 8), &c, 1, "1100");
  assert_kept(comparison(TSR_NE, "f", &negative, 8), &c, 1, "0011");
  assert_kept(comparison(TSR_EQ, "f", &nan, 8), &c, 1, "0000");
  assert_kept(comparison(TSR_NE, "f", &nan, 8), &c, 1, "1111");
  assert_kept(comparison(TSR_GE, "f", &nan, 8), &c, 1, "0000");
  bytes b = {0}; /* sets compare bytes */
  put_set(&b, TSR_IN, "f", &zero, 8, &first, 1);
  assert_kept(b, &c, 1, "1000");
  b = (bytes){0};
  put_set(&b, TSR_NOT_IN, "f", &nan, 8, &first, 1);
  assert_kept(b, &c, 1, "1101");
}

static void test_text_compares_bytewise(void **state) {
  const uint64_t offsets[] = {0, 1, 3, 4, 4, 6, 7}; /* "a", "ab", "b", "", "a\0", "\xff" */
  static const char *const expected[] = {"000100", "100100", "011011", "111011", "100000", "011111"};
  const tsr_datatype types[] = {TSR_ASCII, TSR_UTF8, TSR_CHAR};
  for (int t = 0; t < 3; t++) {
    cells c = variable("s", types[t], "aabba\0\xff", offsets, NULL);
    for (uint8_t op = 0; op < 6; op++) assert_kept(comparison(op, "s", "a", 1), &c, 1, expected[op]);
    assert_kept(comparison(TSR_EQ, "s", "", 0), &c, 1, "000100");
    assert_kept(comparison(TSR_GE, "s", "", 0), &c, 1, "111111");
  }
  cells c = fixed("s", TSR_ASCII, 2, "abacb\0", NULL);
  assert_kept(comparison(TSR_EQ, "s", "ab", 2), &c, 1, "100");
  assert_kept(comparison(TSR_EQ, "s", "b", 1), &c, 1, "000");
  assert_kept(comparison(TSR_GT, "s", "b", 1), &c, 1, "001");
}

/* CHAR of fixed size: only the first byte is compared, as a signed number; sets compare all bytes. */
static void test_fixed_char_compares_first_byte(void **state) {
  cells c = fixed("c", TSR_CHAR, 3, "abcabdbbb\xff\0\0\0\0\0", NULL);
  assert_kept(comparison(TSR_EQ, "c", "abc", 3), &c, 1, "11000");
  assert_kept(comparison(TSR_NE, "c", "a", 1), &c, 1, "00111");
  assert_kept(comparison(TSR_LT, "c", "b", 1), &c, 1, "11011");
  assert_kept(comparison(TSR_EQ, "c", "", 0), &c, 1, "00001");
  const uint64_t offsets[] = {0, 3};
  bytes b = {0};
  put_set(&b, TSR_NOT_IN, "c", "bbbabc", 6, offsets, 2);
  assert_kept(b, &c, 1, "01011");
}

static void test_null_compares_false(void **state) {
  const int32_t values[] = {1, 2, 3, 0};
  const uint8_t validity[] = {1, 0, 1, 1};
  const int32_t two = 2;
  cells c = fixed("f", TSR_INT32, 1, values, validity);
  assert_kept(comparison(TSR_EQ, "f", &two, 4), &c, 1, "0000");
  assert_kept(comparison(TSR_NE, "f", &two, 4), &c, 1, "1011");
  assert_kept(comparison(TSR_LE, "f", &two, 4), &c, 1, "1001");
  assert_kept(comparison(TSR_ALWAYS_TRUE, "f", "", 0), &c, 1, "1011");
  assert_kept(comparison(TSR_ALWAYS_FALSE, "f", "", 0), &c, 1, "0000");
  assert_kept(comparison(TSR_EQ, "f", "", 0), &c, 1, "0100");
  assert_kept(comparison(TSR_NE, "f", "", 0), &c, 1, "1011");
  const uint64_t first = 0;
  bytes b = {0};
  put_set(&b, TSR_NOT_IN, "f", &two, 4, &first, 1);
  assert_kept(b, &c, 1, "1011");

  const uint64_t offsets[] = {0, 1, 1, 1, 2}; /* "a", null, "", "b": null and '' are not told apart */
  c = variable("s", TSR_UTF8, "ab", offsets, validity);
  assert_kept(comparison(TSR_EQ, "s", "", 0), &c, 1, "0010");
  assert_kept(comparison(TSR_NE, "s", "", 0), &c, 1, "1001");
  assert_kept(comparison(TSR_GE, "s", "", 0), &c, 1, "1011");
}

static void test_sets_compare(void **state) {
  const int16_t values[] = {5, -1, 7, 300, 0, 6}, wanted[] = {300, -1, 6, 6};
  const uint64_t offsets[] = {0, 2, 4, 6};
  cells c = fixed("f", TSR_INT16, 1, values, NULL);
  bytes b = {0};
  put_set(&b, TSR_IN, "f", wanted, 8, offsets, 4);
  assert_kept(b, &c, 1, "010101");
  b = (bytes){0};
  put_set(&b, TSR_NOT_IN, "f", wanted, 8, offsets, 4);
  assert_kept(b, &c, 1, "101010");
  b = (bytes){0};
  put_set(&b, TSR_NOT_IN, "f", "", 0, NULL, 0);
  assert_kept(b, &c, 1, "111111");
  b = (bytes){0};
  put_set(&b, TSR_IN, "f", "", 0, NULL, 0);
  assert_kept(b, &c, 1, "000000");
  b = (bytes){0};
  put_set(&b, TSR_IN, "f", wanted, 7, offsets, 4);
  assert_fails(b, &c, 1, 6, TSR_CORRUPT, "with 1 bytes");

  const uint64_t cell_offsets[] = {0, 1, 3, 4, 4, 7}; /* "a", "ab", "b", "", "abc" */
  c = variable("s", TSR_ASCII, "aabbabc", cell_offsets, NULL);
  const uint64_t interleaved[] = {0, 0, 3}, pairs[] = {0, 2};
  b = (bytes){0};
  put_set(&b, TSR_IN, "s", "abcb", 4, interleaved, 3); /* "", "abc", "b" */
  assert_kept(b, &c, 1, "00111");
  b = (bytes){0};
  put_set(&b, TSR_NOT_IN, "s", "abzz", 4, pairs, 2); /* values of one size */
  assert_kept(b, &c, 1, "10111");
}

static void test_sets_of_many_values_compare(void **state) {
  enum { COUNT = 5000 };
  uint64_t *values = malloc(COUNT * 8), *offsets = malloc(COUNT * 8);
  int64_t cell_values[64];
  char expected[65] = {0};
  for (uint64_t i = 0; i < COUNT; i++) {
    values[i] = (i * 2654435761u) % 10007;
    offsets[i] = 8 * i;
  }
  for (int r = 0; r < 64; r++) {
    cell_values[r] = r * 157;
    expected[r] = '0';
    for (uint64_t i = 0; i < COUNT; i++)
      if (values[i] == (uint64_t)cell_values[r]) expected[r] = '1';
  }
  cells c = fixed("f", TSR_INT64, 1, cell_values, NULL);
  bytes b = {0};
  put_set(&b, TSR_IN, "f", values, COUNT * 8, offsets, COUNT);
  assert_kept(b, &c, 1, expected);
  free(values);
  free(offsets);
}

/* ---- Trees ------------------------------------------------------------------------------------------------------- */

static void test_and_and_or_join(void **state) {
  const int32_t a[] = {1, 2, 3, 4, 5, 6}, x[] = {10, 20, 30, 40, 50, 60};
  const cells columns[] = {fixed("a", TSR_INT32, 1, a, NULL), fixed("x", TSR_INT32, 1, x, NULL)};
  bytes b = {0};
  put_expression(&b, 0, 3);
  put_int(&b, TSR_GT, "a", 1), put_int(&b, TSR_LT, "x", 60), put_int(&b, TSR_NE, "a", 3);
  assert_kept(b, columns, 2, "010110");
  b = (bytes){0};
  put_expression(&b, 1, 2);
  put_int(&b, TSR_EQ, "a", 1);
  put_expression(&b, 0, 2);
  put_int(&b, TSR_GE, "x", 40);
  put_expression(&b, 1, 2);
  put_int(&b, TSR_EQ, "a", 4), put_int(&b, TSR_EQ, "x", 60);
  assert_kept(b, columns, 2, "100101");
  b = (bytes){0};
  put_expression(&b, 1, 2);
  put_int(&b, TSR_EQ, "a", 1), put_int(&b, TSR_EQ, "nosuch", 4);
  assert_fails(b, columns, 2, 6, TSR_CORRUPT, "no field 'nosuch'");
}

/* More cells than one block holds, and a last block that is not full; constant columns. */
static void test_cells_beyond_a_block_compare(void **state) {
  enum { COUNT = 5000 };
  uint16_t *values = malloc(COUNT * 2);
  uint8_t *keep = malloc(COUNT), *validity = malloc(COUNT);
  for (int i = 0; i < COUNT; i++) {
    values[i] = (uint16_t)(i * 31);
    validity[i] = i % 7 != 0;
  }
  const uint16_t nine = 9;
  const cells columns[] = {fixed("f", TSR_UINT16, 1, values, validity), fixed("k", TSR_UINT16, 1, &nine, NULL),
                           fixed("n", TSR_UINT16, 1, &nine, (const uint8_t *)"")};
  cells constant[3];
  memcpy(constant, columns, sizeof columns);
  constant[1].column.constant = constant[2].column.constant = true;
  const uint16_t bound = 20000;
  bytes b = {0};
  put_expression(&b, 0, 2);
  put_comparison(&b, TSR_LT, "f", &bound, 2), put_comparison(&b, TSR_EQ, "k", &nine, 2);
  room r;
  room_open(&r, UINT64_MAX);
  tsr_condition condition;
  tsr_input in = tsr__input(b.data, b.size);
  assert_int_equal(tsr__condition_decode(&in, "d", 1, &r.arena, &condition, NULL), TSR_OK);
  table t = {constant, 3, 0};
  assert_int_equal(tsr__condition_evaluate(&condition, get_column, &t, NULL, COUNT, keep, &r.memory, NULL), TSR_OK);
  for (int i = 0; i < COUNT; i++) assert_int_equal(keep[i], values[i] < bound && validity[i]);
  assert_int_equal(tsr__condition_evaluate(&condition, get_column, &t, NULL, 0, keep, &r.memory, NULL), TSR_OK);
  room_close(&r);
  drop(&b);
  b = comparison(TSR_EQ, "n", &nine, 2);
  assert_kept(b, constant, 3, "0000");
  b = comparison(TSR_EQ, "k", &nine, 2);
  assert_kept(b, constant, 3, "1111");
  free(values);
  free(keep);
  free(validity);
}

/* Many children that are looked up by value give the same result as children that are all evaluated. */
static void test_guarded_children_give_the_same_result(void **state) {
  enum { ROWS = 60, TERMS = 40 };
  static const char *const texts[] = {"", "a", "ab", "abcdefghij", "abcdefghik", "b"};
  uint32_t seed = 1;
  for (int round = 0; round < 200; round++) {
    float x[ROWS];
    int64_t y[ROWS];
    char text[ROWS * 10];
    uint64_t offsets[ROWS + 1] = {0};
    uint8_t validity[ROWS];
    int which[ROWS];
#define CHANCE(n) ((seed = seed * 1664525u + 1013904223u) >> 8) % (n)
    for (int i = 0; i < ROWS; i++) {
      x[i] = (float)(int)(CHANCE(9)) - 4;
      if (x[i] == 0 && CHANCE(2)) x[i] = -0.0f;
      if (CHANCE(20) == 0) x[i] = NAN;
      y[i] = CHANCE(9);
      which[i] = (int)(CHANCE(6));
      memcpy(text + offsets[i], texts[which[i]], strlen(texts[which[i]]));
      offsets[i + 1] = offsets[i] + strlen(texts[which[i]]);
      validity[i] = CHANCE(5) != 0;
    }
    bool nullable = round % 3 == 0, lacks = round % 7 == 0;
    cells columns[] = {fixed("x", TSR_FLOAT32, 1, x, NULL), fixed("y", TSR_INT64, 1, y, nullable ? validity : NULL),
                       variable("t", TSR_UTF8, text, offsets, NULL), fixed("n", TSR_INT64, 1, y, NULL)};
    columns[3].column.unwritten = true;
    char expected[ROWS + 1] = {0};
    memset(expected, '1', ROWS);
    bytes b = {0};
    put_expression(&b, 0, TERMS);
    for (int k = 0; k < TERMS; k++) {
      unsigned kind = CHANCE(4), t = CHANCE(6);
      float a = CHANCE(30) ? (float)(int)(CHANCE(9)) - 4 : NAN;
      int64_t c = CHANCE(9);
      if (kind) put_expression(&b, 1, 2 + (kind == 3 && lacks));
      put_comparison(&b, kind == 2 && CHANCE(3) == 0 ? TSR_GT : TSR_NE, "x", &a, 4);
      bool greater = b.data[b.size - 4 - 8 - 1 - 4 - 1] == TSR_GT;
      if (kind)
        put_comparison(&b, TSR_NE, kind == 1 ? "t" : "y", kind == 1 ? (const void *)texts[t] : &c,
                       kind == 1 ? strlen(texts[t]) : 8);
      if (kind == 3 && lacks) put_comparison(&b, TSR_NE, "n", &c, 8);
      for (int i = 0; i < ROWS; i++) {
        bool holds = greater ? x[i] > a : x[i] != a;
        if (kind == 1) holds = holds || strcmp(texts[which[i]], texts[t]) != 0;
        else if (kind) holds = holds || (y[i] != c && (!nullable || validity[i]));
        if (kind == 3 && lacks) holds = false;
        if (!holds) expected[i] = '0';
      }
    }
    assert_kept(b, columns, 4, expected);
  }
}

/* A comparison of an attribute that the fragment lacks is false, and an OR ignores all children before it. */
static void test_lacking_attributes_compare_as_in_tiledb(void **state) {
  const int32_t a[] = {1, 2, 3}, fill = INT32_MIN;
  cells columns[] = {fixed("a", TSR_INT32, 1, a, NULL), fixed("n", TSR_INT32, 1, &fill, NULL)};
  columns[1].column.constant = columns[1].column.unwritten = true;
  assert_kept(comparison(TSR_NE, "n", &fill, 4), columns, 2, "000");
  assert_kept(comparison(TSR_EQ, "n", &fill, 4), columns, 2, "000");
  bytes b = {0};
  put_expression(&b, 1, 3);
  put_int(&b, TSR_NE, "a", 1), put_int(&b, TSR_NE, "n", 7), put_int(&b, TSR_EQ, "a", 3);
  assert_kept(b, columns, 2, "001");
  b = (bytes){0};
  put_expression(&b, 1, 2);
  put_int(&b, TSR_NE, "n", 7), put_int(&b, TSR_NE, "a", 1);
  assert_kept(b, columns, 2, "011");
  b = (bytes){0};
  put_expression(&b, 1, 2);
  put_int(&b, TSR_NE, "a", 1);
  put_expression(&b, 0, 2);
  put_int(&b, TSR_NE, "n", 7), put_int(&b, TSR_NE, "a", 2);
  assert_kept(b, columns, 2, "011");
}

static void test_incomparable_fields_are_refused(void **state) {
  const int32_t pair[] = {1, 2};
  const uint64_t offsets[] = {0, 1};
  const cells columns[] = {fixed("p", TSR_INT32, 2, pair, NULL), fixed("i", TSR_INT32, 1, pair, NULL),
                           variable("b", TSR_BLOB, "x", offsets, NULL),
                           variable("n", TSR_BLOB, "x", offsets, (const uint8_t *)"\1")};
  assert_fails(comparison(TSR_EQ, "p", pair, 8), columns, 4, 1, TSR_UNSUPPORTED, "'p'");
  assert_fails(comparison(TSR_EQ, "b", "x", 1), columns, 4, 1, TSR_UNSUPPORTED, "cells of BLOB");
  assert_fails(comparison(TSR_EQ, "i", pair, 3), columns, 4, 1, TSR_CORRUPT, "4 bytes of INT32, with 3 bytes");
  assert_fails(comparison(TSR_EQ, "i", pair, 8), columns, 4, 1, TSR_CORRUPT, "with 8 bytes");
  assert_fails(comparison(TSR_EQ, "i", pair, 0), columns, 4, 1, TSR_CORRUPT, "with 0 bytes");
  assert_kept(comparison(TSR_NE, "n", "", 0), columns, 4, "1");
  assert_kept(comparison(TSR_ALWAYS_TRUE, "b", "", 0), columns, 4, "1");
}

/* ---- Decoding ---------------------------------------------------------------------------------------------------- */

static bytes alternating(uint32_t depth) {
  bytes b = {0};
  for (uint32_t i = 1; i < depth; i++) put_expression(&b, i & 1, 2), put_int(&b, TSR_EQ, "a", 1);
  put_int(&b, TSR_EQ, "a", 2);
  return b;
}

static void test_deep_trees_are_refused(void **state) {
  const int32_t a[] = {1, 2, 3};
  const cells c = fixed("a", TSR_INT32, 1, a, NULL);
  assert_kept(alternating(256), &c, 1, "100");
  bytes b = alternating(257);
  assert_refused(decode, &b, TSR_CORRUPT, "more than 256 levels");
  drop(&b);
  b = alternating(100000);
  assert_refused(decode, &b, TSR_CORRUPT, "more than 256 levels");
  drop(&b);
}

static void test_fields_are_numbered_once(void **state) {
  bytes b = {0};
  put_expression(&b, 0, 4);
  put_int(&b, TSR_EQ, "y", 1), put_int(&b, TSR_EQ, "x", 1), put_int(&b, TSR_NE, "y", 3), put_int(&b, TSR_EQ, "", 1);
  room r;
  room_open(&r, UINT64_MAX);
  tsr_condition condition;
  tsr_input in = tsr__input(b.data, b.size);
  assert_int_equal(tsr__condition_decode(&in, "name", 42, &r.arena, &condition, NULL), TSR_OK);
  drop(&b);
  assert_string_equal(condition.name, "name");
  assert_int_equal(condition.time, 42);
  assert_int_equal(condition.depth, 2);
  assert_int_equal(condition.field_count, 3);
  const tsr_condition_node *children = condition.root.children;
  const char *names[] = {"y", "x", "y", ""};
  for (int i = 0; i < 4; i++) {
    assert_string_equal(children[i].field, names[i]);
    assert_string_equal(condition.fields[children[i].field_number], names[i]);
  }
  room_close(&r);
}

static void test_broken_conditions_are_refused(void **state) {
  const uint64_t falls[] = {4, 0}, beyond[] = {0, 9};
  bytes b = {0};
  put_int(&b, 8, "a", 1);
  assert_refused(decode, &b, TSR_CORRUPT, "operator 8");
  b.data[0] = 2;
  assert_refused(decode, &b, TSR_CORRUPT, "node type 2");
  b.data[0] = 1, b.data[1] = 0, b.data[6] = 0;
  assert_refused(decode, &b, TSR_CORRUPT, "NUL");
  b.data[6] = 'a';
  put8(&b, 0);
  assert_refused(decode, &b, TSR_CORRUPT, "1 bytes follow its end");
  drop(&b);
  for (uint64_t count = 0; count < 2; count++) {
    put_expression(&b, 0, count);
    put_int(&b, 0, "a", 1);
    assert_refused(decode, &b, TSR_CORRUPT, "an expression of");
    drop(&b);
  }
  put_expression(&b, 2, 1);
  put_int(&b, 0, "a", 1);
  assert_refused(decode, &b, TSR_UNSUPPORTED, "NOT");
  b.data[1] = 3;
  assert_refused(decode, &b, TSR_CORRUPT, "combination 3");
  drop(&b);
  put_expression(&b, 0, UINT64_MAX);
  put_int(&b, 0, "a", 1);
  assert_refused(decode, &b, TSR_CORRUPT, "an expression of");
  drop(&b);
  put_set(&b, TSR_IN, "a", "12345678", 8, falls, 2);
  assert_refused(decode, &b, TSR_CORRUPT, "value 0 ends before it begins");
  drop(&b);
  put_set(&b, TSR_IN, "a", "12345678", 8, beyond, 2);
  assert_refused(decode, &b, TSR_CORRUPT, "value 1 ends before it begins");
  drop(&b);
  put_set(&b, TSR_IN, "a", "12345678", 8, falls, 0);
  assert_refused(decode, &b, TSR_CORRUPT, "0 bytes of offsets");
  drop(&b);
  put_comparison(&b, TSR_IN, "a", "1234", 4);
  put64(&b, 4), put32(&b, 0);
  assert_refused(decode, &b, TSR_CORRUPT, "4 bytes of offsets");
  drop(&b);
}

static void test_damaged_conditions_are_refused_or_harmless(void **state) {
  const uint64_t offsets[] = {0, 4}, texts[] = {0, 1};
  bytes b = {0};
  put_expression(&b, 1, 3);
  put_set(&b, TSR_NOT_IN, "a", "12345678", 8, offsets, 2);
  put_expression(&b, 0, 2);
  put_set(&b, TSR_IN, "s", "abc", 3, texts, 2), put_int(&b, TSR_LT, "x", 4);
  put_int(&b, TSR_GE, "x", 5);
  assert_truncation_refused(decode, &b);
  survive_flips(decode, &b);
  assert_budgets(decode, &b);
  drop(&b);
}

static void test_budget_of_evaluation(void **state) {
  const int32_t a[] = {1, 2, 3};
  const cells c = fixed("a", TSR_INT32, 1, a, NULL);
  bytes b = alternating(3);
  room r;
  room_open(&r, UINT64_MAX);
  tsr_condition condition;
  tsr_input in = tsr__input(b.data, b.size);
  assert_int_equal(tsr__condition_decode(&in, "d", 1, &r.arena, &condition, NULL), TSR_OK);
  drop(&b);
  int code = TSR_BUDGET, refused = 0;
  for (uint64_t limit = 0; code == TSR_BUDGET; limit += 512, refused++) {
    tsr_memory memory;
    tsr__memory_init(&memory, &r.memory, limit, "small");
    table t = {&c, 1, 0};
    uint8_t keep[3] = {9, 9, 9};
    tsr_error error = {0};
    code = tsr__condition_evaluate(&condition, get_column, &t, NULL, 3, keep, &memory, &error);
    assert_int_equal(memory.used, 0);
  }
  assert_int_equal(code, TSR_OK);
  assert_true(refused > 2);
  room_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers_compare),
      cmocka_unit_test(test_floats_compare),
      cmocka_unit_test(test_text_compares_bytewise),
      cmocka_unit_test(test_fixed_char_compares_first_byte),
      cmocka_unit_test(test_null_compares_false),
      cmocka_unit_test(test_sets_compare),
      cmocka_unit_test(test_and_and_or_join),
      cmocka_unit_test(test_sets_of_many_values_compare),
      cmocka_unit_test(test_cells_beyond_a_block_compare),
      cmocka_unit_test(test_guarded_children_give_the_same_result),
      cmocka_unit_test(test_lacking_attributes_compare_as_in_tiledb),
      cmocka_unit_test(test_incomparable_fields_are_refused),
      cmocka_unit_test(test_deep_trees_are_refused),
      cmocka_unit_test(test_fields_are_numbered_once),
      cmocka_unit_test(test_broken_conditions_are_refused),
      cmocka_unit_test(test_damaged_conditions_are_refused_or_harmless),
      cmocka_unit_test(test_budget_of_evaluation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
