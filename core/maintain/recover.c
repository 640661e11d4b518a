/* recover.c: settles prepared commits: publishes or undoes commits that were prepared and neither published nor
 * abandoned, as the host's record of its database decides. The first half publishes a commit late, after a merge has
 * spanned its time; the second half, from "Settling markers" on, is the recovery itself.
 *
 * A commit keeps its own time, at which readers of its database have seen it all along, unless a merged fragment spans
 * that time: begins at it or before, and ends after it. Fragments are ordered by their start times. So the commit would
 * be newer than the whole merged fragment and hide cells in it that were written after the commit (spanned.c says when
 * that is so). Such a commit is published late, as another commit:
 *
 *   1. The cells of the prepared commit that readers of its database still see are written as an ordinary commit, the
 *      late commit, with its own marker and its own time, the current time. No reader can see it yet. Delete conditions
 *      go into it unchanged, with their names and times.
 *   2. A record that names the late commit is written (prepared.c). It is created exclusively: of two processes one
 *      succeeds, and the other removes its late commit.
 *   3. The late commit is published, by a rename. From now on the prepared commit does not count.
 *   4. The marker, the staged file and the fragments of the prepared commit are removed.
 *
 * A crash before step 2 leaves a prepared commit that no database has committed; recovery removes it and starts over.
 * After step 2 the record names the late commit. If that is published, only step 4 remains. Otherwise it is cancelled,
 * by removing the file that its publication would rename, and everything starts over.
 *
 * Other processes may commit between steps 1 and 3. A commit made after the cells were chosen must not be older than
 * the late commit: if there is a new commit once the late commit's time has been chosen, everything starts over. And a
 * writer in progress may have a fragment with a later time than the prepared commit, and commit it at any moment. Then
 * the late commit gets the time of the prepared commit, so that it does not hide that fragment either.
 */
#include <stdio.h>
#include <string.h>

#include "maintain/maintain.h"
#include "store/store.h"
#include "model/datatype.h"
#include "model/domain.h"
#include "format/fragment_metadata.h"
#include "format/layout.h"
#include "array/array.h"
#include "log/log.h"
#include "read/reader.h"
#include "write/writer.h"
#include "environment/environment.h"

#define RECOVER_LATE_ATTEMPTS 8 /* while other processes commit */
#define LIST_MAX              (UINT64_C(1) << 30) /* bytes of a staged commit */

typedef struct late {
  tsr_array *array;
  const tsr_prepared_marker *prepared; /* the prepared commit */
  const char *file; /* path of its database's file, or NULL */
  uint64_t time; /* of its fragments */
  tsr_memory memory;
  tsr_arena arena;
  tsr_log_host host; /* the array's, restored at the end */
  const tsr_schema *schema; /* of the commit's fragments; NULL: they are all replaced */
  tsr_snapshot *snapshot; /* the current state in that schema, in which the prepared commit counts as committed */
  tsr_map seen; /* names of all fragments that are committed in that snapshot */
  tsr_commits carried; /* entries of the staged list, with the commit's delete conditions */
  tsr_buffer staged; /* bytes of that list */
  uint64_t total, kept; /* cells of the prepared commit, and of the late one */
  bool dense; /* the array is dense */
  bool spanned; /* a merged fragment spans the commit's time */
  bool in_progress; /* a writer has an uncommitted fragment of a later time */
} late;

/* ---- Whether a commit is late ------------------------------------------------------------------------------------ */

/* Returns true if the fragment belongs to the prepared commit. */
static bool is_own_fragment(const late *l, const char *name) {
  for (uint64_t i = 0; i < l->prepared->fragment_count; i++)
    if (strcmp(l->prepared->fragments[i], name) == 0) return true;
  return false;
}

/* tsr_array_host.committed during recovery: the prepared commit counts; the array's own callback decides on
 * others. */
static int counts_as_committed(void *argument, const char *commit, tsr_error *error) {
  const late *l = argument;
  if (strcmp(commit, l->prepared->commit) == 0) return 1;
  return l->host.committed ? l->host.committed(l->host.argument, commit, error) : 0;
}

/* Returns 1 if a committed fragment spans the commit's time and does not store the times of its cells, 0 if not. Sparse
 * fragments may store times since format version 15, but need not: their metadata tells. */
static int spans_commit(late *l, const tsr_committed *item, tsr_error *error) {
  tsr_fragment *fragment;
  if (tsr__late_spans(&item->parsed, l->time, l->dense)) return 1;
  if (l->dense || item->parsed.start > l->time || item->parsed.end <= l->time) return 0;
  TSR_TRY(tsr__array_fragment(l->array, item, NULL, 0, &fragment, error));
  const int rc = !fragment->metadata.has_times;
  tsr__array_fragment_drop(l->array, fragment);
  return rc;
}

/* Takes an uncommitted fragment into account: a merge in progress may span the commit; a writer may be in progress. */
static int note_uncommitted(void *argument, const char *name, const tsr_name *parsed, tsr_error *error) {
  late *l = argument;
  (void)error;
  if (is_own_fragment(l, name)) return TSR_OK;
  if (parsed->start < parsed->end) l->spanned |= tsr__late_spans(parsed, l->time, l->dense);
  else l->in_progress |= parsed->start > l->time;
  return TSR_OK;
}

/* Returns 1 if the commit must be published late, 0 if it can keep its time. Sets time, dense, spanned and
 * in_progress. */
