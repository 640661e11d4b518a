/* infer.c: infers the schema of an ingest's rows, and fits the rows to an existing array.
 *
 * The sections: text columns that become datetimes; numbering rows without coordinates and expanding the current domain
 * of an existing array, before rows are appended; the schema of a new array.
 *
 * A column of text that was declared as dates or datetimes becomes so if all its values are such. Its parts keep the
 * text, which is parsed each time a part is loaded. */
#include <string.h>
#include <float.h>
#include <math.h>

#include "base/arithmetic.h"
#include "environment/environment.h"
#include "ingest/ingest.h"
#include "model/datatype.h"
#include "base/pool.h"
#include "define/define.h"
#include "model/domain.h"

#define INSTANT_LENGTH 10 /* of a complete date: a year or a month alone does not count as an instant here */

/* Parses one string. A column of instants becomes days only if no string has a time of day, not even midnight. */
static bool ingest_instant_at(const tsr_ingest_kept *c, const tsr_ingest_values *texts, uint64_t row,
                              tsr_datatype datatype, int64_t *instant) {
  tsr_error ignored = {0};
  const uint64_t at = row ? texts->ends[row - 1] : 0, size = texts->ends[row] - at;
  if (c->given->declared == TSR_INGEST_INSTANTS && datatype == TSR_DATETIME_DAY && size > INSTANT_LENGTH) return false;
  return size >= INSTANT_LENGTH &&
         tsr_datetime_parse(datatype, (const char *)texts->values + at, size, instant, &ignored) == TSR_OK;
}

/* Finds the coarsest of the datatypes, from datatypes[*choice] on, that represents all values of a part. */
static bool ingest_instants_fit(const tsr_ingest_kept *c, const tsr_ingest_values *texts, const tsr_datatype *datatypes,
                                size_t count, size_t *choice) {
  int64_t instant;
  for (uint64_t row = 0; row < texts->rows; row++) {
    if (texts->validity && !texts->validity[row]) continue;
    while (!ingest_instant_at(c, texts, row, datatypes[*choice], &instant))
      if (++*choice == count) return false;
  }
  return true;
}

/* Sets the least and the greatest value of a part. */
static int bound_instants(tsr_ingest *g, uint32_t column, uint64_t number, tsr_buffer *scratch, tsr_error *error) {
  tsr_ingest_part *part = tsr__ingest_part(&g->columns[column], number);
  tsr_ingest_values values;
  int64_t low = INT64_MAX, high = INT64_MIN;
  TSR_TRY(tsr__ingest_load(g, column, number, scratch, &values, error));
  for (uint64_t row = 0; row < values.rows && part->class != TSR_INGEST_NONE; row++) {
    const int64_t value = (int64_t)tsr__ingest_word(&values, row);
    if (values.validity && !values.validity[row]) continue;
    low = TSR_MIN(low, value);
    high = TSR_MAX(high, value);
    part->bounded = true;
  }
  memcpy(part->low, &low, sizeof low);
  memcpy(part->high, &high, sizeof high);
  return TSR_OK;
}

/* Turns a text column that was declared as dates or datetimes into one of these, if all its values are such. */
static int find_instants(tsr_ingest *g, uint32_t column, tsr_error *error) {
  static const tsr_datatype datatypes[] = {TSR_DATETIME_DAY, TSR_DATETIME_SEC, TSR_DATETIME_MS, TSR_DATETIME_US,
                                           TSR_DATETIME_NS};
  tsr_ingest_kept *c = &g->columns[column];
  const size_t count = c->given->declared == TSR_INGEST_DATES ? 1 : sizeof datatypes / sizeof *datatypes;
  tsr_buffer scratch = {.memory = &g->memory};
  size_t choice = 0;
  bool fit = true;
  int rc = TSR_OK;
  for (uint64_t p = 0; p < g->counts.parts && fit && rc >= 0; p++) {
    tsr_ingest_values texts;
    rc = tsr__ingest_load(g, column, p, &scratch, &texts, error);
    if (rc >= 0 && texts.class == TSR_INGEST_TEXTS) fit = ingest_instants_fit(c, &texts, datatypes, count, &choice);
  }
  if (rc >= 0 && fit) {
    c->class = TSR_INGEST_INTEGERS;
    c->datatype = datatypes[choice];
    c->values_per_cell = 1;
    for (uint64_t p = 0; p < g->counts.parts && rc >= 0; p++) rc = bound_instants(g, column, p, &scratch, error);
  }
  tsr__buffer_release(&scratch);
  return rc;
}

