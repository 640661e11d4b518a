/* changes_sql.c: the statements that find what has changed. They read states of the source table, `t(as_of)`, and what
 * commits have touched, `t(as_of, pointer)`: what a row shows is by definition what two reads of the table show.
 *
 * Arrays with duplicates: at each coordinate the bags of rows are compared. Equal rows are numbered, so that EXCEPT
 * leaves those in excess. */
#include "table/changes.h"
#include "table/table_internal.h"

const char *const tsx_changes_operators[TSX_CHANGES_OPERATORS] = {"=", "<", "<=", ">", ">="};

int tsx_changes_field(const tsx_changes_table *t, int column) {
  const int label = column - (tsx_changes_arguments(t) + 3);
  if (column >= 1 && column <= t->dimensions) return column - 1;
  return label >= 0 && label < t->labels ? t->dimensions + t->attributes + label : -1;
}

static int first_label(const tsx_changes_table *t) { return t->dimensions + t->attributes; }

/* Appends the fields `from` to `end` - 1 of an alias, each after ", ". */
static void append_fields(const tsx_changes_table *t, sqlite3_str *out, const char *alias, int from, int end) {
  for (int i = from; i < end; i++) sqlite3_str_appendf(out, ", %s.\"%w\"", alias, t->fields[i]);
}

static void append_dimensions(const tsx_changes_table *t, sqlite3_str *out, const char *alias) {
  append_fields(t, out, alias, 0, t->dimensions);
}

static void append_labels(const tsx_changes_table *t, sqlite3_str *out, const char *alias) {
  append_fields(t, out, alias, first_label(t), first_label(t) + t->labels);
}

/* Appends the pairs of old and new values; an alias that is NULL has none. */
static void append_pairs(const tsx_changes_table *t, sqlite3_str *out, const char *before, const char *after) {
  for (int i = t->dimensions; i < first_label(t); i++)
    for (int side = 0; side < 2; side++) {
      const char *alias = side ? after : before;
      if (alias) sqlite3_str_appendf(out, ", %s.\"%w\"", alias, t->fields[i]);
      else sqlite3_str_appendall(out, ", NULL");
    }
}

static void append_keys(const tsx_changes_table *t, sqlite3_str *out, const char *a, const char *b) {
  for (int i = 0; i < t->dimensions; i++)
    sqlite3_str_appendf(out, "%s%s.\"%w\" = %s.\"%w\"", i ? " AND " : "", b, t->fields[i], a, t->fields[i]);
}

/* Appends the lookup of the cell of `a` in a state, as `b`. Cells of a dense array count if they were written. */
static void append_lookup(const tsx_changes_table *t, sqlite3_str *out, const char *join, int state, const char *a,
                          const char *b) {
  sqlite3_str_appendf(out, " %s %s(?%d, ?%d) %s ON ", join, t->source, state, TSX_CHANGES_EXPECTED, b);
  append_keys(t, out, a, b);
  if (t->dense) sqlite3_str_appendf(out, " AND %s.\"%w\" IS NOT NULL", b, t->written_at);
}

static void append_where(const tsx_changes_table *t, sqlite3_str *out, const char *alias,
                         const tsx_changes_plan *plan) {
  for (int i = 0; i < plan->count; i++)
    sqlite3_str_appendf(out, "%s %s.\"%w\" %s ?%d", i ? " AND" : " WHERE", alias, t->fields[plan->terms[i].field],
                        tsx_changes_operators[plan->terms[i].op], TSX_CHANGES_VALUES + i);
}

static void append_order(const tsx_changes_table *t, sqlite3_str *out, const char *alias,
                         const tsx_changes_plan *plan) {
  for (int i = 0; i < plan->order_count; i++)
    sqlite3_str_appendf(out, "%s %s.\"%w\"%s", i ? "," : " ORDER BY", alias, t->fields[plan->order[i].dimension],
                        plan->order[i].descending ? " DESC" : "");
}

/* Appends what commits have touched, as `alias`. */
static void append_touched(const tsx_changes_table *t, sqlite3_str *out, int pointer, const char *alias) {
  sqlite3_str_appendf(out, " FROM %s(?%d, ?%d) %s", t->source, TSX_CHANGES_AFTER, pointer, alias);
}

