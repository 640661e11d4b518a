/* evolve_publish.c: a new schema comes into force, if the one that it was made from is the newest still.
 *
 *   .STAGED          the new schema
 *   .BASE            BASE is the UUID in the name of the one that it was made from. The claim, text: ".STAGED\n", "NAME\n"
 *   __schema/NAME    what .STAGED becomes
 *
 * Both are files of the array's root, whose names nobody takes for anything. Invariants: .BASE appears whole and exclusively,
 * goes after __schema/NAME has come, and while it is there nobody else gives BASE a successor. So who has it, and has seen after
 * that that BASE is the newest, may publish. Who finds another's claim to what is the newest, publishes for that one, which may
 * have died: each file has a name of its own, and whoever renames it, it is renamed once. Claims to what is no longer the
 * newest say nothing. TileDB knows nothing of claims.
 */
#include "define/evolve_publish.h"

#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/listing.h"
#include "array/timed_write.h"

#define CLAIM_MAX 1024
#define UUID_SIZE 32

static int is_newest(tsr_array *array, const char *base, tsr_error *error) {
  TSR_TRY(tsr__array_list(array, false, true, error));
  const tsr_commit_list *list = &array->listing->schemas;
  return list->count > 0 && strcmp(list->items[list->count - 1].name, base) == 0;
}

static tsr_path evolve_publish_path_of(const char *name) { return tsr__path_of("__schema", name, ""); }

static int has_come(tsr_store *store, const char *name, tsr_error *error) {
  bool exists;
  TSR_TRY(tsr__store_find(store, evolve_publish_path_of(name).text, &exists, error));
  return exists;
}

/* Also where another has done so for us; 0 if what was staged is gone and nothing has come of it. */
static int evolve_publish_publish(tsr_store *store, const char *staged, const char *name, tsr_error *error) {
  tsr_error one = {0};
  int rc = tsr__store_rename_exclusive(store, staged, evolve_publish_path_of(name).text, &one);
  if (rc == TSR_NOT_FOUND || rc == TSR_EXISTS) return has_come(store, name, error);
  if (rc >= 0) rc = tsr__store_sync_directory(store, "__schema", &one);
  if (rc < 0 && error) *error = one;
  return rc < 0 ? rc : 1;
}

/* Names that lead nowhere else: whoever has the array can write a claim. */
static bool parse_claim(char *text, char **staged, char **name) {
  tsr_name parsed;
  char *end = strchr(text, '\n'), *last = end ? strchr(end + 1, '\n') : NULL;
  if (!last || last[1]) return false;
  *end = *last = 0;
  *staged = text;
  *name = end + 1;
  return text[0] == '.' && strspn(text + 1, "0123456789abcdef") == UUID_SIZE && !text[1 + UUID_SIZE] &&
         !strchr(*name, '/') && tsr__name_parse(*name, strlen(*name), &parsed);
}

/* Does what another one has claimed to do. */
static int help(tsr_array *array, const char *base, const char *claim, tsr_error *error) {
  tsr_error one = {0};
  tsr_buffer text = {.memory = &array->memory};
  char *staged, *name;
  int rc = tsr__store_read_all(array->store, claim, CLAIM_MAX, &text, &one);
  if (rc >= 0) rc = tsr__buffer_append_u8(&text, 0, &one);
  if (rc >= 0 && (rc = is_newest(array, base, &one)) > 0) {
    if (parse_claim((char *)text.data, &staged, &name)) rc = evolve_publish_publish(array->store, staged, name, &one);
    if (rc >= 0) rc = tsr__store_remove(array->store, claim, &one);
  }
  tsr__buffer_release(&text);
  if (rc < 0 && rc != TSR_NOT_FOUND && error) *error = one;
  return rc < 0 && rc != TSR_NOT_FOUND ? rc : 0;
}

static int claim_base(tsr_array *array, const char *claim, const char *staged, const char *name, tsr_error *error) {
  tsr_buffer text = {.memory = &array->memory};
  int rc = tsr__buffer_printf(&text, error, "%s\n%s\n", staged, name);
  if (rc >= 0) rc = tsr__write_claim(array->store, claim, &text, error);
  tsr__buffer_release(&text);
  return rc;
}

int tsr__schema_publish(tsr_array *array, const char *base, uint32_t version, const tsr_buffer *content, char name[128],
                        tsr_error *error) {
  uint8_t random[16];
  uint64_t time;
  tsr_name old, parts;
  char staged[TSR_STAGED_SIZE], claim[sizeof old.uuid + 1];
  tsr_error one = {0};
  if (!tsr__name_parse(base, strlen(base), &old))
    return tsr__fail(error, TSR_UNSUPPORTED, "the schema %s has no time", base);
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__environment_time(array->environment, old.end, 0, &time, error));
  TSR_TRY(tsr__name_new(time, time, 0, &parts, random));
  tsr__name_print(&parts, name);
  snprintf(claim, sizeof claim, ".%s", old.uuid);
  TSR_TRY(tsr__write_staged(array->store, tsr__array_key(array), version, content, staged, error));
  int rc = claim_base(array, claim, staged, name, &one);
  const bool claimed = rc >= 0;
  if (claimed && (rc = is_newest(array, base, &one)) == 0) rc = has_come(array->store, name, &one); /* with help */
  else if (rc > 0) rc = evolve_publish_publish(array->store, staged, name, &one);
  if (rc <= 0) (void)tsr__store_remove(array->store, staged, NULL);
  if (claimed) (void)tsr__store_remove(array->store, claim, NULL);
  if (rc == TSR_EXISTS && !claimed) return help(array, base, claim, error);
  if (rc < 0 && error) *error = one;
  return rc;
}
