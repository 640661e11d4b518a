/* module.c: the virtual table module of array tables: creates, connects, renames and drops them, and declares their
 * columns.
 *
 * An array table has these shadow tables:
 *
 *   NAME_config (key, value)   'declaration': the columns as declared at CREATE. With it a table whose array is missing
 *                              still connects, and can be dropped: SQLite can neither drop nor rename a table whose
 *                              xConnect fails.
 *                              'id': distinguishes the table from all others, even after a rename.
 *                              'owner', 'owner ID': which prepared commits are the table's (journal.c).
 *                              'creation': if the CREATE made the array, the creation's name (transaction.c).
 *   NAME_commits (name)        the commits of journal.c; only for an array in a directory.
 *   NAME_files, NAME_chunks    the array's files (store_tables.c); only for an array in the database.
 *
 * Sections: findings of the core's check; PRAGMA integrity_check; columns; shadow tables; the array behind the table;
 * the methods. */
#include "table/table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "definition/define.h"
#include "connection/registry.h"
#include "sql/names.h"
#include "connection/sqlite_api.h"
#include "values/compare.h"
#include "database/store_sqlite.h"
#include "sql/statement.h"

/* ---- Findings of the core's check -------------------------------------------------------------------------------- */

void tsx_findings_free(tsx_findings *all) {
  for (uint64_t i = 0; i < all->count; i++) {
    sqlite3_free(all->items[i].file);
    sqlite3_free(all->items[i].message);
  }
  sqlite3_free(all->items);
  *all = (tsx_findings){0};
}

int tsx_findings_keep(void *argument, const tsr_finding *finding) {
  tsx_findings *all = argument;
  if (all->count == all->capacity) {
    uint64_t capacity = all->capacity ? all->capacity * 2 : 16;
    tsx_finding *items = sqlite3_realloc64(all->items, capacity * sizeof *items);
    if (!items) return TSR_NOMEM;
    all->items = items;
    all->capacity = capacity;
  }
  tsx_finding *item = &all->items[all->count];
  *item = (tsx_finding){finding->severity, tsx_name_text(finding->file), tsx_name_text(finding->message)};
  if (item->file && item->message) {
    all->count++;
    return TSR_OK;
  }
  sqlite3_free(item->file);
  sqlite3_free(item->message);
  return TSR_NOMEM;
}

/* ---- PRAGMA integrity_check -------------------------------------------------------------------------------------- */

#define LINES_MAX 100 /* errors that are reported one by one */

/* Makes the text that xIntegrity returns: one line for each error, and one for `failure`, which ended the check early,
 * or NULL. *text is NULL if there is no line. Returns SQLite's code. */
static int integrity_describe(const tsx_table *table, const tsx_findings *all, const tsr_error *failure, char **text) {
  sqlite3_str *out = sqlite3_str_new(table->connection->db);
  uint64_t errors = 0;
  for (uint64_t i = 0; i < all->count; i++) {
    const tsx_finding *item = &all->items[i];
    if (item->severity != TSR_SEVERITY_ERROR || errors++ >= LINES_MAX) continue;
    sqlite3_str_appendf(out, "%s%s.%s: %s: %s", sqlite3_str_length(out) ? "\n" : "", table->schema_name, table->name,
                        item->file, item->message);
  }
  if (errors > LINES_MAX)
    sqlite3_str_appendf(out, "\n%s.%s: %lld more errors: see tessera_check", table->schema_name, table->name,
                        (sqlite3_int64)(errors - LINES_MAX));
  if (failure)
    sqlite3_str_appendf(out, "%s%s.%s: %s", sqlite3_str_length(out) ? "\n" : "", table->schema_name, table->name,
                        failure->message);
  int code = sqlite3_str_errcode(out);
  *text = sqlite3_str_finish(out); /* NULL if nothing was appended */
  return code;
}

static int table_key(const tsx_table *table, uint8_t key[32], bool *has_key, tsr_error *error);

/* xIntegrity of array tables. *message gets one line for each error, or stays NULL if there is none. Bit 0 of `flags`
 * is set for PRAGMA quick_check. Returns SQLite's code for what kept the check from finishing. */
static int tsx_integrity(sqlite3_vtab *vtab, const char *schema, const char *name, int flags, char **message) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_findings all = {0};
  tsr_error error = {0};
  tsr_check_options options = {.memory_bytes = table->options.limits.memory_bytes, .quick = flags & 1};
  uint8_t key[32];
  bool has_key = false;
  int code = table_key(table, key, &has_key, &error);
  options.key = has_key ? key : NULL;
  if (code >= 0)
    code = tsr_array_check(table->connection->environment, table->path, &options, tsx_findings_keep, &all, &error);
  tsx_wipe(key, sizeof key);
  if (code == TSR_NOMEM || code == TSR_INTERRUPT) {
    tsx_findings_free(&all);
    return tsx_sqlite_code(code);
  }
  code = integrity_describe(table, &all, code < 0 ? &error : NULL, message);
  tsx_findings_free(&all);
  return code;
}

/* ---- Columns ----------------------------------------------------------------------------------------------------- */

static bool name_taken(const tsx_table *table, uint32_t count, const char *name) {
  for (uint32_t i = 0; i < count; i++)
    if (!sqlite3_stricmp(table->columns[i].name, name)) return true;
  return false;
}

