/* columns.c: parses the column definitions and filter lists of CREATE VIRTUAL TABLE ... USING tessera(...), by
 * recursive descent over this grammar:
 *
 *   column   name type clause...
 *   type     WORD | VARCHAR(n) | TEXT(n), then [n] or [] for several values in a cell
 *   clause   DIMENSION [(low, high [, extent])] | CURRENT(low, high) | NOT NULL | NULL | DEFAULT literal
 *            | DURATION | FILTERS(filters) | ENUM(literal, ...) [ORDERED]                     in any order, each once
 *            | [CONSTRAINT name] CHECK(condition)                                  any number of them (checks.c)
 *            | LABEL name type [DURATION] [INCREASING | DECREASING] [FILTERS(filters)]        any number of them
 *   filters  [chunk(bytes),] none | filter [(argument, ...)], ...
 *   literal  [+|-] number | 'text' | x'bytes' | NULL | TRUE | FALSE
 *
 * This file checks only the syntax, and the arguments of filters. define.c checks whether the clauses fit the
 * column. */
#include "definition/define.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/names.h"
#include "sql/literals.h"
#include "tessera_host.h"

#define COLUMNS_CHUNK_DEFAULT 65536
#define COLUMNS_FILTERS_MAX   64
#define ARGUMENTS_MAX         3

/* ---- Messages --------------------------------------------------------------------------------------------------- */

int tsx_parser_fail(tsx_parser *p, int code, const char *format, ...) {
  tsr_error what;
  va_list arguments;
  va_start(arguments, format);
  (void)tsr_error_set(&what, code, format, arguments);
  va_end(arguments);
  return tsx_fail(p->error, code, "%s %.100s: %s", p->noun, p->name, what.message);
}

int tsx_parser_wrap(tsx_parser *p, const char *what) {
  if (p->error->code == TSR_NOMEM) return TSR_NOMEM;
  return tsx_parser_fail(p, p->error->code, "%s: %.800s", what, p->error->message);
}

int tsx_parser_unexpected(tsx_parser *p, const char *expected) {
  const tsx_token *t = &p->in.token;
  if (t->kind == TSX_TOKEN_END) return tsx_parser_fail(p, TSR_ERROR, "expected %s, found the end", expected);
  return tsx_parser_fail(p, TSR_ERROR, "expected %s, found %.*s", expected, (int)(t->size < 60 ? t->size : 60),
                         t->text);
}

/* ---- Words and literals ----------------------------------------------------------------------------------------- */

bool tsx_parser_accept(tsx_parser *p, const char *word) {
  if (!tsx_token_is(&p->in.token, word)) return false;
  tsx_tokens_next(&p->in);
  return true;
}

int tsx_parser_expect(tsx_parser *p, const char *word) {
  char quoted[20];
  if (tsx_parser_accept(p, word)) return TSR_OK;
  sqlite3_snprintf((int)sizeof quoted, quoted, "'%s'", word);
  return tsx_parser_unexpected(p, quoted);
}

/* Returns a copy of the current token's value, owned by the definition, or NULL with an error. */
static char *copy_token(tsx_parser *p, uint64_t *size) {
  char *text = tsx_parser_alloc(p, p->in.token.size + 1);
  if (!text) return NULL;
  *size = tsx_token_copy(&p->in.token, text);
  if (*size == TSX_TOKEN_INVALID) {
    tsx_parser_unexpected(p, "a pair of hex digits for each byte");
    return NULL;
  }
  return text;
}

