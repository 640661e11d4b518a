/* evolve.c: changes the schema of an array: adds and drops attributes, extends enumerations, expands the current
 * domain.
 *
 * A change writes a new schema file into __schema; later writes use that schema. Existing fragments keep the schema
 * that they were written with, and an attribute that a fragment lacks reads as its fill value. The new schema has the
 * array's format version, 12 to 22. An extended enumeration gets a new file with all labels; its name in the schema
 * stays.
 *
 * Concurrent changes. Two processes may start from the same schema, and the newer of their two files would hide the
 * other's change. Between processes of this library, a claim to the base schema makes publication a compare-and-swap
 * (next section): one process succeeds, the others start again from its schema. TileDB takes no claims. So after
 * writing, each change lists the schemas again; if another process has written one from the same base, the change is
 * applied again on top of that one. Schema files are never removed, because fragments may already use them.
 *
 *   list schemas --> apply the change to the newest foreign one --> publish --> list again --> nothing new: done
 *        ^                                                             |             |
 *        '-------------------------------------------------------------+-------------'
 *                                                        another process was first   a new foreign schema
 *
 * Sections: publishing a schema; a schema without some attributes; changing the schema; attributes; enumerations; the
 * current domain.
 */
#include "define/define.h"

#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "format/constraint.h"
#include "format/duration.h"
#include "format/layout.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"
#include "format/schema.h"
#include "model/datatype.h"
#include "filter/filter.h"
#include "filter/pipeline.h"
#include "format/enumeration.h"

/* ---- Publishing a schema ----------------------------------------------------------------------------------------- */

/* Publishes a changed schema only if the schema that it was made from, BASE, is still the newest.
 *
 *   .STAGED          the new schema; STAGED is 32 random hex digits
 *   .BASE            the claim; BASE is the UUID in the name of the schema that the new one was made from.
 *                    A text of two lines: ".STAGED\n" and "NAME\n"
 *   __schema/NAME    the new schema's final path; .STAGED is renamed to it
 *
 * .STAGED and .BASE are files in the array's root. Readers, and TileDB, ignore names that begin with a dot.
 *
 * Invariants: a claim is created exclusively and appears with its whole content; it is removed only after __schema/NAME
 * exists or can no longer appear; while it exists, no other process of this library publishes a successor of BASE. So a
 * process may publish if it has created the claim and has seen afterwards that BASE is still the newest schema.
 *
 * A process that finds another one's claim to the newest schema publishes on its behalf, since the other process may
 * have died. Both may try to rename the same .STAGED, but it has a random name, so only one rename succeeds. A claim to
 * a schema that is no longer the newest means nothing.
 */

#define CLAIM_MAX 1024 /* bytes of a claim's file */
#define UUID_SIZE 32 /* hex digits */

/* Lists the schemas again. Returns 1 if `base` is the newest, else 0. */
static int is_newest(tsr_array *array, const char *base, tsr_error *error) {
  TSR_TRY(tsr__log_list(&array->log, false, true, error));
  const tsr_commit_list *list = &array->log.listing->schemas;
  return list->count > 0 && strcmp(list->items[list->count - 1].name, base) == 0;
}

static tsr_path path_of(const char *name) { return tsr__path_of(TSR_DIR_SCHEMA, name, ""); }

static int schema_exists(tsr_store *store, const char *name, tsr_error *error) {
  bool exists;
  TSR_TRY(tsr__store_find(store, path_of(name).text, &exists, error));
  return exists;
}

/* Renames the staged file to its final path. Returns 1, even if another process has done so; 0 if the staged file is
 * gone and the schema does not exist. */
static int rename_staged(tsr_store *store, const char *staged, const char *name, tsr_error *error) {
  tsr_error one = {0};
  int rc = tsr__store_rename_exclusive(store, staged, path_of(name).text, &one);
  if (rc == TSR_NOT_FOUND || rc == TSR_EXISTS) return schema_exists(store, name, error);
  if (rc >= 0) rc = tsr__store_sync_directory(store, TSR_DIR_SCHEMA, &one);
  if (rc < 0 && error) *error = one;
  return rc < 0 ? rc : 1;
}

/* Returns false if the text is not a valid claim. Anybody who can write to the array can write a claim, and its names
 * become parts of paths, so only names without a directory are accepted. */
static bool parse_claim(char *text, char **staged, char **name) {
  tsr_name parsed;
  char *end = strchr(text, '\n'), *last = end ? strchr(end + 1, '\n') : NULL;
  if (!last || last[1]) return false;
  *end = *last = 0;
  *staged = text;
  *name = end + 1;
  return text[0] == '.' && strspn(text + 1, "0123456789abcdef") == UUID_SIZE && !text[1 + UUID_SIZE] &&
         !strchr(*name, '/') && tsr__name_parse(*name, strlen(*name), &parsed);
}

/* Publishes the schema of another process's claim to `base`, if that is still the newest schema, and removes the claim.
 * Returns 0 or an error; it is no error if the claim is gone by now. */
