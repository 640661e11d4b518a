/* array.c: opens and closes arrays; loads their schemas and enumerations.
 *
 * A schema file is one generic tile: __schema/__t1_t2_uuid (version 10 and later), or __array_schema.tdb in the array's
 * directory (before; it counts as older than all others). Key-value stores have __kv_schema.tdb instead of the latter.
 * Enumerations are in __schema/__enumerations/NAME. None of these files ever changes, so each is decoded once and kept
 * until the array is closed. The schema in force at a time is the last one, in the order of names, whose own time is
 * not later; the first schema if there is none.
 *
 * Opening lists the array and loads the present schema, which verifies the key. If a listing costs a request,
 * everything is listed at once, and the first reader uses that listing (tsr_array_opening).
 *
 * Sections: open and close, schemas, enumerations.
 */
#include "array/array.h"

#include <stdio.h>
#include <string.h>

#include "tessera_host.h"
#include "base/arithmetic.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/pool.h"
#include "base/system.h"
#include "store/store.h"
#include "format/enumeration.h"
#include "format/duration.h"
#include "format/schema.h"
#include "format/layout.h"
#include "environment/cache.h"
#include "environment/environment.h"
#include "log/log.h"

#define SCHEMA_MAX        (256u << 20) /* largest schema, unfiltered, in bytes */
#define CACHE_DEFAULT     (256u << 20)
#define ARRAY_THREADS_MAX 8
#define OPENING_MS        100 /* for this long the listing made while opening counts as up to date */

typedef struct tsr_schema_entry {
  tsr_schema schema;
  tsr_arena arena;
  bool has_grid;
  tsr_grid grid;
} schema_entry;

/* ---- Open and close ---------------------------------------------------------------------------------------------- */

int tsr_array_open(tsr_environment *environment, const char *path, const tsr_array_options *options, tsr_array **array,
                   tsr_error *error) {
  TSR_OWN_ERROR(error);
  char *directory;
  tsr_store *store;
  TSR_TRY(tsr__path_open(environment, "array", path, &directory, &store, error));
  int rc = tsr__array_open_store(environment, store, directory, options, array, error);
  tsr__free(directory);
  return rc;
}

int tsr__array_open_below(const tsr_array *array, const char *below, tsr_array **out, tsr_error *error) {
  tsr_environment *environment = array->environment;
  const tsr_array_options options = {.key = tsr__array_key(array), .threads = array->threads};
  tsr_buffer full = {.memory = &environment->memory};
  tsr_store *store;
  int rc = tsr__store_open_below(environment, array->path, below, &full, &store, error);
  if (rc >= 0) rc = tsr__array_open_store(environment, store, (const char *)full.data, &options, out, error);
  tsr__buffer_release(&full);
  return rc;
}

static void array_take_options(tsr_array *array, const tsr_array_options *options) {
  unsigned cores = array->environment->single_threaded ? 1 : TSR_MIN(tsr__cores(), ARRAY_THREADS_MAX);
  array->threads = options->threads && !array->environment->single_threaded ? options->threads : cores;
  array->key.given = options->key != NULL;
  if (options->key) memcpy(array->key.bytes, options->key, TSR_KEY_SIZE);
  if (options->host)
    array->log.host =
        (tsr_log_host){.committed = options->host->committed, .argument = options->host->committed_argument};
}

static uint32_t array_schema_version(const tsr_array *array, const char *name);

static uint32_t schema_version(const void *array, const char *name) { return array_schema_version(array, name); }

static void unlink_array(tsr_array *array) {
  tsr_array **link = &array->environment->arrays;
  while (*link && *link != array) link = &(*link)->next;
  if (*link) *link = array->next;
  tsr__count_store_end(array->environment, &array->counted);
}

