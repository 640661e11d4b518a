/* consolidate_files.c: consolidates commits, footers of fragments, and the metadata of arrays and groups: many small
 * files become one. format/commits.c and format/metadata.c describe their formats. A new file is complete when it
 * appears; the files that it replaces stay until a vacuum.
 *
 *   __commits/__FIRST_LAST_UUID_V.con        all commits of fragments of version 12 and later, and all deletes
 *   __fragment_meta/__FIRST_LAST_UUID_V.meta footers of fragments of versions 5 to 10, and 12 and later
 *   __meta/__T1_T2_UUID, and .vac            the last entry of each key, values and deletions alike
 *
 * A .con and a .meta with exactly the same fragments get the same name: whichever is written second takes the name of
 * the first. A reader then learns from the .meta, which it needs anyway, which fragments are committed, and does not
 * open the .con (entries.c). The sections: publishing files, commits, footers, metadata.
 */
#include "maintain/maintain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/system.h"
#include "store/store.h"
#include "model/datatype.h"
#include "format/metadata.h"
#include "format/schema.h"
#include "format/layout.h"
#include "array/array.h"
#include "log/log.h"
#include "environment/environment.h"

#define FILE_MAX                   (UINT64_C(1) << 30) /* maximum size of a file to read */
#define CONSOLIDATE_FILES_ATTEMPTS 8 /* while other processes consolidate and vacuum */

/* ---- Publishing files -------------------------------------------------------------------------------------------- */

static void split_path(const char *path, char directory[160], const char **name) {
  const char *slash = strrchr(path, '/');
  *name = slash ? slash + 1 : path;
  snprintf(directory, 160, "%.*s", slash ? (int)(slash - path) : 0, path);
}

#define STAGED_SIZE 200 /* bytes of a staged file's path */

static void unstage(tsr_store *store, const char staged[STAGED_SIZE]) {
  tsr_error unseen;
  (void)tsr__store_remove(store, staged, &unseen);
}

/* Writes the content of the future file `path` durably to .NAME.tmp in the root, where readers ignore names that begin
 * with a dot. `staged` receives its path. A vacuum finds staged .con files by this name. */
static int stage_file(tsr_store *store, const char *path, const void *bytes, uint64_t size, char staged[STAGED_SIZE],
                      tsr_error *error) {
  char directory[160];
  const char *name;
  tsr_file *file;
  split_path(path, directory, &name);
  snprintf(staged, STAGED_SIZE, ".%.150s.tmp", name);
  TSR_TRY(tsr__store_create_exclusive(store, staged, &file, error));
  int rc = tsr__store_append(file, bytes, size, error);
  if (rc >= 0) rc = tsr__store_sync(file, error);
  tsr__store_close_file(file);
  if (rc < 0) unstage(store, staged);
  return rc;
}

/* Renames a staged file to its final path, durably; removes the staged file if that fails. */
static int name_staged(tsr_store *store, const char staged[STAGED_SIZE], const char *path, tsr_error *error) {
  char directory[160];
  const char *name;
  split_path(path, directory, &name);
  const int rc = tsr__store_rename_exclusive(store, staged, path, error);
  if (rc < 0) unstage(store, staged);
  return rc < 0 ? rc : tsr__store_sync_directory(store, directory, error);
}

int tsr__file_publish(tsr_store *store, const char *path, const void *bytes, uint64_t size, tsr_error *error) {
  char directory[160];
  const char *name;
  split_path(path, directory, &name);
  TSR_TRY(tsr__store_put_new(store, path, bytes, size, true, error));
  return tsr__store_sync_directory(store, directory, error);
}

int tsr__con_publish(tsr_store *store, const char *path, const tsr_buffer *lines, tsr_con_check check, void *argument,
                     tsr_error *error) {
  char staged[STAGED_SIZE];
  tsr_error one;
  TSR_TRY(stage_file(store, path, lines->data, lines->size, staged, error));
  int rc = check(argument, error);
  if (rc <= 0) unstage(store, staged);
  if (rc == 0) return tsr__fail(error, TSR_ABORT, "%s: a vacuum has removed commits that it names", path);
  if (rc < 0) return rc;
  rc = name_staged(store, staged, path, &one);
  if (rc == TSR_NOT_FOUND)
    return tsr__fail(error, TSR_ABORT, "%s: a vacuum has removed the file before it was renamed", path);
  if (rc < 0) *error = one;
  return rc;
}

typedef struct consolidated_file { /* a file to publish */
  const char *directory, *suffix;
  uint64_t start, end; /* times of its content */
  uint32_t version; /* format version */
  /* its name without suffix, if that is free: the name of the .con or .meta with the same fragments; "" for a new name
   */
  char variant[128];
} consolidated_file;

/* Publishes a file. Returns 1 and its path; 0 if a file with the name `variant` exists already. `check` as for
 * tsr__con_publish; NULL if the file is not a .con. */
