/* pending_late.h: records of late publications: prepared commits in whose place recovery has published another
 * commit. */
#ifndef TSR_PENDING_LATE_H
#define TSR_PENDING_LATE_H

#include "array/pending.h"

typedef struct tsr_late { /* the record of a prepared commit */
  char commit[TSR_COMMIT_PATH]; /* path of the commit that is published in its place; "": no cell was left to publish */
  uint64_t dropped, total; /* cells of the prepared commit: not published again; all */
} tsr_late;

/* Gives the path of a prepared commit's record. Returns false if `commit` is not the path of a commit. */
bool tsr__late_path(const char *commit, char path[TSR_COMMIT_PATH]);

/* Read the record of a prepared commit, or the record at `path`. Return 1; 0 if it is missing or incomplete. */
int tsr__late_read(tsr_store *store, const char *commit, tsr_late *late, tsr_error *error);
int tsr__late_read_file(tsr_store *store, const char *path, tsr_late *late, tsr_error *error);

/* Writes the record of a prepared commit. It appears complete and durable. Returns TSR_EXISTS if there is one
 * already. */
int tsr__late_write(tsr_store *store, const char *commit, const tsr_late *late, tsr_error *error);

/* Removes the record of a prepared commit; a missing one is no error. */
int tsr__late_remove(tsr_store *store, const char *commit, tsr_error *error);

#endif
