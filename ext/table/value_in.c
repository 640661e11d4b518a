/* value_in.c: SQL values become the cells of one row to write. A value may have any form in which its column shows
 * values, and a few others that mean the same (docs/reference/types.md). A value that does not fit is an error that
 * names table, column, value and limit; it is never rounded or clamped to one that fits.
 *
 * Rows reuse memory. Text and blobs are borrowed from SQLite. A value that must be converted goes into its field's
 * buffer, which only grows. Nothing else is allocated for a row.
 *
 * Sections: messages; numbers; datetimes and times; cells of any datatype; values of enumerations; setting a row;
 * making a row. */
#include "table/table_internal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/json.h"
#include "sql/literals.h"
#include "sql/names.h"
#include "definition/arguments.h"
#include "definition/define.h"

#define NUMBER_MAX 400 /* characters of a number, including the NUL */
#define SHOWN      60 /* bytes of text in a message */
#define TWO63      9223372036854775808.0
#define LINEAR_MAX 8 /* up to so many values of an enumeration are searched linearly, without an index */

typedef __int128 wide;

/* The shortcut in set_directly for values of the SQL type that fits the field best. */
typedef enum shortcut { NO_SHORTCUT, INTEGER64, REAL64, REAL32, TEXT } shortcut;

typedef struct cell_field { /* a field of the writer's schema */
  const tsr_field *field;
  const tsr_enumeration *enumeration; /* if cells are codes, else NULL */
  char *name; /* for messages; owned */
  int column; /* the table's column that shows the field, or -1 */
  bool has_default;
  shortcut shortcut;
  int64_t low, high; /* with INTEGER64: the least and greatest value that fit */
  const uint8_t *default_coordinate; /* see tsx_row_default_coordinate; borrowed, or NULL */
  uint64_t offsets[2]; /* for the single cell of a variable-size field: 0 and its size in bytes */
  uint8_t value[8]; /* the cell, if it is a single number */
  uint8_t *room; /* memory for a converted cell; owned */
  uint64_t room_size; /* in bytes */
  uint32_t *index; /* hash table of codes + 1, 0 in free slots; NULL until needed */
  uint64_t index_mask;
} cell_field;

struct tsx_row {
  tsx_table *table;
  const tsr_schema *schema;
  uint32_t field_count;
  cell_field *fields;
  tsr_column *columns; /* one for each field, with one cell */
  int *field_of; /* for each column of the table: its field, or -1 */
  bool complete; /* each column has its field, each field its column */
};

static const uint8_t null_cell = 0;

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

/* Writes a value as messages show it. */
static void describe_value(sqlite3_value *value, char text[96]) {
  switch (sqlite3_value_type(value)) {
  case SQLITE_INTEGER: sqlite3_snprintf(96, text, "%lld", sqlite3_value_int64(value)); break;
  case SQLITE_FLOAT: sqlite3_snprintf(96, text, "%!.15g", sqlite3_value_double(value)); break;
  case SQLITE_TEXT: {
    const uint8_t *p = sqlite3_value_text(value);
    const int size = p ? sqlite3_value_bytes(value) : 0, shown = (int)tsr_utf8_cut(p, (uint64_t)size, SHOWN);
    sqlite3_snprintf(96, text, "'%.*s'%s", shown, p ? (const char *)p : "", shown < size ? "..." : "");
    break;
  }
  case SQLITE_BLOB: sqlite3_snprintf(96, text, "a BLOB of %d bytes", sqlite3_value_bytes(value)); break;
  default: sqlite3_snprintf(96, text, "NULL");
  }
}

/* Prepends "what: " to the message. */
static int prefix(tsr_error *error, const char *what) {
  return tsx_fail(error, error->code, "%.200s: %.800s", what, error->message);
}

static int fail_no_value(tsr_datatype datatype, sqlite3_value *value, tsr_error *error) {
  char text[96];
  describe_value(value, text);
  bool empty = sqlite3_value_type(value) == SQLITE_TEXT && !sqlite3_value_bytes(value);
  return tsx_fail(error, TSR_MISMATCH, "%s is not a valid %s%s", text, tsr_datatype_name(datatype),
                  empty ? ": empty text is not NULL, but nullif(x, '') makes it NULL" : "");
}

