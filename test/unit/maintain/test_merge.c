/* test_merge.c: a merge applies the same delete conditions to its cells as readers do, also conditions on
 * attributes that were added later, dropped, or added again with another type; and a merged fragment whose cells have no
 * times keeps its place among others beside a prepared commit.
 */

#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "format/condition.h"
#include "format/schema.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"
#include "define/define.h"
#include "small_array.h"

/* Writes a delete condition as TileDB does. `kept` is the comparison that holds for the cells to keep. */
static void delete_where(tsr_array *array, uint64_t time, tsr_condition_op kept, const char *field, const void *value,
                         uint64_t size) {
  tsr_buffer content = {.memory = &environment->memory}, tile = {.memory = &environment->memory};
  tsr_store *store = array->store;
  tsr_file *file;
  char name[160];
  snprintf(name, sizeof name, "__commits/__%u_%u_%032u_22.del", (unsigned)time, (unsigned)time, (unsigned)time);
  ok(tsr__condition_put_comparison(kept, field, value, size, &content, &error));
  ok(tsr__generic_tile_encode(content.data, content.size, 22, NULL, &tile, &error));
  ok(tsr__store_create_exclusive(store, name, &file, &error));
  ok(tsr__store_append(file, tile.data, tile.size, &error));
  tsr__store_close_file(file);
  tsr__buffer_release(&content);
  tsr__buffer_release(&tile);
}

/* Adds an attribute as TileDB does, without the check of earlier attributes of the same name. */
static void add_attribute(tsr_array *array, const char *name, tsr_datatype datatype) {
  const tsr_schema *old;
  tsr_schema schema, complete;
  tsr_field fields[8];
  tsr_arena arena;
  tsr_buffer content = {.memory = &environment->memory};
  char before[128], published[128];
  ok(tsr__log_list(&array->log, false, true, &error));
  const tsr_commit_list *list = &array->log.listing->schemas;
  snprintf(before, sizeof before, "%s", list->items[list->count - 1].name);
  ok(tsr__array_schema_by_name(array, before, &old, &error));
  const uint32_t count = old->dimension_count + old->attribute_count;
  memcpy(fields, old->fields, count * sizeof *fields);
  fields[count] = (tsr_field){.name = (char *)(uintptr_t)name, .datatype = datatype, .values_per_cell = 1};
  schema = *old;
  schema.fields = fields;
  schema.attribute_count++;
  tsr__arena_init(&arena, &environment->memory);
  ok(tsr__schema_complete(&schema, &arena, &complete, &error));
  ok(tsr__schema_encode(&complete, &content, &error));
  assert_int_equal(tsr__schema_publish(array, before, complete.version, &content, published, &error), 1);
  tsr__buffer_release(&content);
  tsr__arena_release(&arena);
}

/* Checks that reads give the same cells before a merge, after it, and after a vacuum. */
static void merge_and_compare(tsr_array *array, uint64_t fragments, const char *expected) {
  assert_string_equal(cells_of(array, TSR_TIME_NOW), expected);
  assert_int_equal(merge_small(array), fragments);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), expected);
  uint64_t removed;
  ok(tsr_array_vacuum(array, TSR_MAINTAIN_ALL, NULL, &removed, &error));
  assert_string_equal(cells_of(array, TSR_TIME_NOW), expected);
  tsr_array_close(array);
  remove_tree(path);
}

/* A condition on an attribute that some fragments lack: every comparison is false there, so their cells are deleted. */
static void test_condition_on_added_attribute(void **state) {
  const int32_t value = 3005;
  tsr_array *array = make_small(22, false, false);
  write_small(array, 10, 1, 2, NULL);
  write_small(array, 20, 3, 4, NULL);
  add_attribute(array, "later", TSR_INT32);
  write_small(array, 30, 5, 6, NULL);
  delete_where(array, 40, TSR_NE, "later", &value, 4);
  write_small(array, 50, 4, 4, NULL);
  merge_and_compare(array, 4, "4=5004 6=3006 ");
}

/* A condition on an attribute that was dropped later; in the second array no fragment has it. */
static void test_condition_on_dropped_attribute(void **state) {
  const int32_t value = 1002;
  tsr_array *array = make_small(22, false, false);
  write_small(array, 10, 1, 2, NULL);
  write_small(array, 20, 3, 4, NULL);
  delete_where(array, 40, TSR_NE, "n", &value, 4);
  ok(tsr_array_drop_attribute(array, "n", &error));
  merge_and_compare(array, 2, "1=1001 3=2003 4=2004 ");

  array = make_small(22, false, false);
  write_small(array, 10, 1, 2, NULL);
  write_small(array, 20, 3, 4, NULL);
  add_attribute(array, "later", TSR_INT32);
  delete_where(array, 40, TSR_NE, "later", &value, 4);
  ok(tsr_array_drop_attribute(array, "later", &error));
  write_small(array, 50, 4, 4, NULL);
  merge_and_compare(array, 3, "4=5004 ");
}

/* A condition on an attribute that was dropped and added again with another type: old cells are compared in their own
 * type, as in TileDB. */
