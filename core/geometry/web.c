/* web.c: the sides of an XYZ tile of Web Mercator: which cells of an axis each row or column of pixels shows.
 *
 * Mercator keeps axes apart: the columns of a tile divide longitudes, its rows latitudes. So each side is computed by
 * itself. Each pixel has the cells whose centres it contains, or, if there is none, the cell around its own centre.
 * Such a cell can also be in another pixel by its centre. So it has a place of its own, and the other cells of a pixel
 * have one together.
 *
 * Sections: degrees, coarser axes, which cells a pixel has, places. */
#include <math.h>
#include <stdlib.h>

#include "base/arithmetic.h"
#include "environment/environment.h"
#include "geometry/geometry.h"

#define WEB_PIXELS_MAX 4096u
#define WEB_SPAN_MAX   540.0 /* degrees; so that a pixel meets no more than three repetitions of the axis */
#define WEB_REPEATS    3u /* of the axis that can meet a pixel */
#define PI             3.14159265358979323846

typedef struct web_cells { /* cells with their centres in a pixel, from..to-1 */
  uint64_t from, to;
  uint32_t pixel;
} web_cells;

typedef struct web_maker {
  const tsr_web_request *request;
  const tsr_grid_axis *axis; /* the request's, or a coarser one */
  double ends[2]; /* of the request's axis: beyond them there are no cells */
  tsr_memory *memory;
  web_cells *runs; /* [run_count] */
  uint64_t run_count;
  uint64_t *around; /* [pixel]: the cell around its centre; UINT64_MAX: the pixel has centres, or is outside */
  uint64_t *alone; /* [alone_count]: the cells of `around`, ascending, once each: they have places of their own */
  uint64_t alone_count;
} web_maker;

typedef struct web_side { /* what tsr_web_side_open makes */
  tsr_web_side made;
  tsr_memory memory;
  tsr_downsample_run *runs;
  uint32_t *shown;
  uint64_t *ends;
  uint64_t run_room, shown_room;
} web_side;

/* ---- Degrees ----------------------------------------------------------------------------------------------------- */

/* Returns the longitude or latitude at `at` pixels from the west or north of the tile. */
static double web_degrees(const tsr_web_request *r, double at) {
  const double all = (double)(UINT64_C(1) << r->zoom) * (double)r->pixels;
  const double part = ((double)(r->number * r->pixels) + at) / all;
  return r->rows ? atan(sinh(PI * (1 - 2 * part))) * 180 / PI : part * 360 - 180;
}

/* ---- Coarser axes ------------------------------------------------------------------------------------------------ */

/* Makes the axis of an overview: its cell k has the coordinates from low + k * 2^shift on. */
static int web_coarser(tsr_environment *environment, const tsr_web_request *r, tsr_grid_axis **coarser,
                       tsr_error *error) {
  const tsr_grid_axis *fine = r->axis;
  const uint64_t size = UINT64_C(1) << r->shift;
  if (!fine->edges)
    return tsr_grid_axis_affine(environment, "an overview", (fine->count - 1) / size + 1, 0, fine->origin,
                                (fine->falls ? -fine->step : fine->step) * (double)size, coarser, error);
  tsr_grid_axis *made;
  TSR_TRY(TSR_ALLOC(&environment->memory, &made, error));
  *coarser = made; /* which the caller closes, after an error too */
  tsr__memory_init(&made->memory, &environment->memory, UINT64_MAX, "memory_mb");
  TSR_TRY(TSR_ALLOC_RAW(&made->memory, fine->count + 1, &made->edges, error));
  TSR_TRY(TSR_ALLOC_RAW(&made->memory, fine->count, &made->centres, error));
  TSR_TRY(TSR_ALLOC_RAW(&made->memory, fine->count, &made->coordinates, error));
  made->falls = fine->falls;
  made->gaps = true;
  for (uint64_t i = 0; i < fine->count; i++) {
    const int64_t block = (int64_t)(((uint64_t)fine->coordinates[i] - (uint64_t)r->low) >> r->shift);
    if (made->count == 0 || made->coordinates[made->count - 1] != block) {
      made->edges[made->count] = fine->edges[i];
      made->coordinates[made->count++] = block;
    }
    made->edges[made->count] = fine->edges[i + 1];
  }
  for (uint64_t i = 0; i < made->count; i++)
    made->centres[i] = made->edges[i] + (made->edges[i + 1] - made->edges[i]) / 2;
  return TSR_OK;
}

/* ---- Which cells a pixel has ------------------------------------------------------------------------------------- */

