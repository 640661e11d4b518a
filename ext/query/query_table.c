/* query_table.c: the virtual table module tessera_query: CREATE VIRTUAL TABLE q USING tessera_query(SELECT ...).
 *
 * The shadow table NAME_config keeps the column declaration made at CREATE, so that a table whose array is missing
 * still connects and can be dropped. The table keeps the compiled query for the next statements, and compiles it again
 * when arrays or tables have changed; if its columns have changed, the scan fails.
 *
 * xBestIndex collects the outer statement's constraints that can be pushed down into a plan. idxNum is the number of
 * the plan in the table's list; idxStr describes for EXPLAIN QUERY PLAN what is evaluated where.
 *
 * As the inner loop of a join, a cursor is restarted for each outer row. The first KEEP_AFTER scans (one, without
 * constraints) evaluate just what their constraints leave. Then all groups are evaluated once and kept, and later scans
 * look them up by the items that are compared with =.
 *
 * A part of a statement (tsx_query_part) is such a table without a CREATE: ext/front has registered it on the
 * connection, with its text and its columns. It must give the rows that SQLite gives for the text. So a part that fails
 * before its first row is evaluated by rows: SQLite runs the text itself.
 *
 * Sections: arguments, life cycle, plans, rows by SQLite, scans, parts, for other modules. */
#include "query/query_table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/registry.h"
#include "sql/dialects.h"
#include "sql/options.h"
#include "sql/statement.h"
#include "query/query_internal.h"
#include "values/compare.h"

#define TERMS_MAX         16
#define QUERY_OMITTED_MAX 16 /* SQLite honours `omit` only for so many constraints */
#define COUNT_EVERY       256 /* rows */
#define KEEP_AFTER        32 /* constrained scans of a cursor, as for an IN list, before all groups are evaluated */
#define KEEP_SHARE        4 /* the row cache uses at most 1 / KEEP_SHARE of memory_mb */
#define KEEP_MEMORY       (UINT64_C(1) << 30) /* the default of memory_mb */

typedef struct query_term {
  uint32_t item;
  int op;
  bool in, decides; /* as in tsx_outer_constraint */
} query_term;

typedef struct outer_plan {
  uint32_t count;
  query_term terms[TERMS_MAX];
} outer_plan;

typedef struct tsx_query_table {
  sqlite3_vtab base;
  struct tsx_query_table *next; /* of the connection */
  tsx_connection *connection;
  char *schema_name, *name;
  char *text; /* the SELECT */
  tsx_compiled *compiled; /* of `text`, or NULL */
  char *declaration;
  uint64_t memory_bytes;
  unsigned threads;
  outer_plan *plans;
  int plan_count;
  tsx_registered *part; /* NULL: made by CREATE */
} tsx_query_table;

typedef struct query_cursor {
  sqlite3_vtab_cursor base;
  tsx_query query;
  tsx_run *run;
  bool done, checked;
  uint64_t uncounted; /* rows not yet added to rows_returned */
  uint32_t scans; /* how often the cursor was started */
  bool cannot_keep; /* not a query of groups, or the groups need too much memory */
  tsx_row_cache *kept; /* all groups, or NULL */
  int kept_number; /* the plan whose terms index `kept` */
  bool walks; /* the current scan walks over `kept` */
  sqlite3_stmt *by_rows; /* of a part: SQLite gives the rows; or NULL */
  int64_t row; /* of by_rows, from 1 */
} query_cursor;

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static bool begins_select(const char *text) {
  return !sqlite3_strnicmp(text, "SELECT", 6) && !isalnum((unsigned char)text[6]) && text[6] != '_';
}

enum { QUERY_OPTION_memory_mb, QUERY_OPTION_threads };

/* Reads an argument name=value before the SELECT. Bit i of *seen is set if option i has occurred. Returns 1 for an
 * option, 0 if the argument has another form, < 0 on error. */
static int read_option(tsx_query_table *table, const char *text, uint64_t *seen, tsr_error *error) {
  static const tsx_option_spec specs[] = {
      [QUERY_OPTION_memory_mb] = TSX_SPEC_MEMORY_MB, [QUERY_OPTION_threads] = TSX_SPEC_THREADS};
  static const tsx_option_list list = TSX_OPTION_LIST(specs);
  size_t size = 0;
  while (isalnum((unsigned char)text[size]) || text[size] == '_') size++;
  const char *at = text + size;
  while (isspace((unsigned char)*at)) at++;
  if (!size || *at++ != '=') return 0;
  while (isspace((unsigned char)*at)) at++;
  tsx_option_value value;
  unsigned option;
  if (tsx_option_find(&list, text, size, true, seen, &option, error) < 0 ||
      tsx_option_of_text(&specs[option], at, &value, error) < 0)
    return tsx_fail_in("tessera_query", error);
  if (option == QUERY_OPTION_threads) table->threads = (unsigned)value.whole;
  else table->memory_bytes = (uint64_t)value.whole << 20;
  return 1;
}

static int query_arguments(tsx_query_table *table, int count, const char *const *arguments, tsr_error *error) {
  uint64_t seen = 0;
  int i = 3;
  for (; i < count && !begins_select(arguments[i]); i++) {
    const int known = read_option(table, arguments[i], &seen, error);
    if (known < 0) return known;
    if (known) continue;
    return tsx_fail(error, TSR_ERROR, "tessera_query: expected a SELECT, not '%.*s'",
                    (int)strcspn(arguments[i], " \t\r\n"), arguments[i]);
  }
  if (i >= count) return tsx_fail(error, TSR_ERROR, "tessera_query: expected a SELECT");
  sqlite3_str *out = sqlite3_str_new(NULL);
  for (int first = i; i < count; i++) sqlite3_str_appendf(out, "%s%s", i > first ? ", " : "", arguments[i]);
  table->text = sqlite3_str_finish(out);
  return table->text ? TSR_OK : tsx_out_of_memory(error);
}

