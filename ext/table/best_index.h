/* best_index.h: xBestIndex, and the plan that it hands to xFilter. A tsx_access is the plan; idxStr is its text, whose
 * grammar stands at the head of best_index.c. */
#ifndef TSX_BEST_INDEX_H
#define TSX_BEST_INDEX_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "values/value.h"

typedef struct tsx_table tsx_table;

typedef struct tsx_term { /* one comparison; term n takes argument n of xFilter */
  int column; /* of the table; as_of and since, too */
  tsx_op op;
  bool nocase; /* texts are compared under NOCASE */
  bool numeric; /* a text may be compared as a number if it looks like one (tsx_numeric_range) */
  bool plainly; /* TSX_PLAINLY */
} tsx_term;

#define TSX_TERMS_MAX 64 /* comparisons beyond this many are left to SQLite */

typedef struct tsx_access {
  uint32_t count, order_count;
  tsx_term terms[TSX_TERMS_MAX];
  struct tsx_access_order {
    int column; /* a dimension, or a label of one */
    bool descending;
  } order[TSX_TERMS_MAX];
  bool distinct; /* of rows that are equal in all columns of the order, one is enough */
  bool limit, offset; /* LIMIT and OFFSET are arguments of xFilter, after those of the terms */
  bool skip; /* the table itself leaves out the rows of OFFSET */
} tsx_access;

/* xBestIndex. */
int tsx_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);

/* Decodes idxStr for a table whose array is open. Returns SQLITE_OK, or SQLITE_ERROR if the text does not fit the
 * table. */
int tsx_access_decode(const tsx_table *table, const char *text, tsx_access *access);

/* Returns true if a term compares the column with something, so that rows with NULL in it do not count. */
bool tsx_access_excludes_null(const tsx_access *access, int column);

/* Returns how many arguments xFilter gets with this plan. */
uint32_t tsx_access_arguments(const tsx_access *access);

#endif
