/* interleave.c: interleaves cells of several sources into one order. The caller picks (source, cell) for each cell. If
 * all picks are from one source, its columns go straight to the fragment writer. Otherwise the cells are gathered in
 * staging buffers, column by column. */
#include "maintain/maintain.h"

#include <string.h>

#include "base/arithmetic.h"

typedef struct tsr_interleaved { /* a column being gathered */
  uint64_t cell_size; /* 0: variable size */
  bool nullable, taken;
  tsr_buffer values, offsets, validity;
} interleaved;

int tsr__interleaver_init(tsr_interleaver *interleaver, const tsr_schema *schema, uint32_t system_columns, bool dense,
                          tsr_memory *memory, tsr_fragment_writer *writer, tsr_error *error) {
  uint32_t fields = schema->dimension_count + schema->attribute_count;
  *interleaver =
      (tsr_interleaver){.schema = schema, .columns = fields + system_columns, .dense = dense, .memory = memory};
  interleaver->writer = writer;
  interleaver->order.memory = memory;
  TSR_TRY(TSR_ALLOC_ARRAY(memory, interleaver->columns, &interleaver->staged, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, interleaver->columns, &interleaver->buffers, error));
  for (uint32_t i = 0; i < interleaver->columns; i++) {
    const tsr_field *field = i < fields ? &schema->fields[i] : NULL;
    interleaved *m = &interleaver->buffers[i];
    m->cell_size = field ? field->cell_size : sizeof(uint64_t);
    m->nullable = field && field->nullable;
    m->taken = !dense || i >= schema->dimension_count;
    m->values.memory = m->offsets.memory = m->validity.memory = memory;
  }
  return TSR_OK;
}

void tsr__interleaver_release(tsr_interleaver *interleaver) {
  for (uint32_t i = 0; interleaver->buffers && i < interleaver->columns; i++) {
    tsr__buffer_release(&interleaver->buffers[i].values);
    tsr__buffer_release(&interleaver->buffers[i].offsets);
    tsr__buffer_release(&interleaver->buffers[i].validity);
  }
  tsr__free(interleaver->buffers);
  tsr__free(interleaver->staged);
  tsr__buffer_release(&interleaver->order);
  *interleaver = (tsr_interleaver){0};
}

/* ---- Columns ----------------------------------------------------------------------------------------------------- */

#define INTERLEAVE_GATHER(type)                                                                                        \
  for (uint64_t i = 0; i < count; i++) {                                                                               \
    if (picks[i].source == TSR_NO_SOURCE) continue;                                                                    \
    const tsr_column *from = &sources[picks[i].source][number];                                                        \
    memcpy(to, (const uint8_t *)from->values + (from->constant ? 0 : picks[i].cell) * sizeof(type), sizeof(type));     \
    to += sizeof(type);                                                                                                \
  }

static int interleave_gather_fixed(interleaved *m, uint32_t number, const tsr_column *const *sources,
                                   const tsr_pick *picks, uint64_t count, tsr_error *error) {
  uint64_t size = m->cell_size;
  TSR_TRY(tsr__buffer_reserve(&m->values, tsr__mul_sat(count, size), error));
  uint8_t *to = m->values.data;
  if (size == 1) {
    INTERLEAVE_GATHER(uint8_t)
  } else if (size == 2) {
    INTERLEAVE_GATHER(uint16_t)
  } else if (size == 4) {
    INTERLEAVE_GATHER(uint32_t)
  } else if (size == 8) {
    INTERLEAVE_GATHER(uint64_t)
  } else {
    for (uint64_t i = 0; i < count; i++) {
      if (picks[i].source == TSR_NO_SOURCE) continue;
      const tsr_column *from = &sources[picks[i].source][number];
      memcpy(to, (const uint8_t *)from->values + (from->constant ? 0 : picks[i].cell) * size, size);
      to += size;
    }
  }
  return TSR_OK;
}

