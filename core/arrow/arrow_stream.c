/* arrow_stream.c: the cells of a snapshot as an Arrow stream.
 *
 * A stream has a reader and collects its batches until so many rows are together that a consumer does not feel the cost
 * of a call. The columns of a batch are copied side by side, by the threads that are not decoding the next tiles. What
 * is asked for is fixed when the stream is made; no tile is read before get_next. */
#include <errno.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/snapshot.h"
#include "read/reader.h"
#include "arrow/arrow_column.h"

#define ARROW_BATCH_ROWS    262144u
#define ARROW_BATCH_BYTES   (UINT64_C(1) << 28) /* of strings: a batch with more ends */
#define ARROW_PARALLEL_FROM 16384u /* rows from which on columns are copied side by side */

typedef struct arrow_stream {
  tsr_environment *environment; /* owned; NULL: the array is the caller's */
  tsr_array *array; /* owned with the environment */
  tsr_snapshot *snapshot; /* held */
  tsr_reader *reader;
  tsr_arrow_options options; /* without its pointers */
  uint32_t count; /* columns */
  uint32_t *fields;
  tsr_arrow_type *types;
  tsr_arrow_column *columns;
  const tsr_column **cells; /* of the reader's batch, by column */
  tsr_arrow_rows *rows; /* of the reader's batch, by column */
  struct ArrowArray *arrays;
  bool ended;
  tsr_error error;
} arrow_stream;

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

/* Lists the fields that become columns. */
static int arrow_choose_fields(const tsr_schema *schema, const tsr_arrow_options *options, tsr_memory *memory,
                               uint32_t **fields, uint32_t *count, tsr_error *error) {
  const uint32_t all = schema->dimension_count + schema->attribute_count;
  *count = options->fields ? options->field_count : all;
  TSR_TRY(TSR_ALLOC_ARRAY(memory, *count, fields, error));
  for (uint32_t i = 0; i < *count; i++) {
    (*fields)[i] = options->fields ? options->fields[i] : i;
    if ((*fields)[i] >= all)
      return tsr__fail(error, TSR_ERROR, "there is no field %u, the schema has %u", (*fields)[i], all);
  }
  return TSR_OK;
}

static int arrow_choose_types(tsr_array *array, const tsr_schema *schema, const tsr_arrow_options *options,
                              const uint32_t *fields, uint32_t count, tsr_arrow_type *types, tsr_error *error) {
  for (uint32_t i = 0; i < count; i++) {
    const tsr_field *field = &schema->fields[fields[i]];
    const tsr_enumeration *labels = NULL;
    if (field->enumeration && options->enums != TSR_ARROW_ENUMS_CODE)
      TSR_TRY(tsr_array_enumeration(array, schema, field->enumeration, &labels, error));
    tsr__arrow_type_choose(field, labels, schema->dense, options, &types[i]);
  }
  return TSR_OK;
}

int tsr_arrow_schema(tsr_array *array, const tsr_schema *schema, const tsr_arrow_options *options,
                     struct ArrowSchema *out, tsr_error *error) {
  TSR_OWN_ERROR(error);
  static const tsr_arrow_options defaults = {0};
  if (!options) options = &defaults;
  tsr_memory *memory = array ? &array->memory : tsr__memory_process();
  uint32_t *fields = NULL, count = 0;
  tsr_arrow_type *types = NULL;
  int rc = arrow_choose_fields(schema, options, memory, &fields, &count, error);
  if (rc >= 0) rc = TSR_ALLOC_ARRAY(memory, count, &types, error);
  if (rc >= 0) rc = arrow_choose_types(array, schema, options, fields, count, types, error);
  if (rc >= 0) rc = tsr__arrow_schema_make(types, count, options, out, error);
  tsr__free(types);
  tsr__free(fields);
  return rc;
}

