/* value.c: between cells and SQL values. The only place where SQL values are made of cells, and where the right side of
 * a comparison becomes a range of a dimension's values.
 *
 * A range must hold every cell for which SQLite would say that the comparison is true. Where it holds just those, the
 * comparison is exact, and SQLite need not test again. How SQLite compares, in short: NULL with nothing; numbers among
 * themselves by value, integer with real exactly; a numeric column takes text that looks like a number for one; other
 * text, then blobs, are greater than any number; a TEXT column compares with text by bytes of the database's encoding,
 * and with a number in a way that cannot be seen from here.
 */
#include "values.h"

#include <math.h>

typedef __int128 wide;

static const char *const numeric_declared[] = {"INTEGER", "REAL", "TEXT", "BLOB"};

/* ---- How a field appears ----------------------------------------------------------------------------------------- */

static tsx_form number_form(tsr_datatype datatype) {
  switch (tsr_datatype_kind(datatype)) {
  case TSR_KIND_FLOAT: return tsr_datatype_size(datatype) == 4 ? TSX_FLOAT32 : TSX_FLOAT64;
  case TSR_KIND_BOOLEAN: return TSX_UINT8;
  case TSR_KIND_UNSIGNED:
    switch (tsr_datatype_size(datatype)) {
    case 1: return TSX_UINT8;
    case 2: return TSX_UINT16;
    case 4: return TSX_UINT32;
    default: return TSX_UINT64;
    }
  default:
    switch (tsr_datatype_size(datatype)) {
    case 1: return TSX_INT8;
    case 2: return TSX_INT16;
    case 4: return TSX_INT32;
    default: return TSX_INT64;
    }
  }
}

static tsx_form form_of(tsr_datatype datatype, uint32_t values_per_cell, const tsx_options *options) {
  switch (tsr_datatype_kind(datatype)) {
  case TSR_KIND_TEXT:
    return tsr_datatype_size(datatype) == 1 ? TSX_TEXT : tsr_datatype_size(datatype) == 2 ? TSX_TEXT16 : TSX_TEXT32;
  case TSR_KIND_BYTES: return TSX_BLOB;
  default: break;
  }
  if (values_per_cell != 1) return options->vectors_blob ? TSX_BLOB : TSX_JSON;
  tsr_kind kind = tsr_datatype_kind(datatype);
  if ((kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) && !options->datetimes_integer) return TSX_DATETIME;
  return number_form(datatype);
}

static const char *declared_of(tsx_form form) {
  switch (form) {
  case TSX_FLOAT32:
  case TSX_FLOAT64: return numeric_declared[1];
  case TSX_TEXT:
  case TSX_TEXT16:
  case TSX_TEXT32:
  case TSX_DATETIME:
  case TSX_JSON: return numeric_declared[2];
  case TSX_BLOB: return numeric_declared[3];
  default: return numeric_declared[0];
  }
}

void tsx_column_choose(const tsr_field *field, const tsr_enumeration *enumeration, const tsx_options *options,
                       tsx_column *column) {
  column->description = field;
  column->datetimes_integer = options->datetimes_integer;
  column->enumeration = enumeration;
  if (enumeration) {
    column->form = TSX_LABEL;
    column->label_form = form_of(enumeration->datatype, enumeration->values_per_label, options);
    column->declared = declared_of(column->label_form);
  } else {
    column->form = form_of(field->datatype, field->values_per_cell, options);
    column->declared = declared_of(column->form);
  }
}

bool tsx_column_shows(const tsx_column *column, const tsr_field *field) {
  const tsr_field *own = column->description;
  return own->is_dimension == field->is_dimension && own->datatype == field->datatype &&
         own->values_per_cell == field->values_per_cell && !strcmp(own->name, field->name);
}

/* ---- Cells as results -------------------------------------------------------------------------------------------- */