static int publish_file(tsr_store *store, const consolidated_file *file, const tsr_buffer *bytes, tsr_con_check check,
                        void *argument, char path[160], tsr_error *error) {
  if (*file->variant) {
    tsr_error one;
    bool exists;
    snprintf(path, 160, "%s/%.128s%s", file->directory, file->variant, file->suffix);
    int rc = check ? tsr__con_publish(store, path, bytes, check, argument, &one)
                   : tsr__file_publish(store, path, bytes->data, bytes->size, &one);
    if (rc >= 0) return 1;
    if (rc != TSR_EXISTS) return *error = one, rc;
    TSR_TRY(tsr__store_find(store, path, &exists, error));
    if (exists) return 0; /* otherwise leftovers of a crash have the staged file's name: use another name */
  }
  TSR_TRY(tsr__file_path(file->directory, file->start, file->end, file->version, file->suffix, path, error));
  if (check) TSR_TRY(tsr__con_publish(store, path, bytes, check, argument, error));
  else TSR_TRY(tsr__file_publish(store, path, bytes->data, bytes->size, error));
  return 1;
}

/* Sets file->variant if the other file of a pair exists: for `commits` a .meta with the same fragments, for `footers` a
 * .con. Exactly one of the two is not NULL. */
static int find_variant(tsr_array *array, const tsr_commits *commits, const tsr_footers *footers,
                        consolidated_file *file, tsr_error *error) {
  const char *directory = commits ? TSR_DIR_FOOTERS : TSR_DIR_COMMITS,
             *suffix = commits ? TSR_SUFFIX_FOOTERS : TSR_SUFFIX_CONSOLIDATED;
  tsr_listing entries = {.memory = &array->memory};
  int rc = tsr__store_list(array->store, directory, &entries, error);
  if (rc == TSR_NOT_FOUND) return TSR_OK;
  for (uint64_t i = 0; i < entries.count && rc >= 0 && !*file->variant; i++) {
    const char *name = entries.entries[i].name;
    const tsr_commit_file *other;
    tsr_name parsed;
    uint64_t stem;
    tsr_error unseen; /* a missing or damaged file cannot be paired */
    if (!tsr__name_suffix(name, suffix, &stem) || stem >= sizeof file->variant || !tsr__name_parse(name, stem, &parsed))
      continue;
    if (parsed.start != file->start || parsed.end != file->end) continue;
    tsr_path p = tsr__path_of(directory, name, "");
    if (tsr__log_file(&array->log, p.text, &other, &unseen) < 0) continue;
    if (tsr__commits_match(commits ? commits : &other->commits, commits ? &other->footers : footers))
      snprintf(file->variant, sizeof file->variant, "%.*s", (int)stem, name);
  }
  tsr__listing_release(&entries);
  return rc;
}

int tsr__vacuum_line(const tsr_maintained *object, const char *directory, const char *name, tsr_buffer *out,
                     tsr_error *error) {
  char here[4096];
  const char *slash = *directory ? "/" : "";
  if (layout_has_relative_vacuum_names(object->version) && object->array)
    return tsr__buffer_printf(out, error, "/%s%s%s\n", directory, slash, name);
  const bool absolute =
      tsr__path_root(object->path) || strstr(object->path, "://") || !tsr__path_here(here, sizeof here);
  const char *begin = absolute ? object->path : here;
  return tsr__buffer_printf(out, error, "file://%s%s%s%s/%s%s%s\n", *begin == '/' ? "" : "/", absolute ? "" : here,
                            absolute ? "" : "/", object->path, directory, slash, name);
}

static int make_directory(tsr_store *store, const char *directory, tsr_error *error) {
  tsr_error one;
  int rc = tsr__store_make_directory(store, directory, &one);
  if (rc >= 0) return tsr__store_sync_directory(store, "", error);
  if (rc == TSR_EXISTS) return TSR_OK;
  *error = one;
  return rc;
}

int tsr__file_path(const char *directory, uint64_t start, uint64_t end, uint32_t version, const char *suffix,
                   char path[160], tsr_error *error) {
  uint8_t random[16];
  tsr_name name;
  char text[128];
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(start, end, version, &name, random));
  tsr__name_print(&name, text);
  snprintf(path, 160, "%s%s%.110s%s", directory, *directory ? "/" : "", text, suffix);
  return TSR_OK;
}

/* ---- Commits ----------------------------------------------------------------------------------------------------- */

