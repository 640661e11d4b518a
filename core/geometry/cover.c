/* cover.c: cuts polygons into runs of cells of equal coverage, by signed areas.
 *
 * Rows of cells are swept one after the other. A side that crosses a cell adds its height in the cell, with the sign of
 * its direction, to all cells right of it, and to the cell itself the part of that height's area that lies right of the
 * side: a *crossing*. The sum of the crossings of a ring up to a cell is the area of the cell that the ring winds
 * around, counted as often as it winds. In a cell that no side enters, the sum is a whole number, the winding number,
 * and is rounded to it: so errors of rounding end there. Only cells that sides enter cost time. Rings are summed apart,
 * as they are not added but joined and subtracted; the state of each between its crossings is its winding number.
 *
 * The rule TOUCHED reads the same crossings; CENTRE has crossings of its own, on the line through the centres of a row,
 * that count for whole cells.
 *
 * Positions are computed as distances from the nearer end of a side, and from the edges of a cell, so that neither
 * large coordinates nor long sides make them less precise. Sides are always followed upward, so that polygons which
 * share a side cut it at the same places.
 *
 * Sections: sides, crossings, a row, runs. */
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "base/sort.h"
#include "environment/environment.h"
#include "geometry/geometry.h"

#define COVER_DEFAULT_MEMORY (UINT64_C(1) << 30)
#define CANCEL_CELLS         65536u
#define SHARE_ROUNDING       0x1p-50 /* shares this close to 0 or 1 are 0 or 1 */

typedef struct cover_side { /* a side of a ring, followed upward */
  double x[2], y[2];
  uint32_t ring;
  int32_t sign; /* 1 if the ring follows it upward, too, -1 if downward; of a horizontal side 1 */
  uint64_t first, last; /* the steps of the rows that it enters */
} cover_side;

typedef struct cover_crossing {
  double height, area; /* in heights and areas of the cell; with the sign of the side */
  uint32_t ring;
  bool inside; /* the side enters the interior of the cell, and does not only run along its edge */
} cover_crossing;

typedef struct cover_ring {
  uint64_t part;
  bool outer; /* the first ring of its part */
  /* between the crossings of a row */
  double sum; /* of the heights so far */
  int64_t winding; /* the same, as a whole number */
  uint64_t next; /* the cell after the last crossing: until there, `sum` is exact, and then `winding` */
} cover_ring;

typedef struct cover_part { /* a polygon, between the crossings of a row */
  bool in; /* within the outer ring */
  uint64_t holes; /* how many other rings it is within */
} cover_part;

typedef struct cover_piece { /* a run, by numbers of cells along rising x */
  uint64_t from, to;
  double coverage;
} cover_piece;

struct tsr_cover {
  tsr_memory memory;
  const tsr_grid_axis *y, *x;
  tsr_cover_rule rule;
  double left, right; /* the ends of the x axis */
  cover_side *sides;
  uint64_t side_count;
  tsr_pair *order; /* [side_count]: the sides by the step of their first row */
  uint64_t admitted; /* how many of them have begun */
  uint32_t *active, *spare_active; /* [side_count]: the sides that enter the current row, in the order of the rings */
  uint64_t active_count;
  cover_ring *rings;
  cover_part *parts;
  uint64_t ring_count, part_count;
  /* the current row */
  uint64_t step; /* rows in the order of their coordinates */
  uint64_t row; /* the same row, along rising y */
  double low, high; /* its edges */
  cover_crossing *crossings;
  tsr_pair *places, *spare_places; /* of the crossings: their cells */
  uint64_t crossing_count, crossing_room;
  cover_piece *pieces;
  uint64_t piece_count, piece_room, piece_at; /* piece_at: how many were given */
  uint64_t cell_at; /* with gaps: how many cells of the current piece were given */
};

/* ---- Sides ------------------------------------------------------------------------------------------------------- */

/* Sets the rows that a side enters. Returns false if it has no influence on the cells of the grid. */
static bool side_place(const tsr_cover *c, cover_side *side) {
  const uint64_t n = c->y->count;
  const bool horizontal = side->y[0] == side->y[1];
  if (!(fmin(side->x[0], side->x[1]) < c->right)) return false;
  if (side->y[0] >= tsr__axis_edge(c->y, n) || side->y[1] < tsr__axis_edge(c->y, 0)) return false;
  if (!horizontal && side->y[1] == tsr__axis_edge(c->y, 0)) return false;
  uint64_t first = tsr__axis_cell(c->y, side->y[0]);
  uint64_t last = TSR_MIN(tsr__axis_cell_from(c->y, first, side->y[1]), n - 1);
  if (horizontal) last = first;
  if (last > first && tsr__axis_edge(c->y, last) == side->y[1]) last--;
  side->first = c->y->falls ? n - 1 - last : first;
  side->last = c->y->falls ? n - 1 - first : last;
  return true;
}

