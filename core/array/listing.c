/* listing.c: lists an array: finds out from its directories what is committed.
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
 *   __commits/NAME.pending, NAME/.pending   the marker of a prepared commit (pending.c)
 *   __schema/NAME, __array_schema.tdb, __kv_schema.tdb   schemas
 *
 * All other names are ignored. A NAME.ok without the directory NAME commits nothing, as in TileDB: older libraries
 * leave such files behind. A listing is made of names alone, except that .con and .ign files are read. snapshot.c
 * decides what is visible at which time.
 *
 * A listing is renewed only if a commit may have appeared. Commits appear in __commits and schemas in __schema; only of
 * the old layout do they appear in the array's own directory, which is not checked if no schema and no name in it is
 * that old. A fragment of version 3 or 4 appears when it gets its metadata file, one level below, so these files are
 * looked for by name. Files in __fragment_meta only save reading; new ones are found when the rest is listed.
 *
 * If nothing has appeared but a few .wrt files, the listing is not made anew: they are added to it, and only their names
 * are copied. So a transaction costs what others have committed since the last one, and one look at the names in
 * __commits.
 *
 * If a .con and a .meta have the same name, they have the same fragments (commits.c), and the .meta is read instead of
 * the .con: the caller needs the footers anyhow. If the .meta cannot be read, the .con is; errors of footers are
 * reported where footers are needed.
 */
#include "array/listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "store/store.h"
#include "format/layout.h"
#include "array/array.h"
#include "array/array_directories.h"
#include "array/commit_file.h"
#include "array/committed.h"
#include "array/environment.h"
#include "array/fragment.h"
#include "array/listing_prepared.h"
#include "array/listing_renewal.h"
#include "array/patience.h"
#include "array/staged_vacuum.h"
#include "array/unfinished.h"

#define FEW      4 /* fragments whose footers are read one by one */
#define ADDED    64 /* .wrt files that may be added to a listing; FEW if it costs a request to read a footer */
#define PAUSE    100 /* ms for which a listing that lags is given time */
#define RENEWALS 64 /* tries to list the array, since others may publish and vacuum meanwhile */

/* ---- Lists ------------------------------------------------------------------------------------------------------- */

static int listing_by_time(const void *a, const void *b) {
  const tsr_committed *x = a, *y = b;
  if (x->parsed.start != y->parsed.start) return x->parsed.start < y->parsed.start ? -1 : 1;
  return strcmp(x->name, y->name);
}

static int newest_first(const void *a, const void *b) {
  const tsr_committed *x = a, *y = b;
  if (x->parsed.end != y->parsed.end) return x->parsed.end > y->parsed.end ? -1 : 1;
  return strcmp(y->name, x->name);
}

static void listing_sort(tsr_commit_list *list, int (*compare)(const void *, const void *)) {
  bool sorted = true; /* as a list of fragments is, which comes in the order of their names */
  for (uint64_t i = 1; i < list->count && sorted; i++) sorted = compare(&list->items[i - 1], &list->items[i]) <= 0;
  if (!sorted) qsort(list->items, list->count, sizeof *list->items, compare);
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
  tsr__commit_file_keep(r->array, item->path, r->listing->generation);
  return 1;
}

/* ---- __commits --------------------------------------------------------------------------------------------------- */

