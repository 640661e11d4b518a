/* create.c: arrays from the rows of a SELECT (tessera_create_as) and from a CSV file (tessera_create_csv). ingest.c has
 * the rest of such a call: the options, and making or appending to the array.
 *
 * A SELECT runs once, since it may return different rows the second time. A result column that is a column of a tessera
 * table keeps its exact type, enumeration and filters; the ingest infers the types of the others from all of their
 * values. tessera_rows uses the same functions.
 *
 * A CSV file is read twice: the first pass infers the types of columns from all fields, the second converts the fields.
 * So it must be a regular file that nobody changes meanwhile.
 *
 * Sections: the statement, UNION, rows, tessera_create_as; then for CSV: the file, options, names, types, values. */
#define _FILE_OFFSET_BITS 64

#include "data/data.h"

#include <string.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "connection/errors.h"
#include "table/table.h"
#include "values/slice.h"
#include "query/query_table.h"
#include "data/ingest.h"
#include "tessera_path.h"
#include "sql/json.h"
#include "sql/literals.h"
#include "sql/names.h"
#include "sql/statement.h"
#include "sql/unions.h"

/* ---- The statement ----------------------------------------------------------------------------------------------- */

/* Returns true if `sql` has another statement, not just comments. */
static bool select_follows(sqlite3 *db, const char *sql) {
  bool follows = false;
  for (const char *rest = sql; *sql && !follows; sql = rest) {
    sqlite3_stmt *statement = NULL;
    follows = sqlite3_prepare_v2(db, sql, -1, &statement, &rest) != SQLITE_OK || statement || rest == sql;
    sqlite3_finalize(statement);
  }
  return follows;
}

int tsx_select_prepare(sqlite3 *db, const char *sql, int count, sqlite3_value *const *values, sqlite3_stmt **statement,
                       tsr_error *error) {
  const char *rest = "";
  const int answer = sqlite3_prepare_v2(db, sql, -1, statement, &rest);
  if (answer != SQLITE_OK) return tsx_fail(error, tsx_core_code(answer), "the SELECT: %s", sqlite3_errmsg(db));
  rest += strspn(rest, " \t\r\n;");
  if (!*statement || sqlite3_column_count(*statement) == 0 || !sqlite3_stmt_readonly(*statement))
    return tsx_fail(error, TSR_ERROR, "expected a SELECT that changes nothing");
  if (select_follows(db, rest))
    return tsx_fail(error, TSR_ERROR, "expected one statement: another follows at '%.40s'", rest);
  const int parameters = sqlite3_bind_parameter_count(*statement);
  if (parameters && !count) return tsx_fail(error, TSR_ERROR, "the SELECT has parameters: write the values into it");
  if (parameters != count)
    return tsx_fail(error, TSR_ERROR, "%d parameter%s, %d value%s", parameters, parameters == 1 ? "" : "s", count,
                    count == 1 ? "" : "s");
  int bound = SQLITE_OK;
  for (int i = 0; i < count && bound == SQLITE_OK; i++) bound = sqlite3_bind_value(*statement, i + 1, values[i]);
  return tsx_core_result(db, bound, error);
}

/* Finds the tessera table of which a result column is a plain column or label, and sets *column; else *table is
 * NULL. */
static int select_origin(const tsx_connection *connection, sqlite3_stmt *statement, int i, const tsx_table **table,
                         const tsx_column **column, tsr_error *error) {
  *table = NULL;
#ifndef SQLITE_CORE
  if (!sqlite3_api->column_table_name || !sqlite3_api->column_origin_name || !sqlite3_api->column_database_name)
    return TSR_OK; /* SQLite was built without SQLITE_ENABLE_COLUMN_METADATA */
  const char *schema = sqlite3_column_database_name(statement, i), *name = sqlite3_column_table_name(statement, i),
             *origin = sqlite3_column_origin_name(statement, i);
  if (!schema || !name || !origin) return TSR_OK;
  const tsx_table *t = tsx_table_connected(connection, schema, name);
  tsx_table_kind kind = TSX_TABLE_ARRAY;
  if (!t || !t->schema) return TSR_OK;
  if (!t->registered) TSX_TRY(tsx_table_kind_find(connection, schema, name, &kind, error));
  if (kind != TSX_TABLE_ARRAY) return TSR_OK;
  for (uint32_t c = 0; c < t->column_count && !*table; c++) {
    *column = &t->columns[c];
    if (!sqlite3_stricmp((*column)->name, origin)) *table = t;
  }
  for (uint32_t l = 0; l < t->label_count && !*table; l++) {
    if (sqlite3_stricmp(t->labels[l].name, origin) != 0) continue;
    *column = &t->labels[l].column;
    if ((*column)->form == TSX_TEXT) break; /* label texts do not determine a type */
    *table = t;
  }
#endif
  return TSR_OK;
}

/* Gives a column the exact type, enumeration and filters of a table's column. */
static int select_exact(const tsx_ingest_call *call, const tsx_table *table, const tsx_column *shown,
                        tsr_ingest_column *column, tsr_error *error) {
  const tsr_field *field = shown->description;
  if (field->datatype == TSR_ANY) return TSR_OK;
  if (field->enumeration) {
    if (shown->form != TSX_ENUMERATED || table->options.shows.enums_code) return TSR_OK;
    if (tsr_datatype_kind(shown->enumeration->datatype) != TSR_KIND_TEXT) return TSR_OK;
    column->labels = true;
    column->enumeration = shown->enumeration; /* of the table's array, or of the one that has the label */
  }
  column->typed = !field->enumeration;
  column->datatype = shown->form == TSX_UINT64_SIGNED && call->source.is_rows ? TSR_INT64 : field->datatype;
  column->values_per_cell = field->values_per_cell;
  column->duration = field->duration || shown->nat_is_null;
  if (field->filters.count) column->filters = &field->filters;
  column->nullable &= field->is_dimension || field->nullable;
  return TSR_OK;
}

