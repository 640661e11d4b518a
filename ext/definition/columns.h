/* columns.h: what column definitions and filter lists of CREATE VIRTUAL TABLE say. */
#ifndef TSX_COLUMNS_H
#define TSX_COLUMNS_H

#include "tessera.h"
#include "text/tokens.h"

#define TSX_CELL_MAX ((uint64_t)16 << 20) /* bytes of a cell of fixed length: the schema holds its fill value */

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
  (tsr_filter) {                                                                                                       \
    .type = (t), .level = -1, .reinterpret = TSR_ANY, .window = (t) == TSR_FILTER_POSITIVE_DELTA ? 1024 : 256,         \
    .scale = 1, .byte_width = 8                                                                                        \
  }
int tsx_filters_parse(tsx_parser *p, tsr_pipeline *pipeline); /* up to, not with, a closing parenthesis or the end */

/* `alone`: no option may stand in its place (for messages). */
int tsx_column_parse(tsx_parser *p, const char *text, bool alone, tsx_column_text *column);

#endif
