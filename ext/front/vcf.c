/* vcf.c: the module tessera_vcf: the records of a TileDB-VCF dataset as rows.
 *
 *   CREATE VIRTUAL TABLE variants USING tessera_vcf('dataset/data');
 *   SELECT pos, ref, alt, gt FROM variants('1:13000-14000') WHERE sample = 'NA12878';
 *
 * The data array has a cell at the start of each record, and for a long record further cells, the anchors, at every
 * anchor_gap positions after it, so that a window of positions finds records that begin before it. All cells of a
 * record have its real_start_pos and end_pos, counted from 0. For the window lo..hi the cells from lo - anchor_gap to
 * hi are read. Of those whose record overlaps the window, one is taken for each record: its first cell, or the anchor
 * below lo; just one of its cells is in the anchor_gap positions before lo. Without a window only first cells are
 * taken.
 *
 * Version 4 has the dimensions contig, start_pos, sample. Version 3 has numbers of samples, and positions that count
 * through all contigs; the array's metadata sample_ids and contig_offsets translate them.
 *
 * Sections: the table; what is to be read; rows; columns; the module. */
#include "front/vcf.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "definition/arguments.h"
#include "table/table.h"
#include "sql/json.h"
#include "values/value.h"

#define NONE UINT32_MAX

typedef struct vcf_place { /* a contig's name and first position, or a sample's name and number; of version 3 */
  char *name;
  uint64_t number;
} vcf_place;

typedef struct vcf_places {
  vcf_place *list; /* sorted by number */
  uint32_t count;
} vcf_places;

enum { CONTIG, START, SAMPLE, REAL_START, END_POS, QUAL, ALLELES, ID, FILTERS, INFO, FMT, GENOTYPE, FIELDS };

typedef struct vcf_table {
  sqlite3_vtab base;
  tsx_connection *connection;
  tsx_options options;
  char *path;
  tsx_array *array; /* one reference */
  const tsr_schema *schema;
  uint32_t fields[FIELDS]; /* numbers in the schema, or NONE */
  bool global; /* version 3 */
  uint64_t gap;
  vcf_places contigs, samples; /* of version 3 */
  tsx_vcf_headers headers;
  uint32_t *attributes; /* [headers.field_count]: info_X or fmt_X, or NONE: it is in info or fmt */
  uint32_t *typed; /* [typed_count]: numbers of the headers' fields that have columns */
  uint32_t typed_count;
  char *failure; /* the dataset could not be opened: each statement fails with this message, or NULL */
  int failure_code; /* SQLite's */
} vcf_table;

/* Columns before the typed ones, and the hidden one behind them. */
enum {
  COLUMN_CONTIG,
  COLUMN_POS,
  COLUMN_END,
  COLUMN_SAMPLE,
  COLUMN_ID,
  COLUMN_REF,
  COLUMN_ALT,
  COLUMN_QUAL,
  COLUMN_FILTER,
  COLUMN_GT,
  COLUMN_PHASED,
  COLUMN_INFO,
  COLUMN_FMT,
  COLUMN_TYPED
};

/* ---- The table --------------------------------------------------------------------------------------------------- */

static uint32_t find_field(const tsr_schema *schema, const char *name) {
  for (uint32_t f = 0; f < schema->dimension_count + schema->attribute_count; f++)
    if (schema->fields[f].name && !strcmp(schema->fields[f].name, name)) return f;
  return NONE;
}

static int compare_places(const void *a, const void *b) {
  const vcf_place *x = a, *y = b;
  return (x->number > y->number) - (x->number < y->number);
}

/* Reads `name TAB number, ...` in base64. */
static int read_places(const tsr_metadatum *entry, vcf_places *places, tsr_error *error) {
  uint64_t size;
  char *text = sqlite3_malloc64(entry->value_size + 1);
  if (!text) return tsx_out_of_memory(error);
  if (!tsr_base64_read(TSR_BASE64, entry->value, entry->value_size, text, &size)) {
    sqlite3_free(text);
    return tsx_fail(error, TSR_CORRUPT, "the metadata '%s' are not base64", entry->key);
  }
  text[size] = 0;
  for (char *at = text; *at;) {
    char *tab = strchr(at, '\t'), *comma = tab ? strchr(tab, ',') : NULL;
    if (!tab) break;
    vcf_place *more = sqlite3_realloc64(places->list, (places->count + UINT64_C(1)) * sizeof *more);
    if (more) places->list = more;
    char *name = more ? sqlite3_mprintf("%.*s", (int)(tab - at), at) : NULL;
    if (!name) {
      sqlite3_free(text);
      return tsx_out_of_memory(error);
    }
    places->list[places->count++] = (vcf_place){name, strtoull(tab + 1, NULL, 10)};
    if (!comma) break;
    at = comma + 1;
  }
  sqlite3_free(text);
  if (places->count > 1) qsort(places->list, places->count, sizeof *places->list, compare_places);
  return TSR_OK;
}

static void free_places(vcf_places *places) {
  for (uint32_t i = 0; i < places->count; i++) sqlite3_free(places->list[i].name);
  sqlite3_free(places->list);
}

/* Returns the last place whose number is at most `number`, or NULL. */
static const vcf_place *place_below(const vcf_places *places, uint64_t number) {
  uint32_t low = 0, high = places->count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (places->list[middle].number <= number) low = middle + 1;
    else high = middle;
  }
  return low > 0 ? &places->list[low - 1] : NULL;
}

static const vcf_place *place_named(const vcf_places *places, const char *name, uint64_t size) {
  for (uint32_t i = 0; i < places->count; i++)
    if (strlen(places->list[i].name) == size && !memcmp(places->list[i].name, name, size)) return &places->list[i];
  return NULL;
}

static int take_metadata(vcf_table *t, const tsr_metadata *metadata, tsr_error *error) {
  uint32_t gap = 0;
  for (uint64_t i = 0; i < metadata->count; i++) {
    const tsr_metadatum *entry = &metadata->entries[i];
    if (!strcmp(entry->key, "anchor_gap") && entry->value_size >= 4) memcpy(&gap, entry->value, 4);
    if (t->global && !strcmp(entry->key, "contig_offsets")) TSX_TRY(read_places(entry, &t->contigs, error));
    if (t->global && !strcmp(entry->key, "sample_ids")) TSX_TRY(read_places(entry, &t->samples, error));
  }
  t->gap = gap;
  if (gap == 0)
    return tsx_fail(error, TSR_UNSUPPORTED, "%s is not a TileDB-VCF data array: it has no metadata anchor_gap",
                    t->path);
  return TSR_OK;
}

/* Reads what the array's metadata say of the dataset. */
static int read_metadata(vcf_table *t, tsr_error *error) {
  tsr_metadata *metadata;
  TSX_TRY(tsr_array_metadata(t->array->core, TSR_TIME_BEGIN, t->options.times.as_of, &metadata, error));
  const int code = take_metadata(t, metadata, error);
  tsr_metadata_close(metadata);
  return code;
}

static bool is_one_uint32(const tsr_field *field) {
  return field->datatype == TSR_UINT32 && field->values_per_cell == 1;
}