void tsr__ingest_parse_instants(const tsr_ingest_kept *c, uint8_t *words, tsr_ingest_values *values) {
  for (uint64_t row = 0; row < values->rows; row++) {
    int64_t instant = 0;
    if (!values->validity || values->validity[row]) (void)ingest_instant_at(c, values, row, c->datatype, &instant);
    memcpy(words + row * 8, &instant, 8);
  }
  values->class = TSR_INGEST_INTEGERS;
  values->values = words;
  values->ends = NULL;
}

/* ---- Fitting the rows to an existing array ----------------------------------------------------------------------- */

/* Before rows are appended: numbers rows without coordinates, and expands the current domain if necessary. */

#define FIT_ATTEMPTS 8 /* while others are expanding the current domain, too */

typedef struct fit_box { /* the rows' interval in one dimension; texts are owned */
  bool any; /* there are rows */
  uint64_t low, high; /* order keys */
  tsr_buffer low_text, high_text;
} fit_box;

/* ---- Rows without coordinates ------------------------------------------------------------------------------------ */

int tsr__ingest_next_row(tsr_array *array, uint64_t *key, uint64_t *room, tsr_error *error) {
  tsr_snapshot *snapshot;
  const tsr_interval *filled;
  TSR_TRY(tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, error));
  const tsr_schema *schema = tsr_snapshot_schema(snapshot);
  const tsr_field *row = &schema->fields[0];
  const uint64_t high = tsr__key(row->datatype, row->high);
  const int rc = tsr_snapshot_non_empty_domain(snapshot, &filled, error);
  if (rc > 0) {
    const uint64_t last = tsr__key(row->datatype, filled[0].high);
    *room = high - TSR_MIN(last, high);
    *key = last + 1;
  } else if (rc == 0) {
    *key = tsr__key(row->datatype, schema->current_domain ? schema->current_domain[0].low : row->low);
    *room = tsr__add_sat(high - *key, 1);
  }
  tsr_snapshot_close(snapshot);
  return TSR_MIN(rc, TSR_OK);
}

/* Numbers the rows, continuing after the last one of the array. */
static int fit_number_rows(tsr_ingest *g, tsr_array *array, const tsr_field *row, tsr_error *error) {
  uint64_t room;
  TSR_TRY(tsr__ingest_next_row(array, &g->next_row, &room, error));
  if (g->counts.rows <= room) return TSR_OK;
  return tsr__fail(
      error, TSR_RANGE,
      "the domain of '%s' has room for %llu more rows, not for %llu: an array to which rows are appended is "
      "made with \"grow\":[\"%s\"]",
      row->name, (unsigned long long)room, (unsigned long long)g->counts.rows, row->name);
}

/* ---- The box of the rows ----------------------------------------------------------------------------------------- */

static int fit_take_text(fit_box *box, const uint8_t *bytes, uint64_t size, tsr_error *error) {
  const bool lower = !box->any || tsr__bytes_compare(bytes, size, box->low_text.data, box->low_text.size) < 0,
             higher = !box->any || tsr__bytes_compare(bytes, size, box->high_text.data, box->high_text.size) > 0;
  box->any = true;
  if (lower) {
    box->low_text.size = 0;
    TSR_TRY(tsr__buffer_append(&box->low_text, bytes, size, error));
  }
  if (!higher) return TSR_OK;
  box->high_text.size = 0;
  return tsr__buffer_append(&box->high_text, bytes, size, error);
}

