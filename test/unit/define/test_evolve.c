/* test_evolve.c: schemas change from format version 12 on, also when two processes change one at the same time;
 * metadata is refused where there is none; a drop that was cut off is finished by the next. */

#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "model/name.h"
#include "array/array.h"
#include "environment/environment.h"
#include "disk_test.h"

static tsr_enumeration labels = LABELS("e", TSR_ASCII, "onetwo", 0, 3, 6);

/* Prepares an array with a dimension x from 1 to 100 and an attribute a. In version 22 the current domain ends at
 * 10. */
static tsr_creation *prepare(uint32_t version) {
  static tsr_field fields[2];
  static tsr_interval now;
  const int32_t low = 1, present = 10;
  fields[0] = int32_dimension("x", low, 100, 0);
  memcpy(now.low, &low, 4);
  memcpy(now.high, &present, 4);
  fields[1] = (tsr_field){.name = "a", .datatype = TSR_UINT8, .values_per_cell = 1};
  tsr_schema schema = {
      .version = version, .capacity = 10, .dimension_count = 1, .attribute_count = 1, .fields = fields};
  if (version >= 22) schema.current_domain = &now;
  const tsr_create_options options = {.unsynced = true};
  tsr_creation *creation = NULL;
  new_path();
  ok(tsr_creation_prepare(environment, path, &schema, &options, &creation, &error));
  return creation;
}

static tsr_array *make(uint32_t version) {
  tsr_array *array = NULL;
  tsr_creation *creation = prepare(version);
  ok(tsr_creation_publish(creation, &error));
  tsr_creation_close(creation);
  ok(tsr_array_open(environment, path, NULL, &array, &error));
  return array;
}

static void drop(tsr_array *array) {
  tsr_array_close(array);
  ok(tsr_array_drop(environment, path, &error));
  refused(tsr_array_drop(environment, path, &error), TSR_NOT_FOUND, "no such directory");
}

static const tsr_schema *now_of(tsr_array *array) {
  const tsr_schema *schema = NULL;
  ok(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error));
  return schema;
}

static const tsr_field more = {.name = "b", .datatype = TSR_INT16, .values_per_cell = 1};

static void test_attributes_are_added_and_dropped(void **state) {
  static const uint32_t versions[] = {12, 16, 20, 22};
  for (int v = 0; v < 4; v++) {
    tsr_array *array = make(versions[v]);
    const tsr_schema *before = now_of(array);
    refused(tsr_array_drop_attribute(array, "a", &error), TSR_CONSTRAINT, "only attribute");
    ok(tsr_array_add_attribute(array, &more, NULL, &error));
    refused(tsr_array_add_attribute(array, &more, NULL, &error), TSR_CONSTRAINT, "'b'");
    ok(tsr_array_drop_attribute(array, "a", &error));
    refused(tsr_array_drop_attribute(array, "a", &error), TSR_ERROR, "no attribute 'a'");
    const tsr_schema *after = now_of(array), *old = NULL;
    assert_int_equal(after->version, versions[v]);
    assert_int_equal(after->attribute_count, 1);
    assert_string_equal(after->fields[1].name, "b");
    assert_true(after->time > before->time);
    ok(tsr_array_schema(array, before->time, &old, &error));
    assert_ptr_equal(old, before);
    drop(array);
  }
}

