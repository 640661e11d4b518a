/* sample.c: tessera_sample(path, attribute, point[, method[, options]]): the value at a point between the cells of a
 * dense array.
 *
 * Each dimension gives up to four cells with weights; the value is the sum over all of their combinations, which are
 * read by one look-up of the box that they form, or else by a look-up of each. The array, its reader and the axes of
 * labels are cached with the statement (sqlite3_set_auxdata), so that a call for each row of another table opens them
 * once.
 *
 * Sections: what is cached; the coordinates of a point; its value; the function. */
#include "inspect/inspect.h"

#include <math.h>
#include <string.h>

#include "call/function.h"
#include "connection/errors.h"
#include "sql/names.h"
#include "values/axes.h"
#include "values/value.h"

#define SAMPLE_CELLS_MAX 4096
#define SAMPLE_BOX       64 /* so many cells of a box are looked up together */
#define SAMPLE_KEYS      3 /* path, attribute and options: the arguments on which a sampler depends */

typedef struct sample_label { /* a label that points have named */
  struct sample_label *next;
  char *name;
  uint32_t dimension;
  tsr_datatype datatype;
  tsr_grid_axis *axis;
  int64_t base; /* tsx_axis_place */
} sample_label;

typedef struct sampler { /* cached with the statement; it counts as a cursor */
  tsx_connection *connection;
  char *keys[SAMPLE_KEYS]; /* the arguments that it was opened for; NULL: an SQL NULL, or not given */
  tsx_address address;
  tsx_snapshot *snapshot;
  const tsr_schema *schema;
  char **names; /* of the schema's fields, in SQL */
  tsx_column column; /* of the attribute */
  bool is_number; /* its values can be weighed */
  tsr_kind kind; /* of these */
  tsx_plane grid; /* from the options; no axes without options */
  sample_label *labels;
  tsr_reader *reader;
  /* One for each dimension: */
  uint64_t (*domain)[2]; /* its ends, as tsx_load_unsigned or tsx_load_signed gives them */
  tsr_weights *weights;
  bool *given; /* the point has a coordinate */
  uint64_t (*cells)[2]; /* the coordinates that are looked up, from .. to; little-endian: their first bytes */
  tsr_range *ranges;
  tsr_ranges *dimensions;
} sampler;

static bool sample_is_time(tsr_datatype datatype) {
  const tsr_kind kind = tsr_datatype_kind(datatype);
  return kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME;
}

/* ---- What is cached ---------------------------------------------------------------------------------------------- */

static void sampler_free(void *kept) {
  sampler *s = kept;
  tsx_connection *connection = s->connection;
  tsr_reader_close(s->reader);
  for (sample_label *label = s->labels, *next; label; label = next) {
    next = label->next;
    tsr_grid_axis_close(label->axis);
    sqlite3_free(label->name);
    sqlite3_free(label);
  }
  tsx_plane_close(&s->grid);
  tsx_names_free(s->names, s->schema);
  tsx_snapshot_release(s->snapshot);
  tsx_address_close(&s->address);
  for (int i = 0; i < SAMPLE_KEYS; i++) sqlite3_free(s->keys[i]);
  sqlite3_free(s->domain);
  sqlite3_free(s->weights);
  sqlite3_free(s->given);
  sqlite3_free(s->cells);
  sqlite3_free(s->ranges);
  sqlite3_free(s->dimensions);
  sqlite3_free(s);
  tsx_connection_remove_cursor(connection);
  tsx_connection_remove_table(connection);
}

static sqlite3_value *sample_key(int count, sqlite3_value **values, int key) {
  const int at = key == SAMPLE_KEYS - 1 ? 4 : key;
  return at < count && sqlite3_value_type(values[at]) != SQLITE_NULL ? values[at] : NULL;
}

