/* progress.h: reports how far the present operation of an environment has come. tessera.h has the public functions:
 * tsr_work_begin, tsr_work_done, tsr_work_end, tsr_progress_list. */
#ifndef TSR_PROGRESS_H
#define TSR_PROGRESS_H

#include "tessera.h"

/* Adds `total` to the amount of work of the innermost operation. */
void tsr__work_more(tsr_environment *environment, uint64_t total);

/* Says that at least `done` of the innermost operation's work is done, counted from its beginning. */
void tsr__work_reach(tsr_environment *environment, uint64_t done);

#endif
