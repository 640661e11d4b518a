/* ingest.c: one call of tessera_create_as, tessera_create_csv or tessera_create_stream, from the names of the source's
 * columns to the array.
 *
 * tsx_ingest_options reads the options (ingest_options.c) and decides what happens to the rows; the core's ingest
 * collects them; tsx_ingest_finish then does one of:
 * - A new array in a directory or bucket is prepared under a name that readers do not see, gets its rows and metadata,
 *   and is published in one step. One in the database is made within a savepoint.
 * - An append is one commit. New labels of enumerations are added before it, and stay even if the rows cannot be
 *   written.
 * - A replacement in a directory is made beside the old array, complete, and the two are exchanged in one step. A crash
 *   in between leaves the old array in place, and the new one beside it. In the database, the old table is dropped
 *   within the same savepoint.
 * - With `explain`, nothing is made; the result is the CREATE statement.
 *
 * For an append, each column takes the type of the field, or of the dimension label, that has its name.
 *
 * Sections: labels, rows and metadata, a new array, an array that exists, begin, the array to append to, rows, the
 * result. */
#include "tessera_path.h"
#include "data/ingest.h"

#include <string.h>
#include <stdlib.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "definition/define.h"
#include "sql/json.h"
#include "sql/names.h"
#include "values/slice.h"
#include "values/value.h"
#include "database/store_sqlite.h"
#include "table/table.h"
#include "maintain/upkeep.h"

/* ---- Labels ------------------------------------------------------------------------------------------------------ */

int tsx_ingest_label(tsx_ingest_call *call, tsr_ingest_column *column, const char *dimension, tsr_error *error) {
  tsx_parser p = {.definition = &call->memory};
  if (!*dimension)
    return tsx_fail(error, TSR_MISMATCH, "'labels': column '%s': expected the name of a dimension", column->name);
  for (uint32_t i = 0; i < call->options.column_count; i++) {
    const tsr_ingest_column *other = &call->columns[i];
    if (!sqlite3_stricmp(other->name, dimension))
      return tsx_fail(error, TSR_CONSTRAINT, "'labels': '%.64s' is a column: choose another name for the dimension",
                      dimension);
    if (other->label_of && !sqlite3_stricmp(other->label_of, dimension))
      return tsx_fail(error, TSR_CONSTRAINT, "'labels': the dimension '%.64s' has two labels", dimension);
  }
  char *copy = tsx_parser_alloc(&p, strlen(dimension) + 1);
  if (!copy) return tsx_out_of_memory(error);
  memcpy(copy, dimension, strlen(dimension));
  column->label_of = copy;
  call->labels.columns[call->labels.count++] = (uint32_t)(column - call->columns);
  return TSR_OK;
}

void tsx_ingest_label_dimensions(tsx_ingest_call *call) {
  for (uint32_t i = 0; i < call->labels.count; i++) {
    bool named = false;
    for (uint32_t d = 0; d < call->options.dimension_count; d++)
      named |= call->dimensions[d] == call->labels.columns[i];
    if (!named) call->dimensions[call->options.dimension_count++] = call->labels.columns[i];
  }
}

/* Opens a label of the array and reads its values. */
static int open_label(tsx_ingest_call *call, const tsr_schema *schema, uint32_t number, tsr_ingest_column *column,
                      tsr_error *error) {
  tsr_label_index **index = &call->labels.indexes[call->labels.index_count];
  TSX_TRY(
      tsr_label_open(call->array.target.address.array->core, schema, number, call->options.memory_bytes, index, error));
  call->labels.index_count++;
  int code = tsr_label_read(*index, 0, TSR_TIME_NOW, error);
  column->label = *index;
  return code;
}

/* For an append: if the array has a label with the name of column `i`, the column becomes that label. Returns 1; 0 if
 * there is no such label. */
