/* select_rows.c: the rows of a SELECT for an ingest. The SELECT is run once, since it may give other rows the second time.
 * A column that is a column of a tessera table keeps its exact type, its enumeration and its filters; the types of the
 * others come from all of their values. */
#include "functions/select_rows.h"

#include <string.h>

#include "connection/errors.h"
#include "table/label_columns.h"
#include "values/slice.h"
#include "table/module.h"
#include "table/savepoint.h"
#include "query/query_table.h"

/* ---- The statement ----------------------------------------------------------------------------------------------- */

/* Whether a statement follows in `sql`, and no comments alone. */
static bool select_follows(sqlite3 *db, const char *sql) {
  bool follows = false;
  for (const char *rest = sql; *sql && !follows; sql = rest) {
    sqlite3_stmt *statement = NULL;
    follows = sqlite3_prepare_v2(db, sql, -1, &statement, &rest) != SQLITE_OK || statement || rest == sql;
    sqlite3_finalize(statement);
  }
  return follows;
}

int tsx_select_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **statement, tsr_error *error) {
  const char *rest = "";
  const int answer = sqlite3_prepare_v2(db, sql, -1, statement, &rest);
  if (answer != SQLITE_OK) return tsx_fail(error, tsx_core_code(answer), "the SELECT: %s", sqlite3_errmsg(db));
  rest += strspn(rest, " \t\r\n;");
  if (!*statement || sqlite3_column_count(*statement) == 0 || !sqlite3_stmt_readonly(*statement))
    return tsx_fail(error, TSR_ERROR, "expected a SELECT that changes nothing");
  if (select_follows(db, rest))
    return tsx_fail(error, TSR_ERROR, "expected one statement: another follows at '%.40s'", rest);
  if (sqlite3_bind_parameter_count(*statement))
    return tsx_fail(error, TSR_ERROR, "the SELECT has parameters: write the values into it");
  return TSR_OK;
}

/* Returns the table whose plain column a result column is, or NULL, and sets *column. */
static const tsx_table *select_origin(const tsx_connection *connection, sqlite3_stmt *statement, int i,
                                      const tsx_column **column) {
#ifndef SQLITE_CORE
  if (!sqlite3_api->column_table_name || !sqlite3_api->column_origin_name || !sqlite3_api->column_database_name)
    return NULL; /* SQLite was built without SQLITE_ENABLE_COLUMN_METADATA */
  const char *schema = sqlite3_column_database_name(statement, i), *name = sqlite3_column_table_name(statement, i),
             *origin = sqlite3_column_origin_name(statement, i);
  if (!schema || !name || !origin) return NULL;
  for (const tsx_table *t = connection->tables.arrays; t; t = t->next) {
    if (sqlite3_stricmp(t->schema_name, schema) != 0 || sqlite3_stricmp(t->name, name) != 0) continue;
    for (uint32_t c = 0; t->schema && c < t->column_count; c++) {
      *column = &t->columns[c];
      if (!sqlite3_stricmp((*column)->name, origin)) return t;
    }
    for (uint32_t l = 0; t->schema && l < t->label_count; l++) {
      *column = &t->labels[l].column;
      if (!sqlite3_stricmp(t->labels[l].name, origin)) /* the texts of labels are of no certain type */
        return (*column)->form == TSX_TEXT ? NULL : t;
    }
  }
#endif
  return NULL;
}

/* Gives a column the type, the labels and the filters of a table's column. */
static int select_exact(const tsx_table *table, const tsx_column *shown, tsr_ingest_column *column, tsr_error *error) {
  const tsr_field *field = shown->description;
  if (field->datatype == TSR_ANY) return TSR_OK;
  if (field->enumeration) {
    const tsr_enumeration *e;
    if (shown->form != TSX_LABEL || table->options.shows.enums_code) return TSR_OK;
    const int code = tsr_array_enumeration(table->array->core, table->schema, field->enumeration, &e, error);
    if (code < 0 || tsr_datatype_kind(e->datatype) != TSR_KIND_TEXT) return code;
    column->labels = true;
    column->enumeration = e;
  }
  column->typed = !field->enumeration;
  column->datatype = field->datatype;
  column->values_per_cell = field->values_per_cell;
  if (field->filters.count) column->filters = &field->filters;
  column->nullable &= field->is_dimension || field->nullable;
  return TSR_OK;
}

