/* labels.c: columns that become labels of dimensions. Once all rows are there, the distinct values of such a column are
 * sorted, and the column's values are replaced by their ranks: so the rest of the ingest sees a dimension of integers.
 * The values themselves go into the label's array.
 *
 * Values are stored as bytes that sort like the values: a string as it is, a number as its order key, most significant
 * byte first. A hash index finds the number of a value, in order of first appearance.
 */
#include <string.h>

#include "base/arithmetic.h"
#include "base/hash.h"
#include "base/pool.h"
#include "base/sort.h"
#include "environment/environment.h"
#include "model/datatype.h"
#include "model/domain.h"
#include "define/define.h"
#include "label/label.h"
#include "ingest/ingest.h"

typedef struct ingest_different { /* the distinct values of a column, in order of first appearance */
  const tsr_ingest_kept *column;
  bool is_text;
  tsr_buffer bytes, ends; /* ends: uint64_t */
  uint64_t count;
  tsr_hash_index index; /* of the values */
  uint64_t *places; /* by number: the coordinate */
} ingest_different;

/* ---- Distinct values --------------------------------------------------------------------------------------------- */

static uint64_t ingest_value_end(const ingest_different *v, uint64_t number) {
  uint64_t end = 0;
  if (number > 0) memcpy(&end, v->ends.data + (number - 1) * sizeof end, sizeof end);
  return end;
}

static const uint8_t *ingest_value_bytes(const ingest_different *v, uint64_t number, uint64_t *size) {
  const uint64_t begin = ingest_value_end(v, number);
  *size = ingest_value_end(v, number + 1) - begin;
  return v->bytes.data + begin;
}

static uint64_t ingest_value_hash(const void *different, uint64_t number) {
  uint64_t size;
  const uint8_t *bytes = ingest_value_bytes(different, number, &size);
  return tsr__hash_bytes(0, bytes, size);
}

/* Finds the number of a value. Returns false, with the slot where it belongs, if it is a new one. */
static bool find_value(const ingest_different *v, const uint8_t *bytes, uint64_t size, uint64_t *slot,
                       uint32_t *number) {
  for (*slot = tsr__hash_slot(&v->index, tsr__hash_bytes(0, bytes, size)); tsr__hash_item(&v->index, *slot, number);
       *slot = tsr__hash_next(&v->index, *slot)) {
    uint64_t known_size;
    const uint8_t *known = ingest_value_bytes(v, *number, &known_size);
    if (known_size == size && (size == 0 || memcmp(known, bytes, size) == 0)) return true;
  }
  return false;
}

static int add_value(tsr_ingest *g, ingest_different *v, const uint8_t *bytes, uint64_t size, tsr_error *error) {
  if (v->count == TSR_HASH_ITEMS_MAX)
    return tsr__fail(error, TSR_FULL, "column '%s': too many labels", v->column->given->name);
  TSR_TRY(tsr__hash_reserve(&v->index, &g->memory, v->count + 1, v->count, ingest_value_hash, v, error));
  uint64_t slot;
  uint32_t number;
  if (find_value(v, bytes, size, &slot, &number)) return TSR_OK;
  TSR_TRY(tsr__buffer_append(&v->bytes, bytes, size, error));
  TSR_TRY(tsr__buffer_append_u64(&v->ends, v->bytes.size, error));
  tsr__hash_set(&v->index, slot, v->count++);
  return TSR_OK;
}

/* Returns the bytes of a row's value; those of a number are in `key`. */
static const uint8_t *ingest_row_bytes(const ingest_different *v, const tsr_ingest_values *values, uint64_t row,
                                       uint8_t key[8], uint64_t *size) {
  const tsr_ingest_kept *c = v->column;
  uint8_t value[8];
  if (v->is_text) {
    const uint64_t begin = row ? values->ends[row - 1] : 0;
    *size = values->ends[row] - begin;
    return values->values + begin;
  }
  tsr__ingest_narrow_value(c->datatype, values->class == TSR_INGEST_REALS, tsr__ingest_word(values, row), value);
  const uint64_t order = tsr__key(c->datatype, value);
  for (unsigned i = 0; i < 8; i++) key[i] = (uint8_t)(order >> (56 - 8 * i));
  *size = 8;
  return key;
}

