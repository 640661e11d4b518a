/* wkt.c: reads WKT and EWKT:
 *
 *   [SRID=4326;] POLYGON [Z | M | ZM] ((x y [z [m]], ...), ...)
 *   [SRID=4326;] MULTIPOLYGON [Z | M | ZM] (((x y, ...), ...), ...)
 *
 * EMPTY may replace a list. Words are in any case. The numbers after x and y are skipped, and so is the SRID. */
#include <string.h>

#include "geometry/geometry.h"

static bool wkt_is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Returns the length of the word that is next, and skips the spaces before it. */
static uint64_t wkt_word_size(tsr_text *in) {
  const char *p;
  tsr__text_skip(in);
  for (p = in->at; p < in->end && wkt_is_letter(*p);) p++;
  return (uint64_t)(p - in->at);
}

static bool wkt_word_is(const char *at, uint64_t size, const char *word) {
  if (strlen(word) != size) return false;
  for (uint64_t i = 0; i < size; i++)
    if ((at[i] & ~0x20) != word[i]) return false;
  return true;
}

/* Skips a word if it is next. */
static bool wkt_take_word(tsr_text *in, const char *word) {
  const uint64_t size = wkt_word_size(in);
  const bool is = wkt_word_is(in->at, size, word);
  if (is) in->at += size;
  return is;
}

static int wkt_point(tsr_geometry *g, tsr_text *in, tsr_error *error) {
  double at[4];
  int n = 0;
  for (;;) {
    TSR_TRY(tsr__text_number(in, &at[n++], error));
    tsr__text_skip(in);
    if (in->at == in->end || *in->at == ',' || *in->at == ')') break;
    if (n == 4) return tsr__text_fail(in, "',' or ')'", error);
  }
  if (n < 2) return tsr__text_fail(in, "a second coordinate", error);
  return tsr__geometry_point(g, at[0], at[1], error);
}

static int wkt_ring(tsr_geometry *g, tsr_text *in, tsr_error *error) {
  if (wkt_take_word(in, "EMPTY")) return TSR_OK;
  if (!tsr__text_take(in, '(')) return tsr__text_fail(in, "'('", error);
  do TSR_TRY(wkt_point(g, in, error));
  while (tsr__text_take(in, ','));
  if (!tsr__text_take(in, ')')) return tsr__text_fail(in, "')'", error);
  return tsr__geometry_ring(g, error);
}

static int wkt_polygon(tsr_geometry *g, tsr_text *in, tsr_error *error) {
  if (wkt_take_word(in, "EMPTY")) return TSR_OK;
  if (!tsr__text_take(in, '(')) return tsr__text_fail(in, "'('", error);
  do TSR_TRY(wkt_ring(g, in, error));
  while (tsr__text_take(in, ','));
  tsr__geometry_part(g);
  return tsr__text_take(in, ')') ? TSR_OK : tsr__text_fail(in, "')'", error);
}

static int wkt_polygons(tsr_geometry *g, tsr_text *in, tsr_error *error) {
  if (wkt_take_word(in, "EMPTY")) return TSR_OK;
  if (!tsr__text_take(in, '(')) return tsr__text_fail(in, "'('", error);
  do TSR_TRY(wkt_polygon(g, in, error));
  while (tsr__text_take(in, ','));
  return tsr__text_take(in, ')') ? TSR_OK : tsr__text_fail(in, "')'", error);
}

static int wkt_srid(tsr_text *in, tsr_error *error) {
  if (!wkt_take_word(in, "SRID")) return TSR_OK;
  double srid;
  if (!tsr__text_take(in, '=')) return tsr__text_fail(in, "'='", error);
  TSR_TRY(tsr__text_number(in, &srid, error));
  return tsr__text_take(in, ';') ? TSR_OK : tsr__text_fail(in, "';'", error);
}

int tsr__wkt_read(tsr_geometry *g, tsr_text *in, tsr_error *error) {
  TSR_TRY(wkt_srid(in, error));
  const uint64_t size = wkt_word_size(in);
  if (size == 0) return tsr__geometry_none(error);
  const bool many = wkt_word_is(in->at, size, "MULTIPOLYGON") || wkt_word_is(in->at, size, "MULTIPOLYGONZ") ||
                    wkt_word_is(in->at, size, "MULTIPOLYGONM") || wkt_word_is(in->at, size, "MULTIPOLYGONZM");
  const bool one = wkt_word_is(in->at, size, "POLYGON") || wkt_word_is(in->at, size, "POLYGONZ") ||
                   wkt_word_is(in->at, size, "POLYGONM") || wkt_word_is(in->at, size, "POLYGONZM");
  if (!many && !one) return tsr__geometry_wrong_type(in->at, size, error);
  in->at += size;
  if (!wkt_take_word(in, "ZM") && !wkt_take_word(in, "Z")) wkt_take_word(in, "M");
  TSR_TRY(many ? wkt_polygons(g, in, error) : wkt_polygon(g, in, error));
  tsr__text_skip(in);
  return in->at == in->end ? TSR_OK : tsr__text_fail(in, "its end", error);
}
