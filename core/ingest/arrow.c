/* arrow.c: Arrow in both directions: exports the rows of an ingest as Arrow streams, whose batches consist of one or
 * more parts (first half), and takes batches of Arrow streams into an ingest (second half). */
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/options.h"
#include "model/datatype.h"
#include "environment/environment.h"
#include "arrow/arrow.h"
#include "ingest/ingest.h"

typedef struct ingest_rows {
  tsr_ingest *ingest; /* borrowed */
  uint64_t batch_rows, part; /* part: the next one */
  tsr_ingest_cells *cells; /* by column */
  tsr_arrow_type *types; /* until the stream takes them */
} ingest_rows;

static int ingest_stream_append(ingest_rows *s, tsr_arrow_column *columns, tsr_error *error) {
  const tsr_arrow_rows rows = {.count = tsr__ingest_part_rows(s->ingest, s->part)};
  for (uint32_t i = 0; i < s->ingest->column_count; i++) {
    tsr_column cells;
    TSR_TRY(tsr__ingest_cells(s->ingest, i, s->part, &s->ingest->shown.fields[i], &s->cells[i], &cells, error));
    TSR_TRY(tsr__arrow_column_append(&columns[i], &cells, &rows, error));
  }
  return TSR_OK;
}

static int ingest_stream_collect(void *argument, tsr_arrow_column *columns, uint64_t *rows, tsr_error *error) {
  ingest_rows *s = argument;
  tsr_ingest *g = s->ingest;
  while (s->part < g->counts.parts && !tsr__arrow_is_full(columns, g->column_count, *rows, s->batch_rows)) {
    const uint64_t more = tsr__ingest_part_rows(g, s->part);
    for (uint32_t i = 0; i<g->column_count && * rows> 0; i++)
      TSR_TRY(tsr__arrow_column_reserve(&columns[i], TSR_MAX(s->batch_rows, *rows + more), error));
    TSR_TRY(ingest_stream_append(s, columns, error));
    *rows += more;
    s->part++;
  }
  return s->part < g->counts.parts;
}

static void ingest_stream_close(void *argument) {
  ingest_rows *s = argument;
  for (uint32_t i = 0; s->cells && i < s->ingest->column_count; i++) tsr__ingest_cells_end(&s->cells[i]);
  tsr__free(s->cells);
  tsr__free(s->types);
  tsr__free(s);
}

/* Describes the columns, once for all streams of the ingest. */
static int ingest_stream_fields(tsr_ingest *g, tsr_error *error) {
  tsr_field *fields;
  TSR_TRY(tsr__ingest_decide(g, false, error));
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, g->column_count, &fields, error));
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, g->column_count, &g->shown.enumerations, error));
  for (uint32_t i = 0; i < g->column_count; i++) {
    TSR_TRY(tsr__ingest_field(g, i, &fields[i], &g->shown.enumerations[i], error));
    fields[i].cell_size = tsr_datatype_size(fields[i].datatype);
    if (fields[i].values_per_cell != TSR_VARIABLE) fields[i].cell_size *= fields[i].values_per_cell;
  }
  g->shown.fields = fields;
  return TSR_OK;
}

static int ingest_stream_begin(ingest_rows *s, const tsr_arrow_options *options, tsr_error *error) {
  tsr_ingest *g = s->ingest;
  tsr_memory *memory = &g->environment->memory;
  s->batch_rows = options->batch_rows ? options->batch_rows : TSR_ARROW_BATCH_ROWS;
  if (!g->shown.fields) TSR_TRY(ingest_stream_fields(g, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, g->column_count, &s->cells, error));
  for (uint32_t i = 0; i < g->column_count; i++) tsr__ingest_cells_begin(&s->cells[i], memory);
  TSR_TRY(TSR_ALLOC_ARRAY(memory, g->column_count, &s->types, error));
  for (uint32_t i = 0; i < g->column_count; i++) {
    const tsr_ingest_kept *c = &g->columns[i];
    const tsr_enumeration *labels = c->given->labels ? &g->shown.enumerations[i] : NULL;
    tsr__arrow_type_choose(&g->shown.fields[i], labels, false, options, &s->types[i]);
    if (c->class == TSR_INGEST_NONE && !c->given->typed && !c->given->has_empty) tsr__arrow_type_nulls(&s->types[i]);
  }
  return TSR_OK;
}

int tsr_ingest_stream(tsr_ingest *g, const tsr_arrow_options *options, struct ArrowArrayStream *out, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_arrow_options own;
  ingest_rows *s;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_arrow_options, fill, options, &own, error));
  options = &own;
  TSR_TRY(TSR_ALLOC(tsr__memory_process(), &s, error));
  s->ingest = g;
  const tsr_arrow_source source = {.argument = s, .collect = ingest_stream_collect, .close = ingest_stream_close};
  int rc = ingest_stream_begin(s, options, error);
  if (rc >= 0) rc = tsr__arrow_stream_make(&source, s->types, g->column_count, options, out, error);
  if (rc < 0) ingest_stream_close(s);
  else s->types = NULL; /* they are the stream's */
  return rc;
}

/* ---- Taking in batches ------------------------------------------------------------------------------------------- */

