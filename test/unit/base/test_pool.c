/* test_pool.c: parallel loops, background jobs, cancellation, and forks while workers run. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/pool.h"
#include "moved_calendar.h"

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#endif
#ifdef THREAD_SANITIZER /* the tests start threads in a forked child, which it does not support */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "die_after_fork=0"; }
#endif

typedef struct tally {
  _Atomic uint64_t calls, sum;
  /* Each element is written by one task, without atomics: the pool orders the writes before its return. */
  uint8_t *seen;
} tally;

static int count_up(void *argument, uint64_t index, tsr_error *error) {
  tally *t = argument;
  atomic_fetch_add(&t->calls, 1);
  atomic_fetch_add(&t->sum, index);
  if (t->seen) t->seen[index]++;
  return 1; /* a positive result is no error */
}

static void test_every_index_runs_once(void **state) {
  static const unsigned threads[] = {0, 1, 2, 3, 8, 64, 1000};
  static const uint64_t counts[] = {0, 1, 2, 3, 63, 64, 65, 10000};
  for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
      uint64_t n = counts[k];
      tally t = {.seen = calloc(n + 1, 1)};
      tsr_error error = {0};
      assert_int_equal(tsr__parallel_for(threads[i], n, count_up, &t, &error), TSR_OK);
      assert_int_equal(t.calls, n);
      assert_int_equal(t.sum, n > 0 ? n * (n - 1) / 2 : 0);
      for (uint64_t at = 0; at < n; at++) assert_int_equal(t.seen[at], 1);
      assert_int_equal(error.code, 0);
      free(t.seen);
    }
  }
}

/* Tasks that wait for each other, which end only if there is a thread for each. */
typedef struct meeting {
  pthread_mutex_t mutex;
  pthread_cond_t all;
  unsigned there, wanted;
} meeting;

static int meet(void *argument, uint64_t index, tsr_error *error) {
  meeting *m = argument;
  pthread_mutex_lock(&m->mutex);
  if (++m->there == m->wanted) pthread_cond_broadcast(&m->all);
  while (m->there < m->wanted) pthread_cond_wait(&m->all, &m->mutex);
  pthread_mutex_unlock(&m->mutex);
  return TSR_OK;
}

static void test_as_many_tasks_run_at_once_as_there_are_threads(void **state) {
  for (unsigned threads = 2; threads <= 16; threads *= 2) {
    meeting m = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, threads};
    assert_int_equal(tsr__parallel_for(threads, threads, meet, &m, NULL), TSR_OK);
    assert_int_equal(m.there, threads);
  }
}

typedef struct bad {
  uint64_t first, step;
  _Atomic uint64_t calls;
} bad;

static int fail_some(void *argument, uint64_t index, tsr_error *error) {
  bad *b = argument;
  atomic_fetch_add(&b->calls, 1);
  if (index >= b->first && (index - b->first) % b->step == 0)
    return tsr__fail(error, index % 2 ? TSR_CORRUPT : TSR_IO, "task %u", (unsigned)index);
  return TSR_OK;
}

static void test_the_error_of_the_lowest_index_is_reported(void **state) {
  for (unsigned threads = 1; threads <= 8; threads++) {
    for (int round = 0; round < 200; round++) {
      bad b = {.first = 37, .step = 1 + (unsigned)round % 3};
      tsr_error error = {0};
      assert_int_equal(tsr__parallel_for(threads, 100000, fail_some, &b, &error), TSR_CORRUPT);
      assert_string_equal(error.message, "task 37");
      assert_true(b.calls >= 38 && b.calls < 100000);
    }
    bad last = {.first = 999, .step = 1};
    assert_int_equal(tsr__parallel_for(threads, 1000, fail_some, &last, NULL), TSR_CORRUPT);
    assert_int_equal(last.calls, 1000);
  }
}

static void *caller(void *argument) {
  uint64_t wrong = 0;
  for (int round = 0; round < 50; round++) {
    tally t = {.seen = calloc(500, 1)};
    if (tsr__parallel_for(4, 500, count_up, &t, NULL) != TSR_OK || t.calls != 500) wrong++;
    for (int i = 0; i < 500; i++) wrong += t.seen[i] != 1;
    free(t.seen);
    bad b = {.first = 20, .step = 7};
    tsr_error error = {0};
    if (tsr__parallel_for(3, 500, fail_some, &b, &error) != TSR_IO || strcmp(error.message, "task 20") != 0) wrong++;
  }
  return (void *)(uintptr_t)wrong;
}

static void test_several_threads_may_run_jobs_at_once(void **state) {
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&threads[i], NULL, caller, NULL), 0);
  for (int i = 0; i < 8; i++) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
}

