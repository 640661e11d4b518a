/* test_fragment.c: fragments of an array: loading, geometry, rowids, damage; their open files. */

#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "format/fragment_metadata.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"
#include "open_array.h"

#define DENSE  "__1_1" U
#define SPARSE "__2_2" U

static int setup(void **state) {
  if (setup_store() < 0) return 1;
  tiny_schema(store, "__schema/" DENSE, true, 1, a_only);
  tiny_schema(store, "__schema/" SPARSE, false, 1, a_only);
  return setup_array(NULL);
}

static void commit(const char *name) {
  char path[256];
  snprintf(path, sizeof path, "__commits/%s.wrt", name);
  tiny_text(store, path, "");
  assert_int_equal(tsr__log_list(&array->log, true, false, &error), TSR_OK);
}

static int load(const char *name, tsr_fragment **fragment) {
  tsr_name parsed;
  assert_true(tsr__name_parse(name, strlen(name), &parsed));
  const tsr_committed item = {.name = name, .parsed = parsed};
  return tsr__array_fragment(array, &item, NULL, 0, fragment, &error);
}

static void test_dense_geometry_and_rowids(void **state) {
  const tiny_fragment f = {"__7_7" U "_22", DENSE, 1, true, false, 15, 42, 0, 0, NULL};
  tsr_fragment *fragment, *again;
  tiny_put_fragment(store, &f);
  commit(f.name);
  assert_int_equal(load(f.name, &fragment), TSR_OK);
  assert_int_equal(fragment->dense.box_low[0], 15);
  assert_int_equal(fragment->dense.box_high[0], 42);
  assert_int_equal(fragment->dense.tile_low[0], 1);
  assert_int_equal(fragment->dense.tile_count[0], 4);
  assert_int_equal(fragment->metadata.tile_count, 4);
  assert_int_equal(fragment->cells_per_tile, 10);
  assert_int_equal(fragment->dense.grid.extent[0], 10);
  uint64_t next = environment->next_row;
  assert_int_equal(fragment->row_base + 40, next);
  assert_int_equal(load(f.name, &again), TSR_OK);
  assert_ptr_equal(fragment, again);
  assert_int_equal(fragment->references, 3);
  assert_int_equal(environment->next_row, next);
  tsr__array_fragment_drop(array, again);
  tsr__array_fragment_drop(array, fragment);
  assert_int_equal(array->registry.fragments.count, 1); /* it is listed */
}

static void test_sparse_geometry(void **state) {
  const tiny_fragment f = {"__7_7" U "_22", SPARSE, 1, false, true, 15, 42, 3, 2, NULL};
  const tiny_fragment empty = {"__8_8" U "_22", SPARSE, 1, false, false, 0, 0, 0, 0, NULL};
  tsr_fragment *fragment;
  uint64_t next = environment->next_row;
  tiny_put_fragment(store, &f);
  commit(f.name);
  assert_int_equal(load(f.name, &fragment), TSR_OK);
  assert_null(fragment->dense.box_low);
  assert_true(fragment->metadata.has_times);
  assert_int_equal(fragment->cells_per_tile, 5);
  assert_int_equal(environment->next_row, next + 12);
  int64_t base = fragment->row_base;
  tsr__array_fragment_drop(array, fragment);
  tiny_put_fragment(store, &empty);
  commit(empty.name);
  assert_int_equal(load(empty.name, &fragment), TSR_OK);
  assert_int_equal(environment->next_row, next + 12);
  tsr__array_fragment_drop(array, fragment);

  /* gone from the registry when listed no more, and known again by its rowids */
  assert_int_equal(tsr__store_remove(store, "__commits/__7_7" U "_22.wrt", NULL), TSR_OK);
  assert_int_equal(tsr__log_list(&array->log, true, false, &error), TSR_OK);
  tsr__array_fragments_prune(array);
  assert_int_equal(array->registry.fragments.count, 1);
  commit(f.name);
  assert_int_equal(load(f.name, &fragment), TSR_OK);
  assert_int_equal(fragment->row_base, base);
  tsr__array_fragment_drop(array, fragment);
}

