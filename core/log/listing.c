/* listing.c: lists an array: which names its directories have, in a state that they had at one moment. entries.c knows
 * what the names mean.
 *
 * Consistency. Others create and remove files while we list. A listing may lack a file created meanwhile, and also the
 * file that it replaces, which was removed meanwhile. So each directory must be listed in a state that it had at one
 * moment: the store guarantees it, or the directory's stamp did not change, or two listings in a row are equal. If
 * directories contradict each other (a marker's commit was published in between, a listed file is gone), the renewal
 * fails with TSR_ABORT and is repeated.
 *
 * Renewal. A listing is renewed only if a commit may have appeared. Commits appear in __commits, schemas in __schema.
 * Only commits of the old layout appear in the array's own directory, which is not checked if all schemas and names are
 * newer than that. A fragment of version 3 or 4 appears with its metadata file, one level below, so these files are
 * looked up by name. New files in __fragment_meta only save reads, so they are found whenever the rest is listed.
 *
 * Additions. If only a few .wrt files have appeared, they are added to the last listing, and only their names are
 * parsed. So a transaction costs one pass over the names in __commits, and work for the commits since the last one.
 *
 * Sections: directories; building a listing; renewal; additions.
 */
#include <string.h>
#include <time.h>

#include "log/log.h"
#include "format/layout.h"
#include "base/arithmetic.h"
#include "base/clock.h"
#include "base/system.h"
#include "store/store.h"
#include "environment/environment.h"

#define LISTINGS 1000 /* attempts to list one directory, since others may commit or vacuum meanwhile */
#define RENEWALS 64 /* attempts to list the array, since others may publish and vacuum meanwhile */
#define FEW      4 /* new fragments whose footers may be read one by one */
#define ADDED    64 /* .wrt files that may be added to a listing; FEW if reading a footer costs a request */
#define PAUSE    100 /* ms to wait if a server's listing lags behind */

/* ---- Directories ------------------------------------------------------------------------------------------------- */

/* Returns the path of a directory; that of the root is "". */
static const char *directory_path(tsr_directory which) {
  static const char *const paths[TSR_DIRECTORIES] = {"", TSR_DIR_SCHEMA, TSR_DIR_COMMITS, TSR_DIR_FOOTERS,
                                                     TSR_DIR_META};
  return paths[which];
}

/* Forgets the listing of a directory. */
static void directory_forget(tsr_array_directories *directories, tsr_directory which) {
  tsr__listing_release(&directories->lists[which]);
  directories->listed[which] = false;
}

static void directories_release(tsr_array_directories *directories) {
  for (int i = 0; i < TSR_DIRECTORIES; i++) directory_forget(directories, (tsr_directory)i);
}

/* Lists the given directories that are not listed yet, in this order or all at once. */
static int directories_list(tsr_array_directories *directories, const tsr_directory *which, unsigned count,
                            tsr_error *error) {
  const char *paths[TSR_DIRECTORIES] = {0};
  tsr_listing lists[TSR_DIRECTORIES];
  tsr_stamp stamps[TSR_DIRECTORIES];
  tsr_directory missing[TSR_DIRECTORIES];
  unsigned n = 0;
  for (unsigned i = 0; i < count; i++)
    if (!directories->listed[which[i]]) {
      missing[n] = which[i];
      paths[n++] = directory_path(which[i]);
    }
  if (n == 0) return TSR_OK;
  if (directories->with_metadata && !directories->listed[TSR_IN_METADATA]) {
    missing[n] = TSR_IN_METADATA;
    paths[n++] = directory_path(TSR_IN_METADATA);
  }
  TSR_TRY(tsr__store_list_many(directories->store, paths, n, lists, stamps, error));
  for (unsigned i = 0; i < n; i++) {
    directories->lists[missing[i]] = lists[i];
    directories->stamps[missing[i]] = stamps[i];
    directories->listed[missing[i]] = true;
  }
  return TSR_OK;
}

