/* vacuum.c: removes files that consolidation has replaced, and files that unfinished writes have left behind.
 *
 * A crash at any point must neither hide cells that a reader would see nor bring back cells that it would not. A vacuum
 * removes:
 *  - Fragments that a .vac file names (sources), if the merged fragment of that .vac is committed or was merged itself.
 *    The order is: the commits of all sources; a sync; .con files that other processes have staged
 *    (consolidate_files.c); the fragments; a sync; the .vac files. All sources of all .vac files go together.
 *    If cells do not store their times, readers of times within a merged range see the sources until then, and must see
 *    all of them or none. So the commit files of the sources are first joined into one .con. Removing that .con, or an
 *    .ign file that cancels entries of .con files, then uncommits all sources at once. Below format version 12 there is
 *    no .con: there the sources go one by one, the newest of one .vac first. If a source of one .vac is the merged
 *    fragment of another, the sources of the other go first.
 *  - .con files that are cut, if no reader loses anything by that (unfinished.c).
 *  - Commits: a .wrt that a .con has; a .con if a later one has its active entries; an .ign if no .con has an entry
 *    that it cancels. The .del file of a delete stays: TileDB opens it when it consolidates commits.
 *  - Debris: fragment directories and staged files that are not committed, that no marker of a prepared commit names,
 *    and whose files are all a day old.
 */
#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "format/schema_rules.h"
#include "format/layout.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/fragment.h"
#include "array/group_open.h"
#include "array/listing.h"
#include "array/progress.h"
#include "array/unfinished.h"
#include "maintain/consolidate_files.h"

#define VACUUM_OLD      (UINT64_C(24) * 3600 * 1000) /* ms since its last change after which debris is removed */
#define VACUUM_ATTEMPTS 8 /* while other processes vacuum the same array */

typedef struct vacuum_file { /* a .vac */
  const char *name; /* of the merged fragment or metadata file that it belongs to */
  const char *path; /* its own */
  tsr_name parsed; /* `name` */
  tsr_names names; /* the names in it */
  bool done; /* next_vacuum has returned it */
} vacuum_file;

typedef struct vacuum {
  tsr_environment *environment;
  tsr_store *store;
  tsr_array *array; /* NULL: a group */
  tsr_arena arena; /* of one kind of objects: fragments, commits, footers or metadata */
  uint64_t removed; /* files and fragments */
} vacuum;

/* Removes a file. Returns 1 if it existed, 0 if not. */
static int remove_file(vacuum *v, const char *name, tsr_error *error) {
  tsr_error one;
  int rc = tsr__store_remove(v->store, name, &one);
  if (rc >= 0) return 1;
  if (rc == TSR_NOT_FOUND) return 0;
  *error = one;
  return rc;
}

static int sync_if_there(vacuum *v, const char *directory, tsr_error *error) {
  bool exists;
  TSR_TRY(tsr__directory_find(v->store, directory, &exists, error));
  return exists ? tsr__store_sync_directory(v->store, directory, error) : TSR_OK;
}

/* Lists a directory, which may be missing. */
static int vacuum_list(vacuum *v, const char *directory, tsr_listing *entries, tsr_error *error) {
  *entries = (tsr_listing){.memory = v->store->memory};
  int rc = tsr__store_list(v->store, directory, entries, error);
  return rc == TSR_NOT_FOUND ? TSR_OK : rc;
}

/* Reads a .con or .ign of __commits. *file is NULL if another vacuum has removed it. */
static int vacuum_read_file(vacuum *v, const char *name, const tsr_commit_file **file, tsr_error *error) {
  tsr_path p = tsr__path_of(TSR_DIR_COMMITS, name, "");
  tsr_error one;
  int rc = tsr__array_commit_file(v->array, p.text, file, &one);
  if (rc >= 0) return TSR_OK;
  *file = NULL;
  if (rc == TSR_NOT_FOUND) return TSR_OK;
  *error = one;
  return rc;
}

/* ---- Vacuum files ------------------------------------------------------------------------------------------------ */

