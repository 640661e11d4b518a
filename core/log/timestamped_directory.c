/* timestamped_directory.c: directories of small files with timestamped names: __meta, __group and __schema.
 *
 *   NAME        a file of changes, __t1_t2_uuid or __t1_t2_uuid_v
 *   NAME.vac    the files that NAME, a consolidated file, replaces: one path a line, whose last component counts
 *
 * Reading (__meta, __group): a file is in view only if its whole time range is. So the .vac of a consolidated file,
 * which has the same range, hides other files only if the consolidated file is in view. All other names are ignored.
 *
 * Writing: files appear atomically. The store's put writes a file and makes it durable before it gets its name, and
 * never replaces an existing one. tsr__write_staged leaves the name to the caller: it writes ".UUID" in the store's
 * root, where readers ignore it. A new timestamped name is __T_T_UUID[_V], where T is the present, later than `after`
 * and than any commit of this environment.
 *
 * Sections: reading, writing.
 */
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

#include "log/log.h"
#include "store/store.h"
#include "model/name.h"
#include "format/commits.h"
#include "format/layout.h"
#include "environment/environment.h"
#include "base/arithmetic.h"
#include "crypto/crypto.h"
#include "format/generic_tile.h"

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

#define NAMES_MAX (256u << 20) /* bytes of a .vac */

typedef struct timed_file {
  const char *name;
  tsr_name parsed;
} timed_file;

static int by_time(const void *a, const void *b) {
  const timed_file *x = a, *y = b;
  if (x->parsed.start != y->parsed.start) return x->parsed.start < y->parsed.start ? -1 : 1;
  return strcmp(x->name, y->name);
}

static int join_path(tsr_arena *arena, const char *directory, const char *name, const char **path, tsr_error *error) {
  uint64_t size = strlen(directory), more = strlen(name);
  char *text;
  TSR_TRY(TSR_ARENA_RAW(arena, size + more + 2, &text, error));
  memcpy(text, directory, size);
  text[size] = '/';
  memcpy(text + size + 1, name, more + 1);
  *path = text;
  return TSR_OK;
}

static bool in_view(const char *text, uint64_t size, uint64_t since, uint64_t as_of, tsr_name *parsed) {
  return tsr__name_parse(text, size, parsed) && parsed->start >= since && parsed->end <= as_of;
}

/* Adds the names in a .vac file to `hidden`. */
static int hide(tsr_store *store, const char *path, tsr_arena *arena, tsr_map *hidden, tsr_error *error) {
  tsr_buffer content = {.memory = store->memory};
  tsr_names names;
  int rc = tsr__store_read_all(store, path, NAMES_MAX, &content, error);
  if (rc >= 0) {
    tsr_input in = tsr__input(content.data, content.size);
    rc = tsr__names_decode(&in, arena, &names, error);
    if (rc < 0) tsr__wrap(error, "%s/%s", store->name, path);
  }
  for (uint64_t i = 0; rc >= 0 && i < names.count; i++)
    rc = tsr__map_put(hidden, names.names[i], names.names[i], error);
  tsr__buffer_release(&content);
  return rc;
}

static int choose_files(tsr_store *store, const char *directory, const tsr_listing *entries, uint64_t since,
                        uint64_t as_of, tsr_arena *arena, tsr_map *hidden, tsr_timestamped_files *files,
                        tsr_error *error) {
  char *block;
  tsr_name parsed;
  for (uint64_t i = 0; i < entries->count; i++) {
    const char *name = entries->entries[i].name, *path;
    uint64_t stem;
    if (!tsr__name_suffix(name, TSR_SUFFIX_VACUUM, &stem) || !in_view(name, stem, since, as_of, &parsed)) continue;
    TSR_TRY(join_path(arena, directory, name, &path, error));
    TSR_TRY(hide(store, path, arena, hidden, error));
  }
  timed_file *chosen;
  TSR_TRY(TSR_ARENA_ARRAY(arena, entries->count, &chosen, error));
  uint64_t count = 0;
  for (uint64_t i = 0; i < entries->count; i++) {
    const tsr_entry *entry = &entries->entries[i];
    if (entry->kind == TSR_ENTRY_DIRECTORY || tsr__map_get(hidden, entry->name)) continue;
    if (!in_view(entry->name, strlen(entry->name), since, as_of, &parsed)) continue;
    TSR_TRY(TSR_ARENA_COPY(arena, entry->name, strlen(entry->name), &block, error));
    chosen[count++] = (timed_file){block, parsed};
  }
  if (count > 1) qsort(chosen, count, sizeof *chosen, by_time);
  TSR_TRY(TSR_ARENA_ARRAY(arena, count, &files->paths, error));
  for (files->count = 0; files->count < count; files->count++)
    TSR_TRY(join_path(arena, directory, chosen[files->count].name, &files->paths[files->count], error));
  return TSR_OK;
}

