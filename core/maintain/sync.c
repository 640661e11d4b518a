/* sync.c: brings a copy of an array up to date (tsr_array_sync): copies the commits that the copy lacks, and removes
 * what a vacuum has removed at the source.
 *
 * Fragments never change, and their names are unique, so the union of two copies is the same from both sides. What is
 * compared are the names of committed fragments and deletes, and of metadata files, however they are committed: a .con
 * at one side has the same effect as separate files at the other. Nothing is decoded that a key would be needed for.
 *
 * Order: the copy is listed first, then the source: what another sync brings to the copy meanwhile is at the source by
 * then, and does not look like the copy's own. Then schemas, fragments, footers and metadata are copied, and last of all
 * the new commits appear in one step, as one .con; in arrays below version 12 one after the other. The sources that
 * a new merged fragment replaces are named in a staged vacuum file before (replaced.c), so no reader sees them twice.
 * Whatever the sync is killed at, the copy is the array that it was before or will be, and the next run goes on: a
 * fragment's directory has its name only once it is complete. A first sync that is killed before its copy is an array
 * leaves a place that the next one takes over (define/claim.c).
 *
 * A commit that only the copy has is either its own, or a source that was merged and vacuumed at the other side. It is
 * certainly the latter if a vacuum file says so, or if it was at both sides after an earlier sync and a merged fragment
 * there spans its time, or a new one has the same time. So each sync leaves a record in the copy, `.synced_HASH`, with
 * the names that both sides had; HASH is that of the source's identity. `.synced_HASH.new` has the names that a sync is
 * about to copy, until it has ended: it may be cut off between two files, and the source vacuumed before the next one.
 * A first sync writes it before the copy becomes an array (define/copy.c). From then on one of the two files has all
 * names at any moment: a new one is made as `.synced_HASH.next`, which nobody reads, and renamed. All other commits
 * count as the copy's own.
 *
 * With `as_of`, only commits and metadata up to then travel; schemas and labels do as ever. A merged fragment that
 * spans this time stays behind, and its sources travel. If they are vacuumed, the commits up to then are no longer
 * apart.
 *
 * An array has a pair of sides, and so has each of its dimension labels. All pairs are compared before anything is
 * changed.
 *
 * Sections: sides; what differs; comparing contents; copying files; commits; removals; the record; a pair; the sync. */
#include "maintain/maintain.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "array/array.h"
#include "base/arithmetic.h"
#include "base/hash.h"
#include "base/options.h"
#include "define/define.h"
#include "environment/environment.h"
#include "format/layout.h"
#include "log/log.h"
#include "store/store.h"

#define SYNC_ATTEMPTS  8 /* while another process vacuums the source, or writes a file */
#define FIRST_ATTEMPTS 150 /* while another process fills the place, or has just made it */
#define SYNC_PAUSE     20 /* milliseconds between them */
#define SYNC_FILE_MAX  (UINT64_C(1) << 30) /* bytes of a file that is copied in one piece */

typedef struct sync_item { /* a committed fragment or delete, or a metadata file */
  const char *name; /* in the sync's arena: the copy is listed again before the end */
  tsr_name parsed;
  const tsr_committed *commit; /* NULL: metadata */
  bool fragment;
  bool merged; /* it spans times, or is known to be a merge of fragments of one time */
} sync_item;

typedef struct sync_set { /* the items of one kind at one side */
  tsr_arena *arena;
  tsr_buffer items; /* sync_item */
  tsr_map names;
} sync_set;

typedef struct sync_side {
  tsr_array array; /* only its store and its log are open: no schema is read */
  tsr_listing metadata; /* of __meta */
  sync_set commits, files; /* fragments and deletes; metadata files */
} sync_side;

typedef struct sync_difference { /* what one side has and the other has not */
  tsr_buffer own; /* sync_item: new to the other side */
  tsr_buffer replaced; /* sync_item: the other side has merged and removed it */
} sync_difference;

typedef struct sync_pair { /* an array, or that of a label, at both sides */
  const char *below; /* "", or the directory of a label */
  bool missing; /* the copy has no such array yet */
  sync_side from, to;
  tsr_map known; /* names that both sides had after an earlier sync */
  tsr_map arrived; /* those, and names that a sync which did not end was about to copy: if the copy has them, it has
                    * them from the source */
  bool begun; /* there is a record of such a sync */
  sync_difference new_commits, old_commits; /* only `from` has them; only `to` */
  sync_difference new_files, old_files; /* the same for metadata */
} sync_pair;

typedef struct syncing {
  tsr_environment *environment;
  const tsr_sync_options *options;
  const char *paths[2]; /* of both sides */
  char records[2][sizeof TSR_PREFIX_SYNCED + 16]; /* names of the records about `from` and about `to` */
  tsr_memory memory;
  tsr_arena arena;
  tsr_buffer pairs; /* sync_pair *; the array itself is the first */
  uint8_t *block; /* TSR_COPY_BLOCK bytes */
  tsr_sync_result done;
  tsr_error *error;
} syncing;

static const sync_item *sync_items(const tsr_buffer *items, uint64_t *count) {
  *count = items->size / sizeof(sync_item);
  return (const sync_item *)(const void *)items->data;
}

/* Returns the last time of what is copied. Labels are copied whole: those of an array may be younger than its cells. */
static uint64_t latest_of(const syncing *s, const sync_pair *p) {
  return s->options->as_of && !*p->below ? s->options->as_of : UINT64_MAX;
}

/* ---- Sides ------------------------------------------------------------------------------------------------------- */

static uint32_t no_schema(const void *array, const char *name) { return (void)array, (void)name, 0; }

static void side_open(syncing *s, sync_side *side, tsr_store *store, const char *path) {
  static const tsr_map none;
  tsr_array *array = &side->array;
  array->environment = s->environment;
  array->store = store;
  array->path = (char *)(uintptr_t)path; /* borrowed, only read */
  array->log = (tsr_log){.environment = s->environment, .store = store, .path = path, .memory = &s->memory};
  array->log.schemas = array->log.conditions = &none;
  array->log.schema_version = no_schema;
  array->log.files.by_path.memory = &s->memory;
  side->metadata.memory = store->memory;
  sync_set *const sets[] = {&side->commits, &side->files};
  for (int i = 0; i < 2; i++) {
    sets[i]->items.memory = sets[i]->names.memory = &s->memory;
    sets[i]->arena = &s->arena;
  }
}

static void side_close(sync_side *side) {
  sync_set *const sets[] = {&side->commits, &side->files};
  for (int i = 0; i < 2; i++) {
    tsr__buffer_release(&sets[i]->items);
    tsr__map_release(&sets[i]->names);
  }
  tsr__listing_release(&side->metadata);
  if (side->array.store) tsr__log_release(&side->array.log);
  tsr__store_close(side->array.store);
}

static int set_add(sync_set *set, const sync_item *item, tsr_error *error) {
  sync_item own = *item;
  char *name;
  TSR_TRY(TSR_ARENA_COPY(set->arena, item->name, strlen(item->name), &name, error));
  own.name = name;
  TSR_TRY(tsr__buffer_append(&set->items, &own, sizeof own, error));
  return tsr__map_put(&set->names, name, name, error);
}

static int add_commits(sync_set *set, const tsr_commit_list *list, bool fragments, tsr_error *error) {
  for (uint64_t i = 0; i < list->count; i++) {
    const tsr_committed *one = &list->items[i];
    const sync_item item = {one->name, one->parsed, one, fragments, fragments && one->parsed.start < one->parsed.end};
    TSR_TRY(set_add(set, &item, error));
  }
  return TSR_OK;
}

static sync_item *items_to_mark(sync_set *set, uint64_t *count) {
  *count = set->items.size / sizeof(sync_item);
  return (sync_item *)(void *)set->items.data;
}

/* Marks merges of fragments of one time that a vacuum file tells of. */
static void mark_vacuums(sync_set *commits, const tsr_commit_list *vacuums) {
  uint64_t count;
  sync_item *items = items_to_mark(commits, &count);
  for (uint64_t i = 0; i < vacuums->count; i++)
    for (uint64_t k = 0; vacuums->items[i].parsed.start == vacuums->items[i].parsed.end && k < count; k++)
      if (strcmp(items[k].name, vacuums->items[i].name) == 0) items[k].merged = true;
}

/* Marks merges of fragments of one time whose vacuum file is gone: one side has a fragment that both had, and the other
 * has a new one of the same time instead. */