static bool sampler_fits(const sampler *s, int count, sqlite3_value **values) {
  for (int i = 0; i < SAMPLE_KEYS; i++) {
    sqlite3_value *key = sample_key(count, values, i);
    if (!key != !s->keys[i]) return false;
    if (!key) continue;
    if (sqlite3_value_type(key) != SQLITE_TEXT) return false; /* which tsx_arguments_check may refuse */
    const char *text = (const char *)sqlite3_value_text(key);
    const size_t size = strlen(s->keys[i]);
    if (!text || (size_t)sqlite3_value_bytes(key) != size || memcmp(text, s->keys[i], size) != 0) return false;
  }
  return true;
}

static int sampler_column(sampler *s, const char *attribute, tsr_error *error) {
  const tsx_option_shows shows = {.uint64_signed = s->address.uint64_signed};
  const tsr_enumeration *enumeration = NULL;
  uint32_t number = 0;
  TSX_TRY(tsx_attribute_find(s->schema, s->address.given, attribute, &number, error));
  const tsr_field *field = &s->schema->fields[number];
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  if (field->enumeration)
    TSX_TRY(tsr_array_enumeration(s->address.array->core, s->schema, field->enumeration, &enumeration, error));
  TSX_TRY(tsx_times_known(s->schema, field->datatype, field->name, &shows, error));
  tsx_column_choose(field, enumeration, &shows, &s->column);
  s->column.field = number;
  s->kind = kind;
  s->is_number = !enumeration && field->values_per_cell == 1 &&
                 (kind == TSR_KIND_FLOAT || kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED);
  return TSR_OK;
}

/* Returns an integer of at most 64 bits; if it is signed, with its sign. */
static uint64_t sample_load(tsr_datatype datatype, const void *value) {
  const uint64_t size = tsr_datatype_size(datatype);
  return tsr_datatype_kind(datatype) == TSR_KIND_UNSIGNED ? tsx_load_unsigned(value, size)
                                                          : (uint64_t)tsx_load_signed(value, size);
}

static int sampler_room(sampler *s, tsr_error *error) {
  const uint64_t n = s->schema->dimension_count;
  s->domain = sqlite3_malloc64(n * sizeof *s->domain);
  s->weights = sqlite3_malloc64(n * sizeof *s->weights);
  s->given = sqlite3_malloc64(n * sizeof *s->given);
  s->cells = sqlite3_malloc64(n * sizeof *s->cells);
  s->ranges = sqlite3_malloc64(n * sizeof *s->ranges);
  s->dimensions = sqlite3_malloc64(n * sizeof *s->dimensions);
  if (!s->domain || !s->weights || !s->given || !s->cells || !s->ranges || !s->dimensions)
    return tsx_out_of_memory(error);
  for (uint64_t d = 0; d < n; d++) {
    const tsr_field *field = &s->schema->fields[d];
    s->domain[d][0] = sample_load(field->datatype, field->low);
    s->domain[d][1] = sample_load(field->datatype, field->high);
    s->ranges[d] = (tsr_range){.low = &s->cells[d][0], .high = &s->cells[d][1]};
    s->dimensions[d] = (tsr_ranges){.ranges = &s->ranges[d], .count = 1};
  }
  return TSR_OK;
}