static int listing_read_ignored(tsr_renewal *r, const tsr_listing *entries) {
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

/* Reads the .meta that has the same fragments as a .con, to be used in place of the .con. Returns NULL if there is
 * none, or it cannot be used. */
static const tsr_commit_file *read_paired_footers(tsr_renewal *r, const char *con) {
  char name[192];
  uint64_t stem;
  const tsr_commit_file *file;
  tsr_error unseen;
  if (r->metas.count == 0 || !tsr__name_suffix(con, TSR_SUFFIX_CONSOLIDATED, &stem) || stem >= sizeof name) return NULL;
  memcpy(name, con, stem);
  name[stem] = 0;
  const char *path = tsr__map_get(&r->metas, name);
  if (!path || tsr__array_commit_file(r->array, path, &file, &unseen) < 0 || file->footers.partial) return NULL;
  tsr__commit_file_keep(r->array, path, r->listing->generation);
  return file;
}

static int listing_read_consolidated(tsr_renewal *r, const tsr_listing *entries) {
  for (uint64_t i = 0; i < entries->count; i++) {
    const char *name = entries->entries[i].name;
    if (!tsr__name_ends_in(name, TSR_SUFFIX_CONSOLIDATED)) continue;
    const tsr_commit_file *file = read_paired_footers(r, name);
    for (uint64_t n = 0; file && n < file->footers.count; n++)
      TSR_TRY(tsr__renewal_add_con_entry(
          r, file->path, &(tsr_commit){.kind = TSR_COMMIT_WRITE, .name = file->footers.footers[n].name}));
    if (file) continue;
    TSR_TRY(tsr__renewal_read_file(r, name, &file));
    if (file->rest.cut) {
      tsr_committed item = {0};
      TSR_TRY(tsr__renewal_copy_text(r, file->path, strlen(file->path), &item.path));
      TSR_TRY(tsr__renewal_append(r, &r->listing->unfinished, &item));
    }
    for (uint64_t n = 0; n < file->commits.count; n++)
      TSR_TRY(tsr__renewal_add_con_entry(r, file->path, &file->commits.commits[n]));
  }
  return TSR_OK;
}

/* ---- Prepared commits -------------------------------------------------------------------------------------------- */

/* Adds the staged vacuum files of committed fragments: each counts as soon as its fragment is committed, so one commit
 * publishes a merged fragment and hides its sources. */
static int add_staged_vacuums(tsr_renewal *r, tsr_directory which, const tsr_listing *entries) {
  for (uint64_t i = 0; i < entries->count; i++) {
    tsr_committed item = {0};
    char name[TSR_STAGED_NAME];
    const char *text = entries->entries[i].name;
    if (!tsr__staged_vacuum(text, name) || !tsr__map_get(&r->listing->names, name)) continue;
    (void)tsr__name_parse(name, strlen(name), &item.parsed);
    TSR_TRY(tsr__renewal_copy_text(r, name, strlen(name), &item.name));
    TSR_TRY(tsr__renewal_join_path(r, tsr__directory_path(which), text, &item.path));
    tsr__commit_file_keep(r->array, item.path, r->listing->generation);
    TSR_TRY(tsr__renewal_append(r, &r->listing->vacuums, &item));
  }
  return TSR_OK;
}

/* Returns true if listing the array, or opening a snapshot of it, will read a file of __commits for the first time. */
static bool will_read(tsr_renewal *r, const char *name, const char *path) {
  static const char *const suffixes[] = {TSR_SUFFIX_IGNORED, TSR_SUFFIX_CONSOLIDATED, TSR_SUFFIX_VACUUM};
  tsr_path condition = tsr__path_of("", name, "");
  uint64_t stem;
  if (tsr__name_ends_in(name, TSR_SUFFIX_PENDING)) return true;
  if (tsr__name_suffix(name, TSR_SUFFIX_DELETE, &stem) && stem < sizeof condition.text) {
    condition.text[stem] = 0;
    return !tsr__map_get(&r->array->snapshots.conditions, condition.text);
  }
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
    if (tsr__name_ends_in(name, suffixes[i])) return !tsr__map_get(&r->array->commit_files.by_path, path);
  return false;
}

/* Tells the store which files of __commits will be read, the newest file of footers, and the newest schema. */
static int expect_commit_files(tsr_renewal *r, const tsr_listing *entries) {
  const tsr_commit_list *footers = &r->listing->footers;
  const char **paths;
  uint64_t count = 0;
  if (!tsr__store_expects(r->array->store)) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&r->listing->arena, entries->count + 2, &paths, r->error));
  for (uint64_t i = 0; i < entries->count; i++) {
    const char *name = entries->entries[i].name, *path, *paired;
    uint64_t stem;
    TSR_TRY(tsr__renewal_join_path(r, TSR_DIR_COMMITS, name, &path));
    if (!will_read(r, name, path)) continue;
    if (tsr__name_suffix(name, TSR_SUFFIX_CONSOLIDATED, &stem)) { /* the .meta of that name is read in its place */
      TSR_TRY(tsr__renewal_copy_text(r, name, stem, &paired));
      paired = tsr__map_get(&r->metas, paired);
      if (paired) path = paired;
    }
    if (!tsr__map_get(&r->array->commit_files.by_path, path)) paths[count++] = path;
  }
  const tsr_committed *newest = footers->count > 0 ? &footers->items[0] : NULL;
  for (uint64_t i = 1; i < footers->count; i++)
    if (newest_first(&footers->items[i], newest) < 0) newest = &footers->items[i];
  bool listed = !newest || tsr__map_get(&r->array->commit_files.by_path, newest->path);
  for (uint64_t i = 0; i < count && !listed; i++) listed = !strcmp(paths[i], newest->path);
  if (!listed) paths[count++] = newest->path;
  const tsr_commit_list *schemas = &r->listing->schemas;
  const tsr_committed *schema = &schemas->items[schemas->count - 1];
  if (!tsr__map_get(&r->array->schemas.by_name, schema->name)) paths[count++] = schema->path;
  tsr__store_expect_files(r->array->store, paths, count);
  return TSR_OK;
}

