/* changes_table.c: the module tessera_changes: what changed in a table between two times, as rows with old and new values.
 *
 * CREATE VIRTUAL TABLE temp.c USING tessera_changes(t); SELECT ... FROM c(before, after, mode).
 *
 * A scan runs statements on the table itself, `t(as_of, since)`: what it shows at a key is by definition what two reads
 * of the table show. For each step from a time lo to a time hi there are two:
 *
 *   - Inserts and updates are among the cells written in (lo, hi] that are visible at hi. Each looks its old row up.
 *   - Deletes are the keys at lo that are gone at hi. They are looked for only if a delete was committed in (lo, hi], or
 *     if the transaction has changed the array.
 *
 * Mode 'every' makes a step of each commit time; of merged sparse fragments, the times of their cells tell them.
 *
 * Sections: the table; the plan; statements; times; the cursor.
 */
#include "table/table.h"

#include <stdio.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "definition/arguments.h"
#include "sql/names.h"
#include "sql/statement.h"

#define LATEST INT64_C(253402300799999) /* an as_of that shows everything committed, and no row of the transaction */

/* ---- The table --------------------------------------------------------------------------------------------------- */

typedef struct changes_table {
  sqlite3_vtab base;
  tsx_connection *connection;
  char *name; /* of this table, for messages */
  char *source; /* quoted, "schema"."t" */
  char *path; /* db:"schema"."t" */
  bool dense;
  int dimensions, attributes;
  char **names; /* of the dimensions, then of the attributes */
} changes_table;

/* Columns: change, the dimensions, a pair for each attribute, changed_at; then the hidden before, after, mode. */
static int first_pair(const changes_table *t) { return 1 + t->dimensions; }
static int changed_at(const changes_table *t) { return first_pair(t) + 2 * t->attributes; }

static int disconnect(sqlite3_vtab *vtab) {
  changes_table *t = (changes_table *)vtab;
  for (int i = 0; t->names && i < t->dimensions + t->attributes; i++) sqlite3_free(t->names[i]);
  sqlite3_free(t->names);
  sqlite3_free(t->name);
  sqlite3_free(t->source);
  sqlite3_free(t->path);
  tsx_connection_remove_table(t->connection);
  tsx_connection_drop(t->connection);
  sqlite3_free(t);
  return SQLITE_OK;
}

static bool is_text(sqlite3_stmt *row, int column, const char *text) {
  const char *own = (const char *)sqlite3_column_text(row, column);
  return own && strcmp(own, text) == 0;
}

/* Reads the names of the columns, and whether the array is dense. */
static int read_fields(changes_table *t, char **message) {
  sqlite3 *db = t->connection->db;
  sqlite3_stmt *rows;
  int code = tsx_sql_first(db, sqlite3_mprintf("SELECT kind, duplicates FROM tessera_array(%Q)", t->path), &rows);
  if (code == SQLITE_ROW) {
    t->dense = is_text(rows, 0, "dense");
    if (sqlite3_column_int(rows, 1)) {
      *message = sqlite3_mprintf("tessera_changes: %s allows duplicates: compare two reads of it", t->path);
      code = SQLITE_ERROR;
    }
  } else if (code != SQLITE_DONE) *message = sqlite3_mprintf("tessera_changes: %s", sqlite3_errmsg(db));
  sqlite3_finalize(rows);
  if (code != SQLITE_ROW) return code == SQLITE_DONE ? SQLITE_ERROR : code;
  code = tsx_sql_first(db, sqlite3_mprintf("SELECT name, role FROM tessera_schema(%Q) WHERE role <> 'label'", t->path),
                       &rows);
  for (; code == SQLITE_ROW; code = sqlite3_step(rows)) {
    const int count = t->dimensions + t->attributes;
    char **grown = sqlite3_realloc64(t->names, (sqlite3_uint64)(count + 1) * sizeof *grown);
    if (!grown) break;
    t->names = grown;
    if (!(t->names[count] = sqlite3_mprintf("%s", sqlite3_column_text(rows, 0)))) break;
    if (is_text(rows, 1, "dimension")) t->dimensions++;
    else t->attributes++;
  }
  sqlite3_finalize(rows);
  return code == SQLITE_DONE ? SQLITE_OK : code == SQLITE_ROW ? SQLITE_NOMEM : code;
}

