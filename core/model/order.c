/* order.c: tile numbers and Hilbert codes, which define the global order of the cells of a sparse array.
 *
 * Cells of row-major and column-major arrays are sorted by the numbers of their space tiles, then by their coordinates.
 * Cells of Hilbert arrays are sorted by their Hilbert codes, then by their coordinates in row-major order. Files
 * contain neither numbers nor codes, but they store the cells in this order. So the results here must equal TileDB's on
 * x86-64 bit for bit:
 *
 *   tile number     Integers: (value - low) / extent, unsigned. Floats: the quotient in the dimension's own precision,
 *                   converted to 64 bits as x86-64 code does it, even for 2^64 and more, infinities and NaN.
 *   Hilbert bucket  Fixed-size types: (value - low) / (high - low) * (2^bits - 1) in double, converted likewise.
 *                   Strings: the upper `bits` bits of the first 8 bytes, padded with zeros, big-endian. TileDB reads
 *                   the bytes as signed char, so a byte of 0x80 or more sets all bits before it.
 *   Hilbert code    The position of the buckets on Skilling's curve (Programming the Hilbert curve, AIP Conf. Proc.
 *                   707, 2004), with bits = floor(63 / dimensions) for each dimension. Dimension 0 is the most
 *                   significant.
 *
 * Order: tile numbers; finding a cell; the code of one cell; many cells of two dimensions at once, in vectors.
 */
#include "model/domain.h"

#include <string.h>

#include "base/arithmetic.h"
#include "model/datatype.h"

/* Converts a double to uint64 as x86-64 code without AVX-512 does: by a conversion to int64, whose result is 2^63 for
 * every value out of range, and which is applied to value - 2^63 if value >= 2^63. A plain cast would be undefined
 * behaviour. */
static uint64_t order_truncate(double value) {
  const double half = 9223372036854775808.0; /* 2^63 */
  const uint64_t sign = UINT64_C(1) << 63;
  if (value >= half) {
    value -= half;
    return value < half ? (uint64_t)value + sign : 0;
  }
  return value >= -half ? (uint64_t)(int64_t)value : sign; /* NaN gives `sign` */
}

uint64_t tsr__tile_number(const tsr_field *dimension, const void *value) {
  if (!dimension->has_extent) return 0;
  switch (tsr__datatype_physical(dimension->datatype)) {
  case TSR_PHYSICAL_F32: {
    float v, low, extent;
    memcpy(&v, value, 4);
    memcpy(&low, dimension->low, 4);
    memcpy(&extent, dimension->extent, 4);
    float quotient = (v - low) / extent;
    return order_truncate((double)quotient);
  }
  case TSR_PHYSICAL_F64: {
    double v, low, extent;
    memcpy(&v, value, 8);
    memcpy(&low, dimension->low, 8);
    memcpy(&extent, dimension->extent, 8);
    return order_truncate((v - low) / extent);
  }
  default: {
    /* A difference of keys is the difference of the values. The extent is positive, so its bytes are its value. */
    uint64_t extent = 0;
    memcpy(&extent, dimension->extent, tsr_datatype_size(dimension->datatype));
    uint64_t distance = tsr__key(dimension->datatype, value) - tsr__key(dimension->datatype, dimension->low);
    return extent ? distance / extent : 0;
  }
  }
}

/* ---- Finding a cell ---------------------------------------------------------------------------------------------- */

/* A coordinate that is looked for. A search compares it with many cells, so what follows from it alone is computed
 * once: of integers, the space tile is an interval of distances from the domain's low end. */
typedef struct sought_coordinate {
  const tsr_point_column *column;
  const tsr_field *dimension;
  tsr_physical_type physical;
  bool integer, tiled; /* tiled: the dimension has space tiles */
  uint64_t key, low; /* low: the key of the domain's low end */
  uint64_t first, last; /* integers: distances; floats: the number of the tile, twice */
} sought_coordinate;

