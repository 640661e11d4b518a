/* metadata.c: reads the metadata of an array or a group between two times.
 *
 * Each file of __meta in view is a list of entries that set or remove a key. They are applied in the order of the
 * files' times: all entries are sorted by (key, position), and the last one of each key counts.
 */
#include "array/array.h"

#include <stdlib.h>

#include "model/datatype.h"
#include "format/metadata.h"
#include "format/layout.h"
#include "environment/environment.h"
#include "log/log.h"

#define METADATA_OPEN_ATTEMPTS 8 /* since others may vacuum files that were just listed */

typedef struct metadata_made {
  tsr_metadata shown; /* must be the first member: the caller's pointer points to it */
  tsr_arena arena;
} metadata_made;

typedef struct ranked_entry {
  tsr_metadata_entry entry;
  uint64_t rank; /* position in the order in which entries take effect */
} ranked_entry;

static int compare_keys(const void *a, const void *b) {
  const ranked_entry *x = a, *y = b;
  int order = tsr__bytes_compare(x->entry.key, x->entry.key_size, y->entry.key, y->entry.key_size);
  if (order) return order;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int add_file(tsr_store *store, const uint8_t *key, const char *path, tsr_arena *arena, tsr_buffer *all,
                    tsr_error *error) {
  tsr_buffer content = {.memory = store->memory};
  tsr_metadata_entries entries = {0};
  int rc = tsr__read_tile(store, key, path, TSR_METADATA_MAX, &content, NULL, error);
  if (rc >= 0) {
    tsr_input in = tsr__input(content.data, content.size);
    rc = tsr__metadata_decode(&in, arena, &entries, error);
    if (rc < 0) tsr__wrap(error, "%s/%s", store->name, path);
  }
  for (uint64_t i = 0; rc >= 0 && i < entries.count; i++) {
    const ranked_entry one = {entries.entries[i], all->size / sizeof(ranked_entry)};
    rc = tsr__buffer_append(all, &one, sizeof one, error);
  }
  tsr__buffer_release(&content);
  return rc;
}

/* Keeps the last entry of each key, unless that entry removes the key. */
static int keep_last(tsr_buffer *all, metadata_made *made, tsr_error *error) {
  ranked_entry *entries = (ranked_entry *)all->data;
  uint64_t count = all->size / sizeof *entries;
  if (count > 1) qsort(entries, count, sizeof *entries, compare_keys);
  tsr_metadatum *kept;
  TSR_TRY(TSR_ARENA_ARRAY(&made->arena, count, &kept, error));
  uint64_t n = 0;
  for (uint64_t i = 0; i < count; i++) {
    const tsr_metadata_entry *e = &entries[i].entry, *next = i + 1 < count ? &entries[i + 1].entry : NULL;
    bool last = !next || tsr__bytes_compare(e->key, e->key_size, next->key, next->key_size) != 0;
    if (last && !e->deleted)
      kept[n++] = (tsr_metadatum){e->key, e->key_size, e->datatype, e->count, e->value, e->value_size};
  }
  made->shown = (tsr_metadata){n, kept};
  return TSR_OK;
}

static int fill_metadata(tsr_environment *environment, tsr_store *store, const uint8_t *key, const tsr_listing *listed,
                         uint64_t since, uint64_t as_of, metadata_made *made, tsr_error *error) {
  tsr_timestamped_files files;
  tsr_buffer all = {.memory = &environment->memory};
  int rc = tsr__timestamped_files(environment, store, TSR_DIR_META, listed, since, as_of, &made->arena, &files, error);
  for (uint64_t i = 0; rc >= 0 && i < files.count; i++) {
    rc = tsr__cancelled(&environment->memory, error);
    if (rc >= 0) rc = add_file(store, key, files.paths[i], &made->arena, &all, error);
  }
  if (rc >= 0) rc = keep_last(&all, made, error);
  tsr__buffer_release(&all);
  return rc;
}

int tsr__metadata_open(tsr_environment *environment, tsr_store *store, const uint8_t *key, const tsr_listing *listed,
                       uint64_t since, uint64_t as_of, tsr_metadata **metadata, tsr_error *error) {
  metadata_made *made;
  TSR_TRY(TSR_ALLOC(&environment->memory, &made, error));
  tsr__arena_init(&made->arena, &environment->memory);
  int rc = TSR_OK;
  for (int i = 0; i < METADATA_OPEN_ATTEMPTS; i++) { /* a listed file that is missing was vacuumed: list again */
    tsr__arena_reset(&made->arena);
    rc = fill_metadata(environment, store, key, listed, since, as_of, made, error);
    if (rc != TSR_NOT_FOUND) break;
    listed = NULL;
  }
  if (rc < 0) {
    tsr_metadata_close(&made->shown);
    return rc;
  }
  *metadata = &made->shown;
  return TSR_OK;
}

int tsr_array_metadata(tsr_array *array, uint64_t since, uint64_t as_of, tsr_metadata **metadata, tsr_error *error) {
  TSR_OWN_ERROR(error);
  int rc =
      tsr__metadata_open(array->environment, array->store, tsr__array_key(array), NULL, since, as_of, metadata, error);
  if (rc < 0) tsr__wrap(error, "metadata of array %s", array->path);
  return tsr__damage(rc, error);
}

void tsr_metadata_close(tsr_metadata *metadata) {
  if (!metadata) return;
  metadata_made *made = (metadata_made *)metadata;
  tsr__arena_release(&made->arena);
  tsr__free(made);
}
