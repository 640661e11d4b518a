/* ingest_cells.c: the values of an ingest's column as cells of a field: words of 8 bytes become those of its datatype. */
#include <string.h>

#include "base/arithmetic.h"
#include "ingest/ingest.h"

#define INGEST_NARROW(type, from)                                                                                      \
  for (uint64_t i = 0; i < rows; i++) {                                                                                \
    from value;                                                                                                        \
    memcpy(&value, in + i * 8, 8);                                                                                     \
    const type narrow = (type)value;                                                                                   \
    memcpy(out + i * sizeof narrow, &narrow, sizeof narrow);                                                           \
  }

static void ingest_narrow(const uint8_t *in, uint64_t rows, uint64_t size, bool real, uint8_t *out) {
  if (real) {
    INGEST_NARROW(float, double)
  } else if (size == 1) {
    INGEST_NARROW(uint8_t, uint64_t)
  } else if (size == 2) {
    INGEST_NARROW(uint16_t, uint64_t)
  } else {
    INGEST_NARROW(uint32_t, uint64_t)
  }
}

/* Makes the column of a field whose values are kept as words of 8 bytes. */
static int ingest_number_cells(const tsr_field *field, const tsr_ingest_values *values, tsr_ingest_cells *m,
                               tsr_column *column, tsr_error *error) {
  const uint64_t size = tsr_datatype_size(field->datatype);
  column->cell_size = size;
  column->values = values->values;
  if (size == 8) return TSR_OK;
  m->cells.size = 0;
  TSR_TRY(tsr__buffer_reserve(&m->cells, values->rows * size, error));
  ingest_narrow(values->values, values->rows, size, values->class == TSR_INGEST_REALS, m->cells.data);
  column->values = m->cells.data;
  return TSR_OK;
}

/* Makes the column of a field of strings, or of cells of several values. */
static int ingest_byte_cells(const tsr_field *field, const tsr_ingest_values *values, tsr_ingest_cells *m,
                             tsr_column *column, tsr_error *error) {
  column->values = values->values;
  if (field->values_per_cell != TSR_VARIABLE) {
    column->cell_size = field->cell_size;
    m->cells.size = 0;
    TSR_TRY(tsr__buffer_reserve(&m->cells, values->rows * field->cell_size, error));
    memset(m->cells.data, 0, values->rows * field->cell_size);
    for (uint64_t i = 0, at = 0; i < values->rows; at = values->ends[i++])
      if (values->ends[i] - at == field->cell_size)
        memcpy(m->cells.data + i * field->cell_size, values->values + at, field->cell_size);
    column->values = m->cells.data;
    return TSR_OK;
  }
  m->offsets.size = 0;
  TSR_TRY(tsr__buffer_append_u64(&m->offsets, 0, error));
  TSR_TRY(tsr__buffer_append(&m->offsets, values->ends, values->rows * 8, error));
  column->offsets = (const uint64_t *)(const void *)m->offsets.data;
  return TSR_OK;
}

/* Makes the column of a field for a part in which all values are null. */
static int ingest_null_cells(const tsr_field *field, tsr_ingest_cells *m, tsr_column *column, tsr_error *error) {
  static const uint8_t null_cell = 0;
  static const uint64_t no_bytes[2];
  const uint64_t size = TSR_MAX(field->cell_size, 1);
  m->cells.size = 0;
  TSR_TRY(tsr__buffer_reserve(&m->cells, size, error));
  memset(m->cells.data, 0, size);
  *column =
      (tsr_column){.values = m->cells.data, .cell_size = field->cell_size, .validity = &null_cell, .constant = true};
  if (field->values_per_cell == TSR_VARIABLE) column->offsets = no_bytes;
  return TSR_OK;
}

void tsr__ingest_cells_begin(tsr_ingest_cells *m, tsr_memory *memory) {
  m->scratch.memory = m->cells.memory = m->offsets.memory = memory;
}

void tsr__ingest_cells_end(tsr_ingest_cells *m) {
  tsr__buffer_release(&m->scratch);
  tsr__buffer_release(&m->cells);
  tsr__buffer_release(&m->offsets);
}

int tsr__ingest_cells(tsr_ingest *g, uint32_t column, uint64_t part, const tsr_field *field, tsr_ingest_cells *m,
                      tsr_column *cells, tsr_error *error) {
  tsr_ingest_values values;
  *cells = (tsr_column){0};
  TSR_TRY(tsr__ingest_load(g, column, part, &m->scratch, &values, error));
  if (values.class == TSR_INGEST_NONE) return ingest_null_cells(field, m, cells, error);
  TSR_TRY(values.ends ? ingest_byte_cells(field, &values, m, cells, error)
                      : ingest_number_cells(field, &values, m, cells, error));
  cells->validity = values.validity;
  return TSR_OK;
}
