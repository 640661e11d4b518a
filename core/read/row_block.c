/* row_block.c: row blocks: rows of many batches, copied into columns that outlive the batches' tiles.
 *
 * Row r of each column is the r-th row appended. A column that was not ready when the rows were appended can be added
 * later by reading the same batches again. */
#include "read/reader.h"

#include <string.h>

#include "base/arithmetic.h"
#include "format/schema.h"

static uint32_t row_block_field_count(const tsr_row_block *block) {
  return block->schema->dimension_count + block->schema->attribute_count;
}

static void release_column(tsr_row_block_column *c) {
  tsr__buffer_release(&c->values);
  tsr__buffer_release(&c->offsets);
  tsr__buffer_release(&c->validity);
}

int tsr__row_block_init(tsr_row_block *block, const tsr_schema *schema, tsr_memory *memory, tsr_error *error) {
  *block = (tsr_row_block){.schema = schema};
  block->rowids.memory = block->times.memory = block->flags.memory = memory;
  TSR_TRY(TSR_ALLOC_ARRAY(memory, row_block_field_count(block), &block->columns, error));
  for (uint32_t f = 0; f < row_block_field_count(block); f++)
    block->columns[f].values.memory = block->columns[f].offsets.memory = block->columns[f].validity.memory = memory;
  return TSR_OK;
}

void tsr__row_block_empty(tsr_row_block *block) {
  for (uint32_t f = 0; block->columns && f < row_block_field_count(block); f++) release_column(&block->columns[f]);
  tsr__buffer_release(&block->rowids);
  tsr__buffer_release(&block->times);
  tsr__buffer_release(&block->flags);
  block->rows = 0;
}

void tsr__row_block_release(tsr_row_block *block) {
  tsr__row_block_empty(block);
  tsr__free(block->columns);
  block->columns = NULL;
}

void tsr__row_block_clear(tsr_row_block *block) {
  block->rows = 0;
  block->written = block->unwritten = false;
  block->rowids.size = block->times.size = block->flags.size = 0;
  for (uint32_t f = 0; f < row_block_field_count(block); f++) {
    tsr_row_block_column *c = &block->columns[f];
    c->ready = c->nulls = false;
    c->values.size = c->offsets.size = c->validity.size = 0;
  }
}

void tsr__row_block_drop_others(tsr_row_block *block, uint32_t field) {
  for (uint32_t f = 0; f < row_block_field_count(block); f++)
    if (f != field) release_column(&block->columns[f]);
}

#define ROW_BLOCK_COPY(type)                                                                                           \
  for (uint64_t r = 0; r < batch->count; r++)                                                                          \
    memcpy(out + r * sizeof(type), (const uint8_t *)column->values + tsr_batch_index(batch, r) * sizeof(type),         \
           sizeof(type));
static void row_block_values(const tsr_batch *batch, const tsr_column *column, uint8_t *out) {
  const uint64_t size = column->cell_size;
  if (column->constant) {
    for (uint64_t r = 0; r < batch->count; r++) memcpy(out + r * size, column->values, size);
    return;
  }
  switch (size) {
  case 1: ROW_BLOCK_COPY(uint8_t) break;
  case 2: ROW_BLOCK_COPY(uint16_t) break;
  case 4: ROW_BLOCK_COPY(uint32_t) break;
  case 8: ROW_BLOCK_COPY(uint64_t) break;
  default:
    for (uint64_t r = 0; r < batch->count; r++)
      memcpy(out + r * size, (const uint8_t *)column->values + tsr_batch_index(batch, r) * size, size);
  }
}

static int row_block_text(tsr_row_block_column *c, const tsr_batch *batch, const tsr_column *column, tsr_error *error) {
  uint64_t bytes = 0;
  for (uint64_t r = 0; r < batch->count; r++) {
    const uint64_t j = column->constant ? 0 : tsr_batch_index(batch, r);
    bytes = tsr__add_sat(bytes, column->offsets[j + 1] - column->offsets[j]);
  }
  if (c->offsets.size == 0) TSR_TRY(tsr__buffer_append_u64(&c->offsets, 0, error));
  TSR_TRY(tsr__buffer_reserve(&c->values, tsr__add_sat(bytes, 1), error));
  TSR_TRY(tsr__buffer_reserve(&c->offsets, tsr__mul_sat(batch->count, 8), error));
  for (uint64_t r = 0; r < batch->count; r++) {
    const uint64_t j = column->constant ? 0 : tsr_batch_index(batch, r),
                   size = column->offsets[j + 1] - column->offsets[j];
    if (size) memcpy(c->values.data + c->values.size, (const uint8_t *)column->values + column->offsets[j], size);
    c->values.size += size;
    memcpy(c->offsets.data + c->offsets.size, &c->values.size, 8);
    c->offsets.size += 8;
  }
  return TSR_OK;
}

