/* json.c: reads JSON: flat objects that may hold secrets, in place; arrays as the values of a cell; objects and arrays
 * as the options of functions.
 *
 * Sections: flat objects; arrays as values; the text of members; options; objects of numbers. */
#include "sql/json.h"

#include <string.h>

#include "connection/errors.h"
#include "sql/tokens.h"
#include "connection/sqlite_api.h"
#include "tessera_host.h"
#include "sql/literals.h"

/* ---- Flat objects ------------------------------------------------------------------------------------------------ */
/* A reader of flat JSON objects (RFC 8259) that works in place: decoded strings overwrite the source. */

typedef struct flat {
  char *at; /* the next character */
  const char *start; /* of the text */
  tsr_error *error;
} flat;

static int flat_fail(const flat *f, const char *expected) {
  return tsx_fail(f->error, TSR_MISMATCH,
                  "options: not a JSON object of texts, integers, true, false and null: expected "
                  "%s at character %d",
                  expected, (int)(f->at - f->start) + 1);
}

static void flat_skip(flat *f) { f->at += strspn(f->at, " \t\r\n"); }

/* Reads a string, from its first quote on, and decodes it in place. */
static int flat_text(flat *f, const char **text) {
  char *found;
  uint64_t size = 0;
  if (*f->at != '"') return flat_fail(f, "a quote");
  char *end = tsr_json_unescape(f->at, &found, &size);
  if (!end || strlen(found) != size) { /* a NUL would end the text */
    if (!end) f->at = found;
    return flat_fail(f, "a text without control characters and \\u0000");
  }
  *text = found;
  f->at = end;
  return TSR_OK;
}

static bool flat_word(flat *f, const char *word) {
  const size_t length = strlen(word);
  if (strncmp(f->at, word, length) != 0) return false;
  f->at += length;
  return true;
}

/* Reads an integer of at most 18 digits. */
static int flat_integer(flat *f, int64_t *value) {
  const bool negative = flat_word(f, "-");
  const size_t digits = strspn(f->at, "0123456789");
  if (digits == 0 || digits > 18) return flat_fail(f, "a value");
  *value = 0;
  for (size_t i = 0; i < digits; i++) *value = 10 * *value + (*f->at++ - '0');
  if (negative) *value = -*value;
  return strchr(".eE", *f->at) && *f->at ? flat_fail(f, "an integer") : TSR_OK;
}

static int flat_value(flat *f, tsx_flat_member *m) {
  m->text = "";
  if (*f->at == '"') {
    m->kind = TSX_FLAT_TEXT;
    return flat_text(f, &m->text);
  }
  m->kind = TSX_FLAT_BOOL;
  m->integer = 1;
  if (flat_word(f, "true")) return TSR_OK;
  m->integer = 0;
  if (flat_word(f, "false")) return TSR_OK;
  m->kind = TSX_FLAT_NULL;
  if (flat_word(f, "null")) return TSR_OK;
  m->kind = TSX_FLAT_INTEGER;
  return flat_integer(f, &m->integer);
}

/* Reads one member, calls the reader, and skips the comma. Returns 1 if another member follows, 0 if not. */
static int flat_member(flat *f, tsx_flat_reader read, void *argument) {
  tsx_flat_member m = {0};
  int rc = flat_text(f, &m.key);
  if (rc < 0) return rc;
  flat_skip(f);
  if (!flat_word(f, ":")) return flat_fail(f, "':'");
  flat_skip(f);
  if ((rc = flat_value(f, &m)) < 0) return rc;
  if ((rc = read(argument, &m, f->error)) != TSR_OK) return rc;
  flat_skip(f);
  const bool more = flat_word(f, ",");
  flat_skip(f);
  return more;
}

