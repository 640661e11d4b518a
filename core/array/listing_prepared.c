/* listing_prepared.c: adds the prepared commits to a listing: those that the host has committed and nobody has published
 * yet. */
#include "array/listing_prepared.h"

#include <string.h>

#include "format/layout.h"
#include "store/store.h"
#include "array/committed.h"
#include "array/pending_late.h"

typedef struct gone_commit {
  tsr_pending pending;
  const char *marker;
} gone_commit;

/* Remembers a prepared commit whose files are missing. Perhaps it has been published and merged and only the marker is
 * left; that can be decided when everything is listed. */
static int keep_gone(tsr_renewal *r, const tsr_pending *pending, const char *marker) {
  const gone_commit one = {*pending, marker};
  return tsr__buffer_append(&r->gone, &one, sizeof one, r->error);
}

int tsr__listing_check_gone(tsr_renewal *r) {
  const gone_commit *all = (const gone_commit *)(const void *)r->gone.data;
  for (uint64_t i = 0; i < r->gone.size / sizeof *all; i++) {
    bool there;
    if (tsr__listing_took_up(r->listing, &all[i].pending)) continue;
    TSR_TRY(tsr__store_find(r->array->store, all[i].marker, &there, r->error));
    return there ? tsr__pending_fail_gone(all[i].pending.commit, r->error)
                 : tsr__fail(r->error, TSR_ABORT, "%s was published while it was listed", all[i].marker);
  }
  return TSR_OK;
}

/* Counts a prepared commit whose file exists under a provisional name until it is published: a .con or a delete, which
 * is read under that name. If the file is missing, it has just been published or removed. */
static int count_staged(tsr_renewal *r, const tsr_pending *pending, const char *marker, const char *staged) {
  const char *commit = pending->commit;
  tsr_committed item = {0};
  uint64_t stem;
  const char *name = staged + strlen(TSR_DIR_COMMITS) + 1;
  const tsr_commit_file *file;
  bool exists, published;
  TSR_TRY(tsr__store_find(r->array->store, staged, &exists, r->error));
  if (!exists) {
    TSR_TRY(tsr__store_find(r->array->store, commit, &published, r->error));
    return published ? tsr__fail(r->error, TSR_ABORT, "%s: published", commit) : keep_gone(r, pending, marker);
  }
  if (tsr__name_ends_in(commit, TSR_SUFFIX_CONSOLIDATED)) {
    TSR_TRY(tsr__renewal_read_file(r, name, &file));
    if (file->rest.cut) /* damage: the file was complete and durable before its marker was written */
      return tsr__fail(r->error, TSR_CORRUPT, "%s: the commit was prepared, but its file ends early", staged);
    for (uint64_t n = 0; n < file->commits.count; n++)
      TSR_TRY(tsr__renewal_add_con_entry(r, file->path, &file->commits.commits[n]));
    return TSR_OK;
  }
  tsr__name_suffix(commit, TSR_SUFFIX_DELETE, &stem);
  stem -= strlen(TSR_DIR_COMMITS) + 1;
  tsr__name_parse(name + 1, stem, &item.parsed);
  TSR_TRY(tsr__renewal_copy_text(r, name + 1, stem, &item.name));
  TSR_TRY(tsr__renewal_copy_text(r, staged, strlen(staged), &item.path));
  return tsr__renewal_add_delete(r, &item);
}

/* Counts a prepared commit of the old layout. Below version 5 the name of the metadata file commits; until then it is
 * read under a provisional name (fragment.c). */
static int count_old(tsr_renewal *r, const char *commit) {
  char name[TSR_COMMIT_PATH];
  tsr_name parsed;
  const char *copy;
  uint64_t size = strcspn(commit, "/.");
  memcpy(name, commit, size);
  name[size] = 0;
  if (!tsr__name_parse(name, size, &parsed)) return TSR_OK;
  TSR_TRY(tsr__renewal_copy_text(r, name, size, &copy));
  return tsr__renewal_add_fragment(r, copy, &parsed, true);
}

/* Counts a prepared commit that an empty .wrt file will publish. */
static int count_fragment(tsr_renewal *r, const tsr_pending *pending, const char *marker, const char *name,
                          const tsr_name *parsed) {
  bool exists;
  tsr_path metadata = tsr__path_of(TSR_DIR_FRAGMENTS, name, "/" TSR_FILE_FRAGMENT_METADATA);
  if (tsr__map_get(&r->listing->names, name)) return TSR_OK;
  TSR_TRY(tsr__store_find(r->array->store, metadata.text, &exists, r->error));
  return exists ? tsr__renewal_add_fragment(r, name, parsed, false) : keep_gone(r, pending, marker);
}

