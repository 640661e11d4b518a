/* moved_calendar.h: gives a test program a calendar that is `calendar_moved` seconds later than the kernel's, while the
 * clocks that are never set stay as they are. A wait until a time of this calendar lasts as long as if the machine's clock
 * were set back by so much during the wait. And the machine seems to have slept for `machine_slept` seconds more. Only one
 * file of a program may include it. Nothing moves outside Linux. */
#ifndef TSR_MOVED_CALENDAR_H
#define TSR_MOVED_CALENDAR_H

#include <time.h>

static volatile int64_t calendar_moved, machine_slept;

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>

int clock_gettime(clockid_t which, struct timespec *time) {
  const int result = (int)syscall(SYS_clock_gettime, which, time);
  if (result == 0 && which == CLOCK_REALTIME) time->tv_sec += (time_t)(calendar_moved + machine_slept);
  if (result == 0 && which == CLOCK_BOOTTIME) time->tv_sec += (time_t)machine_slept;
  return result;
}

int timespec_get(struct timespec *time, int base) { return clock_gettime(CLOCK_REALTIME, time) == 0 ? base : 0; }
#endif

#endif
