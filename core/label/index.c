/* index.c: the values of a dimension label in memory, and searches in them.
 *
 * A dimension label gives each coordinate of a dimension a value: a latitude, a date, a name. The values of a declared
 * label are the only attribute of a dense array with one dimension, in __labels below the labelled array. They strictly
 * increase or decrease along the dimension, so a range of values is one interval of coordinates, found by binary
 * search. Any attribute of any other array with one dimension can be a label, too: its values are in any order, so they
 * are sorted when they are first searched, and a range of them is a set of intervals.
 *
 * The index holds the values from the first to the last written one; a value that was never written, or that is NaN,
 * NaT or null, has no order and can be found only by its coordinate. If the coordinates have gaps, as those of a sparse
 * array may, the index holds them, too. It loads all values at once, with one exception:
 * before that, the first few searches among many numbers read only the tiles in which an interval begins and ends. The
 * reader finds these tiles by their minimum and maximum, and the statistics of the tiles in between show that all of
 * their values belong to the interval, so this does not rely on the order of the values. The nearest value is found in
 * the same way, in the tiles of its two neighbours.
 *
 * The sections: opening, reading the values, searching loaded values, searching without loading, the nearest value,
 * checks of new values.
 */
#include "label/label.h"

#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "base/sort.h"
#include "model/datatype.h"
#include "model/domain.h"
#include "array/array.h"
#include "environment/environment.h"

struct tsr_label_index {
  tsr_array *values; /* the label's array */
  bool owned; /* closing the index closes the array */
  const tsr_schema *schema; /* of it */
  char *name; /* of the label */
  uint32_t at[2]; /* numbers of the next two fields in the schema */
  const tsr_field *dimension, *field; /* of the label's array: the fields with the coordinates and with the values */
  tsr_field declared_field; /* *field, with what the labelled array says of its label */
  tsr_datatype datatype; /* of the labelled dimension */
  /* the label's array declares the order of its values; otherwise the order is detected when they are searched */
  bool declared;
  bool sorted; /* `order` and `ordered` are those of the loaded values */
  unsigned order; /* of the values: 1 increasing, 2 decreasing, 0 neither: `ordered` is then sorted by value */
  tsr_memory memory; /* pays for what follows */
  tsr_snapshot *snapshot; /* the snapshot that the index shows; NULL: none yet */
  bool loaded; /* the values below are those of the snapshot */
  unsigned searches; /* searches in this snapshot before the values were loaded */
  uint64_t first; /* coordinate of the first value, sign-extended to 64 bits */
  uint64_t count; /* values, in `cells` */
  tsr_column cells;
  tsr_buffer bytes, offsets, validity; /* what `cells` points to */
  tsr_buffer coordinates; /* uint64_t: the values' coordinates, ascending; empty if they have no gaps */
  uint64_t *ordered; /* indices of the values that can be ordered, ascending unless `order` is 0 */
  uint64_t ordered_count;
};

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

/* Fails unless a field can hold the values of a label. */
static int check_label_values(const tsr_field *field, tsr_error *error) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  const bool text = kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES;
  if (field->values_per_cell == (text ? TSR_VARIABLE : 1)) return TSR_OK;
  return tsr__fail(error, TSR_CORRUPT, "its array has values of %s with %u values in a cell",
                   tsr_datatype_name(field->datatype), field->values_per_cell);
}

/* Fails unless the array can hold the values of a declared label for a dimension. */
static int check_label_array(const tsr_field *of, const tsr_schema *schema, tsr_error *error) {
  const tsr_field *dimension = schema->fields, *field = schema->fields + schema->dimension_count;
  if (!schema->dense || schema->dimension_count != 1 || schema->attribute_count != 1)
    return tsr__fail(error, TSR_CORRUPT, "its array is not dense with one dimension and one attribute");
  if (dimension->datatype != of->datatype)
    return tsr__fail(error, TSR_CORRUPT, "its array has a dimension of %s, '%s' is of %s",
                     tsr_datatype_name(dimension->datatype), of->name, tsr_datatype_name(of->datatype));
  return check_label_values(field, error);
}

static void take_label_schema(tsr_label_index *index, const tsr_schema *own, uint32_t coordinate, uint32_t value) {
  index->schema = own;
  index->at[0] = coordinate;
  index->at[1] = value;
  index->dimension = own->fields + coordinate;
  index->field = own->fields + value;
  index->datatype = index->dimension->datatype;
  index->order = index->field->data_order;
  index->declared = index->order != 0;
}

static int open_label_array(tsr_label_index *index, const tsr_array *array, const tsr_schema *schema,
                            const tsr_label *label, tsr_error *error) {
  const tsr_schema *own;
  if (!label->relative) return tsr__fail(error, TSR_UNSUPPORTED, "its array is outside of this one, in %s", label->uri);
  TSR_TRY(tsr__array_open_below(array, label->uri, &index->values, error));
  index->owned = true;
  TSR_TRY(tsr_array_schema(index->values, TSR_TIME_NOW, &own, error));
  TSR_TRY(check_label_array(&schema->fields[label->dimension], own, error));
  take_label_schema(index, own, 0, 1);
  if (index->field->datatype != label->datatype)
    return tsr__fail(error, TSR_CORRUPT, "its array has values of %s, not of %s",
                     tsr_datatype_name(index->field->datatype), tsr_datatype_name(label->datatype));
  if (!index->declared) return tsr__fail(error, TSR_UNSUPPORTED, "its values have no order");
  index->declared_field = *index->field;
  index->declared_field.duration = label->duration;
  index->field = &index->declared_field;
  return TSR_OK;
}

/* Makes an index without an array. */
static int make_label_index(tsr_environment *environment, const char *name, uint64_t memory_bytes,
                            tsr_label_index **out, tsr_error *error) {
  tsr_label_index *index;
  TSR_TRY(TSR_ALLOC(&environment->memory, &index, error));
  tsr__memory_init(&index->memory, &environment->memory, memory_bytes ? memory_bytes : UINT64_MAX, "memory_mb");
  index->bytes.memory = index->offsets.memory = index->validity.memory = index->coordinates.memory = &index->memory;
  const int rc = TSR_ALLOC_RAW(&environment->memory, strlen(name) + 1, &index->name, error);
  if (rc < 0) {
    tsr_label_close(index);
    return rc;
  }
  memcpy(index->name, name, strlen(name) + 1);
  *out = index;
  return TSR_OK;
}

