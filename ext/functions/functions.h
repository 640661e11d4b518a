/* functions.h: the tessera_* functions. */
#ifndef TSX_FUNCTIONS_H
#define TSX_FUNCTIONS_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/address.h"

int tsx_register_functions(tsx_connection *connection);

/* Begins the savepoint (table/savepoint.h) for the array or group that `path` has opened, and opens it again as it is under the lock. */
int tsx_function_begin_at(tsx_address *address, sqlite3_value *path, tsr_error *error);

/* The array or group at the path that is a function's argument, which the function changes; `begin` is called, too, and
 * the host's interrupts are asked for until it is closed. To be closed after a failure, too. */
typedef struct tsx_target { /* `= {0}` then close is safe */
  tsx_address address;
  tsr_group *group; /* NULL: an array, address.array */
} tsx_target;

int tsx_target_open(tsx_connection *connection, sqlite3_value *path, tsx_target *target, tsr_error *error);
void tsx_target_close(tsx_target *target);

/* Ends the savepoint, and gives an error, where `code` is one, the name of the function that fails. Of functions only. */
void tsx_function_end(sqlite3_context *context, const char *function, int code, const tsr_error *error);

/* The first `texts` arguments, as far as they are given, are text. */
int tsx_arguments_check(int count, sqlite3_value **values, int texts, tsr_error *error);

#endif
