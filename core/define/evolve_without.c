/* evolve_without.c: writes a schema that lacks some attributes of the newest one, for cells that never had them.
 *
 * The file of that schema lies in __schema beside the newest one's, with the same time and a smaller UUID in its name.
 * Schemas are ordered by their names as text. So the schema sorts before the newest one, is in force at no time, and
 * later writes use the newest schema as before.
 */
#include <stdio.h>
#include <string.h>

#include "format/schema_rules.h"
#include "format/schema.h"
#include "array/array.h"
#include "array/listing.h"
#include "array/pending.h"
#include "array/timed_write.h"
#include "define/array_create.h"

#define EVOLVE_WITHOUT_ATTEMPTS 1000 /* names to try, while each is taken */
#define PLACEHOLDER             "without_attributes" /* the only attribute, where a dense array would have none */

/* Replaces a UUID by a smaller one of the same length, in the order of text. Returns false if there is none, or if only
 * digits before a dash could be lowered. */
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

/* Adds one attribute of one byte to a dense schema that has none. Its name is not the name of any field of `from`. */
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

static int evolve_without_make(tsr_array *array, const tsr_schema *from, const bool *lacking, tsr_schema *schema,
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

/* Writes `schema` under a name that sorts before `newest`; `name` receives it. */
static int write_before(tsr_array *array, const char *newest, const tsr_schema *schema, char name[128],
                        tsr_error *error) {
  tsr_name parts;
  char directory[TSR_PENDING_PATH];
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
  int rc = tsr__array_list(array, false, true, error);
  if (rc >= 0) rc = tsr__array_schema_at(array, UINT64_MAX, &newest, error);
  if (rc >= 0) rc = evolve_without_make(array, newest, lacking, &made, &arena, error);
  if (rc >= 0) rc = tsr__schema_check(&made, &array->memory, error);
  if (rc >= 0) rc = write_before(array, newest->name, &made, name, error);
  if (rc >= 0) rc = tsr__array_schema_by_name(array, name, schema, error);
  tsr__arena_release(&arena);
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}
