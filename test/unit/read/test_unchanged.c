/* test_unchanged.c: what is left of the cells of a state if those that an earlier one shows with the same values are
 * taken out: all that differ, and none that is the same in a batch of more than a few cells. */
#include <string.h>

#include "array/array.h"
#include "read/reader.h"
#include "tessera_host.h"
#include "write/writer.h"
#include "disk_test.h"

#define CELLS 5000 /* a tile; more than the keys that are made at once */

static int32_t values[CELLS];
static uint8_t valid[CELLS];

static tsr_array *make_line(void) {
  static tsr_field fields[3];
  static const int32_t extent = CELLS;
  const tsr_array_options one = {.threads = 1};
  const tsr_create_options options = {.unsynced = true};
  tsr_array *array = NULL;
  fields[0] = int32_dimension((char *)"x", -10, 2 * CELLS - 11, 1);
  memcpy(fields[0].extent, &extent, sizeof extent);
  fields[1] = (tsr_field){.name = (char *)"a", .datatype = TSR_INT32, .values_per_cell = 1};
  fields[2] = (tsr_field){.name = (char *)"n", .datatype = TSR_INT32, .values_per_cell = 1, .nullable = true};
  const tsr_schema schema = {.dense = true, .dimension_count = 1, .attribute_count = 2, .fields = fields};
  new_path();
  ok(tsr_array_create(environment, path, &schema, &options, &error));
  ok(tsr_array_open(environment, path, &one, &array, &error));
  return array;
}

/* Writes the first tile: "a" and "n" have `values`, and "n" is null where `valid` is 0. */
static void write_tile(tsr_array *array, uint64_t time) {
  const tsr_writer_options options = {.time = time, .unsynced = true};
  const tsr_column columns[3] = {[1] = {.values = values}, [2] = {.values = values, .validity = valid}};
  tsr_interval box = {{0}, {0}, NULL, NULL, 0, 0};
  static const int32_t low = -10, high = CELLS - 11;
  tsr_writer *writer;
  memcpy(box.low, &low, sizeof low);
  memcpy(box.high, &high, sizeof high);
  ok(tsr_writer_open(array, &options, &writer, &error));
  ok(tsr_writer_append_box(writer, &box, false, columns, &error));
  ok(tsr_writer_prepare(writer, &error));
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
}

/* Prints the coordinates, less the low end of the domain, of what is left of a state beside that at 10. */
static const char *left_of(tsr_array *array, uint64_t as_of, bool a, bool n) {
  static char text[400];
  const bool compared[3] = {false, a, n};
  tsr_snapshot *before, *after;
  tsr_unchanged *unchanged;
  tsr_reader *reader;
  const tsr_batch *batch;
  size_t size = 0;
  int rc;
  *text = 0;
  ok(tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, 10, &before, &error));
  ok(tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, as_of, &after, &error));
  ok(tsr_unchanged_open(before, NULL, compared, 0, &unchanged, &error));
  ok(tsr_reader_open(after, &reader, &error));
  ok(tsr_reader_start(reader, NULL, &error));
  while ((rc = tsr_unchanged_next(unchanged, reader, &batch, &error)) > 0) {
    const tsr_column *x;
    if (!batch->written) continue;
    ok(tsr_reader_column(reader, 0, &x, &error));
    for (uint64_t i = 0; i < batch->count; i++) {
      const uint64_t at = tsr_batch_index(batch, i);
      assert_true(size + 20 < sizeof text);
      size += (size_t)snprintf(text + size, sizeof text - size, "%d ",
                               (int)((const int32_t *)x->values)[x->constant ? 0 : at] + 10);
    }
  }
  ok(rc);
  tsr_reader_close(reader);
  tsr_unchanged_close(unchanged);
  tsr_snapshot_close(before);
  tsr_snapshot_close(after);
  return text;
}

static void set_all(void) {
  for (int i = 0; i < CELLS; i++) {
    values[i] = i * 3;
    valid[i] = i % 7 != 0;
  }
}

static void what_differs_is_left(void **state) {
  tsr_array *array = make_line();
  set_all();
  write_tile(array, 10);
  for (int i = 0; i < CELLS; i++) values[i] = valid[i] ? values[i] : -1; /* what lies under a null is no value */
  values[1] = -2;
  values[2047] = -2;
  values[2048] = -2;
  values[4097] = -2;
  values[4999] = -2;
  valid[3] = 0; /* a value becomes null */
  valid[7] = 1; /* and a null a value */
  write_tile(array, 20);
  assert_string_equal(left_of(array, 20, false, true), "1 3 7 2047 2048 4097 4999 ");
  set_all();
  values[5] = values[2053] = 0;
  write_tile(array, 30);
  assert_string_equal(left_of(array, 30, true, false), "5 2053 ");
  assert_string_equal(left_of(array, 30, true, true), "5 2053 ");
  assert_string_equal(left_of(array, 30, false, false), "");
  tsr_array_close(array);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_differs_is_left)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
