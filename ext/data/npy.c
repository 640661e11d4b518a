/* npy.c: tessera_npy and tessera_write_npy, which read and write blocks of dense arrays as NPY files (numpy's formats
 * 1.0 to 3.0). The layout of such a file:
 *
 *   "\x93NUMPY" | u8 major | u8 minor | u16 length (u32 from major 2) | a Python dict as text, ended by '\n' | values
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 *
 * tessera_write_npy accepts C and Fortran order and both byte orders. tessera_npy writes format 1.0, in C order, with
 * little-endian values that begin at a multiple of 64 bytes. Several values per cell form an extra last axis.
 *
 * Instead of BLOBs, both can read and write memory that the host has lent (call/lend.h). tessera_npy also gives the
 * values of a dimension label, and the grid of a query (query_grid.c).
 *
 * Sections: types, tessera_npy, the values of a label, slices of arrays, reading NPY, tessera_write_npy. */
#include "data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/json.h"
#include "sql/options.h"
#include "sql/names.h"
#include "values/slice.h"
#include "values/value.h"
#include "call/function.h"
#include "call/lend.h"

#define MAGIC      "\x93NUMPY"
#define MAGIC_SIZE 6
#define ALIGNMENT  64
#define DESCR_SIZE 32

/* ---- Types ------------------------------------------------------------------------------------------------------- */

typedef struct element { /* numpy's type of an attribute's values */
  char descr[DESCR_SIZE];
  uint64_t axis; /* the length of the extra last axis, for several values per cell; 0: there is none */
} element;

static const char *unit_of(tsr_datatype datatype) {
  static const char *const units[] = {"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"};
  return datatype >= TSR_TIME_HR ? units[datatype - TSR_TIME_HR + 4] : units[datatype - TSR_DATETIME_YEAR];
}

static int npy_describe(const tsr_field *field, element *e, tsr_error *error) {
  const uint64_t size = tsr_datatype_size(field->datatype), n = field->values_per_cell;
  if (field->values_per_cell == TSR_VARIABLE)
    return tsx_fail(error, TSR_MISMATCH, "'%s' is %s of variable length, which NPY files cannot hold", field->name,
                    tsr_datatype_name(field->datatype));
  *e = (element){.axis = n > 1 ? n : 0};
  const char mark = size > 1 ? '<' : '|';
  switch (tsr_datatype_kind(field->datatype)) {
  case TSR_KIND_SIGNED: snprintf(e->descr, DESCR_SIZE, "%ci%u", mark, (unsigned)size); break;
  case TSR_KIND_UNSIGNED: snprintf(e->descr, DESCR_SIZE, "%cu%u", mark, (unsigned)size); break;
  case TSR_KIND_FLOAT: snprintf(e->descr, DESCR_SIZE, "%cf%u", mark, (unsigned)size); break;
  case TSR_KIND_BOOLEAN: snprintf(e->descr, DESCR_SIZE, "|b1"); break;
  case TSR_KIND_DATETIME: snprintf(e->descr, DESCR_SIZE, "<M8[%s]", unit_of(field->datatype)); break;
  case TSR_KIND_TIME: snprintf(e->descr, DESCR_SIZE, "<m8[%s]", unit_of(field->datatype)); break;
  default:
    e->axis = 0;
    if (size == 1 && tsr_datatype_kind(field->datatype) == TSR_KIND_TEXT)
      snprintf(e->descr, DESCR_SIZE, "|S%llu", (unsigned long long)n);
    else if (size == 1) snprintf(e->descr, DESCR_SIZE, "|V%llu", (unsigned long long)n);
    else if (size == 4) snprintf(e->descr, DESCR_SIZE, "<U%llu", (unsigned long long)n);
    else {
      snprintf(e->descr, DESCR_SIZE, "<u2"); /* numpy has no strings of 16-bit units */
      e->axis = n;
    }
  }
  return TSR_OK;
}

/* ---- tessera_npy ------------------------------------------------------------------------------------------------- */

/* Returns the text of the header, padded, from sqlite3_malloc. `counts` has the number of cells along each axis; NULL:
 * the block has no cells. */
static char *npy_header(const element *e, uint32_t axes, const uint64_t *counts, uint64_t *size) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  sqlite3_str_appendf(out, "{'descr': '%s', 'fortran_order': False, 'shape': (", e->descr);
  for (uint32_t d = 0; d < axes; d++)
    sqlite3_str_appendf(out, "%s%llu", d ? ", " : "", counts ? (unsigned long long)counts[d] : 0ULL);
  if (e->axis) sqlite3_str_appendf(out, ", %llu", (unsigned long long)e->axis);
  sqlite3_str_appendf(out, "%s), }", axes == 1 && !e->axis ? "," : "");
  unsigned used = MAGIC_SIZE + 4 + (unsigned)sqlite3_str_length(out) + 1;
  sqlite3_str_appendchar(out, (int)((ALIGNMENT - used % ALIGNMENT) % ALIGNMENT), ' ');
  sqlite3_str_appendchar(out, 1, '\n');
  *size = (uint64_t)sqlite3_str_length(out);
  return sqlite3_str_finish(out);
}

static void npy_begin(uint8_t *file, const char *text, uint64_t size) {
  memcpy(file, MAGIC "\x01\x00", MAGIC_SIZE + 2);
  file[MAGIC_SIZE + 2] = (uint8_t)size;
  file[MAGIC_SIZE + 3] = (uint8_t)(size >> 8);
  memcpy(file + MAGIC_SIZE + 4, text, size);
}

typedef struct npy_request { /* the options of tessera_npy; `= {0}`: none */
  sqlite3_value *as_of, *since, *key, *seen; /* owned; NULL: not given. `seen` is the option "array_schema" */
  tsx_read_limits limits;
  bool header; /* return only the dict of the header */
  char into[TESSERA_TOKEN_SIZE]; /* the token of lent memory for the values; "": return a BLOB */
  char nulls[TESSERA_TOKEN_SIZE]; /* the token of lent memory with one byte per cell for nulls; "": not requested */
} npy_request;

