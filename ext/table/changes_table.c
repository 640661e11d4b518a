/* changes_table.c: the module tessera_changes: what changed in a table between two times, as rows with old and new
 * values.
 *
 * CREATE VIRTUAL TABLE temp.c USING tessera_changes(t [, columns='v,w']); SELECT ... FROM c(before, after, mode).
 *
 * A scan runs statements on the table itself (changes_sql.c). For each step from a time lo to a time hi there are two:
 *
 *   - Inserts and updates are among the cells written in (lo, hi] that are visible at hi. Each looks its old row up. Of
 *     a dense array, most cells that have not changed are left out before (core/read/unchanged.c).
 *   - Deletes are the cells that conditions of (lo, hi], or the transaction, have dropped. Each looks its old row up,
 *     too.
 *
 * Arrays with duplicates have one statement for both. Mode 'every' makes a step of each commit time; of merged sparse
 * fragments, the times of their cells tell them.
 *
 * A feed has a token in the place of `before`. It shows the coordinates that commits have touched which the token
 * lacks, with what is there at `after`: the time of another token, or of one that is made now.
 *
 * Sections: the table; the plan; times; the cursor; arguments; rows.
 */
#include "table/changes.h"
#include "table/table_internal.h"

#include <ctype.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "definition/arguments.h"
#include "sql/names.h"
#include "sql/statement.h"
#include "sql/tokens.h"

/* ---- The table --------------------------------------------------------------------------------------------------- */

static void free_names(char **names, int count) {
  for (int i = 0; names && i < count; i++) sqlite3_free(names[i]);
  sqlite3_free(names);
}

static int disconnect(sqlite3_vtab *vtab) {
  tsx_changes_table *t = (tsx_changes_table *)vtab;
  free_names(t->columns, tsx_changes_columns(t));
  free_names(t->fields, t->dimensions + t->attributes + t->labels);
  sqlite3_free(t->written_at);
  sqlite3_free(t->name);
  sqlite3_free(t->source);
  sqlite3_free(t->path);
  sqlite3_free(t->gone);
  tsx_connection_remove_table(t->connection);
  tsx_connection_drop(t->connection);
  sqlite3_free(t);
  return SQLITE_OK;
}

/* Returns the place of a name in a list like "v, w", or NULL. */
static const char *find_listed(const char *list, const char *name, size_t *size) {
  for (; list; list = strchr(list, ',')) {
    while (*list == ',' || *list == ' ') list++;
    *size = strcspn(list, ",");
    size_t bare = *size;
    while (bare > 0 && list[bare - 1] == ' ') bare--;
    if (strlen(name) == bare && !sqlite3_strnicmp(list, name, (int)bare)) return list;
  }
  return NULL;
}

static int add_field(tsx_changes_table *t, const char *name, int *count) {
  const int all = t->dimensions + t->attributes + t->labels;
  char **grown = sqlite3_realloc64(t->fields, (sqlite3_uint64)(all + 1) * sizeof *grown);
  if (!grown) return SQLITE_NOMEM;
  t->fields = grown;
  if (!(t->fields[all] = sqlite3_mprintf("%s", name))) return SQLITE_NOMEM;
  ++*count;
  return SQLITE_OK;
}

/* Takes over the columns of the source. `list` has the attributes to compare, or is NULL. */
static int take_fields(tsx_changes_table *t, const tsx_table *source, const char *list, char **message) {
  size_t size, used = 0;
  int code = SQLITE_OK, listed = 0;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; i < source->column_count && code == SQLITE_OK; i++) {
      const char *name = source->columns[i].name;
      if (source->columns[i].description->is_dimension == (pass == 1)) continue;
      if (pass == 1 && list && !find_listed(list, name, &size)) continue;
      code = add_field(t, name, pass ? &t->attributes : &t->dimensions);
    }
  for (uint32_t i = 0; i < source->label_count && code == SQLITE_OK; i++)
    code = add_field(t, source->labels[i].name, &t->labels);
  if (code == SQLITE_OK && (uint32_t)t->dimensions != source->schema->dimension_count) {
    *message = sqlite3_mprintf("tessera_changes: %s does not show all dimensions", t->path);
    return SQLITE_ERROR;
  }
  for (const char *at = list; at && *at; at += used + (at[used] == ',')) {
    used = strcspn(at, ",");
    listed++;
  }
  if (code == SQLITE_OK && list && listed != t->attributes) {
    *message = sqlite3_mprintf("tessera_changes: columns='%s': name attributes of %s, each once", list, t->path);
    return SQLITE_ERROR;
  }
  if (code == SQLITE_OK && !(t->written_at = sqlite3_mprintf("%s", source->declared.hidden[2]))) code = SQLITE_NOMEM;
  return code;
}

/* Finds the source, which a statement on it connects. Sets t->gone if there is no such table, or no such array. */
static int read_source(tsx_changes_table *t, const char *schema, const char *name, const char *list, char **message) {
  sqlite3 *db = t->connection->db;
  tsx_table_kind kind = TSX_TABLE_OTHER;
  sqlite3_stmt *statement = NULL;
  tsr_error error = {0};
  int code = tsx_schema_kind(db, schema, name, &kind);
  if (code == SQLITE_OK && kind != TSX_TABLE_ARRAY) {
    t->gone = sqlite3_mprintf("tessera_changes: '%s' is not a table of tessera", name);
    return t->gone ? SQLITE_ERROR : SQLITE_NOMEM;
  }
  if (code == SQLITE_OK) code = tsx_sql_prepare(db, sqlite3_mprintf("SELECT 1 FROM %s", t->source), &statement);
  tsx_table *source = code == SQLITE_OK ? tsx_table_connected(t->connection, schema, name) : NULL;
  if (code != SQLITE_OK) *message = sqlite3_mprintf("tessera_changes: %s", sqlite3_errmsg(db));
  else if (!source || tsx_table_ready(source, &error) < 0) {
    char **told = source && error.code == TSR_NOT_FOUND ? &t->gone : message;
    *told = sqlite3_mprintf("tessera_changes: %s: %s", t->path, source ? error.message : "no such table");
    code = *told ? SQLITE_ERROR : SQLITE_NOMEM;
  } else {
    t->dense = source->schema->dense;
    t->duplicates = !t->dense && source->schema->allows_duplicates;
    code = take_fields(t, source, list, message);
  }
  sqlite3_finalize(statement);
  return code;
}

static bool is_taken(const tsx_changes_table *t, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (!sqlite3_stricmp(t->columns[i], name)) return true;
  return false;
}

