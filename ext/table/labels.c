/* labels.c: dimension labels as columns.
 *
 * A label maps the coordinates of a dimension to other values, such as latitudes. It is part of the array's schema, or
 * an attribute of another array with one dimension: with the option labels='group' of an array beside the array in its
 * group, with labels='dimension=path' of any array. The values of a label are read when a statement first uses the
 * column. They then stay in memory with the table, and each statement checks whether they have changed.
 *
 * Sections: other arrays; labels in the array's group; labels by a path; the columns; the values, as cursors use them;
 * ORDER BY a label that some coordinates lack. */
#include "tessera_path.h"
#include "table/table_internal.h"

#include <string.h>
#include <stdlib.h>

#include "connection/errors.h"
#include "database/store_sqlite.h"
#include "sql/names.h"
#include "values/slice.h"
#include "values/compare.h"

/* ---- Other arrays ------------------------------------------------------------------------------------------------ */

/* Returns the last part of a path, from sqlite3_malloc. */
static char *last_part(const char *path) {
  size_t end = strlen(path), first;
  while (end > 0 && path[end - 1] == '/') end--;
  for (first = end; first > 0 && path[first - 1] != '/';) first--;
  return sqlite3_mprintf("%.*s", (int)(end - first), path + first);
}

static void label_array_close(const tsx_table *table, tsx_label_array *other) {
  if (!other) return;
  tsx_array_release(table->connection, other->array);
  sqlite3_free(other->last);
  sqlite3_free(other);
}

/* Opens an array that may have labels, with the key that is set for its path, else the table's, and finds the schema
 * that is in force at the table's as_of. */
static int label_array_read(const tsx_table *table, const char *path, tsx_label_array *other, tsr_error *error) {
  const uint64_t as_of = table->options.times.as_of;
  uint8_t key[32];
  bool has_key = tsx_key_find(table->connection, path, key);
  if (!has_key && table->array->has_key) {
    memcpy(key, table->array->key, sizeof key);
    has_key = true;
  }
  int code = tsx_array_open(table->connection, path, has_key ? key : NULL, TSX_CACHE_AS_IS,
                            table->options.limits.threads, &other->array, error);
  tsx_wipe(key, sizeof key);
  if (code < 0) return code;
  code = tsr_array_schema(other->array->core, as_of, &other->schema, error);
  return code == TSR_NOT_FOUND ? tsr_array_schema(other->array->core, TSR_TIME_NOW, &other->schema, error) : code;
}

/* Makes *out for the array at a path. The caller closes it. */
static int label_array_open(const tsx_table *table, const char *path, tsx_label_array **out, tsr_error *error) {
  tsx_label_array *other = sqlite3_malloc64(sizeof *other);
  if (!other) return tsx_out_of_memory(error);
  *other = (tsx_label_array){.last = last_part(path)};
  const int code = other->last ? label_array_read(table, path, other, error) : tsx_out_of_memory(error);
  if (code >= 0) *out = other;
  else label_array_close(table, other);
  return code;
}

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
    TSX_TRY(check_inside(table, found, directory, name, error));
    *path = sqlite3_mprintf("%s", found);
    return *path ? TSR_OK : tsx_out_of_memory(error);
  }
  return TSR_OK;
}

static const uint8_t *group_label_key(const tsx_table *table) {
  return table->array->has_key ? table->array->key : NULL;
}

/* Returns true if an array beside the table's has the coordinates of a dimension: it is dense, with one dimension of
 * that datatype and one attribute. */
static bool is_group_label(const tsx_table *table, uint32_t dimension, const tsr_schema *schema) {
  return schema->dense && schema->dimension_count == 1 && schema->attribute_count == 1 &&
         schema->fields[0].datatype == table->schema->fields[dimension].datatype && tsr_label_suits(&schema->fields[1]);
}

/* Opens the array with the coordinates of dimension number `dimension`. *other is NULL if the group has none. The
 * caller closes it. */