int tsx_flat_each(char *text, tsx_flat_reader read, void *argument, tsr_error *error) {
  flat f = {text, text, error};
  flat_skip(&f);
  if (!flat_word(&f, "{")) return flat_fail(&f, "'{'");
  flat_skip(&f);
  for (int more = *f.at != '}'; more > 0;) {
    more = flat_member(&f, read, argument);
    if (more < 0) return more;
  }
  if (!flat_word(&f, "}")) return flat_fail(&f, "',' or '}'");
  flat_skip(&f);
  return *f.at ? flat_fail(&f, "the end") : TSR_OK;
}

/* ---- Arrays as values, and options ------------------------------------------------------------------------------- */
/* The values of a cell are parsed here, because SQLite's JSON functions would turn large integers into floats. Elements
 * are numbers, true, false, null (NaN or NaT), and strings of datetimes or numbers. Options are read by SQLite's
 * json_each; a walk over the same JSON accompanies its rows, to have the digits of numbers. */

#define ELEMENT_MAX 400 /* characters */

static const char *skip_blanks(const char *p) {
  while (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n') p++;
  return p;
}

static bool is_time(tsr_datatype datatype) {
  tsr_kind kind = tsr_datatype_kind(datatype);
  return kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME;
}

/* Writes NaN or NaT for null. Returns false if the datatype has neither. */
static bool parse_null(tsr_datatype datatype, uint8_t *value) {
  int64_t nat = INT64_MIN;
  if (is_time(datatype)) memcpy(value, &nat, 8);
  else if (tsr_datatype_kind(datatype) == TSR_KIND_FLOAT) tsr_datatype_fill(datatype, value);
  else return false;
  return true;
}

static int parse_element_text(tsr_datatype datatype, const char *text, bool quoted, bool integers, uint8_t *value,
                              tsr_error *error) {
  if (!quoted && !strcmp(text, "null") && parse_null(datatype, value)) return TSR_OK;
  if (quoted || integers || !is_time(datatype)) return tsx_number_parse(datatype, text, quoted, value, error);
  int64_t number;
  int code = tsx_number_parse(TSR_INT64, text, false, &number, error);
  return code < 0 ? code : tsx_time_of_integer(datatype, number, value, error);
}

/* Parses one element. Returns the text after it, or NULL with an error. */
static const char *parse_element(tsr_datatype datatype, const char *p, bool integers, uint8_t *value,
                                 tsr_error *error) {
  char text[ELEMENT_MAX];
  bool quoted = *p == '"';
  if (quoted) p++;
  size_t size = quoted ? strcspn(p, "\"\\") : strcspn(p, ",] \t\r\n");
  if (!size || size >= sizeof text || (quoted && p[size] != '"')) {
    tsx_fail(error, TSR_MISMATCH, *p ? "malformed JSON at '%.40s'" : "malformed JSON: it ends too early", p);
    return NULL;
  }
  memcpy(text, p, size);
  text[size] = 0;
  return parse_element_text(datatype, text, quoted, integers, value, error) < 0 ? NULL : p + size + quoted;
}

int tsx_vector_parse(tsr_datatype datatype, const char *text, bool integers, uint8_t *values, uint64_t *count,
                     tsr_error *error) {
  uint64_t n = 0, value_size = tsr_datatype_size(datatype);
  const char *p = skip_blanks(text);
  if (*p != '[') return tsx_fail(error, TSR_MISMATCH, "'%.60s' is not a JSON array", text);
  p = skip_blanks(p + 1);
  while (*p != ']') {
    if (!(p = parse_element(datatype, p, integers, values + n * value_size, error))) return error->code;
    n++;
    p = skip_blanks(p);
    if (*p == ',' && *skip_blanks(p + 1) != ']') p = skip_blanks(p + 1);
    else if (*p != ']')
      return tsx_fail(error, TSR_MISMATCH,
                      *p ? "malformed JSON at '%.40s': expected ',' or ']'" : "malformed JSON: it ends too early", p);
  }
  if (*skip_blanks(p + 1))
    return tsx_fail(error, TSR_MISMATCH, "malformed JSON: unexpected '%.40s' after its end", p + 1);
  *count = n;
  return TSR_OK;
}

/* ---- The text of members ----------------------------------------------------------------------------------------- */

int tsx_json_walk_open(sqlite3 *db, sqlite3_value *json, tsx_json_walk *walk) {
  sqlite3_stmt *statement = NULL;
  int rc = sqlite3_prepare_v2(db, "SELECT json(?1)", -1, &statement, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_bind_value(statement, 1, json);
  if (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    walk->text = walk->at = text ? sqlite3_mprintf("%s", text) : NULL;
    rc = walk->text ? SQLITE_OK : SQLITE_NOMEM;
  }
  sqlite3_finalize(statement);
  return rc;
}

/* Returns the end of a JSON value in the form of json(): the first comma or closing bracket after it, or the NUL. With
 * `is_key`, the end is the colon. */
static char *skip_value(char *p, bool is_key) {
  uint64_t depth = 0;
  for (; *p; p++) {
    if (*p == '"') {
      for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1]) p++;
      if (!*p) break;
    } else if (*p == '{' || *p == '[') {
      depth++;
    } else if (depth == 0 && (*p == ',' || *p == '}' || *p == ']' || (is_key && *p == ':'))) {
      break;
    } else if (*p == '}' || *p == ']') {
      depth--;
    }
  }
  return p;
}

