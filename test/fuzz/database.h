/* database.h: what the targets that go through SQL share: an SQLite connection in memory with the extension linked in, its
 * statements bounded. Arrays lie in shadow tables: nothing outside of the process is touched.
 */
#ifndef FUZZ_DATABASE_H
#define FUZZ_DATABASE_H

#include <sqlite3.h>

#include "fuzz.h"

#define DATABASE_OPTIONS "memory_mb=8, cache_mb=1, threads=1"

int sqlite3_tessera_init(sqlite3 *db, char **message, const void *api);

/* A database as sqlite3_serialize gives it; and the connection to a copy of it that is used again and again. */
typedef struct image {
  unsigned char *bytes;
  sqlite3_int64 size;
  sqlite3 *db; /* NULL: there is none now */
  sqlite3_stmt *version; /* of its schema */
  int64_t schema;
  struct image *next; /* that has one */
} image;

/* The image of a database that `sql` has made. */
void database_make(const char *sql, image *out);
/* A new connection to a copy of it. It may not open files, but those of SQLite itself, which stay in memory. */
sqlite3 *database_open(const image *from);
void database_close(sqlite3 *db);
long heap_blocks(void); /* heap.c: that SQLite holds */
/* Each input of a target whose connections serve many: libFuzzer keeps the last one alone, and it may need those before it. They stay in
 * the file that FUZZ_HISTORY names, however the program ends: u32 how many, then for each u32 size and DATABASE_INPUT bytes. */
#define DATABASE_INPUT 4096
void database_note(const uint8_t *data, size_t size);
/* A connection for one input: the one that has served others where there is one. */
sqlite3 *database_take(image *from);
/* The input is done. The connection is kept unless `again` is false, or its schema is another one; after many inputs all are closed. */
void database_give(image *from, bool again);
/* Runs one statement, of which at most some hundred rows are taken; the result code of its last step. */
int database_run(sqlite3 *db, sqlite3_stmt *statement);
int database_sql(sqlite3 *db, const char *sql);
/* Puts the array of a tree in the place of table `name`'s own, which is connected anew. */
void database_put(sqlite3 *db, const char *name, const tree *t);

#endif
