/* timed_write.c: writes small files that appear atomically: metadata, changes of groups, evolved schemas.
 *
 * A file is written as ".UUID" in the store's root, where readers ignore it, made durable, and renamed exclusively to
 * DIRECTORY/__T_T_UUID[_V]. T is the present, later than `after` and than any commit of this environment.
 */
#include "array/timed_write.h"

#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "crypto/crypto.h"
#include "store/store.h"
#include "model/name.h"
#include "format/generic_tile.h"
#include "array/environment.h"

static int timed_write_durably(tsr_store *store, const char *path, const tsr_buffer *bytes, tsr_error *error) {
  tsr_file *file = NULL;
  TSR_TRY(tsr__store_create_exclusive(store, path, &file, error));
  int rc = bytes->size ? tsr__store_append(file, bytes->data, bytes->size, error) : TSR_OK;
  if (rc >= 0) rc = tsr__store_sync(file, error);
  tsr__store_close_file(file);
  return rc;
}

/* Writes a durable file under a new name in the root. */
static int timed_write_stage(tsr_store *store, const tsr_buffer *bytes, char staged[TSR_STAGED_SIZE],
                             tsr_error *error) {
  uint8_t random[16];
  tsr_name name;
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(0, 0, 0, &name, random));
  snprintf(staged, TSR_STAGED_SIZE, ".%s", name.uuid);
  int rc = timed_write_durably(store, staged, bytes, error);
  if (rc < 0) (void)tsr__store_remove(store, staged, NULL);
  return rc;
}

int tsr__write_staged(tsr_store *store, const uint8_t *key, uint32_t version, const tsr_buffer *content,
                      char staged[TSR_STAGED_SIZE], tsr_error *error) {
  tsr_buffer tile = {.memory = store->memory};
  int rc = tsr__generic_tile_encode(content->data, content->size, version, key, &tile, error);
  if (rc >= 0) rc = timed_write_stage(store, &tile, staged, error);
  tsr__buffer_release(&tile);
  return rc;
}

int tsr__write_claim(tsr_store *store, const char *path, const tsr_buffer *content, tsr_error *error) {
  return tsr__store_put_new(store, path, content->data, content->size, true, error);
}

/* Writes a file into a directory, which may be missing in arrays of old versions: then it is made. */
static int put_into(tsr_store *store, const char *directory, const char *path, const tsr_buffer *tile,
                    tsr_error *error) {
  tsr_error one;
  int rc = tsr__store_put_new(store, path, tile->data, tile->size, true, &one);
  if (rc == TSR_NOT_FOUND) {
    rc = tsr__store_make_directory(store, directory, error);
    if (rc >= 0) TSR_TRY(tsr__store_sync_directory(store, "", error));
    if (rc < 0 && rc != TSR_EXISTS) return rc;
    rc = tsr__store_put_new(store, path, tile->data, tile->size, true, &one);
  }
  if (rc < 0) return *error = one, rc;
  return tsr__store_sync_directory(store, directory, error);
}

int tsr__write_named(tsr_store *store, const char *directory, const char *name, const uint8_t *key, uint32_t version,
                     const tsr_buffer *content, tsr_error *error) {
  tsr_buffer tile = {.memory = store->memory};
  tsr_error unseen;
  char path[320];
  if (!error) error = &unseen;
  if ((uint64_t)snprintf(path, sizeof path, "%s/%s", directory, name) >= sizeof path)
    return tsr__fail(error, TSR_RANGE, "the name %s is too long", name);
  int rc = tsr__generic_tile_encode(content->data, content->size, version, key, &tile, error);
  if (rc >= 0) rc = put_into(store, directory, path, &tile, error);
  tsr__buffer_release(&tile);
  return rc;
}

int tsr__write_timed(tsr_environment *environment, tsr_store *store, const char *directory, uint64_t after,
                     uint32_t name_version, const uint8_t *key, uint32_t version, const tsr_buffer *content,
                     char written[128], tsr_error *error) {
  uint8_t random[16];
  uint64_t time;
  tsr_name parts;
  char name[128];
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__environment_time(environment, after, 0, &time, error));
  TSR_TRY(tsr__name_new(time, time, name_version, &parts, random));
  tsr__name_print(&parts, name);
  if (written) memcpy(written, name, sizeof name);
  return tsr__write_named(store, directory, name, key, version, content, error);
}

int tsr__timed_last(tsr_store *store, const char *directory, uint64_t *last, tsr_error *error) {
  tsr_listing entries = {.memory = store->memory};
  uint64_t now = tsr__environment_now(), found = 0;
  tsr_name name;
  int rc = tsr__store_list(store, directory, &entries, error);
  if (rc < 0 && rc != TSR_NOT_FOUND) return rc;
  for (uint64_t i = 0; i < entries.count; i++) {
    const char *text = entries.entries[i].name;
    if (tsr__name_parse(text, strlen(text), &name) && name.end <= now) found = TSR_MAX(found, name.end);
  }
  tsr__listing_release(&entries);
  *last = found;
  return TSR_OK;
}
