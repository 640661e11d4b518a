/* streams.c: Arrow streams that SQL makes and C takes.
 *
 * tessera_stream(path) opens a stream and returns a token. No address ever passes through SQL: tessera_api()->take
 * turns the token into the stream, once. A stream reads through the connection that made it, so restrictions, keys and
 * scopes hold, and arrays in the database can be streamed. Consumers call get_next on any thread: each call holds the
 * connection's mutex, so it waits while a statement is running.
 *
 * Three locks, taken in this order: the mutex of the connection, that of its link (stream_link.h), that of the tokens
 * (stream_tokens.h).
 * - The link tells a stream whether its connection is still open. The connection's closing takes the link while it
 *   holds the connection's mutex; so a stream, which must look at the link before it knows that there is a connection,
 *   only tries to take the connection's mutex while it holds the link, and lets go of both if somebody has it.
 * - release never waits: a host's garbage collector may call it while it holds locks of its own that the running
 *   statement waits for. If the connection is busy, the stream is closed by whoever comes next.
 */
#define _GNU_SOURCE /* dladdr */

#include "functions/streams.h"

#ifndef _WIN32
#include <dlfcn.h>
#endif
#include <errno.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "functions/functions.h"
#include "functions/lend.h"
#include "functions/rows.h"
#include "functions/stream_join.h"
#include "functions/stream_link.h"
#include "functions/stream_request.h"
#include "functions/stream_tokens.h"

#ifdef _WIN32
#define TSX_API_EXPORT __declspec(dllexport) __attribute__((visibility("default")))
#else
#define TSX_API_EXPORT __attribute__((visibility("default")))
#endif

typedef struct lent_stream { /* private_data of a lent ArrowArrayStream */
  struct lent_stream *next; /* in the link's list; guarded by the link */
  tsx_stream_link *link; /* one reference */
  struct ArrowArrayStream core; /* guarded by the connection's mutex; without `release` once that is closed */
  tsx_address address;
  _Atomic bool released; /* nobody uses it any more: whoever has the connection next closes it */
  char message[TSR_MESSAGE_SIZE]; /* of get_last_error; "": none */
} lent_stream;

/* ---- Links ------------------------------------------------------------------------------------------------------- */

/* Closes what a stream reads. The caller has the connection. */
static void stream_end(lent_stream *s) {
  if (s->core.release) s->core.release(&s->core);
  s->core.release = NULL;
  tsx_address_close(&s->address);
}

/* Frees the released streams of a link, which the caller has; with `connected`, also the connection. */
static void stream_sweep(tsx_stream_link *link, bool connected) {
  for (lent_stream **at = &link->streams; *at;) {
    lent_stream *s = *at;
    if (!atomic_load(&s->released)) {
      at = &s->next;
      continue;
    }
    *at = s->next;
    if (connected) stream_end(s);
    sqlite3_free(s);
    tsx_stream_link_drop(link); /* the caller has a reference of its own */
  }
}

/* ---- The lent stream --------------------------------------------------------------------------------------------- */

/* Begins a call that reads: as a function does it, with a table and a cursor, so that nothing stays open on the
 * connection between two calls. Returns false if the connection was closed. */
static bool stream_begin(lent_stream *s) {
  tsx_stream_link *link = s->link;
  const bool open = tsx_stream_link_enter(link, true) == 1 && s->core.release;
  if (open) {
    stream_sweep(link, true);
    tsx_connection_add_table(link->connection);
    tsx_connection_add_cursor(link->connection);
  }
  pthread_mutex_unlock(&link->lock); /* the connection's mutex keeps the connection */
  s->message[0] = 0;
  if (!open) sqlite3_snprintf(sizeof s->message, s->message, "the connection of this stream was closed");
  return open;
}

static void stream_done(lent_stream *s, int code) {
  tsx_connection *connection = s->link->connection;
  const char *message = code != 0 ? s->core.get_last_error(&s->core) : NULL;
  if (message) sqlite3_snprintf(sizeof s->message, s->message, "%s", message);
  tsx_connection_remove_cursor(connection);
  tsx_connection_remove_table(connection);
  sqlite3_mutex_leave(sqlite3_db_mutex(connection->db));
}