/* Sets the members that the log borrows from its array. */
static void open_log(tsr_array *array) {
  tsr_log *log = &array->log;
  log->environment = array->environment;
  log->store = array->store;
  log->key = tsr__array_key(array);
  log->memory = &array->memory;
  log->schemas = &array->schemas.by_name;
  log->conditions = &array->snapshots.conditions;
  log->array = array;
  log->schema_version = schema_version;
  log->files.by_path.memory = &array->memory;
}

/* Lists an array that is being opened: its schemas, or everything if a listing is a request to a server, to save the
 * first reader a round trip. Damage outside the schemas is left for the first reader to report. */
static int list_first(tsr_array *array, tsr_error *error) {
  tsr_error unseen;
  if (array->store->stamps_are_listings && !array->log.unpublished_schema) {
    const int rc = tsr__log_list(&array->log, true, true, &unseen);
    if (rc >= 0) return rc;
  }
  return tsr__log_list(&array->log, false, true, error);
}

#define MEMBERS_NAMED 10

/* If the path of a missing array is a group, adds the names of its members to the error, as far as they can be read. */
static void name_members(const tsr_array *array, tsr_error *error) {
  tsr_group *group = NULL;
  tsr_group_members *members = NULL;
  tsr_error ignored = {0};
  char names[512] = "", before[sizeof error->message];
  size_t used = 0;
  if (tsr_group_open(array->environment, array->path, tsr__array_key(array), &group, &ignored) == TSR_OK &&
      tsr_group_members_open(group, TSR_TIME_BEGIN, TSR_TIME_NOW, &members, &ignored) == TSR_OK)
    for (uint64_t i = 0; i < members->count && i <= MEMBERS_NAMED && used < sizeof names; i++)
      used += (size_t)snprintf(names + used, sizeof names - used, "%s%.40s", i ? ", " : "",
                               i == MEMBERS_NAMED         ? "..."
                               : members->members[i].name ? members->members[i].name
                                                          : members->members[i].path);
  if (group && error) {
    memcpy(before, error->message, sizeof before);
    tsr__fail(error, error->code, "%.600s; %s%s", before,
              *names ? "its members are " : "tessera_members lists its members", names);
  }
  tsr_group_members_close(members);
  tsr_group_close(group);
}

int tsr__array_open_store(tsr_environment *environment, tsr_store *store, const char *path,
                          const tsr_array_options *options, tsr_array **array, tsr_error *error) {
  tsr_array_options own;
  tsr_array *block;
  int rc = TSR_TAKE_OPTIONS(tsr_array_options, host, options, &own, error);
  if (rc >= 0) rc = TSR_ALLOC(&environment->memory, &block, error);
  if (rc < 0) {
    tsr__store_close(store);
    return rc;
  }
  tsr_array *a = block;
  a->environment = environment;
  a->store = store;
  tsr__memory_init(&a->memory, &environment->memory, UINT64_MAX, "the array");
  a->schemas.by_name.memory = &a->memory;
  a->registry.fragments.memory = a->snapshots.conditions.memory = &a->memory;
  a->open_files.epoch = 1;
  options = &own;
  array_take_options(a, options);
  open_log(a);
  tsr__count_store(environment, &a->counted, store);
  a->next = environment->arrays;
  environment->arrays = a;
  environment->make_room = tsr__arrays_make_room;

  const tsr_schema *schema;
  rc = TSR_ALLOC_RAW(&a->memory, strlen(path) + 1, &a->path, error);
  if (rc < 0) goto done;
  memcpy(a->path, path, strlen(path) + 1);
  a->log.path = a->path;
  if (options->creation) {
    const char *name = tsr_creation_schema_name(options->creation);
    rc = TSR_ALLOC_RAW(&a->memory, strlen(name) + 1, &a->log.unpublished_schema, error);
    if (rc < 0) goto done;
    memcpy(a->log.unpublished_schema, name, strlen(name) + 1);
  }
  rc = tsr__cache_open(&a->memory, options->cache_bytes ? options->cache_bytes : CACHE_DEFAULT, &a->cache, error);
  if (rc < 0) goto done;
  a->opening.changes = tsr__store_process_changes();
  rc = list_first(a, error);
  if (rc == TSR_NOT_FOUND) name_members(a, error);
  if (rc < 0) goto done;
  /* verifies the key, too */
  rc = tsr__array_schema_at(a, tsr__environment_present(a->environment), &schema, error);
  if (rc < 0) {
    if (rc != TSR_AUTH) tsr__wrap(error, "array %s", path);
    goto done;
  }
  if (store->stamps_are_listings) a->opening.schemas = a->opening.commits = tsr__moment();
  *array = a;
  return TSR_OK;
done:
  tsr_array_close(a);
  return rc;
}