static void free_columns(tsx_table *table) {
  tsx_column_order_free(table);
  tsx_label_columns_free(table);
  for (uint32_t i = 0; i < table->column_count; i++) sqlite3_free(table->columns[i].name);
  for (int i = 0; i < 3; i++) {
    sqlite3_free(table->declared.hidden[i]);
    table->declared.hidden[i] = NULL;
  }
  sqlite3_free(table->columns);
  table->columns = NULL;
  table->column_count = 0;
}

/* Returns the number of the column of that name, or column_count. */
static uint32_t find_column(const tsx_table *table, const char *name) {
  uint32_t i = 0;
  while (i < table->column_count && sqlite3_stricmp(table->columns[i].name, name)) i++;
  return i;
}

/* Gives columns the names that the option rename has for them, all at once: a=b, b=a exchanges two. */
static int rename_places(tsx_table *table, const tsx_option_pairs *renamed, uint32_t *places, tsr_error *error) {
  for (uint32_t i = 0; i < renamed->count; i++) {
    places[i] = find_column(table, renamed->pairs[i].name);
    if (places[i] == table->column_count)
      return tsx_fail(error, TSR_ERROR, "option rename: %s has no column %s", table->path, renamed->pairs[i].name);
    for (uint32_t j = 0; j < i; j++)
      if (places[j] == places[i])
        return tsx_fail(error, TSR_ERROR, "option rename: %s has two new names", renamed->pairs[i].name);
  }
  for (uint32_t i = 0; i < renamed->count; i++) {
    char *name = sqlite3_mprintf("%s", renamed->pairs[i].value);
    if (!name) return tsx_out_of_memory(error);
    sqlite3_free(table->columns[places[i]].name);
    table->columns[places[i]].name = name;
  }
  for (uint32_t i = 0; i < renamed->count; i++)
    for (uint32_t j = find_column(table, renamed->pairs[i].value) + 1; j < table->column_count; j++)
      if (!sqlite3_stricmp(table->columns[j].name, renamed->pairs[i].value))
        return tsx_fail(error, TSR_ERROR, "option rename: two columns of %s would be called %s", table->path,
                        renamed->pairs[i].value);
  return TSR_OK;
}

static int rename_columns(tsx_table *table, tsr_error *error) {
  const tsx_option_pairs *renamed = &table->options.shows.renamed;
  uint32_t *places = sqlite3_malloc64((renamed->count + UINT64_C(1)) * sizeof *places);
  if (!places) return tsx_out_of_memory(error);
  const int code = rename_places(table, renamed, places, error);
  sqlite3_free(places);
  return code;
}

/* Removes the columns that the option columns does not name. They were named together with all other fields before, so
 * the option does not affect names; it names columns as the option rename calls them. */
static void keep_chosen(tsx_table *table) {
  const tsx_options *options = &table->options;
  if (!options->shows.columns) return;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < table->column_count; i++) {
    bool named = false;
    for (uint32_t j = 0; j < options->shows.column_count && !named; j++)
      named = !sqlite3_stricmp(options->shows.columns[j], table->columns[i].name);
    if (named) table->columns[kept++] = table->columns[i];
    else sqlite3_free(table->columns[i].name);
  }
  table->column_count = kept;
}

/* Fails if the option columns names something that is neither a field nor a label. */
static int check_chosen(const tsx_table *table, tsr_error *error) {
  const tsx_option_shows *shows = &table->options.shows;
  for (uint32_t i = 0; i < shows->column_count; i++) {
    bool known = name_taken(table, table->column_count, shows->columns[i]);
    for (uint32_t j = 0; j < table->label_count && !known; j++)
      known = !sqlite3_stricmp(table->labels[j].name, shows->columns[i]);
    if (!known)
      return tsx_fail(error, TSR_ERROR, "option columns: %s has no column %s", table->path, shows->columns[i]);
  }
  return TSR_OK;
}

/* Names the hidden columns. Prepends _ until no column of the array has the name. */
static bool name_hidden(tsx_table *table) {
  static const char *const names[3] = {"as_of", "since", "written_at"};
  for (int i = 0; i < 3; i++) {
    char *text = sqlite3_mprintf("%s", names[i]);
    while (text && name_taken(table, table->column_count, text)) {
      char *longer = sqlite3_mprintf("_%s", text);
      sqlite3_free(text);
      text = longer;
    }
    if (!(table->declared.hidden[i] = text)) return false;
  }
  return true;
}

#define SCHEMAS_PROVEN 64 /* reading more of them would make connecting slow */

/* Sets column->has_every_cell if every cell has a value of the column, also those that a tessera_copy is about to
 * bring. A dense array has cells that nobody has written. A schema that cannot be read is left to the statement that
 * needs it. */
static int find_always(const tsx_table *table, const tsr_schema *schema, const tsr_field *field, tsx_column *column,
                       tsr_error *error) {
  tsr_array *cells = tsx_database_cells(table->connection);
  tsr_error fault = {0};
  if (schema->dense || field->is_dimension || field->nullable) return TSR_OK;
  int always = tsr_array_always_has(table->array->core, field, SCHEMAS_PROVEN, &fault);
  if (always > 0 && cells) always = tsr_array_always_has(cells, field, SCHEMAS_PROVEN, &fault);
  column->has_every_cell = always > 0;
  if (always != TSR_NOMEM && always != TSR_INTERRUPT) return TSR_OK;
  *error = fault;
  return always;
}

#define CODES_PROVEN 16 /* fragments: reading more of their statistics would make connecting slow */

/* Sets column->knows_every_code if each code in the array has a label, as the fragments' statistics prove. An array
 * that this transaction creates has none. Other writers may add such codes later: see tsx_table_check_codes. */
