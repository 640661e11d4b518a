/* replaced.c: merged fragments and the sources that they replace: finishes or takes back merges that died halfway, and
 * finds cells that two fragments have because their source was merged twice.
 *
 * A vacuum file NAME.vac names the sources that the merged fragment NAME replaces. A merge (maintain/replace.c) writes
 * it under another name before it commits, and renames it afterwards:
 *   .NAME.vac.new   counts as soon as NAME is committed. If the merge died after that, the rename is still to be done.
 *   NAME.vac.ign    in arrays that allow duplicates ("exchange" below): cancels NAME.con. So the rename to NAME.vac
 *                   shows the merged fragment and hides its sources at once. Once NAME.con exists the merge is
 *                   decided: if all sources are still committed and visible, it is finished; else it is taken back.
 *
 * Sections: staged names; sources; merges that died; cells that are there twice.
 */
#include <string.h>

#include "log/log.h"
#include "base/hash.h"
#include "format/layout.h"
#include "store/store.h"
#include "model/name.h"

#define SEARCHES 8 /* more, for cells that are there twice, since others may vacuum meanwhile */

/* ---- Staged names ------------------------------------------------------------------------------------------------ */

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

/* Renames a staged vacuum file. If another process has done so already, removes the staged file. */
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
  TSR_TRY(tsr__directory_find(store, fragment.text, &exists, error)); /* if not, it was merged and vacuumed since */
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

/* ---- Sources ----------------------------------------------------------------------------------------------------- */

bool tsr__may_be_source(const char *name, const tsr_name *merged, const char *merged_name) {
  tsr_name parsed;
  return tsr__name_parse(name, strlen(name), &parsed) && parsed.start >= merged->start && parsed.end <= merged->end &&
         strcmp(name, merged_name) != 0;
}

/* Adds the sources in one vacuum file to `covered`, and sets *more if there were new ones: they may be merged fragments
 * with sources of their own, so tsr__covered iterates to the fixed point. */
static int cover(const tsr_replacing *file, tsr_map *covered, bool *more, tsr_error *error) {
  tsr_name merged;
  if (!tsr__name_parse(file->name, strlen(file->name), &merged)) return TSR_OK;
  for (uint64_t n = 0; n < file->names->count; n++) {
    const char *name = file->names->names[n];
    if (tsr__map_get(covered, name) || !tsr__may_be_source(name, &merged, file->name)) continue;
    TSR_TRY(tsr__map_put(covered, name, (void *)(uintptr_t)file->name, error));
    *more = true;
  }
  return TSR_OK;
}

int tsr__covered(const tsr_replacing *files, uint64_t count, const tsr_map *committed, tsr_map *covered,
                 tsr_error *error) {
  for (bool more = true; more;) {
    more = false;
    for (uint64_t i = 0; i < count; i++)
      if (tsr__map_get(committed, files[i].name) || tsr__map_get(covered, files[i].name))
        TSR_TRY(cover(&files[i], covered, &more, error));
  }
  return TSR_OK;
}

int tsr__log_hide_sources(tsr_log *log, const tsr_committed *vacuum, tsr_map *hidden, tsr_error *error) {
  const tsr_commit_file *file;
  TSR_TRY(tsr__log_file(log, vacuum->path, &file, error));
  for (uint64_t n = 0; n < file->names.count; n++)
    TSR_TRY(tsr__map_put(hidden, file->names.names[n], file->names.names[n], error));
  return TSR_OK;
}

int tsr__log_hide_all_sources(tsr_log *log, tsr_map *hidden, tsr_error *error) {
  const tsr_commit_list *vacuums = &log->listing->vacuums;
  for (uint64_t i = 0; i < vacuums->count; i++) TSR_TRY(tsr__log_hide_sources(log, &vacuums->items[i], hidden, error));
  return TSR_OK;
}

