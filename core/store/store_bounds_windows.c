/* store_bounds_windows.c: how stores are kept within a bound on Windows.
 *
 * A bound is a path as GetFinalPathNameByHandle gives it: without links, with the names that the directories really have
 * (neither short ones nor ones in another case). A path of the host becomes such a path before it is compared, so the
 * comparison is exact; a directory in which case distinguishes names cannot be left by another spelling. store_windows.c
 * asks each handle that it opens under a bound for its path, and refuses it if that is not the path that was meant.
 */
#ifdef _WIN32
#include <windows.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "base/windows_path.h"
#include "store/bounds_system.h"

int tsr__path_resolve(tsr_memory *memory, const char *path, char **resolved, tsr_error *error) {
  tsr_wide_path full;
  const char *wrong = tsr__wide_full(path, &full);
  if (wrong) return tsr__fail(error, TSR_PERM, "the path '%s' cannot be resolved: %s", path, wrong);
  char *whole = tsr__wide_form(full.text), *head = whole ? strdup(whole) : NULL, *real = NULL;
  int rc = head ? TSR_OK : tsr__fail(error, TSR_NOMEM, "no memory for a path");
  size_t root = head ? tsr__path_root(head) : 0, size = head ? strlen(head) : 0;
  while (rc >= 0 && !(real = tsr_path_real(head)) && size > root) { /* cut parts off until the rest exists */
    while (size > root && head[size - 1] != '/') size--;
    while (size > root && head[size - 1] == '/') size--;
    head[size] = 0;
  }
  if (rc >= 0 && !real) rc = tsr__fail(error, TSR_PERM, "the path %s cannot be resolved", path);
  if (rc >= 0) {
    const char *rest = whole + size;
    while (*rest == '/') rest++;
    const size_t length = strlen(real);
    const bool slash = *rest && real[length - 1] != '/';
    rc = tsr__bounds_text(memory, real, slash ? "/" : "", rest, resolved, error);
  }
  free(whole);
  free(head);
  free(real);
  return rc;
}

int tsr__bound_directory_open(const tsr_bound *wider, const char *path) {
  char *whole = NULL;
  tsr_wide_path full, object;
  if (wider && wider->directory < 0) return errno = *path ? ENOENT : ENOTDIR, -1;
  if (wider) {
    const size_t size = strlen(wider->path), more = strlen(path) + 1;
    if (!(whole = malloc(size + more + 1))) return errno = ENOMEM, -1;
    memcpy(whole, wider->path, size);
    memcpy(whole + size, path, more);
  }
  const bool good = !tsr__wide_full(whole ? whole : path, &full) && tsr__wide_object(&full, &object);
  free(whole);
  if (!good) return errno = ENOENT, -1;
  object.text[1] = L'\\';
  const DWORD attributes = GetFileAttributesW(object.text);
  if (attributes == INVALID_FILE_ATTRIBUTES) return errno = tsr__windows_errno(GetLastError()), -1;
  return attributes & FILE_ATTRIBUTE_DIRECTORY ? 0 : (errno = ENOTDIR, -1);
}

void tsr__bound_directory_close(int directory) { (void)directory; }

int tsr__bound_may_ask(const tsr_bound *bound, const char *path, tsr_error *error) {
  tsr_wide_path full;
  char *form = tsr__wide_full(path, &full) ? NULL : tsr__wide_form(full.text);
  const size_t root = form ? tsr__path_root(form) : 0;
  bool other = form && form[0] == '/';
  if (other && tsr__path_root(bound->path) == root) {
    form[root] = 0;
    char *server = strdup(bound->path);
    if (server) server[root] = 0;
    other = !server || !tsr_path_same(form, server);
    free(server);
  }
  free(form);
  if (!other) return TSR_OK;
  return tsr__fail(error, TSR_PERM, "%s is not below %s, to which tessera_restrict has bound this connection", path,
                   bound->path);
}
#endif
