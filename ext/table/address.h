/* address.h: what a path argument of functions and tables leads to, and with which key and times. */
#ifndef TSX_ADDRESS_H
#define TSX_ADDRESS_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/open_array.h"

typedef struct tsx_address { /* what a path argument leads to; `= {0}` then close is safe */
  tsx_connection *connection;
  char *path; /* of the directory */
  char *given; /* as it was given, to the function or to the table */
  bool is_table; /* it is a db: address */
  bool has_key;
  uint8_t key[32];
  char *key_file; /* of the table, as it says it; NULL if there is none */
  uint64_t since, as_of, memory_bytes;
  bool uint64_signed;
  tsx_array *array; /* held; NULL where tsx_address_array has not been called */
} tsx_address;

/* The names of the connection's databases: `code` is SQLITE_OK after the first, and SQLITE_DONE behind the last. */
int tsx_schemas_prepare(sqlite3 *db, sqlite3_stmt **names);
const char *tsx_schemas_next(sqlite3_stmt *names, int *code);

/* `path` is a path or 'db:NAME', 'db:SCHEMA.NAME'; key, as_of and since may be NULL or SQL NULLs. Opens no array that
 * is not open. Whatever it returns, the caller closes the address. */
int tsx_address_open(tsx_connection *connection, sqlite3_value *path, sqlite3_value *key, sqlite3_value *as_of,
                     sqlite3_value *since, tsx_address *address, tsr_error *error);
int tsx_address_array(tsx_address *address, tsr_error *error);

/* The same of a table's name, with db: or without. */
int tsx_address_table(tsx_connection *connection, const char *name, tsx_address *address, tsr_error *error);

/* Adds to "not found" that there is a table of that name, where there is. */
void tsx_address_hint(const tsx_address *address, tsr_error *error);
int tsx_address_not_found(const tsx_address *address, tsr_error *error); /* "array or group not found", with that */

/* The directory or place in the database that a path argument means, whether or not something is there;
 * sqlite3_malloc'ed. A db: address of no table means one in the main database. */
int tsx_address_path(tsx_connection *connection, const char *text, char **path, tsr_error *error);

void tsx_address_close(tsx_address *address);

/* One form of all paths that lead to a directory; sqlite3_malloc'ed. */
char *tsx_path_canonical(const char *path);

/* The key that was given for a path. */
bool tsx_key_find(const tsx_connection *connection, const char *path, uint8_t key[32]);

/* Keeps it, or forgets what there is if `key` is NULL. */
int tsx_key_set(tsx_connection *connection, const char *path, const uint8_t *key, tsr_error *error);
void tsx_keys_free(tsx_connection *connection);

#endif
