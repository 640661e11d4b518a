/* streams.c: Arrow streams that SQL makes and C takes.
 *
 * tessera_stream(path) opens a stream and returns a token. No address ever passes through SQL: tessera_api()->take
 * turns the token into the stream, once. A stream reads through the connection that made it, so restrictions, keys and
 * scopes hold, and arrays in the database can be streamed. Consumers call get_next on any thread: each call holds the
 * connection's mutex, so it waits while a statement is running.
 *
 * Three locks, taken in this order: the mutex of the connection, that of its link, that of the tokens.
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
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "functions/create_stream.h"
#include "functions/functions.h"
#include "functions/lend.h"
#include "functions/stream_request.h"

#ifdef _WIN32
#define TSX_API_EXPORT __declspec(dllexport)
#else
#define TSX_API_EXPORT __attribute__((visibility("default")))
#endif

#define STREAM_TOKENS_MAX 256 /* tokens of a connection that nobody has taken */
#define STREAM_WAIT_NS    50000 /* between two tries to take the connection's mutex */

typedef struct stream_link { /* what a connection and its streams share */
  pthread_mutex_t lock;
  _Atomic uint32_t references; /* of the connection, its streams, and running calls */
  tsx_connection *connection; /* NULL: it was closed */
  struct lent_stream *streams; /* all that are open */
} stream_link;

typedef struct lent_stream { /* private_data of a lent ArrowArrayStream */
  struct lent_stream *next; /* in the link's list; guarded by the link */
  struct lent_stream *next_waiting; /* in the list of streams that nobody has taken; guarded by stream_tokens */
  stream_link *link; /* one reference */
  struct ArrowArrayStream core; /* guarded by the connection's mutex; without `release` once that is closed */
  tsx_address address;
  char token[TSX_ID_SIZE];
  _Atomic bool released; /* nobody uses it any more: whoever has the connection next closes it */
  char message[TSR_MESSAGE_SIZE]; /* of get_last_error; "": none */
} lent_stream;

static pthread_mutex_t stream_tokens = PTHREAD_MUTEX_INITIALIZER;
static lent_stream *stream_waiting;

/* ---- Links ------------------------------------------------------------------------------------------------------- */

static void stream_link_drop(stream_link *link) {
  if (atomic_fetch_sub(&link->references, 1) > 1) return;
  pthread_mutex_destroy(&link->lock);
  sqlite3_free(link);
}

/* Takes the link, and the connection's mutex if it is open: 1. Returns 0 with the link alone if the connection was
 * closed, or -1 with neither if another thread has the mutex and the caller does not want to wait. */
static int stream_enter(stream_link *link, bool wait) {
  while (true) {
    if (wait) pthread_mutex_lock(&link->lock);
    else if (pthread_mutex_trylock(&link->lock) != 0) return -1;
    if (!link->connection) return 0;
    if (sqlite3_mutex_try(sqlite3_db_mutex(link->connection->db)) == SQLITE_OK) return 1;
    pthread_mutex_unlock(&link->lock);
    if (!wait) return -1;
    nanosleep(&(struct timespec){.tv_nsec = STREAM_WAIT_NS}, NULL);
  }
}

/* Closes what a stream reads. The caller has the connection. */
static void stream_end(lent_stream *s) {
  if (s->core.release) s->core.release(&s->core);
  s->core.release = NULL;
  tsx_address_close(&s->address);
}

/* Frees the released streams of a link, which the caller has; with `connected`, also the connection. */
static void stream_sweep(stream_link *link, bool connected) {
  for (lent_stream **at = &link->streams; *at;) {
    lent_stream *s = *at;
    if (!atomic_load(&s->released)) {
      at = &s->next;
      continue;
    }
    *at = s->next;
    if (connected) stream_end(s);
    sqlite3_free(s);
    stream_link_drop(link); /* the caller has a reference of its own */
  }
}

/* ---- The lent stream --------------------------------------------------------------------------------------------- */

/* Begins a call that reads: as a function does it, with a table and a cursor, so that nothing stays open on the
 * connection between two calls. Returns false if the connection was closed. */
static bool stream_begin(lent_stream *s) {
  stream_link *link = s->link;
  const bool open = stream_enter(link, true) == 1 && s->core.release;
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
  stream_link *link = s->link;
  atomic_fetch_add(&link->references, 1); /* from the next line on the stream may be gone */
  atomic_store(&s->released, true);
  const int entered = stream_enter(link, false);
  if (entered >= 0) {
    sqlite3 *db = entered ? link->connection->db : NULL;
    stream_sweep(link, entered == 1);
    pthread_mutex_unlock(&link->lock);
    if (db) sqlite3_mutex_leave(sqlite3_db_mutex(db));
  }
  stream_link_drop(link);
  lent->private_data = NULL;
  lent->release = NULL;
}

/* ---- Tokens ------------------------------------------------------------------------------------------------------ */

static void stream_wait_for_taker(lent_stream *s) {
  uint8_t random[(TSX_ID_SIZE - 1) / 2];
  sqlite3_randomness(sizeof random, random);
  for (size_t i = 0; i < sizeof random; i++) sqlite3_snprintf(3, s->token + 2 * i, "%02x", random[i]);
  pthread_mutex_lock(&stream_tokens);
  s->next_waiting = stream_waiting;
  stream_waiting = s;
  pthread_mutex_unlock(&stream_tokens);
}

/* Takes the stream of a token, or, without a token, one of the connection's link, out of the list of waiting ones.
 * Returns NULL if there is none. */
