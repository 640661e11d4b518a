/* store_memory.h: a store in memory, for tests and fuzzers. It behaves as store_posix.c does. */
#ifndef TSR_STORE_MEMORY_H
#define TSR_STORE_MEMORY_H

#include "base/memory.h"

typedef struct tsr_store tsr_store;

/* Makes an empty tree. `name` stands for the root in messages. The caller closes *store with tsr__store_close. */
int tsr__store_memory_open(tsr_memory *memory, const char *name, tsr_store **store, tsr_error *error);

#endif
