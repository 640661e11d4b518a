/* commit_queue.c: the order of commits: writers on several machines take turns to commit to an array in a bucket.
 *
 * A writer chooses its commit's time before it publishes. If others did the same meanwhile, two commits could get the
 * same time, or a commit could be published after one of a later time, and snapshots of the past would change. So a
 * writer first claims the next commit after the last one that it knows, of time T:
 *
 *   .turns/T_0   claims the commit after the one of time T. The PUT is conditional, so one of several writers succeeds.
 *                The content is random: a writer whose request got no reply recognizes its own claim by it.
 *
 *   free --- PUT .turns/T_0 succeeds ---> held --- a commit of time U > T is published ---> free, and the next is U_0
 *    ^                                     |
 *    '--- given back: object removed ------+--- held for TURN_LASTS: others take over with .turns/T_1, T_2...
 *
 * Invariant: the turn after each published commit but the last is taken, because claims stay. So a writer whose listing
 * lacks the last commit fails to claim. It backs off, lists __commits and .turns until it sees a new commit, and claims
 * the turn after that. A vacuum removes only claims that are older (TSR_TURN_OLD) than any listing by which a writer
 * takes its turn (LISTING_LASTS). TileDB's commits take no turns; they have the time of their clock.
 *
 * Sections: claims (objects in the bucket), turns (shared by the writers of one environment).
 */
#include "log/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arithmetic.h"
#include "base/clock.h"
#include "crypto/crypto.h"
#include "store/store.h"
#include "format/layout.h"
#include "model/name.h"
#include "environment/environment.h"

#define TURN_LASTS    5000u /* ms after which a writer takes over the turn of another one */
#define TURN_SLACK    2000u /* ms by which a store's clock may be wrong */
#define TURN_OURS     2000u /* ms during which certainly nobody takes over */
#define LISTING_LASTS 600000u /* ms; a writer with an older listing lists again before it claims a turn */
#define PAUSE_FIRST   20u /* ms between two looks at the store */
#define PAUSE_LAST    500u

#define TURN_GENERATIONS 1000000000u /* more than writers can die in one turn: a larger one is a stranger's */

struct tsr_turn {
  tsr_turn *next; /* in the environment */
  tsr_environment *environment; /* borrowed */
  uint64_t after; /* time of the preceding commit */
  uint64_t generation; /* how often the turn was taken over */
  uint64_t taken; /* tsr__moment */
  uint32_t users; /* writers of the environment */
  bool published; /* by one of these writers */
  char array[]; /* path */
};

typedef struct turn_claim { /* the current turn of an array, as last seen */
  tsr_log *log; /* borrowed */
  uint64_t after, generation; /* the turn to claim: .turns/AFTER_GENERATION */
  bool held; /* a writer holds it */
  uint64_t age; /* ms since it was claimed, by the store's clock */
} turn_claim;

/* ---- Claims ------------------------------------------------------------------------------------------------------ */

static const char *turn_path(const turn_claim *c, char path[64]) {
  snprintf(path, 64, TSR_DIR_TURNS "/%llu_%llu", (unsigned long long)c->after, (unsigned long long)c->generation);
  return path;
}

/* Parses the name that turn_path gives a claim. */
static bool parse_turn(const char *name, uint64_t *after, uint64_t *generation) {
  const char *between = strchr(name, '_');
  return between && tsr__name_number(name, (uint64_t)(between - name), after) &&
         tsr__name_number(between + 1, strlen(between + 1), generation) && *generation < TURN_GENERATIONS;
}

/* Finds the claim of the highest generation on the turn after c->after. */
static void find_claim(turn_claim *c, const tsr_listing *claims) {
  const uint64_t now = tsr__store_now(c->log->store);
  c->held = false;
  c->generation = 0;
  for (uint64_t i = 0; i < claims->count; i++) {
    const tsr_entry *e = &claims->entries[i];
    uint64_t after, generation;
    if (!parse_turn(e->name, &after, &generation) || after != c->after) continue;
    if (c->held && generation < c->generation) continue;
    c->held = true;
    c->generation = generation;
    uint64_t modified = e->modified;
    if (!e->known &&
        tsr__store_modified(c->log->store, tsr__path_of(TSR_DIR_TURNS, e->name, "").text, &modified, NULL) < 0)
      modified = now;
    c->age = now - TSR_MIN(modified, now);
  }
}

/* Returns the latest time in the names of commits among the entries of __commits; 0 if there are none. Ignores times
 * two seconds or more ahead of the clock (tsr__environment_time). */
static uint64_t newest_commit(const tsr_listing *entries) {
  static const char *const suffixes[] = {TSR_SUFFIX_WRITE, TSR_SUFFIX_CONSOLIDATED, TSR_SUFFIX_DELETE};
  const uint64_t limit = tsr__environment_now() + TSR_TIME_AHEAD;
  uint64_t newest = 0, stem;
  tsr_name parsed;
  for (uint64_t i = 0; i < entries->count; i++)
    for (size_t s = 0; s < sizeof suffixes / sizeof *suffixes; s++)
      if (tsr__name_suffix(entries->entries[i].name, suffixes[s], &stem) &&
          tsr__name_parse(entries->entries[i].name, stem, &parsed) && parsed.end < limit)
        newest = TSR_MAX(newest, parsed.end);
  return newest;
}