void tsx_result_text(sqlite3_context *context, const char *text) {
  if (text) sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

void tsx_result_string(sqlite3_context *context, sqlite3_str *out) {
  int code = sqlite3_str_errcode(out), length = sqlite3_str_length(out);
  char *text = sqlite3_str_finish(out);
  if (code == SQLITE_TOOBIG) sqlite3_result_error_toobig(context);
  else if (code != SQLITE_OK) sqlite3_result_error_nomem(context);
  else if (!text) sqlite3_result_text(context, "", 0, SQLITE_STATIC);
  else sqlite3_result_text64(context, text, (sqlite3_uint64)length, sqlite3_free, SQLITE_UTF8);
}

static void result_json(sqlite3_context *context, tsr_datatype datatype, const uint8_t *p, uint64_t size,
                        bool datetimes_integer) {
  sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
  uint64_t each = tsr_datatype_size(datatype);
  sqlite3_str_appendchar(out, 1, '[');
  for (uint64_t i = 0; i + each <= size; i += each) {
    if (i) sqlite3_str_appendchar(out, 1, ',');
    tsx_json_value(out, datatype, p + i, datetimes_integer);
  }
  sqlite3_str_appendchar(out, 1, ']');
  tsx_result_string(context, out);
}

static uint64_t put_utf8(uint8_t *out, uint32_t c) {
  if (c < 0x80) {
    out[0] = (uint8_t)c;
    return 1;
  }
  if (c < 0x800) {
    out[0] = (uint8_t)(0xC0 | c >> 6);
    out[1] = (uint8_t)(0x80 | (c & 0x3F));
    return 2;
  }
  if (c < 0x10000) {
    out[0] = (uint8_t)(0xE0 | c >> 12);
    out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
    out[2] = (uint8_t)(0x80 | (c & 0x3F));
    return 3;
  }
  out[0] = (uint8_t)(0xF0 | c >> 18);
  out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3F));
  out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
  out[3] = (uint8_t)(0x80 | (c & 0x3F));
  return 4;
}

/* UTF-16 and UTF-32 as UTF-8; what is no character becomes U+FFFD, half a unit at the end too. */
static void result_wide_text(sqlite3_context *context, const uint8_t *p, uint64_t size, unsigned unit) {
  uint64_t units = size / unit, rest = size % unit;
  uint8_t *out = sqlite3_malloc64(units * 4 + 4);
  if (!out) {
    sqlite3_result_error_nomem(context);
    return;
  }
  uint64_t n = 0;
  for (uint64_t i = 0; i < units; i++) {
    uint32_t c = (uint32_t)tsx_load_unsigned(p + i * unit, unit);
    if (unit == 2 && c >= 0xD800 && c < 0xDC00 && i + 1 < units) {
      uint32_t low = (uint32_t)tsx_load_unsigned(p + (i + 1) * 2, 2);
      if (low >= 0xDC00 && low < 0xE000) {
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        i++;
      }
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) c = 0xFFFD;
    n += put_utf8(out + n, c);
  }
  if (rest) n += put_utf8(out + n, 0xFFFD);
  sqlite3_result_text64(context, (char *)out, n, sqlite3_free, SQLITE_UTF8);
}

void tsx_result_unsigned(sqlite3_context *context, uint64_t v) {
  char text[24];
  if (v <= INT64_MAX) {
    sqlite3_result_int64(context, (sqlite3_int64)v);
  } else {
    sqlite3_snprintf(sizeof text, text, "%llu", (unsigned long long)v);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
  }
}

static void result_datetime(sqlite3_context *context, tsr_datatype datatype, int64_t v) {
  char text[48];
  int size = tsr_datetime_print(datatype, v, text);
  if (size) sqlite3_result_text(context, text, size, SQLITE_TRANSIENT);
  else if (v == INT64_MIN) sqlite3_result_null(context); /* NaT */
  else sqlite3_result_int64(context, v);
}

void tsx_number_result(sqlite3_context *context, tsx_form form, const uint8_t *cells, uint64_t i) {
  float f;
  double d;
  switch (form) {
  case TSX_INT8: sqlite3_result_int(context, ((const int8_t *)cells)[i]); break;
  case TSX_INT16: sqlite3_result_int(context, (int)tsx_load_signed(cells + 2 * i, 2)); break;
  case TSX_INT32: sqlite3_result_int(context, (int)tsx_load_signed(cells + 4 * i, 4)); break;
  case TSX_INT64: sqlite3_result_int64(context, tsx_load_signed(cells + 8 * i, 8)); break;
  case TSX_UINT8: sqlite3_result_int(context, cells[i]); break;
  case TSX_UINT16: sqlite3_result_int(context, (int)tsx_load_unsigned(cells + 2 * i, 2)); break;
  case TSX_UINT32: sqlite3_result_int64(context, (sqlite3_int64)tsx_load_unsigned(cells + 4 * i, 4)); break;
  case TSX_UINT64: tsx_result_unsigned(context, tsx_load_unsigned(cells + 8 * i, 8)); break;
  case TSX_FLOAT32:
    memcpy(&f, cells + 4 * i, 4);
    sqlite3_result_double(context, f);
    break;
  case TSX_FLOAT64:
    memcpy(&d, cells + 8 * i, 8);
    sqlite3_result_double(context, d);
    break;
  default: break; /* no number */
  }
}

