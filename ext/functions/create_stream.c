/* create_stream.c: tessera_create_stream(path, token[, options]): the rows of an Arrow stream become an array.
 *
 * C puts a stream in (tessera_functions.put) and gets a token; the function takes the stream of the token, once. */
#include "functions/create_stream.h"

#include <string.h>

#include "connection/errors.h"
#include "table/savepoint.h"
#include "functions/ingest_call.h"
#include "functions/stream_tokens.h"

/* ---- The function ------------------------------------------------------------------------------------------------ */

typedef struct stream_call {
  tsx_ingest_call call;
  struct ArrowArrayStream stream;
  struct ArrowSchema schema;
} stream_call;

/* Fails with what the stream says of its last error. */
static int stream_call_fail(stream_call *c, int number, tsr_error *error) {
  const char *why = c->stream.get_last_error ? c->stream.get_last_error(&c->stream) : NULL;
  return tsx_fail(error, TSR_ERROR, "the stream: %.400s (%d)", why ? why : "it gives no reason", number);
}

static int stream_call_columns(stream_call *c, const char *path, tsr_error *error) {
  const int number = c->stream.get_schema(&c->stream, &c->schema);
  if (number != 0) return stream_call_fail(c, number, error);
  if (!c->schema.release || c->schema.n_children < 1 || c->schema.n_children > UINT32_MAX)
    return tsx_fail(error, TSR_MISMATCH, "the stream has no columns");
  const uint32_t count = (uint32_t)c->schema.n_children;
  int code = tsx_ingest_begin(&c->call, path, count, error);
  if (code == TSR_OK) code = tsr_arrow_columns(&c->schema, c->call.columns, error);
  for (uint32_t i = 0; code == TSR_OK && i < count; i++)
    code = tsx_ingest_name_column(&c->call, i, c->call.columns[i].name, error);
  return code;
}

/* Takes the next batch. The producer may run statements on this connection, whose functions have savepoints of their
 * own. */
static int stream_call_next(stream_call *c, struct ArrowArray *batch) {
  const tsx_function_savepoint savepoint = tsx_savepoint_leave(c->call.connection);
  const int number = c->stream.get_next(&c->stream, batch);
  tsx_savepoint_return(c->call.connection, &savepoint);
  return number;
}

static int stream_call_rows(stream_call *c, tsr_error *error) {
  while (true) {
    struct ArrowArray batch = {0};
    const int number = stream_call_next(c, &batch);
    if (number != 0) return stream_call_fail(c, number, error);
    if (!batch.release) return TSR_OK;
    const int code = tsr_ingest_arrow(c->call.ingest, &c->schema, &batch, c->call.source.kept, error);
    batch.release(&batch);
    if (code < 0) return code;
    if (tsx_connection_cancelled(c->call.connection)) return tsx_fail_cancelled(error);
  }
}

static int stream_call_make(stream_call *c, sqlite3_context *context, sqlite3_value **values, sqlite3_value *json,
                            tsr_error *error) {
  const char *path = (const char *)sqlite3_value_text(values[0]), *token = (const char *)sqlite3_value_text(values[1]);
  if (!path || !token) return tsx_out_of_memory(error);
  if (!tsx_tokens_take(token, &c->stream))
    return tsx_fail(error, TSR_NOT_FOUND, "no stream has this token: a token is used once, also by a call that fails");
  int code = stream_call_columns(c, path, error);
  if (code == TSR_OK) code = tsx_ingest_options(&c->call, values[0], json, error);
  if (code == TSR_OK && c->call.given.skip)
    code = tsx_fail(error, TSR_UNSUPPORTED, "'on_error': skip is for a SELECT and for CSV");
  if (code == TSR_OK) code = tsx_ingest_open(&c->call, error);
  if (code == TSR_OK) code = stream_call_rows(c, error);
  return code == TSR_OK ? tsx_ingest_finish(&c->call, context, error) : code;
}

void tsx_create_stream(sqlite3_context *context, int count, sqlite3_value **values) {
  stream_call c = {.call = {.connection = sqlite3_user_data(context)}};
  tsr_error error = {0};
  tsx_connection_add_table(c.call.connection); /* with a table the core asks the host for interrupts */
  int code = tsx_arguments_check(count, values, 2, &error);
  if (code == TSR_OK) code = stream_call_make(&c, context, values, count > 2 ? values[2] : NULL, &error);
  tsx_ingest_end(&c.call);
  if (c.schema.release) c.schema.release(&c.schema);
  if (c.stream.release) c.stream.release(&c.stream);
  tsx_connection_remove_table(c.call.connection);
  tsx_function_end(context, "tessera_create_stream", code, &error);
}
