/* binary.c: reads WKB, EWKB and the blobs of GeoPackages.
 *
 *   WKB        u8 order: 0 big-endian, 1 little-endian, for this geometry; a polygon of a MULTIPOLYGON has its own
 *              u32 type: 3 POLYGON, 6 MULTIPOLYGON; + 1000 with Z, + 2000 with M, + 3000 with both. EWKB sets bits
 *              instead: 0x80000000 Z, 0x40000000 M, 0x20000000 an SRID
 *              u32 SRID, if its bit is set
 *              of a POLYGON: u32 rings, each of u32 points, each of 2 to 4 f64
 *              of a MULTIPOLYGON: u32 polygons, each a WKB of its own
 *   GeoPackage "GP", u8 version, u8 flags: bit 0 little-endian, bits 1 to 3 the kind of envelope, bit 4 empty, bit 5
 *              extended; i32 SRS; an envelope of 0, 4, 6, 6 or 8 f64; WKB */
#include <string.h>

#include "base/arithmetic.h"
#include "base/input.h"
#include "geometry/geometry.h"

enum { WKB_POLYGON = 3, WKB_MULTIPOLYGON = 6 };
#define WKB_Z    UINT32_C(0x80000000)
#define WKB_M    UINT32_C(0x40000000)
#define WKB_SRID UINT32_C(0x20000000)

static int wkb_early(const tsr_input *in, tsr_error *error) {
  return tsr__fail(error, TSR_MISMATCH, "the geometry ends early (byte %llu)", (unsigned long long)in->at + 1);
}

static uint32_t wkb_u32(tsr_input *in, bool big) {
  const uint8_t *bytes = tsr__input_take(in, 4);
  return !bytes ? 0 : big ? (uint32_t)tsr__load_be(bytes, 4) : tsr__load32(bytes);
}

static double wkb_f64(const uint8_t *bytes, bool big) {
  const uint64_t bits = big ? tsr__load_be(bytes, 8) : tsr__load64(bytes);
  double value;
  memcpy(&value, &bits, 8);
  return value;
}

typedef struct wkb_header {
  bool big; /* big-endian */
  uint32_t type; /* without dimensions and SRID */
  uint64_t point_size; /* in bytes */
} wkb_header;

static int wkb_head(tsr_input *in, wkb_header *header, tsr_error *error) {
  const uint8_t order = tsr__input_u8(in);
  if (order > 1) return tsr__geometry_none(error);
  header->big = order == 0;
  const uint32_t word = wkb_u32(in, header->big);
  if (word & WKB_SRID) wkb_u32(in, header->big);
  const uint32_t code = word & ~(WKB_Z | WKB_M | WKB_SRID), dimensions = code / 1000;
  const bool z = word & WKB_Z || dimensions == 1 || dimensions == 3;
  const bool m = word & WKB_M || dimensions == 2 || dimensions == 3;
  header->type = dimensions <= 3 ? code % 1000 : code;
  header->point_size = 16 + (z ? 8u : 0) + (m ? 8u : 0);
  return in->failed ? wkb_early(in, error) : TSR_OK;
}

static int wkb_wrong_type(uint32_t type, tsr_error *error) {
  static const char *const names[] = {"a GEOMETRY", "POINT",           "LINESTRING",   "POLYGON",
                                      "MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION"};
  if (type < sizeof names / sizeof *names)
    return tsr__fail(error, TSR_MISMATCH, "expected a POLYGON or MULTIPOLYGON, not %s", names[type]);
  return tsr__fail(error, TSR_MISMATCH, "expected a POLYGON or MULTIPOLYGON, not WKB's type %u", type);
}

static int wkb_polygon(tsr_geometry *g, tsr_input *in, const wkb_header *header, tsr_error *error) {
  for (uint32_t rings = wkb_u32(in, header->big); rings > 0 && !in->failed; rings--) {
    const uint32_t points = wkb_u32(in, header->big);
    if (points == 0 && !in->failed) continue; /* an empty ring: so some programs write an empty polygon */
    if (!tsr__input_fits(in, points, header->point_size)) return wkb_early(in, error);
    for (uint32_t i = 0; i < points; i++) {
      const uint8_t *at = tsr__input_take(in, header->point_size);
      TSR_TRY(tsr__geometry_point(g, wkb_f64(at, header->big), wkb_f64(at + 8, header->big), error));
    }
    TSR_TRY(tsr__geometry_ring(g, error));
  }
  tsr__geometry_part(g);
  return in->failed ? wkb_early(in, error) : TSR_OK;
}

static int wkb_polygons(tsr_geometry *g, tsr_input *in, const wkb_header *header, tsr_error *error) {
  wkb_header inner;
  for (uint32_t parts = wkb_u32(in, header->big); parts > 0 && !in->failed; parts--) {
    TSR_TRY(wkb_head(in, &inner, error));
    if (inner.type != WKB_POLYGON) return wkb_wrong_type(inner.type, error);
    TSR_TRY(wkb_polygon(g, in, &inner, error));
  }
  return in->failed ? wkb_early(in, error) : TSR_OK;
}

/* Skips the header of a GeoPackage's blob. */
static int gpkg_skip(tsr_input *in, tsr_error *error) {
  static const uint8_t numbers[] = {0, 4, 6, 6, 8};
  tsr__input_take(in, 3);
  const uint8_t flags = tsr__input_u8(in), envelope = flags >> 1 & 7;
  if (flags & 0x20) return tsr__fail(error, TSR_MISMATCH, "the GeoPackage geometry is an extended one");
  if (envelope > 4) return tsr__fail(error, TSR_MISMATCH, "the GeoPackage geometry has an unknown envelope");
  tsr__input_take(in, 4 + 8 * (uint64_t)numbers[envelope]);
  return in->failed ? wkb_early(in, error) : TSR_OK;
}

int tsr__wkb_read(tsr_geometry *g, const uint8_t *bytes, uint64_t size, tsr_error *error) {
  tsr_input in = tsr__input(bytes, size);
  wkb_header header;
  if (size == 0) return tsr__geometry_none(error);
  if (size >= 2 && memcmp(bytes, "GP", 2) == 0) TSR_TRY(gpkg_skip(&in, error));
  TSR_TRY(wkb_head(&in, &header, error));
  if (header.type != WKB_POLYGON && header.type != WKB_MULTIPOLYGON) return wkb_wrong_type(header.type, error);
  TSR_TRY(header.type == WKB_POLYGON ? wkb_polygon(g, &in, &header, error) : wkb_polygons(g, &in, &header, error));
  if (in.at < in.size)
    return tsr__fail(error, TSR_MISMATCH, "the geometry ends at byte %llu of %llu", (unsigned long long)in.at,
                     (unsigned long long)in.size);
  return TSR_OK;
}
