/* stream_request.c: the arguments of tessera_stream: which cells, which columns, in which Arrow types. */
#include "functions/stream_request.h"

#include <string.h>

#include "connection/errors.h"
#include "text/json_in.h"
#include "text/options.h"
#include "text/names.h"
#include "values/labels.h"
#include "values/slice.h"

static uint32_t stream_field_count(const tsx_stream_request *r) {
  return r->schema->dimension_count + r->schema->attribute_count;
}

/* Finds a field among those from `first` on, up to `end`. */
static int stream_find(const tsx_stream_request *r, uint32_t first, uint32_t end, sqlite3_value *name, const char *what,
                       uint32_t *field, tsr_error *error) {
  const char *text = (const char *)sqlite3_value_text(name);
  for (*field = first; text && *field < end; ++*field)
    if (sqlite3_stricmp(r->names[*field], text) == 0) return TSR_OK;
  return tsx_names_fail(r->names, first, end, error, "array %.200s has no %s '%.64s'", r->array, what,
                        text ? text : "");
}

/* ---- Columns and order ------------------------------------------------------------------------------------------- */

static int stream_read_column(void *argument, const tsx_json_option *o, tsr_error *error) {
  tsx_stream_request *r = argument;
  uint32_t field;
  if (r->options.field_count == stream_field_count(r))
    return tsx_fail(error, TSR_ERROR, "'columns' names a column twice: the array has %u", stream_field_count(r));
  const int code = stream_find(r, 0, stream_field_count(r), o->value, "column", &field, error);
  for (uint32_t i = 0; code == TSR_OK && i < r->options.field_count; i++)
    if (r->fields[i] == field) return tsx_fail(error, TSR_ERROR, "'columns' names '%.64s' twice", r->names[field]);
  if (code == TSR_OK) r->fields[r->options.field_count++] = field;
  return code;
}

typedef struct stream_list { /* the elements of one [column, ...] */
  tsx_stream_request *request;
  int count;
  uint32_t field;
  tsx_op operation;
} stream_list;

static int stream_read_order_part(void *argument, const tsx_json_option *o, tsr_error *error) {
  stream_list *list = argument;
  tsx_stream_request *r = list->request;
  const char *text = (const char *)sqlite3_value_text(o->value);
  tsr_sort *sort = &r->order[r->request.order_count];
  if (list->count++ == 0) {
    const int code = stream_find(r, 0, r->schema->dimension_count, o->value, "dimension", &sort->dimension, error);
    sort->descending = false;
    return code;
  }
  sort->descending = text && sqlite3_stricmp(text, "desc") == 0;
  if (list->count == 2 && text && (sort->descending || sqlite3_stricmp(text, "asc") == 0)) return TSR_OK;
  return tsx_fail(error, TSR_MISMATCH, "'order': expected [[dimension, \"asc\" or \"desc\"], ...]");
}

static int stream_read_order(void *argument, const tsx_json_option *o, tsr_error *error) {
  stream_list list = {.request = argument};
  tsx_stream_request *r = argument;
  if (r->request.order_count == r->schema->dimension_count)
    return tsx_fail(error, TSR_ERROR, "'order' has more entries than the array has dimensions");
  const int code = strcmp(o->type, "text") == 0
                       ? stream_read_order_part(&list, o, error)
                       : tsx_elements_each(r->db, o->value, "'order': expected [[dimension, direction], ...]",
                                           stream_read_order_part, &list, error);
  if (code == TSR_OK && list.count == 0) return tsx_fail(error, TSR_MISMATCH, "'order': an entry is empty");
  if (code == TSR_OK) r->request.order_count++;
  return code;
}

/* ---- Conditions -------------------------------------------------------------------------------------------------- */

/* Adds a range to a condition, which owns `bytes` from now on, also after an error. */
static int stream_add_range(tsx_stream_condition *c, tsr_range range, uint8_t *bytes, tsr_error *error) {
  if (c->count == c->room) {
    const uint64_t room = c->room ? 2 * c->room : 1;
    tsr_range *ranges = sqlite3_realloc64(c->ranges, room * sizeof *ranges);
    if (ranges) c->ranges = ranges;
    uint8_t **values = ranges ? sqlite3_realloc64(c->values, room * sizeof *values) : NULL;
    if (values) c->values = values;
    if (!values) {
      sqlite3_free(bytes);
      return tsx_out_of_memory(error);
    }
    c->room = room;
  }
  c->ranges[c->count] = range;
  c->values[c->count++] = bytes;
  return TSR_OK;
}

