/* crossing.c: two processes sync the same array for the first time to the same place, on the disk in memory (disk.h).
 * The first one pauses at a call of the disk, and the second one begins; it pauses, too, the first one goes on to its
 * end, and the second one follows. Whoever says that it has succeeded leaves a copy with the files of the array, byte
 * for byte, which the other one does not harm. At least one succeeds; if both were suspended
 * for longer than a claim lasts, both may fail, and a sync a minute later succeeds.
 *
 * Or a stranger puts a file there while a sync removes what a dead one has left: this file stays.
 *
 * Each process is a thread; only one of them runs at a time.
 *
 * usage: fault_crossing [STEP STRIDE]   how many calls lie between those at which the first and the second one pause */
#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk.h"

int sqlite3_tessera_init(sqlite3 *db, char **message, const void *api);

#define NEVER       1000000000L
#define MILLISECOND INT64_C(1000000)
#define BEGINNING   INT64_C(1700000000000000000)
#define MINUTE      (61000 * MILLISECOND) /* in which a claim without a lock dies */
/* Calls at which a process pauses, by what is there: */
#define CLAIMED -1L /* its claim, not yet locked */
#define MADE    -2L /* the place, without a claim */

static long step = 8, stride = 36; /* between the calls at which the first one pauses, and the second one */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t handed_over = PTHREAD_COND_INITIALIZER;
static _Thread_local int self; /* 0: this thread looks from outside; 1 and 2: processes */
static int running; /* who runs */
static bool ended[3];
static int codes[3]; /* of those that have ended */
static long calls[3], pauses[3]; /* by process: its calls of the disk, and the one before which it pauses */
static long quiet[3], again; /* calls from the first pause to one more, and to each one more; 0: there is none */
static int dead; /* claims that are there when a schedule begins */
static long claimed[3]; /* by process: the call that follows its first claim */
static long branched; /* the call of the first one that follows its first directory after that of the commits */
static long published; /* the call of the first one that follows the one with which its copy becomes an array */
static long made[3]; /* by process: files and directories */
static const char *statements[3]; /* by process: what it runs; NULL: a sync */
static long fails[3]; /* by process: a call that fails, or 0; the second one then begins again */
static bool once; /* instead of pausing, the process has a call that fails */
static bool cut; /* instead of pausing, the process dies: all calls fail from there on */
static const char *foreign; /* a file that appears where a process would pause, or NULL */
static bool foreign_made;
static int64_t now, begun, suspended,
    pace; /* nanoseconds, and those with which schedules begin; how many pass while a process pauses first, and at each call */
static int64_t behind[3]; /* by process: by how much its clock for waits lags */
static bool stands; /* this clock stands still while a process pauses */
static bool alone; /* nobody takes the place over while the first one lives */
static bool brief; /* the second one does not pause for long */
static const char *what; /* for messages */
static disk *array_only, *start; /* the disk with the array alone, and that with which schedules begin */

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

/* Returns how many claims there are. */
static int count_claims(void) {
  bool is_directory;
  const char *name;
  const int there = disk_find(disk_now, "/disk/c", &is_directory);
  int count = 0;
  for (unsigned i = 0; there >= 0 && disk_entry(disk_now, there, i, &name, &is_directory); i++)
    count += strstr(name, ".claim_") != NULL;
  return count;
}

/* Returns true if a process is where it is to pause by what is there. */
static bool has_reached(long pause) {
  return pause == CLAIMED ? count_claims() > 0 : disk_find(disk_now, "/disk/c", NULL) >= 0;
}