/* Uses the declared type of an ordinary table's column: it marks dates and timestamps, and is the type of a column that
 * turns out to have no values. */
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
/* Finds the table that all plain result columns come from. Returns false if there is none, or several. */
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

/* Finds the result column whose origin is the table column of this name. Returns false if there is none. */
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

/* If the rows come from a tessera_query table and include all keys of its GROUP BY, makes the keys dimensions. The
 * option `dimensions` overrides this. */
static int select_keys(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) {
  const char *schema, *name;
  sqlite3_stmt *names = NULL;
  if (call->source.is_rows || !select_only_table(statement, &schema, &name)) return TSR_OK;
  const int keys = tsx_query_table_keys(call->connection, schema, name, call->dimensions, call->source.count, error);
  if (keys <= 0) return keys;
  char *sql = sqlite3_mprintf("SELECT * FROM \"%w\".\"%w\"", schema, name);
  const int answer = tsx_sql_prepare(call->connection->db, sql, &names);
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

/* Returns whether a result column comes from this table. */
static bool select_comes_from(sqlite3_stmt *statement, int i, const char *schema, const char *name) {
  const char *home = sqlite3_column_database_name(statement, i), *table = sqlite3_column_table_name(statement, i);
  return home && table && !strcmp(home, schema) && !strcmp(table, name);
}

/* Gives the columns that show datetimes, times or large UINT64 of a tessera_query table their type. `names` selects all
 * columns of the table. */
static void set_shown(tsx_ingest_call *call, sqlite3_stmt *statement, sqlite3_stmt *names, const tsx_query_shown *shown,
                      int count, const char *schema, const char *table) {
  for (int c = 0; c < count; c++) {
    const char *name = sqlite3_column_name(names, c);
    for (uint32_t i = 0; i < call->source.count && name && shown[c].typed; i++) {
      const char *origin = sqlite3_column_origin_name(statement, (int)i);
      tsr_ingest_column *column = &call->columns[i];
      if (!origin || sqlite3_stricmp(origin, name) || !select_comes_from(statement, (int)i, schema, table)) continue;
      column->typed = true;
      column->datatype = shown[c].datatype;
      column->values_per_cell = 1;
      column->duration = shown[c].duration;
    }
  }
}

static int select_shown_of(tsx_ingest_call *call, sqlite3_stmt *statement, const char *schema, const char *name,
                           tsr_error *error) {
  sqlite3_stmt *names = NULL;
  const uint32_t room = (uint32_t)sqlite3_limit(call->connection->db, SQLITE_LIMIT_COLUMN, -1);
  tsx_query_shown *shown = sqlite3_malloc64((room + UINT64_C(1)) * sizeof *shown);
  if (!shown) return tsx_out_of_memory(error);
  int count = tsx_query_table_shown(call->connection, schema, name, shown, room, error), code = count;
  if (count > 0) {
    char *sql = sqlite3_mprintf("SELECT * FROM \"%w\".\"%w\"", schema, name);
    const int answer = tsx_sql_prepare(call->connection->db, sql, &names);
    if (answer != SQLITE_OK) code = tsx_fail(error, tsx_core_code(answer), "%s", sqlite3_errmsg(call->connection->db));
    else if (count == sqlite3_column_count(names)) set_shown(call, statement, names, shown, count, schema, name);
    sqlite3_finalize(names);
  }
  sqlite3_free(shown);
  return code < 0 ? code : TSR_OK;
}

/* Of rows that come from tessera_query tables, datetimes, times and UINT64 stay what they are. */
static int select_shown(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) {
  if (!sqlite3_api->column_table_name || !sqlite3_api->column_origin_name || !sqlite3_api->column_database_name)
    return TSR_OK; /* SQLite was built without SQLITE_ENABLE_COLUMN_METADATA */
  for (int i = 0; i < (int)call->source.count; i++) {
    const char *schema = sqlite3_column_database_name(statement, i), *name = sqlite3_column_table_name(statement, i);
    bool seen = !schema || !name;
    for (int k = 0; k < i && !seen; k++) seen = select_comes_from(statement, k, schema, name);
    if (!seen) TSX_TRY(select_shown_of(call, statement, schema, name, error));
  }
  return TSR_OK;
}
#else
static int select_keys(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) { return TSR_OK; }
static int select_shown(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) { return TSR_OK; }
#endif

static int select_column(tsx_ingest_call *call, sqlite3_stmt *statement, uint32_t i, tsr_error *error) {
  const char *name = sqlite3_column_name(statement, (int)i);
  const tsx_column *shown = NULL;
  const tsx_table *table = NULL;
  if (!name) return tsx_out_of_memory(error);
  TSX_TRY(tsx_ingest_name_column(call, i, name, error));
  TSX_TRY(select_origin(call->connection, statement, (int)i, &table, &shown, error));
  select_declared(sqlite3_column_decltype(statement, (int)i), &call->columns[i]);
  return table ? select_exact(call, table, shown, &call->columns[i], error) : TSR_OK;
}

static int select_types(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) {
  for (uint32_t i = 0; i < call->source.count; i++) TSX_TRY(select_column(call, statement, i, error));
  return select_shown(call, statement, error);
}

/* ---- UNION ------------------------------------------------------------------------------------------------------- */

/* SQLite tells the origin of a column for one SELECT of a UNION alone. So a type is taken only if each SELECT gives it
 * (unions.c); of others, the ingest infers the type. Nor does it tell the origin of min() and max(), which have the
 * type of their column. */

typedef struct select_arms { /* the statements with one SELECT in place of each UNION */
  tsx_ingest_call *call;
  bool any; /* there was one, and the columns have its types */
} select_arms;

static void select_forget(tsr_ingest_column *column) {
  *column = (tsr_ingest_column){.name = column->name, .nullable = column->nullable};
}

static bool select_same(const tsr_ingest_column *a, const tsr_ingest_column *b) {
  return a->typed == b->typed && a->datatype == b->datatype && a->values_per_cell == b->values_per_cell &&
         a->duration == b->duration && a->labels == b->labels && a->enumeration == b->enumeration &&
         a->declared == b->declared;
}

/* Takes the types of the first of these statements, and forgets those in which another one differs from it; all if
 * `sql` is NULL, or a text that SQLite does not accept. */
static int select_compare(void *argument, const char *sql, tsr_error *error) {
  select_arms *arms = argument;
  tsx_ingest_call *call = arms->call;
  const uint32_t count = call->source.count;
  const uint64_t room = count + UINT64_C(1);
  tsr_ingest_column *first = call->columns, *columns = sqlite3_malloc64(room * sizeof *columns);
  char **names = sqlite3_malloc64(room * sizeof *names);
  sqlite3_stmt *statement = NULL;
  int code = columns && names ? TSR_OK : tsx_out_of_memory(error);
  const bool prepared = code >= 0 && sql &&
                        sqlite3_prepare_v2(call->connection->db, sql, -1, &statement, NULL) == SQLITE_OK && statement &&
                        sqlite3_column_count(statement) == (int)count;
  if (prepared) {
    memset(columns, 0, count * sizeof *columns);
    memcpy(names, call->source.names, count * sizeof *names); /* the names are those of the first SELECT */
    call->columns = columns;
    code = select_types(call, statement, error);
    call->columns = first;
    memcpy(call->source.names, names, count * sizeof *names);
  }
  for (uint32_t i = 0; i < count && code >= 0; i++) {
    const bool nullable = first[i].nullable || !prepared || columns[i].nullable;
    if (prepared && !arms->any) {
      columns[i].name = first[i].name;
      first[i] = columns[i];
    } else if (!prepared || !select_same(&first[i], &columns[i])) {
      select_forget(&first[i]);
    }
    first[i].nullable = nullable;
  }
  arms->any = true;
  sqlite3_finalize(statement);
  sqlite3_free(columns);
  sqlite3_free(names);
  return code;
}

/* Returns whether min() and max() of a column show values whose type SQL does not tell. */
static bool select_has_ends(const tsr_ingest_column *column) {
  const tsr_kind kind = tsr_datatype_kind(column->datatype);
  return column->typed && column->values_per_cell == 1 &&
         (kind == TSR_KIND_BOOLEAN || kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME ||
          column->datatype == TSR_UINT64);
}

/* Gives columns without a type that of the column of which they are min(), max() or the like. */
static int select_ends(tsx_ingest_call *call, const char *text, tsr_error *error) {
  tsr_ingest_column *columns = call->columns, *ends = sqlite3_malloc64((call->source.count + 1) * sizeof *ends);
  if (!ends) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < call->source.count; i++) {
    ends[i] = columns[i];
    select_forget(&ends[i]);
  }
  call->columns = ends;
  const int code =
      tsx_unions_each(call->connection->db, text, true, select_compare, &(select_arms){.call = call}, error);
  call->columns = columns;
  for (uint32_t i = 0; i < call->source.count && code >= 0; i++) {
    tsr_ingest_column *column = &columns[i];
    if (column->typed || column->labels || !select_has_ends(&ends[i])) continue;
    column->typed = true;
    column->datatype = ends[i].datatype;
    column->values_per_cell = 1;
    column->duration = ends[i].duration;
  }
  sqlite3_free(ends);
  return code;
}

