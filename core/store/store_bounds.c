/* store_bounds.c: bounds, directories that the stores of an environment may not leave. store_posix.c and
 * store_windows.c say how each system keeps stores within them.
 *
 * A bound does not change and lives as long as its environment, because workers may be using it at any time. A narrower
 * bound replaces it as the current one and owns it. */
#include "store/store_bounds.h"

#include <errno.h>
#include <string.h>

int tsr__bounds_text(tsr_memory *memory, const char *a, const char *b, const char *c, char **text, tsr_error *error) {
  const size_t x = strlen(a), y = strlen(b), z = strlen(c);
  char *block;
  TSR_TRY(TSR_ALLOC_RAW(memory, x + y + z + 1, &block, error));
  memcpy(block, a, x);
  memcpy(block + x, b, y);
  memcpy(block + x + y, c, z + 1);
  *text = block;
  return TSR_OK;
}

bool tsr__path_is_below(const char *path, const char *directory) {
  size_t size = strlen(directory);
  while (size > 0 && directory[size - 1] == '/') size--;
  return strncmp(path, directory, size) == 0 && (path[size] == '/' || !path[size]);
}

const tsr_bound *tsr__bounds_get(const tsr_bounds *bounds) {
  return bounds ? atomic_load_explicit(&((tsr_bounds *)(uintptr_t)bounds)->bound, memory_order_acquire) : NULL;
}

/* Returns the part of a resolved path below the bound's directory. */
static const char *below(const tsr_bound *bound, const char *resolved) {
  const size_t size = strlen(bound->path);
  return resolved + (size > 0 && bound->path[size - 1] == '/' ? size - 1 : size);
}

int tsr__bounds_set(tsr_bounds *bounds, tsr_memory *memory, const char *directory, tsr_error *error) {
  const size_t size = strlen(directory) + 1;
  tsr_bound *b;
  TSR_TRY(TSR_ALLOC_RAW_BYTES(memory, sizeof(tsr_bound) + size, &b, error));
  b->wider = tsr__bounds_get(bounds);
  memcpy(b->path, directory, size);
  b->directory = tsr__bound_directory_open(b->wider, b->wider ? below(b->wider, directory) : directory);
  if (b->directory < 0 && errno != ENOTDIR) {
    const int number = errno;
    tsr__free(b);
    if (number == ENOENT) return tsr__fail(error, TSR_NOT_FOUND, "no such directory: %s", directory);
    return tsr__fail(error, number == EACCES || number == ELOOP ? TSR_PERM : TSR_IO, "%s cannot be opened", directory);
  }
  atomic_store_explicit(&bounds->bound, b, memory_order_release);
  return TSR_OK;
}

void tsr__bounds_release(tsr_bounds *bounds) {
  const tsr_bound *b = tsr__bounds_get(bounds);
  while (b) {
    const tsr_bound *wider = b->wider;
    tsr__bound_directory_close(b->directory);
    tsr__free((void *)(uintptr_t)b);
    b = wider;
  }
  atomic_store_explicit(&bounds->bound, NULL, memory_order_release);
}

int tsr__bound_permits(const tsr_bound *bound, tsr_memory *memory, const char *path, char **relative,
                       tsr_error *error) {
  char *resolved = NULL;
  if (!bound) return TSR_OK;
  TSR_TRY(tsr__bound_may_ask(bound, path, error));
  int rc = tsr__path_resolve(memory, path, &resolved, error);
  if (rc >= 0 && !tsr__path_is_below(resolved, bound->path)) rc = TSR_PERM;
  if (rc == TSR_PERM)
    (void)tsr__fail(error, TSR_PERM, "%s is not below %s, to which tessera_restrict has bound this connection", path,
                    bound->path);
  if (rc >= 0 && relative) rc = tsr__bounds_text(memory, below(bound, resolved), "", "", relative, error);
  tsr__free(resolved);
  return rc;
}
