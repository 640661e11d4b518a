/* array.c: the tables that show what an array or group consists of: tessera_array, tessera_schema, tessera_enumeration,
 * tessera_fragments, tessera_log, tessera_tiles, tessera_metadata (of arrays and groups), tessera_members (of a group),
 * tessera_objects (below a directory) and tessera_check. All but tessera_check read only metadata and decode no cells.
 *
 * Each table has a section: its state, its columns, and the callbacks of its tsx_about (call/table_function.h). */
#include "inspect/inspect.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "values/value.h"
#include "sql/names.h"
#include "definition/define.h"
#include "table/table.h"
#include "call/function.h"
#include "call/table_function.h"
#include "maintain/upkeep.h"

int tsx_inside_open(tsx_scan *scan, bool fragments, tsr_error *error) {
  tsx_inside *in = scan->state;
  tsx_address *address = &in->address;
  TSX_TRY(tsx_scan_address(scan, address, error));
  TSX_TRY(tsx_address_array(address, error));
  if (fragments) {
    TSX_TRY(tsx_array_snapshot(scan->connection, address->array, NULL, address->since, address->as_of, false,
                               &in->snapshot, error));
    in->schema = tsr_snapshot_schema(in->snapshot->core);
    TSX_TRY(tsx_address_check(address, error));
  } else {
    TSX_TRY(tsx_address_schema(address, &in->schema, error));
  }
  in->names = tsx_names_make(in->schema);
  return in->names ? TSR_OK : tsx_out_of_memory(error);
}

void tsx_inside_close(tsx_scan *scan) {
  tsx_inside *in = scan->state;
  tsx_names_free(in->names, in->schema);
  tsx_snapshot_release(in->snapshot);
  tsx_address_close(&in->address);
}

static uint32_t table_array_field_count(const tsr_schema *schema) {
  return schema->dimension_count + schema->attribute_count;
}

static void result_filters(sqlite3_context *context, const tsr_pipeline *pipeline) {
  sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
  tsx_filters_append(out, pipeline);
  tsx_result_string(context, out);
}

static void result_box(sqlite3_context *context, const tsx_inside *in, const tsr_interval *intervals) {
  if (!intervals) return;
  sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
  tsx_json_box(out, in->schema, in->names, intervals, in->address.uint64_signed);
  tsx_result_string(context, out);
}

static tsr_datatype shown_of(const tsx_inside *in, tsr_datatype datatype) {
  return tsx_datatype_shown(datatype, in->address.uint64_signed);
}

static void result_interval(sqlite3_context *context, const tsx_inside *in, const tsr_field *dimension,
                            const tsr_interval *interval) {
  sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
  tsx_json_interval(out, dimension, interval, in->address.uint64_signed);
  tsx_result_string(context, out);
}

static const char *table_array_kind_name(bool dense) { return dense ? "dense" : "sparse"; }

/* Returns the sum, or UINT64_MAX if it overflows. */
static uint64_t table_array_add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

/* ---- tessera_array ----------------------------------------------------------------------------------------------- */

typedef struct array_state {
  tsx_inside in;
  uint64_t fragments, cells, bytes;
  uint64_t first, last; /* times of the first and the last write, in milliseconds; if `written` */
  bool written;
} array_state;

enum {
  ARRAY_PATH,
  ARRAY_KIND,
  ARRAY_FORMAT_VERSION,
  ARRAY_CELL_ORDER,
  ARRAY_TILE_ORDER,
  ARRAY_CAPACITY,
  ARRAY_DUPLICATES,
  ARRAY_ENCRYPTION,
  ARRAY_COORDS_FILTERS,
  ARRAY_OFFSETS_FILTERS,
  ARRAY_VALIDITY_FILTERS,
  ARRAY_DIMENSIONS,
  ARRAY_ATTRIBUTES,
  ARRAY_FRAGMENTS,
  ARRAY_CELLS,
  ARRAY_BYTES,
  ARRAY_FIRST_WRITE,
  ARRAY_LAST_WRITE,
  ARRAY_NON_EMPTY_DOMAIN,
  ARRAY_SHOWN_AS_OF,
  ARRAY_SCHEMA
};

static int array_open(tsx_scan *scan, tsr_error *error) {
  array_state *state = scan->state;
  int code = tsx_inside_open(scan, true, error);
  if (code < 0) return code;
  tsr_snapshot *snapshot = state->in.snapshot->core;
  state->fragments = tsr_fragment_count(snapshot);
  state->written = tsr_snapshot_written(snapshot, &state->first, &state->last);
  for (uint64_t i = 0; i < state->fragments; i++) {
    tsr_fragment_info info;
    if ((code = tsr_fragment_describe(snapshot, i, &info, error)) < 0) return code;
    state->cells = table_array_add(state->cells, info.cells);
    state->bytes = table_array_add(state->bytes, info.bytes);
  }
  return TSR_OK;
}

