/* copy.c: tessera_copy(from, to[, options]), which makes a new array with the cells of another one, but other tile
 * extents, filters or orders; and tessera_sync(from, to[, options]), which makes another place the same array.
 *
 * The new array of a tessera_copy is prepared under a name that readers do not see, gets its cells, labels and
 * metadata, and is published by one rename; so it appears complete or not at all. An array in the database is made by
 * CREATE VIRTUAL TABLE and filled within one savepoint.
 *
 * Cells of a sparse array go from the reader to a writer, which spills to disk. A dense array is copied in blocks:
 * boxes that fit into memory and are aligned to the new array's tiles. Each block is one commit. If all cells of a
 * block were written, the writer gets them as one box, else cell by cell. If the written cells of a block form more
 * boxes than a commit may have (TSR_FULL), the block is halved until they fit.
 *
 * A copied cell has exactly the attributes of the original: an attribute that was added to the schema after the cell's
 * fragment was written reads as never written, and must do so in the copy, too. So fragments are grouped into layouts
 * by the attributes that they lack. Each layout has its own writer, with a schema of the new array that lacks the same
 * attributes.
 *
 * Sections: layouts, batches, cells of a dense array, all cells, options, the new array, the call, the same array
 * in another place. */
#include "maintain/upkeep.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "definition/define.h"
#include "values/value.h"
#include "sql/json.h"
#include "sql/options.h"
#include "sql/literals.h"
#include "sql/names.h"
#include "table/table.h"
#include "call/function.h"
#include "database/store_sqlite.h"

#define BLOCK_BYTES  (UINT64_C(256) << 20) /* the maximum estimated size of a block */
#define BLOCK_SHARE  4 /* a block uses at most 1 / BLOCK_SHARE of memory_mb */
#define CELL_GUESS   32 /* the assumed size of a cell of variable length, in bytes */
#define COPY_MEMORY  (UINT64_C(1) << 30) /* bytes for the writers, if memory_mb is not given */
#define NO_FIELD     UINT32_MAX
#define NO_LAYOUT    UINT32_MAX
#define MANY_LAYOUTS (UINT32_MAX - 1)

/* ---- Layouts ----------------------------------------------------------------------------------------------------- */

static bool is_attribute(const tsx_copying *c, uint32_t field) { return field >= c->source->dimension_count; }

/* Finds or adds the layout of a fragment. `lacking` is scratch memory for one flag per field. */
static int find_layout(tsx_copying *c, uint64_t fragment, bool *lacking, uint32_t *layout, tsr_error *error) {
  tsx_parser p = {.definition = &c->definition};
  for (uint32_t f = 0; f < c->fields; f++)
    lacking[f] = is_attribute(c, f) && !tsr_fragment_has(c->snapshot, fragment, f);
  for (*layout = 0; *layout < c->layouts.count; ++*layout)
    if (!memcmp(c->layouts.items[*layout].lacking, lacking, c->fields * sizeof *lacking)) return TSR_OK;
  tsx_layout *more = sqlite3_realloc64(c->layouts.items, (c->layouts.count + 1) * sizeof *more);
  if (!more) return tsx_out_of_memory(error);
  c->layouts.items = more;
  more[c->layouts.count] = (tsx_layout){.lacking = tsx_parser_alloc(&p, c->fields * sizeof *lacking)};
  if (!more[c->layouts.count].lacking) return tsx_out_of_memory(error);
  memcpy(more[c->layouts.count++].lacking, lacking, c->fields * sizeof *lacking);
  return TSR_OK;
}

static int find_layouts(tsx_copying *c, tsr_error *error) {
  tsx_parser p = {.definition = &c->definition};
  const uint64_t count = tsr_fragment_count(c->snapshot);
  bool *lacking = tsx_parser_alloc(&p, c->fields * sizeof *lacking);
  c->layouts.of = tsx_parser_alloc(&p, count * sizeof *c->layouts.of);
  c->layouts.items = sqlite3_malloc64(sizeof *c->layouts.items);
  if (!lacking || !c->layouts.of || !c->layouts.items) return tsx_out_of_memory(error);
  c->layouts.items[0] = (tsx_layout){.lacking = tsx_parser_alloc(&p, c->fields * sizeof *lacking)};
  if (!c->layouts.items[0].lacking) return tsx_out_of_memory(error);
  c->layouts.count = 1;
  for (uint64_t i = 0; i < count; i++) TSX_TRY(find_layout(c, i, lacking, &c->layouts.of[i], error));
  return TSR_OK;
}

/* Makes the layout's schema in the new array, and maps its fields to those of the source. The first layout uses the
 * newest schema, whose fields are those of the source. */
static int make_layout_schema(tsx_copying *c, tsx_layout *layout, tsr_error *error) {
  tsx_parser p = {.definition = &c->definition};
  const tsr_schema *schema;
  if (layout == c->layouts.items || layout->schema) return TSR_OK;
  TSX_TRY(tsr_array_schema_without(c->target, layout->lacking, &schema, error));
  const uint32_t count = schema->dimension_count + schema->attribute_count;
  layout->fields = tsx_parser_alloc(&p, count * sizeof *layout->fields);
  if (!layout->fields) return tsx_out_of_memory(error);
  uint32_t n = 0;
  for (uint32_t f = 0; f < c->fields; f++)
    if (!layout->lacking[f]) layout->fields[n++] = f;
  for (; n < count; n++) layout->fields[n] = NO_FIELD;
  layout->schema = schema;
  return TSR_OK;
}

