/* connection.c: the shared state of a connection: its life, the memory functions of its environment, and the check for
 * interrupts.
 *
 * SQLite does not tell a virtual table when a statement begins. So a cursor that opens while no other cursor is open
 * begins a statement, and a function that reads an array counts as a cursor while it runs. table/open_array.c uses the
 * number of the statement: all cursors of a statement see the same state of each array. */
#include "connection/connection.h"

#include <stdatomic.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"

#define LARGEST_BLOCK 0x7ffffe00 /* bytes: the limit of sqlite3_malloc64, less the core's header of a block */

static void *reallocate(void *argument, void *pointer, uint64_t size) {
  (void)argument;
  if (!size) {
    sqlite3_free(pointer);
    return NULL;
  }
  return sqlite3_realloc64(pointer, size);
}

/* Cancellation. SQLite has sqlite3_is_interrupted() only since 3.41, and calls a progress handler only while a
 * statement runs. But an interrupt also stops a nested statement, and the steps of a nested statement count for the
 * progress handler. So a check runs a tiny statement, which works in every version of SQLite. Programs mostly have
 * their progress handler called every 1,000 steps or more. So that decoding counts like rows do, the first check after
 * each decoded MiB, and every 32nd check, run a longer statement of some 500 steps. */
#define POLL_BYTES     ((uint64_t)1 << 20)
#define POLL_QUESTIONS 32

static const char *const poll_texts[] = {
    "SELECT 1",
    "WITH RECURSIVE step(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM step WHERE i < 32) SELECT count(*) FROM step"};

/* Returns true if the longer statement must run. */
static bool long_poll_is_due(tsx_connection *connection) {
  tsx_cancellation *cancellation = &connection->cancellation;
  tsr_counters counters;
  tsr_environment_counters(connection->environment, &counters);
  /* wraps around after a reset of the counters, which is harmless */
  const uint64_t bytes = counters.bytes_decoded - cancellation->polled_bytes;
  if (++cancellation->questions < POLL_QUESTIONS && bytes < POLL_BYTES) return false;
  cancellation->questions = 0;
  cancellation->polled_bytes = counters.bytes_decoded;
  return true;
}

bool tsx_connection_cancelled(void *argument) {
  tsx_connection *connection = argument;
  sqlite3_stmt **polls = connection->cancellation.polls;
  for (int i = 0; i < 2 && connection->tables.count; i++) /* an interrupt stops the parser, too */
    if (!polls[i] && sqlite3_prepare_v3(connection->db, poll_texts[i], -1, SQLITE_PREPARE_PERSISTENT, &polls[i],
                                        NULL) == SQLITE_INTERRUPT)
      return true;
  sqlite3_stmt *poll = polls[long_poll_is_due(connection) && polls[1] ? 1 : 0];
  if (!poll) return false;
  int code = sqlite3_step(poll);
  sqlite3_reset(poll);
  if (code == SQLITE_INTERRUPT) tsx_connection_fail_savepoint(connection, TSR_INTERRUPT);
  return code == SQLITE_INTERRUPT;
}

/* Returns true if SQLite was built or configured to run single-threaded. Then its allocator takes no locks, and there
 * must be no workers. If configured so, SQLite returns the same dummy mutex every time. */
static bool single_threaded(void) {
  if (!sqlite3_threadsafe()) return true;
  sqlite3_mutex *a = sqlite3_mutex_alloc(SQLITE_MUTEX_FAST), *b = sqlite3_mutex_alloc(SQLITE_MUTEX_FAST);
  bool single = !a || a == b;
  sqlite3_mutex_free(a);
  if (!single || b != a) sqlite3_mutex_free(b);
  return single;
}

static _Atomic uint32_t connection_count;

uint32_t tsx_connection_count(void) { return atomic_load(&connection_count); }

int tsx_environment_alone(tsr_environment **environment, tsr_error *error) {
  const tsr_environment_options options = {
      .reallocate = reallocate, .largest_block = LARGEST_BLOCK, .single_threaded = single_threaded()};
  return tsr_environment_open(&options, environment, error);
}