static int turn(disk_act act, bool late) {
  made[self] += late && act == DISK_MAKE;
  if (late || self == 0) return 0;
  if (pace && count_claims() > 3) fail("claims pile up");
  if (!alone || self == 1) now += pace;
  calls[self]++;
  if (calls[self] == fails[self]) return EIO;
  if (alone && made[2] && count_claims() > 1 && !ended[1]) fail("it lives, and was taken over");
  if (pauses[self] < 0 && has_reached(pauses[self])) pauses[self] = calls[self];
  if (!claimed[self] && made[self] && count_claims() > dead) claimed[self] = calls[self];
  if (self == 1 && !branched && disk_find(disk_now, "/disk/c/__fragment_meta", NULL) >= 0) branched = calls[self];
  if (self == 1 && !published && disk_find(disk_now, "/disk/c/__schema", NULL) >= 0) published = calls[self];
  if (ended[3 - self] && codes[3 - self] == SQLITE_OK && disk_find(disk_now, "/disk/c/__schema", NULL) < 0)
    fail("the copy of the one that has succeeded is gone");
  const long past = calls[self] - pauses[self];
  if (past < 0 || pauses[self] < 0) return 0;
  if (cut || (once && past == 0)) return EIO;
  if (past > 0 && past != quiet[self] && !(again && past % again == 0)) return 0;
  if (foreign) return put_foreign(), 0;
  if (past == 0 && !(brief && self == 2)) {
    now += suspended;
    if (stands) behind[self] += suspended;
  }
  if (!ended[3 - self]) hand_over(3 - self);
  return 0;
}

