/* committed.h: finds out whether a prepared commit has been published at any time, from all files of the array that
 * tell of commits. Recovery asks this before it publishes or undoes a commit. */
#ifndef TSR_COMMITTED_H
#define TSR_COMMITTED_H

#include "base/map.h"
#include "base/memory.h"

typedef struct tsr_commit_listing tsr_commit_listing;
typedef struct tsr_pending tsr_pending;

typedef struct tsr_published {
  tsr_array *array; /* borrowed */
  tsr_arena arena;
  tsr_map names; /* names of published fragments and deletes, except the fragments of the array's listing */
} tsr_published;

/* Lists the array again, without counting prepared commits, and collects the names of all published fragments and
 * deletes. The caller must list the array once more when it has finished. A file that cannot be read is an error. */
int tsr__published_open(tsr_array *array, tsr_published *published, tsr_error *error);

/* Returns 1 if any file of the array says that the commit has been published, else 0. The array's listing must still be
 * that of tsr__published_open. */
int tsr__published_has(const tsr_published *published, const tsr_pending *pending, tsr_error *error);

void tsr__published_release(tsr_published *published);

/* Returns true if the listing shows that a commit, whose own files are gone, was published: it has one of the commit's
 * fragments, or a merged fragment that spans the time of one. (When the sources of a merge are removed, they leave no
 * other trace.) A commit of deletes alone was published if the listing has a delete of its time. */
bool tsr__listing_took_up(const tsr_commit_listing *listing, const tsr_pending *pending);

#endif
