/* update.c: xUpdate: INSERT, UPDATE and DELETE of rows, as cells and removals of the open transaction's writer.
 *
 * * An UPDATE that changes dimensions moves cells, and it moves them as a set: a cell that the statement itself will
 * move away is no conflict (UPDATE t SET x = x + 1). SQLite calls xUpdate row by row, but only after its scan is over.
 * So the cursor has recorded the rows that the scan chose (tsx_update_record_row). A cell at the destination of a row
 * is no conflict as long as it is one of these rows and xUpdate has not been called for it yet. It may turn out later
 * that such a row cannot be moved. If the statement goes on (OR IGNORE), or ends but keeps its changes (OR FAIL), the
 * row that has taken its place goes back to where it came from, and so on along the chain (restore_row).
 *
 * * SQLite does not report that a statement begins: it begins at the first xUpdate after a cursor was opened. It reads
 * old rows from the state at that moment: a rowid identifies one version of a cell, and the statement writes newer
 * versions on top.
 *
 * * An UPDATE or DELETE that fails is undone here (undo_statement). SQLite would do that for most, but it opens no
 * statement journal for an UPDATE FROM of a virtual table: within a transaction, what such a statement has changed
 * before the row that failed would stay.
 *
 * * Sections: rowids of uncommitted cells; memory; the rows that a scan has chosen; the statement; the row to write;
 * conflicts; INSERT, UPDATE and DELETE; xUpdate. */
#include "table/table_internal.h"

#include <stdio.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "values/value.h"

typedef enum fate { /* what becomes of a row in the running statement */
                    FATE_NONE, /* nothing: the scan has not chosen it */
                    FATE_PENDING, /* xUpdate will be called for it */
                    FATE_DONE /* xUpdate has been called for it */
} fate;

typedef struct scanned_row { /* a slot of the hash table of rows; FATE_NONE: free */
  int64_t row;
  fate fate;
} scanned_row;

typedef struct update_move { /* a cell that the statement has moved */
  int64_t from; /* the old row */
  uint64_t cell; /* the number of the new cell in the writer */
  int64_t over; /* with is_over: the pending row at the destination */
  bool is_over, undone;
} update_move;

typedef struct update_scan { /* the rows that the scan has chosen */
  uint64_t cursor; /* the number of its cursor */
  int64_t *rows;
  uint64_t count, room;
  bool ended; /* the cursor is closed */
  bool mixed; /* two open cursors have chosen rows in turn, so one may belong to another statement or a subquery */
  bool incomplete; /* memory was lacking for some rows */
} update_scan;

typedef struct update_statement {
  uint64_t opened; /* table->cursors.opened when the statement began */
  tsx_transaction *transaction; /* NULL: no statement has begun */
  tsx_snapshot *view; /* the state when the statement began, or NULL */
  tsr_reader *reader; /* on `view` */
  tsr_mark mark; /* of the writer when it began: the first cell that the statement may have written, and so on */
} update_statement;

typedef struct update_fates { /* what the statement does with the scan's rows */
  scanned_row *slots; /* hash table, or NULL until it is needed */
  uint64_t mask;
} update_fates;

typedef struct update_moves { /* cells that the statement has moved */
  update_move *list; /* in the order of `cell` */
  uint64_t count, room;
} update_moves;

typedef struct update_call { /* the present call of xUpdate */
  int conflict; /* the OR clause: SQLITE_ABORT, SQLITE_IGNORE, ... */
  int code; /* SQLite's extended code if it says more than the core's, else 0 */
} update_call;

struct tsx_update_state {
  bool busy; /* xUpdate is running */
  bool ended; /* the transaction ended while xUpdate was running */
  tsx_table *table;
  tsx_row *row; /* the row that is being written */
  update_scan scan;
  update_statement statement;
  update_fates fates;
  update_moves moves;
  update_call call;
};

/* ---- Rowids of uncommitted cells --------------------------------------------------------------------------------- */

/* The writer numbers its cells from 0; cell n has the rowid -2 - n. Rows of the array have rowids from 0 on. */
static int64_t rowid_of(uint64_t number) { return -2 - (int64_t)number; }
static uint64_t number_of(int64_t row) { return (uint64_t)(-2 - row); }

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static tsx_update_state *update_of(tsx_table *table) {
  if (table->update) return table->update;
  tsx_update_state *u = sqlite3_malloc64(sizeof *u);
  if (!u) return NULL;
  memset(u, 0, sizeof *u);
  u->table = table;
  table->update = u;
  return u;
}

static void end_statement(tsx_update_state *u) {
  update_statement *statement = &u->statement;
  tsr_reader_close(statement->reader);
  tsx_snapshot_release(statement->view);
  sqlite3_free(u->fates.slots);
  statement->reader = NULL;
  statement->view = NULL;
  u->fates.slots = NULL;
  statement->transaction = NULL;
  u->moves.count = 0;
}

void tsx_update_end(tsx_table *table) {
  tsx_update_state *u = table->update;
  if (!u) return;
  u->ended = true;
  if (u->busy) return;
  end_statement(u);
  sqlite3_free(u->scan.rows);
  sqlite3_free(u->moves.list);
  u->scan.rows = NULL;
  u->moves.list = NULL;
  u->scan.count = u->scan.room = u->moves.room = u->statement.opened = u->scan.cursor = 0;
}