int tsr_label_open(tsr_array *array, const tsr_schema *schema, uint32_t label, uint64_t memory_bytes,
                   tsr_label_index **out, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (label >= schema->label_count) return tsr__fail(error, TSR_ERROR, "the schema has no label %u", label);
  const tsr_label *described = &schema->labels[label];
  tsr_label_index *index;
  TSR_TRY(make_label_index(array->environment, described->name, memory_bytes, &index, error));
  const int rc = open_label_array(index, array, schema, described, error);
  if (rc < 0) {
    tsr__wrap(error, "label %s", described->name);
    tsr_label_close(index);
    return rc;
  }
  *out = index;
  return TSR_OK;
}

static bool is_whole_number(const tsr_field *field) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  return (kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED) && field->values_per_cell == 1;
}

/* Fails unless a field can have the coordinates of a dimension. */
static int check_label_coordinates(const tsr_field *of, const tsr_field *coordinate, tsr_error *error) {
  const tsr_kind kind = tsr_datatype_kind(of->datatype);
  const bool fixed = of->values_per_cell == 1 && kind != TSR_KIND_FLOAT && kind != TSR_KIND_TEXT;
  if (!fixed)
    return tsr__fail(error, TSR_UNSUPPORTED,
                     "'%s' is of %s: labels are for dimensions of integers, datetimes and times", of->name,
                     tsr_datatype_name(of->datatype));
  if (coordinate->values_per_cell == 1 &&
      (coordinate->datatype == of->datatype || (is_whole_number(of) && is_whole_number(coordinate))))
    return TSR_OK;
  return tsr__fail(error, TSR_MISMATCH, "'%s' is of %s, '%s' is of %s", coordinate->name,
                   tsr_datatype_name(coordinate->datatype), of->name, tsr_datatype_name(of->datatype));
}

bool tsr_label_suits(const tsr_field *attribute) { return check_label_values(attribute, NULL) == TSR_OK; }

int tsr_label_open_array(tsr_array *values, const tsr_label_fields *fields, const tsr_schema *schema,
                         uint32_t dimension, uint64_t memory_bytes, tsr_label_index **out, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_schema *own = fields->schema;
  const uint32_t count = own->dimension_count + own->attribute_count;
  tsr_label_index *index;
  if (dimension >= schema->dimension_count)
    return tsr__fail(error, TSR_ERROR, "the schema has no dimension %u", dimension);
  const tsr_field *of = &schema->fields[dimension];
  int rc = TSR_OK;
  if (own->dimension_count != 1)
    rc = tsr__fail(error, TSR_MISMATCH, "its array has %u dimensions, not 1", own->dimension_count);
  else if (fields->coordinate >= count || fields->value == fields->coordinate || fields->value >= count)
    rc = tsr__fail(error, TSR_ERROR, "its array has no such field");
  if (rc >= 0) rc = check_label_coordinates(of, &own->fields[fields->coordinate], error);
  if (rc >= 0) rc = check_label_values(&own->fields[fields->value], error);
  if (rc < 0) return tsr__wrap(error, "label of %s", of->name);
  TSR_TRY(make_label_index(values->environment, own->fields[fields->value].name, memory_bytes, &index, error));
  take_label_schema(index, own, fields->coordinate, fields->value);
  index->datatype = of->datatype;
  if (!own->dense || fields->coordinate > 0 || own->attribute_count > 1) {
    index->order = 0; /* only a declared label's array keeps its promise of an order */
    index->declared = false;
  }
  index->values = values;
  *out = index;
  return TSR_OK;
}

static void label_forget(tsr_label_index *index) {
  tsr_snapshot_close(index->snapshot);
  index->snapshot = NULL;
  tsr__buffer_release(&index->bytes);
  tsr__buffer_release(&index->offsets);
  tsr__buffer_release(&index->validity);
  tsr__buffer_release(&index->coordinates);
  tsr__free(index->ordered);
  index->ordered = NULL;
  index->count = index->ordered_count = 0;
  index->loaded = index->sorted = false;
  index->searches = 0;
  index->cells = (tsr_column){0};
}

void tsr_label_close(tsr_label_index *index) {
  if (!index) return;
  label_forget(index);
  if (index->owned) tsr_array_close(index->values);
  tsr__free(index->name);
  tsr__free(index);
}

const tsr_field *tsr_label_field(const tsr_label_index *index) { return index->field; }

const tsr_schema *tsr_label_schema(const tsr_label_index *index) { return index->schema; }

/* ---- Reading the values ------------------------------------------------------------------------------------------ */

/* Loads an integer or a time, sign-extended to 64 bits. */
static uint64_t load_whole(tsr_datatype datatype, const void *value) {
  const uint64_t size = tsr_datatype_size(datatype);
  uint64_t bits = 0;
  memcpy(&bits, value, size);
  if (tsr_datatype_kind(datatype) != TSR_KIND_SIGNED || size == 8) return bits; /* times have 8 */
  const unsigned unused = (unsigned)(64 - 8 * size);
  return (uint64_t)((int64_t)(bits << unused) >> unused);
}

/* Loads a coordinate of the labelled dimension. */
static uint64_t load_coordinate(const tsr_label_index *index, const void *value) {
  return load_whole(index->datatype, value);
}

/* Maps a coordinate to a number that sorts as the coordinates do. */
static uint64_t coordinate_key(const tsr_label_index *index, uint64_t coordinate) {
  return tsr_datatype_kind(index->datatype) == TSR_KIND_UNSIGNED ? coordinate : coordinate ^ UINT64_C(1) << 63;
}

static const uint64_t *label_coordinates(const tsr_label_index *index) {
  return (const uint64_t *)(const void *)index->coordinates.data;
}

/* Returns the coordinate of a cell. */
static uint64_t coordinate_at(const tsr_label_index *index, uint64_t cell) {
  return index->coordinates.size > 0 ? label_coordinates(index)[cell] : index->first + cell;
}

/* Finds the cell of a coordinate. Returns false if the index has none. */
static bool find_cell(const tsr_label_index *index, uint64_t coordinate, uint64_t *cell) {
  if (index->coordinates.size == 0) {
    *cell = coordinate - index->first;
    return *cell < index->count;
  }
  const uint64_t key = coordinate_key(index, coordinate);
  uint64_t low = 0, high = index->count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (coordinate_key(index, label_coordinates(index)[middle]) < key) low = middle + 1;
    else high = middle;
  }
  *cell = low;
  return low < index->count && label_coordinates(index)[low] == coordinate;
}

