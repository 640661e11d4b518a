/* join.c: the tables that a tessera_query joins: SQLite tables, arrays or other queries.
 *
 * tsx_join_describe finds the columns of a joined table. If ON depends on one dimension, that is all that
 * happens here: coordinates.c lets SQLite join the table's rows to the coordinates, and its columns become expressions
 * of that dimension. Otherwise ON has bindings, each of which sets a column equal to an expression of one dimension:
 *
 *   1. tsx_joined_read reads the rows once. Each bound column numbers its distinct values; a row keeps its numbers, and
 *      the values of the columns that the query uses.
 *   2. On the axis of each binding, SQLite finds for each coordinate the number of the value that equals it
 *      (coordinates.c).
 *   3. tsx_joined_finish gives the values that some coordinate equals the places 0, 1, ... and makes a box: a row-major
 *      array over the places of all bound columns, which holds the number of the row at each place, or null. A cell's
 *      place is the sum of its coordinates' places times strides. There the engine finds the row number in the box,
 *      and with that the values in one list for each column. Two rows at one place are an error.
 *
 * If ON has spans, the rows are boxes of coordinates: joined_ranges.c makes these, and the rows' values are read here.
 *
 * Rows, values and box count against the memory budget. The columns of joined arrays that are plain numbers are read as
 * blocks by the engine instead of as rows by SQLite.
 *
 * Sections: what a joined table is, what has been read of it, memory, lists, adding rows, blocks of a joined array,
 * reading, places, columns. */
#include "query/query_internal.h"

#include <string.h>
#include <math.h>

#include "connection/errors.h"
#include "sql/statement.h"
#include "table/table.h"
#include "sql/tokens.h"

/* ---- What a joined table is -------------------------------------------------------------------------------------- */

/* Returns the declared type of a column or label of an array. */
static const char *declared_of(const tsx_table *table, const char *name) {
  for (uint32_t i = 0; i < table->column_count; i++)
    if (!sqlite3_stricmp(table->columns[i].name, name)) return table->columns[i].declared;
  for (uint32_t i = 0; i < table->label_count; i++)
    if (!sqlite3_stricmp(table->labels[i].name, name)) return table->labels[i].column.declared;
  return "";
}

static int describe_statement(tsx_query *query, tsx_join *join, sqlite3_stmt *statement, tsr_error *error) {
  tsx_arena *arena = &query->select.arena;
  const int count = sqlite3_column_count(statement);
  join->columns = tsx_arena_take(arena, (uint64_t)count * sizeof *join->columns);
  if (!join->columns) return tsx_out_of_memory(error);
  for (int i = 0; i < count; i++) {
    tsx_join_column *column = &join->columns[i];
    const char *name = sqlite3_column_name(statement, i), *declared = NULL, *collation = NULL;
    if (!name) return tsx_out_of_memory(error);
    /* not sqlite3_column_decltype, which has no type for a column that an authorizer hides */
    const tsx_table *path =
        join->source.path ? tsx_table_connected(query->connection, "main", join->source.table) : NULL;
    int code = SQLITE_OK;
    if (path) declared = declared_of(path, name);
    else if (join->is_view) declared = sqlite3_column_decltype(statement, i);
    else
      code = sqlite3_table_column_metadata(query->connection->db, join->source.schema, join->source.table, name,
                                           &declared, &collation, NULL, NULL, NULL);
    if (!declared) declared = "";
    column->name = tsx_arena_copy(arena, name, strlen(name));
    column->declared = tsx_arena_copy(arena, declared, strlen(declared));
    if (!column->name || !column->declared) return tsx_out_of_memory(error);
    column->plain = code == SQLITE_OK && (!collation || !sqlite3_stricmp(collation, "BINARY"));
  }
  join->column_count = (uint32_t)count;
  return TSR_OK;
}

/* Finds out which columns of a view have a collation that is not BINARY: SQLite compares 'a' and 'A ' with 'A'. */
static int find_collations(const tsx_query *query, tsx_join *join, tsr_error *error) {
  static const char *const probes[] = {"'a'", "'A '"};
  sqlite3_stmt *statement = NULL;
  sqlite3_str *text = sqlite3_str_new(query->connection->db);
  for (uint32_t c = 0; c < join->column_count; c++)
    sqlite3_str_appendf(text, "%smax(\"%w\" = 'A')", c ? ", " : "SELECT ", join->columns[c].name);
  sqlite3_str_appendf(text, " FROM (SELECT * FROM \"%w\".\"%w\" WHERE 0", join->source.schema, join->source.table);
  for (int p = 0; p < 2; p++)
    for (uint32_t c = 0; c < join->column_count; c++)
      sqlite3_str_appendf(text, "%s%s", c ? ", " : " UNION ALL SELECT ", probes[p]);
  sqlite3_str_appendchar(text, 1, ')');
  const int code = tsx_rows_only(query->connection, text, NULL, &statement, error);
  for (uint32_t c = 0; code >= 0 && c < join->column_count; c++)
    join->columns[c].plain = sqlite3_column_int(statement, (int)c) == 0;
  sqlite3_finalize(statement);
  return code;
}

static int prepare_all(const tsx_query *query, tsx_join *join, sqlite3_stmt **statement, tsr_error *error) {
  sqlite3 *db = query->connection->db;
  char *sql = sqlite3_mprintf("SELECT * FROM \"%w\".\"%w\"", join->source.schema, join->source.table);
  const int code = tsx_sql_prepare(db, sql, statement); /* connects the table */
  return tsx_core_result(db, code, error);
}

