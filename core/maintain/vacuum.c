/* vacuum.c: removes files that consolidation has replaced, and debris that unfinished writes have left behind.
 *
 * The sections: the .vac files, which name the fragments or metadata files that a merged one replaces, and the order in
 * which they are processed; fragments and debris; then the rules of a vacuum as a whole, metadata, footers and the
 * entry points. vacuum_commits.c removes the commit files. */
#include "maintain/maintain.h"

#include <string.h>

#include "base/arithmetic.h"
#include "base/options.h"
#include "format/layout.h"
#include "environment/environment.h"
#include "log/log.h"
#include "store/store.h"
#include "array/array.h"
#include "label/label.h"

int tsr__vacuum_remove(tsr_vacuum *v, const char *name, tsr_error *error) {
  tsr_error one;
  int rc = tsr__store_remove(v->store, name, &one);
  if (rc >= 0) return 1;
  if (rc == TSR_NOT_FOUND) return 0;
  *error = one;
  return rc;
}

int tsr__vacuum_is_recent(tsr_vacuum *v, const char *path, tsr_error *error) {
  uint64_t modified;
  tsr_error one;
  if (v->grace == 0) return 0;
  const int rc = tsr__store_modified(v->store, path, &modified, &one);
  if (rc == TSR_NOT_FOUND) return 1;
  if (rc < 0) return *error = one, rc;
  return tsr__add_sat(modified, v->grace) > tsr__store_now(v->store);
}

int tsr__vacuum_sync(tsr_vacuum *v, const char *directory, tsr_error *error) {
  bool exists = v->store->stamps_are_listings; /* in such a store directories always exist */
  if (!exists) TSR_TRY(tsr__directory_find(v->store, directory, &exists, error));
  return exists ? tsr__store_sync_directory(v->store, directory, error) : TSR_OK;
}

int tsr__vacuum_list_array(tsr_vacuum *v, tsr_error *error) {
  if (v->listed) return TSR_OK;
  TSR_TRY(tsr__log_list(&v->array->log, true, true, error));
  v->listed = true;
  return TSR_OK;
}

int tsr__vacuum_list(tsr_vacuum *v, const char *directory, tsr_listing *entries, tsr_error *error) {
  *entries = (tsr_listing){.memory = v->store->memory};
  int rc = tsr__store_list(v->store, directory, entries, error);
  return rc == TSR_NOT_FOUND ? TSR_OK : rc;
}

static int read_vacuum(tsr_vacuum *v, const char *file, tsr_vacuum_file *out, tsr_error *error) {
  tsr_buffer bytes = {.memory = v->store->memory};
  int rc = tsr__store_read_all(v->store, file, UINT64_C(1) << 30, &bytes, error);
  if (rc >= 0) {
    tsr_input in = tsr__input(bytes.data, bytes.size);
    rc = tsr__names_decode(&in, &v->arena, &out->names, error);
    if (rc < 0) tsr__wrap(error, "%s", file);
  }
  tsr__buffer_release(&bytes);
  return rc;
}

/* Reads the .vac files among the entries of a directory and appends them to `files`, a list of tsr_vacuum_file whose
 * strings are in the vacuum's arena. */
static int vacuum_files_read(tsr_vacuum *v, const char *directory, const tsr_listing *entries, tsr_buffer *files,
                             tsr_error *error) {
  for (uint64_t i = 0; i < entries->count; i++) {
    tsr_vacuum_file one = {0};
    uint64_t stem;
    const char *text = entries->entries[i].name;
    if (!tsr__name_suffix(text, TSR_SUFFIX_VACUUM, &stem) || !tsr__name_parse(text, stem, &one.parsed)) continue;
    TSR_TRY(TSR_ARENA_COPY(&v->arena, text, stem, &one.name, error));
    tsr_path p = tsr__path_of(directory, text, "");
    TSR_TRY(TSR_ARENA_COPY(&v->arena, p.text, strlen(p.text), &one.path, error));
    tsr_error unread;
    int rc = read_vacuum(v, one.path, &one, &unread);
    if (rc == TSR_NOT_FOUND) continue; /* another vacuum has removed it */
    if (rc < 0) return *error = unread, rc;
    tsr__work_more(v->environment, one.names.count);
    TSR_TRY(tsr__buffer_append(files, &one, sizeof one, error));
  }
  return TSR_OK;
}

/* Returns the .vac files of a list, and sets *count to their number. They are borrowed from the list. */
static tsr_vacuum_file *files_of(const tsr_buffer *files, uint64_t *count) {
  *count = files->size / sizeof(tsr_vacuum_file);
  return (tsr_vacuum_file *)(void *)files->data;
}

