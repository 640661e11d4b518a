/* doubled.c: finds merged fragments that have cells which are elsewhere, too.
 *
 * A merge that died between its commit and its vacuum file leaves the merged fragment beside its sources. A library that
 * does not know of the staged vacuum file may merge all of them: the new fragment then has each cell twice. Two merges of
 * the same fragments at one time, by libraries that do not cancel each other, have the same cells. The vacuum files tell:
 * each names the sources of a merged fragment, which may have vacuum files of their own. */
#include "array/doubled.h"

#include <string.h>

#include "model/name.h"
#include "array/array.h"
#include "array/commit_file.h"
#include "array/listing.h"

typedef struct doubled_search {
  const tsr_map *committed;
  tsr_map files; /* name of a merged fragment -> its tsr_replacing */
  tsr_map covered; /* tsr__covered: the fragments whose cells a committed one has */
  tsr_map owners; /* fragment -> the visible merged fragment that has its cells */
  tsr_buffer waiting; /* const tsr_replacing *: whose sources are still to be looked at */
  tsr_doubled *found;
  tsr_error *error;
} doubled_search;

/* Returns true if `name` can be a source of the merged fragment: its times lie within. */
static bool doubled_is_source(const char *name, const tsr_name *merged, const char *merged_name) {
  tsr_name parsed;
  return tsr__name_parse(name, strlen(name), &parsed) && parsed.start >= merged->start && parsed.end <= merged->end &&
         strcmp(name, merged_name) != 0;
}

/* Notes that the visible fragment `owner` has the cells of the sources of one vacuum file. */
static int note_sources(doubled_search *s, const tsr_replacing *file, const char *owner) {
  tsr_name merged;
  if (!tsr__name_parse(file->name, strlen(file->name), &merged)) return TSR_OK;
  for (uint64_t n = 0; n < file->names->count; n++) {
    const char *name = file->names->names[n], *before = tsr__map_get(&s->owners, name);
    if (!doubled_is_source(name, &merged, file->name)) continue;
    if (before) {
      *s->found = (tsr_doubled){owner, before, name};
      return TSR_OK;
    }
    TSR_TRY(tsr__map_put(&s->owners, name, (void *)(uintptr_t)owner, s->error));
    const tsr_replacing *next = tsr__map_get(&s->files, name);
    if (next) TSR_TRY(tsr__buffer_append(&s->waiting, &next, sizeof next, s->error));
  }
  return TSR_OK;
}

static int expand(doubled_search *s, const tsr_replacing *visible) {
  s->waiting.size = 0;
  TSR_TRY(tsr__buffer_append(&s->waiting, &visible, sizeof visible, s->error));
  while (s->waiting.size && !s->found->merged) {
    const tsr_replacing *file;
    s->waiting.size -= sizeof file;
    memcpy(&file, s->waiting.data + s->waiting.size, sizeof file);
    TSR_TRY(note_sources(s, file, visible->name));
  }
  return TSR_OK;
}

static int search(doubled_search *s, const tsr_replacing *files, uint64_t count) {
  TSR_TRY(tsr__covered(files, count, s->committed, &s->covered, s->error));
  for (uint64_t i = 0; i < count; i++)
    TSR_TRY(tsr__map_put(&s->files, files[i].name, (void *)(uintptr_t)&files[i], s->error));
  for (uint64_t i = 0; i < count && !s->found->merged; i++) {
    const bool visible = tsr__map_get(s->committed, files[i].name) && !tsr__map_get(&s->covered, files[i].name);
    /* of a staged vacuum file and one that has its name already, one counts */
    if (visible && tsr__map_get(&s->files, files[i].name) == &files[i]) TSR_TRY(expand(s, &files[i]));
  }
  return TSR_OK;
}

int tsr__find_doubled(const tsr_replacing *files, uint64_t count, const tsr_map *committed, tsr_doubled *doubled,
                      tsr_error *error) {
  tsr_memory *memory = committed->memory;
  doubled_search s = {.committed = committed, .found = doubled, .error = error};
  s.files.memory = s.covered.memory = s.owners.memory = s.waiting.memory = memory;
  *doubled = (tsr_doubled){0};
  const int rc = count < 2 ? TSR_OK : search(&s, files, count);
  tsr__map_release(&s.files);
  tsr__map_release(&s.covered);
  tsr__map_release(&s.owners);
  tsr__buffer_release(&s.waiting);
  return rc;
}

/* Returns a digest of the paths of all vacuum files. */
static uint64_t digest_of(const tsr_commit_list *vacuums) {
  uint64_t hash = vacuums->count;
  for (uint64_t i = 0; i < vacuums->count; i++)
    for (const char *p = vacuums->items[i].path; *p; p++) hash = (hash ^ (uint8_t)*p) * UINT64_C(0x100000001B3);
  return hash;
}

static int find_in_listing(tsr_array *array, tsr_doubled *doubled, tsr_error *error) {
  const tsr_commit_list *vacuums = &array->listing->vacuums;
  tsr_buffer files = {.memory = &array->memory};
  int rc = TSR_OK;
  for (uint64_t i = 0; i < vacuums->count && rc >= 0; i++) {
    const tsr_commit_file *file;
    rc = tsr__array_commit_file(array, vacuums->items[i].path, &file, error);
    const tsr_replacing one = {vacuums->items[i].name, rc >= 0 ? &file->names : NULL};
    if (rc >= 0) rc = tsr__buffer_append(&files, &one, sizeof one, error);
  }
  if (rc >= 0)
    rc = tsr__find_doubled((const tsr_replacing *)(const void *)files.data, files.size / sizeof(tsr_replacing),
                           &array->listing->names, doubled, error);
  tsr__buffer_release(&files);
  return rc;
}

int tsr__array_find_doubled(tsr_array *array, tsr_doubled *doubled, tsr_error *error) {
  const tsr_commit_list *vacuums = &array->listing->vacuums;
  const tsr_schema *schema;
  tsr_error one;
  *doubled = (tsr_doubled){0};
  if (vacuums->count < 2 || digest_of(vacuums) == array->undoubled) return TSR_OK;
  TSR_TRY(tsr__array_schema_at(array, UINT64_MAX, &schema, error));
  int rc = schema->allows_duplicates ? find_in_listing(array, doubled, &one) : TSR_OK;
  if (rc == TSR_NOT_FOUND) return TSR_OK; /* a vacuum is at work */
  if (rc < 0) return *error = one, rc;
  if (!doubled->merged) array->undoubled = digest_of(vacuums);
  return TSR_OK;
}
