/* compare_times.h: comparisons with datetimes and times of day, which columns show as ISO text, as ranges of values.
 * compare.c calls this for columns of the form TSX_DATETIME; xFilter calls the functions for decimals. */
#ifndef TSX_COMPARE_TIMES_H
#define TSX_COMPARE_TIMES_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "values/value.h"

typedef struct tsx_column tsx_column;
typedef struct tsx_ranges tsx_ranges;

/* Finds the values of a datatype that have ISO text: *low to *high, inclusive. */
void tsx_times_printable(tsr_datatype datatype, int64_t *low, int64_t *high);

/* Does what tsx_ranges_make does. */
void tsx_times_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how, tsx_ranges *ranges);

/* Returns true if the comparison sees the values that are shown as integers as the decimal texts of these integers.
 * tsx_times_ranges leaves those values out then: the caller adds the ranges of all parts, 0 to TSX_DECIMAL_PARTS - 1,
 * that tsx_times_decimals makes. */
#define TSX_DECIMAL_PARTS 38 /* 19 numbers of digits, of each sign */
bool tsx_times_as_text(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how);

/* Makes the ranges of one part: of the integers that have one sign and one number of digits. */
void tsx_times_decimals(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how, int part,
                        tsx_ranges *ranges);

#endif
