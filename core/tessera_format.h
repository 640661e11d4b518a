/* tessera_format.h: the public structures that describe a TileDB schema: datatypes, orders, filters, fields,
 * enumerations. Programs include tessera.h, which includes this header.
 *
 * All of them are plain data: they are not opened or closed, and no function of this header fails. docs/format.md,
 * section "Schema", says what the numbers mean on disk.
 */
#ifndef TESSERA_FORMAT_H
#define TESSERA_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(TSR_SHARED) && defined(__GNUC__)
#define TSR_API __attribute__((visibility("default")))
#else
#define TSR_API
#endif

#define TSR_FORMAT_READ_MIN  1
#define TSR_FORMAT_READ_MAX  23
#define TSR_FORMAT_WRITE_MAX 22

/* name, code on disk, size of one value in bytes, kind */
/* clang-format off */
#define TSR_DATATYPES(X) \
  X(INT32, 0, 4, SIGNED) X(INT64, 1, 8, SIGNED) X(FLOAT32, 2, 4, FLOAT) \
  X(FLOAT64, 3, 8, FLOAT) X(CHAR, 4, 1, TEXT) X(INT8, 5, 1, SIGNED) \
  X(UINT8, 6, 1, UNSIGNED) X(INT16, 7, 2, SIGNED) X(UINT16, 8, 2, UNSIGNED) \
  X(UINT32, 9, 4, UNSIGNED) X(UINT64, 10, 8, UNSIGNED) X(ASCII, 11, 1, TEXT) \
  X(UTF8, 12, 1, TEXT) X(UTF16, 13, 2, TEXT) X(UTF32, 14, 4, TEXT) \
  X(UCS2, 15, 2, TEXT) X(UCS4, 16, 4, TEXT) X(ANY, 17, 1, BYTES) \
  X(DATETIME_YEAR, 18, 8, DATETIME) X(DATETIME_MONTH, 19, 8, DATETIME) X(DATETIME_WEEK, 20, 8, DATETIME) \
  X(DATETIME_DAY, 21, 8, DATETIME) X(DATETIME_HR, 22, 8, DATETIME) X(DATETIME_MIN, 23, 8, DATETIME) \
  X(DATETIME_SEC, 24, 8, DATETIME) X(DATETIME_MS, 25, 8, DATETIME) X(DATETIME_US, 26, 8, DATETIME) \
  X(DATETIME_NS, 27, 8, DATETIME) X(DATETIME_PS, 28, 8, DATETIME) X(DATETIME_FS, 29, 8, DATETIME) \
  X(DATETIME_AS, 30, 8, DATETIME) X(TIME_HR, 31, 8, TIME) X(TIME_MIN, 32, 8, TIME) \
  X(TIME_SEC, 33, 8, TIME) X(TIME_MS, 34, 8, TIME) X(TIME_US, 35, 8, TIME) \
  X(TIME_NS, 36, 8, TIME) X(TIME_PS, 37, 8, TIME) X(TIME_FS, 38, 8, TIME) \
  X(TIME_AS, 39, 8, TIME) X(BLOB, 40, 1, BYTES) X(BOOL, 41, 1, BOOLEAN) \
  X(GEOM_WKB, 42, 1, BYTES) X(GEOM_WKT, 43, 1, TEXT)
/* clang-format on */

typedef enum tsr_datatype {
#define X(name, code, size, kind) TSR_##name = code,
  TSR_DATATYPES(X)
#undef X
      TSR_DATATYPE_COUNT = 44
} tsr_datatype;

/* How the values of a datatype are interpreted. DATETIME and TIME values are int64 counts of the datatype's unit; a
 * BOOLEAN value is one byte, 0 or 1; a TEXT value is one code unit of a string; BYTES values are opaque. */
typedef enum tsr_kind {
  TSR_KIND_SIGNED,
  TSR_KIND_UNSIGNED,
  TSR_KIND_FLOAT,
  TSR_KIND_BOOLEAN,
  TSR_KIND_DATETIME,
  TSR_KIND_TIME,
  TSR_KIND_TEXT,
  TSR_KIND_BYTES
} tsr_kind;

/* for example "UINT16"; "?" if `datatype` is none of the constants */
TSR_API const char *tsr_datatype_name(tsr_datatype datatype);
TSR_API uint64_t tsr_datatype_size(tsr_datatype datatype); /* size of one value in bytes */
TSR_API void tsr_datatype_fill(tsr_datatype datatype, void *value); /* writes TileDB's default fill value to `value` */
TSR_API tsr_kind tsr_datatype_kind(tsr_datatype datatype);

typedef enum tsr_order {
  TSR_ORDER_ROW = 0,
  TSR_ORDER_COL = 1,
  TSR_ORDER_GLOBAL = 2,
  TSR_ORDER_UNORDERED = 3,
  TSR_ORDER_HILBERT = 4
} tsr_order;

typedef enum tsr_filter_type {
  TSR_FILTER_NONE = 0,
  TSR_FILTER_GZIP = 1,
  TSR_FILTER_ZSTD = 2,
  TSR_FILTER_LZ4 = 3,
  TSR_FILTER_RLE = 4,
  TSR_FILTER_BZIP2 = 5,
  TSR_FILTER_DOUBLE_DELTA = 6,
  TSR_FILTER_BIT_WIDTH_REDUCTION = 7,
  TSR_FILTER_BITSHUFFLE = 8,
  TSR_FILTER_BYTESHUFFLE = 9,
  TSR_FILTER_POSITIVE_DELTA = 10,
  TSR_FILTER_AES_256_GCM = 11,
  TSR_FILTER_MD5 = 12,
  TSR_FILTER_SHA256 = 13,
  TSR_FILTER_DICTIONARY = 14,
  TSR_FILTER_SCALE_FLOAT = 15,
  TSR_FILTER_XOR = 16,
  TSR_FILTER_WEBP = 18,
  TSR_FILTER_DELTA = 19
} tsr_filter_type;

