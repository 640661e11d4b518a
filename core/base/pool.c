/* pool.c: the process's pool of worker threads.
 *
 * A job lives in its caller's memory and is in the pool's list from start to end. The caller and the workers each take
 * the next index of a job by one atomic addition, until no index is left or a task has failed. Since indexes are taken
 * in order, all tasks below a failed one have been started and will end, so the lowest index that fails does not depend
 * on the number of threads. A cancelled job is the exception: it reports TSR_INTERRUPT at once.
 * Invariants, under the pool's mutex: busy <= workers <= MAX_WORKERS; job.helpers is the number of workers inside
 * pool_run() for the job; a job has ended once it is not in the list and helpers is 0.
 *
 * Workers run while the host does something else, and the host may call fork(). A handler that runs before the fork
 * makes all workers pause between two tasks. So no worker then holds a mutex of the host's allocator, which would stay
 * locked in the child for ever, and a job that the child inherits has no half-finished task. The child has no workers
 * and runs the remaining tasks itself.
 *
 * Order: the globals, forks, cancellation, the worker's loop, starting workers and finishing jobs.
 */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/arithmetic.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/system.h"

#define MAX_WORKERS 63u
#define POLL_MS     20u /* between two polls of the host for cancellation while a caller waits */
#define DECODED_MAX (UINT64_C(4) << 20) /* bytes decoded between two polls of tsr__cancelled_after */
#define CELL_BYTES  64u /* a cell counts as at least this many bytes */

typedef struct worker {
  pthread_t thread;
  tsr_job *helped; /* the job whose tasks this worker runs, or NULL */
} worker;

/* One of the few mutable globals; the others are in environment.c, curl.c and http.c. */
static struct {
  _Atomic uint64_t state; /* see tsr__process_enter */
  pthread_mutex_t mutex; /* guards everything below but `forking` */
  pthread_cond_t work; /* signalled when a job wants workers */
  tsr_job *jobs; /* in starting order, which is the order in which workers join them */
  unsigned workers, busy; /* workers started; workers running tasks */
  _Atomic unsigned forking; /* threads inside fork(); workers pause until it is 0 */
  unsigned parked; /* busy workers that are paused for a fork */
  pthread_cond_t quiet, resume; /* signalled when a worker parks or becomes idle; when a fork is over */
  worker at[MAX_WORKERS]; /* the first `workers` of them have been started */
} pool;

