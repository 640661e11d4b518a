/* axis.c: the dimensions of an ingest's rows: the box of the rows, then extents and domains.
 *
 * A dense array has the specified domain, or that of its rows; its extents begin as the lengths of the domain, and the
 * largest is halved until a tile has at most INGEST_TILE_CELLS cells. So a small first block in a large domain does not
 * cause small tiles. A dimension that grows has no length: its extent is derived from the rows.
 *
 * A sparse array has the specified domain, or the widest one, since later rows may be anywhere. A Hilbert curve through
 * the widest domain would put all rows into one of its buckets. So the rows' box is divided into space tiles of about
 * as many rows as a data tile has, and cells are ordered by these. A floating-point dimension then has no widest
 * domain, since tiles must be numbered: its domain has 2^41 tiles, and is at least a million times as wide as the
 * largest value (FLOAT32: 2^21 tiles, and a thousand times).
 */
#include "ingest/ingest.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "model/datatype.h"
#include "model/domain.h"

#define INGEST_TILE_CELLS      262144.0
#define INGEST_LABEL_TILE      10000
#define INGEST_SPACE_TILES     64.0 /* minimum number of tiles in the rows' box: more rows may be added to it */
#define INGEST_SPACE_TILE_ROWS 2500.0

/* ---- Boxes ------------------------------------------------------------------------------------------------------- */

static double ingest_as_double(const tsr_ingest_kept *c, uint64_t word) {
  return c->is_unsigned ? (double)word : (double)(int64_t)word;
}

