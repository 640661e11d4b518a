/* prepared.c: commits that a transaction of the host has prepared, from the marker to publication (log.h draws the
 * states, docs/commits.md explains them).
 *
 * Files of a prepared commit:
 *   __commits/NAME.pending    the marker of the commit __commits/NAME.wrt, NAME.con or NAME.del
 *   NAME/.pending             the marker of NAME.ok (versions 5 to 11) or NAME/__fragment_metadata.tdb (before)
 *   __commits/.NAME           the staged file that publication renames to NAME.con or NAME.del
 *   NAME/.metadata            the staged file that publication renames to NAME/__fragment_metadata.tdb
 *   __commits/.NAME.late      the record of a late publication (version 12 and later)
 *   .NAME.late                the same below version 12
 * TileDB ignores all of these.
 *
 * Invariants:
 *  - A marker is durable before its owner's transaction commits, and is removed only after the commit was published,
 *    undone or disowned. So recovery finds every commit that a crash has left prepared.
 *  - If the store has locks, the writer locks the marker before writing its first byte, and holds the lock until the
 *    marker is removed or left to recovery. So a complete marker that says "locked" and is not locked has a dead
 *    writer.
 *  - Publication is one rename, or the creation of one empty file, and may be repeated: of several processes one
 *    succeeds, and the others find the commit published.
 *  - A record of a late publication is written before the late commit is published. Once that is published, the
 *    prepared commit does not count any more.
 *
 * Sections: paths of a commit; markers; publishing; records of late publications; prepared commits in a listing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

#include "log/log.h"
#include "base/arithmetic.h"
#include "base/system.h"
#include "crypto/crypto.h"
#include "store/store.h"
#include "model/name.h"
#include "format/commits.h"
#include "format/layout.h"

/* ---- Paths of a commit ------------------------------------------------------------------------------------------- */

#define OWNER_WORD "owner "
#define MARKER_MAX (1u << 20)

typedef enum commit_form {
  FORM_NONE, /* not the path of a commit */
  FORM_WRITE, /* an empty .wrt */
  FORM_STAGED, /* a .con or .del, which is renamed from its staged name */
  FORM_OLD_WRITE, /* an empty .ok (versions 5 to 11) */
  FORM_OLD_METADATA /* the fragment's metadata file (before) */
} commit_form;

/* Returns the form of a commit's path, and gives the timestamped name in it, which is not NUL-terminated. */
static commit_form parse_commit(const char *commit, const char **name, int *size) {
  static const struct {
    const char *suffix;
    commit_form form;
  } forms[] = {{TSR_SUFFIX_WRITE, FORM_WRITE},
               {TSR_SUFFIX_CONSOLIDATED, FORM_STAGED},
               {TSR_SUFFIX_DELETE, FORM_STAGED},
               {TSR_SUFFIX_OLD_WRITE, FORM_OLD_WRITE},
               {"/" TSR_FILE_FRAGMENT_METADATA, FORM_OLD_METADATA}};
  bool new_layout = strncmp(commit, TSR_DIR_COMMITS "/", strlen(TSR_DIR_COMMITS "/")) == 0;
  *name = new_layout ? commit + strlen(TSR_DIR_COMMITS "/") : commit;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    uint64_t stem;
    tsr_name parsed;
    if (!tsr__name_suffix(*name, forms[i].suffix, &stem)) continue;
    if (new_layout != (forms[i].form == FORM_WRITE || forms[i].form == FORM_STAGED)) return FORM_NONE;
    if (stem > 127 || memchr(*name, '/', stem) || !tsr__name_parse(*name, stem, &parsed)) return FORM_NONE;
    *size = (int)stem;
    return forms[i].form;
  }
  return FORM_NONE;
}

bool tsr__prepared_paths(const char *commit, char marker[TSR_COMMIT_PATH], char staged[TSR_COMMIT_PATH]) {
  const char *name;
  int size;
  *staged = 0;
  switch (parse_commit(commit, &name, &size)) {
  case FORM_NONE: return false;
  case FORM_STAGED: snprintf(staged, TSR_COMMIT_PATH, TSR_DIR_COMMITS "/.%.*s", size, name); /* fall through */
  case FORM_WRITE:
    snprintf(marker, TSR_COMMIT_PATH, TSR_DIR_COMMITS "/%.*s" TSR_SUFFIX_PENDING, size, name);
    return true;
  case FORM_OLD_METADATA:
    snprintf(staged, TSR_COMMIT_PATH, "%.*s/" TSR_FILE_STAGED_METADATA, size, name); /* fall through */
  case FORM_OLD_WRITE: snprintf(marker, TSR_COMMIT_PATH, "%.*s/" TSR_FILE_OLD_PENDING, size, name); return true;
  }
  return false;
}

