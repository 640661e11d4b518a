/* vcf.h: the module tessera_vcf: the records of a TileDB-VCF dataset as rows.
 *
 *   vcf_fields.c   the tables of the headers' fields, and of samples
 *   vcf_header.c   the headers of a dataset: fields, contigs, filters, samples
 *   vcf_value.c    values of INFO and FORMAT, as TileDB-VCF stores them
 *   vcf.c          the table */
#ifndef TSX_FRONT_VCF_H
#define TSX_FRONT_VCF_H

#include "connection/connection.h"
#include "connection/sqlite_api.h"
#include "tessera.h"

/* ---- vcf_header.c ------------------------------------------------------------------------------------------------ */

typedef enum tsx_vcf_type { TSX_VCF_FLAG, TSX_VCF_INTEGER, TSX_VCF_FLOAT, TSX_VCF_TEXT } tsx_vcf_type; /* as stored */

typedef struct tsx_vcf_field { /* a field of INFO or FORMAT */
  bool info;
  bool single; /* Number=1: a value, not a list */
  tsx_vcf_type type;
  char *id, *number, *description; /* from sqlite3_malloc */
} tsx_vcf_field;

typedef struct tsx_vcf_index { /* from hashes to the numbers of items that are kept elsewhere */
  struct tsx_vcf_slot *slots; /* [slot_count], a power of two, at least half of them free */
  uint32_t slot_count, count;
} tsx_vcf_index;

typedef struct tsx_vcf_names { /* the names of one header, by the numbers that filters have: PASS is 0 */
  char **names; /* NULL: no filter has the number */
  uint32_t count;
} tsx_vcf_names;

typedef struct tsx_vcf_sample {
  char *name; /* "": version 3, and the dataset has removed the sample */
  char *header; /* its text, or NULL */
  uint32_t names; /* number of its header's names */
} tsx_vcf_sample;

typedef struct tsx_vcf_headers { /* `= {0}` is empty; all memory is from sqlite3_malloc */
  bool keeps_texts; /* set before the first header is added: samples get their headers' texts */
  tsx_vcf_field *fields; /* of all headers, each once */
  uint32_t field_count;
  char **contigs; /* each once, in the order of the headers */
  uint32_t contig_count;
  tsx_vcf_names *names; /* each numbering once */
  uint32_t names_count;
  uint64_t holes; /* numbers without a name, of all numberings */
  tsx_vcf_sample *samples; /* sorted by name, once tsx_vcf_headers_sort was called */
  uint32_t sample_count;
  uint64_t seed; /* of the hashes, so that no header can choose texts that collide; 0: not chosen yet */
  tsx_vcf_index field_index, contig_index, names_index;
  char *last; /* the lines that the last header had before that of its sample, or NULL */
  uint64_t last_size;
  uint32_t last_names; /* their numbering */
} tsx_vcf_headers;

/* Adds the header of a sample, in time that is linear in its size. Lines that are not understood are passed over. */
int tsx_vcf_headers_add(tsx_vcf_headers *headers, const char *sample, uint64_t sample_size, const char *text,
                        uint64_t size, tsr_error *error);
void tsx_vcf_headers_sort(tsx_vcf_headers *headers);
void tsx_vcf_headers_free(tsx_vcf_headers *headers);

/* Returns the name of a filter in a sample's header, or NULL. */
const char *tsx_vcf_filter_name(const tsx_vcf_headers *headers, const char *sample, uint64_t size, uint32_t number);

/* ---- vcf_value.c ------------------------------------------------------------------------------------------------- */

typedef struct tsx_vcf_value { /* borrowed from the stored bytes */
  const char *name; /* in a blob of many values, else NULL */
  tsx_vcf_type type;
  uint32_t count;
  const uint8_t *values; /* of 4 bytes each; of TEXT, 1 */
} tsx_vcf_value;

typedef struct tsx_vcf_blob { /* a walk over a blob of many values */
  const uint8_t *at;
  uint64_t left;
  uint32_t values; /* that follow */
} tsx_vcf_blob;

/* Begin a walk over the `info` or `fmt` of a record, and take the next value: 1; 0 at the end; TSR_CORRUPT. */
int tsx_vcf_blob_open(const uint8_t *bytes, uint64_t size, tsx_vcf_blob *blob);
int tsx_vcf_blob_next(tsx_vcf_blob *blob, tsx_vcf_value *value);

/* Reads the cell of an attribute info_X or fmt_X. Returns 1; 0 if it is empty; TSR_CORRUPT. */
int tsx_vcf_cell(const uint8_t *bytes, uint64_t size, tsx_vcf_value *value);

/* Makes a value the result: NULL if it is missing; one number or text if `single`, else a JSON array; a flag is 1. */
void tsx_vcf_result(sqlite3_context *context, const tsx_vcf_value *value, bool single);

/* Appends a value as JSON. */
void tsx_vcf_json(sqlite3_str *out, const tsx_vcf_value *value, bool single);

/* Appends a genotype, like 0/1. Returns true if all its alleles are phased. */
bool tsx_vcf_genotype(sqlite3_str *out, const tsx_vcf_value *value);

/* ---- vcf.c ------------------------------------------------------------------------------------------------------- */

int tsx_register_vcf(tsx_connection *connection); /* returns SQLite's code */

/* Reads the headers of the dataset that the arguments of CREATE VIRTUAL TABLE name. *headers is empty but for
 * keeps_texts. The caller frees them, also after an error. */
int tsx_vcf_headers_read(tsx_connection *connection, int count, const char *const *arguments, tsx_vcf_headers *headers,
                         tsr_error *error);

/* ---- vcf_fields.c ------------------------------------------------------------------------------------------------ */

int tsx_register_vcf_fields(tsx_connection *connection); /* both modules; returns SQLite's code */

#endif