void tsx_update_free(tsx_table *table) {
  if (!table->update) return;
  tsx_update_end(table);
  tsx_row_free(table->update->row);
  sqlite3_free(table->update);
  table->update = NULL;
}

/* ---- The rows that a scan has chosen ----------------------------------------------------------------------------- */

void tsx_update_record_row(tsx_table *table, uint64_t cursor, int64_t row) {
  tsx_update_state *u = update_of(table);
  if (!u) return; /* out of memory: xUpdate will fail for the same reason */
  update_scan *scan = &u->scan;
  if (scan->cursor != cursor) {
    scan->mixed = scan->cursor && !scan->ended;
    scan->cursor = cursor;
    scan->ended = false;
    scan->count = 0;
    scan->incomplete = false;
  }
  if (scan->count == scan->room) {
    uint64_t room = scan->room ? scan->room * 2 : 64;
    int64_t *rows = sqlite3_realloc64(scan->rows, room * sizeof *rows);
    if (!rows) {
      scan->incomplete = true;
      return;
    }
    scan->rows = rows;
    scan->room = room;
  }
  scan->rows[scan->count++] = row;
}

void tsx_update_scan_ended(tsx_table *table, uint64_t cursor) {
  tsx_update_state *u = table->update;
  if (!u || u->scan.cursor != cursor) return;
  if (table->cursors.filtered < table->cursors.opened && cursor < table->cursors.opened)
    u->scan.cursor = table->cursors.opened;
  else u->scan.ended = true;
}

void tsx_update_forget_scan(tsx_table *table) {
  tsx_update_state *u = table->update;
  if (!u || !u->scan.ended || u->statement.transaction) return;
  sqlite3_free(u->scan.rows);
  u->scan.rows = NULL;
  u->scan.count = u->scan.room = 0;
}

static scanned_row *slot_of(const update_fates *fates, int64_t row) {
  uint64_t h = (uint64_t)row * UINT64_C(0x9E3779B97F4A7C15), at = (h ^ h >> 32) & fates->mask;
  while (fates->slots[at].fate && fates->slots[at].row != row) at = (at + 1) & fates->mask;
  return &fates->slots[at];
}

static int make_slots(tsx_update_state *u, tsr_error *error) {
  update_fates *fates = &u->fates;
  uint64_t count = 16;
  if (u->scan.incomplete) return tsx_out_of_memory(error);
  while (count < u->scan.count * 2) count *= 2;
  if (!(fates->slots = sqlite3_malloc64(count * sizeof *fates->slots))) return tsx_out_of_memory(error);
  memset(fates->slots, 0, count * sizeof *fates->slots);
  fates->mask = count - 1;
  for (uint64_t i = 0; i < u->scan.count; i++)
    *slot_of(fates, u->scan.rows[i]) = (scanned_row){u->scan.rows[i], FATE_PENDING};
  return TSR_OK;
}

static fate fate_of(const tsx_update_state *u, int64_t row) { return slot_of(&u->fates, row)->fate; }

static void set_done(tsx_update_state *u, int64_t row) {
  scanned_row *slot = slot_of(&u->fates, row);
  if (slot->fate) slot->fate = FATE_DONE;
}

/* ---- The statement ----------------------------------------------------------------------------------------------- */

static int begin_statement(tsx_update_state *u, tsx_transaction *transaction, tsr_error *error) {
  tsx_table *table = u->table;
  update_statement *statement = &u->statement;
  if (statement->view && statement->opened == table->cursors.opened && statement->transaction == transaction)
    return TSR_OK;
  end_statement(u);
  int code = tsx_array_snapshot(table->connection, table->array, tsr_writer_schema(transaction->writer),
                                table->options.times.since, TSR_TIME_NOW, true, &statement->view, error);
  if (code >= 0) code = tsr_reader_open(statement->view->core, &statement->reader, error);
  if (code < 0) {
    end_statement(u);
    return code;
  }
  statement->transaction = transaction;
  statement->opened = table->cursors.opened;
  statement->mark = tsr_writer_mark(transaction->writer);
  return TSR_OK;
}

/* Reads the old row `row`: it becomes the reader's batch, and *index is its index in there. */
static int read_old_row(tsx_update_state *u, int64_t row, uint64_t *index, tsr_error *error) {
  const tsr_batch *batch;
  const int found = tsr_reader_find(u->statement.reader, row, &batch, error);
  if (found < 0) return found;
  if (!found) return tsx_fail(error, TSR_ERROR, "%s: row %lld no longer exists", u->table->name, (long long)row);
  *index = batch->selection ? batch->selection[0] : batch->first;
  return TSR_OK;
}

static int copy_field(tsx_update_state *u, uint32_t field, uint64_t index, tsr_error *error) {
  const tsr_column *cells;
  TSX_TRY(tsr_reader_column(u->statement.reader, field, &cells, error));
  tsx_row_copy(u->row, field, cells, index);
  return TSR_OK;
}