static int parse_literal(tsx_parser *p, tsx_literal *value) {
  bool negative = tsx_token_is(&p->in.token, "-");
  bool has_sign = negative || tsx_token_is(&p->in.token, "+");
  if (has_sign) tsx_tokens_next(&p->in);
  const tsx_token *t = &p->in.token;
  bool yes = tsx_token_is(t, "TRUE"), word = yes || tsx_token_is(t, "FALSE") || tsx_token_is(t, "NULL");
  bool plain = word || t->kind == TSX_TOKEN_STRING || t->kind == TSX_TOKEN_BLOB;
  if (t->kind != TSX_TOKEN_NUMBER && (has_sign || !plain)) return tsx_parser_unexpected(p, "a value");
  if (word && !tsx_token_is(t, "NULL")) { /* TRUE and FALSE are the numbers 1 and 0 in SQL */
    *value = (tsx_literal){TSX_TOKEN_NUMBER, yes ? "1" : "0", 1};
    tsx_tokens_next(&p->in);
    return TSR_OK;
  }
  tsx_literal found = {.kind = t->kind};
  if (!(found.text = copy_token(p, &found.size))) return p->error->code;
  if (negative) {
    char *text = tsx_parser_alloc(p, found.size + 2);
    if (!text) return TSR_NOMEM;
    text[0] = '-';
    memcpy(text + 1, found.text, found.size + 1);
    found.text = text;
    found.size++;
  }
  *value = found;
  tsx_tokens_next(&p->in);
  return TSR_OK;
}

int tsx_literal_number(tsx_parser *p, const tsx_literal *value, tsr_datatype datatype, void *out, const char *what) {
  if (value->kind == TSX_TOKEN_BLOB || strlen(value->text) != value->size)
    return tsx_parser_fail(p, TSR_MISMATCH, "%s: bytes are not a valid %s", what, tsr_datatype_name(datatype));
  if (tsx_number_parse(datatype, value->text, value->kind == TSX_TOKEN_STRING, out, p->error) < 0)
    return tsx_parser_wrap(p, what);
  return TSR_OK;
}

int tsx_literal_integer(tsx_parser *p, const tsx_literal *value, tsr_datatype datatype, void *out, const char *what) {
  if (value->kind != TSX_TOKEN_NUMBER) return tsx_parser_fail(p, TSR_ERROR, "%s: expected an integer", what);
  return tsx_literal_number(p, value, datatype, out, what);
}

/* ---- Filters ---------------------------------------------------------------------------------------------------- */

static int parse_arguments(tsx_parser *p, tsx_literal *arguments, int *count) {
  *count = 0;
  if (!tsx_parser_accept(p, "(")) return TSR_OK;
  do {
    if (*count == ARGUMENTS_MAX) return tsx_parser_unexpected(p, "')'");
    tsx_literal *argument = &arguments[(*count)++];
    if (p->in.token.kind == TSX_TOKEN_WORD) { /* a datatype's name */
      argument->kind = TSX_TOKEN_WORD;
      if (!(argument->text = copy_token(p, &argument->size))) return p->error->code;
      tsx_tokens_next(&p->in);
    } else {
      int code = parse_literal(p, argument);
      if (code < 0) return code;
    }
  } while (tsx_parser_accept(p, ","));
  return tsx_parser_expect(p, ")");
}

static int find_datatype(const char *name, uint64_t size) {
  for (int i = 0; i < TSR_DATATYPE_COUNT; i++) {
    const char *other = tsr_datatype_name((tsr_datatype)i);
    if (strlen(other) == size && !sqlite3_strnicmp(other, name, (int)size)) return i;
  }
  return -1;
}

/* Checks a compression level against its codec's range. -1: no level was given. */
static int check_level(tsx_parser *p, const tsr_filter *filter) {
  const int level = filter->level;
  int low = INT32_MIN, high = INT32_MAX;
  if (filter->type == TSR_FILTER_GZIP) low = 0, high = 9;
  if (filter->type == TSR_FILTER_ZSTD) low = -7, high = 22;
  if (filter->type == TSR_FILTER_BZIP2) low = 1, high = 9;
  if (level == -1 || (level >= low && level <= high)) return TSR_OK;
  return tsx_parser_fail(p, TSR_RANGE, "%s(%d): levels are %d to %d", tsx_filter_name(filter->type), level, low, high);
}

