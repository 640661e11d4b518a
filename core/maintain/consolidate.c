/* consolidate.c: the entry point of consolidation (tsr_array_consolidate), and the choice of fragments to merge.
 *
 * Fragments are merged in sequences: consecutive fragments in time. A sequence is merged only if every reader, whatever
 * times it asks for, sees the same cells afterwards. Hence the rules:
 *  - All fragments of the sequence have the same fields: a merge writes no attribute for cells that lack it.
 *  - No other fragment has times that overlap those of the sequence, from its first to its last: its cells would belong
 *    between the cells of the sequence.
 *  - Sparse: merged cells keep their times (since format version 15), so a fragment that does not store the times of
 *    its cells must have a single time.
 *  - Dense: the merged fragments are boxes of written cells (domain.c); there must be fewer boxes than fragments.
 *
 * merge.c writes the merged fragments, replace.c commits them in place of their sources. The sections: the fragments of
 * the array, choosing sequences, writing merged fragments, merging one sequence, all sequences.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "model/datatype.h"
#include "model/domain.h"
#include "filter/pipeline.h"
#include "format/schema.h"
#include "format/layout.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"
#include "read/reader.h"
#include "write/dense_boxes.h"
#include "maintain/maintain.h"
#include "label/label.h"

#define CONSOLIDATE_DEFAULT_MEMORY (UINT64_C(1) << 30)
#define DENSE_LOOKAHEAD            32 /* dense: fragments to try after the last one that saved a fragment */
#define CONSOLIDATE_PASSES_MAX     8
#define TOGETHER                   32 /* merges that are committed together, unless they ... */
#define TOGETHER_BYTES             (UINT64_C(1) << 26) /* ... have read as much as this, ... */
#define TOGETHER_MS                250 /* ... or the first one has waited for so long */
#define TIMED_VERSION              15 /* format version since which merged sparse fragments store the times of cells */

typedef struct consolidate_item { /* a committed fragment that no vacuum file names, or one that may yet be committed */
  const char *name;
  tsr_name parsed;
  bool prepared; /* a prepared commit, left for its database to publish */
  int64_t index; /* in the snapshot's fragments if it may be merged, else -1 */
  uint64_t latest; /* the greatest end time of this item and all before it */
  uint64_t cells;
  uint64_t bytes; /* of its files */
  uint64_t tile_bytes; /* of one tile, with all fields, in memory */
} consolidate_item;

typedef struct waiting_merge { /* its fragments are written; it is committed together with others */
  tsr_replacement replacement;
  tsr_snapshot *snapshot; /* has the sources */
} waiting_merge;

typedef struct consolidation {
  tsr_array *array;
  const tsr_consolidate_options *options;
  uint64_t since, as_of;
  uint32_t version; /* format version of the merged fragments */
  bool dense;
  bool keep_times; /* merged fragments store the times of cells */
  tsr_memory memory;
  tsr_arena arena; /* of one pass */
  tsr_snapshot *snapshot; /* of one pass */
  tsr_buffer items; /* of consolidate_item, ordered by start time and name */
  bool split; /* the memory budget has cut a sequence short: another pass may continue */
  bool full; /* max_fragment_bytes has cut a sequence short */
  bool planning; /* merge nothing: `merged` counts the fragments that would be merged */
  tsr_tiers *tiers; /* which runs of a sequence are merged (upkeep.c); NULL: whole sequences */
  waiting_merge *waiting[TOGETHER];
  uint32_t waiting_count;
  uint64_t waiting_since, waiting_bytes; /* tsr__moment of the first one; of the sources of all */
  uint64_t merged; /* fragments */
} consolidation;

static consolidate_item *consolidate_item_at(const consolidation *c, uint64_t i) {
  return (consolidate_item *)(void *)c->items.data + i;
}
static uint64_t item_count(const consolidation *c) { return c->items.size / sizeof(consolidate_item); }

/* ---- The fragments of the array ---------------------------------------------------------------------------------- */

static int add_item(consolidation *c, const char *name, const tsr_name *parsed, bool prepared, tsr_error *error) {
  consolidate_item one = {.parsed = *parsed, .index = -1, .prepared = prepared};
  TSR_TRY(TSR_ARENA_COPY(&c->arena, name, strlen(name), &one.name, error));
  return tsr__buffer_append(&c->items, &one, sizeof one, error);
}

static int add_uncommitted(void *argument, const char *name, const tsr_name *parsed, tsr_error *error) {
  return add_item(argument, name, parsed, true, error);
}

static int compare_items(const void *a, const void *b) {
  const consolidate_item *x = a, *y = b;
  if (x->parsed.start != y->parsed.start) return x->parsed.start < y->parsed.start ? -1 : 1;
  return strcmp(x->name, y->name);
}

static void sort_items(consolidation *c) {
  uint64_t latest = 0;
  if (item_count(c) > 1) qsort(c->items.data, item_count(c), sizeof(consolidate_item), compare_items);
  for (uint64_t i = 0; i < item_count(c); i++) {
    latest = TSR_MAX(latest, consolidate_item_at(c, i)->parsed.end);
    consolidate_item_at(c, i)->latest = latest;
  }
}

/* Maps the names of a snapshot's fragments to the fragments. */
static int map_fragments(const tsr_snapshot *snapshot, tsr_map *by_name, tsr_error *error) {
  for (uint64_t f = 0; f < snapshot->fragment_count; f++)
    TSR_TRY(tsr__map_put(by_name, snapshot->fragments[f].fragment->name, &snapshot->fragments[f], error));
  return TSR_OK;
}