static int stream_get_schema(struct ArrowArrayStream *lent, struct ArrowSchema *out) {
  lent_stream *s = lent->private_data;
  if (!stream_begin(s)) return EINVAL;
  const int code = s->core.get_schema(&s->core, out);
  stream_done(s, code);
  return code;
}

static int stream_get_next(struct ArrowArrayStream *lent, struct ArrowArray *out) {
  lent_stream *s = lent->private_data;
  if (!stream_begin(s)) return EINVAL;
  const int code = s->core.get_next(&s->core, out);
  stream_done(s, code);
  return code;
}

static const char *stream_last_error(struct ArrowArrayStream *lent) {
  const lent_stream *s = lent->private_data;
  return s->message[0] ? s->message : NULL;
}

static void stream_release(struct ArrowArrayStream *lent) {
  lent_stream *s = lent->private_data;
  tsx_stream_link *link = s->link;
  atomic_fetch_add(&link->references, 1); /* from the next line on the stream may be gone */
  atomic_store(&s->released, true);
  const int entered = tsx_stream_link_enter(link, false);
  if (entered >= 0) {
    sqlite3 *db = entered ? link->connection->db : NULL;
    stream_sweep(link, entered == 1);
    pthread_mutex_unlock(&link->lock);
    if (db) sqlite3_mutex_leave(sqlite3_db_mutex(db));
  }
  tsx_stream_link_drop(link);
  lent->private_data = NULL;
  lent->release = NULL;
}

/* ---- Capsules of Python ------------------------------------------------------------------------------------------ */

static void *(*capsule_pointer)(void *capsule, const char *name);

static void api_use_capsules(void *(*get_pointer)(void *capsule, const char *name)) { capsule_pointer = get_pointer; }

static int api_take(const char *token, struct ArrowArrayStream *out) { return tsx_tokens_take(token, out); }

static int api_put(struct ArrowArrayStream *stream, char token[TESSERA_TOKEN_SIZE]) {
  tsr_error ignored = {0};
  return stream && stream->release && tsx_tokens_put(stream, NULL, token, &ignored) == TSR_OK;
}

static struct ArrowArrayStream *api_take_new(const char *token) {
  struct ArrowArrayStream *lent = sqlite3_malloc64(sizeof *lent);
  if (lent && tsx_tokens_take(token, lent)) return lent;
  sqlite3_free(lent);
  return NULL;
}

static void api_free(struct ArrowArrayStream *lent) {
  if (!lent) return;
  if (lent->release) lent->release(lent);
  sqlite3_free(lent);
}

static void api_free_capsule(void *capsule) { api_free(capsule_pointer(capsule, "arrow_array_stream")); }

static struct ArrowSchema *api_take_schema(const char *token) {
  struct ArrowArrayStream *lent = api_take_new(token);
  struct ArrowSchema *schema = lent ? sqlite3_malloc64(sizeof *schema) : NULL;
  if (schema && lent->get_schema(lent, schema) != 0) {
    sqlite3_free(schema);
    schema = NULL;
  }
  api_free(lent);
  return schema;
}

static void api_free_schema_capsule(void *capsule) {
  struct ArrowSchema *schema = capsule_pointer(capsule, "arrow_schema");
  if (schema && schema->release) schema->release(schema);
  sqlite3_free(schema);
}

static struct ArrowArrayStream *api_again(const struct ArrowArrayStream *stream) {
  struct ArrowArrayStream *lent = sqlite3_malloc64(sizeof *lent);
  if (lent && stream && tsx_rows_again(stream, lent)) return lent;
  sqlite3_free(lent);
  return NULL;
}

static struct ArrowArrayStream *api_join(struct ArrowArrayStream *const *streams, uint64_t count) {
  struct ArrowArrayStream *lent = sqlite3_malloc64(sizeof *lent);
  if (lent && tsx_streams_join(streams, count, lent)) return lent;
  sqlite3_free(lent);
  return NULL;
}

