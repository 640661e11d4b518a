/* write_pieces.c: writes the cells of a commit as fragments on disk, under provisional names.
 *
 * Cells of a sparse array become one fragment: from memory, or merged from runs on disk. Cells of a dense array become
 * a fragment for each box that they form (write_boxes.c). The caller may also append whole boxes. If memory is short,
 * the cells in memory are spilled first, and all are written from runs on disk.
 *
 * Invariant: each piece in the list has a directory on disk, so that it is removed if anything fails. */
#include "write/write_pieces.h"

#include <string.h>

#include "model/datatype.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/listing.h"
#include "array/snapshot.h"
#include "read/reader.h"
#include "write/provisional.h"
#include "write/write_boxes.h"
#include "write/write_boxes_fill.h"
#include "write/write_dense.h"
#include "write/write_sparse.h"
#include "write/writer.h"

/* ---- Pieces ----------------------------------------------------------------------------------------------------- */

/* Makes a directory and lists it in `pieces`, so that it is removed if anything fails. */
static int new_piece(tsr_writer *w, tsr_piece **made, tsr_error *error) {
  tsr_piece one = {.name = "."};
  TSR_TRY(tsr__buffer_reserve(&w->commit.pieces, sizeof one, error));
  TSR_TRY(tsr__provisional_directory(w, NULL, one.name, error));
  TSR_TRY(tsr__buffer_append(&w->commit.pieces, &one, sizeof one, error));
  *made = tsr__piece_at(&w->commit, tsr__piece_count(&w->commit) - 1);
  return TSR_OK;
}

int tsr__pieces_remove(tsr_writer *writer, uint64_t from, tsr_error *error) {
  tsr_writer *w = writer;
  while (tsr__piece_count(&w->commit) > from) {
    tsr_path p = tsr__writer_path(w, tsr__piece_at(&w->commit, tsr__piece_count(&w->commit) - 1)->name);
    TSR_TRY(tsr__store_remove_tree(w->array->store, p.text, error));
    w->commit.pieces.size -= sizeof(tsr_piece);
  }
  return TSR_OK;
}

/* ---- Cells of a sparse array ------------------------------------------------------------------------------------ */

/* Leaves removed cells out of the order; returns how many cells are left. */
static uint64_t leave_out_removed(const tsr_writer *w, uint32_t *order, uint64_t count) {
  uint64_t kept = 0;
  if (w->removed.own == 0) return count;
  for (uint64_t i = 0; i < count; i++) {
    order[kept] = order[i];
    kept += !tsr__removed_has(&w->removed, tsr__uncommitted_rowid(w->cells.first + order[i]), w->removed.count);
  }
  return kept;
}

static int write_piece(tsr_writer *w, const tsr_column *columns, const uint32_t *order, uint64_t count,
                       tsr_error *error) {
  tsr_piece *made = NULL;
  TSR_TRY(new_piece(w, &made, error));
  tsr_path p = tsr__writer_path(w, made->name);
  tsr_fragment_target target = tsr__provisional_target(w, p.text, NULL);
  int rc = tsr__write_ordered(&target, columns, order, count, error);
  if (rc < 0) {
    tsr_error ignored;
    (void)tsr__pieces_remove(w, tsr__piece_count(&w->commit) - 1, &ignored);
  }
  return rc;
}

/* Merges the runs on disk. The cells in memory become one more run first. */
static int write_spilled(tsr_writer *w, tsr_error *error) {
  tsr_piece *made = NULL;
  uint64_t cells = 0;
  TSR_TRY(tsr__spill(w, error));
  TSR_TRY(new_piece(w, &made, error));
  tsr_path p = tsr__writer_path(w, made->name);
  tsr_fragment_target target = tsr__provisional_target(w, p.text, NULL);
  TSR_TRY(tsr__spill_merge(w, &target, &cells, error)); /* after an error the files are removed with the other pieces */
  return cells > 0 ? TSR_OK : tsr__pieces_remove(w, tsr__piece_count(&w->commit) - 1, error);
}

