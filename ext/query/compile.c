/* compile.c: compiles the text of a tessera_query to a tsx_query.
 *
 * The steps, in compile_select: parse the text; check what SQLite's parser will not see (check_aggregate_use); rewrite
 * the text for SQLite (table names qualified, median(x) as total(x)) and let SQLite prepare it, which checks grammar,
 * names and the authorizer's denials; find the array in FROM and the joined tables; resolve names; check that SQLite
 * can evaluate the joins. Preparing the text connects the tables that it names, and so may compile other queries:
 * check_depth stops a query that reads itself.
 *
 * Sections: the text for SQLite's parser, the table in FROM, the query, compiled texts that are kept, what the
 * authorizer hides, columns, constants and values. */
#include "query/query_internal.h"

#include <limits.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/registry.h"
#include "table/table.h"

/* ---- The text for SQLite's own parser ---------------------------------------------------------------------------- */

static bool replace_nothing(void *argument, const tsx_expr *tree, sqlite3_str *out) {
  (void)argument, (void)tree, (void)out;
  return false;
}

/* SQLite may lack median and the like, so its parser sees total(x) instead. It sees NULL instead of a subquery, which
 * is compiled on its own. */
static bool replace_unknown(void *argument, const tsx_expr *tree, sqlite3_str *out) {
  if (tree->kind == TSX_EXPR_SUBQUERY) {
    sqlite3_str_appendall(out, "NULL");
    return *(bool *)argument = true;
  }
  const bool window = tree->kind == TSX_EXPR_WINDOW;
  if ((tree->kind != TSX_EXPR_AGGREGATE && !window) || !tree->call.function->replaced) return false;
  *(bool *)argument = true;
  sqlite3_str_appendall(out, "total(");
  tsx_words_append(out, tree->operands[0], replace_nothing, NULL);
  sqlite3_str_appendchar(out, 1, ')');
  if (tree->call.filter) {
    sqlite3_str_appendall(out, " FILTER (WHERE ");
    tsx_words_append(out, tree->call.filter, replace_nothing, NULL);
    sqlite3_str_appendchar(out, 1, ')');
  }
  if (window) sqlite3_str_appendf(out, " OVER %.*s", (int)(tree->over->end - tree->over->begin), tree->over->begin);
  return true;
}

/* Writes a table with its database; a path as the table that is registered for it, with the path as its alias. */
static void append_source(sqlite3_str *out, const char **from, const tsx_source *source, const char *home) {
  sqlite3_str_append(out, *from, (int)(source->begin - *from));
  *from = source->begin;
  if (!source->path) {
    if (!source->qualified && sqlite3_stricmp(home, "temp") != 0) sqlite3_str_appendf(out, "\"%w\".", home);
    return;
  }
  *from = source->times_end ? source->times_end : source->end;
  sqlite3_str_appendf(out, "\"%w\"%.*s", source->table, (int)(*from - source->end), source->end);
  if (source->alias == source->path) sqlite3_str_appendf(out, " AS \"%w\"", source->path);
}

/* Makes select->prepared. An item that was changed gets its original text as an alias, so that its column keeps the
 * name that a view would give it. */
static int make_prepared(tsx_select *s, const char *home, tsr_error *error) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  const char *from = s->text;
  for (uint32_t i = 0; i < s->item_count; i++) {
    bool replaced = false;
    if (!s->items[i].tree) continue;
    tsx_words_until(out, s->items[i].tree, &from, replace_unknown, &replaced);
    const tsx_expr *tree = tsx_expr_likely(s->items[i].tree);
    const bool column = tree != s->items[i].tree && tree->kind == TSX_EXPR_NAME;
    if ((!replaced && !column) || s->items[i].name) continue;
    sqlite3_str_append(out, from, (int)(s->items[i].end - from));
    char *words = column ? sqlite3_mprintf("%s", tree->name)
                         : sqlite3_mprintf("%.*s", (int)(s->items[i].end - s->items[i].begin), s->items[i].begin);
    if (words) sqlite3_str_appendf(out, " AS \"%w\"", words);
    else sqlite3_str_appendchar(out, INT_MAX, ' '); /* too long: puts `out` into its error state */
    sqlite3_free(words);
    from = s->items[i].end;
  }
  append_source(out, &from, &s->source, home);
  /* the condition of a subquery in FROM stands before the joins; WHERE has it as its first operand, or is it */
  bool replaced;
  const tsx_expr *inner = s->windows.where[1], *where = inner && s->where != inner ? s->where->operands[1] : s->where;
  if (inner) tsx_words_until(out, inner, &from, replace_unknown, &replaced);
  for (uint32_t j = 0; j < s->join_count; j++) append_source(out, &from, &s->joins[j].source, home);
  if (where && where != inner) tsx_words_until(out, where, &from, replace_unknown, &replaced);
  if (s->having) tsx_words_until(out, s->having, &from, replace_unknown, &replaced);
  for (uint32_t i = 0; i < s->order_count; i++)
    tsx_words_until(out, s->order[i].tree, &from, replace_unknown, &replaced);
  sqlite3_str_appendall(out, from);
  char *text = sqlite3_str_finish(out);
  s->prepared = text ? tsx_arena_copy(&s->arena, text, strlen(text)) : NULL;
  sqlite3_free(text);
  return s->prepared ? TSR_OK : tsx_out_of_memory(error);
}