/* Prepares a SELECT of all fields and labels of an array. join->star lists those that * expands to. */
static int prepare_labelled(tsx_query *query, tsx_join *join, const tsx_table *table, sqlite3_stmt **statement,
                            tsr_error *error) {
  sqlite3 *db = query->connection->db;
  join->star_count = (uint32_t)tsx_column_sql(table, TSX_AS_OF(table));
  join->star = tsx_arena_take(&query->select.arena, join->star_count * sizeof *join->star);
  if (!join->star) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < join->star_count; i++) {
    const int own = tsx_column_own(table, (int)i);
    const tsx_label_column *label = tsx_label_column_at(table, own);
    join->star[i] = label ? table->column_count + (uint32_t)(label - table->labels) : (uint32_t)own;
  }
  sqlite3_str *out = sqlite3_str_new(db);
  for (uint32_t i = 0; i < table->column_count; i++)
    sqlite3_str_appendf(out, "%s\"%w\"", i ? ", " : "SELECT ", table->columns[i].name);
  for (uint32_t i = 0; i < table->label_count; i++)
    sqlite3_str_appendf(out, "%s\"%w\"", i || table->column_count ? ", " : "SELECT ", table->labels[i].name);
  sqlite3_str_appendf(out, " FROM \"%w\".\"%w\"", join->source.schema, join->source.table);
  return tsx_core_result(db, tsx_sql_prepare(db, sqlite3_str_finish(out), statement), error);
}

/* Prepares a SELECT of all columns, and reads what they are. The caller finalizes both statements. */
static int describe_columns(tsx_query *query, tsx_join *join, sqlite3_stmt **statement, sqlite3_stmt **labelled,
                            tsr_error *error) {
  TSX_TRY(prepare_all(query, join, statement, error));
  const tsx_table *table =
      join->is_array ? tsx_table_connected(query->connection, join->source.schema, join->source.table) : NULL;
  if (table && table->order.own) TSX_TRY(prepare_labelled(query, join, table, labelled, error));
  return describe_statement(query, join, *labelled ? *labelled : *statement, error);
}

int tsx_join_describe(tsx_query *query, tsx_join *join, tsr_error *error) {
  sqlite3_stmt *statement = NULL, *labelled = NULL;
  const int code = describe_columns(query, join, &statement, &labelled, error);
  sqlite3_finalize(labelled);
  sqlite3_finalize(statement);
  if (code < 0) return code;
  return join->is_view ? find_collations(query, join, error) : TSR_OK;
}

/* ---- What has been read of a joined table ------------------------------------------------------------------------ */

#define JOINED_NO_PLACE UINT32_MAX
#define JOINED_EXACT    (INT64_C(1) << 53) /* integers up to it are exact as doubles */

typedef struct joined_column { /* the values of a column, by row */
  tsr_value_list list;
  int64_t *words; /* an INTEGER, the bits of a REAL, or a pointer to a tsr_text_value; convert_column converts them */
  uint8_t *types; /* tsr_value_type; then what `list` needs: nulls or `whole` */
} joined_column;

typedef struct joined_values { /* the distinct values of a bound column */
  tsx_rows rows; /* gives them to SQLite */
  int slot;
  uint64_t given; /* rows so far */
  tsr_value *values;
  uint32_t count, room;
  uint32_t last; /* the number of the previous row's value */
  uint32_t *heads; /* [2 * room]: hash table of 1 + number; 0: free */
  uint32_t *places; /* [count], or JOINED_NO_PLACE */
  uint32_t place_count;
  bool bounded; /* only values from ends[0] to ends[1] can match a coordinate (find_bounds) */
  int64_t ends[2];
} joined_values;

typedef struct tsx_joined {
  tsr_value_list box;
  uint32_t *numbers; /* [row_count][binding_count] */
  uint32_t *box_rows;
  uint8_t *box_nulls;
  uint64_t row_count, room, bytes;
  uint64_t free_places; /* places of the box without a row */
  joined_values values[TSX_BINDINGS_MAX];
  joined_column **columns; /* [join->column_count]; NULL: the query does not use the column */
} tsx_joined;

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static uint64_t memory_limit(const tsx_query *query) {
  const uint64_t memory = query->memory_bytes ? query->memory_bytes : query->table->options.limits.memory_bytes;
  return memory ? memory : UINT64_C(1) << 30;
}

/* Charges memory to the budget of a join, half of the query's. Returns false if it does not fit. */
static bool try_charge(const tsx_query *query, uint32_t j, uint64_t more) {
  const uint64_t most = memory_limit(query) / 2;
  tsx_joined *joined = query->joined[j];
  if (more > most || joined->bytes > most - more) return false;
  joined->bytes += more;
  return true;
}

static int charge(const tsx_query *query, uint32_t j, uint64_t more, tsr_error *error) {
  const uint64_t memory = memory_limit(query);
  if (try_charge(query, j, more)) return TSR_OK;
  return tsx_fail(
      error, TSR_BUDGET, "the rows of '%s' do not fit into memory_mb (%llu): join a part of them, or memory_mb=%llu",
      query->select.joins[j].source.table, (unsigned long long)(memory >> 20), (unsigned long long)(memory >> 19));
}

/* Makes room for `count` elements. */
static int grow_array(void **array, uint64_t count, uint64_t size, tsr_error *error) {
  void *more = sqlite3_realloc64(*array, count * size + 8);
  if (!more) return tsx_out_of_memory(error);
  *array = more;
  return TSR_OK;
}

void tsx_joined_release(tsx_query *query) {
  tsx_boxes_release(query);
  for (uint32_t j = 0; j < query->select.join_count; j++) {
    tsx_joined *joined = query->joined[j];
    if (!joined) continue;
    for (uint32_t b = 0; b < TSX_BINDINGS_MAX; b++) {
      sqlite3_free(joined->values[b].values);
      sqlite3_free(joined->values[b].heads);
      sqlite3_free(joined->values[b].places);
    }
    for (uint32_t c = 0; c < query->select.joins[j].column_count; c++)
      if (joined->columns[c]) {
        sqlite3_free(joined->columns[c]->words);
        sqlite3_free(joined->columns[c]->types);
      }
    sqlite3_free(joined->numbers);
    sqlite3_free(joined->box_rows);
    sqlite3_free(joined->box_nulls);
    query->joined[j] = NULL;
  }
}

/* ---- Lists ------------------------------------------------------------------------------------------------------- */

/* Gives the values in order; starts over after the end. */
static int next_value(tsx_rows *rows, tsr_error *error) {
  joined_values *v = rows->state;
  (void)error;
  if (v->given++ < v->count) return 1;
  v->given = 0;
  return 0;
}