static int array_next(tsx_scan *scan, tsr_error *error) { return scan->row == 0; }

static int array_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const array_state *state = scan->state;
  const tsr_schema *schema = state->in.schema;
  const tsr_interval *box = NULL;
  int code;
  switch (column) {
  case ARRAY_PATH: sqlite3_result_value(context, scan->hidden[0]); break;
  case ARRAY_KIND: tsx_result_text(context, table_array_kind_name(schema->dense)); break;
  case ARRAY_FORMAT_VERSION: sqlite3_result_int64(context, schema->version); break;
  case ARRAY_CELL_ORDER: tsx_result_text(context, tsx_order_name(schema->cell_order)); break;
  case ARRAY_TILE_ORDER: tsx_result_text(context, tsx_order_name(schema->tile_order)); break;
  case ARRAY_CAPACITY: tsx_result_unsigned(context, schema->capacity); break;
  case ARRAY_DUPLICATES: sqlite3_result_int(context, schema->allows_duplicates); break;
  case ARRAY_ENCRYPTION: tsx_result_text(context, state->in.address.array->has_key ? "aes_256_gcm" : "none"); break;
  case ARRAY_COORDS_FILTERS: result_filters(context, &schema->coords_filters); break;
  case ARRAY_OFFSETS_FILTERS: result_filters(context, &schema->offsets_filters); break;
  case ARRAY_VALIDITY_FILTERS: result_filters(context, &schema->validity_filters); break;
  case ARRAY_DIMENSIONS: sqlite3_result_int64(context, schema->dimension_count); break;
  case ARRAY_ATTRIBUTES: sqlite3_result_int64(context, schema->attribute_count); break;
  case ARRAY_FRAGMENTS: tsx_result_unsigned(context, state->fragments); break;
  case ARRAY_CELLS: tsx_result_unsigned(context, state->cells); break;
  case ARRAY_BYTES: tsx_result_unsigned(context, state->bytes); break;
  case ARRAY_FIRST_WRITE:
    if (state->written) tsx_result_unsigned(context, state->first);
    break;
  case ARRAY_LAST_WRITE:
    if (state->written) tsx_result_unsigned(context, state->last);
    break;
  case ARRAY_SCHEMA: tsx_result_text(context, schema->name); break;
  case ARRAY_SHOWN_AS_OF:
    if (state->in.address.as_of != TSR_TIME_NOW) tsx_result_unsigned(context, state->in.address.as_of);
    break;
  default:
    code = tsr_snapshot_non_empty_domain(state->in.snapshot->core, &box, error);
    if (code < 0) return code;
    result_box(context, &state->in, code ? box : NULL);
  }
  return TSR_OK;
}

const tsx_about tsx_about_array = {.name = "tessera_array",
                                   .usage = "tessera_array(path)",
                                   .columns = (const char *const[]){"path TEXT",
                                                                    "kind TEXT",
                                                                    "format_version INTEGER",
                                                                    "cell_order TEXT",
                                                                    "tile_order TEXT",
                                                                    "capacity INTEGER",
                                                                    "duplicates INTEGER",
                                                                    "encryption TEXT",
                                                                    "coords_filters TEXT",
                                                                    "offsets_filters TEXT",
                                                                    "validity_filters TEXT",
                                                                    "dimensions INTEGER",
                                                                    "attributes INTEGER",
                                                                    "fragments INTEGER",
                                                                    "cells INTEGER",
                                                                    "bytes INTEGER",
                                                                    "first_write INTEGER",
                                                                    "last_write INTEGER",
                                                                    "non_empty_domain TEXT",
                                                                    "shown_as_of INTEGER",
                                                                    "schema TEXT",
                                                                    NULL},
                                   .arguments = TSX_PATH_ONLY,
                                   .required = 1,
                                   .same = ARRAY_PATH,
                                   .rows = 1,
                                   .state_size = sizeof(array_state),
                                   .open = array_open,
                                   .next = array_next,
                                   .column = array_column,
                                   .close = tsx_inside_close};

/* ---- tessera_schema ---------------------------------------------------------------------------------------------- */

enum {
  SCHEMA_NAME,
  SCHEMA_ROLE,
  SCHEMA_DATATYPE,
  SCHEMA_CELL_VAL_NUM,
  SCHEMA_NULLABLE,
  SCHEMA_DOMAIN,
  SCHEMA_CURRENT_DOMAIN,
  SCHEMA_TILE,
  SCHEMA_FILL,
  SCHEMA_FILTERS,
  SCHEMA_ENUMERATION
};

static int schema_open(tsx_scan *scan, tsr_error *error) { return tsx_inside_open(scan, false, error); }

static int schema_next(tsx_scan *scan, tsr_error *error) {
  const tsx_inside *in = scan->state;
  return scan->row < (sqlite3_int64)table_array_field_count(in->schema) + in->schema->label_count;
}

