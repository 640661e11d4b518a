/* ingest.c: takes rows into the columns of an ingest (tessera_ingest.h), and converts stored values to cells of a
 * field.
 *
 * Each column keeps its values in one class: integers and reals as words of 8 bytes, texts and blobs as bytes. The
 * first value of an untyped column decides its class; integers become reals when the first real arrives. The first
 * section narrows the words to a field's datatype. */
#include "ingest/ingest.h"

#include <string.h>
#include <float.h>
#include <math.h>

#include "base/arithmetic.h"
#include "base/options.h"
#include "environment/environment.h"
#include "model/datatype.h"
#include "write/writer.h"

#define INGEST_NARROW(type, from)                                                                                      \
  for (uint64_t i = 0; i < rows; i++) {                                                                                \
    from value;                                                                                                        \
    memcpy(&value, in + i * 8, 8);                                                                                     \
    const type narrow = (type)value;                                                                                   \
    memcpy(out + i * sizeof narrow, &narrow, sizeof narrow);                                                           \
  }

static void ingest_narrow(const uint8_t *in, uint64_t rows, uint64_t size, bool real, uint8_t *out) {
  if (real) {
    INGEST_NARROW(float, double)
  } else if (size == 1) {
    INGEST_NARROW(uint8_t, uint64_t)
  } else if (size == 2) {
    INGEST_NARROW(uint16_t, uint64_t)
  } else {
    INGEST_NARROW(uint32_t, uint64_t)
  }
}

/* Makes the column of a field whose values are stored as words of 8 bytes. */
static int number_cells(const tsr_field *field, const tsr_ingest_values *values, tsr_ingest_cells *m,
                        tsr_column *column, tsr_error *error) {
  const uint64_t size = tsr_datatype_size(field->datatype);
  column->cell_size = size;
  column->values = values->values;
  if (size == 8) return TSR_OK;
  m->cells.size = 0;
  TSR_TRY(tsr__buffer_reserve(&m->cells, values->rows * size, error));
  ingest_narrow(values->values, values->rows, size, values->class == TSR_INGEST_REALS, m->cells.data);
  column->values = m->cells.data;
  return TSR_OK;
}

/* Makes the column of a field of strings, or of cells of several values. */
static int ingest_byte_cells(const tsr_field *field, const tsr_ingest_values *values, tsr_ingest_cells *m,
                             tsr_column *column, tsr_error *error) {
  column->values = values->values;
  if (field->values_per_cell != TSR_VARIABLE) {
    column->cell_size = field->cell_size;
    m->cells.size = 0;
    TSR_TRY(tsr__buffer_reserve(&m->cells, values->rows * field->cell_size, error));
    memset(m->cells.data, 0, values->rows * field->cell_size);
    for (uint64_t i = 0, at = 0; i < values->rows; at = values->ends[i++])
      if (values->ends[i] - at == field->cell_size)
        memcpy(m->cells.data + i * field->cell_size, values->values + at, field->cell_size);
    column->values = m->cells.data;
    return TSR_OK;
  }
  m->offsets.size = 0;
  TSR_TRY(tsr__buffer_append_u64(&m->offsets, 0, error));
  TSR_TRY(tsr__buffer_append(&m->offsets, values->ends, values->rows * 8, error));
  column->offsets = (const uint64_t *)(const void *)m->offsets.data;
  return TSR_OK;
}

/* Makes the column of a field for a part in which all values are null. */
static int ingest_null_cells(const tsr_field *field, tsr_ingest_cells *m, tsr_column *column, tsr_error *error) {
  static const uint8_t null_cell = 0;
  static const uint64_t no_bytes[2];
  const uint64_t size = TSR_MAX(field->cell_size, 1);
  m->cells.size = 0;
  TSR_TRY(tsr__buffer_reserve(&m->cells, size, error));
  memset(m->cells.data, 0, size);
  *column =
      (tsr_column){.values = m->cells.data, .cell_size = field->cell_size, .validity = &null_cell, .constant = true};
  if (field->values_per_cell == TSR_VARIABLE) column->offsets = no_bytes;
  return TSR_OK;
}

void tsr__ingest_cells_begin(tsr_ingest_cells *m, tsr_memory *memory) {
  m->scratch.memory = m->cells.memory = m->offsets.memory = memory;
}