static int write_from_memory(tsr_writer *w, tsr_error *error) {
  tsr_column *columns = NULL;
  uint32_t *order = NULL;
  uint64_t count = tsr__writer_in_memory(w);
  TSR_TRY(TSR_ALLOC_ARRAY(&w->memory, w->field_count, &columns, error));
  for (uint32_t f = 0; f < w->field_count; f++) tsr_writer_column(w, f, columns + f);
  int rc = TSR_ALLOC_RAW(&w->memory, count, &order, error);
  if (rc >= 0) {
    const tsr_order_ahead ahead = tsr__ahead_blocks(w);
    rc = tsr__order_cells(w->schema, columns, &w->memory, w->threads, &ahead, order, &count, error);
    if (rc < 0) rc = tsr__wrap(error, "sorting cells");
  }
  if (rc >= 0) tsr__ahead_rewind(w, 0); /* frees memory for writing */
  if (rc >= 0) count = leave_out_removed(w, order, count);
  if (rc >= 0 && count > 0) rc = write_piece(w, columns, order, count, error);
  tsr__free(order);
  tsr__free(columns);
  return rc;
}

static int write_pieces_sparse(tsr_writer *w, tsr_error *error) {
  tsr_error trouble = {0};
  if (w->runs.spilled) return write_spilled(w, error);
  if (w->cells.count == w->cells.first) return TSR_OK;
  const int rc = write_from_memory(w, &trouble);
  if (rc == TSR_BUDGET) return write_spilled(w, error); /* the cells themselves may leave memory */
  if (rc < 0) *error = trouble;
  return rc;
}

/* ---- Boxes ------------------------------------------------------------------------------------------------------- */

static int write_pieces_check_box(const tsr_writer *w, const tsr_interval *box, tsr_error *error) {
  if (w->cells.count > 0) return tsr__fail(error, TSR_ERROR, "a commit has boxes or single cells, not both");
  if (w->commit.boxes && !layout_has_commits_folder(w->version))
    return tsr__fail(error, TSR_UNSUPPORTED, "format version %u commits one box at a time", w->version);
  for (uint32_t d = 0; d < w->schema->dimension_count; d++) {
    const tsr_field *field = &w->schema->fields[d];
    const tsr_column low = {.values = box[d].low, .constant = true}, high = {.values = box[d].high, .constant = true};
    TSR_TRY(tsr__check_coordinates(w->schema, d, &low, NULL, 1, error));
    TSR_TRY(tsr__check_coordinates(w->schema, d, &high, NULL, 1, error));
    if (tsr__key(field->datatype, box[d].low) > tsr__key(field->datatype, box[d].high))
      return tsr__fail(error, TSR_RANGE, "dimension '%s': the box is empty", field->name);
  }
  for (uint64_t i = 0; i < w->commit.boxes; i++) {
    bool meet = true;
    for (uint32_t d = 0; d < w->schema->dimension_count && meet; d++) {
      tsr_datatype datatype = w->schema->fields[d].datatype;
      const tsr_interval *other = &tsr__piece_at(&w->commit, i)->box[d];
      meet = tsr__key(datatype, box[d].low) <= tsr__key(datatype, other->high) &&
             tsr__key(datatype, box[d].high) >= tsr__key(datatype, other->low);
    }
    if (meet) return tsr__fail(error, TSR_ERROR, "the box overlaps another one of the same commit");
  }
  return TSR_OK;
}

