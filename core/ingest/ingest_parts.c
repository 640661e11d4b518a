/* ingest_parts.c: the complete parts of an ingest's columns: makes a block of each, writes it to the temporary file if
 * the blocks in memory take half of the budget, loads it again, and takes rows out of it. */
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "array/environment.h"
#include "ingest/ingest.h"

uint64_t tsr__ingest_part_rows(const tsr_ingest *ingest, uint64_t part) {
  uint64_t end = 0;
  memcpy(&end, ingest->columns[ingest->column_count].parts.data + part * sizeof end, sizeof end);
  return end;
}

/* ---- The least and the greatest value ---------------------------------------------------------------------------- */

static void ingest_bound_integers(const tsr_ingest_kept *c, uint64_t rows, tsr_ingest_part *part) {
  const uint64_t flip = c->is_unsigned ? 0 : UINT64_C(1) << 63;
  uint64_t low = UINT64_MAX, high = 0;
  for (uint64_t i = 0; i < rows; i++) {
    uint64_t key;
    memcpy(&key, c->growing.values.data + i * 8, 8);
    key ^= flip;
    if (c->growing.nulls && !c->growing.validity.data[i]) continue;
    low = TSR_MIN(low, key);
    high = TSR_MAX(high, key);
    part->bounded = true;
  }
  low ^= flip;
  high ^= flip;
  memcpy(part->low, &low, 8);
  memcpy(part->high, &high, 8);
}

static void ingest_bound_reals(const tsr_ingest_kept *c, uint64_t rows, tsr_ingest_part *part) {
  double low = INFINITY, high = -INFINITY;
  for (uint64_t i = 0; i < rows; i++) {
    double value;
    memcpy(&value, c->growing.values.data + i * 8, 8);
    if (c->growing.nulls && !c->growing.validity.data[i]) continue;
    part->nan |= !isfinite(value);
    low = value < low ? value : low;
    high = value > high ? value : high;
    part->bounded = true;
  }
  memcpy(part->low, &low, 8);
  memcpy(part->high, &high, 8);
}

/* ---- Completing parts -------------------------------------------------------------------------------------------- */

static int ingest_spill(tsr_ingest *g, tsr_ingest_part *part, tsr_error *error) {
  if (!g->spill.staging) TSR_TRY(tsr__staging_open(&g->memory, &g->spill.staging, error));
  if (!g->spill.file) TSR_TRY(tsr__staging_create(g->spill.staging, "rows", &g->spill.file, error));
  part->offset = tsr__staged_size(g->spill.file);
  TSR_TRY(tsr__staged_append(g->spill.file, part->block, part->size, error));
  tsr__free(part->block);
  part->block = NULL;
  return TSR_OK;
}

/* Keeps the block of a part in memory, or in the temporary file. */
static int ingest_keep_block(tsr_ingest *g, tsr_ingest_part *part, tsr_error *error) {
  if (!part->block) return TSR_OK;
  if (g->spill.resident + part->size > g->memory.limit / 4) return ingest_spill(g, part, error);
  g->spill.resident += part->size;
  return TSR_OK;
}

static int ingest_end_column(tsr_ingest *g, tsr_ingest_kept *c, tsr_error *error) {
  const uint64_t ends = c->class >= TSR_INGEST_TEXTS ? g->counts.part_rows * 8 : 0,
                 nulls = c->growing.nulls ? g->counts.part_rows : 0;
  tsr_ingest_part part = {.class = c->class, .values_size = c->growing.values.size, .has_nulls = nulls > 0};
  part.size = c->growing.values.size + ends + nulls;
  if (c->class == TSR_INGEST_INTEGERS) ingest_bound_integers(c, g->counts.part_rows, &part);
  if (c->class == TSR_INGEST_REALS) ingest_bound_reals(c, g->counts.part_rows, &part);
  if (c->class != TSR_INGEST_NONE) {
    uint64_t padded = (c->growing.values.size + 7) / 8 * 8; /* the ends are aligned */
    part.size += padded - c->growing.values.size;
    TSR_TRY(TSR_ALLOC_RAW(&g->memory, part.size, &part.block, error));
    if (c->growing.values.size) memcpy(part.block, c->growing.values.data, c->growing.values.size);
    memset(part.block + c->growing.values.size, 0, padded - c->growing.values.size);
    if (ends) memcpy(part.block + padded, c->growing.ends.data, ends);
    if (nulls) memcpy(part.block + padded + ends, c->growing.validity.data, nulls);
  }
  int rc = ingest_keep_block(g, &part, error);
  if (rc >= 0) rc = tsr__buffer_append(&c->parts, &part, sizeof part, error);
  if (rc < 0) tsr__free(part.block);
  c->growing.values.size = c->growing.ends.size = c->growing.validity.size = c->growing.before = 0;
  c->growing.nulls = false;
  return rc;
}