static int is_late(late *l, tsr_error *error) {
  const tsr_schema *newest;
  tsr_map hidden = {.memory = &l->memory};
  tsr_name parsed;
  if (l->prepared->fragment_count == 0) return 0;
  if (!tsr__name_parse(l->prepared->fragments[0], strlen(l->prepared->fragments[0]), &parsed)) return 0;
  l->time = parsed.start;
  l->spanned = l->in_progress = false;
  TSR_TRY(tsr__log_list(&l->array->log, true, true, error));
  TSR_TRY(tsr__array_schema_at(l->array, UINT64_MAX, &newest, error));
  if (!newest->dense && newest->allows_duplicates) return 0;
  l->dense = newest->dense;
  int rc = tsr__replaced(l->array, &hidden, error);
  const tsr_commit_list *fragments = &l->array->log.listing->fragments;
  bool merged = false;
  for (uint64_t i = 0; rc >= 0 && i < l->prepared->fragment_count; i++)
    merged |= tsr__map_get(&hidden, l->prepared->fragments[i]) != NULL; /* it was published and merged itself */
  for (uint64_t i = 0; rc >= 0 && !merged && !l->spanned && i < fragments->count; i++) {
    if (tsr__map_get(&hidden, fragments->items[i].name)) continue;
    rc = spans_commit(l, &fragments->items[i], error);
    l->spanned = rc > 0;
  }
  tsr__map_release(&hidden);
  if (rc < 0 || merged) return rc < 0 ? rc : 0;
  if (l->dense || !layout_has_timed_merges(newest->version) || l->spanned)
    TSR_TRY(tsr__uncommitted_fragments(l->array, &l->memory, note_uncommitted, l, error));
  return l->spanned;
}

/* ---- The commit's visible cells ---------------------------------------------------------------------------------- */

/* Opens a snapshot in which the prepared commit counts as committed. Sets seen, schema and snapshot. */
static int open_present(late *l, tsr_error *error) {
  tsr_snapshot *all;
  l->array->log.host = (tsr_log_host){.committed = counts_as_committed, .argument = l};
  TSR_TRY(tsr__log_list(&l->array->log, true, true, error));
  const tsr_commit_list *fragments = &l->array->log.listing->fragments;
  for (uint64_t i = 0; i < fragments->count; i++) {
    char *name;
    TSR_TRY(TSR_ARENA_COPY(&l->arena, fragments->items[i].name, strlen(fragments->items[i].name), &name, error));
    TSR_TRY(tsr__map_put(&l->seen, name, name, error));
  }
  TSR_TRY(tsr_snapshot_open(l->array, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &all, error));
  l->schema = NULL; /* all fragments of a commit have the same schema */
  for (uint64_t i = 0; i < all->fragment_count && !l->schema; i++)
    if (is_own_fragment(l, all->fragments[i].fragment->name)) l->schema = all->fragments[i].fragment->metadata.schema;
  tsr_snapshot_close(all);
  if (!l->schema) return TSR_OK; /* no cell of the commit is visible any more */
  return tsr_snapshot_open(l->array, l->schema, TSR_TIME_BEGIN, TSR_TIME_NOW, &l->snapshot, error);
}

/* Sets l->total to the cells of the prepared commit, and l->kept to 0. */
static int count_cells(late *l, tsr_error *error) {
  l->total = l->kept = 0;
  for (uint64_t i = 0; i < l->prepared->fragment_count; i++) {
    const tsr_committed *item = NULL;
    const tsr_commit_list *fragments = &l->array->log.listing->fragments;
    tsr_fragment *fragment;
    for (uint64_t n = 0; n < fragments->count && !item; n++)
      if (strcmp(fragments->items[n].name, l->prepared->fragments[i]) == 0) item = &fragments->items[n];
    if (!item)
      return tsr__fail(error, TSR_CORRUPT, "%s: fragment %s is gone", l->prepared->commit, l->prepared->fragments[i]);
    TSR_TRY(tsr__array_fragment(l->array, item, NULL, 0, &fragment, error));
    const tsr_fragment_metadata *m = &fragment->metadata;
    uint64_t cells = m->dense && !m->empty_domain;
    for (uint32_t d = 0; d < m->schema->dimension_count && cells; d++)
      cells = tsr__mul_sat(cells, tsr__add_sat(fragment->dense.box_high[d] - fragment->dense.box_low[d], 1));
    for (uint64_t t = 0; t < m->tile_count && !m->dense; t++) cells += tsr__fragment_tile_cells(m, t);
    l->total = tsr__add_sat(l->total, cells);
    tsr__array_fragment_drop(l->array, fragment);
  }
  return TSR_OK;
}

/* Reads the delete conditions of the prepared commit. If it has any, its staged file is a list (.con), which contains
 * them. */
static int read_carried(late *l, tsr_error *error) {
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  uint64_t stem;
  if (!tsr__name_suffix(l->prepared->commit, TSR_SUFFIX_CONSOLIDATED, &stem)) return TSR_OK;
  tsr__prepared_paths(l->prepared->commit, marker, staged);
  TSR_TRY(tsr__store_read_all(l->array->store, staged, LIST_MAX, &l->staged, error));
  tsr_input in = tsr__input(l->staged.data, l->staged.size);
  return tsr__commits_decode(&in, &l->arena, &l->carried, error);
}

/* ---- Copying cells ----------------------------------------------------------------------------------------------- */

/* Returns how many rowids a fragment has (fragment.c). */
static uint64_t rows_of(const tsr_fragment *f) {
  const tsr_fragment_metadata *m = &f->metadata;
  if (m->tile_count == 0) return 0;
  return tsr__add_sat(tsr__mul_sat(m->tile_count - 1, f->cells_per_tile),
                      m->dense ? f->cells_per_tile : m->last_tile_cells);
}

/* Returns true if a batch belongs to the prepared commit. Without a requested order, all cells of a batch come from one
 * fragment, so its first cell decides. */
