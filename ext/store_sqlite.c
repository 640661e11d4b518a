/* store_sqlite.c: arrays inside the database: a tree of files in two shadow tables, as the core's store "db:".
 *
 *   NAME_files    id        of a file or directory; 1 is the root
 *                 parent    id of its directory; 0: the root's
 *                 name      within it; the root's: this array's and no other's, 32 hex digits
 *                 size      bytes; NULL: a directory
 *                 modified  milliseconds since 1970
 *                 stamp     of a directory: a random number, another whenever an entry comes, goes or is renamed
 *   NAME_chunks   id        the file's << 32 | the number of the piece
 *                 bytes     65,536 of them, fewer in a file's last piece; a file of size 0 has none
 *
 * Invariants: (parent, name) is unique; ids are below 2^31; a directory's parent is a directory. All of it is checked as
 * bytes of files are: whoever has the database can write these tables. Stamps are random so that a listing that a
 * rollback takes back, or another connection makes, never has the stamp of another one.
 *
 * All is read and written as the calling statement sees it, within its transaction, on SQLite's thread: the core's
 * workers only decode. Pieces are read through one blob handle; it holds the read transaction, so it is kept open only as
 * long as the connection has a cursor open. Statements live as long as the connection has a table, as sqlite3_close
 * wants.
 */
#include "extension.h"

#include <time.h>

#define CHUNK      65536
#define ROOT       1
#define DEPTH_MOST 16
#define ROOM_ASKED ((uint64_t)16 << 20) /* bytes of a file */
#define FILES_MOST ((sqlite3_int64)1 << 31)
#define IDENTITY   33 /* with its NUL */

static const char files_body[] = "(id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name TEXT NOT NULL, size INTEGER, "
                                 "modified INTEGER NOT NULL, stamp INTEGER NOT NULL, UNIQUE(parent, name))";
static const char chunks_body[] = "(id INTEGER PRIMARY KEY, bytes BLOB NOT NULL)";

/* name, SQL behind which "schema"."table" + suffix stands in the place of $ */
#define STATEMENTS(X)                                                                                                  \
  X(FIND, "SELECT id, size, modified, stamp FROM $_files WHERE parent = ?1 AND name = ?2")                             \
  X(GET, "SELECT id, size, modified, stamp FROM $_files WHERE id = ?1")                                                \
  X(LIST, "SELECT name, size IS NULL FROM $_files WHERE parent = ?1")                                                  \
  X(ADD, "INSERT INTO $_files(parent, name, size, modified, stamp) VALUES(?1, ?2, ?3, ?4, ?5)")                        \
  X(TOUCH, "UPDATE $_files SET stamp = ?2, modified = ?3 WHERE id = ?1")                                               \
  X(RESIZE, "UPDATE $_files SET size = ?2, modified = ?3 WHERE id = ?1")                                               \
  X(MOVE, "UPDATE $_files SET parent = ?2, name = ?3 WHERE id = ?1")                                                   \
  X(REMOVE, "DELETE FROM $_files WHERE id = ?1")                                                                       \
  X(PUT, "INSERT OR REPLACE INTO $_chunks(id, bytes) VALUES(?1, ?2)")                                                  \
  X(CUT, "DELETE FROM $_chunks WHERE id >= ?1 AND id < ?2")                                                            \
  X(MEASURE, "SELECT length(bytes) FROM $_chunks WHERE id = ?1")
typedef enum which {
#define X(name, sql) name,
  STATEMENTS(X)
#undef X
      STATEMENT_COUNT
} which;
static const char *const statement_texts[] = {
#define X(name, sql) sql,
    STATEMENTS(X)
#undef X
};

struct tsx_tree {
  tsx_tree *next; /* the connection's */
  tsx_connection *connection;
  char *schema, *name; /* of the virtual table */
  char identity[IDENTITY]; /* the root's name, once it is known */
  bool known; /* its shadow tables have been looked at */
  sqlite3_stmt *statements[STATEMENT_COUNT];
  sqlite3_blob *blob;
  unsigned
      busy; /* SQLite is at work for one of these: what fails in it for want of memory or room, or by the disk, rolls
                    the transaction back there and then, and that comes to tsx_store_rest */
  bool stale; /* forget them when it has returned */
  tsr_error failure; /* of a file that could not be finished when it was closed */
};

typedef struct entry { /* a row of NAME_files */
  sqlite3_int64 id;
  bool directory;
  uint64_t size, modified, stamp;
} entry;

typedef struct file {
  tsx_tree *tree;
  sqlite3_int64 id;
  uint64_t size;
  bool writing, dirty, broken; /* dirty: what is in `tail`, or the size, is not written */
  uint32_t tail_size;
  uint8_t *tail; /* the last piece, not full */
} file;

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

