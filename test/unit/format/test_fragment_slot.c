/* test_fragment_slot.c: slots of every version: fields, file names, tile offsets, statistics. */

#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "format/fragment_metadata.h"
#include "fragment_test.h"

static tsr_fragment_metadata open_metadata(fixture *f, const shape *s, tsr_file **file) {
  put_metadata(f, s);
  *file = as_file(f);
  tsr_fragment_metadata m;
  tsr_error error = {0};
  if (read_metadata(f, *file, s->version < 5 ? 0 : s->version, &m, &error) < 0) fail_msg("%s", error.message);
  return m;
}

static void close_metadata(tsr_fragment_metadata *m, tsr_file *file) {
  tsr__fragment_metadata_release(m);
  tsr__store_close_file(file);
}

static void expect_name(fixture *f, const tsr_fragment_metadata *m, int64_t slot, tsr_part_kind part,
                        const char *expected) {
  char *name;
  assert_int_equal(tsr__fragment_file_name(m, (uint32_t)slot, part, &f->arena, &name, NULL), TSR_OK);
  assert_string_equal(name, expected);
}

static void test_slots_and_file_names_of_all_versions(void **state) {
  fixture *f = *state;
  tsr_file *file;

  tsr_fragment_metadata m = open_metadata(f, &(shape){.version = 4, .tiles = TILES, .last = 1}, &file);
  assert_int_equal(m.slot_count, 4);
  assert_int_equal(tsr__fragment_slot(&m, 0), 3); /* both dimensions are in __coords */
  assert_int_equal(tsr__fragment_slot(&m, 1), 3);
  assert_int_equal(tsr__fragment_slot(&m, 2), 0);
  assert_int_equal(tsr__fragment_system_slot(&m, TSR_SLOT_COORDS), 3);
  assert_int_equal(tsr__fragment_system_slot(&m, TSR_SLOT_TIMES), -1);
  expect_name(f, &m, 3, TSR_PART_FIXED, "__coords.tdb");
  expect_name(f, &m, 1, TSR_PART_VARIABLE, "s_var.tdb");
  close_metadata(&m, file);

  f->fields[4].nullable = true;
  m = open_metadata(f, &(shape){.version = 7, .tiles = TILES, .last = 1}, &file);
  assert_int_equal(m.slot_count, 6);
  assert_int_equal(tsr__fragment_slot(&m, 0), 4);
  assert_int_equal(tsr__fragment_slot(&m, 4), 2);
  assert_int_equal(tsr__fragment_system_slot(&m, TSR_SLOT_COORDS), -1);
  expect_name(f, &m, 4, TSR_PART_FIXED, "x.tdb");
  expect_name(f, &m, 2, TSR_PART_VALIDITY, "n_validity.tdb");
  close_metadata(&m, file);

  f->fields[2].name = "50% a/b<>|\\\"-_~";
  m = open_metadata(f, &(shape){.version = 8, .tiles = TILES, .last = 1}, &file);
  expect_name(f, &m, 0, TSR_PART_FIXED, "50%25 a%2Fb%20%2D%3C%30%22-_~.tdb");
  expect_name(f, &m, 5, TSR_PART_FIXED, "y.tdb");
  close_metadata(&m, file);
  m = open_metadata(f, &(shape){.version = 9, .tiles = TILES, .last = 1}, &file);
  expect_name(f, &m, 0, TSR_PART_FIXED, "a0.tdb");
  expect_name(f, &m, 5, TSR_PART_VARIABLE, "d1_var.tdb");
  close_metadata(&m, file);

  m = open_metadata(f, &(shape){.version = 22, .tiles = TILES, .last = 1, .times = true, .deletes = true}, &file);
  assert_int_equal(m.slot_count, 9);
  assert_int_equal(tsr__fragment_system_slot(&m, TSR_SLOT_TIMES), 6);
  assert_int_equal(tsr__fragment_system_slot(&m, TSR_SLOT_DELETE_TIMES), 7);
  assert_int_equal(tsr__fragment_system_slot(&m, TSR_SLOT_DELETE_CONDITIONS), 8);
  expect_name(f, &m, 6, TSR_PART_FIXED, "t.tdb");
  expect_name(f, &m, 7, TSR_PART_FIXED, "dt.tdb");
  expect_name(f, &m, 8, TSR_PART_FIXED, "dci.tdb");
  close_metadata(&m, file);
  m = open_metadata(f, &(shape){.version = 22, .tiles = TILES, .last = 1, .deletes = true}, &file);
  assert_int_equal(tsr__fragment_system_slot(&m, TSR_SLOT_TIMES), -1);
  assert_int_equal(tsr__fragment_system_slot(&m, TSR_SLOT_DELETE_TIMES), 6);
  close_metadata(&m, file);

  f->schema.dense = true;
  m = open_metadata(f, &(shape){.version = 22, .dense = true, .tiles = 2, .last = 25}, &file);
  assert_int_equal(tsr__fragment_slot(&m, 0), -1);
  assert_int_equal(tsr__fragment_slot(&m, 2), 0);
  assert_int_equal(tsr__fragment_tile_cells(&m, 0), 25);
  assert_int_equal(tsr__fragment_tile_cells(&m, 1), 25);
  close_metadata(&m, file);
}

