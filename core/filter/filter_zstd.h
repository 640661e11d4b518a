/* filter_zstd.h: zstd frames, one for each part, in the compressors' frame. */
#ifndef TSR_FILTER_ZSTD_H
#define TSR_FILTER_ZSTD_H

#include "base/memory.h"

void tsr__spares_release(tsr_memory *root); /* of root->spares */

#endif
