/* recover_late.h: publishes a prepared commit that a merge has spanned, under another name and at another time.
 * recover.c calls it for each commit that it is going to publish. */
#ifndef TSR_RECOVER_LATE_H
#define TSR_RECOVER_LATE_H

#include "array/pending.h"

/* Publishes a prepared commit, which its database has committed, if it cannot keep its time. Returns 1 if the cells
 * that still count are published: the caller removes the prepared commit; 0 if the commit can keep its time, or its
 * files are gone. `file` is the path of the database's file, or NULL. Lists the array anew. TSR_BUSY if other processes
 * keep committing meanwhile. */
int tsr__publish_late(tsr_array *array, const tsr_pending *pending, const char *file, tsr_error *error);

#endif
