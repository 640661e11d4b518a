/* value.c: how the cells of a field appear as SQL values. Only this file makes SQL values of cells. */
#include "values/value.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"

/* ---- How a field appears ----------------------------------------------------------------------------------------- */

static tsx_form number_form(tsr_datatype datatype) {
  switch (tsr_datatype_kind(datatype)) {
  case TSR_KIND_FLOAT: return tsr_datatype_size(datatype) == 4 ? TSX_FLOAT32 : TSX_FLOAT64;
  case TSR_KIND_BOOLEAN: return TSX_UINT8;
  case TSR_KIND_UNSIGNED:
    switch (tsr_datatype_size(datatype)) {
    case 1: return TSX_UINT8;
    case 2: return TSX_UINT16;
    case 4: return TSX_UINT32;
    default: return TSX_UINT64;
    }
  default:
    switch (tsr_datatype_size(datatype)) {
    case 1: return TSX_INT8;
    case 2: return TSX_INT16;
    case 4: return TSX_INT32;
    default: return TSX_INT64;
    }
  }
}

int tsx_times_known(const tsr_schema *schema, tsr_datatype datatype, const char *name, const tsx_option_shows *shows,
                    tsr_error *error) {
  if (!schema->durations_unknown || tsr_datatype_kind(datatype) != TSR_KIND_TIME) return TSR_OK;
  if (shows->datetimes_integer || shows->times != TSX_TIMES_DECLARED) return TSR_OK;
  return tsx_fail(error, TSR_CORRUPT,
                  "column '%.100s' has durations or times of day, and damaged metadata do not say which (%.200s): give "
                  "the option datetimes, choose other columns, or remove that file, whose metadata are then lost",
                  name, schema->durations_unknown);
}

bool tsx_shows_duration(const tsr_field *field, const tsx_option_shows *shows) {
  if (tsr_datatype_kind(field->datatype) != TSR_KIND_TIME || shows->datetimes_integer) return false;
  return shows->times == TSX_TIMES_INTEGER || (shows->times == TSX_TIMES_DECLARED && field->duration);
}

static tsx_form form_of(tsr_datatype datatype, uint32_t values_per_cell, const tsx_option_shows *shows) {
  switch (tsr_datatype_kind(datatype)) {
  case TSR_KIND_TEXT:
    return tsr_datatype_size(datatype) == 1 ? TSX_TEXT : tsr_datatype_size(datatype) == 2 ? TSX_TEXT16 : TSX_TEXT32;
  case TSR_KIND_BYTES: return TSX_BLOB;
  default: break;
  }
  if (values_per_cell != 1) return shows->vectors_blob ? TSX_BLOB : TSX_JSON;
  tsr_kind kind = tsr_datatype_kind(datatype);
  if ((kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) && !shows->datetimes_integer) return TSX_DATETIME;
  if (datatype == TSR_UINT64 && shows->uint64_signed) return TSX_UINT64_SIGNED;
  return number_form(datatype);
}

/* Returns true if a UINT64 field may have values above the signed range. */
static bool may_pass_signed(const tsr_field *field) {
  return !field->has_domain || tsx_load_unsigned(field->high, 8) > INT64_MAX;
}

/* UINT64 above the signed range needs a column without affinity. An empty type has none; BLOB has none either, but
 * hosts that read declared types would take the column for one of blobs. */
static const char *declared_of(tsx_form form, bool past_signed) {
  switch (form) {
  case TSX_FLOAT32:
  case TSX_FLOAT64: return "REAL";
  case TSX_TEXT:
  case TSX_TEXT16:
  case TSX_TEXT32:
  case TSX_DATETIME:
  case TSX_JSON: return "TEXT";
  case TSX_BLOB: return "BLOB";
  case TSX_UINT64: return past_signed ? "" : "INTEGER";
  default: return "INTEGER";
  }
}