/* An attribute can be added again under a name that was used before only with the same type and the same filters. */
static void test_attribute_returns_only_with_same_type_and_filters(void **state) {
  tsr_array *array = make(22);
  tsr_field other = more;
  ok(tsr_array_add_attribute(array, &more, NULL, &error));
  ok(tsr_array_drop_attribute(array, "b", &error));
  other.datatype = TSR_INT32;
  refused(tsr_array_add_attribute(array, &other, NULL, &error), TSR_CONSTRAINT,
          "'b' was here before, as INT16 NOT NULL");
  other = more;
  other.nullable = true;
  refused(tsr_array_add_attribute(array, &other, NULL, &error), TSR_CONSTRAINT, "here before");
  other = more;
  other.values_per_cell = 2;
  refused(tsr_array_add_attribute(array, &other, NULL, &error), TSR_CONSTRAINT, "Give the attribute another name");
  tsr_filter filters[] = {{.type = TSR_FILTER_BYTESHUFFLE}, {.type = TSR_FILTER_ZSTD, .level = 3}};
  other = more;
  other.filters = (tsr_pipeline){.count = 2, .filters = filters};
  refused(tsr_array_add_attribute(array, &other, NULL, &error), TSR_CONSTRAINT,
          "'b' was here before, with other filters (");
  other = more;
  other.filters.max_chunk_size = 1000;
  refused(tsr_array_add_attribute(array, &other, NULL, &error), TSR_CONSTRAINT, "other filters");
  ok(tsr_array_add_attribute(array, &more, NULL, &error));
  drop(array);
}

static void test_enumerations_grow(void **state) {
  tsr_array *array = make(22);
  const tsr_enumeration *all = NULL;
  tsr_field field = {.name = "c", .datatype = TSR_UINT8, .values_per_cell = 1, .enumeration = "e"};
  refused(tsr_array_add_attribute(array, &field, NULL, &error), TSR_CONSTRAINT, "no enumeration 'e'");
  ok(tsr_array_add_attribute(array, &field, &labels, &error));
  refused(tsr_array_extend_enumeration(array, &labels, &error), TSR_CONSTRAINT, "same");
  const tsr_enumeration three = LABELS("e", TSR_ASCII, "three", 0, 5);
  tsr_enumeration other = three;
  other.datatype = TSR_INT32;
  refused(tsr_array_extend_enumeration(array, &other, &error), TSR_MISMATCH, "ASCII");
  other = three;
  other.name = "f";
  refused(tsr_array_extend_enumeration(array, &other, &error), TSR_ERROR, "no enumeration 'f'");
  const tsr_schema *before = now_of(array);
  ok(tsr_array_extend_enumeration(array, &three, &error));
  ok(tsr_array_enumeration(array, now_of(array), "e", &all, &error));
  assert_int_equal(all->count, 3);
  assert_memory_equal(all->data, "onetwothree", 11);
  ok(tsr_array_enumeration(array, before, "e", &all, &error));
  assert_int_equal(all->count, 2);
  ok(tsr_array_drop_attribute(array, "c", &error));
  assert_int_equal(now_of(array)->enumeration_count, 0);
  drop(array);
}

static void test_current_domain_only_grows(void **state) {
  tsr_array *array = make(22);
  tsr_interval box = *now_of(array)->current_domain;
  box.high[0] = 9;
  refused(tsr_array_expand_domain(array, &box, &error), TSR_CONSTRAINT, "never shrinks");
  box.high[0] = 101;
  assert_int_equal(tsr_array_expand_domain(array, &box, &error), TSR_RANGE);
  box.high[0] = 20;
  ok(tsr_array_expand_domain(array, &box, &error));
  assert_int_equal(now_of(array)->current_domain->high[0], 20);
  drop(array);
  array = make(21);
  refused(tsr_array_expand_domain(array, &box, &error), TSR_CONSTRAINT, "no current domain");
  drop(array);
}

/* ---- Two at once ----------------------------------------------------------------------------- */

static const tsr_store_methods *plain;
static void (*other_change)(tsr_array *array); /* what another process does at the moment `moment` */
static unsigned repeats; /* how many times it still does so */
static enum {
  AT_THE_CLAIM, /* just before this process creates its claim */
  AT_THE_SCHEMA, /* just before this process renames its schema: it has a claim */
  WITHOUT_CLAIMS /* the same, but the other process ignores claims, as TileDB does */
} moment;

/* Removes all files of the root that begin with a dot, except `but`. */
static void remove_claims(tsr_store *s, const char *but) {
  tsr_listing entries = {0};
  ok(tsr__store_list(s, "", &entries, &error));
  for (uint64_t i = 0; i < entries.count; i++)
    if (entries.entries[i].name[0] == '.' && strcmp(entries.entries[i].name, but) != 0)
      ok(tsr__store_remove(s, entries.entries[i].name, &error));
  tsr__listing_release(&entries);
}

