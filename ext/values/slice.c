/* slice.c: boxes and points as JSON objects that are keyed by the names of columns, and single values of any datatype.
 *
 *   {"lat":[-30,30],"day":"2024-05-01","x":[null,9]}
 *
 * Bounds are inclusive. A scalar is one value, null an open end. Datetimes are ISO text; UINT64 above the signed range
 * may be text, too. A query with SQLite's json_each and json_extract parses the JSON, so whatever SQLite accepts as
 * JSON is accepted. Numbers are read from the JSON's own text, because SQLite returns a REAL for an integer outside of
 * the signed range.
 *
 * Sections: values; boxes; labels as keys; parsing and the entry points. */
#include "values/slice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "values/value.h"
#include "sql/json.h"
#include "sql/names.h"
#include "definition/define.h"

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/* Converts one number or a JSON array of numbers. `bytes` has room for four times the text's size plus 8 bytes. */
static int convert_numbers(bool quoted, tsr_datatype datatype, const char *text, uint8_t *bytes, uint64_t *count,
                           tsr_error *error) {
  if (quoted && text[strspn(text, " \t\n")] == '[') return tsx_vector_parse(datatype, text, true, bytes, count, error);
  *count = 1;
  return tsx_given_parse(datatype, text, quoted, bytes, error);
}

/* Writes the bytes of a value, whose text is `source`, to `bytes`, which has room for 4 * source_size + 8. */
static int convert_source(int type, tsr_datatype datatype, const void *source, uint64_t source_size, uint8_t *bytes,
                          uint64_t *size, tsr_error *error) {
  const uint64_t each = tsr_datatype_size(datatype);
  uint64_t count = 0;
  *size = source_size;
  if (type == SQLITE_BLOB) {
    if (source_size % each)
      return tsx_fail(error, TSR_MISMATCH, "%llu bytes are not a whole number of %s values",
                      (unsigned long long)source_size, tsr_datatype_name(datatype));
    if (source_size) memcpy(bytes, source, source_size);
    return TSR_OK;
  }
  if (tsx_datatype_is_bytes(datatype)) return tsx_text_convert(datatype, source, source_size, bytes, size, error);
  TSX_TRY(convert_numbers(type == SQLITE_TEXT, datatype, source, bytes, &count, error));
  *size = count * each;
  return TSR_OK;
}

/* tsx_bytes_convert. If `number` is not NULL, the value is a number, and this is its text. */
static int convert_value(sqlite3_value *value, const char *number, tsr_datatype datatype, uint8_t **bytes,
                         uint64_t *size, tsr_error *error) {
  const int type = sqlite3_value_type(value);
  const void *source = type == SQLITE_BLOB ? sqlite3_value_blob(value)
                       : number            ? number
                                           : (const void *)sqlite3_value_text(value);
  const uint64_t source_size = number ? strlen(number) : (uint64_t)sqlite3_value_bytes(value);
  if (!source && type != SQLITE_BLOB && type != SQLITE_NULL) return tsx_out_of_memory(error);
  *bytes = sqlite3_malloc64(4 * source_size + 8);
  if (!*bytes) return tsx_out_of_memory(error);
  const int code = convert_source(type, datatype, source ? source : "", source_size, *bytes, size, error);
  if (code >= 0) return code;
  sqlite3_free(*bytes);
  *bytes = NULL;
  return code;
}

/* Prints a REAL with 17 digits. Integers below 2^63 may need more, so they get all digits, unless the datatype is for
 * strings. */
static char *print_real(double number, tsr_datatype datatype) {
  const bool is_long = number == floor(number) && fabs(number) >= 1e17 && fabs(number) < 9223372036854775808.0;
  if (is_long && !tsx_datatype_is_bytes(datatype)) return sqlite3_mprintf("%lld.0", (sqlite3_int64)number);
  return sqlite3_mprintf("%!.17g", number);
}

