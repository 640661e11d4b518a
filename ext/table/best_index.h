/* best_index.h: from constraints to a plan for xFilter, and back. */
#ifndef TSX_BEST_INDEX_H
#define TSX_BEST_INDEX_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "values/value.h"

typedef struct tsx_table tsx_table;

/* What idxStr says, decoded. */
typedef struct tsx_term {
  int column;
  tsx_op op;
  bool nocase; /* text, compared without case */
  bool numeric; /* text, perhaps compared as a number where it looks like one */
  bool plainly; /* as TSX_PLAINLY */
} tsx_term; /* in the order of xFilter's arguments */

#define TSX_TERMS_MAX 64 /* what is beyond is left to SQLite */

typedef struct tsx_access {
  uint32_t count, order_count;
  tsx_term terms[TSX_TERMS_MAX];
  struct tsx_access_order {
    int column;
    bool descending;
  } order[TSX_TERMS_MAX]; /* by dimensions */
  bool distinct; /* of rows that are equal in the order's dimensions, one is enough */
  bool missing; /* as_of or since is used, and not given */
  bool limit, offset; /* are arguments, too, behind those of the terms */
  bool skip; /* the table leaves out the rows of OFFSET itself */
} tsx_access;

int tsx_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);

/* Says that as_of (0) or since (1) is used otherwise than as an argument: SQLITE_ERROR. */
int tsx_time_misused(tsx_table *table, int which);

/* Decodes idxStr against the table's columns; SQLITE_ERROR if it does not fit. */
int tsx_access_decode(const tsx_table *table, const char *text, tsx_access *access);
char *tsx_access_encode(const tsx_table *table, const tsx_access *access);

/* How many arguments xFilter gets. */
uint32_t tsx_access_arguments(const tsx_access *access);

#endif
