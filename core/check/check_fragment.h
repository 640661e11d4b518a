/* check_fragment.h: checks one fragment: its files, the tiles of its metadata file, its MBRs and non-empty domain. The
 * structure below also carries what check_cells.c and check_statistics.c find out. */
#ifndef TSR_CHECK_FRAGMENT_H
#define TSR_CHECK_FRAGMENT_H

#include "format/fragment_metadata.h"
#include "check/check.h"

typedef struct tsr_check_label tsr_check_label;
typedef struct tsr_check_summary tsr_check_summary;
typedef struct tsr_checked_fragment tsr_checked_fragment;
typedef struct tsr_checker tsr_checker;

typedef struct tsr_check_bound { /* one end of a box on one dimension, or a value */
  uint64_t key; /* order key; of strings the size in bytes */
  const uint8_t *text; /* strings */
} tsr_check_bound;

#define TSR_CHECK_PARTS 1000 /* units of progress per fragment */

typedef struct tsr_fragment_check {
  tsr_checker *c;
  const tsr_checked_fragment *fragment;
  tsr_check_path directory, metadata_path;
  tsr_file *file; /* the metadata file */
  tsr_fragment_metadata metadata;
  tsr_arena arena; /* of this fragment's check */
  bool schema_damaged;
  uint64_t tiles_done; /* of all fields together */
  /* The next five are false for parts of the metadata that cannot be used. Their faults have been reported. */
  bool *slot_sound; /* [slot]: the places of its tiles */
  bool *statistics_sound; /* [slot]: its statistics */
  bool rtree_sound;
  bool summary_sound; /* fragment statistics */
  bool processed_sound; /* list of processed conditions */
  /* Sparse fragments: the ends of the tiles' MBRs, [(tile * dimensions + d) * 2 + (0 low | 1 high)]. NULL if
   * unknown. */
  tsr_check_bound *boxes; /* as stored */
  tsr_check_bound *cell_boxes; /* as the cells have them; as stored where the cells are not known */
  bool *box_open; /* [dimension]: some end cannot be known, and is not compared */
  struct tsr_check_summary *summaries; /* two per slot, of its tiles' statistics: as stored, as the cells have them */
} tsr_fragment_check;

/* Checks one committed fragment. */
int tsr__check_fragment(tsr_checker *c, const tsr_checked_fragment *fragment);

static inline bool tsr__check_is_text(const tsr_fragment_check *f, uint32_t dimension) {
  return f->metadata.schema->fields[dimension].values_per_cell == TSR_VARIABLE;
}

/* Writes the name of a slot for a message: "field 'a'", or a system column as "__coords" or "t". Returns
 * label->text. */
const char *tsr__check_field(const tsr_fragment_check *f, uint32_t slot, tsr_check_label *label);

/* Makes the path of the file with one part (offsets or values, variable values, validity) of a slot. */
int tsr__check_part_path(tsr_fragment_check *f, uint32_t slot, tsr_part_kind part, tsr_check_path *path);

/* Compares two ends; `text`: of a string dimension. Returns < 0, 0, > 0. */
int tsr__check_compare_bounds(bool text, const tsr_check_bound *a, const tsr_check_bound *b);

/* Writes an end as text for a message. Returns label->text. */
const char *tsr__check_show_bound(const tsr_fragment_check *f, uint32_t dimension, const tsr_check_bound *bound,
                                  tsr_check_label *label);

#endif
