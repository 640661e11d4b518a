/* test_evaluate.c: expressions over blocks of cells give what SQLite gives. Random expressions are evaluated by both:
 * as nodes by the engine, as text by SQLite over a table of the same values. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "query/program.h"

#define ROWS  200u
#define NODES 64u
#define TEXT  20000u

/* ---- The cells ---------------------------------------------------------------------------------------------------- */

enum { A, B, SMALL, BYTE, REAL, SINGLE, TEXTS, FIELDS };
static const char *const names[FIELDS] = {"a", "b", "small", "byte", "x", "y", "s"};
static tsr_field fields[FIELDS];
static const tsr_schema schema = {.attribute_count = FIELDS, .fields = fields};
static int64_t as[ROWS], bs[ROWS];
static int16_t smalls[ROWS];
static uint8_t bytes[ROWS];
static double xs[ROWS];
static float ys[ROWS];
static char text_bytes[ROWS * 8];
static uint64_t offsets[ROWS + 1];
static uint8_t validity[FIELDS][ROWS];
static tsr_block_input inputs[FIELDS];
static sqlite3 *database;
static tsr_memory memory;

static const int64_t integers[] = {0,
                                   1,
                                   -1,
                                   2,
                                   7,
                                   -8,
                                   62,
                                   63,
                                   64,
                                   -64,
                                   INT64_MAX,
                                   INT64_MIN,
                                   1000000007,
                                   -123456789,
                                   255,
                                   INT32_MAX,
                                   3,
                                   5,
                                   10,
                                   -2,
                                   (INT64_C(1) << 53) + 1,
                                   INT64_C(1) << 53,
                                   -(INT64_C(1) << 53) - 1,
                                   INT64_MAX - 1};
static const double reals[] = {0.0,
                               1.0,
                               -1.0,
                               0.5,
                               -0.5,
                               2.5,
                               -2.5,
                               0.49999999999999994,
                               7.9,
                               -7.9,
                               1e20,
                               -1e20,
                               1e308,
                               3.0,
                               1e-9,
                               63.0,
                               64.0,
                               INFINITY,
                               -INFINITY,
                               9007199254740992.0,
                               9223372036854775808.0,
                               -9223372036854775808.0,
                               4503599627370497.5,
                               100.25};
static const char *const texts[] = {"", "a", "A", "ab", "b", "\xc3\xa9", "ba", "12"};
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define ANY(array)   (array)[random_below(COUNT(array))]

static uint64_t seed = 1;
static uint64_t random_below(uint64_t n) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (seed >> 33) % n;
}

static void make_row(uint32_t r) {
  const char *text = ANY(texts);
  as[r] = ANY(integers);
  bs[r] = random_below(2) ? (int64_t)random_below(20) - 10 : ANY(integers);
  smalls[r] = (int16_t)(random_below(65536) - 32768);
  bytes[r] = (uint8_t)random_below(12);
  xs[r] = ANY(reals);
  ys[r] = random_below(2) ? (float)((double)random_below(4000) / 8 - 250) : (float)ANY(reals);
  memcpy(text_bytes + offsets[r], text, strlen(text));
  offsets[r + 1] = offsets[r] + strlen(text);
  if (random_below(20) == 0) xs[r] = NAN;
  for (int f = 0; f < FIELDS; f++) validity[f][r] = random_below(8) != 0;
}

static void bind_row(sqlite3_stmt *insert, uint32_t r) {
  sqlite3_bind_int64(insert, 1, r);
  sqlite3_bind_int64(insert, 2, as[r]);
  sqlite3_bind_int64(insert, 3, bs[r]);
  sqlite3_bind_int64(insert, 4, smalls[r]);
  sqlite3_bind_int64(insert, 5, bytes[r]);
  sqlite3_bind_double(insert, 6, xs[r]);
  sqlite3_bind_double(insert, 7, (double)ys[r]);
  sqlite3_bind_text(insert, 8, text_bytes + offsets[r], (int)(offsets[r + 1] - offsets[r]), SQLITE_STATIC);
  for (int f = 0; f < FIELDS; f++)
    if (!validity[f][r]) sqlite3_bind_null(insert, f + 2);
  assert_int_equal(sqlite3_step(insert), SQLITE_DONE);
  sqlite3_reset(insert);
}