static int fail_outside(tsr_datatype datatype, sqlite3_value *value, wide low, wide high, tsr_error *error) {
  char text[96];
  describe_value(value, text);
  return tsx_fail(error, TSR_RANGE, "%s is outside %s: %lld to %llu", text, tsr_datatype_name(datatype), (long long)low,
                  (unsigned long long)high);
}

/* Copies a text without the surrounding blanks, which SQLite ignores in a number. Returns false if the text cannot be a
 * number. */
static bool copy_number_text(sqlite3_value *value, char text[NUMBER_MAX]) {
  const char *p = (const char *)sqlite3_value_text(value), *blanks = " \t\n\v\f\r";
  uint64_t size = (uint64_t)sqlite3_value_bytes(value);
  if (!p) return false;
  while (size && *p && strchr(blanks, *p)) p++, size--;
  while (size && p[size - 1] && strchr(blanks, p[size - 1])) size--;
  if (!size || size >= NUMBER_MAX || memchr(p, 0, size)) return false;
  memcpy(text, p, size);
  text[size] = 0;
  return true;
}

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

static tsr_datatype shown_of(const tsx_row *row, tsr_datatype datatype) {
  return tsx_datatype_shown(datatype, row->table->options.shows.uint64_signed);
}

/* Gives the least and the greatest value of an integer datatype. */
static void limits(tsr_datatype datatype, wide *low, wide *high) {
  uint64_t bits = tsr_datatype_size(datatype) * 8;
  switch (tsr_datatype_kind(datatype)) {
  case TSR_KIND_BOOLEAN:
    *low = 0;
    *high = 1;
    break;
  case TSR_KIND_UNSIGNED:
    *low = 0;
    *high = ((wide)1 << bits) - 1;
    break;
  default: *low = -((wide)1 << (bits - 1)); *high = -*low - 1;
  }
}

/* Converts a REAL without a fraction to an integer. Refuses 2^63 and above, -2^63 and below: one REAL stands for many
 * integers there, and SQLite turns a literal that is too long for an INTEGER into a REAL. */
static int integer_of_real(tsr_datatype datatype, sqlite3_value *value, double d, wide low, wide high, wide *number,
                           tsr_error *error) {
  if (d != floor(d)) return fail_no_value(datatype, value, error);
  if (d < -TWO63 || d > 18446744073709551615.0) return fail_outside(datatype, value, low, high, error);
  *number = (wide)d;
  if (fabs(d) < TWO63 || *number < low || *number > high) return TSR_OK;
  char text[96];
  describe_value(value, text);
  return tsx_fail_inexact(text, d < 0, error);
}

/* Converts text to an integer. Digits are read exactly; other text is read as a REAL first, as in an INTEGER column. */
static int integer_of_text(tsr_datatype datatype, sqlite3_value *value, wide low, wide high, wide *number,
                           tsr_error *error) {
  char text[NUMBER_MAX];
  double d;
  int64_t i;
  uint64_t u;
  if (!copy_number_text(value, text)) return fail_no_value(datatype, value, error);
  bool digits = text[strspn(text, "+-0123456789")] == 0;
  int code = digits ? tsx_number_parse(low < 0 || *text == '-' ? TSR_INT64 : TSR_UINT64, text, false,
                                       low < 0 || *text == '-' ? (void *)&i : (void *)&u, error)
                    : tsx_number_parse(TSR_FLOAT64, text, false, &d, error);
  if (code == TSR_RANGE) return fail_outside(datatype, value, low, high, error);
  if (code < 0) return fail_no_value(datatype, value, error);
  if (!digits) return integer_of_real(datatype, value, d, low, high, number, error);
  *number = low < 0 || *text == '-' ? (wide)i : (wide)u;
  return TSR_OK;
}

