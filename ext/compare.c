/* compare.c: the right side of a comparison becomes ranges of a column's values.
 *
 * A range must hold every cell for which SQLite would say that the comparison is true. Where it holds just those, the
 * comparison is exact, and SQLite need not test again. How SQLite compares, in short: NULL with nothing; numbers among
 * themselves by value, integer with real exactly; a numeric column takes text that looks like a number for one; other
 * text, then blobs, are greater than any number; a TEXT column compares with text by bytes of the database's encoding,
 * and with a number in a way that cannot be seen from here.
 *
 * One comparison is the table's own. A column of UINT64 values past the signed range has no affinity: SQLite compares an
 * INTEGER with the TEXT of a number as two types. The table takes text of digits for the number that they are, and plans
 * promise SQLite that it need not test that again (`omit`).
 */
#include "values.h"

#include <math.h>

typedef __int128 wide;

/* ---- Ranges ------------------------------------------------------------------------------------------------------ */

static void add_range(tsx_ranges *ranges, const void *low, const void *high, uint64_t size) {
  int i = ranges->count++;
  ranges->ranges[i] = (tsr_range){0};
  if (low) {
    memcpy(ranges->values[i][0], low, size);
    ranges->ranges[i].low = ranges->values[i][0];
  }
  if (high) {
    memcpy(ranges->values[i][1], high, size);
    ranges->ranges[i].high = ranges->values[i][1];
  }
}

static void everything_matches(tsx_ranges *ranges) { add_range(ranges, NULL, NULL, 0); }

/* What text and blobs are to a numeric column: greater than all of it. */
static void greater_than_all(tsx_op op, tsx_ranges *ranges) {
  if (op == TSX_LT || op == TSX_LE) everything_matches(ranges);
}

/* [low, high] of wide integers, cut to the datatype. The array has UINT64 that is shown as signed in two parts, which are
 * both ends of its order. */
static void add_integers(const tsx_column *column, wide low, wide high, tsx_ranges *ranges) {
  tsr_datatype datatype = column->description->datatype;
  uint64_t size = tsr_datatype_size(datatype);
  tsr_kind kind = tsr_datatype_kind(datatype);
  if (column->form == TSX_UINT64_SIGNED) {
    wide first = low < INT64_MIN ? INT64_MIN : low, last = high < -1 ? high : -1;
    uint64_t a = (uint64_t)first, b = (uint64_t)last;
    if (first <= last) add_range(ranges, &a, &b, size);
    if (high > INT64_MAX) high = INT64_MAX;
  }
  bool is_signed = kind != TSR_KIND_UNSIGNED && kind != TSR_KIND_BOOLEAN;
  wide least = is_signed ? -((wide)1 << (size * 8 - 1)) : 0;
  wide most = ((wide)1 << (size * 8 - (is_signed ? 1 : 0))) - 1;
  if (low < least) low = least;
  if (high > most) high = most;
  if (low > high) return;
  uint64_t a = (uint64_t)low, b = (uint64_t)high;
  add_range(ranges, &a, &b, size);
}

#define WIDE_MIN (-((wide)1 << 100))
#define WIDE_MAX ((wide)1 << 100)
#define TWO63    9223372036854775808.0

/* What compares as `op` says with a value that stands between two integers, or at one: `at` is the first that is not less
 * than the value, `above` the first that is greater. */
static void add_compared(const tsx_column *column, tsx_op op, wide at, wide above, tsx_ranges *ranges) {
  switch (op) {
  case TSX_GT: add_integers(column, above, WIDE_MAX, ranges); break;
  case TSX_GE: add_integers(column, at, WIDE_MAX, ranges); break;
  case TSX_LT: add_integers(column, WIDE_MIN, at - 1, ranges); break;
  case TSX_LE: add_integers(column, WIDE_MIN, above - 1, ranges); break;
  default: add_integers(column, at, above - 1, ranges);
  }
}

static void place_real(double d, wide *at, wide *above) {
  double limit = 1e28;
  if (d > limit) d = limit;
  if (d < -limit) d = -limit;
  *at = (wide)ceil(d);
  *above = (wide)floor(d) + 1;
}

static void integer_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, tsx_ranges *ranges) {
  wide at, above;
  int type = sqlite3_value_numeric_type(value);
  if (type == SQLITE_INTEGER) {
    at = sqlite3_value_int64(value);
    above = at + 1;
  } else if (type == SQLITE_FLOAT) {
    place_real(sqlite3_value_double(value), &at, &above);
  } else {
    greater_than_all(op, ranges);
    return;
  }
  add_compared(column, op, at, above, ranges);
}

