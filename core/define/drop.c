/* drop.c: drops an array or a group, and exchanges two arrays.
 *
 * A drop first renames __schema (and __array_schema.tdb and __kv_schema.tdb of old versions) to ".dropped" followed by
 * the old name. From then on no reader takes the directory for an array. Then everything in the directory is removed,
 * even files that do not belong to the array. The renamed schemas are removed last: if a drop is interrupted, a later
 * drop of the same path finds them and continues. Symbolic links in the directory are removed, never followed. A path
 * that is itself a symbolic link is refused, since its owner may not mean the array behind it.
 *
 * The drop of a group does the same to __group, but removes nothing except what makes the directory a group. The
 * directory itself goes if nothing else is in it.
 *
 * Sections: dropping arrays; dropping groups; exchange.
 */
#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "format/layout.h"
#include "array/array.h"
#include "environment/environment.h"

/* ---- Dropping arrays --------------------------------------------------------------------------------------------- */

#define DROPPED_PREFIX TSR_PREFIX_DROPPED

/* Removes the entries whose names begin with TSR_PREFIX_DROPPED (`renamed`), or the others. Removes a symbolic link
 * itself, not its target. `names` has room for all of them. */
static int remove_entries(tsr_store *store, const tsr_listing *entries, bool renamed, const char **names,
                          tsr_error *error) {
  uint64_t files = 0, trees = 0;
  for (uint64_t i = 0; i < entries->count; i++) {
    const tsr_entry *entry = &entries->entries[i];
    if ((strncmp(entry->name, DROPPED_PREFIX, strlen(DROPPED_PREFIX)) == 0) != renamed) continue;
    if (entry->kind == TSR_ENTRY_FILE) names[files++] = entry->name;
    else names[entries->count - ++trees] = entry->name;
  }
  if (files > 0) TSR_TRY(tsr__store_remove_many(store, names, files, error));
  return trees > 0 ? tsr__store_remove_trees(store, names + entries->count - trees, trees, error) : TSR_OK;
}

/* Removes everything in the array's directory, the renamed schemas last, and then the directory. */
static int remove_all(tsr_environment *environment, tsr_store *store, tsr_error *error) {
  tsr_listing entries;
  const char **names = NULL;
  TSR_TRY(tsr__store_list_any(store, "", &entries, error));
  int rc = TSR_ALLOC_ARRAY(&environment->memory, entries.count, &names, error);
  for (int renamed = 0; renamed < 2 && rc >= 0; renamed++) {
    rc = tsr__cancelled(&environment->memory, error);
    if (rc >= 0) rc = remove_entries(store, &entries, renamed, names, error);
  }
  tsr__free(names);
  tsr__listing_release(&entries);
  return rc < 0 ? rc : tsr__store_remove(store, "", error);
}

/* Sets *unfinished if an earlier drop of this array was interrupted. */
static int find_unfinished_drop(tsr_store *store, bool *unfinished, tsr_error *error) {
  TSR_TRY(tsr__directory_find(store, DROPPED_PREFIX TSR_DIR_SCHEMA, unfinished, error));
  return *unfinished ? TSR_OK : tsr__store_find(store, DROPPED_PREFIX TSR_FILE_OLD_SCHEMA, unfinished, error);
}

/* Renames an entry out of the sight of readers. Does nothing if there is no such entry. */
static int hide(tsr_store *store, const char *name, tsr_error *error) {
  char hidden[64];
  snprintf(hidden, sizeof hidden, DROPPED_PREFIX "%s", name);
  int rc = tsr__store_rename(store, name, hidden, error);
  return rc == TSR_NOT_FOUND ? TSR_OK : rc;
}

/* Renames the array's schemas, so that no reader finds it any more. */
static int hide_schemas(tsr_store *store, tsr_error *error) {
  static const char *const schemas[] = {TSR_FILE_KV_SCHEMA, TSR_FILE_OLD_SCHEMA, TSR_DIR_SCHEMA};
  tsr_listing entries;
  int rc = tsr__store_list_any(store, "", &entries, error);
  if (rc < 0) return rc;
  for (size_t i = 0; i < sizeof schemas / sizeof *schemas && rc >= 0; i++)
    if (tsr__listing_has(&entries, schemas[i])) rc = hide(store, schemas[i], error);
  tsr__listing_release(&entries);
  return rc;
}

static int fail_missing(tsr_store *store, const char *what, tsr_error *error) {
  const char *place = tsr__store_place(store);
  bool exists;
  TSR_TRY(tsr__directory_find(store, "", &exists, error));
  return exists ? tsr__fail(error, TSR_NOT_FOUND, "the %s is not %s", place, what)
                : tsr__fail(error, TSR_NOT_FOUND, "no such %s", place);
}

