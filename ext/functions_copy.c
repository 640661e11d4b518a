/* functions_copy.c: tessera_copy(from, to[, options]): a new array with the cells of another, with other tiles, filters or
 * orders.
 *
 * The new array is prepared, its cells and metadata are published in it, and then it appears: as a whole, or not at all. One
 * in the database is made by a CREATE VIRTUAL TABLE and filled within the same savepoint.
 * Cells of a sparse array go from the reader to one writer, which spills. A dense one is copied in slabs, boxes cut between
 * the new tiles that fit into memory: each is a commit, and a box of the new array if all of it was written; else the cells
 * that were.
 */
#include "functions.h"

#define SLAB_BYTES (UINT64_C(256) << 20) /* of a slab, about, and at most a quarter of memory_mb */
#define SLAB_PART  4
#define CELL_GUESS 32 /* bytes of a cell of variable length */

typedef struct gathered { /* a column of a slab; of sqlite3_malloc */
  uint8_t *values, *validity;
  uint64_t *offsets;
  uint64_t size, room, cells_room; /* bytes of values; cells that offsets and validity have room for */
} gathered;

typedef struct copying {
  tsx_connection *connection;
  tsx_address from;
  tsr_snapshot *snapshot;
  const tsr_schema *source;
  char **names; /* of the fields, in SQL */
  tsx_definition definition; /* the new schema, and memory */
  tsr_creation *creation;
  tsr_array *target;
  tsr_reader *reader;
  tsr_column *columns; /* by field, as is `gathered` */
  gathered *gathered;
  uint32_t fields;
  uint64_t cells;
  uint32_t *selection;
  uint64_t selection_room;
} copying;

/* ---- Options ----------------------------------------------------------------------------------------------------- */

static const char *text_of(const tsx_json_option *o) {
  const char *text = (const char *)sqlite3_value_text(o->value);
  return text ? text : "";
}

static int find_field(const copying *c, const char *name, const char *key, uint32_t count, uint32_t *field,
                      tsr_error *error) {
  for (*field = 0; *field < count; ++*field)
    if (!sqlite3_stricmp(c->names[*field], name)) return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "'%s': no %s is called '%s'", key,
                  count == c->source->dimension_count ? "dimension" : "column", name);
}

/* In the dimension's datatype, but of datetimes a number of units. */
static int take_extent(void *argument, const tsx_json_option *o, tsr_error *error) {
  copying *c = argument;
  uint32_t d;
  tsr_schema *schema = &c->definition.schema;
  int code = find_field(c, o->key, "extents", schema->dimension_count, &d, error);
  if (code < 0) return code;
  tsr_field *field = &schema->fields[d];
  if (field->values_per_cell == TSR_VARIABLE)
    return tsx_fail(error, TSR_ERROR, "'extents': dimension '%s' holds strings: it has none", o->key);
  if (strcmp(o->type, "integer") != 0 && strcmp(o->type, "real") != 0)
    return tsx_fail(error, TSR_MISMATCH, "'extents': dimension '%s': a number is wanted", o->key);
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  const bool units = kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME;
  tsr_error why = {0};
  uint8_t extent[8] = {0};
  code = tsx_number_parse(units ? TSR_INT64 : field->datatype, text_of(o), false, extent, &why);
  if (code < 0) return tsx_fail(error, code, "'extents': dimension '%s': %s", o->key, why.message);
  memcpy(field->extent, extent, sizeof extent);
  field->has_extent = true;
  return TSR_OK;
}

