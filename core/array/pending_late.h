/* pending_late.h: commits that recovery has published under another name. */
#ifndef TSR_PENDING_LATE_H
#define TSR_PENDING_LATE_H

#include "array/pending.h"

#define TSR_LATE_SUFFIX ".late"

typedef struct tsr_late { /* what is recorded of a prepared commit */
  char commit[TSR_COMMIT_PATH]; /* the one that is published in its place; "": nothing was left to publish */
  uint64_t dropped, total; /* cells */
} tsr_late;

/* Where the record of a prepared commit lies. False if `commit` is no such path. */
bool tsr__late_path(const char *commit, char path[TSR_COMMIT_PATH]);

/* 1; 0 if there is none, or it is no whole record. */
int tsr__late_read(tsr_store *store, const char *commit, tsr_late *late, tsr_error *error);
int tsr__late_read_file(tsr_store *store, const char *path, tsr_late *late, tsr_error *error);

/* Durable and whole when it appears; TSR_EXISTS if there is one. */
int tsr__late_write(tsr_store *store, const char *commit, const tsr_late *late, tsr_error *error);
int tsr__late_remove(tsr_store *store, const char *commit, tsr_error *error); /* gone already: fine */

#endif