/* Extends a box by the rows of one part of a column. */
static int fit_take_part(const tsr_field *field, const tsr_ingest_values *values, fit_box *box, tsr_error *error) {
  for (uint64_t i = 0; i < values->rows; i++) {
    if (values->ends) {
      const uint64_t begin = i ? values->ends[i - 1] : 0;
      TSR_TRY(fit_take_text(box, values->values + begin, values->ends[i] - begin, error));
      continue;
    }
    uint8_t value[8];
    const bool is_real = values->class == TSR_INGEST_REALS;
    tsr__ingest_narrow_value(field->datatype, is_real, tsr__ingest_word(values, i), value);
    const uint64_t key = tsr__key(field->datatype, value);
    box->low = box->any ? TSR_MIN(box->low, key) : key;
    box->high = box->any ? TSR_MAX(box->high, key) : key;
    box->any = true;
  }
  return TSR_OK;
}

static int fit_find_box(tsr_ingest *g, uint32_t d, const tsr_field *field, fit_box *box, tsr_error *error) {
  if (g->options.dimension_count == 0) {
    *box = (fit_box){.any = g->counts.rows > 0, .low = g->next_row, .high = g->next_row + g->counts.rows - 1};
    return TSR_OK;
  }
  tsr_buffer scratch = {.memory = &g->memory};
  box->low_text.memory = box->high_text.memory = &g->memory;
  int rc = TSR_OK;
  for (uint64_t p = 0; p < g->counts.parts && rc >= 0; p++) {
    tsr_ingest_values values;
    rc = tsr__ingest_load(g, g->options.dimensions[d], p, &scratch, &values, error);
    if (rc >= 0) rc = fit_take_part(field, &values, box, error);
    if (rc >= 0) rc = tsr__cancelled(&g->environment->memory, error);
  }
  tsr__buffer_release(&scratch);
  return rc;
}

/* ---- The current domain ------------------------------------------------------------------------------------------ */

/* Sets *to to the smallest interval around a current domain and a box. Returns true if it is larger than the current
 * domain. */
static bool fit_join(const tsr_field *field, const tsr_interval *now, const fit_box *box, tsr_interval *to) {
  *to = *now;
  if (!box->any) return false;
  if (!field->cell_size) {
    const bool open = !now->low_size && now->high_size == 1 && *now->high_text == 0x7f; /* TileDB's "no bounds" */
    const bool lower = tsr__bytes_compare(box->low_text.data, box->low_text.size, now->low_text, now->low_size)<
        0, higher = tsr__bytes_compare(box->high_text.data, box->high_text.size, now->high_text, now->high_size)> 0;
    if (!open && lower) {
      to->low_text = box->low_text.data;
      to->low_size = box->low_text.size;
    }
    if (!open && higher) {
      to->high_text = box->high_text.data;
      to->high_size = box->high_text.size;
    }
    return !open && (lower || higher);
  }
  const bool lower =
      box->low<tsr__key(field->datatype, now->low), higher = box->high> tsr__key(field->datatype, now->high);
  if (lower) tsr__key_value(field->datatype, box->low, to->low);
  if (higher) tsr__key_value(field->datatype, box->high, to->high);
  return lower || higher;
}

/* Expands the current domain, unless it contains all boxes. */
static int fit_expand(tsr_array *array, const fit_box *boxes, tsr_interval *domain, tsr_error *error) {
  int rc = TSR_OK;
  for (int attempt = 0; attempt < FIT_ATTEMPTS; attempt++) {
    const tsr_schema *schema;
    bool grows = false;
    TSR_TRY(tsr_array_schema(array, TSR_TIME_NOW, &schema, error));
    if (!schema->current_domain) return TSR_OK;
    for (uint32_t d = 0; d < schema->dimension_count; d++)
      grows |= fit_join(&schema->fields[d], &schema->current_domain[d], &boxes[d], &domain[d]);
    if (!grows) return TSR_OK;
    rc = tsr_array_expand_domain(array, domain, error);
    if (rc != TSR_CONSTRAINT) return rc; /* TSR_CONSTRAINT: another process has expanded it meanwhile */
  }
  return rc;
}