static bool is_own_batch(const late *l, const tsr_batch *batch) {
  const int64_t row = tsr_batch_rowid(batch, tsr_batch_index(batch, 0));
  if (!batch->written) return false;
  for (uint64_t i = 0; i < l->snapshot->fragment_count; i++) {
    const tsr_fragment *f = l->snapshot->fragments[i].fragment;
    if (is_own_fragment(l, f->name) && row >= f->row_base && (uint64_t)(row - f->row_base) < rows_of(f)) return true;
  }
  return false;
}

static int append_batch(late *l, tsr_reader *reader, const tsr_batch *batch, tsr_column *columns, tsr_writer *writer,
                        tsr_error *error) {
  const uint32_t fields = l->schema->dimension_count + l->schema->attribute_count;
  uint32_t *block = NULL;
  for (uint32_t f = 0; f < fields; f++) {
    const tsr_column *column;
    TSR_TRY(tsr_reader_column(reader, f, &column, error));
    columns[f] = *column;
  }
  if (!batch->selection && batch->first) {
    TSR_TRY(TSR_ALLOC_ARRAY(&l->memory, batch->count, &block, error));
    for (uint64_t i = 0; i < batch->count; i++) block[i] = (uint32_t)(batch->first + i);
  }
  const int rc = tsr_writer_append(writer, columns, block ? block : batch->selection, batch->count, error);
  tsr__free(block);
  l->kept += batch->count;
  return rc;
}

/* Limits the request to the non-empty domain of the commit's fragment, if it has only one. */
static void make_ranges(const late *l, tsr_ranges *ranges, tsr_range *bounds) {
  const tsr_fragment_metadata *only = NULL;
  for (uint64_t i = 0; i < l->snapshot->fragment_count && l->prepared->fragment_count == 1; i++)
    if (is_own_fragment(l, l->snapshot->fragments[i].fragment->name))
      only = &l->snapshot->fragments[i].fragment->metadata;
  for (uint32_t d = 0; d < l->schema->dimension_count; d++) {
    ranges[d] = (tsr_ranges){.all = true};
    if (!only || only->empty_domain || !l->schema->fields[d].cell_size) continue;
    bounds[d] = (tsr_range){.low = only->non_empty_domain[d].low, .high = only->non_empty_domain[d].high};
    ranges[d] = (tsr_ranges){.ranges = &bounds[d], .count = 1};
  }
}

/* Copies the cells of the prepared commit that readers of its database see, batch by batch. */
static int copy_cells(late *l, tsr_writer *writer, tsr_error *error) {
  const uint32_t dimensions = l->schema->dimension_count, fields = dimensions + l->schema->attribute_count;
  tsr_reader *reader = NULL;
  const tsr_batch *batch;
  tsr_range *room;
  tsr_column *columns;
  TSR_TRY(TSR_ARENA_ARRAY(&l->arena, fields, &columns, error));
  tsr_ranges *ranges;
  TSR_TRY(TSR_ARENA_ARRAY(&l->arena, dimensions, &ranges, error));
  TSR_TRY(TSR_ARENA_ARRAY(&l->arena, dimensions, &room, error));
  make_ranges(l, ranges, room);
  const tsr_request request = {.dimensions = ranges};
  int rc = tsr_reader_open(l->snapshot, &reader, error);
  if (rc >= 0) rc = tsr_reader_start(reader, &request, error);
  while (rc >= 0 && (rc = tsr_reader_next(reader, &batch, error)) > 0)
    if (is_own_batch(l, batch)) rc = append_batch(l, reader, batch, columns, writer, error);
  tsr_reader_close(reader);
  return rc;
}

/* ---- Copying boxes ----------------------------------------------------------------------------------------------- */

typedef struct own_box { /* a box of one fragment; argument of write_box */
  late *l;
  const tsr_writer *writer;
  uint32_t fragment; /* index in the snapshot */
  uint64_t *low, *high; /* ordinals, inclusive */
} own_box;

static int write_box(void *argument, const tsr_fragment_target *target, tsr_error *error) {
  own_box *b = argument;
  const tsr_merge_plan plan = {.array = b->l->array,
                               .snapshot = b->l->snapshot,
                               .count = 1,
                               .fragments = &b->fragment,
                               .memory = target->memory,
                               .threads = target->threads};
  return tsr__merge_dense(&plan, b->low, b->high, target, error);
}

/* Fills `set` with the boxes of a fragment of the snapshot that no newer fragment covers. Returns 1; 0 if a newer
 * fragment is sparse, which old versions could write into dense arrays: its box does not say which cells it has. */
static int find_visible_boxes(late *l, uint64_t index, tsr_box_set *set, tsr_error *error) {
  const tsr_snapshot_fragment *items = l->snapshot->fragments;
  set->ends.size = 0;
  TSR_TRY(tsr__box_set_add(set, items[index].box_low, items[index].box_high, error));
  for (uint64_t i = index + 1; i < l->snapshot->fragment_count; i++) {
    const tsr_fragment_metadata *m = &items[i].fragment->metadata;
    if (is_own_fragment(l, items[i].fragment->name) || m->empty_domain || m->tile_count == 0) continue;
    if (!m->dense) return 0;
    TSR_TRY(tsr__box_set_cut(set, items[i].box_low, items[i].box_high, error));
  }
  return 1;
}

