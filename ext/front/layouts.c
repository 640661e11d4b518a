/* layouts.c: what the tables of well-known layouts of groups show.
 *
 * SOMA (a group with the metadata soma_object_type): `obs` describes cells, `var` genes, both by the dimension
 * soma_joinid. The arrays X, obsm, varm, obsp and varp have these joinids as coordinates. Their dimensions get names
 * that say whose they are, and the columns of obs and var are labels of them.
 *
 * CF: a group whose variables have coordinates in arrays of their dimensions' names, as TileDB-CF and xarray write it.
 * `lat` is the latitude, a label; the dimension is called lat_index. Variables that Dataset.to_tessera has written
 * declare such labels themselves.
 *
 * VCF: a dataset of TileDB-VCF, whose member data has the metadata anchor_gap. Its records are shown by tessera_vcf.
 *
 * Sections: helpers; SOMA; CF; VCF; the choice. */
#include "front/attach.h"

#include <string.h>

#include "connection/errors.h"
#include "sql/names.h"
#include "table/table.h"

/* ---- Helpers ----------------------------------------------------------------------------------------------------- */

int tsx_layout_open(tsx_attachment *all, tsx_attach_table *table, tsr_error *error) {
  uint8_t key[32];
  bool has_key = tsx_key_find(all->connection, table->path, key);
  if (!has_key && all->has_key) {
    memcpy(key, all->key, sizeof key);
    has_key = true;
  }
  const int code = table->array ? TSR_OK
                                : tsx_array_open(all->connection, table->path, has_key ? key : NULL, TSX_CACHE_AS_IS, 0,
                                                 &table->array, error);
  tsx_wipe(key, sizeof key);
  return code;
}

/* Gives the schema that a table will have: the one at as_of or, before the first schema, the newest one. */
static int schema_of(tsx_attachment *all, tsx_attach_table *table, const tsr_schema **schema, tsr_error *error) {
  TSX_TRY(tsx_layout_open(all, table, error));
  const int code = tsr_array_schema(table->array->core, all->options->as_of, schema, error);
  return code == TSR_NOT_FOUND ? tsr_array_schema(table->array->core, TSR_TIME_NOW, schema, error) : code;
}

static bool field_is(const tsr_schema *schema, uint32_t field, const char *name) {
  return field < schema->dimension_count + schema->attribute_count && schema->fields[field].name &&
         !strcmp(schema->fields[field].name, name);
}

/* Returns true if metadata have the text `value` under a key. */
static bool metadata_are(const tsr_metadata *metadata, const char *key, const char *value) {
  for (uint64_t i = 0; i < metadata->count; i++) {
    const tsr_metadatum *entry = &metadata->entries[i];
    if (!strcmp(entry->key, key) && entry->value_size == strlen(value) &&
        !memcmp(entry->value, value, entry->value_size))
      return true;
  }
  return false;
}

/* Returns the table of a member, or NULL. */
static tsx_attach_table *find_table(const tsx_attachment *all, const char *member) {
  for (uint32_t i = 0; i < all->count; i++)
    if (!strcmp(all->tables[i].member, member) && !all->tables[i].missing) return &all->tables[i];
  return NULL;
}

/* Appends `name=value` to a list, where the value is a path or a name, in double quotes. */
static void append_pair(sqlite3_str *list, const char *name, const char *value) {
  sqlite3_str_appendf(list, "%s\"%w\"=\"%w\"", sqlite3_str_length(list) ? ", " : "", name, value);
}

/* Sets the options rename and labels of a table. Takes over both lists, which may be empty. */
static int set_options(tsx_attach_table *table, sqlite3_str *renamed, sqlite3_str *labels, const char *word,
                       tsr_error *error) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  char *names = sqlite3_str_finish(renamed), *paths = sqlite3_str_finish(labels);
  if (names) sqlite3_str_appendf(out, ", rename=%Q", names);
  if (paths) sqlite3_str_appendf(out, ", labels=%Q", paths);
  else if (word) sqlite3_str_appendf(out, ", labels=%s", word);
  const int code = sqlite3_str_errcode(out);
  table->options = sqlite3_str_finish(out);
  sqlite3_free(names);
  sqlite3_free(paths);
  return code == SQLITE_OK ? TSR_OK : tsx_out_of_memory(error);
}

/* ---- SOMA -------------------------------------------------------------------------------------------------------- */

