/* label_columns.h: the columns of dimension labels. A label gives each coordinate of a dimension another value, such as
 * a latitude; its column stands behind that of the dimension (column_order.h). A comparison with it becomes ranges of the
 * dimension. */
#ifndef TSX_LABEL_COLUMNS_H
#define TSX_LABEL_COLUMNS_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "values/value.h"
#include "table/module.h"

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

#endif
