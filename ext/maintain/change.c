/* change.c: the functions that change metadata, schemas and groups, and tessera_drop.
 *
 * Each function changes the array or group at a path immediately, outside of SQLite's transaction (an array in the
 * database within a savepoint). SQLite does not allow calls from triggers and views. The functions fail while the open
 * transaction has rows for the array.
 *
 * Sections: opening the array or group, metadata, schemas, groups, deleting. */
#include "tessera_host.h"
#include "tessera_path.h"
#include "maintain/upkeep.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/names.h"
#include "sql/options.h"
#include "definition/define.h"
#include "values/slice.h"
#include "database/store_sqlite.h"
#include "table/table.h"
#include "call/function.h"

static const char *text_of(sqlite3_value *value) {
  const char *text = (const char *)sqlite3_value_text(value);
  return text ? text : "";
}

/* Checks that an argument is neither NULL nor a BLOB. `what` names the argument in the message. */
static int check_text(sqlite3_value *value, const char *what, tsr_error *error) {
  int type = sqlite3_value_type(value);
  if (type == SQLITE_NULL) return tsx_fail(error, TSR_MISMATCH, "%s is NULL", what);
  if (type == SQLITE_BLOB) return tsx_fail(error, TSR_MISMATCH, "%s is a BLOB: expected text", what);
  return TSR_OK;
}

/* The same for a text that is read up to its end: a name, a path, words of a definition. */
static int check_words(sqlite3_value *value, const char *what, tsr_error *error) {
  TSX_TRY(check_text(value, what, error));
  return tsx_text_whole(value, what, error);
}

/* ---- Opening the array or group ---------------------------------------------------------------------------------- */

static int open_array(sqlite3_context *context, sqlite3_value *path, tsx_address *address, tsr_error *error) {
  TSX_TRY(tsx_address_open_to_write(sqlite3_user_data(context), path, address, error));
  TSX_TRY(tsx_function_begin_at(address, path, error));
  return tsx_address_array(address, error);
}

static int open_group(sqlite3_context *context, sqlite3_value *path, tsx_target *t, tsr_error *error) {
  TSX_TRY(tsx_target_open(sqlite3_user_data(context), path, t, error));
  return t->group ? TSR_OK : tsx_fail(error, TSR_ERROR, "%s is an array, not a group", t->address.path);
}

/* ---- Metadata ---------------------------------------------------------------------------------------------------- */

/* Finds a datatype by a type name of CREATE VIRTUAL TABLE, by parsing a column definition with that type. */
static int find_datatype(const char *name, tsr_datatype *datatype, tsr_error *error) {
  tsx_definition definition = {0};
  tsx_parser parser = {.definition = &definition, .error = error};
  tsx_column_text column = {0};
  const bool is_word = !strpbrk(name, " \t\n(");
  char *text = is_word ? sqlite3_mprintf("value %s", name) : NULL;
  int code = text ? tsx_column_parse(&parser, text, true, &column) : is_word ? TSR_NOMEM : TSR_ERROR;
  if (code == TSR_NOMEM) code = tsx_out_of_memory(error);
  else if (code < 0) {
    const char *say = is_word ? strstr(error->message, ": say ") : NULL;
    const int size = say ? (int)strcspn(say, "(") - 1 : 0;
    char meant[64] = "";
    if (size > 0 && size < (int)sizeof meant) memcpy(meant, say, (size_t)size);
    code = tsx_fail(error, TSR_MISMATCH, "'%.60s' is not a datatype%s", name, meant);
  }
  *datatype = column.datatype;
  tsx_definition_release(&definition);
  sqlite3_free(text);
  return code;
}

/* Returns the datatype of metadata that is set without an explicit datatype. */
static tsr_datatype default_datatype(sqlite3_value *value) {
  switch (sqlite3_value_type(value)) {
  case SQLITE_INTEGER: return TSR_INT64;
  case SQLITE_FLOAT: return TSR_FLOAT64;
  case SQLITE_TEXT: return TSR_UTF8;
  default: return TSR_BLOB;
  }
}

