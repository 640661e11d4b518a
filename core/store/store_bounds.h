/* store_bounds.h: the bound of an environment, a directory that its stores may not leave (tsr_environment_confine). An
 * environment has one tsr_bounds; each of its stores reads the current bound in every call and opens files through it.
 *
 * Implemented in store_bounds.c, and for each operating system in store_posix.c and store_windows.c. */
#ifndef TSR_STORE_STORE_BOUNDS_H
#define TSR_STORE_STORE_BOUNDS_H

#include <stdatomic.h>

#include "base/memory.h"

typedef struct tsr_bound tsr_bound;

/* The bounds that were set, each narrower than the one before. `= {0}`: stores may go anywhere. */
typedef struct tsr_bounds {
  _Atomic(const tsr_bound *) bound; /* owned; the current one, which owns the earlier ones */
} tsr_bounds;

/* Returns the current bound, borrowed until the release, or NULL if there is none or `bounds` is NULL. Thread-safe. */
const tsr_bound *tsr__bounds_get(const tsr_bounds *bounds);

/* Narrows the bounds to `directory`, a resolved path below the current bound. Earlier bounds stay valid until the
 * release, because workers may be using them. */
int tsr__bounds_set(tsr_bounds *bounds, tsr_memory *memory, const char *directory, tsr_error *error);
void tsr__bounds_release(tsr_bounds *bounds);

/* Checks that `path`, with its links resolved, lies below the bound's directory; fails with TSR_PERM if not. If
 * `relative` is not NULL and there is a bound, sets it to the resolved path relative to the bound's directory, which
 * the caller frees with tsr__free. */
int tsr__bound_permits(const tsr_bound *bound, tsr_memory *memory, const char *path, char **relative, tsr_error *error);

/* Resolves symbolic links and ".." in a path. Trailing parts that do not exist are kept as they are. The caller frees
 * *resolved with tsr__free. */
int tsr__path_resolve(tsr_memory *memory, const char *path, char **resolved, tsr_error *error);

/* Returns true if `path` is `directory` or lies below it. Both are resolved. */
bool tsr__path_is_below(const char *path, const char *directory);

/* ---- For store.c and the stores of the operating systems ---- */

struct tsr_bound {
  const tsr_bound *wider; /* the previous bound, owned, or NULL */
  int directory; /* file descriptor, on POSIX; -1: the path is not a directory, so nothing lies below it */
  char path[]; /* resolved */
};

/* Concatenates three texts. The caller frees *text with tsr__free. */
int tsr__bounds_text(tsr_memory *memory, const char *a, const char *b, const char *c, char **text, tsr_error *error);

/* Opens the directory of a new bound. `path` is relative to the directory of the previous bound `wider`, or absolute if
 * that is NULL. Returns -1 with errno on failure; ENOTDIR says that `path` itself is not a directory. On Windows
 * nothing stays open, and the result is 0. */
int tsr__bound_directory_open(const tsr_bound *wider, const char *path);
void tsr__bound_directory_close(int directory); /* -1 is allowed */

/* Fails with TSR_PERM if merely looking at `path` would contact a server other than the bound's, which would reveal the
 * user to that server. Only Windows has paths that name servers. */
int tsr__bound_may_ask(const tsr_bound *bound, const char *path, tsr_error *error);

#endif
