/* compare_values.h: SQLite's order of values. */
#ifndef TSX_COMPARE_VALUES_H
#define TSX_COMPARE_VALUES_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* Compares two values that are null, INTEGER, REAL or TEXT. Returns < 0, 0, > 0. */
int tsx_values_compare(const tsr_value *a, const tsr_value *b);

typedef struct tsx_constant { /* what values are compared with; made by tsx_constant_make */
  tsr_value value;
  bool is_number; /* a text that SQLite may take for a number */
  double number; /* about that number */
} tsx_constant;

tsx_constant tsx_constant_make(const tsr_value *value);

/* Returns false only if `value op constant` is false or null for SQLite, whatever affinities are applied. `op` is one of
 * SQLITE_INDEX_CONSTRAINT_EQ and the like; with `utf16` the order of texts is not that of their bytes. */
bool tsx_value_may(const tsr_value *value, int op, const tsx_constant *constant, bool utf16);

typedef struct tsx_value_list { /* of IN: values that are not null */
  tsr_value *values;
  uint64_t count;
  bool texts, numbers; /* set by tsx_value_list_sort: which classes of values are among them */
} tsx_value_list;

void tsx_value_list_sort(tsx_value_list *list);

/* Returns false only if no value of a sorted list equals `value`. SQLite has applied the affinity of IN to the values of
 * the list, and not to `value`. */
bool tsx_value_may_be_in(const tsr_value *value, const tsx_value_list *list);

#endif
