/* geojson.c: reads GeoJSON: a Polygon, a MultiPolygon, or a Feature that has one.
 *
 *   {"type": "Polygon", "coordinates": [[[x, y], ...], ...]}
 *   {"type": "MultiPolygon", "coordinates": [[[[x, y], ...], ...], ...]}
 *   {"type": "Feature", "geometry": {...}, ...}
 *
 * Members may be in any order, so an object is read twice: first its members are found and checked, then the one that
 * matters is read. Others are skipped, without recursion. */
#include <string.h>

#include "base/json.h"
#include "geometry/geometry.h"

/* ---- Coordinates ------------------------------------------------------------------------------------------------- */

static int json_point(tsr_geometry *g, tsr_text *in, tsr_error *error) {
  double x, y, unused;
  if (!tsr__text_take(in, '[')) return tsr__text_fail(in, "'['", error);
  TSR_TRY(tsr__text_number(in, &x, error));
  if (!tsr__text_take(in, ',')) return tsr__text_fail(in, "a second coordinate", error);
  TSR_TRY(tsr__text_number(in, &y, error));
  while (tsr__text_take(in, ',')) TSR_TRY(tsr__text_number(in, &unused, error));
  if (!tsr__text_take(in, ']')) return tsr__text_fail(in, "']'", error);
  return tsr__geometry_point(g, x, y, error);
}

/* Reads a list of points, rings or polygons, by `depth`: 1, 2 or 3. */
static int json_list(tsr_geometry *g, tsr_text *in, int depth, tsr_error *error) {
  if (!tsr__text_take(in, '[')) return tsr__text_fail(in, "'['", error);
  const bool empty = tsr__text_take(in, ']');
  if (!empty) {
    do TSR_TRY(depth > 1 ? json_list(g, in, depth - 1, error) : json_point(g, in, error));
    while (tsr__text_take(in, ','));
    if (!tsr__text_take(in, ']')) return tsr__text_fail(in, "',' or ']'", error);
  }
  if (depth == 1) return tsr__geometry_ring(g, error);
  if (depth == 2) tsr__geometry_part(g);
  return TSR_OK;
}

/* ---- Objects ----------------------------------------------------------------------------------------------------- */

typedef struct json_members { /* of an object: where their values begin; NULL: there is none */
  const char *type, *coordinates, *geometry;
  uint64_t type_size;
} json_members;

/* Finds the members of an object. */
static int json_find(tsr_text *in, json_members *members, tsr_error *error) {
  const char *name;
  uint64_t size;
  *members = (json_members){.type = NULL};
  if (!tsr__text_take(in, '{')) return tsr__text_fail(in, "an object", error);
  if (tsr__text_take(in, '}')) return TSR_OK;
  do {
    TSR_TRY(tsr__json_name(in, &name, &size, error));
    tsr__text_skip(in);
    if (tsr__json_is(name, size, "coordinates")) members->coordinates = in->at;
    if (tsr__json_is(name, size, "geometry")) members->geometry = in->at;
    if (tsr__json_is(name, size, "type") && in->at < in->end && *in->at == '"')
      TSR_TRY(tsr__json_string(in, &members->type, &members->type_size, error));
    else TSR_TRY(tsr__json_skip(in, error));
  } while (tsr__text_take(in, ','));
  return tsr__text_take(in, '}') ? TSR_OK : tsr__text_fail(in, "',' or '}'", error);
}

/* Reads a geometry whose members were found. */
static int json_geometry(tsr_geometry *g, const tsr_text *in, const json_members *members, tsr_error *error) {
  const bool many = tsr__json_is(members->type, members->type_size, "MultiPolygon");
  if (!members->type) return tsr__fail(error, TSR_MISMATCH, "the GeoJSON has no type");
  if (!many && !tsr__json_is(members->type, members->type_size, "Polygon"))
    return tsr__geometry_wrong_type(members->type, members->type_size, error);
  if (!members->coordinates) return tsr__fail(error, TSR_MISMATCH, "the GeoJSON has no coordinates");
  tsr_text from = {in->what, in->begin, members->coordinates, in->end};
  return json_list(g, &from, many ? 3 : 2, error);
}

int tsr__geojson_read(tsr_geometry *g, tsr_text *in, tsr_error *error) {
  json_members members;
  TSR_TRY(json_find(in, &members, error));
  tsr__text_skip(in);
  if (in->at < in->end) return tsr__text_fail(in, "its end", error);
  if (!tsr__json_is(members.type, members.type_size, "Feature")) return json_geometry(g, in, &members, error);
  if (!members.geometry) return tsr__fail(error, TSR_MISMATCH, "the Feature has no geometry");
  tsr_text from = {in->what, in->begin, members.geometry, in->end};
  if (from.end - from.at >= 4 && memcmp(from.at, "null", 4) == 0) return TSR_OK;
  TSR_TRY(json_find(&from, &members, error));
  return json_geometry(g, in, &members, error);
}
