/* clock.c: a library for LD_PRELOAD that moves the calendar's clock of a process by the nanoseconds in the first 8 bytes of the file that
 * TESSERA_TEST_CLOCK names. In the next 8, if there are any, is how long the machine seems to have slept. The file is mapped, so whoever
 * changes it sets the clock of all processes that have it. The monotonic clock stays true. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset; /* 16 bytes; those behind the file's end are 0 */
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
  real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  const char *path = getenv("TESSERA_TEST_CLOCK");
  const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, 2 * sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) offset = mapped;
  close(file);
}

int clock_gettime(clockid_t which, struct timespec *t) {
  if (!real) begin();
  const int rc = real(which, t);
  const bool calendar = which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE;
  if (rc || !offset || (!calendar && which != CLOCK_BOOTTIME)) return rc;
  const int64_t moved = (int64_t)t->tv_sec * 1000000000 + t->tv_nsec + (calendar ? offset[0] : 0) + offset[1];
  t->tv_sec = (time_t)(moved / 1000000000);
  t->tv_nsec = (long)(moved % 1000000000);
  return 0;
}

int timespec_get(struct timespec *t, int base) { return clock_gettime(CLOCK_REALTIME, t) == 0 ? base : 0; }

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  (void)zone;
  struct timespec now;
  const int rc = clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return rc;
}

time_t time(time_t *t) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (t) *t = now.tv_sec;
  return now.tv_sec;
}
