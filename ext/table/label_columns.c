/* label_columns.c: makes the columns of dimension labels, and keeps the labels' values for cursors.
 *
 * The array of a label is opened, and its values are read, when a statement first uses the column. The values then stay
 * in memory with the table, and each statement looks whether they have changed.
 */
#include "table/label_columns.h"

#include <string.h>

#include "connection/errors.h"
#include "text/names.h"
#include "values/slice.h"
#include "values/compare.h"
#include "table/group_labels.h"
#include "table/open_array.h"

static bool label_name_taken(const tsx_table *table, const char *name) {
  for (uint32_t i = 0; i < table->column_count; i++)
    if (!sqlite3_stricmp(table->columns[i].name, name)) return true;
  for (int i = 0; i < 3; i++)
    if (!sqlite3_stricmp(table->declared.hidden[i], name)) return true;
  for (uint32_t i = 0; i < table->label_count; i++)
    if (table->labels[i].name && !sqlite3_stricmp(table->labels[i].name, name)) return true;
  return false;
}

/* Returns the column's name, from sqlite3_malloc: that of the label, with _2, _3 and so on behind it if another column
 * has that name. */
static char *name_label(const tsx_table *table, const char *label) {
  char *base = tsx_name_text(label);
  char *name = base ? sqlite3_mprintf("%s", base) : NULL;
  for (int number = 2; name && label_name_taken(table, name); number++) {
    sqlite3_free(name);
    name = sqlite3_mprintf("%s_%d", base, number);
  }
  sqlite3_free(base);
  return name;
}

/* Describes a label's values without opening its array: one number or datetime in a cell, or text. */
static tsr_field describe(const tsr_label *label) {
  const tsr_kind kind = tsr_datatype_kind(label->datatype);
  const bool text = kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES;
  return (tsr_field){.name = label->name,
                     .datatype = label->datatype,
                     .values_per_cell = text ? TSR_VARIABLE : 1,
                     .cell_size = text ? 0 : tsr_datatype_size(label->datatype),
                     .nullable = true};
}

/* Completes a column whose label is described. */
static int make_label_column(tsx_table *table, tsx_label_column *label, const char *name, tsr_error *error) {
  if (!(label->name = name_label(table, name))) return tsx_out_of_memory(error);
  tsx_column_choose(&label->field, NULL, &table->options.shows, &label->column);
  tsx_column_prepare(&label->column);
  table->label_count++;
  return TSR_OK;
}

/* Makes the columns of the coordinates that lie in the array's group. The datatype is that of the array there. */
static int make_group_columns(tsx_table *table, tsr_error *error) {
  int code = TSR_OK;
  for (uint32_t d = 0; d < table->schema->dimension_count && code == TSR_OK; d++) {
    tsx_label_column *label = &table->labels[table->label_count];
    tsr_label_index *index;
    char *path;
    if ((code = tsx_group_label_find(table, d, &path, &index, error)) < 0) return code;
    if (!path) continue;
    const tsr_label described = {.datatype = tsr_label_field(index)->datatype};
    label->group = path;
    label->dimension = d;
    label->field = describe(&described);
    label->field.name = table->schema->fields[d].name;
    tsr_label_close(index);
    code = make_label_column(table, label, label->field.name, error);
    if (code < 0) sqlite3_free(path);
  }
  return code;
}

int tsx_label_columns_make(tsx_table *table, tsr_error *error) {
  const tsr_schema *schema = table->schema;
  const bool group = table->options.shows.labels == TSX_LABELS_GROUP;
  const uint64_t room = schema->label_count + (group ? schema->dimension_count : 0);
  int code = TSR_OK;
  if (room == 0 || table->options.shows.labels == TSX_LABELS_NONE) return TSR_OK;
  table->labels = sqlite3_malloc64(room * sizeof *table->labels);
  if (!table->labels) return tsx_out_of_memory(error);
  memset(table->labels, 0, room * sizeof *table->labels);
  for (uint32_t i = 0; i < schema->label_count && code == TSR_OK; i++) {
    tsx_label_column *label = &table->labels[i];
    label->label = i;
    label->dimension = schema->labels[i].dimension;
    label->field = describe(&schema->labels[i]);
    code = make_label_column(table, label, schema->labels[i].name, error);
  }
  return code == TSR_OK && group ? make_group_columns(table, error) : code;
}

void tsx_label_columns_free(tsx_table *table) {
  for (uint32_t i = 0; i < table->label_count; i++) {
    for (tsx_label_state *state = table->labels[i].states, *next; state; state = next) {
      next = state->next;
      tsr_label_close(state->index);
      sqlite3_free(state);
    }
    sqlite3_free(table->labels[i].name);
    sqlite3_free(table->labels[i].group);
  }
  sqlite3_free(table->labels);
  table->labels = NULL;
  table->label_count = 0;
}

