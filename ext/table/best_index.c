/* best_index.c: xBestIndex: chooses among the constraints and orders that SQLite offers, and estimates the cost of the
 * plan.
 *
 * The plan is passed to xFilter as idxStr, which EXPLAIN QUERY PLAN shows. idxNum is the number of xFilter's arguments.
 * The grammar:
 *
 *   plan   = [ term { " AND " term } ] [ order ] [ limit ]
 *   order  = " ORDER BY " column [ " DESC" ] { ", " column [ " DESC" ] } [ " DISTINCT" ]
 *   term   = column operator [ " COLLATE NOCASE" ] [ " OR NUMERIC" ] [ " PLAINLY" ]
 *   limit  = " LIMIT" [ " OFFSET" [ " SKIPPED" ] ]
 *   column = name | name "(" name ")"
 *   name   = a plain word, or any name in double quotes, with double quotes in it doubled; "#0" and "#1" are as_of and
 *            since in a plan that was made while the array, and so the names of its columns, were missing
 *   operator = "=?" | ">?" | ">=?" | "<?" | "<=?" | " IS ?" | " IN ?" | "<>?" | " IS NOT ?" | " IS NULL" |
 *            " IS NOT NULL"
 *
 * "y(lat)" is the dimension label lat of the dimension y. The first part of the text has no leading blank. Term n takes
 * argument n of xFilter; LIMIT and OFFSET take the last ones. The argument of " IN ?" is a list
 * (sqlite3_vtab_in_first). " IS NULL" and " IS NOT NULL" have an argument, too, which is ignored.
 *
 * - The last four operators occur with attributes. "<>?" and " IS NOT ?" also occur with dimensions that have
 *   comparisons of their own (tsx_has_own_comparison), and " IS NULL" with as_of and since.
 * - OR NUMERIC: text that looks like a number may satisfy the comparison, too (tsx_numeric_range).
 * - PLAINLY: SQLite tests the comparison again in spite of `omit`, so the table must read it exactly as SQLite does.
 * - DISTINCT: one of the rows that are equal in all columns of the order suffices.
 * - SKIPPED: the table skips the rows of OFFSET.
 *
 * A prepared statement may live long, so the plan's promises to SQLite must hold for any later state of the array:
 * `omit` of exact comparisons, at most one row, the order. LIMIT only hints how many rows are likely to be read; the
 * table returns more if SQLite reads on, because SQLite may test filters that the table never sees. From 3.51 on,
 * SQLite offers OFFSET only if the table sees all filters. If the table tests all of them exactly, it skips the rows of
 * OFFSET, too. There is one trap: SQLite offers a comparison of row values, (x, u) > (1, 1), as the weaker x >= ?. The
 * table can distinguish that from an ordinary x >= ? only if sqlite3_vtab_rhs_value knows the right side. So it skips
 * rows only if it knows the right sides of all >= and <=.
 *
 * An idxStr that does not fit the table is SQLITE_ERROR. After SQLITE_SCHEMA, SQLite would restart the statement and
 * return rows again that it has returned already.
 *
 * Sections: idxStr, encoded and decoded; choosing constraints; estimating; order, LIMIT and cost. */
#include "table/table_internal.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "database/store_sqlite.h"
#include "values/compare.h"

static const char *const operators[] = {[TSX_EQ] = "=?",
                                        [TSX_GT] = ">?",
                                        [TSX_GE] = ">=?",
                                        [TSX_LT] = "<?",
                                        [TSX_LE] = "<=?",
                                        [TSX_IS] = " IS ?",
                                        [TSX_IN] = " IN ?",
                                        [TSX_NE] = "<>?",
                                        [TSX_ISNOT] = " IS NOT ?",
                                        [TSX_ISNULL] = " IS NULL",
                                        [TSX_NOTNULL] = " IS NOT NULL"};
#define OPERATOR_COUNT ((int)(sizeof operators / sizeof *operators))

/* ---- idxStr ------------------------------------------------------------------------------------------------------ */

static const char *column_name(const tsx_table *table, int column) {
  int shown = (int)table->column_count;
  return column < shown ? table->columns[column].name : table->declared.hidden[column - shown];
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool is_plain(const char *name) {
  if (isdigit((unsigned char)*name) || !*name) return false;
  while (is_word(*name)) name++;
  return !*name;
}

static void append_name(sqlite3_str *out, const char *name) {
  sqlite3_str_appendf(out, is_plain(name) ? "%w" : "\"%w\"", name);
}

static void append_column(const tsx_table *table, int column, sqlite3_str *out) {
  const tsx_label_column *label = tsx_label_column_at(table, column);
  if (!label) {
    append_name(out, column_name(table, column));
    return;
  }
  append_name(out, tsx_dimension_name(table, label->dimension));
  sqlite3_str_appendchar(out, 1, '(');
  append_name(out, label->name);
  sqlite3_str_appendchar(out, 1, ')');
}

/* Encodes the plan as idxStr, from sqlite3_malloc. Returns NULL if memory is lacking. */
static char *encode_plan(const tsx_table *table, const tsx_index_plan *plan) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  for (uint32_t i = 0; i < plan->count; i++) {
    const tsx_term *term = &plan->terms[i];
    if (i) sqlite3_str_appendall(out, " AND ");
    if (!table->array) sqlite3_str_appendf(out, "#%d", term->column - tsx_table_visible_columns(table));
    else append_column(table, term->column, out);
    sqlite3_str_appendall(out, operators[term->op]);
    if (term->nocase) sqlite3_str_appendall(out, " COLLATE NOCASE");
    if (term->numeric) sqlite3_str_appendall(out, " OR NUMERIC");
    if (term->plainly) sqlite3_str_appendall(out, " PLAINLY");
  }
  for (uint32_t i = 0; i < plan->order_count; i++) {
    sqlite3_str_appendall(out, i ? ", " : plan->count ? " ORDER BY " : "ORDER BY ");
    append_column(table, plan->order[i].column, out);
    if (plan->order[i].descending) sqlite3_str_appendall(out, " DESC");
  }
  if (plan->distinct) sqlite3_str_appendall(out, " DISTINCT");
  if (plan->limit) sqlite3_str_appendall(out, plan->count || plan->order_count ? " LIMIT" : "LIMIT");
  if (plan->offset) sqlite3_str_appendall(out, plan->skip ? " OFFSET SKIPPED" : " OFFSET");
  const bool empty = !plan->count && !plan->order_count && !plan->limit;
  char *text = sqlite3_str_finish(out);
  return text || !empty ? text : sqlite3_mprintf(""); /* an empty string builder returns NULL */
}

