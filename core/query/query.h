/* query.h: the state of a running query, which the files of core/query/ share.
 *
 * A reader gives batches of cells. A batch is cut into parts, whose size does not depend on the number of threads. One
 * thread evaluates a part, block by block, and counts its cells in records of the part's own groups; then the parts'
 * records are merged into the query's records, in the order of the parts. If no group has cells in two parts of a
 * batch, the parts count directly in the query's records ("straight").
 *
 * A record has the words of all measures of one group (accumulate.h); groups are numbered by groups.h, or by their
 * place in a grid if every key has a small range (keys.c).
 *
 * Sections: values in rows of extremes; what is collected; percentiles; keys; the query itself; boxes; windows; the
 * state of a run; parts; statistics; rising keys.
 */
#ifndef TSR_QUERY_QUERY_H
#define TSR_QUERY_QUERY_H

#include "query/accumulate.h"
#include "tessera.h"
#include "base/memory.h"
#include "query/groups.h"
#include "query/pass.h"
#include "base/pool.h"
#include "base/sort.h"
#include "array/array.h"
#include "environment/environment.h"
#include "query/program.h"
#include "model/datatype.h"
#include "read/reader.h"

typedef struct query_part query_part;

/* ---- extremes.c: values in the row of a group's minimum or maximum (TSR_AGGREGATE_AT) --------------------------- */

typedef struct query_at { /* an aggregate TSR_AGGREGATE_AT */
  uint32_t aggregate, measure; /* its number; the measure whose extreme determines the row */
  uint32_t value; /* number of its expression */
  /* the first word, in a record, of the extreme, of the value, and of what tiles that will be read promise */
  uint32_t word, value_word, promise_word;
  bool leads; /* the first of the aggregates that share this extreme */
  bool greatest; /* the row of the maximum, not of the minimum */
} query_at;

typedef struct query_extremes { /* all such aggregates of a query */
  query_at list[TSR_QUERY_AGGREGATES];
  uint32_t count;
  uint32_t value_of[TSR_QUERY_AGGREGATES]; /* by aggregate: number of its expression */
  uint32_t *coordinates; /* by dimension: number of the expression of its coordinate; NULL if the list is empty */
} query_extremes;

/* Prepares these aggregates, and assigns their words of a record. */
int tsr__query_extremes_make(tsr_query_run *run, tsr_error *error);

/* Adds the rows of a block. `operand` has the values of the measure whose extremes determine the rows. */
void tsr__query_at_add(query_part *part, const query_at *at, const tsr_operand *operand, const tsr_spread *spread,
                       uint64_t *records);

/* `known` has the measures of a tile of one group, all of whose cells count. Returns true if the row of an extreme may
 * be in it, so that it must be read, and notes that it will be. */
bool tsr__query_at_wants(const tsr_query_run *run, const uint64_t *known, uint64_t *record);

/* Merges a record of a part into a record of the query. */
int tsr__query_at_merge(tsr_query_run *run, const query_at *at, uint64_t *to, const uint64_t *from, tsr_error *error);

/* Sets *value to the result of an aggregate for the group of a record. */
void tsr__query_extremes_value(const tsr_query_run *run, uint32_t aggregate, const uint64_t *record, tsr_value *value);

/* ---- query.c: the groups that a query, or a part of a batch, has met, with their records and values ------------- */

typedef struct collected_groups {
  tsr_groups groups; /* query: the groups, as words of their keys, unless they form a grid; part: its groups */
  tsr_texts texts; /* of keys */
  tsr_buffer records; /* one for each group */
  tsr_texts values; /* the texts of distinct aggregates */
  uint32_t measure_count;
  tsr_groups *pairs; /* by measure: group and value, for distinct aggregates */
  tsr_buffer *lists; /* by measure: query_listed, for percentiles */
} collected_groups;

/* Makes the tables for `measures` measures, but not the groups, whose width is known later. Texts live in `arena`; if
 * it is NULL, they are borrowed. Release it even after a failure. */
