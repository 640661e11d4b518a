/* ddl.h: schemas as SQL text: the CREATE VIRTUAL TABLE statement that would make such an array, its filters, and the
 * SQL function tessera_ddl. The reverse of definition/define.h. */
#ifndef TSX_DDL_H
#define TSX_DDL_H

#include "connection/sqlite_api.h"
#include "tessera.h"

typedef struct tsx_address tsx_address;

/* Appends a filter pipeline as FILTERS(...) takes it, without the word and the parentheses. */
void tsx_filters_append(sqlite3_str *out, const tsr_pipeline *pipeline);

/* Returns the pipeline that the values of a field go through: a dimension without filters of its own has those of the
 * coordinates. Borrowed from the schema. */
const tsr_pipeline *tsx_filters_of(const tsr_schema *schema, uint32_t field);

/* The SQL function tessera_ddl(path[, key]). */
void tsx_ddl(sqlite3_context *context, int count, sqlite3_value **values);

/* Appends what stands in the parentheses of CREATE VIRTUAL TABLE after the path: kind, columns and options. `schema`
 * NULL means the schema in force at the address's as_of. Another schema is that of the address's array with the changes
 * that tessera_copy makes to it, or that of an array that is to be made there, with its enumerations loaded. The
 * address's array is open, unless it is to be made. */
int tsx_ddl_arguments(sqlite3_str *out, const tsx_address *address, const tsr_schema *schema, tsr_error *error);

/* Appends the whole statement. `made` is NULL, or the schema of an array that is to be made at the address. */
int tsx_ddl_statement(sqlite3_str *out, const tsx_address *address, const tsr_schema *made, tsr_error *error);

#endif