bool tsx_index_plan_excludes_null(const tsx_index_plan *plan, int column) {
  bool compared = false;
  for (uint32_t i = 0; i < plan->count; i++) compared |= plan->terms[i].column == column && plan->terms[i].op != TSX_IS;
  return compared;
}

uint32_t tsx_index_plan_arguments(const tsx_index_plan *plan) { return plan->count + plan->limit + plan->offset; }

/* Returns the position after the name if `p` begins with it as the encoder writes it; else NULL. */
static const char *match_name(const char *p, const char *name) {
  if (is_plain(name)) {
    size_t size = strlen(name);
    return !strncmp(p, name, size) && !is_word(p[size]) ? p + size : NULL;
  }
  if (*p++ != '"') return NULL;
  for (; *name; name++) {
    if (*p++ != *name) return NULL;
    if (*name == '"' && *p++ != '"') return NULL;
  }
  return *p == '"' && p[1] != '"' ? p + 1 : NULL;
}

static bool skip_word(const char **p, const char *word) {
  size_t size = strlen(word);
  if (strncmp(*p, word, size)) return false;
  *p += size;
  return true;
}

static const char *read_name(const tsx_table *table, const char *p, int *column) {
  if (*p == '#' && (p[1] == '0' || p[1] == '1')) {
    *column = TSX_AS_OF(table) + (p[1] - '0');
    return p + 2;
  }
  for (uint32_t i = 0; i < table->label_count; i++) {
    const char *end = match_name(p, tsx_dimension_name(table, table->labels[i].dimension));
    if (!end || *end != '(' || !(end = match_name(end + 1, table->labels[i].name)) || *end != ')') continue;
    *column = TSX_WRITTEN_AT(table) + 1 + (int)i;
    return end + 1;
  }
  for (int i = 0; i <= TSX_WRITTEN_AT(table); i++) {
    const char *end = match_name(p, column_name(table, i));
    if (end) {
      *column = i;
      return end;
    }
  }
  return NULL;
}

static const char *read_term(const tsx_table *table, const char *p, tsx_index_plan *plan) {
  int column, op = OPERATOR_COUNT;
  if (plan->count == TSX_TERMS_MAX || !(p = read_name(table, p, &column))) return NULL;
  for (int i = 0; i < OPERATOR_COUNT; i++)
    if (!strncmp(p, operators[i], strlen(operators[i]))) op = i;
  if (op == OPERATOR_COUNT) return NULL;
  p += strlen(operators[op]);
  tsx_term *term = &plan->terms[plan->count++];
  *term = (tsx_term){.column = column, .op = (tsx_op)op};
  term->nocase = skip_word(&p, " COLLATE NOCASE");
  term->numeric = skip_word(&p, " OR NUMERIC");
  term->plainly = skip_word(&p, " PLAINLY");
  return p;
}

static const char *read_order(const tsx_table *table, const char *p, tsx_index_plan *plan) {
  do {
    int column;
    if (plan->order_count == TSX_TERMS_MAX || !(p = read_name(table, p, &column))) return NULL;
    if (!tsx_label_column_at(table, column) &&
        (column >= (int)table->column_count || !table->columns[column].description->is_dimension))
      return NULL;
    plan->order[plan->order_count].column = column;
    plan->order[plan->order_count++].descending = skip_word(&p, " DESC");
  } while (skip_word(&p, ", "));
  plan->distinct = skip_word(&p, " DISTINCT");
  return p;
}

int tsx_index_plan_decode(const tsx_table *table, const char *text, tsx_index_plan *plan) {
  const char *p = text ? text : "";
  *plan = (tsx_index_plan){0};
  /* No term begins like this: an operator follows even a column that is named ORDER or LIMIT. */
  if (*p && strncmp(p, "ORDER BY ", 9) && strcmp(p, "LIMIT") && strncmp(p, "LIMIT ", 6)) {
    do p = read_term(table, p, plan);
    while (p && skip_word(&p, " AND "));
    if (!p) return SQLITE_ERROR;
  }
  if (skip_word(&p, plan->count ? " ORDER BY " : "ORDER BY ") && !(p = read_order(table, p, plan))) return SQLITE_ERROR;
  plan->limit = skip_word(&p, plan->count || plan->order_count ? " LIMIT" : "LIMIT");
  plan->offset = plan->limit && skip_word(&p, " OFFSET");
  plan->skip = plan->offset && skip_word(&p, " SKIPPED");
  return *p ? SQLITE_ERROR : SQLITE_OK;
}

/* ---- Choosing constraints ---------------------------------------------------------------------------------------- */

typedef struct choice { /* what one call of xBestIndex has chosen so far */
  tsx_table *table;
  sqlite3_index_info *info;
  bool utf16; /* the database's text is UTF-16 */
  tsx_index_plan plan;
  sqlite3_value *right_sides[TSX_TERMS_MAX]; /* the right side of each term if it is a constant, else NULL */
  bool time_used[2], time_misused[2]; /* as_of, since */
  bool time_missing; /* the statement uses as_of or since, but this plan has no value for it: the column shows NULL */
  int null_time; /* iTermOffset of a term on as_of or since whose value may be NULL; -1: none */
} choice;

