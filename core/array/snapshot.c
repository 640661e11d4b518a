/* snapshot.c: makes snapshots: chooses from an array's listing the fragments and delete conditions that are visible
 * between two times.
 *
 * In view. A committed fragment or delete is in view if its whole time range [t1, t2] is within [since, as_of]. If the
 * schema in force is sparse, fragments of version 15 and later are in view if the ranges overlap at all: their cells
 * have times, by which readers filter them. Vacuum files follow the same rule: a vacuum file in view hides the
 * fragments that it names. So a merged fragment replaces its sources for exactly those reads that see it.
 *
 * Making one: list the array; choose the visible fragments; find the delete conditions that may apply to each; take the
 * footers from consolidated files or read them with all threads; place prepared commits; compute the non-empty domain.
 * Others may vacuum meanwhile, so a missing file causes a new listing and another attempt (make_with_retries).
 *
 * Sharing. Snapshots are immutable. An array keeps the last few and shares them among callers that request the same
 * times while the listing is the same. A snapshot that was opened "as of now" may be shared until `next_change`, the
 * first later time at which something that is already committed comes into view.
 *
 * Growing. A commit by which the listing has only become longer at its end makes no new snapshot necessary, only a
 * longer one: it shares the list of fragments with a kept snapshot, appends what is new (find_base, grow), and takes
 * over the rest. Whatever else may have changed what is in view makes a new one: a late commit, a vacuum file, a
 * delete, a prepared commit, a time that has come. So does a list without room for what is new: the new one has room
 * for a quarter more, so that all of this together stays in proportion to the number of commits.
 *
 * Prepared commits that the host has committed are in view at their own time. A merge may have spanned that time:
 * spanned.c decides which cells are newer.
 *
 * A snapshot of the past also knows what merges and purges have taken from it (kept.c), so that a request for it fails.
 *
 * Sections: a snapshot under construction; conditions; choosing the fragments in view; fragments; non-empty domain,
 * rowids; opening; sharing; sorted runs on top; closing.
 */
#include "array/array.h"

#include <string.h>
#include <stdio.h>

#include "base/arithmetic.h"
#include "base/clock.h"
#include "model/domain.h"
#include "format/layout.h"
#include "log/log.h"
#include "store/store.h"
#include "model/datatype.h"
#include "format/fragment_metadata.h"
#include "format/schema.h"
#include "environment/environment.h"

/* ---- A snapshot under construction ------------------------------------------------------------------------------- */

#define UNWRITTEN_MAX      ((uint64_t)1 << 60) /* smaller domains get a rowid for each never-written cell, ... */
#define ROWS_FOR_FRAGMENTS ((uint64_t)1 << 62) /* ... if about half of all rowids remain for fragments */
#define READ_TOGETHER      16 /* with this many unread fragments or more, all threads read their files */
#define SNAPSHOT_ATTEMPTS  8 /* since others may vacuum meanwhile */

typedef struct condition_entry {
  tsr_condition condition;
  tsr_arena arena;
  tsr_buffer content;
} condition_entry;

typedef struct snapshot_builder { /* a snapshot under construction */
  tsr_array *array;
  tsr_snapshot *snapshot;
  const tsr_committed **visible; /* fragments in view, oldest first */
  uint64_t count; /* of `visible` */
  const tsr_commit_file **footers; /* files of consolidated footers that are used */
  uint64_t footer_files;
  tsr_map numbers; /* name of a condition in view -> its index + 1; filled when it is needed */
  bool vacuum_interrupted; /* a vacuum was interrupted: skip missing fragments that a merged fragment replaces */
  tsr_map covered; /* if vacuum_interrupted: the fragments that merged fragments replace (tsr__log_covered) */
  tsr_map missing; /* if vacuum_interrupted: those of them that are in view and gone */
  tsr_map undone; /* merged fragments whose sources are shown instead of them */
  const tsr_changed *changed; /* NULL: all commits count */
  tsr_fresh fresh; /* with `changed`: the commits that count */
  tsr_error *error;
} snapshot_builder;

/* ---- Conditions -------------------------------------------------------------------------------------------------- */

static void free_condition(condition_entry *entry) {
  tsr__arena_release(&entry->arena);
  tsr__buffer_release(&entry->content);
  tsr__free(entry);
}

void tsr__array_conditions_release(tsr_array *array) {
  tsr_map *conditions = &array->snapshots.conditions;
  for (uint64_t i = 0; i < conditions->count; i++) free_condition(conditions->entries[i].value);
  tsr__map_release(conditions);
}

static int try_decode_condition(tsr_array *array, const tsr_committed *item, condition_entry *entry, tsr_error *error) {
  char *name;
  TSR_TRY(tsr__delete_read(&array->log, item, NULL, &entry->content, error));
  TSR_TRY(TSR_ARENA_COPY(&entry->arena, item->name, strlen(item->name), &name, error));
  tsr_input in = tsr__input(entry->content.data, entry->content.size);
  int rc = tsr__condition_decode(&in, name, item->parsed.start, &entry->arena, &entry->condition, error);
  if (rc < 0) return tsr__wrap(error, "%s", item->path);
  entry->condition.visible = item->parsed.end;
  return TSR_OK;
}

static int decode_condition(tsr_array *array, const tsr_committed *item, condition_entry *entry, tsr_error *error) {
  const int rc = try_decode_condition(array, item, entry, error);
  if (!tsr__may_be_corrupt_transfer(rc) || !tsr__store_doubt(array->store)) return rc;
  entry->content.size = 0;
  return try_decode_condition(array, item, entry, error);
}

int tsr__array_condition(tsr_array *array, const tsr_committed *item, const tsr_condition **condition,
                         tsr_error *error) {
  condition_entry *entry = tsr__map_get(&array->snapshots.conditions, item->name);
  if (!entry) {
    TSR_TRY(TSR_ALLOC(&array->memory, &entry, error));
    tsr__arena_init(&entry->arena, &array->memory);
    entry->content.memory = &array->memory;
    int rc = tsr__damage(decode_condition(array, item, entry, error), error);
    if (rc >= 0) rc = tsr__map_put(&array->snapshots.conditions, entry->condition.name, entry, error);
    if (rc < 0) {
      free_condition(entry);
      return rc;
    }
  }
  *condition = &entry->condition;
  return TSR_OK;
}

