/* label_order.h: rows in the order of labels of which some are missing. SQLite sorts NULL before all values, but the
 * coordinates without a label lie anywhere. So the rows' coordinates are read first, and sorted; then the reader reads
 * the cells of one coordinate after the other. */
#ifndef TSX_LABEL_ORDER_H
#define TSX_LABEL_ORDER_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/best_index.h"
#include "table/label_columns.h"

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

#endif