/* Adds the cells whose centres are in [low, high). Returns whether there are any. */
static bool web_add_centres(web_maker *m, uint32_t pixel, double low, double high) {
  const uint64_t from = tsr__axis_centre_from(m->axis, low), to = tsr__axis_centre_from(m->axis, high);
  if (from >= to) return false;
  m->runs[m->run_count++] = (web_cells){.from = from, .to = to, .pixel = pixel};
  return true;
}

/* Finds the cell around a value. Returns UINT64_MAX if the value is outside. */
static uint64_t web_cell_around(const web_maker *m, double value) {
  if (!(value >= m->ends[0] && value < m->ends[1])) return UINT64_MAX;
  return TSR_MIN(tsr__axis_cell(m->axis, value), m->axis->count - 1);
}

/* Finds the cells of a pixel. Longitudes count at every multiple of 360 degrees. */
static void web_find(web_maker *m, uint32_t pixel) {
  const tsr_web_request *r = m->request;
  const double a = web_degrees(r, pixel), b = web_degrees(r, pixel + 1), middle = web_degrees(r, pixel + 0.5);
  const double low = r->rows ? b : a, high = r->rows ? a : b;
  const double first = r->rows ? 0 : 360 * ceil((m->ends[0] - high) / 360);
  bool found = false;
  m->around[pixel] = UINT64_MAX;
  for (uint32_t i = 0; i < (r->rows ? 1 : WEB_REPEATS) && !r->nearest; i++)
    found |= web_add_centres(m, pixel, low + first + 360 * i, high + first + 360 * i);
  for (uint32_t i = 0; i < (r->rows ? 1 : WEB_REPEATS) && !found && m->around[pixel] == UINT64_MAX; i++)
    m->around[pixel] = web_cell_around(m, middle + first + 360 * i);
}

static int web_compare(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static int web_find_all(web_maker *m, tsr_error *error) {
  const uint32_t pixels = m->request->pixels;
  uint64_t n = 0;
  TSR_TRY(TSR_ALLOC_RAW(m->memory, WEB_REPEATS * pixels, &m->runs, error));
  TSR_TRY(TSR_ALLOC_RAW(m->memory, pixels, &m->around, error));
  TSR_TRY(TSR_ALLOC_RAW(m->memory, pixels, &m->alone, error));
  for (uint32_t i = 0; i < pixels; i++) {
    web_find(m, i);
    if (m->around[i] != UINT64_MAX) m->alone[m->alone_count++] = m->around[i];
  }
  qsort(m->alone, m->alone_count, sizeof *m->alone, web_compare);
  for (uint64_t i = 0; i < m->alone_count; i++)
    if (i == 0 || m->alone[i] != m->alone[n - 1]) m->alone[n++] = m->alone[i];
  m->alone_count = n;
  return TSR_OK;
}

/* ---- Places ------------------------------------------------------------------------------------------------------ */

/* Returns the number of the first lone cell that is not below `cell`. */
static uint64_t web_alone_from(const web_maker *m, uint64_t cell) {
  uint64_t low = 0, high = m->alone_count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (m->alone[middle] < cell) low = middle + 1;
    else high = middle;
  }
  return low;
}

static int web_show(web_side *s, uint64_t *count, uint32_t place, tsr_error *error) {
  if (*count == s->shown_room) {
    const uint64_t room = s->shown_room ? 2 * s->shown_room : 512;
    TSR_TRY(TSR_REALLOC_ARRAY(&s->memory, room, &s->shown, error));
    s->shown_room = room;
  }
  s->shown[(*count)++] = place;
  return TSR_OK;
}

static int web_add_run(web_side *s, int64_t low, int64_t high, uint32_t place, tsr_error *error) {
  tsr_downsample_side *side = &s->made.side;
  if (side->run_count == s->run_room) {
    const uint64_t room = s->run_room ? 2 * s->run_room : 512;
    TSR_TRY(TSR_REALLOC_ARRAY(&s->memory, room, &s->runs, error));
    s->run_room = room;
  }
  s->runs[side->run_count++] = (tsr_downsample_run){.low = low, .high = high, .place = place};
  return TSR_OK;
}

/* Gives cells from..to-1 to a place: as one run, or, where coordinates are missing, as several. */
static int web_place(const web_maker *m, web_side *s, uint64_t from, uint64_t to, uint32_t place, tsr_error *error) {
  for (uint64_t end = from; from < to; from = end) {
    end = m->axis->gaps ? end + 1 : to;
    while (end < to &&
           (uint64_t)tsr__axis_coordinate(m->axis, end) - (uint64_t)tsr__axis_coordinate(m->axis, end - 1) ==
               (m->axis->falls ? UINT64_MAX : 1))
      end++;
    const int64_t a = tsr__axis_coordinate(m->axis, from), b = tsr__axis_coordinate(m->axis, end - 1);
    TSR_TRY(web_add_run(s, m->axis->falls ? b : a, m->axis->falls ? a : b, place, error));
  }
  return TSR_OK;
}