static int set_up(void **state) {
  static const tsr_datatype datatypes[] = {TSR_INT64,   TSR_INT64,   TSR_INT16, TSR_UINT8,
                                           TSR_FLOAT64, TSR_FLOAT32, TSR_UTF8};
  const void *values[] = {as, bs, smalls, bytes, xs, ys, text_bytes};
  sqlite3_stmt *insert;
  tsr__memory_init_root(&memory, NULL, NULL);
  for (int f = 0; f < FIELDS; f++) {
    fields[f] = (tsr_field){.name = (char *)names[f], .datatype = datatypes[f], .nullable = true};
    fields[f].values_per_cell = f == TEXTS ? TSR_VARIABLE : 1;
    inputs[f].column = (tsr_column){.values = values[f], .validity = validity[f]};
    inputs[f].column.cell_size = f == TEXTS ? 0 : tsr_datatype_size(datatypes[f]);
  }
  inputs[TEXTS].column.offsets = offsets;
  for (uint32_t r = 0; r < ROWS; r++) make_row(r);
  assert_int_equal(sqlite3_open(":memory:", &database), SQLITE_OK);
  sqlite3_exec(database,
               "CREATE TABLE t(r INTEGER PRIMARY KEY, a INTEGER, b INTEGER, small INTEGER, byte INTEGER,"
               " x REAL, y REAL, s TEXT)",
               NULL, NULL, NULL);
  sqlite3_prepare_v2(database, "INSERT INTO t VALUES(?,?,?,?,?,?,?,?)", -1, &insert, NULL);
  for (uint32_t r = 0; r < ROWS; r++) bind_row(insert, r);
  sqlite3_finalize(insert);
  return 0;
}

static int tear_down(void **state) {
  sqlite3_close(database);
  return 0;
}

/* ---- Expressions as nodes and as text ----------------------------------------------------------------------------- */

typedef struct sample {
  tsr_node nodes[NODES];
  uint32_t operands[NODES][5], count;
} sample;

static int match_like(void *argument, const char *text, uint64_t size, tsr_error *error) {
  return sqlite3_strlike(argument, text, 0) == 0;
}

