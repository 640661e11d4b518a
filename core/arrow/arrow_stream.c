/* arrow_stream.c: an Arrow stream over any source of columns: its functions, errors and batches. */
#include "arrow/arrow_stream.h"

#include <errno.h>
#include <string.h>

#include "base/arithmetic.h"

#define ARROW_BATCH_BYTES (UINT64_C(1) << 28) /* of strings: a batch with more ends */

typedef struct arrow_stream { /* private_data */
  tsr_arrow_source source;
  tsr_arrow_options options; /* without its pointers */
  uint32_t count; /* columns */
  tsr_arrow_type *types;
  tsr_arrow_column *columns;
  struct ArrowArray *arrays;
  bool begun, ended; /* begun: the schema has been asked for, or a batch */
  tsr_error error;
} arrow_stream;

bool tsr__arrow_is_full(const tsr_arrow_column *columns, uint32_t count, uint64_t rows, uint64_t batch_rows) {
  bool full = rows >= batch_rows;
  for (uint32_t i = 0; i < count; i++) full |= columns[i].values.size >= ARROW_BATCH_BYTES;
  return full;
}

static int arrow_next(arrow_stream *s, struct ArrowArray *out, tsr_error *error) {
  uint64_t rows = 0;
  uint32_t made = 0;
  for (uint32_t i = 0; i < s->count; i++) tsr__arrow_column_begin(&s->types[i], &s->columns[i]);
  int rc = s->source.collect(s->source.argument, s->columns, &rows, error);
  s->ended = rc == 0;
  if (rc >= 0 && rows > 0) {
    for (; made < s->count && rc >= 0; made++)
      rc = tsr__arrow_column_finish(&s->columns[made], &s->options, &s->arrays[made], error);
    if (rc >= 0) rc = tsr__arrow_struct_make(s->arrays, s->count, rows, out, error);
    else
      for (uint32_t i = 0; i + 1 < made; i++) s->arrays[i].release(&s->arrays[i]);
  }
  for (uint32_t i = 0; i < s->count; i++) tsr__arrow_column_drop(&s->columns[i]);
  return rc;
}

int tsr_arrow_errno(int rc) {
  switch (rc) {
  case TSR_NOMEM:
  case TSR_BUDGET:
  case TSR_TOOBIG: return ENOMEM;
  case TSR_INTERRUPT: return ECANCELED;
  case TSR_UNREACHABLE:
  case TSR_IO: return EIO;
  default: return rc < 0 ? EINVAL : 0;
  }
}

static int arrow_stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  arrow_stream *s = stream->private_data;
  s->begun = true;
  tsr__error_clear(&s->error);
  return tsr_arrow_errno(tsr__arrow_schema_make(s->types, s->count, &s->options, out, &s->error));
}

static int arrow_stream_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  arrow_stream *s = stream->private_data;
  *out = (struct ArrowArray){0}; /* without a release function: the end */
  s->begun = true;
  tsr__error_clear(&s->error);
  if (s->ended) return 0;
  const int rc = arrow_next(s, out, &s->error);
  if (rc < 0) s->ended = true;
  return tsr_arrow_errno(rc);
}

static const char *arrow_stream_error(struct ArrowArrayStream *stream) {
  const arrow_stream *s = stream->private_data;
  return s->error.code < 0 ? s->error.message : NULL;
}

static void arrow_stream_free(arrow_stream *s) {
  tsr__free(s->columns);
  tsr__free(s->arrays);
  tsr__free(s);
}

static void arrow_stream_release(struct ArrowArrayStream *stream) {
  arrow_stream *s = stream->private_data;
  tsr__free(s->types);
  s->source.close(s->source.argument);
  arrow_stream_free(s);
  stream->private_data = NULL;
  stream->release = NULL;
}

int tsr__arrow_stream_make(const tsr_arrow_source *source, tsr_arrow_type *types, uint32_t count,
                           const tsr_arrow_options *options, struct ArrowArrayStream *out, tsr_error *error) {
  arrow_stream *s;
  TSR_TRY(TSR_ALLOC(tsr__memory_process(), &s, error));
  int rc = TSR_ALLOC_ARRAY(tsr__memory_process(), count, &s->columns, error);
  if (rc >= 0) rc = TSR_ALLOC_ARRAY(tsr__memory_process(), count, &s->arrays, error);
  if (rc < 0) {
    arrow_stream_free(s);
    return rc;
  }
  s->source = *source;
  s->options = *options;
  s->options.fields = NULL;
  s->options.request = NULL;
  s->count = count;
  s->types = types;
  *out = (struct ArrowArrayStream){.get_schema = arrow_stream_schema,
                                   .get_next = arrow_stream_next,
                                   .get_last_error = arrow_stream_error,
                                   .release = arrow_stream_release,
                                   .private_data = s};
  return TSR_OK;
}

/* ---- A schema that is asked for ---------------------------------------------------------------------------------- */

bool tsr_arrow_request(struct ArrowArrayStream *stream, const struct ArrowSchema *requested) {
  if (!stream || stream->release != arrow_stream_release) return false;
  arrow_stream *s = stream->private_data;
  return !s->begun && tsr__arrow_types_request(s->types, s->count, &s->options, requested);
}
