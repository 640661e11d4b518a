/* store_host.h: a store that the host keeps: its callbacks (tessera.h) behind the methods of all stores. */
#ifndef TSR_STORE_HOST_H
#define TSR_STORE_HOST_H

#include "base/memory.h"

typedef struct tsr_store tsr_store;

/* A tree of the host's (tessera.h), whose path begins with the scheme. */
int tsr__store_host_open(tsr_memory *memory, const tsr_host_store *host, void *argument, const char *path,
                         tsr_store **store, tsr_error *error);

#endif
