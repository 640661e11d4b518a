/* vacuum_files.c: reads .vac files, which name the fragments or metadata files that a merged one replaces, and chooses
 * the order in which a vacuum goes through them. */
#include "maintain/vacuum_files.h"

#include <string.h>

#include "base/arithmetic.h"
#include "format/layout.h"
#include "array/environment.h"
#include "array/listing.h"
#include "array/progress.h"

int tsr__vacuum_remove(tsr_vacuum *v, const char *name, tsr_error *error) {
  tsr_error one;
  int rc = tsr__store_remove(v->store, name, &one);
  if (rc >= 0) return 1;
  if (rc == TSR_NOT_FOUND) return 0;
  *error = one;
  return rc;
}

int tsr__vacuum_is_recent(tsr_vacuum *v, const char *path, tsr_error *error) {
  uint64_t modified;
  tsr_error one;
  if (v->grace == 0) return 0;
  const int rc = tsr__store_modified(v->store, path, &modified, &one);
  if (rc == TSR_NOT_FOUND) return 1;
  if (rc < 0) return *error = one, rc;
  return tsr__add_sat(modified, v->grace) > tsr__store_now(v->store);
}

int tsr__vacuum_sync(tsr_vacuum *v, const char *directory, tsr_error *error) {
  bool exists = v->store->stamps_are_listings; /* there no directory is missing */
  if (!exists) TSR_TRY(tsr__directory_find(v->store, directory, &exists, error));
  return exists ? tsr__store_sync_directory(v->store, directory, error) : TSR_OK;
}

int tsr__vacuum_list_array(tsr_vacuum *v, tsr_error *error) {
  if (v->listed) return TSR_OK;
  TSR_TRY(tsr__array_list(v->array, true, true, error));
  v->listed = true;
  return TSR_OK;
}

int tsr__vacuum_list(tsr_vacuum *v, const char *directory, tsr_listing *entries, tsr_error *error) {
  *entries = (tsr_listing){.memory = v->store->memory};
  int rc = tsr__store_list(v->store, directory, entries, error);
  return rc == TSR_NOT_FOUND ? TSR_OK : rc;
}

static int read_vacuum(tsr_vacuum *v, const char *file, tsr_vacuum_file *out, tsr_error *error) {
  tsr_buffer bytes = {.memory = v->store->memory};
  int rc = tsr__store_read_all(v->store, file, UINT64_C(1) << 30, &bytes, error);
  if (rc >= 0) {
    tsr_input in = tsr__input(bytes.data, bytes.size);
    rc = tsr__names_decode(&in, &v->arena, &out->names, error);
    if (rc < 0) tsr__wrap(error, "%s", file);
  }
  tsr__buffer_release(&bytes);
  return rc;
}

int tsr__vacuum_files_read(tsr_vacuum *v, const char *directory, const tsr_listing *entries, tsr_buffer *files,
                           tsr_error *error) {
  for (uint64_t i = 0; i < entries->count; i++) {
    tsr_vacuum_file one = {0};
    uint64_t stem;
    const char *text = entries->entries[i].name;
    if (!tsr__name_suffix(text, TSR_SUFFIX_VACUUM, &stem) || !tsr__name_parse(text, stem, &one.parsed)) continue;
    TSR_TRY(TSR_ARENA_COPY(&v->arena, text, stem, &one.name, error));
    tsr_path p = tsr__path_of(directory, text, "");
    TSR_TRY(TSR_ARENA_COPY(&v->arena, p.text, strlen(p.text), &one.path, error));
    tsr_error unread;
    int rc = read_vacuum(v, one.path, &one, &unread);
    if (rc == TSR_NOT_FOUND) continue; /* another vacuum has removed it */
    if (rc < 0) return *error = unread, rc;
    tsr__work_more(v->environment, one.names.count);
    TSR_TRY(tsr__buffer_append(files, &one, sizeof one, error));
  }
  return TSR_OK;
}

tsr_vacuum_file *tsr__vacuum_files_of(const tsr_buffer *files, uint64_t *count) {
  *count = files->size / sizeof(tsr_vacuum_file);
  return (tsr_vacuum_file *)(void *)files->data;
}

int tsr__vacuum_files_map(const tsr_buffer *files, tsr_map *waiting, tsr_error *error) {
  uint64_t count;
  tsr_vacuum_file *all = tsr__vacuum_files_of(files, &count);
  for (uint64_t i = 0; i < count; i++) TSR_TRY(tsr__map_put(waiting, all[i].name, &all[i], error));
  return TSR_OK;
}

tsr_vacuum_file *tsr__vacuum_files_next(const tsr_buffer *files, tsr_map *waiting) {
  uint64_t count;
  tsr_vacuum_file *all = tsr__vacuum_files_of(files, &count);
  for (uint64_t i = 0; i < count; i++) {
    bool waits = all[i].done;
    for (uint64_t n = 0; n < all[i].names.count && !waits; n++)
      waits = tsr__map_get(waiting, all[i].names.names[n]) != NULL;
    if (waits) continue;
    all[i].done = true;
    tsr__map_remove(waiting, all[i].name);
    return &all[i];
  }
  return NULL;
}

bool tsr__vacuum_is_source(const tsr_vacuum_file *file, const char *name) {
  tsr_name parsed;
  return tsr__name_parse(name, strlen(name), &parsed) && parsed.start >= file->parsed.start &&
         parsed.end <= file->parsed.end && strcmp(name, file->name) != 0;
}

int tsr__vacuum_file_remove(tsr_vacuum *v, const tsr_vacuum_file *file, tsr_error *error) {
  const int found = tsr__vacuum_remove(v, file->path, error);
  if (found < 0) return found;
  v->removed += (uint64_t)found;
  return TSR_OK;
}
