/* connection.c: what belongs to a connection rather than to one of its tables: the environment, the arrays that are
 * open (VACUUM and schema changes disconnect tables; decoded tiles should outlive that), and the state of each array
 * that a statement sees.
 *
 * Statements: SQLite does not tell a virtual table when a statement begins. A cursor that opens while no other is open
 * begins one; all cursors that open before the last of them is closed see the same state of each array, but of one that
 * the connection itself changes meanwhile: what opens from then on sees it as it is then. A function that reads an array
 * is a cursor while it runs.
 */
#include "connection/connection.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "database/store_tables.h"
#include "table/address.h"
#include "table/creation.h"
#include "table/cursor.h"
#include "table/journal.h"
#include "table/module.h"
#include "table/transaction.h"

#define IDLE_ARRAYS    16 /* arrays that no table uses are kept so many */
#define IDLE_SNAPSHOTS 16 /* and states of an array that no cursor reads, within a statement that visits many times */

#define LARGEST_BLOCK 0x7ffffe00 /* bytes: sqlite3_malloc64 gives no more at once, with the header of its own */

static void *reallocate(void *argument, void *pointer, uint64_t size) {
  (void)argument;
  if (!size) {
    sqlite3_free(pointer);
    return NULL;
  }
  return sqlite3_realloc64(pointer, size);
}

/* SQLite before 3.41 cannot be asked whether it was interrupted, but any nested statement is stopped by it; and its
 * steps drive the progress handler, which may stop us too. So a tiny statement is run, in every version. A handler is
 * called once in N steps, and N is 1,000 and more in most programs: so that work without rows counts like rows, each
 * MiB decoded and each 32nd question pay with some 500 steps. */
#define POLL_BYTES     ((uint64_t)1 << 20)
#define POLL_QUESTIONS 32

static const char *const poll_texts[] = {
    "SELECT 1",
    "WITH RECURSIVE step(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM step WHERE i < 32) SELECT count(*) FROM step"};

static bool is_due(tsx_connection *connection) {
  tsr_counters counters;
  tsr_environment_counters(connection->environment, &counters);
  uint64_t bytes = counters.bytes_decoded - connection->polled_bytes; /* wraps where the counters began anew */
  if (++connection->questions < POLL_QUESTIONS && bytes < POLL_BYTES) return false;
  connection->questions = 0;
  connection->polled_bytes = counters.bytes_decoded;
  return true;
}

bool tsx_connection_cancelled(void *argument) {
  tsx_connection *connection = argument;
  for (int i = 0; i < 2 && connection->tables; i++)
    if (!connection->polls[i])
      sqlite3_prepare_v3(connection->db, poll_texts[i], -1, SQLITE_PREPARE_PERSISTENT, &connection->polls[i], NULL);
  sqlite3_stmt *poll = connection->polls[is_due(connection) && connection->polls[1] ? 1 : 0];
  if (!poll) return false;
  int code = sqlite3_step(poll);
  sqlite3_reset(poll);
  return code == SQLITE_INTERRUPT;
}

/* Where SQLite was built or set to run single-threaded, its allocator takes no locks and workers must not exist. */
static bool single_threaded(void) {
  if (!sqlite3_threadsafe()) return true;
  sqlite3_mutex *a = sqlite3_mutex_alloc(SQLITE_MUTEX_FAST), *b = sqlite3_mutex_alloc(SQLITE_MUTEX_FAST);
  bool single = !a || a == b;
  sqlite3_mutex_free(a);
  if (!single || b != a) sqlite3_mutex_free(b);
  return single;
}

int tsx_connection_open(sqlite3 *db, tsx_connection **out, tsr_error *error) {
  tsx_connection *connection = sqlite3_malloc64(sizeof *connection);
  if (!connection) return tsx_out_of_memory(error);
  memset(connection, 0, sizeof *connection);
  connection->db = db;
  connection->references = 1;
  connection->utf16 = -1;
  tsx_journal_make_id(connection->by_chance);
  tsr_environment_options options = {.reallocate = reallocate,
                                     .largest_block = LARGEST_BLOCK,
                                     .interrupted = tsx_connection_cancelled,
                                     .interrupted_argument = connection,
                                     .single_threaded = single_threaded()};
  int code = tsr_environment_open(&options, &connection->environment, error);
  if (code < 0) {
    sqlite3_free(connection);
    return code;
  }
  if ((code = tsx_store_register(connection, error)) < 0) {
    tsr_environment_close(connection->environment);
    sqlite3_free(connection);
    return code;
  }
  *out = connection;
  return TSR_OK;
}

