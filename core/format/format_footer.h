/* format_footer.h: the rows of u64 in fragments' footers, one table for fragment_metadata.c, which reads them, and
 * fragment_metadata_write.c.
 */
#ifndef TSR_FORMAT_FOOTER_H
#define TSR_FORMAT_FOOTER_H

#include "format/fragment_metadata.h"

#define TSR_OLD_SCHEMA "__array_schema.tdb" /* the name of schemas below version 10 */
#define COUNT(array)   (sizeof(array) / sizeof *(array))

/* The footer's rows of u64, in order; `variable`: without __coords below version 5. */
typedef struct footer_row {
  size_t member; /* of tsr_slot */
  uint32_t since;
  bool variable;
} footer_row;
static const footer_row footer_sizes[] = {
    {offsetof(tsr_slot, file_size[TSR_PART_FIXED]), 0, false},
    {offsetof(tsr_slot, file_size[TSR_PART_VARIABLE]), 0, true},
    {offsetof(tsr_slot, file_size[TSR_PART_VALIDITY]), 7, false},
};
/* between these, u64 offset of the R-tree */
static const footer_row footer_offsets[] = {
    {offsetof(tsr_slot, offsets_at[TSR_PART_FIXED]), 0, false},
    {offsetof(tsr_slot, offsets_at[TSR_PART_VARIABLE]), 0, true},
    {offsetof(tsr_slot, var_sizes_at), 0, true},
    {offsetof(tsr_slot, offsets_at[TSR_PART_VALIDITY]), 7, false},
    {offsetof(tsr_slot, min_at), 11, false},
    {offsetof(tsr_slot, max_at), 11, false},
    {offsetof(tsr_slot, sum_at), 11, false},
    {offsetof(tsr_slot, null_count_at), 11, false},
};

#endif