char *tsx_changes_written_sql(const tsx_changes_table *t, const tsx_changes_plan *plan, bool merged) {
  sqlite3_str *out = sqlite3_str_new(t->connection->db);
  const bool looks = t->dense && merged;
  sqlite3_str_appendf(out, "SELECT iif(b.\"%w\" IS NULL, 'insert', 'update')", t->fields[0]);
  append_dimensions(t, out, "a");
  append_pairs(t, out, "b", looks ? "n" : "a");
  sqlite3_str_appendf(out, ", nullif(%s.\"%w\", %lld)", looks ? "n" : "a", t->written_at, (long long)TSX_OWN_TIME);
  append_labels(t, out, "a");
  append_touched(t, out, TSX_CHANGES_WRITTEN, "a");
  if (looks) {
    sqlite3_str_appendf(out, " CROSS JOIN %s(?%d) n ON ", t->source, TSX_CHANGES_AFTER);
    append_keys(t, out, "a", "n");
  }
  append_lookup(t, out, "LEFT JOIN", TSX_CHANGES_BEFORE, "a", "b");
  append_where(t, out, "a", plan);
  append_order(t, out, "a", plan);
  return sqlite3_str_finish(out);
}

/* The time is that of the delete. Where a cell was written at that very time, it is the last delete before which the
 * coordinates had a cell. */
static void append_deleted_at(const tsx_changes_table *t, sqlite3_str *out) {
  sqlite3_str_appendf(out,
                      ", CASE k.\"%w\" WHEN %lld THEN NULL WHEN 0 THEN (SELECT max(l.value) FROM json_each(?%d) l "
                      "WHERE EXISTS(SELECT 1 FROM %s(l.value - 1) z WHERE ",
                      t->written_at, (long long)TSX_OWN_TIME, TSX_CHANGES_DELETES, t->source);
  append_keys(t, out, "k", "z");
  sqlite3_str_appendf(out, ")) ELSE k.\"%w\" END", t->written_at);
}

char *tsx_changes_dropped_sql(const tsx_changes_table *t, const tsx_changes_plan *plan) {
  sqlite3_str *out = sqlite3_str_new(t->connection->db);
  sqlite3_str_appendall(out, "SELECT 'delete'");
  append_dimensions(t, out, "k");
  append_pairs(t, out, "b", NULL);
  append_deleted_at(t, out);
  append_labels(t, out, "k");
  append_touched(t, out, TSX_CHANGES_DROPPED, "k");
  append_lookup(t, out, "CROSS JOIN", TSX_CHANGES_BEFORE, "k", "b");
  append_where(t, out, "k", plan);
  append_order(t, out, "k", plan);
  return sqlite3_str_finish(out);
}

/* Appends the touched coordinates, each once, with the last time `at` and their labels, as a common table k. Where
 * tsx_gone is 1, deletes have dropped the newest cell. */
static void append_key_table(const tsx_changes_table *t, sqlite3_str *out, const tsx_changes_plan *plan) {
  sqlite3_str_appendall(out, "WITH k AS MATERIALIZED (SELECT max(s.tsx_at) AS tsx_at, max(s.tsx_gone) AS tsx_gone");
  append_dimensions(t, out, "s");
  for (int i = first_label(t); i < first_label(t) + t->labels; i++)
    sqlite3_str_appendf(out, ", min(s.\"%w\") AS \"%w\"", t->fields[i], t->fields[i]);
  sqlite3_str_appendall(out, " FROM (");
  for (int pass = 0; pass < (t->dense ? 1 : 2); pass++) {
    sqlite3_str_appendf(out, "%sSELECT a.\"%w\" AS tsx_at, %d AS tsx_gone", pass ? " UNION ALL " : "", t->written_at,
                        pass);
    append_dimensions(t, out, "a");
    append_labels(t, out, "a");
    append_touched(t, out, pass ? TSX_CHANGES_DROPPED : TSX_CHANGES_WRITTEN, "a");
    append_where(t, out, "a", plan);
  }
  sqlite3_str_appendall(out, ") s GROUP BY ");
  for (int i = 0; i < t->dimensions; i++) sqlite3_str_appendf(out, "%s s.\"%w\"", i ? "," : "", t->fields[i]);
  sqlite3_str_appendchar(out, 1, ')');
}

