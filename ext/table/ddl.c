/* ddl.c: schemas as SQL text: filters, datatypes, and the CREATE VIRTUAL TABLE statement that would make such an array.
 *
 * CREATE accepts every statement that this file makes. The new array differs where CREATE cannot express the schema: an
 * anonymous attribute gets the name of its column; the codes of an enumeration get the datatype that CREATE chooses for
 * their number; dimension labels without an order are left out; a format version that cannot be written becomes the
 * default one; define.c says what else is left out or replaced.
 *
 * Sections: numbers; filters; words and literals; columns; the statement. */
#include "table/table_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "values/value.h"
#include "sql/names.h"
#include "sql/options.h"
#include "definition/define.h"
#include "database/store_sqlite.h"

#define DDL_CHUNK_DEFAULT 65536
#define VERSION_DEFAULT   22

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

/* Appends the shortest text that reads back as this number; with `single`, as this FLOAT32. */
static void append_float(sqlite3_str *out, double value, bool single) {
  char text[TSR_REAL_SIZE], local[TSR_REAL_SIZE + 16];
  int digits = single ? 6 : 15;
  if (isnan(value)) sqlite3_str_appendall(out, "NULL");
  else if (isinf(value)) sqlite3_str_appendall(out, value < 0 ? "-9e999" : "9e999");
  else {
    for (; digits < 17; digits++) { /* printed and read in the same locale, the host's */
      snprintf(local, sizeof local, "%.*g", digits, value);
      if (single ? strtof(local, NULL) == (float)value : strtod(local, NULL) == value) break;
    }
    tsr_real_print(value, digits, text);
    sqlite3_str_appendall(out, text);
  }
}

static double load_float(const void *p, uint64_t size) {
  float f;
  double d;
  if (size == 8) {
    memcpy(&d, p, 8);
    return d;
  }
  memcpy(&f, p, 4);
  return f;
}

/* ---- Filters ----------------------------------------------------------------------------------------------------- */

static void append_filter(sqlite3_str *out, const tsr_filter *filter) {
  sqlite3_str_appendall(out, tsx_filter_name(filter->type));
  switch (filter->type) {
  case TSR_FILTER_GZIP:
  case TSR_FILTER_ZSTD:
  case TSR_FILTER_LZ4:
  case TSR_FILTER_BZIP2:
    if (filter->level != -1) sqlite3_str_appendf(out, "(%d)", (int)filter->level);
    break;
  case TSR_FILTER_DELTA:
  case TSR_FILTER_DOUBLE_DELTA:
    if (filter->reinterpret != TSR_ANY)
      sqlite3_str_appendf(out, "(%s)", tsr_datatype_name((tsr_datatype)filter->reinterpret));
    break;
  case TSR_FILTER_BIT_WIDTH_REDUCTION:
  case TSR_FILTER_POSITIVE_DELTA: sqlite3_str_appendf(out, "(%u)", (unsigned)filter->window); break;
  case TSR_FILTER_SCALE_FLOAT:
    sqlite3_str_appendf(out, "(%llu, ", (unsigned long long)filter->byte_width);
    append_float(out, filter->scale, false);
    sqlite3_str_appendall(out, ", ");
    append_float(out, filter->offset, false);
    sqlite3_str_appendchar(out, 1, ')');
    break;
  default: break;
  }
}

void tsx_filters_append(sqlite3_str *out, const tsr_pipeline *pipeline) {
  bool any = false;
  if (pipeline->max_chunk_size != DDL_CHUNK_DEFAULT)
    sqlite3_str_appendf(out, "chunk(%u), ", (unsigned)pipeline->max_chunk_size);
  for (uint32_t i = 0; i < pipeline->count; i++) {
    if (pipeline->filters[i].type == TSR_FILTER_NONE) continue;
    if (any) sqlite3_str_appendall(out, ", ");
    append_filter(out, &pipeline->filters[i]);
    any = true;
  }
  if (!any) sqlite3_str_appendall(out, "none");
}

const tsr_pipeline *tsx_filters_of(const tsr_schema *schema, uint32_t field) {
  const tsr_field *f = &schema->fields[field];
  return f->is_dimension && !f->filters.count ? &schema->coords_filters : &f->filters;
}

/* ---- Words and literals ------------------------------------------------------------------------------------------ */

static void append_name(sqlite3_str *out, const char *name) {
  bool plain = isalpha((unsigned char)name[0]) || name[0] == '_';
  for (const char *p = name; *p && plain; p++) plain = isalnum((unsigned char)*p) || *p == '_';
  if (plain && sqlite3_keyword_check(name, (int)strlen(name))) plain = false;
  sqlite3_str_appendf(out, plain ? "%s" : "\"%w\"", name);
}