/* The child has no workers, and the inherited mutex may be locked. It must run its loop all the same. */
static void child_runs(void) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    alarm(20); /* a hang is a failure */
    meeting m = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 4};
    int rc = tsr__parallel_for(4, 4, meet, &m, NULL);
    tally t = {0};
    if (rc == TSR_OK) rc = tsr__parallel_for(3, 1000, count_up, &t, NULL);
    _exit(rc == TSR_OK && m.there == 4 && t.calls == 1000 ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static _Atomic bool stop;

static void *keep_busy(void *argument) {
  while (!atomic_load(&stop)) {
    tally t = {0};
    tsr__parallel_for(3, 20, count_up, &t, NULL);
  }
  return NULL;
}

static void test_a_forked_child_gets_a_pool_of_its_own(void **state) {
  tally t = {0};
  assert_int_equal(tsr__parallel_for(4, 100, count_up, &t, NULL), TSR_OK); /* the parent has workers */
  for (int i = 0; i < 3; i++) child_runs();
  t = (tally){0};
  assert_int_equal(tsr__parallel_for(4, 100, count_up, &t, NULL), TSR_OK); /* and keeps them */
  assert_int_equal(t.calls, 100);
#ifndef THREAD_SANITIZER /* the sanitizer's own locks do not survive a fork while other threads run */
  pthread_t busy;
  assert_int_equal(pthread_create(&busy, NULL, keep_busy, NULL), 0);
  for (int i = 0; i < 30; i++) child_runs();
  atomic_store(&stop, true);
  pthread_join(busy, NULL);
#else
  (void)keep_busy;
#endif
}

/* ---- Jobs in the background ---- */

/* Workers run the tasks while the caller waits for something else. Without workers tsr__job_finish runs all of them. */
static void test_workers_run_a_started_job_before_its_finish(void **state) {
  static const uint64_t counts[] = {0, 1, 2, 100, 10000};
  for (unsigned workers = 0; workers <= 4; workers++)
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
      for (int wait = 0; wait < 2; wait++) {
        const uint64_t n = counts[k];
        tally t = {.seen = calloc(n + 1, 1)};
        tsr_job job;
        tsr__job_start(&job, workers, n, count_up, &t);
        while (wait && workers > 0 && t.calls < n) usleep(100);
        if (workers == 0) assert_int_equal(t.calls, 0);
        assert_int_equal(tsr__job_finish(&job, NULL, NULL), TSR_OK);
        assert_int_equal(t.calls, n);
        for (uint64_t at = 0; at < n; at++) assert_int_equal(t.seen[at], 1);
        free(t.seen);
      }
}

/* Several jobs and loops at the same time. Each reports the error of its lowest index. */
static void test_several_background_jobs_run_together(void **state) {
  for (int round = 0; round < 100; round++) {
    tally t[3] = {{0}, {0}, {0}};
    tsr_job jobs[3], failing;
    bad b = {.first = 37, .step = 1 + (unsigned)round % 3};
    tsr_error error = {0};
    for (int i = 0; i < 3; i++) tsr__job_start(&jobs[i], (unsigned)i + 1, 50, count_up, &t[i]);
    tsr__job_start(&failing, 2, 1000, fail_some, &b);
    tally between = {0};
    assert_int_equal(tsr__parallel_for(3, 50, count_up, &between, NULL), TSR_OK);
    assert_int_equal(between.calls, 50);
    assert_int_equal(tsr__job_finish(&failing, NULL, &error), TSR_CORRUPT);
    assert_string_equal(error.message, "task 37");
    for (int i = 2; i >= 0; i--) assert_int_equal(tsr__job_finish(&jobs[i], NULL, NULL), TSR_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(t[i].calls, 50);
  }
}

/* Running tasks end before tsr__job_cancel returns, and no task starts after it. */
static void test_cancel_waits_for_running_tasks_and_starts_no_more(void **state) {
  for (unsigned workers = 0; workers <= 3; workers++)
    for (int round = 0; round < 50; round++) {
      tally *t = calloc(1, sizeof *t);
      tsr_job job;
      t->seen = calloc(100000, 1);
      tsr__job_start(&job, workers, 100000, count_up, t);
      if (round % 2) usleep(50);
      tsr__job_cancel(&job);
      assert_true(workers > 0 || t->calls == 0);
      uint64_t seen = 0;
      for (int i = 0; i < 100000; i++) seen += t->seen[i];
      assert_int_equal(seen, t->calls);
      free(t->seen);
      free(t); /* the sanitizer reports a task that runs later */
    }
}

static int take_long(void *argument, uint64_t index, tsr_error *error) {
  usleep(200);
  return count_up(argument, index, error);
}

/* A fork waits for workers to pause. A worker that becomes idle meanwhile counts as one that pauses. */
static void test_fork_at_the_end_of_a_job(void **state) {
  for (int round = 0; round < 100; round++) {
    tally t = {0};
    tsr_job job;
    tsr__job_start(&job, 1 + (unsigned)round % 3, 1 + (unsigned)round % 4, take_long, &t);
    usleep((unsigned)round * 5);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(tsr__job_finish(&job, NULL, NULL), TSR_OK);
    assert_int_equal(t.calls, 1 + round % 4);
  }
}

/* A child inherits a job without its workers. Each task runs once in the parent and once in the child. */
static void test_fork_amid_a_job(void **state) {
  for (int round = 0; round < 20; round++) {
    tally t = {.seen = calloc(200, 1)};
    tsr_job job, cancelled;
    tsr__job_start(&job, 3, 200, take_long, &t);
    tsr__job_start(&cancelled, 3, 200, take_long, &(tally){0});
    usleep(1000);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) alarm(20); /* a hang is a failure */
    tsr__job_cancel(&cancelled);
    const int rc = tsr__job_finish(&job, NULL, NULL);
    uint64_t wrong = rc != TSR_OK || t.calls != 200;
    for (int i = 0; i < 200; i++) wrong += t.seen[i] != 1;
    if (child == 0) {
      tally more = {0};
      wrong += tsr__parallel_for(3, 100, count_up, &more, NULL) != TSR_OK || more.calls != 100;
      _exit(wrong ? 1 : 0);
    }
    int status;
    assert_int_equal(wrong, 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    free(t.seen);
  }
}

static int take_short(void *argument, uint64_t index, tsr_error *error) {
  volatile double x = 1;
  for (int i = 0; i < 10000; i++) x = x * 1.0000001;
  return count_up(argument, index, error);
}

static void *fork_often(void *argument) {
  pthread_barrier_t *together = argument;
  for (int round = 0; round < 150; round++) {
    pthread_barrier_wait(together);
    const pid_t child = fork();
    if (child == 0) _exit(0);
    if (child < 0 || waitpid(child, NULL, 0) != child) return argument;
  }
  return NULL;
}

/* Two threads fork at the same time. The first must not wake the workers that the second is waiting for. */
static void test_forks_at_once_amid_a_job(void **state) {
  pthread_barrier_t together;
  pthread_t threads[2];
  tsr_job job;
  tally t = {0};
  pthread_barrier_init(&together, NULL, 2);
  alarm(120); /* a hang is a failure */
  tsr__job_start(&job, 3, 1000000000, take_short, &t);
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, fork_often, &together), 0);
  for (int i = 0; i < 2; i++) {
    void *failed;
    assert_int_equal(pthread_join(threads[i], &failed), 0);
    assert_null(failed);
  }
  tsr__job_cancel(&job);
  alarm(0);
  assert_true(t.calls > 0);
  pthread_barrier_destroy(&together);
}

