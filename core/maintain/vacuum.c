/* vacuum.c: what was replaced goes, and what unfinished writes left behind.
 *
 * At no point may a crash lose what a reader would see, or bring back what it would not:
 *  - fragments that .vac files name, if the merged one that each belongs to is committed, or was merged itself: all their
 *    commits go, the directory of commits is synced, .con files that others have staged and not named go, then the
 *    fragments, and the .vac files last. What goes from a directory is synced together, whatever .vac file named it. Reads
 *    of times within a merged range see the fragments until then, where cells have no times of their own: so that they see
 *    all or none, commits of their own first become one .con, and either that goes or an .ign, which cancels entries of
 *    .con files, comes. (Below version 12 there is no .con: the sources of a .vac whose fragment another .vac names come
 *    before that one's, and of one .vac the newest first.)
 *  - .con files that are cut and without which nothing is lost (unfinished.c).
 *  - commits: single ones that a .con has taken up; a .con whose living entries another one has; an .ign when no .con
 *    has what it cancels. A delete's own file stays: TileDB looks for it when it consolidates commits.
 *  - debris: directories of fragments and staged files that are not committed, that no pending marker names, and whose
 *    files are all a day old.
 */
#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "format/schema_rules.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/fragment.h"
#include "array/group_open.h"
#include "array/listing.h"
#include "array/progress.h"
#include "array/unfinished.h"
#include "maintain/consolidate_files.h"

#define VACUUM_OLD      (UINT64_C(24) * 3600 * 1000) /* milliseconds */
#define VACUUM_ATTEMPTS 8 /* while others vacuum the same */

typedef struct vacuum_file { /* a .vac */
  const char *name, *path;
  tsr_name parsed;
  tsr_names names;
  bool done;
} vacuum_file;

typedef struct vacuum {
  tsr_environment *environment;
  tsr_store *store;
  tsr_array *array; /* NULL: a group */
  tsr_arena arena; /* of one of its parts */
  uint64_t removed;
} vacuum;

/* 1: it was there; 0: it was not. */
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

/* A listing of what may not be there. */
static int vacuum_list(vacuum *v, const char *directory, tsr_listing *entries, tsr_error *error) {
  *entries = (tsr_listing){.memory = v->store->memory};
  int rc = tsr__store_list(v->store, directory, entries, error);
  return rc == TSR_NOT_FOUND ? TSR_OK : rc;
}

/* A .con or .ign; NULL if another vacuum has removed it. */
static int vacuum_read_file(vacuum *v, const char *name, const tsr_commit_file **file, tsr_error *error) {
  tsr_path p = tsr__path_of("__commits", name, "");
  tsr_error one;
  int rc = tsr__array_commit_file(v->array, p.text, file, &one);
  if (rc >= 0) return TSR_OK;
  *file = NULL;
  if (rc == TSR_NOT_FOUND) return TSR_OK;
  *error = one;
  return rc;
}

/* ---- Vacuum files --------------------------------------------------------------------------- */

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