static int convert_integer(tsr_datatype datatype, sqlite3_value *value, uint8_t *out, tsr_error *error) {
  wide low, high, number;
  limits(datatype, &low, &high);
  switch (sqlite3_value_type(value)) {
  case SQLITE_INTEGER: number = sqlite3_value_int64(value); break;
  case SQLITE_FLOAT:
    TSX_TRY(integer_of_real(datatype, value, sqlite3_value_double(value), low, high, &number, error));
    break;
  case SQLITE_TEXT: TSX_TRY(integer_of_text(datatype, value, low, high, &number, error)); break;
  default: return fail_no_value(datatype, value, error);
  }
  if (number < low || number > high) return fail_outside(datatype, value, low, high, error);
  uint64_t bits = (uint64_t)number;
  memcpy(out, &bits, tsr_datatype_size(datatype));
  return TSR_OK;
}

/* Turns a coordinate -0.0 into 0.0: they are equal in SQL, but two cells in TileDB. */
static void normalize_zero(const tsr_field *field, uint8_t *value) {
  float f;
  double d;
  if (!field->is_dimension || tsr_datatype_kind(field->datatype) != TSR_KIND_FLOAT) return;
  if (tsr_datatype_size(field->datatype) == 4) {
    memcpy(&f, value, sizeof f);
    f += 0.0F;
    memcpy(value, &f, sizeof f);
  } else {
    memcpy(&d, value, sizeof d);
    d += 0.0;
    memcpy(value, &d, sizeof d);
  }
}

/* SQL has no NaN: the text 'nan', in any case, stands for it, as in CSV files. A coordinate is never NaN. */
static int convert_float(tsr_datatype datatype, bool is_dimension, sqlite3_value *value, uint8_t *out,
                         tsr_error *error) {
  char text[NUMBER_MAX];
  double d;
  float f;
  switch (sqlite3_value_type(value)) {
  case SQLITE_INTEGER:
    d = (double)sqlite3_value_int64(value);
    f = (float)sqlite3_value_int64(value);
    break;
  case SQLITE_FLOAT:
    d = sqlite3_value_double(value);
    f = (float)d;
    break;
  case SQLITE_TEXT: {
    if (!copy_number_text(value, text)) return fail_no_value(datatype, value, error);
    if (!sqlite3_stricmp(text, "nan") && !is_dimension) {
      tsr_datatype_fill(datatype, out);
      return TSR_OK;
    }
    int code = tsx_number_parse(datatype, text, false, out, error);
    return code == TSR_MISMATCH ? fail_no_value(datatype, value, error) : code;
  }
  default: return fail_no_value(datatype, value, error);
  }
  if (tsr_datatype_size(datatype) == 8) {
    memcpy(out, &d, 8);
    return TSR_OK;
  }
  if (isinf(f) && !isinf(d)) {
    describe_value(value, text);
    return tsx_fail(error, TSR_RANGE, "%s is outside FLOAT32: %.9g to %.9g", text, (double)-FLT_MAX, (double)FLT_MAX);
  }
  memcpy(out, &f, 4);
  return TSR_OK;
}

/* ---- Datetimes and times ----------------------------------------------------------------------------------------- */

static int convert_iso(tsr_datatype datatype, sqlite3_value *value, uint8_t *out, tsr_error *error) {
  int64_t v;
  const char *p = (const char *)sqlite3_value_text(value);
  if (!p) return tsx_out_of_memory(error);
  TSX_TRY(tsr_datetime_parse(datatype, p, (uint64_t)sqlite3_value_bytes(value), &v, error));
  memcpy(out, &v, 8);
  return TSR_OK;
}

static int convert_time(tsr_datatype datatype, bool integers, sqlite3_value *value, uint8_t *out, tsr_error *error) {
  int type = sqlite3_value_type(value);
  if (integers) {
    int code = convert_integer(datatype, value, out, error);
    if (code != TSR_MISMATCH || type != SQLITE_TEXT) return code;
  }
  if (type == SQLITE_TEXT) return convert_iso(datatype, value, out, error);
  if (tsx_whole_number(value)) return tsx_time_of_integer(datatype, sqlite3_value_int64(value), out, error);
  return fail_no_value(datatype, value, error);
}