typedef struct signals {
  pthread_t caller;
  pthread_mutex_t mutex;
  int workers, unblocked;
  meeting all;
} signals;

static int look_at_mask(void *argument, uint64_t index, tsr_error *error) {
  signals *s = argument;
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  pthread_mutex_lock(&s->mutex);
  if (!pthread_equal(pthread_self(), s->caller)) {
    s->workers++;
    s->unblocked += !sigismember(&mask, SIGINT) || !sigismember(&mask, SIGALRM) || !sigismember(&mask, SIGCHLD);
  }
  pthread_mutex_unlock(&s->mutex);
  return meet(&s->all, index, error);
}

static void test_signals_stay_with_the_host(void **state) {
  signals s = {.caller = pthread_self(),
               .mutex = PTHREAD_MUTEX_INITIALIZER,
               .all = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 4}};
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  assert_int_equal(tsr__parallel_for(4, 4, look_at_mask, &s, NULL), TSR_OK);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  assert_int_equal(s.workers, 3);
  assert_int_equal(s.unblocked, 0);
  assert_int_equal(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

/* Tasks that end only when they are cancelled; the host cancels at the third poll. */
typedef struct endless {
  tsr_memory memory;
  pthread_t caller;
  bool caller_waits; /* the caller has no long task, or it polls itself */
  unsigned asked;
  _Atomic unsigned working, elsewhere;
} endless;

static bool stop_at_third(void *argument) {
  endless *e = argument;
  if (!pthread_equal(pthread_self(), e->caller)) e->elsewhere++;
  return ++e->asked >= 3;
}

static int last(void *argument, uint64_t index, tsr_error *error) {
  endless *e = argument;
  bool caller = pthread_equal(pthread_self(), e->caller);
  e->working++;
  while (caller && e->caller_waits)
    if (e->working == 4) return TSR_OK; /* all other tasks are running */
  for (;;) TSR_TRY(tsr__cancelled(&e->memory, error));
}

static void test_a_cancelling_host_ends_running_tasks(void **state) {
  for (int waits = 0; waits < 2; waits++) {
    endless e = {.caller = pthread_self(), .caller_waits = waits};
    tsr_error error = {0};
    tsr__memory_init_root(&e.memory, NULL, NULL);
    e.memory.cancel.requested = stop_at_third;
    e.memory.cancel.argument = &e;
    tsr_job job;
    tsr__job_start(&job, 3, 4, last, &e);
    assert_int_equal(tsr__job_finish(&job, &e.memory, &error), TSR_INTERRUPT);
    assert_string_equal(error.message, "interrupted");
    assert_int_equal(e.asked, 3);
    assert_int_equal(e.elsewhere, 0);
  }
}

/* The machine's clock is set back by an hour while the host waits for its tasks. */
static void test_cancelling_is_not_delayed_by_the_calendar(void **state) {
  calendar_moved = 3600;
  test_a_cancelling_host_ends_running_tasks(state);
  calendar_moved = 0;
}

static bool never(void *argument) {
  ++*(unsigned *)argument;
  return false;
}

static bool at_once(void *argument) { return true; }

/* The host is polled once per 4 MiB or 65,536 cells of all threads together, and before a tile that is larger. */
static void test_the_host_is_polled_once_per_amount_of_work(void **state) {
  tsr_memory root, one, other;
  tsr_error error = {0};
  unsigned asked = 0;
  tsr__memory_init_root(&root, NULL, NULL);
  root.cancel.requested = never;
  root.cancel.argument = &asked;
  tsr__memory_init(&one, &root, UINT64_MAX, "one");
  tsr__memory_init(&other, &root, UINT64_MAX, "other");
  for (unsigned i = 0; i < 400; i++)
    assert_int_equal(tsr__cancelled_after(i % 2 ? &one : &other, 100 << 10, 10, &error), TSR_OK);
  assert_in_range(asked, 400 * 100 / 4096, 12);
  asked = 0;
  for (unsigned i = 0; i < 65536; i++) assert_int_equal(tsr__cancelled_after(&one, 80, 10, &error), TSR_OK);
  assert_in_range(asked, 10, 11);
  asked = 0;
  for (unsigned i = 0; i < 7; i++) assert_int_equal(tsr__cancelled_after(&one, UINT64_MAX, UINT64_MAX, &error), TSR_OK);
  assert_int_equal(asked, 7);
  assert_int_equal(tsr__cancelled(&one, &error), TSR_OK); /* a poll for another reason counts, too */
  for (unsigned i = 0; i < 40; i++) assert_int_equal(tsr__cancelled_after(&one, 100 << 10, 10, &error), TSR_OK);
  assert_int_equal(asked, 8);
  root.cancel.requested = at_once;
  assert_int_equal(tsr__cancelled_after(&one, 200 << 10, 10, &error), TSR_INTERRUPT);
}

static void test_there_is_at_least_one_core(void **state) { assert_true(tsr__cores() >= 1); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_index_runs_once),
      cmocka_unit_test(test_as_many_tasks_run_at_once_as_there_are_threads),
      cmocka_unit_test(test_the_error_of_the_lowest_index_is_reported),
      cmocka_unit_test(test_several_threads_may_run_jobs_at_once),
      cmocka_unit_test(test_workers_run_a_started_job_before_its_finish),
      cmocka_unit_test(test_several_background_jobs_run_together),
      cmocka_unit_test(test_cancel_waits_for_running_tasks_and_starts_no_more),
      cmocka_unit_test(test_a_forked_child_gets_a_pool_of_its_own),
      cmocka_unit_test(test_fork_amid_a_job),
      cmocka_unit_test(test_forks_at_once_amid_a_job),
      cmocka_unit_test(test_fork_at_the_end_of_a_job),
      cmocka_unit_test(test_signals_stay_with_the_host),
      cmocka_unit_test(test_a_cancelling_host_ends_running_tasks),
      cmocka_unit_test(test_cancelling_is_not_delayed_by_the_calendar),
      cmocka_unit_test(test_the_host_is_polled_once_per_amount_of_work),
      cmocka_unit_test(test_there_is_at_least_one_core),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
