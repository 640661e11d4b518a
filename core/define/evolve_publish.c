/* evolve_publish.c: publishes a changed schema, but only if the schema that it was made from is still the newest.
 *
 *   .STAGED          the new schema; STAGED is 32 random hex digits
 *   .BASE            the claim; BASE is the UUID in the name of the schema that the new one was made from.
 *                    A text of two lines: ".STAGED\n" and "NAME\n"
 *   __schema/NAME    the new schema's final path; .STAGED is renamed to it
 *
 * .STAGED and .BASE are files of the array's root. Readers ignore names that begin with a dot.
 *
 * The invariants: a claim is created exclusively and appears with its whole content; it is removed only after
 * __schema/NAME exists or has become impossible; while it exists, no other process of this library publishes a
 * successor of BASE. So a process may publish if it has created the claim and has seen afterwards that BASE is still
 * the newest schema. A process that finds the claim of another process to the newest schema publishes on that process's
 * behalf, since the other process may have died. Both may try to rename the same .STAGED: the file has a random name,
 * so only one rename succeeds. A claim to a schema that is no longer the newest has no meaning. TileDB ignores claims.
 */
#include "define/evolve_publish.h"

#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "format/layout.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/listing.h"
#include "array/timed_write.h"

#define CLAIM_MAX 1024 /* bytes of a claim's file */
#define UUID_SIZE 32 /* hex digits */

/* Lists the schemas anew. Returns 1 if `base` is the newest, 0 if not. */
static int is_newest(tsr_array *array, const char *base, tsr_error *error) {
  TSR_TRY(tsr__array_list(array, false, true, error));
  const tsr_commit_list *list = &array->listing->schemas;
  return list->count > 0 && strcmp(list->items[list->count - 1].name, base) == 0;
}

static tsr_path evolve_publish_path_of(const char *name) { return tsr__path_of(TSR_DIR_SCHEMA, name, ""); }

static int schema_exists(tsr_store *store, const char *name, tsr_error *error) {
  bool exists;
  TSR_TRY(tsr__store_find(store, evolve_publish_path_of(name).text, &exists, error));
  return exists;
}

/* Renames the staged file to its final path. Returns 1, also if another process has done it already; 0 if the staged
 * file is gone and the schema does not exist. */
static int rename_staged(tsr_store *store, const char *staged, const char *name, tsr_error *error) {
  tsr_error one = {0};
  int rc = tsr__store_rename_exclusive(store, staged, evolve_publish_path_of(name).text, &one);
  if (rc == TSR_NOT_FOUND || rc == TSR_EXISTS) return schema_exists(store, name, error);
  if (rc >= 0) rc = tsr__store_sync_directory(store, TSR_DIR_SCHEMA, &one);
  if (rc < 0 && error) *error = one;
  return rc < 0 ? rc : 1;
}

/* Returns false if the text is no valid claim. Its names become parts of paths, and any program that can write to the
 * array can write a claim, so only names without a directory are accepted. */
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

/* Publishes the schema of another process's claim to `base`, if that is the newest schema, and removes the claim.
 * Returns 0 or an error; a claim that is gone by now is none. */
static int finish_claim(tsr_array *array, const char *base, const char *claim, tsr_error *error) {
  tsr_error one = {0};
  tsr_buffer text = {.memory = &array->memory};
  char *staged, *name;
  int rc = tsr__store_read_all(array->store, claim, CLAIM_MAX, &text, &one);
  if (rc >= 0) rc = tsr__buffer_append_u8(&text, 0, &one);
  if (rc >= 0 && (rc = is_newest(array, base, &one)) > 0) {
    if (parse_claim((char *)text.data, &staged, &name)) rc = rename_staged(array->store, staged, name, &one);
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
  /* If `base` is no longer the newest, another process may have finished this claim. */
  if (claimed && (rc = is_newest(array, base, &one)) == 0) rc = schema_exists(array->store, name, &one);
  else if (rc > 0) rc = rename_staged(array->store, staged, name, &one);
  if (rc <= 0) (void)tsr__store_remove(array->store, staged, NULL);
  if (claimed) (void)tsr__store_remove(array->store, claim, NULL);
  if (rc == TSR_EXISTS && !claimed) return finish_claim(array, base, claim, error);
  if (rc < 0 && error) *error = one;
  return rc;
}