void tsr_array_close(tsr_array *array) {
  if (!array) return;
  for (int i = 0; i < TSR_SNAPSHOTS_KEPT; i++) tsr_snapshot_close(array->snapshots.recent[i]);
  tsr__cache_close(array->cache);
  array->cache = NULL;
  tsr__log_release(&array->log);
  tsr__array_fragments_prune(array);
  tsr__array_conditions_release(array);
  for (uint64_t i = 0; i < array->schemas.by_name.count; i++) {
    schema_entry *entry = array->schemas.by_name.entries[i].value;
    tsr__arena_release(&entry->arena);
    tsr__free(entry);
  }
  tsr__map_release(&array->schemas.by_name);
  tsr__map_release(&array->registry.fragments);
  unlink_array(array);
  tsr__store_close(array->store);
  tsr__free(array->path);
  tsr__free(array->log.unpublished_schema);
  tsr__wipe(array->key.bytes, sizeof array->key.bytes);
  tsr__free(array);
}

void tsr_array_set_cache(tsr_array *array, uint64_t cache_bytes) { tsr__cache_set_limit(array->cache, cache_bytes); }

const char *tsr_array_path(const tsr_array *array) { return array->path; }

int tsr_array_moved(tsr_array *array, const char *path, tsr_error *error) {
  TSR_OWN_ERROR(error);
  char *copy;
  TSR_TRY(TSR_ALLOC_RAW(&array->environment->memory, strlen(path) + 1, &copy, error));
  memcpy(copy, path, strlen(path) + 1);
  tsr__free(array->path);
  array->log.path = array->path = copy;
  return TSR_OK;
}

/* ---- Schemas ----------------------------------------------------------------------------------------------------- */

/* Reads a file of the array that is one generic tile (tsr__read_tile). */
static int array_read_tile(tsr_array *array, const char *path, uint64_t most, tsr_buffer *content,
                           tsr_generic_tile *header, tsr_error *error) {
  return tsr__read_tile(array->store, tsr__array_key(array), path, most, content, header, error);
}

/* Explains TSR_AUTH: the array is encrypted and there is no key, the key is wrong, or the array is not encrypted. Once
 * a schema has been loaded, the key is known to be right, so TSR_AUTH means damage. */
static int array_check_key(const tsr_array *array, int rc, const tsr_generic_tile *header, tsr_error *error) {
  if (rc == TSR_AUTH && array->schemas.by_name.count > 0) return tsr__damage(rc, error);
  if (rc == TSR_AUTH && !array->key.given)
    return tsr__fail(error, TSR_AUTH, "array %s is encrypted: a key is needed", array->path);
  if (rc == TSR_AUTH)
    return tsr__fail(error, TSR_AUTH, "the key does not fit array %s%s", array->path,
                     header->encrypted ? "" : ": it is not encrypted");
  return rc;
}

static int try_load_schema(tsr_array *array, const char *name, const char *path, tsr_arena *arena, tsr_schema *schema,
                           tsr_error *error) {
  tsr_buffer content = {.memory = &array->memory};
  tsr_generic_tile header = {0};
  int rc = array_read_tile(array, path, SCHEMA_MAX, &content, &header, error);
  rc = array_check_key(array, rc, &header, error);
  if (rc >= 0) {
    tsr_input in = tsr__input(content.data, content.size);
    rc = tsr__schema_decode(&in, name, arena, schema, error);
    if (rc < 0) tsr__wrap(error, "%s", path);
  }
  tsr__buffer_release(&content);
  return rc;
}

