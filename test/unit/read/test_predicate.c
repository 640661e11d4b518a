/* Tests of predicates on attributes: which statistics are trusted, case by case; columns of each kind; reads of random
 * arrays with statistics, compared with the same reads without predicates. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/datatype.h"
#include "array/array.h"
#include "environment/environment.h"
#include "read/reader.h"
#include "made_array.h"

/* ---- Statistics of a tile ---- */
typedef struct tile_statistics { /* of one attribute, and one tile */
  tsr_field field;
  tsr_schema schema;
  tsr_fragment_metadata metadata;
  tsr_statistics statistics;
  uint64_t min_offsets[2], max_offsets[2], sum, nulls;
  tsr_environment *environment;
  tsr_memory memory;
  tsr_arena arena;
} tile_statistics;

static void tell(tile_statistics *t, tsr_datatype datatype, uint32_t values, bool nullable, bool dense,
                 uint32_t version) {
  memset(t, 0, sizeof *t);
  t->field = (tsr_field){.name = "a", .datatype = datatype, .values_per_cell = values, .nullable = nullable};
  t->field.cell_size = values == TSR_VARIABLE ? 0 : values * tsr_datatype_size(datatype);
  t->schema = (tsr_schema){.fields = &t->field, .attribute_count = 1, .version = version};
  t->metadata = (tsr_fragment_metadata){.version = version, .schema = &t->schema, .dense = dense, .tile_count = 1};
  t->statistics = (tsr_statistics){.count = 1, .value_size = t->field.cell_size, .sums = &t->sum};
  if (nullable) t->statistics.null_counts = &t->nulls;
  assert_int_equal(tsr_environment_open(NULL, &t->environment, NULL), TSR_OK);
  tsr__memory_init(&t->memory, &t->environment->memory, UINT64_MAX, "test");
  tsr__arena_init(&t->arena, &t->memory);
}

static void done(tile_statistics *t) {
  tsr__arena_release(&t->arena);
  tsr_environment_close(t->environment);
}

static void bounds(tile_statistics *t, const void *min, uint64_t min_size, const void *max, uint64_t max_size) {
  t->statistics.min = min;
  t->statistics.max = max;
  t->min_offsets[1] = min_size;
  t->max_offsets[1] = max_size;
  t->statistics.min_offsets = t->min_offsets;
  t->statistics.max_offsets = t->max_offsets;
}

static bool excludes(tile_statistics *t, tsr_predicate_kind kind, const void *low, uint64_t low_size, const void *high,
                     uint64_t high_size) {
  const tsr_range range = {.low = low, .high = high, .low_size = low_size, .high_size = high_size};
  const tsr_ranges ranges = {.ranges = &range, .count = 1};
  tsr_typed_predicate test = {.kind = kind, .nan = tsr_datatype_kind(t->field.datatype) == TSR_KIND_FLOAT};
  test.nat = tsr_datatype_kind(t->field.datatype) == TSR_KIND_DATETIME;
  tsr_field plain = t->field;
  if (tsr_datatype_kind(plain.datatype) == TSR_KIND_TEXT) plain.values_per_cell = TSR_VARIABLE;
  if (kind == TSR_PREDICATE_WITHIN)
    assert_int_equal(tsr__spans_make(&plain, &ranges, &t->arena, &test.spans, NULL), TSR_OK);
  return tsr__statistics_trusted(&t->metadata, 0) && tsr__predicate_excludes(&test, &t->field, &t->statistics, 0, 10);
}

static bool excludes_int(tile_statistics *t, int32_t low, int32_t high) {
  return excludes(t, TSR_PREDICATE_WITHIN, &low, 0, &high, 0);
}

static void test_bounds_of_integers_exclude_tiles(void **state) {
  (void)state;
  tile_statistics t;
  const int32_t min = 10, max = 20;
  for (uint32_t version = 10; version <= 22; version++) {
    tell(&t, TSR_INT32, 1, false, version % 2 == 0, version);
    bounds(&t, &min, 4, &max, 4);
    assert_int_equal(excludes_int(&t, 21, 30), version >= 11);
    assert_int_equal(excludes_int(&t, -5, 9), version >= 11);
    assert_false(excludes_int(&t, 20, 30));
    assert_false(excludes_int(&t, -5, 10));
    assert_false(excludes_int(&t, 15, 15));
    t.statistics.min = NULL;
    assert_false(excludes_int(&t, 21, 30));
    done(&t);
  }
  tell(&t, TSR_INT32, 2, false, true, 22); /* several values per cell: never trusted */
  bounds(&t, &min, 4, &max, 4);
  assert_false(tsr__statistics_trusted(&t.metadata, 0));
  t.field.values_per_cell = TSR_VARIABLE;
  assert_false(tsr__statistics_trusted(&t.metadata, 0));
  t.field.values_per_cell = 1;
  assert_true(tsr__statistics_trusted(&t.metadata, 0));
  tsr_filter scale = {.type = TSR_FILTER_SCALE_FLOAT}; /* lossy: rounds the values that the statistics are of */
  t.field.filters = (tsr_pipeline){.count = 1, .filters = &scale};
  assert_false(tsr__statistics_trusted(&t.metadata, 0));
  done(&t);
}