/* The structures are not trusted where they can be checked: lengths, numbers of buffers and children, null pointers,
 * the order of offsets and the indices of dictionaries are checked before a value is read. The structures do not
 * contain the sizes of buffers, so a producer that lies about these cannot be caught. */

/* ---- Types ------------------------------------------------------------------------------------------------------- */

typedef enum ingest_layout { /* how Arrow keeps the values of a column */
                             INGEST_BITS,
                             INGEST_SIGNED,
                             INGEST_UNSIGNED,
                             INGEST_HALF,
                             INGEST_FLOATS,
                             INGEST_NULLS, /* without a buffer */
                             INGEST_OFFSETS32,
                             INGEST_OFFSETS64,
                             INGEST_VIEWS
} ingest_layout;

typedef struct ingest_arrow_type {
  const char *format; /* with '*' at the end: a prefix */
  ingest_layout layout;
  uint32_t size; /* of a value, or 0 */
  tsr_datatype datatype;
} ingest_arrow_type;

static const ingest_arrow_type ingest_arrow_types[] = {{"n", INGEST_NULLS, 0, TSR_BLOB},
                                                       {"b", INGEST_BITS, 0, TSR_BOOL},
                                                       {"c", INGEST_SIGNED, 1, TSR_INT8},
                                                       {"C", INGEST_UNSIGNED, 1, TSR_UINT8},
                                                       {"s", INGEST_SIGNED, 2, TSR_INT16},
                                                       {"S", INGEST_UNSIGNED, 2, TSR_UINT16},
                                                       {"i", INGEST_SIGNED, 4, TSR_INT32},
                                                       {"I", INGEST_UNSIGNED, 4, TSR_UINT32},
                                                       {"l", INGEST_SIGNED, 8, TSR_INT64},
                                                       {"L", INGEST_UNSIGNED, 8, TSR_UINT64},
                                                       {"e", INGEST_HALF, 2, TSR_FLOAT32},
                                                       {"f", INGEST_FLOATS, 4, TSR_FLOAT32},
                                                       {"g", INGEST_FLOATS, 8, TSR_FLOAT64},
                                                       {"u", INGEST_OFFSETS32, 0, TSR_UTF8},
                                                       {"U", INGEST_OFFSETS64, 0, TSR_UTF8},
                                                       {"vu", INGEST_VIEWS, 0, TSR_UTF8},
                                                       {"z", INGEST_OFFSETS32, 0, TSR_BLOB},
                                                       {"Z", INGEST_OFFSETS64, 0, TSR_BLOB},
                                                       {"vz", INGEST_VIEWS, 0, TSR_BLOB},
                                                       {"tdD", INGEST_SIGNED, 4, TSR_DATETIME_DAY},
                                                       {"tdm", INGEST_SIGNED, 8, TSR_DATETIME_MS},
                                                       {"tss:*", INGEST_SIGNED, 8, TSR_DATETIME_SEC},
                                                       {"tsm:*", INGEST_SIGNED, 8, TSR_DATETIME_MS},
                                                       {"tsu:*", INGEST_SIGNED, 8, TSR_DATETIME_US},
                                                       {"tsn:*", INGEST_SIGNED, 8, TSR_DATETIME_NS},
                                                       {"tts", INGEST_SIGNED, 4, TSR_TIME_SEC},
                                                       {"ttm", INGEST_SIGNED, 4, TSR_TIME_MS},
                                                       {"ttu", INGEST_SIGNED, 8, TSR_TIME_US},
                                                       {"ttn", INGEST_SIGNED, 8, TSR_TIME_NS},
                                                       {"tDs", INGEST_SIGNED, 8, TSR_TIME_SEC},
                                                       {"tDm", INGEST_SIGNED, 8, TSR_TIME_MS},
                                                       {"tDu", INGEST_SIGNED, 8, TSR_TIME_US},
                                                       {"tDn", INGEST_SIGNED, 8, TSR_TIME_NS}};

static const ingest_arrow_type *ingest_arrow_find(const char *format) {
  for (size_t i = 0; format && i < sizeof ingest_arrow_types / sizeof *ingest_arrow_types; i++) {
    const char *known = ingest_arrow_types[i].format;
    const size_t size = strlen(known);
    if (known[size - 1] == '*' ? !strncmp(format, known, size - 1) : !strcmp(format, known))
      return &ingest_arrow_types[i];
  }
  return NULL;
}

static bool ingest_arrow_is_bytes(const ingest_arrow_type *type) { return type->layout >= INGEST_OFFSETS32; }

/* Returns true if the items of a list may have this type: those with the same layout as cells, and BOOL. */
static bool ingest_arrow_is_item(const ingest_arrow_type *type) {
  return type && type->layout != INGEST_HALF &&
         (type->layout == INGEST_BITS || type->size == tsr_datatype_size(type->datatype));
}

/* Returns the number of values in each list of a column: TSR_VARIABLE if it varies, 0 if the column does not consist of
 * lists of numbers. Lists of one value count as variable, too: in an array, a cell with one value is not a list. */