static int array_load_schema(tsr_array *array, const char *name, const char *path, tsr_arena *arena, tsr_schema *schema,
                             tsr_error *error) {
  const tsr_schema before = *schema;
  const int rc = try_load_schema(array, name, path, arena, schema, error);
  if (!tsr__may_be_corrupt_transfer(rc) || !tsr__store_doubt(array->store)) return rc;
  *schema = before;
  return try_load_schema(array, name, path, arena, schema, error);
}

static bool lies_in_root(const char *name) {
  return strcmp(name, TSR_FILE_OLD_SCHEMA) == 0 || strcmp(name, TSR_FILE_KV_SCHEMA) == 0;
}

int tsr__array_schema_directory(const tsr_array *array, char path[TSR_CREATION_PATH], tsr_error *error) {
  bool exists = false;
  if (array->log.unpublished_schema) {
    tsr__creation_path(array->log.unpublished_schema, path);
    TSR_TRY(tsr__directory_find(array->store, path, &exists, error));
  }
  if (!exists) memcpy(path, TSR_DIR_SCHEMA, sizeof TSR_DIR_SCHEMA);
  return TSR_OK;
}

int tsr__array_committed(const tsr_array *array, tsr_error *error) {
  char path[TSR_CREATION_PATH];
  if (!array->log.unpublished_schema) return TSR_OK;
  tsr__creation_path(array->log.unpublished_schema, path);
  bool exists;
  TSR_TRY(tsr__directory_find(array->store, path, &exists, error));
  if (!exists) TSR_TRY(tsr__store_find(array->store, path, &exists, error));
  if (!exists) return TSR_OK;
  return tsr__fail(error, TSR_ERROR, "the array is made by a transaction that is still open: commit first");
}

static int schema_path(const tsr_array *array, const char *name, tsr_buffer *path, tsr_error *error) {
  char directory[TSR_CREATION_PATH];
  if (!lies_in_root(name)) {
    TSR_TRY(tsr__array_schema_directory(array, directory, error));
    return tsr__buffer_printf(path, error, "%s/%s", directory, name);
  }
  if (array->log.unpublished_schema) tsr__creation_path(name, directory);
  bool pending = false;
  if (array->log.unpublished_schema) TSR_TRY(tsr__store_find(array->store, directory, &pending, error));
  return tsr__buffer_printf(path, error, "%s", pending ? directory : name);
}

/* Sets which fields are durations. Only schemas with a TIME datatype cost a look at the metadata. Damaged metadata must
 * not cost the data: whoever shows a TIME field has to ask. */
static int mark_durations(tsr_array *array, tsr_arena *arena, tsr_schema *schema, tsr_error *error) {
  tsr_metadata *metadata;
  tsr_error why = {0};
  if (!layout_has_metadata(schema->version) || !tsr__durations_possible(schema)) return TSR_OK;
  const int rc = tsr__metadata_open(array->environment, array->store, tsr__array_key(array), NULL, TSR_TIME_BEGIN,
                                    TSR_TIME_NOW, &metadata, &why);
  if (rc == TSR_CORRUPT || rc == TSR_UNSUPPORTED || rc == TSR_AUTH)
    return TSR_ARENA_COPY(arena, why.message, strlen(why.message), &schema->durations_unknown, error);
  if (rc < 0) {
    if (error) *error = why;
    return rc;
  }
  tsr__durations_mark(schema, metadata);
  tsr_metadata_close(metadata);
  return TSR_OK;
}

