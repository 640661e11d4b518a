/* value_in.h: SQL values become the cells of one row that is to be written. */
#ifndef TSX_VALUE_IN_H
#define TSX_VALUE_IN_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/module.h"

typedef struct tsx_row tsx_row; /* one row of a table on its way into a writer */
struct tsx_table;

/* For writers of `schema`, which may be newer than the table's. Freed by tsx_row_free. */
int tsx_row_make(struct tsx_table *table, const tsr_schema *schema, tsx_row **row, tsr_error *error);
void tsx_row_free(tsx_row *row); /* NULL is fine */
const tsr_schema *tsx_row_schema(const tsx_row *row);

/* One cell for each field of the schema, as it was set last. Borrowed. */
const tsr_column *tsx_row_columns(const tsx_row *row);

/* The field of the table's column, -1 if it is gone; and the column that shows a field, -1 if none does. */
int tsx_row_field(const tsx_row *row, uint32_t column);
int tsx_row_shown(const tsx_row *row, uint32_t field);
bool tsx_row_is_complete(const tsx_row *row); /* each column has a field, and each field a column */

/* Sets a field's cell. NULL is null; in an INSERT the DEFAULT where it cannot be null, which has to be declared then.
 * TSR_CONSTRAINT: it cannot be NULL; TSR_MISMATCH, TSR_RANGE: the value does not fit. Texts and blobs stay SQLite's. */
int tsx_row_set(tsx_row *row, uint32_t field, sqlite3_value *value, bool insert, tsr_error *error);
int tsx_row_set_null(tsx_row *row, uint32_t field, bool insert, tsr_error *error);

/* The same of all fields, by the table's columns, in an INSERT where the row is complete. */
int tsx_row_set_all(tsx_row *row, sqlite3_value **values, tsr_error *error);

/* The bytes of another cell, borrowed. */
void tsx_row_keep(tsx_row *row, uint32_t field, const tsr_column *cells, uint64_t index);

#endif
