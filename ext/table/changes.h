/* changes.h: what changed in a table, as rows: the table that changes_table.c shows, and the statements on its source
 * that changes_sql.c writes for it. */
#ifndef TSX_TABLE_CHANGES_H
#define TSX_TABLE_CHANGES_H

#include "table/table.h"

/* Own columns, in this order: change; the dimensions; a pair for each attribute, old and new; changed_at; then hidden
 * ones: before, after, mode; the dimension labels. A row of a statement has the same columns without the three. */
typedef struct tsx_changes_table {
  sqlite3_vtab base;
  tsx_connection *connection;
  char *name; /* of this table, for messages */
  char *source; /* quoted, "schema"."t" */
  char *path; /* db:"schema"."t" */
  bool dense, duplicates;
  int dimensions, attributes, labels;
  char **fields; /* columns of the source: dimensions, the chosen attributes, labels */
  char **columns; /* own columns */
  char *written_at; /* the source's column of that meaning */
  char *gone; /* what a statement is told if the source was gone when the table was connected; or NULL */
} tsx_changes_table;

static inline int tsx_changes_at(const tsx_changes_table *t) { return 1 + t->dimensions + 2 * t->attributes; }
static inline int tsx_changes_arguments(const tsx_changes_table *t) { return tsx_changes_at(t) + 1; }
static inline int tsx_changes_columns(const tsx_changes_table *t) { return tsx_changes_at(t) + 4 + t->labels; }

/* Returns the field of the source that an own column shows, if it is a dimension or a label; else -1. */
int tsx_changes_field(const tsx_changes_table *t, int column);

#define TSX_CHANGES_TERMS 64 /* terms that a plan has at most */

typedef struct tsx_changes_term { /* a comparison with a field of the source */
  int field, op; /* op: an index of tsx_changes_operators */
} tsx_changes_term;
typedef struct tsx_changes_order {
  int dimension;
  bool descending;
} tsx_changes_order;
typedef struct tsx_changes_plan {
  bool given[3]; /* before, after, mode: the first values of xFilter */
  int count, order_count;
  tsx_changes_term terms[TSX_CHANGES_TERMS]; /* one value each, after those */
  tsx_changes_order order[TSX_CHANGES_TERMS];
} tsx_changes_plan;

#define TSX_CHANGES_OPERATORS 5
extern const char *const tsx_changes_operators[TSX_CHANGES_OPERATORS];

/* Parameters of the statements: the state before; the state after, NULL: with the transaction's own rows; pointers
 * (TSX_CHANGED_POINTER) to what was written and to what was dropped; times of deletes as JSON; a pointer
 * (TSX_EXPECTED_POINTER) to the places that the statement looks up; then the values of the plan's terms. */
enum {
  TSX_CHANGES_BEFORE = 1,
  TSX_CHANGES_AFTER,
  TSX_CHANGES_WRITTEN,
  TSX_CHANGES_DROPPED,
  TSX_CHANGES_DELETES,
  TSX_CHANGES_EXPECTED,
  TSX_CHANGES_VALUES
};

/* Each returns the text of a statement from sqlite3_malloc, or NULL if memory is lacking. `merged`: merges are among
 * the commits; those of a dense array may hide one another, so that only the state after tells what a cell is.
 *
 * written: the cells that were written, with their old values; also those that have not changed. dropped: the cells
 * that are gone. bags: both, of an array with duplicates. feed: the touched coordinates with their present values. */
char *tsx_changes_written_sql(const tsx_changes_table *t, const tsx_changes_plan *plan, bool merged);
char *tsx_changes_dropped_sql(const tsx_changes_table *t, const tsx_changes_plan *plan);
char *tsx_changes_bags_sql(const tsx_changes_table *t, const tsx_changes_plan *plan);
char *tsx_changes_feed_sql(const tsx_changes_table *t, const tsx_changes_plan *plan);

/* The text of a statement that fails if the state before, within the plan's terms, is lost (array/kept.c): what is lost
 * would look as if it had never been. */
char *tsx_changes_probe_sql(const tsx_changes_table *t, const tsx_changes_plan *plan);

#endif