static int find_known_codes(const tsx_table *table, tsx_column *column, tsr_error *error) {
  tsr_error fault = {0};
  uint64_t end = 0;
  int code = TSR_OK;
  if (column->form != TSX_ENUMERATED) return TSR_OK;
  column->knows_every_code = true;
  const bool matters = tsx_column_never_null(column);
  column->knows_every_code = false;
  if (!matters) return TSR_OK;
  if (!table->array->making.creation)
    code = tsr_array_codes_end(table->array->core, column->description, CODES_PROVEN, &end, &fault);
  column->knows_every_code = code >= 0 && end <= column->enumeration->count;
  if (code != TSR_NOMEM && code != TSR_INTERRUPT) return TSR_OK;
  *error = fault;
  return code;
}

static int make_columns(tsx_table *table, tsr_error *error) {
  const tsr_schema *schema;
  tsr_array *core = table->array->core;
  int code = tsr_array_schema(core, table->options.times.as_of, &schema, error);
  if (code == TSR_NOT_FOUND) /* as_of is before the first schema */
    code = tsr_array_schema(core, TSR_TIME_NOW, &schema, error);
  if (code < 0) return code;
  uint32_t fields = schema->dimension_count + schema->attribute_count;
  table->columns = sqlite3_malloc64(fields * sizeof *table->columns);
  if (!table->columns) return tsx_out_of_memory(error);
  memset(table->columns, 0, fields * sizeof *table->columns);
  char **names = tsx_names_make(schema);
  if (!names) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < fields; i++) table->columns[i].name = names[i];
  table->column_count = fields;
  sqlite3_free(names);
  for (uint32_t i = 0; i < fields; i++) {
    tsx_column *column = &table->columns[i];
    const tsr_field *field = &schema->fields[i];
    const tsr_enumeration *enumeration = NULL;
    column->field = i;
    if (field->enumeration && !table->options.shows.enums_code && field->values_per_cell == 1)
      TSX_TRY(tsr_array_enumeration(core, schema, field->enumeration, &enumeration, error));
    tsx_column_choose(field, enumeration, &table->options.shows, column);
    tsx_column_prepare(column);
    TSX_TRY(find_always(table, schema, field, column, error));
    TSX_TRY(find_known_codes(table, column, error));
  }
  table->schema = table->declared.enumerations = schema;
  TSX_TRY(rename_columns(table, error));
  keep_chosen(table);
  for (uint32_t i = 0; i < table->column_count; i++) {
    const tsx_column *column = &table->columns[i];
    TSX_TRY(tsx_times_known(schema, column->description->datatype, column->name, &table->options.shows, error));
  }
  if (!name_hidden(table)) return tsx_out_of_memory(error);
  TSX_TRY(tsx_label_columns_make(table, error));
  const int most = sqlite3_limit(table->connection->db, SQLITE_LIMIT_COLUMN, -1) - 3 - (int)table->label_count;
  if (most < 0 || table->column_count > (uint32_t)most)
    return tsx_fail(error, TSR_ERROR,
                    "%s has %u columns, SQLite shows at most %d: choose some with the option columns='a,b,c'",
                    table->path, table->column_count, most < 0 ? 0 : most);
  TSX_TRY(check_chosen(table, error));
  return tsx_column_order_make(table, error);
}

#define NOT_NULL " NOT NULL"

/* Makes the CREATE TABLE statement for sqlite3_declare_vtab. as_of and since are BLOB columns because these have no
 * affinity: their values arrive as they were written. SQLite evaluates `x IS NULL` to false if x is declared NOT NULL,
 * so only columns that never show NULL are declared so, whatever the schema says. Only for such columns does SQLite ask
 * for an order to answer min(). */
static char *declaration(const tsx_table *table) {
  const int all = TSX_WRITTEN_AT(table) + 1 + (int)table->label_count;
  const int hidden = tsx_column_sql(table, TSX_AS_OF(table));
  sqlite3_str *out = sqlite3_str_new(NULL);
  sqlite3_str_appendall(out, "CREATE TABLE x(");
  for (int i = 0; i < all; i++) {
    const int own = tsx_column_own(table, i);
    const tsx_label_column *label = tsx_label_column_at(table, own);
    const tsx_column *column = label ? &label->column : own < TSX_AS_OF(table) ? &table->columns[own] : NULL;
    const char *name = label ? label->name : column ? column->name : table->declared.hidden[own - TSX_AS_OF(table)];
    const bool never_null = !label && column && tsx_column_never_null(column);
    sqlite3_str_appendf(out, "%s\"%w\" %s%s%s", i ? ", " : "", name,
                        column                         ? column->declared
                        : own == TSX_WRITTEN_AT(table) ? "INTEGER"
                                                       : "BLOB",
                        i < hidden ? "" : " HIDDEN", /* part of the type */
                        never_null ? NOT_NULL : "");
  }
  sqlite3_str_appendchar(out, 1, ')');
  return sqlite3_str_finish(out);
}

/* Returns true if SQLite knows the columns by this declaration, except that it may have fewer NOT NULL: earlier
 * versions declared fewer, and labels of codes may have been added. Only columns declared so need a check that they are
 * never NULL (knows_every_code). */
static bool is_declared(tsx_table *table, const char *now) {
  const char *known = table->declared.declaration;
  bool quoted = false;
  int column = 0;
  for (; *now; now++) {
    if (!quoted && !strncmp(now, NOT_NULL, strlen(NOT_NULL)) && strncmp(known, NOT_NULL, strlen(NOT_NULL)) != 0) {
      const int own = tsx_column_own(table, column);
      if (own < TSX_AS_OF(table)) table->columns[own].knows_every_code = false;
      now += strlen(NOT_NULL);
    }
    if (*now != *known++) return false;
    if (*now == '"') quoted = !quoted;
    else if (*now == ',' && !quoted) column++;
  }
  return !*known;
}