/* Returns 1 if the stamp of a listed directory proves that it has not changed since before the listing, else 0. */
static int directory_is_steady(const tsr_array_directories *directories, tsr_directory which, tsr_error *error) {
  const tsr_stamp *stamp = &directories->stamps[which];
  tsr_stamp now;
  if (!stamp->known) return 0;
  TSR_TRY(tsr__store_stamp(directories->store, directory_path(which), &now, error));
  return tsr__same_stamp(stamp, &now);
}

/* Returns true if the listings are equal. All listings are sorted by name. */
static bool same_entries(const tsr_listing *a, const tsr_listing *b) {
  if (a->count != b->count || a->missing != b->missing) return false;
  for (uint64_t i = 0; i < a->count; i++)
    if (a->entries[i].kind != b->entries[i].kind || strcmp(a->entries[i].name, b->entries[i].name) != 0) return false;
  return true;
}

static int list_again(const tsr_array_directories *directories, tsr_directory which, tsr_listing *again,
                      tsr_error *error) {
  *again = (tsr_listing){.memory = directories->store->memory};
  const int rc = tsr__store_list(directories->store, directory_path(which), again, error);
  again->missing = rc == TSR_NOT_FOUND;
  return again->missing ? TSR_OK : rc;
}

/* Repeats the listing of a directory until it is a state that the directory had at one moment. Returns 1 if it had to
 * be repeated, else 0. Fails with TSR_BUSY if the directory changes faster than it can be listed. */
static int list_until_steady(tsr_array_directories *directories, tsr_directory which, tsr_error *error) {
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
  return tsr__fail(error, TSR_BUSY, "%s changes faster than it can be listed", directory_path(which));
}

/* Returns 1 if a listed directory still has the same entries, else 0. */
static int directory_is_same(const tsr_array_directories *directories, tsr_directory which, tsr_error *error) {
  tsr_listing again;
  const int rc = directory_is_steady(directories, which, error);
  if (rc) return rc;
  TSR_TRY(list_again(directories, which, &again, error));
  const bool same = same_entries(&directories->lists[which], &again);
  tsr__listing_release(&again);
  return same;
}

/* ---- Building a listing ------------------------------------------------------------------------------------------ */

int tsr__renewal_copy_text(tsr_renewal *r, const char *text, uint64_t size, const char **copy) {
  TSR_TRY(TSR_ARENA_COPY(&r->listing->arena, text, size, copy, r->error));
  return TSR_OK;
}

int tsr__renewal_join_path(tsr_renewal *r, const char *directory, const char *name, const char **path) {
  uint64_t size = strlen(directory), more = strlen(name);
  char *text;
  TSR_TRY(TSR_ARENA_RAW(&r->listing->arena, size + more + 2, &text, r->error));
  memcpy(text, directory, size);
  if (size > 0) text[size++] = '/';
  memcpy(text + size, name, more + 1);
  *path = text;
  return TSR_OK;
}

int tsr__renewal_append(tsr_renewal *r, tsr_commit_list *list, const tsr_committed *item) {
  TSR_TRY(TSR_ARENA_GROW(&r->listing->arena, &list->items, list->count, &list->capacity, 16, r->error));
  list->items[list->count++] = *item;
  return TSR_OK;
}

int tsr__renewal_add_fragment(tsr_renewal *r, const char *name, const tsr_name *parsed, bool old_layout) {
  static const char present;
  if (tsr__map_get(&r->listing->names, name)) return TSR_OK; /* a .con and a .wrt may both name a fragment */
  TSR_TRY(tsr__map_put(&r->listing->names, name, (void *)(uintptr_t)&present, r->error));
  tsr_committed item = {.name = name, .parsed = *parsed, .old_layout = old_layout, .prepared = r->counting};
  const int rc = tsr__renewal_append(r, &r->listing->fragments, &item);
  if (rc < 0) (void)tsr__map_remove(&r->listing->names, name); /* the last listing, which is extended, may stay */
  return rc;
}