/* ---- Life cycle -------------------------------------------------------------------------------------------------- */

static int query_disconnect(sqlite3_vtab *vtab) {
  tsx_query_table *table = (tsx_query_table *)vtab, **link = &table->connection->tables.queries;
  while (*link && *link != table) link = &(*link)->next;
  if (*link) *link = table->next;
  tsx_compiled_drop(table->compiled);
  tsx_connection_remove_table(table->connection);
  tsx_connection_drop(table->connection);
  sqlite3_free(table->schema_name);
  sqlite3_free(table->name);
  sqlite3_free(table->text);
  sqlite3_free(table->declaration);
  sqlite3_free(table->plans);
  sqlite3_free(table->base.zErrMsg);
  sqlite3_free(table);
  return SQLITE_OK;
}

static int query_make(tsx_connection *connection, int count, const char *const *arguments, tsx_query_table **out,
                      tsr_error *error) {
  tsx_query_table *table = sqlite3_malloc64(sizeof *table);
  if (!table) return tsx_out_of_memory(error);
  memset(table, 0, sizeof *table);
  table->connection = connection;
  tsx_connection_hold(connection);
  tsx_connection_add_table(connection);
  table->schema_name = sqlite3_mprintf("%s", arguments[1]);
  table->name = sqlite3_mprintf("%s", arguments[2]);
  const int code =
      table->schema_name && table->name ? query_arguments(table, count, arguments, error) : tsx_out_of_memory(error);
  if (code < 0) {
    query_disconnect(&table->base);
    return code;
  }
  table->next = connection->tables.queries;
  connection->tables.queries = table;
  *out = table;
  return TSR_OK;
}

static int query_fail(tsx_query_table *table, const tsr_error *error, char **message) {
  const bool own = !table || table->part || !strncmp(error->message, "tessera_query: ", 15) || error->code == TSR_NOMEM;
  *message = own ? sqlite3_mprintf("%s", error->message) : sqlite3_mprintf("%s: %s", table->name, error->message);
  if (table) query_disconnect(&table->base);
  return tsx_sqlite_code(error->code);
}

static int query_declare(tsx_query_table *table, char **message) {
  sqlite3 *db = table->connection->db;
  int code = tsx_declare(db, table->declaration);
#ifdef SQLITE_VTAB_USES_ALL_SCHEMAS
  if (code == SQLITE_OK && sqlite3_libversion_number() >= 3041000)
    code = sqlite3_vtab_config(db, SQLITE_VTAB_USES_ALL_SCHEMAS);
#endif
  if (code != SQLITE_OK) *message = sqlite3_mprintf("%s", sqlite3_errmsg(db));
  return code;
}

static int query_create(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                        char **message) {
  tsr_error error = {0};
  tsx_query_table *table = NULL;
  tsx_query query = {0};
  if (query_make(argument, count, arguments, &table, &error) < 0) return query_fail(NULL, &error, message);
  int code = tsx_query_compile(argument, table->schema_name, table->text, &query, &error);
  if (code >= 0) code = tsx_query_declare(&query, &table->declaration, &error);
  if (code >= 0) code = tsx_run_check(&query, &error);
  tsx_query_release(&query);
  if (code == TSR_ERROR) tsx_dialect_explain(table->text, &error);
  if (code < 0) return query_fail(table, &error, message);
  code = query_declare(table, message);
  /* the table may be there, with what it held before */
  const bool adopts =
      table->connection->database_arrays.adopts || tsx_leftover_is(table->connection, table->schema_name, table->name);
  if (code == SQLITE_OK)
    code = tsx_sql_run(db,
                       sqlite3_mprintf("CREATE TABLE %s\"%w\".\"%w_config\"(key TEXT PRIMARY KEY, value) WITHOUT ROWID",
                                       adopts ? "IF NOT EXISTS " : "", table->schema_name, table->name),
                       message);
  if (code == SQLITE_OK)
    code = tsx_sql_run(db,
                       sqlite3_mprintf("REPLACE INTO \"%w\".\"%w_config\" VALUES('declaration', %Q)",
                                       table->schema_name, table->name, table->declaration),
                       message);
  if (code == SQLITE_OK) *vtab = &table->base;
  else query_disconnect(&table->base);
  return code;
}

/* Reads the declaration that CREATE stored. */
static int query_recall(tsx_query_table *table) {
  sqlite3_stmt *statement = NULL;
  char *sql = sqlite3_mprintf("SELECT value FROM \"%w\".\"%w_config\" WHERE key = 'declaration'", table->schema_name,
                              table->name);
  int code = tsx_sql_first(table->connection->db, sql, &statement);
  if (code == SQLITE_ROW && sqlite3_column_type(statement, 0) == SQLITE_TEXT) {
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    table->declaration = text ? sqlite3_mprintf("%s", text) : NULL;
    if (!table->declaration) code = SQLITE_NOMEM;
  }
  sqlite3_finalize(statement);
  return code == SQLITE_ROW || code == SQLITE_DONE || code == SQLITE_ERROR ? SQLITE_OK : code;
}