/* Names a column. If the name is taken, a hidden argument gets a leading underscore, another column "_2" and so on. */
static int name_column(tsx_changes_table *t, int number, const char *prefix, const char *name, bool hidden) {
  char *made = sqlite3_mprintf("%s%s", prefix, name);
  for (int i = 2; made && is_taken(t, number, made); i++) {
    char *next = hidden ? sqlite3_mprintf("_%s", made) : sqlite3_mprintf("%s%s_%d", prefix, name, i);
    sqlite3_free(made);
    made = next;
  }
  t->columns[number] = made;
  return made ? SQLITE_OK : SQLITE_NOMEM;
}

static int name_columns(tsx_changes_table *t) {
  static const char *const arguments[] = {"before", "after", "mode"};
  const int count = tsx_changes_columns(t);
  if (!(t->columns = sqlite3_malloc64((sqlite3_uint64)count * sizeof *t->columns))) return SQLITE_NOMEM;
  memset(t->columns, 0, (size_t)count * sizeof *t->columns);
  int n = 0, code = name_column(t, n++, "", "change", false);
  for (int i = 0; i < t->dimensions && code == SQLITE_OK; i++) code = name_column(t, n++, "", t->fields[i], false);
  for (int i = 0; i < 2 * t->attributes && code == SQLITE_OK; i++)
    code = name_column(t, n++, i % 2 ? "new_" : "old_", t->fields[t->dimensions + i / 2], false);
  if (code == SQLITE_OK) code = name_column(t, n++, "", "changed_at", false);
  for (int i = 0; i < 3 && code == SQLITE_OK; i++) code = name_column(t, n++, "", arguments[i], true);
  for (int i = 0; i < t->labels && code == SQLITE_OK; i++)
    code = name_column(t, n++, "", t->fields[t->dimensions + t->attributes + i], false);
  return code;
}

/* Appends a column with the declared type of its field in the source. */
static void append_column(tsx_changes_table *t, sqlite3_str *out, int number, const char *field) {
  sqlite3_stmt *row;
  sqlite3_str_appendf(out, ", \"%w\"", t->columns[number]);
  if (tsx_sql_prepare(t->connection->db, sqlite3_mprintf("SELECT \"%w\" FROM %s", field, t->source), &row) ==
      SQLITE_OK) {
    const char *type = sqlite3_column_decltype(row, 0);
    if (type) sqlite3_str_appendf(out, " %s", type);
  }
  sqlite3_finalize(row);
}

static int declare(tsx_changes_table *t) {
  const int at = tsx_changes_at(t), labels = tsx_changes_arguments(t) + 3;
  sqlite3_str *out = sqlite3_str_new(t->connection->db);
  sqlite3_str_appendf(out, "CREATE TABLE x(\"%w\" TEXT", t->columns[0]);
  for (int i = 1; i < at; i++)
    append_column(t, out, i, t->fields[i <= t->dimensions ? i - 1 : t->dimensions + (i - 1 - t->dimensions) / 2]);
  sqlite3_str_appendf(out, ", \"%w\" INTEGER", t->columns[at]);
  for (int i = at + 1; i < labels; i++) sqlite3_str_appendf(out, ", \"%w\" BLOB HIDDEN", t->columns[i]);
  for (int i = 0; i < t->labels; i++) {
    append_column(t, out, labels + i, t->fields[t->dimensions + t->attributes + i]);
    sqlite3_str_appendall(out, " HIDDEN");
  }
  sqlite3_str_appendchar(out, 1, ')');
  char *text = sqlite3_str_finish(out);
  const int code = text ? tsx_declare(t->connection->db, text) : SQLITE_NOMEM;
  sqlite3_free(text);
  return code;
}

/* Reads the option columns='v,w'; *list is from sqlite3_malloc. */
static int read_option(const char *text, char **list, char **message) {
  tsx_tokens tokens = tsx_tokens_of(text);
  const bool named = tsx_token_is(&tokens.token, "columns");
  tsx_tokens_next(&tokens);
  const bool equals = tsx_token_is(&tokens.token, "=");
  tsx_tokens_next(&tokens);
  const tsx_token value = tokens.token;
  tsx_tokens_next(&tokens);
  if (!named || !equals || value.kind != TSX_TOKEN_STRING || tokens.token.kind != TSX_TOKEN_END || *list) {
    *message = sqlite3_mprintf("tessera_changes: '%s': the only option is columns='v,w', once", text);
    return SQLITE_ERROR;
  }
  if (!(*list = sqlite3_malloc64(value.size + 1))) return SQLITE_NOMEM;
  tsx_token_copy(&value, *list);
  return SQLITE_OK;
}

/* Declares a table whose source is gone, so that it can be dropped: SQLite drops no table whose xConnect fails. */
static int declare_gone(const tsx_changes_table *t) {
  return tsx_declare(t->connection->db,
                     "CREATE TABLE x(change TEXT, before BLOB HIDDEN, after BLOB HIDDEN, mode BLOB HIDDEN)");
}

/* Finds the schema of a source without one: that of the table, and for a table in temp as SQLite finds names, temp
 * before main. The table itself may have the name of its source. */
static int find_home(sqlite3 *db, const char *own, const char *name, const char **home) {
  tsx_table_kind kind = TSX_TABLE_OTHER;
  *home = own;
  if (strcmp(own, "temp") != 0) return SQLITE_OK;
  const int code = tsx_schema_kind(db, own, name, &kind);
  if (kind != TSX_TABLE_ARRAY) *home = "main";
  return code;
}

/* `creates`: the source must be there. */
static int make_table(tsx_connection *connection, const char *const *arguments, const char *schema, const char *name,
                      const char *list, bool creates, sqlite3_vtab **vtab, char **message) {
  tsx_changes_table *t = sqlite3_malloc64(sizeof *t);
  if (!t) return SQLITE_NOMEM;
  memset(t, 0, sizeof *t);
  t->connection = connection;
  tsx_connection_hold(connection);
  tsx_connection_add_table(connection);
  const char *home = schema;
  int code = home ? SQLITE_OK : find_home(connection->db, arguments[1], name, &home);
  t->name = sqlite3_mprintf("%s", arguments[2]);
  t->source = sqlite3_mprintf("\"%w\".\"%w\"", home, name);
  t->path = sqlite3_mprintf("db:\"%w\".\"%w\"", home, name);
  if (!t->name || !t->source || !t->path) code = SQLITE_NOMEM;
  if (code == SQLITE_OK) code = read_source(t, home, name, list, message);
  if (code == SQLITE_OK) code = name_columns(t);
  if (code == SQLITE_OK) code = declare(t);
  if (code == SQLITE_ERROR && t->gone && !creates) code = declare_gone(t);
  if (code == SQLITE_ERROR && t->gone && !*message) *message = sqlite3_mprintf("%s", t->gone);
  if (code != SQLITE_OK) disconnect(&t->base);
  else *vtab = &t->base;
  return code;
}