int tsr_ingest_fit(tsr_ingest *g, tsr_array *array, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_schema *schema;
  fit_box *boxes;
  tsr_interval *domain;
  if (!g->complete) return tsr__fail(error, TSR_ERROR, "tsr_ingest_fit before tsr_ingest_schema");
  TSR_TRY(tsr_array_schema(array, TSR_TIME_NOW, &schema, error));
  if (g->options.dimension_count == 0) TSR_TRY(fit_number_rows(g, array, &schema->fields[0], error));
  if (!schema->current_domain) return TSR_OK;
  const uint32_t count = schema->dimension_count;
  TSR_TRY(TSR_ALLOC_ARRAY(&g->memory, count, &boxes, error));
  int rc = TSR_ALLOC_ARRAY(&g->memory, count, &domain, error);
  for (uint32_t d = 0; d < count && rc >= 0; d++) rc = fit_find_box(g, d, &schema->fields[d], &boxes[d], error);
  if (rc >= 0) {
    rc = fit_expand(array, boxes, domain, error);
    tsr__free(domain);
  }
  for (uint32_t d = 0; d < count; d++) {
    tsr__buffer_release(&boxes[d].low_text);
    tsr__buffer_release(&boxes[d].high_text);
  }
  tsr__free(boxes);
  return rc;
}

/* ---- The schema of a new array ----------------------------------------------------------------------------------- */

/* The dimensions are those of the options, or else one dense dimension `row`; axis.c chooses their domains and extents.
 * The array is dense if the dimensions have one datatype, of integers or instants, and the rows fill their box without
 * duplicates: checked with a bitmap that has a bit for each cell of the box. */

#define INGEST_LABELS 65000 /* with more labels the codes are INT32, as in a CREATE */

/* ---- Filters ----------------------------------------------------------------------------------------------------- */

tsr_pipeline tsr__ingest_filters(const tsr_field *field) {
  static tsr_filter wide[2] = {{.type = TSR_FILTER_BYTESHUFFLE, .level = -1, .reinterpret = TSR_ANY},
                               {.type = TSR_FILTER_ZSTD, .level = 5, .reinterpret = TSR_ANY}};
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  const bool narrow = kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES || tsr_datatype_size(field->datatype) == 1;
  return narrow ? (tsr_pipeline){.count = 1, .filters = &wide[1]} : (tsr_pipeline){.count = 2, .filters = wide};
}

/* Returns true if all dimensions have one datatype, of integers or instants. */
static bool ingest_may_be_dense(const ingest_axis *axes, uint32_t count) {
  for (uint32_t d = 0; d < count; d++) {
    if (axes[d].is_text || axes[d].is_real) return false;
    if (axes[d].datatype != axes[0].datatype) return false;
  }
  return true;
}

/* Widens integers of different sizes to one datatype, if all are signed or all unsigned. */
static void widen_axes(ingest_axis *axes, uint32_t count) {
  tsr_datatype widest = axes[0].datatype;
  for (uint32_t d = 0; d < count; d++) {
    if (!tsr__datatype_is_integral(axes[d].datatype) ||
        tsr_datatype_kind(axes[d].datatype) != tsr_datatype_kind(axes[0].datatype))
      return;
    if (tsr_datatype_size(axes[d].datatype) > tsr_datatype_size(widest)) widest = axes[d].datatype;
  }
  for (uint32_t d = 0; d < count; d++) axes[d].datatype = widest;
}

/* Sets a bit for each row of one part. Returns 1 if two rows have the same coordinates, else 0. */
static int mark_part(tsr_ingest *g, const ingest_axis *axes, uint64_t part, tsr_buffer *scratch, uint64_t *places,
                     uint8_t *bits, tsr_error *error) {
  const uint64_t rows = tsr__ingest_part_rows(g, part);
  memset(places, 0, rows * sizeof *places);
  for (uint32_t d = 0; d < g->options.dimension_count; d++) {
    tsr_ingest_values values;
    TSR_TRY(tsr__ingest_load(g, g->options.dimensions[d], part, scratch, &values, error));
    for (uint64_t i = 0; i < rows; i++)
      places[i] = places[i] * axes[d].length + (tsr__ingest_word(&values, i) - axes[d].low);
  }
  for (uint64_t i = 0; i < rows; i++) {
    const uint8_t bit = (uint8_t)(1u << (places[i] & 7));
    if (bits[places[i] >> 3] & bit) return 1;
    bits[places[i] >> 3] |= bit;
  }
  return 0;
}