static int query_connect(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                         char **message) {
  tsr_error error = {0};
  tsx_query_table *table = NULL;
  if (query_make(argument, count, arguments, &table, &error) < 0) return query_fail(NULL, &error, message);
  int code = query_recall(table);
  if (code != SQLITE_OK) *message = sqlite3_mprintf("%s", sqlite3_errmsg(db));
  int declared = SQLITE_ERROR;
  if (code == SQLITE_OK && table->declaration) declared = query_declare(table, message);
  if (declared != SQLITE_OK && declared != SQLITE_ERROR) code = declared;
  if (code == SQLITE_OK && declared != SQLITE_OK) {
    sqlite3_free(*message); /* NAME_config has no valid declaration: connect, so that DROP works */
    *message = NULL;
    sqlite3_free(table->declaration);
    table->declaration = sqlite3_mprintf("CREATE TABLE x(column)");
    code = table->declaration ? query_declare(table, message) : SQLITE_NOMEM;
  }
  if (code == SQLITE_OK) *vtab = &table->base;
  else query_disconnect(&table->base);
  return code;
}

static int query_destroy(sqlite3_vtab *vtab) {
  const tsx_query_table *table = (const tsx_query_table *)vtab;
  sqlite3 *db = table->connection->db;
  if (table->connection->database_arrays.keeps) return query_disconnect(vtab);
  const int code = tsx_sql_run(
      db, sqlite3_mprintf("DROP TABLE IF EXISTS \"%w\".\"%w_config\"", table->schema_name, table->name), NULL);
  if (code != SQLITE_OK) return tsx_vtab_fail(vtab, code, "%s", sqlite3_errmsg(db));
  return query_disconnect(vtab);
}

static int query_rename(sqlite3_vtab *vtab, const char *name) {
  tsx_query_table *table = (tsx_query_table *)vtab;
  sqlite3 *db = table->connection->db;
  char *copy = sqlite3_mprintf("%s", name);
  const int code = copy ? tsx_sql_run(db,
                                      sqlite3_mprintf("ALTER TABLE \"%w\".\"%w_config\" RENAME TO \"%w_config\"",
                                                      table->schema_name, table->name, name),
                                      NULL)
                        : SQLITE_NOMEM;
  if (code != SQLITE_OK) {
    sqlite3_free(copy);
    return code == SQLITE_NOMEM ? code : tsx_vtab_fail(vtab, code, "%s", sqlite3_errmsg(db));
  }
  sqlite3_free(table->name);
  table->name = copy;
  return SQLITE_OK;
}

static int query_shadow(const char *suffix) { return !sqlite3_stricmp(suffix, "config"); }

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

static int table_error(tsx_query_table *table, const tsr_error *error) {
  if (error->code == TSR_NOMEM || error->code == TSR_INTERRUPT) return tsx_vtab_error(&table->base, error);
  return tsx_vtab_fail(&table->base, tsx_sqlite_code(error->code), "%s: %s", table->name, error->message);
}

/* Returns the number of a plan, adding it if it is new; -1 if memory is exhausted. */
static int plan_number(tsx_query_table *table, const outer_plan *plan) {
  for (int i = 0; i < table->plan_count; i++)
    if (!memcmp(&table->plans[i], plan, sizeof *plan)) return i;
  outer_plan *more = sqlite3_realloc64(table->plans, ((uint64_t)table->plan_count + 1) * sizeof *more);
  if (!more) return -1;
  table->plans = more;
  more[table->plan_count] = *plan;
  return table->plan_count++;
}

static const char *explain_op(int op) {
  return op == SQLITE_INDEX_CONSTRAINT_GT   ? ">?"
         : op == SQLITE_INDEX_CONSTRAINT_GE ? ">=?"
         : op == SQLITE_INDEX_CONSTRAINT_LT ? "<?"
         : op == SQLITE_INDEX_CONSTRAINT_LE ? "<=?"
         : op == SQLITE_INDEX_CONSTRAINT_IS ? " IS ?"
                                            : "=?";
}

static void explain_item(sqlite3_str *out, const tsx_item *item) {
  if (item->name) sqlite3_str_appendall(out, item->name);
  else if (item->tree->kind == TSX_EXPR_NAME) sqlite3_str_appendall(out, item->tree->name);
  else sqlite3_str_append(out, item->tree->begin, (int)(item->tree->end - item->tree->begin));
}

static void explain_terms(sqlite3_str *out, const outer_plan *plan, const tsx_select *s) {
  for (uint32_t i = 0; i < plan->count; i++) {
    if (i) sqlite3_str_appendall(out, " AND ");
    explain_item(out, &s->items[plan->terms[i].item]);
    sqlite3_str_appendall(out, plan->terms[i].in ? " IN ?" : explain_op(plan->terms[i].op));
  }
  if (plan->count) sqlite3_str_appendall(out, "; ");
}

static char *explain(const outer_plan *plan, const tsx_query *query) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  explain_terms(out, plan, &query->select);
  tsx_explain_append(out, query);
  return sqlite3_str_finish(out);
}

static bool may_use(const struct sqlite3_index_constraint *c) {
  return c->usable && c->iColumn >= 0 &&
         (c->op == SQLITE_INDEX_CONSTRAINT_EQ || c->op == SQLITE_INDEX_CONSTRAINT_GT ||
          c->op == SQLITE_INDEX_CONSTRAINT_GE || c->op == SQLITE_INDEX_CONSTRAINT_LT ||
          c->op == SQLITE_INDEX_CONSTRAINT_LE || c->op == SQLITE_INDEX_CONSTRAINT_IS);
}

/* Makes a constraint the next term of a plan, if it can drop rows. SQLite lets the table alone decide only the first
 * QUERY_OMITTED_MAX constraints. An IN is used as a whole list, to whose values SQLite has applied their affinity. */
