/* array_drop.c: deletes an array's directory.
 *
 * A drop first renames __schema (and __array_schema.tdb and __kv_schema.tdb of old versions) to ".dropped" with the old
 * name behind it. From then on the directory is an array for no reader. Then everything in the directory is removed,
 * including files that are not the array's. The renamed schemas are removed last: if a drop is cut off, a later drop of
 * the same path finds them and goes on. Symbolic links in the directory are removed, never followed. A path
 * that is itself a symbolic link is refused: whoever has made the link may not mean the array behind it.
 */
#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "store/store_posix.h"
#include "format/layout.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/objects.h"

#define DROPPED_PREFIX TSR_PREFIX_DROPPED

/* Removes what the array's directory has, the renamed schemas last, and then the directory. A symbolic link is removed
 * itself, not what it leads to. */
static int remove_all(tsr_environment *environment, tsr_store *store, tsr_error *error) {
  tsr_listing entries;
  TSR_TRY(tsr__store_list_any(store, "", &entries, error));
  int rc = TSR_OK;
  for (int renamed = 0; renamed < 2; renamed++)
    for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
      const tsr_entry *entry = &entries.entries[i];
      if ((strncmp(entry->name, DROPPED_PREFIX, strlen(DROPPED_PREFIX)) == 0) != renamed) continue;
      rc = tsr__cancelled(&environment->memory, error);
      if (rc >= 0)
        rc = entry->kind == TSR_ENTRY_FILE ? tsr__store_remove(store, entry->name, error)
                                           : tsr__store_remove_tree(store, entry->name, error);
      if (rc == TSR_NOT_FOUND) rc = TSR_OK;
    }
  tsr__listing_release(&entries);
  return rc < 0 ? rc : tsr__store_remove(store, "", error);
}

/* Sets *unfinished if an earlier drop of this array was cut off. */
static int find_unfinished_drop(tsr_store *store, bool *unfinished, tsr_error *error) {
  TSR_TRY(tsr__directory_find(store, DROPPED_PREFIX TSR_DIR_SCHEMA, unfinished, error));
  return *unfinished ? TSR_OK : tsr__store_find(store, DROPPED_PREFIX TSR_FILE_OLD_SCHEMA, unfinished, error);
}

static int hide_schema(tsr_store *store, const char *name, tsr_error *error) {
  char hidden[64];
  snprintf(hidden, sizeof hidden, DROPPED_PREFIX "%s", name);
  int rc = tsr__store_rename(store, name, hidden, error);
  return rc == TSR_NOT_FOUND ? TSR_OK : rc;
}

static int drop_array(tsr_environment *environment, tsr_store *store, tsr_error *error) {
  tsr_object_kind kind;
  TSR_TRY(tsr__object_kind(store, "", &kind, error));
  bool is_array = kind == TSR_OBJECT_ARRAY;
  if (!is_array) TSR_TRY(find_unfinished_drop(store, &is_array, error));
  if (!is_array) {
    bool exists;
    TSR_TRY(tsr__directory_find(store, "", &exists, error));
    return tsr__fail(error, TSR_NOT_FOUND, "%s",
                     kind == TSR_OBJECT_GROUP ? "it is a group, not an array: it is deleted by deleting its directory"
                     : exists                 ? "the directory is not an array"
                                              : "no such directory");
  }
  TSR_TRY(hide_schema(store, TSR_FILE_KV_SCHEMA, error));
  TSR_TRY(hide_schema(store, TSR_FILE_OLD_SCHEMA, error));
  TSR_TRY(hide_schema(store, TSR_DIR_SCHEMA, error));
  TSR_TRY(tsr__store_sync_directory(store, "", error));
  return remove_all(environment, store, error);
}

int tsr_array_drop(tsr_environment *environment, const char *path, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_store *store;
  char *directory;
  TSR_TRY(tsr__path_open(environment, "array", path, &directory, &store, error));
  int rc = tsr__path_is_directory(environment, path) && tsr__path_is_link(directory)
               ? tsr__fail(error, TSR_PERM, "it is a symbolic link: drop the array by the path to which the link leads")
               : drop_array(environment, store, error);
  tsr__store_close(store);
  if (rc < 0) tsr__wrap(error, "array %s", directory);
  tsr__free(directory);
  return rc;
}
