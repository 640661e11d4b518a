/* test_groups.c: tuples and texts are numbered as they appear, by tables that grow, within a budget. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "query/groups.h"

#define BLOCK 2048u

/* Tuples that differ in one word only, and in its high, middle or low bits only. */
static uint64_t word_of(uint64_t i, uint32_t w, uint32_t width, int kind) {
  if (w != i % width) return 7;
  const double real = (double)i;
  uint64_t bits;
  memcpy(&bits, &real, sizeof bits);
  return kind == 0 ? i : kind == 1 ? i << 40 : kind == 2 ? bits : i * UINT64_C(0x9E3779B97F4A7C15);
}

/* Numbers `count` tuples by blocks. The first tuple that is new has `first`, and so on. */
static void number_all(tsr_groups *groups, uint64_t count, int kind, uint64_t first) {
  static uint64_t columns[3][BLOCK];
  static uint32_t numbers[BLOCK];
  const uint64_t *const words[3] = {columns[0], columns[1], columns[2]};
  tsr_error error = {0};
  for (uint64_t from = 0; from < count; from += BLOCK) {
    const uint64_t n = count - from < BLOCK ? count - from : BLOCK;
    for (uint64_t i = 0; i < n; i++)
      for (uint32_t w = 0; w < groups->width; w++) columns[w][i] = word_of(from + i + 1, w, groups->width, kind);
    assert_int_equal(tsr__groups_number(groups, words, n, numbers, &error), TSR_OK);
    for (uint64_t i = 0; i < n; i++) assert_int_equal(numbers[i], first + from + i);
  }
}

static void test_tuples_are_numbered_as_they_appear_however_many(void **state) {
  (void)state;
  for (uint32_t width = 1; width <= 3; width++)
    for (int kind = 0; kind < 4; kind++) {
      tsr_groups groups;
      tsr__groups_init(&groups, width, tsr__memory_process());
      number_all(&groups, 140000, kind, 0);
      number_all(&groups, 140000, kind, 0); /* they have their numbers already */
      assert_int_equal(groups.count, 140000);
      for (uint64_t i = 0; i < groups.count; i += 997)
        for (uint32_t w = 0; w < width; w++)
          assert_true(tsr__groups_tuple(&groups, i)[w] == word_of(i + 1, w, width, kind));
      assert_true(2 * groups.count <= tsr__hash_slot_count(&groups.index));
      tsr__groups_clear(&groups);
      assert_int_equal(groups.count, 0);
      number_all(&groups, 10, 0, 0);
      assert_int_equal(groups.count, 10);
      tsr__groups_release(&groups);
    }
}

static void test_equal_tuples_of_one_block_share_a_number(void **state) {
  const uint64_t a[] = {5, 6, 5, 6, 5, 0}, b[] = {1, 1, 1, 2, 1, 0};
  const uint64_t *const words[] = {a, b};
  const uint32_t one[] = {0, 1, 0, 1, 0, 2}, two[] = {0, 1, 0, 2, 0, 3};
  uint32_t numbers[6];
  tsr_error error = {0};
  (void)state;
  for (uint32_t width = 1; width <= 2; width++) {
    tsr_groups groups;
    tsr__groups_init(&groups, width, tsr__memory_process());
    assert_int_equal(tsr__groups_number(&groups, words, 6, numbers, &error), TSR_OK);
    assert_memory_equal(numbers, width == 1 ? one : two, sizeof numbers);
    assert_int_equal(tsr__groups_number(&groups, words, 0, numbers, &error), TSR_OK);
    tsr__groups_release(&groups);
  }
}