static int count_prepared(tsr_renewal *r, const tsr_pending *pending, const char *path) {
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  tsr_name parsed;
  uint64_t stem;
  const char *commit = pending->commit, *name = commit + strlen(TSR_DIR_COMMITS) + 1, *copy;
  if (!tsr__pending_paths(commit, marker, staged)) return TSR_OK;
  if (strncmp(commit, TSR_DIR_COMMITS, strlen(TSR_DIR_COMMITS)) != 0) return count_old(r, commit);
  if (*staged) return count_staged(r, pending, path, staged);
  if (!tsr__name_suffix(name, TSR_SUFFIX_WRITE, &stem) || !tsr__name_parse(name, stem, &parsed)) return TSR_OK;
  TSR_TRY(tsr__renewal_copy_text(r, name, stem, &copy));
  return count_fragment(r, pending, path, copy, &parsed);
}

/* Returns 1 if the host says that a prepared commit counts, else 0. */
static int host_has_committed(const tsr_array *array, const char *commit, tsr_error *error) {
  return array->host.committed ? array->host.committed(array->host.argument, commit, error) : 0;
}

int tsr__listing_fail_outdated(tsr_renewal *r, const char *marker) {
  return tsr__fail(r->error, TSR_ABORT, "%s was published while it was listed", marker);
}

/* Counts a prepared commit, unless recovery has published another commit in its place. If that other commit was
 * published after `entries` were listed, the array must be listed again. */
static int count_unless_late(tsr_renewal *r, const char *marker, const tsr_pending *pending,
                             const tsr_listing *entries) {
  tsr_late late;
  bool exists;
  int rc = tsr__late_read(r->array->store, pending->commit, &late, r->error);
  if (rc > 0 && *late.commit) rc = tsr__pending_published(r->array->store, late.commit, r->error);
  if (rc < 0) return rc;
  if (rc > 0 && *late.commit && entries) {
    const char *slash = strrchr(late.commit, '/');
    if (tsr__listing_has(entries, slash ? slash + 1 : late.commit)) return TSR_OK;
    TSR_TRY(tsr__store_find(r->array->store, late.commit, &exists, r->error));
    return exists ? tsr__listing_fail_outdated(r, marker) : TSR_OK;
  }
  if (rc > 0) return TSR_OK;
  r->listing->prepared.counted = r->counting = true;
  rc = count_prepared(r, pending, marker);
  r->counting = false;
  return rc;
}

int tsr__listing_add_marker(tsr_renewal *r, const char *marker, const tsr_listing *entries) {
  tsr_pending pending;
  tsr_committed item = {0};
  int rc = tsr__pending_read(r->array->store, marker, &r->listing->arena, &pending, r->error);
  if (rc <= 0) return rc;
  item.name = pending.commit;
  for (uint64_t i = 0; i < pending.fragment_count; i++)
    TSR_TRY(tsr__map_put(&r->settled, pending.fragments[i], (void *)(uintptr_t)pending.fragments[i], r->error));
  TSR_TRY(tsr__renewal_copy_text(r, marker, strlen(marker), &item.path));
  TSR_TRY(tsr__renewal_append(r, &r->listing->prepared.markers, &item));
  TSR_TRY(rc = tsr__pending_published(r->array->store, pending.commit, r->error));
  const char *slash = strrchr(pending.commit, '/');
  if (rc > 0 && entries && !tsr__listing_has(entries, slash ? slash + 1 : pending.commit))
    return tsr__listing_fail_outdated(r, marker);
  if (rc > 0) return 1;
  TSR_TRY(rc = host_has_committed(r->array, pending.commit, r->error));
  if (rc > 0) return (rc = count_unless_late(r, item.path, &pending, entries)) < 0 ? rc : 1;
  r->listing->prepared.undecided = true;
  return 1;
}

int tsr__listing_add_listed_marker(tsr_renewal *r, const char *marker, const tsr_listing *entries) {
  bool there = true;
  int rc = tsr__listing_add_marker(r, marker, entries);
  if (rc == 0) rc = tsr__store_find(r->array->store, marker, &there, r->error);
  return rc < 0 || there ? rc : tsr__listing_fail_outdated(r, marker);
}

bool tsr__listing_newly_committed(const tsr_array *array) {
  const tsr_commit_listing *listing = array->listing;
  if (!listing->prepared.undecided || !array->host.committed) return false;
  for (uint64_t i = 0; i < listing->prepared.markers.count; i++) {
    const tsr_committed *item = &listing->prepared.markers.items[i];
    bool exists, published;
    tsr_error unseen;
    if (tsr__store_find(array->store, item->path, &exists, NULL) < 0 ||
        tsr__store_find(array->store, item->name, &published, NULL) < 0)
      return true; /* the next listing reports the error */
    if (exists && !published && host_has_committed(array, item->name, &unseen)) return true;
  }
  return false;
}