enum {
  NPY_OPTION_as_of,
  NPY_OPTION_since,
  NPY_OPTION_key,
  NPY_OPTION_schema,
  NPY_OPTION_header,
  NPY_OPTION_into,
  NPY_OPTION_nulls,
  NPY_OPTION_limits /* the first of three */
};

static int take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  npy_request *r = argument;
  sqlite3_value **values[] = {[NPY_OPTION_as_of] = &r->as_of,
                              [NPY_OPTION_since] = &r->since,
                              [NPY_OPTION_key] = &r->key,
                              [NPY_OPTION_schema] = &r->seen};
  switch (option) {
  case NPY_OPTION_as_of:
  case NPY_OPTION_since:
  case NPY_OPTION_key:
  case NPY_OPTION_schema:
    *values[option] = sqlite3_value_dup(value->json->value);
    return *values[option] ? TSR_OK : tsx_out_of_memory(error);
  case NPY_OPTION_header: r->header = value->whole; break;
  case NPY_OPTION_into: sqlite3_snprintf(TESSERA_TOKEN_SIZE, r->into, "%s", value->text); break;
  case NPY_OPTION_nulls: sqlite3_snprintf(TESSERA_TOKEN_SIZE, r->nulls, "%s", value->text); break;
  default: tsx_read_limits_take(&r->limits, (tsx_read_option)(option - NPY_OPTION_limits), value);
  }
  return TSR_OK;
}

static int read_options(sqlite3 *db, sqlite3_value *json, npy_request *r, tsr_error *error) {
  static const tsx_option_spec specs[] = {[NPY_OPTION_as_of] = {.name = "as_of"},
                                          [NPY_OPTION_since] = {.name = "since"},
                                          [NPY_OPTION_key] = {.name = "array_key"},
                                          [NPY_OPTION_schema] = {.name = "array_schema"},
                                          [NPY_OPTION_header] = {"header", TSX_TAKES_FLAG, 0, 0, NULL},
                                          [NPY_OPTION_into] = {"into", TSX_TAKES_TEXT, 0, 0, NULL},
                                          [NPY_OPTION_nulls] = {"nulls", TSX_TAKES_TEXT, 0, 0, NULL},
                                          TSX_READ_LIMIT_SPECS};
  static const tsx_option_list list = TSX_OPTION_LIST(specs);
  return tsx_options_read(db, json, &list, take_option, r, error);
}

static void npy_request_release(npy_request *r) {
  sqlite3_value_free(r->as_of);
  sqlite3_value_free(r->since);
  sqlite3_value_free(r->key);
  sqlite3_value_free(r->seen);
}

typedef struct npy_block { /* the block that a call of tessera_npy reads */
  tsr_snapshot *snapshot;
  uint32_t field;
  const tsr_interval *box;
  uint64_t cells, bytes, memory_bytes; /* bytes: of all values; memory_bytes: the budget */
  unsigned threads; /* 0: the array's */
  char *header; /* the dict with its padding, from sqlite3_malloc */
  uint64_t header_size;
} npy_block;

/* Reads the values of the block; with `nulls` also sets one byte per cell that says whether it is null. */
static int read_values(const npy_block *b, void *out, uint8_t *nulls, tsr_error *error) {
  if (!b->cells) return TSR_OK;
  if (nulls)
    return tsr_block_read_nulls(b->snapshot, b->field, b->box, b->memory_bytes, b->threads, out, b->bytes, nulls,
                                error);
  return tsr_block_read(b->snapshot, b->field, b->box, b->memory_bytes, b->threads, out, b->bytes, error);
}

static int npy_lent_missing(const char *option, tsr_error *error) {
  return tsx_fail(error, TSR_NOT_FOUND, "'%s': unknown token; each token can be used only once", option);
}

/* Reads the block into lent memory. */
static int fill_lent(const npy_block *b, const npy_request *request, tsr_error *error) {
  tsx_lent lent, nulls = {0};
  if (request->nulls[0] && !tsx_lent_take(request->nulls, &nulls)) return npy_lent_missing("nulls", error);
  sqlite3_free(nulls.header);
  if (request->nulls[0] && nulls.size != b->cells)
    return tsx_fail(error, TSR_MISMATCH, "'nulls': the block has %llu cells, the memory %llu bytes",
                    (unsigned long long)b->cells, (unsigned long long)nulls.size);
  if (!tsx_lent_take(request->into, &lent)) return npy_lent_missing("into", error);
  const bool fits = lent.size == b->bytes && !strcmp(lent.header, b->header);
  const int code =
      fits ? read_values(b, lent.memory, nulls.memory, error)
           : tsx_fail(error, TSR_MISMATCH, "'into': the block is %.200s, the memory has %llu bytes for %.200s",
                      b->header, (unsigned long long)lent.size, lent.header);
  sqlite3_free(lent.header);
  return code;
}

static int make_file(sqlite3_context *context, const npy_block *b, tsr_error *error) {
  const uint64_t limit = (uint64_t)sqlite3_limit(sqlite3_context_db_handle(context), SQLITE_LIMIT_LENGTH, -1);
  const uint64_t head = MAGIC_SIZE + 4 + b->header_size;
  if (head > limit || b->header_size > UINT16_MAX || b->bytes > limit - head)
    return tsx_fail(
        error, TSR_TOOBIG,
        "%llu cells, %llu bytes in all, exceed SQLite's limit for a value (%llu bytes): take smaller slices",
        (unsigned long long)b->cells, (unsigned long long)b->bytes, (unsigned long long)limit);
  uint8_t *file = sqlite3_malloc64(head + b->bytes);
  if (!file) return tsx_out_of_memory(error);
  tsr_memory_advise(file, head + b->bytes);
  npy_begin(file, b->header, b->header_size);
  const int code = read_values(b, file + head, NULL, error);
  if (code >= 0) sqlite3_result_blob64(context, file, head + b->bytes, sqlite3_free);
  else sqlite3_free(file);
  return code;
}

