/* axes.c: the axes of a grid, from labels or from edge and step.
 *
 * Sections: labels, options, grids. */
#include "values/axes.h"

#include <math.h>
#include <string.h>

#include "connection/errors.h"
#include "sql/names.h"
#include "values/value.h"

/* ---- Labels ------------------------------------------------------------------------------------------------------ */

static bool label_is_time(tsr_datatype datatype) {
  const tsr_kind kind = tsr_datatype_kind(datatype);
  return kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME;
}

double tsx_axis_place(int64_t value, double beyond, int64_t base) {
  const double distance =
      value < base ? -(double)((uint64_t)base - (uint64_t)value) : (double)((uint64_t)value - (uint64_t)base);
  return distance + beyond;
}

/* Returns a label's value as a number; of a datetime or time the distance from `base`, so that its units are exact. NaT
 * is NaN. */
static double axes_load(tsr_datatype datatype, const uint8_t *bytes, int64_t base) {
  const uint64_t size = tsr_datatype_size(datatype);
  float single;
  double real;
  if (label_is_time(datatype)) {
    const int64_t value = tsx_load_signed(bytes, size);
    return value == INT64_MIN ? NAN : tsx_axis_place(value, 0, base);
  }
  if (tsr_datatype_kind(datatype) == TSR_KIND_UNSIGNED) return (double)tsx_load_unsigned(bytes, size);
  if (tsr_datatype_kind(datatype) == TSR_KIND_SIGNED) return (double)tsx_load_signed(bytes, size);
  if (datatype == TSR_FLOAT64) {
    memcpy(&real, bytes, sizeof real);
    return real;
  }
  memcpy(&single, bytes, sizeof single);
  return (double)single;
}

static bool label_is_numeric(const tsr_label *label) {
  const tsr_kind kind = tsr_datatype_kind(label->datatype);
  return label->values_per_cell == 1 &&
         (kind == TSR_KIND_FLOAT || kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED);
}

/* Finds a label of a dimension by its name in SQL, or with NULL its only numeric label. */
static int label_choose(const tsr_schema *schema, uint32_t dimension, const char *dimension_name, const char *wanted,
                        uint32_t *label, tsr_error *error) {
  sqlite3_str *names = sqlite3_str_new(NULL);
  int fitting = 0;
  bool exact = false;
  for (uint32_t i = 0; i < schema->label_count && !exact; i++) {
    if (schema->labels[i].dimension != dimension || !label_is_numeric(&schema->labels[i])) continue;
    char *name = tsx_name_text(schema->labels[i].name);
    sqlite3_str_appendf(names, "%s%s", fitting ? ", " : "", name ? name : "");
    exact = wanted && name && sqlite3_stricmp(name, wanted) == 0;
    sqlite3_free(name);
    *label = i;
    fitting++;
  }
  char *all = sqlite3_str_finish(names);
  int code = TSR_OK;
  if (wanted && !exact)
    code = tsx_fail(error, TSR_ERROR, "%.100s has no numeric label '%.100s'%s%.300s", dimension_name, wanted,
                    all ? ": it has " : "", all ? all : "");
  else if (!wanted && fitting == 0)
    code =
        tsx_fail(error, TSR_ERROR, "%.100s has no numeric label: name one or [origin, step] in axes", dimension_name);
  else if (!wanted && fitting > 1)
    code = tsx_fail(error, TSR_ERROR, "%.100s has several labels: %.300s: name one in axes", dimension_name,
                    all ? all : "");
  sqlite3_free(all);
  return code;
}

/* Reads the values of an open label between two coordinates into lists, which the caller frees. *base becomes the first
 * datetime or time. */
static int label_list(const tsr_label_index *index, const tsr_field *dimension, const tsr_interval *interval,
                      int64_t **coordinates, double **centres, uint64_t *count, int64_t *base, tsr_error *error) {
  const uint64_t size = dimension->cell_size;
  const tsr_column *cells = tsr_label_cells(index);
  const tsr_datatype datatype = tsr_label_field(index)->datatype;
  const bool is_signed = tsr_datatype_kind(dimension->datatype) != TSR_KIND_UNSIGNED;
  const uint64_t low =
      is_signed ? (uint64_t)tsx_load_signed(interval->low, size) : tsx_load_unsigned(interval->low, size);
  const uint64_t high =
      is_signed ? (uint64_t)tsx_load_signed(interval->high, size) : tsx_load_unsigned(interval->high, size);
  const uint64_t reach = high - low; /* the label has a value in memory for each: so it is far below 2^64 */
  *count = 0;
  *coordinates = sqlite3_malloc64((reach + 1) * sizeof **coordinates);
  *centres = sqlite3_malloc64((reach + 1) * sizeof **centres);
  if (!*coordinates || !*centres) return tsx_out_of_memory(error);
  for (uint64_t i = 0; i <= reach; i++) {
    const uint64_t coordinate = low + i; /* little-endian: its first bytes are those of the datatype */
    uint64_t cell;
    if (!tsr_label_cell(index, &coordinate, &cell)) continue;
    const uint8_t *value = (const uint8_t *)cells->values + (cells->constant ? 0 : cell) * cells->cell_size;
    if (*count == 0 && label_is_time(datatype)) *base = tsx_load_signed(value, cells->cell_size);
    (*coordinates)[*count] = (int64_t)coordinate;
    (*centres)[(*count)++] = axes_load(datatype, value, *base);
  }
  return TSR_OK;
}

