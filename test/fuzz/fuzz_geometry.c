/* fuzz_geometry.c: fuzzes polygons and the cells that they cover.
 *
 *   u8 flags: 1 text; 2 y falls; 4 x falls; 8 x has labels, with a gap; 16 the polygon is repeated along x
 *   u8 log2 of the width of a cell, from -8 on: 16 values
 *   the rest: GeoJSON, WKT, WKB or the blob of a GeoPackage
 *
 * By each rule the runs must be within the grid, in order, maximal, and of a coverage that is possible; a cell with a
 * share must be touched.
 */
#include <tessera.h>
#include <tessera_host.h>

#include <math.h>

#include "fuzz.h"

#define SIDE 24 /* cells of each axis */
#define LAST (SIDE - 1)

enum { FLAG_TEXT = 1, FLAG_Y_FALLS = 2, FLAG_X_FALLS = 4, FLAG_LABELS = 8, FLAG_WRAP = 16 };

typedef double plane[SIDE][SIDE];

/* Checks a run against the one before, and keeps its coverage. */
static void keep(const tsr_cover_run *run, const tsr_cover_run *before, tsr_cover_rule rule, plane cells) {
  CHECK(run->y >= 0 && run->y <= LAST && run->x_from >= 0 && run->x_from <= run->x_to && run->x_to <= LAST);
  CHECK(run->coverage > 0 && run->coverage <= 1 && (rule == TSR_COVER_FRACTION || run->coverage == 1));
  CHECK(run->y > before->y || (run->y == before->y && run->x_from > before->x_to));
  for (int64_t x = run->x_from; x <= run->x_to; x++) cells[run->y][x] = run->coverage;
}

static void cover(tsr_environment *environment, tsr_cover_request *request, plane cells) {
  tsr_cover *made;
  tsr_error error = {0};
  tsr_cover_run run, before = {.y = -1};
  int code = tsr_cover_open(environment, request, &made, &error);
  check_told(code, &error);
  if (code < 0) return;
  while ((code = tsr_cover_next(made, &run, &error)) > 0) {
    keep(&run, &before, request->rule, cells);
    before = run;
  }
  check_told(code, &error);
  tsr_cover_close(made);
}

static void make_axes(tsr_environment *environment, uint8_t flags, double width, tsr_grid_axis *axes[2]) {
  int64_t coordinates[SIDE];
  double centres[SIDE];
  for (int i = 0; i < SIDE; i++) {
    coordinates[i] = i < SIDE / 2 ? i : i + 1; /* SIDE / 2 is no cell */
    centres[i] = (i + (i % 3) * 0.25) * width * (flags & FLAG_X_FALLS ? -1 : 1);
  }
  const double y = flags & FLAG_Y_FALLS ? -width : width, x = flags & FLAG_X_FALLS ? -width : width;
  CHECK(tsr_grid_axis_affine(environment, "y", SIDE, 0, 0, y, &axes[0], NULL) == TSR_OK);
  if (flags & FLAG_LABELS)
    CHECK(tsr_grid_axis_of_centres(environment, "x", LAST, coordinates, centres, &axes[1], NULL) == TSR_OK);
  else CHECK(tsr_grid_axis_affine(environment, "x", SIDE, 0, 0, x, &axes[1], NULL) == TSR_OK);
}

static void run_input(tsr_environment *environment, uint8_t flags, double width, tsr_input *in) {
  static plane shares, touched, centres;
  tsr_geometry *geometry;
  tsr_error error = {0};
  uint64_t size;
  const uint8_t *bytes = fuzz_take(in, FUZZ_INPUT, &size);
  const int code =
      tsr_geometry_read(environment, size ? bytes : in->data, size, flags & FLAG_TEXT, FUZZ_MEMORY, &geometry, &error);
  check_told(code, &error);
  if (code < 0) return;
  tsr_cover_request request = {
      .geometry = geometry, .wrap = flags & FLAG_WRAP ? 10 * width : 0, .memory_bytes = FUZZ_MEMORY};
  tsr_grid_axis *axes[2];
  make_axes(environment, flags, width, axes);
  request.y = axes[0];
  request.x = axes[1];
  memset(shares, 0, sizeof shares);
  memset(touched, 0, sizeof touched);
  memset(centres, 0, sizeof centres);
  cover(environment, &request, shares);
  request.rule = TSR_COVER_TOUCHED;
  cover(environment, &request, touched);
  request.rule = TSR_COVER_CENTRE;
  cover(environment, &request, centres);
  for (int y = 0; y < SIDE; y++)
    for (int x = 0; x < SIDE; x++) CHECK(shares[y][x] == 0 || touched[y][x] == 1);
  for (int i = 0; i < 2; i++) tsr_grid_axis_close(axes[i]);
  tsr_geometry_close(geometry);
}

int LLVMFuzzerInitialize(int *count, char ***arguments) { return 0; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tsr_environment *environment;
  const tsr_environment_options options = {.single_threaded = true};
  uint8_t *copy = fuzz_exact(data, TSR_MIN(size, FUZZ_INPUT));
  tsr_input in = tsr__input(copy, TSR_MIN(size, FUZZ_INPUT));
  CHECK(tsr_environment_open(&options, &environment, NULL) >= 0);
  const uint8_t flags = tsr__input_u8(&in), width = tsr__input_u8(&in);
  if (!in.failed) run_input(environment, flags, ldexp(1, width % 16 - 8), &in);
  tsr_environment_close(environment);
  free(copy);
  return 0;
}