static void test_referenced_fragment_outlives_the_registry(void **state) {
  const tiny_fragment f = {"__7_7" U "_22", SPARSE, 1, false, false, 15, 42, 3, 2, NULL};
  tsr_fragment *fragment, *again;
  tiny_put_fragment(store, &f);
  commit(f.name);
  assert_int_equal(load(f.name, &fragment), TSR_OK);
  assert_int_equal(tsr__store_remove(store, "__commits/__7_7" U "_22.wrt", NULL), TSR_OK);
  assert_int_equal(tsr__log_list(&array->log, true, false, &error), TSR_OK);
  tsr__array_fragments_prune(array);
  assert_int_equal(array->registry.fragments.count, 0);
  assert_int_equal(fragment->references, 1);
  assert_string_equal(fragment->name, f.name);
  commit(f.name);
  assert_int_equal(load(f.name, &again), TSR_OK);
  assert_ptr_not_equal(fragment, again);
  assert_int_not_equal(fragment->id, again->id);
  assert_int_equal(fragment->row_base, again->row_base);
  tsr__array_fragment_drop(array, fragment);
  tsr__array_fragment_drop(array, again);
}

static void expect_bad(const tiny_fragment *f, const char *part) {
  tsr_fragment *fragment;
  tiny_put_fragment(store, f);
  commit(f->name);
  assert_int_equal(load(f->name, &fragment), TSR_CORRUPT);
  if (!strstr(error.message, part) || !strstr(error.message, f->name)) fail_msg("%s", error.message);
}

static void test_bad_fragments_are_refused(void **state) {
  tsr_fragment *fragment;
  expect_bad(&(tiny_fragment){"__7_7" U "_22", "__9_9_none", 1, false, false, 15, 42, 3, 2, NULL}, "__9_9_none");
  expect_bad(&(tiny_fragment){"__8_8" U "_22", DENSE, 1, true, false, 42, 15, 0, 0, NULL}, "domain");
  expect_bad(&(tiny_fragment){"__9_9" U "_22", DENSE, 1, true, false, 95, 100, 0, 0, NULL}, "domain");
  expect_bad(&(tiny_fragment){"__9_9" U "_22", DENSE, 1, true, false, -1, 10, 0, 0, NULL}, "domain");
  expect_bad(&(tiny_fragment){"__10_10" U "_22", SPARSE, 1, true, false, 1, 10, 0, 0, NULL}, "dense");
  assert_int_equal(load("__11_11" U "_22", &fragment), TSR_NOT_FOUND); /* the caller then lists the array again */
  assert_int_equal(array->registry.fragments.count, 0);
}

static void test_damaged_metadata_leaks_nothing(void **state) {
  const tiny_fragment f = {"__7_7" U "_22", SPARSE, 1, false, true, 15, 42, 3, 2, "__9_9" U "_22"};
  uint8_t bytes[4096], changed[4096];
  tsr_file *file;
  const char *path = "__fragments/__7_7" U "_22/__fragment_metadata.tdb";
  tiny_put_fragment(store, &f);
  commit(f.name);
  assert_int_equal(tsr__store_open_file(store, path, &file, NULL), TSR_OK);
  uint64_t size = file->size;
  assert_int_equal(tsr__store_read_at(file, 0, bytes, size, NULL), TSR_OK);
  tsr__store_close_file(file);
  for (uint64_t i = 0; i < 2 * size; i++) {
    tsr_fragment *fragment;
    memcpy(changed, bytes, size);
    if (i >= size) changed[i - size] ^= 0xff;
    tiny_put(store, path, changed, i < size ? i : size);
    int rc = load(f.name, &fragment);
    if (i < size) assert_true(rc < 0);
    if (rc < 0) continue;
    (void)tsr__fragment_processed(array, fragment, &error);
    tsr__array_files_done(array);
    tsr__map_remove(&array->registry.fragments, f.name); /* so that it is loaded anew */
    tsr__array_fragment_drop(array, fragment);
    tsr__array_fragment_drop(array, fragment);
  }
}

