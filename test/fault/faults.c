/* faults.c: the n-th allocation fails, or the n-th call to the disk, either once or from then on; or a place in the sources that allocates
 * (places.h) fails once, or each time. Each scenario (scenarios.c) runs with a fault for every n up to the number of calls, and the test
 * checks that
 *   - a statement fails with a clear error or gives the right rows
 *   - the arrays are then as before the statement or as after it, at all times
 *   - the same connection can go on; another one is not locked out and sees the same
 *   - tessera_check finds nothing
 *   - no memory and no open file is left when everything is closed.
 *
 * usage: faults CORPUS [SAMPLES [SEED [SCENARIO]]]      about SAMPLES faults of each kind in each scenario; 0: all of them
 *        faults CORPUS places                            each place, in the first two scenarios that pass it (with SAMPLE in the environment, in the first); with 0 samples in all
 *        faults CORPUS SCENARIO KIND N once|on          this fault only
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

#include "places.h"
#include "scenario.h"

/* ---- Faults ------------------------------------------------------------------------------------------------------ */

/* Kinds of faults; all others are those of disk_fault. */
#define MEMORY 0
#define PLACE  DISK_FAULTS

static sqlite3_mem_methods real;
static atomic_long allocations, memory_from, memory_to, memory_failed;
static sqlite3_int64 idle; /* bytes that SQLite has allocated while no connection is open */

static int memory_fails(void) {
  long n = atomic_fetch_add(&allocations, 1) + 1;
  if (n < atomic_load(&memory_from) || n >= atomic_load(&memory_to)) return 0;
  atomic_fetch_add(&memory_failed, 1);
  return 1;
}

static void *counted_malloc(int size) { return memory_fails() ? NULL : real.xMalloc(size); }
static void *counted_realloc(void *p, int size) { return memory_fails() ? NULL : real.xRealloc(p, size); }

typedef struct fault {
  int kind;
  long n;
  bool on; /* all calls from the n-th on fail; otherwise the n-th only */
} fault;

static const char *kind_name(int kind) {
  return kind == MEMORY ? "out of memory" : kind == PLACE ? "no memory at a place" : disk_fault_names[kind];
}

static void arm(const fault *f) {
  const long to = f->on ? 1L << 60 : f->n + 1;
  atomic_store(&allocations, 0);
  atomic_store(&memory_failed, 0);
  atomic_store(&memory_from, f->kind == MEMORY ? f->n : 0);
  atomic_store(&memory_to, f->kind == MEMORY ? to : 0);
  disk_arm(f->kind == PLACE ? 0 : (disk_fault)f->kind, f->n, f->kind == MEMORY || f->kind == PLACE ? 0 : to);
  if (f->kind == PLACE && !f->n) places_watch();
  else places_arm(f->kind == PLACE ? f->n : 0, f->on);
}

/* Returns the number of calls that were counted, failed or not. */
static long disarm(int kind) {
  const long calls = disk_disarm();
  atomic_store(&memory_to, 0);
  if (kind == PLACE) places_end();
  return kind == MEMORY ? atomic_load(&allocations) : calls;
}

static long failures(int kind) {
  return kind == MEMORY ? atomic_load(&memory_failed) : kind == PLACE ? places_failed() : disk_failed();
}

/* ---- One run ----------------------------------------------------------------------------------------------------- */

static int problems;

typedef struct trial {
  const course *c;
  fault f;
  int step; /* the step that failed, or the last one */
  int code;
  char *message; /* of sqlite3_mprintf */
  bool done; /* all steps have succeeded */
  bool bad;
} trial;

static void tell(trial *t, const char *what, const char *detail) {
  const scenario *s = t->c->scenario;
  t->bad = true;
  problems++;
  printf("%s, %s at %ld%s, step %d %.60s", s->name, kind_name(t->f.kind), t->f.n, t->f.on ? " and from then on" : "",
         t->step, t->step < 0 ? "(open)" : s->steps[t->step]);
  if (t->code) printf(" (%d %s)", t->code, t->message ? t->message : "");
  printf(": %s%s%s", what, detail ? ": " : "", detail ? detail : "");
  if (t->f.kind == PLACE && t->f.n) printf(" (addr2line -ife PROGRAM %#lx)", places_address(t->f.n));
  printf("\n");
}

