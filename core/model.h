/* model.h: values and geometry. Pure functions: no I/O, no state.
 *
 * Two ideas carry the engine:
 *  - An order key is a uint64 that sorts as the value does. Every fixed-size dimension, of whatever datatype, is
 * compared, sorted, pruned and merged by its keys; only strings are compared by bytes. -0.0 and 0.0 have one key; NaNs
 * lie above everything.
 *  - A dense dimension's coordinate is an ordinal: value - domain low, as uint64. All dense arithmetic is in ordinals.
 */
#ifndef TSR_MODEL_H
#define TSR_MODEL_H

#include "base.h"

/* ---- datatype.c ---- */
bool tsr__datatype_valid(uint8_t code);
/* The code for a name without prefix, in any case ("uint16", "STRING_ASCII" also "ASCII"); -1 if there is none. */
int tsr__datatype_parse(const char *name, uint64_t size);
/* May it be a dimension's: numbers, datetimes, times, ASCII (schema rules, format.md). */
bool tsr__datatype_is_dimension(tsr_datatype datatype);
/* TileDB's default fill value of one value: writes tsr_datatype_size bytes (e.g. INT32 0x80000000, FLOAT32 NaN, CHAR
 * 0x80, ASCII 0). */
void tsr__datatype_fill(tsr_datatype datatype, void *value);

/* The machine's type of one value: what typed loops switch on. TEXT, BYTES and BOOL are unsigned. */
#define TSR_MACHINES(X)                                                                                                \
  X(I8, int8_t)                                                                                                        \
  X(I16, int16_t)                                                                                                      \
  X(I32, int32_t)                                                                                                      \
  X(I64, int64_t) X(U8, uint8_t) X(U16, uint16_t) X(U32, uint32_t) X(U64, uint64_t) X(F32, float) X(F64, double)
typedef enum tsr_machine {
#define X(name, type) TSR_MACHINE_##name,
  TSR_MACHINES(X)
#undef X
} tsr_machine;
tsr_machine tsr__datatype_machine(tsr_datatype datatype);
/* One value, unaligned, as a double. */
static inline double tsr__machine_double(tsr_machine machine, const void *value) {
  switch (machine) {
#define X(name, type)                                                                                                  \
  case TSR_MACHINE_##name: {                                                                                           \
    type v;                                                                                                            \
    memcpy(&v, value, sizeof v);                                                                                       \
    return (double)v;                                                                                                  \
  }
    TSR_MACHINES(X)
#undef X
  }
  return 0;
}

static inline double tsr__value_double(tsr_datatype datatype, const void *value) {
  return tsr__machine_double(tsr__datatype_machine(datatype), value);
}
static inline bool tsr__datatype_is_integral(tsr_datatype datatype) {
  const tsr_kind kind = tsr_datatype_kind(datatype);
  return kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED;
}

/* The order key of one value of a fixed-size dimension datatype, and of many. */
#define TSR_KEY_NAN UINT64_MAX /* of floats: FLOAT32, too */
uint64_t tsr__key(tsr_datatype datatype, const void *value);
/* The tile extent of a dimension that is no float: its bytes are an unsigned number, of signed datatypes, too. */
uint64_t tsr__extent(const tsr_field *dimension);
void tsr__keys(tsr_datatype datatype, const void *values, uint64_t count, uint64_t *keys);
/* The value of a key (NaNs come back as one NaN; keys of no float as NaN, but the one below that of 0.0 as 0.0). */
void tsr__key_value(tsr_datatype datatype, uint64_t key, void *value);
/* The keys of the datatype's least and greatest values; of floats the infinities. */
uint64_t tsr__key_min(tsr_datatype datatype);
uint64_t tsr__key_max(tsr_datatype datatype);

/* Unsigned byte order, shorter first where one is the other's beginning: < 0, 0, > 0. */
static inline int tsr__bytes_compare(const void *a, uint64_t a_size, const void *b, uint64_t b_size) {
  int c = TSR_MIN(a_size, b_size) ? memcmp(a, b, TSR_MIN(a_size, b_size)) : 0;
  return c ? c : a_size < b_size ? -1 : a_size > b_size;
}

typedef struct tsr_slice { /* bytes of somebody else's */
  const uint8_t *bytes;
  uint64_t size;
} tsr_slice;
static inline int tsr__slices_compare(const void *a, const void *b) { /* likewise, for qsort */
  const tsr_slice *x = a, *y = b;
  return tsr__bytes_compare(x->bytes, x->size, y->bytes, y->size);
}