static uint64_t integer_key(tsr_physical_type physical, const uint8_t *values, uint64_t cell) {
  const uint64_t sign = UINT64_C(1) << 63;
  switch (physical) {
#define KEY_CASE(name, type, flipped)                                                                                  \
  case TSR_PHYSICAL_##name: {                                                                                          \
    type value;                                                                                                        \
    memcpy(&value, values + cell * sizeof value, sizeof value);                                                        \
    return (uint64_t)value ^ (flipped);                                                                                \
  }
    KEY_CASE(I8, int8_t, sign)
    KEY_CASE(I16, int16_t, sign)
    KEY_CASE(I32, int32_t, sign)
    KEY_CASE(I64, int64_t, sign)
    KEY_CASE(U8, uint8_t, 0)
    KEY_CASE(U16, uint16_t, 0)
    KEY_CASE(U32, uint32_t, 0)
    KEY_CASE(U64, uint64_t, 0)
#undef KEY_CASE
  default: return 0;
  }
}

static sought_coordinate seek_coordinate(const tsr_field *dimension, const tsr_point_column *column) {
  sought_coordinate s = {.column = column, .dimension = dimension};
  if (column->offsets) return s;
  s.physical = tsr__datatype_physical(dimension->datatype);
  s.integer = s.physical != TSR_PHYSICAL_F32 && s.physical != TSR_PHYSICAL_F64;
  s.tiled = dimension->has_extent;
  s.key = tsr__key(dimension->datatype, column->sought);
  if (!s.tiled) return s;
  s.first = s.last = tsr__tile_number(dimension, column->sought);
  if (!s.integer) return s;
  const uint64_t extent = tsr__extent(dimension);
  s.low = tsr__key(dimension->datatype, dimension->low);
  s.first = extent ? s.first * extent : 0;
  s.last = extent ? tsr__add_sat(s.first, extent - 1) : UINT64_MAX;
  return s;
}

