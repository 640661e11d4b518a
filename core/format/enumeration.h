/* enumeration.h: decodes and encodes enumerations, the labels of coded attributes. An enumeration is the content of the
 * generic tile in __schema/__enumerations/FILE (version 20 and later). */
#ifndef TSR_ENUMERATION_H
#define TSR_ENUMERATION_H

#include "base/input.h"
#include "base/memory.h"

/* Decodes the content of an enumeration's generic tile into `enumeration`, whose name and file are already set from the
 * schema. `arena` owns the labels. Returns TSR_CORRUPT if the stored name differs, two labels are equal, or offsets
 * decrease. On an error `enumeration` is unchanged. */
int tsr__enumeration_decode(tsr_input *in, tsr_arena *arena, tsr_enumeration *enumeration, tsr_error *error);

/* Fails with the code `wrong` if two labels are equal. The offsets of the labels must have been checked. */
int tsr__enumeration_unique(const tsr_enumeration *enumeration, tsr_memory *memory, int wrong, tsr_error *error);

/* Appends the content of the enumeration's generic tile. On an error `out` is unchanged. */
int tsr__enumeration_encode(const tsr_enumeration *enumeration, tsr_buffer *out, tsr_error *error);

#endif