/* Error messages that are too vague to be allowed. */
static bool is_clear(const trial *t) {
  static const char *const empty[] = {"not an error", "SQL logic error", "unknown error", "constraint failed"};
  const int code = t->code & 0xff;
  if (t->f.kind == MEMORY || t->f.kind == PLACE)
    return code == SQLITE_NOMEM || t->code == SQLITE_IOERR_NOMEM || (t->message && strstr(t->message, "memory"));
  if (!t->message || !*t->message) return false;
  for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
    if (!strcmp(t->message, empty[i])) return false;
  return t->f.kind == DISK_SHORT || code != SQLITE_CORRUPT;
}

static void run_steps(trial *t, sqlite3 *db) {
  const course *c = t->c;
  for (int i = 0; i < c->step_count; i++) {
    text rows = {0};
    const bool alone = sqlite3_get_autocommit(db);
    t->step = i;
    session_clock(c->setup_count + i);
    t->code = text_step(db, c->scenario->steps[i], &rows, &t->message);
    const bool hopeless = t->f.on && t->f.kind == MEMORY; /* then the host cannot run a ROLLBACK either */
    if (t->code != SQLITE_OK && alone && !hopeless && !sqlite3_get_autocommit(db))
      tell(t, "it leaves a transaction open", NULL);
    const bool tells =
        strstr(c->scenario->steps[i], "tessera_check") && failures(t->f.kind); /* it reports the fault in its rows */
    if (t->code == SQLITE_OK && !tells &&
        strcmp(rows.bytes ? rows.bytes : "", c->rows[i].bytes ? c->rows[i].bytes : ""))
      tell(t, "it has succeeded with other rows", rows.bytes ? rows.bytes : "none");
    text_free(&rows);
    if (t->code != SQLITE_OK || t->bad) return;
  }
  t->done = true;
}

/* Returns the number of the first step that removes the past. If a commit is in the database but could not be published,
 * consolidation does not merge it, and so a vacuum leaves more of the past: its moments may look as before that step. */
static int first_maintenance(const trial *t) {
  const course *c = t->c;
  int i = 0;
  while (i < c->step_count && !strstr(c->scenario->steps[i], "tessera_consolidate") &&
         !strstr(c->scenario->steps[i], "tessera_vacuum"))
    i++;
  return i;
}

/* Finds the steps whose states the arrays may be in: *low or *high. */
static void allowed(const trial *t, int *low, int *high) {
  const course *c = t->c;
  if (t->step < 0) *low = *high = 0;
  else if (t->done) {
    *high = c->step_count;
    *low = c->scenario->interleaved && disk_has(disk_now, ".pending") ? first_maintenance(t) : *high;
  } else {
    *low = c->began[t->step];
    *high = c->ends[t->step] ? t->step + 1 : *low;
  }
}

/* Digests of disks that were examined completely and found sound, with the two states that were allowed. The examination of
 * the same disk would give the same result, so it is skipped. */
static struct {
  uint64_t *items;
  size_t count;
} known;

static bool is_known(uint64_t which) {
  for (size_t i = known.count; i-- > 0;)
    if (known.items[i] == which) return true;
  return false;
}

static void note(uint64_t which) {
  if (is_known(which)) return;
  known.items = realloc(known.items, (known.count + 1) * sizeof *known.items);
  if (!known.items) abort();
  known.items[known.count++] = which;
}

static void forget_all(void) {
  free(known.items);
  known.items = NULL;
  known.count = 0;
}

static uint64_t which_disk(int low, int high) {
  return disk_digest(disk_now) * 31 + (uint64_t)(low * 2 * STEPS_MAX + high);
}

/* `moment`: the time in the past that was looked at; 0: all times. */
static void compare(trial *t, const text *got, const text *states, int low, int high, int moment, const char *what) {
  text before = {0}, after = {0};
  if (t->bad) return;
  if (moment) {
    state_at(&states[low], moment, &before);
    state_at(&states[high], moment, &after);
  }
  if (!state_is(t->c->scenario, got, moment ? &before : &states[low], moment ? &after : &states[high])) {
    tell(t, what, NULL);
    state_differ(got, moment ? &before : &states[low], stdout);
  }
  text_free(&before);
  text_free(&after);
}