/* Returns the own number of the column (tsx_column_order_make) in constraint `i`. */
static int constrained(const choice *c, int i) { return tsx_column_own(c->table, c->info->aConstraint[i].iColumn); }

/* Returns true if SQLite honours `omit` for constraint `i` if that becomes the next term. It does so for the first
 * 16 constraints and the first 16 arguments of xFilter. (It never does for parts of row values, which look like other
 * constraints here.) */
#define OMITTED_MAX 16
static bool can_omit(const choice *c, int i) { return i < OMITTED_MAX && c->plan.count < OMITTED_MAX; }

static void use_constraint(choice *c, int i, int column, tsx_op op, sqlite3_value *right, bool omit) {
  c->right_sides[c->plan.count] = right;
  c->plan.terms[c->plan.count++] = (tsx_term){.column = column, .op = op};
  c->info->aConstraintUsage[i].argvIndex = (int)c->plan.count;
  c->info->aConstraintUsage[i].omit = omit;
}

/* Sets the table's error: as_of (`which` 0) or since (1) is used in another way than as an argument. Returns
 * SQLITE_ERROR. */
static int fail_misused(tsx_table *table, int which) {
  const char *name = table->array ? table->declared.hidden[which] : which ? "since" : "as_of";
  return tsx_vtab_fail(
      &table->base, SQLITE_ERROR,
      "%s: %s is an argument, not a column of values: give it in the call, FROM %s(%s), or by =, IS or IN", table->path,
      name, table->name, which ? "NULL, '2024-06-01'" : "'2024-06-01'");
}

/* Uses a constraint on as_of (`which` 0) or since (1). Both are arguments, so a plan that cannot use an equality with
 * one would return wrong rows: SQLITE_CONSTRAINT rejects it. A range of times is meant as a filter, and is an error.
 * SQLite makes other tests itself, on the value or NULL: tools search all columns for values like this (IS NOT NULL,
 * <> '', GLOB). */
static int choose_time(choice *c, int i, int which) {
  const struct sqlite3_index_constraint *constraint = &c->info->aConstraint[i];
  int op = tsx_op_of(constraint->op);
  sqlite3_value *right = NULL;
  if (constraint->op == SQLITE_INDEX_CONSTRAINT_LIMIT || constraint->op == SQLITE_INDEX_CONSTRAINT_OFFSET)
    return SQLITE_OK;
  if (op >= TSX_GT && op <= TSX_LE) c->time_misused[which] = true;
  if (op != TSX_EQ && op != TSX_IS && op != TSX_ISNULL) return SQLITE_OK; /* SQLite tests it */
  if (!constraint->usable) return SQLITE_CONSTRAINT;
  if (c->time_used[which]) return SQLITE_OK;
  c->time_used[which] = true;
  use_constraint(c, i, constrained(c, i), (tsx_op)op, NULL, true);
  if (sqlite3_vtab_rhs_value(c->info, i, &right) != SQLITE_OK || sqlite3_value_type(right) == SQLITE_NULL)
    c->null_time = constraint->iTermOffset;
  return SQLITE_OK;
}

static bool is_used(const choice *c, int own) {
  const int column = tsx_column_sql(c->table, own);
  return c->info->colUsed >> (column < 63 ? column : 63) & 1;
}

/* Uses all constraints on as_of and since. `as_of` is the number of that column. A statement may also read the columns
 * without passing times, like tools that list all columns by name; then they are NULL. */
static int choose_times(choice *c, int as_of) {
  for (int i = 0; i < c->info->nConstraint; i++) {
    const int column = constrained(c, i);
    if (column != as_of && column != as_of + 1) continue;
    const int code = choose_time(c, i, column - as_of);
    if (code != SQLITE_OK) return code;
  }
  for (int which = 0; which < 2; which++) {
    if (c->time_used[which]) continue;
    if (c->time_misused[which]) return fail_misused(c->table, which);
    /* An UPDATE claims to use all columns, which then means nothing. */
    if (is_used(c, as_of + which) && c->info->colUsed != UINT64_MAX) c->time_missing = true;
  }
  return SQLITE_OK;
}

/* Uses an IS NULL or IS NOT NULL test of an attribute. */
static void choose_null_test(choice *c, int i, tsx_op op) {
  const tsx_column *column = &c->table->columns[constrained(c, i)];
  if (column->description->is_dimension || (column->form == TSX_ENUMERATED && !tsx_ranges_possible(column))) return;
  use_constraint(c, i, constrained(c, i), op, NULL, true);
}

/* Uses a comparison of text under NOCASE, which SQLite also derives from LIKE with a prefix. A range of bytes excludes
 * text that cannot match; SQLite tests the rest. */
static void choose_nocase(choice *c, int i, int op) {
  if (op > TSX_IS || c->utf16 || sqlite3_stricmp(sqlite3_vtab_collation(c->info, i), "NOCASE")) return;
  if (op == TSX_EQ && sqlite3_vtab_in(c->info, i, -1)) return;
  use_constraint(c, i, constrained(c, i), (tsx_op)op, NULL, false);
  c->plan.terms[c->plan.count - 1].nocase = true;
  c->plan.terms[c->plan.count - 1].numeric = op == TSX_LT || op == TSX_LE;
}

/* Before 3.51, SQLite offers these operators to the left table of a LEFT JOIN even if they are in its ON clause, and a
 * table that uses them loses rows. A table cannot see that it is the left one, so it never uses them. */
#define LEFT_JOIN_FIXED 3051000
static bool is_unsafe_in_join(int op) {
  return (op == TSX_NE || op == TSX_ISNOT || op == TSX_NOTNULL) && sqlite3_libversion_number() < LEFT_JOIN_FIXED;
}