static int sampler_open(sampler *s, int count, sqlite3_value **values, tsr_error *error) {
  tsx_address *address = &s->address;
  for (int i = 0; i < SAMPLE_KEYS; i++) {
    sqlite3_value *key = sample_key(count, values, i);
    if (key && !(s->keys[i] = sqlite3_mprintf("%s", (const char *)sqlite3_value_text(key))))
      return tsx_out_of_memory(error);
  }
  TSX_TRY(tsx_address_open(s->connection, values[0], NULL, NULL, NULL, address, error));
  TSX_TRY(tsx_address_array(address, error));
  TSX_TRY(tsx_array_permitted(s->connection, address->array, error));
  TSX_TRY(tsx_array_snapshot(s->connection, address->array, NULL, address->since, address->as_of, false, &s->snapshot,
                             error));
  s->schema = tsr_snapshot_schema(s->snapshot->core);
  if (!s->schema->dense)
    return tsx_fail(error, TSR_MISMATCH, "array %.300s is sparse: cells have neighbours in a dense array",
                    address->given);
  s->names = tsx_names_make(s->schema);
  if (!s->names) return tsx_out_of_memory(error);
  TSX_TRY(sampler_column(s, (const char *)sqlite3_value_text(values[1]), error));
  const tsx_label_source labels = tsx_address_labels(address);
  sqlite3_value *options = sample_key(count, values, SAMPLE_KEYS - 1);
  if (options)
    TSX_TRY(tsx_plane_open(s->connection->db, s->connection->environment, options, s->schema, s->names, &labels,
                           &s->grid, error));
  TSX_TRY(sampler_room(s, error));
  return tsr_reader_open(s->snapshot->core, &s->reader, error);
}

/* ---- The coordinates of a point ---------------------------------------------------------------------------------- */

typedef struct sample_point {
  sampler *sampler;
  tsr_sample_method method;
  bool outside; /* it has no value: beyond the cells, or a coordinate is null */
} sample_point;

typedef struct sample_coordinate { /* a member of the point */
  const char *key, *text; /* the value as JSON */
  bool is_null, is_number;
  double number;
  sqlite3_value *value; /* NULL: of a number, which `text` has */
} sample_coordinate;

static int sample_take_axis(sample_point *point, uint32_t dimension, const tsr_grid_axis *axis, const char *key,
                            double value, tsr_error *error) {
  sampler *s = point->sampler;
  const bool wraps = s->grid.axes[1] && s->grid.dimensions[1] == dimension;
  if (point->method == TSR_SAMPLE_CUBIC && !tsr_grid_axis_is_even(axis))
    return tsx_fail(error, TSR_MISMATCH, "the steps of %.100s differ: cubic needs equal ones, linear does not", key);
  if (!tsr_grid_axis_weigh(axis, point->method, value, wraps ? s->grid.wrap : 0, &s->weights[dimension]))
    point->outside = true;
  return TSR_OK;
}

static int sample_fail_number(const sample_coordinate *given, tsr_error *error) {
  return tsx_fail(error, TSR_MISMATCH, "point: %.100s: expected a number, not %.40s", given->key, given->text);
}

/* Takes a coordinate of the dimension itself. */
static int sample_take_cells(sample_point *point, uint32_t dimension, const sample_coordinate *given,
                             tsr_error *error) {
  const tsr_field *field = &point->sampler->schema->fields[dimension];
  const uint64_t low = point->sampler->domain[dimension][0], high = point->sampler->domain[dimension][1];
  const bool is_unsigned = tsr_datatype_kind(field->datatype) == TSR_KIND_UNSIGNED;
  tsx_place place;
  if (given->value) TSX_TRY(tsx_value_place(given->value, field->datatype, &place, error));
  else if (!tsx_fraction_place(field->datatype, given->number, &place))
    TSX_TRY(tsx_given_place(field->datatype, given->text, false, &place, error));
  const uint64_t at = sample_load(field->datatype, place.low);
  const bool below = !place.has_low || (is_unsigned ? at < low : (int64_t)at < (int64_t)low);
  /* Just below the domain is UINT64_MAX, as tsr_cells_weigh has it; far below is far beyond `last`. */
  uint64_t index = at - low;
  double part = place.above_low;
  if (!place.has_low) {
    const uint64_t next = sample_load(field->datatype, place.high);
    index = next == low && place.below_high <= 1 ? UINT64_MAX : UINT64_MAX - 1;
    part = 1 - place.below_high;
  }
  tsr_weights *weights = &point->sampler->weights[dimension];
  if ((below && index != UINT64_MAX) || !tsr_cells_weigh(point->method, index, part, high - low, weights)) {
    point->outside = true;
    return TSR_OK;
  }
  for (uint32_t i = 0; i < weights->count; i++) weights->cells[i] += low;
  return TSR_OK;
}

