/* metadata.c: changes the metadata of arrays and groups, and the members of groups. Each change is one new file, never
 * a change to an existing one.
 *
 * Metadata: a file in __meta with one key; of several files with the same key the newest counts. Arrays have metadata
 * since format version 4.
 *
 * Members: a file in __group, of version 2, with changes to the files before it. A file of version 1 is different: it
 * lists all members, and readers ignore all files before it. So the first change after such a file lists all current
 * members again, and lists as deleted all members that older files name and that are gone by now.
 *
 * Sections: metadata; creating groups; changing groups.
 */
#include "define/define.h"

#include <string.h>

#include "model/datatype.h"
#include "format/schema.h"
#include "format/layout.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"
#include "store/store.h"

/* ---- Metadata ---------------------------------------------------------------------------------------------------- */

static int metadata_write_check(const tsr_metadata_entry *entry, tsr_error *error) {
  if (entry->key_size > UINT32_MAX)
    return tsr__fail(error, TSR_RANGE, "the key has %llu bytes", (unsigned long long)entry->key_size);
  if (entry->deleted) return TSR_OK;
  if (!tsr__datatype_valid((uint8_t)entry->datatype))
    return tsr__fail(error, TSR_RANGE, "datatype %u is unknown", (unsigned)entry->datatype);
  if (entry->count * tsr_datatype_size(entry->datatype) != entry->value_size)
    return tsr__fail(error, TSR_RANGE, "%u values of %s are not %llu bytes", entry->count,
                     tsr_datatype_name(entry->datatype), (unsigned long long)entry->value_size);
  return TSR_OK;
}

/* Writes one entry, a value or the deletion of a key, to a new file in __meta of an array's or a group's `store`. The
 * file's time is the present, and later than all times there that are not in the future. `key`: NULL if not encrypted;
 * `version`: the format version of the file. TSR_RANGE if count, datatype and size of the value do not match. */
static int metadata_write(tsr_environment *environment, tsr_store *store, const uint8_t *key, uint32_t version,
                          const tsr_metadata_entry *entry, tsr_error *error) {
  tsr_buffer content = {.memory = store->memory};
  uint64_t last = 0;
  TSR_TRY(metadata_write_check(entry, error));
  int rc = tsr__timestamped_last(store, TSR_DIR_META, &last, error);
  if (rc >= 0) rc = tsr__metadata_encode(entry, &content, error);
  if (rc >= 0)
    rc = tsr__write_timestamped(environment, store, TSR_DIR_META, last, 0, key, version, &content, NULL, error);
  tsr__buffer_release(&content);
  return rc;
}

/* Fills *entry from the caller's value; its pointers are borrowed. */
static int entry_of(const tsr_metadatum *given, tsr_metadata_entry *entry, tsr_error *error) {
  if (given->count > UINT32_MAX) return tsr__fail(error, TSR_RANGE, "%llu values", (unsigned long long)given->count);
  *entry = (tsr_metadata_entry){.key = (char *)(uintptr_t)given->key,
                                .key_size = given->key_size,
                                .datatype = given->datatype,
                                .count = (uint32_t)given->count,
                                .value = given->value,
                                .value_size = given->value_size};
  return TSR_OK;
}

/* Sets *version to the format version in which the array's newest schema is written. Fails below version 4. */
static int metadata_version(tsr_array *array, uint32_t *version, tsr_error *error) {
  const tsr_schema *schema;
  TSR_TRY(tsr__log_list(&array->log, false, true, error));
  TSR_TRY(tsr__array_schema_at(array, UINT64_MAX, &schema, error));
  TSR_TRY(tsr__schema_write_version(schema, version, error));
  if (!layout_has_metadata(*version))
    return tsr__fail(error, TSR_UNSUPPORTED, "format version %u has no metadata: it needs 4", *version);
  return TSR_OK;
}

static int metadata_write_change(tsr_array *array, const tsr_metadata_entry *entry, tsr_error *error) {
  uint32_t version;
  int rc = metadata_version(array, &version, error);
  if (rc >= 0) rc = metadata_write(array->environment, array->store, tsr__array_key(array), version, entry, error);
  array->environment->metadata_changes++;
  return rc < 0 ? tsr__wrap(error, "metadata of array %s", array->path) : rc;
}

