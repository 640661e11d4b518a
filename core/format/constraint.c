/* constraint.c: parses the condition of a CHECK constraint to an expression of the engine.
 *
 * A recursive descent parser with SQLite's operator precedence, which emits the nodes of the expression as it goes. The
 * text comes from the metadata of an array, which may be a stranger's: its size, its depth and the number of its nodes
 * are limited, and whatever the parser does not know is refused. Comments are refused, too, so that tessera_ddl can
 * print a text that was parsed.
 *
 * Comparisons have SQLite's rules for columns: beside a column of numbers a text of digits is a number, beside one of
 * texts an integer is a text. A datetime compares with ISO-8601 text, and an enumerated attribute as its label.
 *
 * Sections: LIKE and GLOB; tokens; nodes; columns; comparisons; functions; primary expressions; operators.
 */
#include "format/constraint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/datatype.h"
#include "tessera_host.h"

#define DEPTH_MAX 100u

/* ---- LIKE and GLOB ----------------------------------------------------------------------------------------------- */

/* Returns the code point at *text and moves past it; a byte that begins no valid UTF-8 counts as one. 0 at the end. */
static uint32_t next_point(const char **text) {
  const uint8_t *p = (const uint8_t *)*text;
  uint32_t point = p[0];
  unsigned size = point < 0xC0 ? 1 : point < 0xE0 ? 2 : point < 0xF0 ? 3 : 4, i = 1;
  if (!point) return 0;
  if (size > 1) point &= 0x7Fu >> size;
  for (; i < size && (p[i] & 0xC0) == 0x80; i++) point = point << 6 | (p[i] & 0x3F);
  if (i < size) point = p[0], size = 1;
  *text += size;
  return point;
}

static uint32_t fold(uint32_t point) { return point >= 'A' && point <= 'Z' ? point + 32 : point; }

/* Tests a character against the set behind a bracket, and moves past the set. Returns -1 if the set is not closed. */
static int glob_set(const char **pattern, uint32_t point) {
  uint32_t c = next_point(pattern), prior = 0;
  const bool inverted = c == '^';
  bool seen = false;
  if (inverted) c = next_point(pattern);
  if (c == ']') {
    seen = point == ']';
    c = next_point(pattern);
  }
  for (; c && c != ']'; c = next_point(pattern)) {
    if (c == '-' && **pattern != ']' && **pattern && prior) {
      c = next_point(pattern);
      seen |= point >= prior && point <= c;
      prior = 0;
    } else {
      seen |= point == c;
      prior = c;
    }
  }
  return c ? seen != inverted : -1;
}

typedef struct matching { /* a pattern's dialect */
  bool glob;
  uint32_t many, one, escape;
} matching;

/* Matches one character or the one character of the pattern that stands for it, and moves past both. */
static bool match_one(const matching *m, const char **pattern, const char **text) {
  uint32_t c = next_point(pattern);
  const uint32_t point = next_point(text);
  if (m->escape && c == m->escape) return (c = next_point(pattern)) != 0 && fold(c) == fold(point);
  if (c == m->one) return true;
  if (m->glob && c == '[') return glob_set(pattern, point) > 0;
  return m->glob ? c == point : fold(c) == fold(point);
}

/* On a mismatch only the last wildcard needs to take one character more. */
static bool match_text(const matching *m, const char *pattern, const char *text) {
  const char *again = NULL, *from = NULL;
  for (;;) {
    const char *p = pattern, *t = text;
    const uint32_t c = next_point(&p);
    if (c == m->many && c != m->escape) {
      again = pattern = p;
      from = text;
    } else if (*text && c && match_one(m, &pattern, &t)) {
      text = t;
    } else if (!*text && !c) {
      return true;
    } else {
      if (!again || !*from) return false;
      next_point(&from);
      pattern = again;
      text = from;
    }
  }
}

typedef struct text_pattern {
  const char *text;
  bool glob;
  uint32_t escape;
} text_pattern;

/* LIKE and GLOB as in SQLite, where LIKE folds the case of ASCII. The time is at most the product of both sizes. */
static int match_pattern(void *argument, const char *text, uint64_t size, tsr_error *error) {
  const text_pattern *pattern = argument;
  const matching m = {.glob = pattern->glob,
                      .many = pattern->glob ? '*' : '%',
                      .one = pattern->glob ? '?' : '_',
                      .escape = pattern->escape};
  (void)size, (void)error;
  return match_text(&m, pattern->text, text);
}

/* ---- Tokens ------------------------------------------------------------------------------------------------------ */

typedef enum token_kind { TOKEN_END, TOKEN_WORD, TOKEN_NAME, TOKEN_STRING, TOKEN_NUMBER, TOKEN_MARK } token_kind;

typedef struct constraint_parser {
  const tsr_schema *schema;
  tsr_arena *arena;
  tsr_error *error;
  const char *text, *at; /* NUL-terminated; the end of the current token */
  const char *token; /* the current token, of `size` bytes */
  uint64_t size;
  token_kind kind;
  unsigned depth;
  tsr_node *nodes;
  uint32_t count;
  uint64_t room;
  const tsr_value_table **labels; /* of each field; NULL: not made yet */
  int truth; /* the last node that SQLite takes for the word TRUE or FALSE: also IN () and NOT IN (); < 0: none */
  bool is_true;
} constraint_parser;