int tsx_bytes_convert(sqlite3_value *value, tsr_datatype datatype, uint8_t **bytes, uint64_t *size, tsr_error *error) {
  *bytes = NULL;
  if (sqlite3_value_type(value) != SQLITE_FLOAT) return convert_value(value, NULL, datatype, bytes, size, error);
  char *real = print_real(sqlite3_value_double(value), datatype);
  const int code = real ? convert_value(value, real, datatype, bytes, size, error) : tsx_out_of_memory(error);
  sqlite3_free(real);
  return code;
}

int tsx_value_place(sqlite3_value *value, tsr_datatype datatype, tsx_place *place, tsr_error *error) {
  const int type = sqlite3_value_type(value);
  const uint64_t each = tsr_datatype_size(datatype);
  if (type == SQLITE_BLOB) {
    *place = (tsx_place){.has_low = true, .has_high = true};
    if ((uint64_t)sqlite3_value_bytes(value) != each)
      return tsx_fail(error, TSR_MISMATCH, "expected one value of %s", tsr_datatype_name(datatype));
    const void *bytes = sqlite3_value_blob(value); /* NULL if those of zeroblob() find no memory */
    if (!bytes) return tsx_out_of_memory(error);
    memcpy(place->low, bytes, each);
    memcpy(place->high, place->low, sizeof place->high);
    return TSR_OK;
  }
  char *real = type == SQLITE_FLOAT ? print_real(sqlite3_value_double(value), datatype) : NULL;
  const char *text = type == SQLITE_FLOAT ? real : (const char *)sqlite3_value_text(value);
  const int code = text ? tsx_given_place(datatype, text, type == SQLITE_TEXT, place, error) : tsx_out_of_memory(error);
  sqlite3_free(real);
  return code;
}

int tsx_option_convert(const tsx_json_option *option, tsr_datatype datatype, uint8_t **bytes, uint64_t *size,
                       tsr_error *error) {
  const bool number = strcmp(option->type, "integer") == 0 || strcmp(option->type, "real") == 0;
  *bytes = NULL;
  return convert_value(option->value, number ? option->text : NULL, datatype, bytes, size, error);
}

/* Compares two numbers, datetimes or times of a datatype. Both buffers have 8 bytes. Returns < 0, 0, > 0. */
static int slice_compare(tsr_datatype datatype, const uint8_t *a, const uint8_t *b) {
  uint64_t size = tsr_datatype_size(datatype);
  tsr_kind kind = tsr_datatype_kind(datatype);
  if (kind == TSR_KIND_FLOAT) {
    double x[2];
    float f[2];
    memcpy(&x[0], a, 8);
    memcpy(&x[1], b, 8);
    memcpy(&f[0], a, 4);
    memcpy(&f[1], b, 4);
    if (size == 4) x[0] = (double)f[0], x[1] = (double)f[1];
    return (x[0] > x[1]) - (x[0] < x[1]);
  }
  uint64_t u[2] = {0};
  memcpy(&u[0], a, size);
  memcpy(&u[1], b, size);
  if (kind == TSR_KIND_UNSIGNED || kind == TSR_KIND_BOOLEAN) return (u[0] > u[1]) - (u[0] < u[1]);
  unsigned shift = (unsigned)(64 - 8 * size);
  int64_t x = (int64_t)(u[0] << shift), y = (int64_t)(u[1] << shift);
  return (x > y) - (x < y);
}

/* ---- Boxes ------------------------------------------------------------------------------------------------------- */