/* Adds the sides of one ring, moved along x. */
static void ring_add(tsr_cover *c, const double (*points)[2], uint64_t count, double move) {
  double from[2] = {points[count - 1][0] + move, points[count - 1][1]};
  for (uint64_t i = 0; i < count; i++) {
    const double to[2] = {points[i][0] + move, points[i][1]};
    const bool up = from[1] <= to[1];
    const double *low = up ? from : to, *high = up ? to : from;
    cover_side side = {
        .x = {low[0], high[0]}, .y = {low[1], high[1]}, .ring = (uint32_t)c->ring_count, .sign = up ? 1 : -1};
    if ((low[0] != high[0] || low[1] != high[1]) && side_place(c, &side)) c->sides[c->side_count++] = side;
    memcpy(from, to, sizeof from);
  }
}

/* Adds all rings, moved along x. */
static void copy_add(tsr_cover *c, const tsr_geometry *g, double move) {
  for (uint64_t r = 0, begin = 0; r < g->ring_count; begin = g->rings[r++].end) {
    const bool outer = r == 0 || g->rings[r].part != g->rings[r - 1].part;
    if (outer) c->part_count++;
    c->rings[c->ring_count] = (cover_ring){.part = c->part_count - 1, .outer = outer};
    ring_add(c, (const double(*)[2])(g->points + begin), g->rings[r].end - begin, move);
    c->ring_count++;
  }
}

typedef struct cover_copies { /* how often, and where, the geometry is laid onto the x axis */
  double first, last; /* multiples of the distance; none if last < first */
} cover_copies;

static cover_copies copies_find(const tsr_cover *c, const tsr_geometry *g, double wrap) {
  double low = INFINITY, high = -INFINITY;
  for (uint64_t i = 0; i < g->point_count; i++) {
    low = fmin(low, g->points[i][0]);
    high = fmax(high, g->points[i][0]);
  }
  cover_copies copies = {0, wrap > 0 || (low < c->right && high > c->left) ? 0 : -1};
  if (wrap > 0) copies = (cover_copies){ceil((c->left - high) / wrap), floor((c->right - low) / wrap)};
  return copies;
}

static int sides_order(tsr_cover *c, tsr_error *error) {
  tsr_pair *spare;
  TSR_TRY(TSR_ALLOC_RAW(&c->memory, c->side_count, &c->order, error));
  TSR_TRY(TSR_ALLOC_RAW(&c->memory, c->side_count, &c->active, error));
  TSR_TRY(TSR_ALLOC_RAW(&c->memory, c->side_count, &c->spare_active, error));
  TSR_TRY(TSR_ALLOC_RAW(&c->memory, c->side_count, &spare, error));
  for (uint64_t i = 0; i < c->side_count; i++) c->order[i] = (tsr_pair){.key = c->sides[i].first, .cell = (uint32_t)i};
  tsr__pairs_sort(c->order, spare, c->side_count);
  tsr__free(spare);
  return TSR_OK;
}

static int sides_make(tsr_cover *c, const tsr_geometry *g, double wrap, tsr_error *error) {
  if (g->point_count == 0) return TSR_OK;
  const cover_copies copies = copies_find(c, g, wrap);
  if (!(copies.first <= copies.last)) return TSR_OK;
  const double count = copies.last - copies.first + 1;
  if (!(count * (double)g->point_count <= (double)TSR_POINTS_MAX))
    return tsr__fail(error, TSR_BUDGET, "the polygon, repeated by wrap, has more than %llu points",
                     (unsigned long long)TSR_POINTS_MAX);
  const uint64_t times = (uint64_t)count;
  TSR_TRY(TSR_ALLOC_RAW(&c->memory, times * g->point_count, &c->sides, error));
  TSR_TRY(TSR_ALLOC_RAW(&c->memory, times * g->ring_count, &c->rings, error));
  for (uint64_t i = 0; i < times; i++) copy_add(c, g, (copies.first + (double)i) * wrap);
  TSR_TRY(TSR_ALLOC_ARRAY(&c->memory, c->part_count, &c->parts, error));
  return sides_order(c, error);
}

