/* parse.h: parses the text of a tessera_query. */
#ifndef TSX_PARSE_H
#define TSX_PARSE_H

#include "query/tree.h"

/* Whether SQLite may have a better message for a text that this parser has refused. */
typedef struct tsx_parse_doubt {
  bool any;
  const char *begin, *end; /* the token that the parser did not expect; NULL: it has refused something that it knows */
  bool word; /* the token is a word without quotes */
} tsx_parse_doubt;

/* Parses a SELECT. Names are not looked up yet. *doubt is set, too, and is empty if nothing has failed. The caller calls
 * tsx_select_free, also after a failure. */
int tsx_select_parse(const char *text, tsx_select *select, tsx_parse_doubt *doubt, tsr_error *error);

#endif
