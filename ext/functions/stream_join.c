/* stream_join.c: one stream of the rows of several, such as the parts of an array that a list of coordinates chooses. */
#include "functions/stream_join.h"

#include <string.h>

#include "connection/sqlite_api.h"

#define JOIN_MAX 1000000u /* streams; Python joins a thousand at most */

typedef struct joined_stream { /* private_data */
  uint64_t count, at; /* the stream that is read now */
  struct ArrowArrayStream *streams[]; /* owned */
} joined_stream;

static struct ArrowArrayStream *join_current(struct ArrowArrayStream *stream) {
  const joined_stream *joined = stream->private_data;
  return joined->streams[joined->at];
}

static int join_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  struct ArrowArrayStream *one = join_current(stream);
  return one->get_schema(one, out);
}

static int join_get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  joined_stream *joined = stream->private_data;
  while (true) {
    struct ArrowArrayStream *one = join_current(stream);
    const int code = one->get_next(one, out);
    if (code != 0 || out->release || joined->at + 1 == joined->count) return code;
    joined->at++;
  }
}

static const char *join_last_error(struct ArrowArrayStream *stream) {
  struct ArrowArrayStream *one = join_current(stream);
  return one->get_last_error(one);
}

static void join_release(struct ArrowArrayStream *stream) {
  joined_stream *joined = stream->private_data;
  for (uint64_t i = 0; i < joined->count; i++) {
    if (joined->streams[i]->release) joined->streams[i]->release(joined->streams[i]);
    sqlite3_free(joined->streams[i]);
  }
  sqlite3_free(joined);
  stream->private_data = NULL;
  stream->release = NULL;
}

bool tsx_streams_join(struct ArrowArrayStream *const *streams, uint64_t count, struct ArrowArrayStream *out) {
  joined_stream *joined =
      count > 0 && count <= JOIN_MAX ? sqlite3_malloc64(sizeof *joined + count * sizeof *streams) : NULL;
  if (!joined) return false;
  joined->count = count;
  joined->at = 0;
  memcpy(joined->streams, streams, count * sizeof *streams);
  *out = (struct ArrowArrayStream){.get_schema = join_get_schema,
                                   .get_next = join_get_next,
                                   .get_last_error = join_last_error,
                                   .release = join_release,
                                   .private_data = joined};
  return true;
}
