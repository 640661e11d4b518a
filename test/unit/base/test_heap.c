/* The heap: items come out in order, after building, appending, replacing the first item and taking it away. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

#define ITEMS 1000u

typedef struct order {
  bool descending;
} order;

static bool comes_before(const order *o, const uint32_t *a, const uint32_t *b) {
  return o->descending ? *a > *b : *a < *b;
}
TSR_DEFINE_HEAP(numbers, order, uint32_t, comes_before)

static uint32_t random_number(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 16;
}

static int ascending(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

typedef void (*sink_function)(const order *o, uint32_t *heap, uint64_t count, uint64_t at, uint32_t moved);
static const sink_function sinks[] = {numbers_sink, numbers_sink_deep};

/* Takes all items out of the heap and compares them with the sorted `expected`. */
static void assert_comes_out_sorted(const order *o, uint32_t *heap, uint64_t count, uint32_t *expected,
                                    sink_function sink) {
  qsort(expected, count, sizeof *expected, ascending);
  for (uint64_t i = 0, left = count; i < count; i++) {
    assert_int_equal(heap[0], expected[o->descending ? count - 1 - i : i]);
    left--;
    sink(o, heap, left, 0, heap[left]);
  }
}

static void test_items_of_a_built_heap_come_out_in_order(void **state) {
  uint32_t seed = 1, heap[64], expected[64];
  for (uint64_t count = 0; count <= 64; count++)
    for (int pass = 0; pass < 20; pass++) {
      const order o = {.descending = pass % 2};
      for (uint64_t i = 0; i < count; i++) heap[i] = expected[i] = random_number(&seed) % (pass < 10 ? 8 : 65536);
      numbers_build(&o, heap, count);
      assert_comes_out_sorted(&o, heap, count, expected, sinks[pass / 2 % 2]);
    }
}

static void test_appended_items_come_out_in_order(void **state) {
  static uint32_t heap[ITEMS], expected[ITEMS];
  const order o = {0};
  uint32_t seed = 2;
  for (int s = 0; s < 2; s++) {
    for (uint64_t i = 0; i < ITEMS; i++) {
      expected[i] = random_number(&seed) % 500;
      numbers_rise(&o, heap, i, expected[i]);
    }
    assert_comes_out_sorted(&o, heap, ITEMS, expected, sinks[s]);
  }
}

/* As a merge does: the first item is replaced by a later one of the same input. */
static void assert_merge_is_sorted(sink_function sink) {
  enum { INPUTS = 7, EACH = 100 };
  uint32_t heap[INPUTS], next[INPUTS], seed = 3, last = 0;
  const order o = {0};
  uint64_t left = INPUTS, taken = 0;
  for (uint32_t i = 0; i < INPUTS; i++) heap[i] = i; /* the input is the item modulo INPUTS */
  memset(next, 0, sizeof next);
  numbers_build(&o, heap, INPUTS);
  while (left > 0) {
    const uint32_t input = heap[0] % INPUTS;
    assert_true(heap[0] >= last);
    last = heap[0];
    taken++;
    uint32_t moved = heap[0] + INPUTS * (random_number(&seed) % 3);
    if (++next[input] == EACH) moved = heap[--left];
    sink(&o, heap, left, 0, moved);
  }
  assert_int_equal(taken, INPUTS * EACH);
}

static void test_a_merge_of_sorted_inputs_is_sorted(void **state) {
  for (int s = 0; s < 2; s++) assert_merge_is_sorted(sinks[s]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_items_of_a_built_heap_come_out_in_order),
      cmocka_unit_test(test_appended_items_come_out_in_order),
      cmocka_unit_test(test_a_merge_of_sorted_inputs_is_sorted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
