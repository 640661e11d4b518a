/* tessera_arrow.h: arrays as Arrow streams. Programs include tessera.h, which includes this header at its end.
 *
 * The three structures are those of the Arrow C data and stream interfaces
 * (https://arrow.apache.org/docs/format/CDataInterface.html). No Arrow library is needed.
 * docs/reference/functions/arrow.md lists which Arrow type each TileDB datatype becomes.
 */
#ifndef TESSERA_ARROW_H
#define TESSERA_ARROW_H

#include "tessera_format.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE           2
#define ARROW_FLAG_MAP_KEYS_SORTED    4

struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};

#endif

typedef enum tsr_arrow_strings {
  TSR_ARROW_STRINGS_LARGE, /* large_utf8: offsets of 64 bits */
  TSR_ARROW_STRINGS_SMALL, /* utf8: offsets of 32 bits; TSR_TOOBIG if the strings of a batch take 2 GiB */
  TSR_ARROW_STRINGS_BINARY, /* large_binary: for text that is not UTF-8 */
  TSR_ARROW_STRINGS_VIEW /* utf8_view: 16 bytes for each string, which hold its beginning; same limit as SMALL */
} tsr_arrow_strings;

typedef enum tsr_arrow_enums {
  TSR_ARROW_ENUMS_DICTIONARY, /* dictionary-encoded, with all labels in each batch */
  TSR_ARROW_ENUMS_LABEL, /* the labels themselves */
  TSR_ARROW_ENUMS_CODE /* the stored integers */
} tsr_arrow_enums;

typedef enum tsr_arrow_datetimes {
  /* dates, timestamps, durations (tsr_field), and times of day; TSR_RANGE if one of these is a day or more */
  TSR_ARROW_DATETIMES_TIMESTAMP,
  TSR_ARROW_DATETIMES_INTEGER, /* datetimes and times as int64, in the unit of their datatype */
  TSR_ARROW_DATETIMES_DURATION /* dates and timestamps; times as durations of any length */
} tsr_arrow_datetimes;

typedef struct tsr_arrow_label { /* a column that depends on one dimension alone: the values of one of its labels */
  const char *name;
  uint32_t dimension; /* its number in the schema */
  const tsr_field *field; /* the type of the values, as of tsr_label_field */
  const tsr_column *cells; /* the values, as of tsr_label_cells */
  /* Gives the cell of a coordinate, as tsr_label_cell; false: it has no value. Called on several threads at once. */
  bool (*find)(const void *argument, const void *coordinate, uint64_t *cell);
  const void *argument;
} tsr_arrow_label;

typedef struct tsr_arrow_options { /* `= {0}` is the default */
  size_t size; /* sizeof the structure, or 0: see "Options" in tessera.h */
  const uint32_t *fields; /* fields of the schema, in the order of the columns; NULL: all of them */
  uint32_t field_count;
  const tsr_request *request; /* which cells, in which order; its `fields` are ignored. NULL: all cells */
  uint64_t batch_rows; /* target number of rows in a batch; 0 = 131,072. Batches end where the reader's batches end */
  tsr_arrow_strings strings;
  tsr_arrow_enums enums;
  tsr_arrow_datetimes datetimes;
  bool fill; /* unwritten cells read as the fill value; false: as null */
  const tsr_arrow_label *labels; /* further columns, as fields behind those of the schema. Borrowed until the release */
  uint32_t label_count;
} tsr_arrow_options;

/* Makes *out a stream of the cells of a snapshot. The plan is made now; get_next reads the tiles. The stream holds the
 * snapshot until it is released, which must happen before the array is closed; the options are copied. The functions of
 * one stream may be called on any thread, but only one at a time.
 *
 * get_next returns ENOMEM for TSR_NOMEM, TSR_BUDGET and TSR_TOOBIG, ECANCELED for TSR_INTERRUPT, EIO for TSR_IO, and
 * EINVAL for everything else; get_last_error gives the whole message. A batch owns its memory and may outlive
 * everything else. */
TSR_API int tsr_arrow_open(tsr_snapshot *snapshot, const tsr_arrow_options *options, struct ArrowArrayStream *out,
                           tsr_error *error);

/* The same for an array that is opened only for the stream: the stream owns environment, array and snapshot. */
TSR_API int tsr_arrow_open_path(const tsr_environment_options *environment, const char *path,
                                const tsr_array_options *array, uint64_t since, uint64_t as_of,
                                const tsr_arrow_options *options, struct ArrowArrayStream *out, tsr_error *error);

