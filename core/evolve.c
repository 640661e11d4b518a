/* evolve.c: the schema of an array changes: a new file in __schema, which what is written from then on follows.
 *
 * Fragments keep the schema that they were written by; an attribute that a fragment lacks reads as its fill value. The
 * new schema has the array's format version, one of 12 to 22; enumerations that grow get a file of their own, with all
 * labels, under the same name.
 */
#include <stdio.h>

#include "array.h"

#define OLDEST 12 /* version */

typedef struct evolution {
  tsr_array *array;
  const tsr_schema *old;
  tsr_arena arena;
  tsr_schema schema; /* to be written */
} evolution;

static int begin(evolution *v, tsr_array *array, tsr_error *error) {
  uint32_t version;
  *v = (evolution){.array = array};
  tsr__arena_init(&v->arena, &array->memory);
  TSR_TRY(tsr__array_list(array, false, true, error));
  TSR_TRY(tsr__array_committed(array, error));
  TSR_TRY(tsr__array_schema_at(array, UINT64_MAX, &v->old, error));
  TSR_TRY(tsr__schema_write_version(v->old, &version, error));
  if (v->old->version < OLDEST)
    return tsr__fail(error, TSR_UNSUPPORTED, "a schema of format version %u cannot be changed: that needs %d",
                     v->old->version, OLDEST);
  for (uint32_t i = 0; i < v->old->enumeration_count; i++) {
    const tsr_enumeration *loaded;
    TSR_TRY(tsr_array_enumeration(array, v->old, v->old->enumerations[i].name, &loaded, error));
  }
  v->schema = *v->old;
  void *room;
  uint64_t fields = (uint64_t)v->old->dimension_count + v->old->attribute_count;
  TSR_TRY(tsr__arena_array(&v->arena, fields + 1, sizeof(tsr_field), &room, error)); /* one may be added */
  memcpy(room, v->old->fields, fields * sizeof(tsr_field));
  v->schema.fields = room;
  TSR_TRY(tsr__arena_array(&v->arena, (uint64_t)v->old->enumeration_count + 1, sizeof(tsr_enumeration), &room, error));
  if (v->old->enumeration_count)
    memcpy(room, v->old->enumerations, v->old->enumeration_count * sizeof(tsr_enumeration));
  v->schema.enumerations = room;
  return TSR_OK;
}

/* Files of enumerations: "__UUID_0", in the directory of the schemas. */
static int write_enumeration(evolution *v, tsr_enumeration *e, tsr_error *error) {
  uint8_t random[16];
  tsr_name parts;
  void *room;
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(0, 0, 0, &parts, random));
  TSR_TRY(tsr__arena_alloc(&v->arena, 64, &room, error));
  e->file = room;
  snprintf(e->file, 64, "__%s_0", parts.uuid);
  tsr_buffer content = {.memory = &v->array->memory};
  int code = tsr__enumeration_encode(e, &content, error);
  if (code >= 0)
    code = tsr__write_named(v->array->store, "__schema/__enumerations", e->file, tsr__array_key(v->array),
                            v->schema.version, &content, error);
  tsr__buffer_release(&content);
  return code < 0 ? tsr__wrap(error, "enumeration '%s'", e->name) : TSR_OK;
}

/* `fresh`: the enumeration whose file is to be written, or NULL. A file of an enumeration that no schema names is
 * nothing to anybody, so a failure leaves the array as it was. */
static int write_schema(evolution *v, tsr_enumeration *fresh, tsr_error *error) {
  TSR_TRY(tsr__schema_check(&v->schema, &v->array->memory, error));
  if (fresh) TSR_TRY(write_enumeration(v, fresh, error));
  tsr_buffer content = {.memory = &v->array->memory};
  uint64_t last = v->old->time;
  int code = tsr__schema_encode(&v->schema, &content, error);
  if (code >= 0)
    code = tsr__write_timed(v->array->environment, v->array->store, "__schema", last, 0, tsr__array_key(v->array),
                            v->schema.version, &content, error);
  tsr__buffer_release(&content);
  return code;
}

static int end(evolution *v, int code, tsr_error *error) {
  tsr__arena_release(&v->arena);
  return code < 0 ? tsr__wrap(error, "array %s", v->array->path) : TSR_OK;
}

/* ---- Attributes -------------------------------------------------------------------------------------------------- */

static tsr_field *attribute_of(tsr_schema *schema, const char *name) {
  for (uint32_t i = 0; i < schema->attribute_count; i++)
    if (!strcmp(schema->fields[schema->dimension_count + i].name, name))
      return &schema->fields[schema->dimension_count + i];
  return NULL;
}

static int add_attribute(evolution *v, const tsr_field *attribute, const tsr_enumeration *enumeration,
                         tsr_error *error) {
  tsr_schema whole;
  tsr_enumeration *fresh = NULL;
  v->schema.fields[v->schema.dimension_count + v->schema.attribute_count++] = *attribute;
  if (enumeration) {
    fresh = &v->schema.enumerations[v->schema.enumeration_count++];
    *fresh = *enumeration;
  }
  TSR_TRY(tsr__schema_complete(&v->schema, &v->arena, &whole, error));
  if (fresh) fresh = &whole.enumerations[whole.enumeration_count - 1];
  v->schema = whole;
  return write_schema(v, fresh, error);
}

int tsr_array_add_attribute(tsr_array *array, const tsr_field *attribute, const tsr_enumeration *enumeration,
                            tsr_error *error) {
  tsr_error unseen;
  if (!error) error = &unseen;
  evolution v;
  int code = begin(&v, array, error);
  if (code >= 0) code = add_attribute(&v, attribute, enumeration, error);
  return end(&v, code, error);
}