/* ---- UINT64, of which some are text ------------------------------------------------------------------------------ */

#define TEXT_LEAST ((wide)1 << 63) /* from here on they are text */
#define TEXT_END   ((wide)1 << 64)

/* The number that digits are; TEXT_END: it is too large. False: they are no digits. */
static bool take_digits(const char *text, int size, wide *number) {
  *number = 0;
  for (int i = 0; i < size; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    *number = *number * 10 + (text[i] - '0');
    if (*number > TEXT_END) *number = TEXT_END;
  }
  return size > 0;
}

/* < 0, > 0: 20 digits against a text that is something else, as SQLite compares them. Characters that are not ASCII are
 * behind digits in UTF-8; UTF-16 has another order. */
static int compare_digits(const char *digits, sqlite3_value *value, bool utf16) {
  const uint8_t *bytes = utf16 ? sqlite3_value_text16(value) : sqlite3_value_text(value);
  int size = utf16 ? sqlite3_value_bytes16(value) : sqlite3_value_bytes(value), order = 0;
  uint16_t units[20];
  const uint8_t *own = (const uint8_t *)digits;
  int own_size = 20;
  for (int i = 0; i < 20; i++) units[i] = (uint16_t)digits[i];
  if (utf16) own = (const uint8_t *)units, own_size = sizeof units;
  if (bytes && size) order = memcmp(own, bytes, (size_t)(size < own_size ? size : own_size));
  return order ? order : own_size < size ? -1 : 1;
}

