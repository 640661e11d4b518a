/* writer.c: a writer takes the cells and removed rows of one commit, prepares the commit and publishes it.
 *
 * A fragment is first written under a name that no reader takes for a fragment's: ".UUID", below __fragments (before
 * format version 12 in the array's directory). Preparing chooses the time and gives the fragments their names.
 * Publishing is one step:
 *
 *    from 12 on   one fragment alone: __commits/NAME.wrt is created. Conditions alone, in one file: its content, staged
 *                 as __commits/.NAME, is renamed to NAME.del. Several of either: a list of all, with the content of the
 *                 conditions, is staged likewise and renamed to __commits/__T_T_UUID_V.con
 *    7 to 11      NAME.ok is created
 *    3            the metadata file, written as ".metadata", is renamed to __fragment_metadata.tdb
 *
 * Conditions and cells have the same time, since they have no coordinate in common. In arrays with duplicates they may
 * have, so the cells' time is one later there.
 *
 * Invariants: `columns` hold cells first..count. `pieces` are the fragments on disk: first the `boxes` that were
 * appended as boxes, then those that were made of cells. */
#include "write/writer.h"

#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "format/schema_rules.h"
#include "format/layout.h"
#include "array/array.h"
#include "array/committed.h"
#include "array/environment.h"
#include "array/listing.h"
#include "array/snapshot.h"
#include "read/reader.h"
#include "write/transaction_view.h"
#include "write/write_ahead.h"
#include "write/write_boxes.h"
#include "write/write_boxes_fill.h"
#include "write/write_buffer.h"
#include "write/write_deletes.h"
#include "write/write_dense.h"
#include "write/write_find.h"
#include "write/write_spill.h"

#define WRITER_DEFAULT_MEMORY (UINT64_C(1) << 30)
/* bytes of memory_mb for each thread that encodes tiles, since a codec takes some of it */
#define THREAD_BYTES  (UINT64_C(2) << 20)
#define UNWEIGHED_MAX 8192 /* bytes of single cells after which the writer weighs its memory again */

typedef tsr_piece_on_disk writer_piece;

static writer_piece *piece_at(const tsr_writer *w, uint64_t i) { return (writer_piece *)(void *)w->pieces.data + i; }
static uint64_t piece_count(const tsr_writer *w) { return w->pieces.size / sizeof(writer_piece); }

/* The pieces on disk no longer hold what is to be committed. */
static void changed(tsr_writer *w) { w->prepared = w->reusable = false; }

/* ---- Open and close ---------------------------------------------------------------------------------------------- */

static int prepare_columns(tsr_writer *w, tsr_error *error) {
  w->field_count = w->schema->dimension_count + w->schema->attribute_count;
  TSR_TRY(TSR_ARENA_ARRAY(&w->arena, w->field_count, &w->columns, error));
  for (uint32_t i = 0; i < w->field_count; i++) tsr__buffered_init(&w->columns[i], &w->memory);
  TSR_TRY(TSR_ARENA_ARRAY(&w->arena, w->field_count, &w->limits, error));
  for (uint32_t f = 0; f < w->field_count; f++) tsr__limit_make(w->schema, f, &w->limits[f]);
  tsr__ahead_open(w);
  TSR_TRY(tsr__removed_open(w, error));
  return tsr__need_open(w, error);
}

/* Takes the newest schema: a writer does not look at times. */
static int writer_open_schema(tsr_writer *w, const tsr_schema *given, tsr_error *error) {
  TSR_TRY(tsr__array_list(w->array, false, false, error));
  TSR_TRY(tsr__array_schema_at(w->array, UINT64_MAX, &w->schema, error));
  w->part = given && given != w->schema;
  if (given) w->schema = given;
  if (w->schema->key_value) return tsr__fail(error, TSR_READONLY, "key-value stores are not written");
  TSR_TRY(tsr__schema_check_writable(w->schema, error));
  return tsr__schema_write_version(w->schema, &w->version, error);
}

static int copy_owner(tsr_writer *w, const char *owner, const char *file, tsr_error *error) {
  if (!owner) return TSR_OK;
  if (!tsr__pending_owner_valid(owner)) return tsr__fail(error, TSR_ERROR, "'%s' is not a valid owner id", owner);
  TSR_TRY(TSR_ARENA_COPY(&w->arena, owner, strlen(owner), &w->owner, error));
  if (!file) return TSR_OK;
  TSR_TRY(TSR_ARENA_COPY(&w->arena, file, strlen(file), &w->owner_file, error));
  return TSR_OK;
}

int tsr_writer_open(tsr_array *array, const tsr_writer_options *options, tsr_writer **writer, tsr_error *error) {
  TSR_OWN_ERROR(error);
  static const tsr_writer_options none = {0};
  if (!options) options = &none;
  tsr_writer *w;
  TSR_TRY(TSR_ALLOC(&array->memory, &w, error));
  w->array = array;
  tsr__memory_init(&w->memory, &array->memory, options->memory_bytes ? options->memory_bytes : WRITER_DEFAULT_MEMORY,
                   "memory_mb");
  tsr__arena_init(&w->arena, &w->memory);
  w->references = 1;
  w->withdrawn.memory = w->pieces.memory = w->runs.memory = w->index.heads.memory = w->index.next.memory = &w->memory;
  w->threads = options->threads && !array->environment->single_threaded ? options->threads : array->threads;
  w->durable = !options->unsynced;
  w->asked_time = options->time;
  w->scratch_host = array->store->workers_may_read ? NULL : options->scratch;
  w->scratch_argument = options->scratch_argument;
  int rc = copy_owner(w, options->owner, options->owner_file, error);
  if (rc >= 0) rc = writer_open_schema(w, options->schema, error);
  if (rc >= 0) rc = prepare_columns(w, error);
  if (rc < 0) {
    tsr_writer_close(w);
    return tsr__wrap(error, "array %s", array->path);
  }
  *writer = w;
  return TSR_OK;
}

const tsr_schema *tsr_writer_schema(const tsr_writer *writer) { return writer->schema; }

static int remove_pieces(tsr_writer *w, uint64_t from, tsr_error *error) {
  while (piece_count(w) > from) {
    tsr_path p = tsr__path_of(tsr__writer_fragments(w), piece_at(w, piece_count(w) - 1)->name, "");
    TSR_TRY(tsr__fragment_remove(w->array->store, p.text, error));
    w->pieces.size -= sizeof(writer_piece);
  }
  return TSR_OK;
}

