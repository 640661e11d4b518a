/* literals.c: converts values that are written as text to the bytes of cells.
 *
 * Integers are parsed digit by digit into a sign and a 64-bit magnitude, even if they are written like 1e3 or 10.0: a
 * double has only 53 bits.
 *
 * Sections: numbers; places among the values of a datatype; strings. */
#include "sql/literals.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/names.h"
#include "tessera_host.h"

#define LITERALS_NUMBER_MAX 400 /* characters of a number */
#define LITERALS_TWO63      9223372036854775808.0

static int fail_mismatch(tsr_datatype datatype, const char *text, tsr_error *error) {
  return tsx_fail(error, TSR_MISMATCH, "'%.60s' is not a valid %s", text, tsr_datatype_name(datatype));
}

/* ---- Numbers ---------------------------------------------------------------------------------------------------- */

static bool looks_like_number(const char *text) {
  if (*text == '-' || *text == '+') text++;
  return *text && strlen(text) < LITERALS_NUMBER_MAX && strspn(text, "0123456789.eE+-") == strlen(text) &&
         strpbrk(text, "0123456789");
}

/* Infinity has no digits: SQLite prints Inf. */
static const char *infinity_as_number(const char *text) {
  return !sqlite3_stricmp(text, "Inf") ? "9e999" : !sqlite3_stricmp(text, "-Inf") ? "-9e999" : text;
}

static int parse_float(tsr_datatype datatype, const char *text, void *value, tsr_error *error) {
  double d;
  float f = 0;
  const bool wide = tsr_datatype_size(datatype) == 8;
  text = infinity_as_number(text);
  if (!looks_like_number(text) || !tsr_real_parse(text, strlen(text), &d, wide ? NULL : &f))
    return fail_mismatch(datatype, text, error);
  if (wide) {
    memcpy(value, &d, 8);
    return TSR_OK;
  }
  if (isinf(f) && !isinf(d))
    return tsx_fail(error, TSR_RANGE, "%.60s is outside FLOAT32: %.9g to %.9g", text, (double)-FLT_MAX,
                    (double)FLT_MAX);
  memcpy(value, &f, 4);
  return TSR_OK;
}

static bool is_signed_type(tsr_datatype datatype) {
  tsr_kind kind = tsr_datatype_kind(datatype);
  return kind == TSR_KIND_SIGNED || kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME;
}

static int fail_outside(tsr_datatype datatype, const char *text, uint64_t max, tsr_error *error) {
  if (is_signed_type(datatype))
    return tsx_fail(error, TSR_RANGE, "%.60s is outside %s: %lld to %lld", text, tsr_datatype_name(datatype),
                    -(long long)max - 1, (long long)max);
  return tsx_fail(error, TSR_RANGE, "%.60s is outside %s: 0 to %llu", text, tsr_datatype_name(datatype),
                  (unsigned long long)max);
}

/* Parses a number whose value is an integer, even in a form like 1e3 or 10.0, into sign and magnitude. Sets *too_large,
 * and leaves *magnitude undefined, if the magnitude exceeds 64 bits. */
static int parse_whole(tsr_datatype datatype, const char *text, bool *negative, uint64_t *magnitude, bool *too_large,
                       tsr_error *error) {
  const char *p = text;
  uint64_t v = 0;
  int exponent = 0;
  *too_large = false;
  if (!looks_like_number(text)) return fail_mismatch(datatype, text, error);
  *negative = *p == '-';
  if (*p == '-' || *p == '+') p++;
  for (; *p >= '0' && *p <= '9'; p++)
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v)) *too_large = true;
  if (*p) { /* a fraction or an exponent: the double, of 53 bits, only shows whether the value is an integer */
    double d;
    if (parse_float(TSR_FLOAT64, text, &d, error) < 0 || d != floor(d)) return fail_mismatch(datatype, text, error);
    const char *e = p + strcspn(p, "eE"), *end = e;
    if (*e) {
      const long given = strtol(e + 1, NULL, 10);
      exponent = given > 9999 ? 9999 : given < -9999 ? -9999 : (int)given;
    }
    if (*p == '.')
      while (end > p + 1 && end[-1] == '0') end--;
    for (p += *p == '.'; p < end; p++, exponent--)
      if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v)) *too_large = true;
    for (; exponent < 0 && v && !*too_large; exponent++, v /= 10)
      if (v % 10) return fail_mismatch(datatype, text, error);
    for (; exponent > 0 && v && !*too_large; exponent--)
      if (__builtin_mul_overflow(v, 10, &v)) *too_large = true;
  }
  *magnitude = v;
  return TSR_OK;
}

