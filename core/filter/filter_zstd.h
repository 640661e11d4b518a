/* filter_zstd.h: zstd frames, one for each part, in the compressors' frame. */
#ifndef TSR_FILTER_ZSTD_H
#define TSR_FILTER_ZSTD_H

#include "base/memory.h"

void tsr__context_pool_release(tsr_memory *root); /* of root->contexts */

#endif