/* Counts the commit files (.wrt, .del) that no .con names, *loose, and the .con files, *consolidated. */
static int count_commits(tsr_array *array, uint64_t *loose, uint64_t *consolidated, tsr_error *error) {
  tsr_listing entries = {.memory = &array->memory};
  int rc = tsr__store_list(array->store, TSR_DIR_COMMITS, &entries, error);
  *loose = *consolidated = 0;
  if (rc == TSR_NOT_FOUND) return TSR_OK;
  tsr_map known = {.memory = &array->memory};
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    uint64_t stem;
    const tsr_commit_file *file;
    char path[300];
    if (!tsr__name_suffix(entries.entries[i].name, TSR_SUFFIX_CONSOLIDATED, &stem)) continue;
    snprintf(path, sizeof path, TSR_DIR_COMMITS "/%.280s", entries.entries[i].name);
    tsr_error one;
    rc = tsr__log_file(&array->log, path, &file, &one);
    if (rc == TSR_NOT_FOUND) { /* vacuumed meanwhile */
      rc = TSR_OK;
      continue;
    }
    if (rc < 0) *error = one;
    for (uint64_t k = 0; rc >= 0 && k < file->commits.count; k++)
      rc = tsr__map_put(&known, file->commits.commits[k].name, file->commits.commits[k].name, error);
    (*consolidated)++;
  }
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    char *name = entries.entries[i].name;
    uint64_t stem;
    if (!tsr__name_suffix(name, TSR_SUFFIX_WRITE, &stem) && !tsr__name_suffix(name, TSR_SUFFIX_DELETE, &stem)) continue;
    name[stem] = 0;
    *loose += !tsr__map_get(&known, name);
  }
  tsr__map_release(&known);
  tsr__listing_release(&entries);
  return rc;
}

/* Appends a delete with its condition, after decoding it: a condition that readers cannot decode must not be copied,
 * since it would make the array unreadable. */
static int put_delete(tsr_array *array, const tsr_committed *item, tsr_buffer *out, tsr_error *error) {
  tsr_buffer stored = {.memory = &array->memory}, content = {.memory = &array->memory};
  int rc = tsr__delete_read(&array->log, item, &stored, &content, error);
  if (rc >= 0) rc = tsr__commits_encode_delete(item->name, stored.data, stored.size, out, error);
  tsr__buffer_release(&stored);
  tsr__buffer_release(&content);
  return rc;
}

static void note_times(const tsr_name *name, uint64_t *start, uint64_t *end) {
  *start = TSR_MIN(*start, name->start);
  *end = TSR_MAX(*end, name->end);
}

/* Which of the published commits and deletes in the listing a new .con has. */
typedef enum con_choice {
  IN_FORCE, /* all but those of fragments that merges have replaced, since a vacuum may be removing them */
  NOT_JOINED /* those that no .con has, also of replaced fragments, since without a vacuum these stay */
} con_choice;

/* Appends the lines of a new .con to `out`. Extends start..end to the times of the commits. */
static int encode_commits(tsr_array *array, con_choice choice, tsr_buffer *out, uint64_t *start, uint64_t *end,
                          tsr_error *error) {
  tsr_map replaced = {.memory = &array->memory};
  int rc = choice == IN_FORCE ? tsr__replaced(array, &replaced, error) : TSR_OK;
  const tsr_commit_listing *listing = array->log.listing;
  for (uint64_t i = 0; i < listing->fragments.count && rc >= 0; i++) {
    const tsr_committed *item = &listing->fragments.items[i];
    tsr_work_done(array->environment, 1);
    rc = tsr__cancelled(&array->environment->memory, error);
    if (rc < 0 || item->old_layout || item->prepared || tsr__map_get(&replaced, item->name)) continue;
    if (choice == NOT_JOINED && item->joined) continue;
    note_times(&item->parsed, start, end);
    rc = tsr__commits_encode_write(item->name, out, error);
  }
  for (uint64_t i = 0; i < listing->deletes.count && rc >= 0; i++) {
    const tsr_committed *item = &listing->deletes.items[i];
    if (item->prepared || (choice == NOT_JOINED && item->bytes)) continue;
    note_times(&item->parsed, start, end);
    rc = tsr__cancelled(&array->environment->memory, error);
    if (rc >= 0) rc = put_delete(array, item, out, error);
    tsr_work_done(array->environment, 1);
  }
  tsr__map_release(&replaced);
  return rc;
}

/* Appends the lines of an .ign for those entries of a .con whose fragments are not in `present`. Extends start..end to
 * their times. */
static int list_missing(const tsr_commits *commits, const tsr_listing *present, uint64_t *start, uint64_t *end,
                        tsr_buffer *lines, tsr_error *error) {
  for (uint64_t i = 0; i < commits->count; i++) {
    const tsr_commit *commit = &commits->commits[i];
    tsr_name parsed;
    if (commit->kind != TSR_COMMIT_WRITE || !tsr__name_parse(commit->name, strlen(commit->name), &parsed)) continue;
    if (tsr__listing_has(present, commit->name)) continue;
    note_times(&parsed, start, end);
    TSR_TRY(tsr__buffer_printf(lines, error, TSR_DIR_COMMITS "/%s" TSR_SUFFIX_WRITE "\n", commit->name));
  }
  return TSR_OK;
}