static int parse_integer(tsr_datatype datatype, const char *text, void *value, tsr_error *error) {
  uint64_t size = tsr_datatype_size(datatype), magnitude = 0;
  bool negative = false, too_large = false;
  TSX_TRY(parse_whole(datatype, text, &negative, &magnitude, &too_large, error));
  uint64_t max = UINT64_MAX >> (64 - size * 8 + (is_signed_type(datatype) ? 1 : 0));
  uint64_t max_negative = is_signed_type(datatype) ? max + 1 : 0; /* the largest magnitude of a negative number */
  if (tsr_datatype_kind(datatype) == TSR_KIND_BOOLEAN) max = 1;
  if (too_large || magnitude > (negative ? max_negative : max)) return fail_outside(datatype, text, max, error);
  if (negative) magnitude = 0 - magnitude;
  memcpy(value, &magnitude, size);
  return TSR_OK;
}

static int parse_datetime(tsr_datatype datatype, const char *text, void *value, tsr_error *error) {
  int64_t v;
  TSX_TRY(tsr_datetime_parse(datatype, text, strlen(text), &v, error));
  memcpy(value, &v, 8);
  return TSR_OK;
}

int tsx_number_parse(tsr_datatype datatype, const char *text, bool quoted, void *value, tsr_error *error) {
  switch (tsr_datatype_kind(datatype)) {
  case TSR_KIND_FLOAT: return parse_float(datatype, text, value, error);
  case TSR_KIND_DATETIME:
  case TSR_KIND_TIME:
    if (quoted) return parse_datetime(datatype, text, value, error);
    return parse_integer(datatype, text, value, error);
  case TSR_KIND_BOOLEAN:
    if (!sqlite3_stricmp(text, "true") || !sqlite3_stricmp(text, "false")) {
      *(uint8_t *)value = (*text | 32) == 't';
      return TSR_OK;
    }
    return parse_integer(datatype, text, value, error);
  case TSR_KIND_SIGNED:
  case TSR_KIND_UNSIGNED: return parse_integer(datatype, text, value, error);
  default: return fail_mismatch(datatype, text, error);
  }
}

int tsx_fail_inexact(const char *text, bool negative, tsr_error *error) {
  return tsx_fail(error, TSR_RANGE,
                  "%.60s is a REAL, which is not exact past %s9223372036854775807: give all digits as text", text,
                  negative ? "-" : "");
}

int tsx_given_parse(tsr_datatype datatype, const char *text, bool quoted, void *value, tsr_error *error) {
  const tsr_kind kind = tsr_datatype_kind(datatype);
  const bool is_time = kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME;
  const int code = tsx_number_parse(datatype, text, quoted, value, error);
  double number;
  if (code < 0 || kind == TSR_KIND_FLOAT || (is_time && quoted) || !text[strspn(text, "+-0123456789")]) return code;
  if (parse_float(TSR_FLOAT64, text, &number, NULL) < 0 || fabs(number) < LITERALS_TWO63) return code;
  if (number > 0 && kind != TSR_KIND_UNSIGNED) return fail_outside(datatype, text, INT64_MAX, error);
  return tsx_fail_inexact(text, number < 0, error);
}

/* ---- Places among values ----------------------------------------------------------------------------------------- */

static void place_float(double number, tsx_place *place) { /* of a number beyond FLOAT32 */
  const float least = -FLT_MAX, most = FLT_MAX;
  place->has_low = number > 0;
  place->has_high = number < 0;
  memcpy(place->low, &most, sizeof most);
  memcpy(place->high, &least, sizeof least);
  place->above_low = number - (double)most;
  place->below_high = (double)least - number;
}

static void place_integer(tsr_datatype datatype, double number, tsx_place *place) {
  const uint64_t size = tsr_datatype_size(datatype);
  const bool is_signed = is_signed_type(datatype),
             is_time = is_signed && tsr_datatype_kind(datatype) != TSR_KIND_SIGNED;
  const int bits = (int)(8 * size) - (is_signed ? 1 : 0);
  const double end = ldexp(1, bits), least = is_signed ? -end : 0; /* `end` is one more than the greatest value */
  uint64_t low = UINT64_MAX >> (64 - bits),
           high = is_signed ? (UINT64_MAX << bits) + is_time : 0; /* the lowest is NaT */
  const double down = floor(number), up = ceil(number);
  place->has_low = down >= least;
  place->has_high = up < end;
  if (place->has_low && down < end) low = is_signed ? (uint64_t)(int64_t)down : (uint64_t)down;
  if (place->has_high && up >= least) high = is_signed ? (uint64_t)(int64_t)up : (uint64_t)up;
  place->above_low = number - (down < end ? down : end - 1);
  place->below_high = (up < least ? least : up) - number;
  memcpy(place->low, &low, size);
  memcpy(place->high, &high, size);
}

/* Returns false if the text is not an instant. */
static bool place_instant(tsr_datatype datatype, const char *text, tsx_place *place) {
  int64_t value;
  const tsr_instant_place found = tsr_datetime_place(datatype, text, strlen(text), &value);
  const int64_t low = found == TSR_INSTANT_END ? INT64_MAX : value - 1;
  if (found == TSR_INSTANT_NONE) return false;
  place->has_low = low > INT64_MIN;
  place->has_high = found != TSR_INSTANT_END;
  place->above_low = tsr_datetime_part(datatype, text, strlen(text));
  place->below_high = 1 - place->above_low;
  memcpy(place->low, &low, sizeof low);
  memcpy(place->high, &value, sizeof value);
  return true;
}