static int finish_claim(tsr_array *array, const char *base, const char *claim, tsr_error *error) {
  tsr_error one = {0};
  tsr_buffer text = {.memory = &array->memory};
  char *staged, *name;
  int rc = tsr__store_read_all(array->store, claim, CLAIM_MAX, &text, &one);
  if (rc >= 0) rc = tsr__buffer_append_u8(&text, 0, &one);
  if (rc >= 0 && (rc = is_newest(array, base, &one)) > 0) {
    if (parse_claim((char *)text.data, &staged, &name)) rc = rename_staged(array->store, staged, name, &one);
    if (rc >= 0) rc = tsr__store_remove(array->store, claim, &one);
  }
  tsr__buffer_release(&text);
  if (rc < 0 && rc != TSR_NOT_FOUND && error) *error = one;
  return rc < 0 && rc != TSR_NOT_FOUND ? rc : 0;
}

static int claim_base(tsr_array *array, const char *claim, const char *staged, const char *name, tsr_error *error) {
  tsr_buffer text = {.memory = &array->memory};
  int rc = tsr__buffer_printf(&text, error, "%s\n%s\n", staged, name);
  if (rc >= 0) rc = tsr__write_claim(array->store, claim, &text, error);
  tsr__buffer_release(&text);
  return rc;
}

/* A schema of an earlier time than `base` would be in force only until the clock has reached that of `base`. */
static int fail_ahead(uint64_t time, tsr_error *error) {
  char text[64];
  if (time > INT64_MAX || !tsr_datetime_print(TSR_DATETIME_MS, (int64_t)time, text))
    snprintf(text, sizeof text, "%llu ms", (unsigned long long)time);
  return tsr__fail(error, TSR_ERROR,
                   "its newest schema is of %s (UTC), ahead of this machine's clock, and would undo the change then: "
                   "set the clock, or wait",
                   text);
}

int tsr__schema_publish(tsr_array *array, const char *base, uint32_t version, const tsr_buffer *content, char name[128],
                        tsr_error *error) {
  uint8_t random[16];
  uint64_t time;
  tsr_name old, parts;
  char staged[TSR_STAGED_SIZE], claim[sizeof old.uuid + 1];
  tsr_error one = {0};
  if (!tsr__name_parse(base, strlen(base), &old))
    return tsr__fail(error, TSR_UNSUPPORTED, "the schema %s has no time", base);
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__environment_time(array->environment, old.end, 0, &time, error));
  if (time <= old.end) return fail_ahead(old.end, error);
  TSR_TRY(tsr__name_new(time, time, 0, &parts, random));
  tsr__name_print(&parts, name);
  snprintf(claim, sizeof claim, ".%s", old.uuid);
  TSR_TRY(tsr__write_staged(array->store, tsr__array_key(array), version, content, staged, error));
  int rc = claim_base(array, claim, staged, name, &one);
  const bool claimed = rc >= 0;
  /* If `base` is no longer the newest, another process may have finished this claim. */
  if (claimed && (rc = is_newest(array, base, &one)) == 0) rc = schema_exists(array->store, name, &one);
  else if (rc > 0) rc = rename_staged(array->store, staged, name, &one);
  if (rc <= 0) (void)tsr__store_remove(array->store, staged, NULL);
  if (claimed) (void)tsr__store_remove(array->store, claim, NULL);
  if (rc == TSR_EXISTS && !claimed) return finish_claim(array, base, claim, error);
  if (rc < 0 && error) *error = one;
  return rc;
}

/* ---- A schema without some attributes ---------------------------------------------------------------------------- */

/* For cells that never had some attributes of the newest schema, tsr_array_schema_without writes a schema without them.
 *
 * Its file is in __schema beside the newest one's, with the same time and a smaller UUID in its name. Schemas are
 * ordered by name, so it sorts before the newest one, is never in force, and later writes use the newest schema as
 * before.
 */

#define EVOLVE_WITHOUT_ATTEMPTS 1000 /* names to try, if they are taken */
#define PLACEHOLDER             "without_attributes" /* the only attribute of a dense array that would have none */

/* Replaces a UUID by the next smaller string of hex digits. Returns false if there is none, or if a digit before a dash
 * would have to be lowered. */
static bool lower_uuid(char *uuid) {
  for (size_t i = strlen(uuid); i-- > 0;) {
    if (uuid[i] == '0') continue;
    if (uuid[i] == 'a' || uuid[i] == 'A') uuid[i] = '9';
    else if (uuid[i] == '-') return false;
    else uuid[i]--;
    memset(uuid + i + 1, 'f', strlen(uuid + i + 1));
    return true;
  }
  return false;
}

static bool uses_enumeration(const tsr_schema *schema, const char *enumeration) {
  for (uint32_t i = 0; i < schema->attribute_count; i++) {
    const char *used = schema->fields[schema->dimension_count + i].enumeration;
    if (used && strcmp(used, enumeration) == 0) return true;
  }
  return false;
}

