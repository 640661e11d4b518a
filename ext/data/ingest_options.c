/* ingest_options.c: the options of tessera_create_as, tessera_create_csv, tessera_create_stream and tessera_rows.
 *
 * The JSON object is read in four passes, since options depend on each other: first `columns`, which selects and
 * reorders the columns; then `labels`, because the other options may name their dimensions; then everything else; at
 * last `domains` and `extents`, whose numbers have the datatypes that `types` gives. Then follow the checks that
 * involve several options.
 *
 * For an append, tsx_ingest_options_agree reads the options once more and compares each with the existing array: an
 * option that the append could not honour is an error.
 *
 * Sections: columns, properties of columns, single values, all options, options of an append. */
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/json.h"
#include "sql/literals.h"
#include "sql/options.h"
#include "definition/arguments.h"
#include "definition/define.h"
#include "table/table.h"
#include "data/ingest.h"

typedef enum ingest_option {
  INGEST_OPTION_if_exists,
  INGEST_OPTION_on_error,
  INGEST_OPTION_dimensions,
  INGEST_OPTION_kind,
  INGEST_OPTION_types,
  INGEST_OPTION_domains,
  INGEST_OPTION_extents,
  INGEST_OPTION_filters,
  INGEST_OPTION_enumerate,
  INGEST_OPTION_not_null,
  INGEST_OPTION_nullable,
  INGEST_OPTION_grow,
  INGEST_OPTION_labels,
  INGEST_OPTION_capacity,
  INGEST_OPTION_cell_order,
  INGEST_OPTION_tile_order,
  INGEST_OPTION_duplicates,
  INGEST_OPTION_columns,
  INGEST_OPTION_metadata,
  INGEST_OPTION_memory_mb,
  INGEST_OPTION_format_version,
  INGEST_OPTION_key_file,
  INGEST_OPTION_explain,
  INGEST_OPTION_names,
  INGEST_OPTION_decimal,
  INGEST_OPTION_delimiter,
  INGEST_OPTION_null,
  INGEST_OPTION_COUNT,
  INGEST_OPTION_CSV = INGEST_OPTION_names /* the options from here on are those of CSV, which create.c reads */
} ingest_option;

static const tsx_option_spec ingest_specs[INGEST_OPTION_COUNT] = {
    [INGEST_OPTION_if_exists] = {"if_exists", TSX_TAKES_WORD, 0, 0, TSX_WORDS("fail", "append", "replace")},
    [INGEST_OPTION_on_error] = {"on_error", TSX_TAKES_WORD, 0, 0, TSX_WORDS("fail", "skip")},
    [INGEST_OPTION_dimensions] = {.name = "dimensions"},
    [INGEST_OPTION_kind] = {"kind", TSX_TAKES_WORD, 0, 0, TSX_WORDS("dense", "sparse")},
    [INGEST_OPTION_types] = {.name = "types"},
    [INGEST_OPTION_domains] = {.name = "domains"},
    [INGEST_OPTION_extents] = {.name = "extents"},
    [INGEST_OPTION_filters] = {.name = "filters"},
    [INGEST_OPTION_enumerate] = {.name = "enumerate"},
    [INGEST_OPTION_not_null] = {.name = "not_null"},
    [INGEST_OPTION_nullable] = {.name = "nullable"},
    [INGEST_OPTION_grow] = {.name = "grow"},
    [INGEST_OPTION_labels] = {.name = "labels"},
    [INGEST_OPTION_capacity] = {"capacity", TSX_TAKES_WHOLE, 1, INT64_MAX, NULL},
    [INGEST_OPTION_cell_order] = {"cell_order", TSX_TAKES_WORD, 0, 0, TSX_WORDS("row", "col", "hilbert")},
    [INGEST_OPTION_tile_order] = {"tile_order", TSX_TAKES_WORD, 0, 0, TSX_WORDS("row", "col")},
    [INGEST_OPTION_duplicates] = {"duplicates", TSX_TAKES_FLAG, 0, 0, NULL},
    [INGEST_OPTION_columns] = {.name = "columns"},
    [INGEST_OPTION_metadata] = {.name = "metadata"},
    [INGEST_OPTION_memory_mb] = TSX_SPEC_MEMORY_MB,
    [INGEST_OPTION_format_version] = {"format_version", TSX_TAKES_WHOLE, 1, TSR_FORMAT_WRITE_MAX, NULL},
    [INGEST_OPTION_key_file] = {"key_file", TSX_TAKES_TEXT, 0, 0, NULL},
    [INGEST_OPTION_explain] = {"explain", TSX_TAKES_FLAG, 0, 0, NULL},
    [INGEST_OPTION_names] = {.name = "names"},
    [INGEST_OPTION_decimal] = {"decimal", TSX_TAKES_TEXT, 0, 0, NULL},
    [INGEST_OPTION_delimiter] = {"delimiter", TSX_TAKES_TEXT, 0, 0, NULL},
    [INGEST_OPTION_null] = {"null", TSX_TAKES_TEXT, 0, 0, NULL}};