static int take_filters(void *argument, const tsx_json_option *o, tsr_error *error) {
  copying *c = argument;
  uint32_t f;
  tsr_schema *schema = &c->definition.schema;
  int code = find_field(c, o->key, "filters", c->fields, &f, error);
  if (code < 0) return code;
  if (strcmp(o->type, "text") != 0)
    return tsx_fail(error, TSR_MISMATCH, "'filters': column '%s': text like \"byteshuffle, zstd\" is wanted", o->key);
  tsx_parser p = {
      .definition = &c->definition, .in = tsx_tokens_of(text_of(o)), .noun = "filters of", .name = o->key, error};
  tsr_pipeline pipeline;
  if ((code = tsx_filters_parse(&p, &pipeline)) < 0) return code == TSR_NOMEM ? tsx_out_of_memory(error) : code;
  if (p.in.token.kind != TSX_TOKEN_END) return tsx_parser_unexpected(&p, "a comma or the end");
  if (f < schema->dimension_count && !pipeline.count && schema->coords_filters.count) {
    /* an empty list would mean those of the coordinates */
    if (!(pipeline.filters = tsx_parser_take(&p, sizeof *pipeline.filters))) return tsx_out_of_memory(error);
    pipeline.filters[0] = TSX_FILTER(TSR_FILTER_NONE);
    pipeline.count = 1;
  }
  schema->fields[f].filters = pipeline;
  return TSR_OK;
}

static int take_order(const tsx_json_option *o, bool hilbert, tsr_order *order, tsr_error *error) {
  const char *text = strcmp(o->type, "text") ? "" : text_of(o);
  if (!sqlite3_stricmp(text, "row")) *order = TSR_ORDER_ROW;
  else if (!sqlite3_stricmp(text, "col")) *order = TSR_ORDER_COL;
  else if (hilbert && !sqlite3_stricmp(text, "hilbert")) *order = TSR_ORDER_HILBERT;
  else
    return tsx_fail(error, TSR_MISMATCH, "'%s': %s is wanted", o->key, hilbert ? "row, col or hilbert" : "row or col");
  return TSR_OK;
}

static int take_duplicates(copying *c, const tsx_json_option *o, tsr_error *error) {
  const bool yes = !strcmp(o->type, "true");
  if (!yes && strcmp(o->type, "false") != 0)
    return tsx_fail(error, TSR_MISMATCH, "'%s': true or false is wanted", o->key);
  if (!yes && c->source->allows_duplicates)
    return tsx_fail(error, TSR_ERROR, "'%s': the array has duplicates: cells would get lost", o->key);
  c->definition.schema.allows_duplicates = yes;
  return TSR_OK;
}

static int take_any(void *argument, const tsx_json_option *o, tsr_error *error) {
  copying *c = argument;
  tsr_schema *schema = &c->definition.schema;
  if (!strcmp(o->key, "extents"))
    return tsx_options_each(c->connection->db, o->value, "'extents'", take_extent, c, error);
  if (!strcmp(o->key, "filters"))
    return tsx_options_each(c->connection->db, o->value, "'filters'", take_filters, c, error);
  if (!strcmp(o->key, "cell_order")) return take_order(o, true, &schema->cell_order, error);
  if (!strcmp(o->key, "tile_order")) return take_order(o, false, &schema->tile_order, error);
  if (!strcmp(o->key, "duplicates")) return take_duplicates(c, o, error);
  const bool capacity = !strcmp(o->key, "capacity");
  if (!capacity && strcmp(o->key, "format_version") != 0)
    return tsx_fail(error, TSR_ERROR,
                    "no option is called '%s': extents, filters, capacity, cell_order, tile_order, duplicates, "
                    "format_version",
                    o->key);
  const sqlite3_int64 number = sqlite3_value_int64(o->value);
  if (strcmp(o->type, "integer") != 0 || number <= 0)
    return tsx_fail(error, TSR_MISMATCH, "'%s': a number above 0 is wanted", o->key);
  if (capacity) schema->capacity = (uint64_t)number;
  else if (number > TSR_FORMAT_WRITE_MAX)
    return tsx_fail(error, TSR_UNSUPPORTED, "'%s': %lld: %d is the last that is written", o->key, (long long)number,
                    TSR_FORMAT_WRITE_MAX);
  else schema->version = (uint32_t)number;
  return TSR_OK;
}

/* ---- The new array ----------------------------------------------------------------------------------------------- */