static void test_missing_files_are_told_from_vacuumed_ones(void **state) {
  const tiny_fragment f = {"__7_7" U "_22", SPARSE, 1, false, false, 15, 42, 3, 2, NULL};
  static const uint8_t data[1001];
  tsr_fragment *fragment;
  tsr_file *file, *again;
  tiny_put_fragment(store, &f);
  commit(f.name);
  assert_int_equal(load(f.name, &fragment), TSR_OK);
  assert_int_equal(tsr__fragment_file(array, fragment, 0, TSR_PART_FIXED, &file, &error), TSR_CORRUPT); /* absent */
  assert_non_null(strstr(error.message, "a0.tdb"));
  tiny_put(store, "__fragments/__7_7" U "_22/a0.tdb", data, 999);
  assert_int_equal(tsr__fragment_file(array, fragment, 0, TSR_PART_FIXED, &file, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "999"));
  assert_non_null(strstr(error.message, "1000"));
  tiny_put(store, "__fragments/__7_7" U "_22/a0.tdb", data, 1001);
  assert_int_equal(tsr__fragment_file(array, fragment, 0, TSR_PART_FIXED, &file, &error), TSR_OK);
  assert_int_equal(file->size, 1001);
  assert_int_equal(tsr__fragment_file(array, fragment, 0, TSR_PART_FIXED, &again, &error), TSR_OK);
  assert_ptr_equal(file, again);
  const uint64_t opened = store->files_opened; /* a small metadata file is in memory, and not opened a second time */
  assert_int_equal(tsr__fragment_metadata_file(array, fragment, &again, &error), TSR_OK);
  assert_ptr_equal(again, fragment->kept);
  assert_int_equal(array->open_files.count, 1);
  assert_int_equal(store->files_opened, opened);
  assert_int_equal(array->registry.kept_bytes, again->size);

  /* vacuumed while a reader has it */
  assert_int_equal(tsr__store_remove(store, "__commits/__7_7" U "_22.wrt", NULL), TSR_OK);
  assert_int_equal(tsr__fragment_file(array, fragment, 2, TSR_PART_FIXED, &file, &error), TSR_ABORT);
  assert_non_null(strstr(error.message, "vacuumed"));
  tsr__array_fragments_prune(array);
  tsr__array_fragment_drop(array, fragment);
  assert_int_equal(array->open_files.count, 0);
  assert_int_equal(array->registry.kept_bytes, 0);
}

/* At most files_kept files stay open, but files that have been given out since the last tsr__array_files_done are
 * never closed. */
static void test_open_files_are_bounded(void **state) {
  enum { KEPT = 60, COUNT = KEPT + 50 };
  static tsr_fragment *fragments[COUNT];
  tsr_file *file;
  array->environment->files_kept = KEPT;
  array->registry.kept_bytes = UINT64_C(16) << 20; /* no room for more in memory */
  for (int i = 0; i < COUNT; i++) {
    char name[128];
    snprintf(name, sizeof name, "__%d_%d" U "_22", i + 1, i + 1);
    const tiny_fragment f = {name, SPARSE, 1, false, false, 15, 42, 3, 2, NULL};
    tiny_put_fragment(store, &f);
    commit(name);
    assert_int_equal(load(name, &fragments[i]), TSR_OK);
  }
  assert_int_equal(array->open_files.count, 0); /* footers are read and their files closed */
  for (int i = 0; i < COUNT; i++)
    assert_int_equal(tsr__fragment_metadata_file(array, fragments[i], &file, &error), TSR_OK);
  assert_int_equal(array->open_files.count, COUNT);
  uint64_t last = (uint64_t)fragments[0]->metadata.slot_count * TSR_PART_COUNT;
  assert_int_equal(tsr__fragment_metadata_file(array, fragments[0], &file, &error), TSR_OK); /* the newest now */
  tsr__array_files_done(array);
  assert_int_equal(array->open_files.count, KEPT);
  assert_non_null(fragments[0]->files[last]);
  assert_null(fragments[1]->files[last]);
  assert_non_null(fragments[COUNT - 1]->files[last]);
  assert_int_equal(tsr__fragment_metadata_file(array, fragments[1], &file, &error), TSR_OK);
  assert_int_equal(array->open_files.count, KEPT);
  for (int i = 0; i < COUNT; i++) tsr__array_fragment_drop(array, fragments[i]);
  array->registry.kept_bytes = 0;
}

/* ---- Many at once ------------------------------------------------------------------------------------------------ */

enum { TOGETHER = 70, MISSING = 20, DAMAGED = 33, STRAY_SCHEMA = 40 };
static char together_names[TOGETHER][128];
static tsr_committed together[TOGETHER];
static const tsr_committed *together_items[TOGETHER];

static bool is_bad(int i) { return i == MISSING || i == DAMAGED || i == STRAY_SCHEMA; }