static void append_bag(const tsx_changes_table *t, sqlite3_str *out, const char *name, int state) {
  sqlite3_str_appendf(out, ", %s AS (SELECT row_number() OVER (PARTITION BY 1", name);
  append_fields(t, out, "b", 0, first_label(t));
  sqlite3_str_appendall(out, ") AS tsx_number");
  append_fields(t, out, "b", 0, first_label(t));
  sqlite3_str_appendall(out, " FROM k");
  append_lookup(t, out, "CROSS JOIN", state, "k", "b");
  sqlite3_str_appendchar(out, 1, ')');
}

char *tsx_changes_bags_sql(const tsx_changes_table *t, const tsx_changes_plan *plan) {
  sqlite3_str *out = sqlite3_str_new(t->connection->db);
  append_key_table(t, out, plan);
  append_bag(t, out, "o", TSX_CHANGES_BEFORE);
  append_bag(t, out, "p", TSX_CHANGES_AFTER);
  for (int side = 0; side < 2; side++) {
    sqlite3_str_appendf(out, "%s SELECT '%s'", side ? " UNION ALL" : "", side ? "insert" : "delete");
    append_dimensions(t, out, "k");
    append_pairs(t, out, side ? NULL : "x", side ? "x" : NULL);
    sqlite3_str_appendf(out, ", nullif(k.tsx_at, %lld)", (long long)TSX_OWN_TIME);
    append_labels(t, out, "k");
    sqlite3_str_appendf(out, " FROM (SELECT * FROM %s EXCEPT SELECT * FROM %s) x JOIN k ON ", side ? "p" : "o",
                        side ? "o" : "p");
    append_keys(t, out, "x", "k");
  }
  return sqlite3_str_finish(out);
}

/* With duplicates each coordinate comes as a delete, and then with all of its cells. Coordinates whose newest cell
 * deletes have dropped are not looked up: nothing equals NULL. */
char *tsx_changes_feed_sql(const tsx_changes_table *t, const tsx_changes_plan *plan) {
  sqlite3_str *out = sqlite3_str_new(t->connection->db);
  append_key_table(t, out, plan);
  sqlite3_str_appendf(out, " SELECT iif(b.\"%w\" IS NULL, 'delete', 'write')", t->fields[0]);
  append_dimensions(t, out, "k");
  append_pairs(t, out, NULL, "b");
  sqlite3_str_appendf(out, ", iif(b.\"%w\" IS NULL, nullif(k.tsx_at, 0), b.\"%w\")", t->fields[0], t->written_at);
  append_labels(t, out, "k");
  sqlite3_str_appendall(out, " FROM k");
  if (t->duplicates) sqlite3_str_appendall(out, " CROSS JOIN (SELECT 0 AS tsx_cells UNION ALL SELECT 1) w");
  append_lookup(t, out, "LEFT JOIN", TSX_CHANGES_AFTER, "k", "b");
  if (!t->dense && !t->duplicates)
    sqlite3_str_appendf(out, " AND b.\"%w\" = iif(k.tsx_gone, NULL, k.\"%w\")", t->fields[0], t->fields[0]);
  if (t->duplicates)
    sqlite3_str_appendf(out, " AND w.tsx_cells WHERE w.tsx_cells = 0 OR b.\"%w\" IS NOT NULL", t->fields[0]);
  append_order(t, out, "k", plan);
  return sqlite3_str_finish(out);
}

char *tsx_changes_probe_sql(const tsx_changes_table *t, const tsx_changes_plan *plan) {
  sqlite3_str *out = sqlite3_str_new(t->connection->db);
  sqlite3_str_appendf(out, "SELECT 1 FROM %s(?%d) b", t->source, TSX_CHANGES_BEFORE);
  append_where(t, out, "b", plan);
  sqlite3_str_appendall(out, " LIMIT 1");
  return sqlite3_str_finish(out);
}
