/* stream.c: Arrow streams: over any source of columns, and over the cells of a snapshot.
 *
 * Any source: get_next begins the columns, lets the source append a batch of rows, and moves the columns into arrays. A
 * batch owns its memory. After an error the stream is at its end.
 *
 * The cells of a snapshot: a reader's batches are collected until there are so many rows that the cost of a call no
 * longer matters to the consumer. The columns of a batch are copied in parallel, by the threads that are not decoding
 * the next tiles. The request is fixed when the stream is made; no tile is read before the first get_next.
 *
 * Sections: a stream over any source; a requested schema; the cells of a snapshot: opening, batches, opening and
 * closing.
 */
#include "arrow/arrow.h"

#include <errno.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/options.h"
#include "base/pool.h"
#include "array/array.h"
#include "environment/environment.h"
#include "read/reader.h"

#define ARROW_BATCH_BYTES (UINT64_C(1) << 28) /* a batch with so many bytes in one column ends */

typedef struct arrow_stream { /* private_data */
  tsr_arrow_source source;
  tsr_arrow_options options; /* without its pointers */
  uint32_t count; /* columns */
  tsr_arrow_type *types;
  tsr_arrow_column *columns;
  struct ArrowArray *arrays;
  bool begun, ended; /* begun: the consumer has got the schema or a batch */
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
  *out = (struct ArrowArray){0}; /* an array without a release function means the end */
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

/* ---- A requested schema ----------------------------------------------------------------------------------------- */

bool tsr_arrow_request(struct ArrowArrayStream *stream, const struct ArrowSchema *requested) {
  if (!stream || stream->release != arrow_stream_release) return false;
  arrow_stream *s = stream->private_data;
  return !s->begun && tsr__arrow_types_request(s->types, s->count, &s->options, requested);
}

#define ARROW_PARALLEL_FROM 16384u /* from so many rows on, columns are copied in parallel */

typedef struct arrow_cells {
  tsr_environment *environment; /* owned; NULL: the array belongs to the caller */
  tsr_array *array; /* owned with the environment */
  tsr_snapshot *snapshot; /* held */
  tsr_reader *reader;
  uint64_t batch_rows;
  bool fill;
  uint32_t count; /* columns */
  uint32_t *fields;
  const tsr_arrow_label *labels; /* of the fields behind those of the schema; borrowed */
  tsr_arrow_type *types; /* owned until the stream takes them */
  tsr_arrow_column *columns; /* borrowed while a batch is collected */
  const tsr_column **cells; /* of the reader's batch, by column */
  tsr_arrow_rows *rows; /* of the reader's batch, by column */
  const tsr_subtile *subtile; /* the reader's batch is exactly its cells, in order; NULL: it is not */
} arrow_cells;

/* ---- The cells of a snapshot: opening --------------------------------------------------------------------------- */

/* Returns the label that a field number stands for; NULL if it is a field of the schema. */
static const tsr_arrow_label *arrow_label_of(const tsr_schema *schema, const tsr_arrow_label *labels, uint32_t field) {
  const uint32_t all = schema->dimension_count + schema->attribute_count;
  return field < all ? NULL : &labels[field - all];
}

/* Lists the fields that become columns. */
static int arrow_choose_fields(const tsr_schema *schema, const tsr_arrow_options *options, tsr_memory *memory,
                               uint32_t **fields, uint32_t *count, tsr_error *error) {
  const uint32_t all = schema->dimension_count + schema->attribute_count;
  *count = options->fields ? options->field_count : all;
  TSR_TRY(TSR_ALLOC_ARRAY(memory, *count, fields, error));
  for (uint32_t i = 0; i < *count; i++) {
    (*fields)[i] = options->fields ? options->fields[i] : i;
    if ((*fields)[i] >= all && (*fields)[i] - all >= options->label_count)
      return tsr__fail(error, TSR_ERROR, "there is no field %u, the schema has %u", (*fields)[i], all);
  }
  return TSR_OK;
}

static int arrow_choose_types(tsr_array *array, const tsr_schema *schema, const tsr_arrow_options *options,
                              const uint32_t *fields, uint32_t count, tsr_arrow_type *types, tsr_error *error) {
  for (uint32_t i = 0; i < count; i++) {
    const tsr_arrow_label *label = arrow_label_of(schema, options->labels, fields[i]);
    if (label) {
      tsr__arrow_type_choose(label->field, NULL, schema->dense, options, &types[i]);
      types[i].name = label->name;
      types[i].nullable = true;
      continue;
    }
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
  tsr_arrow_options own;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_arrow_options, label_count, options, &own, error));
  options = &own;
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

/* Returns the field that is read for a column. */
static uint32_t arrow_read_field(const arrow_cells *s, uint32_t index) {
  const tsr_arrow_label *label = arrow_label_of(s->snapshot->schema, s->labels, s->fields[index]);
  return label ? label->dimension : s->fields[index];
}

static int arrow_start_reader(arrow_cells *s, const tsr_request *given, tsr_error *error) {
  const tsr_schema *schema = s->snapshot->schema;
  tsr_request request;
  bool *wanted;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_request, threads, given, &request, error));
  TSR_TRY(
      TSR_ALLOC_ARRAY(&s->snapshot->array->memory, schema->dimension_count + schema->attribute_count, &wanted, error));
  for (uint32_t i = 0; i < s->count; i++) wanted[arrow_read_field(s, i)] = true;
  request.fields = wanted;
  request.fill_unwritten = request.fill_unwritten || s->fill;
  int rc = tsr_reader_open(s->snapshot, &s->reader, error);
  if (rc >= 0) rc = tsr_reader_start(s->reader, &request, error);
  tsr__free(wanted);
  return rc;
}