/* The first number whose text is greater than a text that is no number. */
static wide place_text(sqlite3_value *value, bool utf16) {
  wide low = TEXT_LEAST, high = TEXT_END;
  char digits[24];
  while (low < high) {
    const wide middle = low + (high - low) / 2;
    sqlite3_snprintf(sizeof digits, digits, TSX_UINT64_PRINTED, (unsigned long long)middle);
    if (compare_digits(digits, value, utf16) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* SQLite's comparison of a column without affinity: integers by value, texts behind all numbers and blobs behind all texts;
 * but that text of digits means its number. */
static void unsigned_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how,
                            tsx_ranges *ranges) {
  wide at = TEXT_END, above = TEXT_END;
  switch (sqlite3_value_type(value)) {
  case SQLITE_INTEGER:
    at = sqlite3_value_int64(value);
    above = at + 1;
    break;
  case SQLITE_FLOAT:
    place_real(sqlite3_value_double(value), &at, &above);
    if (at > TEXT_LEAST) at = TEXT_LEAST;
    if (above > TEXT_LEAST) above = TEXT_LEAST;
    break;
  case SQLITE_TEXT: {
    const char *text = (const char *)sqlite3_value_text(value);
    if (!text) {
      ranges->count = TSX_EVERYTHING;
      return;
    }
    const int size = sqlite3_value_bytes(value);
    const bool digits = take_digits(text, size, &at);
    if (digits && (!(how & TSX_PLAINLY) || (size == 20 && at >= TEXT_LEAST && at < TEXT_END))) above = at + 1;
    else at = above = place_text(value, how & TSX_UTF16);
    break;
  }
  default: break;
  }
  add_compared(column, op, at, above, ranges);
}

/* ---- Floats ------------------------------------------------------------------------------------------------------ */

/* < 0, 0, > 0: an integer against a double, exactly. */
static int compare_exactly(int64_t i, double d) {
  if (d >= TWO63) return -1;
  if (d < -TWO63) return 1;
  int64_t whole = (int64_t)d; /* towards zero */
  if (i != whole) return i < whole ? -1 : 1;
  double rest = d - (double)whole;
  return rest > 0 ? -1 : rest < 0;
}

static void add_floats(uint64_t size, double low, double high, tsx_ranges *ranges) {
  if (!(low <= high)) return;
  if (size == 8) {
    add_range(ranges, &low, &high, 8);
    return;
  }
  float a = (float)low, b = (float)high; /* rounded to nearest: step back inside */
  if ((double)a < low) a = nextafterf(a, INFINITY);
  if ((double)b > high) b = nextafterf(b, -INFINITY);
  if (a <= b) add_range(ranges, &a, &b, 4);
}

static void float_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, tsx_ranges *ranges) {
  uint64_t size = tsr_datatype_size(column->description->datatype);
  double least, most; /* the least double >= value, the greatest <= value */
  bool equal = true; /* is there a double that is the value? */
  int type = sqlite3_value_numeric_type(value);
  if (type == SQLITE_INTEGER) {
    int64_t i = sqlite3_value_int64(value);
    double d = (double)i;
    int order = compare_exactly(i, d);
    equal = !order;
    least = order > 0 ? nextafter(d, INFINITY) : d;
    most = order < 0 ? nextafter(d, -INFINITY) : d;
  } else if (type == SQLITE_FLOAT) {
    least = most = sqlite3_value_double(value);
  } else { /* text and blobs are greater than all numbers, but not than NaN, which is NULL */
    if (op == TSX_LT || op == TSX_LE) add_floats(size, -INFINITY, INFINITY, ranges);
    return;
  }
  switch (op) {
  case TSX_GT:
    if (!equal) add_floats(size, least, INFINITY, ranges);
    else if (most < INFINITY) add_floats(size, nextafter(most, INFINITY), INFINITY, ranges);
    break;
  case TSX_GE: add_floats(size, least, INFINITY, ranges); break;
  case TSX_LT:
    if (!equal) add_floats(size, -INFINITY, most, ranges);
    else if (least > -INFINITY) add_floats(size, -INFINITY, nextafter(least, -INFINITY), ranges);
    break;
  case TSX_LE: add_floats(size, -INFINITY, most, ranges); break;
  default:
    if (equal) add_floats(size, least, most, ranges);
  }
}

/* ---- Datetimes as ISO text --------------------------------------------------------------------------------------- */

/* The values that have ISO text are an interval around 1970, and within it texts are ordered as their values are. */
static void find_printable(tsr_datatype datatype, int64_t *low, int64_t *high) {
  char text[48];
  *low = *high = 0;
  for (int64_t step = (int64_t)1 << 62; step; step >>= 1) {
    if (*high <= INT64_MAX - step && tsr_datetime_print(datatype, *high + step, text)) *high += step;
    if (*low >= INT64_MIN + 1 + step && tsr_datetime_print(datatype, *low - step, text)) *low -= step;
  }
}

/* The least printable value whose text is >= `text` (or > it): high + 1 (in `past`) where there is none. */
static int64_t lower_bound(const tsx_column *column, const char *text, int size, bool strictly, bool *past) {
  int64_t low = column->printable_low, high = column->printable_high;
  char own[48];
  *past = false;
  while (low < high) {
    int64_t middle = low + (int64_t)(((uint64_t)high - (uint64_t)low) / 2);
    int n = tsr_datetime_print(column->description->datatype, middle, own);
    int order = memcmp(own, text, (size_t)(n < size ? n : size));
    if (!order) order = n < size ? -1 : n > size;
    if (order < 0 || (strictly && !order)) low = middle + 1;
    else high = middle;
  }
  int n = tsr_datetime_print(column->description->datatype, low, own);
  int order = memcmp(own, text, (size_t)(n < size ? n : size));
  if (!order) order = n < size ? -1 : n > size;
  if (order < 0 || (strictly && !order)) *past = true;
  return low;
}

static void add_times(tsx_ranges *ranges, int64_t low, int64_t high) {
  if (low <= high) add_range(ranges, &low, &high, 8);
}

/* Values without a text appear as integers; how those compare with text is left to SQLite. */
static void add_unprintable(const tsx_column *column, tsx_ranges *ranges) {
  if (column->printable_low > INT64_MIN) add_times(ranges, INT64_MIN, column->printable_low - 1);
  if (column->printable_high < INT64_MAX) add_times(ranges, column->printable_high + 1, INT64_MAX);
}

static void datetime_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, bool utf16, tsx_ranges *ranges) {
  int type = sqlite3_value_type(value);
  if (type == SQLITE_BLOB) {
    greater_than_all(op, ranges);
    return;
  }
  if (type != SQLITE_TEXT) { /* with a literal as text, with a column as numbers: cannot be told apart here */
    ranges->count = TSX_EVERYTHING;
    return;
  }
  const char *text = (const char *)sqlite3_value_text(value);
  int size = sqlite3_value_bytes(value);
  for (int i = 0; utf16 && i < size; i++)
    if (!text || (uint8_t)text[i] >= 0x80) {
      ranges->count = TSX_EVERYTHING; /* UTF-16 sorts it in another place than UTF-8 */
      return;
    }
  if (!text) {
    ranges->count = TSX_EVERYTHING;
    return;
  }
  int64_t low = column->printable_low, high = column->printable_high;
  bool past_at, past_above;
  int64_t at = lower_bound(column, text, size, false, &past_at);
  int64_t above = lower_bound(column, text, size, true, &past_above);
  switch (op) {
  case TSX_GT:
    if (!past_above) add_times(ranges, above, high);
    break;
  case TSX_GE:
    if (!past_at) add_times(ranges, at, high);
    break;
  case TSX_LT:
    if (past_at) add_times(ranges, low, high);
    else if (at > low) add_times(ranges, low, at - 1);
    break;
  case TSX_LE:
    if (past_above) add_times(ranges, low, high);
    else if (above > low) add_times(ranges, low, above - 1);
    break;
  default:
    if (!past_at && (past_above || above != at)) {
      add_times(ranges, at, at);
      return; /* an integer's text is never that of a date */
    }
  }
  if (column->mixed) add_unprintable(column, ranges);
}