static int write_appended_box(tsr_writer *w, const tsr_interval *box, bool array_order, const tsr_column *columns,
                              tsr_error *error) {
  uint64_t cells = 0;
  tsr_interval *copy;
  tsr_piece *made = NULL;
  TSR_TRY(write_pieces_check_box(w, box, error));
  TSR_TRY(tsr__box_cells(w->schema, box, &w->memory, &cells, error));
  for (uint32_t f = w->schema->dimension_count; f < w->field_count; f++) {
    TSR_TRY(tsr__check_nulls(&w->schema->fields[f], &columns[f], NULL, cells, error));
    TSR_TRY(tsr__check_scaled(w->schema, f, &columns[f], NULL, cells, error));
  }
  TSR_TRY(TSR_ARENA_COPY(&w->arena, box, w->schema->dimension_count * sizeof *box, &copy, error));
  TSR_TRY(new_piece(w, &made, error));
  made->box = copy;
  tsr__commit_outdate(&w->commit);
  tsr_path p = tsr__writer_path(w, made->name);
  tsr_fragment_target target = tsr__provisional_target(w, p.text, copy);
  tsr_work work;
  tsr_work_begin(w->array->environment, &work, "write", w->array->path, cells);
  int rc = tsr__write_dense(&target, array_order, columns, error);
  tsr_work_end(w->array->environment, &work);
  if (rc < 0) {
    tsr_error ignored;
    (void)tsr__pieces_remove(w, tsr__piece_count(&w->commit) - 1, &ignored);
  } else {
    w->commit.boxes++;
  }
  return rc;
}

int tsr__pieces_add_box(tsr_writer *writer, const tsr_interval *box, tsr_piece_writer write, void *argument,
                        tsr_error *error) {
  tsr_writer *w = writer;
  tsr_interval *copy;
  tsr_piece *made = NULL;
  TSR_TRY(TSR_ARENA_COPY(&w->arena, box, w->schema->dimension_count * sizeof *box, &copy, error));
  TSR_TRY(new_piece(w, &made, error));
  made->box = copy;
  tsr__commit_outdate(&w->commit);
  tsr_path p = tsr__writer_path(w, made->name);
  const tsr_fragment_target target = tsr__provisional_target(w, p.text, copy);
  TSR_TRY(write(argument, &target, error)); /* after an error the files are removed with the other pieces */
  w->commit.boxes++;
  return TSR_OK;
}

int tsr_writer_append_box(tsr_writer *writer, const tsr_interval *box, bool array_order, const tsr_column *columns,
                          tsr_error *error) {
  TSR_OWN_ERROR(error);
  int rc = tsr__writer_check_open(writer, error);
  if (rc >= 0 && !writer->schema->dense) rc = tsr__fail(error, TSR_ERROR, "boxes can be appended to dense arrays only");
  if (rc >= 0) rc = write_appended_box(writer, box, array_order, columns, error);
  return tsr__writer_wrap(writer, rc, error);
}

/* ---- The array's present state ---------------------------------------------------------------------------------- */

/* The listing is not frozen, so that the time of the commit is chosen later than everything in the snapshot. */
int tsr__pieces_open_present(void *argument, tsr_snapshot **snapshot, tsr_error *error) {
  tsr_writer *w = argument;
  const uint64_t frozen = w->array->snapshots.frozen;
  w->array->snapshots.frozen = 0;
  int rc = tsr__array_list(w->array, true, true, error);
  if (rc >= 0) rc = tsr_snapshot_open(w->array, w->schema, TSR_TIME_BEGIN, TSR_TIME_NOW, snapshot, error);
  w->array->snapshots.frozen = frozen;
  return rc;
}

/* ---- Cells of a dense array -------------------------------------------------------------------------------------- */

typedef struct spilled_cells { /* spilled cells whose boxes are looked for */
  tsr_writer *w;
  tsr_buffer runs; /* tsr_sorted_run in the array's order, with each coordinate once */
} spilled_cells;

static const tsr_sorted_run *runs_of(const spilled_cells *s) {
  return (const tsr_sorted_run *)(const void *)s->runs.data;
}
static uint64_t write_pieces_run_count(const spilled_cells *s) { return s->runs.size / sizeof(tsr_sorted_run); }

/* Opens the present state with the spilled cells on top. */
static int open_with_spilled(void *argument, tsr_snapshot **snapshot, tsr_error *error) {
  const spilled_cells *s = argument;
  tsr_snapshot *present;
  TSR_TRY(tsr__pieces_open_present(s->w, &present, error));
  const int rc =
      tsr__transaction_view_stack(s->w, present, false, runs_of(s), write_pieces_run_count(s), snapshot, error);
  tsr_snapshot_close(present);
  return rc;
}

