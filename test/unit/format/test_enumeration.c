/* test_enumeration.c: labels of fixed and variable size; each rule of the format is broken once. */

#include <stdlib.h>
#include <string.h>

#include "format/enumeration.h"
#include "format_test.h"

static bytes build(const char *name, uint8_t datatype, uint32_t values, uint8_t ordered, const void *data,
                   uint64_t size) {
  bytes b = {0};
  put32(&b, 0), put_text32(&b, name), put_text32(&b, "__file_0");
  put8(&b, datatype), put32(&b, values), put8(&b, ordered);
  put64(&b, size), put(&b, data, size);
  return b;
}

static bytes build_strings(const char *text, const uint64_t *offsets, uint64_t count) {
  bytes b = build("colours", TSR_UTF8, TSR_VARIABLE, 1, text, strlen(text));
  put64(&b, 8 * count), put(&b, offsets, 8 * count);
  return b;
}

static int decode_into(tsr_input in, tsr_arena *arena, tsr_enumeration *e, tsr_error *error) {
  *e = (tsr_enumeration){.name = (char *)"colours", .file = (char *)"__file_0"};
  int code = tsr__enumeration_decode(&in, arena, e, error);
  assert_int_equal(e->loaded, code >= 0);
  return code;
}
static int decode(tsr_input in, tsr_arena *arena, tsr_error *error) {
  tsr_enumeration e;
  return decode_into(in, arena, &e, error);
}

static void open_enumeration(room *r, const bytes *b, tsr_enumeration *e) {
  room_open(r, UINT64_MAX);
  tsr_error error = {0};
  if (decode_into(tsr__input(b->data, b->size), &r->arena, e, &error) < 0) fail_msg("%s", error.message);
}

static void test_string_labels_decode(void **state) {
  const uint64_t offsets[] = {0, 3, 3, 8};
  bytes b = build_strings("redgreenblue", offsets, 4);
  room r;
  tsr_enumeration e;
  open_enumeration(&r, &b, &e);
  drop(&b); /* nothing is borrowed */
  assert_int_equal(e.count, 4);
  assert_int_equal(e.datatype, TSR_UTF8);
  assert_int_equal(e.values_per_label, TSR_VARIABLE);
  assert_true(e.ordered);
  const char *labels[] = {"red", "", "green", "blue"};
  for (int i = 0; i < 4; i++) {
    assert_int_equal(e.offsets[i + 1] - e.offsets[i], strlen(labels[i]));
    assert_memory_equal(e.data + e.offsets[i], labels[i], strlen(labels[i]));
  }
  room_close(&r);
}

static void test_labels_of_fixed_size_decode(void **state) {
  const int16_t pairs[] = {1, 2, 1, 3, -1, -1};
  bytes b = build("colours", TSR_INT16, 2, 0, pairs, sizeof pairs);
  room r;
  tsr_enumeration e;
  open_enumeration(&r, &b, &e);
  assert_int_equal(e.count, 3);
  assert_false(e.ordered);
  for (int i = 0; i <= 3; i++) assert_int_equal(e.offsets[i], 4 * i);
  assert_memory_equal(e.data, pairs, sizeof pairs);
  room_close(&r);
  drop(&b);
}

static void test_few_labels_decode(void **state) {
  bytes none = build_strings("", NULL, 0), fixed = build("colours", TSR_INT64, 1, 0, "", 0);
  const uint64_t zero = 0;
  bytes empty = build_strings("", &zero, 1);
  room r;
  tsr_enumeration e;
  open_enumeration(&r, &none, &e);
  assert_int_equal(e.count, 0);
  assert_int_equal(e.offsets[0], 0);
  room_close(&r);
  open_enumeration(&r, &fixed, &e);
  assert_int_equal(e.count, 0);
  room_close(&r);
  open_enumeration(&r, &empty, &e);
  assert_int_equal(e.count, 1);
  assert_int_equal(e.offsets[1], 0);
  room_close(&r);
  drop(&none), drop(&fixed), drop(&empty);
}

/* As many labels as a UINT16 can number. */
static void test_many_labels_decode(void **state) {
  uint32_t count = 65534;
  uint32_t *labels = malloc(count * sizeof *labels);
  for (uint32_t i = 0; i < count; i++) labels[i] = i * 2654435761u;
  bytes b = build("colours", TSR_UINT32, 1, 0, labels, count * sizeof *labels);
  assert_accepted(decode, &b);
  memcpy(b.data + b.size - 4, labels + 1000, 4);
  assert_refused(decode, &b, TSR_CORRUPT, "two labels are the same");
  drop(&b);
  free(labels);
}

