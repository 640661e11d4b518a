/* array_directories.c: lists the directories of an array.
 *
 * A listing takes time: it may lack a file that was created meanwhile, and also the file that the new one replaces,
 * which was removed meanwhile. If the directory's stamp has not changed, or if the store says so, the listing is a
 * state that the directory had at one moment. Otherwise the directory is listed until two listings in a row are equal.
 */
#include "array/array_directories.h"

#include <string.h>

#include "format/layout.h"

#define LISTINGS 1000 /* tries to list one directory, since others may commit or vacuum meanwhile */

const char *tsr__directory_path(tsr_directory which) {
  static const char *const paths[TSR_DIRECTORIES] = {"", TSR_DIR_SCHEMA, TSR_DIR_COMMITS, TSR_DIR_FOOTERS};
  return paths[which];
}

void tsr__directory_forget(tsr_array_directories *directories, tsr_directory which) {
  tsr__listing_release(&directories->lists[which]);
  directories->listed[which] = false;
}

void tsr__directories_release(tsr_array_directories *directories) {
  for (int i = 0; i < TSR_DIRECTORIES; i++) tsr__directory_forget(directories, (tsr_directory)i);
}

int tsr__directories_list(tsr_array_directories *directories, const tsr_directory *which, unsigned count,
                          tsr_error *error) {
  const char *paths[TSR_DIRECTORIES] = {0};
  tsr_listing lists[TSR_DIRECTORIES];
  tsr_stamp stamps[TSR_DIRECTORIES];
  tsr_directory missing[TSR_DIRECTORIES];
  unsigned n = 0;
  for (unsigned i = 0; i < count; i++)
    if (!directories->listed[which[i]]) {
      missing[n] = which[i];
      paths[n++] = tsr__directory_path(which[i]);
    }
  if (n == 0) return TSR_OK;
  TSR_TRY(tsr__store_list_many(directories->store, paths, n, lists, stamps, error));
  for (unsigned i = 0; i < n; i++) {
    directories->lists[missing[i]] = lists[i];
    directories->stamps[missing[i]] = stamps[i];
    directories->listed[missing[i]] = true;
  }
  return TSR_OK;
}

/* Returns 1 if a listed directory has not changed since before it was listed, else 0. */
static int directory_is_steady(const tsr_array_directories *directories, tsr_directory which, tsr_error *error) {
  const tsr_stamp *stamp = &directories->stamps[which];
  tsr_stamp now;
  if (!stamp->known) return 0;
  TSR_TRY(tsr__store_stamp(directories->store, tsr__directory_path(which), &now, error));
  return tsr__same_stamp(stamp, &now);
}

/* Returns true if the listings are equal; both are sorted by name, as all listings are. */
static bool same_entries(const tsr_listing *a, const tsr_listing *b) {
  if (a->count != b->count || a->missing != b->missing) return false;
  for (uint64_t i = 0; i < a->count; i++)
    if (a->entries[i].kind != b->entries[i].kind || strcmp(a->entries[i].name, b->entries[i].name) != 0) return false;
  return true;
}

static int list_again(const tsr_array_directories *directories, tsr_directory which, tsr_listing *again,
                      tsr_error *error) {
  *again = (tsr_listing){.memory = directories->store->memory};
  const int rc = tsr__store_list(directories->store, tsr__directory_path(which), again, error);
  again->missing = rc == TSR_NOT_FOUND;
  return again->missing ? TSR_OK : rc;
}

int tsr__directory_settle(tsr_array_directories *directories, tsr_directory which, tsr_error *error) {
  if (directories->store->listings_are_states) return 0;
  int rc = directory_is_steady(directories, which, error);
  if (rc) return rc < 0 ? rc : 0;
  for (int i = 0; i < LISTINGS; i++) {
    tsr_listing again;
    TSR_TRY(list_again(directories, which, &again, error));
    const bool same = same_entries(&directories->lists[which], &again);
    tsr__listing_release(&directories->lists[which]);
    directories->lists[which] = again;
    if (same) return 1;
  }
  return tsr__fail(error, TSR_BUSY, "%s changes faster than it can be listed", tsr__directory_path(which));
}

int tsr__directory_is_same(const tsr_array_directories *directories, tsr_directory which, tsr_error *error) {
  tsr_listing again;
  const int rc = directory_is_steady(directories, which, error);
  if (rc) return rc;
  TSR_TRY(list_again(directories, which, &again, error));
  const bool same = same_entries(&directories->lists[which], &again);
  tsr__listing_release(&again);
  return same;
}
