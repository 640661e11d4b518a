/* ingest_infer.c: decides the schema of an ingest's rows.
 *
 * Dimensions are those of the options, else one dense dimension `row`. The array is dense if the dimensions have one
 * datatype of integers or instants, and the rows fill their box without two at one coordinate: a bit for each cell of the
 * box tells. The domain is the rows' box; the extents of a dense array begin as its lengths and are halved, the largest
 * first, until a tile has at most INGEST_TILE_CELLS cells.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "array/environment.h"
#include "define/array_create.h"
#include "model/datatype.h"
#include "model/domain.h"
#include "ingest/ingest_labels.h"
#include "ingest/ingest_twice.h"

#define INGEST_TILE_CELLS 262144.0
#define INGEST_CAPACITY   10000
#define INGEST_LABEL_TILE 10000
#define INGEST_LABELS     65000 /* with more labels the codes are INT32, as in a CREATE */

typedef struct ingest_axis { /* a dimension while the schema is made */
  const tsr_ingest_kept *column; /* NULL: `row` */
  tsr_datatype datatype;
  bool is_text, is_real, bounded, finite;
  uint64_t low, high; /* integers: bits; is_real: of doubles */
  uint64_t length; /* integers: high - low + 1; 0: 2^64 */
  uint64_t extent;
  uint8_t given_low[8], given_high[8], given_extent[8]; /* what the column gives, in the axis' datatype */
} ingest_axis;

/* ---- Filters ----------------------------------------------------------------------------------------------------- */

tsr_pipeline tsr__ingest_filters(const tsr_field *field) {
  static tsr_filter wide[2] = {{.type = TSR_FILTER_BYTESHUFFLE, .level = -1, .reinterpret = TSR_ANY},
                               {.type = TSR_FILTER_ZSTD, .level = 5, .reinterpret = TSR_ANY}};
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  const bool narrow = kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES || tsr_datatype_size(field->datatype) == 1;
  return narrow ? (tsr_pipeline){.count = 1, .filters = &wide[1]} : (tsr_pipeline){.count = 2, .filters = wide};
}

/* ---- Boxes ------------------------------------------------------------------------------------------------------- */

static double ingest_as_double(const tsr_ingest_kept *c, uint64_t word) {
  return c->is_unsigned ? (double)word : (double)(int64_t)word;
}

/* Joins the bounds of one part to those of an axis. */
static void ingest_join_bounds(ingest_axis *a, const tsr_ingest_part *part) {
  const uint64_t flip = a->column->is_unsigned ? 0 : UINT64_C(1) << 63;
  uint64_t low, high;
  memcpy(&low, part->low, 8);
  memcpy(&high, part->high, 8);
  if (a->is_real) {
    double l, h, axis_low, axis_high;
    memcpy(&l, &low, 8);
    memcpy(&h, &high, 8);
    if (part->class == TSR_INGEST_INTEGERS) {
      l = ingest_as_double(a->column, low);
      h = ingest_as_double(a->column, high);
    }
    memcpy(&axis_low, &a->low, 8);
    memcpy(&axis_high, &a->high, 8);
    if (!a->bounded || l < axis_low) memcpy(&a->low, &l, 8);
    if (!a->bounded || h > axis_high) memcpy(&a->high, &h, 8);
    a->finite &= !part->nan;
  } else {
    if (!a->bounded || (low ^ flip) < (a->low ^ flip)) a->low = low;
    if (!a->bounded || (high ^ flip) > (a->high ^ flip)) a->high = high;
  }
  a->bounded = true;
}

typedef struct ingest_end { /* an end of a domain, or an extent, as the column gives it */
  const uint8_t *bytes;
  bool real, is_unsigned; /* FLOAT64; UINT64; else INT64 */
  bool is_end; /* no extent */
  const char *what;
} ingest_end;

