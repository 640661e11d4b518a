/* test_condition_guards.c: how many children of an AND are evaluated with an index by value (condition.c, "Guards").
 * Only condition.c can count them, so this program includes it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "format/condition.h"
#include "format/condition.c"

enum { TERMS = 1000 };

static tsr_memory memory;

static void put_term(tsr_buffer *tree, const char *field, int32_t value) {
  assert_int_equal(tsr__condition_put_comparison(TSR_NE, field, &value, sizeof value, tree, NULL), TSR_OK);
}

/* Makes an AND of `count` children x <> i % of_x OR y <> i % of_y; the first `only_x` of them have no y. */
static tsr_buffer terms(uint32_t count, uint32_t only_x, int32_t of_x, int32_t of_y) {
  tsr_buffer tree = {.memory = &memory};
  assert_int_equal(tsr__condition_put_expression(TSR_JOIN_AND, count, &tree, NULL), TSR_OK);
  for (uint32_t i = 0; i < count; i++) {
    if (i >= only_x) assert_int_equal(tsr__condition_put_expression(TSR_JOIN_OR, 2, &tree, NULL), TSR_OK);
    put_term(&tree, "x", 1 + (int32_t)i % of_x); /* a zero cannot be a key of the index */
    if (i >= only_x) put_term(&tree, "y", 1 + (int32_t)i % of_y);
  }
  return tree;
}

/* Asserts how many children are evaluated for a cell with these values. */
static uint64_t evaluated(const tsr_condition *condition, int32_t x, int32_t y) {
  const tsr_condition_guards *g = condition->root.guards;
  if (!g) return condition->root.child_count;
  const int32_t value = strcmp(condition->fields[g->field], "x") ? y : x;
  uint32_t group;
  const bool found = find_group(g, guard_key((const uint8_t *)&value, sizeof value), &group);
  return g->other_count + (found ? g->firsts[group + 1] - g->firsts[group] : 0);
}

static void check(tsr_buffer tree, int32_t x, int32_t y, uint64_t expected) {
  tsr_arena arena;
  tsr_condition condition;
  tsr_input in = tsr__input(tree.data, tree.size);
  tsr__arena_init(&arena, &memory);
  assert_int_equal(tsr__condition_decode(&in, "__1_1_aa", 1, &arena, &condition, NULL), TSR_OK);
  assert_int_equal(evaluated(&condition, x, y), expected);
  tsr__arena_release(&arena);
  tsr__buffer_release(&tree);
}

static void test_index_uses_the_field_that_leaves_fewest(void **state) {
  check(terms(TERMS, 0, 2, TERMS), 1, 7, 1);
  check(terms(TERMS, 0, TERMS, 2), 7, 1, 1);
  check(terms(TERMS, 0, 20, 50), 7, 7, TERMS / 50);
  check(terms(TERMS, 0, 20, 50), 7, 77, 0);
  /* by y few children are looked up, so all others would be evaluated */
  check(terms(TERMS, TERMS - 20, 50, TERMS), 7, TERMS, TERMS / 50);
  check(terms(TERMS, 20, 2, TERMS), 1, 777, 21);
}

static void test_few_children_get_no_index(void **state) {
  check(terms(GUARDS_FROM - 1, 0, 2, TERMS), 1, 1, GUARDS_FROM - 1);
  check(terms(GUARDS_FROM, 0, 2, TERMS), 1, 1, 1);
  check(terms(2 * GUARDS_FROM, GUARDS_FROM + 1, 2, TERMS), 1, 1, GUARDS_FROM); /* too few have a y */
}

int main(void) {
  tsr__memory_init_root(&memory, NULL, NULL);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_index_uses_the_field_that_leaves_fewest),
                                     cmocka_unit_test(test_few_children_get_no_index)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