static int give_value(tsx_rows *rows, sqlite3_context *context, int slot, tsr_error *error) {
  const joined_values *v = rows->state;
  const tsr_value *value = &v->values[v->given - 1];
  (void)error;
  if (slot != v->slot) return TSR_OK;
  if (value->type == TSR_VALUE_INTEGER) sqlite3_result_int64(context, value->as.integer);
  else if (value->type == TSR_VALUE_REAL) sqlite3_result_double(context, value->as.real);
  else sqlite3_result_text64(context, value->as.text.bytes, value->as.text.size, SQLITE_STATIC, SQLITE_UTF8);
  return TSR_OK;
}

static tsx_joined *joined_table(tsx_query *query, uint32_t j) {
  const tsx_join *join = &query->select.joins[j];
  if (query->joined[j]) return query->joined[j];
  tsx_joined *joined = tsx_arena_take(&query->select.arena, sizeof *joined);
  if (!joined) return NULL;
  joined->columns = tsx_arena_take(&query->select.arena, (join->column_count + 1) * sizeof *joined->columns);
  if (!joined->columns) return NULL;
  joined->box.type = TSR_VALUE_NULL;
  for (uint32_t b = 0; b < join->on.binding_count; b++) {
    const tsx_expr column = {.kind = TSX_EXPR_JOINED, .join = j, .column = (int)join->on.bindings[b].column};
    joined_values *v = &joined->values[b];
    tsx_slots slots = {0};
    v->slot = tsx_slot_take(&slots, tsx_slot_affinity(tsx_query_declared(query, &column)));
    v->rows = (tsx_rows){.next = next_value, .column = give_value, .state = v};
  }
  return query->joined[j] = joined;
}

const tsr_value_list *tsx_joined_places(tsx_query *query, uint32_t j) {
  const tsx_joined *joined = joined_table(query, j);
  return joined ? &joined->box : NULL;
}

const tsr_value_list *tsx_joined_column(tsx_query *query, uint32_t j, uint32_t column) {
  tsx_joined *joined = joined_table(query, j);
  if (!joined) return NULL;
  if (!joined->columns[column]) {
    joined->columns[column] = tsx_arena_take(&query->select.arena, sizeof(joined_column));
    if (!joined->columns[column]) return NULL;
    joined->columns[column]->list.type = TSR_VALUE_NULL;
  }
  return &joined->columns[column]->list;
}

tsx_rows *tsx_joined_values(const tsx_query *query, uint32_t j, uint32_t b, int *slot) {
  joined_values *v = &query->joined[j]->values[b];
  *slot = v->slot;
  v->given = 0;
  return &v->rows;
}

/* ---- Adding rows ------------------------------------------------------------------------------------------------- */

/* The address of the query seeds the hash. */
static uint32_t hash_value(const tsx_query *query, const tsr_value *value) {
  const uint64_t seed = (uintptr_t)query + (uint64_t)value->type;
  if (value->type == TSR_VALUE_TEXT) return (uint32_t)tsr_hash(seed, value->as.text.bytes, value->as.text.size);
  return (uint32_t)tsr_hash(seed, &value->as.integer, sizeof value->as.integer);
}

static bool equal_values(const tsr_value *a, const tsr_value *b) {
  if (a->type != b->type) return false;
  if (a->type != TSR_VALUE_TEXT) return a->as.integer == b->as.integer; /* or the bits of a REAL */
  return a->as.text.size == b->as.text.size && !memcmp(a->as.text.bytes, b->as.text.bytes, a->as.text.size);
}

/* Doubles the room for values, and rehashes them. */
static int grow_values(tsx_query *query, uint32_t j, joined_values *v, tsr_error *error) {
  const uint32_t room = v->room ? 2 * v->room : 64;
  TSX_TRY(charge(query, j, (room - v->room) * (sizeof *v->values + 2 * sizeof *v->heads), error));
  TSX_TRY(grow_array((void **)&v->values, room, sizeof *v->values, error));
  TSX_TRY(grow_array((void **)&v->heads, 2 * (uint64_t)room, sizeof *v->heads, error));
  v->room = room;
  memset(v->heads, 0, 2 * (uint64_t)room * sizeof *v->heads);
  for (uint32_t i = 0; i < v->count; i++) {
    uint32_t at = hash_value(query, &v->values[i]) & (2 * room - 1);
    while (v->heads[at]) at = (at + 1) & (2 * room - 1);
    v->heads[at] = i + 1;
  }
  return TSR_OK;
}

/* Finds the number of a non-null value, or assigns the next one. A REAL that is an integer becomes INTEGER, as 1 =
 * 1.0. */
static int number_value(tsx_query *query, uint32_t j, joined_values *v, const tsr_value *given, uint32_t *number,
                        tsr_error *error) {
  tsr_value value = *given;
  if (value.type == TSR_VALUE_REAL) {
    const double real = value.as.real;
    const bool whole = real >= -(double)JOINED_EXACT && real <= (double)JOINED_EXACT && (double)(int64_t)real == real;
    if (whole) value = (tsr_value){.type = TSR_VALUE_INTEGER, .as.integer = (int64_t)real};
  }
  for (uint32_t next = v->last; next < v->count && next < v->last + 2; next++) /* rows tend to be in order */
    if (equal_values(&v->values[next], &value)) {
      *number = v->last = next;
      return TSR_OK;
    }
  if (v->count == v->room)
    TSX_TRY(v->room > UINT32_MAX / 4 ? charge(query, j, UINT64_MAX, error) : grow_values(query, j, v, error));
  uint32_t at = hash_value(query, &value) & (2 * v->room - 1);
  for (; v->heads[at]; at = (at + 1) & (2 * v->room - 1))
    if (equal_values(&v->values[v->heads[at] - 1], &value)) {
      *number = v->last = v->heads[at] - 1;
      return TSR_OK;
    }
  if (value.type == TSR_VALUE_TEXT) {
    value.as.text.bytes = tsx_arena_copy(&query->select.arena, value.as.text.bytes, value.as.text.size);
    if (!value.as.text.bytes) return tsx_out_of_memory(error);
  }
  *number = v->last = v->count;
  v->values[v->count++] = value;
  v->heads[at] = v->count;
  return TSR_OK;
}