/* Prepares a text, which must be a single statement. `statement` may be NULL. */
static int prepare_single(const tsx_connection *connection, const char *text, sqlite3_stmt **statement,
                          tsr_error *error) {
  sqlite3_stmt *prepared = NULL;
  const char *tail = NULL;
  int code = sqlite3_prepare_v2(connection->db, text, -1, &prepared, &tail);
  if (code != SQLITE_OK) return tsx_fail(error, tsx_core_code(code), "%s", sqlite3_errmsg(connection->db));
  if (tail && tail[strspn(tail, " \t\r\n\f")]) {
    sqlite3_finalize(prepared);
    return tsx_fail(error, TSR_ERROR, "near \"%.20s\": syntax error", tail);
  }
  if (statement) *statement = prepared;
  else sqlite3_finalize(prepared);
  return TSR_OK;
}

/* ---- The table in FROM ------------------------------------------------------------------------------------------- */

/* Refuses a table in another database, unless the query is in temp. Views have the same rule. */
static int check_database(const tsx_query *query, const char *home, const tsx_source *source, tsr_error *error) {
  if (!source->qualified || !sqlite3_stricmp(home, "temp") || !sqlite3_stricmp(home, source->schema)) return TSR_OK;
  char *what = sqlite3_mprintf("cannot reference objects in database %s: ", source->schema);
  if (!what) return tsx_out_of_memory(error);
  const int code = tsx_expr_fail(&query->select, source->begin, source->end, what,
                                 "a query in temp may: CREATE VIRTUAL TABLE temp.name", error);
  sqlite3_free(what);
  return code;
}

/* Looks up a table as named in FROM or JOIN; a query in temp finds an unqualified name in any database. The caller
 * frees *schema, which is NULL if no database has the name. */
static int find_table(const tsx_connection *connection, const char *home, const char *written, const char *name,
                      char **schema, tsx_table_kind *kind, tsr_error *error) {
  const char *given = written ? written : sqlite3_stricmp(home, "temp") != 0 ? home : NULL;
  *schema = given ? sqlite3_mprintf("%s", given) : NULL;
  *kind = TSX_TABLE_NONE;
  if (given && !*schema) return tsx_out_of_memory(error);
  if (given) return tsx_table_kind_find(connection, *schema, name, kind, error);
  const int code = tsx_schema_search(connection->db, name, schema, kind);
  return code == SQLITE_OK ? TSR_OK : tsx_fail(error, tsx_core_code(code), "%s", sqlite3_errmsg(connection->db));
}

/* Refuses a FROM that does not name an array; the message says what the name is. */
static int refuse_table(const tsx_query *query, tsx_table_kind kind, tsr_error *error) {
  static const char *const kinds[] = {[TSX_TABLE_SQLITE] = "an SQLite table",
                                      [TSX_TABLE_VIEW] = "a view",
                                      [TSX_TABLE_ARRAY] = "an array that is not open",
                                      [TSX_TABLE_QUERY] = "a tessera_query: join it, or select from it in a view",
                                      [TSX_TABLE_OTHER] = "a table of another module"};
  const char *table = query->select.source.table;
  if (kind == TSX_TABLE_NONE) return tsx_fail(error, TSR_ERROR, "no such tessera table: %s", table);
  return tsx_fail(error, TSR_ERROR, "not a tessera table: '%s' is %s", table, kinds[kind]);
}

int tsx_query_path(tsx_connection *connection, const char *home, const char *text, const tsx_option_limits *limits,
                   const char **name, tsr_error *error) {
  char *schema;
  tsx_table_kind kind;
  const int code = find_table(connection, home, NULL, text, &schema, &kind, error);
  sqlite3_free(schema);
  if (code < 0 || kind != TSX_TABLE_NONE) return code < 0 ? code : 0;
  return tsx_path_table(connection, home, text, limits, name, error);
}

/* If a quoted name is a path, replaces it by the table that is registered for the path. */
static int resolve_path(tsx_query *query, const char *home, tsx_source *source, tsr_error *error) {
  tsx_arena *arena = &query->select.arena;
  const char *name;
  if (!source->quoted || source->qualified) return TSR_OK;
  const int code = tsx_query_path(query->connection, home, source->table, NULL, &name, error);
  if (code <= 0) return code;
  source->path = source->table;
  if (!source->alias) source->alias = source->table;
  source->table = tsx_arena_copy(arena, name, strlen(name));
  source->schema = tsx_arena_copy(arena, "main", 4);
  return source->table && source->schema ? TSR_OK : tsx_out_of_memory(error);
}

static int resolve_paths(tsx_query *query, const char *home, tsr_error *error) {
  tsx_select *s = &query->select;
  TSX_TRY(resolve_path(query, home, &s->source, error));
  for (uint32_t j = 0; j < s->join_count; j++) TSX_TRY(resolve_path(query, home, &s->joins[j].source, error));
  return TSR_OK;
}