static int set_scale(tsx_parser *p, const tsx_literal *arguments, int count, const char *name, tsr_filter *filter) {
  if (count == 0) return TSR_OK;
  if (count != 3) return tsx_parser_fail(p, TSR_ERROR, "scale_float takes (bytewidth, factor, offset)");
  TSX_TRY(tsx_literal_integer(p, arguments, TSR_UINT64, &filter->byte_width, name));
  TSX_TRY(tsx_literal_number(p, arguments + 1, TSR_FLOAT64, &filter->scale, name));
  return tsx_literal_number(p, arguments + 2, TSR_FLOAT64, &filter->offset, name);
}

/* Sets a filter's options from its `count` arguments. */
static int set_arguments(tsx_parser *p, const tsx_literal *arguments, int count, tsr_filter *filter) {
  const char *name = tsx_filter_name(filter->type);
  int max_count = 0;
  switch (filter->type) {
  case TSR_FILTER_GZIP:
  case TSR_FILTER_ZSTD:
  case TSR_FILTER_LZ4:
  case TSR_FILTER_BZIP2:
    max_count = 1;
    if (count == 1) TSX_TRY(tsx_literal_integer(p, arguments, TSR_INT32, &filter->level, name));
    TSX_TRY(check_level(p, filter));
    break;
  case TSR_FILTER_BIT_WIDTH_REDUCTION:
  case TSR_FILTER_POSITIVE_DELTA:
    max_count = 1;
    if (count == 1) TSX_TRY(tsx_literal_integer(p, arguments, TSR_UINT32, &filter->window, name));
    break;
  case TSR_FILTER_DELTA:
  case TSR_FILTER_DOUBLE_DELTA: {
    max_count = 1;
    int datatype = count == 1 ? find_datatype(arguments->text, arguments->size) : TSR_ANY;
    if (datatype < 0) return tsx_parser_fail(p, TSR_ERROR, "%s: %.60s is not a datatype", name, arguments->text);
    filter->reinterpret = (uint8_t)datatype;
    break;
  }
  case TSR_FILTER_SCALE_FLOAT: return set_scale(p, arguments, count, name, filter);
  default: break;
  }
  if (count <= max_count) return TSR_OK;
  return tsx_parser_fail(p, TSR_ERROR, "%s takes %d arguments, not %d", name, max_count, count);
}

static int unknown_filter(tsx_parser *p) {
  const tsx_token *t = &p->in.token;
  char all[300] = "";
  for (int type = 1; type <= TSR_FILTER_DELTA; type++) {
    const char *name = tsx_filter_name((tsr_filter_type)type);
    size_t size = strlen(all);
    if (name && type != TSR_FILTER_AES_256_GCM && type != TSR_FILTER_WEBP)
      sqlite3_snprintf((int)(sizeof all - size), all + size, "%s%s", size ? ", " : "", name);
  }
  return tsx_parser_fail(p, TSR_ERROR, "unknown filter %.*s (filters are %s)", (int)(t->size < 60 ? t->size : 60),
                         t->text, all);
}

static int parse_filter(tsx_parser *p, tsr_filter *filter) {
  tsx_literal arguments[ARGUMENTS_MAX] = {0};
  int count, type = TSR_FILTER_DELTA;
  const tsx_token *t = &p->in.token;
  if (t->kind != TSX_TOKEN_WORD) return tsx_parser_unexpected(p, "a filter");
  while (type && !(tsx_filter_name((tsr_filter_type)type) && tsx_token_is(t, tsx_filter_name((tsr_filter_type)type))))
    type--;
  if (tsx_token_is(t, "none")) return tsx_parser_fail(p, TSR_ERROR, "none cannot be combined with other filters");
  if (tsx_token_is(t, "chunk")) return tsx_parser_fail(p, TSR_ERROR, "chunk must come first");
  if (!type) return unknown_filter(p);
  if (type == TSR_FILTER_AES_256_GCM)
    return tsx_parser_fail(p, TSR_ERROR,
                           "aes_256_gcm is not a filter of a column: the option encryption=aes_256_gcm encrypts all");
  if (type == TSR_FILTER_WEBP) return tsx_parser_fail(p, TSR_UNSUPPORTED, "filter webp is not supported");
  tsx_tokens_next(&p->in);
  *filter = TSX_FILTER((tsr_filter_type)type);
  int code = parse_arguments(p, arguments, &count);
  return code < 0 ? code : set_arguments(p, arguments, count, filter);
}

