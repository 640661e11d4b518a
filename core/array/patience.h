/* patience.h: files that another program may still be writing. */
#ifndef TSR_PATIENCE_H
#define TSR_PATIENCE_H

#include "store/store_bounds.h"

typedef struct tsr_patience { /* `= {0}` before the first try */
  bool begun, changed; /* the file was looked at; it has changed between two looks */
  uint64_t since; /* tsr__moment of the first look */
  tsr_look look; /* the last one */
} tsr_patience;

/* After a try to read and decode the file `path` that gave `code`, with its error. Returns 1: try again; else the
 * result:
 * `code`, but for TSR_CORRUPT of a file that is too young to be called damaged TSR_BUSY, and TSR_NOT_FOUND where it has
 * gone
 * meanwhile. Waits 100 ms at most, of all calls together; any thread. */
int tsr__patience(tsr_patience *patience, tsr_store *store, const char *path, int code, tsr_error *error);
bool tsr__is_young(const tsr_look *look); /* was it changed so late that its writer may still be at it? */
bool tsr__same_look(const tsr_look *a, const tsr_look *b);
uint64_t tsr__moment(void); /* milliseconds of a clock that is never set */

#endif
