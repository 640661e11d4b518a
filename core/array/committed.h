/* committed.h: what has ever been published. */
#ifndef TSR_COMMITTED_H
#define TSR_COMMITTED_H

#include "base/map.h"
#include "base/memory.h"

typedef struct tsr_commit_listing tsr_commit_listing;
typedef struct tsr_pending tsr_pending;

typedef struct tsr_published {
  tsr_array *array;
  tsr_arena arena;
  tsr_map names; /* of fragments and deletes; those that the listing has as fragments are not in it */
} tsr_published;

/* Lists the array anew, without what is prepared: to be listed again afterwards. What cannot be read is an error. */
int tsr__published_open(tsr_array *array, tsr_published *published, tsr_error *error);

/* Does any file of the array say that the commit has been published? 1 or 0. As long as the listing is that of open. */
int tsr__published_has(const tsr_published *published, const tsr_pending *pending, tsr_error *error);
void tsr__published_release(tsr_published *published);

/* Of a commit that is not there any more: does the listing have its fragments, or merged ones that span their times?
 * Sources of a merge leave no other trace once they are removed. Of deletes alone: does it have deletes of that time? */
bool tsr__listing_took_up(const tsr_commit_listing *listing, const tsr_pending *pending);

#endif