/* Uses a comparison with a dimension, an attribute or a label. `never_exact`: SQLite must test it, too, even if the
 * ranges are exact. */
static void choose_comparison(choice *c, int i, const tsx_column *column, int op, bool never_exact) {
  const bool own_comparison = tsx_has_own_comparison(column);
  const bool texts = column->form == TSX_TEXT || (column->form == TSX_ENUMERATED && column->value_form == TSX_TEXT);
  const bool text = texts || column->form == TSX_DATETIME;
  if ((text || own_comparison) && sqlite3_stricmp(sqlite3_vtab_collation(c->info, i), "BINARY")) {
    if (texts) choose_nocase(c, i, op);
    return;
  }
  sqlite3_value *right = NULL;
  if (op == TSX_EQ && sqlite3_vtab_in(c->info, i, -1)) {
    sqlite3_vtab_in(c->info, i, 1);
    op = TSX_IN;
  } else if (sqlite3_vtab_rhs_value(c->info, i, &right) != SQLITE_OK) {
    right = NULL;
  }
  /* A list is never exact on a text column, since `right` is NULL then: a subquery may return numbers, with which
   * SQLite compares the text as a number. */
  const tsx_op compared = op == TSX_ISNOT ? TSX_EQ : (tsx_op)op;
  const bool exact = !never_exact && tsx_ranges_exact(column, compared, right, c->utf16);
  /* An unknown right side may be a numeric column that holds text. SQLite applies that column's affinity to our
   * text. */
  const bool numeric = text && !right && (op == TSX_LT || op == TSX_LE);
  const bool plainly = own_comparison && !(exact && can_omit(c, i));
  if (plainly && numeric && column->description->datatype == TSR_DATETIME_YEAR)
    return; /* all years look like numbers, so a range would exclude nothing */
  use_constraint(c, i, constrained(c, i), (tsx_op)op, right, exact);
  c->plan.terms[c->plan.count - 1].plainly = plainly;
  c->plan.terms[c->plan.count - 1].numeric = numeric && column->form != TSX_DATETIME;
}

static void choose_field(choice *c, int i) {
  const struct sqlite3_index_constraint *constraint = &c->info->aConstraint[i];
  const tsx_column *column = &c->table->columns[constrained(c, i)];
  const int op = tsx_op_of(constraint->op);
  if (!constraint->usable || op < 0 || c->plan.count == TSX_TERMS_MAX || is_unsafe_in_join(op)) return;
  if (op == TSX_ISNULL || op == TSX_NOTNULL) {
    choose_null_test(c, i, (tsx_op)op);
    return;
  }
  const bool has_ranges =
      column->description->is_dimension ? op < TSX_NE || tsx_has_own_comparison(column) : tsx_ranges_possible(column);
  if (has_ranges) choose_comparison(c, i, column, op, false);
}

static void choose_label(choice *c, int i, const tsx_label_column *label) {
  const struct sqlite3_index_constraint *constraint = &c->info->aConstraint[i];
  const int op = tsx_op_of(constraint->op);
  if (!constraint->usable || op < 0 || op > TSX_IS || c->plan.count == TSX_TERMS_MAX) return;
  /* the right side of IS may be NULL, for which the array finds no coordinates */
  if (tsx_ranges_possible(&label->column)) choose_comparison(c, i, &label->column, op, op == TSX_IS);
}

/* Returns the rules of a term's comparison, as tsx_ranges_make takes them. */
static unsigned rules_of(const choice *c, uint32_t term) {
  return tsx_connection_text(c->table->connection) | (c->plan.terms[term].plainly ? TSX_SQLITE_RULES : 0);
}

/* ---- Estimating -------------------------------------------------------------------------------------------------- */

/* Makes the ranges of all terms on dimensions whose right sides are known, for the estimate. `terms`, `values` and
 * `known` have an entry for each term; the ranges point into `terms` and `values`. known[i]: term i was used. */
static void make_known_ranges(const choice *c, tsr_ranges *dimensions, tsr_ranges *terms, tsx_ranges *values,
                              bool *known) {
  for (uint32_t i = 0; i < c->plan.count; i++) {
    known[i] = false;
    if (c->plan.terms[i].column >= (int)c->table->column_count || !c->right_sides[i]) continue;
    const tsx_column *column = &c->table->columns[c->plan.terms[i].column];
    if (!column->description->is_dimension) continue;
    tsx_ranges_make(column, c->plan.terms[i].op, c->right_sides[i], rules_of(c, i), &values[i]);
    known[i] = true;
    if (values[i].count < 0) continue;
    terms[i] = (tsr_ranges){.ranges = values[i].ranges, .count = (uint64_t)values[i].count};
    tsr_ranges *first = &dimensions[column->field];
    if (first->all) {
      *first = terms[i];
    } else {
      terms[i].also = first->also;
      first->also = &terms[i];
    }
  }
}

/* Returns how many different values a dimension may have within the box; `rows` if that is less, or if it is
 * unknown. */
static double count_values(const tsr_field *dimension, const tsr_interval *box, double rows) {
  const tsr_kind kind = tsr_datatype_kind(dimension->datatype);
  uint64_t size = tsr_datatype_size(dimension->datatype);
  double spread = rows;
  if (box && dimension->values_per_cell != TSR_VARIABLE && kind != TSR_KIND_FLOAT) {
    uint64_t low = 0, high = 0;
    memcpy(&low, box->low, size);
    memcpy(&high, box->high, size);
    uint64_t mask = size == 8 ? UINT64_MAX : ((uint64_t)1 << size * 8) - 1;
    spread = (double)((high - low) & mask) + 1;
  }
  return spread < rows ? spread : rows;
}

