/* literals.h: converts values that are written as text to the bytes of cells. The conversion is exact: a value that
 * does not fit its datatype is an error that names the limits, and is never rounded or clamped. (Except decimal
 * fractions, which are rounded to the nearest float.) */
#ifndef TSX_LITERALS_H
#define TSX_LITERALS_H

#include "tessera.h"

/* Converts NUL-terminated text to one number, BOOL, datetime or time; `value` has room for 8 bytes. With `quoted`,
 * datetimes and times are ISO-8601 text, otherwise raw integers. Error messages begin with the text. TSR_MISMATCH if
 * the text is not a value of the datatype, TSR_RANGE if the value is outside of it. */
int tsx_number_parse(tsr_datatype datatype, const char *text, bool quoted, void *value, tsr_error *error);

/* Does the same for a number that an SQL statement passes as a REAL, in JSON or as text; JSON may come from a REAL,
 * too. A REAL above 2^63 stands for many integers, so a number there that has a fraction or an exponent is not an
 * integer: TSR_RANGE. INSERT has the same rule (tsx_fail_inexact). */
int tsx_given_parse(tsr_datatype datatype, const char *text, bool quoted, void *value, tsr_error *error);

/* The position of a number or instant among the values of a datatype: at one of them, between two, or beyond all. */
typedef struct tsx_place {
  bool has_low, has_high; /* some value is not above it; some value is not below it */
  uint8_t low[8], high[8]; /* the last value not above it, and the first not below it; the same at a value */
  double above_low, below_high; /* its distances from these two, in the datatype's unit */
} tsx_place;

/* Locates what tsx_given_parse accepts, and also numbers with a fraction, instants that are finer than the unit, and
 * anything beyond the values of the datatype. TSR_MISMATCH if the text is neither a number nor an instant. */
int tsx_given_place(tsr_datatype datatype, const char *text, bool quoted, tsx_place *place, tsr_error *error);

/* The same for a number between two integers, and a datatype of integers. Returns false for others. */
bool tsx_fraction_place(tsr_datatype datatype, double number, tsx_place *place);

/* Rejects a REAL in place of an integer; messages show it as `text`. Returns TSR_RANGE. */
int tsx_fail_inexact(const char *text, bool negative, tsr_error *error);

/* Interprets an SQL integer in place of ISO-8601 text of a datetime or time. If tsr_datetime_print has no text for the
 * number as a raw value, the number is that raw value. Otherwise 1000 to 9999 is a year. TSR_MISMATCH for any other
 * number, and for one that is ambiguous. */
int tsx_time_of_integer(tsr_datatype datatype, int64_t number, void *value, tsr_error *error);

/* Converts `size` bytes of UTF-8 to the encoding of a string datatype (UTF-8, UTF-16, UTF-32, UCS-2, UCS-4). For
 * one-byte datatypes, copies the bytes. `out` has room for 4 * size bytes; `out_size` is in bytes. */
int tsx_text_convert(tsr_datatype datatype, const char *text, uint64_t size, uint8_t *out, uint64_t *out_size,
                     tsr_error *error);

#endif
