/* fuzz_checks.c: fuzzes the text of a CHECK constraint.
 *
 *   the text, as bytes: the metadata tessera.check.c of an array, as a stranger may write it
 *
 * Whatever the text is, the array reads. A text that the engine accepts is a CHECK of SQLite, too, and passes and fails
 * the same rows in an ordinary table. (An integer overflow, which SQLite turns into a REAL, is an error here.) Without
 * such a text, nothing is written.
 */

#include <stdlib.h>
#include <string.h>

#include "database.h"

static image arrays;

int LLVMFuzzerInitialize(int *count, char ***arguments) {
  database_make("CREATE VIRTUAL TABLE t USING tessera(x INT32 DIMENSION(-9, 9, 5), a INT64, r FLOAT64, s TEXT, "
                "e TEXT ENUM('a','B',''), " DATABASE_OPTIONS ");"
                "INSERT INTO t VALUES(0, 0, 0, '', '')",
                &arrays);
  return 0;
}

#define VALUES_OF " INTO %s VALUES(%d, %s)"
static const char *const rows[] = {"0, 0.0, '', ''", "NULL, NULL, NULL, NULL", "5, -2.5, 'aB%', 'B'",
                                   "-7, 1e300, 'é', 'a'", "1, 0.5, '5', 'a'"};

/* Returns the result of inserting a row. */
static int insert(sqlite3 *db, const char *table, int number) {
  char *sql = sqlite3_mprintf("INSERT" VALUES_OF, table, number - 3, rows[number]);
  CHECK(sql);
  const int code = database_sql(db, sql);
  sqlite3_free(sql);
  return code;
}

static void set_metadata(sqlite3 *db, const uint8_t *data, size_t size) {
  sqlite3_stmt *statement;
  CHECK(sqlite3_prepare_v2(db, "SELECT tessera_set_metadata('db:t', 'tessera.check.c', ?)", -1, &statement, NULL) ==
        SQLITE_OK);
  CHECK(sqlite3_bind_text(statement, 1, (const char *)data, (int)size, SQLITE_TRANSIENT) == SQLITE_OK);
  database_run(db, statement);
  sqlite3_finalize(statement);
}

/* Returns true if the engine reads the text. */
static bool is_read(sqlite3 *db) {
  sqlite3_stmt *statement;
  CHECK(sqlite3_prepare_v2(db, "SELECT tessera_ddl('db:t') LIKE '% CHECK(%'", -1, &statement, NULL) == SQLITE_OK);
  const bool is = sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_int(statement, 0);
  sqlite3_finalize(statement);
  return is;
}

/* Makes an ordinary table with the CHECK. Returns false if this SQLite lacks a function that it calls. */
static bool make_ordinary(sqlite3 *db, const char *text) {
  char *sql = sqlite3_mprintf("CREATE TABLE o(x INT, a INT, r REAL, s TEXT, e TEXT, CHECK(%s))", text);
  CHECK(sql);
  const int code = database_sql(db, sql);
  sqlite3_free(sql);
  if (code != SQLITE_DONE) CHECK(strstr(sqlite3_errmsg(db), "no such function") || code == SQLITE_INTERRUPT);
  return code == SQLITE_DONE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0 || size > FUZZ_INPUT || memchr(data, 0, size)) return 0;
  char *text = malloc(size + 1);
  CHECK(text);
  memcpy(text, data, size);
  text[size] = 0;
  sqlite3 *db = database_open(&arrays);
  set_metadata(db, data, size);
  CHECK(database_sql(db, "SELECT * FROM t") == SQLITE_DONE);
  const bool read = is_read(db), ordinary = read && make_ordinary(db, text);
  for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
    const int code = insert(db, "t", i);
    if (!read) CHECK(code != SQLITE_DONE);
    if (!ordinary || (code != SQLITE_DONE && (code & 0xff) != SQLITE_CONSTRAINT)) continue;
    CHECK((code & 0xff) == (insert(db, "o", i) & 0xff));
  }
  database_sql(db, "SELECT count(*) FROM tessera_check('db:t')");
  database_close(db);
  free(text);
  return 0;
}
