/* geojson.c: reads GeoJSON: a Polygon, a MultiPolygon, or a Feature that has one.
 *
 *   {"type": "Polygon", "coordinates": [[[x, y], ...], ...]}
 *   {"type": "MultiPolygon", "coordinates": [[[[x, y], ...], ...], ...]}
 *   {"type": "Feature", "geometry": {...}, ...}
 *
 * Members may be in any order, so an object is read twice: first its members are found and checked, then the one that
 * matters is read. Others are skipped, without recursion.
 *
 * The reader of remote/keys.c does not serve here: it decodes the strings of a small object in place, in a copy that
 * ends with a NUL. A geometry may have millions of points, and is read where the caller keeps it. */
#include <string.h>

#include "geometry/geometry.h"

#define GEOJSON_DEPTH 512 /* most levels of values that are skipped: a bit each */

/* Reads a string, whose bytes between the quotes are [*text, *text + *size), with escapes as they are written. */
static int json_string(tsr_geometry_text *in, const char **text, uint64_t *size, tsr_error *error) {
  if (!tsr__text_take(in, '"')) return tsr__text_fail(in, "a string", error);
  *text = in->at;
  for (; in->at < in->end && *in->at != '"'; in->at++)
    if (*in->at == '\\' && in->at + 1 < in->end) in->at++;
  if (in->at == in->end) return tsr__text_fail(in, "'\"'", error);
  *size = (uint64_t)(in->at++ - *text);
  return TSR_OK;
}

/* Skips a number, or one of the words null, true and false. */
static int json_skip_word(tsr_geometry_text *in, tsr_error *error) {
  static const char *const words[] = {"null", "true", "false"};
  double unused;
  for (int i = 0; i < 3; i++) {
    const uint64_t size = strlen(words[i]);
    if ((uint64_t)(in->end - in->at) < size || memcmp(in->at, words[i], size) != 0) continue;
    in->at += size;
    return TSR_OK;
  }
  return tsr__text_number(in, &unused, error);
}

/* Reads the name of a member and the colon behind it. */
static int json_name(tsr_geometry_text *in, const char **name, uint64_t *size, tsr_error *error) {
  TSR_TRY(json_string(in, name, size, error));
  return tsr__text_take(in, ':') ? TSR_OK : tsr__text_fail(in, "':'", error);
}

typedef struct json_nest { /* the arrays and objects around a place: bit i says that level i is an object */
  uint64_t objects[GEOJSON_DEPTH / 64];
  uint32_t depth;
} json_nest;

static int json_open(tsr_geometry_text *in, json_nest *nest, bool object, tsr_error *error) {
  if (nest->depth == GEOJSON_DEPTH)
    return tsr__fail(error, TSR_MISMATCH, "the GeoJSON has more than %d levels", GEOJSON_DEPTH);
  uint64_t *word = &nest->objects[nest->depth / 64];
  const uint64_t bit = UINT64_C(1) << nest->depth % 64;
  *word = object ? *word | bit : *word & ~bit;
  nest->depth++;
  return TSR_OK;
}

static bool json_in_object(const json_nest *nest) {
  const uint32_t level = nest->depth - 1;
  return nest->objects[level / 64] >> level % 64 & 1;
}

/* Closes what ends here, up to a comma behind which another value follows, or to the end. */
static int json_close(tsr_geometry_text *in, json_nest *nest, tsr_error *error) {
  const char *name;
  uint64_t size;
  while (nest->depth) {
    const bool object = json_in_object(nest);
    if (tsr__text_take(in, ',')) return object ? json_name(in, &name, &size, error) : TSR_OK;
    if (!tsr__text_take(in, object ? '}' : ']')) return tsr__text_fail(in, object ? "',' or '}'" : "',' or ']'", error);
    nest->depth--;
  }
  return TSR_OK;
}

static int json_skip(tsr_geometry_text *in, tsr_error *error) {
  json_nest nest = {.depth = 0};
  const char *text;
  uint64_t size;
  do {
    const bool object = tsr__text_take(in, '{');
    if (object || tsr__text_take(in, '[')) {
      TSR_TRY(json_open(in, &nest, object, error));
      if (!tsr__text_take(in, object ? '}' : ']')) {
        if (object) TSR_TRY(json_name(in, &text, &size, error));
        continue;
      }
      nest.depth--;
    } else if (in->at < in->end && *in->at == '"') {
      TSR_TRY(json_string(in, &text, &size, error));
    } else {
      TSR_TRY(json_skip_word(in, error));
    }
    TSR_TRY(json_close(in, &nest, error));
  } while (nest.depth);
  return TSR_OK;
}

/* ---- Coordinates ------------------------------------------------------------------------------------------------- */

static int json_point(tsr_geometry *g, tsr_geometry_text *in, tsr_error *error) {
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
static int json_list(tsr_geometry *g, tsr_geometry_text *in, int depth, tsr_error *error) {
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

static bool json_is(const char *text, uint64_t size, const char *word) {
  return text && strlen(word) == size && memcmp(text, word, size) == 0;
}

/* Finds the members of an object. */
static int json_find(tsr_geometry_text *in, json_members *members, tsr_error *error) {
  const char *name;
  uint64_t size;
  *members = (json_members){.type = NULL};
  if (!tsr__text_take(in, '{')) return tsr__text_fail(in, "an object", error);
  if (tsr__text_take(in, '}')) return TSR_OK;
  do {
    TSR_TRY(json_name(in, &name, &size, error));
    tsr__text_skip(in);
    if (json_is(name, size, "coordinates")) members->coordinates = in->at;
    if (json_is(name, size, "geometry")) members->geometry = in->at;
    if (json_is(name, size, "type") && in->at < in->end && *in->at == '"')
      TSR_TRY(json_string(in, &members->type, &members->type_size, error));
    else TSR_TRY(json_skip(in, error));
  } while (tsr__text_take(in, ','));
  return tsr__text_take(in, '}') ? TSR_OK : tsr__text_fail(in, "',' or '}'", error);
}

/* Reads a geometry whose members were found. */
static int json_geometry(tsr_geometry *g, const tsr_geometry_text *in, const json_members *members, tsr_error *error) {
  const bool many = json_is(members->type, members->type_size, "MultiPolygon");
  if (!members->type) return tsr__fail(error, TSR_MISMATCH, "the GeoJSON has no type");
  if (!many && !json_is(members->type, members->type_size, "Polygon"))
    return tsr__geometry_wrong_type(members->type, members->type_size, error);
  if (!members->coordinates) return tsr__fail(error, TSR_MISMATCH, "the GeoJSON has no coordinates");
  tsr_geometry_text from = {in->begin, members->coordinates, in->end};
  return json_list(g, &from, many ? 3 : 2, error);
}

int tsr__geojson_read(tsr_geometry *g, tsr_geometry_text *in, tsr_error *error) {
  json_members members;
  TSR_TRY(json_find(in, &members, error));
  tsr__text_skip(in);
  if (in->at < in->end) return tsr__text_fail(in, "its end", error);
  if (!json_is(members.type, members.type_size, "Feature")) return json_geometry(g, in, &members, error);
  if (!members.geometry) return tsr__fail(error, TSR_MISMATCH, "the Feature has no geometry");
  tsr_geometry_text from = {in->begin, members.geometry, in->end};
  if (from.end - from.at >= 4 && memcmp(from.at, "null", 4) == 0) return TSR_OK;
  TSR_TRY(json_find(&from, &members, error));
  return json_geometry(g, in, &members, error);
}
