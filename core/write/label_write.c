/* label_write.c: writes values of a dimension label into the label's array. */
#include "base/arithmetic.h"
#include "base/memory.h"
#include "analyze/label_index.h"

static int label_write_box(tsr_label_index *index, const tsr_interval *span, const tsr_column *values,
                           tsr_error *error) {
  const tsr_writer_options options = {0};
  const tsr_column columns[] = {{0}, *values}; /* a box has no column of coordinates */
  tsr_writer *writer;
  TSR_TRY(tsr_writer_open(tsr__label_array(index), &options, &writer, error));
  int rc = tsr_writer_append_box(writer, span, false, columns, error);
  if (rc >= 0) rc = tsr_writer_prepare(writer, error);
  if (rc >= 0) rc = tsr_writer_publish(writer, error);
  if (rc < 0) (void)tsr_writer_abandon(writer, NULL);
  tsr_writer_close(writer);
  return rc;
}

int tsr_label_write(tsr_label_index *index, const void *first, const tsr_column *values, uint64_t count,
                    tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_interval span;
  if (count == 0) return TSR_OK;
  TSR_TRY(tsr_label_read(index, 0, TSR_TIME_NOW, error));
  TSR_TRY(tsr__label_place(index, first, values, count, &span, error));
  return label_write_box(index, &span, values, error);
}
