/* cells.c: cells of a tessera_query go to an ingest in blocks, without a row of SQLite's for each.
 *
 * SQLite runs the statement up to its first row. If its text is SELECT with columns of one table and nothing else, and
 * the scan of a tessera_query has just begun that gives this table's rows, then the rows that SQLite would ask for are
 * those of the scan's run, in this order. They are taken from it: numbers of a whole block at once, all other values
 * one by one, as create.c sets those of a row.
 *
 * Sections: the statement, columns, rows. */
#include "data/data.h"

#include <math.h>
#include <string.h>

#include "connection/errors.h"
#include "query/query_table.h"
#include "sql/statement.h"
#include "values/value.h"

#define CELLS_ALONE 64u /* rows that are set one by one before a block is tried again */

typedef struct cells_taker {
  tsx_ingest_call *call;
  tsx_run *run; /* borrowed */
  const char *table; /* its name, for messages; borrowed */
  uint32_t *items; /* [call->source.count]: the run's item of each column */
  tsr_query_column *columns; /* [call->options.column_count], of a block */
  uint64_t *words; /* [call->source.count][room] */
  uint8_t *nulls; /* the same */
  uint64_t room;
  uint64_t number; /* of the row, from 1 */
} cells_taker;

/* ---- The statement ----------------------------------------------------------------------------------------------- */

/* Returns true if the text selects columns of a table, and neither drops nor orders rows. */
static bool cells_is_plain(const tsx_select *s) {
  bool plain = !s->distinct && !s->where && !s->having && !s->limit && !s->offset && !s->group_count &&
               !s->order_count && !s->join_count && !s->subquery_count && !s->windows.count && !s->inner.begin &&
               !s->source.times[0] && !s->source.times[1];
  for (uint32_t i = 0; i < s->item_count && plain; i++) {
    const tsx_item *item = &s->items[i];
    const char *table = item->star ? item->star : item->tree->table;
    plain = item->star || item->tree->kind == TSX_EXPR_NAME;
    if (plain && table && *table) plain = sqlite3_stricmp(table, tsx_source_name(&s->source)) == 0;
  }
  return plain;
}

/* Finds the item of each column of the statement: `names` selects all columns of the table. Returns false if the text
 * has a name that is no column, as it does if it names a rowid. */
static bool cells_find_items(cells_taker *t, const tsx_select *s, sqlite3_stmt *names) {
  const int all = sqlite3_column_count(names);
  uint32_t count = 0;
  for (uint32_t i = 0; i < s->item_count; i++) {
    const char *wanted = s->items[i].star ? NULL : s->items[i].tree->name;
    bool found = false;
    for (int c = 0; c < all && count <= t->call->source.count; c++) {
      const char *name = sqlite3_column_name(names, c);
      if (!name || (wanted && (found || sqlite3_stricmp(name, wanted) != 0))) continue;
      if (count < t->call->source.count) t->items[count] = (uint32_t)c;
      count++;
      found = true;
    }
    if (!found) return false;
  }
  return count == t->call->source.count;
}

/* Finds the run whose rows are those of the statement. Returns 1; 0 if there is none. */
static int cells_find(cells_taker *t, const tsx_select *s, tsr_error *error) {
  sqlite3_stmt *names = NULL;
  const tsx_source *source = &s->source;
  sqlite3 *db = t->call->connection->db;
  if (!cells_is_plain(s)) return 0;
  t->run = tsx_query_scan_run(t->call->connection, source->schema, source->table, &t->table);
  if (!t->run) return 0;
  const int answer = tsx_sql_prepare(
      db, sqlite3_mprintf("SELECT * FROM %.*s", (int)(source->end - source->begin), source->begin), &names);
  if (answer != SQLITE_OK) return tsx_fail(error, tsx_core_code(answer), "%s", sqlite3_errmsg(db));
  const bool found = cells_find_items(t, s, names);
  sqlite3_finalize(names);
  return found;
}

/* Returns true if no column needs a value of SQLite's to be converted. */
static bool cells_need_no_conversion(const cells_taker *t) {
  const tsx_ingest_source *source = &t->call->source;
  for (uint32_t i = 0; i < source->count; i++) {
    const tsr_ingest_column *column = source->kept[i] < 0 ? NULL : &t->call->columns[source->kept[i]];
    if (!column || !tsx_select_converts(column, SQLITE_INTEGER)) continue;
    if (tsx_select_converts(column, SQLITE_TEXT)) return false;
    if (tsx_run_cell_type(t->run, t->items[i]) != TSR_VALUE_INSTANT) return false; /* an integer may be an instant */
  }
  return true;
}

/* ---- Columns ----------------------------------------------------------------------------------------------------- */

static int cells_reserve(cells_taker *t, uint64_t rows, tsr_error *error) {
  if (rows <= t->room) return TSR_OK;
  const uint64_t values = rows * t->call->source.count;
  uint64_t *words = sqlite3_realloc64(t->words, values * sizeof *words);
  if (words) t->words = words;
  uint8_t *nulls = words ? sqlite3_realloc64(t->nulls, values) : NULL;
  if (!nulls) return tsx_out_of_memory(error);
  t->nulls = nulls;
  t->room = rows;
  return TSR_OK;
}