/* Fills `waiting`, an empty map, for vacuum_files_next: name of the merged object -> its .vac file. */
static int vacuum_files_map(const tsr_buffer *files, tsr_map *waiting, tsr_error *error) {
  uint64_t count;
  tsr_vacuum_file *all = files_of(files, &count);
  for (uint64_t i = 0; i < count; i++) TSR_TRY(tsr__map_put(waiting, all[i].name, &all[i], error));
  return TSR_OK;
}

/* Returns the next .vac to process, or NULL at the end. A .vac that names the merged object of another .vac comes after
 * that one. Files that form a cycle are never returned. */
static tsr_vacuum_file *vacuum_files_next(const tsr_buffer *files, tsr_map *waiting) {
  uint64_t count;
  tsr_vacuum_file *all = files_of(files, &count);
  for (uint64_t i = 0; i < count; i++) {
    bool waits = all[i].done;
    for (uint64_t n = 0; n < all[i].names.count && !waits; n++)
      waits = tsr__map_get(waiting, all[i].names.names[n]) != NULL;
    if (waits) continue;
    all[i].done = true;
    tsr__map_remove(waiting, all[i].name);
    return &all[i];
  }
  return NULL;
}

static bool vacuum_is_source(const tsr_vacuum_file *file, const char *name) {
  return tsr__may_be_source(name, &file->parsed, file->name);
}

/* Removes the .vac file itself, counting it. */
static int vacuum_file_remove(tsr_vacuum *v, const tsr_vacuum_file *file, tsr_error *error) {
  const int found = tsr__vacuum_remove(v, file->path, error);
  if (found < 0) return found;
  v->removed += (uint64_t)found;
  return TSR_OK;
}

/* ---- Fragments and debris ---------------------------------------------------------------------------------------- */

#define TREES_AT_ONCE 100u /* fragments, in a store where a removal is a request */
#define VACUUM_OLD    (UINT64_C(24) * 3600 * 1000) /* ms since its last change after which debris is removed */

/* ---- Sources of merged fragments --------------------------------------------------------------------------------- */

/* Adds the existing directories of a fragment to `paths`. `lists` are the listings of __fragments and of the root, if
 * checking a single directory would cost as much as listing; otherwise NULL. *root is set to true if a directory is in
 * the root. */
static int find_directories(tsr_vacuum *v, const char *name, const tsr_listing *lists, tsr_buffer *paths, bool *root,
                            tsr_error *error) {
  for (int old = 0; old < 2; old++) {
    const tsr_path p = tsr__path_of(old ? "" : TSR_DIR_FRAGMENTS, name, "");
    const char *copy;
    bool exists = lists && tsr__listing_has(&lists[old], name);
    if (!lists) TSR_TRY(tsr__directory_find(v->store, p.text, &exists, error));
    if (!exists) continue;
    TSR_TRY(TSR_ARENA_COPY(&v->arena, p.text, strlen(p.text), &copy, error));
    TSR_TRY(tsr__buffer_append(paths, &copy, sizeof copy, error));
    *root |= old;
  }
  return TSR_OK;
}

static int find_all_directories(tsr_vacuum *v, const tsr_buffer *sources, tsr_buffer *paths, bool *root,
                                tsr_error *error) {
  static const char *const directories[] = {TSR_DIR_FRAGMENTS, ""};
  const char *const *names = (const char *const *)(const void *)sources->data;
  tsr_listing lists[2] = {{.memory = v->store->memory}, {.memory = v->store->memory}};
  tsr_stamp stamps[2];
  const bool listed = v->store->stamps_are_listings;
  int rc = listed ? tsr__store_list_many(v->store, directories, 2, lists, stamps, error) : TSR_OK;
  if (rc < 0) return rc;
  for (uint64_t i = 0; i < sources->size / sizeof *names && rc >= 0; i++)
    rc = find_directories(v, names[i], listed ? lists : NULL, paths, root, error);
  tsr__listing_release(&lists[0]);
  tsr__listing_release(&lists[1]);
  return rc;
}

/* Removes the directories of fragments: many at a time if a removal is a request; otherwise one by one, so that the
 * host may cancel in between. *root is set to true if one was in the array's root. */