static int find_array(tsx_query *query, const char *home, tsr_error *error) {
  const tsx_select *s = &query->select;
  char *schema;
  tsx_table_kind kind;
  if (s->source.path) {
    query->table = tsx_table_connected(query->connection, "main", s->source.table);
    if (query->table && (query->held = query->table->registered)) query->held->cursors++;
    return query->table ? tsx_table_ready(query->table, error)
                        : tsx_fail(error, TSR_ERROR, "%s cannot be opened", s->source.path);
  }
  int code = find_table(query->connection, home, s->source.schema, s->source.table, &schema, &kind, error);
  if (code >= 0 && kind == TSX_TABLE_ARRAY)
    query->table = tsx_table_connected(query->connection, schema, s->source.table);
  if (code >= 0) code = query->table ? tsx_table_ready(query->table, error) : refuse_table(query, kind, error);
  sqlite3_free(schema);
  return code;
}

/* Marks which columns of a joined array are dimensions. */
static int mark_dimensions(const tsx_query *query, tsx_join *join, tsr_error *error) {
  tsx_table *table = tsx_table_connected(query->connection, join->source.schema, join->source.table);
  if (!table) return TSR_OK;
  TSX_TRY(tsx_table_ready(table, error));
  for (uint32_t c = 0; c < join->column_count && c < table->column_count; c++)
    join->columns[c].dimension = table->columns[c].description->is_dimension;
  return TSR_OK;
}

/* Finds a joined table, and what it is. */
static int find_joined(tsx_query *query, const char *home, tsx_join *join, char **schema, tsr_error *error) {
  tsx_table_kind kind;
  join->is_array = join->source.path != NULL;
  join->is_query = join->is_view = false;
  if (join->is_array) return tsx_join_describe(query, join, error);
  TSX_TRY(find_table(query->connection, home, join->source.schema, join->source.table, schema, &kind, error));
  if (kind == TSX_TABLE_NONE)
    return tsx_fail(error, TSR_ERROR,
                    "JOIN needs an SQLite table or view, an array or a tessera_query: no such table: %s",
                    join->source.table);
  if (kind == TSX_TABLE_OTHER)
    return tsx_fail(
        error, TSR_ERROR,
        "JOIN needs an SQLite table or view, an array or a tessera_query: '%s' is a table of another module",
        join->source.table);
  join->is_array = kind == TSX_TABLE_ARRAY;
  join->is_view = kind == TSX_TABLE_VIEW;
  join->is_query = join->is_view || kind == TSX_TABLE_QUERY;
  join->source.schema = tsx_arena_copy(&query->select.arena, *schema, strlen(*schema));
  return join->source.schema ? tsx_join_describe(query, join, error) : tsx_out_of_memory(error);
}

/* Finds a joined table and its columns. */
static int describe_join(tsx_query *query, const char *home, tsx_join *join, tsr_error *error) {
  char *schema = NULL;
  const int code = find_joined(query, home, join, &schema, error);
  sqlite3_free(schema);
  if (join->source.times_begin && !join->is_array && code != TSR_NOMEM)
    return tsx_not_evaluated(&query->select, join->begin, join->source.times_end,
                             "joins with a table that has arguments, unless they are times of an array", error);
  if (code < 0) return code;
  return join->is_array ? mark_dimensions(query, join, error) : TSR_OK;
}

static int describe_joins(tsx_query *query, const char *home, tsr_error *error) {
  for (uint32_t j = 0; j < query->select.join_count; j++)
    TSX_TRY(describe_join(query, home, &query->select.joins[j], error));
  return TSR_OK;
}

/* ---- The query --------------------------------------------------------------------------------------------------- */

/* When SQLite prepares a query, it also compiles the queries that it joins. After a rename a query can join itself,
 * which would recurse for ever. */
#define COMPILE_DEPTH_MAX 5

static int check_depth(const tsx_connection *connection, const char *home, const char *text, tsr_error *error) {
  int depth = 0;
  for (const tsx_compiling *c = connection->compiling; c; c = c->outer, depth++)
    if (!strcmp(c->text, text) && !sqlite3_stricmp(c->home, home))
      return tsx_fail(error, TSR_ERROR, "the query reads itself");
  if (depth < COMPILE_DEPTH_MAX) return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "more than %d queries that join one another", COMPILE_DEPTH_MAX);
}

static bool mentions_column(const tsx_expr *tree, uint32_t column) {
  if (tree->kind == TSX_EXPR_JOINED && tree->column == (int)column) return true;
  if (tree->base && mentions_column(tree->base, column)) return true;
  for (uint32_t i = 0; i < tree->count; i++)
    if (mentions_column(tree->operands[i], column)) return true;
  return false;
}

/* Refuses joins without a condition. */
static int check_conditions(const tsx_select *s, tsr_error *error) {
  for (uint32_t j = 0; j < s->join_count; j++) {
    const tsx_join *join = &s->joins[j];
    if (join->on.tree) continue;
    return tsx_not_evaluated(s, join->begin, join->source.times_end ? join->source.times_end : join->source.end,
                             join->comma ? "a comma join needs table.column = expression among the terms of WHERE"
                                         : "a join without ON",
                             error);
  }
  return TSR_OK;
}

/* Refuses a joined array unless ON binds or filters every dimension: a free one would give each cell many rows. */
static int check_all_bound(const tsx_select *s, const tsx_join *join, tsr_error *error) {
  for (uint32_t c = 0; c < join->column_count; c++) {
    if (!join->columns[c].dimension) continue;
    bool bound = false;
    for (uint32_t b = 0; b < join->on.binding_count; b++) bound |= join->on.bindings[b].column == c;
    for (uint32_t f = 0; f < join->on.filter_count; f++) bound |= mentions_column(join->on.filters[f], c);
    if (!bound)
      return tsx_expr_fail(s, join->on.tree->begin, join->on.tree->end,
                           "not all dimensions bound: ", join->columns[c].name, error);
  }
  return TSR_OK;
}