static int read_vacuum(vacuum *v, const char *file, vacuum_file *out, tsr_error *error) {
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

/* Adds all .vac files of a directory to `files`, a list of vacuum_file. */
static int add_vacuums(vacuum *v, const char *directory, const tsr_listing *entries, tsr_buffer *files,
                       tsr_error *error) {
  for (uint64_t i = 0; i < entries->count; i++) {
    vacuum_file one = {0};
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

static vacuum_file *vacuums_of(const tsr_buffer *files, uint64_t *count) {
  *count = files->size / sizeof(vacuum_file);
  return (vacuum_file *)(void *)files->data;
}

/* Maps the names of merged objects to their .vac files: the map `waiting` of next_vacuum. */
static int map_vacuums(const tsr_buffer *files, tsr_map *waiting, tsr_error *error) {
  uint64_t count;
  vacuum_file *all = vacuums_of(files, &count);
  for (uint64_t i = 0; i < count; i++) TSR_TRY(tsr__map_put(waiting, all[i].name, &all[i], error));
  return TSR_OK;
}

/* Returns the next .vac to process, or NULL at the end. A .vac that names the merged object of another .vac comes after
 * that one. Files that name each other in a circle are never returned. */
static vacuum_file *next_vacuum(const tsr_buffer *files, tsr_map *waiting) {
  uint64_t count;
  vacuum_file *all = vacuums_of(files, &count);
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

/* Returns true if `name` may be a source of the merged object: its times lie within those of the merged object, and it
 * is not the merged object itself. Other names in a .vac are ignored. */
static bool is_source(const vacuum_file *file, const char *name) {
  tsr_name parsed;
  return tsr__name_parse(name, strlen(name), &parsed) && parsed.start >= file->parsed.start &&
         parsed.end <= file->parsed.end && strcmp(name, file->name) != 0;
}

/* ---- Metadata ---------------------------------------------------------------------------------------------------- */

/* Removes the files that a .vac of __meta names, if the merged file exists. */
static int vacuum_metadata_of(vacuum *v, const tsr_listing *entries, const vacuum_file *file, tsr_error *error) {
  if (!tsr__listing_has(entries, file->name)) return TSR_OK;
  /* The newest first: if the vacuum is cut off, reads at earlier times still find all files up to that time. */
  for (uint64_t n = file->names.count; n-- > 0;) {
    tsr_work_done(v->environment, 1);
    TSR_TRY(tsr__environment_cancelled(v->environment, error));
    if (!is_source(file, file->names.names[n])) continue;
    tsr_path p = tsr__path_of(TSR_DIR_META, file->names.names[n], "");
    int found = remove_file(v, p.text, error);
    if (found < 0) return found;
    v->removed += (uint64_t)found;
  }
  return TSR_OK;
}

static int remove_vacuum(vacuum *v, const vacuum_file *file, tsr_error *error) {
  const int found = remove_file(v, file->path, error);
  if (found < 0) return found;
  v->removed += (uint64_t)found;
  return TSR_OK;
}

/* Removes the .vac files of __meta, after the removal of the files that they name is durable. */
static int remove_metadata_vacuums(vacuum *v, const tsr_listing *entries, const tsr_buffer *files, tsr_error *error) {
  uint64_t count;
  const vacuum_file *all = vacuums_of(files, &count);
  if (count) TSR_TRY(sync_if_there(v, TSR_DIR_META, error));
  for (uint64_t i = 0; i < count; i++)
    if (all[i].done && tsr__listing_has(entries, all[i].name)) TSR_TRY(remove_vacuum(v, &all[i], error));
  return sync_if_there(v, TSR_DIR_META, error);
}

static int vacuum_metadata(vacuum *v, tsr_error *error) {
  tsr_listing entries;
  tsr_buffer files = {.memory = v->store->memory};
  tsr_map waiting = {.memory = v->store->memory};
  vacuum_file *file;
  int rc = vacuum_list(v, TSR_DIR_META, &entries, error);
  if (rc >= 0) rc = add_vacuums(v, TSR_DIR_META, &entries, &files, error);
  if (rc >= 0) rc = map_vacuums(&files, &waiting, error);
  while (rc >= 0 && (file = next_vacuum(&files, &waiting))) rc = vacuum_metadata_of(v, &entries, file, error);
  if (rc >= 0) rc = remove_metadata_vacuums(v, &entries, &files, error);
  tsr__map_release(&waiting);
  tsr__buffer_release(&files);
  tsr__listing_release(&entries);
  return rc;
}

/* ---- Fragments --------------------------------------------------------------------------------------------------- */

/* Renames staged vacuum files of committed fragments to .vac, for consolidations that were cut off before that. */
static int finish_staged(vacuum *v, const char *directory, tsr_error *error) {
  tsr_listing entries;
  bool finished = false;
  int rc = vacuum_list(v, directory, &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    char *text = entries.entries[i].name;
    uint64_t stem;
    tsr_name parsed;
    if (text[0] != '.' || !tsr__name_suffix(text, TSR_SUFFIX_STAGED_VACUUM, &stem)) continue;
    tsr_path from = tsr__path_of(directory, text, "");
    text[stem] = 0;
    if (!tsr__name_parse(text + 1, strlen(text + 1), &parsed)) continue;
    if (!tsr__map_get(&v->array->listing->names, text + 1)) continue;
    tsr_path to = tsr__path_of(directory, text + 1, TSR_SUFFIX_VACUUM);
    tsr_error one;
    finished = true;
    rc = tsr__store_rename_exclusive(v->store, from.text, to.text, &one);
    if (rc == TSR_EXISTS) rc = remove_file(v, from.text, &one);
    if (rc == TSR_NOT_FOUND) rc = TSR_OK;
    if (rc < 0) *error = one;
  }
  tsr__listing_release(&entries);
  return rc < 0 || !finished ? rc : sync_if_there(v, directory, error);
}

/* Reads all .con and .ign files: `ignored` receives the names that .ign files cancel, `active` the fragments that a
 * .con commits and no .ign cancels. */
static int vacuum_read_consolidated(vacuum *v, const tsr_listing *entries, tsr_map *active, tsr_map *ignored,
                                    tsr_error *error) {
  for (int con = 0; con < 2; con++)
    for (uint64_t i = 0; i < entries->count; i++) {
      const tsr_commit_file *file;
      uint64_t stem;
      if (!tsr__name_suffix(entries->entries[i].name, con ? TSR_SUFFIX_CONSOLIDATED : TSR_SUFFIX_IGNORED, &stem))
        continue;
      TSR_TRY(vacuum_read_file(v, entries->entries[i].name, &file, error));
      if (!file) continue;
      for (uint64_t n = 0; !con && n < file->names.count; n++)
        TSR_TRY(tsr__map_put(ignored, file->names.names[n], file->names.names[n], error));
      for (uint64_t n = 0; con && n < file->commits.count; n++) {
        const tsr_commit *commit = &file->commits.commits[n];
        tsr_path wrt = tsr__path_of("", commit->name, TSR_SUFFIX_WRITE),
                 ok = tsr__path_of("", commit->name, TSR_SUFFIX_OLD_WRITE);
        if (commit->kind != TSR_COMMIT_WRITE || tsr__map_get(ignored, wrt.text) || tsr__map_get(ignored, ok.text))
          continue;
        TSR_TRY(tsr__map_put(active, commit->name, commit->name, error));
      }
    }
  return TSR_OK;
}

typedef struct commits_of { /* how sources are committed */
  tsr_buffer con; /* lines of a .con for the sources with a commit file */
  tsr_buffer ign; /* lines of an .ign for all committed sources */
  uint64_t loose; /* sources with a commit file (.wrt, .ok) */
  uint64_t listed; /* sources in a .con */
  tsr_name all; /* the least start, greatest end and greatest version of the sources */
} commits_of;

static int add_commit(vacuum *v, const tsr_listing *entries, const char *name, bool listed, commits_of *found,
                      tsr_error *error) {
  tsr_name one;
  if (!tsr__name_parse(name, strlen(name), &one) || !layout_has_commit_files(one.version)) return TSR_OK;
  const char *suffix = layout_commit_suffix(one.version);
  tsr_path file = tsr__path_of("", name, suffix);
  bool loose = tsr__listing_has(entries, file.text);
  if (!layout_has_commits_folder(one.version)) TSR_TRY(tsr__store_find(v->store, file.text, &loose, error));
  if (!loose && !listed) return TSR_OK;
  found->all.start = TSR_MIN(found->all.start, one.start);
  found->all.end = TSR_MAX(found->all.end, one.end);
  found->all.version = TSR_MAX(found->all.version, one.version);
  found->loose += loose;
  found->listed += listed;
  if (loose) TSR_TRY(tsr__buffer_printf(&found->con, error, TSR_DIR_COMMITS "/%s%s\n", name, suffix));
  return tsr__buffer_printf(&found->ign, error, TSR_DIR_COMMITS "/%s%s\n", name, suffix);
}

static int new_path(const commits_of *found, const char *suffix, char made[160], tsr_error *error) {
  return tsr__file_path(TSR_DIR_COMMITS, found->all.start, found->all.end,
                        TSR_MAX(found->all.version, (uint32_t)TSR_SINCE_COMMITS_FOLDER), suffix, made, error);
}

static int publish_ignored(vacuum *v, const commits_of *found, tsr_error *error) {
  char ign[160];
  TSR_TRY(new_path(found, TSR_SUFFIX_IGNORED, ign, error));
  return tsr__file_publish(v->store, ign, found->ign.data, found->ign.size, error);
}

static int vacuum_remove_commit(vacuum *v, const char *name, tsr_error *error);
static int find_commits(vacuum *v, const tsr_buffer *sources, commits_of *found, tsr_error *error);
static void release_commits(commits_of *found);

typedef struct sources_look { /* argument of still_loose */
  vacuum *v;
  const tsr_buffer *sources;
  const commits_of *found;
} sources_look;

/* Returns 1 if the sources have the same commit files as when they were found. Another process may be vacuuming the
 * same sources, and the new .con must not commit fragments that it has removed. */
static int still_loose(void *argument, tsr_error *error) {
  const sources_look *look = argument;
  commits_of now;
  const int rc = find_commits(look->v, look->sources, &now, error);
  const tsr_buffer *a = &now.con, *b = &look->found->con;
  const bool same = rc >= 0 && a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
  release_commits(&now);
  return rc < 0 ? rc : same;
}

/* Writes one .con for all sources with a commit file. TSR_ABORT if another process has removed one of these files. */
static int join_loose(vacuum *v, const tsr_buffer *sources, const commits_of *found, char con[160], tsr_error *error) {
  sources_look look = {v, sources, found};
  TSR_TRY(new_path(found, TSR_SUFFIX_CONSOLIDATED, con, error));
  return tsr__con_publish(v->store, con, &found->con, still_loose, &look, error);
}

static int remove_all_commits(vacuum *v, const tsr_buffer *sources, tsr_error *error) {
  const char *const *names = (const char *const *)(const void *)sources->data;
  bool root = false;
  for (uint64_t i = 0; i < sources->size / sizeof *names; i++) {
    tsr_name parsed;
    TSR_TRY(vacuum_remove_commit(v, names[i], error));
    root |= !tsr__name_parse(names[i], strlen(names[i]), &parsed) || !layout_has_commits_folder(parsed.version);
  }
  TSR_TRY(sync_if_there(v, TSR_DIR_COMMITS, error));
  return root ? tsr__store_sync_directory(v->store, "", error) : TSR_OK;
}

/* Removes the commits of the sources. If `at_once`, all of them stop being committed in one step: the removal of the
 * .con that was made for them, or the .ign. */
static int uncommit_found(vacuum *v, const tsr_buffer *sources, bool at_once, const commits_of *found,
                          tsr_error *error) {
  char con[160] = "";
  if (at_once && found->loose && found->loose + found->listed > 1) TSR_TRY(join_loose(v, sources, found, con, error));
  else if (found->listed) TSR_TRY(publish_ignored(v, found, error));
  TSR_TRY(remove_all_commits(v, sources, error));
  if (!*con) return TSR_OK;
  if (found->listed) TSR_TRY(publish_ignored(v, found, error));
  TSR_TRY(remove_file(v, con, error));
  return tsr__store_sync_directory(v->store, TSR_DIR_COMMITS, error);
}

/* Finds how the sources (names, const char *) are committed. The caller calls release_commits in any case. */
static int find_commits(vacuum *v, const tsr_buffer *sources, commits_of *found, tsr_error *error) {
  tsr_listing entries;
  tsr_memory *memory = v->store->memory;
  tsr_map active = {.memory = memory}, ignored = {.memory = memory};
  const char *const *names = (const char *const *)(const void *)sources->data;
  *found = (commits_of){.con.memory = memory, .ign.memory = memory, .all.start = UINT64_MAX};
  int rc = vacuum_list(v, TSR_DIR_COMMITS, &entries, error);
  if (rc >= 0) rc = vacuum_read_consolidated(v, &entries, &active, &ignored, error);
  for (uint64_t i = 0; i < sources->size / sizeof *names && rc >= 0; i++)
    rc = add_commit(v, &entries, names[i], tsr__map_get(&active, names[i]) != NULL, found, error);
  tsr__map_release(&active);
  tsr__map_release(&ignored);
  tsr__listing_release(&entries);
  return rc;
}

static void release_commits(commits_of *found) {
  tsr__buffer_release(&found->con);
  tsr__buffer_release(&found->ign);
}

/* Removes all commits of the sources. If `at_once`, a reader sees either all of the sources or none. */
static int uncommit(vacuum *v, const tsr_buffer *sources, bool at_once, tsr_error *error) {
  bool exists = false;
  TSR_TRY(tsr__directory_find(v->store, TSR_DIR_COMMITS, &exists, error));
  int rc = TSR_ABORT;
  for (int i = 0; rc == TSR_ABORT && i < VACUUM_ATTEMPTS; i++) {
    commits_of found;
    rc = find_commits(v, sources, &found, error);
    if (rc >= 0) rc = uncommit_found(v, sources, at_once && exists, &found, error);
    release_commits(&found);
  }
  return rc;
}

/* Removes all staged .con files. Another process may have listed the sources before they were merged, and be about to
 * commit them again by a .con that it has staged. Its rename fails when the staged file is gone. A .con that is staged
 * after this finds that the sources are not committed any more (still_committed in consolidate_files.c). */
static int remove_staged_con(vacuum *v, tsr_error *error) {
  tsr_listing entries;
  int rc = vacuum_list(v, "", &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    const char *name = entries.entries[i].name;
    uint64_t stem;
    tsr_name parsed;
    if (entries.entries[i].kind != TSR_ENTRY_FILE || name[0] != '.' ||
        !tsr__name_suffix(name, TSR_SUFFIX_CONSOLIDATED ".tmp", &stem))
      continue;
    if (!tsr__name_parse(name + 1, stem - 1, &parsed)) continue;
    rc = remove_file(v, name, error);
    if (rc >= 0) v->removed += (uint64_t)rc;
  }
  tsr__listing_release(&entries);
  return rc < 0 ? rc : TSR_OK;
}

/* Cancels sources that a .con commits by now, because another process renamed it before remove_staged_con. The caller
 * repeats this after it has removed the fragments, for other libraries, which do not stage their .con files. */
static int cancel_new_commits(vacuum *v, const tsr_buffer *sources, tsr_error *error) {
  commits_of found;
  int rc = find_commits(v, sources, &found, error);
  if (rc >= 0 && found.listed) rc = publish_ignored(v, &found, error);
  release_commits(&found);
  return rc;
}

/* Removes the commit file of a fragment. */
static int vacuum_remove_commit(vacuum *v, const char *name, tsr_error *error) {
  tsr_path p = tsr__path_of(TSR_DIR_COMMITS, name, TSR_SUFFIX_WRITE);
  TSR_TRY(remove_file(v, p.text, error));
  p = tsr__path_of("", name, TSR_SUFFIX_OLD_WRITE);
  TSR_TRY(remove_file(v, p.text, error));
  tsr_name parsed;
  if (!tsr__name_parse(name, strlen(name), &parsed) || layout_has_commit_files(parsed.version)) return TSR_OK;
  p = tsr__path_of(name, TSR_FILE_FRAGMENT_METADATA, ""); /* in versions 1 to 4 this file is the commit */
  TSR_TRY(remove_file(v, p.text, error));
  return TSR_OK;
}

/* Removes a fragment's directory. *root is set to true if it was a directory of the array's root. */
static int remove_directory(vacuum *v, const char *name, bool *root, tsr_error *error) {
  for (int old = 0; old < 2; old++) {
    tsr_path p = tsr__path_of(old ? "" : TSR_DIR_FRAGMENTS, name, "");
    bool exists;
    TSR_TRY(tsr__directory_find(v->store, p.text, &exists, error));
    if (!exists) continue;
    TSR_TRY(tsr__fragment_remove(v->store, p.text, error));
    *root |= old;
    v->removed++;
  }
  return TSR_OK;
}

/* Sets *timed if the merged fragment stores the times of its cells. Then readers of times within its range do not need
 * the sources. */
static int vacuum_has_times(vacuum *v, const vacuum_file *file, bool *timed, tsr_error *error) {
  const tsr_schema *schema;
  TSR_TRY(tsr__array_schema_at(v->array, UINT64_MAX, &schema, error));
  *timed = !schema->dense && layout_has_timed_merges(file->parsed.version);
  return TSR_OK;
}

/* Uncommits and removes the sources of all .vac files. */
static int vacuum_sources(vacuum *v, bool at_once, const tsr_buffer *sources, tsr_error *error) {
  const char *const *names = (const char *const *)(const void *)sources->data;
  bool root = false;
  TSR_TRY(uncommit(v, sources, at_once, error));
  TSR_TRY(remove_staged_con(v, error));
  TSR_TRY(cancel_new_commits(v, sources, error));
  for (uint64_t i = 0; i < sources->size / sizeof *names; i++) {
    TSR_TRY(tsr__environment_cancelled(v->environment, error));
    TSR_TRY(remove_directory(v, names[i], &root, error));
    tsr_work_done(v->environment, 1);
  }
  TSR_TRY(sync_if_there(v, TSR_DIR_FRAGMENTS, error));
  if (root) TSR_TRY(tsr__store_sync_directory(v->store, "", error));
  return cancel_new_commits(v, sources, error);
}

/* Sets *exists if any source of the .vac still exists. */
static int has_sources(vacuum *v, const vacuum_file *file, bool *exists, tsr_error *error) {
  *exists = false;
  for (uint64_t n = 0; n < file->names.count && !*exists; n++) {
    if (!is_source(file, file->names.names[n])) continue;
    tsr_path a = tsr__path_of(TSR_DIR_FRAGMENTS, file->names.names[n], ""),
             b = tsr__path_of("", file->names.names[n], "");
    TSR_TRY(tsr__directory_find(v->store, a.text, exists, error));
    if (!*exists) TSR_TRY(tsr__directory_find(v->store, b.text, exists, error));
  }
  return TSR_OK;
}

/* Finds the fragments whose cells a committed fragment has (tsr__covered). */
static int vacuum_find_covered(vacuum *v, const tsr_buffer *files, tsr_map *covered, tsr_error *error) {
  uint64_t count;
  const vacuum_file *all = vacuums_of(files, &count);
  tsr_replacing *replacing;
  TSR_TRY(TSR_ARENA_ARRAY(&v->arena, count, &replacing, error));
  for (uint64_t i = 0; i < count; i++) replacing[i] = (tsr_replacing){all[i].name, &all[i].names};
  return tsr__covered(replacing, count, &v->array->listing->names, covered, error);
}

/* Sets *goes if the sources of the .vac may be removed. If the merged fragment is neither committed nor replaced by
 * another one, the sources may be the only fragments with these cells, and stay. */
static int may_remove_sources(vacuum *v, const vacuum_file *file, const tsr_map *covered, bool *goes,
                              tsr_error *error) {
  bool needed = false;
  if (!tsr__map_get(&v->array->listing->names, file->name) && !tsr__map_get(covered, file->name))
    TSR_TRY(has_sources(v, file, &needed, error));
  *goes = !needed;
  return TSR_OK;
}

typedef struct replaced { /* the sources of all .vac files that may be removed */
  tsr_buffer sources; /* const char *, in the order in which their commits are removed */
  tsr_buffer files; /* vacuum_file *: these .vac files */
  bool at_once; /* the sources must stop being committed in one step */
} replaced;

static int vacuum_add_replaced(vacuum *v, vacuum_file *file, const tsr_map *covered, replaced *all, tsr_error *error) {
  bool goes, timed;
  TSR_TRY(may_remove_sources(v, file, covered, &goes, error));
  if (!goes) return TSR_OK;
  TSR_TRY(vacuum_has_times(v, file, &timed, error));
  all->at_once |= !timed;
  for (uint64_t n = file->names.count; n-- > 0;) /* newest first: the order in which their commits are removed */
    if (is_source(file, file->names.names[n]))
      TSR_TRY(tsr__buffer_append(&all->sources, &file->names.names[n], sizeof(char *), error));
  return tsr__buffer_append(&all->files, &file, sizeof file, error);
}

static int vacuum_replaced(vacuum *v, const tsr_buffer *files, tsr_error *error) {
  tsr_memory *memory = v->store->memory;
  replaced all = {.sources.memory = memory, .files.memory = memory};
  tsr_map waiting = {.memory = memory}, covered = {.memory = memory};
  vacuum_file *file;
  int rc = map_vacuums(files, &waiting, error);
  if (rc >= 0) rc = vacuum_find_covered(v, files, &covered, error);
  while (rc >= 0 && (file = next_vacuum(files, &waiting))) rc = vacuum_add_replaced(v, file, &covered, &all, error);
  if (rc >= 0 && all.files.size) rc = vacuum_sources(v, all.at_once, &all.sources, error);
  const vacuum_file *const *done = (const vacuum_file *const *)(const void *)all.files.data;
  for (uint64_t i = 0; i < all.files.size / sizeof *done && rc >= 0; i++) rc = remove_vacuum(v, done[i], error);
  tsr__map_release(&waiting);
  tsr__map_release(&covered);
  tsr__buffer_release(&all.sources);
  tsr__buffer_release(&all.files);
  return rc;
}

/* ---- Debris ------------------------------------------------------------------------------------------------------ */

/* Reads the names and contents of all markers of prepared commits into one text. */
static int read_markers(vacuum *v, tsr_buffer *texts, tsr_error *error) {
  tsr_listing entries;
  int rc = vacuum_list(v, TSR_DIR_COMMITS, &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    uint64_t stem;
    if (!tsr__name_suffix(entries.entries[i].name, TSR_SUFFIX_PENDING, &stem)) continue;
    tsr_path p = tsr__path_of(TSR_DIR_COMMITS, entries.entries[i].name, "");
    rc = tsr__buffer_append(texts, entries.entries[i].name, stem, error);
    if (rc >= 0) rc = tsr__buffer_append_u8(texts, '\n', error);
    if (rc >= 0) rc = tsr__store_read_all(v->store, p.text, UINT64_C(1) << 24, texts, error);
    if (rc == TSR_NOT_FOUND) rc = TSR_OK; /* its commit was published or undone meanwhile */
    if (rc >= 0) rc = tsr__buffer_append_u8(texts, '\n', error);
  }
  tsr__listing_release(&entries);
  if (rc >= 0) rc = tsr__buffer_append_u8(texts, 0, error);
  return rc;
}

/* Returns true if a name occurs in the text of the markers. */
static bool is_marked(const tsr_buffer *texts, const char *name) {
  for (uint64_t at = 0, size = strlen(name); at + size <= texts->size; at++)
    if (memcmp(texts->data + at, name, size) == 0) return true;
  return false;
}

/* Returns true if a file, or a directory and all files in it, was last changed a day ago or earlier. A directory with a
 * marker (.pending) or with a subdirectory never counts as old. */
static bool vacuum_is_old(vacuum *v, const char *name, bool directory) {
  uint64_t modified;
  tsr_error unseen;
  tsr_listing entries;
  if (tsr__store_modified(v->store, name, &modified, &unseen) < 0) return false;
  bool old = tsr__add_sat(modified, VACUUM_OLD) <= tsr__environment_now();
  if (!directory || !old) return old;
  if (vacuum_list(v, name, &entries, &unseen) < 0) return false;
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

/* Removes the fragment directories of a directory that are not committed, not named by a marker, and old. */
static int remove_debris(vacuum *v, const char *directory, const tsr_buffer *markers, tsr_error *error) {
  tsr_listing entries;
  int rc = vacuum_list(v, directory, &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    const char *name = entries.entries[i].name;
    tsr_name parsed;
    bool named = tsr__name_parse(name, strlen(name), &parsed);
    if (entries.entries[i].kind != TSR_ENTRY_DIRECTORY || (!named && !vacuum_is_provisional(name))) continue;
    if (named &&
        (tsr__map_get(&v->array->listing->names, name) || (*directory && !layout_has_commits_folder(parsed.version))))
      continue;
    tsr_path p = tsr__path_of(directory, name, "");
    if (is_marked(markers, name) || !vacuum_is_old(v, p.text, true)) continue;
    rc = tsr__fragment_remove(v->store, p.text, error);
    v->removed += rc >= 0;
  }
  tsr__listing_release(&entries);
  return rc;
}

/* Removes old staged files of a directory that no marker names: ".NAME..." was to become a commit, a vacuum file or a
 * consolidated file; ".UUID" a schema or metadata. */
static int remove_staged(vacuum *v, const char *directory, const tsr_buffer *markers, tsr_error *error) {
  tsr_listing entries;
  int rc = vacuum_list(v, directory, &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    const char *name = entries.entries[i].name, *end = strchr(name + 1, '.');
    const uint64_t size = end ? (uint64_t)(end - name) - 1 : strlen(name) - (*name != 0);
    char stem[160];
    tsr_name parsed;
    if (entries.entries[i].kind != TSR_ENTRY_FILE || name[0] != '.' || size >= sizeof stem) continue;
    memcpy(stem, name + 1, size);
    stem[size] = 0;
    tsr_path p = tsr__path_of(directory, name, "");
    if (!vacuum_is_provisional(name) && !tsr__name_parse(stem, size, &parsed)) continue;
    if (is_marked(markers, stem) || !vacuum_is_old(v, p.text, false)) continue;
    rc = remove_file(v, p.text, error);
    if (rc >= 0) v->removed += (uint64_t)rc;
  }
  tsr__listing_release(&entries);
  return rc < 0 ? rc : TSR_OK;
}

/* Removes unfinished .con files (tsr__mend_commits). */
static int mend_con_files(vacuum *v, tsr_error *error) {
  const tsr_schema *schema;
  uint32_t version;
  if (v->array->listing->unfinished.count == 0) return TSR_OK;
  TSR_TRY(tsr__array_schema_at(v->array, UINT64_MAX, &schema, error));
  TSR_TRY(tsr__schema_write_version(schema, &version, error));
  return tsr__mend_commits(v->array, version, &v->removed, error);
}

static int vacuum_fragments(vacuum *v, tsr_error *error) {
  tsr_listing commits = {0}, root = {0};
  tsr_buffer files = {.memory = v->store->memory}, markers = {.memory = v->store->memory};
  TSR_TRY(tsr__array_list(v->array, true, true, error));
  TSR_TRY(mend_con_files(v, error));
  TSR_TRY(finish_staged(v, TSR_DIR_COMMITS, error));
  TSR_TRY(finish_staged(v, "", error));
  TSR_TRY(tsr__array_list(v->array, true, true, error));
  int rc = vacuum_list(v, TSR_DIR_COMMITS, &commits, error);
  if (rc >= 0) rc = add_vacuums(v, TSR_DIR_COMMITS, &commits, &files, error);
  if (rc >= 0) rc = vacuum_list(v, "", &root, error);
  if (rc >= 0) rc = add_vacuums(v, "", &root, &files, error);
  if (rc >= 0) rc = vacuum_replaced(v, &files, error);
  if (rc >= 0) rc = tsr__array_list(v->array, true, true, error);
  if (rc >= 0) rc = read_markers(v, &markers, error);
  if (rc >= 0) rc = remove_debris(v, TSR_DIR_FRAGMENTS, &markers, error);
  if (rc >= 0) rc = remove_debris(v, "", &markers, error);
  if (rc >= 0) rc = remove_staged(v, TSR_DIR_COMMITS, &markers, error);
  if (rc >= 0) rc = remove_staged(v, "", &markers, error);
  if (rc >= 0) rc = tsr__array_list(v->array, true, true, error);
  tsr__buffer_release(&files);
  tsr__buffer_release(&markers);
  tsr__listing_release(&commits);
  tsr__listing_release(&root);
  return rc;
}

/* ---- Commits ----------------------------------------------------------------------------------------------------- */

/* Returns true if no .ign cancels an entry of a .con. */
static bool is_active(const tsr_map *ignored, const tsr_commit *commit) {
  tsr_path wrt = tsr__path_of("", commit->name, TSR_SUFFIX_WRITE),
           ok = tsr__path_of("", commit->name, TSR_SUFFIX_OLD_WRITE);
  return commit->kind != TSR_COMMIT_WRITE || (!tsr__map_get(ignored, wrt.text) && !tsr__map_get(ignored, ok.text));
}

/* Returns true if `in` has all active entries of `of`. */
static bool has_all(const tsr_commits *of, const tsr_commits *in, const tsr_map *ignored) {
  uint64_t at = 0;
  for (uint64_t i = 0; i < of->count; i++) {
    if (!is_active(ignored, &of->commits[i])) continue;
    uint64_t tried = 0;
    /* Both lists mostly have the same order, so the search goes on where the last entry was found. */
    while (tried < in->count && (in->commits[at % in->count].kind != of->commits[i].kind ||
                                 strcmp(in->commits[at % in->count].name, of->commits[i].name) != 0)) {
      at++;
      tried++;
    }
    if (tried >= in->count) return false;
  }
  return true;
}

static int remove_commits(vacuum *v, const char *name, tsr_error *error) {
  tsr_path p = tsr__path_of(TSR_DIR_COMMITS, name, "");
  int found = remove_file(v, p.text, error);
  if (found > 0) v->removed++;
  return found < 0 ? found : TSR_OK;
}

typedef struct consolidated { /* a .con */
  const char *name;
  const tsr_commit_file *file; /* NULL if it is gone */
  uint64_t modified; /* ms since 1970 */
} consolidated;

static int read_con(vacuum *v, const char *name, consolidated *con, tsr_error *error) {
  tsr_path p = tsr__path_of(TSR_DIR_COMMITS, name, "");
  tsr_error one;
  *con = (consolidated){.name = name};
  TSR_TRY(vacuum_read_file(v, name, &con->file, error));
  if (!con->file) return TSR_OK;
  int rc = tsr__store_modified(v->store, p.text, &con->modified, &one);
  if (rc == TSR_NOT_FOUND) return con->file = NULL, TSR_OK;
  if (rc < 0) *error = one;
  return rc;
}

/* Orders .con files. The order depends only on what all processes see in the same way, and not on .ign files: otherwise
 * two processes could each remove another one of two equal files. */
static bool vacuum_is_later(const consolidated *a, const consolidated *b) {
  const uint64_t x = a->file->commits.count, y = b->file->commits.count;
  if (a->modified != b->modified) return a->modified > b->modified;
  return x != y ? x > y : strcmp(a->name, b->name) > 0;
}

/* Removes .con files without active entries, and those whose active entries a later .con has. */
static int vacuum_consolidated(vacuum *v, const tsr_listing *entries, const tsr_map *ignored, tsr_error *error) {
  uint64_t count = 0;
  consolidated *files;
  TSR_TRY(TSR_ARENA_ARRAY(&v->arena, entries->count, &files, error));
  for (uint64_t i = 0; i < entries->count; i++) {
    uint64_t stem;
    if (!tsr__name_suffix(entries->entries[i].name, TSR_SUFFIX_CONSOLIDATED, &stem)) continue;
    TSR_TRY(read_con(v, entries->entries[i].name, &files[count], error));
    count += files[count].file != NULL;
  }
  for (uint64_t i = 0; i < count; i++) {
    const tsr_commits *commits = &files[i].file->commits;
    bool redundant = false, active = files[i].file->rest.cut; /* TileDB may still be writing it: it stays */
    for (uint64_t n = 0; n < commits->count; n++) active = active || is_active(ignored, &commits->commits[n]);
    for (uint64_t k = 0; k < count && commits->count && active && !redundant; k++)
      redundant = k != i && vacuum_is_later(&files[k], &files[i]) && has_all(commits, &files[k].file->commits, ignored);
    if (!active || redundant) TSR_TRY(remove_commits(v, files[i].name, error));
  }
  return TSR_OK;
}

/* Puts the names of all fragments in .con files into `in_con`. *cut is set if a .con is cut, so that its names are not
 * all known. */
static int find_in_con(vacuum *v, tsr_map *in_con, bool *cut, tsr_error *error) {
  tsr_listing entries;
  int rc = vacuum_list(v, TSR_DIR_COMMITS, &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    const tsr_commit_file *file;
    uint64_t stem;
    if (!tsr__name_suffix(entries.entries[i].name, TSR_SUFFIX_CONSOLIDATED, &stem)) continue;
    rc = vacuum_read_file(v, entries.entries[i].name, &file, error);
    *cut |= rc >= 0 && file && file->rest.cut;
    for (uint64_t n = 0; rc >= 0 && file && n < file->commits.count; n++)
      rc = tsr__map_put(in_con, file->commits.commits[n].name, file->commits.commits[n].name, error);
  }
  tsr__listing_release(&entries);
  return rc;
}

/* Removes .ign files with no name that a .con still has. The .ign files are listed before the .con files: each .con was
 * there before the .ign that cancels its entries, but a single listing might have the .ign and not the .con. */
static int vacuum_ignored(vacuum *v, tsr_error *error) {
  tsr_listing entries;
  tsr_map in_con = {.memory = v->store->memory};
  bool cut = false;
  int rc = vacuum_list(v, TSR_DIR_COMMITS, &entries, error);
  if (rc >= 0) rc = find_in_con(v, &in_con, &cut, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    const tsr_commit_file *file;
    uint64_t stem;
    bool needed = cut;
    if (!tsr__name_suffix(entries.entries[i].name, TSR_SUFFIX_IGNORED, &stem)) continue;
    rc = vacuum_read_file(v, entries.entries[i].name, &file, error);
    for (uint64_t n = 0; rc >= 0 && file && n < file->names.count && !needed; n++) {
      tsr_path name = tsr__path_of("", file->names.names[n], "");
      char *dot = strrchr(name.text, '.');
      if (dot) *dot = 0;
      needed = tsr__map_get(&in_con, name.text) != NULL;
    }
    if (rc >= 0 && file && !needed) rc = remove_commits(v, entries.entries[i].name, error);
  }
  tsr__map_release(&in_con);
  tsr__listing_release(&entries);
  return rc;
}

static int vacuum_commits(vacuum *v, tsr_error *error) {
  tsr_listing entries;
  tsr_map active = {.memory = v->store->memory}, ignored = {.memory = v->store->memory};
  TSR_TRY(tsr__array_list(v->array, true, true, error));
  TSR_TRY(mend_con_files(v, error));
  int rc = vacuum_list(v, TSR_DIR_COMMITS, &entries, error);
  if (rc >= 0) rc = vacuum_read_consolidated(v, &entries, &active, &ignored, error);
  tsr__work_more(v->environment, entries.count);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    uint64_t stem;
    tsr_work_done(v->environment, 1);
    if ((rc = tsr__environment_cancelled(v->environment, error)) < 0) break;
    if (!tsr__name_suffix(entries.entries[i].name, TSR_SUFFIX_WRITE, &stem)) continue;
    tsr_path name = tsr__path_of("", entries.entries[i].name, "");
    name.text[stem] = 0;
    if (tsr__map_get(&active, name.text)) rc = remove_commits(v, entries.entries[i].name, error);
  }
  if (rc >= 0) rc = vacuum_consolidated(v, &entries, &ignored, error);
  if (rc >= 0) rc = sync_if_there(v, TSR_DIR_COMMITS, error);
  if (rc >= 0) rc = vacuum_ignored(v, error);
  if (rc >= 0) rc = sync_if_there(v, TSR_DIR_COMMITS, error);
  tsr__map_release(&active);
  tsr__map_release(&ignored);
  tsr__listing_release(&entries);
  return rc < 0 ? rc : tsr__array_list(v->array, true, true, error);
}

/* ---- Footers ----------------------------------------------------------------------------------------------------- */

/* Returns 1 if a .meta is damaged: its writer died, or the disk failed. A file that is being written is not damaged. */
static int is_damaged(vacuum *v, const tsr_committed *item, tsr_error *error) {
  const tsr_commit_file *file;
  tsr_error one;
  const int rc = tsr__array_commit_file(v->array, item->path, &file, &one);
  if (rc == TSR_NOT_FOUND || rc == TSR_BUSY) return 0;
  if (rc < 0) return *error = one, rc;
  return file->damaged;
}

/* Removes all .meta files that are damaged, and of the others all but those with the greatest end time. */
static int vacuum_footers(vacuum *v, tsr_error *error) {
  TSR_TRY(tsr__array_list(v->array, true, true, error));
  const tsr_commit_list *footers = &v->array->listing->footers;
  const tsr_committed *last = NULL;
  tsr__work_more(v->environment, footers->count);
  for (uint64_t i = 0; i < footers->count; i++) {
    const tsr_committed *item = &footers->items[i];
    tsr_work_done(v->environment, 1);
    const int damaged = is_damaged(v, item, error);
    if (damaged < 0) return damaged;
    if (!damaged && !last) last = item;
    if (!damaged && item->parsed.end == last->parsed.end) continue;
    int found = remove_file(v, item->path, error);
    if (found < 0) return found;
    v->removed += (uint64_t)found;
  }
  return tsr__array_list(v->array, true, true, error);
}

/* ---- Entry points ------------------------------------------------------------------------------------------------ */

/* Fails with TSR_PERM if a directory of the array is a symbolic link: the files behind it may belong to another array,
 * and would look like debris. */
static int check_links(const vacuum *v, tsr_error *error) {
  static const char *const directories[] = {TSR_DIR_FRAGMENTS, TSR_DIR_COMMITS, TSR_DIR_META, TSR_DIR_FOOTERS};
  for (unsigned i = 0; i < sizeof directories / sizeof *directories; i++)
    TSR_TRY(tsr__store_own(v->store, directories[i], error));
  return TSR_OK;
}

static int vacuum_run(vacuum *v, tsr_maintenance what, const char *name, tsr_error *error) {
  TSR_TRY(check_links(v, error));
  static int (*const parts[])(vacuum *, tsr_error *) = {vacuum_fragments, vacuum_commits, vacuum_footers,
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
  tsr_work_end(v->environment, &work);
  return rc;
}

int tsr_array_vacuum(tsr_array *array, tsr_maintenance what, uint64_t *removed, tsr_error *error) {
  TSR_OWN_ERROR(error);
  vacuum v = {.environment = array->environment, .store = array->store, .array = array};
  if (vacuum_run(&v, what, array->path, error) < 0) return tsr__wrap(error, "array %s", array->path);
  *removed = v.removed;
  return TSR_OK;
}

int tsr_group_vacuum(tsr_group *group, uint64_t *removed, tsr_error *error) {
  TSR_OWN_ERROR(error);
  vacuum v = {.environment = group->environment, .store = group->store};
  if (vacuum_run(&v, TSR_MAINTAIN_METADATA, v.store->name, error) < 0)
    return tsr__wrap(error, "group %s", v.store->name);
  *removed = v.removed;
  return TSR_OK;
}
