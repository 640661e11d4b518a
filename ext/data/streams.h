/* streams.h: one stream of the rows of several. */
#ifndef TSX_DATA_STREAMS_H
#define TSX_DATA_STREAMS_H

#include <stdbool.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tessera.h"
#include "connection/sqlite_api.h"
#include "connection/connection.h"
#include "table/address.h"
#include "values/slice.h"
#include "data/read_limits.h"

/* tessera_functions.join: makes *out a stream of the rows of `count` streams on the heap (take_new), at least one, one
 * after the other. They have one schema. *out takes them, and frees them when it is released; after a failure they are
 * the caller's. Returns false without memory. */
bool tsx_streams_join(struct ArrowArrayStream *const *streams, uint64_t count, struct ArrowArrayStream *out);

/* Streams that wait for somebody to take them. Each has a token, by which it is taken once. */

#define TSX_STREAM_TOKENS_MAX 256 /* streams of one owner that wait */

/* Keeps a stream, which is moved: its `release` becomes NULL. `owner` is compared only; NULL: C put it in. Returns
 * TSR_TOOBIG if too many streams of the owner wait, TSR_NOMEM; the stream stays the caller's then. */
int tsx_tokens_put(struct ArrowArrayStream *stream, const void *owner, char token[TESSERA_TOKEN_SIZE],
                   tsr_error *error);

/* Moves the stream of a token to *stream. Returns false if there is none. */
bool tsx_tokens_take(const char *token, struct ArrowArrayStream *stream);

/* Moves any stream of an owner to *stream. Returns false if there is none. */
bool tsx_tokens_take_owned(const void *owner, struct ArrowArrayStream *stream);

/* What a connection shares with the streams that it has made: it tells them whether it is still open. */

typedef struct tsx_stream_link {
  pthread_mutex_t lock;
  _Atomic uint32_t references; /* of the connection, its streams, and running calls */
  tsx_connection *connection; /* NULL: it was closed */
  struct lent_stream *streams; /* of arrays: all that are open */
} tsx_stream_link;

/* Makes a link with one reference; NULL: no memory. */
tsx_stream_link *tsx_stream_link_make(tsx_connection *connection);
void tsx_stream_link_drop(tsx_stream_link *link);

/* Takes the link, and the connection's mutex if it is open: 1. Returns 0 with the link alone if the connection was
 * closed, or -1 with neither if another thread has the mutex and the caller does not want to wait. */
int tsx_stream_link_enter(tsx_stream_link *link, bool wait);

/* The arguments of tessera_stream: which cells, which columns, in which Arrow types. */

#define TSX_STREAM_CONDITIONS 64

typedef struct tsx_stream_condition { /* the values of an attribute that a condition lets through */
  uint64_t count, room;
  tsr_range *ranges; /* owned */
  uint8_t **values; /* owned, each too: what the range points to */
} tsx_stream_condition;

typedef struct tsx_stream_request { /* `= {0}` may be released */
  sqlite3 *db;
  const char *array; /* as the user gave it, for messages; borrowed */
  tsr_array *core; /* borrowed */
  const tsr_schema *schema;
  bool shows_codes; /* of enumerations, in the place of labels */
  char **names; /* of the schema's fields, as SQL shows them */
  tsx_slice slice;
  tsr_range *ranges;
  tsr_ranges *dimensions;
  uint32_t *fields;
  tsr_sort *order;
  tsr_predicate *predicates;
  tsx_stream_condition *conditions;
  sqlite3_value *key, *since, *as_of, *seen; /* owned; NULL: not given. `seen`: the option schema */
  tsx_read_limits limits;
  tsr_request request; /* points to the above */
  tsr_arrow_options options; /* points to `request` and `fields` */
} tsx_stream_request;

/* Reads the options that say which array is meant: key, since, as_of and schema. `json` may be NULL or an SQL NULL. */
int tsx_stream_request_begin(sqlite3 *db, sqlite3_value *json, tsx_stream_request *request, tsr_error *error);

/* Reads the slice and the other options; the array is open and its schema known now. Afterwards request->options is
 * complete. */
int tsx_stream_request_read(sqlite3_value *slice, sqlite3_value *json, const tsx_address *address,
                            const tsr_schema *schema, tsx_stream_request *request, tsr_error *error);

void tsx_stream_request_release(tsx_stream_request *request);

/* Tessera_stream and tessera_library, and tessera_api, by which C and Python take Arrow streams. */

/* Registers tessera_stream and tessera_library for a connection; returns SQLite's code. When the connection is closed,
 * its streams end. */
int tsx_register_streams(tsx_connection *connection);

/* The SQL function tessera_create_stream. */

void tsx_create_stream(sqlite3_context *context, int count, sqlite3_value **values);

#endif