static void mark_instead(const tsr_map *known, const sync_set *one, sync_set *other) {
  uint64_t count, other_count;
  const sync_item *items = sync_items(&one->items, &count);
  sync_item *others = items_to_mark(other, &other_count);
  for (uint64_t i = 0; i < count; i++) {
    const tsr_name *p = &items[i].parsed;
    if (!items[i].fragment || p->start < p->end || !tsr__map_get(known, items[i].name) ||
        tsr__map_get(&other->names, items[i].name))
      continue;
    for (uint64_t k = 0; k < other_count; k++)
      if (others[k].fragment && others[k].parsed.start == p->start && others[k].parsed.end == p->end &&
          !tsr__map_get(known, others[k].name))
        others[k].merged = true;
  }
}

/* Lists a directory; one that is missing has no entries. */
static int sync_list(tsr_store *store, const char *directory, tsr_listing *entries, tsr_error *error) {
  tsr_error one;
  *entries = (tsr_listing){.memory = store->memory};
  const int rc = tsr__store_list(store, directory, entries, &one);
  if (rc < 0 && rc != TSR_NOT_FOUND) return *error = one, rc;
  return TSR_OK;
}

/* Lists a side: its commits first, because what a commit needs is there before it. */
static int side_list(sync_side *side, tsr_error *error) {
  TSR_TRY(tsr__log_list(&side->array.log, true, true, error));
  TSR_TRY(add_commits(&side->commits, &side->array.log.listing->fragments, true, error));
  TSR_TRY(add_commits(&side->commits, &side->array.log.listing->deletes, false, error));
  mark_vacuums(&side->commits, &side->array.log.listing->vacuums);
  TSR_TRY(sync_list(side->array.store, TSR_DIR_META, &side->metadata, error));
  for (uint64_t i = 0; i < side->metadata.count; i++) {
    const tsr_entry *entry = &side->metadata.entries[i];
    sync_item item = {.name = entry->name};
    if (entry->kind == TSR_ENTRY_FILE && tsr__name_parse(entry->name, strlen(entry->name), &item.parsed)) {
      item.merged = item.parsed.start < item.parsed.end;
      TSR_TRY(set_add(&side->files, &item, error));
    }
  }
  return TSR_OK;
}

/* ---- What differs ------------------------------------------------------------------------------------------------ */

/* Returns the merged item with the shortest range that spans the item's time, or NULL. */
static const sync_item *find_merged(const tsr_buffer *items, const sync_item *item) {
  uint64_t count;
  const sync_item *all = sync_items(items, &count), *found = NULL;
  for (uint64_t i = 0; i < count; i++) {
    const tsr_name *p = &all[i].parsed;
    if (!all[i].merged || p->start > item->parsed.start || p->end < item->parsed.end) continue;
    if (!found || p->end - p->start < found->parsed.end - found->parsed.start) found = &all[i];
  }
  return found;
}

/* Finds what `one` has and `other` has not. `covered`: names that vacuum files say are replaced at the other side. What
 * ends after `latest` does not travel: it is neither new nor replaced by what does. */
static int compare(const sync_set *one, const sync_set *other, const tsr_map *covered, const tsr_map *known,
                   uint64_t latest, bool is_new, sync_difference *difference, tsr_error *error) {
  uint64_t count;
  const sync_item *items = sync_items(&one->items, &count);
  for (uint64_t i = 0; i < count; i++) {
    if (tsr__map_get(&other->names, items[i].name)) continue;
    const bool replaced = (covered && tsr__map_get(covered, items[i].name)) ||
                          (tsr__map_get(known, items[i].name) && find_merged(&other->items, &items[i]));
    if (items[i].parsed.end > latest && (is_new || replaced)) continue;
    TSR_TRY(tsr__buffer_append(replaced ? &difference->replaced : &difference->own, &items[i], sizeof *items, error));
  }
  return TSR_OK;
}

static int compare_commits(syncing *s, sync_pair *p) {
  tsr_buffer files = {.memory = &s->memory};
  tsr_map at_to = {.memory = &s->memory}, at_from = {.memory = &s->memory};
  tsr_log *from = &p->from.array.log, *to = &p->to.array.log;
  int rc = tsr__log_replacing(from, &from->listing->vacuums, &files, s->error);
  if (rc >= 0 && !p->missing) rc = tsr__log_replacing(to, &to->listing->vacuums, &files, s->error);
  const tsr_replacing *all = (const tsr_replacing *)(const void *)files.data;
  const uint64_t count = files.size / sizeof *all;
  if (rc >= 0) rc = tsr__covered(all, count, &p->to.commits.names, &at_to, s->error);
  if (rc >= 0) rc = tsr__covered(all, count, &p->from.commits.names, &at_from, s->error);
  if (rc >= 0)
    rc = compare(&p->from.commits, &p->to.commits, &at_to, &p->known, latest_of(s, p), true, &p->new_commits, s->error);
  if (rc >= 0)
    rc = compare(&p->to.commits, &p->from.commits, &at_from, &p->arrived, latest_of(s, p), false, &p->old_commits,
                 s->error);
  tsr__map_release(&at_to);
  tsr__map_release(&at_from);
  tsr__buffer_release(&files);
  return rc;
}

static void time_text(uint64_t milliseconds, char text[48]) {
  if (!tsr_datetime_print(TSR_DATETIME_MS, (int64_t)milliseconds, text))
    snprintf(text, 48, "%llu ms", (unsigned long long)milliseconds);
}

/* Fails if a merged item of one side spans the time of an item that only the other side has: it would no
 * longer be known which cells are newer, and sources that are vacuumed already would come back. */
static int refuse_merged(syncing *s, const tsr_buffer *merged, const char *path, const tsr_buffer *own,
                         const char *other) {
  uint64_t count, own_count;
  const sync_item *a = sync_items(merged, &count), *b = sync_items(own, &own_count);
  for (uint64_t i = 0; i < count; i++)
    for (uint64_t k = 0; a[i].merged && k < own_count; k++) {
      char time[48];
      if (a[i].parsed.start > b[k].parsed.end || b[k].parsed.start > a[i].parsed.end) continue;
      time_text(b[k].parsed.start, time);
      return tsr__fail(s->error, TSR_ERROR,
                       "%s has merged over times in which %s has commits of its own, the first of %s: sync the other "
                       "way first, or both ways before a merge",
                       path, other, time);
    }
  return TSR_OK;
}

/* Fails if a fragment of `items`, which is about to travel, is gone at the source, although no merge explains that: a
 * copy would be as damaged, and nobody would know. TSR_NOT_FOUND: a vacuum may just have removed it. */
static int check_source(syncing *s, sync_pair *p, const tsr_buffer *items) {
  sync_side *from = &p->from;
  tsr_map covered = {.memory = &s->memory};
  tsr_listing folder = {0}, root = {0};
  uint64_t count;
  bool old = false;
  const sync_item *all = sync_items(items, &count);
  if (count == 0) return TSR_OK;
  for (uint64_t i = 0; i < count; i++) old |= all[i].commit->old_layout;
  int rc = tsr__log_covered(&from->array.log, from->array.log.listing, &covered, s->error);
  if (rc >= 0) rc = sync_list(from->array.store, TSR_DIR_FRAGMENTS, &folder, s->error);
  if (rc >= 0 && old) rc = sync_list(from->array.store, "", &root, s->error);
  for (uint64_t i = 0; i < count && rc >= 0; i++)
    if (all[i].fragment && all[i].parsed.end <= latest_of(s, p) && !tsr__map_get(&covered, all[i].name) &&
        !tsr__listing_has(all[i].commit->old_layout ? &root : &folder, all[i].name))
      rc = tsr__fail(s->error, TSR_NOT_FOUND,
                     "%s is damaged: fragment %s is committed, but gone, so it cannot be copied; tessera_check tells "
                     "more",
                     from->array.path, all[i].name);
  tsr__listing_release(&root);
  tsr__listing_release(&folder);
  tsr__map_release(&covered);
  return rc;
}

/* Fails if the copy has commits of its own and shall not keep them, or if both cannot be joined. */
static int check_own(syncing *s, const sync_difference *new, const sync_difference *old, const char *what) {
  uint64_t count;
  char time[48];
  const sync_item *own = sync_items(&old->own, &count);
  if (count == 0) return TSR_OK;
  if (s->options->merge) {
    TSR_TRY(refuse_merged(s, &new->own, s->paths[0], &old->own, s->paths[1]));
    return refuse_merged(s, &old->own, s->paths[1], &new->own, s->paths[0]);
  }
  uint64_t first = own[0].parsed.start;
  for (uint64_t i = 1; i < count; i++) first = own[i].parsed.start < first ? own[i].parsed.start : first;
  time_text(first, time);
  return tsr__fail(s->error, TSR_ERROR,
                   "%s has %llu %s that %s has not, the first of %s: merge with the option \"merge\", or sync to "
                   "another place",
                   s->paths[1], (unsigned long long)count, what, s->paths[0], time);
}