int tsr__collected_groups_make(collected_groups *collected, uint32_t measures, tsr_memory *memory, tsr_arena *arena,
                               tsr_error *error);

/* Removes all groups and values, and keeps their memory. */
void tsr__collected_groups_clear(collected_groups *collected);

void tsr__collected_groups_release(collected_groups *collected);

/* ---- percentiles.c: medians and percentiles ---------------------------------------------------------------------- */

typedef struct query_listed { /* an element of collected_groups.lists; batch.c appends it as two words */
  uint64_t group;
  double value; /* neither NaN nor -0.0 (batch.c) */
} query_listed;

/* Sorts the lists of values by group and value, when all cells have been added. */
int tsr__query_lists_sort(tsr_query_run *run, unsigned threads, tsr_error *error);

/* Computes a percentile of a group's values, whose lists have been sorted. */
void tsr__query_list_percentile(const tsr_query_run *run, uint32_t measure, uint32_t group, double percent,
                                tsr_value *value);

/* ---- keys.c: the keys of groups: whether the groups form a grid, and which group a row belongs to --------------- */

typedef struct query_rows query_rows;

#define QUERY_OUTSIDE (UINT32_C(1) << 27) /* marks a coordinate without a group; above all group numbers of a grid */

typedef struct query_axis { /* a field whose values determine one or more keys */
  uint32_t field;
  bool is_signed, has_null;
  bool plain; /* the keys are the values themselves: number i is the value low + i */
  bool rows; /* the values are the numbers of the rows that cells are paired with; `field` is unused */
  uint32_t size; /* of a value in bytes */
  int64_t low;
  uint64_t count;
  uint32_t *numbers; /* [count]: what a value adds to the group's number, or QUERY_OUTSIDE */
} query_axis;

typedef struct query_key {
  uint64_t extent, stride; /* in the grid */
  bool has_null; /* in the grid, 0 means null, and all other numbers are one greater */
  uint32_t axis; /* in the grid */
  uint32_t value; /* number of its expression; QUERY_NONE: a numbered or plain key, or a column of rows */
  bool plain; /* the key is an integer dimension; the axis numbers its values, or has no numbers without a grid */
  /* The key is a column of the rows that cells are paired with: its values are numbered in their order, and the axis
   * has the rows. NULL for any other key */
  const tsr_value_list *column;
  uint32_t *row_numbers; /* [column->count]: the numbers of the rows' values; UINT32_MAX: null */
  uint32_t *row_of; /* [extent]: a row that has the value of that number */
  bool rising; /* the key is an expression that rises with the dimension `field` (rising.c) */
  uint32_t field; /* of a numbered, plain or rising key */
  uint64_t low; /* plain key in a grid: the value that has number 0 */
  tsr_value_type type;
} query_key;

typedef struct query_grouping { /* how the cells of a query are grouped */
  query_key keys[TSR_QUERY_KEYS];
  bool grid; /* a group's number is computed from its numbered and plain keys */
  bool no_plain_grid; /* second run: plain keys make no grid, since a coordinate was outside it */
  bool outside; /* first run: a coordinate was outside, so the query must run again */
  uint64_t grid_size;
  uint32_t axis_count;
  query_axis axes[TSR_QUERY_KEYS];
  bool has_nulls; /* groups have one more word; its bit k is set if key k is null */
  uint32_t width; /* words of a group: one for each key, and one for nulls; 1 with a grid */
} query_grouping;

/* Prepares the keys: finds out whether the groups form a grid. Call it after the reader has been started. */
int tsr__query_keys_make(tsr_query_run *run, tsr_error *error);

/* With a grid, finds the groups of rows. `rows` are the rows of `block` that satisfy the WHERE. */
int tsr__query_grid_rows(query_part *part, const query_rows *block, const query_rows *rows, tsr_spread *spread,
                         tsr_error *error);

/* Bounds the groups that rows from..end-1 of the current batch may have. The batch must have a subtile. */
void tsr__query_grid_range(const tsr_query_run *run, uint64_t from, uint64_t end, uint64_t *low, uint64_t *high);