static bool slow_clock; /* the other process's schemas get names that sort before this process's next one */

/* Renames the schemas that `before` lacks: they get the time of the newest one in `before`, and sort after it. */
static void backdate(tsr_store *s, const tsr_listing *before) {
  tsr_listing after = {0};
  tsr_name newest = {0}, parsed;
  unsigned moved = 0;
  ok(tsr__store_list(s, TSR_DIR_SCHEMA, &after, &error));
  for (uint64_t i = 0; i < before->count; i++)
    if (tsr__name_parse(before->entries[i].name, strlen(before->entries[i].name), &parsed) && parsed.end >= newest.end)
      newest = parsed;
  for (uint64_t i = 0; i < after.count; i++) {
    char to[160];
    const char *name = after.entries[i].name;
    if (tsr__listing_has(before, name) || !tsr__name_parse(name, strlen(name), &parsed)) continue;
    snprintf(to, sizeof to, TSR_DIR_SCHEMA "/__%llu_%llu_%s%02u", (unsigned long long)newest.end,
             (unsigned long long)newest.end, "ffffffffffffffffffffffffffffff", moved++);
    ok(plain->rename_exclusive(s, tsr__path_of(TSR_DIR_SCHEMA, name, "").text, to, &error));
  }
  tsr__listing_release(&after);
}

static int late_rename(tsr_store *s, const char *from, const char *to, tsr_error *e) {
  const bool schema = strncmp(to, "__schema/__", 11) == 0 && !strstr(to, "__enumerations");
  if (repeats && (moment == AT_THE_CLAIM ? !strchr(to, '/') : schema)) {
    tsr_array *array = NULL;
    tsr_listing before = {0};
    repeats--;
    if (moment == WITHOUT_CLAIMS) remove_claims(s, from);
    ok(tsr__store_list(s, TSR_DIR_SCHEMA, &before, &error));
    ok(tsr_array_open(environment, path, NULL, &array, &error));
    other_change(array);
    tsr_array_close(array);
    if (slow_clock) backdate(s, &before);
    tsr__listing_release(&before);
  }
  return plain->rename_exclusive(s, from, to, e);
}

static void beside(tsr_array *array, unsigned times, void (*act)(tsr_array *array)) {
  static tsr_store_methods methods;
  if (array->store->methods != &methods) plain = array->store->methods;
  methods = *plain;
  methods.rename_exclusive = late_rename;
  array->store->methods = &methods;
  other_change = act;
  repeats = times;
}

static void add_one(tsr_array *array, const char *name, tsr_datatype datatype) {
  const tsr_field field = {.name = (char *)(uintptr_t)name, .datatype = datatype, .values_per_cell = 1};
  ok(tsr_array_add_attribute(array, &field, NULL, &error));
}
static void add_others(tsr_array *array) {
  char name[2] = {(char)('p' + repeats), 0};
  add_one(array, name, TSR_INT8);
}
static void add_same(tsr_array *array) { add_one(array, "b", TSR_INT16); }
static void add_unlike(tsr_array *array) { add_one(array, "b", TSR_FLOAT32); }
static void add_same_and_more(tsr_array *array) {
  add_one(array, "p", TSR_INT8);
  add_one(array, "b", TSR_INT16);
}
static void drop_a(tsr_array *array) { ok(tsr_array_drop_attribute(array, "a", &error)); }
static void expand_more(tsr_array *array) {
  tsr_interval box = *now_of(array)->current_domain;
  box.high[0] = 30;
  ok(tsr_array_expand_domain(array, &box, &error));
}
static void add_label(tsr_array *array) {
  const tsr_enumeration one = LABELS("e", TSR_ASCII, "four", 0, 4);
  ok(tsr_array_extend_enumeration(array, &one, &error));
}

