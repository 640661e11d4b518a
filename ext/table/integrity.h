/* integrity.h: the findings of the core's check, for tessera_check and for PRAGMA integrity_check. */
#ifndef TSX_INTEGRITY_H
#define TSX_INTEGRITY_H

#include "connection/sqlite_api.h"
#include "tessera.h"

typedef struct tsx_finding {
  tsr_severity severity;
  char *file, *message;
} tsx_finding;

typedef struct tsx_findings {
  tsx_finding *items;
  uint64_t count, capacity;
} tsx_findings;

/* A tsr_check_found: `argument` is a tsx_findings, to which the finding is appended. TSR_NOMEM. */
int tsx_findings_keep(void *argument, const tsr_finding *finding);

/* Frees the findings and leaves none. */
void tsx_findings_free(tsx_findings *all);

/* xIntegrity of array tables: PRAGMA integrity_check, and quick_check (bit 0 of the flags). */
int tsx_integrity(sqlite3_vtab *vtab, const char *schema, const char *name, int flags, char **message);

#endif