/* Parses `(size)` after the word CHUNK. */
static int parse_chunk_size(tsx_parser *p, tsr_pipeline *pipeline) {
  tsx_literal size = {0};
  TSX_TRY(tsx_parser_expect(p, "("));
  TSX_TRY(parse_literal(p, &size));
  TSX_TRY(tsx_literal_integer(p, &size, TSR_UINT32, &pipeline->max_chunk_size, "chunk"));
  TSX_TRY(tsx_parser_expect(p, ")"));
  pipeline->uncut = pipeline->max_chunk_size == 0;
  return TSR_OK;
}

int tsx_filters_parse(tsx_parser *p, tsr_pipeline *pipeline) {
  tsr_filter filters[COLUMNS_FILTERS_MAX];
  *pipeline = (tsr_pipeline){.max_chunk_size = COLUMNS_CHUNK_DEFAULT};
  if (tsx_parser_accept(p, "chunk")) {
    TSX_TRY(parse_chunk_size(p, pipeline));
    if (!tsx_parser_accept(p, ",")) return TSR_OK;
  }
  if (tsx_parser_accept(p, "none"))
    return tsx_token_is(&p->in.token, ",") ? tsx_parser_fail(p, TSR_ERROR, "none cannot be combined with other filters")
                                           : TSR_OK;
  do {
    if (pipeline->count == COLUMNS_FILTERS_MAX)
      return tsx_parser_fail(p, TSR_ERROR, "more than %d filters", COLUMNS_FILTERS_MAX);
    TSX_TRY(parse_filter(p, &filters[pipeline->count++]));
  } while (tsx_parser_accept(p, ","));
  pipeline->filters = tsx_parser_alloc(p, pipeline->count * sizeof(tsr_filter));
  if (!pipeline->filters) return TSR_NOMEM;
  memcpy(pipeline->filters, filters, pipeline->count * sizeof(tsr_filter));
  return TSR_OK;
}

/* ---- Types ------------------------------------------------------------------------------------------------------ */

static const struct {
  const char *name;
  tsr_datatype datatype;
} sql_types[] = {{"TEXT", TSR_UTF8},
                 {"VARCHAR", TSR_UTF8},
                 {"INTEGER", TSR_INT64},
                 {"INT", TSR_INT64},
                 {"BIGINT", TSR_INT64},
                 {"SMALLINT", TSR_INT16},
                 {"TINYINT", TSR_INT8},
                 {"REAL", TSR_FLOAT64},
                 {"DOUBLE", TSR_FLOAT64},
                 {"FLOAT", TSR_FLOAT64},
                 {"BOOLEAN", TSR_BOOL},
                 {"DATE", TSR_DATETIME_DAY},
                 {"DATETIME", TSR_DATETIME_MS},
                 {"TIMESTAMP", TSR_DATETIME_MS}};

typedef struct columns_synonym {
  const char *name, *ours;
} columns_synonym;

/* Type names of other databases, and the ones to use here: error messages suggest these. */
static const columns_synonym other_types[] = {{"STRING", "TEXT"},     {"STR", "TEXT"},       {"CLOB", "TEXT"},
                                              {"NVARCHAR", "TEXT"},   {"CHARACTER", "TEXT"}, {"NUMERIC", "FLOAT64"},
                                              {"DECIMAL", "FLOAT64"}, {"NUMBER", "FLOAT64"}, {"BINARY", "BLOB"},
                                              {"VARBINARY", "BLOB"},  {"BYTES", "BLOB"},     {"UNSIGNED", "UINT64"},
                                              {"UINT", "UINT64"},     {"LONG", "INT64"},     {"HALF", "FLOAT32"},
                                              {"FLOAT16", "FLOAT32"}, {"TIME", "TIME_SEC"},  {"CATEGORY", "TEXT ENUM"}};

