/* snapshot_late.c: prepared commits that a merge has spanned.
 *
 * A commit that is prepared, and that its database has committed, counts for readers of that database before it is
 * published. It has its own time. Others, who do not know of it, may have written the same cells later, and merged what
 * they wrote with what is older. The merged fragment then begins before the commit, and what is newer in it would be
 * hidden behind the older commit:
 *
 *   - Sparse fragments with the times of their cells decide cell by cell. Duplicates are all shown. There the commit
 *     keeps
 *     its place.
 *   - Where all sources of the merge are listed, they are shown in place of the merged fragment (snapshot.c): each has
 *     its
 *     own time.
 *   - A dense merged fragment whose sources are gone counts as newer in all cells that it covers: they are cut out of
 *     the
 *     commit's boxes here. The rest keeps its place in time, so fragments beside the merged one stay above or below it.
 *   - A sparse merged fragment without times of cells counts as newer in all cells that it holds: it is placed behind
 *     the
 *     commit, of whose time its cells are taken to be.
 *
 * What readers see so is what recovery publishes (recover_late.c).
 */
#include "array/snapshot_late.h"

#include <string.h>

#include "base/arithmetic.h"
#include "model/domain_boxes.h"
#include "array/array.h"
#include "array/fragment.h"
#include "array/listing.h"
#include "array/snapshot.h"

bool tsr__late_spans(const tsr_name *merged, uint64_t time, bool dense) {
  return merged->start <= time && merged->end > time && (dense || merged->version < TSR_TIMED_VERSION);
}

int tsr__late_has_sources(tsr_array *array, const tsr_committed *merged, bool *all, tsr_error *error) {
  const tsr_commit_list *vacuums = &array->listing->vacuums;
  *all = false;
  for (uint64_t i = 0; i < vacuums->count; i++) {
    const tsr_commit_file *file;
    if (strcmp(vacuums->items[i].name, merged->name) != 0) continue;
    tsr_error one;
    const int rc = tsr__array_commit_file(array, vacuums->items[i].path, &file, &one);
    if (rc == TSR_NOT_FOUND) return TSR_OK; /* nor are they */
    if (rc < 0) return *error = one, rc;
    *all = true;
    for (uint64_t n = 0; n < file->names.count; n++)
      *all = *all && tsr__map_get(&array->listing->names, file->names.names[n]);
  }
  return TSR_OK;
}

/* ---- Dense ------------------------------------------------------------------------------------------------------- */

typedef struct narrowing {
  tsr_snapshot *snapshot;
  tsr_box_set set; /* what is left of the present fragment */
  tsr_buffer items; /* tsr_snapshot_fragment: those of the snapshot to come */
} narrowing;

/* 1: merged fragments cover some of it; the set has the rest. */
static int cut_merged(narrowing *n, const tsr_snapshot_fragment *item, tsr_error *error) {
  const tsr_snapshot *snapshot = n->snapshot;
  bool changed = false;
  n->set.ends.size = 0;
  TSR_TRY(tsr__box_set_add(&n->set, item->box_low, item->box_high, error));
  for (uint64_t i = 0; i < snapshot->fragment_count; i++) {
    const tsr_snapshot_fragment *merged = &snapshot->fragments[i];
    const tsr_fragment_metadata *m = &merged->fragment->metadata;
    if (merged->prepared || !m->dense || m->empty_domain) continue;
    if (!tsr__late_spans(&merged->fragment->parsed, item->fragment->parsed.start, true)) continue;
    const int cut = tsr__box_set_cut(&n->set, merged->box_low, merged->box_high, error);
    if (cut < 0) return cut;
    changed |= cut > 0;
  }
  return changed;
}

static int add_parts(narrowing *n, const tsr_snapshot_fragment *item, tsr_error *error) {
  const uint32_t dimensions = n->set.dimensions;
  for (uint64_t b = 0; b < tsr__box_set_count(&n->set); b++) {
    const uint64_t *ends = (const uint64_t *)(const void *)n->set.ends.data + b * 2 * dimensions;
    tsr_snapshot_fragment part = *item;
    void *room;
    TSR_TRY(tsr__arena_array(&n->snapshot->arena, 2 * (uint64_t)dimensions, sizeof(uint64_t), &room, error));
    uint64_t *low = room, *high = low + dimensions;
    for (uint32_t d = 0; d < dimensions; d++) {
      low[d] = ends[2 * d];
      high[d] = ends[2 * d + 1];
    }
    part.box_low = low;
    part.box_high = high;
    TSR_TRY(tsr__buffer_append(&n->items, &part, sizeof part, error));
  }
  return TSR_OK;
}

