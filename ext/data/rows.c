/* rows.c: tessera_rows(select[, options[, value ...]]): the rows of any SELECT as Arrow streams.
 *
 * The SELECT is lazy: it runs once, at the first call of a stream, on the stream's connection, whose mutex that call
 * holds. Its rows are stored in an ingest with an environment of its own. From then on the streams need no connection:
 * several can be read at once, on any thread, even after the connection was closed. A run that fails keeps nothing, and
 * the next call runs the SELECT again.
 *
 * Sections: the SELECT, the stream, the function. */
#include "data/data.h"

#include <errno.h>
#include <string.h>

#include "connection/errors.h"
#include "definition/define.h"
#include "call/function.h"
#include "data/ingest.h"

typedef struct kept_rows { /* what the streams of one call share */
  _Atomic uint32_t references; /* streams */
  tsx_stream_link *link; /* one reference */
  tsr_environment *environment;
  tsx_ingest_call call; /* the columns, and the ingest with the rows */
  sqlite3_value *sql, *options; /* owned; options may be NULL or an SQL NULL */
  sqlite3_value **values; /* [value_count]: of the parameters; owned */
  int value_count;
  _Atomic bool read; /* the ingest is complete; until then the connection's mutex guards it */
} kept_rows;

typedef struct rows_stream { /* private_data */
  kept_rows *rows; /* owns a reference */
  struct ArrowArrayStream core; /* `release` is NULL until it is opened */
  tsr_error error;
} rows_stream;

static void rows_forget(kept_rows *rows) {
  tsr_ingest_close(rows->call.ingest);
  tsx_definition_release(&rows->call.memory);
  memset(&rows->call, 0, sizeof rows->call);
}

static void rows_drop(kept_rows *rows) {
  if (atomic_fetch_sub(&rows->references, 1) > 1) return;
  rows_forget(rows);
  tsr_environment_close(rows->environment);
  sqlite3_value_free(rows->sql);
  sqlite3_value_free(rows->options);
  for (int i = 0; i < rows->value_count; i++) sqlite3_value_free(rows->values[i]);
  sqlite3_free(rows->values);
  if (rows->link) tsx_stream_link_drop(rows->link);
  sqlite3_free(rows);
}

/* ---- The SELECT -------------------------------------------------------------------------------------------------- */

/* Prepares the SELECT and describes its columns. */
static int rows_describe(kept_rows *rows, tsx_connection *connection, sqlite3_stmt **statement, tsr_error *error) {
  tsx_ingest_call *call = &rows->call;
  const char *sql = (const char *)sqlite3_value_text(rows->sql);
  call->connection = connection;
  call->source.is_rows = true;
  if (!sql) return tsx_out_of_memory(error);
  TSX_TRY(tsx_select_prepare(connection->db, sql, rows->value_count, rows->values, statement, error));
  TSX_TRY(tsx_ingest_begin(call, NULL, (uint32_t)sqlite3_column_count(*statement), error));
  TSX_TRY(tsx_select_columns(call, *statement, error));
  return tsx_ingest_options_read(call, rows->options, error);
}

static int rows_read(kept_rows *rows, sqlite3_stmt *statement, struct ArrowArrayStream *core, tsr_error *error) {
  TSX_TRY(tsr_ingest_open(rows->environment, &rows->call.options, &rows->call.ingest, error));
  TSX_TRY(tsx_select_rows(&rows->call, statement, error));
  return tsr_ingest_stream(rows->call.ingest, NULL, core, error);
}

/* Runs the SELECT, and opens the first stream over its rows. The caller holds the connection's mutex. */
static int rows_run(kept_rows *rows, tsx_connection *connection, struct ArrowArrayStream *core, tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  tsx_connection_add_table(connection); /* cancellation works only while a table is counted */
  int code = rows_describe(rows, connection, &statement, error);
  if (code >= 0) code = rows_read(rows, statement, core, error);
  if (code < 0) rows_forget(rows);
  else atomic_store(&rows->read, true);
  sqlite3_finalize(statement);
  tsx_connection_remove_table(connection);
  return code;
}

/* Runs the SELECT, unless another stream over the same rows has. */
static int kept_rows_read(rows_stream *s, tsr_error *error) {
  kept_rows *rows = s->rows;
  int code = TSR_OK;
  const bool open = tsx_stream_link_enter(rows->link, true) == 1;
  pthread_mutex_unlock(&rows->link->lock); /* the connection's mutex keeps the connection */
  if (!open) return tsx_fail(error, TSR_ERROR, "the connection was closed before the rows were read");
  tsx_connection *connection = rows->link->connection;
  if (!atomic_load(&rows->read)) code = rows_run(rows, connection, &s->core, error);
  sqlite3_mutex_leave(sqlite3_db_mutex(connection->db));
  return code;
}

/* Opens s->core if it is not open yet, and runs the SELECT if that was not done yet. */
static int kept_rows_open(rows_stream *s, tsr_error *error) {
  kept_rows *rows = s->rows;
  if (s->core.release) return TSR_OK;
  if (!atomic_load(&rows->read)) TSX_TRY(kept_rows_read(s, error));
  return s->core.release ? TSR_OK : tsr_ingest_stream(rows->call.ingest, NULL, &s->core, error);
}

/* ---- The stream -------------------------------------------------------------------------------------------------- */