static int fail_at(const constraint_parser *p, const char *at, uint64_t size, const char *why) {
  unsigned character = 1;
  for (const char *c = p->text; c < at; c++) character += ((uint8_t)*c & 0xC0) != 0x80;
  if (!size) return tsr__fail(p->error, TSR_ERROR, "%s at the end of it", why);
  return tsr__fail(p->error, TSR_ERROR, "'%.*s' (character %u): %s", (int)TSR_MIN(size, 60), at, character, why);
}

static int fail_here(const constraint_parser *p, const char *why) { return fail_at(p, p->token, p->size, why); }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (uint8_t)c >= 0x80;
}
static bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '$'; }

/* Moves past a quoted token. Returns false if the quote is not closed. */
static bool skip_quoted(constraint_parser *p, char close) {
  for (p->at = p->token + 1; *p->at; p->at++) {
    if (*p->at != close) continue;
    p->at++;
    if (close == ']' || *p->at != close) return true;
  }
  return false;
}

static void skip_digits(constraint_parser *p) {
  while (is_digit(*p->at)) p->at++;
}

static void skip_number(constraint_parser *p) {
  if (p->at[0] == '0' && (p->at[1] == 'x' || p->at[1] == 'X')) {
    p->at += 2;
    p->at += strspn(p->at, "0123456789abcdefABCDEF");
    return;
  }
  skip_digits(p);
  if (*p->at == '.') {
    p->at++;
    skip_digits(p);
  }
  const char *exponent = p->at;
  if (*exponent != 'e' && *exponent != 'E') return;
  exponent += exponent[1] == '+' || exponent[1] == '-' ? 2 : 1;
  if (!is_digit(*exponent)) return;
  p->at = exponent;
  skip_digits(p);
}

static void skip_mark(constraint_parser *p) {
  static const char pairs[][3] = {"<=", ">=", "<>", "!=", "==", "<<", ">>", "||"};
  for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (!strncmp(p->at, pairs[i], 2)) {
      p->at += 2;
      return;
    }
  p->at++;
}

static int advance(constraint_parser *p) {
  while (*p->at && strchr(" \t\n\f\r", *p->at)) p->at++;
  const char c = *p->at;
  p->token = p->at;
  p->size = 1;
  if (!strncmp(p->at, "--", 2) || !strncmp(p->at, "/*", 2)) return fail_at(p, p->at, 2, "a CHECK has no comments");
  if (!c) {
    p->kind = TOKEN_END;
    p->size = 0;
    return TSR_OK;
  }
  if (c == '\'' || c == '"' || c == '`' || c == '[') {
    p->kind = c == '\'' ? TOKEN_STRING : TOKEN_NAME;
    if (!skip_quoted(p, c == '[' ? ']' : c)) return fail_at(p, p->token, strlen(p->token), "the quote is not closed");
  } else if (is_digit(c) || (c == '.' && is_digit(p->at[1]))) {
    p->kind = TOKEN_NUMBER;
    skip_number(p);
    if (is_word(*p->at)) return fail_at(p, p->token, (uint64_t)(p->at - p->token) + 1, "not a number");
  } else if (is_letter(c)) {
    p->kind = TOKEN_WORD;
    while (is_word(*p->at)) p->at++;
    if (*p->at == '\'' && p->at == p->token + 1 && (c == 'x' || c == 'X'))
      return fail_at(p, p->token, 2, "a CHECK compares no BLOB");
  } else {
    p->kind = TOKEN_MARK;
    skip_mark(p);
  }
  p->size = (uint64_t)(p->at - p->token);
  return TSR_OK;
}

/* Compares names without regard to the case of ASCII, as SQL does. */
static bool same_name(const char *a, uint64_t size, const char *b) {
  if (strlen(b) != size) return false;
  for (uint64_t i = 0; i < size; i++)
    if (fold((uint8_t)a[i]) != fold((uint8_t)b[i])) return false;
  return true;
}

static bool at_word(const constraint_parser *p, const char *word) {
  return (p->kind == TOKEN_WORD || p->kind == TOKEN_MARK) && same_name(p->token, p->size, word);
}

/* Moves past this word or mark. Returns 1, 0 if another token is here, or an error. */
static int take(constraint_parser *p, const char *word) {
  if (!at_word(p, word)) return 0;
  TSR_TRY(advance(p));
  return 1;
}

static int expect(constraint_parser *p, const char *word) {
  char why[40];
  snprintf(why, sizeof why, "expected %s", word);
  const int rc = take(p, word);
  return rc < 0 ? rc : rc ? TSR_OK : fail_here(p, why);
}

/* Copies the current token's value: without quotes, doubled quotes undone. */
static int token_value(const constraint_parser *p, char **value, uint64_t *size) {
  const bool quoted = p->kind == TOKEN_STRING || p->kind == TOKEN_NAME;
  uint64_t n = 0;
  TSR_TRY(TSR_ARENA_RAW(p->arena, p->size + 1, value, p->error));
  for (uint64_t i = quoted; i + quoted < p->size; i++) {
    (*value)[n++] = p->token[i];
    i += quoted && p->token[0] != '[' && p->token[i] == p->token[0];
  }
  (*value)[n] = 0;
  *size = n;
  return TSR_OK;
}

/* ---- Nodes: these functions return the number of a node, or a negative code -------------------------------------- */

