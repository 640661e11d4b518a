/* check_fragment.h: the check of one fragment: its files, its metadata file piece by piece, its boxes. */
#ifndef TSR_CHECK_FRAGMENT_H
#define TSR_CHECK_FRAGMENT_H

#include "format/fragment_metadata.h"
#include "check/check.h"

typedef struct tsr_check_label tsr_check_label;
typedef struct tsr_check_summary tsr_check_summary;
typedef struct tsr_checked_fragment tsr_checked_fragment;
typedef struct tsr_checker tsr_checker;

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

#endif