/* Converts an end to the datatype of an axis, which has no type that was given. */
static int ingest_convert_end(const ingest_axis *a, const ingest_end *end, uint8_t out[8], tsr_error *error) {
  const char *name = a->column->given->name;
  int64_t integer;
  double real;
  memcpy(&integer, end->bytes, sizeof integer);
  memcpy(&real, end->bytes, sizeof real);
  if (a->is_real) {
    if (!end->real) real = end->is_unsigned ? (double)(uint64_t)integer : (double)integer;
    memcpy(out, &real, sizeof real);
    return TSR_OK;
  }
  if (end->real && real != trunc(real))
    return tsr__fail(error, TSR_MISMATCH, "column '%s': its values are INTEGER, and %s is %.15g", name, end->what,
                     real);
  if (end->real && !(real >= -9223372036854775808.0 && real < 9223372036854775808.0))
    return tsr__fail(error, TSR_RANGE, "column '%s': %s, %.15g, does not fit %s", name, end->what, real,
                     tsr_datatype_name(a->datatype));
  if (end->real) integer = (int64_t)real;
  if (integer < 0 && end->is_end && end->is_unsigned && !a->column->is_unsigned)
    return tsr__fail(error, TSR_RANGE, "column '%s': %s, %llu, does not fit %s", name, end->what,
                     (unsigned long long)integer, tsr_datatype_name(a->datatype));
  if (integer < 0 && !end->is_unsigned && a->column->is_unsigned)
    return tsr__fail(error, TSR_RANGE, "column '%s': %s, %lld, does not fit %s", name, end->what, (long long)integer,
                     tsr_datatype_name(a->datatype));
  memcpy(out, &integer, sizeof integer);
  return TSR_OK;
}

/* Takes the domain and the extent that the column gives. */
static int ingest_take_given(ingest_axis *a, tsr_error *error) {
  const tsr_ingest_column *given = a->column->given;
  const ingest_end low = {given->low, given->real, given->low_unsigned, true, "the low end of the domain"},
                   high = {given->high, given->real, given->high_unsigned, true, "the high end of the domain"},
                   extent = {given->extent, given->real_extent, true, false, "the tile extent"};
  memcpy(a->given_low, given->low, sizeof a->given_low);
  memcpy(a->given_high, given->high, sizeof a->given_high);
  memcpy(a->given_extent, given->extent, sizeof a->given_extent);
  if (a->is_text || given->label_of || (given->typed && !given->ends_untyped)) return TSR_OK;
  if (given->has_domain) TSR_TRY(ingest_convert_end(a, &low, a->given_low, error));
  if (given->has_domain) TSR_TRY(ingest_convert_end(a, &high, a->given_high, error));
  return given->has_extent ? ingest_convert_end(a, &extent, a->given_extent, error) : TSR_OK;
}

static int ingest_axis_open(const tsr_ingest *g, uint32_t column, ingest_axis *a, tsr_error *error) {
  const tsr_ingest_kept *c = &g->columns[column];
  const char *name = c->given->name;
  *a = (ingest_axis){.column = c, .datatype = c->datatype, .finite = true};
  const tsr_kind kind = tsr_datatype_kind(c->datatype);
  if (c->given->typed &&
      (kind == TSR_KIND_BOOLEAN || kind == TSR_KIND_BYTES || (kind != TSR_KIND_TEXT && c->values_per_cell != 1)))
    return tsr__fail(error, TSR_CONSTRAINT, "column '%s': %s%s cannot be a dimension", name,
                     tsr_datatype_name(c->datatype), c->values_per_cell != 1 ? "[]" : "");
  a->is_text = c->class == TSR_INGEST_TEXTS;
  a->is_real = c->class == TSR_INGEST_REALS;
  if (a->is_text) a->datatype = TSR_ASCII;
  for (uint64_t p = 0; p < g->counts.parts && !a->is_text; p++)
    if (tsr__ingest_part(c, p)->bounded) ingest_join_bounds(a, tsr__ingest_part(c, p));
  if (!a->bounded && !a->is_text && !c->given->has_domain)
    return tsr__fail(error, TSR_CONSTRAINT, "column '%s': without rows the domain must be given", name);
  a->length = a->high - a->low + 1;
  return ingest_take_given(a, error);
}

/* Returns whether all dimensions are integers or instants of one datatype. */
static bool ingest_may_be_dense(const ingest_axis *axes, uint32_t count) {
  for (uint32_t d = 0; d < count; d++) {
    if (axes[d].is_text || axes[d].is_real || !axes[d].bounded) return false;
    if (axes[d].datatype != axes[0].datatype) return false;
  }
  return true;
}