/* Sets *found to 1 if the metadata has this key, else to 0. */
static int change_has_key(const tsx_target *t, const char *key, uint64_t size, int *found, tsr_error *error) {
  tsr_metadata *all;
  TSX_TRY(t->group ? tsr_group_metadata(t->group, TSR_TIME_BEGIN, TSR_TIME_NOW, &all, error)
                   : tsr_array_metadata(t->address.array->core, TSR_TIME_BEGIN, TSR_TIME_NOW, &all, error));
  *found = 0;
  for (uint64_t i = 0; i < all->count; i++)
    if (all->entries[i].key_size == size && !memcmp(all->entries[i].key, key, size)) *found = 1;
  tsr_metadata_close(all);
  return TSR_OK;
}

static int set_key(tsx_target *t, const tsr_metadatum *entry, tsr_error *error) {
  return t->group ? tsr_group_set_metadata(t->group, entry, error)
                  : tsr_array_set_metadata(t->address.array->core, entry, error);
}

/* Takes the key away, if the metadata has it. *found: 1, or 0 if there is no such key. */
static int take_key(tsx_target *t, const char *key, uint64_t size, int *found, tsr_error *error) {
  int code = change_has_key(t, key, size, found, error);
  if (code < 0 || !*found) return code;
  return t->group ? tsr_group_delete_metadata(t->group, key, size, error)
                  : tsr_array_delete_metadata(t->address.array->core, key, size, error);
}

/* Sets the key to the value, or takes it away if the value is NULL. *bytes, the value's, and *t are the caller's to
 * free and to close. */
static int change_metadata(sqlite3_context *context, int count, sqlite3_value **values, tsx_target *t, uint8_t **bytes,
                           int *taken, tsr_error *error) {
  const bool takes = sqlite3_value_type(values[2]) == SQLITE_NULL;
  tsr_datatype datatype = default_datatype(values[2]);
  TSX_TRY(check_text(values[1], "the key", error));
  if (count == 4 && sqlite3_value_type(values[3]) != SQLITE_NULL) {
    TSX_TRY(check_words(values[3], "the datatype", error));
    TSX_TRY(find_datatype(text_of(values[3]), &datatype, error));
  }
  uint64_t size = 0;
  if (!takes) TSX_TRY(tsx_bytes_convert(values[2], datatype, bytes, &size, error));
  const tsr_metadatum entry = {.key = text_of(values[1]),
                               .key_size = (uint64_t)sqlite3_value_bytes(values[1]),
                               .datatype = datatype,
                               .count = size / tsr_datatype_size(datatype),
                               .value = *bytes,
                               .value_size = size};
  TSX_TRY(tsx_target_open(sqlite3_user_data(context), values[0], t, error));
  return takes ? take_key(t, entry.key, entry.key_size, taken, error) : set_key(t, &entry, error);
}

/* tessera_set_metadata(path, key, value[, datatype]). A NULL value takes the key away: returns 1, or 0 if there is no
 * such key. */
void tsx_set_metadata(sqlite3_context *context, int count, sqlite3_value **values) {
  tsr_error error = {0};
  tsx_target t = {0};
  uint8_t *bytes = NULL;
  int taken = 0;
  const int code = change_metadata(context, count, values, &t, &bytes, &taken, &error);
  tsx_target_close(&t);
  sqlite3_free(bytes);
  if (code >= 0 && sqlite3_value_type(values[2]) == SQLITE_NULL) sqlite3_result_int(context, taken);
  tsx_function_end(context, "tessera_set_metadata", code, &error);
}

/* ---- Schemas ----------------------------------------------------------------------------------------------------- */

/* Gives the schema that a change is made to: the newest, even if its time is ahead of this machine's clock, which may
 * have been set back since. Borrowed until the array is closed. */
static int newest_schema(const tsx_address *address, const tsr_schema **schema, tsr_error *error) {
  return tsr_array_schema(address->array->core, TSR_TIME_NOW - 1, schema, error);
}

/* Checks that no column has this name yet. SQL compares column names case-insensitively. */
static int check_free_name(tsx_address *address, const char *name, tsr_error *error) {
  const tsr_schema *schema;
  int code = TSR_OK;
  TSX_TRY(newest_schema(address, &schema, error));
  char **names = tsx_names_make(schema);
  if (!names) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < schema->dimension_count + schema->attribute_count && code == TSR_OK; i++)
    if (!sqlite3_stricmp(names[i], name))
      code = tsx_fail(error, TSR_CONSTRAINT, "array %s: there is %s '%s' already", address->path,
                      schema->fields[i].is_dimension ? "a dimension" : "an attribute", names[i]);
  tsx_names_free(names, schema);
  return code;
}