static int remove_directories(tsr_vacuum *v, const tsr_buffer *sources, bool *root, tsr_error *error) {
  tsr_buffer paths = {.memory = v->store->memory};
  int rc = find_all_directories(v, sources, &paths, root, error);
  const char *const *all = (const char *const *)(const void *)paths.data;
  const uint64_t count = paths.size / sizeof *all, most = v->store->stamps_are_listings ? TREES_AT_ONCE : 1;
  for (uint64_t i = 0; i < count && rc >= 0; i += most) {
    const uint64_t n = TSR_MIN(count - i, most);
    rc = tsr__cancelled(&v->environment->memory, error);
    if (rc >= 0) rc = tsr__store_remove_trees(v->store, all + i, n, error);
    if (rc >= 0) v->removed += n;
    tsr_work_done(v->environment, n);
  }
  tsr__buffer_release(&paths);
  return rc;
}

/* Sets *timed if the merged fragment stores the times of its cells. Then readers of times within its range do not need
 * the sources. */
static int vacuum_has_times(tsr_vacuum *v, const tsr_vacuum_file *file, bool *timed, tsr_error *error) {
  const tsr_schema *schema;
  TSR_TRY(tsr__array_schema_at(v->array, UINT64_MAX, &schema, error));
  *timed = !schema->dense && layout_has_timed_merges(file->parsed.version);
  return TSR_OK;
}

int tsr__vacuum_sources(tsr_vacuum *v, bool at_once, const tsr_buffer *sources, tsr_error *error) {
  bool root = false;
  v->listed = false;
  TSR_TRY(tsr__vacuum_uncommit(v, sources, at_once, error));
  TSR_TRY(tsr__vacuum_remove_staged_con(v, error));
  TSR_TRY(tsr__vacuum_cancel_new_commits(v, sources, error));
  TSR_TRY(remove_directories(v, sources, &root, error));
  TSR_TRY(tsr__vacuum_sync(v, TSR_DIR_FRAGMENTS, error));
  if (root) TSR_TRY(tsr__store_sync_directory(v->store, "", error));
  return tsr__vacuum_cancel_new_commits(v, sources, error);
}

/* Sets *exists if any source of the .vac still exists. */
static int has_sources(tsr_vacuum *v, const tsr_vacuum_file *file, bool *exists, tsr_error *error) {
  *exists = false;
  for (uint64_t n = 0; n < file->names.count && !*exists; n++) {
    if (!vacuum_is_source(file, file->names.names[n])) continue;
    tsr_path a = tsr__path_of(TSR_DIR_FRAGMENTS, file->names.names[n], ""),
             b = tsr__path_of("", file->names.names[n], "");
    TSR_TRY(tsr__directory_find(v->store, a.text, exists, error));
    if (!*exists) TSR_TRY(tsr__directory_find(v->store, b.text, exists, error));
  }
  return TSR_OK;
}

/* Finds the fragments whose cells are all in a committed fragment (tsr__covered). */
static int find_covered(tsr_vacuum *v, const tsr_buffer *files, tsr_map *covered, tsr_error *error) {
  uint64_t count;
  const tsr_vacuum_file *all = files_of(files, &count);
  tsr_replacing *replacing;
  TSR_TRY(TSR_ARENA_ARRAY(&v->arena, count, &replacing, error));
  for (uint64_t i = 0; i < count; i++) replacing[i] = (tsr_replacing){all[i].name, &all[i].names};
  return tsr__covered(replacing, count, &v->array->log.listing->names, covered, error);
}

/* Sets *goes if the sources of the .vac may be removed. If the merged fragment is neither committed nor replaced by
 * another one, the sources may be the only fragments with these cells, and must stay. */
static int may_remove_sources(tsr_vacuum *v, const tsr_vacuum_file *file, const tsr_map *covered, bool *goes,
                              tsr_error *error) {
  bool needed = false;
  if (!tsr__map_get(&v->array->log.listing->names, file->name) && !tsr__map_get(covered, file->name))
    TSR_TRY(has_sources(v, file, &needed, error));
  *goes = !needed;
  return TSR_OK;
}

typedef struct replaced { /* the sources of all .vac files that may be removed */
  tsr_buffer sources; /* const char *, in the order in which their commits are removed */
  tsr_buffer files; /* tsr_vacuum_file *: these .vac files */
  bool at_once; /* the sources must stop being committed in one step */
} replaced;

/* Returns true if the sources of this .vac are left to a later vacuum (tsr_vacuum_options.most). */
static bool is_enough(const tsr_vacuum *v, const tsr_vacuum_file *file, const replaced *all) {
  const uint64_t chosen = all->sources.size / sizeof(char *);
  return v->most > 0 && chosen > 0 && tsr__add_sat(chosen, file->names.count) > v->most;
}

