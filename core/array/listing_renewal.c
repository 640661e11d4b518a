/* listing_renewal.c: adds fragments, deletes and texts to a listing that is being made. */
#include "array/listing_renewal.h"

#include <string.h>

#include "format/layout.h"

int tsr__renewal_copy_text(tsr_renewal *r, const char *text, uint64_t size, const char **copy) {
  TSR_TRY(TSR_ARENA_COPY(&r->listing->arena, text, size, copy, r->error));
  return TSR_OK;
}

int tsr__renewal_join_path(tsr_renewal *r, const char *directory, const char *name, const char **path) {
  uint64_t size = strlen(directory), more = strlen(name);
  char *text;
  TSR_TRY(TSR_ARENA_RAW(&r->listing->arena, size + more + 2, &text, r->error));
  memcpy(text, directory, size);
  if (size > 0) text[size++] = '/';
  memcpy(text + size, name, more + 1);
  *path = text;
  return TSR_OK;
}

int tsr__renewal_append(tsr_renewal *r, tsr_commit_list *list, const tsr_committed *item) {
  if (list->count == list->capacity) {
    uint64_t capacity = list->capacity ? list->capacity * 2 : 16;
    tsr_committed *items;
    TSR_TRY(TSR_ARENA_ARRAY(&r->listing->arena, capacity, &items, r->error));
    if (list->count > 0) memcpy(items, list->items, list->count * sizeof *item);
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = *item;
  return TSR_OK;
}

int tsr__renewal_add_fragment(tsr_renewal *r, const char *name, const tsr_name *parsed, bool old_layout) {
  static const char present;
  if (tsr__map_get(&r->listing->names, name)) return TSR_OK; /* a .con and a file of its own may name a fragment */
  TSR_TRY(tsr__map_put(&r->listing->names, name, (void *)(uintptr_t)&present, r->error));
  tsr_committed item = {.name = name, .parsed = *parsed, .old_layout = old_layout, .prepared = r->counting};
  return tsr__renewal_append(r, &r->listing->fragments, &item);
}

int tsr__renewal_read_file(tsr_renewal *r, const char *name, const tsr_commit_file **file) {
  const char *path;
  TSR_TRY(tsr__renewal_join_path(r, TSR_DIR_COMMITS, name, &path));
  TSR_TRY(tsr__array_commit_file(r->array, path, file, r->error));
  tsr__commit_file_keep(r->array, path, r->listing->generation);
  return TSR_OK;
}

int tsr__renewal_add_delete(tsr_renewal *r, const tsr_committed *item) {
  if (tsr__map_get(&r->deletes, item->name)) return TSR_OK; /* a .con and a .del may both have it */
  TSR_TRY(tsr__renewal_append(r, &r->listing->deletes, item));
  return tsr__map_put(&r->deletes, item->name, (void *)(uintptr_t)item->name, r->error);
}

static bool is_ignored(tsr_renewal *r, const char *name, bool old_layout) {
  char text[192];
  uint64_t size = strlen(name);
  if (r->ignored.count == 0 || size + 5 > sizeof text) return false;
  memcpy(text, name, size);
  strcpy(text + size, old_layout ? TSR_SUFFIX_OLD_WRITE : TSR_SUFFIX_WRITE);
  return tsr__map_get(&r->ignored, text) != NULL;
}

int tsr__renewal_add_con_entry(tsr_renewal *r, const char *path, const tsr_commit *commit) {
  tsr_committed item = {.name = commit->name, .path = path, .bytes = commit->bytes, .size = commit->size};
  if (!tsr__name_parse(commit->name, strlen(commit->name), &item.parsed))
    return tsr__fail(r->error, TSR_CORRUPT, "%s: '%s' is not a timestamped name", path, commit->name);
  /* the name is borrowed from the file, which lives as long as the listing */
  if (commit->kind == TSR_COMMIT_DELETE) return tsr__renewal_add_delete(r, &item);
  if (commit->kind == TSR_COMMIT_UPDATE)
    return tsr__fail(r->error, TSR_UNSUPPORTED, "%s: update conditions ('%s') are not supported", path, commit->name);
  bool old_layout = !layout_has_commits_folder(item.parsed.version);
  if (is_ignored(r, commit->name, old_layout)) return TSR_OK;
  TSR_TRY(tsr__map_put(&r->in_con, commit->name, commit->name, r->error));
  return old_layout ? TSR_OK : tsr__renewal_add_fragment(r, item.name, &item.parsed, false);
}
