/* label_write.c: writes values of a dimension label into the label's array. */
#include "base/arithmetic.h"
#include "base/memory.h"
#include "analyze/label_index.h"

#define LABEL_COPY_BOXES 500u /* of a commit */

/* Commits a writer if all went well so far, and closes it. */
static int end_label_writer(tsr_writer *writer, int rc, tsr_error *error) {
  if (rc >= 0) rc = tsr_writer_prepare(writer, error);
  if (rc >= 0) rc = tsr_writer_publish(writer, error);
  if (rc < 0) (void)tsr_writer_abandon(writer, NULL);
  tsr_writer_close(writer);
  return rc;
}

static int label_write_box(tsr_label_index *index, const tsr_interval *span, const tsr_column *values,
                           tsr_error *error) {
  const tsr_writer_options options = {0};
  const tsr_column columns[] = {{0}, *values}; /* a box has no column of coordinates */
  tsr_writer *writer;
  TSR_TRY(tsr_writer_open(tsr__label_array(index), &options, &writer, error));
  return end_label_writer(writer, tsr_writer_append_box(writer, span, false, columns, error), error);
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

/* Appends the runs of values from cell *at on, as many as a commit may have. */
static int append_label_runs(const tsr_label_index *from, tsr_writer *writer, uint64_t *at, tsr_error *error) {
  const tsr_column *all = tsr_label_cells(from);
  uint64_t count;
  for (unsigned boxes = 0; boxes < LABEL_COPY_BOXES && tsr__label_run(from, at, &count); boxes++) {
    tsr_interval span = {0};
    tsr_column columns[] = {{0}, *all}; /* a box has no column of coordinates */
    tsr_label_coordinate(from, *at, span.low);
    tsr_label_coordinate(from, *at + count - 1, span.high);
    if (all->offsets) columns[1].offsets += *at;
    else columns[1].values = (const uint8_t *)all->values + *at * all->cell_size;
    columns[1].validity = NULL; /* all of them are valid */
    TSR_TRY(tsr_writer_append_box(writer, &span, false, columns, error));
    *at += count;
  }
  return TSR_OK;
}

int tsr_label_copy(const tsr_label_index *from, tsr_label_index *to, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_writer_options options = {0};
  uint64_t count;
  for (uint64_t at = 0; tsr__label_run(from, &at, &count);) {
    tsr_writer *writer;
    TSR_TRY(tsr_writer_open(tsr__label_array(to), &options, &writer, error));
    TSR_TRY(end_label_writer(writer, append_label_runs(from, writer, &at, error), error));
  }
  return TSR_OK;
}
