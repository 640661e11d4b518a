/* regrid.c: tessera_regrid(from, to, factors, method[, options]), which makes a new array each of whose cells
 * aggregates a block of cells of another array.
 *
 * The core computes the blocks (tsr_regrid_open). As in tessera_copy, the new array is prepared under a name that
 * readers do not see, and published when all cells and metadata have been written; an array in the database is made
 * within a savepoint.
 *
 * Sections: making an array (which tessera_make_overviews uses, too), arguments, the call. */
#include "maintain/upkeep.h"

#include <string.h>

#include "connection/errors.h"
#include "definition/define.h"
#include "call/function.h"
#include "table/table.h"
#include "sql/json.h"
#include "sql/options.h"
#include "sql/names.h"
#include "values/value.h"

#define REGRID_KEY "tessera_regrid" /* the metadata key that says what the array was made from */

/* ---- Making an array --------------------------------------------------------------------------------------------- */

typedef struct regrid_making {
  tsx_address *from;
  tsx_definition definition; /* the schema of the new array, as CREATE accepts it */
  tsr_regrid *regrid;
  tsr_label_index **labels; /* labels of the source, one for each label of the new array; NULL-terminated */
  tsr_creation *creation; /* NULL for an array in the database */
  tsr_array *target;
} regrid_making;

/* Opens a label of the source and reads its values. Returns 1; 0 if the label is not supported: its values are
 * unordered, or stored outside of the array. */
static int read_label(const regrid_making *m, const tsr_schema *source, uint32_t number, tsr_label_index **label,
                      tsr_error *error) {
  tsr_error own = {0};
  int code = tsr_label_open(m->from->array->core, source, number, m->from->memory_bytes, label, &own);
  if (code == TSR_UNSUPPORTED) return 0;
  if (code >= 0) code = tsr_label_read(*label, m->from->since, m->from->as_of, &own);
  if (code >= 0) return 1;
  *error = own;
  return code;
}

/* Adds to the new schema the labels of dimensions with factor 1, which keep their coordinates. */
static int take_enumerated(regrid_making *m, const tsr_schema *source, const uint64_t *factors, tsr_error *error) {
  tsx_parser p = {.definition = &m->definition, .error = error};
  tsr_schema *schema = &m->definition.schema;
  const uint64_t room = (uint64_t)source->label_count + 1;
  schema->labels = tsx_parser_alloc(&p, room * sizeof *schema->labels);
  m->labels = tsx_parser_alloc(&p, room * sizeof *m->labels);
  if (!schema->labels || !m->labels) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < source->label_count; i++) {
    if (factors[source->labels[i].dimension] != 1) continue;
    const int supported = read_label(m, source, i, &m->labels[schema->label_count], error);
    if (supported < 0) return supported;
    if (supported) schema->labels[schema->label_count++] = source->labels[i];
  }
  for (uint32_t i = 0; i < schema->label_count; i++)
    TSX_TRY(tsx_creatable_label(tsr_label_schema(m->labels[i]), &m->definition, i, error));
  return TSR_OK;
}

static int open_target(regrid_making *m, const char *to, tsr_error *error) {
  tsx_connection *connection = m->from->connection;
  tsr_environment *environment = connection->environment;
  const uint8_t *key = m->from->array->has_key ? m->from->array->key : NULL;
  tsr_array_options options = {.key = key};
  if (!sqlite3_strnicmp(to, "db:", 3)) {
    char *path;
    int code = tsx_database_create(connection, to, m->from, &m->definition.schema, &path, error);
    if (code < 0) return code;
    code = tsr_array_open(environment, path, &options, &m->target, error);
    sqlite3_free(path);
    return code;
  }
  const tsr_create_options create = {.key = key};
  TSX_TRY(tsx_creation_begin(connection, to, &m->definition.schema, &create, &m->creation, error));
  options.creation = m->creation;
  return tsr_array_open(environment, to, &options, &m->target, error);
}