/* Sets *fills if the rows fill their box, each cell exactly once. */
static int ingest_fills(tsr_ingest *g, const ingest_axis *axes, bool *fills, tsr_error *error) {
  const uint32_t count = g->options.dimension_count;
  double cells = 1;
  *fills = false;
  for (uint32_t d = 0; d < count; d++) cells *= axes[d].length ? (double)axes[d].length : 18446744073709551616.0;
  if (cells != (double)g->counts.rows || !g->counts.rows) return TSR_OK;
  uint8_t *bits;
  uint64_t *places = NULL;
  tsr_buffer scratch = {.memory = &g->memory};
  TSR_TRY(TSR_ALLOC_ARRAY(&g->memory, g->counts.rows / 8 + 1, &bits, error));
  int rc = TSR_ALLOC_RAW(&g->memory, INGEST_PART_ROWS, &places, error);
  for (uint64_t p = 0; p < g->counts.parts && rc == TSR_OK; p++) {
    rc = mark_part(g, axes, p, &scratch, places, bits, error);
    if (rc == TSR_OK) rc = tsr__cancelled(&g->environment->memory, error);
  }
  *fills = rc == TSR_OK;
  tsr__buffer_release(&scratch);
  tsr__free(places);
  tsr__free(bits);
  return TSR_MIN(rc, TSR_OK);
}

static int choose_kind(tsr_ingest *g, ingest_axis *axes, uint32_t count, bool *dense, tsr_error *error) {
  *dense = true;
  if (g->options.dimension_count == 0) {
    if (g->options.kind == TSR_INGEST_SPARSE)
      return tsr__fail(error, TSR_CONSTRAINT, "kind sparse: say which columns are the dimensions");
    return TSR_OK;
  }
  *dense = g->options.kind == TSR_INGEST_DENSE;
  if (g->options.kind == TSR_INGEST_SPARSE) return TSR_OK;
  bool labelled = false; /* a dimension of a dense array */
  for (uint32_t i = 0; i < g->column_count; i++) labelled |= g->columns[i].given->label_of != NULL;
  if (!*dense && !labelled && g->column_count == count) return TSR_OK; /* a dense array needs an attribute */
  ingest_axis *widened;
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, count, &widened, error));
  memcpy(widened, axes, count * sizeof *axes);
  widen_axes(widened, count);
  if (ingest_may_be_dense(widened, count)) {
    if (!*dense) TSR_TRY(ingest_fills(g, widened, dense, error));
    if (*dense) memcpy(axes, widened, count * sizeof *axes);
    return TSR_OK;
  }
  if (*dense)
    return tsr__fail(
        error, TSR_CONSTRAINT,
        "kind dense: the dimensions are not integers or instants of one datatype: say types, or kind sparse");
  return TSR_OK;
}

/* ---- Fields ------------------------------------------------------------------------------------------------------ */

static int ingest_enumerate(tsr_ingest *g, tsr_ingest_kept *c, tsr_field *field, tsr_enumeration *e, tsr_error *error) {
  const tsr_enumeration *given = c->given->enumeration;
  *e = (tsr_enumeration){.name = field->name,
                         .loaded = true,
                         .datatype = given             ? given->datatype
                                     : c->given->typed ? c->given->datatype
                                                       : TSR_UTF8,
                         .values_per_label = given             ? given->values_per_label
                                             : c->given->typed ? c->given->values_per_cell
                                                               : TSR_VARIABLE,
                         .ordered = c->given->ordered || (given && given->ordered),
                         .count = c->labels.ends.size / sizeof(uint64_t),
                         .data = c->labels.bytes.data,
                         .data_size = c->labels.bytes.size};
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, e->count + 1, &e->offsets, error));
  if (e->count) memcpy(e->offsets + 1, c->labels.ends.data, c->labels.ends.size);
  field->datatype = c->datatype = e->count > INGEST_LABELS ? TSR_INT32 : TSR_UINT16;
  field->values_per_cell = c->values_per_cell = 1;
  field->enumeration = field->name;
  return TSR_OK;
}

