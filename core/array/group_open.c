/* group_open.c: opens groups; finds their members and metadata between two times.
 *
 * The files of __group hold changes. If the newest file in view is of version 1, it lists all members and older files
 * do not count; otherwise all files take effect in the order of their times. A member is identified by its name, or by
 * its URI if it has no name; a later entry with the same key replaces or removes it. No member is opened here. A member
 * outside of the group's directory is not looked at at all: its kind is the one that the group states.
 */
#include "array/group_open.h"

#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "store/store.h"
#include "format/layout.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/metadata_open.h"
#include "array/objects.h"
#include "array/timed_files.h"

#define GROUP_OPEN_ATTEMPTS 8 /* tries, since others may vacuum files that were just listed */

typedef struct members_made {
  tsr_group_members shown; /* first: the caller has a pointer to this member */
  tsr_arena arena;
} members_made;

/* ---- Open and close ---------------------------------------------------------------------------------------------- */

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
  int rc = tsr__metadata_open(group->environment, group->store, tsr__group_key(group), since, as_of, metadata, error);
  if (rc < 0) tsr__wrap(error, "metadata of group %s", group->store->name);
  return rc;
}

/* ---- Members ----------------------------------------------------------------------------------------------------- */

static int group_open_read_file(tsr_group *group, const char *path, tsr_arena *arena, tsr_members *members,
                                tsr_error *error) {
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
  TSR_TRY(group_open_read_file(group, path, arena, &members, error));
  for (uint64_t i = 0; i < members.count; i++) {
    tsr_member *member = &members.members[i];
    if (member->deleted) tsr__map_remove(map, tsr__member_key(member));
    else TSR_TRY(tsr__map_put(map, tsr__member_key(member), member, error));
  }
  return TSR_OK;
}

/* The newest file is read first, because it may be the only one that counts. */
int tsr__group_apply(tsr_group *group, const tsr_timed_files *files, bool all, tsr_arena *arena, tsr_map *map,
                     bool *alone, tsr_error *error) {
  tsr_members newest;
  *alone = false;
  if (files->count == 0) return TSR_OK;
  TSR_TRY(group_open_read_file(group, files->paths[files->count - 1], arena, &newest, error));
  *alone = newest.version == TSR_GROUP_LISTS_MEMBERS;
  for (uint64_t i = *alone && !all ? files->count - 1 : 0; i < files->count; i++) {
    TSR_TRY(tsr__cancelled(&group->environment->memory, error));
    TSR_TRY(apply_file(group, files->paths[i], arena, map, error));
  }
  return TSR_OK;
}

/* Makes the path of a member. URIs are used as stored: no escapes are decoded. */
static int group_open_locate(const tsr_group *group, const tsr_member *member, tsr_arena *arena, const char **path,
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

static int group_open_find_kind(tsr_group *group, const tsr_member *member, tsr_object_kind *kind, tsr_error *error) {
  tsr_stamp stamp;
  bool inside = member->relative && tsr__store_stamp(group->store, member->uri, &stamp, NULL) >= 0;
  int rc = inside ? tsr__object_kind(group->store, member->uri, kind, error) : TSR_IO;
  if (rc != TSR_IO && rc != TSR_UNREACHABLE) return rc;
  /* The member is outside, or not readable: its kind is the one that the group states. */
  *kind = member->is_array ? TSR_OBJECT_ARRAY : TSR_OBJECT_GROUP;
  return TSR_OK;
}

static int group_open_by_key(const void *a, const void *b) {
  return strcmp(tsr__member_key(*(const tsr_member *const *)a), tsr__member_key(*(const tsr_member *const *)b));
}

static int group_open_show(tsr_group *group, const tsr_map *map, members_made *made, tsr_error *error) {
  uint64_t count = 0;
  const tsr_member **members;
  TSR_TRY(TSR_ARENA_ARRAY(&made->arena, map->count, &members, error));
  for (uint64_t i = 0; i < map->capacity; i++)
    if (map->entries[i].key) members[count++] = map->entries[i].value;
  if (count > 1) qsort(members, count, sizeof *members, group_open_by_key);
  tsr_group_member *shown;
  TSR_TRY(TSR_ARENA_ARRAY(&made->arena, count, &shown, error));
  for (uint64_t i = 0; i < count; i++) {
    shown[i].name = members[i]->named ? members[i]->name : NULL;
    TSR_TRY(group_open_find_kind(group, members[i], &shown[i].kind, error));
    TSR_TRY(group_open_locate(group, members[i], &made->arena, &shown[i].path, error));
  }
  made->shown = (tsr_group_members){count, shown};
  return TSR_OK;
}

static int group_open_fill(tsr_group *group, uint64_t since, uint64_t as_of, members_made *made, tsr_error *error) {
  tsr_timed_files files;
  tsr_map map = {.memory = &group->environment->memory};
  bool alone;
  int rc = tsr__timed_files(group->environment, group->store, TSR_DIR_GROUP, since, as_of, &made->arena, &files, error);
  if (rc >= 0) rc = tsr__group_apply(group, &files, false, &made->arena, &map, &alone, error);
  if (rc >= 0) rc = group_open_show(group, &map, made, error);
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
  for (int i = 0; i < GROUP_OPEN_ATTEMPTS; i++) { /* a listed file that is gone has been vacuumed: list again */
    tsr__arena_reset(&made->arena);
    rc = group_open_fill(group, since, as_of, made, error);
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
