/* torn_read.c: reads files that another program may still be writing.
 *
 * TileDB writes small files in place: schemas, enumerations, delete conditions, metadata, members of groups, lists of
 * commits, consolidated footers. A reader may find such a file empty or short: for a moment, or for good if its writer
 * died. Only time tells the two cases apart:
 *
 *   read, cannot decode --> read again at once --> watch, and read again after each change --> give up
 *                           (it may have grown)    for 100 ms if it is young, else 20 ms
 *
 * The result is TSR_BUSY if the file is young or has changed meanwhile; otherwise the file is damaged.
 *
 * In a bucket files appear complete, but their bytes may be corrupted in transit: a file that cannot be decoded is
 * fetched once more (tsr__store_doubt).
 *
 * A file is young for 5 seconds after its last change, by the clock of the file system, which may be a server's. If
 * that clock is behind ours, a young file looks old, but a writer at work will change the file within the 20 ms. If it
 * is more than 5 seconds ahead, the file's age is unknown: it is watched like a young file, and is damaged if it does
 * not change. Waiting uses a clock that is never set.
 */
#include "log/log.h"

#include <time.h>

#include "base/arithmetic.h"
#include "base/clock.h"
#include "base/pool.h"
#include "store/store.h"

#define YOUNG_NS  INT64_C(5000000000) /* nanoseconds for which a file is young */
#define WATCH     100 /* milliseconds for which a young file is watched */
#define WATCH_OLD 20 /* the same for an old file */
#define STEPS_MAX 16 /* longest time between two looks, in milliseconds */

/* Returns the time of the calendar in nanoseconds since 1970; 0 if it is unknown. */
static int64_t wall_clock(void) {
  struct timespec t = {0};
  if (clock_gettime(CLOCK_REALTIME, &t) != 0) return 0;
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_for(uint64_t milliseconds) {
  const struct timespec time = {0, (long)milliseconds * 1000000};
  nanosleep(&time, NULL);
}

typedef enum age { YOUNG_FILE, OLD_FILE, UNKNOWN_AGE } age;

static age age_of(const tsr_look *look) {
  const int64_t now = wall_clock();
  if (look->modified > now) return look->modified - now > YOUNG_NS ? UNKNOWN_AGE : YOUNG_FILE;
  return now - look->modified < YOUNG_NS ? YOUNG_FILE : OLD_FILE;
}

bool tsr__is_young(const tsr_look *look) { return age_of(look) == YOUNG_FILE; }

bool tsr__same_look(const tsr_look *a, const tsr_look *b) { return a->size == b->size && a->modified == b->modified; }

/* Ends the attempts: a file that is young or has changed is busy, any other is damaged. */
static int give_up(const tsr_torn_read *p, int rc, tsr_error *error) {
  if (!p->changed && !tsr__is_young(&p->look)) return rc;
  const tsr_error before = *error;
  return tsr__fail(error, TSR_BUSY,
                   "%s (the file was changed a moment ago, and its writer may still be at work; try again)",
                   before.message);
}

int tsr__torn_read_retry(tsr_torn_read *p, tsr_store *store, const char *path, int rc, tsr_error *error) {
  tsr_look look;
  tsr_error failure;
  if (rc != TSR_CORRUPT) {
    const bool again = tsr__may_be_corrupt_transfer(rc) && !p->begun && tsr__store_doubt(store);
    p->begun |= again;
    return again ? 1 : rc;
  }
  for (uint64_t step = 1;; step = TSR_MIN(2 * step, STEPS_MAX)) {
    const int looked = tsr__store_look(store, path, &look, &failure);
    if (looked == 0) {
      const bool again = !p->begun && tsr__store_doubt(store);
      p->begun = true;
      return again ? 1 : rc;
    }
    if (looked < 0) return *error = failure, looked;
    const bool first = !p->begun, changed = !first && !tsr__same_look(&look, &p->look);
    if (first) p->since = tsr__ticks();
    p->begun = true;
    p->changed |= changed;
    p->look = look;
    const uint64_t watch = !p->changed && age_of(&look) == OLD_FILE ? WATCH_OLD : WATCH,
                   spent = tsr__ticks() - p->since;
    if (first || (changed && spent < watch)) return 1;
    if (spent >= watch) return give_up(p, rc, error);
    TSR_TRY(tsr__cancelled(store->memory, error));
    sleep_for(TSR_MIN(step, watch - spent));
  }
}

static int try_tile(tsr_store *store, const uint8_t *key, const char *path, uint64_t most, tsr_buffer *content,
                    tsr_generic_tile *header, tsr_error *error) {
  tsr_buffer stored = {.memory = content->memory};
  uint64_t consumed;
  int rc = tsr__store_read_all(store, path, tsr__add_sat(most, most / 8 + 65536), &stored, error);
  if (rc >= 0) {
    rc = tsr__generic_tile_decode(stored.data, stored.size, key, most, content, header, &consumed, error);
    if (rc < 0) tsr__wrap(error, "%s", path);
  }
  tsr__buffer_release(&stored);
  return rc;
}

int tsr__read_tile(tsr_store *store, const uint8_t *key, const char *path, uint64_t most, tsr_buffer *content,
                   tsr_generic_tile *header, tsr_error *error) {
  const uint64_t before = content->size;
  tsr_torn_read attempts = {0};
  tsr_error unseen;
  if (!error) error = &unseen;
  for (;;) {
    const int rc =
        tsr__torn_read_retry(&attempts, store, path, try_tile(store, key, path, most, content, header, error), error);
    if (rc <= 0) return rc;
    content->size = before;
  }
}

int tsr__damage(int rc, tsr_error *error) {
  if (rc != TSR_AUTH) return rc;
  if (error) error->code = TSR_CORRUPT;
  return TSR_CORRUPT;
}
