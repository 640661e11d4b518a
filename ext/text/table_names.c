/* table_names.c: parses the name of a table after "db:" in a path. */
#include "text/table_names.h"

#include <ctype.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"

/* Parses one identifier, quoted as in SQL or not. Returns it, of sqlite3_malloc, and sets *end to the text after it. Returns
 * NULL if there is none, if its quote is not closed, or if memory is lacking: then *end is NULL, too. */
static char *parse_identifier(const char *p, const char **end) {
  char close = *p == '"' || *p == '`' || *p == '\'' ? *p : *p == '[' ? ']' : 0;
  char *name = sqlite3_malloc64(strlen(p) + 1), *to = name;
  *end = NULL;
  if (!name) return NULL;
  if (close) {
    for (p++; *p && (*p != close || (close != ']' && p[1] == close)); p++) {
      *to++ = *p;
      if (*p == close) p++;
    }
    if (*p++ != close) to = name; /* not closed */
  } else {
    while (*p && *p != '.' && !isspace((unsigned char)*p)) *to++ = *p++;
  }
  *to = 0;
  *end = p;
  if (to > name) return name;
  sqlite3_free(name);
  return NULL;
}

int tsx_table_name_parse(const char *text, char **schema, char **name, tsr_error *error) {
  const char *end = text;
  *schema = NULL;
  *name = parse_identifier(text, &end);
  if (*name && *end == '.') {
    *schema = *name;
    *name = parse_identifier(end + 1, &end);
  }
  if (*name && !*end) return TSR_OK;
  sqlite3_free(*schema);
  sqlite3_free(*name);
  *schema = *name = NULL;
  if (!end) return tsx_fail(error, TSR_NOMEM, "out of memory");
  return tsx_fail(error, TSR_ERROR,
                  "'%.100s' names no table: expected TABLE or SCHEMA.TABLE, a name with blanks in double quotes", text);
}
