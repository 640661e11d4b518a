/* partitions.c: tessera_partitions(path, parts[, within]), which divides an array, or a slice of it, into at most n
 * disjoint slices of about equal work, so that each of several connections, processes or hosts can read one.
 *
 * Each slice is shown in two forms that select the same rows: as JSON for tessera_aggregate and tessera_npy, and as a
 * WHERE condition for a table with default options (and uint64=signed, if the argument is such a table). Bounds in JSON
 * are always inclusive. So where SQL says "greater than" a string, the JSON slice begins at that string with a NUL
 * appended; where SQL says "less than" a float, the JSON slice ends at the next float below. */
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "definition/arguments.h"
#include "values/value.h"
#include "sql/names.h"
#include "values/slice.h"
#include "call/table_function.h"
#include "inspect/inspect.h"

typedef struct table_partitions_state {
  tsx_inside in;
  tsx_slice slice;
  tsr_range *ranges;
  tsr_ranges *dimensions;
  tsr_partitions *partitions;
} table_partitions_state;

enum { PARTITIONS_PART, PARTITIONS_SLICE, PARTITIONS_CONDITION, PARTITIONS_TILES, PARTITIONS_CELLS, PARTITIONS_BYTES };

static int partitions_begin(tsx_scan *scan, tsr_error *error) {
  table_partitions_state *s = scan->state;
  TSX_TRY(tsx_inside_open(scan, true, error));
  const tsr_schema *schema = s->in.schema;
  sqlite3_value *count = tsx_scan_argument(scan, 1);
  sqlite3_value_numeric_type(count); /* converts numeric text to a number */
  if (!tsx_whole_number(count)) return tsx_fail(error, TSR_MISMATCH, "expected an integer as the number of slices");
  if (sqlite3_value_int64(count) < 1)
    return tsx_fail(error, TSR_RANGE, "expected one slice or more, not %lld", (long long)sqlite3_value_int64(count));
  const tsx_label_source labels = tsx_address_labels(&s->in.address);
  TSX_TRY(tsx_slice_parse(scan->connection->db, tsx_scan_argument(scan, 2), schema, &labels,
                          s->in.address.uint64_signed, &s->slice, error));
  s->ranges = sqlite3_malloc64(schema->dimension_count * sizeof *s->ranges);
  s->dimensions = sqlite3_malloc64(schema->dimension_count * sizeof *s->dimensions);
  if (!s->ranges || !s->dimensions) return tsx_out_of_memory(error);
  tsx_slice_ranges(&s->slice, schema, s->ranges, s->dimensions);
  return tsr_partitions_open(s->in.snapshot->core, s->dimensions, (uint64_t)sqlite3_value_int64(count), &s->partitions,
                             error);
}

static int partitions_open(tsx_scan *scan, tsr_error *error) {
  const int code = partitions_begin(scan, error);
  return code < 0 ? tsx_fail_in("tessera_partitions", error) : code;
}

static int partitions_next(tsx_scan *scan, tsr_error *error) {
  return (uint64_t)scan->row < ((const table_partitions_state *)scan->state)->partitions->count;
}

/* ---- Slices as text ---------------------------------------------------------------------------------------------- */

typedef struct table_partitions_bounds { /* the bounds of a slice on one dimension */
  tsr_cut cut;
  bool before; /* the slice ends before cut.next */
} table_partitions_bounds;

/* Returns the bounds of a partition on a dimension: the cuts, or where there is no cut, the bounds of the given
 * slice. */
static table_partitions_bounds bounds_of(const table_partitions_state *s, const tsr_partition *p, uint32_t d) {
  table_partitions_bounds made = {.cut = p->cuts[d]};
  const tsx_bound *bound = &s->slice.bounds[d];
  const tsr_interval *box = &s->slice.box[d];
  tsr_interval *values = &made.cut.values;
  made.before = made.cut.has_high && tsr_datatype_kind(s->in.schema->fields[d].datatype) == TSR_KIND_FLOAT;
  if (!made.cut.has_low && bound->low_given) {
    made.cut.has_low = true;
    memcpy(values->low, box->low, sizeof values->low);
    values->low_text = box->low_text;
    values->low_size = box->low_size;
  }
  if (!made.cut.has_high && bound->high_given) {
    made.cut.has_high = true;
    memcpy(values->high, box->high, sizeof values->high);
    values->high_text = box->high_text;
    values->high_size = box->high_size;
  }
  return made;
}

static void append_json(sqlite3_str *out, const tsr_field *field, tsr_datatype shown,
                        const table_partitions_bounds *it) {
  const tsr_cut *cut = &it->cut;
  const bool text = field->cell_size == 0;
  sqlite3_str_appendchar(out, 1, '[');
  if (!cut->has_low) {
    sqlite3_str_appendall(out, "null");
  } else if (text) {
    uint8_t after[TSR_CUT_TEXT + 1] = {0};
    const bool is_after = cut->low_after && cut->values.low_size <= TSR_CUT_TEXT;
    if (is_after) memcpy(after, cut->values.low_text, cut->values.low_size);
    tsx_json_text(out, is_after ? after : cut->values.low_text, cut->values.low_size + is_after);
  } else {
    tsx_json_value(out, shown, cut->values.low, false);
  }
  sqlite3_str_appendchar(out, 1, ',');
  if (!cut->has_high) sqlite3_str_appendall(out, "null");
  else if (text) tsx_json_text(out, cut->values.high_text, cut->values.high_size);
  else tsx_json_value(out, shown, cut->values.high, false);
  sqlite3_str_appendchar(out, 1, ']');
}

