/* timed_files.h: the files of __meta and __group that are in view between two times. */
#ifndef TSR_TIMED_FILES_H
#define TSR_TIMED_FILES_H

#include "store/store_bounds.h"

typedef struct tsr_timed_files {
  uint64_t count;
  const char **paths; /* by (start time, name): the later wins */
} tsr_timed_files;

/* Of a directory of timestamped names: those whose whole range lies in since..as_of (TSR_TIME_NOW is the clock), less
 * those that a .vac file within the same times names. None where the directory is missing. Memory comes from `arena`.
 */
int tsr__timed_files(const tsr_environment *environment, tsr_store *store, const char *directory, uint64_t since,
                     uint64_t as_of, tsr_arena *arena, tsr_timed_files *files, tsr_error *error);

#endif