int tsr__renewal_read_file(tsr_renewal *r, const char *name, const tsr_commit_file **file) {
  const char *path;
  TSR_TRY(tsr__renewal_join_path(r, TSR_DIR_COMMITS, name, &path));
  TSR_TRY(tsr__log_file(r->log, path, file, r->error));
  tsr__commit_file_keep(r->log, path, r->listing->generation);
  return TSR_OK;
}

int tsr__renewal_add_delete(tsr_renewal *r, const tsr_committed *item) {
  if (tsr__map_get(&r->deletes, item->name)) return TSR_OK; /* a .con and a .del may both have it */
  tsr_committed added = *item;
  added.prepared = r->counting;
  TSR_TRY(tsr__renewal_append(r, &r->listing->deletes, &added));
  return tsr__map_put(&r->deletes, item->name, (void *)(uintptr_t)item->name, r->error);
}

static bool is_ignored(tsr_renewal *r, const char *name, bool old_layout) {
  char text[192];
  uint64_t size = strlen(name);
  if (r->ignored.count == 0 || size + 5 > sizeof text) return false;
  memcpy(text, name, size);
  strcpy(text + size, old_layout ? TSR_SUFFIX_OLD_WRITE : TSR_SUFFIX_WRITE);
  return tsr__map_get(&r->ignored, text) != NULL;
}

int tsr__renewal_add_con_entry(tsr_renewal *r, const char *path, const tsr_commit *commit) {
  tsr_committed item = {.name = commit->name, .path = path, .bytes = commit->bytes, .size = commit->size};
  if (!tsr__name_parse(commit->name, strlen(commit->name), &item.parsed))
    return tsr__fail(r->error, TSR_CORRUPT, "%s: '%s' is not a timestamped name", path, commit->name);
  /* the name is borrowed from the file, which lives as long as the listing */
  if (commit->kind == TSR_COMMIT_DELETE) return tsr__renewal_add_delete(r, &item);
  if (commit->kind == TSR_COMMIT_UPDATE)
    return tsr__fail(r->error, TSR_UNSUPPORTED, "%s: update conditions ('%s') are not supported", path, commit->name);
  bool old_layout = !layout_has_commits_folder(item.parsed.version);
  if (is_ignored(r, commit->name, old_layout)) return TSR_OK;
  TSR_TRY(tsr__map_put(&r->in_con, commit->name, commit->name, r->error));
  if (old_layout) return TSR_OK;
  tsr_commit_list *fragments = &r->listing->fragments;
  const uint64_t before = fragments->count;
  TSR_TRY(tsr__renewal_add_fragment(r, item.name, &item.parsed, false));
  if (fragments->count > before) fragments->items[before].joined = true;
  return TSR_OK;
}

/* ---- Renewal ----------------------------------------------------------------------------------------------------- */

/* It is certain once all schemas are loaded and of version 12 or later, because no library writes fragments of an older
 * version than the schema's. */
bool tsr__log_is_new_layout(const tsr_log *log) {
  tsr_commit_listing *listing = log->listing;
  if (listing->new_layout) return true;
  if (listing->old_layout) return false;
  for (uint64_t i = 0; i < listing->schemas.count; i++)
    if (!layout_has_commits_folder(log->schema_version(log->array, listing->schemas.items[i].name))) return false;
  return listing->new_layout = true;
}

/* Returns true for the path of a directory that depends on the program's current one. */
static bool is_relative(const tsr_log *log) {
  return strncmp(log->path, "db:", 3) != 0 && !strstr(log->path, "://") && tsr__path_root(log->path) == 0;
}

/* Fails if the array's directory is missing. */
static int check_root_exists(tsr_renewal *r) {
  uint64_t when;
  if (!r->directories->lists[TSR_IN_ROOT].missing) return TSR_OK;
  if (tsr__store_modified(r->log->store, "", &when, NULL) >= 0) /* something is there, but it cannot be listed */
    return tsr__fail(r->error, TSR_NOT_FOUND, "array not found: %s: it is not a directory", r->log->path);
  return tsr__fail(r->error, TSR_NOT_FOUND, "array not found: %s%s", r->log->path,
                   is_relative(r->log) ? "; a relative path begins at the program's current directory" : "");
}

