/* type.c: the Arrow type of each field, and Arrow schemas.
 *
 * The structures of a schema are given away: each is released by its own function, on any thread, even after everything
 * else has been closed. Their memory is therefore the process's.
 *
 * Sections: types; requested types; schemas.
 */
#include "arrow/arrow.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- Types ------------------------------------------------------------------------------------------------------- */

static const char *arrow_number_format(tsr_datatype datatype) {
  switch (datatype) {
  case TSR_INT8: return "c";
  case TSR_UINT8: return "C";
  case TSR_INT16: return "s";
  case TSR_UINT16: return "S";
  case TSR_INT32: return "i";
  case TSR_UINT32: return "I";
  case TSR_UINT64: return "L";
  case TSR_FLOAT32: return "f";
  case TSR_FLOAT64: return "g";
  case TSR_BOOL: return "b";
  default: return "l";
  }
}

static void arrow_put(tsr_arrow_type *type, const char *format, tsr_arrow_form form, uint8_t width, int64_t factor) {
  snprintf(type->format, sizeof type->format, "%s", format);
  type->form = form;
  type->width = width;
  type->factor = factor;
}

/* Dates and instants. Arrow has no unit finer than a nanosecond: those are int64. */
static void arrow_datetime(tsr_arrow_type *type) {
  switch (type->datatype) {
  case TSR_DATETIME_YEAR:
  case TSR_DATETIME_MONTH:
  case TSR_DATETIME_WEEK:
  case TSR_DATETIME_DAY: arrow_put(type, "tdD", TSR_ARROW_DAYS, 4, 1); break;
  case TSR_DATETIME_HR: arrow_put(type, "tss:", TSR_ARROW_SCALED, 8, 3600); break;
  case TSR_DATETIME_MIN: arrow_put(type, "tss:", TSR_ARROW_SCALED, 8, 60); break;
  case TSR_DATETIME_SEC: arrow_put(type, "tss:", TSR_ARROW_COPY, 8, 1); break;
  case TSR_DATETIME_MS: arrow_put(type, "tsm:", TSR_ARROW_COPY, 8, 1); break;
  case TSR_DATETIME_US: arrow_put(type, "tsu:", TSR_ARROW_COPY, 8, 1); break;
  case TSR_DATETIME_NS: arrow_put(type, "tsn:", TSR_ARROW_COPY, 8, 1); break;
  default: arrow_put(type, "l", TSR_ARROW_COPY, 8, 1);
  }
}

static void arrow_time(tsr_arrow_type *type) {
  switch (type->datatype) {
  case TSR_TIME_HR: arrow_put(type, "tts", TSR_ARROW_CLOCK32, 4, 3600); break;
  case TSR_TIME_MIN: arrow_put(type, "tts", TSR_ARROW_CLOCK32, 4, 60); break;
  case TSR_TIME_SEC: arrow_put(type, "tts", TSR_ARROW_CLOCK32, 4, 1); break;
  case TSR_TIME_MS: arrow_put(type, "ttm", TSR_ARROW_CLOCK32, 4, 1); break;
  case TSR_TIME_US: arrow_put(type, "ttu", TSR_ARROW_CLOCK64, 8, 1); break;
  case TSR_TIME_NS: arrow_put(type, "ttn", TSR_ARROW_CLOCK64, 8, 1); break;
  default: arrow_put(type, "l", TSR_ARROW_COPY, 8, 1);
  }
  static const int64_t days[] = {24, 1440, 86400, 86400000, INT64_C(86400000000), INT64_C(86400000000000)};
  if (type->form != TSR_ARROW_COPY) type->day = days[type->datatype - TSR_TIME_HR];
}

static void arrow_duration(tsr_arrow_type *type) {
  switch (type->datatype) {
  case TSR_TIME_HR: arrow_put(type, "tDs", TSR_ARROW_SCALED, 8, 3600); break;
  case TSR_TIME_MIN: arrow_put(type, "tDs", TSR_ARROW_SCALED, 8, 60); break;
  case TSR_TIME_SEC: arrow_put(type, "tDs", TSR_ARROW_COPY, 8, 1); break;
  case TSR_TIME_MS: arrow_put(type, "tDm", TSR_ARROW_COPY, 8, 1); break;
  case TSR_TIME_US: arrow_put(type, "tDu", TSR_ARROW_COPY, 8, 1); break;
  case TSR_TIME_NS: arrow_put(type, "tDn", TSR_ARROW_COPY, 8, 1); break;
  default: arrow_put(type, "l", TSR_ARROW_COPY, 8, 1);
  }
}

