/* test_geometry.c: the four forms of a polygon, and where each of them is damaged; numbers as C reads them; the cells of
 * an axis; the weights of cells around a point; and random triangles, whose share of each cell another method finds. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "geometry/geometry.h"
#include "chance.h"
#include "counted_memory.h"

static counted_memory counted;
static tsr_environment *environment;
static tsr_error error;
/* An allocation that fails once, with enough memory after it. */
static long fails_at; /* so many calls succeed before it; < 0: none fails */
static void *reallocate(void *argument, void *pointer, uint64_t size) {
  if (size > 0 && fails_at >= 0 && fails_at-- == 0) return NULL;
  return counted_reallocate(argument, pointer, size);
}

static int setup(void **state) {
  counted = (counted_memory){.left = -1};
  fails_at = -1;
  const tsr_environment_options options = {.reallocate = reallocate, .reallocate_argument = &counted};
  return tsr_environment_open(&options, &environment, NULL);
}

static int teardown(void **state) {
  tsr_environment_close(environment);
  assert_int_equal(counted.blocks, 0);
  return 0;
}

/* ---- Forms ----------------------------------------------------------------------------------- */

/* Reads a geometry, from a copy of its exact size. Writes its polygons, as "[(x y, x y, ...)(hole)][...]". */
static int read_as(const void *bytes, uint64_t size, bool text, char *to) {
  tsr_geometry *g = NULL;
  void *copy = memcpy(malloc(size + 1), bytes, size);
  void *exact = realloc(copy, size ? size : 1);
  const int rc = tsr_geometry_read(environment, exact, size, text, 0, &g, &error);
  free(exact);
  if (rc < 0) return rc;
  *to = 0;
  for (uint64_t r = 0, i = 0; r < g->ring_count; r++) {
    if (r == 0 || g->rings[r].part != g->rings[r - 1].part) to += sprintf(to, r ? "][" : "[");
    for (*to++ = '('; i < g->rings[r].end; i++)
      to += sprintf(to, "%s%g %g", to[-1] == '(' ? "" : ", ", g->points[i][0], g->points[i][1]);
    to += sprintf(to, ")");
  }
  if (g->ring_count) sprintf(to, "]");
  assert_true(g->part_count == 0 || g->rings[g->ring_count - 1].part == g->part_count - 1);
  tsr_geometry_close(g);
  return rc;
}

#define SQUARE "[(0 0, 2 0, 2 2, 0 2, 0 0)"
#define HOLE   "(1 1, 1.5 1, 1 1.5)"
#define POINTS "0 0, 2 0, 2 2, 0 2, 0 0"
#define JSON   "[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]"

static void test_texts(void **state) {
  static const char *const cases[][2] = {
      {"POLYGON ((" POINTS "))", SQUARE "]"},
      {"  polygon((0 0,2 0,2 2,0 2,0 0),(1 1,1.5 1,1 1.5))  ", SQUARE HOLE "]"},
      {"PolyGon Z ((0 0 9, 2 0 9, 2 2 9, 0 2 9, 0 0 9))", SQUARE "]"},
      {"POLYGON M ((0 0 9, 2 0 9, 2 2 9, 0 2 9, 0 0 9))", SQUARE "]"},
      {"POLYGON ZM ((0 0 9 8, 2 0 9 8, 2 2 9 8, 0 2 9 8, 0 0 9 8))", SQUARE "]"},
      {"POLYGONZ ((0 0 9, 2 0 9, 2 2 9, 0 2 9, 0 0 9))", SQUARE "]"},
      {"POLYGONM ((" POINTS "))", SQUARE "]"},
      {"POLYGONZM ((" POINTS "))", SQUARE "]"},
      {"SRID=4326;POLYGON ((" POINTS "))", SQUARE "]"},
      {"srid = -1 ; POLYGON ((" POINTS "))", SQUARE "]"},
      {"MULTIPOLYGON (((" POINTS "), (1 1, 1.5 1, 1 1.5)), ((5 5, 6 5, 6 6)))", SQUARE HOLE "][(5 5, 6 5, 6 6)]"},
      {"MULTIPOLYGONZ (((" POINTS ")))", SQUARE "]"},
      {"MULTIPOLYGONM (((" POINTS ")))", SQUARE "]"},
      {"MULTIPOLYGONZM (((" POINTS ")))", SQUARE "]"},
      {"MULTIPOLYGON ZM (((" POINTS ")))", SQUARE "]"},
      {"MULTIPOLYGON (EMPTY, ((" POINTS ")), (EMPTY))", SQUARE "]"},
      {"polygonz ((0 0 9, 2 0 9, 2 2 9, 0 2 9, 0 0 9))", SQUARE "]"},
      {"POLYGON ((1e300 0, 0 -1e300, 0 1e300))", "[(1e+300 0, 0 -1e+300, 0 1e+300)]"},
      {"POLYGON EMPTY", ""},
      {"MULTIPOLYGON EMPTY", ""},
      {"{\"type\": \"Polygon\", \"coordinates\": [" JSON "]}", SQUARE "]"},
      {"{\"coordinates\":[" JSON ",[[1,1],[1.5,1],[1,1.5]]],\"type\":\"Polygon\"}", SQUARE HOLE "]"},
      {"{\"type\": \"MultiPolygon\", \"coordinates\": [[" JSON "], [[[5, 5, 1], [6, 5, 1, 2], [6, 6]]]]}",
       SQUARE "][(5 5, 6 5, 6 6)]"},
      {"{\"type\": \"MultiPolygon\", \"coordinates\": [[], [" JSON "]]}", SQUARE "]"},
      {"{\"type\": \"Polygon\", \"coordinates\": []}", ""},
      {"{\"type\": \"Feature\", \"properties\": {\"coordinates\": [1, null], \"s\": \"}\\\"]\", \"n\": -1.5e3},"
       " \"id\": true, \"geometry\": {\"type\": \"Polygon\", \"bbox\": [[], {}, false], \"coordinates\": [" JSON "]}}",
       SQUARE "]"},
      {"{\"geometry\": null, \"type\": \"Feature\"}", ""},
  };
  char found[1000];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const uint64_t size = strlen(cases[i][0]);
    if (read_as(cases[i][0], size, true, found) < 0) fail_msg("%s: %s", cases[i][0], error.message);
    if (strcmp(found, cases[i][1]) != 0) fail_msg("%s: %s", cases[i][0], found);
    /* No beginning of a text is another text. What ends early is told at the place where it ends. */
    for (uint64_t part = 0; part < size; part++) {
      if (strspn(cases[i][0] + part, " ") == size - part) continue;
      if (read_as(cases[i][0], part, true, found) != TSR_MISMATCH) fail_msg("%.*s", (int)part, cases[i][0]);
    }
  }
}

