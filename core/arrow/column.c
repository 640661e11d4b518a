/* column.c: collects the values of one column of a batch in Arrow's layout.
 *
 * Cells are copied once, from decoded tiles into the buffers that the consumer gets, by a loop for each size and
 * conversion. The buffers of a batch are given away with it: an array's release function frees them, on any thread,
 * even after its siblings have been moved elsewhere.
 *
 * Sections: values of one size; wider numbers; strings and large lists; nulls; appending; arrays.
 */
#include "arrow/arrow.h"

#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "model/datatype.h"

#define ARROW_LEAST_ROWS 1024u /* least number of rows for which memory is reserved */

void tsr__arrow_column_begin(const tsr_arrow_type *type, tsr_arrow_column *column) {
  *column = (tsr_arrow_column){.type = type};
  column->values.memory = column->offsets.memory = column->validity.memory = tsr__memory_process();
}

void tsr__arrow_column_drop(tsr_arrow_column *column) {
  tsr__buffer_release(&column->values);
  tsr__buffer_release(&column->offsets);
  tsr__buffer_release(&column->validity);
}

/* Returns true if the column has offsets. */
static bool arrow_has_offsets(const tsr_arrow_type *type) {
  return type->list == TSR_ARROW_LARGE_LIST || (!type->list && type->form >= TSR_ARROW_BYTES);
}

/* Returns the number of values in a row; 0 if it varies. */
static uint64_t arrow_values_in_row(const tsr_arrow_type *type) {
  return arrow_has_offsets(type) ? 0 : type->list ? type->values_per_cell : 1;
}

static uint64_t arrow_bits_size(uint64_t bits) { return bits / 8 + (bits % 8 > 0); }

int tsr__arrow_column_reserve(tsr_arrow_column *column, uint64_t rows, tsr_error *error) {
  const tsr_arrow_type *type = column->type;
  if (rows <= column->room) return TSR_OK;
  rows = TSR_MAX(rows, ARROW_LEAST_ROWS);
  if (arrow_has_offsets(type)) {
    TSR_TRY(tsr__buffer_reserve(&column->offsets, (rows + 1 - column->rows) * (type->narrow ? 4 : 8), error));
    if (column->rows == 0) {
      memset(column->offsets.data, 0, 8);
      column->offsets.size = type->narrow ? 4 : 8;
    }
  } else {
    const uint64_t values = tsr__mul_sat(rows, arrow_values_in_row(type));
    const uint64_t bytes = type->form == TSR_ARROW_BITS ? arrow_bits_size(values) : tsr__mul_sat(values, type->width);
    TSR_TRY(tsr__buffer_reserve(&column->values, bytes - TSR_MIN(bytes, column->values.size), error));
  }
  column->room = rows;
  return TSR_OK;
}

static inline uint64_t arrow_index(const tsr_column *cells, const tsr_arrow_rows *rows, uint64_t r) {
  return cells->constant ? 0 : rows->selection ? rows->selection[r] : rows->first + r;
}

static inline bool arrow_is_null(const tsr_column *cells, const tsr_arrow_rows *rows, uint64_t index) {
  return rows->null || (cells->validity && !cells->validity[index]);
}

/* ---- Values of one size ------------------------------------------------------------------------------------------ */

#define ARROW_GATHER(type)                                                                                             \
  do {                                                                                                                 \
    const uint8_t *const from = cells->values;                                                                         \
    type *const to = (type *)(void *)out;                                                                              \
    type value;                                                                                                        \
    if (cells->constant) {                                                                                             \
      memcpy(&value, from, sizeof value);                                                                              \
      for (uint64_t r = 0; r < rows->count; r++) to[r] = value;                                                        \
      break;                                                                                                           \
    }                                                                                                                  \
    for (uint64_t r = 0; r < rows->count; r++) {                                                                       \
      memcpy(&value, from + rows->selection[r] * sizeof value, sizeof value);                                          \
      to[r] = value;                                                                                                   \
    }                                                                                                                  \
  } while (0)

