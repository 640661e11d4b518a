/* ingest_write.c: writes the rows of an ingest into an array, part by part: values of 8 bytes become those of the
 * fields' datatypes, and the fields get the columns that have their names. */
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "array/environment.h"
#include "model/datatype.h"
#include "write/writer.h"
#include "ingest/ingest_labels.h"
#include "ingest/ingest_twice.h"

typedef struct ingest_target { /* one field of the array */
  uint32_t column; /* UINT32_MAX: the dimension `row` */
  tsr_ingest_cells memory;
} ingest_target;

typedef struct ingest_writing {
  tsr_ingest *ingest;
  tsr_writer *writer;
  const tsr_schema *schema; /* of the writer */
  uint32_t field_count;
  bool appends; /* to an array that existed */
  uint64_t first_row; /* of rows without coordinates: the order key of the first one */
  ingest_target *targets; /* by field */
  tsr_column *columns; /* by field */
  tsr_arena arena;
} ingest_writing;

/* ---- Cells ------------------------------------------------------------------------------------------------------- */

/* Makes the coordinates of rows that have none: those from order key `key` on. */
static int ingest_row_numbers(uint64_t key, const tsr_field *row, uint64_t rows, ingest_target *t, tsr_column *column,
                              tsr_error *error) {
  tsr_buffer *cells = &t->memory.cells;
  const uint64_t size = tsr_datatype_size(row->datatype);
  cells->size = 0;
  TSR_TRY(tsr__buffer_reserve(cells, rows * size, error));
  for (uint64_t i = 0; i < rows; i++) {
    uint8_t value[8];
    tsr__key_value(row->datatype, key + i, value);
    memcpy(cells->data + i * size, value, size);
  }
  *column = (tsr_column){.values = cells->data, .cell_size = size};
  return TSR_OK;
}

static int ingest_append_part(ingest_writing *w, uint64_t part, uint64_t first, tsr_error *error) {
  const uint64_t rows = tsr__ingest_part_rows(w->ingest, part);
  if (!rows) return TSR_OK;
  for (uint32_t f = 0; f < w->field_count; f++) {
    const tsr_field *field = &w->schema->fields[f];
    ingest_target *t = &w->targets[f];
    tsr_column *column = &w->columns[f];
    if (t->column == UINT32_MAX) TSR_TRY(ingest_row_numbers(w->first_row + first, field, rows, t, column, error));
    else TSR_TRY(tsr__ingest_cells(w->ingest, t->column, part, field, &t->memory, column, error));
  }
  return tsr_writer_append(w->writer, w->columns, NULL, rows, error);
}

/* ---- Two rows at one coordinate ---------------------------------------------------------------------------------- */

/* Appends the coordinates of the first row that an earlier row has. */
static int ingest_print_twice(tsr_ingest *g, tsr_buffer *out, tsr_error *error) {
  uint8_t *twice;
  uint64_t count;
  TSR_TRY(tsr__ingest_find_twice(g, &twice, &count, error));
  const int rc = count ? tsr__ingest_print_first(g, twice, out, error) : TSR_OK;
  tsr__free(twice);
  return rc;
}

/* Fails if the array, which is new, has fewer cells than the ingest has rows. */
static int ingest_check_twice(ingest_writing *w, tsr_array *array, tsr_error *error) {
  tsr_ingest *g = w->ingest;
  tsr_snapshot *snapshot = NULL;
  tsr_buffer where = {.memory = &g->memory};
  uint64_t cells = 0;
  if (w->schema->allows_duplicates || g->options.dimension_count == 0) return TSR_OK;
  TSR_TRY(tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, error));
  int rc = TSR_OK;
  for (uint64_t i = 0; i < tsr_fragment_count(snapshot) && rc >= 0; i++) {
    tsr_fragment_info info;
    rc = tsr_fragment_describe(snapshot, i, &info, error);
    if (rc >= 0) cells += info.cells;
  }
  tsr_snapshot_close(snapshot);
  if (rc < 0 || cells >= g->counts.rows) return rc;
  tsr_error ignored = {0};
  (void)ingest_print_twice(g, &where, &ignored);
  tsr__fail(error, TSR_CONSTRAINT, "%llu of %llu rows have the coordinates of an earlier row%s%s%s",
            (unsigned long long)(g->counts.rows - cells), (unsigned long long)g->counts.rows,
            where.size ? ", the first of them " : "", where.size ? (const char *)where.data : "",
            w->schema->dense ? "" : ": say \"duplicates\":true to keep them");
  tsr__buffer_release(&where);
  return TSR_CONSTRAINT;
}