/* Gives the value of a key that is a column of rows, by its number. Text is borrowed from the column. */
void tsr__query_row_value(const query_key *key, uint32_t number, tsr_value *value);

/* Finds what the axes of steady dimensions (query_boxes) add to the group of pairs. */
int tsr__query_steady_number(query_part *part, const query_rows *rows, uint32_t *number, tsr_error *error);

/* Sets the words of a numbered key: 0 for null, else number + 1; or of a plain key: its values. */
int tsr__query_key_words(query_part *part, uint32_t key, const query_rows *rows, uint64_t *words, tsr_error *error);

/* ---- query.c: the query ----------------------------------------------------------------------------------------- */

#define QUERY_NONE      UINT32_MAX /* no expression */
#define QUERY_PARTS_MAX 16u /* parts of a batch that are evaluated at once, at most */
#define QUERY_BLOCK     TSR_BLOCK_CELLS
#define QUERY_NO_WORD   UINT32_MAX /* a record has no such word */

typedef struct query_cells query_cells;

typedef struct query_kept query_kept;

/* Rows of the current batch: the indices `cells`, or first..first+count-1. */
struct query_rows {
  const uint32_t *cells;
  const uint32_t *joined; /* the row that each cell meets, in a query with boxes; then `cells` is set, too */
  uint64_t first;
  uint32_t count; /* at most QUERY_BLOCK */
  const query_kept *kept; /* what these pairs had in an earlier period (boxes.c), or NULL */
};

typedef struct query_habits { /* what differs between queries of SQL, tsr_aggregate_open and the operands of windows */
  const char *work; /* name of the work in progress */
  bool plain; /* datetimes and times are integers; sums take any UINT64; no counters of groups and cells */
  bool stored_reals; /* sums of REAL may come from statistics; their likely error is added up */
  bool places; /* the caller asks for the places of rows (windows.c) */
  const void *reader; /* of windows.c: what reads operands */
} query_habits;

typedef struct query_expressions { /* the expressions of keys, measures and columns */
  const tsr_expression **list;
  uint32_t count;
  tsr_program *program; /* NULL: there are no expressions */
  tsr_program *where; /* NULL: all cells count */
} query_expressions;

typedef struct query_input { /* what the query reads */
  tsr_reader *reader;
  bool *fields; /* the fields to read */
  bool *evaluated; /* the fields that expressions read; the others only determine keys */
  uint32_t field_count;
  const tsr_batch *batch; /* the current one */
  uint64_t taken; /* cells of the batches of a query of groups, so far */
  bool placed; /* the dimensions are read only where a batch has no subtile */
  const tsr_subtile *subtile; /* of the batch, if its rows are consecutive cells of a dense tile */
  tsr_block_input *columns; /* by field, of the batch */
  /* A byte for each block of TSR_NEEDED_CELLS cells of the batch's tile: only where it is TSR_NEEDED_PASS may a cell
   * satisfy the WHERE, and far from such blocks columns are not decoded. NULL: all cells are tested. */
  const uint8_t *needed;
  uint64_t needed_origin; /* number in the tile of the cell with index 0 */
} query_input;

typedef struct query_measure {
  tsr_measure measure;
  uint32_t argument, filter; /* numbers of expressions, or QUERY_NONE */
} query_measure;

typedef struct query_layout { /* the layout of a group's record */
  uint32_t measure_count, words;
  query_measure measures[TSR_QUERY_AGGREGATES];
  uint32_t measure_of[TSR_QUERY_AGGREGATES]; /* by aggregate; UINT32_MAX: counts all rows */
  bool straight; /* several threads may count in the query's records */
  uint32_t doubt_at; /* word with the likely error of sums from statistics, or QUERY_NO_WORD */
  uint64_t *blank; /* a record without rows */
  uint64_t *known; /* scratch: the record of a tile that is not read */
} query_layout;

typedef struct query_result {
  uint32_t *order; /* groups with rows, in the order of their keys */
  uint64_t count;
} query_result;