/* Adds the attribute of a definition, and its CHECK constraints, which are tested before anything is written: a schema
 * stays in the array for good. */
static int add_attribute(sqlite3_context *context, sqlite3_value *path, const tsx_definition *one, tsx_address *address,
                         tsr_error *error) {
  TSX_TRY(open_array(context, path, address, error));
  TSX_TRY(check_free_name(address, one->schema.fields->name, error));
  tsr_array *array = address->array->core;
  const tsr_field *field = one->schema.fields;
  const tsr_enumeration *enumeration = one->schema.enumeration_count ? one->schema.enumerations : NULL;
  for (const tsx_check_text *check = one->checks; check; check = check->next)
    TSX_TRY(tsr_array_try_constraint(array, field, enumeration, check->name, check->text, error));
  TSX_TRY(tsr_array_add_attribute(array, field, enumeration, error));
  tsr_error ignored;
  const int code = tsx_checks_add(one, array, true, error);
  if (code < 0) (void)tsr_array_drop_attribute(array, field->name, &ignored);
  return code;
}

static int define_and_add(sqlite3_context *context, sqlite3_value **values, tsx_address *address, tsr_error *error) {
  tsx_definition definition = {0};
  TSX_TRY(check_words(values[1], "the definition", error));
  TSX_TRY(tsx_define_attribute(text_of(values[1]), &definition, error));
  const int code = add_attribute(context, values[0], &definition, address, error);
  tsx_definition_release(&definition);
  return code;
}

/* tessera_add_attribute(path, definition) */
void tsx_add_attribute(sqlite3_context *context, int count, sqlite3_value **values) {
  tsr_error error = {0};
  tsx_address address = {0};
  const int code = define_and_add(context, values, &address, &error);
  tsx_address_close(&address);
  tsx_function_end(context, "tessera_add_attribute", code, &error);
}

/* Finds the stored name of the attribute whose column in SQL is `shown`: an anonymous attribute is shown as attr0. An
 * unknown name is returned unchanged. */
static int stored_name(tsx_address *address, const char *shown, const char **name, tsr_error *error) {
  const tsr_schema *schema;
  TSX_TRY(newest_schema(address, &schema, error));
  char **names = tsx_names_make(schema);
  if (!names) return tsx_out_of_memory(error);
  *name = shown;
  for (uint32_t i = schema->dimension_count; i < schema->dimension_count + schema->attribute_count; i++)
    if (!sqlite3_stricmp(names[i], shown)) *name = schema->fields[i].name;
  tsx_names_free(names, schema);
  return TSR_OK;
}

static int drop_attribute(sqlite3_context *context, sqlite3_value **values, tsx_address *address, tsr_error *error) {
  const char *name = NULL;
  TSX_TRY(check_words(values[1], "the name", error));
  TSX_TRY(open_array(context, values[0], address, error));
  TSX_TRY(stored_name(address, text_of(values[1]), &name, error));
  return tsr_array_drop_attribute(address->array->core, name, error);
}

/* tessera_drop_attribute(path, name) */
void tsx_drop_attribute(sqlite3_context *context, int count, sqlite3_value **values) {
  tsr_error error = {0};
  tsx_address address = {0};
  const int code = drop_attribute(context, values, &address, &error);
  tsx_address_close(&address);
  tsx_function_end(context, "tessera_drop_attribute", code, &error);
}

enum { CHECK_OPTION_existing };

static const tsx_option_spec check_specs[] = {
    [CHECK_OPTION_existing] = {"existing", TSX_TAKES_WORD, 0, 0, TSX_WORDS("check", "keep")}};

/* `argument`: bool, whether existing cells are left as they are. */
static int take_check_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  (void)option; /* there is only one */
  (void)error;
  *(bool *)argument = value->whole == 1;
  return TSR_OK;
}

