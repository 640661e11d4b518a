/* listing.c: what the array's directories say is committed.
 *
 *   __commits/NAME.wrt            the fragment __fragments/NAME is committed (version 12 and later)
 *   __commits/NAME.del            a delete condition
 *   __commits/NAME.con            several of both; .ok entries in it commit fragments of the old layout
 *   __commits/NAME.ign            fragments whose entries in .con files do not count
 *   __commits/NAME.vac, NAME.vac  fragments that a merged one replaces
 *   __fragment_meta/NAME.meta, NAME.meta   footers of many fragments in one file
 *   NAME/ with NAME.ok            a fragment of the old layout (5 to 11); without its directory it is nothing, as
 * TileDB has it: older libraries leave that behind NAME/__fragment_metadata.tdb  a fragment of version 1 to 4 (its name
 * has no version)
 *   __commits/NAME.pending   the marker of a commit that is prepared and not published (pending.c); NAME/.pending
 *   __schema/NAME, __array_schema.tdb, __kv_schema.tdb
 *
 * Other names are not looked at. A listing is made of names alone, but for .con and .ign files, which are read; what is
 * visible at some time is decided by snapshot.c. It is renewed only if a directory has changed in which a commit shows,
 * or
 * a fragment of version 3 or 4 got its metadata, which happens one level below. A commit always shows in __commits, a
 * schema in __schema; only of the old layout do they show in the array's own directory, which is not looked at where
 * nothing and no schema is that old. Files in __fragment_meta are a help: they are found when the rest is listed.
 *
 * Of a .con and a .meta of the same name, which are of the same fragments (commits.c), the second is read: who asks for
 * fragments needs it anyhow. If that fails, the .con is; what is wrong with footers is told where they are needed.
 */
#include "array/listing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "array/array.h"
#include "array/committed.h"
#include "array/environment.h"
#include "array/fragment.h"
#include "array/patience.h"
#include "array/pending_late.h"
#include "array/unfinished.h"

enum { ROOT, SCHEMA, LISTING_COMMITS, STAMPED, FOOTERS = STAMPED };
static const char *const listing_directories[] = {"", "__schema", "__commits", "__fragment_meta"};
#define RENEWALS           64 /* while others publish and vacuum under our hands */
#define LISTINGS           1000 /* while others commit or vacuum */
#define FRESH              2000 /* milliseconds: a list that was read so lately may still be growing */
#define COMMIT_FILE_MAX    (1u << 30)
#define NEW_LAYOUT         12 /* the first version whose commits are in __commits */
#define LISTING_OLD_SCHEMA "__array_schema.tdb"
#define LISTING_KV_SCHEMA  "__kv_schema.tdb" /* in its place: a key-value store */

typedef struct renewal { /* a listing being made */
  tsr_array *array;
  tsr_commit_listing *listing;
  tsr_map ignored; /* names with suffix, of .ign files */
  tsr_map in_con; /* names of fragments in .con files */
  tsr_map deletes; /* names of deletes, from .con files and .del */
  tsr_map ok; /* stems of .ok files */
  tsr_map metas; /* names of __fragment_meta's files, without suffix -> their paths */
  tsr_map settled; /* names of fragments that are not committed, and that no .con commits: see unfinished.c */
  tsr_path doubtful; /* whose age tells how young the doubt is for which the listing has failed; or '' */
  tsr_buffer gone; /* gone_commit: prepared commits that count, and whose fragment or staged file is not there */
  bool counting; /* what is added is prepared, and not published */
  tsr_error *error;
} renewal;

/* ---- Decoded files ----------------------------------------------------------------------------------------------- */

static void free_commit_file(tsr_commit_file *file) {
  tsr__map_release(&file->footers_by_name);
  tsr__buffer_release(&file->content);
  tsr__arena_release(&file->arena);
  tsr__free(file);
}

static bool ends_in(const char *text, const char *suffix) {
  uint64_t stem;
  return tsr__name_suffix(text, suffix, &stem);
}

/* A file of footers that is damaged counts as one that names nothing: each fragment has its footer in a file of its
 * own,
 * too. TileDB writes the file in place, so it leaves one that is cut where it dies. */
static int decode_footers(tsr_array *array, tsr_commit_file *file, tsr_error *error) {
  tsr_generic_tile header;
  tsr_error one;
  int rc = tsr__array_read_tile(array, file->path, COMMIT_FILE_MAX, &file->content, &header, &one);
  if (rc >= 0) rc = tsr__footers_decode(file->content.data, file->content.size, &file->arena, &file->footers, &one);
  if (rc == TSR_CORRUPT) {
    file->footers = (tsr_footers){.partial = true};
    file->damaged = true;
    return TSR_OK;
  }
  if (rc < 0) return *error = one, rc;
  for (uint64_t i = 0; i < file->footers.count; i++) {
    tsr_footer *footer = &file->footers.footers[i];
    TSR_TRY(tsr__map_put(&file->footers_by_name, footer->name, footer, error));
  }
  return TSR_OK;
}

static bool listing_is_list(const tsr_commit_file *file) { return !ends_in(file->path, ".meta"); }

/* Takes a .con that is cut for one that is not written yet; whether that loses anything, the listing asks. */
static int take_cut(tsr_commit_file *file) {
  file->rest = file->commits;
  file->commits = (tsr_commits){0};
  return TSR_OK;
}

static int decode_commit_file(tsr_array *array, tsr_commit_file *file, tsr_error *error) {
  if (!listing_is_list(file)) return decode_footers(array, file, error);
  const int looked = tsr__store_look(array->store, file->path, &file->look, error);
  if (looked < 0) return looked;
  TSR_TRY(tsr__store_read_all(array->store, file->path, COMMIT_FILE_MAX, &file->content, error));
  tsr_input in = tsr__input(file->content.data, file->content.size);
  bool con = !ends_in(file->path, ".ign") && !ends_in(file->path, ".vac") && !ends_in(file->path, TSR_STAGED_VACUUM);
  int rc = con ? tsr__commits_decode(&in, &file->arena, &file->commits, error)
               : tsr__names_decode(&in, &file->arena, &file->names, error);
  if (rc < 0 && file->commits.cut) return take_cut(file);
  if (rc < 0) return tsr__wrap(error, "%s", file->path), rc;
  if (!con) tsr__buffer_release(&file->content);
  if (looked) array->fresh_until = tsr__moment() + FRESH;
  return TSR_OK;
}