typedef struct tsr_filter {
  tsr_filter_type type;
  int32_t level; /* compressors: compression level; -1, or the codec's default level, if none was given */
  /* delta, double delta: the datatype as which the filter interprets its input; TSR_ANY: the field's datatype */
  uint8_t reinterpret;
  uint32_t window; /* bit width reduction, positive delta: largest window in bytes */
  double scale, offset; /* scale_float */
  uint64_t byte_width; /* scale_float: size of the stored integers in bytes */
} tsr_filter;

typedef struct tsr_pipeline {
  uint32_t max_chunk_size; /* largest chunk of unfiltered data, in bytes */
  uint32_t count; /* filters */
  tsr_filter *filters;
  bool uncut; /* true if max_chunk_size is 0 on disk: each tile is one chunk, however large the tile is */
} tsr_pipeline;

#define TSR_VARIABLE UINT32_MAX /* values_per_cell of a variable-length field */

typedef struct tsr_enumeration {
  char *name; /* NUL-terminated; may hold any byte but NUL */
  char *file; /* name of the enumeration's file in __schema/__enumerations */
  bool loaded; /* the fields below are set only if this is true; tsr_array_enumeration loads them */
  tsr_datatype datatype;
  uint32_t values_per_label; /* TSR_VARIABLE if the labels are strings */
  bool ordered;
  uint64_t count; /* labels */
  uint8_t *data; /* the bytes of all labels, concatenated */
  uint64_t data_size; /* in bytes */
  uint64_t *offsets; /* count + 1 byte offsets into `data`, also if all labels have one size */
} tsr_enumeration;

/* A dimension or an attribute. Fields are numbered like the columns of a table: dimensions in schema order, then
 * attributes in schema order. */
typedef struct tsr_field {
  char *name; /* as stored, NUL-terminated; '' if the field is anonymous */
  bool is_dimension;
  tsr_datatype datatype;
  uint32_t values_per_cell; /* at least 1, or TSR_VARIABLE */
  uint64_t cell_size; /* size of a cell in bytes; 0 if cells have a variable number of values */
  tsr_pipeline filters; /* as stored: an empty list on a dimension means the schema's coords_filters */
  /* dimensions */
  bool has_domain, has_extent; /* string dimensions have neither */
  uint8_t low[8], high[8]; /* ends of the domain, inclusive: one value of the datatype each */
  /* tile extent: for floats a value of the datatype, else an unsigned integer of the datatype's size */
  uint8_t extent[8];
  /* attributes */
  bool nullable;
  uint8_t fill_validity; /* 0: the fill value is null */
  /* order of the values over the array: 0 none, 1 increasing, 2 decreasing (arrays of dimension labels) */
  uint8_t data_order;
  uint8_t *fill; /* fill value of one cell */
  uint64_t fill_size; /* in bytes */
  char *enumeration; /* name of the attribute's enumeration; NULL if the attribute has none */
  /* TIME: durations of any length, and not times of day. It is not in the schema's file, but in the array's metadata;
   * a new array gets them from here. */
  bool duration;
} tsr_field;

struct tsr_schema;
typedef struct tsr_label { /* a dimension label; opening the labelled array does not open the label's array */
  char *name;
  uint32_t dimension; /* number of the dimension that the label belongs to */
  char *uri; /* URI of the label's array */
  bool relative; /* `uri` is relative to the array's directory */
  tsr_datatype datatype;
  char *attribute; /* name of the attribute of the label's array that has the values */
  uint8_t data_order; /* order of the values, as in tsr_field */
  uint32_t values_per_cell;
  bool external; /* the label's array was not created with the labelled array */
  bool duration; /* as in tsr_field; the labelled array's metadata say so, under the label's name */
  /* When creating an array: the schema of the label's array, which is created with it in __labels; its only attribute
   * has the values. NULL in schemas that were read. */
  const struct tsr_schema *array;
} tsr_label;

/* A closed interval on one dimension. String dimensions use the `text` and `size` fields; all others use `low` and
 * `high`, one value of the datatype each. */
typedef struct tsr_interval {
  uint8_t low[8], high[8];
  uint8_t *low_text, *high_text;
  uint64_t low_size, high_size;
} tsr_interval;
/* Returns true if `interval` has no high end. Format versions 5 to 9 do not store the high end of a string interval
 * whose low end is ''. */
TSR_API bool tsr_interval_is_open(const tsr_interval *interval);

/* A schema, as described by one schema file. Its array owns it; callers must not change it. */
typedef struct tsr_schema {
  char *name; /* name of the schema file: "__t1_t2_uuid", or "__array_schema.tdb" below format version 10 */
  uint64_t time; /* end of the time range in the file's name, in milliseconds since 1970; 0 for __array_schema.tdb */
  uint32_t version; /* format version */
  bool dense, allows_duplicates, key_value;
  tsr_order tile_order, cell_order;
  uint64_t capacity; /* cells in a full sparse tile */
  tsr_pipeline coords_filters, offsets_filters, validity_filters;
  uint32_t dimension_count, attribute_count;
  tsr_field *fields; /* dimension_count + attribute_count */
  uint32_t label_count;
  tsr_label *labels;
  uint32_t enumeration_count;
  tsr_enumeration *enumerations;
  tsr_interval *current_domain; /* one interval for each dimension; NULL if the schema has no current domain */
  /* Not NULL if the metadata that say which fields and labels are durations are damaged: what is wrong. No `duration`
   * is set then. */
  char *durations_unknown;
} tsr_schema;

#ifdef __cplusplus
}
#endif
#endif