int tsr_array_set_metadata(tsr_array *array, const tsr_metadatum *entry, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_metadata_entry e;
  TSR_TRY(entry_of(entry, &e, error));
  return metadata_write_change(array, &e, error);
}

int tsr_array_delete_metadata(tsr_array *array, const char *key, uint64_t key_size, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_metadata_entry e = {.key = (char *)(uintptr_t)key, .key_size = key_size, .deleted = true};
  return metadata_write_change(array, &e, error);
}

static int group_change_metadata(tsr_group *group, const tsr_metadata_entry *entry, tsr_error *error);

int tsr_group_set_metadata(tsr_group *group, const tsr_metadatum *entry, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_metadata_entry e;
  TSR_TRY(entry_of(entry, &e, error));
  return group_change_metadata(group, &e, error);
}

int tsr_group_delete_metadata(tsr_group *group, const char *key, uint64_t key_size, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_metadata_entry e = {.key = (char *)(uintptr_t)key, .key_size = key_size, .deleted = true};
  return group_change_metadata(group, &e, error);
}

/* ---- Creating groups --------------------------------------------------------------------------------------------- */

#define GROUP_VERSION 2

/* Makes the directories and the file of a group. made[i]: whether this call has made directory i: the group's own,
 * __meta, __group. */
static int group_write_make(tsr_store *store, bool made[3], tsr_error *error) {
  static const char *const directories[3] = {"", TSR_DIR_META, TSR_DIR_GROUP};
  tsr_object_kind kind;
  for (int i = 0; i < 3; i++) {
    int rc = tsr__store_make_directory(store, directories[i], error);
    made[i] = rc >= 0;
    if (rc != TSR_EXISTS) TSR_TRY(rc);
    if (i > 0 || made[0]) continue;
    /* as in TileDB, a directory that is neither an array nor a group becomes a group, whatever it contains */
    TSR_TRY(tsr__object_kind(store, "", &kind, error));
    if (kind != TSR_OBJECT_NONE)
      return tsr__fail(error, TSR_EXISTS, "%s is already there", kind == TSR_OBJECT_ARRAY ? "an array" : "a group");
  }
  tsr_file *file;
  int rc = tsr__store_create_exclusive(store, TSR_FILE_OLD_GROUP, &file, error);
  if (rc < 0) return rc == TSR_EXISTS ? TSR_OK : rc;
  rc = tsr__store_sync(file, error);
  tsr__store_close_file(file);
  if (rc < 0) (void)tsr__store_remove(store, TSR_FILE_OLD_GROUP, NULL);
  return rc < 0 ? rc : tsr__store_sync_directory(store, "", error);
}

int tsr_group_create(tsr_environment *environment, const char *path, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_store *store;
  char *directory;
  TSR_TRY(tsr__path_open(environment, "group", path, &directory, &store, error));
  bool made[3] = {false};
  int rc = group_write_make(store, made, error);
  if (rc < 0) { /* a directory that is not empty stays */
    if (made[2]) (void)tsr__store_remove(store, TSR_DIR_GROUP, NULL);
    if (made[1]) (void)tsr__store_remove(store, TSR_DIR_META, NULL);
    if (made[0]) (void)tsr__store_remove(store, "", NULL);
    tsr__wrap(error, "group %s", directory);
  }
  tsr__store_close(store);
  tsr__free(directory);
  return rc;
}

/* ---- Changing groups --------------------------------------------------------------------------------------------- */

typedef struct group_write_change {
  tsr_group *group;
  tsr_arena arena;
  tsr_map now; /* current members, by key */
  tsr_map ever; /* if `alone`: all members that any file names, even files that readers ignore */
  bool alone; /* the newest file is of version 1: it lists all members */
} group_write_change;

static int group_write_load(group_write_change *c, tsr_error *error) {
  tsr_timestamped_files files;
  TSR_TRY(tsr__timestamped_files(c->group->environment, c->group->store, TSR_DIR_GROUP, NULL, TSR_TIME_BEGIN,
                                 TSR_TIME_NOW, &c->arena, &files, error));
  TSR_TRY(tsr__group_apply(c->group, &files, false, &c->arena, &c->now, &c->alone, error));
  return c->alone ? tsr__group_apply(c->group, &files, true, &c->arena, &c->ever, &c->alone, error) : TSR_OK;
}

