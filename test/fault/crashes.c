/* crashes.c: simulates power failures. Each scenario (scenarios.c) runs once on a disk that keeps a log. The log is cut at
 * each change, and the changes that were not synced by then are lost, torn or kept (disk.h). A new process then opens the
 * rest of the disk, and the test checks that
 *   - the transaction that was running is there completely or not at all, at every time, for this database and for others
 *   - a transaction that had succeeded is there
 *   - tessera_check finds nothing, and the next statements succeed.
 *
 * usage: crashes CORPUS [SAMPLES [SEED [SCENARIO]]]      SAMPLES cuts of each scenario, with one loss each; 0: all cuts, all losses
 *        crashes CORPUS SCENARIO CUT LOSS      this crash only; prints the contents of the disk after it
 */
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

int sqlite3_tessera_init(sqlite3 *db, char **message, const void *api);

#define CHANCES 6 /* the number of random losses, besides the DISK_LOSSES that have names */

static const char *const losses[DISK_LOSSES] = {"all is lost that was not forced", "nothing is lost", "bytes are lost",
                                                "half of the bytes is lost",       "bytes are zeros", "names are lost",
                                                "the last name alone is there"};
static int problems;

static void tell(const course *c, unsigned cut, unsigned loss, const char *what) {
  char what_next[200] = "the end";
  if (cut < disk_log_size()) disk_log_print(cut, what_next);
  problems++;
  printf("%s, cut %u of %u, before \"%s\", %s", c->scenario->name, cut, disk_log_size(), what_next,
         loss < DISK_LOSSES ? losses[loss] : "loss by chance");
  if (loss >= DISK_LOSSES) printf(" %u", loss);
  printf(": %s\n", what);
}

/* Finds the steps after which the state may be that of the disk: *low or *high, which are equal if no step was running. */
static void allowed(const course *c, unsigned cut, int *low, int *high) {
  int step = 0;
  while (step < c->step_count && c->marks[step + 1] <= cut) step++;
  if (step == c->step_count || cut == c->marks[step]) {
    *low = *high = step;
    if (step > 0 && !c->ends[step - 1]) *low = *high = c->began[step - 1];
    return;
  }
  *low = c->began[step];
  *high = c->ends[step] ? step + 1 : *low;
}

/* Runs the scenario's `again` through this connection, and looks at the result through another one. */
static bool go_on(const course *c, sqlite3 *writer, const text *seen, unsigned cut, unsigned loss, int low, int high) {
  const scenario *s = c->scenario;
  const int statements = c->setup_count + c->step_count;
  text found = {0}, later = {0};
  sqlite3 *db = NULL;
  char *failed = session_again(writer, s);
  bool fine = false;
  if (!failed && session_open(s, &db) == SQLITE_OK) state_look(db, s, statements, 0, &later);
  if (failed) tell(c, cut, loss, failed);
  else if (!state_is(s, &later, &c->later[low], &c->later[high])) {
    tell(c, cut, loss, "what was written afterwards reads otherwise");
    state_differ(&later, state_is(s, seen, &c->states[low], NULL) ? &c->later[low] : &c->later[high], stdout);
  } else {
    state_check(db, &found);
    if (found.bytes) tell(c, cut, loss, found.bytes);
    fine = !found.bytes;
  }
  sqlite3_close(db);
  sqlite3_free(failed);
  text_free(&found);
  text_free(&later);
  return fine;
}

static bool examine(const course *c, const disk *left, unsigned cut, unsigned loss) {
  const scenario *s = c->scenario;
  const int statements = c->setup_count + c->step_count;
  sqlite3 *db = NULL;
  text seen = {0}, others = {0}, found = {0};
  int low, high;
  bool fine = false;
  allowed(c, cut, &low, &high);
  session_begin(disk_copy(left), 4);
  if (session_open(s, &db) != SQLITE_OK) {
    tell(c, cut, loss, "the database does not open");
  } else {
    state_beside(s, db, &others);
    state_look(db, s, statements, 0, &seen);
    state_check(db, &found);
    if (!state_is(s, &seen, &c->states[low], &c->states[high])) {
      tell(c, cut, loss, low == high ? "what was committed is not there" : "neither before nor after");
      state_differ(&seen, &c->states[low], stdout);
    } else if (!state_between(&others, &c->beside[low], &c->beside[high])) {
      tell(c, cut, loss, "others see neither before nor after");
      state_differ(&others, &c->beside[low], stdout);
    } else if (found.bytes) {
      tell(c, cut, loss, found.bytes);
    } else {
      fine = go_on(c, db, &seen, cut, loss, low, high);
    }
  }
  sqlite3_close(db);
  text_free(&seen);
  text_free(&others);
  text_free(&found);
  disk_free(disk_now);
  disk_now = NULL;
  return fine;
}

static uint64_t chance(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 33;
}

static void crash_scenario(const scenario *s, const char *corpus, unsigned samples, uint64_t seed) {
  static course c;
  unsigned runs = 0;
  if (!course_run(&c, s, corpus)) {
    problems++;
    course_free(&c);
    return;
  }
  const unsigned cuts = disk_log_size() + 1;
  unsigned step = samples && cuts > samples ? cuts / samples : 1;
  unsigned next = samples ? (unsigned)(chance(&seed) % step) : 0;
  disk *at = disk_copy(c.base);
  for (unsigned cut = 0; cut < cuts && problems < 20; cut++) {
    if (cut == next) {
      next += step;
      for (unsigned loss = 0; loss < DISK_LOSSES + CHANCES && problems < 20; loss++) {
        unsigned which = samples               ? (unsigned)(chance(&seed) % (DISK_LOSSES + 1000))
                         : loss >= DISK_LOSSES ? loss + cut * CHANCES
                                               : loss;
        disk *left = disk_crash(at, which);
        examine(&c, left, cut, which);
        disk_free(left);
        runs++;
        if (samples) break;
      }
    }
    if (cut + 1 < cuts) disk_log_apply(at, cut);
  }
  disk_free(at);
  course_free(&c);
  printf("%s: %u changes, %u crashes\n", s->name, cuts - 1, runs);
}

static void crash_once(const scenario *s, const char *corpus, unsigned cut, unsigned loss) {
  static course c;
  if (course_run(&c, s, corpus)) {
    disk *at = disk_copy(c.base);
    for (unsigned i = 0; i < cut; i++) {
      char text_of[200];
      disk_log_apply(at, i);
      disk_log_print(i, text_of);
      printf("  %u %s\n", i, text_of);
    }
    disk *left = disk_crash(at, loss);
    disk_print(left, stdout);
    printf("%s\n", examine(&c, left, cut, loss) ? "fine" : "not fine");
    disk_free(left);
    disk_free(at);
  }
  course_free(&c);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  const unsigned samples = argc > 2 ? (unsigned)atoi(argv[2]) : 12;
  const uint64_t seed = argc > 3 ? (uint64_t)atoll(argv[3]) : 1;
  if (disk_vfs_register() != SQLITE_OK) return 2;
  sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init);
  const bool once = argc == 5 && samples == 0 && strcmp(argv[2], "0");
  for (int i = 0; scenarios[i]; i++)
    if (once && !strcmp(scenarios[i]->name, argv[2]))
      crash_once(scenarios[i], argv[1], (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]));
    else if (once) continue;
    else if (argc < 5 || strstr(scenarios[i]->name, argv[4]) != NULL)
      crash_scenario(scenarios[i], argv[1], samples, seed + (uint64_t)i);
  sqlite3_reset_auto_extension();
  printf("%d problems\n", problems);
  return problems != 0;
}
