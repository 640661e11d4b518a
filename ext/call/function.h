/* function.h: what the tessera_* functions share: the savepoint around a change of an array in the database, opening
 * the object at a path, finding attributes and enumerations by name, and error messages that begin with the function's
 * name. entry/functions.c registers the functions. */
#ifndef TSX_CALL_FUNCTION_H
#define TSX_CALL_FUNCTION_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/table.h"

int tsx_register_functions(tsx_connection *connection); /* returns SQLite's code */

/* Begins the savepoint (table/table.h) for an address that was opened from the SQL value `path`. A table's address is
 * reopened once the lock is held. Call tsx_function_end afterwards, also after an error. */
int tsx_function_begin_at(tsx_address *address, sqlite3_value *path, tsr_error *error);

typedef struct tsx_target { /* the array or group that a function changes; `= {0}` may be closed */
  tsx_address address;
  tsr_group *group; /* NULL: an array, which is address.array */
} tsx_target;

/* Opens the array or group at a function's argument `path`, and begins the change (tsx_function_begin_at). Until
 * tsx_target_close, the core polls the host for interrupts. The caller calls tsx_target_close also after an error. */
int tsx_target_open(tsx_connection *connection, sqlite3_value *path, tsx_target *target, tsr_error *error);
void tsx_target_close(tsx_target *target);

/* Ends the savepoint, if one is open: releases it, or rolls it back if `code` is an error. An error, `error` or one of
 * its own, becomes the function's result, prefixed by the function's name. */
void tsx_function_end(sqlite3_context *context, const char *function, int code, tsr_error *error);

/* Checks that the first `texts` of the `count` arguments are TEXT without NUL characters; else TSR_MISMATCH. */
int tsx_arguments_check(int count, sqlite3_value **values, int texts, tsr_error *error);

/* Finds an attribute by the name that its column has in SQL; *field is its number. `array` names the array in the error
 * message. */
int tsx_attribute_find(const tsr_schema *schema, const char *array, const char *name, uint32_t *field,
                       tsr_error *error);

/* Finds the enumeration that tessera_schema shows as `name`, or else the enumeration of the attribute `name`, and loads
 * it. The array owns the result. */
int tsx_enumeration_find(const tsx_address *address, const tsr_schema *schema, const char *name,
                         const tsr_enumeration **found, tsr_error *error);

#endif
