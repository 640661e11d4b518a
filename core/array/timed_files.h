/* timed_files.h: finds the files of __meta or __group that are in view between two times. */
#ifndef TSR_TIMED_FILES_H
#define TSR_TIMED_FILES_H

#include "store/store.h"

typedef struct tsr_timed_files {
  uint64_t count;
  const char **paths; /* in the order in which the files take effect: by (start time, name) */
} tsr_timed_files;

/* Gives the files of a directory of timestamped names that are in view: their whole time range lies in since..as_of,
 * both inclusive, in milliseconds since 1970 (as_of may be TSR_TIME_NOW), and no .vac file within the same times names
 * them. A missing directory has no files. `arena` owns the paths. */
int tsr__timed_files(const tsr_environment *environment, tsr_store *store, const char *directory, uint64_t since,
                     uint64_t as_of, tsr_arena *arena, tsr_timed_files *files, tsr_error *error);

#endif