int tsr__log_replacing(tsr_log *log, const tsr_commit_list *vacuums, tsr_buffer *files, tsr_error *error) {
  for (uint64_t i = 0; i < vacuums->count; i++) {
    const tsr_commit_file *file;
    TSR_TRY(tsr__log_file(log, vacuums->items[i].path, &file, error));
    const tsr_replacing one = {vacuums->items[i].name, &file->names};
    TSR_TRY(tsr__buffer_append(files, &one, sizeof one, error));
  }
  return TSR_OK;
}

int tsr__log_covered(tsr_log *log, const tsr_commit_listing *listing, tsr_map *covered, tsr_error *error) {
  tsr_buffer files = {.memory = log->memory};
  int rc = tsr__log_replacing(log, &listing->vacuums, &files, error);
  if (rc >= 0)
    rc = tsr__covered((const tsr_replacing *)(const void *)files.data, files.size / sizeof(tsr_replacing),
                      &listing->names, covered, error);
  tsr__buffer_release(&files);
  return rc;
}

const tsr_committed *tsr__log_outlived(const tsr_commit_listing *listing, const char *name) {
  const tsr_committed *items = listing->fragments.items, *gone = NULL, *longer = NULL;
  for (uint64_t i = 0; i < listing->fragments.count && !gone; i++)
    if (strcmp(items[i].name, name) == 0) gone = &items[i];
  if (!gone || !gone->joined) return NULL;
  const uint64_t length = gone->parsed.end - gone->parsed.start;
  for (uint64_t i = 0; i < listing->fragments.count && !longer; i++) {
    const tsr_committed *one = &items[i];
    if (one->prepared || one->parsed.end - one->parsed.start <= length) continue;
    if (tsr__may_be_source(name, &one->parsed, one->name)) longer = one;
  }
  return longer;
}

/* ---- Merges that died -------------------------------------------------------------------------------------------- */

/* Sets *all if all sources of an exchange are committed and no vacuum file hides any of them. */
static int has_sources(tsr_log *log, const char *exchange, const tsr_map *hidden, bool *all, tsr_error *error) {
  const tsr_commit_file *file;
  tsr_name parsed;
  TSR_TRY(tsr__log_file(log, exchange, &file, error));
  *all = true;
  for (uint64_t n = 0; n < file->names.count && *all; n++) {
    const char *name = file->names.names[n];
    if (tsr__name_parse(name, strlen(name), &parsed)) /* skips the line that cancels the merged fragment */
      *all = tsr__map_get(&log->listing->names, name) && !tsr__map_get(hidden, name);
  }
  return TSR_OK;
}

/* Takes back a merge that has committed but has no effect yet. Removes its commit first, and only then the files that
 * cancel it. */
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

/* Finishes or takes back an exchange. Returns 1; 0 if it is not decided yet because there is no NAME.con: its merge is
 * still running, or a vacuum will remove the file. */
static int settle_exchange(tsr_log *log, const tsr_committed *item, const tsr_map *hidden, tsr_error *error) {
  const tsr_path con = tsr__path_of(TSR_DIR_COMMITS, item->name, TSR_SUFFIX_CONSOLIDATED);
  bool decided, all;
  TSR_TRY(tsr__store_find(log->store, con.text, &decided, error));
  if (!decided) return 0;
  TSR_TRY(has_sources(log, item->path, hidden, &all, error));
  if (!all) TSR_TRY(take_exchange_back(log->store, item->name, error));
  else TSR_TRY(tsr__exchange_finish(log->store, item->name, error));
  return 1;
}

/* Returns 1 if it has settled an exchange, else 0. */
static int settle_exchanges(tsr_log *log, tsr_error *error) {
  const tsr_commit_list *exchanges = &log->listing->exchanges;
  tsr_map hidden = {.memory = log->memory};
  tsr_error one;
  if (exchanges->count == 0) return 0;
  int rc = tsr__log_hide_all_sources(log, &hidden, &one), settled = 0;
  for (uint64_t i = 0; i < exchanges->count && rc >= 0 && !settled; i++)
    rc = settled = settle_exchange(log, &exchanges->items[i], &hidden, &one);
  tsr__map_release(&hidden);
  if (rc == TSR_NOT_FOUND) return 1; /* the merge's own process has finished it, or a vacuum is at work */
  if (rc < 0) *error = one;
  return rc;
}