/* `counts` has room for the cells of each dimension. b->header is the caller's to free. */
static int give_block(sqlite3_context *context, npy_block *b, const npy_request *request, bool empty, uint64_t *counts,
                      tsr_error *error) {
  const tsr_schema *schema = tsr_snapshot_schema(b->snapshot);
  const uint64_t cell_size = schema->fields[b->field].cell_size;
  element e;
  TSX_TRY(npy_describe(&schema->fields[b->field], &e, error));
  if (!empty) TSX_TRY(tsr_block_cells(b->snapshot, b->box, counts, &b->cells, error));
  b->header = npy_header(&e, schema->dimension_count, empty ? NULL : counts, &b->header_size);
  if (!b->header) return tsx_out_of_memory(error);
  if (b->cells > INT64_MAX / cell_size) return tsx_fail(error, TSR_TOOBIG, "the block is too large");
  b->bytes = b->cells * cell_size;
  if (request->into[0]) TSX_TRY(fill_lent(b, request, error));
  if (!request->into[0] && !request->header) return make_file(context, b, error);
  sqlite3_result_text(context, b->header, -1, SQLITE_TRANSIENT);
  return TSR_OK;
}

static int make_npy(sqlite3_context *context, npy_block *b, const npy_request *request, bool empty, tsr_error *error) {
  uint64_t *counts = sqlite3_malloc64(tsr_snapshot_schema(b->snapshot)->dimension_count * sizeof *counts);
  if (!counts) return tsx_out_of_memory(error);
  const int code = give_block(context, b, request, empty, counts, error);
  sqlite3_free(b->header);
  sqlite3_free(counts);
  return code;
}

/* ---- The values of a label --------------------------------------------------------------------------------------- */

typedef struct npy_label { /* the values of a dimension label in an interval of coordinates */
  const tsr_label_index *index; /* with its values loaded */
  tsr_interval along; /* the interval, on the label's dimension */
  uint64_t count; /* coordinates */
} npy_label;

/* Writes the bytes of a cell into out[size]. A shorter text is padded with NUL. */
static void npy_label_value(const tsr_column *cells, uint64_t cell, uint8_t *out, uint64_t size) {
  if (!cells->offsets) {
    memcpy(out, (const uint8_t *)cells->values + cell * size, size);
    return;
  }
  memset(out, 0, size);
  memcpy(out, (const uint8_t *)cells->values + cells->offsets[cell], cells->offsets[cell + 1] - cells->offsets[cell]);
}

/* Increments a little-endian coordinate of a dense dimension. After the last one it may wrap around; it is not used
 * then. */
static void npy_next_coordinate(uint8_t coordinate[8], uint64_t size) {
  for (uint64_t i = 0; i < size && ++coordinate[i] == 0; i++) {}
}

/* Returns the length in bytes of the longest text in the interval, at least 1. */
static uint64_t npy_longest(const npy_label *label, uint64_t coordinate_size) {
  const tsr_column *cells = tsr_label_cells(label->index);
  uint8_t coordinate[8];
  uint64_t longest = 1, cell;
  memcpy(coordinate, label->along.low, sizeof coordinate);
  for (uint64_t i = 0; i < label->count; i++, npy_next_coordinate(coordinate, coordinate_size))
    if (tsr_label_cell(label->index, coordinate, &cell) && cells->offsets[cell + 1] - cells->offsets[cell] > longest)
      longest = cells->offsets[cell + 1] - cells->offsets[cell];
  return longest;
}

/* Makes the NPY file of a label's values. A coordinate without a value gets NaN, NaT, the fill value or an empty
 * text. */
static int make_label(sqlite3_context *context, const npy_label *label, uint64_t coordinate_size, bool header,
                      tsr_error *error) {
  const uint64_t limit = (uint64_t)sqlite3_limit(sqlite3_context_db_handle(context), SQLITE_LIMIT_LENGTH, -1);
  const tsr_field *field = tsr_label_field(label->index);
  const tsr_column *cells = tsr_label_cells(label->index);
  tsr_field shown = *field;
  element e;
  if (field->values_per_cell == TSR_VARIABLE)
    shown.values_per_cell = (uint32_t)(shown.cell_size = npy_longest(label, coordinate_size));
  int code = npy_describe(&shown, &e, error);
  if (code < 0) return code;
  uint64_t text_size = 0, cell;
  char *text = npy_header(&e, 1, &label->count, &text_size);
  const uint64_t head = MAGIC_SIZE + 4 + text_size, size = shown.cell_size;
  const bool large = label->count > (limit - head) / size;
  uint8_t *file = text && !header && !large ? sqlite3_malloc64(head + label->count * size) : NULL;
  if (!text || (!file && !header && !large)) code = tsx_out_of_memory(error);
  else if (large)
    code = tsx_fail(error, TSR_TOOBIG, "%llu values of a label exceed SQLite's limit for a value",
                    (unsigned long long)label->count);
  else if (header) sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
  if (file) {
    uint8_t coordinate[8], *out = file + head;
    memcpy(coordinate, label->along.low, sizeof coordinate);
    npy_begin(file, text, text_size);
    for (uint64_t i = 0; i < label->count; i++, npy_next_coordinate(coordinate, coordinate_size), out += size)
      if (tsr_label_cell(label->index, coordinate, &cell)) npy_label_value(cells, cell, out, size);
      else if (field->values_per_cell == TSR_VARIABLE) memset(out, 0, size);
      else tsr_datatype_fill(field->datatype, out);
    sqlite3_result_blob64(context, file, head + label->count * size, sqlite3_free);
  }
  sqlite3_free(text);
  return code;
}

