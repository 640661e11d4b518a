/* test_inspect.c: descriptions of fragments and tiles: cells without padding, boxes cut to the written cells, sizes,
 * statistics as they are stored; open ends; fragments and tiles that do not exist.
 */

#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "model/datatype.h"
#include "format/fragment_metadata.h"
#include "array/array.h"
#include "inside_test.h"

#define SPARSE "__1_1" U
#define DENSE  "__2_2" U
static tsr_array *array;
static tsr_snapshot *snapshot;

static void open_with(bool dense, uint32_t attributes, const tiny_attribute *list, const tiny_fragment *fragments) {
  tiny_schema(store, dense ? "__schema/" DENSE : "__schema/" SPARSE, dense, attributes, list);
  for (; fragments->name; fragments++) {
    char path[128];
    tiny_put_fragment(store, fragments);
    snprintf(path, sizeof path, "__commits/%s.wrt", fragments->name);
    tiny_text(store, path, "");
  }
  if (tsr__array_open_store(environment, store, "tiny", NULL, &array, &error) < 0 ||
      tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error) < 0)
    fail_msg("%s", error.message);
}
static int teardown_array(void **state) {
  tsr_snapshot_close(snapshot);
  tsr_array_close(array);
  tsr_environment_close(environment);
  return counted.blocks;
}

static const tiny_attribute attributes[] = {{"a", TSR_INT32, true, NULL}, {"b", TSR_UINT8, false, NULL}};
static const tiny_fragment sparse[] = {{"__5_5" U "_22", SPARSE, 2, false, true, 7, 93, 3, 2, NULL},
                                       {"__6_9" U "_22", SPARSE, 2, false, false, 1, 1, 1, 5, NULL},
                                       {NULL, NULL, 0, false, false, 0, 0, 0, 0, NULL}};
static const tiny_fragment dense[] = {{"__5_5" U "_22", DENSE, 2, true, false, 25, 44, 0, 0, NULL},
                                      {"__6_6" U "_22", DENSE, 2, true, false, 99, 99, 0, 0, NULL},
                                      {NULL, NULL, 0, false, false, 0, 0, 0, 0, NULL}};

static uint64_t metadata_size(const char *name) {
  char path[128];
  tsr_file *file;
  snprintf(path, sizeof path, "__fragments/%s/__fragment_metadata.tdb", name);
  assert_int_equal(tsr__store_open_file(store, path, &file, NULL), TSR_OK);
  uint64_t size = file->size;
  tsr__store_close_file(file);
  return size;
}

static tsr_fragment_info describe(uint64_t number) {
  tsr_fragment_info info;
  if (tsr_fragment_describe(snapshot, number, &info, &error) < 0) fail_msg("%s", error.message);
  return info;
}

static void test_sparse_fragments_are_described(void **state) {
  open_with(false, 2, attributes, sparse);
  assert_int_equal(tsr_fragment_count(snapshot), 2);
  tsr_fragment_info info = describe(0);
  assert_string_equal(info.name, sparse[0].name);
  assert_int_equal(info.start, 5);
  assert_int_equal(info.end, 5);
  assert_int_equal(info.version, 22);
  assert_false(info.dense);
  assert_string_equal(info.schema->name, SPARSE);
  assert_int_equal(info.tiles, 3);
  assert_int_equal(info.cells, 12); /* 5 + 5 + 2 */
  /* a, a's validity, b, x, t; each of 1000 bytes */
  assert_int_equal(info.bytes, 5000 + metadata_size(sparse[0].name));
  assert_int_equal(tsr__load32(info.non_empty_domain[0].low), 7);
  assert_int_equal(tsr__load32(info.non_empty_domain[0].high), 93);
  info = describe(1);
  assert_int_equal(info.start, 6);
  assert_int_equal(info.end, 9);
  assert_int_equal(info.cells, 5);
  assert_true(tsr_fragment_has(snapshot, 1, 2));
  assert_false(tsr_fragment_has(snapshot, 2, 0));
  assert_int_equal(tsr_fragment_describe(snapshot, 2, &info, &error), TSR_RANGE);
  assert_int_equal(tsr_fragment_describe(snapshot, UINT64_MAX, &info, NULL), TSR_RANGE);
}

