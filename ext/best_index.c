/* best_index.c: from constraints to a plan for xFilter, and back.
 *
 * The protocol between xBestIndex and xFilter is idxStr, which EXPLAIN QUERY PLAN shows:
 *
 *   plan   = [ term { " AND " term } ]
 *   term   = column operator
 *   column = a plain word, or any name in double quotes, doubled within; "#0" and "#1" are as_of and since in plans that
 *            were made while the array, and so its names, were missing
 *   operator = "=?" | ">?" | ">=?" | "<?" | "<=?" | " IS ?" | " IN ?" | "<>?" | " IS NOT ?" | " IS NULL" |
 *            " IS NOT NULL"
 *
 * The last four come with attributes only; the two without "?" have an argument, too, of no meaning. The n-th term
 * takes the n-th argument of xFilter; idxNum is their number. After " IN " the argument is a whole list
 * (sqlite3_vtab_in_first), else one value. What a plan promises (no more than `omit` of exact tests, and at most one
 * row) holds for any later state of the array, since a statement may be kept for long.
 *
 * A text that does not fit is an error, not SQLITE_SCHEMA: with that SQLite starts the statement again, and rows that it
 * has given out come twice.
 */
#include "extension.h"

#include <ctype.h>

#define TERMS_MOST 64 /* constraints beyond these are left to SQLite */

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
  return column < shown ? table->columns[column].name : table->hidden[column - shown];
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool is_plain(const char *name) {
  if (isdigit((unsigned char)*name) || !*name) return false;
  while (is_word(*name)) name++;
  return !*name;
}

char *tsx_access_encode(const tsx_table *table, const tsx_term *terms, uint32_t count) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  for (uint32_t i = 0; i < count; i++) {
    if (i) sqlite3_str_appendall(out, " AND ");
    if (!table->array) {
      sqlite3_str_appendf(out, "#%d", terms[i].column - tsx_table_shown(table));
    } else {
      const char *name = column_name(table, terms[i].column);
      sqlite3_str_appendf(out, is_plain(name) ? "%w" : "\"%w\"", name);
    }
    sqlite3_str_appendall(out, operators[terms[i].op]);
  }
  char *text = sqlite3_str_finish(out);
  return text || count ? text : sqlite3_mprintf(""); /* an empty string builder gives NULL */
}

/* Where the operator begins, if p begins with this name; else NULL. */
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

