/* columns.c: the columns of an array table: which fields it shows under which names, how they are declared to SQLite,
 * and what may change while SQLite keeps the declaration.
 *
 * SQLite relies on NOT NULL, so a column is declared so only if no cell can read as NULL: its attribute is in every
 * schema that cells may have, and the enumeration has a value for every code. Others may add codes later; statements
 * check that there are none (tsx_table_check_codes).
 *
 * Sections: making columns; their order in SQL; the declaration; enumerations that grow. */
#include "table/table_internal.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "definition/define.h"
#include "sql/names.h"
#include "values/compare.h"

/* ---- Making columns ---------------------------------------------------------------------------------------------- */

static bool name_taken(const tsx_table *table, uint32_t count, const char *name) {
  for (uint32_t i = 0; i < count; i++)
    if (!sqlite3_stricmp(table->columns[i].name, name)) return true;
  return false;
}

void tsx_columns_free(tsx_table *table) {
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

/* Sets column->knows_every_code if the enumeration has a value for each code in the array, as the fragments' statistics
 * prove. An array that this transaction creates has none. Other writers may add such codes later: see
 * tsx_table_check_codes. */
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

int tsx_columns_make(tsx_table *table, tsr_error *error) {
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

/* ---- The order of columns in SQL --------------------------------------------------------------------------------- */
/* SELECT * has each dimension followed by those of its labels that it shows, then the attributes. Hidden columns come
 * last. */

#define POSITION "_index" /* suffix of a dimension whose label has the plain name */

/* Returns true if the name is the label's plus `_index`. */
static bool numbers_label(const char *name, const char *label) {
  const size_t size = strlen(label);
  return !sqlite3_strnicmp(name, label, (int)size) && !sqlite3_stricmp(name + size, POSITION);
}

static bool is_chosen(const tsx_table *table, const char *name) {
  const tsx_option_shows *shows = &table->options.shows;
  for (uint32_t i = 0; i < shows->column_count; i++)
    if (!sqlite3_stricmp(shows->columns[i], name)) return true;
  return false;
}

/* Returns true if a dimension only numbers the coordinates that its labels have: it is the lat_index of a label lat. */
static bool numbers_labels(const tsx_table *table, uint32_t dimension) {
  for (uint32_t i = 0; i < table->label_count; i++)
    if (table->labels[i].dimension == dimension &&
        numbers_label(tsx_dimension_name(table, dimension), table->labels[i].name))
      return true;
  return false;
}

/* Returns true if SELECT * includes the label. */
static bool is_label_shown(const tsx_table *table, const tsx_label_column *label) {
  const tsx_labels_shown labels = table->options.shows.labels;
  if (labels == TSX_LABELS_HIDDEN) return false;
  if (table->options.shows.columns) return is_chosen(table, label->name);
  if (label->named) return false;
  return labels == TSX_LABELS_SHOWN || numbers_labels(table, label->dimension);
}

/* Returns true if SELECT * includes the field: all but dimensions that number the coordinates of an included label. */
static bool is_field_shown(const tsx_table *table, const tsx_column *column) {
  if (!column->description->is_dimension || table->options.shows.columns) return true;
  for (uint32_t i = 0; i < table->label_count; i++)
    if (table->labels[i].dimension == column->field && is_label_shown(table, &table->labels[i]) &&
        numbers_label(column->name, table->labels[i].name))
      return false;
  return true;
}

static void order_add(tsx_table *table, int *count, int own) {
  table->order.own[*count] = own;
  table->order.sql[own] = (*count)++;
}

/* Adds the labels of a dimension that SELECT * includes, or those that it does not. */
static void order_add_labels(tsx_table *table, uint32_t dimension, bool shown, int *count) {
  for (uint32_t i = 0; i < table->label_count; i++)
    if (table->labels[i].dimension == dimension && is_label_shown(table, &table->labels[i]) == shown)
      order_add(table, count, TSX_WRITTEN_AT(table) + 1 + (int)i);
}

int tsx_column_order_make(tsx_table *table, tsr_error *error) {
  const uint64_t all = (uint64_t)TSX_WRITTEN_AT(table) + 1 + table->label_count;
  const uint32_t dimensions = table->schema->dimension_count;
  int count = 0;
  if (table->label_count == 0) return TSR_OK;
  table->order.own = sqlite3_malloc64(all * sizeof(int));
  table->order.sql = sqlite3_malloc64(all * sizeof(int));
  table->order.values = sqlite3_malloc64((2 + all) * sizeof(sqlite3_value *));
  if (!table->order.own || !table->order.sql || !table->order.values) return tsx_out_of_memory(error);
  uint32_t c = 0;
  for (uint32_t d = 0; d < dimensions; d++) {
    if (c < table->column_count && table->columns[c].field == d) {
      if (is_field_shown(table, &table->columns[c])) order_add(table, &count, (int)c);
      c++;
    }
    order_add_labels(table, d, true, &count);
  }
  for (; c < table->column_count; c++) order_add(table, &count, (int)c);
  for (int i = TSX_AS_OF(table); i <= TSX_WRITTEN_AT(table); i++) order_add(table, &count, i);
  for (c = 0; c < table->column_count; c++)
    if (!is_field_shown(table, &table->columns[c])) order_add(table, &count, (int)c);
  for (uint32_t d = 0; d < dimensions; d++) order_add_labels(table, d, false, &count);
  return TSR_OK;
}

void tsx_column_order_free(tsx_table *table) {
  sqlite3_free(table->order.own);
  sqlite3_free(table->order.sql);
  sqlite3_free(table->order.values);
  table->order = (tsx_column_order){0};
}

sqlite3_value **tsx_column_order_values(tsx_table *table, sqlite3_value **values) {
  if (!table->order.own) return values;
  for (int i = 0; i <= TSX_WRITTEN_AT(table) + (int)table->label_count; i++)
    table->order.values[2 + table->order.own[i]] = values[2 + i];
  memcpy(table->order.values, values, 2 * sizeof *values);
  return table->order.values;
}

/* ---- The declaration --------------------------------------------------------------------------------------------- */

#define NOT_NULL " NOT NULL"

/* as_of and since are BLOB columns because these have no affinity: their values arrive as they were written. SQLite
 * evaluates `x IS NULL` to false if x is declared NOT NULL, so only columns that never show NULL are declared so,
 * whatever the schema says. Only for such columns does SQLite ask for an order to answer min(). */
char *tsx_columns_declaration(const tsx_table *table) {
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

bool tsx_columns_are_declared(tsx_table *table, const char *now) {
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

/* ---- Enumerations that grow -------------------------------------------------------------------------------------- */

/* Gives a column the values that its attribute's enumeration has in a newer schema. Existing codes keep their values,
 * unless the attribute was dropped and added again meanwhile. */
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