static int group_write_add(tsr_buffer *list, const tsr_member *member, bool deleted, tsr_error *error) {
  tsr_member one = *member;
  one.deleted = deleted;
  return tsr__buffer_append(list, &one, sizeof one, error);
}

static int write_change(group_write_change *c, const tsr_member *member, bool deleted, tsr_error *error) {
  tsr_memory *memory = &c->group->environment->memory;
  tsr_buffer list = {.memory = memory}, content = {.memory = memory};
  uint64_t last = 0;
  int rc = TSR_OK;
  for (uint64_t i = 0; i < c->ever.count && rc >= 0; i++) {
    const tsr_map_entry *entry = &c->ever.entries[i];
    const tsr_member *now = tsr__map_get(&c->now, entry->key);
    if (strcmp(entry->key, tsr__member_key(member)) != 0)
      rc = group_write_add(&list, now ? now : entry->value, !now, error);
  }
  if (rc >= 0) rc = group_write_add(&list, member, deleted, error);
  const tsr_members members = {GROUP_VERSION, list.size / sizeof(tsr_member), (tsr_member *)(void *)list.data};
  if (rc >= 0) rc = tsr__group_encode(&members, &content, error);
  if (rc >= 0) rc = tsr__timestamped_last(c->group->store, TSR_DIR_GROUP, &last, error);
  if (rc >= 0)
    rc = tsr__write_timestamped(c->group->environment, c->group->store, TSR_DIR_GROUP, last, GROUP_VERSION,
                                tsr__group_key(c->group), TSR_FORMAT_WRITE_MAX, &content, NULL, error);
  tsr__buffer_release(&list);
  tsr__buffer_release(&content);
  return rc;
}

static void group_write_start(group_write_change *c, tsr_group *group) {
  *c = (group_write_change){.group = group};
  tsr__arena_init(&c->arena, &group->environment->memory);
  c->now.memory = c->ever.memory = &group->environment->memory;
}

static int group_write_end(group_write_change *c, int rc, tsr_error *error) {
  tsr__map_release(&c->now);
  tsr__map_release(&c->ever);
  tsr__arena_release(&c->arena);
  return rc < 0 ? tsr__wrap(error, "group %s", c->group->store->name) : TSR_OK;
}

int tsr_group_add(tsr_group *group, const char *name, const char *uri, bool relative, tsr_object_kind kind,
                  tsr_error *error) {
  TSR_OWN_ERROR(error);
  group_write_change c;
  const tsr_member member = {.uri = (char *)(uintptr_t)uri,
                             .name = (char *)(uintptr_t)name,
                             .named = name != NULL,
                             .relative = relative,
                             .is_array = kind == TSR_OBJECT_ARRAY};
  group_write_start(&c, group);
  int rc = group_write_load(&c, error);
  if (rc >= 0 && tsr__map_get(&c.now, tsr__member_key(&member)))
    rc = tsr__fail(error, TSR_EXISTS, "it has a member '%s' already", tsr__member_key(&member));
  if (rc >= 0) rc = write_change(&c, &member, false, error);
  return group_write_end(&c, rc, error);
}

int tsr_group_remove(tsr_group *group, const char *name, tsr_error *error) {
  TSR_OWN_ERROR(error);
  group_write_change c;
  group_write_start(&c, group);
  int rc = group_write_load(&c, error);
  const tsr_member *member = rc >= 0 ? tsr__map_get(&c.now, name) : NULL;
  if (rc >= 0 && !member) rc = tsr__fail(error, TSR_NOT_FOUND, "it has no member '%s'", name);
  if (rc >= 0) rc = write_change(&c, member, true, error);
  return group_write_end(&c, rc, error);
}

/* Writes one metadata entry of a group, a value or a deletion (metadata_write). */
static int group_change_metadata(tsr_group *group, const tsr_metadata_entry *entry, tsr_error *error) {
  int rc = metadata_write(group->environment, group->store, tsr__group_key(group), TSR_FORMAT_WRITE_MAX, entry, error);
  return rc < 0 ? tsr__wrap(error, "metadata of group %s", group->store->name) : TSR_OK;
}