static uint32_t ingest_arrow_list(const struct ArrowSchema *child) {
  const bool fixed = child->format && strncmp(child->format, "+w:", 3) == 0;
  if (!child->format || (strcmp(child->format, "+l") != 0 && strcmp(child->format, "+L") != 0 && !fixed)) return 0;
  if (child->n_children != 1 || !child->children || !child->children[0] || !child->children[0]->release) return 0;
  if (child->children[0]->dictionary || !ingest_arrow_is_item(ingest_arrow_find(child->children[0]->format))) return 0;
  if (!fixed) return TSR_VARIABLE;
  uint64_t count = 0;
  const char *digit = child->format + 3;
  for (; *digit >= '0' && *digit <= '9' && count < UINT32_MAX; digit++) count = count * 10 + (uint64_t)(*digit - '0');
  if (*digit || count == 0 || count > INT32_MAX) return 0;
  return count == 1 ? TSR_VARIABLE : (uint32_t)count;
}

/* Returns the name of an unsupported type; "" if it has none. */
static const char *ingest_arrow_name(const char *format) {
  static const char *const names[][2] = {
      {"d:", "decimal "}, {"w:", "fixed_size_binary "}, {"ti", "interval "}, {"+s", "struct "},
      {"+m", "map "},     {"+r", "run_end_encoded "},   {"+u", "union "},    {"+v", "list_view "},
      {"+", "list "}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncmp(format, names[i][0], strlen(names[i][0])) == 0) return names[i][1];
  return "";
}

static int ingest_arrow_refuse(const struct ArrowSchema *child, tsr_error *error) {
  const char *format = child->format ? child->format : "";
  const struct ArrowSchema *item =
      *format == '+' && child->n_children == 1 && child->children ? *child->children : NULL;
  const char *of = item && item->release && item->format ? item->format : "";
  return tsr__fail(error, TSR_UNSUPPORTED, "column '%s': Arrow type %s'%.40s'%s%.40s%s%s: cast it first", child->name,
                   ingest_arrow_name(format), format, *of ? " of '" : "", of, *of ? "'" : "",
                   child->dictionary ? " with a dictionary" : "");
}

static int ingest_arrow_column(const struct ArrowSchema *child, tsr_ingest_column *column, tsr_error *error) {
  if (!child || !child->release || !child->name) return tsr__fail(error, TSR_MISMATCH, "a column without a name");
  const uint32_t list = ingest_arrow_list(child);
  const ingest_arrow_type *type = ingest_arrow_find(list ? child->children[0]->format : child->format);
  *column = (tsr_ingest_column){.name = child->name};
  if (type && child->dictionary) {
    column->labels = true;
    column->ordered = child->flags & ARROW_FLAG_DICTIONARY_ORDERED;
    const bool is_index = !list && (type->layout == INGEST_SIGNED || type->layout == INGEST_UNSIGNED);
    type = is_index ? ingest_arrow_find(child->dictionary->format) : NULL;
    if (type && (ingest_arrow_is_bytes(type) ? type->datatype != TSR_UTF8 : !ingest_arrow_is_item(type))) type = NULL;
    if (type && type->datatype == TSR_UTF8) return TSR_OK;
  }
  if (!type) return ingest_arrow_refuse(child, error);
  if (type->layout == INGEST_NULLS) return TSR_OK;
  column->typed = true;
  column->datatype = type->datatype;
  column->duration = !list && strncmp((child->dictionary ? child->dictionary : child)->format, "tD", 2) == 0;
  column->labels &= !column->duration; /* an enumeration of durations could not be told from one of times of day */
  column->ordered &= column->labels;
  column->values_per_cell = list ? list : ingest_arrow_is_bytes(type) ? TSR_VARIABLE : 1;
  if (strncmp(child->format, "ts", 2) == 0 && child->format[4]) column->zone = child->format + 4;
  return TSR_OK;
}

int tsr_arrow_columns(const struct ArrowSchema *schema, tsr_ingest_column *columns, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (!schema->release || !schema->format || strcmp(schema->format, "+s") != 0)
    return tsr__fail(error, TSR_MISMATCH, "the stream has no columns: its type is '%.40s'",
                     schema->release && schema->format ? schema->format : "");
  if (schema->n_children <= 0 || !schema->children) return tsr__fail(error, TSR_MISMATCH, "the stream has no columns");
  for (int64_t i = 0; i < schema->n_children; i++)
    TSR_TRY(ingest_arrow_column(schema->children[i], &columns[i], error));
  return TSR_OK;
}

/* ---- Arrays ------------------------------------------------------------------------------------------------------ */

typedef struct ingest_arrow { /* a column of a batch, or its dictionary */
  const struct ArrowArray *array;
  const ingest_arrow_type *type;
  uint64_t offset, length; /* the part of the buffers that belongs to the array, in values */
  const uint8_t *validity; /* NULL: no nulls */
  const uint8_t *values; /* numbers, bits, or views */
  const uint8_t *ends, *bytes; /* offsets; what they point into */
  struct ingest_arrow *labels; /* of a dictionary, or NULL */
  struct ingest_arrow *items; /* of lists, or NULL: their values; the array itself has validity and offsets */
  bool is_list;
  uint64_t each; /* values in each list; 0: determined by the offsets */
} ingest_arrow;

