/* A C program that links SQLite and tessera's static library: every connection that it opens has tessera. usage: host DATA
 *
 *   cc host.c -ltessera_sqlite -ltessera_core -lsqlite3 -lzstd -llz4 -lbz2 -lz -lmbedcrypto -lm -pthread -o host
 *
 * With the amalgamation: cc -DSQLITE_CORE -fno-strict-aliasing host.c tessera.c -lsqlite3 -lzstd ...
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

int sqlite3_tessera_init(sqlite3 *db, char **message, const sqlite3_api_routines *api);

static int check(sqlite3 *db, int code) {
  if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return code;
  fprintf(stderr, "%s\n", db ? sqlite3_errmsg(db) : sqlite3_errstr(code));
  exit(1);
}

static void run(sqlite3 *db, const char *sql) { check(db, sqlite3_exec(db, sql, NULL, NULL, NULL)); }

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  check(db, sqlite3_prepare_v2(db, sql, -1, &statement, NULL));
  return statement;
}

static void open_array(sqlite3 *db, const char *data, const char *name) {
  char *sql = sqlite3_mprintf("CREATE VIRTUAL TABLE \"%w\" USING tessera('%q/%q')", name, data, name);
  run(db, sql);
  sqlite3_free(sql);
}

static void slice(sqlite3 *db) {
  const int ends[] = {0, 89, -20, 69};
  sqlite3_stmt *statement =
      prepare(db, "SELECT count(*), avg(elevation) FROM relief WHERE y BETWEEN ? AND ? AND x BETWEEN ? AND ?");
  for (int i = 0; i < 4; i++) sqlite3_bind_int(statement, i + 1, ends[i]);
  check(db, sqlite3_step(statement));
  printf("slice: %d cells, mean %.1f m\n", sqlite3_column_int(statement, 0), sqlite3_column_double(statement, 1));
  sqlite3_finalize(statement);
}

static void airports_above(sqlite3 *db, int metres) {
  sqlite3_stmt *statement = prepare(db, "SELECT a.iata, a.name, r.elevation FROM airports a"
                                        "  JOIN relief r ON r.y = CAST(a.lat * 3 + 270 AS INTEGER) - 270"
                                        "               AND r.x = CAST(a.lon * 3 + 540 AS INTEGER) - 540"
                                        " WHERE r.elevation > ? ORDER BY r.elevation DESC");
  sqlite3_bind_int(statement, 1, metres);
  while (check(db, sqlite3_step(statement)) == SQLITE_ROW)
    printf("%s %s %d\n", (const char *)sqlite3_column_text(statement, 0),
           (const char *)sqlite3_column_text(statement, 1), sqlite3_column_int(statement, 2));
  sqlite3_finalize(statement);
}

static void write_peaks(sqlite3 *db) {
  static const struct {
    double lat, lon;
    const char *name;
    int metres;
  } peaks[] = {
      {27.99, 86.93, "Everest", 8849}, {-32.65, -70.01, "Aconcagua", 6961}, {-3.08, 37.35, "Kilimanjaro", 5895}};
  run(db, "CREATE VIRTUAL TABLE peaks USING tessera(lat FLOAT64 DIMENSION(-90, 90), lon FLOAT64 DIMENSION(-180, 180),"
          " name TEXT, metres INT32)");
  run(db, "BEGIN");
  sqlite3_stmt *insert = prepare(db, "INSERT INTO peaks VALUES(?, ?, ?, ?)");
  for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++) {
    sqlite3_bind_double(insert, 1, peaks[i].lat);
    sqlite3_bind_double(insert, 2, peaks[i].lon);
    sqlite3_bind_text(insert, 3, peaks[i].name, -1, SQLITE_STATIC);
    sqlite3_bind_int(insert, 4, peaks[i].metres);
    check(db, sqlite3_step(insert));
    sqlite3_reset(insert);
  }
  sqlite3_finalize(insert);
  run(db, "COMMIT");
  run(db, "BEGIN; DELETE FROM peaks; ROLLBACK");
  sqlite3_stmt *count = prepare(db, "SELECT count(*), max(metres) FROM peaks");
  check(db, sqlite3_step(count));
  printf("written: %d peaks, highest %d m\n", sqlite3_column_int(count, 0), sqlite3_column_int(count, 1));
  sqlite3_finalize(count);
}

int main(int argc, char **argv) {
  sqlite3 *db = NULL;
  if (argc != 2) return 2;
  check(db, sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init));
  check(db, sqlite3_open(":memory:", &db));
  open_array(db, argv[1], "relief");
  open_array(db, argv[1], "airports");
  slice(db);
  airports_above(db, 3000);
  write_peaks(db);
  return sqlite3_close(db) != SQLITE_OK;
}
