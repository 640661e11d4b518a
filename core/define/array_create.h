/* array_create.h: new arrays. */
#ifndef TSR_ARRAY_CREATE_H
#define TSR_ARRAY_CREATE_H

#include "store/store_bounds.h"

/* A schema as a caller filled it in (tessera.h), completed: all that may be left out is set. Memory from `arena`; the
 * rest is borrowed. */
int tsr__schema_complete(const tsr_schema *given, tsr_arena *arena, tsr_schema *schema, tsr_error *error);

/* TSR_EXISTS, and what is there where a new array was to be: an array that nobody has finished can be deleted. */
int tsr__creation_in_the_way(tsr_store *store, tsr_error *error);

#endif
