/* durations.c: notes TIME columns that no metadatum calls durations, though they have values that are no times of day.
 * The metadata may have been lost; or another library has written the array. */
#include "check/check.h"

#include <stdio.h>
#include <string.h>

#include "array/array.h"
#include "format/layout.h"
#include "model/datatype.h"

/* *outside: whether the largest value is past a day. The smallest ones are not looked at: NaT is among them. */
static int look(tsr_snapshot *snapshot, uint32_t field, tsr_datatype datatype, const tsr_check_options *options,
                bool *outside, tsr_error *error) {
  const tsr_aggregate_request request = {.field = field, .memory_bytes = options->memory_bytes};
  tsr_aggregate *aggregate;
  tsr_aggregate_row row;
  char text[48];
  int64_t most;
  TSR_TRY(tsr_aggregate_open(snapshot, &request, &aggregate, error));
  tsr_aggregate_get(aggregate, 0, &row);
  memcpy(&most, row.max, sizeof most);
  *outside = row.count && most > 0 && !tsr_datetime_print(datatype, most, text);
  tsr_aggregate_close(aggregate);
  return TSR_OK;
}

static int say(const tsr_field *field, tsr_check_report report, void *argument, tsr_error *error) {
  char text[TSR_MESSAGE_SIZE];
  snprintf(text, sizeof text,
           "field '%.100s' has values past a day, and no metadatum \"" TSR_KEY_DURATION
           "%.100s\" that says that it has "
           "durations: it may be lost; tessera_set_metadata sets it",
           field->name, field->name);
  const tsr_finding finding = {.severity = TSR_SEVERITY_NOTE, .file = TSR_DIR_META, .message = text};
  const int rc = report(argument, &finding);
  return rc < 0 ? tsr__fail(error, rc, "the check was stopped") : TSR_OK;
}

int tsr__check_durations(tsr_array *array, const tsr_schema *schema, const tsr_check_options *options,
                         tsr_check_report report, void *argument, tsr_error *error) {
  tsr_snapshot *snapshot = NULL;
  tsr_error fault = {0};
  int rc = TSR_OK;
  if (options->quick || schema->durations_unknown) return TSR_OK;
  for (uint32_t i = 0; rc >= 0 && i < schema->dimension_count + schema->attribute_count; i++) {
    const tsr_field *field = &schema->fields[i];
    bool outside = false;
    if (tsr_datatype_kind(field->datatype) != TSR_KIND_TIME || field->duration || field->enumeration ||
        field->values_per_cell != 1)
      continue;
    if (!snapshot) rc = tsr_snapshot_open(array, schema, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, &fault);
    if (rc >= 0) rc = look(snapshot, i, field->datatype, options, &outside, &fault);
    if (rc < 0) rc = tsr__only_cancelled(rc, &fault, error); /* the check has reported why */
    else if (outside) rc = say(field, report, argument, error);
    if (!snapshot) break;
  }
  tsr_snapshot_close(snapshot);
  return rc;
}
