/* geometry.c: keeps the points of polygons while they are read, and finds out which form a text or a blob has. */
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "environment/environment.h"
#include "geometry/geometry.h"

#define GEOMETRY_DEFAULT_MEMORY (UINT64_C(1) << 30)

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
  tsr_text in = {"geometry", text, text, text + size};
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
