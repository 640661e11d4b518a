/* pending.c: prepared commits and their markers (docs/commits.md).
 *
 *    *   __commits/NAME.pending    the marker of the commit __commits/NAME.wrt, NAME.con or NAME.del
 *   NAME/.pending             the marker of NAME.ok (versions 5 to 11) or NAME/__fragment_metadata.tdb (before)
 *   __commits/.NAME           the staged file that becomes NAME.con or NAME.del
 *   NAME/.metadata            the staged file that becomes NAME/__fragment_metadata.tdb
 *
 * TileDB ignores all of these. A marker is text, in lines: the path of the commit; the names of its fragments; an empty
 * line; "owner ID LOCK HOST"; the path of the database file. A newline ends the last line; without it the marker was
 * not written to its end. ID identifies the owner (owner.c), LOCK is "locked" or "unlocked"; HOST and the path are for
 * messages alone. In markers of earlier versions the path follows the empty line directly: these markers do not
 * identify their owner.
 *
 * A marker is durable before its owner commits, and is removed after the commit has been published. If the store has
 * locks, the writer locks the marker before it writes the first byte, and keeps the lock until the marker is removed or
 * left to recovery. So the writer of a complete marker that says "locked" and is not locked has died.
 */
#include "array/pending.h"

#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/system.h"
#include "crypto/crypto.h"
#include "store/store.h"
#include "model/name.h"
#include "format/commits.h"
#include "format/layout.h"

#define OWNER_WORD "owner "
#define MARKER_MAX (1u << 20)

typedef enum commit_form { NO_COMMIT, WRT, STAGED, OK, PENDING_OLD } commit_form;

/* Returns the form of a commit's path, and the timestamped name in it, which is not NUL-terminated. NO_COMMIT if the
 * path is not that of a commit. */
static commit_form pending_parse(const char *commit, const char **name, int *size) {
  static const struct {
    const char *suffix;
    commit_form form;
  } forms[] = {{TSR_SUFFIX_WRITE, WRT},
               {TSR_SUFFIX_CONSOLIDATED, STAGED},
               {TSR_SUFFIX_DELETE, STAGED},
               {TSR_SUFFIX_OLD_WRITE, OK},
               {"/" TSR_FILE_FRAGMENT_METADATA, PENDING_OLD}};
  bool new_layout = strncmp(commit, TSR_DIR_COMMITS "/", strlen(TSR_DIR_COMMITS "/")) == 0;
  *name = new_layout ? commit + strlen(TSR_DIR_COMMITS "/") : commit;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    uint64_t stem;
    tsr_name parsed;
    if (!tsr__name_suffix(*name, forms[i].suffix, &stem)) continue;
    if (new_layout != (forms[i].form == WRT || forms[i].form == STAGED)) return NO_COMMIT;
    if (stem > 127 || memchr(*name, '/', stem) || !tsr__name_parse(*name, stem, &parsed)) return NO_COMMIT;
    *size = (int)stem;
    return forms[i].form;
  }
  return NO_COMMIT;
}

bool tsr__pending_paths(const char *commit, char marker[TSR_COMMIT_PATH], char staged[TSR_COMMIT_PATH]) {
  const char *name;
  int size;
  *staged = 0;
  switch (pending_parse(commit, &name, &size)) {
  case NO_COMMIT: return false;
  case STAGED: snprintf(staged, TSR_COMMIT_PATH, TSR_DIR_COMMITS "/.%.*s", size, name); /* fall through */
  case WRT: snprintf(marker, TSR_COMMIT_PATH, TSR_DIR_COMMITS "/%.*s" TSR_SUFFIX_PENDING, size, name); return true;
  case PENDING_OLD: snprintf(staged, TSR_COMMIT_PATH, "%.*s/" TSR_FILE_STAGED_METADATA, size, name); /* fall through */
  case OK: snprintf(marker, TSR_COMMIT_PATH, "%.*s/" TSR_FILE_OLD_PENDING, size, name); return true;
  }
  return false;
}

/* Returns 1 if the file exists, else 0. Lack of memory or a failing disk must not look like a missing file, since the
 * caller would then undo a commit. */
static int is_there(tsr_store *store, const char *path, tsr_error *error) {
  tsr_file *file;
  tsr_error one = {0};
  int rc = tsr__store_open_file(store, path, &file, &one);
  if (rc == TSR_NOT_FOUND) return 0;
  if (rc < 0) {
    if (error) *error = one;
    return rc;
  }
  tsr__store_close_file(file);
  return 1;
}

