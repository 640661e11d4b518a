/* compare.c: the right side of a comparison becomes ranges of a column's values.
 *
 * The ranges must include every value for which SQLite's comparison is true. If they include no others, the comparison
 * is exact, and SQLite need not test it again. SQLite compares as follows. NULL satisfies no comparison but IS. Numbers
 * compare by value, an INTEGER exactly with a REAL. A numeric column takes text that looks like a number as that
 * number. Other text is greater than all numbers, and blobs are greater than all text. A TEXT column compares with text
 * by the bytes of the database's encoding; how it compares with a number depends on where the number comes from, which
 * a virtual table does not learn.
 *
 * Two comparisons mean more to the table than to SQLite (tsx_has_own_comparison). A column of UINT64 values above the
 * signed range has no affinity, so to SQLite an INTEGER and the TEXT of a number are of two types; the table reads text
 * of digits as its number. With a datetime, ISO text means an instant. Such comparisons hold only because the plan
 * tells SQLite not to test them again (`omit`).
 *
 * Sections: ranges of integers; UINT64 above the signed range; floats; strings; all columns, with the entry points;
 * datetimes and times of day. */
#include "values/compare.h"

#include <math.h>
#include <string.h>

#include "connection/sqlite_api.h"

typedef __int128 wide; /* holds the integers of all datatypes, and their neighbours */

static bool is_equality(tsx_op op) { return op == TSX_EQ || op == TSX_IS || op == TSX_IN; }

/* ---- Ranges of integers ------------------------------------------------------------------------------------------ */

/* Appends the range low..high, inclusive, of values of `size` bytes, 4 or 8. NULL is an open end. Copies the values
 * into *ranges. If both ends are the same pointer, those of the range are, too, so that readers need not compare
 * them. */
static void add_range(tsx_ranges *ranges, const void *low, const void *high, uint64_t size) {
  const int i = ranges->count++;
  const void *ends[2] = {low, high == low ? NULL : high};
  tsr_range *range = &ranges->ranges[i];
  for (int end = 0; end < 2; end++) {
    if (ends[end] && size == 8) memcpy(ranges->values[i][end], ends[end], 8);
    else if (ends[end]) memcpy(ranges->values[i][end], ends[end], 4);
    if (ends[end]) ends[end] = ranges->values[i][end];
  }
  *range = (tsr_range){.low = ends[0], .high = high == low ? ends[0] : ends[1]};
}

static void everything_matches(tsx_ranges *ranges) { add_range(ranges, NULL, NULL, 0); }

/* Gets the text of a value in the database's encoding, borrowed from the value. Returns false if memory is lacking. */
static bool take_text(sqlite3_value *value, unsigned rules, tsx_text *text) {
  *text = (tsx_text){.rules = rules};
  if (!(rules & TSX_UTF16)) text->bytes = sqlite3_value_text(value);
  else if (rules & TSX_UTF16BE) text->bytes = sqlite3_value_text16be(value);
  else text->bytes = sqlite3_value_text16le(value);
  text->size = rules & TSX_UTF16 ? sqlite3_value_bytes16(value) : sqlite3_value_bytes(value);
  return text->bytes != NULL;
}

/* Compares `size` ASCII characters, at most 48, with text, like SQLite's BINARY collation. Returns < 0, 0, > 0. */
static int compare_text(const char *ascii, int size, const tsx_text *text) {
  uint8_t units[96] = {0};
  const void *encoded = ascii;
  if (text->rules & TSX_UTF16) {
    for (int i = 0; i < size; i++) units[2 * i + (text->rules & TSX_UTF16BE ? 1 : 0)] = (uint8_t)ascii[i];
    encoded = units;
    size *= 2;
  }
  const int common = size < text->size ? size : text->size;
  const int order = common ? memcmp(encoded, text->bytes, (size_t)common) : 0;
  return order ? order : size < text->size ? -1 : size > text->size;
}

/* Compares a numeric column with text or a blob, which is greater than all numbers. */
static void compare_with_greatest(tsx_op op, tsx_ranges *ranges) {
  if (op == TSX_LT || op == TSX_LE) everything_matches(ranges);
}

