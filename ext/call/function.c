/* function.c: what the tessera_* functions share: beginning and ending a change, and finding attributes and
 * enumerations by name.
 *
 * Changing an array in the database takes several statements on its shadow tables, so they run within a savepoint
 * (tsx_function_begin_at, tsx_function_end). */
#include "call/function.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "definition/arguments.h"
#include "definition/define.h"
#include "database/store_sqlite.h"
#include "sql/names.h"
#include "table/table.h"
#include "values/value.h"

int tsx_function_begin_at(tsx_address *address, sqlite3_value *path, tsr_error *error) {
  tsx_connection *connection = address->connection;
  int code = tsx_savepoint_begin(connection, address->path, error);
  if (code < 0 || !address->is_table || !tsx_store_is(address->path)) return code;
  tsx_address_close(address); /* another connection may have replaced the table while this one waited for the lock */
  return tsx_address_open_to_write(connection, path, address, error);
}

int tsx_target_open(tsx_connection *connection, sqlite3_value *path, tsx_target *target, tsr_error *error) {
  tsx_address *address = &target->address;
  tsr_object_kind kind = TSR_OBJECT_ARRAY;
  memset(target, 0, sizeof *target);
  tsx_connection_add_table(connection); /* cancellation works only while a table is counted */
  TSX_TRY(tsx_address_open_to_write(connection, path, address, error));
  if (!address->is_table) {
    TSX_TRY(tsr_object_find(connection->environment, address->path, &kind, error));
    if (kind == TSR_OBJECT_NONE) return tsx_address_not_found(address, error);
  }
  TSX_TRY(tsx_function_begin_at(address, path, error));
  if (kind == TSR_OBJECT_ARRAY) return tsx_address_array(address, error);
  return tsr_group_open(connection->environment, address->path, address->has_key ? address->key : NULL, &target->group,
                        error);
}

void tsx_target_close(tsx_target *target) {
  tsx_connection *connection = target->address.connection;
  tsr_group_close(target->group);
  tsx_address_close(&target->address);
  if (connection) tsx_connection_remove_table(connection);
  target->group = NULL;
}

void tsx_function_end(sqlite3_context *context, const char *function, int code, tsr_error *error) {
  code = tsx_savepoint_end(sqlite3_user_data(context), code, error);
  if (code >= 0) return;
  error->code = code;
  tsx_result_error_of(context, function, error);
}

int tsx_arguments_check(int count, sqlite3_value **values, int texts, tsr_error *error) {
  for (int i = 0; i < count && i < texts; i++) {
    if (sqlite3_value_type(values[i]) != SQLITE_TEXT)
      return tsx_fail(error, TSR_MISMATCH, "argument %d: expected text", i + 1);
    char what[32];
    TSX_TRY(tsx_text_whole(values[i], sqlite3_snprintf(sizeof what, what, "argument %d", i + 1), error));
  }
  return TSR_OK;
}

int tsx_attribute_find(const tsr_schema *schema, const char *array, const char *name, uint32_t *field,
                       tsr_error *error) {
  char **names = tsx_names_make(schema);
  if (!names) return tsx_out_of_memory(error);
  const uint32_t end = schema->dimension_count + schema->attribute_count;
  uint32_t f = schema->dimension_count;
  while (f < end && sqlite3_stricmp(names[f], name) != 0) f++;
  const int code = f < end ? TSR_OK
                           : tsx_names_fail(names, schema->dimension_count, end, error,
                                            "array %.200s has no attribute '%.64s'", array, name);
  tsx_names_free(names, schema);
  if (code >= 0) *field = f;
  return code;
}

static int fail_enumeration(const tsx_address *address, const tsr_schema *schema, const char *wrong, tsr_error *error) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  for (uint32_t i = 0; i < schema->enumeration_count; i++) tsx_name_append(out, schema->enumerations[i].name);
  char *all = sqlite3_str_finish(out);
  tsx_fail(error, TSR_ERROR,
           "array %.300s has no enumeration '%.100s', nor an attribute of that name that has one (it has %.400s)",
           address->path, wrong, all ? all : "no enumerations");
  sqlite3_free(all);
  return TSR_ERROR;
}

int tsx_enumeration_find(const tsx_address *address, const tsr_schema *schema, const char *name,
                         const tsr_enumeration **found, tsr_error *error) {
  const char *stored = NULL;
  char **names = tsx_names_make(schema);
  if (!names || !name) {
    tsx_names_free(names, schema);
    return tsx_out_of_memory(error);
  }
  for (uint32_t i = 0; i < schema->enumeration_count && !stored; i++) {
    char *shown = tsx_name_text(schema->enumerations[i].name);
    if (shown && !strcmp(shown, name)) stored = schema->enumerations[i].name;
    sqlite3_free(shown);
  }
  for (uint32_t f = schema->dimension_count; f < schema->dimension_count + schema->attribute_count && !stored; f++)
    if (schema->fields[f].enumeration && !sqlite3_stricmp(names[f], name)) stored = schema->fields[f].enumeration;
  tsx_names_free(names, schema);
  if (!stored) return fail_enumeration(address, schema, name, error);
  return tsr_array_enumeration(address->array->core, schema, stored, found, error);
}