/* Collects the distinct values of all rows. */
static int collect_values(tsr_ingest *g, uint32_t column, ingest_different *v, tsr_buffer *scratch, tsr_error *error) {
  for (uint64_t p = 0; p < g->counts.parts; p++) {
    tsr_ingest_values values;
    TSR_TRY(tsr__ingest_load(g, column, p, scratch, &values, error));
    for (uint64_t i = 0; i < values.rows; i++) {
      uint8_t key[8];
      uint64_t size;
      const uint8_t *bytes = ingest_row_bytes(v, &values, i, key, &size);
      TSR_TRY(add_value(g, v, bytes, size, error));
    }
    TSR_TRY(tsr__cancelled(&g->environment->memory, error));
  }
  return TSR_OK;
}

/* ---- Their order ------------------------------------------------------------------------------------------------- */

static int compare_values(const void *different, uint32_t a, uint32_t b) {
  const ingest_different *v = different;
  uint64_t sizes[2];
  const uint8_t *x = ingest_value_bytes(v, a, &sizes[0]), *y = ingest_value_bytes(v, b, &sizes[1]);
  return tsr__bytes_compare(x, sizes[0], y, sizes[1]);
}

/* Returns true if each value is below the previous one, in order of first appearance. */
static bool values_descend(const ingest_different *v) {
  for (uint64_t i = 1; i < v->count; i++)
    if (compare_values(v, (uint32_t)i - 1, (uint32_t)i) <= 0) return false;
  return v->count > 1;
}

/* Sorts the values, and assigns each its coordinate. */
static int sort_values(tsr_ingest *g, ingest_different *v, tsr_ingest_label *label, tsr_error *error) {
  tsr_pair *pairs;
  TSR_TRY(TSR_ALLOC_ARRAY(&g->memory, 2 * v->count, &pairs, error));
  for (uint32_t i = 0; i < v->count; i++) {
    uint64_t size, key = 0;
    const uint8_t *bytes = ingest_value_bytes(v, i, &size);
    for (uint64_t b = 0; b < TSR_MIN(size, 8); b++) key |= (uint64_t)bytes[b] << (56 - 8 * b);
    pairs[i] = (tsr_pair){.key = key, .cell = i};
  }
  tsr__pairs_sort_ties(pairs, pairs + v->count, v->count, compare_values, v);
  const tsr_kind kind = tsr_datatype_kind(label->datatype);
  if ((kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) && v->count > 0 && pairs[0].key == 0) {
    tsr__free(pairs);
    return tsr__fail(error, TSR_CONSTRAINT, "column '%s': NaT in a label", v->column->given->name);
  }
  label->descending = values_descend(v);
  int rc = TSR_OK;
  for (uint64_t i = 0; i < v->count && rc >= 0; i++) {
    const uint32_t number = pairs[label->descending ? v->count - 1 - i : i].cell;
    uint64_t size, key = 0;
    const uint8_t *bytes = ingest_value_bytes(v, number, &size);
    v->places[number] = i;
    for (unsigned b = 0; b < 8 && !v->is_text; b++) key = key << 8 | bytes[b];
    uint8_t value[8] = {0};
    if (!v->is_text) tsr__key_value(label->datatype, key, value);
    rc = v->is_text ? tsr__buffer_append_u64(&label->offsets, label->values.size, error) : TSR_OK;
    if (rc >= 0)
      rc = tsr__buffer_append(&label->values, v->is_text ? bytes : value,
                              v->is_text ? size : tsr_datatype_size(label->datatype), error);
  }
  if (rc >= 0 && v->is_text) rc = tsr__buffer_append_u64(&label->offsets, label->values.size, error);
  tsr__free(pairs);
  return rc;
}