static int compare_numbers(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static const uint8_t *coordinate_at(const sought_coordinate *s, uint64_t cell) {
  return s->column->values + cell * (s->physical == TSR_PHYSICAL_F32 ? sizeof(float) : sizeof(double));
}

/* Compares the space tile of a cell with that of the coordinate. */
static int compare_tiles(const sought_coordinate *s, uint64_t cell) {
  const uint64_t at = s->integer ? integer_key(s->physical, s->column->values, cell) - s->low
                                 : tsr__tile_number(s->dimension, coordinate_at(s, cell));
  return (at > s->last) - (at < s->first);
}

static int compare_coordinate(const sought_coordinate *s, uint64_t cell) {
  const tsr_point_column *c = s->column;
  if (c->offsets)
    return tsr__bytes_compare(c->values + c->offsets[cell], c->offsets[cell + 1] - c->offsets[cell], c->sought,
                              c->sought_size);
  return compare_numbers(s->integer ? integer_key(s->physical, c->values, cell)
                                    : tsr__key(s->dimension->datatype, coordinate_at(s, cell)),
                         s->key);
}

/* Compares a cell of a tile with the one that is looked for. */
static int compare_with_point(const tsr_schema *schema, const sought_coordinate *sought, uint32_t count,
                              uint64_t cell) {
  for (uint32_t i = 0; i < count; i++) {
    const sought_coordinate *s = &sought[schema->tile_order == TSR_ORDER_COL ? count - 1 - i : i];
    const int order = s->tiled ? compare_tiles(s, cell) : 0;
    if (order) return order;
  }
  for (uint32_t i = 0; i < count; i++) {
    const int order = compare_coordinate(&sought[schema->cell_order == TSR_ORDER_COL ? count - 1 - i : i], cell);
    if (order) return order;
  }
  return 0;
}

bool tsr__global_order_find(const tsr_schema *schema, const tsr_point_column *columns, uint32_t count, uint64_t cells,
                            uint32_t *cell) {
  sought_coordinate sought[TSR_JOINT_MAX];
  uint64_t low = 0, high = cells;
  if (count > TSR_JOINT_MAX) return false;
  for (uint32_t i = 0; i < count; i++) sought[i] = seek_coordinate(&schema->fields[columns[i].dimension], &columns[i]);
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    const int order = compare_with_point(schema, sought, count, middle);
    *cell = (uint32_t)middle;
    if (order == 0) return true;
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return false;
}

static uint64_t bucket_fixed(const tsr_field *dimension, const void *value, unsigned bits) {
  tsr_physical_type physical = tsr__datatype_physical(dimension->datatype);
  double low = tsr__physical_double(physical, dimension->low), high = tsr__physical_double(physical, dimension->high);
  double share = (tsr__physical_double(physical, value) - low) / (high - low); /* NaN if low equals high */
  uint64_t most = (UINT64_C(1) << bits) - 1, bucket = order_truncate(share * (double)most);
  /* With several dimensions the curve uses only the lower `bits` bits. With one dimension a bucket of 2^63 is clamped
   * to the end of the line. */
  return bits == 63 ? TSR_MIN(bucket, most) : bucket & most;
}

static uint64_t bucket_text(const uint8_t *text, uint64_t size, unsigned bits) {
  uint64_t bucket = 0;
  for (uint64_t i = 0; i < 8; i++) {
    bucket <<= 8;
    if (i < size) bucket |= (uint64_t)(int64_t)(int8_t)text[i];
  }
  return bucket >> (64 - bits);
}

/* Computes the position of a point on the curve, from the highest bit down. At each level the point lies in one of 2^n
 * subcubes, which one bit of each axis identifies. The curve inside that subcube is a reflected and rotated copy of the
 * whole curve, so the lower bits are transformed back: for each axis, a set bit reflects axis 0, and a clear bit
 * exchanges the axis with axis 0. The bits of the subcubes, level by level, are the Gray code of the result. */
static inline __attribute__((always_inline)) uint64_t curve_of(uint64_t *axes, unsigned dimensions, unsigned bits) {
  uint64_t gray = 0;
  for (unsigned level = bits; level-- > 0;) {
    const uint64_t below = (UINT64_C(1) << level) - 1;
    for (unsigned i = 0; i < dimensions; i++) {
      const uint64_t bit = axes[i] >> level & 1, set = 0 - bit; /* branchless: these bits are unpredictable */
      const uint64_t differ = (axes[0] ^ axes[i]) & below & ~set;
      gray = gray << 1 | bit;
      axes[0] ^= differ | (below & set);
      axes[i] ^= differ;
    }
  }
  for (unsigned shift = 1; shift < 64; shift *= 2) gray ^= gray >> shift;
  return gray;
}

static uint64_t curve(uint64_t *axes, unsigned dimensions, unsigned bits) {
  switch (dimensions) {
  case 2: return curve_of(axes, 2, 31);
  case 3: return curve_of(axes, 3, 21);
  default: return curve_of(axes, dimensions, bits);
  }
}

uint64_t tsr__hilbert_code(const tsr_schema *schema, const void *const *values, const uint64_t *sizes) {
  uint64_t axes[63];
  unsigned dimensions = schema->dimension_count;
  if (dimensions == 0 || dimensions > 63) return 0; /* no bits per dimension: all cells have the same code */
  unsigned bits = 63 / dimensions;
  for (unsigned d = 0; d < dimensions; d++) {
    const tsr_field *dimension = &schema->fields[d];
    bool text = dimension->values_per_cell == TSR_VARIABLE;
    axes[d] = text ? bucket_text(values[d], sizes[d], bits) : bucket_fixed(dimension, values[d], bits);
  }
  return curve(axes, dimensions, bits);
}

/* ---- Many cells of two dimensions ------------------------------------------------------------ */

#define ORDER_BATCH 64u
#define ORDER_LANES 8u
typedef uint32_t lanes __attribute__((vector_size(ORDER_LANES * sizeof(uint32_t))));
_Static_assert(ORDER_BATCH % ORDER_LANES == 0, "a batch is whole vectors");

/* Follows the curve through two axes of 31 bits for ORDER_LANES points at once. A level does not change the bits above
 * it, so in the end the axes hold the bits of the Gray code. */
static void curve_lanes(lanes *first, lanes *second) {
  lanes x = *first, y = *second;
  for (unsigned level = 31; level-- > 0;) {
    const uint32_t below = (UINT32_C(1) << level) - 1;
    x ^= -(x >> level & 1) & below;
    const lanes set = -(y >> level & 1), differ = (x ^ y) & below & ~set;
    x ^= differ | (set & below);
    y ^= differ;
  }
  *first = x;
  *second = y;
}

/* Spreads 31 bits, with a zero bit before each. */
static uint64_t spread(uint64_t bits) {
  bits = (bits | bits << 16) & UINT64_C(0x0000FFFF0000FFFF);
  bits = (bits | bits << 8) & UINT64_C(0x00FF00FF00FF00FF);
  bits = (bits | bits << 4) & UINT64_C(0x0F0F0F0F0F0F0F0F);
  bits = (bits | bits << 2) & UINT64_C(0x3333333333333333);
  return (bits | bits << 1) & UINT64_C(0x5555555555555555);
}

static void buckets_of(const tsr_field *dimension, const uint8_t *values, uint64_t count, uint32_t *buckets) {
  const tsr_physical_type physical = tsr__datatype_physical(dimension->datatype);
  const double low = tsr__physical_double(physical, dimension->low),
               high = tsr__physical_double(physical, dimension->high);
  const uint32_t most = INT32_MAX;
  switch (physical) {
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name:                                                                                            \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      type v;                                                                                                          \
      memcpy(&v, values + i * sizeof v, sizeof v);                                                                     \
      buckets[i] = (uint32_t)(order_truncate(((double)v - low) / (high - low) * (double)most) & most);                 \
    }                                                                                                                  \
    break;
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
}

void tsr__hilbert_codes(const tsr_schema *schema, const void *const *values, uint64_t count, uint64_t *codes) {
  const tsr_field *fields = schema->fields;
  if (schema->dimension_count != 2) {
    const void *cell[63];
    for (uint64_t i = 0; i < count; i++) {
      for (uint32_t d = 0; d < schema->dimension_count && d < 63; d++)
        cell[d] = (const uint8_t *)values[d] + i * tsr_datatype_size(fields[d].datatype);
      codes[i] = tsr__hilbert_code(schema, cell, NULL);
    }
    return;
  }
  for (uint64_t i = 0; i < count; i += ORDER_BATCH) {
    const uint64_t n = TSR_MIN(ORDER_BATCH, count - i);
    uint32_t buckets[2][ORDER_BATCH] = {{0}};
    for (unsigned d = 0; d < 2; d++)
      buckets_of(&fields[d], (const uint8_t *)values[d] + i * tsr_datatype_size(fields[d].datatype), n, buckets[d]);
    for (uint64_t k = 0; k < n; k += ORDER_LANES) {
      lanes axes[2];
      for (unsigned d = 0; d < 2; d++) memcpy(&axes[d], &buckets[d][k], sizeof axes[d]);
      curve_lanes(&axes[0], &axes[1]);
      for (unsigned d = 0; d < 2; d++) memcpy(&buckets[d][k], &axes[d], sizeof axes[d]);
    }
    for (uint64_t k = 0; k < n; k++) {
      uint64_t gray = spread(buckets[0][k]) << 1 | spread(buckets[1][k]);
      for (unsigned shift = 1; shift < 64; shift *= 2) gray ^= gray >> shift;
      codes[i + k] = gray;
    }
  }
}