static inline int tsr__names_compare(const void *a, const void *b) { /* of char *, for qsort */
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A string's first 8 bytes as a key: of strings with equal ones the rest decides. */
static inline uint64_t tsr__text_prefix(const uint8_t *text, uint64_t size) {
  uint64_t key = 0;
  for (unsigned i = 0; i < 8; i++) key = key << 8 | (i < size ? text[i] : 0);
  return key;
}

/* ---- datetime.c: tsr_datetime_print, tsr_datetime_parse (tessera.h) ---- */

/* ---- domain.c: ranges, extents, dense geometry in ordinals ---- */
#define TSR_MAX_DIMENSIONS 1024 /* more is refused when a schema is decoded */

/* One dimension's side of a query: sorted, disjoint, closed. Fixed-size dimensions: keys; strings: bytes, where high ==
 * NULL is open. */
typedef struct tsr_span {
  uint64_t low, high;
} tsr_span;
typedef struct tsr_text_span {
  const uint8_t *low, *high;
  uint64_t low_size, high_size;
  bool high_open, high_exclusive;
} tsr_text_span;
typedef struct tsr_spans {
  bool text; /* which of the two */
  bool all; /* the whole dimension, NaNs with it */
  bool floats; /* keys of floats */
  bool nans; /* NaNs, and nothing else: count is 0 then */
  uint64_t count; /* 0 and not all: nothing */
  tsr_span *spans;
  tsr_text_span *texts; /* low exclusive is written as low + "\0" */
} tsr_spans;
/* Normalises public ranges of a field: sorts, merges, makes bounds closed. Allocates from `arena` (strings are copied).
 */
int tsr__spans_make(const tsr_field *field, const tsr_ranges *ranges, tsr_arena *arena, tsr_spans *spans,
                    tsr_error *error);
/* What of the spans of a fixed-size dimension lies in low..high, in keys; NaNs are left out. Of strings: in low (NULL: no
 * bound) to high, the bounds themselves too unless they are exclusive. The result may borrow from all arguments. */
int tsr__spans_clip(const tsr_field *field, const tsr_spans *spans, uint64_t low, uint64_t high, tsr_arena *arena,
                    tsr_spans *out, tsr_error *error);
int tsr__spans_clip_text(const tsr_field *field, const tsr_spans *spans, const tsr_range *range, tsr_arena *arena,
                         tsr_spans *out, tsr_error *error);
typedef enum tsr_relation {
  TSR_OUTSIDE,
  TSR_OVERLAP,
  TSR_INSIDE
} tsr_relation; /* INSIDE: all of [low, high] lies in one span. A box of floats may hide NaNs, which no span holds, so
                   it is INSIDE only where all are; one with a NaN or low > high as a bound says nothing: OVERLAP */
tsr_relation tsr__spans_relate(const tsr_spans *spans, uint64_t low, uint64_t high);
tsr_relation tsr__spans_relate_text(const tsr_spans *spans, const uint8_t *low, uint64_t low_size, const uint8_t *high,
                                    uint64_t high_size);
bool tsr__spans_contain_text(const tsr_spans *spans, const uint8_t *value, uint64_t size);
/* Copies selection[0..count), or 0..count-1 where it is NULL; returns count. */
uint64_t tsr__select_all(const uint32_t *selection, uint64_t count, uint32_t *out);
/* Keeps of selection[0..count) those cells whose value lies in the spans; returns how many. Typed loops on the values
 * as they stand in a tile. selection == NULL with `identity` cells: all of 0..count-1 are looked at, and written to
 * out. */
uint64_t tsr__spans_select(const tsr_spans *spans, tsr_datatype datatype, const void *values, const uint32_t *selection,
                           uint64_t count, uint32_t *out);
uint64_t tsr__spans_select_text(const tsr_spans *spans, const uint8_t *values, const uint64_t *offsets,
                                const uint32_t *selection, uint64_t count, uint32_t *out);

/* The geometry of a dense array: everything in ordinals. Allocated in the schema's user's arena. */
typedef struct tsr_grid {
  uint32_t dimensions;
  bool col_major_cells, col_major_tiles;
  uint64_t *last; /* the domain is 0..last in each dimension */
  uint64_t *extent; /* cells of a tile side; the last tile of a side may overhang the domain */
  uint64_t *low_key; /* order key of ordinal 0: key = low_key + ordinal for all integer and time types */
  uint64_t tile_cells; /* product of extents; less than 2^32 or the schema is refused for reading */
} tsr_grid;
int tsr__grid_make(const tsr_schema *schema, tsr_arena *arena, tsr_grid *grid, tsr_error *error);
/* Where a cell at ordinals o stands within its tile, in cell order. */
uint64_t tsr__grid_cell(const tsr_grid *grid, const uint64_t *ordinals);

/* ---- order.c: global order of sparse cells, Hilbert codes (format.md, "Orders") ---- */
/* Number of the space tile of a coordinate: (v - low) / extent in the dimension's own arithmetic (float32 stays
 * float32), truncated. */
uint64_t tsr__tile_number(const tsr_field *dimension, const void *value);
/* Hilbert code of a cell: bits per dimension = floor(63 / dimensions); values[d], sizes[d] (strings) as in facts of
 * format.md. */
uint64_t tsr__hilbert_code(const tsr_schema *schema, const void *const *values, const uint64_t *sizes);
/* The same of many cells, of dimensions that are no strings: values[d] are the cells' values, one after the other. */
void tsr__hilbert_codes(const tsr_schema *schema, const void *const *values, uint64_t count, uint64_t *codes);

/* ---- name.c: timestamped names (format.md, "Names") ---- */
typedef struct tsr_name {
  uint64_t start, end; /* milliseconds, inclusive */
  char uuid[40]; /* as it stands, NUL-terminated */
  uint32_t version; /* 0 where the name has none */
} tsr_name;
/* Of "__t1_t2_uuid[_v]" and the older "__uuid_t1[_t2]" (versions 1, 2), without suffix. False if it is neither. */
bool tsr__name_parse(const char *text, uint64_t size, tsr_name *name);
/* Writes "__t1_t2_uuid_v" (version 0: none) into text[128]. */
void tsr__name_print(const tsr_name *name, char *text);
/* A name with a new random uuid. */
int tsr__name_new(uint64_t start, uint64_t end, uint32_t version, tsr_name *name, const uint8_t random[16]);
/* Has `text` this suffix (".wrt")? Then *stem is its length without. */
bool tsr__name_suffix(const char *text, const char *suffix, uint64_t *stem);

#endif
