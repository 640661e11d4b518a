/* opened.c: checks what needs the array open: the arrays of its dimension labels, the order of their values, CHECK
 * constraints, and durations.
 *
 * The arrays of labels, which are inside the labelled array, are checked like any array, and then the order of their
 * values. check.c reports a label whose array is missing, with the schemas.
 *
 * Sections: labels; CHECK constraints; durations; all together. */
#include "check/check.h"

#include <stdio.h>
#include <string.h>

#include "array/array.h"
#include "environment/environment.h"
#include "format/layout.h"
#include "model/datatype.h"
#include "store/store.h"
#include "write/writer.h"

/* ---- Labels ------------------------------------------------------------------------------------------------------ */

typedef struct check_label_call { /* the check of one label's array */
  const char *uri; /* of the label's array */
  tsr_check_report report;
  void *argument;
  uint64_t errors; /* findings that are errors */
} check_label_call;

/* Passes a finding on, with its path relative to the labelled array. */
static int report_in_label(void *argument, const tsr_finding *finding) {
  check_label_call *call = argument;
  tsr_check_path path;
  tsr_finding outer = *finding;
  outer.file = tsr__check_join(&path, call->uri, finding->file, "");
  call->errors += finding->severity == TSR_SEVERITY_ERROR;
  return call->report(call->argument, &outer);
}

/* Reports a fault of a label's values as a whole. */
static int check_labels_report(const check_label_call *call, const tsr_error *fault, tsr_error *error) {
  const bool unable = tsr__lacks_memory(fault->code) || fault->code == TSR_TOOBIG;
  TSR_TRY(tsr__only_cancelled(fault->code, fault, error));
  const tsr_finding finding = {
      .severity = unable ? TSR_SEVERITY_WARNING : TSR_SEVERITY_ERROR, .file = call->uri, .message = fault->message};
  const int rc = call->report(call->argument, &finding);
  return rc < 0 ? tsr__fail(error, rc, "the check was stopped") : TSR_OK;
}

static int check_labels_array(const tsr_array *array, const char *uri, const tsr_check_options *options,
                              check_label_call *call, tsr_error *error) {
  tsr_environment *environment = array->environment;
  tsr_buffer path = {.memory = &environment->memory};
  tsr_store *store;
  int rc = tsr__store_open_below(environment, array->path, uri, &path, &store, error);
  if (rc >= 0) rc = tsr__check_store(environment, store, options, report_in_label, call, error);
  tsr__buffer_release(&path);
  return rc;
}

static int check_one_label(tsr_array *array, const tsr_schema *schema, uint32_t number,
                           const tsr_check_options *options, check_label_call *call, tsr_error *error) {
  tsr_error fault = {0};
  tsr_label_index *index = NULL;
  int rc = tsr_label_open(array, schema, number, options->memory_bytes, &index, &fault);
  if (rc == TSR_NOT_FOUND) return TSR_OK; /* check.c has reported it */
  if (rc >= 0) {
    TSR_TRY(check_labels_array(array, schema->labels[number].uri, options, call, error));
    if (call->errors == 0 && !options->quick) rc = tsr_label_read(index, 0, TSR_TIME_NOW, &fault);
    tsr_label_close(index);
  }
  return rc < 0 ? check_labels_report(call, &fault, error) : TSR_OK;
}

/* ---- CHECK constraints ------------------------------------------------------------------------------------------- */
/* Warns of constraints that committed cells break: TileDB and older versions of this library do not test what they
 * write, and a constraint may have been added without a look at the cells. */

