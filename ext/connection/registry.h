/* registry.h: tables that belong to a connection and to no database: virtual table modules that are registered while
 * the program runs, and whose only table has the module's name. They need no DDL, work in read-only databases, and are
 * gone with the connection. */
#ifndef TSX_CONNECTION_REGISTRY_H
#define TSX_CONNECTION_REGISTRY_H

#include "connection/connection.h"

#define TSX_REGISTERED_MAX  512 /* tables of a connection */
#define TSX_REGISTERED_NAME 32 /* bytes of a name, with NUL */

typedef struct tsx_registered { /* the argument of the module's xConnect */
  struct tsx_registered *next; /* in the connection's list */
  tsx_connection *connection;
  const sqlite3_module *module;
  char *text, *shape; /* shape: what else distinguishes the table, such as its columns */
  uint32_t cursors; /* open cursors and other users, which they count themselves: the table stays while there are any */
  uint64_t asked; /* the registry's clock when the table was last asked for */
  char name[TSX_REGISTERED_NAME]; /* of the table: "tessera:" and 16 hex digits */
} tsx_registered;

/* Finds the table of this module, text and shape, or registers it. Its name is a hash that nobody can know before, so
 * no stored table takes its place. When there are TSX_REGISTERED_MAX, the one that was least recently asked for and has
 * no open cursor goes. *table is valid until the next call. TSR_NOMEM; TSR_ERROR if SQLite refuses. */
int tsx_registry_take(tsx_connection *connection, const sqlite3_module *module, const char *text, const char *shape,
                      const tsx_registered **table, tsr_error *error);

#endif
