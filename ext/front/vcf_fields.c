/* vcf_fields.c: what the headers of a TileDB-VCF dataset say: the fields of INFO and FORMAT, each once; and the samples
 * by their names, also in a dataset of version 3, whose arrays have numbers for them:
 *
 *   CREATE VIRTUAL TABLE vcf_fields USING tessera_vcf_fields('cohort/data')
 *   CREATE VIRTUAL TABLE samples USING tessera_vcf_samples('cohort/data')
 *
 * The headers are read when the table connects. */
#include "front/vcf.h"

#include <string.h>

#include "connection/errors.h"

typedef struct fields_table {
  sqlite3_vtab base;
  tsx_connection *connection;
  bool samples; /* a row for each sample, not for each field */
  tsx_vcf_headers headers;
  char *failure; /* the dataset could not be opened: each statement fails with this message, or NULL */
  int failure_code; /* SQLite's */
} fields_table;

typedef struct fields_cursor {
  sqlite3_vtab_cursor base;
  uint32_t row;
} fields_cursor;

static int fields_disconnect(sqlite3_vtab *vtab) {
  fields_table *table = (fields_table *)vtab;
  tsx_vcf_headers_free(&table->headers);
  sqlite3_free(table->failure);
  tsx_connection_remove_table(table->connection);
  tsx_connection_drop(table->connection);
  sqlite3_free(table);
  return SQLITE_OK;
}

static int fields_declare(sqlite3 *db, const fields_table *table) {
  return tsx_declare(db, table->samples
                             ? "CREATE TABLE x(sample TEXT, header TEXT)"
                             : "CREATE TABLE x(kind TEXT, id TEXT, number TEXT, type TEXT, description TEXT)");
}

/* Makes the table. With `always`, one whose dataset cannot be opened connects, so that it can be dropped. */
static int fields_make(sqlite3 *db, tsx_connection *connection, int count, const char *const *arguments, bool always,
                       sqlite3_vtab **vtab, char **message) {
  fields_table *table = sqlite3_malloc64(sizeof *table);
  tsr_error error = {0};
  if (!table) return SQLITE_NOMEM;
  const bool samples = !sqlite3_stricmp(arguments[0], "tessera_vcf_samples");
  *table = (fields_table){.connection = connection, .samples = samples, .headers.keeps_texts = samples};
  tsx_connection_hold(connection);
  tsx_connection_add_table(connection);
  const int read = tsx_vcf_headers_read(connection, count, arguments, &table->headers, &error);
  char *why = read < 0 ? sqlite3_mprintf("%s: %s", arguments[0], error.message) : NULL;
  int code = tsx_sqlite_code(read);
  if (read < 0 && always && why && read != TSR_NOMEM && read != TSR_INTERRUPT) {
    table->failure = why;
    table->failure_code = code;
    code = SQLITE_OK;
  } else {
    *message = why;
  }
  if (code == SQLITE_OK) code = fields_declare(db, table);
  if (code == SQLITE_OK) *vtab = &table->base;
  else fields_disconnect(&table->base);
  return code;
}

/* xCreate and xConnect are two functions: so there is no table of the module's name. */
static int fields_create(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                         char **message) {
  return fields_make(db, argument, count, arguments, false, vtab, message);
}

static int fields_connect(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                          char **message) {
  return fields_make(db, argument, count, arguments, true, vtab, message);
}

static uint32_t fields_count(const fields_table *table) {
  return table->samples ? table->headers.sample_count : table->headers.field_count;
}

static int fields_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  info->estimatedRows = fields_count((const fields_table *)vtab);
  info->estimatedCost = (double)info->estimatedRows;
  return SQLITE_OK;
}

static int fields_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  fields_cursor *c = sqlite3_malloc64(sizeof *c);
  (void)vtab;
  if (!c) return SQLITE_NOMEM;
  memset(c, 0, sizeof *c);
  *out = &c->base;
  return SQLITE_OK;
}

static int fields_close(sqlite3_vtab_cursor *cursor) {
  sqlite3_free(cursor);
  return SQLITE_OK;
}

static int fields_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int count, sqlite3_value **values) {
  const fields_table *table = (const fields_table *)cursor->pVtab;
  (void)number, (void)text, (void)count, (void)values;
  ((fields_cursor *)cursor)->row = 0;
  return table->failure ? tsx_vtab_fail(cursor->pVtab, table->failure_code, "%s", table->failure) : SQLITE_OK;
}

static int fields_next(sqlite3_vtab_cursor *cursor) {
  ((fields_cursor *)cursor)->row++;
  return SQLITE_OK;
}

static int fields_eof(sqlite3_vtab_cursor *cursor) {
  return ((fields_cursor *)cursor)->row >= fields_count((const fields_table *)cursor->pVtab);
}

static int sample_column(const tsx_vcf_sample *sample, sqlite3_context *context, int column) {
  const char *text = column == 0 && *sample->name ? sample->name : column == 1 ? sample->header : NULL;
  if (text) sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
  return SQLITE_OK;
}

static int fields_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column) {
  static const char *const types[] = {
      [TSX_VCF_FLAG] = "Flag", [TSX_VCF_INTEGER] = "Integer", [TSX_VCF_FLOAT] = "Float", [TSX_VCF_TEXT] = "String"};
  const fields_table *table = (const fields_table *)cursor->pVtab;
  const uint32_t row = ((fields_cursor *)cursor)->row;
  if (table->samples) return sample_column(&table->headers.samples[row], context, column);
  const tsx_vcf_field *field = &table->headers.fields[row];
  const char *const texts[] = {field->info ? "INFO" : "FORMAT", field->id, field->number, types[field->type],
                               field->description};
  if (column >= 0 && column < 5) sqlite3_result_text(context, texts[column], -1, SQLITE_TRANSIENT);
  return SQLITE_OK;
}

static int fields_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid) {
  *rowid = (sqlite3_int64)((fields_cursor *)cursor)->row + 1;
  return SQLITE_OK;
}

static const sqlite3_module fields_module = {.xCreate = fields_create,
                                             .xConnect = fields_connect,
                                             .xBestIndex = fields_best_index,
                                             .xDisconnect = fields_disconnect,
                                             .xDestroy = fields_disconnect,
                                             .xOpen = fields_open,
                                             .xClose = fields_close,
                                             .xFilter = fields_filter,
                                             .xNext = fields_next,
                                             .xEof = fields_eof,
                                             .xColumn = fields_column,
                                             .xRowid = fields_rowid};

int tsx_register_vcf_fields(tsx_connection *connection) {
  static const char *const names[] = {"tessera_vcf_fields", "tessera_vcf_samples"};
  int code = SQLITE_OK;
  for (int i = 0; i < 2 && code == SQLITE_OK; i++) {
    tsx_connection_hold(connection);
    code = sqlite3_create_module_v2(connection->db, names[i], &fields_module, connection, tsx_connection_drop);
  }
  return code;
}