/* Takes what the declaration of a column of an ordinary table says: dates, and the type of a column without values. */
static void select_declared(const char *declared, tsr_ingest_column *column) {
  if (!declared) return;
  if (!sqlite3_stricmp(declared, "DATE")) column->declared = TSR_INGEST_DATES;
  if (!sqlite3_strnicmp(declared, "DATETIME", 8) || !sqlite3_strnicmp(declared, "TIMESTAMP", 9))
    column->declared = TSR_INGEST_INSTANTS;
  static const struct {
    const char *pattern;
    tsr_datatype datatype;
  } affinities[] = {{"*INT*", TSR_INT64}, {"*CHAR*", TSR_UTF8},    {"*CLOB*", TSR_UTF8},    {"*TEXT*", TSR_UTF8},
                    {"*BLOB*", TSR_BLOB}, {"*REAL*", TSR_FLOAT64}, {"*FLOA*", TSR_FLOAT64}, {"*DOUB*", TSR_FLOAT64}};
  char upper[64];
  size_t size = 0;
  for (; declared[size] && size + 1 < sizeof upper; size++)
    upper[size] = declared[size] >= 'a' && declared[size] <= 'z' ? (char)(declared[size] - 32) : declared[size];
  upper[size] = 0;
  for (size_t i = 0; i < sizeof affinities / sizeof *affinities && !column->has_empty; i++) {
    column->has_empty = sqlite3_strglob(affinities[i].pattern, upper) == 0;
    column->empty = affinities[i].datatype;
  }
}

#ifndef SQLITE_CORE
/* Returns the only table of which result columns are plain columns, or false. */
static bool select_only_table(sqlite3_stmt *statement, const char **schema, const char **name) {
  *name = NULL;
  if (!sqlite3_api->column_table_name || !sqlite3_api->column_origin_name || !sqlite3_api->column_database_name)
    return false; /* SQLite was built without SQLITE_ENABLE_COLUMN_METADATA */
  for (int i = 0; i < sqlite3_column_count(statement); i++) {
    const char *home = sqlite3_column_database_name(statement, i), *table = sqlite3_column_table_name(statement, i);
    if (!home || !table) continue;
    if (*name && (strcmp(*name, table) != 0 || strcmp(*schema, home) != 0)) return false;
    *name = table;
    *schema = home;
  }
  return *name != NULL;
}

/* Finds the result column that is the plain column of this name. Returns false if there is none. */
static bool select_find_plain(sqlite3_stmt *statement, const char *origin, uint32_t *column) {
  const int count = sqlite3_column_count(statement);
  for (int i = 0; i < count; i++) {
    const char *name = sqlite3_column_origin_name(statement, i);
    if (!name || sqlite3_stricmp(name, origin) != 0) continue;
    *column = (uint32_t)i;
    return true;
  }
  return false;
}

/* Makes the keys of a query's GROUP BY dimensions, if the rows come from the table of a query and have all keys. The
 * option `dimensions` overrides it. */
