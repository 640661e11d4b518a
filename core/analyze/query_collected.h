/* query_collected.h: the groups that a query, or one part of a batch, has met, with their records and values. */
#ifndef TSR_QUERY_COLLECTED_H
#define TSR_QUERY_COLLECTED_H

#include "base/memory.h"
#include "compute/groups.h"

typedef struct query_collected {
  tsr_groups groups; /* without a grid: the groups, as words of their keys; of a part: those that it has met */
  tsr_texts texts; /* of keys */
  tsr_buffer records; /* one of each group */
  tsr_texts values; /* texts of which distinct ones are counted */
  uint32_t measure_count;
  tsr_groups *pairs; /* by measure: group and value, where the values are distinct */
  tsr_buffer *lists; /* by measure: group and value, for percentiles */
} query_collected;

/* Makes the tables of `measures` measures, but not those of groups: their width is known later. Texts live in `arena`,
 * or with the tables if it is NULL. What fails is released like the rest. */
int tsr__query_collected_make(query_collected *collected, uint32_t measures, tsr_memory *memory, tsr_arena *arena,
                              tsr_error *error);

/* Forgets all groups and values, and keeps their memory. */
void tsr__query_collected_clear(query_collected *collected);

void tsr__query_collected_release(query_collected *collected);

#endif