static void test_damaged_texts(void **state) {
  static const char *const cases[][2] = {
      {"", "no geometry: expected GeoJSON, WKT, WKB or GeoPackage"},
      {"  ", "no geometry"},
      {"17", "no geometry"},
      {"POINT (1 1)", "not POINT"},
      {"LINESTRINGZM", "not LINESTRINGZM"},
      {"POLYGONE ((0 0))", "not POLYGONE"},
      {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGH", "not ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF"},
      {"SRID 4326;POLYGON EMPTY", "byte 6: expected '='"},
      {"SRID=4326 POLYGON EMPTY", "byte 11: expected ';'"},
      {"SRID=;POLYGON EMPTY", "byte 6: expected a number"},
      {"POLYGON 0", "byte 9: expected '('"},
      {"POLYGON (0", "byte 10: expected '('"},
      {"POLYGON ((0 0, 1 1, 2 2]", "byte 24: expected a number"},
      {"POLYGON ((0 0, 1 1, 2 2 2 2 2))", "byte 29: expected ',' or ')'"},
      {"POLYGON ((0, 1 1, 2 2))", "byte 12: expected a second coordinate"},
      {"POLYGON ((0 0, 1 1, 2 2) x", "byte 26: expected ')'"},
      {"POLYGON ((0 0, 1 1, 2 2)) x", "byte 27: expected its end"},
      {"POLYGON ((0 0, 1 1))", "a ring has 2 points: expected at least 3"},
      {"POLYGON ((0 0))", "a ring has 1 point: expected"},
      {"POLYGON ((0 0, 1e301 1, 1 1))", "a coordinate is not finite, or beyond 1e300"},
      {"POLYGON ((0 0, 1 -1e301, 1 1))", "a coordinate is not finite, or beyond 1e300"},
      {"MULTIPOLYGON ((0 0, 1 1, 2 2))", "byte 16: expected '('"},
      {"MULTIPOLYGON 1", "byte 14: expected '('"},
      {"MULTIPOLYGON (EMPTY x)", "byte 21: expected ')'"},
      {"{}", "the GeoJSON has no type"},
      {"{\"type\": 1}", "the GeoJSON has no type"},
      {"{\"type\": \"Point\"}", "not Point"},
      {"{\"type\": \"P\\u0000\\\"\"}", "not P\\u0000\\\""},
      {"{\"type\": \"Polygon\"}", "the GeoJSON has no coordinates"},
      {"{\"type\": \"Feature\"}", "the Feature has no geometry"},
      {"{\"type\": \"Feature\", \"geometry\": 1}", "byte 33: expected an object"},
      {"{\"type\": \"Feature\", \"geometry\": {}}", "the GeoJSON has no type"},
      {"{\"type\": \"Feature\", \"geometry\": {\"type\": \"Feature\"}}", "not Feature"},
      {"{\"type\": \"Polygon\", \"coordinates\": [[[0, 0], [1, 1], [1]]]}", "byte 56: expected a second coordinate"},
      {"{\"type\": \"Polygon\", \"coordinates\": [[[0, 0], [1, 1]]]}", "a ring has 2 points"},
      {"{\"type\": \"Polygon\", \"coordinates\": [[]]}", "a ring has 0 points"},
      {"{\"type\": \"Polygon\", \"coordinates\": [[0]]}", "byte 38: expected '['"},
      {"{\"type\": \"Polygon\", \"coordinates\": {}}", "byte 36: expected '['"},
      {"{\"type\": \"Polygon\", \"coordinates\": [[[0, \"a\"]]]}", "byte 42: expected a number"},
      {"{\"a\" 1}", "byte 6: expected ':'"},
      {"{\"type\": \"Polygon", "expected '\"'"},
      {"{\"a\": \"x", "expected '\"'"},
      {"{a: 1}", "byte 2: expected a string"},
      {"{\"a\": 1; 2}", "byte 8: expected ',' or '}'"},
      {"{\"a\": [1; 2]}", "byte 9: expected ',' or ']'"},
      {"{\"a\": {\"b\": 1; 2}}", "byte 14: expected ',' or '}'"},
      {"{\"a\": nul}", "byte 7: expected a number"},
      {"{\"a\\", "expected '\"'"},
      {"{\"type\": \"a b\"}", "not a?b"},
      {"polyagon ((0 0, 1 1, 2 2))", "not polyagon"},
      {"POLYGON ((0 0, 1 1, 2 2), (0 0, 1 1))", "a ring has 2 points"},
      {"{\"a\": null", "expected ',' or '}'"},
      {"{\"a\": {1: 2}}", "byte 8: expected a string"},
      {"{\"a\": 1} x", "byte 10: expected its end"},
  };
  char found[1000];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int rc = read_as(cases[i][0], strlen(cases[i][0]), true, found);
    if (rc != TSR_MISMATCH || !strstr(error.message, cases[i][1]))
      fail_msg("%s: %d: %s", cases[i][0], rc, error.message);
  }
  /* A name with characters that are none is shown without them. */
  static const char unprintable[] = "{\"type\": \"a\x01\x7f\x80\"}";
  assert_int_equal(read_as(unprintable, sizeof unprintable - 1, true, found), TSR_MISMATCH);
  assert_non_null(strstr(error.message, "not a???"));
  /* Values that are skipped may have 512 levels: of arrays, or of objects. */
  for (int kind = 0; kind < 2; kind++)
    for (int levels = 512; levels <= 513; levels++) {
      char text[4000] = "{\"type\": \"Polygon\", \"coordinates\": [], \"a\": ";
      for (int k = 0; k < levels; k++) strcat(text, kind ? "{\"\":" : "[");
      strcat(text, "1");
      for (int k = 0; k < levels; k++) strcat(text, kind ? "}" : "]");
      strcat(text, "}");
      assert_int_equal(read_as(text, strlen(text), true, found), levels > 512 ? TSR_MISMATCH : TSR_OK);
    }
}

/* ---- Blobs ----------------------------------------------------------------------------------- */

static void put(tsr_buffer *to, uint64_t value, int size, bool big) {
  for (int i = 0; i < size; i++) {
    const uint8_t byte = (uint8_t)(value >> 8 * (big ? size - 1 - i : i));
    assert_int_equal(tsr__buffer_append(to, &byte, 1, NULL), TSR_OK);
  }
}
static void put_real(tsr_buffer *to, double value, bool big) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  put(to, bits, 8, big);
}

