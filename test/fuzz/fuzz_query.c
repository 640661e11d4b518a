/* fuzz_query.c: fuzzes the text of a columnar query: the arguments of CREATE VIRTUAL TABLE ... USING tessera_query.
 *
 *   the text, as bytes; the tables plane (dense) and stations (sparse) have the columns of test/sqlite/query_arrays.py
 *
 * What SQLite refuses as a view, tessera_query must refuse when it is created, and before it has run any part of it: the
 * text may name the function trap(), which aborts.
 */

#include <string.h>

#include "base/input.h"
#include "database.h"

#define ATTRIBUTES                                                                                                     \
  " temp FLOAT32, rain FLOAT64, i8 INT8, u16 UINT16, i64 INT64, u UINT64, name TEXT, wind TEXT "                       \
  "ENUM('calm','gale',''), seen DATE, vector INT32[3], " DATABASE_OPTIONS ");"
#define VALUES_OF " temp, rain, i8, u16, i64, u, name, wind, seen) VALUES"

static image arrays;

/* The query must not reach functions outside of its list. */
static void trap(sqlite3_context *context, int count, sqlite3_value **values) { CHECK(!"trap() was called"); }

/* Aggregates that queries have and SQLite may lack: a view that has them is prepared, and never run. */
static void no_step(sqlite3_context *context, int count, sqlite3_value **values) {
  CHECK(!"an aggregate of tessera_query was called");
}
static void no_final(sqlite3_context *context) { CHECK(!"an aggregate of tessera_query was called"); }

static sqlite3 *open_arrays(void) {
  static const char *const names[] = {"median", "percentile", "stddev", "variance"};
  sqlite3 *db = database_open(&arrays);
  for (int i = 0; i < 4; i++)
    CHECK(sqlite3_create_function(db, names[i], i == 1 ? 2 : 1, SQLITE_UTF8 | SQLITE_INNOCUOUS, NULL, NULL, no_step,
                                  no_final) == SQLITE_OK);
  CHECK(sqlite3_create_function(db, "trap", -1, SQLITE_UTF8 | SQLITE_INNOCUOUS, NULL, trap, NULL, NULL) == SQLITE_OK);
  return db;
}

int LLVMFuzzerInitialize(int *count, char ***arguments) {
  database_make(
      "CREATE VIRTUAL TABLE plane USING tessera(kind=dense, y INT32 DIMENSION(-7, 33, 13), x INT32 DIMENSION(-20, 12, "
      "8)," ATTRIBUTES
      "CREATE VIRTUAL TABLE stations USING tessera(day DATE DIMENSION('2019-01-01', '2021-12-31', 30), lat INT64 "
      "DIMENSION(-90, 90, 25), duplicates=yes," ATTRIBUTES "INSERT INTO plane(y, x," VALUES_OF
      "(0, 0, 280.5, 1e300, -128, 7, 9223372036854775807, 1, 'a', 'calm', '2020-01-02'),"
      "(1, 2, NULL, -0.0, 3, 0, -9223372036854775808, '18446744073709551615', NULL, NULL, NULL);"
      "INSERT INTO stations(day, lat," VALUES_OF
      "('2020-01-05', 47, 280.5, 9e999, 1, 7, 4, 1, '', 'gale', '2020-01-02'),"
      "('2020-02-05', -1, 270, -9e999, 2, 9, 5, 2, 'b', '', '2019-01-02'),"
      "('2020-02-05', -1, 271, 0.5, NULL, 9, 5, 3, 'zz', NULL, NULL);",
      &arrays);
  return 0;
}

static bool is_one_statement(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = database_prepare(db, sql);
  sqlite3_finalize(statement);
  return statement != NULL;
}

/* Returns true if SQLite takes the text as a view, and as one statement. Nothing of it is run. */
static bool view_is_fine(sqlite3 *db, const char *text) {
  if (!is_one_statement(db, text)) return false;
  char *sql = sqlite3_mprintf("CREATE TEMP VIEW v AS %s", text);
  CHECK(sql);
  const bool made = database_sql(db, sql) == SQLITE_DONE;
  sqlite3_free(sql);
  if (!made) return false;
  const bool fine = is_one_statement(db, "SELECT * FROM v");
  CHECK(database_sql(db, "DROP VIEW temp.v") == SQLITE_DONE);
  return fine;
}

/* Returns true if the table sees the very text: SQLite drops comments and arguments that are empty. */
static bool is_kept(const char *text) {
  bool empty = true; /* nothing yet since the last comma */
  if (strstr(text, "--") || strstr(text, "/*")) return false;
  for (; *text; text++) {
    if (*text == ',' && empty) return false;
    if (*text == ',') empty = true;
    else if (!strchr(" \t\n\f\r", *text)) empty = false;
  }
  return !empty;
}

static void try_text(sqlite3 *db, const char *text) {
  char *sql = sqlite3_mprintf("CREATE VIRTUAL TABLE temp.q USING tessera_query(memory_mb=8, %s\n)", text);
  CHECK(sql);
  if (is_one_statement(db, sql) && database_sql(db, sql) == SQLITE_DONE) {
    if (is_kept(text)) CHECK(view_is_fine(db, text));
    database_sql(db, "SELECT * FROM temp.q");
    database_sql(db, "EXPLAIN QUERY PLAN SELECT * FROM temp.q WHERE 1 = 2");
    CHECK(database_sql(db, "DROP TABLE temp.q") == SQLITE_DONE);
  }
  sqlite3_free(sql);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  database_text(data, size, open_arrays, try_text);
  return 0;
}
