/* test_code_bounds.c: what the statistics of fragments prove about the codes of an attribute: where all of them end. */
#include "small_array.h"
#include "tessera_host.h"

#define A 1 /* the number of the field "a" */

static uint64_t end_of(tsr_array *array, uint64_t as_of) {
  tsr_snapshot *snapshot;
  uint64_t end;
  ok(tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, as_of, &snapshot, &error));
  ok(tsr_snapshot_codes_end(snapshot, A, &end, &error));
  tsr_snapshot_close(snapshot);
  return end;
}

static uint64_t end_of_all(tsr_array *array, uint64_t most) {
  const tsr_schema *schema;
  uint64_t end;
  ok(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error));
  ok(tsr_array_codes_end(array, &schema->fields[A], most, &end, &error));
  return end;
}

/* Writes two cells with these codes; `null`: the attribute "a" of the first one is null. */
static void write_codes(tsr_array *array, uint64_t time, int32_t first, int32_t second, bool null) {
  const tsr_writer_options options = {.time = time, .unsynced = true};
  static const int32_t x[] = {7, 8};
  const int32_t codes[] = {first, second};
  const uint8_t valid[] = {!null, 1};
  const tsr_column columns[3] = {{.values = x}, {.values = codes, .validity = null ? valid : NULL}, {.values = codes}};
  tsr_writer *writer;
  ok(tsr_writer_open(array, &options, &writer, &error));
  ok(tsr_writer_append(writer, columns, NULL, 2, &error));
  ok(tsr_writer_prepare(writer, &error));
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
}

static void codes_end_behind_the_greatest(void **state) {
  tsr_array *array = make_small(22, false, false);
  assert_int_equal(end_of(array, TSR_TIME_NOW), 0);
  write_codes(array, 20, 0, 0, false);
  assert_int_equal(end_of(array, TSR_TIME_NOW), 1);
  write_codes(array, 30, 2, 9, false);
  write_codes(array, 10, 4, 0, false); /* whichever fragment has it */
  assert_int_equal(end_of(array, 10), 5);
  assert_int_equal(end_of(array, 20), 5);
  assert_int_equal(end_of(array, TSR_TIME_NOW), 10);
  assert_int_equal(end_of_all(array, 3), 10);
  assert_true(end_of_all(array, 2) == UINT64_MAX); /* more fragments than are worth it */
  write_codes(array, 40, -1, 5, false); /* no label can be number -1 */
  assert_true(end_of(array, TSR_TIME_NOW) == UINT64_MAX);
  assert_int_equal(end_of(array, 30), 10);
  assert_true(end_of_all(array, 100) == UINT64_MAX); /* any state may be asked for */
  write_codes(array, 50, 3, 3, false);
  assert_true(end_of(array, TSR_TIME_NOW) == UINT64_MAX);
  tsr_array_close(array);
}

/* Fragments before format version 12 have no statistics. */
static void old_fragments_prove_nothing(void **state) {
  tsr_array *array = make_small(3, false, false);
  write_codes(array, 20, 4, 4, false);
  assert_true(end_of(array, TSR_TIME_NOW) == UINT64_MAX);
  assert_int_equal(end_of(array, 10), 0);
  tsr_array_close(array);
}

/* A null is none of the codes, but a query that asks whether there is one must look. */
static void nullable_attributes_prove_nothing(void **state) {
  static tsr_field fields[3];
  fields[0] = int32_dimension((char *)"x", 0, 99, 10);
  fields[1] = (tsr_field){.name = (char *)"a", .datatype = TSR_INT32, .values_per_cell = 1, .nullable = true};
  fields[2] = (tsr_field){.name = (char *)"n", .datatype = TSR_INT32, .values_per_cell = 1};
  const tsr_schema schema = {.capacity = 10, .dimension_count = 1, .attribute_count = 2, .fields = fields};
  const tsr_create_options options = {.unsynced = true};
  new_path();
  ok(tsr_array_create(environment, path, &schema, &options, &error));
  tsr_array *array = open_small();
  write_codes(array, 20, 4, 4, true);
  assert_true(end_of(array, TSR_TIME_NOW) == UINT64_MAX);
  tsr_array_close(array);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(codes_end_behind_the_greatest),
      cmocka_unit_test(old_fragments_prove_nothing),
      cmocka_unit_test(nullable_attributes_prove_nothing),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
