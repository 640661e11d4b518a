/* evolve.c: the schema of an array changes: a new file in __schema, which what is written from then on follows.
 *
 * Fragments keep the schema that they were written by; an attribute that a fragment lacks reads as its fill value. The
 * new schema has the array's format version, one of 12 to 22; enumerations that grow get a file of their own, with all
 * labels, under the same name.
 *
 * Two processes may change it at once, from the same schema: the later file would hide what the other says. Among our own only
 * one of them can (evolve_publish.c), the others make their changes again on top of that one. TileDB does not ask: so each looks
 * once more when it has written, and where another has come meanwhile, makes its change again, too. Nothing is taken back: what
 * is written meanwhile may follow any of them.
 */
#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "model/datatype.h"
#include "filter/filter.h"
#include "filter/filter_pipeline.h"
#include "format/enumeration.h"
#include "format/schema_rules.h"
#include "format/schema_write.h"
#include "array/array.h"
#include "array/listing.h"
#include "array/timed_write.h"
#include "define/array_create.h"
#include "define/evolve_publish.h"

#define OLDEST          12 /* version */
#define EVOLVE_ATTEMPTS 32 /* while others change it, too */

typedef struct evolution {
  tsr_array *array;
  const tsr_schema *old; /* what it starts from */
  bool hidden; /* one of its own is newer than that */
  char newest[128]; /* whoever wrote it */
  tsr_arena arena;
  tsr_schema schema; /* to be written */
  tsr_enumeration *fresh; /* whose file is to be written, or NULL */
  uint32_t written; /* in earlier attempts */
  char names[EVOLVE_ATTEMPTS][128];
} evolution;

typedef struct evolve_change {
  int (*make)(evolution *v, const struct evolve_change *wanted, tsr_error *error); /* in v->schema */
  bool (*is_made)(const tsr_schema *schema, const struct evolve_change *wanted); /* does it say the same already? */
  const tsr_field *attribute; /* what it is about */
  const char *name;
  const tsr_enumeration *enumeration;
  const tsr_interval *domain;
} evolve_change;

static bool evolve_is_own(const evolution *v, const char *name) {
  for (uint32_t i = 0; i < v->written; i++)
    if (strcmp(v->names[i], name) == 0) return true;
  return false;
}

/* The newest schema of another. */
static int evolve_find_old(evolution *v, tsr_error *error) {
  const tsr_commit_list *list = &v->array->listing->schemas;
  uint64_t i = list->count - 1;
  while (i > 0 && evolve_is_own(v, list->items[i].name)) i--;
  v->hidden = i + 1 < list->count;
  snprintf(v->newest, sizeof v->newest, "%s", list->items[list->count - 1].name);
  return tsr__array_schema_by_name(v->array, list->items[i].name, &v->old, error);
}

static int evolve_begin(evolution *v, tsr_error *error) {
  uint32_t version;
  tsr_array *array = v->array;
  TSR_TRY(tsr__array_list(array, false, true, error));
  TSR_TRY(tsr__array_committed(array, error));
  TSR_TRY(evolve_find_old(v, error));
  TSR_TRY(tsr__schema_write_version(v->old, &version, error));
  if (v->old->version < OLDEST)
    return tsr__fail(error, TSR_UNSUPPORTED, "a schema of format version %u cannot be changed: that needs %d",
                     v->old->version, OLDEST);
  for (uint32_t i = 0; i < v->old->enumeration_count; i++) {
    const tsr_enumeration *loaded;
    TSR_TRY(tsr_array_enumeration(array, v->old, v->old->enumerations[i].name, &loaded, error));
  }
  v->schema = *v->old;
  v->fresh = NULL;
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
  int rc = tsr__enumeration_encode(e, &content, error);
  if (rc >= 0)
    rc = tsr__write_named(v->array->store, "__schema/__enumerations", e->file, tsr__array_key(v->array),
                          v->schema.version, &content, error);
  tsr__buffer_release(&content);
  return rc < 0 ? tsr__wrap(error, "enumeration '%s'", e->name) : TSR_OK;
}

/* 1; 0 where others were first. A file of an enumeration that no schema names is nothing to anybody, so a failure leaves the
 * array as it was. */
