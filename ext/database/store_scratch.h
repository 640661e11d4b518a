/* store_scratch.h: trees of files outside of the transaction, for cells that memory has no room for. */
#ifndef TSX_STORE_SCRATCH_H
#define TSX_STORE_SCRATCH_H

#include "tessera.h"

/* The first two methods of tsx_scratch: the others are those of all trees. */
int tsx_scratch_open(void *connection, const char *path, void **tree, tsr_error *error);
void tsx_scratch_close(void *tree);

#endif
