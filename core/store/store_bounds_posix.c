/* store_bounds_posix.c: how stores are kept within a bound on POSIX.
 *
 * The path of a store's root is resolved once, with its symbolic links and "..", and must lie below the bound's
 * directory. A directory on that path may be replaced by a link between the check and a later open. So every system
 * call starts from a descriptor of the bound's directory, which was opened when the bound was set, and walks down part
 * by part. A symbolic link on the way is an error, in the root's resolved path as well as below the root.
 */
#ifndef _WIN32
#define _FILE_OFFSET_BITS 64
#define _GNU_SOURCE       /* O_PATH */
#include "store/bounds_system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How a directory on the way is opened: with O_PATH it need not be readable. */
#if defined(O_PATH)
#define BOUNDS_STEP (O_PATH | O_DIRECTORY)
#elif defined(O_SEARCH)
#define BOUNDS_STEP (O_SEARCH | O_DIRECTORY)
#else
#define BOUNDS_STEP (O_RDONLY | O_DIRECTORY)
#endif

/* ---- Paths ---------------------------------------------------------------------------------- */

/* Cuts the last part off a path that begins with '/'. Returns false if that part is "..", or if no part was left. */
static bool bounds_cut(char *head, size_t *size) {
  while (*size > 1 && head[*size - 1] == '/') --*size;
  const size_t end = *size;
  while (*size > 0 && head[*size - 1] != '/') --*size;
  const bool up = end - *size == 2 && memcmp(head + *size, "..", 2) == 0;
  head[*size] = 0;
  return end > 1 && !up;
}

int tsr__path_resolve(tsr_memory *memory, const char *path, char **resolved, tsr_error *error) {
  char *whole = NULL, *head = NULL, *real = NULL, *here = NULL;
  if (*path != '/' && !(here = realpath(".", NULL)))
    return tsr__fail(error, TSR_IO, "the current directory is not known");
  int rc = tsr__bounds_text(memory, here ? here : "", here ? "/" : "", path, &whole, error);
  if (rc >= 0) rc = tsr__bounds_text(memory, whole, "", "", &head, error);
  if (rc >= 0) {
    size_t size = strlen(head);
    bool clear = true; /* cut parts off the end until the rest of the path exists and can be resolved */
    while (clear && !(real = realpath(head, NULL))) clear = bounds_cut(head, &size);
    const char *rest = whole + size;
    rest += strspn(rest, "/");
    if (!real) rc = tsr__fail(error, TSR_PERM, "the path %s cannot be resolved", path);
    else
      rc = tsr__bounds_text(memory, *rest && strcmp(real, "/") == 0 ? "" : real, *rest ? "/" : "", rest, resolved,
                            error);
  }
  free(here);
  free(real);
  tsr__free(head);
  tsr__free(whole);
  return rc;
}

/* ---- The walk -------------------------------------------------------------------------------- */

int tsr__bound_open(int directory, const char *name, int flags) {
  int descriptor;
  struct stat status;
  do descriptor = openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC, 0666);
  while (descriptor < 0 && errno == EINTR);
  if (descriptor >= 0 || errno == ENOENT || errno == EEXIST) return descriptor;
  const int number = errno; /* for a link systems set different codes, and with O_DIRECTORY it may be ENOTDIR */
  const bool link = fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
  errno = link ? ELOOP : number;
  return -1;
}

/* Opens the directory `part` within `directory`. Closes `directory` unless it is `keep`. Returns -1 with errno on
 * failure. */
static int bounds_step(int directory, int keep, const char *part, size_t size) {
  char name[256]; /* no file system has longer names */
  int next = -1;
  errno = ENAMETOOLONG;
  if (size < sizeof name) {
    memcpy(name, part, size);
    name[size] = 0;
    next = tsr__bound_open(directory, name, BOUNDS_STEP);
  }
  const int number = errno;
  if (directory != keep) close(directory);
  errno = number;
  return next;
}

/* As tsr__bound_enter, from `directory` on, which stays open. */
static int bounds_enter(int directory, const char *path, const char **name) {
  int at = directory;
  for (;;) {
    path += strspn(path, "/");
    const size_t size = strcspn(path, "/");
    *name = *path ? path : ".";
    if (!path[size]) return at;
    if ((at = bounds_step(at, directory, path, size)) < 0) return -1;
    path += size;
  }
}

int tsr__bound_enter(const tsr_bound *bound, const char *path, const char **name) {
  if (bound->directory >= 0) return bounds_enter(bound->directory, path, name);
  errno = ENOTDIR;
  return -1;
}

void tsr__bound_leave(const tsr_bound *bound, int directory) {
  const int number = errno;
  if (directory >= 0 && directory != bound->directory) close(directory);
  errno = number;
}

int tsr__bound_directory_open(const tsr_bound *wider, const char *path) {
  const char *name;
  if (wider && wider->directory < 0) return errno = *path ? ENOENT : ENOTDIR, -1;
  const int top = wider ? wider->directory : open("/", BOUNDS_STEP | O_CLOEXEC);
  const int above = top < 0 ? -1 : bounds_enter(top, path, &name);
  const int directory = above < 0 ? -1 : tsr__bound_open(above, name, BOUNDS_STEP);
  const int number =
      above < 0 && errno == ENOTDIR ? ENOENT : errno; /* a part above it is no directory: it does not exist */
  if (above >= 0 && above != top) close(above);
  if (top >= 0 && !wider) close(top);
  errno = number;
  return directory;
}

int tsr__bound_may_ask(const tsr_bound *bound, const char *path, tsr_error *error) { return TSR_OK; }

void tsr__bound_directory_close(int directory) {
  if (directory >= 0) close(directory);
}
#endif