int tsx_metadata_set_text(tsr_array *array, const char *key, const char *text, tsr_error *error) {
  const uint64_t size = strlen(text);
  const tsr_metadatum entry = {
      .key = key, .key_size = strlen(key), .datatype = TSR_UTF8, .count = size, .value = text, .value_size = size};
  return tsr_array_set_metadata(array, &entry, error);
}

/* Writes the regrid to a new array. The caller releases what is in *m, and abandons the creation if this fails. */
static int make_array(regrid_making *m, tsr_snapshot *snapshot, const tsr_regrid_request *request, const char *to,
                      bool describe, const char *key, const char *note, uint64_t *cells, tsr_error *error) {
  const tsx_address *from = m->from;
  TSX_TRY(tsr_regrid_open(snapshot, request, &m->regrid, error));
  TSX_TRY(tsx_creatable(tsr_regrid_schema(m->regrid), &m->definition, error));
  if (describe) TSX_TRY(take_enumerated(m, tsr_snapshot_schema(snapshot), request->factors, error));
  TSX_TRY(open_target(m, to, error));
  TSX_TRY(tsr_regrid_write(m->regrid, m->target, cells, error));
  TSX_TRY(tsx_labels_write(m->target, m->labels, m->definition.schema.label_count, from->memory_bytes, error));
  if (describe) TSX_TRY(tsx_metadata_copy(from, m->target, error));
  TSX_TRY(tsx_metadata_set_text(m->target, key, note, error));
  if (!m->creation) return TSR_OK;
  if (from->array->has_key) TSX_TRY(tsx_key_set(from->connection, to, from->array->key, error));
  return tsr_creation_publish(m->creation, error);
}

