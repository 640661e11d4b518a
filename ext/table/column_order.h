/* column_order.h: the numbers that SQL has for the columns of a table.
 *
 * Two numbers belong to each column. Its own one counts the fields that the table shows, then as_of, since and
 * written_at, then the labels: the files of this folder mean that number. SQL counts the columns as SELECT * and the
 * arguments of a call have them: each dimension with the labels behind it, the attributes, as_of, since, written_at, and
 * what else is hidden. A dimension is hidden that only numbers the coordinates of a label: the dimension lat_index of the
 * label lat. */
#ifndef TSX_COLUMN_ORDER_H
#define TSX_COLUMN_ORDER_H

#include "tessera.h"
#include "table/module.h"

/* Makes the order of the table's columns, once its fields and labels are known. tsx_column_order_free frees it. */
int tsx_column_order_make(tsx_table *table, tsr_error *error);
void tsx_column_order_free(tsx_table *table);

/* Returns the own number of SQL's column; that of the rowid, which is negative, stays as it is. */
static inline int tsx_column_own(const tsx_table *table, int column) {
  return column < 0 || !table->order.own ? column : table->order.own[column];
}

/* Returns the number that SQL has for a column. */
static inline int tsx_column_sql(const tsx_table *table, int own) {
  return table->order.sql ? table->order.sql[own] : own;
}

/* Returns the arguments of an INSERT or UPDATE with the values of the row in the order of the own numbers: two values and
 * then the row. They are valid until the next call. */
sqlite3_value **tsx_column_order_values(tsx_table *table, sqlite3_value **values);

#endif
