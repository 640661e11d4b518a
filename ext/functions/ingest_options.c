/* ingest_options.c: the options of tessera_create_as and its kin. `columns` and labels are read first, domains and extents
 * last: their numbers have the datatypes that `types` says. */
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "text/json_in.h"
#include "text/literals.h"
#include "definition/arguments.h"
#include "definition/columns.h"
#include "definition/define.h"
#include "table/address.h"
#include "functions/ingest_labels.h"
#include "functions/ingest_options.h"

/* X(name) */
#define INGEST_OPTIONS(X)                                                                                              \
  X(if_exists)                                                                                                         \
  X(on_error)                                                                                                          \
  X(dimensions)                                                                                                        \
  X(kind)                                                                                                              \
  X(types)                                                                                                             \
  X(domains)                                                                                                           \
  X(extents)                                                                                                           \
  X(filters)                                                                                                           \
  X(enums)                                                                                                             \
  X(not_null)                                                                                                          \
  X(nullable)                                                                                                          \
  X(grow)                                                                                                              \
  X(labels)                                                                                                            \
  X(capacity)                                                                                                          \
  X(cell_order)                                                                                                        \
  X(tile_order)                                                                                                        \
  X(duplicates)                                                                                                        \
  X(columns)                                                                                                           \
  X(metadata)                                                                                                          \
  X(memory_mb)                                                                                                         \
  X(format_version)                                                                                                    \
  X(key_file)                                                                                                          \
  X(explain)                                                                                                           \
  X(header) X(delimiter) X(null)

typedef enum ingest_option {
#define X(name) INGEST_OPTION_##name,
  INGEST_OPTIONS(X)
#undef X
      INGEST_OPTION_COUNT,
  INGEST_OPTION_CSV = INGEST_OPTION_header /* from here on: of CSV, which create_csv.c reads */
} ingest_option;

static const char *const ingest_option_names[] = {
#define X(name) #name,
    INGEST_OPTIONS(X)
#undef X
};

typedef struct ingest_reading { /* a list or an object of columns */
  tsx_ingest_call *call;
  ingest_option option;
  uint32_t count; /* elements so far */
  tsr_ingest_column *column; /* of a domain */
} ingest_reading;

static const char *ingest_text(const tsx_json_option *o) {
  const char *text = strcmp(o->type, "text") == 0 ? (const char *)sqlite3_value_text(o->value) : NULL;
  return text ? text : "";
}

/* ---- Columns ----------------------------------------------------------------------------------------------------- */

/* Finds a column by its name; *column is the number in the source. */
static int ingest_find(const ingest_reading *r, const char *name, uint32_t *column, tsr_error *error) {
  const tsx_ingest_call *call = r->call;
  for (*column = 0; *column < call->source.count; ++*column)
    if (!sqlite3_stricmp(call->source.names[*column], name)) return TSR_OK;
  for (uint32_t i = 0; i < call->labels.count; i++) { /* the dimension of a label is that of its column */
    const tsr_ingest_column *labelled = &call->columns[call->labels.columns[i]];
    if (sqlite3_stricmp(labelled->label_of, name) != 0) continue;
    for (*column = 0; call->source.kept[*column] != (int)call->labels.columns[i];) ++*column;
    return TSR_OK;
  }
  return tsx_fail(error, TSR_ERROR, "'%s': the source has no column '%.64s'", ingest_option_names[r->option], name);
}

static int ingest_find_kept(const ingest_reading *r, const char *name, tsr_ingest_column **column, tsr_error *error) {
  uint32_t i;
  const int code = ingest_find(r, name, &i, error);
  if (code < 0) return code;
  if (r->call->source.kept[i] < 0)
    return tsx_fail(error, TSR_ERROR, "'%s': 'columns' leaves column '%.64s' out", ingest_option_names[r->option],
                    name);
  *column = &r->call->columns[r->call->source.kept[i]];
  return TSR_OK;
}

