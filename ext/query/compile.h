/* compile.h: makes a tsx_query of the text of a SELECT: finds its tables, resolves its names, and says what its columns
 * are. */
#ifndef TSX_COMPILE_H
#define TSX_COMPILE_H

#include "query/compiled.h"

/* Sets the table in FROM, which is looked up in the database `home` ("temp": in all databases), and resolves names. */
int tsx_query_compile(tsx_connection *connection, const char *home, const char *text, tsx_query *query,
                      tsr_error *error);
void tsx_query_release(tsx_query *query);

/* Fails if the host's authorizer hides a column that the query uses (SQLITE_IGNORE): SQLite gives NULL for it, but the
 * engine reads the cells. What the authorizer denies, tsx_query_compile refuses. */
int tsx_query_permitted(const tsx_query *query, tsr_error *error);

/* Makes the CREATE TABLE statement of the columns as a view of the same text has them. */
int tsx_query_declare(const tsx_query *query, char **declaration, tsr_error *error);

/* Returns true if the name of a type has this word, in any case. */
bool tsx_type_has(const char *type, const char *word);

/* Returns the type that the column of an item is declared with. A CAST has the affinity of its type; other expressions
 * have none. */
const char *tsx_query_declared(const tsx_query *query, const tsx_expr *tree);

/* Evaluates a constant. The caller frees the value by sqlite3_value_free. */
int tsx_query_constant(const tsx_query *query, const tsx_expr *tree, sqlite3_value **value, tsr_error *error);

/* As tsx_query_constant, but a number becomes its text, as in a list of IN beside a column of TEXT. */
int tsx_query_text(const tsx_query *query, const tsx_expr *tree, sqlite3_value **value, tsr_error *error);

/* Copies a value of SQLite's; text lives as long as the query. A BLOB is TSR_MISMATCH. */
int tsx_query_copy(tsx_query *query, sqlite3_value *value, tsr_value *copy, tsr_error *error);

/* Returns an array's table of this connection by its name, or NULL. */
tsx_table *tsx_table_connected(const tsx_connection *connection, const char *schema, const char *name);

/* Returns 0 if a column of a result is no column, but a NULL that SQLite has put in its place for an authorizer: it has no
 * type then, and is named by the words of the text. Else 1. */
int tsx_column_visible(sqlite3_stmt *statement, int i, const char *name, tsr_error *error);

#endif
