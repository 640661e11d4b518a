/* revert_merges.c: reverts merges that made cells appear twice.
 *
 * A merged fragment whose sources are all committed has no cell that its sources lack. So it can be uncommitted, and
 * its sources unhidden:
 *  1. Rename NAME.vac to ".NAME.vac.new". This library treats the two alike as long as NAME is committed, so its
 *     readers see no difference. Other libraries see the sources in addition to NAME until step 2.
 *  2. Remove the commit of NAME. In the same step the staged vacuum file loses its effect.
 * After a crash between the two, some process renames the vacuum file back (log.h), and the merge is reverted again
 * later. The fragment's directory stays, because readers may have it open; a vacuum removes it when it is a day old. */
#include "maintain/maintain.h"

#include <string.h>

#include "format/layout.h"
#include "store/store.h"
#include "array/array.h"
#include "log/log.h"

#define UNDOUBLE_MOST 100 /* most merges reverted in one call */

/* Returns the vacuum file of a merged fragment in the listing, or NULL. */
static const tsr_committed *vacuum_of(const tsr_array *array, const char *name) {
  const tsr_commit_list *vacuums = &array->log.listing->vacuums;
  for (uint64_t i = 0; i < vacuums->count; i++)
    if (strcmp(vacuums->items[i].name, name) == 0) return &vacuums->items[i];
  return NULL;
}

/* Sets *all if all sources of a merged fragment are committed. Entries that are not fragments are ignored. */
static int has_all_sources(tsr_array *array, const tsr_committed *vacuum, bool *all, tsr_error *error) {
  const tsr_commit_file *file;
  tsr_name parsed;
  TSR_TRY(tsr__log_file(&array->log, vacuum->path, &file, error));
  *all = file->names.count > 0;
  for (uint64_t n = 0; n < file->names.count && *all; n++) {
    const char *name = file->names.names[n];
    if (tsr__name_parse(name, strlen(name), &parsed)) *all = tsr__map_get(&array->log.listing->names, name) != NULL;
  }
  return TSR_OK;
}

/* Step 1. */
static int unname_vacuum(tsr_store *store, const tsr_committed *vacuum, tsr_error *error) {
  const char *directory = strchr(vacuum->path, '/') ? TSR_DIR_COMMITS : "";
  const tsr_path staged = tsr__path_of(directory, tsr__path_of("", ".", vacuum->name).text, TSR_SUFFIX_STAGED_VACUUM);
  tsr_error one;
  if (!tsr__name_ends_in(vacuum->path, TSR_SUFFIX_VACUUM)) return TSR_OK;
  int rc = tsr__store_rename_exclusive(store, vacuum->path, staged.text, &one);
  if (rc == TSR_EXISTS) rc = tsr__store_remove(store, vacuum->path, &one);
  if (rc < 0 && rc != TSR_NOT_FOUND) return *error = one, rc;
  return tsr__store_sync_directory(store, directory, error);
}

/* Reverts a merged fragment. `name` lives as long as the listing. */
static int take_back(tsr_array *array, const tsr_committed *vacuum, tsr_error *error) {
  tsr_vacuum v = {.environment = array->environment, .store = array->store, .array = array};
  tsr_buffer sources = {.memory = &array->memory};
  char copy[TSR_STAGED_NAME];
  const char *name = copy;
  if (strlen(vacuum->name) >= sizeof copy) return TSR_OK;
  strcpy(copy, vacuum->name);
  TSR_TRY(unname_vacuum(array->store, vacuum, error));
  tsr__arena_init(&v.arena, &array->memory);
  int rc = tsr__buffer_append(&sources, &name, sizeof name, error);
  if (rc >= 0) rc = tsr__vacuum_uncommit(&v, &sources, false, error);
  tsr__buffer_release(&sources);
  tsr__arena_release(&v.arena);
  return rc < 0 ? rc : tsr__log_list(&array->log, true, true, error);
}

int tsr__revert_duplicating_merges(tsr_array *array, tsr_error *error) {
  const tsr_schema *schema;
  TSR_TRY(tsr__array_schema_at(array, UINT64_MAX, &schema, error));
  if (!schema->allows_duplicates) return TSR_OK;
  for (int i = 0; i < UNDOUBLE_MOST; i++) {
    tsr_duplicate_cells found;
    bool all = false;
    TSR_TRY(tsr__log_find_duplicate_cells(&array->log, &found, error));
    if (!found.merged) return TSR_OK;
    const tsr_committed *vacuum = vacuum_of(array, found.merged);
    if (vacuum) TSR_TRY(has_all_sources(array, vacuum, &all, error));
    if (!all && (vacuum = vacuum_of(array, found.other))) TSR_TRY(has_all_sources(array, vacuum, &all, error));
    if (!all) return tsr__log_keep_duplicate_cells(&array->log), TSR_OK;
    TSR_TRY(take_back(array, vacuum, error));
  }
  return TSR_OK;
}