/* ---- The schema -------------------------------------------------------------------------------------------------- */

/* Infers the datatypes of untyped columns. */
int tsr__ingest_decide(tsr_ingest *g, bool must, tsr_error *error) {
  static const tsr_datatype datatypes[] = {TSR_ANY, TSR_INT64, TSR_FLOAT64, TSR_UTF8, TSR_BLOB};
  if (g->decided) return TSR_OK;
  TSR_TRY(tsr__ingest_end_part(g, error));
  g->complete = true;
  for (uint32_t i = 0; i < g->column_count; i++) {
    tsr_ingest_growing *growing = &g->columns[i].growing;
    tsr__buffer_release(&growing->values);
    tsr__buffer_release(&growing->ends);
    tsr__buffer_release(&growing->validity);
  }
  for (uint32_t i = 0; i < g->column_count; i++) {
    tsr_ingest_kept *c = &g->columns[i];
    if (c->given->typed || c->given->labels) continue;
    if (c->class == TSR_INGEST_TEXTS && c->given->declared) {
      TSR_TRY(find_instants(g, i, error));
      if (c->class == TSR_INGEST_INTEGERS) continue;
    }
    if (c->class == TSR_INGEST_NONE && must)
      return tsr__fail(error, TSR_MISMATCH, "column '%s': no value determines its type: give it in types",
                       c->given->name);
    c->datatype = c->class == TSR_INGEST_NONE && c->given->has_empty ? c->given->empty : datatypes[c->class];
    const tsr_kind kind = tsr_datatype_kind(c->datatype);
    c->values_per_cell = kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES ? TSR_VARIABLE : 1;
  }
  g->decided = true;
  return TSR_OK;
}

int tsr__ingest_field(tsr_ingest *g, uint32_t column, tsr_field *field, tsr_enumeration *enumeration,
                      tsr_error *error) {
  tsr_ingest_kept *c = &g->columns[column];
  *field = (tsr_field){.name = (char *)(uintptr_t)c->given->name,
                       .datatype = c->datatype,
                       .values_per_cell = c->values_per_cell,
                       .duration = c->given->duration && tsr_datatype_kind(c->datatype) == TSR_KIND_TIME,
                       .nullable = c->seen.nulls || c->given->nullable};
  return c->given->labels ? ingest_enumerate(g, c, field, enumeration, error) : TSR_OK;
}

static int ingest_attributes(tsr_ingest *g, tsr_schema *schema, tsr_error *error) {
  for (uint32_t i = 0; i < g->column_count; i++) {
    tsr_ingest_kept *c = &g->columns[i];
    if (c->is_dimension) continue;
    tsr_field *field = &schema->fields[schema->dimension_count + schema->attribute_count++];
    TSR_TRY(tsr__ingest_field(g, i, field, &schema->enumerations[schema->enumeration_count], error));
    if (c->given->labels) schema->enumeration_count++;
    field->filters = c->given->filters ? *c->given->filters : tsr__ingest_filters(field);
  }
  return TSR_OK;
}

/* Returns a name for the dimension of row numbers that no column has. */
static char *ingest_row_name(const tsr_ingest *g) {
  static char *const names[] = {"row", "row_number", "tessera_row"};
  for (size_t n = 0; n + 1 < sizeof names / sizeof *names; n++) {
    bool taken = false;
    for (uint32_t i = 0; i < g->column_count; i++) taken |= strcmp(g->columns[i].given->name, names[n]) == 0;
    if (!taken) return names[n];
  }
  return names[2];
}