#define SOMA_TYPE "soma_object_type"

typedef struct soma_member { /* of a measurement, or of the experiment */
  char *measurement; /* NULL: of the experiment; from sqlite3_malloc */
  const char *rest; /* its names within the measurement; borrowed from the table */
} soma_member;

/* Splits ms/MEASUREMENT/REST. A group that is a measurement has no such names around its members. */
static int soma_split(const char *member, soma_member *split, tsr_error *error) {
  *split = (soma_member){.rest = member};
  if (strncmp(member, "ms/", 3) != 0) return TSR_OK;
  const char *slash = strchr(member + 3, '/');
  if (!slash) return TSR_OK;
  split->measurement = sqlite3_mprintf("%.*s", (int)(slash - member - 3), member + 3);
  split->rest = slash + 1;
  return split->measurement ? TSR_OK : tsx_out_of_memory(error);
}

/* Returns true if all measurements of the group are one. */
static bool soma_is_alone(const tsx_attachment *all, const char *measurement) {
  const size_t size = strlen(measurement);
  for (uint32_t i = 0; i < all->count; i++) {
    const char *member = all->tables[i].member;
    if (!strncmp(member, "ms/", 3) && (strncmp(member + 3, measurement, size) != 0 || member[3 + size] != '/'))
      return false;
  }
  return true;
}

#define MEASUREMENTS_SHOWN 10

/* Refuses a measurement that the group lacks, and names those that it has. The tables are in the order of their
 * members. */
static int soma_refuse(const tsx_attachment *all, tsr_error *error) {
  sqlite3_str *names = sqlite3_str_new(NULL);
  const char *last = NULL;
  size_t last_size = 0;
  uint32_t count = 0;
  for (uint32_t i = 0; i < all->count; i++) {
    const bool inside = !strncmp(all->tables[i].member, "ms/", 3);
    const char *name = all->tables[i].member + (inside ? 3 : 0);
    const size_t size = strcspn(name, "/");
    if (!inside || (last && size == last_size && !memcmp(last, name, size)) || count++ >= MEASUREMENTS_SHOWN) continue;
    last = name;
    last_size = size;
    sqlite3_str_appendf(names, "%s%.*s", count > 1 ? ", " : "", (int)size, name);
  }
  char *text = sqlite3_str_finish(names);
  const int code = tsx_fail(error, TSR_ERROR, "%s has no measurement %s (it has %s)", all->root,
                            all->options->measurement, text ? text : "none");
  sqlite3_free(text);
  return code;
}

/* Drops the tables of other measurements than the option's. */
static int soma_choose(tsx_attachment *all, tsr_error *error) {
  const char *measurement = all->options->measurement;
  uint32_t kept = 0;
  bool found = false;
  if (!measurement) return TSR_OK;
  const size_t size = strlen(measurement);
  for (uint32_t i = 0; i < all->count && !found; i++) {
    const char *member = all->tables[i].member;
    found = !strncmp(member, "ms/", 3) && !strncmp(member + 3, measurement, size) && member[3 + size] == '/';
  }
  if (!found) return soma_refuse(all, error);
  for (uint32_t i = 0; i < all->count; i++) {
    tsx_attach_table *table = &all->tables[i];
    const bool inside = !strncmp(table->member, "ms/", 3);
    const bool own = inside && !strncmp(table->member + 3, measurement, size) && table->member[3 + size] == '/';
    if (!inside || own) {
      all->tables[kept++] = *table;
      continue;
    }
    sqlite3_free(table->member);
    sqlite3_free(table->path);
    sqlite3_free(table->problem);
    tsx_array_release(all->connection, table->array);
  }
  all->count = kept;
  return TSR_OK;
}

typedef enum soma_axis { AXIS_NONE, AXIS_OBS, AXIS_VAR, AXIS_COMPONENT } soma_axis;

/* What the first two dimensions of the arrays in each of SOMA's collections are. */
static const struct {
  const char *collection;
  soma_axis axes[2];
} soma_kinds[] = {{"X/", {AXIS_OBS, AXIS_VAR}},
                  {"obsm/", {AXIS_OBS, AXIS_COMPONENT}},
                  {"varm/", {AXIS_VAR, AXIS_COMPONENT}},
                  {"obsp/", {AXIS_OBS, AXIS_OBS}},
                  {"varp/", {AXIS_VAR, AXIS_VAR}}};

