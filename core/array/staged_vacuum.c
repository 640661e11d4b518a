/* staged_vacuum.c: vacuum files that have not got their names yet. */
#include "array/staged_vacuum.h"

#include <string.h>

#include "format/layout.h"
#include "store/store.h"
#include "array/array.h"
#include "array/commit_file.h"
#include "array/listing.h"

static bool staged_name(const char *entry, const char *suffix, char name[TSR_STAGED_NAME]) {
  uint64_t size;
  tsr_name parsed;
  if (!tsr__name_suffix(entry, suffix, &size) || size >= TSR_STAGED_NAME || !tsr__name_parse(entry, size, &parsed))
    return false;
  memcpy(name, entry, size);
  name[size] = 0;
  return true;
}

bool tsr__staged_vacuum(const char *entry, char name[TSR_STAGED_NAME]) {
  return *entry == '.' && staged_name(entry + 1, TSR_SUFFIX_STAGED_VACUUM, name);
}

bool tsr__exchange(const char *entry, char name[TSR_STAGED_NAME]) {
  return staged_name(entry, TSR_SUFFIX_EXCHANGED, name);
}

/* Renames a staged vacuum file. If another process has done so already, the staged file goes. */
static int staged_rename(tsr_store *store, const tsr_path *from, const tsr_path *to, tsr_error *error) {
  tsr_error one;
  int rc = tsr__store_rename_exclusive(store, from->text, to->text, &one);
  if (rc == TSR_EXISTS) rc = tsr__store_remove(store, from->text, &one);
  if (rc < 0 && rc != TSR_NOT_FOUND) return *error = one, rc;
  return TSR_OK;
}

int tsr__exchange_finish(tsr_store *store, const char *name, tsr_error *error) {
  const tsr_path from = tsr__path_of(TSR_DIR_COMMITS, name, TSR_SUFFIX_EXCHANGED),
                 to = tsr__path_of(TSR_DIR_COMMITS, name, TSR_SUFFIX_VACUUM),
                 fragment = tsr__path_of(TSR_DIR_FRAGMENTS, name, ""),
                 commit = tsr__path_of(TSR_DIR_COMMITS, name, TSR_SUFFIX_WRITE);
  tsr_error one;
  bool exists;
  TSR_TRY(staged_rename(store, &from, &to, error));
  TSR_TRY(tsr__store_sync_directory(store, TSR_DIR_COMMITS, error)); /* NAME.wrt alone would show the sources, too */
  TSR_TRY(tsr__directory_find(store, fragment.text, &exists, error)); /* else it was merged and vacuumed since */
  const int rc = exists ? tsr__store_put_new(store, commit.text, "", 0, true, &one) : TSR_OK;
  if (rc < 0 && rc != TSR_EXISTS) return *error = one, rc;
  return tsr__store_sync_directory(store, TSR_DIR_COMMITS, error);
}

int tsr__staged_vacuum_finish(tsr_store *store, const char *directory, const char *name, tsr_error *error) {
  const tsr_path from = tsr__path_of(directory, tsr__path_of("", ".", name).text, TSR_SUFFIX_STAGED_VACUUM),
                 to = tsr__path_of(directory, name, TSR_SUFFIX_VACUUM);
  TSR_TRY(staged_rename(store, &from, &to, error));
  return tsr__store_sync_directory(store, directory, error);
}

/* ---- Merges that died -------------------------------------------------------------------------------------------- */

/* Sets *all if all sources of an exchange are committed and no vacuum file hides one. */
static int has_sources(tsr_array *array, const char *exchange, const tsr_map *hidden, bool *all, tsr_error *error) {
  const tsr_commit_file *file;
  tsr_name parsed;
  TSR_TRY(tsr__array_commit_file(array, exchange, &file, error));
  *all = true;
  for (uint64_t n = 0; n < file->names.count && *all; n++) {
    const char *name = file->names.names[n];
    if (tsr__name_parse(name, strlen(name), &parsed)) /* not the line that cancels the merged fragment */
      *all = tsr__map_get(&array->listing->names, name) && !tsr__map_get(hidden, name);
  }
  return TSR_OK;
}

