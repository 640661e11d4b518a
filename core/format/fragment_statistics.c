/* fragment_statistics.c: computes minima, maxima, sums and null counts, for each tile and for the fragment.
 *
 * TileDB answers queries from statistics, so these must be the same as TileDB's to the last bit (errata.md,
 * "Statistics"):
 *  - Attributes have bounds if they are single numbers, datetimes or times, or CHAR or ASCII of any length. CHAR and
 *    ASCII are compared as unsigned bytes up to the first NUL.
 *  - Single numbers and CHAR, as a signed byte, have sums, dimensions too.
 *  - A minimum starts as the greatest value of the datatype and is replaced by each value unless it is less than that
 *    value; a maximum likewise. So a NaN replaces every bound, and the next value replaces the NaN.
 *  - Sums of integers have 64 bits and saturate; sums of floats are doubles and saturate at the greatest finite values.
 *    Once a sum has saturated, the rest of its cell range is not added; the next range is.
 *  - A tile that has only nulls has bounds of zero bytes, or empty bounds if they are of variable size.
 * Null counts are exact for every nullable field, even where TileDB's are not.
 *
 * Sections: numbers, strings, tiles, all tiles.
 */
#include "format/fragment_statistics.h"

#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "model/datatype.h"

static bool is_text(const tsr_field *field) { return field->datatype == TSR_CHAR || field->datatype == TSR_ASCII; }

static bool is_number(const tsr_field *field) {
  tsr_kind kind = tsr_datatype_kind(field->datatype);
  return field->values_per_cell == 1 && kind != TSR_KIND_TEXT && kind != TSR_KIND_BYTES;
}

bool tsr__statistics_have_bounds(const tsr_field *field) {
  return !field->is_dimension && (is_text(field) || is_number(field));
}

bool tsr__statistics_have_sum(const tsr_field *field) {
  return is_number(field) || (field->datatype == TSR_CHAR && field->values_per_cell == 1);
}

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

static bool statistics_add_signed(int64_t *sum, int64_t value) {
  if (!__builtin_add_overflow(*sum, value, sum)) return true;
  *sum = value > 0 ? INT64_MAX : INT64_MIN;
  return false;
}

static bool statistics_add_unsigned(uint64_t *sum, uint64_t value) {
  if (!__builtin_add_overflow(*sum, value, sum)) return true;
  *sum = UINT64_MAX;
  return false;
}

static bool add_float(double *sum, double value) {
  const double most = __DBL_MAX__;
  if ((*sum < 0) == (value < 0) && fabs(*sum) > most - fabs(value)) {
    *sum = *sum < 0 ? -most : most;
    return false;
  }
  *sum += value;
  return true;
}

#define SUM_I8  int64_t
#define SUM_I16 int64_t
#define SUM_I32 int64_t
#define SUM_I64 int64_t
#define SUM_U8  uint64_t
#define SUM_U16 uint64_t
#define SUM_U32 uint64_t
#define SUM_U64 uint64_t
#define SUM_F32 double
#define SUM_F64 double
#define ADD_I8  statistics_add_signed
#define ADD_I16 statistics_add_signed
#define ADD_I32 statistics_add_signed
#define ADD_I64 statistics_add_signed
#define ADD_U8  statistics_add_unsigned
#define ADD_U16 statistics_add_unsigned
#define ADD_U32 statistics_add_unsigned
#define ADD_U64 statistics_add_unsigned
#define ADD_F32 add_float
#define ADD_F64 add_float
#define MIN_I8  INT8_MIN
#define MAX_I8  INT8_MAX
#define MIN_I16 INT16_MIN
#define MAX_I16 INT16_MAX
#define MIN_I32 INT32_MIN
#define MAX_I32 INT32_MAX
#define MIN_I64 INT64_MIN
#define MAX_I64 INT64_MAX
#define MIN_U8  0
#define MAX_U8  UINT8_MAX
#define MIN_U16 0
#define MAX_U16 UINT16_MAX
#define MIN_U32 0
#define MAX_U32 UINT32_MAX
#define MIN_U64 0
#define MAX_U64 UINT64_MAX
#define MIN_F32 -__FLT_MAX__
#define MAX_F32 __FLT_MAX__
#define MIN_F64 -__DBL_MAX__
#define MAX_F64 __DBL_MAX__

