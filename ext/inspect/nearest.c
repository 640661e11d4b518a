/* nearest.c: tessera_nearest(path, label, value[, side[, tolerance]]), which finds the coordinate of a dimension whose
 * label is nearest to a value.
 *
 * The open label is cached with the statement (sqlite3_set_auxdata), so that calling the function for each row of
 * another table loads the values only once; the first few calls read just the tiles that they search.
 *
 * A value may lie between two values of the label's datatype, such as 2.5 for integers. So it is first placed between
 * its neighbours in the datatype, and the nearest label is searched below the lower and above the upper neighbour. */
#include "inspect/inspect.h"

#include <math.h>
#include <string.h>

#include "connection/errors.h"
#include "sql/names.h"
#include "values/slice.h"
#include "values/value.h"
#include "call/function.h"

typedef struct nearest_label { /* cached with the statement */
  char *path; /* the argument that it was opened for */
  tsr_label_index *index;
  tsr_datatype dimension; /* the datatype of the coordinates in SQL */
} nearest_label;

static void free_nearest(void *kept) {
  nearest_label *label = kept;
  tsr_label_close(label->index);
  sqlite3_free(label->path);
  sqlite3_free(label);
}

static int fail_label(const tsx_address *address, const tsr_schema *schema, const char *wrong, tsr_error *error) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  for (uint32_t i = 0; i < schema->label_count; i++) tsx_name_append(out, schema->labels[i].name);
  char *all = sqlite3_str_finish(out);
  tsx_fail(error, TSR_ERROR, "array %.300s has no label '%.100s' (it has %.400s)", address->path, wrong,
           all ? all : "no labels");
  sqlite3_free(all);
  return TSR_ERROR;
}

int tsx_label_named(const tsx_address *address, const tsr_schema *schema, const char *name, uint32_t *label,
                    tsr_error *error) {
  for (*label = 0; *label < schema->label_count; (*label)++) {
    char *shown = tsx_name_text(schema->labels[*label].name);
    const bool same = shown && sqlite3_stricmp(shown, name) == 0;
    sqlite3_free(shown);
    if (same) return TSR_OK;
  }
  return fail_label(address, schema, name, error);
}

/* Opens the label at the times of the address. Its values are read lazily, by the searches. */
static int open_nearest(tsx_address *address, const char *name, nearest_label *label, tsr_error *error) {
  const tsr_schema *schema;
  uint32_t number = 0;
  TSX_TRY(tsx_address_array(address, error));
  TSX_TRY(tsx_array_permitted(address->connection, address->array, error));
  TSX_TRY(tsr_array_schema(address->array->core, address->as_of, &schema, error));
  TSX_TRY(tsx_label_named(address, schema, name, &number, error));
  TSX_TRY(tsr_label_open(address->array->core, schema, number, address->memory_bytes, &label->index, error));
  TSX_TRY(tsr_label_set_times(label->index, address->since, address->as_of, error));
  label->dimension =
      tsx_datatype_shown(schema->fields[schema->labels[number].dimension].datatype, address->uint64_signed);
  return TSR_OK;
}

static int read_side(sqlite3_value *value, int *side, tsr_error *error) {
  static const char *const names[] = {"before", "nearest", "after"};
  *side = 0;
  if (!value || sqlite3_value_type(value) == SQLITE_NULL) return TSR_OK;
  const char *text = (const char *)sqlite3_value_text(value);
  for (int i = 0; text && i < 3; i++)
    if (sqlite3_stricmp(text, names[i]) == 0) {
      *side = i - 1;
      return TSR_OK;
    }
  return tsx_fail(error, TSR_MISMATCH, "side '%.40s': expected 'nearest', 'before' or 'after'", text ? text : "");
}

