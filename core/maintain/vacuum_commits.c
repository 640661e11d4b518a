/* vacuum_commits.c: removes commit files: those of fragments that a vacuum is about to remove (tsr__vacuum_uncommit),
 * and redundant ones, whose content another commit file has, too (tsr__vacuum_commits).
 *
 * Sources that must be uncommitted in one step may have a commit file each. These files are first joined into one .con.
 * Then removing that .con, or writing an .ign file that cancels entries of .con files, uncommits all sources at once.
 */
#include "maintain/maintain.h"

#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "format/layout.h"
#include "format/schema.h"
#include "array/array.h"
#include "log/log.h"
#include "environment/environment.h"

#define VACUUM_ATTEMPTS 8 /* while other processes vacuum the same array */
#define FILES_AT_ONCE   1000u /* commit files that one call removes */

/* Returns true if a file is an .ign that does not belong to a merge in progress. */
static bool is_ignore_file(const char *name) {
  return tsr__name_ends_in(name, TSR_SUFFIX_IGNORED) && !tsr__name_ends_in(name, TSR_SUFFIX_EXCHANGED);
}

/* Reads a .con or .ign of __commits. *file is NULL if another vacuum has removed it. */
static int read_file(tsr_vacuum *v, const char *name, const tsr_commit_file **file, tsr_error *error) {
  tsr_path p = tsr__path_of(TSR_DIR_COMMITS, name, "");
  tsr_error one;
  int rc = tsr__log_file(&v->array->log, p.text, file, &one);
  if (rc >= 0) return TSR_OK;
  *file = NULL;
  if (rc == TSR_NOT_FOUND) return TSR_OK;
  *error = one;
  return rc;
}

static int is_recent_commit(tsr_vacuum *v, const char *name, tsr_error *error) {
  return tsr__vacuum_is_recent(v, tsr__path_of(TSR_DIR_COMMITS, name, "").text, error);
}

/* Reads all .con and .ign files: `ignored` receives the names that .ign files cancel, `active` the fragments that a
 * .con commits and no .ign cancels. With `only_old`, only from .con files that are older than the grace. */