static int take_label(tsx_ingest_call *call, const tsr_schema *schema, uint32_t i, tsr_error *error) {
  tsr_ingest_column *column = &call->columns[i];
  uint32_t number = 0;
  while (number < schema->label_count && sqlite3_stricmp(schema->labels[number].name, column->name) != 0) number++;
  if (number == schema->label_count) return 0;
  const tsr_label *label = &schema->labels[number];
  const tsr_field *dimension = &schema->fields[label->dimension];
  if (call->dimensions[label->dimension] != UINT32_MAX)
    return tsx_fail(error, TSR_CONSTRAINT, "column '%s': another column gives the dimension '%s'", column->name,
                    dimension->name);
  if (column->label_of && sqlite3_stricmp(column->label_of, dimension->name) != 0)
    return tsx_fail(error, TSR_CONSTRAINT, "'labels': in the array '%s' is a label of '%s'", column->name,
                    dimension->name);
  TSX_TRY(open_label(call, schema, number, column, error));
  const tsr_field *values = tsr_label_field(column->label);
  call->dimensions[label->dimension] = i;
  column->label_of = dimension->name;
  column->label_datatype = dimension->datatype;
  column->typed = true;
  column->datatype = values->datatype;
  column->values_per_cell = values->values_per_cell;
  column->duration = values->duration;
  column->labels = column->grow = false;
  column->enumeration = NULL;
  column->has_domain = dimension->has_domain;
  memcpy(column->low, dimension->low, sizeof column->low);
  memcpy(column->high, dimension->high, sizeof column->high);
  return 1;
}

static void ingest_labels_close(tsx_ingest_call *call) {
  for (uint32_t i = 0; i < call->labels.index_count; i++) tsr_label_close(call->labels.indexes[i]);
}

/* ---- Rows and metadata ------------------------------------------------------------------------------------------- */

static int put_value(tsr_array *array, const tsx_json_option *o, tsr_error *error) {
  const int type = sqlite3_value_type(o->value);
  const tsr_datatype datatype = type == SQLITE_INTEGER ? TSR_INT64 : type == SQLITE_FLOAT ? TSR_FLOAT64 : TSR_UTF8;
  uint8_t *bytes;
  uint64_t size;
  if (type == SQLITE_NULL) return tsx_fail(error, TSR_MISMATCH, "the value is null");
  TSX_TRY(tsx_bytes_convert(o->value, datatype, &bytes, &size, error));
  const tsr_metadatum entry = {.key = o->key,
                               .key_size = strlen(o->key),
                               .datatype = datatype,
                               .count = size / tsr_datatype_size(datatype),
                               .value = bytes,
                               .value_size = size};
  const int code = tsr_array_set_metadata(array, &entry, error);
  sqlite3_free(bytes);
  return code;
}

static int put_metadatum(void *argument, const tsx_json_option *o, tsr_error *error) {
  const int code = put_value(argument, o, error);
  if (code >= 0) return code;
  const tsr_error why = *error;
  return tsx_fail(error, code, "'metadata': '%.64s': %s", o->key, why.message);
}

static const uint8_t *ingest_key(const tsx_ingest_call *call) {
  return call->array.address.has_key ? call->array.address.key : NULL;
}

static int put_zone(const tsr_ingest_column *column, tsr_array *array, tsr_error *error) {
  char *key = sqlite3_mprintf("__tiledb_attr.%s.time_zone", column->name);
  if (!key) return tsx_out_of_memory(error);
  const tsr_metadatum entry = {.key = key,
                               .key_size = strlen(key),
                               .datatype = TSR_UTF8,
                               .count = strlen(column->zone),
                               .value = (const uint8_t *)column->zone,
                               .value_size = strlen(column->zone)};
  const int code = tsr_array_set_metadata(array, &entry, error);
  sqlite3_free(key);
  return code;
}

/* Writes the metadata that the call was given, and for a new array the time zones of Arrow columns. */
static int ingest_put_metadata(tsx_ingest_call *call, tsr_array *array, tsr_error *error) {
  if (call->given.metadata)
    TSX_TRY(tsx_options_each(call->connection->db, call->given.metadata, "'metadata'", put_metadatum, array, error));
  for (uint32_t i = 0; i < call->options.column_count && !call->array.append; i++)
    if (call->columns[i].zone) TSX_TRY(put_zone(&call->columns[i], array, error));
  return TSR_OK;
}

/* Writes the rows and the metadata. Those of a new array are older than its rows, so that the state of its last write
 * has them. Those of an append are written once the rows are there. */
static int ingest_fill(tsx_ingest_call *call, tsr_array *array, tsr_error *error) {
  if (!call->array.append) TSX_TRY(ingest_put_metadata(call, array, error));
  TSX_TRY(tsr_ingest_write(call->ingest, array, !call->array.append, &call->result.rows, error));
  return call->array.append ? ingest_put_metadata(call, array, error) : TSR_OK;
}