/* The same for what follows DATETIME_ and TIME_: numpy's letters, and whole words. In numpy `M` is a month and `m` a
 * minute; a type has no case. */
static const columns_synonym other_units[] = {
    {"Y", "YEAR"},   {"M", "MONTH or _MIN"}, {"W", "WEEK"},       {"D", "DAY"},      {"H", "HR"},
    {"HOUR", "HR"},  {"MINUTE", "MIN"},      {"S", "SEC"},        {"SECOND", "SEC"}, {"MSEC", "MS"},
    {"MILLI", "MS"}, {"MILLISECOND", "MS"},  {"USEC", "US"},      {"MICRO", "US"},   {"MICROSECOND", "US"},
    {"NSEC", "NS"},  {"NANO", "NS"},         {"NANOSECOND", "NS"}};

/* Returns what a unit is called here, or NULL. It may be in the plural. */
static const char *known_unit(const char *unit, uint64_t size) {
  for (size_t i = 0; i < sizeof other_units / sizeof *other_units; i++) {
    const uint64_t length = strlen(other_units[i].name);
    const bool plural = size == length + 1 && length > 1 && toupper((unsigned char)unit[length]) == 'S';
    if ((size == length || plural) && !sqlite3_strnicmp(unit, other_units[i].name, (int)length))
      return other_units[i].ours;
  }
  return NULL;
}

/* Returns true if one letter more, less or another, or two neighbours in the other order, make a word of the other. */
static bool one_letter_apart(const char *a, uint64_t a_size, const char *b, uint64_t b_size) {
  uint64_t same = 0, end = 0;
  const uint64_t least = a_size < b_size ? a_size : b_size;
  if ((a_size > b_size ? a_size - b_size : b_size - a_size) > 1) return false;
  while (same < least && toupper((unsigned char)a[same]) == toupper((unsigned char)b[same])) same++;
  while (end < least - same &&
         toupper((unsigned char)a[a_size - 1 - end]) == toupper((unsigned char)b[b_size - 1 - end]))
    end++;
  const uint64_t a_left = a_size - same - end, b_left = b_size - same - end;
  return (a_left <= 1 && b_left <= 1) || (a_left == 2 && b_left == 2 && !sqlite3_strnicmp(a + same, b + same + 1, 1) &&
                                          !sqlite3_strnicmp(a + same + 1, b + same, 1));
}

/* Gives the type that an unknown one may stand for, in two pieces; "" if none is near. */
static void near_type(const char *text, uint64_t size, const char *piece[2]) {
  static const char *const with_units[] = {"DATETIME_", "TIME_"};
  piece[0] = piece[1] = "";
  for (size_t i = 0; i < sizeof other_types / sizeof *other_types; i++)
    if (strlen(other_types[i].name) == size && !sqlite3_strnicmp(text, other_types[i].name, (int)size))
      piece[0] = other_types[i].ours;
  for (size_t i = 0; i < 2 && !*piece[0]; i++) {
    const uint64_t length = strlen(with_units[i]);
    if (size <= length || sqlite3_strnicmp(text, with_units[i], (int)length) != 0) continue;
    const char *unit = known_unit(text + length, size - length);
    if (unit) piece[0] = with_units[i], piece[1] = unit;
  }
  for (size_t i = 0; i < sizeof sql_types / sizeof *sql_types && !*piece[0] && size > 2; i++)
    if (one_letter_apart(text, size, sql_types[i].name, strlen(sql_types[i].name))) piece[0] = sql_types[i].name;
  for (int i = 0; i < TSR_DATATYPE_COUNT && !*piece[0] && size > 2; i++) {
    const char *name = tsr_datatype_name((tsr_datatype)i);
    if (one_letter_apart(text, size, name, strlen(name))) piece[0] = name;
  }
}

