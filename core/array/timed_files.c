/* timed_files.c: finds the files of __meta or __group that are in view between two times.
 *
 *   NAME        a file of changes, __t1_t2_uuid or __t1_t2_uuid_v
 *   NAME.vac    the files that NAME, a consolidated file, replaces: one path in each line, whose last component counts
 *
 * A file is in view only if its whole time range is. So the .vac of a consolidated file, which has the same range,
 * hides other files only if the consolidated file is in view. All other names are ignored.
 */
#include "array/timed_files.h"

#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "model/name.h"
#include "format/commits.h"
#include "format/layout.h"
#include "array/environment.h"

#define NAMES_MAX (256u << 20) /* bytes of a .vac */

typedef struct timed_file {
  const char *name;
  tsr_name parsed;
} timed_file;

static int timed_files_by_time(const void *a, const void *b) {
  const timed_file *x = a, *y = b;
  if (x->parsed.start != y->parsed.start) return x->parsed.start < y->parsed.start ? -1 : 1;
  return strcmp(x->name, y->name);
}

static int timed_files_join(tsr_arena *arena, const char *directory, const char *name, const char **path,
                            tsr_error *error) {
  uint64_t size = strlen(directory), more = strlen(name);
  char *text;
  TSR_TRY(TSR_ARENA_RAW(arena, size + more + 2, &text, error));
  memcpy(text, directory, size);
  text[size] = '/';
  memcpy(text + size + 1, name, more + 1);
  *path = text;
  return TSR_OK;
}

static bool timed_files_in_view(const char *text, uint64_t size, uint64_t since, uint64_t as_of, tsr_name *parsed) {
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

static int timed_files_choose(tsr_store *store, const char *directory, const tsr_listing *entries, uint64_t since,
                              uint64_t as_of, tsr_arena *arena, tsr_map *hidden, tsr_timed_files *files,
                              tsr_error *error) {
  char *block;
  tsr_name parsed;
  for (uint64_t i = 0; i < entries->count; i++) {
    const char *name = entries->entries[i].name, *path;
    uint64_t stem;
    if (!tsr__name_suffix(name, TSR_SUFFIX_VACUUM, &stem) || !timed_files_in_view(name, stem, since, as_of, &parsed))
      continue;
    TSR_TRY(timed_files_join(arena, directory, name, &path, error));
    TSR_TRY(hide(store, path, arena, hidden, error));
  }
  timed_file *chosen;
  TSR_TRY(TSR_ARENA_ARRAY(arena, entries->count, &chosen, error));
  uint64_t count = 0;
  for (uint64_t i = 0; i < entries->count; i++) {
    const tsr_entry *entry = &entries->entries[i];
    if (entry->kind == TSR_ENTRY_DIRECTORY || tsr__map_get(hidden, entry->name)) continue;
    if (!timed_files_in_view(entry->name, strlen(entry->name), since, as_of, &parsed)) continue;
    TSR_TRY(TSR_ARENA_COPY(arena, entry->name, strlen(entry->name), &block, error));
    chosen[count++] = (timed_file){block, parsed};
  }
  if (count > 1) qsort(chosen, count, sizeof *chosen, timed_files_by_time);
  TSR_TRY(TSR_ARENA_ARRAY(arena, count, &files->paths, error));
  for (files->count = 0; files->count < count; files->count++)
    TSR_TRY(timed_files_join(arena, directory, chosen[files->count].name, &files->paths[files->count], error));
  return TSR_OK;
}

int tsr__timed_files(const tsr_environment *environment, tsr_store *store, const char *directory, uint64_t since,
                     uint64_t as_of, tsr_arena *arena, tsr_timed_files *files, tsr_error *error) {
  tsr_listing entries = {.memory = store->memory};
  tsr_map hidden = {.memory = store->memory};
  *files = (tsr_timed_files){0};
  int rc = tsr__store_list(store, directory, &entries, error);
  if (rc == TSR_NOT_FOUND) return TSR_OK;
  if (rc >= 0)
    rc = timed_files_choose(store, directory, &entries, since,
                            as_of == TSR_TIME_NOW ? tsr__environment_present(environment) : as_of, arena, &hidden,
                            files, error);
  if (rc >= 0) tsr__store_expect_files(store, files->paths, files->count);
  tsr__listing_release(&entries);
  tsr__map_release(&hidden);
  return rc;
}
