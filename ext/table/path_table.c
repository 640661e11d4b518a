/* path_table.c: a path in FROM as a table, which no CREATE has made.
 *
 * The table is registered on the connection (connection/registry.h) for the array's canonical path and its newest
 * schema. So a statement that is compiled later than a schema change gets a table with the new columns. The table is
 * read-only, and otherwise that of CREATE VIRTUAL TABLE ... USING tessera('PATH'), with memory_mb and threads if there
 * are limits. Tables with other limits are others: a registered table's shape is "MIB THREADS SCHEMA". */
#include "table/table.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/registry.h"
#include "database/store_sqlite.h"
#include "sql/names.h"

#define NAMES_SHOWN  10 /* arrays of a group in a message */
#define GROUPS_READ  50
#define GROUPS_DEPTH 16

typedef struct path_names {
  tsx_connection *connection;
  const uint8_t *key; /* or NULL */
  sqlite3_str *text;
  uint32_t arrays, groups;
} path_names;

typedef struct path_group { /* a group, and those that lead to it */
  const char *path;
  const struct path_group *around;
  uint32_t depth;
} path_group;

static void path_name_arrays(path_names *names, const path_group *at, const char *around);

/* Appends the names of the arrays in a group within another. */
static void path_name_within(path_names *names, const path_group *at, const char *path, const char *name) {
  char *plain = tsx_path_canonical(path);
  bool circle = !plain || at->depth == GROUPS_DEPTH;
  for (const path_group *group = at; group && !circle; group = group->around) circle = !strcmp(group->path, plain);
  const path_group within = {plain, at, at->depth + 1};
  if (!circle) path_name_arrays(names, &within, name);
  sqlite3_free(plain);
}

/* Appends the names of a group's arrays, also of those in groups within it, as far as they can be read. */
static void path_name_arrays(path_names *names, const path_group *at, const char *around) {
  tsr_group *group = NULL;
  tsr_group_members *members = NULL;
  tsr_error ignored = {0};
  if (names->groups++ == GROUPS_READ) return;
  int code = tsr_group_open(names->connection->environment, at->path, names->key, &group, &ignored);
  if (code >= 0) code = tsr_group_members_open(group, TSR_TIME_BEGIN, TSR_TIME_NOW, &members, &ignored);
  for (uint64_t i = 0; code >= 0 && i < members->count && names->arrays <= NAMES_SHOWN; i++) {
    const tsr_group_member *member = &members->members[i];
    const char *slash = strrchr(member->path, '/');
    char *own = tsx_name_text(member->name ? member->name : slash ? slash + 1 : member->path);
    char *name = own ? sqlite3_mprintf("%s%s%s", around, *around ? "/" : "", own) : NULL;
    sqlite3_free(own);
    if (!name) break;
    if (member->kind == TSR_OBJECT_GROUP) path_name_within(names, at, member->path, name);
    if (member->kind == TSR_OBJECT_ARRAY)
      sqlite3_str_appendf(names->text, "%s%s", names->arrays ? ", " : "", names->arrays < NAMES_SHOWN ? name : "...");
    names->arrays += member->kind == TSR_OBJECT_ARRAY;
    sqlite3_free(name);
  }
  tsr_group_members_close(members);
  tsr_group_close(group);
}

/* Refuses a group, naming its arrays. */
static int path_refuse_group(tsx_connection *connection, const char *path, const char *plain, tsr_error *error) {
  uint8_t key[32];
  const bool has_key = tsx_key_find(connection, plain, key);
  path_names names = {.connection = connection, .key = has_key ? key : NULL, .text = sqlite3_str_new(NULL)};
  const path_group at = {.path = plain};
  path_name_arrays(&names, &at, "");
  tsx_wipe(key, sizeof key);
  char *text = sqlite3_str_finish(names.text);
  if (text) tsx_fail(error, TSR_ERROR, "'%s' is a group: attach it, or name one of its arrays: %s", path, text);
  else tsx_fail(error, TSR_ERROR, "'%s' is a group: attach it", path);
  sqlite3_free(text);
  return TSR_ERROR;
}

/* Finds what is at a path in FROM. Returns 1 if it is an array; 0 if the text is no path. `plain` is the canonical
 * path. */
static int path_look(tsx_connection *connection, const char *path, const char *plain, tsr_error *error) {
  tsr_object_kind kind = TSR_OBJECT_NONE;
  const bool slash = strchr(path, '/') != NULL;
  const int code = tsr_object_find(connection->environment, plain, &kind, error);
  if (code < 0) return slash || code == TSR_NOMEM || code == TSR_INTERRUPT ? code : 0;
  if (kind == TSR_OBJECT_ARRAY) return 1;
  if (kind == TSR_OBJECT_GROUP) return path_refuse_group(connection, path, plain, error);
  return slash ? tsx_fail(error, TSR_NOT_FOUND, "no table and no array is called '%s'", path) : 0;
}

/* Gives the name of the newest schema of an array, which changes whenever the schema does. From sqlite3_malloc. */
static int path_schema(tsx_connection *connection, const char *plain, char **name, tsr_error *error) {
  uint8_t key[32];
  tsx_array *array = NULL;
  const tsr_schema *schema;
  const bool has_key = tsx_key_find(connection, plain, key);
  int code = tsx_array_open(connection, plain, has_key ? key : NULL, TSX_CACHE_AS_IS, 0, &array, error);
  tsx_wipe(key, sizeof key);
  if (code < 0) return code;
  code = tsr_array_schema(array->core, TSR_TIME_NOW, &schema, error);
  if (code >= 0 && !(*name = sqlite3_mprintf("%s", schema->name))) code = tsx_out_of_memory(error);
  tsx_array_release(connection, array);
  return code;
}

/* Gives the path's table with these limits, or NULL for the defaults. */
static int path_take(tsx_connection *connection, const char *plain, const tsx_option_limits *limits, const char **name,
                     tsr_error *error) {
  char *schema = NULL;
  const tsx_registered *table;
  TSX_TRY(path_schema(connection, plain, &schema, error));
  char *shape = sqlite3_mprintf("%llu %u %s", (unsigned long long)(limits ? limits->memory_bytes >> 20 : 0),
                                limits ? limits->threads : 0, schema);
  sqlite3_free(schema);
  if (!shape) return tsx_out_of_memory(error);
  const int code = tsx_registry_take(connection, tsx_module_path, plain, shape, &table, error);
  sqlite3_free(shape);
  if (code >= 0) *name = table->name;
  return code;
}

int tsx_path_table(tsx_connection *connection, const char *home, const char *path, const tsx_option_limits *limits,
                   const char **name, tsr_error *error) {
  char *resolved = NULL, *plain = NULL;
  if (!*path || tsx_store_is(path)) return 0;
  TSX_TRY(tsx_path_resolve(connection->db, home, path, &resolved, error));
  plain = tsx_path_canonical(resolved);
  sqlite3_free(resolved);
  if (!plain) return tsx_out_of_memory(error);
  const int found = path_look(connection, path, plain, error);
  const int code = found > 0 ? path_take(connection, plain, limits, name, error) : found;
  sqlite3_free(plain);
  return code < 0 ? code : found;
}