int tsr__array_schema_by_name(tsr_array *array, const char *name, const tsr_schema **schema, tsr_error *error) {
  schema_entry *entry = tsr__map_get(&array->schemas.by_name, name);
  if (entry) {
    *schema = &entry->schema;
    return TSR_OK;
  }
  if (*name == '\0' || strchr(name, '/')) return tsr__fail(error, TSR_CORRUPT, "'%s' cannot be a schema's name", name);
  TSR_TRY(TSR_ALLOC(&array->memory, &entry, error));
  tsr__arena_init(&entry->arena, &array->memory);
  tsr_buffer path = {.memory = &array->memory};
  int rc = schema_path(array, name, &path, error);
  if (rc >= 0) rc = tsr__buffer_append_u8(&path, 0, error);
  if (rc >= 0) rc = array_load_schema(array, name, (const char *)path.data, &entry->arena, &entry->schema, error);
  if (rc >= 0) rc = mark_durations(array, &entry->arena, &entry->schema, error);
  if (rc >= 0) rc = tsr__map_put(&array->schemas.by_name, entry->schema.name, entry, error);
  tsr__buffer_release(&path);
  if (rc < 0) {
    tsr__arena_release(&entry->arena);
    tsr__free(entry);
    return rc;
  }
  *schema = &entry->schema;
  return TSR_OK;
}

static schema_entry *array_entry_of(const tsr_array *array, const tsr_schema *schema) {
  return tsr__map_get(&array->schemas.by_name, schema->name);
}

/* Returns the format version of a schema; 0 if the schema has not been loaded. */
static uint32_t array_schema_version(const tsr_array *array, const char *name) {
  const schema_entry *entry = tsr__map_get(&array->schemas.by_name, name);
  return entry ? entry->schema.version : 0;
}

int tsr__array_grid(tsr_array *array, const tsr_schema *schema, const tsr_grid **grid, tsr_error *error) {
  schema_entry *entry = array_entry_of(array, schema);
  if (!entry->has_grid) {
    int rc = tsr__grid_make(&entry->schema, &entry->arena, &entry->grid, error);
    if (rc < 0) return tsr__wrap(error, "schema %s", schema->name), rc;
    entry->has_grid = true;
  }
  *grid = &entry->grid;
  return TSR_OK;
}

int tsr__array_schema_at(tsr_array *array, uint64_t as_of, const tsr_schema **schema, tsr_error *error) {
  const tsr_commit_list *list = &array->log.listing->schemas;
  uint64_t chosen = 0;
  for (uint64_t i = 0; i < list->count; i++)
    if (list->items[i].parsed.end <= as_of) chosen = i;
  return tsr__array_schema_by_name(array, list->items[chosen].name, schema, error);
}

bool tsr__array_just_opened(const tsr_array *array, uint64_t moment) {
  return moment && tsr__moment() - moment < OPENING_MS && array->opening.changes == tsr__store_process_changes();
}

int tsr_array_schema(tsr_array *array, uint64_t as_of, const tsr_schema **schema, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const bool just_opened = tsr__array_just_opened(array, array->opening.schemas);
  array->opening.schemas = 0;
  if (!just_opened) TSR_TRY(tsr__log_list(&array->log, false, false, error));
  return tsr_array_schema_listed(array, as_of, schema, error);
}

int tsr_array_schema_listed(tsr_array *array, uint64_t as_of, const tsr_schema **schema, tsr_error *error) {
  TSR_OWN_ERROR(error);
  int rc = tsr__array_schema_at(array, as_of == TSR_TIME_NOW ? tsr__environment_present(array->environment) : as_of,
                                schema, error);
  if (rc < 0) tsr__wrap(error, "array %s", array->path);
  return rc;
}

static bool schema_always_has(const tsr_schema *schema, const tsr_field *attribute) {
  for (uint32_t i = schema->dimension_count; i < schema->dimension_count + schema->attribute_count; i++) {
    const tsr_field *field = &schema->fields[i];
    if (strcmp(field->name, attribute->name) == 0)
      return !field->nullable && field->datatype == attribute->datatype &&
             field->values_per_cell == attribute->values_per_cell;
  }
  return false;
}