/* Returns true if the operation compares two values, so that each may be past INT64_MAX. */
static bool takes_unsigned(tsr_operation operation) {
  return operation == TSR_OP_EQUAL || operation == TSR_OP_UNEQUAL || operation == TSR_OP_LESS ||
         operation == TSR_OP_LESS_EQUAL || operation == TSR_OP_GREATER || operation == TSR_OP_GREATER_EQUAL ||
         operation == TSR_OP_IS || operation == TSR_OP_IS_NOT || operation == TSR_OP_NULLIF;
}

/* In front of arithmetic and functions, a number past INT64_MAX is a REAL, as in SQLite. */
static void make_real(constraint_parser *p, uint32_t operand) {
  tsr_node *node = &p->nodes[operand];
  if (node->operation != TSR_OP_CONSTANT || node->value.type != TSR_VALUE_UNSIGNED) return;
  node->value = (tsr_value){.type = TSR_VALUE_REAL, .as.real = (double)node->value.as.unsigned_integer};
}

static int add_node(constraint_parser *p, tsr_operation operation, const uint32_t *operands, uint32_t count) {
  for (uint32_t i = 0; i < count && !takes_unsigned(operation); i++) make_real(p, operands[i]);
  if (p->count == TSR_EXPRESSION_NODES) return tsr__fail(p->error, TSR_ERROR, "it is too long");
  TSR_TRY(TSR_ARENA_GROW(p->arena, &p->nodes, p->count, &p->room, 16, p->error));
  uint32_t *copy = NULL;
  if (count) TSR_TRY(TSR_ARENA_COPY(p->arena, operands, count * sizeof *operands, &copy, p->error));
  p->nodes[p->count] = (tsr_node){.operation = operation, .operands = copy, .operand_count = count};
  return (int)p->count++;
}

static int add_1(constraint_parser *p, tsr_operation operation, int a) {
  const uint32_t operands[] = {(uint32_t)a};
  return a < 0 ? a : add_node(p, operation, operands, 1);
}

static int add_2(constraint_parser *p, tsr_operation operation, int a, int b) {
  const uint32_t operands[] = {(uint32_t)a, (uint32_t)b};
  return a < 0 ? a : b < 0 ? b : add_node(p, operation, operands, 2);
}

static int add_constant(constraint_parser *p, tsr_value value) {
  const int node = add_node(p, TSR_OP_CONSTANT, NULL, 0);
  if (node >= 0) p->nodes[node].value = value;
  return node;
}

static int add_integer(constraint_parser *p, int64_t integer) {
  return add_constant(p, (tsr_value){.type = TSR_VALUE_INTEGER, .as.integer = integer});
}

static int add_text(constraint_parser *p, const char *text, uint64_t size) {
  return add_constant(p, (tsr_value){.type = TSR_VALUE_TEXT, .as.text = {text, size}});
}

static int negate(constraint_parser *p, bool negated, int node) { return negated ? add_1(p, TSR_OP_NOT, node) : node; }

/* A growing list of operands, in the arena. */
typedef struct operand_list {
  uint32_t *items, count;
  uint64_t room;
} operand_list;

static int add_operand(constraint_parser *p, operand_list *list, int node) {
  if (node < 0) return node;
  TSR_TRY(TSR_ARENA_GROW(p->arena, &list->items, list->count, &list->room, 8, p->error));
  list->items[list->count++] = (uint32_t)node;
  return TSR_OK;
}

/* ---- Columns ----------------------------------------------------------------------------------------------------- */

/* Returns the number of the field with this name; the number of fields if there is none. A field without a name has
 * that of its column in SQL. */
static uint32_t find_field(const tsr_schema *schema, const char *name, uint64_t size) {
  const uint32_t fields = schema->dimension_count + schema->attribute_count;
  for (uint32_t f = 0; f < fields; f++) {
    char anonymous[32];
    const uint32_t number = schema->fields[f].is_dimension ? f : f - schema->dimension_count;
    snprintf(anonymous, sizeof anonymous, "%s%u", schema->fields[f].is_dimension ? "dim" : "attr", number);
    if (same_name(name, size, *schema->fields[f].name ? schema->fields[f].name : anonymous)) return f;
  }
  return fields;
}

static const tsr_enumeration *enumeration_of(const tsr_schema *schema, const char *name) {
  for (uint32_t i = 0; i < schema->enumeration_count; i++)
    if (!strcmp(schema->enumerations[i].name, name)) return &schema->enumerations[i];
  return NULL;
}

/* Makes the table of the labels of an enumerated attribute. */
static int make_labels(constraint_parser *p, uint32_t field, const tsr_value_table **table) {
  const tsr_enumeration *e = enumeration_of(p->schema, p->schema->fields[field].enumeration);
  tsr_value_table *made;
  tsr_value *values;
  if (!e || !e->loaded) return fail_here(p, "its enumeration is missing");
  if (tsr_datatype_kind(e->datatype) != TSR_KIND_TEXT || tsr_datatype_size(e->datatype) != 1)
    return fail_here(p, "of enumerated columns a CHECK compares only those with texts");
  TSR_TRY(TSR_ARENA_ARRAY(p->arena, 1, &made, p->error));
  TSR_TRY(TSR_ARENA_ARRAY(p->arena, e->count + 1, &values, p->error));
  for (uint64_t i = 0; i < e->count; i++)
    values[i] = (tsr_value){.type = TSR_VALUE_TEXT,
                            .as.text = {(const char *)e->data + e->offsets[i], e->offsets[i + 1] - e->offsets[i]}};
  *made = (tsr_value_table){.field = field, .count = e->count, .type = TSR_VALUE_TEXT, .values = values};
  *table = made;
  return TSR_OK;
}

