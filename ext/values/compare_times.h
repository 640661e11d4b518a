/* compare_times.h: comparisons with datetimes and times of day, which columns show as ISO text, as ranges of values. */
#ifndef TSX_COMPARE_TIMES_H
#define TSX_COMPARE_TIMES_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "values/value.h"

typedef struct tsx_column tsx_column;
typedef struct tsx_ranges tsx_ranges;

void tsx_times_printable(tsr_datatype datatype, int64_t *low, int64_t *high); /* the values that have ISO text */
void tsx_times_ranges(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how, tsx_ranges *ranges);

/* Are values that are shown as integers compared as text here? Then tsx_times_ranges leaves them out: they are in the union
 * of these parts, from 0 on. */
#define TSX_DECIMAL_PARTS 38
bool tsx_times_as_text(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how);
void tsx_times_decimals(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how, int part,
                        tsx_ranges *ranges);

#endif
