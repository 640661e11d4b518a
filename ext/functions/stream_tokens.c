/* stream_tokens.c: streams that wait for somebody to take them: those that SQL made for C, and those of C for SQL. */
#include "functions/stream_tokens.h"

#include <pthread.h>
#include <string.h>

#include "connection/errors.h"
#include "functions/lend.h"

typedef struct waiting_stream {
  struct waiting_stream *next;
  struct ArrowArrayStream stream;
  const void *owner;
  char token[TESSERA_TOKEN_SIZE];
} waiting_stream;

static pthread_mutex_t waiting_mutex = PTHREAD_MUTEX_INITIALIZER;
static waiting_stream *waiting_streams;

int tsx_tokens_put(struct ArrowArrayStream *stream, const void *owner, char token[TESSERA_TOKEN_SIZE],
                   tsr_error *error) {
  unsigned count = 0;
  waiting_stream *made = sqlite3_malloc64(sizeof *made);
  if (!made) return tsx_out_of_memory(error);
  tsx_token_make(token);
  *made = (waiting_stream){.stream = *stream, .owner = owner};
  memcpy(made->token, token, sizeof made->token);
  pthread_mutex_lock(&waiting_mutex);
  for (const waiting_stream *s = waiting_streams; s; s = s->next) count += s->owner == owner;
  const bool room = count < TSX_STREAM_TOKENS_MAX;
  if (room) {
    made->next = waiting_streams;
    waiting_streams = made;
    stream->release = NULL; /* the stream has moved */
  }
  pthread_mutex_unlock(&waiting_mutex);
  if (room) return TSR_OK;
  sqlite3_free(made);
  return tsx_fail(error, TSR_TOOBIG, "%d streams of this connection wait for somebody to take them",
                  TSX_STREAM_TOKENS_MAX);
}

/* Takes the stream of a token, or, without one, any stream of an owner. */
static bool waiting_take(const char *token, const void *owner, struct ArrowArrayStream *stream) {
  waiting_stream *found = NULL;
  pthread_mutex_lock(&waiting_mutex);
  for (waiting_stream **at = &waiting_streams; *at && !found;) {
    if (token ? strcmp((*at)->token, token) == 0 : (*at)->owner == owner) {
      found = *at;
      *at = found->next;
    } else {
      at = &(*at)->next;
    }
  }
  pthread_mutex_unlock(&waiting_mutex);
  if (found) *stream = found->stream;
  sqlite3_free(found);
  return found != NULL;
}

bool tsx_tokens_take(const char *token, struct ArrowArrayStream *stream) {
  return token && waiting_take(token, NULL, stream);
}

bool tsx_tokens_take_owned(const void *owner, struct ArrowArrayStream *stream) {
  return waiting_take(NULL, owner, stream);
}
