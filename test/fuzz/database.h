/* database.h: what the targets that use SQL share: an SQLite connection in memory with the extension linked in, whose
 * statements are limited in time and rows. The arrays are in shadow tables, so nothing outside of the process is touched.
 */
#ifndef FUZZ_DATABASE_H
#define FUZZ_DATABASE_H

#include <sqlite3.h>

#include "fuzz.h"

#define DATABASE_OPTIONS "memory_mb=8, cache_mb=1, threads=1"

int sqlite3_tessera_init(sqlite3 *db, char **message, const void *api);

/* A serialized database (sqlite3_serialize), and a connection to a copy of it that serves many inputs. */
typedef struct image {
  unsigned char *bytes;
  sqlite3_int64 size;
  sqlite3 *db; /* the connection, or NULL */
  sqlite3_stmt *version; /* reads the version of the connection's schema */
  int64_t schema; /* that version when the connection was opened */
  struct image *next; /* the next image with a connection */
} image;

/* Makes the image of a database by executing `sql`. */
void database_make(const char *sql, image *out);
/* Opens a new connection to a copy of the image. The connection cannot open files, apart from SQLite's own temporary ones,
 * which stay in memory. */
sqlite3 *database_open(const image *from);
void database_close(sqlite3 *db);
long heap_blocks(void); /* heap.c: the number of blocks that SQLite has allocated */
/* Notes an input. Call it for each input of a target whose connections serve many inputs: libFuzzer keeps only the last one,
 * but a finding may need the inputs before it. They are kept in the file that the variable FUZZ_HISTORY names, however the
 * program ends: u32 number of inputs, then for each u32 size and DATABASE_INPUT bytes. */
#define DATABASE_INPUT 4096
void database_note(const uint8_t *data, size_t size);
/* Returns a connection for one input: the image's connection, or a new one. */
sqlite3 *database_take(image *from);
/* Call after the input. The connection is closed if `again` is false or its schema has changed; after INPUTS_MAX inputs all
 * connections are closed. */
void database_give(image *from, bool again);
/* Runs one statement and reads at most some hundred rows. Returns the result code of the last step. */
int database_run(sqlite3 *db, sqlite3_stmt *statement);
int database_sql(sqlite3 *db, const char *sql);
/* Prepares a text that is one statement without a tail; returns NULL for others. */
sqlite3_stmt *database_prepare(sqlite3 *db, const char *text);
/* For targets whose input is a text: calls `use` with it and a connection of its own. An input with a NUL is no text. */
void database_text(const uint8_t *data, size_t size, sqlite3 *(*connect)(void),
                   void (*use)(sqlite3 *db, const char *text));
/* Replaces the array of table `name` by that of a tree, and lets the table connect anew. */
void database_put(sqlite3 *db, const char *name, const tree *t);

#endif