/* Returns 1 if the file exists, else 0. Lack of memory or a failing disk must not look like a missing file: the caller
 * would undo the commit. */
static int file_exists(tsr_store *store, const char *path, tsr_error *error) {
  tsr_file *file;
  tsr_error failure = {0};
  int rc = tsr__store_open_file(store, path, &file, &failure);
  if (rc == TSR_NOT_FOUND) return 0;
  if (rc < 0) {
    if (error) *error = failure;
    return rc;
  }
  tsr__store_close_file(file);
  return 1;
}

int tsr__prepared_is_published(tsr_store *store, const char *commit, tsr_error *error) {
  return file_exists(store, commit, error);
}

int tsr__prepared_sync_owner(tsr_memory *memory, const char *owner, tsr_error *error) {
  const size_t size = strlen(owner) + 1;
  char *directory;
  tsr_store *store;
  tsr_error failure = {0};
  TSR_TRY(TSR_ALLOC_RAW(memory, size, &directory, error));
  memcpy(directory, owner, size);
  tsr_path_form(directory);
  char *slash = strrchr(directory, '/');
  if (!slash) return tsr__free(directory), TSR_OK;
  directory[TSR_MAX((size_t)(slash - directory), tsr__path_root(directory))] = 0;
  int rc = tsr__store_directory_open(memory, directory, &store, &failure);
  if (rc >= 0) {
    rc = tsr__store_sync_directory(store, "", &failure);
    tsr__store_close(store);
  }
  tsr__free(directory);
  /* not found: the database is not in this file system, but in a VFS of its own */
  if (rc >= 0 || rc == TSR_NOT_FOUND) return TSR_OK;
  if (error) *error = failure;
  return rc;
}

/* ---- Markers ----------------------------------------------------------------------------------------------------- */

/* A marker is text. Its lines are the path of the commit; the names of its fragments; an empty line; "owner ID LOCK
 * HOST"; the path of the database file. A newline ends the last line too; without it the marker is incomplete. ID
 * identifies the owner, LOCK is "locked" or "unlocked"; HOST and the path serve for messages only. In markers of
 * earlier versions the path directly follows the empty line, so they do not identify their owner. */

static void directory_of(const char *path, char directory[TSR_COMMIT_PATH]) {
  const char *slash = strrchr(path, '/');
  snprintf(directory, TSR_COMMIT_PATH, "%.*s", slash ? (int)(slash - path) : 0, path);
}

bool tsr__prepared_owner_valid(const char *owner) {
  const size_t size = strlen(owner);
  for (size_t i = 0; i < size; i++)
    if (owner[i] <= ' ' || owner[i] == 0x7f) return false;
  return size > 0 && size <= TSR_OWNER_MAX;
}

/* Gives the name of this host as one word. */
static void name_host(char host[256]) {
  if (tsr__host_name(host, 256) != 0) *host = 0;
  for (char *c = host; *c; c++)
    if (*c <= ' ' || *c == 0x7f) *c = '?';
  if (!*host) strcpy(host, "?");
}

static int print_marker(const tsr_prepared_marker *prepared, bool locked, tsr_buffer *text, tsr_error *error) {
  char host[256];
  name_host(host);
  TSR_TRY(tsr__buffer_printf(text, error, "%s\n", prepared->commit));
  for (uint64_t i = 0; i < prepared->fragment_count; i++)
    TSR_TRY(tsr__buffer_printf(text, error, "%s\n", prepared->fragments[i]));
  return tsr__buffer_printf(text, error, "\n" OWNER_WORD "%s %s %s\n%s\n", prepared->owner,
                            locked ? "locked" : "unlocked", host, prepared->file);
}

/* Writes a marker to a store without locks. */
static int put_marker(tsr_store *store, const char *marker, const tsr_prepared_marker *prepared, bool durable,
                      tsr_error *error) {
  tsr_buffer text = {.memory = store->memory};
  char directory[TSR_COMMIT_PATH];
  directory_of(marker, directory);
  int rc = print_marker(prepared, false, &text, error);
  if (rc >= 0) rc = tsr__store_put_new(store, marker, text.data, text.size, durable, error);
  if (rc >= 0 && durable) rc = tsr__store_sync_directory(store, directory, error);
  tsr__buffer_release(&text);
  return rc;
}

/* Writes the marker into a new file, and locks the file before writing its first byte: as long as the marker is empty,
 * other processes ignore it. */