/* ---- A new array ------------------------------------------------------------------------------------------------- */

static int drop_table_named(tsx_ingest_call *call, const char *schema, const char *table, tsr_error *error) {
  sqlite3 *db = call->connection->db;
  TSX_TRY(tsx_savepoint_begin(call->connection, call->array.address.path, error));
  char *sql = sqlite3_mprintf("DROP TABLE \"%w\".\"%w\"", schema ? schema : "main", table);
  if (!sql) return tsx_out_of_memory(error);
  const int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
  sqlite3_free(sql);
  return code == SQLITE_OK ? TSR_OK : tsx_fail(error, tsx_core_code(code), "replace: %s", sqlite3_errmsg(db));
}

/* Drops the table that is replaced, within the savepoint in which the new one is made. */
static int drop_table(tsx_ingest_call *call, tsr_error *error) {
  char *schema, *table;
  TSX_TRY(tsx_table_name_parse(call->array.path + strlen("db:"), &schema, &table, error));
  const int code = drop_table_named(call, schema, table, error);
  sqlite3_free(schema);
  sqlite3_free(table);
  return code;
}

static int make_in_database(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  tsr_array *array = NULL;
  char *path = NULL;
  const tsr_array_options options = {.key = ingest_key(call)};
  if (call->array.replace) TSX_TRY(drop_table(call, error));
  TSX_TRY(tsx_database_create(call->connection, call->array.path, &call->array.address, schema, &path, error));
  int code = tsr_array_open(call->connection->environment, path, &options, &array, error);
  if (code >= 0) code = ingest_fill(call, array, error);
  tsr_array_close(array);
  sqlite3_free(path);
  return code;
}

static int fill_creation(tsx_ingest_call *call, const char *path, tsr_creation *creation, tsr_error *error) {
  tsr_array *array;
  const tsr_array_options options = {.creation = creation, .key = ingest_key(call)};
  TSX_TRY(tsr_array_open(call->connection->environment, path, &options, &array, error));
  int code = ingest_fill(call, array, error);
  if (code >= 0) code = tsr_creation_publish(creation, error);
  tsr_array_close(array);
  return code;
}

/* Makes the array in a directory or bucket. */
static int ingest_make_at(tsx_ingest_call *call, const char *path, const tsr_schema *schema, tsr_error *error) {
  tsr_creation *creation = NULL;
  const tsr_create_options create = {.key = ingest_key(call)};
  TSX_TRY(tsx_creation_begin(call->connection, path, schema, &create, &creation, error));
  const int code = fill_creation(call, path, creation, error);
  if (code < 0) (void)tsr_creation_abandon(creation, NULL);
  tsr_creation_close(creation);
  return code;
}

/* Exchanges the array at old->path with the new one at `beside`, and drops the old one. */
static int exchange(tsx_ingest_call *call, tsx_address *old, const char *beside, tsr_error *error) {
  tsr_environment *environment = call->connection->environment;
  int code = tsx_drop_overviews(old, error);
  if (code >= 0) code = tsr_array_exchange(environment, old->path, beside, error);
  tsx_path_changed(call->connection, call->array.address.path);
  const tsr_error why = *error;
  /* drops the old array, or the new one if the exchange failed */
  const int dropped = tsr_array_drop(environment, beside, error);
  if (code < 0) *error = why;
  else if (dropped < 0) code = tsx_fail_in("the new array is there, but the old one could not be removed", error);
  return code;
}

/* Makes the array beside the one that it replaces, exchanges the two, and drops the old one. */
static int ingest_replace(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  tsx_address old = {.connection = call->connection, .has_key = call->array.address.has_key};
  uint64_t random;
  size_t length = strlen(call->array.address.path);
  sqlite3_randomness(sizeof random, &random);
  while (length > 1 && call->array.address.path[length - 1] == '/') length--;
  old.path = sqlite3_mprintf("%.*s", (int)length, call->array.address.path);
  char *beside = old.path ? sqlite3_mprintf("%s.%016llx", old.path, (unsigned long long)random) : NULL;
  old.given = sqlite3_mprintf("%s", call->array.path);
  const bool made = beside && old.given;
  int code = made ? ingest_make_at(call, beside, schema, error) : tsx_out_of_memory(error);
  if (code >= 0) code = exchange(call, &old, beside, error);
  tsx_address_close(&old);
  sqlite3_free(beside);
  return code;
}