/* Checks that another connection is not locked out and sees the same. */
static void look_from_outside(trial *t, int low, int high) {
  const course *c = t->c;
  sqlite3 *db = NULL;
  text state = {0};
  char *message = NULL;
  if (session_open(c->scenario, &db) != SQLITE_OK)
    tell(t, "another connection cannot open the database", sqlite3_errmsg(db));
  else if (sqlite3_exec(db, "BEGIN IMMEDIATE; COMMIT", NULL, NULL, &message) != SQLITE_OK)
    tell(t, "a lock is left", message);
  else {
    state_look(db, c->scenario, c->setup_count + c->step_count, 0, &state);
    compare(t, &state, c->later, low, high, 0, "what was written afterwards reads otherwise elsewhere");
  }
  sqlite3_free(message);
  text_free(&state);
  sqlite3_close(db);
}

static void examine(trial *t, sqlite3 *db) {
  const course *c = t->c;
  const scenario *s = c->scenario;
  const int statements = c->setup_count + c->step_count;
  int low, high;
  text state = {0}, found = {0};
  char *failed = NULL;
  allowed(t, &low, &high);
  if (!sqlite3_get_autocommit(db)) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  if (!sqlite3_get_autocommit(db)) tell(t, "the transaction stays open", sqlite3_errmsg(db));
  if (disk_locked(disk_now)) tell(t, "a lock is left", NULL);
  const uint64_t now = which_disk(low, high);
  const int moment = is_known(now) ? 1 + (int)(t->f.n % statements) : 0;
  state_look(db, s, statements, moment, &state);
  compare(t, &state, c->states, low, high, moment, "neither before nor after");
  if (!t->bad && (failed = session_again(db, s))) tell(t, "the connection does not go on", failed);
  if (!t->bad && disk_locked(disk_now)) tell(t, "a lock is left afterwards", NULL);
  const uint64_t later = ~which_disk(low, high);
  if (!t->bad && !is_known(later)) {
    look_from_outside(t, low, high);
    state_check(db, &found);
    if (!t->bad && found.bytes) tell(t, "tessera_check", found.bytes);
  }
  if (!t->bad) {
    note(now);
    note(later);
  }
  sqlite3_free(failed);
  text_free(&state);
  text_free(&found);
}

/* Runs the scenario with a fault. Returns false if the fault was not reached. *calls is the number of calls that the fault
 * concerns. */
static bool run(const course *c, const fault *f, long *calls) {
  trial t = {.c = c, .f = *f, .step = -1};
  sqlite3 *db = NULL;
  session_begin(disk_copy(c->base), 4);
  arm(f);
  t.code = session_open(c->scenario, &db);
  if (t.code == SQLITE_OK) run_steps(&t, db);
  if (f->on && db && !sqlite3_get_autocommit(db)) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  const bool failed = failures(f->kind) > 0;
  *calls = disarm(f->kind);
  if (t.step < 0) { /* loading the extension into this connection has failed, with an error */
    sqlite3_close(db);
    db = NULL;
    if (session_open(c->scenario, &db) != SQLITE_OK) tell(&t, "another connection cannot open", sqlite3_errmsg(db));
  } else if (!t.bad && !t.done && !failed) {
    tell(&t, "it has failed without a fault", NULL);
  } else if (!t.bad && !t.done && !is_clear(&t)) {
    tell(&t, "no clear error", NULL);
  }
  if (!t.bad) examine(&t, db);
  sqlite3_free(t.message);
  if (sqlite3_close(db) != SQLITE_OK) tell(&t, "the connection does not close", NULL);
  disk_free(disk_now);
  disk_now = NULL;
  t.message = NULL;
  char left[60];
  snprintf(left, sizeof left, "%lld bytes, %d files", (long long)(sqlite3_memory_used() - idle), disk_files_open);
  if (sqlite3_memory_used() != idle || disk_files_open) {
    tell(&t, "not given back", left);
    idle = sqlite3_memory_used();
    disk_files_open = 0;
  }
  return failed;
}

/* ---- All faults -------------------------------------------------------------------------------------------------- */

static uint64_t chance(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 33;
}