/* Least and greatest value of each physical type. The bounds of a tile point here until a value replaces them. */
#define X(name, type) static const type ends_##name[2] = {MIN_##name, MAX_##name};
TSR_PHYSICAL_TYPES(X)
#undef X

/* Most values are taken block by block. Within a block, no value is compared with what came before, and no addition is
 * tested. That gives the same bits as one value after the other, unless there is a NaN, an infinity, or a sum that may
 * saturate: then the values of the block are taken one by one. */
#define STATISTICS_BLOCK 512u

static int64_t sum_signed(int64_t sum, int64_t value) { return (int64_t)((uint64_t)sum + (uint64_t)value); }
static uint64_t sum_unsigned(uint64_t sum, uint64_t value) { return sum + value; }
static double sum_floats(double sum, double value) { return sum + value; }

/* Return true if no sum of `sum` and up to `count` values from `low` to `high` saturates. */
static bool fits_signed(int64_t sum, int64_t low, int64_t high, int64_t count) {
  return TSR_MAX(high, 0) <= (INT64_MAX - TSR_MAX(sum, 0)) / count &&
         TSR_MIN(low, 0) >= (INT64_MIN - TSR_MIN(sum, 0)) / count;
}
static bool fits_unsigned(uint64_t sum, uint64_t low, uint64_t high, uint64_t count) {
  (void)low;
  return high <= (UINT64_MAX - sum) / count;
}
static bool fits_floats(double sum, double low, double high, double count) {
  return fabs(sum) + count * (fabs(low) + fabs(high)) < __DBL_MAX__ / 2; /* false for NaN, too */
}

#define SUM_OF_I8    sum_signed
#define SUM_OF_I16   sum_signed
#define SUM_OF_I32   sum_signed
#define SUM_OF_I64   sum_signed
#define SUM_OF_U8    sum_unsigned
#define SUM_OF_U16   sum_unsigned
#define SUM_OF_U32   sum_unsigned
#define SUM_OF_U64   sum_unsigned
#define SUM_OF_F32   sum_floats
#define SUM_OF_F64   sum_floats
#define SUM_FITS_I8  fits_signed
#define SUM_FITS_I16 fits_signed
#define SUM_FITS_I32 fits_signed
#define SUM_FITS_I64 fits_signed
#define SUM_FITS_U8  fits_unsigned
#define SUM_FITS_U16 fits_unsigned
#define SUM_FITS_U32 fits_unsigned
#define SUM_FITS_U64 fits_unsigned
#define SUM_FITS_F32 fits_floats
#define SUM_FITS_F64 fits_floats