/* Replaces a column of a joined table by its name in the SELECT of the rows. */
static bool replace_column(void *argument, const tsx_expr *tree, sqlite3_str *out) {
  const tsx_query *query = argument;
  if (tree->kind != TSX_EXPR_JOINED) return false;
  const tsx_join *join = &query->select.joins[tree->join];
  sqlite3_str_appendf(out, "_tessera_join%u.\"%w\"", tree->join, join->columns[tree->column].name);
  return true;
}

void tsx_joined_append(tsx_query *query, const tsx_expr *tree, sqlite3_str *out) {
  tsx_words_append(out, tree, replace_column, query);
}

/* Finds the range of the expression that a column is bound to, if both are integers. */
static int find_bounds(tsx_query *query, uint32_t j, uint32_t b, tsr_error *error) {
  const tsx_binding *binding = &query->select.joins[j].on.bindings[b];
  joined_values *v = &query->joined[j]->values[b];
  const int number = tsx_axis_of(query, binding->left);
  if (number < 0 || strcmp(query->select.joins[j].columns[binding->column].declared, "INTEGER") != 0) return TSR_OK;
  return tsx_axis_ends(query, (uint32_t)number, binding->left, &v->bounded, v->ends, error);
}

/* Prepares the SELECT of the rows: column 0 is a dummy, then the bound columns, then those that the query uses. Filters
 * and the bounds of bound columns are in its WHERE. */
static int prepare_rows(tsx_query *query, uint32_t j, sqlite3_stmt **statement, tsr_error *error) {
  const tsx_join *join = &query->select.joins[j];
  const tsx_joined *joined = query->joined[j];
  sqlite3_str *text = sqlite3_str_new(query->connection->db);
  sqlite3_str_appendall(text, "SELECT 0");
  for (uint32_t b = 0; b < join->on.binding_count; b++)
    sqlite3_str_appendf(text, ", \"%w\"", join->columns[join->on.bindings[b].column].name);
  if (join->on.span_count) tsx_boxes_append(query, text);
  for (uint32_t c = 0; c < join->column_count; c++)
    if (joined->columns[c]) sqlite3_str_appendf(text, ", _tessera_join%u.\"%w\"", j, join->columns[c].name);
  sqlite3_str_appendf(text, " FROM \"%w\".\"%w\"", join->source.schema, join->source.table);
  if (join->source.times_begin)
    sqlite3_str_append(text, join->source.times_begin, (int)(join->source.times_end - join->source.times_begin));
  sqlite3_str_appendf(text, " AS _tessera_join%u WHERE 1", j);
  for (uint32_t f = 0; f < join->on.filter_count; f++) {
    sqlite3_str_appendall(text, " AND (");
    tsx_joined_append(query, join->on.filters[f], text);
    sqlite3_str_appendchar(text, 1, ')');
  }
  for (uint32_t b = 0; b < join->on.binding_count; b++) {
    const joined_values *v = &joined->values[b];
    if (v->bounded)
      sqlite3_str_appendf(text, " AND _tessera_join%u.\"%w\" BETWEEN %lld AND %lld", j,
                          join->columns[join->on.bindings[b].column].name, (long long)v->ends[0],
                          (long long)v->ends[1]);
  }
  if (join->on.span_count) tsx_pushdown_rows_append(query, text);
  TSX_TRY(tsx_rows_prepare(query->connection, text, NULL, statement, error));
  return join->on.span_count ? tsx_pushdown_rows_bind(query, *statement, error) : TSR_OK;
}

static int grow_rows(tsx_query *query, uint32_t j, tsr_error *error) {
  tsx_joined *joined = query->joined[j];
  const tsx_join *join = &query->select.joins[j];
  const uint64_t room = joined->room ? 2 * joined->room : 256;
  uint64_t size = join->on.binding_count * sizeof *joined->numbers;
  if (join->on.span_count) size = tsx_boxes_row_size(query);
  for (uint32_t c = 0; c < join->column_count; c++) size += joined->columns[c] ? 9 : 0;
  const bool too_many = joined->room >= JOINED_NO_PLACE / 2;
  TSX_TRY(charge(query, j, too_many ? UINT64_MAX : (room - joined->room) * size, error));
  TSX_TRY(grow_array((void **)&joined->numbers, room, join->on.binding_count * sizeof *joined->numbers, error));
  for (uint32_t c = 0; c < join->column_count; c++) {
    joined_column *column = joined->columns[c];
    if (!column) continue;
    TSX_TRY(grow_array((void **)&column->words, room, sizeof *column->words, error));
    TSX_TRY(grow_array((void **)&column->types, room, 1, error));
  }
  joined->room = room;
  return TSR_OK;
}

static int keep_value(tsx_query *query, uint32_t j, joined_column *column, const tsr_value *value, tsr_error *error) {
  const tsx_joined *joined = query->joined[j];
  column->types[joined->row_count] = (uint8_t)value->type;
  column->words[joined->row_count] = value->as.integer; /* or the bits of a REAL */
  if (value->type != TSR_VALUE_TEXT) return TSR_OK;
  tsr_text_value *text = tsx_arena_take(&query->select.arena, sizeof *text);
  if (!text) return tsx_out_of_memory(error);
  *text = (tsr_text_value){value->as.text.bytes, value->as.text.size};
  column->words[joined->row_count] = (int64_t)(uintptr_t)text;
  return charge(query, j, text->size + 2 * sizeof *text, error);
}

#define SHOWN_SIZE 48 /* bytes of a datetime's text */

/* Makes a text that means an instant of a datetime dimension the text that SQL shows for it: texts of other units and
 * forms equal the coordinate, too, as in a comparison of rows. `text` holds it. */
