/* fragment.c: open fragments: the registry of an array's fragments, and their open files.
 *
 * A fragment is loaded when a snapshot first needs it: decode its footer, compute its geometry, reserve its range of
 * rowids. Other parts of its metadata (R-tree, tile offsets of a slot, processed conditions) are loaded on demand. It
 * stays in the registry while it is listed; snapshots hold references to it.
 *
 * Open files form an LRU list with epochs. A file that was given out in the current epoch is in use;
 * tsr__array_files_done begins the next epoch, in which only pinned files are. It then closes the least recently used
 * files beyond the environment's files_kept, also those of its other arrays: the number of open files is limited per
 * process, and the host needs some, too. If the limit prevents a file from being opened, all unused files are closed.
 * Small metadata files, of which there may be thousands, are read completely and kept in memory instead.
 *
 * Loading many fragments: worker threads read the metadata files in parallel, into room allocated beforehand together
 * with each fragment, so that they do not contend for the host's allocator. The first fragment, which is read alone,
 * shows how much room the others need. These share slabs, large blocks that the system may keep in huge pages, since a
 * thousand fragments would cost more than a thousand page faults. A slab is freed with the last of its fragments.
 *
 * Sections: open files, lazy parts, loading, the registry.
 */
#include "array/array.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/pool.h"
#include "store/store.h"
#include "model/datatype.h"
#include "format/fragment_metadata.h"
#include "format/layout.h"
#include "environment/cache.h"
#include "environment/environment.h"
#include "log/log.h"

#define KEPT_MAX 8192 /* largest metadata file that is kept in memory, in bytes */
#define KEPT_ALL (UINT64_C(16) << 20) /* most bytes of kept metadata files in one array */
/* the R-tree of a fragment with at most this many tiles is read together with its footer */
#define EAGER_TILES   4096
#define EXPECTED_TAIL 65536 /* bytes at the end of a metadata file that a store may prefetch */
/* size of a fragment's structure in bytes, rounded up so that the room after it is aligned */
#define FRAGMENT_SIZE   ((sizeof(tsr_fragment) + 15) & ~(size_t)15)
#define SLAB_SIZE       ((sizeof(fragment_slab) + 15) & ~(size_t)15)
#define SLAB_MOST       (UINT64_C(8) << 20) /* bytes of a slab */
#define KEPT_SPARE      32 /* the room for other metadata files is larger by 1/32 */
#define METADATA_MOST   65536 /* most bytes of room for metadata that are allocated together with a fragment */
#define CANCEL_INTERVAL 32 /* fragments read between two checks for cancellation */

typedef struct tsr_open_file {
  tsr_file *file;
  tsr_fragment *fragment;
  uint64_t index; /* in fragment->files */
  uint64_t epoch; /* open_files.epoch when the file was last given out: in use if that is the current one */
  uint32_t holders; /* pins: > 0: the file is in use in any epoch */
  struct tsr_open_file *newer, *older;
} fragment_open_file;

typedef struct tsr_fragment_slab { /* begins a block of fragments */
  uint64_t fragments; /* that are in it */
} fragment_slab;

static uint64_t file_count(const tsr_fragment *fragment) {
  return (uint64_t)fragment->metadata.slot_count * TSR_PART_COUNT + 1;
}

/* ---- Open files -------------------------------------------------------------------------------------------------- */

static void unlink_file(tsr_open_files *files, fragment_open_file *node) {
  if (node->newer) node->newer->older = node->older;
  else files->newest = node->older;
  if (node->older) node->older->newer = node->newer;
  else files->oldest = node->newer;
}

static void link_newest(tsr_open_files *files, fragment_open_file *node) {
  node->newer = NULL;
  node->older = files->newest;
  if (node->older) node->older->newer = node;
  else files->oldest = node;
  files->newest = node;
  node->epoch = files->epoch;
}

static void fragment_close_file(tsr_open_files *files, fragment_open_file *node) {
  unlink_file(files, node);
  files->count--;
  node->fragment->files[node->index] = NULL;
  tsr__store_close_file(node->file);
  tsr__free(node);
}

/* Closes up to `count` files that are not in use, least recently used first. Returns how many it closed. */
static uint64_t close_some(tsr_open_files *files, uint64_t count) {
  uint64_t closed = 0;
  fragment_open_file *node = files->oldest;
  while (closed < count && node && node->epoch < files->epoch) {
    fragment_open_file *newer = node->newer;
    if (node->holders == 0) {
      fragment_close_file(files, node);
      closed++;
    }
    node = newer;
  }
  return closed;
}

/* Closes unused files of the environment's other arrays until all arrays together have at most `most` open files.
 * Returns how many it closed. */
static uint64_t close_others(tsr_array *array, uint64_t most) {
  uint64_t all = array->open_files.count, closed = 0;
  for (const tsr_array *a = array->environment->arrays; a; a = a->next) all += a == array ? 0 : a->open_files.count;
  for (tsr_array *a = array->environment->arrays; a && all - closed > most; a = a->next)
    if (a != array) closed += close_some(&a->open_files, all - closed - most);
  return closed;
}

static void close_unused(tsr_array *array) {
  tsr_open_files *files = &array->open_files;
  const uint64_t kept = array->environment->files_kept;
  if (files->count > kept) close_some(files, files->count - kept);
  close_others(array, kept);
}

