/* test_evaluate_types.c: what SQLite has no columns for: UNSIGNED, INSTANT, tables of values; types that cannot be
 * mixed; which cells an error comes from; and selections by a condition. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "query/program.h"

#define CELLS 4u
#define ROOM  16u

enum { BIG, DAY, NUMBER, HALF, WORD, BYTES, CLOCK, FIELDS };
static const uint64_t bigs[CELLS] = {0, 5, UINT64_MAX, INT64_MAX};
static const int64_t days[CELLS] = {0, INT64_MIN, 365, -1};
static const int64_t numbers[CELLS] = {3, -4, INT64_MAX, 9};
static const float halves[CELLS] = {1.5f, -2.5f, NAN, 0.0f};
static const char words[] = "onetwo  x ";
static const char blobs[CELLS] = {1, 2, 3, 4};
static const int64_t clocks[CELLS] = {0, 1, 2, 23};
static const uint8_t some_valid[CELLS] = {1, 1, 0, 1};
static tsr_field fields[FIELDS] = {
    {.name = "u", .datatype = TSR_UINT64, .values_per_cell = 1},
    {.name = "day", .datatype = TSR_DATETIME_DAY, .values_per_cell = 1},
    {.name = "n", .datatype = TSR_INT64, .values_per_cell = 1},
    {.name = "h", .datatype = TSR_FLOAT32, .values_per_cell = 1},
    {.name = "w", .datatype = TSR_ASCII, .values_per_cell = 2, .cell_size = 2},
    {.name = "z", .datatype = TSR_BLOB, .values_per_cell = 1, .nullable = true},
    {.name = "at", .datatype = TSR_TIME_HR, .values_per_cell = 1},
};
static const tsr_schema schema = {.attribute_count = FIELDS, .fields = fields};
static const tsr_block_input inputs[FIELDS] = {
    {.column = {.values = bigs, .cell_size = 8}},
    {.column = {.values = days, .cell_size = 8}},
    {.column = {.values = numbers, .cell_size = 8}},
    {.column = {.values = halves, .cell_size = 4}},
    {.column = {.values = words, .cell_size = 2}},
    {.column = {.values = blobs, .cell_size = 1, .validity = some_valid}},
    {.column = {.values = clocks, .cell_size = 8}},
};

/* Expressions are lists of nodes: a macro for each kind. */
#define FIELD(f)                                                                                                       \
  { .operation = TSR_OP_FIELD, .field = f }
#define INTEGER(i)                                                                                                     \
  {                                                                                                                    \
    .operation = TSR_OP_CONSTANT, .value = {.type = TSR_VALUE_INTEGER, .as.integer = i }                               \
  }
#define REAL(r)                                                                                                        \
  {                                                                                                                    \
    .operation = TSR_OP_CONSTANT, .value = {.type = TSR_VALUE_REAL, .as.real = r }                                     \
  }
#define WORD_OF(t)                                                                                                     \
  {                                                                                                                    \
    .operation = TSR_OP_CONSTANT, .value = {.type = TSR_VALUE_TEXT, .as.text = {t, sizeof t - 1} }                     \
  }
