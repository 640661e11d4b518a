/* recover.c: publishes or undoes commits that were prepared and never published, as the host's record says. Every step
 * here may be cut off and repeated, and two processes may recover the same array at the same time.
 *
 * A marker (pending.c) is settled by four questions, in this order:
 *   1. Does its writer live? Then the marker is left alone: the writer publishes or undoes what it has prepared.
 *   2. Does any file say that the commit has been published (committed.c)? Then only the marker is removed.
 *   3. What does the host say: has its database committed it, and does it belong to that database?
 *   4. Before undoing: is it certain that no writer lives? If the marker says "locked" but locks cannot be tested, it
 *      stays.
 * A marker whose question has no answer is left as it is. tsr_array_disown does the same for databases that are gone;
 * there the marker's age decides instead of the database.
 */
#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "format/layout.h"
#include "array/array.h"
#include "array/committed.h"
#include "array/environment.h"
#include "array/fragment.h"
#include "array/listing.h"
#include "array/staged_vacuum.h"
#include "maintain/recover_late.h"
#include "maintain/maintain.h"

#define RECOVER_DAY (UINT64_C(24) * 3600 * 1000) /* milliseconds */

typedef struct recover_found { /* a prepared commit */
  const char *marker; /* its path */
  tsr_pending pending; /* its content */
  tsr_writer_state writer;
  bool publish; /* its database has committed it */
} recover_found;

typedef struct recovery {
  tsr_array *array;
  const char *file; /* path of the database file, whose directory is synced before a commit is published; or NULL */
  tsr_verdict (*decide)(void *argument, const tsr_prepared *prepared);
  void *argument;
  tsr_arena arena;
  tsr_buffer markers; /* of recover_found */
  tsr_published published; /* commits that some file of the array says to be published */
  uint64_t changed; /* prepared commits that were published or removed */
  uint64_t refused; /* prepared commits that disown had to leave */
  char why[256]; /* the first of these, and the reason */
} recovery;

/* ---- Markers ----------------------------------------------------------------------------------------------------- */

/* Sets f->writer. Returns 1; 0 if the marker is gone; an error. */
static int find_writer(const recovery *r, recover_found *f, tsr_error *error) {
  tsr_error one;
  bool locked;
  f->writer = TSR_WRITER_UNKNOWN;
  if (!f->pending.locked) return 1;
  const int rc = tsr__pending_is_locked(r->array->store, f->marker, &locked, &one);
  if (rc == TSR_NOT_FOUND) return 0; /* published or undone meanwhile */
  if (rc == TSR_NOMEM) return *error = one, rc;
  if (rc >= 0) f->writer = locked ? TSR_WRITER_LIVES : TSR_WRITER_GONE;
  return 1;
}

/* Reads the markers that the array's listing has into r->markers. */
static int find_markers(recovery *r, tsr_error *error) {
  const tsr_commit_list *prepared = &r->array->listing->prepared.markers;
  for (uint64_t i = 0; i < prepared->count; i++) {
    recover_found one = {0};
    const char *path = prepared->items[i].path; /* belongs to the listing, which recovery renews */
    TSR_TRY(TSR_ARENA_COPY(&r->arena, path, strlen(path), &one.marker, error));
    int rc = tsr__pending_read(r->array->store, one.marker, &r->arena, &one.pending, error);
    if (rc > 0) rc = find_writer(r, &one, error);
    if (rc > 0) rc = tsr__buffer_append(&r->markers, &one, sizeof one, error);
    if (rc < 0) return rc;
  }
  return TSR_OK;
}

static uint64_t marker_count(const recovery *r) { return r->markers.size / sizeof(recover_found); }
static recover_found *marker_at(const recovery *r, uint64_t i) { return (recover_found *)(void *)r->markers.data + i; }

/* Sets *age to the milliseconds since the marker was changed; 0 if its time lies in the future. */
static int find_age(const recovery *r, const char *marker, uint64_t *age, tsr_error *error) {
  uint64_t modified;
  const uint64_t now = tsr__environment_now();
  TSR_TRY(tsr__store_modified(r->array->store, marker, &modified, error));
  *age = modified < now ? now - modified : 0;
  return TSR_OK;
}

static tsr_prepared recover_describe(const recover_found *f, bool published, uint64_t age) {
  return (tsr_prepared){.commit = f->pending.commit,
                        .marker = f->marker,
                        .owner = f->pending.owner,
                        .host = f->pending.host,
                        .file = f->pending.file,
                        .fragment_count = f->pending.fragment_count,
                        .fragments = f->pending.fragments,
                        .writer = f->writer,
                        .published = published,
                        .age = age};
}