static int select_keys(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) {
  const char *schema, *name;
  sqlite3_stmt *names = NULL;
  if (call->source.is_rows || !select_only_table(statement, &schema, &name)) return TSR_OK;
  const int keys = tsx_query_table_keys(call->connection, schema, name, call->dimensions, call->source.count, error);
  if (keys <= 0) return keys;
  char *sql = sqlite3_mprintf("SELECT * FROM \"%w\".\"%w\"", schema, name);
  const int answer = sql ? sqlite3_prepare_v2(call->connection->db, sql, -1, &names, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  if (answer != SQLITE_OK) return tsx_fail(error, tsx_core_code(answer), "%s", sqlite3_errmsg(call->connection->db));
  bool all = true;
  for (int k = 0; k < keys && all; k++) {
    const char *key = sqlite3_column_name(names, (int)call->dimensions[k]);
    all = key && select_find_plain(statement, key, &call->dimensions[k]);
  }
  sqlite3_finalize(names);
  if (all) call->options.dimension_count = (uint32_t)keys;
  return TSR_OK;
}
#else
static int select_keys(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) { return TSR_OK; }
#endif

int tsx_select_columns(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) {
  int code = TSR_OK;
  for (uint32_t i = 0; code == TSR_OK && i < call->source.count; i++) {
    const char *name = sqlite3_column_name(statement, (int)i);
    const tsx_column *shown = NULL;
    if (!name) return tsx_out_of_memory(error);
    code = tsx_ingest_name_column(call, i, name, error);
    const tsx_table *table = select_origin(call->connection, statement, (int)i, &shown);
    if (code == TSR_OK) select_declared(sqlite3_column_decltype(statement, (int)i), &call->columns[i]);
    if (code == TSR_OK && table) code = select_exact(table, shown, &call->columns[i], error);
  }
  return code == TSR_OK ? select_keys(call, statement, error) : code;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

/* Sets a value that is not simply a number, text or bytes: a JSON array, an instant that is an integer. */
static int select_set_converted(tsx_ingest_call *call, uint32_t column, sqlite3_value *value, tsr_error *error) {
  const tsr_ingest_column *c = &call->columns[column];
  uint8_t *bytes = NULL;
  uint64_t size = 0;
  int code = tsx_bytes_convert(value, c->datatype, &bytes, &size, error);
  if (code < 0 && code != TSR_NOMEM) {
    tsr_error why = *error;
    code = tsx_fail(error, code, "column '%s': %s", c->name, why.message);
  }
  int64_t instant;
  if (code == TSR_OK && c->values_per_cell == 1 && size == sizeof instant) {
    memcpy(&instant, bytes, sizeof instant);
    code = tsr_ingest_set_integer(call->ingest, column, instant, error);
  } else if (code == TSR_OK) code = tsr_ingest_set_bytes(call->ingest, column, false, bytes, size, error);
  sqlite3_free(bytes);
  return code;
}

static bool select_converts(const tsr_ingest_column *c, int type) {
  if (!c->typed) return false;
  const tsr_kind kind = tsr_datatype_kind(c->datatype);
  if (kind == TSR_KIND_TEXT) return c->datatype > TSR_UTF8 && c->datatype <= TSR_UCS4;
  if (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) return c->values_per_cell != 1 || type == SQLITE_INTEGER;
  return kind != TSR_KIND_BYTES && c->values_per_cell != 1;
}

/* One call of sqlite3_column_value takes the connection's mutex; sqlite3_value_int64 and the like take none. They are
 * allowed here although such a value is "unprotected": the calling SQL function runs in a statement of this connection,
 * so this thread holds the mutex throughout. */
static int select_set(tsx_ingest_call *call, sqlite3_stmt *statement, int i, tsr_error *error) {
  sqlite3_value *value = sqlite3_column_value(statement, i);
  const int type = sqlite3_value_type(value);
  const uint32_t column = (uint32_t)call->source.kept[i];
  if (type == SQLITE_NULL) return TSR_OK;
  if (select_converts(&call->columns[column], type)) return select_set_converted(call, column, value, error);
  if (type == SQLITE_INTEGER) return tsr_ingest_set_integer(call->ingest, column, sqlite3_value_int64(value), error);
  if (type == SQLITE_FLOAT) return tsr_ingest_set_real(call->ingest, column, sqlite3_value_double(value), error);
  const void *bytes = type == SQLITE_TEXT ? (const void *)sqlite3_value_text(value) : sqlite3_value_blob(value);
  const uint64_t size = (uint64_t)sqlite3_value_bytes(value);
  if (!bytes && size) return tsx_out_of_memory(error);
  return tsr_ingest_set_bytes(call->ingest, column, type == SQLITE_TEXT, bytes ? bytes : "", size, error);
}

/* Steps the SELECT, whose functions have savepoints of their own. */
static int select_step(tsx_connection *connection, sqlite3_stmt *statement) {
  const tsx_function_savepoint savepoint = tsx_savepoint_leave(connection);
  const int answer = sqlite3_step(statement);
  tsx_savepoint_return(connection, &savepoint);
  return answer;
}

int tsx_select_rows(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) {
  int answer, code = TSR_OK;
  for (uint64_t number = 1; (answer = select_step(call->connection, statement)) == SQLITE_ROW; number++) {
    for (uint32_t i = 0; code == TSR_OK && i < call->source.count; i++)
      if (call->source.kept[i] >= 0) code = select_set(call, statement, (int)i, error);
    code = tsx_ingest_end_row(call, code, "row", number, error);
    if (code < 0) return code;
  }
  if (answer == SQLITE_DONE && sqlite3_reset(statement) == SQLITE_OK) return TSR_OK;
  return tsx_fail(error, tsx_core_code(answer), "the SELECT: %s", sqlite3_errmsg(call->connection->db));
}