/* Widens integers of several sizes to one datatype, where all are signed or all unsigned. */
static void ingest_widen_axes(ingest_axis *axes, uint32_t count) {
  tsr_datatype widest = axes[0].datatype;
  for (uint32_t d = 0; d < count; d++) {
    if (!tsr__datatype_is_integral(axes[d].datatype) ||
        tsr_datatype_kind(axes[d].datatype) != tsr_datatype_kind(axes[0].datatype))
      return;
    if (tsr_datatype_size(axes[d].datatype) > tsr_datatype_size(widest)) widest = axes[d].datatype;
  }
  for (uint32_t d = 0; d < count; d++) axes[d].datatype = widest;
}

/* Sets a bit for each row of one part. Returns 1 if two rows have one coordinate, else 0. */
static int ingest_mark_part(tsr_ingest *g, const ingest_axis *axes, uint64_t part, tsr_buffer *scratch,
                            uint64_t *places, uint8_t *bits, tsr_error *error) {
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

/* Sets *fills to whether the rows fill their box, each cell once. */
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
    rc = ingest_mark_part(g, axes, p, &scratch, places, bits, error);
    if (rc == TSR_OK) rc = tsr__cancelled(&g->environment->memory, error);
  }
  *fills = rc == TSR_OK;
  tsr__buffer_release(&scratch);
  tsr__free(places);
  tsr__free(bits);
  return TSR_MIN(rc, TSR_OK);
}