int tsr__staged_vacuums_finish(tsr_log *log, tsr_error *error) {
  int rc = 1;
  for (int i = 0; i < 8 && rc > 0; i++) { /* one at a time: each may be the source of another */
    TSR_TRY(rc = settle_exchanges(log, error));
    if (rc > 0) TSR_TRY(tsr__log_list(log, true, true, error));
  }
  const tsr_commit_list *vacuums = &log->listing->vacuums;
  bool found = false;
  for (uint64_t i = 0; i < vacuums->count; i++) {
    const tsr_committed *item = &vacuums->items[i];
    if (!tsr__name_ends_in(item->path, TSR_SUFFIX_STAGED_VACUUM)) continue;
    found = true;
    TSR_TRY(tsr__staged_vacuum_finish(log->store, strchr(item->path, '/') ? TSR_DIR_COMMITS : "", item->name, error));
  }
  return found ? tsr__log_list(log, true, true, error) : TSR_OK;
}

bool tsr__log_has_dead_merges(const tsr_log *log) {
  const tsr_commit_listing *listing = log->listing;
  for (uint64_t i = 0; i < listing->exchanges.count; i++) {
    /* without NAME.con they are not decided (settle_exchange) */
    const tsr_path con = tsr__path_of("", listing->exchanges.items[i].name, TSR_SUFFIX_CONSOLIDATED);
    if (tsr__listing_has(&listing->commits, con.text)) return true;
  }
  for (uint64_t i = 0; i < listing->vacuums.count; i++)
    if (tsr__name_ends_in(listing->vacuums.items[i].path, TSR_SUFFIX_STAGED_VACUUM)) return true;
  return false;
}

/* ---- Cells that are there twice ---------------------------------------------------------------------------------- */

/* Cells may exist twice for two reasons. A merge that died between its commit and its vacuum file leaves the merged
 * fragment beside its sources; a library that does not know the staged vacuum file may then merge all of them. Or two
 * libraries that do not cancel each other's merges have merged the same fragments at the same time.
 *
 * The vacuum files form a graph: an edge leads from each merged fragment to its sources, which may be merged fragments
 * themselves. The search walks it depth-first from each visible merged fragment, and records for every fragment that it
 * reaches which visible fragment has its cells. A fragment that is reached twice has its cells in two places. */

typedef struct duplicate_cells_search {
  const tsr_map *committed;
  tsr_map files; /* name of a merged fragment -> its tsr_replacing */
  tsr_map covered; /* from tsr__covered: fragments whose cells are in a committed merged fragment */
  tsr_map owners; /* fragment -> the visible merged fragment that has its cells */
  tsr_buffer waiting; /* stack of const tsr_replacing *: their sources have not been visited yet */
  tsr_duplicate_cells *found;
  tsr_error *error;
} duplicate_cells_search;

/* Records that the visible fragment `owner` has the cells of the sources in one vacuum file. */
static int note_sources(duplicate_cells_search *s, const tsr_replacing *file, const char *owner) {
  tsr_name merged;
  if (!tsr__name_parse(file->name, strlen(file->name), &merged)) return TSR_OK;
  for (uint64_t n = 0; n < file->names->count; n++) {
    const char *name = file->names->names[n], *before = tsr__map_get(&s->owners, name);
    if (!tsr__may_be_source(name, &merged, file->name)) continue;
    if (before) {
      *s->found = (tsr_duplicate_cells){owner, before, name};
      return TSR_OK;
    }
    TSR_TRY(tsr__map_put(&s->owners, name, (void *)(uintptr_t)owner, s->error));
    const tsr_replacing *next = tsr__map_get(&s->files, name);
    if (next) TSR_TRY(tsr__buffer_append(&s->waiting, &next, sizeof next, s->error));
  }
  return TSR_OK;
}

