/* geometry.h: polygons, the axes of grids, and what the readers of the four forms share.
 *
 * The order of the files: geometry.c keeps points and finds out which form a text or blob has; geojson.c, wkt.c and
 * binary.c read it; axis.c places values among the cells of a dimension; cover.c cuts polygons into runs of cells;
 * weigh.c weighs the cells around a point; web.c finds the cells of a map tile's pixels. */
#ifndef TSR_GEOMETRY_GEOMETRY_H
#define TSR_GEOMETRY_GEOMETRY_H

#include "base/memory.h"
#include "base/text.h"
#include "tessera_host.h"

/* ---- Polygons ---------------------------------------------------------------------------------------------------- */

#define TSR_POINTS_MAX     (UINT64_C(1) << 24) /* of all rings of a geometry, also of its repetitions along an axis */
#define TSR_COORDINATE_MAX 1e300 /* so that differences and their products with shares are finite */

typedef struct tsr_ring {
  uint64_t end; /* the number of points of this ring and those before it */
  uint64_t part; /* the polygon that it belongs to; the first ring of a polygon is its outer one */
} tsr_ring;

struct tsr_geometry {
  tsr_memory memory;
  double (*points)[2]; /* x, y */
  uint64_t point_count, point_room;
  tsr_ring *rings;
  uint64_t ring_count, ring_room;
  uint64_t part_count;
};

/* The readers call these in the order of the text: tsr__geometry_point for each point, tsr__geometry_ring after the
 * last point of a ring, tsr__geometry_part after the last ring of a polygon. TSR_MISMATCH: a coordinate that is not
 * finite, a ring of fewer than three points. */
int tsr__geometry_point(tsr_geometry *g, double x, double y, tsr_error *error);
int tsr__geometry_ring(tsr_geometry *g, tsr_error *error);
void tsr__geometry_part(tsr_geometry *g);

/* Fails with TSR_MISMATCH: the bytes have none of the four forms. */
int tsr__geometry_none(tsr_error *error);

/* Fails with TSR_MISMATCH: the type is neither POLYGON nor MULTIPOLYGON. The name is cut, and quoted safely. */
int tsr__geometry_wrong_type(const char *name, uint64_t size, tsr_error *error);

/* ---- Forms ------------------------------------------------------------------------------------------------------- */

int tsr__wkt_read(tsr_geometry *g, tsr_text *in, tsr_error *error);
int tsr__geojson_read(tsr_geometry *g, tsr_text *in, tsr_error *error);
int tsr__wkb_read(tsr_geometry *g, const uint8_t *bytes, uint64_t size, tsr_error *error);

/* ---- Axes -------------------------------------------------------------------------------------------------------- */

/* Cells are numbered along rising values, from 0. Edge i is the low end of cell i, edge `count` the high end of the
 * last one. */
struct tsr_grid_axis {
  tsr_memory memory;
  uint64_t count;
  bool falls; /* coordinates fall along rising values */
  bool gaps; /* coordinates of neighbours may differ by more than 1 */
  int64_t first; /* affine: the lowest coordinate */
  double origin, step; /* affine: the edge of cell 0, and the width of a cell, above 0 */
  double *edges; /* [count + 1]; NULL: affine */
  double *centres; /* [count] */
  int64_t *coordinates; /* [count] */
};

static inline double tsr__axis_edge(const tsr_grid_axis *axis, uint64_t i) {
  if (axis->edges) return axis->edges[i];
  /* From the end at which the first coordinate is, so that a falling axis has the edges that its origin and step
   * say. */
  return axis->falls ? axis->origin - axis->step * (double)(axis->count - i) : axis->origin + axis->step * (double)i;
}
static inline double tsr__axis_centre(const tsr_grid_axis *axis, uint64_t i) {
  if (axis->centres) return axis->centres[i];
  const double half = (double)(axis->falls ? axis->count - i : i) + (axis->falls ? -0.5 : 0.5);
  return axis->falls ? axis->origin - axis->step * half : axis->origin + axis->step * half;
}
static inline int64_t tsr__axis_coordinate(const tsr_grid_axis *axis, uint64_t i) {
  if (axis->coordinates) return axis->coordinates[i];
  return (int64_t)((uint64_t)axis->first + (axis->falls ? axis->count - 1 - i : i));
}
/* Returns the cell that has `value` in [edge, next edge): 0 if it lies below all, `count` if it lies at the last edge
 * or above. */
uint64_t tsr__axis_cell(const tsr_grid_axis *axis, double value);
/* The same for a value that is not below a cell, and often in it. */
static inline uint64_t tsr__axis_cell_from(const tsr_grid_axis *axis, uint64_t cell, double value) {
  return value < tsr__axis_edge(axis, cell + 1) ? cell : tsr__axis_cell(axis, value);
}
/* Returns the first cell whose centre is not below `value`; `count` if there is none. */
uint64_t tsr__axis_centre_from(const tsr_grid_axis *axis, double value);

#endif