/* What lies behind the statistics is none of them: such a tile is read. */
static void test_a_tile_without_statistics_is_not_excluded(void **state) {
  tile_statistics t;
  static const int32_t values[] = {1, 1}, wanted = 9;
  tell(&t, TSR_INT32, 1, false, false, 22);
  bounds(&t, values, 0, values, 0);
  const tsr_range range = {.low = &wanted, .high = &wanted};
  const tsr_ranges ranges = {.ranges = &range, .count = 1};
  tsr_typed_predicate test = {.kind = TSR_PREDICATE_WITHIN};
  assert_int_equal(tsr__spans_make(&t.field, &ranges, &t.arena, &test.spans, NULL), TSR_OK);
  assert_true(tsr__predicate_excludes(&test, &t.field, &t.statistics, 0, 10));
  assert_false(tsr__predicate_excludes(&test, &t.field, &t.statistics, 1, 10));
  done(&t);
}

static void test_null_counts_exclude_tiles(void **state) {
  (void)state;
  tile_statistics t;
  const int32_t min = 0, max = 0;
  tell(&t, TSR_INT32, 1, true, false, 22);
  bounds(&t, &min, 4, &max, 4);
  t.nulls = 10; /* all cells are null: TileDB writes zeros as bounds */
  assert_true(excludes_int(&t, 0, 0));
  assert_true(excludes(&t, TSR_PREDICATE_NOT_NULL, NULL, 0, NULL, 0));
  assert_false(excludes(&t, TSR_PREDICATE_IS_NULL, NULL, 0, NULL, 0));
  t.nulls = 9;
  assert_false(excludes_int(&t, 0, 0));
  assert_false(excludes(&t, TSR_PREDICATE_NOT_NULL, NULL, 0, NULL, 0));
  assert_false(excludes(&t, TSR_PREDICATE_IS_NULL, NULL, 0, NULL, 0));
  t.nulls = 0;
  assert_true(excludes(&t, TSR_PREDICATE_IS_NULL, NULL, 0, NULL, 0));
  t.statistics.null_counts = NULL;
  assert_false(excludes(&t, TSR_PREDICATE_IS_NULL, NULL, 0, NULL, 0));
  done(&t);
  const int64_t nat = INT64_MIN, day = 5;
  tell(&t, TSR_DATETIME_DAY, 1, false, false, 22);
  bounds(&t, &nat, 8, &day, 8);
  assert_false(excludes(&t, TSR_PREDICATE_IS_NULL, NULL, 0, NULL, 0));
  bounds(&t, &day, 8, &day, 8);
  assert_true(excludes(&t, TSR_PREDICATE_IS_NULL, NULL, 0, NULL, 0));
  done(&t);
}

static void set_sum(tile_statistics *t, double sum) { memcpy(&t->sum, &sum, sizeof sum); }

static void test_bounds_of_floats_are_trusted_if_the_sum_is_plain(void **state) {
  (void)state;
  tile_statistics t;
  const double min = 5, max = 5, low = 1, high = 1;
  tell(&t, TSR_FLOAT64, 1, false, true, 22);
  bounds(&t, &min, 8, &max, 8); /* the bounds that TileDB writes for [1, NaN, 5] */
  set_sum(&t, NAN);
  assert_false(excludes(&t, TSR_PREDICATE_WITHIN, &low, 0, &high, 0));
  assert_false(excludes(&t, TSR_PREDICATE_IS_NULL, NULL, 0, NULL, 0));
  set_sum(&t, DBL_MAX); /* the sum that TileDB writes for [infinity, NaN, 1] */
  assert_false(excludes(&t, TSR_PREDICATE_WITHIN, &low, 0, &high, 0));
  set_sum(&t, -1e300);
  assert_false(excludes(&t, TSR_PREDICATE_WITHIN, &low, 0, &high, 0));
  set_sum(&t, INFINITY);
  assert_false(excludes(&t, TSR_PREDICATE_IS_NULL, NULL, 0, NULL, 0));
  set_sum(&t, 50);
  assert_true(excludes(&t, TSR_PREDICATE_WITHIN, &low, 0, &high, 0));
  assert_true(excludes(&t, TSR_PREDICATE_IS_NULL, NULL, 0, NULL, 0));
  t.statistics.sums = NULL;
  assert_false(excludes(&t, TSR_PREDICATE_WITHIN, &low, 0, &high, 0));
  done(&t);
  const float nan = NAN, one = 1, two = 2; /* a NaN bound is not trusted, also beside a sum that is a number */
  tell(&t, TSR_FLOAT32, 1, false, true, 22);
  bounds(&t, &one, 4, &nan, 4);
  assert_false(excludes(&t, TSR_PREDICATE_WITHIN, &two, 0, &two, 0));
  done(&t);
}