static int fail_sql(const tsx_tree *tree, int code, tsr_error *error) {
  /* of the database's own files, such as its journal: no file of the array is missing */
  const int core = (code & 0xff) == SQLITE_CANTOPEN ? TSR_IO : tsx_core_code(code);
  return tsx_fail(error, core, "%s",
                  code == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(tree->connection->db));
}

static int not_found(tsr_error *error) { return tsx_fail(error, TSR_NOT_FOUND, "there is no such file"); }

/* ---- The tables -------------------------------------------------------------------------------------------------- */

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static sqlite3_int64 new_stamp(void) {
  sqlite3_int64 stamp;
  sqlite3_randomness(sizeof stamp, &stamp);
  stamp &= INT64_MAX;
  return stamp ? stamp : 1;
}

/* Prepares a statement that reads this database only; steps to its first row. SQLITE_ROW, SQLITE_DONE, or an error. */
static int ask(sqlite3 *db, char *sql, sqlite3_stmt **statement) {
  *statement = NULL;
  int code = sql ? sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_NO_VTAB, statement, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  return code == SQLITE_OK ? sqlite3_step(*statement) : code;
}

/* 1: the table is there as it was made; 0: it is not there. */
static int check_table(const tsx_tree *tree, const char *name, const char *suffix, const char *body, tsr_error *error) {
  sqlite3_stmt *statement;
  char *sql = sqlite3_mprintf("SELECT sql FROM \"%w\".sqlite_schema WHERE type = 'table' AND name = '%q_%s' "
                              "COLLATE NOCASE",
                              tree->schema, name, suffix);
  int code = ask(tree->connection->db, sql, &statement), result = code == SQLITE_ROW;
  if (code == SQLITE_ROW) {
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    size_t length = text ? strlen(text) : 0, wanted = strlen(body);
    if (length < wanted || strcmp(text + length - wanted, body))
      result = tsx_fail(error, TSR_CORRUPT, "the table %s_%s is not as it was made", name, suffix);
  } else if (code != SQLITE_DONE && (code & 0xff) != SQLITE_ERROR) { /* an error: no such database */
    result = fail_sql(tree, code, error);
  }
  sqlite3_finalize(statement);
  return result;
}

/* The root's name in the tables of `name`: 1; 0 where they are not there. */
static int read_identity(const tsx_tree *tree, const char *name, char identity[IDENTITY], tsr_error *error) {
  sqlite3_stmt *statement;
  int result = check_table(tree, name, "files", files_body, error);
  if (result <= 0) return result;
  char *sql = sqlite3_mprintf("SELECT name FROM \"%w\".\"%w_files\" WHERE id = %d AND parent = 0 AND size IS NULL",
                              tree->schema, name, ROOT);
  int code = ask(tree->connection->db, sql, &statement);
  const char *text = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
  if (code == SQLITE_DONE || (code == SQLITE_ROW && (!text || strlen(text) != IDENTITY - 1)))
    result = tsx_fail(error, TSR_CORRUPT, "the table %s_files has no root", name);
  else if (code != SQLITE_ROW) result = fail_sql(tree, code, error);
  else memcpy(identity, text, IDENTITY);
  sqlite3_finalize(statement);
  return result;
}

static char *expand(const tsx_tree *tree, const char *text) {
  sqlite3_str *out = sqlite3_str_new(tree->connection->db);
  for (const char *dollar; (dollar = strchr(text, '$')); text = dollar + 1 + strcspn(dollar + 1, "( ")) {
    const char *suffix = dollar + 1;
    sqlite3_str_append(out, text, (int)(dollar - text));
    sqlite3_str_appendf(out, "\"%w\".\"%w%.*s\"", tree->schema, tree->name, (int)strcspn(suffix, "( "), suffix);
  }
  sqlite3_str_appendall(out, text);
  return sqlite3_str_finish(out);
}

static void close_blob(tsx_tree *tree) {
  sqlite3_blob *blob = tree->blob;
  tree->blob = NULL;
  tree->busy++;
  sqlite3_blob_close(blob);
  tree->busy--;
}

static void forget(tsx_tree *tree) {
  close_blob(tree);
  tree->busy++;
  for (int i = 0; i < STATEMENT_COUNT; i++) {
    sqlite3_stmt *statement = tree->statements[i];
    tree->statements[i] = NULL;
    sqlite3_finalize(statement);
  }
  tree->busy--;
  tree->known = tree->stale = false;
}

/* The same, as soon as none of them is in use. */
static void let_go(tsx_tree *tree) {
  if (tree->busy) tree->stale = true;
  else forget(tree);
}

static int step_on(tsx_tree *tree, sqlite3_stmt *statement) {
  tree->busy++;
  int code = sqlite3_step(statement);
  tree->busy--;
  return code;
}