/* Appends a polygon of one ring, with `more` numbers after x and y. */
static void put_polygon(tsr_buffer *to, uint32_t type, int more, bool srid, bool big) {
  static const double square[5][2] = {{0, 0}, {2, 0}, {2, 2}, {0, 2}, {0, 0}};
  put(to, !big, 1, big);
  put(to, type, 4, big);
  if (srid) put(to, 4326, 4, big);
  put(to, 2, 4, big);
  put(to, 0, 4, big); /* an empty ring, which counts for nothing */
  put(to, 5, 4, big);
  for (int i = 0; i < 5; i++) {
    put_real(to, square[i][0], big);
    put_real(to, square[i][1], big);
    for (int k = 0; k < more; k++) put_real(to, NAN, big);
  }
}

/* Each form, and each beginning of it. */
static void expect_blob(tsr_buffer *blob, const char *text) {
  char found[1000];
  if (read_as(blob->data, blob->size, false, found) < 0) fail_msg("%s", error.message);
  assert_string_equal(found, text);
  for (uint64_t part = 0; part < blob->size; part++)
    if (read_as(blob->data, part, false, found) != TSR_MISMATCH || (part > 1 && !strstr(error.message, "ends early")))
      fail_msg("%d of %d bytes: %s", (int)part, (int)blob->size, error.message);
  assert_int_equal(tsr__buffer_append(blob, "", 1, NULL), TSR_OK);
  assert_int_equal(read_as(blob->data, blob->size, false, found), TSR_MISMATCH);
  assert_non_null(strstr(error.message, "the geometry ends at byte"));
  blob->size = 0;
}

static void test_blobs(void **state) {
  static const struct {
    uint32_t type;
    int more;
    bool srid;
  } types[] = {{3, 0, false},          {1003, 1, false},       {2003, 1, false},
               {3003, 2, false},       {0x80000003, 1, false}, {0x40000003, 1, false},
               {0xc0000003, 2, false}, {0xe0000003, 2, true},  {0x20000003, 0, true}};
  static const int envelopes[] = {0, 4, 6, 6, 8};
  tsr_memory root;
  tsr__memory_init_root(&root, NULL, NULL);
  tsr_buffer b = {.memory = &root};
  for (int big = 0; big < 2; big++) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
      put_polygon(&b, types[i].type, types[i].more, types[i].srid, big);
      expect_blob(&b, SQUARE "]");
    }
    put(&b, !big, 1, big);
    put(&b, 6, 4, big);
    put(&b, 2, 4, big);
    put_polygon(&b, 3, 0, false, big); /* each polygon has an order of its own */
    put_polygon(&b, 1003, 1, false, !big);
    expect_blob(&b, SQUARE "][(0 0, 2 0, 2 2, 0 2, 0 0)]");
    for (uint8_t envelope = 0; envelope < 5; envelope++) {
      assert_int_equal(tsr__buffer_append(&b, "GP\0", 3, NULL), TSR_OK);
      put(&b, (uint64_t)(envelope << 1 | !big), 1, big);
      put(&b, 4326, 4, big);
      for (int k = 0; k < envelopes[envelope]; k++) put_real(&b, 7, big);
      put_polygon(&b, 3, 0, false, big);
      expect_blob(&b, SQUARE "]");
    }
  }
  /* What no form allows. */
  static const struct {
    uint8_t bytes[9];
    uint64_t size;
    const char *says;
  } bad[] = {
      {{2, 3, 0, 0, 0, 0}, 6, "no geometry"},
      {{1, 1, 0, 0, 0}, 5, "not POINT"},
      {{1, 7, 0, 0, 0}, 5, "not GEOMETRYCOLLECTION"},
      {{1, 8, 0, 0, 0}, 5, "not WKB's type 8"},
      {{1, 0xa3, 0x0f, 0, 0}, 5, "not WKB's type 4003"}, /* there are no dimensions 4 */
      {{1, 6, 0, 0, 0, 1, 0, 0, 0}, 9, "ends early (byte 10)"},
      {{'G', 'P', 0, 0x20}, 4, "extended"},
      {{'G', 'P', 0, 0x0a}, 4, "unknown envelope"},
      {{'G', 'P', 0, 1, 0, 0, 0}, 7, "ends early"},
      {{1, 3, 0, 0, 0, 255, 255, 255, 255}, 9, "ends early"},
  };
  char found[100];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const int rc = read_as(bad[i].bytes, bad[i].size, false, found);
    if (rc != TSR_MISMATCH || !strstr(error.message, bad[i].says))
      fail_msg("case %d: %d: %s", (int)i, rc, error.message);
  }
  put(&b, 1, 1, false); /* a polygon of a MULTIPOLYGON is none */
  put(&b, 6, 4, false);
  put(&b, 1, 4, false);
  put_polygon(&b, 2, 0, false, false);
  assert_int_equal(read_as(b.data, b.size, false, found), TSR_MISMATCH);
  assert_non_null(strstr(error.message, "not LINESTRING"));
  b.size = 0;
  put_polygon(&b, 3, 0, false, false);
  for (int i = 0; i < 8; i++) b.data[b.size - 8 + (uint64_t)i] = 0xff; /* a NaN */
  assert_int_equal(read_as(b.data, b.size, false, found), TSR_MISMATCH);
  assert_non_null(strstr(error.message, "not finite"));
  b.size = 0;
  put(&b, 1, 1, false); /* the same within a MULTIPOLYGON, before a polygon that is sound */
  put(&b, 6, 4, false);
  put(&b, 2, 4, false);
  put_polygon(&b, 3, 0, false, false);
  for (int i = 0; i < 8; i++) b.data[b.size - 8 + (uint64_t)i] = 0xff;
  put_polygon(&b, 3, 0, false, false);
  assert_int_equal(read_as(b.data, b.size, false, found), TSR_MISMATCH);
  assert_non_null(strstr(error.message, "not finite"));
  tsr__buffer_release(&b);
}

