/* fragment_metadata_write.h: writes __fragment_metadata.tdb. fragment_metadata.c and fragment_slot.c describe the
 * bytes. */
#ifndef TSR_FRAGMENT_METADATA_WRITE_H
#define TSR_FRAGMENT_METADATA_WRITE_H

#include "store/store.h"

typedef struct tsr_fragment_metadata tsr_fragment_metadata;
typedef struct tsr_statistics_writer tsr_statistics_writer;

/* Appends R-tree, tile offsets and sizes, statistics, processed conditions and footer to `file`, an empty file.
 * `metadata` holds all of these as if they had been loaded; `offsets` and `var_sizes` are NULL if a slot lacks the
 * part. The offsets of the generic tiles are set in `metadata`. `statistics`: one entry for each slot. `key`: NULL if
 * the array is not encrypted. */
int tsr__fragment_metadata_write(tsr_fragment_metadata *metadata, const tsr_statistics_writer *statistics,
                                 tsr_file *file, const uint8_t *key, tsr_error *error);

#endif
