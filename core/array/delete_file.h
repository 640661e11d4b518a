/* delete_file.h: reads a committed delete condition, from its .del file or from a consolidated commit file (.con). */
#ifndef TSR_DELETE_FILE_H
#define TSR_DELETE_FILE_H

#include "base/memory.h"

typedef struct tsr_committed tsr_committed;

/* Appends the content of a delete's generic tile to `content`, for tsr__condition_decode, and, unless `stored` is NULL,
 * the tile as it is stored to `stored`.
 *
 * A .con may have a copy of a .del file that was not complete yet: TileDB writes these files in place, and a
 * consolidation of commits may read one meanwhile. If the copy cannot be decoded, the function reads the .del file
 * instead. A .del file that TileDB may still be writing is read again for a short while (patience.h).
 * Errors: TSR_BUSY if the file was changed a moment ago; TSR_CORRUPT if neither can be decoded; TSR_AUTH. */
int tsr__delete_read(tsr_array *array, const tsr_committed *item, tsr_buffer *stored, tsr_buffer *content,
                     tsr_error *error);

#endif