/* Copies cells of `size` bytes without changing them. */
static void arrow_copy(const tsr_column *cells, const tsr_arrow_rows *rows, uint64_t size, uint8_t *out) {
  if (!cells->constant && !rows->selection) {
    memcpy(out, (const uint8_t *)cells->values + rows->first * size, rows->count * size);
    return;
  }
  switch (size) {
  case 1: ARROW_GATHER(uint8_t); break;
  case 2: ARROW_GATHER(uint16_t); break;
  case 4: ARROW_GATHER(uint32_t); break;
  case 8: ARROW_GATHER(uint64_t); break;
  default:
    for (uint64_t r = 0; r < rows->count; r++)
      memcpy(out + r * size, (const uint8_t *)cells->values + arrow_index(cells, rows, r) * size, size);
  }
}

static void arrow_bits(tsr_arrow_column *column, const tsr_column *cells, const tsr_arrow_rows *rows) {
  const uint64_t each = arrow_values_in_row(column->type);
  uint64_t bit = column->rows * each;
  memset(column->values.data + column->values.size, 0, arrow_bits_size(bit + rows->count * each) - column->values.size);
  for (uint64_t r = 0; r < rows->count && !rows->null; r++) {
    const uint8_t *cell = (const uint8_t *)cells->values + arrow_index(cells, rows, r) * each;
    for (uint64_t i = 0; i < each; i++, bit++) column->values.data[bit / 8] |= (uint8_t)((cell[i] != 0) << bit % 8);
  }
  column->values.size = arrow_bits_size((column->rows + rows->count) * each);
}

/* Converts one datetime or time. Returns false if its Arrow type cannot represent it. */
static bool arrow_convert(const tsr_arrow_type *type, int64_t value, uint8_t *out) {
  int64_t wide = 0;
  int32_t narrow = 0;
  bool fits = true;
  switch (type->form) {
  case TSR_ARROW_DAYS: fits = tsr__datetime_day(type->datatype, value, &narrow); break;
  case TSR_ARROW_SCALED: fits = !__builtin_mul_overflow(value, type->factor, &wide); break;
  case TSR_ARROW_CLOCK32:
    fits = value >= 0 && value < type->day;
    narrow = fits ? (int32_t)(value * type->factor) : 0;
    break;
  default: fits = value >= 0 && value < type->day; wide = value;
  }
  memcpy(out, type->width == 4 ? (void *)&narrow : (void *)&wide, type->width);
  return fits;
}

static int arrow_datetimes(tsr_arrow_column *column, const tsr_column *cells, const tsr_arrow_rows *rows, uint8_t *out,
                           tsr_error *error) {
  const tsr_arrow_type *type = column->type;
  for (uint64_t r = 0; r < rows->count; r++, out += type->width) {
    const uint64_t i = arrow_index(cells, rows, r);
    int64_t value;
    memcpy(&value, (const uint8_t *)cells->values + i * sizeof value, sizeof value);
    const bool null = value == INT64_MIN || arrow_is_null(cells, rows, i);
    if (null) memset(out, 0, type->width);
    else if (!arrow_convert(type, value, out))
      return tsr__fail(error, TSR_RANGE,
                       type->day ? "'%s': %lld of %s is not a time of day: take durations (datetimes: duration)"
                                 : "'%s': %lld of %s is past the ends of its Arrow type: take integers "
                                   "(datetimes: integer)",
                       type->name, (long long)value, tsr_datatype_name(type->datatype));
  }
  return TSR_OK;
}

/* ---- Wider numbers ----------------------------------------------------------------------------------------------- */

#define ARROW_LANES 1024u /* values widened at a time */

#define ARROW_LOAD(type)                                                                                               \
  for (uint64_t r = 0; r < count; r++) {                                                                               \
    type value;                                                                                                        \
    memcpy(&value, from + arrow_index(cells, rows, first + r) * sizeof value, sizeof value);                           \
    lanes[r] = (int64_t)value;                                                                                         \
    reals[r] = (double)value;                                                                                          \
  }

/* Loads numbers both as integers and as reals. 64-bit integers are never widened. */
static void arrow_load(tsr_datatype datatype, const tsr_column *cells, const tsr_arrow_rows *rows, uint64_t first,
                       uint64_t count, int64_t *lanes, double *reals) {
  const uint8_t *const from = cells->values;
  switch (datatype) {
  case TSR_INT8: ARROW_LOAD(int8_t) break;
  case TSR_UINT8: ARROW_LOAD(uint8_t) break;
  case TSR_INT16: ARROW_LOAD(int16_t) break;
  case TSR_UINT16: ARROW_LOAD(uint16_t) break;
  case TSR_INT32: ARROW_LOAD(int32_t) break;
  case TSR_UINT32: ARROW_LOAD(uint32_t) break;
  default:
    for (uint64_t r = 0; r < count; r++) {
      float value;
      memcpy(&value, from + arrow_index(cells, rows, first + r) * sizeof value, sizeof value);
      reals[r] = value;
    }
  }
}