/* All of a directory, of `files`: vacuum_file. */
static int add_vacuums(vacuum *v, const char *directory, const tsr_listing *entries, tsr_buffer *files,
                       tsr_error *error) {
  for (uint64_t i = 0; i < entries->count; i++) {
    vacuum_file one = {0};
    uint64_t stem;
    const char *text = entries->entries[i].name;
    void *copy;
    if (!tsr__name_suffix(text, ".vac", &stem) || !tsr__name_parse(text, stem, &one.parsed)) continue;
    TSR_TRY(tsr__arena_copy(&v->arena, text, stem, &copy, error));
    one.name = copy;
    tsr_path p = tsr__path_of(directory, text, "");
    TSR_TRY(tsr__arena_copy(&v->arena, p.text, strlen(p.text), &copy, error));
    one.path = copy;
    tsr_error unread;
    int rc = read_vacuum(v, one.path, &one, &unread);
    if (rc == TSR_NOT_FOUND) continue; /* another vacuum was faster */
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

/* By the names of what they belong to, for next_vacuum. */
static int map_vacuums(const tsr_buffer *files, tsr_map *waiting, tsr_error *error) {
  uint64_t count;
  vacuum_file *all = vacuums_of(files, &count);
  for (uint64_t i = 0; i < count; i++) TSR_TRY(tsr__map_put(waiting, all[i].name, &all[i], error));
  return TSR_OK;
}

/* The next one to be done: none of the names in it has a vacuum file that is to be done. NULL at the end. */
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

/* Is it a name that the vacuum file of a merged one may have: within its times, and not its own? */
static bool is_source(const vacuum_file *file, const char *name) {
  tsr_name parsed;
  return tsr__name_parse(name, strlen(name), &parsed) && parsed.start >= file->parsed.start &&
         parsed.end <= file->parsed.end && strcmp(name, file->name) != 0;
}

/* ---- Metadata ------------------------------------------------------------------------------- */

/* The files that it names. */
static int vacuum_metadata_of(vacuum *v, const tsr_listing *entries, const vacuum_file *file, tsr_error *error) {
  if (!tsr__listing_has(entries, file->name)) return TSR_OK;
  for (uint64_t n = file->names.count; n-- > 0;) { /* the newest first: earlier times lose what is later, not before */
    tsr_work_done(v->environment, 1);
    TSR_TRY(tsr__environment_cancelled(v->environment, error));
    if (!is_source(file, file->names.names[n])) continue;
    tsr_path p = tsr__path_of("__meta", file->names.names[n], "");
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

/* Its vacuum files, when what they name has gone for good. */
static int remove_metadata_vacuums(vacuum *v, const tsr_listing *entries, const tsr_buffer *files, tsr_error *error) {
  uint64_t count;
  const vacuum_file *all = vacuums_of(files, &count);
  if (count) TSR_TRY(sync_if_there(v, "__meta", error));
  for (uint64_t i = 0; i < count; i++)
    if (all[i].done && tsr__listing_has(entries, all[i].name)) TSR_TRY(remove_vacuum(v, &all[i], error));
  return sync_if_there(v, "__meta", error);
}

static int vacuum_metadata(vacuum *v, tsr_error *error) {
  tsr_listing entries;
  tsr_buffer files = {.memory = v->store->memory};
  tsr_map waiting = {.memory = v->store->memory};
  vacuum_file *file;
  int rc = vacuum_list(v, "__meta", &entries, error);
  if (rc >= 0) rc = add_vacuums(v, "__meta", &entries, &files, error);
  if (rc >= 0) rc = map_vacuums(&files, &waiting, error);
  while (rc >= 0 && (file = next_vacuum(&files, &waiting))) rc = vacuum_metadata_of(v, &entries, file, error);
  if (rc >= 0) rc = remove_metadata_vacuums(v, &entries, &files, error);
  tsr__map_release(&waiting);
  tsr__buffer_release(&files);
  tsr__listing_release(&entries);
  return rc;
}

/* ---- Fragments ------------------------------------------------------------------------------ */

/* What a consolidation did not get to: gives vacuum files of committed fragments their names. */
static int finish_staged(vacuum *v, const char *directory, tsr_error *error) {
  tsr_listing entries;
  bool finished = false;
  int rc = vacuum_list(v, directory, &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    char *text = entries.entries[i].name;
    uint64_t stem;
    tsr_name parsed;
    if (text[0] != '.' || !tsr__name_suffix(text, TSR_STAGED_VACUUM, &stem)) continue;
    tsr_path from = tsr__path_of(directory, text, "");
    text[stem] = 0;
    if (!tsr__name_parse(text + 1, strlen(text + 1), &parsed)) continue;
    if (!tsr__map_get(&v->array->listing->names, text + 1)) continue;
    tsr_path to = tsr__path_of(directory, text + 1, ".vac");
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

/* Living entries of all .con files, by name. */
static int vacuum_read_consolidated(vacuum *v, const tsr_listing *entries, tsr_map *living, tsr_map *ignored,
                                    tsr_error *error) {
  for (int con = 0; con < 2; con++)
    for (uint64_t i = 0; i < entries->count; i++) {
      const tsr_commit_file *file;
      uint64_t stem;
      if (!tsr__name_suffix(entries->entries[i].name, con ? ".con" : ".ign", &stem)) continue;
      TSR_TRY(vacuum_read_file(v, entries->entries[i].name, &file, error));
      if (!file) continue;
      for (uint64_t n = 0; !con && n < file->names.count; n++)
        TSR_TRY(tsr__map_put(ignored, file->names.names[n], file->names.names[n], error));
      for (uint64_t n = 0; con && n < file->commits.count; n++) {
        const tsr_commit *commit = &file->commits.commits[n];
        tsr_path wrt = tsr__path_of("", commit->name, ".wrt"), ok = tsr__path_of("", commit->name, ".ok");
        if (commit->kind != TSR_COMMIT_WRITE || tsr__map_get(ignored, wrt.text) || tsr__map_get(ignored, ok.text))
          continue;
        TSR_TRY(tsr__map_put(living, commit->name, commit->name, error));
      }
    }
  return TSR_OK;
}

typedef struct commits_of { /* sources that are committed, and how */
  tsr_buffer con, ign; /* lines of a .con for those with a file of their own, of an .ign for all */
  uint64_t loose, listed; /* with a file of their own; in a .con */
  tsr_name all;
} commits_of;

static int add_commit(vacuum *v, const tsr_listing *entries, const char *name, bool listed, commits_of *found,
                      tsr_error *error) {
  tsr_name one;
  if (!tsr__name_parse(name, strlen(name), &one) || one.version < 5) return TSR_OK;
  const char *suffix = one.version < 12 ? ".ok" : ".wrt";
  tsr_path file = tsr__path_of("", name, suffix);
  bool loose = tsr__listing_has(entries, file.text);
  if (one.version < 12) TSR_TRY(tsr__store_find(v->store, file.text, &loose, error));
  if (!loose && !listed) return TSR_OK;
  found->all.start = TSR_MIN(found->all.start, one.start);
  found->all.end = TSR_MAX(found->all.end, one.end);
  found->all.version = TSR_MAX(found->all.version, one.version);
  found->loose += loose;
  found->listed += listed;
  if (loose) TSR_TRY(tsr__buffer_printf(&found->con, error, "__commits/%s%s\n", name, suffix));
  return tsr__buffer_printf(&found->ign, error, "__commits/%s%s\n", name, suffix);
}

static int new_path(const commits_of *found, const char *suffix, char made[160], tsr_error *error) {
  return tsr__file_path("__commits", found->all.start, found->all.end, TSR_MAX(found->all.version, 12), suffix, made,
                        error);
}

static int publish_ignored(vacuum *v, const commits_of *found, tsr_error *error) {
  char ign[160];
  TSR_TRY(new_path(found, ".ign", ign, error));
  return tsr__file_publish(v->store, ign, found->ign.data, found->ign.size, error);
}

static int vacuum_remove_commit(vacuum *v, const char *name, tsr_error *error);
static int find_commits(vacuum *v, const tsr_buffer *sources, commits_of *found, tsr_error *error);
static void release_commits(commits_of *found);

typedef struct sources_look { /* for still_loose */
  vacuum *v;
  const tsr_buffer *sources;
  const commits_of *found;
} sources_look;

/* Another process may be vacuuming the same: then the .con would name what it has removed. */
static int still_loose(void *argument, tsr_error *error) {
  const sources_look *look = argument;
  commits_of now;
  const int rc = find_commits(look->v, look->sources, &now, error);
  const tsr_buffer *a = &now.con, *b = &look->found->con;
  const bool same = rc >= 0 && a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0);
  release_commits(&now);
  return rc < 0 ? rc : same;
}

/* Commits of their own become one .con. TSR_ABORT: others have taken some away meanwhile. */
static int join_loose(vacuum *v, const tsr_buffer *sources, const commits_of *found, char con[160], tsr_error *error) {
  sources_look look = {v, sources, found};
  TSR_TRY(new_path(found, ".con", con, error));
  return tsr__con_publish(v->store, con, &found->con, still_loose, &look, error);
}

static int remove_all_commits(vacuum *v, const tsr_buffer *sources, tsr_error *error) {
  const char *const *names = (const char *const *)(const void *)sources->data;
  bool root = false;
  for (uint64_t i = 0; i < sources->size / sizeof *names; i++) {
    tsr_name parsed;
    TSR_TRY(vacuum_remove_commit(v, names[i], error));
    root |= !tsr__name_parse(names[i], strlen(names[i]), &parsed) || parsed.version < 12;
  }
  TSR_TRY(sync_if_there(v, "__commits", error));
  return root ? tsr__store_sync_directory(v->store, "", error) : TSR_OK;
}

static int uncommit_found(vacuum *v, const tsr_buffer *sources, bool at_once, const commits_of *found,
                          tsr_error *error) {
  char con[160] = "";
  if (at_once && found->loose && found->loose + found->listed > 1) TSR_TRY(join_loose(v, sources, found, con, error));
  else if (found->listed) TSR_TRY(publish_ignored(v, found, error));
  TSR_TRY(remove_all_commits(v, sources, error));
  if (!*con) return TSR_OK;
  if (found->listed) TSR_TRY(publish_ignored(v, found, error));
  TSR_TRY(remove_file(v, con, error));
  return tsr__store_sync_directory(v->store, "__commits", error);
}

/* How `sources` (const char *) are committed now. */
static int find_commits(vacuum *v, const tsr_buffer *sources, commits_of *found, tsr_error *error) {
  tsr_listing entries;
  tsr_memory *memory = v->store->memory;
  tsr_map living = {.memory = memory}, ignored = {.memory = memory};
  const char *const *names = (const char *const *)(const void *)sources->data;
  *found = (commits_of){.con.memory = memory, .ign.memory = memory, .all.start = UINT64_MAX};
  int rc = vacuum_list(v, "__commits", &entries, error);
  if (rc >= 0) rc = vacuum_read_consolidated(v, &entries, &living, &ignored, error);
  for (uint64_t i = 0; i < sources->size / sizeof *names && rc >= 0; i++)
    rc = add_commit(v, &entries, names[i], tsr__map_get(&living, names[i]) != NULL, found, error);
  tsr__map_release(&living);
  tsr__map_release(&ignored);
  tsr__listing_release(&entries);
  return rc;
}

static void release_commits(commits_of *found) {
  tsr__buffer_release(&found->con);
  tsr__buffer_release(&found->ign);
}

/* None of the sources is committed afterwards. `at_once`: no reader sees some of them meanwhile. */
static int uncommit(vacuum *v, const tsr_buffer *sources, bool at_once, tsr_error *error) {
  bool exists = false;
  TSR_TRY(tsr__directory_find(v->store, "__commits", &exists, error));
  int rc = TSR_ABORT;
  for (int i = 0; rc == TSR_ABORT && i < VACUUM_ATTEMPTS; i++) {
    commits_of found;
    rc = find_commits(v, sources, &found, error);
    if (rc >= 0) rc = uncommit_found(v, sources, at_once && exists, &found, error);
    release_commits(&found);
  }
  return rc;
}

/* Another process may have listed the sources before they were merged, and have them in a .con that it has staged: that never
 * gets its name then. What is staged after this, finds that the sources are not committed any more (still_committed). */
static int remove_staged_con(vacuum *v, tsr_error *error) {
  tsr_listing entries;
  int rc = vacuum_list(v, "", &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    const char *name = entries.entries[i].name;
    uint64_t stem;
    tsr_name parsed;
    if (entries.entries[i].kind != TSR_ENTRY_FILE || name[0] != '.' || !tsr__name_suffix(name, ".con.tmp", &stem))
      continue;
    if (!tsr__name_parse(name + 1, stem - 1, &parsed)) continue;
    rc = remove_file(v, name, error);
    if (rc >= 0) v->removed += (uint64_t)rc;
  }
  tsr__listing_release(&entries);
  return rc < 0 ? rc : TSR_OK;
}

/* Or it has named it since: then that is cancelled. Asked again when the fragments have gone, for the sake of libraries that do
 * not stage. */
static int cancel_late(vacuum *v, const tsr_buffer *sources, tsr_error *error) {
  commits_of found;
  int rc = find_commits(v, sources, &found, error);
  if (rc >= 0 && found.listed) rc = publish_ignored(v, &found, error);
  release_commits(&found);
  return rc;
}

/* The fragment is not committed any more. */
static int vacuum_remove_commit(vacuum *v, const char *name, tsr_error *error) {
  tsr_path p = tsr__path_of("__commits", name, ".wrt");
  TSR_TRY(remove_file(v, p.text, error));
  p = tsr__path_of("", name, ".ok");
  TSR_TRY(remove_file(v, p.text, error));
  tsr_name parsed;
  if (!tsr__name_parse(name, strlen(name), &parsed) || parsed.version >= 5) return TSR_OK;
  p = tsr__path_of(name, "__fragment_metadata.tdb", ""); /* of versions 1 to 4 this is the commit */
  TSR_TRY(remove_file(v, p.text, error));
  return TSR_OK;
}

static int remove_directory(vacuum *v, const char *name, bool *root, tsr_error *error) {
  for (int old = 0; old < 2; old++) {
    tsr_path p = tsr__path_of(old ? "" : "__fragments", name, "");
    bool exists;
    TSR_TRY(tsr__directory_find(v->store, p.text, &exists, error));
    if (!exists) continue;
    TSR_TRY(tsr__fragment_remove(v->store, p.text, error));
    *root |= old;
    v->removed++;
  }
  return TSR_OK;
}

/* Merged sparse cells have their times, so no reader needs the sources. */
static int vacuum_has_times(vacuum *v, const vacuum_file *file, bool *timed, tsr_error *error) {
  const tsr_schema *schema;
  TSR_TRY(tsr__array_schema_at(v->array, UINT64_MAX, &schema, error));
  *timed = !schema->dense && file->parsed.version >= 15;
  return TSR_OK;
}

static int vacuum_sources(vacuum *v, bool at_once, const tsr_buffer *sources, tsr_error *error) {
  const char *const *names = (const char *const *)(const void *)sources->data;
  bool root = false;
  TSR_TRY(uncommit(v, sources, at_once, error));
  TSR_TRY(remove_staged_con(v, error));
  TSR_TRY(cancel_late(v, sources, error));
  for (uint64_t i = 0; i < sources->size / sizeof *names; i++) {
    TSR_TRY(tsr__environment_cancelled(v->environment, error));
    TSR_TRY(remove_directory(v, names[i], &root, error));
    tsr_work_done(v->environment, 1);
  }
  TSR_TRY(sync_if_there(v, "__fragments", error));
  if (root) TSR_TRY(tsr__store_sync_directory(v->store, "", error));
  return cancel_late(v, sources, error);
}

/* Does any of its fragments still exist? */
static int has_sources(vacuum *v, const vacuum_file *file, bool *exists, tsr_error *error) {
  *exists = false;
  for (uint64_t n = 0; n < file->names.count && !*exists; n++) {
    if (!is_source(file, file->names.names[n])) continue;
    tsr_path a = tsr__path_of("__fragments", file->names.names[n], ""), b = tsr__path_of("", file->names.names[n], "");
    TSR_TRY(tsr__directory_find(v->store, a.text, exists, error));
    if (!*exists) TSR_TRY(tsr__directory_find(v->store, b.text, exists, error));
  }
  return TSR_OK;
}

static int vacuum_find_covered(vacuum *v, const tsr_buffer *files, tsr_map *covered, tsr_error *error) {
  uint64_t count;
  const vacuum_file *all = vacuums_of(files, &count);
  void *room;
  TSR_TRY(tsr__arena_array(&v->arena, count, sizeof(tsr_replacing), &room, error));
  tsr_replacing *replacing = room;
  for (uint64_t i = 0; i < count; i++) replacing[i] = (tsr_replacing){all[i].name, &all[i].names};
  return tsr__covered(replacing, count, &v->array->listing->names, covered, error);
}

/* Of a merged fragment that is not there, and that no other has replaced, nobody knows whether another one has its cells. */
static int may_go(vacuum *v, const vacuum_file *file, const tsr_map *covered, bool *goes, tsr_error *error) {
  bool needed = false;
  if (!tsr__map_get(&v->array->listing->names, file->name) && !tsr__map_get(covered, file->name))
    TSR_TRY(has_sources(v, file, &needed, error));
  *goes = !needed;
  return TSR_OK;
}

typedef struct replaced { /* what all vacuum files together name */
  tsr_buffer sources, files; /* const char *, vacuum_file * */
  bool at_once;
} replaced;

static int vacuum_add_replaced(vacuum *v, vacuum_file *file, const tsr_map *covered, replaced *all, tsr_error *error) {
  bool goes, timed;
  TSR_TRY(may_go(v, file, covered, &goes, error));
  if (!goes) return TSR_OK;
  TSR_TRY(vacuum_has_times(v, file, &timed, error));
  all->at_once |= !timed;
  for (uint64_t n = file->names.count; n-- > 0;) /* the newest first: their commits go in this order */
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

/* ---- Debris --------------------------------------------------------------------------------- */

/* The texts of all pending markers. */
static int read_markers(vacuum *v, tsr_buffer *texts, tsr_error *error) {
  tsr_listing entries;
  int rc = vacuum_list(v, "__commits", &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    uint64_t stem;
    if (!tsr__name_suffix(entries.entries[i].name, ".pending", &stem)) continue;
    tsr_path p = tsr__path_of("__commits", entries.entries[i].name, "");
    rc = tsr__buffer_append(texts, entries.entries[i].name, stem, error);
    if (rc >= 0) rc = tsr__buffer_append_u8(texts, '\n', error);
    if (rc >= 0) rc = tsr__store_read_all(v->store, p.text, UINT64_C(1) << 24, texts, error);
    if (rc == TSR_NOT_FOUND) rc = TSR_OK; /* published meanwhile */
    if (rc >= 0) rc = tsr__buffer_append_u8(texts, '\n', error);
  }
  tsr__listing_release(&entries);
  if (rc >= 0) rc = tsr__buffer_append_u8(texts, 0, error);
  return rc;
}

static bool is_marked(const tsr_buffer *texts, const char *name) {
  for (uint64_t at = 0, size = strlen(name); at + size <= texts->size; at++)
    if (memcmp(texts->data + at, name, size) == 0) return true;
  return false;
}

/* Of a directory and all files in it, or of a file: is it a day old? */
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
    old = strcmp(entries.entries[i].name, ".pending") != 0 && entries.entries[i].kind == TSR_ENTRY_FILE &&
          vacuum_is_old(v, p.text, false);
  }
  tsr__listing_release(&entries);
  return old;
}

static bool vacuum_is_provisional(const char *name) { /* .UUID */
  return name[0] == '.' && strlen(name) == 33 && strspn(name + 1, "0123456789abcdef") == 32;
}

static int remove_debris(vacuum *v, const char *directory, const tsr_buffer *markers, tsr_error *error) {
  tsr_listing entries;
  int rc = vacuum_list(v, directory, &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    const char *name = entries.entries[i].name;
    tsr_name parsed;
    bool named = tsr__name_parse(name, strlen(name), &parsed);
    if (entries.entries[i].kind != TSR_ENTRY_DIRECTORY || (!named && !vacuum_is_provisional(name))) continue;
    if (named && (tsr__map_get(&v->array->listing->names, name) || (*directory && parsed.version < 12))) continue;
    tsr_path p = tsr__path_of(directory, name, "");
    if (is_marked(markers, name) || !vacuum_is_old(v, p.text, true)) continue;
    rc = tsr__fragment_remove(v->store, p.text, error);
    v->removed += rc >= 0;
  }
  tsr__listing_release(&entries);
  return rc;
}

/* ".NAME...": what was to become a commit, a vacuum file, or a consolidated file; ".UUID": a schema, or metadata. */
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

/* Unfinished .con files. */
static int mend(vacuum *v, tsr_error *error) {
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
  TSR_TRY(mend(v, error));
  TSR_TRY(finish_staged(v, "__commits", error));
  TSR_TRY(finish_staged(v, "", error));
  TSR_TRY(tsr__array_list(v->array, true, true, error));
  int rc = vacuum_list(v, "__commits", &commits, error);
  if (rc >= 0) rc = add_vacuums(v, "__commits", &commits, &files, error);
  if (rc >= 0) rc = vacuum_list(v, "", &root, error);
  if (rc >= 0) rc = add_vacuums(v, "", &root, &files, error);
  if (rc >= 0) rc = vacuum_replaced(v, &files, error);
  if (rc >= 0) rc = tsr__array_list(v->array, true, true, error);
  if (rc >= 0) rc = read_markers(v, &markers, error);
  if (rc >= 0) rc = remove_debris(v, "__fragments", &markers, error);
  if (rc >= 0) rc = remove_debris(v, "", &markers, error);
  if (rc >= 0) rc = remove_staged(v, "__commits", &markers, error);
  if (rc >= 0) rc = remove_staged(v, "", &markers, error);
  if (rc >= 0) rc = tsr__array_list(v->array, true, true, error);
  tsr__buffer_release(&files);
  tsr__buffer_release(&markers);
  tsr__listing_release(&commits);
  tsr__listing_release(&root);
  return rc;
}

/* ---- Commits -------------------------------------------------------------------------------- */

static bool is_living(const tsr_map *ignored, const tsr_commit *commit) {
  tsr_path wrt = tsr__path_of("", commit->name, ".wrt"), ok = tsr__path_of("", commit->name, ".ok");
  return commit->kind != TSR_COMMIT_WRITE || (!tsr__map_get(ignored, wrt.text) && !tsr__map_get(ignored, ok.text));
}

static bool has_all(const tsr_commits *of, const tsr_commits *in, const tsr_map *ignored) {
  uint64_t at = 0;
  for (uint64_t i = 0; i < of->count; i++) {
    if (!is_living(ignored, &of->commits[i])) continue;
    uint64_t tried = 0;
    /* as a rule they stand in the same order */
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
  tsr_path p = tsr__path_of("__commits", name, "");
  int found = remove_file(v, p.text, error);
  if (found > 0) v->removed++;
  return found < 0 ? found : TSR_OK;
}

typedef struct consolidated { /* a .con */
  const char *name;
  const tsr_commit_file *file; /* NULL: it is gone */
  uint64_t modified;
} consolidated;

static int read_con(vacuum *v, const char *name, consolidated *con, tsr_error *error) {
  tsr_path p = tsr__path_of("__commits", name, "");
  tsr_error one;
  *con = (consolidated){.name = name};
  TSR_TRY(vacuum_read_file(v, name, &con->file, error));
  if (!con->file) return TSR_OK;
  int rc = tsr__store_modified(v->store, p.text, &con->modified, &one);
  if (rc == TSR_NOT_FOUND) return con->file = NULL, TSR_OK;
  if (rc < 0) *error = one;
  return rc;
}

/* What all processes see alike, whatever they know of what is ignored: else each of two could go for the other's sake. */
static bool vacuum_is_later(const consolidated *a, const consolidated *b) {
  const uint64_t x = a->file->commits.count, y = b->file->commits.count;
  if (a->modified != b->modified) return a->modified > b->modified;
  return x != y ? x > y : strcmp(a->name, b->name) > 0;
}

/* A .con goes for a later one that has its living entries. */
static int vacuum_consolidated(vacuum *v, const tsr_listing *entries, const tsr_map *ignored, tsr_error *error) {
  void *room;
  uint64_t count = 0;
  TSR_TRY(tsr__arena_array(&v->arena, entries->count, sizeof(consolidated), &room, error));
  consolidated *files = room;
  for (uint64_t i = 0; i < entries->count; i++) {
    uint64_t stem;
    if (!tsr__name_suffix(entries->entries[i].name, ".con", &stem)) continue;
    TSR_TRY(read_con(v, entries->entries[i].name, &files[count], error));
    count += files[count].file != NULL;
  }
  for (uint64_t i = 0; i < count; i++) {
    const tsr_commits *commits = &files[i].file->commits;
    bool redundant = false, living = files[i].file->rest.cut; /* TileDB has just begun it: it stays */
    for (uint64_t n = 0; n < commits->count; n++) living = living || is_living(ignored, &commits->commits[n]);
    for (uint64_t k = 0; k < count && commits->count && living && !redundant; k++)
      redundant = k != i && vacuum_is_later(&files[k], &files[i]) && has_all(commits, &files[k].file->commits, ignored);
    if (!living || redundant) TSR_TRY(remove_commits(v, files[i].name, error));
  }
  return TSR_OK;
}

/* Names of fragments in .con files. *cut: of some of these nobody knows what it will name. */
static int find_in_con(vacuum *v, tsr_map *in_con, bool *cut, tsr_error *error) {
  tsr_listing entries;
  int rc = vacuum_list(v, "__commits", &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    const tsr_commit_file *file;
    uint64_t stem;
    if (!tsr__name_suffix(entries.entries[i].name, ".con", &stem)) continue;
    rc = vacuum_read_file(v, entries.entries[i].name, &file, error);
    *cut |= rc >= 0 && file && file->rest.cut;
    for (uint64_t n = 0; rc >= 0 && file && n < file->commits.count; n++)
      rc = tsr__map_put(in_con, file->commits.commits[n].name, file->commits.commits[n].name, error);
  }
  tsr__listing_release(&entries);
  return rc;
}

/* Those whose names no .con has any more. They are listed first: the .con for which one came was there before it, but one
 * listing may have the second and not the first. */
static int vacuum_ignored(vacuum *v, tsr_error *error) {
  tsr_listing entries;
  tsr_map in_con = {.memory = v->store->memory};
  bool cut = false;
  int rc = vacuum_list(v, "__commits", &entries, error);
  if (rc >= 0) rc = find_in_con(v, &in_con, &cut, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    const tsr_commit_file *file;
    uint64_t stem;
    bool needed = cut;
    if (!tsr__name_suffix(entries.entries[i].name, ".ign", &stem)) continue;
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
  tsr_map living = {.memory = v->store->memory}, ignored = {.memory = v->store->memory};
  TSR_TRY(tsr__array_list(v->array, true, true, error));
  TSR_TRY(mend(v, error));
  int rc = vacuum_list(v, "__commits", &entries, error);
  if (rc >= 0) rc = vacuum_read_consolidated(v, &entries, &living, &ignored, error);
  tsr__work_more(v->environment, entries.count);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    uint64_t stem;
    tsr_work_done(v->environment, 1);
    if ((rc = tsr__environment_cancelled(v->environment, error)) < 0) break;
    if (!tsr__name_suffix(entries.entries[i].name, ".wrt", &stem)) continue;
    tsr_path name = tsr__path_of("", entries.entries[i].name, "");
    name.text[stem] = 0;
    if (tsr__map_get(&living, name.text)) rc = remove_commits(v, entries.entries[i].name, error);
  }
  if (rc >= 0) rc = vacuum_consolidated(v, &entries, &ignored, error);
  if (rc >= 0) rc = sync_if_there(v, "__commits", error);
  if (rc >= 0) rc = vacuum_ignored(v, error);
  if (rc >= 0) rc = sync_if_there(v, "__commits", error);
  tsr__map_release(&living);
  tsr__map_release(&ignored);
  tsr__listing_release(&entries);
  return rc < 0 ? rc : tsr__array_list(v->array, true, true, error);
}

/* ---- Footers -------------------------------------------------------------------------------- */

/* 1: its writer died while it wrote it, or the disk failed. One that is being written is not: it may be whole soon. */
static int is_damaged(vacuum *v, const tsr_committed *item, tsr_error *error) {
  const tsr_commit_file *file;
  tsr_error one;
  const int rc = tsr__array_commit_file(v->array, item->path, &file, &one);
  if (rc == TSR_NOT_FOUND || rc == TSR_BUSY) return 0;
  if (rc < 0) return *error = one, rc;
  return file->damaged;
}

/* All that are damaged, and of the others all but those that end last. */
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

/* ---- Everything ----------------------------------------------------------------------------- */

/* Another array's directory, by a link in the place of this one's, would be taken for debris. */
static int check_links(const vacuum *v, tsr_error *error) {
  static const char *const directories[] = {"__fragments", "__commits", "__meta", "__fragment_meta"};
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