static int read_declaration(void *argument, int count, const char *const *arguments, bool creates, sqlite3_vtab **vtab,
                            char **message) {
  char *schema = NULL, *name = NULL, *list = NULL;
  tsr_error error = {0};
  int code = SQLITE_OK;
  if (count < 4) {
    *message = sqlite3_mprintf("tessera_changes needs a table: USING tessera_changes(t)");
    return SQLITE_ERROR;
  }
  if (tsx_table_name_parse(arguments[3], &schema, &name, &error) < 0) {
    *message = sqlite3_mprintf("tessera_changes: %s", error.message);
    return SQLITE_ERROR;
  }
  for (int i = 4; i < count && code == SQLITE_OK; i++) code = read_option(arguments[i], &list, message);
  if (code == SQLITE_OK) code = make_table(argument, arguments, schema, name, list, creates, vtab, message);
  sqlite3_free(schema);
  sqlite3_free(name);
  sqlite3_free(list);
  return code;
}

static int connect_table(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                         char **message) {
  (void)db;
  return read_declaration(argument, count, arguments, false, vtab, message);
}

static int create(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                  char **message) {
  (void)db;
  return read_declaration(argument, count, arguments, true, vtab, message);
}

/* ---- The plan ---------------------------------------------------------------------------------------------------- */

/* idxStr, which EXPLAIN QUERY PLAN shows, has the terms, the order and what it is:
 *
 *   before=? AND after=? AND lat>=? AND lat<=? ORDER BY lat DESC NET
 *
 * Names that are no plain words are quoted. idxNum is the number of values. */

static const unsigned char codes[TSX_CHANGES_OPERATORS] = {SQLITE_INDEX_CONSTRAINT_EQ, SQLITE_INDEX_CONSTRAINT_LT,
                                                           SQLITE_INDEX_CONSTRAINT_LE, SQLITE_INDEX_CONSTRAINT_GT,
                                                           SQLITE_INDEX_CONSTRAINT_GE};

static int operator_of(unsigned char code) {
  for (int i = 0; i < TSX_CHANGES_OPERATORS; i++)
    if (codes[i] == code) return i;
  return -1;
}

static void append_name(sqlite3_str *out, const char *name) {
  bool plain = *name && !isdigit((unsigned char)*name);
  for (const char *c = name; *c; c++) plain &= isalnum((unsigned char)*c) || *c == '_';
  sqlite3_str_appendf(out, plain ? "%s" : "\"%w\"", name);
}

static const char *match_name(const char *p, const char *name) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  append_name(out, name);
  char *text = sqlite3_str_finish(out);
  const size_t size = text ? strlen(text) : 0;
  const bool same = text && strncmp(p, text, size) == 0;
  sqlite3_free(text);
  return same ? p + size : NULL;
}

/* Reads a term: `own` becomes its column. Returns what follows it, or NULL. */
static const char *match_term(const tsx_changes_table *t, const char *p, int *own, int *op) {
  for (*own = 0; *own < tsx_changes_columns(t); ++*own) {
    const char *rest = match_name(p, t->columns[*own]);
    for (*op = TSX_CHANGES_OPERATORS; rest && (*op)-- > 0;) {
      const size_t size = strlen(tsx_changes_operators[*op]);
      if (!strncmp(rest, tsx_changes_operators[*op], size) && rest[size] == '?') return rest + size + 1;
    }
  }
  return NULL;
}

static const char *match_order(const tsx_changes_table *t, const char *p, tsx_changes_plan *plan) {
  for (int d = 0; d < t->dimensions; d++) {
    const char *rest = match_name(p, t->columns[1 + d]);
    if (!rest || (*rest != ',' && *rest != ' ')) continue;
    const bool descending = !strncmp(rest, " DESC", 5);
    if (descending) rest += 5;
    if (plan->order_count == TSX_CHANGES_TERMS) return NULL;
    plan->order[plan->order_count++] = (tsx_changes_order){d, descending};
    return *rest == ',' ? match_order(t, rest + 2, plan) : rest;
  }
  return NULL;
}

static bool read_plan(const tsx_changes_table *t, const char *text, tsx_changes_plan *plan) {
  const int first = tsx_changes_arguments(t);
  int own, op;
  *plan = (tsx_changes_plan){0};
  for (const char *p = text, *rest; p && *p; p = rest) {
    if (!strncmp(p, " AND ", 5)) p += 5;
    if (!strncmp(p, "ORDER BY ", 9)) return match_order(t, p + 9, plan) != NULL;
    if (!(rest = match_term(t, p, &own, &op))) return true; /* the word at the end */
    if (own >= first && own < first + 3) plan->given[own - first] = true;
    else if (tsx_changes_field(t, own) < 0 || plan->count == TSX_CHANGES_TERMS) return false;
    else plan->terms[plan->count++] = (tsx_changes_term){tsx_changes_field(t, own), op};
    if (*rest == ' ' && strncmp(rest, " AND ", 5) != 0) rest++;
  }
  return true;
}

typedef struct plan_writer {
  const tsx_changes_table *table;
  sqlite3_index_info *info;
  sqlite3_str *text;
  int values;
  bool given[3];
} plan_writer;

static void take(plan_writer *w, int i, int column, int op, bool omit) {
  if (w->values) sqlite3_str_appendall(w->text, " AND ");
  append_name(w->text, w->table->columns[column]);
  sqlite3_str_appendf(w->text, "%s?", tsx_changes_operators[op]);
  w->info->aConstraintUsage[i].argvIndex = ++w->values;
  w->info->aConstraintUsage[i].omit = omit;
}

/* Takes before, after and mode, in this order. */
static int take_arguments(plan_writer *w) {
  sqlite3_index_info *info = w->info;
  for (int h = 0; h < 3; h++)
    for (int i = 0; i < info->nConstraint; i++) {
      const struct sqlite3_index_constraint *c = &info->aConstraint[i];
      const int column = tsx_changes_arguments(w->table) + h;
      if (c->iColumn != column || w->given[h]) continue;
      if (c->op != SQLITE_INDEX_CONSTRAINT_EQ && c->op != SQLITE_INDEX_CONSTRAINT_IS) continue;
      if (!c->usable) return SQLITE_CONSTRAINT;
      w->given[h] = true;
      take(w, i, column, 0, true);
    }
  return SQLITE_OK;
}