/* Finds the fields, and the version by them. */
static int find_fields(vcf_table *t, tsr_error *error) {
  static const char *const names[] = {
      [CONTIG] = "contig",      [START] = "start_pos", [SAMPLE] = "sample",   [REAL_START] = "real_start_pos",
      [END_POS] = "end_pos",    [QUAL] = "qual",       [ALLELES] = "alleles", [ID] = "id",
      [FILTERS] = "filter_ids", [INFO] = "info",       [FMT] = "fmt",         [GENOTYPE] = "fmt_GT"};
  const tsr_schema *schema = t->schema;
  for (int i = 0; i < FIELDS; i++) t->fields[i] = find_field(schema, names[i]);
  const uint32_t end = t->fields[END_POS], start = t->fields[START], sample = t->fields[SAMPLE],
                 contig = t->fields[CONTIG];
  if (end != NONE && schema->fields[end].is_dimension)
    return tsx_fail(error, TSR_UNSUPPORTED, "%s is of TileDB-VCF's version 2: ingest it again with TileDB-VCF",
                    t->path);
  if (t->fields[REAL_START] == NONE)
    return tsx_fail(error, TSR_UNSUPPORTED, "%s is not a TileDB-VCF data array: it has no attribute real_start_pos",
                    t->path);
  t->global = contig == NONE;
  bool fits = start != NONE && sample != NONE && end != NONE && schema->dimension_count == (t->global ? 2 : 3);
  fits = fits && schema->fields[start].is_dimension && schema->fields[sample].is_dimension &&
         schema->fields[start].datatype == TSR_UINT32 && is_one_uint32(&schema->fields[end]) &&
         is_one_uint32(&schema->fields[t->fields[REAL_START]]);
  if (fits && t->global) fits = schema->fields[sample].datatype == TSR_UINT32;
  else if (fits)
    fits = schema->fields[contig].is_dimension && schema->fields[contig].values_per_cell == TSR_VARIABLE &&
           schema->fields[sample].values_per_cell == TSR_VARIABLE;
  for (int i = QUAL; i < FIELDS && fits; i++) {
    const tsr_field *field = t->fields[i] == NONE ? NULL : &schema->fields[t->fields[i]];
    if (!field) continue;
    fits = i == QUAL ? field->datatype == TSR_FLOAT32 && field->values_per_cell == 1
                     : field->values_per_cell == TSR_VARIABLE;
    if (i == FILTERS) fits = fits && tsr_datatype_size(field->datatype) == 4;
    else if (i > QUAL) fits = fits && tsr_datatype_size(field->datatype) == 1;
  }
  return fits ? TSR_OK
              : tsx_fail(error, TSR_UNSUPPORTED, "%s: its schema is not that of TileDB-VCF's version 3 or 4", t->path);
}

/* Gives the name of the sample that a cell of the headers' array belongs to; version 3 has its number there. */
static void sample_of_header(const vcf_table *t, const tsr_column *samples, uint64_t i, const char **name,
                             uint64_t *size) {
  uint32_t number = 0;
  *name = "";
  *size = 0;
  if (samples->offsets) {
    *name = (const char *)samples->values + samples->offsets[i];
    *size = samples->offsets[i + 1] - samples->offsets[i];
    return;
  }
  memcpy(&number, (const uint8_t *)samples->values + i * samples->cell_size, sizeof number);
  const vcf_place *place = place_below(&t->samples, number);
  if (!place || place->number != number) return; /* a sample that was removed */
  *name = place->name;
  *size = strlen(place->name);
}

/* Reads one batch of headers. */
static int read_headers_batch(vcf_table *t, tsr_reader *reader, const tsr_batch *batch, uint32_t header,
                              tsr_error *error) {
  const tsr_column *samples, *texts;
  TSX_TRY(tsr_reader_column(reader, 0, &samples, error));
  TSX_TRY(tsr_reader_column(reader, header, &texts, error));
  for (uint64_t r = 0; r < batch->count; r++) {
    const uint64_t i = tsr_batch_index(batch, r), x = texts->constant ? 0 : i;
    const char *text = (const char *)texts->values + texts->offsets[x], *name;
    uint64_t size;
    sample_of_header(t, samples, samples->constant ? 0 : i, &name, &size);
    TSX_TRY(tsx_vcf_headers_add(&t->headers, name, size, text, texts->offsets[x + 1] - texts->offsets[x], error));
  }
  return TSR_OK;
}

static int read_headers_batches(vcf_table *t, tsr_reader *reader, uint32_t header, tsr_error *error) {
  const tsr_request request = {.memory_bytes = t->options.limits.memory_bytes};
  const tsr_batch *batch;
  TSX_TRY(tsr_reader_start(reader, &request, error));
  for (;;) {
    const int more = tsr_reader_next(reader, &batch, error);
    if (more <= 0) return more;
    TSX_TRY(read_headers_batch(t, reader, batch, header, error));
  }
}

static int read_headers_of(vcf_table *t, const tsx_array *array, tsr_error *error) {
  tsr_snapshot *snapshot;
  tsr_reader *reader = NULL;
  const tsr_schema *schema;
  TSX_TRY(tsr_array_schema(array->core, t->options.times.as_of, &schema, error));
  const uint32_t header = find_field(schema, "header");
  const tsr_field *sample = &schema->fields[0];
  const bool named = sample->values_per_cell == TSR_VARIABLE && tsr_datatype_size(sample->datatype) == 1;
  const bool numbered = t->global && sample->datatype == TSR_UINT32;
  if (schema->dimension_count != 1 || (!named && !numbered) || header == NONE ||
      schema->fields[header].values_per_cell != TSR_VARIABLE || tsr_datatype_size(schema->fields[header].datatype) != 1)
    return tsx_fail(error, TSR_UNSUPPORTED, "%s is not TileDB-VCF's array of headers", array->path);
  TSX_TRY(tsr_snapshot_open(array->core, schema, 0, t->options.times.as_of, &snapshot, error));
  int code = tsr_reader_open(snapshot, &reader, error);
  if (code >= 0) code = read_headers_batches(t, reader, header, error);
  tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
  if (code >= 0) tsx_vcf_headers_sort(&t->headers);
  return code;
}

/* Reads the headers, which lie beside the data, in metadata/vcf_headers. */
static int read_headers(vcf_table *t, tsr_error *error) {
  size_t end = strlen(t->path);
  while (end > 0 && t->path[end - 1] == '/') end--;
  while (end > 0 && t->path[end - 1] != '/') end--;
  char *path = sqlite3_mprintf("%.*smetadata/vcf_headers", (int)end, t->path);
  tsx_array *array = NULL;
  if (!path) return tsx_out_of_memory(error);
  int code =
      tsx_array_open(t->connection, path, t->array->has_key ? t->array->key : NULL, TSX_CACHE_AS_IS, 0, &array, error);
  if (code >= 0) code = read_headers_of(t, array, error);
  tsx_array_release(t->connection, array);
  sqlite3_free(path);
  return code;
}