/* Returns true if the listed directory __schema has exactly the schemas of the last listing. */
static bool has_same_schemas(const tsr_renewal *r) {
  const tsr_listing *entries = &r->directories->lists[TSR_IN_SCHEMAS];
  const tsr_commit_list *last = &r->log->listing->schemas;
  uint64_t same = 0;
  tsr_name parsed;
  for (uint64_t i = 0; i < entries->count; i++) {
    if (!tsr__entry_is_schema(&entries->entries[i], &parsed)) continue;
    if (same == last->count || strcmp(last->items[same].name, entries->entries[i].name) != 0) return false;
    same++;
  }
  return same == last->count && same > 0;
}

/* Returns true if __schema and __commits are listed, and __commits has only a few fragments that the last listing
 * lacks. Then a request that lists new footers would save nothing. */
static bool adds_few(const tsr_renewal *r) {
  const tsr_commit_listing *last = r->log->listing;
  const tsr_listing *entries = &r->directories->lists[TSR_IN_COMMITS];
  const bool *listed = r->directories->listed;
  char name[TSR_COMMIT_PATH];
  uint64_t added = 0;
  if (!r->log->store->stamps_are_listings || !last->complete || !listed[TSR_IN_COMMITS] || !listed[TSR_IN_SCHEMAS])
    return false;
  for (uint64_t i = 0; i < entries->count; i++) {
    const char *text = entries->entries[i].name;
    uint64_t stem;
    if (tsr__name_suffix(text, TSR_SUFFIX_WRITE, &stem) && stem < sizeof name) {
      memcpy(name, text, stem);
      name[stem] = 0;
      added += tsr__map_get(&last->names, name) == NULL;
    } else if (tsr__name_ends_in(text, TSR_SUFFIX_CONSOLIDATED) &&
               !tsr__map_get(&r->log->files.by_path, tsr__path_of(TSR_DIR_COMMITS, text, "").text))
      return false;
  }
  return added <= FEW;
}

/* Lists the array's directories in one call. Leaves out the array's own directory if it was seen before: in the new
 * layout nothing in it matters as long as the schemas are the same. In the old layout __commits must be listed after
 * it: a vacuum in between may remove fragments that the first listing has, but only after the fragment that replaces
 * them was committed, which the second listing then has. */
static int list_directories(tsr_renewal *r, bool commits) {
  static const tsr_directory order[] = {TSR_IN_ROOT, TSR_IN_SCHEMAS, TSR_IN_FOOTERS, TSR_IN_COMMITS};
  tsr_array_directories *d = r->directories;
  const unsigned end = commits ? 4 : 2;
  const tsr_commit_listing *last = r->log->listing;
  const bool seen = last && (last->complete || r->log->store->stamps_are_listings);
  if (seen && !r->need_root && !d->listed[TSR_IN_ROOT] && tsr__log_is_new_layout(r->log)) {
    r->last_footers = commits && adds_few(r);
    if (!r->last_footers) TSR_TRY(directories_list(d, order + 1, end - 1, r->error));
    if (has_same_schemas(r)) return TSR_OK;
    r->last_footers = false;
    directories_release(d);
  }
  TSR_TRY(directories_list(d, order, end, r->error));
  TSR_TRY(check_root_exists(r));
  const int again = list_until_steady(d, TSR_IN_ROOT, r->error);
  TSR_TRY(check_root_exists(r));
  if (again <= 0 || !commits) return again;
  directory_forget(d, TSR_IN_FOOTERS);
  directory_forget(d, TSR_IN_COMMITS);
  return directories_list(d, order + 2, 2, r->error);
}