/* Asks a lent stream of an array for a schema. */
static bool stream_request_types(struct ArrowArrayStream *lent, const struct ArrowSchema *requested) {
  lent_stream *s = lent->private_data;
  if (!stream_begin(s)) return false;
  const bool honoured = tsr_arrow_request(&s->core, requested);
  stream_done(s, 0);
  return honoured;
}

static int api_request(struct ArrowArrayStream *stream, const struct ArrowSchema *requested) {
  if (!stream || !stream->release || !requested) return 0;
  return stream->release == stream_release ? stream_request_types(stream, requested)
                                           : tsx_rows_request(stream, requested);
}

TSX_API_EXPORT const tessera_functions *tessera_api(int version);

const tessera_functions *tessera_api(int version) {
  static const tessera_functions functions_1 = {.version = 1,
                                                .library_version = TSR_VERSION,
                                                .take = api_take,
                                                .take_new = api_take_new,
                                                .free_stream = api_free,
                                                .use_capsules = api_use_capsules,
                                                .free_capsule = api_free_capsule,
                                                .put = api_put,
                                                .lend = tsx_lend,
                                                .take_back = tsx_take_back,
                                                .take_schema = api_take_schema,
                                                .free_schema_capsule = api_free_schema_capsule,
                                                .again = api_again,
                                                .request = api_request,
                                                .join = api_join};
  return version == 1 ? &functions_1 : NULL;
}

/* ---- SQL --------------------------------------------------------------------------------------------------------- */

/* Opens the stream that the arguments describe. */
static int stream_open(lent_stream *s, int count, sqlite3_value **values, tsr_error *error) {
  tsx_connection *connection = s->link->connection;
  tsx_stream_request request = {0};
  tsx_snapshot *snapshot = NULL;
  const tsr_schema *schema = NULL;
  sqlite3_value *slice = count > 1 ? values[1] : NULL, *json = count > 2 ? values[2] : NULL;
  tsx_address *address = &s->address;
  int code = tsx_stream_request_begin(connection->db, json, &request, error);
  if (code == TSR_OK)
    code = tsx_address_open(connection, values[0], request.key, request.as_of, request.since, address, error);
  if (code == TSR_OK) code = tsx_address_expect(address, request.seen, error);
  if (code == TSR_OK) code = tsx_address_array(address, error);
  if (code == TSR_OK) code = tsx_address_schema(address, &schema, error);
  if (code == TSR_OK) code = tsx_stream_request_read(slice, json, address, schema, &request, error);
  if (code == TSR_OK)
    code =
        tsx_array_snapshot(connection, address->array, schema, address->since, address->as_of, false, &snapshot, error);
  if (code == TSR_OK) tsx_read_limits_apply(&request.limits, address->array->core);
  if (request.request.memory_bytes == 0) request.request.memory_bytes = address->memory_bytes;
  if (code == TSR_OK) code = tsr_arrow_open(snapshot->core, &request.options, &s->core, error);
  tsx_snapshot_release(snapshot);
  tsx_stream_request_release(&request);
  return code;
}

/* Keeps an open stream until it is taken, and sets the function's result: its token. */
static int stream_lend(lent_stream *s, sqlite3_context *context, tsr_error *error) {
  tsx_stream_link *link = s->link;
  char token[TESSERA_TOKEN_SIZE];
  struct ArrowArrayStream lent = {.get_schema = stream_get_schema,
                                  .get_next = stream_get_next,
                                  .get_last_error = stream_last_error,
                                  .release = stream_release,
                                  .private_data = s};
  pthread_mutex_lock(&link->lock);
  stream_sweep(link, true);
  const int code = tsx_tokens_put(&lent, link, token, error);
  if (code == TSR_OK) {
    s->next = link->streams;
    link->streams = s;
    atomic_fetch_add(&link->references, 1);
    sqlite3_result_text(context, token, -1, SQLITE_TRANSIENT);
  }
  pthread_mutex_unlock(&link->lock);
  return code;
}

