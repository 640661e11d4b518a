/* store_host.h: a store whose files the host keeps, such as the database of an SQLite connection. The host's callbacks
 * are those of tsr_host_store in tessera.h. */
#ifndef TSR_STORE_HOST_H
#define TSR_STORE_HOST_H

#include "base/memory.h"

typedef struct tsr_store tsr_store;

/* Opens the host's tree with the given path, which begins with the host's scheme. `host` is borrowed, `argument` is
 * passed to its callbacks. The store's root is the directory `below` of the tree, which is borrowed; NULL: the tree's
 * root. The caller closes *store with tsr__store_close. */
int tsr__store_host_open(tsr_memory *memory, const tsr_host_store *host, void *argument, const char *path,
                         const char *below, tsr_store **store, tsr_error *error);

#endif