/* Sets *apart if the sources of a merged item are still there, so that they can be copied without it. */
static int sources_apart(syncing *s, sync_pair *p, const sync_item *merged, bool *apart) {
  if (merged->commit) return tsr__sources_kept(&p->from.array, merged->commit, NULL, apart, s->error);
  *apart = tsr__listing_has(&p->from.metadata, tsr__path_of("", merged->name, TSR_SUFFIX_VACUUM).text);
  return TSR_OK;
}

/* Fails if what was written up to the time of `as_of` was merged with what came later, and cannot be copied alone. */
static int check_apart(syncing *s, sync_pair *p) {
  const sync_set *const sets[] = {&p->from.commits, &p->from.files}, *const theirs[] = {&p->to.commits, &p->to.files};
  const uint64_t latest = latest_of(s, p);
  for (int i = 0; i < 2; i++) {
    uint64_t count;
    const sync_item *items = sync_items(&sets[i]->items, &count);
    for (uint64_t k = 0; k < count; k++) {
      bool apart;
      char time[48], end[48];
      if (items[k].parsed.start > latest || items[k].parsed.end <= latest) continue;
      if (tsr__map_get(&theirs[i]->names, items[k].name)) continue;
      TSR_TRY(sources_apart(s, p, &items[k], &apart));
      if (apart) continue;
      time_text(latest, time);
      time_text(items[k].parsed.end, end);
      return tsr__fail(s->error, TSR_ERROR,
                       "%s has merged %s of up to %s with later ones, and vacuumed them: sync as of %s, or all",
                       s->paths[0], i ? "metadata" : "commits", time, end);
    }
  }
  return TSR_OK;
}

static bool has_name(const tsr_commit_list *list, const char *name) {
  for (uint64_t i = 0; i < list->count; i++)
    if (strcmp(list->items[i].name, name) == 0) return true;
  return false;
}

static uint64_t lacking_schemas(const tsr_commit_list *of, const tsr_commit_list *in) {
  uint64_t count = 0;
  for (uint64_t i = 0; i < of->count; i++) count += !has_name(in, of->items[i].name);
  return count;
}

/* Sets *same if the file at `path` has the same bytes at both sides. */
static int same_bytes(syncing *s, const sync_pair *p, const char *path, bool *same) {
  tsr_buffer a = {.memory = &s->memory}, b = {.memory = &s->memory};
  int rc = tsr__store_read_all(p->from.array.store, path, SYNC_FILE_MAX, &a, s->error);
  if (rc >= 0) rc = tsr__store_read_all(p->to.array.store, path, SYNC_FILE_MAX, &b, s->error);
  *same = rc >= 0 && a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
  tsr__buffer_release(&a);
  tsr__buffer_release(&b);
  return rc;
}

/* Fails if both sides are not the same array, or have changed their schemas apart. */
static int check_schemas(syncing *s, const sync_pair *p) {
  const tsr_commit_list *from = &p->from.array.log.listing->schemas, *to = &p->to.array.log.listing->schemas;
  const uint64_t new = lacking_schemas(from, to), old = lacking_schemas(to, from);
  bool same = new < from->count;
  if (same && has_name(from, TSR_FILE_OLD_SCHEMA) && has_name(to, TSR_FILE_OLD_SCHEMA))
    TSR_TRY(same_bytes(s, p, TSR_FILE_OLD_SCHEMA, &same));
  if (!same)
    return tsr__fail(s->error, TSR_EXISTS, "%s is another array, not a copy of %s: sync to an empty place", s->paths[1],
                     s->paths[0]);
  if (old > 0 && (new > 0 || !s->options->merge))
    return tsr__fail(s->error, TSR_ERROR, "%s has a schema that %s has not: %s", s->paths[1], s->paths[0],
                     new > 0 ? "both have changed their schemas, and cannot become one"
                             : "merge with the option \"merge\", or sync to another place");
  return TSR_OK;
}

/* ---- Comparing contents ------------------------------------------------------------------------------------------ */

static int fail_different(const syncing *s, const char *path) {
  return tsr__fail(s->error, TSR_CORRUPT, "%s and %s differ in %s: one of them is damaged; tessera_check finds which",
                   s->paths[0], s->paths[1], path);
}

/* Fails if the files of a name have different bytes. */
static int verify_files(syncing *s, const char *path, tsr_file *a, tsr_file *b) {
  const uint64_t half = TSR_COPY_BLOCK / 2;
  if (a->size != b->size) return fail_different(s, path);
  for (uint64_t at = 0; at < a->size; at += half) {
    const uint64_t part = TSR_MIN(a->size - at, half);
    TSR_TRY(tsr__cancelled(&s->environment->memory, s->error));
    TSR_TRY(tsr__store_read_at(a, at, s->block, part, s->error));
    TSR_TRY(tsr__store_read_at(b, at, s->block + half, part, s->error));
    if (memcmp(s->block, s->block + half, part) != 0) return fail_different(s, path);
  }
  return TSR_OK;
}

static int verify_file(syncing *s, const sync_pair *p, const char *path) {
  tsr_file *a = NULL, *b = NULL;
  int rc = tsr__store_open_file(p->from.array.store, path, &a, s->error);
  if (rc >= 0) rc = tsr__store_open_file(p->to.array.store, path, &b, s->error);
  if (rc >= 0) rc = verify_files(s, path, a, b);
  tsr__store_close_file(a);
  tsr__store_close_file(b);
  return rc;
}

/* Compares the files that both sides have in a directory. `all`: they must have the same files. Vacuum files may hold
 * paths of the array, and are left out. */
static int verify_directory(syncing *s, const sync_pair *p, const char *directory, bool all) {
  tsr_listing from, to = {0};
  int rc = sync_list(p->from.array.store, directory, &from, s->error);
  if (rc >= 0) rc = sync_list(p->to.array.store, directory, &to, s->error);
  if (rc >= 0 && all && from.count != to.count) rc = fail_different(s, directory);
  for (uint64_t i = 0; i < from.count && rc >= 0; i++) {
    const tsr_entry *entry = &from.entries[i];
    const tsr_path path = tsr__path_of(directory, entry->name, "");
    if (entry->kind != TSR_ENTRY_FILE || *entry->name == '.' || tsr__name_ends_in(entry->name, TSR_SUFFIX_VACUUM))
      continue;
    if (tsr__listing_has(&to, entry->name)) rc = verify_file(s, p, path.text);
    else if (all) rc = fail_different(s, path.text);
  }
  tsr__listing_release(&to);
  tsr__listing_release(&from);
  return rc;
}

static int read_delete(syncing *s, const sync_side *side, const tsr_committed *item, tsr_buffer *bytes) {
  if (item->bytes) return tsr__buffer_append(bytes, item->bytes, item->size, s->error);
  return tsr__store_read_all(side->array.store, item->path, SYNC_FILE_MAX, bytes, s->error);
}

static int verify_delete(syncing *s, const sync_pair *p, const tsr_committed *from, const tsr_committed *to) {
  tsr_buffer a = {.memory = &s->memory}, b = {.memory = &s->memory};
  int rc = read_delete(s, &p->from, from, &a);
  if (rc >= 0) rc = read_delete(s, &p->to, to, &b);
  if (rc >= 0 && (a.size != b.size || (a.size && memcmp(a.data, b.data, a.size) != 0)))
    rc = fail_different(s, from->path);
  tsr__buffer_release(&a);
  tsr__buffer_release(&b);
  return rc;
}

/* Fails if both sides have something of one name and of different contents. */
static int verify_pair(syncing *s, const sync_pair *p) {
  tsr_map theirs = {.memory = &s->memory};
  uint64_t count, own_count;
  const sync_item *items = sync_items(&p->to.commits.items, &count);
  int rc = TSR_OK;
  for (uint64_t i = 0; i < count && rc >= 0; i++)
    rc = tsr__map_put(&theirs, items[i].name, (void *)(uintptr_t)items[i].commit, s->error);
  const sync_item *own = sync_items(&p->from.commits.items, &own_count);
  for (uint64_t i = 0; i < own_count && rc >= 0; i++) {
    const tsr_committed *from = own[i].commit, *to = tsr__map_get(&theirs, own[i].name);
    if (!to) continue;
    if (!tsr__map_get(&p->from.array.log.listing->names, from->name)) rc = verify_delete(s, p, from, to);
    else
      rc = verify_directory(s, p, tsr__path_of(from->old_layout ? "" : TSR_DIR_FRAGMENTS, from->name, "").text, true);
  }
  tsr__map_release(&theirs);
  if (rc >= 0) rc = verify_directory(s, p, TSR_DIR_SCHEMA, false);
  if (rc >= 0) rc = verify_directory(s, p, TSR_DIR_SCHEMA "/" TSR_DIR_ENUMERATIONS, false);
  return rc < 0 ? rc : verify_directory(s, p, TSR_DIR_META, false);
}