/* Adds a single integer, if the datatype has it. Look-ups come here. */
static void add_integer(const tsx_column *column, int64_t value, tsx_ranges *ranges) {
  const tsr_kind kind = tsr_datatype_kind(column->description->datatype);
  const unsigned bits = 8 * (unsigned)tsr_datatype_size(column->description->datatype);
  const bool is_signed = kind != TSR_KIND_UNSIGNED && kind != TSR_KIND_BOOLEAN;
  const int64_t above = value >> (bits - is_signed < 64 ? bits - is_signed : 63); /* what does not fit */
  if (above == 0 || (above == -1 && (is_signed || column->form == TSX_UINT64_SIGNED)))
    add_range(ranges, &value, &value, 8); /* little-endian: the low bytes are the value in any integer datatype */
}

/* Adds the integers low..high, inclusive, clamped to the datatype. UINT64 shown as signed takes two ranges: in the
 * array, unsigned numbers ascend, so negative numbers come last. */
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

/* Adds the integers that compare with a value as `op` says. The value is at an integer or between two: `at` is the
 * first integer not below it, `above` the first above it. */
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
  if (type == SQLITE_INTEGER && is_equality(op)) {
    add_integer(column, sqlite3_value_int64(value), ranges);
    return;
  }
  if (type == SQLITE_INTEGER) {
    at = sqlite3_value_int64(value);
    above = at + 1;
  } else if (type == SQLITE_FLOAT) {
    place_real(sqlite3_value_double(value), &at, &above);
  } else {
    compare_with_greatest(op, ranges);
    return;
  }
  add_compared(column, op, at, above, ranges);
}

/* ---- UINT64 above the signed range, shown as text ---------------------------------------------------------------- */

#define TEXT_MIN ((wide)1 << 63) /* the first number that is shown as text */
#define TEXT_END ((wide)1 << 64) /* one more than the last */

/* Reads text of digits as *number; TEXT_END if the number is too large. Returns false for other text. */
static bool take_digits(const char *text, int size, wide *number) {
  *number = 0;
  for (int i = 0; i < size; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    *number = *number * 10 + (text[i] - '0');
    if (*number > TEXT_END) *number = TEXT_END;
  }
  return size > 0;
}

/* Returns the first number whose text is greater than `text`, or TEXT_END: a lower bound. `text` is not itself the text
 * of a number. */