int tsr__ingest_end_part(tsr_ingest *g, tsr_error *error) {
  if (g->counts.part_rows == 0) return TSR_OK;
  TSR_TRY(tsr__cancelled(&g->environment->memory, error));
  for (uint32_t i = 0; i < g->column_count; i++) TSR_TRY(ingest_end_column(g, &g->columns[i], error));
  TSR_TRY(
      tsr__buffer_append(&g->columns[g->column_count].parts, &g->counts.part_rows, sizeof g->counts.part_rows, error));
  g->counts.part_rows = 0;
  g->counts.parts++;
  return TSR_OK;
}

int tsr__ingest_replace_part(tsr_ingest *g, uint32_t column, uint64_t number, uint64_t *words, uint64_t rows,
                             tsr_error *error) {
  tsr_ingest_kept *c = &g->columns[column];
  tsr_ingest_part *part = tsr__ingest_part(c, number);
  uint64_t low = UINT64_MAX, high = 0;
  for (uint64_t i = 0; i < rows; i++) { /* no coordinate of a label is below 0, or all have one sign */
    low = TSR_MIN(low, words[i]);
    high = TSR_MAX(high, words[i]);
  }
  if (part->block) g->spill.resident -= part->size;
  tsr__free(part->block);
  *part = (tsr_ingest_part){.class = TSR_INGEST_INTEGERS,
                            .block = (uint8_t *)words,
                            .values_size = rows * 8,
                            .size = rows * 8,
                            .bounded = true};
  memcpy(part->low, &low, 8);
  memcpy(part->high, &high, 8);
  return ingest_keep_block(g, part, error);
}

/* ---- Taking rows out --------------------------------------------------------------------------------------------- */

static bool ingest_is_out(const uint8_t *out, uint64_t row) { return out[row / 8] >> row % 8 & 1; }

/* Copies what is kept of a block into `to`, which is as large, and sets the new size of the values. */
static void ingest_copy_kept(const tsr_ingest_part *part, const uint8_t *from, uint64_t rows, uint64_t kept,
                             const uint8_t *out, uint64_t first, uint8_t *to, uint64_t *values_size) {
  const bool texts = part->class >= TSR_INGEST_TEXTS;
  const uint64_t padded = (part->values_size + 7) / 8 * 8;
  uint64_t begin = 0, size = 0;
  for (uint64_t i = 0; i < rows; i++) {
    uint64_t end = (i + 1) * 8;
    if (texts) memcpy(&end, from + padded + i * 8, 8);
    if (!ingest_is_out(out, first + i)) {
      if (end > begin) memcpy(to + size, from + begin, end - begin);
      size += end - begin;
    }
    begin = end;
  }
  *values_size = size;
  uint8_t *ends = to + (size + 7) / 8 * 8, *validity = ends + (texts ? kept * 8 : 0);
  memset(to + size, 0, (size_t)(ends - to) - size);
  uint64_t at = 0;
  begin = size = 0;
  for (uint64_t i = 0; i < rows; i++) {
    uint64_t end = begin;
    if (texts) memcpy(&end, from + padded + i * 8, 8);
    if (!ingest_is_out(out, first + i)) {
      size += end - begin;
      if (texts) memcpy(ends + at * 8, &size, 8);
      if (part->has_nulls) validity[at] = from[part->size - rows + i];
      at++;
    }
    begin = end;
  }
}