/* Cancels, by an .ign, the entries of a new .con whose fragments are gone. A vacuum by another library does not know
 * about staged files: it may have removed fragments after the check of tsr__con_publish, and a commit without its
 * fragment would be damage. */
static int cancel_missing(tsr_array *array, const char *con, uint32_t version, tsr_error *error) {
  const tsr_commit_file *file;
  tsr_buffer lines = {.memory = &array->memory};
  tsr_listing present = {.memory = &array->memory};
  uint64_t start = UINT64_MAX, end = 0;
  char path[300];
  tsr_error one;
  int rc = tsr__log_file(&array->log, con, &file, &one);
  if (rc == TSR_NOT_FOUND) return TSR_OK; /* a vacuum has removed it, because a later .con has its entries */
  if (rc < 0) return *error = one, rc;
  rc = tsr__store_list_any(array->store, TSR_DIR_FRAGMENTS, &present, &one);
  if (rc < 0 && rc != TSR_NOT_FOUND) return *error = one, rc;
  rc = list_missing(&file->commits, &present, &start, &end, &lines, error);
  tsr__listing_release(&present);
  if (rc >= 0 && lines.size) {
    rc = tsr__file_path(TSR_DIR_COMMITS, start, end, version, TSR_SUFFIX_IGNORED, path, error);
    if (rc >= 0) rc = tsr__file_publish(array->store, path, lines.data, lines.size, error);
  }
  tsr__buffer_release(&lines);
  return rc;
}

typedef struct con_content { /* argument of still_committed */
  tsr_array *array;
  tsr_commits commits; /* the entries of the new .con */
} con_content;

/* Returns 1 if all fragments of the new .con are still committed, 0 if not. A vacuum first removes the commits, then
 * staged .con files, then cancels entries of .con files by an .ign, and finally removes the fragments. So a .con staged
 * before the second step is either removed before its rename, or renamed earlier, and then the third step cancels its
 * entries. A .con staged later finds here that the commits are gone. */
static int still_committed(void *argument, tsr_error *error) {
  const con_content *g = argument;
  TSR_TRY(tsr__log_list(&g->array->log, true, true, error));
  for (uint64_t i = 0; i < g->commits.count; i++) {
    const tsr_commit *commit = &g->commits.commits[i];
    if (commit->kind == TSR_COMMIT_WRITE && !tsr__map_get(&g->array->log.listing->names, commit->name)) return 0;
  }
  return 1;
}

static int write_con(tsr_array *array, uint32_t version, const tsr_buffer *lines, uint64_t start, uint64_t end,
                     tsr_error *error) {
  consolidated_file file = {
      .directory = TSR_DIR_COMMITS, .suffix = TSR_SUFFIX_CONSOLIDATED, .start = start, .end = end, .version = version};
  tsr_input in = tsr__input(lines->data, lines->size);
  con_content g = {.array = array};
  tsr_arena arena;
  char path[160];
  tsr__arena_init(&arena, &array->memory);
  int rc = tsr__commits_decode(&in, &arena, &g.commits, error);
  if (rc >= 0) rc = find_variant(array, &g.commits, NULL, &file, error);
  if (rc >= 0) rc = publish_file(array->store, &file, lines, still_committed, &g, path, error);
  tsr__arena_release(&arena);
  return rc <= 0 ? rc : cancel_missing(array, path, version, error);
}

/* Writes one .con. *written is false if there are no commits for it. */
static int write_chosen(tsr_array *array, con_choice choice, uint32_t version, bool *written, tsr_error *error) {
  tsr_buffer out = {.memory = &array->memory};
  int rc = TSR_ABORT;
  for (int i = 0; rc == TSR_ABORT && i < CONSOLIDATE_FILES_ATTEMPTS; i++) {
    uint64_t start = UINT64_MAX, end = 0;
    out.size = 0;
    rc = encode_commits(array, choice, &out, &start, &end, error);
    *written = out.size > 0;
    if (rc >= 0 && out.size) rc = write_con(array, version, &out, start, end, error);
  }
  tsr__buffer_release(&out);
  return rc;
}

/* Fails with TSR_CORRUPT if the copy of a delete in a .con cannot be decoded. */
static int check_copy(tsr_array *array, const tsr_committed *item, tsr_error *error) {
  tsr_buffer content = {.memory = &array->memory};
  uint64_t consumed;
  const int rc = tsr__generic_tile_decode(item->bytes, item->size, tsr__array_key(array), FILE_MAX, &content, NULL,
                                          &consumed, error);
  tsr__buffer_release(&content);
  return rc;
}

/* Sets *damaged if a .con has a copy of a delete that cannot be decoded. A new .con then takes the condition from the
 * .del file (log.h). */
static int find_damaged_copy(tsr_array *array, bool *damaged, tsr_error *error) {
  const tsr_commit_list *deletes = &array->log.listing->deletes;
  *damaged = false;
  for (uint64_t i = 0; i < deletes->count && !*damaged; i++) {
    if (!deletes->items[i].bytes) continue;
    const int rc = check_copy(array, &deletes->items[i], error);
    if (rc < 0 && rc != TSR_CORRUPT) return rc;
    *damaged = rc < 0;
  }
  return TSR_OK;
}