static bool is_named(const consolidation *c, const char *name) {
  for (uint64_t i = 0; i < c->options->fragment_count; i++)
    if (strcmp(c->options->fragments[i], name) == 0) return true;
  return c->options->fragment_count == 0;
}

static bool may_merge(const consolidation *c, const tsr_fragment *fragment) {
  const tsr_fragment_metadata *m = &fragment->metadata;
  if (fragment->parsed.start < c->since || fragment->parsed.end > c->as_of || !is_named(c, fragment->name))
    return false;
  if (c->dense) return m->dense;
  return !c->keep_times || m->has_times || fragment->parsed.start == fragment->parsed.end;
}

/* Sets `bytes` and `tile_bytes` of an item. */
static int consolidate_measure(consolidation *c, consolidate_item *one, tsr_error *error) {
  tsr_fragment *fragment = c->snapshot->fragments[one->index].fragment;
  const tsr_fragment_metadata *m = &fragment->metadata;
  for (uint32_t s = 0; s < m->slot_count && m->tile_count; s++) {
    uint64_t cost;
    if (!m->slots[s].present) continue;
    for (int p = 0; p < TSR_PART_COUNT; p++) one->bytes = tsr__add_sat(one->bytes, m->slots[s].file_size[p]);
    TSR_TRY(tsr__tile_cost(c->array, fragment, s, 0, &cost, error));
    one->tile_bytes = tsr__add_sat(one->tile_bytes, cost);
  }
  tsr__array_files_done(c->array);
  tsr_fragment_info info;
  TSR_TRY(tsr_fragment_describe(c->snapshot, (uint64_t)one->index, &info, error));
  one->cells = info.cells;
  uint64_t rows = 8 * (2 * (uint64_t)m->schema->dimension_count + 3);
  one->tile_bytes = tsr__add_sat(one->tile_bytes, tsr__mul_sat(fragment->cells_per_tile, rows));
  return TSR_OK;
}

/* Lets the store prefetch the metadata of all candidates. */
static int expect_candidates(consolidation *c, tsr_error *error) {
  tsr_fragment **fragments;
  uint64_t n = 0;
  if (!tsr__store_prefetches(c->array->store)) return TSR_OK;
  TSR_TRY(TSR_ALLOC_ARRAY(&c->memory, item_count(c), &fragments, error));
  for (uint64_t i = 0; i < item_count(c); i++)
    if (consolidate_item_at(c, i)->index >= 0)
      fragments[n++] = c->snapshot->fragments[consolidate_item_at(c, i)->index].fragment;
  tsr__fragments_prefetch(c->array, fragments, n);
  tsr__free(fragments);
  return TSR_OK;
}

static int find_items(consolidation *c, tsr_error *error) {
  tsr_map hidden = {.memory = &c->memory}, by_name = {.memory = &c->memory};
  c->items.size = 0;
  int rc = tsr__replaced(c->array, &hidden, error);
  const tsr_commit_list *fragments = &c->array->log.listing->fragments;
  for (uint64_t i = 0; i < fragments->count && rc >= 0; i++)
    if (!tsr__map_get(&hidden, fragments->items[i].name))
      rc = add_item(c, fragments->items[i].name, &fragments->items[i].parsed, fragments->items[i].prepared, error);
  tsr__map_release(&hidden);
  if (rc >= 0) rc = tsr__uncommitted_fragments(c->array, &c->memory, add_uncommitted, c, error);
  sort_items(c);
  if (rc >= 0) rc = map_fragments(c->snapshot, &by_name, error);
  for (uint64_t i = 0; i < item_count(c) && rc >= 0; i++) {
    consolidate_item *one = consolidate_item_at(c, i);
    const tsr_snapshot_fragment *found = tsr__map_get(&by_name, one->name);
    if (found && !one->prepared && may_merge(c, found->fragment)) one->index = found - c->snapshot->fragments;
  }
  tsr__map_release(&by_name);
  if (rc >= 0) rc = expect_candidates(c, error);
  for (uint64_t i = 0; i < item_count(c) && rc >= 0; i++) {
    if (consolidate_item_at(c, i)->index >= 0) rc = consolidate_measure(c, consolidate_item_at(c, i), error);
    if (rc >= 0 && i % 64 == 63) rc = tsr__cancelled(&c->array->environment->memory, error);
  }
  return rc;
}

/* ---- Sequences --------------------------------------------------------------------------------------------------- */

typedef struct fragment_sequence { /* the items first..first + count - 1 */
  uint64_t first, count;
} fragment_sequence;

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static bool same_fields(const tsr_schema *a, const tsr_schema *b) {
  if (a == b) return true;
  if (a->dimension_count != b->dimension_count || a->attribute_count != b->attribute_count) return false;
  for (uint32_t f = 0; f < a->dimension_count + a->attribute_count; f++) {
    const tsr_field *x = &a->fields[f], *y = &b->fields[f];
    if (!same_text(x->name, y->name) || x->datatype != y->datatype || x->values_per_cell != y->values_per_cell ||
        x->nullable != y->nullable || !same_text(x->enumeration, y->enumeration))
      return false;
  }
  return a->cell_order == b->cell_order && a->tile_order == b->tile_order;
}

static const tsr_schema *schema_of(const consolidation *c, uint64_t i) {
  return c->snapshot->fragments[consolidate_item_at(c, i)->index].fragment->metadata.schema;
}

