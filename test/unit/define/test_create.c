/* test_create.c: arrays that are prepared and not published yet. Only the process that creates such an array can
 * open it. They are published, abandoned or recovered, and can be written to before they are published.
 */

#include <stdio.h>
#include <string.h>

#include "array/array.h"
#include "read/reader.h"
#include "write/writer.h"
#include "disk_test.h"

static tsr_object_kind kind(void) {
  tsr_object_kind found;
  ok(tsr_object_find(environment, path, &found, &error));
  return found;
}

static tsr_enumeration onetwo = LABELS("e", TSR_ASCII, "onetwo", 0, 3, 6);

/* A dimension x and an enumerated attribute a; below version 20 it is a plain one. */
static tsr_creation *prepare_kind(uint32_t version, bool dense) {
  static tsr_field fields[2];
  fields[0] = int32_dimension("x", 1, 100, dense ? 10 : 0);
  fields[1] = (tsr_field){.name = "a", .datatype = TSR_UINT8, .values_per_cell = 1};
  tsr_schema schema = {
      .version = version, .dense = dense, .capacity = 10, .dimension_count = 1, .attribute_count = 1, .fields = fields};
  if (version >= 20) {
    schema.enumerations = &onetwo;
    schema.enumeration_count = 1;
    fields[1].enumeration = "e";
  }
  tsr_creation *creation = NULL;
  const tsr_create_options options = {.unsynced = true};
  new_path();
  ok(tsr_creation_prepare(environment, path, &schema, &options, &creation, &error));
  return creation;
}

static tsr_creation *prepare(uint32_t version) { return prepare_kind(version, false); }

static uint64_t count_fragments(tsr_array *array) {
  tsr_snapshot *snapshot = NULL;
  ok(tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, &error));
  uint64_t count = tsr_fragment_count(snapshot);
  tsr_snapshot_close(snapshot);
  return count;
}

static void test_prepared_array_is_invisible_until_published(void **state) {
  static const uint32_t versions[] = {3, 12, 22};
  for (int v = 0; v < 3; v++) {
    tsr_creation *creation = prepare(versions[v]);
    tsr_array *other = NULL, *array = NULL;
    assert_int_equal(kind(), TSR_OBJECT_NONE);
    assert_int_equal(tsr_array_open(environment, path, NULL, &other, &error), TSR_NOT_FOUND);
    const tsr_array_options options = {.creation = creation};
    ok(tsr_array_open(environment, path, &options, &array, &error));
    const tsr_schema *schema = NULL, *again = NULL;
    const tsr_enumeration *labels = NULL;
    ok(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error));
    assert_string_equal(schema->name, tsr_creation_schema_name(creation));
    assert_int_equal(schema->version, versions[v]);
    assert_int_equal(count_fragments(array), 0);
    ok(tsr_creation_publish(creation, &error));
    assert_int_equal(kind(), TSR_OBJECT_ARRAY);
    ok(tsr_array_schema(array, TSR_TIME_NOW, &again, &error)); /* the handle stays valid */
    assert_ptr_equal(again, schema);
    if (versions[v] >= 20) { /* its file was renamed before it is read for the first time */
      ok(tsr_array_enumeration(array, schema, "e", &labels, &error));
      assert_int_equal(labels->count, 2);
    }
    ok(tsr_array_open(environment, path, NULL, &other, &error));
    tsr_array_close(other);
    tsr_array_close(array);
    tsr_creation_close(creation);
  }
}

/* Each format version has its directories from the beginning, and none of later versions. */
static void test_arrays_have_the_directories_of_their_version(void **state) {
  static const struct {
    const char *name;
    uint32_t since;
  } directories[] = {{"__meta", 4},     {"__schema", 10},        {"__fragments", 12},
                     {"__commits", 12}, {"__fragment_meta", 12}, {"__labels", 18}};
  for (uint32_t version = 3; version <= 22; version = version == 3 ? 12 : version + 1) { /* others are only read */
    tsr_creation *creation = prepare(version);
    ok(tsr_creation_publish(creation, &error));
    tsr_creation_close(creation);
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
      char text[700];
      snprintf(text, sizeof text, "%s/%s", path, directories[i].name);
      if ((access(text, F_OK) == 0) != (version >= directories[i].since))
        fail_msg("version %d: %s", (int)version, directories[i].name);
    }
  }
}