static const struct {
  tsr_operation operation;
  uint32_t operands;
  bool inexact; /* by the C library: SQLite may have another */
  const char *sql;
} forms[] = {
    {TSR_OP_ADD, 2, false, "(%s + %s)"},
    {TSR_OP_SUBTRACT, 2, false, "(%s - %s)"},
    {TSR_OP_MULTIPLY, 2, false, "(%s * %s)"},
    {TSR_OP_DIVIDE, 2, false, "(%s / %s)"},
    {TSR_OP_REMAINDER, 2, false, "(%s %% %s)"},
    {TSR_OP_NEGATE, 1, false, "(- %s)"},
    {TSR_OP_BIT_AND, 2, false, "(%s & %s)"},
    {TSR_OP_BIT_OR, 2, false, "(%s | %s)"},
    {TSR_OP_SHIFT_LEFT, 2, false, "(%s << %s)"},
    {TSR_OP_SHIFT_RIGHT, 2, false, "(%s >> %s)"},
    {TSR_OP_BIT_NOT, 1, false, "(~ %s)"},
    {TSR_OP_AND, 2, false, "(%s AND %s)"},
    {TSR_OP_OR, 2, false, "(%s OR %s)"},
    {TSR_OP_NOT, 1, false, "(NOT %s)"},
    {TSR_OP_EQUAL, 2, false, "(%s = %s)"},
    {TSR_OP_UNEQUAL, 2, false, "(%s <> %s)"},
    {TSR_OP_LESS, 2, false, "(%s < %s)"},
    {TSR_OP_LESS_EQUAL, 2, false, "(%s <= %s)"},
    {TSR_OP_GREATER, 2, false, "(%s > %s)"},
    {TSR_OP_GREATER_EQUAL, 2, false, "(%s >= %s)"},
    {TSR_OP_IS, 2, false, "(%s IS %s)"},
    {TSR_OP_IS_NOT, 2, false, "(%s IS NOT %s)"},
    {TSR_OP_IS_NULL, 1, false, "(%s ISNULL)"},
    {TSR_OP_NOT_NULL, 1, false, "(%s NOTNULL)"},
    {TSR_OP_IN, 4, false, "(%s IN (%s, %s, %s))"},
    {TSR_OP_CASE, 3, false, "(CASE WHEN %s THEN %s ELSE %s END)"},
    {TSR_OP_CASE, 4, false, "(CASE WHEN %s THEN %s WHEN %s THEN %s END)"},
    {TSR_OP_COALESCE, 2, false, "coalesce(%s, %s)"},
    {TSR_OP_COALESCE, 3, false, "coalesce(%s, %s, %s)"},
    {TSR_OP_NULLIF, 2, false, "nullif(%s, %s)"},
    {TSR_OP_LEAST, 3, false, "min(%s, %s, %s)"},
    {TSR_OP_GREATEST, 3, false, "max(%s, %s, %s)"},
    {TSR_OP_TO_INTEGER, 1, false, "CAST(%s AS INTEGER)"},
    {TSR_OP_TO_REAL, 1, false, "CAST(%s AS REAL)"},
    {TSR_OP_PLUS, 1, false, "(+ %s)"},
    {TSR_OP_ABS, 1, false, "abs(%s)"},
    {TSR_OP_SIGN, 1, false, "sign(%s)"},
    {TSR_OP_ROUND, 1, false, "round(%s)"},
    {TSR_OP_FLOOR, 1, false, "floor(%s)"},
    {TSR_OP_CEIL, 1, false, "ceil(%s)"},
    {TSR_OP_TRUNC, 1, false, "trunc(%s)"},
    {TSR_OP_SQRT, 1, false, "sqrt(%s)"},
    {TSR_OP_MOD, 2, false, "mod(%s, %s)"},
    {TSR_OP_MATCH, 1, false, "(%s LIKE 'a%%')"},
    {TSR_OP_EXP, 1, true, "exp(%s)"},
    {TSR_OP_LN, 1, true, "ln(%s)"},
    {TSR_OP_LOG10, 1, true, "log10(%s)"},
    {TSR_OP_LOG2, 1, true, "log2(%s)"},
    {TSR_OP_LOG, 2, true, "log(%s, %s)"},
    {TSR_OP_POW, 2, true, "pow(%s, %s)"},
    {TSR_OP_SIN, 1, true, "sin(%s)"},
    {TSR_OP_COS, 1, true, "cos(%s)"},
    {TSR_OP_TAN, 1, true, "tan(%s)"},
    {TSR_OP_ASIN, 1, true, "asin(%s)"},
    {TSR_OP_ACOS, 1, true, "acos(%s)"},
    {TSR_OP_ATAN, 1, true, "atan(%s)"},
    {TSR_OP_ATAN2, 2, true, "atan2(%s, %s)"},
    {TSR_OP_SINH, 1, true, "sinh(%s)"},
    {TSR_OP_COSH, 1, true, "cosh(%s)"},
    {TSR_OP_TANH, 1, true, "tanh(%s)"},
    {TSR_OP_ASINH, 1, true, "asinh(%s)"},
    {TSR_OP_ACOSH, 1, true, "acosh(%s)"},
    {TSR_OP_ATANH, 1, true, "atanh(%s)"},
    {TSR_OP_DEGREES, 1, false, "degrees(%s)"},
    {TSR_OP_RADIANS, 1, false, "radians(%s)"},
};

static void constant_leaf(tsr_node *node, char *sql) {
  node->operation = TSR_OP_CONSTANT;
  const uint64_t kind = random_below(10);
  if (kind < 5) {
    node->value = (tsr_value){.type = TSR_VALUE_INTEGER, .as.integer = ANY(integers)};
    snprintf(sql, TEXT, "(%lld)", (long long)node->value.as.integer);
  } else if (kind < 8) {
    node->value = (tsr_value){.type = TSR_VALUE_REAL, .as.real = ANY(reals)};
    const double real = node->value.as.real;
    if (isinf(real)) snprintf(sql, TEXT, "(%s9e999)", real < 0 ? "-" : "");
    else snprintf(sql, TEXT, "(%.17e)", real);
  } else if (kind < 9) {
    const char *text = ANY(texts);
    node->value = (tsr_value){.type = TSR_VALUE_TEXT, .as.text = {text, strlen(text)}};
    snprintf(sql, TEXT, "'%s'", text);
  } else {
    node->value = (tsr_value){.type = TSR_VALUE_NULL};
    snprintf(sql, TEXT, "NULL");
  }
}

static uint32_t make_leaf(sample *e, char *sql) {
  tsr_node *node = &e->nodes[e->count];
  *node = (tsr_node){.operation = TSR_OP_FIELD, .field = (uint32_t)random_below(FIELDS)};
  snprintf(sql, TEXT, "%s", names[node->field]);
  if (random_below(3) == 0) constant_leaf(node, sql);
  return e->count++;
}

static bool use_inexact;