/* Takes back the commits that were published before the writer was reopened. It takes back all of them each time, since
 * a savepoint of the host's may have undone an earlier withdrawal. */
static int withdraw(tsr_writer *w, tsr_error *error) {
  if (w->reopened && *w->commit) TSR_TRY(tsr__buffer_append(&w->withdrawn, w->commit, TSR_COMMIT_PATH, error));
  w->reopened = false;
  for (uint64_t i = 0; i < w->withdrawn.size; i += TSR_COMMIT_PATH) {
    const char *commit = (const char *)w->withdrawn.data + i, *name = strrchr(commit, '/');
    uint64_t stem;
    char directory[TSR_COMMIT_PATH + 16];
    TSR_TRY(tsr__pending_withdraw(w->array->store, commit, error));
    if (!name || !tsr__name_suffix(name, TSR_SUFFIX_WRITE, &stem)) continue;
    snprintf(directory, sizeof directory, TSR_DIR_FRAGMENTS "%.*s", (int)stem, name);
    TSR_TRY(tsr__fragment_remove(w->array->store, directory, error));
  }
  return TSR_OK;
}

/* Closes the marker, which was removed or is left to recovery. */
static void unlock_marker(tsr_writer *w) {
  tsr__store_close_file(w->lock);
  w->lock = NULL;
}

/* Removes what is staged for the commit, then its marker. The marker goes last: recovery finds the rest by it. */
static int writer_remove_commit(tsr_writer *w, tsr_error *error) {
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  tsr_error one;
  TSR_TRY(withdraw(w, error));
  if (!*w->commit) return TSR_OK;
  tsr__pending_paths(w->commit, marker, staged);
  if (*staged && layout_has_commits_folder(w->version)) {
    int rc = tsr__store_remove(w->array->store, staged, &one);
    if (rc < 0 && rc != TSR_NOT_FOUND) return *error = one, rc;
  }
  if (w->owner) TSR_TRY(tsr__pending_unmark(w->array->store, marker, error));
  unlock_marker(w);
  *w->commit = 0;
  return TSR_OK;
}

static int wrapped(const tsr_writer *w, int rc, tsr_error *error) {
  return rc < 0 ? tsr__wrap(error, "array %s", w->array->path) : rc;
}

int tsr_writer_abandon(tsr_writer *writer, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (writer->published) return TSR_OK;
  changed(writer);
  writer->boxes = 0;
  int rc = remove_pieces(writer, 0, error);
  if (rc >= 0) rc = writer_remove_commit(writer, error);
  return wrapped(writer, rc, error);
}

void tsr__writer_drop(tsr_writer *writer) {
  tsr_writer *w = writer;
  if (--w->references > 0) return;
  for (uint32_t i = 0; w->columns && i < w->field_count; i++) tsr__buffered_release(&w->columns[i]);
  tsr__removed_release(w);
  tsr__need_release(w);
  tsr__buffer_release(&w->index.heads);
  tsr__buffer_release(&w->index.next);
  tsr__buffer_release(&w->runs);
  tsr__buffer_release(&w->pieces);
  tsr__buffer_release(&w->withdrawn);
  tsr__store_close(w->scratch);
  tsr__arena_release(&w->arena);
  tsr__free(w);
}

void tsr_writer_close(tsr_writer *writer) {
  if (!writer) return;
  if (!writer->prepared && !writer->published && (piece_count(writer) || *writer->commit))
    (void)tsr_writer_abandon(writer, NULL);
  unlock_marker(writer);
  tsr__ahead_release(writer);
  tsr__index_release(writer);
  tsr__transaction_view_release(writer);
  tsr__writer_drop(writer);
}

/* ---- Cells ------------------------------------------------------------------------------------------------------- */

static void truncate_columns(tsr_writer *w, uint64_t count) {
  if (count < w->first) w->first = count;
  tsr__ahead_rewind(w, count - w->first);
  for (uint32_t f = 0; f < w->field_count; f++) {
    tsr__buffered_truncate(&w->schema->fields[f], &w->columns[f], count - w->first);
    tsr__buffered_shrink(&w->columns[f]); /* room that a failed statement took is not missing later */
  }
  w->count = count;
}

/* Takes the last cells back, so that `count` are left. These end in memory, or where the cells in memory begin. */
static void take_back(tsr_writer *w, uint64_t count) {
  tsr__need_take(w, TSR_MAX(count, w->first) - w->first, w->count - w->first);
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
  w->unweighed = 0;
  for (uint32_t f = 0; f < w->field_count; f++) {
    int rc = tsr__buffered_append(&w->schema->fields[f], &w->columns[f], &columns[f], selection, count, error);
    if (rc < 0) {
      truncate_columns(w, w->count);
      return rc;
    }
  }
  w->count += count;
  tsr__need_add(w, w->count - w->first - count, w->count - w->first);
  const int rc = tsr__need_check_cells(w, error);
  if (rc < 0) {
    take_back(w, w->count - count);
    return rc;
  }
  if (w->count - w->first >= w->ahead.next) tsr__ahead_more(w);
  changed(w);
  return TSR_OK;
}

/* Appends one cell if that takes no more than copying its values. Returns false and does nothing otherwise. */
static bool append_cell(tsr_writer *w, const tsr_column *columns) {
  uint64_t bytes;
  if (w->published || w->boxes > 0 || w->unweighed > UNWEIGHED_MAX) return false;
  if (!tsr__buffered_append_cell(w->limits, w->field_count, w->columns, columns, &bytes)) return false;
  w->unweighed += bytes;
  w->count++;
  tsr__need_add(w, w->count - w->first - 1, w->count - w->first);
  if (w->count - w->first >= w->ahead.next) tsr__ahead_more(w);
  changed(w);
  return true;
}

int tsr_writer_append(tsr_writer *writer, const tsr_column *columns, const uint32_t *selection, uint64_t count,
                      tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (!count) return TSR_OK;
  if (count == 1 && !selection && append_cell(writer, columns)) return TSR_OK;
  int rc = TSR_OK;
  if (writer->published) rc = tsr__fail(error, TSR_ERROR, "the writer has published its commit");
  else if (writer->boxes > 0) rc = tsr__fail(error, TSR_ERROR, "a commit has boxes or single cells, not both");
  else rc = append_cells(writer, columns, selection, count, error);
  return wrapped(writer, rc, error);
}