/* Adds one attribute of one byte to a dense schema without attributes, under a name that no field of `from` has. */
static int add_placeholder(const tsr_schema *from, tsr_schema *schema, tsr_arena *arena, tsr_error *error) {
  const size_t first = strlen(PLACEHOLDER), room = first + from->attribute_count + from->dimension_count + 1;
  char *name;
  TSR_TRY(TSR_ARENA_RAW(arena, room, &name, error));
  memset(name, '_', room);
  memcpy(name, PLACEHOLDER, first);
  for (size_t size = first; size < room; size++) { /* append underscores until no field has the name */
    bool taken = false;
    char kept = name[size];
    name[size] = 0;
    for (uint32_t i = 0; i < from->dimension_count + from->attribute_count; i++)
      taken |= strcmp(from->fields[i].name, name) == 0;
    if (!taken) break;
    name[size] = kept;
  }
  schema->fields[schema->dimension_count + schema->attribute_count++] =
      (tsr_field){.name = name, .datatype = TSR_UINT8, .values_per_cell = 1, .filters = {.max_chunk_size = 65536}};
  tsr_schema complete;
  TSR_TRY(tsr__schema_complete(schema, arena, &complete, error));
  *schema = complete;
  return TSR_OK;
}

static int make_schema_without(tsr_array *array, const tsr_schema *from, const bool *lacking, tsr_schema *schema,
                               tsr_arena *arena, tsr_error *error) {
  const uint64_t fields = (uint64_t)from->dimension_count + from->attribute_count;
  *schema = *from;
  TSR_TRY(TSR_ARENA_ARRAY(arena, fields + 1, &schema->fields, error));
  schema->attribute_count = schema->enumeration_count = 0;
  memcpy(schema->fields, from->fields, from->dimension_count * sizeof(tsr_field));
  for (uint64_t f = from->dimension_count; f < fields; f++)
    if (!lacking[f]) schema->fields[schema->dimension_count + schema->attribute_count++] = from->fields[f];
  TSR_TRY(TSR_ARENA_ARRAY(arena, (uint64_t)from->enumeration_count + 1, &schema->enumerations, error));
  for (uint32_t i = 0; i < from->enumeration_count; i++) {
    const tsr_enumeration *loaded;
    if (!uses_enumeration(schema, from->enumerations[i].name)) continue;
    TSR_TRY(tsr_array_enumeration(array, from, from->enumerations[i].name, &loaded, error));
    schema->enumerations[schema->enumeration_count++] = *loaded;
  }
  if (schema->dense && !schema->attribute_count) return add_placeholder(from, schema, arena, error);
  return TSR_OK;
}

/* Writes `schema` under a name that sorts before `newest`, and gives that `name`. */
static int write_before(tsr_array *array, const char *newest, const tsr_schema *schema, char name[128],
                        tsr_error *error) {
  tsr_name parts;
  char directory[TSR_CREATION_PATH];
  tsr_buffer content = {.memory = &array->memory};
  tsr_error one = {0};
  if (!tsr__name_parse(newest, strlen(newest), &parts))
    return tsr__fail(error, TSR_UNSUPPORTED,
                     "in format version %u an array has one schema: cells that never had an attribute need 12",
                     schema->version);
  TSR_TRY(tsr__array_schema_directory(array, directory, error));
  int rc = tsr__schema_encode(schema, &content, &one);
  bool taken = rc >= 0;
  for (int i = 0; taken && i < EVOLVE_WITHOUT_ATTEMPTS; i++) {
    if (!lower_uuid(parts.uuid)) break;
    tsr__name_print(&parts, name);
    rc = tsr__write_named(array->store, directory, name, tsr__array_key(array), schema->version, &content, &one);
    taken = rc == TSR_EXISTS;
  }
  tsr__buffer_release(&content);
  if (taken) return tsr__fail(error, TSR_UNSUPPORTED, "no name is left for a schema before %s", newest);
  if (rc < 0) *error = one;
  return rc;
}

int tsr_array_schema_without(tsr_array *array, const bool *lacking, const tsr_schema **schema, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_arena arena;
  tsr_schema made;
  const tsr_schema *newest;
  char name[128];
  tsr__arena_init(&arena, &array->memory);
  int rc = tsr__log_list(&array->log, false, true, error);
  if (rc >= 0) rc = tsr__array_schema_at(array, UINT64_MAX, &newest, error);
  if (rc >= 0) rc = make_schema_without(array, newest, lacking, &made, &arena, error);
  if (rc >= 0) rc = tsr__schema_check(&made, &array->memory, error);
  if (rc >= 0) rc = write_before(array, newest->name, &made, name, error);
  if (rc >= 0) rc = tsr__array_schema_by_name(array, name, schema, error);
  tsr__arena_release(&arena);
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}

/* ---- Changing the schema ----------------------------------------------------------------------------------------- */

#define EVOLVE_VERSION_MIN 12 /* format version: older arrays have one schema file */
#define EVOLVE_ATTEMPTS    32 /* before TSR_BUSY, while other processes change the schema, too */

