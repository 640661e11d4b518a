/* snapshot.h: what is visible between two times. */
#ifndef TSR_SNAPSHOT_H
#define TSR_SNAPSHOT_H

#include "model/domain.h"
#include "format/condition.h"

typedef struct tsr_fragment tsr_fragment;

void tsr__array_conditions_release(tsr_array *array);

typedef struct tsr_snapshot_fragment {
  tsr_fragment *fragment;
  /* [field of the snapshot's schema] -> slot of the fragment; -1 where it lacks the field, or has one of that name with
   * another datatype or number of values per cell, which is another attribute. Nullability may differ. */
  int64_t *slots;
  /* Dense: the part of the fragment's box that counts, in ordinals. Of a prepared fragment that a merge has spanned it
   * may
   * be less than all of it, and several items may show one fragment (snapshot_late.c). */
  const uint64_t *box_low, *box_high;
  bool prepared; /* tsr_committed.prepared */
  uint64_t
      /* sparse: what cells without a time of their own count with against equal coordinates: the fragment's start */
      time;
  /* The snapshot's times cut its own: only cells of times within since..as_of count. Where the fragment has no cell
   * times all of its cells do, as in TileDB. */
  bool cut;
  /* Conditions that some of its cells have not been through (by its start time and its processed list), by time. Where
   * the fragment has cell times, a condition is for cells of its time or older only. */
  uint32_t condition_count;
  const tsr_condition **conditions;
  uint64_t own_first, own_end; /* of a run: numbers of its cells; `cut` for those that are not before the end */
} tsr_snapshot_fragment;

/* What a field that one of its conditions names is to its cells: the fragment's own and its slot, or slot -1 and one
 * that it
 * lacks. NULL: no schema has it. `present` is the schema that is asked first. */
int tsr__condition_field(tsr_array *array, const tsr_schema *present, const tsr_fragment *fragment,
                         const tsr_condition *condition, const char *name, const tsr_field **field, int64_t *slot,
                         tsr_error *error);

/* What readers ask the writer whose uncommitted changes a snapshot shows. write/transaction_view.c answers. */
typedef struct tsr_writer_view {
  /* Is the row among the first `removed` rows that the writer has removed? */
  bool (*hides)(const struct tsr_writer *writer, int64_t row, uint64_t removed);
  /* Has the writer removed a row of low..high, both inclusive? May be true where it has not. */
  bool (*hides_some)(const struct tsr_writer *writer, int64_t low, int64_t high);
  /* Finds where cell number `at` of a sorted run stands among the run's cells. `first`: the number of the run's first cell. */
  int (*position)(tsr_array *array, tsr_fragment *run, uint64_t first, uint64_t at, uint64_t *position,
                  tsr_error *error);
  /* Drops the snapshot's reference to the writer. */
  void (*release)(struct tsr_writer *writer);
} tsr_writer_view;

struct tsr_snapshot {
  tsr_array *array;
  uint32_t references;
  uint64_t since, as_of; /* as_of: what was asked, or the clock when it was opened */
  uint64_t asked, generation, next_change; /* when it may be shared: see snapshot.c */
  const tsr_schema *asked_schema; /* NULL: the one in force at its end */
  const tsr_schema *schema; /* whose fields it shows */
  tsr_arena arena;
  tsr_grid grid; /* dense arrays */
  uint64_t fragment_count;
  tsr_snapshot_fragment *fragments; /* oldest first: by (start time, name); the later wins */
  const tsr_condition **conditions; /* in view, by time; fragments share it */
  uint64_t condition_count;
  bool has_domain;
  tsr_interval *non_empty_domain; /* around all fragments */
  uint64_t *box_low, *box_high; /* dense: the same in ordinals */
  int64_t unwritten_row_base; /* rowids of never-written dense cells, by row-major ordinal; -1: numbered on demand */
  /* with a writer's changes on top (write/transaction_view.c): */
  tsr_snapshot *base;
  struct tsr_writer *writer; /* NULL: there are none */
  const tsr_writer_view *view; /* what readers ask the writer; NULL without one */
  uint64_t removed; /* how many of its removed rows are hidden */
};

/* A snapshot of `base`, which it holds, with runs on top, the later ones last, which it holds, too; or of the runs
 * alone. */
typedef struct tsr_snapshot_run {
  tsr_fragment *fragment;
  uint64_t first, end; /* numbers of its cells; those from `end` on do not count */
  bool cut; /* there are some */
} tsr_snapshot_run;

int tsr__snapshot_stack(tsr_snapshot *base, bool alone, const tsr_snapshot_run *runs, uint64_t count,
                        tsr_snapshot **snapshot, tsr_error *error);

static inline void tsr__snapshot_hold(tsr_snapshot *snapshot) { snapshot->references++; }

#endif