static void use_constraint(outer_plan *plan, sqlite3_index_info *info, int i, const tsx_query *query) {
  const struct sqlite3_index_constraint *c = &info->aConstraint[i];
  const uint32_t item = (uint32_t)c->iColumn;
  sqlite3_value *right = NULL;
  if (!may_use(c) || item >= query->select.item_count) return;
  if (sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY") != 0) return;
  const bool in = c->op == SQLITE_INDEX_CONSTRAINT_EQ && sqlite3_vtab_in(info, i, -1);
  if (!in && sqlite3_vtab_rhs_value(info, i, &right) != SQLITE_OK) right = NULL;
  const bool decides = i < QUERY_OMITTED_MAX && tsx_pushdown_decides(query, item, c->op, in, right);
  if (!decides && !tsx_pushdown_takes(query, item)) return;
  if (in) sqlite3_vtab_in(info, i, 1);
  query_term *term = &plan->terms[plan->count++]; /* plan_number compares bytes, so padding must stay 0 */
  term->item = item;
  term->op = c->op;
  term->in = in;
  term->decides = decides;
  info->aConstraintUsage[i].argvIndex = (int)plan->count;
  info->aConstraintUsage[i].omit = decides;
}

static int query_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  tsx_query_table *table = (tsx_query_table *)vtab;
  tsr_error error = {0};
  tsx_query query;
  outer_plan plan;
  memset(&plan, 0, sizeof plan);
  const int code =
      tsx_query_compile_kept(table->connection, table->schema_name, table->text, &table->compiled, &query, &error);
  const bool compiled = code >= 0; /* if not, xFilter reports why */
  for (int i = 0; i < info->nConstraint && compiled && plan.count < TERMS_MAX; i++)
    use_constraint(&plan, info, i, &query);
  info->idxStr = compiled ? explain(&plan, &query) : sqlite3_mprintf("");
  info->needToFreeIdxStr = 1;
  info->idxNum = plan_number(table, &plan);
  const bool many = compiled && !query.over_groups;
  info->estimatedRows = many ? 1000000 : 1000;
  /* A query over cells hashes every row for its rowid, so OR should not become several scans: two must cost more than
   * one full scan. Groups are kept for the scans of an inner loop, which therefore cost little. */
  info->estimatedCost = (many ? 1e6 : 1e3) * (plan.count ? 0.9 : 1);
  tsx_query_release(&query);
  return info->idxStr && info->idxNum >= 0 ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---- Rows by SQLite ---------------------------------------------------------------------------------------------- */

/* Returns true if a part that failed with this code before its first row may be evaluated by rows: the data are sound,
 * and nobody has asked to stop. */
static bool rows_may_do(int code) {
  static const int codes[] = {TSR_RANGE, TSR_TOOBIG,   TSR_BUDGET,     TSR_NOMEM,      TSR_ERROR,
                              TSR_AUTH,  TSR_MISMATCH, TSR_CONSTRAINT, TSR_UNSUPPORTED};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i] == code) return true;
  return false;
}

/* Appends the text up to a source that is a path, and in its place the table of the path that has the query's
 * limits. */
static void rows_source(const tsx_query *query, sqlite3_str *out, const char **from, const tsx_source *source) {
  const tsx_option_limits limits = {.memory_bytes = query->memory_bytes, .threads = query->threads};
  const char *table = source->table;
  tsr_error ignored = {0};
  if (!source->path || source->begin < *from) return;
  if ((limits.memory_bytes || limits.threads) &&
      tsx_path_table(query->connection, "temp", source->path, &limits, &table, &ignored) <= 0)
    table = source->table;
  sqlite3_str_appendf(out, "%.*s\"%w\"", (int)(source->begin - *from), *from, table);
  *from = source->end;
  if (source->alias != source->path) return; /* it has an alias of its own */
  const char *end = source->times_end ? source->times_end : source->end;
  sqlite3_str_appendf(out, "%.*s AS \"%w\"", (int)(end - *from), *from, source->path);
  *from = end;
}

/* Returns the text of a query as SQLite can prepare it: paths in FROM are tables. */
static char *rows_text(const tsx_query *query, const char *text) {
  const tsx_select *s = &query->select;
  const char *from = s->text;
  if (!from) return sqlite3_mprintf("%s", text);
  sqlite3_str *out = sqlite3_str_new(NULL);
  rows_source(query, out, &from, &s->source);
  const uint32_t join_count = s->around ? s->around->join_count : s->join_count;
  for (uint32_t j = 0; j < join_count; j++) rows_source(query, out, &from, &s->joins[j].source);
  sqlite3_str_appendall(out, from);
  return sqlite3_str_finish(out);
}

static const char *rows_operator(int op) {
  switch (tsx_op_of(op)) {
  case TSX_EQ: return "=";
  case TSX_NE: return "<>";
  case TSX_LT: return "<";
  case TSX_LE: return "<=";
  case TSX_GT: return ">";
  case TSX_GE: return ">=";
  case TSX_IS: return "IS";
  case TSX_ISNOT: return "IS NOT";
  default: return NULL;
  }
}

