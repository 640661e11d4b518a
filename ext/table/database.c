/* database.c: makes arrays that live in the database itself.
 *
 * tessera_import runs a CREATE VIRTUAL TABLE whose xCreate copies the files of a directory; tessera_copy runs one whose
 * xCreate makes an array of the changed schema. So the table and its array come with one statement, and a statement
 * that fails leaves nothing. connection->stored.making hands over to xCreate what to make. The text of the statement is
 * what tessera_ddl gives, so that it stays in sqlite_schema as a definition that could make such an array again.
 */
#include "table/database.h"

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "text/table_names.h"
#include "database/store_tables.h"
#include "table/address.h"
#include "table/ddl.h"
#include "table/module.h"
#include "table/transaction.h"
#include "table/savepoint.h"

struct tsx_making {
  const char *files; /* the array whose files are copied, or NULL */
  const tsr_schema *schema; /* else the schema of an empty array */
};

int tsx_database_make(tsx_table *table, const tsr_schema *schema, const uint8_t *key, tsr_error *error) {
  tsx_connection *connection = table->connection;
  const tsx_options *options = &table->options;
  tsr_create_options create = {.key = key};
  if (!schema) schema = connection->stored.making->schema;
  int code = tsx_store_create(table->connection->db, table->schema_name, table->name, error);
  if (code == TSR_OK && schema) code = tsr_array_create(connection->environment, table->path, schema, &create, error);
  else if (code == TSR_OK)
    code = tsr_array_copy_files(connection->environment, connection->stored.making->files, table->path, false, NULL,
                                error);
  if (code == TSR_OK)
    code = tsx_array_open(connection, table->path, key, options->limits.cache_bytes, options->limits.threads,
                          &table->array, error);
  return code;
}

/* Runs CREATE VIRTUAL TABLE "schema"."name" USING tessera(...), with the arguments that tessera_ddl would give. */
static int run_create(tsx_connection *connection, const char *schema, const char *name, const tsx_address *source,
                      const struct tsx_making *making, tsr_error *error) {
  sqlite3_str *out = sqlite3_str_new(connection->db);
  if (schema) sqlite3_str_appendf(out, "CREATE VIRTUAL TABLE \"%w\".\"%w\" USING tessera(", schema, name);
  else sqlite3_str_appendf(out, "CREATE VIRTUAL TABLE \"%w\" USING tessera(", name);
  int code = tsx_ddl_arguments(out, source, making->schema, error);
  sqlite3_str_appendchar(out, 1, ')');
  char *sql = sqlite3_str_finish(out);
  if (code == TSR_OK && !sql) code = tsx_out_of_memory(error);
  /* The savepoint comes after the statement is made, which reads the source, and before the caller writes cells. */
  if (code == TSR_OK && making->schema) code = tsx_savepoint_begin(connection, "db:", error);
  if (code == TSR_OK) {
    connection->stored.making = making;
    int result = sqlite3_exec(connection->db, sql, NULL, NULL, NULL);
    connection->stored.making = NULL;
    if (result != SQLITE_OK) code = tsx_fail(error, tsx_core_code(result), "%s", sqlite3_errmsg(connection->db));
  }
  sqlite3_free(sql);
  return code;
}

int tsx_database_create(tsx_connection *connection, const char *name, const tsx_address *source,
                        const tsr_schema *schema, char **path, tsr_error *error) {
  const struct tsx_making making = {.files = schema ? NULL : source->path, .schema = schema};
  char *database = NULL, *table = NULL, *made_path = NULL;
  if (!sqlite3_strnicmp(name, "db:", 3)) name += 3;
  int code = tsx_table_name_parse(name, &database, &table, error);
  if (code == TSR_OK && !(made_path = tsx_store_path(database ? database : "main", table)))
    code = tsx_out_of_memory(error);
  if (code == TSR_OK && source->has_key) code = tsx_key_set(connection, made_path, source->key, error);
  if (code == TSR_OK) code = run_create(connection, database, table, source, &making, error);
  sqlite3_free(database);
  sqlite3_free(table);
  if (code == TSR_OK && path) *path = made_path;
  else sqlite3_free(made_path);
  return code;
}
