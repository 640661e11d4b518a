/* beside.c: while one connection runs a statement on the disk in memory, another one does something, at each call of
 * the disk in turn (disk.h). Afterwards all must be as if the one had come after the other. Or the statement is cut off
 * there, as if its process had been killed, and what comes next must not suffer. With the environment variable
 * SAMPLE=n, at one call in n. */
#include <errno.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk.h"

int sqlite3_tessera_init(sqlite3 *db, char **message, const void *api);

static sqlite3 *one, *other;
static const char *beside; /* what the other connection does */
static long calls, at; /* it does so at call `at` */
static bool inside, cut; /* cut: instead, all calls from `at` on fail */
static int64_t now;

static void run(sqlite3 *db, const char *sql) {
  char *message = NULL;
  if (sqlite3_exec(db, sql, NULL, NULL, &message) == SQLITE_OK) return;
  printf("%s at call %ld: %s: %s\n", beside, at, sql, message);
  exit(1);
}

static int turn(disk_act act, bool late) {
  (void)act;
  if (late || inside || ++calls < at || at == 0) return 0;
  if (cut) return EIO;
  if (calls > at) return 0;
  inside = true;
  run(other, beside);
  inside = false;
  return 0;
}

static void pass(int64_t nanoseconds) { now += nanoseconds; }
static int64_t read_clock(bool steady) {
  (void)steady;
  return now += 200;
}
static uint64_t written(void) { return (uint64_t)(now / 1000000); }

static disk_machines machines = {.turn = turn, .sleep = pass, .clock = read_clock, .written = written};

static void begin(bool empty) {
  disk_free(disk_now);
  disk_now = disk_new();
  disk_random_seed(1);
  now = INT64_C(1700000000000000000);
  calls = 0;
  if (sqlite3_open(":memory:", &one) != SQLITE_OK || sqlite3_open(":memory:", &other) != SQLITE_OK) exit(2);
  run(one, "CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT)");
  if (empty) return;
  run(one, "INSERT INTO t VALUES(1, 1), (2, 2); INSERT INTO t VALUES(3, 3)");
  run(one, "SELECT tessera_set_metadata('/disk/t', 'k', 1); SELECT tessera_set_metadata('/disk/t', 'k', 2)");
}

static void end(void) {
  sqlite3_close(one);
  sqlite3_close(other);
}

static int sample(void) {
  const char *share = getenv("SAMPLE");
  return share && atoi(share) > 1 ? atoi(share) : 1;
}

static void expect_copy(sqlite3 *db) {
  run(db, "CREATE VIRTUAL TABLE temp.s USING tessera('/disk/t'); CREATE VIRTUAL TABLE temp.c USING tessera('/disk/c')");
  run(db, "CREATE TEMP TABLE bad(x CHECK(x))");
  run(db, "INSERT INTO bad SELECT group_concat(x || ' ' || a) = (SELECT group_concat(x || ' ' || a) FROM s) FROM c");
  run(db, "INSERT INTO bad SELECT value = (SELECT value FROM tessera_metadata('/disk/t')) FROM "
          "tessera_metadata('/disk/c')");
  run(db, "INSERT INTO bad SELECT severity = 'note' FROM tessera_check('/disk/c')");
}

static void expect_calls(void) {
  if (at > 40) return; /* a sync takes more */
  printf("%s: only %ld calls\n", beside, at);
  exit(1);
}

static const char *const maintenance = "SELECT tessera_consolidate('/disk/t', 'array_meta'); "
                                       "SELECT tessera_consolidate('/disk/t'); SELECT tessera_vacuum('/disk/t')";

/* A first sync, while another process maintains the array: it succeeds, and so does the next one, which comes after
 * more maintenance. */
static void first_sync_beside(const char *what) {
  static const char *const sync = "SELECT tessera_sync('/disk/t', '/disk/c')";
  const int step = sample();
  beside = what;
  for (at = 1; calls + step >= at; at += step) {
    long kept = at;
    at = 0;
    begin(false);
    at = kept;
    calls = 0;
    run(one, sync);
    kept = calls;
    const long past = at;
    at = 0;
    run(one, "INSERT INTO t VALUES(5, 5); SELECT tessera_set_metadata('/disk/t', 'k', 3)");
    run(other, maintenance);
    run(one, sync);
    expect_copy(one);
    end();
    calls = kept;
    at = past;
  }
  expect_calls();
}