#define ARROW_STORE(type, lane)                                                                                        \
  for (uint64_t r = 0; r < count; r++) {                                                                               \
    const type value = (type)lane[r];                                                                                  \
    memcpy(out + r * sizeof value, &value, sizeof value);                                                              \
  }

static void arrow_store(const tsr_arrow_type *type, const int64_t *lanes, const double *reals, uint64_t count,
                        uint8_t *out) {
  if (type->format[0] == 'g') {
    ARROW_STORE(double, reals)
  } else if (type->format[0] == 'f') {
    ARROW_STORE(float, reals)
  } else if (type->width == 2) {
    ARROW_STORE(int16_t, lanes)
  } else if (type->width == 4) {
    ARROW_STORE(int32_t, lanes)
  } else {
    ARROW_STORE(int64_t, lanes)
  }
}

static void arrow_widen(const tsr_arrow_type *type, const tsr_column *cells, const tsr_arrow_rows *rows, uint8_t *out) {
  int64_t lanes[ARROW_LANES] = {0};
  double reals[ARROW_LANES];
  for (uint64_t first = 0; first < rows->count; first += ARROW_LANES) {
    const uint64_t count = TSR_MIN(rows->count - first, ARROW_LANES);
    arrow_load(type->datatype, cells, rows, first, count, lanes, reals);
    arrow_store(type, lanes, reals, count, out + first * type->width);
  }
}

static int arrow_fixed(tsr_arrow_column *column, const tsr_column *cells, const tsr_arrow_rows *rows,
                       tsr_error *error) {
  const tsr_arrow_type *type = column->type;
  if (type->form == TSR_ARROW_NULLS) return TSR_OK;
  if (type->form == TSR_ARROW_BITS) {
    arrow_bits(column, cells, rows);
    return TSR_OK;
  }
  const uint64_t size = type->width * arrow_values_in_row(type);
  uint8_t *out = column->values.data + column->values.size;
  if (rows->null) memset(out, 0, rows->count * size);
  else if (type->form == TSR_ARROW_COPY) arrow_copy(cells, rows, size, out);
  else if (type->form == TSR_ARROW_WIDEN) arrow_widen(type, cells, rows, out);
  else TSR_TRY(arrow_datetimes(column, cells, rows, out, error));
  column->values.size += rows->count * size;
  return TSR_OK;
}

/* ---- Strings and large lists ------------------------------------------------------------------------------------- */

/* Appends the bytes of one cell. */
static int arrow_append_bytes(tsr_arrow_column *column, const uint8_t *bytes, uint64_t size, tsr_error *error) {
  const tsr_arrow_type *type = column->type;
  if (size == 0) return TSR_OK; /* the buffer may still be NULL */
  if (type->form == TSR_ARROW_TEXT && !tsr__is_utf8(bytes, size))
    return tsr__fail(error, TSR_MISMATCH, "'%s' has text that is not UTF-8: take strings as binary", type->name);
  if (type->form == TSR_ARROW_WIDE_TEXT) {
    const uint64_t most = size / tsr_datatype_size(type->datatype) * 4 + 4;
    TSR_TRY(tsr__buffer_reserve(&column->values, most, error));
    column->values.size += tsr_text_to_utf8(type->datatype, bytes, size, column->values.data + column->values.size);
    return TSR_OK;
  }
  if (type->form == TSR_ARROW_BITS) { /* a list of BOOL: its bits begin where those of the previous list end */
    const uint64_t bytes_after = arrow_bits_size(column->items + size), more = bytes_after - column->values.size;
    TSR_TRY(tsr__buffer_reserve(&column->values, more, error));
    memset(column->values.data + column->values.size, 0, more);
    for (uint64_t i = 0, bit = column->items; i < size; i++, bit++)
      column->values.data[bit / 8] |= (uint8_t)((bytes[i] != 0) << bit % 8);
    column->values.size = bytes_after;
    return TSR_OK;
  }
  return tsr__buffer_append(&column->values, bytes, size, error);
}

