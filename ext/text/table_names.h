/* table_names.h: the names of tables behind db: in paths. */
#ifndef TSX_TABLE_NAMES_H
#define TSX_TABLE_NAMES_H

#include "tessera.h"

/* Splits the text behind db:, TABLE or SCHEMA.TABLE, whose names may be quoted as in SQL, into its two names. *schema is NULL where
 * the text gives none. The caller frees both with sqlite3_free. TSR_ERROR where the text names no table; TSR_NOMEM. */
int tsx_table_name_parse(const char *text, char **schema, char **name, tsr_error *error);

#endif