bool tsr__arrays_make_room(tsr_environment *environment) {
  uint64_t closed = 0;
  if (tsr__on_worker()) return false;
  for (tsr_array *a = environment->arrays; a; a = a->next) closed += close_some(&a->open_files, a->open_files.count);
  return closed > 0;
}

void tsr__array_files_done(tsr_array *array) {
  array->open_files.epoch++;
  close_unused(array);
}

static int join_path(const tsr_fragment *fragment, const char *file, tsr_buffer *path, tsr_error *error) {
  path->size = 0;
  TSR_TRY(tsr__buffer_printf(path, error, "%s%s/%s", tsr__fragment_parent(fragment), fragment->name, file));
  return tsr__buffer_append_u8(path, 0, error);
}

/* Opens a file of a fragment; `size` is from its metadata (or TSR_SIZE_UNKNOWN). Below version 5 the metadata file of a
 * prepared fragment has a provisional name, although the commit may already count. Publication renames the file,
 * perhaps between two attempts to open it. So after the provisional name the final one is tried once more. */
static int open_file_of(tsr_array *array, const tsr_fragment *fragment, const char *name, uint64_t size,
                        tsr_file **file, tsr_error *error) {
  tsr_buffer path = {.memory = &array->memory};
  const bool may_be_prepared =
      !layout_has_commit_files(fragment->parsed.version) && strcmp(name, TSR_FILE_FRAGMENT_METADATA) == 0;
  const char *const names[] = {name, TSR_FILE_STAGED_METADATA, name};
  int rc = TSR_NOT_FOUND;
  for (int i = 0; i < (may_be_prepared ? 3 : 1) && rc == TSR_NOT_FOUND; i++) {
    rc = join_path(fragment, names[i], &path, error);
    if (rc >= 0)
      rc = tsr__store_open_sized(tsr__fragment_store(array, fragment), (const char *)path.data, size, file, error);
  }
  tsr__buffer_release(&path);
  return rc;
}

int tsr__fragment_find(tsr_array *array, const tsr_committed *item, bool *exists, tsr_error *error) {
  const char *parent = item->old_layout ? "" : TSR_DIR_FRAGMENTS;
  return tsr__store_find(array->store, tsr__path_of(parent, item->name, "/" TSR_FILE_FRAGMENT_METADATA).text, exists,
                         error);
}

/* *whole: whether the listing of a fragment's directory has all data files. */
static int has_data_files(const tsr_fragment_metadata *m, const tsr_listing *entries, tsr_arena *arena, bool *whole,
                          tsr_error *error) {
  *whole = true;
  for (uint32_t slot = 0; slot < m->slot_count; slot++)
    for (unsigned part = 0; m->slots[slot].present && part < TSR_PART_COUNT; part++) {
      char *name;
      if (!tsr__fragment_slot_has_part(m, slot, part)) continue;
      TSR_TRY(tsr__fragment_file_name(m, slot, part, arena, &name, error));
      *whole = *whole && tsr__listing_has(entries, name);
    }
  return TSR_OK;
}

static int is_whole(tsr_array *array, const tsr_committed *item, const tsr_listing *entries, bool *whole,
                    tsr_error *error) {
  tsr_fragment *fragment;
  tsr_arena arena;
  *whole = tsr__listing_has(entries, TSR_FILE_FRAGMENT_METADATA);
  if (!*whole) return TSR_OK;
  TSR_TRY(tsr__array_fragment(array, item, NULL, 0, &fragment, error));
  tsr__arena_init(&arena, &array->memory);
  const int rc = has_data_files(&fragment->metadata, entries, &arena, whole, error);
  tsr__arena_release(&arena);
  tsr__array_fragment_drop(array, fragment);
  return rc;
}

int tsr__fragment_is_whole(tsr_array *array, const tsr_committed *item, bool *whole, tsr_error *error) {
  tsr_listing entries = {.memory = array->store->memory};
  const tsr_path directory = tsr__path_of(item->old_layout ? "" : TSR_DIR_FRAGMENTS, item->name, "");
  int rc = tsr__store_list(array->store, directory.text, &entries, error);
  *whole = false;
  if (rc >= 0) rc = is_whole(array, item, &entries, whole, error);
  tsr__listing_release(&entries);
  return rc == TSR_NOT_FOUND ? TSR_OK : rc;
}

int tsr__fragment_fail_outlived(const tsr_array *array, const char *name, tsr_error *error) {
  const tsr_committed *longer = tsr__log_outlived(array->log.listing, name);
  if (!longer) return TSR_OK;
  return tsr__fail(error, TSR_CORRUPT,
                   "fragment %s is committed, but gone: another program has probably consolidated the commits while it "
                   "was vacuumed, and %s has its cells. tessera_consolidate(path, 'commits') cancels it, if "
                   "tessera_check(path) finds nothing else",
                   name, longer->name);
}