static int arrow_put_offset(tsr_arrow_column *column, uint64_t end, tsr_error *error) {
  if (!column->type->narrow) return tsr__buffer_append_u64(&column->offsets, end, error);
  if (end <= INT32_MAX) return tsr__buffer_append_u32(&column->offsets, (uint32_t)end, error);
  return tsr__fail(error, TSR_TOOBIG, "'%s': the strings of a batch take more than 2 GiB: take large strings",
                   column->type->name);
}

static int arrow_variable(tsr_arrow_column *column, const tsr_column *cells, const tsr_arrow_rows *rows,
                          tsr_error *error) {
  const tsr_arrow_type *type = column->type;
  const uint64_t item = type->form == TSR_ARROW_BITS ? 1 : type->width;
  for (uint64_t r = 0; r < rows->count; r++) {
    const uint64_t i = arrow_index(cells, rows, r);
    if (!arrow_is_null(cells, rows, i)) {
      const uint64_t at = cells->offsets ? cells->offsets[i] : i * cells->cell_size;
      const uint64_t size = cells->offsets ? cells->offsets[i + 1] - at : cells->cell_size;
      TSR_TRY(arrow_append_bytes(column, (const uint8_t *)cells->values + at, size, error));
      if (type->list) column->items += size / item;
    }
    TSR_TRY(arrow_put_offset(column, type->list ? column->items : column->values.size, error));
  }
  return TSR_OK;
}

/* ---- Nulls ------------------------------------------------------------------------------------------------------- */

/* Creates the validity bits of all rows so far, none of which is null. */
static int arrow_validity_begin(tsr_arrow_column *column, tsr_error *error) {
  const uint64_t size = arrow_bits_size(column->rows);
  TSR_TRY(tsr__buffer_reserve(&column->validity, arrow_bits_size(TSR_MAX(column->room, column->rows)), error));
  if (size > 0) memset(column->validity.data, 0xFF, size);
  if (column->rows % 8) column->validity.data[size - 1] = (uint8_t)((1u << column->rows % 8) - 1);
  column->validity.size = size;
  return TSR_OK;
}

/* Returns true if cells of this type can be null although they have a value: NaT. */
static bool arrow_may_be_nat(const tsr_arrow_type *type) {
  const tsr_kind kind = tsr_datatype_kind(type->datatype);
  return !type->list && !type->integer_datetimes && (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME);
}

static bool arrow_row_is_null(const tsr_arrow_type *type, bool nat, const tsr_column *cells, const tsr_arrow_rows *rows,
                              uint64_t r) {
  const uint64_t i = arrow_index(cells, rows, r);
  if (arrow_is_null(cells, rows, i)) return true;
  const uint8_t *cell = (const uint8_t *)cells->values + i * cells->cell_size;
  if (nat) {
    int64_t value;
    memcpy(&value, cell, sizeof value);
    return value == INT64_MIN;
  }
  if (!type->labels || type->decoded) return false;
  uint64_t code = 0; /* a negative code is above the count, too */
  memcpy(&code, cell, cells->cell_size);
  return code >= type->labels->count;
}

/* Appends the validity bits of rows whose values have been appended. */
static int arrow_append_validity(tsr_arrow_column *column, const tsr_column *cells, const tsr_arrow_rows *rows,
                                 tsr_error *error) {
  if (column->type->form == TSR_ARROW_NULLS) return TSR_OK; /* such an array has no buffers */
  const bool nat = arrow_may_be_nat(column->type), codes = column->type->labels && !column->type->decoded;
  if (!rows->null && !cells->validity && !nat && !codes && column->validity.size == 0) return TSR_OK;
  const uint64_t size = arrow_bits_size(column->rows + rows->count);
  if (column->validity.size == 0) TSR_TRY(arrow_validity_begin(column, error));
  TSR_TRY(tsr__buffer_reserve(&column->validity, size - column->validity.size, error));
  memset(column->validity.data + column->validity.size, 0, size - column->validity.size);
  column->validity.size = size;
  for (uint64_t r = 0, bit = column->rows; r < rows->count; r++, bit++) {
    const bool null = arrow_row_is_null(column->type, nat, cells, rows, r);
    column->nulls += null;
    column->validity.data[bit / 8] |= (uint8_t)(!null << bit % 8);
  }
  return TSR_OK;
}

