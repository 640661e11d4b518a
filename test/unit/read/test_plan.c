/* Tests of plans and estimates. */

#include <math.h>

#include "read/reader.h"
#include "made_array.h"

static void test_values_and_tiles_of_selections_are_counted(void **state) {
  (void)state;
  for (unsigned round = 0; round < 2000; round++) {
    tsr_span spans[5];
    tsr_dimension_selection selected = {.spans = spans};
    uint64_t at = made_random(3), values = 0, tiles = 0, within = 0;
    while (selected.count < 5 && at < 60) {
      spans[selected.count++] = (tsr_span){at, at + made_random(8)};
      at = spans[selected.count - 1].high + 2 + made_random(9);
    }
    const uint64_t extent = 1 + made_random(12), low = made_random(60), high = low + made_random(30);
    bool met[100] = {false};
    for (uint64_t i = 0; i < selected.count; i++)
      for (uint64_t o = spans[i].low; o <= spans[i].high; o++) {
        values++;
        if (o >= low && o <= high) met[o / extent] = true;
        within += o >= low && o <= high;
      }
    for (unsigned t = 0; t < 100; t++) tiles += met[t];
    assert_int_equal(tsr__dimension_selection_values(&selected), values);
    assert_int_equal(tsr__dimension_selection_values_within(&selected, low, high), within);
    assert_int_equal(tsr__dimension_selection_tiles(&selected, extent, low, high), tiles);
  }
  tsr_span all = {0, UINT64_MAX};
  const tsr_dimension_selection selected = {.count = 1, .spans = &all};
  assert_int_equal(tsr__dimension_selection_values(&selected), UINT64_MAX);
  assert_int_equal(tsr__dimension_selection_tiles(&selected, 1, 0, UINT64_MAX), UINT64_MAX);
}

static tsr_range between(const int32_t *low, const int32_t *high) { return (tsr_range){.low = low, .high = high}; }

/* Opens an array of 100 x 100 cells. Each tile has 10 cells of one x. */
static void open_square(made_array *m, uint64_t fragments) {
  static made_cell cells[10000];
  made_open(m, false, 2, false, 0, 99, NULL);
  m->schema.capacity = 10;
  for (uint64_t f = 0; f < fragments; f++) {
    for (int i = 0; i < 10000; i++) cells[i] = (made_cell){.at = {i / 100, i % 100}, .value = i};
    made_sparse(m, f + 1, f + 1, cells, 10000, false, false);
  }
}

static void test_a_sparse_plan_has_the_tiles_that_meet_the_request(void **state) {
  (void)state;
  made_array m;
  tsr_arena arena;
  tsr_plan plan;
  open_square(&m, 1);
  tsr__arena_init(&arena, &m.array.memory);
  assert_int_equal(tsr__plan_make(&m.snapshot, NULL, &arena, &plan, NULL), TSR_OK);
  assert_int_equal(plan.tile_count, 1000);
  assert_true(plan.tiles[0].inside && !plan.empty);

  const int32_t x[2] = {3, 4}, y[2] = {15, 29};
  const tsr_range xs = between(&x[0], &x[1]), ys = between(&y[0], &y[1]);
  tsr_ranges ranges[2] = {{.ranges = &xs, .count = 1}, {.ranges = &ys, .count = 1}};
  assert_int_equal(tsr__plan_make(&m.snapshot, ranges, &arena, &plan, NULL), TSR_OK);
  assert_int_equal(plan.tile_count, 4);
  assert_int_equal(plan.tiles[0].tile, 31);
  assert_false(plan.tiles[0].inside);
  assert_true(plan.tiles[1].inside);
  assert_int_equal(plan.tiles[3].tile, 42);

  /* Two sets of ranges that must both hold, and a set without any value. */
  const tsr_ranges also = {.ranges = &ys, .count = 1};
  ranges[1] = (tsr_ranges){.all = true, .also = &also};
  assert_int_equal(tsr__plan_make(&m.snapshot, ranges, &arena, &plan, NULL), TSR_OK);
  assert_int_equal(plan.tile_count, 4);
  ranges[1] = (tsr_ranges){.ranges = &xs, .count = 1, .also = &also};
  assert_int_equal(tsr__plan_make(&m.snapshot, ranges, &arena, &plan, NULL), TSR_OK);
  assert_true(plan.empty);
  ranges[1] = (tsr_ranges){.count = 0};
  assert_int_equal(tsr__plan_make(&m.snapshot, ranges, &arena, &plan, NULL), TSR_OK);
  assert_true(plan.empty);

  /* A lossy filter moves coordinates, so no tile is skipped. */
  tsr_filter lossy = {.type = TSR_FILTER_SCALE_FLOAT};
  m.fields[0].filters.filters = &lossy;
  m.fields[0].filters.count = 1;
  ranges[1] = (tsr_ranges){.all = true};
  assert_int_equal(tsr__plan_make(&m.snapshot, ranges, &arena, &plan, NULL), TSR_OK);
  assert_int_equal(plan.tile_count, 1000);
  assert_true(plan.lossy && !plan.tiles[500].inside);
  tsr__arena_release(&arena);
  made_close(&m);
}

