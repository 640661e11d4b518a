/* creation.c: arrays in directories that a CREATE VIRTUAL TABLE makes. xCreate prepares the array; the commit of the
 * transaction publishes it; a rollback removes it.
 *
 * Until the commit the array's directory exists, but nothing takes it for an array, since it has no __schema. This
 * connection alone has it open, and its tables see the array as it will be. The creation belongs to the open array
 * (tsx_array), not to a table, because another sqlite3_vtab serves the same table after ROLLBACK TO and ALTER TABLE.
 * These are the calls that SQLite makes:
 *
 *   xSync      Comes before every commit. SQLite does not tell when ROLLBACK TO has taken the CREATE back, so xSync
 *              looks whether NAME_config still has the creation's name. If not, nothing is published.
 *   xCommit    The database has committed. The cells that the transaction wrote into the array are published first, so
 *              that the array appears with its cells.
 *   xRollback  The directory is removed. After an xSync this happens only if the database file is unchanged since then:
 *              the second phase of a commit may have failed, and then the database decides when it is opened again.
 *   xDestroy   DROP in the same transaction. The directory is removed; no other call comes.
 *
 * The shadow table NAME_config keeps the creation's name and commits in the same transaction. Where a process dies
 * between that commit and the publication, or xRollback comes after the commit, the next connection to the table
 * publishes the array (tsx_creation_recover).
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
#include "table/postponed.h"
#include "table/transaction.h"

void tsx_creation_close(tsx_array *array, bool abandon) {
  if (!array->making.creation) return;
  if (abandon) tsr_creation_abandon(array->making.creation, NULL);
  tsr_creation_close(array->making.creation);
  array->making.creation = NULL;
}

/* Ends the creation of an array that was not published. The array stays open for tables that still refer to it, but its
 * path does not lead to it any more. */
static void creation_forget(tsx_array *array, bool abandon) {
  tsx_transaction_close(array);
  tsx_creation_close(array, abandon);
  array->gone = true;
}

/* Fails unless the table has a key exactly where its definition asks for encryption. */
static int creation_check_key(const tsx_table *table, const tsx_definition *definition, const uint8_t *key,
                              tsr_error *error) {
  if (definition->encrypted && !key)
    return tsx_fail(error, TSR_AUTH, "encryption=aes_256_gcm needs a key: the option key_file, or tessera_set_key");
  if (!definition->encrypted && key)
    return tsx_fail(error, TSR_ERROR, "there is a key for %s: the option encryption=aes_256_gcm is needed, too",
                    table->path);
  return TSR_OK;
}

static tsx_array *next_unchecked(const tsx_connection *connection) {
  tsx_array *array = connection->arrays.list;
  while (array && (array->making.checked || !array->making.creation || !array->making.name)) array = array->next;
  return array;
}

/* Removes prepared arrays whose CREATE a ROLLBACK TO has taken back, so that a new CREATE at the same path finds the
 * place free. Returns 1 if there were any, 0 if not, or an error. Each search for a table may load the database's
 * schema, by which tables and arrays come and go; so the list of arrays is walked anew each time, and a reference keeps
 * the array that is looked at. */
static int forget_orphans(tsx_connection *connection, tsr_error *error) {
  int found = 0, answer = SQLITE_DONE;
  tsx_array *array;
  for (array = connection->arrays.list; array; array = array->next) array->making.checked = false;
  while (answer != SQLITE_NOMEM && (array = next_unchecked(connection))) {
    array->making.checked = true;
    array->references++;
    answer = tsx_config_find(connection->db, array->making.schema, "creation", array->making.name, NULL);
    if (answer == SQLITE_DONE && array->making.creation) {
      creation_forget(array, true);
      found = 1;
    }
    tsx_array_release(connection, array);
  }
  return answer == SQLITE_NOMEM ? tsx_out_of_memory(error) : found;
}

/* Appends to the message that something is in the way what to do if that is an array. */
static void hint_at_array(tsr_environment *environment, const char *path, tsr_error *error) {
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
  if (orphans == 0) hint_at_array(environment, table->path, error);
  if (orphans <= 0) return orphans < 0 ? orphans : code;
  return tsr_creation_prepare(environment, table->path, schema, &options, creation, error);
}

int tsx_creation_prepare(tsx_table *table, const uint8_t *key, tsr_error *error) {
  const tsx_options *options = &table->options;
  tsx_definition definition;
  tsr_creation *creation = NULL;
  if (table->connection->stored.making) return tsx_database_make(table, NULL, key, error);
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
  code = tsx_array_open_created(table->connection, table->path, key, options->limits.cache_bytes,
                                options->limits.threads, creation, &table->array, error);
  if (code < 0) {
    tsr_creation_abandon(creation, NULL);
    tsr_creation_close(creation);
    return code;
  }
  unsigned
      chance; /* below format version 10 all schemas have the same name, so a random number tells creations apart */
  sqlite3_randomness(sizeof chance, &chance);
  table->array->making.name = sqlite3_mprintf("%s %08x", tsr_creation_schema_name(creation), chance);
  table->array->making.schema = sqlite3_mprintf("%s", table->schema_name);
  if (table->array->making.name && table->array->making.schema) return TSR_OK;
  tsx_creation_fail(table);
  return tsx_out_of_memory(error);
}

int tsx_creation_recover(tsx_table *table, const char *name, tsr_error *error) {
  if (sqlite3_txn_state(table->connection->db, table->schema_name) == SQLITE_TXN_WRITE)
    return 0; /* not committed yet */
  char *schema = sqlite3_mprintf("%.*s", (int)strcspn(name, " "), name);
  int code = schema ? tsr_creation_recover(table->connection->environment, table->path, schema, error)
                    : tsx_out_of_memory(error);
  sqlite3_free(schema);
  return code;
}

void tsx_creation_fail(tsx_table *table) {
  if (table->array && table->array->making.creation) creation_forget(table->array, true);
}

/* ---- The transaction -------------------------------------------------------------------------------------------- */

int tsx_creation_sync(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_array *array = table->array;
  if (!array || !array->making.creation) return SQLITE_OK;
  int answer = tsx_config_find(table->connection->db, table->schema_name, "creation", array->making.name, NULL);
  if (answer != SQLITE_ROW && answer != SQLITE_DONE) return answer;
  array->making.table_exists = answer == SQLITE_ROW;
  array->making.synced = true;
  array->making.data_version = tsx_data_version(table);
  return SQLITE_OK;
}

/* SQLite ignores what xCommit returns. An array that cannot be published here is published by the next statement of this
 * connection that uses it, or by the next connection to the table. */
int tsx_creation_commit(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_array *array = table->array;
  if (!array || !array->making.creation) return SQLITE_OK;
  if (!array->making.table_exists) {
    creation_forget(array, true);
    return SQLITE_OK;
  }
  tsr_error error = {0};
  if (tsr_creation_publish(array->making.creation, NULL) < 0 &&
      tsr_creation_publish(array->making.creation, &error) < 0)
    tsx_postpone(table->connection, array, &error);
  tsx_creation_close(array, false);
  return SQLITE_OK;
}

int tsx_creation_rollback(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_array *array = table->array;
  if (array && array->making.creation)
    creation_forget(array, !array->making.synced || array->making.data_version == tsx_data_version(table));
  return SQLITE_OK;
}
