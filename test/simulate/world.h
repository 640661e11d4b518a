/* world.h: a simulated world for one seed: machines with clocks of their own, processes on them (actors) that work through
 * SQLite connections, one disk that all share (test/fault/disk.h), and a bucket (bucket.c). Everything happens on one
 * thread: each actor has a stack of its own, and hands over at calls of the disk and requests, when it sleeps, or when it
 * dies. The seed decides who goes on, what fails and what everybody does, so a seed repeats exactly.
 *
 * A process that dies loses nothing that it has written, as the kernel has it; its connections and locks are gone. A power
 * failure stops all machines at once, and the disk loses, tears or keeps what was not synced. So the disk is that of one host,
 * or of a file server whose clients write through. The bucket loses nothing that it has acknowledged.
 */
#ifndef SIMULATE_WORLD_H
#define SIMULATE_WORLD_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "../fault/scenario.h"

#define MACHINES_MAX 4
#define ACTORS_MAX   8
#define SHARED_MAX   3 /* arrays in directories */
#define COPY(home)   (SHARED_MAX + 2 * MACHINES_MAX + (home)) /* the machine's copy of the first of them (follow.c) */
#define ARRAYS_MAX   COPY(MACHINES_MAX)
#define END_OF_TIME  INT64_C(4102444800000) /* later than every commit */

typedef struct machine {
  int64_t offset; /* ns that the clock is ahead of the true time */
  int drift; /* ns gained in each millisecond */
  int64_t cut_off; /* until this true time no request leaves it, and no answer reaches it */
} machine;

typedef struct actor {
  int number, home; /* home: the machine, whose database it opens */
  struct fiber *fiber;
  sqlite3 *db; /* NULL: closed */
  int64_t wake; /* it sleeps until this true time */
  bool dead; /* its calls fail, and change nothing */
  bool down; /* it has unwound since, and waits for its restart */
  bool finished;
  bool delicate; /* it commits, or maintains an array */
  bool trouble; /* one of its calls has failed since the connection was opened */
  disk_fault fault; /* what the next `failing` calls that it concerns do */
  int failing;
  int failing_requests; /* something befalls each of so many */
  int64_t after_death; /* ns that it has slept since it died */
  int *unknown, unknown_count; /* transactions whose outcome it has to find out */
  int64_t bookmark; /* the last value that it has set in metadata, and the one that it may have set */
  int64_t next_bookmark;
  bool has_attribute, unsure; /* it has added an attribute of its own to the first array; it does not know */
} actor;

typedef struct world {
  uint64_t seed, random, trace;
  long steps; /* calls of the disk */
  long moves; /* commits and maintenance that somebody has begun */
  long until; /* the steps after which the actors come to their ends */
  int64_t now; /* the true time, in ns since 1970 */
  machine machines[MACHINES_MAX];
  actor actors[ACTORS_MAX];
  int machine_count, actor_count, shared_count;
  actor *current; /* NULL: none, the disk is looked at from outside */
  unsigned hand_over; /* one call in so many hands over */
  unsigned pace; /* ns that a call takes at least */
  unsigned fault_odds; /* one call in so many meets a fault */
  int cached; /* pages that SQLite caches */
  long storm; /* until this step faults are more frequent */
  unsigned kinds; /* a set of fault_kind */
  bool steady; /* all clocks are one */
  bool extra; /* PRAGMA synchronous=EXTRA: a commit to the database alone is durable, too */
  bool power_is_off, stopping;
  bool told; /* prints what happens */
  unsigned remote; /* a set of arrays that are in the bucket */
  unsigned latency; /* most of the time that a request takes, in quarters of a millisecond */
  unsigned page_size; /* keys in a page of a listing */
  int64_t server_ahead; /* ns that the clock of the bucket's server is ahead of the true time */
  int64_t outage; /* until this true time the server fails */
  unsigned weights[24]; /* of what actors do */
  unsigned burst; /* transactions that follow each other, on average */
  uint64_t observed[ARRAYS_MAX]; /* what the last observation of each array depended on */
  long commits, deaths, power_failures, faults, checks, requests; /* counted for the summary */
} world;
extern world the;

unsigned chance(unsigned below);
bool one_in(unsigned n);
void trace(uint64_t what);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints the seed, the step and what is wrong, and ends the program. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- machines.c -------------------------------------------------------------------------------------------------- */

void machines_begin(void); /* makes disk_machines_now that of the world */
void actor_start(actor *a, void (*life)(actor *a));
void actor_sleep(int64_t nanoseconds);
/* Waits until the dead actor is restarted. */
void actor_lie(actor *a);
/* What befalls a request. From ANSWER_LOST on the client does not learn what became of it. */
typedef enum request_fate {
  REQUEST_FINE,
  REQUEST_BUSY, /* the server refuses it for now */
  REQUEST_CONFLICT, /* the same, of a conditional one, beside another one */
  REQUEST_DONE_500, /* it is carried out, and the answer is an error */
  REQUEST_TWICE, /* it is carried out twice, and the second time is answered */
  REQUEST_TORN, /* the connection breaks within its body or within that of the answer */
  REQUEST_LOST, /* it does not arrive */
  REQUEST_ANSWER_LOST, /* it is carried out */
  REQUEST_LATE, /* it is carried out when nobody waits for it any more */
  REQUEST_DEAD /* the process is dead and sends nothing */
} request_fate;
request_fate machines_request(void);
bool machines_dead(void); /* whether the process that runs is dead */
int64_t machines_clock(void); /* of the machine whose process runs: ns since 1970 */
void machines_run(void); /* until all actors have finished */
void machines_end(void);

/* ---- actors.c ---------------------------------------------------------------------------------------------------- */

bool table_is_dense(int array);
const char *table_name(int array);
const char *location(int array); /* of an array that is not in a database */
bool table_of(int home, int array); /* whether the machine's database has the table */
/* Runs a statement. Ends the program if it fails for no reason. Returns SQLite's code. */
int actor_run(actor *a, text *rows, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same without a judgement. The caller frees *message with sqlite3_free. */
int actor_try(actor *a, text *rows, char **message, const char *format, ...) __attribute__((format(printf, 4, 5)));
void actor_judge(const actor *a, int code, const char *what, const char *message); /* the same for other calls */
bool is_busy(int code);
int64_t number_in(const text *rows);
extern const char *const world_reach; /* the statement that makes the bucket known to a connection */
sqlite3 *world_open(int home); /* a machine's database, for somebody whom no fault concerns */
void world_run(sqlite3 *db, const char *format, ...) __attribute__((format(printf, 2, 3))); /* must succeed */
void world_make(uint64_t seed, long steps);
void world_end(void); /* restarts, recovers and compares everything */

/* Compares the shared arrays as somebody sees them who knows none of the databases. */
void observe(void);
void note_unknown(int home, int txn); /* some process of the machine has to find out its outcome */

#endif
