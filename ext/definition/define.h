/* define.h: from the column definitions of CREATE VIRTUAL TABLE ... USING tessera(...) to a schema.
 *
 * columns.c parses the text into its structure: names, datatypes, literals, filters; checks.c finds CHECK constraints.
 * define.c makes a schema of it, and makes any TileDB schema acceptable to CREATE. */
#ifndef TSX_DEFINITION_DEFINE_H
#define TSX_DEFINITION_DEFINE_H

#include "tessera.h"
#include "sql/arena.h"
#include "sql/tokens.h"

#define TSX_CELL_MAX ((uint64_t)16 << 20) /* bytes of a cell of fixed length: the schema holds its fill value */

/* ---- The result -------------------------------------------------------------------------------------------------- */

typedef struct tsx_definition { /* the result of tsx_define; release it by tsx_definition_release, `= {0}` too */
  tsr_schema schema;
  bool encrypted;
  struct tsx_check_text *checks; /* the first CHECK constraint, or NULL */
  tsx_arena arena; /* all memory of the definition */
} tsx_definition;

/* ---- columns.c: column definitions and filter lists -------------------------------------------------------------- */

typedef struct tsx_parser {
  tsx_definition *definition; /* owns what is parsed (tsx_parser_alloc) */
  tsx_tokens in;
  const char *noun, *name; /* messages begin with them: "column", "temp" */
  tsr_error *error;
} tsx_parser;

typedef struct tsx_literal {
  tsx_token_kind kind; /* NUMBER, STRING or BLOB; WORD: NULL; END: absent */
  char *text; /* NUL-terminated; a number with its sign, a blob decoded */
  uint64_t size; /* in bytes */
} tsx_literal;

typedef struct tsx_domain_text { /* of a dimension; absent ones have kind END */
  tsx_literal low, high, extent, current_low, current_high;
} tsx_domain_text;

typedef struct tsx_enum_text { /* the clause ENUM */
  bool given, ordered;
  tsx_literal *labels;
  uint64_t count;
} tsx_enum_text;

typedef struct tsx_column_text { /* one column definition */
  char *name;
  tsr_datatype datatype; /* with ENUM: datatype of the labels */
  uint32_t values_per_cell;
  bool is_dimension, not_null, null, duration, has_filters;
  tsx_domain_text domain;
  tsx_literal fill;
  tsr_pipeline filters;
  tsx_enum_text enumeration;
  struct tsx_column_text *label; /* the dimension's first label, or the next one of the same dimension; or NULL */
  bool descending; /* of a label: DECREASING */
} tsx_column_text;

/* Each sets an error whose message begins with noun and name, and returns its code. tsx_parser_fail takes a format;
 * tsx_parser_wrap prepends `what` to the present error's message; tsx_parser_unexpected reports that the parser
 * expected `expected` instead of the current token. */