/* Notes the time of a commit, unless it lies in the future. */
static void note_time(tsr_renewal *r, const tsr_name *parsed) {
  if (parsed->end < r->future) r->listing->newest = TSR_MAX(r->listing->newest, parsed->end);
}

/* Remembers that __commits has an entry, for the next renewal (find_added). */
static int note_entry(tsr_renewal *r, const char *text) {
  static const char present;
  const char *name;
  if (tsr__name_ends_in(text, TSR_SUFFIX_WRITE)) return r->listing->written++, TSR_OK;
  TSR_TRY(tsr__renewal_copy_text(r, text, strlen(text), &name));
  return tsr__map_put(&r->listing->others, name, (void *)(uintptr_t)&present, r->error);
}

/* Adds what an entry of __commits says. */
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

/* Fails with TSR_ABORT if a server's listing lacks the last commit of a writer of this array, although the commit is
 * there: the server shows late what was written, so commits of others may be missing, too. It waits a little then. */
static int check_own_commit(tsr_array *array, const tsr_listing *entries, tsr_error *error) {
  const struct timespec pause = {.tv_nsec = PAUSE * 1000000};
  const char *slash = strrchr(array->settled, '/');
  uint64_t when;
  tsr_error one;
  if (!array->unseen) return TSR_OK;
  array->unseen = false;
  if (!slash || tsr__listing_has(entries, slash + 1)) return TSR_OK;
  const int rc = tsr__store_modified(array->store, array->settled, &when, &one);
  if (rc == TSR_NOT_FOUND) return TSR_OK; /* it has been merged and vacuumed since */
  array->unseen = true;
  if (rc < 0) return *error = one, rc;
  TSR_TRY(tsr__cancelled(&array->environment->memory, error));
  nanosleep(&pause, NULL);
  return tsr__fail(error, TSR_ABORT,
                   "%s is there, but the server's listing lacks it: a server must list at once what was written",
                   array->settled);
}

static int listing_list_commits(tsr_renewal *r) {
  const tsr_listing *entries = &r->directories->lists[TSR_IN_COMMITS];
  int rc = tsr__directory_settle(r->directories, TSR_IN_COMMITS, r->error);
  if (rc >= 0) rc = check_own_commit(r->array, entries, r->error);
  r->future = tsr__environment_now() + TSR_TIME_AHEAD;
  if (rc >= 0) rc = expect_commit_files(r, entries);
  if (rc >= 0) rc = listing_read_ignored(r, entries);
  if (rc >= 0) rc = listing_read_consolidated(r, entries);
  for (uint64_t i = 0; rc >= 0 && i < entries->count; i++) {
    rc = note_entry(r, entries->entries[i].name);
    if (rc >= 0) rc = list_commit(r, entries, entries->entries[i].name);
  }
  if (rc >= 0) rc = add_staged_vacuums(r, TSR_IN_COMMITS, entries);
  tsr__count(r->array->environment, TSR_COUNT_commits_listed, entries->count);
  return rc;
}

/* ---- The array's directory, __schema, __fragment_meta ------------------------------------------------------------ */

static int listing_add_old_fragment(tsr_renewal *r, const tsr_listing *root, const char *text) {
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
    TSR_TRY(tsr__store_find(r->array->store, commit.text, &exists, r->error));
    return exists && !tsr__listing_has(root, commit.text) ? tsr__listing_fail_outdated(r, item.path) : TSR_OK;
  }
  TSR_TRY(tsr__renewal_join_path(r, name, TSR_FILE_FRAGMENT_METADATA, &item.path));
  TSR_TRY(tsr__store_find(r->array->store, item.path, &exists, r->error));
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

/* Finds out whether the array's directory has names of the old layout. */
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
    if (entry->kind != TSR_ENTRY_FILE) rc = listing_add_old_fragment(r, root, entry->name);
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
  tsr__commit_file_keep(r->array, item.path, r->listing->generation);
  TSR_TRY(tsr__map_put(&r->metas, item.name, (void *)(uintptr_t)item.path, r->error));
  return tsr__renewal_append(r, &r->listing->footers, &item);
}