static int copy_box(late *l, uint64_t index, const uint64_t *ends, tsr_writer *writer, tsr_error *error) {
  const uint32_t n = l->schema->dimension_count;
  const tsr_grid *grid = &l->snapshot->grid;
  uint64_t *room;
  TSR_TRY(TSR_ARENA_ARRAY(&l->arena, 2 * (uint64_t)n, &room, error));
  own_box b = {.l = l, .fragment = (uint32_t)index, .low = room, .high = room + n};
  tsr_interval *box;
  TSR_TRY(TSR_ARENA_ARRAY(&l->arena, n, &box, error));
  for (uint32_t d = 0; d < n; d++) {
    b.low[d] = ends[2 * d];
    b.high[d] = ends[2 * d + 1];
    tsr__key_value(l->schema->fields[d].datatype, grid->low_key[d] + b.low[d], box[d].low);
    tsr__key_value(l->schema->fields[d].datatype, grid->low_key[d] + b.high[d], box[d].high);
  }
  return tsr__commit_fragments_add_box(writer, box, write_box, &b, error);
}

/* Counts the visible boxes of the prepared commit and, if `writer` is not NULL, copies them. Returns 1; 0 if they
 * cannot be determined (find_visible_boxes). */
static int copy_boxes(late *l, tsr_writer *writer, uint64_t *count, tsr_error *error) {
  tsr_box_set set = {.dimensions = l->schema->dimension_count, .ends.memory = &l->memory};
  int rc = 1;
  *count = 0;
  for (uint64_t i = 0; rc > 0 && i < l->snapshot->fragment_count; i++) {
    const tsr_fragment *f = l->snapshot->fragments[i].fragment;
    if (!is_own_fragment(l, f->name) || f->metadata.empty_domain) continue;
    if ((rc = find_visible_boxes(l, i, &set, error)) <= 0) break;
    *count += tsr__box_set_count(&set);
    if (writer) l->kept = tsr__add_sat(l->kept, tsr__box_set_cells(&set));
    for (uint64_t b = 0; writer && rc > 0 && b < tsr__box_set_count(&set); b++) {
      const uint64_t *ends = (const uint64_t *)(const void *)set.ends.data + b * 2 * set.dimensions;
      if ((rc = copy_box(l, i, ends, writer, error)) >= 0) rc = 1;
    }
  }
  tsr__buffer_release(&set.ends);
  return rc;
}

/* Copies boxes if they can be determined. Below format version 12 a commit has at most one box: several boxes are
 * copied as cells, and the writer makes one box of them, with the current values of the cells in between
 * (dense_boxes.c). */
static int copy_dense(late *l, tsr_writer *writer, tsr_error *error) {
  uint64_t count;
  const int rc = copy_boxes(l, NULL, &count, error);
  if (rc < 0) return rc;
  if (rc == 0 || (!layout_has_commits_folder(writer->version) && count > 1)) return copy_cells(l, writer, error);
  return copy_boxes(l, writer, &count, error);
}

/* ---- The late commit --------------------------------------------------------------------------------------------- */

/* Returns true if a fragment has been committed since the snapshot was opened. The writer has relisted the array to
 * choose its time. */
static bool has_changed(const late *l) {
  const tsr_commit_list *fragments = &l->array->log.listing->fragments;
  for (uint64_t i = 0; i < fragments->count; i++)
    if (!tsr__map_get(&l->seen, fragments->items[i].name)) return true;
  return false;
}

/* Prepares, records and publishes the late commit. Returns 1; 0 if another process has committed meanwhile or has
 * recorded its own late commit. A late commit without cells and conditions is only recorded. */
static int publish_late_commit(late *l, tsr_writer *writer, tsr_error *error) {
  tsr_late record = {.total = l->total};
  if (l->kept || l->carried.count) TSR_TRY(tsr_writer_prepare(writer, error));
  if (has_changed(l)) return 0;
  record.dropped = l->total - TSR_MIN(l->kept, l->total);
  memcpy(record.commit, tsr_writer_commit(writer), strlen(tsr_writer_commit(writer)) + 1);
  const int rc = tsr__late_write(l->array->store, l->prepared->commit, &record, error);
  if (rc == TSR_EXISTS) return 0;
  TSR_TRY(rc);
  if (*record.commit) TSR_TRY(tsr_writer_publish(writer, error));
  return 1;
}

/* Writes and publishes the late commit; same result as publish_late_commit. */
static int write_late_commit(late *l, tsr_error *error) {
  tsr_writer *writer = NULL;
  const char *owner = l->prepared->owner;
  const tsr_writer_host host = {.owner = owner && tsr__prepared_owner_valid(owner) ? owner : NULL,
                                .owner_file = l->file};
  tsr_writer_options options = {.host = &host, .time = l->in_progress ? l->time : 0};
  int rc = open_present(l, error);
  if (rc >= 0) rc = count_cells(l, error);
  if (rc >= 0) rc = read_carried(l, error);
  options.schema = l->schema;
  if (rc >= 0) rc = tsr_writer_open(l->array, &options, &writer, error);
  if (rc >= 0) {
    writer->commit.options.carried = &l->carried;
    writer->commit.options.listed = true;
    tsr_writer_trust(writer, true); /* they were tested when they were written */
    if (l->schema) rc = l->schema->dense ? copy_dense(l, writer, error) : copy_cells(l, writer, error);
  }
  if (rc >= 0) rc = publish_late_commit(l, writer, error);
  if (rc <= 0 && writer) (void)tsr_writer_abandon(writer, NULL);
  tsr_writer_close(writer);
  return rc;
}

static void release_late(late *l) {
  tsr_snapshot_close(l->snapshot);
  l->snapshot = NULL;
  l->carried = (tsr_commits){0};
  tsr__buffer_release(&l->staged);
  tsr__map_release(&l->seen);
  tsr__arena_reset(&l->arena);
  l->array->log.host = l->host;
}

