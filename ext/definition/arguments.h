/* arguments.h: parses the arguments of CREATE VIRTUAL TABLE ... USING tessera(...): the array's path, the options and
 * the text of the column definitions. Also reads times, paths and keys as users write them, for tables and
 * functions. */
#ifndef TSX_ARGUMENTS_H
#define TSX_ARGUMENTS_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "connection/connection.h"

typedef enum tsx_option { /* from TSX_OPTION_KIND on: options of a new array; before: of how a table shows its array */
                          TSX_OPTION_AS_OF,
                          TSX_OPTION_SINCE,
                          TSX_OPTION_KEY_FILE,
                          TSX_OPTION_UNWRITTEN,
                          TSX_OPTION_DATETIMES,
                          TSX_OPTION_VECTORS,
                          TSX_OPTION_ENUMS,
                          TSX_OPTION_UINT64,
                          TSX_OPTION_CACHE_MB,
                          TSX_OPTION_COLUMNS,
                          TSX_OPTION_MEMORY_MB,
                          TSX_OPTION_LABELS,
                          TSX_OPTION_RENAME,
                          TSX_OPTION_ON_CONFLICT,
                          TSX_OPTION_IF_EXISTS,
                          TSX_OPTION_THREADS,
                          TSX_OPTION_AUTO_CONSOLIDATE,
                          TSX_OPTION_AUTO_VACUUM_S,
                          TSX_OPTION_KIND, /* from here on: of a new array */
                          TSX_OPTION_CELL_ORDER,
                          TSX_OPTION_TILE_ORDER,
                          TSX_OPTION_CAPACITY,
                          TSX_OPTION_DUPLICATES,
                          TSX_OPTION_COORDS_FILTERS,
                          TSX_OPTION_OFFSETS_FILTERS,
                          TSX_OPTION_VALIDITY_FILTERS,
                          TSX_OPTION_ENCRYPTION,
                          TSX_OPTION_FORMAT_VERSION,
                          TSX_OPTION_COUNT
} tsx_option;

const char *tsx_option_word(tsx_option option); /* the word in SQL */

/* Which label columns SELECT * has. Others are hidden: a statement sees them where it names them. */
typedef enum tsx_labels_shown {
  TSX_LABELS_COORDINATES, /* those of a dimension lat_index with a label lat: the dimension only numbers them */
  TSX_LABELS_SHOWN, /* all, each after its dimension */
  TSX_LABELS_HIDDEN,
  TSX_LABELS_NONE, /* there are no label columns */
  TSX_LABELS_GROUP /* as COORDINATES; coordinates that are arrays in the array's group are labels, too */
} tsx_labels_shown;

typedef struct tsx_option_pair { /* `name=value` in an option that has a list of these; both from sqlite3_malloc */
  char *name, *value;
} tsx_option_pair;

typedef struct tsx_option_pairs {
  tsx_option_pair *pairs;
  uint32_t count;
} tsx_option_pairs;

typedef struct tsx_option_times { /* in milliseconds since 1970 */
  bool has_as_of, has_since;
  uint64_t as_of, since;
} tsx_option_times;

typedef enum tsx_times_shown { /* how TIME values appear, unless datetimes_integer */
                               TSX_TIMES_DECLARED, /* durations as INTEGER, times of day as text */
                               TSX_TIMES_TEXT,
                               TSX_TIMES_INTEGER
} tsx_times_shown;

typedef struct tsx_option_shows { /* how cells become SQL values, and which columns exist */
  bool fill_unwritten, datetimes_integer, vectors_blob, enums_code, uint64_signed;
  tsx_times_shown times;
  tsx_labels_shown labels;
  tsx_option_pairs label_arrays; /* of the option `labels`: a dimension, and the path of an array that labels it */
  tsx_option_pairs renamed; /* of the option `rename`: a column's name, and its new one */
  char **columns; /* the names of the option `columns`, or NULL */
  uint32_t column_count;
} tsx_option_shows;

typedef struct tsx_option_limits {
  uint64_t cache_bytes, memory_bytes;
  unsigned threads; /* 0: not given */
} tsx_option_limits;

typedef struct tsx_option_upkeep { /* what a COMMIT merges and removes (table/auto_upkeep.c) */
  uint64_t fanout; /* 0: nothing */
  bool vacuum;
  uint64_t vacuum_ms; /* what was replaced longer ago is removed */
} tsx_option_upkeep;

typedef struct tsx_options {
  /* as the user wrote it, without quotes: of a directory or a bucket, or db:TABLE; NULL: the array is in the
   * database */
  char *path;
  char *key_file;
  bool conflict_abort;
  bool open_existing; /* if_exists=open: with columns, an array that is there already is opened */
  tsx_option_times times;
  tsx_option_shows shows;
  tsx_option_limits limits;
  tsx_option_upkeep upkeep;
  char *creation[TSX_OPTION_COUNT]; /* by option: the text of an option of a new array, or NULL */
  int choice[TSX_OPTION_COUNT]; /* by option: for one of several words, the word's index; 0 without the option */
  const char **definitions; /* text of column definitions; SQLite owns it until xCreate or xConnect returns */
  uint32_t definition_count;
} tsx_options;

/* Parses the module arguments after the table's name (argv + 3 of xCreate). The caller calls tsx_options_release, also
 * after an error. */
int tsx_options_parse(int count, const char *const *arguments, tsx_options *options, tsr_error *error);
void tsx_options_release(tsx_options *options);

/* Returns true if an SQL value is an INTEGER, or a REAL that sqlite3_value_int64 returns without loss: hosts that bind
 * all numbers as REAL, such as better-sqlite3 for Node, have nothing else. */
bool tsx_whole_number(sqlite3_value *value);

/* Reads a time from an SQL value: ISO-8601 text or whole milliseconds. `name` is the argument's name in messages. */
int tsx_time_value(sqlite3_value *value, const char *name, uint64_t *milliseconds, tsr_error *error);

/* Resolves a path against the directory of the file of the database `schema`, if it has a file, so that a table finds
 * its array whatever the working directory is. Absolute paths and URIs stay as they are. The caller frees the result
 * with sqlite3_free. */
int tsx_path_resolve(sqlite3 *db, const char *schema, const char *path, char **resolved, tsr_error *error);

/* Parses a key: 32 raw bytes or 64 hex digits. Returns TSR_AUTH for anything else. */
int tsx_key_parse(const void *bytes, uint64_t size, uint8_t key[32], tsr_error *error);

/* Reads a key from a file, which may end with a newline. On a connection that tessera_restrict confines, the file must
 * be in its directory. */
int tsx_key_read(tsx_connection *connection, const char *path, uint8_t key[32], tsr_error *error);
void tsx_wipe(void *p, uint64_t size); /* overwrites memory with zeros; compilers do not optimize the call away */

#endif
