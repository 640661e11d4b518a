/* delete_file.c: the delete conditions of a listing (format.md, "Delete conditions"). */
#include "array/delete_file.h"

#include "base/arithmetic.h"
#include "format/generic_tile.h"
#include "format/layout.h"
#include "store/store.h"
#include "array/array.h"
#include "array/listing.h"
#include "array/patience.h"

#define CONDITION_MAX (1u << 30) /* largest delete condition, unfiltered, in bytes */

static int decode_delete(tsr_array *array, const char *path, const uint8_t *bytes, uint64_t size, tsr_buffer *content,
                         tsr_error *error) {
  uint64_t consumed;
  const int rc =
      tsr__generic_tile_decode(bytes, size, tsr__array_key(array), CONDITION_MAX, content, NULL, &consumed, error);
  return rc < 0 ? tsr__wrap(error, "%s", path) : TSR_OK;
}

static int read_del_file(tsr_array *array, const char *path, tsr_buffer *stored, tsr_buffer *content,
                         tsr_error *error) {
  const uint64_t stored_before = stored->size, content_before = content->size;
  tsr_patience patience = {0};
  for (;;) {
    int rc = tsr__store_read_all(array->store, path, tsr__add_sat(CONDITION_MAX, CONDITION_MAX / 8), stored, error);
    if (rc >= 0)
      rc = decode_delete(array, path, stored->data + stored_before, stored->size - stored_before, content, error);
    rc = tsr__patience(&patience, array->store, path, rc, error);
    if (rc <= 0) return rc;
    stored->size = stored_before;
    content->size = content_before;
  }
}

/* Reads the .del file in the place of a copy that cannot be decoded. If there is no such file, the error is that of the
 * copy. */
static int read_original(tsr_array *array, const tsr_committed *item, tsr_buffer *stored, tsr_buffer *content,
                         tsr_error *error) {
  const tsr_path path = tsr__path_of(TSR_DIR_COMMITS, item->name, TSR_SUFFIX_DELETE);
  tsr_error one;
  const int rc = read_del_file(array, path.text, stored, content, &one);
  if (rc == TSR_NOT_FOUND) return TSR_CORRUPT;
  if (rc < 0) *error = one;
  return rc;
}

int tsr__delete_read(tsr_array *array, const tsr_committed *item, tsr_buffer *stored, tsr_buffer *content,
                     tsr_error *error) {
  tsr_buffer own = {.memory = &array->memory};
  tsr_buffer *tile = stored ? stored : &own;
  const uint64_t before = content->size;
  int rc;
  if (!item->bytes) {
    rc = read_del_file(array, item->path, tile, content, error);
  } else {
    rc = decode_delete(array, item->path, item->bytes, item->size, content, error);
    if (rc == TSR_CORRUPT) {
      content->size = before;
      rc = read_original(array, item, tile, content, error);
    } else if (rc >= 0 && stored) {
      rc = tsr__buffer_append(stored, item->bytes, item->size, error);
    }
  }
  tsr__buffer_release(&own);
  return rc;
}