/* Writes the .del file of a delete that a .con contains, if it is missing. When TileDB consolidates commits it opens
 * these files, and fails if a vacuum has removed one. Readers count a delete once even if both files have it. */
static int restore_delete(tsr_array *array, const tsr_committed *item, bool *restored, tsr_error *error) {
  tsr_store *store = array->store;
  const tsr_path path = tsr__path_of(TSR_DIR_COMMITS, item->name, TSR_SUFFIX_DELETE);
  char staged[STAGED_SIZE];
  tsr_error one;
  bool exists;
  TSR_TRY(tsr__store_find(store, path.text, &exists, error));
  if (exists) return TSR_OK;
  TSR_TRY(check_copy(array, item, error));
  int rc = stage_file(store, path.text, item->bytes, item->size, staged, &one);
  if (rc == TSR_EXISTS) return TSR_OK; /* another process writes the same file */
  if (rc >= 0 && (rc = tsr__store_rename_exclusive(store, staged, path.text, &one)) < 0) unstage(store, staged);
  if (rc < 0 && rc != TSR_EXISTS && rc != TSR_NOT_FOUND) return *error = one, rc;
  *restored = true;
  return TSR_OK;
}

static int restore_deletes(tsr_array *array, tsr_error *error) {
  const tsr_commit_list *deletes = &array->log.listing->deletes;
  bool restored = false;
  for (uint64_t i = 0; i < deletes->count; i++)
    if (deletes->items[i].bytes && !deletes->items[i].prepared)
      TSR_TRY(restore_delete(array, &deletes->items[i], &restored, error));
  return restored ? tsr__store_sync_directory(array->store, TSR_DIR_COMMITS, error) : TSR_OK;
}

/* A truncated .con counts as not written (commit_files.c). Its writer may still be writing it, and may remove the
 * commits that it names as soon as it is complete. So a new .con must contain all current commits before the truncated
 * one is removed. */
int tsr__replace_truncated_con(tsr_array *array, uint32_t version, uint64_t *removed, tsr_error *error) {
  const tsr_commit_listing *listing = array->log.listing;
  bool written = false;
  if (listing->truncated_con.count == 0) return TSR_OK;
  TSR_TRY(write_chosen(array, IN_FORCE, TSR_MAX(version, 12), &written, error));
  TSR_TRY(tsr__log_list(&array->log, true, true, error));
  listing = array->log.listing;
  for (uint64_t i = 0; i < listing->truncated_con.count; i++) {
    const char *path = listing->truncated_con.items[i].path;
    tsr_look look;
    tsr_error one;
    int rc = tsr__store_look(array->store, path, &look, &one);
    /* No .con was written although there are fragments: they are committed by .ok files. A truncated .con that was
     * changed a moment ago may be about to name these, so it stays. */
    if (rc > 0 && !written && listing->fragments.count && tsr__is_young(&look)) continue;
    if (rc >= 0) rc = tsr__store_remove(array->store, path, &one);
    if (rc == TSR_NOT_FOUND) continue;
    if (rc < 0) return *error = one, rc;
    (*removed)++;
  }
  TSR_TRY(tsr__store_sync_directory(array->store, TSR_DIR_COMMITS, error));
  return tsr__log_list(&array->log, true, true, error);
}

int tsr__consolidate_commits(tsr_array *array, uint32_t version, uint64_t *merged, tsr_error *error) {
  uint64_t loose, consolidated, mended = 0;
  bool written = false;
  if (!layout_has_commits_folder(version))
    return tsr__fail(error, TSR_UNSUPPORTED, "format version %u has no consolidated commits", version);
  TSR_TRY(count_commits(array, &loose, &consolidated, error));
  tsr__work_more(array->environment, array->log.listing->fragments.count + array->log.listing->deletes.count);
  if (array->log.listing->truncated_con.count) {
    TSR_TRY(tsr__replace_truncated_con(array, version, &mended, error));
    written = true;
  } else {
    bool damaged = false;
    if (loose + consolidated == 1) TSR_TRY(find_damaged_copy(array, &damaged, error));
    if (loose + consolidated >= 2 || damaged) TSR_TRY(write_chosen(array, IN_FORCE, version, &written, error));
  }
  if (written) *merged = loose + consolidated;
  return restore_deletes(array, error);
}

int tsr__join_commits(tsr_array *array, uint32_t version, tsr_error *error) {
  bool written;
  return write_chosen(array, NOT_JOINED, version, &written, error);
}

/* ---- Footers ----------------------------------------------------------------------------------------------------- */

