/* write_label.c: tessera_write_label(path, label, values[, origin]), which writes values of a dimension label, from an
 * NPY file or a JSON array, to consecutive coordinates from the origin on. */
#include "data/data.h"

#include <math.h>
#include <string.h>

#include "connection/errors.h"
#include "sql/json.h"
#include "sql/literals.h"
#include "values/slice.h"
#include "values/value.h"
#include "call/function.h"
#include "inspect/inspect.h"

typedef struct label_cells { /* the values of a JSON array */
  const tsr_field *field;
  sqlite3_str *values, *offsets; /* owned; `offsets`: an array of uint64_t, for texts only */
  uint64_t count;
} label_cells;

static bool cells_are_texts(const label_cells *cells) { return cells->field->values_per_cell == TSR_VARIABLE; }

/* Sets the value that stands for a missing label: NaN or NaT. Fails if the datatype has none. */
static int set_missing(const label_cells *cells, uint8_t value[8], tsr_error *error) {
  const tsr_datatype datatype = cells->field->datatype;
  const double nan_double = (double)NAN;
  const float nan_float = NAN;
  const int64_t nat = INT64_MIN;
  switch (tsr_datatype_kind(datatype)) {
  case TSR_KIND_FLOAT:
    if (tsr_datatype_size(datatype) == 8) memcpy(value, &nan_double, 8);
    else memcpy(value, &nan_float, 4);
    return TSR_OK;
  case TSR_KIND_DATETIME:
  case TSR_KIND_TIME: memcpy(value, &nat, 8); return TSR_OK;
  default: return tsx_fail(error, TSR_MISMATCH, "%s has no value that means NULL", tsr_datatype_name(datatype));
  }
}

/* Converts one element of the JSON array. *bytes comes from sqlite3_malloc; the caller frees it, also after a
 * failure. */
static int convert_element(const label_cells *cells, const tsx_json_option *o, uint8_t **bytes, uint64_t *size,
                           tsr_error *error) {
  const bool number = !strcmp(o->type, "integer") || !strcmp(o->type, "real");
  *size = tsr_datatype_size(cells->field->datatype);
  if (!strcmp(o->type, "text")) return tsx_bytes_convert(o->value, cells->field->datatype, bytes, size, error);
  if (cells_are_texts(cells) || (!number && strcmp(o->type, "null") != 0))
    return tsx_fail(error, TSR_MISMATCH, "expected %s, found %.40s", cells_are_texts(cells) ? "a text" : "a number",
                    o->text);
  if (!(*bytes = sqlite3_malloc(8))) return tsx_out_of_memory(error);
  return number ? tsx_given_parse(cells->field->datatype, o->text, false, *bytes, error)
                : set_missing(cells, *bytes, error);
}

static int append_element(label_cells *cells, const uint8_t *bytes, uint64_t size, tsr_error *error) {
  const uint64_t end = (uint64_t)sqlite3_str_length(cells->values);
  if (!cells_are_texts(cells) && size != cells->field->cell_size)
    return tsx_fail(error, TSR_MISMATCH, "expected one value of %s", tsr_datatype_name(cells->field->datatype));
  if (cells_are_texts(cells)) sqlite3_str_append(cells->offsets, (const char *)&end, sizeof end);
  sqlite3_str_append(cells->values, (const char *)bytes, (int)size);
  cells->count++;
  return sqlite3_str_errcode(cells->values) || sqlite3_str_errcode(cells->offsets) ? tsx_out_of_memory(error) : TSR_OK;
}

static int add_element(void *argument, const tsx_json_option *o, tsr_error *error) {
  label_cells *cells = argument;
  uint8_t *bytes = NULL;
  uint64_t size = 0;
  int code = convert_element(cells, o, &bytes, &size, error);
  if (code >= 0) code = append_element(cells, bytes, size, error);
  sqlite3_free(bytes);
  if (code >= 0) return TSR_OK;
  const tsr_error inner = *error;
  return tsx_fail(error, code, "value %.20s: %s", o->key, inner.message);
}

/* Reads a JSON array. The column is borrowed from `cells`. */
static int read_json(sqlite3 *db, sqlite3_value *value, label_cells *cells, tsr_column *column, tsr_error *error) {
  TSX_TRY(tsx_elements_each(db, value, "values", add_element, cells, error));
  const uint64_t end = (uint64_t)sqlite3_str_length(cells->values);
  sqlite3_str_append(cells->offsets, (const char *)&end, sizeof end);
  if (sqlite3_str_errcode(cells->offsets)) return tsx_out_of_memory(error);
  *column = (tsr_column){.values = sqlite3_str_value(cells->values), .cell_size = cells->field->cell_size};
  if (cells_are_texts(cells)) column->offsets = (const uint64_t *)(const void *)sqlite3_str_value(cells->offsets);
  if (!column->values) column->values = "";
  return TSR_OK;
}

/* Takes the coordinate of the dimension from a slice, which may name no other dimension. */
static int origin_of_slice(const tsx_slice *slice, const tsr_field *field, uint32_t dimension, uint8_t first[8],
                           tsr_error *error) {
  for (uint32_t d = 0; d < slice->dimension_count; d++)
    if (slice->bounds[d].given && (d != dimension || !slice->bounds[d].low_given ||
                                   memcmp(slice->box[d].low, slice->box[d].high, field->cell_size) != 0))
      return tsx_fail(error, TSR_MISMATCH, "origin: expected one coordinate of dimension '%s'", field->name);
  if (slice->bounds[dimension].given) memcpy(first, slice->box[dimension].low, 8);
  return TSR_OK;
}