/* ---- Cells ------------------------------------------------------------------------------------------------------- */

typedef struct bytes { /* contents of a cell; borrowed */
  const uint8_t *data;
  uint64_t size;
} bytes;

/* Grows the field's buffer to at least `size` bytes. */
static int reserve_room(cell_field *f, uint64_t size, tsr_error *error) {
  if (size <= f->room_size) return TSR_OK;
  uint8_t *room = sqlite3_realloc64(f->room, size * 2);
  if (!room) return tsx_out_of_memory(error);
  f->room = room;
  f->room_size = size * 2;
  return TSR_OK;
}

static int wrong_count(tsr_datatype datatype, uint64_t count, uint32_t expected, tsr_error *error) {
  return tsx_fail(error, TSR_RANGE, "%llu %s value%s given, a cell holds %u", (unsigned long long)count,
                  tsr_datatype_name(datatype), count == 1 ? " is" : "s are", (unsigned)expected);
}

/* Converts a string or opaque bytes. Pads a string that is too short for a fixed length with NULs. */
static int convert_bytes(cell_field *f, tsr_datatype datatype, uint32_t values_per_cell, sqlite3_value *value,
                         bytes *out, tsr_error *error) {
  bool is_text = tsr_datatype_kind(datatype) == TSR_KIND_TEXT;
  int type = sqlite3_value_type(value), code;
  uint64_t each = tsr_datatype_size(datatype);
  if (is_text ? type == SQLITE_BLOB : type != SQLITE_BLOB && type != SQLITE_TEXT)
    return fail_no_value(datatype, value, error);
  const uint8_t *p = type == SQLITE_BLOB ? sqlite3_value_blob(value) : sqlite3_value_text(value);
  uint64_t size = (uint64_t)sqlite3_value_bytes(value);
  if (!p && (size || type != SQLITE_BLOB)) return tsx_out_of_memory(error);
  if (each > 1) {
    if ((code = reserve_room(f, size * 4 + 8, error)) < 0) return code;
    if ((code = tsx_text_convert(datatype, (const char *)p, size, f->room, &size, error)) < 0) return code;
    p = f->room;
  }
  uint64_t fixed_size = values_per_cell * each;
  if (values_per_cell != TSR_VARIABLE && size != fixed_size) {
    if (size > fixed_size && is_text) {
      char text[96];
      describe_value(value, text);
      return tsx_fail(error, TSR_RANGE, "%s is longer than %s[%u]", text, tsr_datatype_name(datatype),
                      (unsigned)values_per_cell);
    }
    if (size > fixed_size || !is_text) return wrong_count(datatype, size, values_per_cell, error);
    if ((code = reserve_room(f, fixed_size, error)) < 0) return code;
    if (p != f->room) memcpy(f->room, p, size);
    memset(f->room + size, 0, fixed_size - size);
    p = f->room;
    size = fixed_size;
  }
  *out = (bytes){size ? p : (const uint8_t *)"", size};
  return TSR_OK;
}