/* Returns the range of the values that a comparison lets through. */
static tsr_range stream_range_of(tsx_op op, const uint8_t *bytes, uint64_t size) {
  return (tsr_range){.low = op == TSX_EQ || op == TSX_GT || op == TSX_GE ? bytes : NULL,
                     .high = op == TSX_EQ || op == TSX_LT || op == TSX_LE ? bytes : NULL,
                     .low_size = size,
                     .high_size = size,
                     .low_exclusive = op == TSX_GT,
                     .high_exclusive = op == TSX_LT};
}

/* Finds the codes whose labels, numbers of UINT64, satisfy a comparison with an integer that may be past INT64. Returns 1;
 * 0 if `o` is none. */
static int stream_find_unsigned(const tsx_column *column, tsx_op op, const tsx_json_option *o, tsx_codes *codes,
                                tsr_error *error) {
  const bool integer = strcmp(o->type, "integer") == 0 && *o->text != '-', text = strcmp(o->type, "text") == 0;
  uint8_t *bytes = NULL;
  uint64_t size = 0;
  if (column->enumeration->datatype != TSR_UINT64 || op == TSX_NOTNULL || (!integer && !text)) return 0;
  int code = tsx_option_convert(o, TSR_UINT64, &bytes, &size, error);
  const tsr_range range = stream_range_of(op, bytes, size);
  if (code == TSR_OK && tsx_codes_within(column, &range, codes) != SQLITE_OK) code = tsx_out_of_memory(error);
  sqlite3_free(bytes);
  return code < 0 ? code : 1;
}

/* Adds the codes whose labels satisfy a comparison, or of all labels with TSX_NOTNULL, where `o` is not used. */
static int stream_add_labels(stream_list *list, tsx_op op, const tsx_json_option *o, tsr_error *error) {
  tsx_stream_request *r = list->request;
  tsx_stream_condition *c = &r->conditions[r->request.predicate_count];
  const char *name = r->names[list->field];
  tsx_column column = {.name = r->names[list->field], .field = list->field};
  const tsr_enumeration *enumeration;
  tsx_codes codes = {0};
  const tsr_field *field = &r->schema->fields[list->field];
  int code = tsr_array_enumeration(r->core, r->schema, field->enumeration, &enumeration, error);
  if (code < 0) return code;
  tsx_column_choose(field, enumeration, &(tsx_option_shows){0}, &column);
  const int found = stream_find_unsigned(&column, op, o, &codes, error);
  if (op != TSX_NOTNULL && !found) {
    if (!tsx_labels_possible(&column))
      return tsx_fail(error, TSR_UNSUPPORTED, "'where': the labels of '%.64s' are neither text nor numbers", name);
    const bool text = sqlite3_value_type(o->value) == SQLITE_TEXT;
    if (text != (column.label_form == TSX_TEXT))
      return tsx_fail(error, TSR_MISMATCH, "'where': the labels of '%.64s' are %s, and it is compared with %s", name,
                      text ? "numbers" : "text", text ? "text" : "a number");
  }
  if (found < 0) code = found;
  else if (!found && tsx_codes_add(&column, op, false, false, o->value, 0, &codes) != SQLITE_OK)
    code = tsx_out_of_memory(error);
  if (code == TSR_OK && codes.everything)
    code = tsx_fail(error, TSR_RANGE, "'where': no label of '%.64s' can be compared with this value", name);
  for (uint64_t i = 0; i < codes.count && code == TSR_OK; i++) {
    uint8_t *bytes = sqlite3_malloc(sizeof codes.ranges[i]);
    if (!bytes) {
      code = tsx_out_of_memory(error);
      break;
    }
    memcpy(bytes, codes.ranges[i], sizeof codes.ranges[i]); /* little-endian: the low bytes are the code */
    code = stream_add_range(c, (tsr_range){.low = bytes, .high = bytes + sizeof codes.ranges[i][0]}, bytes, error);
  }
  sqlite3_free(codes.ranges);
  return code;
}

