/* snapshot.h: snapshots: the fragments and delete conditions of an array that are visible between two times. A snapshot
 * is immutable and shared by reference count. Readers plan on it; a transaction view (write/transaction_view.c) puts
 * uncommitted changes on top.
 */
#ifndef TSR_ARRAY_SNAPSHOT_H
#define TSR_ARRAY_SNAPSHOT_H

#include "model/domain.h"
#include "format/condition.h"
#include "model/name.h"

typedef struct tsr_fragment tsr_fragment;

/* Frees the array's decoded delete conditions. */
void tsr__array_conditions_release(tsr_array *array);

typedef struct tsr_snapshot_fragment {
  tsr_fragment *fragment; /* the snapshot has a reference */
  /* [field of the snapshot's schema] -> slot of the fragment. -1: the fragment lacks the field, or has a field of that
   * name with another datatype or number of values per cell, which is another attribute. Nullability may differ. */
  int64_t *slots;
  /* Dense: the part of the fragment's box that counts, in ordinals, inclusive. If a merge has spanned a prepared
   * fragment, only some of its box may count, and several items may have parts of one fragment (snapshot.c). */
  const uint64_t *box_low, *box_high;
  bool prepared; /* tsr_committed.prepared */
  /* sparse: time of cells without a time of their own when versions are compared: the fragment's start */
  uint64_t time;
  /* The fragment's time range reaches beyond the snapshot's: only cells with times within since..as_of count. If the
   * fragment has no times of cells, all of its cells count, as in TileDB. */
  bool cut;
  /* Delete conditions that may apply to the fragment's cells, by time: those that are not older than its start and not
   * in its list of processed conditions. If the fragment has times of cells, a condition applies to cells of its time
   * or older only. */
  uint32_t condition_count;
  const tsr_condition **conditions;
  /* sorted run: its cells have the numbers run_first to run_end - 1; if `cut`, cells from run_end on do not count */
  uint64_t run_first, run_end;
} tsr_snapshot_fragment;

/* Finds the field that a delete condition means by `name` when it is evaluated on a fragment's cells. *field, *slot:
 * the fragment's own field and its slot; slot -1: the fragment lacks the attribute, and *field is that of another
 * schema, or NULL if no schema has the name. `present`: the schema that is searched first after the fragment's own. */
int tsr__condition_field(tsr_array *array, const tsr_schema *present, const tsr_fragment *fragment,
                         const tsr_condition *condition, const char *name, const tsr_field **field, int64_t *slot,
                         tsr_error *error);

/* Functions of the writer whose uncommitted changes a snapshot shows; write/transaction_view.c implements them. */
typedef struct tsr_writer_view {
  /* Returns true if the row is among the first `removed` rows that the writer has removed. */
  bool (*hides)(const struct tsr_writer *writer, int64_t row, uint64_t removed);
  /* Returns false only if the writer has removed no row of low..high, both inclusive. */
  bool (*hides_some)(const struct tsr_writer *writer, int64_t low, int64_t high);
  /* Finds where cell number `at` of a sorted run stands among the run's cells. `first`: the number of the run's first
   * cell. */
  int (*position)(tsr_array *array, tsr_fragment *run, uint64_t first, uint64_t at, uint64_t *position,
                  tsr_error *error);
  /* Drops the snapshot's reference to the writer. */
  void (*release)(struct tsr_writer *writer);
} tsr_writer_view;

typedef struct tsr_snapshot_request { /* who may share the snapshot, and for how long (snapshot.c) */
  uint64_t as_of; /* may be TSR_TIME_NOW */
  const tsr_schema *schema; /* NULL: the schema in force at as_of */
  uint64_t generation; /* of the listing from which the snapshot was made */
  uint64_t next_change; /* first time after the snapshot's as_of at which a committed name comes into view */
} tsr_snapshot_request;

typedef struct tsr_snapshot_domain { /* the non-empty domain of all fragments together */
  bool exists; /* false: no fragment has cells */
  tsr_interval *intervals; /* by dimension */
  uint64_t *box_low, *box_high; /* dense: the same in ordinals, inclusive */
} tsr_snapshot_domain;

typedef struct tsr_snapshot_view { /* of a transaction view (write/transaction_view.c): the changes on top */
  tsr_snapshot *base; /* the snapshot below, which this one holds; else NULL */
  struct tsr_writer *writer; /* NULL: no writer's changes are on top */
  const tsr_writer_view *functions; /* of the writer; NULL if there is none */
  uint64_t removed; /* the first so many rows that the writer has removed are hidden */
} tsr_snapshot_view;

struct tsr_snapshot {
  tsr_array *array;
  uint32_t references;
  uint64_t since, as_of; /* inclusive, in milliseconds since 1970; as_of: the clock if TSR_TIME_NOW was requested */
  const tsr_schema *schema; /* whose fields the snapshot shows */
  uint64_t fragment_count;
  tsr_snapshot_fragment *fragments; /* oldest first: by (start time, name); of equal coordinates the later one counts */
  tsr_arena arena;
  tsr_grid grid; /* dense arrays */
  const tsr_condition **conditions; /* delete conditions in view, by time; fragments share the array */
  uint64_t condition_count;
  int64_t unwritten_row_base; /* rowids of never-written dense cells, by row-major ordinal; -1: numbered on demand */
  tsr_snapshot_request request;
  tsr_snapshot_domain domain;
  tsr_snapshot_view view;
};

typedef struct tsr_snapshot_run { /* a sorted run of a transaction view */
  tsr_fragment *fragment;
  uint64_t first, end; /* numbers of the cells that count: first to end - 1 */
  bool cut; /* the run has cells from `end` on */
} tsr_snapshot_run;

/* Makes a snapshot of `base` with sorted runs on top, the latest last; if `alone` is true, of the runs without the
 * fragments of `base`. The snapshot takes references to `base` and to the runs. */
int tsr__snapshot_stack(tsr_snapshot *base, bool alone, const tsr_snapshot_run *runs, uint64_t count,
                        tsr_snapshot **snapshot, tsr_error *error);

static inline void tsr__snapshot_hold(tsr_snapshot *snapshot) { snapshot->references++; }

/* Places prepared commits in a snapshot if a merged fragment spans their time. */

typedef struct tsr_committed tsr_committed;

/* Returns true if a merged fragment spans `time` without times of its cells: it may have both older and newer cells,
 * and does not say which. `dense`: the array is dense. */
bool tsr__late_spans(const tsr_name *merged, uint64_t time, bool dense);

/* *all: whether all sources of the merged fragment are still listed. False if no vacuum file names them. */
int tsr__late_has_sources(tsr_array *array, const tsr_committed *merged, bool *all, tsr_error *error);

/* Changes the fragments of a snapshot that is being made: a merged fragment that spans the time of a prepared one
 * counts as newer in all cells that it has. */
int tsr__late_place(tsr_snapshot *snapshot, tsr_error *error);

#endif