static int evolve_write_schema(evolution *v, tsr_error *error) {
  TSR_TRY(tsr__schema_check(&v->schema, &v->array->memory, error));
  if (v->fresh) TSR_TRY(write_enumeration(v, v->fresh, error));
  tsr_buffer content = {.memory = &v->array->memory};
  int rc = tsr__schema_encode(&v->schema, &content, error);
  if (rc >= 0) rc = tsr__schema_publish(v->array, v->newest, v->schema.version, &content, v->names[v->written], error);
  v->written += rc > 0;
  if (rc == 0 && v->fresh)
    (void)tsr__store_remove(v->array->store, tsr__path_of("__schema/__enumerations", v->fresh->file, "").text, NULL);
  tsr__buffer_release(&content);
  return rc;
}

/* On top of what `old` says; `base` becomes its name. */
static int write_on(evolution *v, char base[128], tsr_error *error) {
  const int rc = evolve_write_schema(v, error);
  if (rc > 0) snprintf(base, 128, "%s", v->old->name);
  return rc < 0 ? rc : 0;
}

/* 1: it is made, and nobody has come meanwhile; 0: to be tried again. */
static int evolve_attempt(evolution *v, const evolve_change *wanted, char base[128], tsr_error *error) {
  tsr_error unseen;
  TSR_TRY(evolve_begin(v, error));
  if (v->written && strcmp(base, v->old->name) == 0) return 1;
  if (!v->written || !wanted->is_made(v->old, wanted)) {
    const int rc = wanted->make(v, wanted, error);
    if (rc >= 0) return write_on(v, base, error);
    if (!v->hidden) return rc;
    v->schema = *v->old; /* it cannot be made beside the other's, which is in force again */
    v->fresh = NULL;
    (void)evolve_write_schema(v, &unseen);
    return rc;
  }
  return v->hidden ? write_on(v, base, error) : 1; /* the other has made it again with its own */
}

static int evolve(tsr_array *array, const evolve_change *wanted, tsr_error *error) {
  evolution v = {.array = array};
  char base[128] = "";
  int rc = 0;
  for (int i = 0; rc == 0 && i < EVOLVE_ATTEMPTS; i++) {
    tsr__arena_init(&v.arena, &array->memory);
    rc = evolve_attempt(&v, wanted, base, error);
    tsr__arena_release(&v.arena);
  }
  if (rc == 0) rc = tsr__fail(error, TSR_BUSY, "others change its schema all the time");
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}

/* ---- Attributes -------------------------------------------------------------------------------------------------- */

static tsr_field *attribute_of(const tsr_schema *schema, const char *name) {
  for (uint32_t i = 0; i < schema->attribute_count; i++)
    if (!strcmp(schema->fields[schema->dimension_count + i].name, name))
      return &schema->fields[schema->dimension_count + i];
  return NULL;
}

static int evolve_same_filters(const evolution *v, const tsr_field *a, const tsr_field *b, bool *same,
                               tsr_error *error) {
  tsr_buffer one = {.memory = &v->array->memory}, other = {.memory = &v->array->memory};
  int rc = tsr__pipeline_write(&a->filters, v->schema.version, &one, error);
  if (rc >= 0) rc = tsr__pipeline_write(&b->filters, v->schema.version, &other, error);
  *same = one.size == other.size && (one.size == 0 || memcmp(one.data, other.data, one.size) == 0);
  tsr__buffer_release(&one);
  tsr__buffer_release(&other);
  return rc;
}

#define STAYS                                                                                                          \
  "what was written under that name stays in the array, and TileDB would read it as the new attribute's. Give the "    \
  "attribute another name, or copy the array (tessera_copy) and add it to the copy"

static int fail_other_kind(const tsr_field *had, tsr_error *error) {
  char count[32] = "";
  if (had->values_per_cell == TSR_VARIABLE) snprintf(count, sizeof count, "[]");
  else if (had->values_per_cell != 1) snprintf(count, sizeof count, "[%u]", had->values_per_cell);
  return tsr__fail(error, TSR_CONSTRAINT, "an attribute '%s' was here before, as %s%s%s: " STAYS, had->name,
                   tsr_datatype_name(had->datatype), count, had->nullable ? "" : " NOT NULL");
}

