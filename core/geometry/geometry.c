/* geometry.c: keeps the points of polygons while they are read, finds out which form a text or a blob has, and reads
 * numbers. */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "environment/environment.h"
#include "geometry/geometry.h"

#define GEOMETRY_DEFAULT_MEMORY (UINT64_C(1) << 30)
#define NUMBER_MAX              400 /* most characters of a number */

/* ---- Points ------------------------------------------------------------------------------------------------------ */

int tsr__geometry_point(tsr_geometry *g, double x, double y, tsr_error *error) {
  if (!(fabs(x) <= TSR_COORDINATE_MAX && fabs(y) <= TSR_COORDINATE_MAX))
    return tsr__fail(error, TSR_MISMATCH, "a coordinate is not finite, or beyond 1e300");
  if (g->point_count == TSR_POINTS_MAX)
    return tsr__fail(error, TSR_BUDGET, "the polygon has more than %llu points", (unsigned long long)TSR_POINTS_MAX);
  if (g->point_count == g->point_room) {
    const uint64_t room = g->point_room ? 2 * g->point_room : 64;
    TSR_TRY(TSR_REALLOC_ARRAY(&g->memory, room, &g->points, error));
    g->point_room = room;
  }
  g->points[g->point_count][0] = x;
  g->points[g->point_count++][1] = y;
  return TSR_OK;
}

int tsr__geometry_ring(tsr_geometry *g, tsr_error *error) {
  const uint64_t begin = g->ring_count ? g->rings[g->ring_count - 1].end : 0, count = g->point_count - begin;
  if (count < 3)
    return tsr__fail(error, TSR_MISMATCH, "a ring has %llu point%s: expected at least 3", (unsigned long long)count,
                     count == 1 ? "" : "s");
  if (g->ring_count == g->ring_room) {
    const uint64_t room = g->ring_room ? 2 * g->ring_room : 4;
    TSR_TRY(TSR_REALLOC_ARRAY(&g->memory, room, &g->rings, error));
    g->ring_room = room;
  }
  g->rings[g->ring_count++] = (tsr_ring){.end = g->point_count, .part = g->part_count};
  return TSR_OK;
}

void tsr__geometry_part(tsr_geometry *g) {
  if (g->ring_count && g->rings[g->ring_count - 1].part == g->part_count) g->part_count++;
}

int tsr__geometry_none(tsr_error *error) {
  return tsr__fail(error, TSR_MISMATCH, "no geometry: expected GeoJSON, WKT, WKB or GeoPackage");
}

int tsr__geometry_wrong_type(const char *name, uint64_t size, tsr_error *error) {
  char shown[33];
  const uint64_t n = TSR_MIN(size, sizeof shown - 1);
  for (uint64_t i = 0; i < n; i++) shown[i] = name[i] > ' ' && name[i] < 0x7f ? name[i] : '?';
  shown[n] = 0;
  return tsr__fail(error, TSR_MISMATCH, "expected a POLYGON or MULTIPOLYGON, not %s", shown);
}

/* ---- Forms ------------------------------------------------------------------------------------------------------- */

static int read_text(tsr_geometry *g, const char *text, uint64_t size, tsr_error *error) {
  tsr_geometry_text in = {text, text, text + size};
  tsr__text_skip(&in);
  if (in.at == in.end) return tsr__geometry_none(error);
  return *in.at == '{' ? tsr__geojson_read(g, &in, error) : tsr__wkt_read(g, &in, error);
}

int tsr_geometry_read(tsr_environment *environment, const void *bytes, uint64_t size, bool text, uint64_t memory_bytes,
                      tsr_geometry **geometry, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_geometry *g;
  TSR_TRY(TSR_ALLOC(&environment->memory, &g, error));
  tsr__memory_init(&g->memory, &environment->memory, memory_bytes ? memory_bytes : GEOMETRY_DEFAULT_MEMORY,
                   "memory_mb");
  const int code = text ? read_text(g, bytes, size, error) : tsr__wkb_read(g, bytes, size, error);
  if (code < 0) tsr_geometry_close(g);
  else *geometry = g;
  return code;
}