static double estimate_rows(made_array *m, const tsr_ranges *ranges, tsr_estimate *e) {
  const tsr_request ask = {.dimensions = ranges};
  assert_int_equal(tsr_request_estimate(&m->snapshot, &ask, e, NULL), TSR_OK);
  return e->rows;
}

static bool near(double a, double b, double part) { return a >= b * (1 - part) && a <= b * (1 + part); }

static void test_estimates_of_sparse_arrays_are_near_the_truth(void **state) {
  (void)state;
  for (uint64_t fragments = 1; fragments <= 2; fragments++) {
    made_array m;
    tsr_estimate e;
    open_square(&m, fragments);
    const double n = (double)fragments;
    assert_true(estimate_rows(&m, NULL, &e) == 10000 * n);
    assert_true(e.tiles == 1000 * n && e.cells == 10000 * n && e.fragments == fragments);
    const int32_t x[2] = {10, 29}, y[2] = {5, 64}, one = 7, far = 200;
    tsr_range xs = between(&x[0], &x[1]), ys = between(&y[0], &y[1]);
    tsr_ranges ranges[2] = {{.ranges = &xs, .count = 1}, {.ranges = &ys, .count = 1}};
    /* the estimate is no more than the number of coordinates, though both fragments have all cells */
    assert_true(near(estimate_rows(&m, ranges, &e), 1200, 0.1));
    assert_true(near(e.tiles, 20 * 7 * n, 0.15));
    xs = ys = between(&one, &one);
    assert_true(near(estimate_rows(&m, ranges, &e), 1, 0.01));
    ranges[0] = (tsr_ranges){.all = true};
    assert_true(near(estimate_rows(&m, ranges, &e), 100 * n, 0.3));
    ys = between(&far, NULL);
    assert_true(estimate_rows(&m, ranges, &e) == 0);
    made_close(&m);
  }
}

static void test_estimates_of_string_ranges_are_near_the_truth(void **state) {
  (void)state;
  static made_cell cells[676];
  made_array m;
  tsr_estimate e;
  for (int i = 0; i < 676; i++) {
    cells[i] = (made_cell){.value = i};
    cells[i].text[0] = (char)('a' + i / 26);
    cells[i].text[1] = (char)('a' + i % 26);
  }
  made_open(&m, false, 1, true, 0, 9, NULL);
  m.schema.capacity = 13;
  made_sparse(&m, 1, 1, cells, 676, false, false);
  tsr_range r = {.low = "c", .low_size = 1, .high = "f", .high_size = 1, .high_exclusive = true};
  const tsr_ranges ranges[1] = {{.ranges = &r, .count = 1}};
  assert_true(near(estimate_rows(&m, ranges, &e), 78, 0.2));
  r = (tsr_range){.low = "kk", .low_size = 2, .high = "kk", .high_size = 2};
  assert_true(near(estimate_rows(&m, ranges, &e), 1, 0.2));
  assert_true(e.tiles == 1);
  r = (tsr_range){.low = "z", .low_size = 1};
  assert_true(near(estimate_rows(&m, ranges, &e), 26, 0.2));
  made_close(&m);
}

/* ---- Estimates from R-trees alone ---- */

#define LEAVES_MAX 5000u

