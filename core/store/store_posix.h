/* store_posix.h: a store that is a directory of the file system. */
#ifndef TSR_STORE_POSIX_H
#define TSR_STORE_POSIX_H

#include "base/memory.h"

typedef struct tsr_store tsr_store;

/* The directory `path` (not looked at yet, need not exist; a relative path is taken from the present directory). */
int tsr__store_posix_open(tsr_memory *memory, const char *path, tsr_store **store, tsr_error *error);

#endif