static void respell_as_coordinate(const tsx_query *query, const tsx_expr *left, tsr_value *value,
                                  char text[SHOWN_SIZE]) {
  int64_t at;
  left = tsx_expr_meaning(left); /* it may be a column of a subquery */
  if (value->type != TSR_VALUE_TEXT || left->kind != TSX_EXPR_NAME) return;
  const tsx_column *column = &query->table->columns[left->column];
  if (column->form != TSX_DATETIME || column->datetimes_integer) return;
  const tsr_datatype datatype = column->description->datatype;
  if (tsr_datetime_place(datatype, value->as.text.bytes, value->as.text.size, &at) != TSR_INSTANT_AT) return;
  const int size = tsr_datetime_print(datatype, at, text);
  if (size > 0) value->as.text = (tsr_text_value){text, (uint64_t)size};
}

/* Adds a row, with values in the order of list_columns. A row with a null in a bound column matches no coordinate and
 * is skipped. Texts of bound columns are copied; other texts must live as long as the query. */
static int add_row(tsx_query *query, uint32_t j, const tsr_value *values, tsr_error *error) {
  const tsx_join *join = &query->select.joins[j];
  tsx_joined *joined = query->joined[j];
  const uint32_t bindings = join->on.binding_count;
  if (joined->row_count == joined->room) TSX_TRY(grow_rows(query, j, error));
  for (uint32_t b = 0; b < bindings; b++) {
    tsr_value value = values[b];
    char text[SHOWN_SIZE];
    if (value.type == TSR_VALUE_NULL) return TSR_OK;
    respell_as_coordinate(query, join->on.bindings[b].left, &value, text);
    TSX_TRY(
        number_value(query, j, &joined->values[b], &value, &joined->numbers[joined->row_count * bindings + b], error));
  }
  values += bindings;
  for (uint32_t c = 0; c < join->column_count; c++)
    if (joined->columns[c]) TSX_TRY(keep_value(query, j, joined->columns[c], values++, error));
  joined->row_count++;
  return TSR_OK;
}

/* ---- Blocks of a joined array ------------------------------------------------------------------------------------ */

/* The engine reads a joined array much faster as blocks than SQLite does row by row. Only numbers that SQL shows
 * unchanged are read in this way. Texts, datetimes, labels, and joins with times or filters are read as rows. */

typedef struct cells_bounds { /* the ends of a dimension's range, in its datatype */
  int64_t ends[2];
  tsr_range range;
} cells_bounds;

static bool is_plain_number(const tsr_field *field) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  if (field->values_per_cell != 1 || field->enumeration || field->datatype == TSR_UINT64) return false;
  return kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED || kind == TSR_KIND_FLOAT;
}

/* Returns 1 if the engine gives the same values as the statement, else 0. */
static int suits_blocks(const tsx_join *join, const tsx_table *table, sqlite3_stmt *statement, const uint32_t *columns,
                        uint32_t count, tsr_error *error) {
  if (join->on.filter_count > 0 || join->source.times_begin) return 0;
  for (uint32_t i = 0; i < count; i++) {
    if (columns[i] >= table->column_count || !is_plain_number(table->columns[columns[i]].description)) return 0;
    const int code = tsx_column_visible(statement, 1 + (int)i, table->columns[columns[i]].name, error);
    if (code <= 0) return code;
  }
  return 1;
}

/* Makes the range low..high, clamped to the dimension's datatype. Returns false if it is empty. */
static bool clamp_range(const tsr_field *dimension, int64_t low, int64_t high, cells_bounds *bounds,
                        tsr_ranges *ranges) {
  const unsigned bits = 8 * (unsigned)dimension->cell_size;
  const bool is_signed = tsr_datatype_kind(dimension->datatype) == TSR_KIND_SIGNED;
  const int64_t least = !is_signed ? 0 : bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1));
  const int64_t most = bits == 64 ? INT64_MAX : (INT64_C(1) << (is_signed ? bits - 1 : bits)) - 1;
  bounds->ends[0] = low > least ? low : least;
  bounds->ends[1] = high < most ? high : most;
  bounds->range = (tsr_range){.low = &bounds->ends[0], .high = &bounds->ends[1]};
  *ranges = (tsr_ranges){.ranges = &bounds->range, .count = 1};
  return bounds->ends[0] <= bounds->ends[1];
}

/* Narrows the dimensions that ON binds. Returns 1; 0 if no cell can match. */
static int narrow_dimensions(tsx_query *query, uint32_t j, const tsx_table *table, tsr_ranges **ranges,
                             tsr_error *error) {
  const tsx_join_on *on = &query->select.joins[j].on;
  const uint32_t count = table->schema->dimension_count;
  cells_bounds *bounds = tsx_arena_take(&query->select.arena, count * sizeof *bounds);
  *ranges = tsx_arena_take(&query->select.arena, count * sizeof **ranges);
  if (!bounds || !*ranges) return tsx_out_of_memory(error);
  for (uint32_t d = 0; d < count; d++) (*ranges)[d] = (tsr_ranges){.all = true};
  for (uint32_t b = 0; b < on->binding_count; b++) {
    const tsx_column *column = &table->columns[on->bindings[b].column];
    const joined_values *v = &query->joined[j]->values[b];
    if (!v->bounded || !column->description->is_dimension || !(*ranges)[column->field].all) continue;
    if (!clamp_range(column->description, v->ends[0], v->ends[1], &bounds[column->field], &(*ranges)[column->field]))
      return 0;
  }
  return 1;
}

static tsr_value value_in_block(const tsr_query_column *column, uint64_t r) {
  tsr_value value = {.type = column->nulls && column->nulls[r] ? TSR_VALUE_NULL : column->type};
  if (column->type == TSR_VALUE_REAL) value.as.real = column->as.reals[r];
  else value.as.integer = column->as.integers[r];
  return value;
}

static int add_blocks(tsx_query *query, uint32_t j, tsr_query_run *run, uint32_t count, tsr_error *error) {
  tsr_value *values = tsx_arena_take(&query->select.arena, count * sizeof *values);
  tsr_query_block block;
  int code;
  if (!values) return tsx_out_of_memory(error);
  while ((code = tsr_query_next(run, &block, error)) > 0)
    for (uint64_t r = 0; r < block.count; r++) {
      for (uint32_t i = 0; i < count; i++) values[i] = value_in_block(&block.columns[i], r);
      if ((code = add_row(query, j, values, error)) < 0) return code;
    }
  return code;
}