static int add_replaced(tsr_vacuum *v, tsr_vacuum_file *file, const tsr_map *covered, replaced *all, tsr_error *error) {
  bool goes, timed;
  const int recent = tsr__vacuum_is_recent(v, file->path, error);
  if (recent != 0) return TSR_MIN(recent, TSR_OK);
  TSR_TRY(may_remove_sources(v, file, covered, &goes, error));
  if (!goes) return TSR_OK;
  TSR_TRY(vacuum_has_times(v, file, &timed, error));
  all->at_once |= !timed;
  for (uint64_t n = file->names.count; n-- > 0;) /* newest first: the order in which their commits are removed */
    if (vacuum_is_source(file, file->names.names[n]))
      TSR_TRY(tsr__buffer_append(&all->sources, &file->names.names[n], sizeof(char *), error));
  return tsr__buffer_append(&all->files, &file, sizeof file, error);
}

static int vacuum_replaced(tsr_vacuum *v, const tsr_buffer *files, tsr_error *error) {
  tsr_memory *memory = v->store->memory;
  replaced all = {.sources.memory = memory, .files.memory = memory};
  tsr_map waiting = {.memory = memory}, covered = {.memory = memory};
  tsr_vacuum_file *file;
  int rc = vacuum_files_map(files, &waiting, error);
  if (rc >= 0) rc = find_covered(v, files, &covered, error);
  while (rc >= 0 && (file = vacuum_files_next(files, &waiting)) && !is_enough(v, file, &all))
    rc = add_replaced(v, file, &covered, &all, error);
  if (rc >= 0 && all.files.size) rc = tsr__vacuum_sources(v, all.at_once, &all.sources, error);
  const tsr_vacuum_file *const *done = (const tsr_vacuum_file *const *)(const void *)all.files.data;
  for (uint64_t i = 0; i < all.files.size / sizeof *done && rc >= 0; i++) rc = vacuum_file_remove(v, done[i], error);
  tsr__map_release(&waiting);
  tsr__map_release(&covered);
  tsr__buffer_release(&all.sources);
  tsr__buffer_release(&all.files);
  return rc;
}

/* ---- Debris ------------------------------------------------------------------------------------------------------ */

/* Concatenates the names and contents of all markers of prepared commits. */
static int read_markers(tsr_vacuum *v, const tsr_listing *entries, tsr_buffer *texts, tsr_error *error) {
  int rc = TSR_OK;
  for (uint64_t i = 0; i < entries->count && rc >= 0; i++) {
    uint64_t stem;
    if (!tsr__name_suffix(entries->entries[i].name, TSR_SUFFIX_PENDING, &stem)) continue;
    tsr_path p = tsr__path_of(TSR_DIR_COMMITS, entries->entries[i].name, "");
    rc = tsr__buffer_append(texts, entries->entries[i].name, stem, error);
    if (rc >= 0) rc = tsr__buffer_append_u8(texts, '\n', error);
    if (rc >= 0) rc = tsr__store_read_all(v->store, p.text, UINT64_C(1) << 24, texts, error);
    if (rc == TSR_NOT_FOUND) rc = TSR_OK; /* its commit was published or undone meanwhile */
    if (rc >= 0) rc = tsr__buffer_append_u8(texts, '\n', error);
  }
  if (rc >= 0) rc = tsr__buffer_append_u8(texts, 0, error);
  return rc;
}

/* Returns true if a name occurs in the concatenated markers. */
static bool is_marked(const tsr_buffer *texts, const char *name) {
  for (uint64_t at = 0, size = strlen(name); at + size <= texts->size; at++)
    if (memcmp(texts->data + at, name, size) == 0) return true;
  return false;
}

/* Returns true if a file, or a directory and all files in it, was last changed at least a day ago. A directory with a
 * marker (.pending) or a subdirectory never counts as old. */
static bool vacuum_is_old(tsr_vacuum *v, const char *name, bool directory) {
  uint64_t modified;
  tsr_error unseen;
  tsr_listing entries;
  if (tsr__store_modified(v->store, name, &modified, &unseen) < 0) return false;
  bool old = tsr__add_sat(modified, TSR_MAX(v->grace, VACUUM_OLD)) <= tsr__store_now(v->store);
  if (!directory || !old) return old;
  if (tsr__vacuum_list(v, name, &entries, &unseen) < 0) return false;
  for (uint64_t i = 0; i < entries.count && old; i++) {
    tsr_path p = tsr__path_of(name, entries.entries[i].name, "");
    old = strcmp(entries.entries[i].name, TSR_FILE_OLD_PENDING) != 0 && entries.entries[i].kind == TSR_ENTRY_FILE &&
          vacuum_is_old(v, p.text, false);
  }
  tsr__listing_release(&entries);
  return old;
}

