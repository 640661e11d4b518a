/* lookup.c: finds the cell at given coordinates: first among the writer's cells in memory, then in its spilled runs and
 * in the snapshot below.
 *
 * Cells in memory are in a hash table of chains, the newest cell first. The table is updated lazily, by the next
 * lookup. Rewinding the writer removes cells from the table one by one. For spilled cells and the snapshot, a reader
 * looks up the single point.
 */
#include "write/writer.h"

#include <string.h>

#include "read/reader.h"

#define HEADS_MIN 256u

/* ---- The hash table of cells in memory --------------------------------------------------------------------------- */

static const uint8_t *value_at(const tsr_field *field, const tsr_column *column, uint64_t index, uint64_t *size) {
  const uint64_t cell = column->constant ? 0 : index;
  if (field->cell_size) {
    *size = field->cell_size;
    return (const uint8_t *)column->values + cell * field->cell_size;
  }
  *size = column->offsets[cell + 1] - column->offsets[cell];
  return (const uint8_t *)column->values + column->offsets[cell];
}

static uint64_t hash_of(const tsr_schema *schema, const tsr_column *columns, uint64_t index) {
  uint64_t hash = 0, size;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const uint8_t *value = value_at(&schema->fields[d], &columns[d], index, &size);
    hash = schema->fields[d].cell_size ? tsr__hash_mix(hash, tsr__key(schema->fields[d].datatype, value))
                                       : tsr__hash_bytes(hash, value, size);
  }
  return hash;
}

static bool are_equal(const tsr_schema *schema, const tsr_column *a, uint64_t i, const tsr_column *b, uint64_t j) {
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_field *field = &schema->fields[d];
    uint64_t n, m;
    const uint8_t *x = value_at(field, &a[d], i, &n), *y = value_at(field, &b[d], j, &m);
    if (field->cell_size ? tsr__key(field->datatype, x) != tsr__key(field->datatype, y)
                         : n != m || (n && memcmp(x, y, n) != 0))
      return false;
  }
  return true;
}

static void own_coordinates(const tsr_writer *w, tsr_column *columns) {
  for (uint32_t d = 0; d < w->schema->dimension_count; d++)
    columns[d] = tsr__buffered_column(&w->schema->fields[d], &w->cells.columns[d], 0);
}

static uint32_t *heads_of(const tsr_coordinate_index *x) { return (uint32_t *)(void *)x->heads.data; }
static uint32_t *next_of(const tsr_coordinate_index *x) { return (uint32_t *)(void *)x->next.data; }
static uint64_t mask_of(const tsr_coordinate_index *x) { return x->heads.size / sizeof(uint32_t) - 1; }

static void insert(tsr_coordinate_index *x, uint64_t hash) {
  uint32_t *head = &heads_of(x)[hash & mask_of(x)];
  next_of(x)[x->count] = *head;
  *head = (uint32_t)++x->count;
}

/* Adds the cells in memory that the table lacks. */
static int catch_up(tsr_writer *w, const tsr_column *columns, tsr_error *error) {
  tsr_coordinate_index *x = &w->cells.index;
  const uint64_t cells = tsr__writer_in_memory(w);
  if (x->count == cells && x->heads.size > 0) return TSR_OK;
  if (cells > UINT32_MAX - 1)
    return tsr__fail(error, TSR_TOOBIG, "%llu uncommitted cells in memory: %u at most", (unsigned long long)cells,
                     UINT32_MAX - 1);
  if (cells > x->heads.size / sizeof(uint32_t) || x->heads.size == 0) {
    uint64_t heads = TSR_MAX(x->heads.size / sizeof(uint32_t), HEADS_MIN);
    while (heads < cells) heads *= 4;
    x->heads.size = x->count = 0;
    TSR_TRY(tsr__buffer_reserve(&x->heads, heads * sizeof(uint32_t), error));
    x->heads.size = heads * sizeof(uint32_t);
    memset(x->heads.data, 0, x->heads.size);
  }
  x->next.size = x->count * sizeof(uint32_t);
  TSR_TRY(tsr__buffer_reserve(&x->next, (cells - x->count) * sizeof(uint32_t), error));
  x->next.size = cells * sizeof(uint32_t);
  while (x->count < cells) insert(x, hash_of(w->schema, columns, x->count));
  return TSR_OK;
}

void tsr__index_rewind(tsr_writer *writer, uint64_t count) {
  tsr_coordinate_index *x = &writer->cells.index;
  const uint64_t left = count > writer->cells.first ? count - writer->cells.first : 0;
  tsr_column columns[TSR_MAX_DIMENSIONS];
  if (left >= x->count) return;
  if (left < x->count / 2) {
    x->count = 0; /* the next lookup rebuilds the table */
    tsr__buffer_release(&x->heads);
    tsr__buffer_release(&x->next);
    return;
  }
  own_coordinates(writer, columns);
  while (x->count > left) {
    x->count--;
    heads_of(x)[hash_of(writer->schema, columns, x->count) & mask_of(x)] = next_of(x)[x->count];
  }
}

void tsr__finder_close(tsr_writer *writer) {
  tsr_reader_close(writer->finder.reader);
  tsr_snapshot_close(writer->finder.base);
  writer->finder.reader = NULL;
  writer->finder.base = NULL;
}