/* Converts several numbers: a JSON array, or a BLOB of the values' bytes. */
static int convert_vector(cell_field *f, tsr_datatype datatype, uint32_t values_per_cell, bool integers,
                          sqlite3_value *value, bytes *out, tsr_error *error) {
  uint64_t each = tsr_datatype_size(datatype), size, count;
  int type = sqlite3_value_type(value), code;
  if (type == SQLITE_BLOB) {
    size = (uint64_t)sqlite3_value_bytes(value);
    const uint8_t *p = sqlite3_value_blob(value); /* NULL if those of zeroblob() find no memory */
    if (!p && size) return tsx_out_of_memory(error);
    if (size % each)
      return tsx_fail(error, TSR_MISMATCH, "%llu bytes are not a whole number of %s values of %llu bytes each",
                      (unsigned long long)size, tsr_datatype_name(datatype), (unsigned long long)each);
    for (uint64_t i = 0; i < size && tsr_datatype_kind(datatype) == TSR_KIND_BOOLEAN; i++)
      if (p[i] > 1) return tsx_fail(error, TSR_RANGE, "%u is outside BOOL: 0 to 1", p[i]);
    count = size / each;
    *out = (bytes){size ? p : (const uint8_t *)"", size};
  } else {
    const char *text = type == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
    size = (uint64_t)sqlite3_value_bytes(value);
    if (!text || strlen(text) != size || text[strspn(text, " \t\r\n")] != '[') {
      char given[96];
      describe_value(value, given);
      return tsx_fail(error, TSR_MISMATCH, "%s is not a JSON array of %s", given, tsr_datatype_name(datatype));
    }
    if ((code = reserve_room(f, size * 4 + 8, error)) < 0) return code;
    if ((code = tsx_vector_parse(datatype, text, integers, f->room, &count, error)) < 0) {
      char given[96];
      describe_value(value, given);
      return prefix(error, given);
    }
    *out = (bytes){f->room, count * each};
  }
  if (values_per_cell != TSR_VARIABLE && count != values_per_cell)
    return wrong_count(datatype, count, values_per_cell, error);
  return TSR_OK;
}

/* Converts a value to a cell of this datatype. *out points into the field, or into the value. */
static int convert_cell(cell_field *f, tsr_datatype datatype, uint32_t values_per_cell, bool integers,
                        sqlite3_value *value, bytes *out, tsr_error *error) {
  if (tsx_datatype_is_bytes(datatype)) return convert_bytes(f, datatype, values_per_cell, value, out, error);
  if (values_per_cell != 1) return convert_vector(f, datatype, values_per_cell, integers, value, out, error);
  *out = (bytes){f->value, tsr_datatype_size(datatype)};
  switch (tsr_datatype_kind(datatype)) {
  case TSR_KIND_FLOAT: return convert_float(datatype, f->field->is_dimension, value, f->value, error);
  case TSR_KIND_DATETIME:
  case TSR_KIND_TIME: return convert_time(datatype, integers, value, f->value, error);
  default: return convert_integer(datatype, value, f->value, error);
  }
}

/* ---- Values of enumerations -------------------------------------------------------------------------------------- */

static bool is_value(const tsr_enumeration *e, uint64_t i, bytes wanted) {
  return e->offsets[i + 1] - e->offsets[i] == wanted.size && !memcmp(e->data + e->offsets[i], wanted.data, wanted.size);
}

/* Returns the slot at which the search for a value begins. The address of the index seeds the hash, so that nobody can
 * choose values that all collide. */
static uint64_t slot_of(const cell_field *f, const void *wanted, uint64_t size) {
  return tsr_hash((uintptr_t)f->index, wanted, size) & f->index_mask;
}

static int make_index(cell_field *f, tsr_error *error) {
  const tsr_enumeration *e = f->enumeration;
  uint64_t slots = 16;
  while (slots < e->count * 2) slots *= 2;
  if (!(f->index = sqlite3_malloc64(slots * sizeof *f->index))) return tsx_out_of_memory(error);
  memset(f->index, 0, slots * sizeof *f->index);
  f->index_mask = slots - 1;
  for (uint64_t i = 0; i < e->count; i++) {
    uint64_t at = slot_of(f, e->data + e->offsets[i], e->offsets[i + 1] - e->offsets[i]);
    while (f->index[at]) at = (at + 1) & f->index_mask;
    f->index[at] = (uint32_t)i + 1;
  }
  return TSR_OK;
}