static void test_memory_and_budget_of_points(void **state) {
  char text[4000] = "MULTIPOLYGON (", found[8000];
  for (int i = 0; i < 40; i++) sprintf(text + strlen(text), "%s((%d 0, %d 1, 0 1))", i ? "," : "", i, i);
  strcat(text, ")");
  for (long left = 0;; left++) {
    counted.left = left;
    const int rc = read_as(text, strlen(text), true, found);
    counted.left = -1;
    if (rc >= 0) break;
    assert_int_equal(rc, TSR_NOMEM);
    assert_true(left < 20);
  }
  tsr_geometry *g;
  assert_int_equal(tsr_geometry_read(environment, text, strlen(text), true, 1500, &g, &error), TSR_BUDGET);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void expect_number(const char *text, int rc, uint64_t size) {
  tsr_text in = {.what = "geometry", .begin = text, .at = text, .end = text + strlen(text)};
  double value = 0;
  const int found = tsr__text_number(&in, &value, &error);
  if (found != rc) fail_msg("%s: %d", text, found);
  if (rc < 0) return;
  const double expected = strtod(text, NULL);
  if (memcmp(&value, &expected, 8) != 0) fail_msg("%s: %a, not %a", text, value, expected);
  assert_int_equal(in.at - in.begin, size);
  const bool whole = size == strlen(text);
  if (tsr_real_parse(text, strlen(text), &value, NULL) != whole) fail_msg("%s: %d", text, whole);
  if (whole && memcmp(&value, &expected, 8) != 0) fail_msg("%s: parsed as %a, not %a", text, value, expected);
}

static void test_numbers(void **state) {
  static const char *const good[] = {"0",
                                     "-0",
                                     "+1",
                                     ".5",
                                     "5.",
                                     "-.5e-3",
                                     "1e22",
                                     "1e23",
                                     "1e-22",
                                     "1E+5",
                                     "1e-23",
                                     "9007199254740992",
                                     "9007199254740993",
                                     "9007199254740993e3",
                                     "18446744073709551615",
                                     "18446744073709551616",
                                     "184467440737095516150",
                                     "9007199254740993.0", /* midway between two doubles, or hardly beyond */
                                     "9007199254740995.0",
                                     "9007199254740993.001",
                                     "9007199254740992.999",
                                     "-4503599627370497.5",
                                     "2251799813685248.25",
                                     "2251799813685248.7500001",
                                     "18014398509481986",
                                     "18014398509481990.0",
                                     "1844674407370955161.5",
                                     "1844674407370955161.6",
                                     "1.8446744073709551615",
                                     "0.1844674407370955161",
                                     "0.9007199254740993001",
                                     "0.00009007199254740993001",
                                     "123.45678901234567",
                                     "0.1",
                                     "123456789.123456789",
                                     "1e400",
                                     "1e-400",
                                     "1e99999999999999999999",
                                     "4.9e-324",
                                     "00000000000000000000000000001",
                                     "0.00000000000000000000000000000000000001"};
  static const char *const bad[] = {"", "-", "+", ".", "e5", "-e5", "1e", "1e+", "1e-", "x", "--1", "inf", "nan"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) expect_number(good[i], TSR_OK, strlen(good[i]));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) expect_number(bad[i], TSR_MISMATCH, 0);
  expect_number("1.5.5", TSR_OK, 3);
  expect_number("1-5", TSR_OK, 1);
  char text[500] = "0.";
  memset(text + 2, '7', 450);
  text[400] = 0;
  expect_number(text, TSR_OK, 400);
  text[400] = '7';
  text[401] = 0;
  expect_number(text, TSR_MISMATCH, 0);
  for (int i = 0; i < 20000; i++) {
    char *to = text;
    if (chance(3) == 0) *to++ = '-';
    for (uint64_t n = 1 + chance(10); n; n--) *to++ = (char)('0' + chance(10));
    if (chance(2)) *to++ = '.';
    for (uint64_t n = to[-1] == '.' ? chance(12) : 0; n; n--) *to++ = (char)('0' + chance(10));
    if (chance(2)) to += sprintf(to, "e%d", (int)chance(60) - 30);
    *to = 0;
    expect_number(text, TSR_OK, strlen(text));
  }
  for (int i = 0; i < 20000; i++) { /* doubles with all their digits */
    sprintf(text, "%.*f", (int)chance(20), ldexp((double)chance(UINT64_MAX), -1 - (int)chance(70)));
    expect_number(text, TSR_OK, strlen(text));
  }
  for (int i = 0; i < 20000; i++) { /* the nearest decimals below and above a place midway between two doubles */
    const uint64_t midway = UINT64_C(1) << 53 | chance(UINT64_C(1) << 53) | 1;
    const uint64_t below = (uint64_t)((tsr_unsigned_wide)midway * UINT64_C(10000000000000000000) >> 54);
    for (uint64_t above = 0; above < 2; above++) {
      sprintf(text, "%s.%019llu", above ? "0" : "", (unsigned long long)(below + above));
      expect_number(text, TSR_OK, strlen(text));
    }
  }
}

/* ---- Axes ------------------------------------------------------------------------------------ */

static tsr_grid_axis *affine(uint64_t count, int64_t first, double origin, double step) {
  tsr_grid_axis *axis = NULL;
  const int rc = tsr_grid_axis_affine(environment, "a", count, first, origin, step, &axis, &error);
  return rc < 0 ? NULL : axis;
}

/* Cells of which every third has a wider gap behind it, and one coordinate is missing. */
static tsr_grid_axis *labelled(uint64_t count, double width, bool falls) {
  int64_t coordinates[64];
  double centres[64];
  for (uint64_t i = 0; i < count; i++) {
    coordinates[i] = (int64_t)(i < count / 2 ? i : i + 1);
    centres[i] = ((double)i + (double)(i / 3) * 0.5) * (falls ? -width : width);
  }
  tsr_grid_axis *axis = NULL;
  assert_int_equal(tsr_grid_axis_of_centres(environment, "a", count, coordinates, centres, &axis, &error), TSR_OK);
  return axis;
}

