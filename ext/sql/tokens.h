/* tokens.h: splits SQL text into tokens, for the arguments of CREATE VIRTUAL TABLE, which SQLite passes as source text.
 * Comments and white space are skipped. Names may be in double quotes, backticks or brackets, strings in single quotes;
 * a quote inside is doubled.
 *
 *   for (tsx_tokens tokens = tsx_tokens_of(text); tokens.token.kind != TSX_TOKEN_END; tsx_tokens_next(&tokens)) ... */
#ifndef TSX_TOKENS_H
#define TSX_TOKENS_H

#include "tessera.h"

typedef enum tsx_token_kind {
  TSX_TOKEN_END,
  TSX_TOKEN_WORD,
  TSX_TOKEN_NAME, /* in double quotes, backticks or brackets */
  TSX_TOKEN_STRING,
  TSX_TOKEN_BLOB, /* x'..' */
  TSX_TOKEN_NUMBER, /* without a sign */
  TSX_TOKEN_MARK, /* any other single character */
  TSX_TOKEN_BAD /* the rest of the text: an unclosed quote, or a number like 12abc */
} tsx_token_kind;

typedef struct tsx_token {
  tsx_token_kind kind;
  const char *text; /* in the source, including quotes; not NUL-terminated */
  uint64_t size; /* in bytes */
} tsx_token;

typedef struct tsx_tokens {
  const char *at; /* the source after the current token */
  tsx_token token; /* the current token */
} tsx_tokens;

/* Returns an iterator at the first token of NUL-terminated text, which the caller keeps alive. */
tsx_tokens tsx_tokens_of(const char *text);
void tsx_tokens_next(tsx_tokens *tokens);

/* Returns true if the token is this word, unquoted and in any case, or this mark. */
bool tsx_token_is(const tsx_token *token, const char *word);

/* Writes the token's value to `out`: without quotes, doubled quotes undone, a blob decoded. Appends a NUL; `out` has
 * room for token->size + 1 bytes. Returns the number of bytes before that NUL, or TSX_TOKEN_INVALID for a blob that is
 * not made of pairs of hex digits. */
uint64_t tsx_token_copy(const tsx_token *token, char *out);
#define TSX_TOKEN_INVALID UINT64_MAX

#endif