static bool vacuum_is_provisional(const char *name) { /* .UUID */
  return name[0] == '.' && strlen(name) == 33 && strspn(name + 1, "0123456789abcdef") == 32;
}

/* Appends to `found` the paths of the fragment directories of a directory that are old, not committed and not named by
 * a marker. */
static int find_debris(tsr_vacuum *v, const char *directory, const tsr_listing *entries, const tsr_buffer *markers,
                       tsr_buffer *found, tsr_error *error) {
  for (uint64_t i = 0; i < entries->count; i++) {
    const char *name = entries->entries[i].name, *copy;
    tsr_name parsed;
    bool named = tsr__name_parse(name, strlen(name), &parsed);
    if (entries->entries[i].kind != TSR_ENTRY_DIRECTORY || (!named && !vacuum_is_provisional(name))) continue;
    if (named && (tsr__map_get(&v->array->log.listing->names, name) ||
                  (*directory && !layout_has_commits_folder(parsed.version))))
      continue;
    tsr_path p = tsr__path_of(directory, name, "");
    if (is_marked(markers, name) || !vacuum_is_old(v, p.text, true)) continue;
    TSR_TRY(TSR_ARENA_COPY(&v->arena, p.text, strlen(p.text), &copy, error));
    TSR_TRY(tsr__buffer_append(found, &copy, sizeof copy, error));
  }
  return TSR_OK;
}

/* Removes debris. The array is listed after its markers were looked at: a prepared commit whose marker was gone by then
 * is in the listing, if it was published. */
static int remove_debris(tsr_vacuum *v, const tsr_buffer *found, tsr_error *error) {
  const char *const *paths = (const char *const *)(const void *)found->data;
  if (found->size == 0) return TSR_OK;
  v->listed = false;
  TSR_TRY(tsr__vacuum_list_array(v, error));
  for (uint64_t i = 0; i < found->size / sizeof *paths; i++) {
    const char *slash = strrchr(paths[i], '/');
    if (tsr__map_get(&v->array->log.listing->names, slash ? slash + 1 : paths[i])) continue;
    TSR_TRY(tsr__store_remove_tree(v->store, paths[i], error));
    v->removed++;
  }
  return TSR_OK;
}

/* Returns true if a file is staged: ".NAME..." would have become a commit, a vacuum file or a consolidated file;
 * ".UUID" a schema or metadata. Files that probe a server's abilities count, too. `stem` receives NAME or UUID. */
static bool is_staged(const char *name, char stem[160]) {
  const char *end = strchr(name + (*name != 0), '.');
  const uint64_t size = end ? (uint64_t)(end - name) - 1 : strlen(name) - (*name != 0);
  tsr_name parsed;
  if (tsr__exchange(name, stem)) return true;
  if (*name != '.' || size >= 160) return false;
  memcpy(stem, name + 1, size);
  stem[size] = 0;
  return vacuum_is_provisional(name) || tsr__bucket_is_proof(name) || tsr__name_parse(stem, size, &parsed);
}

/* Removes old staged files from a directory, unless a marker names them. */
static int remove_staged(tsr_vacuum *v, const char *directory, const tsr_listing *entries, const tsr_buffer *markers,
                         tsr_error *error) {
  int rc = TSR_OK;
  for (uint64_t i = 0; i < entries->count && rc >= 0; i++) {
    const char *name = entries->entries[i].name;
    char stem[160];
    if (entries->entries[i].kind != TSR_ENTRY_FILE || !is_staged(name, stem)) continue;
    tsr_path p = tsr__path_of(directory, name, "");
    if (is_marked(markers, stem) || !vacuum_is_old(v, p.text, false)) continue;
    rc = tsr__vacuum_remove(v, p.text, error);
    if (rc >= 0) v->removed += (uint64_t)rc;
  }
  return rc < 0 ? rc : TSR_OK;
}

/* Aborts old multipart uploads. A server that does not list them, or refuses to, is not an error. */
static int vacuum_uploads(tsr_vacuum *v, tsr_error *error) {
  const uint64_t now = tsr__store_now(v->store), age = TSR_MAX(v->grace, VACUUM_OLD);
  tsr_error one;
  const int rc = tsr__store_end_uploads(v->store, now - TSR_MIN(now, age), &one);
  if (rc != TSR_INTERRUPT && rc != TSR_NOMEM) return TSR_OK;
  return *error = one, rc;
}