/* Finds the code of a value; it is the number of values if none matches. */
static int find_code(cell_field *f, bytes wanted, uint64_t *found, tsr_error *error) {
  const tsr_enumeration *e = f->enumeration;
  *found = e->count;
  if (e->count <= LINEAR_MAX) {
    for (uint64_t i = 0; i < e->count && *found == e->count; i++)
      if (is_value(e, i, wanted)) *found = i;
    return TSR_OK;
  }
  if (!f->index && make_index(f, error) < 0) return error->code;
  for (uint64_t at = slot_of(f, wanted.data, wanted.size); f->index[at]; at = (at + 1) & f->index_mask)
    if (is_value(e, f->index[at] - 1, wanted)) {
      *found = f->index[at] - 1;
      break;
    }
  return TSR_OK;
}

static int convert_enumerated(tsx_row *row, cell_field *f, sqlite3_value *value, tsr_error *error) {
  const tsr_enumeration *e = f->enumeration;
  bytes wanted;
  uint64_t code_number = e->count;
  bool integers = row->table->options.shows.datetimes_integer;
  int code = convert_cell(f, shown_of(row, e->datatype), e->values_per_label, integers, value, &wanted, error);
  if (code >= 0) code = find_code(f, wanted, &code_number, error);
  if (code == TSR_NOMEM) return code;
  if (code_number == e->count) {
    char text[96];
    describe_value(value, text);
    return tsx_fail(error, TSR_MISMATCH,
                    "%s is not among the %llu labels of the enumeration %.100s: tessera_extend_enumeration adds labels",
                    text, (unsigned long long)e->count, e->name);
  }
  memcpy(f->value, &code_number, tsr_datatype_size(f->field->datatype));
  return TSR_OK;
}

/* ---- Setting a row ----------------------------------------------------------------------------------------------- */

static void set_bytes(tsx_row *row, uint32_t field, bytes cell) {
  cell_field *f = &row->fields[field];
  row->columns[field].values = cell.data;
  row->columns[field].validity = NULL;
  f->offsets[1] = cell.size;
}

/* Returns true if a cell is one FLOAT, which may be NaN. */
static bool is_real(const cell_field *f) {
  return tsr_datatype_kind(f->field->datatype) == TSR_KIND_FLOAT && f->field->values_per_cell == 1 && !f->enumeration;
}

int tsx_row_set_null(tsx_row *row, uint32_t field, bool insert, tsr_error *error) {
  cell_field *f = &row->fields[field];
  const tsr_field *description = f->field;
  bool has_fill = description->fill && (!description->cell_size || description->fill_size == description->cell_size);
  if (description->enumeration && description->nullable)
    has_fill = false; /* some readers look up the value of a null cell's code: code 0 has one */
  if (f->default_coordinate) {
    memcpy(f->value, f->default_coordinate, description->cell_size);
    set_bytes(row, field, (bytes){f->value, description->cell_size});
    return TSR_OK;
  }
  if (description->is_dimension)
    return tsx_fail(error, TSR_CONSTRAINT, "%s.%s: NULL, but a dimension is never NULL: give a coordinate",
                    row->table->name, f->name);
  if (!description->nullable && !(insert && f->has_default))
    return tsx_fail(error, TSR_CONSTRAINT, "%s.%s: NULL, but it is NOT NULL%s: give a value%s", row->table->name,
                    f->name, insert ? ", and it has no DEFAULT (the datatype's own fill value counts as none)" : "",
                    is_real(f) ? ", or 'NaN', which reads as NULL" : "");
  bytes cell = {description->fill, description->fill_size};
  if (description->nullable && !description->cell_size) cell = (bytes){(const uint8_t *)"", 0};
  if (!has_fill && description->cell_size) {
    TSX_TRY(reserve_room(f, description->cell_size, error));
    memset(f->room, 0, description->cell_size);
    cell.data = f->room;
  }
  set_bytes(row, field, cell);
  if (description->nullable) row->columns[field].validity = &null_cell;
  return TSR_OK;
}

/* Sets the cell without conversion if the field's shortcut fits the value; else returns false. `type` is the
 * value's. */