/* ---- Publish and undo -------------------------------------------------------------------------------------------- */

/* Removes the staged file and the fragments of a prepared commit. The caller removes the marker afterwards: as long as
 * it exists, an undo that was cut off can be repeated. */
static int undo_commit(const recovery *r, const tsr_pending *pending, tsr_error *error) {
  tsr_store *store = r->array->store;
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH], path[TSR_COMMIT_PATH];
  if (!tsr__pending_paths(pending->commit, marker, staged)) return TSR_OK;
  bool new_layout = strncmp(pending->commit, TSR_DIR_COMMITS "/", strlen(TSR_DIR_COMMITS "/")) == 0;
  if (new_layout) TSR_TRY(tsr__store_own(store, TSR_DIR_COMMITS, error));
  if (new_layout) TSR_TRY(tsr__store_own(store, TSR_DIR_FRAGMENTS, error));
  if (new_layout && *staged) TSR_TRY(tsr__pending_unmark(store, staged, error));
  for (uint64_t i = 0; i < pending->fragment_count; i++) {
    snprintf(path, sizeof path, "%s%.127s", new_layout ? TSR_DIR_FRAGMENTS "/" : "", pending->fragments[i]);
    TSR_TRY(tsr__store_remove_tree(store, path, error));
  }
  return TSR_OK;
}

/* Publishes a commit that cannot keep its time (recover_late.c). Returns 1 if it did; 0 if the commit can keep its
 * time. tsr__publish_late lists the array anew, so r->published is opened again. */
static int recover_publish_late(recovery *r, const recover_found *f, tsr_error *error) {
  const int late = tsr__publish_late(r->array, &f->pending, r->file, error);
  if (late < 0) return late;
  tsr__published_release(&r->published);
  TSR_TRY(tsr__published_open(r->array, &r->published, error));
  if (late == 0) return 0;
  /* Another commit has taken its place. The marker is removed before the fragments: a marker without its fragments
   * would look like a lost commit. */
  TSR_TRY(tsr__pending_unmark(r->array->store, f->marker, error));
  TSR_TRY(undo_commit(r, &f->pending, error));
  return 1;
}

/* Publishes a commit that its database has committed. If its files are gone, it either was published and merged and
 * only its marker stayed, which returns 0; or it is lost, which is an error. */
static int recover_publish(recovery *r, const recover_found *f, tsr_error *error) {
  const tsr_pending *pending = &f->pending;
  const int late = recover_publish_late(r, f, error);
  if (late) return late;
  const int complete = tsr__pending_is_complete(r->array->store, pending, error);
  if (complete < 0) return complete;
  if (complete == 0 && tsr__listing_took_up(r->array->listing, pending)) return 0;
  if (complete == 0) return tsr__pending_fail_gone(pending->commit, error);
  if (r->file) TSR_TRY(tsr__pending_settle(&r->array->memory, r->file, error));
  return tsr__pending_publish(r->array->store, pending->commit, true, error);
}

/* Settles one prepared commit. Returns 1 if it was undone, 0 if not. A commit that must be published is only noted in
 * f->publish: publishing waits until all other commits are settled. */
static int recover_settle(recovery *r, recover_found *f, tsr_error *error) {
  tsr_store *store = r->array->store;
  const tsr_prepared prepared = recover_describe(f, false, 0);
  if (f->writer == TSR_WRITER_LIVES) return 0;
  int rc = tsr__published_has(&r->published, &f->pending, error);
  if (rc < 0) return rc;
  if (rc > 0) { /* the process that published it may have died in the middle: finish that */
    TSR_TRY(rc = tsr__pending_published(store, f->pending.commit, error));
    if (rc > 0) TSR_TRY(tsr__pending_publish(store, f->pending.commit, true, error));
    TSR_TRY(tsr__pending_unmark(store, f->marker, error));
    return 0;
  }
  switch (r->decide(r->argument, &prepared)) {
  case TSR_VERDICT_LEAVE: return 0;
  case TSR_VERDICT_PUBLISH: f->publish = true; return 0;
  case TSR_VERDICT_UNDO:
    if (f->pending.locked && f->writer != TSR_WRITER_GONE) return 0;
    TSR_TRY(undo_commit(r, &f->pending, error));
    break;
  }
  TSR_TRY(tsr__pending_unmark(store, f->marker, error));
  return 1;
}

static int publish_one(recovery *r, recover_found *f, tsr_error *error) {
  const int rc = f->publish ? recover_publish(r, f, error) : 0;
  if (rc >= 0 && f->publish) TSR_TRY(tsr__pending_unmark(r->array->store, f->marker, error));
  return rc;
}

