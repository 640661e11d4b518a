/* rivals.h: merges of other processes that are to replace some of the same fragments (rivals.c). */
#ifndef TSR_RIVALS_H
#define TSR_RIVALS_H

#include "store/store.h"
#include "maintain/maintain.h"

/* The paths of the steps of a merge: "DIRECTORY/PREFIX NAME SUFFIX" in the directory that has the commits or the
 * fragments of a format version. */
tsr_path tsr__merge_commit_path(uint32_t version, const char *prefix, const char *name, const char *suffix);
tsr_path tsr__merge_fragment_path(uint32_t version, const char *name);

/* Sets `stem` to what the names of all fragments of one merge have in common: the name without the last eight digits of
 * its UUID and without its version. Returns false if `name` is not the name of a fragment with a UUID of 32 digits. */
bool tsr__merge_stem(const char *name, char stem[128]);

/* Cancels the merges of some of the same sources, or waits for those that go first. TSR_ABORT if one of them is about
 * to commit. */
int tsr__rivals_cancel(const tsr_replacement *replacement, tsr_error *error);

/* Decides that this merge commits. From here on nobody cancels it. TSR_ABORT if it was cancelled. */
int tsr__rivals_decide(tsr_replacement *replacement, tsr_error *error);

/* Returns TSR_ABORT with a message that says that another consolidation merges the same fragments. */
int tsr__rivals_fail(tsr_error *error);

/* Carries out what was decided about merges whose processes have died since. */
int tsr__rivals_finish(tsr_array *array, tsr_memory *memory, uint32_t version, tsr_error *error);

#endif
