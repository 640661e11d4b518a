/* json.c: reads JSON (RFC 8259) of any size where the caller keeps it, without recursion: finds strings, names and the
 * ends of values, and decodes the strings that are needed. */
#include "base/json.h"

#include <string.h>

#include "tessera_host.h"

#define JSON_DEPTH 512 /* most levels of a value that is skipped: a bit each */

int tsr__json_string(tsr_text *in, const char **text, uint64_t *size, tsr_error *error) {
  if (!tsr__text_take(in, '"')) return tsr__text_fail(in, "a string", error);
  *text = in->at;
  for (; in->at < in->end && *in->at != '"'; in->at++)
    if (*in->at == '\\' && in->at + 1 < in->end) in->at++;
  if (in->at == in->end) return tsr__text_fail(in, "'\"'", error);
  *size = (uint64_t)(in->at++ - *text);
  return TSR_OK;
}

/* Skips a number, or one of the words null, true and false. */
static int skip_word(tsr_text *in, tsr_error *error) {
  static const char *const words[] = {"null", "true", "false"};
  double unused;
  for (int i = 0; i < 3; i++) {
    const uint64_t size = strlen(words[i]);
    if ((uint64_t)(in->end - in->at) < size || memcmp(in->at, words[i], size) != 0) continue;
    in->at += size;
    return TSR_OK;
  }
  return tsr__text_number(in, &unused, error);
}

int tsr__json_name(tsr_text *in, const char **name, uint64_t *size, tsr_error *error) {
  TSR_TRY(tsr__json_string(in, name, size, error));
  return tsr__text_take(in, ':') ? TSR_OK : tsr__text_fail(in, "':'", error);
}

typedef struct nesting { /* the arrays and objects around a place: bit i says that level i is an object */
  uint64_t objects[JSON_DEPTH / 64];
  uint32_t depth;
} nesting;

static int open_level(tsr_text *in, nesting *nest, bool object, tsr_error *error) {
  if (nest->depth == JSON_DEPTH)
    return tsr__fail(error, TSR_MISMATCH, "the %s has more than %d levels", in->what, JSON_DEPTH);
  uint64_t *word = &nest->objects[nest->depth / 64];
  const uint64_t bit = UINT64_C(1) << nest->depth % 64;
  *word = object ? *word | bit : *word & ~bit;
  nest->depth++;
  return TSR_OK;
}

static bool in_object(const nesting *nest) {
  const uint32_t level = nest->depth - 1;
  return nest->objects[level / 64] >> level % 64 & 1;
}

/* Closes what ends here, up to a comma behind which another value follows, or to the end. */
static int close_levels(tsr_text *in, nesting *nest, tsr_error *error) {
  const char *name;
  uint64_t size;
  while (nest->depth) {
    const bool object = in_object(nest);
    if (tsr__text_take(in, ',')) return object ? tsr__json_name(in, &name, &size, error) : TSR_OK;
    if (!tsr__text_take(in, object ? '}' : ']')) return tsr__text_fail(in, object ? "',' or '}'" : "',' or ']'", error);
    nest->depth--;
  }
  return TSR_OK;
}

int tsr__json_skip(tsr_text *in, tsr_error *error) {
  nesting nest = {.depth = 0};
  const char *text;
  uint64_t size;
  do {
    const bool object = tsr__text_take(in, '{');
    if (object || tsr__text_take(in, '[')) {
      TSR_TRY(open_level(in, &nest, object, error));
      if (!tsr__text_take(in, object ? '}' : ']')) {
        if (object) TSR_TRY(tsr__json_name(in, &text, &size, error));
        continue;
      }
      nest.depth--;
    } else if (in->at < in->end && *in->at == '"') {
      TSR_TRY(tsr__json_string(in, &text, &size, error));
    } else {
      TSR_TRY(skip_word(in, error));
    }
    TSR_TRY(close_levels(in, &nest, error));
  } while (nest.depth);
  return TSR_OK;
}

/* ---- Escapes ----------------------------------------------------------------------------------------------------- */

/* Reads four hexadecimal digits. Returns -1 if they are missing. */
static int read_unit(const char *at) {
  int value = 0;
  for (int i = 0; i < 4; i++) {
    const int digit = tsr_hex_digit(at[i]);
    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

/* Decodes the character after "\u", which may be the first half of a surrogate pair, and writes it as UTF-8. */
static bool unescape_unicode(char **from, char **to) {
  int c = read_unit(*from);
  if (c < 0 || (c >= 0xdc00 && c <= 0xdfff)) return false;
  *from += 4;
  if (c >= 0xd800 && c <= 0xdbff) {
    const int low = (*from)[0] == '\\' && (*from)[1] == 'u' ? read_unit(*from + 2) : -1;
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

char *tsr_json_unescape(char *json, char **text, uint64_t *size) {
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
    else if (!unescape_unicode(&from, &to)) return NULL;
  }
  *to = 0;
  *text = start;
  *size = (uint64_t)(to - start);
  return from + 1;
}
