/* pool.c: worker threads: one pool for the process, made on first use, made anew after a fork.
 *
 * A job lives on its caller's stack and in the pool's list while it runs. Callers and workers take the next index of a
 * job by one atomic addition until none is left or a task has failed. Indexes are handed out in order, so all that are
 * lower than a failed one have been handed out, too, and the lowest that fails is the same whatever the number of
 * threads. Only an interrupted job ends anyhow: whose host wants to stop is told so at once.
 * Invariants, under the pool's mutex: busy <= workers <= MOST_WORKERS; job.helpers counts the workers inside of run()
 * for it; a caller returns once it has taken its job from the list and helpers is 0.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base.h"

#define MOST_WORKERS 63u
#define PATIENCE     20000000 /* nanoseconds that a caller waits before it asks its host whether to go on */

typedef struct job {
  struct job *next, *previous;
  tsr_task fn;
  void *argument;
  uint64_t count;
  _Atomic uint64_t at; /* the next index */
  _Atomic bool failed; /* hand out no more */
  _Atomic bool interrupted; /* and end what is at work */
  unsigned wanted, joined; /* workers: how many at most, how many so far */
  unsigned helpers;
  pthread_cond_t done; /* helpers has become 0 */
  uint64_t failed_at;
  int code;
  tsr_error error;
} job;

typedef struct worker {
  pthread_t thread;
  job *helped; /* what it is at, or NULL */
} worker;

/* One of the two mutable globals; progress.c has the other. */
static struct {
  _Atomic uint64_t state;
  pthread_mutex_t mutex;
  pthread_cond_t work;
  job *jobs; /* first come, first served */
  unsigned workers, busy;
  worker at[MOST_WORKERS]; /* those that were started */
} pool;

bool tsr__process_enter(_Atomic uint64_t *state) {
  uint64_t making = (uint64_t)getpid() * 2, now = atomic_load_explicit(state, memory_order_acquire);
  while (now != making + 1) {
    if (now == making) {
      sched_yield(); /* another thread is at it */
      now = atomic_load_explicit(state, memory_order_acquire);
    } else if (atomic_compare_exchange_strong(state, &now, making)) {
      return true;
    }
  }
  return false;
}

void tsr__process_made(_Atomic uint64_t *state) {
  atomic_store_explicit(state, (uint64_t)getpid() * 2 + 1, memory_order_release);
}

static void enter(void) {
  if (!tsr__process_enter(&pool.state)) return;
  pthread_mutex_init(&pool.mutex, NULL);
  pthread_cond_init(&pool.work, NULL);
  pool.jobs = NULL;
  pool.workers = pool.busy = 0;
  tsr__process_made(&pool.state);
}

/* What this thread is at, if it is a worker. Not thread-local, as memory of libraries that are loaded late is not found by
 * all leak checkers. */
static job *find_helped(void) {
  job *helped = NULL;
  enter();
  pthread_mutex_lock(&pool.mutex);
  for (unsigned i = 0; i < pool.workers && !helped; i++)
    if (pool.at[i].helped && pthread_equal(pool.at[i].thread, pthread_self())) helped = pool.at[i].helped;
  pthread_mutex_unlock(&pool.mutex);
  return helped;
}

int tsr__stopped(const tsr_memory *memory, tsr_error *error) {
  job *helped = find_helped();
  bool stop;
  if (helped) {
    stop = atomic_load_explicit(&helped->interrupted, memory_order_relaxed);
  } else {
    while (memory->parent) memory = memory->parent;
    stop = memory->interrupted && memory->interrupted(memory->interrupted_argument);
  }
  return stop ? tsr__fail(error, TSR_INTERRUPT, "interrupted") : TSR_OK;
}

/* ---- Running a job --------------------------------------------------------------------------------------------- */

static void fail_job(job *j, uint64_t index, int code, const tsr_error *error) {
  if (code == TSR_INTERRUPT) atomic_store_explicit(&j->interrupted, true, memory_order_relaxed);
  atomic_store_explicit(&j->failed, true, memory_order_relaxed);
  pthread_mutex_lock(&pool.mutex);
  if (j->code >= 0 || index < j->failed_at) {
    j->code = code;
    j->failed_at = index;
    j->error = *error;
  }
  pthread_mutex_unlock(&pool.mutex);
}

static void run(job *j) {
  tsr_error error;
  while (!atomic_load_explicit(&j->failed, memory_order_relaxed)) {
    uint64_t index = atomic_fetch_add_explicit(&j->at, 1, memory_order_relaxed);
    if (index >= j->count) return;
    error.code = TSR_OK;
    error.message[0] = 0;
    int code = j->fn(j->argument, index, &error);
    if (code < 0) fail_job(j, index, code, &error);
  }
}

static bool unfinished(job *j) {
  return !atomic_load_explicit(&j->failed, memory_order_relaxed) &&
         atomic_load_explicit(&j->at, memory_order_relaxed) < j->count;
}