/* Shows a dimension label: its name, role and datatype; the column domain has the name of its dimension. */
static int label_column(const tsx_inside *in, const tsr_label *label, sqlite3_context *context, int column,
                        tsr_error *error) {
  if (column == SCHEMA_ROLE) tsx_result_text(context, "label");
  if (column == SCHEMA_DATATYPE) tsx_result_text(context, tsr_datatype_name(label->datatype));
  if (column != SCHEMA_NAME && column != SCHEMA_DOMAIN) return TSR_OK;
  char *name = tsx_name_text(column == SCHEMA_NAME ? label->name : in->schema->fields[label->dimension].name);
  if (!name) return tsx_out_of_memory(error);
  if (column == SCHEMA_NAME) {
    sqlite3_result_text(context, name, -1, sqlite3_free);
    return TSR_OK;
  }
  sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
  tsx_json_text(out, name, strlen(name));
  tsx_result_string(context, out);
  sqlite3_free(name);
  return TSR_OK;
}

static void result_extent(sqlite3_context *context, const tsx_inside *in, const tsr_field *field) {
  if (field->has_extent)
    tsx_value_result(context, shown_of(in, tsx_extent_datatype(field->datatype)), 1, field->extent,
                     tsr_datatype_size(field->datatype));
}

static void result_domain(sqlite3_context *context, const tsx_inside *in, const tsr_field *field) {
  tsr_interval interval = {0};
  if (!field->is_dimension || !field->has_domain) return;
  memcpy(interval.low, field->low, sizeof interval.low);
  memcpy(interval.high, field->high, sizeof interval.high);
  result_interval(context, in, field, &interval);
}

/* Shows the fill value. Text that is not valid UTF-8 is shown as a blob literal like X'80', as in tessera_ddl. */
static void result_fill(sqlite3_context *context, const tsx_inside *in, const tsr_field *field) {
  const bool text = tsr_datatype_kind(field->datatype) == TSR_KIND_TEXT && tsr_datatype_size(field->datatype) == 1;
  unsigned size = 1;
  for (uint64_t i = 0; text && size && i < field->fill_size; i += size)
    size = tsr_utf8_size(field->fill + i, field->fill_size - i);
  if (size) {
    tsx_value_result(context, shown_of(in, field->datatype), field->values_per_cell, field->fill, field->fill_size);
    return;
  }
  sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
  sqlite3_str_appendall(out, "X'");
  for (uint64_t i = 0; i < field->fill_size; i++) sqlite3_str_appendf(out, "%02X", field->fill[i]);
  sqlite3_str_appendchar(out, 1, '\'');
  tsx_result_string(context, out);
}

static int schema_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const tsx_inside *in = scan->state;
  uint32_t number = (uint32_t)(scan->row - 1);
  const tsr_field *field = &in->schema->fields[number];
  char *name;
  if (number >= table_array_field_count(in->schema))
    return label_column(in, &in->schema->labels[number - table_array_field_count(in->schema)], context, column, error);
  switch (column) {
  case SCHEMA_NAME: tsx_result_text(context, in->names[number]); break;
  case SCHEMA_ROLE: tsx_result_text(context, field->is_dimension ? "dimension" : "attribute"); break;
  case SCHEMA_DATATYPE: tsx_result_text(context, tsr_datatype_name(field->datatype)); break;
  case SCHEMA_CELL_VAL_NUM:
    if (field->values_per_cell != TSR_VARIABLE) sqlite3_result_int64(context, field->values_per_cell);
    break;
  case SCHEMA_NULLABLE: sqlite3_result_int(context, field->nullable); break;
  case SCHEMA_DOMAIN: result_domain(context, in, field); break;
  case SCHEMA_CURRENT_DOMAIN:
    if (field->is_dimension && in->schema->current_domain)
      result_interval(context, in, field, &in->schema->current_domain[number]);
    break;
  case SCHEMA_TILE: result_extent(context, in, field); break;
  case SCHEMA_FILL:
    if (!field->is_dimension && (!field->nullable || field->fill_validity)) result_fill(context, in, field);
    break;
  case SCHEMA_FILTERS: result_filters(context, tsx_filters_of(in->schema, number)); break;
  default:
    if (!field->enumeration) break;
    if (!(name = tsx_name_text(field->enumeration))) return tsx_out_of_memory(error);
    sqlite3_result_text(context, name, -1, sqlite3_free);
  }
  return TSR_OK;
}

const tsx_about tsx_about_schema = {.name = "tessera_schema",
                                    .usage = "tessera_schema(path)",
                                    .columns = (const char *const[]){"name TEXT", "role TEXT", "datatype TEXT",
                                                                     "cell_val_num INTEGER", "nullable INTEGER",
                                                                     "domain TEXT", "current_domain TEXT", "tile",
                                                                     "fill", "filters TEXT", "enumeration TEXT", NULL},
                                    .arguments = TSX_PATH_ONLY,
                                    .required = 1,
                                    .same = -1,
                                    .rows = 8,
                                    .state_size = sizeof(tsx_inside),
                                    .open = schema_open,
                                    .next = schema_next,
                                    .column = schema_column,
                                    .close = tsx_inside_close};

