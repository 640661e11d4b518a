/* test_open_metadata.c: metadata merged over files: the last of each key counts, deletions, times, damage, no memory.
 */

#include <stdio.h>
#include <string.h>

#include "crypto/crypto.h"
#include "array/array.h"
#include "inside_test.h"

/* An entry: a UINT8 value, or with value < 0 a deletion. */
static void put_entry(tsr_buffer *b, const void *key, uint32_t size, int value) {
  tiny_u32(b, size);
  tiny_bytes(b, key, size);
  tiny_u8(b, value < 0);
  if (value < 0) return;
  tiny_u8(b, TSR_UINT8);
  tiny_u32(b, 1);
  tiny_u8(b, (uint8_t)value);
}

typedef struct entry {
  const char *key;
  int value;
} entry;
static void put_file(const char *name, const entry *entries) {
  tsr_buffer b = {.memory = &own};
  char path[128];
  for (; entries->key; entries++) put_entry(&b, entries->key, (uint32_t)strlen(entries->key), entries->value);
  snprintf(path, sizeof path, "__meta/%s" U, name);
  tiny_put_generic(store, path, &b);
  tsr__buffer_release(&b);
}

/* "key=value key=value", in order. */
static const char *shown(uint64_t since, uint64_t as_of) {
  static char text[512];
  tsr_metadata *metadata = NULL;
  if (tsr__metadata_open(environment, store, NULL, NULL, since, as_of, &metadata, &error) < 0) return error.message;
  text[0] = '\0';
  for (uint64_t i = 0; i < metadata->count; i++) {
    const tsr_metadatum *m = &metadata->entries[i];
    assert_int_equal(m->datatype, TSR_UINT8);
    assert_int_equal(m->count, 1);
    assert_int_equal(m->value_size, 1);
    assert_int_equal(m->key[m->key_size], 0);
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s=%u", i ? " " : "", m->key,
             *(const uint8_t *)m->value);
  }
  tsr_metadata_close(metadata);
  return text;
}

static void test_last_entry_of_a_key_counts(void **state) {
  assert_string_equal(shown(0, TSR_TIME_NOW), "");
  put_file("__20_20", (const entry[]){{"b", 2}, {"a", -1}, {"c", 7}, {"c", -1}, {NULL, 0}});
  put_file("__9_9", (const entry[]){{"a", 1}, {"b", 1}, {"b", 3}, {"", 9}, {NULL, 0}});
  put_file("__30_30", (const entry[]){{"a", 5}, {"B", 6}, {NULL, 0}});
  assert_string_equal(shown(0, 9), "=9 a=1 b=3");
  assert_string_equal(shown(0, 29), "=9 b=2");
  assert_string_equal(shown(0, TSR_TIME_NOW), "=9 B=6 a=5 b=2");
  assert_string_equal(shown(20, 30), "B=6 a=5 b=2");
  assert_string_equal(shown(20, 20), "b=2");
  put_file("__9_20", (const entry[]){{"", 9}, {"b", 2}, {NULL, 0}});
  tiny_text(store, "__meta/__9_20" U ".vac", "/__meta/__9_9" U "\n/__meta/__20_20" U "\n");
  assert_string_equal(shown(0, 20), "=9 b=2");
  assert_string_equal(shown(0, 9), "=9 a=1 b=3");
}

/* Keys are bytes: a NUL within, and one key that begins as another. */
static void test_keys_are_any_bytes(void **state) {
  tsr_buffer b = {.memory = &own};
  put_entry(&b, "k\0z", 3, 3);
  put_entry(&b, "k", 1, 1);
  put_entry(&b, "k\0a", 3, 2);
  put_entry(&b, "k\0a", 3, 4);
  tiny_put_generic(store, "__meta/__1_1" U, &b);
  tsr__buffer_release(&b);
  tsr_metadata *metadata;
  assert_int_equal(tsr__metadata_open(environment, store, NULL, NULL, 0, 1, &metadata, NULL), TSR_OK);
  static const uint8_t values[] = {1, 4, 3};
  assert_int_equal(metadata->count, 3);
  for (int i = 0; i < 3; i++) assert_int_equal(*(const uint8_t *)metadata->entries[i].value, values[i]);
  assert_int_equal(metadata->entries[1].key_size, 3);
  tsr_metadata_close(metadata);
  tsr_metadata_close(NULL);
}

static void test_damaged_files_are_refused(void **state) {
  static const uint8_t key[TSR_KEY_SIZE];
  tsr_metadata *metadata;
  put_file("__1_1", (const entry[]){{"a", 1}, {NULL, 0}});
  assert_int_equal(tsr__metadata_open(environment, store, key, NULL, 0, 9, &metadata, &error), TSR_AUTH);
  assert_non_null(strstr(error.message, "not encrypted"));
  tsr_buffer b = {.memory = &own};
  tiny_u32(&b, 99);
  tiny_put_generic(store, "__meta/__2_2" U, &b);
  tsr__buffer_release(&b);
  assert_int_equal(tsr__metadata_open(environment, store, NULL, NULL, 0, 9, &metadata, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "tiny/__meta/__2_2"));
  assert_string_equal(shown(0, 1), "a=1");
}

static void test_no_memory(void **state) {
  put_file("__1_1", (const entry[]){{"a", 1}, {"b", 1}, {NULL, 0}});
  put_file("__2_2", (const entry[]){{"a", 2}, {NULL, 0}});
  tsr_metadata *metadata;
  int before = counted.blocks;
  for (long n = 0;; n++) {
    counted.left = n;
    int code = tsr__metadata_open(environment, store, NULL, NULL, 0, 9, &metadata, &error);
    counted.left = -1;
    if (code == TSR_OK) {
      assert_true(n > 2);
      break;
    }
    assert_int_equal(code, TSR_NOMEM);
    assert_int_equal(counted.blocks, before);
  }
  tsr_metadata_close(metadata);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_last_entry_of_a_key_counts, setup, teardown),
      cmocka_unit_test_setup_teardown(test_keys_are_any_bytes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_damaged_files_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