/* Each item holds a reference to its fragment. */
static int replace_items(narrowing *n, tsr_error *error) {
  tsr_snapshot *snapshot = n->snapshot;
  const uint64_t count = n->items.size / sizeof *snapshot->fragments;
  void *room;
  TSR_TRY(tsr__arena_array(&snapshot->arena, count, sizeof *snapshot->fragments, &room, error));
  tsr_snapshot_fragment *items = room, *old = snapshot->fragments;
  const uint64_t old_count = snapshot->fragment_count;
  if (count) memcpy(items, n->items.data, n->items.size);
  for (uint64_t i = 0; i < count; i++) items[i].fragment->references++;
  snapshot->fragments = items;
  snapshot->fragment_count = count;
  for (uint64_t i = 0; i < old_count; i++) tsr__array_fragment_drop(snapshot->array, old[i].fragment);
  return TSR_OK;
}

static int snapshot_late_narrow(narrowing *n, tsr_error *error) {
  bool changed = false;
  for (uint64_t i = 0; i < n->snapshot->fragment_count; i++) {
    const tsr_snapshot_fragment *item = &n->snapshot->fragments[i];
    const tsr_fragment_metadata *m = &item->fragment->metadata;
    const int cut = item->prepared && m->dense && !m->empty_domain ? cut_merged(n, item, error) : 0;
    if (cut < 0) return cut;
    changed |= cut > 0;
    if (cut > 0) TSR_TRY(add_parts(n, item, error));
    else TSR_TRY(tsr__buffer_append(&n->items, item, sizeof *item, error));
  }
  return changed ? replace_items(n, error) : TSR_OK;
}

static int narrow_all(tsr_snapshot *snapshot, tsr_error *error) {
  tsr_memory *memory = &snapshot->array->memory;
  narrowing n = {.snapshot = snapshot, .items.memory = memory};
  n.set = (tsr_box_set){.dimensions = snapshot->schema->dimension_count, .ends.memory = memory};
  const int rc = snapshot_late_narrow(&n, error);
  tsr__buffer_release(&n.set.ends);
  tsr__buffer_release(&n.items);
  return rc;
}

/* ---- Sparse ------------------------------------------------------------------------------------------------------ */

/* The last time of prepared fragments that a merged one spans, or its own. */
static uint64_t time_of(const tsr_snapshot *snapshot, const tsr_snapshot_fragment *merged) {
  const tsr_name *name = &merged->fragment->parsed;
  uint64_t time = name->start;
  if (merged->fragment->metadata.has_times || merged->prepared) return time;
  for (uint64_t i = 0; i < snapshot->fragment_count; i++) {
    const uint64_t other = snapshot->fragments[i].fragment->parsed.start;
    if (snapshot->fragments[i].prepared && name->start <= other && name->end > other) time = TSR_MAX(time, other);
  }
  return time;
}

/* Does `b`, which stands behind `a`, belong before it? What was moved to another's time stands behind that one. */
static bool belongs_before(const tsr_snapshot_fragment *a, const tsr_snapshot_fragment *b) {
  return b->time < a->time || (b->time == a->time && b->prepared && a->time != a->fragment->parsed.start);
}

static void move_all(tsr_snapshot *snapshot) {
  tsr_snapshot_fragment *items = snapshot->fragments;
  for (uint64_t i = 0; i < snapshot->fragment_count; i++) items[i].time = time_of(snapshot, &items[i]);
  for (uint64_t i = 1; i < snapshot->fragment_count; i++)
    for (uint64_t at = i; at > 0 && belongs_before(&items[at - 1], &items[at]); at--) {
      const tsr_snapshot_fragment moved = items[at];
      items[at] = items[at - 1];
      items[at - 1] = moved;
    }
}

int tsr__late_place(tsr_snapshot *snapshot, tsr_error *error) {
  if (snapshot->schema->dense) return narrow_all(snapshot, error);
  if (!snapshot->schema->allows_duplicates) move_all(snapshot);
  return TSR_OK;
}