/* Returns the names of the attributes of the schema in force, as another handle sees them. */
static const char *attributes(void) {
  static char text[200];
  tsr_array *array = NULL;
  int size = 0;
  ok(tsr_array_open(environment, path, NULL, &array, &error));
  const tsr_schema *schema = now_of(array);
  *text = 0;
  for (uint32_t i = 0; i < schema->attribute_count; i++)
    size += snprintf(text + size, sizeof text - (size_t)size, "%s ", schema->fields[1 + i].name);
  tsr_array_close(array);
  return text;
}

static void two_at_once(void) {
  tsr_array *array = make(22);
  beside(array, 1, add_others);
  ok(tsr_array_add_attribute(array, &more, NULL, &error));
  assert_string_equal(attributes(), "a p b ");
  beside(array, 1, drop_a);
  ok(tsr_array_drop_attribute(array, "p", &error));
  assert_string_equal(attributes(), "b ");
  drop(array);

  array = make(22);
  beside(array, 3, add_others); /* the other process comes before each attempt */
  ok(tsr_array_add_attribute(array, &more, NULL, &error));
  assert_string_equal(attributes(), "a r q p b ");
  drop(array);

  array = make(22);
  /* Before the claim, the second attribute b is an error. After it, both processes have added the same b. */
  beside(array, 1, add_same);
  if (moment == AT_THE_CLAIM) refused(tsr_array_add_attribute(array, &more, NULL, &error), TSR_CONSTRAINT, "'b'");
  else ok(tsr_array_add_attribute(array, &more, NULL, &error));
  assert_string_equal(attributes(), "a b ");
  drop(array);

  array = make(22);
  beside(array, 1, add_unlike); /* the other process's attribute stays */
  refused(tsr_array_add_attribute(array, &more, NULL, &error), TSR_CONSTRAINT, "'b'");
  assert_string_equal(attributes(), "a b ");
  assert_int_equal(now_of(array)->fields[2].datatype, TSR_FLOAT32);
  drop(array);
}

static void test_concurrent_attributes_hide_nothing(void **state) {
  moment = AT_THE_CLAIM;
  two_at_once();
  moment = WITHOUT_CLAIMS;
  two_at_once();
}

/* The other process ignores claims, and its schema sorts before the one that this process has just written, so nobody
 * sees it until this process has written both changes into a schema of its own. */
static void test_schemas_between_two_attempts_stay_in_force(void **state) {
  moment = WITHOUT_CLAIMS;
  slow_clock = true;
  tsr_array *array = make(22);
  beside(array, 1, add_others);
  ok(tsr_array_add_attribute(array, &more, NULL, &error));
  assert_string_equal(attributes(), "a p b ");
  drop(array);

  array = make(22);
  beside(array, 1, add_same_and_more); /* it has made this change, too, and another one */
  ok(tsr_array_add_attribute(array, &more, NULL, &error));
  assert_string_equal(attributes(), "a p b ");
  drop(array);

  array = make(22);
  beside(array, 1, add_unlike); /* a change that this one conflicts with: it stays */
  refused(tsr_array_add_attribute(array, &more, NULL, &error), TSR_CONSTRAINT, "'b'");
  assert_string_equal(attributes(), "a b ");
  assert_int_equal(now_of(array)->fields[2].datatype, TSR_FLOAT32);
  drop(array);
  slow_clock = false;
}

/* An attempt that another process was faster than leaves no file of labels. */
static void test_attempts_leave_no_labels(void **state) {
  const tsr_field field = {.name = "c", .datatype = TSR_UINT8, .values_per_cell = 1, .enumeration = "e"};
  tsr_listing files = {0};
  tsr_array *array = make(22);
  moment = AT_THE_CLAIM;
  beside(array, 3, add_others);
  ok(tsr_array_add_attribute(array, &field, &labels, &error));
  assert_string_equal(attributes(), "a r q p c ");
  ok(tsr__store_list(array->store, TSR_DIR_SCHEMA "/" TSR_DIR_ENUMERATIONS, &files, &error));
  assert_int_equal(files.count, 1);
  tsr__listing_release(&files);
  drop(array);
}