/* Refuses joins by columns that cannot be axes. */
static int check_bound(const tsx_query *query, tsr_error *error) {
  const tsx_select *s = &query->select;
  for (uint32_t j = 0; j < s->join_count; j++) {
    const tsx_join *join = &s->joins[j];
    bool possible = join->on.field == TSX_FIELD_MANY || tsx_axis_possible(&query->table->columns[join->on.field]);
    for (uint32_t b = 0; b < join->on.binding_count; b++)
      possible &= tsx_axis_possible(&query->table->columns[join->on.bindings[b].left->field]);
    for (uint32_t i = 0; i < join->on.span_count; i++)
      possible &= tsx_axis_possible(&query->table->columns[join->on.spans[i].left->field]) ||
                  tsx_boxes_take_texts(query, &join->on.spans[i]);
    if (!possible)
      return tsx_not_evaluated(s, join->on.tree->begin, join->on.tree->end,
                               "a join binds its table to dimensions of integers or datetimes", error);
    if (!join->on.span_count) TSX_TRY(check_all_bound(s, join, error));
  }
  return TSR_OK;
}

/* Returns the first aggregate in a tree that SQLite may lack, such as median; or NULL. */
static const tsx_expr *find_replaced(const tsx_expr *tree) {
  if (!tree || (tree->kind == TSX_EXPR_AGGREGATE && tree->call.function->replaced)) return tree;
  const tsx_expr *found = find_replaced(tree->base);
  if (!found) found = find_replaced(tree->call.filter);
  for (uint32_t i = 0; i < tree->count && !found; i++) found = find_replaced(tree->operands[i]);
  return found;
}

/* Returns the first such aggregate that is nested in another aggregate, or NULL. */
static const tsx_expr *find_nested(const tsx_expr *tree) {
  if (!tree) return NULL;
  const bool within = tree->kind == TSX_EXPR_AGGREGATE;
  const tsx_expr *found = within ? find_replaced(tree->call.filter) : find_nested(tree->base);
  for (uint32_t i = 0; i < tree->count && !found; i++)
    found = within ? find_replaced(tree->operands[i]) : find_nested(tree->operands[i]);
  return found;
}

static int fail_aggregate(const tsx_select *s, const tsx_expr *found, const char *why, tsr_error *error) {
  return found ? tsx_expr_fail(s, found->begin, found->end, "misuse of aggregate: ", why, error) : TSR_OK;
}

/* Refuses median and the like where SQL allows no aggregate. SQLite's parser cannot: it does not see these words. */
static int check_aggregate_use(const tsx_select *s, tsr_error *error) {
  static const char within[] = "an aggregate takes no aggregates";
  const tsx_expr *constants[] = {s->limit, s->offset, s->source.times[0], s->source.times[1]};
  TSX_TRY(fail_aggregate(s, find_replaced(s->where), "WHERE takes no aggregates: HAVING does", error));
  for (uint32_t i = 0; i < s->group_count; i++)
    TSX_TRY(fail_aggregate(s, find_replaced(s->group[i]), "GROUP BY takes no aggregates", error));
  for (uint32_t j = 0; j < s->join_count; j++)
    TSX_TRY(fail_aggregate(s, find_replaced(s->joins[j].on.tree), "ON takes no aggregates", error));
  for (uint32_t i = 0; i < 4; i++)
    TSX_TRY(fail_aggregate(s, find_replaced(constants[i]), "expected a constant", error));
  for (uint32_t i = 0; i < s->item_count; i++) TSX_TRY(fail_aggregate(s, find_nested(s->items[i].tree), within, error));
  for (uint32_t i = 0; i < s->order_count; i++)
    TSX_TRY(fail_aggregate(s, find_nested(s->order[i].tree), within, error));
  return fail_aggregate(s, find_nested(s->having), within, error);
}

/* Chooses the error for a text that the parser has refused. If SQLite refuses it, too, its message is better. Otherwise
 * the unexpected token is valid SQLite grammar that tessera_query lacks. */
static int syntax_error(const tsx_query *query, const char *text, const tsx_parse_doubt *doubt, tsr_error *error) {
  tsr_error own = {0};
  if (!doubt->any) return error->code;
  if (prepare_single(query->connection, text, NULL, &own) < 0) *error = own;
  else if (doubt->begin)
    tsx_not_evaluated(&query->select, doubt->begin, doubt->end,
                      doubt->word ? "put it in double quotes to use it as a name"
                                  : "tessera_query lacks this part of SQLite's grammar",
                      error);
  return error->code;
}

