/* table_function.c: the framework of the tessera_* table-valued functions: eponymous virtual tables whose hidden
 * columns are their arguments:
 *
 *   SELECT ... FROM tessera_tiles('data/weather') WHERE field = 'temp'
 *
 * The hidden columns follow the visible ones: the arguments, then array_key, as_of, since and array_schema. Bit i of
 * idxNum says that hidden column i is constrained; xFilter receives the values in that order. If a join order does not
 * supply the value of a hidden column, xBestIndex rejects it with SQLITE_CONSTRAINT.
 *
 * Two tables without arguments are implemented here: tessera_stats shows this connection's counters since the last
 * SELECT tessera_reset_stats(), tessera_progress the long operations that this process is running.
 *
 * Sections: declaration, arguments, scans, tessera_stats, tessera_progress. */
#include "call/table_function.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "table/table.h"

static const tsx_about about_stats, about_progress;
static const tsx_about *const abouts[] = {
    &about_stats,         &tsx_about_array,      &tsx_about_schema,  &tsx_about_enumeration, &tsx_about_fragments,
    &tsx_about_tiles,     &tsx_about_metadata,   &tsx_about_members, &tsx_about_objects,     &tsx_about_check,
    &tsx_about_aggregate, &tsx_about_partitions, &tsx_about_gaps,    &tsx_about_advise,      &tsx_about_attached,
    &about_progress,      &tsx_about_log,        &tsx_about_cover,
};

typedef struct module_data {
  tsx_connection *connection;
  const tsx_about *about;
} module_data;

typedef struct about_table {
  sqlite3_vtab base;
  tsx_connection *connection;
  const tsx_about *about;
  int shown, hidden; /* columns */
} about_table;

static const tsx_about *about_of(const tsx_scan *scan) { return ((const about_table *)scan->base.pVtab)->about; }

/* ---- Declaration ------------------------------------------------------------------------------------------------- */

/* Returns the text for sqlite3_declare_vtab. Hidden columns are BLOB: without affinity, SQLite does not convert the
 * arguments. */
static char *tables_declare(const tsx_about *about, int *shown, int *hidden) {
  static const char *const last[TSX_HIDDEN_LAST] = {"array_key", "as_of", "since", "array_schema"};
  sqlite3_str *out = sqlite3_str_new(NULL);
  sqlite3_str_appendall(out, "CREATE TABLE x(");
  for (*shown = 0; about->columns[*shown]; (*shown)++)
    sqlite3_str_appendf(out, "%s%s", *shown ? ", " : "", about->columns[*shown]);
  for (*hidden = 0; about->arguments && about->arguments[*hidden]; (*hidden)++)
    sqlite3_str_appendf(out, ", %s BLOB HIDDEN", about->arguments[*hidden]);
  for (int i = 0; about->arguments && i < TSX_HIDDEN_LAST; i++, (*hidden)++)
    sqlite3_str_appendf(out, ", %s BLOB HIDDEN", last[i]);
  sqlite3_str_appendchar(out, 1, ')');
  return sqlite3_str_finish(out);
}

static int tables_connect(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                          char **message) {
  const module_data *data = argument;
  int shown, hidden;
  char *text = tables_declare(data->about, &shown, &hidden);
  int code = text ? tsx_declare(db, text) : SQLITE_NOMEM;
  if (code != SQLITE_OK && code != SQLITE_NOMEM) *message = sqlite3_mprintf("%s", sqlite3_errmsg(db));
  sqlite3_free(text);
  about_table *table = code == SQLITE_OK ? sqlite3_malloc64(sizeof *table) : NULL;
  if (!table) return code == SQLITE_OK ? SQLITE_NOMEM : code;
  *table = (about_table){.connection = data->connection, .about = data->about, .shown = shown, .hidden = hidden};
  tsx_connection_hold(table->connection);
  tsx_connection_add_table(table->connection);
  *vtab = &table->base;
  return SQLITE_OK;
}

static int tables_disconnect(sqlite3_vtab *vtab) {
  about_table *table = (about_table *)vtab;
  tsx_connection_remove_table(table->connection);
  tsx_connection_drop(table->connection);
  sqlite3_free(table);
  return SQLITE_OK;
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  const about_table *table = (const about_table *)vtab;
  const tsx_about *about = table->about;
  int chosen[TSX_ARGUMENTS_MAX + TSX_HIDDEN_LAST], given = 0, at = 0;
  for (int i = 0; i < TSX_ARGUMENTS_MAX + TSX_HIDDEN_LAST; i++) chosen[i] = -1;
  for (int pass = 0; pass < 2; pass++) /* second pass: the visible column that repeats the path, unless that is given */
    for (int i = 0; i < info->nConstraint; i++) {
      const struct sqlite3_index_constraint *c = &info->aConstraint[i];
      bool same = about->same >= 0 && c->iColumn == about->same;
      int which = same ? 0 : c->iColumn - table->shown;
      if (same != (pass == 1) || which < 0 || chosen[which] >= 0) continue;
      if (c->op != SQLITE_INDEX_CONSTRAINT_EQ && c->op != SQLITE_INDEX_CONSTRAINT_IS) continue;
      if (!c->usable) return SQLITE_CONSTRAINT;
      chosen[which] = i;
    }
  bool complete = true;
  for (int i = 0; i < about->required; i++) complete &= chosen[i] >= 0;
  for (int i = 0; i < table->hidden; i++) {
    if (chosen[i] < 0) continue;
    given |= 1 << i;
    info->aConstraintUsage[chosen[i]].argvIndex = ++at;
    info->aConstraintUsage[chosen[i]].omit = info->aConstraint[chosen[i]].iColumn >= table->shown;
  }
  info->idxNum = given;
  /* SQLite tries the branches of an OR without the arguments. So missing arguments are no error here, just very
   * expensive; xFilter fails if SQLite chooses this plan. */
  info->estimatedRows = complete ? (sqlite3_int64)about->rows : INT64_MAX >> 8;
  info->estimatedCost = complete ? 1000 + about->rows : 1e99;
  return SQLITE_OK;
}