/* Values whose sum looks right although a NaN has reset the bounds. */
static void test_float_sums_that_look_right_are_not_trusted_with_huge_bounds(void **state) {
  (void)state;
  tile_statistics t;
  const double low = 1, high = 1, five = 5, huge = -1e295;
  tell(&t, TSR_FLOAT64, 1, true, false, 22);
  bounds(&t, &huge, 8, &five, 8); /* the sum stuck at the top and hid a NaN, then later values brought it down again */
  set_sum(&t, 0);
  assert_false(excludes(&t, TSR_PREDICATE_IS_NULL, NULL, 0, NULL, 0));
  assert_false(excludes(&t, TSR_PREDICATE_WITHIN, (double[]){6}, 0, (double[]){7}, 0));
  bounds(&t, &five, 8, &five, 8);
  assert_true(excludes(&t, TSR_PREDICATE_WITHIN, &low, 0, &high, 0));
  assert_true(excludes(&t, TSR_PREDICATE_IS_NULL, NULL, 0, NULL, 0)); /* null count 0, and a sum without NaN */
  t.nulls = 1;
  assert_false(excludes(&t, TSR_PREDICATE_IS_NULL, NULL, 0, NULL, 0));
  t.nulls = 0;
  set_sum(&t, NAN); /* null count 0, but NaNs are nulls */
  assert_false(excludes(&t, TSR_PREDICATE_IS_NULL, NULL, 0, NULL, 0));
  assert_false(excludes(&t, TSR_PREDICATE_NOT_NULL, NULL, 0, NULL, 0));
  t.nulls = 10;
  assert_true(excludes(&t, TSR_PREDICATE_NOT_NULL, NULL, 0, NULL, 0));
  done(&t);
  const float f = 5, one = 1;
  tell(&t, TSR_FLOAT32, 1, false, false, 22);
  bounds(&t, &f, 4, &f, 4);
  set_sum(&t, NAN);
  assert_false(excludes(&t, TSR_PREDICATE_WITHIN, &one, 0, &one, 0));
  set_sum(&t, 10);
  assert_true(excludes(&t, TSR_PREDICATE_WITHIN, &one, 0, &one, 0));
  done(&t);
}

static bool excludes_negated(tile_statistics *t, int32_t low, int32_t high) {
  const tsr_range range = {.low = &low, .high = &high};
  tsr_typed_predicate test = {.kind = TSR_PREDICATE_WITHIN, .negated = true};
  assert_int_equal(
      tsr__spans_make(&t->field, &(tsr_ranges){.ranges = &range, .count = 1}, &t->arena, &test.spans, NULL), TSR_OK);
  return tsr__predicate_excludes(&test, &t->field, &t->statistics, 0, 10);
}

static void test_negated_tests_exclude_tiles_that_lie_within(void **state) {
  (void)state;
  tile_statistics t;
  const int32_t min = 4, max = 6;
  tell(&t, TSR_INT32, 1, true, false, 22);
  bounds(&t, &min, 4, &max, 4);
  assert_true(excludes_negated(&t, 4, 6)); /* all cells lie within the range, none is null */
  assert_false(excludes_negated(&t, 4, 5));
  assert_false(excludes_negated(&t, 7, 9));
  t.nulls = 1;
  assert_false(excludes_negated(&t, 4, 6));
  t.nulls = 10; /* all cells are null: the bounds mean nothing */
  assert_false(excludes_negated(&t, 4, 6));
  done(&t);
}

