/* ingest_labels.c: columns that are labels of dimensions: those that the option `labels` names, and, where rows are
 * appended, those that have the names of the array's labels. */
#include "functions/ingest_labels.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "definition/define.h"

int tsx_ingest_label(tsx_ingest_call *call, tsr_ingest_column *column, const char *dimension, tsr_error *error) {
  tsx_parser p = {.definition = &call->memory};
  if (!*dimension)
    return tsx_fail(error, TSR_MISMATCH, "'labels': column '%s': expected the name of a dimension", column->name);
  for (uint32_t i = 0; i < call->options.column_count; i++) {
    const tsr_ingest_column *other = &call->columns[i];
    if (!sqlite3_stricmp(other->name, dimension))
      return tsx_fail(error, TSR_CONSTRAINT, "'labels': '%.64s' is a column: say a new name for the dimension",
                      dimension);
    if (other->label_of && !sqlite3_stricmp(other->label_of, dimension))
      return tsx_fail(error, TSR_CONSTRAINT, "'labels': the dimension '%.64s' has two labels", dimension);
  }
  char *copy = tsx_parser_alloc(&p, strlen(dimension) + 1);
  if (!copy) return tsx_out_of_memory(error);
  memcpy(copy, dimension, strlen(dimension));
  column->label_of = copy;
  call->labels.columns[call->labels.count++] = (uint32_t)(column - call->columns);
  return TSR_OK;
}

void tsx_ingest_label_dimensions(tsx_ingest_call *call) {
  for (uint32_t i = 0; i < call->labels.count; i++) {
    bool named = false;
    for (uint32_t d = 0; d < call->options.dimension_count; d++)
      named |= call->dimensions[d] == call->labels.columns[i];
    if (!named) call->dimensions[call->options.dimension_count++] = call->labels.columns[i];
  }
}

/* Opens the label of the array and reads its values. */
static int ingest_open_label(tsx_ingest_call *call, const tsr_schema *schema, uint32_t number,
                             tsr_ingest_column *column, tsr_error *error) {
  tsr_label_index **index = &call->labels.indexes[call->labels.index_count];
  int code =
      tsr_label_open(call->array.target.address.array->core, schema, number, call->options.memory_bytes, index, error);
  if (code < 0) return code;
  call->labels.index_count++;
  code = tsr_label_read(*index, 0, TSR_TIME_NOW, error);
  column->label = *index;
  return code;
}

int tsx_ingest_take_label(tsx_ingest_call *call, const tsr_schema *schema, uint32_t i, tsr_error *error) {
  tsr_ingest_column *column = &call->columns[i];
  uint32_t number = 0;
  while (number < schema->label_count && sqlite3_stricmp(schema->labels[number].name, column->name) != 0) number++;
  if (number == schema->label_count) return 0;
  const tsr_label *label = &schema->labels[number];
  const tsr_field *dimension = &schema->fields[label->dimension];
  if (call->dimensions[label->dimension] != UINT32_MAX)
    return tsx_fail(error, TSR_CONSTRAINT, "column '%s': another column gives the dimension '%s'", column->name,
                    dimension->name);
  if (column->label_of && sqlite3_stricmp(column->label_of, dimension->name) != 0)
    return tsx_fail(error, TSR_CONSTRAINT, "'labels': in the array '%s' is a label of '%s'", column->name,
                    dimension->name);
  const int code = ingest_open_label(call, schema, number, column, error);
  if (code < 0) return code;
  const tsr_field *values = tsr_label_field(column->label);
  call->dimensions[label->dimension] = i;
  column->label_of = dimension->name;
  column->label_datatype = dimension->datatype;
  column->typed = true;
  column->datatype = values->datatype;
  column->values_per_cell = values->values_per_cell;
  column->labels = column->grow = false;
  column->enumeration = NULL;
  column->has_domain = dimension->has_domain;
  memcpy(column->low, dimension->low, sizeof column->low);
  memcpy(column->high, dimension->high, sizeof column->high);
  return 1;
}

void tsx_ingest_labels_close(tsx_ingest_call *call) {
  for (uint32_t i = 0; i < call->labels.index_count; i++) tsr_label_close(call->labels.indexes[i]);
}