/* Durations are the integers that SQL shows. */
static int add_field(constraint_parser *p, uint32_t field) {
  const bool enumerated = p->schema->fields[field].enumeration != NULL, duration = p->schema->fields[field].duration;
  if (enumerated && !p->labels[field]) TSR_TRY(make_labels(p, field, &p->labels[field]));
  const int node = add_node(p, enumerated ? TSR_OP_TABLE : TSR_OP_FIELD, NULL, 0);
  if (node < 0) return node;
  p->nodes[node].field = field;
  p->nodes[node].as_integer = p->nodes[node].nat_is_null = duration;
  p->nodes[node].table = p->labels[field];
  return node;
}

/* ---- Comparisons ------------------------------------------------------------------------------------------------- */

static bool is_constant(const constraint_parser *p, int node, tsr_value_type type) {
  return p->nodes[node].operation == TSR_OP_CONSTANT && p->nodes[node].value.type == type;
}

/* Converts digits, with a sign if `negative`. An integer outside of 64 bits becomes a REAL. One past INT64_MAX is
 * compared exactly, as UINT64 columns need. */
static tsr_value number_of(const char *text, bool negative) {
  uint64_t number = 0;
  bool integer = *text;
  const bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  if (hex) {
    number = strtoull(text + 2, NULL, 16);
    return (tsr_value){.type = TSR_VALUE_INTEGER, .as.unsigned_integer = negative ? 0 - number : number};
  }
  for (const char *c = text; *c && integer; c++) {
    const unsigned digit = (unsigned)(*c - '0');
    integer = is_digit(*c) && number <= (UINT64_MAX - digit) / 10;
    if (integer) number = 10 * number + digit;
  }
  if (integer && number <= (uint64_t)INT64_MAX + negative)
    return (tsr_value){.type = TSR_VALUE_INTEGER, .as.unsigned_integer = negative ? 0 - number : number};
  if (integer && !negative) return (tsr_value){.type = TSR_VALUE_UNSIGNED, .as.unsigned_integer = number};
  double real = 0;
  (void)tsr_real_parse(text, strlen(text), &real, NULL); /* skip_number has found its end */
  return (tsr_value){.type = TSR_VALUE_REAL, .as.real = negative ? -real : real};
}

/* A text beside a column of numbers becomes a number, if it is spelled as one. */
static int text_to_number(constraint_parser *p, int constant) {
  const tsr_text_value given = p->nodes[constant].value.as.text;
  const bool negative = given.size && given.bytes[0] == '-', sign = negative || (given.size && given.bytes[0] == '+');
  constraint_parser inside = {.text = given.bytes, .at = given.bytes + sign};
  if (!is_digit(*inside.at) && !(*inside.at == '.' && is_digit(inside.at[1]))) return constant;
  if (inside.at[0] == '0' && (inside.at[1] == 'x' || inside.at[1] == 'X')) return constant;
  skip_number(&inside);
  return inside.at == given.bytes + given.size ? add_constant(p, number_of(given.bytes + sign, negative)) : constant;
}

/* An integer beside a column of texts becomes a text. */
static int integer_to_text(constraint_parser *p, int constant) {
  char digits[24], *copy;
  const int size = snprintf(digits, sizeof digits, "%lld", (long long)p->nodes[constant].value.as.integer);
  TSR_TRY(TSR_ARENA_COPY(p->arena, digits, (uint64_t)size, &copy, p->error));
  return add_text(p, copy, (uint64_t)size);
}

static bool is_time(tsr_datatype datatype) {
  return tsr_datatype_kind(datatype) == TSR_KIND_DATETIME || tsr_datatype_kind(datatype) == TSR_KIND_TIME;
}

static const tsr_field *field_of(const constraint_parser *p, int node) {
  return p->nodes[node].operation == TSR_OP_FIELD ? &p->schema->fields[p->nodes[node].field] : NULL;
}

/* Makes a node for the stored integer of a datetime; null for NaT. */
static int time_of_field(constraint_parser *p, int node) {
  const int copy = add_field(p, p->nodes[node].field);
  if (copy < 0) return copy;
  p->nodes[copy].as_integer = true;
  const int nat = add_integer(p, INT64_MIN);
  return add_2(p, TSR_OP_NULLIF, copy, nat);
}

static int time_of_text(constraint_parser *p, const tsr_field *field, int constant) {
  const tsr_text_value text = p->nodes[constant].value.as.text;
  int64_t value = 0;
  TSR_TRY(tsr_datetime_parse(field->datatype, text.bytes, text.size, &value, p->error));
  return add_integer(p, value);
}

/* Converts the two sides of a comparison as their types ask for. */
static int convert_sides(constraint_parser *p, int *a, int *b) {
  for (int i = 0; i < 2; i++) {
    int *column = i ? b : a, *other = i ? a : b;
    const tsr_field *field = field_of(p, *column), *beside = field_of(p, *other);
    const bool labels = p->nodes[*column].operation == TSR_OP_TABLE;
    const bool text = is_constant(p, *other, TSR_VALUE_TEXT), integer = is_constant(p, *other, TSR_VALUE_INTEGER);
    if (labels && integer) *other = integer_to_text(p, *other);
    if (*other < 0) return *other;
    if (!field) continue;
    const tsr_kind kind = tsr_datatype_kind(field->datatype);
    if (is_time(field->datatype) && ((text && !field->duration) || (beside && beside->datatype == field->datatype))) {
      *other = text ? time_of_text(p, field, *other) : time_of_field(p, *other);
      if (*other >= 0) *column = time_of_field(p, *column);
      return *other < 0 ? *other : *column < 0 ? *column : TSR_OK;
    }
    if (is_time(field->datatype)) continue;
    if (kind == TSR_KIND_TEXT && integer) *other = integer_to_text(p, *other);
    else if (kind != TSR_KIND_TEXT && kind != TSR_KIND_BYTES && text) *other = text_to_number(p, *other);
    if (*other < 0) return *other;
  }
  return TSR_OK;
}