int tsr__pending_published(tsr_store *store, const char *commit, tsr_error *error) {
  return is_there(store, commit, error);
}

int tsr__pending_settle(tsr_memory *memory, const char *owner, tsr_error *error) {
  const size_t size = strlen(owner) + 1;
  char *directory;
  tsr_store *store;
  tsr_error one = {0};
  TSR_TRY(TSR_ALLOC_RAW(memory, size, &directory, error));
  memcpy(directory, owner, size);
  tsr_path_form(directory);
  char *slash = strrchr(directory, '/');
  if (!slash) return tsr__free(directory), TSR_OK;
  directory[TSR_MAX((size_t)(slash - directory), tsr__path_root(directory))] = 0;
  int rc = tsr__store_posix_open(memory, directory, &store, &one);
  if (rc >= 0) {
    rc = tsr__store_sync_directory(store, "", &one);
    tsr__store_close(store);
  }
  tsr__free(directory);
  /* the database is not in this file system: a VFS of its own has the file */
  if (rc >= 0 || rc == TSR_NOT_FOUND) return TSR_OK;
  if (error) *error = one;
  return rc;
}

/* ---- Markers ----------------------------------------------------------------------------------------------------- */

static void directory_of(const char *path, char directory[TSR_COMMIT_PATH]) {
  const char *slash = strrchr(path, '/');
  snprintf(directory, TSR_COMMIT_PATH, "%.*s", slash ? (int)(slash - path) : 0, path);
}