/* ---- Copying files ----------------------------------------------------------------------------------------------- */

static int make_directory(tsr_store *store, const char *path, tsr_error *error) {
  tsr_error one;
  const int rc = tsr__store_make_directory(store, path, &one);
  if (rc < 0 && rc != TSR_EXISTS) return *error = one, rc;
  return TSR_OK;
}

/* Copies a small file, which appears complete or not at all. TSR_BUSY if it is still being written. */
static int copy_whole(syncing *s, const sync_pair *p, const char *path) {
  tsr_buffer bytes = {.memory = &s->memory};
  tsr_store *from = p->from.array.store;
  tsr_look before = {0}, after = {0};
  tsr_error one;
  TSR_TRY(tsr__cancelled(&s->environment->memory, s->error));
  int rc = tsr__store_look(from, path, &before, s->error);
  if (rc >= 0) rc = tsr__store_read_all(from, path, SYNC_FILE_MAX, &bytes, s->error);
  if (rc >= 0) rc = tsr__store_look(from, path, &after, s->error);
  if (rc >= 0 && (bytes.size == 0 || !tsr__same_look(&before, &after)))
    rc = tsr__fail(s->error, TSR_BUSY, "%s/%s is being written", from->name, path);
  if (rc >= 0) rc = tsr__store_put_new(p->to.array.store, path, bytes.data, bytes.size, true, &one);
  if (rc == TSR_EXISTS) rc = TSR_OK; /* another sync has copied it */
  else if (rc >= 0) s->done.copied++, s->done.bytes += bytes.size;
  else if (s->error->code != rc) *s->error = one;
  tsr_work_done(s->environment, bytes.size);
  tsr__buffer_release(&bytes);
  return rc;
}

/* Copies the files of a directory that the copy lacks: the vacuum files, or all others. `from`: those that the source
 * has. `except`: names that stay behind, as do those that end after `latest`. */
static int copy_listed(syncing *s, const sync_pair *p, const char *directory, const tsr_listing *from, bool vacuums,
                       const sync_difference *except, uint64_t latest) {
  tsr_listing to = {0};
  tsr_store *store = p->to.array.store;
  tsr_map left = {.memory = &s->memory};
  uint64_t count = 0, copied = 0;
  const sync_item *items = except ? sync_items(&except->replaced, &count) : NULL;
  int rc = from->count > 0 ? make_directory(store, directory, s->error) : TSR_OK;
  if (rc >= 0) rc = sync_list(store, directory, &to, s->error);
  for (uint64_t i = 0; i < count && rc >= 0; i++)
    rc = tsr__map_put(&left, items[i].name, (void *)(uintptr_t)items[i].name, s->error);
  for (uint64_t i = 0; i < from->count && rc >= 0; i++) {
    const tsr_entry *entry = &from->entries[i];
    tsr_name parsed;
    if (entry->kind != TSR_ENTRY_FILE || *entry->name == '.' || tsr__listing_has(&to, entry->name) ||
        tsr__map_get(&left, entry->name) || tsr__name_ends_in(entry->name, TSR_SUFFIX_VACUUM) != vacuums)
      continue;
    if (tsr__name_parse(entry->name, strcspn(entry->name, "."), &parsed) && parsed.end > latest) continue;
    rc = copy_whole(s, p, tsr__path_of(directory, entry->name, "").text);
    copied++;
  }
  if (rc >= 0 && copied > 0) rc = tsr__store_sync_directory(store, directory, s->error);
  tsr__map_release(&left);
  tsr__listing_release(&to);
  return rc;
}

/* Copies the files that a directory of the source has now and the copy lacks. */
static int copy_missing(syncing *s, const sync_pair *p, const char *directory, uint64_t latest) {
  tsr_listing from;
  int rc = sync_list(p->from.array.store, directory, &from, s->error);
  if (rc >= 0) rc = copy_listed(s, p, directory, &from, false, NULL, latest);
  tsr__listing_release(&from);
  return rc;
}

/* Copies metadata, as it was listed when the two sides were compared: the record names what both have, and so it must
 * not miss a file that the source has got since. A vacuum file comes after the files that it is about. */
static int copy_metadata(syncing *s, const sync_pair *p) {
  for (int vacuums = 0; vacuums < 2; vacuums++)
    TSR_TRY(copy_listed(s, p, TSR_DIR_META, &p->from.metadata, vacuums, &p->new_files, latest_of(s, p)));
  return TSR_OK;
}

static int size_of(tsr_store *store, const tsr_path *path, const tsr_entry *entry, uint64_t *size, tsr_error *error) {
  tsr_file *file;
  *size = entry->size;
  if (entry->known) return TSR_OK;
  TSR_TRY(tsr__store_open_file(store, path->text, &file, error));
  *size = file->size;
  tsr__store_close_file(file);
  return TSR_OK;
}

/* Sets *same if a directory of the copy has the same files as the source's, of the same sizes. */
static int same_files(syncing *s, const sync_pair *p, const char *directory, const tsr_listing *from, bool *same) {
  tsr_listing to;
  int rc = sync_list(p->to.array.store, directory, &to, s->error);
  *same = rc >= 0 && to.count == from->count;
  for (uint64_t i = 0; rc >= 0 && *same && i < from->count; i++) {
    const tsr_path path = tsr__path_of(directory, from->entries[i].name, "");
    uint64_t a, b;
    *same = strcmp(from->entries[i].name, to.entries[i].name) == 0;
    if (*same) rc = size_of(p->from.array.store, &path, &from->entries[i], &a, s->error);
    if (*same && rc >= 0) rc = size_of(p->to.array.store, &path, &to.entries[i], &b, s->error);
    *same &= rc >= 0 && a == b;
  }
  tsr__listing_release(&to);
  return rc;
}

/* Copies the files of a fragment into the directory `target` of the copy. The metadata file comes last: below version 5
 * it is the commit. */
static int copy_files_of(syncing *s, const sync_pair *p, const char *directory, const tsr_listing *entries,
                         const char *target) {
  for (int metadata = 0; metadata < 2; metadata++)
    for (uint64_t i = 0; i < entries->count; i++) {
      const char *name = entries->entries[i].name;
      if ((strcmp(name, TSR_FILE_FRAGMENT_METADATA) == 0) != metadata || *name == '.') continue;
      const tsr_path from = tsr__path_of(directory, name, ""), to = tsr__path_of(target, name, "");
      uint64_t bytes;
      TSR_TRY(tsr__file_copy(s->environment, p->from.array.store, from.text, p->to.array.store, to.text, NULL, true,
                             s->block, NULL, &bytes, s->error));
      s->done.copied++;
      s->done.bytes += bytes;
    }
  return tsr__store_sync_directory(p->to.array.store, target, s->error);
}

/* Copies a fragment under a provisional name, and gives it its own once it is complete. */
static int copy_new_fragment(syncing *s, const sync_pair *p, const char *parent, const char *name,
                             const tsr_listing *entries) {
  const tsr_path directory = tsr__path_of(parent, name, "");
  tsr_store *store = p->to.array.store;
  uint8_t random[16];
  char hidden[sizeof(tsr_name) + 2];
  tsr_name made;
  TSR_TRY(tsr__random(random, sizeof random, s->error));
  TSR_TRY(tsr__name_new(0, 0, 0, &made, random));
  snprintf(hidden, sizeof hidden, ".%s", made.uuid);
  const tsr_path target = tsr__path_of(parent, hidden, "");
  TSR_TRY(tsr__store_make_provisional(store, target.text, s->error));
  int rc = copy_files_of(s, p, directory.text, entries, target.text);
  if (rc >= 0) rc = tsr__store_rename_exclusive(store, target.text, directory.text, s->error);
  if (rc < 0) (void)tsr__store_remove_tree(store, target.text, NULL);
  return rc == TSR_EXISTS ? TSR_ABORT : rc; /* another sync has copied it: look again */
}