static bool label_is_text(const tsr_label_index *index) { return index->field->values_per_cell == TSR_VARIABLE; }

/* Appends one cell of a column. */
static int add_label_value(tsr_label_index *index, const tsr_batch *batch, const tsr_column *column, uint64_t at,
                           tsr_error *error) {
  const uint64_t i = column->constant ? 0 : at, end = index->bytes.size;
  const bool valid = batch->written && !column->unwritten && (!column->validity || column->validity[i]);
  if (label_is_text(index)) {
    TSR_TRY(tsr__buffer_append_u64(&index->offsets, end, error));
    if (valid)
      TSR_TRY(tsr__buffer_append(&index->bytes, (const uint8_t *)column->values + column->offsets[i],
                                 column->offsets[i + 1] - column->offsets[i], error));
  } else {
    TSR_TRY(tsr__buffer_append(&index->bytes, (const uint8_t *)column->values + i * column->cell_size,
                               column->cell_size, error));
  }
  return tsr__buffer_append_u8(&index->validity, valid, error);
}

/* Appends the coordinate of the next value. Coordinates are written down from the first gap on. */
static int add_label_coordinate(tsr_label_index *index, uint64_t coordinate, tsr_error *error) {
  if (index->count == 0) index->first = coordinate;
  if (index->coordinates.size == 0 && coordinate == index->first + index->count) return TSR_OK;
  for (uint64_t cell = index->coordinates.size / 8; cell < index->count; cell++)
    TSR_TRY(tsr__buffer_append_u64(&index->coordinates, index->first + cell, error));
  return tsr__buffer_append_u64(&index->coordinates, coordinate, error);
}

/* Loads cell `at` of the coordinates. Returns false if the labelled dimension cannot have it, or if it is null. */
static bool take_label_coordinate(const tsr_label_index *index, const tsr_batch *batch, const tsr_column *column,
                                  uint64_t at, uint64_t *coordinate) {
  const uint64_t i = column->constant ? 0 : at;
  const tsr_datatype own = index->dimension->datatype;
  if (index->at[0] > 0 && (!batch->written || column->unwritten || (column->validity && !column->validity[i])))
    return false;
  *coordinate = load_whole(own, (const uint8_t *)column->values + i * column->cell_size);
  if (own == index->datatype) return true;
  const bool from_unsigned = tsr_datatype_kind(own) == TSR_KIND_UNSIGNED;
  const bool to_unsigned = tsr_datatype_kind(index->datatype) == TSR_KIND_UNSIGNED;
  if (from_unsigned != to_unsigned && *coordinate >> 63) return false;
  return load_coordinate(index, coordinate) == *coordinate; /* the bytes are little-endian */
}

static int add_label_batch(tsr_label_index *index, tsr_reader *reader, const tsr_batch *batch, tsr_error *error) {
  const tsr_column *coordinates, *values;
  uint64_t coordinate;
  TSR_TRY(tsr_reader_column(reader, index->at[0], &coordinates, error));
  TSR_TRY(tsr_reader_column(reader, index->at[1], &values, error));
  for (uint64_t row = 0; row < batch->count; row++) {
    const uint64_t at = tsr_batch_index(batch, row);
    if (!take_label_coordinate(index, batch, coordinates, at, &coordinate)) continue;
    TSR_TRY(add_label_coordinate(index, coordinate, error));
    TSR_TRY(add_label_value(index, batch, values, at, error));
    index->count++;
  }
  return TSR_OK;
}

static int read_label_values(tsr_label_index *index, tsr_reader *reader, tsr_error *error) {
  const tsr_sort order = {.dimension = 0};
  tsr_request request = {.order = &order, .order_count = index->at[0] == 0, .memory_bytes = index->memory.limit};
  const tsr_batch *batch;
  const uint64_t count = index->schema->dimension_count + index->schema->attribute_count;
  bool *fields;
  int rc;
  TSR_TRY(TSR_ALLOC_ARRAY(&index->memory, count, &fields, error));
  fields[index->at[0]] = fields[index->at[1]] = true;
  request.fields = fields;
  rc = tsr_reader_start(reader, &request, error);
  while (rc >= 0 && (rc = tsr_reader_next(reader, &batch, error)) > 0)
    if ((rc = add_label_batch(index, reader, batch, error)) < 0) break;
  tsr__free(fields);
  return rc;
}

/* Appends copies of the values in the order of `pairs`. */
static int copy_label_values(tsr_label_index *to, const tsr_label_index *from, const tsr_pair *pairs,
                             tsr_error *error) {
  const uint64_t *offsets = (const uint64_t *)(const void *)from->offsets.data, size = from->field->cell_size;
  for (uint64_t i = 0; i < from->count; i++) {
    const uint64_t cell = pairs[i].cell;
    const uint64_t begin = label_is_text(from) ? offsets[cell] : cell * size;
    const uint64_t end = !label_is_text(from)     ? begin + size
                         : cell + 1 < from->count ? offsets[cell + 1]
                                                  : from->bytes.size;
    if (label_is_text(from)) TSR_TRY(tsr__buffer_append_u64(&to->offsets, to->bytes.size, error));
    TSR_TRY(tsr__buffer_append(&to->bytes, from->bytes.data + begin, end - begin, error));
    TSR_TRY(tsr__buffer_append_u8(&to->validity, from->validity.data[cell], error));
    TSR_TRY(add_label_coordinate(to, coordinate_at(from, cell), error));
    to->count++;
  }
  return TSR_OK;
}

/* Sorts the values by their coordinates, if an attribute has these. */
static int sort_label_coordinates(tsr_label_index *index, tsr_error *error) {
  tsr_pair *pairs;
  uint64_t twice;
  if (index->at[0] == 0 || index->coordinates.size == 0) return TSR_OK; /* ascending already */
  if (index->count > UINT32_MAX || !tsr__mul(index->count, 2, &twice))
    return tsr__fail(error, TSR_TOOBIG, "%llu values in no order", (unsigned long long)index->count);
  TSR_TRY(TSR_ALLOC_RAW(&index->memory, twice, &pairs, error));
  for (uint64_t i = 0; i < index->count; i++)
    pairs[i] = (tsr_pair){.key = coordinate_key(index, label_coordinates(index)[i]), .cell = (uint32_t)i};
  tsr__pairs_sort(pairs, pairs + index->count, index->count);
  tsr_label_index sorted = *index;
  sorted.bytes = sorted.offsets = sorted.validity = sorted.coordinates = (tsr_buffer){.memory = &index->memory};
  sorted.count = 0;
  const int rc = copy_label_values(&sorted, index, pairs, error);
  tsr__free(pairs);
  tsr_label_index *kept = rc < 0 ? index : &sorted, *left = rc < 0 ? &sorted : index;
  tsr__buffer_release(&left->bytes);
  tsr__buffer_release(&left->offsets);
  tsr__buffer_release(&left->validity);
  tsr__buffer_release(&left->coordinates);
  if (rc < 0) return rc;
  index->bytes = kept->bytes;
  index->offsets = kept->offsets;
  index->validity = kept->validity;
  index->coordinates = kept->coordinates;
  index->first = kept->first;
  return TSR_OK;
}

