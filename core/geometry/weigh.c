/* weigh.c: the cells around a point between cells, along one dimension, and the weight that each has there. */
#include <float.h>
#include <math.h>

#include "geometry/geometry.h"

/* Steps between centres are equal if they differ by less than this share: labels are rounded numbers. */
#define EVEN 0.01

/* The weights of four neighbours by cubic convolution with a = -0.5, at a share 0 to 1 of the way from the second to
 * the third. */
static void cubic_weights(double t, double weights[TSR_WEIGHTS_MAX]) {
  const double a = -0.5, u = 1 - t;
  weights[0] = ((a * u) * u) * t;
  weights[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
  weights[2] = ((a + 2) * u - (a + 3)) * u * u + 1;
  weights[3] = ((a * t) * t) * u;
}

/* Weighs cell `index` of last + 1 and those beyond it, at a share `part` of the way to the next cell. In a ring, cell 0
 * follows the last one. `upper` says that the next cell takes a point midway. */
static void weigh(tsr_sample_method method, uint64_t index, double part, uint64_t last, bool ring, bool upper,
                  tsr_weights *w) {
  const bool four = ring ? last >= 3 : index >= 1 && last >= 2 && index <= last - 2;
  uint64_t first = index;
  w->count = 1;
  w->weights[0] = 1;
  if (method == TSR_SAMPLE_NEAREST) {
    first += part > 0.5 || (upper && part == 0.5);
  } else if (part > 0 && method == TSR_SAMPLE_CUBIC && four) {
    first = index ? index - 1 : last;
    w->count = 4;
    cubic_weights(part, w->weights);
  } else if (part > 0) {
    w->count = 2;
    w->weights[0] = 1 - part;
    w->weights[1] = part;
  }
  for (uint32_t i = 0; i < w->count; i++) {
    const uint64_t to_last = last - (first <= last ? first : 0);
    w->cells[i] = first > last ? first - last - 1 : i <= to_last ? first + i : i - to_last - 1;
  }
}

int tsr_cells_weigh(tsr_sample_method method, uint64_t index, double part, uint64_t last, tsr_weights *weights) {
  const bool below = index == UINT64_MAX; /* the cell before the first: a point may be nearer to the first one */
  if (method == TSR_SAMPLE_NEAREST && ((below && part >= 0.5) || (index == last && part <= 0.5))) {
    *weights = (tsr_weights){.count = 1, .cells = {below ? 0 : last}, .weights = {1}};
    return 1;
  }
  if (index > last || (index == last && part > 0)) return 0;
  weigh(method, index, part, last, false, false, weights);
  return 1;
}

bool tsr_grid_axis_is_even(const tsr_grid_axis *axis) {
  if (!axis->edges) return true;
  const uint64_t n = axis->count;
  const double step = (axis->centres[n - 1] - axis->centres[0]) / (double)(n - 1);
  for (uint64_t i = 1; i < n; i++)
    if (!(fabs(axis->centres[i] - axis->centres[i - 1] - step) <= EVEN * step)) return false;
  return true;
}

/* Returns true if the last cell of the axis ends where the first one begins again. */
static bool axis_is_ring(const tsr_grid_axis *axis, double wrap) {
  const double low = tsr__axis_edge(axis, 0), high = tsr__axis_edge(axis, axis->count);
  const double width = fmin(tsr__axis_edge(axis, 1) - low, high - tsr__axis_edge(axis, axis->count - 1));
  return wrap > 0 && fabs(high - low - wrap) <= EVEN * width;
}

/* Finds the cell whose centre is the last one not above `value`, and the share of the way to the next centre. A point
 * that differs from a centre only by rounding is at it. `reach` bounds the numbers that were added to get `value`. */
static void axis_locate(const tsr_grid_axis *axis, double value, double wrap, bool ring, double reach, uint64_t *index,
                        double *part) {
  const uint64_t n = axis->count, above = tsr__axis_centre_from(axis, value), next = above < n ? above : 0;
  const uint64_t before = above ? above - 1 : n - 1;
  const double high = tsr__axis_centre(axis, next) + (above < n ? 0 : wrap);
  const double low = tsr__axis_centre(axis, before) - (above ? 0 : wrap);
  const double rounding = 4 * DBL_EPSILON * reach;
  *index = before;
  *part = (value - low) / (high - low);
  if ((above < n || ring) && high - value <= rounding) *index = next, *part = 0;
  else if ((above || ring) && value - low <= rounding) *part = 0;
}

int tsr_grid_axis_weigh(const tsr_grid_axis *axis, tsr_sample_method method, double value, double wrap,
                        tsr_weights *weights) {
  const uint64_t n = axis->count;
  const double low = tsr__axis_edge(axis, 0), high = tsr__axis_edge(axis, n);
  const double reach = fmax(fabs(value), fmax(fabs(low), fabs(high)));
  const bool ring = axis_is_ring(axis, wrap);
  uint64_t index;
  double part;
  if (!isfinite(value)) return 0;
  if (wrap > 0) value -= wrap * floor((value - low) / wrap);
  if (ring) value = fmin(fmax(value, low), high); /* the difference is rounded */
  if (!(value >= low && value <= high)) return 0;
  axis_locate(axis, value, wrap, ring, reach, &index, &part);
  const bool outside =
      !ring && part != 0 && (value < tsr__axis_centre(axis, 0) || value > tsr__axis_centre(axis, n - 1));
  if (outside && method != TSR_SAMPLE_NEAREST) return 0;
  if (outside) index = value < tsr__axis_centre(axis, 0) ? 0 : n - 1, part = 0;
  weigh(method, index, part, n - 1, ring, axis->falls, weights);
  for (uint32_t i = 0; i < weights->count; i++)
    weights->cells[i] = (uint64_t)tsr__axis_coordinate(axis, weights->cells[i]);
  return 1;
}