/* Finds the coordinates of the values in an existing label. */
static int find_values(const ingest_different *v, const tsr_label_index *index, tsr_error *error) {
  for (uint64_t i = 0; i < v->count; i++) {
    uint64_t size, key = 0;
    const uint8_t *bytes = ingest_value_bytes(v, i, &size);
    uint8_t value[8] = {0}, coordinate[8] = {0};
    for (unsigned b = 0; b < 8 && !v->is_text; b++) key = key << 8 | bytes[b];
    if (!v->is_text) tsr__key_value(v->column->datatype, key, value);
    const int found = tsr_label_coordinate_of(index, v->is_text ? bytes : value, size, coordinate, error);
    if (found < 0) return found;
    if (!found)
      return tsr__fail(error, TSR_RANGE, "column '%s': value number %llu not found in dimension label",
                       v->column->given->name, (unsigned long long)i + 1);
    memcpy(&v->places[i], coordinate, 8);
  }
  return TSR_OK;
}

/* ---- Coordinates in place of values ------------------------------------------------------------------------------ */

/* Replaces the values of one part of a column by their coordinates. */
static int recode_part(tsr_ingest *g, uint32_t column, uint64_t number, const ingest_different *v, tsr_buffer *scratch,
                       tsr_error *error) {
  tsr_ingest_values values;
  uint64_t *words;
  TSR_TRY(tsr__ingest_load(g, column, number, scratch, &values, error));
  TSR_TRY(TSR_ALLOC_RAW(&g->memory, values.rows, &words, error));
  for (uint64_t i = 0; i < values.rows; i++) {
    uint8_t key[8];
    uint64_t size, slot;
    uint32_t place = 0;
    const uint8_t *bytes = ingest_row_bytes(v, &values, i, key, &size);
    (void)find_value(v, bytes, size, &slot, &place); /* collect_values has added it */
    words[i] = v->places[place];
  }
  return tsr__ingest_replace_part(g, column, number, words, values.rows, error);
}

static int check_label(const tsr_ingest_kept *c, tsr_error *error) {
  const tsr_kind kind = tsr_datatype_kind(c->datatype);
  const bool text = c->datatype == TSR_UTF8 || c->datatype == TSR_ASCII;
  if (text ? c->values_per_cell == TSR_VARIABLE
           : c->values_per_cell == 1 && kind != TSR_KIND_BOOLEAN && kind != TSR_KIND_TEXT && kind != TSR_KIND_BYTES)
    return TSR_OK;
  return tsr__fail(error, TSR_CONSTRAINT, "column '%s': %s%s cannot be a label", c->given->name,
                   tsr_datatype_name(c->datatype), text || c->values_per_cell == 1 ? "" : "[]");
}

static int make_label(tsr_ingest *g, uint32_t column, ingest_different *v, tsr_ingest_label *label, tsr_error *error) {
  const tsr_ingest_column *given = g->columns[column].given;
  tsr_buffer scratch = {.memory = &g->memory};
  int rc = collect_values(g, column, v, &scratch, error);
  if (rc >= 0) rc = TSR_ALLOC_ARRAY(&g->memory, v->count + 1, &v->places, error);
  label->count = v->count;
  if (rc >= 0) rc = given->label ? find_values(v, given->label, error) : sort_values(g, v, label, error);
  for (uint64_t p = 0; p < g->counts.parts && rc >= 0; p++) rc = recode_part(g, column, p, v, &scratch, error);
  tsr__buffer_release(&scratch);
  return rc;
}