static int select_conditions(snapshot_builder *s) {
  tsr_snapshot *snapshot = s->snapshot;
  const tsr_commit_list *deletes = &s->array->log.listing->deletes;
  TSR_TRY(TSR_ARENA_ARRAY(&snapshot->list->arena, deletes->count, &snapshot->conditions, s->error));
  for (uint64_t i = 0; i < deletes->count && snapshot->shows != TSR_SHOWS_ALL; i++) {
    const tsr_committed *item = &deletes->items[i];
    if (item->parsed.start <= snapshot->as_of && item->parsed.end > snapshot->as_of)
      snapshot->deleted_until = TSR_MIN(snapshot->deleted_until, item->parsed.start - 1);
    if (s->changed && !s->fresh.deletes[i]) continue;
    if (item->parsed.start < snapshot->since || item->parsed.end > snapshot->as_of) continue;
    TSR_TRY(tsr__array_condition(s->array, item, &snapshot->conditions[snapshot->condition_count], s->error));
    snapshot->condition_count++;
  }
  return TSR_OK;
}

/* Returns the index + 1 of the condition named by an entry of a list of processed conditions; 0 if it is not in
 * view. */
static uint64_t named_condition(const snapshot_builder *s, const char *entry) {
  char name[256];
  const char *slash = strrchr(entry, '/'), *last = slash ? slash + 1 : entry;
  if ((uint64_t)snprintf(name, sizeof name, "%.*s", (int)TSR_MIN(strcspn(last, "."), 1000), last) >= sizeof name)
    return 0;
  return (uint64_t)(uintptr_t)tsr__map_get(&s->numbers, name);
}

static int number_conditions(snapshot_builder *s) {
  const tsr_snapshot *snapshot = s->snapshot;
  if (s->numbers.count) return TSR_OK;
  for (uint64_t i = 0; i < snapshot->condition_count; i++)
    TSR_TRY(tsr__map_put(&s->numbers, snapshot->conditions[i]->name, (void *)(uintptr_t)(i + 1), s->error));
  return TSR_OK;
}

/* Sets the conditions that may apply to a fragment's cells: not older than its start, and not processed already. */
static int attach_conditions(snapshot_builder *s, tsr_snapshot_fragment *item) {
  tsr_snapshot *snapshot = s->snapshot;
  tsr_fragment_metadata *m = &item->fragment->metadata;
  uint64_t first = 0;
  while (first < snapshot->condition_count && snapshot->conditions[first]->time < item->fragment->parsed.start) first++;
  item->conditions = snapshot->conditions + first;
  item->condition_count = (uint32_t)(snapshot->condition_count - first);
  if (item->condition_count == 0 || m->at.processed_conditions == 0) return TSR_OK;
  TSR_TRY(tsr__fragment_processed(s->array, item->fragment, s->error));
  if (m->processed.count == 0) return TSR_OK;

  const tsr_condition **left;
  TSR_TRY(TSR_ARENA_ARRAY(&snapshot->list->arena, item->condition_count, &left, s->error));
  uint32_t count = 0;
  memcpy(left, item->conditions, item->condition_count * sizeof *left);
  TSR_TRY(number_conditions(s));
  for (uint32_t p = 0; p < m->processed.count; p++) {
    const uint64_t number = named_condition(s, m->processed.names[p]);
    if (number > first) left[number - 1 - first] = NULL;
  }
  for (uint32_t i = 0; i < item->condition_count; i++)
    if (left[i]) left[count++] = left[i];
  item->conditions = left;
  item->condition_count = count;
  return TSR_OK;
}

static const tsr_field *field_of(const tsr_schema *schema, const char *name) {
  const int64_t at = tsr__schema_field(schema, name);
  return at < 0 ? NULL : &schema->fields[at];
}

/* Returns true if two fields of the same name in different schemas are the same attribute or dimension. */
static bool same_field(const tsr_field *a, const tsr_field *b) {
  return a->is_dimension == b->is_dimension && a->datatype == b->datatype && a->values_per_cell == b->values_per_cell;
}

/* Since the condition was written, the attribute may have been dropped, and its name reused for another one. The
 * condition means the fragment's own attribute if its values fit that attribute's datatype; else the newest attribute
 * of that name whose datatype they fit. */
int tsr__condition_field(tsr_array *array, const tsr_schema *present, const tsr_fragment *fragment,
                         const tsr_condition *condition, const char *name, const tsr_field **field, int64_t *slot,
                         tsr_error *error) {
  const tsr_schema *theirs = fragment->metadata.schema;
  const tsr_field *own = field_of(theirs, name), *other = field_of(present, name);
  const bool same = own && other && same_field(own, other);
  *field = same ? other : own;
  *slot = own ? tsr__fragment_slot(&fragment->metadata, (uint32_t)(own - theirs->fields)) : -1;
  const bool evolved = array->log.listing && array->log.listing->schemas.count > 1;
  if (own && ((same && !evolved) || tsr__condition_fits(condition, own))) return TSR_OK;
  *slot = -1;
  *field = other;
  if (other && tsr__condition_fits(condition, other)) return TSR_OK;
  const tsr_commit_list *schemas = &array->log.listing->schemas;
  for (uint64_t i = schemas->count; i-- > 0;) {
    const tsr_schema *schema;
    TSR_TRY(tsr__array_schema_by_name(array, schemas->items[i].name, &schema, error));
    const tsr_field *found = field_of(schema, name);
    if (found && !*field) *field = found;
    if (!found || !tsr__condition_fits(condition, found)) continue;
    *field = found;
    return TSR_OK;
  }
  return TSR_OK;
}

/* ---- Choosing the fragments in view ------------------------------------------------------------------------------ */

static bool in_view(const tsr_snapshot *snapshot, const tsr_name *name) {
  if (!snapshot->schema->dense && layout_has_timed_merges(name->version))
    return name->start <= snapshot->as_of && name->end >= snapshot->since;
  return name->start >= snapshot->since && name->end <= snapshot->as_of;
}

static bool is_cut(const tsr_snapshot *snapshot, const tsr_name *name) {
  return name->start < snapshot->since || name->end > snapshot->as_of;
}

static int find_hidden(snapshot_builder *s, tsr_map *hidden) {
  const tsr_commit_list *vacuums = &s->array->log.listing->vacuums;
  for (uint64_t i = 0; i < vacuums->count; i++) {
    if (!in_view(s->snapshot, &vacuums->items[i].parsed) || tsr__map_get(&s->undone, vacuums->items[i].name)) continue;
    TSR_TRY(tsr__log_hide_sources(&s->array->log, &vacuums->items[i], hidden, s->error));
  }
  return TSR_OK;
}