static void test_tile_offsets_load(void **state) {
  fixture *f = *state;
  f->fields[4].nullable = true;
  tsr_file *file;
  tsr_fragment_metadata m = open_metadata(f, &(shape){.version = 22, .tiles = TILES, .last = 7}, &file);
  assert_int_equal(tsr__fragment_tile_cells(&m, 0), CAPACITY);
  assert_int_equal(tsr__fragment_tile_cells(&m, TILES - 1), 7);
  for (uint32_t slot = 0; slot < m.slot_count; slot++) {
    assert_int_equal(tsr__fragment_metadata_load_slot(&m, slot, file, NULL, NULL), TSR_OK);
  }
  const tsr_slot *s = &m.slots[1], *n = &m.slots[2];
  assert_int_equal(s->offsets[TSR_PART_FIXED][1], 100);
  assert_int_equal(s->offsets[TSR_PART_FIXED][3], 307);
  assert_int_equal(s->offsets[TSR_PART_VARIABLE][3], 307);
  assert_int_equal(s->var_sizes[2], 1002);
  assert_null(s->offsets[TSR_PART_VALIDITY]);
  assert_null(n->offsets[TSR_PART_VARIABLE]);
  assert_int_equal(n->offsets[TSR_PART_VALIDITY][2], 200);
  assert_null(m.slots[3].offsets[TSR_PART_FIXED]); /* __coords */
  const uint64_t *offsets = s->offsets[TSR_PART_FIXED];
  assert_int_equal(tsr__fragment_metadata_load_slot(&m, 1, file, NULL, NULL), TSR_OK);
  assert_ptr_equal(m.slots[1].offsets[TSR_PART_FIXED], offsets);
  close_metadata(&m, file);
}

static void test_broken_tile_offsets_are_refused(void **state) {
  fixture *f = *state;
  tsr_file *file;
  tsr_fragment_metadata m = open_metadata(f, &(shape){.version = 22, .tiles = TILES, .last = 7}, &file);
  tsr_error error = {0};
  m.slots[0].file_size[TSR_PART_FIXED] = 207; /* the last tile is smaller than the u64 that each tile begins with */
  assert_int_equal(tsr__fragment_metadata_load_slot(&m, 0, file, NULL, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "'a': tile offsets: tile 2 begins at byte 200 of its file, which ends at 207"));
  m.slots[0].file_size[TSR_PART_FIXED] = 150;
  assert_int_equal(tsr__fragment_metadata_load_slot(&m, 0, file, NULL, &error), TSR_CORRUPT);
  assert_null(m.slots[0].offsets[TSR_PART_FIXED]);
  m.slots[1].offsets_at[TSR_PART_VARIABLE] = m.slots[1].var_sizes_at; /* 1000, 1001, 1002 */
  assert_int_equal(tsr__fragment_metadata_load_slot(&m, 1, file, NULL, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "offsets of variable tiles"));
  assert_null(m.slots[1].offsets[TSR_PART_FIXED]);
  m.slots[0].file_size[TSR_PART_FIXED] = 307;
  m.tile_count = 2;
  assert_int_equal(tsr__fragment_metadata_load_slot(&m, 0, file, NULL, &error), TSR_CORRUPT);
  m.tile_count = 4;
  error = (tsr_error){0};
  assert_int_equal(tsr__fragment_metadata_load_slot(&m, 0, file, NULL, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "3 entries for 4 tiles"));
  m.slots[0].offsets_at[TSR_PART_FIXED] = m.at.footer;
  assert_int_equal(tsr__fragment_metadata_load_slot(&m, 0, file, NULL, &error), TSR_CORRUPT);
  close_metadata(&m, file);
}

