/* crossing.c: two processes sync the same array for the first time to the same place, on the disk in memory (disk.h).
 * The first one pauses at a call of the disk, and the second one begins; it pauses, too, the first one goes on to its
 * end, and the second one follows. Whoever says that it has succeeded leaves a copy with the files of the array, byte
 * for byte, which the other one does not harm, and at least one succeeds.
 *
 * Or a stranger puts a file there while a sync removes what a dead one has left: this file stays.
 *
 * Each process is a thread; only one of them runs at a time. */
#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk.h"

int sqlite3_tessera_init(sqlite3 *db, char **message, const void *api);

#define NEVER  1000000000L
#define STEP   8 /* between the calls at which the first one pauses, ... */
#define STRIDE 36 /* ... and the second one */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t handed_over = PTHREAD_COND_INITIALIZER;
static _Thread_local int self; /* 0: this thread looks from outside; 1 and 2: processes */
static int running; /* who runs */
static bool ended[3];
static long calls[3], pauses[3]; /* by process: its calls of the disk, and the one before which it pauses */
static bool cut; /* instead of pausing, the process dies: all calls fail from there on */
static const char *foreign; /* a file that appears where a process would pause, or NULL */
static bool foreign_made;
static int64_t now, suspended; /* nanoseconds; how many pass while a process pauses */
static const char *what; /* for messages */
static disk *array_only;

static void fail(const char *why) {
  printf("%s: pauses at calls %ld and %ld: %s\n", what, pauses[1], pauses[2], why);
  disk_print(disk_now, stdout);
  exit(1);
}

/* ---- Processes --------------------------------------------------------------------------------------------------- */

static void wait_for_turn(void) {
  while (running != self) pthread_cond_wait(&handed_over, &mutex);
}

static void hand_over(int to) {
  pthread_mutex_lock(&mutex);
  running = to;
  pthread_cond_broadcast(&handed_over);
  wait_for_turn();
  pthread_mutex_unlock(&mutex);
}

/* Makes a stranger's file, if its directory is there. */
static void put_foreign(void) {
  const int process = self;
  self = 0;
  foreign_made = disk_make(disk_now, foreign, false) >= 0;
  self = process;
}

static int turn(disk_act act, bool late) {
  (void)act;
  if (late || self == 0) return 0;
  if (++calls[self] < pauses[self]) return 0;
  if (cut) return EIO;
  if (calls[self] > pauses[self]) return 0;
  if (foreign) return put_foreign(), 0;
  now += suspended;
  if (!ended[3 - self]) hand_over(3 - self);
  return 0;
}

/* Who waits lets the other one go on. */
static void pass(int64_t nanoseconds) {
  now += nanoseconds;
  if (self && !ended[3 - self]) hand_over(3 - self);
}
static int64_t read_clock(bool steady) {
  (void)steady;
  return now += 200;
}
static uint64_t written(void) { return (uint64_t)(now / 1000000); }

static disk_machines machines = {.turn = turn, .sleep = pass, .clock = read_clock, .written = written};

static void run(const char *sql) {
  sqlite3 *db;
  char *message = NULL;
  if (sqlite3_open(":memory:", &db) != SQLITE_OK) exit(2);
  if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) fail(message);
  sqlite3_close(db);
}

static int try_sync(void) {
  sqlite3 *db;
  if (sqlite3_open(":memory:", &db) != SQLITE_OK) exit(2);
  const int code = sqlite3_exec(db, "SELECT tessera_sync('/disk/t', '/disk/c')", NULL, NULL, NULL);
  sqlite3_close(db);
  return code;
}

/* ---- What is expected -------------------------------------------------------------------------------------------- */

/* Expects in `other` the files of `one`, byte for byte. Names that begin with a dot belong to neither. `both`: and
 * vice versa. */
static void expect_files(const char *one, const char *other) {
  bool is_directory, directory;
  const char *name;
  const int there = disk_find(disk_now, one, &directory);
  for (unsigned i = 0; disk_entry(disk_now, there, i, &name, &is_directory); i++) {
    char a[300], b[300];
    if (*name == '.') continue;
    snprintf(a, sizeof a, "%s/%s", one, name);
    snprintf(b, sizeof b, "%s/%s", other, name);
    const int x = disk_find(disk_now, a, &directory), y = disk_find(disk_now, b, &directory);
    if (y < 0 || directory != is_directory) fail(b);
    if (is_directory) {
      expect_files(a, b);
      continue;
    }
    const uint64_t size = disk_size(disk_now, x);
    static char bytes[2][1 << 20];
    if (size != disk_size(disk_now, y) || size > sizeof *bytes) fail(b);
    (void)disk_read(disk_now, x, 0, bytes[0], size, false);
    (void)disk_read(disk_now, y, 0, bytes[1], size, false);
    if (memcmp(bytes[0], bytes[1], size) != 0) fail(b);
  }
}

