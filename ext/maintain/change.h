/* change.h: the functions that change metadata, schemas and groups, and tessera_drop_array;
 * docs/reference/functions.md describes each of them in "Change what describes data". */
#ifndef TSX_FUNCTIONS_CHANGE_H
#define TSX_FUNCTIONS_CHANGE_H

#include "table/address.h"

/* Removes the overviews of an array that is about to be dropped. An array that cannot be opened keeps them. */
int tsx_drop_overviews(tsx_address *address, tsr_error *error);

void tsx_set_metadata(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_delete_metadata(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_add_attribute(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_drop_attribute(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_extend_enumeration(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_expand_domain(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_create_group(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_add_member(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_remove_member(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_drop_array(sqlite3_context *context, int count, sqlite3_value **values);

#endif