static void test_lists_are_read_or_refused(void **state) {
  fixture *f = *state;
  uint8_t bytes[24];
  tsr__store64(bytes, 2);
  tsr__store64(bytes + 8, 0);
  tsr__store64(bytes + 16, 8);
  uint64_t *values = NULL;
  for (uint64_t size = 0; size < 24; size++) {
    tsr_input in = tsr__input(bytes, size);
    assert_int_equal(tsr__fragment_list_read(&in, 2, "test", &f->arena, &values, NULL), TSR_CORRUPT);
  }
  tsr_input in = tsr__input(bytes, 24);
  assert_int_equal(tsr__fragment_list_read(&in, 2, "test", &f->arena, &values, NULL), TSR_OK);
  assert_int_equal(values[1], 8);
  assert_int_equal(tsr__fragment_offsets_finish(values, 2, 16, NULL), TSR_OK);
  assert_int_equal(values[2], 16);
  assert_int_equal(tsr__fragment_offsets_finish(values, 2, 15, NULL), TSR_CORRUPT);
  assert_int_equal(tsr__fragment_offsets_finish(values, 2, 0, NULL), TSR_CORRUPT);
  in = tsr__input(bytes, 24);
  assert_int_equal(tsr__fragment_list_read(&in, 9, "test", &f->arena, NULL, NULL), TSR_OK);
  assert_int_equal(tsr__input_left(&in), 0);
  tsr__store64(bytes, UINT64_MAX / 8 + 2);
  in = tsr__input(bytes, 24);
  assert_int_equal(tsr__fragment_list_read(&in, UINT64_MAX / 8 + 2, "test", &f->arena, &values, NULL), TSR_CORRUPT);
}

static void test_statistics_load(void **state) {
  fixture *f = *state;
  tsr_file *file;
  tsr_statistics got;
  tsr_fragment_metadata m = open_metadata(f, &(shape){.version = 11, .tiles = TILES, .last = 7}, &file);
  assert_int_equal(tsr__fragment_metadata_statistics(&m, 0, file, NULL, &got, NULL), TSR_OK);
  assert_int_equal(got.count, TILES);
  assert_int_equal(got.value_size, 4);
  assert_int_equal(got.min_size, 12);
  assert_int_equal(tsr__load32(got.max + 8), 2);
  assert_int_equal(got.sums[2], 502);
  assert_int_equal(got.null_counts[0], 500);
  assert_null(got.min_offsets);
  const uint64_t *sums = got.sums;
  assert_int_equal(tsr__fragment_metadata_statistics(&m, 0, file, NULL, &got, NULL), TSR_OK);
  assert_ptr_equal(got.sums, sums);

  assert_int_equal(tsr__fragment_metadata_statistics(&m, 1, file, NULL, &got, NULL), TSR_OK);
  assert_int_equal(got.value_size, 0);
  assert_int_equal(got.min_size, 7);
  assert_int_equal(got.min_offsets[1], 2);
  assert_int_equal(got.max_offsets[3], 7);
  assert_memory_equal(got.min, "abcdefg", 7);
  assert_null(got.sums);

  assert_int_equal(tsr__fragment_metadata_statistics(&m, 4, file, NULL, &got, NULL), TSR_OK); /* x */
  assert_null(got.min);
  assert_null(got.null_counts);
  close_metadata(&m, file);

  m = open_metadata(f, &(shape){.version = 10, .tiles = TILES, .last = 7}, &file);
  assert_int_equal(tsr__fragment_metadata_statistics(&m, 0, file, NULL, &got, NULL), TSR_OK);
  assert_null(got.min);
  assert_int_equal(got.count, TILES);
  close_metadata(&m, file);
}