static void expect_copy(void) {
  expect_files("/disk/t", "/disk/c");
  expect_files("/disk/c", "/disk/t");
}

/* ---- Schedules --------------------------------------------------------------------------------------------------- */

static void begin(void) {
  disk_free(disk_now);
  disk_now = disk_copy(array_only);
  disk_random_seed(2);
  now = INT64_C(1700000000000000000);
  calls[1] = calls[2] = 0;
  ended[1] = ended[2] = false;
}

static int codes[3];

static void *live(void *argument) {
  const int me = *(const int *)argument;
  self = me;
  pthread_mutex_lock(&mutex);
  wait_for_turn();
  pthread_mutex_unlock(&mutex);
  codes[me] = try_sync();
  self = 0;
  if (codes[me] == SQLITE_OK) expect_copy();
  self = me;
  ended[me] = true;
  pthread_mutex_lock(&mutex);
  running = ended[3 - me] ? 0 : 3 - me;
  pthread_cond_broadcast(&handed_over);
  pthread_mutex_unlock(&mutex);
  return NULL;
}

static void cross(long first, long second) {
  static const int numbers[] = {0, 1, 2};
  pthread_t threads[3];
  begin();
  pauses[1] = first;
  pauses[2] = second;
  for (int i = 1; i < 3; i++)
    if (pthread_create(&threads[i], NULL, live, (void *)(uintptr_t)&numbers[i]) != 0) exit(2);
  hand_over(1);
  for (int i = 1; i < 3; i++) pthread_join(threads[i], NULL);
  if (codes[1] != SQLITE_OK && codes[2] != SQLITE_OK) fail("neither has succeeded");
  expect_copy();
  if (disk_has(disk_now, ".claim_1") || disk_has(disk_now, ".claim_2") || disk_has(disk_now, ".claim_3"))
    fail("a claim is left");
}

/* Both pause, at calls that are spread over all. If pauses are longer than a claim lasts, only the first one does. */
static void cross_everywhere(const char *name, bool locks, int64_t milliseconds) {
  what = name;
  machines.locks = locks;
  suspended = milliseconds * 1000000;
  cross(NEVER, NEVER);
  const long most = calls[1];
  if (most < 40) fail("only so few calls");
  for (long first = 1; first <= most; first += STEP)
    for (long second = suspended ? most + 1 : 1 + first * 7 % STRIDE; second <= most + STRIDE; second += STRIDE)
      cross(first, second > most ? NEVER : second);
}

/* A sync dies at each call; another one takes its place over, and meanwhile a file of a stranger appears. */
static void strangers_everywhere(bool locks) {
  what = "a stranger's file";
  machines.locks = locks;
  begin();
  ended[2] = true; /* there is one at a time */
  pauses[1] = 80; /* a part is copied */
  self = 1;
  cut = true;
  (void)try_sync();
  cut = false;
  now += INT64_C(61000000000);
  disk *rest = disk_copy(disk_now);
  for (long at = 0, most = 0; at <= most; at += 2) {
    disk_free(disk_now);
    disk_now = disk_copy(rest);
    pauses[1] = at ? at : NEVER; /* at first, nobody comes */
    calls[1] = 0;
    self = 1;
    foreign = "/disk/c/notes";
    foreign_made = false;
    const int code = try_sync();
    foreign = NULL;
    self = 0;
    if (!at) most = calls[1];
    if (!at && code != SQLITE_OK) fail("the place is not taken over");
    if (foreign_made && disk_find(disk_now, "/disk/c/notes", NULL) < 0) fail("it is gone");
  }
  disk_free(rest);
}

int main(void) {
  sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
  if (disk_vfs_register() != SQLITE_OK) return 2;
  sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init);
  disk_machines_now = &machines;
  disk_now = disk_new();
  disk_random_seed(1);
  now = INT64_C(1700000000000000000);
  what = "the array";
  run("CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT); INSERT INTO t VALUES(1, 1); "
      "INSERT INTO t VALUES(2, 2); SELECT tessera_set_metadata('/disk/t', 'k', 1)");
  array_only = disk_copy(disk_now);
  for (int locks = 0; locks < 2; locks++) {
    cross_everywhere("two at once", locks, 0);
    strangers_everywhere(locks);
  }
  cross_everywhere("two that are suspended for a minute", false, 61000);
  disk_free(array_only);
  disk_free(disk_now);
  sqlite3_reset_auto_extension();
  return 0;
}
