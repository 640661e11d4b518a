/* write_spill.c: runs on disk. */
#include "ops_writer.h"

int tsr__spill_position(tsr_array *array, tsr_fragment *run, uint64_t at, uint64_t *position, tsr_error *error) {
  (void)array, (void)run, (void)position;
  return tsr__fail(error, TSR_ERROR, "no run has a cell %llu", (unsigned long long)at);
}