static void test_cells_of_an_axis(void **state) {
  tsr_grid_axis *axes[] = {affine(10, 5, 0, 1),    affine(10, 5, 3, -1),    affine(7, -3, 0.1, 0.7),
                           labelled(12, 1, false), labelled(12, 0.3, true), affine(1, 0, 0, 1),
                           affine(4, 0, 0x1p51, 1)};
  for (size_t k = 0; k < sizeof axes / sizeof *axes; k++) {
    tsr_grid_axis *axis = axes[k];
    const uint64_t n = axis->count;
    for (uint64_t i = 0; i < n; i++) {
      const double low = tsr__axis_edge(axis, i), high = tsr__axis_edge(axis, i + 1),
                   centre = tsr__axis_centre(axis, i);
      assert_true(low < high && low <= centre && centre < high);
      assert_int_equal(tsr__axis_cell(axis, low), i);
      assert_int_equal(tsr__axis_cell(axis, nextafter(high, low)), i);
      assert_int_equal(tsr__axis_centre_from(axis, centre), i);
      assert_int_equal(tsr__axis_centre_from(axis, nextafter(centre, INFINITY)), i + 1);
    }
    const double end = tsr__axis_edge(axis, n);
    assert_int_equal(tsr__axis_cell(axis, end), n);
    assert_int_equal(tsr__axis_cell(axis, end + 100), n);
    assert_int_equal(tsr__axis_cell(axis, tsr__axis_edge(axis, 0) - 100), 0);
    assert_int_equal(tsr__axis_centre_from(axis, tsr__axis_edge(axis, 0) - 100), 0);
    assert_int_equal(tsr__axis_centre_from(axis, end + 100), n);
  }
  /* A falling axis numbers its cells along rising values; its coordinates fall. */
  assert_int_equal(tsr__axis_coordinate(axes[0], 0), 5);
  assert_int_equal(tsr__axis_coordinate(axes[1], 0), 14);
  assert_true(tsr__axis_edge(axes[1], 0) == -7 && tsr__axis_edge(axes[1], 10) == 3 &&
              tsr__axis_centre(axes[1], 9) == 2.5);
  assert_true(axes[3]->gaps && !axes[3]->falls && axes[4]->gaps && axes[4]->falls);
  assert_int_equal(tsr__axis_coordinate(axes[4], 0), 12);
  assert_true(tsr__axis_edge(axes[3], 0) == -0.5 && tsr__axis_edge(axes[3], 3) == 2.75);
  assert_true(tsr_grid_axis_is_even(axes[0]) && tsr_grid_axis_is_even(axes[1]) && !tsr_grid_axis_is_even(axes[3]));
  for (size_t k = 0; k < sizeof axes / sizeof *axes; k++) tsr_grid_axis_close(axes[k]);
  tsr_grid_axis_close(NULL);
  /* Labels are rounded: steps that differ by less than a hundredth are equal. */
  static const int64_t coordinates[] = {7, 8, 9};
  static const struct {
    double centres[3];
    bool even;
  } steps[] = {{{0, 1, 2}, true},      {{0, 1.009, 2}, true}, {{0, 1.011, 2}, false},
               {{0, 0.989, 2}, false}, {{2, 1, 0}, true},     {{10, 11, 12}, true}};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    tsr_grid_axis *axis = NULL;
    assert_int_equal(tsr_grid_axis_of_centres(environment, "a", 3, coordinates, steps[i].centres, &axis, &error),
                     TSR_OK);
    assert_int_equal(tsr_grid_axis_is_even(axis), steps[i].even);
    assert_false(axis->gaps);
    tsr_grid_axis_close(axis);
  }
}

static void test_axes_that_are_none(void **state) {
  static const int64_t rising[] = {0, 1, 2, 3};
  static const struct {
    double centres[3];
    uint64_t count;
    const char *says;
  } labels[] = {
      {{0, 1, 2}, 3, NULL},
      {{0, 1}, 2, NULL},
      {{-1e300, 0, 1e300}, 3, NULL},
      {{0}, 0, "a has no labels"},
      {{0}, 1, "a has one label"},
      {{0, 1, 1}, 3, "neither rise nor fall"},
      {{0, 1, 0.5}, 3, "neither rise nor fall"},
      {{0, 0, 1}, 3, "neither rise nor fall"},
      {{0, -1, -1}, 3, "neither rise nor fall"},
      {{0, 1, INFINITY}, 3, "a label of a is not finite"},
      {{0, 1, NAN}, 3, "a label of a is not finite"},
      {{0, 1, 2e300}, 3, "beyond 1e300"},
      {{0, 5e-324, 1}, 3, "too close together"},
  };
  static const struct {
    uint64_t count;
    double origin, step;
    const char *says;
  } cells[] = {
      {1, 0, 1, NULL},
      {1, 0, 1e300, NULL},
      {UINT64_C(1) << 53, 0, 1, NULL},
      {0, 0, 1, "a has no coordinates"},
      {(UINT64_C(1) << 53) + 1, 0, 1, "more than 2^53 coordinates"},
      {1, 0, 0, "no width"},
      {1, 0, NAN, "no width"},
      {1, NAN, 1, "not finite"},
      {1, 1e301, 1e290, "not finite"},
      {1, 1e300, 1, "no width"},
      {2, -0x1p53, 0x1p52, NULL},
      {10, 9e299, 1e299, "not finite"},
      {UINT64_C(1) << 52, 0x1p53, 1, "no width"},
      {UINT64_C(1) << 52, -0x1p53 - 0x1p52, 1, "no width"},
  };
  for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
    tsr_grid_axis *axis = NULL;
    const int rc =
        tsr_grid_axis_of_centres(environment, "a", labels[i].count, rising, labels[i].centres, &axis, &error);
    if (labels[i].says ? rc != TSR_MISMATCH || !strstr(error.message, labels[i].says) : rc < 0)
      fail_msg("labels %d: %d: %s", (int)i, rc, error.message);
    tsr_grid_axis_close(axis);
  }
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
    tsr_grid_axis *axis = NULL;
    const int rc =
        tsr_grid_axis_affine(environment, "a", cells[i].count, 0, cells[i].origin, cells[i].step, &axis, &error);
    if (cells[i].says ? rc >= 0 || !strstr(error.message, cells[i].says) : rc < 0)
      fail_msg("cells %d: %d: %s", (int)i, rc, error.message);
    tsr_grid_axis_close(axis);
  }
}

/* ---- Weights --------------------------------------------------------------------------------- */

static const char *print_weights(int rc, const tsr_weights *w) {
  static char text[200];
  if (rc == 0) return "outside";
  *text = 0;
  for (uint32_t i = 0; i < w->count; i++)
    sprintf(text + strlen(text), "%s%d:%g", i ? " " : "", (int)w->cells[i], w->weights[i]);
  return text;
}