static int arrow_start_reader(arrow_stream *s, const tsr_request *given, tsr_error *error) {
  const tsr_schema *schema = s->snapshot->schema;
  tsr_request request = given ? *given : (tsr_request){0};
  bool *wanted;
  TSR_TRY(
      TSR_ALLOC_ARRAY(&s->snapshot->array->memory, schema->dimension_count + schema->attribute_count, &wanted, error));
  for (uint32_t i = 0; i < s->count; i++) wanted[s->fields[i]] = true;
  request.fields = wanted;
  request.fill_unwritten = request.fill_unwritten || s->options.fill;
  int rc = tsr_reader_open(s->snapshot, &s->reader, error);
  if (rc >= 0) rc = tsr_reader_start(s->reader, &request, error);
  tsr__free(wanted);
  return rc;
}

static int arrow_stream_begin(arrow_stream *s, const tsr_arrow_options *options, tsr_error *error) {
  tsr_memory *memory = &s->snapshot->array->memory;
  const tsr_schema *schema = s->snapshot->schema;
  TSR_TRY(arrow_choose_fields(schema, options, memory, &s->fields, &s->count, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, s->count, &s->types, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, s->count, &s->columns, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, s->count, &s->cells, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, s->count, &s->rows, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, s->count, &s->arrays, error));
  TSR_TRY(arrow_choose_types(s->snapshot->array, schema, options, s->fields, s->count, s->types, error));
  return arrow_start_reader(s, options->request, error);
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

static int arrow_append_task(void *argument, uint64_t index, tsr_error *error) {
  arrow_stream *s = argument;
  return tsr__arrow_column_append(&s->columns[index], s->cells[index], &s->rows[index], error);
}

/* Appends a batch of the reader to the columns. */
static int arrow_append_batch(arrow_stream *s, const tsr_batch *batch, tsr_error *error) {
  for (uint32_t i = 0; i < s->count; i++) {
    TSR_TRY(tsr_reader_column(s->reader, s->fields[i], &s->cells[i], error));
    s->rows[i] = (tsr_arrow_rows){.count = batch->count, .first = batch->first, .selection = batch->selection};
    s->rows[i].null = s->cells[i]->unwritten && !s->options.fill;
  }
  const unsigned threads = batch->count < ARROW_PARALLEL_FROM ? 1 : tsr__reader_threads(s->reader);
  return tsr__parallel_for(threads, s->count, arrow_append_task, s, error);
}

static bool arrow_is_full(const arrow_stream *s, uint64_t rows) {
  bool full = rows >= s->options.batch_rows;
  for (uint32_t i = 0; i < s->count; i++) full |= s->columns[i].values.size >= ARROW_BATCH_BYTES;
  return full;
}

static int arrow_collect(arrow_stream *s, uint64_t *rows, tsr_error *error) {
  const tsr_batch *batch;
  *rows = 0;
  for (uint32_t i = 0; i < s->count; i++) tsr__arrow_column_begin(&s->types[i], &s->columns[i]);
  while (!arrow_is_full(s, *rows)) {
    const int rc = tsr_reader_next(s->reader, &batch, error);
    if (rc < 0) return rc;
    s->ended = rc == 0;
    if (s->ended) break;
    for (uint32_t i = 0; i<s->count && * rows> 0; i++)
      TSR_TRY(tsr__arrow_column_reserve(&s->columns[i], TSR_MAX(s->options.batch_rows, *rows + batch->count), error));
    TSR_TRY(arrow_append_batch(s, batch, error));
    *rows += batch->count;
  }
  return TSR_OK;
}

static int arrow_next(arrow_stream *s, struct ArrowArray *out, tsr_error *error) {
  uint64_t rows = 0;
  uint32_t made = 0;
  int rc = arrow_collect(s, &rows, error);
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

/* ---- The interface ----------------------------------------------------------------------------------------------- */

static int arrow_errno(int rc) {
  switch (rc) {
  case TSR_NOMEM:
  case TSR_BUDGET:
  case TSR_TOOBIG: return ENOMEM;
  case TSR_INTERRUPT: return ECANCELED;
  case TSR_IO: return EIO;
  default: return rc < 0 ? EINVAL : 0;
  }
}

static int arrow_stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
  arrow_stream *s = stream->private_data;
  tsr__error_clear(&s->error);
  return arrow_errno(tsr__arrow_schema_make(s->types, s->count, &s->options, out, &s->error));
}

static int arrow_stream_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
  arrow_stream *s = stream->private_data;
  *out = (struct ArrowArray){0}; /* without a release function: the end */
  tsr__error_clear(&s->error);
  if (s->ended) return 0;
  const int rc = arrow_next(s, out, &s->error);
  if (rc >= 0) return 0;
  s->ended = true;
  tsr__wrap(&s->error, "array %s", s->snapshot->array->path);
  return arrow_errno(rc);
}