/* Past the budget the call fails, and what has a number keeps it. */
static void test_groups_past_the_budget_fail_and_leave_the_others(void **state) {
  static uint64_t column[BLOCK];
  static uint32_t numbers[BLOCK];
  const uint64_t *const words[] = {column};
  tsr_memory memory;
  tsr_groups groups;
  tsr_error error = {0};
  uint64_t known = 0;
  int code = TSR_OK;
  (void)state;
  tsr__memory_init(&memory, tsr__memory_process(), 1 << 20, "memory_mb");
  tsr__groups_init(&groups, 1, &memory);
  while (code == TSR_OK && known < 1000000) {
    for (uint64_t i = 0; i < BLOCK; i++) column[i] = known + i;
    code = tsr__groups_number(&groups, words, BLOCK, numbers, &error);
    if (code == TSR_OK) known += BLOCK;
  }
  assert_int_equal(code, TSR_BUDGET);
  assert_non_null(strstr(error.message, "memory_mb"));
  assert_true(known >= 10000 && memory.peak <= 1 << 20);
  assert_int_equal(groups.count, known);
  memory.limit = UINT64_MAX;
  for (uint64_t i = 0; i < BLOCK; i++) column[i] = i * (known / BLOCK);
  assert_int_equal(tsr__groups_number(&groups, words, BLOCK, numbers, &error), TSR_OK);
  for (uint64_t i = 0; i < BLOCK; i++) assert_int_equal(numbers[i], column[i]);
  tsr__groups_release(&groups);
  assert_int_equal(memory.used, 0);
}

/* Tuple i is in run i / length; the runs differ in one word only. */
static uint64_t word_of_run(uint64_t i, uint64_t length, uint32_t w, uint32_t width) {
  return i / length % width == w ? i / length + 1 : 7;
}

static void test_runs_of_equal_tuples_are_found_where_they_are_long(void **state) {
  static uint64_t columns[3][BLOCK];
  static uint32_t ends[BLOCK], numbers[BLOCK];
  uint64_t *const words[3] = {columns[0], columns[1], columns[2]};
  (void)state;
  for (uint32_t width = 1; width <= 3; width++)
    for (uint64_t length = 1; length <= BLOCK; length = length < 8 ? length + 1 : 2 * length + 1) {
      for (uint64_t i = 0; i < BLOCK; i++) {
        numbers[i] = (uint32_t)(i / length);
        for (uint32_t w = 0; w < width; w++) columns[w][i] = word_of_run(i, length, w, width);
      }
      const uint32_t runs = tsr__runs_of_words(words, width, BLOCK, ends);
      assert_int_equal(runs, length < 3 ? 0 : (BLOCK + length - 1) / length);
      for (uint32_t r = 0; r < runs; r++) {
        assert_int_equal(ends[r], r + 1 < runs ? (r + 1) * length : BLOCK);
        for (uint32_t w = 0; w < width; w++) assert_true(columns[w][r] == word_of_run(r * length, length, w, width));
      }
      assert_int_equal(tsr__runs_of_numbers(numbers, BLOCK, ends), runs);
      for (uint32_t r = 0; r < runs; r++) assert_int_equal(numbers[r], r);
      for (uint64_t i = 0; i < BLOCK && runs == 0; i++) assert_int_equal(numbers[i], i / length); /* nothing moved */
      for (uint64_t i = 0; i < BLOCK && runs == 0; i++) assert_true(columns[0][i] == word_of_run(i, length, 0, width));
    }
  columns[0][0] = 5;
  assert_int_equal(tsr__runs_of_words(words, 1, 1, ends), 1);
  assert_true(ends[0] == 1 && columns[0][0] == 5);
}

static void test_words_of_reals_are_equal_where_sql_has_one_group(void **state) {
  const double reals[] = {0.0, -0.0, NAN, -NAN, 1.5, -INFINITY};
  uint64_t words[6], bits;
  (void)state;
  tsr__words_of_reals(reals, 6, words);
  assert_true(words[0] == 0 && words[1] == 0);
  assert_true(words[2] == TSR_NULL_REAL && words[3] == TSR_NULL_REAL);
  for (int i = 4; i < 6; i++) {
    memcpy(&bits, &reals[i], sizeof bits);
    assert_true(words[i] == bits);
  }
}

static void number_text(tsr_texts *texts, const char *bytes, uint64_t size, uint64_t expected) {
  uint64_t number = UINT64_MAX;
  tsr_error error = {0};
  assert_int_equal(tsr__texts_number(texts, bytes, size, &number, &error), TSR_OK);
  assert_int_equal(number, expected);
}