static int read_blocks(tsx_query *query, uint32_t j, tsx_table *table, const tsr_query *request, tsr_error *error) {
  tsx_snapshot *snapshot = NULL;
  tsr_query_run *run = NULL;
  TSX_TRY(tsx_array_permitted(query->connection, table->array, error));
  TSX_TRY(tsx_table_snapshot(table, &snapshot, error));
  int code = tsr_query_start(snapshot->core, request, &run, error);
  if (code >= 0) code = add_blocks(query, j, run, request->column_count, error);
  tsr_query_close(run);
  tsx_snapshot_release(snapshot);
  return code;
}

/* Reads these columns of a joined array as blocks, and adds each cell as a row (add_row). `statement` would read
 * the same as rows; preparing it has consulted the authorizer. Returns 1; 0 if the array must be read as rows. */
static int read_as_blocks(tsx_query *query, uint32_t j, sqlite3_stmt *statement, const uint32_t *columns,
                          uint32_t count, tsr_error *error) {
  const tsx_join *join = &query->select.joins[j];
  tsx_table *table =
      join->is_array ? tsx_table_connected(query->connection, join->source.schema, join->source.table) : NULL;
  tsr_ranges *ranges;
  if (!table) return 0;
  TSX_TRY(tsx_table_ready(table, error));
  const int suit = suits_blocks(join, table, statement, columns, count, error);
  if (suit <= 0) return suit;
  tsr_node *nodes = tsx_arena_take(&query->select.arena, count * sizeof *nodes);
  tsr_expression *expressions = tsx_arena_take(&query->select.arena, count * sizeof *expressions);
  if (!nodes || !expressions) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < count; i++) {
    nodes[i] = (tsr_node){.operation = TSR_OP_FIELD, .field = table->columns[columns[i]].field};
    expressions[i] = (tsr_expression){.nodes = &nodes[i], .count = 1};
  }
  const int any = narrow_dimensions(query, j, table, &ranges, error);
  if (any <= 0) return any < 0 ? any : 1;
  const tsr_query request = {.dimensions = ranges,
                             .fill_unwritten = table->options.shows.fill_unwritten,
                             .columns = expressions,
                             .column_count = count,
                             .memory_bytes =
                                 query->memory_bytes ? query->memory_bytes : table->options.limits.memory_bytes,
                             .threads = query->threads ? query->threads : table->options.limits.threads};
  TSX_TRY(read_blocks(query, j, table, &request, error));
  return 1;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Lists the columns of a joined table to read: the bound columns, then those that the query uses. Returns their number.
 * `columns` has room for binding_count + column_count. */
static uint32_t list_columns(const tsx_query *query, uint32_t j, uint32_t *columns) {
  const tsx_join *join = &query->select.joins[j];
  uint32_t count = 0;
  for (uint32_t b = 0; b < join->on.binding_count; b++) columns[count++] = join->on.bindings[b].column;
  for (uint32_t c = 0; c < join->column_count; c++)
    if (query->joined[j]->columns[c]) columns[count++] = c;
  return count;
}

/* Adds the current row of a statement. */
static int add_statement_row(tsx_query *query, uint32_t j, sqlite3_stmt *statement, uint32_t count, tsr_value *values,
                             tsr_error *error) {
  const tsx_join *join = &query->select.joins[j];
  const int first = 1 + 2 * (int)join->on.span_count;
  if (join->on.span_count) {
    if (query->joined[j]->row_count >= JOINED_NO_PLACE / 2) return charge(query, j, UINT64_MAX, error);
    const int meets = tsx_boxes_row(query, query->joined[j]->row_count, statement, 1, error);
    if (meets <= 0) return meets;
  }
  for (uint32_t i = 0; i < count; i++) {
    sqlite3_value *value = sqlite3_column_value(statement, first + (int)i);
    const int code = i < join->on.binding_count ? tsx_query_value(value, &values[i], error)
                                                : tsx_query_copy(query, value, &values[i], error);
    if (values[i].type == TSR_VALUE_OPAQUE) values[i].type = TSR_VALUE_NULL; /* a BLOB equals no coordinate */
    if (code == TSR_MISMATCH)
      return tsx_not_evaluated(&query->select, join->source.begin, join->source.end, "blobs", error);
    if (code < 0) return code;
  }
  return add_row(query, j, values, error);
}

static int read_as_rows(tsx_query *query, uint32_t j, sqlite3_stmt *statement, uint32_t count, tsr_value *values,
                        tsr_error *error) {
  int step;
  while ((step = tsx_rows_step(query->connection, statement, error)) > 0)
    TSX_TRY(add_statement_row(query, j, statement, count, values, error));
  return step;
}

static int read_joined(tsx_query *query, uint32_t j, tsr_error *error) {
  const tsx_join *join = &query->select.joins[j];
  const uint32_t most = join->on.binding_count + join->column_count;
  sqlite3_stmt *statement = NULL;
  uint32_t *columns = tsx_arena_take(&query->select.arena, most * sizeof *columns);
  tsr_value *values = tsx_arena_take(&query->select.arena, most * sizeof *values);
  if (!columns || !values) return tsx_out_of_memory(error);
  const uint32_t count = list_columns(query, j, columns);
  int code = prepare_rows(query, j, &statement, error), read = 0;
  if (code >= 0 && !join->on.span_count) code = read = read_as_blocks(query, j, statement, columns, count, error);
  if (code >= 0 && !read) code = read_as_rows(query, j, statement, count, values, error);
  sqlite3_finalize(statement);
  return code < 0 ? code : TSR_OK;
}

int tsx_joined_read(tsx_query *query, tsr_error *error) {
  for (uint32_t j = 0; j < query->select.join_count; j++) {
    const tsx_join *join = &query->select.joins[j];
    if (join->on.binding_count == 0 && join->on.span_count == 0) continue;
    if (!joined_table(query, j)) return tsx_out_of_memory(error);
    if (join->on.span_count) {
      TSX_TRY(read_joined(query, j, error));
      continue;
    }
    const int axis = tsx_axis_of(query, join->on.bindings[0].left);
    if (axis < 0 || query->axes[axis].count == 0) continue; /* there are no cells, or an error is reported later */
    for (uint32_t b = 0; b < join->on.binding_count; b++) TSX_TRY(find_bounds(query, j, b, error));
    TSX_TRY(read_joined(query, j, error));
  }
  return TSR_OK;
}