/* Appends a fragment's footer to `out`, without the 8-byte length that may follow it. */
static int read_footer(tsr_array *array, tsr_fragment *fragment, tsr_buffer *out, tsr_error *error) {
  const tsr_fragment_metadata *m = &fragment->metadata;
  tsr_file *file;
  uint8_t size_bytes[8];
  uint64_t at = m->at.footer, size;
  TSR_TRY(tsr__fragment_metadata_file(array, fragment, &file, error));
  bool sized = layout_has_footer_sizes(m->version) || tsr__schema_has_text(m->schema);
  if (sized && file->size >= sizeof size_bytes) {
    TSR_TRY(tsr__store_read_at(file, file->size - sizeof size_bytes, size_bytes, sizeof size_bytes, error));
    size = tsr__load64(size_bytes);
    at = file->size - sizeof size_bytes - TSR_MIN(size, file->size - sizeof size_bytes);
  } else {
    size = file->size - TSR_MIN(at, file->size);
  }
  TSR_TRY(tsr__buffer_reserve(out, size, error));
  TSR_TRY(tsr__store_read_at(file, at, out->data + out->size, size, error));
  out->size += size;
  tsr__array_files_done(array);
  return TSR_OK;
}

/* Returns true if the fragment's footer can be put into a .meta. Not all readers find footers of versions 1 to 4 and 11
 * there (format/commits.c). A footer without a length after it that was itself read from a .meta has no known offset in
 * the fragment's own file. */
static bool has_footer(const tsr_fragment *fragment) {
  const tsr_fragment_metadata *m = &fragment->metadata;
  if (layout_miscounts_footers(m->version) || fragment->parsed.version != m->version) return false;
  return layout_has_footer_sizes(m->version) || tsr__schema_has_text(m->schema) || m->at.footer;
}

typedef struct footers {
  tsr_buffer names; /* char *, borrowed from the array's fragments */
  tsr_buffer starts; /* u64: the offset in `bytes` of each footer */
  tsr_buffer bytes; /* the footers */
  uint64_t start, end; /* times of the fragments */
} footers;

/* Collects the names of the fragments that are not published yet. A .meta must not name them: recovery takes every name
 * in one for published. */
static int find_unpublished(const tsr_array *array, tsr_map *names, tsr_error *error) {
  const tsr_commit_listing *listing = array->log.listing;
  if (!listing->prepared.counted) return TSR_OK;
  for (uint64_t i = 0; i < listing->fragments.count; i++) {
    const char *name = listing->fragments.items[i].name;
    if (listing->fragments.items[i].prepared) TSR_TRY(tsr__map_put(names, name, (void *)(uintptr_t)name, error));
  }
  return TSR_OK;
}

static int collect_footers(tsr_array *array, uint64_t since, uint64_t as_of, footers *f, tsr_error *error) {
  tsr_snapshot *snapshot;
  TSR_TRY(tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, as_of, &snapshot, error));
  tsr_map unpublished = {.memory = &array->memory};
  int rc = find_unpublished(array, &unpublished, error);
  tsr__work_more(array->environment, snapshot->fragment_count);
  for (uint64_t i = 0; i < snapshot->fragment_count && rc >= 0; i++) {
    tsr_fragment *fragment = snapshot->fragments[i].fragment;
    tsr_work_done(array->environment, 1);
    if (fragment->parsed.start < since || fragment->parsed.end > as_of || !has_footer(fragment)) continue;
    if (tsr__map_get(&unpublished, fragment->name)) continue;
    note_times(&fragment->parsed, &f->start, &f->end);
    rc = tsr__cancelled(&array->environment->memory, error);
    if (rc >= 0) rc = tsr__buffer_append_u64(&f->starts, f->bytes.size, error);
    if (rc >= 0) rc = tsr__buffer_append(&f->names, &fragment->name, sizeof fragment->name, error);
    if (rc >= 0) rc = read_footer(array, fragment, &f->bytes, error);
  }
  tsr__map_release(&unpublished);
  tsr_snapshot_close(snapshot); /* the names stay valid as long as the array's listing has the fragments */
  return rc;
}

/* Appends the content of a .meta to `out`: a table of names and offsets, then the footers (commits.c). */
static int encode_footers(const tsr_maintained *object, const footers *f, tsr_buffer *out, tsr_error *error) {
  const char *const *names = (const char *const *)(const void *)f->names.data;
  const uint64_t *starts = (const uint64_t *)(const void *)f->starts.data, count = f->starts.size / sizeof(uint64_t);
  tsr_buffer table = {.memory = out->memory};
  uint64_t size = 4;
  int rc = TSR_OK;
  /* The offsets in the table count from the beginning of the content, so they depend on the size of the table: the
   * first round determines the size, the second makes the table. */
  for (int round = 0; round < 2 && rc >= 0; round++) {
    table.size = 0;
    rc = tsr__buffer_append_u32(&table, (uint32_t)count, error);
    for (uint64_t i = 0; i < count && rc >= 0; i++) {
      uint64_t before = table.size;
      rc = tsr__buffer_append_u64(&table, 0, error);
      if (rc >= 0 && layout_has_relative_footer_names(object->version))
        rc = tsr__buffer_printf(&table, error, "%s", names[i]);
      else if (rc >= 0) rc = tsr__buffer_printf(&table, error, "file://%s/%s", object->path, names[i]);
      if (rc < 0) break;
      tsr__store64(table.data + before, table.size - before - 8);
      rc = tsr__buffer_append_u64(&table, size + starts[i], error);
    }
    size = table.size;
  }
  if (rc >= 0) rc = tsr__buffer_append(out, table.data, table.size, error);
  if (rc >= 0) rc = tsr__buffer_append(out, f->bytes.data, f->bytes.size, error);
  tsr__buffer_release(&table);
  return rc;
}