static int remove_row(tsr_writer *w, int64_t row, const tsr_column *coordinates, uint64_t index, tsr_error *error) {
  if (w->published) return tsr__fail(error, TSR_ERROR, "the writer has published its commit");
  if (w->schema->dense) return tsr__fail(error, TSR_CONSTRAINT, "rows of a dense array cannot be deleted");
  if (!layout_has_delete_conditions(w->version))
    return tsr__fail(error, TSR_CONSTRAINT,
                     "its format version is %u: rows can be deleted from version 16 on (consolidate it first)",
                     w->version);
  if (row < 0 && (row > -2 || (uint64_t)(-2 - row) >= w->count))
    return tsr__fail(error, TSR_ERROR, "row %lld does not exist", (long long)row);
  const uint64_t before = w->removed.count;
  TSR_TRY(tsr__removed_add(w, row, coordinates, index, error));
  changed(w);
  const int rc = tsr__need_check_removed(w, error);
  if (rc < 0) tsr__removed_rewind(w, before);
  return rc;
}

int tsr_writer_remove(tsr_writer *writer, int64_t row, const tsr_column *coordinates, uint64_t index,
                      tsr_error *error) {
  TSR_OWN_ERROR(error);
  return wrapped(writer, remove_row(writer, row, coordinates, index, error), error);
}

void tsr_writer_column(const tsr_writer *writer, uint32_t field, tsr_column *column) {
  *column = tsr__buffered_column(&writer->schema->fields[field], &writer->columns[field], 0);
}

/* ---- Fragments under provisional names --------------------------------------------------------------------------- */

static int make_if_absent(tsr_writer *w, const char *directory, tsr_error *error) {
  tsr_error one;
  int rc = tsr__store_make_directory(w->array->store, directory, &one);
  if (rc >= 0 && w->durable) return tsr__store_sync_directory(w->array->store, "", error);
  if (rc < 0 && rc != TSR_EXISTS) {
    *error = one;
    return rc;
  }
  return TSR_OK;
}

static int provisional_name(char name[128], tsr_error *error) {
  uint8_t random[16];
  tsr_name made;
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(0, 0, 0, &made, random));
  snprintf(name, 128, ".%s", made.uuid);
  return TSR_OK;
}

int tsr__writer_directory(tsr_writer *writer, tsr_store *scratch, char name[128], tsr_error *error) {
  tsr_writer *w = writer;
  if (scratch) {
    TSR_TRY(provisional_name(name, error));
    return tsr__store_make_directory(scratch, name, error);
  }
  if (layout_has_commits_folder(w->version)) {
    TSR_TRY(make_if_absent(w, TSR_DIR_FRAGMENTS, error));
    TSR_TRY(make_if_absent(w, TSR_DIR_COMMITS, error));
  }
  TSR_TRY(provisional_name(name, error));
  tsr_path p = tsr__path_of(tsr__writer_fragments(w), name, "");
  return tsr__store_make_directory(w->array->store, p.text, error);
}

/* Makes a directory and lists it in `pieces`, so that it is removed if anything fails. */
static int new_piece(tsr_writer *w, writer_piece **made, tsr_error *error) {
  writer_piece one = {.name = "."};
  TSR_TRY(tsr__buffer_reserve(&w->pieces, sizeof one, error));
  TSR_TRY(tsr__writer_directory(w, NULL, one.name, error));
  TSR_TRY(tsr__buffer_append(&w->pieces, &one, sizeof one, error));
  *made = piece_at(w, piece_count(w) - 1);
  return TSR_OK;
}

tsr_fragment_target tsr__writer_target(tsr_writer *w, const char *directory, const tsr_interval *box) {
  return (tsr_fragment_target){.environment = w->array->environment,
                               .store = w->array->store,
                               .directory = directory,
                               .metadata_name = !layout_has_commit_files(w->version) ? TSR_FILE_STAGED_METADATA
                                                                                     : TSR_FILE_FRAGMENT_METADATA,
                               .schema = w->schema,
                               .version = w->version,
                               .key = tsr__array_key(w->array),
                               .box = box,
                               .memory = &w->memory,
                               .window_bytes = w->memory.limit / 16,
                               .threads = (unsigned)TSR_MIN(w->threads, TSR_MAX(w->memory.limit / THREAD_BYTES, 1)),
                               .durable = w->durable};
}

/* Leaves removed cells out of the order; returns how many cells are left. */
static uint64_t writer_leave_out(const tsr_writer *w, uint32_t *order, uint64_t count) {
  uint64_t kept = 0;
  if (w->removed.own == 0) return count;
  for (uint64_t i = 0; i < count; i++) {
    order[kept] = order[i];
    kept += !tsr__writer_hides(w, tsr__uncommitted_rowid(w->first + order[i]), w->removed.count);
  }
  return kept;
}

static int write_piece(tsr_writer *w, const tsr_column *columns, const uint32_t *order, uint64_t count,
                       tsr_error *error) {
  writer_piece *made = NULL;
  TSR_TRY(new_piece(w, &made, error));
  tsr_path p = tsr__path_of(tsr__writer_fragments(w), made->name, "");
  tsr_fragment_target target = tsr__writer_target(w, p.text, NULL);
  int rc = tsr__write_ordered(&target, columns, order, count, error);
  if (rc < 0) {
    tsr_error ignored;
    (void)remove_pieces(w, piece_count(w) - 1, &ignored);
  }
  return rc;
}

/* Merges the runs on disk. The cells in memory become one more run first. */
static int write_spilled(tsr_writer *w, tsr_error *error) {
  writer_piece *made = NULL;
  uint64_t cells = 0;
  TSR_TRY(tsr__spill(w, error));
  TSR_TRY(new_piece(w, &made, error));
  tsr_path p = tsr__path_of(tsr__writer_fragments(w), made->name, "");
  tsr_fragment_target target = tsr__writer_target(w, p.text, NULL);
  TSR_TRY(tsr__spill_merge(w, &target, &cells, error)); /* what is left is removed with the other pieces */
  return cells > 0 ? TSR_OK : remove_pieces(w, piece_count(w) - 1, error);
}