/* Fails if the array at the call's path cannot be replaced. */
static int ingest_may_replace(const tsx_ingest_call *call, tsr_error *error) {
  if (tsx_store_is(call->array.address.path)) return TSR_OK;
  if (tsr_path_scheme(call->array.address.path, NULL))
    return tsx_fail(error, TSR_UNSUPPORTED,
                    "if_exists replace: in a bucket no call exchanges two arrays: drop the old one first");
  if (tsx_transaction_open_on(call->connection, call->array.address.path))
    return tsx_fail(error, TSR_ERROR, "the transaction has rows for %s: commit first", call->array.address.path);
  const int published = tsx_deferred_publish_path(call->connection, call->array.address.path, error);
  return published < 0 ? published : TSR_OK;
}

/* Makes the array with its rows and metadata. */
static int ingest_make(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  if (tsx_store_is(call->array.address.path)) return make_in_database(call, schema, error);
  return call->array.replace ? ingest_replace(call, schema, error)
                             : ingest_make_at(call, call->array.address.path, schema, error);
}

/* ---- An array that exists ---------------------------------------------------------------------------------------- */

/* Returns true if the array now has these labels with these codes: another process has added them meanwhile, or has
 * completed the interrupted change of a process that died. */
static bool ingest_has_labels(tsx_ingest_call *call, const tsr_enumeration *all, const char *name) {
  tsr_array *array = call->array.target.address.array->core;
  tsr_error ignored = {0};
  const tsr_schema *schema;
  const tsr_enumeration *now;
  if (tsr_array_schema(array, TSR_TIME_NOW, &schema, &ignored) < 0) return false;
  if (tsr_array_enumeration(array, schema, name, &now, &ignored) < 0 || now->count < all->count) return false;
  return now->offsets[all->count] == all->offsets[all->count] &&
         memcmp(now->offsets, all->offsets, all->count * sizeof *all->offsets) == 0 &&
         memcmp(now->data, all->data, all->offsets[all->count]) == 0;
}

/* Appends to the array's enumeration `known` the labels of `all` that it lacks. */
static int add_labels(tsx_ingest_call *call, const tsr_enumeration *all, const tsr_enumeration *known,
                      tsr_error *error) {
  const uint64_t first = known->count;
  tsr_enumeration more = *all;
  more.name = known->name;
  more.count = all->count - first;
  more.data = all->data + all->offsets[first];
  more.data_size = all->data_size - all->offsets[first];
  more.offsets = sqlite3_malloc64((more.count + 1) * sizeof *more.offsets);
  if (!more.offsets) return tsx_out_of_memory(error);
  for (uint64_t k = 0; k <= more.count; k++) more.offsets[k] = all->offsets[first + k] - all->offsets[first];
  const int code = tsr_array_extend_enumeration(call->array.target.address.array->core, &more, error);
  sqlite3_free(more.offsets);
  return code == TSR_CONSTRAINT && ingest_has_labels(call, all, known->name) ? TSR_OK : code;
}

/* Adds the labels that the array's enumerations lack. They stay even if the rows cannot be written. */
static int ingest_extend(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  for (uint32_t i = 0; i < schema->enumeration_count; i++) {
    const tsr_enumeration *all = &schema->enumerations[i];
    const tsr_ingest_column *column = call->columns;
    while (strcmp(column->name, all->name) != 0) column++;
    if (!column->enumeration || all->count == column->enumeration->count) continue;
    const int code = add_labels(call, all, column->enumeration, error);
    if (code < 0) return code;
  }
  return TSR_OK;
}

/* Appends the rows, and new labels of enumerations, to call->array.target. */
static int ingest_append(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  tsr_array *array = call->array.target.address.array->core;
  TSX_TRY(ingest_extend(call, schema, error));
  TSX_TRY(tsr_ingest_fit(call->ingest, array, error));
  return ingest_fill(call, array, error);
}

#define INGEST_COLUMNS_MAX 32767
#define INGEST_NAMED       8 /* columns that a message names at most */