int tsr__fragment_fail_missing(tsr_array *array, const tsr_fragment *fragment, tsr_error *error) {
  tsr_error before = {0};
  if (error) before = *error;
  TSR_TRY(tsr__log_list(&array->log, true, true, error));
  if (!tsr__map_get(&array->log.listing->names, fragment->name))
    return tsr__fail(error, TSR_ABORT, "array %s: fragment %s was vacuumed during this statement", array->path,
                     fragment->name);
  tsr_map covered = {.memory = &array->memory};
  int rc = tsr__log_covered(&array->log, array->log.listing, &covered, error);
  const char *merged = rc >= 0 ? tsr__map_get(&covered, fragment->name) : NULL;
  tsr__map_release(&covered);
  if (rc < 0) return rc;
  if (merged)
    return tsr__fail(
        error, TSR_ERROR,
        "array %s: the states that need fragment %s are lost: it was merged into %s, and a vacuum that was "
        "cut off has begun to remove it: %s",
        array->path, fragment->name, merged, before.message);
  rc = tsr__fragment_fail_outlived(array, fragment->name, error);
  if (rc < 0) return tsr__wrap(error, "array %s", array->path);
  return tsr__fail(error, TSR_CORRUPT, "array %s: fragment %s is committed, but %s", array->path, fragment->name,
                   before.message);
}

static void note_kept(tsr_array *array, tsr_fragment *fragment, tsr_file *file) {
  const uint64_t size = sizeof *file + strlen(file->path) + 1 + file->size;
  array->registry.kept_bytes += file->size;
  array->registry.kept_room = (size + size / KEPT_SPARE + 31) & ~UINT64_C(15); /* with the header of an arena's block */
  fragment->kept = file;
}

/* Reads a metadata file into memory and keeps it there, if it is small. */
static int fragment_keep(tsr_array *array, tsr_fragment *fragment, tsr_file **file, tsr_error *error) {
  if ((*file)->size > KEPT_MAX || array->registry.kept_bytes + (*file)->size > KEPT_ALL) return TSR_OK;
  TSR_TRY(tsr__store_keep_file(file, &fragment->kept_arena, error));
  note_kept(array, fragment, *file);
  return TSR_OK;
}

/* Opens file number `index`, called `name`. Fails with TSR_CORRUPT if it has fewer than `least` bytes. The metadata
 * file, the last one, may be kept in memory instead. */
static int open_indexed(tsr_array *array, tsr_fragment *fragment, uint64_t index, const char *name, uint64_t least,
                        tsr_error *error) {
  tsr_file *file = NULL;
  fragment_open_file *block;
  const uint64_t size = least > 0 ? least : TSR_SIZE_UNKNOWN;
  int rc = open_file_of(array, fragment, name, size, &file, error);
  if (rc == TSR_NOT_FOUND) return tsr__fragment_fail_missing(array, fragment, error);
  if (rc >= 0 && file->size < least)
    rc = tsr__fail(error, TSR_CORRUPT, "array %s: %s has %llu bytes, but its fragment's metadata says %llu",
                   array->path, file->path, (unsigned long long)file->size, (unsigned long long)least);
  if (rc >= 0 && index + 1 == file_count(fragment)) rc = fragment_keep(array, fragment, &file, error);
  if (rc >= 0 && fragment->kept == file) return TSR_OK;
  if (rc >= 0) rc = TSR_ALLOC_RAW(&array->memory, 1, &block, error);
  if (rc < 0) {
    tsr__store_close_file(file);
    return rc;
  }
  fragment_open_file *node = block;
  *node = (fragment_open_file){.file = file, .fragment = fragment, .index = index};
  fragment->files[index] = node;
  link_newest(&array->open_files, node);
  array->open_files.count++;
  close_unused(array);
  return TSR_OK;
}

/* Marks the file as given out in the current epoch. */
static tsr_file *mark_used(tsr_array *array, fragment_open_file *node) {
  unlink_file(&array->open_files, node);
  link_newest(&array->open_files, node);
  return node->file;
}

int tsr__fragment_metadata_file(tsr_array *array, tsr_fragment *fragment, tsr_file **file, tsr_error *error) {
  uint64_t index = file_count(fragment) - 1;
  if (!fragment->kept && !fragment->files[index])
    TSR_TRY(open_indexed(array, fragment, index, TSR_FILE_FRAGMENT_METADATA, fragment->metadata.at.file_size, error));
  *file = fragment->kept ? fragment->kept : mark_used(array, fragment->files[index]);
  return TSR_OK;
}

int tsr__fragment_file(tsr_array *array, tsr_fragment *fragment, uint32_t slot, tsr_part_kind part, tsr_file **file,
                       tsr_error *error) {
  uint64_t index = (uint64_t)slot * TSR_PART_COUNT + part;
  if (!fragment->files[index]) {
    tsr_arena arena;
    char *name;
    tsr__arena_init(&arena, &array->memory);
    int rc = tsr__fragment_file_name(&fragment->metadata, slot, part, &arena, &name, error);
    if (rc >= 0) rc = open_indexed(array, fragment, index, name, fragment->metadata.slots[slot].file_size[part], error);
    tsr__arena_release(&arena);
    if (rc < 0) return rc;
  }
  *file = mark_used(array, fragment->files[index]);
  return TSR_OK;
}

void tsr__fragment_file_hold(tsr_fragment *fragment, uint32_t slot, tsr_part_kind part) {
  fragment->files[(uint64_t)slot * TSR_PART_COUNT + part]->holders++;
}

void tsr__fragment_file_drop(tsr_fragment *fragment, uint32_t slot, tsr_part_kind part) {
  fragment->files[(uint64_t)slot * TSR_PART_COUNT + part]->holders--;
}

/* ---- Lazy parts -------------------------------------------------------------------------------------------------- */