static int write_from_memory(tsr_writer *w, tsr_error *error) {
  tsr_column *columns = NULL;
  uint32_t *order = NULL;
  uint64_t count = w->count - w->first;
  TSR_TRY(TSR_ALLOC_ARRAY(&w->memory, w->field_count, &columns, error));
  for (uint32_t f = 0; f < w->field_count; f++) tsr_writer_column(w, f, columns + f);
  int rc = TSR_ALLOC_RAW(&w->memory, count, &order, error);
  if (rc >= 0) {
    const tsr_order_ahead ahead = tsr__ahead_blocks(w);
    rc = tsr__order_cells(w->schema, columns, &w->memory, w->threads, &ahead, order, &count, error);
    if (rc < 0) rc = tsr__wrap(error, "sorting cells");
  }
  if (rc >= 0) tsr__ahead_rewind(w, 0); /* frees memory for writing */
  if (rc >= 0) count = writer_leave_out(w, order, count);
  if (rc >= 0 && count > 0) rc = write_piece(w, columns, order, count, error);
  tsr__free(order);
  tsr__free(columns);
  return rc;
}

static int writer_write_sparse(tsr_writer *w, tsr_error *error) {
  tsr_error trouble = {0};
  if (w->spilled) return write_spilled(w, error);
  if (w->count == w->first) return TSR_OK;
  const int rc = write_from_memory(w, &trouble);
  if (rc == TSR_BUDGET) return write_spilled(w, error); /* the cells themselves may leave memory */
  if (rc < 0) *error = trouble;
  return rc;
}

/* ---- Boxes ------------------------------------------------------------------------------------------------------- */

static int writer_check_box(const tsr_writer *w, const tsr_interval *box, tsr_error *error) {
  if (w->count > 0) return tsr__fail(error, TSR_ERROR, "a commit has boxes or single cells, not both");
  if (w->boxes && !layout_has_commits_folder(w->version))
    return tsr__fail(error, TSR_UNSUPPORTED, "format version %u commits one box at a time", w->version);
  for (uint32_t d = 0; d < w->schema->dimension_count; d++) {
    const tsr_field *field = &w->schema->fields[d];
    const tsr_column low = {.values = box[d].low, .constant = true}, high = {.values = box[d].high, .constant = true};
    TSR_TRY(tsr__check_coordinates(w->schema, d, &low, NULL, 1, error));
    TSR_TRY(tsr__check_coordinates(w->schema, d, &high, NULL, 1, error));
    if (tsr__key(field->datatype, box[d].low) > tsr__key(field->datatype, box[d].high))
      return tsr__fail(error, TSR_RANGE, "dimension '%s': the box is empty", field->name);
  }
  for (uint64_t i = 0; i < w->boxes; i++) {
    bool meet = true;
    for (uint32_t d = 0; d < w->schema->dimension_count && meet; d++) {
      tsr_datatype datatype = w->schema->fields[d].datatype;
      const tsr_interval *other = &piece_at(w, i)->box[d];
      meet = tsr__key(datatype, box[d].low) <= tsr__key(datatype, other->high) &&
             tsr__key(datatype, box[d].high) >= tsr__key(datatype, other->low);
    }
    if (meet) return tsr__fail(error, TSR_ERROR, "the box overlaps another one of the same commit");
  }
  return TSR_OK;
}

static int writer_write_box(tsr_writer *w, const tsr_interval *box, bool array_order, const tsr_column *columns,
                            tsr_error *error) {
  uint64_t cells = 0;
  tsr_interval *copy;
  writer_piece *made = NULL;
  TSR_TRY(writer_check_box(w, box, error));
  TSR_TRY(tsr__box_cells(w->schema, box, &w->memory, &cells, error));
  for (uint32_t f = w->schema->dimension_count; f < w->field_count; f++) {
    TSR_TRY(tsr__check_nulls(&w->schema->fields[f], &columns[f], NULL, cells, error));
    TSR_TRY(tsr__check_scaled(w->schema, f, &columns[f], NULL, cells, error));
  }
  TSR_TRY(TSR_ARENA_COPY(&w->arena, box, w->schema->dimension_count * sizeof *box, &copy, error));
  TSR_TRY(new_piece(w, &made, error));
  made->box = copy;
  changed(w);
  tsr_path p = tsr__path_of(tsr__writer_fragments(w), made->name, "");
  tsr_fragment_target target = tsr__writer_target(w, p.text, copy);
  tsr_work work;
  tsr_work_begin(w->array->environment, &work, "write", w->array->path, cells);
  int rc = tsr__write_dense(&target, array_order, columns, error);
  tsr_work_end(w->array->environment, &work);
  if (rc < 0) {
    tsr_error ignored;
    (void)remove_pieces(w, piece_count(w) - 1, &ignored);
  } else {
    w->boxes++;
  }
  return rc;
}

int tsr__writer_add_piece(tsr_writer *writer, const tsr_interval *box, tsr_piece_writer write, void *argument,
                          tsr_error *error) {
  tsr_writer *w = writer;
  tsr_interval *copy;
  writer_piece *made = NULL;
  TSR_TRY(TSR_ARENA_COPY(&w->arena, box, w->schema->dimension_count * sizeof *box, &copy, error));
  TSR_TRY(new_piece(w, &made, error));
  made->box = copy;
  changed(w);
  tsr_path p = tsr__path_of(tsr__writer_fragments(w), made->name, "");
  const tsr_fragment_target target = tsr__writer_target(w, p.text, copy);
  TSR_TRY(write(argument, &target, error)); /* what is left is removed with the other pieces */
  w->boxes++;
  return TSR_OK;
}

int tsr_writer_append_box(tsr_writer *writer, const tsr_interval *box, bool array_order, const tsr_column *columns,
                          tsr_error *error) {
  TSR_OWN_ERROR(error);
  int rc = TSR_OK;
  if (writer->published) rc = tsr__fail(error, TSR_ERROR, "the writer has published its commit");
  else if (!writer->schema->dense) rc = tsr__fail(error, TSR_ERROR, "boxes can be appended to dense arrays only");
  else rc = writer_write_box(writer, box, array_order, columns, error);
  return wrapped(writer, rc, error);
}

/* ---- The present ------------------------------------------------------------------------------------------------- */

/* Opens the array's present state, whatever the transaction sees. The listing is not frozen, so that the time of the
 * commit is chosen later than everything that it shows. */
