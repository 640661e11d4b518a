/* label.c: writes values of a dimension label into the label's array, and opens the labels' arrays for maintenance.
 *
 * The order of new values is checked against the existing ones, so no other process may write between the check and the
 * publication. The advisory lease of the label's array prevents this: tsr_label_write holds it, and other writers that
 * ask for it fail with TSR_BUSY. The lease is renewed when the commit is prepared, and the order is checked again
 * against what others have written, in case the process was suspended for longer than the lease.
 */
#include "label/label.h"

#include "base/arithmetic.h"
#include "base/memory.h"
#include "store/store.h"
#include "array/array.h"
#include "environment/environment.h"

#define LABEL_COPY_BOXES 500u /* of a commit */

/* Publishes a writer's prepared commit unless `rc` is an error, and closes the writer. */
static int end_label_writer(tsr_writer *writer, int rc, tsr_error *error) {
  if (rc >= 0) rc = tsr_writer_publish(writer, error);
  if (rc < 0) (void)tsr_writer_abandon(writer, NULL);
  tsr_writer_close(writer);
  return rc;
}

/* ---- Values from a caller ---------------------------------------------------------------------------------------- */

#define LABEL_LEASE_SECONDS 60u

/* Takes or renews the lease on a label's array. In a store of the host, a transaction excludes others already. */
static int take_label_lease(const tsr_label_index *index, tsr_error *error) {
  const tsr_array *array = tsr__label_array(index);
  if (array->store->is_one_file) return TSR_OK;
  const int held = tsr_lease(array->environment, array->path, LABEL_LEASE_SECONDS, error);
  if (held == 0) return tsr__fail(error, TSR_BUSY, "label array %s: another process is writing it", array->path);
  return TSR_MIN(held, TSR_OK);
}

static void return_label_lease(const tsr_label_index *index) {
  const tsr_array *array = tsr__label_array(index);
  if (!array->store->is_one_file) (void)tsr_lease(array->environment, array->path, 0, NULL);
}

/* Writes the values as a separate commit. With `leased`, the order is checked again just before the commit is
 * published, in case the lease has expired meanwhile. */
static int write_box(tsr_label_index *index, const void *first, const tsr_column *values, uint64_t count, bool leased,
                     tsr_error *error) {
  const tsr_writer_options options = {0};
  const tsr_column columns[] = {{0}, *values}; /* a box has no column of coordinates */
  tsr_interval span;
  tsr_writer *writer;
  TSR_TRY(tsr_label_read(index, 0, TSR_TIME_NOW, error));
  TSR_TRY(tsr__label_check_values(index, first, values, count, &span, error));
  TSR_TRY(tsr_writer_open(tsr__label_array(index), &options, &writer, error));
  int rc = tsr_writer_append_box(writer, &span, false, columns, error);
  if (rc >= 0) rc = tsr_writer_prepare(writer, error);
  if (rc >= 0 && leased) {
    rc = take_label_lease(index, error);
    if (rc >= 0) rc = tsr_label_read(index, 0, TSR_TIME_NOW, error);
    if (rc >= 0) rc = tsr__label_check_values(index, first, values, count, &span, error);
  }
  return end_label_writer(writer, rc, error);
}

int tsr__label_write_new(tsr_label_index *index, const void *first, const tsr_column *values, uint64_t count,
                         tsr_error *error) {
  return count > 0 ? write_box(index, first, values, count, false, error) : TSR_OK;
}

int tsr_label_write(tsr_label_index *index, const void *first, const tsr_column *values, uint64_t count,
                    tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (count == 0) return TSR_OK;
  int rc = take_label_lease(index, error);
  if (rc == TSR_BUSY) return rc;
  if (rc >= 0) rc = write_box(index, first, values, count, true, error);
  return_label_lease(index); /* even if it is not known whether it was taken */
  return rc;
}

/* ---- Values of another label ------------------------------------------------------------------------------------- */

/* Appends the runs of values from cell *at on, up to the number that a commit may have. */
static int append_label_runs(const tsr_label_index *from, tsr_writer *writer, uint64_t *at, tsr_error *error) {
  const tsr_column *all = tsr_label_cells(from);
  uint64_t count;
  for (unsigned boxes = 0; boxes < LABEL_COPY_BOXES && tsr__label_next_run(from, at, &count); boxes++) {
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
  for (uint64_t at = 0; tsr__label_next_run(from, &at, &count);) {
    tsr_writer *writer;
    TSR_TRY(tsr_writer_open(tsr__label_array(to), &options, &writer, error));
    int rc = append_label_runs(from, writer, &at, error);
    if (rc >= 0) rc = tsr_writer_prepare(writer, error);
    TSR_TRY(end_label_writer(writer, rc, error));
  }
  return TSR_OK;
}

/* ---- Maintaining the arrays of labels ---------------------------------------------------------------------------- */

/* A label's array is in __labels below the labelled array, with its own fragments, commits and footers. Labels of label
 * arrays, which no writer makes, are not followed, so a damaged schema cannot cause a cycle. */

int tsr__label_arrays_each(tsr_array *array, tsr_label_task task, void *argument, tsr_error *error) {
  const tsr_schema *schema;
  /* The preceding operation has just listed the array. In a bucket, another listing would be a request. */
  TSR_TRY(array->log.listing ? tsr_array_schema_listed(array, TSR_TIME_NOW, &schema, error)
                             : tsr_array_schema(array, TSR_TIME_NOW, &schema, error));
  for (uint32_t i = 0; i < schema->label_count; i++) {
    const tsr_label *label = &schema->labels[i];
    tsr_error why = {0};
    tsr_array *opened = NULL;
    if (!label->relative) continue;
    int rc = tsr__array_open_below(array, label->uri, &opened, &why);
    if (rc == TSR_NOT_FOUND) continue;
    if (rc >= 0) rc = task(argument, opened, &why);
    tsr_array_close(opened);
    if (rc < 0) {
      *error = why;
      return tsr__wrap(error, "label %s", label->name);
    }
  }
  return TSR_OK;
}