/* A sync to a copy that is there, while another process changes, maintains or syncs the array. Whatever it does, this sync
 * succeeds, and the next one, which comes after maintenance, leaves the copy as the array is. `before`: what has happened
 * at the source before it begins. */
static void sync_beside(const char *before, const char *what) {
  static const char *const sync = "SELECT tessera_sync('/disk/t', '/disk/c')";
  const int step = sample();
  beside = what;
  for (at = 1; calls + step >= at; at += step) {
    long kept = at;
    at = 0;
    begin(false);
    run(one, sync);
    run(one, "INSERT INTO t VALUES(5, 5); SELECT tessera_set_metadata('/disk/t', 'k', 3)");
    run(other, before);
    at = kept;
    calls = 0;
    run(one, sync);
    kept = calls;
    run(other, "SELECT tessera_consolidate('/disk/t', 'array_meta'); SELECT tessera_consolidate('/disk/t')");
    run(other, "SELECT tessera_vacuum('/disk/t')");
    run(one, sync);
    expect_copy(one);
    end();
    calls = kept;
  }
  expect_calls();
}

/* A first sync, or one of what is new, is cut off at each call; then the array is maintained. The next sync goes on, or
 * takes the place over. Without locks it does so after a minute. */
static void sync_cut(bool empty, bool first, bool locks) {
  static const char *const sync = "SELECT tessera_sync('/disk/t', '/disk/c')";
  const int step = sample();
  machines.locks = locks;
  beside = empty   ? "a first sync of an empty array is cut off"
           : first ? "a first sync is cut off"
                   : "a sync is cut off";
  for (at = 1; calls + step >= at; at += step) {
    long kept = at;
    at = 0;
    begin(empty);
    if (!first) run(one, sync);
    if (!first)
      run(one,
          "INSERT INTO t VALUES(4, 4); INSERT INTO t VALUES(6, 6); SELECT tessera_set_metadata('/disk/t', 'k', 5)");
    at = kept;
    calls = 0;
    cut = true;
    (void)sqlite3_exec(other, sync, NULL, NULL, NULL);
    cut = false;
    kept = calls;
    const long past = at;
    at = 0;
    run(one, "INSERT INTO t VALUES(5, 5); SELECT tessera_set_metadata('/disk/t', 'k', 3)");
    if (!empty) run(one, maintenance);
    if (first && !locks) now += INT64_C(61000000000);
    run(one, sync);
    expect_copy(one);
    end();
    calls = kept;
    at = past;
  }
  expect_calls();
  machines.locks = false;
}

int main(void) {
  sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
  if (disk_vfs_register() != SQLITE_OK) return 2;
  sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init);
  disk_machines_now = &machines;
  sync_beside("", "SELECT tessera_set_metadata('/disk/t', 'k', 4)");
  sync_beside("", "SELECT tessera_consolidate('/disk/t'); SELECT tessera_vacuum('/disk/t')");
  sync_beside("", "SELECT tessera_consolidate('/disk/t', 'array_meta'); SELECT tessera_vacuum('/disk/t')");
  sync_beside("", "SELECT tessera_add_attribute('/disk/t', 'b INT'); SELECT tessera_sync('/disk/t', '/disk/c')");
  sync_beside("", "CREATE VIRTUAL TABLE temp.o USING tessera('/disk/t'); INSERT INTO o VALUES(7, 7); "
                  "SELECT tessera_sync('/disk/t', '/disk/c')");
  sync_beside(maintenance, "SELECT tessera_sync('/disk/t', '/disk/c')");
  first_sync_beside("SELECT tessera_consolidate('/disk/t'); SELECT tessera_vacuum('/disk/t')");
  first_sync_beside("SELECT tessera_consolidate('/disk/t', 'array_meta'); SELECT tessera_vacuum('/disk/t')");
  for (int locks = 0; locks < 2; locks++) {
    sync_cut(true, true, locks);
    sync_cut(false, true, locks);
  }
  sync_cut(false, false, false);
  disk_free(disk_now);
  sqlite3_reset_auto_extension();
  return 0;
}