void tsx_column_choose(const tsr_field *field, const tsr_enumeration *enumeration, const tsx_option_shows *shows,
                       tsx_column *column) {
  tsx_option_shows durations = *shows;
  column->description = field;
  column->nat_is_null = tsx_shows_duration(field, shows);
  if (column->nat_is_null) {
    durations.datetimes_integer = true;
    shows = &durations;
  }
  column->datetimes_integer = shows->datetimes_integer;
  column->uint64_signed = shows->uint64_signed;
  column->enumeration = enumeration;
  if (enumeration) {
    column->form = TSX_ENUMERATED;
    column->value_form = form_of(enumeration->datatype, enumeration->values_per_label, shows);
    column->declared = declared_of(column->value_form, true);
  } else {
    column->form = form_of(field->datatype, field->values_per_cell, shows);
    column->mixed = (column->form == TSX_UINT64 || column->form == TSX_UINT64_SIGNED) && may_pass_signed(field);
    column->declared = declared_of(column->form, column->mixed);
  }
}

bool tsx_column_shows(const tsx_column *column, const tsr_field *field) {
  const tsr_field *known = column->description;
  return known->is_dimension == field->is_dimension && known->datatype == field->datatype &&
         known->values_per_cell == field->values_per_cell && !strcmp(known->name, field->name);
}

/* ---- Cells as results -------------------------------------------------------------------------------------------- */