static int compare(constraint_parser *p, tsr_operation operation, int a, int b) {
  if (a < 0 || b < 0) return a < 0 ? a : b;
  TSR_TRY(convert_sides(p, &a, &b));
  return add_2(p, operation, a, b);
}

/* ---- Functions --------------------------------------------------------------------------------------------------- */

static const struct constraint_function {
  const char *name;
  tsr_operation operation; /* TSR_OP_COUNT: the argument itself */
  uint32_t least, most; /* arguments */
} constraint_functions[] = {{"abs", TSR_OP_ABS, 1, 1},
                            {"acos", TSR_OP_ACOS, 1, 1},
                            {"acosh", TSR_OP_ACOSH, 1, 1},
                            {"asin", TSR_OP_ASIN, 1, 1},
                            {"asinh", TSR_OP_ASINH, 1, 1},
                            {"atan", TSR_OP_ATAN, 1, 1},
                            {"atan2", TSR_OP_ATAN2, 2, 2},
                            {"atanh", TSR_OP_ATANH, 1, 1},
                            {"ceil", TSR_OP_CEIL, 1, 1},
                            {"ceiling", TSR_OP_CEIL, 1, 1},
                            {"coalesce", TSR_OP_COALESCE, 2, UINT32_MAX},
                            {"cos", TSR_OP_COS, 1, 1},
                            {"cosh", TSR_OP_COSH, 1, 1},
                            {"degrees", TSR_OP_DEGREES, 1, 1},
                            {"exp", TSR_OP_EXP, 1, 1},
                            {"floor", TSR_OP_FLOOR, 1, 1},
                            {"if", TSR_OP_CASE, 3, 3},
                            {"ifnull", TSR_OP_COALESCE, 2, 2},
                            {"iif", TSR_OP_CASE, 3, 3},
                            {"likely", TSR_OP_COUNT, 1, 1},
                            {"ln", TSR_OP_LN, 1, 1},
                            {"log", TSR_OP_LOG10, 1, 1},
                            {"log", TSR_OP_LOG, 2, 2},
                            {"log10", TSR_OP_LOG10, 1, 1},
                            {"log2", TSR_OP_LOG2, 1, 1},
                            {"max", TSR_OP_GREATEST, 2, UINT32_MAX},
                            {"min", TSR_OP_LEAST, 2, UINT32_MAX},
                            {"mod", TSR_OP_MOD, 2, 2},
                            {"nullif", TSR_OP_NULLIF, 2, 2},
                            {"pow", TSR_OP_POW, 2, 2},
                            {"power", TSR_OP_POW, 2, 2},
                            {"radians", TSR_OP_RADIANS, 1, 1},
                            {"round", TSR_OP_ROUND, 1, 1},
                            {"sign", TSR_OP_SIGN, 1, 1},
                            {"sin", TSR_OP_SIN, 1, 1},
                            {"sinh", TSR_OP_SINH, 1, 1},
                            {"sqrt", TSR_OP_SQRT, 1, 1},
                            {"tan", TSR_OP_TAN, 1, 1},
                            {"tanh", TSR_OP_TANH, 1, 1},
                            {"trunc", TSR_OP_TRUNC, 1, 1},
                            {"unlikely", TSR_OP_COUNT, 1, 1}};

static int parse_or(constraint_parser *p);

/* Parses the expressions up to a closing parenthesis, which is taken. */
static int parse_list(constraint_parser *p, operand_list *list) {
  int more = !at_word(p, ")");
  while (more > 0) {
    TSR_TRY(add_operand(p, list, parse_or(p)));
    TSR_TRY(more = take(p, ","));
  }
  return expect(p, ")");
}

static int parse_call(constraint_parser *p, const char *name, uint64_t size) {
  operand_list list = {0};
  bool known = false;
  TSR_TRY(advance(p)); /* the parenthesis */
  TSR_TRY(parse_list(p, &list));
  for (unsigned i = 0; i < sizeof constraint_functions / sizeof *constraint_functions; i++) {
    const struct constraint_function *f = &constraint_functions[i];
    if (!same_name(name, size, f->name)) continue;
    known = true;
    if (list.count < f->least || list.count > f->most) continue;
    if (f->operation == TSR_OP_COUNT) return (int)list.items[0];
    if (f->operation == TSR_OP_NULLIF) return compare(p, f->operation, (int)list.items[0], (int)list.items[1]);
    return add_node(p, f->operation, list.items, list.count);
  }
  return fail_at(p, name, size, known ? "another number of arguments" : "no function that a CHECK can have");
}

/* ---- Primary expressions ----------------------------------------------------------------------------------------- */