static int unknown_type(tsx_parser *p) {
  const tsx_token *t = &p->in.token;
  const char *meant[2];
  near_type(t->text, t->size, meant);
  return tsx_parser_fail(p, TSR_ERROR,
                         "unknown type %.*s%s%s%s (types are INT8 to INT64, UINT8 to UINT64, FLOAT32, FLOAT64, BOOL, "
                         "TEXT, BLOB, DATE, TIMESTAMP and others of TileDB and SQL)",
                         (int)(t->size < 60 ? t->size : 60), t->text, *meant[0] ? ": say " : "", meant[0], meant[1]);
}

/* Parses [n] or [], which the tokenizer sees as a name in brackets. */
static int parse_count(tsx_parser *p, tsx_column_text *c) {
  tsx_token *t = &p->in.token;
  if (t->kind != TSX_TOKEN_NAME || t->text[0] != '[') return TSR_OK;
  uint64_t size;
  char *text = copy_token(p, &size);
  if (!text) return p->error->code;
  tsx_tokens inside = tsx_tokens_of(text);
  if (inside.token.kind == TSX_TOKEN_END) {
    c->values_per_cell = TSR_VARIABLE;
  } else {
    tsx_literal count = {inside.token.kind, text + (inside.token.text - text), inside.token.size};
    uint32_t n = 0;
    tsx_tokens_next(&inside);
    if (count.kind != TSX_TOKEN_NUMBER || inside.token.kind != TSX_TOKEN_END)
      return tsx_parser_fail(p, TSR_ERROR, "[%.60s]: expected a number of values, or nothing", text);
    count.text[count.size] = 0;
    int code = tsx_literal_integer(p, &count, TSR_UINT32, &n, "number of values");
    if (code < 0) return code;
    if (!n || n * tsr_datatype_size(c->datatype) > TSX_CELL_MAX)
      return tsx_parser_fail(p, TSR_RANGE, "a cell of %s has 1 to %llu values, not %u", tsr_datatype_name(c->datatype),
                             (unsigned long long)(TSX_CELL_MAX / tsr_datatype_size(c->datatype)), (unsigned)n);
    if (c->datatype == TSR_ANY) return tsx_parser_fail(p, TSR_ERROR, "ANY is always of variable length");
    c->values_per_cell = n;
  }
  tsx_tokens_next(&p->in);
  return TSR_OK;
}

static int no_key(tsx_parser *p) {
  return tsx_parser_fail(p, TSR_ERROR,
                         "the key of an array is its dimensions: write DIMENSION, or DIMENSION(low, high, extent)");
}

/* Fails at a clause that SQLite's own tables have but arrays lack. */
static int fail_lacking(tsx_parser *p) {
  static const char *const lacking[] = {"UNIQUE", "REFERENCES", "COLLATE", "GENERATED", "AS", "AUTOINCREMENT"};
  for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++)
    if (tsx_token_is(&p->in.token, lacking[i])) return tsx_parser_fail(p, TSR_ERROR, "arrays have no %s", lacking[i]);
  return tsx_parser_unexpected(
      p, "DIMENSION, CURRENT, NOT NULL, DEFAULT, DURATION, CHECK, FILTERS, ENUM, LABEL, a comma or the end");
}