typedef struct evolution {
  tsr_array *array;
  const tsr_schema *old; /* the newest foreign schema, not written by this evolution: the change is made to a copy */
  bool hidden; /* `old` is not in force: a schema that this evolution has written is newer */
  char newest[128]; /* name of the newest schema, whoever wrote it */
  tsr_arena arena; /* of one attempt */
  tsr_schema schema; /* the schema to write */
  tsr_enumeration *fresh; /* an enumeration of `schema` whose file must be written, or NULL */
  uint32_t written; /* schemas written by earlier attempts */
  char names[EVOLVE_ATTEMPTS][128]; /* their names */
} evolution;

typedef struct evolve_change {
  int (*make)(evolution *v, const struct evolve_change *change, tsr_error *error); /* changes v->schema */
  bool (*is_made)(const tsr_schema *schema, const struct evolve_change *change); /* true if it already has the change */
  /* Arguments of the change, borrowed; each kind of change uses some of them. */
  const tsr_field *attribute;
  const char *name; /* of an attribute */
  const tsr_enumeration *enumeration;
  const tsr_interval *domain; /* one interval per dimension */
} evolve_change;

static bool evolve_is_own(const evolution *v, const char *name) {
  for (uint32_t i = 0; i < v->written; i++)
    if (strcmp(v->names[i], name) == 0) return true;
  return false;
}

/* Sets v->old, v->hidden and v->newest from the array's listing. */
static int find_old(evolution *v, tsr_error *error) {
  const tsr_commit_list *list = &v->array->log.listing->schemas;
  uint64_t i = list->count - 1;
  while (i > 0 && evolve_is_own(v, list->items[i].name)) i--;
  v->hidden = i + 1 < list->count;
  snprintf(v->newest, sizeof v->newest, "%s", list->items[list->count - 1].name);
  return tsr__array_schema_by_name(v->array, list->items[i].name, &v->old, error);
}

static int evolve_begin(evolution *v, tsr_error *error) {
  uint32_t version;
  tsr_name newest;
  tsr_array *array = v->array;
  TSR_TRY(tsr__log_list(&array->log, false, true, error));
  TSR_TRY(tsr__array_committed(array, error));
  TSR_TRY(find_old(v, error));
  if (!v->written && tsr__name_parse(v->newest, strlen(v->newest), &newest) &&
      newest.end >= tsr__environment_now() + TSR_TIME_AHEAD)
    return fail_ahead(newest.end, error);
  TSR_TRY(tsr__schema_write_version(v->old, &version, error));
  if (v->old->version < EVOLVE_VERSION_MIN)
    return tsr__fail(error, TSR_UNSUPPORTED, "a schema of format version %u cannot be changed: that needs %d",
                     v->old->version, EVOLVE_VERSION_MIN);
  for (uint32_t i = 0; i < v->old->enumeration_count; i++) {
    const tsr_enumeration *loaded;
    TSR_TRY(tsr_array_enumeration(array, v->old, v->old->enumerations[i].name, &loaded, error));
  }
  v->schema = *v->old;
  v->fresh = NULL;
  uint64_t fields = (uint64_t)v->old->dimension_count + v->old->attribute_count;
  /* room for one more field and enumeration, since a change may add one of each */
  TSR_TRY(TSR_ARENA_ARRAY(&v->arena, fields + 1, &v->schema.fields, error));
  memcpy(v->schema.fields, v->old->fields, fields * sizeof(tsr_field));
  TSR_TRY(TSR_ARENA_ARRAY(&v->arena, (uint64_t)v->old->enumeration_count + 1, &v->schema.enumerations, error));
  if (v->old->enumeration_count)
    memcpy(v->schema.enumerations, v->old->enumerations, v->old->enumeration_count * sizeof(tsr_enumeration));
  return TSR_OK;
}

/* Writes the labels of an enumeration to a new file, __schema/__enumerations/__UUID_0. */
static int write_enumeration(evolution *v, tsr_enumeration *e, tsr_error *error) {
  uint8_t random[16];
  tsr_name parts;
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(0, 0, 0, &parts, random));
  TSR_TRY(TSR_ARENA_RAW(&v->arena, 64, &e->file, error));
  snprintf(e->file, 64, "__%s_0", parts.uuid);
  tsr_buffer content = {.memory = &v->array->memory};
  int rc = tsr__enumeration_encode(e, &content, error);
  if (rc >= 0)
    rc = tsr__write_named(v->array->store, TSR_DIR_SCHEMA "/" TSR_DIR_ENUMERATIONS, e->file, tsr__array_key(v->array),
                          v->schema.version, &content, error);
  tsr__buffer_release(&content);
  return rc < 0 ? tsr__wrap(error, "enumeration '%s'", e->name) : TSR_OK;
}

/* Writes v->schema. Returns 1; 0 if another process has published a schema since v->newest was read. A failure may
 * leave a file of the enumeration behind; no schema names it, so no reader opens it. */