/* Chooses the fields of the headers that get columns, at most so many that SQLite takes the table. */
static int choose_typed(vcf_table *t, tsr_error *error) {
  const uint32_t count = t->headers.field_count;
  const int most = sqlite3_limit(t->connection->db, SQLITE_LIMIT_COLUMN, -1) - COLUMN_TYPED - 1;
  t->attributes = sqlite3_malloc64((count + UINT64_C(1)) * sizeof(uint32_t));
  t->typed = sqlite3_malloc64((count + UINT64_C(1)) * sizeof(uint32_t));
  if (!t->attributes || !t->typed) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < count; i++) {
    const tsx_vcf_field *field = &t->headers.fields[i];
    char *name = sqlite3_mprintf("%s_%s", field->info ? "info" : "fmt", field->id);
    if (!name) return tsx_out_of_memory(error);
    t->attributes[i] = find_field(t->schema, name);
    const tsr_field *attribute = t->attributes[i] == NONE ? NULL : &t->schema->fields[t->attributes[i]];
    if (attribute && (attribute->values_per_cell != TSR_VARIABLE || tsr_datatype_size(attribute->datatype) != 1))
      t->attributes[i] = NONE;
    bool taken = !field->info && !strcmp(field->id, "GT"); /* it has the column gt */
    for (uint32_t k = 0; k < t->typed_count && !taken; k++) { /* names of columns differ without case */
      const tsx_vcf_field *other = &t->headers.fields[t->typed[k]];
      taken = other->info == field->info && !sqlite3_stricmp(other->id, field->id);
    }
    if (!taken && t->typed_count < (uint32_t)(most > 0 ? most : 0)) t->typed[t->typed_count++] = i;
    sqlite3_free(name);
  }
  return TSR_OK;
}

static const char *declared_type(const tsx_vcf_field *field) {
  if (field->type == TSX_VCF_FLAG) return "INTEGER";
  return !field->single || field->type == TSX_VCF_TEXT ? "TEXT" : field->type == TSX_VCF_INTEGER ? "INTEGER" : "REAL";
}

static char *declaration(const vcf_table *t) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  sqlite3_str_appendall(
      out, "CREATE TABLE x(contig TEXT, pos INTEGER, \"end\" INTEGER, sample TEXT, id TEXT, ref TEXT, alt TEXT, "
           "qual REAL, filter TEXT, gt TEXT, phased INTEGER, info TEXT, fmt TEXT");
  for (uint32_t i = 0; i < t->typed_count; i++) {
    const tsx_vcf_field *field = &t->headers.fields[t->typed[i]];
    sqlite3_str_appendf(out, ", \"%s_%w\" %s", field->info ? "info" : "fmt", field->id, declared_type(field));
  }
  sqlite3_str_appendall(out, ", region BLOB HIDDEN)");
  return sqlite3_str_finish(out);
}

static void free_table(vcf_table *t) {
  tsx_array_release(t->connection, t->array);
  tsx_options_release(&t->options);
  tsx_vcf_headers_free(&t->headers);
  free_places(&t->contigs);
  free_places(&t->samples);
  sqlite3_free(t->attributes);
  sqlite3_free(t->typed);
  sqlite3_free(t->path);
  sqlite3_free(t->failure);
}

static int vcf_disconnect(sqlite3_vtab *vtab) {
  vcf_table *t = (vcf_table *)vtab;
  tsx_connection *connection = t->connection;
  free_table(t);
  sqlite3_free(t);
  tsx_connection_remove_table(connection);
  tsx_connection_drop(connection);
  return SQLITE_OK;
}

static int check_options(const tsx_options *options, tsr_error *error) {
  const tsx_option_shows *shows = &options->shows;
  if (!options->path) return tsx_fail(error, TSR_ERROR, "expected the path of a TileDB-VCF data array");
  if (options->definition_count > 0)
    return tsx_fail(error, TSR_ERROR, "tessera_vcf makes no arrays, and has no option %s", options->definitions[0]);
  if (shows->column_count > 0 || shows->label_arrays.count > 0 || shows->renamed.count > 0)
    return tsx_fail(error, TSR_ERROR, "the options columns, labels and rename are for tables of tessera");
  return TSR_OK;
}

static int read_key_file(const vcf_table *t, const char *schema_name, uint8_t *key, tsr_error *error) {
  char *file;
  TSX_TRY(tsx_path_resolve(t->connection->db, schema_name, t->options.key_file, &file, error));
  const int code = tsx_key_read(t->connection, file, key, error);
  sqlite3_free(file);
  return code;
}

static int open_array(vcf_table *t, const char *schema_name, tsr_error *error) {
  uint8_t key[32];
  const bool has_key = t->options.key_file || tsx_key_find(t->connection, t->path, key);
  int code = t->options.key_file ? read_key_file(t, schema_name, key, error) : TSR_OK;
  if (code >= 0)
    code = tsx_array_open(t->connection, t->path, has_key ? key : NULL, t->options.limits.cache_bytes,
                          t->options.limits.threads, &t->array, error);
  tsx_wipe(key, sizeof key);
  return code;
}

static int open_dataset(vcf_table *t, const char *schema_name, tsr_error *error) {
  TSX_TRY(check_options(&t->options, error));
  TSX_TRY(tsx_path_resolve(t->connection->db, schema_name, t->options.path, &t->path, error));
  TSX_TRY(open_array(t, schema_name, error));
  TSX_TRY(tsr_array_schema(t->array->core, t->options.times.as_of, &t->schema, error));
  TSX_TRY(find_fields(t, error));
  TSX_TRY(read_metadata(t, error));
  TSX_TRY(read_headers(t, error));
  return choose_typed(t, error);
}

int tsx_vcf_headers_read(tsx_connection *connection, int count, const char *const *arguments, tsx_vcf_headers *headers,
                         tsr_error *error) {
  vcf_table t = {.connection = connection, .headers.keeps_texts = headers->keeps_texts};
  int code = tsx_options_parse(count - 3, arguments + 3, &t.options, error);
  if (code >= 0) code = open_dataset(&t, arguments[1], error);
  *headers = t.headers;
  t.headers = (tsx_vcf_headers){0};
  free_table(&t);
  return code;
}

static int declare_dataset(sqlite3 *db, const vcf_table *t, char **message) {
  char *text = declaration(t);
  if (!text) return SQLITE_NOMEM;
  const int result = tsx_declare(db, text);
  if (result != SQLITE_OK && result != SQLITE_NOMEM) *message = sqlite3_mprintf("%s", sqlite3_errmsg(db));
  sqlite3_free(text);
  return result;
}

/* Makes the table. With `always`, a table whose dataset cannot be opened connects, so that it can be dropped; each
 * statement on it then fails with the error. */
static int connect_dataset(sqlite3 *db, tsx_connection *connection, int count, const char *const *arguments,
                           bool always, sqlite3_vtab **vtab, char **message) {
  vcf_table *t = sqlite3_malloc64(sizeof *t);
  tsr_error error = {0};
  if (!t) return SQLITE_NOMEM;
  memset(t, 0, sizeof *t);
  t->connection = connection;
  tsx_connection_hold(t->connection);
  tsx_connection_add_table(t->connection);
  int code = tsx_options_parse(count - 3, arguments + 3, &t->options, &error);
  if (code >= 0) code = open_dataset(t, arguments[1], &error);
  int result = tsx_sqlite_code(code);
  char *why = code < 0 ? sqlite3_mprintf("tessera_vcf: %s", error.message) : NULL;
  if (code < 0 && always && code != TSR_NOMEM && code != TSR_INTERRUPT && why) {
    t->failure = why;
    t->failure_code = result;
    t->typed_count = 0;
    result = SQLITE_OK;
  } else {
    *message = why;
  }
  if (result == SQLITE_OK) result = declare_dataset(db, t, message);
  if (result == SQLITE_OK) *vtab = &t->base;
  else vcf_disconnect(&t->base);
  return result;
}