/* The tables that this tree has been in have another name by now: renamed, or a renaming was rolled back. 1, or 0. */
static int search(tsx_tree *tree, tsr_error *error) {
  sqlite3_stmt *statement;
  char *sql = sqlite3_mprintf("SELECT substr(name, 1, length(name) - 6) FROM \"%w\".sqlite_schema WHERE type = 'table' "
                              "AND name LIKE '%%\\_files' ESCAPE '\\'",
                              tree->schema);
  int code = ask(tree->connection->db, sql, &statement), result = 0;
  for (; code == SQLITE_ROW && !result; code = result ? SQLITE_DONE : sqlite3_step(statement)) {
    const char *name = (const char *)sqlite3_column_text(statement, 0);
    char identity[IDENTITY];
    tsr_error ignored;
    if (!name || read_identity(tree, name, identity, &ignored) <= 0 || strcmp(identity, tree->identity)) continue;
    char *copy = sqlite3_mprintf("%s", name);
    if (!copy) {
      code = SQLITE_NOMEM;
      break;
    }
    sqlite3_free(tree->name);
    tree->name = copy;
    result = 1;
  }
  if (code != SQLITE_ROW && code != SQLITE_DONE) result = fail_sql(tree, code, error);
  sqlite3_finalize(statement);
  return result;
}

/* 1, or 0 where there are no such tables, or they hold another array than they did. */
static int look(tsx_tree *tree, tsr_error *error) {
  char identity[IDENTITY];
  if (tree->connection->quiet) return 0;
  if (tree->stale && !tree->busy) forget(tree);
  if (tree->known) return 1;
  int there = read_identity(tree, tree->name, identity, error);
  if (there < 0) return there;
  bool other = tree->identity[0] && (!there || strcmp(identity, tree->identity));
  if (other) there = search(tree, error);
  if (there <= 0) return there;
  int chunks = check_table(tree, tree->name, "chunks", chunks_body, error);
  if (chunks == 0) return tsx_fail(error, TSR_CORRUPT, "the table %s_chunks is missing", tree->name);
  if (chunks < 0) return chunks;
  if (!other) memcpy(tree->identity, identity, IDENTITY);
  tree->known = true;
  return 1;
}

/* A statement, reset, with its first parameter. */
static int prepare(tsx_tree *tree, which one, sqlite3_int64 first, sqlite3_stmt **out, tsr_error *error) {
  int there = look(tree, error);
  if (there < 0) return there;
  if (!there) return not_found(error);
  if (!tree->statements[one]) {
    char *sql = expand(tree, statement_texts[one]);
    int code =
        sql ? sqlite3_prepare_v3(tree->connection->db, sql, -1, SQLITE_PREPARE_PERSISTENT | SQLITE_PREPARE_NO_VTAB,
                                 &tree->statements[one], NULL)
            : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (code != SQLITE_OK) return fail_sql(tree, code, error);
  }
  *out = tree->statements[one];
  sqlite3_bind_int64(*out, 1, first);
  return TSR_OK;
}

static void done(tsx_tree *tree, sqlite3_stmt *statement) {
  tree->busy++;
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  tree->busy--;
  if (tree->stale || !tree->connection->tables) let_go(tree); /* nobody would come to do so before sqlite3_close */
}

/* Runs a statement that changes something; what the application sees as its last rowid stays. `added` is the rowid of
 * an INSERT, which may meet a row that is there already, or NULL. */
static int change(tsx_tree *tree, sqlite3_stmt *statement, sqlite3_int64 *added, tsr_error *error) {
  sqlite3 *db = tree->connection->db;
  sqlite3_int64 last = sqlite3_last_insert_rowid(db);
  int code = step_on(tree, statement);
  if (added) *added = sqlite3_last_insert_rowid(db);
  sqlite3_set_last_insert_rowid(db, last);
  int result = TSR_OK;
  if ((code & 0xff) == SQLITE_CONSTRAINT && added) result = tsx_fail(error, TSR_EXISTS, "something is already there");
  else if (code != SQLITE_DONE) result = fail_sql(tree, code, error);
  done(tree, statement);
  return result;
}

/* The row that a statement of FIND's or GET's kind finds: 1, or 0. */
static int take_entry(tsx_tree *tree, sqlite3_stmt *statement, entry *found, tsr_error *error) {
  int code = step_on(tree, statement), result = 0;
  if (code == SQLITE_ROW) {
    sqlite3_int64 id = sqlite3_column_int64(statement, 0), size = sqlite3_column_int64(statement, 1);
    *found = (entry){.id = id,
                     .directory = sqlite3_column_type(statement, 1) == SQLITE_NULL,
                     .size = (uint64_t)size,
                     .modified = (uint64_t)sqlite3_column_int64(statement, 2),
                     .stamp = (uint64_t)sqlite3_column_int64(statement, 3)};
    bool number = sqlite3_column_type(statement, 1) == SQLITE_INTEGER;
    bool whole = id >= ROOT && id < FILES_MOST && (found->directory || (number && size >= 0));
    result = whole ? 1 : tsx_fail(error, TSR_CORRUPT, "row %lld of %s_files makes no sense", id, tree->name);
  } else if (code != SQLITE_DONE) {
    result = fail_sql(tree, code, error);
  }
  done(tree, statement);
  return result;
}

