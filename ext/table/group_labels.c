/* group_labels.c: coordinates that lie in a group beside an array, as labels of its dimensions.
 *
 * TileDB-CF and xarray's writers keep the coordinates of a dimension in an array of their own: it has one dimension and
 * one attribute, lies in the same group, and has the dimension's name there. With the option labels='group' a table
 * reads such arrays as labels. It does not write them.
 */
#include "table/group_labels.h"

#include <string.h>

#include "connection/errors.h"
#include "database/store_sqlite.h"
#include "table/open_array.h"

/* Returns the directory of the group in which an array lies, from sqlite3_malloc, or NULL. */
static char *group_of_array(const char *path) {
  size_t end = strlen(path);
  while (end > 1 && path[end - 1] == '/') end--;
  while (end > 0 && path[end - 1] != '/') end--;
  while (end > 1 && path[end - 1] == '/') end--;
  return end > 0 ? sqlite3_mprintf("%.*s", (int)end, path) : sqlite3_mprintf(".");
}

/* Returns true if a member of the group is called so. A member without a name has that of its directory. */
static bool group_member_is(const tsr_group_member *member, const char *name) {
  if (member->kind != TSR_OBJECT_ARRAY) return false;
  if (member->name) return strcmp(member->name, name) == 0;
  size_t end = strlen(member->path), first;
  while (end > 0 && member->path[end - 1] == '/') end--;
  for (first = end; first > 0 && member->path[first - 1] != '/';) first--;
  return end - first == strlen(name) && memcmp(member->path + first, name, end - first) == 0;
}

/* A group of a stranger may name any path: what lies outside of its directory is not opened. */
static int check_inside(const tsx_table *table, const char *path, const char *directory, const char *name,
                        tsr_error *error) {
  const int inside = tsr_path_lies_below(table->connection->environment, path, directory, error);
  if (inside != 0) return inside < 0 ? inside : TSR_OK;
  return tsx_fail(error, TSR_PERM, "member '%s' lies outside of the group's directory, %s, at %s", name, directory,
                  path);
}

/* Finds the member with the dimension's name. *path is NULL if the group has none, or if it is the array itself. */
static int find_group_member(const tsx_table *table, const char *directory, const tsr_group_members *members,
                             const char *name, char **path, tsr_error *error) {
  const size_t own = strlen(table->path);
  *path = NULL;
  for (uint64_t i = 0; i < members->count; i++) {
    const char *found = members->members[i].path;
    const size_t length = strlen(found);
    if (!group_member_is(&members->members[i], name)) continue;
    if (length == own && memcmp(found, table->path, own) == 0) continue;
    const int code = check_inside(table, found, directory, name, error);
    if (code < 0) return code;
    *path = sqlite3_mprintf("%s", found);
    return *path ? TSR_OK : tsx_out_of_memory(error);
  }
  return TSR_OK;
}

static const uint8_t *group_label_key(const tsx_table *table) {
  return table->array->has_key ? table->array->key : NULL;
}

int tsx_group_label_open(tsx_table *table, uint32_t dimension, const char *path, tsr_label_index **index,
                         tsr_error *error) {
  const tsr_array_options options = {.key = group_label_key(table), .threads = table->options.limits.threads};
  tsr_environment *environment = table->connection->environment;
  tsr_array *values;
  int code = tsr_path_permitted(environment, path, error);
  if (code == TSR_OK) code = tsr_array_open(environment, path, &options, &values, error);
  if (code < 0) return code;
  code = tsr_label_open_array(values, table->schema, dimension, table->options.limits.memory_bytes, index, error);
  if (code < 0) tsr_array_close(values);
  return code;
}

int tsx_group_label_find(tsx_table *table, uint32_t dimension, char **path, tsr_label_index **index, tsr_error *error) {
  tsr_environment *environment = table->connection->environment;
  const char *name = table->schema->fields[dimension].name;
  tsr_group *group = NULL;
  tsr_group_members *members = NULL;
  *path = NULL;
  *index = NULL;
  if (tsx_store_is(table->path))
    return tsx_fail(error, TSR_UNSUPPORTED, "option labels='group': an array in the database lies in no group");
  char *directory = group_of_array(table->path);
  if (!directory) return tsx_out_of_memory(error);
  int code = tsr_group_open(environment, directory, group_label_key(table), &group, error);
  if (code == TSR_OK) code = tsr_group_members_open(group, 0, TSR_TIME_NOW, &members, error);
  if (code == TSR_OK) code = find_group_member(table, directory, members, name, path, error);
  if (code == TSR_OK && *path) {
    tsr_error why = {0};
    code = tsx_group_label_open(table, dimension, *path, index, &why);
    if (code == TSR_CORRUPT) { /* it has other dimensions or attributes: no coordinates */
      sqlite3_free(*path);
      *path = NULL;
      code = TSR_OK;
    } else if (code < 0) *error = why;
  }
  tsr_group_members_close(members);
  tsr_group_close(group);
  sqlite3_free(directory);
  if (code == TSR_OK) return code;
  sqlite3_free(*path);
  *path = NULL;
  return tsx_fail_in("option labels='group'", error);
}