void tsr__ingest_cells_end(tsr_ingest_cells *m) {
  tsr__buffer_release(&m->scratch);
  tsr__buffer_release(&m->cells);
  tsr__buffer_release(&m->offsets);
}

int tsr__ingest_cells(tsr_ingest *g, uint32_t column, uint64_t part, const tsr_field *field, tsr_ingest_cells *m,
                      tsr_column *cells, tsr_error *error) {
  tsr_ingest_values values;
  *cells = (tsr_column){0};
  TSR_TRY(tsr__ingest_load(g, column, part, &m->scratch, &values, error));
  if (values.class == TSR_INGEST_NONE) return ingest_null_cells(field, m, cells, error);
  TSR_TRY(values.ends ? ingest_byte_cells(field, &values, m, cells, error)
                      : number_cells(field, &values, m, cells, error));
  cells->validity = values.validity;
  return TSR_OK;
}

/* ---- Taking in rows ---------------------------------------------------------------------------------------------- */

bool tsr__ingest_is_single(const tsr_ingest_kept *c) {
  const tsr_kind kind = tsr_datatype_kind(c->datatype);
  return c->values_per_cell == 1 && kind != TSR_KIND_TEXT && kind != TSR_KIND_BYTES;
}

/* Returns the class in which a typed column stores its values. */
static tsr_ingest_class class_of(const tsr_ingest_kept *c) {
  const tsr_kind kind = tsr_datatype_kind(c->datatype);
  if (c->given->labels) return TSR_INGEST_INTEGERS;
  if (kind == TSR_KIND_TEXT) return TSR_INGEST_TEXTS;
  if (!tsr__ingest_is_single(c)) return TSR_INGEST_BLOBS;
  return kind == TSR_KIND_FLOAT ? TSR_INGEST_REALS : TSR_INGEST_INTEGERS;
}

/* ---- Open and close ---------------------------------------------------------------------------------------------- */

/* Labels are text, or numbers of fixed size. */
static bool ingest_has_text_labels(const tsr_ingest_kept *c) { return tsr_datatype_kind(c->datatype) == TSR_KIND_TEXT; }

/* Writes the digits of a numeric label, the key by which it is found. */
static void number_key(const uint8_t *bytes, uint64_t size, char key[17]) {
  for (uint64_t i = 0; i < size && i < 8; i++) {
    key[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
    key[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    key[2 * i + 2] = 0;
  }
}

static int add_label(tsr_ingest *g, tsr_ingest_kept *c, const void *bytes, uint64_t size, uint64_t *code,
                     tsr_error *error) {
  char *key, number[17] = "";
  const bool text = ingest_has_text_labels(c);
  if (text && size && memchr(bytes, 0, size))
    return tsr__fail(error, TSR_MISMATCH, "column '%s': a label with a NUL", c->given->name);
  if (!text) number_key(bytes, size, number);
  TSR_TRY(TSR_ARENA_COPY(&g->arena, text ? bytes : number, text ? size : strlen(number), &key, error));
  *code = c->labels.ends.size / sizeof(uint64_t);
  if (*code >= INT32_MAX) return tsr__fail(error, TSR_FULL, "column '%s': too many labels", c->given->name);
  TSR_TRY(tsr__buffer_append(&c->labels.bytes, bytes, size, error));
  TSR_TRY(tsr__buffer_append(&c->labels.ends, &c->labels.bytes.size, sizeof(uint64_t), error));
  return tsr__map_put(&c->labels.codes, key, (void *)(uintptr_t)(*code + 1), error);
}

static int open_column(tsr_ingest *g, uint32_t i, tsr_error *error) {
  tsr_ingest_kept *c = &g->columns[i];
  const tsr_ingest_column *given = &g->options.columns[i];
  c->given = given;
  if (given->labels && c->is_dimension)
    return tsr__fail(error, TSR_CONSTRAINT, "column '%s': a dimension has no enumeration", given->name);
  if (!given->typed && !given->labels) return TSR_OK;
  c->datatype = given->typed ? given->datatype : TSR_UTF8;
  c->values_per_cell = given->typed ? given->values_per_cell : TSR_VARIABLE;
  c->is_unsigned = c->datatype == TSR_UINT64 && !given->labels;
  c->class = class_of(c);
  const tsr_enumeration *e = given->enumeration;
  uint64_t code;
  if (given->labels && !ingest_has_text_labels(c) && c->values_per_cell != 1)
    return tsr__fail(error, TSR_UNSUPPORTED, "column '%s': labels of several values", given->name);
  for (uint64_t k = 0; e && k < e->count; k++)
    TSR_TRY(add_label(g, c, e->data + e->offsets[k], e->offsets[k + 1] - e->offsets[k], &code, error));
  return TSR_OK;
}

static void init_column(tsr_ingest *g, tsr_ingest_kept *c) {
  tsr_buffer *const buffers[] = {&c->growing.values, &c->growing.ends, &c->growing.validity,
                                 &c->labels.bytes,   &c->labels.ends,  &c->parts};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) buffers[i]->memory = &g->memory;
  c->labels.codes.memory = &g->memory;
}

int tsr_ingest_open(tsr_environment *environment, const tsr_ingest_options *options, tsr_ingest **ingest,
                    tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_ingest *g;
  tsr_ingest_options own;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_ingest_options, memory_bytes, options, &own, error));
  options = &own;
  if (options->column_count == 0) return tsr__fail(error, TSR_CONSTRAINT, "no columns");
  TSR_TRY(TSR_ALLOC(&environment->memory, &g, error));
  g->environment = environment;
  g->options = *options;
  tsr__memory_init(&g->memory, &environment->memory, options->memory_bytes ? options->memory_bytes : UINT64_C(1) << 30,
                   "memory_mb");
  tsr__arena_init(&g->arena, &g->memory);
  int rc = TSR_ALLOC_ARRAY(&g->memory, (uint64_t)options->column_count + 1, &g->columns, error);
  if (rc >= 0) {
    g->column_count = options->column_count;
    for (uint32_t i = 0; i <= g->column_count; i++) init_column(g, &g->columns[i]);
    g->numbers.runs.memory = &g->memory;
    for (uint32_t i = 0; i < options->dimension_count; i++) g->columns[options->dimensions[i]].is_dimension = true;
  }
  for (uint32_t i = 0; i < g->column_count && rc >= 0; i++) rc = open_column(g, i, error);
  if (rc < 0) tsr_ingest_close(g);
  else *ingest = g;
  return rc;
}

