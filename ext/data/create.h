/* create.h: the rows of a SELECT for an ingest. */
#ifndef TSX_DATA_CREATE_H
#define TSX_DATA_CREATE_H

#include "data/ingest.h"
#include "connection/sqlite_api.h"

/* Prepares one statement that gives rows, changes nothing, and has no parameters. The caller finalizes it. */
int tsx_select_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **statement, tsr_error *error);

/* Names the columns of a call that was begun, and gives those their types that are columns of tables. The keys of GROUP BY
 * of a tessera_query become its dimensions, unless the options name others. */
int tsx_select_columns(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error);

/* Runs the statement, and takes all rows into the call's ingest. */
int tsx_select_rows(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error);

/* The SQL function tessera_create_as. */

void tsx_create_as(sqlite3_context *context, int count, sqlite3_value **values);

/* The SQL function tessera_create_csv. */

void tsx_create_csv(sqlite3_context *context, int count, sqlite3_value **values);

#endif