static int write_marker(tsr_store *store, tsr_file *file, const char *marker, const tsr_prepared_marker *prepared,
                        bool durable, unsigned threads, bool *locked, tsr_error *error) {
  tsr_buffer text = {.memory = store->memory};
  tsr_error failure;
  char directory[TSR_COMMIT_PATH];
  const char *const name = directory;
  directory_of(marker, directory);
  int rc = tsr__store_lock(file, &failure);
  *locked = rc >= 0;
  if (rc < 0 && rc != TSR_UNSUPPORTED) return *error = failure, rc;
  rc = print_marker(prepared, *locked, &text, error);
  if (rc >= 0) rc = tsr__store_append(file, text.data, text.size, error);
  if (rc >= 0 && durable) rc = tsr__store_sync_all(store, &file, 1, &name, 1, threads, error);
  tsr__buffer_release(&text);
  return rc;
}

int tsr__prepared_mark(tsr_store *store, const char *marker, const tsr_prepared_marker *prepared, bool durable,
                       unsigned threads, tsr_file **lock, tsr_error *error) {
  tsr_file *file;
  tsr_error unseen;
  bool locked = false;
  if (!error) error = &unseen;
  *lock = NULL;
  if (!tsr__store_has_locks(store)) return put_marker(store, marker, prepared, durable, error);
  TSR_TRY(tsr__store_create_exclusive(store, marker, &file, error));
  const int rc = write_marker(store, file, marker, prepared, durable, threads, &locked, error);
  if (rc < 0) (void)tsr__store_remove(store, marker, NULL);
  if (rc >= 0 && locked) *lock = file;
  else tsr__store_close_file(file);
  return rc;
}

int tsr__prepared_unmark(tsr_store *store, const char *marker, tsr_error *error) {
  tsr_error failure;
  int rc = tsr__store_remove(store, marker, &failure);
  if (rc >= 0 || rc == TSR_NOT_FOUND) return TSR_OK;
  if (error) *error = failure;
  return rc;
}

/* Returns the next line, or NULL if it is empty. The text must end in a newline. */
static char *next_line(char **at) {
  char *line = *at, *end = strchr(line, '\n');
  *end = 0;
  *at = end + 1;
  return *line ? line : NULL;
}

/* Returns the next word of a line, which the character `end` must follow; NULL if there is none. */
static char *next_word(char **at, char end) {
  char *word = *at, *stop = word + strcspn(word, " \n");
  if (stop == word || *stop != end) return NULL;
  *stop = 0;
  *at = stop + 1;
  return word;
}

/* Parses the text after the empty line: the owner's line and the path of the database, or only the path. */
static void parse_owner(char *text, tsr_prepared_marker *prepared) {
  char *at = text + strlen(OWNER_WORD), *owner, *lock, *host;
  prepared->file = text;
  if (strncmp(text, OWNER_WORD, strlen(OWNER_WORD)) != 0) return;
  char *const line = strchr(text, '\n');
  if (!line || !(owner = next_word(&at, ' ')) || !(lock = next_word(&at, ' ')) || !(host = next_word(&at, '\n')))
    return;
  if (!tsr__prepared_owner_valid(owner) || (strcmp(lock, "locked") != 0 && strcmp(lock, "unlocked") != 0)) return;
  prepared->owner = owner;
  prepared->locked = !strcmp(lock, "locked");
  prepared->host = host;
  prepared->file = at;
}

static int parse_marker(char *text, uint64_t size, tsr_arena *arena, tsr_prepared_marker *prepared, tsr_error *error) {
  const char *name;
  int name_size;
  char *at = text, *line, *gap = strstr(text, "\n\n");
  if (size < 4 || strlen(text) != size || text[size - 1] != '\n' || !gap || gap + 2 == text + size) return 0;
  uint64_t lines = 0;
  for (const char *p = text; p <= gap; p++) lines += *p == '\n';
  *prepared = (tsr_prepared_marker){.commit = next_line(&at)};
  if (!prepared->commit || parse_commit(prepared->commit, &name, &name_size) == FORM_NONE) return 0;
  TSR_TRY(TSR_ARENA_ARRAY(arena, lines, &prepared->fragments, error));
  while ((line = next_line(&at)) != NULL) {
    tsr_name parsed;
    if (!tsr__name_parse(line, strlen(line), &parsed)) return 0;
    prepared->fragments[prepared->fragment_count++] = line;
  }
  text[size - 1] = 0;
  parse_owner(at, prepared);
  return 1;
}

