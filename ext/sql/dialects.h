/* dialects.h: what words of other databases' SQL mean here. */
#ifndef TSX_SQL_DIALECTS_H
#define TSX_SQL_DIALECTS_H

#include "tessera.h"

/* Returns what to write instead of words of another dialect, if `message`, an error about the text, is about them; else
 * NULL. */
const char *tsx_dialect_advice(const char *text, const char *message);

/* Adds the advice to an error about the text, if there is any. Returns error->code. */
int tsx_dialect_explain(const char *text, tsr_error *error);

#endif
