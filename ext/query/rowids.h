/* rowids.h: rowids of the rows of a query. SQLite asks for them in RIGHT JOIN and FULL JOIN, to remember which rows it has
 * matched. So a row must have one rowid in all scans of a statement, whatever constraints the scans have, and share it with
 * no other row. */
#ifndef TSX_ROWIDS_H
#define TSX_ROWIDS_H

#include "query/names.h"

#define TSX_ROWID_BEGIN UINT64_C(0xcbf29ce484222325)

typedef struct tsx_occurrences { /* how often each hash has come in a scan; `= {0}` at first */
  struct tsx_occurrence *entries;
  uint64_t room, count;
} tsx_occurrences;

/* Adds a value and its type to a hash. */
uint64_t tsx_rowid_add(uint64_t hash, const tsr_value *value);

/* Makes the rowid of the next row that has this hash. Equal rows satisfy the same constraints, so the second of them is the
 * second in each scan. */
int tsx_rowid_take(tsx_occurrences *occurrences, uint64_t hash, int64_t *rowid, tsr_error *error);
void tsx_rowids_free(tsx_occurrences *occurrences);

#endif
