/* labels.c: dimension labels as columns.
 *
 * A label maps the coordinates of a dimension to other values, such as latitudes. It is part of the array's schema, or,
 * with the option labels='group', an array beside the array in its group. The array of a label is opened, and its
 * values are read, when a statement first uses the column. The values then stay in memory with the table, and each
 * statement checks whether they have changed.
 *
 * Sections: labels in the array's group; the columns; the values, as cursors use them; the order of all columns in SQL;
 * ORDER BY a label that some coordinates lack. */
#include "table/table.h"

#include <string.h>
#include <stdlib.h>

#include "connection/errors.h"
#include "database/store_sqlite.h"
#include "sql/names.h"
#include "values/slice.h"
#include "values/compare.h"

/* ---- Labels in a group ------------------------------------------------------------------------------------------- */
/* TileDB-CF and xarray's writers keep the coordinates of a dimension in an array of its own: it has one dimension and
 * one attribute, is in the same group, and has the dimension's name there. With the option labels='group' a table reads
 * such arrays as labels. It does not write them. */

/* Returns the directory of the group that contains an array, from sqlite3_malloc, or NULL. */
static char *group_of_array(const char *path) {
  size_t end = strlen(path);
  while (end > 1 && path[end - 1] == '/') end--;
  while (end > 0 && path[end - 1] != '/') end--;
  while (end > 1 && path[end - 1] == '/') end--;
  return end > 0 ? sqlite3_mprintf("%.*s", (int)end, path) : sqlite3_mprintf(".");
}

/* Returns true if a member of the group has this name. A member without a name has its directory's. */
static bool group_member_is(const tsr_group_member *member, const char *name) {
  if (member->kind != TSR_OBJECT_ARRAY) return false;
  if (member->name) return strcmp(member->name, name) == 0;
  size_t end = strlen(member->path), first;
  while (end > 0 && member->path[end - 1] == '/') end--;
  for (first = end; first > 0 && member->path[first - 1] != '/';) first--;
  return end - first == strlen(name) && memcmp(member->path + first, name, end - first) == 0;
}

/* An untrusted group may name any path: nothing outside of its directory is opened. */
static int check_inside(const tsx_table *table, const char *path, const char *directory, const char *name,
                        tsr_error *error) {
  const int inside = tsr_path_lies_below(table->connection->environment, path, directory, error);
  if (inside != 0) return inside < 0 ? inside : TSR_OK;
  return tsx_fail(error, TSR_PERM, "member '%s' is outside the group's directory, %s, at %s", name, directory, path);
}

/* Finds the member with the dimension's name. *path is NULL if the group has none, or if it is the array itself. */
static int find_group_member(const tsx_table *table, const char *directory, const tsr_group_members *members,
                             const char *name, char **path, tsr_error *error) {
  const size_t own = strlen(table->path);
  *path = NULL;
  for (uint64_t i = 0; i < members->count; i++) {
    const char *found = members->members[i].path;
    const size_t length = strlen(found);
    if (!group_member_is(&members->members[i], name)) continue;
    if (length == own && memcmp(found, table->path, own) == 0) continue;
    const int code = check_inside(table, found, directory, name, error);
    if (code < 0) return code;
    *path = sqlite3_mprintf("%s", found);
    return *path ? TSR_OK : tsx_out_of_memory(error);
  }
  return TSR_OK;
}

static const uint8_t *group_label_key(const tsx_table *table) {
  return table->array->has_key ? table->array->key : NULL;
}

static int group_label_open(tsx_table *table, uint32_t dimension, const char *path, tsr_label_index **index,
                            tsr_error *error) {
  const tsr_array_options options = {.key = group_label_key(table), .threads = table->options.limits.threads};
  tsr_environment *environment = table->connection->environment;
  tsr_array *values;
  TSX_TRY(tsr_path_permitted(environment, path, error));
  TSX_TRY(tsr_array_open(environment, path, &options, &values, error));
  int code = tsr_label_open_array(values, table->schema, dimension, table->options.limits.memory_bytes, index, error);
  if (code < 0) tsr_array_close(values);
  return code;
}

