/* functions_known.c: the functions that the text of a tessera_query may call. docs/explained/queries.md lists them. */
#include "query/functions_known.h"

#include "connection/sqlite_api.h"

#define SQLITES TSR_OP_COUNT
#define ANY     127
#define CELLS(n, a, b, operation)                                                                                      \
  { n, a, b, TSR_OP_##operation, false, TSR_AGGREGATE_COUNT, false }
#define RESULTS(n, a, b)                                                                                               \
  { n, a, b, SQLITES, false, TSR_AGGREGATE_COUNT, false }
#define OVER(n, a, b, function)                                                                                        \
  { n, a, b, SQLITES, true, TSR_AGGREGATE_##function, false }
#define ADDED(n, a, b, function)                                                                                       \
  { n, a, b, SQLITES, true, TSR_AGGREGATE_##function, true }

/* min and max of one argument are aggregates: they come before those of several. */
static const tsx_function known_functions[] = {
    OVER("count", 0, 1, COUNT),
    OVER("sum", 1, 1, SUM),
    OVER("total", 1, 1, TOTAL),
    OVER("avg", 1, 1, AVG),
    OVER("min", 1, 1, MIN),
    OVER("max", 1, 1, MAX),
    ADDED("median", 1, 1, MEDIAN),
    ADDED("percentile", 2, 2, PERCENTILE),
    ADDED("stddev", 1, 1, STDDEV),
    ADDED("variance", 1, 1, VARIANCE),
    CELLS("min", 2, ANY, LEAST),
    CELLS("max", 2, ANY, GREATEST),
    CELLS("abs", 1, 1, ABS),
    CELLS("sign", 1, 1, SIGN),
    CELLS("coalesce", 2, ANY, COALESCE),
    CELLS("ifnull", 2, 2, COALESCE),
    CELLS("nullif", 2, 2, NULLIF),
    CELLS("iif", 2, ANY, CASE),
    CELLS("if", 2, ANY, CASE),
    CELLS("likely", 1, 1, PLUS),
    CELLS("unlikely", 1, 1, PLUS),
    CELLS("round", 1, 1, ROUND),
    CELLS("floor", 1, 1, FLOOR),
    CELLS("ceil", 1, 1, CEIL),
    CELLS("ceiling", 1, 1, CEIL),
    CELLS("trunc", 1, 1, TRUNC),
    CELLS("sqrt", 1, 1, SQRT),
    CELLS("exp", 1, 1, EXP),
    CELLS("ln", 1, 1, LN),
    CELLS("log", 1, 1, LOG10),
    CELLS("log10", 1, 1, LOG10),
    CELLS("log2", 1, 1, LOG2),
    CELLS("log", 2, 2, LOG),
    CELLS("pow", 2, 2, POW),
    CELLS("power", 2, 2, POW),
    CELLS("mod", 2, 2, MOD),
    CELLS("sin", 1, 1, SIN),
    CELLS("cos", 1, 1, COS),
    CELLS("tan", 1, 1, TAN),
    CELLS("asin", 1, 1, ASIN),
    CELLS("acos", 1, 1, ACOS),
    CELLS("atan", 1, 1, ATAN),
    CELLS("atan2", 2, 2, ATAN2),
    CELLS("sinh", 1, 1, SINH),
    CELLS("cosh", 1, 1, COSH),
    CELLS("tanh", 1, 1, TANH),
    CELLS("asinh", 1, 1, ASINH),
    CELLS("acosh", 1, 1, ACOSH),
    CELLS("atanh", 1, 1, ATANH),
    CELLS("degrees", 1, 1, DEGREES),
    CELLS("radians", 1, 1, RADIANS),
    RESULTS("pi", 0, 0),
    RESULTS("round", 2, 2),
    RESULTS("date", 0, ANY),
    RESULTS("time", 0, ANY),
    RESULTS("datetime", 0, ANY),
    RESULTS("julianday", 0, ANY),
    RESULTS("unixepoch", 0, ANY),
    RESULTS("strftime", 1, ANY),
    RESULTS("substr", 2, 3),
    RESULTS("substring", 2, 3),
    RESULTS("length", 1, 1),
    RESULTS("lower", 1, 1),
    RESULTS("upper", 1, 1),
    RESULTS("trim", 1, 2),
    RESULTS("ltrim", 1, 2),
    RESULTS("rtrim", 1, 2),
    RESULTS("replace", 3, 3),
    RESULTS("instr", 2, 2),
    RESULTS("printf", 1, ANY),
    RESULTS("format", 1, ANY),
    RESULTS("typeof", 1, 1),
    RESULTS("hex", 1, 1),
    RESULTS("char", 0, ANY),
    RESULTS("unicode", 1, 1),
    RESULTS("quote", 1, 1),
};
#define KNOWN_COUNT (sizeof known_functions / sizeof *known_functions)

const tsx_function *tsx_function_find(const char *name, uint32_t count) {
  for (size_t i = 0; i < KNOWN_COUNT; i++)
    if (!sqlite3_stricmp(known_functions[i].name, name) && count >= known_functions[i].least &&
        (known_functions[i].greatest == ANY || count <= known_functions[i].greatest))
      return &known_functions[i];
  return NULL;
}

const tsx_function *tsx_function_known(const char *name) {
  for (size_t i = 0; i < KNOWN_COUNT; i++)
    if (!sqlite3_stricmp(known_functions[i].name, name)) return &known_functions[i];
  return NULL;
}