static void two_labels_at_once(void) {
  tsr_array *array = make(22);
  const tsr_enumeration *all = NULL;
  const tsr_field field = {.name = "c", .datatype = TSR_UINT8, .values_per_cell = 1, .enumeration = "e"};
  const tsr_enumeration three = LABELS("e", TSR_ASCII, "three", 0, 5);
  ok(tsr_array_add_attribute(array, &field, &labels, &error));
  beside(array, 1, add_label);
  ok(tsr_array_extend_enumeration(array, &three, &error));
  ok(tsr_array_enumeration(array, now_of(array), "e", &all, &error));
  assert_int_equal(all->count, 4);
  assert_memory_equal(all->data, "onetwofourthree", 15);
  tsr_interval box = *now_of(array)->current_domain;
  box.high[0] = 20;
  beside(array, 1, expand_more);
  if (moment == AT_THE_CLAIM) refused(tsr_array_expand_domain(array, &box, &error), TSR_CONSTRAINT, "never shrinks");
  else ok(tsr_array_expand_domain(array, &box, &error));
  assert_int_equal(now_of(array)->current_domain->high[0], 30);
  drop(array);
}

static void test_concurrent_labels_and_domains_hide_nothing(void **state) {
  moment = AT_THE_CLAIM;
  two_labels_at_once();
  moment = WITHOUT_CLAIMS;
  two_labels_at_once();
}

static unsigned staged_files(void) {
  tsr_store *store = NULL;
  tsr_listing entries = {0};
  unsigned count = 0;
  ok(tsr__store_directory_open(&environment->memory, path, &store, &error));
  ok(tsr__store_list(store, "", &entries, &error));
  for (uint64_t i = 0; i < entries.count; i++) count += entries.entries[i].name[0] == '.';
  tsr__listing_release(&entries);
  tsr__store_close(store);
  return count;
}

/* A process that finds a claim of another one publishes the other's schema first. */
static void test_claim_of_other_process_is_finished_first(void **state) {
  tsr_array *array = make(22);
  moment = AT_THE_SCHEMA;
  beside(array, 1, add_others);
  ok(tsr_array_add_attribute(array, &more, NULL, &error));
  assert_string_equal(attributes(), "a b p ");
  beside(array, 1, drop_a);
  ok(tsr_array_drop_attribute(array, "p", &error));
  assert_string_equal(attributes(), "b ");
  assert_int_equal(staged_files(), 0);
  drop(array);
}

static int no_remove(tsr_store *s, const char *gone, tsr_error *e) {
  (void)s;
  (void)gone;
  return tsr__fail(e, TSR_INTERRUPT, "dead");
}
static int rename_or_die(tsr_store *s, const char *from, const char *to, tsr_error *e) {
  return strchr(to, '/') ? tsr__fail(e, TSR_INTERRUPT, "dead") : plain->rename_exclusive(s, from, to, e);
}

static void put_file(const char *name, const char *text) {
  tsr_store *store = NULL;
  tsr_file *file;
  ok(tsr__store_directory_open(&environment->memory, path, &store, &error));
  ok(tsr__store_create_exclusive(store, name, &file, &error));
  ok(tsr__store_append(file, text, strlen(text), &error));
  tsr__store_close_file(file);
  tsr__store_close(store);
}

/* The next change of the schema publishes what a process that died has claimed. Claims that cannot be read, that name
 * other directories, or whose staged file is missing, do not block a change. */