typedef struct ingest_reading { /* the current option: a list of columns, or an object with columns as keys */
  tsx_ingest_call *call;
  ingest_option option;
  uint32_t count; /* elements so far */
  tsr_ingest_column *column; /* whose domain or extent is read */
} ingest_reading;

static const char *ingest_text(const tsx_json_option *o) {
  const char *text = strcmp(o->type, "text") == 0 ? (const char *)sqlite3_value_text(o->value) : NULL;
  return text ? text : "";
}

/* ---- Columns ----------------------------------------------------------------------------------------------------- */

/* Finds a column by its name; *column is its number in the source. */
static int ingest_find(const ingest_reading *r, const char *name, uint32_t *column, tsr_error *error) {
  const tsx_ingest_call *call = r->call;
  for (*column = 0; *column < call->source.count; ++*column)
    if (!sqlite3_stricmp(call->source.names[*column], name)) return TSR_OK;
  for (uint32_t i = 0; i < call->labels.count; i++) { /* the name of a label's dimension finds the label's column */
    const tsr_ingest_column *labelled = &call->columns[call->labels.columns[i]];
    if (sqlite3_stricmp(labelled->label_of, name) != 0) continue;
    for (*column = 0; call->source.kept[*column] != (int)call->labels.columns[i];) ++*column;
    return TSR_OK;
  }
  char names[200] = "";
  for (uint32_t i = 0; i < call->source.count; i++) {
    const size_t size = strlen(names);
    sqlite3_snprintf((int)(sizeof names - size), names + size, "%s%s", size ? ", " : "", call->source.names[i]);
  }
  return tsx_fail(error, TSR_ERROR, "'%s': the source has no column '%.64s'; it has %s", ingest_specs[r->option].name,
                  name, names);
}

static int find_kept(const ingest_reading *r, const char *name, tsr_ingest_column **column, tsr_error *error) {
  uint32_t i;
  TSX_TRY(ingest_find(r, name, &i, error));
  if (r->call->source.kept[i] < 0)
    return tsx_fail(error, TSR_ERROR, "'%s': 'columns' leaves column '%.64s' out", ingest_specs[r->option].name, name);
  *column = &r->call->columns[r->call->source.kept[i]];
  return TSR_OK;
}