/* Appends validity bytes. The column gets them with its first null; then the `before` rows appended earlier get theirs
 * too. */
static int row_block_nulls(const tsr_row_block *block, tsr_row_block_column *c, uint64_t before, const tsr_batch *batch,
                           const tsr_column *column, tsr_error *error) {
  const bool absent = column->unwritten && !block->fill_unwritten;
  if (!c->nulls && !absent && !column->validity) return TSR_OK;
  if (!c->nulls) {
    TSR_TRY(tsr__buffer_reserve(&c->validity, before, error));
    if (before) memset(c->validity.data, 1, before);
    c->validity.size = before;
    c->nulls = true;
  }
  TSR_TRY(tsr__buffer_reserve(&c->validity, batch->count, error));
  uint8_t *out = c->validity.data + c->validity.size;
  for (uint64_t r = 0; r < batch->count; r++)
    out[r] = absent ? 0 : !column->validity || column->validity[column->constant ? 0 : tsr_batch_index(batch, r)];
  c->validity.size += batch->count;
  return TSR_OK;
}

int tsr__row_block_append_column(tsr_row_block *block, tsr_batch_iterator *iterator, uint32_t field, uint64_t before,
                                 const tsr_batch *batch, tsr_error *error) {
  tsr_row_block_column *c = &block->columns[field];
  tsr_column column = {0};
  TSR_TRY(iterator->column(iterator, field, &column, error));
  c->variable = column.offsets != NULL;
  c->cell_size = column.cell_size;
  TSR_TRY(row_block_nulls(block, c, before, batch, &column, error));
  if (c->variable) return row_block_text(c, batch, &column, error);
  TSR_TRY(tsr__buffer_reserve(&c->values, tsr__mul_sat(batch->count, c->cell_size), error));
  row_block_values(batch, &column, c->values.data + c->values.size);
  c->values.size += batch->count * c->cell_size;
  return TSR_OK;
}

/* Appends the rowids, the times, and whether the cells were written. */
static int row_block_marks(tsr_row_block *block, const tsr_batch *batch, tsr_error *error) {
  TSR_TRY(tsr__buffer_reserve(&block->rowids, tsr__mul_sat(batch->count, 8), error));
  TSR_TRY(tsr__buffer_reserve(&block->times, tsr__mul_sat(batch->count, 8), error));
  TSR_TRY(tsr__buffer_reserve(&block->flags, batch->count, error));
  int64_t *rowids = (int64_t *)(void *)(block->rowids.data + block->rowids.size);
  uint64_t *times = (uint64_t *)(void *)(block->times.data + block->times.size);
  for (uint64_t r = 0; r < batch->count; r++) {
    const uint64_t i = tsr_batch_index(batch, r);
    rowids[r] = tsr_batch_rowid(batch, i);
    times[r] = batch->times ? batch->times[i] : batch->time;
  }
  memset(block->flags.data + block->flags.size, batch->written, batch->count);
  block->rowids.size += batch->count * 8;
  block->times.size += batch->count * 8;
  block->flags.size += batch->count;
  block->written |= batch->written;
  block->unwritten |= !batch->written;
  return TSR_OK;
}

int tsr__row_block_append(tsr_row_block *block, tsr_batch_iterator *iterator, const tsr_batch *batch,
                          tsr_error *error) {
  for (uint32_t f = 0; f < row_block_field_count(block); f++)
    if (block->columns[f].ready) TSR_TRY(tsr__row_block_append_column(block, iterator, f, block->rows, batch, error));
  TSR_TRY(row_block_marks(block, batch, error));
  block->rows += batch->count;
  return TSR_OK;
}

tsr_column tsr__row_block_column(const tsr_row_block *block, uint32_t field) {
  const tsr_row_block_column *c = &block->columns[field];
  return (tsr_column){.values = c->values.data,
                      .offsets = c->variable ? (const uint64_t *)(const void *)c->offsets.data : NULL,
                      .validity = c->nulls ? c->validity.data : NULL,
                      .cell_size = c->variable ? 0 : c->cell_size};
}
