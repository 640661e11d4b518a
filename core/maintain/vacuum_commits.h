/* vacuum_commits.h: the part of a vacuum that removes commit files. `sources` are names of fragments, as a list of
 * const char *. */
#ifndef TSR_VACUUM_COMMITS_H
#define TSR_VACUUM_COMMITS_H

#include "maintain/vacuum_files.h"

/* Removes all commits of the sources. If `at_once`, a reader sees either all of the sources or none. TSR_ABORT if other
 * processes keep vacuuming the same sources. */
int tsr__vacuum_uncommit(tsr_vacuum *v, const tsr_buffer *sources, bool at_once, tsr_error *error);

/* Removes all staged .con files. Another process may have listed the sources before they were merged, and be about to
 * commit them again by a .con that it has staged. Its rename fails when the staged file is gone. A .con that is staged
 * after this finds that the sources are not committed any more (still_committed in consolidate_files.c). */
int tsr__vacuum_remove_staged_con(tsr_vacuum *v, tsr_error *error);

/* Cancels sources that a .con commits by now, because another process renamed it before
 * tsr__vacuum_remove_staged_con. The caller repeats this after it has removed the fragments, for other libraries, which
 * do not stage their .con files. */
int tsr__vacuum_cancel_new_commits(tsr_vacuum *v, const tsr_buffer *sources, tsr_error *error);

/* Removes unfinished .con files (tsr__mend_commits). */
int tsr__vacuum_mend(tsr_vacuum *v, tsr_error *error);

/* Removes each .wrt file whose fragment a .con commits, each .con whose active entries a later one has, and each .ign
 * that cancels no entry of a .con. */
int tsr__vacuum_commits(tsr_vacuum *v, tsr_error *error);

#endif
