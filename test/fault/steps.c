/* steps.c: the steps of scenarios that are not SQL (scenario.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

#include "scenario.h"
#include "tessera.h"
#include "tessera_arrow.h"

const tessera_functions *tessera_api(int version);

/* ---- A commit that meets a reader --------------------------------------------------------------------------------- */

/* Runs COMMIT twice while one reader is at work. (Each COMMIT cannot have a reader of its own: after the first one SQLite keeps
 * its pending lock, which keeps new readers out.) */
static int busy_commit(sqlite3 *db, char **message) {
  sqlite3 *other = NULL;
  sqlite3_stmt *reader = NULL;
  int code = sqlite3_open(DATABASE, &other);
  if (code == SQLITE_OK) code = sqlite3_prepare_v2(other, "SELECT x FROM o", -1, &reader, NULL);
  if (code == SQLITE_OK) code = sqlite3_step(reader);
  if (code != SQLITE_ROW) {
    *message = sqlite3_mprintf("the reader: %s", sqlite3_errmsg(other));
    if (code == SQLITE_OK || code == SQLITE_DONE) code = SQLITE_ERROR;
  } else {
    code = SQLITE_OK;
  }
  for (int i = 0; i < 2 && code == SQLITE_OK; i++) {
    if ((code = sqlite3_exec(db, "COMMIT", NULL, NULL, message)) == SQLITE_OK) {
      *message = sqlite3_mprintf("COMMIT has met no reader");
      code = SQLITE_ERROR;
    } else if (code == SQLITE_BUSY) {
      sqlite3_free(*message);
      *message = NULL;
      code = SQLITE_OK;
    }
  }
  sqlite3_finalize(reader);
  sqlite3_close(other);
  return code;
}

/* ---- A commit that is cut off ------------------------------------------------------------------------------------- */

typedef struct place { /* where a commit is */
  char array[100]; /* DISK_ROOT/t */
  char commit[300]; /* the path of the commit in the array */
  char stem[200]; /* the name of the commit without its suffix */
  const char *suffix;
} place;

static int find_commit(sqlite3 *db, const char *table, place *p, char **message) {
  text rows = {0};
  char *sql = sqlite3_mprintf("SELECT name FROM \"%w_commits\"", table);
  const int code = text_query(db, sql, false, &rows, message);
  sqlite3_free(sql);
  const size_t size = rows.bytes ? strcspn(rows.bytes, "|") : 0;
  snprintf(p->array, sizeof p->array, DISK_ROOT "/%s", table);
  snprintf(p->commit, sizeof p->commit, "%.*s", (int)size, rows.bytes ? rows.bytes : "");
  text_free(&rows);
  const char *name = !strncmp(p->commit, "__commits/", 10) ? p->commit + 10 : p->commit;
  snprintf(p->stem, sizeof p->stem, "%.*s", (int)strcspn(name, "./"), name);
  p->suffix = name + strlen(p->stem);
  if (code == SQLITE_OK && !size) *message = sqlite3_mprintf("no commit of %s", table);
  return code == SQLITE_OK && !size ? SQLITE_ERROR : code;
}

static int read_all(const char *path, text *bytes) {
  const int file = disk_find(disk_now, path, NULL);
  if (file < 0) return file;
  const uint64_t size = disk_size(disk_now, file);
  bytes->bytes = calloc(1, size + 1);
  bytes->size = size;
  return bytes->bytes ? disk_read(disk_now, file, 0, bytes->bytes, size, false) : -ENOMEM;
}

static int write_all(const char *path, const text *bytes) {
  int file = disk_make(disk_now, path, false);
  if (file >= 0) {
    const int code = disk_write(disk_now, file, 0, bytes->bytes, bytes->size);
    if (code < 0) return code;
  }
  return file;
}