/* ---- The record of an earlier attempt ---------------------------------------------------------------------------- */

/* Returns 1 if any file shows that the late commit is published: its own may have been consolidated and vacuumed. */
static int late_is_published(late *l, const char *commit, const tsr_prepared_marker *prepared, tsr_error *error) {
  tsr_published published;
  int rc = tsr__prepared_is_published(l->array->store, commit, error);
  if (rc || !prepared->commit) return rc;
  TSR_TRY(tsr__published_open(&l->array->log, &published, error));
  rc = tsr__published_has(&published, prepared, error);
  tsr__published_release(&published);
  return rc;
}

/* Cancels the recorded late commit and removes the record. Returns 1 if the late commit is published; then nothing is
 * cancelled. The staged list is removed first: publishing would rename it, so from then on no process can publish the
 * commit. */
static int cancel_late(late *l, const char *commit, tsr_error *error) {
  tsr_store *store = l->array->store;
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH], path[TSR_COMMIT_PATH];
  tsr_prepared_marker prepared = {0};
  if (!tsr__prepared_paths(commit, marker, staged)) return TSR_OK;
  const bool new_layout = strncmp(commit, TSR_DIR_COMMITS "/", strlen(TSR_DIR_COMMITS "/")) == 0;
  int rc = tsr__prepared_read(store, marker, &l->arena, &prepared, error);
  if (rc >= 0) rc = late_is_published(l, commit, &prepared, error);
  if (rc) return rc;
  if (*staged) TSR_TRY(tsr__prepared_unmark(store, staged, error));
  if ((rc = tsr__prepared_is_published(store, commit, error)) != 0)
    return rc; /* another process has renamed it first */
  for (uint64_t i = 0; i < prepared.fragment_count; i++) {
    snprintf(path, sizeof path, "%s%.127s", new_layout ? TSR_DIR_FRAGMENTS "/" : "", prepared.fragments[i]);
    TSR_TRY(tsr__store_remove_tree(store, path, error));
  }
  TSR_TRY(tsr__prepared_unmark(store, marker, error));
  return tsr__late_remove(store, l->prepared->commit, error);
}

/* Settles the record of an earlier attempt. Returns 1 if the commit has been published late; 0 if there is no record,
 * or its late commit has now been cancelled. */
static int settle_record(late *l, tsr_error *error) {
  tsr_late record;
  const int rc = tsr__late_read(l->array->store, l->prepared->commit, &record, error);
  if (rc <= 0) return rc;
  return *record.commit ? cancel_late(l, record.commit, error) : 1;
}

static int finish_late(late *l, tsr_error *error) {
  for (int i = 0; i < RECOVER_LATE_ATTEMPTS; i++) {
    int rc = settle_record(l, error);
    if (rc) return rc;
    rc = tsr__prepared_is_complete(l->array->store, l->prepared, error);
    if (rc <= 0) return rc; /* it was published and merged before, or it is lost: see recover_publish */
    if ((rc = is_late(l, error)) <= 0) return rc;
    rc = write_late_commit(l, error);
    release_late(l);
    if (rc && rc != TSR_ABORT) return rc;
  }
  return tsr__fail(error, TSR_BUSY, "%s: other processes keep committing while it is published", l->prepared->commit);
}

/* Publishes a prepared commit, which its database has committed, if it cannot keep its time. Returns 1 if its visible
 * cells are published: the caller then removes the prepared commit; 0 if the commit can keep its time, or its files are
 * gone. `file` is the path of the database's file, or NULL. Relists the array. TSR_BUSY if other processes keep
 * committing meanwhile. */
static int publish_late(tsr_array *array, const tsr_prepared_marker *prepared, const char *file, tsr_error *error) {
  late l = {.array = array, .prepared = prepared, .file = file, .host = array->log.host};
  tsr__memory_init(&l.memory, &array->memory, UINT64_MAX, "late");
  tsr__arena_init(&l.arena, &l.memory);
  l.seen.memory = l.staged.memory = &l.memory;
  const int rc = finish_late(&l, error);
  release_late(&l);
  tsr__arena_release(&l.arena);
  return rc;
}

/* ---- Settling markers -------------------------------------------------------------------------------------------- */

/* Every step here may be interrupted and repeated, and two processes may recover the same array at the same time. A
 * marker (prepared.c) is settled by four questions, in this order:
 *
 *   1. Is its writer alive? Then the marker is left alone: the writer publishes or undoes its commit itself.
 *   2. Does any file show that the commit has been published (commit_files.c)? Then only the marker is removed.
 *   3. What does the host say: has its database committed it, and does the commit belong to that database?
 *   4. Before undoing: is it certain that the writer is dead? If the marker says "locked" but locks cannot be tested,
 *      it stays.
 *
 * A marker for which a question has no answer is left as it is. tsr_array_drop_orphans does the same for databases that
 * are gone; there the marker's age decides instead of the database. */

#define RECOVER_DAY (UINT64_C(24) * 3600 * 1000) /* milliseconds */

typedef struct recover_found { /* a prepared commit */
  const char *marker; /* its path */
  tsr_prepared_marker prepared; /* its content */
  tsr_writer_state writer;
  bool publish; /* its database has committed it */
} recover_found;

typedef struct recovery {
  tsr_array *array;
  const char *file; /* path of the database file, whose directory is synced before a commit is published; or NULL */
  tsr_recover_action (*decide)(void *argument, const tsr_prepared *prepared);
  void *argument;
  tsr_arena arena;
  tsr_buffer markers; /* of recover_found */
  tsr_published published; /* commits that are published according to some file of the array */
  uint64_t changed; /* prepared commits that were published or removed */
  uint64_t refused; /* prepared commits that disown had to leave */
  char why[256]; /* the first of these, and the reason */
} recovery;

