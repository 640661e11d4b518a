/* compare_values.c: SQLite's order of values: null, numbers, texts. */
#include "query/compare_values.h"

#include <string.h>

static int compare_reals(double a, double b) { return (a > b) - (a < b); }

/* Compares exactly, without converting the integer. */
static int compare_mixed(int64_t integer, double real) {
  if (real >= 9223372036854775808.0) return -1;
  if (real < -9223372036854775808.0) return 1;
  const int64_t whole = (int64_t)real;
  return integer != whole ? (integer > whole) - (integer < whole) : compare_reals(0, real - (double)whole);
}

static int value_class(const tsr_value *value) {
  return value->type == TSR_VALUE_NULL ? 0 : value->type == TSR_VALUE_TEXT ? 2 : 1;
}

int tsx_values_compare(const tsr_value *a, const tsr_value *b) {
  const int class_a = value_class(a), class_b = value_class(b);
  if (class_a != class_b || class_a == 0) return class_a - class_b;
  if (class_a == 2) {
    const uint64_t size = a->as.text.size < b->as.text.size ? a->as.text.size : b->as.text.size;
    const int order = size ? memcmp(a->as.text.bytes, b->as.text.bytes, size) : 0;
    return order ? order : (a->as.text.size > b->as.text.size) - (a->as.text.size < b->as.text.size);
  }
  const bool real_a = a->type == TSR_VALUE_REAL, real_b = b->type == TSR_VALUE_REAL;
  if (real_a && real_b) return compare_reals(a->as.real, b->as.real);
  if (real_b) return compare_mixed(a->as.integer, b->as.real);
  if (real_a) return -compare_mixed(b->as.integer, a->as.real);
  return (a->as.integer > b->as.integer) - (a->as.integer < b->as.integer);
}

bool tsx_value_may(const tsr_value *value, int op, const tsr_value *constant, bool utf16) {
  const bool null = value->type == TSR_VALUE_NULL || constant->type == TSR_VALUE_NULL;
  if (op == SQLITE_INDEX_CONSTRAINT_IS && null) return value->type == constant->type;
  if (null) return false;
  if (value_class(value) != value_class(constant)) return true; /* an affinity may change the class */
  const int order = tsx_values_compare(value, constant);
  if (op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_IS) return order == 0;
  if (utf16 && value->type == TSR_VALUE_TEXT) return true;
  switch (op) {
  case SQLITE_INDEX_CONSTRAINT_GT: return order > 0;
  case SQLITE_INDEX_CONSTRAINT_GE: return order >= 0;
  case SQLITE_INDEX_CONSTRAINT_LT: return order < 0;
  case SQLITE_INDEX_CONSTRAINT_LE: return order <= 0;
  default: return true;
  }
}
