/* store_tables.c: the shadow tables of an array inside the database, and the statements on them.
 *
 *   NAME_files    id        of a file or directory; 1 is the root
 *                 parent    id of its directory; 0 for the root
 *                 name      within its directory; the root's name identifies the array: 32 random hex digits
 *                 size      bytes; NULL for a directory
 *                 modified  milliseconds since 1970
 *                 stamp     of a directory: a random number that changes when an entry is added, removed or renamed;
 *                           of a file: a random number that never changes
 *   NAME_chunks   id        id of the file << 32 | number of the chunk
 *                 bytes     65,536 bytes, fewer in the last chunk of a file; an empty file has no chunks
 *
 * Invariants: (parent, name) is unique; ids are below 2^31; a directory's parent is a directory. All of this is
 * validated on reading, like the contents of files, because every user of the database can write these tables. Stamps
 * are random, so a directory's state that was rolled back never has the stamp of a later state, or of another
 * connection's. Ids are reused: after the file with the highest id is removed, after a rollback, in the tables of
 * another array that gets the name. Id and stamp together identify one file for ever.
 *
 * Chunks are read through one blob handle. The handle holds the read transaction open, so it is closed when the
 * connection has no open cursor. Statements are finalized when the connection has no more tables, since sqlite3_close()
 * refuses to close a connection with open statements.
 *
 * Sections: errors; the tables and how they are found; chunks; the tree; the store. */
#include "database/store_sqlite.h"

#include <string.h>
#include <time.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/names.h"
#include "sql/statement.h"
#include "tessera_host.h"

static const char files_body[] = "(id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name TEXT NOT NULL, size INTEGER, "
                                 "modified INTEGER NOT NULL, stamp INTEGER NOT NULL, UNIQUE(parent, name))";
static const char chunks_body[] = "(id INTEGER PRIMARY KEY, bytes BLOB NOT NULL)";

/* SQL. $ and the suffix after it are replaced by "SCHEMA"."NAME" with that suffix. */
static const char *const statement_texts[TSX_TREE_STATEMENTS] = {
    [TSX_TREE_FIND] = "SELECT id, size, modified, stamp FROM $_files WHERE parent = ?1 AND name = ?2",
    [TSX_TREE_GET] = "SELECT id, size, modified, stamp, name FROM $_files WHERE id = ?1",
    [TSX_TREE_LIST] = "SELECT name, size IS NULL FROM $_files WHERE parent = ?1",
    [TSX_TREE_ADD] = "INSERT INTO $_files(parent, name, size, modified, stamp) VALUES(?1, ?2, ?3, ?4, ?5)",
    [TSX_TREE_TOUCH] = "UPDATE $_files SET stamp = ?2, modified = ?3 WHERE id = ?1",
    [TSX_TREE_RESIZE] = "UPDATE $_files SET size = ?2, modified = ?3 WHERE id = ?1",
    [TSX_TREE_MOVE] = "UPDATE $_files SET parent = ?2, name = ?3 WHERE id = ?1",
    [TSX_TREE_REMOVE] = "DELETE FROM $_files WHERE id = ?1",
    [TSX_TREE_PUT] = "INSERT OR REPLACE INTO $_chunks(id, bytes) VALUES(?1, ?2)",
    [TSX_TREE_CUT] = "DELETE FROM $_chunks WHERE id >= ?1 AND id < ?2",
    [TSX_TREE_MEASURE] = "SELECT length(bytes) FROM $_chunks WHERE id = ?1",
};

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

/* Returns true for failures on which SQLite rolls back a transaction. */
static bool ends_transaction(int code) {
  switch (code & 0xff) {
  case SQLITE_NOMEM:
  case SQLITE_INTERRUPT:
  case SQLITE_IOERR:
  case SQLITE_FULL: return true;
  default: return false;
  }
}