static int copy_fragment(syncing *s, const sync_pair *p, const tsr_committed *fragment) {
  const char *parent = fragment->old_layout ? "" : TSR_DIR_FRAGMENTS;
  const tsr_path directory = tsr__path_of(parent, fragment->name, "");
  tsr_store *store = p->to.array.store;
  tsr_listing entries = {.memory = p->from.array.store->memory};
  bool exists, same = false;
  TSR_TRY(tsr__cancelled(&s->environment->memory, s->error));
  TSR_TRY(tsr__directory_find(store, directory.text, &exists, s->error));
  int rc = tsr__store_list(p->from.array.store, directory.text, &entries, s->error);
  if (rc >= 0 && exists) rc = same_files(s, p, directory.text, &entries, &same);
  if (rc >= 0 && exists && !same) rc = tsr__store_remove_tree(store, directory.text, s->error);
  if (rc >= 0 && !same) rc = copy_new_fragment(s, p, parent, fragment->name, &entries);
  tsr__listing_release(&entries);
  return rc;
}

static int copy_fragments(syncing *s, const sync_pair *p) {
  uint64_t count;
  bool root = false, folder = false;
  const sync_item *items = sync_items(&p->new_commits.own, &count);
  for (uint64_t i = 0; i < count; i++) folder |= !items[i].commit->old_layout;
  if (folder) TSR_TRY(make_directory(p->to.array.store, TSR_DIR_FRAGMENTS, s->error));
  const tsr_map *deletes = &p->from.array.log.listing->names; /* of fragments */
  for (uint64_t i = 0; i < count; i++) {
    if (!tsr__map_get(deletes, items[i].name)) continue;
    TSR_TRY(copy_fragment(s, p, items[i].commit));
    root |= items[i].commit->old_layout;
  }
  if (folder) TSR_TRY(tsr__store_sync_directory(p->to.array.store, TSR_DIR_FRAGMENTS, s->error));
  return root ? tsr__store_sync_directory(p->to.array.store, "", s->error) : TSR_OK;
}

/* ---- Commits ----------------------------------------------------------------------------------------------------- */

/* Appends the lines of the vacuum file that `name` has at the source, if it has one. */
static int add_vacuum_lines(syncing *s, sync_pair *p, const sync_item *merged, const tsr_maintained *object,
                            tsr_buffer *lines, bool *has) {
  tsr_log *log = &p->from.array.log;
  const tsr_commit_list *vacuums = &log->listing->vacuums;
  for (uint64_t i = 0; i < vacuums->count; i++) {
    const tsr_commit_file *file;
    if (strcmp(vacuums->items[i].name, merged->name) != 0) continue;
    TSR_TRY(tsr__log_file(log, vacuums->items[i].path, &file, s->error));
    *has = true;
    for (uint64_t n = 0; n < file->names.count; n++) {
      tsr_name parsed;
      const char *name = file->names.names[n];
      if (!tsr__name_parse(name, strlen(name), &parsed)) continue;
      TSR_TRY(tsr__vacuum_line(object, layout_fragments_folder(parsed.version), name, lines, s->error));
    }
    return TSR_OK;
  }
  return TSR_OK;
}

/* Appends the sources that the copy still has and that the source has merged into `merged`. */
static int add_replaced_lines(syncing *s, sync_pair *p, const sync_item *merged, const tsr_maintained *object,
                              tsr_buffer *lines) {
  uint64_t count;
  const sync_item *old = sync_items(&p->old_commits.replaced, &count);
  for (uint64_t i = 0; i < count; i++) {
    const sync_item *into = find_merged(&p->from.commits.items, &old[i]);
    if (into && strcmp(into->name, merged->name) == 0)
      TSR_TRY(tsr__vacuum_line(object, layout_fragments_folder(old[i].parsed.version), old[i].name, lines, s->error));
  }
  return TSR_OK;
}

/* Writes the vacuum file of a merged fragment, staged if it is new to the copy: then it counts as soon as the fragment
 * is committed. */
static int write_vacuum(syncing *s, sync_pair *p, const sync_item *merged, bool staged) {
  tsr_store *store = p->to.array.store;
  const tsr_maintained object = {.array = &p->to.array, .version = merged->parsed.version, .path = p->to.array.path};
  const char *parent = layout_commits_folder(merged->parsed.version);
  tsr_buffer lines = {.memory = &s->memory};
  bool exists = false, has = false;
  int rc = add_vacuum_lines(s, p, merged, &object, &lines, &has);
  if (rc >= 0 && staged) rc = add_replaced_lines(s, p, merged, &object, &lines);
  const tsr_path final = tsr__path_of(parent, merged->name, TSR_SUFFIX_VACUUM);
  const tsr_path path =
      !staged ? final : tsr__path_of(parent, tsr__path_of("", ".", merged->name).text, TSR_SUFFIX_STAGED_VACUUM);
  const bool wanted = staged ? lines.size > 0 : has;
  if (rc >= 0 && wanted) rc = tsr__store_find(store, final.text, &exists, s->error);
  if (rc >= 0 && wanted && !exists) {
    tsr_error one;
    if (staged) (void)tsr__store_remove(store, path.text, NULL); /* of a sync that was cut off */
    rc = tsr__store_put_new(store, path.text, lines.data, lines.size, true, &one);
    if (rc == TSR_EXISTS) rc = TSR_OK;
    else if (rc < 0) *s->error = one;
    else s->done.copied += has;
    if (rc >= 0) rc = tsr__store_sync_directory(store, parent, s->error);
  }
  tsr__buffer_release(&lines);
  return rc;
}

/* Writes the vacuum files of merged fragments: of the new ones, or of those that the copy has committed. */
static int write_vacuums(syncing *s, sync_pair *p, bool staged) {
  uint64_t count;
  const sync_item *items = sync_items(staged ? &p->new_commits.own : &p->from.commits.items, &count);
  for (uint64_t i = 0; i < count; i++)
    if (items[i].merged && (staged || tsr__map_get(&p->to.commits.names, items[i].name)))
      TSR_TRY(write_vacuum(s, p, &items[i], staged));
  return TSR_OK;
}

/* Publishes a small file that another sync may have published. */
static int publish(syncing *s, sync_pair *p, const char *path, const tsr_buffer *bytes) {
  tsr_error one;
  const int rc = tsr__file_publish(p->to.array.store, path, bytes ? bytes->data : (const uint8_t *)"",
                                   bytes ? bytes->size : 0, &one);
  if (rc < 0 && rc != TSR_EXISTS) return *s->error = one, rc;
  s->done.copied += rc >= 0;
  s->done.bytes += rc >= 0 && bytes ? bytes->size : 0;
  return TSR_OK;
}

/* Appends one new commit to the lines of a .con. */
static int add_commit_line(syncing *s, sync_pair *p, const sync_item *item, tsr_buffer *lines) {
  tsr_buffer bytes = {.memory = &s->memory};
  if (tsr__map_get(&p->from.array.log.listing->names, item->name))
    return tsr__commits_encode_write(item->name, lines, s->error);
  int rc = read_delete(s, &p->from, item->commit, &bytes);
  if (rc >= 0) rc = tsr__commits_encode_delete(item->name, bytes.data, bytes.size, lines, s->error);
  tsr__buffer_release(&bytes);
  return rc;
}

/* Publishes the only new commit, by a file of its own. */
static int publish_one(syncing *s, sync_pair *p, const sync_item *item) {
  tsr_buffer bytes = {.memory = &s->memory};
  const bool fragment = tsr__map_get(&p->from.array.log.listing->names, item->name) != NULL;
  const tsr_path path = tsr__path_of(TSR_DIR_COMMITS, item->name, fragment ? TSR_SUFFIX_WRITE : TSR_SUFFIX_DELETE);
  int rc = fragment ? TSR_OK : read_delete(s, &p->from, item->commit, &bytes);
  if (rc >= 0) rc = publish(s, p, path.text, &bytes);
  tsr__buffer_release(&bytes);
  return rc;
}

