/* compare_values.c: SQLite's order of values: null, numbers, texts. A constraint of a statement gives a value, and not the
 * affinity of the column that the value comes from. So these functions ask what the comparison is under any affinity. */
#include "query/compare_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/literals.h"

#define NUMBER_SIZE 400 /* a longer text is no number here */
#define NUMBER_GAP  1e-12 /* how far SQLite's reading of a text may be from ours, relatively */

static int compare_reals(double a, double b) { return (a > b) - (a < b); }

/* Compares exactly, without converting the integer. */
static int compare_mixed(int64_t integer, double real) {
  if (real >= 9223372036854775808.0) return -1;
  if (real < -9223372036854775808.0) return 1;
  const int64_t whole = (int64_t)real;
  return integer != whole ? (integer > whole) - (integer < whole) : compare_reals(0, real - (double)whole);
}

enum { CLASS_NULL, CLASS_NUMBER, CLASS_TEXT }; /* in SQLite's order */

static int value_class(const tsr_value *value) {
  return value->type == TSR_VALUE_NULL ? CLASS_NULL : value->type == TSR_VALUE_TEXT ? CLASS_TEXT : CLASS_NUMBER;
}

int tsx_values_compare(const tsr_value *a, const tsr_value *b) {
  const int class_a = value_class(a), class_b = value_class(b);
  if (class_a != class_b || class_a == CLASS_NULL) return class_a - class_b;
  if (class_a == CLASS_TEXT) {
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

static bool satisfies(int op, int order) {
  switch (op) {
  case SQLITE_INDEX_CONSTRAINT_EQ:
  case SQLITE_INDEX_CONSTRAINT_IS: return order == 0;
  case SQLITE_INDEX_CONSTRAINT_GT: return order > 0;
  case SQLITE_INDEX_CONSTRAINT_GE: return order >= 0;
  case SQLITE_INDEX_CONSTRAINT_LT: return order < 0;
  case SQLITE_INDEX_CONSTRAINT_LE: return order <= 0;
  default: return true;
  }
}

/* Returns true if SQLite may take a text for a number. *number is about that number. */
static bool text_is_number(const tsr_value *value, double *number) {
  const char *text = value->as.text.bytes, *blanks = " \t\n\v\f\r";
  uint64_t size = value->as.text.size;
  char copy[NUMBER_SIZE];
  tsr_error error = {0};
  while (size && *text && strchr(blanks, *text)) text++, size--;
  while (size && text[size - 1] && strchr(blanks, text[size - 1])) size--;
  if (!size || size >= sizeof copy || !strchr("0123456789+-.", *text)) return false;
  memcpy(copy, text, size);
  copy[size] = 0;
  return strspn(copy, "0123456789+-.eE") == size &&
         tsx_number_parse(TSR_FLOAT64, copy, false, number, &error) == TSR_OK;
}

tsx_constant tsx_constant_make(const tsr_value *value) {
  tsx_constant constant = {.value = *value};
  constant.is_number = value_class(value) == CLASS_TEXT && text_is_number(value, &constant.number);
  return constant;
}

/* Returns true if the comparison may be true when the other side is a column of numbers, whose affinity SQLite applies to
 * both texts. A number is less than a text. */
static bool texts_may(const tsr_value *value, int op, const tsx_constant *constant) {
  double x = 0;
  const bool equality = op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_IS;
  if (equality && !constant->is_number) return false; /* equal texts alone are equal */
  const bool is_number = text_is_number(value, &x);
  if (!is_number && !constant->is_number) return false;
  if (is_number != constant->is_number) return satisfies(op, is_number ? -1 : 1);
  const double y = constant->number, gap = fabs(x - y), most = fmax(fabs(x), fabs(y));
  return satisfies(op, compare_reals(x, y)) || (gap <= most * NUMBER_GAP && satisfies(op, 0));
}

bool tsx_value_may(const tsr_value *value, int op, const tsx_constant *constant, bool utf16) {
  const bool null = value->type == TSR_VALUE_NULL || constant->value.type == TSR_VALUE_NULL;
  if (op == SQLITE_INDEX_CONSTRAINT_IS && null) return value->type == constant->value.type;
  if (null) return false;
  const int class = value_class(value);
  if (class != value_class(&constant->value)) return true; /* an affinity may change the class */
  const bool equality = op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_IS;
  if (class == CLASS_TEXT && utf16 && !equality) return true;
  if (satisfies(op, tsx_values_compare(value, &constant->value))) return true;
  return class == CLASS_TEXT && texts_may(value, op, constant);
}

static int compare_members(const void *a, const void *b) { return tsx_values_compare(a, b); }

void tsx_value_list_sort(tsx_value_list *list) {
  qsort(list->values, list->count, sizeof *list->values, compare_members);
  for (uint64_t i = 0; i < list->count; i++) {
    list->texts |= value_class(&list->values[i]) == CLASS_TEXT;
    list->numbers |= value_class(&list->values[i]) == CLASS_NUMBER;
  }
}

bool tsx_value_may_be_in(const tsr_value *value, const tsx_value_list *list) {
  const int class = value_class(value);
  if (class == CLASS_NULL) return false;
  if (class == CLASS_TEXT ? list->numbers : list->texts) return true;
  return bsearch(value, list->values, list->count, sizeof *list->values, compare_members) != NULL;
}