static int fail_other_filters(const tsr_field *had, tsr_error *error) {
  char names[128] = "";
  for (uint32_t i = 0; i < had->filters.count; i++) {
    const size_t size = strlen(names);
    snprintf(names + size, sizeof names - size, "%s%s", i ? ", " : "", tsr__filter_name(had->filters.filters[i].type));
  }
  return tsr__fail(error, TSR_CONSTRAINT, "an attribute '%s' was here before, with other filters (%s): " STAYS,
                   had->name, *names ? names : "none");
}

/* Fragments keep what they have under this name. TileDB decodes it with the filters, and as the datatype, of the newest
 * schema: only an attribute with the same of both may come back. `added` is complete. */
static int check_history(const evolution *v, const tsr_field *added, tsr_error *error) {
  const tsr_commit_list *list = &v->array->listing->schemas;
  for (uint64_t i = 0; i < list->count; i++) {
    const tsr_schema *schema;
    bool same;
    TSR_TRY(tsr__array_schema_by_name(v->array, list->items[i].name, &schema, error));
    const tsr_field *had = attribute_of(schema, added->name);
    if (!had) continue;
    if (had->datatype != added->datatype || had->values_per_cell != added->values_per_cell ||
        had->nullable != added->nullable)
      return fail_other_kind(had, error);
    TSR_TRY(evolve_same_filters(v, had, added, &same, error));
    if (!same) return fail_other_filters(had, error);
  }
  return TSR_OK;
}

static int add_attribute(evolution *v, const evolve_change *wanted, tsr_error *error) {
  tsr_schema whole;
  const bool is_there = attribute_of(&v->schema, wanted->attribute->name) != NULL; /* which the check below tells */
  v->schema.fields[v->schema.dimension_count + v->schema.attribute_count++] = *wanted->attribute;
  if (wanted->enumeration) v->schema.enumerations[v->schema.enumeration_count++] = *wanted->enumeration;
  TSR_TRY(tsr__schema_complete(&v->schema, &v->arena, &whole, error));
  if (wanted->enumeration) v->fresh = &whole.enumerations[whole.enumeration_count - 1];
  v->schema = whole;
  if (!is_there) TSR_TRY(check_history(v, attribute_of(&v->schema, wanted->attribute->name), error));
  return tsr__schema_check(&v->schema, &v->array->memory, error);
}

static bool has_attribute(const tsr_schema *schema, const evolve_change *wanted) {
  const tsr_field *a = attribute_of(schema, wanted->attribute->name), *b = wanted->attribute;
  return a && a->datatype == b->datatype && a->values_per_cell == b->values_per_cell && a->nullable == b->nullable &&
         !a->enumeration == !b->enumeration && (!a->enumeration || strcmp(a->enumeration, b->enumeration) == 0);
}