/* ---- Crossings --------------------------------------------------------------------------------------------------- */

static int crossing_add(tsr_cover *c, uint64_t cell, cover_crossing crossing, tsr_error *error) {
  if (c->crossing_count == c->crossing_room) {
    const uint64_t room = c->crossing_room ? 2 * c->crossing_room : 64;
    if (room > UINT32_MAX) return tsr__fail(error, TSR_BUDGET, "the polygon's sides cross too many cells of one row");
    TSR_TRY(TSR_REALLOC_ARRAY(&c->memory, room, &c->crossings, error));
    TSR_TRY(TSR_REALLOC_ARRAY(&c->memory, room, &c->places, error));
    TSR_TRY(TSR_REALLOC_ARRAY(&c->memory, room, &c->spare_places, error));
    c->crossing_room = room;
  }
  c->places[c->crossing_count] = (tsr_pair){.key = cell, .cell = (uint32_t)c->crossing_count};
  c->crossings[c->crossing_count++] = crossing;
  return TSR_OK;
}

/* Adds a piece of a side within a cell, by its ends in the cell's own units, from 0 to 1. */
static int piece_cross(tsr_cover *c, const cover_side *side, uint64_t cell, const double x[2], const double y[2],
                       tsr_error *error) {
  const double height = fabs(y[1] - y[0]);
  const bool inside = fmax(x[0], x[1]) > 0 && fmin(x[0], x[1]) < 1 && fmax(y[0], y[1]) > 0 && fmin(y[0], y[1]) < 1;
  if (height == 0 && !inside) return TSR_OK;
  const cover_crossing crossing = {.height = side->sign * height,
                                   .area = side->sign * height * (1 - (x[0] + x[1]) / 2),
                                   .ring = side->ring,
                                   .inside = inside};
  return crossing_add(c, cell, crossing, error);
}

typedef struct cover_place { /* base + offset, which one number would round */
  double base, offset;
} cover_place;

/* Returns where a side is along one axis (`along`) when it is at `at` on the other one (`over`), which is between its
 * ends. */
static cover_place side_at(const double along[2], const double over[2], double at) {
  const double length = over[1] - over[0], reach = along[1] - along[0];
  if (fabs(at - over[0]) <= fabs(at - over[1])) return (cover_place){along[0], reach * ((at - over[0]) / length)};
  return (cover_place){along[1], reach * ((at - over[1]) / length)};
}

static double clamp(double value, double low, double high) {
  return !(value > low) ? low : value < high ? value : high;
}

/* Returns the place as a share of the way from `low` to `high`. */
static double place_share(cover_place place, double low, double high) {
  return clamp(((place.base - low) + place.offset) / (high - low), 0, 1);
}

/* The part of a side that is in the row, from left to right: its ends, and how high they are in the row, from 0 to
 * 1. */
typedef struct cover_stretch {
  cover_place x[2];
  double y[2];
} cover_stretch;

static cover_stretch side_stretch(const tsr_cover *c, const cover_side *side) {
  cover_stretch s = {.x = {{side->x[0], 0}, {side->x[1], 0}}, .y = {0, 1}};
  if (side->y[0] == side->y[1]) {
    s.y[0] = s.y[1] = (side->y[0] - c->low) / (c->high - c->low);
  } else {
    if (side->y[0] > c->low) s.y[0] = (side->y[0] - c->low) / (c->high - c->low);
    else s.x[0] = side_at(side->x, side->y, c->low);
    if (side->y[1] < c->high) s.y[1] = (side->y[1] - c->low) / (c->high - c->low);
    else s.x[1] = side_at(side->x, side->y, c->high);
  }
  if (side->x[0] <= side->x[1]) return s;
  return (cover_stretch){{s.x[1], s.x[0]}, {s.y[1], s.y[0]}};
}

/* Returns how high a stretch is at a vertical edge that it crosses, from 0 to 1, and between `from` and its right
 * end. */
static double stretch_at(const tsr_cover *c, const cover_side *side, const cover_stretch *s, double edge, double from) {
  const double y = place_share(side_at(side->y, side->x, edge), c->low, c->high);
  return clamp(y, fmin(from, s->y[1]), fmax(from, s->y[1]));
}

/* Adds the crossings of a side in the current row, from left to right. What is left of the grid counts as if it ran
 * along its edge; what is right of it counts for nothing. */