static void test_claims_of_dead_processes_block_nothing(void **state) {
  static tsr_store_methods methods;
  static const char *const texts[] = {"", "nonsense", ".0123456789abcdef0123456789abcdef\n../other\n",
                                      "__commits/x\n__1_1_0123456789abcdef0123456789abcdef\n",
                                      ".0123456789abcdef0123456789abcdef\n__9_9_0123456789abcdef0123456789abcdef\n"};
  tsr_array *array = make(22);
  plain = array->store->methods;
  methods = *plain;
  methods.rename_exclusive = rename_or_die;
  methods.remove = no_remove;
  array->store->methods = &methods;
  refused(tsr_array_add_attribute(array, &more, NULL, &error), TSR_INTERRUPT, "dead");
  array->store->methods = plain;
  assert_string_equal(attributes(), "a ");
  assert_int_equal(staged_files(), 2);
  add_one(array, "q", TSR_INT8);
  assert_string_equal(attributes(), "a b q ");
  assert_int_equal(staged_files(), 0);
  for (unsigned i = 0; i < 5; i++) {
    char claim[80], name[2] = {(char)('r' + i), 0};
    tsr_name parsed;
    const char *newest = now_of(array)->name;
    assert_true(tsr__name_parse(newest, strlen(newest), &parsed));
    snprintf(claim, sizeof claim, ".%s", parsed.uuid);
    put_file(claim, texts[i]);
    add_one(array, name, TSR_INT8);
    assert_int_equal(staged_files(), 0);
  }
  assert_string_equal(attributes(), "a b q r s t u v ");
  drop(array);
}

/* Arrays below the versions that a change needs, and arrays that are not published yet, refuse it; metadata of a
 * creation can be written. */
static void test_changes_are_refused_below_their_version(void **state) {
  const tsr_metadatum entry = {
      .key = "k", .key_size = 1, .datatype = TSR_INT8, .count = 1, .value = "", .value_size = 1};
  tsr_array *array = make(3);
  refused(tsr_array_add_attribute(array, &more, NULL, &error), TSR_UNSUPPORTED, "needs 12");
  refused(tsr_array_set_metadata(array, &entry, &error), TSR_UNSUPPORTED, "needs 4");
  drop(array);
  tsr_creation *creation = prepare(22);
  const tsr_array_options options = {.creation = creation};
  ok(tsr_array_open(environment, path, &options, &array, &error));
  refused(tsr_array_add_attribute(array, &more, NULL, &error), TSR_ERROR, "commit first");
  ok(tsr_array_set_metadata(array, &entry, &error)); /* the abandon removes it */
  tsr_array_close(array);
  ok(tsr_creation_abandon(creation, &error));
  tsr_creation_close(creation);
}

/* A drop that was cut off after it had hidden the schema is finished by the next drop. */
static void test_drop_finishes_interrupted_drop(void **state) {
  tsr_store *store = NULL;
  tsr_object_kind kind;
  tsr_array *array = make(22);
  ok(tsr__store_directory_open(&environment->memory, path, &store, &error));
  ok(tsr__store_rename(store, "__schema", ".dropped__schema", &error));
  ok(tsr_object_find(environment, path, &kind, &error));
  assert_int_equal(kind, TSR_OBJECT_NONE);
  tsr__store_close(store);
  drop(array);
  refused(tsr_array_drop(environment, top, &error), TSR_NOT_FOUND, "not an array");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_attributes_are_added_and_dropped),
                                     cmocka_unit_test(test_attribute_returns_only_with_same_type_and_filters),
                                     cmocka_unit_test(test_enumerations_grow),
                                     cmocka_unit_test(test_current_domain_only_grows),
                                     cmocka_unit_test(test_changes_are_refused_below_their_version),
                                     cmocka_unit_test(test_drop_finishes_interrupted_drop),
                                     cmocka_unit_test(test_concurrent_attributes_hide_nothing),
                                     cmocka_unit_test(test_schemas_between_two_attempts_stay_in_force),
                                     cmocka_unit_test(test_attempts_leave_no_labels),
                                     cmocka_unit_test(test_concurrent_labels_and_domains_hide_nothing),
                                     cmocka_unit_test(test_claim_of_other_process_is_finished_first),
                                     cmocka_unit_test(test_claims_of_dead_processes_block_nothing)};
  return cmocka_run_group_tests(tests, setup, teardown_empty);
}