static int write_found_box(tsr_writer *w, tsr_boxes *boxes, uint64_t index, tsr_error *error) {
  const tsr_interval *box = tsr__boxes_box(boxes, index);
  tsr_piece *made = NULL;
  TSR_TRY(new_piece(w, &made, error));
  tsr_path p = tsr__writer_path(w, made->name);
  tsr_fragment_target target = tsr__provisional_target(w, p.text, box);
  /* after an error the files are removed with the other pieces */
  return tsr__boxes_write(boxes, index, &target, error);
}

/* Writes the boxes of the cells in memory, or of spilled cells. */
static int write_found_boxes(tsr_writer *w, const tsr_column *columns, spilled_cells *s, tsr_snapshot *alone,
                             tsr_error *error) {
  tsr_boxes *boxes = NULL;
  const tsr_boxes_source source = {.schema = w->schema,
                                   .columns = columns,
                                   .count = w->cells.count,
                                   .spilled = alone,
                                   .most = !layout_has_commits_folder(w->version) ? 1 : TSR_BOXES_MAX,
                                   .open_snapshot = w->commit.options.part ? NULL
                                                    : alone                ? open_with_spilled
                                                                           : tsr__pieces_open_present,
                                   .argument = alone ? (void *)s : w,
                                   .memory = &w->memory,
                                   .threads = w->threads};
  int rc = tsr__boxes_open(&source, &boxes, error);
  for (uint64_t i = 0; rc >= 0 && i < tsr__boxes_count(boxes); i++) rc = write_found_box(w, boxes, i, error);
  tsr__boxes_close(boxes);
  return rc;
}

static int write_boxes_in_memory(tsr_writer *w, tsr_error *error) {
  tsr_column *columns;
  TSR_TRY(TSR_ALLOC_ARRAY(&w->memory, w->field_count, &columns, error));
  for (uint32_t f = 0; f < w->field_count; f++) tsr_writer_column(w, f, columns + f);
  const int rc = write_found_boxes(w, columns, NULL, NULL, error);
  tsr__free(columns);
  return rc;
}

/* Writes the boxes of runs on disk, which are brought into one order first. The cells in memory become one more run. */
static int write_boxes_from_disk(tsr_writer *w, tsr_error *error) {
  spilled_cells s = {.w = w, .runs.memory = &w->memory};
  tsr_snapshot *present = NULL, *alone = NULL;
  TSR_TRY(tsr__spill(w, error));
  int rc = tsr__spill_join(w, &s.runs, error);
  if (rc >= 0) rc = tsr__pieces_open_present(w, &present, error);
  if (rc >= 0)
    rc = tsr__transaction_view_stack(w, present, true, runs_of(&s), write_pieces_run_count(&s), &alone, error);
  if (rc >= 0) rc = write_found_boxes(w, NULL, &s, alone, error);
  tsr_snapshot_close(alone);
  tsr_snapshot_close(present);
  for (uint64_t i = 0; i < write_pieces_run_count(&s); i++) tsr__array_fragment_drop(w->array, runs_of(&s)[i].fragment);
  tsr__buffer_release(&s.runs);
  return rc;
}

static int write_pieces_dense(tsr_writer *w, tsr_error *error) {
  tsr_error trouble = {0};
  if (!w->cells.count) return TSR_OK;
  if (w->runs.spilled) return write_boxes_from_disk(w, error);
  const int rc = write_boxes_in_memory(w, &trouble);
  if (rc != TSR_BUDGET) {
    if (rc < 0) *error = trouble;
    return rc;
  }
  TSR_TRY(tsr__pieces_remove(w, w->commit.boxes, error)); /* the cells themselves may leave memory */
  return write_boxes_from_disk(w, error);
}

int tsr__pieces_write(tsr_writer *writer, tsr_error *error) {
  return writer->schema->dense ? write_pieces_dense(writer, error) : write_pieces_sparse(writer, error);
}
