/* always.h: conditions that the rest of the code makes certain, where it defends itself all the same. TSR_ALWAYS is
 * true and TSR_NEVER is false. If one is not, a debug build stops, so that a test shows it; a release takes the
 * defence; a build for coverage has no branch that no test can take. The condition is evaluated in each of them. What
 * comes from disk, the network or a user never goes here. */
#ifndef TSR_ALWAYS_H
#define TSR_ALWAYS_H

#if defined(TSR_COVERAGE)
#define TSR_ALWAYS(condition) ((void)(condition), 1)
#define TSR_NEVER(condition)  ((void)(condition), 0)
#elif defined(NDEBUG)
#define TSR_ALWAYS(condition) (condition)
#define TSR_NEVER(condition)  (condition)
#else
#include <assert.h>
#define TSR_ALWAYS(condition) ((condition) || (assert(!#condition), 0))
#define TSR_NEVER(condition)  ((condition) && (assert(!#condition), 1))
#endif

#endif
