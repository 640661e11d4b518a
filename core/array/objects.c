/* objects.c: finds out whether directories are arrays or groups, and lists the arrays and groups below a directory.
 *
 * An array has the directory __schema (version 10 and later) or the file __array_schema.tdb (before; a key-value store
 * has __kv_schema.tdb). A group has the directory __group or the file __tiledb_group.tdb. A directory with marks of
 * both kinds is an array.
 */
#include "array/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "format/layout.h"
#include "array/array.h"
#include "array/environment.h"

typedef struct objects_made {
  tsr_objects shown; /* first: the caller has a pointer to this member */
  tsr_arena arena;
} objects_made;

typedef struct objects_walk {
  tsr_environment *environment;
  tsr_store *store;
  objects_made *made;
  tsr_buffer pending; /* const char *: paths in the store of all directories to be visited, breadth first */
  tsr_buffer found; /* tsr_object: arrays and groups */
  tsr_map visited; /* stamps of the visited directories, as text */
  tsr_error *error;
} objects_walk;

/* ---- Kinds of directories ---------------------------------------------------------------------------------------- */

int tsr__object_kind(tsr_store *store, const char *path, tsr_object_kind *kind, tsr_error *error) {
  static const struct {
    const char *name;
    bool directory;
    tsr_object_kind kind;
  } marks[] = {{TSR_DIR_SCHEMA, true, TSR_OBJECT_ARRAY},
               {TSR_FILE_OLD_SCHEMA, false, TSR_OBJECT_ARRAY},
               {TSR_FILE_KV_SCHEMA, false, TSR_OBJECT_ARRAY},
               {TSR_DIR_GROUP, true, TSR_OBJECT_GROUP},
               {TSR_FILE_OLD_GROUP, false, TSR_OBJECT_GROUP}};
  tsr_buffer mark = {.memory = store->memory};
  tsr_object_kind found = TSR_OBJECT_NONE;
  int rc = TSR_OK;
  for (unsigned i = 0; i < sizeof marks / sizeof marks[0] && rc >= 0 && found == TSR_OBJECT_NONE; i++) {
    bool exists = false;
    mark.size = 0;
    rc = tsr__buffer_printf(&mark, error, "%s%s%s", path, *path ? "/" : "", marks[i].name);
    if (rc >= 0) rc = tsr__buffer_append_u8(&mark, 0, error);
    if (rc < 0) break;
    rc = marks[i].directory ? tsr__directory_find(store, (const char *)mark.data, &exists, error)
                            : tsr__store_find(store, (const char *)mark.data, &exists, error);
    if (exists) found = marks[i].kind;
  }
  tsr__buffer_release(&mark);
  if (rc >= 0) *kind = found;
  return rc;
}

int tsr_object_find(tsr_environment *environment, const char *path, tsr_object_kind *kind, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_store *store;
  char *directory;
  TSR_TRY(tsr__path_open(environment, "array or group", path, &directory, &store, error));
  tsr__free(directory);
  int rc = tsr__object_kind(store, "", kind, error);
  tsr__store_close(store);
  return rc;
}

/* ---- The walk ---------------------------------------------------------------------------------------------------- */

static int objects_join(objects_walk *w, const char *directory, const char *name, const char **path) {
  uint64_t size = strlen(directory), more = strlen(name);
  bool slash = size > 0 && directory[size - 1] != '/';
  char *text;
  TSR_TRY(TSR_ARENA_RAW(&w->made->arena, size + more + 2, &text, w->error));
  memcpy(text, directory, size);
  if (slash) text[size++] = '/';
  memcpy(text + size, name, more + 1);
  *path = text;
  return TSR_OK;
}

static int objects_push(objects_walk *w, const char *path) {
  return tsr__buffer_append(&w->pending, &path, sizeof path, w->error);
}

/* Returns true for directories below the first one that may not be read, or are gone by now: they are skipped. */
static bool objects_is_passed_over(int rc, const char *path) {
  return *path && (rc == TSR_NOT_FOUND || rc == TSR_PERM);
}

/* Returns 1 the first time that a directory is visited, 0 later, under whatever path: symbolic links may lead to it
 * again, or in circles. */
static int visit(objects_walk *w, const char *path) {
  tsr_stamp stamp;
  char text[80];
  char *key;
  const int rc = tsr__store_stamp(w->store, path, &stamp, w->error);
  if (rc < 0) return objects_is_passed_over(rc, path) ? 0 : rc;
  if (stamp.c == 0) return stamp.a != 0; /* a store without links */
  int size = snprintf(text, sizeof text, "%llx %llx %llx", (unsigned long long)stamp.a, (unsigned long long)stamp.b,
                      (unsigned long long)stamp.c);
  if (tsr__map_get(&w->visited, text)) return 0;
  TSR_TRY(TSR_ARENA_COPY(&w->made->arena, text, (uint64_t)size, &key, w->error));
  TSR_TRY(tsr__map_put(&w->visited, key, key, w->error));
  return 1;
}