typedef struct query_parts { /* of the current batch */
  query_part *list[QUERY_PARTS_MAX];
  uint32_t count;
  uint64_t bytes; /* the size of a part before it has groups */
  bool failed; /* not even one part fitted in memory */
} query_parts;

typedef struct query_fault { /* the node that an error is about */
  const tsr_expression *expression;
  uint32_t node;
} query_fault;

/* ---- boxes.c: which rows of a joined table, each a box of coordinates, the cells of a block meet ---------------- */

typedef struct query_box { /* a row of a bucket, with its interval along a stretch */
  int64_t low, high;
  int64_t reach; /* the greatest `high` of this row and those before it in the bucket */
  uint32_t row;
} query_box;

#define PATTERN_PAIRS  4096u /* most pairs of a block that are kept */
#define PATTERN_CHUNKS (PATTERN_PAIRS / QUERY_BLOCK) /* its pairs are added QUERY_BLOCK at a time */
#define PATTERNS       8u /* of a part */
#define PATTERNS_KNOWN 1024u
#define PERIODS        128u

/* What is the same whenever a chunk of a pattern's pairs is added: values that depend on the rows alone, and the runs
 * of groups, without what steady dimensions add (query_boxes). */
struct query_kept {
  uint64_t *words; /* word k of pair i is words[k * stride + i] */
  uint64_t stride;
  uint32_t *groups, *ends; /* [run_count] */
  uint32_t run_count; /* 0: nothing is kept */
};

/* The pairs of an earlier block: one at the same place of the period has the same ones. */
typedef struct query_pattern {
  uint64_t serial, place; /* the period (query_boxes), and where in it the block begins */
  /* [QUERY_BLOCK], and [PATTERN_PAIRS] each; of a known pattern [cell_count] and [pair_count]. Cells count from the
   * block's first one. `block` has its cells, which may leave some out. */
  uint32_t *block, *cells, *rows;
  uint32_t cell_count, pair_count; /* cell_count 0: nothing is kept */
  query_kept kept[PATTERN_CHUNKS]; /* `words` NULL: there is no room for more than the pairs */
  void *memory; /* of a known pattern */
} query_pattern;

typedef struct query_period { /* the coordinates of a batch in all ranges */
  uint64_t serial;
  uint64_t bases[TSR_QUERY_RANGES], extents[TSR_QUERY_RANGES], strides[TSR_QUERY_RANGES];
} query_period;

typedef struct query_boxes { /* the rows, sorted into buckets by their intervals in one range */
  const tsr_query_boxes *given; /* NULL: the query has none */
  uint32_t along; /* the range whose number may rise within a stretch of cells, or QUERY_NONE */
  uint32_t by; /* the range of the buckets */
  int64_t low; /* bucket b has the numbers from low + (b << shift) on */
  uint32_t shift;
  uint64_t bucket_count;
  uint64_t *starts; /* [bucket_count + 1]: in `rows` */
  query_box *rows; /* by bucket: the rows whose intervals meet it, by `low`, then in their order */
  /* of the current batch, if its rows are cells of a dense tile: after so many cells the numbers come again (0:
   * unknown), the length of a line, and the place in the tile of the cell with index 0 */
  uint64_t period, line, origin;
  bool *steady; /* by field: it is a dimension whose coordinate is the same in all cells of a period */
  bool grouped; /* pairs that come again are in the same groups, but for steady dimensions */
  uint32_t keeps; /* words of a pair that are kept (tsr__program_kept) */
  uint64_t serial; /* of the period: batches with the same coordinates in all ranges have the same one */
  query_period *periods; /* [PERIODS]: the last ones */
  uint64_t period_count; /* that there were; the next one takes the place of the oldest */
  const uint32_t *groups; /* by row, a number of its key: pairs of a period's block come in its order. NULL: unsorted */
  query_pattern *known; /* [PATTERNS_KNOWN], by hash: what parts have found, for all of them. Read by many threads, and
                           written while none of them runs */
  uint64_t known_bytes;
} query_boxes;