static int check_domain(const tsr_field *field, tsr_datatype shown, const uint8_t *value, const char *name,
                        const char *given, tsr_error *error) {
  if (!field->has_domain || (slice_compare(field->datatype, value, field->low) >= 0 &&
                             slice_compare(field->datatype, value, field->high) <= 0))
    return TSR_OK;
  sqlite3_str *text = sqlite3_str_new(NULL);
  if (field->duration) shown = TSR_INT64;
  tsx_json_value(text, shown, field->low, false);
  sqlite3_str_appendall(text, " to ");
  tsx_json_value(text, shown, field->high, false);
  char *domain = sqlite3_str_finish(text);
  int code = tsx_fail(error, TSR_RANGE, "dimension '%s': %.60s is outside the domain, %s", name, given ? given : "",
                      domain ? domain : "");
  sqlite3_free(domain);
  return code;
}

/* Returns on which side of all values of a datatype a number is: -2 below, 2 above, 0 if that is unknown. */
static int slice_side(tsr_datatype datatype, const char *text, bool quoted) {
  tsx_place place;
  tsr_error ignored = {0};
  if (!text || tsx_given_place(datatype, text, quoted, &place, &ignored) < 0) return 0;
  return !place.has_low ? -2 : !place.has_high ? 2 : 0;
}

/* Sets one end of a dimension to a value that was converted. */
static int set_number(const tsr_field *field, tsr_datatype shown, const char *name, sqlite3_value *value,
                      const char *json, bool cut, int *side, const uint8_t *bytes, uint64_t size, uint8_t *number,
                      tsr_error *error) {
  if (size != field->cell_size) return tsx_fail(error, TSR_MISMATCH, "dimension '%s': expected one value", name);
  memcpy(number, bytes, size);
  if (!cut || !field->has_domain)
    return check_domain(field, shown, number, name, json ? json : (const char *)sqlite3_value_text(value), error);
  *side = slice_compare(field->datatype, number, field->low) < 0    ? -1
          : slice_compare(field->datatype, number, field->high) > 0 ? 1
                                                                    : 0;
  return TSR_OK;
}

/* Sets one end of a dimension. `json` is the value's JSON text. With `cut`, an end may be outside of the domain: *side
 * is -1 below it, 1 above it, else 0; -2 and 2 outside of the datatype, too: then *number is not set. */
static int set_end(const tsr_field *field, tsr_datatype shown, const char *name, sqlite3_value *value, const char *json,
                   bool cut, int *side, uint8_t *number, uint8_t **text, uint64_t *text_size, tsr_error *error) {
  uint8_t *bytes = NULL;
  uint64_t size;
  if (!field->cell_size) {
    char *whole; /* decoded text that has a NUL */
    if (tsx_json_text_decode(json, &whole, text_size) != SQLITE_OK) return tsx_out_of_memory(error);
    *text = (uint8_t *)whole;
    if (whole) return TSR_OK;
  }
  const bool quoted = sqlite3_value_type(value) == SQLITE_TEXT;
  if (quoted) json = NULL;
  int code = convert_value(value, json, shown, &bytes, &size, error);
  if (code == TSR_RANGE && cut && shown == field->datatype && field->has_domain &&
      (*side = slice_side(shown, quoted ? (const char *)sqlite3_value_text(value) : json, quoted)) != 0)
    return TSR_OK;
  if (code < 0) {
    const tsr_error inner = *error;
    return tsx_fail(error, code, "dimension '%s': %s", name, inner.message);
  }
  if (!field->cell_size) {
    *text = bytes;
    *text_size = size;
    return TSR_OK;
  }
  code = set_number(field, shown, name, value, json, cut, side, bytes, size, number, error);
  sqlite3_free(bytes);
  return code;
}

/* SQLite's JSON functions return 1 and 0 for true and false, which would pass for coordinates. */
static bool is_json_boolean(const char *json) { return json && (!strcmp(json, "true") || !strcmp(json, "false")); }

static const char *const use_names[] = {"slice", "origin", "domain"};
static const char *const use_forms[] = {"a value or [low, high]", "one value", "[low, high]"};
static const char *const use_examples[] = {"{\"day\":[1,366]}", "{\"day\":1}", "{\"day\":[1,366]}"};