#define X(name, type)                                                                                                  \
  typedef struct numbers_##name {                                                                                      \
    type low, high;                                                                                                    \
    const uint8_t *low_at, *high_at;                                                                                   \
    SUM_##name sum;                                                                                                    \
    bool adds; /* the sum has not saturated within the present range */                                                \
  } numbers_##name;                                                                                                    \
                                                                                                                       \
  static void collect_one_##name(numbers_##name *n, const uint8_t *at) {                                               \
    type value;                                                                                                        \
    memcpy(&value, at, sizeof value);                                                                                  \
    if (!(n->low < value)) n->low = value, n->low_at = at;                                                             \
    if (!(n->high > value)) n->high = value, n->high_at = at;                                                          \
    if (n->adds) n->adds = ADD_##name(&n->sum, (SUM_##name)value);                                                     \
  }                                                                                                                    \
                                                                                                                       \
  /* Returns the last of the values that equals `value`: one of them does. */                                          \
  static const uint8_t *last_##name(const uint8_t *at, uint64_t count, type value) {                                   \
    type one;                                                                                                          \
    do memcpy(&one, at + --count * sizeof one, sizeof one);                                                            \
    while (count > 0 && one != value);                                                                                 \
    return at + count * sizeof one;                                                                                    \
  }                                                                                                                    \
                                                                                                                       \
  /* Takes at most STATISTICS_BLOCK values. Returns false if they must be taken one by one. */                         \
  static bool collect_block_##name(numbers_##name *n, const uint8_t *at, uint64_t count) {                             \
    type low, high, value;                                                                                             \
    SUM_##name sum = n->sum;                                                                                           \
    memcpy(&low, at, sizeof low);                                                                                      \
    high = low;                                                                                                        \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      memcpy(&value, at + i * sizeof value, sizeof value);                                                             \
      low = value < low ? value : low;                                                                                 \
      high = value > high ? value : high;                                                                              \
      sum = SUM_OF_##name(sum, (SUM_##name)value);                                                                     \
    }                                                                                                                  \
    if (!n->adds || sum != sum || !SUM_FITS_##name(n->sum, low, high, (SUM_##name)count)) return false;                \
    n->sum = sum;                                                                                                      \
    if (!(n->low < low)) n->low = low, n->low_at = last_##name(at, count, low);                                        \
    if (!(n->high > high)) n->high = high, n->high_at = last_##name(at, count, high);                                  \
    return true;                                                                                                       \
  }                                                                                                                    \
                                                                                                                       \
  static void collect_range_##name(numbers_##name *n, const uint8_t *at, const uint8_t *validity, uint64_t count) {    \
    n->adds = true;                                                                                                    \
    for (uint64_t i = 0; i < count;) {                                                                                 \
      const uint64_t end = i + TSR_MIN(count - i, STATISTICS_BLOCK);                                                   \
      const bool whole = !validity || !memchr(validity + i, 0, end - i);                                               \
      if (whole && collect_block_##name(n, at + i * sizeof(type), end - i)) i = end;                                   \
      for (; i < end; i++)                                                                                             \
        if (!validity || validity[i]) collect_one_##name(n, at + i * sizeof(type));                                    \
    }                                                                                                                  \
  }
TSR_PHYSICAL_TYPES(X)
#undef X

/* Computes bounds and sum of single numbers. The bounds point to the values. */
static void collect_numbers(tsr_physical_type physical, const uint8_t *values, const uint8_t *validity,
                            const tsr_cell_range *ranges, uint64_t range_count, tsr_cell_statistics *tile) {
  switch (physical) {
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name: {                                                                                          \
    numbers_##name n = {                                                                                               \
        ends_##name[1], ends_##name[0], (const uint8_t *)&ends_##name[1], (const uint8_t *)&ends_##name[0], 0, true};  \
    for (uint64_t r = 0; r < range_count; r++)                                                                         \
      collect_range_##name(&n, values + ranges[r].first * sizeof(type), validity ? validity + ranges[r].first : NULL,  \
                           ranges[r].count);                                                                           \
    tile->min = n.low_at;                                                                                              \
    tile->max = n.high_at;                                                                                             \
    tile->min_size = tile->max_size = sizeof(type);                                                                    \
    memcpy(tile->sum, &n.sum, 8);                                                                                      \
    return;                                                                                                            \
  }
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
}

/* ---- Strings ----------------------------------------------------------------------------------------------------- */

/* Compares like strncmp: at most `size` bytes, and none after a NUL. */
static int compare_bytes(const uint8_t *a, const uint8_t *b, uint64_t size) {
  for (uint64_t i = 0; i < size; i++) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    if (!a[i]) return 0;
  }
  return 0;
}

/* Widens the bounds of values of one size. Among equal values the first is kept. */
static void bound_fixed_text(const uint8_t *value, uint64_t size, tsr_cell_statistics *all) {
  if (!all->min || compare_bytes(all->min, value, size) > 0) all->min = value;
  if (!all->max || compare_bytes(all->max, value, size) < 0) all->max = value;
  all->min_size = all->max_size = size;
}

static void bound_text(const uint8_t *low, uint64_t low_size, const uint8_t *high, uint64_t high_size,
                       tsr_cell_statistics *all) {
  int c = all->min ? compare_bytes(all->min, low, TSR_MIN(all->min_size, low_size)) : 1;
  if (c > 0 || (c == 0 && low_size < all->min_size)) {
    all->min = low;
    all->min_size = low_size;
  }
  c = all->max ? compare_bytes(all->max, high, TSR_MIN(all->max_size, high_size)) : -1;
  if (c < 0 || (c == 0 && high_size > all->max_size)) {
    all->max = high;
    all->max_size = high_size;
  }
}

