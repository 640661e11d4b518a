/* array_drop.c: an array's directory is deleted.
 *
 * First of all __schema (and __array_schema.tdb, of old versions) loses its name: from then on there is no array, for
 * anybody. Then everything goes, with what is not the array's too, and what tells of the drop last: where it was cut
 * off, a later drop goes on.
 * Symbolic links are removed, never followed.
 */
#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/objects.h"

#define MARK                 ".dropped"
#define ARRAY_DROP_DEPTH_MAX 32 /* directories below each other */

static int remove_tree(tsr_environment *environment, tsr_store *store, const char *path, unsigned depth,
                       tsr_error *error);

static int remove_entry(tsr_environment *environment, tsr_store *store, const char *directory, const tsr_entry *entry,
                        unsigned depth, tsr_error *error) {
  tsr_buffer path = {.memory = store->memory};
  TSR_TRY(tsr__environment_cancelled(environment, error));
  int rc = tsr__buffer_printf(&path, error, "%s%s%s", directory, *directory ? "/" : "", entry->name);
  if (rc >= 0) rc = tsr__buffer_append_u8(&path, 0, error);
  if (rc >= 0) {
    rc = tsr__store_remove(store, (const char *)path.data, error); /* also a link to a directory */
    if (rc == TSR_NOT_FOUND) rc = TSR_OK;
    if (rc < 0 && entry->kind == TSR_ENTRY_DIRECTORY)
      rc = remove_tree(environment, store, (const char *)path.data, depth + 1, error);
  }
  tsr__buffer_release(&path);
  return rc;
}

static int remove_tree(tsr_environment *environment, tsr_store *store, const char *path, unsigned depth,
                       tsr_error *error) {
  tsr_listing entries;
  if (depth > ARRAY_DROP_DEPTH_MAX) return tsr__fail(error, TSR_RANGE, "%s: directories lie too deep", path);
  TSR_TRY(tsr__store_list_any(store, path, &entries, error));
  int rc = TSR_OK;
  for (int marks = 0; marks < 2; marks++)
    for (uint64_t i = 0; i < entries.count && rc >= 0; i++)
      if ((depth == 0 && !strncmp(entries.entries[i].name, MARK, strlen(MARK))) == marks)
        rc = remove_entry(environment, store, path, &entries.entries[i], depth, error);
  tsr__listing_release(&entries);
  return rc < 0 ? rc : tsr__store_remove(store, path, error);
}

static int find_mark(tsr_store *store, bool *marked, tsr_error *error) {
  TSR_TRY(tsr__directory_find(store, MARK "__schema", marked, error));
  return *marked ? TSR_OK : tsr__store_find(store, MARK "__array_schema.tdb", marked, error);
}

static int unname(tsr_store *store, const char *name, tsr_error *error) {
  char marked[64];
  snprintf(marked, sizeof marked, MARK "%s", name);
  int rc = tsr__store_rename(store, name, marked, error);
  return rc == TSR_NOT_FOUND ? TSR_OK : rc;
}

static int array_drop_drop(tsr_environment *environment, tsr_store *store, tsr_error *error) {
  tsr_object_kind kind;
  TSR_TRY(tsr__object_kind(store, "", &kind, error));
  bool is_array = kind == TSR_OBJECT_ARRAY;
  if (!is_array) TSR_TRY(find_mark(store, &is_array, error));
  if (!is_array) {
    bool exists;
    TSR_TRY(tsr__directory_find(store, "", &exists, error));
    return tsr__fail(error, TSR_NOT_FOUND, "%s",
                     kind == TSR_OBJECT_GROUP ? "it is a group, not an array: it is deleted by deleting its directory"
                     : exists                 ? "the directory is no array"
                                              : "no such directory");
  }
  TSR_TRY(unname(store, "__kv_schema.tdb", error));
  TSR_TRY(unname(store, "__array_schema.tdb", error));
  TSR_TRY(unname(store, "__schema", error));
  TSR_TRY(tsr__store_sync_directory(store, "", error));
  return remove_tree(environment, store, "", 0, error);
}

int tsr_array_drop(tsr_environment *environment, const char *path, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_store *store;
  char *directory;
  TSR_TRY(tsr__path_open(environment, "array", path, &directory, &store, error));
  int rc = array_drop_drop(environment, store, error);
  tsr__store_close(store);
  if (rc < 0) tsr__wrap(error, "array %s", directory);
  tsr__free(directory);
  return rc;
}