static int settle_all(recovery *r, int (*one)(recovery *r, recover_found *f, tsr_error *error), tsr_error *error) {
  int rc = TSR_OK;
  for (uint64_t i = 0; rc >= 0 && i < marker_count(r); i++) {
    rc = one(r, marker_at(r, i), error);
    if (rc > 0) r->changed++;
  }
  return rc;
}

static bool all_live(const recovery *r) {
  for (uint64_t i = 0; i < marker_count(r); i++)
    if (marker_at(r, i)->writer != TSR_WRITER_LIVES) return false;
  return true;
}

static void recover_release(recovery *r) {
  tsr__buffer_release(&r->markers);
  tsr__arena_release(&r->arena);
}

/* Returns true if an error of reading the published commits must be reported. A damaged file is not reported here:
 * recovery then leaves all markers as they are. */
static bool must_stop(int rc) {
  return rc == TSR_NOMEM || rc == TSR_INTERRUPT || rc == TSR_BUSY || rc == TSR_IO || rc == TSR_UNREACHABLE;
}

/* Settles merges that died before their vacuum file had its name, and all markers, undoing before publishing: the rest of an earlier attempt to publish a commit late is undone
 * first, because it would look like the fragment of a writer in progress (recover_late.c). */
static int recover_array(recovery *r, tsr_error *error) {
  tsr_error doubt;
  TSR_TRY(tsr__array_list(r->array, true, false, error));
  TSR_TRY(tsr__staged_vacuums_finish(r->array, error));
  TSR_TRY(tsr__undouble(r->array, error));
  TSR_TRY(find_markers(r, error));
  if (all_live(r)) return TSR_OK;
  int rc = tsr__published_open(r->array, &r->published, &doubt);
  if (rc < 0 && must_stop(rc)) return *error = doubt, rc;
  if (rc >= 0) {
    rc = settle_all(r, recover_settle, error);
    if (rc >= 0) rc = settle_all(r, publish_one, error);
    tsr__published_release(&r->published);
    TSR_TRY(rc);
  }
  return tsr__array_list(r->array, true, true, error);
}

int tsr_array_recover(tsr_array *array, const char *file,
                      tsr_verdict (*decide)(void *argument, const tsr_prepared *prepared), void *argument,
                      uint64_t *changed, tsr_error *error) {
  TSR_OWN_ERROR(error);
  recovery r = {.array = array, .file = file, .decide = decide, .argument = argument, .markers.memory = &array->memory};
  tsr__arena_init(&r.arena, &array->memory);
  const int rc = recover_array(&r, error);
  if (changed) *changed += r.changed;
  recover_release(&r);
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}

/* ---- Commits whose database is gone ------------------------------------------------------------------------------ */

static void recover_refuse(recovery *r, const char *marker, const char *why) {
  if (!r->refused++) snprintf(r->why, sizeof r->why, "%.127s %s", marker, why);
}

/* Removes one prepared commit, unless it has to stay. Returns 1 if it was removed, 0 if not. If locks cannot be tested,
 * the age alone decides. */
static int disown_one(recovery *r, recover_found *f, tsr_error *error) {
  tsr_store *store = r->array->store;
  const tsr_prepared prepared = recover_describe(f, false, 0);
  uint64_t age;
  const int published = tsr__published_has(&r->published, &f->pending, error);
  if (published < 0) return published;
  if (f->writer == TSR_WRITER_LIVES) {
    if (!published) recover_refuse(r, f->marker, "has a writer that lives");
    return 0;
  }
  if (!published) {
    const tsr_verdict verdict = r->decide(r->argument, &prepared);
    if (verdict == TSR_VERDICT_LEAVE) return 0;
    if (verdict == TSR_VERDICT_PUBLISH) {
      const int complete = tsr__pending_is_complete(store, &f->pending, error);
      if (complete != 0) return complete < 0 ? complete : 0; /* its database can still publish it */
    }
    const int rc = find_age(r, f->marker, &age, error);
    if (rc == TSR_NOT_FOUND) return 0; /* the marker is gone: somebody else has settled the commit */
    TSR_TRY(rc);
    if (verdict == TSR_VERDICT_UNDO && age < RECOVER_DAY) {
      recover_refuse(r, f->marker, "is not 24 hours old");
      return 0;
    }
    TSR_TRY(undo_commit(r, &f->pending, error));
  }
  TSR_TRY(tsr__pending_unmark(store, f->marker, error));
  return 1;
}

/* Removes markers that were not written to their end and are a day old. Their fragments still have temporary names, and
 * a vacuum removes them. */