static int write_schema(evolution *v, tsr_error *error) {
  TSR_TRY(tsr__schema_check(&v->schema, &v->array->memory, error));
  if (v->fresh) TSR_TRY(write_enumeration(v, v->fresh, error));
  tsr_buffer content = {.memory = &v->array->memory};
  int rc = tsr__schema_encode(&v->schema, &content, error);
  if (rc >= 0) rc = tsr__schema_publish(v->array, v->newest, v->schema.version, &content, v->names[v->written], error);
  v->written += rc > 0;
  if (rc == 0 && v->fresh)
    (void)tsr__store_remove(v->array->store,
                            tsr__path_of(TSR_DIR_SCHEMA "/" TSR_DIR_ENUMERATIONS, v->fresh->file, "").text, NULL);
  tsr__buffer_release(&content);
  return rc;
}

/* Writes v->schema and, if that succeeds, sets `base` to the name of the schema that it was made from. Returns 0, since
 * the next attempt decides whether the change is in force, or an error. */
static int write_and_note_base(evolution *v, char base[128], tsr_error *error) {
  const int rc = write_schema(v, error);
  if (rc > 0) snprintf(base, 128, "%s", v->old->name);
  return rc < 0 ? rc : 0;
}

/* One attempt at the change, or the check of the last one. `base` is the name of the schema that the last written one
 * was made from. Returns 1 if the change is in force, and no other process has written a schema since `base`; 0: call
 * this function again. */
static int evolve_attempt(evolution *v, const evolve_change *change, char base[128], tsr_error *error) {
  tsr_error unseen;
  TSR_TRY(evolve_begin(v, error));
  if (v->written && strcmp(base, v->old->name) == 0) return 1;
  if (!v->written || !change->is_made(v->old, change)) {
    const int rc = change->make(v, change, error);
    if (rc >= 0) return write_and_note_base(v, base, error);
    if (!v->hidden) return rc;
    /* The change conflicts with the other process's schema, which is hidden by one of ours. Give up the change, and
     * write the other schema again, unchanged, so that it is in force. */
    v->schema = *v->old;
    v->fresh = NULL;
    (void)write_schema(v, &unseen);
    return rc;
  }
  /* The other process's schema has the change, too. It only has to become the newest. */
  return v->hidden ? write_and_note_base(v, base, error) : 1;
}

static int evolve(tsr_array *array, const evolve_change *change, tsr_error *error) {
  evolution v = {.array = array};
  char base[128] = "";
  int rc = 0;
  for (int i = 0; rc == 0 && i < EVOLVE_ATTEMPTS; i++) {
    tsr__arena_init(&v.arena, &array->memory);
    rc = evolve_attempt(&v, change, base, error);
    tsr__arena_release(&v.arena);
  }
  if (rc == 0) rc = tsr__fail(error, TSR_BUSY, "other processes keep changing its schema");
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}

/* ---- Attributes -------------------------------------------------------------------------------------------------- */

static tsr_field *attribute_of(const tsr_schema *schema, const char *name) {
  for (uint32_t i = 0; i < schema->attribute_count; i++)
    if (!strcmp(schema->fields[schema->dimension_count + i].name, name))
      return &schema->fields[schema->dimension_count + i];
  return NULL;
}

static int evolve_same_filters(const evolution *v, const tsr_field *a, const tsr_field *b, bool *same,
                               tsr_error *error) {
  tsr_buffer one = {.memory = &v->array->memory}, other = {.memory = &v->array->memory};
  int rc = tsr__pipeline_write(&a->filters, v->schema.version, &one, error);
  if (rc >= 0) rc = tsr__pipeline_write(&b->filters, v->schema.version, &other, error);
  *same = one.size == other.size && (one.size == 0 || memcmp(one.data, other.data, one.size) == 0);
  tsr__buffer_release(&one);
  tsr__buffer_release(&other);
  return rc;
}

#define STAYS                                                                                                          \
  "what was written under that name stays in the array, and TileDB would read it as the new attribute's. Give the "    \
  "attribute another name, or copy the array (tessera_copy) and add it to the copy"

static int fail_other_kind(const tsr_field *had, tsr_error *error) {
  char count[32] = "";
  if (had->values_per_cell == TSR_VARIABLE) snprintf(count, sizeof count, "[]");
  else if (had->values_per_cell != 1) snprintf(count, sizeof count, "[%u]", had->values_per_cell);
  return tsr__fail(error, TSR_CONSTRAINT, "an attribute '%s' was here before, as %s%s%s: " STAYS, had->name,
                   tsr_datatype_name(had->datatype), count, had->nullable ? "" : " NOT NULL");
}

static int fail_other_filters(const tsr_field *had, tsr_error *error) {
  char names[128] = "";
  for (uint32_t i = 0; i < had->filters.count; i++) {
    const size_t size = strlen(names);
    snprintf(names + size, sizeof names - size, "%s%s", i ? ", " : "", tsr__filter_name(had->filters.filters[i].type));
  }
  return tsr__fail(error, TSR_CONSTRAINT, "an attribute '%s' was here before, with other filters (%s): " STAYS,
                   had->name, *names ? names : "none");
}