static int arrow_cells_begin(arrow_cells *s, const tsr_arrow_options *options, tsr_error *error) {
  tsr_memory *memory = &s->snapshot->array->memory;
  const tsr_schema *schema = s->snapshot->schema;
  s->batch_rows = options->batch_rows ? options->batch_rows : TSR_ARROW_BATCH_ROWS;
  s->fill = options->fill;
  s->labels = options->labels;
  TSR_TRY(arrow_choose_fields(schema, options, memory, &s->fields, &s->count, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, s->count, &s->types, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, s->count, &s->cells, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, s->count, &s->rows, error));
  TSR_TRY(arrow_choose_types(s->snapshot->array, schema, options, s->fields, s->count, s->types, error));
  return arrow_start_reader(s, options->request, error);
}

/* ---- The cells of a snapshot: batches --------------------------------------------------------------------------- */

/* Returns the axis of a subtile for a dimension. */
static uint32_t arrow_axis_of(const arrow_cells *s, uint32_t dimension) {
  const tsr_grid *grid = &s->snapshot->grid;
  return grid->col_major_cells ? grid->dimensions - 1 - dimension : dimension;
}

/* Returns true if the column has integer coordinates that follow from the subtile. If all rows have the same one, the
 * reader's constant column is faster still. */
static bool arrow_is_computed(const arrow_cells *s, uint32_t index) {
  const tsr_arrow_type *type = s->columns[index].type;
  const uint32_t d = s->fields[index];
  if (!s->subtile || d >= s->snapshot->schema->dimension_count || type->form != TSR_ARROW_COPY) return false;
  if (s->subtile->axes[arrow_axis_of(s, d)].count == 1) return false;
  const tsr_kind kind = tsr_datatype_kind(type->datatype);
  return kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED;
}

/* Writes the coordinates of the subtile's cells into the column. */
static int arrow_compute(arrow_cells *s, uint32_t index, tsr_error *error) {
  const tsr_field *field = &s->snapshot->schema->fields[s->fields[index]];
  uint64_t scratch[2 * TSR_MAX_DIMENSIONS];
  tsr_subtile subtile = *s->subtile; /* with scratch of its own, since columns are made in parallel */
  uint8_t *values;
  subtile.values = scratch;
  subtile.at = scratch + TSR_MAX_DIMENSIONS;
  TSR_TRY(tsr__arrow_column_extend(&s->columns[index], subtile.cells, &values, error));
  tsr__subtile_values(&subtile, arrow_axis_of(s, s->fields[index]), field->low, field->cell_size, values);
  return TSR_OK;
}

static int arrow_append_task(void *argument, uint64_t index, tsr_error *error) {
  arrow_cells *s = argument;
  const tsr_arrow_label *label = arrow_label_of(s->snapshot->schema, s->labels, s->fields[index]);
  if (!s->cells[index]) return arrow_compute(s, (uint32_t)index, error);
  if (label) return tsr__arrow_column_append_label(&s->columns[index], label, s->cells[index], &s->rows[index], error);
  return tsr__arrow_column_append(&s->columns[index], s->cells[index], &s->rows[index], error);
}

/* Returns the subtile whose cells are the batch, in order; NULL if there is none. */
static const tsr_subtile *arrow_subtile_of(tsr_batch_iterator *iterator, const tsr_batch *batch) {
  if (batch->selection || batch->first > 0 || !iterator->subtile) return NULL;
  const tsr_subtile *subtile = iterator->subtile(iterator);
  return subtile && subtile->index_count == batch->count && subtile->cells == batch->count ? subtile : NULL;
}