void tsx_result_text(sqlite3_context *context, const char *text) {
  if (text) sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

void tsx_result_string(sqlite3_context *context, sqlite3_str *out) {
  int code = sqlite3_str_errcode(out), length = sqlite3_str_length(out);
  char *text = sqlite3_str_finish(out);
  if (code == SQLITE_TOOBIG) sqlite3_result_error_toobig(context);
  else if (code != SQLITE_OK) sqlite3_result_error_nomem(context);
  else if (!text) sqlite3_result_text(context, "", 0, SQLITE_STATIC);
  else sqlite3_result_text64(context, text, (sqlite3_uint64)length, sqlite3_free, SQLITE_UTF8);
}

static void result_json(sqlite3_context *context, const tsx_column *column, tsr_datatype datatype, const uint8_t *p,
                        uint64_t size) {
  sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
  uint64_t each = tsr_datatype_size(datatype);
  sqlite3_str_appendchar(out, 1, '[');
  for (uint64_t i = 0; i + each <= size; i += each) {
    if (i) sqlite3_str_appendchar(out, 1, ',');
    if (column->nat_is_null && tsx_load_signed(p + i, 8) == INT64_MIN) sqlite3_str_appendall(out, "null");
    else tsx_json_value(out, datatype, p + i, column->datetimes_integer);
  }
  sqlite3_str_appendchar(out, 1, ']');
  tsx_result_string(context, out);
}

/* Shows UTF-16 or UTF-32 as UTF-8. */
static void result_wide_text(sqlite3_context *context, tsr_datatype datatype, const uint8_t *p, uint64_t size) {
  uint8_t *out = sqlite3_malloc64(size / tsr_datatype_size(datatype) * 4 + 4);
  if (!out) {
    sqlite3_result_error_nomem(context);
    return;
  }
  const uint64_t n = tsr_text_to_utf8(datatype, p, size, out);
  sqlite3_result_text64(context, (char *)out, n, sqlite3_free, SQLITE_UTF8);
}

/* Not inlined, so that tsx_number_result, which a scan calls for each value, needs no stack. */
static __attribute__((noinline)) void result_above_signed(sqlite3_context *context, uint64_t v) {
  char text[24];
  sqlite3_snprintf(sizeof text, text, TSX_UINT64_PRINTED, (unsigned long long)v);
  sqlite3_result_text(context, text, 20, SQLITE_TRANSIENT);
}

void tsx_result_unsigned(sqlite3_context *context, uint64_t v) {
  if (v <= INT64_MAX) sqlite3_result_int64(context, (sqlite3_int64)v);
  else result_above_signed(context, v);
}

static void result_datetime(sqlite3_context *context, tsr_datatype datatype, int64_t v) {
  char text[48];
  int size = tsr_datetime_print(datatype, v, text);
  if (size) sqlite3_result_text(context, text, size, SQLITE_TRANSIENT);
  else if (v == INT64_MIN) sqlite3_result_null(context); /* NaT */
  else sqlite3_result_int64(context, v);
}

void tsx_number_result(sqlite3_context *context, tsx_form form, const uint8_t *cells, uint64_t i) {
  float f;
  double d;
  switch (form) {
  case TSX_INT8: sqlite3_result_int(context, ((const int8_t *)cells)[i]); break;
  case TSX_INT16: sqlite3_result_int(context, (int)tsx_load_signed(cells + 2 * i, 2)); break;
  case TSX_INT32: sqlite3_result_int(context, (int)tsx_load_signed(cells + 4 * i, 4)); break;
  case TSX_INT64:
  case TSX_UINT64_SIGNED: sqlite3_result_int64(context, tsx_load_signed(cells + 8 * i, 8)); break;
  case TSX_UINT8: sqlite3_result_int(context, cells[i]); break;
  case TSX_UINT16: sqlite3_result_int(context, (int)tsx_load_unsigned(cells + 2 * i, 2)); break;
  case TSX_UINT32: sqlite3_result_int64(context, (sqlite3_int64)tsx_load_unsigned(cells + 4 * i, 4)); break;
  case TSX_UINT64: tsx_result_unsigned(context, tsx_load_unsigned(cells + 8 * i, 8)); break;
  case TSX_FLOAT32:
    memcpy(&f, cells + 4 * i, 4);
    sqlite3_result_double(context, f);
    break;
  case TSX_FLOAT64:
    memcpy(&d, cells + 8 * i, 8);
    sqlite3_result_double(context, d);
    break;
  default: break; /* the other forms are not numbers */
  }
}

/* Makes `size` bytes at `p`, one cell of this datatype, the result in this form. */
static void result_form(sqlite3_context *context, const tsx_column *column, tsx_form form, tsr_datatype datatype,
                        const uint8_t *p, uint64_t size) {
  switch (form) {
  case TSX_TEXT:
    sqlite3_result_text64(context, size ? (const char *)p : "", size, SQLITE_TRANSIENT, SQLITE_UTF8);
    break;
  case TSX_TEXT16:
  case TSX_TEXT32: result_wide_text(context, datatype, p, size); break;
  case TSX_BLOB: sqlite3_result_blob64(context, size ? (const void *)p : "", size, SQLITE_TRANSIENT); break;
  case TSX_DATETIME: result_datetime(context, datatype, tsx_load_signed(p, 8)); break;
  case TSX_JSON:
    datatype = tsx_datatype_shown(datatype, column->uint64_signed);
    result_json(context, column, datatype, p, size);
    break;
  case TSX_ENUMERATED: break;
  default: tsx_number_result(context, form, p, 0);
  }
}

static void result_enumerated(sqlite3_context *context, const tsx_column *column, const uint8_t *p) {
  const tsr_enumeration *enumeration = column->enumeration;
  uint64_t size = tsr_datatype_size(column->description->datatype);
  bool is_signed = tsr_datatype_kind(column->description->datatype) == TSR_KIND_SIGNED;
  uint64_t code = is_signed ? (uint64_t)tsx_load_signed(p, size) : tsx_load_unsigned(p, size);
  if (code >= enumeration->count) { /* includes negative codes */
    sqlite3_result_null(context);
    return;
  }
  const uint64_t *o = enumeration->offsets + code;
  result_form(context, column, column->value_form, enumeration->datatype, enumeration->data + o[0], o[1] - o[0]);
}

/* Returns true for the NaT of a column that shows durations as numbers. */
static bool is_nat(const tsx_column *column, const uint8_t *p) {
  return column->nat_is_null && column->form == TSX_INT64 && tsx_load_signed(p, 8) == INT64_MIN;
}

void tsx_column_result(sqlite3_context *context, const tsx_column *column, const tsr_column *cells, uint64_t index,
                       bool fill_unwritten) {
  if (cells->unwritten && !fill_unwritten) {
    sqlite3_result_null(context);
    return;
  }
  uint64_t i = cells->constant ? 0 : index;
  if (cells->validity && !cells->validity[i]) {
    sqlite3_result_null(context);
    return;
  }
  const uint8_t *p = cells->values;
  uint64_t size = cells->cell_size;
  if (cells->offsets) {
    p += cells->offsets[i];
    size = cells->offsets[i + 1] - cells->offsets[i];
  } else {
    p += i * size;
  }
  if (column->form == TSX_ENUMERATED) result_enumerated(context, column, p);
  else if (is_nat(column, p)) sqlite3_result_null(context);
  else result_form(context, column, column->form, column->description->datatype, p, size);
}

void tsx_value_result(sqlite3_context *context, tsr_datatype datatype, uint32_t values_per_cell, const void *bytes,
                      uint64_t size) {
  static const tsx_option_shows shows = {0};
  static const tsx_column column = {0};
  tsx_form form = form_of(datatype, values_per_cell, &shows);
  bool is_single = form != TSX_TEXT && form != TSX_TEXT16 && form != TSX_TEXT32 && form != TSX_BLOB && form != TSX_JSON;
  if (is_single && size < tsr_datatype_size(datatype)) sqlite3_result_null(context);
  else result_form(context, &column, form, datatype, bytes, size);
}

/* Returns true for NaN and NaT, which SQL shows as NULL although the cell has a value. */
static bool value_reads_as_null(tsx_form form, const uint8_t *p) {
  float f;
  double d;
  switch (form) {
  case TSX_FLOAT32: memcpy(&f, p, sizeof f); return f != f;
  case TSX_FLOAT64: memcpy(&d, p, sizeof d); return d != d;
  case TSX_DATETIME: return tsx_load_signed(p, 8) == INT64_MIN;
  default: return false;
  }
}

bool tsx_column_is_null(const tsx_column *column, const tsr_column *cells, uint64_t index, bool fill_unwritten) {
  const uint64_t i = cells->constant ? 0 : index;
  if ((cells->unwritten && !fill_unwritten) || (cells->validity && !cells->validity[i])) return true;
  if (cells->offsets) return false;
  const uint8_t *p = (const uint8_t *)cells->values + i * cells->cell_size;
  if (column->form != TSX_ENUMERATED) return is_nat(column, p) || value_reads_as_null(column->form, p);
  const tsr_enumeration *enumeration = column->enumeration;
  const tsr_datatype datatype = column->description->datatype;
  const uint64_t size = tsr_datatype_size(datatype);
  const uint64_t code =
      tsr_datatype_kind(datatype) == TSR_KIND_SIGNED ? (uint64_t)tsx_load_signed(p, size) : tsx_load_unsigned(p, size);
  return code >= enumeration->count ||
         value_reads_as_null(column->value_form, enumeration->data + enumeration->offsets[code]);
}

/* Returns true if SQL shows each value of this form as another value than NULL. */
static bool is_never_null(tsx_form form) {
  return form == TSX_TEXT || (tsx_form_is_number(form) && form != TSX_FLOAT32 && form != TSX_FLOAT64);
}

bool tsx_column_never_null(const tsx_column *column) {
  const tsr_field *field = column->description;
  if (!field->is_dimension && !column->has_every_cell) return false;
  if (column->form == TSX_DATETIME || (column->nat_is_null && column->form == TSX_INT64)) /* INT64_MIN is NaT: NULL */
    return field->has_domain && tsx_load_signed(field->low, 8) > INT64_MIN;
  return column->form == TSX_ENUMERATED ? column->knows_every_code && is_never_null(column->value_form)
                                        : is_never_null(column->form);
}