void tsr_geometry_close(tsr_geometry *geometry) {
  if (!geometry) return;
  tsr__free(geometry->points);
  tsr__free(geometry->rings);
  tsr__free(geometry);
}

/* ---- Texts ------------------------------------------------------------------------------------------------------- */

int tsr__text_fail(const tsr_geometry_text *in, const char *expected, tsr_error *error) {
  const unsigned long long at = (unsigned long long)(in->at - in->begin) + 1;
  if (in->at == in->end)
    return tsr__fail(error, TSR_MISMATCH, "the geometry ends early (byte %llu): expected %s", at, expected);
  return tsr__fail(error, TSR_MISMATCH, "the geometry is damaged at byte %llu: expected %s", at, expected);
}

typedef struct number_text { /* the parts of a number, and its first digits */
  uint64_t mantissa; /* the digits before and after the point; above TSR_EXACT_REAL some may be missing */
  int64_t exponent; /* the number is mantissa * 10^exponent */
} number_text;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads digits, and returns how many there were. */
static uint64_t take_digits(tsr_geometry_text *in, number_text *number) {
  const char *begin = in->at;
  for (; in->at < in->end && is_digit(*in->at); in->at++) {
    const uint64_t digit = (uint64_t)(*in->at - '0');
    if (number->mantissa <= (UINT64_MAX - 9) / 10) number->mantissa = 10 * number->mantissa + digit;
  }
  return (uint64_t)(in->at - begin);
}

/* Reads an exponent. Returns false if there is an 'e' without digits. */
static bool take_exponent(tsr_geometry_text *in, number_text *number) {
  if (in->at == in->end || (*in->at != 'e' && *in->at != 'E')) return true;
  in->at++;
  const bool negative = in->at < in->end && *in->at == '-';
  if (in->at < in->end && (*in->at == '-' || *in->at == '+')) in->at++;
  const char *begin = in->at;
  int64_t exponent = 0;
  for (; in->at < in->end && is_digit(*in->at); in->at++)
    if (exponent < 1000000) exponent = 10 * exponent + (*in->at - '0');
  number->exponent += negative ? -exponent : exponent;
  return in->at > begin;
}

/* Converts as the C library does. Its decimal point is the locale's. */
static double convert(const char *text, uint64_t size) {
  char local[NUMBER_MAX + 16];
  const char *point = memchr(text, '.', size), *shown = localeconv()->decimal_point;
  const uint64_t before = point ? (uint64_t)(point - text) : size, wide = point ? TSR_MIN(strlen(shown), 8u) : 0;
  memcpy(local, text, before);
  if (point) {
    memcpy(local + before, shown, wide);
    memcpy(local + before + wide, point + 1, size - before - 1);
  }
  local[point ? size - 1 + wide : size] = 0;
  return strtod(local, NULL);
}

int tsr__text_number(tsr_geometry_text *in, double *value, tsr_error *error) {
  static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  number_text number = {0};
  tsr__text_skip(in);
  const char *begin = in->at;
  const bool negative = in->at < in->end && *in->at == '-';
  if (in->at < in->end && (*in->at == '-' || *in->at == '+')) in->at++;
  uint64_t digits = take_digits(in, &number);
  if (in->at < in->end && *in->at == '.') {
    in->at++;
    const uint64_t after = take_digits(in, &number);
    number.exponent -= (int64_t)after;
    digits += after;
  }
  if (digits == 0 || !take_exponent(in, &number)) return tsr__text_fail(in, "a number", error);
  if (in->at - begin > NUMBER_MAX)
    return tsr__fail(error, TSR_MISMATCH, "a number has more than %d characters", NUMBER_MAX);
  /* A product or quotient of two exact numbers is rounded once. */
  if (FLT_EVAL_METHOD == 0 && number.mantissa <= (uint64_t)TSR_EXACT_REAL && number.exponent >= -22 &&
      number.exponent <= 22) {
    const double whole = (double)number.mantissa;
    *value = number.exponent < 0 ? whole / powers[-number.exponent] : whole * powers[number.exponent];
    if (negative) *value = -*value;
  } else {
    *value = convert(begin, (uint64_t)(in->at - begin));
  }
  return TSR_OK;
}
