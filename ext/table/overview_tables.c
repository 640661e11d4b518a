/* overview_tables.c: where the levels of an array's overviews are. In the database, each level is a table of its own.
 * Its metadata identifies it as a level, so that no other table with such a name is dropped or renamed. */
#include "table/table_internal.h"

#include <string.h>

#include "connection/errors.h"
#include "database/store_sqlite.h"
#include "sql/names.h"
#include "sql/statement.h"

char *tsx_level_path(const char *path, unsigned level) {
  int size = (int)strlen(path);
  char *schema = NULL, *name = NULL, *table = NULL, *found = NULL;
  tsr_error ignored;
  if (!tsx_store_is(path)) {
    while (size > 1 && path[size - 1] == '/') size--;
    return level ? sqlite3_mprintf("%.*s.overviews/%u", size, path, level)
                 : sqlite3_mprintf("%.*s.overviews", size, path);
  }
  if (tsx_table_name_parse(path + 3, &schema, &name, &ignored) == TSR_OK)
    table = sqlite3_mprintf("%s_overview_%u", name, level);
  if (table) found = tsx_store_path(schema ? schema : "main", table);
  sqlite3_free(schema);
  sqlite3_free(name);
  sqlite3_free(table);
  return found;
}

static bool level_has_table(const tsx_connection *connection, const char *schema, const char *table) {
  sqlite3_stmt *statement;
  const bool found = tsx_schema_find(connection->db, schema, table, &statement) == SQLITE_ROW;
  sqlite3_finalize(statement);
  return found;
}

bool tsx_level_is(const tsx_connection *connection, const char *schema, const char *table, const uint8_t *key) {
  const tsr_array_options options = {.key = key};
  tsr_array *array = NULL;
  tsr_metadata *all = NULL;
  tsr_error ignored;
  bool is = false;
  if (!level_has_table(connection, schema, table)) return false;
  char *path = tsx_store_path(schema, table);
  int code = path ? tsr_array_open(connection->environment, path, &options, &array, &ignored) : TSR_NOMEM;
  if (code >= 0) code = tsr_array_metadata(array, TSR_TIME_BEGIN, TSR_TIME_NOW, &all, &ignored);
  for (uint64_t i = 0; code >= 0 && i < all->count; i++) is |= !strcmp(all->entries[i].key, TSX_LEVEL_KEY);
  tsr_metadata_close(all);
  tsr_array_close(array);
  sqlite3_free(path);
  return is;
}

/* Runs a statement from sqlite3_mprintf, and frees it. */
static int level_run(tsx_connection *connection, char *sql, tsr_error *error) {
  tsx_store_release(connection, true);
  return tsx_core_result(connection->db, tsx_sql_run(connection->db, sql, NULL), error);
}

int tsx_overview_tables_drop(tsx_connection *connection, const char *schema, const char *name, const uint8_t *key,
                             uint64_t *count, tsr_error *error) {
  *count = 0;
  for (unsigned k = 1; k <= TSX_LEVELS_MAX; k++) {
    char *table = sqlite3_mprintf("%s_overview_%u", name, k);
    if (!table) return tsx_out_of_memory(error);
    const bool is = tsx_level_is(connection, schema, table, key);
    const int code =
        is ? level_run(connection, sqlite3_mprintf("DROP TABLE \"%w\".\"%w\"", schema, table), error) : TSR_OK;
    sqlite3_free(table);
    if (code < 0) return code;
    *count += is;
  }
  return TSR_OK;
}

int tsx_overview_tables_rename(tsx_connection *connection, const char *schema, const char *name, const char *renamed,
                               const uint8_t *key, tsr_error *error) {
  for (unsigned k = 1; k <= TSX_LEVELS_MAX; k++) {
    char *table = sqlite3_mprintf("%s_overview_%u", name, k);
    if (!table) return tsx_out_of_memory(error);
    const bool is = tsx_level_is(connection, schema, table, key);
    const int code = is ? level_run(connection,
                                    sqlite3_mprintf("ALTER TABLE \"%w\".\"%w\" RENAME TO \"%w_overview_%u\"", schema,
                                                    table, renamed, k),
                                    error)
                        : TSR_OK;
    sqlite3_free(table);
    if (code < 0) return code;
  }
  return TSR_OK;
}