/* Appends a batch of the reader to all columns. */
static int arrow_append_batch(arrow_cells *s, const tsr_batch *batch, tsr_error *error) {
  s->subtile = arrow_subtile_of(s->reader->iterator, batch);
  for (uint32_t i = 0; i < s->count; i++) {
    s->cells[i] = NULL;
    if (arrow_is_computed(s, i)) continue;
    TSR_TRY(tsr_reader_column(s->reader, arrow_read_field(s, i), &s->cells[i], error));
    s->rows[i] = (tsr_arrow_rows){.count = batch->count, .first = batch->first, .selection = batch->selection};
    s->rows[i].null = s->cells[i]->unwritten && !s->fill;
  }
  const unsigned threads = batch->count < ARROW_PARALLEL_FROM ? 1 : tsr__reader_threads(s->reader);
  return tsr__parallel_for(threads, s->count, arrow_append_task, s, error);
}

/* Collects the reader's batches until there are batch_rows rows; or until there are more than half as many and another
 * batch of the same size would exceed batch_rows, so that the columns would have to be reallocated. If the reader has
 * enough cells, memory for batch_rows rows is reserved at once. */
static int arrow_collect_batches(arrow_cells *s, uint64_t *rows, tsr_error *error) {
  const tsr_batch *batch;
  uint64_t last = 0;
  while (!tsr__arrow_is_full(s->columns, s->count, *rows, s->batch_rows)) {
    if (*rows > s->batch_rows / 2 && *rows + last > s->batch_rows) return 1;
    const int rc = tsr_reader_next(s->reader, &batch, error);
    if (rc <= 0) return rc;
    const bool many = *rows > 0 || (s->reader->predicates.count == 0 && tsr__reader_cells(s->reader) >= s->batch_rows);
    for (uint32_t i = 0; i < s->count && many; i++)
      TSR_TRY(tsr__arrow_column_reserve(&s->columns[i], TSR_MAX(s->batch_rows, *rows + batch->count), error));
    TSR_TRY(arrow_append_batch(s, batch, error));
    *rows += batch->count;
    last = batch->count;
  }
  return 1;
}

static int arrow_cells_collect(void *argument, tsr_arrow_column *columns, uint64_t *rows, tsr_error *error) {
  arrow_cells *s = argument;
  s->columns = columns;
  const int rc = arrow_collect_batches(s, rows, error);
  return rc < 0 ? tsr__wrap(error, "array %s", s->snapshot->array->path) : rc;
}

/* ---- The cells of a snapshot: opening and closing --------------------------------------------------------------- */

static void arrow_cells_close(void *argument) {
  arrow_cells *s = argument;
  if (!s) return;
  tsr_reader_close(s->reader);
  tsr__free(s->fields);
  tsr__free(s->types);
  tsr__free(s->cells);
  tsr__free(s->rows);
  tsr_snapshot_close(s->snapshot);
  if (s->environment) {
    tsr_array_close(s->array);
    tsr_environment_close(s->environment);
  }
  tsr__free(s);
}

static int arrow_cells_stream(arrow_cells *s, const tsr_arrow_options *options, struct ArrowArrayStream *out,
                              tsr_error *error) {
  tsr_arrow_options own;
  const tsr_arrow_source source = {.argument = s, .collect = arrow_cells_collect, .close = arrow_cells_close};
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_arrow_options, label_count, options, &own, error));
  options = &own;
  TSR_TRY(arrow_cells_begin(s, options, error));
  TSR_TRY(tsr__arrow_stream_make(&source, s->types, s->count, options, out, error));
  s->types = NULL; /* they belong to the stream now */
  return TSR_OK;
}

int tsr_arrow_open(tsr_snapshot *snapshot, const tsr_arrow_options *options, struct ArrowArrayStream *out,
                   tsr_error *error) {
  TSR_OWN_ERROR(error);
  arrow_cells *s;
  TSR_TRY(TSR_ALLOC(tsr__memory_process(), &s, error));
  s->snapshot = snapshot;
  tsr__snapshot_hold(snapshot);
  const int rc = arrow_cells_stream(s, options, out, error);
  if (rc >= 0) return TSR_OK;
  tsr__wrap(error, "array %s", snapshot->array->path);
  arrow_cells_close(s);
  return rc;
}

int tsr_arrow_open_path(const tsr_environment_options *environment, const char *path, const tsr_array_options *array,
                        uint64_t since, uint64_t as_of, const tsr_arrow_options *options, struct ArrowArrayStream *out,
                        tsr_error *error) {
  TSR_OWN_ERROR(error);
  arrow_cells *s;
  TSR_TRY(TSR_ALLOC(tsr__memory_process(), &s, error));
  int rc = tsr_environment_open(environment, &s->environment, error);
  if (rc >= 0) rc = tsr_array_open(s->environment, path, array, &s->array, error);
  if (rc >= 0) rc = tsr_snapshot_open(s->array, NULL, since, as_of, &s->snapshot, error);
  if (rc >= 0) rc = arrow_cells_stream(s, options, out, error);
  if (rc >= 0) return TSR_OK;
  arrow_cells_close(s);
  return rc;
}