/* Has a list been written to since it was read? One that is gone has not: who needs it is told so. */
static int has_grown(tsr_array *array, const tsr_commit_file *file, tsr_error *error) {
  tsr_look look;
  if (!listing_is_list(file)) return 0;
  const int rc = tsr__store_look(array->store, file->path, &look, error);
  if (rc == TSR_NOT_FOUND) return 0;
  return rc <= 0 ? rc : !tsr__same_look(&look, &file->look);
}

/* What is known of it is outdated. The last listing may point into it: it lives until the next one. */
static void outdate(tsr_array *array, tsr_commit_file *file) {
  tsr__map_remove(&array->files, file->path);
  file->next = array->outdated;
  array->outdated = file;
}

/* Lists that have been written to since are read anew. */
static int outdate_grown(tsr_array *array, tsr_error *error) {
  for (uint64_t i = 0; i < array->files.capacity;) {
    tsr_commit_file *file = array->files.entries[i].value;
    const int grown = file ? has_grown(array, file, error) : 0;
    if (grown < 0) return grown;
    if (grown) outdate(array, file); /* another may move into this place: look again */
    else i++;
  }
  return TSR_OK;
}

int tsr__array_commit_file(tsr_array *array, const char *path, const tsr_commit_file **file, tsr_error *error) {
  tsr_commit_file *known = tsr__map_get(&array->files, path);
  if (known && known->rest.cut) { /* its writer may have gone on */
    const int grown = has_grown(array, known, error);
    if (grown < 0) return grown;
    if (grown) outdate(array, known);
    known = grown ? NULL : known;
  }
  if (known) {
    *file = known;
    return TSR_OK;
  }
  void *block;
  TSR_TRY(tsr__alloc_zero(&array->memory, sizeof *known, &block, error));
  tsr_commit_file *f = block;
  tsr__arena_init(&f->arena, &array->memory);
  f->content.memory = f->footers_by_name.memory = &array->memory;
  f->generation = array->listing ? array->listing->generation : 0;
  void *copy;
  int rc = tsr__arena_copy(&f->arena, path, strlen(path), &copy, error);
  if (rc >= 0) {
    f->path = copy;
    rc = tsr__array_damage(decode_commit_file(array, f, error), error);
  }
  if (rc >= 0) rc = tsr__map_put(&array->files, f->path, f, error);
  if (rc < 0) {
    free_commit_file(f);
    return rc;
  }
  *file = f;
  return TSR_OK;
}

/* Forgets decoded files that are listed no more. */
static void prune_files(tsr_array *array, uint64_t generation) {
  while (array->outdated) {
    tsr_commit_file *file = array->outdated;
    array->outdated = file->next;
    free_commit_file(file);
  }
  for (uint64_t i = 0; i < array->files.capacity;) {
    tsr_commit_file *file = array->files.entries[i].value;
    if (file && file->generation != generation) {
      tsr__map_remove(&array->files, file->path); /* another may move into this place: look again */
      free_commit_file(file);
    } else i++;
  }
}

/* ---- Lists ------------------------------------------------------------------------------------------------------- */

static int listing_copy_text(renewal *r, const char *text, uint64_t size, const char **copy) {
  void *bytes;
  TSR_TRY(tsr__arena_copy(&r->listing->arena, text, size, &bytes, r->error));
  *copy = bytes;
  return TSR_OK;
}

static int listing_join_path(renewal *r, const char *directory, const char *name, const char **path) {
  uint64_t size = strlen(directory), more = strlen(name);
  void *bytes;
  TSR_TRY(tsr__arena_alloc(&r->listing->arena, size + more + 2, &bytes, r->error));
  char *text = bytes;
  memcpy(text, directory, size);
  if (size > 0) text[size++] = '/';
  memcpy(text + size, name, more + 1);
  *path = text;
  return TSR_OK;
}

