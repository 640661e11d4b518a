/* functions_copy.c: tessera_copy(from, to[, options]): makes a new array with the cells of another one, with other tile
 * extents, filters or orders.
 *
 * The new array is prepared under a name that readers do not see, its cells (copy_cells.c) and metadata are written, and
 * then it is published by one rename. So it appears complete or not at all. An array in the database is made by CREATE
 * VIRTUAL TABLE and filled within one savepoint.
 */
#include "functions/functions_copy.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "text/json_in.h"
#include "text/options.h"
#include "text/literals.h"
#include "text/names.h"
#include "definition/define.h"
#include "table/database.h"
#include "functions/copy_cells.h"
#include "definition/creatable.h"
#include "functions/functions.h"
#include "functions/regrid.h"

/* ---- Options ----------------------------------------------------------------------------------------------------- */

static const char *copy_text_of(const tsx_json_option *o) {
  const char *text = (const char *)sqlite3_value_text(o->value);
  return text ? text : "";
}

static int copy_find_field(const tsx_copying *c, const char *name, const char *key, uint32_t count, uint32_t *field,
                           tsr_error *error) {
  for (*field = 0; *field < count; ++*field)
    if (!sqlite3_stricmp(c->names[*field], name)) return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "'%s': no %s is called '%s'", key,
                  count == c->source->dimension_count ? "dimension" : "column", name);
}

static int copy_read_extent(void *argument, const tsx_json_option *o, tsr_error *error) {
  tsx_copying *c = argument;
  uint32_t d;
  tsr_schema *schema = &c->definition.schema;
  int code = copy_find_field(c, o->key, "extents", schema->dimension_count, &d, error);
  if (code < 0) return code;
  tsr_field *field = &schema->fields[d];
  if (field->values_per_cell == TSR_VARIABLE)
    return tsx_fail(error, TSR_ERROR, "'extents': dimension '%s' holds strings: it has none", o->key);
  if (strcmp(o->type, "integer") != 0 && strcmp(o->type, "real") != 0)
    return tsx_fail(error, TSR_MISMATCH, "'extents': dimension '%s': expected a number", o->key);
  tsr_error why = {0};
  uint8_t extent[8] = {0};
  code = tsx_given_parse(tsx_extent_datatype(field->datatype), o->text, false, extent, &why);
  if (code < 0) return tsx_fail(error, code, "'extents': dimension '%s': %s", o->key, why.message);
  memcpy(field->extent, extent, sizeof extent);
  field->has_extent = true;
  return TSR_OK;
}

static int read_filters(void *argument, const tsx_json_option *o, tsr_error *error) {
  tsx_copying *c = argument;
  uint32_t f;
  tsr_schema *schema = &c->definition.schema;
  int code = copy_find_field(c, o->key, "filters", c->fields, &f, error);
  if (code < 0) return code;
  if (strcmp(o->type, "text") != 0)
    return tsx_fail(error, TSR_MISMATCH, "'filters': column '%s': expected text like \"byteshuffle, zstd\"", o->key);
  tsx_parser p = {
      .definition = &c->definition, .in = tsx_tokens_of(copy_text_of(o)), .noun = "filters of", .name = o->key, error};
  tsr_pipeline pipeline;
  if ((code = tsx_filters_parse(&p, &pipeline)) < 0) return code == TSR_NOMEM ? tsx_out_of_memory(error) : code;
  if (p.in.token.kind != TSX_TOKEN_END) return tsx_parser_unexpected(&p, "a comma or the end");
  if (f < schema->dimension_count && !pipeline.count && schema->coords_filters.count) {
    /* an empty list would stand for the filters of the coordinates */
    if (!(pipeline.filters = tsx_parser_alloc(&p, sizeof *pipeline.filters))) return tsx_out_of_memory(error);
    pipeline.filters[0] = TSX_FILTER(TSR_FILTER_NONE);
    pipeline.count = 1;
  }
  schema->fields[f].filters = pipeline;
  return TSR_OK;
}

enum {
  COPY_OPTION_extents,
  COPY_OPTION_filters,
  COPY_OPTION_capacity,
  COPY_OPTION_cell_order,
  COPY_OPTION_tile_order,
  COPY_OPTION_duplicates,
  COPY_OPTION_format_version
};

static const tsx_option_spec copy_specs[] = {
    [COPY_OPTION_extents] = {.name = "extents"},
    [COPY_OPTION_filters] = {.name = "filters"},
    [COPY_OPTION_capacity] = {"capacity", TSX_TAKES_WHOLE, 1, INT64_MAX, NULL},
    [COPY_OPTION_cell_order] = {"cell_order", TSX_TAKES_WORD, 0, 0, TSX_WORDS("row", "col", "hilbert")},
    [COPY_OPTION_tile_order] = {"tile_order", TSX_TAKES_WORD, 0, 0, TSX_WORDS("row", "col")},
    [COPY_OPTION_duplicates] = {"duplicates", TSX_TAKES_FLAG, 0, 0, NULL},
    [COPY_OPTION_format_version] = {"format_version", TSX_TAKES_WHOLE, 1, TSR_FORMAT_WRITE_MAX, NULL}};

