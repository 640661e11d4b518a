/* tables.c: the tessera_* tables. tessera_stats: this connection's counters since the last SELECT
 * tessera_reset_stats(). */
#include "extension.h"

typedef struct stats_table {
  sqlite3_vtab base;
  tsx_connection *connection;
} stats_table;

typedef struct stats_cursor {
  sqlite3_vtab_cursor base;
  uint32_t row;
  tsr_counters counters; /* as they were when the scan began */
} stats_cursor;

static const char *const counter_names[] = {
#define X(name) #name,
    TSR_COUNTERS(X)
#undef X
};
#define COUNTER_COUNT (sizeof counter_names / sizeof *counter_names)

static int stats_connect(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                         char **message) {
  int code = sqlite3_declare_vtab(db, "CREATE TABLE x(name TEXT, value INTEGER)");
  if (code != SQLITE_OK) return code;
  stats_table *table = sqlite3_malloc64(sizeof *table);
  if (!table) return SQLITE_NOMEM;
  memset(table, 0, sizeof *table);
  table->connection = argument;
  tsx_connection_hold(table->connection);
  *vtab = &table->base;
  return SQLITE_OK;
}

static int stats_disconnect(sqlite3_vtab *vtab) {
  tsx_connection_drop(((stats_table *)vtab)->connection);
  sqlite3_free(vtab);
  return SQLITE_OK;
}

static int stats_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  info->estimatedCost = info->estimatedRows = COUNTER_COUNT;
  return SQLITE_OK;
}

static int stats_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  stats_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  if (!cursor) return SQLITE_NOMEM;
  memset(cursor, 0, sizeof *cursor);
  *out = &cursor->base;
  return SQLITE_OK;
}

static int stats_close(sqlite3_vtab_cursor *cursor) {
  sqlite3_free(cursor);
  return SQLITE_OK;
}

static int stats_filter(sqlite3_vtab_cursor *base, int number, const char *text, int count, sqlite3_value **values) {
  stats_cursor *cursor = (stats_cursor *)base;
  cursor->row = 0;
  tsr_environment_counters(((stats_table *)base->pVtab)->connection->environment, &cursor->counters);
  return SQLITE_OK;
}

static int stats_next(sqlite3_vtab_cursor *base) {
  ((stats_cursor *)base)->row++;
  return SQLITE_OK;
}

static int stats_eof(sqlite3_vtab_cursor *base) { return ((stats_cursor *)base)->row >= COUNTER_COUNT; }

static int stats_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column) {
  stats_cursor *cursor = (stats_cursor *)base;
  uint64_t value;
  memcpy(&value, (const uint8_t *)&cursor->counters + cursor->row * sizeof value, sizeof value);
  if (column == 0) sqlite3_result_text(context, counter_names[cursor->row], -1, SQLITE_STATIC);
  else sqlite3_result_int64(context, (sqlite3_int64)value);
  return SQLITE_OK;
}

static int stats_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  *rowid = ((stats_cursor *)base)->row + 1;
  return SQLITE_OK;
}

/* Eponymous only: there is no xCreate. */
static const sqlite3_module stats_module = {.xConnect = stats_connect,
                                            .xBestIndex = stats_best_index,
                                            .xDisconnect = stats_disconnect,
                                            .xOpen = stats_open,
                                            .xClose = stats_close,
                                            .xFilter = stats_filter,
                                            .xNext = stats_next,
                                            .xEof = stats_eof,
                                            .xColumn = stats_column,
                                            .xRowid = stats_rowid};

int tsx_register_tables(tsx_connection *connection) {
  tsx_connection_hold(connection);
  return sqlite3_create_module_v2(connection->db, "tessera_stats", &stats_module, connection, tsx_connection_drop);
}