static bool excludes_text(tile_statistics *t, const char *low, uint64_t low_size, const char *high,
                          uint64_t high_size) {
  return excludes(t, TSR_PREDICATE_WITHIN, low, low_size, high, high_size);
}

static void test_bounds_of_strings_end_at_the_first_NUL(void **state) {
  (void)state;
  tile_statistics t;
  tell(&t, TSR_ASCII, TSR_VARIABLE, false, false, 22);
  bounds(&t, "bb", 2, "dd", 2);
  assert_true(excludes_text(&t, "a", 1, "az", 2));
  assert_true(excludes_text(&t, "e", 1, NULL, 0));
  assert_false(excludes_text(&t, "cc", 2, "cc", 2));
  assert_false(excludes_text(&t, "dd", 2, "dd", 2));
  assert_false(excludes_text(&t, "dd\0z", 4, "dd\0z", 4)); /* TileDB compares nothing after a NUL */
  assert_true(excludes_text(&t, "dd!", 3, "dd!", 3));
  bounds(&t, "bb\0x", 4, "dd", 2);
  assert_false(excludes_text(&t, "bb\0a", 4, "bb\0a", 4));
  bounds(&t, "", 0, "", 0); /* all cells are null, or the bounds are unknown */
  assert_false(excludes_text(&t, "x", 1, "x", 1));
  char longest[400];
  memset(longest, 'q', sizeof longest);
  bounds(&t, "bb", 2, longest, sizeof longest);
  assert_false(excludes_text(&t, longest, sizeof longest, longest, sizeof longest));
  assert_true(excludes_text(&t, "r", 1, "s", 1));
  memset(longest, 0xFF, sizeof longest);
  assert_false(excludes_text(&t, longest, sizeof longest, longest, sizeof longest));
  done(&t);
  static const struct {
    tsr_datatype datatype;
    uint32_t values;
    bool nullable, dense;
    uint32_t version;
    bool believed;
  } cases[] = {{TSR_ASCII, TSR_VARIABLE, false, false, 18, true},
               {TSR_ASCII, TSR_VARIABLE, false, false, 17, false},
               {TSR_CHAR, TSR_VARIABLE, true, false, 22, true},
               {TSR_CHAR, TSR_VARIABLE, true, true, 22, false},
               {TSR_CHAR, TSR_VARIABLE, false, true, 22, false},
               {TSR_CHAR, 3, true, true, 20, false},
               {TSR_CHAR, 3, true, true, 21, true},
               {TSR_CHAR, 3, false, true, 20, true},
               {TSR_CHAR, 3, true, false, 20, true},
               {TSR_UTF8, TSR_VARIABLE, false, false, 22, false},
               {TSR_UTF8, 1, false, false, 22, false},
               {TSR_BLOB, TSR_VARIABLE, false, false, 22, false},
               {TSR_UTF16, TSR_VARIABLE, false, false, 22, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tell(&t, cases[i].datatype, cases[i].values, cases[i].nullable, cases[i].dense, cases[i].version);
    assert_int_equal(tsr__statistics_trusted(&t.metadata, 0), cases[i].believed);
    done(&t);
  }
}

/* ---- Tiles and fragments of a reader ---- */
static tsr_statistics own_statistics[2];

/* Returns 1 if the tile is excluded, 2 if the fragment (of two tiles) is, 3 if both are. */
static int excluded(tile_statistics *t, const tsr_typed_predicate *made) {
  tsr_slot slots[2] = {{.present = true, .statistics = &t->statistics}};
  tsr_fragment fragment = {.metadata = t->metadata};
  int64_t numbers[1] = {0};
  tsr_snapshot_fragment one = {.fragment = &fragment, .slots = numbers};
  tsr_snapshot snapshot = {.schema = &t->schema, .fragments = &one, .fragment_count = 1};
  tsr_array array = {.environment = t->environment};
  tsr_column fill = {.constant = true, .unwritten = true};
  tsr_typed_predicate test = *made;
  tsr_reader reader = {.snapshot = &snapshot, .predicates = {.count = 1, .list = &test}, .columns = {.fills = &fill}};
  snapshot.array = &array;
  fragment.metadata.slots = slots;
  fragment.metadata.slot_count = 2;
  fragment.metadata.tile_count = 2;
  fragment.metadata.own_statistics = own_statistics;
  fragment.metadata.last_tile_cells = 10;
  t->statistics.count = 2;
  own_statistics[0] = t->statistics;
  own_statistics[0].count = 1;
  const int tile = tsr__predicates_exclude(&reader, 0, 0, NULL),
            whole = tsr__predicates_exclude_fragment(&reader, 0, NULL);
  assert_true(tile >= 0 && whole >= 0);
  numbers[0] = -1; /* an attribute that the fragment lacks is null */
  assert_int_equal(tsr__predicates_exclude(&reader, 0, 0, NULL), test.kind != TSR_PREDICATE_IS_NULL);
  assert_int_equal(tsr__predicates_exclude_fragment(&reader, 0, NULL), test.kind != TSR_PREDICATE_IS_NULL);
  return tile + 2 * whole;
}

static void test_tests_for_nulls_know_NaN_NaT_and_missing_attributes(void **state) {
  (void)state;
  tile_statistics t;
  const int32_t i[2] = {1, 1};
  tell(&t, TSR_INT32, 1, false, false, 22);
  bounds(&t, i, 4, i, 4);
  assert_int_equal(excluded(&t, &(tsr_typed_predicate){.kind = TSR_PREDICATE_IS_NULL}), 3);
  assert_int_equal(excluded(&t, &(tsr_typed_predicate){.kind = TSR_PREDICATE_NOT_NULL}), 0);
  done(&t);
  /* A float attribute that is not nullable may have NaN, which is null. */
  const double d[2] = {1, 1};
  uint64_t sums[2];
  tell(&t, TSR_FLOAT64, 1, false, false, 22);
  bounds(&t, d, 8, d, 8);
  t.statistics.sums = sums;
  memcpy(&sums[0], &(double){NAN}, 8);
  assert_int_equal(excluded(&t, &(tsr_typed_predicate){.kind = TSR_PREDICATE_IS_NULL, .nan = true}), 0);
  assert_int_equal(excluded(&t, &(tsr_typed_predicate){.kind = TSR_PREDICATE_NOT_NULL, .nan = true}), 0);
  memcpy(&sums[0], &(double){10},
         8); /* excludes the tile alone: the fragment's sum may be that of two sums that stuck */
  assert_int_equal(excluded(&t, &(tsr_typed_predicate){.kind = TSR_PREDICATE_IS_NULL, .nan = true}), 1);
  done(&t);
  /* A datetime attribute may have NaT. */
  const int64_t days[2] = {5, 5}, nats[2] = {INT64_MIN, INT64_MIN};
  tell(&t, TSR_DATETIME_DAY, 1, false, false, 22);
  bounds(&t, nats, 8, days, 8);
  assert_int_equal(excluded(&t, &(tsr_typed_predicate){.kind = TSR_PREDICATE_IS_NULL, .nat = true}), 0);
  bounds(&t, days, 8, days, 8);
  assert_int_equal(excluded(&t, &(tsr_typed_predicate){.kind = TSR_PREDICATE_IS_NULL, .nat = true}), 3);
  done(&t);
}

static int excluded_within(tile_statistics *t, const void *low, const void *high, bool nan) {
  const tsr_range range = {.low = low, .high = high, .low_size = 1, .high_size = 1};
  tsr_typed_predicate test = {.kind = TSR_PREDICATE_WITHIN, .nan = nan};
  tsr_field plain = t->field;
  if (tsr_datatype_kind(plain.datatype) == TSR_KIND_TEXT) plain.values_per_cell = TSR_VARIABLE;
  assert_int_equal(tsr__spans_make(&plain, &(tsr_ranges){.ranges = &range, .count = 1}, &t->arena, &test.spans, NULL),
                   TSR_OK);
  return excluded(t, &test);
}

static void test_statistics_of_whole_fragments_are_trusted_for_integers_and_times(void **state) {
  (void)state;
  tile_statistics t;
  const int32_t i[2] = {5, 5}, none[2] = {INT32_MAX, INT32_MIN};
  tell(&t, TSR_INT32, 1, false, false, 22);
  bounds(&t, i, 4, i, 4);
  assert_int_equal(excluded_within(&t, (int32_t[]){6}, (int32_t[]){7}, false), 3);
  assert_int_equal(excluded_within(&t, (int32_t[]){5}, (int32_t[]){7}, false), 0);
  bounds(&t, &none[0], 4, &none[1], 4); /* what TileDB writes if all tiles are null */
  assert_int_equal(excluded_within(&t, (int32_t[]){6}, (int32_t[]){7}, false), 0);
  done(&t);
  const double d[2] = {5, 5}; /* the sums of its tiles may be +DBL_MAX and -DBL_MAX, which add up to 0 */
  uint64_t sums[2] = {0};
  tell(&t, TSR_FLOAT64, 1, false, false, 22);
  bounds(&t, d, 8, d, 8);
  t.statistics.sums = sums;
  assert_int_equal(excluded_within(&t, (double[]){6}, (double[]){7}, true), 1);
  done(&t);
  tell(&t, TSR_CHAR, 1, true, false, 22); /* TileDB takes bounds of the wrong tiles if one is all null */
  bounds(&t, "mm", 1, "mm", 1);
  t.statistics.null_counts = (uint64_t[]){0, 0};
  assert_int_equal(excluded_within(&t, "a", "b", false), 1);
  done(&t);
}

/* ---- Columns ---- */
static void test_cells_of_each_kind_of_column_are_selected(void **state) {
  (void)state;
  const float values[6] = {1, NAN, 2, 3, -0.0f, 5};
  const uint8_t validity[6] = {1, 1, 0, 1, 1, 1};
  tsr_field field = {.name = "a", .datatype = TSR_FLOAT32, .values_per_cell = 1, .cell_size = 4, .nullable = true};
  tsr_schema schema = {.fields = &field, .attribute_count = 1};
  tsr_snapshot snapshot = {.schema = &schema};
  tsr_reader reader = {.snapshot = &snapshot};
  const tsr_column column = {.values = values, .validity = validity, .cell_size = 4};
  const uint32_t some[4] = {1, 2, 4, 5};
  uint32_t out[6];
  tsr_span span = {tsr__key(TSR_FLOAT32, &values[4]), tsr__key(TSR_FLOAT32, &values[3])};
  tsr_typed_predicate test = {.kind = TSR_PREDICATE_IS_NULL, .nan = true};
  assert_int_equal(tsr__predicate_select(&reader, &test, &column, NULL, 6, out), 2);
  assert_int_equal(out[0], 1);
  assert_int_equal(out[1], 2);
  test.kind = TSR_PREDICATE_NOT_NULL;
  assert_int_equal(tsr__predicate_select(&reader, &test, &column, some, 4, out), 2);
  assert_int_equal(out[0], 4);
  assert_int_equal(out[1], 5);
  test.nan = false; /* without nulls of any kind all indices are copied */
  assert_int_equal(tsr__predicate_select(&reader, &test, &(tsr_column){.values = values, .cell_size = 4}, some, 4, out),
                   4);
  assert_memory_equal(out, some, sizeof some);
  test = (tsr_typed_predicate){
      .kind = TSR_PREDICATE_WITHIN, .nan = true, .spans = {.floats = true, .count = 1, .spans = &span}};
  assert_int_equal(tsr__predicate_select(&reader, &test, &column, NULL, 6, out), 3); /* 1, 3, -0.0 */
  assert_int_equal(out[2], 4);
  const tsr_column unwritten = {.values = values, .cell_size = 4, .constant = true, .unwritten = true};
  assert_int_equal(tsr__predicate_select(&reader, &test, &unwritten, some, 4, out), 0);
  reader.predicates.fill_unwritten = true;
  assert_int_equal(tsr__predicate_select(&reader, &test, &unwritten, some, 4, out), 4);
  assert_memory_equal(out, some, sizeof some);
  test.negated = true; /* NaN, null, 5 */
  assert_int_equal(tsr__predicate_select(&reader, &test, &column, NULL, 6, out), 3);
  assert_int_equal(out[0], 1);
  assert_int_equal(out[1], 2);
  assert_int_equal(out[2], 5);
  memcpy(out, some, sizeof some);
  assert_int_equal(tsr__predicate_select(&reader, &test, &column, out, 4, out), 3);
  assert_int_equal(out[2], 5);
  assert_int_equal(tsr__predicate_select(&reader, &test, &unwritten, some, 4, out), 0);
  reader.predicates.fill_unwritten = false;
  assert_int_equal(tsr__predicate_select(&reader, &test, &unwritten, some, 4, out), 4);
}

/* With more cells than a block, and every pattern of cells that pass. */
static void test_negated_tests_select_the_other_cells(void **state) {
  (void)state;
  enum { CELLS = 2000 };
  static int32_t values[CELLS];
  static uint32_t within[CELLS], others[CELLS], some[CELLS];
  tsr_field field = {.name = "a", .datatype = TSR_INT32, .values_per_cell = 1, .cell_size = 4};
  tsr_schema schema = {.fields = &field, .attribute_count = 1};
  tsr_snapshot snapshot = {.schema = &schema};
  tsr_reader reader = {.snapshot = &snapshot};
  const int32_t low = 3, high = 6;
  tsr_span span = {tsr__key(TSR_INT32, &low), tsr__key(TSR_INT32, &high)};
  for (unsigned round = 0; round < 50; round++) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < CELLS; i++) {
      values[i] = (int32_t)made_random(10);
      if (made_random(3)) some[n++] = i;
    }
    const tsr_column column = {.values = values, .cell_size = 4};
    tsr_typed_predicate test = {.kind = TSR_PREDICATE_WITHIN, .spans = {.count = 1, .spans = &span}};
    const uint64_t a = tsr__predicate_select(&reader, &test, &column, some, n, within);
    test.negated = true;
    const uint64_t b = tsr__predicate_select(&reader, &test, &column, some, n, others);
    assert_int_equal(a + b, n);
    for (uint64_t i = 0, k = 0, m = 0; i < n; i++) {
      const bool in = values[some[i]] >= low && values[some[i]] <= high;
      assert_int_equal(in ? within[k++] : others[m++], some[i]);
    }
  }
}