/* The schema as it is, but for its version where none so old is written; its enumerations loaded. */
static int take_schema(copying *c, tsr_error *error) {
  tsx_parser p = {.definition = &c->definition};
  tsr_schema *schema = &c->definition.schema;
  *schema = *c->source;
  c->fields = schema->dimension_count + schema->attribute_count;
  if (schema->version < 12 || schema->version > TSR_FORMAT_WRITE_MAX) schema->version = TSR_FORMAT_WRITE_MAX;
  schema->fields = tsx_parser_take(&p, c->fields * sizeof *schema->fields);
  schema->enumerations = tsx_parser_take(&p, (schema->enumeration_count + 1) * sizeof *schema->enumerations);
  c->columns = tsx_parser_take(&p, c->fields * sizeof *c->columns);
  c->gathered = tsx_parser_take(&p, c->fields * sizeof *c->gathered);
  c->names = tsx_names_make(c->source);
  if (!schema->fields || !schema->enumerations || !c->columns || !c->gathered || !c->names) return tsx_out_of_memory(error);
  memcpy(schema->fields, c->source->fields, c->fields * sizeof *schema->fields);
  for (uint32_t i = 0; i < schema->enumeration_count; i++) {
    const tsr_enumeration *loaded;
    int code = tsr_array_enumeration(c->from.array->core, c->source, c->source->enumerations[i].name, &loaded, error);
    if (code < 0) return code;
    schema->enumerations[i] = *loaded;
  }
  return TSR_OK;
}

static int open_in_database(copying *c, const char *to, const uint8_t *key, tsr_error *error) {
  const tsr_array_options options = {.key = key};
  char *path;
  int code = tsx_database_create(c->connection, to, &c->from, &c->definition.schema, &path, error);
  if (code < 0) return code;
  code = tsr_array_open(c->connection->environment, path, &options, &c->target, error);
  sqlite3_free(path);
  return code;
}

static int open_target(copying *c, const char *to, tsr_error *error) {
  const uint8_t *key = c->from.array->has_key ? c->from.array->key : NULL;
  if (!sqlite3_strnicmp(to, "db:", 3)) return open_in_database(c, to, key, error);
  tsr_environment *environment = c->connection->environment;
  const tsr_create_options create = {.key = key};
  int code = tsr_creation_prepare(environment, to, &c->definition.schema, &create, &c->creation, error);
  if (code < 0) return code;
  const tsr_array_options options = {.key = key, .creation = c->creation};
  return tsr_array_open(environment, to, &options, &c->target, error);
}

static int publish(tsr_writer *writer, int code, tsr_error *error) {
  if (code == TSR_OK && tsr_writer_changed(writer)) {
    code = tsr_writer_prepare(writer, error);
    if (code == TSR_OK) code = tsr_writer_publish(writer, error);
  }
  if (code < 0 && writer) (void)tsr_writer_abandon(writer, NULL);
  tsr_writer_close(writer);
  return code;
}

static int open_writer(const copying *c, tsr_writer **writer, tsr_error *error) {
  const tsr_writer_options options = {.memory_bytes = c->from.memory_bytes};
  return tsr_writer_open(c->target, &options, writer, error);
}

static int copy_metadata(copying *c, tsr_error *error) {
  tsr_metadata *all = NULL;
  int code = tsr_array_metadata(c->from.array->core, c->from.since, c->from.as_of, &all, error);
  for (uint64_t i = 0; code == TSR_OK && i < all->count; i++)
    code = tsr_array_set_metadata(c->target, &all->entries[i], error);
  tsr_metadata_close(all);
  return code;
}

/* ---- Cells of a sparse array ------------------------------------------------------------------------------------- */

/* The rows of a batch as a list of indices. */
static const uint32_t *select_rows(copying *c, const tsr_batch *batch) {
  if (batch->selection || !batch->first) return batch->selection;
  if (batch->count > c->selection_room) {
    uint32_t *more = sqlite3_realloc64(c->selection, batch->count * sizeof *more);
    if (!more) return NULL;
    c->selection = more;
    c->selection_room = batch->count;
  }
  for (uint64_t i = 0; i < batch->count; i++) c->selection[i] = (uint32_t)(batch->first + i);
  return c->selection;
}

