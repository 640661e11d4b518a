/* compare.h: the right side of a comparison becomes ranges of a column's values; of datetimes in compare_times.c. */
#ifndef TSX_COMPARE_H
#define TSX_COMPARE_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "values/value.h"

typedef struct tsx_column tsx_column;
typedef struct tsx_ranges tsx_ranges;
typedef struct tsx_text tsx_text;

/* Before comparisons are asked about. */
void tsx_column_prepare(tsx_column *column);
void tsx_ranges_make(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned how, tsx_ranges *ranges);

/* Is the test that tsx_ranges_make stands for exactly SQLite's? `value` is the right side, NULL if it is not known yet.
 */
bool tsx_ranges_exact(const tsx_column *column, tsx_op op, sqlite3_value *value, bool utf16);
void tsx_ranges_add(tsx_ranges *ranges, const void *low, const void *high, uint64_t size); /* an end is NULL: open */

/* Does a comparison with the column mean more to the table than to SQLite? Then the table is to have all that it can get, and
 * where SQLite tests again it must not mean more (TSX_PLAINLY). */
bool tsx_compares_its_way(const tsx_column *column);
bool tsx_text_take(sqlite3_value *value, unsigned how, tsx_text *text); /* false: no memory */
int tsx_text_compare(const char *ascii, int size, const tsx_text *text); /* of 48 characters at most */

/* Can the column's values be compared with anything at all, so that asking for ranges makes sense? */
bool tsx_ranges_possible(const tsx_column *column);

/* The same of text that is compared without case (NOCASE): a range that holds all that may satisfy it, and more. Its count
 * as in tsx_ranges, or TSX_NO_MEMORY; `memory` is what it points to, for sqlite3_free. */
int tsx_nocase_range(tsx_op op, sqlite3_value *value, tsr_range *range, void **memory);

/* A range of text that is less than something, for all that may be less than that in a column of numbers. */
void tsx_numeric_range(tsr_range *range);

#endif