static int choose_visible(snapshot_builder *s) {
  const tsr_commit_list *fragments = &s->array->log.listing->fragments;
  tsr_map hidden = {.memory = &s->array->memory};
  int rc = find_hidden(s, &hidden);
  s->count = 0;
  for (uint64_t i = 0; rc >= 0 && i < fragments->count; i++) {
    const tsr_committed *item = &fragments->items[i];
    if (in_view(s->snapshot, &item->parsed) && !tsr__map_get(&hidden, item->name) &&
        !tsr__map_get(&s->undone, item->name))
      s->visible[s->count++] = item;
  }
  tsr__map_release(&hidden);
  return rc;
}

/* Finds a merged fragment that spans the time of a prepared commit in view, and whose sources are all listed. The
 * sources are then shown instead of it, because their times tell which cells are older than the commit and which are
 * newer. Returns 1 if there was such a merged fragment, else 0. */
static int undo_merge(snapshot_builder *s) {
  const bool dense = s->snapshot->schema->dense;
  for (uint64_t p = 0; p < s->count; p++)
    for (uint64_t m = 0; m < s->count && s->visible[p]->prepared; m++) {
      bool all;
      if (!tsr__late_spans(&s->visible[m]->parsed, s->visible[p]->parsed.start, dense)) continue;
      TSR_TRY(tsr__sources_kept(s->array, s->visible[m], NULL, &all, s->error));
      if (!all) continue;
      TSR_TRY(tsr__map_put(&s->undone, s->visible[m]->name, (void *)(uintptr_t)s->visible[m], s->error));
      return 1;
    }
  return 0;
}

/* Chooses what is new, also if a merged fragment in view replaces it. */
static void choose_fresh(snapshot_builder *s) {
  const tsr_commit_list *fragments = &s->array->log.listing->fragments;
  for (uint64_t i = 0; i < fragments->count; i++)
    if (s->fresh.fragments[i] && in_view(s->snapshot, &fragments->items[i].parsed))
      s->visible[s->count++] = &fragments->items[i];
}

static int select_fragments(snapshot_builder *s) {
  TSR_TRY(TSR_ARENA_ARRAY(&s->snapshot->arena, s->array->log.listing->fragments.count, &s->visible, s->error));
  if (s->snapshot->shows == TSR_SHOWS_ALL) return choose_fresh(s), TSR_OK;
  TSR_TRY(choose_visible(s));
  const bool decided = !s->snapshot->schema->dense && s->snapshot->schema->allows_duplicates;
  if (!s->array->log.listing->prepared.counted || decided || s->vacuum_interrupted)
    return TSR_OK; /* vacuum_interrupted: sources are missing, so they cannot be shown */
  for (int rc = 1; rc > 0;) {
    TSR_TRY(rc = undo_merge(s));
    if (rc > 0) TSR_TRY(choose_visible(s));
  }
  return TSR_OK;
}

static void note_change(tsr_snapshot *snapshot, const tsr_commit_list *list, uint64_t first) {
  for (uint64_t i = first; i < list->count; i++) {
    const tsr_name *name = &list->items[i].parsed;
    if (name->start > snapshot->as_of)
      snapshot->request.next_change = TSR_MIN(snapshot->request.next_change, name->start);
    /* its cells may have any time up to its end, so any later moment may show more of them */
    else if (name->end > snapshot->as_of) snapshot->request.next_change = snapshot->as_of + 1;
  }
}

static void find_next_change(tsr_snapshot *snapshot, const tsr_commit_listing *listing) {
  snapshot->request.next_change = UINT64_MAX;
  note_change(snapshot, &listing->fragments, 0);
  note_change(snapshot, &listing->deletes, 0);
  note_change(snapshot, &listing->vacuums, 0);
  note_change(snapshot, &listing->schemas, 0);
}

/* ---- Fragments --------------------------------------------------------------------------------------------------- */

#define LIST_SPARE(count) ((count) / 4 + 16) /* fragments that later snapshots may append */

static int list_make(tsr_array *array, tsr_snapshot_list **list, tsr_error *error) {
  tsr_snapshot_list *made;
  TSR_TRY(TSR_ALLOC(&array->memory, &made, error));
  made->references = 1;
  tsr__arena_init(&made->arena, &array->memory);
  *list = made;
  return TSR_OK;
}

static int list_reserve(tsr_snapshot *snapshot, uint64_t capacity, tsr_error *error) {
  tsr_snapshot_list *list = snapshot->list;
  TSR_TRY(TSR_ARENA_ARRAY(&list->arena, capacity, &list->items, error));
  list->capacity = capacity;
  snapshot->fragments = list->items;
  return TSR_OK;
}

static void list_drop(tsr_array *array, tsr_snapshot_list *list) {
  if (!list || --list->references > 0) return;
  for (uint64_t i = 0; i < list->count; i++) tsr__array_fragment_drop(array, list->items[i].fragment);
  tsr__arena_release(&list->arena);
  tsr__free(list);
}

static const tsr_footer *find_footer(const snapshot_builder *s, const tsr_committed *item, const uint8_t **bytes) {
  for (uint64_t i = 0; i < s->footer_files; i++) {
    const tsr_footer *footer = tsr__map_get(&s->footers[i]->footers_by_name, item->name);
    if (footer) {
      *bytes = s->footers[i]->content.data + footer->at;
      return footer;
    }
  }
  return NULL;
}

/* Returns how many visible fragments within the time range of a file of consolidated footers have no footer yet. */
static uint64_t count_unread(const snapshot_builder *s, const tsr_name *within) {
  uint64_t count = 0;
  for (uint64_t i = 0; i < s->count; i++) {
    const tsr_committed *item = s->visible[i];
    const uint8_t *bytes;
    if (item->parsed.start < within->start || item->parsed.end > within->end) continue;
    /* consolidated footers of these versions are not used (format/commits.c) */
    if (layout_miscounts_footers(item->parsed.version)) continue;
    if (!tsr__map_get(&s->array->registry.fragments, item->name) && !find_footer(s, item, &bytes)) count++;
  }
  return count;
}

/* Chooses files of consolidated footers, the newest first. Files that were read already cost nothing, so they come
 * first and need only one missing footer; another file is read if it may save opening at least two metadata files. */
static int select_footers(snapshot_builder *s) {
  const tsr_commit_list *list = &s->array->log.listing->footers;
  if (s->array->registry.fragments.count >= s->array->log.listing->fragments.count) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&s->snapshot->arena, list->count, &s->footers, s->error));
  for (uint64_t i = 0; i < 2 * list->count; i++) {
    const tsr_committed *item = &list->items[i % list->count];
    const bool known = tsr__map_get(&s->array->log.files.by_path, item->path);
    if (known != (i < list->count) || count_unread(s, &item->parsed) < (known ? 1 : 2)) continue;
    int rc = tsr__log_file(&s->array->log, item->path, &s->footers[s->footer_files], s->error);
    if (rc >= 0) s->footer_files++;
    else if (rc != TSR_NOT_FOUND && rc != TSR_BUSY)
      return rc; /* else the file was vacuumed or is being written: the fragments have footers of their own */
  }
  return TSR_OK;
}