static int list_footers(tsr_renewal *r) {
  const tsr_commit_list *last = r->last_footers ? &r->array->listing->footers : NULL;
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

/* Lists the schema of an array whose creation is not published, for the environment that has created it. */
static int list_pending(tsr_renewal *r, const tsr_listing *root) {
  const char *name = r->array->schemas.pending;
  char path[TSR_PENDING_PATH];
  tsr_committed item = {.name = name};
  tsr__pending_path(name, path);
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
  return r->listing->schemas.count == 0 && r->array->schemas.pending ? list_pending(r, root) : TSR_OK;
}

/* ---- Unfinished .con files --------------------------------------------------------------------------------------- */

/* Collects the fragments that no .con can have committed: .ign files cancel them, or a merged fragment has their
 * cells. */
static int settle_names(tsr_renewal *r) {
  const tsr_commit_listing *listing = r->listing;
  for (uint64_t i = 0; i < r->ignored.capacity; i++) {
    const char *name = r->ignored.entries[i].key, *copy;
    if (!name) continue;
    TSR_TRY(tsr__renewal_copy_text(r, name, strcspn(name, "."), &copy));
    TSR_TRY(tsr__map_put(&r->settled, copy, (void *)(uintptr_t)copy, r->error));
  }
  return tsr__array_covered(r->array, listing, &r->settled, r->error);
}

/* Fails if something is lost by treating a cut .con as not written yet. */
static int listing_check_unfinished(tsr_renewal *r, const tsr_listing *root) {
  const tsr_commit_list *list = &r->listing->unfinished;
  if (list->count == 0) return TSR_OK;
  TSR_TRY(settle_names(r));
  const tsr_unfinished known = {.store = r->array->store,
                                .memory = &r->array->memory,
                                .fragments = &r->listing->names,
                                .deletes = &r->deletes,
                                .settled = &r->settled,
                                .root = root};
  for (uint64_t i = 0; i < list->count; i++) {
    const tsr_commit_file *file;
    TSR_TRY(tsr__array_commit_file(r->array, list->items[i].path, &file, r->error));
    if (!file->rest.cut) return tsr__fail(r->error, TSR_ABORT, "%s was written while it was listed", file->path);
    const int rc = tsr__unfinished_loses(&known, file->path, &file->rest, &r->doubtful, r->error);
    if (rc) return rc < 0 ? rc : TSR_CORRUPT;
  }
  return TSR_OK;
}

/* ---- Renewal ----------------------------------------------------------------------------------------------------- */

#define MEMBERS_NAMED 10

/* Fails because a group is there, and names what is in it, as far as it can be read. */
static int fail_group(const tsr_renewal *r, const char *path) {
  const uint8_t *key = tsr__array_key(r->array);
  tsr_group *group = NULL;
  tsr_group_members *members = NULL;
  tsr_error ignored = {0};
  char names[512] = "";
  size_t used = 0;
  if (tsr_group_open(r->array->environment, path, key, &group, &ignored) == TSR_OK &&
      tsr_group_members_open(group, TSR_TIME_BEGIN, TSR_TIME_NOW, &members, &ignored) == TSR_OK)
    for (uint64_t i = 0; i < members->count && i <= MEMBERS_NAMED && used < sizeof names; i++)
      used += (size_t)snprintf(names + used, sizeof names - used, "%s%.40s", i ? ", " : "",
                               i == MEMBERS_NAMED         ? "..."
                               : members->members[i].name ? members->members[i].name
                                                          : members->members[i].path);
  tsr_group_members_close(members);
  tsr_group_close(group);
  return tsr__fail(r->error, TSR_NOT_FOUND, "array not found: %s: it is a group, not an array; %s%s", path,
                   *names ? "its members are " : "tessera_members lists its members", names);
}

/* Fails with the reason why the array's directory, which has been listed, is no array. */
static int fail_no_array(const tsr_renewal *r, const tsr_listing *root) {
  const char *path = r->array->path;
  if (tsr__listing_has(root, TSR_DIR_SCHEMA))
    return tsr__fail(r->error, TSR_NOT_FOUND, "array not found: %s: its " TSR_DIR_SCHEMA " holds no schema", path);
  if (tsr__listing_has(root, TSR_DIR_GROUP) || tsr__listing_has(root, TSR_FILE_OLD_GROUP)) return fail_group(r, path);
  return tsr__fail(r->error, TSR_NOT_FOUND,
                   "array not found: %s: the %s holds no schema; tessera_objects lists the arrays below one", path,
                   tsr__store_place(r->array->store));
}

/* Returns true if no commit and no schema can appear in the array's own directory. That is certain once all schemas
 * have been loaded and are of version 12 or later, because no library writes fragments of a version older than the
 * schema's. */
static bool is_new_layout(const tsr_array *array) {
  tsr_commit_listing *listing = array->listing;
  if (listing->new_layout) return true;
  if (listing->old_layout) return false;
  for (uint64_t i = 0; i < listing->schemas.count; i++)
    if (!layout_has_commits_folder(tsr__array_schema_version(array, listing->schemas.items[i].name))) return false;
  return listing->new_layout = true;
}

/* Fails if the array's directory is missing. The message gives a reason only if a file is in its place. */
static int check_root_exists(tsr_renewal *r) {
  uint64_t when;
  if (!r->directories->lists[TSR_IN_ROOT].missing) return TSR_OK;
  if (tsr__store_modified(r->array->store, "", &when, NULL) >= 0) /* something is there, but it cannot be listed */
    return tsr__fail(r->error, TSR_NOT_FOUND, "array not found: %s: it is not a directory", r->array->path);
  return tsr__fail(r->error, TSR_NOT_FOUND, "array not found: %s", r->array->path);
}

/* Returns true if the listed directory __schema has exactly the schemas of the last listing. */
static bool has_same_schemas(const tsr_renewal *r) {
  const tsr_listing *entries = &r->directories->lists[TSR_IN_SCHEMAS];
  const tsr_commit_list *last = &r->array->listing->schemas;
  uint64_t same = 0;
  tsr_name parsed;
  for (uint64_t i = 0; i < entries->count; i++) {
    if (!is_schema(&entries->entries[i], &parsed)) continue;
    if (same == last->count || strcmp(last->items[same].name, entries->entries[i].name) != 0) return false;
    same++;
  }
  return same == last->count && same > 0;
}

/* Returns true if __schema and __commits have been listed, and __commits has only a few fragments that the last listing
 * does not have: then a request for new footers would save nothing. */
static bool adds_few(const tsr_renewal *r) {
  const tsr_commit_listing *last = r->array->listing;
  const tsr_listing *entries = &r->directories->lists[TSR_IN_COMMITS];
  const bool *listed = r->directories->listed;
  char name[TSR_COMMIT_PATH];
  uint64_t added = 0;
  if (!r->array->store->stamps_are_listings || !last->complete || !listed[TSR_IN_COMMITS] || !listed[TSR_IN_SCHEMAS])
    return false;
  for (uint64_t i = 0; i < entries->count; i++) {
    const char *text = entries->entries[i].name;
    uint64_t stem;
    if (tsr__name_suffix(text, TSR_SUFFIX_WRITE, &stem) && stem < sizeof name) {
      memcpy(name, text, stem);
      name[stem] = 0;
      added += tsr__map_get(&last->names, name) == NULL;
    } else if (tsr__name_ends_in(text, TSR_SUFFIX_CONSOLIDATED) &&
               !tsr__map_get(&r->array->commit_files.by_path, tsr__path_of(TSR_DIR_COMMITS, text, "").text))
      return false;
  }
  return added <= FEW;
}

/* Lists the array's directories in one call. The array's own directory is left out if it was seen before: in the new
 * layout nothing in it matters as long as the schemas are the same. In the old layout, __commits must be listed after it: a
 * vacuum in between may remove fragments that the first listing has, and it removes them after it has made the commit
 * that replaces them. */
static int list_directories(tsr_renewal *r, bool commits) {
  static const tsr_directory order[] = {TSR_IN_ROOT, TSR_IN_SCHEMAS, TSR_IN_FOOTERS, TSR_IN_COMMITS};
  tsr_array_directories *d = r->directories;
  const unsigned end = commits ? 4 : 2;
  const tsr_commit_listing *last = r->array->listing;
  const bool seen = last && (last->complete || r->array->store->stamps_are_listings);
  if (seen && !r->need_root && !d->listed[TSR_IN_ROOT] && is_new_layout(r->array)) {
    r->last_footers = commits && adds_few(r);
    if (!r->last_footers) TSR_TRY(tsr__directories_list(d, order + 1, end - 1, r->error));
    if (has_same_schemas(r)) return TSR_OK;
    r->last_footers = false;
    tsr__directories_release(d);
  }
  TSR_TRY(tsr__directories_list(d, order, end, r->error));
  TSR_TRY(check_root_exists(r));
  const int again = tsr__directory_settle(d, TSR_IN_ROOT, r->error);
  TSR_TRY(check_root_exists(r));
  if (again <= 0 || !commits) return again;
  tsr__directory_forget(d, TSR_IN_FOOTERS);
  tsr__directory_forget(d, TSR_IN_COMMITS);
  return tsr__directories_list(d, order + 2, 2, r->error);
}

/* Fails with TSR_ABORT if the array's directory has changed since it was listed. __commits is listed after it, and a
 * vacuum in between may have removed fragments that the first listing has, and the vacuum file that would hide them in
 * the second. Call only if the directory has committed names (old layout). */
static int listing_check_root(tsr_renewal *r) {
  const int same = tsr__directory_is_same(r->directories, TSR_IN_ROOT, r->error);
  if (same) return same < 0 ? same : TSR_OK;
  return tsr__fail(r->error, TSR_ABORT, "it changes while it is listed");
}

static int listing_list_all(tsr_renewal *r, bool commits) {
  const tsr_listing *root = &r->directories->lists[TSR_IN_ROOT];
  TSR_TRY(list_directories(r, commits));
  TSR_TRY(list_schemas(r, root));
  if (r->listing->schemas.count == 0) return fail_no_array(r, root);
  find_old_names(r, root);
  if (!commits) return TSR_OK;
  int rc = list_footers(r); /* first: listing_list_commits needs the names */
  if (rc >= 0) rc = listing_list_commits(r);
  if (rc >= 0) rc = list_old_layout(r, root);
  if (rc >= 0) rc = listing_check_unfinished(r, root);
  if (rc >= 0) rc = tsr__listing_check_gone(r);
  if (rc >= 0 && r->listing->old_layout) rc = listing_check_root(r);
  return rc == TSR_NOT_FOUND ? TSR_ABORT : rc; /* a listed file is gone: list again */
}

static void free_listing(tsr_commit_listing *listing) {
  tsr__map_release(&listing->names);
  tsr__map_release(&listing->others);
  tsr__arena_release(&listing->arena);
  tsr__free(listing);
}

/* Replaces the array's listing by a new one. `directories` may have some that are listed already. On an error the last listing stays, and *doubtful is the path of a file
 * whose age says whether the error may pass, or ''. */
static int renew(tsr_array *array, bool commits, bool force, tsr_array_directories *directories, tsr_path *doubtful,
                 tsr_error *error) {
  tsr_commit_listing *listing;
  TSR_TRY(TSR_ALLOC(&array->memory, &listing, error));
  tsr_memory *memory = &array->memory;
  tsr_renewal r = {.array = array, .directories = directories, .listing = listing, .need_root = force, .error = error};
  r.ignored.memory = r.in_con.memory = r.deletes.memory = r.ok.memory = r.metas.memory = r.settled.memory =
      r.gone.memory = memory;
  listing->names.memory = listing->others.memory = memory;
  tsr__arena_init(&listing->arena, memory);
  listing->generation = array->listing ? array->listing->generation + 1 : 1;
  listing->complete = commits;
  listing->moment.listed = tsr__moment();
  listing->moment.changes = array->store->changes;
  int rc = tsr__commit_files_outdate(array, error);
  if (rc >= 0) rc = listing_list_all(&r, commits);
  for (int i = 0; i < TSR_LISTING_STAMPS; i++) listing->moment.stamps[i] = directories->stamps[i];
  *doubtful = r.doubtful;
  tsr__map_release(&r.ignored);
  tsr__map_release(&r.in_con);
  tsr__map_release(&r.deletes);
  tsr__map_release(&r.ok);
  tsr__map_release(&r.metas);
  tsr__map_release(&r.settled);
  tsr__buffer_release(&r.gone);
  if (rc < 0) {
    free_listing(listing);
    return rc;
  }
  listing_sort(&listing->fragments, listing_by_time);
  listing_sort(&listing->deletes, listing_by_time);
  listing_sort(&listing->footers, newest_first);
  if (array->listing) free_listing(array->listing);
  array->listing = listing;
  tsr__commit_files_prune(&array->commit_files, listing->generation);
  return TSR_OK;
}

/* Returns 1 if one of the directories has changed in which a commit or a schema may appear, else 0. If a stamp takes as
 * long as a listing, it lists them, so that a tsr_renewal need not do it again. */
static int has_changed_directory(tsr_array *array, bool commits, tsr_array_directories *directories, tsr_error *error) {
  static const tsr_directory order[] = {TSR_IN_ROOT, TSR_IN_SCHEMAS, TSR_IN_COMMITS};
  const unsigned first = is_new_layout(array) ? 1 : 0, count = (commits ? 3 : 2) - first;
  const char *paths[TSR_LISTING_STAMPS];
  tsr_stamp now[TSR_LISTING_STAMPS];
  for (unsigned i = 0; i < count; i++) {
    if (!array->listing->moment.stamps[order[first + i]].known) return 1;
    paths[i] = tsr__directory_path(order[first + i]);
  }
  if (!array->store->stamps_are_listings) TSR_TRY(tsr__store_stamp_many(array->store, paths, count, now, error));
  else TSR_TRY(tsr__directories_list(directories, order + first, count, error));
  for (unsigned i = 0; i < count; i++) {
    const tsr_directory which = order[first + i];
    const tsr_stamp *stamp = array->store->stamps_are_listings ? &directories->stamps[which] : &now[i];
    if (!tsr__same_stamp(&array->listing->moment.stamps[which], stamp)) return 1;
  }
  return 0;
}

/* Returns 1 if the listing must be renewed, 0 if not. */
static int listing_has_changed(tsr_array *array, bool commits, tsr_array_directories *directories, tsr_error *error) {
  const tsr_commit_listing *listing = array->listing;
  if (!listing || (commits && !listing->complete)) return 1;
  int rc = has_changed_directory(array, commits, directories, error);
  if (rc < 0) tsr__wrap(error, "array %s", array->path);
  if (rc) return rc;
  if (commits && tsr__listing_newly_committed(array)) return 1;
  if (commits) TSR_TRY(rc = tsr__commit_files_grown(array, error));
  if (rc > 0) return 1;
  bool exists;
  for (uint64_t i = 0; commits && i < listing->pending.count; i++)
    if (tsr__store_find(array->store, listing->pending.items[i].path, &exists, NULL) < 0 || exists) return 1;
  return 0;
}

/* ---- Additions --------------------------------------------------------------------------------------------------- */

/* Returns true if nothing but additions of .wrt files can matter to the last listing as long as __schema is the same:
 * there are no commits that others decide about, and no file of which one look would not tell that it changed. */
static bool may_extend(const tsr_array *array) {
  const tsr_commit_listing *l = array->listing;
  return l && l->complete && l->pending.count == 0 && l->prepared.markers.count == 0 && l->unfinished.count == 0;
}

/* Returns true if a staged vacuum file of a fragment is listed that counts as soon as the fragment is committed. */
static bool has_staged_vacuum(const tsr_commit_listing *listing) {
  for (uint64_t i = 0; i < listing->others.capacity; i++) {
    const char *name = listing->others.entries[i].key;
    if (name && tsr__name_ends_in(name, TSR_SUFFIX_STAGED_VACUUM)) return true;
  }
  return false;
}

/* Finds the entries of __commits that the listing lacks. Returns false if anything else has changed but a few more .wrt
 * files. Both are in the order of their names, mostly. */
static bool find_added(const tsr_commit_listing *l, const tsr_listing *entries, uint64_t most, const char **added,
                       uint64_t *count) {
  char name[TSR_COMMIT_PATH];
  uint64_t written = 0, others = 0, next = 0, stem;
  *count = 0;
  for (uint64_t i = 0; i < entries->count; i++) {
    const char *text = entries->entries[i].name;
    if (!tsr__name_suffix(text, TSR_SUFFIX_WRITE, &stem)) {
      if (!tsr__map_get(&l->others, text)) return false;
      others++;
      continue;
    }
    if (stem >= sizeof name) return false;
    memcpy(name, text, stem);
    name[stem] = 0;
    if (next < l->fragments.count && !strcmp(l->fragments.items[next].name, name)) next++;
    else if (!tsr__map_get(&l->names, name)) {
      if (*count == most) return false;
      added[(*count)++] = text;
      continue;
    }
    written++;
  }
  return written == l->written && others == l->others.count;
}

/* Adds the names to the last listing. It has another generation then, even if an error has left some of them out: the
 * next look at the array lists it anew, because the stamps are not known. */
static int add_writes(tsr_array *array, const tsr_array_directories *directories, const char *const *added,
                      uint64_t count, tsr_error *error) {
  tsr_commit_listing *l = array->listing;
  tsr_renewal r = {.array = array, .listing = l, .future = tsr__environment_now() + TSR_TIME_AHEAD, .error = error};
  int rc = TSR_OK;
  l->generation++;
  l->moment.stamps[TSR_IN_COMMITS].known = false;
  for (uint64_t i = 0; i < count && rc >= 0; i++) {
    rc = list_commit(&r, &directories->lists[TSR_IN_COMMITS], added[i]);
    l->written += rc >= 0;
  }
  listing_sort(&l->fragments, listing_by_time);
  if (rc >= 0) l->moment.stamps[TSR_IN_COMMITS] = directories->stamps[TSR_IN_COMMITS];
  return rc;
}

/* Renews a listing to which others have added a few .wrt files. Returns 1 if it did, 0 if the array must be listed as a
 * whole. */
static int extend(tsr_array *array, tsr_array_directories *directories, tsr_error *error) {
  static const tsr_directory commits = TSR_IN_COMMITS;
  const char *added[ADDED];
  uint64_t count;
  if (!may_extend(array) || !is_new_layout(array) || has_staged_vacuum(array->listing)) return 0;
  const uint64_t listed = tsr__moment(), changes = array->store->changes;
  int rc = has_changed_directory(array, false, directories, error);
  if (rc == 0) rc = tsr__commit_files_changed(array, error);
  if (rc) return rc < 0 ? rc : 0;
  TSR_TRY(tsr__directories_list(directories, &commits, 1, error));
  TSR_TRY(tsr__directory_settle(directories, commits, error));
  const tsr_listing *entries = &directories->lists[commits];
  TSR_TRY(check_own_commit(array, entries, error));
  const uint64_t most = array->store->stamps_are_listings ? FEW : ADDED;
  if (!find_added(array->listing, entries, most, added, &count)) return 0;
  tsr__count(array->environment, TSR_COUNT_commits_listed, entries->count);
  array->listing->moment.listed = listed;
  array->listing->moment.changes = changes;
  if (count > 0) TSR_TRY(add_writes(array, directories, added, count, error));
  else array->listing->moment.stamps[commits] = directories->stamps[commits];
  return 1;
}

/* Renews the listing once if that is necessary. Returns 0 if it is not, or if it has been done; 1 if a file that may
 * still be written is in the way. */
static int renew_once(tsr_array *array, bool commits, bool force, tsr_patience *patience, bool *last,
                      tsr_error *error) {
  tsr_array_directories directories = {.store = array->store};
  tsr_path doubtful = {""};
  *last = true;
  const uint64_t looked = tsr__moment();
  int rc = force ? 1 : listing_has_changed(array, commits, &directories, error);
  if (rc == 0 && directories.listed[TSR_IN_COMMITS]) {
    rc = check_own_commit(array, &directories.lists[TSR_IN_COMMITS], error);
    if (rc < 0) {
      *last = rc != TSR_ABORT;
      tsr__directories_release(&directories);
      return rc;
    }
  }
  if (rc == 0 && (commits || !array->listing->complete)) array->listing->moment.listed = looked;
  const int extended = rc > 0 && commits && !force ? extend(array, &directories, error) : 0;
  if (extended) {
    rc = extended < 0 ? extended : TSR_OK;
    *last = rc != TSR_ABORT;
    if (rc < 0 && *last) tsr__wrap(error, "array %s", array->path);
  } else if (rc > 0) {
    rc = renew(array, commits || (array->listing && array->listing->complete), force, &directories, &doubtful, error);
    if (*doubtful.text) rc = tsr__patience(patience, array->store, doubtful.text, rc, error);
    *last = rc != 1 && rc != TSR_ABORT;
    if (rc < 0 && rc != TSR_NOT_FOUND && *last) tsr__wrap(error, "array %s", array->path);
  }
  tsr__directories_release(&directories);
  return rc;
}

static int list_array(tsr_array *array, bool commits, bool force, tsr_error *error) {
  tsr_patience patience = {0};
  tsr_error unseen;
  int rc = TSR_OK;
  bool last = false;
  if (!error) error = &unseen;
  for (int i = 0; i < RENEWALS && !last; i++) rc = renew_once(array, commits, force, &patience, &last, error);
  if (last) return rc;
  if (rc > 0 || array->unseen) { /* the doubtful file kept changing; or the server does not list what is there */
    const tsr_error before = *error;
    rc = tsr__fail(error, rc > 0 ? TSR_BUSY : TSR_UNREACHABLE, "%s", before.message);
  }
  return tsr__wrap(error, "array %s", array->path), rc;
}

int tsr__array_list(tsr_array *array, bool commits, bool force, tsr_error *error) {
  if (array->snapshots.frozen && !force && array->listing && array->listing->complete) return TSR_OK;
  return list_array(array, commits, force, error);
}

int tsr__array_list_present(tsr_array *array, tsr_error *error) { return list_array(array, true, false, error); }

void tsr__array_listing_release(tsr_array *array) {
  if (array->listing) free_listing(array->listing);
  array->listing = NULL;
  tsr__commit_files_prune(&array->commit_files, UINT64_MAX);
  tsr__map_release(&array->commit_files.by_path);
}