static void tables_clear(tsx_scan *scan) {
  const tsx_about *about = about_of(scan);
  if (scan->state && about->close) about->close(scan);
  sqlite3_free(scan->state);
  scan->state = NULL;
  for (int i = 0; i < TSX_ARGUMENTS_MAX + TSX_HIDDEN_LAST; i++) {
    sqlite3_value_free(scan->hidden[i]);
    scan->hidden[i] = NULL;
  }
}

int tsx_scan_address(tsx_scan *scan, tsx_address *address, tsr_error *error) {
  const about_table *table = (const about_table *)scan->base.pVtab;
  sqlite3_value *const *last = &scan->hidden[table->hidden - TSX_HIDDEN_LAST];
  const int code = tsx_address_open(scan->connection, scan->hidden[0], last[0], last[1], last[2], address, error);
  return code < 0 ? code : tsx_address_expect(address, last[3], error);
}

void tsx_scan_address_arguments(const tsx_scan *scan, sqlite3_value *arguments[TSX_ADDRESS_ARGUMENTS]) {
  const about_table *table = (const about_table *)scan->base.pVtab;
  arguments[0] = scan->hidden[0];
  for (int i = 0; i < TSX_HIDDEN_LAST; i++) arguments[1 + i] = scan->hidden[table->hidden - TSX_HIDDEN_LAST + i];
}

/* ---- Scans ------------------------------------------------------------------------------------------------------- */

static int open_scan(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  tsx_scan *scan = sqlite3_malloc64(sizeof *scan);
  if (!scan) return SQLITE_NOMEM;
  memset(scan, 0, sizeof *scan);
  scan->connection = ((about_table *)vtab)->connection;
  tsx_connection_add_cursor(scan->connection);
  *out = &scan->base;
  return SQLITE_OK;
}

static int close_scan(sqlite3_vtab_cursor *cursor) {
  tsx_scan *scan = (tsx_scan *)cursor;
  tables_clear(scan);
  if (scan->kept) scan->free_kept(scan->kept);
  tsx_connection_remove_cursor(scan->connection);
  sqlite3_free(scan);
  return SQLITE_OK;
}

static int tables_next(sqlite3_vtab_cursor *cursor) {
  tsx_scan *scan = (tsx_scan *)cursor;
  tsr_error error;
  tsx_error_init(&error);
  int code = about_of(scan)->next(scan, &error);
  scan->row++;
  scan->done = code <= 0;
  return code < 0 ? tsx_vtab_error(cursor->pVtab, &error) : SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *cursor, int given, const char *text, int count, sqlite3_value **values) {
  tsx_scan *scan = (tsx_scan *)cursor;
  const tsx_about *about = about_of(scan);
  tsr_error error = {0};
  tables_clear(scan);
  scan->row = 0;
  scan->done = true;
  for (int i = 0, at = 0; i < TSX_ARGUMENTS_MAX + TSX_HIDDEN_LAST && at < count; i++)
    if (given >> i & 1 && !(scan->hidden[i] = sqlite3_value_dup(values[at++]))) return SQLITE_NOMEM;
  for (int i = 0; i < about->required; i++)
    if (!scan->hidden[i])
      return tsx_vtab_fail(cursor->pVtab, SQLITE_ERROR, "%s needs %s: %s", about->name,
                           about->required > 1 ? "its arguments" : "its argument", about->usage);
  for (int i = 0; i < about->required; i++) /* NULL gives no rows, as with SQLite's table-valued functions */
    if (sqlite3_value_type(scan->hidden[i]) == SQLITE_NULL) return SQLITE_OK;
  if (!(scan->state = sqlite3_malloc64(about->state_size))) return SQLITE_NOMEM;
  memset(scan->state, 0, about->state_size);
  if (about->open(scan, &error) < 0) return tsx_vtab_error(cursor->pVtab, &error);
  return tables_next(cursor);
}

static int scan_eof(sqlite3_vtab_cursor *cursor) { return ((tsx_scan *)cursor)->done; }