static int parse_type(tsx_parser *p, tsx_column_text *c) {
  const tsx_token *t = &p->in.token;
  int datatype = -1;
  if (tsx_token_is(t, "KEY") && !sqlite3_stricmp(p->name, "PRIMARY")) return no_key(p);
  if (t->kind != TSX_TOKEN_WORD) return tsx_parser_unexpected(p, "a type");
  const bool has_length = tsx_token_is(t, "VARCHAR") || tsx_token_is(t, "TEXT");
  for (size_t i = 0; i < sizeof sql_types / sizeof *sql_types && datatype < 0; i++)
    if (tsx_token_is(t, sql_types[i].name)) datatype = (int)sql_types[i].datatype;
  if (datatype < 0) datatype = find_datatype(t->text, t->size);
  if (datatype < 0) return unknown_type(p);
  tsx_tokens_next(&p->in);
  c->datatype = (tsr_datatype)datatype;
  c->values_per_cell = tsx_datatype_is_bytes(c->datatype) && c->datatype != TSR_CHAR ? TSR_VARIABLE : 1;
  if (has_length && tsx_parser_accept(p, "(")) {
    tsx_literal length = {0};
    uint32_t n;
    TSX_TRY(parse_literal(p, &length));
    TSX_TRY(tsx_literal_integer(p, &length, TSR_UINT32, &n, "length"));
    return tsx_parser_expect(p, ")");
  }
  return parse_count(p, c);
}

/* ---- Clauses ---------------------------------------------------------------------------------------------------- */

static int parse_bounds(tsx_parser *p, tsx_literal *low, tsx_literal *high, tsx_literal *extent) {
  TSX_TRY(tsx_parser_expect(p, "("));
  TSX_TRY(parse_literal(p, low));
  TSX_TRY(tsx_parser_expect(p, ","));
  TSX_TRY(parse_literal(p, high));
  if (extent && tsx_parser_accept(p, ",")) TSX_TRY(parse_literal(p, extent));
  return tsx_parser_expect(p, ")");
}

static int parse_labels(tsx_parser *p, tsx_column_text *c) {
  int code = tsx_parser_expect(p, "(");
  if (code < 0) return code;
  if (tsx_parser_accept(p, ")")) return TSR_OK; /* an empty enumeration; tessera_extend_enumeration adds labels */
  uint64_t max_count = 1; /* one more than the commas */
  tsx_tokens ahead = p->in;
  for (; ahead.token.kind != TSX_TOKEN_END && !tsx_token_is(&ahead.token, ")"); tsx_tokens_next(&ahead))
    max_count += tsx_token_is(&ahead.token, ",");
  if (!(c->enumeration.labels = tsx_parser_alloc(p, max_count * sizeof(tsx_literal)))) return TSR_NOMEM;
  do {
    if ((code = parse_literal(p, &c->enumeration.labels[c->enumeration.count])) < 0) return code;
    if (tsx_literal_is_null(&c->enumeration.labels[c->enumeration.count++]))
      return tsx_parser_fail(p, TSR_ERROR, "ENUM: NULL is not a label");
  } while (tsx_parser_accept(p, ","));
  return tsx_parser_expect(p, ")");
}

static int parse_filters(tsx_parser *p, tsx_column_text *c) {
  c->has_filters = true;
  TSX_TRY(tsx_parser_expect(p, "("));
  TSX_TRY(tsx_filters_parse(p, &c->filters));
  return tsx_parser_expect(p, ")");
}

/* Parses a dimension label after the word LABEL. */
static int parse_label(tsx_parser *p, tsx_column_text *c) {
  const tsx_token *t = &p->in.token;
  uint64_t size;
  while (c->label) c = c->label;
  if (t->kind != TSX_TOKEN_WORD && t->kind != TSX_TOKEN_NAME) return tsx_parser_unexpected(p, "a label's name");
  tsx_column_text *label = c->label = tsx_parser_alloc(p, sizeof *label);
  if (!label) return TSR_NOMEM;
  if (!(label->name = copy_token(p, &size))) return p->error->code;
  tsx_tokens_next(&p->in);
  TSX_TRY(parse_type(p, label));
  if (tsx_token_is(t, "UNORDERED"))
    return tsx_parser_fail(p, TSR_UNSUPPORTED, "label %.100s: labels without an order are not supported", label->name);
  label->duration = tsx_parser_accept(p, "DURATION");
  if (!tsx_parser_accept(p, "INCREASING")) label->descending = tsx_parser_accept(p, "DECREASING");
  return tsx_parser_accept(p, "FILTERS") ? parse_filters(p, label) : TSR_OK;
}

