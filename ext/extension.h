/* extension.h: the SQLite side of tessera, as thin as it can be. It sees the core only through tessera.h.
 *
 *   main.c        entry point: checks the version, registers modules and functions
 *   connection.c  what belongs to a connection: environment, open arrays, the state a statement sees, interrupts
 *   arguments.c   the text of CREATE VIRTUAL TABLE -> path, options, column definitions
 *   columns.c     column definitions and filter lists as text        tokens.c     SQL text as tokens
 *   define.c      column definitions -> a schema                      literals.c   values as text -> bytes of cells
 *   module.c      create, connect, destroy, rename of array tables; their declaration and shadow table
 *   creation.c    arrays that a CREATE makes, and when they appear
 *   store_sqlite.c, store_tables.c              the files of arrays in the database; the shadow tables that hold them
 *   database.c    arrays in the database: made, brought in, taken out
 *   transaction.c what the open transaction does to arrays: writers, savepoints, commit
 *   journal.c     NAME_commits: what this database has committed; recovery
 *   update.c      xUpdate: rows into the transaction's writers
 *   best_index.c  constraints <-> idxStr, rows and costs
 *   cursor.c      xFilter: a request to the core; xColumn: single values of its batches
 *   value.c       sqlite3_value <-> cell, the only place where SQL values are made or taken
 *   labels.c      comparisons with labels -> codes of enumerated attributes
 *   value_in.c    sqlite3_value -> the cells of a row to be written     json_in.c    JSON -> values of a cell, options
 *   names.c       fields' names in SQL          json.c       JSON text of values and boxes
 *   slice.c       JSON -> boxes, SQL values -> bytes of any datatype
 *   address.c     a path or db: address as an argument -> an open array; keys given for paths
 *   tables.c      what all tessera_* tables have in common: arguments, scans; tessera_stats
 *   tables_array.c, tables_group.c              the tables that look inside
 *   tables_aggregate.c, tables_partitions.c     tessera_aggregate, tessera_partitions
 *   tables_advise.c                             what is worth mending
 *   tables_check.c                              the check of an array, as a table and for PRAGMA integrity_check
 *   ddl.c         datatypes, filters and schemas as the text of CREATE VIRTUAL TABLE
 *   npy.c         blocks of dense arrays as NPY files, both ways
 *   picture.c     tessera_png, tessera_preview: slices to be looked at      png.c        colours, PNG files
 *   restrict.c    tessera_restrict
 *   functions_change.c                          the functions that change metadata, schemas and groups
 *   functions.c   the tessera_* functions       errors.c     core code -> SQLITE_*
 *   functions_maintain.c                        those that keep arrays in order: consolidate, vacuum
 *   functions_copy.c                            tessera_copy
 *
 * Names shared between these files begin with tsx_. All of it runs on the thread that SQLite called.
 */
#ifndef TSX_EXTENSION_H
#define TSX_EXTENSION_H

#include <stdarg.h>
#include <string.h>

#ifdef SQLITE_CORE
#include "sqlite3.h"
#else
#include "sqlite3ext.h"
SQLITE_EXTENSION_INIT3
#endif

#include "tessera.h"

#define TSX_SQLITE_MIN 3038000
#define TSX_ID_SIZE    33 /* 32 hex digits and NUL */

