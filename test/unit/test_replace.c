/* test_replace.c: merges beside what others prepare, commit and vacuum meanwhile, one call of the store apart. */
#include "small_array.h"

/* ---- What may still be committed ------------------------------------------------------------- */

/* A commit that was prepared, and lay a week as its process had died, is published: it lies between what was written before
 * it and after. */
static void test_prepared_long_ago(void **state) {
  static const uint32_t versions[] = {22, 12};
  for (int v = 0; v < 2; v++) {
    tsr_array *array = make_small(versions[v], true, false);
    char middle[128], place[200], expected[4096];
    write_small(array, 10, 0, 19, NULL);
    tsr_writer *writer = prepare_small(array, 20, 5, 9, "/elsewhere.db", middle);
    write_small(array, 30, 8, 19, NULL);
    snprintf(place, sizeof place, "__fragments/%s", middle);
    age(place);
    tsr_array *other = open_small();
    assert_int_equal(merge_small(other), 0);
    ok(tsr_writer_publish(writer, &error));
    tsr_writer_close(writer);
    snprintf(expected, sizeof expected, "%s", cells_of(array, TSR_TIME_NOW));
    assert_non_null(strstr(expected, "7=2007 8=3008 "));
    assert_int_equal(merge_small(other), 3);
    assert_string_equal(cells_of(other, TSR_TIME_NOW), expected);
    tsr_array_close(other);
    tsr_array_close(array);
    remove_tree(path);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_prepared_long_ago)};
  return cmocka_run_group_tests(tests, setup, teardown_empty);
}
