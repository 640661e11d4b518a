/* plan.h: what a tsx_query asks of the engine, and which of the engine's results each part of its text is. */
#ifndef TSX_REQUEST_H
#define TSX_REQUEST_H

#include "query/lower.h"

typedef struct tsx_key_part { /* a key of GROUP BY */
  int axis; /* < 0: the engine evaluates the key */
  uint32_t tree; /* of the axis */
  uint32_t *numbers; /* [the axis's count] */
  uint64_t *places; /* [number_count]: a coordinate with the number */
  uint32_t number_count;
  bool mixed; /* values of the axis are INTEGER and equal REAL ones */
  tsx_lowered lowered, coordinate; /* coordinate: the axis's column alone */
  /* >= 0: the number of an aggregate. A NUMBER's groups are made of its values as REAL, and the aggregate is the least of
   * them, an INTEGER or a REAL. For a mixed key it is the least coordinate of the group, whose value the group shows. */
  int64_t least;
} tsx_key_part;

typedef struct tsx_aggregate_part {
  const tsx_expr *tree; /* a NAME: the column in the row of select.extreme, which is number 0 */
  tsx_lowered argument, filter;
  tsr_value_type argument_type, filter_type;
  double percent;
} tsx_aggregate_part;

typedef struct tsx_column_part { /* a column over cells */
  const tsx_expr *tree;
  int axis; /* >= 0: the engine gives the coordinate, the axis the value */
  uint32_t axis_tree;
  tsx_lowered lowered;
  tsr_value_type type;
} tsx_column_part;

typedef struct tsx_asked {
  tsx_query *query;
  bool nothing; /* no cell satisfies the WHERE */
  const tsx_expr **conditions; /* of cells */
  uint32_t condition_count;
  tsx_lowered where;
  tsx_key_part *keys; /* [select.group_count] */
  tsx_aggregate_part *aggregates;
  uint32_t aggregate_count;
  tsx_column_part *columns;
  uint32_t column_count;
  tsr_query request;
} tsx_asked;

/* Finds what the engine and SQLite evaluate, without reading a cell. tsx_axes_find came before. */
int tsx_asked_plan(tsx_asked *asked, tsr_error *error);

/* Leaves out the conditions of joins that have a row for each coordinate, after the axes have been evaluated. */
int tsx_asked_joins(tsx_asked *asked, tsr_error *error);

/* Makes asked->request, after all that. */
int tsx_asked_finish(tsx_asked *asked, tsr_error *error);

/* Returns the number of the aggregate, or of the column of the extreme's row, that a tree is; or aggregate_count. */
uint32_t tsx_asked_aggregate(const tsx_asked *asked, const tsx_expr *tree);

#endif
