/* ingest_array.c: the array of an ingest.
 *
 * A new array in a directory or bucket is prepared under a name that readers do not see, gets its rows and its metadata,
 * and is published by one step. One in the database is made within a savepoint. Rows are appended by one commit. An
 * array that replaces another one is made beside it, complete, before the two are exchanged in one step: who dies in
 * between leaves the old array, and the new one beside it.
 */
#include "functions/ingest_array.h"

#include <string.h>

#include "connection/errors.h"
#include "text/json_in.h"
#include "text/table_names.h"
#include "values/slice.h"
#include "values/value.h"
#include "database/store_sqlite.h"
#include "table/database.h"
#include "table/postponed.h"
#include "table/savepoint.h"
#include "table/transaction.h"
#include "functions/functions_change.h"

/* ---- Rows and metadata --------------------------------------------------------------------------------------------------- */

static int ingest_put_metadatum(void *argument, const tsx_json_option *o, tsr_error *error) {
  const int type = sqlite3_value_type(o->value);
  const tsr_datatype datatype = type == SQLITE_INTEGER ? TSR_INT64 : type == SQLITE_FLOAT ? TSR_FLOAT64 : TSR_UTF8;
  uint8_t *bytes = NULL;
  uint64_t size = 0;
  int code = type == SQLITE_NULL ? tsx_fail(error, TSR_MISMATCH, "the value is null")
                                 : tsx_bytes_convert(o->value, datatype, &bytes, &size, error);
  const tsr_metadatum entry = {.key = o->key,
                               .key_size = strlen(o->key),
                               .datatype = datatype,
                               .count = size / tsr_datatype_size(datatype),
                               .value = bytes,
                               .value_size = size};
  if (code == TSR_OK) code = tsr_array_set_metadata(argument, &entry, error);
  sqlite3_free(bytes);
  if (code == TSR_OK) return code;
  tsr_error why = *error;
  return tsx_fail(error, code, "'metadata': '%.64s': %s", o->key, why.message);
}

static const uint8_t *ingest_key(const tsx_ingest_call *call) {
  return call->array.address.has_key ? call->array.address.key : NULL;
}

/* Keeps the time zones of Arrow columns as metadata. */
static int ingest_put_zones(const tsx_ingest_call *call, tsr_array *array, tsr_error *error) {
  int code = TSR_OK;
  for (uint32_t i = 0; i < call->options.column_count && code == TSR_OK; i++) {
    const tsr_ingest_column *column = &call->columns[i];
    if (!column->zone || call->array.append) continue;
    char *key = sqlite3_mprintf("__tiledb_attr.%s.time_zone", column->name);
    if (!key) return tsx_out_of_memory(error);
    const tsr_metadatum entry = {.key = key,
                                 .key_size = strlen(key),
                                 .datatype = TSR_UTF8,
                                 .count = strlen(column->zone),
                                 .value = (const uint8_t *)column->zone,
                                 .value_size = strlen(column->zone)};
    code = tsr_array_set_metadata(array, &entry, error);
    sqlite3_free(key);
  }
  return code;
}

static int ingest_fill(tsx_ingest_call *call, tsr_array *array, tsr_error *error) {
  int code = tsr_ingest_write(call->ingest, array, !call->array.append, &call->result.rows, error);
  if (code == TSR_OK && call->given.metadata)
    code =
        tsx_options_each(call->connection->db, call->given.metadata, "'metadata'", ingest_put_metadatum, array, error);
  if (code == TSR_OK) code = ingest_put_zones(call, array, error);
  return code;
}

/* ---- A new array ------------------------------------------------------------------------------------------------- */

/* Drops the table whose array a new one replaces, in the savepoint in which the new one is made. */
static int ingest_drop_table(tsx_ingest_call *call, tsr_error *error) {
  sqlite3 *db = call->connection->db;
  char *schema = NULL, *table = NULL;
  const char *name = call->array.path + 3; /* behind "db:" */
  int code = tsx_table_name_parse(name, &schema, &table, error);
  if (code == TSR_OK) code = tsx_savepoint_begin(call->connection, call->array.address.path, error);
  char *sql = code == TSR_OK ? sqlite3_mprintf("DROP TABLE \"%w\".\"%w\"", schema ? schema : "main", table) : NULL;
  if (code == TSR_OK && !sql) code = tsx_out_of_memory(error);
  if (code == TSR_OK) {
    const int answer = sqlite3_exec(db, sql, NULL, NULL, NULL);
    if (answer != SQLITE_OK) code = tsx_fail(error, tsx_core_code(answer), "replace: %s", sqlite3_errmsg(db));
  }
  sqlite3_free(sql);
  sqlite3_free(schema);
  sqlite3_free(table);
  return code;
}

static int ingest_make_in_database(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  tsr_array *array = NULL;
  char *path = NULL;
  const tsr_array_options options = {.key = ingest_key(call)};
  int code = call->array.replace ? ingest_drop_table(call, error) : TSR_OK;
  if (code == TSR_OK)
    code = tsx_database_create(call->connection, call->array.path, &call->array.address, schema, &path, error);
  if (code == TSR_OK) code = tsr_array_open(call->connection->environment, path, &options, &array, error);
  if (code == TSR_OK) code = ingest_fill(call, array, error);
  tsr_array_close(array);
  sqlite3_free(path);
  return code;
}