/* Returns the table whose rows an axis counts, or NULL. */
static tsx_attach_table *soma_frame(const tsx_attachment *all, soma_axis axis, const char *measurement) {
  tsx_attach_table *found = NULL;
  if (axis == AXIS_OBS) return find_table(all, "obs");
  if (axis != AXIS_VAR) return NULL;
  char *member = measurement ? sqlite3_mprintf("ms/%s/var", measurement) : sqlite3_mprintf("var");
  if (member) found = find_table(all, member);
  sqlite3_free(member);
  return found;
}

/* Adds the labels of a frame to a list: its rows are numbered by soma_joinid, which is its dimension, or an
 * attribute. */
static int soma_add_labels(tsx_attachment *all, soma_axis axis, const char *measurement, const char *name,
                           sqlite3_str *labels, tsr_error *error) {
  tsx_attach_table *frame = soma_frame(all, axis, measurement);
  const tsr_schema *schema;
  const int code = frame ? schema_of(all, frame, &schema, error) : TSR_OK;
  if (!frame || code < 0 || schema->dimension_count != 1) return code;
  bool found = false;
  for (uint32_t f = 1; f < 1 + schema->attribute_count; f++) found |= field_is(schema, f, "soma_joinid");
  if (!found && !field_is(schema, 0, "soma_joinid")) return TSR_OK;
  char *path = sqlite3_mprintf("%s%s", frame->path, found ? ".soma_joinid" : "");
  if (!path) return tsx_out_of_memory(error);
  append_pair(labels, name, path);
  sqlite3_free(path);
  return TSR_OK;
}

/* Sets the names and labels of the columns of an array of SOMA whose dimensions are these. */
static int soma_columns(tsx_attachment *all, tsx_attach_table *table, const soma_axis axes[2], const char *measurement,
                        tsr_error *error) {
  static const char *const names[] = {
      [AXIS_OBS] = "obs_joinid", [AXIS_VAR] = "var_joinid", [AXIS_COMPONENT] = "component"};
  const tsr_schema *schema;
  TSX_TRY(schema_of(all, table, &schema, error));
  if (schema->dimension_count != 2 || !field_is(schema, 0, "soma_dim_0") || !field_is(schema, 1, "soma_dim_1"))
    return TSR_OK; /* some other array */
  sqlite3_str *renamed = sqlite3_str_new(NULL), *labels = sqlite3_str_new(NULL);
  int code = TSR_OK;
  for (uint32_t d = 0; d < 2; d++) {
    const bool again = d == 1 && axes[0] == axes[1];
    char name[24];
    sqlite3_snprintf(sizeof name, name, "%s%s", names[axes[d]], again ? "_2" : "");
    append_pair(renamed, schema->fields[d].name, name);
    if (!again && code >= 0) code = soma_add_labels(all, axes[d], measurement, name, labels, error);
  }
  if (field_is(schema, 2, "soma_data")) append_pair(renamed, "soma_data", "value");
  table->semantics = "soma";
  const int set = set_options(table, renamed, labels, NULL, error);
  return code < 0 ? code : set;
}

/* Names a table without `ms` and, unless there are several measurements, without the measurement. */
static int soma_name(const tsx_attachment *all, tsx_attach_table *table, const soma_member *split, tsr_error *error) {
  const bool alone = !split->measurement || soma_is_alone(all, split->measurement);
  table->name = alone ? sqlite3_mprintf("%s", split->rest) : sqlite3_mprintf("%s/%s", split->measurement, split->rest);
  return table->name ? TSR_OK : tsx_out_of_memory(error);
}

