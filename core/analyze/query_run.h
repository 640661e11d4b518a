/* query_run.h: the state of a running query, which query.c and the query_*.c beside it share.
 *
 * A reader gives batches of cells. A batch is cut into parts, whose size does not depend on the number of threads. Each
 * part is evaluated by one thread, block by block (query_part.c), and counts its cells in records of its own groups;
 * the parts' records are merged into those of the query in the order of the parts. Where no group has cells in two
 * parts of a batch, the parts count in the records of the query at once.
 */
#ifndef TSR_QUERY_RUN_H
#define TSR_QUERY_RUN_H

#include "array/array.h"
#include "array/environment.h"
#include "array/snapshot.h"
#include "compute/accumulate.h"
#include "compute/evaluate.h"
#include "compute/groups.h"
#include "model/datatype.h"
#include "read/reader.h"

#define QUERY_NONE        UINT32_MAX /* no expression */
#define QUERY_PART_CELLS  8192u
#define QUERY_PARTS_MAX   16u /* that are evaluated at once */
#define QUERY_DIRECT      256u /* a grid of at most so many groups has a record for each of them in every part */
#define QUERY_STRETCH_MIN 16u
#define QUERY_OUTSIDE     (UINT32_C(1) << 27) /* marks a coordinate without a group; above all numbers of a grid */
#define QUERY_GRID_MAX    (UINT64_C(1) << 26)
#define QUERY_NO_WORD     UINT32_MAX /* a record has no such word */

typedef struct query_cells query_cells;

#define QUERY_BLOCK TSR_BLOCK_CELLS

/* Rows of the present batch: the indices `cells`, or first..first+count-1. */
typedef struct query_rows {
  const uint32_t *cells;
  uint64_t first;
  uint32_t count; /* at most QUERY_BLOCK */
} query_rows;

typedef struct query_habits { /* what tsr_aggregate_open has otherwise than a query */
  const char *work; /* name of the work in progress */
  bool plain; /* datetimes and times are integers; any UINT64 is added; groups and cells are not counted */
  bool stored_reals; /* statistics may give sums of REAL, too: their likely error is added up */
} query_habits;

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

typedef struct query_measure {
  tsr_measure measure;
  uint32_t argument, filter; /* numbers of expressions, or QUERY_NONE */
} query_measure;

typedef struct query_at { /* an aggregate TSR_AGGREGATE_AT */
  uint32_t aggregate, measure; /* its number; the measure whose extreme says the row */
  uint32_t value; /* number of its expression */
  uint32_t word, value_word; /* of a record: the first words of the extreme, and of the value */
  bool leads; /* the first aggregate of its extreme */
  bool greatest; /* the row of the maximum, not of the minimum */
} query_at;

typedef struct query_part { /* of a batch; one thread works on it */
  struct tsr_query_run *run;
  uint64_t from, end; /* rows of the batch */
  bool straight; /* counts in the records of the query */
  tsr_arena arena; /* of the scratches */
  tsr_block_scratch *where, *scratch;
  tsr_block_input *inputs; /* by field: the present rows */
  tsr_vector *vectors; /* by expression: their values */
  tsr_groups groups; /* without `straight`: the groups that the part has met */
  tsr_texts texts; /* of their keys */
  tsr_buffer records; /* of its groups; each is valid once the part has met the group */
  tsr_groups *pairs; /* by measure: group and value, where the values are distinct */
  tsr_buffer *lists; /* by measure: group and value */
  tsr_texts values; /* of distinct texts */
  uint64_t *words[TSR_QUERY_KEYS + 1]; /* keys of a block */
  uint32_t *cells, *numbers, *ends; /* of a block */
  uint8_t *mask;
  tsr_text *values_of_all; /* room for the values of a constant, or those that a filter leaves */
  const tsr_expression *fault; /* the expression that an error is about, and its node */
  uint32_t fault_node;
  bool outside; /* a coordinate lay outside of the range that its dimension had in the grid */
} query_part;

struct tsr_query_run {
  tsr_snapshot *snapshot;
  tsr_query query;
  query_habits habits;
  const tsr_schema *schema; /* the snapshot's, but for datatypes that `habits` changes */
  tsr_memory memory;
  tsr_arena arena; /* as long as the run */
  tsr_reader *reader;
  bool *fields; /* that are read */
  bool *evaluated; /* those that expressions read; the others say keys only */
  uint32_t field_count;
  tsr_program *where; /* NULL: all cells count */
  tsr_program *program; /* the expressions of keys, measures and columns; NULL: there are none */
  const tsr_expression **expressions;
  uint32_t expression_count;
  query_cells *cells; /* the present block; NULL: the query gives groups */

