/* listing.c: lists an array: works out from the names in its directories what is committed.
 *
 *   __commits/NAME.wrt            the fragment __fragments/NAME is committed (version 12 and later)
 *   __commits/NAME.del            a delete condition
 *   __commits/NAME.con            several fragments and deletes; .ok entries commit fragments of the old layout
 *   __commits/NAME.ign            fragments whose entries in .con files do not count
 *   __commits/.NAME.vac.new       the NAME.vac of a merge that commits: counts once NAME is committed
 *   __commits/NAME.vac, NAME.vac  fragments that a merged fragment replaces
 *   __fragment_meta/NAME.meta, NAME.meta   footers of many fragments in one file
 *   NAME/ with NAME.ok            a fragment of the old layout (versions 5 to 11)
 *   NAME/__fragment_metadata.tdb  a fragment of version 1 to 4, whose name has no version
 *   __commits/NAME.pending, NAME/.pending   the marker of a prepared commit (prepared.c)
 *   __schema/NAME, __array_schema.tdb, __kv_schema.tdb   schemas
 *
 * All other names are ignored. A NAME.ok without the directory NAME commits nothing, as in TileDB: older libraries
 * leave such files behind. Only names matter, except that .con and .ign files are read. array/snapshot.c decides what
 * is visible at which time.
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
 * A .con and a .meta of the same name have the same fragments (maintain/consolidate_files.c). Then the .meta is read
 * instead of the .con, because the caller needs the footers anyway; if the .meta cannot be read, the .con is. Errors in
 * footers are reported where footers are needed.
 *
 * Sections: directories; building a listing; lists; __commits; the array's directory, __schema and __fragment_meta;
 * unfinished .con files; renewal; additions.
 */
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "log/log.h"
#include "format/layout.h"
#include "base/arithmetic.h"
#include "base/clock.h"
#include "base/pool.h"
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
  if (list->count == list->capacity) {
    uint64_t capacity = list->capacity ? list->capacity * 2 : 16;
    tsr_committed *items;
    TSR_TRY(TSR_ARENA_ARRAY(&r->listing->arena, capacity, &items, r->error));
    if (list->count > 0) memcpy(items, list->items, list->count * sizeof *item);
    list->items = items;
    list->capacity = capacity;
  }
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

/* ---- Lists ------------------------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b) {
  const tsr_committed *x = a, *y = b;
  if (x->parsed.start != y->parsed.start) return x->parsed.start < y->parsed.start ? -1 : 1;
  return strcmp(x->name, y->name);
}

static int newest_first(const void *a, const void *b) {
  const tsr_committed *x = a, *y = b;
  if (x->parsed.end != y->parsed.end) return x->parsed.end > y->parsed.end ? -1 : 1;
  return strcmp(y->name, x->name);
}

/* Sorts a list whose first `sorted` items are in order. Returns false if these items were moved. */
static bool sort_behind(tsr_commit_list *list, uint64_t sorted, int (*compare)(const void *, const void *)) {
  uint64_t end = sorted; /* a list of fragments is in order, because directories are listed by name */
  while (end < list->count && (end == 0 || compare(&list->items[end - 1], &list->items[end]) <= 0)) end++;
  if (end == list->count) return true;
  if (sorted < list->count) qsort(list->items + sorted, list->count - sorted, sizeof *list->items, compare);
  if (sorted == 0 || compare(&list->items[sorted - 1], &list->items[sorted]) <= 0) return true;
  qsort(list->items, list->count, sizeof *list->items, compare);
  return false;
}

static void sort_list(tsr_commit_list *list, int (*compare)(const void *, const void *)) {
  (void)sort_behind(list, 0, compare);
}

/* Parses the directory entry STEM<suffix> into `item`. Returns 1; 0 if the entry has another suffix; TSR_CORRUPT if the
 * stem is not a timestamped name. */