static void test_weights_of_cells(void **state) {
  enum { LINEAR = TSR_SAMPLE_LINEAR, NEAREST = TSR_SAMPLE_NEAREST, CUBIC = TSR_SAMPLE_CUBIC };
  static const struct {
    int method;
    uint64_t index;
    double part;
    uint64_t last;
    const char *weights;
  } cases[] = {
      {LINEAR, 2, 0.25, 9, "2:0.75 3:0.25"},
      {LINEAR, 2, 0, 9, "2:1"},
      {LINEAR, 9, 0, 9, "9:1"},
      {LINEAR, 9, 0.1, 9, "outside"},
      {LINEAR, 10, 0, 9, "outside"},
      {LINEAR, UINT64_MAX, 0.9, 9, "outside"},
      {NEAREST, 2, 0.5, 9, "2:1"},
      {NEAREST, 2, 0.51, 9, "3:1"},
      {NEAREST, 9, 0.5, 9, "9:1"},
      {NEAREST, 9, 0.51, 9, "outside"},
      {NEAREST, UINT64_MAX, 0.5, 9, "0:1"},
      {NEAREST, UINT64_MAX, 0.49, 9, "outside"},
      {CUBIC, 2, 0.5, 9, "1:-0.0625 2:0.5625 3:0.5625 4:-0.0625"},
      {CUBIC, 2, 0.25, 9, "1:-0.0703125 2:0.867188 3:0.226562 4:-0.0234375"},
      {CUBIC, 2, 0, 9, "2:1"},
      {CUBIC, 0, 0.5, 9, "0:0.5 1:0.5"}, /* beside an end: linear */
      {CUBIC, 8, 0.5, 9, "8:0.5 9:0.5"},
      {CUBIC, 1, 0.5, 9, "0:-0.0625 1:0.5625 2:0.5625 3:-0.0625"},
      {CUBIC, 7, 0.5, 9, "6:-0.0625 7:0.5625 8:0.5625 9:-0.0625"},
      {CUBIC, 0, 0.5, 1, "0:0.5 1:0.5"},
      {LINEAR, 0, 0, 0, "0:1"},
  };
  tsr_weights w;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int rc =
        tsr_cells_weigh((tsr_sample_method)cases[i].method, cases[i].index, cases[i].part, cases[i].last, &w);
    if (strcmp(print_weights(rc, &w), cases[i].weights) != 0) fail_msg("case %d: %s", (int)i, print_weights(rc, &w));
  }
  /* Axes: ten cells around the centres 0.5 to 9.5; the same downward; and as a ring. */
  static const struct {
    int axis, method;
    double value, wrap;
    const char *weights;
  } places[] = {
      {0, LINEAR, 2.75, 0, "2:0.75 3:0.25"},
      {0, LINEAR, 0.5, 0, "0:1"},
      {0, LINEAR, 0.49, 0, "outside"},
      {0, LINEAR, 9.5, 0, "9:1"},
      {0, LINEAR, 9.51, 0, "outside"},
      {0, NEAREST, 0, 0, "0:1"},
      {0, NEAREST, -0.01, 0, "outside"},
      {0, NEAREST, 10, 0, "9:1"},
      {0, NEAREST, 10.01, 0, "outside"},
      {0, NEAREST, 3, 0, "2:1"},
      {0, LINEAR, NAN, 0, "outside"},
      {0, LINEAR, INFINITY, 10, "outside"},
      {0, LINEAR, 0.25, 10, "9:0.25 0:0.75"},
      {0, LINEAR, 9.75, 10, "9:0.75 0:0.25"},
      {0, LINEAR, 0.25, 10.005, "9:0.248756 0:0.751244"}, /* nearly as long */
      {0, LINEAR, -7.25, 10, "2:0.75 3:0.25"},
      {0, LINEAR, 1002.75, 10, "2:0.75 3:0.25"},
      {0, CUBIC, 0, 10, "8:-0.0625 9:0.5625 0:0.5625 1:-0.0625"},
      {0, CUBIC, 1, 10, "9:-0.0625 0:0.5625 1:0.5625 2:-0.0625"},
      {0, CUBIC, 9, 10, "7:-0.0625 8:0.5625 9:0.5625 0:-0.0625"},
      {0, LINEAR, 0.25, 12, "outside"}, /* no ring: the axis is shorter than that */
      {0, LINEAR, 14.75, 12, "2:0.75 3:0.25"},
      {1, LINEAR, 2.75, 0, "7:0.75 6:0.25"},
      {1, NEAREST, 3, 0, "6:1"}, /* of two, the lower coordinate */
      {2, LINEAR, 0.75, 0, "0:0.25 1:0.75"},
      {2, LINEAR, 2.75, 0, "2:0.5 3:0.5"},
      {2, LINEAR, 1, 0, "1:1"},
      {3, CUBIC, 10, 0, "103:-0.0625 104:0.5625 105:0.5625 106:-0.0625"},
      {3, LINEAR, 5.25, 10, "109:0.25 100:0.75"},
  };
  tsr_grid_axis *axes[] = {affine(10, 0, 0, 1), affine(10, 0, 10, -1), labelled(12, 1, false), affine(10, 100, 5, 1)};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    const int rc = tsr_grid_axis_weigh(axes[places[i].axis], (tsr_sample_method)places[i].method, places[i].value,
                                       places[i].wrap, &w);
    if (strcmp(print_weights(rc, &w), places[i].weights) != 0) fail_msg("place %d: %s", (int)i, print_weights(rc, &w));
  }
  for (int i = 0; i < 4; i++) tsr_grid_axis_close(axes[i]);
}

/* ---- Covers ---------------------------------------------------------------------------------- */

#define SIDE 8

/* Cuts a convex polygon along a line: keeps the points with sign * (p[axis] - at) >= 0. Returns how many are left. */
static int clip(double (*points)[2], int count, int axis, double at, double sign) {
  double out[16][2];
  int n = 0;
  for (int i = 0; i < count; i++) {
    const double *p = points[i], *q = points[(i + 1) % count];
    const double a = sign * (p[axis] - at), b = sign * (q[axis] - at);
    if (a >= 0) memcpy(out[n++], p, sizeof *out);
    if ((a > 0 && b < 0) || (a < 0 && b > 0)) {
      const double t = a / (a - b);
      out[n][0] = p[0] + t * (q[0] - p[0]);
      out[n][1] = p[1] + t * (q[1] - p[1]);
      n++;
    }
  }
  memcpy(points, out, (size_t)n * sizeof *out);
  return n;
}

static double area(double (*p)[2], int count) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += p[i][0] * p[(i + 1) % count][1] - p[(i + 1) % count][0] * p[i][1];
  return fabs(sum) / 2;
}

/* The area of a triangle in a cell. */
static double area_within(double (*triangle)[2], const double low[2], const double high[2]) {
  double points[16][2];
  memcpy(points, triangle, 3 * sizeof *points);
  int n = 3;
  for (int axis = 0; axis < 2 && n; axis++) {
    n = clip(points, n, axis, low[axis], 1);
    n = clip(points, n, axis, high[axis], -1);
  }
  return area(points, n);
}