/* SQLITE_VTAB_CONSTRAINT_SUPPORT: if xUpdate returns SQLITE_CONSTRAINT, SQLite follows the statement's OR clause. */
static int module_declare(const tsx_table *table) {
  if (!table->declared.declaration) return SQLITE_NOMEM;
  int code = tsx_declare(table->connection->db, table->declared.declaration);
  return code == SQLITE_OK ? sqlite3_vtab_config(table->connection->db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1) : code;
}

/* ---- The shadow tables ------------------------------------------------------------------------------------------ */

/* Writes NAME_config and NAME_commits. Those of a table whose array is adopted, or that was dropped a moment ago, may
 * be there already, with their old contents. */
static int write_config(const tsx_table *table, const char *owner, char **message) {
  sqlite3 *db = table->connection->db;
  const bool adopts = table->connection->database_arrays.adopts ||
                      (table->in_database && table->options.open_existing) ||
                      tsx_leftover_is(table->connection, table->schema_name, table->name);
  int code =
      tsx_sql_run(db,
                  sqlite3_mprintf("CREATE TABLE %s\"%w\".\"%w_config\"(key TEXT PRIMARY KEY, value) WITHOUT ROWID",
                                  adopts ? "IF NOT EXISTS " : "", table->schema_name, table->name),
                  message);
  if (code == SQLITE_OK && adopts)
    code =
        tsx_sql_run(db, sqlite3_mprintf("DELETE FROM \"%w\".\"%w_config\"", table->schema_name, table->name), message);
  if (code == SQLITE_OK)
    code = tsx_sql_run(db,
                       sqlite3_mprintf("INSERT INTO \"%w\".\"%w_config\" VALUES('declaration', %Q)", table->schema_name,
                                       table->name, table->declared.declaration),
                       message);
  if (code == SQLITE_OK)
    code = tsx_sql_run(db,
                       sqlite3_mprintf("INSERT INTO \"%w\".\"%w_config\" VALUES('id', %Q)", table->schema_name,
                                       table->name, table->commit.id),
                       message);
  if (code == SQLITE_OK && owner)
    code = tsx_sql_run(
        db,
        sqlite3_mprintf("INSERT INTO \"%w\".\"%w_config\" VALUES('owner', %Q)", table->schema_name, table->name, owner),
        message);
  if (code == SQLITE_OK && table->array->making.creation)
    code = tsx_sql_run(db,
                       sqlite3_mprintf("INSERT INTO \"%w\".\"%w_config\" VALUES('creation', %Q)", table->schema_name,
                                       table->name, table->array->making.name),
                       message);
  if (code == SQLITE_OK && !tsx_store_is(table->path))
    code = tsx_sql_run(db,
                       sqlite3_mprintf("CREATE TABLE %s\"%w\".\"%w_commits\"(name TEXT PRIMARY KEY) WITHOUT ROWID",
                                       adopts ? "IF NOT EXISTS " : "", table->schema_name, table->name),
                       message);
  if (code == SQLITE_OK && adopts && !tsx_store_is(table->path))
    code =
        tsx_sql_run(db, sqlite3_mprintf("DELETE FROM \"%w\".\"%w_commits\"", table->schema_name, table->name), message);
  return code;
}

/* Returns the value of a key in NAME_config, from sqlite3_malloc; NULL if there is none. The value is untrusted. A
 * declaration is safe even so: sqlite3_declare_vtab accepts nothing but a CREATE TABLE. */
static char *read_config(const tsx_table *table, const char *key) {
  sqlite3_stmt *statement;
  char *text = NULL;
  char *sql =
      sqlite3_mprintf("SELECT value FROM \"%w\".\"%w_config\" WHERE key = %Q", table->schema_name, table->name, key);
  if (tsx_sql_first(table->connection->db, sql, &statement) == SQLITE_ROW)
    text = sqlite3_mprintf("%s", sqlite3_column_text(statement, 0));
  sqlite3_finalize(statement);
  return text;
}

/* ---- The array behind the table ---------------------------------------------------------------------------------- */

/* Finds the key of the table's array: from the file that the option key_file names, else the one that tessera_set_key
 * has set. */
static int table_key(const tsx_table *table, uint8_t key[32], bool *has_key, tsr_error *error) {
  const char *file = table->options.key_file;
  *has_key = file || tsx_key_find(table->connection, table->path, key);
  if (!file) return TSR_OK;
  char *path = NULL;
  int code = tsx_path_resolve(table->connection->db, table->home, file, &path, error);
  if (code >= 0) code = tsx_key_read(table->connection, path, key, error);
  sqlite3_free(path);
  return code;
}

/* Opens the array if the table's CREATE prepared it, and the process died between the commit and the publication.
 * `code` is the error of opening the published array. Returns TSR_OK if the array is open, `code` if there is no such
 * creation, or another error. */
static int open_unpublished(tsx_table *table, const uint8_t *key, int code, tsr_error *error) {
  char *creation = read_config(table, "creation");
  tsr_error why = {0};
  int found = creation ? tsx_creation_find(table, creation, key, &why) : 0;
  sqlite3_free(creation);
  if (found < 0) *error = why;
  return found > 0 ? TSR_OK : found < 0 ? found : code;
}

