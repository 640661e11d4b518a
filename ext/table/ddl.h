/* ddl.h: the same words, the other way. */
#ifndef TSX_DDL_H
#define TSX_DDL_H

#include "connection/sqlite_api.h"
#include "tessera.h"

typedef struct tsx_address tsx_address;

void tsx_filters_append(sqlite3_str *out, const tsr_pipeline *pipeline);

/* What a field's values go through: a dimension without filters of its own takes those of the coordinates. */
const tsr_pipeline *tsx_filters_of(const tsr_schema *schema, uint32_t field);
void tsx_ddl(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_ddl(path[, key]) */

/* What stands in the parentheses behind the path: kind, columns, options. `schema`: this one, of the address's array but
 * for what tessera_copy changes, its enumerations loaded; NULL: the one in force. */
int tsx_ddl_arguments(sqlite3_str *out, const tsx_address *address, const tsr_schema *schema, tsr_error *error);

#endif
