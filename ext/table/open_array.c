/* open_array.c: the arrays that a connection has open, and the snapshot of each that a statement sees.
 *
 * SQLite does not tell a virtual table when a statement begins. So a cursor that opens while no other cursor of the
 * connection is open begins a statement (connection->statement.number counts them). All cursors that open before the
 * last of them is closed see the same state of each array. The exception is an array that the connection itself changes
 * meanwhile: cursors that open later see its new state. A function that reads an array counts as a cursor while it
 * runs.
 *
 * Sections: how arrays in the database are made; opening, sharing and closing arrays; snapshots; the hooks by which a
 * connection opens and closes all this. */
#include "table/table_internal.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/names.h"
#include "database/store_sqlite.h"

/* ---- Arrays in the database itself ------------------------------------------------------------------------------- */
/* tessera_sync runs a CREATE VIRTUAL TABLE whose xCreate copies the files of a directory; tessera_copy runs one whose
 * xCreate makes an empty array with the changed schema. So one statement makes the table and its array, and leaves
 * nothing if it fails. connection->database_arrays.making tells xCreate what to make. The statement's text is what
 * tessera_ddl returns, so sqlite_schema has a definition that could make such an array again. */

struct tsx_database_source {
  const char *files; /* the array to copy the files of, or NULL */
  const tsr_sync_options *options; /* of `files` */
  tsr_sync_result *done; /* what was copied */
  const tsr_schema *schema; /* else the schema of the empty array */
  tsr_array *cells; /* NULL, or whose cells the empty array is about to get */
};

int tsx_database_make(tsx_table *table, const tsr_schema *schema, const uint8_t *key, tsr_error *error) {
  tsx_connection *connection = table->connection;
  const tsx_options *options = &table->options;
  tsr_create_options create = {.key = key};
  if (!schema) schema = connection->database_arrays.making->schema;
  TSX_TRY(tsx_store_create(table->connection->db, table->schema_name, table->name, error));
  if (schema) TSX_TRY(tsr_array_create(connection->environment, table->path, schema, &create, error));
  else
    TSX_TRY(tsr_array_sync(connection->environment, connection->database_arrays.making->files, table->path,
                           connection->database_arrays.making->options, connection->database_arrays.making->done,
                           error));
  return tsx_array_open(connection, table->path, key, options->limits.cache_bytes, options->limits.threads,
                        &table->array, error);
}

tsr_array *tsx_database_cells(const tsx_connection *connection) {
  const struct tsx_database_source *making = connection->database_arrays.making;
  return making ? making->cells : NULL;
}

/* Runs a CREATE whose text has been made, which reads the source. The savepoint begins only now, and before the caller
 * writes cells. */
static int execute_create(tsx_connection *connection, const char *sql, const struct tsx_database_source *making,
                          tsr_error *error) {
  if (making->schema) TSX_TRY(tsx_savepoint_begin(connection, "db:", error));
  TSX_TRY(tsx_savepoint_stand_by(connection, error));
  connection->database_arrays.making = making;
  const int result = sqlite3_exec(connection->db, sql, NULL, NULL, NULL);
  connection->database_arrays.making = NULL;
  int code = TSR_OK;
  if (result != SQLITE_OK) code = tsx_fail(error, tsx_core_code(result), "%s", sqlite3_errmsg(connection->db));
  return tsx_savepoint_renew(connection, code, error);
}

/* Runs CREATE VIRTUAL TABLE "schema"."name" USING tessera(...), with the arguments that tessera_ddl would return. */
static int run_create(tsx_connection *connection, const char *schema, const char *name, const tsx_address *source,
                      const struct tsx_database_source *making, tsr_error *error) {
  sqlite3_str *out = sqlite3_str_new(connection->db);
  if (schema) sqlite3_str_appendf(out, "CREATE VIRTUAL TABLE \"%w\".\"%w\" USING tessera(", schema, name);
  else sqlite3_str_appendf(out, "CREATE VIRTUAL TABLE \"%w\" USING tessera(", name);
  int code = tsx_ddl_arguments(out, source, making->schema, error);
  sqlite3_str_appendchar(out, 1, ')');
  char *sql = sqlite3_str_finish(out);
  if (code >= 0) code = sql ? execute_create(connection, sql, making, error) : tsx_out_of_memory(error);
  sqlite3_free(sql);
  return code;
}