/* Sets table->array: opens the array, or with `create` makes it. */
static int open_or_make_array(tsx_table *table, bool create, tsr_error *error) {
  const tsx_options *options = &table->options;
  uint8_t bytes[32], *key = bytes;
  bool has_key;
  int code = table_key(table, bytes, &has_key, error);
  if (code < 0) return code;
  if (!has_key) key = NULL;
  if (create) code = tsx_creation_prepare(table, key, error);
  for (int attempt = 0; !create && attempt < 2 && !table->array; attempt++) {
    code = tsx_array_open(table->connection, table->path, key, options->limits.cache_bytes, options->limits.threads,
                          &table->array, error);
    if (attempt == 0 && code == TSR_NOT_FOUND && !tsx_store_is(table->path))
      code = open_unpublished(table, key, code, error); /* if it was published meanwhile, the next attempt opens it */
  }
  tsx_wipe(bytes, sizeof bytes);
  return code;
}

static int open_array(tsx_table *table, bool create, tsr_error *error) {
  TSX_TRY(open_or_make_array(table, create, error));
  int code = make_columns(table, error);
  if (code >= 0) code = tsx_upkeep_check(table, error);
  if (code >= 0) return TSR_OK;
  free_columns(table);
  tsx_creation_fail(table);
  tsx_array_release(table->connection, table->array);
  table->array = NULL;
  return code;
}

/* Opens the array, or makes it if the table has columns. With if_exists=open, an array that is there is opened if it is
 * like the one that the columns ask for. */
static int open_or_make(tsx_table *table, tsr_error *error) {
  const bool makes = table->options.definition_count > 0 && !table->connection->database_arrays.adopts;
  if (makes && !table->in_database && tsx_store_is(table->path))
    return tsx_fail(error, TSR_ERROR, "%s: without columns, CREATE opens it; in its own database it makes it",
                    table->options.path);
  if (!makes || !table->options.open_existing) return open_array(table, makes, error);
  int code = open_array(table, false, error);
  if (code == TSR_NOT_FOUND) return open_array(table, true, error);
  if (code < 0) return code;
  return tsx_define_agrees(&table->options, table->schema, table->path, error);
}

/* Without the array, counts the commas of the declaration, outside of quoted names, up to the first hidden column: one
 * comes before it, and one between any two columns before that. */
int tsx_table_visible_columns(const tsx_table *table) {
  int commas = 0;
  bool quoted = false;
  if (table->array) return (int)table->column_count;
  for (const char *p = table->declared.declaration; *p; p++) {
    if (*p == '"') quoted = !quoted;
    else if (*p == ',' && !quoted) commas++;
    else if (!quoted && !strncmp(p, " HIDDEN", 7)) return commas;
  }
  return 0;
}

/* Gives a column the labels that its attribute has in a newer schema. Existing codes keep their labels, unless the
 * attribute was dropped and added again meanwhile. */
static int update_enumeration(tsx_table *table, tsx_column *column, const tsr_schema *schema, tsr_error *error) {
  const tsr_enumeration *newer;
  for (uint32_t f = schema->dimension_count; f < schema->dimension_count + schema->attribute_count; f++) {
    const tsr_field *field = &schema->fields[f];
    if (!field->enumeration || strcmp(field->name, column->description->name) != 0) continue;
    TSX_TRY(tsr_array_enumeration(table->array->core, schema, field->enumeration, &newer, error));
    const tsr_enumeration *old = column->enumeration;
    if (newer->datatype == old->datatype && newer->values_per_label == old->values_per_label)
      column->enumeration = newer;
  }
  return TSR_OK;
}

int tsx_table_update_enumerations(tsx_table *table, tsr_error *error) {
  const tsr_schema *schema = table->declared.enumerations;
  bool any = false;
  for (uint32_t i = 0; i < table->column_count && !any; i++) any = table->columns[i].enumeration != NULL;
  if (!any) return TSR_OK;
  TSX_TRY(tsr_array_schema_listed(table->array->core, TSR_TIME_NOW, &schema, error));
  if (schema == table->declared.enumerations) return TSR_OK;
  for (uint32_t i = 0; i < table->column_count; i++)
    if (table->columns[i].enumeration) TSX_TRY(update_enumeration(table, &table->columns[i], schema, error));
  table->declared.enumerations = schema;
  return TSR_OK;
}

/* Makes SQLite prepare all statements of the connection again before they begin: it does so when an option changes. */
static void expire_statements(sqlite3 *db) {
  int set;
  if (sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_QPSG, -1, &set) != SQLITE_OK) return;
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_QPSG, !set, NULL);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_QPSG, set, NULL);
}

/* A statement for which SQLite has taken `x IS NULL` for false, and so its whole WHERE, calls nothing of ours when it
 * is run. Prepared again, it meets the error in xBestIndex. */
int tsx_table_fail_code(const tsx_table *table, const tsx_column *column, tsr_error *error) {
  expire_statements(table->connection->db);
  return tsx_fail(error, TSR_ERROR,
                  "%s: since the table was opened, the attribute %s has got codes without a label, which read as NULL: "
                  "open the database again",
                  table->path, column->name);
}

int tsx_table_check_codes(const tsx_table *table, tsr_snapshot *core, tsr_error *error) {
  for (uint32_t i = 0; i < table->column_count; i++) {
    const tsx_column *column = &table->columns[i];
    uint64_t end;
    if (!column->knows_every_code) continue;
    TSX_TRY(tsr_snapshot_codes_end(core, column->field, &end, error));
    if (end > column->enumeration->count) return tsx_table_fail_code(table, column, error);
  }
  return TSR_OK;
}