static int sample_label_make(sampler *s, const char *name, sample_label *label, tsr_error *error) {
  const tsx_label_source source = tsx_address_labels(&s->address);
  uint32_t number = 0;
  label->name = sqlite3_mprintf("%s", name);
  if (!label->name) return tsx_out_of_memory(error);
  TSX_TRY(tsx_label_named(&s->address, s->schema, name, &number, error));
  const tsr_label *of = &s->schema->labels[number];
  label->dimension = of->dimension;
  label->datatype = of->datatype;
  if (of->values_per_cell != 1)
    return tsx_fail(error, TSR_MISMATCH, "point: %.100s has texts: give the coordinate of %.100s, by tessera_nearest",
                    name, s->names[of->dimension]);
  return tsx_axis_of_label(s->connection->environment, s->schema, number, s->names, &source, &label->axis, &label->base,
                           error);
}

static int sample_label_find(sampler *s, const char *name, sample_label **found, tsr_error *error) {
  for (*found = s->labels; *found; *found = (*found)->next)
    if (sqlite3_stricmp((*found)->name, name) == 0) return TSR_OK;
  sample_label *label = sqlite3_malloc64(sizeof *label);
  if (!label) return tsx_out_of_memory(error);
  *label = (sample_label){.next = s->labels};
  s->labels = label; /* freed with the sampler, after an error too */
  TSX_TRY(sample_label_make(s, name, label, error));
  *found = label;
  return TSR_OK;
}

static int sample_take_label(sample_point *point, const sample_label *label, const sample_coordinate *given,
                             tsr_error *error) {
  tsx_place place;
  if (!sample_is_time(label->datatype)) {
    if (!given->is_number) return sample_fail_number(given, error);
    return sample_take_axis(point, label->dimension, label->axis, label->name, given->number, error);
  }
  TSX_TRY(tsx_value_place(given->value, label->datatype, &place, error));
  if (!place.has_low) {
    point->outside = true;
    return TSR_OK;
  }
  const int64_t at = tsx_load_signed(place.low, tsr_datatype_size(label->datatype));
  return sample_take_axis(point, label->dimension, label->axis, label->name,
                          tsx_axis_place(at, place.above_low, label->base), error);
}

/* Finds what a member of the point is of: a dimension, or a label. */
static int sample_find(sampler *s, const char *key, uint32_t *dimension, sample_label **label, tsr_error *error) {
  *label = NULL;
  for (*dimension = 0; *dimension < s->schema->dimension_count; (*dimension)++)
    if (sqlite3_stricmp(s->names[*dimension], key) == 0) return TSR_OK;
  TSX_TRY(sample_label_find(s, key, label, error));
  *dimension = (*label)->dimension;
  return TSR_OK;
}

static int sample_take(sample_point *point, const sample_coordinate *given, uint32_t d, const sample_label *label,
                       tsr_error *error) {
  sampler *s = point->sampler;
  const tsr_grid_axis *axis = NULL;
  if (s->given[d])
    return tsx_fail(error, TSR_MISMATCH, "point: '%.100s' is a second coordinate of %.100s", given->key, s->names[d]);
  s->given[d] = true;
  if (given->is_null) {
    point->outside = true;
    return TSR_OK;
  }
  if (label) return sample_take_label(point, label, given, error);
  for (int i = 0; i < 2; i++)
    if (s->grid.dimensions[i] == d && s->grid.axes[i]) axis = s->grid.axes[i];
  if (!axis) return sample_take_cells(point, d, given, error);
  if (!given->is_number) return sample_fail_number(given, error);
  return sample_take_axis(point, d, axis, s->names[d], given->number, error);
}