/* ---- tessera_enumeration ----------------------------------------------------------------------------------------- */

typedef struct enumeration_state {
  tsx_inside in;
  const tsr_enumeration *enumeration;
} enumeration_state;

static int enumeration_open(tsx_scan *scan, tsr_error *error) {
  enumeration_state *state = scan->state;
  TSX_TRY(tsx_inside_open(scan, false, error));
  return tsx_enumeration_find(&state->in.address, state->in.schema,
                              (const char *)sqlite3_value_text(tsx_scan_argument(scan, 1)), &state->enumeration, error);
}

static int enumeration_next(tsx_scan *scan, tsr_error *error) {
  const enumeration_state *state = scan->state;
  return (uint64_t)scan->row < state->enumeration->count;
}

static int enumeration_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const enumeration_state *state = scan->state;
  const tsr_enumeration *e = state->enumeration;
  const uint64_t *o = e->offsets + (scan->row - 1);
  if (column == 0) sqlite3_result_int64(context, scan->row - 1);
  else tsx_value_result(context, shown_of(&state->in, e->datatype), e->values_per_label, e->data + o[0], o[1] - o[0]);
  return TSR_OK;
}

const tsx_about tsx_about_enumeration = {.name = "tessera_enumeration",
                                         .usage = "tessera_enumeration(path, attribute)",
                                         .columns = (const char *const[]){"code INTEGER", "label", NULL},
                                         .arguments = (const char *const[]){"array_path", "attribute", NULL},
                                         .required = 2,
                                         .same = -1,
                                         .rows = 100,
                                         .state_size = sizeof(enumeration_state),
                                         .open = enumeration_open,
                                         .next = enumeration_next,
                                         .column = enumeration_column,
                                         .close = tsx_inside_close};

/* ---- tessera_fragments ------------------------------------------------------------------------------------------- */

typedef struct fragments_state {
  tsx_inside in;
  tsr_fragment_info info; /* of the current row */
} fragments_state;

enum {
  FRAGMENTS_NAME,
  FRAGMENTS_KIND,
  FRAGMENTS_FORMAT_VERSION,
  FRAGMENTS_START_TIME,
  FRAGMENTS_END_TIME,
  FRAGMENTS_CELLS,
  FRAGMENTS_TILES,
  FRAGMENTS_BYTES,
  FRAGMENTS_NON_EMPTY_DOMAIN,
  FRAGMENTS_SCHEMA
};

static int fragments_open(tsx_scan *scan, tsr_error *error) { return tsx_inside_open(scan, true, error); }

static int fragments_next(tsx_scan *scan, tsr_error *error) {
  fragments_state *state = scan->state;
  tsr_snapshot *snapshot = state->in.snapshot->core;
  if ((uint64_t)scan->row >= tsr_fragment_count(snapshot)) return 0;
  int code = tsr_fragment_describe(snapshot, (uint64_t)scan->row, &state->info, error);
  return code < 0 ? code : 1;
}

static int fragments_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const fragments_state *state = scan->state;
  const tsr_fragment_info *info = &state->info;
  switch (column) {
  case FRAGMENTS_NAME: tsx_result_text(context, info->name); break;
  case FRAGMENTS_KIND: tsx_result_text(context, table_array_kind_name(info->dense)); break;
  case FRAGMENTS_FORMAT_VERSION: sqlite3_result_int64(context, info->version); break;
  case FRAGMENTS_START_TIME: tsx_result_unsigned(context, info->start); break;
  case FRAGMENTS_END_TIME: tsx_result_unsigned(context, info->end); break;
  case FRAGMENTS_CELLS: tsx_result_unsigned(context, info->cells); break;
  case FRAGMENTS_TILES: tsx_result_unsigned(context, info->tiles); break;
  case FRAGMENTS_BYTES: tsx_result_unsigned(context, info->bytes); break;
  case FRAGMENTS_NON_EMPTY_DOMAIN: result_box(context, &state->in, info->non_empty_domain); break;
  default: tsx_result_text(context, info->schema->name);
  }
  return TSR_OK;
}

const tsx_about tsx_about_fragments = {
    .name = "tessera_fragments",
    .usage = "tessera_fragments(path)",
    .columns = (const char *const[]){"name TEXT", "kind TEXT", "format_version INTEGER", "start_time INTEGER",
                                     "end_time INTEGER", "cells INTEGER", "tiles INTEGER", "bytes INTEGER",
                                     "non_empty_domain TEXT", "schema TEXT", NULL},
    .arguments = TSX_PATH_ONLY,
    .required = 1,
    .same = -1,
    .rows = 20,
    .state_size = sizeof(fragments_state),
    .open = fragments_open,
    .next = fragments_next,
    .column = fragments_column,
    .close = tsx_inside_close};