int tsx_regrid_make(tsx_address *from, tsr_snapshot *snapshot, const tsr_regrid_request *request, const char *to,
                    bool describe, const char *key, const char *note, uint64_t *cells, tsr_error *error) {
  regrid_making m = {.from = from};
  const int code = make_array(&m, snapshot, request, to, describe, key, note, cells, error);
  tsr_array_close(m.target);
  if (code < 0 && m.creation) (void)tsr_creation_abandon(m.creation, NULL);
  tsr_creation_close(m.creation);
  tsr_regrid_close(m.regrid);
  for (tsr_label_index **label = m.labels; label && *label; label++) tsr_label_close(*label);
  tsx_definition_release(&m.definition);
  return code;
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

typedef struct regrid_call {
  tsx_connection *connection;
  tsx_address from;
  tsx_regrid_source source; /* marks: the dimension's factor was given */
  tsr_regrid_request request;
} regrid_call;

int tsx_regrid_method_parse(const char *name, tsr_regrid_method *method, tsr_error *error) {
  static const char *const names[] = {"mean", "sum", "min", "max", "count", "nearest", "mode"};
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (name && !sqlite3_stricmp(names[i], name)) {
      *method = (tsr_regrid_method)i;
      return TSR_OK;
    }
  return tsx_fail(error, TSR_ERROR, "no method is called '%.60s': mean, sum, min, max, count, nearest, mode",
                  name ? name : "");
}

static bool regrid_is_integer(const tsx_json_option *o) {
  return !strcmp(o->type, "integer") && sqlite3_value_type(o->value) == SQLITE_INTEGER;
}

static int read_factor(void *argument, const tsx_json_option *o, tsr_error *error) {
  regrid_call *c = argument;
  for (uint32_t d = 0; d < c->source.schema->dimension_count; d++) {
    if (sqlite3_stricmp(c->source.names[d], o->key) != 0) continue;
    if (!regrid_is_integer(o))
      return tsx_fail(error, TSR_MISMATCH, "the factors: dimension '%s': expected an integer from 1", o->key);
    if (sqlite3_value_int64(o->value) < 1)
      return tsx_fail(error, TSR_RANGE, "the factors: dimension '%s': %lld is below 1", o->key,
                      (long long)sqlite3_value_int64(o->value));
    if (c->source.marks[d])
      return tsx_fail(error, TSR_ERROR, "the factors: dimension '%s' is given twice", c->source.names[d]);
    c->source.marks[d] = true;
    c->source.factors[d] = (uint64_t)sqlite3_value_int64(o->value);
    return TSR_OK;
  }
  return tsx_names_fail(c->source.names, 0, c->source.schema->dimension_count, error,
                        "the factors: no dimension is called '%.60s'", o->key);
}

typedef struct name_list { /* an option that lists fields of the source */
  char *const *names;
  uint32_t first, end; /* the fields that it may list */
  const char *option, *noun;
  bool *marks;
} name_list;

static int read_name(void *argument, const tsx_json_option *o, tsr_error *error) {
  const name_list *list = argument;
  const char *name = strcmp(o->type, "text") != 0 ? NULL : (const char *)sqlite3_value_text(o->value);
  for (uint32_t f = list->first; name && f < list->end; f++)
    if (!sqlite3_stricmp(list->names[f], name)) {
      if (list->marks[f])
        return tsx_fail(error, TSR_ERROR, "%s: %s '%s' is given twice", list->option, list->noun, list->names[f]);
      list->marks[f] = true;
      return TSR_OK;
    }
  return tsx_names_fail(list->names, list->first, list->end, error, "%s: no %s is called '%.60s'", list->option,
                        list->noun, name ? name : o->text);
}

int tsx_regrid_columns_parse(sqlite3 *db, sqlite3_value *value, tsx_regrid_source *source, tsr_error *error) {
  const uint32_t dimensions = source->schema->dimension_count, end = dimensions + source->schema->attribute_count;
  name_list list = {source->names, dimensions, end, "'columns'", "attribute", source->fields};
  return tsx_elements_each(db, value, list.option, read_name, &list, error);
}

int tsx_regrid_dimensions_parse(sqlite3 *db, sqlite3_value *value, tsx_regrid_source *source, tsr_error *error) {
  name_list list = {source->names, 0, source->schema->dimension_count, "'dimensions'", "dimension", source->marks};
  return tsx_elements_each(db, value, list.option, read_name, &list, error);
}

enum { REGRID_OPTION_columns, REGRID_OPTION_memory_mb, REGRID_OPTION_threads };

static int take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  regrid_call *c = argument;
  switch (option) {
  case REGRID_OPTION_columns:
    c->request.fields = c->source.fields;
    return tsx_regrid_columns_parse(c->connection->db, value->json->value, &c->source, error);
  case REGRID_OPTION_memory_mb: c->request.memory_bytes = (uint64_t)value->whole << 20; break;
  default: c->request.threads = (unsigned)value->whole;
  }
  return TSR_OK;
}

static int read_options(regrid_call *c, sqlite3_value *json, tsr_error *error) {
  static const tsx_option_spec specs[] = {[REGRID_OPTION_columns] = {.name = "columns"},
                                          [REGRID_OPTION_memory_mb] = TSX_SPEC_MEMORY_MB,
                                          [REGRID_OPTION_threads] = TSX_SPEC_THREADS};
  static const tsx_option_list list = TSX_OPTION_LIST(specs);
  return tsx_options_read(c->connection->db, json, &list, take_option, c, error);
}

/* ---- The call ---------------------------------------------------------------------------------------------------- */