/* ---- Places ------------------------------------------------------------------------------------------------------ */

/* Assigns places to the values that some kept coordinate equals, and replaces the numbers on the axis by these
 * places. */
static int assign_places(tsx_query *query, uint32_t j, uint32_t b, tsr_value **numbers, tsx_axis **at,
                         tsr_error *error) {
  const tsx_expr *number = query->select.joins[j].on.bindings[b].number;
  joined_values *v = &query->joined[j]->values[b];
  const int a = tsx_axis_of(query, number);
  *numbers = NULL;
  if (a < 0) return TSR_OK;
  const int tree = tsx_axis_request(query, (uint32_t)a, number, false, error);
  if (tree < 0) return tree;
  tsx_axis *axis = *at = &query->axes[a];
  *numbers = axis->values[tree];
  TSX_TRY(charge(query, j, v->count * sizeof *v->places, error));
  TSX_TRY(grow_array((void **)&v->places, v->count, sizeof *v->places, error));
  memset(v->places, 0xff, v->count * sizeof *v->places);
  for (uint64_t i = 0; i < axis->count; i++) {
    tsr_value *value = &(*numbers)[i];
    if (value->type == TSR_VALUE_NULL) continue;
    if (axis->kept && !axis->kept[i]) {
      value->type = TSR_VALUE_NULL;
      continue;
    }
    uint32_t *place = &v->places[value->as.integer - 1];
    if (*place == JOINED_NO_PLACE) *place = v->place_count++;
    value->as.integer = *place;
  }
  return TSR_OK;
}

/* Enters each row into the box at its place. */
static int fill_box(tsx_query *query, uint32_t j, const uint64_t *strides, tsr_error *error) {
  const tsx_join *join = &query->select.joins[j];
  tsx_joined *joined = query->joined[j];
  for (uint64_t r = 0; r < joined->row_count; r++) {
    uint64_t place = 0;
    bool met = true;
    for (uint32_t b = 0; b < join->on.binding_count && met; b++) {
      const uint32_t p = joined->values[b].places[joined->numbers[r * join->on.binding_count + b]];
      met = p != JOINED_NO_PLACE;
      if (met) place += p * strides[b];
    }
    if (!met) continue;
    if (!joined->box_nulls[place])
      return tsx_not_evaluated(&query->select, join->on.tree->begin, join->on.tree->end,
                               "a joined table has more than one row for a coordinate", error);
    joined->box_nulls[place] = 0;
    joined->box_rows[place] = (uint32_t)r;
    joined->free_places--;
  }
  return TSR_OK;
}

/* Charges the box to the budget. It has a place for each combination of values, however few rows there are. */
static int charge_box(const tsx_query *query, uint32_t j, uint64_t size, tsr_error *error) {
  const uint64_t memory = memory_limit(query), place = sizeof(uint32_t) + 1;
  if (size <= JOINED_NO_PLACE && try_charge(query, j, size * place)) return TSR_OK;
  return tsx_fail(error, TSR_BUDGET,
                  "the combinations of the values by which '%s' is joined do not fit into memory_mb (%llu): bind fewer "
                  "columns in ON, a WHERE for a part of the dimensions, or more memory_mb",
                  query->select.joins[j].source.table, (unsigned long long)(memory >> 20));
}

/* Makes the box of a join, and turns the places on the axes into offsets: place * stride. */
static int make_box(tsx_query *query, uint32_t j, tsr_error *error) {
  const tsx_join *join = &query->select.joins[j];
  tsx_joined *joined = query->joined[j];
  tsr_value *numbers[TSX_BINDINGS_MAX];
  tsx_axis *axes[TSX_BINDINGS_MAX];
  uint64_t strides[TSX_BINDINGS_MAX], size = 1;
  for (uint32_t b = join->on.binding_count; b-- > 0;) {
    TSX_TRY(assign_places(query, j, b, &numbers[b], &axes[b], error));
    strides[b] = size;
    size *= joined->values[b].place_count;
    if (size > JOINED_NO_PLACE) TSX_TRY(charge_box(query, j, size, error));
  }
  TSX_TRY(charge_box(query, j, size, error));
  TSX_TRY(grow_array((void **)&joined->box_rows, size, sizeof *joined->box_rows, error));
  TSX_TRY(grow_array((void **)&joined->box_nulls, size, 1, error));
  memset(joined->box_rows, 0, size * sizeof *joined->box_rows);
  memset(joined->box_nulls, 1, size);
  for (uint32_t b = 0; b < join->on.binding_count; b++)
    for (uint64_t i = 0; numbers[b] && i < axes[b]->count; i++)
      if (numbers[b][i].type != TSR_VALUE_NULL) numbers[b][i].as.integer *= (int64_t)strides[b];
  joined->box = (tsr_value_list){.count = size,
                                 .type = TSR_VALUE_INTEGER,
                                 .datatype = TSR_UINT32,
                                 .values = joined->box_rows,
                                 .nulls = joined->box_nulls};
  joined->free_places = size;
  TSX_TRY(fill_box(query, j, strides, error));
  if (joined->free_places == 0) joined->box.nulls = NULL;
  return TSR_OK;
}

/* ---- Columns ----------------------------------------------------------------------------------------------------- */

/* Returns the common type of a column's values; OPAQUE if there is none. */
static tsr_value_type common_type(const joined_column *column, uint64_t rows) {
  bool seen[TSR_VALUE_NULL + 1] = {false}, exact = true;
  for (uint64_t r = 0; r < rows; r++) {
    seen[column->types[r]] = true;
    exact &= column->types[r] != TSR_VALUE_INTEGER ||
             (column->words[r] >= -JOINED_EXACT && column->words[r] <= JOINED_EXACT);
  }
  if (seen[TSR_VALUE_TEXT]) return seen[TSR_VALUE_INTEGER] || seen[TSR_VALUE_REAL] ? TSR_VALUE_OPAQUE : TSR_VALUE_TEXT;
  if (seen[TSR_VALUE_INTEGER] && seen[TSR_VALUE_REAL]) return exact ? TSR_VALUE_NUMBER : TSR_VALUE_OPAQUE;
  return seen[TSR_VALUE_INTEGER] ? TSR_VALUE_INTEGER : seen[TSR_VALUE_REAL] ? TSR_VALUE_REAL : TSR_VALUE_NULL;
}