static int in_context(tsr_array *array, const tsr_fragment *fragment, int rc, tsr_error *error) {
  if (rc < 0) tsr__wrap(error, "array %s: fragment %s", array->path, fragment->name);
  return tsr__damage(rc, error);
}

static void drop_kept(tsr_array *array, tsr_fragment *fragment) {
  if (fragment->kept) array->registry.kept_bytes -= fragment->kept->size;
  tsr__store_close_file(fragment->kept);
  tsr__arena_release(&fragment->kept_arena);
  fragment->kept = NULL;
}

/* Drops the bytes of a metadata file that cannot be decoded. Returns true if fetching them again may give other
 * bytes. */
static bool doubt_metadata(tsr_array *array, tsr_fragment *fragment) {
  fragment_open_file *node = fragment->files ? fragment->files[file_count(fragment) - 1] : NULL;
  if (!tsr__store_doubt(tsr__fragment_store(array, fragment))) return false;
  if (node) fragment_close_file(&array->open_files, node);
  drop_kept(array, fragment);
  return true;
}

typedef int (*part_loader)(tsr_fragment_metadata *metadata, uint32_t slot, tsr_file *file, const uint8_t *key,
                           tsr_error *error);

/* Loads a part of the metadata, retrying once if its bytes may be corrupt. `slot` matters only for parts of a slot. */
static int load_part(tsr_array *array, tsr_fragment *fragment, part_loader load, uint32_t slot, tsr_error *error) {
  for (bool again = false;; again = true) {
    tsr_file *file;
    TSR_TRY(tsr__fragment_metadata_file(array, fragment, &file, error));
    const int rc = load(&fragment->metadata, slot, file, tsr__array_key(array), error);
    if (!tsr__may_be_corrupt_transfer(rc) || again || !doubt_metadata(array, fragment))
      return in_context(array, fragment, rc, error);
  }
}

static int load_rtree(tsr_fragment_metadata *metadata, uint32_t slot, tsr_file *file, const uint8_t *key,
                      tsr_error *error) {
  (void)slot;
  return tsr__fragment_metadata_load_rtree(metadata, file, key, error);
}

static int load_processed(tsr_fragment_metadata *metadata, uint32_t slot, tsr_file *file, const uint8_t *key,
                          tsr_error *error) {
  (void)slot;
  return tsr__fragment_metadata_load_processed(metadata, file, key, error);
}

int tsr__fragment_rtree(tsr_array *array, tsr_fragment *fragment, const tsr_rtree **rtree, tsr_error *error) {
  if (!fragment->metadata.rtree) TSR_TRY(load_part(array, fragment, load_rtree, 0, error));
  *rtree = fragment->metadata.rtree;
  return TSR_OK;
}

int tsr__fragment_load_slot(tsr_array *array, tsr_fragment *fragment, uint32_t slot, tsr_error *error) {
  if (fragment->run.tiles || fragment->metadata.slots[slot].offsets[TSR_PART_FIXED]) return TSR_OK;
  return load_part(array, fragment, tsr__fragment_metadata_load_slot, slot, error);
}