/* xCreate and xConnect are two functions: so there is no table of the module's name. */
static int vcf_create(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                      char **message) {
  return connect_dataset(db, argument, count, arguments, false, vtab, message);
}

static int vcf_connect(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                       char **message) {
  return connect_dataset(db, argument, count, arguments, true, vtab, message);
}

/* ---- What is to be read ------------------------------------------------------------------------------------------ */

/* Bits of idxNum: which arguments xFilter gets, in this order. */
enum {
  BY_REGION = 1,
  BY_CONTIG = 2,
  BY_SAMPLE = 4,
  BY_POS = 8,
  BY_POS_FROM = 16,
  BY_POS_TO = 32,
  BY_POS_ABOVE = 64,
  BY_POS_BELOW = 128
};

static int vcf_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  const vcf_table *t = (const vcf_table *)vtab;
  const int region = COLUMN_TYPED + (int)t->typed_count;
  const struct {
    int column;
    unsigned char op;
  } kinds[] = {{region, SQLITE_INDEX_CONSTRAINT_EQ},        {COLUMN_CONTIG, SQLITE_INDEX_CONSTRAINT_EQ},
               {COLUMN_SAMPLE, SQLITE_INDEX_CONSTRAINT_EQ}, {COLUMN_POS, SQLITE_INDEX_CONSTRAINT_EQ},
               {COLUMN_POS, SQLITE_INDEX_CONSTRAINT_GE},    {COLUMN_POS, SQLITE_INDEX_CONSTRAINT_LE},
               {COLUMN_POS, SQLITE_INDEX_CONSTRAINT_GT},    {COLUMN_POS, SQLITE_INDEX_CONSTRAINT_LT}};
  int at = 0;
  info->estimatedCost = 1e9;
  info->idxNum = 0;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (int i = 0; i < info->nConstraint; i++) {
      const struct sqlite3_index_constraint *c = &info->aConstraint[i];
      if (c->iColumn != kinds[k].column || c->op != kinds[k].op) continue;
      if (!c->usable) {
        if (k == 0) return SQLITE_CONSTRAINT; /* an argument */
        continue;
      }
      if (k > 0 && (c->iColumn == COLUMN_CONTIG || c->iColumn == COLUMN_SAMPLE) &&
          sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY"))
        continue;
      info->aConstraintUsage[i].argvIndex = ++at;
      info->aConstraintUsage[i].omit = k == 0;
      info->idxNum |= 1 << k;
      info->estimatedCost /= k == 0 ? 1e5 : 30;
      break;
    }
  info->estimatedRows = (sqlite3_int64)info->estimatedCost;
  return SQLITE_OK;
}

typedef struct vcf_window { /* positions from 0, in one contig, or without `contig` in all of them */
  char *contig; /* from sqlite3_malloc, or NULL */
  uint64_t low, high;
} vcf_window;

typedef struct vcf_cursor {
  sqlite3_vtab_cursor base;
  tsx_snapshot *snapshot;
  tsr_reader *reader;
  vcf_window *windows; /* sorted by contig and position, without overlaps */
  uint32_t window_count, window; /* the present one; UINT32_MAX before the first */
  bool overlap; /* records that overlap the windows; else those that begin in them */
  char *sample; /* the only one to show, or NULL */
  bool nothing; /* no row can satisfy the conditions */
  uint32_t words[4]; /* what the ranges point to */
  tsr_range ranges[3];
  tsr_ranges sets[3]; /* of the dimensions */
  const tsr_batch *batch; /* NULL at the end */
  uint64_t row, count;
  const tsr_column **columns; /* [fields of the schema]: of the present batch, or NULL */
} vcf_cursor;

static vcf_table *table_of(const vcf_cursor *c) { return (vcf_table *)c->base.pVtab; }

static void free_windows(vcf_cursor *c) {
  for (uint32_t i = 0; i < c->window_count; i++) sqlite3_free(c->windows[i].contig);
  sqlite3_free(c->windows);
  c->windows = NULL;
  c->window_count = 0;
  sqlite3_free(c->sample);
  c->sample = NULL;
}

static int add_window(vcf_cursor *c, const char *contig, uint64_t size, uint64_t low, uint64_t high, tsr_error *error) {
  vcf_window *more = sqlite3_realloc64(c->windows, (c->window_count + UINT64_C(1)) * sizeof *more);
  if (!more) return tsx_out_of_memory(error);
  c->windows = more;
  more[c->window_count] = (vcf_window){contig ? sqlite3_mprintf("%.*s", (int)size, contig) : NULL, low, high};
  if (contig && !more[c->window_count].contig) return tsx_out_of_memory(error);
  c->window_count++;
  return TSR_OK;
}

/* Returns true if the dataset may have a contig of that name: headers need not list them. */
static bool has_contig(const vcf_table *t, const char *name, uint64_t size) {
  if (t->global) return place_named(&t->contigs, name, size) != NULL;
  for (uint32_t i = 0; i < t->headers.contig_count; i++)
    if (strlen(t->headers.contigs[i]) == size && !memcmp(t->headers.contigs[i], name, size)) return true;
  return t->headers.contig_count == 0;
}

static int fail_contig(const vcf_table *t, const char *name, uint64_t size, tsr_error *error) {
  const uint32_t count = t->global ? t->contigs.count : t->headers.contig_count;
  sqlite3_str *out = sqlite3_str_new(NULL);
  for (uint32_t i = 0; i < count && i < 3; i++)
    sqlite3_str_appendf(out, "%s%s", i ? ", " : "", t->global ? t->contigs.list[i].name : t->headers.contigs[i]);
  char *some = sqlite3_str_finish(out);
  tsx_fail(error, TSR_ERROR, "no contig '%.*s' (%s%s)", (int)(size < 60 ? size : 60), name, some ? some : "it has none",
           count > 3 ? " ..." : "");
  sqlite3_free(some);
  return error->code;
}

/* Reads a position, with commas between thousands. Returns false if there is none. */
static bool read_position(const char **at, const char *end, uint64_t *position) {
  bool any = false;
  *position = 0;
  for (; *at < end && (isdigit((unsigned char)**at) || (any && **at == ',')); ++*at)
    if (**at != ',') {
      any = true;
      if (*position < UINT32_MAX) *position = 10 * *position + (uint64_t)(**at - '0');
    }
  return any;
}