/* Opens the layout's writer, if it is not open yet. `writers` writers share the memory equally. */
static int open_writer(tsx_copying *c, tsx_layout *layout, uint32_t writers, tsr_error *error) {
  if (layout->writer) return TSR_OK;
  TSX_TRY(make_layout_schema(c, layout, error));
  const uint64_t memory = c->from.memory_bytes ? c->from.memory_bytes : COPY_MEMORY;
  const tsr_writer_options options = {.memory_bytes = memory / writers, .schema = layout->schema};
  TSX_TRY(tsr_writer_open(c->target, &options, &layout->writer, error));
  tsr_writer_trust(layout->writer, true); /* the metadata, with CHECK constraints, comes behind the cells */
  return TSR_OK;
}

/* Returns c->batch.columns in the order of the layout's schema. A field that the source lacks is filled with zeros:
 * tsr_array_schema_without adds one if a dense array would otherwise have no attribute. */
static const tsr_column *columns_of(const tsx_copying *c, const tsx_layout *layout) {
  static const uint8_t zero;
  if (!layout->schema) return c->batch.columns;
  for (uint32_t i = 0; i < layout->schema->dimension_count + layout->schema->attribute_count; i++)
    c->batch.given[i] = layout->fields[i] == NO_FIELD ? (tsr_column){.values = &zero, .cell_size = 1, .constant = true}
                                                      : c->batch.columns[layout->fields[i]];
  return c->batch.given;
}

/* Returns true if the source has all fields of the layout's schema. */
static bool layout_is_plain(const tsx_layout *layout) {
  const tsr_schema *schema = layout->schema;
  return !schema || layout->fields[schema->dimension_count + schema->attribute_count - 1] != NO_FIELD;
}

