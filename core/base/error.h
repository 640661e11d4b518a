/* error.h: errors with context. A function that fails sets the caller's tsr_error and returns its negative code. A lower
 * layer says what is wrong; each layer above puts in front where that was. */
#ifndef TSR_ERROR_H
#define TSR_ERROR_H

#include "tessera.h"

#define TSR_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Sets the error and returns its code, for `return tsr__fail(error, TSR_CORRUPT, "...", ...)`. */
int tsr__fail(tsr_error *error, int rc, const char *format, ...) TSR_PRINTF(3, 4);

/* Puts "context: " before the message, keeps the code, returns it. Without an error (an internal call whose answer is not looked at) the code is
 * not known: TSR_ERROR. */
int tsr__wrap(tsr_error *error, const char *format, ...) TSR_PRINTF(2, 3);

/* The first statement of every public function that takes an error: behind it `error` is never NULL, so that whoever passes NULL gets the same
 * code, and what is done after a failure is the same (test_null_error.c calls each of them so). */
#define TSR_OWN_ERROR(error)                                                                                           \
  tsr_error tsr_unseen_;                                                                                               \
  if (!(error)) (error) = tsr__error_clear(&tsr_unseen_)

static inline tsr_error *tsr__error_clear(tsr_error *error) {
  error->code = TSR_OK;
  error->message[0] = 0;
  return error;
}

#define TSR_TRY(call)                                                                                                  \
  do {                                                                                                                 \
    int tsr_try_ = (call);                                                                                             \
    if (tsr_try_ < 0) return tsr_try_;                                                                                 \
  } while (0)

#endif