static void test_enumeration_of_prepared_array_can_be_read(void **state) {
  tsr_creation *creation = prepare(22);
  const tsr_array_options options = {.creation = creation};
  tsr_array *array = NULL;
  const tsr_schema *schema = NULL;
  const tsr_enumeration *labels = NULL;
  ok(tsr_array_open(environment, path, &options, &array, &error));
  ok(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error));
  ok(tsr_array_enumeration(array, schema, "e", &labels, &error));
  assert_memory_equal(labels->data, "onetwo", 6);
  ok(tsr_creation_abandon(creation, &error));
  tsr_array *other = NULL;
  assert_int_equal(tsr_array_open(environment, path, &options, &other, &error), TSR_NOT_FOUND);
  tsr_array_close(array);
  tsr_creation_close(creation);
  assert_int_equal(access(path, F_OK), -1);
}

/* Abandoning a creation removes the directories above the array that it has made, unless other files are in them by
 * now. */
static void test_abandon_removes_parents_it_has_made(void **state) {
  char above[600];
  for (int used = 0; used < 2; used++) {
    tsr_creation *creation = NULL;
    tsr_field field = int32_dimension("x", 1, 9, 0);
    const tsr_schema schema = {.capacity = 10, .dimension_count = 1, .fields = &field};
    const tsr_create_options options = {.unsynced = true};
    snprintf(path, sizeof path, "%s/p%d/q//r/array", top, used);
    ok(tsr_creation_prepare(environment, path, &schema, &options, &creation, &error));
    snprintf(above, sizeof above, "%s/p%d/other", top, used);
    if (used) fclose(fopen(above, "w"));
    ok(tsr_creation_abandon(creation, &error));
    tsr_creation_close(creation);
    snprintf(above, sizeof above, "%s/p%d/q", top, used);
    assert_int_equal(access(above, F_OK), -1);
    snprintf(above, sizeof above, "%s/p%d", top, used);
    assert_int_equal(access(above, F_OK), used ? 0 : -1);
    assert_int_equal(access(top, F_OK), 0);
  }
}

/* A pipeline that is to cut no tiles is not given the usual size of chunks. */
static void test_pipelines_may_cut_nothing(void **state) {
  for (int uncut = 0; uncut < 2; uncut++) {
    tsr_creation *creation = NULL;
    tsr_array *array = NULL;
    const tsr_schema *schema = NULL;
    tsr_field fields[] = {int32_dimension("x", 1, 9, 0), {.name = "a", .datatype = TSR_INT32, .values_per_cell = 1}};
    fields[1].filters.uncut = uncut;
    const tsr_schema asked = {.capacity = 10, .dimension_count = 1, .attribute_count = 1, .fields = fields};
    const tsr_create_options options = {.unsynced = true};
    new_path();
    ok(tsr_creation_prepare(environment, path, &asked, &options, &creation, &error));
    ok(tsr_creation_publish(creation, &error));
    tsr_creation_close(creation);
    ok(tsr_array_open(environment, path, NULL, &array, &error));
    ok(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error));
    assert_int_equal(schema->fields[1].filters.max_chunk_size, uncut ? 0 : 65536);
    assert_int_equal(schema->fields[1].filters.uncut, uncut);
    tsr_array_close(array);
    ok(tsr_array_drop(environment, path, &error));
  }
}

/* Finds a creation by the name of its schema. Returns tsr_creation_find's result. */
static int find(const char *at, const char *name, tsr_creation **creation) {
  *creation = NULL;
  return tsr_creation_find(environment, at, name, creation, &error);
}

static void publish_found(const char *name) {
  tsr_creation *creation;
  assert_int_equal(find(path, name, &creation), 1);
  ok(tsr_creation_publish(creation, &error));
  tsr_creation_close(creation);
}

/* A creation that was closed without publishing stays on disk, and is found by its schema's name. Finding it and reading
 * it publishes nothing, and it cannot be abandoned. Names that no schema can have are refused. */
