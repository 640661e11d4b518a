/* clock.c: reads the clocks that are never set, and waits by one of them. Each system has its own way to say by which
 * clock a condition waits. */
#include "base/clock.h"

#include <stdbool.h>
#include <time.h>

static bool milliseconds_of(clockid_t which, uint64_t *ms) {
  struct timespec now;
  if (clock_gettime(which, &now) != 0) return false;
  *ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
  return true;
}

uint64_t tsr__ticks(void) {
  uint64_t ms;
  return milliseconds_of(CLOCK_MONOTONIC, &ms) ? ms : 0;
}

uint64_t tsr__moment(void) {
#ifdef CLOCK_BOOTTIME /* of Linux; elsewhere the other clock also counts sleep */
  uint64_t ms;
  if (milliseconds_of(CLOCK_BOOTTIME, &ms)) return ms; /* a kernel or a sandbox that lacks it always lacks it */
#endif
  return tsr__ticks();
}

static void add_ms(struct timespec *time, uint64_t ms) {
  time->tv_sec += (time_t)(ms / 1000);
  time->tv_nsec += (long)(ms % 1000) * 1000000;
  if (time->tv_nsec >= 1000000000) time->tv_sec++, time->tv_nsec -= 1000000000;
}

#if defined(__APPLE__)
void tsr__condition_init(pthread_cond_t *condition) { pthread_cond_init(condition, NULL); }

void tsr__condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t ms) {
  struct timespec time = {0};
  add_ms(&time, ms);
  pthread_cond_timedwait_relative_np(condition, mutex, &time);
}
#elif defined(_WIN32)
void tsr__condition_init(pthread_cond_t *condition) { pthread_cond_init(condition, NULL); }

/* winpthreads computes at the call how long to wait: that the calendar is set later does not count. */
void tsr__condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t ms) {
  struct timespec until;
  timespec_get(&until, TIME_UTC);
  add_ms(&until, ms);
  pthread_cond_timedwait(condition, mutex, &until);
}
#else
void tsr__condition_init(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
}

void tsr__condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t ms) {
  struct timespec until = {0};
  clock_gettime(CLOCK_MONOTONIC, &until);
  add_ms(&until, ms);
  pthread_cond_timedwait(condition, mutex, &until);
}
#endif