/* u64 size, minimum, u64 size, maximum, sum, null count of each slot: a, s, n, __coords, x, y. */
static void test_fragment_statistics_load(void **state) {
  fixture *f = *state;
  tsr_file *file;
  tsr_statistics got;
  tsr_error error = {0};
  tsr_fragment_metadata m = open_metadata(f, &(shape){.version = 22, .tiles = TILES, .last = 7}, &file);
  tsr_buffer content = {.memory = &f->memory}, out = {.memory = &f->memory};
  static const uint64_t sizes[6] = {4, 2, 8, 0, 0, 0};
  for (uint32_t slot = 0; slot < 6; slot++) {
    for (int end = 0; end < 2; end++) {
      put64(&content, sizes[slot]);
      for (uint64_t i = 0; i < sizes[slot]; i++) put8(&content, (uint8_t)(10 * slot + i + 100 * (unsigned)end));
    }
    put64(&content, 7);
    put64(&content, slot);
  }
  tsr_file *own;
  for (uint64_t size = content.size;; size--) { /* cut at every byte first */
    tsr_buffer part = {.memory = &f->memory};
    put(&part, content.data, content.size - size);
    out.size = 0;
    m.at.fragment_statistics = put_generic(&out, 22, &part);
    tsr__buffer_release(&part);
    assert_int_equal(tsr__store_create_exclusive(f->store, "own", &own, NULL), TSR_OK);
    assert_int_equal(tsr__store_append(own, out.data, out.size, NULL), TSR_OK);
    m.at.file_size = out.size;
    const int code = tsr__fragment_metadata_own_statistics(&m, 2, own, NULL, &got, &error);
    tsr__store_close_file(own);
    assert_int_equal(tsr__store_remove(f->store, "own", NULL), TSR_OK);
    if (size == 0) {
      assert_int_equal(code, TSR_OK);
      break;
    }
    assert_int_equal(code, TSR_CORRUPT);
    assert_null(m.own_statistics);
  }
  assert_int_equal(got.count, 1);
  assert_int_equal(got.value_size, 8);
  assert_int_equal(got.min[0], 20);
  assert_int_equal(got.max[7], 127);
  assert_int_equal(got.null_counts[0], 2);
  assert_null(got.sums);
  assert_int_equal(tsr__fragment_metadata_own_statistics(&m, 0, NULL, NULL, &got, NULL), TSR_OK); /* loaded once */
  assert_int_equal(got.max[3], 103);
  assert_int_equal(tsr__fragment_metadata_own_statistics(&m, 1, NULL, NULL, &got, NULL), TSR_OK);
  assert_null(got.min); /* variable */
  tsr__buffer_release(&content);
  tsr__buffer_release(&out);
  close_metadata(&m, file);
  m = open_metadata(f, &(shape){.version = 11, .tiles = TILES, .last = 7}, &file);
  assert_int_equal(tsr__fragment_metadata_own_statistics(&m, 0, NULL, NULL, &got, NULL), TSR_OK);
  assert_null(got.min);
  close_metadata(&m, file);
}

static void test_broken_statistics_are_refused(void **state) {
  fixture *f = *state;
  tsr_file *file;
  tsr_statistics got;
  tsr_error error = {0};
  tsr_fragment_metadata m = open_metadata(f, &(shape){.version = 22, .tiles = TILES, .last = 7}, &file);
  m.slots[0].min_at = m.slots[1].min_at; /* of other sizes */
  assert_int_equal(tsr__fragment_metadata_statistics(&m, 0, file, NULL, &got, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "statistics of 'a'"));
  assert_null(m.slots[0].statistics);
  m.slots[1].max_at = m.slots[0].max_at;
  assert_int_equal(tsr__fragment_metadata_statistics(&m, 1, file, NULL, &got, &error), TSR_CORRUPT);
  m.slots[4].sum_at = m.slots[0].min_at;
  assert_int_equal(tsr__fragment_metadata_statistics(&m, 4, file, NULL, &got, &error), TSR_CORRUPT);
  close_metadata(&m, file);
  put_metadata(f, &(shape){.version = 22, .tiles = TILES, .last = 7});
  for (uint64_t at = 0; at + 7 < f->footer_at; at++) { /* the second text of s begins behind the third */
    if (memcmp(f->out.data + at, "abcdefg", 7) == 0) f->out.data[at - 16] = 5;
  }
  file = as_file(f);
  assert_int_equal(read_metadata(f, file, 22, &m, NULL), TSR_OK);
  assert_int_equal(tsr__fragment_metadata_statistics(&m, 1, file, NULL, &got, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "tile 1: offset 5 is above the next, 4"));
  close_metadata(&m, file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_slots_and_file_names_of_all_versions),
      TEST(test_tile_offsets_load),
      TEST(test_broken_tile_offsets_are_refused),
      TEST(test_lists_are_read_or_refused),
      TEST(test_statistics_load),
      TEST(test_broken_statistics_are_refused),
      TEST(test_fragment_statistics_load),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