static int group_label_find(const tsx_table *table, uint32_t dimension, tsx_label_array **other, tsr_error *error) {
  tsr_environment *environment = table->connection->environment;
  const char *name = table->schema->fields[dimension].name;
  tsr_group *group = NULL;
  tsr_group_members *members = NULL;
  char *path = NULL;
  *other = NULL;
  if (tsx_store_is(table->path))
    return tsx_fail(error, TSR_UNSUPPORTED, "option labels='group': an array in the database is in no group");
  char *directory = group_of_array(table->path);
  if (!directory) return tsx_out_of_memory(error);
  int code = tsr_group_open(environment, directory, group_label_key(table), &group, error);
  if (code >= 0) code = tsr_group_members_open(group, 0, TSR_TIME_NOW, &members, error);
  if (code >= 0) code = find_group_member(table, directory, members, name, &path, error);
  if (code >= 0 && path) code = label_array_open(table, path, other, error);
  tsr_group_members_close(members);
  tsr_group_close(group);
  sqlite3_free(directory);
  sqlite3_free(path);
  if (*other && !is_group_label(table, dimension, (*other)->schema)) {
    label_array_close(table, *other);
    *other = NULL;
  }
  return code < 0 ? tsx_fail_in("option labels='group'", error) : TSR_OK;
}

/* ---- Labels by a path -------------------------------------------------------------------------------------------- */

/* Returns the path that leads from the array `base` to `path`, without the ".." in between; from sqlite3_malloc. */
static char *path_from(const char *base, const char *path) {
  const char *scheme = strstr(base, "://");
  const size_t least = scheme ? (size_t)(scheme + 3 - base) : 0;
  size_t end = strlen(base);
  while (end > least && base[end - 1] == '/') end--;
  for (;;) {
    size_t up = end;
    while (!strncmp(path, "./", 2)) path += 2;
    if (strncmp(path, "../", 3) != 0) break;
    while (up > least && base[up - 1] != '/') up--;
    const bool dots = end - up <= 2 && !strncmp(base + up, "..", end - up); /* "", "." or "..": stays as it is */
    if (dots || (scheme && up == least)) break;
    while (up > least && base[up - 1] == '/' && up > 1) up--;
    end = up;
    path += 3;
  }
  if (end == 0) return sqlite3_mprintf("%s", path);
  return sqlite3_mprintf("%.*s%s%s", (int)end, base, base[end - 1] == '/' ? "" : "/", path);
}

/* Gives the place of a path in the option labels: relative to the array, or to the database's file if the array is in
 * the database. */
static int label_path(const tsx_table *table, const char *text, char **path, tsr_error *error) {
  if (!sqlite3_strnicmp(text, "db:", 3))
    return tsx_fail(error, TSR_UNSUPPORTED, "%s names a table of this database: expected the path of a directory",
                    text);
  if (tsr_path_absolute(text) || strstr(text, "://")) *path = sqlite3_mprintf("%s", text);
  else if (tsx_store_is(table->path))
    return tsx_path_resolve(table->connection->db, table->schema_name, text, path, error);
  else *path = path_from(table->path, text);
  return *path ? TSR_OK : tsx_out_of_memory(error);
}

/* Finds the attribute `name` that has the coordinates. */
static int find_coordinate(tsx_label_array *other, const char *name, tsr_error *error) {
  const tsr_schema *schema = other->schema;
  for (uint32_t f = 0; f < schema->dimension_count + schema->attribute_count; f++)
    if (!sqlite3_stricmp(schema->fields[f].name, name)) {
      other->coordinate = f;
      return TSR_OK;
    }
  return tsx_fail(error, TSR_ERROR, "%s has no attribute %s", other->array->path, name);
}

/* Opens the array that an item of the option labels names: a path, or a path, a dot and an attribute. */
static int named_label_open(const tsx_table *table, const char *text, tsx_label_array **other, tsr_error *error) {
  char *path = NULL;
  int code = label_path(table, text, &path, error);
  if (code >= 0) code = label_array_open(table, path, other, error);
  char *dot = path ? strrchr(path, '.') : NULL;
  if (code == TSR_NOT_FOUND && dot && dot > path && dot[-1] != '/' && !strchr(dot, '/')) {
    tsr_error why = {0};
    *dot = 0;
    const int again = label_array_open(table, path, other, &why);
    if (again != TSR_NOT_FOUND) {
      *error = why;
      code = again;
      if (code >= 0 && (code = find_coordinate(*other, dot + 1, error)) < 0) label_array_close(table, *other);
    }
  }
  sqlite3_free(path);
  return code;
}