static int side_cross(tsr_cover *c, const cover_side *side, tsr_error *error) {
  if (side->y[0] == side->y[1] && side->y[0] <= c->low) return TSR_OK; /* along the edge of the row */
  const cover_stretch s = side_stretch(c, side);
  const double ends[2] = {s.x[0].base + s.x[0].offset, s.x[1].base + s.x[1].offset};
  const uint64_t n = c->x->count;
  double x[2] = {0, 0}, y[2] = {s.y[0], s.y[1]};
  if (ends[0] >= c->right) return TSR_OK;
  const bool beyond = ends[1] >= c->right;
  uint64_t cell = tsr__axis_cell(c->x, ends[0]);
  const uint64_t last = beyond ? n - 1 : tsr__axis_cell_from(c->x, cell, ends[1]); /* `cell` if rounding moved it */
  double edge = tsr__axis_edge(c->x, cell);
  if (ends[0] < c->left) {
    if (ends[1] > c->left) y[1] = stretch_at(c, side, &s, c->left, y[0]);
    TSR_TRY(piece_cross(c, side, 0, x, y, error));
    if (ends[1] <= c->left) return TSR_OK;
    y[0] = y[1];
  } else {
    x[0] = place_share(s.x[0], edge, tsr__axis_edge(c->x, cell + 1));
  }
  for (; cell <= last; cell++) {
    if (cell % CANCEL_CELLS == CANCEL_CELLS - 1) TSR_TRY(tsr__cancelled(&c->memory, error));
    const double next = tsr__axis_edge(c->x, cell + 1);
    const bool ends_here = cell == last && !beyond;
    x[1] = ends_here ? place_share(s.x[1], edge, next) : 1;
    y[1] = ends_here ? s.y[1] : stretch_at(c, side, &s, next, y[0]);
    TSR_TRY(piece_cross(c, side, cell, x, y, error));
    x[0] = 0;
    y[0] = y[1];
    edge = next;
  }
  return TSR_OK;
}

/* Adds the crossing of a side with the line through the centres of the row: all cells whose centres are on it or right
 * of it count whole. */
static int side_cross_centres(tsr_cover *c, const cover_side *side, tsr_error *error) {
  const double y = tsr__axis_centre(c->y, c->row);
  if (y < side->y[0] || y >= side->y[1]) return TSR_OK;
  const double reach = side->x[1] - side->x[0], length = side->y[1] - side->y[0];
  const int nearer = y - side->y[0] <= side->y[1] - y ? 0 : 1;
  const double rise = y - side->y[nearer];
  /* The product first: so it is exact where a centre is on the side and numbers are short. */
  const double move = isfinite(reach * rise) ? reach * rise / length : reach * (rise / length);
  const double x = side->x[nearer] + move;
  const uint64_t cell = tsr__axis_centre_from(c->x, x);
  if (cell == c->x->count) return TSR_OK;
  return crossing_add(c, cell, (cover_crossing){side->sign, side->sign, side->ring, false}, error);
}

/* ---- A row ------------------------------------------------------------------------------------------------------- */

static int run_add(tsr_cover *c, uint64_t from, uint64_t to, double coverage, tsr_error *error) {
  if (coverage <= 0) return TSR_OK;
  cover_piece *before = c->piece_count ? &c->pieces[c->piece_count - 1] : NULL;
  if (before && before->to + 1 == from && before->coverage == coverage) {
    before->to = to;
    return TSR_OK;
  }
  if (c->piece_count == c->piece_room) {
    const uint64_t room = c->piece_room ? 2 * c->piece_room : 64;
    TSR_TRY(TSR_REALLOC_ARRAY(&c->memory, room, &c->pieces, error));
    c->piece_room = room;
  }
  c->pieces[c->piece_count++] = (cover_piece){from, to, coverage};
  return TSR_OK;
}

/* Takes the crossings of a ring in one cell, from number `at` on, and returns the number after them. *share: how much
 * of the cell the ring covers; *inside: a side enters its interior. */
static uint64_t ring_take(tsr_cover *c, uint64_t at, double *share, bool *inside) {
  const uint64_t cell = c->places[at].key;
  cover_ring *ring = &c->rings[c->crossings[c->places[at].cell].ring];
  const uint32_t number = c->crossings[c->places[at].cell].ring;
  double height = 0, area = 0;
  *inside = false;
  if (ring->next < cell) ring->sum = (double)ring->winding;
  for (; at < c->crossing_count && c->places[at].key == cell; at++) {
    const cover_crossing *crossing = &c->crossings[c->places[at].cell];
    if (crossing->ring != number) break;
    height += crossing->height;
    area += crossing->area;
    *inside |= crossing->inside;
  }
  *share = fabs(ring->sum + area);
  if (!*inside) *share = round(*share);
  *share = fmin(*share, 1);
  ring->sum += height;
  ring->winding = (int64_t)round(ring->sum);
  ring->next = cell + 1;
  return at;
}

