/* database.h: what the targets that go through SQL share: an SQLite connection in memory with the extension linked in, its
 * statements bounded. Arrays lie in shadow tables: nothing outside of the process is touched.
 */
#ifndef FUZZ_DATABASE_H
#define FUZZ_DATABASE_H

#include <sqlite3.h>

#include "fuzz.h"

#define DATABASE_OPTIONS "memory_mb=8, cache_mb=1, threads=1"

int sqlite3_tessera_init(sqlite3 *db, char **message, const void *api);

/* A database as sqlite3_serialize gives it. */
typedef struct image {
  unsigned char *bytes;
  sqlite3_int64 size;
} image;

/* The image of a database that `sql` has made. */
void database_make(const char *sql, image *out);
/* A new connection to a copy of it. It may not open files, but those of SQLite itself, which stay in memory. */
sqlite3 *database_open(const image *from);
void database_close(sqlite3 *db);
/* Runs one statement, of which at most some hundred rows are taken; the result code of its last step. */
int database_run(sqlite3 *db, sqlite3_stmt *statement);
int database_sql(sqlite3 *db, const char *sql);
/* Puts the array of a tree in the place of table `name`'s own. */
void database_put(sqlite3 *db, const char *name, const tree *t);

#endif