int tsr__fragment_processed(tsr_array *array, tsr_fragment *fragment, tsr_error *error) {
  if (fragment->metadata.processed.loaded) return TSR_OK;
  return load_part(array, fragment, load_processed, 0, error);
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* Finds the schema of a fragment. Footers below version 10 name no schema: it is __array_schema.tdb, or __kv_schema.tdb
 * in a key-value store. */
static int find_schema(void *argument, const char *name, const tsr_schema **schema, tsr_error *error) {
  const tsr_commit_list *schemas = &((tsr_array *)argument)->log.listing->schemas;
  bool stored = strcmp(name, TSR_FILE_OLD_SCHEMA) != 0;
  if (!stored && schemas->count > 0 && strcmp(schemas->items[0].name, TSR_FILE_KV_SCHEMA) == 0)
    name = schemas->items[0].name;
  int rc = tsr__array_schema_by_name(argument, name, schema, error);
  return rc == TSR_NOT_FOUND ? tsr__fail(error, TSR_CORRUPT, "its schema %s is missing", name) : rc;
}

/* Loads the R-tree of a sparse fragment while its file is open, since a plan needs it next. Ignores errors, which the
 * plan will meet again, except TSR_INTERRUPT: the host reports a cancellation only once. */
static int read_ahead(tsr_array *array, tsr_fragment *fragment, tsr_file *file, tsr_error *error) {
  tsr_fragment_metadata *m = &fragment->metadata;
  tsr_error fault = {0};
  if (m->dense || m->tile_count == 0 || m->tile_count > EAGER_TILES) return TSR_OK;
  int rc = tsr__fragment_metadata_load_rtree(m, file, tsr__array_key(array), &fault);
  return tsr__only_cancelled(rc, &fault, error);
}

/* Returns an empty arena for the fragment's metadata. It first uses the room allocated with the fragment: thousands of
 * fragments are read in parallel, and the host's allocator may be serialized. */
static tsr_arena fragment_arena(tsr_array *array, tsr_fragment *fragment) {
  tsr_arena arena = tsr__arena(&array->memory);
  if (fragment->room) tsr__arena_lend(&arena, &array->memory, fragment->room, fragment->room_size);
  return arena;
}

/* Opens the metadata file, and keeps a small one in memory. */
static int open_metadata(tsr_array *array, tsr_fragment *fragment, tsr_file **file, tsr_error *error) {
  if (!layout_has_commit_files(fragment->parsed.version) || array->registry.kept_bytes + KEPT_MAX > KEPT_ALL) {
    TSR_TRY(open_file_of(array, fragment, TSR_FILE_FRAGMENT_METADATA, TSR_SIZE_UNKNOWN, file, error));
    const int rc = fragment_keep(array, fragment, file, error);
    if (rc < 0) tsr__store_close_file(*file);
    return rc;
  }
  const tsr_path path = tsr__path_of(tsr__fragment_parent(fragment), fragment->name, "/" TSR_FILE_FRAGMENT_METADATA);
  TSR_TRY(tsr__store_open_small(tsr__fragment_store(array, fragment), path.text, KEPT_MAX, &fragment->kept_arena, file,
                                error));
  if ((*file)->kept) note_kept(array, fragment, *file);
  return TSR_OK;
}

static int try_read_footer(tsr_array *array, tsr_fragment *fragment, tsr_schema_finder find, void *argument,
                           tsr_error *error) {
  tsr_file *file = NULL;
  TSR_TRY(open_metadata(array, fragment, &file, error));
  int rc = tsr__fragment_metadata_read(file, fragment->parsed.version, tsr__array_key(array), find, argument,
                                       fragment_arena(array, fragment), &fragment->metadata, error);
  if (rc >= 0) rc = read_ahead(array, fragment, file, error);
  if (file != fragment->kept) tsr__store_close_file(file); /* do not keep the files of thousands of fragments open */
  /* TSR_NOT_FOUND is reserved for the missing file of a commit */
  return rc == TSR_NOT_FOUND ? tsr__fail(error, TSR_CORRUPT, "its metadata cannot be read") : rc;
}

static int read_footer(tsr_array *array, tsr_fragment *fragment, tsr_schema_finder find, void *argument,
                       tsr_error *error) {
  const int rc = try_read_footer(array, fragment, find, argument, error);
  if (!tsr__may_be_corrupt_transfer(rc) || !doubt_metadata(array, fragment)) return rc;
  return try_read_footer(array, fragment, find, argument, error);
}

/* Computes the box of a dense fragment in ordinals, and the space tiles that it touches. */
static int place_box(tsr_fragment *fragment, tsr_error *error) {
  tsr_fragment_metadata *m = &fragment->metadata;
  const tsr_grid *grid = &fragment->dense.grid;
  uint32_t n = grid->dimensions;
  uint64_t *low;
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, (uint64_t)n * 4, &low, error));
  uint64_t *high = low + n, *tile_low = high + n, *tile_count = tile_low + n, tiles = 1;
  for (uint32_t d = 0; d < n; d++) {
    const tsr_interval *box = &m->non_empty_domain[d];
    tsr_datatype datatype = m->schema->fields[d].datatype;
    uint64_t from = tsr__key(datatype, box->low), to = tsr__key(datatype, box->high), zero = grid->low_key[d];
    if (from > to || from < zero || from - zero > grid->last[d])
      return tsr__fail(error, TSR_CORRUPT, "its non-empty domain exceeds the domain of dimension %u", d);
    low[d] = from - zero;
    high[d] = TSR_MIN(to - zero, grid->last[d]);
    tile_low[d] = low[d] / grid->extent[d];
    tile_count[d] = high[d] / grid->extent[d] - tile_low[d] + 1;
    tiles = tsr__mul_sat(tiles, tile_count[d]);
  }
  if (tiles != m->tile_count)
    return tsr__fail(error, TSR_CORRUPT, "its non-empty domain touches %llu tiles, but its metadata says %llu",
                     (unsigned long long)tiles, (unsigned long long)m->tile_count);
  fragment->dense.box_low = low;
  fragment->dense.box_high = high;
  fragment->dense.tile_low = tile_low;
  fragment->dense.tile_count = tile_count;
  return TSR_OK;
}

int tsr__fragment_make_files(tsr_fragment *fragment, tsr_error *error) {
  TSR_TRY(TSR_ARENA_ARRAY(&fragment->metadata.arena, file_count(fragment), &fragment->files, error));
  return TSR_OK;
}

static int derive_geometry(tsr_array *array, tsr_fragment *fragment, tsr_error *error) {
  tsr_fragment_metadata *m = &fragment->metadata;
  uint64_t rows = 0;
  if (m->dense && !m->schema->dense) return tsr__fail(error, TSR_CORRUPT, "a dense fragment of a sparse array");
  if (m->schema->dense) {
    const tsr_grid *grid;
    TSR_TRY(tsr__array_grid(array, m->schema, &grid, error));
    fragment->dense.grid = *grid;
  }
  if (m->dense && !m->empty_domain) TSR_TRY(place_box(fragment, error));
  fragment->cells_per_tile = m->dense ? fragment->dense.grid.tile_cells : m->schema->capacity;
  if (m->tile_count > 0) {
    uint64_t last = m->dense ? fragment->cells_per_tile : m->last_tile_cells;
    rows = tsr__add_sat(tsr__mul_sat(m->tile_count - 1, fragment->cells_per_tile), last);
  }
  TSR_TRY(tsr__environment_rows(array->environment, array->path, fragment->name, rows, &fragment->row_base, error));
  return tsr__fragment_make_files(fragment, error);
}