/* Takes the crossings of a part in one cell, from number `at` on, and returns the number after them. *share: how much
 * of the cell the part covers. */
static uint64_t part_take(tsr_cover *c, uint64_t at, double *share) {
  const uint64_t cell = c->places[at].key;
  const uint64_t number = c->rings[c->crossings[c->places[at].cell].ring].part;
  cover_part *part = &c->parts[number];
  bool in = part->in, cut = false, pierced = false;
  uint64_t holes = part->holes, whole_holes = part->holes;
  double outer = part->in, holes_share = 0;
  while (at < c->crossing_count && c->places[at].key == cell) {
    const cover_ring *ring = &c->rings[c->crossings[c->places[at].cell].ring];
    if (ring->part != number) break;
    const bool was = ring->winding != 0;
    double covered;
    bool inside;
    at = ring_take(c, at, &covered, &inside);
    const bool is = ring->winding != 0;
    if (ring->outer) {
      outer = covered;
      in = is;
      cut = inside;
      continue;
    }
    whole_holes -= was;
    holes += (uint64_t)is - (uint64_t)was;
    holes_share += covered;
    pierced |= inside;
  }
  *share = fmax(0, outer - holes_share - (double)whole_holes);
  if (c->rule == TSR_COVER_TOUCHED) *share = cut || *share > SHARE_ROUNDING || (pierced && outer > 0);
  part->in = in;
  part->holes = holes;
  return at;
}

static bool part_covers(const cover_part *part) { return part->in && part->holes == 0; }

/* Turns the sorted crossings of the row into runs. */
static int row_sweep(tsr_cover *c, tsr_error *error) {
  uint64_t whole = 0, done = 0; /* the parts that cover the cells before the next crossing; the cells that are done */
  for (uint64_t at = 0; at < c->crossing_count;) {
    const uint64_t cell = c->places[at].key;
    double share = 0;
    uint64_t others = whole, entered = 0;
    if (cell > done && whole) TSR_TRY(run_add(c, done, cell - 1, 1, error));
    while (at < c->crossing_count && c->places[at].key == cell) {
      const cover_part *part = &c->parts[c->rings[c->crossings[c->places[at].cell].ring].part];
      double covered;
      others -= part_covers(part);
      at = part_take(c, at, &covered);
      entered += part_covers(part);
      share += covered;
    }
    whole = others + entered;
    share = others ? 1 : share < SHARE_ROUNDING ? 0 : share > 1 - SHARE_ROUNDING ? 1 : share;
    TSR_TRY(run_add(c, cell, cell, share, error));
    done = cell + 1;
  }
  return whole && done < c->x->count ? run_add(c, done, c->x->count - 1, 1, error) : TSR_OK;
}

/* Forgets what the crossings of the row have left in rings and parts. */
static void row_clear(tsr_cover *c) {
  for (uint64_t i = 0; i < c->crossing_count; i++) {
    cover_ring *ring = &c->rings[c->crossings[i].ring];
    c->parts[ring->part] = (cover_part){.in = false};
    ring->sum = 0;
    ring->winding = 0;
    ring->next = 0;
  }
  c->crossing_count = 0;
}

/* Adds the sides that begin in the row to those that enter it, in the order of the rings. */
static void row_admit(tsr_cover *c) {
  uint64_t end = c->admitted, n = 0, a = 0;
  while (end < c->side_count && c->order[end].key == c->step) end++;
  if (end == c->admitted) return;
  for (uint64_t i = c->admitted; i < end; i++) {
    while (a < c->active_count && c->active[a] < c->order[i].cell) c->spare_active[n++] = c->active[a++];
    c->spare_active[n++] = c->order[i].cell;
  }
  while (a < c->active_count) c->spare_active[n++] = c->active[a++];
  uint32_t *swap = c->active;
  c->active = c->spare_active;
  c->spare_active = swap;
  c->active_count = n;
  c->admitted = end;
}