static int compile_select(tsx_query *query, const char *home, const char *text, tsr_error *error) {
  tsx_connection *connection = query->connection;
  tsx_parse_doubt doubt;
  if (tsx_select_parse(text, &query->select, &doubt, error) < 0) return syntax_error(query, text, &doubt, error);
  TSX_TRY(check_aggregate_use(&query->select, error));
  TSX_TRY(check_database(query, home, &query->select.source, error));
  for (uint32_t j = 0; j < query->select.join_count; j++)
    TSX_TRY(check_database(query, home, &query->select.joins[j].source, error));
  TSX_TRY(resolve_paths(query, home, error));
  TSX_TRY(make_prepared(&query->select, home, error));
  TSX_TRY(prepare_single(connection, query->select.prepared, NULL, error));
  TSX_TRY(find_array(query, home, error));
  TSX_TRY(describe_joins(query, home, error));
  TSX_TRY(tsx_around_take(query, error));
  TSX_TRY(check_conditions(&query->select, error));
  TSX_TRY(tsx_select_resolve(&query->select, query->table, error));
  TSX_TRY(check_bound(query, error));
  query->over_groups = query->select.meaning.has_aggregate || query->select.group_count > 0;
  TSX_TRY(tsx_around_check(query, error));
  TSX_TRY(tsx_windows_check(query, error));
  return tsx_subqueries_check(query, error);
}

int tsx_query_compile(tsx_connection *connection, const char *home, const char *text, tsx_query *query,
                      tsr_error *error) {
  *query = (tsx_query){.connection = connection, .home = home};
  TSX_TRY(check_depth(connection, home, text, error));
  const tsx_compiling compiling = {.outer = connection->compiling, .home = home, .text = text};
  connection->compiling = &compiling;
  const int code = compile_select(query, home, text, error);
  connection->compiling = compiling.outer;
  return code;
}

void tsx_query_release(tsx_query *query) {
  tsx_joined_release(query);
  if (query->held) query->held->cursors--;
  tsx_select_free(&query->select);
  tsx_compiled_drop(query->compiled);
  *query = (tsx_query){0};
}

/* ---- Compiled texts that are kept -------------------------------------------------------------------------------- */

/* A tessera_query is compiled at each xBestIndex and xFilter, so its table keeps what does not change: the trees with
 * their names resolved. A query of a kept text has a copy of the tsx_select with an arena of its own: everything that a
 * run allocates goes there, and the trees are only read. What a kept text depends on:
 *
 *   - the tables that its names mean: the schema versions of the databases in which they are looked up. That is the
 *     home; for temp it is every database, but only temp and main if nothing is attached, and with attached databases
 *     nothing is kept. A rolled back version may come again with another schema. So nothing is kept or used again
 *     while a write transaction is open.
 *   - the columns of its arrays: each is still the same connected table, and shows the same schema.
 *   - what is at a path: it still leads to the same registered table, which stands for its array's newest schema.
 *
 * A kept text does not hold the registered table of a path (only queries do), so the registry may remove it at any
 * time. Scalar subqueries put the value of each run into the tree, so a text that has any is not kept. */

#define COMPILED_SOURCES  (1 + TSX_JOINS_MAX)
#define COMPILED_VERSIONS 2

typedef struct compiled_version { /* of a database's schema */
  sqlite3_stmt *read;
  int64_t seen;
} compiled_version;

typedef struct compiled_array { /* of FROM or JOIN; serial 0: not an array */
  uint64_t serial;
  const tsr_schema *schema;
} compiled_array;

struct tsx_compiled {
  uint32_t references; /* the table's, and one of each query */
  tsx_select select;
  bool over_groups, as_declared;
  compiled_version versions[COMPILED_VERSIONS];
  compiled_array arrays[COMPILED_SOURCES]; /* the one in FROM, then those of the joins */
};

void tsx_compiled_drop(tsx_compiled *compiled) {
  if (!compiled || --compiled->references) return;
  for (int i = 0; i < COMPILED_VERSIONS; i++) sqlite3_finalize(compiled->versions[i].read);
  tsx_select_free(&compiled->select);
  sqlite3_free(compiled);
}

bool tsx_query_is_as_declared(const tsx_query *query) { return query->compiled && query->compiled->as_declared; }

void tsx_query_set_as_declared(tsx_query *query) {
  if (query->compiled) query->compiled->as_declared = true;
}

/* Returns false if a schema version does not tell which tables the names of a query mean. */
static bool versions_suffice(const tsx_connection *connection, const char *home) {
  if (sqlite3_txn_state(connection->db, NULL) == SQLITE_TXN_WRITE) return false;
  if (sqlite3_stricmp(home, "temp") != 0) return true;
#if SQLITE_VERSION_NUMBER >= 3039000
  return sqlite3_libversion_number() >= 3039000 && !sqlite3_db_name(connection->db, 2);
#else
  return false;
#endif
}

/* Reads a schema version. Returns false if the host does not let us, or on any other error. */
static bool version_read(const compiled_version *version, int64_t *now) {
  const bool known = sqlite3_step(version->read) == SQLITE_ROW;
  if (known) *now = sqlite3_column_int64(version->read, 0);
  return sqlite3_reset(version->read) == SQLITE_OK && known;
}

static bool version_open(const tsx_connection *connection, const char *database, compiled_version *version) {
  char *text = sqlite3_mprintf("PRAGMA \"%w\".schema_version", database);
  const int code = text ? sqlite3_prepare_v3(connection->db, text, -1, SQLITE_PREPARE_PERSISTENT, &version->read, NULL)
                        : SQLITE_NOMEM;
  sqlite3_free(text);
  return code == SQLITE_OK && version_read(version, &version->seen);
}