static void arrow_string(tsr_arrow_type *type, const tsr_arrow_options *options) {
  const bool text = tsr_datatype_kind(type->datatype) == TSR_KIND_TEXT;
  const bool wide = tsr_datatype_size(type->datatype) > 1;
  if (!text || options->strings == TSR_ARROW_STRINGS_BINARY) {
    arrow_put(type, "Z", TSR_ARROW_BYTES, 0, 1);
  } else {
    type->views = options->strings == TSR_ARROW_STRINGS_VIEW;
    type->narrow = type->views || options->strings == TSR_ARROW_STRINGS_SMALL;
    arrow_put(type, type->views ? "vu" : type->narrow ? "u" : "U", wide ? TSR_ARROW_WIDE_TEXT : TSR_ARROW_TEXT, 0, 1);
  }
  if (type->datatype == TSR_GEOM_WKB) type->extension = "geoarrow.wkb";
  if (type->datatype == TSR_GEOM_WKT && text) type->extension = "geoarrow.wkt";
}

/* Chooses the type of cells of type->datatype and type->values_per_cell; of durations if the field has such. */
static void arrow_type_of_cells(tsr_arrow_type *type, bool duration, const tsr_arrow_options *options) {
  const tsr_kind kind = tsr_datatype_kind(type->datatype);
  if (kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES) {
    arrow_string(type, options);
    return;
  }
  if (type->values_per_cell != 1)
    type->list = type->values_per_cell == TSR_VARIABLE ? TSR_ARROW_LARGE_LIST : TSR_ARROW_FIXED_LIST;
  arrow_put(type, arrow_number_format(type->datatype), kind == TSR_KIND_BOOLEAN ? TSR_ARROW_BITS : TSR_ARROW_COPY,
            kind == TSR_KIND_BOOLEAN ? 0 : (uint8_t)tsr_datatype_size(type->datatype), 1);
  const bool integers = options->datetimes == TSR_ARROW_DATETIMES_INTEGER || type->list;
  const bool durations = duration || options->datetimes == TSR_ARROW_DATETIMES_DURATION;
  if (kind == TSR_KIND_DATETIME && !integers) arrow_datetime(type);
  if (kind == TSR_KIND_TIME && !integers) durations ? arrow_duration(type) : arrow_time(type);
  if (!type->list) return;
  memcpy(type->item, type->format, sizeof type->item);
  if (type->list == TSR_ARROW_LARGE_LIST) memcpy(type->format, "+L", 3);
  else snprintf(type->format, sizeof type->format, "+w:%u", (unsigned)type->values_per_cell);
}

void tsr__arrow_type_labels(const tsr_enumeration *labels, const tsr_arrow_options *options, tsr_arrow_type *type) {
  *type = (tsr_arrow_type){.name = "", .datatype = labels->datatype, .values_per_cell = labels->values_per_label};
  arrow_type_of_cells(type, false, options);
}

void tsr__arrow_type_choose(const tsr_field *field, const tsr_enumeration *labels, bool dense,
                            const tsr_arrow_options *options, tsr_arrow_type *type) {
  *type = (tsr_arrow_type){.datatype = field->datatype, .values_per_cell = field->values_per_cell};
  if (labels && options->enums == TSR_ARROW_ENUMS_LABEL) {
    tsr__arrow_type_labels(labels, options, type);
    type->decoded = true;
  } else {
    arrow_type_of_cells(type, field->duration, options);
  }
  if (options->enums != TSR_ARROW_ENUMS_CODE) type->labels = labels;
  type->name = field->name;
  type->integer_datetimes = options->datetimes == TSR_ARROW_DATETIMES_INTEGER;
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  const bool datetime = (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) && !type->integer_datetimes;
  type->nullable = datetime || type->labels || (!field->is_dimension && (field->nullable || dense));
}

void tsr__arrow_type_nulls(tsr_arrow_type *type) {
  arrow_put(type, "n", TSR_ARROW_NULLS, 0, 1);
  type->nullable = true;
}

/* ---- Requested types -------------------------------------------------------------------------------------------- */