static int read_consolidated(tsr_vacuum *v, const tsr_listing *entries, bool only_old, tsr_map *active,
                             tsr_map *ignored, tsr_error *error) {
  for (int con = 0; con < 2; con++)
    for (uint64_t i = 0; i < entries->count; i++) {
      const tsr_commit_file *file;
      const char *name = entries->entries[i].name;
      if (!(con ? tsr__name_ends_in(name, TSR_SUFFIX_CONSOLIDATED) : is_ignore_file(name))) continue;
      TSR_TRY(read_file(v, name, &file, error));
      if (!file) continue;
      const int recent = con && only_old ? is_recent_commit(v, name, error) : 0;
      if (recent < 0) return recent;
      if (recent) continue;
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

/* ---- Commits of sources ------------------------------------------------------------------------------------------ */

typedef struct commits_of { /* how sources are committed */
  tsr_buffer con; /* lines of a .con for the sources with a commit file */
  tsr_buffer ign; /* lines of an .ign for all committed sources */
  uint64_t loose; /* sources with a commit file (.wrt, .ok) */
  uint64_t listed; /* sources in a .con */
  bool any; /* __commits has files */
  tsr_name all; /* the least start, greatest end and greatest version of the sources */
} commits_of;

static int add_commit(tsr_vacuum *v, const tsr_listing *entries, const char *name, bool listed, commits_of *found,
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

static int publish_ignored(tsr_vacuum *v, const commits_of *found, tsr_error *error) {
  char ign[160];
  TSR_TRY(new_path(found, TSR_SUFFIX_IGNORED, ign, error));
  return tsr__file_publish(v->store, ign, found->ign.data, found->ign.size, error);
}

/* Finds how the sources (names, const char *) are committed. The caller calls release_commits in any case. */
static int find_commits(tsr_vacuum *v, const tsr_buffer *sources, commits_of *found, tsr_error *error) {
  tsr_listing entries;
  tsr_memory *memory = v->store->memory;
  tsr_map active = {.memory = memory}, ignored = {.memory = memory};
  const char *const *names = (const char *const *)(const void *)sources->data;
  *found = (commits_of){.con.memory = memory, .ign.memory = memory, .all.start = UINT64_MAX};
  int rc = tsr__vacuum_list(v, TSR_DIR_COMMITS, &entries, error);
  found->any = entries.count > 0;
  if (rc >= 0) rc = read_consolidated(v, &entries, false, &active, &ignored, error);
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

typedef struct sources_look { /* argument of still_loose */
  tsr_vacuum *v;
  const tsr_buffer *sources;
  const commits_of *found;
} sources_look;

/* Returns 1 if the sources still have the same commit files. Another process may be vacuuming the same sources, and the
 * new .con must not commit fragments that it has removed. */
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
static int join_loose(tsr_vacuum *v, const tsr_buffer *sources, const commits_of *found, char con[160],
                      tsr_error *error) {
  sources_look look = {v, sources, found};
  TSR_TRY(new_path(found, TSR_SUFFIX_CONSOLIDATED, con, error));
  return tsr__con_publish(v->store, con, &found->con, still_loose, &look, error);
}

static int add_path(tsr_vacuum *v, const char *directory, const char *name, const char *suffix, const char **paths,
                    uint64_t *count, tsr_error *error) {
  const tsr_path p = tsr__path_of(directory, name, suffix);
  char *copy;
  TSR_TRY(TSR_ARENA_COPY(&v->arena, p.text, strlen(p.text), &copy, error));
  paths[(*count)++] = copy;
  return TSR_OK;
}

/* Removes the commit files of the sources in one call. */
static int remove_all_commits(tsr_vacuum *v, const tsr_buffer *sources, tsr_error *error) {
  const char *const *names = (const char *const *)(const void *)sources->data;
  const uint64_t source_count = sources->size / sizeof *names;
  const char **paths;
  uint64_t count = 0;
  bool root = false;
  TSR_TRY(TSR_ARENA_ARRAY(&v->arena, tsr__mul_sat(source_count, 3), &paths, error));
  for (uint64_t i = 0; i < source_count; i++) {
    tsr_name parsed;
    const bool named = tsr__name_parse(names[i], strlen(names[i]), &parsed);
    root |= !named || !layout_has_commits_folder(parsed.version);
    TSR_TRY(add_path(v, TSR_DIR_COMMITS, names[i], TSR_SUFFIX_WRITE, paths, &count, error));
    TSR_TRY(add_path(v, "", names[i], TSR_SUFFIX_OLD_WRITE, paths, &count, error));
    if (named && !layout_has_commit_files(parsed.version)) /* in versions 1 to 4 this file is the commit */
      TSR_TRY(add_path(v, names[i], TSR_FILE_FRAGMENT_METADATA, "", paths, &count, error));
  }
  TSR_TRY(tsr__store_remove_many(v->store, paths, count, error));
  TSR_TRY(tsr__vacuum_sync(v, TSR_DIR_COMMITS, error));
  return root ? tsr__store_sync_directory(v->store, "", error) : TSR_OK;
}

/* Removes the commits of the sources. If `at_once`, all of them are uncommitted in one step: by removing the .con that
 * was made for them, or by the .ign. */
static int uncommit_found(tsr_vacuum *v, const tsr_buffer *sources, bool at_once, const commits_of *found,
                          tsr_error *error) {
  char con[160] = "";
  if (at_once && found->loose && found->loose + found->listed > 1) TSR_TRY(join_loose(v, sources, found, con, error));
  else if (found->listed) TSR_TRY(publish_ignored(v, found, error));
  TSR_TRY(remove_all_commits(v, sources, error));
  if (!*con) return TSR_OK;
  if (found->listed) TSR_TRY(publish_ignored(v, found, error));
  TSR_TRY(tsr__vacuum_remove(v, con, error));
  return tsr__store_sync_directory(v->store, TSR_DIR_COMMITS, error);
}

int tsr__vacuum_uncommit(tsr_vacuum *v, const tsr_buffer *sources, bool at_once, tsr_error *error) {
  bool exists = false;
  if (!v->store->stamps_are_listings) TSR_TRY(tsr__directory_find(v->store, TSR_DIR_COMMITS, &exists, error));
  int rc = TSR_ABORT;
  for (int i = 0; rc == TSR_ABORT && i < VACUUM_ATTEMPTS; i++) {
    commits_of found;
    rc = find_commits(v, sources, &found, error);
    if (rc >= 0) rc = uncommit_found(v, sources, at_once && (exists || found.any), &found, error);
    release_commits(&found);
  }
  return rc;
}

int tsr__vacuum_remove_staged_con(tsr_vacuum *v, tsr_error *error) {
  tsr_listing entries;
  int rc = tsr__vacuum_list(v, "", &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    const char *name = entries.entries[i].name;
    uint64_t stem;
    tsr_name parsed;
    if (entries.entries[i].kind != TSR_ENTRY_FILE || name[0] != '.' ||
        !tsr__name_suffix(name, TSR_SUFFIX_CONSOLIDATED ".tmp", &stem))
      continue;
    if (!tsr__name_parse(name + 1, stem - 1, &parsed)) continue;
    rc = tsr__vacuum_remove(v, name, error);
    if (rc >= 0) v->removed += (uint64_t)rc;
  }
  tsr__listing_release(&entries);
  return rc < 0 ? rc : TSR_OK;
}

/* Fails because commit files were removed, and are still there. */
static int fail_kept(const commits_of *found, tsr_error *error) {
  const char *first = (const char *)found->con.data;
  return tsr__fail(error, TSR_ERROR, "%.*s is still there after its removal (%llu such commits): the fragments stay",
                   (int)strcspn(first, "\n"), first, (unsigned long long)found->loose);
}

int tsr__vacuum_cancel_new_commits(tsr_vacuum *v, const tsr_buffer *sources, tsr_error *error) {
  commits_of found;
  int rc = find_commits(v, sources, &found, error);
  if (rc >= 0 && found.loose) rc = fail_kept(&found, error);
  if (rc >= 0 && found.listed) rc = publish_ignored(v, &found, error);
  release_commits(&found);
  return rc;
}

/* ---- Commit files that are not needed ---------------------------------------------------------------------------- */

int tsr__vacuum_mend(tsr_vacuum *v, tsr_error *error) {
  const tsr_schema *schema;
  uint32_t version;
  if (v->array->log.listing->truncated_con.count == 0) return TSR_OK;
  TSR_TRY(tsr__array_schema_at(v->array, UINT64_MAX, &schema, error));
  TSR_TRY(tsr__schema_write_version(schema, &version, error));
  v->listed = false;
  return tsr__replace_truncated_con(v->array, version, &v->removed, error);
}

/* Returns true if no .ign cancels an entry of a .con. */
static bool is_active(const tsr_map *ignored, const tsr_commit *commit) {
  tsr_path wrt = tsr__path_of("", commit->name, TSR_SUFFIX_WRITE),
           ok = tsr__path_of("", commit->name, TSR_SUFFIX_OLD_WRITE);
  return commit->kind != TSR_COMMIT_WRITE || (!tsr__map_get(ignored, wrt.text) && !tsr__map_get(ignored, ok.text));
}

/* Returns true if `in` contains all active entries of `of`. */
static bool has_all(const tsr_commits *of, const tsr_commits *in, const tsr_map *ignored) {
  uint64_t at = 0;
  for (uint64_t i = 0; i < of->count; i++) {
    if (!is_active(ignored, &of->commits[i])) continue;
    uint64_t tried = 0;
    /* Both lists mostly have the same order, so the search continues where the last entry was found. */
    while (tried < in->count && (in->commits[at % in->count].kind != of->commits[i].kind ||
                                 strcmp(in->commits[at % in->count].name, of->commits[i].name) != 0)) {
      at++;
      tried++;
    }
    if (tried >= in->count) return false;
  }
  return true;
}

static int remove_commits(tsr_vacuum *v, const char *name, tsr_error *error) {
  tsr_path p = tsr__path_of(TSR_DIR_COMMITS, name, "");
  int found = tsr__vacuum_remove(v, p.text, error);
  if (found > 0) v->removed++;
  if (found > 0) v->listed = false;
  return found < 0 ? found : TSR_OK;
}

typedef struct consolidated { /* a .con */
  const char *name;
  const tsr_commit_file *file; /* NULL if it is gone */
  uint64_t modified; /* ms since 1970 */
} consolidated;

static int read_con(tsr_vacuum *v, const char *name, consolidated *con, tsr_error *error) {
  tsr_path p = tsr__path_of(TSR_DIR_COMMITS, name, "");
  tsr_error one;
  *con = (consolidated){.name = name};
  TSR_TRY(read_file(v, name, &con->file, error));
  if (!con->file) return TSR_OK;
  int rc = tsr__store_modified(v->store, p.text, &con->modified, &one);
  if (rc == TSR_NOT_FOUND) return con->file = NULL, TSR_OK;
  if (rc < 0) *error = one;
  return rc;
}

/* Orders .con files. The order depends only on facts that all processes see alike, not on .ign files: otherwise two
 * processes could each remove a different one of two equal files. */
static bool vacuum_is_later(const consolidated *a, const consolidated *b) {
  const uint64_t x = a->file->commits.count, y = b->file->commits.count;
  if (a->modified != b->modified) return a->modified > b->modified;
  return x != y ? x > y : strcmp(a->name, b->name) > 0;
}

/* Returns 1 if an .ign is younger than the grace, so that entries of .con files may have been cancelled recently. */
static int has_recent_ignored(tsr_vacuum *v, const tsr_listing *entries, tsr_error *error) {
  int recent = 0;
  for (uint64_t i = 0; i < entries->count && recent == 0; i++)
    if (is_ignore_file(entries->entries[i].name)) recent = is_recent_commit(v, entries->entries[i].name, error);
  return recent;
}

/* Removes .con files without active entries, and those whose active entries a later .con contains. */
static int vacuum_consolidated(tsr_vacuum *v, const tsr_listing *entries, const tsr_map *ignored, tsr_error *error) {
  uint64_t count = 0;
  const uint64_t now = v->grace ? tsr__store_now(v->store) : UINT64_MAX;
  consolidated *files;
  const int cancelled = has_recent_ignored(v, entries, error);
  if (cancelled < 0) return cancelled;
  TSR_TRY(TSR_ARENA_ARRAY(&v->arena, entries->count, &files, error));
  for (uint64_t i = 0; i < entries->count; i++) {
    uint64_t stem;
    if (!tsr__name_suffix(entries->entries[i].name, TSR_SUFFIX_CONSOLIDATED, &stem)) continue;
    TSR_TRY(read_con(v, entries->entries[i].name, &files[count], error));
    count += files[count].file != NULL;
  }
  for (uint64_t i = 0; i < count; i++) {
    const tsr_commits *commits = &files[i].file->commits;
    bool redundant = false, active = files[i].file->partial.truncated; /* TileDB may still be writing it: it stays */
    for (uint64_t n = 0; n < commits->count; n++) active = active || is_active(ignored, &commits->commits[n]);
    for (uint64_t k = 0; k < count && commits->count && active && !redundant; k++)
      redundant = k != i && tsr__add_sat(files[k].modified, v->grace) <= now && vacuum_is_later(&files[k], &files[i]) &&
                  has_all(commits, &files[k].file->commits, ignored);
    if (!active && cancelled) continue;
    if (!active || redundant) TSR_TRY(remove_commits(v, files[i].name, error));
  }
  return TSR_OK;
}

/* Collects the names of all fragments in .con files in `in_con`. *truncated is set if a .con is truncated, so that not
 * all its names are known. */
static int find_in_con(tsr_vacuum *v, tsr_map *in_con, bool *truncated, tsr_error *error) {
  tsr_listing entries;
  int rc = tsr__vacuum_list(v, TSR_DIR_COMMITS, &entries, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    const tsr_commit_file *file;
    uint64_t stem;
    if (!tsr__name_suffix(entries.entries[i].name, TSR_SUFFIX_CONSOLIDATED, &stem)) continue;
    rc = read_file(v, entries.entries[i].name, &file, error);
    *truncated |= rc >= 0 && file && file->partial.truncated;
    for (uint64_t n = 0; rc >= 0 && file && n < file->commits.count; n++)
      rc = tsr__map_put(in_con, file->commits.commits[n].name, file->commits.commits[n].name, error);
  }
  tsr__listing_release(&entries);
  return rc;
}

/* Removes .ign files none of whose names is still in a .con. The .ign files are listed before the .con files: each .con
 * existed before the .ign that cancels its entries, but a single listing might have the .ign and not the .con. */
static int vacuum_ignored(tsr_vacuum *v, tsr_error *error) {
  tsr_listing entries;
  tsr_map in_con = {.memory = v->store->memory};
  bool truncated = false;
  int rc = tsr__vacuum_list(v, TSR_DIR_COMMITS, &entries, error);
  if (rc >= 0) rc = find_in_con(v, &in_con, &truncated, error);
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    const tsr_commit_file *file;
    bool needed = truncated;
    if (!is_ignore_file(entries.entries[i].name)) continue;
    rc = read_file(v, entries.entries[i].name, &file, error);
    for (uint64_t n = 0; rc >= 0 && file && n < file->names.count && !needed; n++) {
      tsr_path name = tsr__path_of("", file->names.names[n], "");
      char *dot = strrchr(name.text, '.');
      if (dot) *dot = 0;
      needed = tsr__map_get(&in_con, name.text) != NULL;
    }
    const int recent = rc >= 0 && file && !needed ? is_recent_commit(v, entries.entries[i].name, error) : 0;
    if (recent < 0) rc = recent;
    if (rc >= 0 && file && !needed && !recent) rc = remove_commits(v, entries.entries[i].name, error);
  }
  tsr__map_release(&in_con);
  tsr__listing_release(&entries);
  return rc;
}

/* Removes the .wrt files among the entries of __commits whose fragments are in `active`. */
static int remove_joined(tsr_vacuum *v, const tsr_listing *entries, const tsr_map *active, tsr_error *error) {
  const char **paths;
  uint64_t count = 0;
  TSR_TRY(TSR_ARENA_ARRAY(&v->arena, entries->count, &paths, error));
  for (uint64_t i = 0; i < entries->count; i++) {
    uint64_t stem;
    const char *text = entries->entries[i].name;
    if (!tsr__name_suffix(text, TSR_SUFFIX_WRITE, &stem)) continue;
    tsr_path name = tsr__path_of("", text, "");
    name.text[stem] = 0;
    if (tsr__map_get(active, name.text)) TSR_TRY(add_path(v, TSR_DIR_COMMITS, text, "", paths, &count, error));
  }
  tsr__work_more(v->environment, count);
  for (uint64_t i = 0; i < count; i += FILES_AT_ONCE) {
    const uint64_t n = TSR_MIN(count - i, FILES_AT_ONCE);
    TSR_TRY(tsr__cancelled(&v->environment->memory, error));
    v->listed = false;
    TSR_TRY(tsr__store_remove_many(v->store, paths + i, n, error));
    v->removed += n;
    tsr_work_done(v->environment, n);
  }
  return TSR_OK;
}

static int vacuum_joined(tsr_vacuum *v, tsr_error *error) {
  tsr_listing entries;
  tsr_map active = {.memory = v->store->memory}, ignored = {.memory = v->store->memory};
  int rc = tsr__vacuum_list(v, TSR_DIR_COMMITS, &entries, error);
  if (rc >= 0) rc = read_consolidated(v, &entries, true, &active, &ignored, error);
  if (rc >= 0) rc = remove_joined(v, &entries, &active, error);
  tsr__map_release(&active);
  tsr__map_release(&ignored);
  tsr__listing_release(&entries);
  return rc < 0 || v->removed == 0 ? rc : tsr__vacuum_sync(v, TSR_DIR_COMMITS, error);
}

int tsr__vacuum_joined(tsr_array *array, uint64_t grace, tsr_error *error) {
  tsr_vacuum v = {.environment = array->environment, .store = array->store, .array = array, .grace = grace};
  TSR_TRY(tsr__store_own(v.store, TSR_DIR_COMMITS, error)); /* a symbolic link may lead to another array */
  tsr__arena_init(&v.arena, v.store->memory);
  const int rc = vacuum_joined(&v, error);
  tsr__arena_release(&v.arena);
  return rc < 0 || v.removed == 0 ? rc : tsr__log_list(&array->log, true, true, error);
}

int tsr__vacuum_commits(tsr_vacuum *v, tsr_error *error) {
  tsr_listing entries;
  tsr_map active = {.memory = v->store->memory}, ignored = {.memory = v->store->memory};
  TSR_TRY(tsr__vacuum_list_array(v, error));
  TSR_TRY(tsr__staged_vacuums_finish(&v->array->log, error));
  TSR_TRY(tsr__vacuum_mend(v, error));
  int rc = tsr__vacuum_list(v, TSR_DIR_COMMITS, &entries, error);
  if (rc >= 0) rc = read_consolidated(v, &entries, true, &active, &ignored, error);
  if (rc >= 0) rc = remove_joined(v, &entries, &active, error);
  if (rc >= 0) rc = vacuum_consolidated(v, &entries, &ignored, error);
  if (rc >= 0) rc = tsr__vacuum_sync(v, TSR_DIR_COMMITS, error);
  if (rc >= 0) rc = vacuum_ignored(v, error);
  if (rc >= 0) rc = tsr__vacuum_sync(v, TSR_DIR_COMMITS, error);
  tsr__map_release(&active);
  tsr__map_release(&ignored);
  tsr__listing_release(&entries);
  return rc;
}