/* ---- tessera_log ------------------------------------------------------------------------------------------------- */

typedef struct log_state {
  tsx_inside in;
  tsr_history *history;
  const tsr_history_entry *entries;
  uint64_t count;
} log_state;

enum { LOG_TIME, LOG_KIND, LOG_FRAGMENTS, LOG_CELLS, LOG_BOX, LOG_CONDITION, LOG_NAME, LOG_WHOLE, LOG_START };

static int log_open(tsx_scan *scan, tsr_error *error) {
  log_state *state = scan->state;
  tsx_address *address = &state->in.address;
  TSX_TRY(tsx_inside_open(scan, false, error));
  TSX_TRY(tsr_history_open(address->array->core, address->since, address->as_of, &state->history, error));
  state->entries = tsr_history_entries(state->history, &state->count);
  return TSR_OK;
}

static int log_next(tsx_scan *scan, tsr_error *error) {
  return (uint64_t)scan->row < ((const log_state *)scan->state)->count;
}

static int log_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  static const char *const kinds[] = {"write", "delete", "both", "merge"};
  const log_state *state = scan->state;
  const tsr_history_entry *entry = &state->entries[scan->row - 1];
  switch (column) {
  case LOG_TIME: tsx_result_unsigned(context, entry->time); break;
  case LOG_KIND: tsx_result_text(context, kinds[entry->kind]); break;
  case LOG_FRAGMENTS: tsx_result_unsigned(context, entry->fragments); break;
  case LOG_CELLS: tsx_result_unsigned(context, entry->cells); break;
  case LOG_BOX: result_box(context, &state->in, entry->box); break;
  case LOG_CONDITION:
    if (entry->condition) tsx_result_text(context, entry->condition);
    break;
  case LOG_NAME: tsx_result_text(context, entry->name); break;
  case LOG_WHOLE:
    if (entry->whole >= 0) sqlite3_result_int(context, entry->whole);
    break;
  default: tsx_result_unsigned(context, entry->start);
  }
  return TSR_OK;
}

static void log_close(tsx_scan *scan) {
  log_state *state = scan->state;
  tsr_history_close(state->history);
  tsx_inside_close(scan);
}

const tsx_about tsx_about_log = {.name = "tessera_log",
                                 .usage = "tessera_log(path)",
                                 .columns = (const char *const[]){"time INTEGER", "kind TEXT", "fragments INTEGER",
                                                                  "cells INTEGER", "box TEXT", "condition TEXT",
                                                                  "name TEXT", "whole INTEGER", "start INTEGER", NULL},
                                 .arguments = TSX_PATH_ONLY,
                                 .required = 1,
                                 .same = -1,
                                 .rows = 20,
                                 .state_size = sizeof(log_state),
                                 .open = log_open,
                                 .next = log_next,
                                 .column = log_column,
                                 .close = log_close};

/* ---- tessera_tiles ----------------------------------------------------------------------------------------------- */

typedef struct tiles_state {
  tsx_inside in;
  uint64_t next_fragment;
  uint32_t field; /* the current field, among those that have tiles */
  uint64_t tile; /* the next tile of this field */
  uint64_t shown; /* the tile of the current row */
  tsr_fragment_info fragment; /* the current one */
  tsr_tiles *tiles; /* of the current fragment; NULL before the first */
  tsr_tile_info info; /* of the current row */
  char **names; /* of the fields of the fragment's schema, if it is not the array's; else NULL */
  char *name; /* of the current row's field; borrowed */
} tiles_state;

enum {
  TILES_FRAGMENT,
  TILES_TILE,
  TILES_FIELD,
  TILES_CELLS,
  TILES_BYTES,
  TILES_DECODED_BYTES,
  TILES_DOMAIN,
  TILES_VALUE_MIN,
  TILES_VALUE_MAX,
  TILES_SUM,
  TILES_NULL_COUNT
};

static int tiles_open(tsx_scan *scan, tsr_error *error) { return tsx_inside_open(scan, true, error); }

static void drop_fragment(tiles_state *state) {
  tsr_tiles_close(state->tiles);
  tsx_names_free(state->names, state->fragment.schema);
  state->tiles = NULL;
  state->names = NULL;
}

static void tiles_close(tsx_scan *scan) {
  drop_fragment(scan->state);
  tsx_inside_close(scan);
}