static int add_check(sqlite3_context *context, int count, sqlite3_value **values, tsx_address *address,
                     tsr_error *error) {
  static const tsx_option_list list = TSX_OPTION_LIST(check_specs);
  bool keep = false;
  TSX_TRY(check_words(values[1], "the name", error));
  TSX_TRY(check_words(values[2], "the condition", error));
  if (count > 3)
    TSX_TRY(tsx_options_read(sqlite3_context_db_handle(context), values[3], &list, take_check_option, &keep, error));
  TSX_TRY(open_array(context, values[0], address, error));
  return tsr_array_add_constraint(address->array->core, text_of(values[1]), text_of(values[2]), keep, error);
}

/* tessera_add_check(path, name, condition[, options]) */
void tsx_add_check(sqlite3_context *context, int count, sqlite3_value **values) {
  tsr_error error = {0};
  tsx_address address = {0};
  const int code = add_check(context, count, values, &address, &error);
  tsx_address_close(&address);
  tsx_function_end(context, "tessera_add_check", code, &error);
}

static int drop_check(sqlite3_context *context, sqlite3_value **values, tsx_address *address, tsr_error *error) {
  TSX_TRY(check_words(values[1], "the name", error));
  TSX_TRY(open_array(context, values[0], address, error));
  return tsr_array_drop_constraint(address->array->core, text_of(values[1]), error);
}

/* tessera_drop_check(path, name) */
void tsx_drop_check(sqlite3_context *context, int count, sqlite3_value **values) {
  tsr_error error = {0};
  tsx_address address = {0};
  const int code = drop_check(context, values, &address, &error);
  tsx_address_close(&address);
  tsx_function_end(context, "tessera_drop_check", code, &error);
}

static int find_enumeration(tsx_address *address, const char *name, const tsr_enumeration **found, tsr_error *error) {
  const tsr_schema *schema;
  TSX_TRY(newest_schema(address, &schema, error));
  return tsx_enumeration_find(address, schema, name, found, error);
}

/* Writes the bytes of a label to `out`, which has room for 4 bytes per byte of the value's text, and 64 more. */
static int convert_label(sqlite3_value *value, const tsr_enumeration *e, uint8_t *out, uint64_t *size,
                         tsr_error *error) {
  uint8_t *bytes;
  if (sqlite3_value_type(value) == SQLITE_NULL) return tsx_fail(error, TSR_MISMATCH, "NULL is not a label");
  TSX_TRY(tsx_bytes_convert(value, e->datatype, &bytes, size, error));
  const bool fits =
      e->values_per_label == TSR_VARIABLE || *size == e->values_per_label * tsr_datatype_size(e->datatype);
  if (fits) memcpy(out, bytes, *size);
  sqlite3_free(bytes);
  if (fits) return TSR_OK;
  return tsx_fail(error, TSR_MISMATCH, "each of its labels has %u values of %s", e->values_per_label,
                  tsr_datatype_name(e->datatype));
}

/* Appends the labels' bytes to more->data and their offsets to more->offsets, which have room. */
static int append_labels(tsr_enumeration *more, sqlite3_value **labels, tsr_error *error) {
  more->offsets[0] = 0;
  for (uint64_t i = 0; i < more->count; i++) {
    uint64_t size = 0;
    TSX_TRY(convert_label(labels[i], more, more->data + more->data_size, &size, error));
    more->data_size += size;
    more->offsets[i + 1] = more->data_size;
  }
  return TSR_OK;
}

static int change_extend(tsx_address *address, int count, sqlite3_value **labels, const char *name, tsr_error *error) {
  const tsr_enumeration *old;
  TSX_TRY(find_enumeration(address, name, &old, error));
  uint64_t room = 8;
  for (int i = 0; i < count; i++) room += 4 * (uint64_t)sqlite3_value_bytes(labels[i]) + 64;
  tsr_enumeration more = *old;
  more.count = (uint64_t)count;
  more.data_size = 0;
  more.data = sqlite3_malloc64(room);
  more.offsets = sqlite3_malloc64(((uint64_t)count + 1) * sizeof *more.offsets);
  int code = more.data && more.offsets ? append_labels(&more, labels, error) : tsx_out_of_memory(error);
  if (code >= 0) code = tsr_array_extend_enumeration(address->array->core, &more, error);
  sqlite3_free(more.data);
  sqlite3_free(more.offsets);
  return code;
}