static int map_slots(snapshot_builder *s, const tsr_fragment *fragment, int64_t *slots) {
  const tsr_schema *ours = s->snapshot->schema, *theirs = fragment->metadata.schema;
  if (ours->dimension_count != theirs->dimension_count)
    return tsr__fail(s->error, TSR_CORRUPT, "fragment %s has %u dimensions, the array has %u", fragment->name,
                     theirs->dimension_count, ours->dimension_count);
  for (uint32_t f = 0; f < ours->dimension_count + ours->attribute_count; f++) {
    const tsr_field *field = &ours->fields[f];
    int64_t own = ours == theirs || field->is_dimension ? (int64_t)f : tsr__schema_field(theirs, field->name);
    const tsr_field *other = own < 0 ? NULL : &theirs->fields[own];
    const bool same = other && same_field(field, other);
    if (field->is_dimension && !same)
      return tsr__fail(s->error, TSR_CORRUPT, "fragment %s has another datatype for dimension '%s'", fragment->name,
                       field->name);
    slots[f] = same ? tsr__fragment_slot(&fragment->metadata, (uint32_t)own) : -1;
    if (field->is_dimension && fragment->metadata.dense) slots[f] = -1;
  }
  return TSR_OK;
}

/* Returns true if all fields have the same slots in both fragments. A fragment without cells has no slots. */
static bool same_slots(const tsr_fragment *a, const tsr_fragment *b) {
  const tsr_fragment_metadata *x = &a->metadata, *y = &b->metadata;
  return x->schema == y->schema && x->version == y->version && x->dense == y->dense && x->slot_count == y->slot_count &&
         (x->tile_count > 0) == (y->tile_count > 0);
}

/* Returns true if a fragment of that name is among what is new. */
static bool is_fresh(const snapshot_builder *s, const char *name) {
  const tsr_commit_list *fragments = &s->array->log.listing->fragments;
  uint64_t i = 0;
  while (i < fragments->count && strcmp(fragments->items[i].name, name) != 0) i++;
  return i < fragments->count && s->fresh.fragments[i];
}

/* Fails if the snapshot shows what is new, and nothing else that is new has the cells of a fragment that is gone. */
static int check_replaced(const snapshot_builder *s, const tsr_committed *gone) {
  if (!s->changed || s->snapshot->shows != TSR_SHOWS_ALL) return TSR_OK;
  const char *merged = tsr__map_get(&s->covered, gone->name), *into = merged;
  while (into && !is_fresh(s, into)) into = tsr__map_get(&s->covered, into);
  if (into) return TSR_OK;
  return tsr__fail(s->error, TSR_ERROR,
                   "what fragment %s has changed is lost: it was merged into %s, and a vacuum that was cut off has "
                   "begun to remove it",
                   gone->name, merged);
}

static int add_fragment(snapshot_builder *s, const tsr_committed *committed) {
  tsr_snapshot *snapshot = s->snapshot;
  tsr_snapshot_fragment *item = &snapshot->fragments[snapshot->fragment_count];
  const uint8_t *bytes = NULL;
  const tsr_footer *footer = find_footer(s, committed, &bytes);
  if (s->vacuum_interrupted && tsr__map_get(&s->covered, committed->name)) {
    /* a consolidated footer may outlive the fragment, so look for the fragment itself */
    bool exists;
    TSR_TRY(tsr__fragment_find(s->array, committed, &exists, s->error));
    if (!exists) TSR_TRY(check_replaced(s, committed));
    if (!exists) return tsr__map_put(&s->missing, committed->name, (void *)(uintptr_t)committed, s->error);
  }
  TSR_TRY(tsr__array_fragment(s->array, committed, bytes, footer ? footer->size : 0, &item->fragment, s->error));
  snapshot->list->count = ++snapshot->fragment_count; /* the list now owns the reference */
  item->cut = is_cut(snapshot, &committed->parsed);
  item->prepared = committed->prepared;
  item->time = committed->parsed.start;
  item->box_low = item->fragment->dense.box_low;
  item->box_high = item->fragment->dense.box_high;

  const tsr_snapshot_fragment *last = snapshot->fragment_count > 1 ? item - 1 : NULL;
  if (last && same_slots(last->fragment, item->fragment)) item->slots = last->slots;
  else {
    uint32_t fields = snapshot->schema->dimension_count + snapshot->schema->attribute_count;
    TSR_TRY(TSR_ARENA_ARRAY(&snapshot->list->arena, fields, &item->slots, s->error));
    TSR_TRY(map_slots(s, item->fragment, item->slots));
  }
  return attach_conditions(s, item);
}

/* Loads all visible fragments that have no footer yet, with all threads if there are enough of them. */
static int read_unread(snapshot_builder *s) {
  const uint64_t known = s->array->registry.fragments.count, all = s->array->log.listing->fragments.count;
  const uint64_t least = tsr__store_prefetches(s->array->store) ? 1 : READ_TOGETHER;
  const tsr_committed **unread;
  const uint8_t *bytes;
  uint64_t count = 0;
  if (known + least > all) return TSR_OK;
  TSR_TRY(TSR_ALLOC_ARRAY(&s->array->memory, s->count, &unread, s->error));
  for (uint64_t i = 0; i < s->count; i++)
    if (!tsr__map_get(&s->array->registry.fragments, s->visible[i]->name) && !find_footer(s, s->visible[i], &bytes))
      unread[count++] = s->visible[i];
  tsr__array_fragments_prefetch(s->array, unread, count);
  int rc = count < READ_TOGETHER ? TSR_OK : tsr__array_fragments_read(s->array, unread, count, s->error);
  tsr__free(unread);
  return rc;
}

static int add_fragments(snapshot_builder *s) {
  TSR_TRY(read_unread(s));
  tsr__count(s->array->environment, TSR_COUNT_fragments_listed, s->count);
  for (uint64_t i = 0; i < s->count; i++) {
    if (i % 64 == 63) TSR_TRY(tsr__cancelled(&s->array->environment->memory, s->error));
    TSR_TRY(add_fragment(s, s->visible[i]));
  }
  return TSR_OK;
}

/* ---- Non-empty domain, rowids ------------------------------------------------------------------------------------ */

