/* functions_database.c: tessera_export and tessera_import, which copy an array in the database to a directory, file by file,
 * and back. */
#include "functions/functions_database.h"

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "database/store_sqlite.h"
#include "table/database.h"
#include "table/transaction.h"
#include "functions/functions.h"

static const char *database_text_of(sqlite3_value *value) {
  return sqlite3_value_type(value) == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
}

/* tessera_export(table, path): returns the number of files. */
void tsx_export(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsx_address address;
  tsr_error error = {0};
  uint64_t files = 0;
  const char *path = database_text_of(values[1]);
  tsx_connection_add_table(connection); /* with a table the core asks the host for interrupts */
  int code = tsx_address_table(connection, database_text_of(values[0]), &address, &error);
  if (code == TSR_OK && tsx_transaction_open_on(connection, address.path))
    code = tsx_fail(&error, TSR_ERROR, "the transaction has rows for %s: commit first", address.path);
  if (code == TSR_OK && (!path || tsx_store_is(path)))
    code = tsx_fail(&error, TSR_MISMATCH, "expected the path of a directory");
  if (code == TSR_OK) code = tsr_array_copy_files(connection->environment, address.path, path, false, &files, &error);
  tsx_address_close(&address);
  if (code >= 0) sqlite3_result_int64(context, (sqlite3_int64)files);
  tsx_function_end(context, "tessera_export", code, &error);
  tsx_connection_remove_table(connection);
}

/* tessera_import(table, path): makes a new table from the array in a directory. */
void tsx_import(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsx_address source;
  tsr_error error = {0};
  const char *name = database_text_of(values[0]);
  tsx_connection_add_table(connection); /* with a table the core asks the host for interrupts */
  int code = tsx_address_open(connection, values[1], NULL, NULL, NULL, &source, &error);
  if (code == TSR_OK && !name) code = tsx_fail(&error, TSR_MISMATCH, "expected the name of a table");
  if (code == TSR_OK) code = tsx_address_array(&source, &error);
  if (code == TSR_OK) code = tsx_database_create(connection, name, &source, NULL, NULL, &error);
  tsx_address_close(&source);
  tsx_function_end(context, "tessera_import", code, &error);
  tsx_connection_remove_table(connection);
}