static void append_hex(sqlite3_str *out, const uint8_t *p, uint64_t size) {
  sqlite3_str_appendall(out, "X'");
  for (uint64_t i = 0; i < size; i++) sqlite3_str_appendf(out, "%02X", p[i]);
  sqlite3_str_appendchar(out, 1, '\'');
}

/* Appends text in quotes, or as a BLOB literal if it is not UTF-8 or contains a NUL. */
static void append_text(sqlite3_str *out, const uint8_t *p, uint64_t size) {
  for (uint64_t i = 0; i < size;) {
    unsigned length = p[i] ? tsr_utf8_size(p + i, size - i) : 0;
    if (!length) {
      append_hex(out, p, size);
      return;
    }
    i += length;
  }
  sqlite3_str_appendchar(out, 1, '\'');
  for (uint64_t i = 0; i < size; i++) sqlite3_str_appendchar(out, p[i] == '\'' ? 2 : 1, (char)p[i]);
  sqlite3_str_appendchar(out, 1, '\'');
}

/* Appends the value of a cell as a literal. UTF-16 and UTF-32 become BLOB literals. */
static void append_literal(sqlite3_str *out, tsr_datatype datatype, uint32_t values_per_cell, const uint8_t *p,
                           uint64_t size) {
  uint64_t each = tsr_datatype_size(datatype);
  tsr_kind kind = tsr_datatype_kind(datatype);
  char text[48];
  int64_t v = 0;
  if (kind == TSR_KIND_TEXT && each == 1) append_text(out, p, size);
  else if (tsx_datatype_is_bytes(datatype)) append_hex(out, p, size);
  else if (values_per_cell != 1) {
    sqlite3_str_appendall(out, "'[");
    for (uint64_t i = 0; i + each <= size; i += each) {
      if (i) sqlite3_str_appendchar(out, 1, ',');
      tsx_json_value(out, datatype, p + i, false);
    }
    sqlite3_str_appendall(out, "]'");
  } else if (kind == TSR_KIND_FLOAT) append_float(out, load_float(p, each), each == 4);
  else if (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) {
    memcpy(&v, p, 8);
    if (tsr_datetime_print(datatype, v, text)) sqlite3_str_appendf(out, "'%s'", text);
    else sqlite3_str_appendf(out, "%lld", (long long)v);
  } else if (kind == TSR_KIND_SIGNED) {
    tsx_json_value(out, datatype, p, true);
  } else {
    memcpy(&v, p, each);
    sqlite3_str_appendf(out, "%llu", (unsigned long long)v);
  }
}

/* ---- Columns ----------------------------------------------------------------------------------------------------- */

static void append_type(sqlite3_str *out, tsr_datatype datatype, uint32_t values_per_cell) {
  bool variable = datatype != TSR_CHAR && tsx_datatype_is_bytes(datatype); /* the name alone means variable length */
  sqlite3_str_appendall(out, tsr_datatype_name(datatype));
  if (values_per_cell == TSR_VARIABLE && !variable) sqlite3_str_appendall(out, "[]");
  else if (values_per_cell != TSR_VARIABLE && (values_per_cell != 1 || variable))
    sqlite3_str_appendf(out, "[%u]", (unsigned)values_per_cell);
}

static void append_bounds(sqlite3_str *out, const tsr_field *f, const tsr_interval *interval) {
  if (f->values_per_cell == TSR_VARIABLE) {
    append_text(out, interval->low_text, interval->low_size);
    sqlite3_str_appendall(out, ", ");
    append_text(out, interval->high_text, interval->high_size);
    return;
  }
  append_literal(out, tsx_datatype_printed(f, false), 1, interval->low, tsr_datatype_size(f->datatype));
  sqlite3_str_appendall(out, ", ");
  append_literal(out, tsx_datatype_printed(f, false), 1, interval->high, tsr_datatype_size(f->datatype));
}

static void append_dimension(sqlite3_str *out, const tsr_schema *schema, uint32_t d) {
  const tsr_field *f = &schema->fields[d];
  sqlite3_str_appendall(out, " DIMENSION");
  if (f->has_domain) {
    tsr_interval domain = {0};
    memcpy(domain.low, f->low, 8);
    memcpy(domain.high, f->high, 8);
    sqlite3_str_appendchar(out, 1, '(');
    append_bounds(out, f, &domain);
    if (f->has_extent) {
      sqlite3_str_appendall(out, ", ");
      append_literal(out, tsx_extent_datatype(f->datatype), 1, f->extent, tsr_datatype_size(f->datatype));
    }
    sqlite3_str_appendchar(out, 1, ')');
  }
  if (!schema->current_domain) return;
  sqlite3_str_appendall(out, " CURRENT(");
  append_bounds(out, f, &schema->current_domain[d]);
  sqlite3_str_appendchar(out, 1, ')');
}

