/* writer.c: opens and closes a writer and takes in the changes of one commit (cells, removed rows, marks for
 * rewinding); finds the cell at given coordinates. commit.c commits the changes.
 *
 * The first half is the lookup: first among the writer's cells in memory, then in its spilled runs and in the snapshot
 * below. Cells in memory are in a hash table of chains, the newest cell first. The table is updated lazily, by the next
 * lookup. Rewinding the writer removes cells from the table one by one. For spilled cells and the snapshot, a reader
 * looks up the single point.
 *
 * The second half is the writer itself: open and close, cells, marks. */
#include "write/writer.h"

#include <string.h>

#include "base/options.h"
#include "array/array.h"
#include "read/reader.h"
#include "store/store.h"
#include "format/layout.h"
#include "format/schema.h"
#include "environment/environment.h"
#include "log/log.h"

#define HEADS_MIN 256u

/* ---- The table ------------------------------------------------------------------------------ */

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

/* Removes the cells from number `count` on from the hash table. Call before dropping them. */
static void index_rewind(tsr_writer *writer, uint64_t count) {
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

/* ---- The writer -------------------------------------------------------------------------------------------------- */

/* Invariant: `cells.columns` hold cells first..count. */

#define WRITER_DEFAULT_MEMORY (UINT64_C(1) << 30)
#define UNWEIGHED_MAX         8192 /* bytes of single cells after which the writer weighs its memory again */

/* ---- Open and close ---------------------------------------------------------------------------------------------- */

static int prepare_columns(tsr_writer *w, tsr_error *error) {
  w->field_count = w->schema->dimension_count + w->schema->attribute_count;
  TSR_TRY(TSR_ARENA_ARRAY(&w->arena, w->field_count, &w->cells.columns, error));
  for (uint32_t i = 0; i < w->field_count; i++) tsr__buffered_init(&w->cells.columns[i], &w->memory);
  TSR_TRY(TSR_ARENA_ARRAY(&w->arena, w->field_count, &w->cells.limits, error));
  for (uint32_t f = 0; f < w->field_count; f++) tsr__limit_make(w->schema, f, &w->cells.limits[f]);
  tsr__background_sort_open(w);
  TSR_TRY(tsr__removed_open(&w->removed, w->schema, &w->arena, &w->memory, error));
  return tsr__commit_budget_open(w, error);
}

/* Uses the schema in force, as readers of the present do. One that is ahead of the clock, of a machine whose clock is
 * ahead, is in force once the clock has reached it: until then the callers' columns are not its attributes. */
static int open_schema(tsr_writer *w, const tsr_schema *given, tsr_error *error) {
  const tsr_schema *newest;
  TSR_TRY(tsr__log_list(&w->array->log, false, false, error));
  TSR_TRY(tsr__array_schema_at(w->array, UINT64_MAX, &newest, error));
  TSR_TRY(tsr__array_schema_at(w->array, tsr__environment_present(w->array->environment), &w->schema, error));
  if (given) w->schema = given;
  w->commit.options.part = w->schema != newest;
  if (w->schema->key_value) return tsr__fail(error, TSR_READONLY, "key-value stores are not written");
  TSR_TRY(tsr__schema_check_writable(w->schema, error));
  return tsr__schema_write_version(w->schema, &w->version, error);
}

static int take_options(tsr_writer *w, const tsr_writer_options *options, tsr_error *error) {
  const tsr_array *array = w->array;
  w->threads = options->threads && !array->environment->single_threaded ? options->threads : array->threads;
  w->commit.options.durable = !options->unsynced;
  w->commit.options.time = options->time;
  if (!options->host) return TSR_OK;
  const char *owner = options->host->owner, *file = options->host->owner_file;
  w->runs.scratch.host = array->store->workers_may_read ? NULL : options->host->scratch;
  w->runs.scratch.argument = options->host->scratch_argument;
  if (!owner) return TSR_OK;
  if (!tsr__prepared_owner_valid(owner)) return tsr__fail(error, TSR_ERROR, "'%s' is not a valid owner id", owner);
  TSR_TRY(TSR_ARENA_COPY(&w->arena, owner, strlen(owner), &w->commit.options.owner, error));
  if (!file) return TSR_OK;
  TSR_TRY(TSR_ARENA_COPY(&w->arena, file, strlen(file), &w->commit.options.owner_file, error));
  return TSR_OK;
}

int tsr_writer_open(tsr_array *array, const tsr_writer_options *options, tsr_writer **writer, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_writer_options own;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_writer_options, host, options, &own, error));
  options = &own;
  tsr_writer *w;
  TSR_TRY(TSR_ALLOC(&array->memory, &w, error));
  w->array = array;
  tsr__memory_init(&w->memory, &array->memory, options->memory_bytes ? options->memory_bytes : WRITER_DEFAULT_MEMORY,
                   "memory_mb");
  tsr__arena_init(&w->arena, &w->memory);
  w->references = 1;
  w->commit.withdrawn.memory = w->commit.fragments.memory = &w->memory;
  w->cells.index.heads.memory = w->cells.index.next.memory = &w->memory;
  w->runs.list.memory = &w->memory;
  int rc = take_options(w, options, error);
  if (rc >= 0) rc = open_schema(w, options->schema, error);
  if (rc >= 0) rc = prepare_columns(w, error);
  if (rc < 0) {
    tsr_writer_close(w);
    return tsr__wrap(error, "array %s", array->path);
  }
  *writer = w;
  return TSR_OK;
}