static int parse_case(constraint_parser *p) {
  operand_list list = {0};
  int base = -1, more;
  TSR_TRY(advance(p));
  if (!at_word(p, "WHEN")) TSR_TRY(base = parse_or(p));
  if (!at_word(p, "WHEN")) return fail_here(p, "expected WHEN");
  while ((more = take(p, "WHEN")) > 0) {
    int when = parse_or(p);
    if (base >= 0) when = compare(p, TSR_OP_EQUAL, base, when);
    TSR_TRY(add_operand(p, &list, when));
    TSR_TRY(expect(p, "THEN"));
    TSR_TRY(add_operand(p, &list, parse_or(p)));
  }
  if (more == 0 && (more = take(p, "ELSE")) > 0) more = add_operand(p, &list, parse_or(p));
  if (more < 0) return more;
  TSR_TRY(expect(p, "END"));
  return add_node(p, TSR_OP_CASE, list.items, list.count);
}

static bool word_has(const char *word, uint64_t size, const char *part) {
  const uint64_t length = strlen(part);
  for (uint64_t i = 0; i + length <= size; i++)
    if (same_name(word + i, length, part)) return true;
  return false;
}

static int parse_cast(constraint_parser *p) {
  TSR_TRY(advance(p));
  TSR_TRY(expect(p, "("));
  const int value = parse_or(p);
  if (value < 0) return value;
  TSR_TRY(expect(p, "AS"));
  const bool integer = word_has(p->token, p->size, "INT");
  const bool real =
      word_has(p->token, p->size, "REAL") || word_has(p->token, p->size, "FLOA") || word_has(p->token, p->size, "DOUB");
  if (p->kind != TOKEN_WORD || (!integer && !real)) return fail_here(p, "a CHECK has CAST AS INTEGER and AS REAL");
  TSR_TRY(advance(p));
  TSR_TRY(expect(p, ")"));
  return add_1(p, integer ? TSR_OP_TO_INTEGER : TSR_OP_TO_REAL, value);
}

static int add_truth(constraint_parser *p, bool is_true) {
  const int node = add_integer(p, is_true);
  p->truth = node;
  p->is_true = is_true;
  return node;
}

/* Parses a name: a column, a call, or TRUE, FALSE and NULL. */
static int parse_name(constraint_parser *p) {
  const bool word = p->kind == TOKEN_WORD;
  const char *at = p->token;
  const uint64_t width = p->size;
  char *name;
  uint64_t size;
  TSR_TRY(token_value(p, &name, &size));
  const uint32_t field = find_field(p->schema, name, size),
                 fields = p->schema->dimension_count + p->schema->attribute_count;
  if (field < fields) {
    const int node = add_field(p, field);
    if (node < 0) return node;
    TSR_TRY(advance(p));
    return at_word(p, "(") || at_word(p, ".") ? fail_at(p, at, width, "a column is its name alone") : node;
  }
  TSR_TRY(advance(p));
  if (word && at_word(p, "(")) {
    const int node = parse_call(p, at, width);
    p->truth = -1; /* likely(TRUE) is a number */
    return node;
  }
  if (word && same_name(at, width, "null")) return add_constant(p, (tsr_value){.type = TSR_VALUE_NULL});
  if (word && same_name(at, width, "true")) return add_truth(p, true);
  if (word && same_name(at, width, "false")) return add_truth(p, false);
  if (word && (same_name(at, width, "select") || same_name(at, width, "exists")))
    return fail_at(p, at, width, "a CHECK has no subqueries");
  return fail_at(p, at, width, "no column of the array");
}

static int parse_number(constraint_parser *p, bool negative) {
  char *text;
  uint64_t size;
  TSR_TRY(token_value(p, &text, &size));
  if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X') && (size == 2 || strspn(text + 2, "0") + 18 < size))
    return fail_here(p, "not a number of 64 bits");
  TSR_TRY(advance(p));
  return add_constant(p, number_of(text, negative));
}

static int parse_primary(constraint_parser *p) {
  char *text;
  uint64_t size;
  if (p->kind == TOKEN_NUMBER) return parse_number(p, false);
  if (p->kind == TOKEN_STRING) {
    TSR_TRY(token_value(p, &text, &size));
    TSR_TRY(advance(p));
    return add_text(p, text, size);
  }
  if (at_word(p, "CASE")) return parse_case(p);
  if (at_word(p, "CAST")) return parse_cast(p);
  if (at_word(p, "(")) {
    TSR_TRY(advance(p));
    const int inside = parse_or(p);
    if (inside < 0) return inside;
    TSR_TRY(expect(p, ")"));
    return inside;
  }
  if (p->kind == TOKEN_WORD || p->kind == TOKEN_NAME) return parse_name(p);
  return fail_here(p, "expected a value");
}

/* ---- Operators, those that bind strongest first ------------------------------------------------------------------ */

static int parse_unary(constraint_parser *p) {
  int rc;
  if (p->depth == DEPTH_MAX) return fail_here(p, "too many levels");
  p->depth++;
  if ((rc = take(p, "-")) > 0)
    rc = p->kind == TOKEN_NUMBER ? parse_number(p, true) : add_1(p, TSR_OP_NEGATE, parse_unary(p));
  else if (rc == 0 && (rc = take(p, "+")) > 0) rc = add_1(p, TSR_OP_PLUS, parse_unary(p));
  else if (rc == 0 && (rc = take(p, "~")) > 0) rc = add_1(p, TSR_OP_BIT_NOT, parse_unary(p));
  else if (rc == 0) rc = parse_primary(p);
  p->depth--;
  return rc;
}

typedef struct binary_operator {
  const char *mark;
  tsr_operation operation;
} binary_operator;