/* Opens an array of one dimension and one fragment, of which there is only the R-tree: tile t has the keys ends[2t] to
 * ends[2t + 1], which are values of the datatype, and `cells` cells; the last one has `last`. */
static void open_leaves(made_array *m, tsr_datatype datatype, const double *ends, uint64_t tiles, uint64_t cells,
                        uint64_t last) {
  made_open(m, false, 1, false, 0, 9, NULL);
  tsr_field *x = &m->fields[0];
  x->datatype = datatype;
  x->cell_size = (uint32_t)tsr_datatype_size(datatype);
  m->schema.allows_duplicates = true;
  tsr_fragment *f = made_fragment(m, 1, 1, tiles, false, false, false);
  f->cells_per_tile = cells;
  f->metadata.last_tile_cells = last;
  uint64_t *keys = made_array_of(f, TSR_MAX(tiles, 1) * 2, 8);
  for (uint64_t i = 0; i < 2 * tiles; i++) {
    const float f32 = (float)ends[i];
    const int64_t integer = datatype == TSR_INT64 ? (int64_t)ends[i] : 0;
    const void *value = datatype == TSR_FLOAT32   ? (const void *)&f32
                        : datatype == TSR_FLOAT64 ? (const void *)&ends[i]
                                                  : (const void *)&integer;
    keys[i] = tsr__key(datatype, value);
    if (i == 0) memcpy(f->metadata.non_empty_domain[0].low, value, x->cell_size);
    if (i + 1 == 2 * tiles) memcpy(f->metadata.non_empty_domain[0].high, value, x->cell_size);
  }
  f->metadata.rtree = made_array_of(f, 1, sizeof(tsr_rtree));
  assert_int_equal(tsr__rtree_build(&m->schema, tiles, keys, NULL, NULL, &f->metadata.arena, f->metadata.rtree, NULL),
                   TSR_OK);
}

static double estimate_between(made_array *m, const void *low, const void *high, tsr_estimate *e) {
  const tsr_range range = {.low = low, .high = high};
  return estimate_rows(m, &(tsr_ranges){.ranges = &range, .count = 1}, e);
}

/* 5,000 tiles of ten integers: more nodes than the estimate looks at. */
static void test_estimates_go_down_an_r_tree(void **state) {
  (void)state;
  static double ends[2 * LEAVES_MAX];
  made_array m;
  tsr_estimate e;
  for (int i = 0; i < (int)LEAVES_MAX; i++) {
    ends[2 * i] = 10 * i;
    ends[2 * i + 1] = 10 * i + 9;
  }
  open_leaves(&m, TSR_INT64, ends, LEAVES_MAX, 10, 4);
  for (int64_t low = 0; low < 50000; low += 4999) {
    for (int64_t size = 1; low + size <= 49990; size *= 7) {
      const int64_t high = low + size - 1;
      assert_true(near(estimate_between(&m, &low, &high, &e), (double)size, 0.001));
      assert_true(e.tiles == (double)(high / 10 - low / 10 + 1) && e.fragments == 1);
      assert_true(e.cells == e.tiles * 10 && e.written == e.rows);
    }
  }
  /* The last tile has fewer cells, whether it is met alone or with all others. */
  const int64_t from = 49990, to = 49999, first = 0;
  assert_true(estimate_between(&m, &from, &to, &e) == 4 && e.cells == 4 && e.tiles == 1);
  assert_true(estimate_between(&m, &first, &to, &e) == 49994 && e.tiles == 5000);
  assert_true(estimate_rows(&m, NULL, &e) == 49994 && e.tiles == 5000 && e.cells == 49994);
  /* Every 50th value: in half of the tiles, and more tiles than are looked at on each level. */
  static int64_t values[1000];
  static tsr_range ranges[1000];
  for (int i = 0; i < 1000; i++) {
    values[i] = 50 * i + 3;
    ranges[i] = (tsr_range){.low = &values[i], .high = &values[i]};
  }
  assert_true(near(estimate_rows(&m, &(tsr_ranges){.ranges = ranges, .count = 1000}, &e), 1000, 0.15));
  assert_true(near(e.tiles, 1000, 0.15));
  /* Without duplicates there are no more rows than coordinates: up to 256 ranges are counted. */
  m.schema.allows_duplicates = false;
  assert_true(estimate_rows(&m, &(tsr_ranges){.ranges = ranges, .count = 3}, &e) == 3);
  made_close(&m);
}

