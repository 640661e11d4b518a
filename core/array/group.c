/* group.c: groups: tells arrays and groups apart, lists both below a directory, and opens a group and its members.
 *
 * An array has the directory __schema (version 10 and later) or the file __array_schema.tdb (before; a key-value store
 * has __kv_schema.tdb). A group has the directory __group or the file __tiledb_group.tdb. A directory with marks of
 * both kinds is an array.
 *
 * The files of __group hold changes. If the newest file in view is of version 1, it lists all members and older files
 * do not count; otherwise all files are applied in the order of their times. A member is identified by its name, or by
 * its URI if it has no name; a later entry with the same key replaces or removes it. No member is opened here. If a
 * member is outside the group's directory, the kind that the group states is taken on trust.
 *
 * Sections: kinds of directories; the walk (arrays and groups below a directory); groups: open and close; members.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/array.h"
#include "store/store.h"
#include "format/layout.h"
#include "environment/environment.h"
#include "base/system.h"
#include "log/log.h"

typedef struct objects_made {
  tsr_objects shown; /* must be the first member: the caller's pointer points to it */
  tsr_arena arena;
} objects_made;

typedef struct objects_walk {
  tsr_environment *environment;
  tsr_store *store;
  objects_made *made;
  tsr_buffer pending; /* const char *: queue of directories to visit, as paths in the store; breadth first */
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

/* Returns true for directories to skip: those below the first one that may not be read, or are gone by now. */
static bool objects_is_passed_over(int rc, const char *path) {
  return *path && (rc == TSR_NOT_FOUND || rc == TSR_PERM);
}

/* Returns 1 on the first visit to a directory, else 0, whatever its path: symbolic links may lead to it again, or form
 * cycles. */
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

/* Asks the host whether a directory may be read, since a symbolic link may lead out of the permitted ones. */
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

/* ---- Groups: open and close -------------------------------------------------------------------------------------- */

#define GROUP_OPEN_ATTEMPTS 8 /* since others may vacuum files that were just listed */

typedef struct members_made {
  tsr_group_members shown; /* must be the first member: the caller's pointer points to it */
  tsr_arena arena;
} members_made;

int tsr__group_open_store(tsr_environment *environment, tsr_store *store, const char *path, const uint8_t *key,
                          tsr_group **group, tsr_error *error) {
  tsr_group *block;
  tsr_object_kind kind = TSR_OBJECT_NONE;
  bool exists = false;
  int rc = tsr__object_kind(store, "", &kind, error);
  if (rc >= 0) rc = tsr__directory_find(store, "", &exists, error);
  if (rc >= 0 && kind == TSR_OBJECT_ARRAY)
    rc = tsr__fail(error, TSR_NOT_FOUND, "group not found: %s: it is an array", path);
  else if (rc >= 0 && kind == TSR_OBJECT_NONE)
    rc = tsr__fail(error, TSR_NOT_FOUND, "group not found: %s: %s", path,
                   exists ? "the directory is not a group" : "no such directory");
  if (rc >= 0) rc = TSR_ALLOC(&environment->memory, &block, error);
  if (rc < 0) {
    tsr__store_close(store);
    return rc;
  }
  tsr_group *g = block;
  g->environment = environment;
  g->store = store;
  g->has_key = key != NULL;
  if (key) memcpy(g->key, key, TSR_KEY_SIZE);
  *group = g;
  return TSR_OK;
}

int tsr_group_open(tsr_environment *environment, const char *path, const uint8_t *key, tsr_group **group,
                   tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_store *store;
  char *directory;
  TSR_TRY(tsr__path_open(environment, "group", path, &directory, &store, error));
  int rc = tsr__group_open_store(environment, store, directory, key, group, error);
  tsr__free(directory);
  return rc;
}

void tsr_group_close(tsr_group *group) {
  if (!group) return;
  tsr__count(group->environment, TSR_COUNT_files_opened, group->store->files_opened);
  tsr__count(group->environment, TSR_COUNT_bytes_read, group->store->bytes_read);
  tsr__count(group->environment, TSR_COUNT_directories_listed, group->store->directories_listed);
  tsr__store_close(group->store);
  tsr__wipe(group->key, sizeof group->key);
  tsr__free(group);
}

const uint8_t *tsr__group_key(const tsr_group *group) { return group->has_key ? group->key : NULL; }

int tsr_group_metadata(tsr_group *group, uint64_t since, uint64_t as_of, tsr_metadata **metadata, tsr_error *error) {
  TSR_OWN_ERROR(error);
  int rc =
      tsr__metadata_open(group->environment, group->store, tsr__group_key(group), NULL, since, as_of, metadata, error);
  if (rc < 0) tsr__wrap(error, "metadata of group %s", group->store->name);
  return rc;
}

/* ---- Members ----------------------------------------------------------------------------------------------------- */

static int read_file(tsr_group *group, const char *path, tsr_arena *arena, tsr_members *members, tsr_error *error) {
  tsr_buffer content = {.memory = &group->environment->memory};
  int rc = tsr__read_tile(group->store, tsr__group_key(group), path, TSR_METADATA_MAX, &content, NULL, error);
  if (rc >= 0) {
    tsr_input in = tsr__input(content.data, content.size);
    rc = tsr__group_decode(&in, arena, members, error);
    if (rc < 0) tsr__wrap(error, "%s", path);
  }
  tsr__buffer_release(&content);
  return rc;
}

const char *tsr__member_key(const tsr_member *member) { return member->named ? member->name : member->uri; }

static int apply_file(tsr_group *group, const char *path, tsr_arena *arena, tsr_map *map, tsr_error *error) {
  tsr_members members;
  TSR_TRY(read_file(group, path, arena, &members, error));
  for (uint64_t i = 0; i < members.count; i++) {
    tsr_member *member = &members.members[i];
    if (member->deleted) tsr__map_remove(map, tsr__member_key(member));
    else TSR_TRY(tsr__map_put(map, tsr__member_key(member), member, error));
  }
  return TSR_OK;
}

/* Reads the newest file first, because it may be the only one that counts. */
int tsr__group_apply(tsr_group *group, const tsr_timestamped_files *files, bool all, tsr_arena *arena, tsr_map *map,
                     bool *alone, tsr_error *error) {
  tsr_members newest;
  *alone = false;
  if (files->count == 0) return TSR_OK;
  TSR_TRY(read_file(group, files->paths[files->count - 1], arena, &newest, error));
  *alone = newest.version == TSR_GROUP_LISTS_MEMBERS;
  for (uint64_t i = *alone && !all ? files->count - 1 : 0; i < files->count; i++) {
    TSR_TRY(tsr__cancelled(&group->environment->memory, error));
    TSR_TRY(apply_file(group, files->paths[i], arena, map, error));
  }
  return TSR_OK;
}

/* Makes the path of a member. URIs are used as stored, without decoding escapes. */
static int locate_member(const tsr_group *group, const tsr_member *member, tsr_arena *arena, const char **path,
                         tsr_error *error) {
  const char *root = group->store->name, *uri = member->uri;
  if (!member->relative) {
    const bool is_file = strncmp(uri, "file:///", 8) == 0;
    uri += is_file ? 7 : 0;
    TSR_TRY(TSR_ARENA_COPY(arena, uri, strlen(uri), path, error));
    if (is_file) tsr_path_form((char *)(uintptr_t)*path);
    return TSR_OK;
  }
  uint64_t size = strlen(root), more = strlen(uri);
  char *text;
  TSR_TRY(TSR_ARENA_RAW(arena, size + more + 2, &text, error));
  memcpy(text, root, size);
  if (size > 0 && text[size - 1] != '/') text[size++] = '/';
  memcpy(text + size, uri, more + 1);
  *path = text;
  return TSR_OK;
}

static int find_kind(tsr_group *group, const tsr_member *member, tsr_object_kind *kind, tsr_error *error) {
  tsr_stamp stamp;
  bool inside = member->relative && tsr__store_stamp(group->store, member->uri, &stamp, NULL) >= 0;
  int rc = inside ? tsr__object_kind(group->store, member->uri, kind, error) : TSR_IO;
  if (rc != TSR_IO && rc != TSR_UNREACHABLE) return rc;
  /* the member is outside the group, or not readable: trust the group */
  *kind = member->is_array ? TSR_OBJECT_ARRAY : TSR_OBJECT_GROUP;
  return TSR_OK;
}

static int compare_keys(const void *a, const void *b) {
  return strcmp(tsr__member_key(*(const tsr_member *const *)a), tsr__member_key(*(const tsr_member *const *)b));
}

static int show_members(tsr_group *group, const tsr_map *map, members_made *made, tsr_error *error) {
  uint64_t count = 0;
  const tsr_member **members;
  TSR_TRY(TSR_ARENA_ARRAY(&made->arena, map->count, &members, error));
  for (uint64_t i = 0; i < map->count; i++) members[count++] = map->entries[i].value;
  if (count > 1) qsort(members, count, sizeof *members, compare_keys);
  tsr_group_member *shown;
  TSR_TRY(TSR_ARENA_ARRAY(&made->arena, count, &shown, error));
  for (uint64_t i = 0; i < count; i++) {
    shown[i].name = members[i]->named ? members[i]->name : NULL;
    TSR_TRY(find_kind(group, members[i], &shown[i].kind, error));
    TSR_TRY(locate_member(group, members[i], &made->arena, &shown[i].path, error));
  }
  made->shown = (tsr_group_members){count, shown};
  return TSR_OK;
}

static int fill_members(tsr_group *group, uint64_t since, uint64_t as_of, members_made *made, tsr_error *error) {
  tsr_timestamped_files files;
  tsr_map map = {.memory = &group->environment->memory};
  bool alone;
  int rc = tsr__timestamped_files(group->environment, group->store, TSR_DIR_GROUP, NULL, since, as_of, &made->arena,
                                  &files, error);
  if (rc >= 0) rc = tsr__group_apply(group, &files, false, &made->arena, &map, &alone, error);
  if (rc >= 0) rc = show_members(group, &map, made, error);
  tsr__map_release(&map);
  return rc;
}

int tsr_group_members_open(tsr_group *group, uint64_t since, uint64_t as_of, tsr_group_members **members,
                           tsr_error *error) {
  TSR_OWN_ERROR(error);
  members_made *made;
  TSR_TRY(TSR_ALLOC(&group->environment->memory, &made, error));
  tsr__arena_init(&made->arena, &group->environment->memory);
  int rc = TSR_OK;
  for (int i = 0; i < GROUP_OPEN_ATTEMPTS; i++) { /* a listed file that is missing was vacuumed: list again */
    tsr__arena_reset(&made->arena);
    rc = fill_members(group, since, as_of, made, error);
    if (rc != TSR_NOT_FOUND) break;
  }
  if (rc < 0) {
    tsr_group_members_close(&made->shown);
    return tsr__wrap(error, "group %s", group->store->name);
  }
  *members = &made->shown;
  return TSR_OK;
}

void tsr_group_members_close(tsr_group_members *members) {
  if (!members) return;
  members_made *made = (members_made *)members;
  tsr__arena_release(&made->arena);
  tsr__free(made);
}
