/* store_bounds.h: the bound of an environment, a directory that its stores may not leave (tsr_environment_confine). An
 * environment has one tsr_bounds; every store of it looks at the present bound in each call and opens files through
 * it. */
#ifndef TSR_STORE_STORE_BOUNDS_H
#define TSR_STORE_STORE_BOUNDS_H

#include <stdatomic.h>

#include "base/memory.h"

typedef struct tsr_bound tsr_bound;

/* The bounds that were set, each below the one before. `= {0}`: stores may go anywhere. */
typedef struct tsr_bounds {
  _Atomic(const tsr_bound *) bound; /* owned; the present one, which keeps the earlier ones */
} tsr_bounds;

/* Returns the present bound, borrowed until the release, or NULL if there is none or `bounds` is NULL. From any
 * thread. */
const tsr_bound *tsr__bounds_get(const tsr_bounds *bounds);

/* Binds to `directory`, a resolved path below the present bound. Earlier bounds stay valid until the release, because
 * workers may be using them. */
int tsr__bounds_set(tsr_bounds *bounds, tsr_memory *memory, const char *directory, tsr_error *error);
void tsr__bounds_release(tsr_bounds *bounds);

/* Checks that `path`, with its links resolved, lies below the bound's directory; fails with TSR_PERM if not. If
 * `relative` is not NULL and there is a bound, sets it to the resolved path from the bound's directory on; the caller
 * frees it with tsr__free. */
int tsr__bound_permits(const tsr_bound *bound, tsr_memory *memory, const char *path, char **relative, tsr_error *error);

/* Resolves symbolic links and ".." of a path. Parts at its end that do not exist are kept as they are. The caller frees
 * *resolved with tsr__free. */
int tsr__path_resolve(tsr_memory *memory, const char *path, char **resolved, tsr_error *error);

/* Returns true if `path` is `directory` or lies below it. Both are resolved. */
bool tsr__path_is_below(const char *path, const char *directory);

/* What store.c and the sources of the systems know of a bound. */

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