/* Begins to keep a text that is about to be compiled. Returns NULL if that is not possible now. */
static tsx_compiled *compiled_begin(const tsx_connection *connection, const char *home) {
  tsx_compiled *compiled = versions_suffice(connection, home) ? sqlite3_malloc64(sizeof *compiled) : NULL;
  if (!compiled) return NULL;
  memset(compiled, 0, sizeof *compiled);
  compiled->references = 1;
  bool known = version_open(connection, home, &compiled->versions[0]);
  if (known && !sqlite3_stricmp(home, "temp")) known = version_open(connection, "main", &compiled->versions[1]);
  if (known) return compiled;
  tsx_compiled_drop(compiled);
  return NULL;
}

static bool compiled_versions_hold(const tsx_compiled *compiled, const tsx_connection *connection, const char *home) {
  bool same = versions_suffice(connection, home);
  for (int i = 0; i < COMPILED_VERSIONS && same; i++) {
    int64_t now;
    if (compiled->versions[i].read)
      same = version_read(&compiled->versions[i], &now) && now == compiled->versions[i].seen;
  }
  return same;
}

/* Moves the trees of a query that has just been compiled to `compiled`, which the query then shares. */
static void compiled_finish(tsx_compiled *compiled, tsx_query *query) {
  const tsx_select *s = &query->select;
  compiled->arrays[0] = (compiled_array){query->table->serial, query->table->schema};
  for (uint32_t j = 0; j < s->join_count; j++) {
    const tsx_source *source = &s->joins[j].source;
    const tsx_table *table =
        s->joins[j].is_array ? tsx_table_connected(query->connection, source->schema, source->table) : NULL;
    if (table) compiled->arrays[1 + j] = (compiled_array){table->serial, table->schema};
  }
  compiled->over_groups = query->over_groups;
  compiled->select = query->select;
  query->select.arena = (tsx_arena){0};
  query->compiled = compiled;
  compiled->references++;
}

/* Finds the table of an array. Returns 1 if it is the same as when the text was compiled, else 0. */
static int compiled_array_find(const tsx_connection *connection, const compiled_array *array, tsx_table **table,
                               tsr_error *error) {
  tsx_table *t = connection->tables.arrays;
  while (t && t->serial != array->serial) t = t->next;
  *table = t;
  if (!t) return 0;
  TSX_TRY(tsx_table_ready(t, error));
  return t->schema == array->schema;
}

/* Returns 1 if the source is no path, or a path that still leads to the same table; else 0. */
static int compiled_path_holds(tsx_connection *connection, const char *home, const tsx_source *source,
                               tsr_error *error) {
  const char *name = NULL;
  if (!source->path) return 1;
  const int code = tsx_path_table(connection, home, source->path, NULL, &name, error);
  return code <= 0 ? code : !strcmp(name, source->table);
}

/* Makes a query of a kept text. Returns 1; 0 if the text must be compiled again. */
static int compiled_use(tsx_compiled *compiled, const char *home, tsx_query *query, tsr_error *error) {
  tsx_connection *connection = query->connection;
  const tsx_select *s = &compiled->select;
  tsx_table *table = NULL, *joined;
  int code = compiled_versions_hold(compiled, connection, home);
  if (code > 0) code = compiled_path_holds(connection, home, &s->source, error);
  for (uint32_t j = 0; j < s->join_count && code > 0; j++)
    code = compiled_path_holds(connection, home, &s->joins[j].source, error);
  if (code <= 0) return code;
  TSX_TRY(prepare_single(connection, s->prepared, NULL, error));
  code = compiled_array_find(connection, &compiled->arrays[0], &table, error);
  for (uint32_t j = 0; j < s->join_count && code > 0; j++)
    if (compiled->arrays[1 + j].serial)
      code = compiled_array_find(connection, &compiled->arrays[1 + j], &joined, error);
  if (code <= 0) return code;
  query->select = *s;
  query->select.arena = (tsx_arena){0};
  query->compiled = compiled;
  compiled->references++;
  query->table = table;
  query->over_groups = compiled->over_groups;
  if (s->source.path && (query->held = table->registered)) query->held->cursors++;
  return 1;
}

/* Compiles the text, and keeps it in *kept if that is possible. */
static int compile_and_keep(tsx_query *query, const char *home, const char *text, tsx_compiled **kept,
                            tsr_error *error) {
  tsx_compiled *fresh = compiled_begin(query->connection, home);
  const int code = compile_select(query, home, text, error);
  if (fresh && code >= 0 && !query->select.subquery_count) {
    compiled_finish(fresh, query);
    tsx_compiled_drop(*kept);
    *kept = fresh;
  } else {
    tsx_compiled_drop(fresh);
  }
  return code;
}

int tsx_query_compile_kept(tsx_connection *connection, const char *home, const char *text, tsx_compiled **kept,
                           tsx_query *query, tsr_error *error) {
  *query = (tsx_query){.connection = connection, .home = home};
  TSX_TRY(check_depth(connection, home, text, error));
  const tsx_compiling compiling = {.outer = connection->compiling, .home = home, .text = text};
  connection->compiling = &compiling;
  int code = *kept ? compiled_use(*kept, home, query, error) : 0;
  if (code == 0) code = compile_and_keep(query, home, text, kept, error);
  connection->compiling = compiling.outer;
  return code < 0 ? code : TSR_OK;
}

