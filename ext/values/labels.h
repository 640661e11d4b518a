/* labels.h: comparisons with the labels of enumerated attributes, as the codes whose labels satisfy them. */
#ifndef TSX_LABELS_H
#define TSX_LABELS_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "values/value.h"

typedef struct tsx_column tsx_column;

/* For enumerated attributes: appends the codes, as runs of neighbours, whose labels satisfy it; all that have one for
 * TSX_NOTNULL. `nocase`, `numeric`: more than those, as by tsx_nocase_range and tsx_numeric_range. */
typedef struct tsx_codes {
  uint64_t count, room;
  int64_t (*runs)[2]; /* first and last; of sqlite3_malloc */
  bool everything;
} tsx_codes;

int tsx_codes_add(const tsx_column *column, tsx_op op, bool nocase, bool numeric, sqlite3_value *value, unsigned how,
                  tsx_codes *codes);

/* Can labels be compared at all, as tsx_ranges_possible has it; and exactly, labels that are numbers? */
bool tsx_labels_possible(const tsx_column *column);
bool tsx_labels_exact(const tsx_column *column, tsx_op op, sqlite3_value *value);

#endif
