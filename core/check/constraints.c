/* constraints.c: warns of CHECK constraints that committed cells break: TileDB and older versions of this library do
 * not test what they write, and a constraint may have been added without a look at the cells. */
#include "check/check.h"

#include <stdio.h>
#include <string.h>

#include "array/array.h"
#include "write/writer.h"

static int say(const tsr_constraint_item *item, const tsr_constraint_finding *found, tsr_check_report report,
               void *argument, tsr_error *error) {
  char text[TSR_MESSAGE_SIZE];
  const char *name = item->shown.name, *fault = item->shown.fault;
  if (fault)
    snprintf(text, sizeof text, "the CHECK '%.100s' cannot be read by this version, so writes are refused: %.400s",
             name, fault);
  else if (*found->fault)
    snprintf(text, sizeof text, "the CHECK '%.100s' cannot be evaluated for some cells: %s", name, found->fault);
  else if (found->cells)
    snprintf(text, sizeof text, "%llu cells break the CHECK '%.100s', %.200s, one %s", (unsigned long long)found->cells,
             name, item->shown.text, found->first);
  else return TSR_OK;
  const tsr_finding finding = {.severity = TSR_SEVERITY_WARNING, .file = TSR_DIR_META, .message = text};
  const int rc = report(argument, &finding);
  return rc < 0 ? tsr__fail(error, rc, "the check was stopped") : TSR_OK;
}

/* Finds the cells that break a constraint of the set. */
static int find(tsr_array *array, tsr_constraint_set *set, uint64_t memory_bytes, tsr_constraint_finding *found,
                tsr_error *error) {
  tsr_snapshot *snapshot;
  TSR_TRY(tsr_snapshot_open(array, set->schema, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, error));
  const int rc = tsr__constraints_find(set, 0, snapshot, false, memory_bytes, found, error);
  tsr_snapshot_close(snapshot);
  return rc;
}

static int check_set(tsr_array *array, tsr_constraint_set *set, const tsr_check_options *options,
                     tsr_check_report report, void *argument, tsr_error *error) {
  tsr_constraint_finding *found;
  tsr_error fault = {0};
  TSR_TRY(TSR_ALLOC_ARRAY(&array->memory, set->count + UINT64_C(1), &found, error));
  int rc = set->count && !options->quick ? find(array, set, options->memory_bytes, found, &fault) : TSR_OK;
  if (rc < 0) rc = tsr__only_cancelled(rc, &fault, error); /* the check has reported why */
  for (uint32_t i = 0; rc >= 0 && i < set->count; i++) rc = say(&set->items[i], &found[i], report, argument, error);
  tsr__free(found);
  return rc;
}

int tsr__check_constraints(tsr_array *array, const tsr_schema *schema, const tsr_check_options *options,
                           tsr_check_report report, void *argument, tsr_error *error) {
  tsr_constraint_set *set;
  tsr_error fault = {0};
  int rc = tsr__constraints_open(array, schema, &array->memory, &set, &fault);
  if (rc < 0) return tsr__only_cancelled(rc, &fault, error); /* the check has reported damaged metadata */
  rc = check_set(array, set, options, report, argument, error);
  tsr__constraints_close(set);
  return rc;
}