typedef struct operator_level {
  binary_operator operators[6];
  bool compares;
} operator_level;

static const operator_level operator_levels[] = {
    {.operators = {{"<", TSR_OP_LESS}, {"<=", TSR_OP_LESS_EQUAL}, {">", TSR_OP_GREATER}, {">=", TSR_OP_GREATER_EQUAL}},
     .compares = true},
    {.operators = {{"&", TSR_OP_BIT_AND}, {"|", TSR_OP_BIT_OR}, {"<<", TSR_OP_SHIFT_LEFT}, {">>", TSR_OP_SHIFT_RIGHT}}},
    {.operators = {{"+", TSR_OP_ADD}, {"-", TSR_OP_SUBTRACT}}},
    {.operators = {{"*", TSR_OP_MULTIPLY}, {"/", TSR_OP_DIVIDE}, {"%", TSR_OP_REMAINDER}}}};
#define LEVELS (sizeof operator_levels / sizeof *operator_levels)

/* Parses operands that are joined by the binary operators of a level, from left to right. */
static int parse_level(constraint_parser *p, unsigned level) {
  if (level == LEVELS) return parse_unary(p);
  int node = parse_level(p, level + 1);
  for (bool more = true; more && node >= 0;) {
    more = false;
    for (const binary_operator *o = operator_levels[level].operators; o->mark && !more && node >= 0; o++) {
      const int rc = take(p, o->mark);
      if (rc < 0) return rc;
      if (rc == 0) continue;
      more = true;
      const int right = parse_level(p, level + 1);
      node =
          operator_levels[level].compares ? compare(p, o->operation, node, right) : add_2(p, o->operation, node, right);
    }
  }
  return node;
}

/* Parses the rest of IS: [NOT] TRUE, FALSE, NULL, DISTINCT FROM x, or x. */
static int parse_is(constraint_parser *p, int left) {
  int negated = take(p, "NOT"), rc = negated < 0 ? negated : take(p, "DISTINCT");
  if (rc < 0) return rc;
  if (rc > 0) {
    TSR_TRY(expect(p, "FROM"));
    negated = !negated;
  }
  p->truth = -1;
  const int right = parse_level(p, 0);
  if (right >= 0 && right == p->truth) { /* x IS TRUE is (NOT NOT x) IS 1; x IS FALSE, (NOT x) IS 1 */
    int node = add_1(p, TSR_OP_NOT, left);
    if (p->is_true) node = add_1(p, TSR_OP_NOT, node);
    const int one = node < 0 ? node : add_integer(p, 1);
    return add_2(p, negated ? TSR_OP_IS_NOT : TSR_OP_IS, node, one);
  }
  if (right >= 0 && is_constant(p, right, TSR_VALUE_NULL))
    return add_1(p, negated ? TSR_OP_NOT_NULL : TSR_OP_IS_NULL, left);
  return compare(p, negated ? TSR_OP_IS_NOT : TSR_OP_IS, left, right);
}

static int parse_between(constraint_parser *p, int left) {
  const int low = parse_level(p, 0);
  if (low < 0) return low;
  TSR_TRY(expect(p, "AND"));
  const int high = parse_level(p, 0), above = compare(p, TSR_OP_GREATER_EQUAL, left, low);
  if (above < 0) return above;
  const int below = compare(p, TSR_OP_LESS_EQUAL, left, high);
  return add_2(p, TSR_OP_AND, above, below);
}

/* A list of one value is SQLite's =; of others each member is compared with the left side. */
static int parse_in(constraint_parser *p, int left, bool negated) {
  operand_list list = {0};
  int node = -1;
  TSR_TRY(expect(p, "("));
  TSR_TRY(parse_list(p, &list));
  if (!list.count) return add_truth(p, negated);
  for (uint32_t i = 0; i < list.count; i++) {
    const int one = compare(p, TSR_OP_EQUAL, left, (int)list.items[i]);
    node = i ? add_2(p, TSR_OP_OR, node, one) : one;
    if (node < 0) return node;
  }
  return negate(p, negated, node);
}

static int parse_like(constraint_parser *p, int left, bool glob) {
  const int pattern = parse_level(p, 0);
  text_pattern *made;
  if (pattern < 0) return pattern;
  if (!is_constant(p, pattern, TSR_VALUE_TEXT)) return fail_here(p, "the pattern before it is not a text in quotes");
  TSR_TRY(TSR_ARENA_ARRAY(p->arena, 1, &made, p->error));
  *made = (text_pattern){.text = p->nodes[pattern].value.as.text.bytes, .glob = glob};
  const int rc = glob ? 0 : take(p, "ESCAPE");
  if (rc < 0) return rc;
  if (rc > 0) {
    const int escape = parse_level(p, 0);
    if (escape < 0) return escape;
    const char *at = is_constant(p, escape, TSR_VALUE_TEXT) ? p->nodes[escape].value.as.text.bytes : "";
    made->escape = next_point(&at);
    if (!made->escape || *at) return fail_here(p, "ESCAPE takes one character");
  }
  const int node = add_1(p, TSR_OP_MATCH, left);
  if (node < 0) return node;
  p->nodes[node].match = match_pattern;
  p->nodes[node].match_argument = made;
  return node;
}

/* Parses what follows the word NOT behind an operand, or one of the same words without it. Returns -1 with no error set
 * if no such word is here. */