/* Extends the bounds of an axis by those of one part. */
static void join_bounds(ingest_axis *a, const tsr_ingest_part *part) {
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

typedef struct ingest_end { /* an end of a domain, or an extent, as specified in the column's options */
  const uint8_t *bytes;
  bool real, is_unsigned; /* FLOAT64; UINT64; else INT64 */
  bool is_end; /* no extent */
  const char *what;
} ingest_end;

/* Converts an end of the domain to the datatype of an untyped axis. */
static int convert_end(const ingest_axis *a, const ingest_end *end, uint64_t *word, tsr_error *error) {
  const char *name = a->column->given->name;
  int64_t integer;
  double real;
  memcpy(&integer, end->bytes, sizeof integer);
  memcpy(&real, end->bytes, sizeof real);
  if (a->is_real) {
    if (!end->real) real = end->is_unsigned ? (double)(uint64_t)integer : (double)integer;
    memcpy(word, &real, sizeof real);
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
  *word = (uint64_t)integer;
  return TSR_OK;
}

/* Widens a value of a datatype to a word. */
static uint64_t widen_value(tsr_datatype datatype, const uint8_t bytes[8]) {
  const uint64_t bits = 8 * tsr_datatype_size(datatype);
  uint64_t word = 0;
  memcpy(&word, bytes, bits / 8);
  if (tsr_datatype_kind(datatype) == TSR_KIND_FLOAT && bits == 32) {
    float narrow;
    memcpy(&narrow, bytes, sizeof narrow);
    const double real = narrow;
    memcpy(&word, &real, sizeof real);
  } else if (tsr_datatype_kind(datatype) == TSR_KIND_SIGNED && bits < 64 && word >> (bits - 1)) {
    word |= UINT64_MAX << bits;
  }
  return word;
}

/* Adopts domain and extent of the column's options. */
static int take_given(ingest_axis *a, tsr_error *error) {
  const tsr_ingest_column *given = a->column->given;
  const ingest_end low = {given->low, given->real, given->low_unsigned, true, "the low end of the domain"},
                   high = {given->high, given->real, given->high_unsigned, true, "the high end of the domain"},
                   extent = {given->extent, given->real_extent, true, false, "the tile extent"};
  a->has_extent = given->has_extent;
  if (a->is_text) return TSR_OK;
  if (given->label_of || (given->typed && !given->ends_untyped)) {
    const bool real = tsr_datatype_kind(a->datatype) == TSR_KIND_FLOAT;
    a->given_low = widen_value(a->datatype, given->low);
    a->given_high = widen_value(a->datatype, given->high);
    memcpy(&a->given_extent, given->extent, sizeof a->given_extent); /* a count, or a real */
    if (real) a->given_extent = widen_value(a->datatype, given->extent);
  } else {
    if (given->has_domain) TSR_TRY(convert_end(a, &low, &a->given_low, error));
    if (given->has_domain) TSR_TRY(convert_end(a, &high, &a->given_high, error));
    if (given->has_extent) TSR_TRY(convert_end(a, &extent, &a->given_extent, error));
  }
  a->extent = a->given_extent;
  return TSR_OK;
}

int tsr__ingest_axis_open(const tsr_ingest *g, uint32_t column, ingest_axis *a, tsr_error *error) {
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
    if (tsr__ingest_part(c, p)->bounded) join_bounds(a, tsr__ingest_part(c, p));
  if (!a->bounded && !a->is_text && !c->given->has_domain)
    return tsr__fail(error, TSR_CONSTRAINT, "column '%s': without rows the domain must be given, in the option domains",
                     name);
  a->length = a->high - a->low + 1;
  return take_given(a, error);
}

/* ---- The extents of dense arrays --------------------------------------------------------------------------------- */

static bool ingest_is_given(const ingest_axis *a) { return a->column && a->column->given->has_domain; }

static bool ingest_grows(const ingest_axis *a, bool row_grows) {
  return (a->column ? a->column->given->grow : row_grows) && !ingest_is_given(a);
}

void tsr__ingest_dense_extents(ingest_axis *axes, uint32_t count) {
  double cells = 1;
  for (uint32_t d = 0; d < count; d++) {
    ingest_axis *a = &axes[d];
    const uint64_t length = ingest_is_given(a) ? a->given_high - a->given_low + 1 : a->length;
    if (!a->has_extent) a->extent = length ? length : UINT64_C(1) << 62;
    cells *= (double)a->extent;
  }
  while (cells > INGEST_TILE_CELLS) {
    ingest_axis *largest = NULL;
    for (uint32_t d = 0; d < count; d++)
      if (!axes[d].has_extent && (!largest || axes[d].extent > largest->extent)) largest = &axes[d];
    if (!largest || largest->extent < 2) break;
    cells /= (double)largest->extent;
    largest->extent = largest->extent / 2 + largest->extent % 2;
    cells *= (double)largest->extent;
  }
  for (uint32_t d = 0; d < count; d++) axes[d].has_extent = true;
}

/* ---- The extents of sparse arrays -------------------------------------------------------------------------------- */

static double ingest_real(uint64_t word) {
  double real;
  memcpy(&real, &word, sizeof real);
  return real;
}

static bool ingest_is_narrow(const ingest_axis *a) { return tsr_datatype_size(a->datatype) == sizeof(float); }

/* Returns the extent, a power of two, for reals whose box is divided into `parts`; 0 if there is none. */
static double ingest_real_extent(const ingest_axis *a, double parts) {
  const double low = ingest_real(a->low), high = ingest_real(a->high), most = fmax(fabs(low), fabs(high));
  const bool narrow = ingest_is_narrow(a);
  const double least = ldexp(most, narrow ? -10 : -20), wanted = high > low ? fmax((high - low) / parts, least)
                                                                 : most > 0 ? most /* one value: nothing to divide */
                                                                            : 1;
  int exponent;
  if (!isfinite(wanted)) return 0;
  if (frexp(wanted, &exponent) == 0.5) exponent--;
  return exponent < (narrow ? -100 : -900) || exponent > (narrow ? 100 : 900) ? 0 : ldexp(1, exponent);
}

/* Returns the extent, a power of two, for integers; 0 if the datatype has no room for a tile on each side of the rows'
 * box. */
static uint64_t ingest_integer_extent(const ingest_axis *a, double parts) {
  const double length = a->length ? (double)a->length : 18446744073709551616.0;
  uint64_t extent = 1;
  uint8_t low[8], high[8];
  while ((double)extent < length / parts && !(extent >> 62)) extent *= 2;
  tsr__ingest_narrow_value(a->datatype, false, a->low, low);
  tsr__ingest_narrow_value(a->datatype, false, a->high, high);
  return tsr__key(a->datatype, low) - tsr__key_min(a->datatype) > extent &&
                 tsr__key_max(a->datatype) - tsr__key(a->datatype, high) > extent
             ? extent
             : 0;
}

/* Returns true if a specified domain has room for a tile of the axis's extent. */
static bool ingest_extent_fits(const ingest_axis *a) {
  if (!ingest_is_given(a)) return true;
  if (a->is_real) return ingest_real(a->extent) <= ingest_real(a->given_high) - ingest_real(a->given_low);
  const uint64_t range = a->given_high - a->given_low;
  uint8_t low[8];
  tsr__ingest_narrow_value(a->datatype, false, a->given_low, low);
  const uint64_t above = tsr__key_max(a->datatype) - tsr__key(a->datatype, low); /* of the low end */
  return a->extent - 1 <= range && range / a->extent * a->extent <= above - TSR_MIN(above, a->extent - 1);
}

/* Returns true if space tiles are useful, and each dimension could have an extent. */
static bool ingest_has_space_tiles(const ingest_axis *axes, uint32_t count) {
  bool given = true;
  for (uint32_t d = 0; d < count; d++) {
    if (axes[d].is_text || !axes[d].finite || !axes[d].bounded || axes[d].has_extent) return false;
    given &= ingest_is_given(&axes[d]);
  }
  return count >= 2 && !given; /* specified domains suit a Hilbert curve */
}

void tsr__ingest_sparse_extents(ingest_axis *axes, uint32_t count, uint64_t rows, bool hilbert) {
  const double tiles = fmax(INGEST_SPACE_TILES, (double)rows / INGEST_SPACE_TILE_ROWS);
  const double parts = ceil(pow(tiles, 1.0 / count));
  for (uint32_t d = 0; d < count; d++) {
    ingest_axis *a = &axes[d];
    if (!a->column->given->label_of || a->has_extent) continue;
    a->has_extent = true; /* labels need one */
    a->extent = a->length && a->length < INGEST_LABEL_TILE ? a->length : INGEST_LABEL_TILE;
  }
  bool fits = !hilbert && ingest_has_space_tiles(axes, count);
  for (uint32_t d = 0; d < count && fits; d++) {
    ingest_axis *a = &axes[d];
    const double real = a->is_real ? ingest_real_extent(a, parts) : 0;
    if (a->is_real) memcpy(&a->extent, &real, sizeof real);
    else a->extent = ingest_integer_extent(a, parts);
    fits = a->extent && ingest_extent_fits(a);
  }
  for (uint32_t d = 0; d < count && fits; d++) axes[d].has_extent = true;
}

/* ---- Domains ----------------------------------------------------------------------------------------------------- */

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

/* Sets the widest domain of integers or instants that the extent divides; the domain of the rows' box if no such domain
 * contains it. */
static void widen_tiles(const ingest_axis *a, tsr_field *field) {
  const bool instant = !tsr__datatype_is_integral(a->datatype); /* NaT is not a coordinate */
  const uint64_t key = tsr__key(a->datatype, field->low), last = tsr__key(a->datatype, field->high),
                 max = tsr__key_max(a->datatype),
                 min = a->column ? tsr__key_min(a->datatype) + instant : key, /* rows are counted from 0 */
      low = key - (key - min) / a->extent * a->extent, /* keep the tiles aligned with the rows' box */
      high = low + ((max - low) / a->extent * a->extent - 1);
  if (high < last) return;
  tsr__key_value(a->datatype, low, field->low);
  tsr__key_value(a->datatype, high, field->high);
}

/* Sets the widest domain of reals around the rows' box. */
static void widen_reals(const ingest_axis *a, tsr_field *field) {
  const bool narrow = ingest_is_narrow(a);
  const double most = a->has_extent ? ldexp(ingest_real(a->extent), narrow ? 20 : 40)
                                    : (narrow ? FLT_MAX : DBL_MAX) / 4; /* the difference of the ends is finite, too */
  const double low = fmin(-most, ingest_real(a->low)), high = fmax(most, ingest_real(a->high));
  uint64_t word;
  memcpy(&word, &low, sizeof word);
  tsr__ingest_narrow_value(a->datatype, true, word, field->low);
  memcpy(&word, &high, sizeof word);
  tsr__ingest_narrow_value(a->datatype, true, word, field->high);
}

/* Sets the widest domain of integers or instants without an extent. A domain must not cover the whole range of the
 * datatype. */
static void widen_integers(const ingest_axis *a, tsr_field *field) {
  const uint64_t min = tsr__key_min(a->datatype), max = tsr__key_max(a->datatype);
  const bool instant = !tsr__datatype_is_integral(a->datatype), full = tsr__key(a->datatype, field->high) == max;
  tsr__key_value(a->datatype, TSR_MIN(min + (instant || full), tsr__key(a->datatype, field->low)), field->low);
  tsr__key_value(a->datatype, full ? max : max - 1, field->high);
}

/* Fails if the rows' box is not within the specified domain. */
static int check_domain(const ingest_axis *a, const tsr_field *field, tsr_error *error) {
  uint8_t low[8], high[8];
  if (!a->bounded) return TSR_OK;
  tsr__ingest_narrow_value(a->datatype, a->is_real, a->low, low);
  tsr__ingest_narrow_value(a->datatype, a->is_real, a->high, high);
  if (tsr__key(a->datatype, low) >= tsr__key(a->datatype, field->low) &&
      tsr__key(a->datatype, high) <= tsr__key(a->datatype, field->high))
    return TSR_OK;
  if (a->column->label)
    return tsr__fail(error, TSR_RANGE,
                     "dimension '%s': the labels of column '%s' take %llu to %llu, not all of which are in its domain",
                     field->name, a->column->given->name, (unsigned long long)a->low, (unsigned long long)a->high);
  return tsr__fail(error, TSR_RANGE, "column '%s': rows are outside of the domain that was given", field->name);
}

int tsr__ingest_dimension(const ingest_axis *a, bool dense, bool row_grows, tsr_field *field, tsr_interval *current,
                          tsr_error *error) {
  const tsr_ingest_column *given = a->column ? a->column->given : NULL;
  field->is_dimension = true;
  field->datatype = a->datatype;
  field->values_per_cell = a->is_text ? TSR_VARIABLE : 1;
  field->duration = given && given->duration && tsr_datatype_kind(a->datatype) == TSR_KIND_TIME;
  field->filters = given && given->filters ? *given->filters : tsr__ingest_filters(field);
  if (a->is_text) {
    if (given->has_domain || given->has_extent)
      return tsr__fail(error, TSR_CONSTRAINT, "column '%s': a dimension of strings has no domain", field->name);
    return TSR_OK;
  }
  field->has_domain = true;
  field->has_extent = a->has_extent;
  if (a->has_extent) tsr__ingest_narrow_value(a->datatype, a->is_real, a->extent, field->extent);
  tsr__ingest_narrow_value(a->datatype, a->is_real, a->low, field->low);
  tsr__ingest_narrow_value(a->datatype, a->is_real, a->high, field->high);
  memcpy(current->low, field->low, 8);
  memcpy(current->high, field->high, 8);
  if (ingest_is_given(a)) {
    tsr__ingest_narrow_value(a->datatype, a->is_real, a->given_low, field->low);
    tsr__ingest_narrow_value(a->datatype, a->is_real, a->given_high, field->high);
    return check_domain(a, field, error);
  }
  /* The array of a label has the domain of its dimension, and TileDB reads it whole: it stays as small as its rows. */
  if ((dense || (given && given->label_of)) && !ingest_grows(a, row_grows)) return TSR_OK;
  if (a->is_real) widen_reals(a, field);
  else if (a->has_extent) widen_tiles(a, field);
  else widen_integers(a, field);
  return TSR_OK;
}