/* Sparse fragments, and dense ones of another schema, three of them bad. */
static void put_together(void) {
  char path[256];
  for (int i = 0; i < TOGETHER; i++) {
    snprintf(together_names[i], sizeof *together_names, "__%d_%d" U "_22", i + 1, i + 1);
    const tiny_fragment sparse = {
        together_names[i], i == STRAY_SCHEMA ? "__9_9_none" : SPARSE, 1, false, false, i % 40, 42 + i % 50, 3, 2, NULL};
    const tiny_fragment dense = {together_names[i], DENSE, 1, true, false, i % 40, 42 + i % 50, 0, 0, NULL};
    if (i != MISSING) tiny_put_fragment(store, i % 3 ? &sparse : &dense);
    if (i == DAMAGED) {
      snprintf(path, sizeof path, "__fragments/%.120s/__fragment_metadata.tdb", together_names[i]);
      tiny_put(store, path, (const uint8_t *)"nonsense", 8);
    }
    commit(together_names[i]);
    together[i].name = together_names[i];
    assert_true(tsr__name_parse(together[i].name, strlen(together[i].name), &together[i].parsed));
    together_items[i] = &together[i];
  }
  array->threads = 4;
}

/* The fragments are the same as if they were loaded one by one. Errors of the bad ones are reported when these are
 * requested. */
static void test_fragments_load_together_as_alone(void **state) {
  static int64_t rows[TOGETHER];
  tsr_fragment *fragment;
  put_together();
  assert_int_equal(tsr__array_fragments_read(array, together_items, TOGETHER, &error), TSR_OK);
  assert_int_equal(array->registry.fragments.count, TOGETHER - 3);
  for (int i = 0; i < TOGETHER; i++) {
    const uint64_t opened = store->files_opened;
    const int rc = load(together_names[i], &fragment);
    if (is_bad(i)) {
      assert_int_equal(rc, i == MISSING ? TSR_NOT_FOUND : TSR_CORRUPT);
      assert_non_null(strstr(error.message, together_names[i]));
      continue;
    }
    assert_int_equal(rc, TSR_OK);
    assert_int_equal(store->files_opened, opened);
    assert_int_equal(fragment->metadata.dense, i % 3 == 0);
    assert_int_equal(tsr__load32(fragment->metadata.non_empty_domain[0].low), i % 40);
    assert_int_equal(fragment->metadata.tile_count, i % 3 ? 3 : (42 + i % 50) / 10 - i % 40 / 10 + 1);
    assert_int_equal(fragment->parsed.start, i + 1);
    assert_non_null(fragment->kept);
    assert_int_equal(fragment->references, 2);
    rows[i] = fragment->row_base;
    tsr__array_fragment_drop(array, fragment);
  }
  for (int i = 0, last = -1; i < TOGETHER; i++) {
    if (is_bad(i)) continue;
    if (last >= 0) assert_true(rows[i] > rows[last]);
    last = i;
  }
}

static void test_together_in_one_thread(void **state) {
  put_together();
  store->workers_may_read = false;
  assert_int_equal(tsr__array_fragments_read(array, together_items, TOGETHER, &error), TSR_OK);
  store->workers_may_read = true;
  array->threads = 1;
  assert_int_equal(tsr__array_fragments_read(array, together_items, TOGETHER, &error), TSR_OK);
  assert_int_equal(array->registry.fragments.count, 0);
}

static bool stop(void *argument) { return true; }

/* A worker may have taken the index at which cancellation is checked, and may have finished before the caller checks
 * it. */
static void test_together_interrupted(void **state) {
  int rc = TSR_OK;
  put_together();
  for (int i = 0; i < 1000 && rc == TSR_OK; i++) {
    environment->memory.cancel.requested = stop;
    rc = tsr__array_fragments_read(array, together_items, TOGETHER, &error);
    environment->memory.cancel.requested = NULL;
    assert_int_equal(array->registry.fragments.count, rc < 0 ? 0 : TOGETHER - 3);
    while (array->registry.fragments.count > 0) {
      tsr_fragment *fragment = array->registry.fragments.entries[0].value;
      tsr__map_remove(&array->registry.fragments, fragment->name);
      tsr__array_fragment_drop(array, fragment);
    }
    assert_int_equal(array->registry.kept_bytes, 0);
  }
  assert_int_equal(rc, TSR_INTERRUPT);
}

