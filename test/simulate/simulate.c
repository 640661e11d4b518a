/* simulate.c: runs simulated worlds (world.h), one for each seed, and says which seed and step went wrong.
 *
 * usage: simulate SEED              this world; prints the hash of all that happened. With -v before it: what happened, and in a build with
 *                                   AddressSanitizer the stack of each call that fails
 *        simulate SEED COUNT        this one and those of the next seeds
 *        simulate SEED 0 SECONDS    the same, for some time
 *        simulate twice SEED COUNT  each world twice: both must have the same hash
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "model.h"
#include "world.h"

int sqlite3_tessera_init(sqlite3 *db, char **message, const void *api);

#define STEPS 3000

world the;
extern int simulate_plant;
int simulate_plant; /* the fault of plants.py that the program has, which the environment chooses; 0: none */
static bool verbose;
static long commits, deaths, power_failures, faults, checks, steps, requests;

unsigned chance(unsigned below) {
  the.random = the.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return below ? (unsigned)((the.random >> 33) % below) : 0;
}

bool one_in(unsigned n) { return chance(n) == 0; }

void trace(uint64_t what) {
  the.trace = (the.trace ^ what) * UINT64_C(0xff51afd7ed558ccd);
  the.trace ^= the.trace >> 32;
}

void say(const char *format, ...) {
  if (!verbose) return;
  va_list arguments;
  va_start(arguments, format);
  printf("%7ld %016llx %lld ", the.steps, (unsigned long long)the.trace, (long long)(the.now / 1000000));
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
}

void fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("FAILED: seed %llu, step %ld: ", (unsigned long long)the.seed, the.steps);
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
  fflush(stdout);
  _Exit(1);
}

static double now(void) {
  struct timeval t;
  gettimeofday(&t, NULL);
  return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static uint64_t simulate(uint64_t seed, long most) {
  world_make(seed, most);
  the.told = verbose;
  machines_run();
  world_end();
  commits += the.commits;
  deaths += the.deaths;
  power_failures += the.power_failures;
  faults += the.faults;
  checks += the.checks;
  steps += the.steps - the.requests;
  requests += the.requests;
  return the.trace;
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc > 1 && !strcmp(argv[1], "-v")) {
    verbose = true;
    argc--;
    argv++;
  }
  const bool twice = argc > 1 && !strcmp(argv[1], "twice");
  if (twice) {
    argc--;
    argv++;
  }
  if (argc < 2) return 2;
  const char *plant = getenv("SIMULATE_PLANT");
  if (plant) simulate_plant = atoi(plant);
  const uint64_t first = strtoull(argv[1], NULL, 10);
  const uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  const double began = now(), end = argc > 3 ? began + atof(argv[3]) : 0;
  sqlite3_config(SQLITE_CONFIG_SINGLETHREAD); /* so the engine has no workers either */
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  if (disk_vfs_register() != SQLITE_OK) return 2;
  sqlite3_auto_extension((void (*)(void))sqlite3_tessera_init);
  sqlite3_randomness(1, &(char){0});
  sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SAVE);
  simulate(0, 0); /* what is done once in a process takes random bytes, too */
  commits = deaths = power_failures = faults = checks = steps = requests = 0;
  uint64_t seed = first;
  for (; count ? seed < first + count : now() < end; seed++) {
    const uint64_t hash = simulate(seed, STEPS);
    if (twice && simulate(seed, STEPS) != hash) fail("the second run differs from the first");
    if (count == 1) printf("seed %llu: %016llx\n", (unsigned long long)seed, (unsigned long long)hash);
  }
  sqlite3_reset_auto_extension();
  const double passed = now() - began;
  printf("%llu worlds, %ld commits, %ld checks, %ld calls of the disk, %ld requests, %ld faults, %ld deaths, %ld power "
         "failures: "
         "%.1f s, %.0f commits a second\n",
         (unsigned long long)(seed - first), commits, checks, steps, requests, faults, deaths, power_failures, passed,
         (double)commits / passed);
  return 0;
}