/* Publishes what was appended, in one commit per layout; if `code` is an error, abandons it. Closes all writers. */
static int publish_cells(tsx_copying *c, int code, tsr_error *error) {
  for (uint32_t i = 0; i < c->layouts.count; i++) {
    tsr_writer *writer = c->layouts.items[i].writer;
    c->layouts.items[i].writer = NULL;
    if (!writer) continue;
    const bool commits = code >= 0 && tsr_writer_changed(writer);
    if (commits) code = tsr_writer_prepare(writer, error);
    if (commits && code >= 0) code = tsr_writer_publish(writer, error);
    if (code < 0) (void)tsr_writer_abandon(writer, NULL);
    tsr_writer_close(writer);
  }
  return code;
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

/* Returns the row numbers of a batch. NULL if the batch begins at row 0 without a selection: it has all rows, in order.
 * For other batches NULL means that memory is exhausted. */
static const uint32_t *select_rows(tsx_copying *c, const tsr_batch *batch) {
  if (batch->selection || !batch->first) return batch->selection;
  if (batch->count > c->batch.selection_room) {
    uint32_t *more = sqlite3_realloc64(c->batch.selection, batch->count * sizeof *more);
    if (!more) return NULL;
    c->batch.selection = more;
    c->batch.selection_room = batch->count;
  }
  for (uint64_t i = 0; i < batch->count; i++) c->batch.selection[i] = (uint32_t)(batch->first + i);
  return c->batch.selection;
}

static int load_columns(tsx_copying *c, const bool *lacking, tsr_error *error) {
  for (uint32_t f = 0; f < c->fields; f++) {
    const tsr_column *column;
    if (lacking[f]) continue;
    int code = tsr_reader_column(c->reader, f, &column, error);
    if (code < 0) return code;
    c->batch.columns[f] = *column;
  }
  return TSR_OK;
}

static int append_batch(tsx_copying *c, const tsr_batch *batch, tsr_error *error) {
  tsx_layout *layout = &c->layouts.items[batch->fragment == TSR_FRAGMENT_NONE ? 0 : c->layouts.of[batch->fragment]];
  TSX_TRY(open_writer(c, layout, c->layouts.count, error));
  TSX_TRY(load_columns(c, layout->lacking, error));
  const uint32_t *rows = select_rows(c, batch);
  if (!rows && batch->first) return tsx_out_of_memory(error);
  return tsr_writer_append(layout->writer, columns_of(c, layout), rows, batch->count, error);
}

/* Appends all written cells of the request to the writers of their layouts. Adds their number to *cells. */
static int append_batches(tsx_copying *c, const tsr_request *request, uint64_t *cells, tsr_error *error) {
  const tsr_batch *batch;
  TSX_TRY(tsr_reader_start(c->reader, request, error));
  for (;;) {
    const int more = tsr_reader_next(c->reader, &batch, error);
    if (more <= 0) return more;
    if (batch->written) {
      TSX_TRY(append_batch(c, batch, error));
      *cells += batch->count;
    }
    tsr_work_done(c->connection->environment, batch->count);
  }
}

static int copy_sparse(tsx_copying *c, const tsr_request *request, tsr_error *error) {
  return publish_cells(c, append_batches(c, request, &c->cells, error), error);
}

/* ---- Cells of a dense array -------------------------------------------------------------------------------------- */

/* Returns a buffer with room for `count` elements, reallocated if necessary; NULL if memory is exhausted. */
static void *grow_buffer(void *buffer, uint64_t *room, uint64_t count, uint64_t element_size) {
  if (count <= *room) return buffer;
  const uint64_t more = count + count / 2 + 64;
  void *larger = sqlite3_realloc64(buffer, more * element_size);
  if (larger) *room = more;
  return larger;
}

/* Makes room for more bytes of values. Allocates one byte more, so that `values` is never NULL, even if all values are
 * empty. */
static bool reserve_values(tsx_gathered *g, uint64_t bytes) {
  uint8_t *values = grow_buffer(g->values, &g->room, g->size + bytes + 1, 1);
  if (values) g->values = values;
  return values;
}

static bool reserve_cells(tsx_gathered *g, uint64_t cells, bool variable) {
  if (cells + 1 <= g->cells_room) return true;
  uint64_t room = g->cells_room, offsets_room = room;
  uint8_t *validity = grow_buffer(g->validity, &room, cells + 1, 1);
  if (!validity) return false;
  g->validity = validity;
  uint64_t *offsets = variable ? grow_buffer(g->offsets, &offsets_room, cells + 1, sizeof *offsets) : g->offsets;
  if (variable && !offsets) return false;
  g->offsets = offsets;
  g->cells_room = room;
  return true;
}

/* Appends field f of a batch's rows to c->batch.gathered[f], which has `count` rows so far. */
static int gather_field(tsx_copying *c, uint32_t f, const tsr_batch *batch, uint64_t count, tsr_error *error) {
  const uint64_t size = c->source->fields[f].cell_size;
  const tsr_column *column;
  tsx_gathered *g = &c->batch.gathered[f];
  TSX_TRY(tsr_reader_column(c->reader, f, &column, error));
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

typedef struct cells_axis { /* one dimension of the walk over blocks; ordinals count from the domain's low end */
  uint64_t low, high; /* the non-empty domain of the source */
  uint64_t extent; /* of the new array's tiles */
  uint64_t step; /* the length of the blocks: a multiple of the extent, or all of low..high */
  uint64_t at; /* the start of the current block */
} cells_axis;

static uint64_t mask_of(const tsr_field *field) { return UINT64_MAX >> (64 - 8 * field->cell_size); }

static uint64_t ordinal_of(const tsr_field *field, const uint8_t *value) {
  uint64_t v = 0, low = 0;
  memcpy(&v, value, field->cell_size);
  memcpy(&low, field->low, field->cell_size);
  return (v - low) & mask_of(field);
}

static void value_of_ordinal(const tsr_field *field, uint64_t ordinal, uint8_t *value) {
  uint64_t low = 0;
  memcpy(&low, field->low, field->cell_size);
  low += ordinal;
  memcpy(value, &low, field->cell_size);
}

/* Returns the last ordinal of the current block. */
static uint64_t end_of(const cells_axis *a) {
  return a->high - a->at < a->step ? a->high : a->at - a->at % a->extent + a->step - 1;
}

/* Chooses the size of the blocks: whole tiles of the new array, shortened along the first dimensions until the
 * estimated size fits the budget. */
static void plan_blocks(const tsx_copying *c, const tsr_interval *box, cells_axis *axes) {
  const tsr_schema *schema = &c->definition.schema;
  uint64_t budget = BLOCK_BYTES;
  double bytes = 0;
  if (c->from.memory_bytes && c->from.memory_bytes / BLOCK_SHARE < budget) budget = c->from.memory_bytes / BLOCK_SHARE;
  for (uint32_t f = 0; f < c->fields; f++) {
    const uint64_t size = schema->fields[f].cell_size;
    bytes += (double)(size ? size + 1 : CELL_GUESS);
  }
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_field *field = &schema->fields[d];
    cells_axis *a = &axes[d];
    *a = (cells_axis){.low = ordinal_of(field, box[d].low), .high = ordinal_of(field, box[d].high)};
    memcpy(&a->extent, field->extent, field->cell_size);
    if (!a->extent) a->extent = 1;
    a->at = a->low;
    a->step = a->high - a->low + 1;
    if (!a->step) a->step = a->high;
    bytes *= (double)a->step;
  }
  for (uint32_t d = 0; d < schema->dimension_count && bytes > (double)budget; d++) {
    cells_axis *a = &axes[d];
    const double row_bytes = bytes / (double)a->step, fit = (double)budget / row_bytes / (double)a->extent;
    const uint64_t tiles = fit < 1 ? 1 : (uint64_t)tsx_int64_from_double(fit);
    if ((double)tiles * (double)a->extent < (double)a->step) a->step = tiles * a->extent;
    bytes = row_bytes * (double)a->step;
  }
}

/* Advances to the next block, in row-major order. Returns false after the last one. */
static bool next_block(cells_axis *axes, uint32_t count) {
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

/* Finds the common layout of the fragments whose non-empty domains intersect the box: NO_LAYOUT if there are no such
 * fragments, MANY_LAYOUTS if they have several layouts. */
static int find_box_layout(const tsx_copying *c, const tsr_interval *box, uint32_t *layout, tsr_error *error) {
  const tsr_schema *schema = c->source;
  *layout = NO_LAYOUT;
  for (uint64_t i = 0; i < tsr_fragment_count(c->snapshot); i++) {
    tsr_fragment_info info;
    int code = tsr_fragment_describe(c->snapshot, i, &info, error);
    if (code < 0) return code;
    bool touched = info.non_empty_domain;
    for (uint32_t d = 0; touched && d < schema->dimension_count; d++) {
      const tsr_field *field = &schema->fields[d];
      touched = ordinal_of(field, info.non_empty_domain[d].low) <= ordinal_of(field, box[d].high) &&
                ordinal_of(field, info.non_empty_domain[d].high) >= ordinal_of(field, box[d].low);
    }
    if (touched) *layout = *layout == NO_LAYOUT || *layout == c->layouts.of[i] ? c->layouts.of[i] : MANY_LAYOUTS;
  }
  return TSR_OK;
}

/* Gathers the written cells of a block in row-major order, and points c->batch.columns to them. *gaps is set if some
 * cells of the block were never written. */
static int gather_block(tsx_copying *c, const tsr_request *request, const bool *lacking, uint64_t *count, bool *gaps,
                        tsr_error *error) {
  int code = tsr_reader_start(c->reader, request, error);
  *count = 0;
  *gaps = false;
  for (uint32_t f = 0; f < c->fields; f++) c->batch.gathered[f].size = 0;
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
    for (uint32_t f = 0; f < c->fields && code == TSR_OK; f++)
      if (!lacking[f]) code = gather_field(c, f, batch, *count, error);
    *count += batch->count;
  }
  for (uint32_t f = 0; f < c->fields; f++) {
    const tsx_gathered *g = &c->batch.gathered[f];
    const tsr_field *field = &c->source->fields[f];
    c->batch.columns[f] = (tsr_column){.values = g->values,
                                       .offsets = field->cell_size ? NULL : g->offsets,
                                       .validity = field->nullable ? g->validity : NULL,
                                       .cell_size = field->cell_size};
  }
  return code;
}

/* Appends a block whose cells have one layout: as a box if it has no gaps, else as cells. */
static int copy_gathered(tsx_copying *c, const tsr_request *request, const tsr_interval *box, tsx_layout *layout,
                         uint64_t *cells, tsr_error *error) {
  bool gaps;
  int code = gather_block(c, request, layout->lacking, cells, &gaps, error);
  if (code < 0 || !*cells) return code;
  if ((code = open_writer(c, layout, 1, error)) < 0) return code;
  const tsr_column *columns = columns_of(c, layout);
  return gaps || !layout_is_plain(layout) ? tsr_writer_append(layout->writer, columns, NULL, *cells, error)
                                          : tsr_writer_append_box(layout->writer, box, false, columns, error);
}

typedef struct dense_copy {
  tsr_request ordered, unordered; /* both read the box in `ranges`; `ordered` in row-major order */
  tsr_range *ranges; /* by dimension: the current block */
} dense_copy;

/* Copies a block in one commit. */
static int copy_box(tsx_copying *c, const dense_copy *dense, const tsr_interval *box, tsr_error *error) {
  uint32_t layout;
  uint64_t cells = 0;
  for (uint32_t d = 0; d < c->source->dimension_count; d++)
    dense->ranges[d] = (tsr_range){.low = box[d].low, .high = box[d].high};
  int code = find_box_layout(c, box, &layout, error);
  if (code < 0 || layout == NO_LAYOUT) return code;
  if (layout == MANY_LAYOUTS) code = append_batches(c, &dense->unordered, &cells, error);
  else code = copy_gathered(c, &dense->ordered, box, &c->layouts.items[layout], &cells, error);
  code = publish_cells(c, code, error);
  if (code >= 0) c->cells += cells;
  return code;
}

static int copy_halves(tsx_copying *c, const dense_copy *dense, const tsr_interval *box, tsr_error *error);

/* Copies a block in one commit, or in several if it has more boxes than a commit may have. A full disk returns
 * TSR_FULL, too: then ever smaller blocks fail, down to a single cell, whose error is returned. */
static int copy_block(tsx_copying *c, const dense_copy *dense, const tsr_interval *box, tsr_error *error) {
  const int code = copy_box(c, dense, box, error);
  return code == TSR_FULL ? copy_halves(c, dense, box, error) : code;
}

static int copy_halves(tsx_copying *c, const dense_copy *dense, const tsr_interval *box, tsr_error *error) {
  const uint32_t n = c->source->dimension_count;
  uint32_t d = 0;
  while (d < n && !memcmp(box[d].low, box[d].high, c->source->fields[d].cell_size)) d++;
  if (d == n) return TSR_FULL;
  const tsr_field *field = &c->source->fields[d];
  const uint64_t low = ordinal_of(field, box[d].low), middle = low + (ordinal_of(field, box[d].high) - low) / 2;
  tsr_interval *half = sqlite3_malloc64(n * sizeof *half);
  if (!half) return tsx_out_of_memory(error);
  memcpy(half, box, n * sizeof *half);
  value_of_ordinal(field, middle, half[d].high);
  int code = copy_block(c, dense, half, error);
  memcpy(half, box, n * sizeof *half);
  value_of_ordinal(field, middle + 1, half[d].low);
  if (code >= 0) code = copy_block(c, dense, half, error);
  sqlite3_free(half);
  return code;
}

static int copy_blocks(tsx_copying *c, const dense_copy *dense, tsr_error *error) {
  const uint32_t n = c->source->dimension_count;
  const tsr_interval *all;
  tsx_parser p = {.definition = &c->definition};
  cells_axis *axes = tsx_parser_alloc(&p, n * sizeof *axes);
  tsr_interval *box = tsx_parser_alloc(&p, n * sizeof *box);
  if (!axes || !box) return tsx_out_of_memory(error);
  int code = tsr_snapshot_non_empty_domain(c->snapshot, &all, error);
  if (code <= 0) return code;
  plan_blocks(c, all, axes);
  do {
    for (uint32_t d = 0; d < n; d++) {
      memset(&box[d], 0, sizeof box[d]);
      value_of_ordinal(&c->source->fields[d], axes[d].at, box[d].low);
      value_of_ordinal(&c->source->fields[d], end_of(&axes[d]), box[d].high);
    }
    code = copy_block(c, dense, box, error);
  } while (code >= 0 && next_block(axes, n));
  return code;
}

static int copy_dense_cells(tsx_copying *c, const tsr_request *request, tsr_error *error) {
  const uint32_t n = c->source->dimension_count;
  tsx_parser p = {.definition = &c->definition};
  dense_copy dense = {.ordered = *request, .ranges = tsx_parser_alloc(&p, n * sizeof *dense.ranges)};
  tsr_ranges *dimensions = tsx_parser_alloc(&p, n * sizeof *dimensions);
  tsr_sort *order = tsx_parser_alloc(&p, n * sizeof *order);
  if (!dense.ranges || !dimensions || !order) return tsx_out_of_memory(error);
  for (uint32_t d = 0; d < n; d++) {
    dimensions[d] = (tsr_ranges){.ranges = &dense.ranges[d], .count = 1};
    order[d] = (tsr_sort){.dimension = d};
  }
  dense.ordered.dimensions = dimensions;
  dense.unordered = dense.ordered;
  dense.ordered.order = order;
  dense.ordered.order_count = n;
  return copy_blocks(c, &dense, error);
}

/* ---- All cells --------------------------------------------------------------------------------------------------- */

static int copy_all_cells(tsx_copying *c, tsr_error *error) {
  tsx_parser p = {.definition = &c->definition};
  bool *fields = tsx_parser_alloc(&p, c->fields * sizeof *fields);
  if (!fields) return tsx_out_of_memory(error);
  for (uint32_t f = 0; f < c->fields; f++) fields[f] = true;
  const tsr_request request = {.fields = fields, .fill_unwritten = true, .memory_bytes = c->from.memory_bytes};
  TSX_TRY(find_layouts(c, error));
  TSX_TRY(tsr_reader_open(c->snapshot, &c->reader, error));
  return c->source->dense ? copy_dense_cells(c, &request, error) : copy_sparse(c, &request, error);
}

/* Estimates the number of cells to read, for tessera_progress: the cells of a dense array's non-empty domain, or the
 * sum of the cells of a sparse array's fragments. */
static int count_cells(const tsx_copying *c, uint64_t *cells, tsr_error *error) {
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

/* Copies the cells of the snapshot into the target, in one or more commits. */
static int copy_cells(tsx_copying *copying, tsr_error *error) {
  tsx_copying *c = copying;
  tsr_environment *environment = c->connection->environment;
  uint64_t cells;
  tsr_work work;
  TSX_TRY(count_cells(c, &cells, error));
  tsr_work_begin(environment, &work, "copy", tsr_array_path(c->from.array->core), cells);
  int code = copy_all_cells(c, error);
  tsr_work_end(environment, &work);
  return code;
}

/* Abandons what was not published, and frees writers and buffers. Call it even if copy_cells failed or was never
 * called. */
static void close_copying(tsx_copying *copying) {
  tsx_copying *c = copying;
  (void)publish_cells(c, TSR_ERROR, NULL);
  tsr_reader_close(c->reader);
  for (uint32_t f = 0; c->batch.gathered && f < c->fields; f++) {
    sqlite3_free(c->batch.gathered[f].values);
    sqlite3_free(c->batch.gathered[f].validity);
    sqlite3_free(c->batch.gathered[f].offsets);
  }
  sqlite3_free(c->batch.selection);
  sqlite3_free(c->layouts.items);
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

static const char *text_of(const tsx_json_option *o) {
  const char *text = (const char *)sqlite3_value_text(o->value);
  return text ? text : "";
}

static int find_field(const tsx_copying *c, const char *name, const char *key, uint32_t count, uint32_t *field,
                      tsr_error *error) {
  for (*field = 0; *field < count; ++*field)
    if (!sqlite3_stricmp(c->names[*field], name)) return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "'%s': no %s is called '%s'", key,
                  count == c->source->dimension_count ? "dimension" : "column", name);
}

static int read_extent(void *argument, const tsx_json_option *o, tsr_error *error) {
  tsx_copying *c = argument;
  uint32_t d;
  tsr_schema *schema = &c->definition.schema;
  TSX_TRY(find_field(c, o->key, "extents", schema->dimension_count, &d, error));
  tsr_field *field = &schema->fields[d];
  if (field->values_per_cell == TSR_VARIABLE)
    return tsx_fail(error, TSR_ERROR, "'extents': dimension '%s' holds strings: it has none", o->key);
  if (strcmp(o->type, "integer") != 0 && strcmp(o->type, "real") != 0)
    return tsx_fail(error, TSR_MISMATCH, "'extents': dimension '%s': expected a number", o->key);
  tsr_error why = {0};
  uint8_t extent[8] = {0};
  int code = tsx_given_parse(tsx_extent_datatype(field->datatype), o->text, false, extent, &why);
  if (code < 0) return tsx_fail(error, code, "'extents': dimension '%s': %s", o->key, why.message);
  memcpy(field->extent, extent, sizeof extent);
  field->has_extent = true;
  return TSR_OK;
}

static int read_filters(void *argument, const tsx_json_option *o, tsr_error *error) {
  tsx_copying *c = argument;
  uint32_t f;
  tsr_schema *schema = &c->definition.schema;
  int code = find_field(c, o->key, "filters", c->fields, &f, error);
  if (code < 0) return code;
  if (strcmp(o->type, "text") != 0)
    return tsx_fail(error, TSR_MISMATCH, "'filters': column '%s': expected text like \"byteshuffle, zstd\"", o->key);
  tsx_parser p = {
      .definition = &c->definition, .in = tsx_tokens_of(text_of(o)), .noun = "filters of", .name = o->key, error};
  tsr_pipeline pipeline;
  if ((code = tsx_filters_parse(&p, &pipeline)) < 0) return code == TSR_NOMEM ? tsx_out_of_memory(error) : code;
  if (p.in.token.kind != TSX_TOKEN_END) return tsx_parser_unexpected(&p, "a comma or the end");
  if (f < schema->dimension_count && !pipeline.count && schema->coords_filters.count) {
    /* An empty pipeline would mean the filters of the coordinates. */
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

static int take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  static const tsr_order orders[] = {TSR_ORDER_ROW, TSR_ORDER_COL, TSR_ORDER_HILBERT};
  tsx_copying *c = argument;
  tsr_schema *schema = &c->definition.schema;
  sqlite3 *db = c->connection->db;
  switch (option) {
  case COPY_OPTION_extents: return tsx_options_each(db, value->json->value, "'extents'", read_extent, c, error);
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

static int read_options(tsx_copying *c, sqlite3_value *json, tsr_error *error) {
  static const tsx_option_list list = TSX_OPTION_LIST(copy_specs);
  return tsx_options_read(c->connection->db, json, &list, take_option, c, error);
}

/* ---- The new array ----------------------------------------------------------------------------------------------- */

/* Reads the values of a label, and adds the label to the new schema. */
static int read_label(tsx_copying *c, uint32_t number, tsr_error *error) {
  tsr_label_index **label = &c->labels[number];
  TSX_TRY(tsr_label_open(c->from.array->core, c->source, number, c->from.memory_bytes, label, error));
  TSX_TRY(tsr_label_read(*label, c->from.since, c->from.as_of, error));
  return tsx_creatable_label(tsr_label_schema(*label), &c->definition, number, error);
}

/* Makes the new schema: the source's, without what CREATE refuses, with enumerations loaded, and with the newest format
 * version if the source's is below 12 or cannot be written. Allocates everything whose size depends on the number of
 * fields. */
static int make_schema(tsx_copying *c, tsr_error *error) {
  tsx_parser p = {.definition = &c->definition};
  tsr_schema *schema = &c->definition.schema;
  TSX_TRY(tsx_creatable(c->source, &c->definition, error));
  c->fields = schema->dimension_count + schema->attribute_count;
  if (schema->version < 12 || schema->version > TSR_FORMAT_WRITE_MAX) schema->version = TSR_FORMAT_WRITE_MAX;
  schema->enumerations = tsx_parser_alloc(&p, (schema->enumeration_count + 1) * sizeof *schema->enumerations);
  c->batch.columns = tsx_parser_alloc(&p, c->fields * sizeof *c->batch.columns);
  c->batch.given = tsx_parser_alloc(&p, (c->fields + 1) * sizeof *c->batch.given);
  c->batch.gathered = tsx_parser_alloc(&p, c->fields * sizeof *c->batch.gathered);
  c->names = tsx_names_make(c->source);
  c->labels = tsx_parser_alloc(&p, (schema->label_count + 1) * sizeof *c->labels);
  if (!c->labels) return tsx_out_of_memory(error);
  memset(c->labels, 0, (schema->label_count + 1) * sizeof *c->labels);
  if (!schema->enumerations || !c->batch.columns || !c->batch.given || !c->batch.gathered || !c->names)
    return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < schema->enumeration_count; i++) {
    const tsr_enumeration *loaded;
    TSX_TRY(tsr_array_enumeration(c->from.array->core, c->source, c->source->enumerations[i].name, &loaded, error));
    schema->enumerations[i] = *loaded;
  }
  for (uint32_t i = 0; i < schema->label_count; i++) TSX_TRY(read_label(c, i, error));
  return TSR_OK;
}

static int open_in_database(tsx_copying *c, const char *to, const uint8_t *key, tsr_error *error) {
  const tsr_array_options options = {.key = key};
  char *path;
  TSX_TRY(tsx_database_create(c->connection, to, &c->from, &c->definition.schema, &path, error));
  int code = tsr_array_open(c->connection->environment, path, &options, &c->target, error);
  sqlite3_free(path);
  return code;
}

static int open_target(tsx_copying *c, const char *to, tsr_error *error) {
  const uint8_t *key = c->from.array->has_key ? c->from.array->key : NULL;
  if (!sqlite3_strnicmp(to, "db:", 3)) return open_in_database(c, to, key, error);
  const tsr_create_options create = {.key = key};
  TSX_TRY(tsx_places_apart(c->from.path, to, error));
  TSX_TRY(tsx_creation_begin(c->connection, to, &c->definition.schema, &create, &c->creation, error));
  const tsr_array_options options = {.key = key, .creation = c->creation};
  return tsr_array_open(c->connection->environment, to, &options, &c->target, error);
}

int tsx_labels_write(tsr_array *target, tsr_label_index *const *labels, uint32_t count, uint64_t memory_bytes,
                     tsr_error *error) {
  const tsr_schema *made;
  if (count == 0) return TSR_OK;
  TSX_TRY(tsr_array_schema(target, TSR_TIME_NOW, &made, error));
  for (uint32_t i = 0; i < count; i++) {
    tsr_label_index *to;
    TSX_TRY(tsr_label_open(target, made, i, memory_bytes, &to, error));
    const int code = tsr_label_copy(labels[i], to, error);
    tsr_label_close(to);
    if (code < 0) return code;
  }
  return TSR_OK;
}

int tsx_metadata_copy(const tsx_address *from, tsr_array *target, tsr_error *error) {
  tsr_metadata *all;
  TSX_TRY(tsr_array_metadata(from->array->core, from->since, from->as_of, &all, error));
  int code = TSR_OK;
  for (uint64_t i = 0; code >= 0 && i < all->count; i++)
    if (strcmp(all->entries[i].key, TSX_OVERVIEWS_KEY) != 0)
      code = tsr_array_set_metadata(target, &all->entries[i], error);
  tsr_metadata_close(all);
  return code;
}

/* ---- The call ---------------------------------------------------------------------------------------------------- */

static int copy_call(tsx_copying *c, const char *to, sqlite3_value *options, tsr_error *error) {
  TSX_TRY(tsx_address_array(&c->from, error));
  TSX_TRY(tsr_snapshot_open(c->from.array->core, NULL, c->from.since, c->from.as_of, &c->snapshot, error));
  c->source = tsr_snapshot_schema(c->snapshot);
  TSX_TRY(make_schema(c, error));
  TSX_TRY(read_options(c, options, error));
  TSX_TRY(open_target(c, to, error));
  TSX_TRY(copy_cells(c, error));
  TSX_TRY(tsx_labels_write(c->target, c->labels, c->source->label_count, c->from.memory_bytes, error));
  TSX_TRY(tsx_metadata_copy(&c->from, c->target, error));
  if (!c->creation) return TSR_OK;
  if (c->from.array->has_key) TSX_TRY(tsx_key_set(c->connection, to, c->from.array->key, error));
  return tsr_creation_publish(c->creation, error);
}

static void close_all(tsx_copying *c, bool abandon) {
  close_copying(c);
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

static int copy_arguments(tsx_copying *c, int count, sqlite3_value **values, tsr_error *error) {
  TSX_TRY(tsx_arguments_check(count, values, 2, error));
  const char *to = (const char *)sqlite3_value_text(values[1]);
  if (!to) return tsx_out_of_memory(error);
  TSX_TRY(tsx_address_open_to_write(c->connection, values[0], &c->from, error));
  return copy_call(c, to, count > 2 ? values[2] : NULL, error);
}

/* tessera_copy(from, to[, options]): returns the number of cells that were copied. */
void tsx_copy(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_copying c = {.connection = sqlite3_user_data(context)};
  tsr_error error = {0};
  tsx_connection_add_table(c.connection); /* cancellation works only while a table is counted */
  const int code = copy_arguments(&c, count, values, &error);
  if (code >= 0) sqlite3_result_int64(context, (sqlite3_int64)c.cells);
  close_all(&c, code < 0);
  tsx_function_end(context, "tessera_copy", code, &error);
}

/* ---- The same array in another place ----------------------------------------------------------------------------- */

enum { SYNC_OPTION_merge, SYNC_OPTION_as_of, SYNC_OPTION_verify };

static const tsx_option_spec sync_specs[] = {[SYNC_OPTION_merge] = {"merge", TSX_TAKES_FLAG, 0, 0, NULL},
                                             [SYNC_OPTION_as_of] = {.name = "as_of"},
                                             [SYNC_OPTION_verify] = {"verify", TSX_TAKES_FLAG, 0, 0, NULL}};

static int sync_take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  tsr_sync_options *options = argument;
  if (option == SYNC_OPTION_merge) options->merge = value->whole;
  if (option == SYNC_OPTION_verify) options->verify = value->whole;
  if (option != SYNC_OPTION_as_of) return TSR_OK;
  TSX_TRY(tsx_time_value(value->json->value, "as_of", &options->as_of, error));
  return options->as_of ? TSR_OK : tsx_fail(error, TSR_RANGE, "'as_of': expected a time after 1970");
}

/* Gives the text by which a later sync knows a place again; NULL if nothing is there yet. From sqlite3_malloc. */
static int sync_identity(tsx_connection *connection, const char *path, char **identity, tsr_error *error) {
  tsr_error one = {0};
  *identity = NULL;
  const int code = tsx_array_key(connection, path, identity, &one);
  if (code < 0 && code != TSR_NOT_FOUND) return *error = one, code;
  if (code < 0 || !tsx_store_is(path)) return TSR_OK;
  /* "db:SCHEMA#ROOT": the schema's name depends on the connection, so its file takes its place */
  const char *root = strrchr(*identity, '#');
  char *schema = root ? sqlite3_mprintf("%.*s", (int)(root - *identity) - 3, *identity + 3) : NULL;
  const char *file = schema ? sqlite3_db_filename(connection->db, schema) : NULL;
  char *whole = schema ? sqlite3_mprintf("db:%s%s", file ? file : "", root) : NULL;
  sqlite3_free(schema);
  sqlite3_free(*identity);
  *identity = whole;
  return whole ? TSR_OK : tsx_out_of_memory(error);
}

/* Syncs to a place that has an array, or to an empty directory or prefix. Opens nothing, so it needs no key. */
static int sync_files(tsx_address *from, const char *to, const tsr_sync_options *options, tsr_sync_result *done,
                      tsr_error *error) {
  tsx_connection *connection = from->connection;
  if (tsx_transaction_open_on(connection, to))
    return tsx_fail(error, TSR_ERROR, "the transaction has rows for %s: commit first", to);
  TSX_TRY(tsx_savepoint_begin(connection, to, error));
  return tsr_array_sync(connection->environment, from->path, to, options, done, error);
}

static int sync_into_table(tsx_address *from, const char *to, const tsr_sync_options *options, tsr_sync_result *done,
                           tsr_error *error) {
  const int code = tsx_address_array(from, error);
  return code < 0 ? code : tsx_database_sync(from, to, options, done, error);
}

/* Syncs to the place `to`, whose resolved path is `path`. */
static int sync_to(tsx_address *from, const char *to, const char *path, const tsr_sync_options *options,
                   tsr_sync_result *done, tsr_error *error) {
  tsx_connection *connection = from->connection;
  tsr_object_kind kind = TSR_OBJECT_NONE;
  if (tsx_transaction_open_on(connection, from->path))
    return tsx_fail(error, TSR_ERROR, "the transaction has rows for %s: commit first", from->path);
  if (options->to_identity && options->from_identity && !strcmp(options->from_identity, options->to_identity))
    return tsx_fail(error, TSR_ERROR, "%s and %s are the same array", from->path, to);
  TSX_TRY(tsx_places_apart(from->path, path, error));
  TSX_TRY(tsx_place_check(connection, path, error));
  if (!tsx_store_is(path)) return sync_files(from, path, options, done, error);
  if (options->to_identity) TSX_TRY(tsr_object_find(connection->environment, path, &kind, error));
  if (kind == TSR_OBJECT_NONE) return sync_into_table(from, to, options, done, error);
  return sync_files(from, path, options, done, error);
}

static int sync_with_identities(tsx_address *from, const char *to, const char *path, tsr_sync_options *options,
                                tsr_sync_result *done, tsr_error *error) {
  char *from_identity = NULL, *to_identity = NULL;
  int code = sync_identity(from->connection, from->path, &from_identity, error);
  if (code >= 0) code = sync_identity(from->connection, path, &to_identity, error);
  options->from_identity = from_identity;
  options->to_identity = to_identity;
  if (code >= 0) code = sync_to(from, to, path, options, done, error);
  sqlite3_free(from_identity);
  sqlite3_free(to_identity);
  return code;
}

static int sync_call(tsx_address *from, const char *to, tsr_sync_options *options, tsr_sync_result *done,
                     tsr_error *error) {
  char *path;
  TSX_TRY(tsx_address_path(from->connection, to, &path, error));
  const int code = sync_with_identities(from, to, path, options, done, error);
  if (code == TSR_NOT_FOUND) tsx_address_hint(from, error);
  sqlite3_free(path);
  return code;
}

static int sync_arguments(tsx_address *from, tsx_connection *connection, int count, sqlite3_value **values,
                          tsr_sync_result *done, tsr_error *error) {
  static const tsx_option_list list = TSX_OPTION_LIST(sync_specs);
  tsr_sync_options options = {0};
  TSX_TRY(tsx_arguments_check(count, values, 2, error));
  const char *to = (const char *)sqlite3_value_text(values[1]);
  if (!to) return tsx_out_of_memory(error);
  if (count > 2) TSX_TRY(tsx_options_read(connection->db, values[2], &list, sync_take_option, &options, error));
  TSX_TRY(tsx_address_open_to_write(connection, values[0], from, error));
  return sync_call(from, to, &options, done, error);
}

/* tessera_sync(from, to[, options]): returns {"copied":files,"removed":files,"bytes":bytes}. */
void tsx_sync_array(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsx_address from = {0};
  tsr_sync_result done = {0};
  tsr_error error = {0};
  tsx_connection_add_table(connection); /* cancellation works only while a table is counted */
  int code = sync_arguments(&from, connection, count, values, &done, &error);
  tsx_address_close(&from);
  char *text = code < 0
                   ? NULL
                   : sqlite3_mprintf("{\"copied\":%llu,\"removed\":%llu,\"bytes\":%llu}", (sqlite3_uint64)done.copied,
                                     (sqlite3_uint64)done.removed, (sqlite3_uint64)done.bytes);
  if (code >= 0 && !text) code = tsx_out_of_memory(&error);
  if (text) sqlite3_result_text(context, text, -1, sqlite3_free);
  tsx_function_end(context, "tessera_sync", code, &error);
  tsx_connection_remove_table(connection);
}