/* ---- Paths ------------------------------------------------------------------------------------------------------- */

static int find_child(tsx_tree *tree, sqlite3_int64 parent, const char *name, size_t size, entry *found,
                      tsr_error *error) {
  sqlite3_stmt *statement;
  int code = prepare(tree, FIND, parent, &statement, error);
  if (code < 0) return code;
  sqlite3_bind_text(statement, 2, name, (int)size, SQLITE_STATIC);
  return take_entry(tree, statement, found, error);
}

/* 1 and what lies at a path, or 0. */
static int find(tsx_tree *tree, const char *path, entry *found, tsr_error *error) {
  sqlite3_stmt *statement;
  int there = look(tree, error);
  if (there <= 0) return there;
  int code = prepare(tree, GET, ROOT, &statement, error);
  if (code < 0) return code;
  code = take_entry(tree, statement, found, error);
  if (code > 0 && !found->directory) code = tsx_fail(error, TSR_CORRUPT, "the root of %s_files is a file", tree->name);
  for (int depth = 0; code > 0 && *path; depth++) {
    size_t size = strcspn(path, "/");
    if (!found->directory || depth == DEPTH_MOST) return 0;
    code = find_child(tree, found->id, path, size, found, error);
    path += size + (path[size] == '/');
  }
  return code;
}

static int find_existing(tsx_tree *tree, const char *path, entry *found, tsr_error *error) {
  int code = find(tree, path, found, error);
  return code == 0 ? not_found(error) : code;
}

/* The directory in which something is to be, and the name that it has there. */
static int find_parent(tsx_tree *tree, const char *path, entry *parent, const char **name, tsr_error *error) {
  const char *slash = strrchr(path, '/');
  char *directory = sqlite3_mprintf("%.*s", slash ? (int)(slash - path) : 0, path);
  if (!directory) return tsx_fail(error, TSR_NOMEM, "out of memory");
  int code = find(tree, directory, parent, error);
  sqlite3_free(directory);
  if (code < 0) return code;
  if (code == 0 || !parent->directory) return tsx_fail(error, TSR_NOT_FOUND, "there is no such directory");
  *name = slash ? slash + 1 : path;
  return TSR_OK;
}

static int touch(tsx_tree *tree, sqlite3_int64 directory, tsr_error *error) {
  sqlite3_stmt *statement;
  int code = prepare(tree, TOUCH, directory, &statement, error);
  if (code < 0) return code;
  sqlite3_bind_int64(statement, 2, new_stamp());
  sqlite3_bind_int64(statement, 3, (sqlite3_int64)now());
  return change(tree, statement, NULL, error);
}

static int add(tsx_tree *tree, const char *path, bool directory, sqlite3_int64 *id, tsr_error *error) {
  entry parent;
  const char *name;
  sqlite3_stmt *statement;
  int code = find_parent(tree, path, &parent, &name, error);
  if (code == TSR_OK) code = prepare(tree, ADD, parent.id, &statement, error);
  if (code < 0) return code;
  sqlite3_bind_text(statement, 2, name, -1, SQLITE_STATIC);
  if (!directory) sqlite3_bind_int64(statement, 3, 0);
  sqlite3_bind_int64(statement, 4, (sqlite3_int64)now());
  sqlite3_bind_int64(statement, 5, new_stamp());
  code = change(tree, statement, id, error);
  if (code == TSR_OK && *id >= FILES_MOST) code = tsx_fail(error, TSR_FULL, "%s_files has no more ids", tree->name);
  return code == TSR_OK ? touch(tree, parent.id, error) : code;
}

/* ---- The tree ---------------------------------------------------------------------------------------------------- */

static int tree_open(void *argument, const char *path, void **out, tsr_error *error) {
  tsx_connection *connection = argument;
  char *schema, *name;
  int code = tsx_address_parse(path + strlen("db:"), &schema, &name, error);
  if (code < 0) return code;
  tsx_tree *tree = schema ? sqlite3_malloc64(sizeof *tree) : NULL;
  if (!tree) {
    sqlite3_free(schema);
    sqlite3_free(name);
    return tsx_fail(error, TSR_NOMEM, "out of memory");
  }
  memset(tree, 0, sizeof *tree);
  tree->connection = connection;
  tree->schema = schema;
  tree->name = name;
  tree->next = connection->trees;
  connection->trees = tree;
  *out = tree;
  return TSR_OK;
}