static int copy_take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  static const tsr_order orders[] = {TSR_ORDER_ROW, TSR_ORDER_COL, TSR_ORDER_HILBERT};
  tsx_copying *c = argument;
  tsr_schema *schema = &c->definition.schema;
  sqlite3 *db = c->connection->db;
  switch (option) {
  case COPY_OPTION_extents: return tsx_options_each(db, value->json->value, "'extents'", copy_read_extent, c, error);
  case COPY_OPTION_filters: return tsx_options_each(db, value->json->value, "'filters'", read_filters, c, error);
  case COPY_OPTION_capacity: schema->capacity = (uint64_t)value->whole; break;
  case COPY_OPTION_cell_order: schema->cell_order = orders[value->whole]; break;
  case COPY_OPTION_tile_order: schema->tile_order = orders[value->whole]; break;
  case COPY_OPTION_duplicates:
    if (!value->whole && c->source->allows_duplicates)
      return tsx_fail(error, TSR_ERROR, "'duplicates': the array has duplicates: cells would be lost");
    schema->allows_duplicates = value->whole;
    break;
  default: schema->version = (uint32_t)value->whole;
  }
  return TSR_OK;
}

static int copy_read_options(tsx_copying *c, sqlite3_value *json, tsr_error *error) {
  static const tsx_option_list list = TSX_OPTION_LIST(copy_specs);
  return tsx_options_read(c->connection->db, json, &list, copy_take_option, c, error);
}

/* ---- The new array ----------------------------------------------------------------------------------------------- */

/* Reads the values of a label, and gives the new schema its array. */
static int read_label(tsx_copying *c, uint32_t number, tsr_error *error) {
  tsr_label_index **label = &c->labels[number];
  int code = tsr_label_open(c->from.array->core, c->source, number, c->from.memory_bytes, label, error);
  if (code == TSR_OK) code = tsr_label_read(*label, c->from.since, c->from.as_of, error);
  return code == TSR_OK ? tsx_creatable_label(tsr_label_schema(*label), &c->definition, number, error) : code;
}

/* Makes the new schema: the source's without what CREATE refuses, with loaded enumerations, and of the newest version if
 * the source's is below 12 or cannot be written. Allocates what depends on the number of fields. */
static int copy_make_schema(tsx_copying *c, tsr_error *error) {
  tsx_parser p = {.definition = &c->definition};
  tsr_schema *schema = &c->definition.schema;
  int code = tsx_creatable(c->source, &c->definition, error);
  c->fields = schema->dimension_count + schema->attribute_count;
  if (schema->version < 12 || schema->version > TSR_FORMAT_WRITE_MAX) schema->version = TSR_FORMAT_WRITE_MAX;
  schema->enumerations = tsx_parser_alloc(&p, (schema->enumeration_count + 1) * sizeof *schema->enumerations);
  c->batch.columns = tsx_parser_alloc(&p, c->fields * sizeof *c->batch.columns);
  c->batch.given = tsx_parser_alloc(&p, (c->fields + 1) * sizeof *c->batch.given);
  c->batch.gathered = tsx_parser_alloc(&p, c->fields * sizeof *c->batch.gathered);
  c->names = tsx_names_make(c->source);
  c->labels = tsx_parser_alloc(&p, (schema->label_count + 1) * sizeof *c->labels);
  if (c->labels) memset(c->labels, 0, (schema->label_count + 1) * sizeof *c->labels);
  if (code == TSR_OK &&
      (!c->labels || !schema->enumerations || !c->batch.columns || !c->batch.given || !c->batch.gathered || !c->names))
    code = tsx_out_of_memory(error);
  for (uint32_t i = 0; code == TSR_OK && i < schema->enumeration_count; i++) {
    const tsr_enumeration *loaded;
    code = tsr_array_enumeration(c->from.array->core, c->source, c->source->enumerations[i].name, &loaded, error);
    if (code == TSR_OK) schema->enumerations[i] = *loaded;
  }
  for (uint32_t i = 0; code == TSR_OK && i < schema->label_count; i++) code = read_label(c, i, error);
  return code;
}

static int open_in_database(tsx_copying *c, const char *to, const uint8_t *key, tsr_error *error) {
  const tsr_array_options options = {.key = key};
  char *path;
  int code = tsx_database_create(c->connection, to, &c->from, &c->definition.schema, &path, error);
  if (code < 0) return code;
  code = tsr_array_open(c->connection->environment, path, &options, &c->target, error);
  sqlite3_free(path);
  return code;
}