#define NODE(name, n, ...)                                                                                             \
  { .operation = TSR_OP_##name, .operands = (const uint32_t[]){__VA_ARGS__}, .operand_count = n }
#define EXPRESSION(e, ...)                                                                                             \
  const tsr_node e##_nodes[] = {__VA_ARGS__};                                                                          \
  const tsr_expression e = {e##_nodes, sizeof e##_nodes / sizeof *e##_nodes}

static tsr_memory memory;
static tsr_arena arena;
static tsr_program *program;
static tsr_block_scratch *scratch;
static tsr_error error;
static tsr_vector result;

static int set_up_arena(void **state) {
  tsr__memory_init_root(&memory, NULL, NULL);
  tsr__arena_init(&arena, &memory);
  return 0;
}
static int release_arena(void **state) {
  tsr__arena_release(&arena);
  return 0;
}

static int make_program(const tsr_expression *expression) {
  const int rc = tsr__program_make(&schema, &expression, 1, &arena, &program, &error);
  return rc < 0 ? rc : tsr__scratch_make(program, &arena, &scratch, &error);
}
static int run(const tsr_expression *expression) {
  assert_int_equal(make_program(expression), TSR_OK);
  return tsr__program_run(program, scratch, inputs, CELLS, &result, &error);
}

/* Values of cells: an integer, or NIL. */
#define NIL INT64_C(-777)
static void expect_integers(const tsr_expression *expression, const int64_t *expected) {
  assert_int_equal(run(expression), TSR_OK);
  for (uint32_t i = 0; i < CELLS; i++) {
    tsr_value value;
    tsr__vector_value(&result, i, &value);
    if (expected[i] == NIL) assert_int_equal(value.type, TSR_VALUE_NULL);
    else {
      assert_true(value.type == TSR_VALUE_INTEGER || value.type == TSR_VALUE_INSTANT ||
                  value.type == TSR_VALUE_UNSIGNED);
      assert_int_equal(value.as.integer, expected[i]);
    }
  }
}
#define EXPECT(expression, ...) expect_integers(&expression, (const int64_t[]){__VA_ARGS__})

static void expect_fault(const tsr_expression *expression, uint32_t at, tsr_expression_fault fault) {
  tsr_value_type types[ROOM];
  uint32_t node = 99;
  tsr_expression_fault why;
  assert_int_equal(tsr_expression_types(&schema, expression, types, &node, &why, &error), TSR_MISMATCH);
  assert_int_equal(node, at);
  assert_int_equal(why, fault);
  assert_int_equal(make_program(expression), TSR_MISMATCH);
}

static void expect_error(const tsr_expression *expression, int code, uint32_t at, const char *message) {
  uint32_t e = 9, node = 99;
  assert_int_equal(run(expression), code);
  assert_string_equal(error.message, message);
  assert_true(tsr__program_fault(scratch, &e, &node));
  assert_int_equal(e, 0);
  assert_int_equal(node, at);
}

static void test_unsigned_is_compared_exactly_and_refused_by_arithmetic(void **state) {
  EXPRESSION(plain, FIELD(BIG));
  EXPECT(plain, 0, 5, -1, INT64_MAX);
  assert_int_equal(result.type, TSR_VALUE_UNSIGNED);
  EXPRESSION(with_integer, FIELD(BIG), INTEGER(-1), NODE(GREATER, 2, 0, 1));
  EXPECT(with_integer, 1, 1, 1, 1);
  EXPRESSION(with_field, FIELD(NUMBER), FIELD(BIG), NODE(LESS, 2, 0, 1));
  EXPECT(with_field, 0, 1, 1, 1);
  EXPRESSION(with_real, REAL(9223372036854775808.0), FIELD(BIG), NODE(LESS, 2, 0, 1));
  EXPECT(with_real, 0, 0, 1, 0);
  EXPRESSION(past_all, FIELD(BIG), REAL(18446744073709551616.0), NODE(LESS, 2, 0, 1));
  EXPECT(past_all, 1, 1, 1, 1);
  EXPRESSION(sum, FIELD(BIG), INTEGER(1), NODE(ADD, 2, 0, 1));
  expect_error(&sum, TSR_RANGE, 2, "u: 18446744073709551615 is past the integers of SQL");
  EXPRESSION(filled, FIELD(BIG), INTEGER(5), NODE(NULLIF, 2, 0, 1), INTEGER(7), NODE(COALESCE, 2, 2, 3));
  EXPECT(filled, 0, 7, -1, INT64_MAX);
}

static void test_instants_are_compared_by_intervals(void **state) {
  static const int64_t intervals[][2] = {{-5, -1}, {10, 400}};
  EXPRESSION(
      within, FIELD(DAY),
      {.operation = TSR_OP_WITHIN, .operands = (const uint32_t[]){0}, .operand_count = 1, .within = {intervals, 2}});
  EXPECT(within, 0, NIL, 1, 1);
  EXPRESSION(plain, FIELD(DAY));
  EXPECT(plain, 0, NIL, 365, -1);
  EXPRESSION(mixed, FIELD(DAY), FIELD(CLOCK), NODE(COALESCE, 2, 0, 1));
  expect_fault(&mixed, 2, TSR_FAULT_MIXED);
  EXPRESSION(sum, FIELD(DAY), INTEGER(1), NODE(ADD, 2, 0, 1));
  expect_fault(&sum, 2, TSR_FAULT_TYPE);
}

static void test_an_instant_without_a_text_is_an_error(void **state) {
  static const int64_t far[] = {2932896, -719528, 2932897, 0}; /* 9999-12-31, 0000-01-01, and a day too late */
  tsr_block_input moved[FIELDS];
  memcpy(moved, inputs, sizeof moved);
  moved[DAY].column.values = far;
  EXPRESSION(plain, FIELD(DAY));
  assert_int_equal(make_program(&plain), TSR_OK);
  assert_int_equal(tsr__program_run(program, scratch, moved, 2, &result, &error), TSR_OK);
  assert_int_equal(tsr__program_run(program, scratch, moved, 3, &result, &error), TSR_RANGE);
  assert_string_equal(error.message, "day: a year outside 0000-9999");
}

static void test_tables_give_a_value_for_each_coordinate(void **state) {
  static const tsr_value values[] = {{.type = TSR_VALUE_INTEGER, .as.integer = 40},
                                     {.type = TSR_VALUE_NULL},
                                     {.type = TSR_VALUE_INTEGER, .as.integer = 42}};
  static const tsr_value labels[] = {{.type = TSR_VALUE_TEXT, .as.text = {"ab", 2}}};
  const tsr_value_table table = {.field = BIG, .low = 4, .count = 3, .type = TSR_VALUE_INTEGER, .values = values};
  const tsr_value_table down = {.field = NUMBER, .low = -4, .count = 1, .type = TSR_VALUE_TEXT, .values = labels};
  EXPRESSION(integers, {.operation = TSR_OP_TABLE, .table = &table});
  EXPECT(integers, NIL, NIL, NIL, NIL);
  EXPRESSION(texts, {.operation = TSR_OP_TABLE, .table = &down}, WORD_OF("ab"), NODE(IS, 2, 0, 1));
  EXPECT(texts, 0, 1, 0, 0);
  const tsr_value_table all = {.field = NUMBER, .low = 8, .count = 3, .type = TSR_VALUE_INTEGER, .values = values};
  EXPRESSION(last, {.operation = TSR_OP_TABLE, .table = &all}, INTEGER(2), NODE(MULTIPLY, 2, 0, 1));
  EXPECT(last, NIL, NIL, NIL, NIL);
  const tsr_value_table nine = {.field = NUMBER, .low = 7, .count = 3, .type = TSR_VALUE_INTEGER, .values = values};
  EXPRESSION(found, {.operation = TSR_OP_TABLE, .table = &nine}, INTEGER(2), NODE(MULTIPLY, 2, 0, 1));
  EXPECT(found, NIL, NIL, NIL, 84);
  const tsr_value_table none = {.field = NUMBER, .low = 7, .count = 1, .type = TSR_VALUE_NULL, .values = values + 1};
  EXPRESSION(empty, {.operation = TSR_OP_TABLE, .table = &none}, WORD_OF("ab"), NODE(COALESCE, 2, 0, 1),
             NODE(IS, 2, 2, 1));
  EXPECT(empty, 1, 1, 1, 1);
}

/* ---- Blocks in which neighbours have one coordinate --------------------------------------------------------------- */

#define PLACES 30u
static tsr_value place_values[PLACES];
static int64_t coordinates[TSR_BLOCK_CELLS];

/* Value i of a table is 100 + i, or a null where the table has nulls and i is a multiple of 7. */
static void set_places(tsr_value_type type, bool nulls) {
  for (uint32_t i = 0; i < PLACES; i++) {
    place_values[i] = (tsr_value){.type = nulls && i % 7 == 0 ? TSR_VALUE_NULL : type};
    if (type == TSR_VALUE_REAL) place_values[i].as.real = 100 + i;
    else if (type == TSR_VALUE_INTEGER) place_values[i].as.integer = 100 + i;
    else place_values[i].as.text.bytes = words + i % 5, place_values[i].as.text.size = 1 + i % 3;
  }
}

static void expect_place(uint32_t cell, int64_t coordinate, bool valid, const char *what, uint64_t length) {
  tsr_value value;
  tsr__vector_value(&result, cell, &value);
  const uint64_t at = (uint64_t)coordinate - 10;
  const tsr_value_type type = valid && at < PLACES ? place_values[at].type : TSR_VALUE_NULL;
  if (value.type != type) fail_msg("%s, runs of %u: cell %u", what, (unsigned)length, cell);
  if (type == TSR_VALUE_TEXT) assert_true(value.as.text.bytes == place_values[at].as.text.bytes);
  else if (type != TSR_VALUE_NULL) assert_int_equal(value.as.integer, place_values[at].as.integer);
}

/* The table begins at coordinate 10; coordinates run from 0 to 63. */
static void run_places(const tsr_block_input *given, uint32_t count, const char *what, uint64_t length) {
  const tsr_value_table table = {
      .field = 0, .low = 10, .count = PLACES, .type = place_values[1].type, .values = place_values};
  EXPRESSION(expression, {.operation = TSR_OP_TABLE, .table = &table});
  static tsr_field one = {.name = "n", .datatype = TSR_INT64, .values_per_cell = 1, .cell_size = 8};
  const tsr_schema only = {.attribute_count = 1, .fields = &one};
  const tsr_expression *list = &expression;
  one.nullable = given->column.validity != NULL;
  assert_int_equal(tsr__program_make(&only, &list, 1, &arena, &program, &error), TSR_OK);
  assert_int_equal(tsr__scratch_make(program, &arena, &scratch, &error), TSR_OK);
  assert_int_equal(tsr__program_run(program, scratch, given, count, &result, &error), TSR_OK);
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t at = given->selection ? given->selection[i] : given->first + i;
    expect_place(i, coordinates[at], !given->column.validity || given->column.validity[at], what, length);
  }
}

static void test_neighbours_of_one_coordinate_have_its_value(void **state) {
  static const tsr_value_type types[] = {TSR_VALUE_INTEGER, TSR_VALUE_REAL, TSR_VALUE_TEXT};
  static uint8_t validity[TSR_BLOCK_CELLS];
  static uint32_t thirds[TSR_BLOCK_CELLS / 3];
  for (uint32_t i = 0; i < TSR_BLOCK_CELLS; i++) validity[i] = i % 11 != 0;
  for (uint32_t i = 0; i < TSR_BLOCK_CELLS / 3; i++) thirds[i] = 3 * i + 1;
  for (uint64_t length = 1; length <= 2 * TSR_BLOCK_CELLS; length = 2 * length + 1)
    for (int kind = 0; kind < 6; kind++) {
      set_places(types[kind % 3], kind >= 3);
      for (uint64_t i = 0; i < TSR_BLOCK_CELLS; i++) coordinates[i] = (int64_t)(11 + i / length) % 64;
      tsr_block_input input = {.column = {.values = coordinates, .cell_size = 8}};
      run_places(&input, TSR_BLOCK_CELLS, "all", length);
      assert_true(result.constant == (length >= TSR_BLOCK_CELLS));
      input.first = TSR_BLOCK_CELLS / 2 + 3;
      run_places(&input, 45, "some", length);
      run_places(&input, 1, "one", length);
      input.selection = thirds;
      run_places(&input, TSR_BLOCK_CELLS / 3, "selected", length);
      input = (tsr_block_input){.column = {.values = coordinates, .cell_size = 8, .validity = validity}};
      run_places(&input, TSR_BLOCK_CELLS, "nulls", length);
    }
}

#define LOOKUP(place, values)                                                                                          \
  { .operation = TSR_OP_LOOKUP, .operands = (const uint32_t[]){place}, .operand_count = 1, .list = (values) }

static void test_lists_give_the_value_at_a_place(void **state) {
  static const uint8_t second_null[] = {0, 1, 0, 0}, whole[] = {1, 0, 0, 1};
  static const int8_t bytes[] = {1, 2, 3, -4};
  static const uint32_t words_of_4[] = {7, 8, 9, UINT32_MAX};
  static const float floats[] = {0.5f, 1.5f, NAN, 3.0f};
  static const double doubles[] = {1, 2.5, NAN, 4};
  static const tsr_text_value texts_of_4[] = {{"a", 1}, {"b", 1}, {"ab", 2}, {"ab", 2}};
  const tsr_value_list small = {.count = 4, .type = TSR_VALUE_INTEGER, .datatype = TSR_INT8, .values = bytes};
  tsr_value_list list = {.count = 4, .type = TSR_VALUE_INTEGER, .datatype = TSR_UINT32, .values = words_of_4};
  EXPRESSION(negative, FIELD(NUMBER), LOOKUP(0, &small)); /* the places are 3, -4, INT64_MAX, 9 */
  EXPECT(negative, -4, NIL, NIL, NIL);
  EXPRESSION(wide, FIELD(NUMBER), LOOKUP(0, &list), INTEGER(1), NODE(ADD, 2, 1, 2));
  EXPECT(wide, (int64_t)UINT32_MAX + 1, NIL, NIL, NIL);
  EXPRESSION(nested, FIELD(NUMBER), LOOKUP(0, &small), INTEGER(5), NODE(ADD, 2, 1, 2), LOOKUP(3, &list));
  EXPECT(nested, 8, NIL, NIL, NIL);
  list.nulls = second_null;
  EXPECT(nested, NIL, NIL, NIL, NIL);
  EXPRESSION(constant, INTEGER(2), LOOKUP(0, &list), FIELD(NUMBER), NODE(COALESCE, 2, 1, 2));
  EXPECT(constant, 9, 9, 9, 9);
  static const uint32_t places_of_4[] = {0, 1, 2, 3};
  tsr_value_list identity = {.count = 4, .type = TSR_VALUE_INTEGER, .datatype = TSR_UINT32, .values = places_of_4};
  identity.is_identity = true;
  EXPRESSION(place, FIELD(NUMBER), LOOKUP(0, &identity));
  EXPECT(place, 3, NIL, NIL, NIL); /* places past the end are null */
  identity.values = words_of_4; /* where no place can be past the end, the values are not read */
  EXPRESSION(known, INTEGER(2), LOOKUP(0, &identity), FIELD(NUMBER), NODE(COALESCE, 2, 1, 2));
  EXPECT(known, 2, 2, 2, 2);
  const tsr_value_list reals = {.count = 4, .type = TSR_VALUE_REAL, .datatype = TSR_FLOAT32, .values = floats};
  EXPRESSION(threes, FIELD(NUMBER), LOOKUP(0, &reals), REAL(3), NODE(IS, 2, 1, 2));
  EXPECT(threes, 1, 0, 0, 0);
  EXPRESSION(nan, INTEGER(2), LOOKUP(0, &reals), NODE(IS_NULL, 1, 1));
  EXPECT(nan, 1, 1, 1, 1);
  const tsr_value_list numbers_of_4 = {.count = 4, .type = TSR_VALUE_NUMBER, .values = doubles, .whole = whole};
  EXPRESSION(four, FIELD(NUMBER), LOOKUP(0, &numbers_of_4), INTEGER(4), NODE(EQUAL, 2, 1, 2));
  EXPECT(four, 1, NIL, NIL, NIL);
  const tsr_value_list labels = {.count = 4, .type = TSR_VALUE_TEXT, .values = texts_of_4};
  EXPRESSION(same, FIELD(NUMBER), LOOKUP(0, &labels), WORD_OF("ab"), NODE(IS, 2, 1, 2));
  EXPECT(same, 1, 0, 0, 0);
  const tsr_value_list none = {.count = 4, .type = TSR_VALUE_NULL};
  EXPRESSION(nothing, FIELD(NUMBER), LOOKUP(0, &none), INTEGER(6), NODE(COALESCE, 2, 1, 2));
  EXPECT(nothing, 6, 6, 6, 6);
}

static void test_a_list_of_another_type_and_a_place_that_is_no_integer_are_refused(void **state) {
  static const double doubles[] = {1};
  const tsr_value_list reals = {.count = 1, .type = TSR_VALUE_REAL, .datatype = TSR_FLOAT64, .values = doubles};
  const tsr_value_list mixed = {.count = 1, .type = TSR_VALUE_INTEGER, .datatype = TSR_FLOAT64, .values = doubles};
  EXPRESSION(half, FIELD(HALF), LOOKUP(0, &reals));
  expect_fault(&half, 1, TSR_FAULT_TYPE);
  EXPRESSION(untrue, FIELD(NUMBER), LOOKUP(0, &mixed));
  EXPRESSION(missing, FIELD(NUMBER), LOOKUP(0, NULL));
  tsr_value_type types[2];
  tsr_expression_fault fault;
  uint32_t node;
  assert_int_equal(tsr_expression_types(&schema, &untrue, types, &node, &fault, &error), TSR_ERROR);
  assert_string_equal(error.message, "node 1: a list of values of no such type");
  assert_int_equal(tsr_expression_types(&schema, &missing, types, &node, &fault, &error), TSR_ERROR);
}

static void test_an_error_comes_only_from_cells_that_need_it(void **state) {
  EXPRESSION(square, FIELD(NUMBER), FIELD(NUMBER), NODE(MULTIPLY, 2, 0, 1));
  expect_error(&square, TSR_ERROR, 2, "integer overflow");
  EXPRESSION(guarded, FIELD(NUMBER), INTEGER(100), NODE(LESS, 2, 0, 1), NODE(MULTIPLY, 2, 0, 0), NODE(CASE, 2, 2, 3));
  EXPECT(guarded, 9, 16, NIL, 81);
  EXPRESSION(conjunction, FIELD(NUMBER), INTEGER(100), NODE(LESS, 2, 0, 1), NODE(MULTIPLY, 2, 0, 0),
             NODE(AND, 2, 2, 3));
  EXPECT(conjunction, 1, 1, 0, 1);
  EXPRESSION(reversed, FIELD(NUMBER), INTEGER(100), NODE(GREATER_EQUAL, 2, 0, 1), NODE(MULTIPLY, 2, 0, 0),
             NODE(OR, 2, 2, 3));
  EXPECT(reversed, 1, 1, 1, 1);
  EXPRESSION(needed, FIELD(NUMBER), INTEGER(100), NODE(GREATER, 2, 0, 1), NODE(MULTIPLY, 2, 0, 0), NODE(CASE, 2, 2, 3));
  expect_error(&needed, TSR_ERROR, 3, "integer overflow");
}

static void test_types_that_cannot_be_mixed_are_refused(void **state) {
  EXPRESSION(branches, FIELD(NUMBER), FIELD(HALF), NODE(COALESCE, 2, 0, 1));
  expect_fault(&branches, 2, TSR_FAULT_MIXED);
  EXPRESSION(far, FIELD(HALF), INTEGER((INT64_C(1) << 53) + 1), NODE(COALESCE, 2, 0, 1));
  expect_fault(&far, 2, TSR_FAULT_MIXED);
  EXPRESSION(text, FIELD(WORD), INTEGER(1), NODE(EQUAL, 2, 0, 1));
  expect_fault(&text, 2, TSR_FAULT_TEXT_NUMBER);
  EXPRESSION(blob, FIELD(BYTES), NODE(NEGATE, 1, 0));
  expect_fault(&blob, 1, TSR_FAULT_TYPE);
  EXPRESSION(nulls, FIELD(BYTES), NODE(IS_NULL, 1, 0));
  EXPECT(nulls, 0, 0, 1, 0);
}

static void test_a_number_keeps_what_it_stands_for(void **state) {
  EXPRESSION(filled, FIELD(HALF), INTEGER(0), NODE(COALESCE, 2, 0, 1), NODE(NEGATE, 1, 2));
  assert_int_equal(run(&filled), TSR_OK);
  assert_int_equal(result.type, TSR_VALUE_NUMBER);
  static const uint8_t whole[] = {0, 0, 1, 0};
  assert_memory_equal(result.whole, whole, CELLS);
  assert_true(result.as.reals[0] == -1.5 && result.as.reals[1] == 2.5 && result.as.reals[2] == 0);
}

static void test_a_condition_selects_cells(void **state) {
  uint32_t selection[CELLS], selected;
  EXPRESSION(less, FIELD(HALF), REAL(1.0), NODE(LESS, 2, 0, 1));
  assert_int_equal(make_program(&less), TSR_OK);
  assert_int_equal(tsr__program_select(program, scratch, inputs, CELLS, selection, &selected, &error), TSR_OK);
  assert_int_equal(selected, 2);
  assert_true(selection[0] == 1 && selection[1] == 3);
  EXPRESSION(bare, FIELD(HALF));
  assert_int_equal(make_program(&bare), TSR_OK);
  assert_int_equal(tsr__program_select(program, scratch, inputs, CELLS, selection, &selected, &error), TSR_OK);
  assert_int_equal(selected, 2);
  assert_true(selection[0] == 0 && selection[1] == 1);
  EXPRESSION(always, INTEGER(1));
  assert_int_equal(make_program(&always), TSR_OK);
  assert_int_equal(tsr__program_select(program, scratch, inputs, CELLS, selection, &selected, &error), TSR_OK);
  assert_int_equal(selected, CELLS);
}

static void test_a_malformed_expression_is_refused(void **state) {
  tsr_value_type types[ROOM];
  uint32_t node;
  tsr_expression_fault fault;
  EXPRESSION(forward, NODE(NEGATE, 1, 0));
  assert_int_equal(tsr_expression_types(&schema, &forward, types, &node, &fault, &error), TSR_ERROR);
  assert_int_equal(tsr_expression_types(&schema, &forward, types, &node, &fault, NULL), TSR_ERROR);
  EXPRESSION(field, FIELD(FIELDS));
  assert_int_equal(tsr_expression_types(&schema, &field, types, &node, &fault, &error), TSR_ERROR);
  EXPRESSION(few, INTEGER(1), NODE(ADD, 1, 0));
  assert_int_equal(tsr_expression_types(&schema, &few, types, &node, &fault, &error), TSR_ERROR);
  const tsr_expression none = {NULL, 0};
  assert_int_equal(tsr_expression_types(&schema, &none, types, &node, &fault, &error), TSR_ERROR);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_unsigned_is_compared_exactly_and_refused_by_arithmetic, set_up_arena,
                                      release_arena),
      cmocka_unit_test_setup_teardown(test_instants_are_compared_by_intervals, set_up_arena, release_arena),
      cmocka_unit_test_setup_teardown(test_an_instant_without_a_text_is_an_error, set_up_arena, release_arena),
      cmocka_unit_test_setup_teardown(test_tables_give_a_value_for_each_coordinate, set_up_arena, release_arena),
      cmocka_unit_test_setup_teardown(test_neighbours_of_one_coordinate_have_its_value, set_up_arena, release_arena),
      cmocka_unit_test_setup_teardown(test_lists_give_the_value_at_a_place, set_up_arena, release_arena),
      cmocka_unit_test_setup_teardown(test_a_list_of_another_type_and_a_place_that_is_no_integer_are_refused,
                                      set_up_arena, release_arena),
      cmocka_unit_test_setup_teardown(test_an_error_comes_only_from_cells_that_need_it, set_up_arena, release_arena),
      cmocka_unit_test_setup_teardown(test_types_that_cannot_be_mixed_are_refused, set_up_arena, release_arena),
      cmocka_unit_test_setup_teardown(test_a_number_keeps_what_it_stands_for, set_up_arena, release_arena),
      cmocka_unit_test_setup_teardown(test_a_condition_selects_cells, set_up_arena, release_arena),
      cmocka_unit_test_setup_teardown(test_a_malformed_expression_is_refused, set_up_arena, release_arena),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