/* Sets the first `fields` fields of u->row to those of an old row. */
static int copy_fields(tsx_update_state *u, int64_t row, uint32_t fields, tsr_error *error) {
  uint64_t index = 0;
  TSX_TRY(read_old_row(u, row, &index, error));
  for (uint32_t f = 0; f < fields; f++) TSX_TRY(copy_field(u, f, index, error));
  return TSR_OK;
}

/* ---- The row ----------------------------------------------------------------------------------------------------- */

static int fail_field(const tsx_update_state *u, int code, uint32_t column, const char *why, tsr_error *error) {
  return tsx_fail(error, code, "%s.%s: %s", u->table->name, u->table->columns[column].name, why);
}

/* Sets u->row to the values of an INSERT. */
static int set_inserted(tsx_update_state *u, sqlite3_value **values, tsr_error *error) {
  const tsr_schema *schema = tsx_row_schema(u->row);
  if (tsx_row_is_complete(u->row)) return tsx_row_set_all(u->row, values, error);
  for (uint32_t c = 0; c < u->table->column_count; c++) {
    const int field = tsx_row_field(u->row, c);
    if (field < 0) {
      if (sqlite3_value_type(values[c]) == SQLITE_NULL) continue;
      return fail_field(u, TSR_ERROR, c, "the attribute has been dropped: open the database again", error);
    }
    TSX_TRY(tsx_row_set(u->row, (uint32_t)field, values[c], true, error));
  }
  for (uint32_t f = 0; f < schema->dimension_count + schema->attribute_count; f++) {
    if (tsx_row_column(u->row, f) >= 0) continue;
    int code = tsx_row_set_null(u->row, f, true, error);
    if (code < 0 && f < schema->dimension_count)
      return tsx_fail(error, TSR_ERROR,
                      "%s: rows cannot be inserted, as the option columns leaves out the dimension %s", u->table->name,
                      schema->fields[f].name);
    if (code < 0) return code;
  }
  return TSR_OK;
}

/* Returns true if SQLite reports no column as unchanged, so that any of them may be: in an UPDATE ... FROM, releases
 * before 3.41 never report any. */
static bool hides_what_changed(const tsx_update_state *u, sqlite3_value **values) {
  for (uint32_t c = 0; c < u->table->column_count + 3; c++)
    if (sqlite3_value_nochange(values[c])) return false;
  return true;
}

/* Returns 1 if a column of the reader's row reads as NULL, 0 if not, or an error. */
static int reads_as_null(const tsx_update_state *u, uint32_t column, uint32_t field, uint64_t index, bool unwritten,
                         tsr_error *error) {
  const tsr_column *cells;
  TSX_TRY(tsr_reader_column(u->statement.reader, field, &cells, error));
  if (cells->unwritten && !unwritten) return 0;
  return tsx_column_is_null(&u->table->columns[column], cells, index, u->table->options.shows.fill_unwritten);
}

/* Sets u->row to the values of an UPDATE; unchanged fields keep the bytes of the reader's row at `index`. A NULL for a
 * field that is not nullable counts as unchanged if the old cell reads as NULL, like NaN, so v + 1 need not leave such
 * cells out. A cell that was never written counts only if SQLite does not tell what changed: keeping it writes it. */
static int set_updated(tsx_update_state *u, sqlite3_value **values, uint64_t index, tsr_error *error) {
  const tsr_schema *schema = tsx_row_schema(u->row);
  bool blind = hides_what_changed(u, values);
  for (uint32_t f = 0; f < schema->dimension_count + schema->attribute_count; f++) {
    const int c = tsx_row_column(u->row, f);
    int keep = c < 0 || sqlite3_value_nochange(values[c]);
    if (!keep && !schema->fields[f].nullable && sqlite3_value_type(values[c]) == SQLITE_NULL &&
        (keep = reads_as_null(u, (uint32_t)c, f, index, blind, error)) < 0)
      return keep;
    TSX_TRY(keep ? copy_field(u, f, index, error) : tsx_row_set(u->row, f, values[c], false, error));
  }
  for (uint32_t c = 0; c < u->table->column_count; c++)
    if (tsx_row_field(u->row, c) < 0 && !sqlite3_value_nochange(values[c]) &&
        sqlite3_value_type(values[c]) != SQLITE_NULL)
      return fail_field(u, TSR_ERROR, c, "the attribute has been dropped: open the database again", error);
  return TSR_OK;
}

/* Compares the bytes of two cells. */
static bool same_cell(const tsr_column *a, uint64_t i, const tsr_column *b, uint64_t j) {
  if (a->constant) i = 0;
  if (b->constant) j = 0;
  if (!a->offsets)
    return !memcmp((const uint8_t *)a->values + i * a->cell_size, (const uint8_t *)b->values + j * b->cell_size,
                   a->cell_size);
  uint64_t size = a->offsets[i + 1] - a->offsets[i];
  return size == b->offsets[j + 1] - b->offsets[j] &&
         !memcmp((const uint8_t *)a->values + a->offsets[i], (const uint8_t *)b->values + b->offsets[j], size);
}

/* Returns 1 if u->row differs from the old row in some dimension, with the first such *dimension; 0 if not; or an
 * error. */
