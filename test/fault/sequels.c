/* sequels.c: a fault in a transaction, and what comes after it: another connection goes on, maintains the array, and then the
 * power fails. The array and an ordinary table must agree all the while. crashes.c and faults.c look at one of these alone.
 * With the environment variable SAMPLE=n, one call in n meets the fault.
 */
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "disk.h"

int sqlite3_tessera_init(sqlite3 *db, char **message, const void *api);

#define DATABASE DISK_ROOT "/t.db"

static const char *what = "";
static long at;
static bool uncached; /* the transaction reads pages of the database again and again */

static void complain(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("%s, call %ld: ", what, at);
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  exit(1);
}

static sqlite3 *open_database(void) {
  sqlite3 *db = NULL;
  if (sqlite3_open(DATABASE, &db) != SQLITE_OK) complain("the database does not open");
  return db;
}

static int try(sqlite3 *db, const char *sql) { return sqlite3_exec(db, sql, NULL, NULL, NULL); }

static void run(sqlite3 *db, const char *sql) {
  if (try(db, sql) != SQLITE_OK) complain("%s: %s", sql, sqlite3_errmsg(db));
}

/* Begins anew with a database that has an ordinary table `o`, an array in a directory `t` and one in the database `w`. */
static sqlite3 *begin(void) {
  disk_free(disk_now);
  disk_disarm();
  disk_now = disk_new();
  disk_clock_set(INT64_C(1700000000000));
  disk_random_seed(1);
  sqlite3 *db = open_database();
  run(db, "CREATE TABLE o(x)");
  run(db, "CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT)");
  run(db, "CREATE VIRTUAL TABLE w USING tessera(x INT DIMENSION(0, 1000), a INT)");
  run(db, "INSERT INTO o VALUES(1), (2), (3); INSERT INTO t VALUES(1, 1), (2, 2); INSERT INTO t VALUES(3, 3)");
  run(db, "INSERT INTO w VALUES(1, 1), (2, 2); INSERT INTO w VALUES(3, 3)");
  return db;
}

/* `o` and the table must have the same x. */
static void agree(sqlite3 *db, const char *table) {
  sqlite3_stmt *s = NULL;
  char *sql = sqlite3_mprintf("SELECT (SELECT group_concat(x) FROM (SELECT x FROM o ORDER BY x)), "
                              "(SELECT group_concat(x) FROM (SELECT x FROM %w ORDER BY x))",
                              table);
  if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK || sqlite3_step(s) != SQLITE_ROW)
    complain("%s", sqlite3_errmsg(db));
  const char *o = (const char *)sqlite3_column_text(s, 0), *t = (const char *)sqlite3_column_text(s, 1);
  if (!o || !t || sqlite3_stricmp(o, t)) complain("o has %s, %s has %s", o ? o : "nothing", table, t ? t : "nothing");
  sqlite3_finalize(s);
  sqlite3_free(sql);
}

/* Runs a transaction whose COMMIT meets a fault at each call in turn, and afterwards `sequel` on another connection. After it,
 * and after a power failure, `o` and `t` must agree. */
static void commit_with(const char *name, disk_fault fault, bool for_good, bool deletes, const char *sequel) {
  static const disk_loss losses[] = {DISK_LOSE_ALL, DISK_LAST_NAME};
  const char *share = getenv("SAMPLE");
  const int step = share && atoi(share) > 1 ? atoi(share) : 1;
  what = name;
  bool met = true;
  for (at = 1 + deletes % step; met; at += step)
    for (int i = 0; i < 2; i++) {
      sqlite3 *db = begin();
      if (uncached) run(db, "PRAGMA cache_size = 1; PRAGMA shrink_memory");
      run(db, "BEGIN; INSERT INTO o VALUES(4), (5); INSERT INTO t VALUES(4, 4), (5, 5)");
      if (deletes) run(db, "DELETE FROM o WHERE x = 2; DELETE FROM t WHERE x = 2");
      disk_arm(fault, at, for_good ? 1000000 : at + 1);
      try(db, "COMMIT");
      met = disk_failed() > 0;
      sqlite3_close(db);
      disk_disarm();
      db = open_database();
      agree(db, "t");
      run(db, sequel);
      agree(db, "t");
      sqlite3_close(db);
      disk *left = disk_crash(disk_now, losses[i]);
      disk_free(disk_now);
      disk_now = left;
      db = open_database();
      agree(db, "t");
      run(db, "SELECT tessera_recover('db:t')");
      agree(db, "t");
      sqlite3_close(db);
    }
}