static int say_constraint(const tsr_constraint_item *item, const tsr_constraint_finding *found, tsr_check_report report,
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
static int find_broken(tsr_array *array, tsr_constraint_set *set, uint64_t memory_bytes, tsr_constraint_finding *found,
                       tsr_error *error) {
  tsr_snapshot *snapshot;
  TSR_TRY(tsr_snapshot_open(array, set->schema, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, error));
  const int rc = tsr__constraints_find(set, 0, snapshot, false, memory_bytes, found, error);
  tsr_snapshot_close(snapshot);
  return rc;
}

static int check_constraint_set(tsr_array *array, tsr_constraint_set *set, const tsr_check_options *options,
                                tsr_check_report report, void *argument, tsr_error *error) {
  tsr_constraint_finding *found;
  tsr_error fault = {0};
  TSR_TRY(TSR_ALLOC_ARRAY(&array->memory, set->count + UINT64_C(1), &found, error));
  int rc = set->count && !options->quick ? find_broken(array, set, options->memory_bytes, found, &fault) : TSR_OK;
  if (rc < 0) rc = tsr__only_cancelled(rc, &fault, error); /* the check has reported why */
  for (uint32_t i = 0; rc >= 0 && i < set->count; i++)
    rc = say_constraint(&set->items[i], &found[i], report, argument, error);
  tsr__free(found);
  return rc;
}

static int check_constraints(tsr_array *array, const tsr_schema *schema, const tsr_check_options *options,
                             tsr_check_report report, void *argument, tsr_error *error) {
  tsr_constraint_set *set;
  tsr_error fault = {0};
  int rc = tsr__constraints_open(array, schema, &array->memory, &set, &fault);
  if (rc < 0) return tsr__only_cancelled(rc, &fault, error); /* the check has reported damaged metadata */
  rc = check_constraint_set(array, set, options, report, argument, error);
  tsr__constraints_close(set);
  return rc;
}

/* ---- Durations --------------------------------------------------------------------------------------------------- */
/* Notes TIME columns that no metadatum calls durations, though they have values that are no times of day. The metadata
 * may have been lost; or another library has written the array. */

/* *outside: whether the largest value is past a day. The smallest ones are not looked at: NaT is among them. */
static int find_outside(tsr_snapshot *snapshot, uint32_t field, tsr_datatype datatype, const tsr_check_options *options,
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

static int say_duration(const tsr_field *field, tsr_check_report report, void *argument, tsr_error *error) {
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

static int check_durations(tsr_array *array, const tsr_schema *schema, const tsr_check_options *options,
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
    if (rc >= 0) rc = find_outside(snapshot, i, field->datatype, options, &outside, &fault);
    if (rc < 0) rc = tsr__only_cancelled(rc, &fault, error); /* the check has reported why */
    else if (outside) rc = say_duration(field, report, argument, error);
    if (!snapshot) break;
  }
  tsr_snapshot_close(snapshot);
  return rc;
}

/* ---- All together ------------------------------------------------------------------------------------------------ */

int tsr__check_opened(tsr_environment *environment, const char *path, const tsr_check_options *options,
                      tsr_check_report report, void *argument, tsr_error *error) {
  const tsr_array_options opening = {.key = options->key, .threads = options->threads};
  const tsr_schema *schema = NULL;
  tsr_array *array;
  tsr_error fault = {0};
  int rc = tsr_array_open(environment, path, &opening, &array, &fault);
  if (rc < 0) return tsr__only_cancelled(rc, &fault, error); /* the check has reported why */
  rc = tsr_array_schema(array, TSR_TIME_NOW, &schema, &fault);
  if (rc < 0) rc = tsr__only_cancelled(rc, &fault, error);
  else
    for (uint32_t i = 0; rc >= 0 && i < schema->label_count; i++) {
      check_label_call call = {.uri = schema->labels[i].uri, .report = report, .argument = argument};
      if (schema->labels[i].relative) rc = check_one_label(array, schema, i, options, &call, error);
    }
  if (rc >= 0 && schema) rc = check_constraints(array, schema, options, report, argument, error);
  if (rc >= 0 && schema) rc = check_durations(array, schema, options, report, argument, error);
  tsr_array_close(array);
  return rc;
}
