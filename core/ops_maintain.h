/* ops_maintain.h: what the files of consolidation and vacuum share. mix.c: cells of several sources become one stream;
 * merge.c: sorted sources become one in global order; merge_sparse.c, merge_dense.c: fragments become a merged one;
 * consolidate.c: which fragments; replace.c: how they are replaced; consolidate_files.c: commits, footers and metadata;
 * vacuum.c: what was replaced goes.
 */
#ifndef TSR_OPS_MAINTAIN_H
#define TSR_OPS_MAINTAIN_H

#include "ops.h"

/* ---- mix.c: cells of several sources, in an order of their own, into a fragment ---- */
#define TSR_NO_SOURCE UINT32_MAX /* padding of a dense tile */
typedef struct tsr_pick {
  uint32_t source, cell;
} tsr_pick;
typedef struct tsr_mixer { /* `= {0}`; release frees */
  const tsr_schema *schema;
  uint32_t columns; /* of a source: one for each field, then u64 ones */
  bool dense; /* columns of dimensions are not looked at */
  tsr_memory *memory;
  tsr_fragment_writer *writer;
  tsr_buffer order;
  tsr_column *staged; /* what comes from several sources */
  struct tsr_mixed *buffers;
} tsr_mixer;
int tsr__mixer_init(tsr_mixer *mixer, const tsr_schema *schema, uint32_t specials, bool dense, tsr_memory *memory,
                    tsr_fragment_writer *writer, tsr_error *error);
/* Appends the cells in the order of the picks; sources[s] are the columns of source s. */
int tsr__mixer_write(tsr_mixer *mixer, const tsr_column *const *sources, const tsr_pick *picks, uint64_t count,
                     tsr_error *error);
void tsr__mixer_release(tsr_mixer *mixer);

/* ---- merge.c: sorted sources -> one stream in global order ---- */
typedef struct tsr_merge_block { /* cells of a source that follow each other */
  uint64_t count; /* less than 2^32 */
  const tsr_column *columns; /* one for each field, then the specials (u64): time, time of deletion, condition */
} tsr_merge_block;
typedef struct tsr_merge_source {
  /* The next block: 1, or 0 at the end. It lives until the next call. */
  int (*next)(struct tsr_merge_source *source, tsr_merge_block *block, tsr_error *error);
  /* Before that: coordinates that none of the next block's is below in any dimension, one column for each, or NULL
   * where they are not known. A block is asked for when a cell of it may be next. */
  const tsr_column *(*corner)(struct tsr_merge_source *source);
  bool loose; /* cells may be out of order within a block: they are sorted; blocks still follow each other */
} tsr_merge_source;
typedef struct tsr_merge_options {
  const tsr_schema *schema;
  uint32_t specials; /* 0; 1: times; 3: times, times of deletion, conditions */
  /* Without duplicates: of equal coordinates only the newest is kept; where there are times all of different times are,
   * the newest first. With duplicates all are. */
  /* Cells with a time of deletion go, and older ones of their coordinates: of the specials, times alone are written. */
  bool purge;
  tsr_environment *environment;
  tsr_memory *memory;
} tsr_merge_options;
/* Of sources[0..count) the later is the newer where times do not tell. Returns TSR_OK and how many cells were written;
 * TSR_CORRUPT, and `*unsorted` is the source, where the blocks of one do not follow each other; else it is UINT32_MAX. */
int tsr__merge(const tsr_merge_options *options, tsr_merge_source *const *sources, uint32_t count,
               tsr_fragment_writer *writer, uint64_t *cells, uint32_t *unsorted, tsr_error *error);

/* ---- merge_sparse.c, merge_dense.c ---- */
typedef struct tsr_merge_plan { /* what a run of fragments becomes */
  tsr_array *array;
  tsr_snapshot *snapshot; /* of the run's schema; has the fragments */
  uint32_t count;
  const uint32_t *fragments; /* indices in the snapshot, oldest first */
  bool keep_times; /* sparse: cells keep their times, and are kept when a newer one is there */
  bool purge;
  tsr_memory *memory;
  unsigned threads;
} tsr_merge_plan;
/* Names of the delete conditions that the merged cells have been through, and whether any were or had been. */
typedef struct tsr_merge_conditions {
  uint32_t count;
  char **names;
  tsr_map numbers; /* name -> its place in `names`, plus 1; the caller releases it */
  bool dated; /* cells get times of deletion */
} tsr_merge_conditions;
int tsr__merge_conditions(const tsr_merge_plan *plan, tsr_arena *arena, tsr_merge_conditions *conditions,
                          tsr_error *error);
int tsr__merge_sparse(const tsr_merge_plan *plan, const tsr_merge_conditions *conditions,
                      const tsr_fragment_target *target, uint64_t *cells, tsr_error *error);

