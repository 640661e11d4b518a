/* published.c: whether any file shows that a prepared commit was published, before recovery touches it.
 *
 * A marker (prepared.c) outlives the publication of its commit if the writer dies before removing it. By the time
 * recovery finds the marker, the commit's own file may be gone, too. Each of these files proves that a fragment or a
 * delete was published:
 *
 *   its own file                    NAME.wrt, NAME.del, NAME.ok, NAME/__fragment_metadata.tdb
 *   a .con, or the .meta of it      the commits were consolidated
 *   an .ign                         its entry in a .con was cancelled, by a vacuum or a delete of fragments
 *   a .vac, or its staged form      a merged fragment has replaced it
 *   a .meta of any name             its footer was consolidated
 *
 * If a vacuum has removed the sources of a merged fragment and their .vac, no file names them any more, but the time
 * range of the merged fragment contains theirs (tsr__listing_shows_published). A file that cannot be read is an error:
 * a commit must not be undone on a guess.
 */
#include <string.h>

#include "log/log.h"
#include "format/layout.h"
#include "model/name.h"
#include "store/store.h"

static const char commits[] = TSR_DIR_COMMITS;

/* Lists the array without the prepared commits that the host counts as committed. */
static int list_published(tsr_log *log, tsr_error *error) {
  const tsr_log_host host = log->host;
  log->host = (tsr_log_host){0};
  const int rc = tsr__log_list(log, true, true, error);
  log->host = host;
  return rc;
}

static int collect_name(tsr_published *p, const char *name, uint64_t size, tsr_error *error) {
  char *copy;
  TSR_TRY(TSR_ARENA_COPY(&p->arena, name, size, &copy, error));
  return tsr__map_put(&p->names, copy, copy, error);
}

static int collect_ignored(tsr_published *p, tsr_error *error) {
  tsr_listing entries = {.memory = p->names.memory};
  int rc = tsr__store_list(p->log->store, commits, &entries, error);
  if (rc == TSR_NOT_FOUND) return TSR_OK;
  for (uint64_t i = 0; rc >= 0 && i < entries.count; i++) {
    uint64_t stem;
    const tsr_commit_file *file;
    if (!tsr__name_suffix(entries.entries[i].name, TSR_SUFFIX_IGNORED, &stem)) continue;
    tsr_path path = tsr__path_of(commits, entries.entries[i].name, "");
    rc = tsr__log_file(p->log, path.text, &file, error);
    for (uint64_t n = 0; rc >= 0 && n < file->names.count; n++) {
      const char *name = file->names.names[n];
      if (!tsr__name_suffix(name, TSR_SUFFIX_WRITE, &stem) && !tsr__name_suffix(name, TSR_SUFFIX_OLD_WRITE, &stem))
        stem = strlen(name);
      rc = collect_name(p, name, stem, error);
    }
  }
  tsr__listing_release(&entries);
  return rc;
}

static int collect_files(tsr_published *p, const tsr_commit_list *list, tsr_error *error) {
  for (uint64_t i = 0; i < list->count; i++) {
    const tsr_commit_file *file;
    TSR_TRY(tsr__log_file(p->log, list->items[i].path, &file, error));
    if (file->damaged)
      return tsr__fail(error, TSR_CORRUPT,
                       "%s cannot be read, and may name published commits: tessera_vacuum removes it",
                       list->items[i].path);
    for (uint64_t n = 0; n < file->names.count; n++)
      TSR_TRY(collect_name(p, file->names.names[n], strlen(file->names.names[n]), error));
    for (uint64_t n = 0; n < file->footers.count; n++)
      TSR_TRY(collect_name(p, file->footers.footers[n].name, strlen(file->footers.footers[n].name), error));
  }
  return TSR_OK;
}

static int collect_all(tsr_published *p, tsr_error *error) {
  TSR_TRY(list_published(p->log, error));
  const tsr_commit_listing *listing = p->log->listing;
  for (uint64_t i = 0; i < listing->deletes.count; i++)
    TSR_TRY(collect_name(p, listing->deletes.items[i].name, strlen(listing->deletes.items[i].name), error));
  TSR_TRY(collect_files(p, &listing->vacuums, error));
  TSR_TRY(collect_files(p, &listing->footers, error));
  return collect_ignored(p, error);
}

int tsr__published_open(tsr_log *log, tsr_published *published, tsr_error *error) {
  *published = (tsr_published){.log = log, .names.memory = log->memory};
  tsr__arena_init(&published->arena, log->memory);
  const int rc = collect_all(published, error);
  if (rc < 0) tsr__published_release(published);
  return rc;
}

void tsr__published_release(tsr_published *published) {
  tsr__map_release(&published->names);
  tsr__arena_release(&published->arena);
}

static bool has_name(const tsr_published *p, const char *name) {
  return tsr__map_get(&p->log->listing->names, name) || tsr__map_get(&p->names, name);
}

int tsr__published_has(const tsr_published *published, const tsr_prepared_marker *prepared, tsr_error *error) {
  const int single = tsr__prepared_is_published(published->log->store, prepared->commit, error);
  const char *slash = strrchr(prepared->commit, '/'), *file = slash ? slash + 1 : prepared->commit;
  char name[TSR_COMMIT_PATH];
  uint64_t stem;
  if (single != 0) return single;
  for (uint64_t i = 0; i < prepared->fragment_count; i++)
    if (has_name(published, prepared->fragments[i])) return 1;
  if (!tsr__name_suffix(file, TSR_SUFFIX_DELETE, &stem) || stem >= sizeof name) return 0;
  memcpy(name, file, stem);
  name[stem] = 0;
  return has_name(published, name);
}

static bool is_spanned(const tsr_commit_listing *listing, const char *name) {
  tsr_name parsed;
  if (!tsr__name_parse(name, strlen(name), &parsed)) return false;
  for (uint64_t i = 0; i < listing->fragments.count; i++) {
    const tsr_committed *merged = &listing->fragments.items[i];
    if (merged->parsed.start < merged->parsed.end && merged->parsed.start <= parsed.start &&
        merged->parsed.end >= parsed.end && strcmp(merged->name, name) != 0)
      return true;
  }
  return false;
}

/* Returns true if the listing has a delete within the commit's time range. Deletes are never merged, and have the time
 * of their commit. */
static bool has_delete_of(const tsr_commit_listing *listing, const char *commit) {
  const char *slash = strrchr(commit, '/'), *name = slash ? slash + 1 : commit;
  tsr_name parsed;
  if (!tsr__name_parse(name, strcspn(name, "."), &parsed)) return false;
  for (uint64_t i = 0; i < listing->deletes.count; i++) {
    const uint64_t time = listing->deletes.items[i].parsed.start;
    if (time >= parsed.start && time <= parsed.end) return true;
  }
  return false;
}

bool tsr__listing_shows_published(const tsr_commit_listing *listing, const tsr_prepared_marker *prepared) {
  for (uint64_t i = 0; i < prepared->fragment_count; i++)
    if (tsr__map_get(&listing->names, prepared->fragments[i]) || is_spanned(listing, prepared->fragments[i]))
      return true;
  return prepared->fragment_count == 0 && has_delete_of(listing, prepared->commit);
}
