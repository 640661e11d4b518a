/* parse.h: parses the text of a tessera_query. */
#ifndef TSX_PARSE_H
#define TSX_PARSE_H

#include "query/tree.h"

/* Parses a SELECT. Names are not looked up yet. *unknown is true after a failure where the words are none of SQL's as
 * this parser knows it: SQLite may have a better message. The caller calls tsx_select_free, also after a failure. */
int tsx_select_parse(const char *text, tsx_select *select, bool *unknown, tsr_error *error);

#endif
