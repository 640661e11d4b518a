/* compare_values.h: SQLite's order of values. */
#ifndef TSX_COMPARE_VALUES_H
#define TSX_COMPARE_VALUES_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* Compares two values that are null, INTEGER, REAL or TEXT. Returns < 0, 0, > 0. */
int tsx_values_compare(const tsr_value *a, const tsr_value *b);

/* Returns false only if `value op constant` is false or null for SQLite, whatever affinities are applied. `op` is one of
 * SQLITE_INDEX_CONSTRAINT_EQ and the like; with `utf16` the order of texts is not that of their bytes. */
bool tsx_value_may(const tsr_value *value, int op, const tsr_value *constant, bool utf16);

#endif