/* Whether a condition on the field compares labels: not where the stream shows their codes. */
static bool stream_compares_labels(const tsx_stream_request *r, uint32_t field) {
  return r->schema->fields[field].enumeration && !r->shows_codes;
}

/* Adds the values that a comparison with `o` lets through. */
static int stream_compare(stream_list *list, tsx_op op, const tsx_json_option *o, tsr_error *error) {
  tsx_stream_request *r = list->request;
  const tsr_field *field = &r->schema->fields[list->field];
  uint8_t *bytes = NULL;
  uint64_t size = 0;
  if (strcmp(o->type, "null") == 0)
    return tsx_fail(error, TSR_MISMATCH, "'where': NULL goes with \"is\" and \"is not\", values with the others");
  if (stream_compares_labels(r, list->field)) {
    if (field->values_per_cell == 1) return stream_add_labels(list, op, o, error);
    return tsx_fail(error, TSR_UNSUPPORTED, "'where': '%.64s' has several labels in a cell", r->names[list->field]);
  }
  int code = tsx_option_convert(o, field->datatype, &bytes, &size, error);
  if (code == TSR_OK && field->values_per_cell != TSR_VARIABLE && size != field->cell_size)
    code = tsx_fail(error, TSR_MISMATCH, "'where': '%.64s' is compared with one value", r->names[list->field]);
  if (code < 0) {
    sqlite3_free(bytes);
    return code;
  }
  return stream_add_range(&r->conditions[r->request.predicate_count], stream_range_of(op, bytes, size), bytes, error);
}

static int stream_read_member(void *argument, const tsx_json_option *o, tsr_error *error) {
  return stream_compare(argument, TSX_EQ, o, error);
}

/* Makes the predicate of one condition. The value is an SQL NULL for "is" and "is not", and a list for "in". */
static int stream_condition(stream_list *list, const tsx_json_option *o, tsr_error *error) {
  tsx_stream_request *r = list->request;
  tsr_predicate *p = &r->predicates[r->request.predicate_count];
  tsx_stream_condition *c = &r->conditions[r->request.predicate_count];
  const bool is = list->operation == TSX_ISNULL || list->operation == TSX_NOTNULL;
  int code;
  *p = (tsr_predicate){.field = list->field, .nat_is_null = true};
  if (is != (strcmp(o->type, "null") == 0))
    return tsx_fail(error, TSR_MISMATCH, "'where': NULL goes with \"is\" and \"is not\", values with the others");
  if (is && stream_compares_labels(r, list->field)) { /* a code without a label reads as NULL, too */
    p->negated = list->operation == TSX_ISNULL;
    code = stream_add_labels(list, TSX_NOTNULL, o, error);
  } else if (is) {
    p->kind = list->operation == TSX_ISNULL ? TSR_PREDICATE_IS_NULL : TSR_PREDICATE_NOT_NULL;
    return TSR_OK;
  } else if (list->operation == TSX_IN) {
    code =
        tsx_elements_each(r->db, o->value, "'where': \"in\" wants a list of values", stream_read_member, list, error);
  } else {
    code = stream_compare(list, list->operation, o, error);
  }
  p->ranges = (tsr_ranges){.ranges = c->ranges, .count = c->count};
  return code;
}

static int stream_read_where_part(void *argument, const tsx_json_option *o, tsr_error *error) {
  static const struct {
    const char *text;
    tsx_op op;
  } operations[] = {{"=", TSX_EQ},  {"<", TSX_LT},      {"<=", TSX_LE},          {">", TSX_GT},
                    {">=", TSX_GE}, {"is", TSX_ISNULL}, {"is not", TSX_NOTNULL}, {"in", TSX_IN}};
  stream_list *list = argument;
  tsx_stream_request *r = list->request;
  const char *text = (const char *)sqlite3_value_text(o->value);
  switch (list->count++) {
  case 0:
    return stream_find(r, r->schema->dimension_count, stream_field_count(r), o->value, "attribute", &list->field,
                       error);
  case 1:
    for (size_t i = 0; text && i < sizeof operations / sizeof *operations; i++)
      if (sqlite3_stricmp(text, operations[i].text) == 0) {
        list->operation = operations[i].op;
        return TSR_OK;
      }
    return tsx_fail(error, TSR_MISMATCH, "'where': '%.20s' is none of = < <= > >= in, is, is not", text ? text : "");
  case 2: return stream_condition(list, o, error);
  default: return tsx_fail(error, TSR_MISMATCH, "'where': expected [[attribute, operator, value], ...]");
  }
}