/* Makes the table `name` and its array. If `path` is not NULL, *path becomes the array's path, from sqlite3_malloc. */
static int create_table(tsx_connection *connection, const char *name, const tsx_address *source,
                        const struct tsx_database_source *making, char **path, tsr_error *error) {
  char *database = NULL, *table = NULL, *made_path = NULL;
  if (!sqlite3_strnicmp(name, "db:", 3)) name += 3;
  TSX_TRY(tsx_table_name_parse(name, &database, &table, error));
  made_path = tsx_store_path(database ? database : "main", table);
  int code = made_path ? TSR_OK : tsx_out_of_memory(error);
  if (code >= 0 && source->has_key) code = tsx_key_set(connection, made_path, source->key, error);
  if (code >= 0) code = run_create(connection, database, table, source, making, error);
  sqlite3_free(database);
  sqlite3_free(table);
  if (code >= 0 && path) *path = made_path;
  else sqlite3_free(made_path);
  return code;
}

int tsx_database_create(tsx_connection *connection, const char *name, const tsx_address *source,
                        const tsr_schema *schema, char **path, tsr_error *error) {
  const struct tsx_database_source making = {.schema = schema, .cells = source->array ? source->array->core : NULL};
  return create_table(connection, name, source, &making, path, error);
}

int tsx_database_sync(const tsx_address *source, const char *name, const tsr_sync_options *options,
                      tsr_sync_result *done, tsr_error *error) {
  const struct tsx_database_source making = {.files = source->path, .options = options, .done = done};
  return create_table(source->connection, name, source, &making, NULL, error);
}

int tsx_database_adopt(tsx_connection *connection, const char *sql, tsr_error *error) {
  const char *rest;
  sqlite3_stmt *statement = NULL;
  TSX_TRY(tsx_savepoint_stand_by(connection, error));
  connection->database_arrays.adopts = true;
  int result = sqlite3_prepare_v2(connection->db, sql, -1, &statement, &rest);
  const bool single = statement && !*rest; /* texts that somebody has stored may hold more than one */
  if (result == SQLITE_OK && single) result = sqlite3_step(statement);
  connection->database_arrays.adopts = false;
  int code = TSR_OK;
  if (result != SQLITE_DONE && result != SQLITE_OK)
    code = tsx_fail(error, tsx_core_code(result), "%s", sqlite3_errmsg(connection->db));
  else if (!single) code = tsx_fail(error, TSR_CORRUPT, "'%.200s' is not one statement", sql);
  sqlite3_finalize(statement);
  return tsx_savepoint_renew(connection, code, error);
}

int tsx_database_keep(tsx_connection *connection, const char *schema, const char *name, tsr_error *error) {
  char *sql = sqlite3_mprintf("DROP TABLE \"%w\".\"%w\"", schema, name);
  if (!sql) return tsx_out_of_memory(error);
  int code = tsx_savepoint_stand_by(connection, error);
  if (code >= 0) {
    connection->database_arrays.keeps = true;
    const int result = sqlite3_exec(connection->db, sql, NULL, NULL, NULL);
    connection->database_arrays.keeps = false;
    if ((result & 0xff) == SQLITE_LOCKED)
      code = tsx_fail(error, TSR_BUSY, "%s.%s is in use: a statement reads it", schema, name);
    else if (result != SQLITE_OK) code = tsx_fail(error, tsx_core_code(result), "%s", sqlite3_errmsg(connection->db));
    code = tsx_savepoint_renew(connection, code, error);
  }
  sqlite3_free(sql);
  return code;
}

/* ---- Open arrays ------------------------------------------------------------------------------------------------- */

#define IDLE_ARRAYS    16 /* unreferenced arrays that stay open */
#define IDLE_SNAPSHOTS 16 /* snapshots of an array that stay open while a statement reads it at many times */

void tsx_array_trim(tsx_array *array) {
  for (tsx_snapshot **p = &array->snapshots; *p;) {
    tsx_snapshot *snapshot = *p;
    if (snapshot->cursors) {
      p = &snapshot->next;
      continue;
    }
    *p = snapshot->next;
    tsr_snapshot_close(snapshot->core);
    if (snapshot->transaction) tsx_transaction_drop(snapshot->transaction);
    sqlite3_free(snapshot);
    array->snapshot_count--;
  }
}

static void close_array(tsx_array *array) {
  tsx_transaction_close(array);
  tsx_array_trim(array);
  tsx_creation_close(array, !array->making.synced);
  tsr_array_close(array->core);
  tsx_wipe(array->key, sizeof array->key);
  sqlite3_free(array->path);
  sqlite3_free(array->making.name);
  sqlite3_free(array->making.schema);
  sqlite3_free(array->upkeep.failure);
  sqlite3_free(array);
}

