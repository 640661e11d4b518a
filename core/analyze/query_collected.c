/* query_collected.c: makes, clears and releases what a query or one of its parts has collected. */
#include "analyze/query_collected.h"

int tsr__query_collected_make(query_collected *collected, uint32_t measures, tsr_memory *memory, tsr_arena *arena,
                              tsr_error *error) {
  tsr__texts_init(&collected->texts, memory, arena);
  tsr__texts_init(&collected->values, memory, arena);
  collected->records.memory = memory;
  TSR_TRY(TSR_ALLOC_ARRAY(memory, measures, &collected->pairs, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, measures, &collected->lists, error));
  collected->measure_count = measures;
  for (uint32_t m = 0; m < measures; m++) {
    tsr__groups_init(&collected->pairs[m], 2, memory);
    collected->lists[m].memory = memory;
  }
  return TSR_OK;
}

void tsr__query_collected_clear(query_collected *collected) {
  tsr__groups_clear(&collected->groups);
  tsr__texts_clear(&collected->texts);
  tsr__texts_clear(&collected->values);
  for (uint32_t m = 0; m < collected->measure_count; m++) {
    tsr__groups_clear(&collected->pairs[m]);
    collected->lists[m].size = 0;
  }
  collected->records.size = 0;
}

void tsr__query_collected_release(query_collected *collected) {
  for (uint32_t m = 0; m < collected->measure_count; m++) {
    tsr__groups_release(&collected->pairs[m]);
    tsr__buffer_release(&collected->lists[m]);
  }
  tsr__groups_release(&collected->groups);
  tsr__texts_release(&collected->texts);
  tsr__texts_release(&collected->values);
  tsr__buffer_release(&collected->records);
  tsr__free(collected->pairs);
  tsr__free(collected->lists);
}