static void test_dense_fragments_are_described(void **state) {
  open_with(true, 2, attributes, dense);
  tsr_fragment_info info = describe(0);
  assert_true(info.dense);
  assert_int_equal(info.tiles, 3);
  assert_int_equal(info.cells, 20);
  assert_int_equal(info.bytes, 3000 + metadata_size(dense[0].name)); /* dimensions have no files */
  assert_int_equal(describe(1).cells, 1);
}

/* An array without fragments, and a fragment without cells. */
static void test_empty_arrays_and_fragments(void **state) {
  static const tiny_fragment none[] = {{"__5_5" U "_22", SPARSE, 2, false, false, 0, 0, 0, 0, NULL},
                                       {NULL, NULL, 0, false, false, 0, 0, 0, 0, NULL}};
  open_with(false, 2, attributes, none);
  tsr_fragment_info info = describe(0);
  assert_int_equal(info.tiles, 0);
  assert_int_equal(info.cells, 0);
  assert_null(info.non_empty_domain);
  assert_int_equal(info.bytes, metadata_size(none[0].name));
  tsr_tiles *tiles;
  tsr_tile_info tile;
  assert_int_equal(tsr_tiles_open(snapshot, 0, &tiles, &error), TSR_OK);
  assert_int_equal(tsr_tiles_fields(tiles), 0);
  assert_int_equal(tsr_tiles_describe(tiles, 0, 0, &tile, &error), TSR_RANGE);
  tsr_tiles_close(tiles);
  assert_int_equal(tsr_tiles_open(snapshot, 1, &tiles, &error), TSR_RANGE);
}

/* Stands for what files would give: the tiles of each part begin at 0, 100 and 300 and end at 1000; statistics of
 * "a". */
static uint64_t offsets[] = {0, 100, 300, 1000};
static const uint8_t minima[] = {1, 0, 0, 0, 254, 255, 255, 255, 3, 0, 0, 0}, maxima[12] = {9};
static const uint64_t sums[] = {10, (uint64_t)-20, 30}, null_counts[] = {1, 2, 3};
static tsr_statistics some = {.count = 3,
                              .value_size = 4,
                              .min = minima,
                              .max = maxima,
                              .min_size = 12,
                              .max_size = 12,
                              .sums = sums,
                              .null_counts = null_counts};
static tsr_statistics nothing = {.count = 3, .value_size = 1};

static void fill_slots(tsr_fragment_metadata *m) {
  for (uint32_t s = 0; s < m->slot_count; s++) {
    for (unsigned p = 0; p < TSR_PART_COUNT; p++)
      if (tsr__fragment_slot_has_part(m, s, p)) m->slots[s].offsets[p] = offsets;
    m->slots[s].statistics = s == 0 ? &some : &nothing;
  }
}

static tsr_tile_info tile_of(tsr_tiles *tiles, uint32_t index, uint64_t number) {
  tsr_tile_info info;
  if (tsr_tiles_describe(tiles, index, number, &info, &error) < 0) fail_msg("%s", error.message);
  return info;
}

static void assert_box(const tsr_tile_info *info, int32_t low, int32_t high) {
  assert_int_equal((int32_t)tsr__load32(info->box[0].low), low);
  assert_int_equal((int32_t)tsr__load32(info->box[0].high), high);
}

static void test_dense_tiles_are_described(void **state) {
  open_with(true, 2, attributes, dense);
  fill_slots(&snapshot->fragments[0].fragment->metadata);
  tsr_tiles *tiles;
  assert_int_equal(tsr_tiles_open(snapshot, 0, &tiles, NULL), TSR_OK);
  assert_int_equal(tsr_tiles_fields(tiles), 2); /* attributes only */
  assert_int_equal(tsr_tiles_field(tiles, 0), 1);
  assert_int_equal(tsr_tiles_field(tiles, 1), 2);
  tsr_tile_info info = tile_of(tiles, 0, 0);
  assert_box(&info, 25, 29);
  assert_int_equal(info.cells, 5);
  assert_int_equal(info.bytes, 200); /* values and validity */
  assert_int_equal(info.decoded_bytes, 10 * 4 + 10);
  assert_int_equal(info.min_size, 4);
  assert_int_equal(tsr__load32(info.min), 1);
  assert_int_equal(tsr__load32(info.max), 9);
  assert_true(info.has_sum && info.has_null_count);
  assert_int_equal(info.null_count, 1);
  info = tile_of(tiles, 0, 1);
  assert_box(&info, 30, 39);
  assert_int_equal(info.cells, 10);
  assert_int_equal(info.bytes, 400);
  assert_int_equal((int32_t)tsr__load32(info.min), -2);
  assert_int_equal((int64_t)tsr__load64(info.sum), -20);
  info = tile_of(tiles, 0, 2);
  assert_box(&info, 40, 44);
  assert_int_equal(info.bytes, 1400);
  info = tile_of(tiles, 1, 2);
  assert_int_equal(info.bytes, 700);
  assert_int_equal(info.decoded_bytes, 10);
  assert_true(!info.min && !info.max && !info.has_sum && !info.has_null_count);
  tsr_tile_info none;
  assert_int_equal(tsr_tiles_describe(tiles, 2, 0, &none, &error), TSR_RANGE);
  assert_int_equal(tsr_tiles_describe(tiles, 0, 3, &none, NULL), TSR_RANGE);
  tsr_tiles_close(tiles);
  tsr_tiles_close(NULL);
}

