/* literals.h: values written as text become the bytes of cells, exactly: what does not fit its datatype is an error
 * that says the limits, never a value nearby (but for decimal fractions, which floats round). */
#ifndef TSX_LITERALS_H
#define TSX_LITERALS_H

#include "tessera.h"

/* Text as one value of a number, BOOL, datetime or time; `quoted`: datetimes are ISO-8601 text, else raw integers.
 * Messages begin with the text; TSR_MISMATCH: it is no such value, TSR_RANGE: it is outside the datatype. */
int tsx_number_parse(tsr_datatype datatype, const char *text, bool quoted, void *value, tsr_error *error);

/* What a whole number means as a datetime or time in ISO text's place: the value itself if it has no text, else the
 * digits are a year's. */
int tsx_time_of_integer(tsr_datatype datatype, int64_t number, void *value, tsr_error *error);

/* UTF-8 as the bytes of a string type, or of anything whose values are bytes. `out` has room for 4 * size bytes. */
int tsx_text_convert(tsr_datatype datatype, const char *text, uint64_t size, uint8_t *out, uint64_t *out_size,
                     tsr_error *error);

#endif