/* Returns true if `to` is a wider number type that can represent all values of `from`. */
static bool arrow_widens(char from, char to) {
  static const char signs[] = "csil", no_signs[] = "CSIL";
  const char *s = from ? strchr(signs, from) : NULL, *u = from ? strchr(no_signs, from) : NULL;
  const char *ts = to ? strchr(signs, to) : NULL, *tu = to ? strchr(no_signs, to) : NULL;
  const ptrdiff_t size = s ? s - signs : u ? u - no_signs : -1;
  if (to == 'g') return from == 'f' || (size >= 0 && size < 3);
  if (to == 'f') return size >= 0 && size < 2;
  if (s) return ts && ts > s;
  return u && ((tu && tu > u) || (ts && ts - signs > size));
}

static bool arrow_request_number(tsr_arrow_type *type, const char *format) {
  if (type->form != TSR_ARROW_COPY || type->list || type->format[1] || !format[0] || format[1]) return false;
  if (!arrow_widens(type->format[0], format[0])) return false;
  const char *const sizes = "cCsSfiIglL";
  const uint8_t widths[] = {1, 1, 2, 2, 4, 4, 4, 8, 8, 8};
  arrow_put(type, format, TSR_ARROW_WIDEN, widths[strchr(sizes, format[0]) - sizes], 1);
  return true;
}

static bool arrow_request_string(tsr_arrow_type *type, const char *format) {
  const char *const pairs = type->form == TSR_ARROW_BYTES ? "zZ" : "uU";
  const bool views = format[0] == 'v' && format[1] == pairs[0] && !format[2];
  if (type->list || type->form < TSR_ARROW_BYTES || !format[0]) return false;
  if (!views && (format[1] || !strchr(pairs, format[0]))) return false;
  type->views = views;
  type->narrow = views || format[0] == pairs[0];
  memcpy(type->format, format, strlen(format) + 1);
  return true;
}

/* Instants in a finer unit. Both must have no time zone. */
static bool arrow_request_instant(tsr_arrow_type *type, const char *format) {
  static const char units[] = "smun";
  if (strncmp(type->format, "ts", 2) != 0 || strncmp(format, "ts", 2) != 0 || strlen(format) != 4) return false;
  const char *from = strchr(units, type->format[2]), *to = strchr(units, format[2]);
  if (!from || !to || format[3] != ':' || to <= from) return false;
  int64_t factor = type->factor;
  for (; from < to; from++) factor *= 1000;
  arrow_put(type, format, TSR_ARROW_SCALED, 8, factor);
  return true;
}

/* A time of day as a duration in the same unit. */
static bool arrow_request_duration(tsr_arrow_type *type, const char *format) {
  tsr_arrow_type made = *type;
  if (type->form != TSR_ARROW_CLOCK32 && type->form != TSR_ARROW_CLOCK64) return false;
  arrow_duration(&made);
  if (strcmp(made.format, format) != 0) return false;
  *type = made;
  return true;
}

static bool arrow_request_type(tsr_arrow_type *type, const tsr_arrow_options *options,
                               const struct ArrowSchema *requested) {
  if (!requested || !requested->release || !requested->format || !requested->name) return false;
  if (strcmp(requested->name, type->name) != 0) return false;
  if (type->labels && !type->decoded && !requested->dictionary) {
    const tsr_arrow_type coded = *type;
    tsr__arrow_type_labels(coded.labels, options, type);
    type->name = coded.name;
    type->labels = coded.labels;
    type->decoded = type->nullable = true;
  }
  const bool coded = type->labels && !type->decoded;
  if (coded != (requested->dictionary != NULL)) return false;
  if (coded) {
    tsr_arrow_type label;
    tsr__arrow_type_labels(type->labels, options, &label);
    if (label.list || !requested->dictionary->format || strcmp(label.format, requested->dictionary->format) != 0)
      return false;
  }
  if (type->list) /* a list must be requested unchanged, with the same values */
    return !strcmp(type->format, requested->format) && requested->n_children == 1 && requested->children &&
           requested->children[0] && requested->children[0]->format &&
           !strcmp(type->item, requested->children[0]->format);
  return !strcmp(type->format, requested->format) || arrow_request_number(type, requested->format) ||
         arrow_request_duration(type, requested->format) ||
         (!coded && (arrow_request_string(type, requested->format) || arrow_request_instant(type, requested->format)));
}