bool tsx_fraction_place(tsr_datatype datatype, double number, tsx_place *place) {
  const tsr_kind kind = tsr_datatype_kind(datatype);
  if ((kind != TSR_KIND_SIGNED && kind != TSR_KIND_UNSIGNED) || !(number > floor(number))) return false;
  *place = (tsx_place){0};
  place_integer(datatype, number, place);
  return true;
}

/* Returns true if the text is a number between two integers. */
static bool has_fraction(const char *text, double *number) {
  return text[strspn(text, "+-0123456789")] && parse_float(TSR_FLOAT64, text, number, NULL) == TSR_OK &&
         *number != floor(*number);
}

int tsx_given_place(tsr_datatype datatype, const char *text, bool quoted, tsx_place *place, tsr_error *error) {
  const tsr_kind kind = tsr_datatype_kind(datatype);
  const bool is_time = kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME;
  const bool of_integers = kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED || (is_time && !quoted);
  tsr_error why = {0};
  double number;
  *place = (tsx_place){.has_low = true, .has_high = true};
  if (of_integers && has_fraction(text, &number)) { /* no value of the datatype, which needs no message */
    place_integer(datatype, number, place);
    return TSR_OK;
  }
  int code = tsx_given_parse(datatype, text, quoted, place->low, &why);
  memcpy(place->high, place->low, sizeof place->high);
  if (code == TSR_MISMATCH || code == TSR_RANGE) {
    if (is_time && quoted) code = place_instant(datatype, text, place) ? TSR_OK : code;
    else if (kind != TSR_KIND_BOOLEAN && parse_float(TSR_FLOAT64, text, &number, NULL) == TSR_OK) {
      if (kind == TSR_KIND_FLOAT) place_float(number, place);
      else place_integer(datatype, number, place);
      code = TSR_OK;
    }
  }
  if (code < 0) *error = why;
  return code;
}

int tsx_time_of_integer(tsr_datatype datatype, int64_t number, void *value, tsr_error *error) {
  char text[48];
  bool raw = number != INT64_MIN && !tsr_datetime_print(datatype, number, text);
  bool is_year = number >= 1000 && number <= 9999 && tsr_datatype_kind(datatype) == TSR_KIND_DATETIME;
  if (raw && is_year)
    return tsx_fail(error, TSR_MISMATCH,
                    "%lld is the year '%lld', or the %s %lld: give text, or use the option datetimes=integer",
                    (long long)number, (long long)number, tsr_datatype_name(datatype), (long long)number);
  if (raw) {
    memcpy(value, &number, 8);
    return TSR_OK;
  }
  if (!is_year)
    return tsx_fail(error, TSR_MISMATCH,
                    "%lld is not a valid %s: expected ISO-8601 text, or the option datetimes=integer",
                    (long long)number, tsr_datatype_name(datatype));
  sqlite3_snprintf(sizeof text, text, "%lld", (long long)number);
  return tsx_number_parse(datatype, text, true, value, error);
}

/* ---- Strings ---------------------------------------------------------------------------------------------------- */

static uint32_t decode_character(const uint8_t *p, unsigned size) {
  static const uint8_t first[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  uint32_t c = p[0] & first[size];
  for (unsigned i = 1; i < size; i++) c = c << 6 | (p[i] & 0x3F);
  return c;
}

int tsx_text_convert(tsr_datatype datatype, const char *text, uint64_t size, uint8_t *out, uint64_t *out_size,
                     tsr_error *error) {
  uint64_t unit = tsr_datatype_size(datatype), n = 0;
  const uint8_t *p = (const uint8_t *)text;
  if (unit == 1) {
    memcpy(out, text, size);
    *out_size = size;
    return TSR_OK;
  }
  for (uint64_t i = 0; i < size;) {
    unsigned bytes = tsr_utf8_size(p + i, size - i);
    if (!bytes) return tsx_fail(error, TSR_MISMATCH, "byte %llu of the text is not UTF-8", (unsigned long long)i);
    uint32_t c = decode_character(p + i, bytes);
    i += bytes;
    if (unit == 2 && c > 0xFFFF && datatype == TSR_UCS2)
      return tsx_fail(error, TSR_RANGE, "U+%X is outside UCS2: up to U+FFFF", (unsigned)c);
    if (unit == 2 && c > 0xFFFF) {
      uint16_t pair[2] = {(uint16_t)(0xD800 + ((c - 0x10000) >> 10)), (uint16_t)(0xDC00 + ((c - 0x10000) & 0x3FF))};
      memcpy(out + n, pair, 4);
      n += 4;
    } else {
      memcpy(out + n, &c, unit);
      n += unit;
    }
  }
  *out_size = n;
  return TSR_OK;
}
