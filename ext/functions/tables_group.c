/* tables_group.c: the tables tessera_members (of a group), tessera_objects (below a directory) and tessera_metadata (of a
 * group or an array).
 */
#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "values/value.h"
#include "functions/tables.h"

/* Opens the address of a directory. An array in the database is an error: it has no members and no objects. */
static int table_group_open_directory(tsx_scan *scan, tsx_address *address, tsr_error *error) {
  int code = tsx_scan_address(scan, 1, address, error);
  if (code == TSR_OK && address->is_table)
    code = tsx_fail(error, TSR_ERROR, "'%s' is an array: expected the path of a directory",
                    (const char *)sqlite3_value_text(scan->hidden[0]));
  return code;
}

static const char *table_group_kind_name(tsr_object_kind kind) {
  return kind == TSR_OBJECT_ARRAY ? "array" : kind == TSR_OBJECT_GROUP ? "group" : "missing";
}

/* ---- tessera_metadata -------------------------------------------------------------------------------------------- */

typedef struct metadata_state {
  tsr_metadata *metadata;
} metadata_state;

static int table_group_open_metadata(tsx_scan *scan, tsx_address *address, tsr_metadata **metadata, tsr_error *error) {
  tsr_environment *environment = scan->connection->environment;
  tsr_object_kind kind = TSR_OBJECT_ARRAY;
  int code = address->array ? TSR_OK : tsr_object_find(environment, address->path, &kind, error);
  if (code < 0) return code;
  if (kind == TSR_OBJECT_NONE) return tsx_address_not_found(address, error);
  if (kind == TSR_OBJECT_ARRAY) {
    code = tsx_address_array(address, error);
    const tsr_schema *schema;
    if (code == TSR_OK && address->seen) code = tsx_address_schema(address, &schema, error);
    if (code < 0) return code;
    return tsr_array_metadata(address->array->core, address->since, address->as_of, metadata, error);
  }
  tsr_group *group;
  code = tsr_group_open(environment, address->path, address->has_key ? address->key : NULL, &group, error);
  if (code < 0) return code;
  code = tsr_group_metadata(group, address->since, address->as_of, metadata, error);
  tsr_group_close(group);
  return code;
}

static int metadata_open(tsx_scan *scan, tsr_error *error) {
  metadata_state *state = scan->state;
  tsx_address address;
  int code = tsx_scan_address(scan, 1, &address, error);
  if (code == TSR_OK) code = table_group_open_metadata(scan, &address, &state->metadata, error);
  tsx_address_close(&address);
  return code;
}

static int metadata_next(tsx_scan *scan, tsr_error *error) {
  return (uint64_t)scan->row < ((const metadata_state *)scan->state)->metadata->count;
}

/* Gives the value: a string or bytes as one value, a single number as it is, several numbers as a JSON array. */
static void result_value(sqlite3_context *context, const tsr_metadatum *entry) {
  tsr_kind kind = tsr_datatype_kind(entry->datatype);
  bool one = entry->count == 1;
  if (entry->count > 0)
    tsx_value_result(context, entry->datatype, one ? 1 : TSR_VARIABLE, entry->value, entry->value_size);
  else if (kind == TSR_KIND_TEXT) sqlite3_result_text(context, "", 0, SQLITE_STATIC);
}

static int metadata_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const tsr_metadatum *entry = &((const metadata_state *)scan->state)->metadata->entries[scan->row - 1];
  switch (column) {
  case 0: sqlite3_result_text64(context, entry->key, entry->key_size, SQLITE_TRANSIENT, SQLITE_UTF8); break;
  case 1: tsx_result_text(context, tsr_datatype_name(entry->datatype)); break;
  case 2: tsx_result_unsigned(context, entry->count); break;
  default: result_value(context, entry);
  }
  return TSR_OK;
}

static void metadata_close(tsx_scan *scan) { tsr_metadata_close(((metadata_state *)scan->state)->metadata); }

const tsx_about tsx_about_metadata = {
    .name = "tessera_metadata",
    .usage = "tessera_metadata(path)",
    .columns = (const char *const[]){"key TEXT", "datatype TEXT", "num INTEGER", "value", NULL},
    .arguments = 1,
    .required = 1,
    .same = -1,
    .rows = 20,
    .state_size = sizeof(metadata_state),
    .open = metadata_open,
    .next = metadata_next,
    .column = metadata_column,
    .close = metadata_close};

/* ---- tessera_members --------------------------------------------------------------------------------------------- */

typedef struct members_state {
  tsr_group_members *members;
} members_state;

static int members_open(tsx_scan *scan, tsr_error *error) {
  members_state *state = scan->state;
  tsx_address address;
  tsr_group *group = NULL;
  int code = table_group_open_directory(scan, &address, error);
  if (code == TSR_OK)
    code = tsr_group_open(scan->connection->environment, address.path, address.has_key ? address.key : NULL, &group,
                          error);
  if (code == TSR_OK) code = tsr_group_members_open(group, address.since, address.as_of, &state->members, error);
  tsr_group_close(group);
  tsx_address_close(&address);
  return code;
}

static int members_next(tsx_scan *scan, tsr_error *error) {
  return (uint64_t)scan->row < ((const members_state *)scan->state)->members->count;
}

static int members_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const tsr_group_member *member = &((const members_state *)scan->state)->members->members[scan->row - 1];
  switch (column) {
  case 0: tsx_result_text(context, member->name); break;
  case 1: tsx_result_text(context, table_group_kind_name(member->kind)); break;
  default: tsx_result_text(context, member->path);
  }
  return TSR_OK;
}

static void members_close(tsx_scan *scan) { tsr_group_members_close(((members_state *)scan->state)->members); }

const tsx_about tsx_about_members = {.name = "tessera_members",
                                     .usage = "tessera_members(path)",
                                     .columns = (const char *const[]){"name TEXT", "kind TEXT", "path TEXT", NULL},
                                     .arguments = 1,
                                     .required = 1,
                                     .same = -1,
                                     .rows = 20,
                                     .state_size = sizeof(members_state),
                                     .open = members_open,
                                     .next = members_next,
                                     .column = members_column,
                                     .close = members_close};

/* ---- tessera_objects --------------------------------------------------------------------------------------------- */

typedef struct objects_state {
  tsr_objects *objects;
} objects_state;

static int objects_open(tsx_scan *scan, tsr_error *error) {
  objects_state *state = scan->state;
  tsx_address address;
  int code = table_group_open_directory(scan, &address, error);
  if (code == TSR_OK) code = tsr_objects_open(scan->connection->environment, address.path, &state->objects, error);
  tsx_address_close(&address);
  return code;
}

static int objects_next(tsx_scan *scan, tsr_error *error) {
  return (uint64_t)scan->row < ((const objects_state *)scan->state)->objects->count;
}

static int objects_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const tsr_object *object = &((const objects_state *)scan->state)->objects->objects[scan->row - 1];
  tsx_result_text(context, column == 0 ? object->path : table_group_kind_name(object->kind));
  return TSR_OK;
}

static void objects_close(tsx_scan *scan) { tsr_objects_close(((objects_state *)scan->state)->objects); }

const tsx_about tsx_about_objects = {.name = "tessera_objects",
                                     .usage = "tessera_objects(path)",
                                     .columns = (const char *const[]){"path TEXT", "kind TEXT", NULL},
                                     .arguments = 1,
                                     .required = 1,
                                     .same = -1,
                                     .rows = 100,
                                     .state_size = sizeof(objects_state),
                                     .open = objects_open,
                                     .next = objects_next,
                                     .column = objects_column,
                                     .close = objects_close};