/* The value that the functions of a stream return for an error of the library; 0 for TSR_OK. */
TSR_API int tsr_arrow_errno(int code);

/* Converts the columns of a stream to the schema that a consumer requests, if the names match in order and every cast
 * is lossless: a wider number, another layout of strings, a finer unit of instants, a duration for a time of day,
 * labels instead of a dictionary. Returns true if so; false if the stream is unchanged. Must be called before any of
 * the stream's functions; the caller keeps `requested`. If a string or an instant turns out not to fit, get_next fails.
 */
TSR_API bool tsr_arrow_request(struct ArrowArrayStream *stream, const struct ArrowSchema *requested);

/* Makes *out the schema that a stream of these fields has. `array` provides the labels of enumerations; it may be NULL
 * if no field has an enumeration, or if enumerations are exported as codes. The caller calls out->release. */
TSR_API int tsr_arrow_schema(tsr_array *array, const tsr_schema *schema, const tsr_arrow_options *options,
                             struct ArrowSchema *out, tsr_error *error);

/* ---- The extension ----------------------------------------------------------------------------------------------- */

#define TESSERA_TOKEN_SIZE 33 /* 32 hex digits and NUL */

/* The functions that the loadable extension exports besides its entry point: tessera_api(1). The table only grows at
 * its end. */
typedef struct tessera_functions {
  int version; /* 1 */
  const char *library_version;
  /* Makes *out the stream of a token returned by SQL's tessera_stream or tessera_rows. Returns 1; 0 if there is no such
   * token. Each token can be taken once. */
  int (*take)(const char *token, struct ArrowArrayStream *out);
  /* The same, but the stream is on the heap, and free_stream releases and frees it; NULL if there is no such token. */
  struct ArrowArrayStream *(*take_new)(const char *token);
  void (*free_stream)(struct ArrowArrayStream *stream);
  /* For Python: free_capsule is the destructor of capsules that hold a stream of take_new; use_capsules must first tell
   * it PyCapsule_GetPointer. */
  void (*use_capsules)(void *(*get_pointer)(void *capsule, const char *name));
  void (*free_capsule)(void *capsule);
  /* Registers a stream for SQL's tessera_create_stream, and writes its token. The stream is moved: its `release`
   * becomes NULL. Returns 1; 0 if the stream was released already, or if 256 streams are waiting. */
  int (*put)(struct ArrowArrayStream *stream, char token[TESSERA_TOKEN_SIZE]);
  /* Lends memory to one SQL call and writes its token: tessera_write_npy reads the values from this memory; tessera_npy
   * with the option `into` writes them there. `header` is copied: the dict of an NPY header, which has the type and
   * shape. The memory must stay valid until the call has returned; if there was no call, take_back ends the loan.
   * Returns 1; 0 if there is no memory, or if 256 loans are waiting. */
  int (*lend)(void *memory, uint64_t size, const char *header, char token[TESSERA_TOKEN_SIZE]);
  void (*take_back)(const char *token);
  /* Returns the schema of a token's stream, on the heap, and releases the stream; NULL if there is no such token, or
   * the stream has no schema. free_schema_capsule is the destructor of Python capsules that hold it (see use_capsules).
   */
  struct ArrowSchema *(*take_schema)(const char *token);
  void (*free_schema_capsule)(void *capsule);
  /* Makes another stream of the same rows as a stream that tessera_rows returned, from the first row on. The SELECT
   * runs once, on the first call of any of these streams; `stream` need not have been used, and may be in use.
   * free_stream frees the result. NULL: `stream` is of another kind, or there is no memory. */
  struct ArrowArrayStream *(*again)(const struct ArrowArrayStream *stream);
  /* tsr_arrow_request for a taken stream: 1 if the requested schema is honoured, 0 if the stream is unchanged. A stream
   * of tessera_rows runs its SELECT now. */
  int (*request)(struct ArrowArrayStream *stream, const struct ArrowSchema *requested);
  /* Concatenates `count` streams of take_new, which must have the same schema. It takes ownership of them; free_stream
   * frees the result. NULL: `count` is 0, or there is no memory; the caller then still owns the streams. */
  struct ArrowArrayStream *(*join)(struct ArrowArrayStream *const *streams, uint64_t count);
} tessera_functions;

/* Returns the functions of a version; NULL if this library does not have that version. */
const tessera_functions *tessera_api(int version);

#ifdef __cplusplus
}
#endif

#endif