int tsr__prepared_is_locked(tsr_store *store, const char *marker, bool *locked, tsr_error *error) {
  tsr_file *file;
  tsr_error failure;
  *locked = false;
  int rc = tsr__store_open_file(store, marker, &file, &failure);
  if (rc >= 0) {
    rc = tsr__store_locked(file, locked, &failure);
    tsr__store_close_file(file);
  }
  if (rc < 0 && error) *error = failure;
  return rc;
}

int tsr__prepared_read(tsr_store *store, const char *marker, tsr_arena *arena, tsr_prepared_marker *prepared,
                       tsr_error *error) {
  tsr_buffer text = {.memory = store->memory};
  tsr_error failure = {0};
  int rc = tsr__store_read_all(store, marker, MARKER_MAX, &text, &failure);
  char *copy;
  if (rc >= 0) rc = tsr__buffer_append_u8(&text, 0, &failure);
  if (rc >= 0) rc = TSR_ARENA_COPY(arena, text.data, text.size, &copy, &failure);
  if (rc >= 0) rc = parse_marker(copy, text.size - 1, arena, prepared, &failure);
  tsr__buffer_release(&text);
  if (rc == TSR_NOT_FOUND || rc == TSR_TOOBIG) return 0;
  if (rc < 0 && error) *error = failure;
  return rc;
}

/* ---- Publishing -------------------------------------------------------------------------------------------------- */

static int add_delete(tsr_store *store, const tsr_commit *commit, bool durable, tsr_error *error) {
  char path[TSR_COMMIT_PATH];
  snprintf(path, sizeof path, TSR_DIR_COMMITS "/%.120s" TSR_SUFFIX_DELETE, commit->name);
  tsr_error failure;
  const int rc = tsr__store_put_new(store, path, commit->bytes, commit->size, durable, &failure);
  if (rc >= 0 || rc == TSR_EXISTS) return TSR_OK; /* another process is publishing the same commit */
  if (error) *error = failure;
  return rc;
}

static int remove_delete(tsr_store *store, const tsr_commit *commit, bool durable, tsr_error *error) {
  char path[TSR_COMMIT_PATH];
  (void)durable;
  snprintf(path, sizeof path, TSR_DIR_COMMITS "/%.120s" TSR_SUFFIX_DELETE, commit->name);
  return tsr__prepared_unmark(store, path, error);
}

/* Calls `change` for each delete in a .con, to write or remove its .del file. TileDB needs these files when it
 * consolidates commits; a delete counts once even if two files have it. The .con is made durable first: a crash must
 * not leave a .del without the .con, since it would show only part of the transaction. */
static int each_delete(tsr_store *store, const char *con, bool durable,
                       int (*change)(tsr_store *, const tsr_commit *, bool, tsr_error *), tsr_error *error) {
  tsr_buffer content = {.memory = store->memory};
  tsr_arena arena;
  tsr_commits commits = {0};
  tsr__arena_init(&arena, store->memory);
  int rc = tsr__store_read_all(store, con, UINT64_C(1) << 30, &content, error);
  if (rc >= 0) {
    tsr_input in = tsr__input(content.data, content.size);
    rc = tsr__commits_decode(&in, &arena, &commits, error);
  }
  for (uint64_t i = 0, deletes = 0; rc >= 0 && i < commits.count; i++) {
    if (commits.commits[i].kind != TSR_COMMIT_DELETE) continue;
    if (durable && deletes++ == 0) rc = tsr__store_sync_directory(store, TSR_DIR_COMMITS, error);
    if (rc >= 0) rc = change(store, &commits.commits[i], durable, error);
  }
  tsr__arena_release(&arena);
  tsr__buffer_release(&content);
  return rc;
}

/* Returns 1 if the staged file, or the fragment's metadata, exists. Another process may have removed it; publishing the
 * commit without it would damage the array. */
static int has_content(tsr_store *store, commit_form form, const char *name, int size, const char *staged,
                       tsr_error *error) {
  char path[TSR_COMMIT_PATH + 32];
  if (form == FORM_STAGED || form == FORM_OLD_METADATA) return file_exists(store, staged, error);
  snprintf(path, sizeof path, "%s%.*s/" TSR_FILE_FRAGMENT_METADATA, form == FORM_WRITE ? TSR_DIR_FRAGMENTS "/" : "",
           size, name);
  return file_exists(store, path, error);
}

int tsr__prepared_fail_gone(const char *commit, tsr_error *error) {
  return tsr__fail(
      error, TSR_CORRUPT,
      "%s: this database has committed it, but the files that were prepared for it are gone: its rows are lost; "
      "tessera_recover(path, '{\"disown\":true}') gives it up",
      commit);
}