/* Returns the number of the dimension that the table calls `name`; dimension_count if there is none. */
static uint32_t find_dimension(const tsx_table *table, const char *name) {
  uint32_t d = 0;
  while (d < table->schema->dimension_count && sqlite3_stricmp(tsx_dimension_name(table, d), name)) d++;
  return d;
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

const char *tsx_dimension_name(const tsx_table *table, uint32_t dimension) {
  for (uint32_t i = 0; i < table->column_count; i++)
    if (table->columns[i].field == dimension) return table->columns[i].name;
  return table->schema->fields[dimension].name;
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
                     .duration = label->duration,
                     .cell_size = text ? 0 : tsr_datatype_size(label->datatype),
                     .nullable = true};
}

/* Completes a column whose field is described. */
static int make_label_column(tsx_table *table, tsx_label_column *label, const char *name,
                             const tsr_enumeration *enumeration, tsr_error *error) {
  const int most = sqlite3_limit(table->connection->db, SQLITE_LIMIT_COLUMN, -1) - 3;
  if (most >= 0 && table->column_count <= (uint32_t)most && table->column_count + table->label_count >= (uint32_t)most)
    return tsx_fail(error, TSR_ERROR,
                    "%s has %u columns and more than %u labels, SQLite shows at most %d of both: choose columns with "
                    "the option columns='a,b,c', and fewer arrays with the option labels",
                    table->path, table->column_count, table->label_count, most);
  if (!(label->name = name_label(table, name))) return tsx_out_of_memory(error);
  tsx_column_choose(&label->field, enumeration, &table->options.shows, &label->column);
  tsx_column_prepare(&label->column);
  table->label_count++;
  return TSR_OK;
}

/* Makes room for `more` labels. */
static int reserve_labels(tsx_table *table, uint64_t more, tsr_error *error) {
  tsx_label_column *labels = sqlite3_realloc64(table->labels, (table->label_count + more + 1) * sizeof *labels);
  if (!labels) return tsx_out_of_memory(error);
  memset(labels + table->label_count, 0, (more + 1) * sizeof *labels);
  table->labels = labels;
  for (uint32_t i = 0; i < table->label_count; i++) labels[i].column.description = &labels[i].field; /* they moved */
  return TSR_OK;
}

/* Makes a column of attribute number `value` of another array. */
static int make_other_column(tsx_table *table, const tsx_label_array *other, uint32_t value, uint32_t dimension,
                             const char *name, tsr_error *error) {
  const tsr_field *field = &other->schema->fields[value];
  const tsr_enumeration *enumeration = NULL;
  TSX_TRY(tsx_times_known(other->schema, field->datatype, field->name, &table->options.shows, error));
  tsx_label_column *label = &table->labels[table->label_count];
  if (field->enumeration && !table->options.shows.enums_code)
    TSX_TRY(tsr_array_enumeration(other->array->core, other->schema, field->enumeration, &enumeration, error));
  label->other = other;
  label->label = value;
  label->dimension = dimension;
  label->field = *field;
  label->field.is_dimension = false; /* it is no dimension of this table */
  label->field.nullable = true;
  return make_label_column(table, label, name, enumeration, error);
}

static void keep_label_array(tsx_table *table, tsx_label_array *other) {
  other->next = table->label_arrays;
  table->label_arrays = other;
}

/* Makes columns of the coordinates in the array's group, with the datatype of the array there. */
static int make_group_columns(tsx_table *table, tsr_error *error) {
  TSX_TRY(reserve_labels(table, table->schema->dimension_count, error));
  for (uint32_t d = 0; d < table->schema->dimension_count; d++) {
    tsx_label_array *other;
    TSX_TRY(group_label_find(table, d, &other, error));
    if (!other) continue;
    keep_label_array(table, other);
    TSX_TRY(make_other_column(table, other, 1, d, table->schema->fields[d].name, error));
  }
  return TSR_OK;
}

/* Returns true if an array that another item of the option labels names has an attribute of that name, too. */
static bool others_have(const tsx_table *table, const tsx_label_array *own, const char *name) {
  for (const tsx_label_array *other = table->label_arrays; other; other = other->next)
    for (uint32_t f = 0; f < 1 + other->schema->attribute_count && other != own; f++)
      if (f != other->coordinate && !sqlite3_stricmp(other->schema->fields[f].name, name)) return true;
  return false;
}

