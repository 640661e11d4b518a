/* json.c: writes values, intervals and boxes of arrays as JSON text.
 *
 * Floats have 17 digits, infinities are 9e999 and -9e999, NaN is null. Unsigned values above INT64_MAX are strings, as
 * in the columns of tables, since SQLite's JSON functions would round such numbers. Datetimes and times are ISO-8601
 * text; a value without such text is its raw integer, NaT is null. A box is an object keyed by the dimensions' names in
 * SQL, with [low, high] for each; an open end is null. */
#include "values/value.h"

#include <math.h>
#include <string.h>

#include "connection/sqlite_api.h"
#include "sql/names.h"

/* ---- Values ------------------------------------------------------------------------------------------------------ */

void tsx_json_real(sqlite3_str *out, double value) {
  if (isnan(value)) {
    sqlite3_str_appendall(out, "null");
  } else if (isinf(value)) {
    sqlite3_str_appendall(out, value < 0 ? "-9e999" : "9e999");
  } else {
    char text[TSR_REAL_SIZE];
    const int size = tsr_real_print(value, 17, text);
    const bool plain = !strpbrk(text, ".e"); /* only digits: append ".0", so that readers see a real number */
    sqlite3_str_append(out, text, size);
    if (plain) sqlite3_str_append(out, ".0", 2);
  }
}

void tsx_json_value(sqlite3_str *out, tsr_datatype datatype, const void *p, bool datetimes_integer) {
  uint64_t size = tsr_datatype_size(datatype);
  char text[48];
  float f;
  double d;
  switch (tsr_datatype_kind(datatype)) {
  case TSR_KIND_FLOAT:
    if (size == 4) {
      memcpy(&f, p, 4);
      d = f;
    } else {
      memcpy(&d, p, 8);
    }
    tsx_json_real(out, d);
    break;
  case TSR_KIND_UNSIGNED:
  case TSR_KIND_BOOLEAN: {
    uint64_t v = tsx_load_unsigned(p, size);
    sqlite3_str_appendf(out, v > INT64_MAX ? "\"" TSX_UINT64_PRINTED "\"" : "%llu", (unsigned long long)v);
    break;
  }
  case TSR_KIND_DATETIME:
  case TSR_KIND_TIME: {
    int64_t v = tsx_load_signed(p, 8);
    int printed = datetimes_integer ? 0 : tsr_datetime_print(datatype, v, text);
    if (printed) sqlite3_str_appendf(out, "\"%s\"", text);
    else if (v == INT64_MIN && !datetimes_integer) sqlite3_str_appendall(out, "null");
    else sqlite3_str_appendf(out, "%lld", (long long)v);
    break;
  }
  default: sqlite3_str_appendf(out, "%lld", (long long)tsx_load_signed(p, size));
  }
}

void tsx_json_text(sqlite3_str *out, const void *text, uint64_t size) {
  const uint8_t *p = text;
  sqlite3_str_appendchar(out, 1, '"');
  while (size) {
    unsigned more = tsr_utf8_size(p, size);
    if (!more) sqlite3_str_appendf(out, "%%%02X", *p);
    else if (*p == '"' || *p == '\\') sqlite3_str_appendf(out, "\\%c", *p);
    else if (*p < 0x20) sqlite3_str_appendf(out, "\\u%04x", *p);
    else sqlite3_str_append(out, (const char *)p, (int)more);
    p += more ? more : 1;
    size -= more ? more : 1;
  }
  sqlite3_str_appendchar(out, 1, '"');
}

/* ---- Intervals and boxes ----------------------------------------------------------------------------------------- */

static void append_end(sqlite3_str *out, const tsr_field *dimension, const tsr_interval *interval, bool high,
                       bool uint64_signed) {
  if (dimension->values_per_cell != TSR_VARIABLE)
    tsx_json_value(out, tsx_datatype_printed(dimension, uint64_signed), high ? interval->high : interval->low, false);
  else if (!high) tsx_json_text(out, interval->low_text, interval->low_size);
  else if (tsr_interval_is_open(interval)) sqlite3_str_appendall(out, "null");
  else tsx_json_text(out, interval->high_text, interval->high_size);
}

void tsx_json_interval(sqlite3_str *out, const tsr_field *dimension, const tsr_interval *interval, bool uint64_signed) {
  sqlite3_str_appendchar(out, 1, '[');
  append_end(out, dimension, interval, false, uint64_signed);
  sqlite3_str_appendchar(out, 1, ',');
  append_end(out, dimension, interval, true, uint64_signed);
  sqlite3_str_appendchar(out, 1, ']');
}

void tsx_json_box(sqlite3_str *out, const tsr_schema *schema, char *const *names, const tsr_interval *intervals,
                  bool uint64_signed) {
  sqlite3_str_appendchar(out, 1, '{');
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    if (d) sqlite3_str_appendchar(out, 1, ',');
    tsx_json_text(out, names[d], strlen(names[d]));
    sqlite3_str_appendchar(out, 1, ':');
    tsx_json_interval(out, &schema->fields[d], &intervals[d], uint64_signed);
  }
  sqlite3_str_appendchar(out, 1, '}');
}
