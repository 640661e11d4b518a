/* tessera_format.h: the vocabulary of the format: datatypes, orders, filters, fields, schemas. Programs include tessera.h,
 * which includes this.
 *
 * All of it is plain data: nothing here is opened or closed, and no function fails. What the numbers mean on disk is in
 * docs/format.md, "Schema".
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

/* name, code on disk, bytes of one value, kind */
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

/* DATETIME and TIME are int64 counts of a unit; BOOLEAN is one byte, 0 or 1; TEXT is a string of code units; BYTES are
 * opaque. */
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

TSR_API const char *tsr_datatype_name(tsr_datatype datatype); /* "UINT16"; "?" for what is no datatype */
TSR_API uint64_t tsr_datatype_size(tsr_datatype datatype); /* bytes of one value */
TSR_API void tsr_datatype_fill(tsr_datatype datatype, void *value); /* writes the fill value that is TileDB's default */
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
  int32_t level; /* compressors; -1 (or the codec's own default) where none was given */
  uint8_t reinterpret; /* delta, double delta: the datatype taken instead of the data's own; TSR_ANY = the data's own */
  uint32_t window; /* bit width reduction, positive delta: bytes */
  double scale, offset; /* scale_float */
  uint64_t byte_width; /* scale_float: bytes of the stored integer */
} tsr_filter;

typedef struct tsr_pipeline {
  uint32_t max_chunk_size; /* bytes */
  uint32_t count;
  tsr_filter *filters;
  bool uncut; /* max_chunk_size is 0, and means that a tile is one chunk, however large */
} tsr_pipeline;

#define TSR_VARIABLE UINT32_MAX /* values_per_cell of a variable-length field */

typedef struct tsr_enumeration {
  char *name; /* NUL-terminated; may hold any other byte */
  char *file; /* its file in __schema/__enumerations */
  bool loaded; /* the rest is set only if so: tsr_array_enumeration loads it */
  tsr_datatype datatype;
  uint32_t values_per_label; /* TSR_VARIABLE for strings */
  bool ordered;
  uint64_t count; /* labels */
  uint8_t *data; /* the labels, one after the other */
  uint64_t data_size;
  uint64_t *offsets; /* count + 1 byte offsets into data, also where labels are of fixed size */
} tsr_enumeration;

/* A dimension or an attribute. Fields are numbered as the columns of a table: dimensions in schema order, then
 * attributes. */
typedef struct tsr_field {
  char *name; /* as stored, NUL-terminated; '' if anonymous */
  bool is_dimension;
  tsr_datatype datatype;
  uint32_t values_per_cell; /* 1 and more, or TSR_VARIABLE */
  uint64_t cell_size; /* bytes of a cell; 0 if variable */
  tsr_pipeline filters; /* as stored: a dimension's empty list means the schema's coords_filters */
  /* dimensions */
  bool has_domain, has_extent; /* strings have neither */
  uint8_t low[8], high[8]; /* one value each, inclusive, in the datatype */
  uint8_t extent[8]; /* of floats a value in the datatype; of all others an unsigned number of its size */
  /* attributes */
  bool nullable;
  uint8_t fill_validity; /* 0: the fill value is null */
  uint8_t data_order; /* 0 unordered, 1 increasing, 2 decreasing (label arrays) */
  uint8_t *fill; /* the fill value of one cell */
  uint64_t fill_size; /* bytes */
  char *enumeration; /* its enumeration's name, or NULL */
} tsr_field;

typedef struct tsr_label { /* a dimension label: listed, its array is not opened */
  char *name;
  uint32_t dimension;
  char *uri;
  bool relative;
  tsr_datatype datatype;
} tsr_label;

/* A closed interval on one dimension; strings by pointer and size, all else as one value in the datatype. */
typedef struct tsr_interval {
  uint8_t low[8], high[8];
  uint8_t *low_text, *high_text;
  uint64_t low_size, high_size;
} tsr_interval;
/* Versions 5 to 9 lost the high end of string boxes whose low end is ''. Is this such an interval, without high end? */
TSR_API bool tsr_interval_is_open(const tsr_interval *interval);

/* A schema as one file describes it. Read-only for callers; owned by its array. */
typedef struct tsr_schema {
  char *name; /* the file's name, "__t1_t2_uuid", or "__array_schema.tdb" */
  uint64_t time; /* of the file's name; 0 for __array_schema.tdb */
  uint32_t version; /* format version */
  bool dense, allows_duplicates, key_value;
  tsr_order tile_order, cell_order;
  uint64_t capacity; /* cells of a sparse tile */
  tsr_pipeline coords_filters, offsets_filters, validity_filters;
  uint32_t dimension_count, attribute_count;
  tsr_field *fields; /* dimension_count + attribute_count */
  uint32_t label_count;
  tsr_label *labels;
  uint32_t enumeration_count;
  tsr_enumeration *enumerations;
  tsr_interval *current_domain; /* one per dimension, or NULL where there is none */
} tsr_schema;

#ifdef __cplusplus
}
#endif
#endif