/* Read-your-writes: fails with TSR_ABORT, after a short pause, if a server's listing lacks our own last commit although
 * the object exists. Such a server is not consistent, so commits of others may be missing, too. */
static int check_own_commit(tsr_log *log, const tsr_listing *entries, tsr_error *error) {
  const struct timespec pause = {.tv_nsec = PAUSE * 1000000};
  const char *slash = strrchr(log->own_commit, '/');
  uint64_t when;
  tsr_error one;
  if (!log->own_commit_unlisted) return TSR_OK;
  log->own_commit_unlisted = false;
  if (!slash || tsr__listing_has(entries, slash + 1)) return TSR_OK;
  const int rc = tsr__store_modified(log->store, log->own_commit, &when, &one);
  if (rc == TSR_NOT_FOUND) return TSR_OK; /* it has been merged and vacuumed since */
  log->own_commit_unlisted = true;
  if (rc < 0) return *error = one, rc;
  TSR_TRY(tsr__cancelled(&log->environment->memory, error));
  nanosleep(&pause, NULL);
  return tsr__fail(error, TSR_ABORT,
                   "%s is there, but the server's listing lacks it: a server must list at once what was written",
                   log->own_commit);
}

/* Fails with TSR_ABORT if the array's directory has changed since it was listed. __commits is listed after it. A vacuum
 * in between may have removed both fragments that the first listing has, and the vacuum file that would hide them in
 * the second. Call only if the directory has committed names (old layout). */
static int check_root(tsr_renewal *r) {
  const int same = directory_is_same(r->directories, TSR_IN_ROOT, r->error);
  if (same) return same < 0 ? same : TSR_OK;
  return tsr__fail(r->error, TSR_ABORT, "it changes while it is listed");
}

static int list_commits(tsr_renewal *r) {
  const tsr_listing *entries = &r->directories->lists[TSR_IN_COMMITS];
  int rc = list_until_steady(r->directories, TSR_IN_COMMITS, r->error);
  if (rc >= 0) rc = check_own_commit(r->log, entries, r->error);
  if (rc >= 0) rc = tsr__entries_add_commits(r);
  tsr__count(r->log->environment, TSR_COUNT_commits_listed, entries->count);
  return rc >= 0 && r->listing->old_layout ? check_root(r) : rc;
}

static int list_all(tsr_renewal *r, bool commits) {
  TSR_TRY(list_directories(r, commits));
  TSR_TRY(tsr__entries_add_schemas(r));
  if (!commits) return TSR_OK;
  const int rc = list_commits(r);
  return rc == TSR_NOT_FOUND ? TSR_ABORT : rc; /* a listed file is gone: list again */
}

static void free_listing(tsr_commit_listing *listing) {
  tsr__map_release(&listing->names);
  tsr__listing_release(&listing->commits);
  tsr__arena_release(&listing->arena);
  tsr__free(listing);
}

/* Keeps the entries of __commits, with which the next ones are compared (find_added). */
static void keep_commits(tsr_commit_listing *listing, tsr_array_directories *directories) {
  tsr__listing_release(&listing->commits);
  listing->commits = directories->lists[TSR_IN_COMMITS];
  directories->lists[TSR_IN_COMMITS] = (tsr_listing){0};
}

/* Replaces the array's listing by a new one. Some of `directories` may be listed already. On an error the last listing
 * stays, and *doubtful is the path of the file whose age says whether a retry may help, or ''. */