/* Adds the window of CONTIG, CONTIG:POS, CONTIG:FROM- or CONTIG:FROM-TO. Names of contigs may have colons. */
static int add_region(vcf_cursor *c, const char *text, uint64_t size, tsr_error *error) {
  const vcf_table *t = table_of(c);
  while (size > 0 && isspace((unsigned char)*text)) text++, size--;
  while (size > 0 && isspace((unsigned char)text[size - 1])) size--;
  if (size == 0) return tsx_fail(error, TSR_ERROR, "region: expected CONTIG:FROM-TO");
  const bool listed = t->global || t->headers.contig_count > 0;
  const char *end = text + size, *colon = end;
  if (!listed || !has_contig(t, text, size))
    while (colon > text && *--colon != ':') {}
  if (colon == text || colon == end) {
    if (!has_contig(t, text, size)) return fail_contig(t, text, size, error);
    return add_window(c, text, size, 0, UINT32_MAX, error);
  }
  uint64_t from, to;
  const char *at = colon + 1;
  if (!has_contig(t, text, (uint64_t)(colon - text))) return fail_contig(t, text, (uint64_t)(colon - text), error);
  bool good = read_position(&at, end, &from);
  to = from;
  if (good && at < end && *at == '-') {
    at++;
    if (at == end) to = UINT32_MAX;
    else good = read_position(&at, end, &to);
  }
  if (!good || at != end || from == 0 || to < from)
    return tsx_fail(error, TSR_ERROR, "region '%.*s': expected CONTIG:FROM-TO, from 1, both included",
                    (int)(size < 60 ? size : 60), text);
  return add_window(c, text, (uint64_t)(colon - text), from - 1, to == UINT32_MAX ? to : to - 1, error);
}

static int add_element(void *argument, const tsx_json_option *element, tsr_error *error) {
  if (strcmp(element->type, "text") != 0)
    return tsx_fail(error, TSR_MISMATCH, "region: expected texts, not %s", element->text);
  return add_region(argument, (const char *)sqlite3_value_text(element->value),
                    (uint64_t)sqlite3_value_bytes(element->value), error);
}

static int take_regions(vcf_cursor *c, sqlite3_value *value, tsr_error *error) {
  const char *text = (const char *)sqlite3_value_text(value);
  if (!text) {
    c->nothing = true; /* NULL */
    return TSR_OK;
  }
  c->overlap = true;
  if (*text == '[') return tsx_elements_each(table_of(c)->connection->db, value, "region", add_element, c, error);
  for (int code;; text++) {
    const size_t size = strcspn(text, ";");
    if ((code = add_region(c, text, size, error)) < 0) return code;
    text += size;
    if (!*text) return TSR_OK;
  }
}

static int compare_windows(const void *a, const void *b) {
  const vcf_window *x = a, *y = b;
  const int order = x->contig && y->contig ? strcmp(x->contig, y->contig) : 0;
  return order ? order : (x->low > y->low) - (x->low < y->low);
}

/* Sorts the windows, and joins those that overlap or touch. */
static void join_windows(vcf_cursor *c) {
  uint32_t kept = 0;
  if (c->window_count > 1) qsort(c->windows, c->window_count, sizeof *c->windows, compare_windows);
  for (uint32_t i = 0; i < c->window_count; i++) {
    vcf_window *w = &c->windows[i], *last = kept ? &c->windows[kept - 1] : NULL;
    if (last && w->contig && last->contig && !strcmp(w->contig, last->contig) && w->low <= last->high + 1) {
      if (w->high > last->high) last->high = w->high;
      sqlite3_free(w->contig);
      continue;
    }
    c->windows[kept++] = *w;
  }
  c->window_count = kept;
}

/* Narrows the positions low..high, from 0, by a comparison of pos, from 1, with a number. SQLite tests it, too. */
static void take_position(int kind, sqlite3_value *value, uint64_t *low, uint64_t *high) {
  const int type = sqlite3_value_numeric_type(value);
  if (type != SQLITE_INTEGER && type != SQLITE_FLOAT) return; /* texts and blobs are above all numbers */
  const double number = sqlite3_value_double(value);
  const uint64_t below = number < 1 ? 0 : number > UINT32_MAX ? UINT32_MAX : (uint64_t)number; /* at most pos of it */
  const uint64_t first = number <= 1 ? 0 : number > UINT32_MAX ? UINT32_MAX : (uint64_t)ceil(number) - 1;
  if (kind != BY_POS_TO && kind != BY_POS_BELOW && first > *low) *low = first;
  if (kind != BY_POS_FROM && kind != BY_POS_ABOVE && below < *high) *high = below; /* one more than needed */
}

static int take_sample(vcf_cursor *c, const char *name, tsr_error *error) {
  const vcf_table *t = table_of(c);
  if (!(c->sample = sqlite3_mprintf("%s", name))) return tsx_out_of_memory(error);
  c->nothing |= t->global && !place_named(&t->samples, name, strlen(name));
  return TSR_OK;
}