static void append_enum(sqlite3_str *out, const tsr_enumeration *e) {
  sqlite3_str_appendall(out, " ENUM(");
  for (uint64_t i = 0; i < e->count; i++) {
    if (i) sqlite3_str_appendall(out, ", ");
    append_literal(out, e->datatype, e->values_per_label, e->data + e->offsets[i], e->offsets[i + 1] - e->offsets[i]);
  }
  sqlite3_str_appendall(out, e->ordered ? ") ORDERED" : ")");
}

/* Appends DEFAULT unless the fill value is what a column without DEFAULT gets: null if it is nullable, else the
 * datatype's fill value. */
static void append_fill(sqlite3_str *out, const tsr_field *f, const tsr_enumeration *e) {
  bool is_float = tsr_datatype_kind(f->datatype) == TSR_KIND_FLOAT; /* a float's default is NaN, which reads as NULL */
  if (f->nullable && !f->fill_validity) return;
  if (!tsr_field_has_default(f) && (!f->nullable || is_float)) return;
  uint64_t code = 0;
  if (e) {
    memcpy(&code, f->fill, f->fill_size < 8 ? f->fill_size : 8);
    if (code >= e->count) return;
  }
  sqlite3_str_appendall(out, " DEFAULT ");
  if (e)
    append_literal(out, e->datatype, e->values_per_label, e->data + e->offsets[code],
                   e->offsets[code + 1] - e->offsets[code]);
  else append_literal(out, tsx_datatype_printed(f, false), f->values_per_cell, f->fill, f->fill_size);
  if (f->nullable) sqlite3_str_appendall(out, " /* no INSERT uses it, as the column may be NULL */");
}

/* Finds an enumeration that is loaded in the schema itself, or loads it through the array. */
static int find_enumeration(tsr_array *array, const tsr_schema *schema, const char *name, const tsr_enumeration **found,
                            tsr_error *error) {
  for (uint32_t i = 0; i < schema->enumeration_count; i++) {
    *found = &schema->enumerations[i];
    if ((*found)->loaded && !strcmp((*found)->name, name)) return TSR_OK;
  }
  return tsr_array_enumeration(array, schema, name, found, error);
}

/* Adapts the filters of an enumerated attribute: CREATE chooses the datatype of the codes, which not all filters may
 * accept. */
static int adapt_filters(tsx_definition *definition, uint32_t i, const tsr_enumeration *e, tsr_error *error) {
  tsr_field *field = &definition->schema.fields[i], codes = *field;
  codes.datatype = tsx_code_datatype(e->count);
  return tsx_filters_keep(definition, &codes, &field->filters, error);
}

/* Appends FILTERS, unless they are those of a column without the clause. */
static void append_column_filters(sqlite3_str *out, const tsr_pipeline *filters) {
  const bool is_default = filters->count == 1 && filters->filters[0].type == TSR_FILTER_ZSTD &&
                          filters->filters[0].level == -1 && filters->max_chunk_size == DDL_CHUNK_DEFAULT;
  if (is_default) return;
  sqlite3_str_appendall(out, " FILTERS(");
  tsx_filters_append(out, filters);
  sqlite3_str_appendchar(out, 1, ')');
}

/* Appends the labels of a dimension. The filters of their values are not in the schema, but in the labels' arrays. A
 * label whose array cannot be opened is written without them. */
static int append_labels(sqlite3_str *out, tsr_array *array, const tsr_schema *schema, uint32_t dimension,
                         tsr_error *error) {
  for (uint32_t i = 0; i < schema->label_count; i++) {
    const tsr_label *label = &schema->labels[i];
    tsr_label_index *index = NULL;
    tsr_error ignored = {0};
    if (label->dimension != dimension || label->data_order == 0) continue; /* CREATE cannot make one without an order */
    if (!label->array && array && tsr_label_open(array, schema, i, 0, &index, &ignored) == TSR_NOMEM)
      return tsx_out_of_memory(error);
    char *name = tsx_name_text(label->name);
    if (!name) {
      tsr_label_close(index);
      return tsx_out_of_memory(error);
    }
    sqlite3_str_appendall(out, " LABEL ");
    append_name(out, name);
    sqlite3_free(name);
    sqlite3_str_appendchar(out, 1, ' ');
    append_type(out, label->datatype, label->values_per_cell);
    if (label->duration) sqlite3_str_appendall(out, " DURATION");
    if (label->data_order == 2) sqlite3_str_appendall(out, " DECREASING");
    if (label->array) append_column_filters(out, &label->array->fields[1].filters);
    else if (index) append_column_filters(out, &tsr_label_field(index)->filters);
    tsr_label_close(index);
  }
  return TSR_OK;
}