static void test_condition_on_attribute_of_another_type(void **state) {
  static const tsr_datatype types[] = {TSR_FLOAT32, TSR_UINT32, TSR_FLOAT64, TSR_INT8};
  const int32_t value = 1002;
  for (int t = 0; t < 4; t++) {
    tsr_array *array = make_small(22, false, false);
    write_small(array, 10, 1, 2, NULL);
    write_small(array, 20, 3, 4, NULL);
    delete_where(array, 40, TSR_NE, "n", &value, 4);
    ok(tsr_array_drop_attribute(array, "n", &error));
    add_attribute(array, "n", types[t]);
    merge_and_compare(array, 2, "1=1001 3=2003 4=2004 ");
  }
}

/* A condition whose value has another size than the old cells: for the condition, these cells lack the attribute. */
static void test_condition_of_another_size(void **state) {
  const double value = 7;
  tsr_array *array = make_small(22, false, false);
  write_small(array, 10, 1, 2, NULL);
  write_small(array, 20, 3, 4, NULL);
  ok(tsr_array_drop_attribute(array, "n", &error));
  add_attribute(array, "n", TSR_FLOAT64);
  delete_where(array, 40, TSR_NE, "n", &value, 8);
  write_small(array, 50, 4, 4, NULL);
  merge_and_compare(array, 2, "4=5004 ");

  array = make_small(22, false, false); /* the same, and then the attribute gets its first type again */
  write_small(array, 10, 1, 2, NULL);
  write_small(array, 20, 3, 4, NULL);
  ok(tsr_array_drop_attribute(array, "n", &error));
  add_attribute(array, "n", TSR_FLOAT64);
  delete_where(array, 40, TSR_NE, "n", &value, 8);
  ok(tsr_array_drop_attribute(array, "n", &error));
  add_attribute(array, "n", TSR_INT32);
  write_small(array, 50, 4, 4, NULL);
  merge_and_compare(array, 3, "4=5004 ");
}

/* A condition on a field that no schema ever had is an error, in reads as in merges. */
static void test_condition_on_unknown_field_fails(void **state) {
  const int32_t value = 1;
  uint64_t merged;
  tsr_array *array = make_small(22, false, false);
  write_small(array, 10, 1, 2, NULL);
  write_small(array, 20, 3, 4, NULL);
  delete_where(array, 40, TSR_NE, "never", &value, 4);
  assert_non_null(strstr(cells_of(array, TSR_TIME_NOW), "it names the field 'never', which the array lacks"));
  refused(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, NULL, &merged, &error), TSR_ERROR,
          "it names the field 'never', which the array lacks");
  tsr_array_close(array);
  remove_tree(path);
}

static int counts_all(void *argument, const char *commit, tsr_error *why) { return 1; }

/* A merged fragment of an old version spans a prepared commit, so it counts as newer than that one, in all its cells.
 * The order of all others stays as it is. */
static void test_merge_around_a_prepared_commit(void **state) {
  uint64_t removed;
  tsr_array *array = make_small(12, false, false), *reader;
  write_small(array, 10, 1, 3, NULL);
  write_small(array, 30, 1, 1, NULL);
  assert_int_equal(merge_small(array), 2);
  ok(tsr_array_vacuum(array, TSR_MAINTAIN_FRAGMENTS, NULL, &removed, &error)); /* else the sources are shown */
  write_small(array, 21, 2, 2, NULL);
  write_small(array, 40, 4, 5, NULL);
  write_small(array, 50, 4, 4, NULL);
  const char *const without = "1=3001 2=2102 3=1003 4=5004 5=4005 ";
  assert_string_equal(cells_of(array, TSR_TIME_NOW), without);
  tsr_writer *prepared = prepare_small(array, 20, 1, 6, "me", NULL);
  const tsr_array_host host = {.committed = counts_all};
  const tsr_array_options options = {.threads = 1, .host = &host};
  ok(tsr_array_open(environment, path, &options, &reader, &error));
  assert_string_equal(cells_of(reader, TSR_TIME_NOW), "1=3001 2=2102 3=1003 4=5004 5=4005 6=2006 ");
  static const uint64_t starts[] = {20, 10, 21, 40, 50}; /* oldest first, with the merged one behind the prepared one */
  tsr_snapshot *snapshot;
  ok(tsr_snapshot_open(reader, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
  assert_int_equal(snapshot->fragment_count, 5);
  for (int i = 0; i < 5; i++) assert_int_equal(snapshot->fragments[i].fragment->parsed.start, starts[i]);
  tsr_snapshot_close(snapshot);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), without); /* to its own array the commit does not count yet */
  tsr_array_close(reader);
  ok(tsr_writer_abandon(prepared, &error));
  tsr_writer_close(prepared);
  tsr_array_close(array);
  remove_tree(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_condition_on_added_attribute),
      cmocka_unit_test(test_condition_on_dropped_attribute),
      cmocka_unit_test(test_condition_on_attribute_of_another_type),
      cmocka_unit_test(test_condition_of_another_size),
      cmocka_unit_test(test_condition_on_unknown_field_fails),
      cmocka_unit_test(test_merge_around_a_prepared_commit),
  };
  return cmocka_run_group_tests(tests, setup, teardown_empty);
}