void tsr__interval_widen(const tsr_field *dimension, tsr_interval *hull, const tsr_interval *box) {
  if (dimension->values_per_cell == TSR_VARIABLE) {
    if (tsr__bytes_compare(box->low_text, box->low_size, hull->low_text, hull->low_size) < 0) {
      hull->low_text = box->low_text;
      hull->low_size = box->low_size;
    }
    if (tsr__bytes_compare(box->high_text, box->high_size, hull->high_text, hull->high_size) > 0) {
      hull->high_text = box->high_text;
      hull->high_size = box->high_size;
    }
    return;
  }
  tsr_datatype datatype = dimension->datatype;
  if (tsr__key(datatype, box->low) < tsr__key(datatype, hull->low)) memcpy(hull->low, box->low, 8);
  if (tsr__key(datatype, box->high) > tsr__key(datatype, hull->high)) memcpy(hull->high, box->high, 8);
}

/* Computes the non-empty domain. Its strings are borrowed from the fragments, which the snapshot holds. `base`: its
 * domain is that of the first fragments; or NULL. */
static int find_domain(snapshot_builder *s, const tsr_snapshot *base) {
  tsr_snapshot *snapshot = s->snapshot;
  uint32_t n = snapshot->schema->dimension_count;
  TSR_TRY(TSR_ARENA_ARRAY(&snapshot->arena, n, &snapshot->domain.intervals, s->error));
  snapshot->domain.exists = base && base->domain.exists;
  for (uint32_t d = 0; d < n && snapshot->domain.exists; d++) snapshot->domain.intervals[d] = base->domain.intervals[d];
  for (uint64_t i = base ? base->fragment_count : 0; i < snapshot->fragment_count; i++) {
    const tsr_fragment_metadata *m = &snapshot->fragments[i].fragment->metadata;
    if (m->empty_domain || m->tile_count == 0) continue;
    for (uint32_t d = 0; d < n; d++) {
      if (snapshot->domain.exists)
        tsr__interval_widen(&snapshot->schema->fields[d], &snapshot->domain.intervals[d], &m->non_empty_domain[d]);
      else snapshot->domain.intervals[d] = m->non_empty_domain[d];
    }
    snapshot->domain.exists = true;
  }
  return TSR_OK;
}

static int find_box(snapshot_builder *s) {
  tsr_snapshot *snapshot = s->snapshot;
  const tsr_grid *grid = &snapshot->grid;
  uint32_t n = grid->dimensions;
  TSR_TRY(TSR_ARENA_ARRAY(&snapshot->arena, (uint64_t)n * 2, &snapshot->domain.box_low, s->error));
  snapshot->domain.box_high = snapshot->domain.box_low + n;
  for (uint32_t d = 0; d < n && snapshot->domain.exists; d++) {
    tsr_datatype datatype = snapshot->schema->fields[d].datatype;
    uint64_t zero = grid->low_key[d], end = zero + grid->last[d];
    uint64_t low = tsr__key(datatype, snapshot->domain.intervals[d].low);
    uint64_t high = tsr__key(datatype, snapshot->domain.intervals[d].high);
    snapshot->domain.box_low[d] = TSR_MIN(TSR_MAX(low, zero), end) - zero;
    snapshot->domain.box_high[d] = TSR_MIN(TSR_MAX(high, zero), end) - zero;
  }
  return TSR_OK;
}