static void test_together_without_memory(void **state) {
  tsr_fragment *fragment;
  put_together();
  for (uint64_t limit = 0; array->registry.fragments.count < TOGETHER - 3; limit += 1024) {
    environment->memory.limit = environment->memory.used + limit;
    const int rc = tsr__array_fragments_read(array, together_items, TOGETHER, &error);
    environment->memory.limit = UINT64_MAX;
    if (rc < 0) assert_int_equal(rc, TSR_BUDGET);
    for (int i = 0; i < TOGETHER && array->registry.fragments.count < TOGETHER - 3; i++) {
      fragment = tsr__map_remove(&array->registry.fragments, together_names[i]);
      if (fragment) tsr__array_fragment_drop(array, fragment);
    }
    assert_true(limit < 1 << 20);
  }
}

/* More fragments than one slab has room for. They come and go in any order, and leave nothing. */
static void test_slabs_go_with_their_last_fragment(void **state) {
  enum { MANY = 8000 };
  static char names[MANY][64];
  static tsr_committed items[MANY];
  static const tsr_committed *pointers[MANY];
  uint64_t most = 0, left = 0;
  for (int i = 0; i < MANY; i++) {
    snprintf(names[i], sizeof *names, "__%d_%d" U "_22", i + 1, i + 1);
    const tiny_fragment f = {names[i], SPARSE, 1, false, false, i % 40, 42, 3, 2, NULL};
    tiny_put_fragment(store, &f);
    items[i].name = names[i];
    assert_true(tsr__name_parse(names[i], strlen(names[i]), &items[i].parsed));
    pointers[i] = &items[i];
  }
  array->threads = 2;
  for (int round = 0; round < 3; round++) {
    tsr_map *fragments = &array->registry.fragments;
    assert_int_equal(tsr__array_fragments_read(array, pointers, MANY, &error), TSR_OK);
    assert_int_equal(fragments->count, MANY);
    most = array->memory.used;
    for (int k = 0; k < MANY; k++) {
      const int i = k * 1999 % MANY;
      tsr_fragment *fragment = tsr__map_remove(fragments, names[i]);
      assert_string_equal(fragment->name, names[i]);
      assert_int_equal(fragment->parsed.start, i + 1);
      assert_int_equal(tsr__load32(fragment->metadata.non_empty_domain[0].low), i % 40);
      tsr__array_fragment_drop(array, fragment);
    }
    tsr__map_release(fragments);
    assert_true(most > array->memory.used + (UINT64_C(9) << 20)); /* more than a slab can have */
    if (round > 0) assert_int_equal(array->memory.used, left);
    left = array->memory.used;
  }
}

static void test_no_memory(void **state) {
  const tiny_fragment f = {"__7_7" U "_22", DENSE, 1, true, false, 15, 42, 0, 0, NULL};
  tsr_fragment *fragment;
  int rc = TSR_BUDGET;
  tiny_put_fragment(store, &f);
  commit(f.name);
  for (uint64_t limit = 0; rc == TSR_BUDGET; limit += 32) {
    environment->memory.limit = environment->memory.used + limit;
    rc = load(f.name, &fragment);
    environment->memory.limit = UINT64_MAX;
    if (rc < 0) assert_int_equal(rc, TSR_BUDGET);
    assert_true(limit < 1 << 20);
  }
  tsr__array_fragment_drop(array, fragment);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_dense_geometry_and_rowids, setup, teardown),
      cmocka_unit_test_setup_teardown(test_sparse_geometry, setup, teardown),
      cmocka_unit_test_setup_teardown(test_referenced_fragment_outlives_the_registry, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bad_fragments_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_damaged_metadata_leaks_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(test_missing_files_are_told_from_vacuumed_ones, setup, teardown),
      cmocka_unit_test_setup_teardown(test_open_files_are_bounded, setup, teardown),
      cmocka_unit_test_setup_teardown(test_fragments_load_together_as_alone, setup, teardown),
      cmocka_unit_test_setup_teardown(test_together_in_one_thread, setup, teardown),
      cmocka_unit_test_setup_teardown(test_together_interrupted, setup, teardown),
      cmocka_unit_test_setup_teardown(test_together_without_memory, setup, teardown),
      cmocka_unit_test_setup_teardown(test_slabs_go_with_their_last_fragment, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