static int open_axes(tsr_ingest *g, ingest_axis *axes, tsr_error *error) {
  if (g->options.dimension_count == 0) {
    axes[0] = (ingest_axis){.datatype = TSR_INT64, .bounded = true, .high = g->counts.rows ? g->counts.rows - 1 : 0};
    axes[0].length = axes[0].high + 1;
  }
  for (uint32_t d = 0; d < g->options.dimension_count; d++)
    TSR_TRY(tsr__ingest_axis_open(g, g->options.dimensions[d], &axes[d], error));
  return TSR_OK;
}

static void ingest_orders(const tsr_ingest *g, const ingest_axis *axes, tsr_schema *schema) {
  const uint32_t n = schema->dimension_count;
  bool numbers = !schema->dense && n >= 2 && n <= TSR_HILBERT_DIMENSIONS_MAX;
  for (uint32_t d = 0; d < n; d++)
    numbers &= axes[d].finite && axes[d].column->given->has_domain && !schema->fields[d].has_extent;
  schema->cell_order = g->options.has_cell_order ? g->options.cell_order : numbers ? TSR_ORDER_HILBERT : TSR_ORDER_ROW;
  schema->tile_order = g->options.has_tile_order ? g->options.tile_order : TSR_ORDER_ROW;
}

static int fill_schema(tsr_ingest *g, ingest_axis *axes, tsr_schema *schema, tsr_error *error) {
  static tsr_filter zstd = {.type = TSR_FILTER_ZSTD, .level = 5, .reinterpret = TSR_ANY},
                    rle = {.type = TSR_FILTER_RLE, .level = -1, .reinterpret = TSR_ANY};
  bool grows = false;
  schema->version = g->options.version ? g->options.version : TSR_FORMAT_WRITE_MAX;
  schema->capacity = g->options.capacity ? g->options.capacity : INGEST_CAPACITY;
  schema->allows_duplicates = !schema->dense && g->options.duplicates;
  schema->offsets_filters = schema->coords_filters = (tsr_pipeline){.count = 1, .filters = &zstd};
  schema->validity_filters = (tsr_pipeline){.count = 1, .filters = &rle};
  if (schema->dense) tsr__ingest_dense_extents(axes, schema->dimension_count);
  else
    tsr__ingest_sparse_extents(axes, schema->dimension_count, g->counts.rows,
                               g->options.has_cell_order && g->options.cell_order == TSR_ORDER_HILBERT);
  tsr_interval *current;
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, schema->dimension_count, &current, error));
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_ingest_column *given = axes[d].column ? axes[d].column->given : NULL;
    grows |= schema->dense && (given ? given->grow : g->options.row_grows);
    const char *name = !given ? NULL : given->label_of ? given->label_of : given->name;
    schema->fields[d].name = name ? (char *)(uintptr_t)name : ingest_row_name(g);
    TSR_TRY(
        tsr__ingest_dimension(&axes[d], schema->dense, g->options.row_grows, &schema->fields[d], &current[d], error));
  }
  if (grows) schema->current_domain = current;
  ingest_orders(g, axes, schema);
  TSR_TRY(ingest_attributes(g, schema, error));
  return tsr__ingest_label_schemas(g, schema, error);
}

int tsr_ingest_schema(tsr_ingest *g, const tsr_schema **schema, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_schema *made, *complete;
  ingest_axis *axes;
  const uint32_t count = TSR_MAX(g->options.dimension_count, 1);
  if (!g->schema) {
    TSR_TRY(tsr__ingest_decide(g, true, error));
    TSR_TRY(tsr__ingest_recode_labels(g, error));
    TSR_TRY(tsr__ingest_leave_out_duplicates(g, error));
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, 1, &made, error));
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, 1, &complete, error));
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, count, &axes, error));
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, (uint64_t)g->column_count + 1, &made->fields, error));
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, g->column_count, &made->enumerations, error));
    made->dimension_count = count;
    TSR_TRY(open_axes(g, axes, error));
    TSR_TRY(choose_kind(g, axes, count, &made->dense, error));
    TSR_TRY(fill_schema(g, axes, made, error));
    TSR_TRY(tsr__schema_complete(made, &g->arena, complete, error));
    g->schema = complete;
  }
  *schema = g->schema;
  return TSR_OK;
}