static int find_moved(tsx_update_state *u, sqlite3_value **values, uint64_t index, uint32_t *dimension,
                      tsr_error *error) {
  const tsr_column *columns = tsx_row_columns(u->row), *old;
  for (uint32_t d = 0; d < tsx_row_schema(u->row)->dimension_count; d++) {
    int c = tsx_row_column(u->row, d);
    if (c < 0 || sqlite3_value_nochange(values[c])) continue;
    TSX_TRY(tsr_reader_column(u->statement.reader, d, &old, error));
    *dimension = d;
    if (!same_cell(&columns[d], 0, old, index)) return 1;
  }
  return 0;
}

/* ---- Conflicts --------------------------------------------------------------------------------------------------- */

/* Returns true if the statement may replace an existing cell. SQLite does not distinguish a statement without an OR
 * clause from one with OR ABORT, so the option on_conflict decides for both. */
static bool replaces(const tsx_update_state *u) {
  return u->call.conflict == SQLITE_REPLACE || (u->call.conflict == SQLITE_ABORT && !u->table->options.conflict_abort);
}

/* Appends a coordinate of fixed size as an SQL literal: JSON has double quotes around a datetime. */
static void append_coordinate(sqlite3_str *text, tsr_datatype datatype, const void *value) {
  int begin = sqlite3_str_length(text);
  tsx_json_value(text, datatype, value, false);
  char *written = sqlite3_str_value(text);
  for (int i = begin; i < sqlite3_str_length(text); i++)
    if (written[i] == '"') written[i] = '\'';
}

static int fail_exists(tsx_update_state *u, tsr_error *error) {
  const tsr_schema *schema = tsx_row_schema(u->row);
  const tsr_column *columns = tsx_row_columns(u->row);
  sqlite3_str *text = sqlite3_str_new(NULL);
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    int c = tsx_row_column(u->row, d);
    sqlite3_str_appendf(text, "%s%s=", d ? ", " : "", c >= 0 ? u->table->columns[c].name : schema->fields[d].name);
    if (columns[d].cell_size)
      append_coordinate(text, tsx_datatype_printed(&schema->fields[d], u->table->options.shows.uint64_signed),
                        columns[d].values);
    else
      sqlite3_str_appendf(text, "'%.*s'", (int)tsr_utf8_cut(columns[d].values, columns[d].offsets[1], 60),
                          (const char *)columns[d].values);
  }
  char *place = sqlite3_str_finish(text);
  u->call.code = SQLITE_CONSTRAINT_UNIQUE;
  tsx_fail(error, TSR_CONSTRAINT, "%s: a cell already exists at %.600s", u->table->name, place ? place : "");
  sqlite3_free(place);
  return TSR_CONSTRAINT;
}

/* Returns 1 and the rowid of the cell at the coordinates of u->row, 0 if there is none, or an error. */
static int find_at_coordinates(tsx_update_state *u, tsx_transaction *transaction, int64_t *row, tsr_error *error) {
  return tsr_writer_find(transaction->writer, transaction->base, tsx_row_columns(u->row), 0, row, error);
}

/* Returns true if the statement has written this row. */
static bool is_of_statement(const tsx_update_state *u, int64_t row) {
  return row < -1 && number_of(row) >= u->statement.mark.cells;
}

/* Returns the move that has written an uncommitted row, or NULL. Searches for its cell's number. */
static update_move *move_of(const update_moves *moves, int64_t row) {
  uint64_t cell = number_of(row), low = 0, high = moves->count;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (moves->list[middle].cell < cell) low = middle + 1;
    else high = middle;
  }
  update_move *move = low < moves->count ? &moves->list[low] : NULL;
  return move && move->cell == cell && !move->undone ? move : NULL;
}

/* Appends a row that needs no test of CHECK constraints: it has been tested, or was there before. */
static int append_trusted(tsr_writer *writer, const tsr_column *columns, tsr_error *error) {
  tsr_writer_trust(writer, true);
  const int code = tsr_writer_append(writer, columns, NULL, 1, error);
  tsr_writer_trust(writer, false);
  return code;
}

/* Restores an old row at its place. If the statement has moved another row there, that row goes back to its own place,
 * and so on. */
static int restore_row(tsx_update_state *u, int64_t row, tsr_error *error) {
  tsr_writer *writer = u->statement.transaction->writer;
  const tsr_schema *schema = tsx_row_schema(u->row);
  for (bool moved_away = false;;) {
    int64_t there = 0;
    TSX_TRY(copy_fields(u, row, schema->dimension_count + schema->attribute_count, error));
    const int taken = find_at_coordinates(u, u->statement.transaction, &there, error);
    if (taken < 0) return taken;
    const tsr_column *columns = tsx_row_columns(u->row);
    update_move *back = taken && is_of_statement(u, there) ? move_of(&u->moves, there) : NULL;
    if (back) TSX_TRY(tsr_writer_remove(writer, there, columns, 0, error));
    const int still = back && !moved_away ? find_at_coordinates(u, u->statement.transaction, &there, error) : 1;
    if (still < 0) return still;
    if (!still || moved_away) TSX_TRY(append_trusted(writer, columns, error));
    set_done(u, row);
    if (!back) return TSR_OK;
    back->undone = true;
    row = back->from;
    moved_away = true;
  }
}