const tsr_schema *tsr_writer_schema(const tsr_writer *writer) { return writer->schema; }

int tsr__writer_check_open(const tsr_writer *writer, tsr_error *error) {
  return writer->commit.stage == TSR_COMMIT_PUBLISHED
             ? tsr__fail(error, TSR_ERROR, "the writer has published its commit")
             : TSR_OK;
}

void tsr__writer_drop(tsr_writer *writer) {
  tsr_writer *w = writer;
  if (--w->references > 0) return;
  for (uint32_t i = 0; w->cells.columns && i < w->field_count; i++) tsr__buffered_release(&w->cells.columns[i]);
  tsr__removed_release(&w->removed);
  tsr__commit_budget_release(w);
  tsr__buffer_release(&w->cells.index.heads);
  tsr__buffer_release(&w->cells.index.next);
  tsr__buffer_release(&w->runs.list);
  tsr__commit_release(&w->commit);
  tsr__store_close(w->runs.scratch.store);
  tsr__arena_release(&w->arena);
  tsr__free(w);
}

void tsr_writer_close(tsr_writer *writer) {
  if (!writer) return;
  if (writer->commit.stage != TSR_COMMIT_PREPARED && writer->commit.stage != TSR_COMMIT_PUBLISHED &&
      (tsr__commit_fragment_count(&writer->commit) || *writer->commit.path))
    (void)tsr_writer_abandon(writer, NULL);
  tsr__commit_count(writer, false);
  tsr__commit_unlock(&writer->commit);
  tsr__background_sort_release(writer);
  tsr__index_release(writer);
  tsr__transaction_view_release(writer);
  tsr__writer_forget_constraints(writer);
  tsr__writer_drop(writer);
}

/* ---- Cells ------------------------------------------------------------------------------------------------------- */

static void truncate_columns(tsr_writer *w, uint64_t count) {
  if (count < w->cells.first) w->cells.first = count;
  tsr__background_sort_rewind(w, count - w->cells.first);
  for (uint32_t f = 0; f < w->field_count; f++) {
    tsr__buffered_truncate(&w->schema->fields[f], &w->cells.columns[f], count - w->cells.first);
    tsr__buffered_shrink(&w->cells.columns[f]); /* return memory that a failed statement took */
  }
  w->cells.count = count;
}

/* Drops the last cells, which are in memory, so that `count` are left. */
static void take_back(tsr_writer *w, uint64_t count) {
  tsr__commit_budget_take(w, TSR_MAX(count, w->cells.first) - w->cells.first, tsr__writer_in_memory(w));
  truncate_columns(w, count);
}

static int append_cells(tsr_writer *w, const tsr_column *columns, const uint32_t *selection, uint64_t count,
                        tsr_error *error) {
  for (uint32_t f = 0; f < w->field_count; f++) {
    if (f < w->schema->dimension_count)
      TSR_TRY(tsr__check_coordinates(w->schema, f, &columns[f], selection, count, error));
    TSR_TRY(tsr__check_nulls(&w->schema->fields[f], &columns[f], selection, count, error));
    TSR_TRY(tsr__check_scaled(w->schema, f, &columns[f], selection, count, error));
  }
  TSR_TRY(tsr__spill_if_full(w, error));
  w->cells.unweighed = 0;
  for (uint32_t f = 0; f < w->field_count; f++) {
    int rc = tsr__buffered_append(&w->schema->fields[f], &w->cells.columns[f], &columns[f], selection, count, error);
    if (rc < 0) {
      truncate_columns(w, w->cells.count);
      return rc;
    }
  }
  w->cells.count += count;
  tsr__commit_budget_add(w, tsr__writer_in_memory(w) - count, tsr__writer_in_memory(w));
  const int rc = tsr__commit_budget_check_cells(w, error);
  if (rc < 0) {
    take_back(w, w->cells.count - count);
    return rc;
  }
  if (tsr__writer_in_memory(w) >= w->cells.background.next) tsr__background_sort_start(w);
  tsr__commit_mark_dirty(&w->commit);
  return TSR_OK;
}

/* Appends one cell if this only requires copying its values. Returns false and does nothing otherwise. */
static bool append_cell(tsr_writer *w, const tsr_column *columns) {
  uint64_t bytes;
  if (w->commit.stage == TSR_COMMIT_PUBLISHED || w->commit.boxes > 0 || w->cells.unweighed > UNWEIGHED_MAX)
    return false;
  if (!tsr__buffered_append_cell(w->cells.limits, w->field_count, w->cells.columns, columns, &bytes)) return false;
  w->cells.unweighed += bytes;
  w->cells.count++;
  tsr__commit_budget_add(w, tsr__writer_in_memory(w) - 1, tsr__writer_in_memory(w));
  if (tsr__writer_in_memory(w) >= w->cells.background.next) tsr__background_sort_start(w);
  tsr__commit_mark_dirty(&w->commit);
  return true;
}