/* Says on which side of each side a point is: 1 inside, 0 outside, -1 too near to tell. */
static int contains(double (*t)[2], double x, double y) {
  int positive = 0;
  for (int i = 0; i < 3; i++) {
    const double *p = t[i], *q = t[(i + 1) % 3];
    const double cross = (q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (x - p[0]);
    if (fabs(cross) < 1e-9) return -1;
    positive += cross > 0;
  }
  return positive == 0 || positive == 3;
}

typedef double plane[2 * SIDE][2 * SIDE];

/* Cuts a geometry into runs, which must be in order and maximal. */
static int cover_at(const tsr_geometry *g, tsr_grid_axis *y, tsr_grid_axis *x, tsr_cover_rule rule, double wrap,
                    plane cells) {
  const tsr_cover_request request = {.geometry = g, .y = y, .x = x, .rule = rule, .wrap = wrap};
  tsr_cover *cover = NULL;
  tsr_cover_run run, before = {.y = -100};
  memset(cells, 0, sizeof(plane));
  int rc = tsr_cover_open(environment, &request, &cover, &error);
  while (rc >= 0 && (rc = tsr_cover_next(cover, &run, &error)) > 0) {
    assert_true(run.x_from <= run.x_to && run.coverage > 0 && run.coverage <= 1);
    assert_true(run.y > before.y || (run.y == before.y && run.x_from > before.x_to));
    assert_true(run.y != before.y || run.x_from != before.x_to + 1 || run.coverage != before.coverage);
    for (int64_t i = run.x_from; i <= run.x_to; i++) cells[run.y][i] = run.coverage;
    before = run;
  }
  tsr_cover_close(cover);
  return rc;
}

static tsr_geometry *triangle_of(double (*t)[2]) {
  char text[400];
  tsr_geometry *g = NULL;
  snprintf(text, sizeof text, "POLYGON ((%.17g %.17g, %.17g %.17g, %.17g %.17g))", t[0][0], t[0][1], t[1][0], t[1][1],
           t[2][0], t[2][1]);
  assert_int_equal(tsr_geometry_read(environment, text, strlen(text), true, 0, &g, &error), TSR_OK);
  return g;
}

static void check_triangle(double (*t)[2], tsr_grid_axis *y, tsr_grid_axis *x) {
  static plane shares, centres, touched;
  tsr_geometry *g = triangle_of(t);
  assert_int_equal(cover_at(g, y, x, TSR_COVER_FRACTION, 0, shares), 0);
  assert_int_equal(cover_at(g, y, x, TSR_COVER_CENTRE, 0, centres), 0);
  assert_int_equal(cover_at(g, y, x, TSR_COVER_TOUCHED, 0, touched), 0);
  for (uint64_t i = 0; i < y->count; i++)
    for (uint64_t k = 0; k < x->count; k++) {
      const double low[2] = {tsr__axis_edge(x, k), tsr__axis_edge(y, i)},
                   high[2] = {tsr__axis_edge(x, k + 1), tsr__axis_edge(y, i + 1)};
      const double share = area_within(t, low, high) / ((high[0] - low[0]) * (high[1] - low[1]));
      const int64_t row = tsr__axis_coordinate(y, i), column = tsr__axis_coordinate(x, k);
      const double found = shares[row][column];
      if (fabs(found - share) > 1e-9) fail_msg("cell %d %d: %.17g, not %.17g", (int)row, (int)column, found, share);
      const int in = contains(t, tsr__axis_centre(x, k), tsr__axis_centre(y, i));
      if (in >= 0) assert_true(centres[row][column] == in);
      if (share > 1e-9) assert_true(touched[row][column] == 1);
      if (share == 0) assert_true(touched[row][column] == 0);
    }
  tsr_geometry_close(g);
}

static void test_triangles(void **state) {
  tsr_grid_axis *ys[] = {affine(SIDE, 0, 0, 1), affine(SIDE, 0, SIDE, -1), labelled(SIDE, 1, false),
                         labelled(SIDE, 1, true)};
  tsr_grid_axis *xs[] = {affine(SIDE, 0, 0, 1), affine(SIDE, 0, SIDE, -1), labelled(SIDE, 1, false),
                         labelled(SIDE, 1, true)};
  seed = 7;
  for (int round = 0; round < 600; round++) {
    tsr_grid_axis *y = ys[chance(4)], *x = xs[chance(4)];
    const bool whole = chance(2); /* on the edges of cells, or anywhere */
    const double low[2] = {tsr__axis_edge(x, 0), tsr__axis_edge(y, 0)};
    double t[3][2];
    for (int i = 0; i < 3; i++)
      for (int k = 0; k < 2; k++)
        t[i][k] = low[k] + (whole ? (double)chance(15) - 3 : (double)chance(1000000) / 70000 - 3);
    if (area(t, 3) > 0.01) check_triangle(t, y, x);
  }
  for (int i = 0; i < 4; i++) {
    tsr_grid_axis_close(ys[i]);
    tsr_grid_axis_close(xs[i]);
  }
}

static void expect_cover(const char *text, tsr_cover_rule rule, double wrap, const char *rows) {
  static plane cells;
  tsr_geometry *g = NULL;
  tsr_grid_axis *y = affine(4, 0, 0, 1), *x = affine(4, 0, 0, 1);
  char found[400] = "";
  assert_int_equal(tsr_geometry_read(environment, text, strlen(text), true, 0, &g, &error), TSR_OK);
  assert_int_equal(cover_at(g, y, x, rule, wrap, cells), 0);
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 4; k++) sprintf(found + strlen(found), "%s%g", k ? " " : i ? ", " : "", cells[i][k]);
  if (strcmp(found, rows) != 0) fail_msg("%s: %s", text, found);
  tsr_geometry_close(g);
  tsr_grid_axis_close(y);
  tsr_grid_axis_close(x);
}