/* Writes a constraint, and binds its values if there is a statement. */
static int rows_constraint(const tsx_outer_constraint *outer, sqlite3_str *out, sqlite3_stmt *rows, int *parameters) {
  if (!outer->in) {
    sqlite3_str_appendf(out, "c%u %s ?", outer->item, rows_operator(outer->op));
    return rows ? sqlite3_bind_value(rows, ++*parameters, outer->value) : SQLITE_OK;
  }
  sqlite3_value *member = NULL;
  sqlite3_str_appendf(out, "c%u IN (", outer->item);
  int count = 0, code = sqlite3_vtab_in_first(outer->value, &member);
  for (; code == SQLITE_OK && member; code = sqlite3_vtab_in_next(outer->value, &member)) {
    sqlite3_str_appendall(out, count++ ? ", ?" : "?");
    if (rows && (code = sqlite3_bind_value(rows, ++*parameters, member)) != SQLITE_OK) return code;
  }
  sqlite3_str_appendchar(out, 1, ')');
  return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Writes the conditions that SQLite leaves to the part; the table of the array then decides them, as it would without
 * the part. */
static int rows_constraints(const tsx_outer_constraint *outer, uint32_t count, sqlite3_str *out, sqlite3_stmt *rows) {
  int parameters = 0, terms = 0, code = SQLITE_OK;
  for (uint32_t i = 0; i < count && code == SQLITE_OK; i++) {
    if (!outer[i].decides) continue;
    if (!outer[i].in && !rows_operator(outer[i].op)) return SQLITE_MISUSE;
    sqlite3_str_appendall(out, terms++ ? " AND " : " WHERE ");
    code = rows_constraint(&outer[i], out, rows, &parameters);
  }
  return code;
}

/* Prepares the text of a part with the constraints that it decides. Returns NULL if that fails. */
static sqlite3_stmt *rows_prepare(const tsx_query_table *table, const char *text, uint32_t columns,
                                  const tsx_outer_constraint *outer, uint32_t count) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  bool decides = false;
  for (uint32_t i = 0; i < count; i++) decides |= outer[i].decides;
  sqlite3_str_appendall(out, decides ? "WITH tessera_rows(" : "");
  for (uint32_t i = 0; i < columns && decides; i++) sqlite3_str_appendf(out, i ? ", c%u" : "c%u", i);
  sqlite3_str_appendf(out, decides ? ") AS (%s\n) SELECT * FROM tessera_rows" : "%s", text);
  int code = rows_constraints(outer, count, out, NULL);
  char *sql = sqlite3_str_finish(out);
  sqlite3_stmt *rows = NULL;
  if (code == SQLITE_OK) code = tsx_sql_prepare(table->connection->db, sql, &rows);
  else sqlite3_free(sql);
  if (code == SQLITE_OK && rows && decides) {
    sqlite3_str *again = sqlite3_str_new(NULL);
    code = rows_constraints(outer, count, again, rows);
    sqlite3_free(sqlite3_str_finish(again));
  }
  if (code == SQLITE_OK) return rows;
  sqlite3_finalize(rows);
  return NULL;
}

/* Lets SQLite evaluate the text of a part that has failed with error->code before its first row. Returns that code if
 * the columns may have changed; else TSR_OK. */
static int rows_begin(const tsx_query_table *table, query_cursor *c, const char *text, uint32_t columns,
                      const tsx_outer_constraint *outer, uint32_t count, const tsr_error *error) {
  const bool may = text && c->checked && rows_may_do(error->code);
  sqlite3_stmt *rows = may ? rows_prepare(table, text, columns, outer, count) : NULL;
  if (!rows) return error->code;
  c->by_rows = rows;
  c->row = 0;
  tsr_environment_count_part(table->connection->environment, false);
  return TSR_OK;
}

static int rows_step(const tsx_query_table *table, query_cursor *c, tsr_error *error) {
  c->row++;
  return tsx_rows_step(table->connection, c->by_rows, error);
}

/* ---- Scans ------------------------------------------------------------------------------------------------------- */

static int query_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  const tsx_query_table *table = (const tsx_query_table *)vtab;
  query_cursor *c = sqlite3_malloc64(sizeof *c);
  if (!c) return SQLITE_NOMEM;
  memset(c, 0, sizeof *c);
  c->done = true;
  if (table->part) table->part->cursors++;
  tsx_connection_add_cursor(table->connection);
  *out = &c->base;
  return SQLITE_OK;
}

/* Adds the uncounted rows to rows_returned. */
static void query_count(query_cursor *c) {
  const tsx_query_table *table = (const tsx_query_table *)c->base.pVtab;
  if (c->uncounted) tsr_environment_count_rows(table->connection->environment, c->uncounted);
  c->uncounted = 0;
}

static void query_clear(query_cursor *c) {
  tsx_tables *tables = &((const tsx_query_table *)c->base.pVtab)->connection->tables;
  if (tables->query_scan == c) tables->query_scan = NULL;
  query_count(c);
  sqlite3_finalize(c->by_rows);
  c->by_rows = NULL;
  tsx_run_close(c->run);
  c->run = NULL;
  tsx_query_release(&c->query);
  c->done = true;
  c->walks = false;
}

static int query_close(sqlite3_vtab_cursor *cursor) {
  query_cursor *c = (query_cursor *)cursor;
  query_clear(c);
  tsx_row_cache_free(c->kept);
  const tsx_query_table *table = (const tsx_query_table *)cursor->pVtab;
  if (table->part) table->part->cursors--;
  tsx_connection_remove_cursor(table->connection);
  sqlite3_free(c);
  return SQLITE_OK;
}

/* Moves to the next row. Returns 1 with a row, 0 at the end, < 0 on error. */
static int query_step(query_cursor *c, tsr_error *error) {
  const tsx_query_table *table = (const tsx_query_table *)c->base.pVtab;
  const int code = c->walks     ? tsx_row_cache_next(c->kept)
                   : c->by_rows ? rows_step(table, c, error)
                                : tsx_run_next(c->run, error);
  c->done = code <= 0;
  if (code > 0) c->uncounted++;
  if (c->done || c->uncounted == COUNT_EVERY) query_count(c);
  return code;
}

static int query_next(sqlite3_vtab_cursor *cursor) {
  tsr_error error;
  tsx_error_init(&error);
  return query_step((query_cursor *)cursor, &error) < 0 ? table_error((tsx_query_table *)cursor->pVtab, &error)
                                                        : SQLITE_OK;
}

