/* label_arrays.c: upkeep of the arrays of dimension labels, together with the labelled array. A label's array lies in
 * __labels below the labelled array, and has fragments, commits and footers of its own. Its own labels, which no writer
 * makes, are not followed, so a damaged schema cannot lead around in circles. */
#include "maintain/label_arrays.h"

#include "array/array.h"

int tsr__label_arrays_each(tsr_array *array, tsr_label_task task, void *argument, tsr_error *error) {
  const tsr_schema *schema;
  /* What was done to the array has just listed it. In a bucket another listing would be a request. */
  TSR_TRY(array->listing ? tsr_array_schema_listed(array, TSR_TIME_NOW, &schema, error)
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