/* Adds the names of the fragments in a list (.con) to the marker, and removes the separate files of its delete conditions. */
static int undo_list(const char *path, const place *p, text *marker) {
  text list = {0};
  int code = read_all(path, &list);
  for (size_t at = 0; code >= 0 && at < list.size;) {
    const char *line = list.bytes + at, *end = memchr(line, '\n', list.size - at);
    if (!end) break;
    at += (size_t)(end - line) + 1;
    if (end - line > 14 && !memcmp(end - 4, ".wrt", 4)) text_add(marker, "%.*s\n", (int)(end - line - 14), line + 10);
    if (end - line < 5 || memcmp(end - 4, ".del", 4)) continue;
    uint64_t size;
    char beside[500];
    memcpy(&size, list.bytes + at, sizeof size);
    at += sizeof size + size;
    snprintf(beside, sizeof beside, "%s/%.*s", p->array, (int)(end - line), line);
    code = disk_remove(disk_now, beside);
  }
  text_free(&list);
  return code;
}

static int cut_off(sqlite3 *db, const char *table, char **message) {
  place p;
  char from[500], to[500], path[500];
  text marker = {0};
  int code = find_commit(db, table, &p, message);
  if (code != SQLITE_OK) return code;
  const bool new_layout = !strncmp(p.commit, "__commits/", 10);
  text_add(&marker, "%s\n", p.commit);
  snprintf(from, sizeof from, "%s/%s", p.array, p.commit);
  snprintf(path, sizeof path, new_layout ? "%s/__commits/%s.pending" : "%s/%s/.pending", p.array, p.stem);
  if (!strcmp(p.suffix, ".con")) {
    code = undo_list(from, &p, &marker);
    snprintf(to, sizeof to, "%s/__commits/.%s", p.array, p.stem);
    if (code >= 0) code = disk_rename(disk_now, from, to, true);
  } else {
    text_add(&marker, "%s\n", p.stem);
    snprintf(to, sizeof to, "%s/%s/.metadata", p.array, p.stem);
    code = *p.suffix == '/' ? disk_rename(disk_now, from, to, true) : disk_remove(disk_now, from);
  }
  text_add(&marker, "\n" DATABASE "\n");
  if (code >= 0) code = write_all(path, &marker);
  text_free(&marker);
  if (code < 0) *message = sqlite3_mprintf("cut off %s: error %d", p.commit, -code);
  return code < 0 ? SQLITE_ERROR : SQLITE_OK;
}

/* ---- Others ------------------------------------------------------------------------------------------------------- */

static int run_aside(const char *table, const char *sql, text *rows, char **message) {
  sqlite3 *db = NULL;
  char *create = sqlite3_mprintf("CREATE VIRTUAL TABLE \"%w\" USING tessera('" DISK_ROOT "/%q')", table, table);
  int code = sqlite3_open(":memory:", &db);
  if (code == SQLITE_OK) code = sqlite3_exec(db, create, NULL, NULL, message);
  if (code == SQLITE_OK) code = text_query(db, sql, false, rows, message);
  sqlite3_free(create);
  sqlite3_close(db);
  return code;
}

/* Renames prepared commits and their fragments to names that are no TileDB names, or back. */
static int hide(const char *table, bool hidden) {
  static const char *const directories[] = {"", "/__commits", "/__fragments"};
  char names[20][300], from[600], to[600];
  int count = 0, code = 0;
  text marker = {0};
  for (int i = 0; i < 3 && code >= 0; i++) {
    char directory[200], path[700];
    const char *name;
    bool is_directory;
    snprintf(directory, sizeof directory, DISK_ROOT "/%s%s", table, directories[i]);
    const int node = disk_find(disk_now, directory, NULL);
    count = 0;
    for (unsigned n = 0; node >= 0 && count < 20 && disk_entry(disk_now, node, n, &name, &is_directory); n++) {
      const size_t size = strlen(name);
      snprintf(path, sizeof path, "%s/%s/.pending", directory, name);
      const bool old = i == 0 && disk_find(disk_now, path, NULL) >= 0;
      const bool listed = i == 2 && marker.bytes && strstr(marker.bytes, name);
      if (size > 8 && !strcmp(name + size - 8, ".pending")) {
        snprintf(path, sizeof path, "%s/%s", directory, name);
        read_all(path, &marker);
        snprintf(names[count++], sizeof names[0], "%s", name);
      } else if (hidden ? old || listed : !strncmp(name, "hidden", 6)) {
        snprintf(names[count++], sizeof names[0], "%s", name);
      }
    }
    for (int n = 0; n < count && code >= 0; n++) {
      const bool is_hidden = !strncmp(names[n], "hidden", 6);
      if (hidden == is_hidden) continue;
      const char *entry = names[n];
      snprintf(from, sizeof from, "%s/%.299s", directory, entry);
      snprintf(to, sizeof to, "%s/%s%.299s", directory, hidden ? "hidden" : "", hidden ? entry : entry + 6);
      code = disk_rename(disk_now, from, to, true);
    }
  }
  text_free(&marker);
  return code;
}