static int writer_open_present(void *argument, tsr_snapshot **snapshot, tsr_error *error) {
  tsr_writer *w = argument;
  const uint64_t frozen = w->array->frozen;
  w->array->frozen = 0;
  int rc = tsr__array_list(w->array, true, true, error);
  if (rc >= 0) rc = tsr_snapshot_open(w->array, w->schema, TSR_TIME_BEGIN, TSR_TIME_NOW, snapshot, error);
  w->array->frozen = frozen;
  return rc;
}

/* ---- Cells of a dense array -------------------------------------------------------------------------------------- */

typedef struct spilled { /* spilled cells whose boxes are looked for */
  tsr_writer *w;
  tsr_buffer runs; /* tsr_sorted_run in the array's order, with each coordinate once */
} spilled;

static const tsr_sorted_run *runs_of(const spilled *s) { return (const tsr_sorted_run *)(const void *)s->runs.data; }
static uint64_t writer_run_count(const spilled *s) { return s->runs.size / sizeof(tsr_sorted_run); }

/* Opens the present state with the spilled cells on top. */
static int open_with_spilled(void *argument, tsr_snapshot **snapshot, tsr_error *error) {
  const spilled *s = argument;
  tsr_snapshot *present;
  TSR_TRY(writer_open_present(s->w, &present, error));
  const int rc = tsr__transaction_view_stack(s->w, present, false, runs_of(s), writer_run_count(s), snapshot, error);
  tsr_snapshot_close(present);
  return rc;
}

static int write_one(tsr_writer *w, tsr_boxes *boxes, uint64_t index, tsr_error *error) {
  const tsr_interval *box = tsr__boxes_box(boxes, index);
  writer_piece *made = NULL;
  TSR_TRY(new_piece(w, &made, error));
  tsr_path p = tsr__path_of(tsr__writer_fragments(w), made->name, "");
  tsr_fragment_target target = tsr__writer_target(w, p.text, box);
  return tsr__boxes_write(boxes, index, &target, error); /* what is left is removed with the other pieces */
}

/* Writes the boxes of the cells in memory, or of spilled cells. */
static int write_boxes(tsr_writer *w, const tsr_column *columns, spilled *s, tsr_snapshot *alone, tsr_error *error) {
  tsr_boxes *boxes = NULL;
  const tsr_boxes_source source = {.schema = w->schema,
                                   .columns = columns,
                                   .count = w->count,
                                   .spilled = alone,
                                   .most = !layout_has_commits_folder(w->version) ? 1 : TSR_BOXES_MAX,
                                   .open_snapshot = w->part ? NULL
                                                    : alone ? open_with_spilled
                                                            : writer_open_present,
                                   .argument = alone ? (void *)s : w,
                                   .memory = &w->memory,
                                   .threads = w->threads};
  int rc = tsr__boxes_open(&source, &boxes, error);
  for (uint64_t i = 0; rc >= 0 && i < tsr__boxes_count(boxes); i++) rc = write_one(w, boxes, i, error);
  tsr__boxes_close(boxes);
  return rc;
}

static int write_in_memory(tsr_writer *w, tsr_error *error) {
  tsr_column *columns;
  TSR_TRY(TSR_ALLOC_ARRAY(&w->memory, w->field_count, &columns, error));
  for (uint32_t f = 0; f < w->field_count; f++) tsr_writer_column(w, f, columns + f);
  const int rc = write_boxes(w, columns, NULL, NULL, error);
  tsr__free(columns);
  return rc;
}

/* Writes the boxes of runs on disk, which are brought into one order first. The cells in memory become one more run. */
static int write_from_disk(tsr_writer *w, tsr_error *error) {
  spilled s = {.w = w, .runs.memory = &w->memory};
  tsr_snapshot *present = NULL, *alone = NULL;
  TSR_TRY(tsr__spill(w, error));
  int rc = tsr__spill_join(w, &s.runs, error);
  if (rc >= 0) rc = writer_open_present(w, &present, error);
  if (rc >= 0) rc = tsr__transaction_view_stack(w, present, true, runs_of(&s), writer_run_count(&s), &alone, error);
  if (rc >= 0) rc = write_boxes(w, NULL, &s, alone, error);
  tsr_snapshot_close(alone);
  tsr_snapshot_close(present);
  for (uint64_t i = 0; i < writer_run_count(&s); i++) tsr__array_fragment_drop(w->array, runs_of(&s)[i].fragment);
  tsr__buffer_release(&s.runs);
  return rc;
}

static int writer_write_dense(tsr_writer *w, tsr_error *error) {
  tsr_error trouble = {0};
  if (!w->count) return TSR_OK;
  if (w->spilled) return write_from_disk(w, error);
  const int rc = write_in_memory(w, &trouble);
  if (rc != TSR_BUDGET) {
    if (rc < 0) *error = trouble;
    return rc;
  }
  TSR_TRY(remove_pieces(w, w->boxes, error)); /* the cells themselves may leave memory */
  return write_from_disk(w, error);
}

/* ---- Marks ------------------------------------------------------------------------------------------------------- */

void tsr_writer_keep(tsr_writer *writer, bool keep) { writer->kept = keep; }

tsr_mark tsr_writer_mark(const tsr_writer *writer) {
  return (tsr_mark){.cells = writer->count, .removed = writer->removed.count, .boxes = writer->boxes};
}

bool tsr_writer_changed(const tsr_writer *writer) {
  return writer->count > 0 || writer->removed.count > 0 || writer->boxes > 0;
}

static int writer_rewind_to(tsr_writer *w, tsr_mark mark, tsr_error *error) {
  const tsr_mark now = tsr_writer_mark(w);
  if (mark.cells > now.cells || mark.removed > now.removed || mark.boxes > now.boxes)
    return tsr__fail(error, TSR_ERROR, "rewind to %llu cells of %llu, %llu boxes of %llu",
                     (unsigned long long)mark.cells, (unsigned long long)now.cells, (unsigned long long)mark.boxes,
                     (unsigned long long)now.boxes);
  if (mark.cells == now.cells && mark.removed == now.removed && mark.boxes == now.boxes) return TSR_OK;
  changed(w);
  if (mark.boxes < now.boxes) {
    w->boxes = mark.boxes;
    TSR_TRY(remove_pieces(w, mark.boxes, error));
  }
  if (mark.cells < now.cells) tsr__need_take(w, TSR_MAX(mark.cells, w->first) - w->first, now.cells - w->first);
  tsr__transaction_view_rewind(w, mark.cells);
  tsr__spill_rewind(w, mark.cells);
  tsr__index_rewind(w, mark.cells);
  tsr__removed_rewind(w, mark.removed);
  if (mark.cells < now.cells) truncate_columns(w, mark.cells);
  return TSR_OK;
}