/* Leaves a row unchanged, because of `error`, and returns the code of `error`. With OR FAIL the statement ends here and
 * keeps its changes. If it has moved rows to the places of pending ones, these are restored, since xUpdate will not be
 * called for them any more. */
static int leave_unchanged(tsx_update_state *u, int64_t row, tsr_error *error) {
  if (u->call.conflict != SQLITE_IGNORE && u->call.conflict != SQLITE_FAIL)
    return error->code; /* SQLite undoes all changes */
  if (!u->fates.slots) return error->code;
  tsr_error trouble = {0};
  int code = restore_row(u, row, &trouble);
  for (uint64_t i = 0; i < u->moves.count && u->call.conflict == SQLITE_FAIL && code >= 0; i++)
    if (!u->moves.list[i].undone && u->moves.list[i].is_over && fate_of(u, u->moves.list[i].over) == FATE_PENDING)
      code = restore_row(u, u->moves.list[i].over, &trouble);
  if (code < 0) *error = trouble;
  return error->code;
}

static int record_move(update_moves *moves, const update_move *made, tsr_error *error) {
  if (moves->count == moves->room) {
    uint64_t room = moves->room ? moves->room * 2 : 64;
    update_move *list = sqlite3_realloc64(moves->list, room * sizeof *list);
    if (!list) return tsx_out_of_memory(error);
    moves->list = list;
    moves->room = room;
  }
  moves->list[moves->count++] = *made;
  return TSR_OK;
}

/* ---- INSERT, UPDATE, DELETE -------------------------------------------------------------------------------------- */

/* Sets u->row to the values of an INSERT that gives labels: a label supplies a coordinate that is NULL, and must agree
 * with one that is not. `places` has room for the coordinate of each label; the row borrows them. */
static int set_inserted_with_labels(tsx_update_state *u, sqlite3_value **values, uint8_t (*places)[8],
                                    tsr_error *error) {
  tsx_table *table = u->table;
  sqlite3_value **given = values + TSX_WRITTEN_AT(table) + 1;
  for (uint32_t i = 0; i < table->label_count; i++) {
    if (sqlite3_value_type(given[i]) == SQLITE_NULL) continue;
    TSX_TRY(tsx_label_coordinate_of(table, &table->labels[i], given[i], places[i], error));
    tsx_row_default_coordinate(u->row, table->labels[i].dimension, places[i]);
  }
  TSX_TRY(set_inserted(u, values, error));
  for (uint32_t i = 0; i < table->label_count; i++) {
    const tsx_label_column *label = &table->labels[i];
    const tsr_column *set = &tsx_row_columns(u->row)[label->dimension];
    if (sqlite3_value_type(given[i]) == SQLITE_NULL) continue;
    if (memcmp(set->values, places[i], set->cell_size) != 0)
      return tsx_fail(error, TSR_MISMATCH, "%s.%s: another coordinate of %s has this label", table->name, label->name,
                      table->schema->fields[label->dimension].name);
  }
  return TSR_OK;
}

static int set_inserted_by_labels(tsx_update_state *u, sqlite3_value **values, tsr_error *error) {
  const uint32_t dimensions = tsx_row_schema(u->row)->dimension_count;
  uint8_t(*places)[8] = sqlite3_malloc64((u->table->label_count + 1) * sizeof *places);
  if (!places) return tsx_out_of_memory(error);
  const int code = set_inserted_with_labels(u, values, places, error);
  for (uint32_t d = 0; d < dimensions; d++) tsx_row_default_coordinate(u->row, d, NULL);
  sqlite3_free(places);
  return code;
}

/* Returns true if a row to insert has a label. */
static bool has_labels(const tsx_update_state *u, int count, sqlite3_value **values) {
  for (int c = TSX_WRITTEN_AT(u->table) + 1; c < count; c++)
    if (sqlite3_value_type(values[c]) != SQLITE_NULL) return true;
  return false;
}

/* Inserts a row of `count` values. */
static int insert_row(tsx_update_state *u, tsx_transaction *transaction, int count, sqlite3_value **values,
                      sqlite3_int64 *rowid, tsr_error *error) {
  const int code =
      has_labels(u, count, values) ? set_inserted_by_labels(u, values, error) : set_inserted(u, values, error);
  if (code == TSR_CONSTRAINT) u->call.code = SQLITE_CONSTRAINT_NOTNULL;
  if (code < 0) return code;
  if (!tsx_row_schema(u->row)->allows_duplicates && !replaces(u)) {
    int64_t there;
    TSX_TRY(tsr_writer_test(transaction->writer, tsx_row_columns(u->row), NULL,
                            error)); /* CHECK before uniqueness, as SQLite does */
    const int taken = find_at_coordinates(u, transaction, &there, error);
    if (taken < 0) return taken;
    if (taken) return fail_exists(u, error);
  }
  *rowid = rowid_of(tsr_writer_mark(transaction->writer).cells);
  return tsr_writer_append(transaction->writer, tsx_row_columns(u->row), NULL, 1, error);
}

/* Copies the columns of the reader's dimensions. The row's index in them is the one from read_old_row. */
static int old_coordinates(tsx_update_state *u, tsr_column *columns, tsr_error *error) {
  for (uint32_t d = 0; d < tsx_row_schema(u->row)->dimension_count; d++) {
    const tsr_column *column;
    TSX_TRY(tsr_reader_column(u->statement.reader, d, &column, error));
    columns[d] = *column;
  }
  return TSR_OK;
}

