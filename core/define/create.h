/* create.h: creates arrays. The public functions are tsr_array_create and tsr_creation_* (tessera.h); this header
 * has what the other files of this folder share with them. */
#ifndef TSR_ARRAY_CREATE_H
#define TSR_ARRAY_CREATE_H

#include "store/store.h"

/* Copies a schema that a caller filled in (tessera.h, "Writing") into `schema` and sets the members that the caller may
 * leave out: is_dimension, cell_size, fill values, chunk sizes of pipelines, version, and the capacity of dense arrays.
 * The lists of fields and enumerations and the fill values come from `arena`; names, filters and labels stay borrowed
 * from `given`. The rules of the schema are not checked here. */
int tsr__schema_complete(const tsr_schema *given, tsr_arena *arena, tsr_schema *schema, tsr_error *error);

/* Fails with TSR_EXISTS. The message describes the object in the root of `store`, where a new array was to be made: an
 * array, a group, a creation or copy that was not finished, or something else. */
int tsr__creation_in_the_way(tsr_store *store, tsr_error *error);

#endif
