/* writer.c: opens and closes a writer, and takes in the changes of one commit: cells, removed rows, and marks to which
 * it can be rewound. lookup.c finds a cell by its coordinates, commit.c commits the changes.
 *
 * Invariant: `cells.columns` hold cells first..count. */
#include "write/writer.h"

#include <string.h>

#include "base/options.h"
#include "array/array.h"
#include "store/store.h"
#include "format/layout.h"
#include "format/schema.h"
#include "environment/environment.h"
#include "log/log.h"

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
  tsr__commit_budget_subtract(w, TSR_MAX(count, w->cells.first) - w->cells.first, tsr__writer_in_memory(w));
  truncate_columns(w, count);
}

#define EXPECT_PART 4 /* cells that are expected may take this part of the budget */

void tsr__writer_reserve(tsr_writer *writer, uint64_t cells, const uint64_t *bytes) {
  tsr_writer *w = writer;
  uint64_t sum = 0;
  for (uint32_t f = 0; f < w->field_count; f++)
    sum = tsr__add_sat(sum, tsr__add_sat(bytes[f], tsr__mul_sat(cells, 9))); /* offsets and validity */
  for (uint32_t f = 0; f < w->field_count && sum <= w->memory.limit / EXPECT_PART; f++)
    tsr__buffered_reserve(&w->schema->fields[f], &w->cells.columns[f], cells, bytes[f]);
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
    tsr__commit_budget_subtract(w, TSR_MAX(mark.cells, w->cells.first) - w->cells.first, now.cells - w->cells.first);
  tsr__transaction_view_rewind(w, mark.cells);
  tsr__spill_rewind(w, mark.cells);
  tsr__index_rewind(w, mark.cells);
  tsr__removed_rewind(&w->removed, mark.removed);
  if (mark.cells < now.cells) truncate_columns(w, mark.cells);
  return TSR_OK;
}

int tsr_writer_rewind(tsr_writer *writer, tsr_mark mark, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (writer->commit.stage == TSR_COMMIT_PUBLISHED) return TSR_OK;
  return tsr__writer_wrap(writer, rewind_to(writer, mark, error), error);
}