void tsx_connection_hold(tsx_connection *connection) { connection->references++; }

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
  tsx_creation_close(array, !array->synced);
  tsr_array_close(array->core);
  tsx_wipe(array->key, sizeof array->key);
  sqlite3_free(array->path);
  sqlite3_free(array->creation_name);
  sqlite3_free(array->creation_schema);
  sqlite3_free(array);
}

void tsx_connection_drop(void *argument) {
  tsx_connection *connection = argument;
  if (--connection->references) return;
  while (connection->arrays) {
    tsx_array *array = connection->arrays;
    connection->arrays = array->next;
    close_array(array);
  }
  tsx_keys_free(connection);
  tsr_environment_close(connection->environment);
  sqlite3_free(connection->lost);
  sqlite3_free(connection);
}

void tsx_connection_keep_lost(tsx_connection *connection, const tsr_error *error) {
  sqlite3_free(connection->lost);
  connection->lost = sqlite3_mprintf("an earlier COMMIT was done in the database alone: %s", error->message);
  connection->lost_code = error->code;
}

int tsx_connection_tell_lost(tsx_connection *connection, tsr_error *error) {
  if (!connection->lost) return TSR_OK;
  const int code = tsx_fail(error, connection->lost_code, "%s", connection->lost);
  sqlite3_free(connection->lost);
  connection->lost = NULL;
  return code;
}

void tsx_connection_add_table(tsx_connection *connection) { connection->tables++; }

/* sqlite3_close() refuses while statements are open, but disconnects all tables first: the last one takes the statement
 * along. */
void tsx_connection_remove_table(tsx_connection *connection) {
  if (--connection->tables) return;
  tsx_store_rest(connection, true);
  for (int i = 0; i < 2; i++) {
    sqlite3_finalize(connection->polls[i]);
    connection->polls[i] = NULL;
  }
}

void tsx_connection_add_cursor(tsx_connection *connection) {
  if (!connection->cursors++) connection->statement++;
}

void tsx_connection_remove_cursor(tsx_connection *connection) {
  if (--connection->cursors) return;
  for (tsx_table *t = connection->array_tables; t && connection->tiles_kept; t = t->next) tsx_cursor_forget_tiles(t);
  connection->tiles_kept = false;
  tsx_store_rest(connection, false);
}

unsigned tsx_connection_text(tsx_connection *connection) {
  if (connection->utf16 < 0) {
    sqlite3_stmt *statement = NULL;
    connection->utf16 = TSX_UTF16; /* the careful answer, if it cannot be asked */
    if (sqlite3_prepare_v2(connection->db, "PRAGMA main.encoding", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
      const char *name = (const char *)sqlite3_column_text(statement, 0);
      connection->utf16 = !name || !strcmp(name, "UTF-16le") ? TSX_UTF16
                          : strcmp(name, "UTF-8")            ? TSX_UTF16 | TSX_UTF16BE
                                                             : 0;
    }
    sqlite3_finalize(statement);
  }
  return (unsigned)connection->utf16;
}

bool tsx_connection_utf16(tsx_connection *connection) { return tsx_connection_text(connection) != 0; }

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
  if (!array->in_database) options.committed = tsx_journal_committed;
  options.committed_argument = connection;
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
  *key = tsx_path_canonical(path); /* what it means now: the host may change its directory */
  return *key ? TSR_OK : tsx_out_of_memory(error);
}

/* Opens what is open already, but for a creation, which is new. */
static int connection_open_array(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                                 unsigned threads, tsr_creation *creation, tsx_array **out, tsr_error *error) {
  char *present = NULL;
  int code = tsx_array_key(connection, path, &present, error);
  if (code < 0) return code;
  tsx_array *array = creation ? NULL : connection->arrays;
  while (array && (array->gone || strcmp(array->path, present) || !same_key(array, key))) array = array->next;
  if (array) {
    sqlite3_free(present);
    code = tsr_path_permitted(connection->environment, path, error);
    if (code < 0) return code;
  } else {
    code = open_core(connection, path, key, threads, creation, &array, error);
    if (code < 0) {
      sqlite3_free(present);
      return code;
    }
    array->path = present;
    array->creation = creation;
    array->next = connection->arrays; /* before one that was at this path earlier */
    connection->arrays = array;
  }
  array->tables++;
  if (cache_bytes != TSX_CACHE_AS_IS) tsr_array_set_cache(array->core, cache_bytes); /* 0, too, means what it says */
  *out = array;
  return TSR_OK;
}