/* Lists the commits and the claims together. */
static int look_for_turn(turn_claim *c, tsr_error *error) {
  static const char *const paths[] = {TSR_DIR_COMMITS, TSR_DIR_TURNS};
  tsr_store *store = c->log->store;
  tsr_listing lists[2] = {{.memory = store->memory}, {.memory = store->memory}};
  tsr_stamp stamps[2];
  TSR_TRY(tsr__store_list_many(store, paths, 2, lists, stamps, error));
  c->after = newest_commit(&lists[0]);
  find_claim(c, &lists[1]);
  tsr__listing_release(&lists[0]);
  tsr__listing_release(&lists[1]);
  return TSR_OK;
}

static void pause_for(uint64_t milliseconds) {
  const struct timespec pause = {.tv_sec = (time_t)(milliseconds / 1000),
                                 .tv_nsec = (long)(milliseconds % 1000) * 1000000};
  nanosleep(&pause, NULL);
}

/* Waits, backing off, until a turn can be claimed: nobody holds it, or its holder has held it for too long. */
static int await_turn(turn_claim *c, tsr_error *error) {
  uint64_t since = tsr__moment(), pause = PAUSE_FIRST;
  for (turn_claim last = *c;; last = *c) {
    TSR_TRY(tsr__cancelled(&c->log->environment->memory, error));
    TSR_TRY(look_for_turn(c, error));
    if (!c->held) return TSR_OK;
    const uint64_t moment = tsr__moment();
    if (c->after != last.after || c->generation != last.generation) {
      since = moment;
      pause = PAUSE_FIRST;
    }
    if (moment - since >= TURN_LASTS || c->age >= TURN_LASTS + TURN_SLACK) {
      c->generation++;
      return TSR_OK;
    }
    pause_for(pause);
    pause = TSR_MIN(pause + pause / 2 + 1, PAUSE_LAST);
  }
}

static int claim_turn(turn_claim *c, tsr_error *error) {
  const tsr_commit_listing *listing = c->log->listing;
  char path[64];
  uint8_t content[16];
  TSR_TRY(tsr__random(content, sizeof content, error));
  c->after = listing->newest;
  if (tsr__moment() - listing->moment.listed > LISTING_LASTS) TSR_TRY(await_turn(c, error));
  for (;;) {
    tsr_error one;
    const int rc = tsr__store_put_new(c->log->store, turn_path(c, path), content, sizeof content, false, &one);
    if (rc >= 0) return TSR_OK;
    if (rc != TSR_EXISTS) return *error = one, rc;
    TSR_TRY(await_turn(c, error));
  }
}

/* ---- Turns ------------------------------------------------------------------------------------------------------- */

int tsr__turn_take(tsr_log *log, tsr_turn **turn, uint64_t *after, tsr_error *error) {
  tsr_environment *environment = log->environment;
  turn_claim c = {.log = log};
  const size_t size = strlen(log->path) + 1;
  *turn = NULL;
  if (!log->store->commits_in_turns) return TSR_OK;
  tsr_turn *t = environment->turns;
  while (t && strcmp(t->array, log->path) != 0) t = t->next;
  if (!t) {
    TSR_TRY(TSR_ALLOC_BYTES(&environment->memory, sizeof *t + size, &t, error));
    const int rc = claim_turn(&c, error);
    if (rc < 0) return tsr__free(t), rc;
    *t = (tsr_turn){.next = environment->turns,
                    .environment = environment,
                    .after = c.after,
                    .generation = c.generation,
                    .taken = tsr__moment()};
    memcpy(t->array, log->path, size);
    environment->turns = t;
  }
  t->users++;
  *after = t->after;
  *turn = t;
  return TSR_OK;
}

/* Releases one writer's share of a turn. Returns true if it was the last one; then the turn is unlinked. */
static bool leave_turn(tsr_turn *t) {
  tsr_turn **link = &t->environment->turns;
  if (--t->users > 0) return false;
  while (*link != t) link = &(*link)->next;
  *link = t->next;
  return true;
}

void tsr__turn_end(tsr_turn **turn) {
  tsr_turn *t = *turn;
  *turn = NULL;
  if (!t) return;
  t->published = true;
  if (leave_turn(t)) tsr__free(t);
}

void tsr__turn_release(tsr_turn **turn, tsr_store *store) {
  tsr_turn *t = *turn;
  char path[64];
  *turn = NULL;
  if (!t || !leave_turn(t)) return;
  const turn_claim c = {.after = t->after, .generation = t->generation};
  const bool ours = !t->published && tsr__moment() - t->taken < TURN_OURS;
  tsr__free(t);
  const char *name = turn_path(&c, path);
  if (ours) (void)tsr__store_remove_many(store, &name, 1, NULL);
}