static int ingest_shrink_column(tsr_ingest *g, tsr_ingest_part *part, uint64_t rows, uint64_t kept, const uint8_t *out,
                                uint64_t first, tsr_error *error) {
  tsr_buffer scratch = {.memory = &g->memory};
  uint8_t *block;
  uint64_t values_size;
  int rc = part->block ? TSR_OK : tsr__buffer_reserve(&scratch, part->size, error);
  if (rc >= 0 && !part->block) rc = tsr__staged_read(g->spill.file, part->offset, scratch.data, part->size, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(&g->memory, TSR_MAX(part->size, 1), &block, error);
  if (rc >= 0) {
    ingest_copy_kept(part, part->block ? part->block : scratch.data, rows, kept, out, first, block, &values_size);
    if (part->block) g->spill.resident -= part->size;
    tsr__free(part->block);
    part->block = block;
    part->values_size = values_size;
    part->size = (values_size + 7) / 8 * 8;
    if (part->class >= TSR_INGEST_TEXTS) part->size += kept * 8;
    if (part->has_nulls) part->size += kept;
    rc = TSR_REALLOC_ARRAY(&g->memory, TSR_MAX(part->size, 1), &part->block, error);
    if (rc >= 0) rc = ingest_keep_block(g, part, error);
  }
  tsr__buffer_release(&scratch);
  return rc;
}

int tsr__ingest_shrink_part(tsr_ingest *g, uint64_t number, const uint8_t *out, uint64_t first, tsr_error *error) {
  const uint64_t rows = tsr__ingest_part_rows(g, number);
  uint64_t kept = 0;
  for (uint64_t i = 0; i < rows; i++) kept += !ingest_is_out(out, first + i);
  if (kept == rows) return TSR_OK;
  for (uint32_t i = 0; i < g->column_count; i++) {
    tsr_ingest_part *part = tsr__ingest_part(&g->columns[i], number);
    if (part->class != TSR_INGEST_NONE) TSR_TRY(ingest_shrink_column(g, part, rows, kept, out, first, error));
  }
  memcpy(g->columns[g->column_count].parts.data + number * sizeof kept, &kept, sizeof kept);
  return tsr__cancelled(&g->environment->memory, error);
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* Makes reals of the integers of a part that is in `scratch`, or copies them there. */
static int ingest_widen(const tsr_ingest_part *part, uint64_t rows, tsr_buffer *scratch, tsr_ingest_values *values,
                        tsr_error *error) {
  if (part->block) {
    scratch->size = 0;
    TSR_TRY(tsr__buffer_append(scratch, part->block, part->size, error));
  }
  for (uint64_t i = 0; i < rows; i++) {
    int64_t integer;
    memcpy(&integer, scratch->data + i * 8, 8);
    const double real = (double)integer;
    memcpy(scratch->data + i * 8, &real, 8);
  }
  values->class = TSR_INGEST_REALS;
  values->values = scratch->data;
  values->validity = part->has_nulls ? scratch->data + rows * 8 : NULL;
  return TSR_OK;
}

int tsr__ingest_load(tsr_ingest *g, uint32_t column, uint64_t number, tsr_buffer *scratch, tsr_ingest_values *values,
                     tsr_error *error) {
  const tsr_ingest_kept *c = &g->columns[column];
  const tsr_ingest_part *part = tsr__ingest_part(c, number);
  const uint8_t *block = part->block;
  const bool instants = part->class == TSR_INGEST_TEXTS && c->class == TSR_INGEST_INTEGERS;
  *values = (tsr_ingest_values){.class = part->class, .rows = tsr__ingest_part_rows(g, number)};
  if (part->class == TSR_INGEST_NONE) return TSR_OK;
  scratch->size = 0;
  if (!block || instants)
    TSR_TRY(tsr__buffer_reserve(scratch, (block ? 0 : part->size) + (instants ? values->rows * 8 : 0), error));
  if (!block) {
    TSR_TRY(tsr__staged_read(g->spill.file, part->offset, scratch->data, part->size, error));
    scratch->size = part->size;
    block = scratch->data;
  }
  if (part->class == TSR_INGEST_INTEGERS && c->class == TSR_INGEST_REALS)
    return ingest_widen(part, values->rows, scratch, values, error);
  values->values = block;
  if (part->class >= TSR_INGEST_TEXTS)
    values->ends = (const uint64_t *)(const void *)(block + (part->values_size + 7) / 8 * 8);
  if (part->has_nulls) values->validity = block + part->size - values->rows;
  if (instants) tsr__ingest_parse_instants(c, scratch->data + scratch->size, values);
  return TSR_OK;
}
