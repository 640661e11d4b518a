/* sqlite.c: an application that links SQLite and tessera's static library: sqlite3_auto_extension, several connections,
 * and what a loaded library's host cannot easily show: closing with statements open.
 *
 * usage: sqlite RELIEF
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sqlite3_tessera_init(sqlite3 *db, char **message, const void *api);

static int failures;

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      failures++;                                                                                                      \
      printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                                             \
    }                                                                                                                  \
  } while (0)

static sqlite3 *open_database(const char *relief) {
  sqlite3 *db = NULL;
  char *message = NULL;
  CHECK(sqlite3_open(":memory:", &db) == SQLITE_OK);
  char *sql = sqlite3_mprintf("CREATE VIRTUAL TABLE relief USING tessera(%Q)", relief);
  CHECK(sqlite3_exec(db, sql, NULL, NULL, &message) == SQLITE_OK);
  if (message) printf("%s\n", message);
  sqlite3_free(message);
  sqlite3_free(sql);
  return db;
}

static sqlite3_int64 ask(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  sqlite3_int64 value = -1;
  CHECK(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK);
  if (sqlite3_step(statement) == SQLITE_ROW) value = sqlite3_column_int64(statement, 0);
  else printf("%s: %s\n", sql, sqlite3_errmsg(db));
  sqlite3_finalize(statement);
  return value;
}

/* sqlite3_close fails while a statement is open, and the connection still works; sqlite3_close_v2 closes it with the last statement. */
static void close_early(const char *relief) {
  sqlite3 *db = open_database(relief);
  sqlite3_stmt *statement = NULL;
  CHECK(sqlite3_prepare_v2(db, "SELECT elevation FROM relief", -1, &statement, NULL) == SQLITE_OK);
  CHECK(sqlite3_step(statement) == SQLITE_ROW);
  CHECK(sqlite3_close(db) == SQLITE_BUSY);
  CHECK(sqlite3_step(statement) == SQLITE_ROW);
  CHECK(ask(db, "SELECT count(*) FROM relief WHERE y = 3") > 0);
  CHECK(sqlite3_close_v2(db) == SQLITE_OK);
  int rows = 0;
  while (sqlite3_step(statement) == SQLITE_ROW && rows < 200000) rows++;
  CHECK(rows == 200000);
  CHECK(sqlite3_finalize(statement) == SQLITE_OK);

  db = open_database(relief); /* the same with a statement that has not begun */
  CHECK(sqlite3_prepare_v2(db, "SELECT count(*) FROM relief WHERE y = 3", -1, &statement, NULL) == SQLITE_OK);
  CHECK(sqlite3_close(db) == SQLITE_BUSY);
  CHECK(sqlite3_step(statement) == SQLITE_ROW);
  CHECK(sqlite3_close_v2(db) == SQLITE_OK);
  CHECK(sqlite3_finalize(statement) == SQLITE_OK);
}

static int stop(void *argument) { return ++*(int *)argument > 100; }

/* The handler cancels the statement; the connection still works. */
static void stop_by_handler(const char *relief) {
  sqlite3 *db = open_database(relief);
  int calls = 0;
  sqlite3_progress_handler(db, 50, stop, &calls);
  CHECK(sqlite3_exec(db, "SELECT count(*) FROM relief a, relief b", NULL, NULL, NULL) == SQLITE_INTERRUPT);
  sqlite3_progress_handler(db, 0, NULL, NULL);
  CHECK(ask(db, "SELECT count(*) FROM relief WHERE y = 3") > 0);
  CHECK(sqlite3_close(db) == SQLITE_OK);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  CHECK(sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init) == SQLITE_OK);
  sqlite3 *one = open_database(argv[1]), *two = open_database(argv[1]);
  const char *sum = "SELECT sum(elevation) FROM relief WHERE y BETWEEN 0 AND 89 AND x BETWEEN -20 AND 69";
  CHECK(ask(one, sum) == ask(two, sum));
  CHECK(ask(one, "SELECT count(*) FROM relief") == 583200);
  CHECK(ask(one, "SELECT length(tessera_version()) > 0") == 1);
  CHECK(sqlite3_close(one) == SQLITE_OK);
  CHECK(ask(two, sum) != -1);
  CHECK(sqlite3_close(two) == SQLITE_OK);
  close_early(argv[1]);
  stop_by_handler(argv[1]);
  sqlite3_reset_auto_extension();
  CHECK(sqlite3_memory_used() == 0);
  printf("%d failures\n", failures);
  return failures != 0;
}
