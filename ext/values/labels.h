/* labels.h: comparisons with the labels of an enumerated attribute, as the codes whose labels satisfy them. A cell of
 * such an attribute holds a code, so a set of codes is what the reader can test. */
#ifndef TSX_LABELS_H
#define TSX_LABELS_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "values/value.h"

typedef struct tsx_column tsx_column;

typedef struct tsx_codes { /* `= {0}` is the empty set */
  uint64_t count, room; /* of the ranges */
  int64_t (*ranges)[2]; /* first and last code of each, inclusive; owned: sqlite3_free */
  bool everything; /* any code may satisfy the comparison: SQLite has to test it */
} tsx_codes;

/* Appends the codes whose labels satisfy `label op value`; for TSX_NOTNULL, the codes whose labels are not NULL.
 * `nocase` compares text without case, as tsx_nocase_range does; `numeric` widens the ranges of texts, as
 * tsx_numeric_range does. `how` is as in value.h. Returns SQLITE_OK or SQLITE_NOMEM. */
int tsx_codes_add(const tsx_column *column, tsx_op op, bool nocase, bool numeric, sqlite3_value *value, unsigned how,
                  tsx_codes *codes);

/* Appends the codes whose labels, numbers or text, lie within a range of values of their datatype. */
int tsx_codes_within(const tsx_column *column, const tsr_range *range, tsx_codes *codes);

/* Returns true if labels of this kind can be compared here, as tsx_ranges_possible says of other columns. */
bool tsx_labels_possible(const tsx_column *column);

/* Returns true if the labels are numbers and tsx_codes_add finds exactly the codes for which SQLite's comparison is
 * true, so that SQLite need not test it. `value` is NULL where it is not known yet. */
bool tsx_labels_exact(const tsx_column *column, tsx_op op, sqlite3_value *value);

#endif
