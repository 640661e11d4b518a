/* recover.c: commits that were prepared and never published are published or undone, as their owner says. Whatever is
 * done here can be cut off and done again; two processes may do it at once.
 */
#include <stdio.h>

#include "ops.h"

typedef struct recovery {
  tsr_array *array;
  const char *owner;
  tsr_verdict (*decide)(void *argument, const char *commit);
  void *argument;
  uint64_t *changed;
  tsr_arena arena;
} recovery;

/* Fragments go before the marker that knows of them. */
static int undo(recovery *r, const tsr_pending *pending, tsr_error *error) {
  tsr_store *store = r->array->store;
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH], path[TSR_COMMIT_PATH];
  if (!tsr__pending_paths(pending->commit, marker, staged)) return TSR_OK;
  bool new_layout = strncmp(pending->commit, "__commits/", 10) == 0;
  if (new_layout) TSR_TRY(tsr__store_own(store, "__commits", error));
  if (new_layout) TSR_TRY(tsr__store_own(store, "__fragments", error));
  if (new_layout && *staged) TSR_TRY(tsr__pending_unmark(store, staged, error));
  for (uint64_t i = 0; i < pending->fragment_count; i++) {
    snprintf(path, sizeof path, "%s%.127s", new_layout ? "__fragments/" : "", pending->fragments[i]);
    TSR_TRY(tsr__fragment_remove(store, path, error));
  }
  return TSR_OK;
}

static int recover_one(recovery *r, const char *marker, tsr_error *error) {
  tsr_store *store = r->array->store;
  tsr_pending pending;
  int code = tsr__pending_read(store, marker, &r->arena, &pending, error);
  if (code <= 0) return code;
  const int published = tsr__pending_published(store, pending.commit, error);
  if (published < 0) return published;
  switch (published ? TSR_VERDICT_PUBLISH : r->decide(r->argument, pending.commit)) {
  case TSR_VERDICT_LEAVE: return TSR_OK;
  case TSR_VERDICT_PUBLISH:
    if (!published) TSR_TRY(tsr__pending_settle(&r->array->memory, r->owner, error));
    code = tsr__pending_publish(store, pending.commit, true, error);
    break;
  case TSR_VERDICT_UNDO:
    if (strcmp(pending.owner, r->owner) != 0) return TSR_OK;
    code = undo(r, &pending, error);
    if (code >= 0) code = 1;
    break;
  }
  if (code < 0) return code;
  if (r->changed) *r->changed += (uint64_t)code;
  return tsr__pending_unmark(store, marker, error);
}

int tsr_array_recover(tsr_array *array, const char *owner, tsr_verdict (*decide)(void *argument, const char *commit),
                      void *argument, uint64_t *changed, tsr_error *error) {
  TSR_OWN_ERROR(error);
  recovery r = {.array = array, .owner = owner, .decide = decide, .argument = argument, .changed = changed};
  TSR_TRY(tsr__array_list(array, true, false, error));
  if (!array->listing->prepared.count) return TSR_OK;
  tsr__arena_init(&r.arena, &array->memory);
  int code = TSR_OK;
  for (uint64_t i = 0; code >= 0 && i < array->listing->prepared.count; i++)
    code = recover_one(&r, array->listing->prepared.items[i].path, error);
  tsr__arena_release(&r.arena);
  if (code < 0) return tsr__wrap(error, "array %s", array->path);
  return tsr__array_list(array, true, true, error);
}