int tsx_select_columns(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) {
  const char *text = sqlite3_sql(statement);
  TSX_TRY(select_types(call, statement, error));
  if (text)
    TSX_TRY(tsx_unions_each(call->connection->db, text, false, select_compare, &(select_arms){.call = call}, error));
  bool open = false; /* some column has no type */
  for (uint32_t i = 0; i < call->source.count; i++) open |= !call->columns[i].typed && !call->columns[i].labels;
  if (text && open) TSX_TRY(select_ends(call, text, error));
  return select_keys(call, statement, error);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

/* Sets a value that needs conversion: a JSON array of values, or a datetime given as an integer. */
static int select_set_converted(tsx_ingest_call *call, uint32_t column, sqlite3_value *value, tsr_error *error) {
  const tsr_ingest_column *c = &call->columns[column];
  uint8_t *bytes = NULL;
  uint64_t size = 0;
  int64_t instant;
  int code = tsx_bytes_convert(value, c->datatype, &bytes, &size, error);
  if (code < 0) {
    const tsr_error why = *error;
    return code == TSR_NOMEM ? code : tsx_fail(error, code, "column '%s': %s", c->name, why.message);
  }
  if (c->values_per_cell == 1 && size == sizeof instant) {
    memcpy(&instant, bytes, sizeof instant);
    code = tsr_ingest_set_integer(call->ingest, column, instant, error);
  } else code = tsr_ingest_set_bytes(call->ingest, column, false, bytes, size, error);
  sqlite3_free(bytes);
  return code;
}

bool tsx_select_converts(const tsr_ingest_column *c, int type) {
  if (!c->typed) return false;
  const tsr_kind kind = tsr_datatype_kind(c->datatype);
  if (kind == TSR_KIND_TEXT) return c->datatype > TSR_UTF8 && c->datatype <= TSR_UCS4;
  if (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME)
    return c->values_per_cell != 1 || (type == SQLITE_INTEGER && !c->duration);
  return kind != TSR_KIND_BYTES && c->values_per_cell != 1;
}

/* Sets one value of a row. A single sqlite3_column_value locks the connection's mutex once; sqlite3_value_int64 and the
 * like do not lock it at all. They may be used on this "unprotected" value, because the calling SQL function runs
 * within a statement of this connection, so this thread holds the mutex throughout. */
static int select_set(tsx_ingest_call *call, sqlite3_stmt *statement, int i, tsr_error *error) {
  sqlite3_value *value = sqlite3_column_value(statement, i);
  const int type = sqlite3_value_type(value);
  const uint32_t column = (uint32_t)call->source.kept[i];
  if (type == SQLITE_NULL) return TSR_OK;
  if (tsx_select_converts(&call->columns[column], type)) return select_set_converted(call, column, value, error);
  if (type == SQLITE_INTEGER) return tsr_ingest_set_integer(call->ingest, column, sqlite3_value_int64(value), error);
  if (type == SQLITE_FLOAT) return tsr_ingest_set_real(call->ingest, column, sqlite3_value_double(value), error);
  const void *bytes = type == SQLITE_TEXT ? (const void *)sqlite3_value_text(value) : sqlite3_value_blob(value);
  const uint64_t size = (uint64_t)sqlite3_value_bytes(value);
  if (!bytes && size) return tsx_out_of_memory(error);
  return tsr_ingest_set_bytes(call->ingest, column, type == SQLITE_TEXT, bytes ? bytes : "", size, error);
}

/* Steps the SELECT. Functions that it calls open savepoints of their own, so the current one is set aside. */
static int select_step(tsx_connection *connection, sqlite3_stmt *statement) {
  const tsx_function_savepoint savepoint = tsx_savepoint_leave(connection);
  const int answer = sqlite3_step(statement);
  tsx_savepoint_return(connection, &savepoint);
  return answer;
}

static int select_set_row(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) {
  for (uint32_t i = 0; i < call->source.count; i++)
    if (call->source.kept[i] >= 0) TSX_TRY(select_set(call, statement, (int)i, error));
  return TSR_OK;
}

int tsx_select_rows(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) {
  int answer = select_step(call->connection, statement);
  const int cells = answer == SQLITE_ROW ? tsx_cells_rows(call, statement, error) : 0;
  if (cells < 0) return cells;
  if (cells > 0) answer = SQLITE_DONE;
  for (uint64_t number = 1; answer == SQLITE_ROW; number++) {
    TSX_TRY(tsx_ingest_end_row(call, select_set_row(call, statement, error), "row", number, error));
    answer = select_step(call->connection, statement);
  }
  if (answer == SQLITE_DONE && sqlite3_reset(statement) == SQLITE_OK) return TSR_OK;
  return tsx_fail(error, tsx_core_code(answer), "the SELECT: %s", sqlite3_errmsg(call->connection->db));
}

/* ---- tessera_create_as ------------------------------------------------------------------------------------------- */

static int create_from(tsx_ingest_call *call, sqlite3_context *context, sqlite3_stmt *statement, sqlite3_value *path,
                       sqlite3_value *json, tsr_error *error) {
  TSX_TRY(tsx_select_columns(call, statement, error));
  TSX_TRY(tsx_ingest_options(call, path, json, error));
  TSX_TRY(tsx_ingest_open(call, error));
  TSX_TRY(tsx_select_rows(call, statement, error));
  return tsx_ingest_finish(call, context, error);
}

static int create_call(tsx_ingest_call *call, sqlite3_context *context, int count, sqlite3_value **values,
                       tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  TSX_TRY(tsx_arguments_check(count, values, 2, error));
  const char *path = (const char *)sqlite3_value_text(values[0]), *sql = (const char *)sqlite3_value_text(values[1]);
  if (!path || !sql) return tsx_out_of_memory(error);
  TSX_TRY(tsx_select_prepare(call->connection->db, sql, 0, NULL, &statement, error));
  int code = tsx_ingest_begin(call, path, (uint32_t)sqlite3_column_count(statement), error);
  if (code >= 0) code = create_from(call, context, statement, values[0], count > 2 ? values[2] : NULL, error);
  sqlite3_finalize(statement);
  return code;
}

void tsx_create_as(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_ingest_call call = {.connection = sqlite3_user_data(context)};
  tsr_error error = {0};
  tsx_connection_add_table(call.connection); /* cancellation works only while a table is counted */
  const int code = create_call(&call, context, count, values, &error);
  tsx_ingest_end(&call, code, &error);
  tsx_connection_remove_table(call.connection);
  tsx_function_end(context, "tessera_create_as", code, &error);
}

/* ---- tessera_create_csv ------------------------------------------------------------------------------------------ */

#define CSV_NUMBER 400 /* longest text of a number, in bytes */
#define CSV_EXACT  (UINT64_C(1) << 53) /* integers up to here are exact as FLOAT64 */

typedef struct csv_guess { /* what all fields of a column so far have in common */
  bool some; /* some field is not null */
  bool whole; /* all are integers, of any size */
  bool integers, unsigneds; /* all are integers that fit INT64; that fit UINT64 */
  bool reals;
  bool exact; /* the type FLOAT64 was inferred: an integer that would be rounded is an error */
} csv_guess;

typedef struct csv_call {
  tsx_ingest_call call;
  const char *file_name;
  FILE *file;
  tsr_csv *csv;
  char delimiter;
  char decimal; /* the decimal mark of numbers: a point or a comma */
  char *null; /* the text that stands for null; NULL: an empty field, except in text columns */
  bool has_names; /* the option `names` gives them: the first line is data */
  uint32_t name_count; /* names of the option so far */
  csv_guess *guesses; /* by column of the source */
} csv_call;

/* ---- The file ---------------------------------------------------------------------------------------------------- */

static int csv_call_read(void *argument, void *bytes, uint64_t size, uint64_t *got, tsr_error *error) {
  csv_call *c = argument;
  *got = fread(bytes, 1, size, c->file);
  return ferror(c->file) ? tsx_fail(error, TSR_IO, "%s: %s", c->file_name, strerror(errno)) : TSR_OK;
}

static int csv_call_open(csv_call *c, tsr_error *error) {
  struct stat status;
  TSX_TRY(tsr_path_permitted(c->call.connection->environment, c->file_name, error));
  const int descriptor = tsr_path_read(c->file_name, true);
  c->file = descriptor < 0 ? NULL : fdopen(descriptor, "rb");
  if (!c->file && descriptor >= 0) close(descriptor);
  if (!c->file)
    return tsx_fail(error,
                    errno == ENOENT   ? TSR_NOT_FOUND
                    : errno == EACCES ? TSR_PERM
                                      : TSR_IO,
                    "%s: %s", c->file_name, strerror(errno));
  if (fstat(fileno(c->file), &status) != 0 || !S_ISREG(status.st_mode))
    return tsx_fail(error, TSR_ERROR, "%s is not a regular file", c->file_name);
  return TSR_OK;
}

/* Starts reading the file from its beginning. */
static int csv_call_rewind(csv_call *c, bool skip_empty, tsr_error *error) {
  const tsr_csv_options options = {
      .read = csv_call_read, .argument = c, .delimiter = c->delimiter, .skip_empty = skip_empty};
  tsr_csv_close(c->csv);
  c->csv = NULL;
  if (fseek(c->file, 0, SEEK_SET) != 0) return tsx_fail(error, TSR_IO, "%s: %s", c->file_name, strerror(errno));
  return tsr_csv_open(c->call.connection->environment, &options, &c->csv, error);
}

/* ---- Options of CSV ---------------------------------------------------------------------------------------------- */

static int csv_call_count_name(void *argument, const tsx_json_option *o, tsr_error *error) {
  csv_call *c = argument;
  c->name_count++;
  return strcmp(o->type, "text") == 0 ? TSR_OK : tsx_fail(error, TSR_MISMATCH, "'names': expected a list of names");
}

static int csv_call_take_name(void *argument, const tsx_json_option *o, tsr_error *error) {
  csv_call *c = argument;
  const char *name = (const char *)sqlite3_value_text(o->value);
  return name ? tsx_ingest_name_column(&c->call, c->name_count++, name, error) : tsx_out_of_memory(error);
}

static int csv_call_option(void *argument, const tsx_json_option *o, tsr_error *error) {
  csv_call *c = argument;
  const char *text = strcmp(o->type, "text") == 0 ? (const char *)sqlite3_value_text(o->value) : NULL;
  if (!strcmp(o->type, "null")) return TSR_OK; /* like an absent option */
  if (!strcmp(o->key, "names")) {
    c->has_names = true;
    return tsx_elements_each(c->call.connection->db, o->value, "'names'", csv_call_count_name, c, error);
  }
  if (!strcmp(o->key, "delimiter")) {
    if (!text || strlen(text) != 1) return tsx_fail(error, TSR_MISMATCH, "'delimiter': expected one ASCII character");
    c->delimiter = *text;
  }
  if (!strcmp(o->key, "decimal")) {
    if (!text || (strcmp(text, ".") != 0 && strcmp(text, ",") != 0))
      return tsx_fail(error, TSR_MISMATCH, "'decimal': expected '.' or ','");
    c->decimal = *text;
  }
  if (!strcmp(o->key, "null")) {
    if (!text) return tsx_fail(error, TSR_MISMATCH, "'null': expected text");
    sqlite3_free(c->null);
    c->null = sqlite3_mprintf("%s", text);
    if (!c->null) return tsx_out_of_memory(error);
  }
  return TSR_OK;
}

static int csv_call_name_again(void *argument, const tsx_json_option *o, tsr_error *error) {
  csv_call *c = argument;
  if (strcmp(o->key, "names") != 0) return TSR_OK;
  c->name_count = 0;
  return tsx_elements_each(c->call.connection->db, o->value, "'names'", csv_call_take_name, c, error);
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

/* Fails if the text is not valid UTF-8. */
static int check_utf8(const char *text, uint64_t size, tsr_error *error) {
  const uint8_t *bytes = (const uint8_t *)text;
  for (uint64_t i = 0; i < size;) {
    const unsigned length = bytes[i] < 0x80 ? 1 : tsr_utf8_size(bytes + i, size - i);
    if (!length)
      return tsx_fail(error, TSR_MISMATCH, "byte %llu of the field, 0x%02X, is not UTF-8: convert the file to UTF-8",
                      (unsigned long long)i + 1, bytes[i]);
    i += length;
  }
  return TSR_OK;
}

/* Names column i after a field of the first line. */
static int csv_call_name(csv_call *c, uint32_t i, const tsr_csv_field *field, tsr_error *error) {
  if (check_utf8(field->bytes, field->size, error) < 0) {
    const tsr_error why = *error;
    return tsx_fail(error, TSR_MISMATCH, "line 1: the name of column %u: %s", (unsigned)i + 1, why.message);
  }
  if (!field->quoted && memchr(field->bytes, '\r', field->size))
    return tsx_fail(error, TSR_MISMATCH, "line 1: a CR without LF in the names: lines end with LF or CR LF");
  char *name = sqlite3_mprintf("%.*s", (int)(field->size < INT_MAX ? field->size : INT_MAX), field->bytes);
  if (!name) return tsx_out_of_memory(error);
  const int code =
      *name ? tsx_ingest_name_column(&c->call, i, name, error)
            : tsx_fail(error, TSR_ERROR, "column %u has no name: name the columns in \"names\"", (unsigned)i + 1);
  sqlite3_free(name);
  return code;
}

/* Begins the call with the names in the first line. */
static int csv_call_first_line(csv_call *c, const char *path, tsr_error *error) {
  const tsr_csv_field *fields;
  uint32_t count;
  uint64_t line;
  const int more = tsr_csv_next(c->csv, &fields, &count, &line, error);
  if (more == 0) return tsx_fail(error, TSR_ERROR, "%s is empty: the first line has the names", c->file_name);
  if (more < 0) return more;
  TSX_TRY(tsx_ingest_begin(&c->call, path, count, error));
  for (uint32_t i = 0; i < count; i++) TSX_TRY(csv_call_name(c, i, &fields[i], error));
  return TSR_OK;
}

static int csv_call_names(csv_call *c, const char *path, sqlite3_value *json, tsr_error *error) {
  sqlite3 *db = c->call.connection->db;
  const bool has_options = json && sqlite3_value_type(json) != SQLITE_NULL;
  if (has_options) TSX_TRY(tsx_options_each(db, json, "options", csv_call_option, c, error));
  if (c->decimal == ',' && (!c->delimiter || c->delimiter == ','))
    return tsx_fail(error, TSR_MISMATCH, "'decimal': the comma separates the fields: give 'delimiter', too");
  if (!c->has_names) {
    TSX_TRY(csv_call_rewind(c, true, error));
    return csv_call_first_line(c, path, error);
  }
  if (!c->name_count) return tsx_fail(error, TSR_ERROR, "'names' has no name");
  TSX_TRY(tsx_ingest_begin(&c->call, path, c->name_count, error));
  return tsx_options_each(db, json, "options", csv_call_name_again, c, error);
}

/* ---- Types ------------------------------------------------------------------------------------------------------- */

/* Returns true if a field is -?(0|[1-9][0-9]*). *magnitude is its absolute value, saturated at UINT64_MAX; *fits tells
 * whether it fits into 64 bits. */
static bool csv_is_integer(const char *text, uint64_t size, uint64_t *magnitude, bool *fits) {
  const bool negative = size > 0 && *text == '-';
  const uint64_t digits = size - negative;
  *magnitude = 0;
  *fits = true;
  if (digits == 0 || (digits > 1 && text[negative] == '0')) return false;
  for (uint64_t i = negative; i < size; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    const uint64_t digit = (uint64_t)(text[i] - '0');
    *fits = *fits && *magnitude <= (UINT64_MAX - digit) / 10;
    *magnitude = *fits ? *magnitude * 10 + digit : UINT64_MAX;
  }
  return true;
}

static uint64_t csv_digits(const char *text, uint64_t size, uint64_t at) {
  while (at < size && text[at] >= '0' && text[at] <= '9') at++;
  return at;
}

/* Returns true if a field is a number in JSON's syntax, but for its decimal mark, or nan. */
static bool csv_is_real(const char *text, uint64_t size, char decimal) {
  uint64_t at = size > 0 && *text == '-', end = csv_digits(text, size, at);
  if (size == 3 && !sqlite3_strnicmp(text, "nan", 3)) return true;
  if (end == at || (end > at + 1 && text[at] == '0') || size >= CSV_NUMBER) return false;
  if (end < size && text[end] == decimal) {
    at = end + 1;
    end = csv_digits(text, size, at);
    if (end == at) return false;
  }
  if (end < size && (text[end] == 'e' || text[end] == 'E')) {
    at = end + 1;
    at += at < size && (text[at] == '+' || text[at] == '-');
    end = csv_digits(text, size, at);
    if (end == at) return false;
  }
  return end == size;
}

static bool csv_is_null(const csv_call *c, const tsr_csv_field *field, bool is_text) {
  if (field->quoted) return false;
  if (field->size == 0 && !is_text) return true;
  return c->null && field->size == strlen(c->null) && !memcmp(field->bytes, c->null, field->size);
}

static void csv_call_look(const csv_call *c, const tsr_csv_field *field, csv_guess *guess) {
  if (csv_is_null(c, field, false)) return;
  uint64_t magnitude = 0;
  bool fits = false;
  const bool whole = !field->quoted && csv_is_integer(field->bytes, field->size, &magnitude, &fits),
             negative = whole && *field->bytes == '-';
  guess->some = true;
  guess->whole = guess->whole && whole;
  guess->integers = guess->integers && whole && fits && magnitude <= (uint64_t)INT64_MAX + negative;
  guess->unsigneds = guess->unsigneds && whole && fits && (!negative || magnitude == 0);
  guess->reals =
      guess->reals && (guess->integers || (!field->quoted && csv_is_real(field->bytes, field->size, c->decimal)));
}

/* Returns the narrowest of INT64, UINT64, FLOAT64 and UTF8 that fits all fields. */
static tsr_datatype csv_guess_datatype(const csv_guess *guess) {
  if (!guess->some) return TSR_UTF8;
  return guess->integers ? TSR_INT64 : guess->unsigneds ? TSR_UINT64 : guess->reals ? TSR_FLOAT64 : TSR_UTF8;
}

/* Starts reading at the first line of data. */
static int csv_call_begin_data(csv_call *c, tsr_error *error) {
  const tsr_csv_field *fields;
  uint32_t count;
  uint64_t line;
  TSX_TRY(csv_call_rewind(c, c->call.source.count > 1, error));
  if (!c->has_names) TSX_TRY(tsr_csv_next(c->csv, &fields, &count, &line, error));
  return TSR_OK;
}

/* Reads all lines to guess the types of columns. *some: there is a well-formed line; *unsound: there is another. */
static int csv_call_guess(csv_call *c, bool *some, bool *unsound, tsr_error *error) {
  const tsr_csv_field *fields;
  uint32_t count = 0;
  uint64_t line;
  TSX_TRY(csv_call_begin_data(c, error));
  for (;;) {
    const int more = tsr_csv_next(c->csv, &fields, &count, &line, error);
    if (more == 0 || (more < 0 && more != TSR_MISMATCH)) return more;
    const bool sound = more > 0 && count == c->call.source.count;
    for (uint32_t i = 0; sound && i < count; i++) csv_call_look(c, &fields[i], &c->guesses[i]);
    *some |= sound;
    *unsound |= !sound;
  }
}

/* Infers the types of columns that have none yet from all lines. Malformed lines are ignored here: the second pass
 * reports them. */
static int csv_call_types(csv_call *c, tsr_error *error) {
  tsx_ingest_call *call = &c->call;
  bool open = false, some = false, unsound = false; /* a type must be inferred; some line is well-formed; some is not */
  for (uint32_t i = 0; i < call->source.count; i++) {
    const tsr_ingest_column *column = call->source.kept[i] >= 0 ? &call->columns[call->source.kept[i]] : NULL;
    open |= column && (column->labels ? c->decimal == ',' : !column->typed);
    c->guesses[i] = (csv_guess){.whole = true, .integers = true, .unsigneds = true, .reals = true};
  }
  if (open) TSX_TRY(csv_call_guess(c, &some, &unsound, error));
  for (uint32_t i = 0; i < call->source.count; i++) {
    tsr_ingest_column *column = call->source.kept[i] >= 0 ? &call->columns[call->source.kept[i]] : NULL;
    csv_guess *g = &c->guesses[i];
    if (!column || column->typed || column->labels) continue;
    if (!some && (call->given.skip || !unsound)) /* else the second pass fails at a malformed line */
      return tsx_fail(error, TSR_MISMATCH, "column '%s': no line determines its type: give it in types", column->name);
    column->typed = column->ends_untyped = true;
    column->datatype = csv_guess_datatype(g);
    if (column->datatype == TSR_INT64 && g->unsigneds && (column->low_unsigned || column->high_unsigned))
      column->datatype = TSR_UINT64; /* its domain exceeds INT64 */
    g->exact = column->datatype == TSR_FLOAT64;
    column->values_per_cell = column->datatype == TSR_UTF8 ? TSR_VARIABLE : 1;
  }
  return TSR_OK;
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/* Fails if a field is an integer above 2^53 in a column whose type FLOAT64 was inferred. */
static int csv_call_check_exact(const tsr_ingest_column *column, const csv_guess *guess, const tsr_csv_field *field,
                                tsr_error *error) {
  uint64_t magnitude;
  bool fits;
  if (!guess->exact || !csv_is_integer(field->bytes, field->size, &magnitude, &fits) || magnitude <= CSV_EXACT)
    return TSR_OK;
  return tsx_fail(error, TSR_MISMATCH,
                  "column '%s': the integer %.*s is past 2^53, and %s: \"types\":{\"%s\":\"FLOAT64\"} rounds it",
                  column->name, (int)(field->size < 40 ? field->size : 40), field->bytes,
                  guess->whole ? "the column's integers fit neither INT64 nor UINT64" : "the column has REALs",
                  column->name);
}

/* Copies a number, with a point as its decimal mark. */
static void csv_copy_number(const csv_call *c, const tsr_csv_field *field, char text[CSV_NUMBER + 1]) {
  memcpy(text, field->bytes, field->size);
  text[field->size] = 0;
  char *mark = strchr(text, c->decimal);
  if (mark) *mark = '.';
}

static int csv_call_set_real(csv_call *c, uint32_t column, const tsr_csv_field *field, tsr_error *error) {
  char text[CSV_NUMBER + 1];
  double real = NAN;
  if (!csv_is_real(field->bytes, field->size, c->decimal))
    return tsx_fail(error, TSR_MISMATCH, "column '%s': '%.*s' is not a number", c->call.columns[column].name,
                    (int)(field->size < 40 ? field->size : 40), field->bytes);
  csv_copy_number(c, field, text);
  if (sqlite3_stricmp(text, "nan") != 0 && tsx_number_parse(TSR_FLOAT64, text, false, &real, error) < 0)
    return error->code;
  return tsr_ingest_set_real(c->call.ingest, column, real, error);
}

/* Sets the value of column number `source` of the file. */
static int csv_call_set(csv_call *c, uint32_t source, const tsr_csv_field *field, tsr_error *error) {
  const uint32_t column = (uint32_t)c->call.source.kept[source];
  const tsr_ingest_column *given = &c->call.columns[column];
  const tsr_kind kind = tsr_datatype_kind(given->datatype);
  const bool is_text = given->labels || kind == TSR_KIND_TEXT;
  if (csv_is_null(c, field, is_text && !given->labels)) return TSR_OK;
  if (kind == TSR_KIND_FLOAT && !is_text && given->values_per_cell == 1) {
    const int code = csv_call_check_exact(given, &c->guesses[source], field, error);
    return code < 0 ? code : csv_call_set_real(c, column, field, error);
  }
  if (kind == TSR_KIND_BOOLEAN && (field->size == 4 || field->size == 5) &&
      (!sqlite3_strnicmp(field->bytes, "true", (int)field->size) ||
       !sqlite3_strnicmp(field->bytes, "false", (int)field->size)))
    return tsr_ingest_set_integer(c->call.ingest, column, field->size == 4, error);
  if (check_utf8(field->bytes, field->size, error) < 0) {
    const tsr_error why = *error;
    return tsx_fail(error, TSR_MISMATCH, "column '%s': %s", given->name, why.message);
  }
  if (given->labels && c->decimal == ',' && c->guesses[source].reals &&
      csv_is_real(field->bytes, field->size, c->decimal)) {
    char text[CSV_NUMBER + 1];
    csv_copy_number(c, field, text);
    return tsr_ingest_set_bytes(c->call.ingest, column, true, text, field->size, error);
  }
  return tsr_ingest_set_bytes(c->call.ingest, column, true, field->bytes, field->size, error);
}

/* Sets the values of a line, unless `code` says that the line is malformed. */
static int csv_call_line(csv_call *c, int code, const tsr_csv_field *fields, uint32_t count, tsr_error *error) {
  const tsx_ingest_call *call = &c->call;
  if (code < 0) return code;
  if (count != call->source.count)
    return tsx_fail(error, TSR_MISMATCH, "%u fields, but %u columns are named", (unsigned)count,
                    (unsigned)call->source.count);
  for (uint32_t i = 0; i < count; i++)
    if (call->source.kept[i] >= 0) TSX_TRY(csv_call_set(c, i, &fields[i], error));
  return TSR_OK;
}

static int csv_call_rows(csv_call *c, tsr_error *error) {
  const tsr_csv_field *fields;
  uint32_t count;
  uint64_t line;
  TSX_TRY(csv_call_begin_data(c, error));
  for (;;) {
    int code = tsr_csv_next(c->csv, &fields, &count, &line, error);
    if (code == 0 || (code < 0 && code != TSR_MISMATCH)) return code;
    code = csv_call_line(c, code, fields, count, error);
    TSX_TRY(tsx_ingest_end_row(&c->call, code, "line", line, error));
  }
}

static int csv_call_make(csv_call *c, sqlite3_context *context, int count, sqlite3_value **values, tsr_error *error) {
  sqlite3_value *json = count > 2 ? values[2] : NULL;
  TSX_TRY(tsx_arguments_check(count, values, 2, error));
  const char *path = (const char *)sqlite3_value_text(values[0]);
  c->file_name = (const char *)sqlite3_value_text(values[1]);
  if (!path || !c->file_name) return tsx_out_of_memory(error);
  TSX_TRY(csv_call_open(c, error));
  TSX_TRY(csv_call_names(c, path, json, error));
  TSX_TRY(tsx_ingest_options(&c->call, values[0], json, error));
  if (!(c->guesses = sqlite3_malloc64(c->call.source.count * sizeof *c->guesses))) return tsx_out_of_memory(error);
  TSX_TRY(csv_call_types(c, error));
  TSX_TRY(tsx_ingest_open(&c->call, error));
  TSX_TRY(csv_call_rows(c, error));
  return tsx_ingest_finish(&c->call, context, error);
}

void tsx_create_csv(sqlite3_context *context, int count, sqlite3_value **values) {
  csv_call c = {.call = {.connection = sqlite3_user_data(context), .source = {.is_csv = true}}, .decimal = '.'};
  tsr_error error = {0};
  tsx_connection_add_table(c.call.connection); /* cancellation works only while a table is counted */
  const int code = csv_call_make(&c, context, count, values, &error);
  tsr_csv_close(c.csv);
  if (c.file) (void)fclose(c.file);
  sqlite3_free(c.null);
  sqlite3_free(c.guesses);
  tsx_ingest_end(&c.call, code, &error);
  tsx_connection_remove_table(c.call.connection);
  tsx_function_end(context, "tessera_create_csv", code, &error);
}