/* Finds the coordinates that a label's dimension has in the box. */
static int label_coordinates(const tsr_snapshot *snapshot, uint32_t dimension, const tsr_interval *box,
                             npy_label *label, tsr_error *error) {
  uint64_t cells, *counts = sqlite3_malloc64(tsr_snapshot_schema(snapshot)->dimension_count * sizeof *counts);
  if (!counts) return tsx_out_of_memory(error);
  const int code = tsr_block_cells(snapshot, box, counts, &cells, error);
  if (code >= 0) {
    label->along = box[dimension];
    label->count = counts[dimension];
  }
  sqlite3_free(counts);
  return code;
}

/* Makes the file of a label: its values for the coordinates that its dimension has in the box, or none if it is
 * NULL. */
static int npy_of_label(sqlite3_context *context, const tsx_address *address, const tsr_snapshot *snapshot,
                        uint32_t number, const tsr_interval *box, const npy_request *request, tsr_error *error) {
  const tsr_schema *schema = tsr_snapshot_schema(snapshot);
  const uint32_t dimension = schema->labels[number].dimension;
  const uint64_t memory = request->limits.memory_bytes ? request->limits.memory_bytes : address->memory_bytes;
  npy_label label = {0};
  if (request->into[0])
    return tsx_fail(error, TSR_UNSUPPORTED, "'into': the values of a label can only be returned as a BLOB");
  if (box) TSX_TRY(label_coordinates(snapshot, dimension, box, &label, error));
  tsr_label_index *index;
  TSX_TRY(tsr_label_open(address->array->core, schema, number, memory, &index, error));
  label.index = index;
  int code = tsr_label_read(index, address->since, address->as_of, error);
  if (code >= 0)
    code = make_label(context, &label, tsr_datatype_size(schema->fields[dimension].datatype), request->header, error);
  tsr_label_close(index);
  return code;
}

/* ---- Slices of arrays -------------------------------------------------------------------------------------------- */

/* Returns the number of the label with this name, or label_count. */
static uint32_t npy_label_find(const tsr_schema *schema, const char *name) {
  uint32_t i = 0;
  for (bool found = false; i < schema->label_count && !found; i += !found) {
    char *shown = tsx_name_text(schema->labels[i].name);
    found = shown && sqlite3_stricmp(shown, name) == 0;
    sqlite3_free(shown);
  }
  return i;
}

/* Gives the slice of the label, or if `label` is label_count of block->field. *snapshot and *slice are the caller's to
 * release. */
static int give_slice(sqlite3_context *context, tsx_address *address, const tsr_schema *schema, uint32_t label,
                      sqlite3_value *json, const npy_request *request, npy_block *block, tsx_snapshot **snapshot,
                      tsx_slice *slice, tsr_error *error) {
  const tsx_label_source labels = tsx_address_labels(address);
  bool empty = false;
  TSX_TRY(tsx_slice_parse(address->connection->db, json, schema, &labels, address->uint64_signed, slice, error));
  TSX_TRY(tsx_array_snapshot(address->connection, address->array, schema, address->since, address->as_of, false,
                             snapshot, error));
  TSX_TRY(tsx_slice_complete((*snapshot)->core, slice, &empty, error));
  block->snapshot = (*snapshot)->core;
  block->box = slice->box;
  if (label == schema->label_count) return make_npy(context, block, request, empty, error);
  return npy_of_label(context, address, block->snapshot, label, empty ? NULL : slice->box, request, error);
}

static int read_slice(sqlite3_context *context, tsx_address *address, const char *name, sqlite3_value *json,
                      const npy_request *request, tsr_error *error) {
  const tsr_schema *schema;
  tsx_snapshot *snapshot = NULL;
  tsx_slice slice = {0};
  const tsx_read_limits *limits = &request->limits;
  npy_block block = {.memory_bytes = limits->memory_bytes ? limits->memory_bytes : address->memory_bytes,
                     .threads = limits->threads};
  TSX_TRY(tsx_address_expect(address, request->seen, error));
  TSX_TRY(tsx_address_array(address, error));
  TSX_TRY(tsx_address_schema(address, &schema, error));
  tsx_read_limits_apply(limits, address->array->core);
  const uint32_t label = npy_label_find(schema, name);
  if (label == schema->label_count) TSX_TRY(tsx_attribute_find(schema, address->given, name, &block.field, error));
  if (!schema->dense)
    return tsx_fail(error, TSR_ERROR, "array %s is sparse: only dense ones have blocks", address->path);
  const int code = give_slice(context, address, schema, label, json, request, &block, &snapshot, &slice, error);
  tsx_snapshot_release(snapshot);
  tsx_slice_release(&slice);
  return code;
}

/* `address` and `request` are the caller's to close and to release. */
static int read_array(sqlite3_context *context, int count, sqlite3_value **values, tsx_address *address,
                      npy_request *request, tsr_error *error) {
  tsx_connection *connection = sqlite3_user_data(context);
  if (count < 2) return tsx_fail(error, TSR_ERROR, "a path must be followed by an attribute");
  if (count > 3) TSX_TRY(read_options(connection->db, values[3], request, error));
  TSX_TRY(tsx_address_open(connection, values[0], request->key, request->as_of, request->since, address, error));
  return read_slice(context, address, (const char *)sqlite3_value_text(values[1]), count > 2 ? values[2] : NULL,
                    request, error);
}

static int npy_of_array(sqlite3_context *context, int count, sqlite3_value **values, tsr_error *error) {
  tsx_address address = {0};
  npy_request request = {0};
  const int code = read_array(context, count, values, &address, &request, error);
  if (request.into[0]) tsx_take_back(request.into); /* a failed call uses up its tokens, too */
  if (request.nulls[0]) tsx_take_back(request.nulls);
  tsx_address_close(&address);
  npy_request_release(&request);
  return code;
}