static int stream_read_where(void *argument, const tsx_json_option *o, tsr_error *error) {
  stream_list list = {.request = argument};
  tsx_stream_request *r = argument;
  if (r->request.predicate_count == TSX_STREAM_CONDITIONS)
    return tsx_fail(error, TSR_ERROR, "'where' has more than %d conditions", TSX_STREAM_CONDITIONS);
  const int code = tsx_elements_each(r->db, o->value, "'where': expected [[attribute, operator, value], ...]",
                                     stream_read_where_part, &list, error);
  if (code == TSR_OK && list.count != 3)
    return tsx_fail(error, TSR_MISMATCH, "'where': expected [[attribute, operator, value], ...]");
  if (code == TSR_OK) r->request.predicate_count++;
  return code;
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

enum {
  STREAM_OPTION_columns,
  STREAM_OPTION_where,
  STREAM_OPTION_order,
  STREAM_OPTION_since,
  STREAM_OPTION_as_of,
  STREAM_OPTION_key,
  STREAM_OPTION_schema,
  STREAM_OPTION_unwritten,
  STREAM_OPTION_strings,
  STREAM_OPTION_enums,
  STREAM_OPTION_datetimes,
  STREAM_OPTION_batch_rows,
  STREAM_OPTION_limits, /* the first of three */
  STREAM_OPTION_COUNT = STREAM_OPTION_limits + 3
};

static const tsx_option_spec stream_specs[STREAM_OPTION_COUNT] = {
    [STREAM_OPTION_columns] = {.name = "columns"},
    [STREAM_OPTION_where] = {.name = "where"},
    [STREAM_OPTION_order] = {.name = "order"},
    [STREAM_OPTION_since] = {.name = "since"},
    [STREAM_OPTION_as_of] = {.name = "as_of"},
    [STREAM_OPTION_key] = {.name = "key"},
    [STREAM_OPTION_schema] = {.name = "schema"},
    [STREAM_OPTION_unwritten] = {"unwritten", TSX_TAKES_WORD, 0, 0, TSX_WORDS("null", "fill")},
    [STREAM_OPTION_strings] = {"strings", TSX_TAKES_WORD, 0, 0, TSX_WORDS("large", "small", "binary", "view")},
    [STREAM_OPTION_enums] = {"enums", TSX_TAKES_WORD, 0, 0, TSX_WORDS("dictionary", "label", "code")},
    [STREAM_OPTION_datetimes] = {"datetimes", TSX_TAKES_WORD, 0, 0, TSX_WORDS("timestamp", "integer", "duration")},
    [STREAM_OPTION_batch_rows] = {"batch_rows", TSX_TAKES_WHOLE, 1, INT64_MAX, NULL},
    TSX_READ_LIMIT_SPECS};
static const tsx_option_list stream_list_of_options = TSX_OPTION_LIST(stream_specs);

static int stream_take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  tsx_stream_request *r = argument;
  sqlite3_value *json = value->json->value;
  switch (option) {
  case STREAM_OPTION_columns:
    r->options.fields = r->fields;
    return tsx_elements_each(r->db, json, "'columns': expected an array of names", stream_read_column, r, error);
  case STREAM_OPTION_where:
    return tsx_elements_each(r->db, json, "'where': expected an array", stream_read_where, r, error);
  case STREAM_OPTION_order:
    return tsx_elements_each(r->db, json, "'order': expected an array", stream_read_order, r, error);
  case STREAM_OPTION_since:
  case STREAM_OPTION_as_of:
  case STREAM_OPTION_key:
  case STREAM_OPTION_schema: break; /* stream_take_place has taken them */
  case STREAM_OPTION_unwritten: r->options.fill = value->whole; break;
  case STREAM_OPTION_strings: r->options.strings = (tsr_arrow_strings)value->whole; break;
  case STREAM_OPTION_enums: r->options.enums = (tsr_arrow_enums)value->whole; break;
  case STREAM_OPTION_datetimes: r->options.datetimes = (tsr_arrow_datetimes)value->whole; break;
  case STREAM_OPTION_batch_rows: r->options.batch_rows = (uint64_t)value->whole; break;
  default:
    tsx_read_limits_take(&r->limits, (tsx_read_option)(option - STREAM_OPTION_limits), value);
    r->request.memory_bytes = r->limits.memory_bytes;
    r->request.threads = r->limits.threads;
  }
  return TSR_OK;
}