/* ---- Markers ----------------------------------------------------------------------------------------------------- */

/* Sets f->writer. Returns 1; 0 if the marker is gone; an error. */
static int find_writer(const recovery *r, recover_found *f, tsr_error *error) {
  tsr_error one;
  bool locked;
  f->writer = TSR_WRITER_UNKNOWN;
  if (!f->prepared.locked) return 1;
  const int rc = tsr__prepared_is_locked(r->array->store, f->marker, &locked, &one);
  if (rc == TSR_NOT_FOUND) return 0; /* published or undone meanwhile */
  if (rc == TSR_NOMEM) return *error = one, rc;
  if (rc >= 0) f->writer = locked ? TSR_WRITER_LIVES : TSR_WRITER_GONE;
  return 1;
}

/* Reads the markers that the array's listing has into r->markers. */
static int find_markers(recovery *r, tsr_error *error) {
  const tsr_commit_list *prepared = &r->array->log.listing->prepared.markers;
  for (uint64_t i = 0; i < prepared->count; i++) {
    recover_found one = {0};
    const char *path = prepared->items[i].path; /* belongs to the listing, which recovery refreshes */
    TSR_TRY(TSR_ARENA_COPY(&r->arena, path, strlen(path), &one.marker, error));
    int rc = tsr__prepared_read(r->array->store, one.marker, &r->arena, &one.prepared, error);
    if (rc > 0) rc = find_writer(r, &one, error);
    if (rc > 0) rc = tsr__buffer_append(&r->markers, &one, sizeof one, error);
    if (rc < 0) return rc;
  }
  return TSR_OK;
}

static uint64_t marker_count(const recovery *r) { return r->markers.size / sizeof(recover_found); }
static recover_found *marker_at(const recovery *r, uint64_t i) { return (recover_found *)(void *)r->markers.data + i; }

/* Sets *age to the milliseconds since the marker was changed; 0 if its time is in the future. */
static int find_age(const recovery *r, const char *marker, uint64_t *age, tsr_error *error) {
  uint64_t modified;
  const uint64_t now = tsr__environment_now();
  TSR_TRY(tsr__store_modified(r->array->store, marker, &modified, error));
  *age = modified < now ? now - modified : 0;
  return TSR_OK;
}

static tsr_prepared recover_describe(const recover_found *f, bool published, uint64_t age) {
  return (tsr_prepared){.commit = f->prepared.commit,
                        .marker = f->marker,
                        .owner = f->prepared.owner,
                        .host = f->prepared.host,
                        .file = f->prepared.file,
                        .fragment_count = f->prepared.fragment_count,
                        .fragments = f->prepared.fragments,
                        .writer = f->writer,
                        .published = published,
                        .age = age};
}

/* ---- Publish and undo -------------------------------------------------------------------------------------------- */

/* Removes the staged file and the fragments of a prepared commit. The caller removes the marker afterwards: while it
 * exists, an interrupted undo can be repeated. */
static int undo_commit(const recovery *r, const tsr_prepared_marker *prepared, tsr_error *error) {
  tsr_store *store = r->array->store;
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH], path[TSR_COMMIT_PATH];
  if (!tsr__prepared_paths(prepared->commit, marker, staged)) return TSR_OK;
  bool new_layout = strncmp(prepared->commit, TSR_DIR_COMMITS "/", strlen(TSR_DIR_COMMITS "/")) == 0;
  if (new_layout) TSR_TRY(tsr__store_own(store, TSR_DIR_COMMITS, error));
  if (new_layout) TSR_TRY(tsr__store_own(store, TSR_DIR_FRAGMENTS, error));
  if (new_layout && *staged) TSR_TRY(tsr__prepared_unmark(store, staged, error));
  for (uint64_t i = 0; i < prepared->fragment_count; i++) {
    snprintf(path, sizeof path, "%s%.127s", new_layout ? TSR_DIR_FRAGMENTS "/" : "", prepared->fragments[i]);
    TSR_TRY(tsr__store_remove_tree(store, path, error));
  }
  return TSR_OK;
}

/* Publishes a commit that cannot keep its time. Returns 1 if it did; 0 if the commit can keep its time. publish_late
 * relists the array, so r->published is reopened. */
static int recover_publish_late(recovery *r, const recover_found *f, tsr_error *error) {
  const int rc = publish_late(r->array, &f->prepared, r->file, error);
  if (rc < 0) return rc;
  tsr__published_release(&r->published);
  TSR_TRY(tsr__published_open(&r->array->log, &r->published, error));
  if (rc == 0) return 0;
  /* Another commit has replaced it. The marker is removed before the fragments: a marker without its fragments would
   * look like a lost commit. */
  TSR_TRY(tsr__prepared_unmark(r->array->store, f->marker, error));
  TSR_TRY(undo_commit(r, &f->prepared, error));
  return 1;
}

/* Publishes a commit that its database has committed. If its files are gone, either it was published and merged and
 * only its marker is left, which returns 0; or it is lost, which is an error. */
static int recover_publish(recovery *r, const recover_found *f, tsr_error *error) {
  const tsr_prepared_marker *prepared = &f->prepared;
  const int rc = recover_publish_late(r, f, error);
  if (rc) return rc;
  const int complete = tsr__prepared_is_complete(r->array->store, prepared, error);
  if (complete < 0) return complete;
  if (complete == 0 && tsr__listing_shows_published(r->array->log.listing, prepared)) return 0;
  if (complete == 0) return tsr__prepared_fail_gone(prepared->commit, error);
  if (r->file) TSR_TRY(tsr__prepared_sync_owner(&r->array->memory, r->file, error));
  return tsr__prepared_publish(r->array->store, prepared->commit, true, error);
}