/* Appends the declared type of a column of the source. */
static void append_type(changes_table *t, sqlite3_str *out, const char *name) {
  sqlite3_stmt *row;
  if (tsx_sql_prepare(t->connection->db, sqlite3_mprintf("SELECT \"%w\" FROM %s", name, t->source), &row) ==
      SQLITE_OK) {
    const char *type = sqlite3_column_decltype(row, 0);
    if (type) sqlite3_str_appendf(out, " %s", type);
  }
  sqlite3_finalize(row);
}

static int declare(changes_table *t) {
  sqlite3_str *out = sqlite3_str_new(t->connection->db);
  sqlite3_str_appendall(out, "CREATE TABLE x(change TEXT");
  for (int i = 0; i < t->dimensions + t->attributes; i++)
    for (int side = 0; side < (i < t->dimensions ? 1 : 2); side++) {
      sqlite3_str_appendf(out, ", \"%s%w\"", i < t->dimensions ? "" : side ? "new_" : "old_", t->names[i]);
      append_type(t, out, t->names[i]);
    }
  sqlite3_str_appendall(out, ", changed_at INTEGER, before BLOB HIDDEN, after BLOB HIDDEN, mode BLOB HIDDEN)");
  char *text = sqlite3_str_finish(out);
  const int code = text ? tsx_declare(t->connection->db, text) : SQLITE_NOMEM;
  sqlite3_free(text);
  return code;
}

static int connect(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                   char **message) {
  char *schema = NULL, *name = NULL;
  tsr_error error = {0};
  if (count != 4) {
    *message = sqlite3_mprintf("tessera_changes needs a table: USING tessera_changes(t)");
    return SQLITE_ERROR;
  }
  if (tsx_table_name_parse(arguments[3], &schema, &name, &error) < 0) {
    *message = sqlite3_mprintf("tessera_changes: %s", error.message);
    return SQLITE_ERROR;
  }
  changes_table *t = sqlite3_malloc64(sizeof *t);
  if (t) {
    memset(t, 0, sizeof *t);
    t->connection = argument;
    tsx_connection_hold(t->connection);
    tsx_connection_add_table(t->connection);
    const char *home = schema ? schema : strcmp(arguments[1], "temp") == 0 ? "main" : arguments[1];
    t->name = sqlite3_mprintf("%s", arguments[2]);
    t->source = sqlite3_mprintf("\"%w\".\"%w\"", home, name);
    t->path = sqlite3_mprintf("db:\"%w\".\"%w\"", home, name);
  }
  sqlite3_free(schema);
  sqlite3_free(name);
  if (!t) return SQLITE_NOMEM;
  int code = t->name && t->source && t->path ? read_fields(t, message) : SQLITE_NOMEM;
  if (code == SQLITE_OK) code = declare(t);
  if (code != SQLITE_OK) disconnect(&t->base);
  else *vtab = &t->base;
  return code;
}

/* Apart from xConnect, so that the module is not eponymous. */
static int create(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                  char **message) {
  return connect(db, argument, count, arguments, vtab, message);
}

/* ---- The plan ---------------------------------------------------------------------------------------------------- */

/* idxStr has the comparisons of dimensions, each as a digit of `operators` and the number of the dimension; idxNum has
 * a bit for each hidden argument. The arguments come first. */
static const char *const operators[] = {"=", "<", "<=", ">", ">="};

static int operator_of(unsigned char op) {
  switch (op) {
  case SQLITE_INDEX_CONSTRAINT_EQ: return 0;
  case SQLITE_INDEX_CONSTRAINT_LT: return 1;
  case SQLITE_INDEX_CONSTRAINT_LE: return 2;
  case SQLITE_INDEX_CONSTRAINT_GT: return 3;
  case SQLITE_INDEX_CONSTRAINT_GE: return 4;
  default: return -1;
  }
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  const changes_table *t = (const changes_table *)vtab;
  const int hidden = changed_at(t) + 1;
  int at = 0, given = 0;
  for (int h = 0; h < 3; h++)
    for (int i = 0; i < info->nConstraint; i++) {
      const struct sqlite3_index_constraint *c = &info->aConstraint[i];
      if (c->iColumn != hidden + h || given >> h & 1) continue;
      if (c->op != SQLITE_INDEX_CONSTRAINT_EQ && c->op != SQLITE_INDEX_CONSTRAINT_IS) continue;
      if (!c->usable) return SQLITE_CONSTRAINT;
      given |= 1 << h;
      info->aConstraintUsage[i].argvIndex = ++at;
      info->aConstraintUsage[i].omit = 1;
    }
  sqlite3_str *out = sqlite3_str_new(t->connection->db);
  for (int i = 0; i < info->nConstraint; i++) {
    const struct sqlite3_index_constraint *c = &info->aConstraint[i];
    const int op = operator_of(c->op);
    if (!c->usable || op < 0 || c->iColumn < 1 || c->iColumn > t->dimensions) continue;
    sqlite3_str_appendf(out, "%d:%d ", op, c->iColumn - 1);
    info->aConstraintUsage[i].argvIndex = ++at;
  }
  info->idxNum = given;
  info->idxStr = sqlite3_str_finish(out);
  info->needToFreeIdxStr = 1;
  info->estimatedRows = 1000;
  info->estimatedCost = given & 1 ? 1e6 / (1 + at) : 1e99;
  return SQLITE_OK;
}