int tsx_tree_fail(const tsx_tree *tree, int code, tsr_error *error) {
  /* SQLITE_CANTOPEN is about a file of the database, such as its journal. TSR_NOT_FOUND would be about a file of the
   * array. */
  const int core = (code & 0xff) == SQLITE_CANTOPEN ? TSR_IO : tsx_core_code(code);
  if (ends_transaction(code) && tree->connection && !tree->scratch)
    tsx_connection_fail_savepoint(tree->connection, core);
  if (code == SQLITE_INTERRUPT) return tsx_fail_cancelled(error); /* errmsg may belong to an earlier error */
  return tsx_fail(error, core, "%s", code == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(tree->db));
}

int tsx_tree_missing(tsr_error *error) { return tsx_fail(error, TSR_NOT_FOUND, "no such file"); }

/* ---- The tables -------------------------------------------------------------------------------------------------- */

uint64_t tsx_tree_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

sqlite3_int64 tsx_tree_stamp(void) {
  sqlite3_int64 stamp;
  sqlite3_randomness(sizeof stamp, &stamp);
  stamp &= INT64_MAX;
  return stamp ? stamp : 1;
}

/* Returns 1 if a shadow table exists as it was created; 0 if it does not exist; or an error. */
static int check_table(const tsx_tree *tree, const char *name, const char *suffix, const char *body, tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  char *table = sqlite3_mprintf("%s_%s", name, suffix);
  int code = table ? tsx_schema_find(tree->db, tree->schema, table, &statement) : SQLITE_NOMEM;
  int result = code == SQLITE_ROW && !strcmp((const char *)sqlite3_column_text(statement, 0), "table");
  sqlite3_free(table);
  if (result > 0) {
    const char *text = (const char *)sqlite3_column_text(statement, 1);
    size_t length = text ? strlen(text) : 0, body_length = strlen(body);
    if (length < body_length || strcmp(text + length - body_length, body))
      result = tsx_fail(error, TSR_CORRUPT, "the table %s_%s was altered", name, suffix);
  } else if (code != SQLITE_ROW && code != SQLITE_DONE && (code & 0xff) != SQLITE_ERROR) { /* no such schema */
    result = tsx_tree_fail(tree, code, error);
  }
  sqlite3_finalize(statement);
  return result;
}

/* Reads the root's name from the tables of `name`. Returns 1; 0 if the tables do not exist; or an error. */
static int read_identity(const tsx_tree *tree, const char *name, char identity[TSX_ID_SIZE], tsr_error *error) {
  sqlite3_stmt *statement;
  int result = check_table(tree, name, "files", files_body, error);
  if (result <= 0) return result;
  char *sql = sqlite3_mprintf("SELECT name FROM \"%w\".\"%w_files\" WHERE id = %d AND parent = 0 AND size IS NULL",
                              tree->schema, name, TSX_TREE_ROOT);
  int code = tsx_sql_first_plain(tree->db, sql, &statement);
  const char *text = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
  if (code == SQLITE_DONE || (code == SQLITE_ROW && (!text || strlen(text) != TSX_ID_SIZE - 1)))
    result = tsx_fail(error, TSR_CORRUPT, "the table %s_files has no root", name);
  else if (code != SQLITE_ROW) result = tsx_tree_fail(tree, code, error);
  else memcpy(identity, text, TSX_ID_SIZE);
  sqlite3_finalize(statement);
  return result;
}

/* Expands the table names in a statement's text for this tree; from sqlite3_malloc. */
static char *expand_names(const tsx_tree *tree, const char *text) {
  sqlite3_str *out = sqlite3_str_new(tree->db);
  for (const char *dollar; (dollar = strchr(text, '$')); text = dollar + 1 + strcspn(dollar + 1, "( ")) {
    const char *suffix = dollar + 1;
    sqlite3_str_append(out, text, (int)(dollar - text));
    sqlite3_str_appendf(out, "\"%w\".\"%w%.*s\"", tree->schema, tree->name, (int)strcspn(suffix, "( "), suffix);
  }
  sqlite3_str_appendall(out, text);
  return sqlite3_str_finish(out);
}