/* Removes the files of turns that no writer can take anymore. */
static int vacuum_turns(tsr_vacuum *v, tsr_error *error) {
  tsr_listing entries;
  tsr_buffer paths = {.memory = v->store->memory};
  const uint64_t now = tsr__store_now(v->store);
  if (!v->store->commits_in_turns) return TSR_OK;
  int rc = tsr__vacuum_list(v, TSR_DIR_TURNS, &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    const tsr_entry *e = &entries.entries[i];
    const tsr_path p = tsr__path_of(TSR_DIR_TURNS, e->name, "");
    uint64_t modified = e->modified;
    const char *copy;
    if (!e->known && tsr__store_modified(v->store, p.text, &modified, NULL) < 0) continue;
    if (tsr__add_sat(modified, TSR_TURN_OLD) > now) continue;
    rc = TSR_ARENA_COPY(&v->arena, p.text, strlen(p.text), &copy, error);
    if (rc >= 0) rc = tsr__buffer_append(&paths, &copy, sizeof copy, error);
  }
  tsr__listing_release(&entries);
  const uint64_t count = paths.size / sizeof(char *);
  if (rc >= 0 && count > 0)
    rc = tsr__store_remove_many(v->store, (const char *const *)(const void *)paths.data, count, error);
  tsr__buffer_release(&paths);
  return rc;
}

/* ---- The entry point --------------------------------------------------------------------------------------------- */

/* Lists __commits, the root and, if `count` is 3, __fragments. On an error there is nothing to release. */
static int list_for_vacuum(tsr_vacuum *v, tsr_listing *lists, unsigned count, tsr_error *error) {
  static const char *const paths[] = {TSR_DIR_COMMITS, "", TSR_DIR_FRAGMENTS};
  tsr_stamp stamps[3];
  for (unsigned i = 0; i < 3; i++) lists[i] = (tsr_listing){.memory = v->store->memory};
  return tsr__store_list_many(v->store, paths, count, lists, stamps, error);
}

static void release_lists(tsr_listing *lists) {
  for (unsigned i = 0; i < 3; i++) tsr__listing_release(&lists[i]);
}

static int vacuum_debris(tsr_vacuum *v, tsr_error *error) {
  tsr_listing lists[3];
  tsr_buffer markers = {.memory = v->store->memory}, found = {.memory = v->store->memory};
  TSR_TRY(list_for_vacuum(v, lists, 3, error));
  int rc = read_markers(v, &lists[0], &markers, error);
  if (rc >= 0) rc = find_debris(v, TSR_DIR_FRAGMENTS, &lists[2], &markers, &found, error);
  if (rc >= 0) rc = find_debris(v, "", &lists[1], &markers, &found, error);
  if (rc >= 0) rc = remove_debris(v, &found, error);
  if (rc >= 0) rc = remove_staged(v, TSR_DIR_COMMITS, &lists[0], &markers, error);
  if (rc >= 0) rc = remove_staged(v, "", &lists[1], &markers, error);
  tsr__buffer_release(&found);
  tsr__buffer_release(&markers);
  release_lists(lists);
  return rc;
}

/* Removes the fragments that .vac files name, first their commits and last the .vac files, and debris: fragments and
 * staged files that no commit and no marker names, and that are a day old. */
static int vacuum_fragments(tsr_vacuum *v, tsr_error *error) {
  tsr_listing lists[3];
  tsr_buffer files = {.memory = v->store->memory};
  TSR_TRY(tsr__vacuum_list_array(v, error));
  TSR_TRY(tsr__vacuum_mend(v, error));
  TSR_TRY(tsr__vacuum_list_array(v, error));
  TSR_TRY(tsr__staged_vacuums_finish(&v->array->log, error));
  TSR_TRY(tsr__revert_duplicating_merges(v->array, error));
  TSR_TRY(list_for_vacuum(v, lists, 2, error));
  int rc = vacuum_files_read(v, TSR_DIR_COMMITS, &lists[0], &files, error);
  if (rc >= 0) rc = vacuum_files_read(v, "", &lists[1], &files, error);
  if (rc >= 0) rc = vacuum_replaced(v, &files, error);
  if (rc >= 0) rc = tsr__vacuum_list_array(v, error);
  if (rc >= 0) rc = vacuum_debris(v, error);
  if (rc >= 0) rc = vacuum_turns(v, error);
  if (rc >= 0) rc = vacuum_uploads(v, error);
  tsr__buffer_release(&files);
  release_lists(lists);
  return rc;
}

/* ---- The vacuum as a whole --------------------------------------------------------------------------------------- */

