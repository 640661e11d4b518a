/* truncated_con.c: whether anything is lost if a truncated .con counts as not written yet.
 *
 * A .con is truncated if it is empty or ends within an entry.
 *
 * TileDB writes a .con in place, so it is truncated while TileDB is writing, and for good if TileDB dies meanwhile.
 * Every commit that it was to name then still has its own file, since those are removed only after the .con is
 * complete. So a truncated .con counts as not written yet.
 *
 * But a full disk, a power loss or an interrupted copy may also truncate a .con that was complete. Then the commits
 * that it named must not vanish silently. A truncated .con is reported as damage if something may be lost:
 *  - There is a complete fragment that no other file commits, so the .con may have committed it. A fragment younger
 *    than the .con cannot have been in it: one of its files changed later, and the time in its name is later, too (both
 *    are required because the files of a copied array have the times of the copy). Nor can the .con have committed a
 *    fragment that a marker, an .ign or a .vac file names.
 *  - One of its complete entries names a fragment or a delete condition that nothing else commits.
 */
#include <string.h>

#include "log/log.h"
#include "format/layout.h"
#include "model/name.h"
#include "base/arithmetic.h"
#include "store/store.h"

typedef struct con_check { /* the check of one truncated .con */
  const tsr_other_commits *known;
  const char *con; /* path */
  uint64_t written; /* when the .con was last changed, in milliseconds since 1970 */
  tsr_path *path; /* result: the file whose age matters */
  tsr_error *error;
} con_check;

/* Gives the latest modification time of the files in a directory, in milliseconds since 1970; 0 if it is empty or
 * missing. */
static int last_change(const tsr_other_commits *known, const char *directory, uint64_t *changed, tsr_error *error) {
  tsr_listing entries = {.memory = known->memory};
  *changed = 0;
  int rc = tsr__store_list(known->store, directory, &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    uint64_t modified = 0;
    const tsr_path file = tsr__path_of(directory, entries.entries[i].name, "");
    rc = tsr__store_modified(known->store, file.text, &modified, error);
    if (rc == TSR_NOT_FOUND) rc = TSR_OK;
    *changed = TSR_MAX(*changed, modified);
  }
  tsr__listing_release(&entries);
  return rc == TSR_NOT_FOUND ? TSR_OK : rc;
}

static int fragment_is_whole(const tsr_other_commits *known, const char *directory, bool *whole, tsr_error *error) {
  const tsr_path metadata = tsr__path_of(directory, TSR_FILE_FRAGMENT_METADATA, "");
  return tsr__store_find(known->store, metadata.text, whole, error);
}

/* Reports a fragment that the .con may have committed: returns 1 and fills the error. */
static int report_fragment(const con_check *d, const char *name, const tsr_name *parsed) {
  const bool old = !layout_has_commits_folder(parsed->version);
  (void)tsr__fail(
      d->error, TSR_CORRUPT,
      "%s: the file is cut, and nothing else commits fragment %s, which it may have named. Bring the file back "
      "from a copy of the array. Or, if there is none: make an empty file %s%s%s for this fragment, if its cells "
      "are to stay, or remove its directory; the same for others that are named then",
      d->con, name, old ? "" : TSR_DIR_COMMITS "/", name, old ? TSR_SUFFIX_OLD_WRITE : TSR_SUFFIX_WRITE);
  return 1;
}

static int report_delete(const con_check *d, const char *name) {
  (void)tsr__fail(
      d->error, TSR_CORRUPT,
      "%s: the file is cut, and the delete condition %s, which it names, is in no other file. Bring the file back "
      "from a copy of the array. Or, if there is none, and cells that were deleted may come back: remove it",
      d->con, name);
  return 1;
}

static int check_fragment(const con_check *d, const char *directory, const char *name, const tsr_name *parsed) {
  const tsr_path path = tsr__path_of(directory, name, "");
  bool whole;
  uint64_t changed;
  TSR_TRY(fragment_is_whole(d->known, path.text, &whole, d->error));
  if (!whole) return 0; /* being written, or left over from a crash: no commit can have named it */
  const tsr_path commit =
      tsr__path_of(layout_commits_folder(parsed->version), name, layout_commit_suffix(parsed->version));
  TSR_TRY(tsr__store_find(d->known->store, commit.text, &whole, d->error));
  if (whole) return 0; /* committed since the commits were listed */
  TSR_TRY(last_change(d->known, path.text, &changed, d->error));
  if (changed > d->written && parsed->end > d->written) return 0;
  if (changed > d->written) *d->path = tsr__path_of(path.text, TSR_FILE_FRAGMENT_METADATA, "");
  return report_fragment(d, name, parsed);
}

static int check_directory(const con_check *d, const char *directory, const tsr_listing *entries) {
  for (uint64_t i = 0; i < entries->count; i++) {
    const tsr_entry *entry = &entries->entries[i];
    tsr_name parsed;
    if (entry->kind != TSR_ENTRY_DIRECTORY || !tsr__name_parse(entry->name, strlen(entry->name), &parsed)) continue;
    /* no .con names fragments of these versions in the array's directory */
    if (!*directory && (!layout_has_commit_files(parsed.version) || layout_has_commits_folder(parsed.version)))
      continue;
    if (tsr__map_get(d->known->fragments, entry->name) || tsr__map_get(d->known->ruled_out, entry->name)) continue;
    const int rc = check_fragment(d, directory, entry->name, &parsed);
    if (rc) return rc;
  }
  return 0;
}

static int check_fragments(const con_check *d) {
  tsr_listing entries = {.memory = d->known->memory};
  int rc = tsr__store_list(d->known->store, TSR_DIR_FRAGMENTS, &entries, d->error);
  if (rc == TSR_NOT_FOUND) return 0;
  if (rc >= 0) rc = check_directory(d, TSR_DIR_FRAGMENTS, &entries);
  tsr__listing_release(&entries);
  return rc;
}

/* Checks the complete entries of the .con. Fragments that no longer exist were vacuumed. */
static int check_entries(const con_check *d, const tsr_commits *partial) {
  for (uint64_t i = 0; i < partial->count; i++) {
    const tsr_commit *commit = &partial->commits[i];
    tsr_name parsed;
    bool whole;
    if (commit->kind == TSR_COMMIT_DELETE && !tsr__map_get(d->known->deletes, commit->name))
      return report_delete(d, commit->name);
    if (commit->kind != TSR_COMMIT_WRITE || !tsr__name_parse(commit->name, strlen(commit->name), &parsed)) continue;
    if (tsr__map_get(d->known->fragments, commit->name) || tsr__map_get(d->known->ruled_out, commit->name)) continue;
    const tsr_path path = tsr__path_of(layout_fragments_folder(parsed.version), commit->name, "");
    TSR_TRY(fragment_is_whole(d->known, path.text, &whole, d->error));
    if (whole) return report_fragment(d, commit->name, &parsed);
  }
  return 0;
}

int tsr__truncated_con_loses(const tsr_other_commits *known, const char *con, const tsr_commits *partial,
                             tsr_path *path, tsr_error *error) {
  con_check d = {.known = known, .con = con, .path = path, .error = error};
  *path = tsr__path_of("", con, "");
  int rc = tsr__store_modified(known->store, con, &d.written, error);
  if (rc == TSR_NOT_FOUND) return tsr__fail(error, TSR_ABORT, "%s was removed while it was looked at", con);
  if (rc >= 0) rc = check_entries(&d, partial);
  if (rc == 0) rc = check_fragments(&d);
  if (rc == 0) rc = check_directory(&d, "", known->root);
  return rc;
}
