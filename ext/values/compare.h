/* compare.h: comparisons in SQL as ranges of the column's values, which the core can read.
 *
 * xBestIndex asks whether ranges can express a comparison, and whether exactly; xFilter makes the ranges. Sections:
 * comparisons with any column and with datetimes (compare.c), comparisons with enumerated attributes
 * (enumerations.c). */
#ifndef TSX_VALUES_COMPARE_H
#define TSX_VALUES_COMPARE_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "values/value.h"

/* ---- compare.c: ranges of any column ----------------------------------------------------------------------------- */

/* Sets `mixed`, `printable_low` and `printable_high` of a column of datetimes. Call it after tsx_column_choose and
 * before any function below. */
void tsx_column_prepare(tsx_column *column);

/* Makes the ranges of the values that can satisfy `column op value`. The ranges may point into *ranges and into the
 * text of `value`: both must outlive their use. If memory is lacking, ranges->count is TSX_NO_MEMORY. */
void tsx_ranges_make(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned rules, tsx_ranges *ranges);

/* Returns true if tsx_ranges_make makes exactly the values for which the comparison is true, so that SQLite need not
 * test it (for a column with tsx_has_own_comparison: must not). `value` is the right side, NULL if it is not known yet.
 * `utf16`: the database's text is UTF-16. */
bool tsx_ranges_exact(const tsx_column *column, tsx_op op, sqlite3_value *value, bool utf16);

/* Returns true if comparisons with this column mean more to the table than to SQLite (see compare.c). Then xBestIndex
 * takes every comparison that it can, and passes TSX_SQLITE_RULES if SQLite tests the comparison again. */
bool tsx_has_own_comparison(const tsx_column *column);

/* Returns the tsx_op of a constraint of xBestIndex (SQLITE_INDEX_CONSTRAINT_EQ and the like), or -1 if it has none. */
int tsx_op_of(int op);

/* Returns true if ranges can express comparisons with the column at all. */
bool tsx_ranges_possible(const tsx_column *column);

/* Makes one range, by bytes, of every text for which `text op value` is true under the collation NOCASE; it includes
 * others, too. Returns the number of ranges (0 or 1), TSX_EVERYTHING or TSX_NO_MEMORY. *memory is what the range points
 * to, for sqlite3_free; NULL if nothing was allocated. */
int tsx_nocase_range(tsx_op op, sqlite3_value *value, tsr_range *range, void **memory);

/* Widens a range of text with a high end so that it includes all text that looks like a number. Needed if SQLite may
 * compare the text as a number, because the other side is a numeric column. */
void tsx_numeric_range(tsr_range *range);

/* ---- compare.c: datetimes that are shown as integers ------------------------------------------------------------- */
/* A column of datetimes shows values without ISO text as integers. xFilter calls these functions if a comparison treats
 * the integers as text. */

/* Returns true if the comparison sees the values that are shown as integers as the decimal text of these integers.
 * tsx_ranges_make leaves those values out then: the caller adds the ranges of all parts, 0 to TSX_DECIMAL_PARTS - 1,
 * that tsx_times_decimals makes. */
#define TSX_DECIMAL_PARTS 38 /* 19 numbers of digits, for each sign */
bool tsx_times_as_text(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned rules);

/* Makes the ranges of one part: the integers with one sign and one number of digits. */
void tsx_times_decimals(const tsx_column *column, tsx_op op, sqlite3_value *value, unsigned rules, int part,
                        tsx_ranges *ranges);

/* ---- enumerations.c: values of enumerations ---------------------------------------------------------------------- */
/* Comparisons with the values of an enumerated attribute become sets of the codes whose values satisfy them. A cell
 * holds a code, so the reader can test a set of codes. */

typedef struct tsx_codes { /* `= {0}` is the empty set */
  uint64_t count, room; /* counts ranges */
  int64_t (*ranges)[2]; /* first and last code of each, inclusive; owned: sqlite3_free */
  bool everything; /* any code may satisfy the comparison: SQLite must test it */
} tsx_codes;

/* Appends the codes whose values satisfy `its value op value`; for TSX_NOTNULL, the codes whose values are not NULL.
 * `nocase` compares text without case, like tsx_nocase_range; `numeric` widens ranges of text, like tsx_numeric_range.
 * `rules` is as in value.h. Returns SQLITE_OK or SQLITE_NOMEM. */
int tsx_codes_add(const tsx_column *column, tsx_op op, bool nocase, bool numeric, sqlite3_value *value, unsigned rules,
                  tsx_codes *codes);

/* Appends the codes whose values, numbers or text, are within a range of values of their datatype. Returns SQLITE_OK or
 * SQLITE_NOMEM. */
int tsx_codes_within(const tsx_column *column, const tsr_range *range, tsx_codes *codes);

/* Returns true if values of this kind can be compared here; tsx_ranges_possible, for enumerated attributes. */
bool tsx_codes_possible(const tsx_column *column);

/* Returns true if the values are numbers and tsx_codes_add finds exactly the codes for which SQLite's comparison is
 * true, so that SQLite need not test it. `value` is NULL if it is not known yet. */
bool tsx_codes_exact(const tsx_column *column, tsx_op op, sqlite3_value *value);

#endif
