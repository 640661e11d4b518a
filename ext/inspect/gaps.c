/* gaps.c: tessera_gaps(path[, slice[, by]]), the cells of a dense array that were never written. */
#include <string.h>

#include "call/table_function.h"
#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "inspect/inspect.h"
#include "sql/names.h"
#include "values/slice.h"
#include "values/value.h"

typedef struct table_gaps_state {
  tsx_inside in;
  uint32_t by; /* TSR_GAPS_BOXES: no dimension was given */
  tsr_gaps *gaps; /* NULL: the slice has no cell */
} table_gaps_state;

enum { GAPS_LOW, GAPS_HIGH, GAPS_BOX, GAPS_CELLS };

static int gaps_take_by(const tsx_scan *scan, table_gaps_state *s, tsr_error *error) {
  sqlite3_value *by = tsx_scan_argument(scan, 2);
  s->by = TSR_GAPS_BOXES;
  if (!by || sqlite3_value_type(by) == SQLITE_NULL) return TSR_OK;
  const char *name = (const char *)sqlite3_value_text(by);
  uint32_t d = 0;
  if (!name) return tsx_out_of_memory(error);
  while (d < s->in.schema->dimension_count && sqlite3_stricmp(s->in.names[d], name) != 0) d++;
  if (d == s->in.schema->dimension_count)
    return tsx_names_fail(s->in.names, 0, d, error, "the array has no dimension '%.100s'", name);
  s->by = d;
  return TSR_OK;
}

/* The array is sparse: says which statement finds the values of a dimension that have no cell. */
static int fail_sparse(const table_gaps_state *s, tsr_error *error) {
  const tsx_address *address = &s->in.address;
  const bool table = address->is_table && !strncmp(address->given, "db:", 3);
  const char *name = s->in.names[0];
  return tsx_fail(error, TSR_ERROR,
                  "%s is sparse, where no cell is expected anywhere: SELECT k.\"%s\" FROM expected k LEFT JOIN (SELECT "
                  "DISTINCT \"%s\" FROM %s) USING (\"%s\") WHERE ... IS NULL compares it with a table of your own",
                  address->given, name, name, table ? address->given + 3 : "the table", name);
}

/* Sets the ends that the slice leaves open: where a key gives null, to what has been written; where there is no key, to
 * the current domain, or else to the domain. */
static int close_ends(const table_gaps_state *s, tsx_slice *slice, tsr_error *error) {
  const tsr_schema *schema = s->in.schema;
  const tsr_interval *current = schema->current_domain;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_field *field = &schema->fields[d];
    if (slice->bounds[d].given) continue;
    memcpy(slice->box[d].low, current ? current[d].low : field->low, sizeof slice->box[d].low);
    memcpy(slice->box[d].high, current ? current[d].high : field->high, sizeof slice->box[d].high);
    slice->bounds[d].low_given = slice->bounds[d].high_given = true;
  }
  bool empty;
  TSX_TRY(tsx_slice_complete(s->in.snapshot->core, slice, &empty, error));
  slice->nothing |= empty;
  return TSR_OK;
}

static int gaps_of_slice(table_gaps_state *s, tsx_slice *slice, tsr_error *error) {
  TSX_TRY(close_ends(s, slice, error));
  if (slice->nothing) return TSR_OK;
  return tsr_gaps_open(s->in.snapshot->core, slice->box, s->by, s->in.address.memory_bytes, &s->gaps, error);
}

static int gaps_begin(tsx_scan *scan, tsr_error *error) {
  table_gaps_state *s = scan->state;
  tsx_slice slice;
  TSX_TRY(tsx_inside_open(scan, true, error));
  if (!s->in.schema->dense) return fail_sparse(s, error);
  TSX_TRY(gaps_take_by(scan, s, error));
  const tsx_label_source labels = tsx_address_labels(&s->in.address);
  TSX_TRY(tsx_slice_parse(scan->connection->db, tsx_scan_argument(scan, 1), s->in.schema, &labels,
                          s->in.address.uint64_signed, &slice, error));
  const int code = gaps_of_slice(s, &slice, error);
  tsx_slice_release(&slice);
  return code;
}

static int gaps_open(tsx_scan *scan, tsr_error *error) {
  const int code = gaps_begin(scan, error);
  return code < 0 ? tsx_fail_in("tessera_gaps", error) : code;
}

static int gaps_next(tsx_scan *scan, tsr_error *error) {
  const table_gaps_state *s = scan->state;
  return s->gaps && (uint64_t)scan->row < s->gaps->count;
}

static int gaps_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const table_gaps_state *s = scan->state;
  const tsr_gap *gap = &s->gaps->gaps[scan->row - 1];
  const bool by = s->by != TSR_GAPS_BOXES;
  if (column == GAPS_CELLS) {
    if (gap->cells <= INT64_MAX) sqlite3_result_int64(context, (sqlite3_int64)gap->cells);
  } else if (column == GAPS_BOX) {
    if (by) return TSR_OK;
    sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
    tsx_json_box(out, s->in.schema, s->in.names, gap->box, s->in.address.uint64_signed);
    tsx_result_string(context, out);
  } else if (by) {
    const tsr_field *dimension = &s->in.schema->fields[s->by];
    const tsr_interval *interval = &gap->box[s->by];
    tsx_value_result(context, tsx_datatype_shown(dimension->datatype, s->in.address.uint64_signed), 1,
                     column == GAPS_LOW ? interval->low : interval->high, dimension->cell_size);
  }
  return TSR_OK;
}

static void gaps_close(tsx_scan *scan) {
  tsr_gaps_close(((table_gaps_state *)scan->state)->gaps);
  tsx_inside_close(scan);
}

const tsx_about tsx_about_gaps = {.name = "tessera_gaps",
                                  .usage = "tessera_gaps(path[, slice[, by]])",
                                  .columns = (const char *const[]){"low", "high", "box TEXT", "cells INTEGER", NULL},
                                  .arguments = (const char *const[]){"array_path", "slice", "by", NULL},
                                  .required = 1,
                                  .same = -1,
                                  .rows = 100,
                                  .state_size = sizeof(table_gaps_state),
                                  .open = gaps_open,
                                  .next = gaps_next,
                                  .column = gaps_column,
                                  .close = gaps_close};