static int ingest_arrow_broken(const char *name, const char *why, tsr_error *error) {
  return tsr__fail(error, TSR_CORRUPT, "column '%s': a broken Arrow array: %s", name, why);
}

static uint64_t ingest_arrow_offset(const ingest_arrow *a, uint64_t i) {
  int64_t wide = 0;
  int32_t narrow = 0;
  if (a->type->layout == INGEST_OFFSETS64) memcpy(&wide, a->ends + i * 8, 8);
  else {
    memcpy(&narrow, a->ends + i * 4, 4);
    wide = narrow;
  }
  return (uint64_t)wide; /* a negative one is too large */
}

static int check_offsets(const ingest_arrow *a, const char *name, tsr_error *error) {
  uint64_t before = ingest_arrow_offset(a, a->offset);
  bool ordered = before <= INT64_MAX;
  for (uint64_t i = 1; i <= a->length; i++) {
    const uint64_t next = ingest_arrow_offset(a, a->offset + i);
    ordered &= next >= before && next <= INT64_MAX;
    before = next;
  }
  if (!ordered) return ingest_arrow_broken(name, "its offsets are not in order", error);
  if (before > 0 && !a->bytes && !a->is_list) return ingest_arrow_broken(name, "it has no bytes", error);
  return TSR_OK;
}

/* Sets the buffers of an array, whose values begin at `first`. */
static int ingest_arrow_buffers(ingest_arrow *a, const struct ArrowArray *array, uint64_t first, uint64_t length,
                                const char *name, tsr_error *error) {
  const bool strings = ingest_arrow_is_bytes(a->type) && !a->is_list;
  const bool nulls = a->type->layout == INGEST_NULLS;
  const int64_t needed = nulls ? 0 : a->each ? 1 : strings ? 3 : 2;
  a->array = array;
  if (!array || !array->release) return ingest_arrow_broken(name, "it is missing or released", error);
  if (array->offset < 0 || array->length < 0 || array->offset > INT64_MAX / 32 || array->length > INT64_MAX / 32)
    return ingest_arrow_broken(name, "its length", error);
  if ((uint64_t)array->length < first + length) return ingest_arrow_broken(name, "it is shorter than the batch", error);
  if (array->n_buffers < needed || (!array->buffers && !nulls))
    return ingest_arrow_broken(name, "its number of buffers", error);
  a->offset = (uint64_t)array->offset + first;
  a->length = length;
  if (nulls) return TSR_OK;
  a->validity = array->null_count == 0 ? NULL : array->buffers[0];
  if (array->null_count > 0 && !a->validity) return ingest_arrow_broken(name, "nulls without validity", error);
  if (length == 0 || a->each) return TSR_OK;
  if (!array->buffers[1]) return ingest_arrow_broken(name, "a buffer is missing", error);
  a->values = array->buffers[1];
  if (!ingest_arrow_is_bytes(a->type) || a->type->layout == INGEST_VIEWS) return TSR_OK;
  a->ends = array->buffers[1];
  if (strings) a->bytes = array->buffers[2];
  return check_offsets(a, name, error);
}

/* Opens a column of lists, and their values. */
static int open_list(ingest_arrow *a, const struct ArrowSchema *schema, const struct ArrowArray *array, uint64_t first,
                     uint64_t length, tsr_arena *arena, tsr_error *error) {
  static const ingest_arrow_type narrow = {"+l", INGEST_OFFSETS32, 0, TSR_BLOB},
                                 wide = {"+L", INGEST_OFFSETS64, 0, TSR_BLOB};
  a->is_list = true;
  a->type = strcmp(schema->format, "+l") == 0 ? &narrow : &wide;
  a->each = schema->format[1] == 'w' ? strtoul(schema->format + 3, NULL, 10) : 0;
  TSR_TRY(ingest_arrow_buffers(a, array, first, length, schema->name, error));
  if (array->n_children != 1 || !array->children) return ingest_arrow_broken(schema->name, "its lists", error);
  TSR_TRY(TSR_ARENA_ARRAY(arena, 1, &a->items, error));
  a->items->type = ingest_arrow_find(schema->children[0]->format);
  const uint64_t end = length == 0 ? 0
                       : a->each   ? tsr__mul_sat(a->offset + length, a->each)
                                   : ingest_arrow_offset(a, a->offset + length);
  return ingest_arrow_buffers(a->items, array->children[0], 0, end, schema->name, error);
}