/* Prepares a call of the stream. Returns false after an error, which is in s->error. */
static bool kept_rows_begin(rows_stream *s) {
  s->error = (tsr_error){0};
  const int code = kept_rows_open(s, &s->error);
  if (code >= 0) return true;
  const tsr_error why = s->error;
  (void)tsx_fail(&s->error, code, "tessera_rows: %s", why.message);
  return false;
}

static int rows_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  rows_stream *s = stream->private_data;
  return kept_rows_begin(s) ? s->core.get_schema(&s->core, out) : tsr_arrow_errno(s->error.code);
}

static int rows_get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  rows_stream *s = stream->private_data;
  return kept_rows_begin(s) ? s->core.get_next(&s->core, out) : tsr_arrow_errno(s->error.code);
}

static const char *rows_last_error(struct ArrowArrayStream *stream) {
  rows_stream *s = stream->private_data;
  if (s->error.code < 0) return s->error.message;
  return s->core.release ? s->core.get_last_error(&s->core) : NULL;
}

static void rows_release(struct ArrowArrayStream *stream) {
  rows_stream *s = stream->private_data;
  if (s->core.release) s->core.release(&s->core);
  rows_drop(s->rows);
  sqlite3_free(s);
  stream->private_data = NULL;
  stream->release = NULL;
}

/* Makes a stream. Takes over one reference to `rows`, also on failure. Returns false if memory is exhausted. */
static bool rows_stream_make(kept_rows *rows, struct ArrowArrayStream *out) {
  rows_stream *s = sqlite3_malloc64(sizeof *s);
  if (!s) {
    rows_drop(rows);
    return false;
  }
  memset(s, 0, sizeof *s);
  s->rows = rows;
  *out = (struct ArrowArrayStream){.get_schema = rows_get_schema,
                                   .get_next = rows_get_next,
                                   .get_last_error = rows_last_error,
                                   .release = rows_release,
                                   .private_data = s};
  return true;
}

bool tsx_rows_again(const struct ArrowArrayStream *stream, struct ArrowArrayStream *out) {
  if (stream->release != rows_release) return false;
  kept_rows *rows = ((rows_stream *)stream->private_data)->rows;
  atomic_fetch_add(&rows->references, 1);
  return rows_stream_make(rows, out);
}

bool tsx_rows_request(struct ArrowArrayStream *stream, const struct ArrowSchema *requested) {
  if (stream->release != rows_release) return false;
  rows_stream *s = stream->private_data;
  return kept_rows_begin(s) && tsr_arrow_request(&s->core, requested);
}

/* ---- The function ------------------------------------------------------------------------------------------------ */

/* Copies the values of the parameters. */
static int rows_values(kept_rows *rows, int count, sqlite3_value **values, tsr_error *error) {
  if (count <= 0) return TSR_OK;
  rows->values = sqlite3_malloc64((uint64_t)count * sizeof(sqlite3_value *));
  if (!rows->values) return tsx_out_of_memory(error);
  for (; rows->value_count < count; rows->value_count++)
    if (!(rows->values[rows->value_count] = sqlite3_value_dup(values[rows->value_count])))
      return tsx_out_of_memory(error);
  return TSR_OK;
}

static int rows_make(kept_rows *rows, int count, sqlite3_value **values, tsr_error *error) {
  tsx_connection *connection = rows->link->connection;
  sqlite3_stmt *statement = NULL;
  if (count == 0) return tsx_fail(error, TSR_MISMATCH, "expected a SELECT, then options and values");
  TSX_TRY(tsx_arguments_check(count, values, 1, error));
  TSX_TRY(rows_values(rows, count - 2, values + 2, error));
  rows->sql = sqlite3_value_dup(values[0]);
  if (count > 1) rows->options = sqlite3_value_dup(values[1]);
  if (!rows->sql || (count > 1 && !rows->options)) return tsx_out_of_memory(error);
  const int code = rows_describe(rows, connection, &statement, error); /* reports errors in the SELECT right away */
  sqlite3_finalize(statement);
  rows_forget(rows);
  return code < 0 ? code : tsx_environment_alone(&rows->environment, error);
}

/* Makes the stream and its token. The caller releases the stream if it was made, also after a failure. */
static int rows_call(tsx_stream_link *link, int count, sqlite3_value **values, struct ArrowArrayStream *stream,
                     char *token, tsr_error *error) {
  kept_rows *rows = sqlite3_malloc64(sizeof *rows);
  if (!rows) return tsx_out_of_memory(error);
  memset(rows, 0, sizeof *rows);
  atomic_init(&rows->references, 1);
  rows->link = link;
  atomic_fetch_add(&link->references, 1);
  const int code = rows_make(rows, count, values, error);
  if (code < 0) {
    rows_drop(rows);
    return code;
  }
  if (!rows_stream_make(rows, stream)) return tsx_out_of_memory(error);
  /* Without a mutex, no other thread may use this connection later: run the SELECT now. */
  if (!sqlite3_db_mutex(link->connection->db)) TSX_TRY(kept_rows_open(stream->private_data, error));
  return tsx_tokens_put(stream, link, token, error);
}

void tsx_rows_stream(sqlite3_context *context, int count, sqlite3_value **values) {
  tsr_error error = {0};
  struct ArrowArrayStream stream = {0};
  char token[TESSERA_TOKEN_SIZE];
  if (rows_call(sqlite3_user_data(context), count, values, &stream, token, &error) < 0)
    tsx_result_error_of(context, "tessera_rows", &error);
  else sqlite3_result_text(context, token, -1, SQLITE_TRANSIENT);
  if (stream.release) stream.release(&stream);
}