/* A statement on an array in the database is planned by an estimate, which does without what it cannot read. But SQLite rolls
 * back a transaction of which a statement fails with SQLITE_IOERR, whoever runs it. */
static void plan_with_faults(void) {
  what = "planning";
  bool met = true;
  for (at = 1; met; at++) {
    sqlite3_close(begin());
    sqlite3 *db = open_database();
    run(db, "BEGIN; INSERT INTO o VALUES(4)");
    disk_arm(DISK_EIO, at, at + 1);
    int code = try(db, "DELETE FROM w WHERE x = 900");
    met = disk_failed() > 0;
    disk_disarm();
    if (code == SQLITE_OK && sqlite3_get_autocommit(db)) complain("the statement goes on without its transaction");
    if (code == SQLITE_OK) code = try(db, "INSERT INTO w VALUES(4, 4); COMMIT");
    if (!sqlite3_get_autocommit(db)) run(db, "ROLLBACK");
    sqlite3_close(db);
    db = open_database();
    agree(db, "w");
    sqlite3_close(db);
  }
}

/* A table cannot be looked for while the database is locked: that is no reason to say that there is none. */
static void look_for_tables(void) {
  what = "a locked database";
  sqlite3 *writer = begin(), *other = open_database();
  run(writer, "BEGIN EXCLUSIVE");
  int code = try(other, "SELECT tessera_recover('/disk/t', '{\"disown\":true}')"); /* SQLite parses the options, too */
  if (code == SQLITE_BUSY) code = try(other, "SELECT tessera_vacuum('db:t')");
  if (code != SQLITE_BUSY) complain("expected SQLITE_BUSY, got %d, %s", code, sqlite3_errmsg(other));
  run(writer, "COMMIT");
  sqlite3_close(other);
  sqlite3_close(writer);
}

int main(void) {
  if (disk_vfs_register() != SQLITE_OK) return 2;
  sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init);
  const char *write = "BEGIN; INSERT INTO t VALUES(6, 6); INSERT INTO o VALUES(6); COMMIT; "
                      "BEGIN; INSERT INTO t VALUES(7, 7); INSERT INTO o VALUES(7); COMMIT",
             *footers = "SELECT tessera_consolidate('db:t', 'fragment_meta'); SELECT tessera_recover('db:t')",
             *commits = "SELECT tessera_consolidate('db:t', 'commits'); SELECT tessera_recover('db:t')";
  for (int deletes = 0; deletes < 2; deletes++) {
    commit_with("an error that was none, then a write", DISK_LATE, false, deletes, write);
    commit_with("an error that was none, then recovery", DISK_LATE, false, deletes, "SELECT tessera_recover('db:t')");
    commit_with("an error, then a write", DISK_EIO, false, deletes, write);
    uncached = true;
    commit_with("an error, and a small cache", DISK_EIO, false, deletes, "SELECT tessera_recover('db:t')");
    uncached = false;
    commit_with("a death, then consolidated footers", DISK_EIO, true, deletes, footers);
    commit_with("a death, then consolidated commits", DISK_EIO, true, deletes, commits);
  }
  plan_with_faults();
  look_for_tables();
  disk_free(disk_now);
  sqlite3_reset_auto_extension();
  return 0;
}