static int npy_of_grid(sqlite3_context *context, tsx_grid *grid, uint64_t limit, tsr_error *error) {
  uint64_t counts[TSR_QUERY_KEYS], text_size = 0;
  element e = {.axis = 0};
  snprintf(e.descr, DESCR_SIZE, grid->whole ? "<i8" : "<f8");
  for (uint32_t a = 0; a < grid->axis_count; a++) counts[a] = grid->axes[a].count;
  char *text = npy_header(&e, grid->axis_count, counts, &text_size);
  const uint64_t head = MAGIC_SIZE + 4 + text_size, size = grid->count * sizeof(double);
  if (!text) return tsx_out_of_memory(error);
  const bool large = size > limit - head;
  if (!large) {
    uint8_t *file = tsx_grid_file(grid, head);
    npy_begin(file, text, text_size);
    sqlite3_result_blob64(context, file, head + size, tsx_grid_file_free);
  }
  sqlite3_free(text);
  return large ? tsx_fail(error, TSR_TOOBIG, "the grid exceeds SQLite's limit for a value") : TSR_OK;
}

/* Makes the block of a SELECT. */
static int npy_of_select(sqlite3_context *context, const char *select, const char *column, tsr_error *error) {
  const uint64_t limit = (uint64_t)sqlite3_limit(sqlite3_context_db_handle(context), SQLITE_LIMIT_LENGTH, -1);
  tsx_grid grid = {0};
  int code = tsx_grid_make(sqlite3_user_data(context), select, column, limit, &grid, error);
  if (code >= 0) code = npy_of_grid(context, &grid, limit, error);
  tsx_grid_release(&grid);
  return code;
}

static int npy_of_query(sqlite3_context *context, int count, sqlite3_value **values, tsr_error *error) {
  for (int i = 1; i < count; i++) { /* NULL is like an absent argument */
    const int type = sqlite3_value_type(values[i]);
    if (type == SQLITE_NULL) continue;
    if (i > 1) return tsx_fail(error, TSR_ERROR, "a query has no slice: write WHERE");
    if (type != SQLITE_TEXT) return tsx_fail(error, TSR_MISMATCH, "argument 2: expected the name of a column");
  }
  return npy_of_select(context, (const char *)sqlite3_value_text(values[0]),
                       count > 1 ? (const char *)sqlite3_value_text(values[1]) : NULL, error);
}

/* Makes the block of a tessera_query table, if the path names one. Returns 1, or 0. */
static int npy_of_table(sqlite3_context *context, int count, sqlite3_value **values, tsr_error *error) {
  char *select = NULL;
  const char *column = count > 1 ? (const char *)sqlite3_value_text(values[1]) : NULL;
  if (!column) return 0;
  int code =
      tsx_grid_path(sqlite3_user_data(context), values[0], column, count > 2 ? values[2] : NULL, false, &select, error);
  if (code > 0 && count > 3 && sqlite3_value_type(values[3]) != SQLITE_NULL)
    code = tsx_fail(error, TSR_ERROR, "a tessera_query takes no options here: its own are memory_mb and threads");
  if (code > 0) code = npy_of_select(context, select, column, error) < 0 ? error->code : 1;
  sqlite3_free(select);
  return code;
}

static int npy_call(sqlite3_context *context, int count, sqlite3_value **values, tsr_error *error) {
  const bool query = tsx_is_query(values[0]);
  TSX_TRY(tsx_arguments_check(count, values, query ? 1 : 2, error));
  if (query) return npy_of_query(context, count, values, error);
  const int code = npy_of_table(context, count, values, error);
  return code ? code : npy_of_array(context, count, values, error);
}

/* tessera_npy(path, attribute[, slice[, options]]), tessera_npy(query[, column]) */
void tsx_npy(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_error error = {0};
  tsx_connection_add_table(connection); /* cancellation works only while a table is counted */
  tsx_connection_add_cursor(connection);
  const int code = npy_call(context, count, values, &error);
  tsx_connection_remove_cursor(connection);
  tsx_function_end(context, "tessera_npy", code, &error);
  tsx_connection_remove_table(connection);
}

/* ---- Reading NPY ------------------------------------------------------------------------------------------------- */

#define AXES_MAX 64

typedef struct npy { /* a parsed NPY file */
  char descr[DESCR_SIZE];
  bool fortran;
  uint32_t axes;
  uint64_t shape[AXES_MAX];
  const uint8_t *data; /* the values; borrowed from the SQL value */
  uint64_t size; /* of the values, in bytes */
} npy;

static const char *skip(const char *p) { return p + strspn(p, " \t\n,"); }

/* The parse_ functions for parts of the header return the position after the part, or NULL if it is malformed. */
static const char *parse_string(const char *p, char *out, uint64_t size) {
  char quote = *p;
  if (quote != '\'' && quote != '"') return NULL;
  const char *end = strchr(++p, quote);
  if (!end || (uint64_t)(end - p) >= size) return NULL;
  memcpy(out, p, (size_t)(end - p));
  out[end - p] = 0;
  return end + 1;
}

static const char *parse_shape(const char *p, npy *n) {
  if (*p++ != '(') return NULL;
  for (p = skip(p); *p >= '0' && *p <= '9'; p = skip(p)) {
    char *end;
    if (n->axes == AXES_MAX) return NULL;
    n->shape[n->axes++] = strtoull(p, &end, 10);
    p = end + (*end == 'L');
  }
  return *p == ')' ? p + 1 : NULL;
}

static const char *parse_flag(const char *p, bool *flag) {
  *flag = !strncmp(p, "True", 4);
  return *flag ? p + 4 : !strncmp(p, "False", 5) ? p + 5 : NULL;
}