static int run_unaware(const char *table, const char *sql, text *rows, char **message) {
  int code = hide(table, true) < 0 ? SQLITE_IOERR : run_aside(table, sql, rows, message);
  if (hide(table, false) < 0) code = SQLITE_IOERR;
  if (code == SQLITE_IOERR && !*message) *message = sqlite3_mprintf("cannot hide the prepared commits");
  return code;
}

/* ---- Streams ------------------------------------------------------------------------------------------------------- */

/* Reads the batches. Returns an errno. */
static int read_batches(struct ArrowArrayStream *stream, text *rows) {
  struct ArrowSchema schema = {0};
  struct ArrowArray batch = {0};
  int64_t count = 0, nulls = 0; /* of all batches, which are divided otherwise where memory is short */
  int code = stream->get_schema(stream, &schema);
  for (int64_t i = 0; code == 0 && i < schema.n_children; i++)
    text_add(rows, "%s %s|", schema.children[i]->name, schema.children[i]->format);
  while (code == 0 && (code = stream->get_next(stream, &batch)) == 0 && batch.release) {
    for (int64_t i = 0; i < batch.n_children; i++) nulls += batch.children[i]->null_count;
    count += batch.length;
    batch.release(&batch);
  }
  text_add(rows, "%lld rows, %lld nulls|", (long long)count, (long long)nulls);
  if (schema.release) schema.release(&schema);
  return code;
}

static int run_stream(sqlite3 *db, const char *sql, text *rows, char **message) {
  struct ArrowArrayStream stream;
  text token = {0};
  int code = text_query(db, sql, false, &token, message);
  if (code == SQLITE_OK) {
    token.bytes[strcspn(token.bytes, "|\n")] = 0;
    if (!tessera_api(1)->take(token.bytes, &stream)) {
      *message = sqlite3_mprintf("no stream of the token %s", token.bytes);
      code = SQLITE_ERROR;
    }
  }
  text_free(&token);
  if (code != SQLITE_OK) return code;
  const int number = read_batches(&stream, rows);
  if (number) {
    const char *why = stream.get_last_error(&stream);
    *message = sqlite3_mprintf("%s", why ? why : "");
    code = number == ENOMEM ? SQLITE_NOMEM : SQLITE_ERROR;
  }
  stream.release(&stream);
  return code;
}

/* ---- A step --------------------------------------------------------------------------------------------------------- */

int text_step(sqlite3 *db, const char *sql, text *rows, char **message) {
  char table[50];
  if (!strcmp(sql, BUSY_COMMIT)) return busy_commit(db, message);
  if (!strncmp(sql, "cut off ", 8)) return cut_off(db, sql + 8, message);
  if (!strncmp(sql, "stream ", 7)) return run_stream(db, sql + 7, rows, message);
  const bool unaware = !strncmp(sql, "unaware ", 8);
  if (!unaware && strncmp(sql, "aside ", 6) != 0) return text_query(db, sql, false, rows, message);
  const char *name = sql + (unaware ? 8 : 6), *statement = strchr(name, ':') + 1;
  snprintf(table, sizeof table, "%.*s", (int)(statement - 1 - name), name);
  return (unaware ? run_unaware : run_aside)(table, statement, rows, message);
}
