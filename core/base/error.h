/* error.h: errors with context. A function that fails fills the caller's tsr_error and returns its negative code. The
 * lowest layer says what is wrong (tsr__fail); each layer above prepends where it happened (tsr__wrap). */
#ifndef TSR_ERROR_H
#define TSR_ERROR_H

#include "tessera.h"

#define TSR_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Sets the error's code and message and returns the code, for `return tsr__fail(error, TSR_CORRUPT, "...", ...)`. With
 * a NULL error it only returns the code. An `rc` that is not negative counts as TSR_ERROR. */
int tsr__fail(tsr_error *error, int rc, const char *format, ...) TSR_PRINTF(3, 4);

/* Prepends "context: " to the error's message, unless the message already begins with it, and returns the error's code
 * unchanged. With a NULL error, in an internal call whose result is ignored, the code is unknown and the result is
 * TSR_ERROR. */
int tsr__wrap(tsr_error *error, const char *format, ...) TSR_PRINTF(2, 3);

/* The first statement of every public function that takes an error. It replaces a NULL error by a local one, so that
 * the code below it behaves the same whether or not the caller passed an error (test_null_error.c calls each function
 * both ways). */
#define TSR_OWN_ERROR(error)                                                                                           \
  tsr_error tsr_unseen_;                                                                                               \
  if (!(error)) (error) = tsr__error_clear(&tsr_unseen_)

static inline tsr_error *tsr__error_clear(tsr_error *error) {
  error->code = TSR_OK;
  error->message[0] = 0;
  error->subject = 0;
  return error;
}

/* Says what an error is about, for callers that treat objects differently: no code branches on the text of a message.
 * tsr__fail sets the subject to 0 (unknown), and tsr__wrap keeps it. The function that sets a subject documents it. */
static inline void tsr__error_about(tsr_error *error, uint32_t subject) {
  if (error) error->subject = subject;
}

/* Returns from the calling function with the code of `call` if that code is negative. */
#define TSR_TRY(call)                                                                                                  \
  do {                                                                                                                 \
    int tsr_try_ = (call);                                                                                             \
    if (tsr_try_ < 0) return tsr_try_;                                                                                 \
  } while (0)

#endif