static void take_terms(plan_writer *w) {
  sqlite3_index_info *info = w->info;
  for (int i = 0, taken = 0; i < info->nConstraint && taken < TSX_CHANGES_TERMS; i++) {
    const struct sqlite3_index_constraint *c = &info->aConstraint[i];
    const int op = operator_of(c->op);
    if (!c->usable || op < 0 || tsx_changes_field(w->table, c->iColumn) < 0) continue;
    if (strcmp(sqlite3_vtab_collation(info, i), "BINARY") != 0) continue;
    taken++;
    take(w, i, c->iColumn, op, false);
  }
}

/* Takes an order of dimensions, unless the rows may come step by step, or as bags. */
static void take_order(plan_writer *w) {
  sqlite3_index_info *info = w->info;
  if (info->nOrderBy == 0 || info->nOrderBy > TSX_CHANGES_TERMS || w->given[2] || w->table->duplicates) return;
  for (int i = 0; i < info->nOrderBy; i++)
    if (info->aOrderBy[i].iColumn < 1 || info->aOrderBy[i].iColumn > w->table->dimensions) return;
  for (int i = 0; i < info->nOrderBy; i++) {
    sqlite3_str_appendall(w->text, i ? ", " : w->values ? " ORDER BY " : "ORDER BY ");
    append_name(w->text, w->table->columns[info->aOrderBy[i].iColumn]);
    if (info->aOrderBy[i].desc) sqlite3_str_appendall(w->text, " DESC");
  }
  info->orderByConsumed = 1;
}

/* Returns the text of an argument that is known when the statement is planned, or NULL. */
static const char *known_argument(const plan_writer *w, int h) {
  sqlite3_value *value = NULL;
  for (int i = 0; i < w->info->nConstraint; i++)
    if (w->info->aConstraint[i].iColumn == tsx_changes_arguments(w->table) + h &&
        w->info->aConstraintUsage[i].argvIndex)
      if (sqlite3_vtab_rhs_value(w->info, i, &value) == SQLITE_OK && sqlite3_value_type(value) == SQLITE_TEXT)
        return (const char *)sqlite3_value_text(value);
  return NULL;
}

static bool is_token(const char *text) { return text && !sqlite3_strnicmp(text, "tessera:", 8); }

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  const tsx_changes_table *t = (const tsx_changes_table *)vtab;
  if (t->gone) return tsx_vtab_fail(vtab, SQLITE_ERROR, "%s; once it is there, open the database again", t->gone);
  plan_writer w = {.table = t, .info = info, .text = sqlite3_str_new(t->connection->db)};
  const int code = take_arguments(&w);
  if (code != SQLITE_OK) {
    sqlite3_free(sqlite3_str_finish(w.text));
    return code;
  }
  take_terms(&w);
  take_order(&w);
  const char *mode = known_argument(&w, 2);
  sqlite3_str_appendf(w.text, "%s%s", w.values || info->orderByConsumed ? " " : "",
                      is_token(known_argument(&w, 0))           ? "FEED"
                      : mode && !sqlite3_stricmp(mode, "every") ? "EVERY"
                                                                : "NET");
  info->idxNum = w.values;
  if (!(info->idxStr = sqlite3_str_finish(w.text))) return SQLITE_NOMEM;
  info->needToFreeIdxStr = 1;
  info->estimatedRows = 1000;
  info->estimatedCost = w.given[0] ? 1e6 / (1 + w.values) : 1e99;
  return SQLITE_OK;
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */

typedef struct changes_times { /* the commits of an array, as far as a scan needs them */
  sqlite3_int64 *steps; /* commit times, ascending, from sqlite3_malloc */
  sqlite3_int64 *gone; /* times of deletes, ascending, from sqlite3_malloc */
  int count, gone_count;
  char *deletes; /* the same, as JSON */
  bool merged, lost, own; /* own: the transaction has changed the array */
} changes_times;

/* Opens the source's array; the caller closes the address. */
static int open_source(const tsx_changes_table *t, tsx_address *address, tsr_error *error) {
  sqlite3_stmt *path;
  int code = tsx_sql_first(t->connection->db, sqlite3_mprintf("SELECT %Q", t->path), &path);
  if (code != SQLITE_ROW) return sqlite3_finalize(path), tsx_fail_computing(code, error);
  code = tsx_address_open(t->connection, sqlite3_column_value(path, 0), NULL, NULL, NULL, address, error);
  sqlite3_finalize(path);
  if (code < 0) return code;
  return address->array->transaction ? TSR_OK : tsx_address_array(address, error);
}

/* Takes the entries of a history that a scan up to `hi` needs. */
static int take_history(tsr_history *history, sqlite3_int64 hi, changes_times *times, tsr_error *error) {
  uint64_t count = 0;
  const tsr_history_entry *entries = tsr_history_entries(history, &count);
  if (count) times->steps = sqlite3_malloc64(count * sizeof *times->steps);
  if (count) times->gone = sqlite3_malloc64(count * sizeof *times->gone);
  if (count && (!times->steps || !times->gone)) return tsx_out_of_memory(error);
  sqlite3_str *deletes = sqlite3_str_new(NULL);
  sqlite3_str_appendchar(deletes, 1, '[');
  for (uint64_t i = 0; i < count; i++) {
    if (entries[i].start > (uint64_t)hi || entries[i].time > INT64_MAX) continue;
    const sqlite3_int64 time = (sqlite3_int64)entries[i].time;
    const bool merge = entries[i].kind == TSR_HISTORY_MERGE;
    times->merged |= merge;
    times->lost |= merge && entries[i].whole == 0;
    if (entries[i].condition) sqlite3_str_appendf(deletes, "%s%lld", times->gone_count ? "," : "", (long long)time);
    if (entries[i].condition) times->gone[times->gone_count++] = time;
    if (time <= hi && (times->count == 0 || times->steps[times->count - 1] != time))
      times->steps[times->count++] = time;
  }
  sqlite3_str_appendchar(deletes, 1, ']');
  times->deletes = sqlite3_str_finish(deletes);
  return times->deletes ? TSR_OK : tsx_out_of_memory(error);
}

static int read_times(const tsx_address *source, sqlite3_int64 lo, sqlite3_int64 hi, changes_times *times,
                      tsr_error *error) {
  tsr_history *history = NULL;
  TSX_TRY(tsr_history_open(source->array->core, (uint64_t)lo + 1, UINT64_MAX, &history, error));
  const int code = take_history(history, hi, times, error);
  tsr_history_close(history);
  return code;
}

/* ---- The cursor -------------------------------------------------------------------------------------------------- */

#define STATEMENTS 2 /* written and dropped, or one for everything */

