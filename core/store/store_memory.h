/* store_memory.h: a store in memory, the twin of store_posix.c for tests and fuzzers. */
#ifndef TSR_STORE_MEMORY_H
#define TSR_STORE_MEMORY_H

#include "base/memory.h"

typedef struct tsr_store tsr_store;

/* An empty tree in memory. */
int tsr__store_memory_open(tsr_memory *memory, const char *name, tsr_store **store, tsr_error *error);

#endif