/* Sets file->variant if a .con has the same fragments as a new .meta with this content. */
static int find_con(tsr_array *array, const tsr_buffer *content, consolidated_file *file, tsr_error *error) {
  tsr_footers all;
  tsr_arena arena;
  tsr__arena_init(&arena, &array->memory);
  int rc = tsr__footers_decode(content->data, content->size, &arena, &all, error);
  if (rc >= 0) rc = find_variant(array, NULL, &all, file, error);
  tsr__arena_release(&arena);
  return rc;
}

int tsr__consolidate_footers(tsr_array *array, uint32_t version, uint64_t since, uint64_t as_of, uint64_t *merged,
                             tsr_error *error) {
  tsr_memory *memory = &array->memory;
  const tsr_maintained object = {.store = array->store, .array = array, .version = version, .path = array->path};
  footers f = {.names.memory = memory, .starts.memory = memory, .bytes.memory = memory, .start = UINT64_MAX};
  tsr_buffer content = {.memory = memory}, tile = {.memory = memory};
  consolidated_file file = {.directory = layout_has_commits_folder(version) ? TSR_DIR_FOOTERS : "",
                            .suffix = TSR_SUFFIX_FOOTERS,
                            .version = version};
  char path[160];
  int rc = collect_footers(array, since, as_of, &f, error);
  uint64_t count = f.starts.size / sizeof(uint64_t);
  file.start = f.start;
  file.end = f.end;
  if (rc >= 0 && count >= 2) {
    rc = encode_footers(&object, &f, &content, error);
    if (rc >= 0)
      rc = tsr__generic_tile_encode(content.data, content.size, version, tsr__array_key(array), &tile, error);
    if (rc >= 0 && *file.directory) rc = make_directory(array->store, file.directory, error);
    if (rc >= 0 && *file.directory) rc = find_con(array, &content, &file, error);
    if (rc >= 0) rc = publish_file(array->store, &file, &tile, NULL, NULL, path, error);
    if (rc >= 0) *merged = count;
  }
  tsr__buffer_release(&f.names);
  tsr__buffer_release(&f.starts);
  tsr__buffer_release(&f.bytes);
  tsr__buffer_release(&content);
  tsr__buffer_release(&tile);
  return rc;
}

/* ---- Metadata ---------------------------------------------------------------------------------------------------- */

typedef struct ranked_item { /* an entry and its number in the order of time */
  tsr_metadata_entry entry;
  uint64_t rank;
} ranked_item;