/* Returns true if the value is [], which contains no coordinate. */
static bool is_json_nothing(sqlite3_stmt *row, tsx_slice_use use) {
  const char *type = (const char *)sqlite3_column_text(row, 1);
  return use == TSX_SLICE && type && !strcmp(type, "array") && sqlite3_column_int(row, 2) == 0;
}

/* The low and the high end of a dimension or label, borrowed from the row. */
typedef struct slice_ends {
  sqlite3_value *value[2];
  const char *json[2];
} slice_ends;

/* Takes the two ends from a row of the query in slice_parse, and records in *bound which of them are given. The row's
 * columns are: 0 the key, 1 the type, 2 the number of elements, 3 the value, 4 and 5 the first two elements, 6 and 7
 * these two as JSON; all but 0, 1 and 3 are NULL unless the value is an array. `json` is the value as JSON. */
static int take_ends(sqlite3_stmt *row, const char *json, const char *name, tsx_slice_use use, tsx_bound *bound,
                     slice_ends *ends, tsr_error *error) {
  const char *type = (const char *)sqlite3_column_text(row, 1);
  bool pair = type && !strcmp(type, "array");
  if (!type || !strcmp(type, "object") || (pair && sqlite3_column_int(row, 2) != 2) || (!pair && use == TSX_DOMAIN))
    return tsx_fail(error, TSR_MISMATCH, "%s: dimension '%s': expected %s", use_names[use], name, use_forms[use]);
  for (int i = 0; i < 2; i++) {
    ends->json[i] = pair ? (const char *)sqlite3_column_text(row, 6 + i) : json;
    if (!ends->json[i]) return tsx_out_of_memory(error);
    ends->value[i] = sqlite3_column_value(row, pair ? 4 + i : 3);
  }
  if (is_json_boolean(type) || is_json_boolean(ends->json[0]) || is_json_boolean(ends->json[1]))
    return tsx_fail(error, TSR_MISMATCH, "dimension '%s': true and false are not coordinates", name);
  bound->low_given = sqlite3_value_type(ends->value[0]) != SQLITE_NULL;
  bound->high_given = sqlite3_value_type(ends->value[1]) != SQLITE_NULL;
  return TSR_OK;
}

/* Returns true if two given ends are reversed. `sides` are those of set_end. */
static bool slice_is_reversed(const tsr_field *field, const tsr_interval *box, const int sides[2]) {
  if (!field->cell_size) {
    const uint64_t common = box->low_size < box->high_size ? box->low_size : box->high_size;
    const int order = common ? memcmp(box->low_text, box->high_text, common) : 0;
    return order > 0 || (order == 0 && box->low_size > box->high_size);
  }
  if (sides[0] != sides[1]) return sides[0] > sides[1];
  return abs(sides[0]) < 2 && slice_compare(field->datatype, box->low, box->high) > 0;
}

/* Clips a box to the domain, like WHERE. Sets *nothing if it is outside. */
static void slice_cut(const tsr_field *field, const int sides[2], tsr_interval *box, bool *nothing) {
  if (sides[0] < 0) memcpy(box->low, field->low, sizeof field->low);
  if (sides[1] > 0) memcpy(box->high, field->high, sizeof field->high);
  *nothing |= sides[0] > 0 || sides[1] < 0;
}

/* Takes the bounds of one dimension, or of a label of text, from a row of the query in slice_parse. A slice's pair is
 * clipped to the domain; a single value, and both ends of a domain, must be within it. */
