/* creation.c: arrays that a CREATE VIRTUAL TABLE makes: prepared in xCreate, where all that can fail happens, published
 * when the transaction commits, so that a rolled-back CREATE leaves nothing.
 *
 * Until then the array's directory is there, but nobody's array; this connection alone has it open, and its tables see
 * it as it will be. It belongs to the open array, not to a table: after ROLLBACK TO and ALTER TABLE another
 * sqlite3_vtab serves the same table. What SQLite calls, and what it does not tell:
 *
 *   xSync      before every commit. CREATE within a savepoint that was rolled back is not told: the table may be gone,
 *              and then nothing is published
 *   xCommit    the database has committed. What the transaction wrote into the array is published first: so the array
 *              appears with its cells
 *   xRollback  the directory is removed; but after an xSync only if the database file is as it was then: the second
 *              phase of a commit may have failed, then the database decides when it is read again
 *   xDestroy   DROP in the same transaction: removed; no other call comes
 *
 * The shadow table NAME_config keeps the creation's name in the same transaction: where a process dies between commit
 * and publishing, or xRollback comes after a commit, the next connection to the table publishes.
 */
#include "table/creation.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "definition/columns.h"
#include "definition/define.h"
#include "table/database.h"
#include "table/journal.h"
#include "table/module.h"
#include "table/transaction.h"

void tsx_creation_close(tsx_array *array, bool abandon) {
  if (!array->creation) return;
  if (abandon) tsr_creation_abandon(array->creation, NULL);
  tsr_creation_close(array->creation);
  array->creation = NULL;
}

/* Its tables may still be there for a moment; nobody finds it any more. */
static void creation_forget(tsx_array *array, bool abandon) {
  tsx_transaction_close(array);
  tsx_creation_close(array, abandon);
  array->gone = true;
}

/* The key that the table has must be one that is asked for. */
static int creation_check_key(const tsx_table *table, const tsx_definition *definition, const uint8_t *key,
                              tsr_error *error) {
  if (definition->encrypted && !key)
    return tsx_fail(error, TSR_AUTH, "encryption=aes_256_gcm needs a key: the option key_file, or tessera_set_key");
  if (!definition->encrypted && key)
    return tsx_fail(error, TSR_ERROR, "there is a key for %s: the option encryption=aes_256_gcm is wanted, too",
                    table->path);
  return TSR_OK;
}

static tsx_array *next_unasked(const tsx_connection *connection) {
  tsx_array *array = connection->arrays;
  while (array && (array->asked || !array->creation || !array->creation_name)) array = array->next;
  return array;
}

/* Arrays whose CREATE a ROLLBACK TO has taken back, which is not told, make room for others before the commit. Asking
 * may load the schema: tables come and go meanwhile, and arrays with them. 1 if there were any. */
static int forget_orphans(tsx_connection *connection, tsr_error *error) {
  int found = 0, answer = SQLITE_DONE;
  tsx_array *array;
  for (array = connection->arrays; array; array = array->next) array->asked = false;
  while (answer != SQLITE_NOMEM && (array = next_unasked(connection))) {
    array->asked = true;
    array->tables++;
    answer = tsx_config_find(connection->db, array->creation_schema, "creation", array->creation_name, NULL);
    if (answer == SQLITE_DONE && array->creation) {
      creation_forget(array, true);
      found = 1;
    }
    tsx_array_release(connection, array);
  }
  return answer == SQLITE_NOMEM ? tsx_out_of_memory(error) : found;
}

static void hint(tsr_environment *environment, const char *path, tsr_error *error) {
  tsr_object_kind kind;
  tsr_error ignored;
  const size_t size = strlen(error->message);
  if (tsr_object_find(environment, path, &kind, &ignored) >= 0 && kind == TSR_OBJECT_ARRAY)
    sqlite3_snprintf((int)(sizeof error->message - size), error->message + size,
                     ": without columns, CREATE opens it; tessera_drop_array deletes it");
}