static uint64_t start_of(const consolidation *c, uint64_t first) { return consolidate_item_at(c, first)->parsed.start; }

/* Returns true if an item before the item `first` has times that overlap it. */
static bool is_overlapped(const consolidation *c, uint64_t first) {
  return first > 0 && consolidate_item_at(c, first - 1)->latest >= start_of(c, first);
}

/* The last time of a sequence; only valid if no item before the sequence overlaps it. */
static uint64_t end_of(const consolidation *c, const fragment_sequence *sequence) {
  return consolidate_item_at(c, sequence->first + sequence->count - 1)->latest;
}

/* Returns true if an item outside of the sequence has times that overlap it. Of the items after the sequence only the
 * first needs checking, since items are ordered by start time. */
static bool overlaps_others(const consolidation *c, const fragment_sequence *sequence) {
  const uint64_t behind = sequence->first + sequence->count;
  return is_overlapped(c, sequence->first) || (behind < item_count(c) && start_of(c, behind) <= end_of(c, sequence));
}

static bool may_extend(consolidation *c, const fragment_sequence *sequence, uint64_t bytes, uint64_t tile_bytes) {
  const uint64_t next = sequence->first + sequence->count;
  if (next >= item_count(c) || consolidate_item_at(c, next)->index < 0) return false;
  if (sequence->count == 0) return true;
  if (!same_fields(schema_of(c, sequence->first), schema_of(c, next))) return false;
  if (c->options->max_fragment_bytes &&
      tsr__add_sat(bytes, consolidate_item_at(c, next)->bytes) > c->options->max_fragment_bytes) {
    c->full = true;
    return false;
  }
  if (tsr__add_sat(tile_bytes, consolidate_item_at(c, next)->tile_bytes) > c->memory.limit / 2 &&
      sequence->count >= 2) {
    c->split = true;
    return false;
  }
  return true;
}

/* Returns the longest sequence that begins with the item `first` and that the rules for all arrays allow; count 0 if
 * there is none. */
static fragment_sequence find_sequence(consolidation *c, uint64_t first) {
  fragment_sequence sequence = {first, 0};
  uint64_t bytes = 0, tile_bytes = 0;
  if (is_overlapped(c, first)) return sequence;
  while (may_extend(c, &sequence, bytes, tile_bytes)) {
    bytes = tsr__add_sat(bytes, consolidate_item_at(c, first + sequence.count)->bytes);
    tile_bytes = tsr__add_sat(tile_bytes, consolidate_item_at(c, first + sequence.count)->tile_bytes);
    sequence.count++;
  }
  while (sequence.count && overlaps_others(c, &sequence)) sequence.count--;
  return sequence;
}

static int add_box(const consolidation *c, uint64_t i, tsr_box_set *set, tsr_error *error) {
  const tsr_fragment *fragment = c->snapshot->fragments[consolidate_item_at(c, i)->index].fragment;
  if (fragment->metadata.empty_domain) return TSR_OK;
  return tsr__box_set_add(set, fragment->dense.box_low, fragment->dense.box_high, error);
}

static int add_boxes(const consolidation *c, const fragment_sequence *sequence, tsr_box_set *set, tsr_error *error) {
  for (uint64_t i = sequence->first; i < sequence->first + sequence->count; i++) TSR_TRY(add_box(c, i, set, error));
  return TSR_OK;
}

/* Dense: shortens the sequence to the length at which merging removes the most fragments; to 0 if it would remove none.
 */
static int cut_dense(consolidation *c, fragment_sequence *sequence, tsr_error *error) {
  tsr_box_set set = {.dimensions = c->snapshot->schema->dimension_count, .ends.memory = &c->memory};
  uint64_t best = 0, gain = 0;
  int rc = TSR_OK;
  for (uint64_t n = 1; n <= sequence->count && n <= best + DENSE_LOOKAHEAD && rc >= 0; n++) {
    rc = add_box(c, sequence->first + n - 1, &set, error);
    const uint64_t boxes = tsr__box_set_count(&set);
    const fragment_sequence part = {sequence->first, n};
    if (rc < 0 || boxes >= n || n - boxes <= gain || (!layout_has_commits_folder(c->version) && boxes > 1)) continue;
    if (boxes > TSR_BOXES_MAX || overlaps_others(c, &part)) continue;
    gain = n - boxes;
    best = n;
  }
  tsr__buffer_release(&set.ends);
  sequence->count = best;
  return rc;
}

/* ---- Writing merged fragments ------------------------------------------------------------------------------------ */

typedef struct merging { /* the merge of one sequence */
  consolidation *c;
  fragment_sequence sequence;
  tsr_merge_plan plan;
  const tsr_schema *schema; /* of the merged fragments */
  tsr_merge_conditions conditions;
  tsr_replacement replacement;
} merging;

static tsr_fragment_target target_of(merging *m, const char *directory, const tsr_interval *box) {
  const consolidation *c = m->c;
  return (tsr_fragment_target){.environment = c->array->environment,
                               .store = c->array->store,
                               .directory = directory,
                               .metadata_name = TSR_FILE_FRAGMENT_METADATA,
                               .schema = m->schema,
                               .version = c->version,
                               .key = tsr__array_key(c->array),
                               .box = box,
                               .has_times = m->plan.keep_times,
                               .has_delete_metadata = m->conditions.has_deletes && !m->plan.purge,
                               .processed_count = m->conditions.count,
                               .processed = m->conditions.names,
                               .memory = m->plan.memory,
                               .window_bytes = c->memory.limit / 8,
                               .threads = m->plan.threads,
                               .durable = true};
}