static int ingest_choose_kind(tsr_ingest *g, ingest_axis *axes, uint32_t count, bool *dense, tsr_error *error) {
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
  ingest_widen_axes(widened, count);
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

/* Sets the extents of a dense array: the lengths, of which the largest is halved while a tile has too many cells. */
static void ingest_choose_extents(ingest_axis *axes, uint32_t count) {
  double cells = 1;
  for (uint32_t d = 0; d < count; d++) {
    const bool given = axes[d].column && axes[d].column->given->has_extent;
    if (given) memcpy(&axes[d].extent, axes[d].given_extent, 8);
    else axes[d].extent = axes[d].length ? axes[d].length : UINT64_C(1) << 62;
    cells *= (double)axes[d].extent;
  }
  while (cells > INGEST_TILE_CELLS) {
    ingest_axis *largest = NULL;
    for (uint32_t d = 0; d < count; d++)
      if (!(axes[d].column && axes[d].column->given->has_extent) && (!largest || axes[d].extent > largest->extent))
        largest = &axes[d];
    if (!largest || largest->extent < 2) return;
    cells /= (double)largest->extent;
    largest->extent = largest->extent / 2 + largest->extent % 2;
    cells *= (double)largest->extent;
  }
}

void tsr__ingest_narrow_value(tsr_datatype datatype, bool is_real, uint64_t word, uint8_t out[8]) {
  memset(out, 0, 8);
  if (is_real && tsr_datatype_size(datatype) == sizeof(float)) {
    double real;
    memcpy(&real, &word, 8);
    const float narrow = (float)real;
    memcpy(out, &narrow, sizeof narrow);
    return;
  }
  memcpy(out, &word, 8); /* little-endian: the low bytes come first */
}

/* Sets the widest domain that fits the extent, and that a schema may have: dimensions that grow. */
static void ingest_grow(const ingest_axis *a, tsr_field *field) {
  if (a->is_real) {
    const bool narrow = tsr_datatype_size(a->datatype) == sizeof(float);
    const double most = narrow ? FLT_MAX / 4 : DBL_MAX / 4, least = -most; /* their difference is finite, too */
    uint64_t low, high;
    memcpy(&low, &least, 8);
    memcpy(&high, &most, 8);
    tsr__ingest_narrow_value(a->datatype, true, low, field->low);
    tsr__ingest_narrow_value(a->datatype, true, high, field->high);
    return;
  }
  const bool instant = !tsr__datatype_is_integral(a->datatype);
  const uint64_t key = tsr__key(a->datatype, field->low), max = tsr__key_max(a->datatype),
                 min = a->column ? tsr__key_min(a->datatype) + instant : key, /* rows are counted from 0 */
      extent = field->has_extent ? tsr__extent(field) : 0;
  uint64_t low = min, high = max;
  if (extent) {
    low = key - (key - min) / extent * extent; /* tiles stay where the rows' box has them */
    high = low + ((max - low) / extent * extent - 1);
  } else if (low == tsr__key_min(a->datatype)) {
    high--; /* a domain may not take all of the datatype */
  }
  tsr__key_value(a->datatype, low, field->low);
  tsr__key_value(a->datatype, high, field->high);
}

/* Fails if the rows' box does not lie in the domain that was given. */
static int ingest_check_domain(const ingest_axis *a, const tsr_field *field, tsr_error *error) {
  uint8_t low[8], high[8];
  if (!a->bounded) return TSR_OK;
  tsr__ingest_narrow_value(a->datatype, a->is_real, a->low, low);
  tsr__ingest_narrow_value(a->datatype, a->is_real, a->high, high);
  if (tsr__key(a->datatype, low) >= tsr__key(a->datatype, field->low) &&
      tsr__key(a->datatype, high) <= tsr__key(a->datatype, field->high))
    return TSR_OK;
  if (a->column->label)
    return tsr__fail(error, TSR_RANGE,
                     "dimension '%s': the labels of column '%s' take %llu to %llu, not all of which lie in its domain",
                     field->name, a->column->given->name, (unsigned long long)a->low, (unsigned long long)a->high);
  return tsr__fail(error, TSR_RANGE, "column '%s': rows lie outside of the domain that was given", field->name);
}

/* Returns the extent of a labelled dimension of a sparse array: labels need one. */
static uint64_t ingest_label_extent(const ingest_axis *a) {
  return a->length && a->length < INGEST_LABEL_TILE ? a->length : INGEST_LABEL_TILE;
}

static int ingest_dimension(const ingest_axis *a, bool dense, bool grows, tsr_field *field, tsr_interval *current,
                            tsr_error *error) {
  const tsr_ingest_column *given = a->column ? a->column->given : NULL;
  field->is_dimension = true;
  field->datatype = a->datatype;
  field->values_per_cell = a->is_text ? TSR_VARIABLE : 1;
  field->filters = given && given->filters ? *given->filters : tsr__ingest_filters(field);
  if (a->is_text) {
    if (given->has_domain || given->has_extent)
      return tsr__fail(error, TSR_CONSTRAINT, "column '%s': a dimension of strings has no domain", field->name);
    return TSR_OK;
  }
  field->has_domain = true;
  field->has_extent = dense || (given && (given->has_extent || given->label_of));
  tsr__ingest_narrow_value(a->datatype, a->is_real, a->low, field->low);
  tsr__ingest_narrow_value(a->datatype, a->is_real, a->high, field->high);
  memcpy(current->low, field->low, 8);
  memcpy(current->high, field->high, 8);
  if (dense) memcpy(field->extent, &a->extent, 8);
  else if (given && given->has_extent) memcpy(field->extent, a->given_extent, 8);
  else if (field->has_extent) tsr__ingest_narrow_value(a->datatype, false, ingest_label_extent(a), field->extent);
  if (given && given->has_domain) {
    memcpy(field->low, a->given_low, 8);
    memcpy(field->high, a->given_high, 8);
    return ingest_check_domain(a, field, error);
  }
  if (given ? given->grow : grows) ingest_grow(a, field);
  return TSR_OK;
}

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

/* Decides the datatypes of untyped columns. */
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
      TSR_TRY(tsr__ingest_find_instants(g, i, error));
      if (c->class == TSR_INGEST_INTEGERS) continue;
    }
    if (c->class == TSR_INGEST_NONE && must)
      return tsr__fail(error, TSR_MISMATCH, "column '%s': no value decides its type: say types", c->given->name);
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

