/* tile.c: map tiles: the option "tile" of tessera_png.
 *
 * The core finds the cells of each row and each column of pixels (tsr_web_side_open), and averages them for an array
 * (tsr_downsample_open). The grid of a query is averaged here.
 *
 * Sections: the option, sides, the grid of a query. */
#include "picture/picture.h"

#include <math.h>
#include <string.h>

#include "connection/errors.h"
#include "sql/json.h"

/* ---- The option -------------------------------------------------------------------------------------------------- */

typedef struct tile_numbers {
  int64_t numbers[3]; /* z, x, y */
  int count;
} tile_numbers;

static int tile_fail(tsr_error *error) {
  return tsx_fail(error, TSR_MISMATCH, "'tile': expected three integers, [z, x, y]");
}

static int tile_take_number(void *argument, const tsx_json_option *option, tsr_error *error) {
  tile_numbers *all = argument;
  if (all->count == 3 || strcmp(option->type, "integer") != 0 || sqlite3_value_type(option->value) != SQLITE_INTEGER)
    return tile_fail(error);
  all->numbers[all->count++] = sqlite3_value_int64(option->value);
  return TSR_OK;
}

int tsx_tile_take(tsx_tile *tile, sqlite3 *db, const tsx_option_value *value, tsr_error *error) {
  tile_numbers all = {.count = 0};
  if (strcmp(value->json->type, "array") != 0) return tile_fail(error);
  TSX_TRY(tsx_elements_each(db, value->json->value, "tile", tile_take_number, &all, error));
  if (all.count != 3) return tile_fail(error);
  const long long z = all.numbers[0], x = all.numbers[1], y = all.numbers[2];
  if (z < 0 || z > TSR_WEB_ZOOM_MAX)
    return tsx_fail(error, TSR_RANGE, "tile %lld/%lld/%lld: zooms run from 0 to %d", z, x, y, TSR_WEB_ZOOM_MAX);
  const long long last = (1ll << z) - 1;
  if (x < 0 || x > last || y < 0 || y > last)
    return tsx_fail(error, TSR_RANGE, "tile %lld/%lld/%lld: x and y run from 0 to %lld at zoom %lld", z, x, y, last, z);
  tile->given = true;
  tile->zoom = (uint64_t)z;
  tile->x = (uint64_t)x;
  tile->y = (uint64_t)y;
  return TSR_OK;
}

/* ---- Sides ------------------------------------------------------------------------------------------------------- */

static void tile_forget(tsx_tile *tile) {
  tsr_web_side_close(tile->rows);
  tsr_web_side_close(tile->columns);
  tile->rows = tile->columns = NULL;
}

int tsx_tile_find(tsr_environment *environment, tsx_tile *tile, uint64_t side, bool nearest, const unsigned *shifts,
                  const int64_t *lows, tsr_error *error) {
  tsr_web_request request = {
      .zoom = (unsigned)tile->zoom, .nearest = nearest, .pixels = (uint32_t)side, .axis = tile->plane.axes[0]};
  tile_forget(tile);
  request.rows = true;
  request.number = tile->y;
  request.shift = shifts ? shifts[0] : 0;
  request.low = lows ? lows[0] : 0;
  TSX_TRY(tsr_web_side_open(environment, &request, &tile->rows, error));
  request.axis = tile->plane.axes[1];
  request.rows = false;
  request.number = tile->x;
  request.shift = shifts ? shifts[1] : 0;
  request.low = lows ? lows[1] : 0;
  return tsr_web_side_open(environment, &request, &tile->columns, error);
}

void tsx_tile_close(tsx_tile *tile) {
  tile_forget(tile);
  tsx_plane_close(&tile->plane);
  tsx_plane_words_release(&tile->words);
}

/* ---- The grid of a query ----------------------------------------------------------------------------------------- */