/* Checks an added attribute whose name an earlier schema used. Fragments keep the values that they have under this
 * name, and TileDB decodes them with the filters and the datatype of the newest schema. So an attribute may come back
 * only with the same filters and the same type. `added` is complete (tsr__schema_complete). */
static int check_history(const evolution *v, const tsr_field *added, tsr_error *error) {
  const tsr_commit_list *list = &v->array->log.listing->schemas;
  for (uint64_t i = 0; i < list->count; i++) {
    const tsr_schema *schema;
    bool same;
    TSR_TRY(tsr__array_schema_by_name(v->array, list->items[i].name, &schema, error));
    const tsr_field *had = attribute_of(schema, added->name);
    if (!had) continue;
    if (had->datatype != added->datatype || had->values_per_cell != added->values_per_cell ||
        had->nullable != added->nullable)
      return fail_other_kind(had, error);
    TSR_TRY(evolve_same_filters(v, had, added, &same, error));
    if (!same) return fail_other_filters(had, error);
  }
  return TSR_OK;
}

static int add_attribute(evolution *v, const evolve_change *change, tsr_error *error) {
  tsr_schema complete;
  const bool is_there = attribute_of(&v->schema, change->attribute->name) != NULL; /* tsr__schema_check reports it */
  v->schema.fields[v->schema.dimension_count + v->schema.attribute_count++] = *change->attribute;
  if (change->enumeration) v->schema.enumerations[v->schema.enumeration_count++] = *change->enumeration;
  TSR_TRY(tsr__schema_complete(&v->schema, &v->arena, &complete, error));
  if (change->enumeration) v->fresh = &complete.enumerations[complete.enumeration_count - 1];
  v->schema = complete;
  if (!is_there) TSR_TRY(check_history(v, attribute_of(&v->schema, change->attribute->name), error));
  return tsr__schema_check(&v->schema, &v->array->memory, error);
}

static bool has_attribute(const tsr_schema *schema, const evolve_change *change) {
  const tsr_field *a = attribute_of(schema, change->attribute->name), *b = change->attribute;
  return a && a->datatype == b->datatype && a->values_per_cell == b->values_per_cell && a->nullable == b->nullable &&
         !a->enumeration == !b->enumeration && (!a->enumeration || strcmp(a->enumeration, b->enumeration) == 0);
}

/* Notes in the metadata that an attribute is a duration, or no longer. */
static int mark_duration(tsr_array *array, const char *name, bool duration, tsr_error *error) {
  static const uint8_t yes = 1;
  tsr_buffer key = {.memory = &array->memory};
  int rc = tsr__buffer_printf(&key, error, TSR_KEY_DURATION "%s%c", name, 0);
  const tsr_metadatum entry = {.key = (const char *)key.data,
                               .key_size = rc < 0 ? 0 : strlen((const char *)key.data),
                               .datatype = TSR_UINT8,
                               .count = 1,
                               .value = &yes,
                               .value_size = sizeof yes};
  if (rc >= 0 && duration) rc = tsr_array_set_metadata(array, &entry, error);
  else if (rc >= 0) rc = tsr_array_delete_metadata(array, entry.key, entry.key_size, error);
  tsr__buffer_release(&key);
  return rc;
}

/* Notes whether a new attribute of a TIME datatype is a duration. One that had its name may have been: dropping it left
 * the note, since earlier states of the array still have it. */
static int note_duration(tsr_array *array, const tsr_field *attribute, bool *changed, tsr_error *error) {
  const tsr_schema *schema;
  tsr_metadata *all;
  tsr_field before = *attribute;
  tsr_schema alone = {.attribute_count = 1, .fields = &before};
  TSR_TRY(tsr_array_schema(array, TSR_TIME_NOW, &schema, error));
  if (attribute_of(schema, attribute->name)) return TSR_OK;
  TSR_TRY(tsr_array_metadata(array, TSR_TIME_BEGIN, TSR_TIME_NOW, &all, error));
  before.duration = false;
  tsr__durations_mark(&alone, all);
  tsr_metadata_close(all);
  if (before.duration == attribute->duration) return TSR_OK;
  *changed = true;
  return mark_duration(array, attribute->name, attribute->duration, error);
}

int tsr_array_add_attribute(tsr_array *array, const tsr_field *attribute, const tsr_enumeration *enumeration,
                            tsr_error *error) {
  TSR_OWN_ERROR(error);
  const evolve_change change = {
      .make = add_attribute, .is_made = has_attribute, .attribute = attribute, .enumeration = enumeration};
  tsr_error ignored;
  bool changed = false;
  if (tsr_datatype_kind(attribute->datatype) == TSR_KIND_TIME)
    TSR_TRY(note_duration(array, attribute, &changed, error)); /* before a schema has the attribute */
  const int rc = evolve(array, &change, error);
  if (rc < 0 && changed) (void)mark_duration(array, attribute->name, !attribute->duration, &ignored);
  return rc;
}