/* Checks, once per cursor and compilation, that the columns are still as declared. */
static int query_check(const tsx_query_table *table, query_cursor *c, tsr_error *error) {
  char *now = NULL;
  c->checked |= tsx_query_is_as_declared(&c->query);
  if (c->checked) return TSR_OK;
  TSX_TRY(tsx_query_declare(&c->query, &now, error));
  c->checked = !strcmp(now, table->declaration);
  sqlite3_free(now);
  if (c->checked) tsx_query_set_as_declared(&c->query);
  if (c->checked) return TSR_OK;
  const char *source = c->query.select.source.table;
  if (table->part)
    return tsx_fail(error, TSR_ERROR, "the columns of %s have changed: rewrite the statement again", source);
  return tsx_fail(error, TSR_ERROR, "%s has changed: DROP TABLE %s and create it again", source, table->name);
}

static int query_compile(tsx_query_table *table, query_cursor *c, tsr_error *error) {
  const int code =
      tsx_query_compile_kept(table->connection, table->schema_name, table->text, &table->compiled, &c->query, error);
  c->query.exact = table->part != NULL;
  c->query.memory_bytes = table->memory_bytes;
  c->query.threads = table->threads;
  if (code < 0) return code;
  return query_check(table, c, error);
}

static bool term_is_equal(const query_term *term) {
  return !term->in && (term->op == SQLITE_INDEX_CONSTRAINT_EQ || term->op == SQLITE_INDEX_CONSTRAINT_IS);
}

/* Runs the query into c->kept. Returns 1; 0 if its rows are no groups, or cannot be kept. */
static int query_cache(tsx_query_table *table, query_cursor *c, const uint32_t *indexed, uint32_t count, uint64_t limit,
                       tsr_error *error) {
  TSX_TRY(query_compile(table, c, error));
  if (!c->query.over_groups) return 0;
  TSX_TRY(tsx_run_open(&c->query, NULL, 0, &c->run, error));
  return tsx_row_cache_make(c->run, c->query.select.item_count, indexed, count, limit, &c->kept, error);
}

/* Evaluates and keeps all groups, indexed by the items that the plan compares with =. If they do not fit into memory,
 * the cursor goes on without. */
static int query_keep(tsx_query_table *table, query_cursor *c, int number, tsr_error *error) {
  const uint64_t memory = table->memory_bytes ? table->memory_bytes : KEEP_MEMORY;
  const outer_plan *plan = &table->plans[number];
  uint32_t indexed[TERMS_MAX], count = 0;
  for (uint32_t i = 0; i < plan->count; i++)
    if (term_is_equal(&plan->terms[i])) indexed[count++] = plan->terms[i].item;
  c->cannot_keep = true;
  const int kept = query_cache(table, c, indexed, count, memory / KEEP_SHARE, error);
  query_clear(c);
  c->cannot_keep = kept <= 0;
  c->kept_number = number;
  if (kept > 0) return TSR_OK;
  tsx_row_cache_free(c->kept);
  c->kept = NULL;
  return kept == TSR_TOOBIG || kept == TSR_BUDGET ? TSR_OK : kept;
}

/* Starts a walk over the kept groups. */
static void query_walk(const tsx_query_table *table, query_cursor *c, int number, sqlite3_value **values) {
  const outer_plan *plan = &table->plans[number];
  sqlite3_value *sought[TERMS_MAX];
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan->count; i++)
    if (term_is_equal(&plan->terms[i])) sought[count++] = values[i];
  tsx_row_cache_find(c->kept, number == c->kept_number && count ? sought : NULL);
  c->walks = true;
}

/* Evaluates the query up to its first row. Returns 1 with a row, 0 if there is none, < 0 on error. */
static int query_begin(tsx_query_table *table, query_cursor *c, tsx_outer_constraint *outer, uint32_t count,
                       tsr_error *error) {
  TSX_TRY(query_compile(table, c, error));
  for (uint32_t i = 0; i < count; i++)
    if (!outer[i].decides && !tsx_pushdown_takes(&c->query, outer[i].item))
      return tsx_fail(error, TSR_ERROR, "the plan does not fit");
  TSX_TRY(tsx_run_open(&c->query, outer, count, &c->run, error));
  TSX_TRY(query_step(c, error));
  if (table->part) tsr_environment_count_part(table->connection->environment, true);
  return TSR_OK;
}

static int query_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int count, sqlite3_value **values) {
  query_cursor *c = (query_cursor *)cursor;
  tsx_query_table *table = (tsx_query_table *)cursor->pVtab;
  tsr_error error = {0};
  tsx_outer_constraint outer[TERMS_MAX];
  (void)text;
  query_clear(c);
  const outer_plan *plan = number >= 0 && number < table->plan_count ? &table->plans[number] : NULL;
  for (int i = 0; i < count && i < TERMS_MAX && plan; i++)
    outer[i] = (tsx_outer_constraint){.item = plan->terms[i].item,
                                      .op = plan->terms[i].op,
                                      .in = plan->terms[i].in,
                                      .decides = plan->terms[i].decides,
                                      .value = values[i]};
  int code = TSR_OK;
  if (plan && !c->kept && !c->cannot_keep && c->scans++ >= (plan->count ? KEEP_AFTER : 1))
    code = query_keep(table, c, number, &error);
  if (code >= 0 && plan && c->kept) {
    query_walk(table, c, number, values);
    return query_next(cursor);
  }
  const uint32_t used = plan ? (uint32_t)count : 0;
  if (code >= 0) code = query_begin(table, c, outer, used, &error);
  if (code < 0) {
    char *select = table->part ? rows_text(&c->query, table->text) : NULL;
    const uint32_t columns = c->query.select.item_count;
    query_clear(c);
    code = rows_begin(table, c, select, columns, outer, used, &error);
    sqlite3_free(select);
    if (code >= 0) code = query_step(c, &error);
  }
  if (code >= 0) table->connection->tables.query_scan = c;
  return code < 0 ? table_error(table, &error) : SQLITE_OK;
}

