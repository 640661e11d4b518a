/* query_run.h: the state of a running query, which query.c and the query_*.c beside it share.
 *
 * A reader gives batches of cells. A batch is cut into parts, whose size does not depend on the number of threads. Each
 * part is evaluated by one thread, block by block (query_part.c), and counts its cells in records of its own groups;
 * the parts' records are merged into those of the query in the order of the parts. Where no group has cells in two
 * parts of a batch, the parts count in the records of the query at once.
 */
#ifndef TSR_QUERY_RUN_H
#define TSR_QUERY_RUN_H

#include "analyze/query_at.h"
#include "analyze/query_collected.h"
#include "analyze/query_keys.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/snapshot.h"
#include "compute/accumulate.h"
#include "compute/evaluate.h"
#include "model/datatype.h"
#include "read/reader.h"

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

/* Runs a query as tsr_query_open does. */
int tsr__query_open(tsr_snapshot *snapshot, const tsr_query *query, const query_habits *habits, tsr_query_run **run,
                    tsr_error *error);

/* Returns the record of a group of the result. */
const uint64_t *tsr__query_result(const tsr_query_run *run, uint64_t group);

/* Reads the next batch and its columns. Returns 1; 0 at the end. */
int tsr__query_next_batch(tsr_query_run *run, tsr_error *error);

#endif