/* Publishes the new commits in one step. Those below version 12 follow one by one. */
static int publish_commits(syncing *s, sync_pair *p) {
  uint64_t count, listed = 0;
  const sync_item *items = sync_items(&p->new_commits.own, &count), *last = NULL;
  tsr_buffer lines = {.memory = &s->memory};
  tsr_name all = {.start = UINT64_MAX};
  int rc = TSR_OK;
  for (uint64_t i = 0; i < count && rc >= 0; i++) {
    if (!layout_has_commits_folder(items[i].parsed.version)) continue;
    rc = add_commit_line(s, p, last = &items[i], &lines);
    all.start = all.start < last->parsed.start ? all.start : last->parsed.start;
    all.end = all.end > last->parsed.end ? all.end : last->parsed.end;
    all.version = all.version > last->parsed.version ? all.version : last->parsed.version;
    listed++;
  }
  if (rc >= 0 && listed == 1) rc = publish_one(s, p, last);
  char path[160];
  if (rc >= 0 && listed > 1)
    rc = tsr__file_path(TSR_DIR_COMMITS, all.start, all.end, all.version, TSR_SUFFIX_CONSOLIDATED, path, s->error);
  if (rc >= 0 && listed > 1) rc = publish(s, p, path, &lines);
  tsr__buffer_release(&lines);
  for (uint64_t i = 0; i < count && rc >= 0; i++)
    if (!layout_has_commits_folder(items[i].parsed.version) && layout_has_commit_files(items[i].parsed.version))
      rc = publish(s, p, tsr__path_of("", items[i].name, TSR_SUFFIX_OLD_WRITE).text, NULL);
  return rc;
}

/* Gives the staged vacuum files their names. */
static int finish_vacuums(syncing *s, sync_pair *p) {
  uint64_t count;
  const sync_item *items = sync_items(&p->new_commits.own, &count);
  for (uint64_t i = 0; i < count; i++)
    if (items[i].merged)
      TSR_TRY(tsr__staged_vacuum_finish(p->to.array.store, layout_commits_folder(items[i].parsed.version),
                                        items[i].name, s->error));
  return TSR_OK;
}

/* ---- Removals ---------------------------------------------------------------------------------------------------- */

/* Removes the fragments that were merged and vacuumed at the source. */
static int remove_replaced(syncing *s, sync_pair *p) {
  uint64_t count;
  const sync_item *items = sync_items(&p->old_commits.replaced, &count);
  tsr_vacuum v = {.environment = s->environment, .store = p->to.array.store, .array = &p->to.array};
  tsr_buffer names = {.memory = &s->memory};
  int rc = TSR_OK;
  if (count == 0) return TSR_OK;
  tsr__arena_init(&v.arena, &s->memory);
  for (uint64_t i = count; i-- > 0 && rc >= 0;) /* newest first, as of a vacuum */
    rc = tsr__buffer_append(&names, &items[i].name, sizeof items[i].name, s->error);
  if (rc >= 0) rc = tsr__vacuum_sources(&v, true, &names, s->error);
  if (rc >= 0) s->done.removed += v.removed;
  tsr__buffer_release(&names);
  tsr__arena_release(&v.arena);
  return rc;
}

static int sync_remove(syncing *s, sync_pair *p, const char *path) {
  tsr_error one;
  const int rc = tsr__store_remove(p->to.array.store, path, &one);
  if (rc < 0 && rc != TSR_NOT_FOUND) return *s->error = one, rc;
  s->done.removed += rc >= 0;
  return TSR_OK;
}

static bool has_vacuum(const tsr_commit_listing *listing, const char *name) {
  for (uint64_t i = 0; i < listing->vacuums.count; i++)
    if (strcmp(listing->vacuums.items[i].name, name) == 0) return true;
  return false;
}

/* Removes vacuum files whose sources are all gone, if the source has removed them, too. */
static int remove_vacuums(syncing *s, sync_pair *p) {
  tsr_log *log = &p->to.array.log;
  bool any = p->old_commits.replaced.size > 0;
  for (uint64_t i = 0; !any && !p->missing && i < log->listing->vacuums.count; i++)
    any = !has_vacuum(p->from.array.log.listing, log->listing->vacuums.items[i].name);
  if (!any) return TSR_OK;
  TSR_TRY(tsr__log_list(log, true, true, s->error));
  const tsr_commit_list *vacuums = &log->listing->vacuums;
  for (uint64_t i = 0; i < vacuums->count; i++) {
    const tsr_committed *item = &vacuums->items[i];
    const tsr_commit_file *file;
    bool gone = tsr__map_get(&p->from.commits.names, item->name) && !has_vacuum(p->from.array.log.listing, item->name);
    if (!gone) continue;
    TSR_TRY(tsr__log_file(log, item->path, &file, s->error));
    for (uint64_t n = 0; n < file->names.count; n++) gone &= !tsr__map_get(&log->listing->names, file->names.names[n]);
    if (gone) TSR_TRY(sync_remove(s, p, item->path));
  }
  return TSR_OK;
}

/* Removes metadata files that were consolidated and vacuumed at the source, the newest first, and consolidated footers
 * that the source has no more. */
static int remove_files(syncing *s, sync_pair *p) {
  uint64_t count;
  const sync_item *items = sync_items(&p->old_files.replaced, &count);
  for (uint64_t i = count; i-- > 0;) {
    TSR_TRY(sync_remove(s, p, tsr__path_of(TSR_DIR_META, items[i].name, "").text));
    TSR_TRY(sync_remove(s, p, tsr__path_of(TSR_DIR_META, items[i].name, TSR_SUFFIX_VACUUM).text));
  }
  tsr_listing from, to = {0};
  if (s->options->merge) return TSR_OK;
  int rc = sync_list(p->from.array.store, TSR_DIR_FOOTERS, &from, s->error);
  if (rc >= 0) rc = sync_list(p->to.array.store, TSR_DIR_FOOTERS, &to, s->error);
  for (uint64_t i = 0; i < to.count && rc >= 0; i++)
    if (to.entries[i].kind == TSR_ENTRY_FILE && !tsr__listing_has(&from, to.entries[i].name))
      rc = sync_remove(s, p, tsr__path_of(TSR_DIR_FOOTERS, to.entries[i].name, "").text);
  tsr__listing_release(&to);
  tsr__listing_release(&from);
  return rc;
}

/* ---- The record -------------------------------------------------------------------------------------------------- */

static void record_name(const char *identity, char name[sizeof TSR_PREFIX_SYNCED + 16]) {
  snprintf(name, sizeof TSR_PREFIX_SYNCED + 16, TSR_PREFIX_SYNCED "%016llx",
           (unsigned long long)tsr__hash_text(1, identity));
}

/* Adds the names in a record; a missing one has none. Returns 1 if it is there, else 0. */
static int read_record(syncing *s, tsr_store *store, const char *record, tsr_map *known) {
  tsr_buffer bytes = {.memory = &s->memory};
  tsr_error one;
  char *text;
  int rc = tsr__store_read_all(store, record, SYNC_FILE_MAX, &bytes, &one);
  if (rc >= 0) rc = tsr__buffer_append_u8(&bytes, 0, &one);
  if (rc >= 0) rc = TSR_ARENA_COPY(&s->arena, bytes.data, bytes.size, &text, &one);
  for (char *end; rc >= 0 && (end = strchr(text, '\n')); text = end + 1) {
    *end = 0;
    rc = tsr__map_put(known, text, text, &one);
  }
  tsr__buffer_release(&bytes);
  if (rc < 0 && rc != TSR_NOT_FOUND) return *s->error = one, rc;
  return rc >= 0;
}

/* Adds the names of what stays at the copy only because it ends after as_of, and was at both sides once: the source has
 * merged it, and a later sync without as_of removes it. */
static int keep_known(syncing *s, const sync_pair *p, tsr_buffer *lines) {
  const sync_set *const sets[] = {&p->from.commits, &p->from.files}, *const theirs[] = {&p->to.commits, &p->to.files};
  for (int i = 0; i < 2; i++) {
    uint64_t count;
    const sync_item *items = sync_items(&theirs[i]->items, &count);
    for (uint64_t k = 0; k < count; k++)
      if (items[k].parsed.end > latest_of(s, p) && tsr__map_get(&p->known, items[k].name) &&
          !tsr__map_get(&sets[i]->names, items[k].name))
        TSR_TRY(tsr__buffer_printf(lines, s->error, "%s\n", items[k].name));
  }
  return TSR_OK;
}

static tsr_path record_of_begin(const syncing *s) { return tsr__path_of("", s->records[0], TSR_RECORD_BEGIN); }

/* Reads what earlier syncs have written. */
static int read_records(syncing *s, sync_pair *p) {
  TSR_TRY(read_record(s, p->to.array.store, s->records[0], &p->known));
  TSR_TRY(read_record(s, p->from.array.store, s->records[1], &p->known));
  const int begun = read_record(s, p->to.array.store, record_of_begin(s).text, &p->arrived);
  TSR_TRY(begun);
  p->begun = begun; /* also if it has no names: it may have been about to become the record of an empty array */
  for (uint64_t i = 0; i < p->known.count; i++)
    TSR_TRY(tsr__map_put(&p->arrived, p->known.entries[i].key, p->known.entries[i].value, s->error));
  return TSR_OK;
}