int tsx_parser_fail(tsx_parser *p, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int tsx_parser_wrap(tsx_parser *p, const char *what);
int tsx_parser_unexpected(tsx_parser *p, const char *expected);

bool tsx_parser_accept(tsx_parser *p, const char *word); /* skips the current token if it is this word or mark */
int tsx_parser_expect(tsx_parser *p, const char *word); /* the same; TSR_ERROR if it is not */

static inline bool tsx_literal_is_null(const tsx_literal *value) { return value->kind == TSX_TOKEN_WORD; }

/* Converts a literal to one number, BOOL, datetime or time. `out` has room for 8 bytes; `what` names the value in
 * messages. tsx_literal_integer accepts only literals that are written as numbers. */
int tsx_literal_number(tsx_parser *p, const tsx_literal *value, tsr_datatype datatype, void *out, const char *what);
int tsx_literal_integer(tsx_parser *p, const tsx_literal *value, tsr_datatype datatype, void *out, const char *what);

static inline bool tsx_datatype_is_bytes(tsr_datatype datatype) { /* true for strings and opaque bytes */
  tsr_kind kind = tsr_datatype_kind(datatype);
  return kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES;
}

/* A filter with the default values of its options. */
#define TSX_FILTER(t)                                                                                                  \
  (tsr_filter) {                                                                                                       \
    .type = (t), .level = -1, .reinterpret = TSR_ANY, .window = (t) == TSR_FILTER_POSITIVE_DELTA ? 1024 : 256,         \
    .scale = 1, .byte_width = 8                                                                                        \
  }

/* Parses a filter list up to a closing parenthesis, which is not consumed, or to the end. */
int tsx_filters_parse(tsx_parser *p, tsr_pipeline *pipeline);

/* Parses a column definition, all of `text`. With `alone`, it is the only definition of a call: a comma is an error,
 * and messages do not mention options, which CREATE VIRTUAL TABLE accepts instead of a column. */
int tsx_column_parse(tsx_parser *p, const char *text, bool alone, tsx_column_text *column);

/* ---- checks.c: CHECK constraints --------------------------------------------------------------------------------- */

typedef struct tsx_check_text {
  char *name, *text; /* the text of the condition, without its parentheses; not parsed yet */
  struct tsx_check_text *next;
} tsx_check_text;

/* Parses [CONSTRAINT name] CHECK(condition), and appends it to the definition. Without a name it gets that of the
 * column; `column` is NULL if it stands instead of one: check1, check2, ... */
int tsx_check_parse(tsx_parser *p, const char *column);

/* Returns true if an argument of CREATE VIRTUAL TABLE is a constraint and no column. */
bool tsx_check_is(const char *text);

/* Parses such an argument. */
int tsx_check_parse_alone(tsx_parser *p, const char *text);

/* Adds the definition's constraints to an array (tsr_array_add_constraint). */
int tsx_checks_add(const tsx_definition *definition, tsr_array *array, bool untested, tsr_error *error);

/* ---- define.c: schemas that CREATE accepts ----------------------------------------------------------------------- */
/* For tessera_copy and tessera_ddl: turn the schema of any TileDB array into one that CREATE VIRTUAL TABLE accepts. */

/* Sets definition->schema to the source's schema without what CREATE rejects. The definition owns the fields and
 * filters; everything else is borrowed from the source. Pass a zeroed definition; release it, also after an error. */
int tsx_creatable(const tsr_schema *source, tsx_definition *definition, tsr_error *error);

/* Sets the array of label number `label` of definition->schema in the same way: `source` is the schema of the label's
 * array. */
int tsx_creatable_label(const tsr_schema *source, tsx_definition *definition, uint32_t label, tsr_error *error);

/* Removes from one pipeline the filters that are not allowed at their position for the field's datatype. The definition
 * owns the new filters. */
int tsx_filters_keep(tsx_definition *definition, const tsr_field *field, tsr_pipeline *pipeline, tsr_error *error);

/* ---- define.c: the schema of a definition ------------------------------------------------------------------------ */
/* Makes a schema from the column definitions and creation options of CREATE VIRTUAL TABLE, or from the definition of
 * one attribute. */

typedef struct tsx_definition tsx_definition;
typedef struct tsx_options tsx_options;
typedef struct tsx_parser tsx_parser;

#define TSX_FORMAT_DEFAULT 22

/* Returns zeroed memory that tsx_definition_release frees; or NULL, and sets p->error unless that is NULL. */
void *tsx_parser_alloc(tsx_parser *p, uint64_t size);

/* Returns the datatype of a tile extent: for floats the dimension's own, for all others the unsigned integer of the
 * same size. */
tsr_datatype tsx_extent_datatype(tsr_datatype datatype);

/* Returns the datatype of the codes of a new enumeration with this number of labels. */
tsr_datatype tsx_code_datatype(uint64_t labels);

/* Makes the schema that the column definitions and creation options ask for. The caller releases the definition; after
 * an error it is released already. */
int tsx_define(const tsx_options *options, tsx_definition *definition, tsr_error *error);

/* Fails unless the columns ask for an array like the one with the schema `there`: of the same kind, with the same
 * dimensions and attributes, in names, types, domains, extents, NULL and enumerations. Labels of enumerations, current
 * domains, filters and orders may differ. `path` names the array in messages. */
int tsx_define_agrees(const tsx_options *options, const tsr_schema *there, const char *path, tsr_error *error);

/* Makes a schema whose only field is the attribute that `text` defines, with its enumeration if it has one. */
int tsx_define_attribute(const char *text, tsx_definition *definition, tsr_error *error);
void tsx_definition_release(tsx_definition *definition);

#endif