static wide place_text(const tsx_text *text) {
  wide low = TEXT_MIN, high = TEXT_END;
  char digits[24];
  while (low < high) {
    const wide middle = low + (high - low) / 2;
    sqlite3_snprintf(sizeof digits, digits, TSX_UINT64_PRINTED, (unsigned long long)middle);
    if (compare_text(digits, 20, text) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Compares like SQLite with a column without affinity: numbers by value, text greater than all numbers, blobs greater
 * than all text; except that text of digits means its number. */
static void unsigned_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned rules,
                            tsx_ranges *ranges) {
  wide at = TEXT_END, above = TEXT_END;
  switch (sqlite3_value_type(value)) {
  case SQLITE_INTEGER:
    at = sqlite3_value_int64(value);
    above = at + 1;
    break;
  case SQLITE_FLOAT:
    place_real(sqlite3_value_double(value), &at, &above);
    if (at > TEXT_MIN) at = TEXT_MIN;
    if (above > TEXT_MIN) above = TEXT_MIN;
    break;
  case SQLITE_TEXT: {
    tsx_text text;
    const char *given = (const char *)sqlite3_value_text(value);
    const int size = sqlite3_value_bytes(value);
    const bool digits = given && take_digits(given, size, &at);
    if (digits && (!(rules & TSX_SQLITE_RULES) || (size == 20 && at >= TEXT_MIN && at < TEXT_END))) {
      above = at + 1;
    } else if (given && take_text(value, rules, &text)) {
      at = above = place_text(&text);
    } else {
      ranges->count = TSX_NO_MEMORY;
      return;
    }
    break;
  }
  default: break;
  }
  add_compared(column, op, at, above, ranges);
}

/* ---- Floats ------------------------------------------------------------------------------------------------------ */

/* Compares an integer with a double exactly. Returns < 0, 0, > 0. */
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
  float a = (float)low, b = (float)high; /* rounding may have left the range: step back into it */
  if ((double)a < low) a = nextafterf(a, INFINITY);
  if ((double)b > high) b = nextafterf(b, -INFINITY);
  if (a <= b) add_range(ranges, &a, &b, 4);
}

static void float_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, tsx_ranges *ranges) {
  uint64_t size = tsr_datatype_size(column->description->datatype);
  double least, most; /* the first double not below the value, the last not above it */
  bool equal = true; /* some double equals the value */
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
  } else { /* text and blobs are greater than all numbers; NaN is NULL, which compares with nothing */
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

/* ---- Strings ----------------------------------------------------------------------------------------------------- */

static void string_ranges(tsx_op op, sqlite3_value *value, bool utf16, tsx_ranges *ranges) {
  int type = sqlite3_value_type(value);
  if (type == SQLITE_BLOB) {
    compare_with_greatest(op, ranges);
    return;
  }
  const char *text = type == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
  if (!text || (utf16 && !is_equality(op))) {
    ranges->count = TSX_EVERYTHING;
    return;
  }
  uint64_t size = (uint64_t)sqlite3_value_bytes(value);
  for (uint64_t i = 0; utf16 && i < size; i++)
    if ((uint8_t)text[i] >= 0x80) { /* converting from UTF-16 may have replaced invalid text */
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

static void find_printable(tsr_datatype datatype, int64_t *low, int64_t *high);

/* ---- All columns ------------------------------------------------------------------------------------------------- */

void tsx_column_prepare(tsx_column *column) {
  const tsr_field *field = column->description;
  if (column->form != TSX_DATETIME) return;
  find_printable(field->datatype, &column->printable_low, &column->printable_high);
  /* INT64_MIN is NaT, which is null in an attribute and so no value. */
  int64_t low = field->has_domain ? tsx_load_signed(field->low, 8) : INT64_MIN + !field->is_dimension;
  int64_t high = field->has_domain ? tsx_load_signed(field->high, 8) : INT64_MAX;
  column->mixed = low < column->printable_low || high > column->printable_high;
}

/* NOCASE compares text as if all ASCII letters were lower case. So in byte order, text that is not less than v under
 * NOCASE is not less than v in upper case, and text that is not greater than v under NOCASE is not greater than v in
 * lower case. The first rule has one exception: where v has a character between 'Z' and 'a', such as '_', text that is
 * greater under NOCASE may have any upper-case letter at that position, which is less in byte order. So the low end is
 * cut at such a character, which is replaced by 'A'. */
int tsx_nocase_range(tsx_op op, sqlite3_value *value, tsr_range *range, void **memory) {
  tsx_ranges plain = {0};
  *memory = NULL;
  string_ranges(op, value, false, &plain);
  if (plain.count <= 0) return plain.count;
  *range = plain.ranges[0];
  const uint8_t *text = range->low ? range->low : range->high;
  const uint64_t size = range->low ? range->low_size : range->high_size;
  if (!text) return 1; /* the value is a blob: all text is less */
  if (memchr(text, 0, size)) return TSX_EVERYTHING; /* NOCASE ends at a NUL, byte order does not */
  uint8_t *copy = sqlite3_malloc64(2 * size + 1);
  if (!copy) return TSX_NO_MEMORY;
  uint64_t n = 0;
  bool cut = false;
  for (uint64_t i = 0; i < size; i++) copy[i] = text[i] >= 'A' && text[i] <= 'Z' ? text[i] + ('a' - 'A') : text[i];
  for (; n < size && !cut; n++) {
    cut = text[n] > 'Z' && text[n] < 'a';
    copy[size + n] = cut ? 'A' : text[n] >= 'a' && text[n] <= 'z' ? text[n] - ('a' - 'A') : text[n];
  }
  if (range->low) {
    range->low = copy + size;
    range->low_size = n;
    range->low_exclusive = false;
  }
  if (range->high) range->high = copy; /* an exclusive end stays exclusive: less under NOCASE is less by bytes */
  *memory = copy;
  return 1;
}

/* Text that looks like a number begins with a blank, a sign, a point or a digit, all of which are less than a colon. */
void tsx_numeric_range(tsr_range *range) {
  static const char colon = ':';
  if (!range->high || (range->high_size && *(const uint8_t *)range->high >= (uint8_t)colon)) return;
  range->high = &colon;
  range->high_size = 1;
  range->high_exclusive = true;
}

/* Makes the ranges of all values except the one that equality finds. Equality must be exact for that. */
static void unequal_ranges(const tsx_column *column, sqlite3_value *value, unsigned rules, tsx_ranges *ranges) {
  tsx_ranges_make(column, TSX_EQ, value, rules, ranges);
  if (ranges->count >= 0 && !tsx_ranges_exact(column, TSX_EQ, value, rules & TSX_UTF16)) ranges->count = TSX_EVERYTHING;
  if (ranges->count == 0) everything_matches(ranges);
  else if (ranges->count == 1) {
    const tsr_range at = ranges->ranges[0];
    ranges->ranges[0] = (tsr_range){.high = at.low, .high_size = at.low_size, .high_exclusive = true};
    ranges->ranges[1] = (tsr_range){.low = at.low, .low_size = at.low_size, .low_exclusive = true};
    ranges->count = 2;
  }
}

static void time_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned rules, tsx_ranges *ranges);

void tsx_ranges_make(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned rules, tsx_ranges *ranges) {
  const bool utf16 = rules & TSX_UTF16;
  if (column->form == TSX_DATETIME) {
    time_ranges(column, op, value, rules, ranges);
    return;
  }
  ranges->count = 0;
  const bool is_null = sqlite3_value_type(value) == SQLITE_NULL;
  if (op == TSX_ISNOT && is_null) {
    everything_matches(ranges);
    return;
  }
  if ((op == TSX_NE || op == TSX_ISNOT) && !is_null) {
    unequal_ranges(column, value, rules, ranges);
    return;
  }
  if (is_null) {
    /* Only IS is true for NULL, and of the remaining values only NaN and a duration's NaT read as NULL. */
    bool may_be_null = column->form == TSX_FLOAT32 || column->form == TSX_FLOAT64 || column->nat_is_null;
    if (op == TSX_IS && may_be_null) ranges->count = TSX_EVERYTHING;
    return;
  }
  switch (column->form) {
  case TSX_FLOAT32:
  case TSX_FLOAT64: float_ranges(column, op, value, ranges); break;
  case TSX_TEXT: string_ranges(op, value, utf16, ranges); break;
  case TSX_INT8:
  case TSX_INT16:
  case TSX_INT32:
  case TSX_INT64:
  case TSX_UINT8:
  case TSX_UINT16:
  case TSX_UINT32:
  case TSX_UINT64_SIGNED: integer_ranges(column, op, value, ranges); break;
  case TSX_UINT64:
    if (column->mixed) unsigned_ranges(column, op, value, rules, ranges);
    else integer_ranges(column, op, value, ranges);
    break;
  default: ranges->count = TSX_EVERYTHING;
  }
}

/* An unknown right side (`value` NULL) will be a parameter, a column or an expression, and time_ranges distinguishes
 * these as far as it must. A literal number is not exact: SQLite compares it as text, and xFilter cannot see that it is
 * a literal. */
static bool time_exact(const tsx_column *column, sqlite3_value *value) {
  int64_t at;
  if (!value || sqlite3_value_type(value) == SQLITE_BLOB) return true;
  if (sqlite3_value_type(value) != SQLITE_TEXT) return false;
  const char *text = (const char *)sqlite3_value_text(value);
  const uint64_t size = (uint64_t)sqlite3_value_bytes(value);
  return text &&
         (!column->mixed || tsr_datetime_place(column->description->datatype, text, size, &at) != TSR_INSTANT_NONE);
}

bool tsx_has_own_comparison(const tsx_column *column) {
  if (column->form == TSX_ENUMERATED) return column->value_form == TSX_UINT64;
  return column->form == TSX_DATETIME || (column->form == TSX_UINT64 && column->mixed);
}

bool tsx_ranges_exact(const tsx_column *column, tsx_op op, sqlite3_value *value, bool utf16) {
  switch (column->form) {
  case TSX_FLOAT32:
  case TSX_FLOAT64: return op != TSX_IS || (value && sqlite3_value_type(value) != SQLITE_NULL); /* NaN is NULL */
  case TSX_INT8:
  case TSX_INT16:
  case TSX_INT32:
  case TSX_UINT8:
  case TSX_UINT16:
  case TSX_UINT32:
  case TSX_UINT64:
  case TSX_UINT64_SIGNED: return true;
  case TSX_INT64: /* NaT is NULL */
    return !column->nat_is_null || op != TSX_IS || (value && sqlite3_value_type(value) != SQLITE_NULL);
  case TSX_DATETIME: return time_exact(column, value);
  case TSX_TEXT:
    if (utf16) return false;
    break;
  case TSX_ENUMERATED:
    if (utf16 || column->value_form != TSX_TEXT) return tsx_codes_exact(column, op, value);
    break;
  default: return false;
  }
  return value && sqlite3_value_type(value) == SQLITE_TEXT;
}

int tsx_op_of(int op) {
  switch (op) {
  case SQLITE_INDEX_CONSTRAINT_EQ: return TSX_EQ;
  case SQLITE_INDEX_CONSTRAINT_GT: return TSX_GT;
  case SQLITE_INDEX_CONSTRAINT_GE: return TSX_GE;
  case SQLITE_INDEX_CONSTRAINT_LT: return TSX_LT;
  case SQLITE_INDEX_CONSTRAINT_LE: return TSX_LE;
  case SQLITE_INDEX_CONSTRAINT_IS: return TSX_IS;
  case SQLITE_INDEX_CONSTRAINT_NE: return TSX_NE;
  case SQLITE_INDEX_CONSTRAINT_ISNOT: return TSX_ISNOT;
  case SQLITE_INDEX_CONSTRAINT_ISNULL: return TSX_ISNULL;
  case SQLITE_INDEX_CONSTRAINT_ISNOTNULL: return TSX_NOTNULL;
  default: return -1;
  }
}

bool tsx_ranges_possible(const tsx_column *column) {
  switch (column->form) {
  case TSX_TEXT16:
  case TSX_TEXT32:
  case TSX_BLOB:
  case TSX_JSON: return false;
  case TSX_ENUMERATED: return tsx_codes_possible(column);
  default: return true;
  }
}

/* ---- Datetimes and times of day ---------------------------------------------------------------------------------- */
/* Columns show them as ISO text. Datetimes of the years 0000 to 9999 and times within one day have ISO text. These
 * values are an interval around 1970 (printable_low to printable_high). The other values of the datatype are shown as
 * integers. A column that may have such values is `mixed`.
 *
 * If SQLite tests the comparison again (TSX_SQLITE_RULES), text compares as text, and the ranges include every value
 * that may satisfy the comparison: values that are shown as integers are added, and a number excludes nothing at all.
 *
 * Otherwise SQLite does not test again, and these rules hold:
 *
 *   ISO text    of any precision means its first instant. All values compare with that instant, also those shown as
 *               integers.
 *   other text  compares byte by byte with the text that is shown, as in SQLite. Integers are less than all text,
 *               unless the text is a parameter: then SQLite converts the integers to text, and so does
 *               tsx_times_decimals.
 *   a number    is less than all text, as in SQLite if it comes from a column. A parameter's number is converted to
 *               text. A column's number compares with the years of DATETIME_YEAR as a number. A number compares as a
 *               number with values that are shown as integers.
 *   a BLOB      is greater than everything.
 *
 * Literal numbers are left to SQLite. INT64_MIN is NaT, which is NULL: only IS NULL and IS NOT make a range that
 * includes it. */

#define FIRST (INT64_MIN + 1) /* the first value that is not NaT */
#define END   ((wide)1 << 63) /* one more than the last */

/* ---- Datetimes: ranges ------------------------------------------------------------------------------------------- */

static void add_times(tsx_ranges *ranges, wide low, wide high) {
  const int64_t ends[2] = {(int64_t)low, (int64_t)high};
  if (low <= high) add_range(ranges, &ends[0], &ends[1], sizeof ends[0]);
}

/* The position of a comparison's right side among the values: at one of them, or between two. */
typedef struct time_place {
  wide at, above; /* the first value not below the right side, and the first above it */
} time_place;

/* Adds those of the values low..high, inclusive, that compare with the place as `op` says. */
static void add_compared_times(tsx_ranges *ranges, tsx_op op, time_place with, wide low, wide high) {
  wide first = low, last = high;
  if (op == TSX_GT) first = with.above;
  else if (op == TSX_LT) last = with.at - 1;
  else if (op == TSX_LE) last = with.above - 1;
  else first = with.at;
  if (is_equality(op)) last = with.above - 1;
  add_times(ranges, first < low ? low : first, last > high ? high : last);
}

/* ---- Datetimes: values with text --------------------------------------------------------------------------------- */

/* Finds the values of a datatype that have ISO text: *low to *high, inclusive. They are an interval around 1970, so a
 * binary search finds its ends. Within the interval, text sorts like the values. */
static void find_printable(tsr_datatype datatype, int64_t *low, int64_t *high) {
  char text[48];
  *low = *high = 0;
  for (int64_t step = (int64_t)1 << 62; step; step >>= 1) {
    if (*high <= INT64_MAX - step && tsr_datetime_print(datatype, *high + step, text)) *high += step;
    if (*low >= INT64_MIN + 1 + step && tsr_datetime_print(datatype, *low - step, text)) *low -= step;
  }
}

/* Finds the position of text among the texts of the values: lower and upper bound. */
static time_place place_among_texts(const tsx_column *column, const tsx_text *text) {
  time_place found;
  char shown[48];
  for (int strictly = 0; strictly < 2; strictly++) {
    wide low = column->printable_low, high = (wide)column->printable_high + 1;
    while (low < high) {
      const wide middle = low + (high - low) / 2;
      const int size = tsr_datetime_print(column->description->datatype, (int64_t)middle, shown);
      const int order = compare_text(shown, size, text);
      if (order < 0 || (strictly && !order)) low = middle + 1;
      else high = middle;
    }
    if (strictly) found.above = low;
    else found.at = low;
  }
  return found;
}

static void add_printable(const tsx_column *column, tsx_op op, time_place with, tsx_ranges *ranges) {
  add_compared_times(ranges, op, with, column->printable_low, column->printable_high);
}

/* Adds values that are shown as integers: those below the values with text, or those above. */
static void add_unprintable(const tsx_column *column, tsx_op op, time_place with, bool below, tsx_ranges *ranges) {
  if (!column->mixed) return;
  if (below) add_compared_times(ranges, op, with, FIRST, (wide)column->printable_low - 1);
  else add_compared_times(ranges, op, with, (wide)column->printable_high + 1, INT64_MAX);
}

/* ---- Datetimes: SQLite's rules ----------------------------------------------------------------------------------- */

/* Returns true if SQLite may take text as a number, or if memory is lacking to tell. */
static bool looks_numeric(sqlite3_value *value) {
  sqlite3_value *copy = sqlite3_value_dup(value); /* asking changes a value's type */
  const bool numeric = !copy || sqlite3_value_numeric_type(copy) != SQLITE_TEXT;
  sqlite3_value_free(copy);
  return numeric;
}

static void ranges_by_sqlite_rules(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned rules,
                                   tsx_ranges *ranges) {
  const time_place greatest = {END, END}; /* greater than all values */
  tsx_text text;
  if (sqlite3_value_type(value) == SQLITE_BLOB) {
    add_compared_times(ranges, op, greatest, FIRST, INT64_MAX);
    return;
  }
  if (sqlite3_value_type(value) != SQLITE_TEXT) {
    /* a literal number compares as text, a column's does not: unknown here */
    ranges->count = TSX_EVERYTHING;
    return;
  }
  if (!take_text(value, rules, &text)) {
    ranges->count = TSX_NO_MEMORY;
    return;
  }
  add_printable(column, op, place_among_texts(column, &text), ranges);
  if (is_equality(op)) { /* text that is not ISO text may be an integer's */
    if (ranges->count == 0 && column->mixed && looks_numeric(value)) ranges->count = TSX_EVERYTHING;
    return;
  }
  if (!column->mixed) return;
  add_times(ranges, FIRST, (wide)column->printable_low - 1);
  add_times(ranges, (wide)column->printable_high + 1, INT64_MAX);
}

/* ---- Datetimes: the table's own rules ---------------------------------------------------------------------------- */

/* Returns true if the text is an integer in the form in which SQLite writes it, and sets *number. */
static bool take_decimal(sqlite3_value *value, int64_t *number) {
  char text[24];
  const char *given = (const char *)sqlite3_value_text(value);
  const int size = sqlite3_value_bytes(value);
  wide v = 0;
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

static time_place place_number(sqlite3_value *value) {
  if (sqlite3_value_type(value) == SQLITE_INTEGER) {
    const wide at = sqlite3_value_int64(value);
    return (time_place){at, at + 1};
  }
  double d = sqlite3_value_double(value);
  if (d > 1e28) d = 1e28;
  if (d < -1e28) d = -1e28;
  return (time_place){(wide)ceil(d), (wide)floor(d) + 1};
}

static void number_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned rules,
                          tsx_ranges *ranges) {
  const time_place number = place_number(value);
  time_place printed = {column->printable_low, column->printable_low}; /* less than all text */
  if (sqlite3_value_frombind(value)) {
    tsx_text text = {0};
    sqlite3_value *copy = sqlite3_value_dup(value); /* getting its text may change a value's type */
    const bool taken = copy && take_text(copy, rules, &text);
    if (taken) printed = place_among_texts(column, &text);
    sqlite3_value_free(copy);
    if (!taken) {
      ranges->count = TSX_NO_MEMORY;
      return;
    }
  } else if (column->description->datatype == TSR_DATETIME_YEAR) {
    printed = (time_place){number.at - 1970, number.above - 1970};
  }
  add_unprintable(column, op, number, true, ranges);
  add_printable(column, op, printed, ranges);
  add_unprintable(column, op, number, false, ranges);
}

static void time_text_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned rules,
                             tsx_ranges *ranges) {
  const char *given = (const char *)sqlite3_value_text(value);
  const tsr_datatype datatype = column->description->datatype;
  const time_place greatest = {END, END};
  tsx_text text;
  int64_t at;
  if (!given) {
    ranges->count = TSX_NO_MEMORY;
    return;
  }
  const tsr_instant_place found = tsr_datetime_place(datatype, given, (uint64_t)sqlite3_value_bytes(value), &at);
  if (found != TSR_INSTANT_NONE) {
    time_place with = {at, (wide)at + (found == TSR_INSTANT_AT)};
    if (found == TSR_INSTANT_END) with = greatest;
    add_compared_times(ranges, op, with, FIRST, INT64_MAX);
    return;
  }
  const bool bound = sqlite3_value_frombind(value) != 0;
  if (is_equality(op)) {
    if (!column->mixed || (!bound && op != TSX_IN) || !take_decimal(value, &at)) return;
    if (at < column->printable_low || at > column->printable_high) add_times(ranges, at, at);
    return;
  }
  if (!take_text(value, rules, &text)) {
    ranges->count = TSX_NO_MEMORY;
    return;
  }
  if (!bound) add_unprintable(column, op, greatest, true, ranges);
  add_printable(column, op, place_among_texts(column, &text), ranges);
  if (!bound) add_unprintable(column, op, greatest, false, ranges);
}

/* Replaces the ranges of equality, which are one or two single values in ascending order, by the ranges of all other
 * values. */
static void complement(const tsx_column *column, tsx_op op, tsx_ranges *ranges) {
  const tsx_ranges equal = *ranges;
  wide from = FIRST;
  if (ranges->count < 0) return;
  ranges->count = 0;
  for (int i = 0; i < equal.count; i++) {
    const wide at = tsx_load_signed(equal.values[i][0], 8);
    add_times(ranges, from, at - 1);
    from = at + 1;
  }
  add_times(ranges, from, INT64_MAX);
  if (op == TSX_ISNOT && column->description->is_dimension)
    add_times(ranges, INT64_MIN, INT64_MIN); /* NULL differs from it */
}

static void ranges_by_table_rules(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned rules,
                                  tsx_ranges *ranges) {
  switch (sqlite3_value_type(value)) {
  case SQLITE_NULL:
    if (op == TSX_IS) add_times(ranges, INT64_MIN, INT64_MIN);
    if (op == TSX_ISNOT) add_times(ranges, FIRST, INT64_MAX);
    break;
  case SQLITE_TEXT: time_text_ranges(column, op, value, rules, ranges); break;
  case SQLITE_BLOB: add_compared_times(ranges, op, (time_place){END, END}, FIRST, INT64_MAX); break;
  default: number_ranges(column, op, value, rules, ranges);
  }
}

/* tsx_ranges_make for a datetime. */
static void time_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned rules, tsx_ranges *ranges) {
  const bool unequal = (op == TSX_NE || op == TSX_ISNOT) && sqlite3_value_type(value) != SQLITE_NULL;
  ranges->count = 0;
  if (rules & TSX_SQLITE_RULES) {
    if (sqlite3_value_type(value) != SQLITE_NULL)
      ranges_by_sqlite_rules(column, unequal ? TSX_EQ : op, value, rules, ranges);
    else if (op == TSX_IS || op == TSX_ISNOT) ranges->count = TSX_EVERYTHING;
  } else {
    ranges_by_table_rules(column, unequal ? TSX_EQ : op, value, rules, ranges);
  }
  if (unequal) complement(column, op, ranges);
}