/* ---- The call ---------------------------------------------------------------------------------------------------- */

static int ingest_find_column(ingest_writing *w, uint32_t field, tsr_error *error) {
  const char *name = w->schema->fields[field].name;
  const tsr_ingest *g = w->ingest;
  ingest_target *t = &w->targets[field];
  tsr__ingest_cells_begin(&t->memory, &g->environment->memory);
  t->column = UINT32_MAX;
  for (uint32_t i = 0; i < g->column_count; i++)
    if (strcmp(g->columns[i].label ? g->columns[i].given->label_of : g->columns[i].given->name, name) == 0)
      t->column = i;
  if (t->column == UINT32_MAX && (field > 0 || g->options.dimension_count > 0))
    return tsr__fail(error, TSR_MISMATCH, "no column is called '%s', as a %s of the array is", name,
                     w->schema->fields[field].is_dimension ? "dimension" : "column");
  return TSR_OK;
}

/* Fails if another process has appended rows since these were numbered. */
static int ingest_check_first(const ingest_writing *w, tsr_array *array, tsr_error *error) {
  uint64_t key, room;
  if (!w->appends || w->ingest->options.dimension_count > 0) return TSR_OK;
  TSR_TRY(tsr__ingest_next_row(array, &key, &room, error));
  if (key == w->first_row) return TSR_OK;
  return tsr__fail(error, TSR_BUSY, "another process has appended rows meanwhile: append them again");
}

static int ingest_write_parts(ingest_writing *w, tsr_array *array, tsr_error *error) {
  uint64_t first = 0;
  for (uint64_t p = 0; p < w->ingest->counts.parts; p++) {
    TSR_TRY(ingest_append_part(w, p, first, error));
    first += tsr__ingest_part_rows(w->ingest, p);
  }
  if (!tsr_writer_changed(w->writer)) return TSR_OK;
  const int rc = tsr_writer_prepare(w->writer, error);
  if (rc == TSR_FULL && w->schema->dense) return tsr__wrap(error, "the rows leave gaps: say kind sparse");
  TSR_TRY(rc);
  TSR_TRY(ingest_check_first(w, array, error));
  return tsr_writer_publish(w->writer, error);
}

int tsr_ingest_write(tsr_ingest *g, tsr_array *array, bool new_array, uint64_t *rows, tsr_error *error) {
  TSR_OWN_ERROR(error);
  ingest_writing w = {.ingest = g, .appends = !new_array};
  const tsr_writer_options options = {.memory_bytes = g->memory.limit / 2};
  tsr__arena_init(&w.arena, &g->environment->memory);
  int rc = g->complete ? tsr_writer_open(array, &options, &w.writer, error)
                       : tsr__fail(error, TSR_ERROR, "tsr_ingest_write before tsr_ingest_schema");
  if (rc >= 0) {
    w.schema = tsr_writer_schema(w.writer);
    w.field_count = w.schema->dimension_count + w.schema->attribute_count;
    w.first_row = new_array ? tsr__key(TSR_INT64, (uint8_t[8]){0}) : g->next_row;
    rc = TSR_ARENA_ARRAY(&w.arena, w.field_count, &w.targets, error);
    if (rc >= 0) rc = TSR_ARENA_ARRAY(&w.arena, w.field_count, &w.columns, error);
  }
  for (uint32_t f = 0; f < w.field_count && rc >= 0; f++) rc = ingest_find_column(&w, f, error);
  if (rc >= 0) rc = ingest_write_parts(&w, array, error);
  if (rc < 0 && w.writer) (void)tsr_writer_abandon(w.writer, NULL);
  if (rc >= 0 && new_array) rc = ingest_check_twice(&w, array, error);
  if (rc >= 0 && new_array) rc = tsr__ingest_write_labels(g, array, error);
  for (uint32_t f = 0; f < w.field_count && w.targets; f++) tsr__ingest_cells_end(&w.targets[f].memory);
  tsr_writer_close(w.writer);
  tsr__arena_release(&w.arena);
  if (rc >= 0 && rows) *rows = g->counts.rows;
  return TSR_MIN(rc, TSR_OK);
}