/* Returns the share of all cells that is likely to satisfy a comparison with an attribute. */
static double selectivity(tsx_op op) {
  switch (op) {
  case TSX_EQ:
  case TSX_IS: return 0.01;
  case TSX_IN: return 0.05;
  case TSX_ISNULL: return 0.1;
  case TSX_NE:
  case TSX_ISNOT:
  case TSX_NOTNULL: return 0.9;
  default: return 0.25;
  }
}

/* Returns true if some comparison with an attribute excludes all cells that were never written. */
static bool excludes_unwritten(const choice *c) {
  const tsx_table *table = c->table;
  for (uint32_t i = 0; i < c->plan.count && !table->options.shows.fill_unwritten; i++) {
    const int column = c->plan.terms[i].column, op = c->plan.terms[i].op;
    if (column >= (int)table->column_count || table->columns[column].description->is_dimension) continue;
    if (op != TSX_ISNULL && op != TSX_IS && op != TSX_ISNOT) return true;
  }
  return false;
}

typedef struct cost {
  double rows; /* returned */
  double cells; /* decoded */
} cost;

typedef struct estimate_state { /* the state of the array that an estimate is based on */
  tsr_snapshot *core; /* the state: that of `recent` or `present`, borrowed */
  tsr_snapshot *recent; /* held, or NULL */
  tsx_snapshot *present; /* held, or NULL */
} estimate_state;

/* Opens the present state, or a recent one if listing the array takes a request to a server. */
static int open_estimate_state(tsx_table *table, estimate_state *state, tsr_error *error) {
  const tsx_options *o = &table->options;
  if (table->connection->permissions.restrictions && !table->array->in_database) {
    const int permitted = tsr_path_permitted(table->connection->environment, table->array->path, error);
    if (permitted < 0) return permitted;
  }
  if (tsr_snapshot_recent(table->array->core, table->schema, o->times.since, o->times.as_of, &state->recent) > 0) {
    state->core = state->recent;
    return TSR_OK;
  }
  const int code = tsx_array_snapshot(table->connection, table->array, table->schema, o->times.since, o->times.as_of,
                                      false, &state->present, error);
  if (code >= 0) state->core = state->present->core;
  return code;
}

static void close_estimate_state(estimate_state *state) {
  tsr_snapshot_close(state->recent);
  tsx_snapshot_release(state->present);
}

/* Estimates rows and cells from the metadata of the fragments. An unknown right side counts by its operator. */
static cost estimate_cost(choice *c) {
  cost result = {1e6, 1e6};
  tsx_table *table = c->table;
  tsr_error error = {0};
  uint32_t dimension_count = table->schema->dimension_count;
  tsr_ranges *dimensions = sqlite3_malloc64(dimension_count * sizeof *dimensions);
  tsr_ranges *terms = sqlite3_malloc64((c->plan.count + 1) * sizeof *terms);
  tsx_ranges *values = sqlite3_malloc64((c->plan.count + 1) * sizeof *values);
  bool known[TSX_TERMS_MAX];
  estimate_state state = {0};
  tsr_estimate estimate;
  /* Leave an error that is kept for the next statement to xFilter, which must return it. */
  if (!dimensions || !terms || !values || table->connection->lost.message) goto done;
  for (uint32_t d = 0; d < dimension_count; d++) dimensions[d] = (tsr_ranges){.all = true};
  make_known_ranges(c, dimensions, terms, values, known);
  tsr_request request = {.dimensions = dimensions};
  const tsr_interval *box = NULL;
  if (open_estimate_state(table, &state, &error) < 0 ||
      tsr_request_estimate(state.core, &request, &estimate, &error) < 0) {
    if (error.code == TSR_INTERRUPT) sqlite3_interrupt(table->connection->db); /* the whole statement must stop */
    goto done;
  }
  if (tsr_snapshot_non_empty_domain(state.core, &box, &error) <= 0) box = NULL;
  result = (cost){excludes_unwritten(c) ? estimate.written : estimate.rows, estimate.cells};
  for (uint32_t i = 0; i < c->plan.count; i++) {
    const tsx_label_column *label = tsx_label_column_at(table, c->plan.terms[i].column);
    if ((!label && c->plan.terms[i].column >= (int)table->column_count) || known[i]) continue;
    const tsx_column *column = label ? &label->column : &table->columns[c->plan.terms[i].column];
    if (!label && !column->description->is_dimension) { /* fewer rows, but the same tiles are decoded */
      result.rows *= selectivity(c->plan.terms[i].op);
      continue;
    }
    const tsr_field *dimension = &table->schema->fields[label ? label->dimension : column->field];
    const tsr_interval *side = box ? &box[label ? label->dimension : column->field] : NULL;
    double share = 0.25, wide = count_values(dimension, side, estimate.rows + 1);
    if (c->plan.terms[i].op == TSX_EQ || c->plan.terms[i].op == TSX_IS) share = 1 / wide;
    if (c->plan.terms[i].op == TSX_IN) share = wide > 10 ? 10 / wide : 1;
    result.rows *= share;
    result.cells *= share;
  }
done:
  close_estimate_state(&state);
  sqlite3_free(dimensions);
  sqlite3_free(terms);
  sqlite3_free(values);
  return result;
}

/* Returns true if there is at most one row: every dimension is compared exactly for equality with one value, and
 * coordinates are unique. */
static bool is_unique(const choice *c) {
  const tsx_table *table = c->table;
  if (!table->schema || table->schema->allows_duplicates) return false;
  uint32_t equal = 0;
  for (uint32_t d = 0; d < table->schema->dimension_count; d++) {
    bool found = false;
    for (uint32_t i = 0; i < c->plan.count && !found; i++) {
      if (c->plan.terms[i].column >= (int)table->column_count) continue;
      const tsx_column *column = &table->columns[c->plan.terms[i].column];
      /* The number 9000 equals two values: 9000, which is shown as an integer, and the year 9000, which is text. */
      const bool years = column->description->datatype == TSR_DATETIME_YEAR && column->mixed;
      found = column->field == d && (c->plan.terms[i].op == TSX_EQ || c->plan.terms[i].op == TSX_IS) &&
              !c->plan.terms[i].plainly && !years &&
              tsx_ranges_exact(column, c->plan.terms[i].op, c->right_sides[i], c->utf16);
    }
    equal += found;
  }
  return equal == table->schema->dimension_count;
}