static void test_a_creation_is_found_by_name(void **state) {
  static const uint32_t versions[] = {3, 22};
  tsr_creation *found;
  for (int v = 0; v < 2; v++) {
    char name[128];
    tsr_creation *creation = prepare(versions[v]);
    snprintf(name, sizeof name, "%s", tsr_creation_schema_name(creation));
    tsr_creation_close(creation);
    assert_int_equal(kind(), TSR_OBJECT_NONE);
    assert_int_equal(find(path, "__1_1_00000000000000000000000000000000", &found), 0);
    assert_int_equal(find(path, name, &found), 1);
    const tsr_array_options options = {.creation = found};
    tsr_array *array = NULL;
    ok(tsr_array_open(environment, path, &options, &array, &error));
    ok(tsr_creation_abandon(found, &error));
    tsr_creation_close(found);
    assert_int_equal(kind(), TSR_OBJECT_NONE);
    publish_found(name);
    assert_int_equal(kind(), TSR_OBJECT_ARRAY);
    assert_int_equal(find(path, name, &found), 0);
    assert_int_equal(count_fragments(array), 0); /* the handle from before stays valid */
    tsr_array_close(array);
    ok(tsr_array_open(environment, path, NULL, &array, &error));
    tsr_array_close(array);
  }
  assert_int_equal(find("/nowhere", "__array_schema.tdb", &found), 0);
  static const char *const bad[] = {"", "../x", "__schema", "__1_1_ab/cd", "x"};
  for (int i = 0; i < 5; i++) assert_int_equal(find(path, bad[i], &found), TSR_CORRUPT);
}

/* Two processes publish the same creation: the second one fails, and the array is intact. */
static void test_second_publication_fails(void **state) {
  tsr_creation *creation = prepare(22);
  publish_found(tsr_creation_schema_name(creation));
  assert_true(tsr_creation_publish(creation, &error) < 0);
  tsr_creation_close(creation);
  assert_int_equal(kind(), TSR_OBJECT_ARRAY);
}

/* ---- Cells that are written before the array is published ---- */

#define CELLS 25 /* in three tiles */

static tsr_writer *write_cells(tsr_array *array, bool dense) {
  int32_t x[CELLS];
  uint8_t a[CELLS];
  tsr_writer *writer = NULL;
  const tsr_writer_options options = {.unsynced = true};
  for (int i = 0; i < CELLS; i++) {
    x[i] = 3 + i;
    a[i] = (uint8_t)(100 + i);
  }
  const tsr_column columns[2] = {{.values = x}, {.values = a}};
  ok(tsr_writer_open(array, &options, &writer, &error));
  if (dense) {
    tsr_interval box = {0};
    memcpy(box.low, &x[0], 4);
    memcpy(box.high, &x[CELLS - 1], 4);
    ok(tsr_writer_append_box(writer, &box, false, columns, &error));
  } else {
    ok(tsr_writer_append(writer, columns, NULL, CELLS, &error));
  }
  ok(tsr_writer_prepare(writer, &error));
  ok(tsr_writer_prepare(writer, &error)); /* as a COMMIT does that is tried again after SQLITE_BUSY */
  return writer;
}

/* Checks that all cells that the handle sees are those of write_cells, and returns how many they are. */
static uint64_t read_cells(tsr_array *array) {
  tsr_snapshot *snapshot = NULL;
  tsr_reader *reader = NULL;
  const tsr_column *x, *a;
  const tsr_batch *batch;
  uint64_t cells = 0;
  ok(tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, &error));
  ok(tsr_reader_open(snapshot, &reader, &error));
  const tsr_request request = {0};
  ok(tsr_reader_start(reader, &request, &error));
  int code;
  while ((code = tsr_reader_next(reader, &batch, &error)) > 0) {
    ok(tsr_reader_column(reader, 0, &x, &error));
    ok(tsr_reader_column(reader, 1, &a, &error));
    for (uint64_t r = 0; r < batch->count; r++, cells++) {
      uint64_t i = batch->selection ? batch->selection[r] : batch->first + r;
      assert_int_equal(((const int32_t *)x->values)[i], 3 + cells);
      assert_int_equal(((const uint8_t *)a->values)[i], 100 + cells);
    }
  }
  ok(code);
  tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
  return cells;
}

/* Publishes writer and creation in either order. If the writer is first, other processes see the cells as soon as they
 * see the array. */