typedef struct query_pairs { /* of a part: the pairs of the current block that have not been counted yet */
  query_pattern *patterns; /* [PATTERNS]; NULL: none are kept */
  query_pattern *kept; /* takes the pairs of the current block; NULL: it does not keep them */
  query_kept *made; /* takes what the pairs that are being added will have again; NULL: nothing is kept */
  uint32_t next; /* the pattern that gives way next */
  int64_t *numbers[TSR_QUERY_RANGES]; /* [QUERY_BLOCK]: of the block's cells */
  uint32_t *cells, *rows; /* [QUERY_BLOCK] */
  tsr_pair *sorted; /* [2 * QUERY_BLOCK]; NULL: pairs are not sorted */
  uint32_t count;
  uint64_t counted; /* since the part began */
} query_pairs;

/* Checks the query's boxes and sorts them into buckets. */
int tsr__query_boxes_make(tsr_query_run *run, tsr_error *error);

int tsr__query_pairs_make(query_part *part, tsr_error *error);

/* Finds out after how many cells of the current batch the numbers in all ranges come again. */
void tsr__query_boxes_period(tsr_query_run *run, const tsr_subtile *subtile);

/* Returns how many of the batch's rows at..at+count-1 come before the numbers come again. */
uint32_t tsr__query_boxes_cut(const tsr_query_run *run, uint64_t at, uint64_t count);

/* Lets a part keep the pairs of blocks, if there is memory. */
void tsr__query_pairs_keep(query_part *part);

/* Returns true if the pairs of the batch come again in it, but are not known yet: then one part is to find them first,
 * for all others. `size` is that of a part. */
bool tsr__query_boxes_begin(const tsr_query_run *run, uint64_t size);

/* Makes what a part has kept known to all parts, while no thread works on the run. */
void tsr__query_pairs_share(query_part *part);

/* Frees what parts have shared. */
void tsr__query_boxes_release(tsr_query_run *run);

/* Pairs each cell of a block with the rows that it meets, and calls `add` for blocks of pairs. Pairs of a stretch of
 * cells that differ only in their number `along` come row by row. */
int tsr__query_pair(query_part *part, const query_rows *block,
                    int (*add)(query_part *part, const query_rows *rows, tsr_error *error), tsr_error *error);

/* ---- windows.c: results of windows, unit by unit ----------------------------------------------------------------- */
/* A unit is a box of cells that fits into memory. Before the query reads its cells, another query reads the arguments
 * of the windows in the unit and in what their frames reach around it, into dense arrays; passes.c makes the
 * results. */

typedef struct query_operand query_operand;
typedef struct window_result window_result;

typedef struct query_unit_axis { /* by dimension */
  int64_t low, high; /* what the query reads, over all units */
  int64_t least, most; /* what windows may reach */
  uint64_t extent; /* of a unit */
  int64_t origin; /* units begin at multiples of the extent from here on */
  int64_t from, to; /* the unit */
  int64_t begin, end; /* the unit with what its frames reach: the box that the arrays hold */
  uint64_t stride; /* in the arrays */
  tsr_range range, reach; /* from..to, begin..end, in the dimension's datatype, at `bytes` */
  uint8_t bytes[4][8];
} query_unit_axis;

typedef struct query_windows {
  const tsr_query_windows *given; /* NULL: the query has none */
  query_unit_axis *axes;
  tsr_ranges *read, *around; /* by dimension: what the query reads in the unit, and what windows see */
  int64_t ***cuts; /* by window and its axis: [count], of its frames */
  tsr_window_kernel *lists; /* by window: the offsets of its box, if that is small; count 0: it is added along axes */
  query_operand *operands; /* the distinct arguments with their filters */
  uint32_t operand_count;
  window_result *results; /* by window */
  tsr_arena texts; /* of the unit */
  bool started, ended;
} query_windows;

/* Checks the query's windows, and divides what it reads into units. */
int tsr__query_windows_make(tsr_query_run *run, tsr_error *error);