int tsr_writer_rewind(tsr_writer *writer, tsr_mark mark, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (writer->published) return TSR_OK;
  return wrapped(writer, writer_rewind_to(writer, mark, error), error);
}

/* ---- Time -------------------------------------------------------------------------------------------------------- */

/* Chooses a time later than all that this environment has prepared, and than all that is committed and does not lie in
 * the future. */
static int writer_choose_time(tsr_writer *w, uint64_t more, tsr_error *error) {
  if (w->asked_time) {
    w->time = w->asked_time;
    return TSR_OK;
  }
  const uint64_t now = tsr__environment_now();
  uint64_t last = 0;
  const tsr_commit_list *lists[] = {&w->array->listing->fragments, &w->array->listing->deletes};
  for (int l = 0; l < 2; l++)
    for (uint64_t i = 0; i < lists[l]->count; i++) {
      const uint64_t end = lists[l]->items[i].parsed.end;
      if (end <= now) last = TSR_MAX(last, end);
    }
  return tsr__environment_time(w->array->environment, last, more, &w->time, error);
}

/* ---- Prepare ----------------------------------------------------------------------------------------------------- */

typedef struct commit_name {
  char text[128];
} commit_name;

typedef struct preparation {
  tsr_writer *w;
  tsr_snapshot *present; /* the array's present state, for commits that remove rows */
  tsr_deletes deletes;
  commit_name *names; /* of the pieces, then of the conditions */
  uint64_t name_count;
} preparation;

static int writer_new_name(const tsr_writer *w, uint64_t start, uint64_t end, char *text, tsr_error *error) {
  uint8_t random[16];
  tsr_name name;
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(start, end, !layout_has_commit_files(w->version) ? 0 : w->version, &name, random));
  tsr__name_print(&name, text);
  return TSR_OK;
}

/* Returns 1 if row `i` of the log must become part of a condition: it is committed or hides a committed row, and no
 * uncommitted cell that stays has its coordinates. Else 0. */
static int must_delete(const preparation *p, const tsr_column *coordinates, uint64_t i, tsr_error *error) {
  tsr_writer *w = p->w;
  const int64_t row = (int64_t)tsr__load64(w->removed.rows.data + 8 * i);
  uint64_t number;
  int64_t found;
  if (w->schema->allows_duplicates) return row >= 0;
  int rc = tsr__find_uncommitted(w, coordinates, i, &number, error);
  if (rc < 0) return rc;
  const bool in_memory = rc > 0;
  if (in_memory && !tsr__writer_hides(w, tsr__uncommitted_rowid(number), w->removed.count)) return 0;
  if (row >= 0 && (in_memory || w->spilled == 0)) return 1;
  rc = tsr__find_elsewhere(w, p->present, coordinates, i, true, &found, error);
  if (rc <= 0) return rc < 0 ? rc : row >= 0;
  if (!in_memory && found < 0 && !tsr__writer_hides(w, found, w->removed.count)) return 0;
  return 1;
}

static int choose_deletes(preparation *p, const tsr_column *coordinates, uint32_t *selection, uint64_t *count,
                          tsr_error *error) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < p->w->removed.count; i++) {
    const int rc = must_delete(p, coordinates, i, error);
    if (rc < 0) return rc;
    selection[kept] = (uint32_t)i;
    kept += rc > 0;
  }
  *count = kept;
  return TSR_OK;
}

static int make_deletes(preparation *p, tsr_error *error) {
  tsr_writer *w = p->w;
  tsr_column coordinates[TSR_MAX_DIMENSIONS];
  uint32_t *selection;
  uint64_t count = 0;
  if (w->removed.count == 0) return TSR_OK;
  if (w->removed.count > UINT32_MAX)
    return tsr__fail(error, TSR_TOOBIG, "%llu rows are deleted at once: %u at most",
                     (unsigned long long)w->removed.count, UINT32_MAX);
  TSR_TRY(writer_open_present(w, &p->present, error));
  for (uint32_t d = 0; d < w->schema->dimension_count; d++)
    coordinates[d] = tsr__buffered_column(&w->schema->fields[d], &w->removed.coordinates[d], 0);
  TSR_TRY(TSR_ALLOC_RAW(&w->memory, w->removed.count, &selection, error));
  int rc = choose_deletes(p, coordinates, selection, &count, error);
  if (rc >= 0 && count > 0 && w->schema->allows_duplicates)
    rc = tsr__deletes_check(p->present, coordinates, (const int64_t *)(const void *)w->removed.rows.data, selection,
                            count, &w->memory, w->threads, error);
  if (rc >= 0 && count > 0)
    rc = tsr__deletes_make(w->schema, w->version, tsr__array_key(w->array), coordinates, selection, count, &w->memory,
                           &p->deletes, error);
  tsr__free(selection);
  return rc;
}

static uint64_t carried_count(const tsr_writer *w) {
  uint64_t count = 0;
  for (uint64_t i = 0; w->carried && i < w->carried->count; i++)
    count += w->carried->commits[i].kind == TSR_COMMIT_DELETE;
  return count;
}

static bool writer_is_list(const preparation *p) {
  const tsr_writer *w = p->w;
  return p->name_count > 1 || carried_count(w) > 0 || (w->listed && layout_has_commits_folder(w->version));
}

/* Chooses the names of all fragments and conditions, and of the commit. */
static int writer_choose_names(preparation *p, tsr_error *error) {
  tsr_writer *w = p->w;
  const uint64_t pieces = piece_count(w), count = pieces + p->deletes.count;
  const uint64_t more = w->schema->allows_duplicates && pieces > 0 && p->deletes.count > 0;
  char name[128];
  TSR_TRY(TSR_ALLOC_ARRAY(&w->memory, count, &p->names, error));
  p->name_count = count;
  TSR_TRY(tsr__array_list(w->array, true, true, error));
  TSR_TRY(writer_choose_time(w, more, error));
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t time = i < pieces ? w->time + more : w->time;
    TSR_TRY(writer_new_name(w, time, time, p->names[i].text, error));
  }
  if (writer_is_list(p)) {
    TSR_TRY(writer_new_name(w, w->time, w->time + more, name, error));
    snprintf(w->commit, sizeof w->commit, TSR_DIR_COMMITS "/%.120s" TSR_SUFFIX_CONSOLIDATED, name);
  } else if (pieces == 0) {
    snprintf(w->commit, sizeof w->commit, TSR_DIR_COMMITS "/%.120s" TSR_SUFFIX_DELETE, p->names[0].text);
  } else {
    const char *only = p->names[0].text;
    if (layout_has_commits_folder(w->version))
      snprintf(w->commit, sizeof w->commit, TSR_DIR_COMMITS "/%.120s" TSR_SUFFIX_WRITE, only);
    else if (layout_has_commit_files(w->version))
      snprintf(w->commit, sizeof w->commit, "%.120s" TSR_SUFFIX_OLD_WRITE, only);
    else snprintf(w->commit, sizeof w->commit, "%.120s/" TSR_FILE_FRAGMENT_METADATA, only);
  }
  return TSR_OK;
}