static bool parse_dict(const char *p, npy *n) {
  unsigned seen = 0;
  p = skip(p);
  if (*p++ != '{') return false;
  for (p = skip(p); *p && *p != '}'; p = skip(p)) {
    char key[32];
    p = parse_string(p, key, sizeof key);
    if (!p || *(p = skip(p)) != ':') return false;
    p = skip(p + 1);
    if (!strcmp(key, "descr")) p = parse_string(p, n->descr, sizeof n->descr), seen |= 1;
    else if (!strcmp(key, "fortran_order")) p = parse_flag(p, &n->fortran), seen |= 2;
    else if (!strcmp(key, "shape")) p = parse_shape(p, n), seen |= 4;
    else return false;
    if (!p) return false;
  }
  return *p == '}' && seen == 7;
}

/* Uses lent memory if `value` is a token. Returns false if it is not. */
static bool parse_lent(sqlite3_value *value, npy *n, int *code, tsr_error *error) {
  tsx_lent lent;
  if (sqlite3_value_type(value) != SQLITE_TEXT || !tsx_lent_take((const char *)sqlite3_value_text(value), &lent))
    return false;
  *n = (npy){.data = lent.memory, .size = lent.size};
  *code = parse_dict(lent.header, n)
              ? TSR_OK
              : tsx_fail(error, TSR_MISMATCH, "cannot parse the header of lent memory: %.100s", lent.header);
  sqlite3_free(lent.header);
  return true;
}

static int parse_npy(sqlite3_value *value, npy *n, tsr_error *error) {
  const uint8_t *bytes = sqlite3_value_blob(value);
  uint64_t size = (uint64_t)sqlite3_value_bytes(value), head = MAGIC_SIZE + 4, text_size;
  int code = TSR_OK;
  *n = (npy){0};
  if (parse_lent(value, n, &code, error)) return code;
  if (sqlite3_value_type(value) == SQLITE_TEXT)
    return tsx_fail(error, TSR_MISMATCH, "expected a BLOB, found TEXT; to read a file, use readfile('%.100s')",
                    (const char *)sqlite3_value_text(value));
  if (sqlite3_value_type(value) == SQLITE_NULL)
    return tsx_fail(error, TSR_MISMATCH,
                    "expected a BLOB, found NULL (readfile() returns NULL for a file that does not exist)");
  if (sqlite3_value_type(value) != SQLITE_BLOB || size < head + 2 || memcmp(bytes, MAGIC, MAGIC_SIZE) != 0)
    return tsx_fail(error, TSR_MISMATCH, "not an NPY file: expected a BLOB that begins with \\x93NUMPY");
  if (bytes[MAGIC_SIZE] < 1 || bytes[MAGIC_SIZE] > 3)
    return tsx_fail(error, TSR_MISMATCH, "NPY format %u.%u is unknown", bytes[MAGIC_SIZE], bytes[MAGIC_SIZE + 1]);
  text_size = bytes[MAGIC_SIZE + 2] | (uint64_t)bytes[MAGIC_SIZE + 3] << 8;
  if (bytes[MAGIC_SIZE] > 1) {
    text_size |= (uint64_t)bytes[MAGIC_SIZE + 4] << 16 | (uint64_t)bytes[MAGIC_SIZE + 5] << 24;
    head += 2;
  }
  if (text_size > size - head) return tsx_fail(error, TSR_MISMATCH, "the NPY file ends within its header");
  char *text = sqlite3_mprintf("%.*s", (int)text_size, (const char *)bytes + head);
  if (!text) return tsx_out_of_memory(error);
  bool good = parse_dict(text, n);
  code = good ? TSR_OK : tsx_fail(error, TSR_MISMATCH, "cannot parse the header of the NPY file: %.100s", text);
  sqlite3_free(text);
  n->data = bytes + head + text_size;
  n->size = size - head - text_size;
  return code;
}

static int check_type(const npy *n, const tsr_field *field, const element *e, bool *swap, tsr_error *error) {
  char order = n->descr[0];
  const bool plain = order == '<' || order == '>' || order == '|' || order == '=';
  *swap = order == '>';
  if (!plain || strcmp(n->descr + 1, e->descr + 1) != 0)
    return tsx_fail(error, TSR_MISMATCH, "attribute '%s' is %s, which is '%s' in NPY; the block is '%s'", field->name,
                    tsr_datatype_name(field->datatype), e->descr, n->descr);
  return TSR_OK;
}

static int check_shape(const npy *n, const tsr_schema *schema, const tsr_field *field, const element *e,
                       uint64_t *shape, bool first, tsr_error *error) {
  const uint32_t dimensions = schema->dimension_count, axes = dimensions + (e->axis > 0);
  uint64_t bytes = field->cell_size;
  if (n->axes != axes || (e->axis && n->shape[dimensions] != e->axis))
    return tsx_fail(error, TSR_MISMATCH, "attribute '%s': the block has %u axes, expected %u%s", field->name, n->axes,
                    axes, e->axis ? ", the last with the values of a cell" : "");
  for (uint32_t d = 0; d < dimensions; d++) {
    if (!first && shape[d] != n->shape[d])
      return tsx_fail(error, TSR_MISMATCH, "attribute '%s': the blocks differ in shape", field->name);
    shape[d] = n->shape[d];
    if (shape[d] && bytes > UINT64_MAX / shape[d]) return tsx_fail(error, TSR_RANGE, "the block is too large");
    bytes *= shape[d];
  }
  if (bytes != n->size)
    return tsx_fail(error, TSR_MISMATCH,
                    "attribute '%s': the block has %llu bytes of values, but its shape requires %llu", field->name,
                    (unsigned long long)n->size, (unsigned long long)bytes);
  return TSR_OK;
}