bool tsr__pending_owner_valid(const char *owner) {
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

static int print_marker(const tsr_pending *pending, bool locked, tsr_buffer *text, tsr_error *error) {
  char host[256];
  name_host(host);
  TSR_TRY(tsr__buffer_printf(text, error, "%s\n", pending->commit));
  for (uint64_t i = 0; i < pending->fragment_count; i++)
    TSR_TRY(tsr__buffer_printf(text, error, "%s\n", pending->fragments[i]));
  return tsr__buffer_printf(text, error, "\n" OWNER_WORD "%s %s %s\n%s\n", pending->owner,
                            locked ? "locked" : "unlocked", host, pending->file);
}

/* Writes a marker that cannot be locked. */
static int put_marker(tsr_store *store, const char *marker, const tsr_pending *pending, bool durable,
                      tsr_error *error) {
  tsr_buffer text = {.memory = store->memory};
  char directory[TSR_COMMIT_PATH];
  directory_of(marker, directory);
  int rc = print_marker(pending, false, &text, error);
  if (rc >= 0) rc = tsr__store_put_new(store, marker, text.data, text.size, durable, error);
  if (rc >= 0 && durable) rc = tsr__store_sync_directory(store, directory, error);
  tsr__buffer_release(&text);
  return rc;
}

/* Writes the marker into a new file. The file is locked before its first byte is written: no other process looks at an
 * empty marker. */
static int write_marker(tsr_store *store, tsr_file *file, const char *marker, const tsr_pending *pending, bool durable,
                        unsigned threads, bool *locked, tsr_error *error) {
  tsr_buffer text = {.memory = store->memory};
  tsr_error one;
  char directory[TSR_COMMIT_PATH];
  const char *const name = directory;
  directory_of(marker, directory);
  int rc = tsr__store_lock(file, &one);
  *locked = rc >= 0;
  if (rc < 0 && rc != TSR_UNSUPPORTED) return *error = one, rc;
  rc = print_marker(pending, *locked, &text, error);
  if (rc >= 0) rc = tsr__store_append(file, text.data, text.size, error);
  if (rc >= 0 && durable) rc = tsr__store_sync_all(store, &file, 1, &name, 1, threads, error);
  tsr__buffer_release(&text);
  return rc;
}

int tsr__pending_mark(tsr_store *store, const char *marker, const tsr_pending *pending, bool durable, unsigned threads,
                      tsr_file **lock, tsr_error *error) {
  tsr_file *file;
  tsr_error unseen;
  bool locked = false;
  if (!error) error = &unseen;
  *lock = NULL;
  if (!tsr__store_has_locks(store)) return put_marker(store, marker, pending, durable, error);
  TSR_TRY(tsr__store_create_exclusive(store, marker, &file, error));
  const int rc = write_marker(store, file, marker, pending, durable, threads, &locked, error);
  if (rc < 0) (void)tsr__store_remove(store, marker, NULL);
  if (rc >= 0 && locked) *lock = file;
  else tsr__store_close_file(file);
  return rc;
}

int tsr__pending_unmark(tsr_store *store, const char *marker, tsr_error *error) {
  tsr_error one;
  int rc = tsr__store_remove(store, marker, &one);
  if (rc >= 0 || rc == TSR_NOT_FOUND) return TSR_OK;
  if (error) *error = one;
  return rc;
}

/* Returns the next line of a text that ends in a newline; NULL if the line is empty. */
static char *pending_next_line(char **at) {
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

/* Parses the part behind the empty line: the owner's line and the path of the database, or the path alone. */
static void parse_owner(char *text, tsr_pending *pending) {
  char *at = text + strlen(OWNER_WORD), *owner, *lock, *host;
  pending->file = text;
  if (strncmp(text, OWNER_WORD, strlen(OWNER_WORD)) != 0) return;
  char *const line = strchr(text, '\n');
  if (!line || !(owner = next_word(&at, ' ')) || !(lock = next_word(&at, ' ')) || !(host = next_word(&at, '\n')))
    return;
  if (!tsr__pending_owner_valid(owner) || (strcmp(lock, "locked") != 0 && strcmp(lock, "unlocked") != 0)) return;
  pending->owner = owner;
  pending->locked = !strcmp(lock, "locked");
  pending->host = host;
  pending->file = at;
}

static int parse_marker(char *text, uint64_t size, tsr_arena *arena, tsr_pending *pending, tsr_error *error) {
  const char *name;
  int name_size;
  char *at = text, *line, *gap = strstr(text, "\n\n");
  if (size < 4 || strlen(text) != size || text[size - 1] != '\n' || !gap || gap + 2 == text + size) return 0;
  uint64_t lines = 0;
  for (const char *p = text; p <= gap; p++) lines += *p == '\n';
  *pending = (tsr_pending){.commit = pending_next_line(&at)};
  if (!pending->commit || pending_parse(pending->commit, &name, &name_size) == NO_COMMIT) return 0;
  TSR_TRY(TSR_ARENA_ARRAY(arena, lines, &pending->fragments, error));
  while ((line = pending_next_line(&at)) != NULL) {
    tsr_name parsed;
    if (!tsr__name_parse(line, strlen(line), &parsed)) return 0;
    pending->fragments[pending->fragment_count++] = line;
  }
  text[size - 1] = 0;
  parse_owner(at, pending);
  return 1;
}

int tsr__pending_is_locked(tsr_store *store, const char *marker, bool *locked, tsr_error *error) {
  tsr_file *file;
  tsr_error one;
  *locked = false;
  int rc = tsr__store_open_file(store, marker, &file, &one);
  if (rc >= 0) {
    rc = tsr__store_locked(file, locked, &one);
    tsr__store_close_file(file);
  }
  if (rc < 0 && error) *error = one;
  return rc;
}

int tsr__pending_read(tsr_store *store, const char *marker, tsr_arena *arena, tsr_pending *pending, tsr_error *error) {
  tsr_buffer text = {.memory = store->memory};
  tsr_error one = {0};
  int rc = tsr__store_read_all(store, marker, MARKER_MAX, &text, &one);
  char *copy;
  if (rc >= 0) rc = tsr__buffer_append_u8(&text, 0, &one);
  if (rc >= 0) rc = TSR_ARENA_COPY(arena, text.data, text.size, &copy, &one);
  if (rc >= 0) rc = parse_marker(copy, text.size - 1, arena, pending, &one);
  tsr__buffer_release(&text);
  if (rc == TSR_NOT_FOUND || rc == TSR_TOOBIG) return 0;
  if (rc < 0 && error) *error = one;
  return rc;
}

/* ---- Publishing -------------------------------------------------------------------------------------------------- */

static int pending_add_delete(tsr_store *store, const tsr_commit *commit, bool durable, tsr_error *error) {
  char path[TSR_COMMIT_PATH];
  snprintf(path, sizeof path, TSR_DIR_COMMITS "/%.120s" TSR_SUFFIX_DELETE, commit->name);
  tsr_error one;
  const int rc = tsr__store_put_new(store, path, commit->bytes, commit->size, durable, &one);
  if (rc >= 0 || rc == TSR_EXISTS) return TSR_OK; /* another process is publishing the same commit */
  if (error) *error = one;
  return rc;
}

static int remove_delete(tsr_store *store, const tsr_commit *commit, bool durable, tsr_error *error) {
  char path[TSR_COMMIT_PATH];
  (void)durable;
  snprintf(path, sizeof path, TSR_DIR_COMMITS "/%.120s" TSR_SUFFIX_DELETE, commit->name);
  return tsr__pending_unmark(store, path, error);
}

/* Calls `change` for each delete in a .con, to write or remove its .del file. TileDB needs these files when it
 * consolidates commits; a delete counts once although two files have it. The .con is made durable first: a crash must
 * not leave a .del without the .con, since the rest of the transaction would be missing. */
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

/* Returns 1 if the file exists that the commit publishes: the staged file, or the fragment's metadata. Another process
 * may have removed it, and a commit without it would be damage. */
static int pending_has_content(tsr_store *store, commit_form form, const char *name, int size, const char *staged,
                               tsr_error *error) {
  char path[TSR_COMMIT_PATH + 32];
  if (form == STAGED || form == PENDING_OLD) return is_there(store, staged, error);
  snprintf(path, sizeof path, "%s%.*s/" TSR_FILE_FRAGMENT_METADATA, form == WRT ? TSR_DIR_FRAGMENTS "/" : "", size,
           name);
  return is_there(store, path, error);
}

int tsr__pending_fail_gone(const char *commit, tsr_error *error) {
  return tsr__fail(
      error, TSR_CORRUPT,
      "%s: this database has committed it, but the files that were prepared for it are gone: its rows are lost; "
      "tessera_recover(path, 'disown') gives it up",
      commit);
}

int tsr__pending_is_complete(tsr_store *store, const tsr_pending *pending, tsr_error *error) {
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH], path[TSR_COMMIT_PATH + 32];
  const char *name;
  int size;
  const commit_form form = pending_parse(pending->commit, &name, &size);
  if (form == NO_COMMIT || !tsr__pending_paths(pending->commit, marker, staged)) return 0;
  int rc = pending_has_content(store, form, name, size, staged, error);
  for (uint64_t i = 0; rc > 0 && form == STAGED && i < pending->fragment_count; i++) {
    snprintf(path, sizeof path, TSR_DIR_FRAGMENTS "/%.127s/" TSR_FILE_FRAGMENT_METADATA, pending->fragments[i]);
    rc = is_there(store, path, error);
  }
  return rc;
}

int tsr__pending_publish(tsr_store *store, const char *commit, bool durable, tsr_error *error) {
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  const char *name;
  int size;
  tsr_error unseen, one = {0};
  if (!error) error = &unseen;
  commit_form form = pending_parse(commit, &name, &size);
  if (form == NO_COMMIT || !tsr__pending_paths(commit, marker, staged))
    return tsr__fail(error, TSR_ERROR, "'%s' is not the path of a commit", commit);
  bool con = form == STAGED && strcmp(name + size, TSR_SUFFIX_CONSOLIDATED) == 0;
  int rc = pending_has_content(store, form, name, size, staged, error);
  if (rc < 0) return rc;
  bool made = rc > 0;
  if (made) {
    rc = *staged ? tsr__store_rename_exclusive(store, staged, commit, &one)
                 : tsr__store_put_new(store, commit, NULL, 0, durable, &one);
    made = rc >= 0;
    if (rc < 0 && rc != TSR_EXISTS && rc != TSR_NOT_FOUND) return *error = one, rc;
  }
  if (!made) { /* another process has published it, or removed it */
    const int published = is_there(store, commit, error);
    if (published < 0) return published;
    if (published == 0) return rc < 0 ? (*error = one, rc) : 0;
    /* the process that published it may have died before it wrote these */
    return con ? each_delete(store, commit, durable, pending_add_delete, error) : 0;
  }
  if (con) TSR_TRY(each_delete(store, commit, durable, pending_add_delete, error));
  char directory[TSR_COMMIT_PATH];
  directory_of(commit, directory);
  if (durable) TSR_TRY(tsr__store_sync_directory(store, directory, error));
  return 1;
}

int tsr__pending_withdraw(tsr_store *store, const char *commit, tsr_error *error) {
  uint64_t stem;
  int rc = is_there(store, commit, error);
  if (rc <= 0) return rc;
  if (tsr__name_suffix(commit, TSR_SUFFIX_CONSOLIDATED, &stem))
    TSR_TRY(each_delete(store, commit, false, remove_delete, error));
  return tsr__pending_unmark(store, commit, error);
}

void tsr__pending_path(const char *schema_name, char path[TSR_PENDING_PATH]) {
  snprintf(path, TSR_PENDING_PATH, TSR_PREFIX_CREATED "%s", schema_name);
}