/* Writes the marker, before anything gets a name that others could look at. Below format version 12 the marker lies in
 * the fragment's directory, which still has its provisional name. */
static int mark_pending(const preparation *p, tsr_error *error) {
  tsr_writer *w = p->w;
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  const char **names;
  if (!w->owner) return TSR_OK;
  tsr__pending_paths(w->commit, marker, staged);
  if (!layout_has_commits_folder(w->version))
    snprintf(marker, sizeof marker, "%.120s/" TSR_FILE_OLD_PENDING, piece_at(w, 0)->name);
  TSR_TRY(TSR_ALLOC_ARRAY(&w->memory, p->name_count, &names, error));
  const char **fragments = names;
  for (uint64_t i = 0; i < piece_count(w); i++) fragments[i] = p->names[i].text;
  const tsr_pending pending = {.commit = w->commit,
                               .owner = w->owner,
                               .file = w->owner_file ? w->owner_file : "",
                               .fragment_count = piece_count(w),
                               .fragments = fragments};
  unlock_marker(w);
  int rc = tsr__pending_mark(w->array->store, marker, &pending, w->durable, w->threads, &w->lock, error);
  tsr__free(names);
  return rc;
}

static int name_pieces(const preparation *p, tsr_error *error) {
  tsr_writer *w = p->w;
  for (uint64_t i = 0; i < piece_count(w); i++) {
    writer_piece *one = piece_at(w, i);
    const char *name = p->names[i].text;
    tsr_path from = tsr__path_of(tsr__writer_fragments(w), one->name, ""),
             to = tsr__path_of(tsr__writer_fragments(w), name, "");
    TSR_TRY(tsr__store_rename_exclusive(w->array->store, from.text, to.text, error));
    memcpy(one->name, name, sizeof one->name);
  }
  if (!w->durable || !piece_count(w)) return TSR_OK;
  return tsr__store_sync_directory(w->array->store, layout_fragments_folder(w->version), error);
}

/* Makes the content of a .del or .con file. */
static int encode_commit(const preparation *p, tsr_buffer *content, tsr_error *error) {
  const tsr_writer *w = p->w;
  const uint64_t pieces = piece_count(w);
  const uint64_t *ends = (const uint64_t *)(const void *)p->deletes.ends.data;
  if (!writer_is_list(p)) return tsr__buffer_append(content, p->deletes.bytes.data, p->deletes.bytes.size, error);
  for (uint64_t i = 0; i < pieces; i++) TSR_TRY(tsr__commits_encode_write(p->names[i].text, content, error));
  for (uint64_t i = 0; i < p->deletes.count; i++) {
    const uint64_t from = i ? ends[i - 1] : 0;
    TSR_TRY(tsr__commits_encode_delete(p->names[pieces + i].text, p->deletes.bytes.data + from, ends[i] - from, content,
                                       error));
  }
  for (uint64_t i = 0; w->carried && i < w->carried->count; i++) {
    const tsr_commit *one = &w->carried->commits[i];
    if (one->kind == TSR_COMMIT_DELETE)
      TSR_TRY(tsr__commits_encode_delete(one->name, one->bytes, one->size, content, error));
  }
  return TSR_OK;
}

static int write_staged(const preparation *p, tsr_error *error) {
  tsr_writer *w = p->w;
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  tsr_buffer content = {.memory = &w->memory};
  tsr_file *file = NULL;
  tsr__pending_paths(w->commit, marker, staged);
  if (!*staged || !layout_has_commits_folder(w->version)) return TSR_OK;
  int rc = encode_commit(p, &content, error);
  if (rc >= 0) rc = make_if_absent(w, TSR_DIR_COMMITS, error);
  if (rc >= 0) rc = tsr__store_create_exclusive(w->array->store, staged, &file, error);
  if (rc >= 0) rc = tsr__store_append(file, content.data, content.size, error);
  if (rc >= 0 && w->durable) rc = tsr__store_sync(file, error);
  tsr__store_close_file(file);
  tsr__buffer_release(&content);
  return rc;
}

/* Schemas are never removed: if the schema of the cells has gone, another array has taken the array's path. Below
 * format version 10 all schemas have one name, which tells nothing. */
static int writer_check_schema(const tsr_writer *w, tsr_error *error) {
  char directory[TSR_PENDING_PATH], file[2 * TSR_PENDING_PATH];
  bool exists = false;
  if (!strcmp(w->schema->name, TSR_FILE_OLD_SCHEMA)) return TSR_OK;
  if (w->array->pending) {
    tsr__pending_path(w->array->pending, directory);
    snprintf(file, sizeof file, "%s/%s", directory, w->schema->name);
    TSR_TRY(tsr__store_find(w->array->store, file, &exists, error));
  }
  snprintf(file, sizeof file, TSR_DIR_SCHEMA "/%s", w->schema->name);
  if (!exists) TSR_TRY(tsr__store_find(w->array->store, file, &exists, error));
  if (exists) return TSR_OK;
  return tsr__fail(error, TSR_ERROR, "it has been replaced by another array: open it again");
}

/* Gives the pieces that stay provisional names again, before the marker and the commit that know them by their old
 * names go: the present names tell the time of a commit that failed. */