int tsx_regrid_source_open(tsr_array *array, uint64_t since, uint64_t as_of, tsx_regrid_source *source,
                           tsr_error *error) {
  TSX_TRY(tsr_snapshot_open(array, NULL, since, as_of, &source->snapshot, error));
  source->schema = tsr_snapshot_schema(source->snapshot);
  const uint64_t dimensions = source->schema->dimension_count, fields = dimensions + source->schema->attribute_count;
  source->names = tsx_names_make(source->schema);
  source->factors = sqlite3_malloc64(dimensions * sizeof *source->factors);
  source->fields = sqlite3_malloc64((fields + dimensions) * sizeof *source->fields);
  if (!source->names || !source->factors || !source->fields) return tsx_out_of_memory(error);
  for (uint64_t d = 0; d < dimensions; d++) source->factors[d] = 1;
  memset(source->fields, 0, (fields + dimensions) * sizeof *source->fields);
  source->marks = source->fields + fields;
  return TSR_OK;
}

void tsx_regrid_source_close(tsx_regrid_source *source) {
  tsr_snapshot_close(source->snapshot);
  if (source->names) tsx_names_free(source->names, source->schema);
  sqlite3_free(source->factors);
  sqlite3_free(source->fields);
}

static int open_source(regrid_call *c, tsr_error *error) {
  TSX_TRY(tsx_address_array(&c->from, error));
  TSX_TRY(tsx_regrid_source_open(c->from.array->core, c->from.since, c->from.as_of, &c->source, error));
  c->request.factors = c->source.factors;
  c->request.memory_bytes = c->from.memory_bytes;
  return TSR_OK;
}

/* Returns the value of REGRID_KEY, a JSON object. The caller frees it by sqlite3_free. */
static char *regrid_note(regrid_call *c, const char *method) {
  sqlite3_str *out = sqlite3_str_new(c->connection->db);
  const char *comma = "";
  sqlite3_str_appendall(out, "{\"from\":");
  tsx_json_text(out, c->from.given, strlen(c->from.given));
  sqlite3_str_appendall(out, ",\"factors\":{");
  for (uint32_t d = 0; d < c->source.schema->dimension_count; d++) {
    if (c->source.factors[d] == 1) continue;
    sqlite3_str_appendall(out, comma);
    tsx_json_text(out, c->source.names[d], strlen(c->source.names[d]));
    sqlite3_str_appendf(out, ":%llu", c->source.factors[d]);
    comma = ",";
  }
  sqlite3_str_appendf(out, "},\"method\":\"%s\"}", method);
  return sqlite3_str_finish(out);
}

static int regrid_call_make(regrid_call *c, sqlite3_value **values, int count, uint64_t *cells, tsr_error *error) {
  TSX_TRY(tsx_arguments_check(count, values, 4, error));
  const char *to = (const char *)sqlite3_value_text(values[1]), *method = (const char *)sqlite3_value_text(values[3]);
  if (!to || !method) return tsx_out_of_memory(error);
  TSX_TRY(tsx_address_open_to_write(c->connection, values[0], &c->from, error));
  TSX_TRY(open_source(c, error));
  TSX_TRY(tsx_options_each(c->connection->db, values[2], "the factors", read_factor, c, error));
  TSX_TRY(tsx_regrid_method_parse(method, &c->request.method, error));
  if (count > 4) TSX_TRY(read_options(c, values[4], error));
  char *note = regrid_note(c, method);
  if (!note) return tsx_out_of_memory(error);
  const int code = tsx_regrid_make(&c->from, c->source.snapshot, &c->request, to, true, REGRID_KEY, note, cells, error);
  sqlite3_free(note);
  return code;
}

void tsx_regrid(sqlite3_context *context, int count, sqlite3_value **values) {
  regrid_call c = {.connection = sqlite3_user_data(context)};
  tsr_error error = {0};
  uint64_t cells = 0;
  tsx_connection_add_table(c.connection); /* cancellation works only while a table is counted */
  const int code = regrid_call_make(&c, values, count, &cells, &error);
  if (code >= 0) sqlite3_result_int64(context, (sqlite3_int64)cells);
  tsx_regrid_source_close(&c.source);
  tsx_address_close(&c.from);
  tsx_connection_remove_table(c.connection);
  tsx_function_end(context, "tessera_regrid", code, &error);
}