/* Adds a table X on the only layer of X or, of several, on that called data, where SOMA keeps AnnData's X. */
static int soma_add_x(tsx_attachment *all, tsr_error *error) {
  const tsx_attach_table *only = NULL, *data = NULL;
  uint32_t layers = 0, x = 0;
  for (uint32_t i = 0; i < all->count; i++) {
    const char *name = all->tables[i].name;
    if (all->tables[i].missing) continue;
    if (!strncmp(name, "X/", 2)) {
      only = &all->tables[i];
      layers++;
    }
    if (!strcmp(name, "X/data")) data = &all->tables[i];
    x += !strcmp(name, "X");
  }
  if (data) only = data;
  else if (layers != 1) return TSR_OK;
  if (x > 0) return TSR_OK;
  const char *path = only->path;
  const uint32_t place = (uint32_t)(only - all->tables);
  int code = tsx_members_add(all, sqlite3_mprintf("%s", only->member), path, false, error);
  if (code < 0) return code;
  tsx_attach_table *table = &all->tables[all->count - 1];
  const tsx_attach_table *layer = &all->tables[place]; /* the tables have moved */
  table->semantics = layer->semantics;
  table->name = sqlite3_mprintf("X");
  table->options = layer->options ? sqlite3_mprintf("%s", layer->options) : NULL;
  return table->name && (table->options || !layer->options) ? TSR_OK : tsx_out_of_memory(error);
}

static int soma_apply_to(tsx_attachment *all, tsx_attach_table *table, const soma_member *split, tsr_error *error) {
  if (!table->missing && (!strcmp(table->member, "obs") || !strcmp(split->rest, "var"))) table->semantics = "soma";
  for (size_t k = 0; k < sizeof soma_kinds / sizeof *soma_kinds; k++) {
    const size_t size = strlen(soma_kinds[k].collection);
    if (!table->missing && !strncmp(split->rest, soma_kinds[k].collection, size) && !strchr(split->rest + size, '/'))
      TSX_TRY(soma_columns(all, table, soma_kinds[k].axes, split->measurement, error));
  }
  return soma_name(all, table, split, error);
}

static int soma_apply(tsx_attachment *all, tsr_error *error) {
  TSX_TRY(soma_choose(all, error));
  for (uint32_t i = 0; i < all->count; i++) {
    soma_member split;
    TSX_TRY(soma_split(all->tables[i].member, &split, error));
    const int code = soma_apply_to(all, &all->tables[i], &split, error);
    sqlite3_free(split.measurement);
    if (code < 0) return code;
  }
  return soma_add_x(all, error);
}

/* ---- CF ---------------------------------------------------------------------------------------------------------- */

/* Returns the array beside a table's that has the coordinates of a dimension: it has the dimension's name, one
 * dimension and one attribute. NULL if there is none. */
static tsx_attach_table *cf_coordinates(tsx_attachment *all, const tsx_attach_table *table, const char *dimension) {
  const char *slash = strrchr(table->member, '/');
  char *member = slash ? sqlite3_mprintf("%.*s/%s", (int)(slash - table->member), table->member, dimension)
                       : sqlite3_mprintf("%s", dimension);
  tsx_attach_table *found = member ? find_table(all, member) : NULL;
  const tsr_schema *schema;
  tsr_error ignored = {0};
  sqlite3_free(member);
  if (!found || schema_of(all, found, &schema, &ignored) < 0) return NULL;
  return schema->dense && schema->dimension_count == 1 && schema->attribute_count == 1 ? found : NULL;
}

/* Returns true if values of an array are packed by the convention of CF: SQL shows them as they are stored. */
static int cf_is_packed(tsx_attachment *all, tsx_attach_table *table, tsr_error *error) {
  static const char *const words[] = {"scale_factor", "add_offset", "_FillValue"};
  tsr_metadata *metadata = NULL;
  bool packed = false;
  const int code = tsr_array_metadata(table->array->core, TSR_TIME_BEGIN, all->options->as_of, &metadata, error);
  for (uint64_t i = 0; code == TSR_OK && i < metadata->count; i++)
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
      const char *key = metadata->entries[i].key;
      const size_t length = strlen(key), size = strlen(words[k]);
      packed |=
          length >= size && !strcmp(key + length - size, words[k]) && (length == size || key[length - size - 1] == '.');
    }
  tsr_metadata_close(metadata);
  return code < 0 ? code : packed;
}

/* Renames each dimension that has coordinates beside it: `lat` becomes lat_index, so that `lat` is the label. */
static int cf_columns(tsx_attachment *all, tsx_attach_table *table, tsr_error *error) {
  const tsr_schema *schema;
  int code = schema_of(all, table, &schema, error);
  if (code < 0) return code;
  if ((code = cf_is_packed(all, table, error)) < 0) return code;
  table->semantics = code ? "packed" : "cf";
  char **names = tsx_names_make(schema);
  if (!names) return tsx_out_of_memory(error);
  sqlite3_str *renamed = sqlite3_str_new(NULL);
  bool any = false;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsx_attach_table *coordinates = cf_coordinates(all, table, schema->fields[d].name);
    if (!coordinates) continue;
    any |= coordinates != table;
    char *index = sqlite3_mprintf("%s_index", names[d]);
    if (index) append_pair(renamed, names[d], index);
    sqlite3_free(index);
    if (coordinates == table) append_pair(renamed, names[1], names[d]); /* its attribute has the coordinates */
  }
  tsx_names_free(names, schema);
  return set_options(table, renamed, sqlite3_str_new(NULL), any ? "group" : NULL, error);
}