static uint32_t make_tree(sample *e, unsigned depth, char *sql) {
  static char parts[6][4][TEXT];
  uint32_t operands[4];
  size_t form;
  if (depth == 0 || e->count > NODES - 30 || random_below(6) == 0) return make_leaf(e, sql);
  do form = random_below(COUNT(forms));
  while (forms[form].inexact != use_inexact);
  for (uint32_t i = 0; i < forms[form].operands; i++) operands[i] = make_tree(e, depth - 1, parts[depth][i]);
  const uint32_t n = e->count++;
  memcpy(e->operands[n], operands, sizeof operands);
  e->nodes[n] =
      (tsr_node){.operation = forms[form].operation, .operands = e->operands[n], .operand_count = forms[form].operands};
  if (forms[form].operation == TSR_OP_MATCH) e->nodes[n].match = match_like, e->nodes[n].match_argument = (void *)"a%";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(sql, TEXT, forms[form].sql, parts[depth][0], parts[depth][1], parts[depth][2], parts[depth][3]);
#pragma GCC diagnostic pop
  return n;
}

/* ---- Comparing ---------------------------------------------------------------------------------------------------- */

static bool near_enough(double a, double b) {
  return a == b || (use_inexact && fabs(a - b) <= 8 * DBL_EPSILON * fabs(a));
}

static bool same_value(const tsr_value *value, sqlite3_stmt *statement) {
  switch (sqlite3_column_type(statement, 0)) {
  case SQLITE_NULL: return value->type == TSR_VALUE_NULL;
  case SQLITE_INTEGER:
    return value->type == TSR_VALUE_INTEGER && value->as.integer == sqlite3_column_int64(statement, 0);
  case SQLITE_FLOAT:
    return value->type == TSR_VALUE_REAL && near_enough(value->as.real, sqlite3_column_double(statement, 0));
  default:
    return value->type == TSR_VALUE_TEXT && value->as.text.size == (uint64_t)sqlite3_column_bytes(statement, 0) &&
           !memcmp(value->as.text.bytes, sqlite3_column_text(statement, 0), value->as.text.size);
  }
}

static void show_difference(const char *sql, uint32_t r, const tsr_value *value, sqlite3_stmt *statement) {
  print_error("row %u: %s: type %d, %lld, %.17g; SQLite: type %d, %s\n", r, sql, value->type,
              (long long)value->as.integer, value->as.real, sqlite3_column_type(statement, 0),
              sqlite3_column_text(statement, 0));
  for (int f = 0; f < FIELDS; f++) print_error(" %s %d", names[f], validity[f][r]);
  print_error(" a %lld b %lld small %d byte %d x %.17g y %.17g\n", (long long)as[r], (long long)bs[r], smalls[r],
              bytes[r], xs[r], (double)ys[r]);
}

/* Evaluates cell r alone: as a constant column, a selection, or by its place. Returns the code. */
static int evaluate_alone(const tsr_program *program, tsr_block_scratch *scratch, uint32_t r, tsr_value *value,
                          tsr_error *error) {
  tsr_block_input one[FIELDS];
  tsr_vector vector;
  memcpy(one, inputs, sizeof one);
  for (int f = 0; f < FIELDS; f++) {
    if (r % 2) one[f].selection = &r;
    else one[f].first = r;
  }
  const int rc = tsr__program_run(program, scratch, one, 1, &vector, error);
  if (rc >= 0) tsr__vector_value(&vector, 0, value);
  return rc;
}