/* ---- What the host's authorizer hides ---------------------------------------------------------------------------- */

/* Returns the name of column i; labels are numbered after the columns. */
static const char *name_of_column(const tsx_table *table, uint32_t i) {
  return i < table->column_count ? table->columns[i].name : table->labels[i - table->column_count].name;
}

static void append_permitted(const tsx_query *query, sqlite3_str *out) {
  const tsx_table *table = query->table;
  sqlite3_str_appendall(out, "SELECT r.i0, r.r0, r.t0, r.b0");
  for (uint32_t i = 0; i < table->column_count + table->label_count; i++)
    if (query->select.meaning.used[i]) sqlite3_str_appendf(out, ", a.\"%w\"", name_of_column(table, i));
  sqlite3_str_appendf(out, " FROM \"%w\".\"%w\" AS a, " TSX_ROWS_NAME " AS r", table->schema_name, table->name);
}

int tsx_column_visible(sqlite3_stmt *statement, int i, const char *name, tsr_error *error) {
  if (sqlite3_column_decltype(statement, i)) return 1;
  const char *shown = sqlite3_column_name(statement, i);
  return shown ? !strcmp(shown, name) : tsx_out_of_memory(error);
}

/* Fails if the authorizer hides a column of the statement of append_permitted. */
static int check_visible(const tsx_query *query, sqlite3_stmt *statement, tsr_error *error) {
  static const char *const slots[] = {"i0", "r0", "t0", "b0"};
  const tsx_table *table = query->table;
  int n = 0;
  for (; n < 4; n++) {
    const int visible = tsx_column_visible(statement, n, slots[n], error);
    if (visible < 0) return visible;
    if (!visible)
      return tsx_fail(error, TSR_AUTH, "the authorizer hides " TSX_ROWS_NAME ".%s, over which SQLite evaluates",
                      slots[n]);
  }
  for (uint32_t i = 0; i < table->column_count + table->label_count; i++) {
    if (!query->select.meaning.used[i]) continue;
    const int visible = tsx_column_visible(statement, n++, name_of_column(table, i), error);
    if (visible < 0) return visible;
    if (!visible)
      return tsx_fail(error, TSR_AUTH, "the authorizer hides %s.%s: only a view gives NULL for it", table->name,
                      name_of_column(table, i));
  }
  return TSR_OK;
}

int tsx_query_permitted(const tsx_query *query, tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  sqlite3_str *out = sqlite3_str_new(query->connection->db);
  append_permitted(query, out);
  char *text = sqlite3_str_finish(out);
  if (!text) return tsx_out_of_memory(error);
  int code = prepare_single(query->connection, text, &statement, error);
  sqlite3_free(text);
  if (code >= 0) code = check_visible(query, statement, error);
  sqlite3_finalize(statement);
  return code;
}

/* ---- Columns ----------------------------------------------------------------------------------------------------- */

bool tsx_type_has(const char *type, const char *word) {
  const int size = (int)strlen(word);
  for (; *type; type++)
    if (!sqlite3_strnicmp(type, word, size)) return true;
  return false;
}

/* Returns the affinity that SQLite derives from a non-empty declared type, as a short type name; "" for BLOB. */
static const char *affinity_of(const char *type) {
  return tsx_type_has(type, "INT")                                                                ? "INT"
         : tsx_type_has(type, "CHAR") || tsx_type_has(type, "CLOB") || tsx_type_has(type, "TEXT") ? "TEXT"
         : tsx_type_has(type, "BLOB")                                                             ? ""
         : tsx_type_has(type, "REAL") || tsx_type_has(type, "FLOA") || tsx_type_has(type, "DOUB") ? "REAL"
                                                                                                  : "NUM";
}

const char *tsx_query_declared(const tsx_query *query, const tsx_expr *tree) {
  tree = tsx_expr_meaning(tree);
  if (tree->kind == TSX_EXPR_NAME) return query->table->columns[tree->column].declared;
  if (tree->kind == TSX_EXPR_LABEL) return query->table->labels[tree->column].column.declared;
  if (tree->kind == TSX_EXPR_JOINED) {
    const char *type = query->select.joins[tree->join].columns[tree->column].declared;
    return *type ? affinity_of(type) : "";
  }
  return tree->kind == TSX_EXPR_CAST ? affinity_of(tree->name) : "";
}

/* Returns the column name that a view would have: a plain column is spelled as in its table. SQLite may have appended a
 * number to `name`, which is kept. The caller frees it. */
static char *spelled_name(const tsx_query *query, const tsx_item *item, const char *name) {
  const tsx_expr *tree = tsx_expr_likely(item->tree);
  const bool plain = !item->name && tree->column >= 0;
  const char *own = plain && tree->kind == TSX_EXPR_NAME    ? query->table->columns[tree->column].name
                    : plain && tree->kind == TSX_EXPR_LABEL ? query->table->labels[tree->column].name
                                                            : "";
  const size_t size = strlen(own);
  return sqlite3_strnicmp(own, name, (int)size) ? sqlite3_mprintf("%s", name)
                                                : sqlite3_mprintf("%s%s", own, name + size);
}