static int write_sparse(merging *m, tsr_error *error) {
  uint64_t cells = 0;
  for (uint32_t i = 0; i < m->plan.count; i++) {
    tsr_fragment_info info;
    TSR_TRY(tsr_fragment_describe(m->plan.snapshot, m->plan.fragments[i], &info, error));
    tsr__work_more(m->c->array->environment, info.cells);
  }
  char directory[160];
  TSR_TRY(tsr__replacement_add(&m->replacement, directory, error));
  const tsr_fragment_target target = target_of(m, directory, NULL);
  TSR_TRY(tsr__merge_sparse(&m->plan, &m->conditions, &target, &cells, error));
  if (!cells) tsr__replacement_end(&m->replacement); /* the merge has purged all cells */
  return TSR_OK;
}

static int write_box(merging *m, const uint64_t *ends, tsr_error *error) {
  const tsr_grid *grid;
  const uint32_t n = m->schema->dimension_count;
  TSR_TRY(tsr__array_grid(m->c->array, m->schema, &grid, error));
  uint64_t *low;
  TSR_TRY(TSR_ARENA_ARRAY(&m->c->arena, 2 * (uint64_t)n, &low, error));
  uint64_t *high = low + n;
  tsr_interval *box;
  TSR_TRY(TSR_ARENA_ARRAY(&m->c->arena, n, &box, error));
  for (uint32_t d = 0; d < n; d++) {
    low[d] = ends[2 * d];
    high[d] = ends[2 * d + 1];
    tsr__key_value(m->schema->fields[d].datatype, grid->low_key[d] + low[d], box[d].low);
    tsr__key_value(m->schema->fields[d].datatype, grid->low_key[d] + high[d], box[d].high);
  }
  char directory[160];
  TSR_TRY(tsr__replacement_add(&m->replacement, directory, error));
  const tsr_fragment_target target = target_of(m, directory, box);
  return tsr__merge_dense(&m->plan, low, high, &target, error);
}

static int write_dense(merging *m, tsr_error *error) {
  tsr_box_set set = {.dimensions = m->schema->dimension_count, .ends.memory = &m->c->memory};
  int rc = add_boxes(m->c, &m->sequence, &set, error);
  for (uint64_t i = 0; rc >= 0 && i < tsr__box_set_count(&set); i++) {
    const uint64_t *ends = (const uint64_t *)(const void *)set.ends.data + i * 2 * set.dimensions;
    uint64_t cells = 1;
    for (uint32_t d = 0; d < set.dimensions; d++) cells = tsr__mul_sat(cells, ends[2 * d + 1] - ends[2 * d] + 1);
    tsr__work_more(m->c->array->environment, cells);
  }
  for (uint64_t i = 0; i < tsr__box_set_count(&set) && rc >= 0; i++)
    rc = write_box(m, (const uint64_t *)(const void *)set.ends.data + i * 2 * set.dimensions, error);
  tsr__buffer_release(&set.ends);
  return rc;
}

/* ---- Merging one sequence ---------------------------------------------------------------------------------------- */

/* Returns true if the merge may drop deleted cells. It must not if a fragment outside of the sequence may have older
 * versions of these cells: without the deleted cell, such a version would become visible. */
static bool may_purge(const merging *m) {
  const consolidation *c = m->c;
  if (!c->options->purge_deleted || !m->plan.keep_times) return false;
  if (m->schema->allows_duplicates) return true;
  for (uint64_t i = 0; i < item_count(c); i++)
    if ((i < m->sequence.first || i >= m->sequence.first + m->sequence.count) &&
        consolidate_item_at(c, i)->parsed.start <= m->replacement.end)
      return false;
  return true;
}

/* Returns the newest schema among the sequence's fragments, which all have the same fields. It is the array's newest
 * only if a fragment was written with that, so one that is ahead of the clock plays no part. */
static const tsr_schema *choose_schema(const consolidation *c, const fragment_sequence *sequence) {
  const tsr_schema *newest = schema_of(c, sequence->first);
  for (uint64_t i = sequence->first + 1; i < sequence->first + sequence->count; i++)
    if (strcmp(schema_of(c, i)->name, newest->name) > 0) newest = schema_of(c, i);
  return newest;
}

/* Fills `fragments` with the indices of the sequence's fragments in the plan's snapshot, and the list of sources. */
static int find_sources(merging *m, uint32_t *fragments, tsr_error *error) {
  const consolidation *c = m->c;
  const tsr_snapshot *snapshot = m->plan.snapshot;
  tsr_map by_name = {.memory = m->plan.memory};
  for (uint64_t i = 0; i < m->sequence.count && snapshot == c->snapshot; i++) {
    fragments[i] = (uint32_t)consolidate_item_at(c, m->sequence.first + i)->index;
    m->replacement.sources[i] = snapshot->fragments[fragments[i]].fragment;
  }
  if (snapshot == c->snapshot) return TSR_OK;
  int rc = map_fragments(snapshot, &by_name, error);
  for (uint64_t i = 0; i < m->sequence.count && rc >= 0; i++) {
    const char *name = consolidate_item_at(c, m->sequence.first + i)->name;
    const tsr_snapshot_fragment *found = tsr__map_get(&by_name, name);
    if (!found) {
      rc = tsr__fail(error, TSR_ABORT, "fragment %s was merged or vacuumed by another process meanwhile", name);
      break;
    }
    fragments[i] = (uint32_t)(found - snapshot->fragments);
    m->replacement.sources[i] = found->fragment;
  }
  tsr__map_release(&by_name);
  return rc;
}