static int compare_keys(const void *a, const void *b) {
  const ranked_item *x = a, *y = b;
  int order = tsr__bytes_compare(x->entry.key, x->entry.key_size, y->entry.key, y->entry.key_size);
  return order ? order : x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int read_metadata(const tsr_maintained *object, const char *path, tsr_arena *arena, tsr_buffer *all,
                         tsr_error *error) {
  tsr_buffer content = {.memory = arena->memory};
  tsr_generic_tile header;
  tsr_metadata_entries entries = {0};
  int rc = tsr__read_tile(object->store, object->key, path, FILE_MAX, &content, &header, error);
  if (rc >= 0) {
    tsr_input in = tsr__input(content.data, content.size);
    rc = tsr__metadata_decode(&in, arena, &entries, error);
    if (rc < 0) tsr__wrap(error, "%s", path);
  }
  for (uint64_t i = 0; rc >= 0 && i < entries.count; i++) {
    const ranked_item one = {entries.entries[i], all->size / sizeof(ranked_item)};
    rc = tsr__buffer_append(all, &one, sizeof one, error);
  }
  tsr__buffer_release(&content);
  return rc;
}

/* Encodes the last entry of each key. Deletions are kept, too: a file from before the given times may have the key. */
static int encode_metadata(tsr_buffer *all, tsr_buffer *out, tsr_error *error) {
  ranked_item *entries = (ranked_item *)(void *)all->data;
  const uint64_t count = all->size / sizeof *entries;
  if (count > 1) qsort(entries, count, sizeof *entries, compare_keys);
  for (uint64_t i = 0; i < count; i++) {
    const tsr_metadata_entry *e = &entries[i].entry, *next = i + 1 < count ? &entries[i + 1].entry : NULL;
    if (next && tsr__bytes_compare(e->key, e->key_size, next->key, next->key_size) == 0) continue;
    TSR_TRY(tsr__metadata_encode(e, out, error));
  }
  return TSR_OK;
}

/* Writes the consolidated file and its vacuum file. Readers ignore the replaced files once the vacuum file exists. */
static int write_metadata(const tsr_maintained *object, const tsr_timestamped_files *files, tsr_arena *arena,
                          tsr_buffer *out, tsr_buffer *lines, tsr_error *error) {
  tsr_buffer all = {.memory = arena->memory}, tile = {.memory = arena->memory};
  uint64_t start = UINT64_MAX, end = 0;
  char path[160], vacuum[170];
  int rc = TSR_OK;
  tsr__work_more(object->environment, files->count);
  for (uint64_t i = 0; i < files->count && rc >= 0; i++) {
    const char *name = strrchr(files->paths[i], '/') + 1;
    tsr_work_done(object->environment, 1);
    tsr_name parsed;
    rc = tsr__cancelled(&object->environment->memory, error);
    if (rc >= 0) rc = read_metadata(object, files->paths[i], arena, &all, error);
    if (rc >= 0) rc = tsr__vacuum_line(object, TSR_DIR_META, name, lines, error);
    if (rc >= 0 && tsr__name_parse(name, strlen(name), &parsed)) note_times(&parsed, &start, &end);
  }
  if (rc >= 0) rc = encode_metadata(&all, out, error);
  if (rc >= 0) rc = tsr__generic_tile_encode(out->data, out->size, object->version, object->key, &tile, error);
  if (rc >= 0) rc = tsr__file_path(TSR_DIR_META, start, end, 0, "", path, error);
  if (rc >= 0) rc = tsr__file_publish(object->store, path, tile.data, tile.size, error);
  if (rc >= 0) {
    snprintf(vacuum, sizeof vacuum, "%s" TSR_SUFFIX_VACUUM, path);
    rc = tsr__file_publish(object->store, vacuum, lines->data, lines->size, error);
    tsr_error unseen;
    /* Without its vacuum file, the consolidated file is useless and is removed. If the vacuum file may exist after all,
     * it stays, because the vacuum file hides the files that it replaces. */
    bool exists = true;
    if (rc < 0 && tsr__store_find(object->store, vacuum, &exists, NULL) >= 0 && !exists)
      (void)tsr__store_remove(object->store, path, &unseen);
  }
  tsr__buffer_release(&all);
  tsr__buffer_release(&tile);
  return rc;
}

static int try_metadata(const tsr_maintained *object, uint64_t since, uint64_t as_of, uint64_t *merged,
                        tsr_error *error) {
  tsr_memory *memory = object->store->memory;
  tsr_buffer out = {.memory = memory}, lines = {.memory = memory};
  tsr_timestamped_files files = {0};
  tsr_arena arena;
  tsr__arena_init(&arena, memory);
  int rc = tsr__timestamped_files(object->environment, object->store, TSR_DIR_META, NULL, since, as_of, &arena, &files,
                                  error);
  if (rc >= 0 && files.count >= 2) {
    rc = write_metadata(object, &files, &arena, &out, &lines, error);
    if (rc >= 0) *merged = files.count;
  }
  tsr__buffer_release(&out);
  tsr__buffer_release(&lines);
  tsr__arena_release(&arena);
  return rc;
}

/* TSR_NOT_FOUND: a vacuum has removed a listed file meanwhile. The next listing has the file that replaced it. */
int tsr__consolidate_metadata(const tsr_maintained *object, uint64_t since, uint64_t as_of, uint64_t *merged,
                              tsr_error *error) {
  int rc = TSR_NOT_FOUND;
  for (int i = 0; rc == TSR_NOT_FOUND && i < CONSOLIDATE_FILES_ATTEMPTS; i++)
    rc = try_metadata(object, since, as_of, merged, error);
  return rc;
}

int tsr_group_consolidate(tsr_group *group, const tsr_consolidate_options *options, uint64_t *merged,
                          tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_consolidate_options own;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_consolidate_options, purge_deleted, options, &own, error));
  options = &own;
  const tsr_maintained object = {.environment = group->environment,
                                 .store = group->store,
                                 .key = tsr__group_key(group),
                                 .version = TSR_FORMAT_WRITE_MAX,
                                 .path = group->store->name};
  uint64_t count = 0, now = tsr__environment_present(group->environment);
  tsr_work work;
  tsr_work_begin(group->environment, &work, "consolidate", object.path, 0);
  int rc = tsr__consolidate_metadata(&object, options->since, options->as_of ? TSR_MIN(options->as_of, now) : now,
                                     &count, error);
  tsr_work_end(group->environment, &work);
  if (rc < 0) return tsr__wrap(error, "group %s", object.path);
  *merged = count;
  return TSR_OK;
}