/* ---- Reads of arrays ---- */
static void give_own_statistics(tsr_fragment *fragment, const int32_t *min, const int32_t *max, uint64_t tiles) {
  int32_t *both = made_array_of(fragment, 2, 4);
  both[0] = INT32_MAX, both[1] = INT32_MIN;
  for (uint64_t t = 0; t < tiles; t++) both[0] = TSR_MIN(both[0], min[t]), both[1] = TSR_MAX(both[1], max[t]);
  tsr_statistics *own = made_array_of(fragment, fragment->metadata.slot_count, sizeof *own);
  own[0] = (tsr_statistics){.count = 1, .value_size = 4};
  own[0].min = (const uint8_t *)&both[0], own[0].max = (const uint8_t *)&both[1];
  fragment->metadata.own_statistics = own;
}

static void give_statistics(made_array *m) {
  for (uint64_t f = 0; f < m->snapshot.fragment_count; f++) {
    tsr_fragment *fragment = m->fragments[f].fragment;
    uint64_t *sums;
    const tsr_statistics *s = made_statistics(m, fragment, &sums);
    fragment->metadata.slots[1].statistics = made_array_of(fragment, 1, sizeof *s);
    give_own_statistics(fragment, (const int32_t *)(const void *)s->min, (const int32_t *)(const void *)s->max,
                        s->count);
  }
}