static int tile_axis_of_key(tsr_environment *environment, const tsx_grid_axis *key, tsr_grid_axis **axis,
                            tsr_error *error) {
  if (key->type == TSR_VALUE_TEXT)
    return tsx_fail(error, TSR_MISMATCH, "'%.100s' is text: the keys of a tile are degrees", key->name);
  int64_t *coordinates = sqlite3_malloc64((key->count + 1) * sizeof *coordinates);
  double *centres = sqlite3_malloc64((key->count + 1) * sizeof *centres);
  int code = coordinates && centres ? TSR_OK : tsx_out_of_memory(error);
  for (uint64_t i = 0; i < key->count && code == TSR_OK; i++) {
    coordinates[i] = (int64_t)i;
    centres[i] = key->type == TSR_VALUE_REAL ? key->reals[i] : (double)(key->low + (int64_t)i);
  }
  if (code == TSR_OK && key->count < 2)
    code = tsx_fail(error, TSR_MISMATCH, "'%.100s' has one value: two give a cell its width", key->name);
  if (code == TSR_OK)
    code = tsr_grid_axis_of_centres(environment, key->name, key->count, coordinates, centres, axis, error);
  sqlite3_free(coordinates);
  sqlite3_free(centres);
  return code;
}

int tsx_tile_axes_of_grid(tsr_environment *environment, tsx_tile *tile, const tsx_grid *grid, tsr_error *error) {
  if (tile->words.count)
    return tsx_fail(error, TSR_ERROR, "'axes' is for arrays: the keys of a query are degrees, first latitudes");
  for (int i = 0; i < 2; i++) TSX_TRY(tile_axis_of_key(environment, &grid->axes[i], &tile->plane.axes[i], error));
  return TSR_OK;
}

/* Finds the first run of each place: firsts[places + 1]. Runs are ordered by places. */
static void tile_index(const tsr_downsample_side *side, uint64_t *firsts) {
  uint64_t run = 0;
  for (uint32_t place = 0; place <= side->places; place++) {
    while (run < side->run_count && side->runs[run].place < place) run++;
    firsts[place] = run;
  }
}

typedef struct tile_sum {
  double sum;
  uint64_t count;
} tile_sum;

/* Adds the cells of two runs. */
static void tile_add(const tsx_grid *grid, const tsr_downsample_run *y, const tsr_downsample_run *x, tile_sum *all) {
  for (int64_t row = y->low; row <= y->high; row++)
    for (int64_t column = x->low; column <= x->high; column++) {
      const uint64_t at = (uint64_t)row * grid->axes[1].count + (uint64_t)column;
      const double number =
          grid->whole ? (double)((const int64_t *)grid->places)[at] : ((const double *)grid->places)[at];
      if (isnan(number)) continue;
      all->sum += number;
      all->count++;
    }
}

static tile_sum tile_pixel(const tsx_tile *tile, const tsx_grid *grid, uint64_t *const firsts[2], uint64_t y,
                           uint64_t x) {
  const tsr_downsample_side *rows = &tile->rows->side, *columns = &tile->columns->side;
  tile_sum all = {0};
  for (uint64_t i = y ? rows->ends[y - 1] : 0; i < rows->ends[y]; i++)
    for (uint64_t k = x ? columns->ends[x - 1] : 0; k < columns->ends[x]; k++)
      for (uint64_t a = firsts[0][rows->shown[i]]; a < firsts[0][rows->shown[i] + 1]; a++)
        for (uint64_t b = firsts[1][columns->shown[k]]; b < firsts[1][columns->shown[k] + 1]; b++)
          tile_add(grid, &rows->runs[a], &columns->runs[b], &all);
  return all;
}

int tsx_tile_draw_grid(const tsx_tile *tile, const tsx_grid *grid, double *means, tsr_downsample *drawn,
                       tsr_error *error) {
  const tsr_downsample_side *rows = &tile->rows->side, *columns = &tile->columns->side;
  uint64_t *firsts[2] = {sqlite3_malloc64((rows->places + UINT64_C(1)) * sizeof **firsts),
                         sqlite3_malloc64((columns->places + UINT64_C(1)) * sizeof **firsts)};
  const bool made = firsts[0] && firsts[1];
  *drawn = (tsr_downsample){.height = rows->pixels, .width = columns->pixels, .means = means};
  if (made) tile_index(rows, firsts[0]);
  if (made) tile_index(columns, firsts[1]);
  for (uint64_t y = 0; y < drawn->height && made; y++)
    for (uint64_t x = 0; x < drawn->width; x++) {
      const tile_sum all = tile_pixel(tile, grid, firsts, y, x);
      *means++ = all.count ? all.sum / (double)all.count : NAN;
      drawn->cells += all.count;
      drawn->most = all.count > drawn->most ? all.count : drawn->most;
    }
  sqlite3_free(firsts[0]);
  sqlite3_free(firsts[1]);
  return made ? TSR_OK : tsx_out_of_memory(error);
}
