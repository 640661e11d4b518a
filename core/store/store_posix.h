/* store_posix.h: a store in a directory of the file system. */
#ifndef TSR_STORE_POSIX_H
#define TSR_STORE_POSIX_H

#include "base/memory.h"

typedef struct tsr_store tsr_store;

/* Opens the tree below the directory `path`, without looking at the directory, which need not exist. A relative path
 * starts at the current directory of this moment. The caller closes *store with tsr__store_close. */
int tsr__store_posix_open(tsr_memory *memory, const char *path, tsr_store **store, tsr_error *error);

/* Returns true if the path, which does not end in '/', is itself a symbolic link. */
bool tsr__path_is_link(const char *path);

#endif
