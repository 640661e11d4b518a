/* fuzz_front.c: fuzzes the text of tessera_sql, tessera_select and tessera_explain.
 *
 *   the text, as bytes; there are the arrays plane (dense) and stations (sparse), and the ordinary table towns
 *
 * Of a text that SQLite can prepare, tessera_sql must make a statement that SQLite can prepare, with the same columns,
 * which writes only if the text does; or refuse it. The three read the text alike: all of them fail, or none.
 */

#include <string.h>

#include "base/input.h"
#include "database.h"

static image tables;

int LLVMFuzzerInitialize(int *count, char ***arguments) {
  database_make("CREATE VIRTUAL TABLE plane USING tessera(kind=dense, y INT32 DIMENSION(-7, 33, 13), x INT32 "
                "DIMENSION(-20, 12, 8), temp FLOAT32, n INT64, name TEXT, " DATABASE_OPTIONS ");"
                "CREATE VIRTUAL TABLE stations USING tessera(day DATE DIMENSION('2019-01-01', '2021-12-31', 30), lat "
                "INT64 DIMENSION(-90, 90, 25), u UINT64, wind TEXT ENUM('calm', 'gale'), " DATABASE_OPTIONS ");"
                "INSERT INTO plane VALUES(0, 0, 280.5, 9223372036854775807, 'a'), (1, 2, NULL, 3, NULL);"
                "INSERT INTO stations VALUES('2020-01-05', 47, 1, 'gale'), ('2020-02-05', -1, NULL, NULL);"
                "CREATE TABLE towns(x INTEGER, label TEXT);"
                "INSERT INTO towns VALUES(0, 'zero'), (2, '2'), (2, NULL);",
                &tables);
  return 0;
}

static sqlite3 *open_tables(void) { return database_open(&tables); }

/* Returns true if both statements show the same columns, and both write or neither. */
static bool are_alike(sqlite3_stmt *a, sqlite3_stmt *b) {
  if (sqlite3_column_count(a) != sqlite3_column_count(b) || sqlite3_stmt_readonly(a) != sqlite3_stmt_readonly(b))
    return false;
  for (int i = 0; i < sqlite3_column_count(a); i++)
    if (strcmp(sqlite3_column_name(a, i), sqlite3_column_name(b, i)) != 0) return false;
  return true;
}

/* Calls a function or table with the text. Returns its first value, which the caller frees; NULL if it fails. */
static char *ask(sqlite3 *db, const char *sql, const char *text) {
  sqlite3_stmt *statement = database_prepare(db, sql);
  CHECK(statement && sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC) == SQLITE_OK);
  char *found = NULL;
  const int code = sqlite3_step(statement);
  if (code == SQLITE_ROW) CHECK(found = sqlite3_mprintf("%s", sqlite3_column_text(statement, 0)));
  if (code == SQLITE_DONE) CHECK(found = sqlite3_mprintf(""));
  sqlite3_finalize(statement);
  return found;
}

static void try_text(sqlite3 *db, const char *text) {
  char *rewritten = ask(db, "SELECT tessera_sql(?)", text), *explained = NULL;
  sqlite3_stmt *plain = database_prepare(db, text), *statement = rewritten ? database_prepare(db, rewritten) : NULL;
  if (rewritten) {
    CHECK(statement || sqlite3_complete(rewritten) || !plain);
    if (plain) CHECK(statement && are_alike(plain, statement));
    CHECK(explained = ask(db, "SELECT detail FROM tessera_explain(?)", text));
  }
  sqlite3_finalize(plain);
  sqlite3_finalize(statement);
  if (rewritten) database_sql(db, rewritten);
  sqlite3_free(ask(db, "SELECT row FROM tessera_select(?)", text));
  sqlite3_free(rewritten);
  sqlite3_free(explained);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  database_text(data, size, open_tables, try_text);
  return 0;
}
