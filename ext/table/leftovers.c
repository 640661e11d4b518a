/* leftovers.c: drops tables of temp from within SQL functions, and their shadow tables after the function's savepoint.
 *
 * A change of temp's schema makes SQLite prepare all statements again, so a statement must stand by that can end the
 * savepoint without memory (function_savepoint.c). While it reads, SQLite removes the row of a virtual table from the
 * schema, but drops no ordinary table. So the shadow tables stay until the savepoint has ended. If they cannot be
 * dropped then, because another statement reads or the call was interrupted, they stay until the next savepoint ends.
 * Meanwhile a new table of that name takes them over (tsx_leftover_is). */
#include "table/table_internal.h"

#include <string.h>

#include "connection/errors.h"
#include "sql/statement.h"

struct tsx_leftover {
  struct tsx_leftover *next;
  char name[]; /* of a table that was dropped from temp */
};

int tsx_temp_drop(tsx_connection *connection, const char *name, tsr_error *error) {
  const size_t size = strlen(name) + 1;
  struct tsx_leftover *one = sqlite3_malloc64(sizeof *one + size);
  if (!one) return tsx_out_of_memory(error);
  memcpy(one->name, name, size);
  const int code = tsx_database_keep(connection, "temp", name, error);
  if (code < 0) {
    sqlite3_free(one);
    return code;
  }
  one->next = connection->tables.leftovers;
  connection->tables.leftovers = one;
  return TSR_OK;
}

/* SQLITE_ROW: temp has NAME_config, and it is one of ours; SQLITE_DONE: it is not; SQLITE_ERROR: there is none. */
static int has_declaration(sqlite3 *db, const char *name) {
  sqlite3_stmt *statement;
  const int code = tsx_sql_first(
      db, sqlite3_mprintf("SELECT 1 FROM temp.\"%w_config\" WHERE key = 'declaration'", name), &statement);
  sqlite3_finalize(statement);
  return code;
}

bool tsx_leftover_is(const tsx_connection *connection, const char *schema, const char *name) {
  if (sqlite3_stricmp(schema, "temp") != 0) return false;
  for (const struct tsx_leftover *one = connection->tables.leftovers; one; one = one->next)
    if (!sqlite3_stricmp(one->name, name)) return has_declaration(connection->db, name) == SQLITE_ROW;
  return false;
}

/* Drops the shadow tables of a table, unless it exists again: ROLLBACK has restored it, or a new one has taken them
 * over. Returns false if they are still there. */
static bool drop_shadows(sqlite3 *db, const char *name) {
  sqlite3_stmt *statement;
  int code = tsx_schema_find(db, "temp", name, &statement);
  sqlite3_finalize(statement);
  if (code == SQLITE_DONE && (code = has_declaration(db, name)) == SQLITE_ROW) {
    code = tsx_sql_run(db, sqlite3_mprintf("DROP TABLE IF EXISTS temp.\"%w_commits\"", name), NULL);
    if (code == SQLITE_OK) code = tsx_sql_run(db, sqlite3_mprintf("DROP TABLE temp.\"%w_config\"", name), NULL);
    return code == SQLITE_OK;
  }
  return code == SQLITE_ROW || code == SQLITE_DONE || code == SQLITE_ERROR;
}

void tsx_leftovers_drop(tsx_connection *connection) {
  struct tsx_leftover *one = connection->tables.leftovers, *next;
  connection->tables.leftovers = NULL;
  for (; one; one = next) {
    next = one->next;
    if (drop_shadows(connection->db, one->name)) {
      sqlite3_free(one);
    } else {
      one->next = connection->tables.leftovers;
      connection->tables.leftovers = one;
    }
  }
}

void tsx_leftovers_forget(tsx_connection *connection) {
  while (connection->tables.leftovers) {
    struct tsx_leftover *one = connection->tables.leftovers;
    connection->tables.leftovers = one->next;
    sqlite3_free(one);
  }
}