int tsr_array_add_attribute(tsr_array *array, const tsr_field *attribute, const tsr_enumeration *enumeration,
                            tsr_error *error) {
  TSR_OWN_ERROR(error);
  const evolve_change wanted = {
      .make = add_attribute, .is_made = has_attribute, .attribute = attribute, .enumeration = enumeration};
  return evolve(array, &wanted, error);
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

static int drop_attribute(evolution *v, const evolve_change *wanted, tsr_error *error) {
  const char *name = wanted->name;
  tsr_field *field = attribute_of(&v->schema, name);
  for (uint32_t d = 0; !field && d < v->schema.dimension_count; d++)
    if (!strcmp(v->schema.fields[d].name, name))
      return tsr__fail(error, TSR_CONSTRAINT, "'%s' is a dimension: an array keeps its dimensions", name);
  if (!field) return tsr__fail(error, TSR_ERROR, "there is no attribute '%s'", name);
  if (v->schema.attribute_count == 1)
    return tsr__fail(error, TSR_CONSTRAINT, "'%s' is the only attribute: an array keeps one at least", name);
  const char *enumeration = field->enumeration;
  tsr_field *last = v->schema.fields + v->schema.dimension_count + --v->schema.attribute_count;
  memmove(field, field + 1, (size_t)((char *)last - (char *)field));
  if (enumeration) drop_enumeration(&v->schema, enumeration);
  return TSR_OK;
}

static bool lacks_attribute(const tsr_schema *schema, const evolve_change *wanted) {
  return !attribute_of(schema, wanted->name);
}

int tsr_array_drop_attribute(tsr_array *array, const char *name, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const evolve_change wanted = {.make = drop_attribute, .is_made = lacks_attribute, .name = name};
  return evolve(array, &wanted, error);
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

static tsr_enumeration *enumeration_of(const tsr_schema *schema, const char *name) {
  for (uint32_t i = 0; i < schema->enumeration_count; i++)
    if (strcmp(schema->enumerations[i].name, name) == 0) return &schema->enumerations[i];
  return NULL;
}

static int evolve_extend(evolution *v, const evolve_change *wanted, tsr_error *error) {
  tsr_enumeration *e = enumeration_of(&v->schema, wanted->enumeration->name);
  if (!e) return tsr__fail(error, TSR_ERROR, "there is no enumeration '%s'", wanted->enumeration->name);
  if (append_labels(v, e, wanted->enumeration, error) < 0) return tsr__wrap(error, "enumeration '%s'", e->name);
  v->fresh = e;
  return tsr__schema_check(&v->schema, &v->array->memory, error);
}

/* Labels that were appended stand one after the other. */
static bool has_labels(const tsr_schema *schema, const evolve_change *wanted) {
  const tsr_enumeration *more = wanted->enumeration, *e = enumeration_of(schema, more->name);
  for (uint64_t i = 0; e && more->count <= e->count && i <= e->count - more->count; i++) {
    bool same = e->data_size - e->offsets[i] >= more->data_size &&
                memcmp(e->data + e->offsets[i], more->data, more->data_size) == 0;
    for (uint64_t k = 0; same && k <= more->count; k++) same = more->offsets[k] == e->offsets[i + k] - e->offsets[i];
    if (same) return true;
  }
  return false;
}

int tsr_array_extend_enumeration(tsr_array *array, const tsr_enumeration *more, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const evolve_change wanted = {.make = evolve_extend, .is_made = has_labels, .enumeration = more};
  return evolve(array, &wanted, error);
}

/* ---- The current domain ------------------------------------------------------------------------------------------ */

static bool grows(const tsr_field *field, const tsr_interval *from, const tsr_interval *to) {
  if (!field->cell_size)
    return tsr__bytes_compare(to->low_text, to->low_size, from->low_text, from->low_size) <= 0 &&
           tsr__bytes_compare(to->high_text, to->high_size, from->high_text, from->high_size) >= 0;
  return tsr__key(field->datatype, to->low) <= tsr__key(field->datatype, from->low) &&
         tsr__key(field->datatype, to->high) >= tsr__key(field->datatype, from->high);
}

static int evolve_expand(evolution *v, const evolve_change *wanted, tsr_error *error) {
  if (!v->old->current_domain)
    return tsr__fail(error, TSR_CONSTRAINT, "it has no current domain: all of its domain can be written");
  for (uint32_t d = 0; d < v->schema.dimension_count; d++)
    if (!grows(&v->schema.fields[d], &v->old->current_domain[d], &wanted->domain[d]))
      return tsr__fail(error, TSR_CONSTRAINT, "dimension '%s': a current domain grows, it never shrinks",
                       v->schema.fields[d].name);
  v->schema.current_domain = (tsr_interval *)(uintptr_t)wanted->domain;
  return tsr__schema_check(&v->schema, &v->array->memory, error);
}

static bool has_domain(const tsr_schema *schema, const evolve_change *wanted) {
  for (uint32_t d = 0; d < schema->dimension_count && schema->current_domain; d++)
    if (!grows(&schema->fields[d], &wanted->domain[d], &schema->current_domain[d])) return false;
  return schema->current_domain != NULL;
}

int tsr_array_expand_domain(tsr_array *array, const tsr_interval *domain, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const evolve_change wanted = {.make = evolve_expand, .is_made = has_domain, .domain = domain};
  return evolve(array, &wanted, error);
}