/* ---- Order, LIMIT and cost --------------------------------------------------------------------------------------- */

/* Returns true if SQLite sorts the values of a column as the core does. It does not if some values are shown as another
 * type, and not for text in UTF-16. It does for UINT64: values above the signed range are text, which sorts after all
 * integers, and all have 20 digits. */
static bool is_sorted_alike(const choice *c, const tsx_column *shown) {
  if (shown->mixed && shown->form != TSX_UINT64) return false;
  if (shown->form == TSX_TEXT || shown->form == TSX_DATETIME) return !c->utf16;
  return tsx_form_is_number(shown->form);
}

/* Returns true if the rows can be returned in the order of a label at present: no row may lack it. The next state of
 * the array may have such rows; then the cursor sorts, which takes dimensions of integers or instants. Some instants
 * are shown as integers, which come before all text; tsx_label_covers checks for them, too. */
static bool can_order_label(const choice *c, int column, tsx_label_column *label) {
  tsx_table *table = c->table;
  tsx_label_state *state = NULL;
  estimate_state shown = {0};
  tsr_error error = {0};
  int whole = 0;
  if (label->other) return false; /* only its values tell their order, and the next state may have others */
  const bool instants = label->column.form == TSX_DATETIME && label->field.datatype != TSR_DATETIME_YEAR && !c->utf16;
  if (!instants && !is_sorted_alike(c, &label->column)) return false;
  if (table->connection->lost.message) return false;
  for (uint32_t d = 0; d < table->schema->dimension_count; d++) {
    const tsr_kind kind = tsr_datatype_kind(table->schema->fields[d].datatype);
    if (kind != TSR_KIND_SIGNED && kind != TSR_KIND_UNSIGNED && kind != TSR_KIND_DATETIME && kind != TSR_KIND_TIME)
      return false;
  }
  if (tsx_index_plan_excludes_null(&c->plan, column) && !instants) return true;
  if (open_estimate_state(table, &shown, &error) >= 0 &&
      tsx_label_state_take(table, label, table->options.times.since, table->options.times.as_of, &state, &error) >= 0 &&
      tsr_label_load(state->index, &error) >= 0)
    whole = tsx_label_covers(label, state, shown.core, &error);
  if (error.code == TSR_INTERRUPT) sqlite3_interrupt(table->connection->db); /* the whole statement must stop */
  tsx_label_state_release(state);
  close_estimate_state(&shown);
  return whole > 0;
}

/* Returns true if rows can be returned in the order of a column: a dimension, or a label of one. */
static bool can_order(const choice *c, int column) {
  const tsx_table *table = c->table;
  tsx_label_column *label = tsx_label_column_at(table, column);
  if (label) return can_order_label(c, column, label);
  if (column < 0 || column >= (int)table->column_count) return false;
  return table->columns[column].description->is_dimension && is_sorted_alike(c, &table->columns[column]);
}

/* Returns the number of the dimension that a column of the order belongs to. */
static uint32_t order_dimension(const choice *c, int column) {
  const tsx_label_column *label = tsx_label_column_at(c->table, column);
  return label ? label->dimension : c->table->columns[column].field;
}

/* Sorts the order's dimensions of a dense array into the array's own order, the slowest first, if SQLite only needs
 * equal values together (for GROUP BY and DISTINCT). sqlite3_vtab_distinct in 3.40 says so even if an ORDER BY relies
 * on the order of the groups; in 3.54 it does not. */
#define GROUPS_TOLD 3054000
static void reorder_groups(choice *c) {
  const tsr_schema *schema = c->table->schema;
  const int distinct = sqlite3_vtab_distinct(c->info);
  if ((distinct != 1 && distinct != 2) || !schema->dense || sqlite3_libversion_number() < GROUPS_TOLD) return;
  const bool last_first = schema->cell_order == TSR_ORDER_COL;
  for (uint32_t i = 0; i < c->plan.order_count; i++) {
    struct tsx_index_plan_order *order = c->plan.order;
    order[i].descending = false;
    for (uint32_t k = i; k > 0; k--) {
      const uint32_t before = order_dimension(c, order[k - 1].column), after = order_dimension(c, order[k].column);
      if (last_first ? before >= after : before <= after) break;
      const struct tsx_index_plan_order moved = order[k];
      order[k] = order[k - 1];
      order[k - 1] = moved;
    }
  }
}

/* Uses DISTINCT, perhaps with an ORDER BY, if SQLite needs only one of the rows that are equal in the columns in use,
 * and all of these columns are dimensions: then rows are returned in the order of all of them, and the reader may skip
 * equal ones. If the rowid is in use, all rows differ. SQLite before 3.46 ignores that, so the plan is not used there;
 * from 3.53 on SQLite ignores it if there is an order, so xRowid fails under such a plan. */
