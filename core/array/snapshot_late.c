/* snapshot_late.c: places prepared commits in a snapshot if a merged fragment spans their time.
 *
 * A prepared commit that its database has committed counts for readers of that database before it is published, at its
 * own time. Another process, which does not know of the commit, may have written the same cells later and may have
 * merged them with older ones. The merged fragment then begins before the commit, so its newer cells would be hidden
 * behind the older commit:
 *
 *   - Sparse fragments with times of cells decide cell by cell, and arrays with duplicates show all cells. There the
 *     commit keeps its place.
 *   - If all sources of the merge are listed, they are shown in place of the merged fragment (snapshot.c): each has its
 *     own time.
 *   - A dense merged fragment whose sources are gone counts as newer in its whole box. Here that box is cut out of the
 *     commit's boxes. The rest of the commit keeps its place in time, so fragments beside the merged one stay above or
 *     below it.
 *   - A sparse merged fragment without times of cells counts as newer in all cells that it has. It is placed behind the
 *     commit, and its cells get the commit's time.
 *
 * Recovery publishes what readers see by these rules (recover_late.c).
 */
#include "array/snapshot_late.h"

#include <string.h>

#include "base/arithmetic.h"
#include "model/domain.h"
#include "format/layout.h"
#include "array/array.h"
#include "array/commit_file.h"
#include "array/fragment.h"
#include "array/listing.h"
#include "array/snapshot.h"

bool tsr__late_spans(const tsr_name *merged, uint64_t time, bool dense) {
  return merged->start <= time && merged->end > time && (dense || !layout_has_timed_merges(merged->version));
}

int tsr__late_has_sources(tsr_array *array, const tsr_committed *merged, bool *all, tsr_error *error) {
  const tsr_commit_list *vacuums = &array->listing->vacuums;
  *all = false;
  for (uint64_t i = 0; i < vacuums->count; i++) {
    const tsr_commit_file *file;
    if (strcmp(vacuums->items[i].name, merged->name) != 0) continue;
    tsr_error one;
    const int rc = tsr__array_commit_file(array, vacuums->items[i].path, &file, &one);
    if (rc == TSR_NOT_FOUND) return TSR_OK; /* then the sources are gone, too */
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
  tsr_box_set set; /* remaining boxes of the prepared fragment at hand */
  tsr_buffer items; /* tsr_snapshot_fragment: the new items of the snapshot */
} narrowing;

/* Cuts the boxes of merged fragments out of a prepared fragment's box; n->set has the rest. Returns 1 if something was
 * cut out, else 0. */
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
    uint64_t *low;
    TSR_TRY(TSR_ARENA_ARRAY(&n->snapshot->arena, 2 * (uint64_t)dimensions, &low, error));
    uint64_t *high = low + dimensions;
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

/* Replaces the items of the snapshot. Each item has a reference to its fragment. */
static int replace_items(narrowing *n, tsr_error *error) {
  tsr_snapshot *snapshot = n->snapshot;
  const uint64_t count = n->items.size / sizeof *snapshot->fragments;
  tsr_snapshot_fragment *items;
  TSR_TRY(TSR_ARENA_ARRAY(&snapshot->arena, count, &items, error));
  tsr_snapshot_fragment *old = snapshot->fragments;
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

/* Returns the time at which a fragment counts: the latest time of the prepared fragments that it spans, else its own
 * start. */
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

/* Returns true if `b`, which stands behind `a`, must stand before it. A merged fragment that was moved to the time of a
 * prepared one must stand behind that one. */
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
