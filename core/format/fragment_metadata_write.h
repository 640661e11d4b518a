/* fragment_metadata_write.h: __fragment_metadata.tdb is written; its bytes stand in fragment_metadata.c and
 * fragment_slot.c. */
#ifndef TSR_FRAGMENT_METADATA_WRITE_H
#define TSR_FRAGMENT_METADATA_WRITE_H

#include "store/store_bounds.h"

typedef struct tsr_fragment_metadata tsr_fragment_metadata;
typedef struct tsr_statistics_writer tsr_statistics_writer;

/* Writes __fragment_metadata.tdb: R-tree, tile offsets and sizes, statistics, processed conditions, footer. `metadata`
 * has all of it as if it had been loaded, offsets and var_sizes NULL where a slot lacks the part; where each generic
 * tile stands is set here. `statistics` has one entry for each slot. */
int tsr__fragment_metadata_write(tsr_fragment_metadata *metadata, const tsr_statistics_writer *statistics,
                                 tsr_file *file, const uint8_t *key, tsr_error *error);

#endif