static int set_bounds(sqlite3_stmt *row, const char *json, const tsr_field *field, tsr_datatype shown, const char *name,
                      tsx_slice_use use, tsx_bound *bound, tsr_interval *box, bool *nothing, tsr_error *error) {
  slice_ends ends;
  int sides[2] = {0, 0};
  TSX_TRY(take_ends(row, json, name, use, bound, &ends, error));
  const bool cut = use == TSX_SLICE && ends.value[0] != ends.value[1];
  int code = TSR_OK;
  if (bound->low_given)
    code = set_end(field, shown, name, ends.value[0], ends.json[0], cut, &sides[0], box->low, &box->low_text,
                   &box->low_size, error);
  if (code >= 0 && bound->high_given)
    code = set_end(field, shown, name, ends.value[1], ends.json[1], cut, &sides[1], box->high, &box->high_text,
                   &box->high_size, error);
  bound->low_text = box->low_text; /* the bound owns the texts, after a failure too */
  bound->high_text = box->high_text;
  if (code < 0) return code;
  if (bound->low_given && bound->high_given && slice_is_reversed(field, box, sides))
    return tsx_fail(
        error, TSR_RANGE, "dimension '%s': its low end is above its high end%s", name,
        shown == field->datatype ? "" : " in the array's order, in which negative numbers come after all others");
  slice_cut(field, sides, box, nothing);
  return TSR_OK;
}

static int find_dimension(const tsr_schema *schema, char *const *names, const char *key, const tsx_bound *bounds,
                          uint32_t *dimension, tsr_error *error) {
  uint32_t d = 0;
  while (key && d < schema->dimension_count && sqlite3_stricmp(names[d], key) != 0) d++;
  if (!key || d == schema->dimension_count)
    return tsx_names_fail(names, 0, schema->dimension_count, error, "the array has no dimension '%.100s'",
                          key ? key : "");
  if (bounds[d].given) return tsx_fail(error, TSR_ERROR, "dimension '%s' is given twice", key);
  *dimension = d;
  return TSR_OK;
}

/* json_each also accepts JSON that is not an object, so this checks for the brace. A BLOB may be SQLite's binary JSON,
 * which is left to json_each. */
static int check_object(sqlite3_value *json, tsx_slice_use use, tsr_error *error) {
  if (sqlite3_value_type(json) == SQLITE_BLOB) return TSR_OK;
  const char *text = (const char *)sqlite3_value_text(json);
  if (!text) return tsx_out_of_memory(error);
  if (text[strspn(text, " \t\r\n")] == '{') return TSR_OK;
  return tsx_fail(error, TSR_MISMATCH, "the %s must be a JSON object like %s, not '%.60s'", use_names[use],
                  use_examples[use], text);
}

/* ---- Labels as keys ---------------------------------------------------------------------------------------------- */

/* Returns the number of the label that a key names, or the number of labels. A dimension's name takes precedence. */
static uint32_t find_label_key(const tsr_schema *schema, char *const *names, const char *key) {
  for (uint32_t d = 0; d < schema->dimension_count; d++)
    if (sqlite3_stricmp(names[d], key) == 0) return schema->label_count;
  for (uint32_t i = 0; i < schema->label_count; i++) {
    char *name = tsx_name_text(schema->labels[i].name);
    const bool same = name && sqlite3_stricmp(name, key) == 0;
    sqlite3_free(name);
    if (same) return i;
  }
  return schema->label_count;
}

/* Sets the ends of the label's dimension to those of the coordinates whose labels are between two ends. */
static int place_label(tsr_label_index *index, const tsx_bound *given, const tsr_interval *ends, bool texts,
                       tsx_bound *bound, tsr_interval *box, bool *nothing, tsr_error *error) {
  const tsr_range range = {.low = !given->low_given ? NULL
                                  : texts           ? (const void *)ends->low_text
                                                    : ends->low,
                           .high = !given->high_given ? NULL
                                   : texts            ? (const void *)ends->high_text
                                                      : ends->high,
                           .low_size = ends->low_size,
                           .high_size = ends->high_size};
  const tsr_ranges ranges = {.ranges = &range, .count = 1};
  tsr_interval found;
  uint64_t count = 0;
  if (!given->low_given && !given->high_given) return TSR_OK;
  TSX_TRY(tsr_label_find(index, &ranges, false, 1, &found, &count, error));
  *nothing |= count == 0;
  if (count == 0) return TSR_OK;
  bound->low_given = bound->high_given = true;
  memcpy(box->low, found.low, sizeof found.low);
  memcpy(box->high, found.high, sizeof found.high);
  return TSR_OK;
}

