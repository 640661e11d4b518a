/* axis.c: the cells of a dimension as intervals of an axis: which cell has a value. Axes either have equal cells, whose
 * edges are computed, or a list of edges midway between labels. */
#include <math.h>

#include "base/arithmetic.h"
#include "environment/environment.h"
#include "geometry/geometry.h"

static int axis_make(tsr_environment *environment, tsr_grid_axis **axis, tsr_error *error) {
  TSR_TRY(TSR_ALLOC(&environment->memory, axis, error));
  tsr__memory_init(&(*axis)->memory, &environment->memory, UINT64_MAX, "memory_mb");
  return TSR_OK;
}

/* Sets the edges, and fails unless each cell has a width. */
static int axis_cut(tsr_grid_axis *axis, const char *name, tsr_error *error) {
  const double *centres = axis->centres;
  const uint64_t n = axis->count;
  for (uint64_t i = 1; i < n; i++) axis->edges[i] = centres[i - 1] + (centres[i] - centres[i - 1]) / 2;
  axis->edges[0] = centres[0] - (axis->edges[1] - centres[0]);
  axis->edges[n] = centres[n - 1] + (centres[n - 1] - axis->edges[n - 1]);
  for (uint64_t i = 0; i < n; i++)
    if (!(axis->edges[i] < axis->edges[i + 1])) /* they are finite, since labels are at most 1e300 */
      return tsr__fail(error, TSR_MISMATCH, "the labels of %s are too close together", name);
  return TSR_OK;
}

static int axis_fill(tsr_grid_axis *axis, const char *name, const int64_t *coordinates, const double *centres,
                     tsr_error *error) {
  const uint64_t n = axis->count;
  TSR_TRY(TSR_ALLOC_RAW(&axis->memory, n + 1, &axis->edges, error));
  TSR_TRY(TSR_ALLOC_RAW(&axis->memory, n, &axis->centres, error));
  TSR_TRY(TSR_ALLOC_RAW(&axis->memory, n, &axis->coordinates, error));
  axis->falls = centres[1] < centres[0];
  axis->gaps = (uint64_t)coordinates[n - 1] - (uint64_t)coordinates[0] != n - 1;
  for (uint64_t i = 0; i < n; i++) {
    const uint64_t from = axis->falls ? n - 1 - i : i;
    axis->centres[i] = centres[from];
    axis->coordinates[i] = coordinates[from];
    if (!(fabs(centres[from]) <= TSR_COORDINATE_MAX))
      return tsr__fail(error, TSR_MISMATCH, "a label of %s is not finite, or beyond 1e300", name);
    if (i > 0 && !(axis->centres[i - 1] < axis->centres[i]))
      return tsr__fail(error, TSR_MISMATCH, "the labels of %s neither rise nor fall", name);
  }
  return axis_cut(axis, name, error);
}

int tsr_grid_axis_of_centres(tsr_environment *environment, const char *name, uint64_t count, const int64_t *coordinates,
                             const double *centres, tsr_grid_axis **axis, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (count < 2)
    return tsr__fail(error, TSR_MISMATCH, "%s has %s: [origin, step] in axes gives cells a width", name,
                     count ? "one label" : "no labels");
  tsr_grid_axis *made;
  TSR_TRY(axis_make(environment, &made, error));
  made->count = count;
  const int code = axis_fill(made, name, coordinates, centres, error);
  if (code < 0) tsr_grid_axis_close(made);
  else *axis = made;
  return code;
}

int tsr_grid_axis_affine(tsr_environment *environment, const char *name, uint64_t count, int64_t first, double origin,
                         double step, tsr_grid_axis **axis, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (count == 0 || count > (uint64_t)TSR_EXACT_REAL)
    return tsr__fail(error, TSR_RANGE, "%s has %s", name, count ? "more than 2^53 coordinates" : "no coordinates");
  const double end = origin + step * (double)count, reach = fmax(fabs(origin), fabs(end));
  if (!(reach <= TSR_COORDINATE_MAX) || !(fabs(step) > 0) || origin + step == origin || end - step == end)
    return tsr__fail(error, TSR_MISMATCH, "[origin, step] of %s gives its cells no width, or is not finite", name);
  tsr_grid_axis *made;
  TSR_TRY(axis_make(environment, &made, error));
  made->count = count;
  made->first = first;
  made->falls = step < 0;
  made->step = fabs(step);
  made->origin = origin;
  *axis = made;
  return TSR_OK;
}

void tsr_grid_axis_close(tsr_grid_axis *axis) {
  if (!axis) return;
  tsr__free(axis->edges);
  tsr__free(axis->centres);
  tsr__free(axis->coordinates);
  tsr__free(axis);
}

typedef double (*axis_values)(const tsr_grid_axis *, uint64_t); /* that rise with their index */

static inline bool axis_is_below(const tsr_grid_axis *axis, axis_values get, uint64_t i, double value, bool equal) {
  const double at = get(axis, i);
  return at < value || (equal && at == value);
}

/* Returns how many of the values are below `value`; with `equal`, those that equal it count, too. `guess`, for equal
 * cells, is mostly the answer, and else off by one, or by few where cells are hardly wider than a step of the
 * numbers. */
static inline uint64_t axis_count_below(const tsr_grid_axis *axis, axis_values get, uint64_t count, double value,
                                        bool equal, double guess) {
  uint64_t low = 0, high = count;
  if (!axis->edges) {
    const uint64_t place = TSR_MIN(tsr__whole(guess), count), margin = 2;
    const uint64_t from = place > margin ? place - margin : 0, to = TSR_MIN(place + margin, count);
    if ((place == 0 || axis_is_below(axis, get, place - 1, value, equal)) &&
        (place == count || !axis_is_below(axis, get, place, value, equal)))
      return place;
    if (from > 0 && axis_is_below(axis, get, from - 1, value, equal)) low = from;
    if (to < count && to > low && !axis_is_below(axis, get, to, value, equal)) high = to;
  }
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (axis_is_below(axis, get, middle, value, equal)) low = middle + 1;
    else high = middle;
  }
  return low;
}

static inline double axis_get_edge(const tsr_grid_axis *axis, uint64_t i) { return tsr__axis_edge(axis, i); }
static inline double axis_get_centre(const tsr_grid_axis *axis, uint64_t i) { return tsr__axis_centre(axis, i); }

/* Returns in which cell `value` is, of equal ones, as a number with a fraction. */
static inline double axis_guess(const tsr_grid_axis *axis, double value) {
  return axis->edges ? 0 : (value - tsr__axis_edge(axis, 0)) / axis->step;
}

uint64_t tsr__axis_cell(const tsr_grid_axis *axis, double value) {
  const uint64_t below =
      axis_count_below(axis, axis_get_edge, axis->count + 1, value, true, axis_guess(axis, value) + 1);
  return below ? below - 1 : 0;
}

uint64_t tsr__axis_centre_from(const tsr_grid_axis *axis, double value) {
  return axis_count_below(axis, axis_get_centre, axis->count, value, false, axis_guess(axis, value) + 0.5);
}