static int gather_variable(interleaved *m, uint32_t number, const tsr_column *const *sources, const tsr_pick *picks,
                           uint64_t count, tsr_error *error) {
  uint64_t total = 0, n = 0;
  TSR_TRY(tsr__buffer_reserve(&m->offsets, (count + 1) * sizeof(uint64_t), error));
  uint64_t *offsets = (uint64_t *)(void *)m->offsets.data;
  for (uint64_t i = 0; i < count; i++) {
    if (picks[i].source == TSR_NO_SOURCE) continue;
    const tsr_column *from = &sources[picks[i].source][number];
    uint64_t cell = from->constant ? 0 : picks[i].cell;
    offsets[n++] = total;
    total += from->offsets[cell + 1] - from->offsets[cell];
  }
  offsets[n] = total;
  TSR_TRY(tsr__buffer_reserve(&m->values, total, error));
  n = 0;
  for (uint64_t i = 0; i < count; i++) {
    if (picks[i].source == TSR_NO_SOURCE) continue;
    const tsr_column *from = &sources[picks[i].source][number];
    uint64_t cell = from->constant ? 0 : picks[i].cell, size = offsets[n + 1] - offsets[n];
    if (size) memcpy(m->values.data + offsets[n], (const uint8_t *)from->values + from->offsets[cell], size);
    n++;
  }
  return TSR_OK;
}

static int gather_validity(interleaved *m, uint32_t number, const tsr_column *const *sources, const tsr_pick *picks,
                           uint64_t count, tsr_error *error) {
  TSR_TRY(tsr__buffer_reserve(&m->validity, count, error));
  uint8_t *to = m->validity.data;
  for (uint64_t i = 0; i < count; i++) {
    if (picks[i].source == TSR_NO_SOURCE) continue;
    const tsr_column *from = &sources[picks[i].source][number];
    *to++ = !from->validity || from->validity[from->constant ? 0 : picks[i].cell] != 0;
  }
  return TSR_OK;
}

static int interleave_stage(tsr_interleaver *interleaver, const tsr_column *const *sources, const tsr_pick *picks,
                            uint64_t count, tsr_error *error) {
  for (uint32_t c = 0; c < interleaver->columns; c++) {
    interleaved *m = &interleaver->buffers[c];
    if (!m->taken) continue;
    TSR_TRY(m->cell_size ? interleave_gather_fixed(m, c, sources, picks, count, error)
                         : gather_variable(m, c, sources, picks, count, error));
    if (m->nullable) TSR_TRY(gather_validity(m, c, sources, picks, count, error));
    interleaver->staged[c] = (tsr_column){.values = m->values.data,
                                          .offsets = (const uint64_t *)(const void *)m->offsets.data,
                                          .validity = m->nullable ? m->validity.data : NULL,
                                          .cell_size = m->cell_size};
  }
  return TSR_OK;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

int tsr__interleaver_write(tsr_interleaver *interleaver, const tsr_column *const *sources, const tsr_pick *picks,
                           uint64_t count, tsr_error *error) {
  uint32_t only = TSR_NO_SOURCE;
  bool several = false;
  if (!count) return TSR_OK;
  interleaver->order.size = 0;
  TSR_TRY(tsr__buffer_reserve(&interleaver->order, tsr__mul_sat(count, sizeof(uint64_t)), error));
  uint64_t *order = (uint64_t *)(void *)interleaver->order.data;
  for (uint64_t i = 0; i < count && !several; i++) {
    if (picks[i].source == TSR_NO_SOURCE) continue;
    several = only != TSR_NO_SOURCE && only != picks[i].source;
    only = picks[i].source;
  }
  if (!several && only != TSR_NO_SOURCE) {
    for (uint64_t i = 0; i < count; i++) order[i] = picks[i].source == TSR_NO_SOURCE ? TSR_NO_CELL : picks[i].cell;
    return tsr__fragment_writer_add(interleaver->writer, sources[only], order, count, error);
  }
  TSR_TRY(interleave_stage(interleaver, sources, picks, count, error));
  uint64_t n = 0;
  bool padded = false;
  for (uint64_t i = 0; i < count; i++) {
    bool none = picks[i].source == TSR_NO_SOURCE;
    order[i] = none ? TSR_NO_CELL : n;
    n += !none;
    padded = padded || none;
  }
  return tsr__fragment_writer_add(interleaver->writer, interleaver->staged, padded ? order : NULL, count, error);
}