/* Settles one prepared commit. Returns 1 if it was undone, 0 if not. A commit that must be published is only recorded
 * in f->publish: publishing waits until all other commits are settled. */
static int recover_settle(recovery *r, recover_found *f, tsr_error *error) {
  tsr_store *store = r->array->store;
  const tsr_prepared prepared = recover_describe(f, false, 0);
  if (f->writer == TSR_WRITER_LIVES) return 0;
  int rc = tsr__published_has(&r->published, &f->prepared, error);
  if (rc < 0) return rc;
  if (rc > 0) { /* the process that published it may have died in between: complete its work */
    TSR_TRY(rc = tsr__prepared_is_published(store, f->prepared.commit, error));
    if (rc > 0) TSR_TRY(tsr__prepared_publish(store, f->prepared.commit, true, error));
    TSR_TRY(tsr__prepared_unmark(store, f->marker, error));
    return 0;
  }
  switch (r->decide(r->argument, &prepared)) {
  case TSR_RECOVER_LEAVE: return 0;
  case TSR_RECOVER_PUBLISH: f->publish = true; return 0;
  case TSR_RECOVER_UNDO:
    if (f->prepared.locked && f->writer != TSR_WRITER_GONE) return 0;
    TSR_TRY(undo_commit(r, &f->prepared, error));
    break;
  }
  TSR_TRY(tsr__prepared_unmark(store, f->marker, error));
  return 1;
}

static int publish_one(recovery *r, recover_found *f, tsr_error *error) {
  const int rc = f->publish ? recover_publish(r, f, error) : 0;
  if (rc >= 0 && f->publish) TSR_TRY(tsr__prepared_unmark(r->array->store, f->marker, error));
  return rc;
}

static int settle_all(recovery *r, int (*one)(recovery *r, recover_found *f, tsr_error *error), tsr_error *error) {
  int rc = TSR_OK;
  for (uint64_t i = 0; rc >= 0 && i < marker_count(r); i++) {
    rc = one(r, marker_at(r, i), error);
    if (rc > 0) r->changed++;
  }
  return rc;
}

static bool all_live(const recovery *r) {
  for (uint64_t i = 0; i < marker_count(r); i++)
    if (marker_at(r, i)->writer != TSR_WRITER_LIVES) return false;
  return true;
}

static void recover_release(recovery *r) {
  tsr__buffer_release(&r->markers);
  tsr__arena_release(&r->arena);
}

/* Returns true if an error while reading the published commits must be reported. A damaged file is not reported here:
 * recovery then leaves all markers alone. */
static bool must_stop(int rc) {
  return rc == TSR_NOMEM || rc == TSR_INTERRUPT || rc == TSR_BUSY || rc == TSR_IO || rc == TSR_UNREACHABLE;
}

/* Completes merges that died before their vacuum file was renamed, and settles all markers. Undoes before it publishes:
 * leftovers of an earlier attempt at publishing late must be undone first, because they look like the fragment of a
 * writer in progress. */
static int recover_array(recovery *r, tsr_error *error) {
  tsr_error doubt;
  TSR_TRY(tsr__log_list(&r->array->log, true, false, error));
  TSR_TRY(tsr__staged_vacuums_finish(&r->array->log, error));
  TSR_TRY(tsr__revert_duplicating_merges(r->array, error));
  TSR_TRY(find_markers(r, error));
  if (all_live(r)) return TSR_OK;
  int rc = tsr__published_open(&r->array->log, &r->published, &doubt);
  if (rc < 0 && must_stop(rc)) return *error = doubt, rc;
  if (rc >= 0) {
    rc = settle_all(r, recover_settle, error);
    if (rc >= 0) rc = settle_all(r, publish_one, error);
    tsr__published_release(&r->published);
    TSR_TRY(rc);
  }
  return tsr__log_list(&r->array->log, true, true, error);
}

int tsr_array_recover(tsr_array *array, const char *file,
                      tsr_recover_action (*decide)(void *argument, const tsr_prepared *prepared), void *argument,
                      uint64_t *changed, tsr_error *error) {
  TSR_OWN_ERROR(error);
  recovery r = {.array = array, .file = file, .decide = decide, .argument = argument, .markers.memory = &array->memory};
  tsr__arena_init(&r.arena, &array->memory);
  const int rc = recover_array(&r, error);
  if (changed) *changed += r.changed;
  recover_release(&r);
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}

/* ---- Commits whose database is gone ------------------------------------------------------------------------------ */

static void recover_refuse(recovery *r, const char *marker, const char *why) {
  if (!r->refused++) snprintf(r->why, sizeof r->why, "%.127s %s", marker, why);
}

/* Removes one prepared commit, unless it must stay. Returns 1 if it was removed, 0 if not. If locks cannot be tested,
 * only the age decides. */
static int disown_one(recovery *r, recover_found *f, tsr_error *error) {
  tsr_store *store = r->array->store;
  const tsr_prepared prepared = recover_describe(f, false, 0);
  uint64_t age;
  const int published = tsr__published_has(&r->published, &f->prepared, error);
  if (published < 0) return published;
  if (f->writer == TSR_WRITER_LIVES) {
    if (!published) recover_refuse(r, f->marker, "has a writer that lives");
    return 0;
  }
  if (!published) {
    const tsr_recover_action verdict = r->decide(r->argument, &prepared);
    if (verdict == TSR_RECOVER_LEAVE) return 0;
    if (verdict == TSR_RECOVER_PUBLISH) {
      const int complete = tsr__prepared_is_complete(store, &f->prepared, error);
      if (complete != 0) return complete < 0 ? complete : 0; /* its database can still publish it */
    }
    const int rc = find_age(r, f->marker, &age, error);
    if (rc == TSR_NOT_FOUND) return 0; /* the marker is gone: another process has settled the commit */
    TSR_TRY(rc);
    if (verdict == TSR_RECOVER_UNDO && age < RECOVER_DAY) {
      recover_refuse(r, f->marker, "is not 24 hours old");
      return 0;
    }
    TSR_TRY(undo_commit(r, &f->prepared, error));
  }
  TSR_TRY(tsr__prepared_unmark(store, f->marker, error));
  return 1;
}