/* Takes the options that say where the array is, and which state of it is read. */
static int stream_take_place(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  tsx_stream_request *r = argument;
  sqlite3_value **to = option == STREAM_OPTION_key      ? &r->key
                       : option == STREAM_OPTION_since  ? &r->since
                       : option == STREAM_OPTION_as_of  ? &r->as_of
                       : option == STREAM_OPTION_schema ? &r->seen
                                                        : NULL;
  if (option == STREAM_OPTION_enums) r->shows_codes = value->whole == TSR_ARROW_ENUMS_CODE;
  if (!to) return TSR_OK;
  *to = sqlite3_value_dup(value->json->value);
  return *to ? TSR_OK : tsx_out_of_memory(error);
}

int tsx_stream_request_begin(sqlite3 *db, sqlite3_value *json, tsx_stream_request *r, tsr_error *error) {
  r->db = db;
  return tsx_options_read(db, json, &stream_list_of_options, stream_take_place, r, error);
}

int tsx_stream_request_read(sqlite3_value *slice, sqlite3_value *json, const tsx_address *address,
                            const tsr_schema *schema, tsx_stream_request *r, tsr_error *error) {
  const uint32_t d = schema->dimension_count, n = d + schema->attribute_count;
  const tsx_label_source labels = tsx_address_labels(address);
  r->array = address->given;
  r->core = address->array->core;
  r->schema = schema;
  int code = tsx_slice_parse(r->db, slice, schema, &labels, address->uint64_signed, &r->slice, error);
  if (code < 0) return code;
  r->names = tsx_names_make(schema);
  r->ranges = sqlite3_malloc64(d * sizeof *r->ranges);
  r->dimensions = sqlite3_malloc64(d * sizeof *r->dimensions);
  r->order = sqlite3_malloc64(d * sizeof *r->order);
  r->fields = sqlite3_malloc64(n * sizeof *r->fields);
  r->predicates = sqlite3_malloc64(TSX_STREAM_CONDITIONS * sizeof *r->predicates);
  r->conditions = sqlite3_malloc64(TSX_STREAM_CONDITIONS * sizeof *r->conditions);
  if (r->conditions) memset(r->conditions, 0, TSX_STREAM_CONDITIONS * sizeof *r->conditions);
  if (!r->names || !r->ranges || !r->dimensions || !r->order || !r->fields || !r->predicates || !r->conditions)
    return tsx_out_of_memory(error);
  tsx_slice_ranges(&r->slice, schema, r->ranges, r->dimensions);
  r->request.dimensions = r->dimensions;
  r->request.order = r->order;
  r->request.predicates = r->predicates;
  r->options.request = &r->request;
  return tsx_options_read(r->db, json, &stream_list_of_options, stream_take_option, r, error);
}

void tsx_stream_request_release(tsx_stream_request *r) {
  for (uint32_t i = 0; r->conditions && i < TSX_STREAM_CONDITIONS; i++) {
    tsx_stream_condition *c = &r->conditions[i];
    for (uint64_t k = 0; k < c->count; k++) sqlite3_free(c->values[k]);
    sqlite3_free(c->values);
    sqlite3_free(c->ranges);
  }
  sqlite3_free(r->conditions);
  sqlite3_free(r->predicates);
  sqlite3_free(r->fields);
  sqlite3_free(r->order);
  sqlite3_free(r->dimensions);
  sqlite3_free(r->ranges);
  if (r->names) tsx_names_free(r->names, r->schema);
  tsx_slice_release(&r->slice);
  sqlite3_value_free(r->key);
  sqlite3_value_free(r->since);
  sqlite3_value_free(r->as_of);
  sqlite3_value_free(r->seen);
  *r = (tsx_stream_request){0};
}
