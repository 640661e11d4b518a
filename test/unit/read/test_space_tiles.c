/* Tests of subtiles: each selected cell of a tile lies in one subtile, with the right index, position and
 * coordinates. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "read/reader.h"
#include "made_array.h"

typedef struct plane { /* a grid of two dimensions with ten values each, and the selections of a request */
  tsr_memory memory;
  tsr_arena arena;
  tsr_grid grid;
  uint64_t last[3], extent[3], low_key[3];
  tsr_dimension_selection selections[3];
  tsr_span spans[3][8];
} plane;

static void open_plane(plane *p, uint32_t dimensions, bool col_major) {
  memset(p, 0, sizeof *p);
  tsr__memory_init_root(&p->memory, NULL, NULL);
  tsr__arena_init(&p->arena, &p->memory);
  p->grid = (tsr_grid){.dimensions = dimensions,
                       .col_major_cells = col_major,
                       .last = p->last,
                       .extent = p->extent,
                       .low_key = p->low_key,
                       .tile_cells = 1};
}

static void random_selections(plane *p, uint64_t last) {
  p->grid.tile_cells = 1;
  for (uint32_t d = 0; d < p->grid.dimensions; d++) {
    p->last[d] = last;
    p->extent[d] = 1 + made_random((uint32_t)last + 1);
    p->grid.tile_cells *= p->extent[d];
    uint64_t at = made_random(4), n = 0;
    while (n < 8 && at <= last) {
      const uint64_t end = TSR_MIN(at + made_random(3), last);
      p->spans[d][n++] = (tsr_span){at, end};
      at = end + 2 + made_random(3);
    }
    p->selections[d] = (tsr_dimension_selection){.count = n, .spans = p->spans[d]};
  }
}

static bool is_wanted(const plane *p, uint32_t d, uint64_t ordinal) {
  for (uint64_t i = 0; i < p->selections[d].count; i++)
    if (p->spans[d][i].low <= ordinal && ordinal <= p->spans[d][i].high) return true;
  return false;
}

/* Returns the number of a cell in its tile. */
static uint64_t index_of(const plane *p, const uint64_t *ordinals) {
  uint64_t index = 0;
  for (uint32_t k = 0; k < p->grid.dimensions; k++) {
    const uint32_t d = p->grid.col_major_cells ? p->grid.dimensions - 1 - k : k;
    index = index * p->extent[d] + ordinals[d] % p->extent[d];
  }
  return index;
}

static void check_piece(const plane *p, const tsr_subtile *subtile, uint32_t *seen) {
  const uint32_t n = p->grid.dimensions;
  uint32_t *cells = malloc(subtile->cells * 4), *owners = malloc(subtile->cells * 4);
  int32_t *values[3];
  int64_t *numbers = malloc(subtile->index_count * 8);
  const uint64_t low[3] = {2, 2, 2}, high[3] = {6, 7, 5}, strides[3] = {1000000, 1000, 1};
  const uint8_t zero[4] = {0};
  uint64_t owned = 0;
  tsr__subtile_select(subtile, cells);
  memset(owners, 0xff, subtile->cells * 4);
  const uint64_t given = tsr__subtile_claim(subtile, low, high, 7, UINT32_MAX, owners);
  assert_int_equal(tsr__subtile_claim(subtile, low, high, 8, UINT32_MAX, owners), 0);
  tsr__subtile_numbers(subtile, strides, 5, numbers);
  for (uint32_t axis = 0; axis < n; axis++) {
    values[subtile->axes[axis].dimension] = malloc(subtile->index_count * 4);
    tsr__subtile_values(subtile, axis, zero, 4, values[subtile->axes[axis].dimension]);
  }
  for (uint64_t i = 0; i < subtile->cells; i++) {
    uint64_t ordinals[3];
    bool inside = true;
    int64_t number = 5;
    assert_true(cells[i] < subtile->index_count);
    if (i > 0) assert_true(cells[i] > cells[i - 1]);
    for (uint32_t d = 0; d < n; d++) {
      ordinals[d] = (uint64_t)values[d][cells[i]];
      assert_true(is_wanted(p, d, ordinals[d]));
      inside &= low[d] <= ordinals[d] && ordinals[d] <= high[d];
      number += (int64_t)(ordinals[d] * strides[d]);
    }
    assert_int_equal(index_of(p, ordinals), subtile->origin + cells[i]);
    assert_int_equal(tsr__subtile_find(subtile, ordinals), i);
    assert_int_equal(owners[i], inside ? 7 : UINT32_MAX);
    assert_int_equal(numbers[cells[i]], number);
    owned += inside;
    seen[subtile->origin + cells[i]]++;
  }
  assert_int_equal(given, owned);
  assert_int_equal(cells[0], 0);
  assert_int_equal(cells[subtile->cells - 1], subtile->index_count - 1);
  assert_int_equal(tsr__subtile_is_contiguous(subtile), subtile->cells == subtile->index_count);
  for (uint32_t d = 0; d < n; d++) free(values[d]);
  free(cells);
  free(owners);
  free(numbers);
}

