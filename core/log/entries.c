/* entries.c: works out from the names in an array's directories what is committed.
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
 * A .con and a .meta of the same name have the same fragments (maintain/consolidate_files.c). Then the .meta is read
 * instead of the .con, because the caller needs the footers anyway; if the .meta cannot be read, the .con is. Errors in
 * footers are reported where footers are needed.
 *
 * Sections: lists; __commits; the array's directory, __schema, __fragment_meta; truncated .con files; all together.
 */
#include <stdlib.h>
#include <string.h>

#include "log/log.h"
#include "format/layout.h"
#include "base/arithmetic.h"
#include "store/store.h"
#include "environment/environment.h"

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
static int add_staged_vacuums(tsr_renewal *r, const char *directory, const tsr_listing *entries) {
  for (uint64_t i = 0; i < entries->count; i++) {
    tsr_committed item = {0};
    char name[TSR_STAGED_NAME];
    const char *text = entries->entries[i].name;
    if (!tsr__staged_vacuum(text, name) || !tsr__map_get(&r->listing->names, name)) continue;
    (void)tsr__name_parse(name, strlen(name), &item.parsed);
    TSR_TRY(tsr__renewal_copy_text(r, name, strlen(name), &item.name));
    TSR_TRY(tsr__renewal_join_path(r, directory, text, &item.path));
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
static int prefetch_commit_files(tsr_renewal *r, const tsr_listing *entries) {
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

static int list_commits(tsr_renewal *r) {
  const tsr_listing *entries = &r->directories->lists[TSR_IN_COMMITS];
  r->future = tsr__environment_now() + TSR_TIME_AHEAD;
  TSR_TRY(prefetch_commit_files(r, entries));
  TSR_TRY(read_ignored(r, entries));
  TSR_TRY(read_consolidated(r, entries));
  for (uint64_t i = 0; i < entries->count; i++) {
    note_entry(r->listing, entries->entries[i].name);
    TSR_TRY(list_commit(r, entries, entries->entries[i].name));
  }
  return add_staged_vacuums(r, TSR_DIR_COMMITS, entries);
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
  return add_staged_vacuums(r, "", root);
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

bool tsr__entry_is_schema(const tsr_entry *entry, tsr_name *parsed) {
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
    if (!tsr__entry_is_schema(&entries->entries[i], &item.parsed)) continue;
    TSR_TRY(tsr__renewal_copy_text(r, text, strlen(text), &item.name));
    TSR_TRY(tsr__renewal_join_path(r, TSR_DIR_SCHEMA, text, &item.path));
    TSR_TRY(tsr__renewal_append(r, &r->listing->schemas, &item));
  }
  return r->listing->schemas.count == 0 && r->log->unpublished_schema ? list_unpublished(r, root) : TSR_OK;
}

/* ---- Truncated .con files ---------------------------------------------------------------------------------------- */

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
static int check_truncated(tsr_renewal *r, const tsr_listing *root) {
  const tsr_commit_list *list = &r->listing->truncated_con;
  if (list->count == 0) return TSR_OK;
  TSR_TRY(rule_out_names(r));
  const tsr_other_commits known = {.store = r->log->store,
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
    const int rc = tsr__truncated_con_loses(&known, file->path, &file->partial, &r->doubtful, r->error);
    if (rc) return rc < 0 ? rc : TSR_CORRUPT;
  }
  return TSR_OK;
}

/* ---- All together ------------------------------------------------------------------------------------------------ */

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

int tsr__entries_add_schemas(tsr_renewal *r) {
  const tsr_listing *root = &r->directories->lists[TSR_IN_ROOT];
  TSR_TRY(list_schemas(r, root));
  if (r->listing->schemas.count == 0) return fail_no_array(r, root);
  find_old_names(r, root);
  return TSR_OK;
}

int tsr__entries_add_commits(tsr_renewal *r) {
  const tsr_listing *root = &r->directories->lists[TSR_IN_ROOT];
  TSR_TRY(list_footers(r)); /* first: list_commits needs the names */
  TSR_TRY(list_commits(r));
  TSR_TRY(list_old_layout(r, root));
  TSR_TRY(tsr__listing_add_unpublished(r));
  TSR_TRY(check_truncated(r, root));
  TSR_TRY(tsr__listing_check_gone(r));
  sort_list(&r->listing->fragments, by_time);
  sort_list(&r->listing->deletes, by_time);
  sort_list(&r->listing->footers, newest_first);
  return TSR_OK;
}

int tsr__entries_append_writes(tsr_renewal *r, const char *const *names, uint64_t count, bool *moved) {
  tsr_commit_list *fragments = &r->listing->fragments;
  const uint64_t before = fragments->count;
  int rc = TSR_OK;
  for (uint64_t i = 0; i < count && rc >= 0; i++) rc = list_commit(r, &r->directories->lists[TSR_IN_COMMITS], names[i]);
  *moved = !sort_behind(fragments, before, by_time);
  return rc;
}