/* ---- Begin ------------------------------------------------------------------------------------------------------- */

int tsx_ingest_begin(tsx_ingest_call *call, const char *path, uint32_t count, tsr_error *error) {
  tsx_parser p = {.definition = &call->memory};
  if (count > INGEST_COLUMNS_MAX)
    return tsx_fail(error, TSR_TOOBIG, "the source has %u columns; an array may have %d", count, INGEST_COLUMNS_MAX);
  call->array.path = path;
  call->source.count = call->options.column_count = count;
  call->columns = tsx_parser_alloc(&p, count * sizeof *call->columns);
  call->source.names = tsx_parser_alloc(&p, count * sizeof *call->source.names);
  call->source.kept = tsx_parser_alloc(&p, count * sizeof *call->source.kept);
  call->dimensions = tsx_parser_alloc(&p, count * sizeof *call->dimensions);
  call->labels.columns = tsx_parser_alloc(&p, count * sizeof *call->labels.columns);
  call->labels.indexes = tsx_parser_alloc(&p, count * sizeof *call->labels.indexes);
  if (!call->columns || !call->source.names || !call->source.kept || !call->dimensions || !call->labels.columns ||
      !call->labels.indexes)
    return tsx_out_of_memory(error);
  call->options.columns = call->columns;
  call->options.dimensions = call->dimensions;
  if (!path) return TSR_OK;
  call->array.address.connection = call->connection;
  call->array.address.given = sqlite3_mprintf("%s", path);
  if (!call->array.address.given) return tsx_out_of_memory(error);
  return tsx_address_path(call->connection, path, &call->array.address.path, error);
}

int tsx_ingest_name_column(tsx_ingest_call *call, uint32_t column, const char *name, tsr_error *error) {
  tsx_parser p = {.definition = &call->memory};
  char *copy = tsx_parser_alloc(&p, strlen(name) + 1);
  if (!copy) return tsx_out_of_memory(error);
  memcpy(copy, name, strlen(name));
  call->source.names[column] = copy;
  call->columns[column].name = copy;
  call->columns[column].nullable = !call->source.is_rows; /* in an array, later rows may lack the value */
  call->source.kept[column] = (int)column;
  return TSR_OK;
}

typedef struct ingest_named {
  const char *name;
  uint32_t column;
} ingest_named;

static int compare_names(const void *a, const void *b) {
  const ingest_named *x = a, *y = b;
  const int order = sqlite3_stricmp(x->name, y->name);
  return order ? order : x->column < y->column ? -1 : 1;
}

/* Fails if two columns of the source have the same name. */
static int check_names(const tsx_ingest_call *call, tsr_error *error) {
  int code = TSR_OK;
  ingest_named *sorted = sqlite3_malloc64(((uint64_t)call->source.count + 1) * sizeof *sorted);
  if (!sorted) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < call->source.count; i++) sorted[i] = (ingest_named){call->source.names[i], i};
  qsort(sorted, call->source.count, sizeof *sorted, compare_names);
  for (uint32_t i = 1; i < call->source.count && code == TSR_OK; i++)
    if (!sqlite3_stricmp(sorted[i - 1].name, sorted[i].name))
      code = tsx_fail(error, TSR_CONSTRAINT, "two columns are called '%.64s'", sorted[i].name);
  sqlite3_free(sorted);
  return code;
}

const char *tsx_ingest_row_name(const tsx_ingest_call *call) {
  static const char *const names[] = {"row", "row_number", "tessera_row"};
  size_t n = 0;
  for (bool taken = true; taken && n < 2; n += taken) {
    taken = false;
    for (uint32_t i = 0; i < call->options.column_count; i++) taken |= strcmp(call->columns[i].name, names[n]) == 0;
  }
  return names[n];
}

/* ---- The array to append to -------------------------------------------------------------------------------------- */

static const tsr_field *ingest_field(const tsr_schema *schema, const char *name, uint32_t *number) {
  const uint32_t count = schema->dimension_count + schema->attribute_count;
  for (*number = 0; *number < count; ++*number)
    if (!sqlite3_stricmp(schema->fields[*number].name, name)) return &schema->fields[*number];
  return NULL;
}