void tsr__index_release(tsr_writer *writer) {
  writer->cells.index.count = 0;
  tsr__buffer_release(&writer->cells.index.heads);
  tsr__buffer_release(&writer->cells.index.next);
  tsr__finder_close(writer);
}

/* Finds the newest cell in memory at these coordinates; if `live`, the newest that was not removed, for arrays with
 * duplicates. Returns 1 and its number, or 0. */
static int find_in_memory(tsr_writer *w, const tsr_column *coordinates, uint64_t index, bool live, uint64_t *number,
                          tsr_error *error) {
  tsr_column columns[TSR_MAX_DIMENSIONS];
  if (w->cells.count == w->cells.first) return 0;
  own_coordinates(w, columns);
  TSR_TRY(catch_up(w, columns, error));
  const tsr_coordinate_index *x = &w->cells.index;
  for (uint32_t i = heads_of(x)[hash_of(w->schema, coordinates, index) & mask_of(x)]; i; i = next_of(x)[i - 1]) {
    if (!are_equal(w->schema, columns, i - 1, coordinates, index)) continue;
    *number = w->cells.first + i - 1;
    if (!live || !tsr__removed_has(&w->removed, tsr__uncommitted_rowid(*number), w->removed.count)) return 1;
  }
  return 0;
}

/* ---- Lookup in runs and snapshot --------------------------------------------------------------------------------- */

static int start_point(tsr_writer *w, tsr_reader *reader, const tsr_column *coordinates, uint64_t index,
                       tsr_error *error) {
  tsr_range point[TSR_MAX_DIMENSIONS];
  tsr_ranges dimensions[TSR_MAX_DIMENSIONS];
  const uint32_t n = w->schema->dimension_count;
  for (uint32_t d = 0; d < n; d++) {
    uint64_t size;
    const uint8_t *value = value_at(&w->schema->fields[d], &coordinates[d], index, &size);
    point[d] = (tsr_range){.low = size ? value : (const uint8_t *)"", .low_size = size, .high_size = size};
    point[d].high = point[d].low;
    dimensions[d] = (tsr_ranges){.ranges = &point[d], .count = 1};
  }
  const tsr_request request = {.dimensions = dimensions, .limit = 1, .threads = 1, .memory_bytes = UINT64_MAX};
  return tsr_reader_start(reader, &request, error);
}

/* Finds the row that a reader returns for the point; skips removed rows unless `any`. Returns 1, or 0. */
static int find_row(tsr_writer *w, tsr_reader *reader, const tsr_column *coordinates, uint64_t index, bool any,
                    int64_t *row, tsr_error *error) {
  const tsr_batch *batch;
  int rc = start_point(w, reader, coordinates, index, error);
  while (rc >= 0 && (rc = tsr_reader_next(reader, &batch, error)) > 0) {
    for (uint64_t i = 0; i < batch->count && batch->written; i++) {
      const uint64_t at = batch->selection ? batch->selection[i] : batch->first + i;
      const int64_t found = batch->rowids ? batch->rowids[at] : batch->row_base + (int64_t)at;
      if (!any && tsr__removed_has(&w->removed, found, w->removed.count)) continue;
      *row = found;
      return 1;
    }
  }
  return rc;
}

/* Opens the reader over `base` and the spilled runs, unless it is open already. */
static int open_finder(tsr_writer *w, tsr_snapshot *base, tsr_error *error) {
  tsr_snapshot *snapshot;
  if (w->finder.reader && w->finder.base == base && w->finder.spilled == w->runs.spilled) return TSR_OK;
  tsr_reader_close(w->finder.reader);
  w->finder.reader = NULL;
  tsr_snapshot_close(w->finder.base);
  w->finder.base = base;
  w->finder.spilled = w->runs.spilled;
  tsr__snapshot_hold(base);
  TSR_TRY(tsr__transaction_view_spilled(w, base, &snapshot, error));
  const int rc = tsr_reader_open(snapshot, &w->finder.reader, error);
  tsr_snapshot_close(snapshot);
  return rc;
}

int tsr__find_uncommitted(tsr_writer *writer, const tsr_column *coordinates, uint64_t index, uint64_t *number,
                          tsr_error *error) {
  return find_in_memory(writer, coordinates, index, false, number, error);
}

int tsr__find_elsewhere(tsr_writer *writer, tsr_snapshot *base, const tsr_column *coordinates, uint64_t index, bool any,
                        int64_t *row, tsr_error *error) {
  if (base->fragment_count == 0 && writer->runs.spilled == 0) return 0;
  TSR_TRY(open_finder(writer, base, error));
  return find_row(writer, writer->finder.reader, coordinates, index, any, row, error);
}

int tsr_writer_find(tsr_writer *writer, tsr_snapshot *base, const tsr_column *coordinates, uint64_t index, int64_t *row,
                    tsr_error *error) {
  TSR_OWN_ERROR(error);
  uint64_t number;
  const bool duplicates = writer->schema->allows_duplicates;
  int rc = find_in_memory(writer, coordinates, index, duplicates, &number, error);
  if (rc > 0) {
    const int64_t found = tsr__uncommitted_rowid(number);
    if (tsr__removed_has(&writer->removed, found, writer->removed.count)) return 0; /* the newest version was removed */
    *row = found;
    return 1;
  }
  if (rc == 0) rc = tsr__find_elsewhere(writer, base, coordinates, index, false, row, error);
  return rc < 0 ? tsr__wrap(error, "array %s", writer->array->path) : rc;
}