static int ingest_arrow_open(ingest_arrow *a, const struct ArrowSchema *schema, const struct ArrowArray *array,
                             uint64_t first, uint64_t length, tsr_arena *arena, tsr_error *error) {
  if (schema->format[0] == '+') return open_list(a, schema, array, first, length, arena, error);
  a->type = ingest_arrow_find(schema->format);
  TSR_TRY(ingest_arrow_buffers(a, array, first, length, schema->name, error));
  if (!schema->dictionary) return TSR_OK;
  if (!array->dictionary) return ingest_arrow_broken(schema->name, "its dictionary is missing", error);
  if (array->dictionary->length < 0) return ingest_arrow_broken(schema->name, "the length of its dictionary", error);
  TSR_TRY(TSR_ARENA_ARRAY(arena, 1, &a->labels, error));
  a->labels->type = ingest_arrow_find(schema->dictionary->format);
  return ingest_arrow_buffers(a->labels, array->dictionary, 0, (uint64_t)array->dictionary->length, schema->name,
                              error);
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static bool ingest_arrow_is_null(const ingest_arrow *a, uint64_t i) {
  if (a->type->layout == INGEST_NULLS) return true;
  i += a->offset;
  return a->validity && !(a->validity[i / 8] >> (i % 8) & 1);
}

/* Converts an IEEE 754 half-precision number. */
static float ingest_half(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;
  float value;
  if (exponent == 0) {
    value = (float)mantissa / 16777216.0f;
    return sign ? -value : value;
  }
  const uint32_t bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | mantissa << 13;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint64_t ingest_arrow_word(const ingest_arrow *a, uint64_t i) {
  const uint8_t *at = a->values + (i + a->offset) * a->type->size;
  uint64_t word = 0;
  memcpy(&word, at, a->type->size);
  if (a->type->layout == INGEST_SIGNED && a->type->size < 8) {
    const unsigned shift = 64 - 8 * a->type->size;
    word = (uint64_t)((int64_t)(word << shift) >> shift);
  }
  return word;
}

/* Finds the bytes of a string. */
static int ingest_arrow_string(const ingest_arrow *a, uint64_t i, const char *name, const uint8_t **bytes,
                               uint64_t *size, tsr_error *error) {
  if (a->type->layout != INGEST_VIEWS) {
    const uint64_t from = ingest_arrow_offset(a, i + a->offset);
    *size = ingest_arrow_offset(a, i + a->offset + 1) - from;
    *bytes = *size ? a->bytes + from : (const uint8_t *)""; /* strings without bytes may have no buffer */
    return TSR_OK;
  }
  int32_t view[4];
  const uint8_t *at = a->values + (i + a->offset) * sizeof view;
  memcpy(view, at, sizeof view);
  if (view[0] < 0) return ingest_arrow_broken(name, "the length of a string", error);
  *size = (uint64_t)view[0];
  *bytes = at + 4;
  if (*size <= 12) return TSR_OK;
  const int64_t count = a->array->n_buffers - 3; /* validity, views, the buffers, their sizes */
  const uint8_t *sizes = a->array->buffers[a->array->n_buffers - 1];
  int64_t room;
  if (view[2] < 0 || view[2] >= count || view[3] < 0 || !sizes)
    return ingest_arrow_broken(name, "a string outside of all buffers", error);
  memcpy(&room, sizes + (uint64_t)view[2] * 8, 8);
  if ((int64_t)view[3] + view[0] > room || !a->array->buffers[2 + view[2]])
    return ingest_arrow_broken(name, "a string past the end of its buffer", error);
  *bytes = (const uint8_t *)a->array->buffers[2 + view[2]] + view[3];
  return TSR_OK;
}

/* Sets a cell of several values. */
static int set_list(tsr_ingest *g, uint32_t column, const ingest_arrow *a, uint64_t i, tsr_error *error) {
  const tsr_ingest_kept *c = &g->columns[column];
  const ingest_arrow *items = a->items;
  uint64_t from = a->each * (i + a->offset), end = from + a->each;
  if (!a->each) {
    from = ingest_arrow_offset(a, i + a->offset);
    end = ingest_arrow_offset(a, i + a->offset + 1);
  }
  if (c->datatype != items->type->datatype || c->values_per_cell == 1)
    return tsr__fail(error, TSR_MISMATCH, "column '%s': lists of %s in a column of %s", c->given->name,
                     tsr_datatype_name(items->type->datatype), tsr_datatype_name(c->datatype));
  for (uint64_t k = from; k < end && items->validity; k++)
    if (ingest_arrow_is_null(items, k))
      return tsr__fail(error, TSR_MISMATCH, "column '%s': a null in a list", c->given->name);
  const uint64_t size = tsr_datatype_size(c->datatype);
  if (items->type->layout != INGEST_BITS)
    return tsr_ingest_set_bytes(g, column, false,
                                end > from ? items->values + (from + items->offset) * size : (const uint8_t *)"",
                                (end - from) * size, error);
  tsr_buffer bits = {.memory = &g->memory};
  int rc = tsr__buffer_reserve(&bits, end - from + 1, error);
  for (uint64_t k = from; k < end && rc >= 0; k++, bits.size++)
    bits.data[bits.size] = items->values[(k + items->offset) / 8] >> ((k + items->offset) % 8) & 1;
  if (rc >= 0) rc = tsr_ingest_set_bytes(g, column, false, bits.data, bits.size, error);
  tsr__buffer_release(&bits);
  return rc;
}

/* Converts an instant or a time to the unit of its column, if that is lossless. */
static int ingest_arrow_convert(const tsr_ingest_kept *c, tsr_datatype from, uint64_t *word, tsr_error *error) {
  char text[48];
  int64_t value;
  tsr_error ignored = {0};
  if (tsr_datatype_kind(from) == TSR_KIND_TIME) {
    value = (int64_t)*word;
    if (!tsr__time_convert(from, c->datatype, &value))
      return tsr__fail(error, TSR_RANGE, "column '%s': %lld of %s is no whole number of %s", c->given->name,
                       (long long)*word, tsr_datatype_name(from), tsr_datatype_name(c->datatype));
    *word = (uint64_t)value;
    return TSR_OK;
  }
  const int length = tsr_datetime_print(from, (int64_t)*word, text);
  const int rc = length == 0 ? TSR_RANGE : tsr_datetime_parse(c->datatype, text, (uint64_t)length, &value, &ignored);
  if (rc == TSR_MISMATCH)
    return tsr__fail(error, TSR_RANGE,
                     "column '%s': %s is finer than %s, which the column is: make the array with "
                     "\"types\":{\"%s\":\"%s\"}",
                     c->given->name, text, tsr_datatype_name(c->datatype), c->given->name, tsr_datatype_name(from));
  if (rc < 0)
    return tsr__fail(error, TSR_RANGE, "column '%s': %lld of %s is not a valid %s", c->given->name, (long long)*word,
                     tsr_datatype_name(from), tsr_datatype_name(c->datatype));
  *word = (uint64_t)value;
  return TSR_OK;
}

/* Fails if instants would become durations or times of day, or these instants. */
static int ingest_arrow_same_kind(const tsr_ingest_kept *c, tsr_datatype from, tsr_error *error) {
  const tsr_kind kind = tsr_datatype_kind(from), own = tsr_datatype_kind(c->datatype);
  const bool instants = kind == TSR_KIND_DATETIME && own == TSR_KIND_TIME;
  if (!instants && !(kind == TSR_KIND_TIME && own == TSR_KIND_DATETIME)) return TSR_OK;
  return tsr__fail(error, TSR_MISMATCH, "column '%s': %s, and the column has %s, %s", c->given->name,
                   instants ? "these are instants" : "these are durations or times of day",
                   instants ? "durations or times of day" : "instants", tsr_datatype_name(c->datatype));
}

/* Returns true if values with one unit of instants or times can be converted to a column with another unit. */
static bool ingest_arrow_converts(const tsr_ingest_kept *c, tsr_datatype from) {
  const tsr_kind kind = tsr_datatype_kind(from);
  return from != c->datatype && (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) &&
         tsr_datatype_kind(c->datatype) == kind;
}

static int ingest_arrow_set(tsr_ingest *g, uint32_t column, const ingest_arrow *a, uint64_t i, tsr_error *error) {
  const tsr_ingest_kept *c = &g->columns[column];
  const char *name = c->given->name;
  const uint8_t *bytes;
  uint64_t size, word;
  float narrow;
  double real;
  if (ingest_arrow_is_null(a, i)) return TSR_OK;
  if (a->is_list) return set_list(g, column, a, i, error);
  if (a->labels) {
    word = ingest_arrow_word(a, i);
    if (word >= a->labels->length) return ingest_arrow_broken(name, "an index past its dictionary", error);
    return ingest_arrow_set(g, column, a->labels, word, error);
  }
  switch (a->type->layout) {
  case INGEST_BITS:
    return tsr_ingest_set_integer(g, column, a->values[(i + a->offset) / 8] >> ((i + a->offset) % 8) & 1, error);
  case INGEST_SIGNED:
  case INGEST_UNSIGNED:
    word = ingest_arrow_word(a, i);
    TSR_TRY(ingest_arrow_same_kind(c, a->type->datatype, error));
    if (ingest_arrow_converts(c, a->type->datatype)) TSR_TRY(ingest_arrow_convert(c, a->type->datatype, &word, error));
    if (a->type->size == 8 && a->type->layout == INGEST_UNSIGNED)
      return tsr__ingest_set_unsigned(g, column, word, error);
    return tsr_ingest_set_integer(g, column, (int64_t)word, error);
  case INGEST_HALF: return tsr_ingest_set_real(g, column, ingest_half((uint16_t)ingest_arrow_word(a, i)), error);
  case INGEST_FLOATS:
    word = ingest_arrow_word(a, i);
    memcpy(&narrow, &word, sizeof narrow);
    memcpy(&real, &word, sizeof real);
    return tsr_ingest_set_real(g, column, a->type->size == 4 ? narrow : real, error);
  default:
    TSR_TRY(ingest_arrow_string(a, i, name, &bytes, &size, error));
    return tsr_ingest_set_bytes(g, column, a->type->datatype == TSR_UTF8, size ? bytes : (const uint8_t *)"", size,
                                error);
  }
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

/* Adds all labels of a dictionary, in order, even those that no row has. */
static int ingest_arrow_labels(tsr_ingest *g, uint32_t column, const ingest_arrow *a, tsr_error *error) {
  if (!a->labels || !g->columns[column].given->labels) return TSR_OK;
  for (uint64_t i = 0; i < a->labels->length; i++) {
    const uint8_t *bytes;
    uint64_t size;
    if (ingest_arrow_is_null(a->labels, i)) continue;
    if (!ingest_arrow_is_bytes(a->labels->type)) {
      const uint64_t word = a->labels->type->layout == INGEST_BITS
                                ? a->labels->values[(i + a->labels->offset) / 8] >> ((i + a->labels->offset) % 8) & 1
                                : ingest_arrow_word(a->labels, i);
      if (a->labels->type->datatype == g->columns[column].datatype)
        TSR_TRY(tsr__ingest_add_label(g, column, &word, tsr_datatype_size(a->labels->type->datatype), error));
      continue;
    }
    TSR_TRY(ingest_arrow_string(a->labels, i, g->columns[column].given->name, &bytes, &size, error));
    TSR_TRY(tsr__ingest_add_label(g, column, size ? bytes : (const uint8_t *)"", size, error));
  }
  return TSR_OK;
}

/* ---- Rows of plain columns --------------------------------------------------------------------------------------- */

#define PLAIN_ROWS_MIN 64u /* fewer rows at a time are taken one by one */

/* Returns true if every value of this column is stored in the ingest as it is, and no value of it can be refused but a
 * NaN of a dimension. */
static bool is_plain(const tsr_ingest_kept *c, const ingest_arrow *a) {
  if (a->is_list || a->labels || a->validity || !c->given->typed || c->given->labels || c->given->label) return false;
  if (c->is_dimension && c->given->has_domain && !c->given->label_of) return false;
  if (a->type->datatype != c->datatype) return false;
  switch (a->type->layout) {
  case INGEST_SIGNED:
  case INGEST_UNSIGNED: return c->class == TSR_INGEST_INTEGERS && c->values_per_cell == 1;
  case INGEST_FLOATS: return c->class == TSR_INGEST_REALS && c->values_per_cell == 1;
  case INGEST_OFFSETS32:
  case INGEST_OFFSETS64: return c->class == TSR_INGEST_TEXTS && c->datatype == TSR_UTF8;
  default: return false;
  }
}

static bool are_plain(const tsr_ingest *g, const ingest_arrow *columns, const int *kept, uint64_t count) {
  uint64_t taken = 0;
  if (g->options.left_out || g->complete) return false;
  for (uint64_t i = 0; i < count; i++) {
    if (kept[i] < 0) continue;
    if (!is_plain(&g->columns[kept[i]], &columns[i])) return false;
    taken++;
  }
  return taken == g->column_count; /* the others would be null */
}

/* Returns how many of the rows from `row` on fit into the growing part together; 0 if that are not many. */
static uint64_t plain_rows(const tsr_ingest *g, const ingest_arrow *columns, const int *kept, uint64_t count,
                           uint64_t row, uint64_t rows) {
  uint64_t n = TSR_MIN(rows, INGEST_PART_ROWS - g->counts.part_rows);
  for (; n >= PLAIN_ROWS_MIN; n /= 2) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
      const ingest_arrow *a = &columns[i];
      if (kept[i] < 0) continue;
      bytes += g->columns[kept[i]].growing.values.size;
      bytes += !a->ends ? n * 8 : ingest_arrow_offset(a, a->offset + row + n) - ingest_arrow_offset(a, a->offset + row);
    }
    if (bytes <= TSR_MIN(INGEST_PART_BYTES, g->memory.limit / 8)) return n;
  }
  return 0;
}

static bool has_nan(const ingest_arrow *a, uint64_t row, uint64_t count) {
  bool found = false;
  for (uint64_t i = row; i < row + count; i++) {
    const uint64_t word = ingest_arrow_word(a, i);
    found |= a->type->size == 4 ? (word & 0x7fffffff) > 0x7f800000 : (word & INT64_MAX) > 0x7ff0000000000000;
  }
  return found;
}

static void take_words(const ingest_arrow *a, uint64_t row, uint64_t count, uint8_t *to) {
  const uint64_t size = a->type->size;
  if (size == 8) memcpy(to, a->values + (a->offset + row) * 8, count * 8);
  else if (a->type->layout == INGEST_FLOATS) {
    for (uint64_t i = 0; i < count; i++) {
      float narrow;
      memcpy(&narrow, a->values + (a->offset + row + i) * 4, 4);
      const double real = narrow;
      memcpy(to + i * 8, &real, 8);
    }
  } else
    for (uint64_t i = 0; i < count; i++) tsr__store64(to + i * 8, ingest_arrow_word(a, row + i));
}

/* Appends rows of one column to the growing part, which must be reserved. */
static void take_plain(tsr_ingest_kept *c, const ingest_arrow *a, uint64_t row, uint64_t count) {
  tsr_buffer *values = &c->growing.values, *ends = &c->growing.ends;
  if (c->growing.nulls) {
    memset(c->growing.validity.data + c->growing.validity.size, 1, count);
    c->growing.validity.size += count;
  }
  if (!a->ends) {
    take_words(a, row, count, values->data + values->size);
    values->size += count * 8;
    return;
  }
  const uint64_t from = ingest_arrow_offset(a, a->offset + row),
                 size = ingest_arrow_offset(a, a->offset + row + count) - from;
  for (uint64_t i = 0; i < count; i++)
    tsr__store64(ends->data + ends->size + i * 8,
                 values->size + ingest_arrow_offset(a, a->offset + row + i + 1) - from);
  ends->size += count * 8;
  if (size) memcpy(values->data + values->size, a->bytes + from, size);
  values->size += size;
}

static int reserve_plain(tsr_ingest_kept *c, const ingest_arrow *a, uint64_t row, uint64_t count, tsr_error *error) {
  const uint64_t size =
      a->ends ? ingest_arrow_offset(a, a->offset + row + count) - ingest_arrow_offset(a, a->offset + row) : count * 8;
  TSR_TRY(tsr__buffer_reserve(&c->growing.values, TSR_MAX(size, 1), error));
  if (a->ends) TSR_TRY(tsr__buffer_reserve(&c->growing.ends, count * 8, error));
  return c->growing.nulls ? tsr__buffer_reserve(&c->growing.validity, count, error) : TSR_OK;
}

/* Takes many rows at once, column by column. Sets *taken to their number: 0 if the next row must be taken by itself. */
static int ingest_arrow_plain(tsr_ingest *g, const ingest_arrow *columns, const int *kept, uint64_t count, uint64_t row,
                              uint64_t rows, uint64_t *taken, tsr_error *error) {
  const uint64_t n = plain_rows(g, columns, kept, count, row, rows);
  *taken = 0;
  for (uint64_t i = 0; i < count && n > 0; i++) {
    if (kept[i] < 0) continue;
    const bool real = columns[i].type->layout == INGEST_FLOATS && g->columns[kept[i]].is_dimension;
    if (real && has_nan(&columns[i], row, n)) return TSR_OK;
    TSR_TRY(reserve_plain(&g->columns[kept[i]], &columns[i], row, n, error));
  }
  if (n == 0) return TSR_OK;
  TSR_TRY(tsr__ingest_number_rows(g, n, error));
  for (uint64_t i = 0; i < count; i++)
    if (kept[i] >= 0) take_plain(&g->columns[kept[i]], &columns[i], row, n);
  g->counts.rows += n;
  g->counts.begun += n;
  g->counts.part_rows += n;
  *taken = n;
  return g->counts.part_rows == INGEST_PART_ROWS ? tsr__ingest_end_part(g, error) : TSR_OK;
}

/* ---- All rows ---------------------------------------------------------------------------------------------------- */

static int set_row(tsr_ingest *g, const ingest_arrow *columns, const int *kept, uint64_t count, uint64_t row,
                   tsr_error *error) {
  for (uint64_t i = 0; i < count; i++)
    if (kept[i] >= 0) TSR_TRY(ingest_arrow_set(g, (uint32_t)kept[i], &columns[i], row, error));
  return tsr_ingest_end_row(g, error);
}

/* Takes a row, or leaves it out if it does not fit and the options say so. */
static int ingest_arrow_row(tsr_ingest *g, const ingest_arrow *columns, const int *kept, uint64_t count, uint64_t row,
                            tsr_error *error) {
  const int rc = set_row(g, columns, kept, count, row, error);
  const bool refused = rc == TSR_MISMATCH || rc == TSR_RANGE || rc == TSR_CONSTRAINT;
  if (!refused || !g->options.refused) return rc;
  g->options.refused(g->options.refused_argument, g->counts.begun + 1, error->message);
  tsr_ingest_drop_row(g);
  return TSR_OK;
}

static int ingest_arrow_rows(tsr_ingest *g, const ingest_arrow *columns, const int *kept, uint64_t count, uint64_t rows,
                             tsr_error *error) {
  const bool plain = are_plain(g, columns, kept, count);
  for (uint64_t row = 0, taken; row < rows; row += taken) {
    taken = 0;
    int rc = plain ? ingest_arrow_plain(g, columns, kept, count, row, rows - row, &taken, error) : TSR_OK;
    if (rc >= 0 && taken == 0) {
      rc = ingest_arrow_row(g, columns, kept, count, row, error);
      taken = 1;
    }
    if (rc < 0) return tsr__wrap(error, "row %llu", (unsigned long long)g->counts.begun + 1);
  }
  return TSR_OK;
}

int tsr_ingest_arrow(tsr_ingest *g, const struct ArrowSchema *schema, const struct ArrowArray *batch, const int *kept,
                     tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_arena arena;
  ingest_arrow *columns;
  if (!batch->release || batch->n_children != schema->n_children || !batch->children)
    return ingest_arrow_broken("", "the batch has other columns than the stream", error);
  if (batch->length < 0 || batch->offset < 0 || batch->length > INT64_MAX / 64 || batch->offset > INT64_MAX / 64)
    return ingest_arrow_broken("", "the length of the batch", error);
  if (batch->null_count > 0) return ingest_arrow_broken("", "rows that are null", error);
  const uint64_t count = (uint64_t)batch->n_children, rows = (uint64_t)batch->length;
  tsr__arena_init(&arena, &g->memory);
  int rc = TSR_ARENA_ARRAY(&arena, count, &columns, error);
  for (uint64_t i = 0; i < count && rc >= 0; i++) {
    if (kept[i] < 0) continue;
    rc = ingest_arrow_open(&columns[i], schema->children[i], batch->children[i], (uint64_t)batch->offset, rows, &arena,
                           error);
    if (rc >= 0) rc = ingest_arrow_labels(g, (uint32_t)kept[i], &columns[i], error);
  }
  if (rc >= 0) rc = ingest_arrow_rows(g, columns, kept, count, rows, error);
  tsr__arena_release(&arena);
  return rc;
}