static int number_unwritten(snapshot_builder *s) {
  tsr_environment *environment = s->array->environment;
  uint64_t cells = 1;
  s->snapshot->unwritten_row_base = -1;
  for (uint32_t d = 0; d < s->snapshot->grid.dimensions; d++)
    cells = tsr__mul_sat(cells, tsr__add_sat(s->snapshot->grid.last[d], 1));
  if (cells >= UNWRITTEN_MAX || environment->next_row > ROWS_FOR_FRAGMENTS - cells) return TSR_OK;
  return tsr__environment_rows(environment, s->array->path, "", cells, &s->snapshot->unwritten_row_base, s->error);
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

typedef struct snapshot_request { /* arguments of tsr_snapshot_open, or of tsr_snapshot_changed */
  const tsr_schema *schema;
  uint64_t since, as_of;
  const tsr_changed *changed; /* NULL: tsr_snapshot_open */
} snapshot_request;

static bool same_request(const tsr_snapshot *snapshot, const tsr_snapshot *other) {
  return snapshot->since == other->since && snapshot->request.as_of == other->request.as_of &&
         snapshot->request.schema == other->request.schema;
}

/* Returns true if a vacuum file may name one of the listing's fragments from number `first` on. */
static bool may_be_replaced(const tsr_commit_listing *listing, uint64_t first) {
  for (uint64_t v = 0; v < listing->vacuums.count; v++) {
    const tsr_name *merged = &listing->vacuums.items[v].parsed;
    for (uint64_t i = first; i < listing->fragments.count; i++) {
      const tsr_name *name = &listing->fragments.items[i].parsed;
      if (name->start <= merged->end && name->end >= merged->start) return true;
    }
  }
  return false;
}

/* Returns a kept snapshot of the same request that shows everything this one shall, except fragments that were listed
 * since and are newer than all others; or NULL. Since then nothing else has come into view, and no fragment has been
 * replaced or taken away: that would have renewed the listing. */
static const tsr_snapshot *find_base(const snapshot_builder *s) {
  const tsr_snapshot *snapshot = s->snapshot;
  const tsr_commit_listing *listing = s->array->log.listing;
  if (!snapshot->request.grows) return NULL;
  for (int i = 0; i < TSR_SNAPSHOTS_KEPT; i++) {
    const tsr_snapshot *base = s->array->snapshots.recent[i];
    if (!base || !base->request.grows || !same_request(base, snapshot)) continue;
    if (base->request.generation < listing->appended_since || base->list->count != base->fragment_count) continue;
    if (base->as_of > snapshot->as_of || base->request.next_change <= snapshot->as_of) continue;
    if (base->list->capacity - base->list->count < listing->fragments.count - base->request.listed) continue;
    if (!may_be_replaced(listing, base->request.listed)) return base;
  }
  return NULL;
}

/* Makes a snapshot that shows what `base` shows and the fragments that were listed since. */
static int grow(snapshot_builder *s, const tsr_snapshot *base) {
  tsr_snapshot *snapshot = s->snapshot;
  const tsr_commit_list *fragments = &s->array->log.listing->fragments;
  list_drop(s->array, snapshot->list);
  snapshot->list = base->list;
  snapshot->list->references++;
  snapshot->fragments = base->fragments;
  snapshot->fragment_count = base->fragment_count;
  snapshot->conditions = base->conditions;
  snapshot->condition_count = base->condition_count;
  if (base->deleted_until < base->as_of) snapshot->deleted_until = base->deleted_until;
  snapshot->request.next_change = base->request.next_change;
  note_change(snapshot, fragments, base->request.listed);
  TSR_TRY(TSR_ARENA_ARRAY(&snapshot->arena, fragments->count - base->request.listed, &s->visible, s->error));
  for (uint64_t i = base->request.listed; i < fragments->count; i++)
    if (in_view(snapshot, &fragments->items[i].parsed)) s->visible[s->count++] = &fragments->items[i];
  TSR_TRY(select_footers(s));
  return add_fragments(s);
}

static int choose_all(snapshot_builder *s) {
  tsr_snapshot *snapshot = s->snapshot;
  find_next_change(snapshot, s->array->log.listing);
  if (s->vacuum_interrupted) TSR_TRY(tsr__log_covered(&s->array->log, s->array->log.listing, &s->covered, s->error));
  TSR_TRY(select_fragments(s));
  TSR_TRY(select_conditions(s));
  TSR_TRY(select_footers(s));
  TSR_TRY(list_reserve(snapshot, s->count + LIST_SPARE(s->count), s->error));
  TSR_TRY(add_fragments(s));
  const bool places = s->array->log.listing->prepared.counted && snapshot->shows != TSR_SHOWS_ALL;
  return places ? tsr__snapshot_place_prepared(snapshot, s->error) : TSR_OK;
}

static int fill_snapshot(snapshot_builder *s) {
  tsr_snapshot *snapshot = s->snapshot;
  snapshot->schema = snapshot->request.schema;
  if (snapshot->schema) TSR_TRY(tsr__array_has_schema(s->array, snapshot->schema, s->error));
  else TSR_TRY(tsr__array_schema_at(s->array, snapshot->as_of, &snapshot->schema, s->error));
  const tsr_snapshot *base = find_base(s);
  if (s->changed)
    TSR_TRY(tsr__fresh_find(s->array, s->changed, snapshot->schema->dense, s->vacuum_interrupted, &snapshot->arena,
                            &s->fresh, s->error));
  if (base) TSR_TRY(grow(s, base));
  else TSR_TRY(choose_all(s));
  TSR_TRY(find_domain(s, base));
  snapshot->unwritten_row_base = -1;
  if (!snapshot->schema->dense) return TSR_OK;
  const tsr_grid *grid;
  TSR_TRY(tsr__array_grid(s->array, snapshot->schema, &grid, s->error));
  snapshot->grid = *grid;
  TSR_TRY(find_box(s));
  return number_unwritten(s);
}

/* Returns true if a frozen array may lack something of the state that it shows: others have committed since. */
static bool changed_since_freeze(const tsr_array *array) {
  return array->log.frozen && array->log.listing->generation != array->snapshots.frozen_generation;
}

/* Finds what the snapshot lacks because the past was merged away. The present lacks nothing, unless a fragment was
 * merged with one that is ahead of the clock: the next change is then due at once (note_change). */
static int find_losses(snapshot_builder *s) {
  tsr_snapshot *snapshot = s->snapshot;
  const bool whole = snapshot->request.as_of == TSR_TIME_NOW && snapshot->since == TSR_TIME_BEGIN &&
                     snapshot->request.next_change != snapshot->as_of + 1;
  if (whole && !changed_since_freeze(s->array)) return TSR_OK;
  if (s->changed) return TSR_OK; /* the states that the caller compares find it */
  return tsr__losses_find(s->array, snapshot->schema->dense, snapshot->since, snapshot->as_of, &s->missing,
                          &snapshot->losses, s->error);
}

static int make_snapshot(tsr_array *array, const snapshot_request *request, uint64_t as_of, bool vacuum_interrupted,
                         tsr_snapshot **snapshot, tsr_error *error) {
  tsr_snapshot *block;
  TSR_TRY(TSR_ALLOC(&array->memory, &block, error));
  snapshot_builder s = {.array = array, .snapshot = block, .changed = request->changed, .error = error};
  tsr__arena_init(&s.snapshot->arena, &array->memory);
  s.snapshot->array = array;
  if (request->changed)
    s.snapshot->shows = request->changed->kind == TSR_CHANGED_DROPPED ? TSR_SHOWS_DROPPED : TSR_SHOWS_ALL;
  s.snapshot->references = 1;
  s.snapshot->since = request->since;
  s.snapshot->as_of = s.snapshot->deleted_until = as_of;
  s.snapshot->request.as_of = request->as_of;
  s.snapshot->request.schema = request->schema;
  s.snapshot->request.generation = array->log.listing->generation;
  s.snapshot->request.listed = array->log.listing->fragments.count;
  s.snapshot->request.grows = request->as_of == TSR_TIME_NOW && !vacuum_interrupted && !request->changed &&
                              array->log.listing->prepared.markers.count == 0;
  s.numbers.memory = s.covered.memory = s.missing.memory = s.undone.memory = &array->memory;
  s.vacuum_interrupted = vacuum_interrupted;
  int rc = list_make(array, &s.snapshot->list, error);
  s.snapshot->losses.memory = &array->memory;
  if (rc >= 0) rc = fill_snapshot(&s);
  if (rc >= 0) rc = find_losses(&s);
  tsr__map_release(&s.numbers);
  tsr__map_release(&s.covered);
  tsr__map_release(&s.missing);
  tsr__map_release(&s.undone);
  if (rc < 0) {
    tsr_snapshot_close(s.snapshot);
    return rc;
  }
  *snapshot = s.snapshot;
  return TSR_OK;
}

uint64_t tsr__array_present(const tsr_array *array) {
  return array->log.frozen ? array->log.frozen : tsr__environment_present(array->environment);
}

/* Fails because a committed fragment is gone: `missing` says which file. */
static int fail_gone(tsr_array *array, const char *missing, tsr_error *error) {
  const tsr_commit_list *fragments = &array->log.listing->fragments;
  for (uint64_t i = 0; i < fragments->count; i++) {
    bool exists;
    TSR_TRY(tsr__fragment_find(array, &fragments->items[i], &exists, error));
    if (!exists) TSR_TRY(tsr__fragment_fail_outlived(array, fragments->items[i].name, error));
  }
  return tsr__fail(error, TSR_CORRUPT, "committed, but missing: %s", missing);
}

/* Makes a snapshot although others may vacuum meanwhile. If a listed file is missing, the fragment was probably
 * vacuumed: list the array again. If the same file is still missing, a vacuum may have been interrupted between the
 * removal of a fragment and that of its commit: skip missing fragments that a vacuum file names, as if the vacuum had
 * finished. If the file is missing even then, the array is damaged. */
static int make_with_retries(tsr_array *array, const snapshot_request *request, tsr_snapshot **snapshot,
                             tsr_error *error) {
  char before[TSR_MESSAGE_SIZE] = "";
  uint32_t missing = 0;
  bool vacuum_interrupted = false;
  for (int i = 0;; i++) {
    int rc = make_snapshot(array, request, request->as_of == TSR_TIME_NOW ? tsr__array_present(array) : request->as_of,
                           vacuum_interrupted, snapshot, error);
    if ((rc != TSR_NOT_FOUND && rc != TSR_ABORT) || i == SNAPSHOT_ATTEMPTS) return rc;
    const bool again = rc == TSR_NOT_FOUND && *before && error->subject == missing;
    if (again && vacuum_interrupted) return fail_gone(array, before, error);
    vacuum_interrupted |= again;
    memcpy(before, error->message, sizeof before);
    missing = error->subject;
    TSR_TRY(tsr__log_list(&array->log, true, true, error));
  }
}

/* Fails with TSR_ABORT if a frozen array cannot be shown as it was, because fragments of that time were merged with
 * later ones and vacuumed. */
static int check_frozen(const tsr_array *array, const tsr_snapshot *snapshot, tsr_error *error) {
  if (!changed_since_freeze(array) || snapshot->losses.size == 0) return TSR_OK;
  return tsr__fail(error, TSR_ABORT,
                   "the state in which this transaction began has been merged with later commits and vacuumed: roll "
                   "back");
}

/* ---- Sharing ----------------------------------------------------------------------------------------------------- */

static bool may_share(const tsr_snapshot *snapshot, const snapshot_request *request, uint64_t now) {
  if (snapshot->request.generation != snapshot->array->log.listing->generation) return false;
  if (snapshot->since != request->since || snapshot->request.as_of != request->as_of ||
      snapshot->request.schema != request->schema)
    return false;
  return request->as_of != TSR_TIME_NOW || (now >= snapshot->as_of && now < snapshot->request.next_change);
}

/* Moves recent[i] to the front and returns it. */
static tsr_snapshot *take_recent(tsr_array_snapshots *kept, int i) {
  tsr_snapshot *snapshot = kept->recent[i];
  memmove(&kept->recent[1], &kept->recent[0], (size_t)i * sizeof kept->recent[0]);
  kept->recent[0] = snapshot;
  return snapshot;
}

/* Keeps a snapshot in place of one of the same request, or else of the least recently used one. */
static void keep_recent(tsr_array_snapshots *kept, tsr_snapshot *snapshot) {
  int place = TSR_SNAPSHOTS_KEPT - 1;
  for (int i = 0; i < TSR_SNAPSHOTS_KEPT; i++)
    if (kept->recent[i] && same_request(kept->recent[i], snapshot)) place = i;
  tsr_snapshot_close(take_recent(kept, place));
  kept->recent[0] = snapshot;
  tsr__snapshot_hold(snapshot);
}

/* Drops kept snapshots and registered fragments of older listings. If fragments have only been added since, it keeps
 * them: the next snapshots are made from the kept ones. */
static void forget_outdated(tsr_array *array) {
  tsr_array_snapshots *kept = &array->snapshots;
  const tsr_commit_listing *listing = array->log.listing;
  if (kept->pruned == listing->generation) return;
  for (int i = 0; i < TSR_SNAPSHOTS_KEPT; i++) {
    const tsr_snapshot *snapshot = kept->recent[i];
    if (!snapshot || snapshot->request.generation == listing->generation) continue;
    if (snapshot->request.grows && snapshot->request.generation >= listing->appended_since) continue;
    tsr_snapshot_close(kept->recent[i]);
    kept->recent[i] = NULL;
  }
  if (kept->pruned < listing->appended_since) tsr__array_fragments_prune(array);
  kept->pruned = listing->generation;
}

/* Returns true if the listing is younger than the store's refresh interval, and neither this environment nor its host
 * has changed anything since; or if it was made when the array was opened a moment ago. */
static bool may_reuse_listing(tsr_array *array) {
  const tsr_commit_listing *l = array->log.listing;
  const tsr_store *store = array->store;
  const bool just_opened = tsr__array_just_opened(array, array->opening.commits);
  array->opening.commits = 0; /* only one reader uses it; later ones check for changes */
  if (!l || !l->complete || l->prepared.undecided) return false;
  return just_opened || (store->refresh_ms && l->moment.changes == store->changes &&
                         tsr__moment() - l->moment.listed < store->refresh_ms);
}

int tsr_snapshot_recent(tsr_array *array, const tsr_schema *schema, uint64_t since, uint64_t as_of,
                        tsr_snapshot **snapshot) {
  const snapshot_request request = {.schema = schema, .since = since, .as_of = as_of};
  const tsr_array_snapshots *kept = &array->snapshots;
  tsr_error unseen;
  const bool just_opened = tsr__array_just_opened(array, array->opening.commits) && !array->opening.extended;
  if (!array->store->stamps_are_listings || !array->log.listing) return 0;
  for (int i = 0; i < TSR_SNAPSHOTS_KEPT; i++) {
    if (!kept->recent[i] || !may_share(kept->recent[i], &request, tsr__array_present(array))) continue;
    *snapshot = kept->recent[i];
    tsr__snapshot_hold(*snapshot);
    return 1;
  }
  if (!array->log.listing->complete || array->log.frozen || make_with_retries(array, &request, snapshot, &unseen) < 0)
    return 0;
  if (just_opened) { /* the reader that follows the estimate uses this listing, however long the fragments took */
    array->opening.commits = tsr__moment();
    array->opening.extended = true;
  }
  forget_outdated(array);
  keep_recent(&array->snapshots, *snapshot);
  return 1;
}

int tsr_snapshot_open(tsr_array *array, const tsr_schema *schema, uint64_t since, uint64_t as_of,
                      tsr_snapshot **snapshot, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const snapshot_request request = {.schema = schema, .since = since, .as_of = as_of};
  if (!may_reuse_listing(array)) TSR_TRY(tsr__log_list(&array->log, true, false, error));
  forget_outdated(array);
  const uint64_t now = tsr__array_present(array);
  for (int i = 0; i < TSR_SNAPSHOTS_KEPT; i++) {
    if (!array->snapshots.recent[i] || !may_share(array->snapshots.recent[i], &request, now)) continue;
    *snapshot = take_recent(&array->snapshots, i);
    tsr__snapshot_hold(*snapshot);
    return TSR_OK;
  }
  tsr_snapshot *made = NULL;
  int rc = make_with_retries(array, &request, &made, error);
  if (rc >= 0 && as_of == TSR_TIME_NOW && (rc = check_frozen(array, made, error)) < 0) tsr_snapshot_close(made);
  if (rc < 0) {
    if (rc == TSR_CORRUPT) tsr__array_doubt(array);
    if (rc != TSR_NOT_FOUND) tsr__wrap(error, "array %s", array->path);
    return rc;
  }
  forget_outdated(array);
  keep_recent(&array->snapshots, made);
  *snapshot = made;
  return TSR_OK;
}

/* In a sparse array the cells written since a time are those that a snapshot since then shows. */
int tsr_snapshot_changed(tsr_array *array, const tsr_schema *schema, const tsr_changed *changed, uint64_t as_of,
                         tsr_snapshot **snapshot, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_schema *newest;
  TSR_TRY(tsr__log_list(&array->log, true, false, error));
  TSR_TRY(tsr__array_schema_at(array, UINT64_MAX, &newest, error));
  if (changed->kind == TSR_CHANGED_WRITTEN && !changed->seen && !newest->dense)
    return tsr_snapshot_open(array, schema, changed->since, as_of, snapshot, error);
  const snapshot_request request = {.schema = schema, .as_of = as_of, .changed = changed};
  forget_outdated(array);
  const int rc = make_with_retries(array, &request, snapshot, error);
  return rc < 0 && rc != TSR_NOT_FOUND ? tsr__wrap(error, "array %s", array->path) : rc;
}

int tsr_array_freeze(tsr_array *array, bool frozen, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_array_snapshots *kept = &array->snapshots;
  if (frozen && !array->log.frozen) {
    TSR_TRY(tsr__log_list_to_write(&array->log, error));
    array->log.frozen = tsr__environment_present(array->environment);
    kept->frozen_generation = array->log.listing->generation;
  } else if (!frozen) {
    array->log.frozen = 0;
  }
  return TSR_OK;
}

bool tsr_array_needs_recovery(tsr_array *array) {
  const tsr_schema *schema;
  tsr_error unseen;
  if (!array->log.listing) return false;
  if (array->log.listing->prepared.markers.count > 0 || tsr__log_has_dead_merges(&array->log)) return true;
  if (!tsr__log_may_have_duplicate_cells(&array->log)) return false;
  return tsr__array_schema_at(array, UINT64_MAX, &schema, &unseen) < 0 || schema->allows_duplicates;
}

/* ---- Sorted runs on top ------------------------------------------------------------------------------------------ */

static int stack_run(snapshot_builder *s, const tsr_snapshot_run *run) {
  tsr_snapshot_fragment *item = &s->snapshot->fragments[s->snapshot->fragment_count];
  const tsr_schema *schema = s->snapshot->schema;
  item->fragment = run->fragment;
  item->cut = run->cut;
  item->run_first = run->first;
  item->run_end = run->end;
  run->fragment->references++;
  s->snapshot->list->count = ++s->snapshot->fragment_count;
  TSR_TRY(TSR_ARENA_ARRAY(&s->snapshot->list->arena, schema->dimension_count + schema->attribute_count, &item->slots,
                          s->error));
  return map_slots(s, item->fragment, item->slots);
}

static int stack_runs(snapshot_builder *s, bool alone, const tsr_snapshot_run *runs, uint64_t count) {
  tsr_snapshot *snapshot = s->snapshot;
  const tsr_snapshot *base = snapshot->view.base;
  const uint64_t below = alone ? 0 : base->fragment_count;
  TSR_TRY(list_reserve(snapshot, below + count, s->error));
  for (uint64_t i = 0; i < below; i++) {
    snapshot->fragments[i] = base->fragments[i];
    snapshot->fragments[i].fragment->references++;
  }
  snapshot->list->count = snapshot->fragment_count = below;
  for (uint64_t i = 0; i < count; i++) TSR_TRY(stack_run(s, &runs[i]));
  TSR_TRY(find_domain(s, alone ? NULL : base));
  return snapshot->schema->dense ? find_box(s) : TSR_OK;
}

int tsr__snapshot_stack(tsr_snapshot *base, bool alone, const tsr_snapshot_run *runs, uint64_t count,
                        tsr_snapshot **snapshot, tsr_error *error) {
  tsr_snapshot *block;
  TSR_TRY(TSR_ALLOC(&base->array->memory, &block, error));
  snapshot_builder s = {.array = base->array, .snapshot = block, .error = error};
  *s.snapshot = *base;
  s.snapshot->references = 1;
  s.snapshot->list = NULL;
  s.snapshot->fragment_count = 0;
  s.snapshot->view.base = base;
  s.snapshot->view.writer = NULL;
  s.snapshot->view.functions = NULL;
  tsr__snapshot_hold(base);
  tsr__arena_init(&s.snapshot->arena, &base->array->memory);
  int rc = list_make(base->array, &s.snapshot->list, error);
  if (rc >= 0) rc = stack_runs(&s, alone, runs, count);
  if (rc < 0) tsr_snapshot_close(s.snapshot);
  else *snapshot = s.snapshot;
  return rc;
}

/* ---- Closing ----------------------------------------------------------------------------------------------------- */

void tsr_snapshot_close(tsr_snapshot *snapshot) {
  if (!snapshot || --snapshot->references > 0) return;
  list_drop(snapshot->array, snapshot->list);
  if (!snapshot->view.base) tsr__losses_drop(snapshot->array, &snapshot->losses);
  if (snapshot->view.functions) snapshot->view.functions->release(snapshot->view.writer);
  tsr_snapshot *base = snapshot->view.base;
  tsr__arena_release(&snapshot->arena);
  tsr__free(snapshot);
  tsr_snapshot_close(base);
}

const tsr_schema *tsr_snapshot_schema(const tsr_snapshot *snapshot) { return snapshot->schema; }

uint64_t tsr_snapshot_time(const tsr_snapshot *snapshot, uint64_t *next) {
  *next = snapshot->request.next_change;
  return snapshot->as_of;
}

int tsr_snapshot_non_empty_domain(tsr_snapshot *snapshot, const tsr_interval **intervals, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (snapshot->losses.size) return tsr__loss_fail(snapshot, (const tsr_loss *)(void *)snapshot->losses.data, error);
  if (!snapshot->domain.exists) return 0;
  *intervals = snapshot->domain.intervals;
  return 1;
}