static int query_eof(sqlite3_vtab_cursor *cursor) { return ((query_cursor *)cursor)->done; }

static int query_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column) {
  const query_cursor *c = (const query_cursor *)cursor;
  tsr_error error;
  tsx_error_init(&error);
  if (c->walks) {
    tsx_row_cache_column(c->kept, context, (uint32_t)column);
    return SQLITE_OK;
  }
  if (c->by_rows) {
    sqlite3_result_value(context, sqlite3_column_value(c->by_rows, column));
    return SQLITE_OK;
  }
  const int code = tsx_run_column(c->run, context, (uint32_t)column, &error);
  return code < 0 ? table_error((tsx_query_table *)cursor->pVtab, &error) : SQLITE_OK;
}

static int query_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid) {
  const query_cursor *c = (const query_cursor *)cursor;
  tsr_error error;
  int64_t number;
  tsx_error_init(&error);
  if (c->by_rows) number = c->row;
  else if (c->walks) number = tsx_row_cache_rowid(c->kept);
  else if (tsx_run_rowid(c->run, &number, &error) < 0) return table_error((tsx_query_table *)cursor->pVtab, &error);
  *rowid = number;
  return SQLITE_OK;
}

static const sqlite3_module query_module = {.iVersion = 3,
                                            .xCreate = query_create,
                                            .xConnect = query_connect,
                                            .xBestIndex = query_best_index,
                                            .xDisconnect = query_disconnect,
                                            .xDestroy = query_destroy,
                                            .xOpen = query_open,
                                            .xClose = query_close,
                                            .xFilter = query_filter,
                                            .xNext = query_next,
                                            .xEof = query_eof,
                                            .xColumn = query_column,
                                            .xRowid = query_rowid,
                                            .xRename = query_rename,
                                            .xShadowName = query_shadow};

/* ---- Parts of statements ----------------------------------------------------------------------------------------- */

/* The shape of a part is its limits and its declaration: "BYTES THREADS CREATE TABLE ...". */
static char *part_shape(const tsx_query *query, const char *declaration) {
  return sqlite3_mprintf("%llu %u %s", (unsigned long long)query->memory_bytes, query->threads, declaration);
}

static const char *part_limits(const char *shape, uint64_t *memory_bytes, unsigned *threads) {
  char *end;
  *memory_bytes = strtoull(shape, &end, 10);
  *threads = (unsigned)strtoul(end, &end, 10);
  return end + 1;
}

static int part_connect(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                        char **message) {
  tsx_registered *part = argument;
  tsx_query_table *table = sqlite3_malloc64(sizeof *table);
  (void)db, (void)count, (void)arguments;
  if (!table) return SQLITE_NOMEM;
  memset(table, 0, sizeof *table);
  table->connection = part->connection;
  tsx_connection_hold(table->connection);
  tsx_connection_add_table(table->connection);
  table->schema_name = sqlite3_mprintf("temp"); /* its names are looked for in all databases */
  table->name = sqlite3_mprintf("tessera_sql");
  table->text = sqlite3_mprintf("%s", part->text);
  table->declaration = sqlite3_mprintf("%s", part_limits(part->shape, &table->memory_bytes, &table->threads));
  const bool made = table->schema_name && table->name && table->text && table->declaration;
  const int code = made ? query_declare(table, message) : SQLITE_NOMEM;
  if (code != SQLITE_OK) {
    query_disconnect(&table->base);
    return code;
  }
  table->part = part;
  *vtab = &table->base;
  return SQLITE_OK;
}

/* Without xCreate, the only table has the module's name. Without xUpdate, it is read-only. */
static const sqlite3_module part_module = {.iVersion = 1,
                                           .xConnect = part_connect,
                                           .xBestIndex = query_best_index,
                                           .xDisconnect = query_disconnect,
                                           .xDestroy = query_disconnect,
                                           .xOpen = query_open,
                                           .xClose = query_close,
                                           .xFilter = query_filter,
                                           .xNext = query_next,
                                           .xEof = query_eof,
                                           .xColumn = query_column,
                                           .xRowid = query_rowid};

int tsx_query_part(const tsx_query *query, const char *declaration, const char **name, tsr_error *error) {
  const tsx_registered *part;
  char *shape = part_shape(query, declaration);
  if (!shape) return tsx_out_of_memory(error);
  const int code = tsx_registry_take(query->connection, &part_module, query->select.text, shape, &part, error);
  sqlite3_free(shape);
  if (code >= 0) *name = part->name;
  return code;
}

/* ---- For other modules ------------------------------------------------------------------------------------------- */

/* Finds the item of a SELECT that is this key. Returns false if there is none. */
static bool find_key_item(const tsx_select *select, uint32_t key, uint32_t *item) {
  for (*item = 0; *item < select->item_count; ++*item)
    if (tsx_select_key(select, select->items[*item].tree) == (int)key) return true;
  return false;
}

/* Returns the table with this name that was connected last, or NULL. */
static const tsx_query_table *find_connected(const tsx_connection *connection, const char *schema, const char *name) {
  const tsx_query_table *table = connection->tables.queries;
  while (table && (sqlite3_stricmp(table->schema_name, schema) != 0 || sqlite3_stricmp(table->name, name) != 0))
    table = table->next;
  return table;
}