static uint64_t fragments_skipped;

/* Reads with random predicates: `a` within a range or null, `s` null or not. Returns the number of skipped tiles. */
static uint64_t check_predicates(made_array *m, tsr_reader *reader, int32_t most) {
  static made_row all[5000], some[5000];
  const uint32_t n = m->schema.dimension_count;
  bool fields[MADE_DIMENSIONS + MADE_ATTRIBUTES] = {false};
  tsr_error error = {0};
  tsr_counters before, after;
  assert_int_equal(tsr_reader_start(reader, NULL, &error), TSR_OK);
  const int64_t total = made_read(reader, m, all, 5000, &error);
  assert_true(total >= 0);
  qsort(all, (size_t)total, sizeof all[0], made_by_rowid);
  tsr_environment_counters(m->environment, &before);
  for (unsigned round = 0; round < 8; round++) {
    const int32_t low = (int32_t)made_random((uint32_t)most) - 10,
                  high = low + (int32_t)made_random((uint32_t)most / 8 + 1);
    const tsr_range range = {.low = &low, .high = &high};
    tsr_predicate predicates[2] = {{.field = n}, {.field = n + 1}};
    const unsigned on_a = made_random(4), on_s = made_random(3);
    predicates[0].kind = on_a == 0 ? TSR_PREDICATE_IS_NULL : TSR_PREDICATE_WITHIN;
    predicates[0].ranges = (tsr_ranges){.ranges = &range, .count = 1};
    predicates[0].negated = made_random(4) == 0;
    predicates[1].kind = on_s == 0 ? TSR_PREDICATE_IS_NULL : TSR_PREDICATE_NOT_NULL;
    fields[n] = made_random(2), fields[n + 1] = made_random(2), fields[0] = made_random(2);
    const tsr_request ask = {.fields = fields,
                             .predicates = predicates,
                             .predicate_count = on_s == 2 ? 1 : 2,
                             .fill_unwritten = made_random(2),
                             .limit = made_random(2) * 5};
    assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
    const int64_t count = made_read(reader, m, some, 5000, &error);
    assert_true(count >= 0);
    qsort(some, (size_t)count, sizeof some[0], made_by_rowid);
    int64_t at = 0;
    for (int64_t i = 0; i < total; i++) {
      const made_row *row = &all[i];
      const bool a_null = !row->written && !ask.fill_unwritten;
      bool in = on_a == 0 ? a_null : !a_null && row->cell.value >= low && row->cell.value <= high;
      if (predicates[0].negated) in = !in;
      const bool s_null = row->written ? made_null(row->cell.value) : true;
      if (on_s != 2) in = in && s_null == (on_s == 0);
      if (!in) continue;
      assert_true(at < count);
      assert_int_equal(some[at].rowid, row->rowid);
      assert_int_equal(some[at].cell.value, row->cell.value);
      assert_memory_equal(some[at].cell.at, row->cell.at, sizeof row->cell.at);
      at++;
    }
    assert_int_equal(at, count);
  }
  tsr_environment_counters(m->environment, &after);
  fragments_skipped += after.fragments_skipped - before.fragments_skipped;
  return after.tiles_skipped_by_value - before.tiles_skipped_by_value;
}

