/* recover_late.h: commits that a merge has spanned. */
#ifndef TSR_RECOVER_LATE_H
#define TSR_RECOVER_LATE_H

#include "array/pending.h"

/* Publishes a prepared commit that its database has committed, where it cannot keep its time: 1, and what was prepared may go;
 * 0: it can. `file` is the database's, or NULL. Lists the array anew. TSR_BUSY where others commit all the time. */
int tsr__publish_late(tsr_array *array, const tsr_pending *pending, const char *file, tsr_error *error);

#endif