/* Computes the windows of the next unit, and sets run->windows.read. Returns 1; 0 after the last unit. */
int tsr__query_windows_next(tsr_query_run *run, tsr_error *error);

/* Prepares the places of a query with a grid. */
int tsr__query_grid_make(tsr_query_run *run, tsr_error *error);

/* Finds where rows of the current batch of `run` are in an array with these axes, by `begin` and `stride`. */
void tsr__query_find_places(const tsr_query_run *run, const query_unit_axis *axes, const query_rows *rows,
                            tsr_cell_runs *places);

/* Sets the windows' inputs of a part to the results for rows. */
void tsr__query_windows_point(query_part *part, const query_rows *rows);

void tsr__query_windows_release(tsr_query_run *run);

/* ---- query.c: the state of a run --------------------------------------------------------------------------------- */

struct tsr_query_run {
  tsr_snapshot *snapshot;
  tsr_query query;
  query_habits habits;
  const tsr_schema *schema; /* the snapshot's, except for datatypes that `habits` changes */
  tsr_memory memory;
  tsr_arena arena; /* lives as long as the run */
  query_expressions expressions;
  query_input input;
  query_grouping grouping;
  query_boxes boxes;
  query_windows windows;
  query_unit_axis *grid; /* of the query's grid: `begin` and `stride` */
  query_layout layout;
  query_extremes extremes;
  query_parts parts;
  collected_groups collected;
  query_result result;
  query_cells *cells; /* the current block of a query of cells; NULL: the query gives groups */
  query_fault fault;
};

/* Returns true if a key of a group is null, in a query without a grid. A null REAL is NaN; a null number is 0. */
static inline bool query_key_is_null(const tsr_query_run *run, const uint64_t *tuple, uint32_t key) {
  if (run->grouping.keys[key].value == QUERY_NONE) return !run->grouping.keys[key].plain && tuple[key] == 0;
  if (run->grouping.keys[key].type == TSR_VALUE_REAL) return tuple[key] == TSR_NULL_REAL;
  return tuple[run->query.key_count] >> key & 1;
}

/* Returns a word that sorts as values of the type do, as far as it goes: texts by their first bytes. `word`: the value,
 * or the bits of a REAL that is not null; `text`: the value of a TEXT. */
uint64_t tsr__query_sort_key(tsr_value_type type, uint64_t word, const tsr_text_value *text);

static inline uint64_t *query_record(const tsr_buffer *records, uint64_t number, uint32_t words) {
  return (uint64_t *)(void *)records->data + number * words;
}

/* Returns the record of a group of the result. */
static inline const uint64_t *query_result_record(const tsr_query_run *run, uint64_t group) {
  return query_record(&run->collected.records, run->result.order[group], run->layout.words);
}

/* Returns the value, as 64 bits, of an integer, datetime or time with this order key (datatype.h). */
static inline uint64_t tsr__query_value_of_key(tsr_datatype datatype, uint64_t key) {
  const tsr_physical_type physical = tsr__datatype_physical(datatype);
  const bool is_signed = physical == TSR_PHYSICAL_I8 || physical == TSR_PHYSICAL_I16 || physical == TSR_PHYSICAL_I32 ||
                         physical == TSR_PHYSICAL_I64;
  return is_signed ? key ^ UINT64_C(1) << 63 : key;
}

/* If `rc` is TSR_BUDGET, reports that the groups do not fit into the query's memory. Returns rc. */
int tsr__query_fail_groups(const tsr_query_run *run, int rc, tsr_error *error);

/* Runs a query, as tsr_query_start does; a second time, without a grid for plain keys, if a coordinate was outside. */
int tsr__query_open(tsr_snapshot *snapshot, const tsr_query *query, const query_habits *habits, tsr_query_run **run,
                    tsr_error *error);

/* Runs a query of cells whose batches the caller takes, by tsr__query_next_batch. */
int tsr__query_cells_start(tsr_snapshot *snapshot, const tsr_query *query, tsr_query_run **run, tsr_error *error);