/* Takes the bounds of a label of numbers or instants. They may be between two values of the datatype: the low end is
 * rounded up, the high end down. Sets *nothing if no value of the datatype is between them. */
static int round_label_bounds(sqlite3_stmt *row, const char *json, const tsr_field *field, const char *name,
                              tsx_bound *bound, tsr_interval *ends, bool *nothing, tsr_error *error) {
  slice_ends given;
  tsx_place places[2] = {{.has_high = true}, {.has_low = true}};
  int code = take_ends(row, json, name, TSX_SLICE, bound, &given, error);
  for (int i = 0; i < 2 && code == TSR_OK; i++) {
    if (!(i ? bound->high_given : bound->low_given)) continue;
    const bool quoted = sqlite3_value_type(given.value[i]) == SQLITE_TEXT;
    const char *text = quoted ? (const char *)sqlite3_value_text(given.value[i]) : given.json[i];
    tsr_error inner = {0};
    code = text ? tsx_given_place(field->datatype, text, quoted, &places[i], &inner) : tsx_out_of_memory(&inner);
    if (code < 0) tsx_fail(error, code, "label '%s': %s", name, inner.message);
  }
  if (code < 0) return code;
  *nothing = !places[0].has_high || !places[1].has_low;
  memcpy(ends->low, places[0].high, sizeof places[0].high);
  memcpy(ends->high, places[1].low, sizeof places[1].low);
  if (*nothing || !bound->low_given || !bound->high_given) return TSR_OK;
  *nothing = slice_compare(field->datatype, ends->low, ends->high) > 0;
  if (places[0].has_low && places[1].has_high && slice_compare(field->datatype, places[0].low, places[1].high) > 0)
    return tsx_fail(error, TSR_RANGE, "label '%s': its low end is above its high end", name);
  return TSR_OK;
}

/* Turns bounds of a label's values into coordinates of its dimension. *ends holds texts that the caller frees. */
static int find_label_bounds(sqlite3_stmt *row, const char *json, const tsx_label_source *labels,
                             tsr_label_index *index, const char *name, uint32_t d, tsr_interval *ends, tsx_slice *slice,
                             tsr_error *error) {
  const tsr_field *field = tsr_label_field(index);
  tsx_bound given = {0};
  TSX_TRY(tsr_label_set_times(index, labels->since, labels->as_of, error));
  if (!field->cell_size)
    TSX_TRY(set_bounds(row, json, field, field->datatype, name, TSX_SLICE, &given, ends, &slice->nothing, error));
  else TSX_TRY(round_label_bounds(row, json, field, name, &given, ends, &slice->nothing, error));
  if (slice->nothing) return TSR_OK;
  return place_label(index, &given, ends, !field->cell_size, &slice->bounds[d], &slice->box[d], &slice->nothing, error);
}

/* Takes the bounds of one label; set_bounds does it for a dimension. */
static int set_label_bounds(sqlite3_stmt *row, const char *json, const tsr_schema *schema,
                            const tsx_label_source *labels, uint32_t label, tsx_slice *slice, tsr_error *error) {
  const uint32_t d = schema->labels[label].dimension;
  tsr_label_index *index;
  tsr_interval ends = {0};
  if (slice->bounds[d].given)
    return tsx_fail(error, TSR_ERROR, "dimension '%s' is given twice", schema->fields[d].name);
  slice->bounds[d].given = true;
  slice->nothing |= is_json_nothing(row, TSX_SLICE);
  if (slice->nothing) return TSR_OK;
  TSX_TRY(tsr_label_open(labels->array, schema, label, labels->memory_bytes, &index, error));
  const int code = find_label_bounds(row, json, labels, index, schema->labels[label].name, d, &ends, slice, error);
  sqlite3_free(ends.low_text);
  if (ends.high_text != ends.low_text) sqlite3_free(ends.high_text);
  tsr_label_close(index);
  return code;
}