static int parse_entry(tsr_renewal *r, const char *directory, const char *text, const char *suffix,
                       tsr_committed *item) {
  uint64_t stem;
  if (!tsr__name_suffix(text, suffix, &stem)) return 0;
  *item = (tsr_committed){0};
  if (!tsr__name_parse(text, stem, &item->parsed))
    return tsr__fail(r->error, TSR_CORRUPT, "%s/%s: not a timestamped name", directory, text);
  TSR_TRY(tsr__renewal_copy_text(r, text, stem, &item->name));
  TSR_TRY(tsr__renewal_join_path(r, directory, text, &item->path));
  tsr__commit_file_keep(r->log, item->path, r->listing->generation);
  return 1;
}

/* ---- __commits --------------------------------------------------------------------------------------------------- */

static int read_ignored(tsr_renewal *r, const tsr_listing *entries) {
  for (uint64_t i = 0; i < entries->count; i++) {
    const tsr_commit_file *file;
    char name[TSR_STAGED_NAME];
    if (!tsr__name_ends_in(entries->entries[i].name, TSR_SUFFIX_IGNORED)) continue;
    TSR_TRY(tsr__renewal_read_file(r, entries->entries[i].name, &file));
    if (tsr__exchange(entries->entries[i].name, name)) {
      tsr_committed item = {0};
      TSR_TRY(tsr__renewal_copy_text(r, name, strlen(name), &item.name));
      TSR_TRY(tsr__renewal_copy_text(r, file->path, strlen(file->path), &item.path));
      TSR_TRY(tsr__renewal_append(r, &r->listing->exchanges, &item));
    }
    for (uint64_t n = 0; n < file->names.count; n++)
      TSR_TRY(tsr__map_put(&r->ignored, file->names.names[n], file->names.names[n], r->error));
  }
  return TSR_OK;
}

/* Reads the .meta that has the same fragments as a .con, to replace the .con. Returns NULL if there is none, or it
 * cannot be used. */
static const tsr_commit_file *read_paired_footers(tsr_renewal *r, const char *con) {
  char name[192];
  uint64_t stem;
  const tsr_commit_file *file;
  tsr_error unseen;
  if (r->metas.count == 0 || !tsr__name_suffix(con, TSR_SUFFIX_CONSOLIDATED, &stem) || stem >= sizeof name) return NULL;
  memcpy(name, con, stem);
  name[stem] = 0;
  const char *path = tsr__map_get(&r->metas, name);
  if (!path || tsr__log_file(r->log, path, &file, &unseen) < 0 || file->footers.partial) return NULL;
  tsr__commit_file_keep(r->log, path, r->listing->generation);
  return file;
}

static int read_consolidated(tsr_renewal *r, const tsr_listing *entries) {
  for (uint64_t i = 0; i < entries->count; i++) {
    const char *name = entries->entries[i].name;
    if (!tsr__name_ends_in(name, TSR_SUFFIX_CONSOLIDATED)) continue;
    const tsr_commit_file *file = read_paired_footers(r, name);
    for (uint64_t n = 0; file && n < file->footers.count; n++)
      TSR_TRY(tsr__renewal_add_con_entry(
          r, file->path, &(tsr_commit){.kind = TSR_COMMIT_WRITE, .name = file->footers.footers[n].name}));
    if (file) continue;
    TSR_TRY(tsr__renewal_read_file(r, name, &file));
    if (file->partial.truncated) {
      tsr_committed item = {0};
      TSR_TRY(tsr__renewal_copy_text(r, file->path, strlen(file->path), &item.path));
      TSR_TRY(tsr__renewal_append(r, &r->listing->truncated_con, &item));
    }
    for (uint64_t n = 0; n < file->commits.count; n++)
      TSR_TRY(tsr__renewal_add_con_entry(r, file->path, &file->commits.commits[n]));
  }
  return TSR_OK;
}

/* Adds the staged vacuum files of committed fragments. Since each counts as soon as its fragment is committed, one
 * rename both publishes a merged fragment and hides its sources. */