static int remove_incomplete_markers(recovery *r, tsr_error *error) {
  tsr_listing entries = {.memory = &r->array->memory};
  tsr_store *store = r->array->store;
  int rc = tsr__store_list(store, TSR_DIR_COMMITS, &entries, error);
  if (rc == TSR_NOT_FOUND) return TSR_OK;
  for (uint64_t i = 0; rc >= 0 && i < entries.count; i++) {
    uint64_t stem, age;
    tsr_pending pending;
    bool locked = false;
    tsr_error one;
    if (entries.entries[i].kind != TSR_ENTRY_FILE ||
        !tsr__name_suffix(entries.entries[i].name, TSR_SUFFIX_PENDING, &stem))
      continue;
    tsr_path p = tsr__path_of(TSR_DIR_COMMITS, entries.entries[i].name, "");
    if ((rc = tsr__pending_read(store, p.text, &r->arena, &pending, error)) == TSR_NOT_FOUND) rc = 1; /* it is gone */
    if (rc != 0) continue; /* a complete marker, or an error */
    if (find_age(r, p.text, &age, &one) < 0 || age < RECOVER_DAY)
      continue; /* the marker is gone, or its writer may still be writing it */
    if (tsr__pending_is_locked(store, p.text, &locked, &one) >= 0 && locked) continue;
    rc = tsr__pending_unmark(store, p.text, error);
    r->changed += rc >= 0;
  }
  tsr__listing_release(&entries);
  return rc < 0 ? rc : TSR_OK;
}

static int disown_array(recovery *r, tsr_error *error) {
  TSR_TRY(tsr__published_open(r->array, &r->published, error));
  int rc = find_markers(r, error);
  if (rc >= 0) rc = settle_all(r, disown_one, error);
  if (rc >= 0) rc = remove_incomplete_markers(r, error);
  tsr__published_release(&r->published);
  TSR_TRY(rc);
  TSR_TRY(tsr__array_list(r->array, true, true, error));
  if (!r->refused) return TSR_OK;
  return tsr__fail(error, TSR_BUSY, "%s: %llu prepared commits were removed, %llu are left", r->why,
                   (unsigned long long)r->changed, (unsigned long long)r->refused);
}

int tsr_array_disown(tsr_array *array, tsr_verdict (*decide)(void *argument, const tsr_prepared *prepared),
                     void *argument, uint64_t *changed, tsr_error *error) {
  TSR_OWN_ERROR(error);
  recovery r = {.array = array, .decide = decide, .argument = argument, .markers.memory = &array->memory};
  tsr__arena_init(&r.arena, &array->memory);
  const int rc = disown_array(&r, error);
  if (changed) *changed += r.changed;
  recover_release(&r);
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}

int tsr_array_has_marker(tsr_array *array, const char *commit, tsr_error *error) {
  TSR_OWN_ERROR(error);
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  bool exists = false;
  if (!tsr__pending_paths(commit, marker, staged))
    return tsr__fail(error, TSR_RANGE, "'%s' is not the path of a commit", commit);
  if (!strcmp(commit, array->settled)) return 0;
  const int rc = tsr__store_find(array->store, marker, &exists, error);
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : exists;
}

/* ---- Listing prepared commits ------------------------------------------------------------------------------------ */

static int show_all(recovery *r, int (*show)(void *argument, const tsr_prepared *prepared), tsr_error *error) {
  TSR_TRY(tsr__published_open(r->array, &r->published, error));
  int rc = find_markers(r, error);
  for (uint64_t i = 0; rc >= 0 && i < marker_count(r); i++) {
    const recover_found *f = marker_at(r, i);
    uint64_t age = 0;
    const int published = tsr__published_has(&r->published, &f->pending, error);
    rc = published < 0 ? published : find_age(r, f->marker, &age, error);
    if (rc == TSR_NOT_FOUND) { /* the marker is gone; the others are still to be shown */
      rc = TSR_OK;
      continue;
    }
    const tsr_prepared prepared = recover_describe(f, published > 0, age);
    if (rc >= 0 && (rc = show(r->argument, &prepared)) < 0) rc = tsr__fail(error, rc, "stopped by the caller");
  }
  tsr__published_release(&r->published);
  TSR_TRY(rc);
  return tsr__array_list(r->array, true, true, error);
}

int tsr_array_prepared(tsr_array *array, int (*show)(void *argument, const tsr_prepared *prepared), void *argument,
                       tsr_error *error) {
  TSR_OWN_ERROR(error);
  recovery r = {.array = array, .argument = argument, .markers.memory = &array->memory};
  tsr__arena_init(&r.arena, &array->memory);
  const int rc = show_all(&r, show, error);
  recover_release(&r);
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}