/* Notes which variables are packed among those that declare labels themselves, as Dataset.to_tessera writes them. */
static int cf_note_packed(tsx_attachment *all, tsr_error *error) {
  for (uint32_t i = 0; i < all->count; i++) {
    tsx_attach_table *table = &all->tables[i];
    const tsr_schema *schema;
    if (table->missing) continue;
    TSX_TRY(schema_of(all, table, &schema, error));
    if (schema->label_count == 0) continue;
    const int packed = cf_is_packed(all, table, error);
    if (packed < 0) return packed;
    if (packed) table->semantics = "packed";
  }
  return TSR_OK;
}

static int cf_apply(tsx_attachment *all, tsr_error *error) {
  for (uint32_t i = 0; i < all->count; i++)
    if (!all->tables[i].missing) TSX_TRY(cf_columns(all, &all->tables[i], error));
  return TSR_OK;
}

/* Returns 1 if some array has a dimension whose coordinates are beside it, else 0, or an error. */
static int cf_is(tsx_attachment *all, tsr_error *error) {
  for (uint32_t i = 0; i < all->count; i++) {
    tsx_attach_table *table = &all->tables[i];
    const tsr_schema *schema;
    if (table->missing || !*table->member) continue;
    const int code = schema_of(all, table, &schema, error);
    if (code < 0) return code;
    for (uint32_t d = 0; d < schema->dimension_count; d++) {
      const tsx_attach_table *coordinates = cf_coordinates(all, table, schema->fields[d].name);
      if (coordinates && coordinates != table) return 1;
    }
  }
  return 0;
}

/* ---- VCF --------------------------------------------------------------------------------------------------------- */

/* Returns 1 if the member data is one of TileDB-VCF, else 0, or an error. */
static int vcf_is(tsx_attachment *all, tsr_error *error) {
  tsx_attach_table *data = find_table(all, "data");
  tsr_metadata *metadata;
  int found = 0;
  if (!data) return 0;
  TSX_TRY(tsx_layout_open(all, data, error));
  TSX_TRY(tsr_array_metadata(data->array->core, TSR_TIME_BEGIN, all->options->as_of, &metadata, error));
  for (uint64_t i = 0; i < metadata->count; i++) found |= !strcmp(metadata->entries[i].key, "anchor_gap");
  tsr_metadata_close(metadata);
  return found;
}

/* Calls the positions of statistics pos0: they count from 0, those of the records from 1. */
static int vcf_rename(tsx_attachment *all, tsx_attach_table *table, tsr_error *error) {
  const tsr_schema *schema;
  const int code = schema_of(all, table, &schema, error);
  if (code < 0) return code;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    if (!field_is(schema, d, "pos")) continue;
    sqlite3_str *renamed = sqlite3_str_new(NULL);
    append_pair(renamed, "pos", "pos0");
    table->semantics = "vcf";
    return set_options(table, renamed, sqlite3_str_new(NULL), NULL, error);
  }
  return TSR_OK;
}

/* Adds the table of the headers' fields. */
static int vcf_add_fields(tsx_attachment *all, const char *path, tsr_error *error) {
  const int code = tsx_members_add(all, sqlite3_mprintf("data/vcf_fields"), path, false, error);
  if (code < 0) return code;
  tsx_attach_table *fields = &all->tables[all->count - 1];
  fields->module = "tessera_vcf_fields";
  fields->semantics = "vcf";
  fields->name = sqlite3_mprintf("vcf_fields");
  return fields->name ? TSR_OK : tsx_out_of_memory(error);
}

/* Shows the headers as the table of samples. In version 3 their array has numbers of samples: the metadata of the data
 * have the names. */