static void check_tile(plane *p, const uint64_t *tile) {
  const uint32_t n = p->grid.dimensions;
  uint64_t first[3], given = 0;
  tsr_subtiles subtiles;
  for (uint32_t d = 0; d < n; d++) {
    const uint64_t start = tile[d] * p->extent[d], end = TSR_MIN(start + p->extent[d] - 1, p->last[d]);
    first[d] = 0;
    while (first[d] < p->selections[d].count && p->spans[d][first[d]].high < start) first[d]++;
    if (first[d] == p->selections[d].count || p->spans[d][first[d]].low > end)
      return; /* nothing is selected in the tile */
  }
  assert_int_equal(
      tsr__subtiles_init(&p->grid, p->selections, tile, first, TSR_SUBTILE_CELLS, &p->arena, &subtiles, NULL), TSR_OK);
  uint32_t *seen = calloc(p->grid.tile_cells, 4);
  while (tsr__subtiles_next(&subtiles)) {
    given += subtiles.subtile.cells;
    check_piece(p, &subtiles.subtile, seen);
  }
  uint64_t cells = 1;
  for (uint32_t d = 0; d < n; d++) cells *= subtiles.tile_axes[n - 1 - d].count;
  assert_int_equal(given, cells);
  for (uint64_t i = 0; i < p->grid.tile_cells; i++) assert_true(seen[i] <= 1);
  free(seen);
}

static void test_each_selected_cell_lies_in_one_subtile(void **state) {
  (void)state;
  for (unsigned round = 0; round < 300; round++) {
    plane p;
    open_plane(&p, 1 + made_random(3), made_random(2));
    random_selections(&p, 9);
    uint64_t tile[3] = {0};
    for (;;) {
      check_tile(&p, tile);
      uint32_t d = 0;
      while (d < p.grid.dimensions && ++tile[d] > p.last[d] / p.extent[d]) tile[d++] = 0;
      if (d == p.grid.dimensions) break;
    }
    tsr__arena_release(&p.arena);
  }
}

/* Counts the subtiles of a tile of `rows` by `columns` cells in which a span of each is selected. Checks their limits,
 * and that their cells add up. */
static uint64_t count_subtiles(uint64_t rows, uint64_t columns, tsr_span row_span, tsr_span column_span) {
  plane p;
  const uint64_t tile[2] = {0}, first[2] = {0};
  tsr_subtiles subtiles;
  uint64_t count = 0, cells = 0, end = 0;
  open_plane(&p, 2, false);
  p.last[0] = p.extent[0] - 1;
  p.extent[0] = rows;
  p.extent[1] = columns;
  p.last[0] = rows - 1;
  p.last[1] = columns - 1;
  p.spans[0][0] = row_span;
  p.spans[1][0] = column_span;
  p.selections[0] = (tsr_dimension_selection){.count = 1, .spans = p.spans[0]};
  p.selections[1] = (tsr_dimension_selection){.count = 1, .spans = p.spans[1]};
  assert_int_equal(tsr__subtiles_init(&p.grid, p.selections, tile, first, TSR_SUBTILE_CELLS, &p.arena, &subtiles, NULL),
                   TSR_OK);
  while (tsr__subtiles_next(&subtiles)) {
    const tsr_subtile *subtile = &subtiles.subtile;
    assert_true(subtile->cells <= TSR_SUBTILE_CELLS);
    assert_true(subtile->index_count <= TSR_SUBTILE_REACH);
    assert_true(subtile->origin >= end || count == 0);
    end = subtile->origin + subtile->index_count;
    cells += subtile->cells;
    count++;
  }
  assert_int_equal(cells, (row_span.high - row_span.low + 1) * (column_span.high - column_span.low + 1));
  tsr__arena_release(&p.arena);
  return count;
}

static void test_subtiles_keep_to_their_limits(void **state) {
  (void)state;
  assert_int_equal(count_subtiles(100, 100, (tsr_span){0, 99}, (tsr_span){0, 99}), 1);
  assert_int_equal(count_subtiles(256, 256, (tsr_span){0, 255}, (tsr_span){0, 255}), 1);
  assert_int_equal(count_subtiles(257, 256, (tsr_span){0, 256}, (tsr_span){0, 255}), 2);
  assert_int_equal(count_subtiles(60000, 70000, (tsr_span){7, 7}, (tsr_span){0, 69999}), 2);
  assert_int_equal(count_subtiles(60000, 70000, (tsr_span){100, 129}, (tsr_span){5, 5}), 2); /* 15 rows reach 2^20 */
  assert_int_equal(count_subtiles(1, UINT32_MAX - 1, (tsr_span){0, 0}, (tsr_span){UINT32_MAX - 3, UINT32_MAX - 2}), 1);
  assert_int_equal(count_subtiles(2, 2147483647, (tsr_span){0, 1}, (tsr_span){3, 3}), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_selected_cell_lies_in_one_subtile),
      cmocka_unit_test(test_subtiles_keep_to_their_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