/* Finds a snapshot with the sequence's schema for the plan: the one of this pass, if it has that schema. Earlier merges
 * of the pass have not touched its other fragments, and tsr__replacements_commit detects changes by others. So the cost
 * of a merge depends on what it merges, not on the whole array. */
static int find_snapshot(merging *m, tsr_error *error) {
  consolidation *c = m->c;
  if (c->snapshot->schema != m->schema)
    return tsr_snapshot_open(c->array, m->schema, TSR_TIME_BEGIN, c->as_of, &m->plan.snapshot, error);
  m->plan.snapshot = c->snapshot;
  tsr__snapshot_hold(c->snapshot);
  return TSR_OK;
}

/* Fills the plan and the replacement. */
static int plan_merge(merging *m, tsr_error *error) {
  consolidation *c = m->c;
  m->schema = choose_schema(c, &m->sequence);
  m->replacement.duplicates = m->schema->allows_duplicates;
  m->replacement.start = start_of(c, m->sequence.first);
  m->replacement.end = end_of(c, &m->sequence);
  TSR_TRY(find_snapshot(m, error));
  uint32_t *fragments;
  TSR_TRY(TSR_ARENA_ARRAY(&c->arena, m->sequence.count, &fragments, error));
  TSR_TRY(TSR_ARENA_ARRAY(&c->arena, m->sequence.count, &m->replacement.sources, error));
  m->plan.fragments = fragments;
  TSR_TRY(find_sources(m, fragments, error));
  m->plan.count = m->replacement.source_count = (uint32_t)m->sequence.count;
  m->plan.keep_times = c->keep_times;
  m->plan.purge = may_purge(m);
  TSR_TRY(TSR_ARENA_ARRAY(&c->arena, c->dense ? TSR_BOXES_MAX : 1, &m->replacement.names, error));
  return tsr__merge_conditions(&m->plan, &c->arena, &m->conditions, error);
}

/* Returns the newest time among the deletes whose cells the merge drops; 0 if there is none. */
static uint64_t newest_purged(const merging *m) {
  uint64_t newest = 0;
  for (uint32_t i = 0; i < m->conditions.count; i++) {
    const char *slash = strrchr(m->conditions.names[i], '/'), *name = slash ? slash + 1 : m->conditions.names[i];
    tsr_name parsed;
    if (tsr__name_parse(name, strcspn(name, "."), &parsed)) newest = TSR_MAX(newest, parsed.end);
  }
  return newest;
}

typedef struct purge_note {
  uint64_t before[2], range[2]; /* `from` and `until` of all purges: as they were noted, and with this one */
  bool had; /* `before` was noted */
} purge_note;

static int write_note(tsr_array *array, const uint64_t range[2], tsr_error *error) {
  const tsr_metadatum note = {.key = TSR_PURGED_KEY,
                              .key_size = strlen(TSR_PURGED_KEY),
                              .datatype = TSR_UINT64,
                              .count = 2,
                              .value = range,
                              .value_size = 2 * sizeof *range};
  return tsr_array_set_metadata(array, &note, error);
}

/* Notes in the array's metadata which states lose cells to this purge, since nothing else may show it (array/kept.c).
 * The note comes before the merge is committed: a process that dies in between leaves a past that is refused although
 * it is whole, instead of one that lacks cells in silence. */
static int note_purge(merging *m, purge_note *note, tsr_error *error) {
  tsr_array *array = m->c->array;
  tsr_metadata *metadata;
  note->range[0] = m->replacement.start;
  note->range[1] = newest_purged(m);
  TSR_TRY(tsr_array_metadata(array, TSR_TIME_BEGIN, TSR_TIME_NOW, &metadata, error));
  note->had = tsr__purge_noted(metadata, note->before);
  if (note->had) {
    note->range[0] = TSR_MIN(note->range[0], note->before[0]);
    note->range[1] = TSR_MAX(note->range[1], note->before[1]);
  }
  tsr_metadata_close(metadata);
  return write_note(array, note->range, error);
}

/* Takes the note back after the merge has given way to others, as far as that is possible. */
static void take_note_back(merging *m, const purge_note *note) {
  tsr_error unseen;
  if (note->had) (void)write_note(m->c->array, note->before, &unseen);
  else (void)tsr_array_delete_metadata(m->c->array, TSR_PURGED_KEY, strlen(TSR_PURGED_KEY), &unseen);
}

/* Counts merges that are committed. */
static void count_merges(consolidation *c, const tsr_merges *merges, uint32_t committed) {
  for (uint32_t i = 0; i < committed; i++) {
    c->merged += merges->items[i]->source_count;
    if (c->tiers) c->tiers->merged += merges->items[i]->source_count;
  }
  if (c->tiers) c->tiers->merges += committed;
}

/* Commits a merge that purges deleted cells, with its note. */
static int commit_purge(merging *m, tsr_error *error) {
  tsr_replacement *one = &m->replacement;
  const tsr_merges merges = {1, &one};
  uint32_t committed;
  purge_note note;
  TSR_TRY(note_purge(m, &note, error));
  const int rc = tsr__replacements_commit(&merges, &committed, error);
  /* after other errors the merge may be committed all the same */
  if (rc == TSR_ABORT || rc == TSR_BUSY || rc == TSR_INTERRUPT) take_note_back(m, &note);
  if (rc >= 0) count_merges(m->c, &merges, committed);
  return rc;
}