/* Reads one name of a list of columns. */
static int ingest_read_name(void *argument, const tsx_json_option *o, tsr_error *error) {
  ingest_reading *r = argument;
  tsx_ingest_call *call = r->call;
  tsr_ingest_column *column = NULL;
  if (r->option == INGEST_OPTION_grow && !strcmp(ingest_text(o), tsx_ingest_row_name(call))) {
    call->given.grow_row = true;
    return TSR_OK;
  }
  const int code = ingest_find_kept(r, ingest_text(o), &column, error);
  if (code < 0) return code;
  const uint32_t number = (uint32_t)(column - call->columns);
  switch (r->option) {
  case INGEST_OPTION_enums: column->labels = true; break;
  case INGEST_OPTION_not_null: column->not_null = true; break;
  case INGEST_OPTION_nullable: column->nullable = true; break;
  case INGEST_OPTION_grow: column->grow = true; break;
  default:
    for (uint32_t d = 0; d < r->count; d++)
      if (call->dimensions[d] == number)
        return tsx_fail(error, TSR_ERROR, "'dimensions' names '%s' twice", column->name);
    call->dimensions[r->count++] = number;
    call->options.dimension_count = r->count;
  }
  return TSR_OK;
}

/* Reads one name of `columns`: the columns to keep, in their order. */
static int ingest_read_kept(void *argument, const tsx_json_option *o, tsr_error *error) {
  ingest_reading *r = argument;
  tsx_ingest_call *call = r->call;
  uint32_t i;
  const int code = ingest_find(r, ingest_text(o), &i, error);
  if (code < 0) return code;
  if (call->source.kept[i] >= 0) return tsx_fail(error, TSR_ERROR, "'columns' names '%s' twice", call->source.names[i]);
  call->source.kept[i] = (int)r->count++;
  return TSR_OK;
}

static int ingest_keep_columns(tsx_ingest_call *call, const tsx_json_option *o, tsr_error *error) {
  ingest_reading r = {.call = call, .option = INGEST_OPTION_columns};
  tsr_ingest_column *sorted = sqlite3_malloc64(call->source.count * sizeof *sorted);
  if (!sorted) return tsx_out_of_memory(error);
  memcpy(sorted, call->columns, call->source.count * sizeof *sorted);
  for (uint32_t i = 0; i < call->source.count; i++) call->source.kept[i] = -1;
  const int code = tsx_elements_each(call->connection->db, o->value, "'columns'", ingest_read_kept, &r, error);
  for (uint32_t i = 0; i < call->source.count; i++)
    if (call->source.kept[i] >= 0) call->columns[call->source.kept[i]] = sorted[i];
  for (uint32_t d = 0; d < call->options.dimension_count; d++) { /* of the source's own: columns by their old numbers */
    const int kept = call->source.kept[call->dimensions[d]];
    if (kept < 0) call->options.dimension_count = 0;
    else call->dimensions[d] = (uint32_t)kept;
  }
  sqlite3_free(sorted);
  call->options.column_count = r.count;
  return code;
}

/* ---- Properties of columns --------------------------------------------------------------------------------------- */

static int ingest_read_type(ingest_reading *r, tsr_ingest_column *column, const tsx_json_option *o, tsr_error *error) {
  tsx_column_text text = {0};
  tsx_parser p = {.definition = &r->call->memory, .error = error};
  char *definition = sqlite3_mprintf("\"%w\" %s", column->name, ingest_text(o));
  int code = definition ? tsx_column_parse(&p, definition, true, &text) : tsx_out_of_memory(error);
  sqlite3_free(definition);
  if (code < 0) return code == TSR_NOMEM ? tsx_out_of_memory(error) : tsx_fail_in("'types'", error);
  if (text.is_dimension || text.has_filters || text.enumeration.given || text.not_null ||
      text.fill.kind != TSX_TOKEN_END)
    return tsx_fail(error, TSR_ERROR, "'types': column '%s': expected a type alone, as INT16", column->name);
  column->typed = true;
  column->datatype = text.datatype;
  column->values_per_cell = text.values_per_cell;
  column->enumeration = NULL;
  return TSR_OK;
}

