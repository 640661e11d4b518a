/* text.c: reads texts of strangers: what is next, where reading failed, and numbers.
 *
 * A number is rounded once. With at most 53 bits of digits and a power of ten that a double holds exactly, one product
 * or quotient of the two is that rounding. So is the quotient of 64 bits of digits and a power of ten of 64 bits: that
 * of integers, with more bits than a double has and one that says whether there was a remainder. Doubles that were
 * printed with all their digits are mostly such numbers. The C library converts all others, and takes ten times as
 * long. */
#include "base/text.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "tessera_host.h"

#define NUMBER_MAX      400 /* most characters of a number */
#define MANTISSA_DIGITS 19u /* of a number, at most: any so many are below 2^64 */

int tsr__text_fail(const tsr_text *in, const char *expected, tsr_error *error) {
  const unsigned long long at = (unsigned long long)(in->at - in->begin) + 1;
  if (in->at == in->end)
    return tsr__fail(error, TSR_MISMATCH, "the %s ends early (byte %llu): expected %s", in->what, at, expected);
  return tsr__fail(error, TSR_MISMATCH, "the %s is damaged at byte %llu: expected %s", in->what, at, expected);
}

typedef struct number_text { /* the parts of a number, and its first digits */
  uint64_t mantissa; /* the digits before and after the point */
  int64_t exponent; /* the number is mantissa * 10^exponent, unless digits are missing */
  bool negative;
  bool cut; /* the mantissa has not all digits */
  uint64_t taken; /* how many it has, without zeros before them */
} number_text;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads digits, and returns how many there were. */
static uint64_t take_digits(tsr_text *in, number_text *number) {
  const char *const begin = in->at, *at = begin;
  uint64_t mantissa = number->mantissa;
  while (mantissa == 0 && at < in->end && *at == '0') at++;
  const char *const first = at, *const end = at + TSR_MIN((uint64_t)(in->end - at), MANTISSA_DIGITS - number->taken);
  for (; at < end && is_digit(*at); at++) mantissa = 10 * mantissa + (uint64_t)(*at - '0');
  number->mantissa = mantissa;
  number->taken += (uint64_t)(at - first);
  if (at == end)
    for (; at < in->end && is_digit(*at); at++) number->cut = true;
  in->at = at;
  return (uint64_t)(at - begin);
}

/* Reads an exponent. Returns false if there is an 'e' without digits. */
static bool take_exponent(tsr_text *in, number_text *number) {
  if (in->at == in->end || (*in->at != 'e' && *in->at != 'E')) return true;
  in->at++;
  const bool negative = in->at < in->end && *in->at == '-';
  if (in->at < in->end && (*in->at == '-' || *in->at == '+')) in->at++;
  const char *begin = in->at;
  int64_t exponent = 0;
  for (; in->at < in->end && is_digit(*in->at); in->at++)
    if (exponent < 1000000) exponent = 10 * exponent + (*in->at - '0');
  number->exponent += negative ? -exponent : exponent;
  return in->at > begin;
}

/* Reads the number at the text's place. Returns false if there is none: digits or those of an exponent are missing. */
static bool take_number(tsr_text *in, number_text *number) {
  *number = (number_text){.negative = in->at < in->end && *in->at == '-'};
  if (in->at < in->end && (*in->at == '-' || *in->at == '+')) in->at++;
  uint64_t digits = take_digits(in, number);
  if (in->at < in->end && *in->at == '.') {
    in->at++;
    const uint64_t after = take_digits(in, number);
    number->exponent -= (int64_t)after;
    digits += after;
  }
  return digits > 0 && take_exponent(in, number);
}

/* The powers of ten that are doubles. */
static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Returns mantissa / 10^digits, rounded once; `mantissa` is above 0, `digits` at most 19. */
static double decimal_round(uint64_t mantissa, uint64_t digits) {
  const uint64_t power = (uint64_t)powers[digits];
  const int up = __builtin_clzll(mantissa), down = __builtin_clzll(power);
  const tsr_unsigned_wide dividend = (tsr_unsigned_wide)(mantissa << up) << 63;
  const uint64_t divisor = power << down; /* above dividend / 2^64, so that the quotient has 63 or 64 bits */
  const uint64_t quotient = (uint64_t)(dividend / divisor);
  const bool rest = quotient * divisor != (uint64_t)dividend; /* the low words suffice: a rest is below the divisor */
  return ldexp((double)(quotient | rest), down - up - 63);
}

/* Sets *value if the number is a product or quotient of two exact numbers, which is rounded once. */
static bool is_exact(const number_text *number, double *value) {
  const int64_t exponent = number->exponent;
  if (FLT_EVAL_METHOD != 0 || number->cut || exponent < -22 || exponent > 22) return false;
  const double whole = (double)number->mantissa;
  if (number->mantissa <= (uint64_t)TSR_EXACT_REAL)
    *value = exponent < 0 ? whole / powers[-exponent] : whole * powers[exponent];
  else if (exponent >= -19 && exponent <= 0) *value = decimal_round(number->mantissa, (uint64_t)-exponent);
  else return false;
  if (number->negative) *value = -*value;
  return true;
}

bool tsr_real_parse(const char *text, uint64_t size, double *value, float *single) {
  tsr_text in = {.at = text, .end = text + size};
  number_text number;
  const bool fits = size <= TSR_REAL_TEXT;
  if (!single && fits && take_number(&in, &number) && in.at == in.end && is_exact(&number, value)) return true;
  char local[TSR_REAL_TEXT + 16], *end;
  const char *point = size ? memchr(text, '.', size) : NULL, *shown = localeconv()->decimal_point;
  const uint64_t before = point ? (uint64_t)(point - text) : size, wide = point ? TSR_MIN(strlen(shown), 8u) : 0;
  const uint64_t whole = point ? size - 1 + wide : size;
  if (size == 0 || !fits) return false;
  memcpy(local, text, before);
  if (point) {
    memcpy(local + before, shown, wide);
    memcpy(local + before + wide, point + 1, size - before - 1);
  }
  local[whole] = 0;
  *value = strtod(local, &end);
  if (single) *single = strtof(local, NULL);
  return end == local + whole;
}

int tsr__text_number(tsr_text *in, double *value, tsr_error *error) {
  number_text number;
  tsr__text_skip(in);
  const char *begin = in->at;
  if (!take_number(in, &number)) return tsr__text_fail(in, "a number", error);
  if (in->at - begin > NUMBER_MAX)
    return tsr__fail(error, TSR_MISMATCH, "a number has more than %d characters", NUMBER_MAX);
  if (!is_exact(&number, value))
    (void)tsr_real_parse(begin, (uint64_t)(in->at - begin), value, NULL); /* digits were found, so it is a number */
  return TSR_OK;
}