int tsr__attribute_try(tsr_array *array, const tsr_field *attribute, const tsr_enumeration *enumeration,
                       int (*test)(void *argument, const tsr_schema *schema, tsr_error *error), void *argument,
                       tsr_error *error) {
  const evolve_change change = {.attribute = attribute, .enumeration = enumeration};
  evolution v = {.array = array};
  tsr__arena_init(&v.arena, &array->memory);
  int rc = evolve_begin(&v, error);
  if (rc >= 0) rc = add_attribute(&v, &change, error);
  for (uint32_t i = 0; rc >= 0 && i < v.schema.enumeration_count; i++) v.schema.enumerations[i].loaded = true;
  if (rc >= 0) rc = test(argument, &v.schema, error);
  tsr__arena_release(&v.arena);
  return rc;
}

/* Removes an enumeration from the schema unless one of its attributes still uses it. */
static void drop_unused_enumeration(tsr_schema *schema, const char *name) {
  for (uint32_t i = 0; i < schema->attribute_count; i++) {
    const char *used = schema->fields[schema->dimension_count + i].enumeration;
    if (used && !strcmp(used, name)) return;
  }
  for (uint32_t i = 0; i < schema->enumeration_count; i++) {
    if (strcmp(schema->enumerations[i].name, name) != 0) continue;
    schema->enumeration_count--;
    memmove(schema->enumerations + i, schema->enumerations + i + 1,
            (schema->enumeration_count - i) * sizeof(tsr_enumeration));
    return;
  }
}

static int drop_attribute(evolution *v, const evolve_change *change, tsr_error *error) {
  const char *name = change->name;
  tsr_field *field = attribute_of(&v->schema, name);
  for (uint32_t d = 0; !field && d < v->schema.dimension_count; d++)
    if (!strcmp(v->schema.fields[d].name, name))
      return tsr__fail(error, TSR_CONSTRAINT, "'%s' is a dimension: an array keeps its dimensions", name);
  if (!field) return tsr__fail(error, TSR_ERROR, "there is no attribute '%s'", name);
  if (v->schema.attribute_count == 1)
    return tsr__fail(error, TSR_CONSTRAINT, "'%s' is the only attribute: an array keeps one at least", name);
  const char *enumeration = field->enumeration;
  tsr_field *last = v->schema.fields + v->schema.dimension_count + --v->schema.attribute_count;
  memmove(field, field + 1, (size_t)((char *)last - (char *)field));
  if (enumeration) drop_unused_enumeration(&v->schema, enumeration);
  return TSR_OK;
}

static bool lacks_attribute(const tsr_schema *schema, const evolve_change *change) {
  return !attribute_of(schema, change->name);
}

/* Fails if a CHECK constraint reads the attribute. One that cannot be read prevents nothing. */
static int check_constraints(const tsr_schema *schema, const tsr_metadata *all, const char *name, tsr_arena *arena,
                             tsr_error *error) {
  const tsr_field *field = attribute_of(schema, name);
  for (uint64_t i = 0; field && i < all->count; i++) {
    const uint64_t size = tsr__constraint_name_size(&all->entries[i]);
    const tsr_text_value text = tsr__constraint_text(&all->entries[i]);
    tsr_expression expression;
    tsr_error ignored = {0};
    if (!size) continue;
    const int rc = tsr__constraint_parse(schema, text.bytes, text.size, arena, &expression, &ignored);
    if (rc < 0 && rc != TSR_ERROR) return tsr__fail(error, rc, "%s", ignored.message);
    if (rc < 0 || !tsr__constraint_reads(&expression, (uint32_t)(field - schema->fields))) continue;
    return tsr__fail(error, TSR_CONSTRAINT, "the CHECK '%.100s' reads '%s': drop the CHECK first",
                     all->entries[i].key + strlen(TSR_CONSTRAINT_KEY), name);
  }
  return TSR_OK;
}

static int check_unconstrained(tsr_array *array, const char *name, tsr_error *error) {
  const tsr_schema *schema;
  const tsr_enumeration *loaded;
  tsr_metadata *all;
  tsr_arena arena = tsr__arena(&array->memory);
  TSR_TRY(tsr_array_schema(array, TSR_TIME_NOW, &schema, error));
  TSR_TRY(tsr_array_metadata(array, TSR_TIME_BEGIN, TSR_TIME_NOW, &all, error));
  int rc = TSR_OK;
  for (uint32_t i = 0; rc >= 0 && i < schema->enumeration_count; i++)
    rc = tsr_array_enumeration(array, schema, schema->enumerations[i].name, &loaded, error);
  if (rc >= 0) rc = check_constraints(schema, all, name, &arena, error);
  tsr_metadata_close(all);
  tsr__arena_release(&arena);
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}

int tsr_array_drop_attribute(tsr_array *array, const char *name, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const evolve_change change = {.make = drop_attribute, .is_made = lacks_attribute, .name = name};
  TSR_TRY(check_unconstrained(array, name, error));
  return evolve(array, &change, error);
}

