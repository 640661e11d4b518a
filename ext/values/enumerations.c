/* enumerations.c: comparisons with an enumerated attribute, as the codes whose values satisfy them.
 *
 * SQL shows the values of the enumeration, cells store their numbers, the codes. A comparison becomes ranges of values,
 * as if the values were a column of their own (compare.c); every value is then tested against these ranges. That works
 * for values that are text of one-byte units or single numbers. Comparisons with other values (datetimes, several
 * numbers per value, wide strings, bytes) are left to SQLite. A code without a value reads as NULL, and so does a code
 * whose value is NaN. */
#include "values/compare.h"

#include <string.h>

#include "connection/sqlite_api.h"

bool tsx_codes_possible(const tsx_column *column) {
  return column->value_form == TSX_TEXT || tsx_form_is_number(column->value_form);
}

/* Describes the values as a column of their own. *field must live as long as the column. */
static tsx_column column_of(const tsx_column *column, tsr_field *field) {
  *field = (tsr_field){.datatype = column->enumeration->datatype, .values_per_cell = 1};
  return (tsx_column){.form = column->value_form,
                      .description = field,
                      .mixed = column->value_form == TSX_UINT64 /* a value may be above the signed range */};
}

bool tsx_codes_exact(const tsx_column *column, tsx_op op, sqlite3_value *value) {
  tsr_field field;
  const tsx_column values = column_of(column, &field);
  if (column->value_form == TSX_TEXT || !tsx_codes_possible(column)) return false;
  if (op == TSX_IS && (!value || sqlite3_value_type(value) == SQLITE_NULL))
    return false; /* codes without a value match */
  return tsx_ranges_exact(&values, op, value, false);
}

static int compare_text(const void *stored, uint64_t size, const void *text, uint64_t text_size) {
  uint64_t common = size < text_size ? size : text_size;
  int order = common ? memcmp(stored, text, common) : 0;
  return order ? order : size < text_size ? -1 : size > text_size;
}

static int64_t load_integer(tsx_form form, const void *p) {
  switch (form) {
  case TSX_INT8: return tsx_load_signed(p, 1);
  case TSX_INT16: return tsx_load_signed(p, 2);
  case TSX_INT32: return tsx_load_signed(p, 4);
  case TSX_UINT8: return (int64_t)tsx_load_unsigned(p, 1);
  case TSX_UINT16: return (int64_t)tsx_load_unsigned(p, 2);
  case TSX_UINT32: return (int64_t)tsx_load_unsigned(p, 4);
  default: return tsx_load_signed(p, 8);
  }
}

static double load_real(tsx_form form, const void *p) {
  float f;
  double d;
  if (form == TSX_FLOAT32) {
    memcpy(&f, p, 4);
    return f;
  }
  memcpy(&d, p, 8);
  return d;
}

static int value_compare(tsx_form form, const void *stored, uint64_t size, const void *end, uint64_t end_size) {
  if (form == TSX_TEXT) return compare_text(stored, size, end, end_size);
  if (form == TSX_FLOAT32 || form == TSX_FLOAT64) {
    const double a = load_real(form, stored), b = load_real(form, end);
    return a < b ? -1 : a > b;
  }
  const int64_t a = load_integer(form, stored), b = load_integer(form, end);
  if (form == TSX_UINT64 || form == TSX_UINT64_SIGNED) /* ranges are in the array's order: unsigned */
    return (uint64_t)a < (uint64_t)b ? -1 : (uint64_t)a > (uint64_t)b;
  return a < b ? -1 : a > b;
}

static bool value_is_within(tsx_form form, const tsr_range *range, const void *stored, uint64_t size) {
  const int low = range->low ? value_compare(form, stored, size, range->low, range->low_size) : 1;
  const int high = range->high ? value_compare(form, stored, size, range->high, range->high_size) : -1;
  return (range->low_exclusive ? low > 0 : low >= 0) && (range->high_exclusive ? high < 0 : high <= 0);
}

static bool value_is_null(tsx_form form, const void *stored) {
  if (form != TSX_FLOAT32 && form != TSX_FLOAT64) return false;
  const double d = load_real(form, stored);
  return d != d;
}

static int add_code(tsx_codes *codes, int64_t code) {
  if (codes->count && codes->ranges[codes->count - 1][1] + 1 == code) {
    codes->ranges[codes->count - 1][1] = code;
    return SQLITE_OK;
  }
  if (codes->count == codes->room) {
    uint64_t room = codes->room ? 2 * codes->room : 8;
    void *ranges = sqlite3_realloc64(codes->ranges, room * sizeof *codes->ranges);
    if (!ranges) return SQLITE_NOMEM;
    codes->ranges = ranges;
    codes->room = room;
  }
  codes->ranges[codes->count][0] = codes->ranges[codes->count][1] = code;
  codes->count++;
  return SQLITE_OK;
}

static int add_codes(const tsx_column *column, tsx_op op, const tsx_ranges *ranges, tsx_codes *codes) {
  const tsr_enumeration *enumeration = column->enumeration;
  for (uint64_t code = 0; code < enumeration->count; code++) {
    const uint64_t from = enumeration->offsets[code], size = enumeration->offsets[code + 1] - from;
    const uint8_t *stored = enumeration->data + from;
    bool within = op == TSX_NOTNULL;
    if (value_is_null(column->value_form, stored)) continue;
    for (int i = 0; i < ranges->count && !within; i++)
      within = value_is_within(column->value_form, &ranges->ranges[i], stored, size);
    if (op == TSX_NE) within = !within;
    if (within && add_code(codes, (int64_t)code) != SQLITE_OK) return SQLITE_NOMEM;
  }
  return SQLITE_OK;
}

int tsx_codes_within(const tsx_column *column, const tsr_range *range, tsx_codes *codes) {
  const tsx_ranges ranges = {.count = 1, .ranges = {*range}};
  return add_codes(column, TSX_EQ, &ranges, codes);
}

int tsx_codes_add(const tsx_column *column, tsx_op op, bool nocase, bool numeric, sqlite3_value *value, unsigned rules,
                  tsx_codes *codes) {
  tsr_field field;
  const tsx_column values = column_of(column, &field);
  tsx_ranges ranges = {0};
  void *memory = NULL;
  if (op != TSX_NOTNULL) {
    const tsx_op compared = op == TSX_NE ? TSX_EQ : op;
    if (sqlite3_value_type(value) == SQLITE_NULL) return SQLITE_OK;
    if (nocase) ranges.count = tsx_nocase_range(op, value, &ranges.ranges[0], &memory);
    else tsx_ranges_make(&values, compared, value, rules, &ranges);
    if (ranges.count == TSX_NO_MEMORY) return SQLITE_NOMEM;
    if (op == TSX_NE && !tsx_ranges_exact(&values, TSX_EQ, value, rules & TSX_UTF16)) ranges.count = TSX_EVERYTHING;
    if (ranges.count == TSX_EVERYTHING) {
      codes->everything = true;
      return SQLITE_OK;
    }
    for (int i = 0; i < ranges.count && numeric; i++) tsx_numeric_range(&ranges.ranges[i]);
  }
  const int code = add_codes(column, op, &ranges, codes);
  sqlite3_free(memory);
  return code;
}