static const char *read_name(const tsx_table *table, const char *p, int *column) {
  if (*p == '#' && (p[1] == '0' || p[1] == '1')) {
    *column = TSX_AS_OF(table) + (p[1] - '0');
    return p + 2;
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

int tsx_access_decode(const tsx_table *table, const char *text, tsx_term *terms, uint32_t most, uint32_t *count) {
  uint32_t n = 0;
  for (const char *p = text; p && *p;) {
    int column, op = OPERATOR_COUNT;
    if (n && strncmp(p, " AND ", 5)) return SQLITE_ERROR;
    if (n) p += 5;
    if (n == most || !(p = read_name(table, p, &column))) return SQLITE_ERROR;
    for (int i = 0; i < OPERATOR_COUNT; i++)
      if (!strncmp(p, operators[i], strlen(operators[i]))) op = i;
    if (op == OPERATOR_COUNT) return SQLITE_ERROR;
    p += strlen(operators[op]);
    terms[n++] = (tsx_term){column, (tsx_op)op};
  }
  *count = n;
  return SQLITE_OK;
}

/* ---- Choosing ---------------------------------------------------------------------------------------------------- */

static int op_of(unsigned char op) {
  switch (op) {
  case SQLITE_INDEX_CONSTRAINT_EQ: return TSX_EQ;
  case SQLITE_INDEX_CONSTRAINT_GT: return TSX_GT;
  case SQLITE_INDEX_CONSTRAINT_GE: return TSX_GE;
  case SQLITE_INDEX_CONSTRAINT_LT: return TSX_LT;
  case SQLITE_INDEX_CONSTRAINT_LE: return TSX_LE;
  case SQLITE_INDEX_CONSTRAINT_IS: return TSX_IS;
  case SQLITE_INDEX_CONSTRAINT_NE: return TSX_NE;
  case SQLITE_INDEX_CONSTRAINT_ISNOT: return TSX_ISNOT;
  case SQLITE_INDEX_CONSTRAINT_ISNULL: return TSX_ISNULL;
  case SQLITE_INDEX_CONSTRAINT_ISNOTNULL: return TSX_NOTNULL;
  default: return -1;
  }
}

typedef struct choice {
  tsx_table *table;
  sqlite3_index_info *info;
  bool utf16;
  uint32_t count;
  tsx_term terms[TERMS_MOST];
  sqlite3_value *rights[TERMS_MOST]; /* constants among the right sides; NULL where not known */
  bool time_taken[2]; /* as_of, since */
} choice;

static void take(choice *c, int i, int column, tsx_op op, sqlite3_value *right, bool omit) {
  c->rights[c->count] = right;
  c->terms[c->count++] = (tsx_term){column, op};
  c->info->aConstraintUsage[i].argvIndex = (int)c->count;
  c->info->aConstraintUsage[i].omit = omit;
}

/* as_of and since are arguments: an equality that cannot be used now makes this plan impossible, or the answer would be
 * wrong. */
static int choose_time(choice *c, int i, int which) {
  const struct sqlite3_index_constraint *constraint = &c->info->aConstraint[i];
  int op = op_of(constraint->op);
  if (op != TSX_EQ && op != TSX_IS) return SQLITE_OK;
  if (!constraint->usable) return SQLITE_CONSTRAINT;
  if (c->time_taken[which]) return SQLITE_OK;
  c->time_taken[which] = true;
  take(c, i, constraint->iColumn, (tsx_op)op, NULL, true);
  return SQLITE_OK;
}

/* NULL tests of attributes. Labels other than text may stand for NULL themselves. */
static void choose_null_test(choice *c, int i, tsx_op op) {
  const struct sqlite3_index_constraint *constraint = &c->info->aConstraint[i];
  const tsx_column *column = &c->table->columns[constraint->iColumn];
  if (column->description->is_dimension || (column->form == TSX_LABEL && !tsx_ranges_possible(column))) return;
  take(c, i, constraint->iColumn, op, NULL, true);
}

static void choose_field(choice *c, int i) {
  const struct sqlite3_index_constraint *constraint = &c->info->aConstraint[i];
  const tsx_column *column = &c->table->columns[constraint->iColumn];
  int op = op_of(constraint->op);
  if (!constraint->usable || op < 0 || c->count == TERMS_MOST) return;
  if (op == TSX_ISNULL || op == TSX_NOTNULL) {
    choose_null_test(c, i, (tsx_op)op);
    return;
  }
  if (column->description->is_dimension ? op >= TSX_NE : !tsx_ranges_possible(column)) return;
  bool text = column->form == TSX_TEXT || column->form == TSX_DATETIME || column->form == TSX_LABEL;
  if (text && sqlite3_stricmp(sqlite3_vtab_collation(c->info, i), "BINARY")) return;
  sqlite3_value *right = NULL;
  bool in = op == TSX_EQ && sqlite3_vtab_in(c->info, i, -1);
  if (in) {
    sqlite3_vtab_in(c->info, i, 1);
    op = TSX_IN;
  } else if (sqlite3_vtab_rhs_value(c->info, i, &right) != SQLITE_OK) {
    right = NULL;
  }
  /* The members of a list on a TEXT column are text: its affinity has been applied to them. */
  tsx_op compared = op == TSX_ISNOT ? TSX_EQ : (tsx_op)op;
  bool exact = tsx_ranges_exact(column, compared, right, c->utf16) || (in && text && !c->utf16 && !column->mixed);
  take(c, i, constraint->iColumn, (tsx_op)op, right, exact);
}

/* Known right sides as ranges, for the estimate; `ranges` has room for one tsr_ranges a term and keeps its values in
 * `values`. */
static void known_ranges(const choice *c, tsr_ranges *dimensions, tsr_ranges *terms, tsx_ranges *values, bool *known) {
  for (uint32_t i = 0; i < c->count; i++) {
    known[i] = false;
    if (c->terms[i].column >= (int)c->table->column_count || !c->rights[i]) continue;
    const tsx_column *column = &c->table->columns[c->terms[i].column];
    if (!column->description->is_dimension) continue;
    tsx_ranges_make(column, c->terms[i].op, c->rights[i], c->utf16, &values[i]);
    known[i] = true;
    if (values[i].count == TSX_EVERYTHING) continue;
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

/* How many different values a dimension may take within the box, as far as it can be told. */
static double width(const tsx_column *column, const tsr_interval *box, double rows) {
  uint64_t size = tsr_datatype_size(column->description->datatype);
  double spread = rows;
  if (box && column->form != TSX_TEXT && column->form != TSX_FLOAT32 && column->form != TSX_FLOAT64) {
    uint64_t low = 0, high = 0;
    memcpy(&low, box->low, size);
    memcpy(&high, box->high, size);
    uint64_t mask = size == 8 ? UINT64_MAX : ((uint64_t)1 << size * 8) - 1;
    spread = (double)((high - low) & mask) + 1;
  }
  return spread < rows ? spread : rows;
}

/* The part of all cells that a comparison with an attribute is likely to leave. */
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

typedef struct cost {
  double rows, cells;
} cost;

/* Rows and cells from the fragments' metadata; right sides that are not known yet count by their operators. */
static cost estimate(choice *c) {
  cost result = {1e6, 1e6};
  tsx_table *table = c->table;
  tsr_error error = {0};
  uint32_t dimension_count = table->schema->dimension_count;
  tsr_ranges *dimensions = sqlite3_malloc64(dimension_count * sizeof *dimensions);
  tsr_ranges *terms = sqlite3_malloc64((c->count + 1) * sizeof *terms);
  tsx_ranges *values = sqlite3_malloc64((c->count + 1) * sizeof *values);
  bool known[TERMS_MOST];
  tsx_snapshot *snapshot = NULL;
  tsr_estimate estimate;
  if (!dimensions || !terms || !values) goto done;
  for (uint32_t d = 0; d < dimension_count; d++) dimensions[d] = (tsr_ranges){.all = true};
  known_ranges(c, dimensions, terms, values, known);
  tsr_request request = {.dimensions = dimensions};
  const tsr_interval *box = NULL;
  if (tsx_array_snapshot(table->connection, table->array, table->schema, table->options.since, table->options.as_of,
                         false, &snapshot, &error) < 0 ||
      tsr_request_estimate(snapshot->core, &request, &estimate, &error) < 0)
    goto done;
  if (tsr_snapshot_non_empty_domain(snapshot->core, &box, &error) <= 0) box = NULL;
  result = (cost){estimate.rows, estimate.cells};
  for (uint32_t i = 0; i < c->count; i++) {
    if (c->terms[i].column >= (int)table->column_count || known[i]) continue;
    const tsx_column *column = &table->columns[c->terms[i].column];
    if (!column->description->is_dimension) { /* its tiles are decoded all the same */
      result.rows *= selectivity(c->terms[i].op);
      continue;
    }
    double share = 0.25, wide = width(column, box ? &box[column->field] : NULL, estimate.rows + 1);
    if (c->terms[i].op == TSX_EQ || c->terms[i].op == TSX_IS) share = 1 / wide;
    if (c->terms[i].op == TSX_IN) share = wide > 10 ? 10 / wide : 1;
    result.rows *= share;
    result.cells *= share;
  }
done:
  tsx_snapshot_release(snapshot);
  sqlite3_free(dimensions);
  sqlite3_free(terms);
  sqlite3_free(values);
  return result;
}

/* At most one row: every dimension is compared exactly for equality with one value, and coordinates are unique. */
static bool is_unique(const choice *c) {
  const tsx_table *table = c->table;
  if (!table->schema || table->schema->allows_duplicates) return false;
  uint32_t equal = 0;
  for (uint32_t d = 0; d < table->schema->dimension_count; d++) {
    bool found = false;
    for (uint32_t i = 0; i < c->count && !found; i++) {
      if (c->terms[i].column >= (int)table->column_count) continue;
      const tsx_column *column = &table->columns[c->terms[i].column];
      found = column->field == d && (c->terms[i].op == TSX_EQ || c->terms[i].op == TSX_IS) &&
              tsx_ranges_exact(column, c->terms[i].op, c->rights[i], c->utf16);
    }
    equal += found;
  }
  return equal == table->schema->dimension_count;
}

int tsx_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  tsx_table *table = (tsx_table *)vtab;
  choice c = {.table = table, .info = info, .utf16 = tsx_connection_utf16(table->connection)};
  tsr_error error = {0};
  bool missing = tsx_table_ready(table, &error) < 0; /* xOpen says so */
  int as_of = missing ? tsx_table_shown(table) : TSX_AS_OF(table);
  for (int i = 0; i < info->nConstraint; i++) { /* times first: they must not be left out where a plan is full */
    int column = info->aConstraint[i].iColumn;
    if (column != as_of && column != as_of + 1) continue;
    int code = choose_time(&c, i, column - as_of);
    if (code != SQLITE_OK) return code;
  }
  for (int i = 0; i < info->nConstraint && !missing; i++) {
    int column = info->aConstraint[i].iColumn;
    if (column >= 0 && column < (int)table->column_count && table->columns[column].description->is_dimension)
      choose_field(&c, i);
  }
  for (int i = 0; i < info->nConstraint; i++) { /* attributes last: a full plan does without them first */
    int column = info->aConstraint[i].iColumn;
    if (column >= 0 && column < (int)table->column_count && !table->columns[column].description->is_dimension)
      choose_field(&c, i);
  }
  cost total = missing ? (cost){1e6, 1e6} : estimate(&c);
  bool unique = !missing && is_unique(&c);
  if (unique) {
    info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    if (total.rows > 1) total.rows = 1;
  }
  info->idxNum = (int)c.count;
  info->idxStr = tsx_access_encode(table, c.terms, c.count);
  if (!info->idxStr) return SQLITE_NOMEM;
  info->needToFreeIdxStr = 1;
  /* A row costs a step; a decoded cell about a fiftieth of one, if its tile is not in the cache. */
  info->estimatedCost = 4 + total.rows + total.cells / 50;
  info->estimatedRows = total.rows < 1 ? 1 : total.rows > 4e18 ? (sqlite3_int64)4e18 : (sqlite3_int64)total.rows;
  return SQLITE_OK;
}