/* Gives up the merges that wait, unless they are committed. */
static void end_waiting(consolidation *c) {
  for (uint32_t i = 0; i < c->waiting_count; i++) {
    tsr__replacement_end(&c->waiting[i]->replacement);
    tsr_snapshot_close(c->waiting[i]->snapshot);
  }
  c->waiting_count = 0;
  c->waiting_bytes = 0;
}

/* Commits the merges that wait. */
static int commit_waiting(consolidation *c, tsr_error *error) {
  tsr_replacement *items[TOGETHER];
  const tsr_merges merges = {c->waiting_count, items};
  uint32_t committed;
  if (c->waiting_count == 0) return TSR_OK;
  for (uint32_t i = 0; i < c->waiting_count; i++) items[i] = &c->waiting[i]->replacement;
  const int rc = tsr__replacements_commit(&merges, &committed, error);
  count_merges(c, &merges, committed);
  end_waiting(c);
  return rc;
}

/* Lets a merge wait for the next ones: takes over its replacement and its snapshot. Commits all that wait if there are
 * enough of them. */
static int let_wait(merging *m, tsr_error *error) {
  consolidation *c = m->c;
  waiting_merge *waiting;
  TSR_TRY(TSR_ARENA_ARRAY(&c->arena, 1, &waiting, error));
  *waiting = (waiting_merge){m->replacement, m->plan.snapshot};
  m->replacement = (tsr_replacement){.array = c->array};
  m->plan.snapshot = NULL;
  if (c->waiting_count == 0) c->waiting_since = tsr__moment();
  c->waiting[c->waiting_count++] = waiting;
  for (uint64_t i = m->sequence.first; i < m->sequence.first + m->sequence.count; i++)
    c->waiting_bytes = tsr__add_sat(c->waiting_bytes, consolidate_item_at(c, i)->bytes);
  if (c->waiting_count < TOGETHER && c->waiting_bytes < TOGETHER_BYTES &&
      tsr__moment() - c->waiting_since < TOGETHER_MS)
    return TSR_OK;
  return commit_waiting(c, error);
}

/* Merges a sequence. The merge may wait for others (commit_waiting). */
static int merge_sequence(consolidation *c, const fragment_sequence *sequence, tsr_error *error) {
  merging m = {
      .c = c, .sequence = *sequence, .replacement = {.array = c->array, .memory = &c->memory, .version = c->version}};
  m.plan.array = c->array;
  m.plan.memory = &c->memory;
  m.plan.threads = c->options->threads ? c->options->threads : c->array->threads;
  int rc = plan_merge(&m, error);
  bool useful = rc >= 0 && (sequence->count > 1 || (m.plan.purge && m.conditions.has_deletes));
  if (useful) rc = c->dense ? write_dense(&m, error) : write_sparse(&m, error);
  if (rc >= 0 && useful && m.replacement.count)
    rc = m.plan.purge && m.conditions.has_deletes ? commit_purge(&m, error) : let_wait(&m, error);
  tsr__replacement_end(&m.replacement);
  tsr__map_release(&m.conditions.numbers);
  tsr_snapshot_close(m.plan.snapshot);
  return rc;
}

/* ---- All sequences ----------------------------------------------------------------------------------------------- */

/* Fails if a fragment that the caller has named does not exist or cannot be merged. */
static int check_names(const consolidation *c, tsr_error *error) {
  for (uint64_t n = 0; n < c->options->fragment_count; n++) {
    const char *name = c->options->fragments[n];
    uint64_t i = 0;
    while (i < item_count(c) && strcmp(consolidate_item_at(c, i)->name, name) != 0) i++;
    if (i == item_count(c))
      return tsr__fail(error, TSR_NOT_FOUND, "no fragment '%s' is committed, or another one has replaced it", name);
    if (consolidate_item_at(c, i)->index < 0)
      return tsr__fail(error, TSR_UNSUPPORTED,
                       "fragment %s cannot be merged: it is not within the times given, or has several times but not "
                       "those of its cells",
                       name);
  }
  return TSR_OK;
}

/* Fails if `sequence` does not consist of all fragments that the caller has named. */
static int check_named(const consolidation *c, const fragment_sequence *sequence, tsr_error *error) {
  uint64_t candidates = 0;
  for (uint64_t i = 0; i < item_count(c); i++) candidates += consolidate_item_at(c, i)->index >= 0;
  if (sequence->count == candidates) return TSR_OK;
  if (c->split)
    return tsr__fail(error, TSR_CONSTRAINT,
                     "the fragments named cannot be merged with each other within memory_mb: it has "
                     "room for %llu of %llu",
                     (unsigned long long)sequence->count, (unsigned long long)candidates);
  if (c->full)
    return tsr__fail(error, TSR_CONSTRAINT,
                     "the fragments named cannot be merged with each other: max_fragment_mb is reached "
                     "by %llu of %llu",
                     (unsigned long long)sequence->count, (unsigned long long)candidates);
  return tsr__fail(error, TSR_CONSTRAINT,
                   "the fragments named cannot be merged with each other: other fragments are between them in time, "
                   "their fields differ, or their boxes do not join");
}

/* Returns true if a run of items may be merged by itself. A run of a dense array may be shortened. */
static int may_merge_run(consolidation *c, fragment_sequence *run, tsr_error *error) {
  uint64_t tile_bytes = 0;
  for (uint64_t i = run->first; i < run->first + run->count; i++)
    tile_bytes = tsr__add_sat(tile_bytes, consolidate_item_at(c, i)->tile_bytes);
  if (tile_bytes > c->memory.limit / 2 || overlaps_others(c, run)) return 0;
  if (c->dense) TSR_TRY(cut_dense(c, run, error));
  return run->count >= 2;
}