/* ---- Statements -------------------------------------------------------------------------------------------------- */

/* Parameters: ?1 lo, ?2 hi (NULL: with the transaction's rows), ?3 lo + 1, ?4 times of deletes as JSON; then the values
 * of the comparisons. */
#define FIRST_VALUE 5

static void append_where(const changes_table *t, sqlite3_str *out, const char *alias, const char *plan) {
  int op, dimension, value = FIRST_VALUE, used;
  for (; plan && sscanf(plan, "%d:%d %n", &op, &dimension, &used) == 2; plan += used)
    sqlite3_str_appendf(out, " AND %s.\"%w\" %s ?%d", alias, t->names[dimension], operators[op], value++);
}

static void append_keys(const changes_table *t, sqlite3_str *out, const char *a, const char *b) {
  for (int i = 0; i < t->dimensions; i++)
    sqlite3_str_appendf(out, "%s%s.\"%w\" = %s.\"%w\"", i ? " AND " : "", b, t->names[i], a, t->names[i]);
}

static void append_columns(const changes_table *t, sqlite3_str *out, const char *alias) {
  for (int i = 0; i < t->dimensions; i++) sqlite3_str_appendf(out, "%s%s.\"%w\"", i ? ", " : "", alias, t->names[i]);
}

/* Inserts and updates. */
static char *written_sql(const changes_table *t, const char *plan) {
  sqlite3_str *out = sqlite3_str_new(t->connection->db);
  sqlite3_str_appendf(out, "SELECT iif(b.\"%w\" IS NULL, 'insert', 'update'), ", t->names[0]);
  append_columns(t, out, "a");
  for (int i = t->dimensions; i < t->dimensions + t->attributes; i++)
    sqlite3_str_appendf(out, ", b.\"%w\", a.\"%w\"", t->names[i], t->names[i]);
  sqlite3_str_appendf(out, ", a.written_at FROM %s(?2, ?3) a LEFT JOIN %s(?1) b ON ", t->source, t->source);
  append_keys(t, out, "a", "b");
  if (t->dense) sqlite3_str_appendall(out, " AND b.written_at IS NOT NULL");
  sqlite3_str_appendf(out, " WHERE %s(b.\"%w\" IS NULL", t->dense ? "a.written_at IS NOT NULL AND " : "", t->names[0]);
  for (int i = t->dimensions; i < t->dimensions + t->attributes; i++)
    sqlite3_str_appendf(out, " OR a.\"%w\" IS NOT b.\"%w\"", t->names[i], t->names[i]);
  sqlite3_str_appendchar(out, 1, ')');
  append_where(t, out, "a", plan);
  return sqlite3_str_finish(out);
}

static void append_state(const changes_table *t, sqlite3_str *out, int time, const char *plan) {
  sqlite3_str_appendall(out, "SELECT ");
  append_columns(t, out, "s");
  sqlite3_str_appendf(out, " FROM %s(?%d) s WHERE 1", t->source, time);
  append_where(t, out, "s", plan);
}