/* ---- errors.c ---- */
/* An empty error, where zeros in all of its message would cost more than what is done for a row. */
static inline void tsx_error_init(tsr_error *error) {
  error->code = 0;
  error->message[0] = 0;
}
int tsx_sqlite_code(int code); /* of a core code */
int tsx_core_code(int code); /* the reverse */
int tsx_vtab_error(sqlite3_vtab *vtab, const tsr_error *error); /* sets zErrMsg, returns the SQLite code */
int tsx_vtab_fail(sqlite3_vtab *vtab, int code, const char *format, ...);
void tsx_result_error(sqlite3_context *context, const tsr_error *error);
int tsx_fail(tsr_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int tsx_out_of_memory(tsr_error *error);

/* ---- connection.c ---- */
typedef struct tsx_snapshot { /* one state of an array, as a statement sees it */
  struct tsx_snapshot *next;
  const tsr_schema *schema; /* whose fields it shows */
  uint64_t since, as_of;
  uint64_t statement; /* that it was made for; 0: the connection has changed the array, nobody else takes it */
  tsr_snapshot *core;
  uint32_t cursors; /* that read it now */
  struct tsx_transaction *transaction; /* whose changes it shows, or NULL; a reference */
  tsr_mark mark; /* how far they had come ... */
  uint64_t rewinds; /* ... after so many ways back */
} tsx_snapshot;

typedef struct tsx_array { /* an array that this connection has open; shared by its tables */
  struct tsx_array *next;
  char *path;
  bool in_database; /* its commits are SQLite's own; `path` is its identity */
  bool has_key;
  uint8_t key[32];
  tsr_array *core;
  uint32_t tables; /* that use it */
  uint64_t used; /* the connection's clock when its last table let go of it */
  uint64_t statement; /* the statement that `snapshots` belong to */
  tsx_snapshot *snapshots;
  uint32_t snapshot_count;
  tsr_creation *creation; /* it is made by this transaction (creation.c), else NULL */
  char *creation_name; /* of this creation and no other: its schema's name, and a number by chance */
  char *creation_schema; /* the database that its table is in */
  bool wanted, synced; /* what xSync found, and that it has run */
  bool asked; /* for a moment: whether its table is still there */
  unsigned data_version; /* of the database file, then */
  bool held_back; /* the cells that it is to appear with could not be published */
  bool gone; /* was not made after all: nobody finds it any more */
  struct tsx_transaction *transaction; /* what the open one does to it, or NULL (transaction.c) */
} tsx_array;

typedef struct tsx_key { /* given by tessera_set_key */
  struct tsx_key *next;
  uint8_t key[32];
  char path[]; /* canonical */
} tsx_key;

typedef struct tsx_connection {
  sqlite3 *db;
  uint32_t references; /* modules and functions that point here */
  tsr_environment *environment;
  tsx_array *arrays;
  uint32_t tables; /* sqlite3_vtab objects: the statements of polls live as long as one does */
  uint32_t cursors; /* open now */
  uint64_t statement; /* counts up when a cursor opens while none is open */
  uint64_t clock; /* counts arrays that were let go */
  sqlite3_stmt *polls[2]; /* see tsx_connection_interrupted */
  uint32_t questions; /* since the longer one was run, */
  uint64_t polled_bytes; /* when so many bytes were decoded */
  int utf16; /* the database's text encoding: -1 not asked yet */
  struct tsx_table *array_tables; /* those that are connected, the newest first */
  tsx_key *keys;
  struct tsx_tree *trees; /* store_tables.c: that are open */
  bool in_function; /* tsx_function_begin has opened a savepoint */
  bool quiet; /* a rollback goes on: the database is not touched */
  const struct tsx_making *making; /* what tsx_database_create makes, while its CREATE runs; else NULL */
  char *restricted; /* the directory that tessera_restrict named, resolved; NULL: none */
  struct tsx_scan *cells_for; /* for a moment: the scan on tessera_aggregate whose cells the next one shows */
} tsx_connection;

int tsx_connection_open(sqlite3 *db, tsx_connection **connection, tsr_error *error);
void tsx_connection_hold(tsx_connection *connection);
void tsx_connection_drop(void *connection); /* as a destructor of modules and functions */
void tsx_connection_add_table(tsx_connection *connection);
void tsx_connection_remove_table(tsx_connection *connection);
void tsx_connection_add_cursor(tsx_connection *connection); /* begins a statement where none is open */
void tsx_connection_remove_cursor(tsx_connection *connection);
/* Does the host want to stop? Asked in long work, where the connection has a table (or a function has added one). */
bool tsx_connection_interrupted(void *connection);
/* Is text kept as UTF-16 (then SQLite's order of text is not that of its UTF-8 bytes)? */
bool tsx_connection_utf16(tsx_connection *connection);
/* The array at a path, opened if it is not. `key` is 32 bytes or NULL. Released by tsx_array_release. */
#define TSX_CACHE_AS_IS UINT64_MAX /* for cache_bytes: leaves that to the array's tables */
int tsx_array_open(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                   unsigned threads, tsx_array **array, tsr_error *error);
/* The same of one that is prepared; takes the creation if it succeeds. */
int tsx_array_open_created(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                           unsigned threads, tsr_creation *creation, tsx_array **array, tsr_error *error);
void tsx_array_release(tsx_connection *connection, tsx_array *array);
/* By what an open array at a path is found: its canonical path, or in the database its identity. sqlite3_malloc'ed. */
int tsx_array_key(tsx_connection *connection, const char *path, char **key, tsr_error *error);
/* The state between two times that the running statement sees: the same for all its cursors. `own`: with the open
 * transaction's changes on top, where no end is given (as_of is TSR_TIME_NOW). Held for the caller, a cursor. */
int tsx_array_snapshot(tsx_connection *connection, tsx_array *array, const tsr_schema *schema, uint64_t since,
                       uint64_t as_of, bool own, tsx_snapshot **snapshot, tsr_error *error);
void tsx_snapshot_release(tsx_snapshot *snapshot); /* NULL is fine */
/* The connection has changed it: what opens from now on sees that, also within the running statement. */
void tsx_array_changed(tsx_array *array);
void tsx_path_changed(tsx_connection *connection, const char *path); /* or is about to, before it looks there */
void tsx_array_trim(tsx_array *array); /* lets go of states that no cursor reads */

/* ---- tokens.c ---- */
typedef enum tsx_token_kind {
  TSX_TOKEN_END,
  TSX_TOKEN_WORD,
  TSX_TOKEN_NAME, /* in double quotes, backticks or brackets */
  TSX_TOKEN_STRING,
  TSX_TOKEN_BLOB, /* x'..' */
  TSX_TOKEN_NUMBER, /* without its sign */
  TSX_TOKEN_MARK, /* any other character */
  TSX_TOKEN_BAD /* a quote that is not closed, or 12abc */
} tsx_token_kind;
typedef struct tsx_token {
  tsx_token_kind kind;
  const char *text; /* as it stands in the source */
  uint64_t size;
} tsx_token;
typedef struct tsx_tokens {
  const char *at; /* behind the token */
  tsx_token token; /* the present one */
} tsx_tokens;
tsx_tokens tsx_tokens_of(const char *text); /* stands at the first token */
void tsx_tokens_next(tsx_tokens *tokens);
bool tsx_token_is(const tsx_token *token, const char *word); /* this word, in any case, or mark */
/* What it means: without quotes, bytes of a blob. `out` has room for token->size + 1 bytes; returns how many were
 * written, a NUL is added. */
#define TSX_TOKEN_NOTHING UINT64_MAX /* a blob that has no pairs of hex digits */
uint64_t tsx_token_copy(const tsx_token *token, char *out);
int tsx_hex_digit(char c); /* its value, or -1 */

/* ---- literals.c ---- */
/* Text as one value of a number, BOOL, datetime or time; `quoted`: datetimes are ISO-8601 text, else raw integers.
 * Messages begin with the text; TSR_MISMATCH: it is no such value, TSR_RANGE: it is outside the datatype. */
int tsx_number_parse(tsr_datatype datatype, const char *text, bool quoted, void *value, tsr_error *error);
/* UTF-8 as the bytes of a string type, or of anything whose values are bytes. `out` has room for 4 * size bytes. */
int tsx_text_convert(tsr_datatype datatype, const char *text, uint64_t size, uint8_t *out, uint64_t *out_size,
                     tsr_error *error);

/* ---- arguments.c ---- */
/* name, word */
#define TSX_OPTIONS(X)                                                                                                 \
  X(AS_OF, as_of)                                                                                                      \
  X(SINCE, since)                                                                                                      \
  X(KEY_FILE, key_file)                                                                                                \
  X(UNWRITTEN, unwritten)                                                                                              \
  X(DATETIMES, datetimes)                                                                                              \
  X(VECTORS, vectors)                                                                                                  \
  X(ENUMS, enums)                                                                                                      \
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
  bool fill_unwritten, datetimes_integer, vectors_blob, enums_code, conflict_abort;
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

/* ---- columns.c ---- */
#define TSX_CELL_MOST ((uint64_t)16 << 20) /* bytes of a cell of fixed length: the schema holds its fill value */

typedef struct tsx_definition { /* what tsx_define makes */
  tsr_schema schema;
  bool encrypted;
  struct tsx_block *blocks; /* all of its memory */
} tsx_definition;

typedef struct tsx_parser {
  tsx_definition *definition; /* owns what is made */
  tsx_tokens in;
  const char *noun, *name; /* what is parsed, for messages: column temp */
  tsr_error *error;
} tsx_parser;

typedef struct tsx_literal {
  tsx_token_kind kind; /* NUMBER, STRING, BLOB; WORD: NULL; END: not given */
  char *text; /* numbers with their sign; NUL-terminated */
  uint64_t size;
} tsx_literal;

typedef struct tsx_column_text { /* a column as it is defined */
  char *name;
  tsr_datatype datatype; /* of an enumerated one: its labels' */
  uint32_t values_per_cell;
  bool is_dimension, not_null, null, has_filters, has_enum, ordered;
  tsx_literal low, high, extent, current_low, current_high, fill;
  tsr_pipeline filters;
  tsx_literal *labels;
  uint64_t label_count;
} tsx_column_text;

void *tsx_parser_take(tsx_parser *p, uint64_t size); /* zeroed; as long as the definition lives */
int tsx_parser_fail(tsx_parser *p, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int tsx_parser_wrap(tsx_parser *p, const char *what); /* puts column and `what` before the error's message */
int tsx_parser_unexpected(tsx_parser *p, const char *wanted); /* fails at the present token */
bool tsx_parser_accept(tsx_parser *p, const char *word); /* goes past this word or mark if it stands there */
int tsx_parser_expect(tsx_parser *p, const char *word);
static inline bool tsx_literal_is_null(const tsx_literal *value) { return value->kind == TSX_TOKEN_WORD; }
/* As one value of a number's datatype; `what` is for messages. The second takes numbers only. */
int tsx_literal_number(tsx_parser *p, const tsx_literal *value, tsr_datatype datatype, void *out, const char *what);
int tsx_literal_integer(tsx_parser *p, const tsx_literal *value, tsr_datatype datatype, void *out, const char *what);
static inline bool tsx_datatype_is_bytes(tsr_datatype datatype) { /* strings and opaque bytes */
  tsr_kind kind = tsr_datatype_kind(datatype);
  return kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES;
}
/* A filter without arguments. */
#define TSX_FILTER(t)                                                                                                  \
  (tsr_filter){.type = (t),                                                                                            \
               .level = -1,                                                                                            \
               .reinterpret = TSR_ANY,                                                                                 \
               .window = (t) == TSR_FILTER_POSITIVE_DELTA ? 1024 : 256,                                                \
               .scale = 1,                                                                                             \
               .byte_width = 8}
int tsx_filters_parse(tsx_parser *p, tsr_pipeline *pipeline); /* up to, not with, a closing parenthesis or the end */
/* `alone`: no option may stand in its place (for messages). */
int tsx_column_parse(tsx_parser *p, const char *text, bool alone, tsx_column_text *column);

/* ---- define.c ---- */
#define TSX_FORMAT_DEFAULT 22
/* The schema that column definitions and creation options ask for. Released by the caller; on failure there is
 * nothing to release. */
int tsx_define(const tsx_options *options, tsx_definition *definition, tsr_error *error);
/* The same of one attribute: definition->schema has it as its only field, with its enumeration if it has one. */
int tsx_define_attribute(const char *text, tsx_definition *definition, tsr_error *error);
void tsx_definition_release(tsx_definition *definition);

/* ---- value.c ---- */
typedef enum tsx_form { /* how a field's cells appear */
                        TSX_INT8,
                        TSX_INT16,
                        TSX_INT32,
                        TSX_INT64,
                        TSX_UINT8,
                        TSX_UINT16,
                        TSX_UINT32,
                        TSX_UINT64,
                        TSX_FLOAT32,
                        TSX_FLOAT64, /* the last number */
                        TSX_TEXT,
                        TSX_TEXT16,
                        TSX_TEXT32,
                        TSX_BLOB,
                        TSX_DATETIME,
                        TSX_JSON,
                        TSX_LABEL
} tsx_form;

typedef struct tsx_column {
  char *name; /* in SQL */
  uint32_t field; /* of the schema */
  const tsr_field *description;
  tsx_form form;
  const char *declared; /* INTEGER, REAL, TEXT, BLOB */
  const tsr_enumeration *enumeration; /* TSX_LABEL, else NULL */
  tsx_form label_form; /* how the labels appear */
  bool datetimes_integer;
  /* once tsx_column_prepare has run: */
  bool mixed; /* some cells may appear as another type than the column's (UINT64 past the signed range as text, years
                 past 9999 as integers) */
  int64_t printable_low, printable_high; /* TSX_DATETIME: values that have ISO text */
} tsx_column;
/* Chooses form and declared type; enumeration may be NULL. */
void tsx_column_choose(const tsr_field *field, const tsr_enumeration *enumeration, const tsx_options *options,
                       tsx_column *column);
/* Is this field, of a later schema, what the column shows: name and datatype? */
bool tsx_column_shows(const tsx_column *column, const tsr_field *field);
/* Before comparisons are asked about. */
void tsx_column_prepare(tsx_column *column);
/* One cell as the result of xColumn. */
void tsx_column_result(sqlite3_context *context, const tsx_column *column, const tsr_column *cells, uint64_t index,
                       bool fill_unwritten);
static inline bool tsx_form_is_number(tsx_form form) { return form <= TSX_FLOAT64; }
/* The same of cell `i` of plain numbers, of which each is there. */
void tsx_number_result(sqlite3_context *context, tsx_form form, const uint8_t *cells, uint64_t i);
/* Does a cell give NULL? */
bool tsx_column_is_null(const tsx_column *column, const tsr_column *cells, uint64_t index, bool fill_unwritten);

/* The bytes of one cell of a field, or of anything else that has a datatype, as a table with default options shows it.
 */
void tsx_value_result(sqlite3_context *context, tsr_datatype datatype, uint32_t values_per_cell, const void *bytes,
                      uint64_t size);
void tsx_result_unsigned(sqlite3_context *context, uint64_t value); /* TEXT past the signed range */
void tsx_result_string(sqlite3_context *context, sqlite3_str *text); /* takes it */
void tsx_result_text(sqlite3_context *context, const char *text); /* copied; NULL: none */
/* A whole number of 1, 2, 4 or 8 bytes. */
static inline uint64_t tsx_load_unsigned(const void *p, uint64_t size) {
  uint64_t v = 0;
  memcpy(&v, p, size);
  return v;
}
static inline int64_t tsx_load_signed(const void *p, uint64_t size) {
  const unsigned unused = (unsigned)(64 - 8 * size);
  return (int64_t)(tsx_load_unsigned(p, size) << unused) >> unused;
}

/* Constraints. Operators of a request, as best_index.c encodes them. */
typedef enum tsx_op {
  TSX_EQ,
  TSX_GT,
  TSX_GE,
  TSX_LT,
  TSX_LE,
  TSX_IS,
  TSX_IN,
  TSX_NE, /* this and the rest: attributes only */
  TSX_ISNOT,
  TSX_ISNULL,
  TSX_NOTNULL
} tsx_op;

/* The values of a dimension, or of an attribute that is not null, that can satisfy `column op value`: a union of so
 * many ranges. Its memory is the caller's.
 */
#define TSX_EVERYTHING  (-1) /* nothing can be said: SQLite decides */
#define TSX_NO_MEMORY   (-2)
#define TSX_RANGES_MOST 3
typedef struct tsx_ranges {
  int count; /* 0: no cell can satisfy it; TSX_EVERYTHING */
  tsr_range ranges[TSX_RANGES_MOST];
  uint8_t values[TSX_RANGES_MOST][2]
                [8]; /* what the ranges point to, but for text, which is borrowed from the SQL value */
} tsx_ranges;
void tsx_ranges_make(const tsx_column *column, tsx_op op, sqlite3_value *value, bool utf16, tsx_ranges *ranges);
/* Is the test that tsx_ranges_make stands for exactly SQLite's? `value` is the right side, NULL if it is not known yet.
 */
bool tsx_ranges_exact(const tsx_column *column, tsx_op op, sqlite3_value *value, bool utf16);
/* Can the column's values be compared with anything at all, so that asking for ranges makes sense? */
bool tsx_ranges_possible(const tsx_column *column);
/* The same of text that is compared without case (NOCASE): a range that holds all that may satisfy it, and more. Its count
 * as in tsx_ranges, or TSX_NO_MEMORY; `memory` is what it points to, for sqlite3_free. */
int tsx_nocase_range(tsx_op op, sqlite3_value *value, tsr_range *range, void **memory);

/* A range of text that is less than something, for all that may be less than that in a column of numbers. */
void tsx_numeric_range(tsr_range *range);

/* ---- labels.c ---- */
/* For enumerated attributes: appends the codes, as runs of neighbours, whose labels satisfy it; all that have one for
 * TSX_NOTNULL. `nocase`, `numeric`: more than those, as by tsx_nocase_range and tsx_numeric_range. */
typedef struct tsx_codes {
  uint64_t count, room;
  int64_t (*runs)[2]; /* first and last; of sqlite3_malloc */
  bool everything;
} tsx_codes;
int tsx_codes_add(const tsx_column *column, tsx_op op, bool nocase, bool numeric, sqlite3_value *value, bool utf16,
                  tsx_codes *codes);
/* Can labels be compared at all, as tsx_ranges_possible has it; and exactly, labels that are numbers? */
bool tsx_labels_possible(const tsx_column *column);
bool tsx_labels_exact(const tsx_column *column, tsx_op op, sqlite3_value *value);

/* ---- json_in.c ---- */
/* A JSON array as values of a number's datatype; `integers`: numbers in it are raw values of datetimes, as
 * tsx_time_of_integer has them otherwise. `values` has room for 4 bytes for each of text's, and 8 more. */
int tsx_vector_parse(tsr_datatype datatype, const char *text, bool integers, uint8_t *values, uint64_t *count,
                     tsr_error *error);
/* Calls `take` for what stands in a JSON object, or in a JSON array; `what` it is, for messages. */
typedef struct tsx_json_option {
  const char *key, *type; /* as json_each has it: 'integer', 'text', 'true' ...; of an array the key is an index */
  sqlite3_value *value;
} tsx_json_option;
typedef int (*tsx_option_taker)(void *argument, const tsx_json_option *option, tsr_error *error);
int tsx_options_each(sqlite3 *db, sqlite3_value *json, const char *what, tsx_option_taker take, void *argument,
                     tsr_error *error);
int tsx_elements_each(sqlite3 *db, sqlite3_value *json, const char *what, tsx_option_taker take, void *argument,
                      tsr_error *error);

/* ---- value_in.c ---- */
typedef struct tsx_row tsx_row; /* one row of a table on its way into a writer */
struct tsx_table;
/* For writers of `schema`, which may be newer than the table's. Freed by tsx_row_free. */
int tsx_row_make(struct tsx_table *table, const tsr_schema *schema, tsx_row **row, tsr_error *error);
void tsx_row_free(tsx_row *row); /* NULL is fine */
const tsr_schema *tsx_row_schema(const tsx_row *row);
/* One cell for each field of the schema, as it was set last. Borrowed. */
const tsr_column *tsx_row_columns(const tsx_row *row);
/* The field of the table's column, -1 if it is gone; and the column that shows a field, -1 if none does. */
int tsx_row_field(const tsx_row *row, uint32_t column);
int tsx_row_shown(const tsx_row *row, uint32_t field);
bool tsx_row_is_complete(const tsx_row *row); /* each column has a field, and each field a column */
/* Sets a field's cell. NULL is null; in an INSERT the DEFAULT where it cannot be null, which has to be declared then.
 * TSR_CONSTRAINT: it cannot be NULL; TSR_MISMATCH, TSR_RANGE: the value does not fit. Texts and blobs stay SQLite's. */
int tsx_row_set(tsx_row *row, uint32_t field, sqlite3_value *value, bool insert, tsr_error *error);
int tsx_row_set_null(tsx_row *row, uint32_t field, bool insert, tsr_error *error);
/* The same of all fields, by the table's columns, in an INSERT where the row is complete. */
int tsx_row_set_all(tsx_row *row, sqlite3_value **values, tsr_error *error);
/* The bytes of another cell, borrowed. */
void tsx_row_keep(tsx_row *row, uint32_t field, const tsr_column *cells, uint64_t index);
/* What a whole number means as a datetime or time in ISO text's place: the value itself if it has no text, else the
 * digits are a year's. */
int tsx_time_of_integer(tsr_datatype datatype, int64_t number, void *value, tsr_error *error);

/* ---- names.c ---- */
/* The names of all fields of a schema as a table shows them: anonymous fields are attr0, dim1...; a name that collides
 * with an earlier one gets _2, _3...; bytes that are no UTF-8 are %XX. One block for each and one for all, of
 * sqlite3_malloc; NULL: out of memory. */
char **tsx_names_make(const tsr_schema *schema);
void tsx_names_free(char **names, const tsr_schema *schema); /* NULL is fine */
/* TSR_ERROR with this message, and behind it the names from `first` to `end`, as many as there is room for. */
int tsx_names_fail(char *const *names, uint32_t first, uint32_t end, tsr_error *error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* How many bytes the UTF-8 character at p has; 0 if it is none. At most `left` bytes are looked at. */
unsigned tsx_utf8_size(const uint8_t *p, uint64_t left);
/* Any stored name as text: bytes that are no UTF-8 are %XX. sqlite3_malloc'ed. */
char *tsx_name_text(const char *name);

/* ---- json.c ---- */
void tsx_json_value(sqlite3_str *out, tsr_datatype datatype, const void *value, bool datetimes_integer);
void tsx_json_text(sqlite3_str *out, const void *text, uint64_t size); /* a string; bytes that are no UTF-8 are %XX */
/* One end of an interval, or null where it is open. */
void tsx_json_end(sqlite3_str *out, const tsr_field *dimension, const tsr_interval *interval, bool high);
/* [low, high] */
void tsx_json_interval(sqlite3_str *out, const tsr_field *dimension, const tsr_interval *interval);
/* {"day":[1,366]}: one interval per dimension, keyed by their names in SQL */
void tsx_json_box(sqlite3_str *out, const tsr_schema *schema, char *const *names, const tsr_interval *intervals);

/* ---- slice.c ---- */
/* A value's bytes in a datatype, of sqlite3_malloc, also where this fails: numbers, ISO text, JSON arrays of them, text
 * for strings, a BLOB as it is. */
int tsx_bytes_convert(sqlite3_value *value, tsr_datatype datatype, uint8_t **bytes, uint64_t *size, tsr_error *error);
typedef struct tsx_bound {
  bool given, low_given, high_given; /* the dimension, its ends */
  uint8_t *low_text, *high_text; /* owned: what the box of a string dimension points to */
} tsx_bound;
typedef struct tsx_slice { /* `= {0}` then release is safe */
  uint32_t dimension_count;
  tsr_interval *box; /* the ends that are given, each within the domain */
  tsx_bound *bounds;
} tsx_slice;
/* Of JSON like {"day":[1,366]}, keyed by the names that tables show; NULL: nothing is given. */
int tsx_slice_parse(sqlite3 *db, sqlite3_value *json, const tsr_schema *schema, tsx_slice *slice, tsr_error *error);
typedef enum tsx_slice_use { TSX_SLICE, TSX_ORIGIN, TSX_DOMAIN } tsx_slice_use;
/* An origin has one value in each dimension, a domain two ends; messages call it so. */
int tsx_slice_parse_as(sqlite3 *db, sqlite3_value *json, const tsr_schema *schema, tsx_slice_use use, tsx_slice *slice,
                       tsr_error *error);
void tsx_slice_release(tsx_slice *slice);
/* An end that is not given becomes that of the non-empty range, but of strings. *empty: there is none, or the end that is
 * given lies beyond it. */
int tsx_slice_complete(tsr_snapshot *snapshot, tsx_slice *slice, bool *empty, tsr_error *error);
/* The same as one range for each dimension, which point into the slice. */
void tsx_slice_ranges(const tsx_slice *slice, const tsr_schema *schema, tsr_range *ranges, tsr_ranges *dimensions);

/* ---- address.c ---- */
typedef struct tsx_address { /* what a path argument leads to; `= {0}` then close is safe */
  tsx_connection *connection;
  char *path; /* of the directory */
  char *given; /* as it was given, to the function or to the table */
  bool is_table; /* it is a db: address */
  bool has_key;
  uint8_t key[32];
  char *key_file; /* of the table, as it says it; NULL if there is none */
  uint64_t since, as_of, memory_bytes;
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
/* The text behind db: as names of a database (NULL: not given) and a table, sqlite3_malloc'ed. */
int tsx_address_parse(const char *text, char **schema, char **name, tsr_error *error);
void tsx_address_close(tsx_address *address);
/* One form of all paths that lead to a directory; sqlite3_malloc'ed. */
char *tsx_path_canonical(const char *path);
/* The key that was given for a path. */
bool tsx_key_find(const tsx_connection *connection, const char *path, uint8_t key[32]);
/* Keeps it, or forgets what there is if `key` is NULL. */
int tsx_key_set(tsx_connection *connection, const char *path, const uint8_t *key, tsr_error *error);
void tsx_keys_free(tsx_connection *connection);

/* ---- ddl.c ---- */
const char *tsx_filter_name(tsr_filter_type type); /* "zstd"; NULL for none and what is no filter */
void tsx_filters_append(sqlite3_str *out, const tsr_pipeline *pipeline);
/* What a field's values go through: a dimension without filters of its own takes those of the coordinates. */
const tsr_pipeline *tsx_filters_of(const tsr_schema *schema, uint32_t field);
const char *tsx_order_name(tsr_order order);
void tsx_ddl(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_ddl(path[, key]) */
/* What stands in the parentheses behind the path: kind, columns, options. `schema`: this one, of the address's array but
 * for what tessera_copy changes, its enumerations loaded; NULL: the one in force. */
int tsx_ddl_arguments(sqlite3_str *out, const tsx_address *address, const tsr_schema *schema, tsr_error *error);

/* ---- module.c ---- */
typedef struct tsx_table {
  sqlite3_vtab base;
  struct tsx_table *next; /* in the connection's list */
  tsx_connection *connection;
  char *schema_name, *name; /* of the SQL table */
  tsx_options options;
  char *path; /* resolved; db:SCHEMA.NAME in the database */
  bool in_database;
  tsx_array *array; /* NULL if it could not be opened */
  const tsr_schema *schema;
  const tsr_schema *labels; /* the schema that enumerated columns have their labels of: the newest seen */
  uint32_t column_count;
  tsx_column *columns;
  char *declaration; /* what SQLite was told */
  char *hidden[3]; /* names of the hidden columns, which stand behind the others: as_of, since, written_at */
  uint64_t opened; /* counts cursors */
  struct tsx_cursor *resting; /* one that was closed, for the next who opens one; or NULL */
  bool past; /* the row whose rowid was asked for last is of another time, given in the query */
  struct tsx_changes *changes; /* of statements that write it (update.c), or NULL */
  char id[TSX_ID_SIZE]; /* this table's and no other's, as NAME_config has it; "" if it has not been looked up */
  bool begun; /* xBegin has come in this transaction */
} tsx_table;
#define TSX_AS_OF(table)      ((int)(table)->column_count)
#define TSX_SINCE(table)      ((int)(table)->column_count + 1)
#define TSX_WRITTEN_AT(table) ((int)(table)->column_count + 2)
extern const sqlite3_module *const tsx_module_array;
/* The key of the table's array: key_file's, else the one that tessera_set_key gave. */
int tsx_table_key(const tsx_table *table, uint8_t key[32], bool *has_key, tsr_error *error);
/* Sees to it that table->array is open: tries again if it was missing when the table was connected. */
int tsx_table_ready(tsx_table *table, tsr_error *error);
/* Takes up labels that enumerations have got since, as the newest snapshot has them. */
int tsx_table_labels(tsx_table *table, tsr_error *error);
/* Of a table whose array may be missing: where the hidden columns begin. */
int tsx_table_shown(const tsx_table *table);

/* ---- creation.c ---- */
/* Prepares the array that the table's options define, and opens it as table->array. */
int tsx_creation_prepare(tsx_table *table, const uint8_t *key, tsr_error *error);
void tsx_creation_fail(tsx_table *table); /* nothing comes of it: xCreate failed, or DROP in the same transaction */
/* Publishes what a commit has left unpublished: 1 if there was something. */
int tsx_creation_recover(tsx_table *table, const char *name, tsr_error *error);
void tsx_creation_close(tsx_array *array, bool abandon); /* if there is one */
int tsx_creation_sync(sqlite3_vtab *vtab);
int tsx_creation_commit(sqlite3_vtab *vtab);
int tsx_creation_rollback(sqlite3_vtab *vtab);

/* ---- transaction.c ---- */
/* What the open transaction does to an array. It belongs to the array, not to a table: one table may have two
 * sqlite3_vtab objects in a transaction, and several tables may show one array. */
typedef struct tsx_newcomer tsx_newcomer;
typedef struct tsx_transaction {
  tsx_array *array; /* NULL once it has ended: cursors may still read what it showed */
  uint32_t references;
  tsr_writer *writer; /* all that changes: appended cells, removed rows */
  tsr_snapshot *base; /* the array without these changes, as it was when the transaction first wrote it */
  char *schema_name; /* the database whose tables write it */
  char *owner; /* that database's file, or NULL */
  struct tsx_savepoint *savepoints;
  uint32_t savepoint_count, savepoint_room;
  uint64_t rewinds; /* counts ways back */
  tsx_newcomer *newcomers;
  bool synced; /* xSync has run */
  bool published; /* in the database: by xSync, in SQLite's own transaction */
  bool alone; /* no other database file was written then */
  unsigned data_version; /* of the database file, then */
} tsx_transaction;
/* The array's; begun if there is none. Borrowed until the transaction ends. Fails where the table is read-only (as_of)
 * or its array missing, and where tables of another database write the array in this transaction. */
int tsx_transaction_of(tsx_table *table, tsx_transaction **transaction, tsr_error *error);
/* Has the open transaction rows for the array at this path? */
bool tsx_transaction_open_on(tsx_connection *connection, const char *path);
/* What statements on the table see now, without times of their own: its state and the transaction's changes. Held;
 * dropped by tsx_snapshot_release. */
int tsx_table_snapshot(tsx_table *table, tsx_snapshot **snapshot, tsr_error *error);
/* Rows of tables whose CREATE has been taken back go: before anybody looks at what is written. */
int tsx_transactions_check(tsx_connection *connection, tsr_error *error);
/* The table is to be dropped: fails if the transaction has rows for its array. */
int tsx_transaction_leave(tsx_table *table, tsr_error *error);
void tsx_transaction_close(tsx_array *array); /* when the array is closed or was not made: what is not synced goes */
/* One that has no rows yet lets go of the state that it has pinned: a function is about to change the array, which the next
 * row, that begins it again, is to be written on. */
void tsx_transaction_rest(tsx_array *array);
void tsx_transaction_drop(tsx_transaction *transaction); /* a reference */
int tsx_begin(sqlite3_vtab *vtab);
/* SQLite's transaction as a callback found it. A statement of ours that runs out of memory, or meets a disk that fails,
 * is fatal to it, even where we can do without its answer; SQLite must not go on as if nothing had happened. */
typedef struct tsx_watch {
  bool open, writes;
} tsx_watch;
tsx_watch tsx_watch_begin(sqlite3 *db, const char *schema_name);
int tsx_fail_rolled_back(sqlite3 *db, tsr_error *error);
int tsx_watch_end(const tsx_watch *watch, sqlite3 *db, const char *schema_name, tsr_error *error);
int tsx_sync(sqlite3_vtab *vtab);
int tsx_commit(sqlite3_vtab *vtab);
int tsx_rollback(sqlite3_vtab *vtab);
int tsx_savepoint(sqlite3_vtab *vtab, int number);
int tsx_release(sqlite3_vtab *vtab, int number);
int tsx_rollback_to(sqlite3_vtab *vtab, int number);

/* ---- journal.c ---- */
/* The table NAME of a database that has `value` under `key` in NAME_config: SQLITE_ROW, and NAME if `name` is not NULL
 * (sqlite3_malloc'ed); SQLITE_DONE where there is none; or what went wrong. */
int tsx_config_find(sqlite3 *db, const char *schema, const char *key, const char *value, char **name);
void tsx_journal_make_id(char id[TSX_ID_SIZE]);
int tsx_journal_find_id(tsx_table *table, tsr_error *error); /* table->id, if it has one */
unsigned tsx_data_version(const tsx_table *table); /* counts up with each commit that reaches its second phase */
/* Owner and durability, as the table's database has them. */
int tsx_journal_options(const tsx_table *table, tsx_transaction *transaction, tsr_writer_options *options,
                        tsr_error *error);
/* Publishes what this database has committed to the table's array and a crash has left, and removes what it has not.
 * Only under the database's write lock. */
int tsx_journal_recover(tsx_table *table, tsr_error *error);
int tsx_journal_write(tsx_table *table, tsr_error *error); /* the prepared commit, into NAME_commits */
/* After an xSync: is it certain that the database has not committed? */
bool tsx_journal_untouched(const tsx_table *table);
/* Has some database of the connection committed it? For tsr_array_options. */
int tsx_journal_committed(void *connection, const char *commit, tsr_error *error);
void tsx_recover(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_recover(path) */

/* ---- update.c ---- */
typedef struct tsx_changes tsx_changes; /* what statements that write a table are about */
/* xUpdate. What fails leaves the writer as it was. */
int tsx_update(sqlite3_vtab *vtab, int count, sqlite3_value **values, sqlite3_int64 *rowid);
/* A row that a statement's scan has chosen, by the number of its cursor (tsx_table.opened). */
void tsx_update_touch(tsx_table *table, uint64_t cursor, int64_t row);
/* That scan has ended. If nothing has come of it when the next one begins, its rows are forgotten: it was no UPDATE. */
void tsx_update_scanned(tsx_table *table, uint64_t cursor);
void tsx_update_forget(tsx_table *table);
void tsx_update_end(tsx_table *table); /* the transaction ends: lets go of all that is held of it */
void tsx_update_free(tsx_table *table);

/* ---- store_sqlite.c, store_tables.c ---- */
typedef struct tsx_tree tsx_tree;
int tsx_store_register(tsx_connection *connection, tsr_error *error);
/* The write lock of the database that a path leads into, waiting for it as long as the host wants: only the failure to
 * get it is one. */
int tsx_store_lock(tsx_connection *connection, const char *path, tsr_error *error);
bool tsx_store_is(const char *path); /* does it lead into the database? */
char *tsx_store_path(const char *schema, const char *name); /* db:SCHEMA.NAME; sqlite3_malloc'ed */
/* Makes the shadow tables of an array, empty. */
int tsx_store_create(tsx_connection *connection, const char *schema, const char *name, tsr_error *error);
/* What an array is known by, whatever its table's name; sqlite3_malloc'ed. TSR_NOT_FOUND where there is none. */
int tsx_store_identity(tsx_connection *connection, const char *path, char **identity, tsr_error *error);
/* Lets go of the read transaction; if `all`, of statements and names too: tables have been renamed, or all are gone. */
void tsx_store_rest(tsx_connection *connection, bool all);
void tsx_store_rolled_back(tsx_connection *connection); /* the same, and what failed in them is over */

/* ---- database.c ---- */
/* Makes the array of a table that lives in the database; `schema` NULL: the one that tsx_database_create makes. */
int tsx_database_make(tsx_table *table, const tsr_schema *schema, const uint8_t *key, tsr_error *error);
/* Runs the CREATE VIRTUAL TABLE of a new array in the database, `name` being a table's, db: before it or not: with all
 * that is in the array `source`; or, where `schema` is given, an empty one of this schema, which differs from the
 * source's as in tsx_ddl_arguments. The source's key comes along. `path`, which may be NULL: where it is, of
 * sqlite3_malloc. */
int tsx_database_create(tsx_connection *connection, const char *name, const tsx_address *source,
                        const tsr_schema *schema, char **path, tsr_error *error);
void tsx_export(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_export(table, path) */
void tsx_import(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_import(table, path) */

/* ---- best_index.c ---- */
/* What idxStr says, decoded. */
typedef struct tsx_term {
  int column;
  tsx_op op;
  bool nocase; /* text, compared without case */
  bool numeric; /* text, perhaps compared as a number where it looks like one */
} tsx_term; /* in the order of xFilter's arguments */
#define TSX_TERMS_MOST 64 /* what is beyond is left to SQLite */
typedef struct tsx_access {
  uint32_t count, order_count;
  tsx_term terms[TSX_TERMS_MOST];
  struct tsx_access_order {
    int column;
    bool descending;
  } order[TSX_TERMS_MOST]; /* by dimensions */
  bool limit, offset; /* are arguments, too, behind those of the terms */
  bool skip; /* the table leaves out the rows of OFFSET itself */
} tsx_access;
int tsx_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);
/* Decodes idxStr against the table's columns; SQLITE_ERROR if it does not fit. */
int tsx_access_decode(const tsx_table *table, const char *text, tsx_access *access);
char *tsx_access_encode(const tsx_table *table, const tsx_access *access);
/* How many arguments xFilter gets. */
uint32_t tsx_access_arguments(const tsx_access *access);

/* ---- cursor.c ---- */
int tsx_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor);
int tsx_cursor_close(sqlite3_vtab_cursor *cursor);
void tsx_cursor_forget(tsx_table *table); /* the one that rests */
int tsx_cursor_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int count, sqlite3_value **values);
int tsx_cursor_next(sqlite3_vtab_cursor *cursor);
int tsx_cursor_eof(sqlite3_vtab_cursor *cursor);
int tsx_cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column);
int tsx_cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid);

/* ---- tables.c ---- */
#define TSX_ARGUMENTS_MOST 4
typedef struct tsx_scan { /* a cursor on a tessera_* table */
  sqlite3_vtab_cursor base;
  tsx_connection *connection;
  sqlite3_value *hidden[TSX_ARGUMENTS_MOST + 3]; /* arguments, key, as_of, since: copies; NULL if not given */
  sqlite3_int64 row;
  bool done;
  void *state; /* the table's own, of sqlite3_malloc; freed by tables.c after its close */
} tsx_scan;

typedef struct tsx_about { /* a tessera_* table: what is its own */
  const char *name, *usage;
  const char *const *columns; /* "name TYPE", ended by NULL */
  int arguments, required; /* hidden arg1, arg2...; how many of them must be given, and not be NULL */
  int same; /* the shown column that is just its arg1, or -1 */
  double rows; /* an estimate */
  uint64_t state_size; /* zeroed before `open` */
  int (*open)(tsx_scan *scan, tsr_error *error); /* the scan stands before the first row */
  int (*next)(tsx_scan *scan, tsr_error *error); /* 1 and a row, 0 at the end */
  int (*column)(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error);
  void (*close)(tsx_scan *scan); /* also where open failed; may be NULL */
} tsx_about;
static inline sqlite3_value *tsx_scan_argument(const tsx_scan *scan, int i) { return scan->hidden[i]; }
int tsx_register_tables(tsx_connection *connection);
/* The address that a scan's arg1, key, as_of and since make; `arguments` is how many its table has. */
int tsx_scan_address(tsx_scan *scan, int arguments, tsx_address *address, tsr_error *error);

/* ---- tables_array.c, tables_group.c, tables_check.c, tables_aggregate.c ---- */
typedef struct tsx_inside { /* what tables that look inside an array have at hand; first in their states */
  tsx_address address;
  tsx_snapshot *snapshot; /* NULL where only the schema is asked for */
  const tsr_schema *schema;
  char **names;
} tsx_inside;
int tsx_inside_open(tsx_scan *scan, int arguments, bool fragments, tsr_error *error);
void tsx_inside_close(tsx_scan *scan);
extern const tsx_about tsx_about_array, tsx_about_schema, tsx_about_enumeration, tsx_about_fragments, tsx_about_tiles;
extern const tsx_about tsx_about_check, tsx_about_aggregate, tsx_about_partitions, tsx_about_advise;
/* xIntegrity of array tables: PRAGMA integrity_check, and quick_check (bit 0 of the flags). */
int tsx_integrity(sqlite3_vtab *vtab, const char *schema, const char *name, int flags, char **message);
extern const tsx_about tsx_about_metadata, tsx_about_members, tsx_about_objects;

/* ---- functions_maintain.c ---- */
void tsx_consolidate(sqlite3_context *context, int count, sqlite3_value **values); /* (path[, what[, options]]) */
void tsx_vacuum(sqlite3_context *context, int count, sqlite3_value **values); /* (path[, what]) */

/* ---- functions_copy.c ---- */
void tsx_copy(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_copy(from, to[, options]) */

/* ---- functions.c ---- */
int tsx_register_functions(tsx_connection *connection);
/* Before a function changes what lies at a path: in the database, all of it or nothing happens, and "db:", a path without
 * a table, leaves it to the first statement to lock. Call tsx_function_end after a failure, too. */
int tsx_function_begin(tsx_connection *connection, const char *path, tsr_error *error);
/* The array or group at the path that is a function's argument, which the function changes; `begin` is called, too, and
 * the host's interrupts are asked for until it is closed. To be closed after a failure, too. */
typedef struct tsx_target { /* `= {0}` then close is safe */
  tsx_address address;
  tsr_group *group; /* NULL: an array, address.array */
} tsx_target;
int tsx_target_open(tsx_connection *connection, sqlite3_value *path, tsx_target *target, tsr_error *error);
void tsx_target_close(tsx_target *target);
/* Ends that, and gives an error, where `code` is one, the name of the function that fails. Of functions only. */
void tsx_function_end(sqlite3_context *context, const char *function, int code, const tsr_error *error);
/* The first `texts` arguments, as far as they are given, are text. */
int tsx_arguments_check(int count, sqlite3_value **values, int texts, tsr_error *error);

/* ---- npy.c ---- */
/* The attribute that a table shows under a name; `array` is how the caller calls the array. */
int tsx_attribute_find(const tsr_schema *schema, const char *array, const char *name, uint32_t *field,
                       tsr_error *error);
void tsx_npy(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_write_npy(sqlite3_context *context, int count, sqlite3_value **values);

/* ---- png.c ---- */
typedef struct tsx_colours { /* a colour map laid over a range of values */
  bool split; /* another map below 0, where the range has 0 inside */
  double low, high;
  uint8_t below[256][4], map[256][4], nodata[4]; /* RGBA */
} tsx_colours;
/* The map `name` over low..high; `nodata` is left as it is. TSR_ERROR, naming all, where none is called so. */
int tsx_colours_make(const char *name, double low, double high, tsx_colours *colours, tsr_error *error);
const uint8_t *tsx_colour_of(const tsx_colours *colours, double value); /* NaN: nodata */
/* "transparent", a few names, "#rrggbb", "#rrggbbaa" */
int tsx_colour_parse(const char *text, uint8_t colour[4], tsr_error *error);
/* A PNG file of RGBA, of sqlite3_malloc. `row` gives one row of 4 * width bytes after the other, the highest first;
 * TSR_TOOBIG where the file is larger than `limit` bytes. */
typedef int (*tsx_png_row)(void *argument, uint64_t y, uint8_t *row, tsr_error *error);
int tsx_png_encode(uint32_t width, uint32_t height, tsx_png_row row, void *argument, uint64_t limit, uint8_t **file,
                   uint64_t *size, tsr_error *error);

/* ---- picture.c ---- */
void tsx_png(sqlite3_context *context, int count, sqlite3_value **values); /* (path, attribute[, slice[, options]]) */
void tsx_preview(sqlite3_context *context, int count, sqlite3_value **values); /* the same */

/* ---- restrict.c ---- */
int tsx_restrict_permits(void *argument, const char *path, tsr_error *error); /* of a connection: TSR_PERM if not */
void tsx_restrict(sqlite3_context *context, int count, sqlite3_value **values);

/* ---- functions_change.c: see sql.md, "Functions" ---- */
void tsx_set_metadata(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_delete_metadata(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_add_attribute(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_drop_attribute(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_extend_enumeration(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_expand_domain(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_create_group(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_add_member(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_remove_member(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_drop_array(sqlite3_context *context, int count, sqlite3_value **values);

#endif