/* Gives column `i` the datatype of the field with its name, or makes it the label with its name. */
static int take_field(tsx_ingest_call *call, const tsr_schema *schema, uint32_t i, tsr_error *error) {
  tsr_ingest_column *column = &call->columns[i];
  uint32_t number;
  const tsr_field *field = ingest_field(schema, column->name, &number);
  const int taken = field ? 0 : take_label(call, schema, i, error);
  if (taken) return taken < 0 ? taken : TSR_OK;
  if (!field)
    return tsx_fail(error, TSR_ERROR,
                    "the array lacks the column '%.64s' of the source: list the others in columns to leave it out",
                    column->name);
  column->name = field->name;
  column->typed = true;
  column->datatype = field->datatype;
  column->values_per_cell = field->values_per_cell;
  column->duration = field->duration;
  column->refuses_null = !field->is_dimension && !field->nullable;
  column->labels = field->enumeration != NULL;
  if (field->is_dimension) {
    if (call->dimensions[number] != UINT32_MAX)
      return tsx_fail(error, TSR_CONSTRAINT, "column '%s': another column is a label of this dimension", column->name);
    call->dimensions[number] = i;
    column->has_domain = field->has_domain;
    memcpy(column->low, field->low, sizeof column->low);
    memcpy(column->high, field->high, sizeof column->high);
    column->grow = false;
  }
  if (!field->enumeration) return TSR_OK;
  TSX_TRY(tsr_array_enumeration(call->array.target.address.array->core, schema, field->enumeration,
                                &column->enumeration, error));
  column->datatype = column->enumeration->datatype;
  column->values_per_cell = column->enumeration->values_per_label;
  return TSR_OK;
}

/* Fails if the source lacks columns of the array. Only the row-number dimension of a former tessera_create_as may be
 * missing: the rows are then numbered on from the array's last row. */
static int check_missing(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  sqlite3_str *list = sqlite3_str_new(NULL);
  uint32_t missing = 0;
  const tsr_kind kind = tsr_datatype_kind(schema->fields[0].datatype);
  const bool numbers = schema->dimension_count == 1 && call->dimensions[0] == UINT32_MAX &&
                       (kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED) &&
                       !strcmp(schema->fields[0].name, tsx_ingest_row_name(call));
  for (uint32_t f = numbers; f < schema->dimension_count + schema->attribute_count; f++) {
    bool found = f < schema->dimension_count && call->dimensions[f] != UINT32_MAX; /* perhaps through a label */
    for (uint32_t i = 0; i < call->options.column_count && !found; i++)
      found = !strcmp(call->columns[i].name, schema->fields[f].name);
    if (found) continue;
    if (missing < INGEST_NAMED) sqlite3_str_appendf(list, "%s'%.64s'", missing ? ", " : "", schema->fields[f].name);
    missing++;
  }
  char *names = sqlite3_str_finish(list);
  int code = TSR_OK;
  if (missing)
    code = tsx_fail(error, TSR_MISMATCH, "the source lacks the column%s %s%s of the array", missing > 1 ? "s" : "",
                    names ? names : "", missing > INGEST_NAMED ? ", ..." : "");
  sqlite3_free(names);
  if (!numbers) return code;
  call->options.dimension_count = 0;
  call->options.kind = TSR_INGEST_BY_VALUES;
  return code;
}

/* Opens the array to append to with the key of this call, and then restores the connection's key for the path, so that
 * later calls do not use it. */
static int open_append(tsx_ingest_call *call, sqlite3_value *path, tsr_error *error) {
  const tsx_address *address = &call->array.address;
  uint8_t before[32];
  if (!address->has_key) return tsx_target_open(call->connection, path, &call->array.target, error);
  const bool had = tsx_key_find(call->connection, address->path, before);
  int code = tsx_key_set(call->connection, address->path, address->key, error);
  if (code >= 0) code = tsx_target_open(call->connection, path, &call->array.target, error);
  tsr_error ignored;
  const int restored = tsx_key_set(call->connection, address->path, had ? before : NULL, code < 0 ? &ignored : error);
  tsx_wipe(before, sizeof before);
  return code < 0 ? code : restored;
}

