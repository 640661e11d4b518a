/* compare_times.c: comparisons with datetimes and times of day, which columns show as ISO text, as ranges of values.
 *
 * Datetimes of the years 0000 to 9999 and times within one day have ISO text. These values are an interval around 1970
 * (printable_low to printable_high). The other values of the datatype are shown as integers. A column that may have
 * such values is `mixed`.
 *
 * Where SQLite tests the comparison again (TSX_PLAINLY), texts compare as texts, and the ranges hold every value that
 * may satisfy the comparison: values that are shown as integers are added, and for a number nothing is excluded at all.
 *
 * Everywhere else SQLite does not test again, and these rules hold:
 *   ISO text    of any precision means its first instant. All values compare with that instant, those shown as
 *               integers, too.
 *   other text  compares byte by byte with the texts that are shown, as in SQLite. Integers are less than all texts,
 *               unless the text comes from a parameter: then SQLite turns the integers into texts, and so does
 *               tsx_times_decimals.
 *   a number    is less than all texts, as in SQLite if it comes from a column. A parameter's number is turned into a
 *               text. A column's number compares with the years of DATETIME_YEAR as a number. A number compares as a
 *               number with values that are shown as integers.
 *   a BLOB      is greater than everything.
 * Literal numbers are left to SQLite. INT64_MIN is NaT, which is NULL: only IS NULL and IS NOT make a range that holds
 * it.
 */
#include "values/compare_times.h"

#include <math.h>
#include <string.h>

#include "connection/sqlite_api.h"
#include "values/compare.h"

typedef __int128 compare_times_wide;

#define FIRST (INT64_MIN + 1) /* the least value that is not NaT */
#define END   ((compare_times_wide)1 << 63) /* one more than the greatest */

/* ---- Ranges ------------------------------------------------------------------------------------------------------ */

static void add_times(tsx_ranges *ranges, compare_times_wide low, compare_times_wide high) {
  const int64_t ends[2] = {(int64_t)low, (int64_t)high};
  if (low <= high) tsx_ranges_add(ranges, &ends[0], &ends[1], sizeof ends[0]);
}

/* Where the right side of a comparison lies among the values: at one of them, or between two. */
typedef struct compare_times_place {
  compare_times_wide at,
      above; /* the first value that is not less than the right side, and the first that is greater */
} compare_times_place;

/* Adds those of the values low..high, inclusive, that compare with the place as `op` says. */
static void compare_times_add_compared(tsx_ranges *ranges, tsx_op op, compare_times_place with, compare_times_wide low,
                                       compare_times_wide high) {
  compare_times_wide first = low, last = high;
  if (op == TSX_GT) first = with.above;
  else if (op == TSX_LT) last = with.at - 1;
  else if (op == TSX_LE) last = with.above - 1;
  else first = with.at;
  if (op == TSX_EQ || op == TSX_IS || op == TSX_IN) last = with.above - 1;
  add_times(ranges, first < low ? low : first, last > high ? high : last);
}

/* ---- Values that have text --------------------------------------------------------------------------------------- */

/* The values that have text are an interval around 1970, so a search by halves finds its ends. Within the interval
 * texts sort as their values do. */
void tsx_times_printable(tsr_datatype datatype, int64_t *low, int64_t *high) {
  char text[48];
  *low = *high = 0;
  for (int64_t step = (int64_t)1 << 62; step; step >>= 1) {
    if (*high <= INT64_MAX - step && tsr_datetime_print(datatype, *high + step, text)) *high += step;
    if (*low >= INT64_MIN + 1 + step && tsr_datetime_print(datatype, *low - step, text)) *low -= step;
  }
}

/* Finds where a text lies among the texts of the values. */
static compare_times_place compare_times_place_text(const tsx_column *column, const tsx_text *text) {
  compare_times_place found;
  char shown[48];
  for (int strictly = 0; strictly < 2; strictly++) {
    compare_times_wide low = column->printable_low, high = (compare_times_wide)column->printable_high + 1;
    while (low < high) {
      const compare_times_wide middle = low + (high - low) / 2;
      const int size = tsr_datetime_print(column->description->datatype, (int64_t)middle, shown);
      const int order = tsx_text_compare(shown, size, text);
      if (order < 0 || (strictly && !order)) low = middle + 1;
      else high = middle;
    }
    if (strictly) found.above = low;
    else found.at = low;
  }
  return found;
}

static void add_printable(const tsx_column *column, tsx_op op, compare_times_place with, tsx_ranges *ranges) {
  compare_times_add_compared(ranges, op, with, column->printable_low, column->printable_high);
}

/* Adds values that are shown as integers: those below the values that have text, or those above. */
static void compare_times_add_integers(const tsx_column *column, tsx_op op, compare_times_place with, bool below,
                                       tsx_ranges *ranges) {
  if (!column->mixed) return;
  if (below) compare_times_add_compared(ranges, op, with, FIRST, (compare_times_wide)column->printable_low - 1);
  else compare_times_add_compared(ranges, op, with, (compare_times_wide)column->printable_high + 1, INT64_MAX);
}

/* ---- By SQLite's rules ------------------------------------------------------------------------------------------- */