/* ---- Appending --------------------------------------------------------------------------------------------------- */

static int arrow_append(tsr_arrow_column *column, const tsr_column *cells, const tsr_arrow_rows *rows,
                        tsr_error *error) {
  TSR_TRY(tsr__arrow_column_reserve(column, column->rows + rows->count, error));
  if (rows->count == 0) return TSR_OK; /* the buffer may be NULL */
  if (arrow_has_offsets(column->type)) TSR_TRY(arrow_variable(column, cells, rows, error));
  else TSR_TRY(arrow_fixed(column, cells, rows, error));
  TSR_TRY(arrow_append_validity(column, cells, rows, error));
  column->rows += rows->count;
  return TSR_OK;
}

int tsr__arrow_column_extend(tsr_arrow_column *column, uint64_t rows, uint8_t **values, tsr_error *error) {
  TSR_TRY(tsr__arrow_column_reserve(column, column->rows + rows, error));
  *values = column->values.data + column->values.size;
  column->values.size += rows * column->type->width;
  column->rows += rows;
  return TSR_OK;
}

/* Returns the labels of an enumeration as a column. */
static tsr_column arrow_labels(const tsr_enumeration *labels) {
  const bool text = labels->values_per_label == TSR_VARIABLE;
  return (tsr_column){.values = labels->data,
                      .offsets = text ? labels->offsets : NULL,
                      .cell_size = text ? 0 : labels->values_per_label * tsr_datatype_size(labels->datatype)};
}

#define ARROW_FOUND 1024u /* values that are looked up and appended at a time */

typedef struct arrow_found { /* cells that are appended in the place of others; runs of rows without one as nulls */
  tsr_arrow_column *column;
  tsr_column cells;
  tsr_arrow_rows part;
  uint32_t selection[ARROW_FOUND];
} arrow_found;

static int arrow_found_flush(arrow_found *f, tsr_error *error) {
  if (f->part.count == 0) return TSR_OK;
  f->part.selection = f->selection;
  const int rc = arrow_append(f->column, &f->cells, &f->part, error);
  f->part.count = 0;
  return rc;
}

/* Adds a row that has this cell; past UINT32_MAX: it has none. */
static int arrow_found_add(arrow_found *f, uint64_t cell, tsr_error *error) {
  const bool null = cell > UINT32_MAX;
  if (f->part.count == ARROW_FOUND || (f->part.count > 0 && null != f->part.null)) TSR_TRY(arrow_found_flush(f, error));
  f->part.null = null;
  f->selection[f->part.count++] = null ? 0 : (uint32_t)cell;
  return TSR_OK;
}

/* Appends the labels of codes. */
static int arrow_append_labels(tsr_arrow_column *column, const tsr_column *codes, const tsr_arrow_rows *rows,
                               tsr_error *error) {
  const tsr_enumeration *labels = column->type->labels;
  arrow_found found = {.column = column, .cells = arrow_labels(labels)};
  for (uint64_t r = 0; r < rows->count; r++) {
    const uint64_t i = arrow_index(codes, rows, r);
    uint64_t code = UINT64_MAX;
    if (!arrow_is_null(codes, rows, i)) {
      code = 0;
      memcpy(&code, (const uint8_t *)codes->values + i * codes->cell_size, codes->cell_size);
    }
    TSR_TRY(arrow_found_add(&found, code < labels->count ? code : UINT64_MAX, error));
  }
  return arrow_found_flush(&found, error);
}

int tsr__arrow_column_append_label(tsr_arrow_column *column, const tsr_arrow_label *label,
                                   const tsr_column *coordinates, const tsr_arrow_rows *rows, tsr_error *error) {
  arrow_found found = {.column = column, .cells = *label->cells};
  for (uint64_t r = 0; r < rows->count; r++) {
    const uint64_t i = arrow_index(coordinates, rows, r);
    const uint8_t *at = (const uint8_t *)coordinates->values + i * coordinates->cell_size;
    uint64_t cell;
    TSR_TRY(arrow_found_add(&found, label->find(label->argument, at, &cell) ? cell : UINT64_MAX, error));
  }
  return arrow_found_flush(&found, error);
}

