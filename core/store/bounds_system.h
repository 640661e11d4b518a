/* bounds_system.h: what store_bounds.c and the sources of the systems know of a bound. */
#ifndef TSR_BOUNDS_SYSTEM_H
#define TSR_BOUNDS_SYSTEM_H

#include "store/store_bounds.h"

struct tsr_bound {
  const tsr_bound *wider; /* the bound before this one, owned, or NULL */
  int directory; /* descriptor, for POSIX; -1: the path is no directory, so nothing lies below it */
  char path[]; /* resolved */
};

/* Joins three texts. The caller frees *text with tsr__free. */
int tsr__bounds_text(tsr_memory *memory, const char *a, const char *b, const char *c, char **text, tsr_error *error);

/* Opens the directory of a new bound. `path` starts at the directory of the bound before it, `wider`; without one it is
 * absolute. Returns -1 with errno on failure; ENOTDIR says that `path` itself is no directory. On Windows nothing stays
 * open: the result is 0. */
int tsr__bound_directory_open(const tsr_bound *wider, const char *path);
void tsr__bound_directory_close(int directory); /* -1 is allowed */

/* Fails with TSR_PERM if a look at `path` would ask another server than the bound's: the look itself would tell that
 * server who asks. Only Windows has paths of servers. */
int tsr__bound_may_ask(const tsr_bound *bound, const char *path, tsr_error *error);

#endif