int tsx_query_declare(const tsx_query *query, char **declaration, tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  char *text = sqlite3_mprintf("SELECT * FROM (%s\n)", query->select.prepared);
  if (!text) return tsx_out_of_memory(error);
  const int code = prepare_single(query->connection, text, &statement, error);
  sqlite3_free(text);
  if (code < 0) return code;
  sqlite3_str *out = sqlite3_str_new(NULL);
  bool known = true;
  sqlite3_str_appendall(out, "CREATE TABLE x(");
  for (uint32_t i = 0; i < query->select.item_count; i++) {
    const char *name = sqlite3_column_name(statement, (int)i);
    char *spelled = name ? spelled_name(query, &query->select.items[i], name) : NULL;
    known &= spelled || (int)i >= sqlite3_column_count(statement);
    sqlite3_str_appendf(out, "%s\"%w\" %s", i ? ", " : "", spelled ? spelled : "",
                        tsx_query_declared(query, query->select.items[i].tree));
    sqlite3_free(spelled);
  }
  sqlite3_str_appendchar(out, 1, ')');
  const bool same = sqlite3_column_count(statement) == (int)query->select.item_count;
  sqlite3_finalize(statement);
  *declaration = sqlite3_str_finish(out);
  const bool complete = *declaration && known;
  if (complete && same) return TSR_OK;
  sqlite3_free(*declaration);
  *declaration = NULL;
  return complete ? tsx_fail(error, TSR_ERROR, "SQLite finds a different number of columns") : tsx_out_of_memory(error);
}

/* ---- Constants and values ---------------------------------------------------------------------------------------- */

/* Replaces aliases by the expressions that they stand for. */
static bool replace_aliases(void *argument, const tsx_expr *tree, sqlite3_str *out) {
  if (tree->kind != TSX_EXPR_NAME || !tree->alias) return false;
  tsx_words_append(out, tree->alias, replace_aliases, argument);
  return true;
}

static int evaluate_constant(const tsx_query *query, const char *before, const tsx_expr *tree, const char *behind,
                             sqlite3_value **value, tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  sqlite3_str *text = sqlite3_str_new(query->connection->db);
  sqlite3_str_appendall(text, before);
  tsx_words_append(text, tree, replace_aliases, NULL);
  sqlite3_str_appendall(text, behind);
  int code = tsx_rows_only(query->connection, text, NULL, &statement, error);
  if (code >= 0 && !(*value = sqlite3_value_dup(sqlite3_column_value(statement, 0)))) code = tsx_out_of_memory(error);
  sqlite3_finalize(statement);
  return code;
}

int tsx_query_constant(const tsx_query *query, const tsx_expr *tree, sqlite3_value **value, tsr_error *error) {
  return evaluate_constant(query, "SELECT (", tree, ")", value, error);
}

int tsx_query_percent(const tsx_query *query, const tsx_expr *tree, double *percent, tsr_error *error) {
  static const char wrong[] = "percentile needs a constant from 0 to 100: ";
  sqlite3_value *value = NULL;
  if (tree->field != TSX_FIELD_NONE) return tsx_expr_fail(&query->select, tree->begin, tree->end, wrong, "", error);
  TSX_TRY(tsx_query_constant(query, tree, &value, error));
  *percent = sqlite3_value_double(value);
  const int type = sqlite3_value_numeric_type(value);
  sqlite3_value_free(value);
  if ((type == SQLITE_INTEGER || type == SQLITE_FLOAT) && *percent >= 0 && *percent <= 100) return TSR_OK;
  return tsx_expr_fail(&query->select, tree->begin, tree->end, wrong, "", error);
}

int tsx_query_text(const tsx_query *query, const tsx_expr *tree, sqlite3_value **value, tsr_error *error) {
  return evaluate_constant(query, "SELECT CAST((", tree, ") AS TEXT)", value, error);
}

int tsx_query_value(sqlite3_value *from, tsr_value *value, tsr_error *error) {
  *value = (tsr_value){.type = TSR_VALUE_NULL};
  switch (sqlite3_value_type(from)) {
  case SQLITE_NULL: return TSR_OK;
  case SQLITE_INTEGER:
    value->type = TSR_VALUE_INTEGER;
    value->as.integer = sqlite3_value_int64(from);
    return TSR_OK;
  case SQLITE_FLOAT:
    value->type = TSR_VALUE_REAL;
    value->as.real = sqlite3_value_double(from);
    return TSR_OK;
  case SQLITE_TEXT:
    value->type = TSR_VALUE_TEXT;
    value->as.text.bytes = (const char *)sqlite3_value_text(from);
    value->as.text.size = (uint64_t)sqlite3_value_bytes(from);
    return value->as.text.bytes ? TSR_OK : tsx_out_of_memory(error);
  default: value->type = TSR_VALUE_OPAQUE; return TSR_OK;
  }
}

int tsx_query_copy(tsx_query *query, sqlite3_value *value, tsr_value *copy, tsr_error *error) {
  TSX_TRY(tsx_query_value(value, copy, error));
  if (copy->type == TSR_VALUE_OPAQUE) return tsx_fail(error, TSR_MISMATCH, "a blob");
  if (copy->type != TSR_VALUE_TEXT) return TSR_OK;
  copy->as.text.bytes = tsx_arena_copy(&query->select.arena, copy->as.text.bytes, copy->as.text.size);
  return copy->as.text.bytes ? TSR_OK : tsx_out_of_memory(error);
}