/* A crash at any point must neither hide cells that readers see nor bring back cells that they do not see. A vacuum
 * removes:
 *
 *  - Fragments that a .vac file names (sources), if the merged fragment of that .vac is committed or was merged itself.
 *    The order is: the commits of all sources; a sync; .con files that other processes have staged
 *    (consolidate_files.c); the fragments; a sync; the .vac files. The sources of all .vac files are processed
 *    together. If cells do not store their times, readers of times within a merged range see the sources until then,
 *    and must see all of them or none. So the commit files of the sources are first joined into one .con. Removing that
 *    .con, or writing an .ign file that cancels entries of .con files, then uncommits all sources at once. Below format
 *    version 12 there is no .con: there the sources are removed one by one, the newest of one .vac first. If a source
 *    of one .vac is the merged fragment of another, the sources of the other go first.
 *  - .con files that are truncated, if no reader loses anything by that (commit_files.c).
 *  - Commits: a .wrt that a .con contains; a .con if a later one contains its active entries; an .ign if no .con has an
 *    entry that it cancels. The .del file of a delete stays: TileDB opens it when it consolidates commits.
 *  - Debris: fragment directories and staged files that are not committed, that no marker of a prepared commit names,
 *    and whose files are all at least a day old; also old multipart uploads to a bucket.
 *
 * A grace keeps what was replaced recently. Replaced files count as old as the file that replaces them: the .vac of
 * merged fragments and metadata, the .con that has the commits, the last .meta. A bucket dates these when they are
 * published. A directory or a database dates them when they are written, just before they get their final names.
 *
 * The first half of this file removes fragments and debris, vacuum_commits.c commit files, and the sections below the
 * metadata and the footers. */

/* ---- Metadata ---------------------------------------------------------------------------------------------------- */

/* Removes the files that a .vac of __meta names, if the merged file exists. */
static int metadata_of(tsr_vacuum *v, const tsr_listing *entries, tsr_vacuum_file *file, tsr_error *error) {
  const int recent = tsr__vacuum_is_recent(v, file->path, error);
  file->stays = recent > 0;
  if (recent != 0 || !tsr__listing_has(entries, file->name)) return TSR_MIN(recent, TSR_OK);
  /* Newest first: if the vacuum is interrupted, reads at earlier times still find all files up to that time. */
  for (uint64_t n = file->names.count; n-- > 0;) {
    tsr_work_done(v->environment, 1);
    TSR_TRY(tsr__cancelled(&v->environment->memory, error));
    if (!vacuum_is_source(file, file->names.names[n])) continue;
    tsr_path p = tsr__path_of(TSR_DIR_META, file->names.names[n], "");
    int found = tsr__vacuum_remove(v, p.text, error);
    if (found < 0) return found;
    v->removed += (uint64_t)found;
  }
  return TSR_OK;
}

/* Removes the .vac files of __meta, after the removal of the files that they name is durable. */
static int remove_metadata_vacuums(tsr_vacuum *v, const tsr_listing *entries, const tsr_buffer *files,
                                   tsr_error *error) {
  uint64_t count;
  const tsr_vacuum_file *all = files_of(files, &count);
  if (count) TSR_TRY(tsr__vacuum_sync(v, TSR_DIR_META, error));
  for (uint64_t i = 0; i < count; i++)
    if (all[i].done && !all[i].stays && tsr__listing_has(entries, all[i].name))
      TSR_TRY(vacuum_file_remove(v, &all[i], error));
  return tsr__vacuum_sync(v, TSR_DIR_META, error);
}

static int vacuum_metadata(tsr_vacuum *v, tsr_error *error) {
  tsr_listing entries;
  tsr_buffer files = {.memory = v->store->memory};
  tsr_map waiting = {.memory = v->store->memory};
  tsr_vacuum_file *file;
  int rc = tsr__vacuum_list(v, TSR_DIR_META, &entries, error);
  if (rc >= 0) rc = vacuum_files_read(v, TSR_DIR_META, &entries, &files, error);
  if (rc >= 0) rc = vacuum_files_map(&files, &waiting, error);
  while (rc >= 0 && (file = vacuum_files_next(&files, &waiting))) rc = metadata_of(v, &entries, file, error);
  if (rc >= 0) rc = remove_metadata_vacuums(v, &entries, &files, error);
  tsr__map_release(&waiting);
  tsr__buffer_release(&files);
  tsr__listing_release(&entries);
  return rc;
}

/* ---- Footers ----------------------------------------------------------------------------------------------------- */

/* Returns 1 if a .meta is damaged because its writer died or the disk failed. A file that is still being written is not
 * damaged. */