/* Who waits lets the other one go on. */
static void pass(int64_t nanoseconds) {
  now += nanoseconds;
  if (self && !ended[3 - self]) hand_over(3 - self);
}
static int64_t read_clock(bool steady) {
  now += 200;
  return steady ? now - behind[self] : now;
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

static char message[1000]; /* of the last sync that failed */

static int try_sync(void) {
  const char *sql = self && statements[self] ? statements[self] : "SELECT tessera_sync('/disk/t', '/disk/c')";
  sqlite3 *db;
  if (sqlite3_open(":memory:", &db) != SQLITE_OK) exit(2);
  const int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
  if (code != SQLITE_OK) snprintf(message, sizeof message, "%s", sqlite3_errmsg(db));
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
    static char bytes[2][20 << 20];
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

/* Expects nothing beside the copy but the record of the sync: no claim, no schema with a provisional name. */
static void expect_nothing_else(void) {
  bool is_directory;
  const char *name;
  const int there = disk_find(disk_now, "/disk/c", &is_directory);
  for (unsigned i = 0; disk_entry(disk_now, there, i, &name, &is_directory); i++)
    if (*name == '.' && (strncmp(name, ".synced_", 8) != 0 || strchr(name + 1, '.'))) fail(name);
}

/* A process on its own that neither pauses nor dies. */
static int sync_alone(void) {
  ended[1] = ended[2] = true;
  pauses[1] = NEVER;
  self = 1;
  const int code = try_sync();
  self = 0;
  return code;
}

/* ---- Schedules --------------------------------------------------------------------------------------------------- */

static void begin(void) {
  disk_free(disk_now);
  disk_now = disk_copy(start);
  disk_random_seed(2);
  now = begun;
  dead = count_claims();
  calls[1] = calls[2] = made[1] = made[2] = claimed[1] = claimed[2] = branched = published = 0;
  ended[1] = ended[2] = false;
  codes[1] = codes[2] = SQLITE_ERROR;
  behind[1] = behind[2] = 0;
}

static void *live(void *argument) {
  const int me = *(const int *)argument;
  self = me;
  pthread_mutex_lock(&mutex);
  wait_for_turn();
  pthread_mutex_unlock(&mutex);
  if (me == 2 && fails[2]) {
    const long pause = pauses[2];
    pauses[2] = NEVER;
    (void)try_sync();
    pauses[2] = pause;
    calls[2] = fails[2] = 0;
  }
  codes[me] = try_sync();
  self = 0;
  if (codes[me] != SQLITE_OK && codes[me] != SQLITE_BUSY && codes[me] != SQLITE_ABORT && !fails[me] && !statements[1])
    fail(message);
  if (codes[me] == SQLITE_OK && !statements[1]) expect_copy();
  self = me;
  ended[me] = true;
  pthread_mutex_lock(&mutex);
  running = ended[3 - me] ? 0 : 3 - me;
  pthread_cond_broadcast(&handed_over);
  pthread_mutex_unlock(&mutex);
  return NULL;
}

/* Lets two processes cross. */
static void meet(long first, long second) {
  static const int numbers[] = {0, 1, 2};
  pthread_t threads[3];
  begin();
  pauses[1] = first;
  pauses[2] = second;
  for (int i = 1; i < 3; i++)
    if (pthread_create(&threads[i], NULL, live, (void *)(uintptr_t)&numbers[i]) != 0) exit(2);
  hand_over(1);
  for (int i = 1; i < 3; i++) pthread_join(threads[i], NULL);
}

static void cross(long first, long second) {
  meet(first, second);
  if (codes[1] != SQLITE_OK && codes[2] != SQLITE_OK) {
    if ((second == NEVER && !alone) || !(suspended || pace)) fail("neither has succeeded");
    now += MINUTE;
    if (sync_alone() != SQLITE_OK) fail(message);
  }
  expect_copy();
  expect_nothing_else();
}

/* Both pause, at calls that are spread over all. */
static void cross_everywhere(const char *name, bool locks, int64_t nanoseconds) {
  what = name;
  machines.locks = locks;
  suspended = nanoseconds;
  cross(NEVER, NEVER);
  const long most = calls[1];
  if (most < 40) fail("only so few calls");
  for (long first = 1; first <= most; first += step, stands = !stands)
    for (long second = 1 + first * 7 % stride; second <= most + stride; second += stride)
      cross(first, second > most ? NEVER : second);
}

/* The first one pauses as soon as its claim is there, the second one while it takes the place. */
static void cross_at_claims(void) {
  what = "claims that are not locked yet";
  machines.locks = true;
  cross(NEVER, NEVER);
  const long made_alone = made[1] + made[2];
  again = 20;
  for (long second = 1; second <= 3 * stride; second++) {
    cross(CLAIMED, second);
    if (made[1] + made[2] > made_alone * 5 / 4) fail("both copy");
  }
  again = 0;
}

/* The first one pauses just before its copy becomes an array, the second one while it takes the place or fills it. */
static void cross_at_publishing(void) {
  what = "one that is suspended before it publishes";
  machines.locks = false;
  cross(NEVER, NEVER);
  const long first = published - 1;
  suspended = MINUTE;
  for (long second = 1; second <= 6 * stride; second++, stands = !stands) cross(first, second);
  suspended = 0;
}

/* The first one is suspended with the place made and not claimed, and the second one is about to fill it. */
static void cross_at_making(void) {
  what = "one that is suspended before it claims";
  suspended = MINUTE;
  for (int locks = 0; locks < 2; locks++) {
    machines.locks = locks;
    for (long second = 1; second <= 3 * stride; second++) cross(MADE, second);
  }
  suspended = 0;
}

/* The first one is suspended when it has copied the commits and nothing else. If the second one has removed them by then,
 * and has not yet copied them all, the first one can copy the rest, and must not publish that. `failing`: the second
 * one fails, leaves nothing behind, and begins again, with a claim that is not the next one of the first. */
static void cross_after_commits(bool failing) {
  what = failing ? "one that fails and begins again" : "one that is suspended after the commits";
  machines.locks = false;
  cross(NEVER, NEVER);
  const long first = branched - 1, most = published;
  suspended = MINUTE;
  brief = true;
  for (int standing = 0; standing < 2; standing++)
    for (long second = 1; second < most; second++) {
      stands = standing;
      fails[2] = failing ? most - 30 : 0;
      cross(first, second);
    }
  suspended = fails[2] = 0;
  brief = false;
}

/* The first one creates another array in the place, and pauses, also for a minute. One of both succeeds, and the sync
 * leaves an array that was created alone. */
static void cross_a_creation(bool locks, int64_t nanoseconds) {
  what = "a creation";
  machines.locks = locks;
  statements[1] = "CREATE VIRTUAL TABLE c USING tessera('/disk/c', x INT DIMENSION(0, 9), b INT)";
  suspended = nanoseconds;
  meet(MADE, NEVER);
  const long place = pauses[1], most = calls[1];
  for (long first = 1; first <= most; first += 8)
    for (long second = 1 + first % 11; second <= 4 * stride; second += 11) {
      meet(first, second);
      if ((codes[1] == SQLITE_OK) == (codes[2] == SQLITE_OK)) fail(message);
      if (codes[1] != SQLITE_OK && first >= place && !nanoseconds) fail("the creation has failed");
      if (codes[1] == SQLITE_OK)
        run("CREATE VIRTUAL TABLE c USING tessera('/disk/c'); INSERT INTO c(x, b) VALUES(1, 1); "
            "CREATE TEMP TABLE bad(x CHECK(NOT x)); INSERT INTO bad SELECT count(*) <> 1 FROM c");
    }
  statements[1] = NULL;
  suspended = 0;
}

/* The disk is slow, so that claims are renewed. Who lives is left alone. Who was suspended, while another one was about
 * to take over, and then renews its claim twice, keeps it. */
static void cross_slowly(void) {
  what = "a slow disk";
  machines.locks = false;
  pace = MILLISECOND * 400;
  again = 20;
  for (long second = 1; second <= 3 * stride; second += step) {
    cross(CLAIMED, second);
    if (codes[1] != SQLITE_OK || made[2] * 4 > made[1]) fail("it lives, and was taken over");
  }
  what = "a slow disk, and one is suspended";
  again = 0;
  stands = false;
  suspended = MINUTE;
  cross(CLAIMED, NEVER);
  const long most = calls[2], second = claimed[2] - 1; /* the first one is dead, and its claim not taken over yet */
  quiet[1] = 90; /* calls in which it renews its claim twice */
  for (quiet[2] = 4; quiet[2] <= most; quiet[2] += 4) {
    cross(CLAIMED, second);
    if (made[2] * 4 > made[1]) fail("it lives, and another one copies");
  }
  suspended = pace = quiet[1] = quiet[2] = 0;
}

/* A sync dies after it has copied a part. */
static void leave_part(bool locks, long at) {
  machines.locks = locks;
  begin();
  ended[2] = true; /* there is one at a time */
  pauses[1] = at;
  self = 1;
  cut = true;
  (void)try_sync();
  cut = false;
  self = 0;
}

/* The disk is so slow that each part of a sync takes longer than a claim lasts: many commits, a large file, the removal
 * of what a dead one has left, that of an own copy after a call has failed. Who lives is left alone all the time. */
static void cross_very_slowly(void) {
  machines.locks = false;
  alone = true;
  again = 10;
  begin();
  run("CREATE VIRTUAL TABLE t USING tessera('/disk/t'); INSERT INTO t VALUES(3, 3); INSERT INTO t VALUES(4, 4); "
      "INSERT INTO t VALUES(5, 5); INSERT INTO t VALUES(6, 6); INSERT INTO t VALUES(7, 7); INSERT INTO t VALUES(8, 8); "
      "INSERT INTO t VALUES(9, 9); INSERT INTO t VALUES(10, 10); INSERT INTO t VALUES(11, 11); "
      "INSERT INTO t VALUES(12, 12); INSERT INTO t VALUES(13, 13); INSERT INTO t VALUES(14, 14)");
  disk *many = start = disk_copy(disk_now);
  what = "a slow disk, and many commits";
  cross(NEVER, NEVER);
  const long last = published - 2;
  pace = 2000 * MILLISECOND;
  cross(CLAIMED, NEVER);
  if (codes[1] != SQLITE_OK) fail("it has failed");
  what = "a slow disk, and a call that fails";
  for (fails[1] = last - 18; fails[1] <= last; fails[1] += 6) cross(CLAIMED, NEVER);
  fails[1] = 0;
  what = "a slow disk, and much to remove";
  pace = 0;
  leave_part(false, last);
  now += MINUTE;
  begun = now;
  start = disk_copy(disk_now);
  cross(NEVER, NEVER);
  pace = 1000 * MILLISECOND;
  cross(claimed[1], NEVER);
  if (codes[1] != SQLITE_OK) fail("it has failed");
  disk_free(start);
  disk_free(many);
  what = "a slow disk, and a large file";
  pace = 0;
  start = array_only;
  begun = BEGINNING;
  begin();
  run("CREATE VIRTUAL TABLE t USING tessera('/disk/t'); SELECT tessera_set_metadata('/disk/t', 'l', randomblob(18 << "
      "20))");
  start = disk_copy(disk_now);
  pace = 2000 * MILLISECOND;
  cross(CLAIMED, NEVER);
  if (codes[1] != SQLITE_OK) fail("it has failed");
  disk_free(start);
  start = array_only;
  alone = false;
  pace = again = 0;
}

/* A claim that nobody can judge, because it may be locked or because it is of next year: the error says so. */
static void expect_unknown(void) {
  if (sync_alone() != SQLITE_BUSY || !strstr(message, ".claim_") || !strstr(message, "remove the directory"))
    fail(message);
}

static void unknown_claims(void) {
  what = "a claim with a lock, where locks cannot be tested";
  leave_part(true, 80);
  machines.locks = false;
  now += MINUTE;
  expect_unknown();
  what = "a claim of next year";
  leave_part(false, 80);
  now -= INT64_C(31536000000000000);
  expect_unknown();
}

/* A sync dies, and two others are about to take its place over at once: one gives way, and says so. */
static void cross_at_takeovers(bool locks) {
  what = "two that take over";
  leave_part(locks, 80);
  now += MINUTE;
  begun = now;
  start = disk_copy(disk_now);
  cross(NEVER, NEVER);
  const long first = claimed[1] - 1;
  for (long second = 1; second <= 4 * stride; second++) cross(first, second);
  disk_free(start);
  start = array_only;
  begun = BEGINNING;
}

/* A sync dies; another one takes its place over, and meanwhile a file of a stranger appears. */
static void strangers_everywhere(bool locks) {
  what = "a stranger's file";
  leave_part(locks, 80);
  now += MINUTE;
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

/* A call fails once, of a sync to a new place and of one that takes a place over. A later one succeeds. */
static void fail_everywhere(bool locks) {
  what = "a call that fails";
  for (int taken = 0; taken < 2; taken++) {
    if (taken) leave_part(locks, 80);
    else begin();
    machines.locks = locks;
    now += MINUTE;
    disk *before = disk_copy(disk_now);
    for (long at = 0, most = 0; at <= most; at += step / 2) {
      disk_free(disk_now);
      disk_now = disk_copy(before);
      ended[2] = true;
      pauses[1] = at ? at : NEVER; /* at first, none fails */
      calls[1] = 0;
      self = 1;
      once = true;
      (void)try_sync();
      once = false;
      self = 0;
      if (!at) most = calls[1];
      now += MINUTE;
      if (sync_alone() != SQLITE_OK) fail(message);
      expect_copy();
      expect_nothing_else();
    }
    disk_free(before);
  }
}

int main(int count, char **words) {
  if (count == 3) step = atol(words[1]), stride = atol(words[2]);
  if (step < 2 || stride < 1) return 2;
  sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
  if (disk_vfs_register() != SQLITE_OK) return 2;
  sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init);
  disk_machines_now = &machines;
  disk_now = disk_new();
  disk_random_seed(1);
  now = begun = BEGINNING;
  what = "the array";
  run("CREATE VIRTUAL TABLE t USING tessera('/disk/t', x INT DIMENSION(0, 1000), a INT); INSERT INTO t VALUES(1, 1); "
      "INSERT INTO t VALUES(2, 2); SELECT tessera_set_metadata('/disk/t', 'k', 1)");
  array_only = start = disk_copy(disk_now);
  for (int locks = 0; locks < 2; locks++) {
    cross_everywhere("two at once", locks, 0);
    strangers_everywhere(locks);
    fail_everywhere(locks);
    cross_at_takeovers(locks);
  }
  cross_everywhere("two that are suspended for a minute", false, MINUTE);
  suspended = 0;
  cross_at_claims();
  cross_at_publishing();
  cross_at_making();
  cross_after_commits(false);
  cross_after_commits(true);
  for (int locks = 0; locks < 2; locks++) {
    cross_a_creation(locks, 0);
    cross_a_creation(locks, MINUTE);
  }
  cross_slowly();
  cross_very_slowly();
  unknown_claims();
  disk_free(array_only);
  disk_free(disk_now);
  sqlite3_reset_auto_extension();
  return 0;
}