static void test_dense_reads_with_predicates_give_the_same_rows(void **state) {
  (void)state;
  uint64_t skipped = 0;
  for (unsigned round = 0; round < 60; round++) {
    made_array m;
    made_random_dense(&m, 16, made_value);
    give_statistics(&m);
    tsr_reader *reader;
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    skipped += check_predicates(&m, reader, 800);
    tsr_reader_close(reader);
    made_close(&m);
  }
  assert_true(skipped > 100);
  assert_true(fragments_skipped > 10);
}

static void test_a_newer_version_that_fails_a_predicate_hides_the_older_one(void **state) {
  (void)state;
  uint64_t skipped = 0;
  fragments_skipped = 0;
  for (unsigned round = 0; round < 120; round++) {
    made_array m;
    made_open(&m, false, 2, false, 0, 63, NULL);
    m.schema.capacity = 4;
    m.schema.allows_duplicates = round % 4 == 3;
    made_random_sparse(&m, false, 2);
    give_statistics(&m);
    tsr_reader *reader;
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    skipped += check_predicates(&m, reader, 350);
    tsr_reader_close(reader);
    made_close(&m);
  }
  assert_true(skipped > 100);
  assert_true(fragments_skipped > 10);
}

static void test_predicates_that_make_no_sense_are_refused(void **state) {
  (void)state;
  made_array m;
  tsr_error error = {0};
  tsr_reader *reader;
  const made_cell cell = {.value = 1};
  made_open(&m, false, 1, false, 0, 9, NULL);
  made_sparse(&m, 1, 1, &cell, 1, false, false);
  assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
  tsr_predicate p = {.field = 0, .kind = TSR_PREDICATE_IS_NULL};
  const tsr_request ask = {.predicates = &p, .predicate_count = 1};
  assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_ERROR); /* a dimension */
  p.field = 3;
  assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_ERROR); /* no field */
  p = (tsr_predicate){.field = 1, .kind = TSR_PREDICATE_WITHIN}; /* no range: no cell lies within */
  assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
  const tsr_batch *batch;
  assert_int_equal(tsr_reader_next(reader, &batch, &error), 0);
  m.fields[1].values_per_cell = 2;
  assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_ERROR); /* several values per cell have no order */
  m.fields[1].values_per_cell = 1;
  tsr_reader_close(reader);
  made_close(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bounds_of_integers_exclude_tiles),
      cmocka_unit_test(test_a_tile_without_statistics_is_not_excluded),
      cmocka_unit_test(test_null_counts_exclude_tiles),
      cmocka_unit_test(test_bounds_of_floats_are_trusted_if_the_sum_is_plain),
      cmocka_unit_test(test_bounds_of_strings_end_at_the_first_NUL),
      cmocka_unit_test(test_float_sums_that_look_right_are_not_trusted_with_huge_bounds),
      cmocka_unit_test(test_negated_tests_exclude_tiles_that_lie_within),
      cmocka_unit_test(test_negated_tests_select_the_other_cells),
      cmocka_unit_test(test_statistics_of_whole_fragments_are_trusted_for_integers_and_times),
      cmocka_unit_test(test_tests_for_nulls_know_NaN_NaT_and_missing_attributes),
      cmocka_unit_test(test_cells_of_each_kind_of_column_are_selected),
      cmocka_unit_test(test_dense_reads_with_predicates_give_the_same_rows),
      cmocka_unit_test(test_a_newer_version_that_fails_a_predicate_hides_the_older_one),
      cmocka_unit_test(test_predicates_that_make_no_sense_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