static void test_broken_enumerations_are_refused(void **state) {
  const uint64_t falls[] = {0, 5, 3}, beyond[] = {0, 13}, same[] = {0, 1, 2}, good[] = {0, 3};
  bytes b = build_strings("redgreenblue", falls, 3);
  assert_refused(decode, &b, TSR_CORRUPT, "label 1 ends before it begins");
  drop(&b);
  b = build_strings("redgreenblue", beyond, 2);
  assert_refused(decode, &b, TSR_CORRUPT, "label 1 ends before it begins");
  drop(&b);
  b = build_strings("aab", same, 3);
  assert_refused(decode, &b, TSR_CORRUPT, "two labels are the same, 'a'");
  drop(&b);
  b = build_strings("red", NULL, 0);
  assert_refused(decode, &b, TSR_CORRUPT, "0 bytes of offsets");
  drop(&b);
  b = build_strings("redgreen", good, 2);
  assert_accepted(decode, &b);
  b.data[b.size - 24] = 12;
  b.size -= 4;
  assert_refused(decode, &b, TSR_CORRUPT, "12 bytes of offsets");
  drop(&b);

  b = build("other", TSR_INT32, 1, 0, "abcd", 4);
  assert_refused(decode, &b, TSR_CORRUPT, "named 'other'");
  drop(&b);
  b = build("colours", 44, 1, 0, "abcd", 4);
  assert_refused(decode, &b, TSR_CORRUPT, "datatype 44");
  drop(&b);
  b = build("colours", TSR_INT32, 0, 0, "abcd", 4);
  assert_refused(decode, &b, TSR_CORRUPT, "0 values per label");
  drop(&b);
  b = build("colours", TSR_INT32, 1, 2, "abcd", 4);
  assert_refused(decode, &b, TSR_CORRUPT, "'ordered' is 2");
  drop(&b);
  b = build("colours", TSR_INT32, 1, 0, "abcde", 5);
  assert_refused(decode, &b, TSR_CORRUPT, "divided into labels of 4 bytes");
  drop(&b);
  b = build("colours", TSR_INT32, 1, 0, "abcd", 4);
  b.data[0] = 1;
  assert_refused(decode, &b, TSR_UNSUPPORTED, "version 1");
  b.data[0] = 0;
  put8(&b, 0);
  assert_refused(decode, &b, TSR_CORRUPT, "1 bytes follow its end");
  drop(&b);
}

static void test_damaged_enumerations_are_refused_or_harmless(void **state) {
  const uint64_t offsets[] = {0, 3, 3, 8};
  bytes b = build_strings("redgreenblue", offsets, 4);
  assert_truncation_refused(decode, &b);
  survive_flips(decode, &b);
  assert_budgets(decode, &b);
  drop(&b);
}

/* Enumerations of strings, of labels of fixed size, and without labels decode as they were encoded. */
static void test_encoded_enumerations_decode(void **state) {
  uint64_t strings[] = {0, 3, 3, 7}, numbers[] = {0, 4, 8}, none[] = {0};
  tsr_enumeration made[] = {
      {"colours", "__f_0", true, TSR_UTF8, TSR_VARIABLE, true, 3, (uint8_t *)"redblue", 7, strings},
      {"codes", "__g_0", true, TSR_INT32, 1, false, 2, (uint8_t *)"abcdefgh", 8, numbers},
      {"nothing", "__h_0", true, TSR_ASCII, TSR_VARIABLE, false, 0, (uint8_t *)"", 0, none},
  };
  for (unsigned i = 0; i < 3; i++) {
    room r;
    room_open(&r, UINT64_MAX);
    tsr_buffer out = {.memory = &r.memory};
    tsr_error error = {0};
    assert_int_equal(tsr__enumeration_encode(&made[i], &out, &error), TSR_OK);
    tsr_enumeration back = {.name = made[i].name, .file = made[i].file};
    tsr_input in = tsr__input(out.data, out.size);
    if (tsr__enumeration_decode(&in, &r.arena, &back, &error) < 0) fail_msg("%s", error.message);
    assert_int_equal(back.datatype, made[i].datatype);
    assert_int_equal(back.ordered, made[i].ordered);
    assert_int_equal(back.count, made[i].count);
    assert_int_equal(back.data_size, made[i].data_size);
    assert_memory_equal(back.data, made[i].data, made[i].data_size);
    assert_memory_equal(back.offsets, made[i].offsets, 8 * made[i].count);
    tsr__buffer_release(&out);
    room_close(&r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_string_labels_decode),
      cmocka_unit_test(test_labels_of_fixed_size_decode),
      cmocka_unit_test(test_few_labels_decode),
      cmocka_unit_test(test_many_labels_decode),
      cmocka_unit_test(test_broken_enumerations_are_refused),
      cmocka_unit_test(test_damaged_enumerations_are_refused_or_harmless),
      cmocka_unit_test(test_encoded_enumerations_decode),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