#define ROWID_CONSIDERED 3046000
static void choose_distinct(choice *c) {
  const tsx_table *table = c->table;
  const sqlite3_index_info *info = c->info;
  const int distinct = sqlite3_vtab_distinct(c->info);
  const uint32_t ordered_count = c->plan.order_count;
  uint32_t count = ordered_count, dimensions = 0;
  if (distinct < 2 || ordered_count == 0 || sqlite3_libversion_number() < ROWID_CONSIDERED) return;
  for (int i = 0; i < info->nConstraint; i++)
    if (constrained(c, i) < 0) return;
  for (int column = 0; column <= TSX_WRITTEN_AT(table) + (int)table->label_count; column++) {
    if (!is_used(c, column)) continue;
    if (tsx_column_sql(table, column) > 62) return; /* from column 63 on, all columns share one bit of colUsed */
    if (column >= (int)table->column_count && column < TSX_WRITTEN_AT(table) && c->time_used[column - TSX_AS_OF(table)])
      continue;
    if (tsx_label_column_at(table, column) || !can_order(c, column)) return;
    bool ordered = false;
    for (uint32_t i = 0; i < ordered_count && !ordered; i++) ordered = c->plan.order[i].column == column;
    dimensions++;
    if (ordered) continue;
    if (count == TSX_TERMS_MAX) return;
    c->plan.order[count++] = (struct tsx_index_plan_order){.column = column};
  }
  if (dimensions == table->schema->dimension_count && !table->schema->allows_duplicates) return; /* all rows differ */
  c->plan.order_count = count;
  c->plan.distinct = true;
}

/* Offers the order that SQLite asks for, for ORDER BY, GROUP BY or DISTINCT: all of it, or none. A single row
 * (`unique`) is in any order. */
static void choose_order(choice *c, bool unique) {
  sqlite3_index_info *info = c->info;
  if (info->nOrderBy == 0 || info->nOrderBy > TSX_TERMS_MAX) return;
  for (int i = 0; i < info->nOrderBy && !unique; i++) {
    const int column = tsx_column_own(c->table, info->aOrderBy[i].iColumn);
    if (!can_order(c, column)) return;
    c->plan.order[i].column = column;
    c->plan.order[i].descending = info->aOrderBy[i].desc;
  }
  if (!unique) c->plan.order_count = (uint32_t)info->nOrderBy;
  reorder_groups(c);
  choose_distinct(c);
  info->orderByConsumed = 1;
}

/* Estimates how many rows DISTINCT leaves, as if all dimensions had equally many values. A dense array reads no tile
 * for them. */
static void estimate_distinct(const choice *c, cost *total) {
  total->rows = pow(total->rows, (double)c->plan.order_count / c->table->schema->dimension_count);
  if (c->table->schema->dense) total->cells = 0;
}

/* Returns true if the table may skip the rows of OFFSET: it tests all filters, and SQLite tests none. */
static bool can_skip(const choice *c) {
  const sqlite3_index_info *info = c->info;
  if (sqlite3_libversion_number() < 3051000 || (info->nOrderBy > 0 && !info->orderByConsumed) || c->plan.distinct)
    return false;
  for (int i = 0; i < info->nConstraint; i++) {
    const int op = info->aConstraint[i].op;
    if (op == SQLITE_INDEX_CONSTRAINT_LIMIT || op == SQLITE_INDEX_CONSTRAINT_OFFSET) continue;
    const struct sqlite3_index_constraint_usage *usage = &info->aConstraintUsage[i];
    if (usage->argvIndex == 0 || !usage->omit || i >= OMITTED_MAX || usage->argvIndex > OMITTED_MAX) return false;
    if ((op == SQLITE_INDEX_CONSTRAINT_GE || op == SQLITE_INDEX_CONSTRAINT_LE) && !c->right_sides[usage->argvIndex - 1])
      return false;
  }
  return true;
}

/* Uses LIMIT and OFFSET, which say how many rows are likely to be read. They say nothing if SQLite sorts the
 * rows. */
static void choose_limit(choice *c) {
  sqlite3_index_info *info = c->info;
  int limit = -1, offset = -1;
  if (info->nOrderBy > 0 && !info->orderByConsumed) return;
  for (int i = 0; i < info->nConstraint; i++) {
    if (!info->aConstraint[i].usable) continue;
    if (info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_LIMIT) limit = i;
    if (info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_OFFSET) offset = i;
  }
  if (limit < 0) return;
  c->plan.limit = true;
  info->aConstraintUsage[limit].argvIndex = (int)c->plan.count + 1;
  if (offset < 0) return;
  c->plan.offset = true;
  c->plan.skip = can_skip(c);
  info->aConstraintUsage[offset].argvIndex = (int)c->plan.count + 2;
  info->aConstraintUsage[offset].omit = c->plan.skip;
}

/* Returns true if a term's comparison means more to the table than to SQLite, and SQLite must not make it instead. */
static bool must_compare(const choice *c, const tsx_term *term) {
  const tsx_label_column *label = tsx_label_column_at(c->table, term->column);
  if (term->plainly || (!label && term->column >= (int)c->table->column_count)) return false;
  return tsx_has_own_comparison(label ? &label->column : &c->table->columns[term->column]);
}

/* Returns the cost of the plan. The unit is one row; a decoded cell costs about a fiftieth of that.
 *
 * A comparison that only the table can make (must_compare) has to be in the plan whenever SQLite can give its right
 * side, so each one makes the plan cheaper, even if it is not likely to exclude a row: of an array that is empty when
 * the statement is prepared, all plans would cost the same, and SQLite would scan it and compare texts for as long as
 * the statement lives.
 *
 * SQLite may evaluate an OR by one scan for each operand. It must not choose such a plan if as_of or since may be NULL,
 * which means "not given": after such scans SQLite tests as_of = NULL again, which no row satisfies. SQLite calls
 * xBestIndex for each operand's plan and adds up the costs, so the cost must prevent it.
 *
 * - Before 3.47 SQLite does not offer as_of = ? for the operands. `time_missing` is true for their plans, and their
 *   cost is OR_COST, more than the plan of the whole WHERE costs. (If that one has no value for as_of either, one scan
 *   is cheaper than two.)
 * - From 3.47 on SQLite offers the terms of the operand first, and after them those of the whole WHERE. Each term
 *   before as_of multiplies the cost by OR_FACTOR. All plans of the whole WHERE have the same number of such terms, so
 *   they compare as before; the plan of an operand has more of them. */