static int take_names_back(tsr_writer *w, tsr_error *error) {
  for (uint64_t i = 0; i < piece_count(w); i++) {
    writer_piece *one = piece_at(w, i);
    char name[128];
    if (*one->name == '.') continue;
    TSR_TRY(provisional_name(name, error));
    tsr_path from = tsr__path_of(tsr__writer_fragments(w), one->name, ""),
             to = tsr__path_of(tsr__writer_fragments(w), name, "");
    TSR_TRY(tsr__store_rename_exclusive(w->array->store, from.text, to.text, error));
    memcpy(one->name, name, sizeof one->name);
    if (layout_has_commits_folder(w->version)) continue;
    tsr_path marker = tsr__path_of(to.text, TSR_FILE_OLD_PENDING, "");
    TSR_TRY(tsr__pending_unmark(w->array->store, marker.text, error)); /* it was moved with the fragment */
  }
  return TSR_OK;
}

/* If a commit failed and is tried again, its sparse fragment stays as it is. Delete conditions are made again, since
 * others may have written meanwhile; so are the boxes of dense cells, which may repeat cells of others. */
static int prepare_all(preparation *p, tsr_error *error) {
  tsr_writer *w = p->w;
  const bool reuse = w->reusable && !w->schema->dense;
  if (!reuse) TSR_TRY(remove_pieces(w, w->boxes, error));
  TSR_TRY(take_names_back(w, error));
  TSR_TRY(writer_remove_commit(w, error)); /* removes the marker, after all that it names */
  w->reusable = false;
  if (!reuse) TSR_TRY(w->schema->dense ? writer_write_dense(w, error) : writer_write_sparse(w, error));
  TSR_TRY(make_deletes(p, error));
  if (piece_count(w) + p->deletes.count + carried_count(w) > 0) {
    TSR_TRY(writer_check_schema(w, error));
    TSR_TRY(writer_choose_names(p, error));
    TSR_TRY(write_staged(p, error)); /* becomes durable with the marker, which syncs the directory */
    TSR_TRY(mark_pending(p, error));
    TSR_TRY(name_pieces(p, error));
  }
  w->prepared = true;
  return TSR_OK;
}

static int writer_prepare(tsr_writer *w, tsr_error *error) {
  if (w->published) return tsr__fail(error, TSR_ERROR, "the writer has published its commit");
  if (w->prepared) return TSR_OK;
  preparation p = {.w = w};
  tsr_work work;
  p.deletes.bytes.memory = p.deletes.ends.memory = &w->memory;
  tsr_work_begin(w->array->environment, &work, "commit", w->array->path, w->count);
  tsr__need_lend(w, true);
  int rc = prepare_all(&p, error);
  tsr_work_end(w->array->environment, &work);
  tsr__deletes_release(&p.deletes);
  tsr__free(p.names);
  tsr__index_release(w); /* it holds the present state */
  tsr_snapshot_close(p.present);
  tsr__need_lend(w, false);
  return rc;
}

int tsr_writer_prepare(tsr_writer *writer, tsr_error *error) {
  TSR_OWN_ERROR(error);
  return wrapped(writer, writer_prepare(writer, error), error);
}

uint64_t tsr_writer_fragment_count(const tsr_writer *writer) { return piece_count(writer); }
const char *tsr_writer_fragment(const tsr_writer *writer, uint64_t index) { return piece_at(writer, index)->name; }
uint64_t tsr_writer_time(const tsr_writer *writer) { return writer->time; }
const char *tsr_writer_commit(const tsr_writer *writer) { return writer->commit; }

/* ---- Publish ----------------------------------------------------------------------------------------------------- */

/* Returns 1 if the commit is published. Without locks, another process of the same owner may have published it, and
 * others may have merged and removed it since. `gone`: the prepared files do not exist, so a merged fragment that spans
 * the commit counts as one that has its cells. */
static int writer_is_published(tsr_writer *w, bool gone, tsr_error *error) {
  tsr_published published;
  const char **names;
  TSR_TRY(TSR_ALLOC_ARRAY(&w->memory, piece_count(w) + 1, &names, error));
  const char **fragments = names;
  for (uint64_t i = 0; i < piece_count(w); i++) fragments[i] = piece_at(w, i)->name;
  const tsr_pending pending = {.commit = w->commit, .fragment_count = piece_count(w), .fragments = fragments};
  int rc = tsr__published_open(w->array, &published, error);
  if (rc >= 0) {
    rc = tsr__published_has(&published, &pending, error);
    if (rc == 0 && gone) rc = tsr__listing_took_up(w->array->listing, &pending);
    tsr__published_release(&published);
  }
  tsr__free(names);
  return rc;
}

static int writer_publish(tsr_writer *w, tsr_error *error) {
  tsr_store *store = w->array->store;
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  if (w->published) return TSR_OK;
  if (!w->prepared) return tsr__fail(error, TSR_ERROR, "the commit was not prepared");
  if (*w->commit) {
    if (w->owner_file && w->durable) TSR_TRY(tsr__pending_settle(&w->memory, w->owner_file, error));
    const int before = w->owner && !w->lock ? writer_is_published(w, false, error) : 0;
    if (before < 0) return before;
    const int rc = before ? 1 : tsr__pending_publish(store, w->commit, w->durable, error);
    if (rc < 0 && !tsr__store_exists(store, w->commit)) return rc;
    bool exists = rc != 0;
    if (!exists) TSR_TRY(tsr__store_find(store, w->commit, &exists, error));
    if (!exists) {
      const int published = w->owner ? writer_is_published(w, true, error) : 0;
      if (published < 0) return published;
      if (published == 0) {
        (void)tsr__pending_fail_gone(w->commit, error);
        return error->code = TSR_NOT_FOUND; /* no other failure has this code: the caller tells the loss by it */
      }
    }
    w->published = true;
    if (rc < 0) return rc; /* the commit is visible, but may not last, or others may miss its deletes */
    tsr__pending_paths(w->commit, marker, staged);
    if (w->owner) TSR_TRY(tsr__pending_unmark(store, marker, error));
    unlock_marker(w);
  }
  w->published = true;
  return TSR_OK;
}

/* A savepoint may undo changes to an array in the database, so nothing of such an array is reused. */
void tsr_writer_reopen(tsr_writer *writer) {
  const bool reusable = writer->prepared && !writer->published && !writer->array->store->is_one_file;
  writer->reopened |= writer->published;
  writer->reusable |= reusable;
  writer->published = writer->prepared = false;
}

int tsr_writer_publish(tsr_writer *writer, tsr_error *error) {
  TSR_OWN_ERROR(error);
  return wrapped(writer, writer_publish(writer, error), error);
}
