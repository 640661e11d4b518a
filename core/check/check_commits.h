/* check_commits.h: the check of what is committed: commit files against fragments, both ways; delete conditions;
 * vacuum files; consolidated footers (listing.c says which files these are). */
#ifndef TSR_CHECK_COMMITS_H
#define TSR_CHECK_COMMITS_H

#include "tessera.h"

typedef struct tsr_checker tsr_checker;

int tsr__check_commits(tsr_checker *c); /* __commits, __fragment_meta, __fragments, and their like in the root */
int tsr__check_compare_fragments(const void *a, const void *b); /* tsr_checked_fragment **, by time and name */

#endif
