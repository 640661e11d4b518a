/* stream_tokens.h: streams that wait for somebody to take them. Each has a token, by which it is taken once. */
#ifndef TSX_STREAM_TOKENS_H
#define TSX_STREAM_TOKENS_H

#include "connection/sqlite_api.h"
#include "tessera.h"

#define TSX_STREAM_TOKENS_MAX 256 /* streams of one owner that wait */

/* Keeps a stream, which is moved: its `release` becomes NULL. `owner` is compared only; NULL: C put it in. Returns
 * TSR_TOOBIG if too many streams of the owner wait, TSR_NOMEM; the stream stays the caller's then. */
int tsx_tokens_put(struct ArrowArrayStream *stream, const void *owner, char token[TESSERA_TOKEN_SIZE],
                   tsr_error *error);

/* Moves the stream of a token to *stream. Returns false if there is none. */
bool tsx_tokens_take(const char *token, struct ArrowArrayStream *stream);

/* Moves any stream of an owner to *stream. Returns false if there is none. */
bool tsx_tokens_take_owned(const void *owner, struct ArrowArrayStream *stream);

#endif