int tsr__arrow_column_append(tsr_arrow_column *column, const tsr_column *cells, const tsr_arrow_rows *rows,
                             tsr_error *error) {
  return column->type->decoded ? arrow_append_labels(column, cells, rows, error)
                               : arrow_append(column, cells, rows, error);
}

/* ---- Arrays ------------------------------------------------------------------------------------------------------ */

#define ARROW_BUFFERS_MAX 4 /* buffers of an array: views have the most */

typedef struct arrow_owned { /* private_data of an array */
  const void *buffers[ARROW_BUFFERS_MAX];
} arrow_owned;

static void arrow_array_release(struct ArrowArray *array) {
  for (int64_t i = 0; i < array->n_children; i++)
    if (array->children[i] && array->children[i]->release) array->children[i]->release(array->children[i]);
  if (array->dictionary && array->dictionary->release) array->dictionary->release(array->dictionary);
  for (int64_t i = 0; i < array->n_children; i++) tsr__free(array->children[i]);
  tsr__free(array->children);
  tsr__free(array->dictionary);
  arrow_owned *owned = array->private_data;
  for (int i = 0; owned && i < ARROW_BUFFERS_MAX; i++) tsr__free((void *)owned->buffers[i]);
  tsr__free(owned);
  array->release = NULL;
}

static int arrow_array_begin(uint64_t rows, uint64_t nulls, int64_t buffers, uint32_t children,
                             struct ArrowArray *array, tsr_error *error) {
  tsr_memory *memory = tsr__memory_process();
  arrow_owned *owned;
  *array = (struct ArrowArray){.length = (int64_t)rows, .null_count = (int64_t)nulls, .n_buffers = buffers};
  array->release = arrow_array_release;
  TSR_TRY(TSR_ALLOC(memory, &owned, error));
  array->private_data = owned;
  array->buffers = owned->buffers;
  if (children == 0) return TSR_OK;
  TSR_TRY(TSR_ALLOC_ARRAY(memory, children, &array->children, error));
  array->n_children = children;
  for (uint32_t i = 0; i < children; i++) TSR_TRY(TSR_ALLOC(memory, &array->children[i], error));
  return TSR_OK;
}

/* Gives a buffer to an array. An empty buffer gets some bytes, since some readers do not accept NULL. */
static int arrow_give(tsr_buffer *buffer, struct ArrowArray *array, int number, tsr_error *error) {
  arrow_owned *owned = array->private_data;
  TSR_TRY(tsr__buffer_reserve(buffer, buffer->size == 0 ? 8 : 0, error));
  if (buffer->size == 0) memset(buffer->data, 0, 8);
  owned->buffers[number] = buffer->data;
  *buffer = (tsr_buffer){.memory = buffer->memory};
  return TSR_OK;
}

static int arrow_dictionary(const tsr_enumeration *labels, const tsr_arrow_options *options, struct ArrowArray *array,
                            tsr_error *error) {
  tsr_arrow_type type;
  tsr_arrow_column column;
  TSR_TRY(TSR_ALLOC(tsr__memory_process(), &array->dictionary, error));
  tsr__arrow_type_labels(labels, options, &type);
  tsr__arrow_column_begin(&type, &column);
  const tsr_column cells = arrow_labels(labels);
  const tsr_arrow_rows rows = {.count = labels->count};
  int rc = tsr__arrow_column_append(&column, &cells, &rows, error);
  if (rc >= 0) rc = tsr__arrow_column_finish(&column, options, array->dictionary, error);
  tsr__arrow_column_drop(&column);
  return rc;
}

/* Gives the values of a list to its child. */
static int arrow_finish_items(tsr_arrow_column *column, struct ArrowArray *array, tsr_error *error) {
  const tsr_arrow_type *type = column->type;
  const uint64_t items = type->list == TSR_ARROW_LARGE_LIST ? column->items : column->rows * type->values_per_cell;
  TSR_TRY(arrow_array_begin(items, 0, 2, 0, array->children[0], error));
  if (type->list == TSR_ARROW_LARGE_LIST) TSR_TRY(arrow_give(&column->offsets, array, 1, error));
  return arrow_give(&column->values, array->children[0], 1, error);
}