static int sample_take_option(void *argument, const tsx_json_option *option, tsr_error *error) {
  sample_point *point = argument;
  const sample_coordinate given = {.key = option->key,
                                   .text = option->text,
                                   .is_null = !strcmp(option->type, "null"),
                                   .is_number = !strcmp(option->type, "integer") || !strcmp(option->type, "real"),
                                   .number = sqlite3_value_double(option->value),
                                   .value = option->value};
  sample_label *label;
  uint32_t d;
  TSX_TRY(sample_find(point->sampler, option->key, &d, &label, error));
  return sample_take(point, &given, d, label, error);
}

/* Takes a point that has only numbers. Returns 1; 0 if a datetime or time is among them, whose numbers have rules of
 * their own. */
static int sample_take_numbers(sample_point *point, const tsx_json_number *numbers, int count, tsr_error *error) {
  sampler *s = point->sampler;
  for (int i = 0; i < count; i++) {
    const sample_coordinate given = {
        .key = numbers[i].key, .text = numbers[i].text, .is_number = true, .number = numbers[i].value};
    sample_label *label;
    uint32_t d;
    TSX_TRY(sample_find(s, given.key, &d, &label, error));
    if (sample_is_time(label ? label->datatype : s->schema->fields[d].datatype)) return 0;
    TSX_TRY(sample_take(point, &given, d, label, error));
  }
  return 1;
}

static int sample_point_read(sample_point *point, sqlite3_value *json, tsr_error *error) {
  sampler *s = point->sampler;
  const char *text = (const char *)sqlite3_value_text(json);
  tsx_json_number numbers[TSX_JSON_NUMBERS_MAX];
  memset(s->given, 0, s->schema->dimension_count * sizeof *s->given);
  const int count = text ? tsx_numbers_scan(text, numbers) : -1;
  const int taken = count < 0 ? 0 : sample_take_numbers(point, numbers, count, error);
  if (taken < 0) return taken;
  if (!taken) {
    memset(s->given, 0, s->schema->dimension_count * sizeof *s->given);
    point->outside = false;
    TSX_TRY(tsx_options_each(s->connection->db, json, "point", sample_take_option, point, error));
  }
  for (uint32_t d = 0; d < s->schema->dimension_count; d++)
    if (!s->given[d])
      return tsx_fail(error, TSR_MISMATCH, "point: no coordinate of %.100s: give one, by its name or that of a label",
                      s->names[d]);
  return TSR_OK;
}

static int sample_method_read(const sampler *s, sqlite3_value *value, tsr_sample_method *method, tsr_error *error) {
  static const char *const names[] = {"linear", "nearest", "cubic"};
  const bool given = value && sqlite3_value_type(value) != SQLITE_NULL;
  const char *text = given ? (const char *)sqlite3_value_text(value) : names[TSR_SAMPLE_LINEAR];
  int found = 0;
  if (!text) return tsx_out_of_memory(error);
  while (found < 3 && sqlite3_stricmp(text, names[found]) != 0) found++;
  if (found == 3) return tsx_fail(error, TSR_MISMATCH, "method: '%.40s': expected linear, nearest or cubic", text);
  *method = (tsr_sample_method)found;
  if (*method != TSR_SAMPLE_NEAREST && !s->is_number)
    return tsx_fail(error, TSR_MISMATCH, "%.100s has no numbers to interpolate between: use 'nearest'",
                    s->names[s->column.field]);
  return TSR_OK;
}

/* ---- Its value --------------------------------------------------------------------------------------------------- */

/* Looks the cell up. *column is NULL if it was never written. */
static int sample_look_up(sampler *s, const tsr_column **column, uint64_t *index, tsr_error *error) {
  const tsr_request request = {.dimensions = s->dimensions, .memory_bytes = s->address.memory_bytes};
  const tsr_batch *batch;
  *column = NULL;
  TSX_TRY(tsr_reader_start(s->reader, &request, error));
  const int code = tsr_reader_next(s->reader, &batch, error);
  if (code <= 0) return code;
  *index = tsr_batch_index(batch, 0);
  return tsr_reader_column(s->reader, s->column.field, column, error);
}