/* ---- Parsing ----------------------------------------------------------------------------------------------------- */

typedef struct slice_parser {
  const tsr_schema *schema;
  char *const *names;
  const tsx_label_source *labels; /* NULL: labels are no keys */
  tsx_slice_use use;
  bool uint64_signed;
  tsx_slice *slice;
} slice_parser;

/* Takes the bounds of one key, a dimension or a label. `json` is the text of the key's value. */
static int parse_key(const slice_parser *p, sqlite3_stmt *row, const char *json, tsr_error *error) {
  const tsr_schema *schema = p->schema;
  const char *key = sqlite3_column_type(row, 0) == SQLITE_TEXT ? (const char *)sqlite3_column_text(row, 0) : NULL;
  tsx_slice *slice = p->slice;
  uint32_t d = 0;
  const uint32_t label = p->labels && key ? find_label_key(schema, p->names, key) : schema->label_count;
  if (label < schema->label_count) return set_label_bounds(row, json, schema, p->labels, label, slice, error);
  TSX_TRY(find_dimension(schema, p->names, key, slice->bounds, &d, error));
  slice->bounds[d].given = true;
  if (is_json_nothing(row, p->use)) {
    slice->nothing = true;
    return TSR_OK;
  }
  const tsr_datatype shown = tsx_datatype_shown(schema->fields[d].datatype, p->uint64_signed);
  return set_bounds(row, json, &schema->fields[d], shown, p->names[d], p->use, &slice->bounds[d], &slice->box[d],
                    &slice->nothing, error);
}

static int slice_parse(const slice_parser *p, sqlite3 *db, sqlite3_value *json, tsr_error *error) {
  static const char query[] =
      "SELECT key, type, CASE type WHEN 'array' THEN json_array_length(value) END, value, CASE type WHEN 'array' THEN "
      "json_extract(value, '$[0]') END, CASE type WHEN 'array' THEN json_extract(value, '$[1]') END, CASE type WHEN "
      "'array' THEN value -> '$[0]' END, CASE type WHEN 'array' THEN value -> '$[1]' END FROM json_each(?1)";
  sqlite3_stmt *row = NULL;
  tsx_json_walk walk = {0};
  TSX_TRY(check_object(json, p->use, error));
  if (sqlite3_prepare_v2(db, query, -1, &row, NULL) != SQLITE_OK)
    return tsx_fail(error, TSR_ERROR, "SQLite's JSON functions: %s", sqlite3_errmsg(db));
  int code = sqlite3_bind_value(row, 1, json) == SQLITE_OK ? TSR_OK : tsx_out_of_memory(error), step = SQLITE_OK;
  while (code >= 0 && step == SQLITE_OK && (step = sqlite3_step(row)) == SQLITE_ROW) {
    step = walk.text ? SQLITE_OK : tsx_json_walk_open(db, json, &walk);
    if (step == SQLITE_OK) code = parse_key(p, row, tsx_json_walk_next(&walk), error);
  }
  if (code >= 0 && step != SQLITE_DONE)
    code = tsx_fail(error, tsx_input_code(step), "the %s is not JSON like %s: %s", use_names[p->use],
                    use_examples[p->use], sqlite3_errmsg(db));
  sqlite3_finalize(row);
  tsx_json_walk_close(&walk);
  return code;
}

