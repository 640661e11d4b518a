/* spanned.c: prepared commits whose time a merged fragment spans.
 *
 * A prepared commit that its database has committed is visible to readers of that database before it is published, at
 * its own time. Another process, which does not know of the commit, may have written the same cells later and merged
 * them with older ones. The merged fragment then begins before the commit, so the older commit would hide its newer
 * cells:
 *
 *   - Sparse fragments with times of cells decide cell by cell, and arrays with duplicates show all cells. There the
 *     commit keeps its place.
 *   - If all sources of the merge are listed, they are shown instead of the merged fragment: each has its own time
 *     (undo_merge in snapshot.c). What remains is decided here.
 *   - A dense merged fragment whose sources are gone counts as newer in its whole box, which is cut out of the commit's
 *     boxes. The rest of the commit keeps its place in time, so fragments beside the merged one stay above or below it.
 *   - A sparse merged fragment without times of cells counts as newer in all its cells. It is moved behind the commit,
 *     and its cells get the commit's time.
 *
 * Recovery publishes what readers see by these rules (maintain/recover.c).
 */
#include "array/array.h"

#include <string.h>

#include "format/fragment_metadata.h"
#include "format/layout.h"
#include "model/domain.h"

bool tsr__late_spans(const tsr_name *merged, uint64_t time, bool dense) {
  return merged->start <= time && merged->end > time && (dense || !layout_has_timed_merges(merged->version));
}

/* ---- Dense arrays ------------------------------------------------------------------------------------------------ */

typedef struct narrowing {
  tsr_snapshot *snapshot;
  tsr_box_set set; /* remaining boxes of the current prepared fragment */
  tsr_buffer items; /* tsr_snapshot_fragment: the new items of the snapshot */
} narrowing;

/* Subtracts the boxes of merged fragments from a prepared fragment's box; n->set has the rest. Returns 1 if anything
 * was cut off, else 0. */
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
    TSR_TRY(TSR_ARENA_ARRAY(&n->snapshot->list->arena, 2 * (uint64_t)dimensions, &low, error));
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
  tsr_snapshot_list *list = snapshot->list;
  const uint64_t count = n->items.size / sizeof *list->items;
  tsr_snapshot_fragment *items;
  TSR_TRY(TSR_ARENA_ARRAY(&list->arena, count, &items, error));
  tsr_snapshot_fragment *old = list->items;
  const uint64_t old_count = list->count;
  if (count) memcpy(items, n->items.data, n->items.size);
  for (uint64_t i = 0; i < count; i++) items[i].fragment->references++;
  list->items = snapshot->fragments = items;
  list->count = list->capacity = snapshot->fragment_count = count;
  for (uint64_t i = 0; i < old_count; i++) tsr__array_fragment_drop(snapshot->array, old[i].fragment);
  return TSR_OK;
}

static int narrow_items(narrowing *n, tsr_error *error) {
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
  const int rc = narrow_items(&n, error);
  tsr__buffer_release(&n.set.ends);
  tsr__buffer_release(&n.items);
  return rc;
}

/* ---- Sparse arrays ----------------------------------------------------------------------------------------------- */

/* Returns the index of the last prepared fragment that a merged fragment without times of cells spans; its own index if
 * there is none. */
static uint64_t last_spanned(const tsr_snapshot *snapshot, uint64_t index) {
  const tsr_snapshot_fragment *items = snapshot->fragments, *merged = &items[index];
  const tsr_name *name = &merged->fragment->parsed;
  if (name->start == name->end || merged->fragment->metadata.has_times || merged->prepared) return index;
  for (uint64_t i = snapshot->fragment_count; i-- > index + 1;) {
    const uint64_t time = items[i].fragment->parsed.start;
    if (items[i].prepared && name->start <= time && name->end > time) return i;
  }
  return index;
}

/* Moves such merged fragments right behind the prepared ones, and gives their cells the time of these. From the last
 * one to the first, so that those that are moved behind the same commit stay in order. */
static void move_all(tsr_snapshot *snapshot) {
  tsr_snapshot_fragment *items = snapshot->fragments;
  for (uint64_t i = snapshot->fragment_count; i-- > 0;) {
    const uint64_t place = last_spanned(snapshot, i);
    if (place == i) continue;
    tsr_snapshot_fragment moved = items[i];
    moved.time = items[place].time;
    memmove(&items[i], &items[i + 1], (place - i) * sizeof *items);
    items[place] = moved;
  }
}

int tsr__snapshot_place_prepared(tsr_snapshot *snapshot, tsr_error *error) {
  if (snapshot->schema->dense) return narrow_all(snapshot, error);
  if (!snapshot->schema->allows_duplicates) move_all(snapshot);
  return TSR_OK;
}