bool tsx_query_table_text(const tsx_connection *connection, const char *schema, const char *name,
                          tsx_query_words *found) {
  const tsx_query_table *table = find_connected(connection, schema, name);
  if (table) *found = (tsx_query_words){table->text, table->memory_bytes, table->threads};
  return table;
}

int tsx_query_table_keys(tsx_connection *connection, const char *schema, const char *name, uint32_t *columns,
                         uint32_t room, tsr_error *error) {
  const tsx_query_table *table = find_connected(connection, schema, name);
  tsx_query query = {0};
  tsx_table_kind kind = TSX_TABLE_QUERY;
  if (!table) return 0;
  if (!table->part) TSX_TRY(tsx_table_kind_find(connection, schema, name, &kind, error));
  if (kind != TSX_TABLE_QUERY) return 0; /* it was dropped, and a statement still holds it */
  const int code = tsx_query_compile(connection, table->schema_name, table->text, &query, error);
  const uint32_t keys = code >= 0 ? query.select.group_count : 0;
  bool all = keys <= room;
  for (uint32_t k = 0; k < keys && all; k++) all = find_key_item(&query.select, k, &columns[k]);
  tsx_query_release(&query);
  return code < 0 ? code : all ? (int)keys : 0;
}

/* Returns the part with this name, or NULL. */
static const tsx_registered *find_part(const tsx_connection *connection, const char *name) {
  const tsx_registered *part = connection->registry.tables;
  while (part && (part->module != &part_module || strcmp(part->name, name) != 0)) part = part->next;
  return part;
}

/* Returns true if the values of an aggregate or window are values of its first operand. */
static bool item_keeps(const tsx_expr *tree) {
  static const char *const names[] = {"min", "max", "first_value", "last_value", "nth_value", "lag", "lead"};
  const bool beside = !strcmp(tree->name, "lag") || !strcmp(tree->name, "lead");
  if ((tree->kind != TSX_EXPR_AGGREGATE && tree->kind != TSX_EXPR_WINDOW) || tree->count == 0) return false;
  if (beside && tree->count > 2) return false; /* the third is another value */
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(tree->name, names[i])) return true;
  return false;
}

/* Returns the column or label of the table whose values an item shows: a key, a bare column, or an aggregate or window
 * that keeps its values. */
static const tsx_column *item_shows(const tsx_query *query, const tsx_expr *tree) {
  tree = tsx_expr_meaning(tree);
  if (tree->name && item_keeps(tree)) tree = tsx_expr_meaning(tree->operands[0]);
  if (tree->kind == TSX_EXPR_LABEL) return &query->table->labels[tree->column].column;
  return tree->kind == TSX_EXPR_NAME ? &query->table->columns[tree->column] : NULL;
}

int tsx_query_table_shown(tsx_connection *connection, const char *schema, const char *name, tsx_query_shown *columns,
                          uint32_t room, tsr_error *error) {
  const tsx_registered *part = find_part(connection, name);
  const tsx_query_table *table = part ? NULL : find_connected(connection, schema, name);
  tsx_query query = {0};
  tsx_table_kind kind = TSX_TABLE_QUERY;
  if (!part && !table) return 0;
  if (!part) TSX_TRY(tsx_table_kind_find(connection, schema, name, &kind, error));
  if (kind != TSX_TABLE_QUERY) return 0; /* as above */
  const int code = part ? tsx_query_compile(connection, "temp", part->text, &query, error)
                        : tsx_query_compile(connection, table->schema_name, table->text, &query, error);
  const uint32_t count = code < 0 ? 0 : query.select.item_count < room ? query.select.item_count : room;
  for (uint32_t i = 0; i < count; i++) {
    const tsx_column *shows = item_shows(&query, query.select.items[i].tree);
    const tsr_kind of = shows ? tsr_datatype_kind(shows->description->datatype) : TSR_KIND_BYTES;
    const bool one = shows && shows->form != TSX_ENUMERATED && shows->description->values_per_cell == 1;
    const bool large = one && shows->form == TSX_UINT64 && shows->mixed;
    const bool told = of == TSR_KIND_BOOLEAN || of == TSR_KIND_DATETIME || of == TSR_KIND_TIME;
    columns[i] = (tsx_query_shown){.typed = large || (one && told)};
    if (!columns[i].typed) continue;
    columns[i].datatype = shows->description->datatype;
    columns[i].duration = shows->nat_is_null;
  }
  tsx_query_release(&query);
  return code < 0 ? code : (int)count;
}

tsx_run *tsx_query_scan_run(tsx_connection *connection, const char *schema, const char *name, const char **table) {
  const query_cursor *c = connection->tables.query_scan;
  if (!c || c->done || c->walks || c->by_rows || !tsx_run_is_cells(c->run)) return NULL;
  const tsx_query_table *t = (const tsx_query_table *)c->base.pVtab;
  *table = t->name;
  if (t->part) return schema || strcmp(t->part->name, name) != 0 ? NULL : c->run;
  if (sqlite3_stricmp(t->name, name) != 0 || (schema && sqlite3_stricmp(t->schema_name, schema) != 0)) return NULL;
  const int known = sqlite3_table_column_metadata(connection->db, schema, name, NULL, NULL, NULL, NULL, NULL, NULL);
  return known == SQLITE_OK ? c->run : NULL; /* else the name is that of a view of this table */
}

int tsx_register_query(tsx_connection *connection) {
  int code = tsx_rows_register(connection);
  if (code != SQLITE_OK) return code;
  tsx_connection_hold(connection);
  return sqlite3_create_module_v2(connection->db, "tessera_query", &query_module, connection, tsx_connection_drop);
}
