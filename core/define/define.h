/* define.h: creates, evolves, copies and drops arrays; changes metadata and groups. The public functions are in
 * tessera.h (tsr_array_create, tsr_creation_*, tsr_array_add_attribute and others, tsr_group_*); this header has what
 * the files of this folder share: create.c (arrays from schemas), claim.c and evolve.c (publishing a changed schema);
 * and what maintain/sync.c shares with copy.c. drop.c and metadata.c have only public functions. */
#ifndef TSR_DEFINE_DEFINE_H
#define TSR_DEFINE_DEFINE_H

#include "store/store.h"
#include "base/memory.h"
#include "format/metadata.h"

/* ---- create.c ---------------------------------------------------------------------------------------------------- */

/* Copies a schema that a caller filled in (tessera.h, "Writing") into `schema` and sets the members that the caller may
 * omit: is_dimension, cell_size, fill values, chunk sizes of pipelines, version, and the capacity of dense arrays. The
 * lists of fields and enumerations and the fill values are allocated from `arena`; names, filters and labels stay
 * borrowed from `given`. Does not check the rules for schemas (tsr__schema_check). */
int tsr__schema_complete(const tsr_schema *given, tsr_arena *arena, tsr_schema *schema, tsr_error *error);

/* Fails with TSR_EXISTS. The message describes what is in the way of a new array in the root of `store`: an array, a
 * group, an unfinished creation or copy, or something else. */
int tsr__creation_in_the_way(tsr_store *store, tsr_error *error);

/* ---- claim.c ----------------------------------------------------------------------------------------------------- */

typedef struct tsr_claim { /* of a place that a first sync fills; all members zero: none, which every call accepts */
  tsr_store *from, *to; /* borrowed */
  const char *record; /* borrowed: the name of the sync's record, which tells the source */
  uint64_t generation; /* 0: not held */
  uint64_t renewed; /* tsr__moment() */
  tsr_file *lock; /* NULL: the store has no locks */
  bool lost; /* another sync has it */
} tsr_claim;

/* Makes the root of `to`, or takes it over: if it is empty, or has what a dead sync of the same array has left there,
 * which is then removed. TSR_BUSY if that sync may live; TSR_ABORT if another one was quicker; TSR_EXISTS if anything
 * else is there. */
int tsr__claim_take(tsr_claim *claim, tsr_error *error);

/* Call it at least every few seconds, and with `now` before an array appears: TSR_ABORT if the claim was lost. */
int tsr__claim_keep(tsr_claim *claim, bool now, tsr_error *error);

/* Gives the claim up: there is an array. */
void tsr__claim_end(tsr_claim *claim);

/* Gives the claim up after its holder has removed what it had made: also removes what a sync that counted as dead has
 * made since. If that fails, the claim stays, so that the next sync takes the place over. */
void tsr__claim_abandon(tsr_claim *claim);

/* Removes the claims of a sync that died after its copy had become an array. */
int tsr__claim_forget(tsr_store *store, const char *record, tsr_error *error);

/* ---- copy.c ------------------------------------------------------------------------------------------------------ */

#define TSR_COPY_BLOCK   (UINT64_C(1) << 20) /* bytes read at once */
#define TSR_RECORD_BEGIN ".new" /* ends the name of the record of a sync that has begun (sync.c) */

/* Copies a file of one store to a new file of another. `claim`: is kept meanwhile, or NULL. `block` has room for
 * TSR_COPY_BLOCK bytes. *made (may be NULL):
 * set once the new file exists, also if the copy fails. *bytes: its size. */
int tsr__file_copy(tsr_environment *environment, tsr_store *from, const char *path, tsr_store *to, const char *target,
                   tsr_claim *claim, bool durable, uint8_t *block, bool *made, uint64_t *bytes, tsr_error *error);

/* tsr_array_copy_files, which also counts the bytes. `frame`: only directories, schemas and enumerations, no commits.
 * `record`: it claims its place, and it writes a file RECORD.new into the array and those of its labels before the copy
 * becomes an array, with the names of commits and metadata that it has, one a line (sync.c); NULL: neither. Reports its
 * progress to the innermost operation. */
int tsr__array_copy(tsr_environment *environment, const char *from, const char *to, bool unsynced, bool frame,
                    const char *record, uint64_t *files, uint64_t *bytes, tsr_error *error);

/* ---- evolve.c ---------------------------------------------------------------------------------------------------- */

/* Compare-and-swap: publishes an encoded schema only if `base`, the schema that it was made from, is still the newest,
 * so that processes that change a schema at the same time do not hide each other's changes. Returns 1, with the name of
 * the new schema in `name`; 0 if another process has published a schema after `base` or is about to: then nothing was
 * published, and the caller starts again from the newest schema. The file is durable when the function returns.
 * `version` is the format version of the file. TSR_UNSUPPORTED if `base` is a name without a time. */
int tsr__schema_publish(tsr_array *array, const char *base, uint32_t version, const tsr_buffer *content, char name[128],
                        tsr_error *error);

/* Calls `test` with the schema that the array would have with one more attribute. Writes nothing. */
int tsr__attribute_try(tsr_array *array, const tsr_field *attribute, const tsr_enumeration *enumeration,
                       int (*test)(void *argument, const tsr_schema *schema, tsr_error *error), void *argument,
                       tsr_error *error);

#endif