/* Makes the columns of the run's block. Returns 1; 0 if some column has other values than numbers. */
static int cells_columns(cells_taker *t, uint64_t rows, tsr_error *error) {
  const tsx_ingest_call *call = t->call;
  TSX_TRY(cells_reserve(t, rows, error));
  for (uint32_t c = 0; c < call->options.column_count; c++) t->columns[c] = (tsr_query_column){.type = TSR_VALUE_NULL};
  for (uint32_t i = 0; i < call->source.count; i++) {
    const int kept = call->source.kept[i];
    if (kept < 0) continue;
    const tsr_ingest_column *column = &call->columns[kept];
    const tsr_datatype instants = column->typed && column->values_per_cell == 1 ? column->datatype : TSR_ANY;
    if (!tsx_run_column_block(t->run, t->items[i], instants, t->words + i * t->room, t->nulls + i * t->room,
                              &t->columns[kept]))
      return 0;
  }
  return 1;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static int cells_set(cells_taker *t, uint32_t i, tsr_error *error) {
  tsr_value value;
  char text[24];
  tsr_ingest *ingest = t->call->ingest;
  const uint32_t column = (uint32_t)t->call->source.kept[i];
  TSX_TRY(tsx_run_value(t->run, t->items[i], &value, error));
  switch (value.type) {
  case TSR_VALUE_INTEGER: return tsr_ingest_set_integer(ingest, column, value.as.integer, error);
  case TSR_VALUE_REAL: return isnan(value.as.real) ? TSR_OK : tsr_ingest_set_real(ingest, column, value.as.real, error);
  case TSR_VALUE_TEXT:
    return tsr_ingest_set_bytes(ingest, column, true, value.as.text.bytes, value.as.text.size, error);
  case TSR_VALUE_UNSIGNED:
    if (value.as.unsigned_integer <= INT64_MAX) return tsr_ingest_set_integer(ingest, column, value.as.integer, error);
    sqlite3_snprintf(sizeof text, text, TSX_UINT64_PRINTED, (unsigned long long)value.as.unsigned_integer);
    return tsr_ingest_set_bytes(ingest, column, true, text, strlen(text), error);
  default: return TSR_OK; /* NULL */
  }
}

static int cells_row(cells_taker *t, uint64_t row, tsr_error *error) {
  int code = TSR_OK;
  tsx_run_at(t->run, row);
  for (uint32_t i = 0; i < t->call->source.count && code >= 0; i++)
    if (t->call->source.kept[i] >= 0) code = cells_set(t, i, error);
  return tsx_ingest_end_row(t->call, code, "row", t->number++, error);
}

/* Takes the rows of the run's block, from the current one on. */
static int cells_block(cells_taker *t, tsr_error *error) {
  uint64_t row, taken = 0, alone = 0;
  const uint64_t rows = tsx_run_rows(t->run, &row);
  int numbers = rows - row < CELLS_ALONE ? 0 : cells_columns(t, rows, error);
  if (numbers < 0) return numbers;
  while (row < rows) {
    if (numbers && !alone) TSX_TRY(tsr_ingest_block(t->call->ingest, t->columns, row, rows - row, &taken, error));
    if (taken == 0) {
      TSX_TRY(cells_row(t, row++, error));
      alone = alone ? alone - 1 : CELLS_ALONE;
      continue;
    }
    row += taken;
    t->number += taken;
    taken = 0;
  }
  tsx_run_at(t->run, rows - 1);
  return TSR_OK;
}

static int cells_take(cells_taker *t, tsr_error *error) {
  tsx_connection *connection = t->call->connection;
  int more;
  do {
    TSX_TRY(cells_block(t, error));
    if (tsx_connection_cancelled(connection)) return tsx_fail_cancelled(error);
    more = tsx_run_next(t->run, error);
  } while (more > 0);
  if (t->number > 2) tsr_environment_count_rows(connection->environment, t->number - 2); /* SQLite had the first row */
  if (more == 0 || error->code == TSR_NOMEM || error->code == TSR_INTERRUPT) return more;
  const tsr_error why = *error;
  return tsx_fail(error, why.code, "the SELECT: %s: %s", t->table, why.message);
}

/* Takes the rows if they can be taken. Returns 1, or 0. */
static int cells_try(cells_taker *t, sqlite3_stmt *statement, tsr_error *error) {
  tsx_select select = {0};
  tsx_parse_doubt doubt;
  tsr_error ignored = {0};
  const char *text = sqlite3_sql(statement);
  if (!text || sqlite3_bind_parameter_count(statement) > 0 || !t->call->connection->tables.query_scan) return 0;
  t->number = 1;
  t->items = sqlite3_malloc64(t->call->source.count * sizeof *t->items);
  t->columns = sqlite3_malloc64(t->call->options.column_count * sizeof *t->columns);
  if (!t->items || !t->columns) return tsx_out_of_memory(error);
  char *copy = tsx_statement_copy(text);
  if (!copy) return tsx_out_of_memory(error);
  int code = tsx_select_parse(copy, &select, &doubt, &ignored);
  sqlite3_free(copy);
  if (code >= 0) code = cells_find(t, &select, error);
  else if (code != TSR_NOMEM) code = 0;
  tsx_select_free(&select);
  if (code <= 0 || !cells_need_no_conversion(t)) return code < 0 ? code : 0;
  code = cells_take(t, error);
  return code < 0 ? code : 1;
}

int tsx_cells_rows(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) {
  cells_taker t = {.call = call};
  const int code = cells_try(&t, statement, error);
  sqlite3_free(t.items);
  sqlite3_free(t.columns);
  sqlite3_free(t.words);
  sqlite3_free(t.nulls);
  return code;
}
