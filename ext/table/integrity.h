/* integrity.h: collects the findings of the core's check, for tessera_check and for PRAGMA integrity_check. */
#ifndef TSX_INTEGRITY_H
#define TSX_INTEGRITY_H

#include "connection/sqlite_api.h"
#include "tessera.h"

typedef struct tsx_finding {
  tsr_severity severity;
  char *file, *message; /* owned */
} tsx_finding;

typedef struct tsx_findings { /* `= {0}` is the empty list */
  tsx_finding *items; /* owned */
  uint64_t count, capacity;
} tsx_findings;

/* Appends a copy of a finding; `argument` is the tsx_findings. Pass this function to tsr_array_check. Returns TSR_OK or
 * TSR_NOMEM. */
int tsx_findings_keep(void *argument, const tsr_finding *finding);

/* Frees the findings and leaves the list empty. */
void tsx_findings_free(tsx_findings *all);

/* xIntegrity of array tables. *message gets one line for each error, or stays NULL where there is none. Bit 0 of
 * `flags` is set for PRAGMA quick_check. Returns SQLite's code of what kept the check from running to its end. */
int tsx_integrity(sqlite3_vtab *vtab, const char *schema, const char *name, int flags, char **message);

#endif
