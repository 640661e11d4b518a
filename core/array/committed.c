/* committed.c: finds out which fragments and deletes of an array have been published at any time, as far as any of its
 * files tells.
 *
 * A marker (pending.c) may outlive the publication of its commit, because the writer died before it removed the marker.
 * By then the commit's own file may be gone, too. Each of these files says that a fragment or a delete has been
 * published:
 *
 *   its own file                    NAME.wrt, NAME.del, NAME.ok, NAME/__fragment_metadata.tdb
 *   a .con, or the .meta of it      the commits were consolidated
 *   an .ign                         its entry in a .con counts no more: a vacuum or a delete of fragments was at work
 *   a .vac, or its staged form      a merged fragment has replaced it
 *   a .meta of any name             its footer was consolidated
 *
 * If the sources of a merged fragment are gone together with their .vac, no file names them any more. Then the time
 * range of the merged fragment contains theirs (tsr__listing_took_up). A file that cannot be read is an error: a commit
 * must not be undone on a guess.
 */
#include "array/committed.h"

#include <string.h>

#include "store/store.h"
#include "format/layout.h"
#include "array/array.h"
#include "array/commit_file.h"
#include "array/listing.h"
#include "array/pending.h"

static const char commits[] = TSR_DIR_COMMITS;

/* Lists the array without prepared commits, some of which the host may count as committed. */
static int list_published(tsr_array *array, tsr_error *error) {
  int (*const committed)(void *, const char *, tsr_error *) = array->host.committed;
  array->host.committed = NULL;
  const int rc = tsr__array_list(array, true, true, error);
  array->host.committed = committed;
  return rc;
}

static int committed_keep(tsr_published *p, const char *name, uint64_t size, tsr_error *error) {
  char *copy;
  TSR_TRY(TSR_ARENA_COPY(&p->arena, name, size, &copy, error));
  return tsr__map_put(&p->names, copy, copy, error);
}

static int keep_ignored(tsr_published *p, tsr_error *error) {
  tsr_listing entries = {.memory = p->names.memory};
  int rc = tsr__store_list(p->array->store, commits, &entries, error);
  if (rc == TSR_NOT_FOUND) return TSR_OK;
  for (uint64_t i = 0; rc >= 0 && i < entries.count; i++) {
    uint64_t stem;
    const tsr_commit_file *file;
    if (!tsr__name_suffix(entries.entries[i].name, TSR_SUFFIX_IGNORED, &stem)) continue;
    tsr_path path = tsr__path_of(commits, entries.entries[i].name, "");
    rc = tsr__array_commit_file(p->array, path.text, &file, error);
    for (uint64_t n = 0; rc >= 0 && n < file->names.count; n++) {
      const char *name = file->names.names[n];
      if (!tsr__name_suffix(name, TSR_SUFFIX_WRITE, &stem) && !tsr__name_suffix(name, TSR_SUFFIX_OLD_WRITE, &stem))
        stem = strlen(name);
      rc = committed_keep(p, name, stem, error);
    }
  }
  tsr__listing_release(&entries);
  return rc;
}

static int keep_files(tsr_published *p, const tsr_commit_list *list, tsr_error *error) {
  for (uint64_t i = 0; i < list->count; i++) {
    const tsr_commit_file *file;
    TSR_TRY(tsr__array_commit_file(p->array, list->items[i].path, &file, error));
    if (file->damaged)
      return tsr__fail(error, TSR_CORRUPT,
                       "%s cannot be read, and may name published commits: tessera_vacuum removes it",
                       list->items[i].path);
    for (uint64_t n = 0; n < file->names.count; n++)
      TSR_TRY(committed_keep(p, file->names.names[n], strlen(file->names.names[n]), error));
    for (uint64_t n = 0; n < file->footers.count; n++)
      TSR_TRY(committed_keep(p, file->footers.footers[n].name, strlen(file->footers.footers[n].name), error));
  }
  return TSR_OK;
}

static int keep_all(tsr_published *p, tsr_error *error) {
  TSR_TRY(list_published(p->array, error));
  const tsr_commit_listing *listing = p->array->listing;
  for (uint64_t i = 0; i < listing->deletes.count; i++)
    TSR_TRY(committed_keep(p, listing->deletes.items[i].name, strlen(listing->deletes.items[i].name), error));
  TSR_TRY(keep_files(p, &listing->vacuums, error));
  TSR_TRY(keep_files(p, &listing->footers, error));
  return keep_ignored(p, error);
}

int tsr__published_open(tsr_array *array, tsr_published *published, tsr_error *error) {
  *published = (tsr_published){.array = array, .names.memory = &array->memory};
  tsr__arena_init(&published->arena, &array->memory);
  const int rc = keep_all(published, error);
  if (rc < 0) tsr__published_release(published);
  return rc;
}

void tsr__published_release(tsr_published *published) {
  tsr__map_release(&published->names);
  tsr__arena_release(&published->arena);
}

static bool names(const tsr_published *p, const char *name) {
  return tsr__map_get(&p->array->listing->names, name) || tsr__map_get(&p->names, name);
}

int tsr__published_has(const tsr_published *published, const tsr_pending *pending, tsr_error *error) {
  const int single = tsr__pending_published(published->array->store, pending->commit, error);
  const char *slash = strrchr(pending->commit, '/'), *file = slash ? slash + 1 : pending->commit;
  char name[TSR_COMMIT_PATH];
  uint64_t stem;
  if (single != 0) return single;
  for (uint64_t i = 0; i < pending->fragment_count; i++)
    if (names(published, pending->fragments[i])) return 1;
  if (!tsr__name_suffix(file, TSR_SUFFIX_DELETE, &stem) || stem >= sizeof name) return 0;
  memcpy(name, file, stem);
  name[stem] = 0;
  return names(published, name);
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

/* Returns true if the listing has a delete within the commit's time range: deletes are never merged, and those of a
 * commit have its time. */
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

bool tsr__listing_took_up(const tsr_commit_listing *listing, const tsr_pending *pending) {
  for (uint64_t i = 0; i < pending->fragment_count; i++)
    if (tsr__map_get(&listing->names, pending->fragments[i]) || is_spanned(listing, pending->fragments[i])) return true;
  return pending->fragment_count == 0 && has_delete_of(listing, pending->commit);
}
