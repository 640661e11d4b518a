/* clock.h: the clock that is never set, by which waits and durations are measured, and conditions that wait by it. What
 * files and servers are dated with is the calendar's clock, which people and services set while a program runs: whoever
 * waits until a time of that clock waits for an hour more if it is set back by an hour. */
#ifndef TSR_CLOCK_H
#define TSR_CLOCK_H

#include <pthread.h>
#include <stdint.h>

uint64_t tsr__ticks(void); /* in milliseconds */

/* Makes a condition for tsr__condition_wait. */
void tsr__condition_init(pthread_cond_t *condition);

/* Waits as pthread_cond_wait does, but for `ms` milliseconds at most. */
void tsr__condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t ms);

#endif