/* ---- Strings ----------------------------------------------------------------------------------------------------- */

static void text_ranges(tsx_op op, sqlite3_value *value, bool utf16, tsx_ranges *ranges) {
  int type = sqlite3_value_type(value);
  if (type == SQLITE_BLOB) {
    greater_than_all(op, ranges);
    return;
  }
  bool equality = op == TSX_EQ || op == TSX_IS || op == TSX_IN;
  const char *text = type == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
  if (!text || (utf16 && !equality)) {
    ranges->count = TSX_EVERYTHING;
    return;
  }
  uint64_t size = (uint64_t)sqlite3_value_bytes(value);
  for (uint64_t i = 0; utf16 && i < size; i++)
    if ((uint8_t)text[i] >= 0x80) { /* bytes that are no text would have changed on the way */
      ranges->count = TSX_EVERYTHING;
      return;
    }
  tsr_range range = {0};
  if (op != TSX_LT && op != TSX_LE) {
    range.low = text;
    range.low_size = size;
    range.low_exclusive = op == TSX_GT;
  }
  if (op != TSX_GT && op != TSX_GE) {
    range.high = text;
    range.high_size = size;
    range.high_exclusive = op == TSX_LT;
  }
  ranges->ranges[ranges->count++] = range;
}

/* ---- All --------------------------------------------------------------------------------------------------------- */

void tsx_column_prepare(tsx_column *column) {
  const tsr_field *field = column->description;
  if (column->form != TSX_DATETIME) return;
  find_printable(field->datatype, &column->printable_low, &column->printable_high);
  /* An attribute's NaT is NULL. */
  int64_t low = field->has_domain ? tsx_load_signed(field->low, 8) : INT64_MIN + !field->is_dimension;
  int64_t high = field->has_domain ? tsx_load_signed(field->high, 8) : INT64_MAX;
  column->mixed = low < column->printable_low || high > column->printable_high;
}

/* Two texts are equal without case where they differ in ASCII letters alone. By bytes, all that is not less than v
 * without case is not below v in capitals, and all that is not greater is not above v in small letters; only that what
 * stands between Z and a may have a capital in its place that is greater. */
int tsx_nocase_range(tsx_op op, sqlite3_value *value, tsr_range *range, void **memory) {
  tsx_ranges plain = {0};
  *memory = NULL;
  text_ranges(op, value, false, &plain);
  if (plain.count <= 0) return plain.count;
  *range = plain.ranges[0];
  const uint8_t *text = range->low ? range->low : range->high;
  const uint64_t size = range->low ? range->low_size : range->high_size;
  if (!text) return 1; /* all: the value is a blob */
  if (memchr(text, 0, size)) return TSX_EVERYTHING; /* where the comparison of bytes ends */
  uint8_t *copy = sqlite3_malloc64(2 * size + 1);
  if (!copy) return TSX_NO_MEMORY;
  uint64_t n = 0;
  bool open = false;
  for (uint64_t i = 0; i < size; i++) copy[i] = text[i] >= 'A' && text[i] <= 'Z' ? text[i] + ('a' - 'A') : text[i];
  for (; n < size && !open; n++) {
    open = text[n] > 'Z' && text[n] < 'a';
    copy[size + n] = open ? 'A' : text[n] >= 'a' && text[n] <= 'z' ? text[n] - ('a' - 'A') : text[n];
  }
  if (range->low) {
    range->low = copy + size;
    range->low_size = n;
    range->low_exclusive = false;
  }
  if (range->high) range->high = copy; /* what is less without case is less by bytes, too */
  *memory = copy;
  return 1;
}