bool tsr__process_enter(_Atomic uint64_t *state) {
  uint64_t making = (uint64_t)getpid() * 2, now = atomic_load_explicit(state, memory_order_acquire);
  while (now != making + 1) {
    if (now == making) {
      sched_yield(); /* another thread creates the globals */
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

/* ---- Forks ----------------------------------------------------------------------------------- */

static void park(void) {
  pthread_mutex_lock(&pool.mutex);
  pool.parked++;
  pthread_cond_broadcast(&pool.quiet);
  while (atomic_load_explicit(&pool.forking, memory_order_relaxed)) pthread_cond_wait(&pool.resume, &pool.mutex);
  pool.parked--;
  pthread_mutex_unlock(&pool.mutex);
}

static void before_fork(void) {
  pthread_mutex_lock(&pool.mutex);
  atomic_fetch_add_explicit(&pool.forking, 1, memory_order_relaxed);
  while (pool.busy > pool.parked) pthread_cond_wait(&pool.quiet, &pool.mutex);
}

static void after_fork(void) {
  atomic_fetch_sub_explicit(&pool.forking, 1, memory_order_relaxed);
  pthread_cond_broadcast(&pool.resume);
  pthread_mutex_unlock(&pool.mutex);
}

static void after_fork_in_child(void) { /* the child has no workers; it makes a pool of its own on first use */
  atomic_store_explicit(&pool.forking, 0, memory_order_relaxed);
  pthread_mutex_unlock(&pool.mutex);
}

static void pool_enter(void) {
  const bool first = atomic_load_explicit(&pool.state, memory_order_relaxed) == 0; /* children inherit the handlers */
  if (!tsr__process_enter(&pool.state)) return;
  pthread_mutex_init(&pool.mutex, NULL);
  pthread_cond_init(&pool.work, NULL);
  pthread_cond_init(&pool.quiet, NULL);
  pthread_cond_init(&pool.resume, NULL);
  pool.jobs = NULL;
  pool.workers = pool.busy = pool.parked = 0;
  if (first) tsr__at_fork(before_fork, after_fork, after_fork_in_child);
  tsr__process_made(&pool.state);
}

/* Returns the job that the calling thread works for, or NULL if the thread is not a worker. Thread-local memory would
 * be simpler, but some leak checkers do not search that of a library that is loaded at run time. */
static tsr_job *find_helped(void) {
  tsr_job *helped = NULL;
  pool_enter();
  pthread_mutex_lock(&pool.mutex);
  for (unsigned i = 0; i < pool.workers && !helped; i++)
    if (pool.at[i].helped && pthread_equal(pool.at[i].thread, pthread_self())) helped = pool.at[i].helped;
  pthread_mutex_unlock(&pool.mutex);
  return helped;
}

bool tsr__on_worker(void) { return find_helped() != NULL; }

/* ---- Cancellation ---------------------------------------------------------------------------- */

int tsr__cancelled(tsr_memory *memory, tsr_error *error) {
  tsr_job *helped = find_helped();
  bool stop;
  if (helped) {
    stop = atomic_load_explicit(&helped->cancelled, memory_order_relaxed);
  } else {
    tsr_memory *root = tsr__memory_root(memory);
    atomic_store_explicit(&root->cancel.decoded, 0, memory_order_relaxed);
    stop = root->cancel.requested && root->cancel.requested(root->cancel.argument);
  }
  return stop ? tsr__fail_cancelled(error) : TSR_OK;
}

int tsr__fail_cancelled(tsr_error *error) { return tsr__fail(error, TSR_INTERRUPT, "interrupted"); }

int tsr__only_cancelled(int rc, const tsr_error *failure, tsr_error *error) {
  return rc == TSR_INTERRUPT ? tsr__fail(error, rc, "%s", failure->message) : TSR_OK;
}

int tsr__cancelled_after(tsr_memory *memory, uint64_t bytes, uint64_t cells, tsr_error *error) {
  const uint64_t decoded = TSR_MIN(TSR_MAX(bytes, tsr__mul_sat(cells, CELL_BYTES)), DECODED_MAX);
  tsr_memory *root = tsr__memory_root(memory);
  const uint64_t before = atomic_fetch_add_explicit(&root->cancel.decoded, decoded, memory_order_relaxed);
  if (before + decoded < DECODED_MAX) return TSR_OK;
  /* On the caller's thread tsr__cancelled sets the count to 0. On a worker the count stays, so that the caller's next
   * call polls the host. */
  TSR_TRY(tsr__cancelled(memory, error));
  atomic_fetch_add_explicit(&root->cancel.decoded, decoded, memory_order_relaxed);
  return TSR_OK;
}

/* ---- Running a job --------------------------------------------------------------------------- */

static void fail_job(tsr_job *j, uint64_t index, int rc, const tsr_error *error) {
  if (rc == TSR_INTERRUPT) atomic_store_explicit(&j->cancelled, true, memory_order_relaxed);
  atomic_store_explicit(&j->failed, true, memory_order_relaxed);
  const bool shared = j->wanted > 0; /* otherwise the pool and its mutex may not exist */
  if (shared) pthread_mutex_lock(&pool.mutex);
  if (j->code >= 0 || index < j->failed_at) {
    j->code = rc;
    j->failed_at = index;
    j->error = *error;
  }
  if (shared) pthread_mutex_unlock(&pool.mutex);
}

/* Runs tasks of the job until none is left or one has failed. A worker parks between two tasks during a fork. */
static void pool_run(tsr_job *j, bool parks) {
  tsr_error error;
  while (!atomic_load_explicit(&j->failed, memory_order_relaxed)) {
    if (parks && atomic_load_explicit(&pool.forking, memory_order_relaxed)) park();
    uint64_t index = atomic_fetch_add_explicit(&j->at, 1, memory_order_relaxed);
    if (index >= j->count) return;
    tsr__error_clear(&error);
    int rc = j->fn(j->argument, index, &error);
    if (rc < 0) fail_job(j, index, rc, &error);
  }
}

bool tsr__job_has_tasks(const tsr_job *j) {
  return !atomic_load_explicit(&j->failed, memory_order_relaxed) &&
         atomic_load_explicit(&j->at, memory_order_relaxed) < j->count;
}

/* Returns the first job that one more worker may join, or NULL. */
static tsr_job *pool_pick(void) {
  for (tsr_job *j = pool.jobs; j; j = j->next)
    if (j->joined < j->wanted && tsr__job_has_tasks(j)) return j;
  return NULL;
}

static void *work(void *argument) {
  worker *me = argument;
  pthread_mutex_lock(&pool.mutex);
  me->thread = pthread_self();
  for (;;) {
    tsr_job *j = pool_pick();
    if (!j) {
      pthread_cond_wait(&pool.work, &pool.mutex);
      continue;
    }
    pool.busy++;
    j->joined++;
    j->helpers++;
    me->helped = j;
    pthread_mutex_unlock(&pool.mutex);
    pool_run(j, true);
    pthread_mutex_lock(&pool.mutex);
    me->helped = NULL;
    pool.busy--;
    if (atomic_load_explicit(&pool.forking, memory_order_relaxed)) pthread_cond_broadcast(&pool.quiet);
    if (--j->helpers == 0) pthread_cond_signal(&j->done);
  }
  return NULL;
}

/* ---- Starting workers ------------------------------------------------------------------------ */

static bool start_worker(worker *w) {
  w->helped = NULL;
  return tsr__thread_start(work, w);
}

/* Starts as many workers as the listed jobs still want, as far as the system allows. */
static void start_workers(void) {
  uint64_t demand = 0;
  for (tsr_job *j = pool.jobs; j; j = j->next)
    if (tsr__job_has_tasks(j)) demand += j->wanted - j->joined;
  if (pool.workers - pool.busy >= demand || pool.workers == MAX_WORKERS) return;
  while (pool.workers - pool.busy < demand && pool.workers < MAX_WORKERS && start_worker(&pool.at[pool.workers]))
    pool.workers++;
}

static void pool_append(tsr_job *j) {
  tsr_job **end = &pool.jobs;
  while (*end) {
    j->previous = *end;
    end = &(*end)->next;
  }
  *end = j;
}

static void unlink_job(tsr_job *j) {
  if (j->previous) j->previous->next = j->next;
  else pool.jobs = j->next;
  if (j->next) j->next->previous = j->previous;
}

/* Waits until no worker runs a task of the job. Call with the mutex held; it is released while polling the host. */
static void wait_for_workers(tsr_job *j, tsr_memory *memory) {
  while (j->helpers > 0) {
    if (!memory || atomic_load_explicit(&j->cancelled, memory_order_relaxed)) {
      pthread_cond_wait(&j->done, &pool.mutex);
      continue;
    }
    tsr__condition_wait(&j->done, &pool.mutex, POLL_MS);
    if (j->helpers == 0) return;
    tsr_error error;
    pthread_mutex_unlock(&pool.mutex);
    if (tsr__cancelled(memory, &error) < 0) fail_job(j, 0, TSR_INTERRUPT, &error);
    pthread_mutex_lock(&pool.mutex);
  }
}

void tsr__job_start(tsr_job *job, unsigned workers, uint64_t count, tsr_task fn, void *argument) {
  job->next = job->previous = NULL; /* field by field: clearing the structure would clear the error's kilobyte, too */
  job->fn = fn;
  job->argument = argument;
  job->count = count;
  atomic_init(&job->at, 0);
  atomic_init(&job->failed, false);
  atomic_init(&job->cancelled, false);
  job->wanted = (unsigned)TSR_MIN(TSR_MIN(workers, MAX_WORKERS), count);
  job->joined = job->helpers = 0;
  job->code = TSR_OK;
  job->failed_at = 0;
  if (job->wanted == 0) return;
  job->process = getpid();
  tsr__condition_init(&job->done);
  pool_enter();
  pthread_mutex_lock(&pool.mutex);
  pool_append(job);
  start_workers();
  for (unsigned i = 0; i < job->wanted; i++) pthread_cond_signal(&pool.work);
  pthread_mutex_unlock(&pool.mutex);
}

/* After a fork the child has no workers. Every started task had finished before the fork; the caller runs the rest. */
static void adopt(tsr_job *job) {
  if (job->wanted > 0 && job->process != getpid()) job->wanted = 0;
}

/* Removes the job from the pool's list and waits for its workers. */
static void pool_take_back(tsr_job *job, tsr_memory *memory) {
  if (job->wanted == 0) return;
  pthread_mutex_lock(&pool.mutex);
  unlink_job(job);
  wait_for_workers(job, memory);
  pthread_mutex_unlock(&pool.mutex);
  pthread_cond_destroy(&job->done);
}

int tsr__job_finish(tsr_job *job, tsr_memory *memory, tsr_error *error) {
  adopt(job);
  pool_run(job, false);
  pool_take_back(job, memory);
  if (job->code < 0 && error) *error = job->error;
  return job->code;
}

void tsr__job_cancel(tsr_job *job) {
  adopt(job);
  atomic_store_explicit(&job->cancelled, true, memory_order_relaxed);
  atomic_store_explicit(&job->failed, true, memory_order_relaxed);
  pool_take_back(job, NULL);
}

int tsr__parallel_for(unsigned threads, uint64_t count, tsr_task fn, void *argument, tsr_error *error) {
  if (threads <= 1 || count <= 1) {
    for (uint64_t i = 0; i < count; i++) TSR_TRY(fn(argument, i, error));
    return TSR_OK;
  }
  tsr_job job;
  tsr__job_start(&job, (unsigned)TSR_MIN(threads - 1, count - 1), count, fn, argument);
  return tsr__job_finish(&job, NULL, error);
}
