/* patience.h: reads files that another program may still be writing: decides whether a file that cannot be decoded is
 * damaged, or should be read again. */
#ifndef TSR_PATIENCE_H
#define TSR_PATIENCE_H

#include "store/store.h"

/* Returns true for the errors that bytes may cause which were changed on their way. */
static inline bool tsr__is_doubtful(int code) {
  return code == TSR_CORRUPT || code == TSR_UNSUPPORTED || code == TSR_AUTH || code == TSR_TOOBIG;
}

typedef struct tsr_patience { /* state of the tries to read one file; {0} before the first try */
  /* the file has been looked at, or asked for again (tsr__store_doubt); it has changed between two looks */
  bool begun, changed;
  uint64_t since; /* tsr__moment of the first look */
  tsr_look look; /* size and time of change at the last look */
} tsr_patience;

/* Call it after each try to read and decode the file `path`, with the result `code` and its error. Returns 1 if the
 * caller must try again, else the final result. That is `code`, with two exceptions: TSR_CORRUPT becomes TSR_BUSY if
 * the file was changed so recently that its writer may still be at work, and TSR_NOT_FOUND if the file has been removed
 * meanwhile. All calls for one file together wait for at most 100 ms. Any thread may call it. */
int tsr__patience(tsr_patience *patience, tsr_store *store, const char *path, int code, tsr_error *error);

/* Returns true if the file was changed in the last 5 seconds, so that its writer may still be at work. */
bool tsr__is_young(const tsr_look *look);
bool tsr__same_look(const tsr_look *a, const tsr_look *b);

/* Returns the monotonic clock in milliseconds. */
uint64_t tsr__moment(void);

#endif
