/* literals.h: converts values that are written as text into the bytes of cells. The conversion is exact: a value that
 * does not fit its datatype is an error that names the limits, never a value nearby. (Decimal fractions are the
 * exception: they are rounded to the nearest float.) */
#ifndef TSX_LITERALS_H
#define TSX_LITERALS_H

#include "tessera.h"

/* Converts a NUL-terminated text to one number, BOOL, datetime or time; `value` has room for 8 bytes. If `quoted` is
 * set, datetimes and times are ISO-8601 text, otherwise raw integers. Error messages begin with the text.
 * Returns TSR_MISMATCH if the text is not a value of the datatype, TSR_RANGE if its value lies outside of it. */
int tsx_number_parse(tsr_datatype datatype, const char *text, bool quoted, void *value, tsr_error *error);

/* Does the same for a number that an SQL statement gives as a REAL, in JSON or as text, where JSON may come from a REAL,
 * too. A REAL past 2^63 stands for many integers, so a number there that has a fraction or an exponent is no integer:
 * TSR_RANGE. INSERT has the same rule (tsx_fail_inexact). */
int tsx_given_parse(tsr_datatype datatype, const char *text, bool quoted, void *value, tsr_error *error);

/* Where a given number or instant lies among the values of a datatype: at one of them, between two, or beyond all. */
typedef struct tsx_place {
  bool has_low, has_high; /* some value is not above it; some value is not below it */
  uint8_t low[8],
      high[8]; /* the greatest value that is not above, and the least that is not below; the same at a value */
  double above_low, below_high; /* its distances from these two, in the unit of the datatype */
} tsx_place;

/* Locates what tsx_given_parse takes, and also numbers with a fraction, instants that are finer than the unit, and
 * what lies beyond the values of the datatype. TSR_MISMATCH if the text is neither a number nor an instant. */
int tsx_given_place(tsr_datatype datatype, const char *text, bool quoted, tsx_place *place, tsr_error *error);

/* Refuses a REAL, which messages show as `text`, in place of an integer. Returns TSR_RANGE. */
int tsx_fail_inexact(const char *text, bool negative, tsr_error *error);

/* Interprets an SQL integer that stands where ISO-8601 text of a datetime or time belongs. If tsr_datetime_print has no
 * text for the number as a raw value, the number is that raw value. Otherwise digits from 1000 to 9999 are a year.
 * Returns TSR_MISMATCH for any other number, and for one that can be read in both ways. */
int tsx_time_of_integer(tsr_datatype datatype, int64_t number, void *value, tsr_error *error);

/* Converts `size` bytes of UTF-8 to the encoding of a string datatype (UTF-8, UTF-16, UTF-32, UCS-2, UCS-4). For
 * datatypes of one byte the bytes are copied as they are. `out` has room for 4 * size bytes; `out_size` is in bytes. */
int tsx_text_convert(tsr_datatype datatype, const char *text, uint64_t size, uint8_t *out, uint64_t *out_size,
                     tsr_error *error);

#endif