/* Few tiles, each of which many ranges cut: the first ranges stand for the others. */
static void test_estimates_of_many_ranges_in_a_tile(void **state) {
  (void)state;
  const double ends[] = {0, 24999, 25000, 49999};
  static int64_t low[400], high[400];
  static tsr_range ranges[400];
  made_array m;
  tsr_estimate e;
  open_leaves(&m, TSR_INT64, ends, 2, 1000, 1000);
  for (int i = 0; i < 400; i++) {
    low[i] = 100 * i;
    high[i] = low[i] + 9;
    ranges[i] = (tsr_range){.low = &low[i], .high = &high[i]};
  }
  assert_true(near(estimate_rows(&m, &(tsr_ranges){.ranges = ranges, .count = 400}, &e), 200, 0.03)); /* 100 each */
  assert_true(near(estimate_rows(&m, &(tsr_ranges){.ranges = ranges, .count = 64}, &e), 25.6, 0.001));
  assert_true(
      near(estimate_rows(&m, &(tsr_ranges){.ranges = ranges, .count = 65}, &e), 100, 0.03)); /* so on to the end */
  assert_true(near(estimate_rows(&m, &(tsr_ranges){.ranges = ranges + 250, .count = 1}, &e), 0.4, 0.001));
  made_close(&m);
}

static void test_estimates_of_floats(void **state) {
  (void)state;
  const tsr_datatype datatypes[] = {TSR_FLOAT64, TSR_FLOAT32};
  static double ends[200];
  for (int i = 0; i < 100; i++) {
    ends[2 * i] = i;
    ends[2 * i + 1] = i + 0.5;
  }
  for (int k = 0; k < 2; k++) {
    made_array m;
    tsr_estimate e;
    double d[2] = {10.25, 20.125};
    float f[2] = {10.25f, 20.125f};
    const void *low = k ? (const void *)&f[0] : &d[0], *high = k ? (const void *)&f[1] : &d[1];
    open_leaves(&m, datatypes[k], ends, 100, 100, 100);
    assert_true(near(estimate_between(&m, low, high, &e), 50 + 900 + 25, 1e-9));
    assert_true(e.tiles == 11);
    f[1] = f[0];
    d[1] = d[0];
    assert_true(near(estimate_between(&m, low, high, &e), 1, 1e-9)); /* however narrow: one cell */
    m.schema.allows_duplicates = false;
    assert_true(estimate_between(&m, low, high, &e) == 1);
    d[1] = f[1] = 10.375;
    assert_true(near(estimate_between(&m, low, high, &e), 25, 1e-9)); /* no number of coordinates limits it */
    made_close(&m);
    const double whole[2] = {-INFINITY, INFINITY};
    open_leaves(&m, datatypes[k], whole, 1, 100, 100);
    assert_true(estimate_between(&m, low, high, &e) == 100); /* nothing is known of where they are */
    made_close(&m);
  }
}

static void test_estimates_of_coordinates_that_are_counted(void **state) {
  (void)state;
  static made_cell cells[8];
  made_array m;
  tsr_estimate e;
  made_open(&m, false, 1, true, 0, 9, NULL);
  for (int i = 0; i < 8; i++) cells[i] = (made_cell){.text = "same", .value = i};
  made_sparse(&m, 1, 1, cells, 8, false, false);
  made_sparse(&m, 2, 2, cells, 8, false, false);
  tsr_range r = {.low = "same", .low_size = 4, .high = "same", .high_size = 4};
  const tsr_ranges ranges[1] = {{.ranges = &r, .count = 1}};
  assert_true(estimate_rows(&m, ranges, &e) == 1);
  m.schema.allows_duplicates = true;
  assert_true(estimate_rows(&m, ranges, &e) == 16);
  m.schema.allows_duplicates = false;
  r.high = "samf"; /* more than one string */
  assert_true(estimate_rows(&m, ranges, &e) == 16);
  r = (tsr_range){.low = "same", .low_size = 4};
  assert_true(estimate_rows(&m, ranges, &e) == 16);
  m.fragments[1].fragment->metadata.empty_domain = true;
  assert_true(estimate_rows(&m, ranges, &e) == 8 && e.fragments == 1);
  m.fragments[0].fragment->metadata.tile_count = 0;
  assert_true(estimate_rows(&m, NULL, &e) == 0);
  made_close(&m);
}