static void test_rings_join_and_subtract(void **state) {
  static const char whole[] = "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))";
  expect_cover(whole, TSR_COVER_FRACTION, 0, "1 1 1 1, 1 1 1 1, 1 1 1 1, 1 1 1 1");
  expect_cover(whole, TSR_COVER_TOUCHED, 0, "1 1 1 1, 1 1 1 1, 1 1 1 1, 1 1 1 1");
  expect_cover("POLYGON ((0 0, 0 4, 4 4, 4 0, 0 0))", TSR_COVER_CENTRE, 0, "1 1 1 1, 1 1 1 1, 1 1 1 1, 1 1 1 1");
  /* a hole */
  static const char hole[] = "POLYGON ((0 0, 4 0, 4 4, 0 4), (1 1, 3 1, 3 2.5, 1 2.5))";
  expect_cover(hole, TSR_COVER_FRACTION, 0, "1 1 1 1, 1 0 0 1, 1 0.5 0.5 1, 1 1 1 1");
  expect_cover(hole, TSR_COVER_TOUCHED, 0, "1 1 1 1, 1 0 0 1, 1 1 1 1, 1 1 1 1");
  expect_cover(hole, TSR_COVER_CENTRE, 0, "1 1 1 1, 1 0 0 1, 1 1 1 1, 1 1 1 1");
  /* holes that overlap take more than the cell together, and yet leave some of it */
  expect_cover("POLYGON ((0 0, 4 0, 4 4, 0 4), (1 1, 1.6 1, 1.6 2, 1 2), (1.2 1, 1.8 1, 1.8 2, 1.2 2))",
               TSR_COVER_TOUCHED, 0, "1 1 1 1, 1 1 1 1, 1 1 1 1, 1 1 1 1");
  /* a hole within a hole */
  expect_cover(
      "POLYGON ((0 0, 4 0, 4 4, 0 4), (0.5 0.5, 3.5 0.5, 3.5 3.5, 0.5 3.5), (1.2 1.2, 1.8 1.2, 1.8 1.8, 1.2 1.8))",
      TSR_COVER_FRACTION, 0, "0.75 0.5 0.5 0.75, 0.5 0 0 0.5, 0.5 0 0 0.5, 0.75 0.5 0.5 0.75");
  /* a hole outside of its polygon is nothing */
  expect_cover("POLYGON ((0 0, 1 0, 1 1, 0 1), (2.2 2.2, 2.8 2.2, 2.8 2.8))", TSR_COVER_TOUCHED, 0,
               "1 0 0 0, 0 0 0 0, 0 0 0 0, 0 0 0 0");
  /* two polygons that overlap do not count twice; two that share a cell add up */
  expect_cover("MULTIPOLYGON (((0 0, 2 0, 2 2, 0 2)), ((1 1, 3 1, 3 3, 1 3)))", TSR_COVER_FRACTION, 0,
               "1 1 0 0, 1 1 1 0, 0 1 1 0, 0 0 0 0");
  expect_cover("MULTIPOLYGON (((0 0, 0.5 0, 0.5 1, 0 1)), ((0.5 0, 1.25 0, 1.25 1, 0.5 1)))", TSR_COVER_FRACTION, 0,
               "1 0.25 0 0, 0 0 0 0, 0 0 0 0, 0 0 0 0");
  /* a ring that winds twice around a place covers it once; a bow tie covers both of its halves */
  expect_cover("POLYGON ((0 0, 2 0, 2 2, 0 2, 0 0, 2 0, 2 2, 0 2, 0 0))", TSR_COVER_FRACTION, 0,
               "1 1 0 0, 1 1 0 0, 0 0 0 0, 0 0 0 0");
  expect_cover("POLYGON ((0 0, 0 2, 2 0, 2 2))", TSR_COVER_FRACTION, 0, "0.5 0.5 0 0, 0.5 0.5 0 0, 0 0 0 0, 0 0 0 0");
  /* beyond the grid on every side, and nowhere on it */
  expect_cover("POLYGON ((-5 1, 9 1, 9 1.5, -5 1.5))", TSR_COVER_FRACTION, 0,
               "0 0 0 0, 0.5 0.5 0.5 0.5, 0 0 0 0, 0 0 0 0");
  expect_cover("POLYGON ((1 -5, 1.5 -5, 1.5 9, 1 9))", TSR_COVER_FRACTION, 0,
               "0 0.5 0 0, 0 0.5 0 0, 0 0.5 0 0, 0 0.5 0 0");
  expect_cover("POLYGON ((5 0, 9 0, 9 4))", TSR_COVER_TOUCHED, 0, "0 0 0 0, 0 0 0 0, 0 0 0 0, 0 0 0 0");
  expect_cover("POLYGON ((0 5, 4 5, 4 9))", TSR_COVER_TOUCHED, 0, "0 0 0 0, 0 0 0 0, 0 0 0 0, 0 0 0 0");
  expect_cover("POLYGON ((-9 0, -1 0, -1 4))", TSR_COVER_TOUCHED, 0, "0 0 0 0, 0 0 0 0, 0 0 0 0, 0 0 0 0");
  expect_cover("POLYGON EMPTY", TSR_COVER_TOUCHED, 0, "0 0 0 0, 0 0 0 0, 0 0 0 0, 0 0 0 0");
  /* repeated along x: each 4, and each 2 */
  expect_cover("POLYGON ((3 0, 5 0, 5 1, 3 1))", TSR_COVER_FRACTION, 4, "1 0 0 1, 0 0 0 0, 0 0 0 0, 0 0 0 0");
  expect_cover("POLYGON ((100 0, 101 0, 101 1, 100 1))", TSR_COVER_FRACTION, 2, "1 0 1 0, 0 0 0 0, 0 0 0 0, 0 0 0 0");
  /* what has no area touches nothing but what it runs through */
  expect_cover("POLYGON ((0.5 0.5, 2.5 0.5, 0.5 0.5))", TSR_COVER_TOUCHED, 0, "1 1 1 0, 0 0 0 0, 0 0 0 0, 0 0 0 0");
  expect_cover("POLYGON ((0.5 0.5, 2.5 0.5, 0.5 0.5))", TSR_COVER_FRACTION, 0, "0 0 0 0, 0 0 0 0, 0 0 0 0, 0 0 0 0");
  expect_cover("POLYGON ((0 1, 3 1, 0 1))", TSR_COVER_TOUCHED, 0, "0 0 0 0, 0 0 0 0, 0 0 0 0, 0 0 0 0");
}

static void test_limits_of_a_cover(void **state) {
  static plane cells;
  static const double wraps[] = {-1, NAN, INFINITY, 1e301};
  double t[3][2] = {{0, 0}, {7, 1}, {3, 6}};
  tsr_geometry *g = triangle_of(t);
  tsr_grid_axis *y = affine(SIDE, 0, 0, 1), *x = affine(SIDE, 0, 0, 1);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(cover_at(g, y, x, TSR_COVER_FRACTION, wraps[i], cells), TSR_MISMATCH);
    assert_non_null(strstr(error.message, "wrap is a distance above 0"));
  }
  assert_int_equal(cover_at(g, y, x, TSR_COVER_FRACTION, 1e-7, cells), TSR_BUDGET);
  assert_non_null(strstr(error.message, "repeated by wrap, has more than 16777216 points"));
  for (long left = 0;; left++) { /* each allocation fails */
    fails_at = left;
    const int rc = cover_at(g, y, x, TSR_COVER_FRACTION, 3, cells);
    const bool all = fails_at >= 0;
    fails_at = -1;
    if (all) break;
    assert_int_equal(rc, TSR_NOMEM);
    assert_true(left < 40);
  }
  tsr_geometry_close(g);
  tsr_grid_axis_close(y);
  tsr_grid_axis_close(x);
  static const double centres[] = {0, 1, 2};
  static const int64_t coordinates[] = {0, 1, 2};
  for (long left = 0; left < 5; left++) {
    tsr_grid_axis *axis = NULL;
    counted.left = left;
    const int rc = tsr_grid_axis_of_centres(environment, "a", 3, coordinates, centres, &axis, &error);
    counted.left = -1;
    assert_int_equal(rc, left < 4 ? TSR_NOMEM : TSR_OK);
    tsr_grid_axis_close(axis);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_texts),
      TEST(test_damaged_texts),
      TEST(test_blobs),
      TEST(test_memory_and_budget_of_points),
      TEST(test_numbers),
      TEST(test_cells_of_an_axis),
      TEST(test_axes_that_are_none),
      TEST(test_weights_of_cells),
      TEST(test_triangles),
      TEST(test_rings_join_and_subtract),
      TEST(test_limits_of_a_cover),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