/* ---- Datetimes: integers as text --------------------------------------------------------------------------------- */

bool tsx_times_as_text(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned rules) {
  int64_t at;
  if (column->form != TSX_DATETIME || !column->mixed || (rules & TSX_SQLITE_RULES) || op > TSX_LE || op == TSX_EQ)
    return false;
  if (sqlite3_value_type(value) != SQLITE_TEXT || !sqlite3_value_frombind(value)) return false;
  const char *text = (const char *)sqlite3_value_text(value);
  const uint64_t size = (uint64_t)sqlite3_value_bytes(value);
  return text && tsr_datetime_place(column->description->datatype, text, size, &at) == TSR_INSTANT_NONE;
}

/* Among integers of one sign and one number of digits, text sorts by magnitude. So the magnitudes that satisfy the
 * comparison are a range, whose end a binary search finds. */
void tsx_times_decimals(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned rules, int part,
                        tsx_ranges *ranges) {
  const bool negative = part >= TSX_DECIMAL_PARTS / 2;
  wide least = 1;
  tsx_text text;
  ranges->count = 0;
  if (!take_text(value, rules, &text)) {
    ranges->count = TSX_NO_MEMORY;
    return;
  }
  for (int digits = part % (TSX_DECIMAL_PARTS / 2); digits > 0; digits--) least *= 10;
  wide low = least, high = least * 10 - 1; /* magnitudes */
  if (!negative && low <= column->printable_high) low = (wide)column->printable_high + 1;
  if (negative && low <= -(wide)column->printable_low) low = -(wide)column->printable_low + 1;
  if (high > INT64_MAX) high = INT64_MAX;
  const wide first = low, last = high;
  if (low > high) return;
  for (high++; low < high;) { /* the first whose text is greater than the given one (with < and >=: not less) */
    const wide middle = low + (high - low) / 2;
    char decimal[24];
    sqlite3_snprintf(sizeof decimal, decimal, "%s%lld", negative ? "-" : "", (long long)middle);
    const int order = compare_text(decimal, (int)strlen(decimal), &text);
    if (order < 0 || (order == 0 && (op == TSX_GT || op == TSX_LE))) low = middle + 1;
    else high = middle;
  }
  const bool is_greater = op == TSX_GT || op == TSX_GE;
  const wide from = is_greater ? low : first, to = is_greater ? last : low - 1;
  if (negative) add_times(ranges, -to, -from);
  else add_times(ranges, from, to);
}