static int parse_word_test(constraint_parser *p, int left, bool negated, bool *found) {
  static const char *const words[] = {"BETWEEN", "IN", "LIKE", "GLOB"};
  *found = true;
  for (unsigned i = 0; i < 4; i++) {
    const int rc = take(p, words[i]);
    if (rc < 0) return rc;
    if (rc == 0) continue;
    if (i == 1) return parse_in(p, left, negated);
    return negate(p, negated, i == 0 ? parse_between(p, left) : parse_like(p, left, i == 3));
  }
  *found = false;
  return left;
}

/* Parses one test of equality behind an operand. *found: there was one. */
static int parse_test(constraint_parser *p, int left, bool *found) {
  static const binary_operator tests[] = {
      {"=", TSR_OP_EQUAL}, {"==", TSR_OP_EQUAL}, {"<>", TSR_OP_UNEQUAL}, {"!=", TSR_OP_UNEQUAL}};
  int rc = 0;
  *found = true;
  for (unsigned i = 0; i < 4; i++) {
    if ((rc = take(p, tests[i].mark)) < 0) return rc;
    if (rc > 0) return compare(p, tests[i].operation, left, parse_level(p, 0));
  }
  if ((rc = take(p, "IS")) != 0) return rc < 0 ? rc : parse_is(p, left);
  if ((rc = take(p, "ISNULL")) != 0) return rc < 0 ? rc : add_1(p, TSR_OP_IS_NULL, left);
  if ((rc = take(p, "NOTNULL")) != 0) return rc < 0 ? rc : add_1(p, TSR_OP_NOT_NULL, left);
  const int negated = take(p, "NOT");
  if (negated < 0) return negated;
  if (negated && (rc = take(p, "NULL")) != 0) return rc < 0 ? rc : add_1(p, TSR_OP_NOT_NULL, left);
  const int node = parse_word_test(p, left, negated, found);
  return negated && !*found ? fail_here(p, "expected NULL, BETWEEN, IN, LIKE or GLOB after NOT") : node;
}

static int parse_equality(constraint_parser *p) {
  int node = parse_level(p, 0);
  for (bool more = true; more && node >= 0;) node = parse_test(p, node, &more);
  return node;
}

static int parse_not(constraint_parser *p) {
  unsigned count = 0;
  int rc;
  while ((rc = take(p, "NOT")) > 0) count++;
  int node = rc < 0 ? rc : parse_equality(p);
  for (; count > 0 && node >= 0; count--) node = add_1(p, TSR_OP_NOT, node);
  return node;
}

static int parse_and(constraint_parser *p) {
  int node = parse_not(p), rc = 0;
  while (node >= 0 && (rc = take(p, "AND")) > 0) node = add_2(p, TSR_OP_AND, node, parse_not(p));
  return rc < 0 ? rc : node;
}

static int parse_or(constraint_parser *p) {
  int node = parse_and(p), rc = 0;
  while (node >= 0 && (rc = take(p, "OR")) > 0) node = add_2(p, TSR_OP_OR, node, parse_and(p));
  return rc < 0 ? rc : node;
}

/* The value of an expression is its last node. Of `(a)` or likely(x) that may be another one. */
static int finish(constraint_parser *p, int node) {
  if (node < 0 || (uint32_t)node + 1 == p->count) return node;
  return add_1(p, TSR_OP_PLUS, node);
}

int tsr__constraint_parse(const tsr_schema *schema, const char *text, uint64_t size, tsr_arena *arena,
                          tsr_expression *expression, tsr_error *error) {
  constraint_parser p = {.schema = schema, .arena = arena, .error = error};
  char *copy;
  if (size > TSR_CONSTRAINT_TEXT)
    return tsr__fail(error, TSR_ERROR, "it has %llu bytes, more than %d", (unsigned long long)size,
                     TSR_CONSTRAINT_TEXT);
  if (!tsr__is_utf8((const uint8_t *)text, size) || memchr(text, 0, size))
    return tsr__fail(error, TSR_ERROR, "it is not text in UTF-8");
  TSR_TRY(TSR_ARENA_COPY(arena, text, size, &copy, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, (uint64_t)schema->dimension_count + schema->attribute_count, &p.labels, error));
  p.text = p.at = copy;
  TSR_TRY(advance(&p));
  const int node = finish(&p, parse_or(&p));
  if (node < 0) return node;
  if (p.kind != TOKEN_END) return fail_here(&p, "expected an operator, or the end");
  *expression = (tsr_expression){.nodes = p.nodes, .count = p.count};
  return TSR_OK;
}

bool tsr__constraint_reads(const tsr_expression *expression, uint32_t field) {
  for (uint32_t i = 0; i < expression->count; i++) {
    const tsr_operation operation = expression->nodes[i].operation;
    if ((operation == TSR_OP_FIELD || operation == TSR_OP_TABLE) && expression->nodes[i].field == field) return true;
  }
  return false;
}

uint64_t tsr__constraint_name_size(const tsr_metadatum *entry) {
  const uint64_t prefix = strlen(TSR_CONSTRAINT_KEY);
  const bool is = entry->key_size > prefix && !memcmp(entry->key, TSR_CONSTRAINT_KEY, prefix);
  return is ? entry->key_size - prefix : 0;
}

tsr_text_value tsr__constraint_text(const tsr_metadatum *entry) {
  const bool is = tsr_datatype_kind(entry->datatype) == TSR_KIND_TEXT && tsr_datatype_size(entry->datatype) == 1;
  return is && entry->value_size ? (tsr_text_value){entry->value, entry->value_size} : (tsr_text_value){"", 0};
}