static int renew(tsr_log *log, bool commits, bool force, tsr_array_directories *directories, tsr_path *doubtful,
                 tsr_error *error) {
  tsr_commit_listing *listing;
  TSR_TRY(TSR_ALLOC(log->memory, &listing, error));
  tsr_memory *memory = log->memory;
  tsr_renewal r = {.log = log, .directories = directories, .listing = listing, .need_root = force, .error = error};
  r.ignored.memory = r.in_con.memory = r.deletes.memory = r.ok.memory = r.metas.memory = r.ruled_out.memory =
      r.gone.memory = memory;
  listing->names.memory = memory;
  tsr__arena_init(&listing->arena, memory);
  listing->generation = listing->appended_since = log->listing ? log->listing->generation + 1 : 1;
  listing->complete = commits;
  listing->moment.listed = tsr__moment();
  listing->moment.changes = log->store->changes;
  int rc = tsr__commit_files_outdate(log, error);
  if (rc >= 0) rc = list_all(&r, commits);
  for (int i = 0; i < TSR_LISTING_STAMPS; i++) listing->moment.stamps[i] = directories->stamps[i];
  *doubtful = r.doubtful;
  tsr__map_release(&r.ignored);
  tsr__map_release(&r.in_con);
  tsr__map_release(&r.deletes);
  tsr__map_release(&r.ok);
  tsr__map_release(&r.metas);
  tsr__map_release(&r.ruled_out);
  tsr__buffer_release(&r.gone);
  if (rc < 0) {
    free_listing(listing);
    return rc;
  }
  if (log->listing) free_listing(log->listing);
  log->listing = listing;
  keep_commits(listing, directories);
  tsr__commit_files_prune(&log->files, listing->generation);
  return TSR_OK;
}

/* Returns 1 if a directory where a commit or a schema may appear has changed, else 0. If a stamp costs as much as a
 * listing, it lists them, so that a tsr_renewal need not do it again. */
static int has_changed_directory(tsr_log *log, bool commits, tsr_array_directories *directories, tsr_error *error) {
  static const tsr_directory order[] = {TSR_IN_ROOT, TSR_IN_SCHEMAS, TSR_IN_COMMITS};
  const unsigned first = tsr__log_is_new_layout(log) ? 1 : 0, count = (commits ? 3 : 2) - first;
  const char *paths[TSR_LISTING_STAMPS];
  tsr_stamp now[TSR_LISTING_STAMPS];
  for (unsigned i = 0; i < count; i++) {
    if (!log->listing->moment.stamps[order[first + i]].known) return 1;
    paths[i] = directory_path(order[first + i]);
  }
  if (!log->store->stamps_are_listings) TSR_TRY(tsr__store_stamp_many(log->store, paths, count, now, error));
  else TSR_TRY(directories_list(directories, order + first, count, error));
  for (unsigned i = 0; i < count; i++) {
    const tsr_directory which = order[first + i];
    const tsr_stamp *stamp = log->store->stamps_are_listings ? &directories->stamps[which] : &now[i];
    if (!tsr__same_stamp(&log->listing->moment.stamps[which], stamp)) return 1;
  }
  return 0;
}

/* Returns 1 if the listing must be renewed, 0 if not. */
static int has_changed(tsr_log *log, bool commits, tsr_array_directories *directories, tsr_error *error) {
  const tsr_commit_listing *listing = log->listing;
  if (!listing || (commits && !listing->complete)) return 1;
  int rc = has_changed_directory(log, commits, directories, error);
  if (rc < 0) tsr__wrap(error, "array %s", log->path);
  if (rc) return rc;
  if (commits && tsr__listing_newly_committed(log)) return 1;
  if (commits) TSR_TRY(rc = tsr__commit_files_changed(log, error));
  if (rc > 0) return 1;
  bool exists;
  for (uint64_t i = 0; commits && i < listing->pending.count; i++)
    if (tsr__store_find(log->store, listing->pending.items[i].path, &exists, NULL) < 0 || exists) return 1;
  return 0;
}

/* ---- Additions --------------------------------------------------------------------------------------------------- */

/* Returns true if the last listing depends on nothing but __schema and the names in __commits: it has no prepared or
 * pending commits, which become visible by other means, and no unfinished files. */
static bool may_extend(const tsr_log *log) {
  const tsr_commit_listing *l = log->listing;
  return l && l->complete && l->pending.count == 0 && l->prepared.markers.count == 0 && l->truncated_con.count == 0 &&
         !l->staged_vacuum && !log->host.unpublished;
}

