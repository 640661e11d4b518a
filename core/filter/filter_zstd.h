/* filter_zstd.h: the idle zstd contexts of an environment. */
#ifndef TSR_FILTER_ZSTD_H
#define TSR_FILTER_ZSTD_H

#include "base/memory.h"

/* Frees all idle contexts in root->contexts. No thread may use the pool at this time. */
void tsr__context_pool_release(tsr_memory *root);

#endif