typedef struct changes_cursor {
  sqlite3_vtab_cursor base;
  sqlite3_stmt *statements[STATEMENTS];
  bool live[STATEMENTS], ready[STATEMENTS]; /* live: has more rows; ready: its present row is to be shown */
  int current; /* the statement whose row is shown */
  tsx_changes_plan plan;
  tsx_changed written, dropped; /* the statements have pointers to them, ... */
  tsr_places *places[STATEMENTS]; /* ... and to these; NULL: of a dense array */
  tsr_token *token; /* of a feed, or NULL */
  sqlite3_value *given[3]; /* the arguments as passed, for xColumn: SQLite may test them again; owned; or NULL */
  changes_times times;
  sqlite3_int64 lo, hi; /* of the step */
  int step;
  bool every, swapped, present; /* present: `after` is now, with the transaction's rows */
  bool done;
  sqlite3_int64 row;
  uint64_t compared, found; /* not yet counted */
} changes_cursor;

static void count_rows(changes_cursor *c) {
  const tsx_changes_table *t = (const tsx_changes_table *)c->base.pVtab;
  tsr_environment_count_changes(t->connection->environment, c->compared, c->found);
  c->compared = c->found = 0;
}

static void clear(changes_cursor *c) {
  for (int i = 0; i < STATEMENTS; i++) {
    sqlite3_finalize(c->statements[i]);
    tsr_places_close(c->places[i]);
  }
  for (int h = 0; h < 3; h++) sqlite3_value_free(c->given[h]);
  count_rows(c);
  tsr_token_close(c->token);
  sqlite3_free(c->times.steps);
  sqlite3_free(c->times.gone);
  sqlite3_free(c->times.deletes);
  const sqlite3_vtab_cursor base = c->base;
  *c = (changes_cursor){.base = base, .done = true};
}

static int open_cursor(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  changes_cursor *c = sqlite3_malloc64(sizeof *c);
  if (!c) return SQLITE_NOMEM;
  memset(c, 0, sizeof *c);
  tsx_connection_add_cursor(((tsx_changes_table *)vtab)->connection);
  *out = &c->base;
  return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *cursor) {
  const tsx_changes_table *t = (const tsx_changes_table *)cursor->pVtab;
  clear((changes_cursor *)cursor);
  tsx_connection_remove_cursor(t->connection);
  sqlite3_free(cursor);
  return SQLITE_OK;
}

static int fail_sqlite(changes_cursor *c, int code) {
  const tsx_changes_table *t = (const tsx_changes_table *)c->base.pVtab;
  return tsx_vtab_fail(c->base.pVtab, code, "%s: %s", t->name, sqlite3_errmsg(t->connection->db));
}

static int fail_core(changes_cursor *c, const tsr_error *error) {
  const tsx_changes_table *t = (const tsx_changes_table *)c->base.pVtab;
  tsr_error named = *error;
  (void)tsx_fail_in(t->name, &named);
  return tsx_vtab_error(c->base.pVtab, &named);
}

/* Returns true if the step may have deletes. */
static bool deletes_in_step(const changes_cursor *c) {
  if (c->present && c->times.own) return true;
  for (int i = 0; i < c->times.gone_count; i++)
    if (c->times.gone[i] > c->lo && c->times.gone[i] <= c->hi) return true;
  return false;
}

/* Binds the times of a step, and begins its statements. */
static void begin_step(changes_cursor *c, bool last) {
  const tsx_changes_table *t = (const tsx_changes_table *)c->base.pVtab;
  c->written = (tsx_changed){.core = {TSR_CHANGED_WRITTEN, c->token, (uint64_t)c->lo + 1}, .before = (uint64_t)c->lo};
  c->dropped = (tsx_changed){.core = {TSR_CHANGED_DROPPED, c->token, (uint64_t)c->lo + 1}};
  c->written.places = c->places[0]; /* a feed does not look up what was dropped */
  c->dropped.places = c->statements[1] ? c->places[1] : c->token ? NULL : c->places[0];
  if (t->dense && !c->token) {
    c->written.merged = c->times.merged;
    c->written.columns = t->fields + t->dimensions;
    c->written.column_count = t->attributes;
  }
  for (int i = 0; i < STATEMENTS; i++) {
    sqlite3_stmt *s = c->statements[i];
    c->live[i] = s && (i == 0 || deletes_in_step(c));
    c->ready[i] = false;
    if (!s) continue;
    sqlite3_reset(s);
    if (c->places[i]) tsr_places_clear(c->places[i]);
    sqlite3_bind_int64(s, TSX_CHANGES_BEFORE, c->lo);
    if (last && c->present) sqlite3_bind_null(s, TSX_CHANGES_AFTER);
    else sqlite3_bind_int64(s, TSX_CHANGES_AFTER, c->hi);
    sqlite3_bind_pointer(s, TSX_CHANGES_WRITTEN, &c->written, TSX_CHANGED_POINTER, NULL);
    sqlite3_bind_pointer(s, TSX_CHANGES_DROPPED, &c->dropped, TSX_CHANGED_POINTER, NULL);
    sqlite3_bind_text(s, TSX_CHANGES_DELETES, c->times.deletes, -1, SQLITE_STATIC);
    sqlite3_bind_pointer(s, TSX_CHANGES_EXPECTED, c->places[i], TSX_EXPECTED_POINTER, NULL);
  }
}