/* Finds the .wrt files in __commits that the last entries lack. Returns false if there are more than `most`, or if
 * anything else has changed. Both listings are sorted, so that only new names are looked at closely. */
static bool find_added(const tsr_listing *last, const tsr_listing *entries, uint64_t most, const char **added,
                       uint64_t *count) {
  uint64_t next = 0;
  *count = 0;
  for (uint64_t i = 0; i < entries->count; i++) {
    const char *text = entries->entries[i].name;
    const int order = next < last->count ? strcmp(last->entries[next].name, text) : 1;
    if (order < 0) return false; /* an entry is gone */
    if (order == 0) next++;
    else if (*count == most || !tsr__name_ends_in(text, TSR_SUFFIX_WRITE)) return false;
    else added[(*count)++] = text;
  }
  return next == last->count;
}

/* Adds .wrt files to the last listing, which gets a new generation. If an error leaves some out, the stamp of __commits
 * stays unknown, so the next statement lists the array again. */
static int add_writes(tsr_log *log, tsr_array_directories *directories, const char *const *added, uint64_t count,
                      tsr_error *error) {
  tsr_commit_listing *l = log->listing;
  tsr_renewal r = {.log = log,
                   .directories = directories,
                   .listing = l,
                   .future = tsr__environment_now() + TSR_TIME_AHEAD,
                   .error = error};
  bool moved;
  l->generation++;
  l->moment.stamps[TSR_IN_COMMITS].known = false;
  const int rc = tsr__entries_append_writes(&r, added, count, &moved);
  if (moved) l->appended_since = l->generation;
  if (rc >= 0) l->moment.stamps[TSR_IN_COMMITS] = directories->stamps[TSR_IN_COMMITS];
  return rc;
}

/* Renews the last listing if only a few .wrt files were added. Returns 1 if it did, 0 if the array must be listed from
 * scratch. */
static int extend(tsr_log *log, tsr_array_directories *directories, tsr_error *error) {
  static const tsr_directory commits = TSR_IN_COMMITS;
  const char *added[ADDED];
  uint64_t count;
  if (!may_extend(log) || !tsr__log_is_new_layout(log)) return 0;
  const uint64_t listed = tsr__moment(), changes = log->store->changes;
  int rc = has_changed_directory(log, false, directories, error);
  if (rc == 0) rc = tsr__commit_files_changed(log, error);
  if (rc) return rc < 0 ? rc : 0;
  TSR_TRY(directories_list(directories, &commits, 1, error));
  TSR_TRY(list_until_steady(directories, commits, error));
  const tsr_listing *entries = &directories->lists[commits];
  TSR_TRY(check_own_commit(log, entries, error));
  const uint64_t most = log->store->stamps_are_listings ? FEW : ADDED;
  if (!find_added(&log->listing->commits, entries, most, added, &count)) return 0;
  tsr__count(log->environment, TSR_COUNT_commits_listed, entries->count);
  log->listing->moment.listed = listed;
  log->listing->moment.changes = changes;
  if (count > 0) TSR_TRY(add_writes(log, directories, added, count, error));
  else log->listing->moment.stamps[commits] = directories->stamps[commits];
  log->listing->written += count;
  keep_commits(log->listing, directories);
  return 1;
}

/* Keeps the listing of __meta for tsr__log_take_metadata. */
static void keep_metadata(tsr_log *log, tsr_array_directories *directories) {
  if (!directories->listed[TSR_IN_METADATA]) return;
  tsr__listing_release(&log->metadata.entries);
  log->metadata.entries = directories->lists[TSR_IN_METADATA];
  log->metadata.listed = tsr__moment();
  log->metadata.changes = log->environment->metadata_changes;
  directories->lists[TSR_IN_METADATA] = (tsr_listing){0};
}

/* One attempt to renew the listing if it is outdated. Returns 0 if it is up to date now; 1 if a file that may still be
 * growing is in the way. *last: the result is final; else try again. */