/* Checks the destination of a row. Returns 0 if it is free, 1 if a pending row *over is there;
 * TSR_CONSTRAINT if another cell is there. */
static int check_destination(tsx_update_state *u, int64_t row, int64_t *over, tsr_error *error) {
  int64_t there;
  const int taken = find_at_coordinates(u, u->statement.transaction, &there, error);
  if (taken < 0) return taken;
  if (!taken || there == row) return 0;
  *over = there;
  if (!is_of_statement(u, there) && fate_of(u, there) == FATE_PENDING) return 1;
  fail_exists(u, error);
  return leave_unchanged(u, row, error);
}

static bool sets_dimension(const tsx_update_state *u, sqlite3_value **values) {
  for (uint32_t d = 0; d < tsx_row_schema(u->row)->dimension_count; d++) {
    int c = tsx_row_column(u->row, d);
    if (c >= 0 && !sqlite3_value_nochange(values[c])) return true;
  }
  return false;
}

/* Checks the removal of a row in an array with duplicates. Cells are deleted by their coordinates (a delete condition),
 * so all committed cells at these coordinates must be among the rows that the statement has chosen. COMMIT checks that
 * again, and is the only check if it follows at once, or if the recorded rows may not be those of this statement. */
static int check_duplicates(tsx_update_state *u, int64_t row, const tsr_column *coordinates, uint64_t index,
                            tsr_error *error) {
  int64_t there;
  if (!tsx_row_schema(u->row)->allows_duplicates || u->scan.incomplete || u->scan.mixed) return TSR_OK;
  if (sqlite3_get_autocommit(u->table->connection->db) && u->scan.cursor != u->table->cursors.opened) return TSR_OK;
  if (!u->fates.slots) TSX_TRY(make_slots(u, error));
  if (!fate_of(u, row)) return TSR_OK;
  const int found = tsr_writer_find(u->statement.transaction->writer, u->statement.transaction->base, coordinates,
                                    index, &there, error);
  if (found < 0) return found;
  if (found && there >= 0 && !fate_of(u, there))
    return tsx_fail(
        error, TSR_ERROR,
        "%s: cells are deleted by their coordinates: another cell has the same coordinates and would be deleted, too",
        u->table->name);
  return TSR_OK;
}

static int remove_old(tsx_update_state *u, int64_t row, uint64_t index, tsr_error *error) {
  tsr_column *coordinates = sqlite3_malloc64(tsx_row_schema(u->row)->dimension_count * sizeof *coordinates);
  if (!coordinates) return tsx_out_of_memory(error);
  int code = old_coordinates(u, coordinates, error);
  if (code >= 0) code = tsr_writer_remove(u->statement.transaction->writer, row, coordinates, index, error);
  if (code >= 0) code = check_duplicates(u, row, coordinates, index, error);
  sqlite3_free(coordinates);
  return code;
}

/* Writes u->row in place of an old row; `moved`: their coordinates differ. */
static int write_changed(tsx_update_state *u, int64_t row, bool moved, uint64_t index, tsr_error *error) {
  tsr_writer *writer = u->statement.transaction->writer;
  bool duplicates = tsx_row_schema(u->row)->allows_duplicates;
  update_move made = {.from = row, .cell = tsr_writer_mark(writer).cells};
  if (u->fates.slots && !duplicates && !replaces(u) && (moved || u->moves.count)) {
    const int over = check_destination(u, row, &made.over, error);
    if (over < 0) return over;
    made.is_over = over > 0;
  }
  if (moved || duplicates) TSX_TRY(remove_old(u, row, index, error));
  TSX_TRY(append_trusted(writer, tsx_row_columns(u->row), error));
  if (u->fates.slots) set_done(u, row);
  return moved ? record_move(&u->moves, &made, error) : TSR_OK;
}

/* With OR IGNORE, a row that is changed at its place takes precedence over a row that the statement has moved there:
 * that row goes back. *cleared: it did, and u->row must be set again. */
static int clear_destination(tsx_update_state *u, int64_t row, bool *cleared, tsr_error *error) {
  int64_t there;
  *cleared = false;
  if (!u->moves.count || u->call.conflict != SQLITE_IGNORE) return TSR_OK;
  const int taken = find_at_coordinates(u, u->statement.transaction, &there, error);
  if (taken < 0) return taken;
  if (!taken || !is_of_statement(u, there) || !move_of(&u->moves, there)) return TSR_OK;
  *cleared = true;
  return restore_row(u, row, error);
}

static int set_changed_row(tsx_update_state *u, int64_t row, sqlite3_value **values, uint64_t *index,
                           tsr_error *error) {
  TSX_TRY(read_old_row(u, row, index, error));
  return set_updated(u, values, *index, error);
}

/* Sets changed[field] for the fields of u->row that the statement sets, and for those that the old row lacks: they are
 * written with the DEFAULT. */