static int listing_append(renewal *r, tsr_commit_list *list, const tsr_committed *item) {
  if (list->count == list->capacity) {
    uint64_t capacity = list->capacity ? list->capacity * 2 : 16;
    void *items;
    TSR_TRY(tsr__arena_array(&r->listing->arena, capacity, sizeof *item, &items, r->error));
    if (list->count > 0) memcpy(items, list->items, list->count * sizeof *item);
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = *item;
  return TSR_OK;
}

static int listing_by_time(const void *a, const void *b) {
  const tsr_committed *x = a, *y = b;
  if (x->parsed.start != y->parsed.start) return x->parsed.start < y->parsed.start ? -1 : 1;
  return strcmp(x->name, y->name);
}

static int newest_first(const void *a, const void *b) {
  const tsr_committed *x = a, *y = b;
  if (x->parsed.end != y->parsed.end) return x->parsed.end > y->parsed.end ? -1 : 1;
  return strcmp(y->name, x->name);
}

static void listing_sort(tsr_commit_list *list, int (*compare)(const void *, const void *)) {
  if (list->count > 1) qsort(list->items, list->count, sizeof *list->items, compare);
}

/* An entry "STEM<suffix>" of a directory: its stem copied and parsed. 1; 0 if the name is none of that kind. */
static int parse_entry(renewal *r, const char *directory, const char *text, const char *suffix, tsr_committed *item) {
  uint64_t stem;
  if (!tsr__name_suffix(text, suffix, &stem)) return 0;
  *item = (tsr_committed){0};
  if (!tsr__name_parse(text, stem, &item->parsed))
    return tsr__fail(r->error, TSR_CORRUPT, "%s/%s: not a timestamped name", directory, text);
  TSR_TRY(listing_copy_text(r, text, stem, &item->name));
  TSR_TRY(listing_join_path(r, directory, text, &item->path));
  tsr_commit_file *known = tsr__map_get(&r->array->files, item->path);
  if (known) known->generation = r->listing->generation;
  return 1;
}

static int listing_add_fragment(renewal *r, const char *name, const tsr_name *parsed, bool old_layout) {
  static const char present;
  if (tsr__map_get(&r->listing->names, name)) return TSR_OK; /* named twice: counts once */
  TSR_TRY(tsr__map_put(&r->listing->names, name, (void *)(uintptr_t)&present, r->error));
  tsr_committed item = {.name = name, .parsed = *parsed, .old_layout = old_layout, .prepared = r->counting};
  return listing_append(r, &r->listing->fragments, &item);
}

/* ---- __commits --------------------------------------------------------------------------------------------------- */

static int list_directory(renewal *r, int which, tsr_listing *out) {
  *out = (tsr_listing){.memory = &r->array->memory};
  int rc = tsr__store_list(r->array->store, listing_directories[which], out, r->error);
  return rc == TSR_NOT_FOUND && which != ROOT ? TSR_OK : rc;
}

static bool same_entries(const tsr_listing *a, const tsr_listing *b) { /* sorted by name, as all listings are */
  if (a->count != b->count) return false;
  for (uint64_t i = 0; i < a->count; i++)
    if (a->entries[i].kind != b->entries[i].kind || strcmp(a->entries[i].name, b->entries[i].name) != 0) return false;
  return true;
}

/* Was the directory as it is now when its listing began? */
static int is_steady(const renewal *r, int which) {
  const tsr_stamp *a = &r->listing->stamps[which];
  tsr_stamp b;
  if (!a->known) return 0;
  TSR_TRY(tsr__store_stamp(r->array->store, listing_directories[which], &b, r->error));
  return b.known && a->a == b.a && a->b == b.b && a->c == b.c;
}

/* A directory is not listed in one moment: a listing may lack a file that came, and also the one in whose place it
 * came,
 * which went meanwhile. But what was there when a listing began and is not in it had been in the listing before: two
 * equal ones, one after the other, are a state of the directory. */
static int list_state(renewal *r, int which, tsr_listing *out) {
  TSR_TRY(list_directory(r, which, out));
  int rc = is_steady(r, which);
  for (int i = 0; rc == 0 && i < LISTINGS; i++) {
    tsr_listing last = *out;
    rc = list_directory(r, which, out);
    if (rc >= 0) rc = same_entries(&last, out);
    tsr__listing_release(&last);
  }
  if (rc == 0)
    rc = tsr__fail(r->error, TSR_BUSY, "%s changes faster than it can be listed", listing_directories[which]);
  if (rc < 0) tsr__listing_release(out);
  return rc < 0 ? rc : TSR_OK;
}

/* A .con or .ign, whose own names may be anything, or a .con under the name that it is prepared with. */
static int listing_read_file(renewal *r, const char *name, const tsr_commit_file **file) {
  const char *path;
  TSR_TRY(listing_join_path(r, listing_directories[LISTING_COMMITS], name, &path));
  TSR_TRY(tsr__array_commit_file(r->array, path, file, r->error));
  ((tsr_commit_file *)tsr__map_get(&r->array->files, path))->generation = r->listing->generation;
  return TSR_OK;
}

static int listing_read_ignored(renewal *r, const tsr_listing *entries) {
  for (uint64_t i = 0; i < entries->count; i++) {
    const tsr_commit_file *file;
    if (!ends_in(entries->entries[i].name, ".ign")) continue;
    TSR_TRY(listing_read_file(r, entries->entries[i].name, &file));
    for (uint64_t n = 0; n < file->names.count; n++)
      TSR_TRY(tsr__map_put(&r->ignored, file->names.names[n], file->names.names[n], r->error));
  }
  return TSR_OK;
}

static bool is_ignored(renewal *r, const char *name, bool old_layout) {
  char text[192];
  uint64_t size = strlen(name);
  if (r->ignored.count == 0 || size + 5 > sizeof text) return false;
  memcpy(text, name, size);
  memcpy(text + size, old_layout ? ".ok" : ".wrt", old_layout ? 4 : 5);
  return tsr__map_get(&r->ignored, text) != NULL;
}

static int listing_add_delete(renewal *r, const tsr_committed *item) {
  if (tsr__map_get(&r->deletes, item->name)) return TSR_OK; /* in a .con and as .del */
  TSR_TRY(listing_append(r, &r->listing->deletes, item));
  return tsr__map_put(&r->deletes, item->name, (void *)(uintptr_t)item->name, r->error);
}

static int add_con_entry(renewal *r, const char *path, const tsr_commit *commit) {
  tsr_committed item = {.name = commit->name, .path = path, .bytes = commit->bytes, .size = commit->size};
  if (!tsr__name_parse(commit->name, strlen(commit->name), &item.parsed))
    return tsr__fail(r->error, TSR_CORRUPT, "%s: '%s' is not a timestamped name", path, commit->name);
  /* names of a file live as long as it is listed, which is as long as this listing */
  if (commit->kind == TSR_COMMIT_DELETE) return listing_add_delete(r, &item);
  if (commit->kind == TSR_COMMIT_UPDATE)
    return tsr__fail(r->error, TSR_UNSUPPORTED, "%s: update conditions ('%s') are not supported", path, commit->name);
  bool old_layout = item.parsed.version < 12;
  if (is_ignored(r, commit->name, old_layout)) return TSR_OK;
  TSR_TRY(tsr__map_put(&r->in_con, commit->name, commit->name, r->error));
  return old_layout ? TSR_OK : listing_add_fragment(r, item.name, &item.parsed, false);
}

/* The footers of the fragments that a .con commits, by its name; NULL: there are none. */
static const tsr_commit_file *read_variant(renewal *r, const char *con) {
  char name[192];
  uint64_t stem;
  const tsr_commit_file *file;
  tsr_error unseen;
  if (r->metas.count == 0 || !tsr__name_suffix(con, ".con", &stem) || stem >= sizeof name) return NULL;
  memcpy(name, con, stem);
  name[stem] = 0;
  const char *path = tsr__map_get(&r->metas, name);
  if (!path || tsr__array_commit_file(r->array, path, &file, &unseen) < 0 || file->footers.partial) return NULL;
  ((tsr_commit_file *)tsr__map_get(&r->array->files, path))->generation = r->listing->generation;
  return file;
}

static int listing_read_consolidated(renewal *r, const tsr_listing *entries) {
  for (uint64_t i = 0; i < entries->count; i++) {
    const char *name = entries->entries[i].name;
    if (!ends_in(name, ".con")) continue;
    const tsr_commit_file *file = read_variant(r, name);
    for (uint64_t n = 0; file && n < file->footers.count; n++)
      TSR_TRY(
          add_con_entry(r, file->path, &(tsr_commit){.kind = TSR_COMMIT_WRITE, .name = file->footers.footers[n].name}));
    if (file) continue;
    TSR_TRY(listing_read_file(r, name, &file));
    if (file->rest.cut) {
      tsr_committed item = {0};
      TSR_TRY(listing_copy_text(r, file->path, strlen(file->path), &item.path));
      TSR_TRY(listing_append(r, &r->listing->unfinished, &item));
    }
    for (uint64_t n = 0; n < file->commits.count; n++) TSR_TRY(add_con_entry(r, file->path, &file->commits.commits[n]));
  }
  return TSR_OK;
}

/* ---- Prepared commits -------------------------------------------------------------------------------------------- */

typedef struct gone_commit {
  tsr_pending pending;
  const char *marker;
} gone_commit;

/* It may have been published and merged since, and the marker have stayed: that shows when all is listed. */
static int keep_gone(renewal *r, const tsr_pending *pending, const char *marker) {
  const gone_commit one = {*pending, marker};
  return tsr__buffer_append(&r->gone, &one, sizeof one, r->error);
}

static int check_gone(renewal *r) {
  const gone_commit *all = (const gone_commit *)(const void *)r->gone.data;
  for (uint64_t i = 0; i < r->gone.size / sizeof *all; i++) {
    bool there;
    if (tsr__listing_took_up(r->listing, &all[i].pending)) continue;
    TSR_TRY(tsr__store_find(r->array->store, all[i].marker, &there, r->error));
    return there ? tsr__pending_fail_gone(all[i].pending.commit, r->error)
                 : tsr__fail(r->error, TSR_ABORT, "%s was published while it was listed", all[i].marker);
  }
  return TSR_OK;
}

/* What is renamed to the commit later: a .con is read from where it is, a delete from there too. Gone: published a
 * moment ago, or removed. */
static int count_staged(renewal *r, const tsr_pending *pending, const char *marker, const char *staged) {
  const char *commit = pending->commit;
  tsr_committed item = {0};
  uint64_t stem;
  const char *name = staged + strlen(listing_directories[LISTING_COMMITS]) + 1;
  const tsr_commit_file *file;
  bool exists, published;
  TSR_TRY(tsr__store_find(r->array->store, staged, &exists, r->error));
  if (!exists) {
    TSR_TRY(tsr__store_find(r->array->store, commit, &published, r->error));
    return published ? tsr__fail(r->error, TSR_ABORT, "%s: published", commit) : keep_gone(r, pending, marker);
  }
  if (ends_in(commit, ".con")) {
    TSR_TRY(listing_read_file(r, name, &file));
    if (file->rest.cut) /* it was whole and on disk before its marker was */
      return tsr__fail(r->error, TSR_CORRUPT, "%s: the commit was prepared, but its file ends early", staged);
    for (uint64_t n = 0; n < file->commits.count; n++) TSR_TRY(add_con_entry(r, file->path, &file->commits.commits[n]));
    return TSR_OK;
  }
  tsr__name_suffix(commit, ".del", &stem);
  stem -= strlen(listing_directories[LISTING_COMMITS]) + 1;
  tsr__name_parse(name + 1, stem, &item.parsed);
  TSR_TRY(listing_copy_text(r, name + 1, stem, &item.name));
  TSR_TRY(listing_copy_text(r, staged, strlen(staged), &item.path));
  return listing_add_delete(r, &item);
}

/* Before version 5 the metadata's own name commits: until then it is read under another (fragment.c). */
static int count_old(renewal *r, const char *commit) {
  char name[TSR_COMMIT_PATH];
  tsr_name parsed;
  const char *copy;
  uint64_t size = strcspn(commit, "/.");
  memcpy(name, commit, size);
  name[size] = 0;
  if (!tsr__name_parse(name, size, &parsed)) return TSR_OK;
  TSR_TRY(listing_copy_text(r, name, size, &copy));
  return listing_add_fragment(r, copy, &parsed, true);
}

/* A commit in __commits that creates an empty file. */
static int count_fragment(renewal *r, const tsr_pending *pending, const char *marker, const char *name,
                          const tsr_name *parsed) {
  bool exists;
  tsr_path metadata = tsr__path_of("__fragments", name, "/__fragment_metadata.tdb");
  if (tsr__map_get(&r->listing->names, name)) return TSR_OK;
  TSR_TRY(tsr__store_find(r->array->store, metadata.text, &exists, r->error));
  return exists ? listing_add_fragment(r, name, parsed, false) : keep_gone(r, pending, marker);
}

static int count_prepared(renewal *r, const tsr_pending *pending, const char *path) {
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  tsr_name parsed;
  uint64_t stem;
  const char *commit = pending->commit, *name = commit + strlen(listing_directories[LISTING_COMMITS]) + 1, *copy;
  if (!tsr__pending_paths(commit, marker, staged)) return TSR_OK;
  if (strncmp(commit, listing_directories[LISTING_COMMITS], strlen(listing_directories[LISTING_COMMITS])) != 0)
    return count_old(r, commit);
  if (*staged) return count_staged(r, pending, path, staged);
  if (!tsr__name_suffix(name, ".wrt", &stem) || !tsr__name_parse(name, stem, &parsed)) return TSR_OK;
  TSR_TRY(listing_copy_text(r, name, stem, &copy));
  return count_fragment(r, pending, path, copy, &parsed);
}

static int asks(const tsr_array *array, const char *commit, tsr_error *error) {
  return array->committed ? array->committed(array->committed_argument, commit, error) : 0;
}

static int is_outdated(renewal *r, const char *marker) {
  return tsr__fail(r->error, TSR_ABORT, "%s was published while it was listed", marker);
}

/* A prepared commit that counts; or not any more, where recovery has published another one in its place. That one was
 * published before `entries` were listed, or all is listed anew. */
static int count_in_time(renewal *r, const char *marker, const tsr_pending *pending, const tsr_listing *entries) {
  tsr_late late;
  bool exists;
  int rc = tsr__late_read(r->array->store, pending->commit, &late, r->error);
  if (rc > 0 && *late.commit) rc = tsr__pending_published(r->array->store, late.commit, r->error);
  if (rc < 0) return rc;
  if (rc > 0 && *late.commit && entries) {
    const char *slash = strrchr(late.commit, '/');
    if (tsr__listing_has(entries, slash ? slash + 1 : late.commit)) return TSR_OK;
    TSR_TRY(tsr__store_find(r->array->store, late.commit, &exists, r->error));
    return exists ? is_outdated(r, marker) : TSR_OK;
  }
  if (rc > 0) return TSR_OK;
  r->listing->counted = r->counting = true;
  rc = count_prepared(r, pending, marker);
  r->counting = false;
  return rc;
}

/* A marker: its commit counts, if it is not published, where the host says so. 1; 0 where there is none, or it is not
 * whole.
 * `entries` are those of the directory in which its commit appears: one that was published after they were listed is
 * not among
 * them, and would be missed. NULL: it is looked for later. */
static int add_marker(renewal *r, const char *marker, const tsr_listing *entries) {
  tsr_pending pending;
  tsr_committed item = {0};
  int rc = tsr__pending_read(r->array->store, marker, &r->listing->arena, &pending, r->error);
  if (rc <= 0) return rc;
  item.name = pending.commit;
  for (uint64_t i = 0; i < pending.fragment_count; i++)
    TSR_TRY(tsr__map_put(&r->settled, pending.fragments[i], (void *)(uintptr_t)pending.fragments[i], r->error));
  TSR_TRY(listing_copy_text(r, marker, strlen(marker), &item.path));
  TSR_TRY(listing_append(r, &r->listing->prepared, &item));
  TSR_TRY(rc = tsr__pending_published(r->array->store, pending.commit, r->error));
  const char *slash = strrchr(pending.commit, '/');
  if (rc > 0 && entries && !tsr__listing_has(entries, slash ? slash + 1 : pending.commit))
    return is_outdated(r, marker);
  if (rc > 0) return 1;
  TSR_TRY(rc = asks(r->array, pending.commit, r->error));
  if (rc > 0) return (rc = count_in_time(r, item.path, &pending, entries)) < 0 ? rc : 1;
  r->listing->undecided = true;
  return 1;
}

static int add_listed_marker(renewal *r, const char *marker, const tsr_listing *entries) {
  bool there = true;
  int rc = add_marker(r, marker, entries);
  if (rc == 0) rc = tsr__store_find(r->array->store, marker, &there, r->error);
  return rc < 0 || there ? rc : is_outdated(r, marker);
}

/* Has one of those that do not count been committed since? */
static bool is_decided(const tsr_array *array) {
  const tsr_commit_listing *listing = array->listing;
  if (!listing->undecided || !array->committed) return false;
  for (uint64_t i = 0; i < listing->prepared.count; i++) {
    const tsr_committed *item = &listing->prepared.items[i];
    bool exists, published;
    tsr_error unseen;
    if (tsr__store_find(array->store, item->path, &exists, NULL) < 0 ||
        tsr__store_find(array->store, item->name, &published, NULL) < 0)
      return true; /* the next listing says what is wrong */
    if (exists && !published && asks(array, item->name, &unseen)) return true;
  }
  return false;
}

/* ".NAME.vac.new" is the vacuum file of NAME from the moment on that NAME is committed: what fragments it merges and
 * hides are then named by one commit. */
static int add_staged_vacuums(renewal *r, int which, const tsr_listing *entries) {
  for (uint64_t i = 0; i < entries->count; i++) {
    tsr_committed item;
    const char *text = entries->entries[i].name;
    if (text[0] != '.' || !ends_in(text, TSR_STAGED_VACUUM)) continue;
    item = (tsr_committed){0};
    uint64_t stem = strlen(text) - 1 - strlen(TSR_STAGED_VACUUM);
    if (!tsr__name_parse(text + 1, stem, &item.parsed)) continue;
    TSR_TRY(listing_copy_text(r, text + 1, stem, &item.name));
    if (!tsr__map_get(&r->listing->names, item.name)) continue;
    TSR_TRY(listing_join_path(r, listing_directories[which], text, &item.path));
    tsr_commit_file *known = tsr__map_get(&r->array->files, item.path);
    if (known) known->generation = r->listing->generation;
    TSR_TRY(listing_append(r, &r->listing->vacuums, &item));
  }
  return TSR_OK;
}

static int listing_list_commits(renewal *r) {
  tsr_listing entries;
  int rc = list_state(r, LISTING_COMMITS, &entries);
  if (rc >= 0) rc = listing_read_ignored(r, &entries);
  if (rc >= 0) rc = listing_read_consolidated(r, &entries);
  for (uint64_t i = 0; rc >= 0 && i < entries.count; i++) {
    const char *name = entries.entries[i].name;
    tsr_committed item;
    if ((rc = parse_entry(r, listing_directories[LISTING_COMMITS], name, ".wrt", &item)) > 0)
      rc = listing_add_fragment(r, item.name, &item.parsed, false);
    else if (rc == 0 && (rc = parse_entry(r, listing_directories[LISTING_COMMITS], name, ".del", &item)) > 0)
      rc = listing_add_delete(r, &item);
    else if (rc == 0 && (rc = parse_entry(r, listing_directories[LISTING_COMMITS], name, ".vac", &item)) > 0)
      rc = listing_append(r, &r->listing->vacuums, &item);
    else if (rc == 0 && ends_in(name, TSR_PENDING_SUFFIX)) {
      const char *path;
      rc = listing_join_path(r, listing_directories[LISTING_COMMITS], name, &path);
      if (rc >= 0) rc = add_listed_marker(r, path, &entries);
    } else if (rc == 0 && ends_in(name, ".upd"))
      rc = tsr__fail(r->error, TSR_UNSUPPORTED, "%s/%s: update conditions are not supported",
                     listing_directories[LISTING_COMMITS], name);
  }
  if (rc >= 0) rc = add_staged_vacuums(r, LISTING_COMMITS, &entries);
  tsr__count(r->array->environment, TSR_COUNT_commits_listed, entries.count);
  tsr__listing_release(&entries);
  return rc;
}

/* ---- The array's directory, __schema, __fragment_meta ------------------------------------------------------------ */

static int listing_add_old_fragment(renewal *r, const tsr_listing *root, const char *text) {
  tsr_name parsed;
  const char *name;
  if (strchr(text, '.') || !tsr__name_parse(text, strlen(text), &parsed)) return TSR_OK;
  TSR_TRY(listing_copy_text(r, text, strlen(text), &name));
  if (tsr__map_get(&r->ok, name) || tsr__map_get(&r->in_con, name)) return listing_add_fragment(r, name, &parsed, true);
  tsr_committed item = {.name = name, .parsed = parsed, .old_layout = true};
  TSR_TRY(listing_join_path(r, name, TSR_PENDING_FILE, &item.path));
  bool exists = false;
  if (parsed.version >= 12) return TSR_OK;
  TSR_TRY(add_marker(r, item.path, parsed.version >= 5 ? root : NULL));
  if (parsed.version >= 5) {
    const tsr_path commit = tsr__path_of("", name, ".ok");
    TSR_TRY(tsr__store_find(r->array->store, commit.text, &exists, r->error));
    return exists && !tsr__listing_has(root, commit.text) ? is_outdated(r, item.path) : TSR_OK;
  }
  TSR_TRY(listing_join_path(r, name, "__fragment_metadata.tdb", &item.path));
  TSR_TRY(tsr__store_find(r->array->store, item.path, &exists, r->error));
  return exists ? listing_add_fragment(r, name, &parsed, true) : listing_append(r, &r->listing->pending, &item);
}

/* A .meta is a help only: one whose name has no times is not used. */
static int add_footers(renewal *r, const char *directory, const char *text) {
  tsr_committed item;
  tsr_name parsed;
  uint64_t stem;
  if (!tsr__name_suffix(text, ".meta", &stem) || !tsr__name_parse(text, stem, &parsed)) return TSR_OK;
  TSR_TRY(parse_entry(r, directory, text, ".meta", &item));
  return listing_append(r, &r->listing->footers, &item);
}

static int list_old_layout(renewal *r, const tsr_listing *root) {
  for (uint64_t i = 0; i < root->count; i++) {
    const char *text = root->entries[i].name, *stem;
    uint64_t size;
    tsr_name parsed;
    r->listing->old_layout |= tsr__name_parse(text, strcspn(text, "."), &parsed);
    if (!tsr__name_suffix(text, ".ok", &size)) continue;
    TSR_TRY(listing_copy_text(r, text, size, &stem));
    TSR_TRY(tsr__map_put(&r->ok, stem, (void *)(uintptr_t)stem, r->error));
  }
  for (uint64_t i = 0; i < root->count; i++) {
    const tsr_entry *entry = &root->entries[i];
    tsr_committed item;
    int rc = TSR_OK;
    if (entry->kind != TSR_ENTRY_FILE) rc = listing_add_old_fragment(r, root, entry->name);
    else if ((rc = parse_entry(r, listing_directories[ROOT], entry->name, ".vac", &item)) > 0)
      rc = listing_append(r, &r->listing->vacuums, &item);
    else if (rc == 0) rc = add_footers(r, listing_directories[ROOT], entry->name);
    if (rc < 0) return rc;
  }
  return add_staged_vacuums(r, ROOT, root);
}

static int list_footers(renewal *r) {
  tsr_listing entries;
  int rc = list_directory(r, FOOTERS, &entries);
  for (uint64_t i = 0; rc >= 0 && i < entries.count; i++) {
    const tsr_commit_list *footers = &r->listing->footers;
    const uint64_t before = footers->count;
    rc = add_footers(r, listing_directories[FOOTERS], entries.entries[i].name);
    if (rc < 0 || footers->count == before) continue;
    const tsr_committed *item = &footers->items[before];
    rc = tsr__map_put(&r->metas, item->name, (void *)(uintptr_t)item->path, r->error);
  }
  tsr__listing_release(&entries);
  return rc;
}

/* Of an array that is not published yet, to the one who made it. */
static int list_pending(renewal *r, const tsr_listing *root) {
  const char *name = r->array->pending;
  char path[TSR_PENDING_PATH];
  tsr_committed item = {.name = name};
  tsr__pending_path(name, path);
  if (!tsr__listing_has(root, path)) return TSR_OK;
  bool old = !tsr__name_parse(name, strlen(name), &item.parsed);
  r->listing->old_layout = true; /* it appears there */
  int rc = old ? listing_copy_text(r, path, strlen(path), &item.path) : listing_join_path(r, path, name, &item.path);
  return rc < 0 ? rc : listing_append(r, &r->listing->schemas, &item);
}

static int list_schemas(renewal *r, const tsr_listing *root) {
  tsr_listing entries;
  int rc = list_directory(r, SCHEMA, &entries);
  const char *old = tsr__listing_has(root, LISTING_OLD_SCHEMA)  ? LISTING_OLD_SCHEMA
                    : tsr__listing_has(root, LISTING_KV_SCHEMA) ? LISTING_KV_SCHEMA
                                                                : NULL;
  r->listing->old_layout |= old != NULL;
  if (rc >= 0 && old) rc = listing_append(r, &r->listing->schemas, &(tsr_committed){.name = old, .path = old});
  for (uint64_t i = 0; rc >= 0 && i < entries.count; i++) { /* sorted by name */
    tsr_committed item = {0};
    const char *text = entries.entries[i].name;
    if (entries.entries[i].kind == TSR_ENTRY_DIRECTORY || !tsr__name_parse(text, strlen(text), &item.parsed)) continue;
    rc = listing_copy_text(r, text, strlen(text), &item.name);
    if (rc >= 0) rc = listing_join_path(r, listing_directories[SCHEMA], text, &item.path);
    if (rc >= 0) rc = listing_append(r, &r->listing->schemas, &item);
  }
  tsr__listing_release(&entries);
  if (rc >= 0 && r->listing->schemas.count == 0 && r->array->pending) rc = list_pending(r, root);
  return rc;
}

/* ---- Unfinished .con files --------------------------------------------------------------------------------------- */

/* What .ign and .vac files name is not committed by a .con that is cut: it was cancelled, or another fragment has its
 * cells. */
static int settle_names(renewal *r) {
  const tsr_commit_listing *listing = r->listing;
  for (uint64_t i = 0; i < r->ignored.capacity; i++) {
    const char *name = r->ignored.entries[i].key, *copy;
    if (!name) continue;
    TSR_TRY(listing_copy_text(r, name, strcspn(name, "."), &copy));
    TSR_TRY(tsr__map_put(&r->settled, copy, (void *)(uintptr_t)copy, r->error));
  }
  return tsr__array_covered(r->array, listing, &r->settled, r->error);
}

/* They count as not written yet, as long as nothing is lost by that. */
static int listing_check_unfinished(renewal *r, const tsr_listing *root) {
  const tsr_commit_list *list = &r->listing->unfinished;
  if (list->count == 0) return TSR_OK;
  TSR_TRY(settle_names(r));
  const tsr_unfinished known = {.store = r->array->store,
                                .memory = &r->array->memory,
                                .fragments = &r->listing->names,
                                .deletes = &r->deletes,
                                .settled = &r->settled,
                                .root = root};
  for (uint64_t i = 0; i < list->count; i++) {
    const tsr_commit_file *file;
    TSR_TRY(tsr__array_commit_file(r->array, list->items[i].path, &file, r->error));
    if (!file->rest.cut) return tsr__fail(r->error, TSR_ABORT, "%s was written while it was listed", file->path);
    const int rc = tsr__unfinished_loses(&known, file->path, &file->rest, &r->doubtful, r->error);
    if (rc) return rc < 0 ? rc : TSR_CORRUPT;
  }
  return TSR_OK;
}

/* ---- Renewal ----------------------------------------------------------------------------------------------------- */

static const char *why_no_array(const tsr_listing *root) {
  if (tsr__listing_has(root, "__schema")) return "its __schema holds no schema";
  if (tsr__listing_has(root, "__group") || tsr__listing_has(root, "__tiledb_group.tdb"))
    return "it is a group, not an array";
  return "the directory holds no schema; tessera_objects lists the arrays below one";
}

/* What is simply not there needs no reason; a file in its place does. */
static int listing_list_root(renewal *r, tsr_listing *root) {
  int rc = list_state(r, ROOT, root);
  if (rc != TSR_NOT_FOUND) return rc;
  if (r->error && strstr(r->error->message, strerror(ENOTDIR)))
    return tsr__fail(r->error, TSR_NOT_FOUND, "array not found: %s: it is no directory", r->array->path);
  return tsr__fail(r->error, TSR_NOT_FOUND, "array not found: %s", r->array->path);
}

/* The array's directory is listed first, __commits after it: in between a vacuum may have removed what one still names,
 * and
 * what hid it from the other. Only of the old layout does the first count. */
static int listing_check_root(renewal *r, const tsr_listing *root) {
  tsr_listing again;
  int rc = is_steady(r, ROOT);
  if (rc) return rc < 0 ? rc : TSR_OK;
  TSR_TRY(list_directory(r, ROOT, &again));
  const bool same = same_entries(root, &again);
  tsr__listing_release(&again);
  return same ? TSR_OK : tsr__fail(r->error, TSR_ABORT, "it changes while it is listed");
}

static int listing_list_all(renewal *r, bool commits) {
  tsr_listing root;
  int rc = listing_list_root(r, &root);
  if (rc >= 0) rc = list_schemas(r, &root);
  if (rc >= 0 && r->listing->schemas.count == 0)
    rc = tsr__fail(r->error, TSR_NOT_FOUND, "array not found: %s: %s", r->array->path, why_no_array(&root));
  if (rc >= 0 && commits) {
    rc = list_footers(r); /* first, so that a pair is known */
    if (rc >= 0) rc = listing_list_commits(r);
    if (rc >= 0) rc = list_old_layout(r, &root);
    if (rc >= 0) rc = listing_check_unfinished(r, &root);
    if (rc >= 0) rc = check_gone(r);
    if (rc >= 0 && r->listing->old_layout) rc = listing_check_root(r, &root);
    if (rc == TSR_NOT_FOUND) rc = TSR_ABORT; /* a file that was listed is gone */
  }
  tsr__listing_release(&root);
  return rc;
}

static void free_listing(tsr_commit_listing *listing) {
  tsr__map_release(&listing->names);
  tsr__arena_release(&listing->arena);
  tsr__free(listing);
}

/* A new listing in place of the last one; the last one stays if it fails. `doubtful`: the path of a file whose age
 * tells
 * whether the failure may pass, or ''. */
static int renew(tsr_array *array, bool commits, const tsr_stamp stamps[STAMPED], tsr_path *doubtful,
                 tsr_error *error) {
  void *block;
  TSR_TRY(tsr__alloc_zero(&array->memory, sizeof(tsr_commit_listing), &block, error));
  tsr_commit_listing *listing = block;
  tsr_memory *memory = &array->memory;
  renewal r = {.array = array, .listing = listing, .error = error};
  r.ignored.memory = r.in_con.memory = r.deletes.memory = r.ok.memory = r.metas.memory = r.settled.memory =
      r.gone.memory = memory;
  listing->names.memory = memory;
  tsr__arena_init(&listing->arena, memory);
  listing->generation = array->listing ? array->listing->generation + 1 : 1;
  listing->complete = commits;
  memcpy(listing->stamps, stamps, sizeof listing->stamps);

  int rc = outdate_grown(array, error);
  if (rc >= 0) rc = listing_list_all(&r, commits);
  *doubtful = r.doubtful;
  tsr__map_release(&r.ignored);
  tsr__map_release(&r.in_con);
  tsr__map_release(&r.deletes);
  tsr__map_release(&r.ok);
  tsr__map_release(&r.metas);
  tsr__map_release(&r.settled);
  tsr__buffer_release(&r.gone);
  if (rc < 0) {
    free_listing(listing);
    return rc;
  }
  listing_sort(&listing->fragments, listing_by_time);
  listing_sort(&listing->deletes, listing_by_time);
  listing_sort(&listing->footers, newest_first);
  if (array->listing) free_listing(array->listing);
  array->listing = listing;
  prune_files(array, listing->generation);
  return TSR_OK;
}

/* Is there nothing in the array's own directory that a commit, or a schema, could change? So it is where all schemas
 * have
 * been decoded, and are of the new layout's versions: nobody commits below the version of a schema. */
static bool is_new_layout(const tsr_array *array) {
  tsr_commit_listing *listing = array->listing;
  if (listing->new_layout) return true;
  if (listing->old_layout) return false;
  for (uint64_t i = 0; i < listing->schemas.count; i++)
    if (tsr__array_schema_version(array, listing->schemas.items[i].name) < NEW_LAYOUT) return false;
  return listing->new_layout = true;
}

static int take_stamp(tsr_array *array, int which, tsr_stamp *stamp, tsr_error *error) {
  int rc = tsr__store_stamp(array->store, listing_directories[which], stamp, error);
  if (rc < 0) return tsr__wrap(error, "array %s", array->path), rc;
  return TSR_OK;
}

static int any_has_grown(tsr_array *array, tsr_error *error) {
  for (uint64_t i = 0; i < array->files.capacity; i++) {
    const tsr_commit_file *file = array->files.entries[i].value;
    const int grown = file ? has_grown(array, file, error) : 0;
    if (grown) return grown;
  }
  return 0;
}

/* 1, 0, or < 0. */
static int listing_has_changed(tsr_array *array, bool commits, tsr_error *error) {
  const tsr_commit_listing *listing = array->listing;
  int rc = 0;
  if (!listing || (commits && !listing->complete)) return 1;
  for (int i = is_new_layout(array) ? SCHEMA : ROOT; i < (commits ? STAMPED : LISTING_COMMITS); i++) {
    const tsr_stamp *a = &listing->stamps[i];
    tsr_stamp b;
    if (!a->known) return 1;
    TSR_TRY(take_stamp(array, i, &b, error));
    if (!b.known || a->a != b.a || a->b != b.b || a->c != b.c) return 1;
  }
  if (commits && is_decided(array)) return 1;
  if (commits && array->fresh_until > 0 && tsr__moment() < array->fresh_until)
    TSR_TRY(rc = any_has_grown(array, error));
  if (rc > 0) return 1;
  bool exists;
  for (uint64_t i = 0; commits && i < listing->pending.count; i++)
    if (tsr__store_find(array->store, listing->pending.items[i].path, &exists, NULL) < 0 || exists) return 1;
  return 0;
}

int tsr__array_list(tsr_array *array, bool commits, bool force, tsr_error *error) {
  tsr_stamp stamps[STAMPED];
  tsr_patience patience = {0};
  tsr_error unseen;
  int rc = TSR_OK;
  if (!error) error = &unseen;
  if (array->frozen && !force && array->listing && array->listing->complete) return TSR_OK;
  for (int i = 0; i < RENEWALS; i++) {
    const int changed = force ? 1 : listing_has_changed(array, commits, error);
    tsr_path doubtful = {""};
    if (changed <= 0) return changed;
    for (int which = 0; which < STAMPED; which++) TSR_TRY(take_stamp(array, which, &stamps[which], error));
    rc = renew(array, commits || (array->listing && array->listing->complete), stamps, &doubtful, error);
    if (*doubtful.text) rc = tsr__patience(&patience, array->store, doubtful.text, rc, error);
    if (rc != 1 && rc != TSR_ABORT && (rc != TSR_IO || !tsr__array_files_make_room(array))) break;
  }
  if (rc > 0) { /* what is in doubt changes all the time */
    const tsr_error before = *error;
    rc = tsr__fail(error, TSR_BUSY, "%s", before.message);
  }
  if (rc < 0 && rc != TSR_NOT_FOUND) tsr__wrap(error, "array %s", array->path);
  return rc;
}

void tsr__array_listing_release(tsr_array *array) {
  if (array->listing) free_listing(array->listing);
  array->listing = NULL;
  prune_files(array, UINT64_MAX);
  tsr__map_release(&array->files);
}