static int open_target(tsx_ingest_call *call, sqlite3_value *path, sqlite3_value *json, tsr_error *error) {
  const tsr_schema *schema;
  TSX_TRY(open_append(call, path, error));
  if (call->array.target.group)
    return tsx_fail(error, TSR_EXISTS, "%s is a group, not an array", call->array.target.address.path);
  TSX_TRY(tsr_array_schema(call->array.target.address.array->core, TSR_TIME_NOW, &schema, error));
  call->array.append = true;
  call->options.dimension_count = schema->dimension_count;
  call->options.kind = schema->dense ? TSR_INGEST_DENSE : TSR_INGEST_SPARSE;
  for (uint32_t d = 0; d < schema->dimension_count; d++) call->dimensions[d] = UINT32_MAX;
  for (uint32_t i = 0; i < call->options.column_count; i++) TSX_TRY(take_field(call, schema, i, error));
  TSX_TRY(check_missing(call, schema, error));
  return tsx_ingest_options_agree(call, json, schema, error);
}

static int fail_exists(const tsx_ingest_call *call, tsr_object_kind kind, tsr_error *error) {
  if (kind == TSR_OBJECT_GROUP)
    return tsx_fail(error, TSR_EXISTS,
                    "%s: there is a group already: 'if_exists' is for arrays, take another path, or that of an array "
                    "in the group",
                    call->array.path);
  return tsx_fail(error, TSR_EXISTS,
                  "%s: there is an array already: the option 'if_exists' adds the rows to it (append) or replaces it "
                  "with a new array (replace)",
                  call->array.path);
}

int tsx_ingest_options(tsx_ingest_call *call, sqlite3_value *path, sqlite3_value *json, tsr_error *error) {
  tsr_object_kind kind = TSR_OBJECT_NONE;
  tsr_environment *environment = call->connection->environment;
  TSX_TRY(check_names(call, error));
  TSX_TRY(tsx_ingest_options_read(call, json, error));
  TSX_TRY(tsr_object_find(environment, call->array.address.path, &kind, error));
  if (kind == TSR_OBJECT_NONE) return TSR_OK;
  if (call->given.if_exists == TSX_INGEST_FAIL && call->given.explain) return TSR_OK;
  if (call->given.if_exists == TSX_INGEST_FAIL || kind == TSR_OBJECT_GROUP) return fail_exists(call, kind, error);
  if (call->given.if_exists == TSX_INGEST_APPEND) return open_target(call, path, json, error);
  call->array.replace = true;
  return ingest_may_replace(call, error);
}

/* Counts a skipped row, and keeps the TSX_INGEST_LINES lowest row numbers, sorted. Returns true if this is now the
 * first skipped row. */
static bool ingest_skip(tsx_ingest_result *result, uint64_t number) {
  uint64_t place = result->skipped < TSX_INGEST_LINES ? result->skipped : TSX_INGEST_LINES;
  result->skipped++;
  while (place > 0 && result->lines[place - 1] > number) {
    if (place < TSX_INGEST_LINES) result->lines[place] = result->lines[place - 1];
    place--;
  }
  if (place < TSX_INGEST_LINES) result->lines[place] = number;
  return place == 0;
}

/* Counts a row that the ingest dropped because an earlier row has the same coordinates. */
static void ingest_left_out(void *argument, uint64_t number, const char *where) {
  tsx_ingest_call *call = argument;
  if (ingest_skip(&call->result, number))
    (void)tsx_fail(&call->result.first, TSR_CONSTRAINT, "%s %llu: an earlier row has the coordinates %s",
                   call->source.is_csv ? "line" : "row", (unsigned long long)number, where ? where : "");
}

/* Counts a row that the ingest left out because it breaks a CHECK. */
static void ingest_broken(void *argument, uint64_t number, const char *message) {
  tsx_ingest_call *call = argument;
  if (ingest_skip(&call->result, number))
    (void)tsx_fail(&call->result.first, TSR_CHECK, "%s %llu: %s", call->source.is_csv ? "line" : "row",
                   (unsigned long long)number, message ? message : "");
}

/* Counts a row of an Arrow stream that does not fit. */
static void ingest_refused(void *argument, uint64_t number, const char *message) {
  tsx_ingest_call *call = argument;
  if (ingest_skip(&call->result, number))
    (void)tsx_fail(&call->result.first, TSR_MISMATCH, "row %llu: %s", (unsigned long long)number, message);
}

