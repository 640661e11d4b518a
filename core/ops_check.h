/* ops_check.h: what the files of the check share. check.c: the array as a whole; check_commits.c: what is committed;
 * check_fragment.c: the files and metadata of a fragment; check_cells.c: its tiles and cells; check_statistics.c: what
 * is said of them.
 *
 * Nothing here relies on what a reader would have validated: each object is decoded by itself, what is wrong with it is
 * told, and the check goes on with the next. So a function returns an error only to stop everything: the caller asked
 * to, or there is no memory to go on with.
 */
#ifndef TSR_OPS_CHECK_H
#define TSR_OPS_CHECK_H

#include "ops.h"

#define TSR_CHECK_CONTENT_MOST (UINT64_C(1) << 30) /* bytes of an object of metadata, unfiltered */

typedef struct tsr_checked_schema {
  const char *path;
  tsr_arena arena;
  bool sound;
  tsr_schema schema; /* if so */
} tsr_checked_schema;

typedef struct tsr_checked_fragment { /* a name that is committed */
  const char *name;
  tsr_name parsed;
  bool old_layout;
  const char *commit; /* path of what says so; of versions 1 to 4 the fragment's metadata file */
  const uint8_t *footer; /* in a consolidated file, or NULL */
  uint64_t footer_size;
  const char *footer_path; /* of that file */
} tsr_checked_fragment;

typedef struct tsr_checker {
  tsr_environment *environment;
  tsr_store *store;
  tsr_memory memory;
  tsr_arena arena; /* lives as long as the check */
  const uint8_t *key;
  unsigned threads;
  bool quick;
  bool stopped; /* a look of which nothing is told was interrupted */
  tsr_check_report report;
  void *argument;
  tsr_error *error; /* the caller's: why all stops */
  tsr_listing root;
  tsr_map schemas; /* name -> tsr_checked_schema */
  const tsr_schema *newest; /* the last sound one by name, or NULL */
  tsr_map fragments; /* name -> tsr_checked_fragment */
  tsr_buffer contents; /* tsr_buffer *: what the footers point into */
  uint64_t fragments_done; /* of progress, in which each counts TSR_CHECK_PARTS */
} tsr_checker;

/* A path of three parts, of which the first ones may be empty; in `text`, whose size is enough for all that stores
 * hold. */
typedef struct tsr_check_path {
  char text[1280];
} tsr_check_path;
const char *tsr__check_join(tsr_check_path *path, const char *a, const char *b, const char *c);

/* Tells the caller. `file` is relative to the array. */
int tsr__check_say(tsr_checker *c, tsr_severity severity, const char *file, const char *format, ...) TSR_PRINTF(4, 5);
/* Tells of a call that failed: `what` was it about (may be NULL)? An interrupt stops the check; memory that is not
 * there for this object is a warning; all else is an error in the array. */
int tsr__check_fault(tsr_checker *c, const char *file, const tsr_error *fault, const char *what);
/* *found false: there is no such directory, or it cannot be listed, which has been told. */
int tsr__check_list(tsr_checker *c, const char *path, tsr_listing *listing, bool *found);
/* False only where it is sure that there is no such file. */
bool tsr__check_is_there(tsr_checker *c, const char *path);
/* The content of a file that is one generic tile and nothing else. *sound false: what is wrong has been told. */
int tsr__check_read_tile(tsr_checker *c, const char *path, tsr_buffer *content, bool *sound);
int tsr__check_stray(tsr_checker *c, const char *path, tsr_entry_kind kind, const char *where);

bool tsr__check_root_has(const tsr_checker *c, const char *name, tsr_entry_kind kind);
typedef struct tsr_check_label { /* a few words of a message */
  char text[320];
} tsr_check_label;
const char *tsr__check_show_value(tsr_datatype datatype, const void *value, tsr_check_label *label);

/* ---- check_commits.c ---- */
int tsr__check_commits(tsr_checker *c); /* __commits, __fragment_meta, __fragments, and their like in the root */
int tsr__check_compare_fragments(const void *a, const void *b); /* tsr_checked_fragment **, by time and name */

/* ---- check_fragment.c ---- */
typedef struct tsr_check_bound { /* one end of a box */
  uint64_t key; /* strings: the size */
  const uint8_t *text;
} tsr_check_bound;
#define TSR_CHECK_PARTS 1000
typedef struct tsr_fragment_check {
  tsr_checker *c;
  const tsr_checked_fragment *fragment;
  tsr_check_path directory, metadata_path;
  tsr_file *file; /* the metadata's */
  tsr_fragment_metadata metadata;
  tsr_arena arena;
  bool schema_damaged;
  uint64_t tiles_done; /* of all fields together */
  /* Are these there to be used? What is wrong with them has been told. */
  bool *slot_sound, *statistics_sound; /* by slot: places of tiles, statistics */
  bool rtree_sound, summary_sound, processed_sound;
  /* Sparse fragments, NULL where nothing is known: boxes of tiles, [(tile * dimensions + d) * 2 + (0 low | 1 high)], as
   * stored, and as the cells have them. */
  tsr_check_bound *boxes, *cell_boxes;
  bool *box_open; /* by dimension: some end of it cannot be told */
  struct tsr_check_summary
      *summaries; /* by slot, two each: of its tiles' statistics as stored, as the cells have them */
} tsr_fragment_check;
int tsr__check_fragment(tsr_checker *c, const tsr_checked_fragment *fragment);
static inline bool tsr__check_is_text(const tsr_fragment_check *f, uint32_t dimension) {
  return f->metadata.schema->fields[dimension].values_per_cell == TSR_VARIABLE;
}
/* "field 'a'", or "__coords", "t" and so on. */
const char *tsr__check_field(const tsr_fragment_check *f, uint32_t slot, tsr_check_label *label);
int tsr__check_part_path(tsr_fragment_check *f, uint32_t slot, tsr_part_kind part, tsr_check_path *path);
int tsr__check_compare_bounds(bool text, const tsr_check_bound *a, const tsr_check_bound *b);
const char *tsr__check_show_bound(const tsr_fragment_check *f, uint32_t dimension, const tsr_check_bound *bound,
                                  tsr_check_label *label);

/* ---- check_cells.c: every tile, every cell ---- */
int tsr__check_cells(tsr_fragment_check *f);

/* ---- check_statistics.c ---- */
typedef struct tsr_check_summary tsr_check_summary;
int tsr__check_summaries(tsr_fragment_check *f); /* before all else: makes them, empty */
/* Compares a tile's cells with what the metadata says of them, and adds what is true to the slot's summary. `mask`: one
 * byte per cell, 0 = outside of a dense fragment's box; NULL: all are inside. tile NULL: it is not known, what stands
 * in the metadata is taken for true. */
int tsr__check_tile_statistics(tsr_fragment_check *f, uint32_t slot, uint64_t number, const tsr_tile *tile,
                               const uint8_t *mask);
/* The fragment's own statistics against the summaries. */
int tsr__check_fragment_statistics(tsr_fragment_check *f);

/* check.c: the array in a store, which it closes. */
int tsr__check_store(tsr_environment *environment, tsr_store *store, const tsr_check_options *options,
                     tsr_check_report report, void *argument, tsr_error *error);

#endif
