/* table_names.h: parses the name of a table after "db:" in a path. */
#ifndef TSX_TABLE_NAMES_H
#define TSX_TABLE_NAMES_H

#include "tessera.h"

/* Splits the text after "db:", TABLE or SCHEMA.TABLE, whose names may be quoted as in SQL. *schema is NULL if the text has
 * none. The caller frees both names with sqlite3_free. Returns TSR_ERROR if the text names no table, or TSR_NOMEM. */
int tsx_table_name_parse(const char *text, char **schema, char **name, tsr_error *error);

#endif
