/* write.c: stores the complete parts of an ingest's columns, and writes the rows into an array.
 *
 * When a part is complete, each column becomes a block. Once the blocks in memory take a quarter of the budget, further
 * ones are spilled to the temporary file. Parts are loaded again one by one, rows can be removed from them, and finally
 * they are appended to a writer of the array. */
#include <math.h>
#include <string.h>
#include <stdlib.h>

#include "base/arithmetic.h"
#include "environment/environment.h"
#include "ingest/ingest.h"
#include "base/pool.h"
#include "model/datatype.h"
#include "write/writer.h"

uint64_t tsr__ingest_part_rows(const tsr_ingest *ingest, uint64_t part) {
  uint64_t end = 0;
  memcpy(&end, ingest->columns[ingest->column_count].parts.data + part * sizeof end, sizeof end);
  return end;
}

/* ---- The least and the greatest value ---------------------------------------------------------------------------- */

static void bound_integers(const tsr_ingest_kept *c, uint64_t rows, tsr_ingest_part *part) {
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

static void bound_reals(const tsr_ingest_kept *c, uint64_t rows, tsr_ingest_part *part) {
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

/* Keeps the block of a part in memory, or spills it to the temporary file. */
static int keep_block(tsr_ingest *g, tsr_ingest_part *part, tsr_error *error) {
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
  if (c->class == TSR_INGEST_INTEGERS) bound_integers(c, g->counts.part_rows, &part);
  if (c->class == TSR_INGEST_REALS) bound_reals(c, g->counts.part_rows, &part);
  if (c->class != TSR_INGEST_NONE) {
    uint64_t padded = (c->growing.values.size + 7) / 8 * 8; /* the ends are aligned */
    part.size += padded - c->growing.values.size;
    TSR_TRY(TSR_ALLOC_RAW(&g->memory, part.size, &part.block, error));
    if (c->growing.values.size) memcpy(part.block, c->growing.values.data, c->growing.values.size);
    memset(part.block + c->growing.values.size, 0, padded - c->growing.values.size);
    if (ends) memcpy(part.block + padded, c->growing.ends.data, ends);
    if (nulls) memcpy(part.block + padded + ends, c->growing.validity.data, nulls);
  }
  int rc = keep_block(g, &part, error);
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
  return keep_block(g, part, error);
}

/* ---- Removing rows ----------------------------------------------------------------------------------------------- */

static bool ingest_is_out(const uint8_t *out, uint64_t row) { return out[row / 8] >> row % 8 & 1; }

/* Copies the remaining rows of a block to `to`, which is as large, and sets the new size of the values. */
static void copy_kept(const tsr_ingest_part *part, const uint8_t *from, uint64_t rows, uint64_t kept,
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

static int shrink_column(tsr_ingest *g, tsr_ingest_part *part, uint64_t rows, uint64_t kept, const uint8_t *out,
                         uint64_t first, tsr_error *error) {
  tsr_buffer scratch = {.memory = &g->memory};
  uint8_t *block;
  uint64_t values_size;
  int rc = part->block ? TSR_OK : tsr__buffer_reserve(&scratch, part->size, error);
  if (rc >= 0 && !part->block) rc = tsr__staged_read(g->spill.file, part->offset, scratch.data, part->size, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(&g->memory, TSR_MAX(part->size, 1), &block, error);
  if (rc >= 0) {
    copy_kept(part, part->block ? part->block : scratch.data, rows, kept, out, first, block, &values_size);
    if (part->block) g->spill.resident -= part->size;
    tsr__free(part->block);
    part->block = block;
    part->values_size = values_size;
    part->size = (values_size + 7) / 8 * 8;
    if (part->class >= TSR_INGEST_TEXTS) part->size += kept * 8;
    if (part->has_nulls) part->size += kept;
    rc = TSR_REALLOC_ARRAY(&g->memory, TSR_MAX(part->size, 1), &part->block, error);
    if (rc >= 0) rc = keep_block(g, part, error);
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
    if (part->class != TSR_INGEST_NONE) TSR_TRY(shrink_column(g, part, rows, kept, out, first, error));
  }
  memcpy(g->columns[g->column_count].parts.data + number * sizeof kept, &kept, sizeof kept);
  return tsr__cancelled(&g->environment->memory, error);
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* Converts the integers of a part to reals. `scratch` receives them; they may be there already. */
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

/* ---- Writing the array ------------------------------------------------------------------------------------------- */

/* The rows are written part by part: values of 8 bytes are narrowed to the fields' datatypes, and each field gets the
 * column with its name. */

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
  uint64_t broken; /* rows that were left out */
} ingest_writing;

/* ---- Cells ------------------------------------------------------------------------------------------------------- */

/* Makes the coordinates of rows that have none, from order key `key` on. */
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

/* Returns the number of a row (tsr_ingest_number_row). */
static uint64_t number_of(const tsr_ingest *g, uint64_t row) {
  const tsr_ingest_numbered *runs = (const tsr_ingest_numbered *)(const void *)g->numbers.runs.data;
  uint64_t low = 0, high = g->numbers.runs.size / sizeof *runs;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (runs[middle].row <= row) low = middle + 1;
    else high = middle;
  }
  return low ? runs[low - 1].number + (row - runs[low - 1].row) : row + 1;
}

/* Appends the rows of a part that break no CHECK, and reports the others. `first`: the number of rows before the part;
 * `chosen` has room for all of its rows. */
static int append_sound(ingest_writing *w, uint64_t rows, uint64_t first, uint8_t *broken, uint32_t *chosen,
                        tsr_error *error) {
  const tsr_ingest_options *o = &w->ingest->options;
  const tsr_constraint_cells cells = {.columns = w->columns, .count = rows};
  uint64_t count = 0, kept = 0;
  tsr_error why = {0};
  TSR_TRY(tsr__writer_broken(w->writer, &cells, broken, &count, &why, error));
  for (uint64_t i = 0, told = 0; i < rows; i++) {
    chosen[kept] = (uint32_t)i;
    kept += !broken[i];
    if (broken[i]) o->broken(o->broken_argument, number_of(w->ingest, first + i), told++ ? NULL : why.message);
  }
  w->broken += count;
  return kept ? tsr_writer_append(w->writer, w->columns, chosen, kept, error) : TSR_OK;
}

static int append_unless_broken(ingest_writing *w, uint64_t rows, uint64_t first, tsr_error *error) {
  uint8_t *broken;
  uint32_t *chosen = NULL;
  TSR_TRY(TSR_ALLOC_ARRAY(&w->ingest->memory, rows, &broken, error));
  int rc = TSR_ALLOC_ARRAY(&w->ingest->memory, rows, &chosen, error);
  if (rc >= 0) rc = append_sound(w, rows, first, broken, chosen, error);
  tsr__free(broken);
  tsr__free(chosen);
  return rc;
}

static int append_part(ingest_writing *w, uint64_t part, uint64_t first, tsr_error *error) {
  const uint64_t rows = tsr__ingest_part_rows(w->ingest, part);
  if (!rows) return TSR_OK;
  for (uint32_t f = 0; f < w->field_count; f++) {
    const tsr_field *field = &w->schema->fields[f];
    ingest_target *t = &w->targets[f];
    tsr_column *column = &w->columns[f];
    if (t->column == UINT32_MAX) TSR_TRY(ingest_row_numbers(w->first_row + first, field, rows, t, column, error));
    else TSR_TRY(tsr__ingest_cells(w->ingest, t->column, part, field, &t->memory, column, error));
  }
  if (w->ingest->options.broken) return append_unless_broken(w, rows, first, error);
  return tsr_writer_append(w->writer, w->columns, NULL, rows, error);
}

/* ---- Rows with equal coordinates --------------------------------------------------------------------------------- */

/* Appends the coordinates of the first row with the coordinates of an earlier one. */
static int print_duplicates(tsr_ingest *g, tsr_buffer *out, tsr_error *error) {
  uint8_t *duplicates;
  uint64_t count;
  TSR_TRY(tsr__ingest_find_duplicates(g, &duplicates, &count, error));
  const int rc = count ? tsr__ingest_print_first(g, duplicates, out, error) : TSR_OK;
  tsr__free(duplicates);
  return rc;
}

/* Fails if the new array has fewer cells than the ingest has rows. */
static int check_duplicates(ingest_writing *w, tsr_array *array, tsr_error *error) {
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
  (void)print_duplicates(g, &where, &ignored);
  tsr__fail(error, TSR_CONSTRAINT, "%llu of %llu rows have the coordinates of an earlier row%s%s%s",
            (unsigned long long)(g->counts.rows - cells), (unsigned long long)g->counts.rows,
            where.size ? ", the first of them " : "", where.size ? (const char *)where.data : "",
            w->schema->dense ? "" : ": the option duplicates keeps them");
  tsr__buffer_release(&where);
  return TSR_CONSTRAINT;
}

/* ---- The call ---------------------------------------------------------------------------------------------------- */

static int find_column(ingest_writing *w, uint32_t field, tsr_error *error) {
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
static int check_first(const ingest_writing *w, tsr_array *array, tsr_error *error) {
  uint64_t key, room;
  if (!w->appends || w->ingest->options.dimension_count > 0) return TSR_OK;
  TSR_TRY(tsr__ingest_next_row(array, &key, &room, error));
  if (key == w->first_row) return TSR_OK;
  return tsr__fail(error, TSR_BUSY, "another process has appended rows meanwhile: append them again");
}

/* Tells the writer how much is coming. */
static int expect_rows(ingest_writing *w, tsr_error *error) {
  const tsr_ingest *g = w->ingest;
  uint64_t *bytes;
  TSR_TRY(TSR_ARENA_ARRAY(&w->arena, w->field_count, &bytes, error));
  for (uint32_t f = 0; f < w->field_count; f++) {
    const uint32_t column = w->targets[f].column;
    bytes[f] = tsr__mul_sat(g->counts.rows, w->schema->fields[f].cell_size);
    for (uint64_t p = 0; p < g->counts.parts && !w->schema->fields[f].cell_size && column != UINT32_MAX; p++)
      bytes[f] += tsr__ingest_part(&g->columns[column], p)->values_size;
  }
  tsr__writer_reserve(w->writer, g->counts.rows, bytes);
  return TSR_OK;
}

static int ingest_write_parts(ingest_writing *w, tsr_array *array, tsr_error *error) {
  uint64_t first = 0;
  TSR_TRY(expect_rows(w, error));
  for (uint64_t p = 0; p < w->ingest->counts.parts; p++) {
    TSR_TRY(append_part(w, p, first, error));
    first += tsr__ingest_part_rows(w->ingest, p);
  }
  if (!tsr_writer_changed(w->writer)) return TSR_OK;
  const int rc = tsr_writer_prepare(w->writer, error);
  if (rc == TSR_FULL && w->schema->dense) return tsr__wrap(error, "the rows leave gaps: say kind sparse");
  TSR_TRY(rc);
  TSR_TRY(check_first(w, array, error));
  return tsr_writer_publish(w->writer, error);
}

/* Returns the writer's part of the budget: half, or more where the rows leave it, but for an eighth that the columns of
 * a part may take. */
static uint64_t writer_bytes(const tsr_ingest *g) {
  const uint64_t limit = g->memory.limit, left = limit - TSR_MIN(limit, g->memory.used);
  return TSR_MAX(limit / 2, left - left / 8);
}

int tsr_ingest_write(tsr_ingest *g, tsr_array *array, bool new_array, uint64_t *rows, tsr_error *error) {
  TSR_OWN_ERROR(error);
  ingest_writing w = {.ingest = g, .appends = !new_array};
  const tsr_writer_options options = {.memory_bytes = writer_bytes(g)};
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
  for (uint32_t f = 0; f < w.field_count && rc >= 0; f++) rc = find_column(&w, f, error);
  if (rc >= 0) rc = ingest_write_parts(&w, array, error);
  if (rc < 0 && w.writer) (void)tsr_writer_abandon(w.writer, NULL);
  if (rc >= 0 && new_array) rc = check_duplicates(&w, array, error);
  if (rc >= 0 && new_array) rc = tsr__ingest_write_labels(g, array, error);
  for (uint32_t f = 0; f < w.field_count && w.targets; f++) tsr__ingest_cells_end(&w.targets[f].memory);
  tsr_writer_close(w.writer);
  tsr__arena_release(&w.arena);
  if (rc >= 0 && rows) *rows = g->counts.rows - w.broken;
  return TSR_MIN(rc, TSR_OK);
}