void tsx_tree_close_blob(tsx_tree *tree) {
  sqlite3_blob *blob = tree->blob;
  tree->blob = NULL;
  if (!blob) return;
  tree->connection->database_arrays.epoch++;
  tree->busy++;
  sqlite3_blob_close(blob);
  tree->busy--;
}

/* Closes the blob, finalizes all statements, and makes the next use look up the tables again. */
void tsx_tree_forget(tsx_tree *tree) {
  tsx_tree_close_blob(tree);
  tree->busy++;
  for (int i = 0; i < TSX_TREE_STATEMENTS; i++) {
    sqlite3_stmt *statement = tree->statements[i];
    tree->statements[i] = NULL;
    sqlite3_finalize(statement);
  }
  tree->busy--;
  tree->known = tree->stale = false;
  tree->connection->database_arrays.epoch++;
}

/* Does the same, now or as soon as no SQLite call for this tree is running. */
static void forget_soon(tsx_tree *tree) {
  if (tree->busy) tree->stale = true;
  else tsx_tree_forget(tree);
}

int tsx_tree_step(tsx_tree *tree, sqlite3_stmt *statement) {
  tree->busy++;
  int code = sqlite3_step(statement);
  tree->busy--;
  return code;
}

/* Searches all tables of the schema for the tree's root, and sets tree->name: the tables have been renamed, or a rename
 * was rolled back. Returns 1 if it was found, 0 if not, or an error. */