const char *tsx_json_walk_next(tsx_json_walk *walk) {
  char *p = walk->at;
  if (walk->cut) *p = walk->cut;
  if (*p == '{' || *p == '[' || *p == ',') p++;
  if (*walk->text == '{' && *(p = skip_value(p, true)) == ':') p++;
  walk->at = skip_value(p, false);
  walk->cut = *walk->at;
  *walk->at = 0;
  return p;
}

void tsx_json_walk_close(tsx_json_walk *walk) {
  sqlite3_free(walk->text);
  *walk = (tsx_json_walk){0};
}

int tsx_json_text_decode(const char *json, char **text, uint64_t *size) {
  *text = NULL;
  if (*json != '"' || !strstr(json, "\\u0000")) return SQLITE_OK;
  char *copy = sqlite3_mprintf("%s", json), *found;
  if (!copy) return SQLITE_NOMEM;
  const char *end = tsr_json_unescape(copy, &found, size);
  if (end && !*end) *text = copy; /* `found` is its start */
  else sqlite3_free(copy);
  return SQLITE_OK;
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

/* Makes an SQL value of text that may contain NULs. Returns NULL if memory is lacking. */
static sqlite3_value *value_of_text(sqlite3 *db, const char *text, uint64_t size) {
  sqlite3_stmt *statement = NULL;
  sqlite3_value *value = NULL;
  int rc = sqlite3_prepare_v2(db, "SELECT ?1", -1, &statement, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_bind_text64(statement, 1, text, size, SQLITE_STATIC, SQLITE_UTF8);
  if (rc == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
    value = sqlite3_value_dup(sqlite3_column_value(statement, 0));
  sqlite3_finalize(statement);
  return value;
}

/* Returns a copy of a member's value, whose JSON text is `json`, or NULL if memory is lacking. */
static sqlite3_value *option_value(sqlite3 *db, sqlite3_value *value, const char *json) {
  char *text;
  uint64_t size;
  if (tsx_json_text_decode(json, &text, &size) != SQLITE_OK) return NULL;
  sqlite3_value *copy = text ? value_of_text(db, text, size) : sqlite3_value_dup(value);
  sqlite3_free(text);
  return copy;
}

static int read_each(sqlite3 *db, sqlite3_value *json, bool array, const char *what, tsx_option_reader read,
                     void *argument, tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  tsx_json_walk walk = {0};
  const char *text = (const char *)sqlite3_value_text(json);
  int code = TSR_OK, rc;
  if (!text || *skip_blanks(text) != (array ? '[' : '{'))
    return tsx_fail(error, TSR_MISMATCH, "%s: expected a JSON %s", what, array ? "array" : "object");
  rc = tsx_json_walk_open(db, json, &walk);
  if (rc == SQLITE_OK) rc = sqlite3_prepare_v2(db, "SELECT key, type, value FROM json_each(?1)", -1, &statement, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_bind_value(statement, 1, json);
  while (rc == SQLITE_OK && code == TSR_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
    tsx_json_option o = {.key = (const char *)sqlite3_column_text(statement, 0),
                         .type = (const char *)sqlite3_column_text(statement, 1),
                         .text = tsx_json_walk_next(&walk)};
    o.value = option_value(db, sqlite3_column_value(statement, 2), o.text);
    if (!o.value || !o.type || !o.key) code = tsx_out_of_memory(error);
    else if (strlen(o.key) != (size_t)sqlite3_column_bytes(statement, 0))
      code = tsx_fail(error, TSR_MISMATCH, "%s: a name with a NUL after '%.100s'", what, o.key);
    else code = read(argument, &o, error);
    sqlite3_value_free(o.value);
    rc = SQLITE_OK;
  }
  if (code == TSR_OK && rc != SQLITE_DONE && rc != SQLITE_OK)
    code = tsx_fail(error, tsx_input_code(rc), "%s: %s", what, sqlite3_errmsg(db));
  sqlite3_finalize(statement);
  tsx_json_walk_close(&walk);
  return code;
}

int tsx_options_each(sqlite3 *db, sqlite3_value *json, const char *what, tsx_option_reader read, void *argument,
                     tsr_error *error) {
  return read_each(db, json, false, what, read, argument, error);
}

int tsx_elements_each(sqlite3 *db, sqlite3_value *json, const char *what, tsx_option_reader read, void *argument,
                      tsr_error *error) {
  return read_each(db, json, true, what, read, argument, error);
}

/* ---- Objects of numbers ------------------------------------------------------------------------------------------ */

static const char *skip_digits(const char *p) {
  while (*p >= '0' && *p <= '9') p++;
  return p;
}

/* Returns the length of the JSON number at `p`; 0 if there is none. */
static size_t number_length(const char *p) {
  const char *at = p + (*p == '-'), *end = skip_digits(at);
  if (end == at || (*at == '0' && end > at + 1)) return 0;
  if (*end == '.') {
    at = end + 1;
    if ((end = skip_digits(at)) == at) return 0;
  }
  if (*end == 'e' || *end == 'E') {
    at = end + 1;
    at += *at == '+' || *at == '-';
    if ((end = skip_digits(at)) == at) return 0;
  }
  return (size_t)(end - p);
}

/* Reads a member without escapes. Returns the text after it, or NULL. */
static const char *number_member(const char *p, tsx_json_number *number) {
  if (*p++ != '"') return NULL;
  const size_t key = strcspn(p, "\"\\");
  if (key >= sizeof number->key || p[key] != '"') return NULL;
  for (size_t i = 0; i < key; i++)
    if ((unsigned char)p[i] < 0x20) return NULL;
  memcpy(number->key, p, key);
  number->key[key] = 0;
  p = skip_blanks(p + key + 1);
  if (*p != ':') return NULL;
  p = skip_blanks(p + 1);
  const size_t size = number_length(p);
  if (!size || size >= sizeof number->text) return NULL;
  memcpy(number->text, p, size);
  number->text[size] = 0;
  return tsr_real_parse(p, size, &number->value, NULL) ? p + size : NULL;
}

int tsx_numbers_scan(const char *text, tsx_json_number numbers[TSX_JSON_NUMBERS_MAX]) {
  int count = 0;
  const char *p = skip_blanks(text);
  if (*p != '{') return -1;
  do {
    if (count == TSX_JSON_NUMBERS_MAX || !(p = number_member(skip_blanks(p + 1), &numbers[count]))) return -1;
    count++;
    p = skip_blanks(p);
  } while (*p == ',');
  return *p == '}' && !*skip_blanks(p + 1) ? count : -1;
}