static void swap_bytes(uint8_t *p, uint64_t size, uint64_t value_size) {
  for (; size >= value_size; size -= value_size, p += value_size)
    for (uint64_t i = 0; i < value_size / 2; i++) {
      uint8_t byte = p[i];
      p[i] = p[value_size - 1 - i];
      p[value_size - 1 - i] = byte;
    }
}

/* Copies elements from Fortran order, where the first axis varies fastest, to row-major order. */
static void transpose(const npy *n, uint64_t element_size, uint8_t *out) {
  uint64_t at[AXES_MAX] = {0}, stride[AXES_MAX], from = 0, step = element_size;
  for (uint32_t a = 0; a < n->axes; a++) {
    stride[a] = step;
    step *= n->shape[a];
  }
  for (uint64_t to = 0; to < n->size; to += element_size) {
    memcpy(out + to, n->data + from, element_size);
    for (uint32_t a = n->axes; a-- > 0;) {
      from += stride[a];
      if (++at[a] < n->shape[a]) break;
      from -= stride[a] * n->shape[a];
      at[a] = 0;
    }
  }
}

/* Converts the values to row-major order and little-endian bytes. If the file already has that form, *copy stays NULL;
 * otherwise it receives the converted values, from sqlite3_malloc. */
static int convert_values(const npy *n, const tsr_field *field, bool swap, uint8_t **copy, tsr_error *error) {
  const uint64_t size = tsr_datatype_size(field->datatype);
  const bool is_string = n->descr[1] == 'S' || n->descr[1] == 'V' || n->descr[1] == 'U'; /* then an element is a cell */
  *copy = NULL;
  if ((!n->fortran || n->axes < 2) && (!swap || size == 1)) return TSR_OK;
  if (!(*copy = sqlite3_malloc64(n->size + 1))) return tsx_out_of_memory(error);
  if (n->fortran && n->axes > 1) transpose(n, is_string ? field->cell_size : size, *copy);
  else memcpy(*copy, n->data, n->size);
  if (swap) swap_bytes(*copy, n->size, size);
  return TSR_OK;
}

/* ---- tessera_write_npy ------------------------------------------------------------------------------------------- */

int tsx_npy_vector(sqlite3_value *value, const tsr_field *field, const void **cells, uint64_t *count, uint8_t **copy,
                   tsr_error *error) {
  const tsr_schema line = {.dimension_count = 1};
  npy n;
  element e;
  bool swap;
  *copy = NULL;
  TSX_TRY(npy_describe(field, &e, error));
  TSX_TRY(parse_npy(value, &n, error));
  TSX_TRY(check_type(&n, field, &e, &swap, error));
  TSX_TRY(check_shape(&n, &line, field, &e, count, true, error));
  TSX_TRY(convert_values(&n, field, swap, copy, error));
  *cells = *copy ? *copy : n.data;
  return TSR_OK;
}

typedef struct blocks { /* the arguments of tessera_write_npy: one block for each attribute */
  const tsr_schema *schema;
  const char *array; /* the array as the user wrote it, for messages */
  tsr_column *columns; /* by field; values NULL: no block yet */
  uint8_t **copies; /* by field: converted values, owned, or NULL */
  uint64_t *shape; /* by dimension */
  tsr_interval *box; /* by dimension: where the blocks are written */
} blocks;

static int add_block(blocks *b, const char *name, sqlite3_value *value, bool first, tsr_error *error) {
  uint32_t f = 0;
  npy n;
  element e;
  bool swap;
  int code = tsx_attribute_find(b->schema, b->array, name, &f, error);
  if (code < 0) return code;
  const tsr_field *field = &b->schema->fields[f];
  if (b->columns[f].values) return tsx_fail(error, TSR_ERROR, "attribute '%s' is given twice", name);
  if ((code = npy_describe(field, &e, error)) < 0 || (code = parse_npy(value, &n, error)) < 0 ||
      (code = check_type(&n, field, &e, &swap, error)) < 0 ||
      (code = check_shape(&n, b->schema, field, &e, b->shape, first, error)) < 0 ||
      (code = convert_values(&n, field, swap, &b->copies[f], error)) < 0)
    return code;
  for (uint64_t i = 0; i < n.size && tsr_datatype_kind(field->datatype) == TSR_KIND_BOOLEAN; i++)
    if (n.data[i] > 1) return tsx_fail(error, TSR_RANGE, "attribute '%s': %u is outside BOOL: 0 to 1", name, n.data[i]);
  b->columns[f] = (tsr_column){.values = b->copies[f] ? b->copies[f] : n.data, .cell_size = field->cell_size};
  return TSR_OK;
}

/* Sets `high` to low + count - 1, after checking it against the domain. Dimensions of dense arrays are integers or
 * times of up to 64 bits. */
static int end_of(const tsr_field *field, const char *name, const uint8_t *low, uint64_t count, uint8_t *high,
                  tsr_error *error) {
  const uint64_t size = tsr_datatype_size(field->datatype), sign = UINT64_C(1) << (8 * size - 1);
  const bool is_unsigned = tsr_datatype_kind(field->datatype) == TSR_KIND_UNSIGNED;
  uint64_t from = 0, last = 0;
  memcpy(&from, low, size);
  memcpy(&last, field->high, size);
  if (!is_unsigned) from ^= sign, last ^= sign; /* maps signed values to unsigned ones with the same order */
  if (from > last || count - 1 > last - from)
    return tsx_fail(error, TSR_RANGE, "dimension '%s': %llu cells from the origin reach beyond the domain", name,
                    (unsigned long long)count);
  from += count - 1;
  if (!is_unsigned) from ^= sign;
  memcpy(high, &from, size);
  return TSR_OK;
}