static const char *arrow_stream_error(struct ArrowArrayStream *stream) {
  const arrow_stream *s = stream->private_data;
  return s->error.code < 0 ? s->error.message : NULL;
}

static void arrow_stream_close(arrow_stream *s) {
  if (!s) return;
  tsr_reader_close(s->reader);
  tsr__free(s->fields);
  tsr__free(s->types);
  tsr__free(s->columns);
  tsr__free(s->cells);
  tsr__free(s->rows);
  tsr__free(s->arrays);
  tsr_snapshot_close(s->snapshot);
  if (s->environment) {
    tsr_array_close(s->array);
    tsr_environment_close(s->environment);
  }
  tsr__free(s);
}

static void arrow_stream_release(struct ArrowArrayStream *stream) {
  arrow_stream_close(stream->private_data);
  stream->private_data = NULL;
  stream->release = NULL;
}

static int arrow_stream_make(arrow_stream *s, const tsr_arrow_options *options, struct ArrowArrayStream *out,
                             tsr_error *error) {
  static const tsr_arrow_options defaults = {0};
  if (!options) options = &defaults;
  s->options = *options;
  s->options.fields = NULL;
  s->options.request = NULL;
  if (s->options.batch_rows == 0) s->options.batch_rows = ARROW_BATCH_ROWS;
  TSR_TRY(arrow_stream_begin(s, options, error));
  *out = (struct ArrowArrayStream){.get_schema = arrow_stream_schema,
                                   .get_next = arrow_stream_next,
                                   .get_last_error = arrow_stream_error,
                                   .release = arrow_stream_release,
                                   .private_data = s};
  return TSR_OK;
}

int tsr_arrow_open(tsr_snapshot *snapshot, const tsr_arrow_options *options, struct ArrowArrayStream *out,
                   tsr_error *error) {
  TSR_OWN_ERROR(error);
  arrow_stream *s;
  TSR_TRY(TSR_ALLOC(tsr__memory_process(), &s, error));
  s->snapshot = snapshot;
  tsr__snapshot_hold(snapshot);
  const int rc = arrow_stream_make(s, options, out, error);
  if (rc >= 0) return TSR_OK;
  tsr__wrap(error, "array %s", snapshot->array->path);
  arrow_stream_close(s);
  return rc;
}

int tsr_arrow_open_path(const tsr_environment_options *environment, const char *path, const tsr_array_options *array,
                        uint64_t since, uint64_t as_of, const tsr_arrow_options *options, struct ArrowArrayStream *out,
                        tsr_error *error) {
  TSR_OWN_ERROR(error);
  arrow_stream *s;
  TSR_TRY(TSR_ALLOC(tsr__memory_process(), &s, error));
  int rc = tsr_environment_open(environment, &s->environment, error);
  if (rc >= 0) rc = tsr_array_open(s->environment, path, array, &s->array, error);
  if (rc >= 0) rc = tsr_snapshot_open(s->array, NULL, since, as_of, &s->snapshot, error);
  if (rc >= 0) rc = arrow_stream_make(s, options, out, error);
  if (rc >= 0) return TSR_OK;
  arrow_stream_close(s);
  return rc;
}