int tsx_table_ready(tsx_table *table, tsr_error *error) {
  if (table->array) return TSR_OK;
  TSX_TRY(open_array(table, false, error));
  char *now = declaration(table);
  const bool same = now && is_declared(table, now);
  sqlite3_free(now);
  if (same) return TSR_OK;
  free_columns(table);
  tsx_array_release(table->connection, table->array);
  table->array = NULL;
  return tsx_fail(error, TSR_ERROR, "the columns of %s have changed: open the database again", table->path);
}

/* ---- Methods ----------------------------------------------------------------------------------------------------- */

static int module_disconnect(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_table **link = &table->connection->tables.arrays;
  while (*link && *link != table) link = &(*link)->next;
  if (*link) *link = table->next;
  tsx_update_free(table);
  tsx_cursor_forget(table);
  free_columns(table);
  tsx_array_release(table->connection, table->array);
  tsx_connection_remove_table(table->connection);
  tsx_connection_drop(table->connection);
  tsx_options_release(&table->options);
  sqlite3_free(table->declared.declaration);
  sqlite3_free(table->path);
  sqlite3_free(table->schema_name);
  sqlite3_free(table->home);
  sqlite3_free(table->name);
  sqlite3_free(table->base.zErrMsg); /* SQLite does not free a message that xDestroy has left */
  sqlite3_free(table);
  return SQLITE_OK;
}

/* Sets table->home and table->path. The path of another table's array, db:SCHEMA.NAME, is for tables of temp alone: a
 * declaration that a file stores must not reach into other files of the connection. */
static int find_path(tsx_table *table, tsr_error *error) {
  sqlite3 *db = table->connection->db;
  const char *given = table->options.path;
  char *name = NULL;
  table->in_database = !given;
  if (!given) table->path = tsx_store_path(table->schema_name, table->name);
  if (!given || sqlite3_strnicmp(given, "db:", 3) != 0) {
    table->home = sqlite3_mprintf("%s", table->schema_name);
    if (!table->home || (!given && !table->path)) return tsx_out_of_memory(error);
    return given ? tsx_path_resolve(db, table->home, given, &table->path, error) : TSR_OK;
  }
  if (sqlite3_stricmp(table->schema_name, "temp") != 0)
    return tsx_fail(error, TSR_ERROR, "%s names a table of this database: expected the path of a directory", given);
  TSX_TRY(tsx_table_name_parse(given + strlen("db:"), &table->home, &name, error));
  if (!table->home) table->home = sqlite3_mprintf("main");
  if (table->home) table->path = tsx_store_path(table->home, name);
  sqlite3_free(name);
  return table->path ? TSR_OK : tsx_out_of_memory(error);
}

/* Makes the table object from the arguments of xCreate or xConnect. Does not access the array. */
static int make_table(tsx_connection *connection, int count, const char *const *arguments, tsx_table **out,
                      tsr_error *error) {
  tsx_table *table = sqlite3_malloc64(sizeof *table);
  if (!table) return tsx_out_of_memory(error);
  memset(table, 0, sizeof *table);
  table->connection = connection;
  tsx_connection_hold(connection);
  tsx_connection_add_table(connection);
  table->next = connection->tables.arrays;
  connection->tables.arrays = table;
  table->serial = ++connection->tables.serial;
  table->schema_name = sqlite3_mprintf("%s", arguments[1]);
  table->name = sqlite3_mprintf("%s", arguments[2]);
  int code = table->schema_name && table->name ? TSR_OK : tsx_out_of_memory(error);
  if (code >= 0) code = tsx_options_parse(count - 3, arguments + 3, &table->options, error);
  if (code >= 0) code = find_path(table, error);
  if (code < 0) {
    module_disconnect(&table->base);
    return code;
  }
  *out = table;
  return TSR_OK;
}

static int module_fail(tsx_table *table, const tsr_error *error, char **message) {
  *message = sqlite3_mprintf("%s", error->message);
  if (table) module_disconnect(&table->base);
  return tsx_sqlite_code(error->code);
}

static int create(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                  char **message) {
  tsr_error error = {0};
  tsx_table *table = NULL;
  if (make_table(argument, count, arguments, &table, &error) < 0) return module_fail(NULL, &error, message);
  if (tsx_transactions_check(table->connection, &error) < 0) return module_fail(table, &error, message);
  if (open_or_make(table, &error) < 0) return module_fail(table, &error, message);
  tsx_journal_make_id(table->commit.id);
  table->declared.declaration = declaration(table);
  char *owner = NULL;
  int code = module_declare(table);
  if (code == SQLITE_OK && !tsx_store_is(table->path) && tsx_journal_first_owner(table, &owner, &error) < 0) {
    *message = sqlite3_mprintf("%s", error.message);
    code = tsx_sqlite_code(error.code);
  }
  if (code == SQLITE_OK) code = write_config(table, owner, message);
  sqlite3_free(owner);
  if (code != SQLITE_OK) {
    if (!*message) *message = sqlite3_mprintf("%s", sqlite3_errmsg(db));
    tsx_creation_fail(table);
    module_disconnect(&table->base);
    return code;
  }
  *vtab = &table->base;
  return SQLITE_OK;
}

/* Begins to read the table's database. SQLite connects a table by the schema that it read last, perhaps outside of a
 * transaction. If another connection has changed the schema since, every statement that xConnect runs fails with
 * SQLITE_SCHEMA; xConnect passes that code on, because only then does SQLite read the schema again. While the statement
 * *reading is open, all reads see one state of the database. */
