/* value_in.h: SQL values become the cells of one row that is to be written. A tsx_row holds one row of a table in the
 * form that a writer of the core takes; it is made once and set again for each row. */
#ifndef TSX_VALUE_IN_H
#define TSX_VALUE_IN_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/module.h"

typedef struct tsx_row tsx_row;
struct tsx_table;

/* Makes a row for writers of `schema`, which may be newer than the table's. Free it by tsx_row_free. */
int tsx_row_make(struct tsx_table *table, const tsr_schema *schema, tsx_row **row, tsr_error *error);
void tsx_row_free(tsx_row *row); /* `row` may be NULL */
const tsr_schema *tsx_row_schema(const tsx_row *row);

/* Returns one column for each field of the schema, with one cell, as the fields were set last. Borrowed until the row
 * is freed or set again. */
const tsr_column *tsx_row_columns(const tsx_row *row);

/* Returns the field of the schema that a column of the table shows, or -1 if the schema has it no more. */
int tsx_row_field(const tsx_row *row, uint32_t column);

/* Returns the column of the table that shows a field, or -1 if none does. */
int tsx_row_column(const tsx_row *row, uint32_t field);

/* Returns true if each column has a field and each field a column. */
bool tsx_row_is_complete(const tsx_row *row);

/* Sets a field's cell to a value. Borrows texts and blobs from the value: it must live until the row was appended. NULL
 * becomes null; in an INSERT it becomes the declared DEFAULT of a field that cannot be null. TSR_CONSTRAINT where the
 * field can be neither; TSR_MISMATCH or TSR_RANGE where the value does not fit the field. */
int tsx_row_set(tsx_row *row, uint32_t field, sqlite3_value *value, bool insert, tsr_error *error);
int tsx_row_set_null(tsx_row *row, uint32_t field, bool insert, tsr_error *error);

/* Sets all fields for an INSERT. `values` has one value for each column of the table; the row is complete. */
int tsx_row_set_all(tsx_row *row, sqlite3_value **values, tsr_error *error);

/* Gives a dimension a coordinate, 8 bytes, for rows whose value is NULL there; `coordinate` is borrowed until it is taken
 * back by NULL. */
void tsx_row_place(tsx_row *row, uint32_t dimension, const uint8_t *coordinate);

/* Sets a field to a cell that was read. Borrows its bytes from `cells`, at `index` as in tsr_column. */
void tsx_row_keep(tsx_row *row, uint32_t field, const tsr_column *cells, uint64_t index);

#endif