int tsx_array_open(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                   unsigned threads, tsx_array **array, tsr_error *error) {
  return connection_open_array(connection, path, key, cache_bytes, threads, NULL, array, error);
}

int tsx_array_open_created(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                           unsigned threads, tsr_creation *creation, tsx_array **array, tsr_error *error) {
  return connection_open_array(connection, path, key, cache_bytes, threads, creation, array, error);
}

void tsx_array_release(tsx_connection *connection, tsx_array *array) {
  if (!array || --array->tables) return;
  array->used = ++connection->clock;
  tsx_array_trim(array);
  uint32_t idle = 0;
  tsx_array **oldest = NULL;
  for (tsx_array **p = &connection->arrays; *p; p = &(*p)->next)
    if (!(*p)->tables && !(*p)->creation && !(*p)->transaction) {
      idle++;
      if (!oldest || (*p)->gone || (!(*oldest)->gone && (*p)->used < (*oldest)->used)) oldest = p;
    }
  if (idle > IDLE_ARRAYS || (oldest && (*oldest)->gone)) {
    array = *oldest;
    *oldest = array->next;
    close_array(array);
  }
}

static bool is_present(const tsx_snapshot *snapshot, const tsx_transaction *changes) {
  if (snapshot->transaction != changes) return false;
  if (!changes) return true;
  tsr_mark now = tsr_writer_mark(changes->writer);
  return snapshot->rewinds == changes->rewinds && !memcmp(&snapshot->mark, &now, sizeof now);
}

static int open_snapshot(tsx_array *array, tsx_snapshot *snapshot, tsx_transaction *changes, tsr_error *error) {
  tsr_snapshot *base;
  int code = tsr_snapshot_open(array->core, snapshot->schema, snapshot->since, snapshot->as_of, &base, error);
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
  if (tsx_array_key(connection, path, &key, &ignored) < 0) return; /* none that is open */
  for (tsx_array *array = connection->arrays; array; array = array->next)
    if (!strcmp(array->path, key)) {
      tsx_transaction_rest(array);
      tsx_array_changed(array);
    }
  sqlite3_free(key);
}

int tsx_array_snapshot(tsx_connection *connection, tsx_array *array, const tsr_schema *schema, uint64_t since,
                       uint64_t as_of, bool own, tsx_snapshot **out, tsr_error *error) {
  const int told = tsx_connection_tell_lost(connection, error);
  if (told < 0) return told;
  tsx_transaction *changes = own && as_of == TSR_TIME_NOW ? array->transaction : NULL;
  if (array->statement != connection->statement || array->snapshot_count >= IDLE_SNAPSHOTS) {
    tsx_array_trim(array); /* a statement that has ended left no cursor */
    array->statement = connection->statement;
  }
  for (tsx_snapshot *snapshot = array->snapshots; snapshot; snapshot = snapshot->next)
    if (snapshot->statement == connection->statement && snapshot->schema == schema && snapshot->since == since &&
        snapshot->as_of == as_of && is_present(snapshot, changes)) {
      snapshot->cursors++;
      *out = snapshot;
      return TSR_OK;
    }
  if (connection->restricted && !array->in_database) {
    int permitted = tsr_path_permitted(connection->environment, array->path, error);
    if (permitted < 0) return permitted;
  }
  tsx_snapshot *snapshot = sqlite3_malloc64(sizeof *snapshot);
  if (!snapshot) return tsx_out_of_memory(error);
  *snapshot = (tsx_snapshot){
      .schema = schema, .since = since, .as_of = as_of, .statement = connection->statement, .cursors = 1};
  int code = open_snapshot(array, snapshot, changes, error);
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

int tsx_table_snapshot(tsx_table *table, tsx_snapshot **snapshot, tsr_error *error) {
  return tsx_array_snapshot(table->connection, table->array, table->schema, table->options.since, table->options.as_of,
                            true, snapshot, error);
}

void tsx_snapshot_release(tsx_snapshot *snapshot) {
  if (snapshot) snapshot->cursors--;
}