/* Begins the next step of 'every', or the only one. Returns false after the last. */
static bool next_step(changes_cursor *c) {
  if (!c->every) {
    if (c->step++ > 0) return false;
    begin_step(c, true);
    return true;
  }
  if (c->step > 0) c->lo = c->hi;
  if (c->step < c->times.count) {
    c->hi = c->times.steps[c->step++];
    begin_step(c, false);
    return true;
  }
  if (c->step > c->times.count || !c->present || !c->times.own) return false;
  c->step = c->times.count + 1;
  begin_step(c, true);
  return true;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

/* Compares values as SQL sorts them. The columns of a statement show numbers, text or blobs. */
static int compare_values(sqlite3_value *a, sqlite3_value *b) {
  static const int ranks[] = {
      [SQLITE_INTEGER] = 1, [SQLITE_FLOAT] = 1, [SQLITE_TEXT] = 2, [SQLITE_BLOB] = 3, [SQLITE_NULL] = 0};
  const int x = sqlite3_value_type(a), y = sqlite3_value_type(b);
  if (ranks[x] != ranks[y]) return ranks[x] < ranks[y] ? -1 : 1;
  if (x == SQLITE_NULL) return 0;
  if (x == SQLITE_INTEGER && y == SQLITE_INTEGER) {
    const sqlite3_int64 i = sqlite3_value_int64(a), k = sqlite3_value_int64(b);
    return i < k ? -1 : i > k;
  }
  if (ranks[x] == 1) {
    const double i = sqlite3_value_double(a), k = sqlite3_value_double(b);
    return i < k ? -1 : i > k;
  }
  const void *p = sqlite3_value_blob(a), *q = sqlite3_value_blob(b);
  const int m = sqlite3_value_bytes(a), n = sqlite3_value_bytes(b);
  const int order = m && n ? memcmp(p, q, (size_t)(m < n ? m : n)) : 0;
  return order ? order : (m > n) - (m < n);
}

/* Returns true if a row of the statement is to be shown: some value differs, or one side has no cell. */
static bool is_change(const changes_cursor *c, sqlite3_stmt *row) {
  const tsx_changes_table *t = (const tsx_changes_table *)c->base.pVtab;
  const char *change = (const char *)sqlite3_column_text(row, 0);
  if (!change || *change != 'u') return true;
  for (int i = 1 + t->dimensions; i < tsx_changes_at(t); i += 2)
    if (compare_values(sqlite3_column_value(row, i), sqlite3_column_value(row, i + 1)) != 0) return true;
  return false;
}

/* Steps a statement to its next change. */
static int advance(changes_cursor *c, int i) {
  for (;;) {
    const int code = sqlite3_step(c->statements[i]);
    if (code != SQLITE_ROW) {
      c->live[i] = false;
      return code == SQLITE_DONE ? SQLITE_OK : fail_sqlite(c, code);
    }
    c->compared++;
    if (!is_change(c, c->statements[i])) continue;
    c->found++;
    c->ready[i] = true;
    return SQLITE_OK;
  }
}

/* Returns true if the row of statement 1 comes before that of statement 0. */
static bool second_first(const changes_cursor *c) {
  for (int i = 0; i < c->plan.order_count; i++) {
    const int column = 1 + c->plan.order[i].dimension;
    const int order =
        compare_values(sqlite3_column_value(c->statements[0], column), sqlite3_column_value(c->statements[1], column));
    if (order != 0) return c->plan.order[i].descending ? order < 0 : order > 0;
  }
  return false;
}

static int next(sqlite3_vtab_cursor *cursor) {
  changes_cursor *c = (changes_cursor *)cursor;
  c->row++;
  c->ready[c->current] = false;
  for (;;) {
    for (int i = 0; i < STATEMENTS; i++) {
      const bool needed = c->plan.order_count > 0 || i == 0 || !c->ready[0];
      const int code = c->live[i] && !c->ready[i] && needed ? advance(c, i) : SQLITE_OK;
      if (code != SQLITE_OK) return code;
    }
    if (c->ready[0] || c->ready[1]) {
      c->current = !c->ready[0] || (c->ready[1] && c->plan.order_count > 0 && second_first(c));
      return SQLITE_OK;
    }
    if (next_step(c)) continue;
    count_rows(c);
    c->done = true;
    return SQLITE_OK;
  }
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static int fail_argument(changes_cursor *c, const char *what) {
  const tsx_changes_table *t = (const tsx_changes_table *)c->base.pVtab;
  return tsx_vtab_fail(c->base.pVtab, SQLITE_ERROR, "%s: %s", t->name, what);
}

static const char *text_of(sqlite3_value *value) {
  return value && sqlite3_value_type(value) == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
}

/* Reads `before` or `after`; 'committed' is the present. */
static int read_time(changes_cursor *c, sqlite3_value *value, const char *name, sqlite3_int64 present,
                     sqlite3_int64 *time) {
  uint64_t milliseconds;
  tsr_error error = {0};
  const char *text = text_of(value);
  *time = present;
  if (text && sqlite3_stricmp(text, "committed") == 0) return SQLITE_OK;
  if (tsx_time_value(value, name, &milliseconds, &error) < 0) return tsx_vtab_error(c->base.pVtab, &error);
  *time = milliseconds < INT64_MAX ? (sqlite3_int64)milliseconds : INT64_MAX;
  return SQLITE_OK;
}

/* Gives the time up to which the source shows commits: that of the state which this statement sees, or the source's
 * as_of. A commit that is ahead of the clock is later: *next is the first time from which on more is shown. */
static int read_present(changes_cursor *c, tsx_address *source, sqlite3_int64 *present, uint64_t *next) {
  const tsx_changes_table *t = (const tsx_changes_table *)c->base.pVtab;
  const tsr_schema *schema;
  tsx_snapshot *now;
  tsr_error error = {0};
  *present = source->as_of < INT64_MAX ? (sqlite3_int64)source->as_of : INT64_MAX;
  *next = UINT64_MAX;
  if (source->as_of != TSR_TIME_NOW) return SQLITE_OK;
  int code = tsx_address_schema(source, &schema, &error);
  if (code >= 0)
    code = tsx_array_snapshot(t->connection, source->array, schema, TSR_TIME_BEGIN, TSR_TIME_NOW, false, &now, &error);
  if (code < 0) return fail_core(c, &error);
  *present = (sqlite3_int64)tsr_snapshot_time(now->core, next);
  tsx_snapshot_release(now);
  return SQLITE_OK;
}

/* `before` may be ahead of the present, which is `after`. Most often nothing is there, and it is the present, too.
 * Otherwise the state at `before` is the later one of the two. */
static int look_ahead(changes_cursor *c, const tsx_address *source, uint64_t next) {
  if (!c->present || c->lo <= c->hi) return SQLITE_OK;
  if ((uint64_t)c->lo < next) c->lo = c->hi;
  else if (source->array->transaction)
    return fail_argument(c, "before is ahead of the clock, and so are some commits: end this transaction first");
  else c->present = false;
  return SQLITE_OK;
}

static int read_mode(changes_cursor *c, sqlite3_value *value) {
  const tsx_changes_table *t = (const tsx_changes_table *)c->base.pVtab;
  const char *text = value ? (const char *)sqlite3_value_text(value) : NULL;
  c->every = text && sqlite3_stricmp(text, "every") == 0;
  if (!text || c->every || sqlite3_stricmp(text, "net") == 0) return SQLITE_OK;
  return tsx_vtab_fail(c->base.pVtab, SQLITE_ERROR, "%s: mode '%.40s': net or every", t->name, text);
}

/* Reads the ends of a feed. Its state is that of the later token. */
static int read_tokens(changes_cursor *c, const tsx_address *source, sqlite3_value *before, sqlite3_value *after,
                       sqlite3_value *mode) {
  const tsx_changes_table *t = (const tsx_changes_table *)c->base.pVtab;
  const char *until = text_of(after);
  tsr_environment *environment = t->connection->environment;
  tsr_error error = {0};
  tsr_token *later = NULL;
  const bool now =
      !after || sqlite3_value_type(after) == SQLITE_NULL || (until && !sqlite3_stricmp(until, "committed"));
  if (mode && sqlite3_value_type(mode) != SQLITE_NULL) return fail_argument(c, "a token has no mode");
  if (!now && !is_token(until))
    return fail_argument(c, "after a token comes a token, 'committed' or nothing: a time cannot tell what was seen");
  if (source->as_of != TSR_TIME_NOW)
    return fail_argument(c,
                         "the table has the option as_of: a token tells what is new since, so make a table without it");
  int code = tsr_token_read(environment, text_of(before), (uint64_t)sqlite3_value_bytes(before), &c->token, &error);
  if (code >= 0 && now) code = tsr_token_make(source->array->core, &later, &error);
  else if (code >= 0) code = tsr_token_read(environment, until, (uint64_t)sqlite3_value_bytes(after), &later, &error);
  if (code >= 0) code = tsr_token_check(source->array->core, c->token, &error);
  if (code >= 0) code = tsr_token_check(source->array->core, later, &error);
  c->lo = 0;
  c->hi = code < 0 ? 0 : (sqlite3_int64)tsr_token_time(later);
  tsr_token_close(later);
  return code < 0 ? fail_core(c, &error) : SQLITE_OK;
}

/* Reads two times, and sets the ends of the scan. */
static int read_times_of(changes_cursor *c, tsx_address *source, sqlite3_value *before, sqlite3_value *after,
                         sqlite3_value *mode) {
  const bool now = !after || sqlite3_value_type(after) == SQLITE_NULL, own_times = source->as_of == TSR_TIME_NOW;
  sqlite3_int64 present = 0;
  uint64_t next = 0;
  if (is_token(text_of(after))) return fail_argument(c, "before is a time and after a token: give two of one kind");
  int code = read_mode(c, mode);
  if (code == SQLITE_OK) code = read_present(c, source, &present, &next);
  if (code == SQLITE_OK) code = read_time(c, before, "before", present, &c->lo);
  c->hi = present;
  c->present = now && own_times;
  if (code == SQLITE_OK && !now) code = read_time(c, after, "after", present, &c->hi);
  if (code == SQLITE_OK) code = look_ahead(c, source, next);
  if (code != SQLITE_OK) return code;
  if (!own_times && c->hi > present) c->hi = present;
  c->swapped = c->lo > c->hi;
  if (c->swapped && c->every) return fail_argument(c, "'every' goes forward, and before is later than after");
  if (c->swapped) {
    const sqlite3_int64 lo = c->hi;
    c->hi = c->lo;
    c->lo = lo;
  }
  return SQLITE_OK;
}

/* Finds the steps of merged fragments: the times of cells that are visible before the newest known step, and so on. */
static int find_steps(changes_cursor *c, const tsx_changes_table *t) {
  sqlite3_stmt *newest;
  sqlite3_int64 *all = NULL, from = c->hi, count = 0, capacity = 0;
  int code = tsx_sql_prepare(
      t->connection->db,
      sqlite3_mprintf("SELECT max((SELECT coalesce(max(\"%w\"), 0) FROM %s(?1, ?2)), (SELECT coalesce(max(value), 0) "
                      "FROM json_each(?3) WHERE value <= ?1))",
                      t->written_at, t->source),
      &newest);
  while (code == SQLITE_OK && from > c->lo) {
    sqlite3_bind_int64(newest, 1, from);
    sqlite3_bind_int64(newest, 2, c->lo + 1);
    sqlite3_bind_text(newest, 3, c->times.deletes, -1, SQLITE_STATIC);
    if ((code = sqlite3_step(newest)) != SQLITE_ROW) break;
    const sqlite3_int64 time = sqlite3_column_int64(newest, 0);
    code = sqlite3_reset(newest);
    if (time <= c->lo) break;
    if (count == capacity) {
      capacity = capacity ? 2 * capacity : 64;
      sqlite3_int64 *grown = sqlite3_realloc64(all, (sqlite3_uint64)capacity * sizeof *all);
      if (!grown) {
        code = SQLITE_NOMEM;
        break;
      }
      all = grown;
    }
    all[count++] = time;
    from = time - 1;
  }
  if (code != SQLITE_OK) fail_sqlite(c, code);
  sqlite3_finalize(newest);
  if (code != SQLITE_OK) return sqlite3_free(all), code;
  for (sqlite3_int64 i = 0; i < count / 2; i++) {
    const sqlite3_int64 other = all[i];
    all[i] = all[count - 1 - i];
    all[count - 1 - i] = other;
  }
  sqlite3_free(c->times.steps);
  c->times.steps = all;
  c->times.count = (int)count;
  return SQLITE_OK;
}

static int read_arguments(changes_cursor *c, tsx_address *source, sqlite3_value **values) {
  const tsx_changes_table *t = (const tsx_changes_table *)c->base.pVtab;
  sqlite3_value *given[3] = {NULL};
  tsr_error error = {0};
  for (int h = 0, at = 0; h < 3; h++) {
    if (!c->plan.given[h]) continue;
    given[h] = values[at++];
    if (!(c->given[h] = sqlite3_value_dup(given[h]))) return SQLITE_NOMEM;
  }
  if (!given[0] || sqlite3_value_type(given[0]) == SQLITE_NULL)
    return fail_argument(c, "before is missing: give a time, a token or 'committed'");
  if (source->since != TSR_TIME_BEGIN)
    return fail_argument(c, "the table has the option since, and shows no whole state: make a table without it");
  if (is_token(text_of(given[0]))) return read_tokens(c, source, given[0], given[1], given[2]);
  const int code = read_times_of(c, source, given[0], given[1], given[2]);
  if (code != SQLITE_OK) return code;
  c->times.own = source->array->transaction != NULL;
  if (read_times(source, c->lo, c->hi, &c->times, &error) < 0) return fail_core(c, &error);
  if (c->every && c->times.lost)
    return tsx_vtab_fail(c->base.pVtab, SQLITE_ERROR,
                         "%s: versions between before and after are lost: without 'every' the net change is shown; "
                         "tessera_log('%s') shows what remains",
                         t->name, t->path);
  return c->every && c->times.merged && !t->dense ? find_steps(c, t) : SQLITE_OK;
}

static int prepare(changes_cursor *c) {
  const tsx_changes_table *t = (const tsx_changes_table *)c->base.pVtab;
  sqlite3 *db = t->connection->db;
  const bool two = !c->token && !t->duplicates;
  char *first = c->token        ? tsx_changes_feed_sql(t, &c->plan)
                : t->duplicates ? tsx_changes_bags_sql(t, &c->plan)
                                : tsx_changes_written_sql(t, &c->plan, c->times.merged);
  int code = tsx_sql_prepare(db, first, &c->statements[0]);
  if (code == SQLITE_OK && two && !t->dense && (c->times.gone_count || c->times.own))
    code = tsx_sql_prepare(db, tsx_changes_dropped_sql(t, &c->plan), &c->statements[1]);
  return code == SQLITE_OK ? code : fail_sqlite(c, code);
}

/* Makes the sets of places that the statements look up, of sparse arrays. */
static int make_places(changes_cursor *c, tsx_address *source) {
  const tsx_changes_table *t = (const tsx_changes_table *)c->base.pVtab;
  const tsr_schema *schema;
  tsr_error error = {0};
  if (t->dense) return SQLITE_OK;
  int code = tsx_address_schema(source, &schema, &error);
  for (int i = 0; i < STATEMENTS && code >= 0; i++)
    code = tsr_places_open(t->connection->environment, schema, &c->places[i], &error);
  if (code >= 0 && (c->token || t->duplicates)) tsr_places_gather(c->places[0]); /* their statements collect the keys */
  return code < 0 ? fail_core(c, &error) : SQLITE_OK;
}

/* Returns true if some of the state at a time may be lost. */
static bool may_lack(tsx_connection *connection, tsx_address *source, sqlite3_int64 time) {
  const tsr_schema *schema;
  const tsr_interval *intervals;
  tsx_snapshot *state;
  tsr_error unseen;
  if (tsx_address_schema(source, &schema, &unseen) < 0) return true;
  if (tsx_array_snapshot(connection, source->array, schema, TSR_TIME_BEGIN, (uint64_t)time, false, &state, &unseen) < 0)
    return true;
  const int code = tsr_snapshot_non_empty_domain(state->core, &intervals, &unseen);
  tsx_snapshot_release(state);
  return code < 0;
}

/* Fails if a state that the scan compares is lost within its terms. */
static int probe(changes_cursor *c, tsx_address *source, sqlite3_int64 time, sqlite3_value **values) {
  const tsx_changes_table *t = (const tsx_changes_table *)c->base.pVtab;
  sqlite3_stmt *statement;
  if (!may_lack(t->connection, source, time)) return SQLITE_OK;
  int code = tsx_sql_prepare(t->connection->db, tsx_changes_probe_sql(t, &c->plan), &statement);
  if (code == SQLITE_OK) {
    sqlite3_bind_int64(statement, TSX_CHANGES_BEFORE, time);
    for (int i = 0; i < c->plan.count; i++) sqlite3_bind_value(statement, TSX_CHANGES_VALUES + i, values[i]);
    code = sqlite3_step(statement);
  }
  if (code == SQLITE_ROW || code == SQLITE_DONE) code = SQLITE_OK;
  if (code != SQLITE_OK) fail_sqlite(c, code);
  sqlite3_finalize(statement);
  return code;
}

static int filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int count, sqlite3_value **values) {
  changes_cursor *c = (changes_cursor *)cursor;
  const tsx_changes_table *t = (const tsx_changes_table *)cursor->pVtab;
  tsx_address source = {0};
  tsr_error error = {0};
  (void)number;
  clear(c);
  if (!read_plan(t, text, &c->plan)) return fail_argument(c, "the plan does not fit the table");
  const int arguments = c->plan.given[0] + c->plan.given[1] + c->plan.given[2];
  if (arguments + c->plan.count != count) return fail_argument(c, "the plan does not fit the table");
  int code = open_source(t, &source, &error) < 0 ? fail_core(c, &error) : read_arguments(c, &source, values);
  if (code == SQLITE_OK && !c->token) code = probe(c, &source, c->lo, values + arguments);
  if (code == SQLITE_OK && !c->present) code = probe(c, &source, c->hi, values + arguments);
  if (code == SQLITE_OK) code = make_places(c, &source);
  tsx_address_close(&source);
  if (code == SQLITE_OK) code = prepare(c);
  if (code != SQLITE_OK) return code;
  for (int s = 0; s < STATEMENTS; s++)
    for (int i = 0; c->statements[s] && i < c->plan.count; i++)
      sqlite3_bind_value(c->statements[s], TSX_CHANGES_VALUES + i, values[arguments + i]);
  c->done = false;
  return next(cursor);
}

static int at_end(sqlite3_vtab_cursor *cursor) { return ((const changes_cursor *)cursor)->done; }

/* Shows what a scan back in time shows: the sides exchanged. */
static int column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int number) {
  const changes_cursor *c = (const changes_cursor *)cursor;
  const tsx_changes_table *t = (const tsx_changes_table *)cursor->pVtab;
  const int at = tsx_changes_at(t), first = 1 + t->dimensions;
  sqlite3_stmt *row = c->statements[c->current];
  if (number > at && number <= at + 3) {
    if (c->given[number - at - 1]) sqlite3_result_value(context, c->given[number - at - 1]);
    return SQLITE_OK;
  }
  if (number == at && c->every) {
    if (c->step <= c->times.count) sqlite3_result_int64(context, c->hi);
    return SQLITE_OK;
  }
  if (number == 0 && c->swapped) {
    const char *change = (const char *)sqlite3_column_text(row, 0);
    if (!change) return SQLITE_NOMEM;
    const char *shown = *change == 'i' ? "delete" : *change == 'd' ? "insert" : "update";
    sqlite3_result_text(context, shown, -1, SQLITE_STATIC);
    return SQLITE_OK;
  }
  if (c->swapped && number >= first && number < at) number = first + ((number - first) ^ 1);
  sqlite3_result_value(context, sqlite3_column_value(row, number > at ? number - 3 : number));
  return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out) {
  *out = ((const changes_cursor *)cursor)->row;
  return SQLITE_OK;
}

static const sqlite3_module changes_module = {.xCreate = create,
                                              .xConnect = connect_table,
                                              .xBestIndex = best_index,
                                              .xDisconnect = disconnect,
                                              .xDestroy = disconnect,
                                              .xOpen = open_cursor,
                                              .xClose = close_cursor,
                                              .xFilter = filter,
                                              .xNext = next,
                                              .xEof = at_end,
                                              .xColumn = column,
                                              .xRowid = rowid};

int tsx_register_changes(tsx_connection *connection) {
  tsx_connection_hold(connection); /* SQLite calls the destructor, which drops it, even if this call fails */
  return sqlite3_create_module_v2(connection->db, "tessera_changes", &changes_module, connection, tsx_connection_drop);
}