static int add_staged_vacuums(tsr_renewal *r, tsr_directory which, const tsr_listing *entries) {
  for (uint64_t i = 0; i < entries->count; i++) {
    tsr_committed item = {0};
    char name[TSR_STAGED_NAME];
    const char *text = entries->entries[i].name;
    if (!tsr__staged_vacuum(text, name) || !tsr__map_get(&r->listing->names, name)) continue;
    (void)tsr__name_parse(name, strlen(name), &item.parsed);
    TSR_TRY(tsr__renewal_copy_text(r, name, strlen(name), &item.name));
    TSR_TRY(tsr__renewal_join_path(r, directory_path(which), text, &item.path));
    tsr__commit_file_keep(r->log, item.path, r->listing->generation);
    TSR_TRY(tsr__renewal_append(r, &r->listing->vacuums, &item));
  }
  return TSR_OK;
}

/* Returns true if listing the array or opening a snapshot will read this file of __commits for the first time. */
static bool will_read(tsr_renewal *r, const char *name, const char *path) {
  static const char *const suffixes[] = {TSR_SUFFIX_IGNORED, TSR_SUFFIX_CONSOLIDATED, TSR_SUFFIX_VACUUM};
  tsr_path condition = tsr__path_of("", name, "");
  uint64_t stem;
  if (tsr__name_ends_in(name, TSR_SUFFIX_PENDING)) return true;
  if (tsr__name_suffix(name, TSR_SUFFIX_DELETE, &stem) && stem < sizeof condition.text) {
    condition.text[stem] = 0;
    return !tsr__map_get(r->log->conditions, condition.text);
  }
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
    if (tsr__name_ends_in(name, suffixes[i])) return !tsr__map_get(&r->log->files.by_path, path);
  return false;
}

/* Prefetches the files that will be read: those of __commits, the newest file of footers, and the newest schema. */
static int expect_commit_files(tsr_renewal *r, const tsr_listing *entries) {
  const tsr_commit_list *footers = &r->listing->footers;
  const char **paths;
  uint64_t count = 0;
  if (!tsr__store_prefetches(r->log->store)) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&r->listing->arena, entries->count + 2, &paths, r->error));
  for (uint64_t i = 0; i < entries->count; i++) {
    const char *name = entries->entries[i].name, *path, *paired;
    uint64_t stem;
    TSR_TRY(tsr__renewal_join_path(r, TSR_DIR_COMMITS, name, &path));
    if (!will_read(r, name, path)) continue;
    if (tsr__name_suffix(name, TSR_SUFFIX_CONSOLIDATED, &stem)) { /* the .meta of that name is read instead */
      TSR_TRY(tsr__renewal_copy_text(r, name, stem, &paired));
      paired = tsr__map_get(&r->metas, paired);
      if (paired) path = paired;
    }
    if (!tsr__map_get(&r->log->files.by_path, path)) paths[count++] = path;
  }
  const tsr_committed *newest = footers->count > 0 ? &footers->items[0] : NULL;
  for (uint64_t i = 1; i < footers->count; i++)
    if (newest_first(&footers->items[i], newest) < 0) newest = &footers->items[i];
  bool listed = !newest || tsr__map_get(&r->log->files.by_path, newest->path);
  for (uint64_t i = 0; i < count && !listed; i++) listed = !strcmp(paths[i], newest->path);
  if (!listed) paths[count++] = newest->path;
  const tsr_commit_list *schemas = &r->listing->schemas;
  const tsr_committed *schema = &schemas->items[schemas->count - 1];
  if (!tsr__map_get(r->log->schemas, schema->name)) paths[count++] = schema->path;
  tsr__store_prefetch_files(r->log->store, paths, count);
  return TSR_OK;
}

/* Notes the time of a commit, unless it is in the future. */
static void note_time(tsr_renewal *r, const tsr_name *parsed) {
  if (parsed->end < r->future) r->listing->newest = TSR_MAX(r->listing->newest, parsed->end);
}

static void note_entry(tsr_commit_listing *listing, const char *text) {
  listing->written += tsr__name_ends_in(text, TSR_SUFFIX_WRITE);
  listing->staged_vacuum |= tsr__name_ends_in(text, TSR_SUFFIX_STAGED_VACUUM);
}