/* Removes incomplete markers that are a day old. Their fragments still have provisional names, and a vacuum removes
 * them. */
static int remove_incomplete_markers(recovery *r, tsr_error *error) {
  tsr_listing entries = {.memory = &r->array->memory};
  tsr_store *store = r->array->store;
  int rc = tsr__store_list(store, TSR_DIR_COMMITS, &entries, error);
  if (rc == TSR_NOT_FOUND) return TSR_OK;
  for (uint64_t i = 0; rc >= 0 && i < entries.count; i++) {
    uint64_t stem, age;
    tsr_prepared_marker prepared;
    bool locked = false;
    tsr_error one;
    if (entries.entries[i].kind != TSR_ENTRY_FILE ||
        !tsr__name_suffix(entries.entries[i].name, TSR_SUFFIX_PENDING, &stem))
      continue;
    tsr_path p = tsr__path_of(TSR_DIR_COMMITS, entries.entries[i].name, "");
    if ((rc = tsr__prepared_read(store, p.text, &r->arena, &prepared, error)) == TSR_NOT_FOUND) rc = 1; /* it is gone */
    if (rc != 0) continue; /* a complete marker, or an error */
    if (find_age(r, p.text, &age, &one) < 0 || age < RECOVER_DAY)
      continue; /* the marker is gone, or its writer may still be writing it */
    if (tsr__prepared_is_locked(store, p.text, &locked, &one) >= 0 && locked) continue;
    rc = tsr__prepared_unmark(store, p.text, error);
    r->changed += rc >= 0;
  }
  tsr__listing_release(&entries);
  return rc < 0 ? rc : TSR_OK;
}

static int disown_array(recovery *r, tsr_error *error) {
  TSR_TRY(tsr__published_open(&r->array->log, &r->published, error));
  int rc = find_markers(r, error);
  if (rc >= 0) rc = settle_all(r, disown_one, error);
  if (rc >= 0) rc = remove_incomplete_markers(r, error);
  tsr__published_release(&r->published);
  TSR_TRY(rc);
  TSR_TRY(tsr__log_list(&r->array->log, true, true, error));
  if (!r->refused) return TSR_OK;
  return tsr__fail(error, TSR_BUSY, "%s: %llu prepared commits were removed, %llu are left", r->why,
                   (unsigned long long)r->changed, (unsigned long long)r->refused);
}

int tsr_array_drop_orphans(tsr_array *array, tsr_recover_action (*decide)(void *argument, const tsr_prepared *prepared),
                           void *argument, uint64_t *changed, tsr_error *error) {
  TSR_OWN_ERROR(error);
  recovery r = {.array = array, .decide = decide, .argument = argument, .markers.memory = &array->memory};
  tsr__arena_init(&r.arena, &array->memory);
  const int rc = disown_array(&r, error);
  if (changed) *changed += r.changed;
  recover_release(&r);
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}

int tsr_array_has_marker(tsr_array *array, const char *commit, tsr_error *error) {
  TSR_OWN_ERROR(error);
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  bool exists = false;
  if (!tsr__prepared_paths(commit, marker, staged))
    return tsr__fail(error, TSR_RANGE, "'%s' is not the path of a commit", commit);
  if (!strcmp(commit, array->log.own_commit)) return 0;
  const int rc = tsr__store_find(array->store, marker, &exists, error);
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : exists;
}

/* ---- Listing prepared commits ------------------------------------------------------------------------------------ */

static int show_all(recovery *r, int (*show)(void *argument, const tsr_prepared *prepared), tsr_error *error) {
  TSR_TRY(tsr__published_open(&r->array->log, &r->published, error));
  int rc = find_markers(r, error);
  for (uint64_t i = 0; rc >= 0 && i < marker_count(r); i++) {
    const recover_found *f = marker_at(r, i);
    uint64_t age = 0;
    const int published = tsr__published_has(&r->published, &f->prepared, error);
    rc = published < 0 ? published : find_age(r, f->marker, &age, error);
    if (rc == TSR_NOT_FOUND) { /* the marker is gone; show the others */
      rc = TSR_OK;
      continue;
    }
    const tsr_prepared prepared = recover_describe(f, published > 0, age);
    if (rc >= 0 && (rc = show(r->argument, &prepared)) < 0) rc = tsr__fail(error, rc, "stopped by the caller");
  }
  tsr__published_release(&r->published);
  TSR_TRY(rc);
  return tsr__log_list(&r->array->log, true, true, error);
}

int tsr_array_prepared(tsr_array *array, int (*show)(void *argument, const tsr_prepared *prepared), void *argument,
                       tsr_error *error) {
  TSR_OWN_ERROR(error);
  recovery r = {.array = array, .argument = argument, .markers.memory = &array->memory};
  tsr__arena_init(&r.arena, &array->memory);
  const int rc = show_all(&r, show, error);
  recover_release(&r);
  return rc < 0 ? tsr__wrap(error, "array %s", array->path) : TSR_OK;
}
