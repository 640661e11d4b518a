/* query.h: aggregates that are values in the row of an extreme (TSR_AGGREGATE_AT). */
#ifndef TSR_QUERY_QUERY_H
#define TSR_QUERY_QUERY_H

#include "query/accumulate.h"
#include "tessera.h"
#include "base/memory.h"
#include "query/groups.h"
#include "array/array.h"
#include "environment/environment.h"
#include "query/program.h"
#include "model/datatype.h"
#include "read/reader.h"

typedef struct query_part query_part;

typedef struct query_at { /* an aggregate TSR_AGGREGATE_AT */
  uint32_t aggregate, measure; /* its number; the measure whose extreme says the row */
  uint32_t value; /* number of its expression */
  uint32_t word, value_word; /* of a record: the first words of the extreme, and of the value */
  bool leads; /* the first aggregate of its extreme */
  bool greatest; /* the row of the maximum, not of the minimum */
} query_at;

typedef struct query_extremes { /* the values in rows of extremes that a query asks for */
  query_at list[TSR_QUERY_AGGREGATES];
  uint32_t count;
  uint32_t value_of[TSR_QUERY_AGGREGATES]; /* by aggregate: number of its expression */
  uint32_t *coordinates; /* by dimension: number of the expression that is its coordinate; NULL: the list is empty */
} query_extremes;

/* Adds the rows of a block. `operand` has the values of the measure whose extremes say the rows. */
void tsr__query_at_add(query_part *part, const query_at *at, const tsr_operand *operand, const tsr_spread *spread,
                       uint64_t *records);

/* Merges the record of a part into one of the query. */
int tsr__query_at_merge(tsr_query_run *run, const query_at *at, uint64_t *to, const uint64_t *from, tsr_error *error);

/* The groups that a query, or one part of a batch, has met, with their records and values. */

typedef struct query_collected {
  tsr_groups groups; /* without a grid: the groups, as words of their keys; of a part: those that it has met */
  tsr_texts texts; /* of keys */
  tsr_buffer records; /* one of each group */
  tsr_texts values; /* texts of which distinct ones are counted */
  uint32_t measure_count;
  tsr_groups *pairs; /* by measure: group and value, where the values are distinct */
  tsr_buffer *lists; /* by measure: group and value, for percentiles */
} query_collected;

/* Makes the tables of `measures` measures, but not those of groups: their width is known later. Texts live in `arena`,
 * or with the tables if it is NULL. What fails is released like the rest. */
int tsr__query_collected_make(query_collected *collected, uint32_t measures, tsr_memory *memory, tsr_arena *arena,
                              tsr_error *error);

/* Forgets all groups and values, and keeps their memory. */
void tsr__query_collected_clear(query_collected *collected);

void tsr__query_collected_release(query_collected *collected);

/* The keys of the groups of a query: whether the groups form a grid, and which group a row has. */

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

/* The state of a running query, which query.c and the query_*.c beside it share.
 *
 * A reader gives batches of cells. A batch is cut into parts, whose size does not depend on the number of threads. Each
 * part is evaluated by one thread, block by block (batch.c), and counts its cells in records of its own groups;
 * the parts' records are merged into those of the query in the order of the parts. Where no group has cells in two
 * parts of a batch, the parts count in the records of the query at once.
 */

#define QUERY_NONE      UINT32_MAX /* no expression */
#define QUERY_PARTS_MAX 16u /* that are evaluated at once */
#define QUERY_BLOCK     TSR_BLOCK_CELLS
#define QUERY_NO_WORD   UINT32_MAX /* a record has no such word */

typedef struct query_cells query_cells;

/* Rows of the present batch: the indices `cells`, or first..first+count-1. */
struct query_rows {
  const uint32_t *cells;
  uint64_t first;
  uint32_t count; /* at most QUERY_BLOCK */
};

typedef struct query_habits { /* what tsr_aggregate_open has otherwise than a query */
  const char *work; /* name of the work in progress */
  bool plain; /* datetimes and times are integers; any UINT64 is added; groups and cells are not counted */
  bool stored_reals; /* statistics may give sums of REAL, too: their likely error is added up */
} query_habits;

typedef struct query_expressions { /* of keys, measures and columns */
  const tsr_expression **list;
  uint32_t count;
  tsr_program *program; /* NULL: there are none */
  tsr_program *where; /* NULL: all cells count */
} query_expressions;

typedef struct query_input { /* what is read */
  tsr_reader *reader;
  bool *fields; /* that are read */
  bool *evaluated; /* those that expressions read; the others say keys only */
  uint32_t field_count;
  const tsr_batch *batch; /* the present one */
  const tsr_subtile *subtile; /* of the batch, if its rows are consecutive cells of a dense tile */
  tsr_block_input *columns; /* by field, of the batch */
} query_input;