int tsr_writer_append(tsr_writer *writer, const tsr_column *columns, const uint32_t *selection, uint64_t count,
                      tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_constraint_cells cells = {.columns = columns, .selection = selection, .count = count};
  const bool tested = tsr__writer_untested(writer), single = count == 1 && !selection;
  if (!count) return TSR_OK;
  if (tested && single && append_cell(writer, columns)) return TSR_OK;
  int rc = tsr__writer_check_open(writer, error);
  if (rc >= 0 && writer->commit.boxes > 0)
    rc = tsr__fail(error, TSR_ERROR, "a commit has boxes or single cells, not both");
  if (rc >= 0 && !tested) rc = tsr__writer_test(writer, &cells, NULL, error);
  if (rc >= 0 && !tested && single && append_cell(writer, columns)) return TSR_OK;
  if (rc >= 0) rc = append_cells(writer, columns, selection, count, error);
  return tsr__writer_wrap(writer, rc, error);
}

static int remove_row(tsr_writer *w, int64_t row, const tsr_column *coordinates, uint64_t index, tsr_error *error) {
  TSR_TRY(tsr__writer_check_open(w, error));
  if (w->schema->dense) return tsr__fail(error, TSR_CONSTRAINT, "rows of a dense array cannot be deleted");
  if (!layout_has_delete_conditions(w->version))
    return tsr__fail(error, TSR_CONSTRAINT,
                     "its format version is %u: rows can be deleted from version 16 on (consolidate it first)",
                     w->version);
  if (row < 0 && (row > -2 || (uint64_t)(-2 - row) >= w->cells.count))
    return tsr__fail(error, TSR_ERROR, "row %lld does not exist", (long long)row);
  const uint64_t before = w->removed.count;
  TSR_TRY(tsr__removed_add(&w->removed, row, coordinates, index, error));
  tsr__commit_mark_dirty(&w->commit);
  const int rc = tsr__commit_budget_check_removed(w, error);
  if (rc < 0) tsr__removed_rewind(&w->removed, before);
  return rc;
}

int tsr_writer_remove(tsr_writer *writer, int64_t row, const tsr_column *coordinates, uint64_t index,
                      tsr_error *error) {
  TSR_OWN_ERROR(error);
  return tsr__writer_wrap(writer, remove_row(writer, row, coordinates, index, error), error);
}

void tsr_writer_column(const tsr_writer *writer, uint32_t field, tsr_column *column) {
  *column = tsr__buffered_column(&writer->schema->fields[field], &writer->cells.columns[field], 0);
}

/* ---- Marks ------------------------------------------------------------------------------------------------------- */

void tsr_writer_keep(tsr_writer *writer, bool keep) { writer->cells.kept = keep; }

tsr_mark tsr_writer_mark(const tsr_writer *writer) {
  return (tsr_mark){.cells = writer->cells.count, .removed = writer->removed.count, .boxes = writer->commit.boxes};
}

bool tsr_writer_changed(const tsr_writer *writer) {
  return writer->cells.count > 0 || writer->removed.count > 0 || writer->commit.boxes > 0;
}

static int rewind_to(tsr_writer *w, tsr_mark mark, tsr_error *error) {
  const tsr_mark now = tsr_writer_mark(w);
  tsr__writer_forget_constraints(w); /* a savepoint of the host may have taken some back, too */
  if (mark.cells > now.cells || mark.removed > now.removed || mark.boxes > now.boxes)
    return tsr__fail(error, TSR_ERROR, "rewind to %llu cells of %llu, %llu boxes of %llu",
                     (unsigned long long)mark.cells, (unsigned long long)now.cells, (unsigned long long)mark.boxes,
                     (unsigned long long)now.boxes);
  if (mark.cells == now.cells && mark.removed == now.removed && mark.boxes == now.boxes) return TSR_OK;
  tsr__commit_mark_dirty(&w->commit);
  if (mark.boxes < now.boxes) {
    w->commit.boxes = mark.boxes;
    TSR_TRY(tsr__commit_fragments_remove(w, mark.boxes, error));
  }
  if (mark.cells < now.cells)
    tsr__commit_budget_take(w, TSR_MAX(mark.cells, w->cells.first) - w->cells.first, now.cells - w->cells.first);
  tsr__transaction_view_rewind(w, mark.cells);
  tsr__spill_rewind(w, mark.cells);
  index_rewind(w, mark.cells);
  tsr__removed_rewind(&w->removed, mark.removed);
  if (mark.cells < now.cells) truncate_columns(w, mark.cells);
  return TSR_OK;
}

int tsr_writer_rewind(tsr_writer *writer, tsr_mark mark, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (writer->commit.stage == TSR_COMMIT_PUBLISHED) return TSR_OK;
  return tsr__writer_wrap(writer, rewind_to(writer, mark, error), error);
}