/* Returns true if SQLite may take a text for a number, or if there is no memory to tell. */
static bool looks_numeric(sqlite3_value *value) {
  sqlite3_value *copy = sqlite3_value_dup(value); /* the question changes a value's type */
  const bool numeric = !copy || sqlite3_value_numeric_type(copy) != SQLITE_TEXT;
  sqlite3_value_free(copy);
  return numeric;
}

static void ranges_by_sqlite_rules(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how,
                                   tsx_ranges *ranges) {
  const compare_times_place greatest = {END, END}; /* greater than all values */
  tsx_text text;
  if (sqlite3_value_type(value) == SQLITE_BLOB) {
    compare_times_add_compared(ranges, op, greatest, FIRST, INT64_MAX);
    return;
  }
  if (sqlite3_value_type(value) !=
      SQLITE_TEXT) { /* a literal number compares as text, a column's not: not known here */
    ranges->count = TSX_EVERYTHING;
    return;
  }
  if (!tsx_text_take(value, how, &text)) {
    ranges->count = TSX_NO_MEMORY;
    return;
  }
  add_printable(column, op, compare_times_place_text(column, &text), ranges);
  if (op == TSX_EQ || op == TSX_IS || op == TSX_IN) { /* a text that is not ISO text may be that of an integer */
    if (ranges->count == 0 && column->mixed && looks_numeric(value)) ranges->count = TSX_EVERYTHING;
    return;
  }
  if (!column->mixed) return;
  add_times(ranges, FIRST, (compare_times_wide)column->printable_low - 1);
  add_times(ranges, (compare_times_wide)column->printable_high + 1, INT64_MAX);
}

/* ---- By the table's own rules ------------------------------------------------------------------------------------ */

static bool is_equality(tsx_op op) { return op == TSX_EQ || op == TSX_IS || op == TSX_IN; }

/* Returns true if the text is an integer as SQLite would write it, and sets *number. */
static bool take_decimal(sqlite3_value *value, int64_t *number) {
  char text[24];
  const char *given = (const char *)sqlite3_value_text(value);
  const int size = sqlite3_value_bytes(value);
  compare_times_wide v = 0;
  if (!given || !size || size > 20) return false;
  for (int i = *given == '-'; i < size; i++) {
    if (given[i] < '0' || given[i] > '9') return false;
    v = v * 10 + (given[i] - '0');
  }
  if (*given == '-') v = -v;
  if (v < FIRST || v > INT64_MAX) return false;
  *number = (int64_t)v;
  sqlite3_snprintf(sizeof text, text, "%lld", (long long)*number);
  return (int)strlen(text) == size && !memcmp(text, given, (size_t)size);
}

static compare_times_place place_number(sqlite3_value *value) {
  if (sqlite3_value_type(value) == SQLITE_INTEGER) {
    const compare_times_wide at = sqlite3_value_int64(value);
    return (compare_times_place){at, at + 1};
  }
  double d = sqlite3_value_double(value);
  if (d > 1e28) d = 1e28;
  if (d < -1e28) d = -1e28;
  return (compare_times_place){(compare_times_wide)ceil(d), (compare_times_wide)floor(d) + 1};
}

static void number_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how, tsx_ranges *ranges) {
  const compare_times_place number = place_number(value);
  compare_times_place printed = {column->printable_low, column->printable_low}; /* less than all texts */
  if (sqlite3_value_frombind(value)) {
    tsx_text text = {0};
    sqlite3_value *copy = sqlite3_value_dup(value); /* getting its text may change a value's type */
    const bool taken = copy && tsx_text_take(copy, how, &text);
    if (taken) printed = compare_times_place_text(column, &text);
    sqlite3_value_free(copy);
    if (!taken) {
      ranges->count = TSX_NO_MEMORY;
      return;
    }
  } else if (column->description->datatype == TSR_DATETIME_YEAR) {
    printed = (compare_times_place){number.at - 1970, number.above - 1970};
  }
  compare_times_add_integers(column, op, number, true, ranges);
  add_printable(column, op, printed, ranges);
  compare_times_add_integers(column, op, number, false, ranges);
}

static void compare_times_text_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how,
                                      tsx_ranges *ranges) {
  const char *given = (const char *)sqlite3_value_text(value);
  const tsr_datatype datatype = column->description->datatype;
  const compare_times_place greatest = {END, END};
  tsx_text text;
  int64_t at;
  if (!given) {
    ranges->count = TSX_NO_MEMORY;
    return;
  }
  const tsr_place found = tsr_datetime_place(datatype, given, (uint64_t)sqlite3_value_bytes(value), &at);
  if (found != TSR_PLACE_NONE) {
    compare_times_place with = {at, (compare_times_wide)at + (found == TSR_PLACE_AT)};
    if (found == TSR_PLACE_END) with = greatest;
    compare_times_add_compared(ranges, op, with, FIRST, INT64_MAX);
    return;
  }
  const bool bound = sqlite3_value_frombind(value) != 0;
  if (is_equality(op)) {
    if (!column->mixed || (!bound && op != TSX_IN) || !take_decimal(value, &at)) return;
    if (at < column->printable_low || at > column->printable_high) add_times(ranges, at, at);
    return;
  }
  if (!tsx_text_take(value, how, &text)) {
    ranges->count = TSX_NO_MEMORY;
    return;
  }
  if (!bound) compare_times_add_integers(column, op, greatest, true, ranges);
  add_printable(column, op, compare_times_place_text(column, &text), ranges);
  if (!bound) compare_times_add_integers(column, op, greatest, false, ranges);
}