static int append_field(sqlite3_str *out, tsr_array *array, tsx_definition *definition, uint32_t i, const char *name,
                        tsr_error *error) {
  const tsr_schema *schema = &definition->schema;
  const tsr_field *f = &schema->fields[i];
  const tsr_enumeration *e = NULL;
  if (f->enumeration) {
    TSX_TRY(find_enumeration(array, schema, f->enumeration, &e, error));
    TSX_TRY(adapt_filters(definition, i, e, error));
  }
  sqlite3_str_appendall(out, "\n  ");
  append_name(out, name);
  sqlite3_str_appendchar(out, 1, ' ');
  if (e) append_type(out, e->datatype, e->values_per_label);
  else append_type(out, f->datatype, f->values_per_cell);
  if (f->duration) sqlite3_str_appendall(out, " DURATION");
  if (f->is_dimension) append_dimension(out, schema, i);
  else if (!f->nullable) sqlite3_str_appendall(out, " NOT NULL");
  if (!f->is_dimension) append_fill(out, f, e);
  append_column_filters(out, tsx_filters_of(schema, i));
  if (e) append_enum(out, e);
  if (f->is_dimension) TSX_TRY(append_labels(out, array, schema, i, error));
  sqlite3_str_appendchar(out, 1, ',');
  return TSR_OK;
}

/* ---- The statement ----------------------------------------------------------------------------------------------- */

static void append_list(sqlite3_str *out, const char *word, const tsr_pipeline *pipeline) {
  sqlite3_str_appendf(out, ", %s=(", word);
  tsx_filters_append(out, pipeline);
  sqlite3_str_appendchar(out, 1, ')');
}

static void append_options(sqlite3_str *out, const tsx_address *address, const tsr_schema *schema) {
  uint32_t version = schema->version;
  sqlite3_str_appendf(out, "\n  cell_order=%s, tile_order=%s, capacity=%llu", tsx_order_name(schema->cell_order),
                      tsx_order_name(schema->tile_order), (unsigned long long)schema->capacity);
  if (schema->allows_duplicates) sqlite3_str_appendall(out, ", duplicates=yes");
  sqlite3_str_appendall(out, ",\n  ");
  sqlite3_str_appendall(out, "coords_filters=(");
  tsx_filters_append(out, &schema->coords_filters);
  sqlite3_str_appendchar(out, 1, ')');
  append_list(out, "offsets_filters", &schema->offsets_filters);
  append_list(out, "validity_filters", &schema->validity_filters);
  const bool has_key = address->array ? address->array->has_key : address->has_key;
  if (has_key) sqlite3_str_appendall(out, ",\n  encryption=aes_256_gcm");
  if (has_key && address->key_file) sqlite3_str_appendf(out, ", key_file=%Q", address->key_file);
  if (version == 3 || (version >= 12 && version < VERSION_DEFAULT))
    sqlite3_str_appendf(out, ", format_version=%u", (unsigned)version);
}

/* Appends the last component of a path as a table name; "array" if there is none. */
static int append_table_name(sqlite3_str *out, const char *path, tsr_error *error) {
  size_t end = strlen(path);
  while (end > 1 && path[end - 1] == '/') end--;
  size_t begin = end;
  while (begin && path[begin - 1] != '/') begin--;
  char *part = sqlite3_mprintf("%.*s", (int)(end - begin), path + begin);
  char *name = part ? tsx_name_text(part) : NULL;
  int code = name ? TSR_OK : tsx_out_of_memory(error);
  if (name) append_name(out, *name ? name : "array");
  sqlite3_free(name);
  sqlite3_free(part);
  return code;
}

/* Appends the CHECK constraints of an open array, which it has now. One that cannot be read is left out: its text may
 * be anything. */