static int extend_enumeration(sqlite3_context *context, int count, sqlite3_value **values, tsx_address *address,
                              tsr_error *error) {
  if (count < 3) return tsx_fail(error, TSR_ERROR, "expected a path, a name and at least one label");
  TSX_TRY(check_words(values[1], "the name", error));
  TSX_TRY(open_array(context, values[0], address, error));
  return change_extend(address, count - 2, values + 2, text_of(values[1]), error);
}

/* tessera_extend_enumeration(path, name, label, ...): returns the number of labels that were added. */
void tsx_extend_enumeration(sqlite3_context *context, int count, sqlite3_value **values) {
  tsr_error error = {0};
  tsx_address address = {0};
  const int code = extend_enumeration(context, count, values, &address, &error);
  tsx_address_close(&address);
  if (code >= 0) sqlite3_result_int(context, count - 2);
  tsx_function_end(context, "tessera_extend_enumeration", code, &error);
}

/* Completes the box of the new current domain: bounds that are not given stay as they are. */
static void keep_other_bounds(const tsr_schema *schema, tsx_slice *slice) {
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsx_bound *bound = &slice->bounds[d];
    tsr_interval *interval = &slice->box[d];
    const tsr_interval *now = &schema->current_domain[d];
    if (!bound->low_given) {
      memcpy(interval->low, now->low, sizeof now->low);
      interval->low_text = now->low_text;
      interval->low_size = now->low_size;
    }
    if (!bound->high_given) {
      memcpy(interval->high, now->high, sizeof now->high);
      interval->high_text = now->high_text;
      interval->high_size = now->high_size;
    }
  }
}

/* `slice` is the caller's to release. */
static int change_expand(tsx_address *address, sqlite3_value *json, tsx_slice *slice, tsr_error *error) {
  const tsr_schema *schema;
  bool any = false;
  TSX_TRY(newest_schema(address, &schema, error));
  if (!schema->current_domain)
    return tsx_fail(error, TSR_CONSTRAINT, "array %s has no current domain: all of its domain can be written",
                    address->path);
  TSX_TRY(tsx_slice_parse_as(address->connection->db, json, schema, TSX_DOMAIN, address->uint64_signed, slice, error));
  for (uint32_t d = 0; d < schema->dimension_count; d++) any |= slice->bounds[d].given;
  if (!any) return tsx_fail(error, TSR_ERROR, "the domain names no dimension: nothing would grow");
  keep_other_bounds(schema, slice);
  return tsr_array_expand_domain(address->array->core, slice->box, error);
}

static int expand_domain(sqlite3_context *context, sqlite3_value **values, tsx_address *address, tsr_error *error) {
  tsx_slice slice = {0};
  TSX_TRY(check_words(values[1], "the box", error));
  TSX_TRY(open_array(context, values[0], address, error));
  const int code = change_expand(address, values[1], &slice, error);
  tsx_slice_release(&slice);
  return code;
}

/* tessera_expand_domain(path, json) */
void tsx_expand_domain(sqlite3_context *context, int count, sqlite3_value **values) {
  tsr_error error = {0};
  tsx_address address = {0};
  const int code = expand_domain(context, values, &address, &error);
  tsx_address_close(&address);
  tsx_function_end(context, "tessera_expand_domain", code, &error);
}

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

static int refuse_table(const tsx_address *address, const char *advice, tsr_error *error) {
  if (!address->is_table) return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "'%s' is a table: %s", address->given, advice);
}

static int create_group(sqlite3_context *context, sqlite3_value *path, tsx_address *address, tsr_error *error) {
  TSX_TRY(tsx_address_open_to_write(sqlite3_user_data(context), path, address, error));
  TSX_TRY(refuse_table(address, "expected the path of a directory", error));
  TSX_TRY(tsx_place_check(address->connection, address->path, error));
  return tsr_group_create(address->connection->environment, address->path, error);
}

/* tessera_create_group(path) */
void tsx_create_group(sqlite3_context *context, int count, sqlite3_value **values) {
  tsr_error error = {0};
  tsx_address address = {0};
  const int code = create_group(context, values[0], &address, &error);
  tsx_address_close(&address);
  tsx_function_end(context, "tessera_create_group", code, &error);
}