static int take_conditions(vcf_cursor *c, int given, sqlite3_value **values, tsr_error *error) {
  const vcf_table *t = table_of(c);
  uint64_t low = 0, high = UINT32_MAX, size = 0;
  const char *contig = NULL;
  int at = 0;
  for (int kind = 1; kind <= BY_POS_BELOW; kind <<= 1) {
    if (!(given & kind)) continue;
    sqlite3_value *value = values[at++];
    if (sqlite3_value_type(value) == SQLITE_NULL) c->nothing = true;
    if (c->nothing) continue;
    const char *text = kind <= BY_SAMPLE ? (const char *)sqlite3_value_text(value) : "";
    if (!text) return tsx_out_of_memory(error);
    if (kind == BY_REGION) TSX_TRY(take_regions(c, value, error));
    else if (kind == BY_CONTIG) {
      contig = text;
      size = (uint64_t)sqlite3_value_bytes(value);
      c->nothing |= strlen(text) != size || (t->global && !place_named(&t->contigs, text, size));
    } else if (kind == BY_SAMPLE) TSX_TRY(take_sample(c, text, error));
    else take_position(kind, value, &low, &high);
  }
  if (t->global && !contig) { /* a position that counts through all contigs says nothing of pos */
    low = 0;
    high = UINT32_MAX;
  }
  if (!c->overlap) TSX_TRY(add_window(c, contig, size, low, high, error));
  join_windows(c);
  c->nothing |= c->window_count == 0 || (!c->overlap && low > high);
  return TSR_OK;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static int vcf_fail(vcf_cursor *c, const tsr_error *error) { return tsx_vtab_error(c->base.pVtab, error); }

/* Starts the reader on the present window. */
static int start_window(vcf_cursor *c, tsr_error *error) {
  vcf_table *t = table_of(c);
  const vcf_window *w = &c->windows[c->window];
  uint64_t low = w->low, high = w->high;
  for (int d = 0; d < 3; d++) c->sets[d] = (tsr_ranges){.all = true};
  if (t->global && w->contig) {
    const vcf_place *contig = place_named(&t->contigs, w->contig, strlen(w->contig));
    const uint64_t first = contig->number;
    const vcf_place *after = contig + 1 < t->contigs.list + t->contigs.count ? contig + 1 : NULL;
    const uint64_t last = after ? after->number - 1 : UINT32_MAX;
    low = first + low < last ? first + low : last;
    high = first + high < last ? first + high : last;
  } else if (w->contig) {
    c->ranges[0] = (tsr_range){w->contig, w->contig, strlen(w->contig), strlen(w->contig), false, false};
    c->sets[t->fields[CONTIG]] = (tsr_ranges){.ranges = &c->ranges[0], .count = 1};
  }
  if (c->overlap) low = low > t->gap ? low - t->gap : 0;
  if (low > 0 || high < UINT32_MAX) {
    c->words[0] = (uint32_t)low;
    c->words[1] = (uint32_t)(high > UINT32_MAX ? UINT32_MAX : high);
    c->ranges[1] = (tsr_range){.low = &c->words[0], .high = &c->words[1]};
    c->sets[t->fields[START]] = (tsr_ranges){.ranges = &c->ranges[1], .count = 1};
  }
  if (c->sample && t->global) {
    c->words[2] = (uint32_t)place_named(&t->samples, c->sample, strlen(c->sample))->number;
    c->ranges[2] = (tsr_range){.low = &c->words[2], .high = &c->words[2]};
  } else if (c->sample) {
    c->ranges[2] = (tsr_range){c->sample, c->sample, strlen(c->sample), strlen(c->sample), false, false};
  }
  if (c->sample) c->sets[t->fields[SAMPLE]] = (tsr_ranges){.ranges = &c->ranges[2], .count = 1};
  const tsr_request request = {
      .dimensions = c->sets, .memory_bytes = t->options.limits.memory_bytes, .threads = t->options.limits.threads};
  return tsr_reader_start(c->reader, &request, error);
}

static int take_column(vcf_cursor *c, uint32_t field, const tsr_column **column, tsr_error *error) {
  int code = TSR_OK;
  if (!c->columns[field]) code = tsr_reader_column(c->reader, field, &c->columns[field], error);
  *column = c->columns[field];
  return code < 0 ? code : TSR_OK;
}

static uint64_t index_in(const vcf_cursor *c, const tsr_column *column) {
  return column->constant ? 0 : tsr_batch_index(c->batch, c->row);
}

static int number_of(vcf_cursor *c, int which, uint64_t *number, tsr_error *error) {
  const tsr_column *column;
  uint32_t word;
  TSX_TRY(take_column(c, table_of(c)->fields[which], &column, error));
  memcpy(&word, (const uint8_t *)column->values + index_in(c, column) * column->cell_size, 4);
  *number = word;
  return TSR_OK;
}

/* Gives the bytes of a cell of variable size; none if it was never written. */
static int bytes_of(vcf_cursor *c, uint32_t field, const uint8_t **bytes, uint64_t *size, tsr_error *error) {
  const tsr_column *column;
  *size = 0;
  *bytes = (const uint8_t *)"";
  if (field == NONE) return TSR_OK;
  TSX_TRY(take_column(c, field, &column, error));
  const uint64_t i = index_in(c, column);
  if (column->unwritten || (column->validity && !column->validity[i])) return TSR_OK;
  *bytes = (const uint8_t *)column->values + column->offsets[i];
  *size = column->offsets[i + 1] - column->offsets[i];
  return TSR_OK;
}

/* Returns 1 if the present cell stands for its record in the present window, 0 if not, or an error. */
static int is_record(vcf_cursor *c, tsr_error *error) {
  const vcf_table *t = table_of(c);
  const vcf_window *w = &c->windows[c->window], *before = c->window > 0 ? w - 1 : NULL;
  uint64_t start, real, end, first = 0;
  TSX_TRY(number_of(c, START, &start, error));
  TSX_TRY(number_of(c, REAL_START, &real, error));
  TSX_TRY(number_of(c, END_POS, &end, error));
  if (!c->overlap) return start == real;
  if (t->global) first = place_named(&t->contigs, w->contig, strlen(w->contig))->number;
  const uint64_t low = first + w->low, high = first + w->high;
  if (real < first || real > high || end < low || (start != real && start >= low)) return 0;
  /* a record that overlaps two windows was taken in the first */
  return !before || strcmp(before->contig, w->contig) != 0 || real > first + before->high;
}

/* Moves to the next record. */
static int advance(vcf_cursor *c, tsr_error *error) {
  vcf_table *t = table_of(c);
  const uint32_t fields = t->schema->dimension_count + t->schema->attribute_count;
  int code = TSR_OK;
  for (;;) {
    if (c->batch) c->row++;
    for (; c->batch && c->row < c->batch->count; c->row++)
      if ((code = is_record(c, error)) != 0) return code < 0 ? code : TSR_OK;
    if (c->window != NONE && (code = tsr_reader_next(c->reader, &c->batch, error)) < 0) return code;
    if (c->window == NONE || code == 0) {
      c->batch = NULL;
      if (++c->window == c->window_count) return TSR_OK;
      if ((code = start_window(c, error)) < 0) return code;
      continue;
    }
    memset(c->columns, 0, fields * sizeof *c->columns);
    c->row = UINT64_MAX; /* the next round begins with the first row */
  }
}

static int vcf_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  vcf_table *t = (vcf_table *)vtab;
  if (t->failure) return tsx_vtab_fail(vtab, t->failure_code, "%s: open the database again", t->failure);
  const uint64_t fields = t->schema->dimension_count + t->schema->attribute_count;
  tsr_error error = {0};
  if (tsx_array_permitted(t->connection, t->array, &error) < 0) return tsx_vtab_error(vtab, &error);
  vcf_cursor *c = sqlite3_malloc64(sizeof *c + fields * sizeof(void *));
  if (!c) return SQLITE_NOMEM;
  memset(c, 0, sizeof *c);
  c->columns = (const tsr_column **)(c + 1);
  tsx_connection_add_cursor(t->connection);
  *out = &c->base;
  return SQLITE_OK;
}

static int vcf_close(sqlite3_vtab_cursor *base) {
  vcf_cursor *c = (vcf_cursor *)base;
  free_windows(c);
  tsr_reader_close(c->reader);
  tsx_snapshot_release(c->snapshot);
  tsx_connection_remove_cursor(table_of(c)->connection);
  sqlite3_free(c);
  return SQLITE_OK;
}

/* Opens the reader, unless an earlier xFilter of this cursor has, and goes to the first record. */
static int begin_rows(vcf_cursor *c, int given, sqlite3_value **values, tsr_error *error) {
  const vcf_table *t = table_of(c);
  TSX_TRY(take_conditions(c, given, values, error));
  if (!c->snapshot)
    TSX_TRY(tsx_array_snapshot(t->connection, t->array, t->schema, t->options.times.since, t->options.times.as_of,
                               false, &c->snapshot, error));
  if (!c->reader) TSX_TRY(tsr_reader_open(c->snapshot->core, &c->reader, error));
  return c->nothing ? TSR_OK : advance(c, error);
}

static int vcf_filter(sqlite3_vtab_cursor *base, int given, const char *text, int count, sqlite3_value **values) {
  vcf_cursor *c = (vcf_cursor *)base;
  tsr_error error = {0};
  (void)text, (void)count;
  free_windows(c);
  c->batch = NULL;
  c->window = NONE;
  c->overlap = c->nothing = false;
  c->count = 0;
  return begin_rows(c, given, values, &error) < 0 ? vcf_fail(c, &error) : SQLITE_OK;
}