static int renew_once(tsr_log *log, bool commits, bool force, tsr_torn_read *attempts, bool *last, tsr_error *error) {
  tsr_array_directories directories = {.store = log->store, .with_metadata = log->metadata.wanted};
  tsr_path doubtful = {""};
  *last = true;
  const uint64_t looked = tsr__moment();
  int rc = force ? 1 : has_changed(log, commits, &directories, error);
  if (rc == 0 && directories.listed[TSR_IN_COMMITS]) {
    rc = check_own_commit(log, &directories.lists[TSR_IN_COMMITS], error);
    if (rc < 0) {
      *last = rc != TSR_ABORT;
      directories_release(&directories);
      return rc;
    }
  }
  if (rc == 0 && (commits || !log->listing->complete)) log->listing->moment.listed = looked;
  const int extended = rc > 0 && commits && !force ? extend(log, &directories, error) : 0;
  if (extended) {
    rc = extended < 0 ? extended : TSR_OK;
    *last = rc != TSR_ABORT;
    if (rc < 0 && *last) tsr__wrap(error, "array %s", log->path);
  } else if (rc > 0) {
    rc = renew(log, commits || (log->listing && log->listing->complete), force, &directories, &doubtful, error);
    if (*doubtful.text) rc = tsr__torn_read_retry(attempts, log->store, doubtful.text, rc, error);
    *last = rc != 1 && rc != TSR_ABORT;
    if (rc < 0 && rc != TSR_NOT_FOUND && *last) tsr__wrap(error, "array %s", log->path);
  }
  keep_metadata(log, &directories);
  directories_release(&directories);
  return rc;
}

static int list_array(tsr_log *log, bool commits, bool force, tsr_error *error) {
  tsr_torn_read attempts = {0};
  tsr_error unseen;
  int rc = TSR_OK;
  bool last = false;
  if (!error) error = &unseen;
  for (int i = 0; i < RENEWALS && !last; i++) rc = renew_once(log, commits, force, &attempts, &last, error);
  if (last) return rc;
  if (rc > 0 || log->own_commit_unlisted) { /* the doubtful file kept changing; or the server's listings lag behind */
    const tsr_error before = *error;
    rc = tsr__fail(error, rc > 0 ? TSR_BUSY : TSR_UNREACHABLE, "%s", before.message);
  }
  return tsr__wrap(error, "array %s", log->path), rc;
}

int tsr__log_list(tsr_log *log, bool commits, bool force, tsr_error *error) {
  if (log->frozen && !force && log->listing && log->listing->complete) return TSR_OK;
  return list_array(log, commits, force, error);
}

int tsr__log_list_to_write(tsr_log *log, tsr_error *error) {
  log->metadata.listed = 0;
  log->metadata.wanted = log->store->stamps_are_listings;
  const int rc = tsr__log_list(log, true, false, error);
  log->metadata.wanted = false;
  return rc;
}

#define METADATA_MS 1000 /* the writer's first row usually follows the listing at once */

bool tsr__log_take_metadata(tsr_log *log, tsr_listing *entries) {
  const bool recent = log->metadata.listed && tsr__moment() - log->metadata.listed < METADATA_MS &&
                      log->metadata.changes == log->environment->metadata_changes;
  *entries = log->metadata.entries;
  log->metadata.entries = (tsr_listing){0};
  log->metadata.listed = 0;
  if (!recent) tsr__listing_release(entries);
  return recent;
}

void tsr__log_count_unpublished(tsr_log *log, const char *commit) {
  log->host.unpublished = commit;
  if (log->listing) log->listing->complete = false;
}

int tsr__log_list_present(tsr_log *log, tsr_error *error) { return list_array(log, true, false, error); }

void tsr__log_release(tsr_log *log) {
  if (log->listing) free_listing(log->listing);
  log->listing = NULL;
  tsr__listing_release(&log->metadata.entries);
  tsr__commit_files_prune(&log->files, UINT64_MAX);
  tsr__map_release(&log->files.by_path);
}
