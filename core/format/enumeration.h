/* enumeration.h: enumerations, the labels of coded attributes: the content of the generic tile in
 * __schema/__enumerations/FILE (version 20 and later). */
#ifndef TSR_ENUMERATION_H
#define TSR_ENUMERATION_H

#include "base/input.h"
#include "base/memory.h"

/* Fills `enumeration` (name and file are set) from the content of its generic tile; checks that labels are unique and
 * offsets rise. */
int tsr__enumeration_decode(tsr_input *in, tsr_arena *arena, tsr_enumeration *enumeration, tsr_error *error);

/* Fails with `wrong` where two labels are the same; their offsets must be right. */
int tsr__enumeration_unique(const tsr_enumeration *enumeration, tsr_memory *memory, int wrong, tsr_error *error);

/* Appends the content of its generic tile. */
int tsr__enumeration_encode(const tsr_enumeration *enumeration, tsr_buffer *out, tsr_error *error);

#endif