static int put_record(syncing *s, tsr_store *store, const char *path, const tsr_buffer *lines) {
  const int rc = tsr__store_put_new(store, path, lines->data, lines->size, true, s->error);
  return rc == TSR_EXISTS ? tsr__fail(s->error, TSR_BUSY, "another sync to %s is running", s->paths[1]) : rc;
}

/* Writes a record in the place of the one that may be there: whatever this is cut off at, one of them is. */
static int replace_record(syncing *s, tsr_store *store, const char *path, const tsr_buffer *lines) {
  const tsr_path next = tsr__path_of("", s->records[0], ".next");
  (void)tsr__store_remove(store, next.text, NULL); /* of a sync that was cut off */
  TSR_TRY(put_record(s, store, next.text, lines));
  TSR_TRY(tsr__store_rename(store, next.text, path, s->error));
  return tsr__store_sync_directory(store, "", s->error);
}

/* Writes the names that are about to be copied, beside those of earlier syncs that did not end. If this one is cut off,
 * and the source is merged and vacuumed before the next one, that sync still knows where the copy has them from. */
static int write_begin(syncing *s, const sync_pair *p) {
  const tsr_buffer *const own[] = {&p->new_commits.own, &p->new_files.own};
  tsr_store *store = p->to.array.store;
  tsr_buffer lines = {.memory = &s->memory};
  int rc = TSR_OK;
  if (!own[0]->size && !own[1]->size) return TSR_OK;
  for (uint64_t i = 0; i < p->arrived.count && rc >= 0; i++)
    if (!tsr__map_get(&p->known, p->arrived.entries[i].key))
      rc = tsr__buffer_printf(&lines, s->error, "%s\n", p->arrived.entries[i].key);
  for (int i = 0; i < 2; i++) {
    uint64_t count;
    const sync_item *items = sync_items(own[i], &count);
    for (uint64_t k = 0; k < count && rc >= 0; k++)
      if (!tsr__map_get(&p->arrived, items[k].name)) rc = tsr__buffer_printf(&lines, s->error, "%s\n", items[k].name);
  }
  if (rc >= 0 && p->begun) rc = replace_record(s, store, record_of_begin(s).text, &lines);
  else if (rc >= 0) rc = put_record(s, store, record_of_begin(s).text, &lines);
  if (rc >= 0 && !p->begun) rc = tsr__store_sync_directory(store, "", s->error);
  tsr__buffer_release(&lines);
  return rc;
}

/* Returns true if another sync has brought commits to the copy since both sides were listed: those that are at both
 * sides now, and were not in either list. */
static bool has_another(const sync_pair *p) {
  const tsr_commit_listing *from = p->from.array.log.listing, *to = p->to.array.log.listing;
  const tsr_commit_list *const lists[] = {&to->fragments, &to->deletes};
  for (int i = 0; i < 2; i++)
    for (uint64_t k = 0; k < lists[i]->count; k++) {
      const char *name = lists[i]->items[k].name;
      if (tsr__map_get(&p->to.commits.names, name) || tsr__map_get(&p->from.commits.names, name)) continue;
      if (has_name(&from->fragments, name) || has_name(&from->deletes, name)) return true;
    }
  return false;
}

/* The record that has just been written lacks what another sync has brought meanwhile, and may have taken the place of
 * one that has it. If so, this sync is repeated. */
static int find_another(syncing *s, sync_pair *p) {
  TSR_TRY(tsr__log_list(&p->to.array.log, true, true, s->error));
  TSR_TRY(tsr__log_list(&p->from.array.log, true, true, s->error));
  return has_another(p) ? tsr__fail(s->error, TSR_ABORT, "another sync to %s has ended meanwhile", s->paths[1])
                        : TSR_OK;
}

/* Writes the names that both sides have now, unless the record has them already. */
static int write_record(syncing *s, sync_pair *p) {
  const sync_set *const sets[] = {&p->from.commits, &p->from.files}, *const theirs[] = {&p->to.commits, &p->to.files};
  tsr_store *store = p->to.array.store;
  tsr_buffer lines = {.memory = &s->memory}, before = {.memory = &s->memory};
  tsr_error one;
  int rc = TSR_OK;
  for (int i = 0; i < 2; i++) {
    uint64_t count;
    const sync_item *items = sync_items(&sets[i]->items, &count);
    for (uint64_t k = 0; k < count && rc >= 0; k++)
      if (items[k].parsed.end <= latest_of(s, p) || tsr__map_get(&theirs[i]->names, items[k].name))
        rc = tsr__buffer_printf(&lines, s->error, "%s\n", items[k].name);
  }
  if (rc >= 0) rc = keep_known(s, p, &lines);
  const bool old = rc >= 0 && tsr__store_read_all(store, s->records[0], SYNC_FILE_MAX, &before, &one) >= 0;
  const bool same = old && before.size == lines.size && (!lines.size || !memcmp(before.data, lines.data, lines.size));
  if (rc >= 0 && !same) rc = replace_record(s, store, s->records[0], &lines);
  if (rc >= 0 && p->begun) rc = tsr__claim_forget(store, s->records[0], s->error);
  if (rc >= 0) (void)tsr__store_remove(store, record_of_begin(s).text, NULL);
  if (rc >= 0 && !same) rc = find_another(s, p);
  tsr__buffer_release(&before);
  tsr__buffer_release(&lines);
  return rc;
}

/* ---- A pair ------------------------------------------------------------------------------------------------------ */

static int pair_open(syncing *s, const char *below, sync_pair **pair) {
  sync_pair *p;
  tsr_store *stores[2] = {NULL, NULL};
  TSR_TRY(TSR_ALLOC(&s->memory, &p, s->error));
  int rc = tsr__buffer_append(&s->pairs, &p, sizeof p, s->error);
  if (rc < 0) return tsr__free(p), rc;
  *pair = p;
  p->below = below;
  p->known.memory = p->arrived.memory = &s->memory;
  sync_difference *const differences[] = {&p->new_commits, &p->old_commits, &p->new_files, &p->old_files};
  for (int i = 0; i < 4; i++) differences[i]->own.memory = differences[i]->replaced.memory = &s->memory;
  for (int i = 0; i < 2 && rc >= 0; i++) {
    tsr_buffer full = {.memory = &s->memory};
    char *path = NULL;
    if (!*below) rc = tsr__path_open(s->environment, "array", s->paths[i], &path, &stores[i], s->error);
    else rc = tsr__store_open_below(s->environment, s->paths[i], below, &full, &stores[i], s->error);
    tsr__free(path);
    tsr__buffer_release(&full);
    if (rc >= 0) side_open(s, i ? &p->to : &p->from, stores[i], stores[i]->name);
  }
  return rc;
}

static void pair_close(sync_pair *p) {
  sync_difference *const differences[] = {&p->new_commits, &p->old_commits, &p->new_files, &p->old_files};
  for (int i = 0; i < 4; i++) {
    tsr__buffer_release(&differences[i]->own);
    tsr__buffer_release(&differences[i]->replaced);
  }
  side_close(&p->from);
  side_close(&p->to);
  tsr__map_release(&p->known);
  tsr__map_release(&p->arrived);
  tsr__free(p);
}

/* Lists both sides and finds what differs. Changes nothing. Another sync may bring commits, and write the record
 * without what they have replaced: so the record is read before the copy is listed. */
static int pair_compare(syncing *s, sync_pair *p) {
  tsr_object_kind kind;
  TSR_TRY(tsr__object_kind(p->to.array.store, "", &kind, s->error));
  p->missing = kind != TSR_OBJECT_ARRAY;
  TSR_TRY(read_records(s, p));
  if (!p->missing) TSR_TRY(side_list(&p->to, s->error));
  TSR_TRY(side_list(&p->from, s->error));
  if (!p->missing) TSR_TRY(check_schemas(s, p));
  mark_instead(&p->arrived, &p->to.commits, &p->from.commits);
  mark_instead(&p->known, &p->from.commits, &p->to.commits);
  TSR_TRY(compare_commits(s, p));
  TSR_TRY(check_source(s, p, &p->new_commits.own));
  TSR_TRY(compare(&p->from.files, &p->to.files, NULL, &p->known, latest_of(s, p), true, &p->new_files, s->error));
  TSR_TRY(compare(&p->to.files, &p->from.files, NULL, &p->arrived, latest_of(s, p), false, &p->old_files, s->error));
  TSR_TRY(check_apart(s, p));
  if (s->options->verify && !p->missing) TSR_TRY(verify_pair(s, p));
  TSR_TRY(check_own(s, &p->new_commits, &p->old_commits, "commits"));
  return check_own(s, &p->new_files, &p->old_files, "files of metadata");
}

