/* overlay.c: what a writer has in hand, seen on top of a snapshot. */
#include "ops.h"

static int missing(tsr_error *error) { return tsr__fail(error, TSR_UNSUPPORTED, "changes of rows are not possible"); }

int tsr_writer_remove(tsr_writer *writer, int64_t row, const tsr_column *coordinates, uint64_t index,
                      tsr_error *error) {
  (void)writer, (void)row, (void)coordinates, (void)index;
  return missing(error);
}

int tsr_writer_find(tsr_writer *writer, tsr_snapshot *base, const tsr_column *coordinates, uint64_t index, int64_t *row,
                    tsr_error *error) {
  (void)writer, (void)base, (void)coordinates, (void)index, (void)row;
  return missing(error);
}

int tsr_snapshot_with(tsr_snapshot *base, tsr_writer *writer, tsr_snapshot **snapshot, tsr_error *error) {
  if (tsr_writer_changed(writer)) return missing(error);
  tsr__snapshot_hold(base);
  *snapshot = base;
  return TSR_OK;
}

int tsr_array_freeze(tsr_array *array, bool frozen, tsr_error *error) {
  (void)array, (void)frozen, (void)error;
  return TSR_OK;
}

int tsr_reader_find(tsr_reader *reader, int64_t row, const tsr_batch **batch, tsr_error *error) {
  (void)reader, (void)row, (void)batch;
  return missing(error);
}