/* Strings are spread by the bytes that follow what all strings of a tile begin with. */
static void test_estimates_of_strings_within_a_tile(void **state) {
  (void)state;
  static made_cell cells[100];
  static char texts[200][4];
  static tsr_range ranges[100];
  made_array m;
  tsr_estimate e;
  made_open(&m, false, 1, true, 0, 9, NULL);
  m.schema.capacity = 100;
  m.schema.allows_duplicates = true;
  for (int i = 0; i < 100; i++) {
    cells[i].value = i;
    snprintf(cells[i].text, 8, "p%c", 'A' + i / 2);
  }
  made_sparse(&m, 1, 1, cells, 100, false, false); /* pA to pr */
  static const struct {
    const char *low, *high; /* high NULL: open */
    double rows;
  } cases[] = {{"pA", "pr", 100}, {"p", "q", 100}, {"pA", "pY", 49},   {"pZ", NULL, 49},
               {"pZ", "zz", 49},  {"pr", NULL, 1}, {"pN", "pZ", 24.5}, {"", "pY", 49},
               {"pb", "pb", 1},   {"q", NULL, 0},  {"", "p", 0},       {"pq\x80", NULL, 1.02}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const tsr_range r = {.low = cases[i].low,
                         .low_size = strlen(cases[i].low),
                         .high = cases[i].high,
                         .high_size = cases[i].high ? strlen(cases[i].high) : 0};
    const double rows = estimate_rows(&m, &(tsr_ranges){.ranges = &r, .count = 1}, &e);
    if (!near(rows, cases[i].rows, 0.01)) fail_msg("case %d: %g", (int)i, rows);
  }
  for (int i = 0; i < 100; i++) strcpy(cells[i].text, i ? "pzz" : "p"); /* the ends may differ in size */
  made_close(&m);
  made_open(&m, false, 1, true, 0, 9, NULL);
  m.schema.capacity = 100;
  m.schema.allows_duplicates = true;
  made_sparse(&m, 1, 1, cells, 100, false, false);
  const tsr_range half = {.low = "p", .low_size = 1, .high = "p=", .high_size = 2};
  assert_true(near(estimate_rows(&m, &(tsr_ranges){.ranges = &half, .count = 1}, &e), 100 * 61 / 122.5, 0.01));
  made_close(&m);
  made_open(&m, false, 1, true, 0, 9, NULL);
  m.schema.capacity = 100;
  m.schema.allows_duplicates = true;
  for (int i = 0; i < 100; i++) snprintf(cells[i].text, 8, "p%c", 'A' + i / 2);
  made_sparse(&m, 1, 1, cells, 100, false, false);
  /* Ranges before the tile do not count, nor more than 64 of them. */
  for (int i = 0; i < 100; i++) {
    snprintf(texts[i], 4, i < 20 ? "a%c" : "p%c", (char)(i < 20 ? 'a' + i : 'A' + (i - 20) / 2));
    if (i >= 20 && i % 2) strcat(texts[i], "m");
    ranges[i] =
        (tsr_range){.low = texts[i], .low_size = strlen(texts[i]), .high = texts[i], .high_size = strlen(texts[i])};
  }
  assert_true(near(estimate_rows(&m, &(tsr_ranges){.ranges = ranges, .count = 20}, &e) + 1, 1, 0.01));
  assert_true(near(estimate_rows(&m, &(tsr_ranges){.ranges = ranges, .count = 30}, &e), 10, 0.01));
  assert_true(near(estimate_rows(&m, &(tsr_ranges){.ranges = ranges, .count = 100}, &e), 64, 0.01));
  made_close(&m);
}

static int32_t zero(uint64_t start, const uint64_t *ordinals) { return 0; }

