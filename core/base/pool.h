/* pool.h: worker threads, and the question whether long work shall stop. */
#ifndef TSR_POOL_H
#define TSR_POOL_H

#include <pthread.h>
#include <stdatomic.h>

#include "tessera.h"

typedef struct tsr_memory tsr_memory;

/* One pool for the process, started on first use, started anew after fork. Calls fn(argument, i) for each i < count on
 * up to `threads` threads, the caller among them; returns when all have returned: TSR_OK, or the error of the lowest i
 * that failed (the others may not have run). threads <= 1 runs on the caller alone. Not to be called from within fn. */
typedef int (*tsr_task)(void *argument, uint64_t index, tsr_error *error);

int tsr__parallel_for(unsigned threads, uint64_t count, tsr_task fn, void *argument, tsr_error *error);

/* TSR_INTERRUPT if the host to which this memory belongs wants to stop. Workers do not ask the host: they stop once the
 * caller of their job was told to. What takes long within a task asks this now and then. */
int tsr__cancelled(tsr_memory *memory, tsr_error *error);

/* The same, but the host is asked only where so much decoding, with what was done since it was asked last, is more than it
 * waits for: 4 MiB or 65,536 cells. Asked before it is done. */
int tsr__cancelled_after(tsr_memory *memory, uint64_t bytes, uint64_t cells, tsr_error *error);

/* tsr__parallel_for in two parts, so that workers are at it while the caller does something else. The caller's thread takes
 * no part before the finish, which does what is left and returns when all is done; while it waits it asks the host of
 * `memory` (NULL: nobody) whether to stop. Each job that was started is finished or cancelled, once, in the memory where
 * it was started. workers 0, or none to be had: the finish does all, and so it does in a child that was forked meanwhile. */
typedef struct tsr_job {
  struct tsr_job *next, *previous;
  tsr_task fn;
  void *argument;
  uint64_t count;
  _Atomic uint64_t at; /* the next index */
  _Atomic bool failed; /* hand out no more */
  _Atomic bool interrupted; /* and end what is at work */
  unsigned wanted, joined; /* workers: how many at most, how many so far */
  unsigned helpers;
  int64_t process; /* that started it, where it wanted workers */
  pthread_cond_t done; /* helpers has become 0 */
  uint64_t failed_at;
  int code;
  tsr_error error;
} tsr_job;

void tsr__job_start(tsr_job *job, unsigned workers, uint64_t count, tsr_task fn, void *argument);
int tsr__job_finish(tsr_job *job, tsr_memory *memory, tsr_error *error);
void tsr__job_cancel(tsr_job *job); /* waits until what has begun has ended, by itself or because it asks */
bool tsr__job_goes_on(const tsr_job *job); /* are there indexes that nobody has taken? */
unsigned tsr__cores(void); /* at least 1 */

/* Globals, made on first use in each process: after a fork the child finds its parent's, whose mutex may be locked for
 * ever. `state`, zero at first, is the process id * 2, + 1 once they are made. True: the caller makes them, and then
 * says so; others wait. */
bool tsr__process_enter(_Atomic uint64_t *state);
void tsr__process_made(_Atomic uint64_t *state);

#endif