static int fragment_load(tsr_array *array, tsr_fragment *fragment, const uint8_t *footer, uint64_t footer_size,
                         tsr_error *error) {
  const uint32_t version = fragment->parsed.version;
  int rc = footer ? tsr__fragment_metadata_decode_footer(footer, footer_size, 0, 0, find_schema, array,
                                                         fragment_arena(array, fragment), &fragment->metadata, error)
                  : read_footer(array, fragment, find_schema, array, error);
  if (rc >= 0 && footer && version != 0 && fragment->metadata.version != version)
    rc = tsr__fail(error, TSR_CORRUPT, "its consolidated footer says version %u, its name %u",
                   fragment->metadata.version, version);
  if (rc >= 0) rc = derive_geometry(array, fragment, error);
  if (rc < 0) {
    tsr__wrap(error, "fragment %s", fragment->name);
    tsr__fragment_metadata_release(&fragment->metadata);
    fragment->metadata = (tsr_fragment_metadata){0};
  }
  return tsr__damage(rc, error);
}

/* ---- The registry ------------------------------------------------------------------------------------------------ */

/* Removes the files of a provisional fragment. Files that cannot be removed stay behind, but are never taken for a
 * fragment. */
static void remove_files(tsr_array *array, const tsr_fragment *fragment) {
  char path[160];
  tsr_error ignored;
  snprintf(path, sizeof path, "%s%.120s", tsr__fragment_parent(fragment), fragment->name);
  (void)tsr__store_remove_tree(tsr__fragment_store(array, fragment), path, &ignored);
}

static void drop_tiles(tsr_fragment *fragment) {
  for (uint64_t i = 0; i < fragment->metadata.slot_count * fragment->metadata.tile_count; i++)
    tsr__tile_drop(fragment->run.tiles[i]);
  tsr__free(fragment->run.tiles);
  tsr__free(fragment->run.positions);
}

static void free_fragment(tsr_array *array, tsr_fragment *fragment) {
  for (uint64_t i = 0; fragment->files && i < file_count(fragment); i++)
    if (fragment->files[i]) fragment_close_file(&array->open_files, fragment->files[i]);
  if (array->cache) tsr__cache_forget(array->cache, fragment->id);
  if (fragment->run.provisional) remove_files(array, fragment);
  if (fragment->run.tiles) drop_tiles(fragment);
  drop_kept(array, fragment);
  tsr__fragment_metadata_release(&fragment->metadata);
  fragment_slab *slab = fragment->slab;
  if (!slab) tsr__free(fragment);
  else if (--slab->fragments == 0) tsr__free(slab);
}

void tsr__array_fragment_drop(tsr_array *array, tsr_fragment *fragment) {
  if (--fragment->references == 0) free_fragment(array, fragment);
}

/* How much room is behind a fragment in its block. */
typedef struct fragment_room {
  uint64_t metadata, kept; /* bytes for its metadata, and for its metadata file; the name comes last */
} fragment_room;

/* Returns the bytes that a fragment takes with its room and its name. */
static uint64_t fragment_bytes(const char *name, fragment_room room) {
  return (FRAGMENT_SIZE + room.metadata + room.kept + strlen(name) + 1 + 15) & ~UINT64_C(15);
}

/* Makes a fragment at `block`, which has fragment_bytes. */
static tsr_fragment *fragment_init(tsr_array *array, const char *name, fragment_room room, fragment_slab *slab,
                                   uint8_t *block) {
  tsr_fragment *f = (tsr_fragment *)(void *)block;
  *f = (tsr_fragment){.references = 1, .id = array->environment->next_fragment++, .slab = slab};
  uint8_t *const behind = (uint8_t *)f + FRAGMENT_SIZE;
  if (room.metadata > 0) f->room = behind;
  f->room_size = room.metadata;
  tsr__arena_init(&f->kept_arena, &array->memory);
  if (room.kept > 0) tsr__arena_lend(&f->kept_arena, &array->memory, behind + room.metadata, room.kept);
  f->name = memcpy(behind + room.metadata + room.kept, name, strlen(name) + 1);
  return f;
}

/* Makes a fragment in a block of its own. */
static int fragment_make(tsr_array *array, const char *name, fragment_room room, tsr_fragment **fragment,
                         tsr_error *error) {
  uint8_t *block;
  TSR_TRY(TSR_ALLOC_RAW_BYTES(&array->memory, fragment_bytes(name, room), &block, error));
  *fragment = fragment_init(array, name, room, NULL, block);
  return TSR_OK;
}

int tsr__array_fragment_new(tsr_array *array, const char *name, tsr_fragment **fragment, tsr_error *error) {
  return fragment_make(array, name, (fragment_room){0}, fragment, error);
}

static fragment_room listed_room(const tsr_array *array) {
  return (fragment_room){array->registry.metadata_room,
                         array->registry.kept_bytes < KEPT_ALL / 2 ? array->registry.kept_room : 0};
}

static void set_listed(tsr_fragment *fragment, const tsr_committed *item) {
  fragment->parsed = item->parsed;
  fragment->old_layout = item->old_layout;
}

static int new_listed(tsr_array *array, const tsr_committed *item, tsr_fragment **fragment, tsr_error *error) {
  TSR_TRY(fragment_make(array, item->name, listed_room(array), fragment, error)); /* the registry's reference */
  set_listed(*fragment, item);
  return TSR_OK;
}