static void test_texts_are_compared_by_all_their_bytes(void **state) {
  static const struct {
    const char *bytes;
    uint64_t size;
  } different[] = {{"", 0},     {"\0", 1},       {"\0\0", 2},       {"a", 1},         {"a\0", 2}, {"a\0b", 3},
                   {"a\0c", 3}, {"12345678", 8}, {"12345678\0", 9}, {"123456789", 9}, {"A", 1},   {"\xC3\xA9", 2}};
  enum { COUNT = sizeof different / sizeof *different };
  tsr_texts texts;
  (void)state;
  tsr__texts_init(&texts, tsr__memory_process(), NULL);
  for (int again = 0; again < 2; again++)
    for (uint64_t i = 0; i < COUNT; i++) number_text(&texts, different[i].bytes, different[i].size, i);
  assert_int_equal(texts.count, COUNT);
  tsr__texts_clear(&texts);
  number_text(&texts, "A", 1, 0);
  tsr__texts_release(&texts);
}

static void test_texts_are_copied_to_the_arena_and_grow(void **state) {
  tsr_arena arena;
  tsr_texts texts;
  char text[24];
  (void)state;
  tsr__arena_init(&arena, tsr__memory_process());
  tsr__texts_init(&texts, tsr__memory_process(), &arena);
  for (int again = 0; again < 2; again++)
    for (uint64_t i = 0; i < 20000; i++) {
      const int size = snprintf(text, sizeof text, "%c%llu", 0, (unsigned long long)(i * 7919));
      number_text(&texts, text, (uint64_t)size, i);
      memset(text, '?', sizeof text);
    }
  assert_int_equal(tsr__texts_at(&texts, 3)->size, 6);
  assert_memory_equal(tsr__texts_at(&texts, 3)->bytes,
                      "\0"
                      "23757",
                      6);
  tsr__texts_release(&texts);
  tsr__arena_release(&arena);
}

static void test_texts_past_the_budget_fail_and_leave_the_others(void **state) {
  tsr_memory memory;
  tsr_arena arena;
  tsr_texts texts;
  tsr_error error = {0};
  uint64_t count = 0, number;
  char text[24];
  int code = TSR_OK;
  (void)state;
  tsr__memory_init(&memory, tsr__memory_process(), 1 << 18, "memory_mb");
  tsr__arena_init(&arena, &memory);
  tsr__texts_init(&texts, &memory, &arena);
  for (; code == TSR_OK && count < 100000; count += code == TSR_OK) {
    const int size = snprintf(text, sizeof text, "text %llu", (unsigned long long)count);
    code = tsr__texts_number(&texts, text, (uint64_t)size, &number, &error);
  }
  assert_int_equal(code, TSR_BUDGET);
  assert_true(count > 1000 && texts.count == count);
  for (uint64_t i = 0; i < count; i += 100) {
    const int size = snprintf(text, sizeof text, "text %llu", (unsigned long long)i);
    const tsr_text_value *kept = tsr__texts_at(&texts, i);
    assert_true(kept->size == (uint64_t)size && !memcmp(kept->bytes, text, kept->size));
  }
  tsr__texts_release(&texts);
  tsr__arena_release(&arena);
  assert_int_equal(memory.used, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tuples_are_numbered_as_they_appear_however_many),
      cmocka_unit_test(test_equal_tuples_of_one_block_share_a_number),
      cmocka_unit_test(test_groups_past_the_budget_fail_and_leave_the_others),
      cmocka_unit_test(test_runs_of_equal_tuples_are_found_where_they_are_long),
      cmocka_unit_test(test_words_of_reals_are_equal_where_sql_has_one_group),
      cmocka_unit_test(test_texts_are_compared_by_all_their_bytes),
      cmocka_unit_test(test_texts_are_copied_to_the_arena_and_grow),
      cmocka_unit_test(test_texts_past_the_budget_fail_and_leave_the_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