static int vcf_next(sqlite3_vtab_cursor *base) {
  vcf_cursor *c = (vcf_cursor *)base;
  tsr_error error;
  tsx_error_init(&error);
  c->count++;
  return advance(c, &error) < 0 ? vcf_fail(c, &error) : SQLITE_OK;
}

static int vcf_eof(sqlite3_vtab_cursor *base) { return !((vcf_cursor *)base)->batch; }

static int vcf_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  const vcf_cursor *c = (const vcf_cursor *)base;
  *rowid = tsr_batch_rowid(c->batch, tsr_batch_index(c->batch, c->row));
  return SQLITE_OK;
}

/* ---- Columns ----------------------------------------------------------------------------------------------------- */

static int contig_of(vcf_cursor *c, const char **name, uint64_t *size, uint64_t *first, tsr_error *error) {
  const vcf_table *t = table_of(c);
  uint64_t real;
  *first = 0;
  if (!t->global) return bytes_of(c, t->fields[CONTIG], (const uint8_t **)name, size, error);
  TSX_TRY(number_of(c, REAL_START, &real, error));
  const vcf_place *place = place_below(&t->contigs, real);
  if (!place)
    return tsx_fail(error, TSR_CORRUPT, "%s: position %llu is in no contig", t->path, (unsigned long long)real);
  *name = place->name;
  *size = strlen(place->name);
  *first = place->number;
  return TSR_OK;
}

static int sample_of(vcf_cursor *c, const char **name, uint64_t *size, tsr_error *error) {
  const vcf_table *t = table_of(c);
  uint64_t number;
  if (!t->global) return bytes_of(c, t->fields[SAMPLE], (const uint8_t **)name, size, error);
  TSX_TRY(number_of(c, SAMPLE, &number, error));
  const vcf_place *place = place_below(&t->samples, number);
  if (!place || place->number != number)
    return tsx_fail(error, TSR_CORRUPT, "%s: sample number %llu has no name", t->path, (unsigned long long)number);
  *name = place->name;
  *size = strlen(place->name);
  return TSR_OK;
}

/* Fails: a blob of the present record does not decode. */
static int fail_blob(vcf_cursor *c, const char *what, tsr_error *error) {
  const char *contig = "?", *sample = "?";
  uint64_t contig_size = 1, sample_size = 1, first = 0, real = 0;
  tsr_error ignored = {0};
  (void)contig_of(c, &contig, &contig_size, &first, &ignored);
  (void)sample_of(c, &sample, &sample_size, &ignored);
  (void)number_of(c, REAL_START, &real, &ignored);
  return tsx_fail(error, TSR_CORRUPT, "%s: the record of sample %.*s at %.*s:%llu has a damaged %s", table_of(c)->path,
                  (int)(sample_size < 100 ? sample_size : 100), sample, (int)(contig_size < 100 ? contig_size : 100),
                  contig, (unsigned long long)(real - first + 1), what);
}

/* Finds a value by its name: in its attribute, or else in the blob. Returns 1; 0 if the record has none. */
static int find_value(vcf_cursor *c, bool info, const char *id, uint32_t attribute, tsx_vcf_value *value,
                      tsr_error *error) {
  const vcf_table *t = table_of(c);
  const uint8_t *bytes;
  uint64_t size;
  tsx_vcf_blob blob;
  int code = TSR_OK;
  if (attribute != NONE) {
    if ((code = bytes_of(c, attribute, &bytes, &size, error)) < 0) return code;
    code = tsx_vcf_cell(bytes, size, value);
    return code < 0 ? fail_blob(c, id, error) : code;
  }
  if ((code = bytes_of(c, t->fields[info ? INFO : FMT], &bytes, &size, error)) < 0) return code;
  code = tsx_vcf_blob_open(bytes, size, &blob);
  while (code >= 0 && (code = tsx_vcf_blob_next(&blob, value)) > 0)
    if (!strcmp(value->name, id)) return 1;
  return code < 0 ? fail_blob(c, info ? "info" : "fmt", error) : 0;
}

static int result_typed(vcf_cursor *c, sqlite3_context *context, uint32_t number, tsr_error *error) {
  const vcf_table *t = table_of(c);
  const tsx_vcf_field *field = &t->headers.fields[number];
  tsx_vcf_value value;
  const int code = find_value(c, field->info, field->id, t->attributes[number], &value, error);
  if (code > 0) tsx_vcf_result(context, &value, field->single);
  return code < 0 ? code : TSR_OK;
}

static int result_genotype(vcf_cursor *c, sqlite3_context *context, bool phased, tsr_error *error) {
  tsx_vcf_value value;
  const int code = find_value(c, false, "GT", table_of(c)->fields[GENOTYPE], &value, error);
  if (code <= 0) return code;
  sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
  const bool all = tsx_vcf_genotype(out, &value);
  if (!phased) {
    tsx_result_string(context, out);
  } else {
    sqlite3_free(sqlite3_str_finish(out));
    sqlite3_result_int(context, all);
  }
  return TSR_OK;
}

/* Returns true if a field has a single value; a field that no header has counts as a list. */
static bool is_single(const vcf_table *t, bool info, const char *id) {
  for (uint32_t i = 0; i < t->headers.field_count; i++)
    if (t->headers.fields[i].info == info && !strcmp(t->headers.fields[i].id, id)) return t->headers.fields[i].single;
  return false;
}

/* Makes a JSON object of all of INFO or FORMAT. */
static int result_all(vcf_cursor *c, sqlite3_context *context, bool info, tsr_error *error) {
  const vcf_table *t = table_of(c);
  const uint8_t *bytes;
  uint64_t size;
  tsx_vcf_blob blob;
  tsx_vcf_value value;
  int code = bytes_of(c, t->fields[info ? INFO : FMT], &bytes, &size, error);
  if (code < 0) return code;
  sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
  bool any = false;
  code = tsx_vcf_blob_open(bytes, size, &blob);
  while (code >= 0 && (code = tsx_vcf_blob_next(&blob, &value)) > 0) {
    sqlite3_str_appendall(out, any ? "," : "{");
    any = true;
    tsx_json_text(out, value.name, strlen(value.name));
    sqlite3_str_appendchar(out, 1, ':');
    tsx_vcf_json(out, &value, is_single(t, info, value.name));
  }
  if (code < 0) code = fail_blob(c, info ? "info" : "fmt", error);
  for (uint32_t i = 0; i < t->headers.field_count && code >= 0; i++) {
    const tsx_vcf_field *field = &t->headers.fields[i];
    if (field->info != info || t->attributes[i] == NONE) continue;
    if ((code = find_value(c, info, field->id, t->attributes[i], &value, error)) <= 0) continue;
    sqlite3_str_appendall(out, any ? "," : "{");
    any = true;
    tsx_json_text(out, field->id, strlen(field->id));
    sqlite3_str_appendchar(out, 1, ':');
    tsx_vcf_json(out, &value, field->single);
  }
  if (any) sqlite3_str_appendchar(out, 1, '}');
  if (any && code >= 0) tsx_result_string(context, out);
  else sqlite3_free(sqlite3_str_finish(out));
  return code < 0 ? code : TSR_OK;
}