/* ---- The values -------------------------------------------------------------------------------------------------- */

/* Finds the state that shows these times, or one that no cursor uses. */
static tsx_label_state *find_label_state(const tsx_label_column *label, uint64_t since, uint64_t as_of) {
  tsx_label_state *unused = NULL;
  for (tsx_label_state *state = label->states; state; state = state->next) {
    if (state->since == since && state->as_of == as_of) return state;
    if (state->users == 0) unused = state;
  }
  return unused;
}

int tsx_label_state_take(tsx_table *table, tsx_label_column *label, uint64_t since, uint64_t as_of,
                         tsx_label_state **out, tsr_error *error) {
  tsx_label_state *state = find_label_state(label, since, as_of);
  int code = TSR_OK;
  if (!state) {
    state = sqlite3_malloc(sizeof *state);
    if (!state) return tsx_out_of_memory(error);
    *state = (tsx_label_state){0};
    code = label->group ? tsx_group_label_open(table, label->dimension, label->group, &state->index, error)
                        : tsr_label_open(table->array->core, table->schema, label->label,
                                         table->options.limits.memory_bytes, &state->index, error);
    if (code < 0) {
      sqlite3_free(state);
      return code;
    }
    state->next = label->states;
    label->states = state;
  }
  if (state->users == 0) {
    state->since = since;
    state->as_of = as_of;
    code = tsr_label_look(state->index, since, as_of, error);
  }
  if (code < 0) return code;
  state->users++;
  *out = state;
  return TSR_OK;
}

bool tsx_label_is_bare(const tsx_label_column *label, const tsx_label_state *state, uint64_t cell) {
  const tsr_column *cells = tsr_label_cells(state->index);
  char text[48];
  int64_t instant;
  if (label->column.form != TSX_DATETIME) return false;
  memcpy(&instant, (const uint8_t *)cells->values + cell * sizeof instant, sizeof instant);
  return tsr_datetime_print(label->field.datatype, instant, text) == 0;
}

int tsx_label_whole(const tsx_label_column *label, const tsx_label_state *state, tsr_snapshot *snapshot,
                    tsr_error *error) {
  const tsr_interval *box;
  const int any = tsr_snapshot_non_empty_domain(snapshot, &box, error);
  if (any <= 0) return any < 0 ? any : 1;
  const tsr_interval *side = &box[label->dimension];
  uint64_t first, last;
  if (!tsr_label_whole(state->index, side->low, side->high)) return 0;
  if (!tsr_label_cell(state->index, side->low, &first) || !tsr_label_cell(state->index, side->high, &last)) return 0;
  return !tsx_label_is_bare(label, state, first) &&
         !tsx_label_is_bare(label, state, last); /* so those between are not */
}

void tsx_label_state_release(tsx_label_state *state) {
  if (state) state->users--;
}

void tsx_label_result(sqlite3_context *context, const tsx_label_column *label, const tsx_label_state *state,
                      const tsr_column *coordinates, uint64_t index) {
  const uint64_t i = coordinates->constant ? 0 : index;
  uint64_t cell;
  if (tsr_label_cell(state->index, (const uint8_t *)coordinates->values + i * coordinates->cell_size, &cell))
    tsx_column_result(context, &label->column, tsr_label_cells(state->index), cell, false);
}

int tsx_label_coordinate_of(tsx_table *table, tsx_label_column *label, sqlite3_value *value, uint8_t coordinate[8],
                            tsr_error *error) {
  tsx_label_state *state = NULL;
  uint8_t *bytes = NULL;
  uint64_t size = 0;
  if (label->group)
    return tsx_fail(error, TSR_READONLY,
                    "%.90s.%.100s: the coordinates of a group can be read, but name no row to write", table->name,
                    label->name);
  int code = tsx_bytes_convert(value, label->field.datatype, &bytes, &size, error);
  if (code == TSR_OK && label->field.cell_size && size != label->field.cell_size)
    code = tsx_fail(error, TSR_MISMATCH, "expected one value of %s", tsr_datatype_name(label->field.datatype));
  if (code == TSR_OK) code = tsx_label_state_take(table, label, 0, TSR_TIME_NOW, &state, error);
  if (code == TSR_OK) code = tsr_label_load(state->index, error);
  if (code == TSR_OK) {
    code = tsr_label_coordinate_of(state->index, bytes, size, coordinate, error);
    const char *text = code == 0 ? (const char *)sqlite3_value_text(value) : NULL;
    if (code == 0) code = tsx_fail(error, TSR_RANGE, "no coordinate has the label %.60s", text ? text : "");
  }
  tsx_label_state_release(state);
  sqlite3_free(bytes);
  if (code >= 0) return TSR_OK;
  const tsr_error inner = *error;
  return tsx_fail(error, code, "%.90s.%.100s: %s", table->name, label->name, inner.message);
}