static int load_columns(copying *c, tsr_error *error) {
  for (uint32_t f = 0; f < c->fields; f++) {
    const tsr_column *column;
    int code = tsr_reader_column(c->reader, f, &column, error);
    if (code < 0) return code;
    c->columns[f] = *column;
  }
  return TSR_OK;
}

static int append_batches(copying *c, tsr_writer *writer, tsr_error *error) {
  for (;;) {
    const tsr_batch *batch;
    int code = tsr_reader_next(c->reader, &batch, error);
    if (code <= 0) return code;
    if ((code = load_columns(c, error)) < 0) return code;
    const uint32_t *rows = select_rows(c, batch);
    if (!rows && batch->first) return tsx_out_of_memory(error);
    if ((code = tsr_writer_append(writer, c->columns, rows, batch->count, error)) < 0) return code;
    c->cells += batch->count;
    tsr_work_done(c->connection->environment, batch->count);
  }
}

static int copy_sparse(copying *c, tsr_request *request, tsr_error *error) {
  tsr_writer *writer = NULL;
  int code = tsr_reader_start(c->reader, request, error);
  if (code == TSR_OK) code = open_writer(c, &writer, error);
  if (code == TSR_OK) code = append_batches(c, writer, error);
  return writer ? publish(writer, code, error) : code;
}

/* ---- Cells of a dense array -------------------------------------------------------------------------------------- */

static void *grown(void *block, uint64_t *room, uint64_t wanted, uint64_t each) {
  if (wanted <= *room) return block;
  const uint64_t more = wanted + wanted / 2 + 64;
  void *larger = sqlite3_realloc64(block, more * each);
  if (larger) *room = more;
  return larger;
}

/* Room for so many more bytes of values, and one: there are values, even if they are empty. */
static bool reserve_values(gathered *g, uint64_t bytes) {
  uint8_t *values = grown(g->values, &g->room, g->size + bytes + 1, 1);
  if (values) g->values = values;
  return values;
}

static bool reserve_cells(gathered *g, uint64_t cells, bool variable) {
  if (cells + 1 <= g->cells_room) return true;
  uint64_t room = g->cells_room, same = room;
  uint8_t *validity = grown(g->validity, &room, cells + 1, 1);
  if (!validity) return false;
  g->validity = validity;
  uint64_t *offsets = variable ? grown(g->offsets, &same, cells + 1, sizeof *offsets) : g->offsets;
  if (variable && !offsets) return false;
  g->offsets = offsets;
  g->cells_room = room;
  return true;
}

/* Appends the rows of a batch to a column that has `count` of them. */
static int gather(copying *c, uint32_t f, const tsr_batch *batch, uint64_t count, tsr_error *error) {
  const uint64_t size = c->source->fields[f].cell_size;
  const tsr_column *column;
  gathered *g = &c->gathered[f];
  int code = tsr_reader_column(c->reader, f, &column, error);
  if (code < 0) return code;
  const uint8_t *values = column->values;
  if (!reserve_cells(g, count + batch->count, !size)) return tsx_out_of_memory(error);
  if (size && !reserve_values(g, batch->count * size)) return tsx_out_of_memory(error);
  for (uint64_t r = 0; r < batch->count; r++) {
    const uint64_t row = batch->selection ? batch->selection[r] : batch->first + r, at = column->constant ? 0 : row;
    const uint64_t from = size ? at * size : column->offsets[at], n = size ? size : column->offsets[at + 1] - from;
    if (!size && !reserve_values(g, n)) return tsx_out_of_memory(error);
    if (!size) g->offsets[count + r] = g->size;
    if (n) memcpy(g->values + g->size, values + from, n);
    g->size += n;
    g->validity[count + r] = column->validity ? column->validity[at] : 1;
  }
  if (!size) g->offsets[count + batch->count] = g->size;
  return TSR_OK;
}