/* What looks like a number begins with a blank, a sign, a point or a digit: below the colon. */
void tsx_numeric_range(tsr_range *range) {
  static const char colon = ':';
  if (!range->high || (range->high_size && *(const uint8_t *)range->high >= (uint8_t)colon)) return;
  range->high = &colon;
  range->high_size = 1;
  range->high_exclusive = true;
}

/* All but the one value that equality has; it must be told apart from all others. */
static void unequal_ranges(const tsx_column *column, sqlite3_value *value, unsigned how, tsx_ranges *ranges) {
  tsx_ranges_make(column, TSX_EQ, value, how, ranges);
  if (!tsx_ranges_exact(column, TSX_EQ, value, how & TSX_UTF16)) ranges->count = TSX_EVERYTHING;
  if (ranges->count == 0) everything_matches(ranges);
  else if (ranges->count == 1) {
    const tsr_range at = ranges->ranges[0];
    ranges->ranges[0] = (tsr_range){.high = at.low, .high_size = at.low_size, .high_exclusive = true};
    ranges->ranges[1] = (tsr_range){.low = at.low, .low_size = at.low_size, .low_exclusive = true};
    ranges->count = 2;
  }
}

void tsx_ranges_make(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how, tsx_ranges *ranges) {
  const bool utf16 = how & TSX_UTF16;
  ranges->count = 0;
  if (op == TSX_ISNOT && sqlite3_value_type(value) == SQLITE_NULL) {
    everything_matches(ranges);
    return;
  }
  if ((op == TSX_NE || op == TSX_ISNOT) && sqlite3_value_type(value) != SQLITE_NULL) {
    unequal_ranges(column, value, how, ranges);
    return;
  }
  if (sqlite3_value_type(value) == SQLITE_NULL) {
    /* Only IS is true for NULL, and only a datetime's NaT and a float's NaN read as NULL. */
    bool may_be_null = column->form == TSX_DATETIME || column->form == TSX_FLOAT32 || column->form == TSX_FLOAT64;
    if (op == TSX_IS && may_be_null) ranges->count = TSX_EVERYTHING;
    return;
  }
  switch (column->form) {
  case TSX_FLOAT32:
  case TSX_FLOAT64: float_ranges(column, op, value, ranges); break;
  case TSX_DATETIME: datetime_ranges(column, op, value, utf16, ranges); break;
  case TSX_TEXT: text_ranges(op, value, utf16, ranges); break;
  case TSX_INT8:
  case TSX_INT16:
  case TSX_INT32:
  case TSX_INT64:
  case TSX_UINT8:
  case TSX_UINT16:
  case TSX_UINT32:
  case TSX_UINT64_SIGNED: integer_ranges(column, op, value, ranges); break;
  case TSX_UINT64:
    if (column->mixed) unsigned_ranges(column, op, value, how, ranges);
    else integer_ranges(column, op, value, ranges);
    break;
  default: ranges->count = TSX_EVERYTHING;
  }
}

bool tsx_ranges_exact(const tsx_column *column, tsx_op op, sqlite3_value *value, bool utf16) {
  switch (column->form) {
  case TSX_FLOAT32:
  case TSX_FLOAT64: return op != TSX_IS || (value && sqlite3_value_type(value) != SQLITE_NULL); /* NaN is NULL */
  case TSX_INT8:
  case TSX_INT16:
  case TSX_INT32:
  case TSX_INT64:
  case TSX_UINT8:
  case TSX_UINT16:
  case TSX_UINT32:
  case TSX_UINT64:
  case TSX_UINT64_SIGNED: return true;
  case TSX_DATETIME:
    if (column->mixed || utf16) return false;
    break;
  case TSX_TEXT:
    if (utf16) return false;
    break;
  case TSX_LABEL:
    if (utf16 || column->label_form != TSX_TEXT) return tsx_labels_exact(column, op, value);
    break;
  default: return false;
  }
  return value && sqlite3_value_type(value) == SQLITE_TEXT;
}

bool tsx_ranges_possible(const tsx_column *column) {
  switch (column->form) {
  case TSX_TEXT16:
  case TSX_TEXT32:
  case TSX_BLOB:
  case TSX_JSON: return false;
  case TSX_LABEL: return tsx_labels_possible(column);
  default: return true;
  }
}