static void run_kind(const course *c, int kind, unsigned samples, uint64_t *seed) {
  fault none = {.kind = kind, .n = 1L << 60};
  long total, calls;
  run(c, &none, &total);
  if (kind == DISK_LATE && !c->marks[c->step_count]) return;
  if (kind == MEMORY) samples *= 4; /* there are many more allocations than calls to the disk */
  long step = samples ? 1 + 2 * total / samples : 1, runs = 0;
  for (int on = 0; on < 2; on++)
    for (long n = 1 + (samples ? (long)(chance(seed) % (uint64_t)step) : 0); problems < 20; n += step, runs++) {
      const fault f = {.kind = kind, .n = n, .on = on};
      if (!run(c, &f, &calls) && n > total) break;
    }
  printf("%s, %s: %ld calls, %ld runs, %zu disks\n", c->scenario->name, kind_name(kind), total, runs, known.count);
}

/* Lets each place fail that the scenario passes; without `all`, only in the first two scenarios that pass it, or with the
 * environment variable SAMPLE only in the first, and in one way. */
static void run_places(const course *c, bool all) {
  static unsigned char tried[PLACES_MAX]; /* the number of scenarios in which a place has failed */
  const fault none = {.kind = PLACE};
  const char *share = getenv("SAMPLE");
  const bool sampled = share && atoi(share) > 1;
  const unsigned char enough = sampled ? 1 : 2;
  long calls, runs = 0;
  run(c, &none, &calls);
  for (long n = 1; n <= places_count(); n++) {
    if (!places_met(n) || (!all && tried[n] == enough)) continue;
    tried[n]++;
    for (int on = 0; on < 2 && problems < 20; on++) {
      if (sampled && on != (n & 1)) continue; /* half of the places fail once, the others for good */
      runs++;
      const fault f = {.kind = PLACE, .n = n, .on = on};
      run(c, &f, &calls);
    }
  }
  printf("%s, %s: %ld runs, %zu disks\n", c->scenario->name, kind_name(PLACE), runs, known.count);
}

/* `places`: only the places fail. */
static void run_scenario(const scenario *s, const char *corpus, bool places, unsigned samples, uint64_t seed) {
  static course c;
  if (course_run(&c, s, corpus)) {
    idle = sqlite3_memory_used();
    for (int kind = 0; kind < DISK_FAULTS && !places; kind++) run_kind(&c, kind, samples, &seed);
    if (places || samples == 0) run_places(&c, !places);
  } else {
    problems++;
  }
  forget_all();
  course_free(&c);
}

static void run_one(const scenario *s, char **words) {
  static course c;
  const fault f = {.kind = atoi(words[3]), .n = atol(words[4]), .on = !strcmp(words[5], "on")};
  if (course_run(&c, s, words[1])) {
    idle = sqlite3_memory_used();
    long calls;
    printf("%s\n", run(&c, &f, &calls) ? "reached" : "not reached");
  }
  course_free(&c);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0); /* sanitizers end the process without flushing stdout */
  const bool places = argc > 2 && !strcmp(argv[2], "places");
  const unsigned samples = argc > 2 ? (unsigned)atoi(argv[2]) : 4;
  const uint64_t seed = argc > 3 ? (uint64_t)atoll(argv[3]) : 1;
  sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real);
  sqlite3_mem_methods counted = real;
  counted.xMalloc = counted_malloc;
  counted.xRealloc = counted_realloc;
  if (sqlite3_config(SQLITE_CONFIG_MALLOC, &counted) != SQLITE_OK ||
      sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) != SQLITE_OK || disk_vfs_register() != SQLITE_OK)
    return 2;
  sqlite3_auto_extension((void (*)(void))places_load);
  for (int i = 0; scenarios[i]; i++) {
    if (argc == 6 && !strcmp(scenarios[i]->name, argv[2])) run_one(scenarios[i], argv);
    if (argc == 6 || (argc == 5 && !strstr(scenarios[i]->name, argv[4]))) continue;
    run_scenario(scenarios[i], argv[1], places, samples, seed + (uint64_t)i);
  }
  sqlite3_reset_auto_extension();
  printf("%d problems\n", problems);
  return problems != 0;
}
