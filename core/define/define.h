/* define.h: creates arrays. The public functions are tsr_array_create and tsr_creation_* (tessera.h); this header
 * has what the other files of this folder share with them. */
#ifndef TSR_DEFINE_DEFINE_H
#define TSR_DEFINE_DEFINE_H

#include "store/store.h"
#include "base/memory.h"
#include "format/metadata.h"

/* Copies a schema that a caller filled in (tessera.h, "Writing") into `schema` and sets the members that the caller may
 * leave out: is_dimension, cell_size, fill values, chunk sizes of pipelines, version, and the capacity of dense arrays.
 * The lists of fields and enumerations and the fill values come from `arena`; names, filters and labels stay borrowed
 * from `given`. The rules of the schema are not checked here. */
int tsr__schema_complete(const tsr_schema *given, tsr_arena *arena, tsr_schema *schema, tsr_error *error);

/* Fails with TSR_EXISTS. The message describes the object in the root of `store`, where a new array was to be made: an
 * array, a group, a creation or copy that was not finished, or something else. */
int tsr__creation_in_the_way(tsr_store *store, tsr_error *error);

/* Publishes a changed schema, but only if the schema that it was made from is still the newest. So
 * two processes that change a schema at the same time do not hide each other's change (evolve.c). */

/* Publishes an encoded schema that was made from the schema named `base`. Returns 1, and then `name` holds the name of
 * the new schema; 0 if another process has published a schema after `base` or is about to: nothing was published, and
 * the caller starts again from the newest schema. The file is durable when the function returns. `version` is the
 * format version of the file. TSR_UNSUPPORTED if `base` is a name without a time. */
int tsr__schema_publish(tsr_array *array, const char *base, uint32_t version, const tsr_buffer *content, char name[128],
                        tsr_error *error);

/* Changes the metadata of arrays and groups. Each change is one new file in __meta with one key; of
 * several files with the same key the newest counts. */

/* Creates and changes groups. The public functions are tsr_group_create, _add and _remove (tessera.h);
 * metadata.c uses the function below. */

#endif
