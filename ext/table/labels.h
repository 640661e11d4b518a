/* labels.h: the columns of dimension labels. A label gives each coordinate of a dimension another value, such as
 * a latitude; its column stands behind that of the dimension (labels.h). A comparison with it becomes ranges of the
 * dimension. */
#ifndef TSX_TABLE_LABELS_H
#define TSX_TABLE_LABELS_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "values/value.h"
#include "table/module.h"
#include "table/best_index.h"

/* The values of a label between two times, for the cursors that read that state. */
typedef struct tsx_label_state {
  struct tsx_label_state *next;
  uint64_t since, as_of;
  tsr_label_index *index;
  uint32_t users; /* cursors; 0: the state may be read again, for other times too */
} tsx_label_state;

struct tsx_label_column {
  char *name; /* in SQL */
  uint32_t label; /* number in the schema; without meaning if `group` is set */
  char *group; /* path of the array of a group that has the coordinates; NULL: the label is the array's own */
  uint32_t dimension; /* number of the field */
  tsr_field field; /* describes the values, as an attribute */
  tsx_column column; /* how SQL shows them; has no name and no field number */
  tsx_label_state *states;
};

/* Returns true if the label falls along its dimension. Of one that lies in a group nobody says so. */
static inline bool tsx_label_falls(const tsx_table *table, const tsx_label_column *label) {
  return !label->group && table->schema->labels[label->label].data_order == 2;
}

/* Makes the table's label columns, from its schema and its option `labels`. tsx_label_columns_free frees them. */
int tsx_label_columns_make(tsx_table *table, tsr_error *error);
void tsx_label_columns_free(tsx_table *table);

/* Returns the label whose column has the own number `column`, or NULL. */
static inline tsx_label_column *tsx_label_column_at(const tsx_table *table, int column) {
  const int first = TSX_WRITTEN_AT(table) + 1;
  return column >= first && column < first + (int)table->label_count ? &table->labels[column - first] : NULL;
}

/* Gives the label as it was between two times, without its values: tsr_label_load reads them. The caller releases the
 * state. */
int tsx_label_state_take(tsx_table *table, tsx_label_column *label, uint64_t since, uint64_t as_of,
                         tsx_label_state **state, tsr_error *error);
void tsx_label_state_release(tsx_label_state *state); /* NULL is allowed */

/* Returns true if a cell of a label is shown as an integer, since it is an instant that has no ISO text. */
bool tsx_label_is_bare(const tsx_label_column *label, const tsx_label_state *state, uint64_t cell);

/* Returns 1 if all coordinates of the snapshot's cells have a label, and none is shown as another type than the others;
 * else 0. The state has its values. */
int tsx_label_whole(const tsx_label_column *label, const tsx_label_state *state, tsr_snapshot *snapshot,
                    tsr_error *error);

/* Finds the coordinate whose label, as it is at present, equals a value. TSR_RANGE: there is none; TSR_MISMATCH: the value
 * has another type than the label. */
int tsx_label_coordinate_of(tsx_table *table, tsx_label_column *label, sqlite3_value *value, uint8_t coordinate[8],
                            tsr_error *error);

/* Makes the value of a cell of the dimension the result of xColumn: NULL if the coordinate has no label. */
void tsx_label_result(sqlite3_context *context, const tsx_label_column *label, const tsx_label_state *state,
                      const tsr_column *coordinates, uint64_t index);

/* The numbers that SQL has for the columns of a table.
 *
 * Two numbers belong to each column. Its own one counts the fields that the table shows, then as_of, since and
 * written_at, then the labels: the files of this folder mean that number. SQL counts the columns as SELECT * and the
 * arguments of a call have them: each dimension with the labels behind it, the attributes, as_of, since, written_at, and
 * what else is hidden. A dimension is hidden that only numbers the coordinates of a label: the dimension lat_index of the
 * label lat. */

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

/* Rows in the order of labels of which some are missing. SQLite sorts NULL before all values, but the
 * coordinates without a label lie anywhere. So the rows' coordinates are read first, and sorted; then the reader reads
 * the cells of one coordinate after the other. */

typedef struct tsx_label_order { /* `= {0}` is none */
  uint64_t *words; /* records of `size` words: how many words follow; the keys of the order; the coordinates */
  uint64_t count, room, at; /* records; `at` is the next one */
  uint32_t size, dimensions;
  tsr_request request; /* of one coordinate */
  tsr_range *points; /* by dimension, in one block with the ranges of the request */
} tsx_label_order;

/* Reads and sorts the coordinates of all rows of a request. `states` has the state of each label of the order, with its
 * values. TSR_BUDGET: they need more than the table's memory_mb. */
int tsx_label_order_open(tsx_label_order *order, const tsx_table *table, tsx_label_state *const *states,
                         const tsx_access *access, tsr_reader *reader, const tsr_request *request, tsr_error *error);
void tsx_label_order_close(tsx_label_order *order);

/* Starts the reader for the cells of the next coordinate. Returns 1; 0 if there is none. */
int tsx_label_order_next(tsx_label_order *order, tsr_reader *reader, tsr_error *error);

/* Coordinates that lie in a group beside an array, as labels of its dimensions (option labels='group'). */

/* Opens the array that has the coordinates of dimension number `dimension`, or says where it lies. `*path`, from
 * sqlite3_malloc, is the array's; NULL: the group has none. The caller closes the index. */
int tsx_group_label_find(tsx_table *table, uint32_t dimension, char **path, tsr_label_index **index, tsr_error *error);
int tsx_group_label_open(tsx_table *table, uint32_t dimension, const char *path, tsr_label_index **index,
                         tsr_error *error);

#endif