/* Makes the array in a directory or bucket. */
static int ingest_make_at(tsx_ingest_call *call, const char *path, const tsr_schema *schema, tsr_error *error) {
  tsr_environment *environment = call->connection->environment;
  tsr_creation *creation = NULL;
  tsr_array *array = NULL;
  const tsr_create_options create = {.key = ingest_key(call)};
  int code = tsr_creation_prepare(environment, path, schema, &create, &creation, error);
  const tsr_array_options options = {.creation = creation, .key = create.key};
  if (code == TSR_OK) code = tsr_array_open(environment, path, &options, &array, error);
  if (code == TSR_OK) code = ingest_fill(call, array, error);
  if (code == TSR_OK) code = tsr_creation_publish(creation, error);
  tsr_array_close(array);
  if (code < 0 && creation) (void)tsr_creation_abandon(creation, NULL);
  tsr_creation_close(creation);
  return code;
}

/* Makes the array beside the one that it replaces, exchanges the two, and drops the old one. */
static int ingest_replace(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  tsr_environment *environment = call->connection->environment;
  tsx_address old = {.connection = call->connection, .has_key = call->array.address.has_key};
  uint64_t random;
  size_t length = strlen(call->array.address.path);
  sqlite3_randomness(sizeof random, &random);
  while (length > 1 && call->array.address.path[length - 1] == '/') length--;
  old.path = sqlite3_mprintf("%.*s", (int)length, call->array.address.path);
  char *beside = old.path ? sqlite3_mprintf("%s.%016llx", old.path, (unsigned long long)random) : NULL;
  old.given = sqlite3_mprintf("%s", call->array.path);
  int code = beside && old.path && old.given ? TSR_OK : tsx_out_of_memory(error);
  if (code == TSR_OK) code = ingest_make_at(call, beside, schema, error);
  if (code == TSR_OK) {
    code = tsx_drop_overviews(&old, error);
    if (code == TSR_OK) code = tsr_array_exchange(environment, old.path, beside, error);
    tsx_path_changed(call->connection, call->array.address.path);
    tsr_error why = *error;
    const int dropped =
        tsr_array_drop(environment, beside, error); /* the old array, or the new one that had no place */
    if (code < 0) *error = why;
    else if (dropped < 0) code = tsx_fail_in("the new array is there, but the old one could not be removed", error);
  }
  tsx_address_close(&old);
  sqlite3_free(beside);
  return code;
}

int tsx_ingest_may_replace(const tsx_ingest_call *call, tsr_error *error) {
  if (tsx_store_is(call->array.address.path)) return TSR_OK;
  if (!strncmp(call->array.address.path, "s3://", 5))
    return tsx_fail(error, TSR_UNSUPPORTED,
                    "if_exists replace: in a bucket no call exchanges two arrays: drop the old one first");
  if (tsx_transaction_open_on(call->connection, call->array.address.path))
    return tsx_fail(error, TSR_ERROR, "the transaction has rows for %s: commit first", call->array.address.path);
  const int published = tsx_postponed_publish_path(call->connection, call->array.address.path, error);
  return published < 0 ? published : TSR_OK;
}

int tsx_ingest_make(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  if (tsx_store_is(call->array.address.path)) return ingest_make_in_database(call, schema, error);
  return call->array.replace ? ingest_replace(call, schema, error)
                             : ingest_make_at(call, call->array.address.path, schema, error);
}

/* ---- An array that exists ---------------------------------------------------------------------------------------- */

/* Returns true if the array has these labels now, with these codes: another process has added them, or has finished what
 * a process left that died while it added them. */
static bool ingest_has_labels(tsx_ingest_call *call, const tsr_enumeration *all, const char *name) {
  tsr_array *array = call->array.target.address.array->core;
  tsr_error ignored = {0};
  const tsr_schema *schema;
  const tsr_enumeration *now;
  if (tsr_array_schema(array, TSR_TIME_NOW, &schema, &ignored) < 0) return false;
  if (tsr_array_enumeration(array, schema, name, &now, &ignored) < 0 || now->count < all->count) return false;
  return now->offsets[all->count] == all->offsets[all->count] &&
         memcmp(now->offsets, all->offsets, all->count * sizeof *all->offsets) == 0 &&
         memcmp(now->data, all->data, all->offsets[all->count]) == 0;
}

/* Adds labels behind the `known` ones that the array has. */
static int ingest_add_labels(tsx_ingest_call *call, const tsr_enumeration *all, const tsr_enumeration *known,
                             tsr_error *error) {
  const uint64_t first = known->count;
  tsr_enumeration more = *all;
  more.name = known->name;
  more.count = all->count - first;
  more.data = all->data + all->offsets[first];
  more.data_size = all->data_size - all->offsets[first];
  more.offsets = sqlite3_malloc64((more.count + 1) * sizeof *more.offsets);
  if (!more.offsets) return tsx_out_of_memory(error);
  for (uint64_t k = 0; k <= more.count; k++) more.offsets[k] = all->offsets[first + k] - all->offsets[first];
  const int code = tsr_array_extend_enumeration(call->array.target.address.array->core, &more, error);
  sqlite3_free(more.offsets);
  return code == TSR_CONSTRAINT && ingest_has_labels(call, all, known->name) ? TSR_OK : code;
}

/* Adds the labels that the array's enumerations lack. They stay if the rows cannot be written. */
static int ingest_extend(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  for (uint32_t i = 0; i < schema->enumeration_count; i++) {
    const tsr_enumeration *all = &schema->enumerations[i];
    const tsr_ingest_column *column = call->columns;
    while (strcmp(column->name, all->name) != 0) column++;
    if (!column->enumeration || all->count == column->enumeration->count) continue;
    const int code = ingest_add_labels(call, all, column->enumeration, error);
    if (code < 0) return code;
  }
  return TSR_OK;
}

int tsx_ingest_append(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  tsr_array *array = call->array.target.address.array->core;
  int code = ingest_extend(call, schema, error);
  if (code == TSR_OK) code = tsr_ingest_fit(call->ingest, array, error);
  return code == TSR_OK ? ingest_fill(call, array, error) : code;
}