/* Merges the runs of a sequence that make a tier, the newest first. */
static int merge_runs(consolidation *c, const fragment_sequence *sequence, tsr_error *error) {
  tsr_tiers *tiers = c->tiers;
  tsr_tier_fragment *fragments;
  TSR_TRY(TSR_ARENA_ARRAY(&c->arena, sequence->count, &fragments, error));
  for (uint64_t i = 0; i < sequence->count; i++) {
    const consolidate_item *item = consolidate_item_at(c, sequence->first + i);
    fragments[i] = (tsr_tier_fragment){item->cells, item->bytes};
  }
  uint64_t count = sequence->count, end = count;
  while (tsr__tier_choose(fragments, count, &tiers->rules, &end, &tiers->waits)) {
    fragment_sequence run = {sequence->first + end - tiers->rules.fanout, tiers->rules.fanout};
    const int may = may_merge_run(c, &run, error);
    if (may < 0) return may;
    if (!may) {
      end--;
      continue;
    }
    end -= tiers->rules.fanout;
    const bool begun = tiers->merges > 0 || c->waiting_count > 0;
    if (tiers->merges_left == 0 || (begun && tiers->deadline && tsr__moment() >= tiers->deadline)) {
      tiers->waits++;
      continue;
    }
    TSR_TRY(tsr__cancelled(&c->array->environment->memory, error));
    tsr_tier_fragment merged = {.bytes = 0}; /* how well it compresses is not known: let no limit hide what it makes */
    for (uint64_t i = end; i < end + run.count; i++) {
      merged.cells = tsr__add_sat(merged.cells, fragments[i].cells);
      tiers->rules.bytes -= TSR_MIN(tiers->rules.bytes, fragments[i].bytes);
    }
    TSR_TRY(merge_sequence(c, &run, error));
    tiers->merges_left--;
    fragments[end] = merged; /* this pass looks only at those before it */
    memmove(&fragments[end + 1], &fragments[end + run.count], (count - end - run.count) * sizeof *fragments);
    count -= run.count - 1;
  }
  end = count;
  tiers->again |= tsr__tier_choose(fragments, count, &tiers->rules, &end, &tiers->waits_next);
  return TSR_OK;
}

/* Goes over all fragments once and merges each sequence it finds. *merged: number of fragments merged by this pass. */
static int run_pass(consolidation *c, bool first, uint64_t *merged, tsr_error *error) {
  const bool named = c->options->fragment_count > 0;
  const uint64_t least = c->options->purge_deleted ? 1 : 2, before = c->merged;
  c->split = c->full = false;
  if (!first) TSR_TRY(tsr__log_list(&c->array->log, true, true, error)); /* open_schema has listed it */
  if (!c->planning) TSR_TRY(tsr__staged_vacuums_finish(&c->array->log, error));
  if (!c->planning) TSR_TRY(tsr__revert_duplicating_merges(c->array, error));
  TSR_TRY(tsr_snapshot_open(c->array, NULL, TSR_TIME_BEGIN, c->as_of, &c->snapshot, error));
  TSR_TRY(find_items(c, error));
  TSR_TRY(check_names(c, error));
  for (uint64_t i = 0; i < item_count(c);) {
    if (consolidate_item_at(c, i)->index < 0) {
      i++;
      continue;
    }
    TSR_TRY(tsr__cancelled(&c->array->environment->memory, error));
    fragment_sequence sequence = find_sequence(c, i);
    if (c->tiers) {
      TSR_TRY(merge_runs(c, &sequence, error));
      i += TSR_MAX(sequence.count, 1);
      continue;
    }
    if (c->dense && sequence.count) TSR_TRY(cut_dense(c, &sequence, error));
    if (named) TSR_TRY(check_named(c, &sequence, error));
    if (sequence.count < least) {
      i++;
      continue;
    }
    if (c->planning) c->merged += sequence.count;
    else TSR_TRY(merge_sequence(c, &sequence, error));
    i = sequence.first + sequence.count;
  }
  TSR_TRY(commit_waiting(c, error));
  *merged = c->merged - before;
  return TSR_OK;
}

/* Fails for a sparse array with a lossy filter on a dimension: re-encoding decoded coordinates might move them. */
static int check_filters(const tsr_schema *schema, tsr_error *error) {
  for (uint32_t d = 0; d < schema->dimension_count && !schema->dense; d++)
    if (tsr__pipeline_is_lossy(tsr__schema_pipeline(schema, d)))
      return tsr__fail(error, TSR_UNSUPPORTED,
                       "dimension '%s' goes through scale_float, which changes coordinates: such fragments are not "
                       "merged",
                       schema->fields[d].name);
  return TSR_OK;
}