static bool same_key(const tsx_array *array, const uint8_t *key) {
  return key ? array->has_key && !memcmp(array->key, key, 32) : !array->has_key;
}

static int open_core(tsx_connection *connection, const char *path, const uint8_t *key, unsigned threads,
                     tsr_creation *creation, tsx_array **out, tsr_error *error) {
  tsx_array *array = sqlite3_malloc64(sizeof *array);
  if (!array) return tsx_out_of_memory(error);
  memset(array, 0, sizeof *array);
  tsr_array_options options = {.key = key, .threads = threads, .creation = creation};
  array->in_database = tsx_store_is(path);
  const tsr_array_host host = {.committed = tsx_journal_committed, .committed_argument = connection};
  if (!array->in_database) options.host = &host;
  int code = tsr_array_open(connection->environment, path, &options, &array->core, error);
  if (code < 0) {
    sqlite3_free(array);
    return code;
  }
  if (key) {
    array->has_key = true;
    memcpy(array->key, key, 32);
  }
  *out = array;
  return TSR_OK;
}

int tsx_array_key(tsx_connection *connection, const char *path, char **key, tsr_error *error) {
  if (tsx_store_is(path)) return tsx_store_identity(connection, path, key, error);
  *key = tsx_path_canonical(path); /* computed each time: the host may change its working directory */
  return *key ? TSR_OK : tsx_out_of_memory(error);
}

/* ALTER TABLE RENAME, and ROLLBACK TO that undoes it, move an array in the database while it is open. */
static int follow_rename(tsx_array *array, const char *path, tsr_error *error) {
  char *schemas[2] = {NULL, NULL}, *names[2] = {NULL, NULL};
  if (!array->in_database || !strcmp(tsr_array_path(array->core), path)) return TSR_OK;
  int code = tsx_table_name_parse(tsr_array_path(array->core) + strlen("db:"), &schemas[0], &names[0], error);
  if (code >= 0) code = tsx_table_name_parse(path + strlen("db:"), &schemas[1], &names[1], error);
  if (code >= 0 && sqlite3_stricmp(names[0], names[1])) code = tsr_array_moved(array->core, path, error);
  for (int i = 0; i < 2; i++) {
    sqlite3_free(schemas[i]);
    sqlite3_free(names[i]);
  }
  return code < 0 ? code : TSR_OK;
}

/* Returns the array if it is open, else opens it. With a creation the array is new and is always opened. */
static int find_or_open_array(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                              unsigned threads, tsr_creation *creation, tsx_array **out, tsr_error *error) {
  char *identity = NULL;
  TSX_TRY(tsr_path_permitted(connection->environment, path, error)); /* before anything touches it */
  TSX_TRY(tsx_array_key(connection, path, &identity, error));
  tsx_array *array = creation ? NULL : connection->arrays.list;
  while (array && (array->gone || strcmp(array->path, identity) || !same_key(array, key))) array = array->next;
  if (array) {
    sqlite3_free(identity);
    TSX_TRY(follow_rename(array, path, error));
  } else {
    const int code = open_core(connection, path, key, threads, creation, &array, error);
    if (code < 0) {
      sqlite3_free(identity);
      return code;
    }
    array->path = identity;
    array->making.creation = creation;
    array->next = connection->arrays.list; /* in front of an earlier array at the same path */
    connection->arrays.list = array;
  }
  array->references++;
  if (cache_bytes != TSX_CACHE_AS_IS) tsr_array_set_cache(array->core, cache_bytes);
  *out = array;
  return TSR_OK;
}

int tsx_array_open(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                   unsigned threads, tsx_array **array, tsr_error *error) {
  return find_or_open_array(connection, path, key, cache_bytes, threads, NULL, array, error);
}

int tsx_array_open_created(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                           unsigned threads, tsr_creation *creation, tsx_array **array, tsr_error *error) {
  return find_or_open_array(connection, path, key, cache_bytes, threads, creation, array, error);
}

void tsx_array_release(tsx_connection *connection, tsx_array *array) {
  if (!array || --array->references) return;
  array->used = ++connection->arrays.clock;
  tsx_array_trim(array);
  uint32_t idle = 0;
  tsx_array **oldest = NULL;
  for (tsx_array **p = &connection->arrays.list; *p; p = &(*p)->next)
    if (!(*p)->references && !(*p)->making.creation && !(*p)->transaction) {
      idle++;
      if (!oldest || (*p)->gone || (!(*oldest)->gone && (*p)->used < (*oldest)->used)) oldest = p;
    }
  if (idle > IDLE_ARRAYS || (oldest && (*oldest)->gone)) {
    array = *oldest;
    *oldest = array->next;
    close_array(array);
  }
}