int tsr__prepared_is_complete(tsr_store *store, const tsr_prepared_marker *prepared, tsr_error *error) {
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH], path[TSR_COMMIT_PATH + 32];
  const char *name;
  int size;
  const commit_form form = parse_commit(prepared->commit, &name, &size);
  if (form == FORM_NONE || !tsr__prepared_paths(prepared->commit, marker, staged)) return 0;
  int rc = has_content(store, form, name, size, staged, error);
  for (uint64_t i = 0; rc > 0 && form == FORM_STAGED && i < prepared->fragment_count; i++) {
    snprintf(path, sizeof path, TSR_DIR_FRAGMENTS "/%.127s/" TSR_FILE_FRAGMENT_METADATA, prepared->fragments[i]);
    rc = file_exists(store, path, error);
  }
  return rc;
}

int tsr__prepared_publish(tsr_store *store, const char *commit, bool durable, tsr_error *error) {
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  const char *name;
  int size;
  tsr_error unseen, failure = {0};
  if (!error) error = &unseen;
  commit_form form = parse_commit(commit, &name, &size);
  if (form == FORM_NONE || !tsr__prepared_paths(commit, marker, staged))
    return tsr__fail(error, TSR_ERROR, "'%s' is not the path of a commit", commit);
  bool con = form == FORM_STAGED && strcmp(name + size, TSR_SUFFIX_CONSOLIDATED) == 0;
  int rc = has_content(store, form, name, size, staged, error);
  if (rc < 0) return rc;
  bool made = rc > 0;
  if (made) {
    rc = *staged ? tsr__store_rename_exclusive(store, staged, commit, &failure)
                 : tsr__store_put_new(store, commit, NULL, 0, durable, &failure);
    made = rc >= 0;
    if (rc < 0 && rc != TSR_EXISTS && rc != TSR_NOT_FOUND) return *error = failure, rc;
  }
  if (!made) { /* another process has published it, or removed it */
    const int published = file_exists(store, commit, error);
    if (published < 0) return published;
    if (published == 0) return rc < 0 ? (*error = failure, rc) : 0;
  }
  /* The process that published it may have died before it wrote the .del files, or synced the name. */
  if (con) TSR_TRY(each_delete(store, commit, durable, add_delete, error));
  char directory[TSR_COMMIT_PATH];
  directory_of(commit, directory);
  if (durable) TSR_TRY(tsr__store_sync_directory(store, directory, error));
  return made;
}

int tsr__prepared_withdraw(tsr_store *store, const char *commit, tsr_error *error) {
  uint64_t stem;
  int rc = file_exists(store, commit, error);
  if (rc <= 0) return rc;
  if (tsr__name_suffix(commit, TSR_SUFFIX_CONSOLIDATED, &stem))
    TSR_TRY(each_delete(store, commit, false, remove_delete, error));
  return tsr__prepared_unmark(store, commit, error);
}

void tsr__creation_path(const char *schema_name, char path[TSR_CREATION_PATH]) {
  snprintf(path, TSR_CREATION_PATH, TSR_PREFIX_CREATED "%s", schema_name);
}

/* ---- Records of late publications -------------------------------------------------------------------------------- */

/* A process that does not know of a prepared commit may merge fragments across the commit's time. Recovery then
 * publishes those cells of the commit that are still the newest as another commit (maintain/recover.c), which the
 * record of the prepared commit names. The record stays, so that tessera_check can report how many cells were dropped;
 * a vacuum removes it after a day.
 *
 * A record is three lines of text: the path of the other commit, or "-" if no cell was left; "DROPPED of TOTAL", in
 * cells; "end". */

#define RECORD_MAX 1024 /* bytes */
#define NOTHING    "-"

bool tsr__late_path(const char *commit, char path[TSR_COMMIT_PATH]) {
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  if (!tsr__prepared_paths(commit, marker, staged)) return false;
  const char *slash = strchr(commit, '/'), *name = commit;
  const bool new_layout = strncmp(commit, TSR_DIR_COMMITS "/", strlen(TSR_DIR_COMMITS "/")) == 0;
  if (new_layout) name = slash + 1;
  const int size = (int)strcspn(name, "./");
  snprintf(path, TSR_COMMIT_PATH, "%s.%.*s" TSR_SUFFIX_LATE, new_layout ? TSR_DIR_COMMITS "/" : "", size, name);
  return true;
}