static int label_axis(tsr_environment *environment, tsr_label_index *index, const tsr_field *dimension,
                      const char *name, tsr_grid_axis **axis, int64_t *base, tsr_error *error) {
  const tsr_range all = {0};
  const tsr_ranges ranges = {.ranges = &all, .count = 1};
  tsr_interval interval;
  int64_t *coordinates = NULL;
  double *centres = NULL;
  uint64_t found, count = 0;
  int code = tsr_label_find(index, &ranges, false, 1, &interval, &found, error);
  if (code >= 0 && found) code = label_list(index, dimension, &interval, &coordinates, &centres, &count, base, error);
  if (code >= 0) code = tsr_grid_axis_of_centres(environment, name, count, coordinates, centres, axis, error);
  sqlite3_free(coordinates);
  sqlite3_free(centres);
  return code;
}

int tsx_axis_of_label(tsr_environment *environment, const tsr_schema *schema, uint32_t label, char *const *names,
                      const tsx_label_source *labels, tsr_grid_axis **axis, int64_t *base, tsr_error *error) {
  const uint32_t dimension = schema->labels[label].dimension;
  tsr_label_index *index = NULL;
  *base = 0;
  int code = tsr_label_open(labels->array, schema, label, labels->memory_bytes, &index, error);
  if (code == TSR_OK) code = tsr_label_read(index, labels->since, labels->as_of, error);
  if (code == TSR_OK)
    code = label_axis(environment, index, &schema->fields[dimension], names[dimension], axis, base, error);
  tsr_label_close(index);
  return code;
}