typedef struct axis { /* numbers of cells from the domain's low end on */
  uint64_t low, high; /* of all that has been written */
  uint64_t extent, step, at; /* `step` is a multiple of the extent; `at` is where the slab begins */
} axis;

static uint64_t mask_of(const tsr_field *field) { return UINT64_MAX >> (64 - 8 * field->cell_size); }

static uint64_t ordinal_of(const tsr_field *field, const uint8_t *value) {
  uint64_t v = 0, low = 0;
  memcpy(&v, value, field->cell_size);
  memcpy(&low, field->low, field->cell_size);
  return (v - low) & mask_of(field);
}

static void value_at(const tsr_field *field, uint64_t ordinal, uint8_t *value) {
  uint64_t low = 0;
  memcpy(&low, field->low, field->cell_size);
  low += ordinal;
  memcpy(value, &low, field->cell_size);
}

static uint64_t end_of(const axis *a) {
  return a->high - a->at < a->step ? a->high : a->at - a->at % a->extent + a->step - 1;
}

/* Slabs of whole new tiles, that are small enough, cut on the first dimensions. */
static void plan_slabs(const copying *c, const tsr_interval *box, axis *axes) {
  const tsr_schema *schema = &c->definition.schema;
  uint64_t budget = SLAB_BYTES;
  double bytes = 0;
  if (c->from.memory_bytes && c->from.memory_bytes / SLAB_PART < budget) budget = c->from.memory_bytes / SLAB_PART;
  for (uint32_t f = 0; f < c->fields; f++) {
    const uint64_t size = schema->fields[f].cell_size;
    bytes += (double)(size ? size + 1 : CELL_GUESS);
  }
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_field *field = &schema->fields[d];
    axis *a = &axes[d];
    *a = (axis){.low = ordinal_of(field, box[d].low), .high = ordinal_of(field, box[d].high)};
    memcpy(&a->extent, field->extent, field->cell_size);
    if (!a->extent) a->extent = 1;
    a->at = a->low;
    a->step = a->high - a->low + 1;
    if (!a->step) a->step = a->high;
    bytes *= (double)a->step;
  }
  for (uint32_t d = 0; d < schema->dimension_count && bytes > (double)budget; d++) {
    axis *a = &axes[d];
    const double each = bytes / (double)a->step, fit = (double)budget / each / (double)a->extent;
    const uint64_t tiles = fit < 1 ? 1 : (uint64_t)fit;
    if ((double)tiles * (double)a->extent < (double)a->step) a->step = tiles * a->extent;
    bytes = each * (double)a->step;
  }
}

/* The next slab; false after the last. */
static bool next_slab(axis *axes, uint32_t count) {
  for (uint32_t d = count; d-- > 0;) {
    const uint64_t end = end_of(&axes[d]);
    if (end < axes[d].high) {
      axes[d].at = end + 1;
      return true;
    }
    axes[d].at = axes[d].low;
  }
  return false;
}

/* Does any fragment have cells there? */
static int is_touched(const copying *c, const axis *axes, tsr_error *error) {
  const tsr_schema *schema = c->source;
  for (uint64_t i = 0; i < tsr_fragment_count(c->snapshot); i++) {
    tsr_fragment_info info;
    int code = tsr_fragment_describe(c->snapshot, i, &info, error);
    if (code < 0) return code;
    bool touched = info.non_empty_domain;
    for (uint32_t d = 0; touched && d < schema->dimension_count; d++)
      touched = ordinal_of(&schema->fields[d], info.non_empty_domain[d].low) <= end_of(&axes[d]) &&
                ordinal_of(&schema->fields[d], info.non_empty_domain[d].high) >= axes[d].at;
    if (touched) return 1;
  }
  return 0;
}