static int open_next_fragment(tiles_state *state, tsr_error *error) {
  tsr_snapshot *snapshot = state->in.snapshot->core;
  const uint64_t fragment = state->next_fragment++;
  drop_fragment(state);
  state->field = 0;
  state->tile = 0;
  TSX_TRY(tsr_fragment_describe(snapshot, fragment, &state->fragment, error));
  TSX_TRY(tsr_tiles_open(snapshot, fragment, &state->tiles, error));
  if (state->fragment.schema == state->in.schema) return TSR_OK;
  state->names = tsx_names_make(state->fragment.schema);
  return state->names ? TSR_OK : tsx_out_of_memory(error);
}

/* Returns the name of a field of the fragment's schema: its name in the array's table, or if the array has dropped the
 * field, its name by the fragment's schema. Field -1 stands for the coordinates, which older formats store together. */
static char *name_of(const tiles_state *state, int64_t field) {
  static char coords[] = "__coords";
  const tsr_schema *written = state->fragment.schema, *shown = state->in.schema;
  if (field < 0) return coords;
  for (uint32_t i = 0; written != shown && i < table_array_field_count(shown); i++)
    if (shown->fields[i].is_dimension == written->fields[field].is_dimension &&
        !strcmp(shown->fields[i].name, written->fields[field].name))
      return state->in.names[i];
  return written == shown ? state->in.names[field] : state->names[field];
}

static int tiles_next(tsx_scan *scan, tsr_error *error) {
  tiles_state *state = scan->state;
  while (!state->tiles || state->field >= tsr_tiles_fields(state->tiles) || state->tile >= state->fragment.tiles) {
    int code = TSR_OK;
    if (state->tiles && state->field < tsr_tiles_fields(state->tiles)) {
      state->field++;
      state->tile = 0;
    } else if (state->next_fragment < tsr_fragment_count(state->in.snapshot->core)) {
      code = open_next_fragment(state, error);
    } else {
      return 0;
    }
    if (code < 0) return code;
    if (state->field < tsr_tiles_fields(state->tiles))
      state->name = name_of(state, tsr_tiles_field(state->tiles, state->field));
  }
  int code = tsr_tiles_describe(state->tiles, state->field, state->tile, &state->info, error);
  state->shown = state->tile++;
  return code < 0 ? code : 1;
}

static void result_sum(sqlite3_context *context, tsr_datatype datatype, const uint8_t sum[8]) {
  tsr_kind kind = tsr_datatype_kind(datatype);
  bool is_unsigned = kind == TSR_KIND_UNSIGNED || kind == TSR_KIND_BOOLEAN;
  tsx_value_result(context, kind == TSR_KIND_FLOAT ? TSR_FLOAT64 : is_unsigned ? TSR_UINT64 : TSR_INT64, 1, sum, 8);
}

static int tiles_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const tiles_state *state = scan->state;
  const tsr_tile_info *info = &state->info;
  int64_t number = tsr_tiles_field(state->tiles, state->field);
  const tsr_field *field = number < 0 ? NULL : &state->fragment.schema->fields[number];
  switch (column) {
  case TILES_FRAGMENT: tsx_result_text(context, state->fragment.name); break;
  case TILES_TILE: tsx_result_unsigned(context, state->shown); break;
  case TILES_FIELD: tsx_result_text(context, state->name); break;
  case TILES_CELLS: tsx_result_unsigned(context, info->cells); break;
  case TILES_BYTES: tsx_result_unsigned(context, info->bytes); break;
  case TILES_DECODED_BYTES: tsx_result_unsigned(context, info->decoded_bytes); break;
  case TILES_DOMAIN: result_box(context, &state->in, info->box); break;
  case TILES_VALUE_MIN:
    if (field && info->min)
      tsx_value_result(context, shown_of(&state->in, field->datatype), field->values_per_cell, info->min,
                       info->min_size);
    break;
  case TILES_VALUE_MAX:
    if (field && info->max)
      tsx_value_result(context, shown_of(&state->in, field->datatype), field->values_per_cell, info->max,
                       info->max_size);
    break;
  case TILES_SUM:
    if (field && info->has_sum) result_sum(context, field->datatype, info->sum);
    break;
  default:
    if (info->has_null_count) tsx_result_unsigned(context, info->null_count);
  }
  return TSR_OK;
}

const tsx_about tsx_about_tiles = {.name = "tessera_tiles",
                                   .usage = "tessera_tiles(path)",
                                   .columns = (const char *const[]){"fragment TEXT", "tile INTEGER", "field TEXT",
                                                                    "cells INTEGER", "bytes INTEGER",
                                                                    "decoded_bytes INTEGER", "domain TEXT", "min",
                                                                    "max", "sum", "null_count INTEGER", NULL},
                                   .arguments = TSX_PATH_ONLY,
                                   .required = 1,
                                   .same = -1,
                                   .rows = 1000,
                                   .state_size = sizeof(tiles_state),
                                   .open = tiles_open,
                                   .next = tiles_next,
                                   .column = tiles_column,
                                   .close = tiles_close};