static int search_tables(tsx_tree *tree, tsr_error *error) {
  sqlite3_stmt *statement;
  int code = tsx_schema_tables(tree->db, tree->schema, "_files", &statement), result = 0;
  for (; code == SQLITE_ROW && !result; code = result ? SQLITE_DONE : sqlite3_step(statement)) {
    const char *name = (const char *)sqlite3_column_text(statement, 0);
    char identity[TSX_ID_SIZE];
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
  if (code != SQLITE_ROW && code != SQLITE_DONE) result = tsx_tree_fail(tree, code, error);
  sqlite3_finalize(statement);
  return result;
}

int tsx_tree_look(tsx_tree *tree, tsr_error *error) {
  char identity[TSX_ID_SIZE];
  if (tree->connection->quiet && !tree->scratch) return 0;
  if (tree->stale && !tree->busy) tsx_tree_forget(tree);
  if (tree->known) return 1;
  int there = read_identity(tree, tree->name, identity, error);
  if (there < 0) return there;
  bool other = tree->identity[0] && (!there || strcmp(identity, tree->identity));
  if (other) there = search_tables(tree, error);
  if (there <= 0) return there;
  int chunks = check_table(tree, tree->name, "chunks", chunks_body, error);
  if (chunks == 0) return tsx_fail(error, TSR_CORRUPT, "the table %s_chunks is missing", tree->name);
  if (chunks < 0) return chunks;
  if (!other) memcpy(tree->identity, identity, TSX_ID_SIZE);
  tree->known = true;
  return 1;
}

int tsx_tree_prepare(tsx_tree *tree, tsx_tree_statement one, sqlite3_int64 first, sqlite3_stmt **out,
                     tsr_error *error) {
  int there = tree->scratch ? TSR_OK : tsx_connection_in_savepoint(tree->connection, error);
  if (there == TSR_OK) there = tsx_tree_look(tree, error);
  if (there < 0) return there;
  if (!there) return tsx_tree_missing(error);
  if (!tree->statements[one]) {
    char *sql = expand_names(tree, statement_texts[one]);
    int code = sql ? sqlite3_prepare_v3(tree->db, sql, -1, SQLITE_PREPARE_PERSISTENT | SQLITE_PREPARE_NO_VTAB,
                                        &tree->statements[one], NULL)
                   : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (code != SQLITE_OK) return tsx_tree_fail(tree, code, error);
  }
  *out = tree->statements[one];
  sqlite3_bind_int64(*out, 1, first);
  return TSR_OK;
}

void tsx_tree_done(tsx_tree *tree, sqlite3_stmt *statement) {
  tree->busy++;
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  tree->busy--;
  if (tree->stale || !tree->connection->tables.count)
    forget_soon(tree); /* without a table, no later call would finalize them before sqlite3_close() */
}

int tsx_tree_change(tsx_tree *tree, sqlite3_stmt *statement, sqlite3_int64 *added, tsr_error *error) {
  sqlite3 *db = tree->db;
  sqlite3_int64 last = sqlite3_last_insert_rowid(db);
  int code = tsx_tree_step(tree, statement);
  if (added) *added = sqlite3_last_insert_rowid(db);
  sqlite3_set_last_insert_rowid(db, last);
  int result = TSR_OK;
  if ((code & 0xff) == SQLITE_CONSTRAINT && added) result = tsx_fail(error, TSR_EXISTS, "something is already there");
  else if (code != SQLITE_DONE) result = tsx_tree_fail(tree, code, error);
  tsx_tree_done(tree, statement);
  return result;
}

int tsx_tree_take(tsx_tree *tree, sqlite3_stmt *statement, tsx_entry *found, tsr_error *error) {
  int code = tsx_tree_step(tree, statement), result = 0;
  if (code == SQLITE_ROW) {
    sqlite3_int64 id = sqlite3_column_int64(statement, 0), size = sqlite3_column_int64(statement, 1);
    *found = (tsx_entry){.id = id,
                         .directory = sqlite3_column_type(statement, 1) == SQLITE_NULL,
                         .size = (uint64_t)size,
                         .modified = (uint64_t)sqlite3_column_int64(statement, 2),
                         .stamp = (uint64_t)sqlite3_column_int64(statement, 3)};
    bool number = sqlite3_column_type(statement, 1) == SQLITE_INTEGER;
    bool valid = id >= TSX_TREE_ROOT && id < TSX_TREE_FILES_MAX && (found->directory || (number && size >= 0));
    result = valid ? 1 : tsx_fail(error, TSR_CORRUPT, "row %lld of %s_files is invalid", id, tree->name);
  } else if (code != SQLITE_DONE) {
    result = tsx_tree_fail(tree, code, error);
  }
  tsx_tree_done(tree, statement);
  return result;
}

/* Returns 1 if the known tables have the tree's root, 0 if not, or an error. */
static int has_root(tsx_tree *tree, tsr_error *error) {
  sqlite3_stmt *statement;
  int code = tsx_tree_prepare(tree, TSX_TREE_GET, TSX_TREE_ROOT, &statement, error);
  if (code < 0) return code;
  int step = tsx_tree_step(tree, statement);
  const char *name = step == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 4) : NULL;
  if (step == SQLITE_ROW) code = name && !strcmp(name, tree->identity);
  else code = step == SQLITE_DONE ? 0 : tsx_tree_fail(tree, step, error);
  if (code > 0 && sqlite3_column_type(statement, 1) != SQLITE_NULL)
    code = tsx_fail(error, TSR_CORRUPT, "the root of %s_files is a file", tree->name);
  tsx_tree_done(tree, statement);
  return code;
}

int tsx_tree_root(tsx_tree *tree, tsr_error *error) {
  int there = tsx_tree_look(tree, error);
  if (there <= 0) return there;
  there = has_root(tree, error);
  if (there > 0 || (there < 0 && there != TSR_ERROR)) return there; /* TSR_ERROR: there is no such table any more */
  tsx_tree_forget(tree);
  return tsx_tree_look(tree, error);
}

/* ---- Chunks --------------------------------------------------------------------------------------------------- */

