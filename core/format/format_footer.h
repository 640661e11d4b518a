/* format_footer.h: the table of the u64 values that a fragment's footer has for each slot. fragment_metadata.c reads
 * footers by it, fragment_metadata_write.c writes them.
 */
#ifndef TSR_FORMAT_FOOTER_H
#define TSR_FORMAT_FOOTER_H

#include "format/fragment_metadata.h"
#include "format/layout.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* One row of the footer: the same value of all slots, in the order of slots. */
typedef struct footer_row {
  size_t member; /* offset of the value in tsr_slot */
  uint32_t since; /* first format version that has the row */
  bool variable; /* the row describes variable-length parts: below version 5 it leaves out the slot of __coords */
} footer_row;
static const footer_row footer_sizes[] = {
    {offsetof(tsr_slot, file_size[TSR_PART_FIXED]), 0, false},
    {offsetof(tsr_slot, file_size[TSR_PART_VARIABLE]), 0, true},
    {offsetof(tsr_slot, file_size[TSR_PART_VALIDITY]), TSR_SINCE_VALIDITY, false},
};
/* between these two tables the footer has the u64 offset of the R-tree */
static const footer_row footer_offsets[] = {
    {offsetof(tsr_slot, offsets_at[TSR_PART_FIXED]), 0, false},
    {offsetof(tsr_slot, offsets_at[TSR_PART_VARIABLE]), 0, true},
    {offsetof(tsr_slot, var_sizes_at), 0, true},
    {offsetof(tsr_slot, offsets_at[TSR_PART_VALIDITY]), TSR_SINCE_VALIDITY, false},
    {offsetof(tsr_slot, min_at), TSR_SINCE_TILE_STATISTICS, false},
    {offsetof(tsr_slot, max_at), TSR_SINCE_TILE_STATISTICS, false},
    {offsetof(tsr_slot, sum_at), TSR_SINCE_TILE_STATISTICS, false},
    {offsetof(tsr_slot, null_count_at), TSR_SINCE_TILE_STATISTICS, false},
};

#endif