static int ingest_read_filters(ingest_reading *r, tsr_ingest_column *column, const tsx_json_option *o,
                               tsr_error *error) {
  tsx_parser p = {.definition = &r->call->memory,
                  .in = tsx_tokens_of(ingest_text(o)),
                  .noun = "filters of",
                  .name = column->name,
                  .error = error};
  tsr_pipeline *pipeline = tsx_parser_alloc(&p, sizeof *pipeline);
  if (!pipeline) return tsx_out_of_memory(error);
  const int code = tsx_filters_parse(&p, pipeline);
  if (code < 0) return code == TSR_NOMEM ? tsx_out_of_memory(error) : code;
  if (p.in.token.kind != TSX_TOKEN_END) return tsx_parser_unexpected(&p, "a comma or the end");
  column->filters = pipeline;
  return TSR_OK;
}

/* Reads a number in a dimension's datatype; for an untyped column INT64 or FLOAT64. An end that is past INT64 is read as
 * UINT64, and sets *is_unsigned (not NULL for the ends of domains). */
static int ingest_read_number(const ingest_reading *r, const tsx_json_option *o, bool *is_unsigned, uint8_t out[8],
                              tsr_error *error) {
  const bool extent = !is_unsigned;
  tsr_ingest_column *column = r->column;
  tsr_error why = {0};
  const bool quoted = strcmp(o->type, "text") == 0;
  tsr_datatype datatype = column->label_of ? TSR_INT64 : column->datatype;
  if (!column->typed && !column->label_of) {
    if (extent) column->real_extent = strcmp(o->type, "real") == 0;
    datatype = (extent ? column->real_extent : column->real) ? TSR_FLOAT64 : TSR_INT64;
  }
  if (extent) datatype = tsx_extent_datatype(datatype);
  memset(out, 0, 8);
  const char *text = quoted ? ingest_text(o) : o->text;
  const int code = tsx_given_parse(datatype, text, quoted, out, &why);
  const bool untyped = !column->typed && !column->label_of && datatype == TSR_INT64;
  tsr_error ignored = {0};
  if (code == TSR_RANGE && !extent && untyped && tsx_given_parse(TSR_UINT64, text, quoted, out, &ignored) == TSR_OK) {
    *is_unsigned = true;
    return TSR_OK;
  }
  if (code < 0)
    return tsx_fail(error, code, "'%s': column '%s': %s", ingest_option_names[r->option], column->name, why.message);
  return TSR_OK;
}

static int ingest_read_end(void *argument, const tsx_json_option *o, tsr_error *error) {
  ingest_reading *r = argument;
  if (r->count > 1)
    return tsx_fail(error, TSR_MISMATCH, "'domains': column '%s': expected [low, high]", r->column->name);
  return r->count++ ? ingest_read_number(r, o, &r->column->high_unsigned, r->column->high, error)
                    : ingest_read_number(r, o, &r->column->low_unsigned, r->column->low, error);
}

/* A domain of which an end is a REAL, as [0, 0.5], is one of REALs. */
static int ingest_look_at_end(void *argument, const tsx_json_option *o, tsr_error *error) {
  ingest_reading *r = argument;
  r->column->real |= strcmp(o->type, "real") == 0;
  return TSR_OK;
}

static int ingest_read_domain(ingest_reading *r, tsr_ingest_column *column, const tsx_json_option *o,
                              tsr_error *error) {
  ingest_reading ends = {.call = r->call, .option = r->option, .column = column};
  sqlite3 *db = r->call->connection->db;
  static const char expected[] = "'domains': expected [low, high]";
  int code = tsx_elements_each(db, o->value, expected, ingest_look_at_end, &ends, error);
  if (code == TSR_OK) code = tsx_elements_each(db, o->value, expected, ingest_read_end, &ends, error);
  if (code == TSR_OK && ends.count != 2)
    return tsx_fail(error, TSR_MISMATCH, "'domains': column '%s': expected [low, high]", column->name);
  column->has_domain = true;
  return code;
}