static int parse_with_labels(sqlite3 *db, sqlite3_value *json, const tsr_schema *schema, const tsx_label_source *labels,
                             tsx_slice_use use, bool uint64_signed, tsx_slice *slice, tsr_error *error) {
  const uint64_t count = schema->dimension_count;
  memset(slice, 0, sizeof *slice);
  slice->dimension_count = schema->dimension_count;
  slice->box = sqlite3_malloc64(count * sizeof *slice->box);
  slice->bounds = sqlite3_malloc64(count * sizeof *slice->bounds);
  char **names = tsx_names_make(schema);
  if (slice->bounds) memset(slice->bounds, 0, count * sizeof *slice->bounds);
  if (slice->box) memset(slice->box, 0, count * sizeof *slice->box);
  const slice_parser parser = {schema, names, labels, use, uint64_signed, slice};
  int code = slice->box && slice->bounds && names ? TSR_OK : tsx_out_of_memory(error);
  if (code >= 0 && json && sqlite3_value_type(json) != SQLITE_NULL) code = slice_parse(&parser, db, json, error);
  tsx_names_free(names, schema);
  if (code < 0) tsx_slice_release(slice);
  return code;
}

int tsx_slice_parse_as(sqlite3 *db, sqlite3_value *json, const tsr_schema *schema, tsx_slice_use use,
                       bool uint64_signed, tsx_slice *slice, tsr_error *error) {
  return parse_with_labels(db, json, schema, NULL, use, uint64_signed, slice, error);
}

int tsx_slice_parse(sqlite3 *db, sqlite3_value *json, const tsr_schema *schema, const tsx_label_source *labels,
                    bool uint64_signed, tsx_slice *slice, tsr_error *error) {
  return parse_with_labels(db, json, schema, labels, TSX_SLICE, uint64_signed, slice, error);
}

int tsx_slice_complete(tsr_snapshot *snapshot, tsx_slice *slice, bool *empty, tsr_error *error) {
  const tsr_schema *schema = tsr_snapshot_schema(snapshot);
  const tsr_interval *all = NULL;
  int code = 0;
  *empty = slice->nothing;
  for (uint32_t d = 0; d < slice->dimension_count; d++) {
    const tsx_bound *bound = &slice->bounds[d];
    if ((bound->low_given && bound->high_given) || !schema->fields[d].cell_size) continue;
    if (!all && (code = tsr_snapshot_non_empty_domain(snapshot, &all, error)) < 0) return code;
    if (code == 0) *empty = true;
    else {
      if (!bound->low_given) memcpy(slice->box[d].low, all[d].low, sizeof all[d].low);
      if (!bound->high_given) memcpy(slice->box[d].high, all[d].high, sizeof all[d].high);
      if (slice_compare(schema->fields[d].datatype, slice->box[d].low, slice->box[d].high) > 0) *empty = true;
    }
  }
  return TSR_OK;
}

void tsx_slice_ranges(const tsx_slice *slice, const tsr_schema *schema, tsr_range *ranges, tsr_ranges *dimensions) {
  for (uint32_t d = 0; d < slice->dimension_count; d++) {
    const tsx_bound *bound = &slice->bounds[d];
    const tsr_interval *box = &slice->box[d];
    const bool text = schema->fields[d].cell_size == 0;
    ranges[d] = (tsr_range){.low_size = box->low_size, .high_size = box->high_size};
    if (bound->low_given) ranges[d].low = text ? (const void *)box->low_text : box->low;
    if (bound->high_given) ranges[d].high = text ? (const void *)box->high_text : box->high;
    dimensions[d] = (tsr_ranges){.ranges = &ranges[d], .count = 1, .all = !bound->low_given && !bound->high_given};
    if (slice->nothing) dimensions[d] = (tsr_ranges){0};
  }
}

void tsx_slice_release(tsx_slice *slice) {
  for (uint32_t d = 0; slice->bounds && d < slice->dimension_count; d++) {
    sqlite3_free(slice->bounds[d].low_text);
    sqlite3_free(slice->bounds[d].high_text);
  }
  sqlite3_free(slice->box);
  sqlite3_free(slice->bounds);
  memset(slice, 0, sizeof *slice);
}