/* Makes the directories of a label that the copy does not have yet. */
static int make_missing(syncing *s, const sync_pair *p) {
  const sync_pair *first;
  memcpy(&first, s->pairs.data, sizeof first);
  if (!p->missing) return TSR_OK;
  TSR_TRY(make_directory(first->to.array.store, TSR_DIR_LABELS, s->error));
  return make_directory(first->to.array.store, p->below, s->error);
}

static int pair_copy(syncing *s, sync_pair *p) {
  TSR_TRY(make_missing(s, p));
  TSR_TRY(write_begin(s, p));
  TSR_TRY(copy_missing(s, p, TSR_DIR_SCHEMA "/" TSR_DIR_ENUMERATIONS, UINT64_MAX));
  TSR_TRY(copy_missing(s, p, TSR_DIR_SCHEMA, UINT64_MAX));
  TSR_TRY(copy_fragments(s, p));
  TSR_TRY(copy_missing(s, p, TSR_DIR_FOOTERS, latest_of(s, p)));
  TSR_TRY(copy_metadata(s, p));
  if (p->new_commits.own.size) TSR_TRY(make_directory(p->to.array.store, TSR_DIR_COMMITS, s->error));
  TSR_TRY(write_vacuums(s, p, true));
  TSR_TRY(publish_commits(s, p));
  TSR_TRY(finish_vacuums(s, p));
  TSR_TRY(write_vacuums(s, p, false));
  TSR_TRY(remove_replaced(s, p));
  TSR_TRY(remove_vacuums(s, p));
  TSR_TRY(remove_files(s, p));
  return write_record(s, p);
}

/* ---- The sync ---------------------------------------------------------------------------------------------------- */

/* Lists the source before anything is copied, and checks that it has what it has committed. */
static int pair_check_source(syncing *s, sync_pair *p) {
  TSR_TRY(side_list(&p->from, s->error));
  return check_source(s, p, &p->from.commits.items);
}

/* Opens the pairs of the array and of its labels, and calls `look` for each. */
static int open_pairs(syncing *s, int (*look)(syncing *s, sync_pair *p)) {
  sync_pair *p;
  tsr_listing labels;
  TSR_TRY(pair_open(s, "", &p));
  TSR_TRY(look(s, p));
  int rc = sync_list(p->from.array.store, TSR_DIR_LABELS, &labels, s->error);
  for (uint64_t i = 0; i < labels.count && rc >= 0; i++) {
    const tsr_path path = tsr__path_of(TSR_DIR_LABELS, labels.entries[i].name, "");
    char *below;
    if (labels.entries[i].kind != TSR_ENTRY_DIRECTORY || *labels.entries[i].name == '.') continue;
    rc = TSR_ARENA_COPY(&s->arena, path.text, strlen(path.text), &below, s->error);
    if (rc >= 0) rc = pair_open(s, below, &p);
    if (rc >= 0) rc = look(s, p);
  }
  tsr__listing_release(&labels);
  return rc;
}

static void close_pairs(syncing *s) {
  for (uint64_t i = 0; i < s->pairs.size / sizeof(sync_pair *); i++) {
    sync_pair *p;
    memcpy(&p, s->pairs.data + i * sizeof p, sizeof p);
    pair_close(p);
  }
  s->pairs.size = 0;
}

/* Compares and copies; labels come before the cells that they name. */
static int sync_once(syncing *s) {
  int rc = open_pairs(s, pair_compare);
  for (uint64_t i = s->pairs.size / sizeof(sync_pair *); i-- > 0 && rc >= 0;) {
    sync_pair *p;
    memcpy(&p, s->pairs.data + i * sizeof p, sizeof p);
    rc = pair_copy(s, p);
  }
  close_pairs(s);
  return rc;
}

static int check_once(syncing *s) {
  const int rc = open_pairs(s, pair_check_source);
  close_pairs(s);
  return rc;
}

/* Fails with TSR_BUSY if the source has changed during every attempt. If the same file is missing as at the attempt
 * before, as behind a broken link, that is the error. */
static int fail_changing(const syncing *s, int rc, const char *before) {
  const tsr_error last = *s->error;
  if (rc == TSR_NOT_FOUND && strcmp(last.message, before) == 0) return rc;
  return tsr__fail(s->error, TSR_BUSY, "%s keeps changing while it is synced, probably by a vacuum: try again (%s)",
                   s->paths[0], last.message);
}

/* Tries again if the source has changed meanwhile: a vacuum has removed a listed file. `busy`: how often, if another
 * process is at work. */
static int patiently(syncing *s, int (*once)(syncing *s), int busy) {
  char before[TSR_MESSAGE_SIZE] = "";
  int rc = once(s);
  for (int i = 1; rc == TSR_BUSY ? i < busy : i < SYNC_ATTEMPTS && (rc == TSR_NOT_FOUND || rc == TSR_ABORT); i++) {
    struct timespec pause = {.tv_nsec = SYNC_PAUSE * 1000000};
    TSR_TRY(tsr__cancelled(&s->environment->memory, s->error));
    nanosleep(&pause, NULL);
    memcpy(before, s->error->message, sizeof before);
    rc = once(s);
  }
  return rc == TSR_NOT_FOUND || rc == TSR_ABORT ? fail_changing(s, rc, before) : rc;
}

static int find_kinds(syncing *s, bool *empty) {
  tsr_object_kind kinds[2];
  for (int i = 0; i < 2; i++) {
    char *path;
    tsr_store *store;
    TSR_TRY(tsr__path_open(s->environment, "array", s->paths[i], &path, &store, s->error));
    int rc = tsr__object_kind(store, "", &kinds[i], s->error);
    if (rc >= 0 && i == 0 && kinds[0] != TSR_OBJECT_ARRAY)
      rc = tsr__fail(s->error, TSR_NOT_FOUND, "array not found: %s%s", store->name,
                     kinds[0] == TSR_OBJECT_GROUP ? ": it is a group, not an array" : "");
    tsr__store_close(store);
    tsr__free(path);
    TSR_TRY(rc);
  }
  *empty = kinds[1] != TSR_OBJECT_ARRAY;
  return TSR_OK;
}

/* Copies a whole array, or its frame, if not all commits travel: unless another sync has meanwhile. */
static int copy_once(syncing *s) {
  bool empty;
  TSR_TRY(find_kinds(s, &empty));
  if (!empty) return TSR_OK;
  return tsr__array_copy(s->environment, s->paths[0], s->paths[1], false, s->options->as_of > 0, s->records[0],
                         &s->done.copied, &s->done.bytes, s->error);
}

/* The copy is followed by what was committed meanwhile, and the record. */
static int sync_empty(syncing *s) {
  TSR_TRY(patiently(s, check_once, SYNC_ATTEMPTS));
  TSR_TRY(patiently(s, copy_once, FIRST_ATTEMPTS));
  return patiently(s, sync_once, SYNC_ATTEMPTS);
}

int tsr_array_sync(tsr_environment *environment, const char *from, const char *to, const tsr_sync_options *options,
                   tsr_sync_result *result, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_sync_options own;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_sync_options, to_identity, options, &own, error));
  bool empty;
  syncing s = {.environment = environment, .options = &own, .error = error};
  s.paths[0] = from;
  s.paths[1] = to;
  record_name(s.options->from_identity ? s.options->from_identity : from, s.records[0]);
  record_name(s.options->to_identity ? s.options->to_identity : to, s.records[1]);
  tsr__memory_init(&s.memory, &environment->memory, UINT64_MAX, "the sync");
  tsr__arena_init(&s.arena, &s.memory);
  s.pairs.memory = &s.memory;
  int rc = find_kinds(&s, &empty);
  if (rc >= 0) rc = TSR_ALLOC_RAW(&s.memory, TSR_COPY_BLOCK, &s.block, error);
  if (rc >= 0) {
    tsr_work work;
    tsr_work_begin(environment, &work, "sync", from, 0);
    rc = empty ? sync_empty(&s) : patiently(&s, sync_once, SYNC_ATTEMPTS);
    tsr_work_end(environment, &work);
  }
  if (result) *result = s.done;
  tsr__free(s.block);
  tsr__buffer_release(&s.pairs);
  tsr__arena_release(&s.arena);
  return rc;
}