int tsr__timestamped_files(const tsr_environment *environment, tsr_store *store, const char *directory,
                           const tsr_listing *entries, uint64_t since, uint64_t as_of, tsr_arena *arena,
                           tsr_timestamped_files *files, tsr_error *error) {
  tsr_listing own = {.memory = store->memory};
  tsr_map hidden = {.memory = store->memory};
  *files = (tsr_timestamped_files){0};
  int rc = entries ? TSR_OK : tsr__store_list(store, directory, &own, error);
  if (rc == TSR_NOT_FOUND) return TSR_OK;
  if (rc >= 0)
    rc = choose_files(store, directory, entries ? entries : &own, since,
                      as_of == TSR_TIME_NOW ? tsr__environment_present(environment) : as_of, arena, &hidden, files,
                      error);
  if (rc >= 0) tsr__store_prefetch_files(store, files->paths, files->count);
  tsr__listing_release(&own);
  tsr__map_release(&hidden);
  return rc;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static int write_durably(tsr_store *store, const char *path, const tsr_buffer *bytes, tsr_error *error) {
  tsr_file *file = NULL;
  TSR_TRY(tsr__store_create_exclusive(store, path, &file, error));
  int rc = bytes->size ? tsr__store_append(file, bytes->data, bytes->size, error) : TSR_OK;
  if (rc >= 0) rc = tsr__store_sync(file, error);
  tsr__store_close_file(file);
  return rc;
}

/* Writes a durable file under a new name, ".UUID", in the root. */
static int stage_file(tsr_store *store, const tsr_buffer *bytes, char staged[TSR_STAGED_SIZE], tsr_error *error) {
  uint8_t random[16];
  tsr_name name;
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(0, 0, 0, &name, random));
  snprintf(staged, TSR_STAGED_SIZE, ".%s", name.uuid);
  int rc = write_durably(store, staged, bytes, error);
  if (rc < 0) (void)tsr__store_remove(store, staged, NULL);
  return rc;
}

int tsr__write_staged(tsr_store *store, const uint8_t *key, uint32_t version, const tsr_buffer *content,
                      char staged[TSR_STAGED_SIZE], tsr_error *error) {
  tsr_buffer tile = {.memory = store->memory};
  int rc = tsr__generic_tile_encode(content->data, content->size, version, key, &tile, error);
  if (rc >= 0) rc = stage_file(store, &tile, staged, error);
  tsr__buffer_release(&tile);
  return rc;
}

int tsr__write_claim(tsr_store *store, const char *path, const tsr_buffer *content, tsr_error *error) {
  return tsr__store_put_new(store, path, content->data, content->size, true, error);
}

/* Writes a file into a directory. Creates the directory if it is missing, as in arrays of old versions. */
static int put_into(tsr_store *store, const char *directory, const char *path, const tsr_buffer *tile,
                    tsr_error *error) {
  tsr_error one;
  int rc = tsr__store_put_new(store, path, tile->data, tile->size, true, &one);
  if (rc == TSR_NOT_FOUND) {
    rc = tsr__store_make_directory(store, directory, error);
    if (rc >= 0) TSR_TRY(tsr__store_sync_directory(store, "", error));
    if (rc < 0 && rc != TSR_EXISTS) return rc;
    rc = tsr__store_put_new(store, path, tile->data, tile->size, true, &one);
  }
  if (rc < 0) return *error = one, rc;
  return tsr__store_sync_directory(store, directory, error);
}

int tsr__write_named(tsr_store *store, const char *directory, const char *name, const uint8_t *key, uint32_t version,
                     const tsr_buffer *content, tsr_error *error) {
  tsr_buffer tile = {.memory = store->memory};
  tsr_error unseen;
  char path[320];
  if (!error) error = &unseen;
  if ((uint64_t)snprintf(path, sizeof path, "%s/%s", directory, name) >= sizeof path)
    return tsr__fail(error, TSR_RANGE, "the name %s is too long", name);
  int rc = tsr__generic_tile_encode(content->data, content->size, version, key, &tile, error);
  if (rc >= 0) rc = put_into(store, directory, path, &tile, error);
  tsr__buffer_release(&tile);
  return rc;
}

int tsr__write_timestamped(tsr_environment *environment, tsr_store *store, const char *directory, uint64_t after,
                           uint32_t name_version, const uint8_t *key, uint32_t version, const tsr_buffer *content,
                           char written[128], tsr_error *error) {
  uint8_t random[16];
  uint64_t time;
  tsr_name parts;
  char name[128];
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__environment_time(environment, after, 0, &time, error));
  TSR_TRY(tsr__name_new(time, time, name_version, &parts, random));
  tsr__name_print(&parts, name);
  if (written) memcpy(written, name, sizeof name);
  return tsr__write_named(store, directory, name, key, version, content, error);
}

int tsr__timestamped_last(tsr_store *store, const char *directory, uint64_t *last, tsr_error *error) {
  tsr_listing entries = {.memory = store->memory};
  uint64_t now = tsr__environment_now(), found = 0;
  tsr_name name;
  int rc = tsr__store_list(store, directory, &entries, error);
  if (rc < 0 && rc != TSR_NOT_FOUND) return rc;
  for (uint64_t i = 0; i < entries.count; i++) {
    const char *text = entries.entries[i].name;
    if (tsr__name_parse(text, strlen(text), &name) && name.end <= now) found = TSR_MAX(found, name.end);
  }
  tsr__listing_release(&entries);
  *last = found;
  return TSR_OK;
}