/* Makes the runs of the current row, and goes to the next one. */
static int row_make(tsr_cover *c, tsr_error *error) {
  uint64_t kept = 0;
  row_admit(c);
  c->row = c->y->falls ? c->y->count - 1 - c->step : c->step;
  c->low = tsr__axis_edge(c->y, c->row);
  c->high = tsr__axis_edge(c->y, c->row + 1);
  for (uint64_t i = 0; i < c->active_count; i++) {
    const cover_side *side = &c->sides[c->active[i]];
    TSR_TRY((c->rule == TSR_COVER_CENTRE ? side_cross_centres : side_cross)(c, side, error));
    if (side->last > c->step) c->active[kept++] = c->active[i];
  }
  c->active_count = kept;
  if (c->crossing_count) {
    tsr__pairs_sort(c->places, c->spare_places, c->crossing_count);
    TSR_TRY(row_sweep(c, error));
  }
  row_clear(c);
  c->step++;
  return TSR_OK;
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */

int tsr_cover_open(tsr_environment *environment, const tsr_cover_request *request, tsr_cover **cover,
                   tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (!(request->wrap >= 0 && request->wrap <= TSR_COORDINATE_MAX))
    return tsr__fail(error, TSR_MISMATCH, "wrap is a distance above 0, such as 360");
  tsr_cover *c;
  TSR_TRY(TSR_ALLOC(&environment->memory, &c, error));
  tsr__memory_init(&c->memory, &environment->memory,
                   request->memory_bytes ? request->memory_bytes : COVER_DEFAULT_MEMORY, "memory_mb");
  c->y = request->y;
  c->x = request->x;
  c->rule = request->rule;
  c->left = tsr__axis_edge(c->x, 0);
  c->right = tsr__axis_edge(c->x, c->x->count);
  const int code = sides_make(c, request->geometry, request->wrap, error);
  if (code < 0) tsr_cover_close(c);
  else *cover = c;
  return code;
}

/* Makes rows until one has runs. Returns 1; 0 at the end. */
static int rows_next(tsr_cover *c, tsr_error *error) {
  c->piece_count = c->piece_at = 0;
  while (c->piece_count == 0) {
    if (c->active_count == 0 && c->admitted == c->side_count) return 0;
    if (c->active_count == 0) c->step = c->order[c->admitted].key;
    TSR_TRY(tsr__cancelled(&c->memory, error));
    TSR_TRY(row_make(c, error));
  }
  return 1;
}

/* Returns how many cells of a piece, from cell number `from` of it on in the order of coordinates, have neighbouring
 * coordinates. */
static uint64_t piece_reach(const tsr_grid_axis *axis, uint64_t begin, uint64_t left) {
  if (!axis->gaps) return left;
  uint64_t n = 1, cell = begin;
  for (; n < left; n++) {
    const uint64_t next = axis->falls ? cell - 1 : cell + 1;
    if ((uint64_t)tsr__axis_coordinate(axis, next) != (uint64_t)tsr__axis_coordinate(axis, cell) + 1) break;
    cell = next;
  }
  return n;
}

int tsr_cover_next(tsr_cover *cover, tsr_cover_run *run, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_cover *c = cover;
  if (c->piece_at == c->piece_count) {
    const int code = rows_next(c, error);
    if (code <= 0) return code;
  }
  const tsr_grid_axis *x = c->x;
  const cover_piece *piece = &c->pieces[x->falls ? c->piece_count - 1 - c->piece_at : c->piece_at];
  const uint64_t cells = piece->to - piece->from + 1;
  const uint64_t begin = x->falls ? piece->to - c->cell_at : piece->from + c->cell_at;
  const uint64_t reach = piece_reach(x, begin, cells - c->cell_at);
  run->y = tsr__axis_coordinate(c->y, c->row);
  run->x_from = tsr__axis_coordinate(x, begin);
  run->x_to = (int64_t)((uint64_t)run->x_from + reach - 1);
  run->coverage = piece->coverage;
  c->cell_at += reach;
  if (c->cell_at < cells) return 1;
  c->cell_at = 0;
  c->piece_at++;
  return 1;
}

void tsr_cover_close(tsr_cover *cover) {
  if (!cover) return;
  tsr__free(cover->sides);
  tsr__free(cover->rings);
  tsr__free(cover->parts);
  tsr__free(cover->order);
  tsr__free(cover->active);
  tsr__free(cover->spare_active);
  tsr__free(cover->crossings);
  tsr__free(cover->places);
  tsr__free(cover->spare_places);
  tsr__free(cover->pieces);
  tsr__free(cover);
}
