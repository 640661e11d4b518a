/* arguments.h: the text of CREATE VIRTUAL TABLE . */
#ifndef TSX_ARGUMENTS_H
#define TSX_ARGUMENTS_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "connection/connection.h"

/* name, word */
#define TSX_OPTIONS(X)                                                                                                 \
  X(AS_OF, as_of)                                                                                                      \
  X(SINCE, since)                                                                                                      \
  X(KEY_FILE, key_file)                                                                                                \
  X(UNWRITTEN, unwritten)                                                                                              \
  X(DATETIMES, datetimes)                                                                                              \
  X(VECTORS, vectors)                                                                                                  \
  X(ENUMS, enums)                                                                                                      \
  X(UINT64, uint64)                                                                                                    \
  X(CACHE_MB, cache_mb)                                                                                                \
  X(COLUMNS, columns)                                                                                                  \
  X(MEMORY_MB, memory_mb)                                                                                              \
  X(ON_CONFLICT, on_conflict)                                                                                          \
  X(THREADS, threads)
#define TSX_CREATION_OPTIONS(X) /* those that say what array is created */                                             \
  X(KIND, kind)                                                                                                        \
  X(CELL_ORDER, cell_order)                                                                                            \
  X(TILE_ORDER, tile_order)                                                                                            \
  X(CAPACITY, capacity)                                                                                                \
  X(DUPLICATES, duplicates)                                                                                            \
  X(COORDS_FILTERS, coords_filters)                                                                                    \
  X(OFFSETS_FILTERS, offsets_filters)                                                                                  \
  X(VALIDITY_FILTERS, validity_filters)                                                                                \
  X(ENCRYPTION, encryption)                                                                                            \
  X(FORMAT_VERSION, format_version)

typedef enum tsx_option {
#define X(name, word) TSX_OPTION_##name,
  TSX_OPTIONS(X) TSX_CREATION_OPTIONS(X)
#undef X
      TSX_OPTION_COUNT
} tsx_option;

const char *tsx_option_word(tsx_option option);

typedef struct tsx_options {
  char *path; /* as given, without quotes; NULL: the array lives in the database */
  bool has_as_of, has_since;
  uint64_t as_of, since; /* milliseconds */
  char *key_file;
  bool fill_unwritten, datetimes_integer, vectors_blob, enums_code, uint64_signed, conflict_abort;
  uint64_t cache_bytes, memory_bytes;
  unsigned threads;
  char **columns; /* the names of the option `columns`, or NULL */
  uint32_t column_count;
  char *creation[TSX_OPTION_COUNT]; /* creation options as they are given, or NULL */
  const char **definitions; /* of columns; their text is SQLite's, and not to be looked at after xCreate and xConnect */
  uint32_t definition_count;
} tsx_options;

/* Of the module arguments that follow the table's name. Strings come from sqlite3_malloc; tsx_options_release frees,
 * also after a failure. */
int tsx_options_parse(int count, const char *const *arguments, tsx_options *options, tsr_error *error);
void tsx_options_release(tsx_options *options);

/* Milliseconds of a time given as ISO-8601 text (a short form means its first millisecond) or as an integer. */
int tsx_time_parse(const char *text, uint64_t size, uint64_t *milliseconds, tsr_error *error);

/* A path as a table's database has it: relative to the directory of its file if it has one. sqlite3_malloc'ed. */
int tsx_path_resolve(sqlite3 *db, const char *schema, const char *path, char **resolved, tsr_error *error);

/* The same of an SQL value, which is not NULL; `name` is the argument's, for messages. */
int tsx_time_value(sqlite3_value *value, const char *name, uint64_t *milliseconds, tsr_error *error);

/* Reads a key file: 32 raw bytes or 64 hex digits. */
int tsx_key_read(tsx_connection *connection, const char *path, uint8_t key[32], tsr_error *error);
int tsx_key_parse(const void *bytes, uint64_t size, uint8_t key[32], tsr_error *error);
void tsx_wipe(void *p, uint64_t size); /* zeroes in a way that no compiler removes */

#endif