/* Fails if two values have one coordinate. */
static int check_label_unique(const tsr_label_index *index, tsr_error *error) {
  const uint64_t *coordinates = label_coordinates(index);
  for (uint64_t i = 1; index->coordinates.size > 0 && i < index->count; i++) {
    if (coordinates[i - 1] != coordinates[i]) continue;
    if (tsr_datatype_kind(index->datatype) == TSR_KIND_UNSIGNED)
      return tsr__fail(error, TSR_CONSTRAINT, "two rows of its array have '%s' %llu", index->dimension->name,
                       (unsigned long long)coordinates[i]);
    return tsr__fail(error, TSR_CONSTRAINT, "two rows of its array have '%s' %lld", index->dimension->name,
                     (long long)coordinates[i]);
  }
  return TSR_OK;
}

/* Returns true if a value of a column can be ordered: not null, NaN or NaT. */
static bool label_is_ordered(const tsr_label_index *index, const tsr_column *column, uint64_t i) {
  if (column->validity && !column->validity[i]) return false;
  if (label_is_text(index)) return true;
  const uint8_t *value = (const uint8_t *)column->values + i * index->field->cell_size;
  const tsr_kind kind = tsr_datatype_kind(index->field->datatype);
  if (kind == TSR_KIND_FLOAT) return tsr__key(index->field->datatype, value) != TSR_KEY_NAN;
  int64_t time;
  if (kind != TSR_KIND_DATETIME && kind != TSR_KIND_TIME) return true;
  memcpy(&time, value, sizeof time);
  return time != INT64_MIN; /* NaT */
}

typedef struct label_entry { /* one value of a column */
  const tsr_column *column;
  uint64_t at;
} label_entry;

/* Compares two values as the datatype orders them. */
static int compare_labels(const tsr_label_index *index, label_entry a, label_entry b) {
  const uint8_t *p = a.column->values, *q = b.column->values;
  if (label_is_text(index)) {
    const uint64_t *x = a.column->offsets + a.at, *y = b.column->offsets + b.at;
    return tsr__bytes_compare(p + x[0], x[1] - x[0], q + y[0], y[1] - y[0]);
  }
  const uint64_t x = tsr__key(index->field->datatype, p + a.at * index->field->cell_size),
                 y = tsr__key(index->field->datatype, q + b.at * index->field->cell_size);
  return (x > y) - (x < y);
}

static bool label_descends(const tsr_label_index *index) { return index->order == 2; }

/* Returns true if two values are in the right order. */
static bool labels_follow(const tsr_label_index *index, label_entry before, label_entry after) {
  const int c = compare_labels(index, before, after);
  return label_descends(index) ? c > 0 : c < 0;
}

/* Compares the values of two cells for a sort. */
static int compare_label_cells(const void *argument, uint32_t a, uint32_t b) {
  const tsr_label_index *index = argument;
  return compare_labels(index, (label_entry){&index->cells, a}, (label_entry){&index->cells, b});
}

/* Sorts the indices of the ordered values by value. */
static int sort_label_values(tsr_label_index *index, tsr_error *error) {
  const uint64_t count = index->ordered_count;
  tsr_pair *pairs;
  uint64_t twice;
  if (index->count > UINT32_MAX || !tsr__mul(count, 2, &twice))
    return tsr__fail(error, TSR_TOOBIG, "its %llu values have no order", (unsigned long long)index->count);
  TSR_TRY(TSR_ALLOC_RAW(&index->memory, twice, &pairs, error));
  for (uint64_t i = 0; i < count; i++) {
    const uint8_t *value = index->bytes.data + index->ordered[i] * index->cells.cell_size;
    pairs[i].cell = (uint32_t)index->ordered[i];
    if (label_is_text(index)) {
      const uint64_t *offsets = index->cells.offsets + index->ordered[i];
      pairs[i].key = tsr__text_prefix(index->bytes.data + offsets[0], offsets[1] - offsets[0]);
    } else {
      pairs[i].key = tsr__key(index->field->datatype, value);
    }
  }
  tsr__pairs_sort_ties(pairs, pairs + count, count, label_is_text(index) ? compare_label_cells : NULL, index);
  for (uint64_t i = 0; i < count; i++) index->ordered[i] = pairs[i].cell;
  tsr__free(pairs);
  return TSR_OK;
}

/* Detects whether the values increase or decrease, if the schema does not say so; sorts them if they do neither. */
static int find_label_order(tsr_label_index *index, tsr_error *error) {
  bool ascending = true, descending = true;
  if (index->sorted) return TSR_OK;
  for (uint64_t i = 1; i < index->ordered_count && (ascending || descending); i++) {
    const int c = compare_labels(index, (label_entry){&index->cells, index->ordered[i - 1]},
                                 (label_entry){&index->cells, index->ordered[i]});
    ascending = ascending && c < 0;
    descending = descending && c > 0;
  }
  index->order = ascending ? 1 : descending ? 2 : 0;
  if (index->order == 0) TSR_TRY(sort_label_values(index, error));
  index->sorted = true;
  return TSR_OK;
}

/* Collects the values that can be ordered. Fails if those of a declared label do not strictly increase or decrease. */
static int order_label_values(tsr_label_index *index, tsr_error *error) {
  TSR_TRY(TSR_ALLOC_RAW(&index->memory, index->count, &index->ordered, error));
  for (uint64_t i = 0; i < index->count; i++) {
    if (!label_is_ordered(index, &index->cells, i)) {
      index->validity.data[i] = 0;
      continue;
    }
    const uint64_t last = index->ordered_count > 0 ? index->ordered[index->ordered_count - 1] : i;
    if (index->declared && last != i &&
        !labels_follow(index, (label_entry){&index->cells, last}, (label_entry){&index->cells, i}))
      return tsr__fail(error, TSR_CORRUPT, "its values must %s, but number %llu does not",
                       label_descends(index) ? "fall" : "rise", (unsigned long long)i);
    index->ordered[index->ordered_count++] = i;
  }
  index->sorted = index->declared;
  return TSR_OK;
}

