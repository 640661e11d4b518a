/* definition.h: the text of CREATE VIRTUAL TABLE, up to the schema that it asks for.
 *
 *   tokens.c      SQL text as tokens
 *   literals.c    values as text -> bytes of cells
 *   arguments.c   the module's arguments -> path, options, texts of columns
 *   columns.c     column definitions and filter lists as text
 *   define.c      column definitions -> a schema
 */
#ifndef TSX_DEFINITION_H
#define TSX_DEFINITION_H

#include "connection.h"

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
/* What a whole number means as a datetime or time in ISO text's place: the value itself if it has no text, else the
 * digits are a year's. */
int tsx_time_of_integer(tsr_datatype datatype, int64_t number, void *value, tsr_error *error);
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
/* What the tile extent of a dimension is a number of: of floats the datatype itself, else unsigned. */
tsr_datatype tsx_extent_datatype(tsr_datatype datatype);
tsr_datatype tsx_code_datatype(uint64_t labels); /* of the codes of an enumeration that is made */
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

/* ---- creatable.c ---- */
/* A schema as CREATE takes it: what it refuses is left out. Its fields and filters are the definition's, which is empty at first
 * and released by the caller, also after a failure; all else is the source's. */
int tsx_creatable(const tsr_schema *source, tsx_definition *definition, tsr_error *error);
/* The same of a pipeline alone, for the datatype of a field: the filters that may stand there, in their order. */
int tsx_filters_keep(tsx_definition *definition, const tsr_field *field, tsr_pipeline *pipeline, tsr_error *error);

/* ---- ddl.c: the same words, the other way ---- */
const char *tsx_filter_name(tsr_filter_type type); /* "zstd"; NULL for none and what is no filter */
void tsx_filters_append(sqlite3_str *out, const tsr_pipeline *pipeline);
/* What a field's values go through: a dimension without filters of its own takes those of the coordinates. */
const tsr_pipeline *tsx_filters_of(const tsr_schema *schema, uint32_t field);
const char *tsx_order_name(tsr_order order);

#endif