/* Returns the distance between two values, in the unit of the label; for a datetime, the unit of its datatype. */
static double nearest_distance(tsr_datatype datatype, const uint8_t *a, const uint8_t *b) {
  const uint64_t size = tsr_datatype_size(datatype);
  if (tsr_datatype_kind(datatype) == TSR_KIND_FLOAT) {
    double x[2];
    float f[2];
    if (size == 8) {
      memcpy(&x[0], a, 8);
      memcpy(&x[1], b, 8);
    } else {
      memcpy(&f[0], a, 4);
      memcpy(&f[1], b, 4);
      x[0] = (double)f[0];
      x[1] = (double)f[1];
    }
    return fabs(x[0] - x[1]);
  }
  if (tsr_datatype_kind(datatype) == TSR_KIND_UNSIGNED) {
    const uint64_t x = tsx_load_unsigned(a, size), y = tsx_load_unsigned(b, size);
    return (double)(x < y ? y - x : x - y);
  }
  const int64_t x = tsx_load_signed(a, size), y = tsx_load_signed(b, size);
  return (double)(x < y ? (uint64_t)y - (uint64_t)x : (uint64_t)x - (uint64_t)y);
}

/* Returns 1 if a label at this distance is within the tolerance, else 0. */
static int is_within(const nearest_label *label, double distance, sqlite3_value *tolerance, tsr_error *error) {
  const tsr_field *field = tsr_label_field(label->index);
  const int type = tolerance ? sqlite3_value_type(tolerance) : SQLITE_NULL;
  if (type == SQLITE_NULL) return 1;
  if (type != SQLITE_INTEGER && type != SQLITE_FLOAT)
    return tsx_fail(error, TSR_MISMATCH, "tolerance: expected a number, in the unit of the label");
  if (field->values_per_cell == TSR_VARIABLE)
    return tsx_fail(error, TSR_MISMATCH, "texts have no distance: leave the tolerance out");
  return distance <= sqlite3_value_double(tolerance);
}

/* A label that was found: its coordinate, and its distance from the sought value in two parts: `whole`, from the label
 * to the neighbour of the value in the label's datatype; `part`, from there to the value. */
typedef struct nearest_found {
  uint8_t coordinate[8];
  double whole, part;
} nearest_found;

/* Finds the label nearest to `from`, a value of the label's datatype, on one side of it. Returns 1; 0 if there is
 * none. */
static int find_beside(const nearest_label *label, const uint8_t from[8], double part, int side, nearest_found *found,
                       tsr_error *error) {
  const tsr_field *field = tsr_label_field(label->index);
  uint8_t value[8];
  const int code = tsr_label_nearest(label->index, from, field->cell_size, side, found->coordinate, value, error);
  if (code <= 0) return code;
  found->whole = nearest_distance(field->datatype, value, from);
  found->part = part;
  return 1;
}

/* Returns true if the label above the value wins over the one below it. Of two that are equally near, the one with the
 * lower coordinate wins. */
static bool is_above_nearer(const nearest_label *label, const nearest_found *below, const nearest_found *above) {
  if (below->whole != above->whole) return above->whole < below->whole;
  if (below->part != above->part) return above->part < below->part;
  const uint64_t size = tsr_datatype_size(label->dimension);
  if (tsr_datatype_kind(label->dimension) == TSR_KIND_UNSIGNED)
    return tsx_load_unsigned(above->coordinate, size) < tsx_load_unsigned(below->coordinate, size);
  return tsx_load_signed(above->coordinate, size) < tsx_load_signed(below->coordinate, size);
}

/* Finds the label nearest to a number or instant, which may lie between two values of the label's datatype. Returns 1;
 * 0 if there is none. */
