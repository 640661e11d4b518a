/* datatype.c: the table of datatypes, the order keys of their values, and the text of real numbers.
 *
 * On disk a datatype is one byte, its code in TSR_DATATYPES (tessera_format.h), and a value is little-endian. The
 * default fill value is the least value of signed, datetime and time types, the greatest value of unsigned types, a
 * quiet NaN for floats, 0x80 for CHAR, and zero bytes for all other types.
 *
 * Order keys (see datatype.h):
 *   signed, datetime, time   value + 2^63, so that the difference of two keys is the difference of their values
 *   unsigned, BOOL           the value; for text and bytes, one code unit
 *   floats                   the value's bits, 32 for FLOAT32: all of them inverted if the sign bit is set, otherwise
 *                            only the sign bit. -0.0 is treated as 0.0, so the key just below that of 0.0 belongs to no
 *                            value. The key of NaN is TSR_KEY_NAN.
 */
#include "model/datatype.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIGN64 (UINT64_C(1) << 63)
#define SIGN32 (UINT32_C(1) << 31)

static const struct datatype {
  const char *name;
  uint8_t size;
  uint8_t kind;
} datatypes[TSR_DATATYPE_COUNT] = {
#define X(name, code, size, kind) [code] = {#name, size, TSR_KIND_##kind},
    TSR_DATATYPES(X)
#undef X
};

bool tsr__datatype_valid(uint8_t code) { return code < TSR_DATATYPE_COUNT; }

/* Returns true for a datatype in the table. A caller may have cast any number to the enum, which is unsigned in gcc and
 * clang. */
static bool known(tsr_datatype datatype) { return (uint32_t)datatype < TSR_DATATYPE_COUNT; }

const char *tsr_datatype_name(tsr_datatype datatype) { return known(datatype) ? datatypes[datatype].name : "?"; }

uint64_t tsr_datatype_size(tsr_datatype datatype) { return known(datatype) ? datatypes[datatype].size : 0; }

tsr_kind tsr_datatype_kind(tsr_datatype datatype) {
  return known(datatype) ? (tsr_kind)datatypes[datatype].kind : TSR_KIND_BYTES;
}

tsr_physical_type tsr__datatype_physical(tsr_datatype datatype) {
  switch (tsr_datatype_kind(datatype)) {
  case TSR_KIND_FLOAT: return datatype == TSR_FLOAT32 ? TSR_PHYSICAL_F32 : TSR_PHYSICAL_F64;
  case TSR_KIND_DATETIME:
  case TSR_KIND_TIME: return TSR_PHYSICAL_I64;
  case TSR_KIND_SIGNED:
    switch (tsr_datatype_size(datatype)) {
    case 1: return TSR_PHYSICAL_I8;
    case 2: return TSR_PHYSICAL_I16;
    case 4: return TSR_PHYSICAL_I32;
    default: return TSR_PHYSICAL_I64;
    }
  default:
    switch (tsr_datatype_size(datatype)) {
    case 2: return TSR_PHYSICAL_U16;
    case 4: return TSR_PHYSICAL_U32;
    case 8: return TSR_PHYSICAL_U64;
    default: return TSR_PHYSICAL_U8;
    }
  }
}

bool tsr__datatype_is_dimension(tsr_datatype datatype) {
  if (!known(datatype)) return false;
  switch (tsr_datatype_kind(datatype)) {
  case TSR_KIND_SIGNED:
  case TSR_KIND_UNSIGNED:
  case TSR_KIND_FLOAT:
  case TSR_KIND_DATETIME:
  case TSR_KIND_TIME: return true;
  default: return datatype == TSR_ASCII;
  }
}

void tsr__datatype_fill(tsr_datatype datatype, void *value) {
  uint8_t *bytes = value;
  uint64_t size = tsr_datatype_size(datatype);
  switch (tsr_datatype_kind(datatype)) {
  case TSR_KIND_SIGNED:
  case TSR_KIND_DATETIME:
  case TSR_KIND_TIME:
    memset(bytes, 0, size);
    bytes[size - 1] = 0x80;
    break;
  case TSR_KIND_UNSIGNED: memset(bytes, 0xff, size); break;
  case TSR_KIND_FLOAT:
    if (size == 4) tsr__store32(bytes, UINT32_C(0x7fc00000));
    else tsr__store64(bytes, UINT64_C(0x7ff8000000000000));
    break;
  default: memset(bytes, datatype == TSR_CHAR ? 0x80 : 0, size); break;
  }
}

void tsr_datatype_fill(tsr_datatype datatype, void *value) { tsr__datatype_fill(datatype, value); }

/* ---- Order keys ------------------------------------------------------------------------------ */

static inline uint64_t key_signed(int64_t value) { return (uint64_t)value ^ SIGN64; }
static inline uint64_t key_unsigned(uint64_t value) { return value; }

static inline uint64_t key_f64(double value) {
  if (value != value) return TSR_KEY_NAN;
  value += 0.0; /* -0.0 becomes 0.0 */
  uint64_t bits = tsr__load64(&value);
  return bits & SIGN64 ? ~bits : bits | SIGN64;
}

static inline uint64_t key_f32(float value) {
  if (value != value) return TSR_KEY_NAN;
  value += 0.0f;
  uint32_t bits = tsr__load32(&value);
  return bits & SIGN32 ? ~bits : bits | SIGN32;
}