static void tree_close(void *it) {
  tsx_tree *tree = it;
  tsx_tree **link = &tree->connection->trees;
  while (*link != tree) link = &(*link)->next;
  *link = tree->next;
  forget(tree);
  sqlite3_free(tree->schema);
  sqlite3_free(tree->name);
  sqlite3_free(tree);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static uint64_t pieces_of(uint64_t size) { return size / CHUNK + (size % CHUNK != 0); }
static sqlite3_int64 piece_id(const file *f, uint64_t number) { return f->id << 32 | (sqlite3_int64)number; }

static int new_file(tsx_tree *tree, sqlite3_int64 id, uint64_t size, bool writing, void **out, tsr_error *error) {
  file *f = sqlite3_malloc64(sizeof *f);
  if (!f) return tsx_fail(error, TSR_NOMEM, "out of memory");
  *f = (file){.tree = tree, .id = id, .size = size, .writing = writing};
  *out = f;
  return TSR_OK;
}

/* No file is larger than the database that holds it. Asked of large ones only: most are not. */
static int check_room(const tsx_tree *tree, const entry *found, tsr_error *error) {
  sqlite3 *db = tree->connection->db;
  uint64_t room = 1;
  if (found->size < ROOM_ASKED) return TSR_OK;
  for (int i = 0; i < 2; i++) {
    sqlite3_stmt *statement;
    int code = ask(db, sqlite3_mprintf("PRAGMA \"%w\".%s", tree->schema, i ? "page_count" : "page_size"), &statement);
    if (code == SQLITE_ROW) room *= (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    if (code != SQLITE_ROW) return fail_sql(tree, code, error);
  }
  if (found->size <= room) return TSR_OK;
  return tsx_fail(error, TSR_CORRUPT, "its size cannot be %llu bytes: the database has %llu",
                  (unsigned long long)found->size, (unsigned long long)room);
}

/* Memory is taken by the sizes of files: a size that the last piece does not bear out is not believed. */
static int check_last(tsx_tree *tree, const entry *found, tsr_error *error) {
  const file f = {.id = found->id};
  uint64_t pieces = pieces_of(found->size);
  sqlite3_stmt *statement;
  if (!pieces) return TSR_OK;
  if (pieces > UINT32_MAX)
    return tsx_fail(error, TSR_CORRUPT, "its size cannot be %llu bytes", (unsigned long long)found->size);
  int code = prepare(tree, MEASURE, piece_id(&f, pieces - 1), &statement, error);
  if (code < 0) return code;
  int step = step_on(tree, statement);
  uint64_t length = step == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(statement, 0) : 0;
  code = step == SQLITE_ROW || step == SQLITE_DONE ? TSR_OK : fail_sql(tree, step, error);
  done(tree, statement);
  if (code == TSR_OK && length != found->size - (pieces - 1) * CHUNK)
    code = tsx_fail(error, TSR_CORRUPT, "of %llu bytes, the last piece (row %lld of %s_chunks) has %llu",
                    (unsigned long long)found->size, piece_id(&f, pieces - 1), tree->name, (unsigned long long)length);
  return code;
}

static int open_file(void *it, const char *path, void **out, uint64_t *size, tsr_error *error) {
  entry found;
  int code = find_existing(it, path, &found, error);
  if (code < 0) return code;
  if (found.directory) return tsx_fail(error, TSR_NOT_FOUND, "is a directory, not a file");
  code = check_last(it, &found, error);
  if (code == TSR_OK) code = check_room(it, &found, error);
  if (code == TSR_OK) code = new_file(it, found.id, found.size, false, out, error);
  if (code == TSR_OK) *size = found.size;
  return code;
}

static int create_exclusive(void *it, const char *path, void **out, tsr_error *error) {
  tsx_tree *tree = it;
  sqlite3_int64 id;
  if (tree->failure.code) return tsx_fail(error, tree->failure.code, "%s", tree->failure.message);
  int code = add(tree, path, false, &id, error);
  return code == TSR_OK ? new_file(tree, id, 0, true, out, error) : code;
}

/* Has the blob handle at a row. */
static int aim(tsx_tree *tree, sqlite3_int64 id, tsr_error *error) {
  sqlite3 *db = tree->connection->db;
  tree->busy++;
  int code = tree->blob ? sqlite3_blob_reopen(tree->blob, id) : SQLITE_ABORT;
  if ((code & 0xff) == SQLITE_ABORT) { /* not open, or the row that it stood on has changed */
    close_blob(tree);
    char *table = sqlite3_mprintf("%s_chunks", tree->name);
    code = table ? sqlite3_blob_open(db, tree->schema, table, "bytes", id, 0, &tree->blob) : SQLITE_NOMEM;
    sqlite3_free(table);
  }
  tree->busy--;
  if (code == SQLITE_OK) return TSR_OK;
  int result = (code & 0xff) == SQLITE_ERROR
                   ? tsx_fail(error, TSR_CORRUPT, "row %lld of %s_chunks: %s", id, tree->name, sqlite3_errmsg(db))
                   : fail_sql(tree, code, error);
  if (tree->stale) forget(tree);
  else close_blob(tree);
  return result;
}

static int read_piece(file *f, uint64_t number, uint64_t offset, void *buffer, uint64_t size, tsr_error *error) {
  tsx_tree *tree = f->tree;
  uint64_t wanted = f->size - number * CHUNK;
  if (wanted > CHUNK) wanted = CHUNK;
  int code = aim(tree, piece_id(f, number), error);
  if (code < 0) return code;
  if ((uint64_t)sqlite3_blob_bytes(tree->blob) != wanted)
    return tsx_fail(error, TSR_CORRUPT, "row %lld of %s_chunks has %d bytes, not %llu", piece_id(f, number), tree->name,
                    sqlite3_blob_bytes(tree->blob), (unsigned long long)wanted);
  tree->busy++;
  int step = sqlite3_blob_read(tree->blob, buffer, (int)size, (int)offset);
  tree->busy--;
  code = step == SQLITE_OK ? TSR_OK : fail_sql(tree, step, error);
  if (tree->stale) forget(tree);
  return code;
}

static int flush(file *f, tsr_error *error);

static int read_at(void *it, uint64_t offset, void *buffer, uint64_t size, tsr_error *error) {
  file *f = it;
  uint8_t *to = buffer;
  int code = f->dirty ? flush(f, error) : TSR_OK;
  while (code == TSR_OK && size) {
    uint64_t within = offset % CHUNK, part = CHUNK - within < size ? CHUNK - within : size;
    code = read_piece(f, offset / CHUNK, within, to, part, error);
    to += part;
    offset += part;
    size -= part;
  }
  if (!f->tree->connection->cursors) close_blob(f->tree);
  return code;
}

static int put_piece(file *f, uint64_t number, const void *bytes, uint64_t size, tsr_error *error) {
  sqlite3_stmt *statement;
  if (number >= UINT32_MAX) return tsx_fail(error, TSR_FULL, "a file may have 2^48 bytes");
  int code = prepare(f->tree, PUT, piece_id(f, number), &statement, error);
  if (code < 0) return code;
  sqlite3_bind_blob(statement, 2, bytes, (int)size, SQLITE_STATIC);
  return change(f->tree, statement, NULL, error);
}

/* The last piece and the size. */
static int flush(file *f, tsr_error *error) {
  sqlite3_stmt *statement;
  if (f->broken) return tsx_fail(error, TSR_IO, "writing: an earlier write to the file has failed");
  if (!f->dirty) return TSR_OK;
  f->broken = true; /* until all of it has been done */
  int code = f->tail_size ? put_piece(f, f->size / CHUNK, f->tail, f->tail_size, error) : TSR_OK;
  if (code == TSR_OK) code = prepare(f->tree, RESIZE, f->id, &statement, error);
  if (code < 0) return code;
  sqlite3_bind_int64(statement, 2, (sqlite3_int64)f->size);
  sqlite3_bind_int64(statement, 3, (sqlite3_int64)now());
  code = change(f->tree, statement, NULL, error);
  if (code == TSR_OK) f->broken = f->dirty = false;
  return code;
}

static int append_bytes(file *f, const uint8_t *from, uint64_t size, tsr_error *error) {
  if (!f->tail && !(f->tail = sqlite3_malloc64(CHUNK))) return tsx_fail(error, TSR_NOMEM, "out of memory");
  while (size) {
    uint64_t part = CHUNK - f->tail_size;
    int code = TSR_OK;
    if (part > size) part = size;
    if (part == CHUNK) {
      code = put_piece(f, f->size / CHUNK, from, CHUNK, error);
    } else {
      memcpy(f->tail + f->tail_size, from, part);
      f->tail_size += (uint32_t)part;
      if (f->tail_size == CHUNK) {
        code = put_piece(f, f->size / CHUNK, f->tail, CHUNK, error);
        f->tail_size = 0;
      }
    }
    if (code < 0) return code;
    f->size += part;
    from += part;
    size -= part;
  }
  return TSR_OK;
}

static int append(void *it, const void *bytes, uint64_t size, tsr_error *error) {
  file *f = it;
  if (!f->writing) return tsx_fail(error, TSR_IO, "writing: the file was opened for reading");
  if (f->broken) return tsx_fail(error, TSR_IO, "writing: an earlier write to the file has failed");
  f->dirty = true;
  int code = append_bytes(f, bytes, size, error);
  if (code < 0) f->broken = true;
  return code;
}

static int sync_file(void *it, tsr_error *error) { return flush(it, error); }

/* What fails here is told by what would publish the file: a rename, or another file. */
static void close_file(void *it) {
  file *f = it;
  tsr_error error = {0};
  if (f->dirty && !f->broken && flush(f, &error) < 0 && !f->tree->failure.code) f->tree->failure = error;
  sqlite3_free(f->tail);
  sqlite3_free(f);
}

/* ---- Directories ------------------------------------------------------------------------------------------------- */

static int list(void *it, const char *path, tsr_listing *listing, tsr_error *error) {
  tsx_tree *tree = it;
  entry directory;
  sqlite3_stmt *statement;
  int code = find_existing(tree, path, &directory, error);
  if (code >= 0 && !directory.directory) code = tsx_fail(error, TSR_NOT_FOUND, "is a file, not a directory");
  if (code >= 0) code = prepare(tree, LIST, directory.id, &statement, error);
  if (code < 0) return code;
  int step;
  while (code == TSR_OK && (step = step_on(tree, statement)) != SQLITE_DONE) {
    const char *name = step == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    if (step != SQLITE_ROW) code = fail_sql(tree, step, error);
    else if (!name) code = tsx_fail(error, TSR_NOMEM, "out of memory");
    else if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
      code = tsx_fail(error, TSR_CORRUPT, "'%.60s' in %s_files is no name", name, tree->name);
    else
      code = tsr_listing_add(listing, name, sqlite3_column_int(statement, 1) ? TSR_ENTRY_DIRECTORY : TSR_ENTRY_FILE,
                             error);
  }
  done(tree, statement);
  return code;
}

static int stamp(void *it, const char *path, uint64_t *number, tsr_error *error) {
  entry found;
  int code = find(it, path, &found, error);
  if (code < 0) return code;
  *number = code > 0 && found.directory ? (found.stamp ? found.stamp : 1) : 0;
  return TSR_OK;
}

static int modified(void *it, const char *path, uint64_t *milliseconds, tsr_error *error) {
  entry found;
  int code = find_existing(it, path, &found, error);
  if (code < 0) return code;
  *milliseconds = found.modified;
  return TSR_OK;
}

/* 1 if a directory has entries. */
static int has_entries(tsx_tree *tree, sqlite3_int64 directory, tsr_error *error) {
  sqlite3_stmt *statement;
  int code = prepare(tree, LIST, directory, &statement, error);
  if (code < 0) return code;
  int step = step_on(tree, statement);
  code = step == SQLITE_ROW ? 1 : step == SQLITE_DONE ? 0 : fail_sql(tree, step, error);
  done(tree, statement);
  return code;
}

/* Of the root, which is there as long as the tables are: a new one, if nothing is in it. */
static int make_directory(void *it, const char *path, tsr_error *error) {
  tsx_tree *tree = it;
  sqlite3_int64 id;
  if (*path) return add(tree, path, true, &id, error);
  entry root;
  int code = find_existing(tree, "", &root, error);
  if (code > 0) code = has_entries(tree, ROOT, error);
  return code > 0 ? tsx_fail(error, TSR_EXISTS, "something is already there") : code;
}

static int delete_entry(tsx_tree *tree, const entry *gone, tsr_error *error) {
  const file f = {.id = gone->id};
  sqlite3_stmt *statement;
  int code = prepare(tree, REMOVE, gone->id, &statement, error);
  if (code == TSR_OK) code = change(tree, statement, NULL, error);
  if (code < 0 || gone->directory) return code;
  code = prepare(tree, CUT, piece_id(&f, 0), &statement, error);
  if (code < 0) return code;
  sqlite3_bind_int64(statement, 2, piece_id(&(file){.id = gone->id + 1}, 0));
  return change(tree, statement, NULL, error);
}

static int remove_path(void *it, const char *path, tsr_error *error) {
  tsx_tree *tree = it;
  entry found, parent;
  const char *name;
  int code = find_existing(tree, path, &found, error);
  if (code < 0) return code;
  code = found.directory ? has_entries(tree, found.id, error) : 0;
  if (code > 0) return tsx_fail(error, TSR_EXISTS, "the directory is not empty");
  if (code < 0 || !*path) return code; /* the root goes with the tables */
  code = find_parent(tree, path, &parent, &name, error);
  if (code == TSR_OK) code = delete_entry(tree, &found, error);
  return code == TSR_OK ? touch(tree, parent.id, error) : code;
}

/* Makes way for something that is moved to where `there` is. */
static int replace(tsx_tree *tree, const entry *moved, const entry *there, tsr_error *error) {
  int full = there->directory ? has_entries(tree, there->id, error) : 0;
  if (full < 0) return full;
  if (full || moved->directory != there->directory)
    return tsx_fail(error, TSR_EXISTS, "what is there cannot be replaced");
  return delete_entry(tree, there, error);
}

static int rename_path(void *it, const char *from, const char *to, bool exclusive, tsr_error *error) {
  tsx_tree *tree = it;
  entry moved, there, parents[2];
  const char *names[2];
  sqlite3_stmt *statement;
  if (tree->failure.code) return tsx_fail(error, tree->failure.code, "%s", tree->failure.message);
  int code = find_existing(tree, from, &moved, error);
  if (code >= 0) code = find_parent(tree, from, &parents[0], &names[0], error);
  if (code >= 0) code = find_parent(tree, to, &parents[1], &names[1], error);
  if (code >= 0) code = find(tree, to, &there, error);
  if (code > 0 && exclusive) return tsx_fail(error, TSR_EXISTS, "something is already there");
  if (code > 0 && there.id == moved.id) return TSR_OK;
  if (code > 0) code = replace(tree, &moved, &there, error);
  if (code >= 0) code = prepare(tree, MOVE, moved.id, &statement, error);
  if (code < 0) return code;
  sqlite3_bind_int64(statement, 2, parents[1].id);
  sqlite3_bind_text(statement, 3, names[1], -1, SQLITE_STATIC);
  code = change(tree, statement, NULL, error);
  if (code == TSR_OK) code = touch(tree, parents[0].id, error);
  if (code == TSR_OK && parents[1].id != parents[0].id) code = touch(tree, parents[1].id, error);
  return code;
}

static const tsr_host_store store = {
    .open = tree_open,
    .close = tree_close,
    .open_file = open_file,
    .create_exclusive = create_exclusive,
    .close_file = close_file,
    .read_at = read_at,
    .append = append,
    .sync = sync_file,
    .list = list,
    .stamp = stamp,
    .modified = modified,
    .rename = rename_path,
    .remove = remove_path,
    .make_directory = make_directory,
};

/* ---- For the other files ----------------------------------------------------------------------------------------- */

int tsx_store_register(tsx_connection *connection, tsr_error *error) {
  return tsr_environment_add_store(connection->environment, "db", &store, connection, error);
}

bool tsx_store_is(const char *path) { return !strncmp(path, "db:", 3); }

char *tsx_store_path(const char *schema, const char *name) {
  bool plain = *schema && *name;
  for (const char *p = schema; *p; p++) plain &= (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_';
  for (const char *p = name; *p; p++)
    plain &= (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' || (*p >= '0' && *p <= '9') ||
             (unsigned char)*p >= 0x80;
  return plain ? sqlite3_mprintf("db:%s.%s", schema, name) : sqlite3_mprintf("db:\"%w\".\"%w\"", schema, name);
}

void tsx_store_rest(tsx_connection *connection, bool all) {
  for (tsx_tree *tree = connection->trees; tree; tree = tree->next) {
    if (all) let_go(tree);
    else if (!tree->busy) close_blob(tree);
  }
}

void tsx_store_rolled_back(tsx_connection *connection) {
  for (tsx_tree *tree = connection->trees; tree; tree = tree->next) tree->failure.code = 0; /* its file is gone */
  tsx_store_rest(connection, true);
}

static int run(tsx_connection *connection, char *sql, tsr_error *error) {
  const tsx_tree tree = {.connection = connection};
  int code = sql ? sqlite3_exec(connection->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  return code == SQLITE_OK ? TSR_OK : fail_sql(&tree, code, error);
}

int tsx_store_create(tsx_connection *connection, const char *schema, const char *name, tsr_error *error) {
  sqlite3_int64 last = sqlite3_last_insert_rowid(connection->db);
  unsigned char identity[16];
  char text[33];
  sqlite3_randomness(sizeof identity, identity);
  for (int i = 0; i < 16; i++) sqlite3_snprintf(3, text + 2 * i, "%02x", identity[i]);
  int code = run(connection, sqlite3_mprintf("CREATE TABLE \"%w\".\"%w_files\"%s", schema, name, files_body), error);
  if (code == TSR_OK)
    code = run(connection, sqlite3_mprintf("CREATE TABLE \"%w\".\"%w_chunks\"%s", schema, name, chunks_body), error);
  if (code == TSR_OK)
    code = run(connection,
               sqlite3_mprintf("INSERT INTO \"%w\".\"%w_files\" VALUES(%d, 0, '%s', NULL, %lld, %lld)", schema, name,
                               ROOT, text, (sqlite3_int64)now(), new_stamp()),
               error);
  sqlite3_set_last_insert_rowid(connection->db, last);
  return code;
}

int tsx_store_identity(tsx_connection *connection, const char *path, char **out, tsr_error *error) {
  char identity[IDENTITY];
  tsx_tree tree = {.connection = connection};
  int code = tsx_address_parse(path + strlen("db:"), &tree.schema, &tree.name, error);
  if (code < 0) return code;
  code = read_identity(&tree, tree.name, identity, error);
  if (code == 0) code = tsx_fail(error, TSR_NOT_FOUND, "array not found: %s", path);
  if (code > 0 && !(*out = sqlite3_mprintf("db:%s#%s", tree.schema, identity)))
    code = tsx_fail(error, TSR_NOMEM, "out of memory");
  for (tsx_tree *t = connection->trees; t && code > 0; t = t->next) /* another name may be its table's by now */
    if (!strcmp(t->identity, identity) && !sqlite3_stricmp(t->schema, tree.schema)) let_go(t);
  sqlite3_free(tree.schema);
  sqlite3_free(tree.name);
  return code < 0 ? code : TSR_OK;
}