#define OR_COST       1e290
#define OR_FACTOR     1e18
#define OR_FACTOR_MAX 11 /* terms that count: more would exceed OR_COST */
#define OWN_FACTOR    0.75 /* of a comparison that only the table can make */
static double cost_of_plan(const choice *c, int as_of, cost total) {
  double sum = 4 + total.rows + total.cells / 50;
  for (uint32_t i = 0; i < c->plan.count; i++)
    if (must_compare(c, &c->plan.terms[i])) sum *= OWN_FACTOR;
  if (c->time_missing)
    return tsx_column_sql(c->table, as_of) + 1 < 63
               ? OR_COST
               : sum * 1e100; /* from column 63 on, the bit of as_of in colUsed may mean another column */
  for (int i = 0; i < c->null_time && i < OR_FACTOR_MAX; i++) sum *= OR_FACTOR;
  return sum;
}

/* Returns true, with the error, if the statement uses a column for which tsx_table_check_codes fails. xFilter checks
 * this, too, but is not called if SQLite has found the whole WHERE to be false. Not the estimate's state, which may be
 * that of the statement before. */
static bool has_unknown_codes(const choice *c, tsr_error *error) {
  tsx_table *table = c->table;
  const tsx_options *o = &table->options;
  tsr_snapshot *core = NULL;
  bool any = false;
  for (uint32_t i = 0; i < table->column_count; i++) any |= table->columns[i].knows_every_code && is_used(c, (int)i);
  if (!any) return false;
  int code = tsx_array_permitted(table->connection, table->array, error);
  if (code >= 0)
    code = tsr_snapshot_open(table->array->core, table->schema, o->times.since, o->times.as_of, &core, error);
  if (code >= 0) code = tsx_table_update_enumerations(table, error);
  const bool checked = code >= 0;
  if (checked) code = tsx_table_check_codes(table, core, error);
  tsr_snapshot_close(core);
  if (code == TSR_INTERRUPT) sqlite3_interrupt(table->connection->db); /* as in estimate_cost */
  return checked && code == TSR_ERROR;
}

/* Chooses constraints on fields and labels. TSX_TERMS_MAX may leave some of them to SQLite: these should be on
 * attributes, with which only the rows of tiles that are read anyway are excluded. */
static void choose_constraints(choice *c) {
  const tsx_table *table = c->table;
  const sqlite3_index_info *info = c->info;
  for (int i = 0; i < info->nConstraint; i++) {
    const int column = constrained(c, i);
    if (column >= 0 && column < (int)table->column_count && table->columns[column].description->is_dimension)
      choose_field(c, i);
  }
  for (int i = 0; i < info->nConstraint; i++) {
    const tsx_label_column *label = tsx_label_column_at(table, constrained(c, i));
    if (label) choose_label(c, i, label);
  }
  for (int i = 0; i < info->nConstraint; i++) {
    const int column = constrained(c, i);
    if (column >= 0 && column < (int)table->column_count && !table->columns[column].description->is_dimension)
      choose_field(c, i);
  }
}

/* Passes the plan and its cost to SQLite. `as_of` is the number of that column. */
static int return_plan(const choice *c, int as_of, cost total) {
  sqlite3_index_info *info = c->info;
  info->idxNum = (int)tsx_index_plan_arguments(&c->plan);
  info->idxStr = encode_plan(c->table, &c->plan);
  if (!info->idxStr) return SQLITE_NOMEM;
  info->needToFreeIdxStr = 1;
  info->estimatedCost = cost_of_plan(c, as_of, total);
  info->estimatedRows = total.rows < 1 ? 1 : tsx_int64_from_double(fmin(total.rows, 4e18));
  return SQLITE_OK;
}

/* Chooses the plan of a table whose array is missing: only as_of and since have columns that it can name. xOpen will
 * return the error. */
static int choose_plan_without_array(choice *c) {
  const int as_of = tsx_table_visible_columns(c->table);
  const int code = choose_times(c, as_of);
  return code != SQLITE_OK ? code : return_plan(c, as_of, (cost){1e6, 1e6});
}

static int choose_plan(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  tsx_table *table = (tsx_table *)vtab;
  choice c = {.table = table, .info = info, .utf16 = tsx_connection_utf16(table->connection), .null_time = -1};
  tsr_error error = {0};
  const bool missing = tsx_table_ready(table, &error) < 0;
  table->cursors.used = info->colUsed;
  if (missing) return choose_plan_without_array(&c);
  const int code = choose_times(&c, TSX_AS_OF(table)); /* first, because a full plan must not lack them */
  if (code != SQLITE_OK) return code;
  choose_constraints(&c);
  if (has_unknown_codes(&c, &error)) return tsx_vtab_error(vtab, &error);
  cost total = estimate_cost(&c);
  const bool unique = is_unique(&c);
  if (unique) {
    info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    if (total.rows > 1) total.rows = 1;
  }
  choose_order(&c, unique);
  choose_limit(&c);
  if (c.plan.distinct) estimate_distinct(&c, &total);
  return return_plan(&c, TSX_AS_OF(table), total);
}

int tsx_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  const tsx_table *table = (tsx_table *)vtab;
  tsx_connection *connection = table->connection;
  tsr_error error;
  const tsx_watch watch = tsx_watch_begin(connection->db, table->schema_name);
  tsx_store_pin(connection); /* the estimate may open all fragments */
  const int code = choose_plan(vtab, info);
  tsx_store_unpin(connection);
  /* The estimate does without what it cannot read, but SQLite may have rolled back: then the statement must not go
   * on. */
  if (code == SQLITE_OK && tsx_watch_end(&watch, connection->db, table->schema_name, &error) < 0)
    return tsx_vtab_error(vtab, &error);
  return code;
}
