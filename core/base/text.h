/* text.h: a bounded reader of texts: GeoJSON, WKT, JSON of servers. base/input.h reads bytes. */
#ifndef TSR_BASE_TEXT_H
#define TSR_BASE_TEXT_H

#include "base/error.h"

/* A text that is being read, from `begin` to `end`; `at` is what comes next. It needs no NUL at its end. */
typedef struct tsr_text {
  const char *what; /* "geometry", for messages */
  const char *begin, *at, *end;
} tsr_text;

static inline bool tsr__text_is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
static inline void tsr__text_skip(tsr_text *in) {
  while (in->at < in->end && tsr__text_is_space(*in->at)) in->at++;
}
/* Skips spaces, and the character `c` if it is next. Returns whether it was. */
static inline bool tsr__text_take(tsr_text *in, char c) {
  tsr__text_skip(in);
  if (in->at == in->end || *in->at != c) return false;
  in->at++;
  return true;
}
/* Fails with TSR_MISMATCH where reading is, or because the text ends early. The message quotes nothing of the text,
 * which may hold secrets. */
int tsr__text_fail(const tsr_text *in, const char *expected, tsr_error *error);
/* Reads a number, rounded as C rounds it, with a point in every locale. */
int tsr__text_number(tsr_text *in, double *value, tsr_error *error);

#endif