static int consolidate_fragments(consolidation *c, const tsr_schema *schema, tsr_error *error) {
  int rc = check_filters(schema, error);
  if (rc >= 0) rc = tsr__schema_check_writable(schema, error);
  if (rc >= 0 && !c->planning) rc = tsr__merge_conflict_finish(c->array, &c->memory, c->version, error);
  if (rc >= 0 && !c->planning && c->array->store->renames_in_steps)
    rc = tsr__log_list(&c->array->log, true, true, error);
  uint64_t merged = 1;
  for (int pass = 0; pass < CONSOLIDATE_PASSES_MAX && rc >= 0 && merged; pass++) {
    tsr__arena_init(&c->arena, &c->memory);
    c->array->uncached = true;
    rc = run_pass(c, pass == 0, &merged, error);
    tsr_error unseen;
    if (rc < 0) (void)commit_waiting(c, &unseen); /* what failed is another merge */
    end_waiting(c);
    c->array->uncached = false;
    tsr_snapshot_close(c->snapshot);
    c->snapshot = NULL;
    tsr__arena_release(&c->arena);
    if (!c->split || c->planning || c->tiers) break;
  }
  tsr__buffer_release(&c->items);
  return rc;
}

static int open_schema(consolidation *c, const tsr_schema **schema, tsr_error *error) {
  TSR_TRY(tsr__log_list(&c->array->log, true, !c->planning, error));
  TSR_TRY(tsr__array_schema_at(c->array, UINT64_MAX, schema, error));
  if ((*schema)->key_value) return tsr__fail(error, TSR_READONLY, "key-value stores are not written");
  TSR_TRY(tsr__schema_write_version(*schema, &c->version, error));
  c->dense = (*schema)->dense;
  c->keep_times = !c->dense && c->version >= TIMED_VERSION;
  return TSR_OK;
}

static int consolidate(consolidation *c, tsr_maintenance what, tsr_error *error) {
  const tsr_schema *schema;
  TSR_TRY(open_schema(c, &schema, error));
  const tsr_maintained object = {c->array->environment, c->array->store, tsr__array_key(c->array), c->array, c->version,
                                 c->array->path};
  if (what == TSR_MAINTAIN_COMMITS) return tsr__consolidate_commits(c->array, c->version, &c->merged, error);
  if (what == TSR_MAINTAIN_FRAGMENT_META)
    return tsr__consolidate_footers(c->array, c->version, c->since, c->as_of, &c->merged, error);
  if (what == TSR_MAINTAIN_METADATA) return tsr__consolidate_metadata(&object, c->since, c->as_of, &c->merged, error);
  if (what != TSR_MAINTAIN_FRAGMENTS)
    return tsr__fail(error, TSR_ERROR, "only one kind of object is consolidated at a time");
  if (!layout_is_consolidated(c->version))
    return tsr__fail(error, TSR_UNSUPPORTED, "fragments of format version %u are not consolidated", c->version);
  return consolidate_fragments(c, schema, error);
}

static void consolidate_begin(consolidation *c, tsr_array *array, const tsr_consolidate_options *options) {
  *c = (consolidation){.array = array, .options = options, .since = options->since};
  const uint64_t now = tsr__array_present(array); /* a commit of the open transaction may yet be withdrawn */
  c->as_of = options->as_of ? TSR_MIN(options->as_of, now) : now;
  tsr__memory_init(&c->memory, &array->memory,
                   options->memory_bytes ? options->memory_bytes : CONSOLIDATE_DEFAULT_MEMORY, "memory_mb");
  c->items.memory = &c->memory;
}

typedef struct consolidate_call { /* what is done to the array, and then to the arrays of its labels */
  tsr_maintenance what;
  const tsr_consolidate_options *options;
  uint64_t merged;
} consolidate_call;

static int consolidate_array(void *argument, tsr_array *array, tsr_error *error) {
  consolidate_call *call = argument;
  consolidation c;
  consolidate_begin(&c, array, call->options);
  tsr_work work;
  tsr_work_begin(array->environment, &work, "consolidate", array->path, 0);
  int rc = consolidate(&c, call->what, error);
  tsr_work_end(array->environment, &work);
  if (rc < 0) return tsr__wrap(error, "array %s", array->path);
  call->merged += c.merged;
  return TSR_OK;
}

int tsr_array_consolidate(tsr_array *array, tsr_maintenance what, const tsr_consolidate_options *options,
                          uint64_t *merged, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_consolidate_options own;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_consolidate_options, purge_deleted, options, &own, error));
  consolidate_call call = {.what = what, .options = &own};
  TSR_TRY(consolidate_array(&call, array, error));
  const bool named = own.fragment_count > 0; /* those fragments are the array's own */
  if (!named) TSR_TRY(tsr__label_arrays_each(array, consolidate_array, &call, error));
  *merged = call.merged;
  return TSR_OK;
}

int tsr__consolidate_tiers(tsr_array *array, const tsr_consolidate_options *options, tsr_tiers *tiers,
                           tsr_error *error) {
  consolidation c;
  consolidate_begin(&c, array, options);
  c.tiers = tiers;
  c.planning = tiers->merges_left == 0;
  tiers->again = false;
  tiers->waits_next = 0;
  tsr_work work;
  tsr_work_begin(array->environment, &work, "consolidate", array->path, 0);
  const int rc = consolidate(&c, TSR_MAINTAIN_FRAGMENTS, error);
  tsr_work_end(array->environment, &work);
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}

int tsr_array_mergeable(tsr_array *array, const tsr_consolidate_options *options, uint64_t *fragments,
                        tsr_error *error) {
  TSR_OWN_ERROR(error);
  consolidation c;
  tsr_consolidate_options own;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_consolidate_options, purge_deleted, options, &own, error));
  consolidate_begin(&c, array, &own);
  c.planning = true;
  int rc = consolidate(&c, TSR_MAINTAIN_FRAGMENTS, error);
  *fragments = rc < 0 ? 0 : c.merged;
  if (rc == TSR_UNSUPPORTED || rc == TSR_READONLY) return TSR_OK;
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}
