/* patience.c: files that another program may still be writing.
 *
 * TileDB writes small files in place: schemas, enumerations, delete conditions, metadata, members of groups, lists of
 * commits, consolidated footers. A reader can meet such a file while it is empty or short, for a moment, or for good
 * where its writer died. The two look alike; only time tells them apart:
 *  - a file whose decoding failed is decoded once more at once: it may have grown since it was read;
 *  - then it is watched, and decoded again whenever it has changed: for 100 ms if it is young, else for 20 ms;
 *  - a file that is still short then is TSR_BUSY if it is young or has changed meanwhile, and damage if not.
 *
 * A file is young for 5 seconds after its last change. The clock that says so is the file system's, which may be a
 * server's: where it runs behind ours, a young file looks old; the 20 ms, in which a writer at work shows, are for
 * that.
 * Where it runs ahead by more than those 5 seconds, no age can be told: such a file is watched as if it were young, and
 * is damage if it did not change. Waiting goes by the monotonic clock.
 */
#include "array/patience.h"

#include <time.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "store/store.h"

#define PATIENCE_YOUNG INT64_C(5000000000) /* nanoseconds */
#define WATCH          100 /* milliseconds */
#define WATCH_OLD      20
#define STEPS_MAX      16 /* milliseconds between two looks */

static int64_t clock_of(clockid_t which) {
  struct timespec t = {0};
  if (clock_gettime(which, &t) != 0) return 0;
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t tsr__moment(void) { return (uint64_t)(clock_of(CLOCK_MONOTONIC) / 1000000); }

static void sleep_for(uint64_t milliseconds) {
  const struct timespec time = {0, (long)milliseconds * 1000000};
  nanosleep(&time, NULL);
}

typedef enum age { YOUNG_FILE, OLD_FILE, NO_AGE } age;

static age age_of(const tsr_look *look) {
  const int64_t now = clock_of(CLOCK_REALTIME);
  if (look->modified > now) return look->modified - now > PATIENCE_YOUNG ? NO_AGE : YOUNG_FILE;
  return now - look->modified < PATIENCE_YOUNG ? YOUNG_FILE : OLD_FILE;
}

bool tsr__is_young(const tsr_look *look) { return age_of(look) == YOUNG_FILE; }

bool tsr__same_look(const tsr_look *a, const tsr_look *b) { return a->size == b->size && a->modified == b->modified; }

static int give_up(const tsr_patience *p, int rc, tsr_error *error) {
  if (!p->changed && !tsr__is_young(&p->look)) return rc;
  const tsr_error before = *error;
  return tsr__fail(error, TSR_BUSY, "%s (the file is young: its writer may still be at it; try again)", before.message);
}

int tsr__patience(tsr_patience *p, tsr_store *store, const char *path, int rc, tsr_error *error) {
  tsr_look look;
  tsr_error one;
  if (rc != TSR_CORRUPT) return rc;
  for (uint64_t step = 1;; step = TSR_MIN(2 * step, STEPS_MAX)) {
    const int looked = tsr__store_look(store, path, &look, &one);
    if (looked == 0) return rc;
    if (looked < 0) return *error = one, looked;
    const bool first = !p->begun, changed = !first && !tsr__same_look(&look, &p->look);
    if (first) p->since = tsr__moment();
    p->begun = true;
    p->changed |= changed;
    p->look = look;
    const uint64_t watch = !p->changed && age_of(&look) == OLD_FILE ? WATCH_OLD : WATCH,
                   spent = tsr__moment() - p->since;
    if (first || (changed && spent < watch)) return 1;
    if (spent >= watch) return give_up(p, rc, error);
    TSR_TRY(tsr__cancelled(store->memory, error));
    sleep_for(TSR_MIN(step, watch - spent));
  }
}