static int list_changed_fields(const tsx_update_state *u, sqlite3_value **values, uint32_t fields, bool *changed,
                               tsr_error *error) {
  const tsr_column *cells;
  for (uint32_t f = 0; f < fields; f++) {
    const int c = tsx_row_column(u->row, f);
    changed[f] = c >= 0 && !sqlite3_value_nochange(values[c]);
    if (changed[f]) continue;
    TSX_TRY(tsr_reader_column(u->statement.reader, f, &cells, error));
    changed[f] = cells->unwritten;
  }
  return TSR_OK;
}

/* Tests u->row against the CHECK constraints of columns that the statement sets. */
static int check_row(tsx_update_state *u, sqlite3_value **values, tsr_error *error) {
  const tsr_schema *schema = tsx_row_schema(u->row);
  const uint32_t fields = schema->dimension_count + schema->attribute_count;
  bool *changed = sqlite3_malloc64(fields * sizeof *changed);
  if (!changed) return tsx_out_of_memory(error);
  int code = list_changed_fields(u, values, fields, changed, error);
  if (code >= 0) code = tsr_writer_test(u->statement.transaction->writer, tsx_row_columns(u->row), changed, error);
  sqlite3_free(changed);
  return code;
}

static int update_row(tsx_update_state *u, int64_t row, sqlite3_value **values, tsr_error *error) {
  const tsr_schema *schema = tsx_row_schema(u->row);
  uint64_t index = 0;
  uint32_t dimension = 0;
  bool cleared = false, sets = sets_dimension(u, values) || schema->allows_duplicates;
  if (sets && !schema->dense && !u->fates.slots) TSX_TRY(make_slots(u, error));
  if (u->fates.slots && fate_of(u, row) == FATE_DONE) return TSR_OK; /* UPDATE ... FROM has found the row twice */
  int code = set_changed_row(u, row, values, &index, error);
  if (code == TSR_CONSTRAINT) {
    u->call.code = SQLITE_CONSTRAINT_NOTNULL;
    return leave_unchanged(u, row, error);
  }
  if (code < 0) return code;
  code = check_row(u, values, error);
  if (code == TSR_CHECK) return leave_unchanged(u, row, error);
  if (code < 0) return code;
  const int moved = find_moved(u, values, index, &dimension, error);
  if (moved < 0) return moved;
  if (moved && schema->dense)
    return tsx_fail(error, TSR_ERROR, "%s.%s: cells of a dense array cannot be moved; insert others", u->table->name,
                    u->table->columns[tsx_row_column(u->row, dimension)].name);
  if (!moved) TSX_TRY(clear_destination(u, row, &cleared, error));
  if (cleared) TSX_TRY(set_changed_row(u, row, values, &index, error));
  return write_changed(u, row, moved, index, error);
}

/* Returns what an UPDATE can set in place of a DELETE. */
static const char *stands_for_nothing(const tsr_schema *schema) {
  bool reals = false;
  for (uint32_t f = schema->dimension_count; f < schema->dimension_count + schema->attribute_count; f++) {
    if (schema->fields[f].nullable) return "NULL";
    reals |= tsr_datatype_kind(schema->fields[f].datatype) == TSR_KIND_FLOAT;
  }
  return reals ? "'NaN', which reads as NULL" : "another value";
}

static int delete_row(tsx_update_state *u, int64_t row, tsr_error *error) {
  const tsr_schema *schema = tsx_row_schema(u->row);
  if (schema->dense)
    return tsx_fail(error, TSR_ERROR,
                    "%s: cells of a dense array cannot be deleted: set them to %s, or make the array with kind=sparse",
                    u->table->name, stands_for_nothing(schema));
  const tsr_column *columns = tsx_row_columns(u->row);
  TSX_TRY(copy_fields(u, row, schema->dimension_count, error));
  TSX_TRY(tsr_writer_remove(u->statement.transaction->writer, row, columns, 0, error));
  return check_duplicates(u, row, columns, 0, error);
}

/* ---- xUpdate ----------------------------------------------------------------------------------------------------- */

/* Fails if the statement sets the rowid or a hidden column. */
static int check_hidden(const tsx_update_state *u, int count, sqlite3_value **values, tsr_error *error) {
  const tsx_table *table = u->table;
  bool is_update = sqlite3_value_type(values[0]) != SQLITE_NULL;
  if (is_update ? sqlite3_value_int64(values[0]) != sqlite3_value_int64(values[1])
                : sqlite3_value_type(values[1]) != SQLITE_NULL)
    return tsx_fail(error, TSR_ERROR, "%s: rowid cannot be set", table->name);
  for (int c = (int)table->column_count; c < count - 2; c++) {
    sqlite3_value *value = values[2 + c];
    const bool is_time = c == TSX_AS_OF(table) || c == TSX_SINCE(table);
    if ((!is_update || is_time) && sqlite3_value_type(value) == SQLITE_NULL) continue; /* not set */
    if (sqlite3_value_nochange(value)) continue;
    const tsx_label_column *label = tsx_label_column_at(table, c);
    if (label && !is_update) continue;
    if (is_update && hides_what_changed(u, values + 2) && (label || c == TSX_WRITTEN_AT(table)))
      continue; /* the present value: SQLite does not say which columns are unchanged */
    return tsx_fail(error, TSR_ERROR, "%s: the column %s cannot be set", table->name,
                    label ? label->name : table->declared.hidden[c - (int)table->column_count]);
  }
  return TSR_OK;
}