/* Reads a cell's number. Returns false if the cell is null. */
static bool sample_number(const sampler *s, const tsr_column *column, uint64_t index, double *number) {
  const uint64_t size = column->cell_size, i = column->constant ? 0 : index;
  const uint8_t *bytes = (const uint8_t *)column->values + i * size;
  float single;
  if (column->unwritten || (column->validity && !column->validity[i])) return false;
  if (s->kind == TSR_KIND_UNSIGNED) {
    *number = (double)tsx_load_unsigned(bytes, size);
  } else if (s->kind == TSR_KIND_SIGNED) {
    *number = (double)tsx_load_signed(bytes, size);
  } else if (size == sizeof *number) {
    memcpy(number, bytes, sizeof *number);
  } else {
    memcpy(&single, bytes, sizeof single);
    *number = (double)single;
  }
  return !isnan(*number);
}

/* Sets the coordinates of a combination of cells. Returns its weight. */
static double sample_combination(sampler *s, uint64_t number) {
  double weight = 1;
  for (uint32_t d = s->schema->dimension_count; d-- > 0;) {
    const uint32_t i = (uint32_t)(number % s->weights[d].count);
    number /= s->weights[d].count;
    s->cells[d][0] = s->cells[d][1] = s->weights[d].cells[i];
    weight *= s->weights[d].weights[i];
  }
  return weight;
}

/* Sets the ranges to all cells. Returns false if these are no box: beyond the end of a ring come its first cells. */
static bool sample_box(sampler *s) {
  for (uint32_t d = 0; d < s->schema->dimension_count; d++) {
    const tsr_weights *w = &s->weights[d];
    for (uint32_t i = 1; i < w->count; i++)
      if (w->cells[i] != w->cells[0] + i) return false;
    s->cells[d][0] = w->cells[0];
    s->cells[d][1] = w->cells[w->count - 1];
  }
  return true;
}

/* Numbers the combinations that the cells of a batch of the box are. */
static int sample_number_cells(sampler *s, const tsr_batch *batch, uint32_t *combinations, tsr_error *error) {
  const tsr_column *coordinates;
  memset(combinations, 0, batch->count * sizeof *combinations);
  for (uint32_t d = 0; d < s->schema->dimension_count; d++) {
    TSX_TRY(tsr_reader_column(s->reader, d, &coordinates, error));
    const uint8_t *first = coordinates->values; /* bytes are enough to tell neighbours from each other */
    for (uint64_t r = 0; r < batch->count; r++) {
      const uint64_t at = coordinates->constant ? 0 : tsr_batch_index(batch, r) * coordinates->cell_size;
      combinations[r] = combinations[r] * s->weights[d].count + (uint8_t)(first[at] - (uint8_t)s->cells[d][0]);
    }
  }
  return TSR_OK;
}

/* Reads the numbers of a batch of the box, by combination. Returns how many; 0 if one is null. */
static int sample_take_batch(sampler *s, const tsr_batch *batch, uint64_t all, double *numbers, tsr_error *error) {
  const tsr_column *column;
  uint32_t combinations[SAMPLE_BOX];
  /* A batch of the whole box has its cells in the order of a tile: in this one they are the combinations. */
  const bool in_order = batch->count == all && s->schema->cell_order == TSR_ORDER_ROW;
  if (!in_order) TSX_TRY(sample_number_cells(s, batch, combinations, error));
  TSX_TRY(tsr_reader_column(s->reader, s->column.field, &column, error));
  for (uint64_t r = 0; r < batch->count; r++)
    if (!sample_number(s, column, tsr_batch_index(batch, r), &numbers[in_order ? r : combinations[r]])) return 0;
  return (int)batch->count;
}