  bool grid; /* the number of a group follows from its numbered and plain keys */
  bool no_plain_grid; /* because a coordinate was outside */
  bool outside; /* as of a part: the query must run again without such a grid */
  bool straight; /* measures may be counted in the records of the query by several threads */
  uint64_t grid_size;
  uint32_t axis_count;
  query_axis axes[TSR_QUERY_KEYS];
  query_key keys[TSR_QUERY_KEYS];
  bool has_nulls; /* groups have a word more, in which bit k is set if key k is null */
  uint32_t width; /* words of a group: one for each key, and their nulls; of a grid 1 */

  uint32_t measure_count, words; /* words of a record */
  uint32_t doubt_at; /* word of a record: the likely error of its stored sums, or QUERY_NO_WORD */
  query_measure measures[TSR_QUERY_AGGREGATES];
  uint32_t measure_of[TSR_QUERY_AGGREGATES]; /* by aggregate; UINT32_MAX: counts all rows */
  uint32_t value_of[TSR_QUERY_AGGREGATES]; /* of AT, by aggregate: number of its expression */
  uint32_t at_count;
  uint32_t *coordinates; /* with AT, by dimension: number of the expression that is its coordinate */
  query_at ats[TSR_QUERY_AGGREGATES];
  uint64_t *blank; /* a record without rows */
  uint64_t *known; /* room for the record of a tile that is not read */

  tsr_groups groups; /* without a grid */
  tsr_texts texts, values;
  tsr_buffer records;
  tsr_groups pairs[TSR_QUERY_AGGREGATES];
  tsr_buffer lists[TSR_QUERY_AGGREGATES];
  uint32_t *order; /* groups that have rows, in the order of their keys */
  uint64_t group_count;

  const tsr_batch *batch;
  const tsr_subtile *subtile; /* of the batch, if its rows are consecutive cells of a dense tile */
  tsr_block_input *inputs; /* by field, of the batch */
  query_part *parts[QUERY_PARTS_MAX];
  uint32_t part_count;
  const tsr_expression *fault;
  uint32_t fault_node;
};

/* Returns true if a key of a group without a grid is null. A null REAL is a NaN, a null number 0. */
static inline bool query_key_is_null(const tsr_query_run *run, const uint64_t *tuple, uint32_t key) {
  if (run->keys[key].value == QUERY_NONE) return !run->keys[key].plain && tuple[key] == 0;
  if (run->keys[key].type == TSR_VALUE_REAL) return tuple[key] == TSR_NULL_REAL;
  return tuple[run->query.key_count] >> key & 1;
}

static inline uint64_t *query_record(const tsr_buffer *records, uint64_t number, uint32_t words) {
  return (uint64_t *)(void *)records->data + number * words;
}

/* Returns the bits of the value that an integer, datetime or time has by its key (datatype.h), in 64 bits. */
static inline uint64_t tsr__query_value_of_key(tsr_datatype datatype, uint64_t key) {
  const tsr_physical_type physical = tsr__datatype_physical(datatype);
  const bool is_signed = physical == TSR_PHYSICAL_I8 || physical == TSR_PHYSICAL_I16 || physical == TSR_PHYSICAL_I32 ||
                         physical == TSR_PHYSICAL_I64;
  return is_signed ? key ^ UINT64_C(1) << 63 : key;
}

/* Says that the groups do not fit into the query's memory, if that is what `rc` means. Returns rc. */
int tsr__query_fail_groups(const tsr_query_run *run, int rc, tsr_error *error);

/* Runs a query as tsr_query_open does. */
int tsr__query_open(tsr_snapshot *snapshot, const tsr_query *query, const query_habits *habits, tsr_query_run **run,
                    tsr_error *error);

/* Returns the record of a group of the result. */
const uint64_t *tsr__query_result(const tsr_query_run *run, uint64_t group);

/* Reads the next batch and its columns. Returns 1; 0 at the end. */
int tsr__query_next_batch(tsr_query_run *run, tsr_error *error);

#endif