static int change_one_row(tsx_update_state *u, tsx_transaction *transaction, int count, sqlite3_value **values,
                          sqlite3_int64 *rowid, tsr_error *error) {
  tsx_table *table = u->table;
  const tsr_schema *schema = tsr_writer_schema(transaction->writer);
  if (!u->row || tsx_row_schema(u->row) != schema) {
    end_statement(u);
    tsx_row_free(u->row);
    u->row = NULL;
    TSX_TRY(tsx_row_make(table, schema, &u->row, error));
  }
  if (count > 1 && sqlite3_value_type(values[0]) == SQLITE_NULL) /* appends at most one cell: nothing to rewind */
    return insert_row(u, transaction, count - 2, values + 2, rowid, error);
  if (table->cursors.read_at_other_time)
    return tsx_fail(error, TSR_ERROR, "%s: %s and %s are not possible in UPDATE and DELETE", table->name,
                    table->declared.hidden[0], table->declared.hidden[1]);
  const tsr_mark mark = tsr_writer_mark(transaction->writer);
  const int64_t row = sqlite3_value_int64(values[0]);
  int code = begin_statement(u, transaction, error);
  if (code >= 0) code = count > 1 ? update_row(u, row, values + 2, error) : delete_row(u, row, error);
  const tsr_mark now = tsr_writer_mark(transaction->writer);
  /* Undoes what a row has done before it failed, whatever the OR clause is; but after TSR_CONSTRAINT and TSR_CHECK it
   * is what leave_unchanged has restored, which stays. */
  if (code < 0 && transaction->array && code != TSR_CONSTRAINT && code != TSR_CHECK &&
      memcmp(&mark, &now, sizeof mark) != 0) {
    tsr_error unseen;
    transaction->rewinds++;
    tsr_writer_rewind(transaction->writer, mark, &unseen);
  }
  return code;
}

/* A statement that the change runs in the database may fail, and SQLite may roll back the transaction at once and call
 * xRollback. So `busy` and a reference keep alive what the change uses until it has returned. */
static int change_in_transaction(tsx_update_state *u, int count, sqlite3_value **values, sqlite3_int64 *rowid,
                                 tsr_error *error) {
  tsx_table *table = u->table;
  tsx_transaction *transaction;
  TSX_TRY(count > 1 ? check_hidden(u, count, values, error) : TSR_OK);
  TSX_TRY(tsx_transaction_of(table, &transaction, error));
  transaction->references++;
  u->busy = true;
  u->ended = false;
  int code = change_one_row(u, transaction, count, values, rowid, error);
  u->busy = false;
  if (u->ended) tsx_update_end(table);
  if (code >= 0 && !transaction->array) code = tsx_fail_rolled_back(table->connection->db, error);
  tsx_transaction_drop(transaction);
  return code;
}

/* Returns true if a failed call ends its statement, and takes back what the statement has done. `code` is SQLite's. */
static bool takes_back(int code, int conflict) {
  return (code & 0xFF) != SQLITE_CONSTRAINT || conflict == SQLITE_ABORT || conflict == SQLITE_REPLACE;
}

/* Undoes what the running UPDATE or DELETE has done in earlier calls. */
static int undo_statement(tsx_update_state *u, tsr_error *error) {
  tsx_transaction *transaction = u->statement.transaction;
  if (!transaction || !transaction->array || u->statement.opened != u->table->cursors.opened) return TSR_OK;
  const tsr_mark mark = u->statement.mark, now = tsr_writer_mark(transaction->writer);
  end_statement(u);
  return memcmp(&mark, &now, sizeof mark) == 0 ? TSR_OK : tsx_transaction_rewind(transaction, mark, error);
}

int tsx_update(sqlite3_vtab *vtab, int count, sqlite3_value **values, sqlite3_int64 *rowid) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_update_state *u = update_of(table);
  tsr_error error;
  tsx_error_init(&error);
  if (!u) return SQLITE_NOMEM;
  u->call.conflict = sqlite3_vtab_on_conflict(table->connection->db);
  u->call.code = 0;
  if (count > 1) values = tsx_column_order_values(table, values);
  const bool changes = count == 1 || sqlite3_value_type(values[0]) != SQLITE_NULL;
  int code = change_in_transaction(u, count, values, rowid, &error);
  if (code >= 0) return SQLITE_OK;
  code = tsx_sqlite_code(error.code);
  if (code == SQLITE_CONSTRAINT && u->call.code) code = u->call.code;
  if ((code & 0xFF) == SQLITE_CONSTRAINT && u->call.conflict == SQLITE_IGNORE)
    return code; /* SQLite ignores the row and needs no message */
  tsr_error undoing = {0};
  if (changes && takes_back(code, u->call.conflict) && undo_statement(u, &undoing) < 0)
    return tsx_vtab_error(vtab, &undoing);
  if (!strncmp(error.message, "array ", 6)) /* the core's message does not name the table */
    return tsx_vtab_fail(vtab, code, "%s: %s", table->name, error.message);
  return tsx_vtab_fail(vtab, code, "%s", error.message);
}
