/* address.h: path arguments of SQL functions and of table-valued functions, and the keys that tessera_set_key gives for
 * paths.
 *
 * A tsx_address is a path argument together with the key and the times that come with it. Order of use:
 * tsx_address_open or tsx_address_table, tsx_address_array where the array is needed, tsx_address_close. */
#ifndef TSX_ADDRESS_H
#define TSX_ADDRESS_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "values/slice.h"
#include "table/open_array.h"

typedef struct tsx_address { /* `= {0}` may be closed */
  tsx_connection *connection;
  char *path; /* of the directory, or of the place in the database: for functions of the core */
  char *given; /* the path as the user gave it, to the function or in the table's definition */
  bool is_table; /* the argument was 'db:NAME' */
  bool has_key;
  uint8_t key[32];
  char *key_file; /* the table's option key_file as the user gave it, or NULL */
  char *seen; /* the name of a schema that the array must have; NULL: any array will do */
  uint64_t since, as_of, memory_bytes;
  bool uint64_signed;
  tsx_array *array; /* one reference; NULL until tsx_address_array, unless the address is that of a table */
} tsx_address;

/* Returns the source of the labels that slices of the address's open array may name. */
static inline tsx_label_source tsx_address_labels(const tsx_address *address) {
  return (tsx_label_source){address->array->core, address->since, address->as_of, address->memory_bytes};
}

/* Prepares a list of the names of the connection's databases. tsx_schemas_next returns one name after the other, NULL
 * at the end; the name is borrowed until the next call. *code is SQLITE_OK, the result of the preparation, before the
 * first call; it is SQLITE_DONE at the end, else SQLite's error. The caller finalizes the statement. */
int tsx_schemas_prepare(sqlite3 *db, sqlite3_stmt **names);
const char *tsx_schemas_next(sqlite3_stmt *names, int *code);

/* Finds where a path argument leads: `path` is a directory, 'db:NAME' or 'db:SCHEMA.NAME'. `key`, `as_of` and `since`
 * may be NULL or SQL NULLs. No array is opened but that of a table. The caller closes the address, after a failure
 * too. */
int tsx_address_open(tsx_connection *connection, sqlite3_value *path, sqlite3_value *key, sqlite3_value *as_of,
                     sqlite3_value *since, tsx_address *address, tsr_error *error);

/* Opens address->array if it is not open. TSR_ERROR where the open transaction has changed the array: the functions
 * that look inside an array show committed cells only. */
int tsx_address_array(tsx_address *address, tsr_error *error);

/* Keeps the name of a schema that the caller has seen, for tsx_address_schema. NULL and an SQL NULL change nothing. */
int tsx_address_expect(tsx_address *address, sqlite3_value *schema, tsr_error *error);

/* Gives the schema in force at address->as_of, after a new listing. The array is open. TSR_ERROR if the array lacks the
 * schema that the caller has seen: another array has taken its place. */
int tsx_address_schema(tsx_address *address, const tsr_schema **schema, tsr_error *error);

/* The test of tsx_address_schema, by the last listing. */
int tsx_address_check(const tsx_address *address, tsr_error *error);

/* Does what tsx_address_open does, for the name of a table with or without "db:". */
int tsx_address_table(tsx_connection *connection, const char *name, tsx_address *address, tsr_error *error);

/* Appends a hint to an error of the code TSR_NOT_FOUND, where the path that was not found is the name of a table. */
void tsx_address_hint(const tsx_address *address, tsr_error *error);

/* Sets the error "array or group not found", with that hint. Returns TSR_NOT_FOUND. */
int tsx_address_not_found(const tsx_address *address, tsr_error *error);

/* Returns the directory, or the place in the database, that a path argument means, whether or not something exists
 * there. *path is from sqlite3_malloc. 'db:NAME' without a table of that name means one in the main database. */
int tsx_address_path(tsx_connection *connection, const char *text, char **path, tsr_error *error);

void tsx_address_close(tsx_address *address);

/* Returns the canonical form of a path: the same text for all paths that lead to a directory, which need not exist yet.
 * From sqlite3_malloc; NULL where there is no memory. */
char *tsx_path_canonical(const char *path);

/* Copies the key that tsx_key_set has given for a path. Returns false if there is none. */
bool tsx_key_find(const tsx_connection *connection, const char *path, uint8_t key[32]);

/* Keeps a copy of the key for a path, in place of the one before. NULL removes the key. TSR_NOMEM. */
int tsx_key_set(tsx_connection *connection, const char *path, const uint8_t *key, tsr_error *error);

/* Wipes and frees all keys of the connection. */
void tsx_keys_free(tsx_connection *connection);

#endif