static void publish_in_order(uint32_t version, bool dense, bool writer_first) {
  tsr_creation *creation = prepare_kind(version, dense);
  const tsr_array_options options = {.creation = creation};
  tsr_array *array = NULL, *other = NULL;
  ok(tsr_array_open(environment, path, &options, &array, &error));
  tsr_writer *writer = write_cells(array, dense);
  assert_int_equal(tsr_writer_fragment_count(writer), 1);
  assert_int_equal(read_cells(array), 0);
  assert_int_equal(kind(), TSR_OBJECT_NONE);
  if (writer_first) {
    ok(tsr_writer_publish(writer, &error));
    assert_int_equal(kind(), TSR_OBJECT_NONE);
    assert_int_equal(tsr_array_open(environment, path, NULL, &other, &error), TSR_NOT_FOUND);
    assert_int_equal(read_cells(array), CELLS);
    ok(tsr_creation_publish(creation, &error));
  } else {
    ok(tsr_creation_publish(creation, &error));
    ok(tsr_array_open(environment, path, NULL, &other, &error));
    assert_int_equal(read_cells(other), 0);
    tsr_array_close(other);
    ok(tsr_writer_publish(writer, &error));
  }
  tsr_writer_close(writer);
  tsr_creation_close(creation);
  assert_int_equal(read_cells(array), CELLS);
  ok(tsr_array_open(environment, path, NULL, &other, &error));
  assert_int_equal(read_cells(other), CELLS);
  tsr_array_close(other);
  writer = write_cells(array, dense); /* the handle stays valid */
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
  assert_int_equal(count_fragments(array), 2);
  tsr_array_close(array);
}

static const uint32_t all_versions[] = {3, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22};
#define ALL_VERSIONS (sizeof all_versions / sizeof *all_versions)

static void test_cells_written_before_publication_appear(void **state) {
  for (unsigned v = 0; v < ALL_VERSIONS; v++)
    for (int way = 0; way < 4; way++) publish_in_order(all_versions[v], way & 1, way & 2);
}

/* Nothing is left of an array whose creation is abandoned, whether its writer was published, abandoned, rewound or
 * closed. */
static void test_abandon_removes_written_cells(void **state) {
  for (unsigned v = 0; v < ALL_VERSIONS; v++)
    for (int way = 0; way < 8; way++) {
      bool dense = way & 1;
      tsr_creation *creation = prepare_kind(all_versions[v], dense);
      const tsr_array_options options = {.creation = creation};
      tsr_array *array = NULL;
      ok(tsr_array_open(environment, path, &options, &array, &error));
      tsr_writer *writer = write_cells(array, dense);
      if (way >> 1 == 1) ok(tsr_writer_publish(writer, &error));
      if (way >> 1 == 2) ok(tsr_writer_abandon(writer, &error));
      if (way >> 1 == 3 && !dense) ok(tsr_writer_rewind(writer, (tsr_mark){0}, &error));
      if (way & 2) tsr_writer_close(writer);
      ok(tsr_creation_abandon(creation, &error));
      if (!(way & 2)) tsr_writer_close(writer); /* closing it after the abandon is allowed, too */
      tsr_array_close(array);
      tsr_creation_close(creation);
      assert_int_equal(access(path, F_OK), -1);
    }
}

/* A process has died after it prepared an array and a commit. Recovery publishes the array by its name, and the commit
 * does not become visible by that. */
static void test_recovery_does_not_publish_prepared_cells(void **state) {
  tsr_creation *creation = prepare(22);
  const tsr_array_options options = {.creation = creation};
  char name[128];
  tsr_array *array = NULL;
  ok(tsr_array_open(environment, path, &options, &array, &error));
  tsr_writer *writer = write_cells(array, false);
  snprintf(name, sizeof name, "%s", tsr_creation_schema_name(creation));
  tsr_writer_close(writer);
  tsr_array_close(array);
  tsr_creation_close(creation);
  publish_found(name);
  ok(tsr_array_open(environment, path, NULL, &array, &error));
  assert_int_equal(count_fragments(array), 0);
  tsr_array_close(array);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_prepared_array_is_invisible_until_published),
      cmocka_unit_test(test_arrays_have_the_directories_of_their_version),
      cmocka_unit_test(test_enumeration_of_prepared_array_can_be_read),
      cmocka_unit_test(test_abandon_removes_parents_it_has_made),
      cmocka_unit_test(test_pipelines_may_cut_nothing),
      cmocka_unit_test(test_a_creation_is_found_by_name),
      cmocka_unit_test(test_second_publication_fails),
      cmocka_unit_test(test_cells_written_before_publication_appear),
      cmocka_unit_test(test_abandon_removes_written_cells),
      cmocka_unit_test(test_recovery_does_not_publish_prepared_cells),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