/* Adds the fragment, delete, vacuum file or marker that an entry of __commits stands for. */
static int list_commit(tsr_renewal *r, const tsr_listing *entries, const char *name) {
  tsr_committed item;
  uint64_t stem;
  int rc = parse_entry(r, TSR_DIR_COMMITS, name, TSR_SUFFIX_WRITE, &item);
  if (rc > 0) {
    note_time(r, &item.parsed);
    return tsr__renewal_add_fragment(r, item.name, &item.parsed, false);
  }
  if (rc == 0 && (rc = parse_entry(r, TSR_DIR_COMMITS, name, TSR_SUFFIX_DELETE, &item)) > 0) {
    note_time(r, &item.parsed);
    return tsr__renewal_add_delete(r, &item);
  }
  if (rc == 0 && (rc = parse_entry(r, TSR_DIR_COMMITS, name, TSR_SUFFIX_VACUUM, &item)) > 0)
    return tsr__renewal_append(r, &r->listing->vacuums, &item);
  TSR_TRY(rc);
  if (tsr__name_suffix(name, TSR_SUFFIX_CONSOLIDATED, &stem) && tsr__name_parse(name, stem, &item.parsed))
    note_time(r, &item.parsed);
  if (tsr__name_ends_in(name, TSR_SUFFIX_PENDING)) {
    const char *path;
    TSR_TRY(tsr__renewal_join_path(r, TSR_DIR_COMMITS, name, &path));
    return tsr__listing_add_listed_marker(r, path, entries);
  }
  if (!tsr__name_ends_in(name, TSR_SUFFIX_UPDATE)) return TSR_OK;
  return tsr__fail(r->error, TSR_UNSUPPORTED, "%s/%s: update conditions are not supported", TSR_DIR_COMMITS, name);
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

static int list_commits(tsr_renewal *r) {
  const tsr_listing *entries = &r->directories->lists[TSR_IN_COMMITS];
  int rc = list_until_steady(r->directories, TSR_IN_COMMITS, r->error);
  if (rc >= 0) rc = check_own_commit(r->log, entries, r->error);
  r->future = tsr__environment_now() + TSR_TIME_AHEAD;
  if (rc >= 0) rc = expect_commit_files(r, entries);
  if (rc >= 0) rc = read_ignored(r, entries);
  if (rc >= 0) rc = read_consolidated(r, entries);
  for (uint64_t i = 0; rc >= 0 && i < entries->count; i++) {
    note_entry(r->listing, entries->entries[i].name);
    rc = list_commit(r, entries, entries->entries[i].name);
  }
  if (rc >= 0) rc = add_staged_vacuums(r, TSR_IN_COMMITS, entries);
  tsr__count(r->log->environment, TSR_COUNT_commits_listed, entries->count);
  return rc;
}

/* ---- The array's directory, __schema, __fragment_meta ------------------------------------------------------------ */

static int add_old_fragment(tsr_renewal *r, const tsr_listing *root, const char *text) {
  tsr_name parsed;
  const char *name;
  if (strchr(text, '.') || !tsr__name_parse(text, strlen(text), &parsed)) return TSR_OK;
  TSR_TRY(tsr__renewal_copy_text(r, text, strlen(text), &name));
  if (tsr__map_get(&r->ok, name) || tsr__map_get(&r->in_con, name))
    return tsr__renewal_add_fragment(r, name, &parsed, true);
  tsr_committed item = {.name = name, .parsed = parsed, .old_layout = true};
  TSR_TRY(tsr__renewal_join_path(r, name, TSR_FILE_OLD_PENDING, &item.path));
  bool exists = false;
  if (layout_has_commits_folder(parsed.version)) return TSR_OK;
  TSR_TRY(tsr__listing_add_marker(r, item.path, layout_has_commit_files(parsed.version) ? root : NULL));
  if (layout_has_commit_files(parsed.version)) {
    const tsr_path commit = tsr__path_of("", name, TSR_SUFFIX_OLD_WRITE);
    TSR_TRY(tsr__store_find(r->log->store, commit.text, &exists, r->error));
    return exists && !tsr__listing_has(root, commit.text) ? tsr__listing_fail_outdated(r, item.path) : TSR_OK;
  }
  TSR_TRY(tsr__renewal_join_path(r, name, TSR_FILE_FRAGMENT_METADATA, &item.path));
  TSR_TRY(tsr__store_find(r->log->store, item.path, &exists, r->error));
  return exists ? tsr__renewal_add_fragment(r, name, &parsed, true)
                : tsr__renewal_append(r, &r->listing->pending, &item);
}

/* Adds a .meta file. One whose name is not timestamped is ignored: footers only save reading. */
static int add_footers(tsr_renewal *r, const char *directory, const char *text) {
  tsr_committed item;
  tsr_name parsed;
  uint64_t stem;
  if (!tsr__name_suffix(text, TSR_SUFFIX_FOOTERS, &stem) || !tsr__name_parse(text, stem, &parsed)) return TSR_OK;
  TSR_TRY(parse_entry(r, directory, text, TSR_SUFFIX_FOOTERS, &item));
  return tsr__renewal_append(r, &r->listing->footers, &item);
}

/* Checks whether the array's directory has names of the old layout. */
static void find_old_names(tsr_renewal *r, const tsr_listing *root) {
  tsr_name parsed;
  for (uint64_t i = 0; i < root->count && !r->listing->old_layout; i++)
    r->listing->old_layout = tsr__name_parse(root->entries[i].name, strcspn(root->entries[i].name, "."), &parsed);
}

static int list_old_layout(tsr_renewal *r, const tsr_listing *root) {
  for (uint64_t i = 0; i < root->count; i++) {
    const char *text = root->entries[i].name, *stem;
    uint64_t size;
    if (!tsr__name_suffix(text, TSR_SUFFIX_OLD_WRITE, &size)) continue;
    TSR_TRY(tsr__renewal_copy_text(r, text, size, &stem));
    TSR_TRY(tsr__map_put(&r->ok, stem, (void *)(uintptr_t)stem, r->error));
  }
  for (uint64_t i = 0; i < root->count; i++) {
    const tsr_entry *entry = &root->entries[i];
    tsr_committed item;
    int rc = TSR_OK;
    if (entry->kind != TSR_ENTRY_FILE) rc = add_old_fragment(r, root, entry->name);
    else if ((rc = parse_entry(r, "", entry->name, TSR_SUFFIX_VACUUM, &item)) > 0)
      rc = tsr__renewal_append(r, &r->listing->vacuums, &item);
    else if (rc == 0) rc = add_footers(r, "", entry->name);
    if (rc < 0) return rc;
  }
  return add_staged_vacuums(r, TSR_IN_ROOT, root);
}

/* Takes over a file of footers from the last listing. */
static int repeat_footers(tsr_renewal *r, const tsr_committed *last) {
  tsr_committed item = {.parsed = last->parsed};
  TSR_TRY(tsr__renewal_copy_text(r, last->name, strlen(last->name), &item.name));
  TSR_TRY(tsr__renewal_copy_text(r, last->path, strlen(last->path), &item.path));
  tsr__commit_file_keep(r->log, item.path, r->listing->generation);
  TSR_TRY(tsr__map_put(&r->metas, item.name, (void *)(uintptr_t)item.path, r->error));
  return tsr__renewal_append(r, &r->listing->footers, &item);
}

static int list_footers(tsr_renewal *r) {
  const tsr_commit_list *last = r->last_footers ? &r->log->listing->footers : NULL;
  for (uint64_t i = 0; last && i < last->count; i++) TSR_TRY(repeat_footers(r, &last->items[i]));
  if (last) return TSR_OK;
  const tsr_listing *entries = &r->directories->lists[TSR_IN_FOOTERS];
  for (uint64_t i = 0; i < entries->count; i++) {
    const tsr_commit_list *footers = &r->listing->footers;
    const uint64_t before = footers->count;
    TSR_TRY(add_footers(r, TSR_DIR_FOOTERS, entries->entries[i].name));
    if (footers->count == before) continue;
    const tsr_committed *item = &footers->items[before];
    TSR_TRY(tsr__map_put(&r->metas, item->name, (void *)(uintptr_t)item->path, r->error));
  }
  return TSR_OK;
}

/* Lists the schema of an array whose creation is not published yet, for the environment that created it. */
static int list_unpublished(tsr_renewal *r, const tsr_listing *root) {
  const char *name = r->log->unpublished_schema;
  char path[TSR_CREATION_PATH];
  tsr_committed item = {.name = name};
  tsr__creation_path(name, path);
  if (!tsr__listing_has(root, path)) return TSR_OK;
  bool old = !tsr__name_parse(name, strlen(name), &item.parsed);
  r->listing->old_layout = true; /* the array will be published in its own directory */
  int rc = old ? tsr__renewal_copy_text(r, path, strlen(path), &item.path)
               : tsr__renewal_join_path(r, path, name, &item.path);
  return rc < 0 ? rc : tsr__renewal_append(r, &r->listing->schemas, &item);
}

static bool is_schema(const tsr_entry *entry, tsr_name *parsed) {
  return entry->kind != TSR_ENTRY_DIRECTORY && tsr__name_parse(entry->name, strlen(entry->name), parsed);
}

static int list_schemas(tsr_renewal *r, const tsr_listing *root) {
  const tsr_listing *entries = &r->directories->lists[TSR_IN_SCHEMAS];
  const char *old = tsr__listing_has(root, TSR_FILE_OLD_SCHEMA)  ? TSR_FILE_OLD_SCHEMA
                    : tsr__listing_has(root, TSR_FILE_KV_SCHEMA) ? TSR_FILE_KV_SCHEMA
                                                                 : NULL;
  r->listing->old_layout |= old != NULL;
  if (old) TSR_TRY(tsr__renewal_append(r, &r->listing->schemas, &(tsr_committed){.name = old, .path = old}));
  for (uint64_t i = 0; i < entries->count; i++) { /* sorted by name */
    tsr_committed item = {0};
    const char *text = entries->entries[i].name;
    if (!is_schema(&entries->entries[i], &item.parsed)) continue;
    TSR_TRY(tsr__renewal_copy_text(r, text, strlen(text), &item.name));
    TSR_TRY(tsr__renewal_join_path(r, TSR_DIR_SCHEMA, text, &item.path));
    TSR_TRY(tsr__renewal_append(r, &r->listing->schemas, &item));
  }
  return r->listing->schemas.count == 0 && r->log->unpublished_schema ? list_unpublished(r, root) : TSR_OK;
}

/* ---- Unfinished .con files --------------------------------------------------------------------------------------- */

/* Collects fragments that no .con can have committed: .ign files cancel them, or a merged fragment has their cells. */
static int rule_out_names(tsr_renewal *r) {
  const tsr_commit_listing *listing = r->listing;
  for (uint64_t i = 0; i < r->ignored.count; i++) {
    const char *name = r->ignored.entries[i].key, *copy;
    TSR_TRY(tsr__renewal_copy_text(r, name, strcspn(name, "."), &copy));
    TSR_TRY(tsr__map_put(&r->ruled_out, copy, (void *)(uintptr_t)copy, r->error));
  }
  return tsr__log_covered(r->log, listing, &r->ruled_out, r->error);
}

/* Fails if treating a truncated .con as not written yet may lose something. */
static int check_unfinished(tsr_renewal *r, const tsr_listing *root) {
  const tsr_commit_list *list = &r->listing->truncated_con;
  if (list->count == 0) return TSR_OK;
  TSR_TRY(rule_out_names(r));
  const tsr_partial_consolidation known = {.store = r->log->store,
                                           .memory = r->log->memory,
                                           .fragments = &r->listing->names,
                                           .deletes = &r->deletes,
                                           .ruled_out = &r->ruled_out,
                                           .root = root};
  for (uint64_t i = 0; i < list->count; i++) {
    const tsr_commit_file *file;
    TSR_TRY(tsr__log_file(r->log, list->items[i].path, &file, r->error));
    if (!file->partial.truncated)
      return tsr__fail(r->error, TSR_ABORT, "%s was written while it was listed", file->path);
    const int rc = tsr__partial_consolidation_loses(&known, file->path, &file->partial, &r->doubtful, r->error);
    if (rc) return rc < 0 ? rc : TSR_CORRUPT;
  }
  return TSR_OK;
}

/* ---- Renewal ----------------------------------------------------------------------------------------------------- */

/* Fails with TSR_NOT_FOUND and says why the listed directory is not an array. */
static int fail_no_array(const tsr_renewal *r, const tsr_listing *root) {
  const char *path = r->log->path;
  if (tsr__listing_has(root, TSR_DIR_SCHEMA))
    return tsr__fail(r->error, TSR_NOT_FOUND, "array not found: %s: its " TSR_DIR_SCHEMA " holds no schema", path);
  if (tsr__listing_has(root, TSR_DIR_GROUP) || tsr__listing_has(root, TSR_FILE_OLD_GROUP))
    return tsr__fail(r->error, TSR_NOT_FOUND, "array not found: %s: it is a group, not an array", path);
  return tsr__fail(r->error, TSR_NOT_FOUND,
                   "array not found: %s: the %s holds no schema; tessera_objects lists the arrays below one", path,
                   tsr__store_place(r->log->store));
}

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

/* Fails if the array's directory is missing. The message gives a reason only if there is a file of that name. */
static int check_root_exists(tsr_renewal *r) {
  uint64_t when;
  if (!r->directories->lists[TSR_IN_ROOT].missing) return TSR_OK;
  if (tsr__store_modified(r->log->store, "", &when, NULL) >= 0) /* something is there, but it cannot be listed */
    return tsr__fail(r->error, TSR_NOT_FOUND, "array not found: %s: it is not a directory", r->log->path);
  return tsr__fail(r->error, TSR_NOT_FOUND, "array not found: %s", r->log->path);
}

/* Returns true if the listed directory __schema has exactly the schemas of the last listing. */
static bool has_same_schemas(const tsr_renewal *r) {
  const tsr_listing *entries = &r->directories->lists[TSR_IN_SCHEMAS];
  const tsr_commit_list *last = &r->log->listing->schemas;
  uint64_t same = 0;
  tsr_name parsed;
  for (uint64_t i = 0; i < entries->count; i++) {
    if (!is_schema(&entries->entries[i], &parsed)) continue;
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

/* Fails with TSR_ABORT if the array's directory has changed since it was listed. __commits is listed after it. A vacuum
 * in between may have removed both fragments that the first listing has, and the vacuum file that would hide them in
 * the second. Call only if the directory has committed names (old layout). */
static int check_root(tsr_renewal *r) {
  const int same = directory_is_same(r->directories, TSR_IN_ROOT, r->error);
  if (same) return same < 0 ? same : TSR_OK;
  return tsr__fail(r->error, TSR_ABORT, "it changes while it is listed");
}

static int list_all(tsr_renewal *r, bool commits) {
  const tsr_listing *root = &r->directories->lists[TSR_IN_ROOT];
  TSR_TRY(list_directories(r, commits));
  TSR_TRY(list_schemas(r, root));
  if (r->listing->schemas.count == 0) return fail_no_array(r, root);
  find_old_names(r, root);
  if (!commits) return TSR_OK;
  int rc = list_footers(r); /* first: list_commits needs the names */
  if (rc >= 0) rc = list_commits(r);
  if (rc >= 0) rc = list_old_layout(r, root);
  if (rc >= 0) rc = tsr__listing_add_unpublished(r);
  if (rc >= 0) rc = check_unfinished(r, root);
  if (rc >= 0) rc = tsr__listing_check_gone(r);
  if (rc >= 0 && r->listing->old_layout) rc = check_root(r);
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
  sort_list(&listing->fragments, by_time);
  sort_list(&listing->deletes, by_time);
  sort_list(&listing->footers, newest_first);
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
static int add_writes(tsr_log *log, const tsr_array_directories *directories, const char *const *added, uint64_t count,
                      tsr_error *error) {
  tsr_commit_listing *l = log->listing;
  tsr_renewal r = {.log = log, .listing = l, .future = tsr__environment_now() + TSR_TIME_AHEAD, .error = error};
  const uint64_t before = l->fragments.count;
  int rc = TSR_OK;
  l->generation++;
  l->moment.stamps[TSR_IN_COMMITS].known = false;
  for (uint64_t i = 0; i < count && rc >= 0; i++) rc = list_commit(&r, &directories->lists[TSR_IN_COMMITS], added[i]);
  if (!sort_behind(&l->fragments, before, by_time)) l->appended_since = l->generation;
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