bool tsr__arrow_types_request(tsr_arrow_type *types, uint32_t count, const tsr_arrow_options *options,
                              const struct ArrowSchema *requested) {
  if (!requested || !requested->release || !requested->format || strcmp(requested->format, "+s") != 0) return false;
  if (requested->n_children != count || !requested->children) return false;
  for (uint32_t i = 0; i < count; i++) {
    tsr_arrow_type type = types[i];
    if (!arrow_request_type(&type, options, requested->children[i])) return false;
  }
  for (uint32_t i = 0; i < count; i++) (void)arrow_request_type(&types[i], options, requested->children[i]);
  return true;
}

/* ---- Schemas ----------------------------------------------------------------------------------------------------- */

static void arrow_schema_release(struct ArrowSchema *schema) {
  for (int64_t i = 0; i < schema->n_children; i++)
    if (schema->children[i] && schema->children[i]->release) schema->children[i]->release(schema->children[i]);
  if (schema->dictionary && schema->dictionary->release) schema->dictionary->release(schema->dictionary);
  for (int64_t i = 0; i < schema->n_children; i++) tsr__free(schema->children[i]);
  tsr__free(schema->children);
  tsr__free(schema->dictionary);
  tsr__free(schema->private_data);
  schema->release = NULL;
}

/* Begins a schema with room for `children`. Its strings share one block of memory. */
static int arrow_schema_begin(const char *format, const char *name, uint32_t children, struct ArrowSchema *schema,
                              tsr_error *error) {
  tsr_memory *memory = tsr__memory_process();
  const uint64_t format_size = strlen(format) + 1, name_size = strlen(name) + 1;
  char *texts;
  *schema = (struct ArrowSchema){.release = arrow_schema_release};
  TSR_TRY(TSR_ALLOC_BYTES(memory, format_size + name_size, &texts, error));
  schema->private_data = texts;
  memcpy(texts, format, format_size);
  memcpy(texts + format_size, name, name_size);
  schema->format = texts;
  schema->name = texts + format_size;
  if (children == 0) return TSR_OK;
  TSR_TRY(TSR_ALLOC_ARRAY(memory, children, &schema->children, error));
  schema->n_children = children;
  for (uint32_t i = 0; i < children; i++) TSR_TRY(TSR_ALLOC(memory, &schema->children[i], error));
  return TSR_OK;
}

static const char *arrow_extension(const char *name) { /* metadata with one pair: "ARROW:extension:name" and the name */
  static const char wkb[] = "\1\0\0\0\24\0\0\0ARROW:extension:name\14\0\0\0geoarrow.wkb";
  static const char wkt[] = "\1\0\0\0\24\0\0\0ARROW:extension:name\14\0\0\0geoarrow.wkt";
  return !name ? NULL : strcmp(name, "geoarrow.wkb") == 0 ? wkb : wkt;
}

static int arrow_schema_column(const tsr_arrow_type *type, const tsr_arrow_options *options, struct ArrowSchema *schema,
                               tsr_error *error) {
  TSR_TRY(arrow_schema_begin(type->format, type->name, type->list ? 1 : 0, schema, error));
  schema->flags = type->nullable ? ARROW_FLAG_NULLABLE : 0;
  schema->metadata = arrow_extension(type->extension);
  if (type->list) TSR_TRY(arrow_schema_begin(type->item, "item", 0, schema->children[0], error));
  if (!type->labels || type->decoded) return TSR_OK;
  tsr_arrow_type label;
  tsr__arrow_type_labels(type->labels, options, &label);
  if (type->labels->ordered) schema->flags |= ARROW_FLAG_DICTIONARY_ORDERED;
  TSR_TRY(TSR_ALLOC(tsr__memory_process(), &schema->dictionary, error));
  return arrow_schema_column(&label, options, schema->dictionary, error);
}

int tsr__arrow_schema_make(const tsr_arrow_type *types, uint32_t count, const tsr_arrow_options *options,
                           struct ArrowSchema *out, tsr_error *error) {
  struct ArrowSchema schema;
  int rc = arrow_schema_begin("+s", "", count, &schema, error);
  for (uint32_t i = 0; i < count && rc >= 0; i++)
    rc = arrow_schema_column(&types[i], options, schema.children[i], error);
  if (rc >= 0) *out = schema;
  else arrow_schema_release(&schema);
  return rc;
}