void tsr_ingest_close(tsr_ingest *g) {
  if (!g) return;
  for (uint32_t i = 0; g->columns && i <= g->column_count; i++) {
    tsr_ingest_kept *c = &g->columns[i];
    for (uint64_t p = 0; i < g->column_count && p < c->parts.size / sizeof(tsr_ingest_part); p++)
      tsr__free(tsr__ingest_part(c, p)->block);
    tsr_buffer *const buffers[] = {&c->growing.values, &c->growing.ends, &c->growing.validity,
                                   &c->labels.bytes,   &c->labels.ends,  &c->parts};
    for (size_t b = 0; b < sizeof buffers / sizeof *buffers; b++) tsr__buffer_release(buffers[b]);
    tsr__map_release(&c->labels.codes);
  }
  tsr__ingest_release_labels(g);
  tsr__buffer_release(&g->numbers.runs);
  tsr__free(g->columns);
  if (g->spill.file) tsr__staged_release(g->spill.file);
  tsr__staging_close(g->spill.staging);
  tsr__arena_release(&g->arena);
  tsr__free(g);
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/* Appends nulls, until a column has `rows` rows in the growing part. */
static int ingest_fill_up(tsr_ingest_kept *c, uint64_t rows, tsr_error *error) {
  const bool fixed = c->class == TSR_INGEST_INTEGERS || c->class == TSR_INGEST_REALS;
  const uint64_t has = c->class == TSR_INGEST_NONE ? rows : (fixed ? c->growing.values.size : c->growing.ends.size) / 8;
  for (uint64_t i = has; i < rows; i++)
    TSR_TRY(fixed
                ? tsr__buffer_append_u64(&c->growing.values, 0, error)
                : tsr__buffer_append(&c->growing.ends, &c->growing.values.size, sizeof c->growing.values.size, error));
  if (!c->growing.nulls) return TSR_OK;
  for (uint64_t i = c->growing.validity.size; i < rows; i++)
    TSR_TRY(tsr__buffer_append_u8(&c->growing.validity, 0, error));
  return TSR_OK;
}

/* Converts the integers of the growing part to reals. */
static int ingest_to_reals(tsr_ingest_kept *c, tsr_error *error) {
  if (c->seen.wide)
    return tsr__fail(error, TSR_MISMATCH,
                     "column '%s': REAL beside an integer past 2^53 (row %llu): give the type in types", c->given->name,
                     (unsigned long long)c->seen.wide_row);
  for (uint64_t i = 0; i < c->growing.values.size / 8; i++) {
    int64_t integer;
    memcpy(&integer, c->growing.values.data + i * 8, 8);
    const double real = (double)integer;
    memcpy(c->growing.values.data + i * 8, &real, 8);
  }
  c->class = TSR_INGEST_REALS;
  return TSR_OK;
}

static const char *ingest_class_name(tsr_ingest_class class) {
  static const char *const names[] = {"NULL", "INTEGER", "REAL", "TEXT", "BLOB"};
  return names[class];
}

/* Prepares an untyped column for a value of this class. */
static int ingest_meet(tsr_ingest *g, tsr_ingest_kept *c, tsr_ingest_class class, tsr_error *error) {
  if (c->class == class) return TSR_OK;
  if (c->class == TSR_INGEST_INTEGERS && class == TSR_INGEST_REALS) return ingest_to_reals(c, error);
  if (c->class != TSR_INGEST_NONE)
    return tsr__fail(error, TSR_MISMATCH,
                     "column '%s': %s beside %s, which came first, in row %llu: give the type in types", c->given->name,
                     ingest_class_name(class), ingest_class_name(c->class), (unsigned long long)c->seen.first_row);
  if (c->is_dimension && class == TSR_INGEST_BLOBS)
    return tsr__fail(error, TSR_CONSTRAINT, "column '%s': a BLOB cannot be a dimension", c->given->name);
  c->class = class;
  c->seen.first_row = g->counts.begun + 1;
  return ingest_fill_up(c, g->counts.part_rows, error);
}

static int put_word(tsr_ingest_kept *c, const void *word, tsr_error *error) {
  tsr_buffer *values = &c->growing.values;
  c->growing.before = values->size;
  if (values->capacity - values->size < 8) TSR_TRY(tsr__buffer_reserve(values, 8, error));
  memcpy(values->data + values->size, word, 8);
  values->size += 8;
  c->growing.is_set = true;
  return TSR_OK;
}

int tsr__ingest_fits(const tsr_ingest_kept *c, int64_t value, tsr_error *error) {
  const tsr_kind kind = tsr_datatype_kind(c->datatype);
  const uint64_t bits = 8 * tsr_datatype_size(c->datatype);
  bool fits = true;
  if (kind == TSR_KIND_SIGNED)
    fits = bits == 64 || (value >= -(INT64_C(1) << (bits - 1)) && value < INT64_C(1) << (bits - 1));
  if (kind == TSR_KIND_UNSIGNED) fits = value >= 0 && (bits == 64 || value < INT64_C(1) << bits);
  if (kind == TSR_KIND_BOOLEAN) fits = value == 0 || value == 1;
  if (!fits)
    return tsr__fail(error, TSR_RANGE, "column '%s': %lld does not fit %s", c->given->name, (long long)value,
                     tsr_datatype_name(c->datatype));
  return TSR_OK;
}

static int ingest_refuse(const tsr_ingest_kept *c, tsr_ingest_class class, tsr_error *error) {
  return tsr__fail(error, TSR_MISMATCH, "column '%s': %s in a column of %s", c->given->name, ingest_class_name(class),
                   c->given->labels ? "labels" : tsr_datatype_name(c->datatype));
}

static int find_label(tsr_ingest *g, tsr_ingest_kept *c, const void *bytes, uint64_t size, uint64_t *code,
                      tsr_error *error);

/* Sets a label that is a number. */
static int set_number_label(tsr_ingest *g, tsr_ingest_kept *c, int64_t integer, double real, tsr_error *error) {
  const uint64_t size = tsr_datatype_size(c->datatype);
  const float narrow = (float)real;
  uint64_t word = (uint64_t)integer, code;
  if (tsr_datatype_kind(c->datatype) != TSR_KIND_FLOAT) TSR_TRY(tsr__ingest_fits(c, integer, error));
  else if (size == sizeof real) memcpy(&word, &real, sizeof real);
  else memcpy(&word, &narrow, sizeof narrow);
  TSR_TRY(find_label(g, c, &word, size, &code, error));
  return put_word(c, &code, error);
}

int tsr_ingest_set_integer(tsr_ingest *g, uint32_t column, int64_t value, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_ingest_kept *c = &g->columns[column];
  if (c->given->labels && !ingest_has_text_labels(c)) return set_number_label(g, c, value, (double)value, error);
  const bool past = value > TSR_EXACT_REAL || value < -TSR_EXACT_REAL;
  if (c->given->typed || c->given->labels) {
    if (c->given->labels || !tsr__ingest_is_single(c)) return ingest_refuse(c, TSR_INGEST_INTEGERS, error);
    if (c->class == TSR_INGEST_INTEGERS) {
      TSR_TRY(tsr__ingest_fits(c, value, error));
      return put_word(c, &value, error);
    }
  } else if (c->class != TSR_INGEST_REALS) {
    TSR_TRY(ingest_meet(g, c, TSR_INGEST_INTEGERS, error));
    if (past && !c->seen.wide) {
      c->seen.wide = true;
      c->seen.wide_row = g->counts.begun + 1;
    }
    return put_word(c, &value, error);
  } else if (past)
    return tsr__fail(error, TSR_MISMATCH,
                     "column '%s': the integer %lld is past 2^53, and the column has REALs: give the type in types",
                     c->given->name, (long long)value);
  const double real = (double)value;
  return put_word(c, &real, error);
}

int tsr_ingest_set_real(tsr_ingest *g, uint32_t column, double value, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_ingest_kept *c = &g->columns[column];
  if (!c->given->typed && !c->given->labels) {
    TSR_TRY(ingest_meet(g, c, TSR_INGEST_REALS, error));
    return put_word(c, &value, error);
  }
  if (c->given->labels && tsr_datatype_kind(c->datatype) == TSR_KIND_FLOAT)
    return set_number_label(g, c, 0, value, error);
  if (c->class == TSR_INGEST_INTEGERS && !(c->given->labels && ingest_has_text_labels(c)) && value == trunc(value) &&
      value >= -9223372036854775808.0 && value < 9223372036854775808.0)
    return tsr_ingest_set_integer(g, column, (int64_t)value, error);
  if (c->class != TSR_INGEST_REALS) return ingest_refuse(c, TSR_INGEST_REALS, error);
  if (c->datatype == TSR_FLOAT32 && isfinite(value) && fabs(value) > FLT_MAX)
    return tsr__fail(error, TSR_RANGE, "column '%s': %g does not fit FLOAT32", c->given->name, value);
  return put_word(c, &value, error);
}

/* Parses decimal text for an integer column; for UINT64, *word receives the bits. */
static int parse_integer(const tsr_ingest_kept *c, const char *text, uint64_t size, uint64_t *word, tsr_error *error) {
  const bool negative = size > 0 && *text == '-';
  uint64_t value = 0, i = negative;
  bool fits = true;
  for (; i < size && text[i] >= '0' && text[i] <= '9'; i++) {
    const uint64_t digit = (uint64_t)(text[i] - '0');
    fits &= value <= (UINT64_MAX - digit) / 10;
    value = value * 10 + digit;
  }
  if (i != size || size == (uint64_t)negative)
    return tsr__fail(error, TSR_MISMATCH, "column '%s': '%.*s' is not a valid %s", c->given->name,
                     (int)TSR_MIN(size, 40), text, tsr_datatype_name(c->datatype));
  fits &= c->is_unsigned ? !negative || !value : value <= (uint64_t)INT64_MAX + negative;
  if (!fits)
    return tsr__fail(error, TSR_RANGE, "column '%s': %.*s does not fit %s", c->given->name, (int)TSR_MIN(size, 40),
                     text, tsr_datatype_name(c->datatype));
  *word = negative ? 0 - value : value;
  return c->is_unsigned ? TSR_OK : tsr__ingest_fits(c, (int64_t)*word, error);
}

/* Finds the code of a label, adding it if it is new. */
static int find_label(tsr_ingest *g, tsr_ingest_kept *c, const void *bytes, uint64_t size, uint64_t *code,
                      tsr_error *error) {
  if (!ingest_has_text_labels(c)) {
    char number[17] = "";
    number_key(bytes, size, number);
    void *known = tsr__map_get(&c->labels.codes, number);
    if (!known) return add_label(g, c, bytes, size, code, error);
    *code = (uint64_t)(uintptr_t)known - 1;
    return TSR_OK;
  }
  TSR_TRY(tsr__buffer_reserve(&c->labels.bytes, size + 1, error));
  char *key = (char *)c->labels.bytes.data + c->labels.bytes.size; /* after the labels: space for the key */
  if (size) memcpy(key, bytes, size);
  key[size] = 0;
  void *found = strlen(key) == size ? tsr__map_get(&c->labels.codes, key) : NULL;
  if (!found) return add_label(g, c, bytes, size, code, error);
  *code = (uint64_t)(uintptr_t)found - 1;
  return TSR_OK;
}

/* Returns true if text that is given to a column of durations is a number of units, and not a time of day. */
static bool is_units(const tsr_ingest_kept *c, const char *text, uint64_t size) {
  bool digits = c->given->duration && size > (size > 0 && *text == '-');
  for (uint64_t i = size > 0 && *text == '-'; i < size && digits; i++) digits = text[i] >= '0' && text[i] <= '9';
  return digits;
}

/* Sets text in a column of integers: a label, an instant or digits. */
static int set_coded(tsr_ingest *g, tsr_ingest_kept *c, const void *bytes, uint64_t size, tsr_error *error) {
  const tsr_kind kind = tsr_datatype_kind(c->datatype);
  uint64_t word = 0;
  if (c->given->labels) {
    if (!ingest_has_text_labels(c)) return ingest_refuse(c, TSR_INGEST_TEXTS, error);
    TSR_TRY(find_label(g, c, bytes, size, &word, error));
  } else if ((kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) && !is_units(c, bytes, size)) {
    int64_t instant;
    if (tsr_datetime_parse(c->datatype, bytes, size, &instant, error) < 0)
      return tsr__wrap(error, "column '%s'", c->given->name);
    word = (uint64_t)instant;
  } else TSR_TRY(parse_integer(c, bytes, size, &word, error));
  return put_word(c, &word, error);
}

int tsr__ingest_add_label(tsr_ingest *g, uint32_t column, const void *bytes, uint64_t size, tsr_error *error) {
  uint64_t code;
  return find_label(g, &g->columns[column], bytes, size, &code, error);
}

int tsr__ingest_set_unsigned(tsr_ingest *g, uint32_t column, uint64_t value, tsr_error *error) {
  tsr_ingest_kept *c = &g->columns[column];
  if (c->is_unsigned) return put_word(c, &value, error);
  if (value > INT64_MAX)
    return tsr__fail(error, TSR_RANGE, "column '%s': %llu does not fit", c->given->name, (unsigned long long)value);
  return tsr_ingest_set_integer(g, column, (int64_t)value, error);
}

/* Checks the bytes of a typed cell with a fixed number of values, or with values larger than a byte. */
static int check_cell(const tsr_ingest_kept *c, uint64_t size, tsr_error *error) {
  const uint64_t each = tsr_datatype_size(c->datatype);
  if (c->values_per_cell == TSR_VARIABLE ? size % each == 0 : size == each * c->values_per_cell) return TSR_OK;
  return tsr__fail(error, TSR_MISMATCH, "column '%s': %llu bytes are not a cell of %s", c->given->name,
                   (unsigned long long)size, tsr_datatype_name(c->datatype));
}

/* Returns true if the cells of a typed column are text with units of one byte. */
static bool ingest_takes_text(const tsr_ingest_kept *c) {
  return c->class == TSR_INGEST_TEXTS && tsr_datatype_size(c->datatype) == 1;
}

int tsr_ingest_set_bytes(tsr_ingest *g, uint32_t column, bool is_text, const void *bytes, uint64_t size,
                         tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_ingest_kept *c = &g->columns[column];
  const tsr_ingest_class class = is_text ? TSR_INGEST_TEXTS : TSR_INGEST_BLOBS;
  if (c->given->typed || c->given->labels) {
    if (is_text && c->class == TSR_INGEST_INTEGERS) return set_coded(g, c, bytes, size, error);
    if (c->class < TSR_INGEST_TEXTS || is_text != ingest_takes_text(c)) return ingest_refuse(c, class, error);
    TSR_TRY(check_cell(c, size, error));
  } else TSR_TRY(ingest_meet(g, c, class, error));
  c->growing.before = c->growing.values.size;
  TSR_TRY(tsr__buffer_append(&c->growing.values, bytes, size, error));
  const int rc = tsr__buffer_append(&c->growing.ends, &c->growing.values.size, sizeof c->growing.values.size, error);
  if (rc < 0) c->growing.values.size = c->growing.before;
  c->growing.is_set = rc >= 0;
  return rc;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

/* Returns the role of a non-nullable column, for messages. */
static const char *ingest_role(const tsr_ingest_kept *c) {
  return !c->is_dimension ? "a column of not_null" : c->given->label_of ? "a label" : "a dimension";
}

static int refuse_null(const tsr_ingest_kept *c, tsr_error *error) {
  if (c->is_dimension || c->given->not_null)
    return tsr__fail(error, TSR_CONSTRAINT, "column '%s': NULL in %s", c->given->name, ingest_role(c));
  return tsr__fail(error, TSR_CONSTRAINT,
                   "column '%s': NULL, which this column of the array does not take: name it in 'nullable' when the "
                   "array is made",
                   c->given->name);
}

/* Returns the datatype in which the current row's value and the ends of the domain are compared. */
static tsr_datatype ingest_box_datatype(const tsr_ingest_kept *c) {
  if (c->given->typed && !c->given->ends_untyped) return c->datatype;
  if (c->class == TSR_INGEST_REALS || c->given->real) return TSR_FLOAT64;
  return c->is_unsigned ? TSR_UINT64 : TSR_INT64;
}

/* Converts an end of an untyped column, or its value. is_unsigned: an integer is the bits of a UINT64. */
static void ingest_box_end(tsr_datatype datatype, bool is_real, bool is_unsigned, const uint8_t in[8], uint8_t out[8]) {
  int64_t integer;
  memcpy(&integer, in, sizeof integer);
  memcpy(out, in, 8);
  if (datatype == TSR_FLOAT64 && !is_real) {
    const double real = is_unsigned ? (double)(uint64_t)integer : (double)integer;
    memcpy(out, &real, sizeof real);
  } else if (datatype == TSR_UINT64 && integer < 0 && !is_unsigned) {
    memset(out, 0, 8);
  }
}

int tsr__ingest_check_box(const tsr_ingest_kept *c, const uint8_t in[8], tsr_error *error) {
  const tsr_ingest_column *given = c->given;
  const tsr_datatype datatype = ingest_box_datatype(c);
  const bool typed = given->typed && !given->ends_untyped, reals = c->class == TSR_INGEST_REALS;
  uint8_t value[8];
  if ((!reals && c->class != TSR_INGEST_INTEGERS) || !given->has_domain) return TSR_OK;
  if (datatype == TSR_INT64 && (given->low_unsigned || given->high_unsigned)) return TSR_OK; /* the schema refuses it */
  tsr_field field = {.name = (char *)(uintptr_t)given->name,
                     .datatype = datatype,
                     .values_per_cell = 1,
                     .cell_size = tsr_datatype_size(datatype),
                     .is_dimension = true,
                     .has_domain = true};
  uint64_t word;
  memcpy(&word, in, 8);
  if (typed) tsr__ingest_narrow_value(datatype, reals, word, value);
  else if (datatype == TSR_UINT64) memcpy(value, &word, 8);
  else ingest_box_end(datatype, reals, false, in, value);
  memcpy(field.low, given->low, 8);
  memcpy(field.high, given->high, 8);
  if (!typed) ingest_box_end(datatype, given->real, given->low_unsigned, given->low, field.low);
  if (!typed) ingest_box_end(datatype, given->real, given->high_unsigned, given->high, field.high);
  if (tsr__key(datatype, field.low) > tsr__key(datatype, field.high)) return TSR_OK; /* which the schema refuses */
  const tsr_schema schema = {.dimension_count = 1, .fields = &field};
  const tsr_column column = {.values = value, .cell_size = field.cell_size};
  return tsr__check_coordinates(&schema, 0, &column, NULL, 1, error);
}

/* The bytes of the current row's value. The first text has none if it is empty, and then the buffer may have none. */
static const uint8_t *growing_value(const tsr_ingest_kept *c) {
  static const uint8_t none[8];
  return c->growing.values.data ? c->growing.values.data + c->growing.before : none;
}

/* Fails if the array's label lacks the value of the current row. */
static int check_known(const tsr_ingest_kept *c, tsr_error *error) {
  const bool text = c->class == TSR_INGEST_TEXTS;
  const uint8_t *bytes = growing_value(c);
  uint8_t value[8], coordinate[8];
  uint64_t word;
  if (!text) {
    memcpy(&word, bytes, 8);
    tsr__ingest_narrow_value(c->datatype, c->class == TSR_INGEST_REALS, word, value);
  }
  const int found = tsr_label_coordinate_of(c->given->label, text ? bytes : value,
                                            c->growing.values.size - c->growing.before, coordinate, error);
  if (found != 0) return TSR_MIN(found, TSR_OK);
  return tsr__fail(error, TSR_RANGE, "column '%s': value not found in dimension label", c->given->name);
}

/* Ends the current row in one column: null if it was not set. */
static int ingest_end_value(tsr_ingest *g, tsr_ingest_kept *c, tsr_error *error) {
  if (c->growing.is_set) {
    double real;
    if (c->is_dimension && c->class == TSR_INGEST_REALS) {
      memcpy(&real, growing_value(c), 8);
      if (isnan(real))
        return tsr__fail(error, TSR_CONSTRAINT, "column '%s': NaN in %s", c->given->name, ingest_role(c));
    }
    if (c->given->label) TSR_TRY(check_known(c, error));
    else if (c->is_dimension && !c->given->label_of) TSR_TRY(tsr__ingest_check_box(c, growing_value(c), error));
    return c->growing.nulls ? tsr__buffer_append_u8(&c->growing.validity, 1, error) : TSR_OK;
  }
  if (c->is_dimension || c->given->not_null || c->given->refuses_null) return refuse_null(c, error);
  if (!c->growing.nulls) {
    TSR_TRY(tsr__buffer_reserve(&c->growing.validity, INGEST_PART_ROWS, error));
    memset(c->growing.validity.data, 1, g->counts.part_rows);
    c->growing.validity.size = g->counts.part_rows;
    c->growing.nulls = true;
  }
  c->seen.nulls = true;
  return ingest_fill_up(c, g->counts.part_rows + 1, error);
}

void tsr_ingest_number_row(tsr_ingest *g, uint64_t number) { g->numbers.given = number; }

int tsr__ingest_number_rows(tsr_ingest *g, uint64_t count, tsr_error *error) {
  const uint64_t number = g->numbers.given ? g->numbers.given : g->counts.begun + 1;
  const tsr_ingest_numbered run = {g->counts.rows, number};
  if (!g->options.left_out && !g->options.broken) return TSR_OK;
  if (number != g->numbers.last + 1) TSR_TRY(tsr__buffer_append(&g->numbers.runs, &run, sizeof run, error));
  g->numbers.last = number + count - 1;
  g->numbers.given = 0;
  return TSR_OK;
}

int tsr_ingest_end_row(tsr_ingest *g, tsr_error *error) {
  TSR_OWN_ERROR(error);
  uint64_t bytes = 0;
  if (g->complete) return tsr__fail(error, TSR_ERROR, "a row after the schema was made");
  for (uint32_t i = 0; i < g->column_count; i++) {
    TSR_TRY(ingest_end_value(g, &g->columns[i], error));
    bytes += g->columns[i].growing.values.size;
  }
  TSR_TRY(tsr__ingest_number_rows(g, 1, error));
  for (uint32_t i = 0; i < g->column_count; i++) g->columns[i].growing.is_set = false;
  g->counts.rows++;
  g->counts.begun++;
  if (++g->counts.part_rows == INGEST_PART_ROWS || bytes > TSR_MIN(INGEST_PART_BYTES, g->memory.limit / 8))
    return tsr__ingest_end_part(g, error);
  return TSR_OK;
}

void tsr_ingest_drop_row(tsr_ingest *g) {
  for (uint32_t i = 0; i < g->column_count; i++) {
    tsr_ingest_kept *c = &g->columns[i];
    if (c->class == TSR_INGEST_INTEGERS || c->class == TSR_INGEST_REALS) {
      c->growing.values.size = TSR_MIN(c->growing.values.size, g->counts.part_rows * 8);
    } else if (c->class != TSR_INGEST_NONE) {
      c->growing.ends.size = TSR_MIN(c->growing.ends.size, g->counts.part_rows * 8);
      c->growing.values.size = 0;
      if (c->growing.ends.size) memcpy(&c->growing.values.size, c->growing.ends.data + c->growing.ends.size - 8, 8);
    }
    c->growing.validity.size = TSR_MIN(c->growing.validity.size, g->counts.part_rows);
    c->growing.is_set = false;
  }
  g->numbers.given = 0;
  g->counts.begun++;
}