static int column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int number) {
  tsx_scan *scan = (tsx_scan *)cursor;
  const about_table *table = (const about_table *)cursor->pVtab;
  tsr_error error;
  tsx_error_init(&error);
  if (number >= table->shown) {
    sqlite3_value *value = scan->hidden[number - table->shown];
    if (value) sqlite3_result_value(context, value);
  } else if (table->about->column(scan, context, number, &error) < 0) {
    tsx_result_error(context, &error);
  }
  return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out) {
  *out = ((tsx_scan *)cursor)->row;
  return SQLITE_OK;
}

/* There is no xCreate: the tables are eponymous only. */
static const sqlite3_module about_module = {.xConnect = tables_connect,
                                            .xBestIndex = best_index,
                                            .xDisconnect = tables_disconnect,
                                            .xOpen = open_scan,
                                            .xClose = close_scan,
                                            .xFilter = filter,
                                            .xNext = tables_next,
                                            .xEof = scan_eof,
                                            .xColumn = column,
                                            .xRowid = rowid};

static void drop_module_data(void *argument) {
  module_data *data = argument;
  tsx_connection_drop(data->connection);
  sqlite3_free(data);
}

int tsx_register_tables(tsx_connection *connection) {
  for (size_t i = 0; i < sizeof abouts / sizeof *abouts; i++) {
    module_data *data = sqlite3_malloc64(sizeof *data);
    if (!data) return SQLITE_NOMEM;
    *data = (module_data){connection, abouts[i]};
    tsx_connection_hold(connection); /* SQLite calls the destructor, which drops it, even if this call fails */
    int code = sqlite3_create_module_v2(connection->db, abouts[i]->name, &about_module, data, drop_module_data);
    if (code != SQLITE_OK) return code;
  }
  return SQLITE_OK;
}

/* ---- tessera_stats ----------------------------------------------------------------------------------------------- */

static const char *const counter_names[] = {
#define X(name) #name,
    TSR_COUNTERS(X)
#undef X
};
#define COUNTER_COUNT ((sqlite3_int64)(sizeof counter_names / sizeof *counter_names))

static int stats_open(tsx_scan *scan, tsr_error *error) {
  tsr_environment_counters(scan->connection->environment, scan->state); /* all rows show the same moment */
  return TSR_OK;
}

static int stats_next(tsx_scan *scan, tsr_error *error) { return scan->row < COUNTER_COUNT; }

static int stats_column(tsx_scan *scan, sqlite3_context *context, int number, tsr_error *error) {
  uint64_t value;
  memcpy(&value, (const uint8_t *)scan->state + (scan->row - 1) * (sqlite3_int64)sizeof value, sizeof value);
  if (number == 0) sqlite3_result_text(context, counter_names[scan->row - 1], -1, SQLITE_STATIC);
  else tsx_result_unsigned(context, value);
  return TSR_OK;
}

static const tsx_about about_stats = {.name = "tessera_stats",
                                      .usage = "tessera_stats",
                                      .columns = (const char *const[]){"name TEXT", "value INTEGER", NULL},
                                      .same = -1,
                                      .rows = 13,
                                      .state_size = sizeof(tsr_counters),
                                      .open = stats_open,
                                      .next = stats_next,
                                      .column = stats_column};

/* ---- tessera_progress -------------------------------------------------------------------------------------------- */

typedef struct progress { /* copied when the scan begins */
  uint64_t count;
  tsr_progress entries[TSR_PROGRESS_MAX];
} progress;

static int progress_open(tsx_scan *scan, tsr_error *error) {
  progress *p = scan->state;
  p->count = tsr_progress_list(p->entries, TSR_PROGRESS_MAX);
  return TSR_OK;
}

static int progress_next(tsx_scan *scan, tsr_error *error) {
  return (uint64_t)scan->row < ((const progress *)scan->state)->count;
}

static int progress_column(tsx_scan *scan, sqlite3_context *context, int number, tsr_error *error) {
  const tsr_progress *entry = &((const progress *)scan->state)->entries[scan->row - 1];
  if (number == 0) sqlite3_result_text(context, entry->operation, -1, SQLITE_TRANSIENT);
  else if (number == 1) sqlite3_result_text(context, entry->path, -1, SQLITE_TRANSIENT);
  else if (number == 4) tsx_result_unsigned(context, entry->started);
  else if (number == 2 || entry->total) tsx_result_unsigned(context, number == 2 ? entry->done : entry->total);
  return TSR_OK; /* a total of 0 is still unknown: NULL */
}

static const tsx_about about_progress = {.name = "tessera_progress",
                                         .usage = "tessera_progress",
                                         .columns = (const char *const[]){"operation TEXT", "path TEXT", "done INTEGER",
                                                                          "total INTEGER", "started INTEGER", NULL},
                                         .same = -1,
                                         .rows = 4,
                                         .state_size = sizeof(progress),
                                         .open = progress_open,
                                         .next = progress_next,
                                         .column = progress_column};