/* For tessera_members and tessera_objects: opens the address of a directory. An array in the database is an error,
 * since it has no members or objects. The caller closes the address, also after a failure. */
static int open_directory(tsx_scan *scan, tsx_address *address, tsr_error *error) {
  TSX_TRY(tsx_scan_address(scan, address, error));
  if (!address->is_table) return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "'%s' is an array: expected the path of a directory",
                  (const char *)sqlite3_value_text(scan->hidden[0]));
}

static const char *table_group_kind_name(tsr_object_kind kind) {
  return kind == TSR_OBJECT_ARRAY ? "array" : kind == TSR_OBJECT_GROUP ? "group" : "missing";
}

/* ---- tessera_metadata -------------------------------------------------------------------------------------------- */

typedef struct metadata_state {
  tsr_metadata *metadata;
} metadata_state;

static int open_metadata(tsx_scan *scan, tsx_address *address, tsr_metadata **metadata, tsr_error *error) {
  tsr_environment *environment = scan->connection->environment;
  tsr_object_kind kind = TSR_OBJECT_ARRAY;
  if (!address->array) TSX_TRY(tsr_object_find(environment, address->path, &kind, error));
  if (kind == TSR_OBJECT_NONE) return tsx_address_not_found(address, error);
  if (kind == TSR_OBJECT_ARRAY) {
    const tsr_schema *schema;
    TSX_TRY(tsx_address_array(address, error));
    if (address->seen) TSX_TRY(tsx_address_schema(address, &schema, error));
    return tsr_array_metadata(address->array->core, address->since, address->as_of, metadata, error);
  }
  tsr_group *group;
  TSX_TRY(tsr_group_open(environment, address->path, address->has_key ? address->key : NULL, &group, error));
  const int code = tsr_group_metadata(group, address->since, address->as_of, metadata, error);
  tsr_group_close(group);
  return code;
}

static int metadata_open(tsx_scan *scan, tsr_error *error) {
  metadata_state *state = scan->state;
  tsx_address address;
  int code = tsx_scan_address(scan, &address, error);
  if (code >= 0) code = open_metadata(scan, &address, &state->metadata, error);
  tsx_address_close(&address);
  return code;
}

static int metadata_next(tsx_scan *scan, tsr_error *error) {
  return (uint64_t)scan->row < ((const metadata_state *)scan->state)->metadata->count;
}

/* Shows the value: text or bytes as one value, one number as it is, several numbers as a JSON array. */
static void result_value(sqlite3_context *context, const tsr_metadatum *entry) {
  tsr_kind kind = tsr_datatype_kind(entry->datatype);
  bool one = entry->count == 1;
  if (entry->count > 0)
    tsx_value_result(context, entry->datatype, one ? 1 : TSR_VARIABLE, entry->value, entry->value_size);
  else if (kind == TSR_KIND_TEXT) sqlite3_result_text(context, "", 0, SQLITE_STATIC);
}

static int metadata_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const tsr_metadatum *entry = &((const metadata_state *)scan->state)->metadata->entries[scan->row - 1];
  switch (column) {
  case 0: sqlite3_result_text64(context, entry->key, entry->key_size, SQLITE_TRANSIENT, SQLITE_UTF8); break;
  case 1: tsx_result_text(context, tsr_datatype_name(entry->datatype)); break;
  case 2: tsx_result_unsigned(context, entry->count); break;
  default: result_value(context, entry);
  }
  return TSR_OK;
}

static void metadata_close(tsx_scan *scan) { tsr_metadata_close(((metadata_state *)scan->state)->metadata); }

const tsx_about tsx_about_metadata = {
    .name = "tessera_metadata",
    .usage = "tessera_metadata(path)",
    .columns = (const char *const[]){"key TEXT", "datatype TEXT", "num INTEGER", "value", NULL},
    .arguments = TSX_PATH_ONLY,
    .required = 1,
    .same = -1,
    .rows = 20,
    .state_size = sizeof(metadata_state),
    .open = metadata_open,
    .next = metadata_next,
    .column = metadata_column,
    .close = metadata_close};

/* ---- tessera_members --------------------------------------------------------------------------------------------- */

typedef struct members_state {
  tsr_group_members *members;
} members_state;

static int open_members(const tsx_scan *scan, const tsx_address *address, tsr_group_members **members,
                        tsr_error *error) {
  tsr_group *group;
  TSX_TRY(tsr_group_open(scan->connection->environment, address->path, address->has_key ? address->key : NULL, &group,
                         error));
  const int code = tsr_group_members_open(group, address->since, address->as_of, members, error);
  tsr_group_close(group);
  return code;
}

static int members_open(tsx_scan *scan, tsr_error *error) {
  members_state *state = scan->state;
  tsx_address address;
  int code = open_directory(scan, &address, error);
  if (code >= 0) code = open_members(scan, &address, &state->members, error);
  tsx_address_close(&address);
  return code;
}