/* Drops the values, but keeps the snapshot. */
static void unload_label(tsr_label_index *index) {
  tsr_snapshot *snapshot = index->snapshot;
  index->snapshot = NULL;
  label_forget(index);
  index->snapshot = snapshot;
}

static int load_label(tsr_label_index *index, tsr_error *error) {
  tsr_reader *reader = NULL;
  const tsr_interval *box;
  const int any = tsr_snapshot_non_empty_domain(index->snapshot, &box, error);
  if (any <= 0) return any;
  TSR_TRY(tsr_reader_open(index->snapshot, &reader, error));
  int rc = read_label_values(index, reader, error);
  tsr_reader_close(reader);
  if (rc >= 0) rc = sort_label_coordinates(index, error);
  if (rc >= 0) rc = check_label_unique(index, error);
  if (rc >= 0 && label_is_text(index)) rc = tsr__buffer_append_u64(&index->offsets, index->bytes.size, error);
  if (rc < 0) return rc;
  index->cells =
      (tsr_column){.values = index->bytes.data,
                   .offsets = label_is_text(index) ? (const uint64_t *)(const void *)index->offsets.data : NULL,
                   .validity = index->validity.data,
                   .cell_size = index->field->cell_size};
  return order_label_values(index, error);
}

int tsr_label_set_times(tsr_label_index *index, uint64_t since, uint64_t as_of, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_snapshot *snapshot;
  if (tsr_snapshot_open(index->values, index->schema, since, as_of, &snapshot, error) < 0)
    return tsr__wrap(error, "label %s", index->name);
  if (snapshot == index->snapshot) {
    tsr_snapshot_close(snapshot);
    return TSR_OK;
  }
  label_forget(index);
  index->snapshot = snapshot;
  return TSR_OK;
}

int tsr_label_load(tsr_label_index *index, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (index->loaded || !index->snapshot) return TSR_OK;
  const int rc = load_label(index, error);
  if (rc < 0) {
    unload_label(index);
    return tsr__wrap(error, "label %s", index->name);
  }
  index->loaded = true;
  return TSR_OK;
}

int tsr_label_read(tsr_label_index *index, uint64_t since, uint64_t as_of, tsr_error *error) {
  TSR_OWN_ERROR(error);
  TSR_TRY(tsr_label_set_times(index, since, as_of, error));
  return tsr_label_load(index, error);
}

/* ---- Searching --------------------------------------------------------------------------------------------------- */

const tsr_column *tsr_label_cells(const tsr_label_index *index) { return &index->cells; }

bool tsr_label_cell(const tsr_label_index *index, const void *coordinate, uint64_t *cell) {
  return find_cell(index, load_coordinate(index, coordinate), cell) && index->validity.data[*cell];
}

bool tsr_label_covers(const tsr_label_index *index, const void *low, const void *high) {
  const uint64_t from = load_coordinate(index, low), to = load_coordinate(index, high);
  uint64_t first, last;
  if (!find_cell(index, from, &first) || !find_cell(index, to, &last)) return false;
  if (first > last || last - first != to - from) return false;
  if (index->ordered_count == index->count) return true;
  return !memchr(index->validity.data + first, 0, last - first + 1);
}

/* Compares ordered value number `i` with a key or a string. */
static int compare_ordered(const tsr_label_index *index, uint64_t i, uint64_t key, const uint8_t *text, uint64_t size) {
  const uint64_t cell = index->ordered[i];
  if (label_is_text(index)) {
    const uint64_t *offsets = index->cells.offsets;
    return tsr__bytes_compare(index->bytes.data + offsets[cell], offsets[cell + 1] - offsets[cell], text, size);
  }
  const uint64_t own = tsr__key(index->field->datatype, index->bytes.data + cell * index->cells.cell_size);
  return (own > key) - (own < key);
}

/* Lower bound (`above`: upper bound) of a value among the ordered values; counted from the end if the labels descend.
 */