/* Takes an enumeration out that no attribute has any more. */
static void drop_enumeration(tsr_schema *schema, const char *name) {
  for (uint32_t i = 0; i < schema->attribute_count; i++) {
    const char *used = schema->fields[schema->dimension_count + i].enumeration;
    if (used && !strcmp(used, name)) return;
  }
  for (uint32_t i = 0; i < schema->enumeration_count; i++) {
    if (strcmp(schema->enumerations[i].name, name) != 0) continue;
    schema->enumeration_count--;
    memmove(schema->enumerations + i, schema->enumerations + i + 1,
            (schema->enumeration_count - i) * sizeof(tsr_enumeration));
    return;
  }
}

static int drop_attribute(evolution *v, const char *name, tsr_error *error) {
  tsr_field *field = attribute_of(&v->schema, name);
  for (uint32_t d = 0; !field && d < v->schema.dimension_count; d++)
    if (!strcmp(v->schema.fields[d].name, name))
      return tsr__fail(error, TSR_CONSTRAINT, "'%s' is a dimension: an array keeps its dimensions", name);
  if (!field) return tsr__fail(error, TSR_NOT_FOUND, "there is no attribute '%s'", name);
  if (v->schema.attribute_count == 1)
    return tsr__fail(error, TSR_CONSTRAINT, "'%s' is the only attribute: an array keeps one at least", name);
  const char *enumeration = field->enumeration;
  tsr_field *last = v->schema.fields + v->schema.dimension_count + --v->schema.attribute_count;
  memmove(field, field + 1, (size_t)((char *)last - (char *)field));
  if (enumeration) drop_enumeration(&v->schema, enumeration);
  return write_schema(v, NULL, error);
}

int tsr_array_drop_attribute(tsr_array *array, const char *name, tsr_error *error) {
  tsr_error unseen;
  if (!error) error = &unseen;
  evolution v;
  int code = begin(&v, array, error);
  if (code >= 0) code = drop_attribute(&v, name, error);
  return end(&v, code, error);
}

/* ---- Enumerations ------------------------------------------------------------------------------------------------ */

static int append_labels(evolution *v, tsr_enumeration *e, const tsr_enumeration *more, tsr_error *error) {
  uint64_t size, count;
  void *data, *offsets;
  if (more->datatype != e->datatype || more->values_per_label != e->values_per_label)
    return tsr__fail(error, TSR_MISMATCH, "its labels are %s", tsr_datatype_name(e->datatype));
  if (!tsr__add(e->data_size, more->data_size, &size) || !tsr__add(e->count, more->count, &count))
    return tsr__fail(error, TSR_RANGE, "too many labels");
  TSR_TRY(tsr__arena_alloc(&v->arena, size, &data, error));
  TSR_TRY(tsr__arena_array(&v->arena, count + 1, 8, &offsets, error));
  if (e->data_size) memcpy(data, e->data, e->data_size);
  if (more->data_size) memcpy((uint8_t *)data + e->data_size, more->data, more->data_size);
  uint64_t *to = offsets;
  if (e->count) memcpy(to, e->offsets, e->count * 8);
  for (uint64_t i = 0; i <= more->count; i++) to[e->count + i] = e->data_size + more->offsets[i];
  e->data = data;
  e->data_size = size;
  e->offsets = offsets;
  e->count = count;
  return TSR_OK;
}

static int extend(evolution *v, const tsr_enumeration *more, tsr_error *error) {
  for (uint32_t i = 0; i < v->schema.enumeration_count; i++) {
    tsr_enumeration *e = &v->schema.enumerations[i];
    if (strcmp(e->name, more->name) != 0) continue;
    int code = append_labels(v, e, more, error);
    return code < 0 ? tsr__wrap(error, "enumeration '%s'", e->name) : write_schema(v, e, error);
  }
  return tsr__fail(error, TSR_NOT_FOUND, "there is no enumeration '%s'", more->name);
}

int tsr_array_extend_enumeration(tsr_array *array, const tsr_enumeration *more, tsr_error *error) {
  tsr_error unseen;
  if (!error) error = &unseen;
  evolution v;
  int code = begin(&v, array, error);
  if (code >= 0) code = extend(&v, more, error);
  return end(&v, code, error);
}

/* ---- The current domain ------------------------------------------------------------------------------------------ */

static bool grows(const tsr_field *field, const tsr_interval *from, const tsr_interval *to) {
  if (!field->cell_size)
    return tsr__bytes_compare(to->low_text, to->low_size, from->low_text, from->low_size) <= 0 &&
           tsr__bytes_compare(to->high_text, to->high_size, from->high_text, from->high_size) >= 0;
  return tsr__key(field->datatype, to->low) <= tsr__key(field->datatype, from->low) &&
         tsr__key(field->datatype, to->high) >= tsr__key(field->datatype, from->high);
}

static int expand(evolution *v, const tsr_interval *domain, tsr_error *error) {
  if (!v->old->current_domain)
    return tsr__fail(error, TSR_CONSTRAINT, "it has no current domain: all of its domain can be written");
  for (uint32_t d = 0; d < v->schema.dimension_count; d++)
    if (!grows(&v->schema.fields[d], &v->old->current_domain[d], &domain[d]))
      return tsr__fail(error, TSR_CONSTRAINT, "dimension '%s': a current domain grows, it never shrinks",
                       v->schema.fields[d].name);
  v->schema.current_domain = (tsr_interval *)(uintptr_t)domain;
  return write_schema(v, NULL, error);
}

int tsr_array_expand_domain(tsr_array *array, const tsr_interval *domain, tsr_error *error) {
  tsr_error unseen;
  if (!error) error = &unseen;
  evolution v;
  int code = begin(&v, array, error);
  if (code >= 0) code = expand(&v, domain, error);
  return end(&v, code, error);
}
