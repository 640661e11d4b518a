/* progress.h: tsr_work_begin, _done, _end, and:. */
#ifndef TSR_PROGRESS_H
#define TSR_PROGRESS_H

#include "tessera.h"

void tsr__work_more(tsr_environment *environment, uint64_t total); /* the innermost has so much more to do */
void tsr__work_reach(tsr_environment *environment, uint64_t done); /* so much is done, at least */

#endif