int tsx_ingest_open(tsx_ingest_call *call, tsr_error *error) {
  const bool keeps = call->options.duplicates && call->options.kind != TSR_INGEST_DENSE;
  if (call->given.skip && !call->array.append && !keeps) {
    call->options.left_out = ingest_left_out;
    call->options.left_out_argument = call;
  }
  call->options.size = sizeof call->options;
  if (call->given.skip) {
    call->options.refused = ingest_refused;
    call->options.refused_argument = call;
  }
  if (call->given.skip && call->array.append) {
    call->options.broken = ingest_broken;
    call->options.broken_argument = call;
  }
  return tsr_ingest_open(call->connection->environment, &call->options, &call->ingest, error);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

int tsx_ingest_end_row(tsx_ingest_call *call, int code, const char *what, uint64_t number, tsr_error *error) {
  tsr_ingest_number_row(call->ingest, number);
  if (code >= 0) code = tsr_ingest_end_row(call->ingest, error);
  if (code >= 0) return TSR_OK;
  const tsr_error why = *error;
  code = tsx_fail(error, code, "%s %llu: %s", what, (unsigned long long)number, why.message);
  if (!call->given.skip || (code != TSR_MISMATCH && code != TSR_RANGE && code != TSR_CONSTRAINT)) return code;
  tsr_ingest_drop_row(call->ingest);
  if (ingest_skip(&call->result, number)) call->result.first = *error;
  return TSR_OK;
}

/* ---- The result -------------------------------------------------------------------------------------------------- */

/* Sets the result: the number of rows, or with on_error skip a JSON object that also lists the skipped rows. */
static void ingest_result(const tsx_ingest_call *call, sqlite3_context *context) {
  if (!call->given.skip) {
    sqlite3_result_int64(context, (sqlite3_int64)call->result.rows);
    return;
  }
  sqlite3_str *out = sqlite3_str_new(call->connection->db);
  sqlite3_str_appendf(out, "{\"rows\":%llu,\"skipped\":%llu,\"lines\":[", call->result.rows, call->result.skipped);
  for (uint64_t i = 0; i < call->result.skipped && i < TSX_INGEST_LINES; i++)
    sqlite3_str_appendf(out, "%s%llu", i ? "," : "", call->result.lines[i]);
  sqlite3_str_appendall(out, "],\"first\":");
  if (call->result.skipped) tsx_json_text(out, call->result.first.message, strlen(call->result.first.message));
  else sqlite3_str_appendall(out, "null");
  sqlite3_str_appendchar(out, 1, '}');
  tsx_result_string(context, out);
}

static int ingest_explain(tsx_ingest_call *call, const tsr_schema *schema, sqlite3_context *context, tsr_error *error) {
  sqlite3_str *out = sqlite3_str_new(call->connection->db);
  const int code = tsx_ddl_statement(out, &call->array.address, schema, error);
  if (code >= 0) tsx_result_string(context, out);
  else sqlite3_free(sqlite3_str_finish(out));
  return code;
}

int tsx_ingest_finish(tsx_ingest_call *call, sqlite3_context *context, tsr_error *error) {
  const tsr_schema *schema;
  TSX_TRY(tsr_ingest_schema(call->ingest, &schema, error));
  if (call->given.explain) return ingest_explain(call, schema, context, error);
  TSX_TRY(call->array.append ? ingest_append(call, schema, error) : ingest_make(call, schema, error));
  ingest_result(call, context);
  return TSR_OK;
}

/* Adds to an error about appended rows for which the array has no room what would have left it. */
static void ingest_hint_room(const tsx_ingest_call *call, int code, tsr_error *error) {
  const size_t size = strlen(error->message);
  if (code == TSR_RANGE && call->array.append && strstr(error->message, " is outside the domain, "))
    sqlite3_snprintf((int)(sizeof error->message - size), error->message + size,
                     "; a domain stays as it was made: the options grow and domains leave room");
}

void tsx_ingest_end(tsx_ingest_call *call, int code, tsr_error *error) {
  ingest_hint_room(call, code, error);
  tsr_ingest_close(call->ingest);
  ingest_labels_close(call);
  tsx_target_close(&call->array.target);
  tsx_address_close(&call->array.address);
  sqlite3_value_free(call->given.metadata);
  tsx_definition_release(&call->memory);
}