static void collect_texts(const tsr_field *field, const uint8_t *values, const uint64_t *offsets,
                          const uint8_t *validity, const tsr_cell_range *ranges, uint64_t range_count,
                          tsr_cell_statistics *tile) {
  for (uint64_t r = 0; r < range_count; r++) {
    for (uint64_t i = ranges[r].first; i < ranges[r].first + ranges[r].count; i++) {
      if (validity && !validity[i]) continue;
      if (offsets) {
        const uint8_t *value = values + offsets[i];
        uint64_t size = offsets[i + 1] - offsets[i];
        bound_text(value, size, value, size, tile);
      } else {
        bound_fixed_text(values + i * field->cell_size, field->cell_size, tile);
      }
    }
  }
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

void tsr__statistics_of_tile(const tsr_field *field, const uint8_t *values, const uint64_t *offsets,
                             const uint8_t *validity, const tsr_cell_range *ranges, uint64_t range_count,
                             tsr_cell_statistics *tile) {
  *tile = (tsr_cell_statistics){0};
  uint64_t cells = 0;
  for (uint64_t r = 0; r < range_count; r++) {
    cells += ranges[r].count;
    for (uint64_t i = 0; validity && i < ranges[r].count; i++) tile->null_count += !validity[ranges[r].first + i];
  }
  tile->valued = tile->null_count < cells;
  if (!tile->valued) return;
  if (is_number(field))
    collect_numbers(tsr__datatype_physical(field->datatype), values, validity, ranges, range_count, tile);
  if (!is_text(field) || field->is_dimension) return;
  if (tsr__statistics_have_sum(field)) collect_numbers(TSR_PHYSICAL_I8, values, validity, ranges, range_count, tile);
  tile->min = tile->max = NULL;
  collect_texts(field, values, offsets, validity, ranges, range_count, tile);
}

/* ---- All tiles --------------------------------------------------------------------------------------------------- */

static tsr_buffer *buffers_of(tsr_statistics_writer *writer, unsigned i) {
  tsr_buffer *all[] = {&writer->min,  &writer->max,         &writer->min_text, &writer->max_text,
                       &writer->sums, &writer->null_counts, &writer->valued};
  return i < sizeof all / sizeof *all ? all[i] : NULL;
}

void tsr__statistics_writer_init(tsr_statistics_writer *writer, const tsr_field *field, tsr_memory *memory) {
  *writer = (tsr_statistics_writer){.field = field};
  for (unsigned i = 0; buffers_of(writer, i); i++) buffers_of(writer, i)->memory = memory;
}

void tsr__statistics_writer_release(tsr_statistics_writer *writer) {
  for (unsigned i = 0; buffers_of(writer, i); i++) tsr__buffer_release(buffers_of(writer, i));
}

static int add_bound(const tsr_field *field, const uint8_t *value, uint64_t size, tsr_buffer *values, tsr_buffer *text,
                     tsr_error *error) {
  if (field->cell_size) {
    TSR_TRY(tsr__buffer_reserve(values, field->cell_size, error));
    memset(values->data + values->size, 0, field->cell_size);
    if (value) memcpy(values->data + values->size, value, field->cell_size);
    values->size += field->cell_size;
    return TSR_OK;
  }
  TSR_TRY(tsr__buffer_append_u64(values, text->size, error));
  return size ? tsr__buffer_append(text, value, size, error) : TSR_OK;
}

int tsr__statistics_writer_add(tsr_statistics_writer *writer, const tsr_cell_statistics *tile, tsr_error *error) {
  const tsr_field *field = writer->field;
  if (tsr__statistics_have_bounds(field)) {
    TSR_TRY(add_bound(field, tile->min, tile->min_size, &writer->min, &writer->min_text, error));
    TSR_TRY(add_bound(field, tile->max, tile->max_size, &writer->max, &writer->max_text, error));
  }
  if (tsr__statistics_have_sum(field)) TSR_TRY(tsr__buffer_append(&writer->sums, tile->sum, 8, error));
  if (field->nullable) TSR_TRY(tsr__buffer_append_u64(&writer->null_counts, tile->null_count, error));
  return tsr__buffer_append_u8(&writer->valued, tile->valued, error);
}

static void join_sums(const tsr_statistics_writer *writer, tsr_cell_statistics *all) {
  tsr_physical_type physical = tsr__datatype_physical(writer->field->datatype);
  if (writer->field->datatype == TSR_CHAR) physical = TSR_PHYSICAL_I8;
  bool adds = true;
  for (uint64_t i = 0; i < writer->valued.size && adds; i++) {
    const uint8_t *one = writer->sums.data + 8 * i;
    if (!writer->valued.data[i]) continue;
    switch (physical) {
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name: {                                                                                          \
    SUM_##name sum, value;                                                                                             \
    memcpy(&sum, all->sum, 8);                                                                                         \
    memcpy(&value, one, 8);                                                                                            \
    adds = ADD_##name(&sum, value);                                                                                    \
    memcpy(all->sum, &sum, 8);                                                                                         \
    break;                                                                                                             \
  }
      TSR_PHYSICAL_TYPES(X)
#undef X
    }
  }
}

static void text_of(const tsr_buffer *offsets, const tsr_buffer *text, uint64_t i, const uint8_t **value,
                    uint64_t *size) {
  uint64_t begin = tsr__load64(offsets->data + 8 * i);
  uint64_t end = 8 * (i + 1) < offsets->size ? tsr__load64(offsets->data + 8 * (i + 1)) : text->size;
  *value = text->data ? text->data + begin : (const uint8_t *)"";
  *size = end - begin;
}

/* Computes the bounds of the fragment from the tiles' bounds, by the same rules as for values. */
static void join_bounds(const tsr_statistics_writer *writer, tsr_cell_statistics *all) {
  const tsr_field *field = writer->field;
  for (uint64_t i = 0; i < writer->valued.size; i++) {
    if (!writer->valued.data[i]) continue;
    if (!field->cell_size) {
      const uint8_t *low, *high;
      uint64_t low_size, high_size;
      text_of(&writer->min, &writer->min_text, i, &low, &low_size);
      text_of(&writer->max, &writer->max_text, i, &high, &high_size);
      bound_text(low, low_size, high, high_size, all);
    } else if (is_text(field)) {
      const uint8_t *low = writer->min.data + i * field->cell_size, *high = writer->max.data + i * field->cell_size;
      if (!all->min || compare_bytes(all->min, low, field->cell_size) > 0) all->min = low;
      if (!all->max || compare_bytes(all->max, high, field->cell_size) < 0) all->max = high;
      all->min_size = all->max_size = field->cell_size;
    }
  }
  if (is_text(field)) return;
  /* `valued` serves as the validity: tiles that have only nulls are skipped like null cells */
  tsr_physical_type physical = tsr__datatype_physical(field->datatype);
  const tsr_cell_range all_tiles = {0, writer->valued.size};
  tsr_cell_statistics other = {0};
  collect_numbers(physical, writer->min.data, writer->valued.data, &all_tiles, 1, all);
  collect_numbers(physical, writer->max.data, writer->valued.data, &all_tiles, 1, &other);
  all->max = other.max;
  memset(all->sum, 0, sizeof all->sum);
}

void tsr__statistics_of_fragment(const tsr_statistics_writer *writer, tsr_cell_statistics *fragment) {
  tsr_cell_statistics all = {0};
  for (uint64_t i = 0; i < writer->valued.size; i++) all.valued = all.valued || writer->valued.data[i];
  for (uint64_t i = 0; i < writer->null_counts.size; i += 8)
    all.null_count += tsr__load64(writer->null_counts.data + i);
  if (writer->field && tsr__statistics_have_bounds(writer->field)) join_bounds(writer, &all);
  if (writer->field && tsr__statistics_have_sum(writer->field)) join_sums(writer, &all);
  *fragment = all;
}