static int expand(duplicate_cells_search *s, const tsr_replacing *visible) {
  s->waiting.size = 0;
  TSR_TRY(tsr__buffer_append(&s->waiting, &visible, sizeof visible, s->error));
  while (s->waiting.size && !s->found->merged) {
    const tsr_replacing *file;
    s->waiting.size -= sizeof file;
    memcpy(&file, s->waiting.data + s->waiting.size, sizeof file);
    TSR_TRY(note_sources(s, file, visible->name));
  }
  return TSR_OK;
}

static int search(duplicate_cells_search *s, const tsr_replacing *files, uint64_t count) {
  TSR_TRY(tsr__covered(files, count, s->committed, &s->covered, s->error));
  for (uint64_t i = 0; i < count; i++)
    TSR_TRY(tsr__map_put(&s->files, files[i].name, (void *)(uintptr_t)&files[i], s->error));
  for (uint64_t i = 0; i < count && !s->found->merged; i++) {
    const bool visible = tsr__map_get(s->committed, files[i].name) && !tsr__map_get(&s->covered, files[i].name);
    /* if the vacuum file exists under its staged and its final name, only one of them counts */
    if (visible && tsr__map_get(&s->files, files[i].name) == &files[i]) TSR_TRY(expand(s, &files[i]));
  }
  return TSR_OK;
}

int tsr__find_duplicate_cells(const tsr_replacing *files, uint64_t count, const tsr_map *committed,
                              tsr_duplicate_cells *doubled, tsr_error *error) {
  tsr_memory *memory = committed->memory;
  duplicate_cells_search s = {.committed = committed, .found = doubled, .error = error};
  s.files.memory = s.covered.memory = s.owners.memory = s.waiting.memory = memory;
  *doubled = (tsr_duplicate_cells){0};
  const int rc = count < 2 ? TSR_OK : search(&s, files, count);
  tsr__map_release(&s.files);
  tsr__map_release(&s.covered);
  tsr__map_release(&s.owners);
  tsr__buffer_release(&s.waiting);
  return rc;
}

/* Returns a digest of the paths of all vacuum files. */
static uint64_t digest_of(const tsr_commit_list *vacuums) {
  uint64_t hash = vacuums->count;
  for (uint64_t i = 0; i < vacuums->count; i++) hash = tsr__hash_text(hash, vacuums->items[i].path);
  return hash;
}

static int find_in_listing(tsr_log *log, tsr_duplicate_cells *doubled, tsr_error *error) {
  tsr_buffer files = {.memory = log->memory};
  int rc = tsr__log_replacing(log, &log->listing->vacuums, &files, error);
  if (rc >= 0)
    rc = tsr__find_duplicate_cells((const tsr_replacing *)(const void *)files.data, files.size / sizeof(tsr_replacing),
                                   &log->listing->names, doubled, error);
  tsr__buffer_release(&files);
  return rc;
}

bool tsr__log_may_have_duplicate_cells(const tsr_log *log) {
  const tsr_commit_list *vacuums = &log->listing->vacuums;
  return vacuums->count >= 2 && digest_of(vacuums) != log->checked_vacuums;
}

int tsr__log_find_duplicate_cells(tsr_log *log, tsr_duplicate_cells *doubled, tsr_error *error) {
  tsr_error one;
  *doubled = (tsr_duplicate_cells){0};
  if (!tsr__log_may_have_duplicate_cells(log)) return TSR_OK;
  int rc = find_in_listing(log, doubled, &one);
  for (int i = 0; i < SEARCHES && rc == TSR_NOT_FOUND; i++) { /* a vacuum has removed a vacuum file */
    TSR_TRY(tsr__log_list(log, true, true, error));
    rc = find_in_listing(log, doubled, &one);
  }
  if (rc == TSR_NOT_FOUND) return *doubled = (tsr_duplicate_cells){0}, TSR_OK; /* others keep vacuuming */
  if (rc < 0) return *error = one, rc;
  if (!doubled->merged) log->checked_vacuums = digest_of(&log->listing->vacuums);
  return TSR_OK;
}

void tsr__log_keep_duplicate_cells(tsr_log *log) { log->checked_vacuums = digest_of(&log->listing->vacuums); }