/* Reads one name in a list of columns: of `enumerate`, `not_null`, `nullable`, `grow` or `dimensions`. */
static int read_name(void *argument, const tsx_json_option *o, tsr_error *error) {
  ingest_reading *r = argument;
  tsx_ingest_call *call = r->call;
  tsr_ingest_column *column = NULL;
  if (r->option == INGEST_OPTION_grow && !strcmp(ingest_text(o), tsx_ingest_row_name(call))) {
    call->given.grow_row = true;
    return TSR_OK;
  }
  TSX_TRY(find_kept(r, ingest_text(o), &column, error));
  const uint32_t number = (uint32_t)(column - call->columns);
  switch (r->option) {
  case INGEST_OPTION_enumerate: column->labels = true; break;
  case INGEST_OPTION_not_null:
    column->not_null = true;
    column->nullable = false;
    break;
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

/* Reads one name of `columns`, which lists the columns to keep, in the new order. */
static int read_kept(void *argument, const tsx_json_option *o, tsr_error *error) {
  ingest_reading *r = argument;
  tsx_ingest_call *call = r->call;
  uint32_t i;
  TSX_TRY(ingest_find(r, ingest_text(o), &i, error));
  if (call->source.kept[i] >= 0) return tsx_fail(error, TSR_ERROR, "'columns' names '%s' twice", call->source.names[i]);
  call->source.kept[i] = (int)r->count++;
  return TSR_OK;
}

static int keep_columns(tsx_ingest_call *call, const tsx_json_option *o, tsr_error *error) {
  ingest_reading r = {.call = call, .option = INGEST_OPTION_columns};
  tsr_ingest_column *sorted = sqlite3_malloc64(call->source.count * sizeof *sorted);
  if (!sorted) return tsx_out_of_memory(error);
  memcpy(sorted, call->columns, call->source.count * sizeof *sorted);
  for (uint32_t i = 0; i < call->source.count; i++) call->source.kept[i] = -1;
  const int code = tsx_elements_each(call->connection->db, o->value, "'columns'", read_kept, &r, error);
  for (uint32_t i = 0; i < call->source.count; i++)
    if (call->source.kept[i] >= 0) call->columns[call->source.kept[i]] = sorted[i];
  for (uint32_t d = 0; d < call->options.dimension_count; d++) { /* renumber the dimensions that the source suggests */
    const int kept = call->source.kept[call->dimensions[d]];
    if (kept < 0) call->options.dimension_count = 0;
    else call->dimensions[d] = (uint32_t)kept;
  }
  sqlite3_free(sorted);
  call->options.column_count = r.count;
  return code;
}

/* ---- Properties of columns --------------------------------------------------------------------------------------- */

static int read_type(ingest_reading *r, tsr_ingest_column *column, const tsx_json_option *o, tsr_error *error) {
  tsx_column_text text = {0};
  tsx_parser p = {.definition = &r->call->memory, .error = error};
  char *definition = sqlite3_mprintf("\"%w\" %s", column->name, ingest_text(o));
  int code = definition ? tsx_column_parse(&p, definition, true, &text) : tsx_out_of_memory(error);
  sqlite3_free(definition);
  if (code < 0) return code == TSR_NOMEM ? tsx_out_of_memory(error) : tsx_fail_in("'types'", error);
  if (text.is_dimension || text.has_filters || text.enumeration.given || text.not_null ||
      text.fill.kind != TSX_TOKEN_END)
    return tsx_fail(error, TSR_ERROR, "'types': column '%s': expected only a type, such as INT16", column->name);
  column->typed = true;
  column->datatype = text.datatype;
  column->values_per_cell = text.values_per_cell;
  column->enumeration = NULL;
  if (text.duration && tsr_datatype_kind(text.datatype) != TSR_KIND_TIME)
    return tsx_fail(error, TSR_ERROR, "'types': column '%s': DURATION is for TIME_HR to TIME_AS", column->name);
  column->duration |= text.duration;
  return TSR_OK;
}

static int read_filters(ingest_reading *r, tsr_ingest_column *column, const tsx_json_option *o, tsr_error *error) {
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

/* Reads a number in a dimension's datatype; for an untyped column as INT64 or FLOAT64. is_unsigned is NULL for an
 * extent. A bound of a domain that exceeds INT64 is read as UINT64, and sets *is_unsigned. */
static int read_number(const ingest_reading *r, const tsx_json_option *o, bool *is_unsigned, uint8_t out[8],
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
    return tsx_fail(error, code, "'%s': column '%s': %s", ingest_specs[r->option].name, column->name, why.message);
  return TSR_OK;
}

static int read_end(void *argument, const tsx_json_option *o, tsr_error *error) {
  ingest_reading *r = argument;
  if (r->count > 1)
    return tsx_fail(error, TSR_MISMATCH, "'domains': column '%s': expected [low, high]", r->column->name);
  return r->count++ ? read_number(r, o, &r->column->high_unsigned, r->column->high, error)
                    : read_number(r, o, &r->column->low_unsigned, r->column->low, error);
}

/* If one bound of a domain is a REAL, as in [0, 0.5], both are read as REAL. */
static int ingest_look_at_end(void *argument, const tsx_json_option *o, tsr_error *error) {
  ingest_reading *r = argument;
  r->column->real |= strcmp(o->type, "real") == 0;
  return TSR_OK;
}

static int read_domain(ingest_reading *r, tsr_ingest_column *column, const tsx_json_option *o, tsr_error *error) {
  ingest_reading ends = {.call = r->call, .option = r->option, .column = column};
  sqlite3 *db = r->call->connection->db;
  static const char expected[] = "'domains': expected [low, high]";
  TSX_TRY(tsx_elements_each(db, o->value, expected, ingest_look_at_end, &ends, error));
  TSX_TRY(tsx_elements_each(db, o->value, expected, read_end, &ends, error));
  if (ends.count != 2)
    return tsx_fail(error, TSR_MISMATCH, "'domains': column '%s': expected [low, high]", column->name);
  column->has_domain = true;
  return TSR_OK;
}

/* Reads one member of an option that is an object with columns as keys. */
static int read_property(void *argument, const tsx_json_option *o, tsr_error *error) {
  ingest_reading *r = argument;
  TSX_TRY(find_kept(r, o->key, &r->column, error));
  if (r->option == INGEST_OPTION_domains) return read_domain(r, r->column, o, error);
  if (r->option == INGEST_OPTION_extents) {
    r->column->has_extent = true;
    return read_number(r, o, NULL, r->column->extent, error);
  }
  if (strcmp(o->type, "text") != 0)
    return tsx_fail(error, TSR_MISMATCH, "'%s': column '%s': expected text", ingest_specs[r->option].name, o->key);
  if (r->option == INGEST_OPTION_labels) return tsx_ingest_label(r->call, r->column, ingest_text(o), error);
  return r->option == INGEST_OPTION_types ? read_type(r, r->column, o, error) : read_filters(r, r->column, o, error);
}

/* ---- Single values ----------------------------------------------------------------------------------------------- */

/* Reads the key file. Its path is resolved like the paths of arrays. */
static int read_key(tsx_ingest_call *call, const tsx_json_option *o, tsr_error *error) {
  tsx_address *address = &call->array.address;
  if (!*ingest_text(o)) return tsx_fail(error, TSR_MISMATCH, "'key_file': expected the path of a file");
  TSX_TRY(tsx_address_path(call->connection, ingest_text(o), &address->key_file, error)); /* a table keeps the path */
  TSX_TRY(tsx_key_read(call->connection, address->key_file, address->key, error));
  address->has_key = true;
  return TSR_OK;
}

static int take_single(tsx_ingest_call *call, ingest_option option, const tsx_option_value *value, tsr_error *error) {
  static const tsr_order orders[] = {TSR_ORDER_ROW, TSR_ORDER_COL, TSR_ORDER_HILBERT};
  switch (option) {
  case INGEST_OPTION_if_exists: call->given.if_exists = (tsx_ingest_exists)value->whole; break;
  case INGEST_OPTION_on_error: call->given.skip = value->whole == 1; break;
  case INGEST_OPTION_kind: call->options.kind = value->whole ? TSR_INGEST_SPARSE : TSR_INGEST_DENSE; break;
  case INGEST_OPTION_capacity: call->options.capacity = (uint64_t)value->whole; break;
  case INGEST_OPTION_cell_order:
    call->options.has_cell_order = true;
    call->options.cell_order = orders[value->whole];
    break;
  case INGEST_OPTION_tile_order:
    call->options.has_tile_order = true;
    call->options.tile_order = orders[value->whole];
    break;
  case INGEST_OPTION_duplicates: call->options.duplicates = value->whole; break;
  case INGEST_OPTION_memory_mb: call->options.memory_bytes = (uint64_t)value->whole << 20; break;
  case INGEST_OPTION_format_version: call->options.version = (uint32_t)value->whole; break;
  case INGEST_OPTION_explain: call->given.explain = value->whole; break;
  case INGEST_OPTION_key_file: return read_key(call, value->json, error);
  case INGEST_OPTION_metadata:
    call->given.metadata = sqlite3_value_dup(value->json->value);
    return call->given.metadata ? TSR_OK : tsx_out_of_memory(error);
  default: break; /* read by another pass, or by create.c */
  }
  return TSR_OK;
}

/* ---- All options ------------------------------------------------------------------------------------------------- */

/* Returns the options that this call accepts: tessera_rows has few, CSV has some of its own. */
static tsx_option_list ingest_list(const tsx_ingest_call *call) {
  tsx_option_list list = TSX_OPTION_LIST(ingest_specs);
  const uint64_t csv = ~UINT64_C(0) << INGEST_OPTION_CSV,
                 rows = UINT64_C(1) << INGEST_OPTION_types | UINT64_C(1) << INGEST_OPTION_enumerate |
                        UINT64_C(1) << INGEST_OPTION_columns | UINT64_C(1) << INGEST_OPTION_memory_mb;
  list.without = call->source.is_rows ? ~rows : call->source.is_csv ? 0 : csv;
  return list;
}

static int take_first(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  tsx_ingest_call *call = argument;
  call->given.options |= UINT64_C(1) << option;
  return option == INGEST_OPTION_columns ? keep_columns(call, value->json, error) : TSR_OK;
}

/* Takes `labels`. The other options may then name their dimensions. */
static int take_enumerated(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  ingest_reading r = {.call = argument, .option = INGEST_OPTION_labels};
  const tsx_json_option *o = value->json;
  if (option != INGEST_OPTION_labels) return TSR_OK;
  return tsx_options_each(r.call->connection->db, o->value, o->key, read_property, &r, error);
}

/* Takes everything but `columns`, `labels`, `domains` and `extents`. */
static int take_second(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  ingest_reading r = {.call = argument, .option = (ingest_option)option};
  sqlite3 *db = r.call->connection->db;
  const tsx_json_option *o = value->json;
  switch (r.option) {
  case INGEST_OPTION_types:
  case INGEST_OPTION_filters: return tsx_options_each(db, o->value, o->key, read_property, &r, error);
  case INGEST_OPTION_dimensions:
  case INGEST_OPTION_enumerate:
  case INGEST_OPTION_not_null:
  case INGEST_OPTION_nullable:
  case INGEST_OPTION_grow: return tsx_elements_each(db, o->value, o->key, read_name, &r, error);
  default: return take_single(r.call, r.option, value, error);
  }
}

static int take_third(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  ingest_reading r = {.call = argument, .option = (ingest_option)option};
  const tsx_json_option *o = value->json;
  if (r.option != INGEST_OPTION_domains && r.option != INGEST_OPTION_extents) return TSR_OK;
  return tsx_options_each(r.call->connection->db, o->value, o->key, read_property, &r, error);
}

/* Fails if a column that is not a dimension has a domain or an extent or grows, or if options contradict each other. */
static int check_dimensions(tsx_ingest_call *call, tsr_error *error) {
  call->options.row_grows = call->given.grow_row && call->options.dimension_count == 0;
  if (call->given.grow_row && !call->options.row_grows)
    return tsx_fail(error, TSR_ERROR, "'grow': '%s' is not a dimension", tsx_ingest_row_name(call));
  for (uint32_t i = 0; i < call->options.column_count; i++) {
    const tsr_ingest_column *column = &call->columns[i];
    bool is_dimension = false;
    for (uint32_t d = 0; d < call->options.dimension_count; d++) is_dimension |= call->dimensions[d] == i;
    if (column->not_null && column->nullable)
      return tsx_fail(error, TSR_ERROR, "column '%s' is in both not_null and nullable", column->name);
    if (!is_dimension && (column->has_domain || column->has_extent || column->grow))
      return tsx_fail(error, TSR_ERROR, "'%s': column '%s' is not a dimension: list it in dimensions",
                      ingest_specs[column->has_domain   ? INGEST_OPTION_domains
                                   : column->has_extent ? INGEST_OPTION_extents
                                                        : INGEST_OPTION_grow]
                          .name,
                      column->name);
  }
  return TSR_OK;
}

int tsx_ingest_options_read(tsx_ingest_call *call, sqlite3_value *json, tsr_error *error) {
  static const tsx_option_taker passes[] = {take_first, take_enumerated, take_second, take_third};
  const tsx_option_list list = ingest_list(call);
  if (!json || sqlite3_value_type(json) == SQLITE_NULL) return TSR_OK;
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
    TSX_TRY(tsx_options_read(call->connection->db, json, &list, passes[i], call, error));
  tsx_ingest_label_dimensions(call);
  for (uint32_t d = 0; d < call->options.dimension_count && !(call->given.options >> INGEST_OPTION_enumerate & 1); d++)
    call->columns[call->dimensions[d]].labels = false; /* the texts themselves are the coordinates */
  for (uint32_t d = 0; d < call->options.dimension_count; d++) { /* a string dimension is ASCII, as in CREATE */
    tsr_ingest_column *column = &call->columns[call->dimensions[d]];
    if (column->typed && !column->label_of && tsr_datatype_kind(column->datatype) == TSR_KIND_TEXT &&
        column->values_per_cell == TSR_VARIABLE)
      column->datatype = TSR_ASCII;
  }
  return check_dimensions(call, error);
}

/* ---- Options of an append ---------------------------------------------------------------------------------------- */

typedef struct ingest_agreement { /* compares options with an existing array */
  tsx_ingest_call *call; /* its columns have the types of the array's fields */
  const tsr_schema *schema;
  ingest_option option;
  uint32_t named; /* names in the list so far */
} ingest_agreement;

static int ingest_disagree(const ingest_agreement *a, const char *column, const char *what, tsr_error *error) {
  return tsx_fail(error, TSR_CONSTRAINT, "'%s': %s%s%s%s: the option is not that of the array to which rows are added",
                  ingest_specs[a->option].name, column ? "column '" : "", column ? column : "", column ? "': " : "",
                  what);
}

/* Returns the array's field that a column is written to; for a label, its dimension. */
static const tsr_field *ingest_agreement_field(const ingest_agreement *a, const tsr_ingest_column *column) {
  const char *name = column->label ? column->label_of : column->name;
  const tsr_field *field = a->schema->fields;
  while (strcmp(field->name, name) != 0) field++;
  return field;
}

/* Returns true if a new array with the option's type would have a field like this one: text dimensions become ASCII,
 * and integer dimensions may become wider. */
static bool ingest_same_type(const tsr_ingest_column *is, const tsr_ingest_column *said, bool is_dimension) {
  const tsr_kind kind = tsr_datatype_kind(is->datatype);
  const bool like = kind == tsr_datatype_kind(said->datatype) &&
                    (kind == TSR_KIND_TEXT || kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED) &&
                    tsr_datatype_size(said->datatype) <= tsr_datatype_size(is->datatype);
  return is->values_per_cell == said->values_per_cell && (is->datatype == said->datatype || (is_dimension && like));
}

/* Returns true if two pipelines have the same filters. A level that the option does not give matches any level. */
static bool ingest_same_filters(const tsr_pipeline *is, const tsr_pipeline *said) {
  bool same = is->count == said->count;
  for (uint32_t i = 0; i < said->count && same; i++)
    same = is->filters[i].type == said->filters[i].type &&
           (said->filters[i].level == -1 || is->filters[i].level == said->filters[i].level);
  return same;
}

/* Compares an option for a column with the array's field. `said` is a copy of the column with the option's value. */
static int ingest_agree_property(const ingest_agreement *a, const tsr_ingest_column *column,
                                 const tsr_ingest_column *said, tsr_error *error) {
  const tsr_field *field = ingest_agreement_field(a, column);
  const uint64_t size = tsr_datatype_size(field->datatype);
  switch (a->option) {
  case INGEST_OPTION_types:
    return ingest_same_type(column, said, field->is_dimension)
               ? TSR_OK
               : ingest_disagree(a, column->name, tsr_datatype_name(column->datatype), error);
  case INGEST_OPTION_filters:
    return column->label || ingest_same_filters(&field->filters, said->filters)
               ? TSR_OK
               : ingest_disagree(a, column->name, "it has other filters", error);
  case INGEST_OPTION_domains:
    return field->has_domain && !memcmp(field->low, said->low, size) && !memcmp(field->high, said->high, size)
               ? TSR_OK
               : ingest_disagree(a, column->name, field->has_domain ? "it has another domain" : "it has none", error);
  default:
    return field->has_extent && !memcmp(field->extent, said->extent, size)
               ? TSR_OK
               : ingest_disagree(a, column->name, field->has_extent ? "it has another extent" : "it has none", error);
  }
}

static int ingest_agree_member(void *argument, const tsx_json_option *o, tsr_error *error) {
  const ingest_agreement *a = argument;
  ingest_reading r = {.call = a->call, .option = a->option};
  tsr_ingest_column *column = NULL;
  TSX_TRY(find_kept(&r, o->key, &column, error));
  if (a->option == INGEST_OPTION_labels)
    return column->label ? TSR_OK : ingest_disagree(a, column->name, "it is not a label", error);
  tsr_ingest_column said = *column;
  r.column = &said;
  if (a->option == INGEST_OPTION_domains) TSX_TRY(read_domain(&r, &said, o, error));
  else if (a->option == INGEST_OPTION_extents) TSX_TRY(read_number(&r, o, NULL, said.extent, error));
  else if (a->option == INGEST_OPTION_types) TSX_TRY(read_type(&r, &said, o, error));
  else TSX_TRY(read_filters(&r, &said, o, error));
  return ingest_agree_property(a, column, &said, error);
}

/* Returns true if later rows may lie beyond a dimension's current domain: always in a sparse array, and in a dense
 * array whose current domain is smaller than its domain. */
static bool ingest_agreement_grows(const tsr_schema *schema, uint32_t dimension) {
  const tsr_field *field = &schema->fields[dimension];
  if (!schema->dense || !field->is_dimension) return !schema->dense;
  const tsr_interval *current = schema->current_domain ? &schema->current_domain[dimension] : NULL;
  const uint64_t size = tsr_datatype_size(field->datatype);
  return current && (memcmp(current->low, field->low, size) != 0 || memcmp(current->high, field->high, size) != 0);
}

/* Compares one name in a list: of `dimensions`, `enumerate`, `nullable` or `grow`. */
static int ingest_agree_name(void *argument, const tsx_json_option *o, tsr_error *error) {
  ingest_agreement *a = argument;
  ingest_reading r = {.call = a->call, .option = a->option};
  tsr_ingest_column *column = NULL;
  const bool row = a->option == INGEST_OPTION_grow && !strcmp(ingest_text(o), tsx_ingest_row_name(a->call));
  TSX_TRY(row ? TSR_OK : find_kept(&r, ingest_text(o), &column, error));
  const tsr_field *field = row ? a->schema->fields : ingest_agreement_field(a, column);
  a->named++;
  if (a->option == INGEST_OPTION_dimensions && !field->is_dimension)
    return ingest_disagree(a, column->name, "it is not a dimension", error);
  if (a->option == INGEST_OPTION_enumerate && !column->labels)
    return ingest_disagree(a, column->name, "it has no enumeration", error);
  if (a->option == INGEST_OPTION_nullable && column->refuses_null)
    return ingest_disagree(a, column->name, "it takes no NULL", error);
  if (a->option == INGEST_OPTION_grow && !ingest_agreement_grows(a->schema, (uint32_t)(field - a->schema->fields)))
    return ingest_disagree(a, ingest_text(o), "its domain does not grow", error);
  return TSR_OK;
}

static int ingest_agree(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  static const tsr_order orders[] = {TSR_ORDER_ROW, TSR_ORDER_COL, TSR_ORDER_HILBERT};
  ingest_agreement *a = argument;
  const tsr_schema *schema = a->schema;
  sqlite3 *db = a->call->connection->db;
  const tsx_json_option *o = value->json;
  bool same = true;
  int code;
  a->option = (ingest_option)option;
  a->named = 0;
  switch (a->option) {
  case INGEST_OPTION_types:
  case INGEST_OPTION_domains:
  case INGEST_OPTION_extents:
  case INGEST_OPTION_filters:
  case INGEST_OPTION_labels: return tsx_options_each(db, o->value, o->key, ingest_agree_member, a, error);
  case INGEST_OPTION_enumerate:
  case INGEST_OPTION_nullable:
  case INGEST_OPTION_grow: return tsx_elements_each(db, o->value, o->key, ingest_agree_name, a, error);
  case INGEST_OPTION_dimensions:
    code = tsx_elements_each(db, o->value, o->key, ingest_agree_name, a, error);
    if (code < 0) return code;
    same = a->named + a->call->labels.index_count >= schema->dimension_count;
    break;
  case INGEST_OPTION_kind: same = schema->dense == !value->whole; break;
  case INGEST_OPTION_capacity: same = schema->capacity == (uint64_t)value->whole; break;
  case INGEST_OPTION_cell_order: same = schema->cell_order == orders[value->whole]; break;
  case INGEST_OPTION_tile_order: same = schema->tile_order == orders[value->whole]; break;
  case INGEST_OPTION_duplicates: same = schema->dense || schema->allows_duplicates == (value->whole != 0); break;
  case INGEST_OPTION_format_version: same = schema->version == (uint32_t)value->whole; break;
  default: break; /* options of the call, not of the array */
  }
  return same ? TSR_OK : ingest_disagree(a, NULL, "the array has another value", error);
}

int tsx_ingest_options_agree(tsx_ingest_call *call, sqlite3_value *json, const tsr_schema *schema, tsr_error *error) {
  ingest_agreement a = {.call = call, .schema = schema};
  const tsx_option_list list = ingest_list(call);
  return tsx_options_read(call->connection->db, json, &list, ingest_agree, &a, error);
}