/* Parses a decimal number and the text `behind` it, and moves *at past both. Returns false if they are not there. */
static bool read_number(char **at, const char *behind, uint64_t *number) {
  char *end;
  if (**at < '0' || **at > '9') return false;
  *number = strtoull(*at, &end, 10);
  if (strncmp(end, behind, strlen(behind)) != 0) return false;
  *at = end + strlen(behind);
  return true;
}

static bool parse_late(char *text, tsr_late *late) {
  char other[TSR_COMMIT_PATH], *line = strchr(text, '\n');
  if (!line || line - text >= TSR_COMMIT_PATH) return false;
  *line++ = 0;
  *late = (tsr_late){0};
  if (!read_number(&line, " of ", &late->dropped) || !read_number(&line, "\n", &late->total)) return false;
  if (strcmp(line, "end\n") != 0) return false;
  if (strcmp(text, NOTHING) == 0) return true;
  if (!tsr__late_path(text, other)) return false;
  memcpy(late->commit, text, strlen(text) + 1);
  return true;
}

int tsr__late_read_file(tsr_store *store, const char *path, tsr_late *late, tsr_error *error) {
  tsr_buffer text = {.memory = store->memory};
  tsr_error failure = {0};
  int rc = tsr__store_read_all(store, path, RECORD_MAX, &text, &failure);
  if (rc >= 0) rc = tsr__buffer_append_u8(&text, 0, &failure);
  if (rc >= 0) rc = strlen((char *)text.data) + 1 == text.size && parse_late((char *)text.data, late);
  tsr__buffer_release(&text);
  if (rc == TSR_NOT_FOUND || rc == TSR_TOOBIG) return 0;
  if (rc < 0 && error) *error = failure;
  return rc;
}

int tsr__late_read(tsr_store *store, const char *commit, tsr_late *late, tsr_error *error) {
  char path[TSR_COMMIT_PATH];
  return tsr__late_path(commit, path) ? tsr__late_read_file(store, path, late, error) : 0;
}

int tsr__late_write(tsr_store *store, const char *commit, const tsr_late *late, tsr_error *error) {
  char path[TSR_COMMIT_PATH];
  tsr_buffer text = {.memory = store->memory};
  if (!tsr__late_path(commit, path)) return tsr__fail(error, TSR_ERROR, "'%s' is not the path of a commit", commit);
  int rc = tsr__buffer_printf(&text, error, "%s\n%llu of %llu\nend\n", *late->commit ? late->commit : NOTHING,
                              (unsigned long long)late->dropped, (unsigned long long)late->total);
  if (rc >= 0) rc = tsr__write_claim(store, path, &text, error);
  tsr__buffer_release(&text);
  if (rc >= 0) rc = tsr__store_sync_directory(store, *path == '.' ? "" : TSR_DIR_COMMITS, error);
  return rc;
}

int tsr__late_remove(tsr_store *store, const char *commit, tsr_error *error) {
  char path[TSR_COMMIT_PATH];
  return tsr__late_path(commit, path) ? tsr__prepared_unmark(store, path, error) : TSR_OK;
}

/* ---- Prepared commits in a listing ------------------------------------------------------------------------------- */

/* For each marker: a commit that is published needs nothing more. If the host has committed it, its fragments and
 * deletes are added to the listing, unless recovery has published another commit instead. Else it is undecided, and the
 * host is asked again whenever the listing is used. The array changes meanwhile: whenever a marker, a commit and a
 * listed directory contradict each other, the listing fails with TSR_ABORT and is made again. */

typedef struct gone_commit {
  tsr_prepared_marker prepared;
  const char *marker; /* NULL: the commit has none */
} gone_commit;

/* Remembers a prepared commit whose files are missing. Perhaps it was published and merged, and only the marker is
 * left: tsr__listing_check_gone decides when everything is listed. */
static int remember_gone(tsr_renewal *r, const tsr_prepared_marker *prepared, const char *marker) {
  const gone_commit gone = {*prepared, marker};
  return tsr__buffer_append(&r->gone, &gone, sizeof gone, r->error);
}

int tsr__listing_check_gone(tsr_renewal *r) {
  const gone_commit *all = (const gone_commit *)(const void *)r->gone.data;
  for (uint64_t i = 0; i < r->gone.size / sizeof *all; i++) {
    bool there;
    if (!all[i].marker) return tsr__prepared_fail_gone(all[i].prepared.commit, r->error);
    if (tsr__listing_shows_published(r->listing, &all[i].prepared)) continue;
    TSR_TRY(tsr__store_find(r->log->store, all[i].marker, &there, r->error));
    return there ? tsr__prepared_fail_gone(all[i].prepared.commit, r->error)
                 : tsr__listing_fail_outdated(r, all[i].marker);
  }
  return TSR_OK;
}

