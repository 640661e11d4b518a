/* query_keys.h: the keys of the groups of a query: whether the groups form a grid, and which group a row has. */
#ifndef TSR_QUERY_KEYS_H
#define TSR_QUERY_KEYS_H

#include "compute/accumulate.h"
#include "tessera.h"

typedef struct query_part query_part;
typedef struct query_rows query_rows;

#define QUERY_OUTSIDE (UINT32_C(1) << 27) /* marks a coordinate without a group; above all numbers of a grid */

typedef struct query_axis { /* a field whose values say the groups: of one or more keys of a grid */
  uint32_t field;
  bool is_signed, has_null;
  bool plain; /* the keys are the values themselves: number i is the value low + i */
  uint32_t size; /* of a value in bytes */
  int64_t low;
  uint64_t count;
  uint32_t *numbers; /* [count]: what a value adds to the number of the group, or QUERY_OUTSIDE */
} query_axis;

typedef struct query_key {
  uint64_t extent, stride; /* in the grid */
  bool has_null; /* the number 0 of the grid stands for null, and all others are greater by one */
  uint32_t axis; /* in the grid */
  uint32_t value; /* number of its expression; QUERY_NONE: a numbered or plain key */
  bool plain; /* the key is an integer dimension; the axis numbers its values, or has no numbers without a grid */
  uint32_t field; /* of a numbered or plain key */
  uint64_t low; /* the value of number 0 of a plain key in a grid */
  tsr_value_type type;
} query_key;

typedef struct query_grouping { /* how the cells of a query are grouped */
  query_key keys[TSR_QUERY_KEYS];
  bool grid; /* the number of a group follows from its numbered and plain keys */
  bool no_plain_grid; /* because a coordinate was outside */
  bool outside; /* as of a part: the query must run again without such a grid */
  uint64_t grid_size;
  uint32_t axis_count;
  query_axis axes[TSR_QUERY_KEYS];
  bool has_nulls; /* groups have a word more, in which bit k is set if key k is null */
  uint32_t width; /* words of a group: one for each key, and their nulls; of a grid 1 */
} query_grouping;

/* Prepares the keys: finds out whether the groups form a grid. The reader has been started. */
int tsr__query_keys_make(tsr_query_run *run, tsr_error *error);

/* Finds the groups of rows of a block, for a grid. `rows` are those of `block` that satisfy the WHERE. */
int tsr__query_grid_rows(query_part *part, const query_rows *block, const query_rows *rows, tsr_spread *spread,
                         tsr_error *error);

/* Finds the least and the greatest group that rows of the present batch, whose subtile is known, may have. */
void tsr__query_grid_range(const tsr_query_run *run, uint64_t from, uint64_t end, uint64_t *low, uint64_t *high);

/* Sets the words of a numbered key: 0 for null, else number + 1; or of a plain key: the values. */
int tsr__query_key_words(query_part *part, uint32_t key, const query_rows *rows, uint64_t *words, tsr_error *error);

#endif