/* Opens the array with the coordinates of dimension number `dimension`. *path is the array's, from sqlite3_malloc; NULL
 * if the group has none. The caller closes the index. */
static int group_label_find(tsx_table *table, uint32_t dimension, char **path, tsr_label_index **index,
                            tsr_error *error) {
  tsr_environment *environment = table->connection->environment;
  const char *name = table->schema->fields[dimension].name;
  tsr_group *group = NULL;
  tsr_group_members *members = NULL;
  *path = NULL;
  *index = NULL;
  if (tsx_store_is(table->path))
    return tsx_fail(error, TSR_UNSUPPORTED, "option labels='group': an array in the database is in no group");
  char *directory = group_of_array(table->path);
  if (!directory) return tsx_out_of_memory(error);
  int code = tsr_group_open(environment, directory, group_label_key(table), &group, error);
  if (code == TSR_OK) code = tsr_group_members_open(group, 0, TSR_TIME_NOW, &members, error);
  if (code == TSR_OK) code = find_group_member(table, directory, members, name, path, error);
  if (code == TSR_OK && *path) {
    tsr_error why = {0};
    code = group_label_open(table, dimension, *path, index, &why);
    if (code == TSR_CORRUPT) { /* other dimensions or attributes: no coordinates */
      sqlite3_free(*path);
      *path = NULL;
      code = TSR_OK;
    } else if (code < 0) *error = why;
  }
  tsr_group_members_close(members);
  tsr_group_close(group);
  sqlite3_free(directory);
  if (code == TSR_OK) return code;
  sqlite3_free(*path);
  *path = NULL;
  return tsx_fail_in("option labels='group'", error);
}

/* ---- The columns ------------------------------------------------------------------------------------------------- */

static bool label_name_taken(const tsx_table *table, const char *name) {
  for (uint32_t i = 0; i < table->column_count; i++)
    if (!sqlite3_stricmp(table->columns[i].name, name)) return true;
  for (int i = 0; i < 3; i++)
    if (!sqlite3_stricmp(table->declared.hidden[i], name)) return true;
  for (uint32_t i = 0; i < table->label_count; i++)
    if (table->labels[i].name && !sqlite3_stricmp(table->labels[i].name, name)) return true;
  return false;
}

/* Returns the column's name, from sqlite3_malloc: the label's, with _2, _3 and so on appended if another column has
 * that name. */
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

/* Describes a label's values without opening its array: one number or datetime per cell, or text. */
static tsr_field describe(const tsr_label *label) {
  const tsr_kind kind = tsr_datatype_kind(label->datatype);
  const bool text = kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES;
  return (tsr_field){.name = label->name,
                     .datatype = label->datatype,
                     .values_per_cell = text ? TSR_VARIABLE : 1,
                     .cell_size = text ? 0 : tsr_datatype_size(label->datatype),
                     .nullable = true};
}

/* Completes a column whose field is described. */
static int make_label_column(tsx_table *table, tsx_label_column *label, const char *name, tsr_error *error) {
  if (!(label->name = name_label(table, name))) return tsx_out_of_memory(error);
  tsx_column_choose(&label->field, NULL, &table->options.shows, &label->column);
  tsx_column_prepare(&label->column);
  table->label_count++;
  return TSR_OK;
}