/* The same for many: makes fragments of items[0] to items[count - 1], in slabs. After a failure those that were made
 * are there, and then NULL. */
static int new_listed_many(tsr_array *array, const tsr_committed *const *items, uint64_t count,
                           tsr_fragment **fragments, tsr_error *error) {
  const fragment_room room = listed_room(array);
  for (uint64_t made = 0, end = 0; made < count;) {
    uint64_t bytes = SLAB_SIZE;
    for (; end < count; end++) {
      const uint64_t more = fragment_bytes(items[end]->name, room);
      if (end > made && bytes + more > SLAB_MOST) break;
      bytes += more;
    }
    uint8_t *block;
    TSR_TRY(TSR_ALLOC_RAW_BYTES(&array->memory, bytes, &block, error));
    fragment_slab *slab = (fragment_slab *)(void *)block;
    slab->fragments = end - made;
    for (block += SLAB_SIZE; made < end; made++) {
      fragments[made] = fragment_init(array, items[made]->name, room, slab, block);
      set_listed(fragments[made], items[made]);
      block += fragment_bytes(items[made]->name, room);
    }
  }
  return TSR_OK;
}

int tsr__array_fragment(tsr_array *array, const tsr_committed *item, const uint8_t *footer, uint64_t footer_size,
                        tsr_fragment **fragment, tsr_error *error) {
  tsr_fragment *f = tsr__map_get(&array->registry.fragments, item->name);
  if (!f) {
    TSR_TRY(new_listed(array, item, &f, error));
    int rc = fragment_load(array, f, footer, footer_size, error);
    if (rc >= 0) rc = tsr__map_put(&array->registry.fragments, f->name, f, error);
    if (rc < 0) {
      free_fragment(array, f);
      return rc;
    }
  }
  f->references++;
  *fragment = f;
  return TSR_OK;
}

typedef struct reading { /* a job: read the metadata files of fragments on all threads */
  tsr_array *array;
  tsr_fragment **fragments; /* metadata.schema stays NULL if a fragment cannot be read */
  pthread_mutex_t schemas; /* serializes the loading of schemas, which changes the array */
} reading;

static int find_schema_alone(void *argument, const char *name, const tsr_schema **schema, tsr_error *error) {
  reading *r = argument;
  pthread_mutex_lock(&r->schemas);
  int rc = find_schema(r->array, name, schema, error);
  pthread_mutex_unlock(&r->schemas);
  return rc;
}

static int read_one(void *argument, uint64_t index, tsr_error *error) {
  reading *r = argument;
  tsr_error unseen;
  if (index % CANCEL_INTERVAL == CANCEL_INTERVAL - 1) TSR_TRY(tsr__cancelled(&r->array->memory, error));
  (void)read_footer(r->array, r->fragments[index], find_schema_alone, r, &unseen);
  return TSR_OK;
}

static int read_together(reading *r, uint64_t count, tsr_error *error) {
  tsr_job job;
  pthread_mutex_init(&r->schemas, NULL);
  tsr__job_start(&job, r->array->threads - 1, count, read_one, r);
  int rc = tsr__job_finish(&job, &r->array->memory, error);
  pthread_mutex_destroy(&r->schemas);
  return rc;
}

/* Remembers how much room the metadata of a fragment takes, including its list of files and the header of an arena
 * block. */
static void note_metadata(tsr_array *array, const tsr_fragment *fragment) {
  const uint64_t size = tsr__arena_size(&fragment->metadata.arena) + file_count(fragment) * sizeof *fragment->files;
  array->registry.metadata_room = size < METADATA_MOST ? (size + 31) & ~UINT64_C(15) : 0;
}

/* Makes and reads fragments. Reads the first one alone, to learn how much room the others need, so that workers need
 * not allocate. */
static int make_and_read(tsr_array *array, const tsr_committed *const *items, uint64_t count, tsr_fragment **fragments,
                         tsr_error *error) {
  reading rest = {.array = array, .fragments = fragments + 1};
  tsr_error unseen;
  TSR_TRY(new_listed(array, items[0], &fragments[0], error));
  (void)read_footer(array, fragments[0], find_schema, array, &unseen);
  if (fragments[0]->metadata.schema) note_metadata(array, fragments[0]);
  TSR_TRY(new_listed_many(array, items + 1, count - 1, fragments + 1, error));
  return read_together(&rest, count - 1, error);
}

int tsr__array_fragments_read(tsr_array *array, const tsr_committed *const *items, uint64_t count, tsr_error *error) {
  tsr_fragment **fragments;
  tsr_error unseen;
  if (count == 0 || array->threads <= 1 || !array->store->workers_may_read) return TSR_OK;
  TSR_TRY(TSR_ALLOC_ARRAY(&array->memory, count, &fragments, error));
  const int rc = make_and_read(array, items, count, fragments, error);
  for (uint64_t i = 0; i < count && fragments[i]; i++) {
    tsr_fragment *f = fragments[i];
    if (rc < 0 || !f->metadata.schema || derive_geometry(array, f, &unseen) < 0 ||
        tsr__map_put(&array->registry.fragments, f->name, f, &unseen) < 0)
      free_fragment(array, f);
  }
  tsr__free(fragments);
  return rc;
}