/* ---- Snapshots --------------------------------------------------------------------------------------------------- */

/* Returns true if the snapshot shows exactly these changes, as they are now; NULL: if it shows none. */
static bool shows_changes(const tsx_snapshot *snapshot, const tsx_transaction *changes) {
  if (snapshot->transaction != changes) return false;
  if (!changes) return true;
  tsr_mark now = tsr_writer_mark(changes->writer);
  return snapshot->rewinds == changes->rewinds && !memcmp(&snapshot->mark, &now, sizeof now);
}

static int open_snapshot(tsx_array *array, tsx_snapshot *snapshot, const tsr_changed *changed, tsx_transaction *changes,
                         tsr_error *error) {
  tsr_snapshot *base = NULL;
  int code = changed ? tsr_snapshot_changed(array->core, snapshot->schema, changed, snapshot->as_of, &base, error)
                     : tsr_snapshot_open(array->core, snapshot->schema, snapshot->since, snapshot->as_of, &base, error);
  if (code < 0 || !changes) {
    snapshot->core = base;
    return code;
  }
  code = tsr_snapshot_with(base, changes->writer, &snapshot->core, error);
  tsr_snapshot_close(base);
  if (code < 0) return code;
  changes->references++;
  snapshot->transaction = changes;
  snapshot->mark = tsr_writer_mark(changes->writer);
  snapshot->rewinds = changes->rewinds;
  return TSR_OK;
}

void tsx_array_changed(tsx_array *array) {
  for (tsx_snapshot *snapshot = array->snapshots; snapshot; snapshot = snapshot->next) snapshot->statement = 0;
}

void tsx_path_changed(tsx_connection *connection, const char *path) {
  char *key = NULL;
  tsr_error ignored;
  if (tsx_array_key(connection, path, &key, &ignored) < 0) return; /* then no array is open at this path */
  for (tsx_array *array = connection->arrays.list; array; array = array->next)
    if (!strcmp(array->path, key)) {
      tsx_transaction_end_unchanged(array);
      tsx_array_changed(array);
      array->changing = true;
    }
  sqlite3_free(key);
}

void tsx_path_close(tsx_connection *connection, const char *path) {
  char *key = NULL;
  tsr_error ignored;
  if (tsx_array_key(connection, path, &key, &ignored) < 0) return; /* then no array is open at this path */
  for (tsx_array **p = &connection->arrays.list; *p;) {
    tsx_array *array = *p;
    const bool idle = !array->references && !array->making.creation && !array->transaction;
    const bool there = !strcmp(array->path, key);
    if (there) tsx_array_trim(array);
    if (there && idle) *p = array->next, close_array(array);
    else p = &array->next;
  }
  sqlite3_free(key);
}

int tsx_array_permitted(tsx_connection *connection, tsx_array *array, tsr_error *error) {
  if (array->in_database || array->permitted == connection->permissions.restrictions) return TSR_OK;
  TSX_TRY(tsr_path_permitted(connection->environment, array->path, error));
  array->permitted = connection->permissions.restrictions;
  return TSR_OK;
}

/* Ends the statement before, and checks that the array may be read. */
static int begin_snapshot(tsx_connection *connection, tsx_array *array, tsr_error *error) {
  const int lost = tsx_connection_report_lost(connection, error);
  if (lost < 0) return lost;
  if (array->revocable) tsx_array_changed(array);
  if (array->revocable && sqlite3_get_autocommit(connection->db)) array->revocable = false;
  if (array->statement != connection->statement.number || array->snapshot_count >= IDLE_SNAPSHOTS) {
    tsx_array_trim(array); /* closes the snapshots of the last statement, whose cursors are closed */
    array->statement = connection->statement.number;
  }
  return TSR_OK;
}