/* Converts the values in place to the form of a tsr_value_list. `types` becomes the nulls, or for type NUMBER the flags
 * of INTEGER values. A null REAL or NUMBER is a NaN. TSR_MISMATCH: the values have no common type. */
static int convert_column(tsx_query *query, joined_column *column, uint64_t rows, tsr_error *error) {
  const tsr_value_type type = common_type(column, rows);
  tsr_text_value *texts = NULL;
  if (type == TSR_VALUE_OPAQUE) return TSR_MISMATCH;
  if (type == TSR_VALUE_NULL) return TSR_OK;
  if (type == TSR_VALUE_TEXT && !(texts = tsx_arena_take(&query->select.arena, rows * sizeof *texts)))
    return tsx_out_of_memory(error);
  for (uint64_t r = 0; r < rows; r++) {
    const tsr_value_type own = (tsr_value_type)column->types[r];
    const bool real = type == TSR_VALUE_REAL || type == TSR_VALUE_NUMBER;
    const double value = own == TSR_VALUE_INTEGER ? (double)column->words[r] : (double)NAN;
    if (texts && own != TSR_VALUE_NULL) texts[r] = *(const tsr_text_value *)(uintptr_t)column->words[r];
    if (real && own != TSR_VALUE_REAL) memcpy(&column->words[r], &value, sizeof value);
    column->types[r] = type == TSR_VALUE_NUMBER ? own == TSR_VALUE_INTEGER : own == TSR_VALUE_NULL;
  }
  column->list = (tsr_value_list){.count = rows,
                                  .type = type,
                                  .datatype = type == TSR_VALUE_INTEGER ? TSR_INT64 : TSR_FLOAT64,
                                  .values = texts ? (const void *)texts : column->words};
  if (type == TSR_VALUE_NUMBER) column->list.whole = column->types;
  else if (type != TSR_VALUE_REAL) column->list.nulls = column->types;
  return TSR_OK;
}

static int convert_columns(tsx_query *query, uint32_t j, tsr_error *error) {
  const tsx_join *join = &query->select.joins[j];
  const tsx_joined *joined = query->joined[j];
  for (uint32_t c = 0; c < join->column_count; c++) {
    if (!joined->columns[c]) continue;
    const int code = convert_column(query, joined->columns[c], joined->row_count, error);
    if (code == TSR_MISMATCH)
      return tsx_fail(error, TSR_ERROR,
                      "'%s' of '%s' has INTEGER in one row, REAL or TEXT in another: CAST one of them",
                      join->columns[c].name, join->source.table);
    if (code < 0) return code;
  }
  return TSR_OK;
}

/* Reorders the values of a numeric column from row order to place order. */
static int reorder_column(tsx_query *query, uint32_t j, joined_column *column, tsr_error *error) {
  const tsx_joined *joined = query->joined[j];
  const uint64_t count = joined->box.count;
  int64_t *words = NULL;
  uint8_t *types = NULL;
  TSX_TRY(grow_array((void **)&words, count, sizeof *words, error));
  const int code = grow_array((void **)&types, count, 1, error);
  if (code < 0) {
    sqlite3_free(words);
    return code;
  }
  for (uint64_t p = 0; p < count; p++) {
    words[p] = column->words[joined->box_rows[p]];
    types[p] = column->types[joined->box_rows[p]];
  }
  sqlite3_free(column->words);
  sqlite3_free(column->types);
  column->list.count = count;
  column->list.values = column->words = words;
  column->types = types;
  if (column->list.nulls) column->list.nulls = types;
  if (column->list.whole) column->list.whole = types;
  return TSR_OK;
}

/* If every place has a row, all columns are numeric, and memory allows, stores the values in place order: the engine
 * then skips the lookup of row numbers (is_identity). */
static int sort_by_place(tsx_query *query, uint32_t j, tsr_error *error) {
  tsx_joined *joined = query->joined[j];
  const uint32_t count = query->select.joins[j].column_count;
  bool possible = joined->free_places == 0 && joined->box.count > 0;
  uint64_t columns = 0;
  for (uint32_t c = 0; c < count; c++) {
    if (!joined->columns[c]) continue;
    const tsr_value_type type = joined->columns[c]->list.type;
    possible &= type != TSR_VALUE_TEXT && type != TSR_VALUE_NULL;
    columns++;
  }
  if (!possible || !try_charge(query, j, joined->box.count * columns * 9)) return TSR_OK;
  for (uint32_t c = 0; c < count; c++)
    if (joined->columns[c]) TSX_TRY(reorder_column(query, j, joined->columns[c], error));
  joined->box.is_identity = true;
  return TSR_OK;
}

int tsx_joined_finish(tsx_query *query, tsr_error *error) {
  for (uint32_t j = 0; j < query->select.join_count; j++) {
    if (!query->joined[j]) continue;
    const bool ranges = query->select.joins[j].on.span_count > 0;
    TSX_TRY(ranges ? tsx_boxes_finish(query, query->joined[j]->row_count, error) : make_box(query, j, error));
    TSX_TRY(convert_columns(query, j, error));
    if (!ranges) TSX_TRY(sort_by_place(query, j, error));
  }
  return TSR_OK;
}

/* A full box means that every cell has a row: for a JOIN, coordinates that match no value are not read at all. This
 * does not hold for enumerated attributes, whose cells may be null. */
bool tsx_joined_complete(const tsx_query *query, uint32_t j) {
  const tsx_join *join = &query->select.joins[j];
  bool complete = query->joined[j] && query->joined[j]->box.values && query->joined[j]->free_places == 0;
  for (uint32_t b = 0; b < join->on.binding_count; b++)
    complete &= query->table->columns[join->on.bindings[b].left->field].description->is_dimension;
  return complete;
}