static void test_a_dense_plan_has_the_boxes_that_meet_the_request(void **state) {
  (void)state;
  made_array m;
  tsr_arena arena;
  tsr_plan plan;
  tsr_estimate e;
  const int32_t extents[2] = {10, 7}; /* 7 does not divide 40: the last tiles overhang */
  const uint64_t low[3] = {0, 0}, high[3] = {39, 39}, part_low[3] = {20, 30}, part_high[3] = {29, 39};
  made_open(&m, true, 2, false, -20, 19, extents);
  made_finish_grid(&m);
  m.snapshot.domain.exists = false;
  assert_true(estimate_rows(&m, NULL, &e) == 0);
  made_dense(&m, 1, low, high, zero);
  made_dense(&m, 2, part_low, part_high, zero);
  made_finish_dense(&m);
  assert_true(estimate_rows(&m, NULL, &e) == 1600);
  assert_true(e.tiles == 4 * 6 + 1 * 2 && e.cells == 26 * 70 && e.fragments == 2);

  const int32_t x[4] = {-30, -19, 5, 5}, y[2] = {12, 100};
  const tsr_range xs[2] = {between(&x[2], &x[3]), between(&x[0], &x[1])}, ys = between(&y[0], &y[1]);
  const tsr_ranges ranges[2] = {{.ranges = xs, .count = 2}, {.ranges = &ys, .count = 1}};
  assert_true(estimate_rows(&m, ranges, &e) == 3 * 8);
  assert_true(e.tiles == 2 * 2 + 1 * 2);
  tsr__arena_init(&arena, &m.array.memory);
  assert_int_equal(tsr__plan_make(&m.snapshot, ranges, &arena, &plan, NULL), TSR_OK);
  assert_int_equal(plan.box_count, 2);
  assert_int_equal(plan.selections[0].count, 2);
  assert_int_equal(plan.selections[0].spans[0].low, 0);
  assert_int_equal(plan.selections[0].spans[0].high, 1);
  assert_int_equal(plan.selections[0].spans[1].low, 25);
  assert_int_equal(plan.selections[1].spans[0].low, 32);
  assert_int_equal(plan.selections[1].spans[0].high, 39);
  /* A box that the request misses in its first dimension alone. */
  const tsr_ranges beside[2] = {{.ranges = &xs[1], .count = 1}, {.ranges = &ys, .count = 1}};
  assert_int_equal(tsr__plan_make(&m.snapshot, beside, &arena, &plan, NULL), TSR_OK);
  assert_int_equal(plan.box_count, 1);
  /* A box that covers all selected cells hides older ones. */
  const int32_t in[2] = {5, 12};
  const tsr_range a = between(&in[0], &in[0]), b = between(&in[1], &in[1]);
  const int32_t box_x[2] = {0, 9}, box_y[2] = {10, 19};
  const tsr_range whole_x = between(&box_x[0], &box_x[1]), whole_y = between(&box_y[0], &box_y[1]);
  const tsr_ranges whole_box[2] = {{.ranges = &whole_x, .count = 1}, {.ranges = &whole_y, .count = 1}};
  assert_true(estimate_rows(&m, whole_box, &e) == 100 && e.fragments == 1);
  const tsr_ranges point[2] = {{.ranges = &a, .count = 1}, {.ranges = &b, .count = 1}};
  assert_true(estimate_rows(&m, point, &e) == 1);
  assert_true(e.tiles == 1 && e.fragments == 1);
  tsr__arena_release(&arena);
  made_close(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values_and_tiles_of_selections_are_counted),
      cmocka_unit_test(test_a_sparse_plan_has_the_tiles_that_meet_the_request),
      cmocka_unit_test(test_estimates_of_sparse_arrays_are_near_the_truth),
      cmocka_unit_test(test_estimates_of_string_ranges_are_near_the_truth),
      cmocka_unit_test(test_estimates_go_down_an_r_tree),
      cmocka_unit_test(test_estimates_of_many_ranges_in_a_tile),
      cmocka_unit_test(test_estimates_of_floats),
      cmocka_unit_test(test_estimates_of_coordinates_that_are_counted),
      cmocka_unit_test(test_estimates_of_strings_within_a_tile),
      cmocka_unit_test(test_a_dense_plan_has_the_boxes_that_meet_the_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