static int is_damaged(tsr_vacuum *v, const tsr_committed *item, tsr_error *error) {
  const tsr_commit_file *file;
  tsr_error one;
  const int rc = tsr__log_file(&v->array->log, item->path, &file, &one);
  if (rc == TSR_NOT_FOUND || rc == TSR_BUSY) return 0;
  if (rc < 0) return *error = one, rc;
  return file->damaged;
}

/* Removes all damaged .meta files, and of the others all but those with the greatest end time. */
static int vacuum_footers(tsr_vacuum *v, tsr_error *error) {
  TSR_TRY(tsr__vacuum_list_array(v, error));
  const tsr_commit_list *footers = &v->array->log.listing->footers;
  const tsr_committed *last = NULL;
  tsr__work_more(v->environment, footers->count);
  for (uint64_t i = 0; i < footers->count; i++) {
    const tsr_committed *item = &footers->items[i];
    tsr_work_done(v->environment, 1);
    const int damaged = is_damaged(v, item, error);
    if (damaged < 0) return damaged;
    if (!damaged && !last) last = item;
    if (!damaged && item->parsed.end == last->parsed.end) continue;
    const int recent = damaged ? 0 : tsr__vacuum_is_recent(v, last->path, error);
    if (recent < 0) return recent;
    if (recent) continue;
    int found = tsr__vacuum_remove(v, item->path, error);
    if (found < 0) return found;
    v->removed += (uint64_t)found;
  }
  return TSR_OK;
}

/* ---- Entry points ------------------------------------------------------------------------------------------------ */

/* Fails with TSR_PERM if a directory of the array is a symbolic link: its files may belong to another array, and would
 * look like debris. */
static int check_links(const tsr_vacuum *v, tsr_error *error) {
  static const char *const directories[] = {TSR_DIR_FRAGMENTS, TSR_DIR_COMMITS, TSR_DIR_META, TSR_DIR_FOOTERS};
  for (unsigned i = 0; i < sizeof directories / sizeof *directories; i++)
    TSR_TRY(tsr__store_own(v->store, directories[i], error));
  return TSR_OK;
}

static int vacuum_run(tsr_vacuum *v, tsr_maintenance what, const char *name, tsr_error *error) {
  TSR_TRY(check_links(v, error));
  static int (*const parts[])(tsr_vacuum *, tsr_error *) = {vacuum_fragments, tsr__vacuum_commits, vacuum_footers,
                                                            vacuum_metadata};
  int rc = TSR_OK;
  tsr_work work;
  tsr_work_begin(v->environment, &work, "vacuum", name, 0);
  for (unsigned i = 0; i < 4 && rc >= 0; i++) {
    if (!(what & 1u << i)) continue;
    tsr__arena_init(&v->arena, v->store->memory);
    rc = parts[i](v, error);
    tsr__arena_release(&v->arena);
  }
  if (rc >= 0 && what & ~(tsr_maintenance)TSR_MAINTAIN_METADATA) rc = tsr__log_list(&v->array->log, true, true, error);
  tsr_work_end(v->environment, &work);
  return rc;
}

typedef struct vacuum_call { /* what is done to the array, and then to the arrays of its labels */
  tsr_maintenance what;
  tsr_vacuum_options options;
  uint64_t removed;
} vacuum_call;

static int vacuum_array(void *argument, tsr_array *array, tsr_error *error) {
  vacuum_call *call = argument;
  tsr_vacuum v = {.environment = array->environment, .store = array->store, .array = array};
  v.grace = call->options.grace;
  v.most = call->options.most;
  if (vacuum_run(&v, call->what, array->path, error) < 0) return tsr__wrap(error, "array %s", array->path);
  call->removed += v.removed;
  return TSR_OK;
}

int tsr_array_vacuum(tsr_array *array, tsr_maintenance what, const tsr_vacuum_options *options, uint64_t *removed,
                     tsr_error *error) {
  TSR_OWN_ERROR(error);
  vacuum_call call = {.what = what};
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_vacuum_options, grace, options, &call.options, error));
  TSR_TRY(vacuum_array(&call, array, error));
  TSR_TRY(tsr__label_arrays_each(array, vacuum_array, &call, error));
  *removed = call.removed;
  return TSR_OK;
}

int tsr_group_vacuum(tsr_group *group, const tsr_vacuum_options *options, uint64_t *removed, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_vacuum_options own;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_vacuum_options, grace, options, &own, error));
  tsr_vacuum v = {.environment = group->environment, .store = group->store, .grace = own.grace};
  if (vacuum_run(&v, TSR_MAINTAIN_METADATA, v.store->name, error) < 0)
    return tsr__wrap(error, "group %s", v.store->name);
  *removed = v.removed;
  return TSR_OK;
}