/* Returns the size of a text without the NULs at its end; 0 if it is missing. */
static uint64_t shown_size(const uint8_t *bytes, uint64_t size) {
  while (size > 0 && bytes[size - 1] == 0) size--;
  return size == 1 && *bytes == '.' ? 0 : size;
}

static int result_alleles(vcf_cursor *c, sqlite3_context *context, bool ref, tsr_error *error) {
  const uint8_t *bytes;
  uint64_t size;
  TSX_TRY(bytes_of(c, table_of(c)->fields[ALLELES], &bytes, &size, error));
  size = shown_size(bytes, size);
  const char *text = (const char *)bytes, *comma = size ? memchr(text, ',', size) : NULL;
  const uint64_t first = comma ? (uint64_t)(comma - text) : size;
  if (ref) {
    if (first > 0) sqlite3_result_text64(context, text, first, SQLITE_TRANSIENT, SQLITE_UTF8);
    return TSR_OK;
  }
  if (!comma || (size - first == 2 && comma[1] == '.')) return TSR_OK;
  const tsx_vcf_value value = {
      .type = TSX_VCF_TEXT, .count = (uint32_t)(size - first - 1), .values = (const uint8_t *)comma + 1};
  tsx_vcf_result(context, &value, false);
  return TSR_OK;
}

static int result_filters(vcf_cursor *c, sqlite3_context *context, tsr_error *error) {
  const vcf_table *t = table_of(c);
  const uint8_t *bytes;
  const char *sample;
  uint64_t size, sample_size;
  TSX_TRY(bytes_of(c, t->fields[FILTERS], &bytes, &size, error));
  TSX_TRY(sample_of(c, &sample, &sample_size, error));
  uint32_t count = 0, id;
  if (size >= 4) memcpy(&count, bytes, 4);
  if (count == 0 || count > INT32_MAX || size < 8) return TSR_OK;
  if ((uint64_t)count * 4 + 4 > size) return fail_blob(c, "filter_ids", error);
  sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
  for (uint32_t i = 0; i < count; i++) {
    memcpy(&id, bytes + 4 + 4 * (uint64_t)i, 4);
    const char *name = id == 0 ? "PASS" : tsx_vcf_filter_name(&t->headers, sample, sample_size, id);
    if (i) sqlite3_str_appendchar(out, 1, ';');
    if (name) sqlite3_str_appendall(out, name);
    else sqlite3_str_appendf(out, "#%u", id); /* no header says what it is */
  }
  tsx_result_string(context, out);
  return TSR_OK;
}

static int result_qual(vcf_cursor *c, sqlite3_context *context, tsr_error *error) {
  const tsr_column *column;
  float number;
  if (table_of(c)->fields[QUAL] == NONE) return TSR_OK;
  TSX_TRY(take_column(c, table_of(c)->fields[QUAL], &column, error));
  memcpy(&number, (const uint8_t *)column->values + index_in(c, column) * column->cell_size, sizeof number);
  if (!column->unwritten && !isnan(number)) sqlite3_result_double(context, (double)number);
  return TSR_OK;
}

static int result_text(sqlite3_context *context, const void *bytes, uint64_t size) {
  size = shown_size(bytes, size);
  if (size > 0) sqlite3_result_text64(context, bytes, size, SQLITE_TRANSIENT, SQLITE_UTF8);
  return TSR_OK;
}

static int result_contig(vcf_cursor *c, sqlite3_context *context, tsr_error *error) {
  const char *name;
  uint64_t size, first;
  TSX_TRY(contig_of(c, &name, &size, &first, error));
  return result_text(context, name, size);
}

/* Positions are counted from 1, within their contig. */
static int result_position(vcf_cursor *c, sqlite3_context *context, int field, tsr_error *error) {
  const char *contig;
  uint64_t size, first, number;
  TSX_TRY(contig_of(c, &contig, &size, &first, error));
  TSX_TRY(number_of(c, field, &number, error));
  sqlite3_result_int64(context, (sqlite3_int64)(number - first + 1));
  return TSR_OK;
}

static int result_sample(vcf_cursor *c, sqlite3_context *context, tsr_error *error) {
  const char *name;
  uint64_t size;
  TSX_TRY(sample_of(c, &name, &size, error));
  return result_text(context, name, size);
}

static int result_id(vcf_cursor *c, sqlite3_context *context, tsr_error *error) {
  const uint8_t *bytes;
  uint64_t size;
  TSX_TRY(bytes_of(c, table_of(c)->fields[ID], &bytes, &size, error));
  return result_text(context, bytes, size);
}

static int vcf_result(vcf_cursor *c, sqlite3_context *context, int column, tsr_error *error) {
  const vcf_table *t = table_of(c);
  switch (column) {
  case COLUMN_CONTIG: return result_contig(c, context, error);
  case COLUMN_POS: return result_position(c, context, REAL_START, error);
  case COLUMN_END: return result_position(c, context, END_POS, error);
  case COLUMN_SAMPLE: return result_sample(c, context, error);
  case COLUMN_ID: return result_id(c, context, error);
  case COLUMN_REF: return result_alleles(c, context, true, error);
  case COLUMN_ALT: return result_alleles(c, context, false, error);
  case COLUMN_QUAL: return result_qual(c, context, error);
  case COLUMN_FILTER: return result_filters(c, context, error);
  case COLUMN_GT: return result_genotype(c, context, false, error);
  case COLUMN_PHASED: return result_genotype(c, context, true, error);
  case COLUMN_INFO: return result_all(c, context, true, error);
  case COLUMN_FMT: return result_all(c, context, false, error);
  default: break;
  }
  const uint32_t typed = (uint32_t)(column - COLUMN_TYPED);
  return typed < t->typed_count ? result_typed(c, context, t->typed[typed], error) : TSR_OK;
}

static int vcf_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column) {
  tsr_error error;
  tsx_error_init(&error);
  vcf_cursor *c = (vcf_cursor *)base;
  return vcf_result(c, context, column, &error) < 0 ? vcf_fail(c, &error) : SQLITE_OK;
}

/* ---- The module -------------------------------------------------------------------------------------------------- */

static const sqlite3_module vcf_module = {.iVersion = 1,
                                          .xCreate = vcf_create,
                                          .xConnect = vcf_connect,
                                          .xBestIndex = vcf_best_index,
                                          .xDisconnect = vcf_disconnect,
                                          .xDestroy = vcf_disconnect,
                                          .xOpen = vcf_open,
                                          .xClose = vcf_close,
                                          .xFilter = vcf_filter,
                                          .xNext = vcf_next,
                                          .xEof = vcf_eof,
                                          .xColumn = vcf_column,
                                          .xRowid = vcf_rowid};

int tsx_register_vcf(tsx_connection *connection) {
  tsx_connection_hold(connection); /* SQLite calls the destructor, which drops it, even if this call fails */
  const int code =
      sqlite3_create_module_v2(connection->db, "tessera_vcf", &vcf_module, connection, tsx_connection_drop);
  return code == SQLITE_OK ? tsx_register_vcf_fields(connection) : code;
}