static int find_hidden_sources(tsr_array *array, tsr_map *hidden, tsr_error *error) {
  const tsr_commit_list *vacuums = &array->listing->vacuums;
  for (uint64_t i = 0; i < vacuums->count; i++) {
    const tsr_commit_file *file;
    TSR_TRY(tsr__array_commit_file(array, vacuums->items[i].path, &file, error));
    for (uint64_t n = 0; n < file->names.count; n++)
      TSR_TRY(tsr__map_put(hidden, file->names.names[n], file->names.names[n], error));
  }
  return TSR_OK;
}

/* Takes a merge back that has committed and has no effect yet: first its commit goes, then all that would hide it. */
static int take_exchange_back(tsr_store *store, const char *name, tsr_error *error) {
  const tsr_path files[] = {tsr__path_of(TSR_DIR_COMMITS, name, TSR_SUFFIX_CONSOLIDATED),
                            tsr__path_of(TSR_DIR_COMMITS, name, TSR_SUFFIX_EXCHANGED),
                            tsr__path_of(TSR_DIR_COMMITS, tsr__path_of("", ".", name).text, TSR_SUFFIX_STAGED_VACUUM)};
  for (int i = 0; i < 3; i++) {
    tsr_error one;
    const int rc = tsr__store_remove(store, files[i].text, &one);
    if (rc < 0 && rc != TSR_NOT_FOUND) return *error = one, rc;
    if (i == 0) TSR_TRY(tsr__store_sync_directory(store, TSR_DIR_COMMITS, error));
    if (i == 0) TSR_TRY(tsr__store_remove_tree(store, tsr__path_of(TSR_DIR_FRAGMENTS, name, "").text, error));
  }
  return tsr__store_sync_directory(store, TSR_DIR_COMMITS, error);
}

/* Settles an exchange. Without NAME.con it is not decided: its merge lives, or a vacuum will remove the file. Returns 1
 * if it was decided, else 0. */
static int settle_exchange(tsr_array *array, const tsr_committed *item, const tsr_map *hidden, tsr_error *error) {
  const tsr_path con = tsr__path_of(TSR_DIR_COMMITS, item->name, TSR_SUFFIX_CONSOLIDATED);
  bool decided, all;
  TSR_TRY(tsr__store_find(array->store, con.text, &decided, error));
  if (!decided) return 0;
  TSR_TRY(has_sources(array, item->path, hidden, &all, error));
  if (!all) TSR_TRY(take_exchange_back(array->store, item->name, error));
  else TSR_TRY(tsr__exchange_finish(array->store, item->name, error));
  return 1;
}

/* Returns 1 if it has settled an exchange, else 0. */
static int settle_exchanges(tsr_array *array, tsr_error *error) {
  const tsr_commit_list *exchanges = &array->listing->exchanges;
  tsr_map hidden = {.memory = &array->memory};
  tsr_error one;
  if (exchanges->count == 0) return 0;
  int rc = find_hidden_sources(array, &hidden, &one), settled = 0;
  for (uint64_t i = 0; i < exchanges->count && rc >= 0 && !settled; i++)
    rc = settled = settle_exchange(array, &exchanges->items[i], &hidden, &one);
  tsr__map_release(&hidden);
  if (rc == TSR_NOT_FOUND) return 1; /* its process has finished it, or a vacuum is at work */
  if (rc < 0) *error = one;
  return rc;
}

int tsr__staged_vacuums_finish(tsr_array *array, tsr_error *error) {
  int rc = 1;
  for (int i = 0; i < 8 && rc > 0; i++) { /* one at a time: each may be the source of another */
    TSR_TRY(rc = settle_exchanges(array, error));
    if (rc > 0) TSR_TRY(tsr__array_list(array, true, true, error));
  }
  const tsr_commit_list *vacuums = &array->listing->vacuums;
  bool found = false;
  for (uint64_t i = 0; i < vacuums->count; i++) {
    const tsr_committed *item = &vacuums->items[i];
    if (!tsr__name_ends_in(item->path, TSR_SUFFIX_STAGED_VACUUM)) continue;
    found = true;
    TSR_TRY(tsr__staged_vacuum_finish(array->store, strchr(item->path, '/') ? TSR_DIR_COMMITS : "", item->name, error));
  }
  return found ? tsr__array_list(array, true, true, error) : TSR_OK;
}