int tsx_connection_open(sqlite3 *db, const tsx_connection_hooks *hooks, tsx_connection **out, tsr_error *error) {
  tsx_connection *connection = sqlite3_malloc64(sizeof *connection);
  if (!connection) return tsx_out_of_memory(error);
  memset(connection, 0, sizeof *connection);
  connection->statement.number = 1; /* a snapshot of statement 0 is one that no statement shares */
  connection->db = db;
  connection->hooks = hooks;
  connection->references = 1;
  connection->utf16 = -1;
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
  if ((code = hooks->opened(connection, error)) < 0) {
    tsr_environment_close(connection->environment);
    sqlite3_free(connection);
    return code;
  }
  atomic_fetch_add(&connection_count, 1);
  *out = connection;
  return TSR_OK;
}

void tsx_connection_hold(tsx_connection *connection) { connection->references++; }

void tsx_connection_drop(void *argument) {
  tsx_connection *connection = argument;
  if (--connection->references) return;
  connection->hooks->closing(connection);
  tsr_environment_close(connection->environment);
  sqlite3_free(connection->lost.message);
  sqlite3_free(connection);
  atomic_fetch_sub(&connection_count, 1);
}

void tsx_connection_defer_lost(tsx_connection *connection, const tsr_error *error) {
  tsx_lost *lost = &connection->lost;
  sqlite3_free(lost->message);
  lost->message = sqlite3_mprintf("an earlier COMMIT was done in the database alone: %s", error->message);
  lost->code = error->code;
}

int tsx_connection_report_lost(tsx_connection *connection, tsr_error *error) {
  tsx_lost *lost = &connection->lost;
  if (!lost->message) return TSR_OK;
  const int code = tsx_fail(error, lost->code, "%s", lost->message);
  sqlite3_free(lost->message);
  lost->message = NULL;
  return code;
}

int tsx_connection_in_savepoint(tsx_connection *connection, tsr_error *error) {
  sqlite3 *db = connection->db;
  tsx_function_savepoint *s = &connection->savepoint;
  if (!s->open) return TSR_OK;
  /* without a savepoint and outside of the host's transactions, the transaction is the outer statement's */
  const bool there =
      s->guarded || !s->alone ? !sqlite3_get_autocommit(db) : sqlite3_txn_state(db, NULL) == SQLITE_TXN_WRITE;
  if (!there && !s->failure) {
    const int code = tsx_core_code(sqlite3_errcode(db)); /* of the statement that was stopped, if none has run since */
    s->failure = code == TSR_NOMEM || code == TSR_INTERRUPT || code == TSR_IO || code == TSR_FULL ? code : TSR_ABORT;
  }
  if (!s->failure) return TSR_OK;
  return tsx_fail(error, s->failure, "%s", sqlite3_errstr(tsx_sqlite_code(s->failure)));
}

void tsx_connection_fail_savepoint(tsx_connection *connection, int failure) {
  if (connection->savepoint.open && !connection->savepoint.failure) connection->savepoint.failure = failure;
}

void tsx_connection_add_table(tsx_connection *connection) { connection->tables.count++; }

/* sqlite3_close() fails if statements are open, but disconnects all tables first. So removing the last table finalizes
 * the connection's own statements. */
void tsx_connection_remove_table(tsx_connection *connection) {
  if (--connection->tables.count) return;
  connection->hooks->tables_gone(connection);
  for (int i = 0; i < 2; i++) {
    sqlite3_finalize(connection->cancellation.polls[i]);
    connection->cancellation.polls[i] = NULL;
  }
}

void tsx_connection_add_cursor(tsx_connection *connection) {
  if (!connection->statement.cursors++) connection->statement.number++;
}

void tsx_connection_remove_cursor(tsx_connection *connection) {
  if (--connection->statement.cursors) return;
  connection->hooks->cursors_closed(connection);
}

unsigned tsx_connection_text(tsx_connection *connection) {
  if (connection->utf16 < 0) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(connection->db, "PRAGMA main.encoding", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
      const char *name = (const char *)sqlite3_column_text(statement, 0);
      if (name)
        connection->utf16 = !strcmp(name, "UTF-16le") ? TSX_UTF16 : strcmp(name, "UTF-8") ? TSX_UTF16 | TSX_UTF16BE : 0;
    }
    sqlite3_finalize(statement);
  }
  /* if the encoding cannot be read now: the answer that assumes least */
  return connection->utf16 < 0 ? TSX_UTF16 : (unsigned)connection->utf16;
}

bool tsx_connection_utf16(tsx_connection *connection) { return tsx_connection_text(connection) != 0; }