int tsx_tree_room(const tsx_tree *tree, uint64_t *bytes, tsr_error *error) {
  *bytes = 1;
  for (int i = 0; i < 2; i++) {
    sqlite3_stmt *statement;
    char *sql = sqlite3_mprintf("PRAGMA \"%w\".%s", tree->schema, i ? "page_count" : "page_size");
    int code = tsx_sql_first_plain(tree->db, sql, &statement);
    if (code == SQLITE_ROW) *bytes *= (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    if (code != SQLITE_ROW) return tsx_tree_fail(tree, code, error);
  }
  return TSR_OK;
}

int tsx_tree_open_chunk(tsx_tree *tree, sqlite3_int64 id, tsr_error *error) {
  sqlite3 *db = tree->db;
  int code = tsx_tree_look(tree, error);
  if (code < 0) return code;
  if (code == 0) return tsx_tree_missing(error);
  tree->busy++;
  code = tree->blob ? sqlite3_blob_reopen(tree->blob, id) : SQLITE_ABORT;
  if ((code & 0xff) == SQLITE_ABORT) { /* not open, or the row under it has changed */
    tsx_tree_close_blob(tree);
    char *table = sqlite3_mprintf("%s_chunks", tree->name);
    code = table ? sqlite3_blob_open(db, tree->schema, table, "bytes", id, 0, &tree->blob) : SQLITE_NOMEM;
    sqlite3_free(table);
  }
  tree->busy--;
  if (code == SQLITE_OK) return TSR_OK;
  int result = (code & 0xff) == SQLITE_ERROR
                   ? tsx_fail(error, TSR_CORRUPT, "row %lld of %s_chunks: %s", id, tree->name, sqlite3_errmsg(db))
                   : tsx_tree_fail(tree, code, error);
  if (tree->stale) tsx_tree_forget(tree);
  else tsx_tree_close_blob(tree);
  return result;
}

int tsx_tree_read(tsx_tree *tree, sqlite3_int64 row, uint64_t length, uint64_t offset, void *buffer, uint64_t size,
                  tsr_error *error) {
  if ((uint64_t)sqlite3_blob_bytes(tree->blob) != length)
    return tsx_fail(error, TSR_CORRUPT, "row %lld of %s_chunks has %d bytes, not %llu", row, tree->name,
                    sqlite3_blob_bytes(tree->blob), (unsigned long long)length);
  tree->busy++;
  int step = sqlite3_blob_read(tree->blob, buffer, (int)size, (int)offset);
  tree->busy--;
  int code = step == SQLITE_OK ? TSR_OK : tsx_tree_fail(tree, step, error);
  if (tree->stale) tsx_tree_forget(tree);
  return code;
}

/* ---- The tree ---------------------------------------------------------------------------------------------------- */

int tsx_tree_open(void *argument, const char *path, void **out, tsr_error *error) {
  tsx_connection *connection = argument;
  char *schema, *name;
  TSX_TRY(tsx_table_name_parse(path + strlen("db:"), &schema, &name, error));
  tsx_tree *tree = schema ? sqlite3_malloc64(sizeof *tree) : NULL;
  if (!tree) {
    sqlite3_free(schema);
    sqlite3_free(name);
    return tsx_out_of_memory(error);
  }
  memset(tree, 0, sizeof *tree);
  tree->connection = connection;
  tree->db = connection->db;
  tree->schema = schema;
  tree->name = name;
  tree->next = connection->database_arrays.trees;
  connection->database_arrays.trees = tree;
  *out = tree;
  return TSR_OK;
}

void tsx_tree_close(void *it) {
  tsx_tree *tree = it;
  tsx_tree **link = &tree->connection->database_arrays.trees;
  while (*link != tree) link = &(*link)->next;
  *link = tree->next;
  tsx_tree_forget(tree);
  sqlite3_free(tree->schema);
  sqlite3_free(tree->name);
  sqlite3_free(tree);
}

/* ---- The store --------------------------------------------------------------------------------------------------- */

void tsx_store_release(tsx_connection *connection, bool all) {
  for (tsx_tree *tree = connection->database_arrays.trees; tree; tree = tree->next) {
    if (all) forget_soon(tree);
    else if (!tree->busy) tsx_tree_close_blob(tree);
  }
}

void tsx_store_pin(tsx_connection *connection) { connection->database_arrays.holders++; }

void tsx_store_unpin(tsx_connection *connection) {
  if (!--connection->database_arrays.holders && !connection->statement.cursors) tsx_store_release(connection, false);
}

void tsx_store_rolled_back(tsx_connection *connection) {
  for (tsx_tree *tree = connection->database_arrays.trees; tree; tree = tree->next)
    tree->failure.code = 0; /* the rollback has removed the file */
  tsx_store_release(connection, true);
}

/* Runs SQL, and frees its text. */
static int run_sql(sqlite3 *db, char *sql, tsr_error *error) {
  const tsx_tree tree = {.db = db};
  const int code = tsx_sql_run(db, sql, NULL);
  return code == SQLITE_OK ? TSR_OK : tsx_tree_fail(&tree, code, error);
}

/* A statement that might write takes the lock when it begins, even if it then changes no row. Other errors, such as a
 * missing table, are left to the caller's next write, which runs into them again. */
int tsx_store_lock(tsx_connection *connection, const char *path, tsr_error *error) {
  char *schema, *name;
  tsr_error ignored;
  if (tsx_table_name_parse(path + strlen("db:"), &schema, &name, &ignored) < 0) return TSR_OK;
  char *sql = sqlite3_mprintf("DELETE FROM \"%w\".\"%w_files\" WHERE 0", schema ? schema : "main", name);
  const int code = tsx_sql_run(connection->db, sql, NULL);
  sqlite3_free(schema);
  sqlite3_free(name);
  if (!ends_transaction(code) && (code & 0xff) != SQLITE_BUSY && (code & 0xff) != SQLITE_LOCKED) return TSR_OK;
  const tsx_tree tree = {.db = connection->db};
  return tsx_tree_fail(&tree, code, error);
}

static int create_tables(sqlite3 *db, const char *schema, const char *name, const char *identity, tsr_error *error) {
  TSX_TRY(run_sql(db, sqlite3_mprintf("CREATE TABLE \"%w\".\"%w_files\"%s", schema, name, files_body), error));
  TSX_TRY(run_sql(db, sqlite3_mprintf("CREATE TABLE \"%w\".\"%w_chunks\"%s", schema, name, chunks_body), error));
  return run_sql(db,
                 sqlite3_mprintf("INSERT INTO \"%w\".\"%w_files\" VALUES(%d, 0, '%s', NULL, %lld, %lld)", schema, name,
                                 TSX_TREE_ROOT, identity, (sqlite3_int64)tsx_tree_now(), tsx_tree_stamp()),
                 error);
}

int tsx_store_create(sqlite3 *db, const char *schema, const char *name, tsr_error *error) {
  const sqlite3_int64 last = sqlite3_last_insert_rowid(db);
  unsigned char identity[16];
  char text[33];
  sqlite3_randomness(sizeof identity, identity);
  tsr_hex_write(identity, sizeof identity, text);
  const int code = create_tables(db, schema, name, text, error);
  sqlite3_set_last_insert_rowid(db, last);
  return code;
}

int tsx_store_identity(tsx_connection *connection, const char *path, char **out, tsr_error *error) {
  char identity[TSX_ID_SIZE];
  tsx_tree tree = {.connection = connection, .db = connection->db};
  TSX_TRY(tsx_table_name_parse(path + strlen("db:"), &tree.schema, &tree.name, error));
  int code = read_identity(&tree, tree.name, identity, error);
  if (code == 0) code = tsx_fail(error, TSR_NOT_FOUND, "array not found: %s", path);
  if (code > 0 && !(*out = sqlite3_mprintf("db:%s#%s", tree.schema, identity))) code = tsx_out_of_memory(error);
  for (tsx_tree *t = connection->database_arrays.trees; t && code > 0;
       t = t->next) /* the table may have been renamed */
    if (!strcmp(t->identity, identity) && !sqlite3_stricmp(t->schema, tree.schema)) forget_soon(t);
  sqlite3_free(tree.schema);
  sqlite3_free(tree.name);
  return code < 0 ? code : TSR_OK;
}
