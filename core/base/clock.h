/* clock.h: the two clocks that are never set, and conditions that wait by one of them. What files and servers are dated
 * with is the calendar's clock, which people and services set while a program runs: whoever waits until a time of that
 * clock waits for an hour more if it is set back by an hour. */
#ifndef TSR_CLOCK_H
#define TSR_CLOCK_H

#include <pthread.h>
#include <stdint.h>

/* Returns a time in milliseconds for waits and durations of work: on Linux it stands still while the machine sleeps, as
 * we and those on the same machine do. */
uint64_t tsr__ticks(void);

/* Returns a time in milliseconds for how old something is and when it ends, of which others also have a part: tokens,
 * turns, listings, a server's time. It goes on while the machine sleeps, as they do. */
uint64_t tsr__moment(void);

/* Makes a condition for tsr__condition_wait. */
void tsr__condition_init(pthread_cond_t *condition);

/* Waits as pthread_cond_wait does, but for `ms` milliseconds at most. */
void tsr__condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t ms);

#endif