/* Deletes: the time is that of the last delete before which the cell was there; NULL: the transaction's. */
static char *deleted_sql(const changes_table *t, const char *plan) {
  sqlite3_str *out = sqlite3_str_new(t->connection->db);
  sqlite3_str_appendall(out, "SELECT 'delete', ");
  append_columns(t, out, "b");
  for (int i = t->dimensions; i < t->dimensions + t->attributes; i++)
    sqlite3_str_appendf(out, ", b.\"%w\", NULL", t->names[i]);
  sqlite3_str_appendf(out, ", iif(?2 IS NULL AND EXISTS(SELECT 1 FROM %s(%lld) z WHERE ", t->source, (long long)LATEST);
  append_keys(t, out, "b", "z");
  sqlite3_str_appendf(
      out, "), NULL, (SELECT max(l.value) FROM json_each(?4) l WHERE EXISTS(SELECT 1 FROM %s(l.value - 1) z WHERE ",
      t->source);
  append_keys(t, out, "b", "z");
  sqlite3_str_appendall(out, "))) FROM (");
  append_state(t, out, 1, plan);
  sqlite3_str_appendall(out, " EXCEPT ");
  append_state(t, out, 2, plan);
  sqlite3_str_appendf(out, ") k JOIN %s(?1) b ON ", t->source);
  append_keys(t, out, "k", "b");
  return sqlite3_str_finish(out);
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */

typedef struct changes_times { /* the commits of an array, as far as a scan needs them */
  sqlite3_int64 *steps; /* commit times, ascending, from sqlite3_malloc */
  sqlite3_int64 *gone; /* times of deletes, ascending, from sqlite3_malloc */
  int count, gone_count;
  char *deletes; /* the same, as JSON */
  bool merged, lost, own; /* own: the transaction has changed the array */
} changes_times;

static int read_times(const changes_table *t, sqlite3_int64 lo, sqlite3_int64 hi, changes_times *times,
                      tsr_error *error) {
  sqlite3_stmt *path;
  tsx_address address = {0};
  tsr_history *history = NULL;
  int code = tsx_sql_first(t->connection->db, sqlite3_mprintf("SELECT %Q", t->path), &path);
  if (code != SQLITE_ROW) return sqlite3_finalize(path), tsx_out_of_memory(error);
  code = tsx_address_open(t->connection, sqlite3_column_value(path, 0), NULL, NULL, NULL, &address, error);
  sqlite3_finalize(path);
  if (code == TSR_OK && address.array && address.array->transaction) times->own = true;
  else if (code == TSR_OK) code = tsx_address_array(&address, error);
  if (code == TSR_OK) code = tsr_history_open(address.array->core, (uint64_t)lo + 1, UINT64_MAX, &history, error);
  uint64_t count = 0;
  const tsr_history_entry *entries = code == TSR_OK ? tsr_history_entries(history, &count) : NULL;
  sqlite3_str *deletes = sqlite3_str_new(t->connection->db);
  sqlite3_str_appendchar(deletes, 1, '[');
  if (count) times->steps = sqlite3_malloc64(count * sizeof *times->steps);
  if (count) times->gone = sqlite3_malloc64(count * sizeof *times->gone);
  if (count && (!times->steps || !times->gone)) code = tsx_out_of_memory(error);
  for (uint64_t i = 0; code == TSR_OK && i < count; i++) {
    if (entries[i].start > (uint64_t)hi || entries[i].time > (uint64_t)LATEST) continue;
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
  tsr_history_close(history);
  tsx_address_close(&address);
  return code < 0 ? code : times->deletes ? TSR_OK : tsx_out_of_memory(error);
}

/* ---- The cursor -------------------------------------------------------------------------------------------------- */

typedef struct changes_cursor {
  sqlite3_vtab_cursor base;
  sqlite3_stmt *written, *deleted, *current;
  changes_times times;
  sqlite3_int64 lo, hi; /* of the step */
  int step;
  bool every, swapped, present; /* present: `after` is now, with the transaction's rows */
  bool done;
  sqlite3_int64 row;
} changes_cursor;

static void clear(changes_cursor *c) {
  sqlite3_finalize(c->written);
  sqlite3_finalize(c->deleted);
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
  tsx_connection_add_cursor(((changes_table *)vtab)->connection);
  *out = &c->base;
  return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *cursor) {
  const changes_table *t = (const changes_table *)cursor->pVtab;
  clear((changes_cursor *)cursor);
  tsx_connection_remove_cursor(t->connection);
  sqlite3_free(cursor);
  return SQLITE_OK;
}

static int fail_sqlite(changes_cursor *c, int code) {
  const changes_table *t = (const changes_table *)c->base.pVtab;
  return tsx_vtab_fail(c->base.pVtab, code, "%s: %s", t->name, sqlite3_errmsg(t->connection->db));
}

/* Binds the times of a step, and makes the statement for cells written in it the current one. */
static void begin_step(changes_cursor *c, bool last) {
  sqlite3_stmt *const both[] = {c->written, c->deleted};
  for (int i = 0; i < 2; i++) {
    if (!both[i]) continue;
    sqlite3_reset(both[i]);
    sqlite3_bind_int64(both[i], 1, c->lo);
    if (last && c->present) sqlite3_bind_null(both[i], 2);
    else sqlite3_bind_int64(both[i], 2, c->hi);
    sqlite3_bind_int64(both[i], 3, c->lo + 1);
    sqlite3_bind_text(both[i], 4, c->times.deletes, -1, SQLITE_STATIC);
  }
  c->current = c->written;
}

/* Returns true if the step may have deletes. */
static bool deletes_in_step(const changes_cursor *c) {
  if (c->present && c->times.own) return true;
  for (int i = 0; i < c->times.gone_count; i++)
    if (c->times.gone[i] > c->lo && c->times.gone[i] <= c->hi) return true;
  return false;
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
  c->hi = LATEST;
  begin_step(c, true);
  return true;
}

static int next(sqlite3_vtab_cursor *cursor) {
  changes_cursor *c = (changes_cursor *)cursor;
  c->row++;
  for (;;) {
    if (!c->current && !next_step(c)) {
      c->done = true;
      return SQLITE_OK;
    }
    const int code = sqlite3_step(c->current);
    if (code == SQLITE_ROW) return SQLITE_OK;
    if (code != SQLITE_DONE) return fail_sqlite(c, code);
    c->current = c->current == c->written && deletes_in_step(c) ? c->deleted : NULL;
  }
}

/* Reads `before` or `after`; *time is LATEST for 'committed'. */
static int read_time(changes_cursor *c, sqlite3_value *value, const char *name, sqlite3_int64 *time) {
  uint64_t milliseconds;
  tsr_error error = {0};
  const char *text = sqlite3_value_type(value) == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
  *time = LATEST;
  if (text && sqlite3_stricmp(text, "committed") == 0) return SQLITE_OK;
  if (tsx_time_value(value, name, &milliseconds, &error) < 0) return tsx_vtab_error(c->base.pVtab, &error);
  *time = milliseconds < (uint64_t)LATEST ? (sqlite3_int64)milliseconds : LATEST;
  return SQLITE_OK;
}

static int read_mode(changes_cursor *c, sqlite3_value *value) {
  const changes_table *t = (const changes_table *)c->base.pVtab;
  const char *text = value ? (const char *)sqlite3_value_text(value) : NULL;
  c->every = text && sqlite3_stricmp(text, "every") == 0;
  if (!text || c->every || sqlite3_stricmp(text, "net") == 0) return SQLITE_OK;
  return tsx_vtab_fail(c->base.pVtab, SQLITE_ERROR, "%s: mode '%.40s': net or every", t->name, text);
}

/* Finds the steps of merged fragments: the times of cells that are visible before the newest known step, and so on. */
static int find_steps(changes_cursor *c, const changes_table *t) {
  sqlite3_stmt *newest;
  sqlite3_int64 *all = NULL, from = c->hi, count = 0, capacity = 0;
  int code = tsx_sql_prepare(
      t->connection->db,
      sqlite3_mprintf(
          "SELECT max((SELECT coalesce(max(written_at), 0) FROM %s(?1, ?2)), (SELECT coalesce(max(value), 0) "
          "FROM json_each(?3) WHERE value <= ?1))",
          t->source),
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

/* Reads the arguments, and sets the ends of the scan. */
static int read_arguments(changes_cursor *c, int given, sqlite3_value **values) {
  const changes_table *t = (const changes_table *)c->base.pVtab;
  int at = 0;
  sqlite3_value *before = given & 1 ? values[at++] : NULL, *after = given & 2 ? values[at++] : NULL;
  sqlite3_value *mode = given & 4 ? values[at++] : NULL;
  if (!before || sqlite3_value_type(before) == SQLITE_NULL)
    return tsx_vtab_fail(c->base.pVtab, SQLITE_ERROR, "%s: before is missing: give a time or 'committed'", t->name);
  int code = read_mode(c, mode);
  if (code == SQLITE_OK) code = read_time(c, before, "before", &c->lo);
  c->hi = LATEST;
  c->present = !after || sqlite3_value_type(after) == SQLITE_NULL;
  if (code == SQLITE_OK && !c->present) code = read_time(c, after, "after", &c->hi);
  if (code != SQLITE_OK) return code;
  c->swapped = c->lo > c->hi;
  if (c->swapped && c->every)
    return tsx_vtab_fail(c->base.pVtab, SQLITE_ERROR, "%s: 'every' goes forward: before lies after after", t->name);
  if (c->swapped) {
    const sqlite3_int64 lo = c->hi;
    c->hi = c->lo;
    c->lo = lo;
  }
  return SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *cursor, int given, const char *plan, int count, sqlite3_value **values) {
  changes_cursor *c = (changes_cursor *)cursor;
  const changes_table *t = (const changes_table *)cursor->pVtab;
  tsr_error error = {0};
  clear(c);
  int code = read_arguments(c, given, values);
  if (code != SQLITE_OK) return code;
  if (read_times(t, c->lo, c->hi, &c->times, &error) < 0) return tsx_vtab_error(cursor->pVtab, &error);
  if (c->every && c->times.lost)
    return tsx_vtab_fail(cursor->pVtab, SQLITE_ERROR,
                         "%s: versions between before and after are lost: without 'every' the net change can be told; "
                         "tessera_log(%Q) shows what remains",
                         t->name, t->path);
  if (t->dense && c->present && c->times.own)
    return tsx_vtab_fail(cursor->pVtab, SQLITE_ERROR, "%s: the transaction has changed %s: commit first", t->name,
                         t->source);
  if (c->every && c->times.merged && !t->dense && (code = find_steps(c, t)) != SQLITE_OK) return code;
  code = tsx_sql_prepare(t->connection->db, written_sql(t, plan), &c->written);
  if (code == SQLITE_OK && !t->dense && (c->times.gone_count || c->times.own))
    code = tsx_sql_prepare(t->connection->db, deleted_sql(t, plan), &c->deleted);
  if (code != SQLITE_OK) return fail_sqlite(c, code);
  const int arguments = (given & 1) + (given >> 1 & 1) + (given >> 2 & 1);
  for (int i = arguments; i < count; i++) {
    sqlite3_bind_value(c->written, FIRST_VALUE + i - arguments, values[i]);
    if (c->deleted) sqlite3_bind_value(c->deleted, FIRST_VALUE + i - arguments, values[i]);
  }
  c->done = false;
  return next(cursor);
}

static int eof(sqlite3_vtab_cursor *cursor) { return ((const changes_cursor *)cursor)->done; }

/* Shows what a scan back in time shows: the sides exchanged. */
static int column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int number) {
  const changes_cursor *c = (const changes_cursor *)cursor;
  const changes_table *t = (const changes_table *)cursor->pVtab;
  if (number > changed_at(t)) return SQLITE_OK;
  if (number == changed_at(t) && c->every) {
    if (c->step <= c->times.count) sqlite3_result_int64(context, c->hi);
    return SQLITE_OK;
  }
  if (number == 0 && c->swapped) {
    const char *change = (const char *)sqlite3_column_text(c->current, 0);
    if (!change) return SQLITE_NOMEM;
    const char *shown = *change == 'i' ? "delete" : *change == 'd' ? "insert" : "update";
    sqlite3_result_text(context, shown, -1, SQLITE_STATIC);
    return SQLITE_OK;
  }
  if (c->swapped && number >= first_pair(t) && number < changed_at(t))
    number = first_pair(t) + ((number - first_pair(t)) ^ 1);
  sqlite3_result_value(context, sqlite3_column_value(c->current, number));
  return SQLITE_OK;
}

static int rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out) {
  *out = ((const changes_cursor *)cursor)->row;
  return SQLITE_OK;
}

static const sqlite3_module changes_module = {.xCreate = create,
                                              .xConnect = connect,
                                              .xBestIndex = best_index,
                                              .xDisconnect = disconnect,
                                              .xDestroy = disconnect,
                                              .xOpen = open_cursor,
                                              .xClose = close_cursor,
                                              .xFilter = filter,
                                              .xNext = next,
                                              .xEof = eof,
                                              .xColumn = column,
                                              .xRowid = rowid};

int tsx_register_changes(tsx_connection *connection) {
  tsx_connection_hold(connection); /* SQLite calls the destructor, which drops it, even if this call fails */
  return sqlite3_create_module_v2(connection->db, "tessera_changes", &changes_module, connection, tsx_connection_drop);
}
