/* tokens.h: SQL text as tokens, as the arguments of CREATE VIRTUAL TABLE have them: comments and blanks are skipped,
 * names may be in double quotes, backticks or brackets, strings are in single quotes, quotes are doubled inside. */
#ifndef TSX_TOKENS_H
#define TSX_TOKENS_H

#include "tessera.h"

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

#endif