static int begin_reading(const tsx_table *table, sqlite3_stmt **reading) {
  const int code =
      tsx_sql_first(table->connection->db, sqlite3_mprintf("SELECT 1 FROM \"%w\".sqlite_schema", table->home), reading);
  return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Opens the array of a table that is being connected, and makes the declaration. If the array cannot be opened, takes
 * the declaration stored in NAME_config, and the table connects without its array. */
static int open_or_recall(tsx_table *table, char **message) {
  tsr_error error = {0};
  sqlite3_stmt *reading = NULL;
  int code = tsx_store_is(table->path) ? begin_reading(table, &reading) : SQLITE_OK;
  if (code == SQLITE_OK && open_array(table, false, &error) == TSR_OK) {
    table->declared.declaration = declaration(table);
  } else {
    if (!reading) code = begin_reading(table, &reading);
    if (code != SQLITE_OK) {
      *message = sqlite3_mprintf("%s", sqlite3_errmsg(table->connection->db));
    } else if (!(table->declared.declaration = read_config(table, "declaration"))) {
      *message = sqlite3_mprintf("%s", error.message);
      code = tsx_sqlite_code(error.code);
    }
  }
  sqlite3_finalize(reading);
  return code;
}

static int module_connect(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                          char **message) {
  tsr_error error = {0};
  tsx_table *table = NULL;
  if (make_table(argument, count, arguments, &table, &error) < 0) return module_fail(NULL, &error, message);
  const tsx_watch watch = tsx_watch_begin(db, table->schema_name);
  int code = open_or_recall(table, message);
  if (code != SQLITE_OK) {
    module_disconnect(&table->base);
    return code;
  }
  if (tsx_watch_end(&watch, db, table->schema_name, &error) < 0) return module_fail(table, &error, message);
  code = module_declare(table);
  if (code == SQLITE_ERROR && !table->array) { /* NAME_config has no valid declaration: connect, so that DROP works */
    sqlite3_free(table->declared.declaration);
    table->declared.declaration =
        sqlite3_mprintf("CREATE TABLE x(as_of BLOB HIDDEN, since BLOB HIDDEN, written_at INTEGER HIDDEN)");
    code = module_declare(table);
  }
  if (code != SQLITE_OK) {
    *message = sqlite3_mprintf("%s", sqlite3_errmsg(db));
    module_disconnect(&table->base);
    return code;
  }
  *vtab = &table->base;
  return SQLITE_OK;
}

static const char *const *shadow_suffixes(const tsx_table *table) {
  static const char *const outside[] = {"config", "commits", NULL};
  static const char *const inside[] = {"config", "files", "chunks", NULL};
  static const char *const elsewhere[] = {"config", NULL};
  return table->in_database ? inside : tsx_store_is(table->path) ? elsewhere : outside;
}

static const uint8_t *module_key(const tsx_table *table) {
  return table->array && table->array->has_key ? table->array->key : NULL;
}

static int module_destroy(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  sqlite3 *db = table->connection->db;
  tsr_error error = {0};
  uint64_t levels;
  const bool keeps = table->connection->database_arrays.keeps;
  const bool is_directory = !tsx_store_is(table->path);
  if (table->in_database && !keeps &&
      tsx_overview_tables_drop(table->connection, table->schema_name, table->name, module_key(table), &levels, &error) <
          0)
    return tsx_vtab_error(vtab, &error);
  const tsx_watch watch = tsx_watch_begin(db, table->schema_name);
  if (tsx_journal_find_id(table, &error) < 0) return tsx_vtab_error(vtab, &error);
  if (tsx_transaction_may_detach(table, &error) < 0) return SQLITE_LOCKED; /* SQLite shows its own text for xDestroy */
  if (!table->in_database) tsx_transaction_detach(table);
  if (table->array && tsx_deferred_publish(table->connection, table->array, &error) < 0)
    return tsx_vtab_error(vtab, &error); /* likewise: only this connection knows of these commits */
  if (table->array && is_directory && !table->array->making.creation && tsx_journal_recover(table, &error) < 0 &&
      error.code != TSR_NOT_FOUND)
    return tsx_vtab_error(vtab, &error); /* dropping the record would lose commits that only it knows of */
  if (table->array && is_directory && !table->array->making.creation) {
    const int unpublished = tsx_journal_has_unpublished(table, &error);
    if (unpublished > 0)
      tsx_fail(&error, TSR_BUSY, "%s: another process is publishing what it has committed: try again", table->path);
    if (unpublished != 0) return tsx_vtab_error(vtab, &error);
  }
  tsx_store_release(table->connection, true);
  for (const char *const *suffix = shadow_suffixes(table); *suffix && !keeps; suffix++) {
    int code = tsx_sql_run(
        db, sqlite3_mprintf("DROP TABLE IF EXISTS \"%w\".\"%w_%s\"", table->schema_name, table->name, *suffix), NULL);
    if (code != SQLITE_OK) return tsx_vtab_fail(vtab, code, "%s", sqlite3_errmsg(db));
  }
  if (tsx_watch_end(&watch, db, table->schema_name, &error) < 0) return tsx_vtab_error(vtab, &error);
  if (table->in_database) tsx_transaction_detach(table);
  tsx_creation_fail(table); /* if this transaction made the array */
  return module_disconnect(vtab);
}

/* Sets the key that tessera_set_key has set for the table's present path for a new path, too. */
static int copy_key(const tsx_table *table, const char *path) {
  uint8_t key[32];
  tsr_error ignored;
  if (!tsx_key_find(table->connection, table->path, key)) return SQLITE_OK;
  int code = tsx_key_set(table->connection, path, key, &ignored);
  tsx_wipe(key, sizeof key);
  return code < 0 ? SQLITE_NOMEM : SQLITE_OK;
}

static int rename_table(sqlite3_vtab *vtab, const char *name) {
  tsx_table *table = (tsx_table *)vtab;
  sqlite3 *db = table->connection->db;
  tsr_error error = {0};
  char *copy = sqlite3_mprintf("%s", name);
  char *path = table->in_database ? tsx_store_path(table->schema_name, name) : sqlite3_mprintf("%s", table->path);
  int code = copy && path ? SQLITE_OK : SQLITE_NOMEM;
  for (const char *const *suffix = shadow_suffixes(table); *suffix && code == SQLITE_OK; suffix++)
    code = tsx_sql_run(db,
                       sqlite3_mprintf("ALTER TABLE \"%w\".\"%w_%s\" RENAME TO \"%w_%s\"", table->schema_name,
                                       table->name, *suffix, name, *suffix),
                       NULL);
  tsx_store_release(table->connection, true);
  if (code == SQLITE_OK && table->in_database) code = copy_key(table, path);
  if (code == SQLITE_OK && table->in_database &&
      tsx_overview_tables_rename(table->connection, table->schema_name, table->name, name, module_key(table), &error) <
          0) {
    sqlite3_free(copy);
    sqlite3_free(path);
    return tsx_vtab_error(vtab, &error);
  }
  if (code != SQLITE_OK) {
    sqlite3_free(copy);
    sqlite3_free(path);
    return code == SQLITE_NOMEM ? code : tsx_vtab_fail(vtab, code, "%s", sqlite3_errmsg(db));
  }
  sqlite3_free(table->name);
  sqlite3_free(table->path);
  table->name = copy;
  table->path = path;
  return SQLITE_OK;
}

static int shadow_name(const char *suffix) {
  static const char *const suffixes[] = {"config", "commits", "files", "chunks"};
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
    if (!sqlite3_stricmp(suffix, suffixes[i])) return 1;
  return 0;
}

/* xIntegrity came with SQLite 3.44, as the last member of sqlite3_module. An older SQLite library ignores it. If the
 * headers are older than that, this structure appends it. */
static const struct {
  sqlite3_module base;
  int (*integrity)(sqlite3_vtab *vtab, const char *schema, const char *name, int flags, char **message);
} module = {.base = {.iVersion = 4,
                     .xCreate = create,
                     .xConnect = module_connect,
                     .xBestIndex = tsx_best_index,
                     .xDisconnect = module_disconnect,
                     .xDestroy = module_destroy,
                     .xOpen = tsx_cursor_open,
                     .xClose = tsx_cursor_close,
                     .xFilter = tsx_cursor_filter,
                     .xNext = tsx_cursor_next,
                     .xEof = tsx_cursor_eof,
                     .xColumn = tsx_cursor_column,
                     .xRowid = tsx_cursor_rowid,
#if SQLITE_VERSION_NUMBER >= 3044000
                     .xIntegrity = tsx_integrity,
#endif
                     .xUpdate = tsx_update,
                     .xBegin = tsx_begin,
                     .xSync = tsx_sync,
                     .xCommit = tsx_commit,
                     .xRollback = tsx_rollback,
                     .xSavepoint = tsx_savepoint,
                     .xRelease = tsx_release,
                     .xRollbackTo = tsx_rollback_to,
                     .xRename = rename_table,
                     .xShadowName = shadow_name},
            .integrity = tsx_integrity};
const sqlite3_module *const tsx_module_array = &module.base;

/* The table of a path, with the limits of its shape (path_table.c). */
static int path_connect(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                        char **message) {
  tsx_registered *registered = argument;
  char *end, *path = sqlite3_mprintf("%Q", registered->text);
  const uint64_t mib = strtoull(registered->shape, &end, 10);
  const unsigned threads = (unsigned)strtoul(end, NULL, 10);
  char *memory = sqlite3_mprintf("memory_mb=%llu", (unsigned long long)mib);
  char *most = sqlite3_mprintf("threads=%u", threads);
  int code = SQLITE_NOMEM;
  (void)count;
  if (path && memory && most) {
    const char *given[6] = {arguments[0], arguments[1], arguments[2], path};
    int used = 4;
    if (mib) given[used++] = memory;
    if (threads) given[used++] = most;
    code = module_connect(db, registered->connection, used, given, vtab, message);
  }
  sqlite3_free(path);
  sqlite3_free(memory);
  sqlite3_free(most);
  if (code == SQLITE_OK) ((tsx_table *)*vtab)->registered = registered;
  return code;
}

/* Without xCreate, the only table has the module's name. Without xUpdate, it is read-only. */
static const sqlite3_module path_module = {.iVersion = 1,
                                           .xConnect = path_connect,
                                           .xBestIndex = tsx_best_index,
                                           .xDisconnect = module_disconnect,
                                           .xDestroy = module_disconnect,
                                           .xOpen = tsx_cursor_open,
                                           .xClose = tsx_cursor_close,
                                           .xFilter = tsx_cursor_filter,
                                           .xNext = tsx_cursor_next,
                                           .xEof = tsx_cursor_eof,
                                           .xColumn = tsx_cursor_column,
                                           .xRowid = tsx_cursor_rowid};
const sqlite3_module *const tsx_module_path = &path_module;