/* The cells of the slab that were written, row by row. */
static int gather_slab(copying *c, const tsr_request *request, uint64_t *count, bool *gaps, tsr_error *error) {
  int code = tsr_reader_start(c->reader, request, error);
  *count = 0;
  *gaps = false;
  for (uint32_t f = 0; f < c->fields; f++) c->gathered[f].size = 0;
  while (code == TSR_OK) {
    const tsr_batch *batch;
    code = tsr_reader_next(c->reader, &batch, error);
    if (code <= 0) break;
    code = TSR_OK;
    tsr_work_done(c->connection->environment, batch->count);
    if (!batch->written) {
      *gaps = true;
      continue;
    }
    for (uint32_t f = 0; f < c->fields && code == TSR_OK; f++) code = gather(c, f, batch, *count, error);
    *count += batch->count;
  }
  for (uint32_t f = 0; f < c->fields; f++) {
    const gathered *g = &c->gathered[f];
    const tsr_field *field = &c->source->fields[f];
    c->columns[f] = (tsr_column){.values = g->values,
                                 .offsets = field->cell_size ? NULL : g->offsets,
                                 .validity = field->nullable ? g->validity : NULL,
                                 .cell_size = field->cell_size};
  }
  return code;
}

static int copy_slab(copying *c, tsr_request *request, const axis *axes, tsr_interval *box, tsr_range *ranges,
                     tsr_error *error) {
  uint64_t count;
  bool gaps;
  tsr_writer *writer = NULL;
  for (uint32_t d = 0; d < c->source->dimension_count; d++) {
    memset(&box[d], 0, sizeof box[d]);
    value_at(&c->source->fields[d], axes[d].at, box[d].low);
    value_at(&c->source->fields[d], end_of(&axes[d]), box[d].high);
    ranges[d] = (tsr_range){.low = box[d].low, .high = box[d].high};
  }
  int code = gather_slab(c, request, &count, &gaps, error);
  if (code < 0 || !count) return code;
  if ((code = open_writer(c, &writer, error)) < 0) return code;
  code = gaps ? tsr_writer_append(writer, c->columns, NULL, count, error)
              : tsr_writer_append_box(writer, box, false, c->columns, error);
  c->cells += count;
  return publish(writer, code, error);
}

static int copy_dense(copying *c, tsr_request *request, tsr_error *error) {
  const uint32_t n = c->source->dimension_count;
  const tsr_interval *all;
  tsx_parser p = {.definition = &c->definition};
  axis *axes = tsx_parser_take(&p, n * sizeof *axes);
  tsr_interval *box = tsx_parser_take(&p, n * sizeof *box);
  tsr_range *ranges = tsx_parser_take(&p, n * sizeof *ranges);
  tsr_ranges *dimensions = tsx_parser_take(&p, n * sizeof *dimensions);
  tsr_sort *order = tsx_parser_take(&p, n * sizeof *order);
  if (!axes || !box || !ranges || !dimensions || !order) return tsx_out_of_memory(error);
  for (uint32_t d = 0; d < n; d++) {
    dimensions[d] = (tsr_ranges){.ranges = &ranges[d], .count = 1};
    order[d] = (tsr_sort){.dimension = d};
  }
  request->dimensions = dimensions;
  request->order = order;
  request->order_count = n;
  int code = tsr_snapshot_non_empty_domain(c->snapshot, &all, error);
  if (code <= 0) return code;
  plan_slabs(c, all, axes);
  do {
    code = is_touched(c, axes, error);
    if (code > 0) code = copy_slab(c, request, axes, box, ranges, error);
  } while (code >= 0 && next_slab(axes, n));
  return code;
}

/* ---- The call ---------------------------------------------------------------------------------------------------- */

static int copy_cells(copying *c, tsr_error *error) {
  tsx_parser p = {.definition = &c->definition};
  bool *fields = tsx_parser_take(&p, c->fields * sizeof *fields);
  if (!fields) return tsx_out_of_memory(error);
  for (uint32_t f = 0; f < c->fields; f++) fields[f] = true;
  tsr_request request = {.fields = fields, .fill_unwritten = true, .memory_bytes = c->from.memory_bytes};
  int code = tsr_reader_open(c->snapshot, &c->reader, error);
  if (code < 0) return code;
  return c->source->dense ? copy_dense(c, &request, error) : copy_sparse(c, &request, error);
}