/* Resolves a path; the caller frees the result with free(). Returns NULL if there is no such directory. A path in a
 * bucket only loses its trailing '/'. */
static char *member_resolve(const char *path) {
  const char *rest, *scheme = tsr_path_scheme(path, &rest);
  if (!scheme) return tsr_path_real(path);
  const size_t room = strlen(scheme) + strlen(rest) + 4;
  char *copy = malloc(room);
  if (copy) (void)snprintf(copy, room, "%s://%s", scheme, rest);
  for (size_t n = copy ? strlen(copy) : 0; n > 0 && copy[n - 1] == '/'; n--) copy[n - 1] = 0;
  return copy;
}

/* Makes the URI by which a group stores a member: relative if the member is below the group's directory, else absolute.
 * Symbolic links and ".." in both paths are resolved first. The caller frees *uri with sqlite3_free. */
static int member_uri(const char *group, const char *member, char **uri, bool *relative, tsr_error *error) {
  char *from = member_resolve(group), *to = member_resolve(member);
  int code = TSR_OK;
  size_t size = from ? strlen(from) : 0;
  if (!from || !to) code = tsx_fail(error, TSR_NOT_FOUND, "array or group not found: %s", from ? member : group);
  else if (!strcmp(from, to)) code = tsx_fail(error, TSR_ERROR, "a group cannot be a member of itself");
  else {
    *relative = !strncmp(from, to, size) && to[size] == '/';
    const char *scheme = *relative || tsr_path_scheme(to, NULL) ? "" : *to == '/' ? "file://" : "file:///";
    *uri = sqlite3_mprintf("%s%s", scheme, *relative ? to + size + 1 : to);
    if (!*uri) code = tsx_out_of_memory(error);
  }
  free(from);
  free(to);
  return code;
}

/* Checks that there is an array or a group at a path that a group can refer to. */
static int check_member(const tsx_address *member, tsr_object_kind *kind, tsr_error *error) {
  TSX_TRY(tsr_object_find(member->connection->environment, member->path, kind, error));
  if (*kind == TSR_OBJECT_NONE) return tsx_fail(error, TSR_NOT_FOUND, "array or group not found: %s", member->path);
  if (!tsx_store_is(member->path)) return TSR_OK;
  return tsx_fail(error, TSR_ERROR,
                  "%s is in the database, but members must be directories: tessera_sync copies it to one",
                  member->path);
}

/* `member` is the caller's to close. */
static int add_member(const tsx_target *t, sqlite3_context *context, sqlite3_value *path, const char *name,
                      tsx_address *member, tsr_error *error) {
  tsr_object_kind kind = TSR_OBJECT_NONE;
  char *uri = NULL;
  bool relative = false;
  TSX_TRY(check_words(path, "the member's path", error));
  TSX_TRY(tsx_address_open_to_write(sqlite3_user_data(context), path, member, error));
  TSX_TRY(check_member(member, &kind, error));
  TSX_TRY(member_uri(t->address.path, member->path, &uri, &relative, error));
  const int code = tsr_group_add(t->group, name, uri, relative, kind, error);
  sqlite3_free(uri);
  return code;
}

/* tessera_add_member(group, path[, name]) */
void tsx_add_member(sqlite3_context *context, int count, sqlite3_value **values) {
  tsr_error error = {0};
  tsx_target t = {0};
  tsx_address member = {0};
  const bool named = count == 3 && sqlite3_value_type(values[2]) != SQLITE_NULL;
  int code = open_group(context, values[0], &t, &error);
  if (code >= 0) code = add_member(&t, context, values[1], named ? text_of(values[2]) : NULL, &member, &error);
  tsx_address_close(&member);
  tsx_target_close(&t);
  tsx_function_end(context, "tessera_add_member", code, &error);
}

static int drop_member(sqlite3_context *context, sqlite3_value **values, tsx_target *t, tsr_error *error) {
  TSX_TRY(check_words(values[1], "the name", error));
  TSX_TRY(open_group(context, values[0], t, error));
  return tsr_group_remove(t->group, text_of(values[1]), error);
}

/* tessera_drop_member(group, name) */
void tsx_drop_member(sqlite3_context *context, int count, sqlite3_value **values) {
  tsr_error error = {0};
  tsx_target t = {0};
  const int code = drop_member(context, values, &t, &error);
  tsx_target_close(&t);
  tsx_function_end(context, "tessera_drop_member", code, &error);
}