/* `size` bytes at p, in this form. */
static void result_form(sqlite3_context *context, const tsx_column *column, tsx_form form, tsr_datatype datatype,
                        const uint8_t *p, uint64_t size) {
  switch (form) {
  case TSX_TEXT:
    sqlite3_result_text64(context, size ? (const char *)p : "", size, SQLITE_TRANSIENT, SQLITE_UTF8);
    break;
  case TSX_TEXT16: result_wide_text(context, p, size, 2); break;
  case TSX_TEXT32: result_wide_text(context, p, size, 4); break;
  case TSX_BLOB: sqlite3_result_blob64(context, size ? (const void *)p : "", size, SQLITE_TRANSIENT); break;
  case TSX_DATETIME: result_datetime(context, datatype, tsx_load_signed(p, 8)); break;
  case TSX_JSON: result_json(context, datatype, p, size, column->datetimes_integer); break;
  case TSX_LABEL: break;
  default: tsx_number_result(context, form, p, 0);
  }
}

static void result_label(sqlite3_context *context, const tsx_column *column, const uint8_t *p) {
  const tsr_enumeration *enumeration = column->enumeration;
  uint64_t size = tsr_datatype_size(column->description->datatype);
  bool is_signed = tsr_datatype_kind(column->description->datatype) == TSR_KIND_SIGNED;
  uint64_t code = is_signed ? (uint64_t)tsx_load_signed(p, size) : tsx_load_unsigned(p, size);
  if (code >= enumeration->count) { /* negative codes, too */
    sqlite3_result_null(context);
    return;
  }
  const uint64_t *o = enumeration->offsets + code;
  result_form(context, column, column->label_form, enumeration->datatype, enumeration->data + o[0], o[1] - o[0]);
}

void tsx_column_result(sqlite3_context *context, const tsx_column *column, const tsr_column *cells, uint64_t index,
                       bool fill_unwritten) {
  if (cells->unwritten && !fill_unwritten) {
    sqlite3_result_null(context);
    return;
  }
  uint64_t i = cells->constant ? 0 : index;
  if (cells->validity && !cells->validity[i]) {
    sqlite3_result_null(context);
    return;
  }
  const uint8_t *p = cells->values;
  uint64_t size = cells->cell_size;
  if (cells->offsets) {
    p += cells->offsets[i];
    size = cells->offsets[i + 1] - cells->offsets[i];
  } else {
    p += i * size;
  }
  if (column->form == TSX_LABEL) result_label(context, column, p);
  else result_form(context, column, column->form, column->description->datatype, p, size);
}

void tsx_value_result(sqlite3_context *context, tsr_datatype datatype, uint32_t values_per_cell, const void *bytes,
                      uint64_t size) {
  static const tsx_options options = {0};
  static const tsx_column column = {0};
  tsx_form form = form_of(datatype, values_per_cell, &options);
  bool one = form != TSX_TEXT && form != TSX_TEXT16 && form != TSX_TEXT32 && form != TSX_BLOB && form != TSX_JSON;
  if (one && size < tsr_datatype_size(datatype)) sqlite3_result_null(context);
  else result_form(context, &column, form, datatype, bytes, size);
}

/* Is a value that is there NULL to SQLite: NaN, NaT? */
static bool reads_as_null(tsx_form form, const uint8_t *p) {
  float f;
  double d;
  switch (form) {
  case TSX_FLOAT32: memcpy(&f, p, sizeof f); return f != f;
  case TSX_FLOAT64: memcpy(&d, p, sizeof d); return d != d;
  case TSX_DATETIME: return tsx_load_signed(p, 8) == INT64_MIN;
  default: return false;
  }
}

bool tsx_column_is_null(const tsx_column *column, const tsr_column *cells, uint64_t index, bool fill_unwritten) {
  const uint64_t i = cells->constant ? 0 : index;
  if ((cells->unwritten && !fill_unwritten) || (cells->validity && !cells->validity[i])) return true;
  if (cells->offsets) return false;
  const uint8_t *p = (const uint8_t *)cells->values + i * cells->cell_size;
  if (column->form != TSX_LABEL) return reads_as_null(column->form, p);
  const tsr_enumeration *labels = column->enumeration;
  const tsr_datatype datatype = column->description->datatype;
  const uint64_t size = tsr_datatype_size(datatype);
  const uint64_t code =
      tsr_datatype_kind(datatype) == TSR_KIND_SIGNED ? (uint64_t)tsx_load_signed(p, size) : tsx_load_unsigned(p, size);
  return code >= labels->count || reads_as_null(column->label_form, labels->data + labels->offsets[code]);
}