/* Reads the next batch and its columns. Returns 1; 0 at the end. */
int tsr__query_next_batch(tsr_query_run *run, tsr_error *error);

/* Cuts the current batch into parts and calls `add` for each, on several threads, with run->parts.list and an index. */
int tsr__query_each_part(tsr_query_run *run, tsr_task add, tsr_error *error);

/* ---- batch.c: evaluates the parts of a batch, and counts their rows in groups ----------------------------------- */

typedef struct part_scratch { /* scratch for one block */
  uint64_t *words[TSR_QUERY_KEYS + 1]; /* the words of its keys */
  uint32_t *cells, *joined; /* the rows that satisfy the WHERE, and what they meet */
  uint32_t *numbers, *ends; /* the groups of its rows, or of its runs of rows, and where the runs end */
  uint8_t *mask; /* rows that a filter leaves out; then nulls and `whole` of an expanded constant */
  tsr_text_value *values; /* an expanded constant, or REALs masked by a filter */
} part_scratch;

struct query_part { /* a part of a batch; one thread works on it */
  tsr_query_run *run;
  uint64_t from, end; /* rows of the batch */
  bool straight; /* counts directly in the query's records */
  tsr_arena arena; /* for the scratches */
  tsr_block_scratch *where, *scratch;
  tsr_block_input *inputs; /* by field, then TSR_OP_ROW, then by window: the current rows */
  /* in a query with windows, and in that of their operands: of rows in a unit's arrays; then, in a query with a grid,
   * of rows in the grid */
  tsr_cell_runs *places;
  tsr_vector *vectors; /* by expression: their values */
  collected_groups collected; /* unused if `straight` */
  uint32_t *collected_at; /* [grid_size]: of a small grid, a group's number in `collected` + 1, or 0; NULL: not used */
  part_scratch buffers;
  query_pairs pairs;
  query_fault fault;
  bool outside; /* a coordinate was outside the range that the grid has for its dimension */
};

/* Finds the query's group with these words, one for each key and one for nulls; makes it if it is new. */
int tsr__query_group(tsr_query_run *run, const uint64_t *words, uint32_t *number, tsr_error *error);

/* Evaluates all expressions of run->expressions.program for rows, into part->vectors. Notes which one failed. */
int tsr__query_evaluate(query_part *part, const query_rows *rows, tsr_error *error);

/* Sets *rows to the rows of a block that satisfy the WHERE. */
int tsr__query_select(query_part *part, const query_rows *block, query_rows *rows, tsr_error *error);

/* Leaves out cells of a block that the reader has found not to satisfy the WHERE. Returns false if none is left. */
bool tsr__query_narrow(query_part *part, query_rows *block);

/* Makes a single part, for a query of cells. */
int tsr__query_part_make(tsr_query_run *run, tsr_error *error);

/* Adds the current batch to the groups. */
int tsr__query_add_batch(tsr_query_run *run, tsr_error *error);

/* Frees the parts. */
void tsr__query_parts_release(tsr_query_run *run);

/* ---- tiles.c: what statistics say about the WHERE and about whole tiles ----------------------------------------- */

/* Returns predicates that every cell satisfying the WHERE satisfies. They live as long as the run. */
int tsr__query_where_predicates(tsr_query_run *run, const tsr_predicate **predicates, uint32_t *count,
                                tsr_error *error);

/* If the query can count some tiles by statistics or by the domain, sets the mode of a reader that offers whole tiles.
 * Call it before the keys are made. */
void tsr__query_tiles_take(tsr_query_run *run, tsr_reader_mode *mode);

/* ---- rising.c: keys that rise with a dimension ------------------------------------------------------------------- */

/* Returns true if an expression depends on one integer dimension, which *field becomes, and never falls as it rises. */
bool tsr__query_rises(const tsr_schema *schema, const tsr_expression *expression, uint32_t *field);

/* Sets the word of such a key of this type at a coordinate. Returns false if it is not certain. */
bool tsr__query_rising_word(const tsr_expression *expression, tsr_value_type type, int64_t coordinate, uint64_t *word);

#endif