/* Reads one member of an object whose keys are columns. */
static int ingest_read_property(void *argument, const tsx_json_option *o, tsr_error *error) {
  ingest_reading *r = argument;
  const int code = ingest_find_kept(r, o->key, &r->column, error);
  if (code < 0) return code;
  if (r->option == INGEST_OPTION_domains) return ingest_read_domain(r, r->column, o, error);
  if (r->option == INGEST_OPTION_extents) {
    r->column->has_extent = true;
    return ingest_read_number(r, o, NULL, r->column->extent, error);
  }
  if (strcmp(o->type, "text") != 0)
    return tsx_fail(error, TSR_MISMATCH, "'%s': column '%s': expected text", ingest_option_names[r->option], o->key);
  if (r->option == INGEST_OPTION_labels) return tsx_ingest_label(r->call, r->column, ingest_text(o), error);
  return r->option == INGEST_OPTION_types ? ingest_read_type(r, r->column, o, error)
                                          : ingest_read_filters(r, r->column, o, error);
}

/* ---- Single values ----------------------------------------------------------------------------------------------- */

/* Reads one of several words; *choice is its number. */
static int ingest_read_word(const tsx_json_option *o, const char *const *words, int count, int *choice,
                            tsr_error *error) {
  sqlite3_str *list = sqlite3_str_new(NULL);
  for (*choice = 0; *choice < count; ++*choice) {
    if (!strcmp(ingest_text(o), words[*choice])) {
      sqlite3_free(sqlite3_str_finish(list));
      return TSR_OK;
    }
    sqlite3_str_appendf(list, "%s%s", *choice ? " or " : "", words[*choice]);
  }
  char *text = sqlite3_str_finish(list);
  const int code = tsx_fail(error, TSR_MISMATCH, "'%s': expected %s", o->key, text ? text : words[0]);
  sqlite3_free(text);
  return code;
}

static int ingest_read_flag(const tsx_json_option *o, bool *flag, tsr_error *error) {
  *flag = !strcmp(o->type, "true");
  if (!*flag && strcmp(o->type, "false") != 0)
    return tsx_fail(error, TSR_MISMATCH, "'%s': expected true or false", o->key);
  return TSR_OK;
}

static int ingest_read_count(const tsx_json_option *o, sqlite3_int64 most, uint64_t *count, tsr_error *error) {
  const sqlite3_int64 number = sqlite3_value_int64(o->value);
  if (strcmp(o->type, "integer") != 0 || sqlite3_value_type(o->value) != SQLITE_INTEGER || number < 1 || number > most)
    return tsx_fail(error, TSR_MISMATCH, "'%s': expected an integer from 1 to %lld", o->key, (long long)most);
  *count = (uint64_t)number;
  return TSR_OK;
}

static int ingest_read_words(tsx_ingest_call *call, ingest_option option, const tsx_json_option *o, tsr_error *error) {
  static const char *const exists[] = {"fail", "append", "replace"}, *const errors[] = {"fail", "skip"},
                           *const kinds[] = {"dense", "sparse"}, *const orders[] = {"row", "col", "hilbert"};
  static const tsr_order order_codes[] = {TSR_ORDER_ROW, TSR_ORDER_COL, TSR_ORDER_HILBERT};
  const bool cells = option == INGEST_OPTION_cell_order;
  int choice = 0, code;
  if (option == INGEST_OPTION_if_exists) {
    code = ingest_read_word(o, exists, 3, &choice, error);
    call->given.if_exists = (tsx_ingest_exists)choice;
  } else if (option == INGEST_OPTION_on_error) {
    code = ingest_read_word(o, errors, 2, &choice, error);
    call->given.skip = choice == 1;
  } else if (option == INGEST_OPTION_kind) {
    code = ingest_read_word(o, kinds, 2, &choice, error);
    call->options.kind = choice ? TSR_INGEST_SPARSE : TSR_INGEST_DENSE;
  } else {
    code = ingest_read_word(o, orders, cells ? 3 : 2, &choice, error);
    if (code < 0) return code;
    *(cells ? &call->options.has_cell_order : &call->options.has_tile_order) = true;
    *(cells ? &call->options.cell_order : &call->options.tile_order) = order_codes[choice];
  }
  return code;
}

