/* json_flat.c: a reader of flat JSON objects (RFC 8259) that works in place. A text without its escapes is never longer
 * than with them, so it takes the place of what was read. */
#include "text/json_flat.h"

#include <string.h>

#include "connection/errors.h"
#include "text/tokens.h"

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

/* Reads four hexadecimal digits. Returns -1 if they are not there. */
static int flat_unit(const char *at) {
  int value = 0;
  for (int i = 0; i < 4; i++) {
    const int digit = tsx_hex_digit(at[i]);
    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

/* Reads the character behind "\u", whose second half may follow as another escape, and writes it as UTF-8. */
static bool flat_escape(char **from, char **to) {
  int c = flat_unit(*from);
  if (c < 0 || (c >= 0xdc00 && c <= 0xdfff)) return false;
  *from += 4;
  if (c >= 0xd800 && c <= 0xdbff) {
    const int low = (*from)[0] == '\\' && (*from)[1] == 'u' ? flat_unit(*from + 2) : -1;
    if (low < 0xdc00 || low > 0xdfff) return false;
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    *from += 6;
  }
  const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const int marks[] = {0, 0xc0, 0xe0, 0xf0};
  *(*to)++ = (char)(marks[more] | c >> (6 * more));
  for (int i = more - 1; i >= 0; i--) *(*to)++ = (char)(0x80 | (c >> (6 * i) & 0x3f));
  return true;
}

char *tsx_json_text_unescape(char *json, char **text, uint64_t *size) {
  static const char escapes[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  char *from = json, *to = json, *const start = json;
  *text = from;
  if (*from++ != '"') return NULL;
  for (; *from != '"';) {
    *text = from;
    if ((unsigned char)*from < 0x20) return NULL;
    if (*from != '\\') {
      *to++ = *from++;
      continue;
    }
    const char *escape = from[1] ? strchr(escapes, from[1]) : NULL;
    if (!escape && from[1] != 'u') return NULL;
    from += 2;
    if (escape) *to++ = values[escape - escapes];
    else if (!flat_escape(&from, &to)) return NULL;
  }
  *to = 0;
  *text = start;
  *size = (uint64_t)(to - start);
  return from + 1;
}

/* Reads a text, from its first quote on, and removes its escapes in place. */
static int flat_text(flat *f, const char **text) {
  char *found;
  uint64_t size = 0;
  if (*f->at != '"') return flat_fail(f, "a quote");
  char *end = tsx_json_text_unescape(f->at, &found, &size);
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

/* Reads one member, calls the reader, and goes on behind the comma. Returns 1 if another member follows. */
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
