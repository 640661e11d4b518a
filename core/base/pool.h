/* pool.h: worker threads for jobs of many tasks, and the check whether the host wants to cancel. The process has one
 * pool. It starts on first use, and again in a child process after a fork. */
#ifndef TSR_POOL_H
#define TSR_POOL_H

#include <pthread.h>
#include <stdatomic.h>

#include "tessera.h"

typedef struct tsr_memory tsr_memory;

/* One task of a job: returns TSR_OK or a negative code with `error` set. */
typedef int (*tsr_task)(void *argument, uint64_t index, tsr_error *error);

/* Calls fn(argument, i) for each i < count on up to `threads` threads including the calling one, and returns when all
 * calls have returned. With threads <= 1 the calling thread runs all of them. fn must not call this function.
 * Errors: that of the failed task with the lowest index. Tasks with higher indexes may not have run. */
int tsr__parallel_for(unsigned threads, uint64_t count, tsr_task fn, void *argument, tsr_error *error);

/* Fails with TSR_INTERRUPT if the host that owns the root of `memory` wants to cancel. Call it in all long work,
 * including tasks, at least once per 4 MiB decoded or 65,536 rows. On a worker thread it does not call the host: it
 * fails once the thread that finishes the job has been told to cancel. */
int tsr__cancelled(tsr_memory *memory, tsr_error *error);

/* Rate-limited tsr__cancelled: polls once per 4 MiB decoded or 65,536 cells. Call it before decoding `bytes` bytes or
 * `cells` cells. */
int tsr__cancelled_after(tsr_memory *memory, uint64_t bytes, uint64_t cells, tsr_error *error);

/* Sets the error of all cancelled work. Returns TSR_INTERRUPT. */
int tsr__fail_cancelled(tsr_error *error);

/* For the result of work whose failures are ignored because they will come up again later. A cancellation must not be
 * ignored, since the host reports it only once. Returns TSR_INTERRUPT, with `error` set from `failure`, if rc is
 * TSR_INTERRUPT; else TSR_OK. */
int tsr__only_cancelled(int rc, const tsr_error *failure, tsr_error *error);

/* Returns true if the calling thread is a worker running a task. */
bool tsr__on_worker(void);

/* A job whose tasks run on workers while the caller does something else. The caller provides the structure, does not
 * move it, and ends each started job with exactly one call of tsr__job_finish or tsr__job_cancel. */
typedef struct tsr_job {
  struct tsr_job *next, *previous; /* in the pool's list */
  tsr_task fn;
  void *argument; /* of `fn`, borrowed */
  uint64_t count; /* tasks */
  _Atomic uint64_t at; /* index of the next task to start; may pass `count` */
  _Atomic bool failed; /* start no further task */
  _Atomic bool cancelled; /* cancel the running tasks (tsr__cancelled), too */
  unsigned wanted, joined; /* workers: the maximum, and how many have joined so far */
  unsigned helpers; /* workers that run tasks of this job now */
  int64_t process; /* id of the process that started the job; set if `wanted` is not 0 */
  pthread_cond_t done; /* signalled when `helpers` becomes 0 */
  uint64_t failed_at; /* lowest index that failed; valid if `code` is negative */
  int code; /* TSR_OK, or that of the task `failed_at` */
  tsr_error error; /* of the task `failed_at` */
} tsr_job;

/* Starts a job of `count` tasks on up to `workers` worker threads. The calling thread runs none of them yet. Without
 * worker threads, tsr__job_finish runs all tasks. */
void tsr__job_start(tsr_job *job, unsigned workers, uint64_t count, tsr_task fn, void *argument);

/* Runs the tasks that have not started, waits for the others and ends the job. While it waits, it polls the host of
 * `memory` for cancellation, unless `memory` is NULL. In a child process that was forked since the start, it runs all
 * remaining tasks. Errors: as tsr__parallel_for. */
int tsr__job_finish(tsr_job *job, tsr_memory *memory, tsr_error *error);

/* Ends the job without starting further tasks. Waits until the running tasks have returned; tsr__cancelled fails in
 * them. */
void tsr__job_cancel(tsr_job *job);

/* Returns true if the job has tasks that have not started, and no task has failed. */
bool tsr__job_has_tasks(const tsr_job *job);

/* Returns the number of processors that this process may use, at least 1. */
unsigned tsr__cores(void);

/* Guards the creation of global state once per process. A child process inherits its parent's state, whose mutex may be
 * locked for ever, so it creates its own. `state` starts at 0, and then holds twice the id of the process that creates
 * the globals, plus 1 once they are complete. tsr__process_enter returns true if the caller must create the globals and
 * then call tsr__process_made; otherwise it returns false once they are complete. Thread-safe. */
bool tsr__process_enter(_Atomic uint64_t *state);
void tsr__process_made(_Atomic uint64_t *state);

#endif