/* Looks the cells of a box up. Returns 1; 0 if one of them is null, or was never written. */
static int sample_box_value(sampler *s, uint64_t combinations, double *sum, tsr_error *error) {
  const tsr_request request = {.dimensions = s->dimensions, .memory_bytes = s->address.memory_bytes};
  const tsr_batch *batch;
  double numbers[SAMPLE_BOX];
  uint64_t found = 0;
  int code;
  TSX_TRY(tsr_reader_start(s->reader, &request, error));
  while ((code = tsr_reader_next(s->reader, &batch, error)) > 0) {
    const int taken = sample_take_batch(s, batch, combinations, numbers, error);
    if (taken <= 0) return taken;
    found += (uint64_t)taken;
  }
  if (code < 0 || found < combinations) return code;
  for (uint64_t c = 0; c < combinations; c++) *sum += sample_combination(s, c) * numbers[c];
  return 1;
}

static int sample_value(sqlite3_context *context, sampler *s, tsr_error *error) {
  uint64_t combinations = 1, index = 0;
  double sum = 0;
  const tsr_column *column;
  for (uint32_t d = 0; d < s->schema->dimension_count && combinations <= SAMPLE_CELLS_MAX; d++)
    combinations *= s->weights[d].count;
  if (combinations > SAMPLE_CELLS_MAX)
    return tsx_fail(error, TSR_RANGE, "the point is among more than %d cells", SAMPLE_CELLS_MAX);
  if (s->is_number && combinations > 1 && combinations <= SAMPLE_BOX && sample_box(s)) {
    const int code = sample_box_value(s, combinations, &sum, error);
    if (code > 0) sqlite3_result_double(context, sum);
    return code < 0 ? code : TSR_OK;
  }
  for (uint64_t c = 0; c < combinations; c++) {
    const double weight = sample_combination(s, c);
    double number = 0;
    TSX_TRY(sample_look_up(s, &column, &index, error));
    if (!column) return TSR_OK; /* NULL */
    if (s->is_number ? !sample_number(s, column, index, &number) : tsx_column_is_null(&s->column, column, index, false))
      return TSR_OK;
    sum += weight * number;
  }
  if (s->is_number) sqlite3_result_double(context, sum);
  else tsx_column_result(context, &s->column, column, index, false);
  return TSR_OK;
}

/* ---- The function ------------------------------------------------------------------------------------------------ */

static int sample_answer(sqlite3_context *context, sampler *s, int count, sqlite3_value **values, tsr_error *error) {
  sample_point point = {.sampler = s};
  TSX_TRY(sample_method_read(s, count > 3 ? values[3] : NULL, &point.method, error));
  if (sqlite3_value_type(values[2]) == SQLITE_NULL) return TSR_OK;
  TSX_TRY(sample_point_read(&point, values[2], error));
  return point.outside ? TSR_OK : sample_value(context, s, error);
}

static int sampler_make(tsx_connection *connection, int count, sqlite3_value **values, sampler **made,
                        tsr_error *error) {
  sampler *s = sqlite3_malloc64(sizeof *s);
  if (!s) return tsx_out_of_memory(error);
  memset(s, 0, sizeof *s);
  s->connection = connection;
  tsx_connection_add_table(connection); /* until sampler_free */
  tsx_connection_add_cursor(connection);
  const int code = sampler_open(s, count, values, error);
  if (code < 0) sampler_free(s);
  else *made = s;
  return code;
}

void tsx_sample(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_error error;
  tsx_error_init(&error);
  sampler *s = sqlite3_get_auxdata(context, 1); /* NULL unless the attribute's name is constant */
  const bool kept = s && count >= 2 && sampler_fits(s, count, values);
  int code = kept ? TSR_OK : tsx_arguments_check(count, values, 2, &error);
  if (!kept) s = NULL; /* SQLite owns a cached one for other arguments */
  if (code >= 0 && !kept) code = sampler_make(connection, count, values, &s, &error);
  if (code >= 0) code = sample_answer(context, s, count, values, &error);
  tsx_function_end(context, "tessera_sample", code < 0 ? code : TSR_OK, &error);
  if (!kept && s) sqlite3_set_auxdata(context, 1, s, sampler_free);
}
