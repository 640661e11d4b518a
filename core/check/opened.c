/* opened.c: checks what needs the array open: the arrays of its dimension labels, the order of their values, CHECK
 * constraints, and durations.
 *
 * The arrays of labels, which are inside the labelled array, are checked like any array, and then the order of their
 * values. check.c reports a label whose array is missing, with the schemas. */
#include "check/check.h"

#include "array/array.h"
#include "environment/environment.h"
#include "store/store.h"

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
  if (rc >= 0 && schema) rc = tsr__check_constraints(array, schema, options, report, argument, error);
  if (rc >= 0 && schema) rc = tsr__check_durations(array, schema, options, report, argument, error);
  tsr_array_close(array);
  return rc;
}