static void append_literal(sqlite3_str *out, const tsr_field *field, const uint8_t *value, const uint8_t *text,
                           uint64_t size) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  char time[48];
  uint64_t bits = 0;
  if (field->cell_size == 0) {
    uint64_t at = 0;
    for (unsigned n; at < size && text[at] && (n = tsr_utf8_size(text + at, size - at)) > 0;) at += n;
    if (at == size) {
      sqlite3_str_appendf(out, "'%.*q'", (int)size, size ? (const char *)text : "");
    } else {
      sqlite3_str_appendall(out, "CAST(x'");
      for (uint64_t i = 0; i < size; i++) sqlite3_str_appendf(out, "%02x", text[i]);
      sqlite3_str_appendall(out, "' AS TEXT)");
    }
    return;
  }
  memcpy(&bits, value, field->cell_size);
  if (field->datatype == TSR_UINT64 && bits > INT64_MAX)
    sqlite3_str_appendf(out, "'" TSX_UINT64_PRINTED "'", (unsigned long long)bits);
  else if (field->duration || (kind != TSR_KIND_DATETIME && kind != TSR_KIND_TIME))
    tsx_json_value(out, tsx_datatype_printed(field, false), value, false);
  else if (tsr_datetime_print(field->datatype, (int64_t)bits, time)) sqlite3_str_appendf(out, "'%s'", time);
  else sqlite3_str_appendf(out, "%lld", (long long)bits);
}

/* Appends the condition on a UINT64 dimension that the table shows as signed: values above INT64_MAX are negative
 * there, so a range across that limit becomes an OR of two comparisons. */
static void append_signed(sqlite3_str *out, const char *name, const tsr_cut *cut) {
  const int64_t low = cut->has_low ? tsx_load_signed(cut->values.low, 8) : 0;
  const int64_t high = cut->has_high ? tsx_load_signed(cut->values.high, 8) : -1;
  const bool both = low >= 0 && high < 0;
  sqlite3_str_appendf(out, "%s(\"%w\" >= %lld %s \"%w\" <= %lld)", sqlite3_str_length(out) ? " AND " : "", name,
                      (long long)low, both ? "OR" : "AND", name, (long long)high);
}

static void append_condition(sqlite3_str *out, const char *name, const tsr_field *field, bool uint64_signed,
                             const table_partitions_bounds *it) {
  const tsr_cut *cut = &it->cut;
  if (field->datatype == TSR_UINT64 && uint64_signed) {
    append_signed(out, name, cut);
    return;
  }
  if (cut->has_low) {
    sqlite3_str_appendf(out, "%s\"%w\" %s ", sqlite3_str_length(out) ? " AND " : "", name, cut->low_after ? ">" : ">=");
    append_literal(out, field, cut->values.low, cut->values.low_text, cut->values.low_size);
  }
  if (cut->has_high) {
    sqlite3_str_appendf(out, "%s\"%w\" %s ", sqlite3_str_length(out) ? " AND " : "", name, it->before ? "<" : "<=");
    append_literal(out, field, it->before ? cut->next : cut->values.high, cut->values.high_text, cut->values.high_size);
  }
}

static void result_slice(sqlite3_context *context, const table_partitions_state *s, const tsr_partition *p, bool json) {
  sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
  if (json) sqlite3_str_appendchar(out, 1, '{');
  for (uint32_t d = 0; d < s->in.schema->dimension_count; d++) {
    const tsr_field *field = &s->in.schema->fields[d];
    const table_partitions_bounds it = bounds_of(s, p, d);
    if (!it.cut.has_low && !it.cut.has_high) continue;
    if (!json) {
      append_condition(out, s->in.names[d], field, s->in.address.uint64_signed, &it);
      continue;
    }
    if (sqlite3_str_length(out) > 1) sqlite3_str_appendchar(out, 1, ',');
    tsx_json_text(out, s->in.names[d], strlen(s->in.names[d]));
    sqlite3_str_appendchar(out, 1, ':');
    append_json(out, field, tsx_datatype_printed(field, s->in.address.uint64_signed), &it);
  }
  if (json) sqlite3_str_appendchar(out, 1, '}');
  else if (sqlite3_str_length(out) == 0) sqlite3_str_appendall(out, "1");
  tsx_result_string(context, out);
}

static int partitions_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const table_partitions_state *s = scan->state;
  const tsr_partition *p = &s->partitions->partitions[scan->row - 1];
  switch (column) {
  case PARTITIONS_PART: sqlite3_result_int64(context, scan->row - 1); break;
  case PARTITIONS_SLICE: result_slice(context, s, p, true); break;
  case PARTITIONS_CONDITION: result_slice(context, s, p, false); break;
  case PARTITIONS_TILES: tsx_result_unsigned(context, p->tiles); break;
  case PARTITIONS_CELLS: tsx_result_unsigned(context, p->cells); break;
  default: tsx_result_unsigned(context, p->bytes);
  }
  return TSR_OK;
}

static void partitions_close(tsx_scan *scan) {
  table_partitions_state *s = scan->state;
  tsr_partitions_close(s->partitions);
  tsx_slice_release(&s->slice);
  sqlite3_free(s->ranges);
  sqlite3_free(s->dimensions);
  tsx_inside_close(scan);
}

const tsx_about tsx_about_partitions = {.name = "tessera_partitions",
                                        .usage = "tessera_partitions(path, parts[, within])",
                                        .columns = (const char *const[]){"part INTEGER", "slice TEXT", "condition TEXT",
                                                                         "tiles INTEGER", "cells INTEGER",
                                                                         "bytes INTEGER", NULL},
                                        .arguments = (const char *const[]){"array_path", "parts", "within", NULL},
                                        .required = 2,
                                        .same = -1,
                                        .rows = 16,
                                        .state_size = sizeof(table_partitions_state),
                                        .open = partitions_open,
                                        .next = partitions_next,
                                        .column = partitions_column,
                                        .close = partitions_close};