/* ---- Deleting ---------------------------------------------------------------------------------------------------- */

int tsx_drop_overviews(tsx_address *address, tsr_error *error) {
  tsr_error ignored;
  tsr_metadata *all = NULL;
  uint64_t count;
  bool has = false;
  if (tsx_address_array(address, &ignored) < 0 ||
      tsr_array_metadata(address->array->core, TSR_TIME_BEGIN, TSR_TIME_NOW, &all, &ignored) < 0)
    return TSR_OK;
  for (uint64_t i = 0; i < all->count; i++) has = has || !strcmp(all->entries[i].key, TSX_OVERVIEWS_KEY);
  tsr_metadata_close(all);
  return has ? tsx_overviews_drop(address, &count, error) : TSR_OK;
}

#define GROUPS_DEEP 64 /* groups within groups */

typedef struct dropping { /* the call of a tessera_drop */
  tsx_connection *connection;
  bool members; /* the option */
  char **paths; /* what to drop, each from sqlite3_malloc: a group before its members */
  tsr_object_kind *kinds;
  uint64_t count, room, dropped;
} dropping;

static int add_to_drop(dropping *d, const char *path, tsr_object_kind kind, tsr_error *error) {
  if (d->count == d->room) {
    const uint64_t room = d->room ? 2 * d->room : 16;
    char **paths = sqlite3_realloc64(d->paths, room * sizeof *paths);
    if (paths) d->paths = paths;
    tsr_object_kind *kinds = paths ? sqlite3_realloc64(d->kinds, room * sizeof *kinds) : NULL;
    if (!kinds) return tsx_out_of_memory(error);
    d->kinds = kinds;
    d->room = room;
  }
  if (!(d->paths[d->count] = sqlite3_mprintf("%s", path))) return tsx_out_of_memory(error);
  d->kinds[d->count++] = kind;
  return TSR_OK;
}

static void forget_found(dropping *d) {
  while (d->count > 0) sqlite3_free(d->paths[--d->count]);
}

static int find_to_drop(dropping *d, const char *path, tsr_object_kind kind, unsigned depth, tsr_error *error);

/* Adds the members of a group that lie below its directory. Others, and those that are missing, are passed over: they
 * lose only their membership. */
static int find_members(dropping *d, const char *path, const tsr_group_members *members, unsigned depth,
                        tsr_error *error) {
  if (members->count && !d->members)
    return tsx_fail(error, TSR_ERROR, "group %s has members (%llu): the option \"members\":true drops them, too", path,
                    (unsigned long long)members->count);
  int code = TSR_OK;
  for (uint64_t i = 0; code >= 0 && i < members->count; i++) {
    const tsr_group_member *member = &members->members[i];
    if (member->kind == TSR_OBJECT_NONE) continue;
    code = tsr_path_lies_below(d->connection->environment, member->path, path, error);
    if (code > 0) code = find_to_drop(d, member->path, member->kind, depth + 1, error);
  }
  return code < 0 ? code : TSR_OK;
}

/* Adds what is at a path, and what goes with it. Checks that each can be dropped, so that an error comes before
 * anything is lost. */
static int find_to_drop(dropping *d, const char *path, tsr_object_kind kind, unsigned depth, tsr_error *error) {
  tsr_group *group;
  tsr_group_members *members;
  uint8_t key[32];
  if (depth > GROUPS_DEEP) return tsx_fail(error, TSR_TOOBIG, "group %s is nested in %d others", path, GROUPS_DEEP);
  if (tsx_transaction_open_on(d->connection, path))
    return tsx_fail(error, TSR_ERROR, "the transaction has rows for %s: commit first", path);
  int code = add_to_drop(d, path, kind, error);
  if (code < 0 || kind != TSR_OBJECT_GROUP) return code;
  const bool has_key = tsx_key_find(d->connection, path, key);
  code = tsr_group_open(d->connection->environment, path, has_key ? key : NULL, &group, error);
  tsx_wipe(key, sizeof key);
  if (code < 0) return code;
  code = tsr_group_members_open(group, TSR_TIME_BEGIN, TSR_TIME_NOW, &members, error);
  if (code >= 0) {
    code = find_members(d, path, members, depth, error);
    tsr_group_members_close(members);
  }
  tsr_group_close(group);
  return code;
}