/* Reads the key file. Relative paths begin where those of arrays do. */
static int ingest_read_key(tsx_ingest_call *call, const tsx_json_option *o, tsr_error *error) {
  char *path = NULL;
  if (!*ingest_text(o)) return tsx_fail(error, TSR_MISMATCH, "'key_file': expected the path of a file");
  int code = tsx_address_path(call->connection, ingest_text(o), &path, error);
  if (code == TSR_OK) code = tsx_key_read(call->connection, path, call->array.address.key, error);
  call->array.address.has_key = code == TSR_OK;
  call->array.address.key_file = path; /* a table keeps it */
  return code;
}

static int ingest_read_single(tsx_ingest_call *call, ingest_option option, const tsx_json_option *o, tsr_error *error) {
  uint64_t number = 0;
  int code;
  switch (option) {
  case INGEST_OPTION_capacity: return ingest_read_count(o, INT64_MAX, &call->options.capacity, error);
  case INGEST_OPTION_memory_mb:
    code = ingest_read_count(o, 1 << 24, &number, error);
    call->options.memory_bytes = number << 20;
    return code;
  case INGEST_OPTION_format_version:
    code = ingest_read_count(o, TSR_FORMAT_WRITE_MAX, &number, error);
    call->options.version = (uint32_t)number;
    return code;
  case INGEST_OPTION_duplicates: return ingest_read_flag(o, &call->options.duplicates, error);
  case INGEST_OPTION_explain: return ingest_read_flag(o, &call->given.explain, error);
  case INGEST_OPTION_key_file: return ingest_read_key(call, o, error);
  case INGEST_OPTION_metadata:
    call->given.metadata = sqlite3_value_dup(o->value);
    return call->given.metadata ? TSR_OK : tsx_out_of_memory(error);
  default: return ingest_read_words(call, option, o, error);
  }
}

/* ---- All options ------------------------------------------------------------------------------------------------- */

static bool ingest_has_option(const tsx_ingest_call *call, int option) {
  if (call->source.is_rows)
    return option == INGEST_OPTION_types || option == INGEST_OPTION_enums || option == INGEST_OPTION_columns ||
           option == INGEST_OPTION_memory_mb;
  return call->source.is_csv || option < (int)INGEST_OPTION_CSV;
}

static int ingest_find_option(const tsx_ingest_call *call, const char *key, ingest_option *option, tsr_error *error) {
  for (*option = 0; *option < INGEST_OPTION_COUNT; ++*option)
    if (ingest_has_option(call, (int)*option) && !strcmp(ingest_option_names[*option], key)) return TSR_OK;
  sqlite3_str *list = sqlite3_str_new(NULL);
  for (int i = 0; i < (int)INGEST_OPTION_COUNT; i++)
    if (ingest_has_option(call, i))
      sqlite3_str_appendf(list, "%s%s", sqlite3_str_length(list) ? ", " : "", ingest_option_names[i]);
  char *text = sqlite3_str_finish(list);
  const int code = tsx_fail(error, TSR_ERROR, "no option is called '%.60s': %s", key, text ? text : "");
  sqlite3_free(text);
  return code;
}

static int ingest_read_first(void *argument, const tsx_json_option *o, tsr_error *error) {
  tsx_ingest_call *call = argument;
  ingest_option option;
  const int code = ingest_find_option(call, o->key, &option, error);
  if (code < 0) return code;
  if (call->given.options >> option & 1) return tsx_fail(error, TSR_ERROR, "the option '%s' is given twice", o->key);
  call->given.options |= UINT64_C(1) << option;
  return option == INGEST_OPTION_columns ? ingest_keep_columns(call, o, error) : TSR_OK;
}

/* Reads the labels: the other options can name their dimensions. */
static int ingest_read_labels(void *argument, const tsx_json_option *o, tsr_error *error) {
  ingest_reading r = {.call = argument, .option = INGEST_OPTION_labels};
  if (strcmp(o->key, ingest_option_names[INGEST_OPTION_labels]) != 0) return TSR_OK;
  return tsx_options_each(r.call->connection->db, o->value, o->key, ingest_read_property, &r, error);
}