/* Makes columns of the coordinates in the array's group, with the datatype of the array there. */
static int make_group_columns(tsx_table *table, tsr_error *error) {
  int code = TSR_OK;
  for (uint32_t d = 0; d < table->schema->dimension_count && code == TSR_OK; d++) {
    tsx_label_column *label = &table->labels[table->label_count];
    tsr_label_index *index;
    char *path;
    if ((code = group_label_find(table, d, &path, &index, error)) < 0) return code;
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

/* Finds the state for these times, or else one that no cursor uses, or NULL. */
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
    code = label->group ? group_label_open(table, label->dimension, label->group, &state->index, error)
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

/* Returns true if SQL shows a cell of a label as an integer: an instant that has no ISO text. */
static bool label_is_bare(const tsx_label_column *label, const tsx_label_state *state, uint64_t cell) {
  const tsr_column *cells = tsr_label_cells(state->index);
  char text[48];
  int64_t instant;
  if (label->column.form != TSX_DATETIME) return false;
  memcpy(&instant, (const uint8_t *)cells->values + cell * sizeof instant, sizeof instant);
  return tsr_datetime_print(label->field.datatype, instant, text) == 0;
}

int tsx_label_covers(const tsx_label_column *label, const tsx_label_state *state, tsr_snapshot *snapshot,
                     tsr_error *error) {
  const tsr_interval *box;
  const int any = tsr_snapshot_non_empty_domain(snapshot, &box, error);
  if (any <= 0) return any < 0 ? any : 1;
  const tsr_interval *side = &box[label->dimension];
  uint64_t first, last;
  if (!tsr_label_covers(state->index, side->low, side->high)) return 0;
  if (!tsr_label_cell(state->index, side->low, &first) || !tsr_label_cell(state->index, side->high, &last)) return 0;
  return !label_is_bare(label, state, first) && !label_is_bare(label, state, last); /* so neither are those between */
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

/* ---- The order of columns in SQL --------------------------------------------------------------------------------- */
/* SELECT * has each dimension followed by those of its labels that it shows, then the attributes. Hidden columns come
 * last. */

#define POSITION "_index" /* suffix of a dimension whose label has the plain name */

/* Returns true if the name is the label's plus `_index`. */
static bool numbers_label(const char *name, const char *label) {
  const size_t size = strlen(label);
  return !sqlite3_strnicmp(name, label, (int)size) && !sqlite3_stricmp(name + size, POSITION);
}

static bool is_chosen(const tsx_table *table, const char *name) {
  const tsx_option_shows *shows = &table->options.shows;
  for (uint32_t i = 0; i < shows->column_count; i++)
    if (!sqlite3_stricmp(shows->columns[i], name)) return true;
  return false;
}

/* Returns true if a dimension only numbers the coordinates that its labels have: it is the lat_index of a label lat. */
static bool numbers_labels(const tsx_table *table, uint32_t dimension) {
  for (uint32_t i = 0; i < table->label_count; i++)
    if (table->labels[i].dimension == dimension &&
        numbers_label(table->schema->fields[dimension].name, table->labels[i].name))
      return true;
  return false;
}

/* Returns true if SELECT * includes the label. */
static bool is_label_shown(const tsx_table *table, const tsx_label_column *label) {
  const tsx_labels_shown labels = table->options.shows.labels;
  if (labels == TSX_LABELS_HIDDEN) return false;
  if (table->options.shows.columns) return is_chosen(table, label->name);
  return labels == TSX_LABELS_SHOWN || numbers_labels(table, label->dimension);
}

/* Returns true if SELECT * includes the field: all but dimensions that number the coordinates of an included label. */
static bool is_field_shown(const tsx_table *table, const tsx_column *column) {
  if (!column->description->is_dimension || table->options.shows.columns) return true;
  for (uint32_t i = 0; i < table->label_count; i++)
    if (table->labels[i].dimension == column->field && is_label_shown(table, &table->labels[i]) &&
        numbers_label(column->name, table->labels[i].name))
      return false;
  return true;
}

static void order_add(tsx_table *table, int *count, int own) {
  table->order.own[*count] = own;
  table->order.sql[own] = (*count)++;
}

/* Adds the labels of a dimension that SELECT * includes, or those that it does not. */
static void order_add_labels(tsx_table *table, uint32_t dimension, bool shown, int *count) {
  for (uint32_t i = 0; i < table->label_count; i++)
    if (table->labels[i].dimension == dimension && is_label_shown(table, &table->labels[i]) == shown)
      order_add(table, count, TSX_WRITTEN_AT(table) + 1 + (int)i);
}

int tsx_column_order_make(tsx_table *table, tsr_error *error) {
  const uint64_t all = (uint64_t)TSX_WRITTEN_AT(table) + 1 + table->label_count;
  const uint32_t dimensions = table->schema->dimension_count;
  int count = 0;
  if (table->label_count == 0) return TSR_OK;
  table->order.own = sqlite3_malloc64(all * sizeof(int));
  table->order.sql = sqlite3_malloc64(all * sizeof(int));
  table->order.values = sqlite3_malloc64((2 + all) * sizeof(sqlite3_value *));
  if (!table->order.own || !table->order.sql || !table->order.values) return tsx_out_of_memory(error);
  uint32_t c = 0;
  for (uint32_t d = 0; d < dimensions; d++) {
    if (c < table->column_count && table->columns[c].field == d) {
      if (is_field_shown(table, &table->columns[c])) order_add(table, &count, (int)c);
      c++;
    }
    order_add_labels(table, d, true, &count);
  }
  for (; c < table->column_count; c++) order_add(table, &count, (int)c);
  for (int i = TSX_AS_OF(table); i <= TSX_WRITTEN_AT(table); i++) order_add(table, &count, i);
  for (c = 0; c < table->column_count; c++)
    if (!is_field_shown(table, &table->columns[c])) order_add(table, &count, (int)c);
  for (uint32_t d = 0; d < dimensions; d++) order_add_labels(table, d, false, &count);
  return TSR_OK;
}

void tsx_column_order_free(tsx_table *table) {
  sqlite3_free(table->order.own);
  sqlite3_free(table->order.sql);
  sqlite3_free(table->order.values);
  table->order = (tsx_column_order){0};
}

sqlite3_value **tsx_column_order_values(tsx_table *table, sqlite3_value **values) {
  if (!table->order.own) return values;
  for (int i = 0; i <= TSX_WRITTEN_AT(table) + (int)table->label_count; i++)
    table->order.values[2 + table->order.own[i]] = values[2 + i];
  memcpy(table->order.values, values, 2 * sizeof *values);
  return table->order.values;
}

/* ---- ORDER BY a label that some coordinates lack ----------------------------------------------------------------- */
/* Reads the coordinates of all rows as records of uint64 words: sort keys, then the coordinates. Sorts them, drops
 * duplicates, and starts the reader once for each coordinate. */

/* Maps a coordinate to a number that sorts like the coordinates. */
static uint64_t order_coordinate_key(const tsr_field *dimension, const void *value) {
  const tsr_kind kind = tsr_datatype_kind(dimension->datatype);
  const uint64_t size = tsr_datatype_size(dimension->datatype);
  if (kind == TSR_KIND_UNSIGNED) return tsx_load_unsigned(value, size);
  return (uint64_t)tsx_load_signed(value, size) ^ UINT64_C(1) << 63;
}

/* Maps a coordinate to the rank of its label; 0 if it has none. Instants that are shown as integers come before those
 * that are shown as text. */
static uint64_t order_label_key(const tsx_label_column *label, const tsx_label_state *state, bool descending,
                                const void *coordinate) {
  uint64_t cell;
  if (!tsr_label_cell(state->index, coordinate, &cell)) return 0;
  const uint64_t place = descending ? (UINT64_C(1) << 63) - 1 - cell : cell + 1;
  return place | (uint64_t)!label_is_bare(label, state, cell) << 63;
}

static int compare_order_records(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  for (uint64_t i = 1; i <= x[0]; i++)
    if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
  return 0;
}

static int add_order_record(tsx_label_order *order, const tsx_table *table, uint64_t **record, tsr_error *error) {
  const uint64_t bytes = order->size * sizeof(uint64_t);
  if (order->count == order->room) {
    const uint64_t room = order->room ? 2 * order->room : 256;
    const uint64_t limit = table->options.limits.memory_bytes ? table->options.limits.memory_bytes : UINT64_C(1) << 30;
    if (room * bytes > limit)
      return tsx_fail(error, TSR_BUDGET, "%s: rows in the order of a label with missing values exceed memory_mb",
                      table->path);
    uint64_t *grown = sqlite3_realloc64(order->words, room * bytes);
    if (!grown) return tsx_out_of_memory(error);
    order->words = grown;
    order->room = room;
  }
  *record = order->words + order->count++ * order->size;
  (*record)[0] = order->size - 1;
  return TSR_OK;
}

/* Appends the records of a batch. */
static int add_order_batch(tsx_label_order *order, const tsx_table *table, tsx_label_state *const *states,
                           const tsx_access *access, tsr_reader *reader, const tsr_batch *batch, tsr_error *error) {
  const tsr_schema *schema = table->schema;
  const uint64_t before = order->count;
  uint64_t *record;
  int code = TSR_OK;
  for (uint64_t r = 0; r < batch->count && code == TSR_OK; r++) code = add_order_record(order, table, &record, error);
  for (uint32_t d = 0; d < order->dimensions && code == TSR_OK; d++) {
    const tsr_column *column;
    const tsr_field *field = &schema->fields[d];
    if ((code = tsr_reader_column(reader, d, &column, error)) < 0) break;
    for (uint64_t r = 0; r < batch->count; r++) {
      const uint64_t i = column->constant ? 0 : tsr_batch_index(batch, r);
      const uint8_t *value = (const uint8_t *)column->values + i * column->cell_size;
      record = order->words + (before + r) * order->size + 1;
      record[access->order_count + d] = 0;
      memcpy(&record[access->order_count + d], value, field->cell_size);
      for (uint32_t k = 0; k < access->order_count; k++) {
        const tsx_label_column *label = tsx_label_column_at(table, access->order[k].column);
        if ((label ? label->dimension : table->columns[access->order[k].column].field) != d) continue;
        const uint64_t key =
            label ? order_label_key(label, states[label - table->labels], tsx_label_descends(table, label), value)
                  : order_coordinate_key(field, value);
        record[k] = access->order[k].descending ? ~key : key;
      }
    }
  }
  return code < 0 ? code : TSR_OK;
}

/* Removes duplicate records. */
static void leave_one_record(tsx_label_order *order) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < order->count; i++) {
    const uint64_t *record = order->words + i * order->size;
    if (kept > 0 && compare_order_records(order->words + (kept - 1) * order->size, record) == 0) continue;
    memmove(order->words + kept++ * order->size, record, order->size * sizeof *record);
  }
  order->count = kept;
}

int tsx_label_order_open(tsx_label_order *order, const tsx_table *table, tsx_label_state *const *states,
                         const tsx_access *access, tsr_reader *reader, const tsr_request *request, tsr_error *error) {
  const uint32_t n = table->schema->dimension_count;
  tsr_request all = *request;
  const tsr_batch *batch;
  *order = (tsx_label_order){.size = 1 + access->order_count + n, .dimensions = n, .request = *request};
  order->points = sqlite3_malloc64(n * (sizeof(tsr_range) + sizeof(tsr_ranges)));
  if (!order->points) return tsx_out_of_memory(error);
  tsr_ranges *ranges = (tsr_ranges *)(void *)(order->points + n);
  for (uint32_t d = 0; d < n; d++) ranges[d] = (tsr_ranges){.ranges = &order->points[d], .count = 1};
  order->request.dimensions = ranges;
  order->request.order_count = 0;
  order->request.distinct = false;
  order->request.limit = 0;
  all.order_count = 0;
  all.distinct = false;
  all.limit = 0;
  int code = tsr_reader_start(reader, &all, error);
  while (code >= 0 && (code = tsr_reader_next(reader, &batch, error)) > 0)
    code = add_order_batch(order, table, states, access, reader, batch, error);
  if (code < 0) return code;
  if (order->count > 1) qsort(order->words, order->count, order->size * sizeof(uint64_t), compare_order_records);
  leave_one_record(order);
  return TSR_OK;
}

void tsx_label_order_close(tsx_label_order *order) {
  sqlite3_free(order->words);
  sqlite3_free(order->points);
  *order = (tsx_label_order){0};
}

int tsx_label_order_next(tsx_label_order *order, tsr_reader *reader, tsr_error *error) {
  if (order->at == order->count) return 0;
  const uint64_t *record = order->words + order->at++ * order->size + order->size - order->dimensions;
  for (uint32_t d = 0; d < order->dimensions; d++)
    order->points[d] = (tsr_range){.low = &record[d], .high = &record[d]};
  const int code = tsr_reader_start(reader, &order->request, error);
  return code < 0 ? code : 1;
}
