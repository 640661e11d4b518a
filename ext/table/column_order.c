/* column_order.c: in which order SQL has the columns of a table, and which of them are hidden. */
#include "table/column_order.h"

#include <string.h>

#include "connection/errors.h"
#include "table/label_columns.h"

#define POSITION "_index" /* ends the name of a dimension whose own name a label has */

/* Returns true if the name is that of the label, with `_index` behind it. */
static bool numbers_label(const char *name, const char *label) {
  const size_t size = strlen(label);
  return !sqlite3_strnicmp(name, label, (int)size) && !sqlite3_stricmp(name + size, POSITION);
}

static bool is_chosen(const tsx_table *table, const char *name) {
  const tsx_option_shows *shows = &table->options.shows;
  for (uint32_t i = 0; i < shows->column_count; i++)
    if (!sqlite3_stricmp(shows->columns[i], name)) return true;
  return false;
}

/* Returns true if SELECT * has the label. */
static bool is_label_shown(const tsx_table *table, const tsx_label_column *label) {
  if (table->options.shows.labels == TSX_LABELS_HIDDEN) return false;
  return !table->options.shows.columns || is_chosen(table, label->name);
}

/* Returns true if SELECT * has the field: all but dimensions that number a label which it has. */
static bool is_field_shown(const tsx_table *table, const tsx_column *column) {
  if (!column->description->is_dimension || table->options.shows.columns) return true;
  for (uint32_t i = 0; i < table->label_count; i++)
    if (table->labels[i].dimension == column->field && is_label_shown(table, &table->labels[i]) &&
        numbers_label(column->name, table->labels[i].name))
      return false;
  return true;
}

static void order_add(tsx_table *table, int *count, int own) {
  table->order.own[*count] = own;
  table->order.sql[own] = (*count)++;
}

/* Adds the labels of a dimension that SELECT * has, or those that it has not. */
static void order_add_labels(tsx_table *table, uint32_t dimension, bool shown, int *count) {
  for (uint32_t i = 0; i < table->label_count; i++)
    if (table->labels[i].dimension == dimension && is_label_shown(table, &table->labels[i]) == shown)
      order_add(table, count, TSX_WRITTEN_AT(table) + 1 + (int)i);
}

int tsx_column_order_make(tsx_table *table, tsr_error *error) {
  const uint64_t all = (uint64_t)TSX_WRITTEN_AT(table) + 1 + table->label_count;
  const uint32_t dimensions = table->schema->dimension_count;
  int count = 0;
  if (table->label_count == 0) return TSR_OK;
  table->order.own = sqlite3_malloc64(all * sizeof(int));
  table->order.sql = sqlite3_malloc64(all * sizeof(int));
  table->order.values = sqlite3_malloc64((2 + all) * sizeof(sqlite3_value *));
  if (!table->order.own || !table->order.sql || !table->order.values) return tsx_out_of_memory(error);
  uint32_t c = 0;
  for (uint32_t d = 0; d < dimensions; d++) {
    if (c < table->column_count && table->columns[c].field == d) {
      if (is_field_shown(table, &table->columns[c])) order_add(table, &count, (int)c);
      c++;
    }
    order_add_labels(table, d, true, &count);
  }
  for (; c < table->column_count; c++) order_add(table, &count, (int)c);
  for (int i = TSX_AS_OF(table); i <= TSX_WRITTEN_AT(table); i++) order_add(table, &count, i);
  for (c = 0; c < table->column_count; c++)
    if (!is_field_shown(table, &table->columns[c])) order_add(table, &count, (int)c);
  for (uint32_t d = 0; d < dimensions; d++) order_add_labels(table, d, false, &count);
  return TSR_OK;
}

void tsx_column_order_free(tsx_table *table) {
  sqlite3_free(table->order.own);
  sqlite3_free(table->order.sql);
  sqlite3_free(table->order.values);
  table->order = (tsx_column_order){0};
}

sqlite3_value **tsx_column_order_values(tsx_table *table, sqlite3_value **values) {
  if (!table->order.own) return values;
  for (int i = 0; i <= TSX_WRITTEN_AT(table) + (int)table->label_count; i++)
    table->order.values[2 + table->order.own[i]] = values[2 + i];
  memcpy(table->order.values, values, 2 * sizeof *values);
  return table->order.values;
}
