/* test_timestamped_directory.c: which files of __meta and __group are in view, and in which order. */

#include <string.h>

#include "environment/environment.h"
#include "log/log.h"
#include "inside_test.h"

static tsr_arena arena;

/* Their names, joined by blanks. */
static const char *listed(uint64_t since, uint64_t as_of) {
  static char text[512];
  tsr_timestamped_files files;
  tsr__arena_init(&arena, &environment->memory);
  if (tsr__timestamped_files(environment, store, "__meta", NULL, since, as_of, &arena, &files, &error) < 0)
    fail_msg("%s", error.message);
  text[0] = '\0';
  for (uint64_t i = 0; i < files.count; i++) {
    assert_memory_equal(files.paths[i], "__meta/__", 9);
    strcat(strcat(text, i ? " " : ""), files.paths[i] + 7);
    text[strlen(text) - strlen(U)] = '\0';
  }
  tsr__arena_release(&arena);
  return text;
}

static void test_missing_directory_has_no_files(void **state) {
  assert_string_equal(listed(0, TSR_TIME_NOW), "");
  tiny_text(store, "__schema/x", "");
  assert_string_equal(listed(0, TSR_TIME_NOW), "");
}

/* By time, not as text; other names are not looked at, nor are directories. */
static void test_files_are_in_order_of_time(void **state) {
  tiny_text(store, "__meta/__10_10" U, "");
  tiny_text(store, "__meta/__9_9" U, "");
  tiny_text(store, "__meta/__4102444800000_4102444800000" U, "");
  tiny_text(store, "__meta/__12_12" U ".tmp", "");
  tiny_text(store, "__meta/notes", "");
  tiny_text(store, "__meta/__11_11" U "/inner", "");
  assert_string_equal(listed(0, TSR_TIME_NOW), "__9_9 __10_10");
  assert_string_equal(listed(0, UINT64_MAX - 1), "__9_9 __10_10 __4102444800000_4102444800000");
  assert_string_equal(listed(0, 9), "__9_9");
  assert_string_equal(listed(10, 10), "__10_10");
  assert_string_equal(listed(11, 8), "");
}

/* A consolidated file counts with its whole range; its .vac hides what it names, by the last part of each line. */
static void test_vac_hides_files_in_view(void **state) {
  tiny_text(store, "__meta/__1_1" U, "");
  tiny_text(store, "__meta/__2_2" U, "");
  tiny_text(store, "__meta/__3_3" U, "");
  tiny_text(store, "__meta/__1_2" U, "");
  tiny_text(store, "__meta/__1_2" U ".vac", "file:///elsewhere/__meta/__1_1" U "\n/__meta/__2_2" U);
  assert_string_equal(listed(0, TSR_TIME_NOW), "__1_2 __3_3");
  assert_string_equal(listed(0, 1), "__1_1");
  assert_string_equal(listed(2, 3), "__2_2 __3_3");
  tiny_text(store, "__meta/__1_2" U ".vac", "");
  assert_string_equal(listed(0, 2), "__1_1 __1_2 __2_2");
}

static void test_damaged_vac_is_refused(void **state) {
  tsr_timestamped_files files;
  tiny_text(store, "__meta/__1_2" U ".vac", "__meta/..\n");
  tsr__arena_init(&arena, &environment->memory);
  assert_int_equal(tsr__timestamped_files(environment, store, "__meta", NULL, 0, 9, &arena, &files, &error),
                   TSR_CORRUPT);
  assert_non_null(strstr(error.message, "tiny/__meta/__1_2" U ".vac"));
  assert_int_equal(tsr__timestamped_files(environment, store, "__meta", NULL, 0, 1, &arena, &files, &error),
                   TSR_OK); /* not in view */
  tsr__arena_release(&arena);
}

/* Of what has happened: a file from the future is none of it. */
static void test_last_file_is_the_latest_until_now(void **state) {
  uint64_t last = 7;
  assert_int_equal(tsr__timestamped_last(store, "__group", &last, &error), TSR_OK);
  assert_int_equal(last, 0);
  tiny_text(store, "__group/__9_9" U, "");
  tiny_text(store, "__group/__2_12" U, "");
  tiny_text(store, "__group/__4102444800000_4102444800000" U, "");
  tiny_text(store, "__group/notes", "");
  assert_int_equal(tsr__timestamped_last(store, "__group", &last, &error), TSR_OK);
  assert_int_equal(last, 12);
}

/* A file is staged whole and durable: the rename that follows must not be durable before its bytes are. */
static const tsr_store_methods *plain;
static uint64_t syncs;
static int count_sync(tsr_file *file, tsr_error *e) {
  syncs++;
  return plain->sync(file, e);
}
static void test_staged_files_are_durable(void **state) {
  static tsr_store_methods methods;
  char staged[TSR_STAGED_SIZE];
  tsr_buffer content = buffer_of("content", 7);
  plain = store->methods;
  methods = *plain;
  methods.sync = count_sync;
  store->methods = &methods;
  syncs = 0;
  assert_int_equal(tsr__write_staged(store, NULL, 22, &content, staged, &error), TSR_OK);
  assert_int_equal(syncs, 1);
  assert_true(tsr__store_exists(store, staged));
  tsr__buffer_release(&content);
  store->methods = plain;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_missing_directory_has_no_files, setup, teardown),
      cmocka_unit_test_setup_teardown(test_files_are_in_order_of_time, setup, teardown),
      cmocka_unit_test_setup_teardown(test_vac_hides_files_in_view, setup, teardown),
      cmocka_unit_test_setup_teardown(test_damaged_vac_is_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_last_file_is_the_latest_until_now, setup, teardown),
      cmocka_unit_test_setup_teardown(test_staged_files_are_durable, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