static int creation_prepare(const tsx_table *table, const tsr_schema *schema, const uint8_t *key,
                            tsr_creation **creation, tsr_error *error) {
  const char *file = sqlite3_db_filename(table->connection->db, table->schema_name);
  tsr_create_options options = {.key = key, .owner = file && *file ? file : NULL};
  tsr_environment *environment = table->connection->environment;
  int code = tsr_creation_prepare(environment, table->path, schema, &options, creation, error);
  if (code != TSR_EXISTS) return code;
  tsr_error why = *error;
  int orphans = forget_orphans(table->connection, &why);
  if (orphans < 0) *error = why;
  if (orphans == 0) hint(environment, table->path, error);
  if (orphans <= 0) return orphans < 0 ? orphans : code;
  return tsr_creation_prepare(environment, table->path, schema, &options, creation, error);
}

int tsx_creation_prepare(tsx_table *table, const uint8_t *key, tsr_error *error) {
  const tsx_options *options = &table->options;
  tsx_definition definition;
  tsr_creation *creation = NULL;
  if (table->connection->making) return tsx_database_make(table, NULL, key, error);
  int code = tsx_define(options, &definition, error);
  if (code < 0) return code;
  code = creation_check_key(table, &definition, key, error);
  if (table->in_database) {
    if (code == TSR_OK) code = tsx_database_make(table, &definition.schema, key, error);
    tsx_definition_release(&definition);
    return code;
  }
  if (code == TSR_OK) code = creation_prepare(table, &definition.schema, key, &creation, error);
  tsx_definition_release(&definition);
  if (code < 0) return code;
  code = tsx_array_open_created(table->connection, table->path, key, options->cache_bytes, options->threads, creation,
                                &table->array, error);
  if (code < 0) {
    tsr_creation_abandon(creation, NULL);
    tsr_creation_close(creation);
    return code;
  }
  unsigned chance; /* below version 10 all schemas have one name */
  sqlite3_randomness(sizeof chance, &chance);
  table->array->creation_name = sqlite3_mprintf("%s %08x", tsr_creation_schema_name(creation), chance);
  table->array->creation_schema = sqlite3_mprintf("%s", table->schema_name);
  if (table->array->creation_name && table->array->creation_schema) return TSR_OK;
  tsx_creation_fail(table);
  return tsx_out_of_memory(error);
}

int tsx_creation_recover(tsx_table *table, const char *name, tsr_error *error) {
  if (sqlite3_txn_state(table->connection->db, table->schema_name) == SQLITE_TXN_WRITE) return 0; /* may go back */
  char *schema = sqlite3_mprintf("%.*s", (int)strcspn(name, " "), name);
  int code = schema ? tsr_creation_recover(table->connection->environment, table->path, schema, error)
                    : tsx_out_of_memory(error);
  sqlite3_free(schema);
  return code;
}

void tsx_creation_fail(tsx_table *table) {
  if (table->array && table->array->creation) creation_forget(table->array, true);
}

/* ---- The transaction -------------------------------------------------------------------------------------------- */

int tsx_creation_sync(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_array *array = table->array;
  if (!array || !array->creation) return SQLITE_OK;
  int answer = tsx_config_find(table->connection->db, table->schema_name, "creation", array->creation_name, NULL);
  if (answer != SQLITE_ROW && answer != SQLITE_DONE) return answer;
  array->wanted = answer == SQLITE_ROW;
  array->synced = true;
  array->data_version = tsx_data_version(table);
  return SQLITE_OK;
}

/* SQLite does not look at what this returns; what fails here is done by the next connection to the table. */
int tsx_creation_commit(sqlite3_vtab *vtab) {
  tsx_array *array = ((tsx_table *)vtab)->array;
  if (!array || !array->creation) return SQLITE_OK;
  if (!array->wanted) {
    creation_forget(array, true);
    return SQLITE_OK;
  }
  if (!array->held_back) tsr_creation_publish(array->creation, NULL);
  tsx_creation_close(array, false);
  return SQLITE_OK;
}

int tsx_creation_rollback(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_array *array = table->array;
  if (array && array->creation)
    creation_forget(array, !array->synced || array->data_version == tsx_data_version(table));
  return SQLITE_OK;
}