static void test_sparse_tiles_are_described(void **state) {
  open_with(false, 2, attributes, sparse);
  tsr_fragment_metadata *m = &snapshot->fragments[0].fragment->metadata;
  fill_slots(m);
  uint64_t counts[] = {3}, boxes[6], *levels[] = {boxes};
  static const int32_t values[] = {-5, 9, 20, 20, 30, 93};
  for (int i = 0; i < 6; i++) boxes[i] = tsr__key(TSR_INT32, &values[i]);
  tsr_rtree rtree = {.dimensions = 1, .fanout = 10, .levels = 1, .counts = counts, .keys = levels};
  m->rtree = &rtree;
  tsr_tiles *tiles;
  assert_int_equal(tsr_tiles_open(snapshot, 0, &tiles, NULL), TSR_OK);
  assert_int_equal(tsr_tiles_fields(tiles), 3); /* dimensions first, no cell times */
  assert_int_equal(tsr_tiles_field(tiles, 0), 0);
  assert_int_equal(tsr_tiles_field(tiles, 2), 2);
  tsr_tile_info info = tile_of(tiles, 0, 0);
  assert_box(&info, -5, 9);
  assert_int_equal(info.cells, 5);
  info = tile_of(tiles, 2, 2);
  assert_box(&info, 30, 93);
  assert_int_equal(info.cells, 2);
  assert_int_equal(info.decoded_bytes, 2);
  info = tile_of(tiles, 1, 1);
  assert_box(&info, 20, 20);
  assert_int_equal(info.null_count, 2);
  tsr_tiles_close(tiles);
}

/* Statistics that cannot be read are TSR_CORRUPT, with fragment and field in the message. */
static void test_damaged_statistics_are_an_error(void **state) {
  open_with(true, 2, attributes, dense);
  tsr_tiles *tiles;
  tsr_tile_info info;
  assert_int_equal(tsr_tiles_open(snapshot, 0, &tiles, NULL), TSR_OK);
  assert_int_equal(tsr_tiles_describe(tiles, 0, 0, &info, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, dense[0].name));
  assert_non_null(strstr(error.message, "'a'"));
  tsr_tiles_close(tiles);
}

static void test_open_interval_is_recognized(void **state) {
  tsr_interval interval = {0};
  assert_false(tsr_interval_is_open(&interval));
  uint8_t top[TSR_TOP_TEXT_SIZE];
  memcpy(top, tsr__top_text, sizeof top);
  interval.high_text = top;
  interval.high_size = sizeof top;
  assert_true(tsr_interval_is_open(&interval));
  interval.high_size--;
  assert_false(tsr_interval_is_open(&interval));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_sparse_fragments_are_described, setup, teardown_array),
      cmocka_unit_test_setup_teardown(test_dense_fragments_are_described, setup, teardown_array),
      cmocka_unit_test_setup_teardown(test_empty_arrays_and_fragments, setup, teardown_array),
      cmocka_unit_test_setup_teardown(test_dense_tiles_are_described, setup, teardown_array),
      cmocka_unit_test_setup_teardown(test_sparse_tiles_are_described, setup, teardown_array),
      cmocka_unit_test_setup_teardown(test_damaged_statistics_are_an_error, setup, teardown_array),
      cmocka_unit_test(test_open_interval_is_recognized),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