static int fail_duplicate(tsx_parser *p, const char *word) {
  return tsx_parser_fail(p, TSR_ERROR, "%s is given twice", word);
}

static int parse_clause(tsx_parser *p, tsx_column_text *c) {
  int code = TSR_OK;
  if (tsx_parser_accept(p, "DIMENSION")) {
    if (c->is_dimension) return fail_duplicate(p, "DIMENSION");
    c->is_dimension = true;
    return tsx_token_is(&p->in.token, "(") ? parse_bounds(p, &c->domain.low, &c->domain.high, &c->domain.extent)
                                           : TSR_OK;
  }
  if (tsx_parser_accept(p, "CURRENT")) {
    if (c->domain.current_low.kind) return fail_duplicate(p, "CURRENT");
    return parse_bounds(p, &c->domain.current_low, &c->domain.current_high, NULL);
  }
  if (tsx_parser_accept(p, "NOT")) {
    if (c->not_null) return fail_duplicate(p, "NOT NULL");
    c->not_null = true;
    return tsx_parser_expect(p, "NULL");
  }
  if (tsx_parser_accept(p, "NULL")) {
    c->null = true;
    return TSR_OK;
  }
  if (tsx_parser_accept(p, "DEFAULT")) {
    if (c->fill.kind) return fail_duplicate(p, "DEFAULT");
    return parse_literal(p, &c->fill);
  }
  if (tsx_parser_accept(p, "DURATION")) {
    if (c->duration) return fail_duplicate(p, "DURATION");
    c->duration = true;
    return TSR_OK;
  }
  if (tsx_parser_accept(p, "FILTERS")) {
    if (c->has_filters) return fail_duplicate(p, "FILTERS");
    return parse_filters(p, c);
  }
  if (tsx_parser_accept(p, "LABEL")) return parse_label(p, c);
  if (tsx_parser_accept(p, "ENUM")) {
    if (c->enumeration.given) return fail_duplicate(p, "ENUM");
    c->enumeration.given = true;
    code = parse_labels(p, c);
    c->enumeration.ordered = code == TSR_OK && tsx_parser_accept(p, "ORDERED");
    return code;
  }
  if (tsx_token_is(&p->in.token, "CHECK") || tsx_token_is(&p->in.token, "CONSTRAINT"))
    return tsx_check_parse(p, c->name);
  if (tsx_token_is(&p->in.token, "PRIMARY")) return no_key(p);
  return fail_lacking(p);
}

int tsx_column_parse(tsx_parser *p, const char *text, bool alone, tsx_column_text *c) {
  uint64_t size;
  p->in = tsx_tokens_of(text);
  p->noun = "column";
  p->name = text;
  const tsx_token *t = &p->in.token;
  if (t->kind == TSX_TOKEN_WORD || t->kind == TSX_TOKEN_NAME) {
    if (!(c->name = copy_token(p, &size))) return p->error->code;
    p->name = c->name;
    tsx_tokens_next(&p->in);
  }
  if (!c->name || t->kind == TSX_TOKEN_END) {
    static const char others[] = "; an option is KEY=VALUE; the path comes first, in quotes";
    return tsx_fail(p->error, TSR_ERROR, "cannot parse %.100s: a column is NAME TYPE ...%s", text, alone ? "" : others);
  }
  TSX_TRY(parse_type(p, c));
  while (p->in.token.kind != TSX_TOKEN_END) {
    if (alone && tsx_token_is(&p->in.token, ","))
      return tsx_parser_fail(p, TSR_ERROR, "a comma follows it: each call takes one column");
    TSX_TRY(parse_clause(p, c));
  }
  return TSR_OK;
}
