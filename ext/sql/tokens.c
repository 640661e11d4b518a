/* tokens.c: splits SQL text into tokens by SQLite's rules, as far as the arguments of CREATE VIRTUAL TABLE need
 * them. */
#include "sql/tokens.h"

#include <ctype.h>
#include <string.h>

#include "connection/sqlite_api.h"
#include "tessera_host.h"

static bool begins_word(unsigned char c) { return isalpha(c) || c == '_' || c >= 0x80; }
static bool is_in_word(unsigned char c) { return begins_word(c) || isdigit(c) || c == '$'; }

/* Skips white space, which a byte order mark is, too, and comments. An unclosed block comment extends to the end of the
 * text, as in SQLite. */
static const char *tokens_skip_blanks(const char *p) {
  for (;;) {
    if (isspace((unsigned char)*p)) {
      p++;
    } else if (!strncmp(p, "\xef\xbb\xbf", 3)) {
      p += 3;
    } else if (p[0] == '-' && p[1] == '-') {
      while (*p && *p != '\n') p++;
    } else if (p[0] == '/' && p[1] == '*') {
      const char *end = strstr(p + 2, "*/");
      p = end ? end + 2 : p + strlen(p);
    } else {
      return p;
    }
  }
}

/* Returns the text after the closing quote, or NULL if there is none. */
static const char *skip_quoted(const char *p, char close) {
  for (; *p; p++) {
    if (*p != close) continue;
    if (p[1] != close || close == ']') return p + 1;
    p++;
  }
  return NULL;
}

/* Returns the text after the number, or NULL if a letter follows it directly. */
static const char *skip_number(const char *p) {
  if (*p == '0' && (p[1] == 'x' || p[1] == 'X') && isxdigit((unsigned char)p[2])) {
    for (p += 2; isxdigit((unsigned char)*p);) p++;
    return is_in_word((unsigned char)*p) ? NULL : p;
  }
  while (isdigit((unsigned char)*p)) p++;
  if (*p == '.') p++;
  while (isdigit((unsigned char)*p)) p++;
  if (*p == 'e' || *p == 'E') {
    const char *digits = p + 1 + (p[1] == '+' || p[1] == '-');
    if (isdigit((unsigned char)*digits)) {
      while (isdigit((unsigned char)*digits)) digits++;
      p = digits;
    }
  }
  return is_in_word((unsigned char)*p) ? NULL : p;
}

void tsx_tokens_next(tsx_tokens *tokens) {
  const char *p = tokens_skip_blanks(tokens->at), *end = p + 1;
  tsx_token_kind kind = TSX_TOKEN_MARK;
  unsigned char c = (unsigned char)*p;
  if (!c) {
    kind = TSX_TOKEN_END;
    end = p;
  } else if (c == '\'') {
    kind = TSX_TOKEN_STRING;
    end = skip_quoted(p + 1, '\'');
  } else if (c == '"' || c == '`' || c == '[') {
    kind = TSX_TOKEN_NAME;
    end = skip_quoted(p + 1, c == '[' ? ']' : (char)c);
  } else if ((c == 'x' || c == 'X') && p[1] == '\'') {
    kind = TSX_TOKEN_BLOB;
    end = skip_quoted(p + 2, '\'');
  } else if (begins_word(c)) {
    kind = TSX_TOKEN_WORD;
    while (is_in_word((unsigned char)*end)) end++;
  } else if (isdigit(c) || (c == '.' && isdigit((unsigned char)p[1]))) {
    kind = TSX_TOKEN_NUMBER;
    end = skip_number(p);
  }
  if (!end) {
    kind = TSX_TOKEN_BAD;
    end = p + strlen(p);
  }
  tokens->token = (tsx_token){kind, p, (uint64_t)(end - p)};
  tokens->at = end;
}

tsx_tokens tsx_tokens_of(const char *text) {
  tsx_tokens tokens = {.at = text};
  tsx_tokens_next(&tokens);
  return tokens;
}

bool tsx_token_is(const tsx_token *token, const char *word) {
  return (token->kind == TSX_TOKEN_WORD || token->kind == TSX_TOKEN_MARK) && strlen(word) == token->size &&
         !sqlite3_strnicmp(token->text, word, (int)token->size);
}

uint64_t tsx_token_copy(const tsx_token *token, char *out) {
  uint64_t n = 0;
  const char *p = token->text, *end = p + token->size;
  switch (token->kind) {
  case TSX_TOKEN_STRING:
  case TSX_TOKEN_NAME:
    for (p++, end--; p < end; p++) {
      out[n++] = *p;
      if (*p == end[0] && *end != ']') p++; /* a doubled quote */
    }
    break;
  case TSX_TOKEN_BLOB:
    n = (uint64_t)(end - p - 3) / 2; /* between x' and ' */
    if ((end - p - 3) % 2 || !tsr_hex_read(p + 2, n, out)) n = TSX_TOKEN_INVALID;
    break;
  default: memcpy(out, p, token->size); n = token->size;
  }
  out[n == TSX_TOKEN_INVALID ? 0 : n] = 0;
  return n;
}