static int find_placed(const nearest_label *label, sqlite3_value *value, int side, nearest_found *found,
                       tsr_error *error) {
  tsx_place place;
  nearest_found above;
  int before = 0, after = 0;
  TSX_TRY(tsx_value_place(value, tsr_label_field(label->index)->datatype, &place, error));
  if (place.has_low && place.has_high && memcmp(place.low, place.high, sizeof place.low) == 0)
    return find_beside(label, place.low, 0, side, found, error);
  if (side <= 0 && place.has_low) before = find_beside(label, place.low, place.above_low, -1, found, error);
  if (side >= 0 && place.has_high && before >= 0)
    after = find_beside(label, place.high, place.below_high, 1, &above, error);
  if (before < 0 || after < 0) return before < 0 ? before : after;
  if (after > 0 && (before == 0 || is_above_nearer(label, found, &above))) *found = above;
  return before > 0 || after > 0;
}

/* The same for texts, which have no distance. */
static int find_nearest_text(const nearest_label *label, sqlite3_value *value, int side, nearest_found *found,
                             tsr_error *error) {
  uint8_t *bytes = NULL, unused[8];
  uint64_t size = 0;
  int code = tsx_bytes_convert(value, tsr_label_field(label->index)->datatype, &bytes, &size, error);
  if (code >= 0) code = tsr_label_nearest(label->index, bytes, size, side, found->coordinate, unused, error);
  sqlite3_free(bytes);
  return code;
}

static int answer(sqlite3_context *context, const nearest_label *label, int count, sqlite3_value **values,
                  tsr_error *error) {
  nearest_found found = {0};
  int side = 0;
  const bool texts = tsr_label_field(label->index)->values_per_cell == TSR_VARIABLE;
  int code = read_side(count > 3 ? values[3] : NULL, &side, error);
  if (code < 0 || sqlite3_value_type(values[2]) == SQLITE_NULL) return code;
  code = (texts ? find_nearest_text : find_placed)(label, values[2], side, &found, error);
  if (code == TSR_MISMATCH) {
    const tsr_error inner = *error;
    tsx_fail(error, code, "label '%.100s': %s", (const char *)sqlite3_value_text(values[1]), inner.message);
  }
  if (code > 0) code = is_within(label, found.whole + found.part, count > 4 ? values[4] : NULL, error);
  if (code > 0) tsx_value_result(context, label->dimension, 1, found.coordinate, tsr_datatype_size(label->dimension));
  return code;
}

/* Makes and opens a label. The caller frees *label, also after a failure. */
static int make_nearest(tsx_connection *connection, sqlite3_value **values, const char *path, tsx_address *address,
                        nearest_label **label, tsr_error *error) {
  *label = sqlite3_malloc(sizeof **label);
  if (!*label) return tsx_out_of_memory(error);
  **label = (nearest_label){.path = sqlite3_mprintf("%s", path)};
  if (!(*label)->path) return tsx_out_of_memory(error);
  TSX_TRY(tsx_address_open(connection, values[0], NULL, NULL, NULL, address, error));
  return open_nearest(address, (const char *)sqlite3_value_text(values[1]), *label, error);
}

void tsx_nearest(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_error error = {0};
  tsx_address address = {0};
  nearest_label *label = sqlite3_get_auxdata(context, 1); /* NULL unless the label's name is constant */
  const char *path = (const char *)sqlite3_value_text(values[0]);
  const bool kept = label && path && strcmp(label->path, path) == 0;
  tsx_connection_add_table(connection); /* cancellation works only while a table is counted */
  tsx_connection_add_cursor(connection);
  int code = tsx_arguments_check(count, values, 2, &error);
  if (!kept) label = NULL; /* SQLite owns a cached label for another path */
  if (code >= 0 && !kept) code = make_nearest(connection, values, path, &address, &label, &error);
  if (code >= 0) code = answer(context, label, count, values, &error);
  tsx_address_close(&address);
  tsx_connection_remove_cursor(connection);
  tsx_function_end(context, "tessera_nearest", code < 0 ? code : TSR_OK, &error);
  tsx_connection_remove_table(connection);
  if (!kept && label) {
    if (code < 0) free_nearest(label);
    else sqlite3_set_auxdata(context, 1, label, free_nearest);
  }
}