int tsr__ingest_recode_labels(tsr_ingest *g, tsr_error *error) {
  for (uint32_t i = 0; i < g->column_count; i++) {
    tsr_ingest_kept *c = &g->columns[i];
    if (!c->given->label_of) continue;
    TSR_TRY(check_label(c, error));
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, 1, &c->label, error));
    c->label->datatype = c->datatype;
    c->label->values.memory = c->label->offsets.memory = &g->memory;
    ingest_different v = {.column = c, .is_text = tsr_datatype_kind(c->datatype) == TSR_KIND_TEXT};
    v.bytes.memory = v.ends.memory = &g->memory;
    const int rc = make_label(g, i, &v, c->label, error);
    tsr__buffer_release(&v.bytes);
    tsr__buffer_release(&v.ends);
    tsr__hash_release(&v.index);
    tsr__free(v.places);
    if (rc < 0) return rc;
    c->class = TSR_INGEST_INTEGERS;
    c->datatype = c->given->label ? c->given->label_datatype : TSR_INT64;
    c->values_per_cell = 1;
    c->is_unsigned = c->datatype == TSR_UINT64;
  }
  return TSR_OK;
}

/* ---- The labels of the array ------------------------------------------------------------------------------------- */

int tsr__ingest_label_schemas(tsr_ingest *g, tsr_schema *schema, tsr_error *error) {
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, (uint64_t)schema->dimension_count + 1, &schema->labels, error));
  for (uint32_t d = 0; d < g->options.dimension_count; d++) {
    const tsr_ingest_kept *c = &g->columns[g->options.dimensions[d]];
    tsr_schema *array, *complete;
    tsr_field *fields;
    if (!c->label) continue;
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, 1, &array, error));
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, 1, &complete, error));
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, 2, &fields, error));
    tsr_field values = {.datatype = c->label->datatype,
                        .duration = c->given->duration && tsr_datatype_kind(c->label->datatype) == TSR_KIND_TIME,
                        .values_per_cell = tsr_datatype_kind(c->label->datatype) == TSR_KIND_TEXT ? TSR_VARIABLE : 1,
                        .data_order = c->label->descending ? 2 : 1};
    values.filters = c->given->filters ? *c->given->filters : tsr__ingest_filters(&values);
    tsr_label_array_schema(schema, d, &values, fields, array);
    TSR_TRY(tsr__schema_complete(array, &g->arena, complete, error));
    schema->labels[schema->label_count++] =
        (tsr_label){.name = (char *)(uintptr_t)c->given->name, .dimension = d, .array = complete};
  }
  return TSR_OK;
}

static int ingest_write_label(tsr_array *array, const tsr_schema *schema, uint32_t number,
                              const tsr_ingest_label *label, tsr_error *error) {
  static const uint8_t first[8] = {0};
  tsr_label_index *index;
  tsr_column values = {.values = label->values.data, .cell_size = tsr_datatype_size(label->datatype)};
  if (label->offsets.size) {
    values.offsets = (const uint64_t *)(const void *)label->offsets.data;
    values.cell_size = 0;
  }
  TSR_TRY(tsr_label_open(array, schema, number, 0, &index, error));
  const int rc = tsr__label_write_new(index, first, &values, label->count, error);
  tsr_label_close(index);
  return rc;
}

int tsr__ingest_write_labels(tsr_ingest *g, tsr_array *array, tsr_error *error) {
  const tsr_schema *schema;
  uint32_t number = 0;
  TSR_TRY(tsr_array_schema(array, TSR_TIME_NOW, &schema, error));
  for (uint32_t d = 0; d < g->options.dimension_count; d++) {
    const tsr_ingest_label *label = g->columns[g->options.dimensions[d]].label;
    if (label) TSR_TRY(ingest_write_label(array, schema, number++, label, error));
  }
  return TSR_OK;
}

void tsr__ingest_release_labels(tsr_ingest *g) {
  for (uint32_t i = 0; g->columns && i < g->column_count; i++) {
    if (!g->columns[i].label) continue;
    tsr__buffer_release(&g->columns[i].label->values);
    tsr__buffer_release(&g->columns[i].label->offsets);
  }
}
