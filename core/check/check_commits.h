/* check_commits.h: checks commits: each commit file has its fragment and the reverse; delete conditions; vacuum files;
 * consolidated footers. listing.c says which files these are. */
#ifndef TSR_CHECK_COMMITS_H
#define TSR_CHECK_COMMITS_H

#include "tessera.h"

typedef struct tsr_checker tsr_checker;

/* Checks __commits, __fragment_meta and __fragments, and the files of the same kinds in the array's root. Fills
 * c->fragments with the committed fragments. c->schemas must be filled. */
int tsr__check_commits(tsr_checker *c);

/* Compares two fragments by start time and name. For qsort: the arguments point to tsr_checked_fragment *. */
int tsr__check_compare_fragments(const void *a, const void *b);

#endif