/* Fails if another array's coordinates are not those of a dimension, or if it has several dimensions. */
static int check_coordinates(const tsx_table *table, const tsx_label_array *other, uint32_t value, uint32_t dimension,
                             tsr_error *error) {
  const tsr_label_fields fields = {.schema = other->schema, .coordinate = other->coordinate, .value = value};
  tsr_label_index *index = NULL;
  const int code = tsr_label_open_array(other->array->core, &fields, table->schema, dimension, 0, &index, error);
  tsr_label_close(index);
  return code;
}

/* Makes columns of all fields of an array that the option labels names, except its coordinates. */
static int make_named_columns(tsx_table *table, const tsx_label_array *other, uint32_t dimension, tsr_error *error) {
  const tsr_schema *schema = other->schema;
  const uint32_t fields = schema->dimension_count + schema->attribute_count;
  TSX_TRY(reserve_labels(table, fields, error));
  for (uint32_t f = 0; f < fields; f++) {
    const char *name = schema->fields[f].name;
    if (f == other->coordinate || !tsr_label_suits(&schema->fields[f])) continue;
    TSX_TRY(check_coordinates(table, other, f, dimension, error));
    char *longer = label_name_taken(table, name) || others_have(table, other, name)
                       ? sqlite3_mprintf("%s_%s", other->last, name)
                       : sqlite3_mprintf("%s", name);
    if (!longer) return tsx_out_of_memory(error);
    table->labels[table->label_count].named = true;
    const int code = make_other_column(table, other, f, dimension, longer, error);
    sqlite3_free(longer);
    if (code < 0) return code;
  }
  return TSR_OK;
}

/* Opens the arrays that the option labels names, and makes columns of their attributes. All are opened first, since the
 * names of the columns depend on all of them. */
static int make_columns_of(tsx_table *table, const tsx_option_pairs *pairs, tsx_label_array **others,
                           tsr_error *error) {
  for (uint32_t i = 0; i < pairs->count; i++) {
    if (find_dimension(table, pairs->pairs[i].name) == table->schema->dimension_count)
      return tsx_fail(error, TSR_ERROR, "%s has no dimension %s", table->path, pairs->pairs[i].name);
    TSX_TRY(named_label_open(table, pairs->pairs[i].value, &others[i], error));
    keep_label_array(table, others[i]);
  }
  for (uint32_t i = 0; i < pairs->count; i++)
    TSX_TRY(make_named_columns(table, others[i], find_dimension(table, pairs->pairs[i].name), error));
  return TSR_OK;
}

static int make_all_named_columns(tsx_table *table, tsr_error *error) {
  const tsx_option_pairs *pairs = &table->options.shows.label_arrays;
  tsx_label_array **others = sqlite3_malloc64((pairs->count + UINT64_C(1)) * sizeof(void *));
  const int code = others ? make_columns_of(table, pairs, others, error) : tsx_out_of_memory(error);
  sqlite3_free(others);
  return code < 0 ? tsx_fail_in("option labels", error) : TSR_OK;
}

int tsx_label_columns_make(tsx_table *table, tsr_error *error) {
  const tsr_schema *schema = table->schema;
  const tsx_labels_shown shown = table->options.shows.labels;
  TSX_TRY(reserve_labels(table, schema->label_count, error));
  for (uint32_t i = 0; i < schema->label_count && shown != TSX_LABELS_NONE; i++) {
    tsx_label_column *label = &table->labels[i];
    label->label = i;
    label->dimension = schema->labels[i].dimension;
    label->field = describe(&schema->labels[i]);
    TSX_TRY(tsx_times_known(schema, label->field.datatype, label->field.name, &table->options.shows, error));
    TSX_TRY(make_label_column(table, label, schema->labels[i].name, NULL, error));
  }
  if (shown == TSX_LABELS_GROUP) TSX_TRY(make_group_columns(table, error));
  return table->options.shows.label_arrays.count > 0 ? make_all_named_columns(table, error) : TSR_OK;
}