/* tessera_stream(path[, slice[, options]]) */
static void stream_function(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_stream_link *link = sqlite3_user_data(context);
  tsx_connection *connection = link->connection;
  tsr_error error = {0};
  lent_stream *s = sqlite3_malloc64(sizeof *s);
  if (!s) {
    sqlite3_result_error_nomem(context);
    return;
  }
  memset(s, 0, sizeof *s);
  s->link = link;
  tsx_connection_add_table(connection); /* with a table the core asks the host for interrupts */
  tsx_connection_add_cursor(connection);
  int code = tsx_arguments_check(count, values, 1, &error);
  if (code == TSR_OK && !sqlite3_db_mutex(connection->db))
    code = tsx_fail(&error, TSR_UNSUPPORTED, "this connection has no mutex: open it with SQLITE_OPEN_FULLMUTEX");
  if (code == TSR_OK) code = stream_open(s, count, values, &error);
  if (code == TSR_OK) code = stream_lend(s, context, &error);
  if (code < 0) {
    tsx_result_error_of(context, "tessera_stream", &error);
    stream_end(s);
    sqlite3_free(s);
  }
  tsx_connection_remove_cursor(connection);
  tsx_connection_remove_table(connection);
}

/* tessera_stream(): how many streams of the connection are open. */
static void stream_count(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_stream_link *link = sqlite3_user_data(context);
  int open = 0;
  (void)count;
  (void)values;
  pthread_mutex_lock(&link->lock);
  stream_sweep(link, true);
  for (const lent_stream *s = link->streams; s; s = s->next) open++;
  pthread_mutex_unlock(&link->lock);
  sqlite3_result_int(context, open);
}

/* tessera_library() */
static void library_function(sqlite3_context *context, int count, sqlite3_value **values) {
  (void)count;
  (void)values;
#ifndef _WIN32
  Dl_info self;
  if (dladdr((const void *)(uintptr_t)library_function, &self)) /* tessera_api may be that of another copy */
    sqlite3_result_text(context, self.dli_fname, -1, SQLITE_TRANSIENT);
#endif
}

/* The destructor of the functions: ends the streams, while the connection is still open. */
static void stream_connection_closes(void *argument) {
  tsx_stream_link *link = argument;
  tsx_connection *connection = link->connection;
  struct ArrowArrayStream untaken;
  while (tsx_tokens_take_owned(link, &untaken)) untaken.release(&untaken);
  pthread_mutex_lock(&link->lock);
  for (lent_stream *s = link->streams; s; s = s->next) stream_end(s);
  stream_sweep(link, false);
  link->connection = NULL;
  pthread_mutex_unlock(&link->lock);
  tsx_connection_drop(connection);
  tsx_stream_link_drop(link);
}

int tsx_register_streams(tsx_connection *connection) {
  const int flags = SQLITE_UTF8 | SQLITE_DIRECTONLY;
  tsx_stream_link *link = tsx_stream_link_make(connection);
  if (!link) return SQLITE_NOMEM;
  tsx_connection_hold(connection);
  /* SQLite calls the destructor of the first function, also if that call fails; the others borrow the link. */
  int code = sqlite3_create_function_v2(connection->db, "tessera_library", 0, flags, link, library_function, NULL, NULL,
                                        stream_connection_closes);
  if (code == SQLITE_OK)
    code = sqlite3_create_function_v2(connection->db, "tessera_stream", 0, flags, link, stream_count, NULL, NULL, NULL);
  for (int arguments = 1; arguments <= 3 && code == SQLITE_OK; arguments++)
    code = sqlite3_create_function_v2(connection->db, "tessera_stream", arguments, flags, link, stream_function, NULL,
                                      NULL, NULL);
  for (int arguments = 1; arguments <= 2 && code == SQLITE_OK; arguments++)
    code = sqlite3_create_function_v2(connection->db, "tessera_rows", arguments, flags, link, tsx_rows_stream, NULL,
                                      NULL, NULL);
  return code;
}