static uint64_t lower_bound(const tsr_label_index *index, uint64_t key, const uint8_t *text, uint64_t size,
                            bool above) {
  uint64_t low = 0, high = index->ordered_count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    const uint64_t i = label_descends(index) ? index->ordered_count - 1 - middle : middle;
    const int c = compare_ordered(index, i, key, text, size);
    if (c < 0 || (above && c == 0)) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void store_coordinate(const tsr_label_index *index, uint64_t cell, uint8_t out[8]) {
  const uint64_t coordinate = coordinate_at(index, cell);
  memset(out, 0, 8);
  memcpy(out, &coordinate, tsr_datatype_size(index->datatype));
}

typedef struct label_intervals { /* what a search has found */
  bool exact; /* coordinates without a value, or without a cell, split intervals */
  uint64_t limit, count;
  tsr_interval *intervals;
} label_intervals;

static int add_label_interval(const tsr_label_index *index, uint64_t low, uint64_t high, label_intervals *found,
                              tsr_error *error) {
  if (found->count == found->limit)
    return tsr__fail(error, TSR_RANGE, "more than %llu intervals", (unsigned long long)found->limit);
  tsr_interval *interval = &found->intervals[found->count++];
  *interval = (tsr_interval){0};
  store_coordinate(index, low, interval->low);
  store_coordinate(index, high, interval->high);
  return TSR_OK;
}

/* Adds the intervals for `count` ascending indices of values. */
static int add_label_runs(const tsr_label_index *index, const uint64_t *cells, uint64_t count, label_intervals *found,
                          tsr_error *error) {
  for (uint64_t at = 0; at < count;) {
    uint64_t last = found->exact || index->order == 0 ? at : count - 1;
    while (last + 1 < count && cells[last + 1] == cells[last] + 1 &&
           (!found->exact || coordinate_at(index, cells[last + 1]) == coordinate_at(index, cells[last]) + 1))
      last++;
    TSR_TRY(add_label_interval(index, cells[at], cells[last], found, error));
    at = last + 1;
  }
  return TSR_OK;
}

static int compare_cells(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Adds the intervals for the ordered values first..end - 1, counted from the least value. */
static int add_label_intervals(tsr_label_index *index, uint64_t first, uint64_t end, label_intervals *found,
                               tsr_error *error) {
  const uint64_t count = end - first,
                 *from = index->ordered + (label_descends(index) ? index->ordered_count - end : first);
  uint64_t *cells;
  if (index->order != 0) return add_label_runs(index, from, count, found, error);
  TSR_TRY(
      TSR_ALLOC_RAW(&index->memory, count, &cells, error)); /* the values are not in order: sort their coordinates */
  memcpy(cells, from, count * sizeof *cells);
  qsort(cells, count, sizeof *cells, compare_cells);
  const int rc = add_label_runs(index, cells, count, found, error);
  tsr__free(cells);
  return rc;
}

static int find_label_spans(tsr_label_index *index, const tsr_spans *spans, label_intervals *found, tsr_error *error) {
  found->count = 0;
  TSR_TRY(find_label_order(index, error));
  const uint64_t n = index->ordered_count;
  for (uint64_t i = 0; i < (spans->all ? 1 : spans->count); i++) {
    uint64_t first = 0, end = n;
    if (!spans->all && spans->text) {
      const tsr_text_span *span = &spans->texts[i];
      first = lower_bound(index, 0, span->low, span->low_size, false);
      if (!span->high_open) end = lower_bound(index, 0, span->high, span->high_size, !span->high_exclusive);
    } else if (!spans->all) {
      first = lower_bound(index, spans->spans[i].low, NULL, 0, false);
      end = lower_bound(index, spans->spans[i].high, NULL, 0, true);
    }
    if (first < end) TSR_TRY(add_label_intervals(index, first, end, found, error));
  }
  return TSR_OK;
}

/* ---- Searching without the values -------------------------------------------------------------------------------- */

#define LABEL_SEARCHES 4u /* after this many searches the values are loaded */
#define LABEL_FEW      16384u /* up to this many coordinates, the values are loaded at once */
#define LABEL_BYTES    (UINT64_C(128) << 10) /* memory of a search beyond two tiles; too little to read ahead */

/* Returns true if a search for numbers should not load the values. */
static bool search_in_tiles(const tsr_label_index *index, const tsr_interval *box) {
  if (index->loaded || !index->declared || index->searches >= LABEL_SEARCHES) return false;
  return load_coordinate(index, box->high) - load_coordinate(index, box->low) >= LABEL_FEW;
}

/* Returns a memory limit at which a reader loads one or two tiles at a time. */
static uint64_t label_search_bytes(const tsr_label_index *index) {
  uint64_t extent = 0, bytes;
  memcpy(&extent, index->dimension->extent, tsr_datatype_size(index->dimension->datatype));
  if (!tsr__mul(extent, 2 * (index->field->cell_size + 8), &bytes) || bytes > UINT64_MAX / 2) return UINT64_MAX;
  return bytes + LABEL_BYTES;
}

/* Copies a cell of a batch, of at most 8 bytes. */
static void take_edge_cell(const tsr_column *column, uint64_t at, uint8_t out[8]) {
  const uint64_t i = column->constant ? 0 : at;
  memset(out, 0, 8);
  memcpy(out, (const uint8_t *)column->values + i * column->cell_size, column->cell_size);
}

/* Finds the first coordinate (`last`: the last one) whose value is in the ranges, and this value, a number (NULL: not
 * needed). Returns 1; 0 if there is none. */
static int find_label_edge(const tsr_label_index *index, tsr_reader *reader, const tsr_ranges *ranges, bool last,
                           uint8_t coordinate[8], uint8_t *value, tsr_error *error) {
  const tsr_sort order = {.dimension = 0, .descending = last};
  const tsr_predicate predicate = {.field = 1, .kind = TSR_PREDICATE_WITHIN, .nat_is_null = true, .ranges = *ranges};
  const tsr_request request = {.order = &order,
                               .order_count = 1,
                               .predicates = &predicate,
                               .predicate_count = 1,
                               .limit = 1,
                               .memory_bytes = TSR_MIN(index->memory.limit, label_search_bytes(index))};
  const tsr_batch *batch;
  const tsr_column *column;
  int rc = tsr_reader_start(reader, &request, error);
  do
    if (rc >= 0) rc = tsr_reader_next(reader, &batch, error);
  while (rc > 0 && batch->count == 0);
  if (rc <= 0) return rc;
  TSR_TRY(tsr_reader_column(reader, 0, &column, error));
  take_edge_cell(column, tsr_batch_index(batch, 0), coordinate);
  if (!value) return 1;
  TSR_TRY(tsr_reader_column(reader, 1, &column, error));
  take_edge_cell(column, tsr_batch_index(batch, 0), value);
  return 1;
}

/* Returns 1 if all coordinates of an interval have a value, and all of these are in the span; 0 if some have none. */
static int is_label_interval(const tsr_label_index *index, const tsr_interval *interval, const tsr_span *span,
                             tsr_error *error) {
  const tsr_range range = {.low = interval->low, .high = interval->high};
  const tsr_ranges within = {.ranges = &range, .count = 1};
  const tsr_aggregate_request request = {.dimensions = &within, .field = 1, .memory_bytes = index->memory.limit};
  const uint64_t cells = load_coordinate(index, interval->high) - load_coordinate(index, interval->low) + 1;
  tsr_aggregate *aggregate;
  tsr_aggregate_row row;
  TSR_TRY(tsr_aggregate_open(index->snapshot, &request, &aggregate, error));
  tsr_aggregate_get(aggregate, 0, &row);
  tsr_aggregate_close(aggregate);
  const tsr_column least = {.values = row.min};
  if (row.count != cells || !label_is_ordered(index, &least, 0)) return 0; /* NaT may count as a value */
  if (tsr__key(index->field->datatype, row.min) >= span->low && tsr__key(index->field->datatype, row.max) <= span->high)
    return 1;
  return tsr__fail(error, TSR_CORRUPT, "its values must %s, but between coordinates of a range one is beyond it",
                   label_descends(index) ? "fall" : "rise");
}

/* Finds the interval for one span of values. Returns 1; 0 if the values must be loaded to find it. */
static int find_in_tiles(tsr_label_index *index, const tsr_ranges *ranges, const tsr_span *span, label_intervals *found,
                         tsr_error *error) {
  tsr_interval interval = {0};
  tsr_reader *reader;
  TSR_TRY(tsr_reader_open(index->snapshot, &reader, error));
  int rc = find_label_edge(index, reader, ranges, false, interval.low, NULL, error);
  const bool any = rc > 0;
  if (any) rc = find_label_edge(index, reader, ranges, true, interval.high, NULL, error);
  tsr_reader_close(reader);
  index->searches++;
  if (rc < 0 || !any) return rc < 0 ? rc : 1;
  rc = is_label_interval(index, &interval, span, error);
  if (rc > 0 && found->limit == 0) return tsr__fail(error, TSR_RANGE, "more than 0 intervals");
  if (rc > 0) found->intervals[found->count++] = interval;
  return rc;
}

static int search_label(tsr_label_index *index, const tsr_ranges *ranges, const tsr_spans *spans,
                        label_intervals *found, tsr_error *error) {
  const tsr_interval *box;
  if (!spans->all && spans->count == 0) return TSR_OK;
  if (index->snapshot) {
    const int any = tsr_snapshot_non_empty_domain(index->snapshot, &box, error);
    if (any <= 0) return any;
    const bool one = !spans->all && !spans->text && spans->count == 1;
    if (one && search_in_tiles(index, box)) {
      const int rc = find_in_tiles(index, ranges, spans->spans, found, error);
      if (rc != 0 && rc != TSR_BUDGET) return rc;
    }
    if (!index->loaded) TSR_TRY(load_label(index, error));
    index->loaded = true;
  }
  return find_label_spans(index, spans, found, error);
}

int tsr_label_find(tsr_label_index *index, const tsr_ranges *ranges, bool exact, uint64_t limit,
                   tsr_interval *intervals, uint64_t *count, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_arena arena;
  tsr_spans spans;
  label_intervals found = {.exact = exact, .limit = limit, .intervals = intervals};
  tsr__arena_init(&arena, &index->values->environment->memory);
  int rc = tsr__spans_make(index->field, ranges, &arena, &spans, error);
  if (rc >= 0) rc = search_label(index, ranges, &spans, &found, error);
  if (rc < 0 && rc != TSR_RANGE) {
    if (!index->loaded) unload_label(index);
    tsr__wrap(error, "label %s", index->name);
  }
  *count = found.count;
  tsr__arena_release(&arena);
  return TSR_MIN(rc, TSR_OK);
}

/* ---- The nearest value ------------------------------------------------------------------------------------------- */

/* Returns true if `high`, a value above `value`, is nearer to it than `low`, a value below it. */
static bool is_nearer_after(const tsr_label_index *index, const void *value, const uint8_t *low, const uint8_t *high) {
  const tsr_datatype datatype = index->field->datatype;
  const bool tie_after = label_descends(index); /* the lower coordinate wins */
  if (tsr_datatype_kind(datatype) != TSR_KIND_FLOAT) {
    const uint64_t key = tsr__key(datatype, value);
    const uint64_t to_low = key - tsr__key(datatype, low), to_high = tsr__key(datatype, high) - key;
    return to_high < to_low || (to_high == to_low && tie_after);
  }
  const double x = tsr__value_double(datatype, value);
  const double to_low = x - tsr__value_double(datatype, low), to_high = tsr__value_double(datatype, high) - x;
  return to_high < to_low || (to_high == to_low && tie_after);
}

static const uint8_t *index_value(const tsr_label_index *index, uint64_t cell) {
  return index->bytes.data + cell * index->cells.cell_size;
}

/* Returns the cell of an ordered value, numbered from the least one. */
static uint64_t label_cell_at(const tsr_label_index *index, uint64_t place) {
  return index->ordered[label_descends(index) ? index->ordered_count - 1 - place : place];
}

/* Finds the nearest of the loaded values. Returns 1; 0 if there is none. */
static int nearest_cell(const tsr_label_index *index, const void *value, uint64_t size, int side, uint64_t *cell) {
  const uint64_t n = index->ordered_count, key = label_is_text(index) ? 0 : tsr__key(index->field->datatype, value);
  const uint64_t below = lower_bound(index, key, value, size, true); /* values that are not above */
  const uint64_t from = lower_bound(index, key, value, size, false);
  uint64_t found;
  if (from < below) found = from; /* equal */
  else if (side < 0 || (side == 0 && below == n)) found = below - 1;
  else if (side > 0 || below == 0) found = below;
  else
    found = is_nearer_after(index, value, index_value(index, label_cell_at(index, below - 1)),
                            index_value(index, label_cell_at(index, below)))
                ? below
                : below - 1;
  if (found >= n) return 0; /* there is none on that side; 0 - 1 wraps around */
  *cell = label_cell_at(index, found);
  return 1;
}

typedef struct label_neighbour { /* a value, and its coordinate */
  uint8_t coordinate[8], value[8];
} label_neighbour;

/* Finds the greatest value that is not above a number (`above`: the least one that is not below it), reading only the
 * tile that contains it. Returns 1; 0 if there is none. */
static int find_neighbour(const tsr_label_index *index, tsr_reader *reader, const void *value, bool above,
                          label_neighbour *found, tsr_error *error) {
  const tsr_range range = {.low = above ? value : NULL, .high = above ? NULL : value};
  const tsr_ranges ranges = {.ranges = &range, .count = 1};
  return find_label_edge(index, reader, &ranges, above == label_descends(index), found->coordinate, found->value,
                         error);
}

/* Finds the nearest value without loading all values. Returns 1; 0 if there is none. */
static int nearest_in_tiles(tsr_label_index *index, const void *value, int side, label_neighbour *found,
                            tsr_error *error) {
  label_neighbour above;
  tsr_reader *reader;
  int before = 0, after = 0;
  TSR_TRY(tsr_reader_open(index->snapshot, &reader, error));
  if (side <= 0) before = find_neighbour(index, reader, value, false, found, error);
  const bool equal =
      before > 0 && tsr__key(index->field->datatype, found->value) == tsr__key(index->field->datatype, value);
  if (side >= 0 && before >= 0 && !equal) after = find_neighbour(index, reader, value, true, &above, error);
  tsr_reader_close(reader);
  index->searches++;
  if (before < 0 || after < 0) return TSR_MIN(before, after);
  if (after > 0 && (before == 0 || is_nearer_after(index, value, found->value, above.value))) *found = above;
  return before > 0 || after > 0;
}

static int find_nearest(tsr_label_index *index, const void *value, uint64_t size, int side, label_neighbour *found,
                        tsr_error *error) {
  const tsr_interval *box;
  uint64_t cell;
  if (!index->snapshot) return 0;
  const int any = tsr_snapshot_non_empty_domain(index->snapshot, &box, error);
  if (any <= 0) return any;
  if (!label_is_text(index) && search_in_tiles(index, box)) {
    const int rc = nearest_in_tiles(index, value, side, found, error);
    if (rc != TSR_BUDGET) return rc;
  }
  if (!index->loaded) TSR_TRY(load_label(index, error));
  index->loaded = true;
  TSR_TRY(find_label_order(index, error));
  const int rc = nearest_cell(index, value, size, side, &cell);
  if (rc <= 0) return rc;
  store_coordinate(index, cell, found->coordinate);
  if (!label_is_text(index)) memcpy(found->value, index_value(index, cell), index->cells.cell_size);
  return 1;
}

int tsr_label_nearest(tsr_label_index *index, const void *value, uint64_t size, int side, uint8_t coordinate[8],
                      uint8_t found_value[8], tsr_error *error) {
  TSR_OWN_ERROR(error);
  const bool text = label_is_text(index);
  label_neighbour found = {0};
  if (text && side == 0)
    return tsr__fail(error, TSR_MISMATCH, "label %s: texts have no distance: say 'before' or 'after'", index->name);
  if (!text && tsr_datatype_kind(index->field->datatype) == TSR_KIND_FLOAT &&
      tsr__key(index->field->datatype, value) == TSR_KEY_NAN)
    return 0;
  const int rc = find_nearest(index, value, size, side, &found, error);
  if (rc < 0) {
    if (!index->loaded) unload_label(index);
    return tsr__wrap(error, "label %s", index->name);
  }
  if (rc == 0) return 0;
  memcpy(coordinate, found.coordinate, sizeof found.coordinate);
  memcpy(found_value, found.value, sizeof found.value);
  return 1;
}

/* Returns true if a cell has exactly these bytes, or is the same number. */
static bool label_equals(const tsr_label_index *index, uint64_t cell, const void *value, uint64_t size) {
  if (label_is_text(index)) {
    const uint64_t *offsets = index->cells.offsets;
    return tsr__bytes_compare(index->bytes.data + offsets[cell], offsets[cell + 1] - offsets[cell], value, size) == 0;
  }
  const tsr_datatype datatype = index->field->datatype;
  return tsr__key(datatype, index_value(index, cell)) == tsr__key(datatype, value);
}

int tsr_label_coordinate_of(const tsr_label_index *index, const void *value, uint64_t size, uint8_t coordinate[8],
                            tsr_error *error) {
  TSR_OWN_ERROR(error);
  uint64_t cell = 0;
  if (!index->sorted) { /* values in any order that were not searched yet */
    while (cell < index->count && (!index->validity.data[cell] || !label_equals(index, cell, value, size))) cell++;
    if (cell == index->count) return 0;
  } else if (nearest_cell(index, value, size, -1, &cell) == 0 || !label_equals(index, cell, value, size)) return 0;
  store_coordinate(index, cell, coordinate);
  return 1;
}

void tsr_label_coordinate(const tsr_label_index *index, uint64_t cell, uint8_t coordinate[8]) {
  store_coordinate(index, cell, coordinate);
}

/* ---- New values -------------------------------------------------------------------------------------------------- */

tsr_array *tsr__label_array(const tsr_label_index *index) { return index->values; }

bool tsr__label_next_run(const tsr_label_index *index, uint64_t *cell, uint64_t *count) {
  while (*cell < index->count && !index->validity.data[*cell]) ++*cell;
  for (*count = 0; *cell + *count < index->count && index->validity.data[*cell + *count];) ++*count;
  return *count > 0;
}

/* Sets the interval of `count` coordinates from `first` on, which must be in the domain. */
static int label_span(const tsr_label_index *index, uint64_t first, uint64_t count, tsr_interval *span,
                      tsr_error *error) {
  const tsr_field *dimension = index->dimension;
  const uint64_t low = load_coordinate(index, dimension->low), high = load_coordinate(index, dimension->high);
  /* differences from the low end are unsigned, whatever the sign of the coordinates */
  if (first - low > high - low || count - 1 > high - first)
    return tsr__fail(error, TSR_RANGE, "%llu values from the origin on reach beyond the domain",
                     (unsigned long long)count);
  const uint64_t last = first + count - 1, size = tsr_datatype_size(dimension->datatype);
  *span = (tsr_interval){0};
  memcpy(span->low, &first, size);
  memcpy(span->high, &last, size);
  return TSR_OK;
}

static int fail_label_order(const tsr_label_index *index, uint64_t coordinate, tsr_error *error) {
  const char *way = label_descends(index) ? "fall" : "rise";
  if (tsr_datatype_kind(index->dimension->datatype) == TSR_KIND_UNSIGNED)
    return tsr__fail(error, TSR_CONSTRAINT, "its values must %s, but that of coordinate %llu does not", way,
                     (unsigned long long)coordinate);
  return tsr__fail(error, TSR_CONSTRAINT, "its values must %s, but that of coordinate %lld does not", way,
                   (long long)coordinate);
}

int tsr__label_check_values(const tsr_label_index *index, const void *first, const tsr_column *values, uint64_t count,
                            tsr_interval *span, tsr_error *error) {
  const uint64_t from = load_coordinate(index, first);
  label_entry before = {0};
  if (index->order == 0) return tsr__fail(error, TSR_UNSUPPORTED, "its values have no order");
  TSR_TRY(label_span(index, from, count, span, error));
  /* the cells that the values replace: they may begin before the index's first cell, and end after its last one */
  const uint64_t origin = load_coordinate(index, index->dimension->low), place = from - origin;
  const uint64_t cells = index->count > 0 ? index->first - origin : 0;
  uint64_t next = 0;
  while (next < index->ordered_count && cells + index->ordered[next] < place) next++;
  if (next > 0) before = (label_entry){&index->cells, index->ordered[next - 1]};
  for (uint64_t i = 0; i < count; i++) {
    const label_entry value = {values, i};
    if (!label_is_ordered(index, values, i)) continue;
    if (before.column && !labels_follow(index, before, value)) return fail_label_order(index, from + i, error);
    before = value;
  }
  while (next < index->ordered_count && cells + index->ordered[next] - place < count) next++;
  if (!before.column || next == index->ordered_count) return TSR_OK;
  if (labels_follow(index, before, (label_entry){&index->cells, index->ordered[next]})) return TSR_OK;
  return fail_label_order(index, origin + cells + index->ordered[next], error);
}