void tsx_label_columns_free(tsx_table *table) {
  for (uint32_t i = 0; i < table->label_count; i++) {
    for (tsx_label_state *state = table->labels[i].states, *next; state; state = next) {
      next = state->next;
      tsr_label_close(state->index);
      sqlite3_free(state);
    }
    sqlite3_free(table->labels[i].name);
  }
  sqlite3_free(table->labels);
  table->labels = NULL;
  table->label_count = 0;
  while (table->label_arrays) {
    tsx_label_array *other = table->label_arrays;
    table->label_arrays = other->next;
    label_array_close(table, other);
  }
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

static int open_label(const tsx_table *table, const tsx_label_column *label, tsr_label_index **index,
                      tsr_error *error) {
  const uint64_t memory = table->options.limits.memory_bytes;
  if (!label->other) return tsr_label_open(table->array->core, table->schema, label->label, memory, index, error);
  const tsr_label_fields fields = {
      .schema = label->other->schema, .coordinate = label->other->coordinate, .value = label->label};
  return tsr_label_open_array(label->other->array->core, &fields, table->schema, label->dimension, memory, index,
                              error);
}

/* Looks at the newest schema of a label's array, which was listed just now: fails if it has dropped the attribute, and
 * takes the texts that were added to the attribute's enumeration. */
static int renew_label(const tsx_table *table, tsx_label_column *label, tsr_error *error) {
  const tsx_label_array *other = label->other;
  const tsr_schema *newest;
  if (table->options.times.has_as_of) return TSR_OK;
  TSX_TRY(tsr_array_schema_listed(other->array->core, TSR_TIME_NOW, &newest, error));
  if (newest == other->schema) return TSR_OK;
  for (uint32_t f = 0; f < newest->dimension_count + newest->attribute_count; f++) {
    const tsr_field *field = &newest->fields[f];
    const tsr_enumeration *newer;
    const tsr_enumeration *old = label->column.enumeration;
    if (strcmp(field->name, label->field.name) != 0 || field->datatype != label->field.datatype ||
        field->values_per_cell != label->field.values_per_cell)
      continue;
    if (!field->enumeration || !old) return TSR_OK;
    TSX_TRY(tsr_array_enumeration(other->array->core, newest, field->enumeration, &newer, error));
    if (newer->datatype == old->datatype && newer->values_per_label == old->values_per_label)
      label->column.enumeration = newer;
    return TSR_OK;
  }
  return tsx_fail(error, TSR_ERROR, "%s: the attribute %s has been dropped: open the database again",
                  other->array->path, label->field.name);
}

/* Fails if the present of another array has rows of the open transaction: labels are what is committed, and its own
 * table shows more. */
static int check_committed(const tsx_table *table, const tsx_label_column *label, uint64_t as_of, tsr_error *error) {
  const tsx_transaction *open = label->other ? label->other->array->transaction : NULL;
  if (!open || as_of != TSR_TIME_NOW || !tsr_writer_changed(open->writer)) return TSR_OK;
  return tsx_fail(error, TSR_ERROR,
                  "%.90s.%.100s: the transaction has rows for %s, and labels do not show them: commit first",
                  table->name, label->name, label->other->array->path);
}

int tsx_label_state_take(tsx_table *table, tsx_label_column *label, uint64_t since, uint64_t as_of,
                         tsx_label_state **out, tsr_error *error) {
  tsx_label_state *state = find_label_state(label, since, as_of);
  if (label->other) TSX_TRY(tsx_array_permitted(table->connection, label->other->array, error));
  TSX_TRY(check_committed(table, label, as_of, error));
  if (!state) {
    state = sqlite3_malloc(sizeof *state);
    if (!state) return tsx_out_of_memory(error);
    *state = (tsx_label_state){0};
    const int code = open_label(table, label, &state->index, error);
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
    TSX_TRY(tsr_label_set_times(state->index, since, as_of, error));
    if (label->other) TSX_TRY(renew_label(table, label, error));
  }
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

static int find_labelled_coordinate(tsr_label_index *index, sqlite3_value *value, const uint8_t *bytes, uint64_t size,
                                    uint8_t coordinate[8], tsr_error *error) {
  TSX_TRY(tsr_label_load(index, error));
  const int found = tsr_label_coordinate_of(index, bytes, size, coordinate, error);
  if (found != 0) return found;
  const char *text = (const char *)sqlite3_value_text(value);
  return tsx_fail(error, TSR_RANGE, "no coordinate has the label %.60s", text ? text : "");
}

int tsx_label_coordinate_of(tsx_table *table, tsx_label_column *label, sqlite3_value *value, uint8_t coordinate[8],
                            tsr_error *error) {
  tsx_label_state *state = NULL;
  uint8_t *bytes = NULL;
  uint64_t size = 0;
  if (label->other)
    return tsx_fail(error, TSR_READONLY,
                    "%.90s.%.100s: the values of another array can be read, but name no row to write", table->name,
                    label->name);
  int code = tsx_bytes_convert(value, label->field.datatype, &bytes, &size, error);
  if (code >= 0 && label->field.cell_size && size != label->field.cell_size)
    code = tsx_fail(error, TSR_MISMATCH, "expected one value of %s", tsr_datatype_name(label->field.datatype));
  if (code >= 0) code = tsx_label_state_take(table, label, 0, TSR_TIME_NOW, &state, error);
  if (code >= 0) code = find_labelled_coordinate(state->index, value, bytes, size, coordinate, error);
  tsx_label_state_release(state);
  sqlite3_free(bytes);
  if (code >= 0) return TSR_OK;
  const tsr_error inner = *error;
  return tsx_fail(error, code, "%.90s.%.100s: %s", table->name, label->name, inner.message);
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
                           const tsx_index_plan *plan, tsr_reader *reader, const tsr_batch *batch, tsr_error *error) {
  const tsr_schema *schema = table->schema;
  const uint64_t before = order->count;
  uint64_t *record;
  for (uint64_t r = 0; r < batch->count; r++) TSX_TRY(add_order_record(order, table, &record, error));
  for (uint32_t d = 0; d < order->dimensions; d++) {
    const tsr_column *column;
    const tsr_field *field = &schema->fields[d];
    TSX_TRY(tsr_reader_column(reader, d, &column, error));
    for (uint64_t r = 0; r < batch->count; r++) {
      const uint64_t i = column->constant ? 0 : tsr_batch_index(batch, r);
      const uint8_t *value = (const uint8_t *)column->values + i * column->cell_size;
      record = order->words + (before + r) * order->size + 1;
      record[plan->order_count + d] = 0;
      memcpy(&record[plan->order_count + d], value, field->cell_size);
      for (uint32_t k = 0; k < plan->order_count; k++) {
        const tsx_label_column *label = tsx_label_column_at(table, plan->order[k].column);
        if ((label ? label->dimension : table->columns[plan->order[k].column].field) != d) continue;
        const uint64_t key =
            label ? order_label_key(label, states[label - table->labels], tsx_label_descends(table, label), value)
                  : order_coordinate_key(field, value);
        record[k] = plan->order[k].descending ? ~key : key;
      }
    }
  }
  return TSR_OK;
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
                         const tsx_index_plan *plan, tsr_reader *reader, const tsr_request *request, tsr_error *error) {
  const uint32_t n = table->schema->dimension_count;
  tsr_request all = *request;
  const tsr_batch *batch;
  *order = (tsx_label_order){.size = 1 + plan->order_count + n, .dimensions = n, .request = *request};
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
  TSX_TRY(tsr_reader_start(reader, &all, error));
  int any;
  while ((any = tsr_reader_next(reader, &batch, error)) > 0)
    TSX_TRY(add_order_batch(order, table, states, plan, reader, batch, error));
  if (any < 0) return any;
  if (order->count > 1) qsort(order->words, order->count, order->size * sizeof(uint64_t), compare_order_records);
  leave_one_record(order);
  return TSR_OK;
}

void tsx_label_order_close(tsx_label_order *order) {
  if (!order->words && !order->points) return; /* as in most requests: not in use */
  sqlite3_free(order->words);
  sqlite3_free(order->points);
  *order = (tsx_label_order){0};
}

int tsx_label_order_next(tsx_label_order *order, tsr_reader *reader, tsr_error *error) {
  if (order->at == order->count) return 0;
  const uint64_t *record = order->words + order->at++ * order->size + order->size - order->dimensions;
  for (uint32_t d = 0; d < order->dimensions; d++)
    order->points[d] = (tsr_range){.low = &record[d], .high = &record[d]};
  TSX_TRY(tsr_reader_start(reader, &order->request, error));
  return 1;
}