/* Of all that has been written, about. */
static int count_cells(const copying *c, uint64_t *cells, tsr_error *error) {
  const tsr_interval *all;
  *cells = 0;
  if (c->source->dense) {
    int code = tsr_snapshot_non_empty_domain(c->snapshot, &all, error);
    return code > 0 ? tsr_block_cells(c->snapshot, all, NULL, cells, error) : code;
  }
  for (uint64_t i = 0; i < tsr_fragment_count(c->snapshot); i++) {
    tsr_fragment_info info;
    int code = tsr_fragment_describe(c->snapshot, i, &info, error);
    if (code < 0) return code;
    *cells += info.cells;
  }
  return TSR_OK;
}

/* As what this process is at. */
static int copy_shown(copying *c, tsr_error *error) {
  tsr_environment *environment = c->connection->environment;
  uint64_t cells;
  tsr_work work;
  int code = count_cells(c, &cells, error);
  if (code < 0) return code;
  tsr_work_begin(environment, &work, "copy", tsr_array_path(c->from.array->core), cells);
  code = copy_cells(c, error);
  tsr_work_end(environment, &work);
  return code;
}

static int copy(copying *c, const char *to, sqlite3_value *options, tsr_error *error) {
  int code = tsx_address_array(&c->from, error);
  if (code == TSR_OK)
    code = tsr_snapshot_open(c->from.array->core, NULL, c->from.since, c->from.as_of, &c->snapshot, error);
  if (code < 0) return code;
  c->source = tsr_snapshot_schema(c->snapshot);
  code = take_schema(c, error);
  if (code == TSR_OK && options && sqlite3_value_type(options) != SQLITE_NULL)
    code = tsx_options_each(c->connection->db, options, "options", take_any, c, error);
  if (code == TSR_OK) code = open_target(c, to, error);
  if (code == TSR_OK) code = copy_shown(c, error);
  if (code == TSR_OK) code = copy_metadata(c, error);
  if (code < 0 || !c->creation) return code;
  if (c->from.array->has_key) code = tsx_key_set(c->connection, to, c->from.array->key, error);
  return code == TSR_OK ? tsr_creation_publish(c->creation, error) : code;
}

static void close_all(copying *c, bool abandon) {
  tsr_array_close(c->target);
  if (abandon && c->creation) (void)tsr_creation_abandon(c->creation, NULL);
  tsr_creation_close(c->creation);
  tsr_reader_close(c->reader);
  tsr_snapshot_close(c->snapshot);
  if (c->names) tsx_names_free(c->names, c->source);
  for (uint32_t f = 0; c->gathered && f < c->fields; f++) {
    sqlite3_free(c->gathered[f].values);
    sqlite3_free(c->gathered[f].validity);
    sqlite3_free(c->gathered[f].offsets);
  }
  sqlite3_free(c->selection);
  tsx_definition_release(&c->definition);
  tsx_address_close(&c->from);
  tsx_connection_remove_table(c->connection);
}

/* tessera_copy(from, to[, options]): how many cells */
void tsx_copy(sqlite3_context *context, int count, sqlite3_value **values) {
  copying c = {.connection = sqlite3_user_data(context)};
  tsr_error error = {0};
  tsx_connection_add_table(c.connection); /* the host's interrupts are asked for as in a table's statements */
  int code = tsx_arguments_check(count, values, 2, &error);
  const char *to = (const char *)sqlite3_value_text(values[1]);
  if (code == TSR_OK && !to) code = tsx_out_of_memory(&error);
  if (code == TSR_OK) code = tsx_address_open(c.connection, values[0], NULL, NULL, NULL, &c.from, &error);
  if (code == TSR_OK) code = copy(&c, to, count > 2 ? values[2] : NULL, &error);
  if (code >= 0) sqlite3_result_int64(context, (sqlite3_int64)c.cells);
  close_all(&c, code < 0);
  tsx_function_end(context, "tessera_copy", code, &error);
}