static int append_checks(sqlite3_str *out, tsr_array *array, tsr_error *error) {
  tsr_constraints *all;
  TSX_TRY(tsr_array_constraints(array, &all, error));
  for (uint64_t i = 0; i < all->count; i++) {
    const tsr_constraint *check = &all->constraints[i];
    if (check->fault) continue;
    sqlite3_str_appendall(out, "\n  CONSTRAINT ");
    append_name(out, check->name);
    sqlite3_str_appendf(out, " CHECK(%s),", check->text);
  }
  tsr_constraints_close(all);
  return TSR_OK;
}

static int append_definition(sqlite3_str *out, const tsx_address *address, tsx_definition *definition,
                             tsr_error *error) {
  const tsr_schema *schema = &definition->schema;
  tsr_array *array = address->array ? address->array->core : NULL;
  char **names = tsx_names_make(schema);
  if (!names) return tsx_out_of_memory(error);
  sqlite3_str_appendf(out, "kind=%s,", schema->dense ? "dense" : "sparse");
  int code = TSR_OK;
  for (uint32_t i = 0; code >= 0 && i < schema->dimension_count + schema->attribute_count; i++)
    code = append_field(out, array, definition, i, names[i], error);
  tsx_names_free(names, schema);
  if (code < 0) return code;
  if (array) TSX_TRY(append_checks(out, array, error));
  append_options(out, address, schema);
  return TSR_OK;
}

int tsx_ddl_arguments(sqlite3_str *out, const tsx_address *address, const tsr_schema *schema, tsr_error *error) {
  tsx_definition definition = {0};
  if (!schema) TSX_TRY(tsr_array_schema(address->array->core, address->as_of, &schema, error));
  int code = tsx_creatable(schema, &definition, error);
  if (code >= 0) code = append_definition(out, address, &definition, error);
  tsx_definition_release(&definition);
  return code;
}

int tsx_ddl_statement(sqlite3_str *out, const tsx_address *address, const tsr_schema *made, tsr_error *error) {
  bool in_database = tsx_store_is(address->path);
  char *schema = NULL, *name = NULL;
  sqlite3_str_appendall(out, "CREATE VIRTUAL TABLE ");
  if (in_database) {
    TSX_TRY(tsx_table_name_parse(address->path + strlen("db:"), &schema, &name, error));
    append_name(out, name);
    sqlite3_free(schema);
    sqlite3_free(name);
  } else {
    TSX_TRY(append_table_name(out, address->path, error));
  }
  sqlite3_str_appendall(out, " USING tessera(");
  if (!in_database) sqlite3_str_appendf(out, "%Q, ", address->given);
  TSX_TRY(tsx_ddl_arguments(out, address, made, error));
  if (!in_database) sqlite3_str_appendall(out, ",\n  if_exists=open"); /* the text can be run where the array is */
  sqlite3_str_appendchar(out, 1, ')');
  return TSR_OK;
}

enum { DDL_OPTION_array_key, DDL_OPTION_as_of, DDL_OPTIONS };

/* `argument`: the values of the options, owned by the caller. */
static int take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  sqlite3_value **given = argument;
  given[option] = sqlite3_value_dup(value->json->value);
  return given[option] ? TSR_OK : tsx_out_of_memory(error);
}

void tsx_ddl(sqlite3_context *context, int count, sqlite3_value **values) {
  static const tsx_option_spec specs[] = {
      [DDL_OPTION_array_key] = {.name = "array_key"}, [DDL_OPTION_as_of] = {.name = "as_of"}};
  static const tsx_option_list list = TSX_OPTION_LIST(specs);
  sqlite3_value *given[DDL_OPTIONS] = {NULL};
  sqlite3 *db = sqlite3_context_db_handle(context);
  tsx_address address = {0};
  tsr_error error = {0};
  if (sqlite3_value_type(values[0]) == SQLITE_NULL) return;
  sqlite3_str *out = sqlite3_str_new(db);
  int code = count > 1 ? tsx_options_read(db, values[1], &list, take_option, given, &error) : TSR_OK;
  if (code >= 0)
    code = tsx_address_open(sqlite3_user_data(context), values[0], given[DDL_OPTION_array_key], given[DDL_OPTION_as_of],
                            NULL, &address, &error);
  if (code >= 0) code = tsx_address_array(&address, &error);
  if (code >= 0) code = tsx_ddl_statement(out, &address, NULL, &error);
  tsx_address_close(&address);
  for (int i = 0; i < DDL_OPTIONS; i++) sqlite3_value_free(given[i]);
  if (code >= 0) {
    tsx_result_string(context, out);
    return;
  }
  sqlite3_free(sqlite3_str_finish(out));
  tsx_result_error_of(context, "tessera_ddl", &error);
}