/* Asks the host whether a directory may be read: a symbolic link may lead out of the permitted ones. */
static int check_permitted(objects_walk *w, const char *path) {
  const char *whole;
  if (!w->environment->permits || !*path) return TSR_OK;
  TSR_TRY(objects_join(w, w->store->name, path, &whole));
  return tsr_path_permitted(w->environment, whole, w->error);
}

static int visit_directory(objects_walk *w, const char *path) {
  int rc = check_permitted(w, path);
  if (rc < 0) return objects_is_passed_over(rc, path) ? TSR_OK : rc;
  rc = visit(w, path);
  if (rc <= 0) return rc;
  tsr_object_kind kind;
  rc = tsr__object_kind(w->store, path, &kind, w->error);
  if (rc < 0) return objects_is_passed_over(rc, path) ? TSR_OK : rc;
  if (kind != TSR_OBJECT_NONE && *path) {
    tsr_object object = {.kind = kind};
    TSR_TRY(objects_join(w, w->store->name, path, &object.path));
    TSR_TRY(tsr__buffer_append(&w->found, &object, sizeof object, w->error));
  }
  if (kind == TSR_OBJECT_ARRAY && *path) return TSR_OK;
  tsr_listing entries = {.memory = w->store->memory};
  rc = tsr__store_list_any(w->store, path, &entries, w->error);
  if (objects_is_passed_over(rc, path)) rc = TSR_OK;
  for (uint64_t i = 0; rc >= 0 && i < entries.count; i++) {
    const char *child;
    if (entries.entries[i].kind != TSR_ENTRY_DIRECTORY) continue;
    rc = objects_join(w, path, entries.entries[i].name, &child);
    if (rc >= 0) rc = objects_push(w, child);
  }
  tsr__listing_release(&entries);
  return rc;
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const tsr_object *)a)->path, ((const tsr_object *)b)->path);
}

static int walk_all(objects_walk *w) {
  TSR_TRY(objects_push(w, ""));
  for (uint64_t i = 0; i < w->pending.size / sizeof(char *); i++) {
    const char *path;
    memcpy(&path, w->pending.data + i * sizeof path, sizeof path);
    if (i % 64 == 63) TSR_TRY(tsr__cancelled(&w->environment->memory, w->error));
    TSR_TRY(visit_directory(w, path));
  }
  tsr_object *objects;
  uint64_t count = w->found.size / sizeof(tsr_object);
  TSR_TRY(TSR_ARENA_ARRAY(&w->made->arena, count, &objects, w->error));
  if (count > 0) memcpy(objects, w->found.data, w->found.size);
  if (count > 1) qsort(objects, count, sizeof(tsr_object), by_path);
  w->made->shown = (tsr_objects){count, objects};
  return TSR_OK;
}

static int open_in(tsr_environment *environment, tsr_store *store, tsr_objects **objects, tsr_error *error) {
  objects_made *block;
  bool exists;
  TSR_TRY(tsr__directory_find(store, "", &exists, error));
  if (!exists) return tsr__fail(error, TSR_NOT_FOUND, "directory not found: %s", store->name);
  TSR_TRY(TSR_ALLOC(&environment->memory, &block, error));
  objects_walk w = {.environment = environment, .store = store, .made = block, .error = error};
  tsr__arena_init(&w.made->arena, &environment->memory);
  w.pending.memory = w.found.memory = w.visited.memory = &environment->memory;
  int rc = walk_all(&w);
  tsr__buffer_release(&w.pending);
  tsr__buffer_release(&w.found);
  tsr__map_release(&w.visited);
  if (rc < 0) tsr_objects_close(&w.made->shown);
  else *objects = &w.made->shown;
  return rc;
}

int tsr_objects_open(tsr_environment *environment, const char *path, tsr_objects **objects, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_store *store;
  char *directory;
  TSR_TRY(tsr__path_open(environment, "directory", path, &directory, &store, error));
  tsr__free(directory);
  int rc = open_in(environment, store, objects, error);
  tsr__store_close(store);
  return rc;
}

void tsr_objects_close(tsr_objects *objects) {
  if (!objects) return;
  objects_made *made = (objects_made *)objects;
  tsr__arena_release(&made->arena);
  tsr__free(made);
}