/* Returns the cells that were compared; 0: the expression is refused. */
static uint32_t compare_with_sqlite(const sample *e, const char *sql, uint32_t *overflows) {
  const tsr_expression expression = {e->nodes, e->count}, *list = &expression;
  static char text[TEXT + 100];
  tsr_arena arena;
  tsr_program *program;
  tsr_block_scratch *scratch;
  tsr_error error;
  tsr_vector vector;
  sqlite3_stmt *statement;
  uint32_t compared = 0;
  tsr__arena_init(&arena, &memory);
  if (tsr__program_make(&schema, &list, 1, &arena, &program, &error) < 0) {
    assert_int_equal(error.code, TSR_MISMATCH);
    tsr__arena_release(&arena);
    return 0;
  }
  assert_int_equal(tsr__scratch_make(program, &arena, &scratch, &error), TSR_OK);
  const int whole = tsr__program_run(program, scratch, inputs, ROWS, &vector, &error);
  tsr_value block[ROWS];
  for (uint32_t r = 0; whole >= 0 && r < ROWS; r++) tsr__vector_value(&vector, r, &block[r]);
  snprintf(text, sizeof text, "SELECT %s FROM t ORDER BY r", sql);
  if (sqlite3_prepare_v2(database, text, -1, &statement, NULL) != SQLITE_OK)
    fail_msg("%s: %s", text, sqlite3_errmsg(database));
  uint32_t failed = 0;
  bool ended = false;
  for (uint32_t r = 0; r < ROWS; r++) {
    tsr_value value;
    const int step = sqlite3_step(statement), rc = evaluate_alone(program, scratch, r, &value, &error);
    if (rc < 0) failed++;
    if (step != SQLITE_ROW) { /* abs of the least integer ends the statement, even where no value needs it */
      ended = true;
      break;
    }
    if (rc < 0) continue;
    if (!same_value(&value, statement)) {
      show_difference(sql, r, &value, statement);
      fail_msg("another value than SQLite's");
    }
    if (whole >= 0 && !same_value(&block[r], statement)) {
      show_difference(sql, r, &block[r], statement);
      fail_msg("another value in a block");
    }
    compared++;
  }
  if (!ended && (whole < 0) != (failed > 0)) fail_msg("%s: the block gives %d, %u cells fail", sql, whole, failed);
  *overflows += failed > 0;
  sqlite3_finalize(statement);
  tsr__arena_release(&arena);
  return compared + ended;
}

static void compare_random(uint32_t expressions, unsigned depth) {
  static char sql[TEXT];
  uint32_t refused = 0, overflows = 0;
  for (uint32_t n = 0; n < expressions; n++) {
    sample e = {.count = 0};
    make_tree(&e, 1 + (unsigned)random_below(depth), sql);
    if (strlen(sql) + 1 >= TEXT / 4) continue;
    refused += compare_with_sqlite(&e, sql, &overflows) == 0;
  }
  print_message("%u expressions, %u refused, %u with an overflow\n", expressions, refused, overflows);
  assert_true(refused < expressions * 9 / 10);
}

static void test_random_expressions_are_as_in_sqlite(void **state) {
  use_inexact = false;
  compare_random(6000, 4);
}
static void test_functions_of_the_c_library_are_as_in_sqlite(void **state) {
  use_inexact = true;
  compare_random(400, 1);
}

/* A number of one of several kinds: small and large ones, those that a slope has, and any bits at all. */
static double any_number(uint32_t kind, uint64_t bits) {
  double number = (double)(bits >> 11) * 0x1p-53;
  switch (kind % 5) {
  case 0: number *= 3; break;
  case 1: number /= 8; break;
  case 2: number = exp(24 * number - 12); break;
  case 3: number = sqrt((double)(bits >> 40)) / 8 / 30; break;
  default: memcpy(&number, &bits, sizeof number);
  }
  return bits & 1 ? -number : number;
}

/* Returns true if arctangent.c has code of its own here, and not only the C library's. */
static bool has_own_arctangents(void) {
#if defined(__GLIBC__) && defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

static void test_arctangents_have_the_bits_of_the_c_library(void **state) {
  enum { COUNT = 1003, ROUNDS = 300 };
  static const double special[] = {0.0,    -0.0, INFINITY, -INFINITY, NAN,     1,      -1,
                                   0x1p-4, 16,   0x1.fp3,  5e-324,    DBL_MIN, DBL_MAX};
  static double numbers[COUNT], found[COUNT];
  uint64_t chance = 1;
  (void)state;
  if (!has_own_arctangents())
    print_message("SKIPPED: four arctangents at a time need glibc, AVX2 and FMA: only the C library's are tested\n");
  for (uint32_t round = 0; round < ROUNDS; round++) {
    for (uint32_t i = 0; i < COUNT; i++) {
      chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      numbers[i] = any_number(round, chance ^ chance >> 33);
    }
    for (uint32_t i = 0; i < sizeof special / sizeof *special; i++) numbers[i] = special[i];
    tsr__arctangents(numbers, COUNT - round % 4, found);
    for (uint32_t i = 0; i < COUNT - round % 4; i++) {
      const double expected = atan(numbers[i]);
      assert_true(isnan(expected) ? isnan(found[i]) : !memcmp(&found[i], &expected, sizeof expected));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_expressions_are_as_in_sqlite),
      cmocka_unit_test(test_functions_of_the_c_library_are_as_in_sqlite),
      cmocka_unit_test(test_arctangents_have_the_bits_of_the_c_library),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