static int npy_place(blocks *b, sqlite3 *db, sqlite3_value *origin, bool uint64_signed, tsr_error *error) {
  tsx_slice slice = {0};
  char **names = tsx_names_make(b->schema);
  int code = names ? tsx_slice_parse_as(db, origin, b->schema, TSX_ORIGIN, uint64_signed, &slice, error)
                   : tsx_out_of_memory(error);
  for (uint32_t d = 0; code == TSR_OK && d < b->schema->dimension_count; d++) {
    const tsr_field *field = &b->schema->fields[d];
    const tsx_bound *bound = &slice.bounds[d];
    memset(&b->box[d], 0, sizeof b->box[d]);
    memcpy(b->box[d].low, bound->low_given ? slice.box[d].low : field->low, sizeof field->low);
    if (bound->given && (!bound->low_given || memcmp(slice.box[d].low, slice.box[d].high, field->cell_size) != 0))
      code = tsx_fail(error, TSR_MISMATCH, "origin: dimension '%s': expected one value", names[d]);
    else code = end_of(field, names[d], b->box[d].low, b->shape[d], b->box[d].high, error);
  }
  tsx_names_free(names, b->schema);
  tsx_slice_release(&slice);
  return code;
}

static int commit_box(tsr_writer *writer, const blocks *b, tsr_error *error) {
  TSX_TRY(tsr_writer_append_box(writer, b->box, false, b->columns, error));
  TSX_TRY(tsr_writer_prepare(writer, error));
  return tsr_writer_publish(writer, error);
}

static int write_box(tsx_address *address, const blocks *b, tsr_error *error) {
  const tsr_writer_options options = {.memory_bytes = address->memory_bytes};
  tsr_writer *writer;
  TSX_TRY(tsr_writer_open(address->array->core, &options, &writer, error));
  const int code = commit_box(writer, b, error);
  if (code < 0) (void)tsr_writer_abandon(writer, NULL);
  tsr_writer_close(writer);
  return code;
}

static int write_blocks(tsx_address *address, blocks *b, int count, sqlite3_value **values, uint64_t *cells,
                        tsr_error *error) {
  const tsr_schema *schema = b->schema;
  const bool has_origin = count % 2 != 0;
  if (!schema->dense)
    return tsx_fail(error, TSR_ERROR, "array %s is sparse: only dense ones take blocks", address->path);
  for (int i = 0; i + 1 < count; i += 2)
    TSX_TRY(add_block(b, (const char *)sqlite3_value_text(values[i]), values[i + 1], i == 0, error));
  for (uint32_t f = schema->dimension_count; f < schema->dimension_count + schema->attribute_count; f++)
    if (!b->columns[f].values)
      return tsx_fail(
          error, TSR_ERROR,
          "attribute '%s' is missing: give a block for each attribute, as in (path, 'a', block, 'b', block)",
          schema->fields[f].name);
  *cells = 1;
  for (uint32_t d = 0; d < schema->dimension_count; d++) *cells *= b->shape[d];
  if (!*cells) return TSR_OK;
  TSX_TRY(npy_place(b, address->connection->db, has_origin ? values[count - 1] : NULL, address->uint64_signed, error));
  return write_box(address, b, error);
}

static int write_npy(tsx_address *address, int count, sqlite3_value **values, uint64_t *cells, tsr_error *error) {
  blocks b = {.array = address->given};
  int code = tsr_array_schema(address->array->core, TSR_TIME_NOW, &b.schema, error);
  if (code < 0) return code;
  const uint32_t dimensions = b.schema->dimension_count, fields = dimensions + b.schema->attribute_count;
  b.columns = sqlite3_malloc64(fields * sizeof *b.columns);
  b.copies = sqlite3_malloc64(fields * sizeof *b.copies);
  b.shape = sqlite3_malloc64(dimensions * sizeof *b.shape);
  b.box = sqlite3_malloc64(dimensions * sizeof *b.box);
  if (!b.columns || !b.copies || !b.shape || !b.box) code = tsx_out_of_memory(error);
  else {
    memset(b.columns, 0, fields * sizeof *b.columns);
    memset(b.copies, 0, fields * sizeof *b.copies);
    code = write_blocks(address, &b, count, values, cells, error);
    for (uint32_t f = 0; f < fields; f++) sqlite3_free(b.copies[f]);
  }
  sqlite3_free(b.columns);
  sqlite3_free(b.copies);
  sqlite3_free(b.shape);
  sqlite3_free(b.box);
  return code;
}

static int write_npy_at(tsx_connection *connection, int count, sqlite3_value **values, tsx_address *address,
                        uint64_t *cells, tsr_error *error) {
  if (count < 3) return tsx_fail(error, TSR_ERROR, "expected a path, an attribute and a block");
  TSX_TRY(tsx_arguments_check(count, values, 2, error));
  for (int i = 1; i + 1 < count; i += 2)
    if (sqlite3_value_type(values[i]) != SQLITE_TEXT)
      return tsx_fail(error, TSR_MISMATCH, "argument %d: expected the name of an attribute", i + 1);
  TSX_TRY(tsx_address_open_to_write(connection, values[0], address, error));
  TSX_TRY(tsx_function_begin_at(address, values[0], error));
  TSX_TRY(tsx_address_array(address, error));
  return write_npy(address, count - 1, values + 1, cells, error);
}

/* tessera_write_npy(path, attribute, npy[, attribute, npy ...][, origin]): returns the number of cells written. */
void tsx_write_npy(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_error error = {0};
  tsx_address address = {0};
  uint64_t cells = 0;
  tsx_connection_add_table(connection); /* cancellation works only while a table is counted */
  const int code = write_npy_at(connection, count, values, &address, &cells, &error);
  tsx_address_close(&address);
  if (code >= 0) sqlite3_result_int64(context, (sqlite3_int64)cells);
  tsx_function_end(context, "tessera_write_npy", code, &error);
  tsx_connection_remove_table(connection);
}