/* Replaces the ranges of equality, which are one or two single values in order, by those of all other values. */
static void complement(const tsx_column *column, tsx_op op, tsx_ranges *ranges) {
  const tsx_ranges equal = *ranges;
  compare_times_wide from = FIRST;
  if (ranges->count < 0) return;
  ranges->count = 0;
  for (int i = 0; i < equal.count; i++) {
    const compare_times_wide at = tsx_load_signed(equal.values[i][0], 8);
    add_times(ranges, from, at - 1);
    from = at + 1;
  }
  add_times(ranges, from, INT64_MAX);
  if (op == TSX_ISNOT && column->description->is_dimension)
    add_times(ranges, INT64_MIN, INT64_MIN); /* NULL is not it */
}

static void ranges_by_table_rules(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how,
                                  tsx_ranges *ranges) {
  switch (sqlite3_value_type(value)) {
  case SQLITE_NULL:
    if (op == TSX_IS) add_times(ranges, INT64_MIN, INT64_MIN);
    if (op == TSX_ISNOT) add_times(ranges, FIRST, INT64_MAX);
    break;
  case SQLITE_TEXT: compare_times_text_ranges(column, op, value, how, ranges); break;
  case SQLITE_BLOB: compare_times_add_compared(ranges, op, (compare_times_place){END, END}, FIRST, INT64_MAX); break;
  default: number_ranges(column, op, value, how, ranges);
  }
}

void tsx_times_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how, tsx_ranges *ranges) {
  const bool unequal = (op == TSX_NE || op == TSX_ISNOT) && sqlite3_value_type(value) != SQLITE_NULL;
  ranges->count = 0;
  if (how & TSX_PLAINLY) {
    if (sqlite3_value_type(value) != SQLITE_NULL)
      ranges_by_sqlite_rules(column, unequal ? TSX_EQ : op, value, how, ranges);
    else if (op == TSX_IS || op == TSX_ISNOT) ranges->count = TSX_EVERYTHING;
  } else {
    ranges_by_table_rules(column, unequal ? TSX_EQ : op, value, how, ranges);
  }
  if (unequal) complement(column, op, ranges);
}

/* ---- Integers as text -------------------------------------------------------------------------------------------- */

bool tsx_times_as_text(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how) {
  int64_t at;
  if (column->form != TSX_DATETIME || !column->mixed || (how & TSX_PLAINLY) || op > TSX_LE || op == TSX_EQ)
    return false;
  if (sqlite3_value_type(value) != SQLITE_TEXT || !sqlite3_value_frombind(value)) return false;
  const char *text = (const char *)sqlite3_value_text(value);
  const uint64_t size = (uint64_t)sqlite3_value_bytes(value);
  return text && tsr_datetime_place(column->description->datatype, text, size, &at) == TSR_PLACE_NONE;
}

/* Among integers of one sign and one number of digits, texts sort as magnitudes do. So the magnitudes that satisfy the
 * comparison are a range, whose end a search by halves finds. */
void tsx_times_decimals(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how, int part,
                        tsx_ranges *ranges) {
  const bool negative = part >= TSX_DECIMAL_PARTS / 2;
  compare_times_wide least = 1;
  tsx_text text;
  ranges->count = 0;
  if (!tsx_text_take(value, how, &text)) {
    ranges->count = TSX_NO_MEMORY;
    return;
  }
  for (int digits = part % (TSX_DECIMAL_PARTS / 2); digits > 0; digits--) least *= 10;
  compare_times_wide low = least, high = least * 10 - 1; /* magnitudes */
  if (!negative && low <= column->printable_high) low = (compare_times_wide)column->printable_high + 1;
  if (negative && low <= -(compare_times_wide)column->printable_low)
    low = -(compare_times_wide)column->printable_low + 1;
  if (high > INT64_MAX) high = INT64_MAX;
  const compare_times_wide first = low, last = high;
  if (low > high) return;
  for (high++; low < high;) { /* the first whose text is greater than the given one (with < and >=: not less) */
    const compare_times_wide middle = low + (high - low) / 2;
    char decimal[24];
    sqlite3_snprintf(sizeof decimal, decimal, "%s%lld", negative ? "-" : "", (long long)middle);
    const int order = tsx_text_compare(decimal, (int)strlen(decimal), &text);
    if (order < 0 || (order == 0 && (op == TSX_GT || op == TSX_LE))) low = middle + 1;
    else high = middle;
  }
  const bool is_greater = op == TSX_GT || op == TSX_GE;
  const compare_times_wide from = is_greater ? low : first, to = is_greater ? last : low - 1;
  if (negative) add_times(ranges, -to, -from);
  else add_times(ranges, from, to);
}