/* Reads everything but `columns`, labels, domains and extents. */
static int ingest_read_second(void *argument, const tsx_json_option *o, tsr_error *error) {
  ingest_reading r = {.call = argument};
  sqlite3 *db = r.call->connection->db;
  const int code = ingest_find_option(argument, o->key, &r.option, error);
  if (code < 0) return code;
  switch (r.option) {
  case INGEST_OPTION_columns:
  case INGEST_OPTION_labels:
  case INGEST_OPTION_domains:
  case INGEST_OPTION_header:
  case INGEST_OPTION_delimiter:
  case INGEST_OPTION_null:
  case INGEST_OPTION_extents: return TSR_OK;
  case INGEST_OPTION_types:
  case INGEST_OPTION_filters: return tsx_options_each(db, o->value, o->key, ingest_read_property, &r, error);
  case INGEST_OPTION_dimensions:
  case INGEST_OPTION_enums:
  case INGEST_OPTION_not_null:
  case INGEST_OPTION_nullable:
  case INGEST_OPTION_grow: return tsx_elements_each(db, o->value, o->key, ingest_read_name, &r, error);
  default: return ingest_read_single(r.call, r.option, o, error);
  }
}

static int ingest_read_third(void *argument, const tsx_json_option *o, tsr_error *error) {
  ingest_reading r = {.call = argument};
  const int code = ingest_find_option(argument, o->key, &r.option, error);
  if (code < 0 || (r.option != INGEST_OPTION_domains && r.option != INGEST_OPTION_extents)) return code;
  return tsx_options_each(r.call->connection->db, o->value, o->key, ingest_read_property, &r, error);
}

/* Fails if a property of dimensions is given to another column. */
static int ingest_check_dimensions(tsx_ingest_call *call, tsr_error *error) {
  call->options.row_grows = call->given.grow_row && call->options.dimension_count == 0;
  if (call->given.grow_row && !call->options.row_grows)
    return tsx_fail(error, TSR_ERROR, "'grow': '%s' is none of the dimensions", tsx_ingest_row_name(call));
  for (uint32_t i = 0; i < call->options.column_count; i++) {
    const tsr_ingest_column *column = &call->columns[i];
    bool is_dimension = false;
    for (uint32_t d = 0; d < call->options.dimension_count; d++) is_dimension |= call->dimensions[d] == i;
    if (!is_dimension && (column->has_domain || column->has_extent || column->grow))
      return tsx_fail(error, TSR_ERROR, "'%s': column '%s' is no dimension: say dimensions",
                      ingest_option_names[column->has_domain   ? INGEST_OPTION_domains
                                          : column->has_extent ? INGEST_OPTION_extents
                                                               : INGEST_OPTION_grow],
                      column->name);
  }
  return TSR_OK;
}

int tsx_ingest_options_read(tsx_ingest_call *call, sqlite3_value *json, tsr_error *error) {
  static const tsx_option_reader passes[] = {ingest_read_first, ingest_read_labels, ingest_read_second,
                                             ingest_read_third};
  int code = TSR_OK;
  if (!json || sqlite3_value_type(json) == SQLITE_NULL) return TSR_OK;
  for (size_t i = 0; i < sizeof passes / sizeof *passes && code == TSR_OK; i++)
    code = tsx_options_each(call->connection->db, json, "options", passes[i], call, error);
  tsx_ingest_label_dimensions(call);
  for (uint32_t d = 0; d < call->options.dimension_count && !(call->given.options >> INGEST_OPTION_enums & 1); d++)
    call->columns[call->dimensions[d]].labels = false; /* of the source: the labels themselves are the coordinates */
  for (uint32_t d = 0; d < call->options.dimension_count; d++) { /* a dimension of strings is ASCII, as in CREATE */
    tsr_ingest_column *column = &call->columns[call->dimensions[d]];
    if (column->typed && !column->label_of && tsr_datatype_kind(column->datatype) == TSR_KIND_TEXT &&
        column->values_per_cell == TSR_VARIABLE)
      column->datatype = TSR_ASCII;
  }
  return code == TSR_OK ? ingest_check_dimensions(call, error) : code;
}