static int origin_of_value(sqlite3_value *origin, const tsr_field *field, bool uint64_signed, uint8_t first[8],
                           tsr_error *error) {
  uint8_t *bytes;
  uint64_t size;
  TSX_TRY(tsx_bytes_convert(origin, tsx_datatype_shown(field->datatype, uint64_signed), &bytes, &size, error));
  const bool fits = size == field->cell_size;
  if (fits) memcpy(first, bytes, size);
  sqlite3_free(bytes);
  return fits ? TSR_OK : tsx_fail(error, TSR_MISMATCH, "expected one coordinate");
}

/* Sets the coordinate of the first value: the argument `origin`, either a coordinate or a JSON object that names the
 * dimension; by default the low end of the domain. */
static int read_origin(const tsx_address *address, const tsr_schema *schema, uint32_t dimension, sqlite3_value *origin,
                       uint8_t first[8], tsr_error *error) {
  const tsr_field *field = &schema->fields[dimension];
  const char *text =
      origin && sqlite3_value_type(origin) == SQLITE_TEXT ? (const char *)sqlite3_value_text(origin) : "";
  memcpy(first, field->low, 8);
  if (!origin || sqlite3_value_type(origin) == SQLITE_NULL) return TSR_OK;
  if (text && text[strspn(text, " \t\n\r")] == '{') {
    tsx_slice slice = {0};
    TSX_TRY(
        tsx_slice_parse_as(address->connection->db, origin, schema, TSX_ORIGIN, address->uint64_signed, &slice, error));
    const int code = origin_of_slice(&slice, field, dimension, first, error);
    tsx_slice_release(&slice);
    return code;
  }
  const int code = origin_of_value(origin, field, address->uint64_signed, first, error);
  if (code >= 0) return TSR_OK;
  const tsr_error inner = *error;
  return tsx_fail(error, code, "origin: %s", inner.message);
}

/* Writes the values into an open label. */
static int write_values(const tsx_address *address, tsr_label_index *index, const uint8_t first[8],
                        sqlite3_value *value, uint64_t *written, tsr_error *error) {
  label_cells cells = {tsr_label_field(index), sqlite3_str_new(NULL), sqlite3_str_new(NULL), 0};
  tsr_column column = {.cell_size = cells.field->cell_size};
  uint8_t *copy = NULL;
  int code = sqlite3_value_type(value) == SQLITE_TEXT
                 ? read_json(address->connection->db, value, &cells, &column, error)
                 : tsx_npy_vector(value, cells.field, &column.values, &cells.count, &copy, error);
  if (code >= 0) code = tsr_label_write(index, first, &column, cells.count, error);
  *written = cells.count;
  sqlite3_free(copy);
  sqlite3_free(sqlite3_str_finish(cells.values));
  sqlite3_free(sqlite3_str_finish(cells.offsets));
  return code;
}

static int write_named(tsx_address *address, int count, sqlite3_value **values, uint64_t *written, tsr_error *error) {
  const tsr_schema *schema;
  tsr_label_index *index = NULL;
  uint32_t label = 0;
  uint8_t first[8];
  const char *name = (const char *)sqlite3_value_text(values[1]);
  TSX_TRY(name ? tsr_array_schema(address->array->core, TSR_TIME_NOW, &schema, error) : tsx_out_of_memory(error));
  TSX_TRY(tsx_label_named(address, schema, name, &label, error));
  const uint32_t dimension = schema->labels[label].dimension;
  TSX_TRY(read_origin(address, schema, dimension, count > 3 ? values[3] : NULL, first, error));
  TSX_TRY(tsr_label_open(address->array->core, schema, label, address->memory_bytes, &index, error));
  int code = write_values(address, index, first, values[2], written, error);
  if (code < 0) {
    const tsr_error inner = *error;
    tsx_fail(error, code, "label %.200s: %s", name, inner.message);
  }
  tsr_label_close(index);
  return code;
}

static int write_label_at(tsx_address *address, tsx_connection *connection, int count, sqlite3_value **values,
                          uint64_t *written, tsr_error *error) {
  TSX_TRY(tsx_arguments_check(count, values, 2, error));
  TSX_TRY(tsx_address_open_to_write(connection, values[0], address, error));
  TSX_TRY(tsx_function_begin_at(address, values[0], error));
  TSX_TRY(tsx_address_array(address, error));
  return write_named(address, count, values, written, error);
}

/* tessera_write_label(path, label, values[, origin]): returns the number of values written. */
void tsx_write_label(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_error error = {0};
  tsx_address address = {0};
  uint64_t written = 0;
  tsx_connection_add_table(connection); /* cancellation works only while a table is counted */
  const int code = write_label_at(&address, connection, count, values, &written, &error);
  tsx_address_close(&address);
  if (code >= 0) sqlite3_result_int64(context, (sqlite3_int64)written);
  tsx_function_end(context, "tessera_write_label", code, &error);
  tsx_connection_remove_table(connection);
}