static int drop_array(tsr_environment *environment, tsr_store *store, tsr_error *error) {
  tsr_object_kind kind;
  TSR_TRY(tsr__object_kind(store, "", &kind, error));
  bool is_array = kind == TSR_OBJECT_ARRAY;
  if (!is_array) TSR_TRY(find_unfinished_drop(store, &is_array, error));
  if (!is_array) {
    if (kind == TSR_OBJECT_GROUP) return tsr__fail(error, TSR_NOT_FOUND, "it is a group, not an array");
    return fail_missing(store, "an array", error);
  }
  TSR_TRY(hide_schemas(store, error));
  TSR_TRY(tsr__store_sync_directory(store, "", error));
  return remove_all(environment, store, error);
}

/* Opens the store at `path` and drops what is there. `what` is "array" or "group". */
static int drop_at(tsr_environment *environment, const char *path, const char *what,
                   int (*drop)(tsr_environment *environment, tsr_store *store, tsr_error *error), tsr_error *error) {
  tsr_store *store;
  char *directory;
  TSR_TRY(tsr__path_open(environment, what, path, &directory, &store, error));
  int rc =
      tsr__path_is_directory(environment, path) && tsr__path_is_link(directory)
          ? tsr__fail(error, TSR_PERM, "it is a symbolic link: drop the %s by the path to which the link leads", what)
          : drop(environment, store, error);
  tsr__store_close(store);
  if (rc < 0) tsr__wrap(error, "%s %s", what, directory);
  tsr__free(directory);
  return rc;
}

int tsr_array_drop(tsr_environment *environment, const char *path, tsr_error *error) {
  TSR_OWN_ERROR(error);
  return drop_at(environment, path, "array", drop_array, error);
}

/* ---- Dropping groups --------------------------------------------------------------------------------------------- */

/* Removes the group's directory, unless something else is in it. In a bucket the object that claims the prefix is left
 * of an empty one, and goes with it. */
static int remove_empty(tsr_store *store, tsr_error *error) {
  tsr_listing entries;
  const int rc = tsr__store_list_any(store, "", &entries, error);
  if (rc < 0) return rc == TSR_NOT_FOUND ? TSR_OK : rc;
  const bool claimed = tsr__listing_has(&entries, TSR_BUCKET_CLAIM);
  const bool empty = entries.count == claimed;
  tsr__listing_release(&entries);
  if (empty && claimed)
    (void)tsr__store_remove(store, "", NULL); /* fails if it is a file of that name in a directory */
  return empty && !claimed ? tsr__store_remove(store, "", error) : TSR_OK;
}

static int drop_group(tsr_environment *environment, tsr_store *store, tsr_error *error) {
  static const char *const own[] = {TSR_DIR_META, DROPPED_PREFIX TSR_DIR_GROUP};
  tsr_object_kind kind;
  TSR_TRY(tsr__object_kind(store, "", &kind, error));
  bool is_group = kind == TSR_OBJECT_GROUP;
  if (kind == TSR_OBJECT_ARRAY) return tsr__fail(error, TSR_NOT_FOUND, "it is an array, not a group");
  if (!is_group) TSR_TRY(tsr__directory_find(store, DROPPED_PREFIX TSR_DIR_GROUP, &is_group, error));
  if (!is_group) return fail_missing(store, "a group", error);
  TSR_TRY(tsr__store_remove_many(store, (const char *const[]){TSR_FILE_OLD_GROUP}, 1, error));
  TSR_TRY(hide(store, TSR_DIR_GROUP, error));
  TSR_TRY(tsr__store_sync_directory(store, "", error));
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) TSR_TRY(tsr__store_remove_tree(store, own[i], error));
  return remove_empty(store, error);
}

int tsr_group_drop(tsr_environment *environment, const char *path, tsr_error *error) {
  TSR_OWN_ERROR(error);
  return drop_at(environment, path, "group", drop_group, error);
}

/* ---- Exchange ---------------------------------------------------------------------------------------------------- */

/* Swaps the directories of two arrays atomically, so that a new array replaces an old one. Both must have the same
 * parent directory. */

/* Returns the length of a path's parent directory, including its slash; 0 if it has none. */
static size_t parent_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

static int exchange_arrays(tsr_environment *environment, char *one, char *other, tsr_error *error) {
  tsr_store *store;
  char *parent;
  const size_t above = parent_length(one);
  if (above != parent_length(other) || strncmp(one, other, above) != 0 || !one[above] || !other[above])
    return tsr__fail(error, TSR_UNSUPPORTED, "%s is not in the same directory", other);
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
