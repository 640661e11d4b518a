/* function.h: registers the tessera_* functions, and gives them what they have in common: the savepoint around a change
 * of an array in the database, the object at a path, and error messages with the function's name. */
#ifndef TSX_FUNCTIONS_H
#define TSX_FUNCTIONS_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/table.h"

int tsx_register_functions(tsx_connection *connection); /* returns SQLite's code */

/* Begins the savepoint (table/table.h) for an address that was opened from the SQL value `path`. The address of a
 * table is opened anew once the lock is taken. Call tsx_function_end afterwards, also after an error. */
int tsx_function_begin_at(tsx_address *address, sqlite3_value *path, tsr_error *error);

typedef struct tsx_target { /* the array or group that a function changes; `= {0}` then tsx_target_close is safe */
  tsx_address address;
  tsr_group *group; /* NULL: an array, which is address.array */
} tsx_target;

/* Opens the array or group at a function's argument `path`, and begins the change (tsx_function_begin_at). Until
 * tsx_target_close, which is called after an error, too, the core asks the host for interrupts. */
int tsx_target_open(tsx_connection *connection, sqlite3_value *path, tsx_target *target, tsr_error *error);
void tsx_target_close(tsx_target *target);

/* Ends the savepoint: releases it, or rolls it back if `code` is an error. An error becomes the function's result, with
 * the function's name before its message. */
void tsx_function_end(sqlite3_context *context, const char *function, int code, const tsr_error *error);

/* Checks that the first `texts` arguments, as far as they are given, are TEXT. Returns TSR_MISMATCH otherwise. */
int tsx_arguments_check(int count, sqlite3_value **values, int texts, tsr_error *error);

/* Finds the attribute that a table shows under `name`. `array` names the array in the error message. */
int tsx_attribute_find(const tsr_schema *schema, const char *array, const char *name, uint32_t *field,
                       tsr_error *error);

/* Finds the enumeration that tessera_schema shows as `name`, or else the enumeration of the attribute `name`. The result
 * is loaded; the array owns it. */
int tsx_enumeration_find(const tsx_address *address, const tsr_schema *schema, const char *name,
                         const tsr_enumeration **found, tsr_error *error);

#endif