static inline bool set_directly(tsx_row *row, uint32_t field, sqlite3_value *value, int type) {
  cell_field *f = &row->fields[field];
  if (type == SQLITE_INTEGER && f->shortcut == INTEGER64) {
    const int64_t number = sqlite3_value_int64(value);
    if (number < f->low || number > f->high) return false;
    memcpy(f->value, &number, sizeof number);
  } else if (type == SQLITE_FLOAT && f->shortcut == REAL64) {
    const double number = sqlite3_value_double(value);
    memcpy(f->value, &number, sizeof number);
    normalize_zero(f->field, f->value);
  } else if (type == SQLITE_FLOAT && f->shortcut == REAL32) {
    const double number = sqlite3_value_double(value);
    const float narrow = (float)number;
    if (isinf(narrow)) return false;
    memcpy(f->value, &narrow, sizeof narrow);
    normalize_zero(f->field, f->value);
  } else if (type == SQLITE_TEXT && f->shortcut == TEXT) {
    const uint8_t *text = sqlite3_value_text(value);
    if (!text) return false;
    row->columns[field].values = text;
    row->columns[field].validity = NULL;
    f->offsets[1] = (uint64_t)sqlite3_value_bytes(value);
    return true;
  } else {
    return false;
  }
  row->columns[field].values = f->value;
  row->columns[field].validity = NULL;
  return true;
}

/* Returns true if integers are raw values of a datetime or time, as the table shows them. */
static bool shows_integers(const tsx_row *row, const tsr_field *field) {
  const tsx_option_shows *shows = &row->table->options.shows;
  return shows->datetimes_integer || tsx_shows_duration(field, shows);
}

int tsx_row_set(tsx_row *row, uint32_t field, sqlite3_value *value, bool insert, tsr_error *error) {
  const int type = sqlite3_value_type(value);
  if (type == SQLITE_NULL) return tsx_row_set_null(row, field, insert, error);
  if (set_directly(row, field, value, type)) return TSR_OK;
  cell_field *f = &row->fields[field];
  bytes cell = {f->value, 0};
  int code = f->enumeration ? convert_enumerated(row, f, value, error)
                            : convert_cell(f, shown_of(row, f->field->datatype), f->field->values_per_cell,
                                           shows_integers(row, f->field), value, &cell, error);
  if (code < 0) {
    char where[200];
    sqlite3_snprintf(sizeof where, where, "%.90s.%.100s", row->table->name, f->name);
    return prefix(error, where);
  }
  if (cell.data == f->value) normalize_zero(f->field, f->value);
  set_bytes(row, field, cell);
  return TSR_OK;
}

int tsx_row_set_all(tsx_row *row, sqlite3_value **values, tsr_error *error) {
  for (uint32_t c = 0; c < row->field_count; c++) {
    const uint32_t field = (uint32_t)row->field_of[c];
    if (set_directly(row, field, values[c], sqlite3_value_type(values[c]))) continue;
    TSX_TRY(tsx_row_set(row, field, values[c], true, error));
  }
  return TSR_OK;
}

void tsx_row_default_coordinate(tsx_row *row, uint32_t dimension, const uint8_t *coordinate) {
  row->fields[dimension].default_coordinate = coordinate;
}

void tsx_row_copy(tsx_row *row, uint32_t field, const tsr_column *cells, uint64_t index) {
  uint64_t i = cells->constant ? 0 : index;
  bytes cell = {cells->values, cells->cell_size};
  if (cells->offsets) {
    cell.data += cells->offsets[i];
    cell.size = cells->offsets[i + 1] - cells->offsets[i];
  } else {
    cell.data += i * cells->cell_size;
  }
  set_bytes(row, field, cell);
  if (cells->validity && !cells->validity[i]) row->columns[field].validity = &null_cell;
}

/* ---- Making a row ------------------------------------------------------------------------------------------------ */

