/* array_exchange.c: exchanges the directories of two arrays, so that a new array takes the place of an old one. */
#include <string.h>

#include "store/store.h"
#include "store/store_posix.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/objects.h"

/* Returns the length of the part of a path that leads to the directory above: with its slash, 0 if there is none. */
static size_t exchange_above(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

static int exchange_arrays(tsr_environment *environment, char *one, char *other, tsr_error *error) {
  tsr_store *store;
  char *parent;
  const size_t above = exchange_above(one);
  if (above != exchange_above(other) || strncmp(one, other, above) != 0 || !one[above] || !other[above])
    return tsr__fail(error, TSR_UNSUPPORTED, "%s does not lie beside it", other);
  if (tsr__path_is_link(one)) return tsr__fail(error, TSR_PERM, "it is a symbolic link: say where the link leads");
  const char first = one[above];
  one[above] = 0; /* the directory above */
  int rc = tsr__path_open(environment, "directory", above ? one : ".", &parent, &store, error);
  one[above] = first;
  if (rc < 0) return rc;
  rc = tsr__store_exchange(store, one + above, other + above, error);
  if (rc >= 0) tsr__store_changed(store);
  if (rc >= 0) rc = tsr__store_sync_directory(store, "", error);
  tsr__store_close(store);
  tsr__free(parent);
  return rc;
}

int tsr_array_exchange(tsr_environment *environment, const char *path, const char *other, tsr_error *error) {
  TSR_OWN_ERROR(error);
  char *one = NULL, *two = NULL;
  tsr_store *store;
  if (!tsr__path_is_directory(environment, path) || !tsr__path_is_directory(environment, other))
    return tsr__fail(error, TSR_UNSUPPORTED, "array %s: only arrays in directories can be exchanged", path);
  TSR_TRY(tsr__path_open(environment, "array", path, &one, &store, error));
  tsr__store_close(store);
  int rc = tsr__path_open(environment, "array", other, &two, &store, error);
  if (rc >= 0) {
    tsr__store_close(store);
    rc = exchange_arrays(environment, one, two, error);
  }
  if (rc < 0) tsr__wrap(error, "array %s", path);
  tsr__free(one);
  tsr__free(two);
  return rc;
}