/* A job that wants one more worker, or NULL. */
static job *pick(void) {
  for (job *j = pool.jobs; j; j = j->next)
    if (j->joined < j->wanted && unfinished(j)) return j;
  return NULL;
}

static void *work(void *argument) {
  worker *me = argument;
  pthread_mutex_lock(&pool.mutex);
  me->thread = pthread_self();
  for (;;) {
    job *j = pick();
    if (!j) {
      pthread_cond_wait(&pool.work, &pool.mutex);
      continue;
    }
    pool.busy++;
    j->joined++;
    j->helpers++;
    me->helped = j;
    pthread_mutex_unlock(&pool.mutex);
    run(j);
    pthread_mutex_lock(&pool.mutex);
    me->helped = NULL;
    pool.busy--;
    if (--j->helpers == 0) pthread_cond_signal(&j->done);
  }
  return NULL;
}

/* ---- Starting workers ------------------------------------------------------------------------------------------ */

static bool start_worker(worker *w) {
  pthread_attr_t attributes;
  pthread_t thread;
  size_t stack;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (pthread_attr_getstacksize(&attributes, &stack) == 0 && stack < (1u << 20))
    pthread_attr_setstacksize(&attributes, 1u << 20); /* some C libraries give as little as 128 KiB */
  w->helped = NULL;
  bool started = pthread_create(&thread, &attributes, work, w) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

/* Enough workers for all that the listed jobs still want, if the system gives them. Workers are born with signals
 * blocked: the host's handlers run on the host's threads. Not so the signals of a thread's own faults, which would end
 * the process without the report that a host or a sanitizer makes of them. */
static void start_workers(void) {
  uint64_t demand = 0;
  for (job *j = pool.jobs; j; j = j->next)
    if (unfinished(j)) demand += j->wanted - j->joined;
  if (pool.workers - pool.busy >= demand || pool.workers == MOST_WORKERS) return;
  sigset_t all, before;
  sigfillset(&all);
  const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (pool.workers - pool.busy < demand && pool.workers < MOST_WORKERS && start_worker(&pool.at[pool.workers]))
    pool.workers++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void append(job *j) {
  job **end = &pool.jobs;
  while (*end) {
    j->previous = *end;
    end = &(*end)->next;
  }
  *end = j;
}

static void unlink_job(job *j) {
  if (j->previous) j->previous->next = j->next;
  else pool.jobs = j->next;
  if (j->next) j->next->previous = j->previous;
}

/* Until no worker is at the job. The mutex is held, but while the host is asked. */
static void wait_for_workers(job *j, const tsr_memory *memory) {
  while (j->helpers > 0) {
    if (!memory || atomic_load_explicit(&j->interrupted, memory_order_relaxed)) {
      pthread_cond_wait(&j->done, &pool.mutex);
      continue;
    }
    struct timespec until;
    timespec_get(&until, TIME_UTC);
    until.tv_nsec += PATIENCE;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&j->done, &pool.mutex, &until);
    if (j->helpers == 0) return;
    tsr_error error;
    pthread_mutex_unlock(&pool.mutex);
    if (tsr__stopped(memory, &error) < 0) fail_job(j, 0, TSR_INTERRUPT, &error);
    pthread_mutex_lock(&pool.mutex);
  }
}

int tsr__parallel_for(unsigned threads, uint64_t count, tsr_task fn, void *argument, tsr_error *error) {
  return tsr__parallel_for_asking(NULL, threads, count, fn, argument, error);
}

int tsr__parallel_for_asking(const tsr_memory *memory, unsigned threads, uint64_t count, tsr_task fn, void *argument,
                             tsr_error *error) {
  if (threads <= 1 || count <= 1) {
    for (uint64_t i = 0; i < count; i++) TSR_TRY(fn(argument, i, error));
    return TSR_OK;
  }
  job j = {.fn = fn, .argument = argument, .count = count};
  j.wanted = (unsigned)TSR_MIN(TSR_MIN(threads - 1, MOST_WORKERS), count - 1);
  pthread_cond_init(&j.done, NULL);

  enter();
  pthread_mutex_lock(&pool.mutex);
  append(&j);
  start_workers();
  for (unsigned i = 0; i < j.wanted; i++) pthread_cond_signal(&pool.work);
  pthread_mutex_unlock(&pool.mutex);

  run(&j);

  pthread_mutex_lock(&pool.mutex);
  unlink_job(&j);
  wait_for_workers(&j, memory);
  pthread_mutex_unlock(&pool.mutex);
  pthread_cond_destroy(&j.done);
  if (j.code < 0 && error) *error = j.error;
  return j.code;
}

unsigned tsr__cores(void) {
#if defined(__linux__)
  cpu_set_t set; /* a container's or taskset's share, not the machine's */
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return (unsigned)CPU_COUNT(&set);
#endif
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? (unsigned)count : 1;
}