static int axis_of_label(tsr_environment *environment, const tsx_axis_words *words, const tsr_schema *schema,
                         uint32_t dimension, char *const *names, const tsx_label_source *labels, tsr_grid_axis **axis,
                         tsr_error *error) {
  uint32_t number = 0;
  int64_t base;
  TSX_TRY(label_choose(schema, dimension, names[dimension], words->label, &number, error));
  return tsx_axis_of_label(environment, schema, number, names, labels, axis, &base, error);
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

enum { AXES_AXES, AXES_WRAP };
static const tsx_option_spec axes_specs[] = {
    {"axes", TSX_TAKES_ANY, 0, 0, NULL},
    {"wrap", TSX_TAKES_ABOVE, 0, INT64_C(1) << 40, NULL},
};
static const tsx_option_list axes_options = TSX_OPTION_LIST(axes_specs);

static int axes_fail_form(const char *name, tsr_error *error) {
  return tsx_fail(error, TSR_MISMATCH, "axes: %.100s: expected the name of a label, or [origin, step]", name);
}

static int axes_take_number(void *argument, const tsx_json_option *option, tsr_error *error) {
  tsx_axis_words *words = argument;
  if (words->numbers == 2 || (strcmp(option->type, "integer") != 0 && strcmp(option->type, "real") != 0))
    return axes_fail_form(words->dimension, error);
  words->ends[words->numbers++] = sqlite3_value_double(option->value);
  return TSR_OK;
}

static int axes_take_axis(void *argument, const tsx_json_option *option, tsr_error *error) {
  tsx_plane_words *all = argument;
  if (all->count == 2) return tsx_fail(error, TSR_MISMATCH, "axes: expected two dimensions, first y, then x");
  tsx_axis_words *words = &all->axes[all->count++];
  words->dimension = sqlite3_mprintf("%s", option->key);
  if (!words->dimension) return tsx_out_of_memory(error);
  if (!strcmp(option->type, "null")) return TSR_OK;
  if (!strcmp(option->type, "text")) {
    words->label = sqlite3_mprintf("%s", (const char *)sqlite3_value_text(option->value));
    return words->label ? TSR_OK : tsx_out_of_memory(error);
  }
  if (strcmp(option->type, "array") != 0) return axes_fail_form(option->key, error);
  TSX_TRY(tsx_elements_each(all->db, option->value, "axes", axes_take_number, words, error));
  return words->numbers == 2 ? TSR_OK : axes_fail_form(option->key, error);
}

int tsx_plane_take_axes(tsx_plane_words *words, const tsx_option_value *value, tsr_error *error) {
  if (strcmp(value->json->type, "object") != 0)
    return tsx_fail(error, TSR_MISMATCH, "axes: expected an object such as {\"y\":\"lat\",\"x\":\"lon\"}");
  TSX_TRY(tsx_options_each(words->db, value->json->value, "axes", axes_take_axis, words, error));
  return words->count == 2 ? TSR_OK : tsx_fail(error, TSR_MISMATCH, "axes: expected two dimensions, first y, then x");
}

static int axes_take(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  tsx_plane_words *words = argument;
  if (option == AXES_AXES) return tsx_plane_take_axes(words, value, error);
  words->wrap = value->number;
  return TSR_OK;
}

/* ---- Grids ------------------------------------------------------------------------------------------------------- */

static int axis_dimension(const tsr_schema *schema, char *const *names, const char *name, uint32_t *dimension,
                          tsr_error *error) {
  for (*dimension = 0; *dimension < schema->dimension_count; (*dimension)++)
    if (sqlite3_stricmp(names[*dimension], name) == 0) return TSR_OK;
  return tsx_names_fail(names, 0, schema->dimension_count, error, "axes: the array has no dimension '%.100s'", name);
}

static int axis_affine(tsr_environment *environment, const tsx_axis_words *words, const tsr_field *dimension,
                       const char *name, tsr_grid_axis **axis, tsr_error *error) {
  const uint64_t size = dimension->cell_size;
  const bool is_signed = tsr_datatype_kind(dimension->datatype) != TSR_KIND_UNSIGNED;
  const uint64_t low =
      is_signed ? (uint64_t)tsx_load_signed(dimension->low, size) : tsx_load_unsigned(dimension->low, size);
  const uint64_t high =
      is_signed ? (uint64_t)tsx_load_signed(dimension->high, size) : tsx_load_unsigned(dimension->high, size);
  const uint64_t count = high - low == UINT64_MAX ? UINT64_MAX : high - low + 1;
  return tsr_grid_axis_affine(environment, name, count, (int64_t)low, words->ends[0], words->ends[1], axis, error);
}

static int axis_open(tsr_environment *environment, const tsx_axis_words *words, const tsr_schema *schema,
                     char *const *names, const tsx_label_source *labels, uint32_t dimension, tsr_grid_axis **axis,
                     tsr_error *error) {
  if (words->numbers) return axis_affine(environment, words, &schema->fields[dimension], names[dimension], axis, error);
  return axis_of_label(environment, words, schema, dimension, names, labels, axis, error);
}

int tsx_plane_make(tsr_environment *environment, const tsx_plane_words *words, const uint32_t *dimensions,
                   const tsr_schema *schema, char *const *names, const tsx_label_source *labels, tsx_plane *plane,
                   tsr_error *error) {
  const uint32_t n = schema->dimension_count;
  if (!schema->dense || n < 2)
    return tsx_fail(error, TSR_MISMATCH, "the grid is a dense array of two dimensions or more");
  for (uint32_t i = 0; i < 2; i++) {
    plane->dimensions[i] = dimensions ? dimensions[i] : n - 2 + i;
    if (words->count) TSX_TRY(axis_dimension(schema, names, words->axes[i].dimension, &plane->dimensions[i], error));
  }
  if (plane->dimensions[0] == plane->dimensions[1])
    return tsx_fail(error, TSR_MISMATCH, "axes: expected two dimensions, first y, then x");
  plane->wrap = words->wrap;
  for (uint32_t i = 0; i < 2; i++)
    TSX_TRY(
        axis_open(environment, &words->axes[i], schema, names, labels, plane->dimensions[i], &plane->axes[i], error));
  return TSR_OK;
}

void tsx_plane_words_release(tsx_plane_words *words) {
  for (int i = 0; i < 2; i++) {
    sqlite3_free(words->axes[i].dimension);
    sqlite3_free(words->axes[i].label);
  }
}

int tsx_plane_open(sqlite3 *db, tsr_environment *environment, sqlite3_value *options, const tsr_schema *schema,
                   char *const *names, const tsx_label_source *labels, tsx_plane *plane, tsr_error *error) {
  tsx_plane_words words = {.db = db};
  *plane = (tsx_plane){.wrap = 0};
  int code = tsx_options_read(db, options, &axes_options, axes_take, &words, error);
  if (code == TSR_OK) code = tsx_plane_make(environment, &words, NULL, schema, names, labels, plane, error);
  tsx_plane_words_release(&words);
  return code;
}

void tsx_plane_close(tsx_plane *plane) {
  for (int i = 0; i < 2; i++) tsr_grid_axis_close(plane->axes[i]);
  *plane = (tsx_plane){.wrap = 0};
}