/* Gives the cells of a run their places: `place`, or those of lone cells. */
static int web_place_run(const web_maker *m, web_side *s, const web_cells *run, uint32_t place, uint64_t *shown,
                         tsr_error *error) {
  uint64_t at = run->from;
  for (uint64_t k = web_alone_from(m, at); k < m->alone_count && m->alone[k] < run->to; k++) {
    TSR_TRY(web_place(m, s, at, m->alone[k], place, error));
    TSR_TRY(web_show(s, shown, (uint32_t)k, error));
    at = m->alone[k] + 1;
  }
  s->made.cells += run->to - run->from;
  return web_place(m, s, at, run->to, place, error);
}

/* Lists the places: first those of lone cells, then one for each pixel with centres. */
static int web_place_all(const web_maker *m, web_side *s, tsr_error *error) {
  tsr_downsample_side *side = &s->made.side;
  uint64_t shown = 0, run = 0;
  side->places = (uint32_t)m->alone_count;
  side->pixels = m->request->pixels;
  for (uint64_t k = 0; k < m->alone_count; k++)
    TSR_TRY(web_place(m, s, m->alone[k], m->alone[k] + 1, (uint32_t)k, error));
  TSR_TRY(TSR_ALLOC_RAW(&s->memory, side->pixels, &s->ends, error));
  for (uint32_t i = 0; i < side->pixels; i++) {
    const uint64_t before = shown;
    if (run < m->run_count && m->runs[run].pixel == i) {
      const uint32_t place = side->places++;
      TSR_TRY(web_show(s, &shown, place, error));
      for (; run < m->run_count && m->runs[run].pixel == i; run++)
        TSR_TRY(web_place_run(m, s, &m->runs[run], place, &shown, error));
    } else if (m->around[i] != UINT64_MAX) {
      TSR_TRY(web_show(s, &shown, (uint32_t)web_alone_from(m, m->around[i]), error));
    }
    s->made.filled += shown > before;
    s->ends[i] = shown;
  }
  side->runs = s->runs;
  side->shown = s->shown;
  side->ends = s->ends;
  return TSR_OK;
}

static int web_make(tsr_environment *environment, web_maker *m, web_side *s, tsr_error *error) {
  const tsr_web_request *r = m->request;
  tsr_grid_axis *coarser = NULL;
  m->ends[0] = tsr__axis_edge(r->axis, 0);
  m->ends[1] = tsr__axis_edge(r->axis, r->axis->count);
  if (!r->rows && !(m->ends[1] - m->ends[0] <= WEB_SPAN_MAX))
    return tsr__fail(error, TSR_MISMATCH, "the longitudes span %.17g degrees: a map has 360, a grid at most %g",
                     m->ends[1] - m->ends[0], WEB_SPAN_MAX);
  m->axis = r->axis;
  m->memory = &s->memory;
  int code = r->shift ? web_coarser(environment, r, &coarser, error) : TSR_OK;
  if (code == TSR_OK && coarser) m->axis = coarser;
  if (code == TSR_OK) code = web_find_all(m, error);
  if (code == TSR_OK) code = web_place_all(m, s, error);
  tsr_grid_axis_close(coarser);
  return code;
}

int tsr_web_side_open(tsr_environment *environment, const tsr_web_request *request, tsr_web_side **side,
                      tsr_error *error) {
  TSR_OWN_ERROR(error);
  web_maker m = {.request = request};
  web_side *s;
  if (request->zoom > TSR_WEB_ZOOM_MAX || request->number >> request->zoom || !request->pixels ||
      request->pixels > WEB_PIXELS_MAX || request->shift > 62)
    return tsr__fail(error, TSR_RANGE, "no such tile: zoom %u, number %llu, %u pixels", request->zoom,
                     (unsigned long long)request->number, request->pixels);
  TSR_TRY(TSR_ALLOC(&environment->memory, &s, error));
  tsr__memory_init(&s->memory, &environment->memory, UINT64_MAX, "memory_mb");
  const int code = web_make(environment, &m, s, error);
  tsr__free(m.runs);
  tsr__free(m.around);
  tsr__free(m.alone);
  if (code < 0) tsr_web_side_close(&s->made);
  else *side = &s->made;
  return code;
}

void tsr_web_side_close(tsr_web_side *side) {
  web_side *s = (web_side *)(void *)side; /* its first member */
  if (!s) return;
  tsr__free(s->runs);
  tsr__free(s->shown);
  tsr__free(s->ends);
  tsr__free(s);
}
