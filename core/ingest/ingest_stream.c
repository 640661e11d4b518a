/* ingest_stream.c: the rows of an ingest as Arrow streams. A batch has several parts. */
#include "base/arithmetic.h"
#include "array/environment.h"
#include "arrow/arrow_stream.h"
#include "ingest/ingest.h"

typedef struct ingest_rows {
  tsr_ingest *ingest; /* borrowed */
  uint64_t batch_rows, part; /* part: the next one */
  tsr_ingest_cells *cells; /* by column */
  tsr_arrow_type *types; /* until the stream takes them */
} ingest_rows;

static int ingest_stream_append(ingest_rows *s, tsr_arrow_column *columns, tsr_error *error) {
  const tsr_arrow_rows rows = {.count = tsr__ingest_part_rows(s->ingest, s->part)};
  for (uint32_t i = 0; i < s->ingest->column_count; i++) {
    tsr_column cells;
    TSR_TRY(tsr__ingest_cells(s->ingest, i, s->part, &s->ingest->shown.fields[i], &s->cells[i], &cells, error));
    TSR_TRY(tsr__arrow_column_append(&columns[i], &cells, &rows, error));
  }
  return TSR_OK;
}

static int ingest_stream_collect(void *argument, tsr_arrow_column *columns, uint64_t *rows, tsr_error *error) {
  ingest_rows *s = argument;
  tsr_ingest *g = s->ingest;
  while (s->part < g->counts.parts && !tsr__arrow_is_full(columns, g->column_count, *rows, s->batch_rows)) {
    const uint64_t more = tsr__ingest_part_rows(g, s->part);
    for (uint32_t i = 0; i<g->column_count && * rows> 0; i++)
      TSR_TRY(tsr__arrow_column_reserve(&columns[i], TSR_MAX(s->batch_rows, *rows + more), error));
    TSR_TRY(ingest_stream_append(s, columns, error));
    *rows += more;
    s->part++;
  }
  return s->part < g->counts.parts;
}

static void ingest_stream_close(void *argument) {
  ingest_rows *s = argument;
  for (uint32_t i = 0; s->cells && i < s->ingest->column_count; i++) tsr__ingest_cells_end(&s->cells[i]);
  tsr__free(s->cells);
  tsr__free(s->types);
  tsr__free(s);
}

/* Describes the columns, once for all streams. */
static int ingest_stream_fields(tsr_ingest *g, tsr_error *error) {
  tsr_field *fields;
  TSR_TRY(tsr__ingest_decide(g, false, error));
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, g->column_count, &fields, error));
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, g->column_count, &g->shown.enumerations, error));
  for (uint32_t i = 0; i < g->column_count; i++) {
    TSR_TRY(tsr__ingest_field(g, i, &fields[i], &g->shown.enumerations[i], error));
    fields[i].cell_size = tsr_datatype_size(fields[i].datatype);
    if (fields[i].values_per_cell != TSR_VARIABLE) fields[i].cell_size *= fields[i].values_per_cell;
  }
  g->shown.fields = fields;
  return TSR_OK;
}

static int ingest_stream_begin(ingest_rows *s, const tsr_arrow_options *options, tsr_error *error) {
  tsr_ingest *g = s->ingest;
  tsr_memory *memory = &g->environment->memory;
  s->batch_rows = options->batch_rows ? options->batch_rows : TSR_ARROW_BATCH_ROWS;
  if (!g->shown.fields) TSR_TRY(ingest_stream_fields(g, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, g->column_count, &s->cells, error));
  for (uint32_t i = 0; i < g->column_count; i++) tsr__ingest_cells_begin(&s->cells[i], memory);
  TSR_TRY(TSR_ALLOC_ARRAY(memory, g->column_count, &s->types, error));
  for (uint32_t i = 0; i < g->column_count; i++) {
    const tsr_ingest_kept *c = &g->columns[i];
    const tsr_enumeration *labels = c->given->labels ? &g->shown.enumerations[i] : NULL;
    tsr__arrow_type_choose(&g->shown.fields[i], labels, false, options, &s->types[i]);
    if (c->class == TSR_INGEST_NONE && !c->given->typed && !c->given->has_empty) tsr__arrow_type_nulls(&s->types[i]);
  }
  return TSR_OK;
}

int tsr_ingest_stream(tsr_ingest *g, const tsr_arrow_options *options, struct ArrowArrayStream *out, tsr_error *error) {
  TSR_OWN_ERROR(error);
  static const tsr_arrow_options defaults = {0};
  ingest_rows *s;
  if (!options) options = &defaults;
  TSR_TRY(TSR_ALLOC(tsr__memory_process(), &s, error));
  s->ingest = g;
  const tsr_arrow_source source = {.argument = s, .collect = ingest_stream_collect, .close = ingest_stream_close};
  int rc = ingest_stream_begin(s, options, error);
  if (rc >= 0) rc = tsr__arrow_stream_make(&source, s->types, g->column_count, options, out, error);
  if (rc < 0) ingest_stream_close(s);
  else s->types = NULL; /* they are the stream's */
  return rc;
}