static lent_stream *stream_unwait(const char *token, const stream_link *link) {
  lent_stream *found = NULL;
  pthread_mutex_lock(&stream_tokens);
  for (lent_stream **at = &stream_waiting; *at && !found;) {
    if (token ? strcmp((*at)->token, token) == 0 : (*at)->link == link) {
      found = *at;
      *at = found->next_waiting;
    } else {
      at = &(*at)->next_waiting;
    }
  }
  pthread_mutex_unlock(&stream_tokens);
  return found;
}

static uint32_t stream_waiting_count(const stream_link *link) {
  uint32_t count = 0;
  pthread_mutex_lock(&stream_tokens);
  for (const lent_stream *s = stream_waiting; s; s = s->next_waiting) count += s->link == link;
  pthread_mutex_unlock(&stream_tokens);
  return count;
}

static int api_take(const char *token, struct ArrowArrayStream *out) {
  lent_stream *s = token ? stream_unwait(token, NULL) : NULL;
  if (!s) return 0;
  *out = (struct ArrowArrayStream){.get_schema = stream_get_schema,
                                   .get_next = stream_get_next,
                                   .get_last_error = stream_last_error,
                                   .release = stream_release,
                                   .private_data = s};
  return 1;
}

/* ---- Capsules of Python ------------------------------------------------------------------------------------------ */

static void *(*capsule_pointer)(void *capsule, const char *name);

static void api_use_capsules(void *(*get_pointer)(void *capsule, const char *name)) { capsule_pointer = get_pointer; }

static struct ArrowArrayStream *api_take_new(const char *token) {
  struct ArrowArrayStream *lent = sqlite3_malloc64(sizeof *lent);
  if (lent && api_take(token, lent)) return lent;
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

TSX_API_EXPORT const tessera_functions *tessera_api(int version);

const tessera_functions *tessera_api(int version) {
  static const tessera_functions functions_1 = {.version = 1,
                                                .library_version = TSR_VERSION,
                                                .take = api_take,
                                                .take_new = api_take_new,
                                                .free_stream = api_free,
                                                .use_capsules = api_use_capsules,
                                                .free_capsule = api_free_capsule,
                                                .put = tsx_stream_put,
                                                .lend = tsx_lend,
                                                .take_back = tsx_take_back,
                                                .take_schema = api_take_schema,
                                                .free_schema_capsule = api_free_schema_capsule};
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
  if (code == TSR_OK) code = tsx_address_array(address, error);
  if (code == TSR_OK) code = tsr_array_schema(address->array->core, address->as_of, &schema, error);
  if (code == TSR_OK) {
    const tsx_label_source labels = tsx_address_labels(address);
    code =
        tsx_stream_request_read(slice, json, address->given, schema, &labels, address->uint64_signed, &request, error);
  }
  if (code == TSR_OK)
    code =
        tsx_array_snapshot(connection, address->array, schema, address->since, address->as_of, false, &snapshot, error);
  request.request.memory_bytes = address->memory_bytes;
  if (code == TSR_OK) code = tsr_arrow_open(snapshot->core, &request.options, &s->core, error);
  tsx_snapshot_release(snapshot);
  tsx_stream_request_release(&request);
  return code;
}

/* tessera_stream(path[, slice[, options]]) */
static void stream_function(sqlite3_context *context, int count, sqlite3_value **values) {
  stream_link *link = sqlite3_user_data(context);
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
  if (code == TSR_OK && stream_waiting_count(link) >= STREAM_TOKENS_MAX)
    code =
        tsx_fail(&error, TSR_TOOBIG, "%d streams of this connection wait for somebody to take them", STREAM_TOKENS_MAX);
  if (code == TSR_OK) code = stream_open(s, count, values, &error);
  if (code == TSR_OK) {
    pthread_mutex_lock(&link->lock);
    stream_sweep(link, true);
    s->next = link->streams;
    link->streams = s;
    atomic_fetch_add(&link->references, 1);
    pthread_mutex_unlock(&link->lock);
    stream_wait_for_taker(s);
    sqlite3_result_text(context, s->token, -1, SQLITE_TRANSIENT);
  } else {
    tsx_result_error_of(context, "tessera_stream", &error);
    tsx_address_close(&s->address);
    sqlite3_free(s);
  }
  tsx_connection_remove_cursor(connection);
  tsx_connection_remove_table(connection);
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
  stream_link *link = argument;
  tsx_connection *connection = link->connection;
  lent_stream *untaken;
  while ((untaken = stream_unwait(NULL, link))) atomic_store(&untaken->released, true);
  pthread_mutex_lock(&link->lock);
  for (lent_stream *s = link->streams; s; s = s->next) stream_end(s);
  stream_sweep(link, false);
  link->connection = NULL;
  pthread_mutex_unlock(&link->lock);
  tsx_connection_drop(connection);
  stream_link_drop(link);
}

int tsx_register_streams(tsx_connection *connection) {
  const int flags = SQLITE_UTF8 | SQLITE_DIRECTONLY;
  stream_link *link = sqlite3_malloc64(sizeof *link);
  if (!link) return SQLITE_NOMEM;
  memset(link, 0, sizeof *link);
  atomic_init(&link->references, 1);
  link->connection = connection;
  if (pthread_mutex_init(&link->lock, NULL) != 0) {
    sqlite3_free(link);
    return SQLITE_NOMEM;
  }
  tsx_connection_hold(connection);
  /* SQLite calls the destructor of the first function, also if that call fails; the others borrow the link. */
  int code = sqlite3_create_function_v2(connection->db, "tessera_library", 0, flags, link, library_function, NULL, NULL,
                                        stream_connection_closes);
  for (int arguments = 1; arguments <= 3 && code == SQLITE_OK; arguments++)
    code = sqlite3_create_function_v2(connection->db, "tessera_stream", arguments, flags, link, stream_function, NULL,
                                      NULL, NULL);
  return code;
}