int tsr_array_always_has(tsr_array *array, const tsr_field *attribute, uint64_t most, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_commit_list *list = &array->log.listing->schemas;
  if (list->count > most) return 0;
  for (uint64_t i = 0; i < list->count; i++) {
    const tsr_schema *schema;
    int rc = tsr__array_schema_by_name(array, list->items[i].name, &schema, error);
    if (rc < 0) {
      tsr__wrap(error, "array %s", array->path);
      return rc;
    }
    if (!schema_always_has(schema, attribute)) return 0;
  }
  return 1;
}

int tsr__array_has_schema(const tsr_array *array, const tsr_schema *schema, tsr_error *error) {
  const tsr_commit_list *list = &array->log.listing->schemas;
  for (uint64_t i = 0; i < list->count; i++)
    if (strcmp(list->items[i].name, schema->name) == 0) return TSR_OK;
  return tsr__fail(error, TSR_ERROR, "it has been replaced by another array: open it again");
}

int tsr_array_has_schema(const tsr_array *array, const tsr_schema *schema, tsr_error *error) {
  TSR_OWN_ERROR(error);
  int rc = tsr__array_has_schema(array, schema, error);
  if (rc < 0) tsr__wrap(error, "array %s", array->path);
  return rc;
}

/* ---- Enumerations ------------------------------------------------------------------------------------------------ */

static int try_load_enumeration(tsr_array *array, schema_entry *entry, tsr_enumeration *enumeration, tsr_error *error) {
  tsr_buffer path = {.memory = &array->memory}, content = {.memory = &array->memory};
  tsr_generic_tile header;
  tsr_enumeration loaded = *enumeration;
  char directory[TSR_CREATION_PATH];
  TSR_TRY(tsr__array_schema_directory(array, directory, error));
  int rc = tsr__buffer_printf(&path, error, "%s/" TSR_DIR_ENUMERATIONS "/%s", directory, enumeration->file);
  if (rc >= 0) rc = tsr__buffer_append_u8(&path, 0, error);
  if (rc >= 0) rc = array_read_tile(array, (const char *)path.data, TSR_METADATA_MAX, &content, &header, error);
  if (rc == TSR_NOT_FOUND) rc = tsr__fail(error, TSR_CORRUPT, "its file %s is missing", (const char *)path.data);
  if (rc >= 0) {
    tsr_input in = tsr__input(content.data, content.size);
    rc = tsr__enumeration_decode(&in, &entry->arena, &loaded, error);
    if (rc < 0) tsr__wrap(error, "%s", (const char *)path.data);
  }
  if (rc >= 0) {
    *enumeration = loaded;
    enumeration->loaded = true;
  }
  tsr__buffer_release(&path);
  tsr__buffer_release(&content);
  return tsr__damage(rc, error);
}

static int load_enumeration(tsr_array *array, schema_entry *entry, tsr_enumeration *enumeration, tsr_error *error) {
  const int rc = try_load_enumeration(array, entry, enumeration, error);
  if (!tsr__may_be_corrupt_transfer(rc) || !tsr__store_doubt(array->store)) return rc;
  return try_load_enumeration(array, entry, enumeration, error);
}

int tsr_array_enumeration(tsr_array *array, const tsr_schema *schema, const char *name,
                          const tsr_enumeration **enumeration, tsr_error *error) {
  TSR_OWN_ERROR(error);
  schema_entry *entry = array_entry_of(array, schema);
  for (uint32_t i = 0; i < entry->schema.enumeration_count; i++) {
    tsr_enumeration *e = &entry->schema.enumerations[i];
    if (strcmp(e->name, name) != 0) continue;
    if (!e->loaded) {
      int rc = load_enumeration(array, entry, e, error);
      if (rc < 0) return tsr__wrap(error, "array %s: enumeration '%s'", array->path, name), rc;
    }
    *enumeration = e;
    return TSR_OK;
  }
  return tsr__fail(error, TSR_ERROR, "array %s has no enumeration '%s'", array->path, name);
}