/* ---- Enumerations ------------------------------------------------------------------------------------------------ */

static int append_labels(evolution *v, tsr_enumeration *e, const tsr_enumeration *more, tsr_error *error) {
  uint64_t size, count;
  uint8_t *data;
  uint64_t *offsets;
  if (more->datatype != e->datatype || more->values_per_label != e->values_per_label)
    return tsr__fail(error, TSR_MISMATCH, "its labels are %s", tsr_datatype_name(e->datatype));
  if (!tsr__add(e->data_size, more->data_size, &size) || !tsr__add(e->count, more->count, &count))
    return tsr__fail(error, TSR_RANGE, "too many labels");
  TSR_TRY(TSR_ARENA_RAW(&v->arena, size, &data, error));
  TSR_TRY(TSR_ARENA_ARRAY(&v->arena, count + 1, &offsets, error));
  if (e->data_size) memcpy(data, e->data, e->data_size);
  if (more->data_size) memcpy(data + e->data_size, more->data, more->data_size);
  uint64_t *to = offsets;
  if (e->count) memcpy(to, e->offsets, e->count * 8);
  for (uint64_t i = 0; i <= more->count; i++) to[e->count + i] = e->data_size + more->offsets[i];
  e->data = data;
  e->data_size = size;
  e->offsets = offsets;
  e->count = count;
  return TSR_OK;
}

static tsr_enumeration *enumeration_of(const tsr_schema *schema, const char *name) {
  for (uint32_t i = 0; i < schema->enumeration_count; i++)
    if (strcmp(schema->enumerations[i].name, name) == 0) return &schema->enumerations[i];
  return NULL;
}

static int evolve_extend(evolution *v, const evolve_change *change, tsr_error *error) {
  tsr_enumeration *e = enumeration_of(&v->schema, change->enumeration->name);
  if (!e) return tsr__fail(error, TSR_ERROR, "there is no enumeration '%s'", change->enumeration->name);
  if (append_labels(v, e, change->enumeration, error) < 0) return tsr__wrap(error, "enumeration '%s'", e->name);
  v->fresh = e;
  return tsr__schema_check(&v->schema, &v->array->memory, error);
}

/* Returns true if the enumeration has all labels of `change` as a contiguous run, as an extension leaves them. */
static bool has_labels(const tsr_schema *schema, const evolve_change *change) {
  const tsr_enumeration *more = change->enumeration, *e = enumeration_of(schema, more->name);
  for (uint64_t i = 0; e && more->count <= e->count && i <= e->count - more->count; i++) {
    bool same = e->data_size - e->offsets[i] >= more->data_size &&
                memcmp(e->data + e->offsets[i], more->data, more->data_size) == 0;
    for (uint64_t k = 0; same && k <= more->count; k++) same = more->offsets[k] == e->offsets[i + k] - e->offsets[i];
    if (same) return true;
  }
  return false;
}

int tsr_array_extend_enumeration(tsr_array *array, const tsr_enumeration *more, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const evolve_change change = {.make = evolve_extend, .is_made = has_labels, .enumeration = more};
  return evolve(array, &change, error);
}

/* ---- The current domain ------------------------------------------------------------------------------------------ */

/* Returns true if the interval `to` contains the interval `from`. */
static bool interval_grows(const tsr_field *field, const tsr_interval *from, const tsr_interval *to) {
  if (!field->cell_size)
    return tsr__bytes_compare(to->low_text, to->low_size, from->low_text, from->low_size) <= 0 &&
           tsr__bytes_compare(to->high_text, to->high_size, from->high_text, from->high_size) >= 0;
  return tsr__key(field->datatype, to->low) <= tsr__key(field->datatype, from->low) &&
         tsr__key(field->datatype, to->high) >= tsr__key(field->datatype, from->high);
}

static int evolve_expand(evolution *v, const evolve_change *change, tsr_error *error) {
  if (!v->old->current_domain)
    return tsr__fail(error, TSR_CONSTRAINT, "it has no current domain: all of its domain can be written");
  for (uint32_t d = 0; d < v->schema.dimension_count; d++)
    if (!interval_grows(&v->schema.fields[d], &v->old->current_domain[d], &change->domain[d]))
      return tsr__fail(error, TSR_CONSTRAINT, "dimension '%s': a current domain grows, it never shrinks",
                       v->schema.fields[d].name);
  v->schema.current_domain = (tsr_interval *)(uintptr_t)change->domain;
  return tsr__schema_check(&v->schema, &v->array->memory, error);
}

static bool has_domain(const tsr_schema *schema, const evolve_change *change) {
  for (uint32_t d = 0; d < schema->dimension_count && schema->current_domain; d++)
    if (!interval_grows(&schema->fields[d], &change->domain[d], &schema->current_domain[d])) return false;
  return schema->current_domain != NULL;
}

int tsr_array_expand_domain(tsr_array *array, const tsr_interval *domain, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const evolve_change change = {.make = evolve_expand, .is_made = has_domain, .domain = domain};
  return evolve(array, &change, error);
}