/* Returns a name for the dimension that no column has. */
static char *ingest_row_name(const tsr_ingest *g) {
  static char *const names[] = {"row", "row_number", "tessera_row"};
  for (size_t n = 0; n + 1 < sizeof names / sizeof *names; n++) {
    bool taken = false;
    for (uint32_t i = 0; i < g->column_count; i++) taken |= strcmp(g->columns[i].given->name, names[n]) == 0;
    if (!taken) return names[n];
  }
  return names[2];
}

static int ingest_open_axes(tsr_ingest *g, ingest_axis *axes, tsr_error *error) {
  if (g->options.dimension_count == 0) {
    axes[0] = (ingest_axis){.datatype = TSR_INT64, .bounded = true, .high = g->counts.rows ? g->counts.rows - 1 : 0};
    axes[0].length = axes[0].high + 1;
  }
  for (uint32_t d = 0; d < g->options.dimension_count; d++)
    TSR_TRY(ingest_axis_open(g, g->options.dimensions[d], &axes[d], error));
  return TSR_OK;
}

static void ingest_orders(const tsr_ingest *g, const ingest_axis *axes, tsr_schema *schema) {
  const uint32_t n = schema->dimension_count;
  bool numbers = !schema->dense && n >= 2 && n <= TSR_HILBERT_DIMENSIONS_MAX;
  for (uint32_t d = 0; d < schema->dimension_count; d++) numbers &= !axes[d].is_text && axes[d].finite;
  for (uint32_t d = 0; d < schema->dimension_count; d++) numbers &= !schema->fields[d].has_extent;
  schema->cell_order = g->options.has_cell_order ? g->options.cell_order : numbers ? TSR_ORDER_HILBERT : TSR_ORDER_ROW;
  schema->tile_order = g->options.has_tile_order ? g->options.tile_order : TSR_ORDER_ROW;
}

static int ingest_fill_schema(tsr_ingest *g, ingest_axis *axes, tsr_schema *schema, tsr_error *error) {
  static tsr_filter zstd = {.type = TSR_FILTER_ZSTD, .level = 5, .reinterpret = TSR_ANY},
                    rle = {.type = TSR_FILTER_RLE, .level = -1, .reinterpret = TSR_ANY};
  bool grows = false;
  schema->version = g->options.version ? g->options.version : TSR_FORMAT_WRITE_MAX;
  schema->capacity = g->options.capacity ? g->options.capacity : INGEST_CAPACITY;
  schema->allows_duplicates = !schema->dense && g->options.duplicates;
  schema->offsets_filters = schema->coords_filters = (tsr_pipeline){.count = 1, .filters = &zstd};
  schema->validity_filters = (tsr_pipeline){.count = 1, .filters = &rle};
  if (schema->dense) ingest_choose_extents(axes, schema->dimension_count);
  tsr_interval *current;
  TSR_TRY(TSR_ARENA_ARRAY(&g->arena, schema->dimension_count, &current, error));
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_ingest_column *given = axes[d].column ? axes[d].column->given : NULL;
    grows |= given ? given->grow : g->options.row_grows;
    const char *name = !given ? NULL : given->label_of ? given->label_of : given->name;
    schema->fields[d].name = name ? (char *)(uintptr_t)name : ingest_row_name(g);
    TSR_TRY(ingest_dimension(&axes[d], schema->dense, g->options.row_grows, &schema->fields[d], &current[d], error));
    if (axes[d].is_text && grows)
      return tsr__fail(error, TSR_CONSTRAINT, "grow: an array with a dimension of strings needs it not");
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
    TSR_TRY(tsr__ingest_leave_out_twice(g, error));
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, 1, &made, error));
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, 1, &complete, error));
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, count, &axes, error));
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, (uint64_t)g->column_count + 1, &made->fields, error));
    TSR_TRY(TSR_ARENA_ARRAY(&g->arena, g->column_count, &made->enumerations, error));
    made->dimension_count = count;
    TSR_TRY(ingest_open_axes(g, axes, error));
    TSR_TRY(ingest_choose_kind(g, axes, count, &made->dense, error));
    TSR_TRY(ingest_fill_schema(g, axes, made, error));
    TSR_TRY(tsr__schema_complete(made, &g->arena, complete, error));
    g->schema = complete;
  }
  *schema = g->schema;
  return TSR_OK;
}
