/* label_order.c: sorts rows by labels of which some are missing, by their coordinates. */
#include "table/label_order.h"

#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "table/open_array.h"

/* Returns a coordinate as a number that sorts as the coordinates do. */
static uint64_t order_coordinate_key(const tsr_field *dimension, const void *value) {
  const tsr_kind kind = tsr_datatype_kind(dimension->datatype);
  const uint64_t size = tsr_datatype_size(dimension->datatype);
  if (kind == TSR_KIND_UNSIGNED) return tsx_load_unsigned(value, size);
  return (uint64_t)tsx_load_signed(value, size) ^ UINT64_C(1) << 63;
}

/* Returns a coordinate's place in the order of its labels; 0 if it has none. Instants that are shown as integers come
 * before those that are shown as text. */
static uint64_t order_label_key(const tsx_label_column *label, const tsx_label_state *state, bool falls,
                                const void *coordinate) {
  uint64_t cell;
  if (!tsr_label_cell(state->index, coordinate, &cell)) return 0;
  const uint64_t place = falls ? (UINT64_C(1) << 63) - 1 - cell : cell + 1;
  return place | (uint64_t)!tsx_label_is_bare(label, state, cell) << 63;
}

static int compare_order_records(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  for (uint64_t i = 1; i <= x[0]; i++)
    if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
  return 0;
}

static int add_order_record(tsx_label_order *order, const tsx_table *table, uint64_t **record, tsr_error *error) {
  const uint64_t bytes = order->size * sizeof(uint64_t);
  if (order->count == order->room) {
    const uint64_t room = order->room ? 2 * order->room : 256;
    const uint64_t limit = table->options.limits.memory_bytes ? table->options.limits.memory_bytes : UINT64_C(1) << 30;
    if (room * bytes > limit)
      return tsx_fail(error, TSR_BUDGET,
                      "%s: rows in the order of a label of which some are missing: more than memory_mb", table->path);
    uint64_t *grown = sqlite3_realloc64(order->words, room * bytes);
    if (!grown) return tsx_out_of_memory(error);
    order->words = grown;
    order->room = room;
  }
  *record = order->words + order->count++ * order->size;
  (*record)[0] = order->size - 1;
  return TSR_OK;
}

/* Appends the records of a batch. */
static int add_order_batch(tsx_label_order *order, const tsx_table *table, tsx_label_state *const *states,
                           const tsx_access *access, tsr_reader *reader, const tsr_batch *batch, tsr_error *error) {
  const tsr_schema *schema = table->schema;
  const uint64_t before = order->count;
  uint64_t *record;
  int code = TSR_OK;
  for (uint64_t r = 0; r < batch->count && code == TSR_OK; r++) code = add_order_record(order, table, &record, error);
  for (uint32_t d = 0; d < order->dimensions && code == TSR_OK; d++) {
    const tsr_column *column;
    const tsr_field *field = &schema->fields[d];
    if ((code = tsr_reader_column(reader, d, &column, error)) < 0) break;
    for (uint64_t r = 0; r < batch->count; r++) {
      const uint64_t i = column->constant ? 0 : tsr_batch_index(batch, r);
      const uint8_t *value = (const uint8_t *)column->values + i * column->cell_size;
      record = order->words + (before + r) * order->size + 1;
      record[access->order_count + d] = 0;
      memcpy(&record[access->order_count + d], value, field->cell_size);
      for (uint32_t k = 0; k < access->order_count; k++) {
        const tsx_label_column *label = tsx_label_column_at(table, access->order[k].column);
        if ((label ? label->dimension : table->columns[access->order[k].column].field) != d) continue;
        const uint64_t key =
            label ? order_label_key(label, states[label - table->labels], tsx_label_falls(table, label), value)
                  : order_coordinate_key(field, value);
        record[k] = access->order[k].descending ? ~key : key;
      }
    }
  }
  return code < 0 ? code : TSR_OK;
}

/* Leaves one of equal records. */
static void leave_one_record(tsx_label_order *order) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < order->count; i++) {
    const uint64_t *record = order->words + i * order->size;
    if (kept > 0 && compare_order_records(order->words + (kept - 1) * order->size, record) == 0) continue;
    memmove(order->words + kept++ * order->size, record, order->size * sizeof *record);
  }
  order->count = kept;
}

int tsx_label_order_open(tsx_label_order *order, const tsx_table *table, tsx_label_state *const *states,
                         const tsx_access *access, tsr_reader *reader, const tsr_request *request, tsr_error *error) {
  const uint32_t n = table->schema->dimension_count;
  tsr_request all = *request;
  const tsr_batch *batch;
  *order = (tsx_label_order){.size = 1 + access->order_count + n, .dimensions = n, .request = *request};
  order->points = sqlite3_malloc64(n * (sizeof(tsr_range) + sizeof(tsr_ranges)));
  if (!order->points) return tsx_out_of_memory(error);
  tsr_ranges *ranges = (tsr_ranges *)(void *)(order->points + n);
  for (uint32_t d = 0; d < n; d++) ranges[d] = (tsr_ranges){.ranges = &order->points[d], .count = 1};
  order->request.dimensions = ranges;
  order->request.order_count = 0;
  order->request.distinct = false;
  order->request.limit = 0;
  all.order_count = 0;
  all.distinct = false;
  all.limit = 0;
  int code = tsr_reader_start(reader, &all, error);
  while (code >= 0 && (code = tsr_reader_next(reader, &batch, error)) > 0)
    code = add_order_batch(order, table, states, access, reader, batch, error);
  if (code < 0) return code;
  if (order->count > 1) qsort(order->words, order->count, order->size * sizeof(uint64_t), compare_order_records);
  leave_one_record(order);
  return TSR_OK;
}

void tsx_label_order_close(tsx_label_order *order) {
  sqlite3_free(order->words);
  sqlite3_free(order->points);
  *order = (tsx_label_order){0};
}

int tsx_label_order_next(tsx_label_order *order, tsr_reader *reader, tsr_error *error) {
  if (order->at == order->count) return 0;
  const uint64_t *record = order->words + order->at++ * order->size + order->size - order->dimensions;
  for (uint32_t d = 0; d < order->dimensions; d++)
    order->points[d] = (tsr_range){.low = &record[d], .high = &record[d]};
  const int code = tsr_reader_start(reader, &order->request, error);
  return code < 0 ? code : 1;
}