/* Counts a prepared .con or delete, which is read under its staged name. If the staged file is missing, the commit has
 * just been published or removed. */
static int count_staged(tsr_renewal *r, const tsr_prepared_marker *prepared, const char *marker, const char *staged) {
  const char *commit = prepared->commit;
  tsr_committed item = {0};
  uint64_t stem;
  const char *name = staged + strlen(TSR_DIR_COMMITS) + 1;
  const tsr_commit_file *file;
  bool exists, published;
  TSR_TRY(tsr__store_find(r->log->store, staged, &exists, r->error));
  if (!exists) {
    TSR_TRY(tsr__store_find(r->log->store, commit, &published, r->error));
    return published ? tsr__fail(r->error, TSR_ABORT, "%s: published", commit) : remember_gone(r, prepared, marker);
  }
  if (tsr__name_ends_in(commit, TSR_SUFFIX_CONSOLIDATED)) {
    TSR_TRY(tsr__renewal_read_file(r, name, &file));
    if (file->partial.truncated) /* damage: the file was complete and durable before its marker was written */
      return tsr__fail(r->error, TSR_CORRUPT, "%s: the commit was prepared, but its file ends early", staged);
    for (uint64_t n = 0; n < file->commits.count; n++)
      TSR_TRY(tsr__renewal_add_con_entry(r, file->path, &file->commits.commits[n]));
    return TSR_OK;
  }
  tsr__name_suffix(commit, TSR_SUFFIX_DELETE, &stem);
  stem -= strlen(TSR_DIR_COMMITS) + 1;
  tsr__name_parse(name + 1, stem, &item.parsed);
  TSR_TRY(tsr__renewal_copy_text(r, name + 1, stem, &item.name));
  TSR_TRY(tsr__renewal_copy_text(r, staged, strlen(staged), &item.path));
  return tsr__renewal_add_delete(r, &item);
}

/* Counts a prepared commit of the old layout. Below version 5 the metadata file itself is the commit; until publication
 * it is read under its staged name (array/fragment.c). */
static int count_old(tsr_renewal *r, const char *commit) {
  char name[TSR_COMMIT_PATH];
  tsr_name parsed;
  const char *copy;
  uint64_t size = strcspn(commit, "/.");
  memcpy(name, commit, size);
  name[size] = 0;
  if (!tsr__name_parse(name, size, &parsed)) return TSR_OK;
  TSR_TRY(tsr__renewal_copy_text(r, name, size, &copy));
  return tsr__renewal_add_fragment(r, copy, &parsed, true);
}

/* Counts a prepared commit that an empty .wrt file will publish. */
static int count_fragment(tsr_renewal *r, const tsr_prepared_marker *prepared, const char *marker, const char *name,
                          const tsr_name *parsed) {
  bool exists;
  tsr_path metadata = tsr__path_of(TSR_DIR_FRAGMENTS, name, "/" TSR_FILE_FRAGMENT_METADATA);
  if (tsr__map_get(&r->listing->names, name)) return TSR_OK;
  TSR_TRY(tsr__store_find(r->log->store, metadata.text, &exists, r->error));
  return exists ? tsr__renewal_add_fragment(r, name, parsed, false) : remember_gone(r, prepared, marker);
}

static int count_prepared(tsr_renewal *r, const tsr_prepared_marker *prepared, const char *path) {
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  tsr_name parsed;
  uint64_t stem;
  const char *commit = prepared->commit, *name = commit + strlen(TSR_DIR_COMMITS) + 1, *copy;
  if (!tsr__prepared_paths(commit, marker, staged)) return TSR_OK;
  if (strncmp(commit, TSR_DIR_COMMITS, strlen(TSR_DIR_COMMITS)) != 0) return count_old(r, commit);
  if (*staged) return count_staged(r, prepared, path, staged);
  if (!tsr__name_suffix(name, TSR_SUFFIX_WRITE, &stem) || !tsr__name_parse(name, stem, &parsed)) return TSR_OK;
  TSR_TRY(tsr__renewal_copy_text(r, name, stem, &copy));
  return count_fragment(r, prepared, path, copy, &parsed);
}

/* Returns 1 if the host says that a prepared commit counts, else 0. */
static int host_has_committed(const tsr_log *log, const char *commit, tsr_error *error) {
  return log->host.committed ? log->host.committed(log->host.argument, commit, error) : 0;
}