typedef struct query_measure {
  tsr_measure measure;
  uint32_t argument, filter; /* numbers of expressions, or QUERY_NONE */
} query_measure;

typedef struct query_layout { /* of the record of a group */
  uint32_t measure_count, words;
  query_measure measures[TSR_QUERY_AGGREGATES];
  uint32_t measure_of[TSR_QUERY_AGGREGATES]; /* by aggregate; UINT32_MAX: counts all rows */
  bool straight; /* several threads may count measures in the records of the query */
  uint32_t doubt_at; /* word of a record: the likely error of its stored sums, or QUERY_NO_WORD */
  uint64_t *blank; /* a record without rows */
  uint64_t *known; /* room for the record of a tile that is not read */
} query_layout;

typedef struct query_result {
  uint32_t *order; /* groups that have rows, in the order of their keys */
  uint64_t count;
} query_result;

typedef struct query_parts { /* of the present batch */
  query_part *list[QUERY_PARTS_MAX];
  uint32_t count;
  uint64_t bytes; /* of a part, before it has groups */
  bool failed; /* there was no memory for a single part */
} query_parts;

typedef struct query_fault { /* what an error is about */
  const tsr_expression *expression;
  uint32_t node;
} query_fault;

struct tsr_query_run {
  tsr_snapshot *snapshot;
  tsr_query query;
  query_habits habits;
  const tsr_schema *schema; /* the snapshot's, but for datatypes that `habits` changes */
  tsr_memory memory;
  tsr_arena arena; /* as long as the run */
  query_expressions expressions;
  query_input input;
  query_grouping grouping;
  query_layout layout;
  query_extremes extremes;
  query_parts parts;
  query_collected collected;
  query_result result;
  query_cells *cells; /* the present block; NULL: the query gives groups */
  query_fault fault;
};

/* Returns true if a key of a group without a grid is null. A null REAL is a NaN, a null number 0. */
static inline bool query_key_is_null(const tsr_query_run *run, const uint64_t *tuple, uint32_t key) {
  if (run->grouping.keys[key].value == QUERY_NONE) return !run->grouping.keys[key].plain && tuple[key] == 0;
  if (run->grouping.keys[key].type == TSR_VALUE_REAL) return tuple[key] == TSR_NULL_REAL;
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

/* The values that a group keeps for its percentiles. */

/* Queries that give cells, not groups. */

/* Evaluates the parts of a batch, and counts their rows in groups. */

typedef struct query_room { /* what the steps of a block hand on */
  uint64_t *words[TSR_QUERY_KEYS + 1]; /* its keys */
  uint32_t *cells; /* its rows that satisfy the WHERE */
  uint32_t *numbers, *ends; /* its groups: those of its rows, or those of runs, which end there */
  uint8_t *mask; /* rows that a filter leaves out; behind them nulls and whole numbers of a constant */
  tsr_text *values; /* those of a constant, or those that a filter leaves */
} query_room;

struct query_part { /* of a batch; one thread works on it */
  tsr_query_run *run;
  uint64_t from, end; /* rows of the batch */
  bool straight; /* counts in the records of the query */
  tsr_arena arena; /* of the scratches */
  tsr_block_scratch *where, *scratch;
  tsr_block_input *inputs; /* by field: the present rows */
  tsr_vector *vectors; /* by expression: their values */
  query_collected collected; /* without `straight` */
  query_room room;
  query_fault fault;
  bool outside; /* a coordinate lay outside of the range that its dimension had in the grid */
};

/* Finds or makes the group of the query with these words, one for each key and their nulls. */
int tsr__query_group(tsr_query_run *run, const uint64_t *words, uint32_t *number, tsr_error *error);

/* Evaluates all expressions of run->expressions.program for rows: part->vectors. Notes which one has failed. */
int tsr__query_evaluate(query_part *part, const query_rows *rows, tsr_error *error);

/* Sets *rows to those of a block that satisfy the WHERE. */
int tsr__query_select(query_part *part, const query_rows *block, query_rows *rows, tsr_error *error);

/* Makes one part for cells. */
int tsr__query_part_make(tsr_query_run *run, tsr_error *error);

/* Adds the present batch to the groups. */
int tsr__query_add_batch(tsr_query_run *run, tsr_error *error);

/* Gives back the memory of the parts. */
void tsr__query_parts_release(tsr_query_run *run);

/* What the WHERE of a query tells the planner of reads. */

/* Gives predicates that all cells satisfy which satisfy the WHERE. They live as long as the run. */
int tsr__query_where_predicates(tsr_query_run *run, const tsr_predicate **predicates, uint32_t *count,
                                tsr_error *error);

/* Tiles that statistics or the domain answer, so that a query reads no cell of them. */

/* Lets the reader offer tiles whole, if the query can count some of them without their cells. The keys have not been
 * made, the reader has not been started. */
void tsr__query_tiles_take(tsr_query_run *run);

#endif