#define ARROW_VIEW_SIZE  16
#define ARROW_VIEW_SHORT 12 /* longest string, in bytes, that is stored in its view */

/* Writes the view of a string that begins at `offset` in the bytes of all strings. */
static void arrow_put_view(uint8_t *view, const uint8_t *bytes, int32_t offset, int32_t size) {
  memset(view, 0, ARROW_VIEW_SIZE);
  memcpy(view, &size, sizeof size);
  if (size <= ARROW_VIEW_SHORT) {
    memcpy(view + 4, bytes, (size_t)size);
    return;
  }
  memcpy(view + 4, bytes, 4); /* the buffer number that follows is 0 */
  memcpy(view + 12, &offset, sizeof offset);
}

/* Makes views of the strings, whose bytes are all in one buffer. */
static int arrow_finish_views(tsr_arrow_column *column, struct ArrowArray *array, tsr_error *error) {
  const int32_t *ends = (const int32_t *)(const void *)column->offsets.data;
  const int64_t size = (int64_t)column->values.size;
  tsr_buffer views = {.memory = column->values.memory}, sizes = views;
  int rc = tsr__buffer_reserve(&views, column->rows * ARROW_VIEW_SIZE, error);
  if (rc >= 0) rc = tsr__buffer_append(&sizes, &size, sizeof size, error);
  for (uint64_t i = 0; rc >= 0 && i < column->rows; i++) {
    const uint8_t *bytes = ends[i + 1] > ends[i] ? column->values.data + ends[i] : (const uint8_t *)"";
    arrow_put_view(views.data + i * ARROW_VIEW_SIZE, bytes, ends[i], ends[i + 1] - ends[i]);
  }
  views.size = rc >= 0 ? column->rows * ARROW_VIEW_SIZE : 0;
  if (rc >= 0) rc = arrow_give(&views, array, 1, error);
  if (rc >= 0) rc = arrow_give(&column->values, array, 2, error);
  if (rc >= 0) rc = arrow_give(&sizes, array, 3, error);
  tsr__buffer_release(&views);
  tsr__buffer_release(&sizes);
  return rc;
}

static int arrow_finish(tsr_arrow_column *column, const tsr_arrow_options *options, struct ArrowArray *array,
                        tsr_error *error) {
  const tsr_arrow_type *type = column->type;
  if (type->form == TSR_ARROW_NULLS) return arrow_array_begin(column->rows, column->rows, 0, 0, array, error);
  const bool strings = !type->list && type->form >= TSR_ARROW_BYTES;
  const int64_t buffers = type->list == TSR_ARROW_FIXED_LIST ? 1 : strings ? 3 + type->views : 2;
  TSR_TRY(arrow_array_begin(column->rows, column->nulls, buffers, type->list ? 1 : 0, array, error));
  if (column->nulls > 0) TSR_TRY(arrow_give(&column->validity, array, 0, error));
  if (type->list) return arrow_finish_items(column, array, error);
  if (type->views) return arrow_finish_views(column, array, error);
  if (strings) TSR_TRY(arrow_give(&column->offsets, array, 1, error));
  TSR_TRY(arrow_give(&column->values, array, strings ? 2 : 1, error));
  return type->labels && !type->decoded ? arrow_dictionary(type->labels, options, array, error) : TSR_OK;
}

int tsr__arrow_column_finish(tsr_arrow_column *column, const tsr_arrow_options *options, struct ArrowArray *out,
                             tsr_error *error) {
  TSR_TRY(tsr__arrow_column_reserve(column, 1, error)); /* a column without rows has an offset, too: 0 */
  struct ArrowArray array;
  const int rc = arrow_finish(column, options, &array, error);
  if (rc >= 0) *out = array;
  else arrow_array_release(&array);
  return rc;
}

int tsr__arrow_struct_make(struct ArrowArray *children, uint32_t count, uint64_t rows, struct ArrowArray *out,
                           tsr_error *error) {
  struct ArrowArray array;
  const int rc = arrow_array_begin(rows, 0, 1, count, &array, error);
  for (uint32_t i = 0; i < count; i++) {
    if (rc >= 0) *array.children[i] = children[i];
    else if (children[i].release) children[i].release(&children[i]);
  }
  if (rc >= 0) *out = array;
  else arrow_array_release(&array);
  return rc;
}