/* Boxes apart from each other. */
typedef struct tsr_box_set { /* `= {0}`, dimensions and memory set */
  uint32_t dimensions;
  tsr_buffer ends; /* u64, for each box: low and high of each dimension, ordinals */
} tsr_box_set;
static inline uint64_t tsr__box_set_count(const tsr_box_set *set) {
  return set->ends.size / (2 * sizeof(uint64_t) * set->dimensions);
}
/* Adds what is not there yet of the box low..high, and joins boxes that make one. */
int tsr__box_set_add(tsr_box_set *set, const uint64_t *low, const uint64_t *high, tsr_error *error);
/* Writes one box; its cells all come from the plan's fragments. target->box is that box. */
int tsr__merge_dense(const tsr_merge_plan *plan, const uint64_t *low, const uint64_t *high,
                     const tsr_fragment_target *target, tsr_error *error);

/* ---- replace.c: merged fragments take the place of their sources ---- */
typedef struct tsr_replacement { /* array, memory, version, names (room for TSR_BOXES_MOST) are set; end takes back what
                                  * is not committed */
  tsr_array *array;
  tsr_memory *memory;
  uint32_t version; /* of the merged fragments */
  uint64_t start, end; /* their times */
  uint32_t count; /* merged fragments on disk */
  char (*names)[128];
  uint32_t source_count;
  const tsr_fragment **sources;
  char staged[160], vacuum[160]; /* the commit and the vacuum file before they have their names, or '' */
} tsr_replacement;
/* A new directory for one more merged fragment, which is to be written: `path`, of the array, is its place. */
int tsr__replacement_add(tsr_replacement *replacement, char path[160], tsr_error *error);
/* They are whole and on disk: now they count, and the sources no more. TSR_ABORT if others have changed what is merged. */
int tsr__replacement_commit(tsr_replacement *replacement, tsr_error *error);
void tsr__replacement_end(tsr_replacement *replacement);
/* The names of all that vacuum files of the array's listing name, which is made anew where one of them has gone since. They
 * live as long as the listing. `names` is empty. */
int tsr__replaced(tsr_array *array, tsr_map *names, tsr_error *error);
/* Calls `found` for each fragment that is not committed and that a writer may still commit: less than a day old, or named by
 * a pending marker of the array's listing, and not of a merge, whose fragments bring nothing new. A negative result ends it. */
typedef int (*tsr_young_fragment)(void *argument, const char *name, const tsr_name *parsed, tsr_error *error);
int tsr__young_fragments(tsr_array *array, tsr_memory *memory, tsr_young_fragment found, void *argument,
                         tsr_error *error);

/* ---- consolidate_files.c ---- */
typedef struct tsr_maintained { /* an array, or a group */
  tsr_environment *environment;
  tsr_store *store;
  const uint8_t *key;
  tsr_array *array; /* NULL: a group */
  uint32_t version; /* of what is written: 22 for groups */
  const char *path; /* of the directory, as it was given */
} tsr_maintained;
int tsr__consolidate_commits(tsr_array *array, uint32_t version, uint64_t *merged, tsr_error *error);
/* Removes .con files that are cut and without which nothing is lost, as the array's listing has them; how many is added to
 * `removed`. */
int tsr__mend_commits(tsr_array *array, uint32_t version, uint64_t *removed, tsr_error *error);
int tsr__consolidate_footers(tsr_array *array, uint32_t version, uint64_t since, uint64_t as_of, uint64_t *merged,
                             tsr_error *error);
int tsr__consolidate_metadata(const tsr_maintained *object, uint64_t since, uint64_t as_of, uint64_t *merged,
                              tsr_error *error);
/* A file that is whole when it appears: written under a provisional name, synced, renamed to `path`, which must not be
 * there; then the directory is synced. */
int tsr__file_publish(tsr_store *store, const char *path, const void *bytes, uint64_t size, tsr_error *error);
/* The same for a .con, which must not name what a vacuum removes meanwhile: when it is staged, `look` is asked whether all
 * that it names is still committed: 1, or 0, or an error. TSR_ABORT: it is not, or a vacuum has removed what was staged. */
typedef int (*tsr_con_look)(void *argument, tsr_error *error);
int tsr__con_publish(tsr_store *store, const char *path, const tsr_buffer *lines, tsr_con_look look, void *argument,
                     tsr_error *error);
/* DIRECTORY/__START_END_UUID_V and a suffix. */
int tsr__file_path(const char *directory, uint64_t start, uint64_t end, uint32_t version, const char *suffix,
                   char path[160], tsr_error *error);
/* A line of a vacuum file: "/DIRECTORY/NAME", below version 19 an absolute URI. */
int tsr__vacuum_line(const tsr_maintained *object, const char *directory, const char *name, tsr_buffer *out,
                     tsr_error *error);

#endif