/* Opens a snapshot as `made` says. */
static int add_snapshot(tsx_connection *connection, tsx_array *array, const tsx_snapshot *made,
                        const tsr_changed *changed, tsx_transaction *changes, tsx_snapshot **out, tsr_error *error) {
  if (connection->permissions.restrictions && !array->in_database) {
    int permitted = tsr_path_permitted(connection->environment, array->path, error);
    if (permitted < 0) return permitted;
  }
  tsx_snapshot *snapshot = sqlite3_malloc64(sizeof *snapshot);
  if (!snapshot) return tsx_out_of_memory(error);
  *snapshot = *made;
  int code = open_snapshot(array, snapshot, changed, changes, error);
  if (code < 0) {
    sqlite3_free(snapshot);
    return code;
  }
  snapshot->next = array->snapshots;
  array->snapshots = snapshot;
  array->snapshot_count++;
  *out = snapshot;
  return TSR_OK;
}

int tsx_array_snapshot(tsx_connection *connection, tsx_array *array, const tsr_schema *schema, uint64_t since,
                       uint64_t as_of, bool with_changes, tsx_snapshot **out, tsr_error *error) {
  tsx_transaction *changes = with_changes && as_of == TSR_TIME_NOW ? array->transaction : NULL;
  TSX_TRY(begin_snapshot(connection, array, error));
  for (tsx_snapshot *snapshot = array->snapshots; snapshot; snapshot = snapshot->next)
    if (snapshot->statement == connection->statement.number && snapshot->schema == schema && snapshot->since == since &&
        snapshot->as_of == as_of && shows_changes(snapshot, changes)) {
      snapshot->cursors++;
      *out = snapshot;
      return TSR_OK;
    }
  const tsx_snapshot made = {
      .schema = schema, .since = since, .as_of = as_of, .statement = connection->statement.number, .cursors = 1};
  return add_snapshot(connection, array, &made, NULL, changes, out, error);
}

int tsx_array_snapshot_changed(tsx_connection *connection, tsx_array *array, const tsr_schema *schema,
                               const tsr_changed *changed, uint64_t as_of, bool with_changes, tsx_snapshot **out,
                               tsr_error *error) {
  tsx_transaction *changes = with_changes && as_of == TSR_TIME_NOW ? array->transaction : NULL;
  TSX_TRY(begin_snapshot(connection, array, error));
  const tsx_snapshot made = {.schema = schema, .as_of = as_of, .changed = true, .cursors = 1};
  return add_snapshot(connection, array, &made, changed, changes, out, error);
}

int tsx_table_snapshot(tsx_table *table, tsx_snapshot **snapshot, tsr_error *error) {
  return tsx_array_snapshot(table->connection, table->array, table->schema, table->options.times.since,
                            table->options.times.as_of, true, snapshot, error);
}

void tsx_snapshots_undo(tsx_array *array, const tsx_transaction *transaction, tsr_mark kept) {
  for (tsx_snapshot *snapshot = array->snapshots; snapshot; snapshot = snapshot->next) {
    const tsr_mark mark = snapshot->mark;
    if (snapshot->transaction == transaction &&
        (mark.cells > kept.cells || mark.removed > kept.removed || mark.boxes > kept.boxes))
      snapshot->undone = true;
  }
}

int tsx_snapshot_check(const tsx_snapshot *snapshot, tsr_error *error) {
  if (!snapshot || !snapshot->undone) return TSR_OK;
  return tsx_fail(error, TSR_ABORT, "the statement reads changes that have been rolled back: run it again");
}

void tsx_snapshot_release(tsx_snapshot *snapshot) {
  if (snapshot) snapshot->cursors--;
}

/* ---- Hooks of the connection ------------------------------------------------------------------------------------- */

static int when_opened(tsx_connection *connection, tsr_error *error) {
  tsx_journal_make_id(connection->random_place);
  return tsx_store_register(connection, error);
}

static void when_cursors_are_closed(tsx_connection *connection) {
  for (tsx_table *t = connection->tables.arrays; t && connection->statement.tiles_kept; t = t->next)
    tsx_cursor_forget_tiles(t);
  connection->statement.tiles_kept = false;
  tsx_store_release(connection, false);
}

static void when_tables_are_gone(tsx_connection *connection) { tsx_store_release(connection, true); }

static void when_closing(tsx_connection *connection) {
  tsx_leftovers_forget(connection);
  tsx_deferred_close(connection);
  while (connection->arrays.list) {
    tsx_array *array = connection->arrays.list;
    connection->arrays.list = array->next;
    close_array(array);
  }
  tsx_keys_free(connection);
}

const tsx_connection_hooks tsx_open_array_hooks = {.opened = when_opened,
                                                   .cursors_closed = when_cursors_are_closed,
                                                   .tables_gone = when_tables_are_gone,
                                                   .closing = when_closing};