void tsr__array_fragments_prefetch(tsr_array *array, const tsr_committed *const *items, uint64_t count) {
  tsr_read_hint *hints;
  tsr_arena arena;
  uint64_t n = 0;
  if (count == 0 || !tsr__store_prefetches(array->store)) return;
  tsr__arena_init(&arena, &array->memory);
  int rc = TSR_ARENA_ARRAY(&arena, count, &hints, NULL);
  while (rc >= 0 && n < count) {
    const tsr_path path =
        tsr__path_of(items[n]->old_layout ? "" : TSR_DIR_FRAGMENTS, items[n]->name, "/" TSR_FILE_FRAGMENT_METADATA);
    char *copy;
    rc = TSR_ARENA_COPY(&arena, path.text, strlen(path.text), &copy, NULL);
    if (rc >= 0) hints[n++] = (tsr_read_hint){.path = copy, .size = EXPECTED_TAIL, .tail = true};
  }
  if (n > 0) tsr__store_prefetch(array->store, hints, n);
  tsr__arena_release(&arena);
}

/* Returns true if the fragment's metadata file must be read before its cells can be. */
static bool is_unread(const tsr_fragment *fragment) {
  const tsr_fragment_metadata *m = &fragment->metadata;
  if (fragment->run.tiles || fragment->run.scratch || fragment->kept || m->tile_count == 0 ||
      !layout_has_footers(m->version) || fragment->files[file_count(fragment) - 1])
    return false;
  if (!m->dense && !m->rtree) return true;
  for (uint32_t slot = 0; slot < m->slot_count; slot++)
    if (m->slots[slot].offsets[TSR_PART_FIXED]) return false;
  return true;
}

/* Makes the prefetch requests for a metadata file, at most two. A file of unknown size is opened by reading its end;
 * the R-tree is further to the front, before the tile offsets of the first slot. */
static uint64_t hint_metadata(const tsr_fragment_metadata *m, const char *path, tsr_read_hint *hints) {
  const uint64_t rtree_end = m->slot_count > 0 ? m->slots[0].offsets_at[TSR_PART_FIXED] : 0;
  const uint64_t end =
      m->at.file_size > 0 ? m->at.file_size : TSR_MAX(m->at.fragment_statistics, m->at.processed_conditions);
  const bool large = end > EXPECTED_TAIL;
  uint64_t n = 0;
  if (m->at.file_size == 0) hints[n++] = (tsr_read_hint){.path = path, .size = EXPECTED_TAIL, .tail = true};
  else if (!large) hints[n++] = (tsr_read_hint){.path = path, .size = m->at.file_size};
  if (large && !m->dense && !m->rtree && rtree_end > m->at.rtree)
    hints[n++] = (tsr_read_hint){.path = path, .offset = m->at.rtree, .size = rtree_end - m->at.rtree};
  return n;
}

void tsr__fragments_prefetch(tsr_array *array, tsr_fragment *const *fragments, uint64_t count) {
  tsr_read_hint *hints;
  tsr_arena arena;
  uint64_t n = 0;
  if (count == 0 || !tsr__store_prefetches(array->store)) return;
  tsr__arena_init(&arena, &array->memory);
  int rc = TSR_ARENA_ARRAY(&arena, 2 * count, &hints, NULL);
  for (uint64_t i = 0; rc >= 0 && i < count; i++) {
    const tsr_path path =
        tsr__path_of(tsr__fragment_parent(fragments[i]), fragments[i]->name, "/" TSR_FILE_FRAGMENT_METADATA);
    char *copy;
    if (!is_unread(fragments[i])) continue;
    rc = TSR_ARENA_COPY(&arena, path.text, strlen(path.text), &copy, NULL);
    if (rc >= 0) n += hint_metadata(&fragments[i]->metadata, copy, hints + n);
  }
  if (n > 0) tsr__store_prefetch(array->store, hints, n);
  tsr__arena_release(&arena);
}

void tsr__array_fragments_prune(tsr_array *array) {
  tsr_map *fragments = &array->registry.fragments;
  if (!array->log.listing) { /* the array is being closed */
    for (uint64_t i = 0; i < fragments->count; i++) tsr__array_fragment_drop(array, fragments->entries[i].value);
    tsr__map_release(fragments);
    return;
  }
  for (uint64_t i = 0; i < fragments->count;) {
    tsr_fragment *fragment = fragments->entries[i].value;
    if (!tsr__map_get(&array->log.listing->names, fragment->name)) {
      tsr__map_remove(fragments, fragment->name); /* moves the last entry to this index: do not advance */
      tsr__array_fragment_drop(array, fragment);
    } else i++;
  }
}

void tsr__array_doubt(tsr_array *array) {
  tsr_map *fragments = &array->registry.fragments;
  const uint64_t limit = tsr__cache_limit(array->cache);
  if (!tsr__store_doubt(array->store)) return;
  for (int i = 0; i < TSR_SNAPSHOTS_KEPT; i++) {
    tsr_snapshot_close(array->snapshots.recent[i]);
    array->snapshots.recent[i] = NULL;
  }
  for (uint64_t i = 0; i < fragments->count; i++) tsr__array_fragment_drop(array, fragments->entries[i].value);
  tsr__map_release(fragments);
  tsr__cache_set_limit(array->cache, 0);
  tsr__cache_set_limit(array->cache, limit);
}