static int vcf_take_headers(tsx_attachment *all, tsx_attach_table *headers, const char *data, tsr_error *error) {
  const tsr_schema *schema;
  TSX_TRY(schema_of(all, headers, &schema, error));
  headers->semantics = "vcf";
  headers->name = sqlite3_mprintf("samples");
  if (!headers->name) return tsx_out_of_memory(error);
  if (schema->dimension_count != 1 || schema->fields[0].datatype != TSR_UINT32) return TSR_OK;
  char *path = sqlite3_mprintf("%s", data);
  if (!path) return tsx_out_of_memory(error);
  sqlite3_free(headers->path);
  headers->path = path;
  headers->module = "tessera_vcf_samples";
  return TSR_OK;
}

static int vcf_apply(tsx_attachment *all, tsr_error *error) {
  if (!find_table(all, "data"))
    return tsx_fail(error, TSR_ERROR, "%s is not a dataset of TileDB-VCF: it has no array named data", all->root);
  TSX_TRY(vcf_add_fields(all, find_table(all, "data")->path, error));
  tsx_attach_table *data = find_table(all, "data"), *headers = find_table(all, "metadata/vcf_headers");
  data->module = "tessera_vcf";
  data->semantics = "vcf";
  data->name = sqlite3_mprintf("variants");
  if (!data->name) return tsx_out_of_memory(error);
  if (headers && !headers->missing) TSX_TRY(vcf_take_headers(all, headers, data->path, error));
  for (uint32_t i = 0; i < all->count; i++)
    if (!all->tables[i].missing && !all->tables[i].module && &all->tables[i] != headers)
      TSX_TRY(vcf_rename(all, &all->tables[i], error));
  return TSR_OK;
}

/* ---- The choice -------------------------------------------------------------------------------------------------- */

/* Returns 1 if the group's metadata say that it is an experiment or a measurement of SOMA. */
static int soma_is(tsx_attachment *all, tsr_error *error) {
  tsr_group *group;
  tsr_metadata *metadata = NULL;
  TSX_TRY(tsr_group_open(all->connection->environment, all->root, all->has_key ? all->key : NULL, &group, error));
  const int code = tsr_group_metadata(group, TSR_TIME_BEGIN, all->options->as_of, &metadata, error);
  const bool found = code >= 0 && (metadata_are(metadata, SOMA_TYPE, "SOMAExperiment") ||
                                   metadata_are(metadata, SOMA_TYPE, "SOMAMeasurement"));
  tsr_metadata_close(metadata);
  tsr_group_close(group);
  return code < 0 ? code : found;
}

/* Opens all arrays: a layout is found among those that can be opened. */
static int open_all(tsx_attachment *all, tsr_error *error) {
  for (uint32_t i = 0; i < all->count; i++) {
    const tsr_schema *schema;
    tsr_error why = {0};
    if (all->tables[i].missing || schema_of(all, &all->tables[i], &schema, &why) >= 0) continue;
    const int code = tsx_members_fail(&all->tables[i], &why);
    if (code < 0) return *error = why, code;
  }
  return TSR_OK;
}

int tsx_layout_apply(tsx_attachment *all, tsr_error *error) {
  const bool alone = all->count == 1 && !*all->tables[0].member;
  all->layout = all->options->as;
  if (!alone && all->layout != TSX_LAYOUT_PLAIN) TSX_TRY(open_all(all, error));
  if (all->layout == TSX_LAYOUT_AUTO) {
    int code = alone ? 0 : soma_is(all, error);
    if (code > 0) all->layout = TSX_LAYOUT_SOMA;
    if (code == 0 && !alone && (code = vcf_is(all, error)) > 0) all->layout = TSX_LAYOUT_VCF;
    if (code == 0 && !alone && (code = cf_is(all, error)) > 0) all->layout = TSX_LAYOUT_CF;
    if (code == 0 && !alone) code = cf_note_packed(all, error);
    if (code < 0) return code;
  }
  if (all->options->measurement && all->layout != TSX_LAYOUT_SOMA)
    return tsx_fail(error, TSR_ERROR, "'measurement' is an option of SOMA: %s is not an experiment", all->root);
  if (all->layout == TSX_LAYOUT_SOMA) return soma_apply(all, error);
  if (all->layout == TSX_LAYOUT_VCF) return vcf_apply(all, error);
  return all->layout == TSX_LAYOUT_CF ? cf_apply(all, error) : TSR_OK;
}