static int copy_open_target(tsx_copying *c, const char *to, tsr_error *error) {
  const uint8_t *key = c->from.array->has_key ? c->from.array->key : NULL;
  if (!sqlite3_strnicmp(to, "db:", 3)) return open_in_database(c, to, key, error);
  tsr_environment *environment = c->connection->environment;
  const tsr_create_options create = {.key = key};
  int code = tsr_creation_prepare(environment, to, &c->definition.schema, &create, &c->creation, error);
  if (code < 0) return code;
  const tsr_array_options options = {.key = key, .creation = c->creation};
  return tsr_array_open(environment, to, &options, &c->target, error);
}

int tsx_labels_write(tsr_array *target, tsr_label_index *const *labels, uint32_t count, uint64_t memory_bytes,
                     tsr_error *error) {
  const tsr_schema *made = NULL;
  int code = count > 0 ? tsr_array_schema(target, TSR_TIME_NOW, &made, error) : TSR_OK;
  for (uint32_t i = 0; code == TSR_OK && i < count; i++) {
    tsr_label_index *to;
    code = tsr_label_open(target, made, i, memory_bytes, &to, error);
    if (code < 0) return code;
    code = tsr_label_copy(labels[i], to, error);
    tsr_label_close(to);
  }
  return code;
}

static int copy_metadata(tsx_copying *c, tsr_error *error) {
  tsr_metadata *all = NULL;
  int code = tsr_array_metadata(c->from.array->core, c->from.since, c->from.as_of, &all, error);
  for (uint64_t i = 0; code == TSR_OK && i < all->count; i++)
    if (strcmp(all->entries[i].key, TSX_OVERVIEWS_KEY) != 0)
      code = tsr_array_set_metadata(c->target, &all->entries[i], error);
  tsr_metadata_close(all);
  return code;
}

/* ---- The call ---------------------------------------------------------------------------------------------------- */

static int copy_copy(tsx_copying *c, const char *to, sqlite3_value *options, tsr_error *error) {
  int code = tsx_address_array(&c->from, error);
  if (code == TSR_OK)
    code = tsr_snapshot_open(c->from.array->core, NULL, c->from.since, c->from.as_of, &c->snapshot, error);
  if (code < 0) return code;
  c->source = tsr_snapshot_schema(c->snapshot);
  code = copy_make_schema(c, error);
  if (code == TSR_OK) code = copy_read_options(c, options, error);
  if (code == TSR_OK) code = copy_open_target(c, to, error);
  if (code == TSR_OK) code = tsx_copy_cells(c, error);
  if (code == TSR_OK)
    code = tsx_labels_write(c->target, c->labels, c->source->label_count, c->from.memory_bytes, error);
  if (code == TSR_OK) code = copy_metadata(c, error);
  if (code < 0 || !c->creation) return code;
  if (c->from.array->has_key) code = tsx_key_set(c->connection, to, c->from.array->key, error);
  return code == TSR_OK ? tsr_creation_publish(c->creation, error) : code;
}

static void close_all(tsx_copying *c, bool abandon) {
  tsx_copy_cells_close(c);
  tsr_array_close(c->target);
  if (abandon && c->creation) (void)tsr_creation_abandon(c->creation, NULL);
  tsr_creation_close(c->creation);
  tsr_snapshot_close(c->snapshot);
  for (uint32_t i = 0; c->labels && i < c->source->label_count; i++) tsr_label_close(c->labels[i]);
  if (c->names) tsx_names_free(c->names, c->source);
  tsx_definition_release(&c->definition);
  tsx_address_close(&c->from);
  tsx_connection_remove_table(c->connection);
}

/* tessera_copy(from, to[, options]): returns the number of cells that were copied. */
void tsx_copy(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_copying c = {.connection = sqlite3_user_data(context)};
  tsr_error error = {0};
  tsx_connection_add_table(c.connection); /* with a table the core asks the host for interrupts */
  int code = tsx_arguments_check(count, values, 2, &error);
  const char *to = (const char *)sqlite3_value_text(values[1]);
  if (code == TSR_OK && !to) code = tsx_out_of_memory(&error);
  if (code == TSR_OK) code = tsx_address_open(c.connection, values[0], NULL, NULL, NULL, &c.from, &error);
  if (code == TSR_OK) code = copy_copy(&c, to, count > 2 ? values[2] : NULL, &error);
  if (code >= 0) sqlite3_result_int64(context, (sqlite3_int64)c.cells);
  close_all(&c, code < 0);
  tsx_function_end(context, "tessera_copy", code, &error);
}