#define KEY_I8  key_signed
#define KEY_I16 key_signed
#define KEY_I32 key_signed
#define KEY_I64 key_signed
#define KEY_U8  key_unsigned
#define KEY_U16 key_unsigned
#define KEY_U32 key_unsigned
#define KEY_U64 key_unsigned
#define KEY_F32 key_f32
#define KEY_F64 key_f64

void tsr__keys(tsr_datatype datatype, const void *values, uint64_t count, uint64_t *keys) {
  const uint8_t *bytes = values;
  switch (tsr__datatype_physical(datatype)) {
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name:                                                                                            \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      type value;                                                                                                      \
      memcpy(&value, bytes + i * sizeof value, sizeof value);                                                          \
      keys[i] = KEY_##name(value);                                                                                     \
    }                                                                                                                  \
    break;
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
}

uint64_t tsr__extent(const tsr_field *dimension) {
  uint64_t extent = 0;
  memcpy(&extent, dimension->extent, tsr_datatype_size(dimension->datatype));
  return extent;
}

uint64_t tsr__key(tsr_datatype datatype, const void *value) {
  uint64_t key = 0;
  tsr__keys(datatype, value, 1, &key);
  return key;
}

void tsr__key_value(tsr_datatype datatype, uint64_t key, void *value) {
  switch (tsr__datatype_physical(datatype)) {
  case TSR_PHYSICAL_F32: {
    uint32_t bits = key & SIGN32 ? (uint32_t)key & ~SIGN32 : ~(uint32_t)key;
    if (key < tsr__key_min(datatype) || key > tsr__key_max(datatype)) bits = UINT32_C(0x7fc00000);
    tsr__store32(value, bits == SIGN32 ? 0 : bits);
    break;
  }
  case TSR_PHYSICAL_F64: {
    uint64_t bits = key & SIGN64 ? key & ~SIGN64 : ~key;
    if (key < tsr__key_min(datatype) || key > tsr__key_max(datatype)) bits = UINT64_C(0x7ff8000000000000);
    tsr__store64(value, bits == SIGN64 ? 0 : bits);
    break;
  }
  case TSR_PHYSICAL_I8:
  case TSR_PHYSICAL_I16:
  case TSR_PHYSICAL_I32:
  case TSR_PHYSICAL_I64: key ^= SIGN64; /* fall through */
  default: memcpy(value, &key, tsr_datatype_size(datatype)); break;
  }
}

uint64_t tsr__key_min(tsr_datatype datatype) {
  switch (tsr__datatype_physical(datatype)) {
  case TSR_PHYSICAL_I8: return key_signed(INT8_MIN);
  case TSR_PHYSICAL_I16: return key_signed(INT16_MIN);
  case TSR_PHYSICAL_I32: return key_signed(INT32_MIN);
  case TSR_PHYSICAL_F32: return key_f32(-__builtin_inff());
  case TSR_PHYSICAL_F64: return key_f64(-__builtin_inf());
  default: return 0;
  }
}

uint64_t tsr__key_max(tsr_datatype datatype) {
  switch (tsr__datatype_physical(datatype)) {
  case TSR_PHYSICAL_I8: return key_signed(INT8_MAX);
  case TSR_PHYSICAL_I16: return key_signed(INT16_MAX);
  case TSR_PHYSICAL_I32: return key_signed(INT32_MAX);
  case TSR_PHYSICAL_U8: return UINT8_MAX;
  case TSR_PHYSICAL_U16: return UINT16_MAX;
  case TSR_PHYSICAL_U32: return UINT32_MAX;
  case TSR_PHYSICAL_F32: return key_f32(__builtin_inff());
  case TSR_PHYSICAL_F64: return key_f64(__builtin_inf());
  default: return UINT64_MAX;
  }
}

/* ---- Values as text ---------------------------------------------------------------------------------------------- */

int tsr_real_print(double value, int digits, char text[TSR_REAL_SIZE]) {
  char local[TSR_REAL_SIZE + 16]; /* with the locale's decimal point, which may have several bytes */
  int size = 0;
  if (isnan(value) || isinf(value))
    return snprintf(text, TSR_REAL_SIZE, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
  snprintf(local, sizeof local, "%.*g", digits, value);
  for (const char *p = local; *p && size < TSR_REAL_SIZE - 1; p++) {
    const bool ours = strchr("0123456789+-e", *p) != NULL;
    if (ours || size == 0 || text[size - 1] != '.') text[size++] = ours ? *p : '.';
  }
  text[size] = 0;
  return size;
}

void tsr__value_print(tsr_datatype datatype, const uint8_t *value, char *text, size_t size) {
  char iso[48], real[TSR_REAL_SIZE];
  uint64_t bits = 0;
  tsr_kind kind = tsr_datatype_kind(datatype);
  memcpy(&bits, value, tsr_datatype_size(datatype));
  int64_t number = (int64_t)(tsr__key(datatype, value) ^ UINT64_C(1) << 63);
  if ((kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) && tsr_datetime_print(datatype, number, iso))
    snprintf(text, size, "%s", iso);
  else if (datatype == TSR_FLOAT64) {
    double d;
    memcpy(&d, value, 8);
    tsr_real_print(d, 17, real);
    snprintf(text, size, "%s", real);
  } else if (datatype == TSR_FLOAT32) {
    float f;
    memcpy(&f, value, 4);
    tsr_real_print((double)f, 9, real);
    snprintf(text, size, "%s", real);
  } else if (kind == TSR_KIND_UNSIGNED) snprintf(text, size, "%" PRIu64, bits);
  else snprintf(text, size, "%" PRId64, number);
}