static int drop_overviews_of(tsx_address *address, const char *path, tsr_error *error) {
  TSX_TRY(tsx_deferred_publish_path(address->connection, path, error));
  address->path = sqlite3_mprintf("%s", path);
  address->given = sqlite3_mprintf("%s", path);
  if (!address->path || !address->given) return tsx_out_of_memory(error);
  address->has_key = tsx_key_find(address->connection, path, address->key);
  return tsx_drop_overviews(address, error);
}

static int drop_array(tsx_connection *connection, const char *path, tsr_error *error) {
  tsx_address address = {.connection = connection, .since = TSR_TIME_BEGIN, .as_of = TSR_TIME_NOW};
  const int code = drop_overviews_of(&address, path, error);
  tsx_address_close(&address);
  if (code < 0) return code;
  tsx_path_close(connection, path);
  return tsr_array_drop(connection->environment, path, error);
}

/* Drops the members before their group, so that an interrupted call can be repeated. */
static int drop_all(dropping *d, tsr_error *error) {
  int code = TSR_OK;
  for (uint64_t i = d->count; code >= 0 && i-- > 0;) {
    code = d->kinds[i] == TSR_OBJECT_GROUP ? tsr_group_drop(d->connection->environment, d->paths[i], error)
                                           : drop_array(d->connection, d->paths[i], error);
    if (code >= 0) d->dropped++;
    else if (code == TSR_NOT_FOUND && i > 0) code = TSR_OK; /* two groups have it, or another process drops it, too */
  }
  return code;
}

/* Drops an array without looking first, since a request to a bucket costs: only what is no array may be a group. */
static int drop_at(dropping *d, const char *path, tsr_error *error) {
  tsr_object_kind kind;
  tsr_error ignored;
  int code = find_to_drop(d, path, TSR_OBJECT_ARRAY, 0, error);
  if (code >= 0) code = drop_all(d, error);
  if (code != TSR_NOT_FOUND || tsr_object_find(d->connection->environment, path, &kind, &ignored) < 0) return code;
  if (kind != TSR_OBJECT_GROUP) { /* perhaps the drop of a group was interrupted */
    if (tsr_group_drop(d->connection->environment, path, &ignored) < 0) return code;
    d->dropped++;
    return TSR_OK;
  }
  forget_found(d);
  TSX_TRY(find_to_drop(d, path, kind, 0, error));
  return drop_all(d, error);
}

static int take_drop_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  (void)option; /* there is only one */
  (void)error;
  ((dropping *)argument)->members = value->whole;
  return TSR_OK;
}

static int drop_what_is_at(dropping *d, int count, sqlite3_value **values, tsx_address *address, tsr_error *error) {
  static const tsx_option_spec specs[] = {{"members", TSX_TAKES_FLAG, 0, 0, NULL}};
  static const tsx_option_list list = TSX_OPTION_LIST(specs);
  TSX_TRY(tsx_address_open(d->connection, values[0], NULL, NULL, NULL, address, error));
  TSX_TRY(refuse_table(address, "DROP TABLE drops it; for an array in a directory expected its path", error));
  if (count > 1) TSX_TRY(tsx_options_read(d->connection->db, values[1], &list, take_drop_option, d, error));
  return drop_at(d, address->path, error);
}

/* tessera_drop(path[, options]): returns the number of arrays and groups that were dropped. */
void tsx_drop(sqlite3_context *context, int count, sqlite3_value **values) {
  dropping d = {.connection = sqlite3_user_data(context)};
  tsr_error error = {0};
  tsx_address address = {0};
  tsx_connection_add_table(d.connection); /* cancellation works only while a table is counted */
  const int code = drop_what_is_at(&d, count, values, &address, &error);
  if (code >= 0) sqlite3_result_int64(context, (sqlite3_int64)d.dropped);
  forget_found(&d);
  sqlite3_free(d.paths);
  sqlite3_free(d.kinds);
  tsx_address_close(&address);
  tsx_connection_remove_table(d.connection);
  tsx_function_end(context, "tessera_drop", code, &error);
}
