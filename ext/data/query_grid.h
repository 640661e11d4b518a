/* query_grid.h: the rows of a columnar query as a grid of numbers, for tessera_npy and pictures.
 *
 * The axes of the grid are the terms of GROUP BY; of a query over cells they are the dimensions that its columns name, or
 * all. One other column gives the numbers. */
#ifndef TSX_QUERY_GRID_H
#define TSX_QUERY_GRID_H

#include "query/tree.h"
#include "connection/connection.h"

typedef struct tsx_grid_axis {
  char *name; /* of the column, or its words */
  tsr_value_type type; /* INTEGER: from `low` on, without gaps; REAL, TEXT: the different values, sorted */
  uint64_t count;
  int64_t low;
  const double *reals; /* [count] */
  const char **texts; /* [count] */
} tsx_grid_axis;

typedef struct tsx_grid { /* `= {0}`, then tsx_grid_release is safe */
  tsx_arena arena;
  char *name; /* of the column with the numbers */
  uint32_t axis_count;
  tsx_grid_axis axes[TSR_QUERY_KEYS];
  bool whole; /* all numbers are INTEGER, and each place has one: they are `integers`, else `reals` */
  uint64_t count; /* places: the product of the axes' counts, in row-major order */
  void *places; /* [count] int64_t or double; a place without a number is a NaN */
} tsx_grid;

/* Returns true if an argument is a query, and not a path: it begins with the word SELECT. */
bool tsx_is_query(sqlite3_value *value);

/* Runs a query. `column` names the column with the numbers; it may be NULL if all others are keys. The places have at most
 * `limit` bytes. The caller calls tsx_grid_release, also after an error. */
int tsx_grid_make(tsx_connection *connection, const char *text, const char *column, uint64_t limit, tsx_grid *grid,
                  tsr_error *error);
void tsx_grid_release(tsx_grid *grid);

#endif