static int members_next(tsx_scan *scan, tsr_error *error) {
  return (uint64_t)scan->row < ((const members_state *)scan->state)->members->count;
}

static int members_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const tsr_group_member *member = &((const members_state *)scan->state)->members->members[scan->row - 1];
  switch (column) {
  case 0: tsx_result_text(context, member->name); break;
  case 1: tsx_result_text(context, table_group_kind_name(member->kind)); break;
  default: tsx_result_text(context, member->path);
  }
  return TSR_OK;
}

static void members_close(tsx_scan *scan) { tsr_group_members_close(((members_state *)scan->state)->members); }

const tsx_about tsx_about_members = {.name = "tessera_members",
                                     .usage = "tessera_members(path)",
                                     .columns = (const char *const[]){"name TEXT", "kind TEXT", "path TEXT", NULL},
                                     .arguments = TSX_PATH_ONLY,
                                     .required = 1,
                                     .same = -1,
                                     .rows = 20,
                                     .state_size = sizeof(members_state),
                                     .open = members_open,
                                     .next = members_next,
                                     .column = members_column,
                                     .close = members_close};

/* ---- tessera_objects --------------------------------------------------------------------------------------------- */

typedef struct objects_state {
  tsr_objects *objects;
} objects_state;

static int objects_open(tsx_scan *scan, tsr_error *error) {
  objects_state *state = scan->state;
  tsx_address address;
  int code = open_directory(scan, &address, error);
  if (code >= 0) code = tsr_objects_open(scan->connection->environment, address.path, &state->objects, error);
  tsx_address_close(&address);
  return code;
}

static int objects_next(tsx_scan *scan, tsr_error *error) {
  return (uint64_t)scan->row < ((const objects_state *)scan->state)->objects->count;
}

static int objects_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const tsr_object *object = &((const objects_state *)scan->state)->objects->objects[scan->row - 1];
  tsx_result_text(context, column == 0 ? object->path : table_group_kind_name(object->kind));
  return TSR_OK;
}

static void objects_close(tsx_scan *scan) { tsr_objects_close(((objects_state *)scan->state)->objects); }

const tsx_about tsx_about_objects = {.name = "tessera_objects",
                                     .usage = "tessera_objects(path)",
                                     .columns = (const char *const[]){"path TEXT", "kind TEXT", NULL},
                                     .arguments = TSX_PATH_ONLY,
                                     .required = 1,
                                     .same = -1,
                                     .rows = 100,
                                     .state_size = sizeof(objects_state),
                                     .open = objects_open,
                                     .next = objects_next,
                                     .column = objects_column,
                                     .close = objects_close};

/* ---- tessera_check ----------------------------------------------------------------------------------------------- */

/* One row for each finding. The check reads the files themselves, not this connection's memory, so it works even for an
 * array that cannot be opened. It covers all times and ignores as_of and since. */

static int check_at(tsx_scan *scan, tsx_address *address, tsr_error *error) {
  const tsr_check_options options = {.key = address->has_key ? address->key : NULL,
                                     .memory_bytes = address->memory_bytes};
  const int code =
      tsr_array_check(scan->connection->environment, address->path, &options, tsx_findings_keep, scan->state, error);
  if (code < 0) tsx_address_hint(address, error);
  return code < 0 ? code : tsx_overviews_check(address, tsx_findings_keep, scan->state, error);
}

static int check_open(tsx_scan *scan, tsr_error *error) {
  tsx_address address;
  int code = tsx_scan_address(scan, &address, error);
  if (code >= 0) code = check_at(scan, &address, error);
  tsx_address_close(&address);
  return code;
}

static int check_next(tsx_scan *scan, tsr_error *error) {
  return (uint64_t)scan->row < ((const tsx_findings *)scan->state)->count;
}

static int check_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  static const char *const severities[] = {
      [TSR_SEVERITY_NOTE] = "note", [TSR_SEVERITY_WARNING] = "warning", [TSR_SEVERITY_ERROR] = "error"};
  const tsx_finding *item = &((const tsx_findings *)scan->state)->items[scan->row - 1];
  const char *text = column == 0 ? severities[item->severity] : column == 1 ? item->file : item->message;
  sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
  return TSR_OK;
}

static void check_close(tsx_scan *scan) { tsx_findings_free(scan->state); }

const tsx_about tsx_about_check = {.name = "tessera_check",
                                   .usage = "tessera_check(path[, array_key])",
                                   .columns = (const char *const[]){"severity TEXT", "file TEXT", "message TEXT", NULL},
                                   .arguments = TSX_PATH_ONLY,
                                   .required = 1,
                                   .same = -1,
                                   .rows = 1000000, /* reflects the work, so that a join runs the check only once */
                                   .state_size = sizeof(tsx_findings),
                                   .open = check_open,
                                   .next = check_next,
                                   .column = check_column,
                                   .close = check_close};