/* ---- Comparisons as ranges: integers ----------------------------------------------------------------------------- */

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

/* [low, high] of wide integers, cut to the datatype. */
static void add_integers(tsr_datatype datatype, wide low, wide high, tsx_ranges *ranges) {
  uint64_t size = tsr_datatype_size(datatype);
  tsr_kind kind = tsr_datatype_kind(datatype);
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

static void integer_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, tsx_ranges *ranges) {
  tsr_datatype datatype = column->description->datatype;
  wide at, next; /* the greatest integer <= value; the least >= value */
  int type = sqlite3_value_numeric_type(value);
  if (type == SQLITE_INTEGER) {
    at = next = sqlite3_value_int64(value);
  } else if (type == SQLITE_FLOAT) {
    double d = sqlite3_value_double(value), limit = 1e28;
    if (d > limit) d = limit;
    if (d < -limit) d = -limit;
    at = (wide)floor(d);
    next = (wide)ceil(d);
    /* Cells past the signed range are text, which SQLite takes for a real number here: not exact, so the range is
     * widened. */
    if (datatype == TSR_UINT64 && d >= TWO63 - 8192) {
      wide around = 8192;
      switch (op) {
      case TSX_EQ:
      case TSX_IS:
      case TSX_IN: add_integers(datatype, at - around, next + around, ranges); return;
      case TSX_GT:
      case TSX_GE: add_integers(datatype, at - around, WIDE_MAX, ranges); return;
      default: add_integers(datatype, WIDE_MIN, next + around, ranges); return;
      }
    }
  } else {
    greater_than_all(op, ranges);
    return;
  }
  switch (op) {
  case TSX_GT: add_integers(datatype, at + 1, WIDE_MAX, ranges); break;
  case TSX_GE: add_integers(datatype, next, WIDE_MAX, ranges); break;
  case TSX_LT: add_integers(datatype, WIDE_MIN, next - 1, ranges); break;
  case TSX_LE: add_integers(datatype, WIDE_MIN, at, ranges); break;
  default:
    if (at == next) add_integers(datatype, at, at, ranges);
  }
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
  column->mixed = false;
  if (column->form == TSX_DATETIME) {
    find_printable(field->datatype, &column->printable_low, &column->printable_high);
    /* An attribute's NaT is NULL. */
    int64_t low = field->has_domain ? tsx_load_signed(field->low, 8) : INT64_MIN + !field->is_dimension;
    int64_t high = field->has_domain ? tsx_load_signed(field->high, 8) : INT64_MAX;
    column->mixed = low < column->printable_low || high > column->printable_high;
  } else if (column->form == TSX_UINT64) {
    column->mixed = !field->has_domain || tsx_load_unsigned(field->high, 8) > INT64_MAX;
  }
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
static void unequal_ranges(const tsx_column *column, sqlite3_value *value, bool utf16, tsx_ranges *ranges) {
  tsx_ranges_make(column, TSX_EQ, value, utf16, ranges);
  if (!tsx_ranges_exact(column, TSX_EQ, value, utf16)) ranges->count = TSX_EVERYTHING;
  if (ranges->count == 0) everything_matches(ranges);
  else if (ranges->count == 1) {
    const tsr_range at = ranges->ranges[0];
    ranges->ranges[0] = (tsr_range){.high = at.low, .high_size = at.low_size, .high_exclusive = true};
    ranges->ranges[1] = (tsr_range){.low = at.low, .low_size = at.low_size, .low_exclusive = true};
    ranges->count = 2;
  }
}

void tsx_ranges_make(const tsx_column *column, tsx_op op, sqlite3_value *value, bool utf16, tsx_ranges *ranges) {
  ranges->count = 0;
  if (op == TSX_NE && sqlite3_value_type(value) != SQLITE_NULL) {
    unequal_ranges(column, value, utf16, ranges);
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
  case TSX_UINT64: integer_ranges(column, op, value, ranges); break;
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
  case TSX_UINT32: return true;
  case TSX_UINT64: return !column->mixed;
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
