/* names.h: names in SQL: of fields, of tables in a path, of filters and orders. */
#ifndef TSX_SQL_NAMES_H
#define TSX_SQL_NAMES_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* Fails with TSR_MISMATCH if a text has a NUL character: whoever reads it up to there would take `what` for another
 * one. Other values than texts pass. */
int tsx_text_whole(sqlite3_value *value, const char *what, tsr_error *error);

/* ---- Names of fields --------------------------------------------------------------------------------------------- */
/* Stored names of dimensions, attributes and enumerations become names that SQL can use: distinct without regard to
 * case, not empty, in UTF-8. */

/* Makes the names of all fields of a schema, dimensions first, as a table shows them. Anonymous fields are called dim0,
 * dim1, ... and attr0, attr1, ...; a name that equals an earlier one gets the suffix _2, _3, ...; a byte that is not
 * part of valid UTF-8 becomes %XX. The caller frees the result with tsx_names_free. Returns NULL if memory is
 * lacking. */
char **tsx_names_make(const tsr_schema *schema);
void tsx_names_free(char **names, const tsr_schema *schema); /* NULL is allowed */

/* Returns TSR_ERROR with the formatted message, followed by the names from `first` up to, not including, `end`, as far
 * as they fit. */
int tsx_names_fail(char *const *names, uint32_t first, uint32_t end, tsr_error *error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Converts a stored name to valid UTF-8; a byte that is not part of valid UTF-8 becomes %XX. The caller frees the
 * result with sqlite3_free. Returns NULL if memory is lacking. */
char *tsx_name_text(const char *name);

/* Appends the text of a stored name to a list of names, after a comma unless it is the first one. */
void tsx_name_append(sqlite3_str *list, const char *name);

/* ---- Names of tables --------------------------------------------------------------------------------------------- */

/* Splits the text after "db:" in a path, TABLE or SCHEMA.TABLE; names may be quoted as in SQL. *schema is NULL if the
 * text has none. The caller frees both names with sqlite3_free. TSR_ERROR if the text names no table, or TSR_NOMEM. */
int tsx_table_name_parse(const char *text, char **schema, char **name, tsr_error *error);

/* ---- Names of filters and orders --------------------------------------------------------------------------------- */
/* As in column definitions, in tessera_ddl and in tessera_schema. */

/* Returns the name of a filter, such as "zstd", or NULL for TSR_FILTER_NONE and for a number that is not a filter. */
const char *tsx_filter_name(tsr_filter_type type);

/* Returns the name of an order: "row", "col", "global", "hilbert", "unordered". */
const char *tsx_order_name(tsr_order order);

#endif