/* Chooses the shortcut of a field, unless its cells are codes. */
static void find_shortcut(const tsx_row *row, cell_field *f) {
  const tsr_field *field = f->field;
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  if (f->enumeration) return;
  if (tsx_datatype_is_bytes(field->datatype)) {
    const bool text = kind == TSR_KIND_TEXT && tsr_datatype_size(field->datatype) == 1;
    if (text && field->values_per_cell == TSR_VARIABLE) f->shortcut = TEXT;
  } else if (field->values_per_cell == 1 && kind == TSR_KIND_FLOAT) {
    f->shortcut = tsr_datatype_size(field->datatype) == 8 ? REAL64 : REAL32;
  } else if (field->values_per_cell == 1 && kind != TSR_KIND_DATETIME && kind != TSR_KIND_TIME) {
    wide low, high;
    limits(shown_of(row, field->datatype), &low, &high);
    f->shortcut = INTEGER64;
    f->low = (int64_t)low;
    f->high = high > INT64_MAX ? INT64_MAX : (int64_t)high;
  }
}

static int make_field(tsx_row *row, uint32_t i, char **names, tsr_error *error) {
  tsx_table *table = row->table;
  cell_field *f = &row->fields[i];
  const tsr_field *field = f->field = &row->schema->fields[i];
  f->name = names[i];
  names[i] = NULL;
  f->has_default = tsr_field_has_default(field);
  f->column = -1;
  for (uint32_t c = 0; c < table->column_count && f->column < 0; c++)
    if (tsx_column_shows(&table->columns[c], field) && /* several attributes may be anonymous: their numbers decide */
        (*field->name || (table->columns[c].field == i && row->schema == table->schema)))
      f->column = (int)c;
  if (f->column >= 0) row->field_of[f->column] = (int)i;
  row->columns[i] = (tsr_column){.cell_size = field->cell_size, .offsets = field->cell_size ? NULL : f->offsets};
  int code = TSR_OK;
  if (field->enumeration && !table->options.shows.enums_code && field->values_per_cell == 1)
    code = tsr_array_enumeration(table->array->core, row->schema, field->enumeration, &f->enumeration, error);
  if (code >= 0) find_shortcut(row, f);
  return code;
}

int tsx_row_make(tsx_table *table, const tsr_schema *schema, tsx_row **out, tsr_error *error) {
  uint32_t fields = schema->dimension_count + schema->attribute_count;
  uint64_t size =
      sizeof(tsx_row) + fields * (sizeof(cell_field) + sizeof(tsr_column)) + table->column_count * sizeof(int);
  tsx_row *row = sqlite3_malloc64(size);
  char **names = tsx_names_make(schema);
  if (!row || !names) {
    sqlite3_free(row);
    tsx_names_free(names, schema);
    return tsx_out_of_memory(error);
  }
  memset(row, 0, size);
  row->table = table;
  row->schema = schema;
  row->field_count = fields;
  row->fields = (cell_field *)(row + 1);
  row->columns = (tsr_column *)(row->fields + fields);
  row->field_of = (int *)(row->columns + fields);
  for (uint32_t c = 0; c < table->column_count; c++) row->field_of[c] = -1;
  int code = TSR_OK;
  for (uint32_t i = 0; i < fields && code >= 0; i++) code = make_field(row, i, names, error);
  tsx_names_free(names, schema);
  if (code < 0) {
    tsx_row_free(row);
    return code;
  }
  row->complete = fields == table->column_count;
  for (uint32_t i = 0; i < fields; i++) row->complete = row->complete && row->fields[i].column >= 0;
  *out = row;
  return TSR_OK;
}

void tsx_row_free(tsx_row *row) {
  for (uint32_t i = 0; row && i < row->field_count; i++) {
    sqlite3_free(row->fields[i].name);
    sqlite3_free(row->fields[i].room);
    sqlite3_free(row->fields[i].index);
  }
  sqlite3_free(row);
}

const tsr_schema *tsx_row_schema(const tsx_row *row) { return row->schema; }
const tsr_column *tsx_row_columns(const tsx_row *row) { return row->columns; }
int tsx_row_field(const tsx_row *row, uint32_t column) { return row->field_of[column]; }
bool tsx_row_is_complete(const tsx_row *row) { return row->complete; }
int tsx_row_column(const tsx_row *row, uint32_t field) { return row->fields[field].column; }