int tsr__listing_fail_outdated(tsr_renewal *r, const char *marker) {
  return tsr__fail(r->error, TSR_ABORT, "%s was published while it was listed", marker);
}

/* Counts a prepared commit, unless recovery has published another one instead. If that other commit was published after
 * `entries` were listed, the array must be listed again. */
static int count_unless_late(tsr_renewal *r, const char *marker, const tsr_prepared_marker *prepared,
                             const tsr_listing *entries) {
  tsr_late late;
  bool exists;
  int rc = tsr__late_read(r->log->store, prepared->commit, &late, r->error);
  if (rc > 0 && *late.commit) rc = tsr__prepared_is_published(r->log->store, late.commit, r->error);
  if (rc < 0) return rc;
  if (rc > 0 && *late.commit && entries) {
    const char *slash = strrchr(late.commit, '/');
    if (tsr__listing_has(entries, slash ? slash + 1 : late.commit)) return TSR_OK;
    TSR_TRY(tsr__store_find(r->log->store, late.commit, &exists, r->error));
    return exists ? tsr__listing_fail_outdated(r, marker) : TSR_OK;
  }
  if (rc > 0) return TSR_OK;
  r->listing->prepared.counted = r->counting = true;
  rc = count_prepared(r, prepared, marker);
  r->counting = false;
  return rc;
}

int tsr__listing_add_marker(tsr_renewal *r, const char *marker, const tsr_listing *entries) {
  tsr_prepared_marker prepared;
  tsr_committed item = {0};
  int rc = tsr__prepared_read(r->log->store, marker, &r->listing->arena, &prepared, r->error);
  if (rc <= 0) return rc;
  item.name = prepared.commit;
  for (uint64_t i = 0; i < prepared.fragment_count; i++)
    TSR_TRY(tsr__map_put(&r->ruled_out, prepared.fragments[i], (void *)(uintptr_t)prepared.fragments[i], r->error));
  TSR_TRY(tsr__renewal_copy_text(r, marker, strlen(marker), &item.path));
  TSR_TRY(tsr__renewal_append(r, &r->listing->prepared.markers, &item));
  TSR_TRY(rc = tsr__prepared_is_published(r->log->store, prepared.commit, r->error));
  const char *slash = strrchr(prepared.commit, '/');
  if (rc > 0 && entries && !tsr__listing_has(entries, slash ? slash + 1 : prepared.commit))
    return tsr__listing_fail_outdated(r, marker);
  if (rc > 0) return 1;
  TSR_TRY(rc = host_has_committed(r->log, prepared.commit, r->error));
  if (rc > 0) return (rc = count_unless_late(r, item.path, &prepared, entries)) < 0 ? rc : 1;
  r->listing->prepared.undecided = true;
  return 1;
}

int tsr__listing_add_listed_marker(tsr_renewal *r, const char *marker, const tsr_listing *entries) {
  bool there = true;
  int rc = tsr__listing_add_marker(r, marker, entries);
  if (rc == 0) rc = tsr__store_find(r->log->store, marker, &there, r->error);
  return rc < 0 || there ? rc : tsr__listing_fail_outdated(r, marker);
}

int tsr__listing_add_unpublished(tsr_renewal *r) {
  const tsr_prepared_marker prepared = {.commit = r->log->host.unpublished};
  int rc;
  if (!prepared.commit) return TSR_OK;
  TSR_TRY(rc = tsr__prepared_is_published(r->log->store, prepared.commit, r->error));
  return rc > 0 ? TSR_OK : count_unless_late(r, NULL, &prepared, NULL);
}

static bool is_listed(const tsr_commit_listing *listing, const char *commit) {
  const char *slash = strrchr(commit, '/');
  return tsr__listing_has(&listing->commits, slash ? slash + 1 : commit);
}

bool tsr__listing_newly_committed(const tsr_log *log) {
  const tsr_commit_listing *listing = log->listing;
  if (!listing->prepared.undecided || !log->host.committed) return false;
  for (uint64_t i = 0; i < listing->prepared.markers.count; i++) {
    const tsr_committed *item = &listing->prepared.markers.items[i];
    bool exists, published;
    tsr_error unseen;
    if (tsr__store_find(log->store, item->path, &exists, NULL) < 0 ||
        tsr__store_find(log->store, item->name, &published, NULL) < 0)
      return true; /* the next listing reports the error */
    if (published ? !is_listed(listing, item->name) : !exists) return true; /* since the directories were looked at */
    if (!published && host_has_committed(log, item->name, &unseen)) return true;
  }
  return false;
}
