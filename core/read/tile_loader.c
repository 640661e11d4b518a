/* tile_loader.c: loads decoded tiles of fragments, from the cache or from the store.
 *
 * A tile that is not in the cache is fetched. Fetches of adjacent tiles in a file form a group: one read, by a worker
 * if the store allows that, and one task of the pool that decodes them. A load has a start and a finish. In between,
 * workers take groups while the caller may do something else; at the finish the caller's thread takes what is left.
 *
 * Memory. Decoded tiles are allocated from the array's memory, since the cache may keep them. Their bytes are charged
 * to the query's budget before anything is allocated: a tile that cannot fit is refused by its sizes in the metadata.
 *
 * Threads. Until the finish, workers touch only the fetches, the groups, the `tile` of the requests, and the files of
 * the groups, which are held open. The cache, budgets, counters and the check for cancellation belong to the caller's
 * thread.
 *
 * Sections: sizes and messages; reading (fetches and groups); loading (start, finish, cancel).
 */
#include "read/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "format/fragment_metadata.h"
#include "array/array.h"
#include "environment/cache.h"
#include "environment/environment.h"
#include "log/log.h"

/* Stored bytes of a group, at most, unless it is a single tile; and where small reads cost little: as many as stay in a
 * processor's cache. */
#define GROUP_BYTES       (UINT64_C(4) << 20)
#define GROUP_BYTES_SMALL (UINT64_C(512) << 10)
#define GROUPS_PER_THREAD 2 /* at least, if there are enough tiles */

#define PREFETCH_LEAST (UINT64_C(64) << 10) /* bytes that a store fetches for a hint, at least */

#define PARTIAL_DECODE_PART 4 /* if at most 1/PARTIAL_DECODE_PART of a tile is needed, only that part is decoded, ... */
#define PARTLY_PART         2 /* ... until such parts add up to 1/PARTLY_PART of the tile */
#define CUT_LEAST           (UINT64_C(128) << 10) /* stored bytes of a tile, at least, for only some chunks to be read */

typedef struct tsr_fetch { /* a tile that is not in the cache */
  tsr_tile_request *request;
  uint64_t cost; /* bytes charged to the query for it */
  uint64_t sink_bytes; /* decoded bytes that go to the request's sink; 0: they become a tile */
  bool sink_done; /* the sink has all of them */
  tsr_tile *known_part; /* NULL, or a part of the tile that is in the cache (find_known_part): the fetch's reference */
  tsr_tile_format format;
  tsr_tile_source source;
} tile_fetch;

typedef struct tsr_fetch_group { /* fetches whose stored bytes are adjacent in each of the slot's files */
  uint64_t first, end; /* fetches first..end-1 of the load */
  bool read; /* `bytes` has been read */
  bool cut; /* of its one tile only those chunks are read that have the requested cells */
  tsr_file *files[TSR_PART_COUNT]; /* held open; NULL: the slot has no such part, or it is empty */
  uint64_t offsets[TSR_PART_COUNT], sizes[TSR_PART_COUNT];
  uint8_t *bytes; /* owned: the stored bytes, part after part; NULL unless `read` */
} fetch_group;

/* ---- Sizes and messages --------------------------------------------------------------------- */

static int wrap_tile(const tsr_fragment *fragment, uint32_t slot, uint64_t number, tsr_error *error) {
  return tsr__wrap(error, "fragment %s, field %s, tile %llu", fragment->name,
                   tsr__fragment_slot_name(&fragment->metadata, slot), (unsigned long long)number);
}

/* Returns the decoded size of a tile, in bytes. The slot's metadata must be loaded. */
static uint64_t cost_of(const tsr_tile_format *format, const tsr_slot *slot, uint64_t number, uint64_t cells) {
  uint64_t size = tsr_datatype_size(format->datatype), bytes;
  if (format->coordinate_dimensions > 0) bytes = tsr__mul_sat(tsr__mul_sat(cells, size), format->coordinate_dimensions);
  else if (format->values_per_cell == TSR_VARIABLE)
    bytes = tsr__add_sat(tsr__mul_sat(tsr__add_sat(cells, 1), 8), slot->var_sizes ? slot->var_sizes[number] : 0);
  else bytes = tsr__mul_sat(tsr__mul_sat(cells, size), format->values_per_cell);
  return tsr__add_sat(bytes, format->nullable ? cells : 0);
}

int tsr__tile_cost(tsr_array *array, tsr_fragment *fragment, uint32_t slot, uint64_t number, uint64_t *bytes,
                   tsr_error *error) {
  tsr_tile_format format;
  if (fragment->run.tiles) {
    *bytes = fragment->run.tiles[slot * fragment->metadata.tile_count + number]->bytes;
    return TSR_OK;
  }
  TSR_TRY(tsr__fragment_load_slot(array, fragment, slot, error));
  TSR_TRY(tsr__tile_format(&fragment->metadata, slot, tsr__array_key(array), &format, error));
  *bytes =
      cost_of(&format, &fragment->metadata.slots[slot], number, tsr__fragment_tile_cells(&fragment->metadata, number));
  return TSR_OK;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

/* Returns true if reading a part of a tile takes about its share of the time for the whole tile: so it is with files,
 * but not with servers. */
static bool reads_small(const tsr_store *store) { return store->uses_descriptors; }

/* Returns how many of the requested cells are in blocks that are needed. */
static uint64_t needed_cells(const tsr_tile_request *request) {
  if (!request->needed) return request->end - request->first;
  uint64_t sum = 0;
  for (uint64_t at = request->first, next; at < request->end; at = next) {
    next = TSR_MIN(request->end, (at / TSR_NEEDED_CELLS + 1) * TSR_NEEDED_CELLS);
    if (request->needed[at / TSR_NEEDED_CELLS]) sum += next - at;
  }
  return sum;
}

/* Returns true if a part of the tile may be decoded alone. A tile that is requested again and again is worth decoding
 * in full: at the second request if each part costs a read of the whole tile, else once the parts add up. */
static bool may_decode_part(const tsr_load *load, const tsr_tile_request *request, uint64_t cells) {
  if (request->partly == 0 || request->end == 0) return true;
  return reads_small(load->array->store) && tsr__add_sat(request->partly, needed_cells(request)) <= cells / PARTLY_PART;
}

/* Returns how many cells of a tile are decoded alone at most. A part that predicates have chosen may be larger: the
 * tile is read in any case, and the only price is that the cache gets an incomplete tile. */
static uint64_t largest_part(const tsr_tile_request *request, uint64_t cells) {
  return cells / (request->needed ? PARTLY_PART : PARTIAL_DECODE_PART);
}

/* Returns true if the cells of the tile, which takes `cost` bytes, go to the request's sink. */
static bool goes_to_sink(const tsr_load *load, const tile_fetch *fetch, uint64_t cost) {
  const tsr_tile_sink *sink = fetch->request->sink;
  if (!sink || !tsr__tile_divides(&fetch->format)) return false;
  return sink->once || load->array->uncached || !tsr__cache_takes(load->array->cache, cost);
}

/* Returns true if it pays to read only those chunks of the tile that have the requested cells. */
static bool pays_to_cut(const tsr_load *load, const tile_fetch *fetch) {
  return fetch->source.end > 0 &&
         fetch->source.end - fetch->source.first <= fetch->source.cells / PARTIAL_DECODE_PART &&
         fetch->source.sizes[TSR_PART_FIXED] >= CUT_LEAST && reads_small(load->array->store);
}

/* Sets the format of the tile of a fetch, its number of cells, and the stored sizes of its parts. */
static int find_stored(tsr_load *load, tile_fetch *fetch, tsr_error *error) {
  tsr_fragment *fragment = fetch->request->fragment;
  const uint32_t slot = fetch->request->slot;
  const uint64_t number = fetch->request->number;
  if (slot >= fragment->metadata.slot_count || number >= fragment->metadata.tile_count)
    return tsr__fail(error, TSR_CORRUPT, "the fragment has %u slots and %llu tiles", fragment->metadata.slot_count,
                     (unsigned long long)fragment->metadata.tile_count);
  TSR_TRY(tsr__fragment_load_slot(load->array, fragment, slot, error));
  TSR_TRY(tsr__tile_format(&fragment->metadata, slot, tsr__array_key(load->array), &fetch->format, error));
  const tsr_slot *s = &fragment->metadata.slots[slot];
  fetch->source.cells = tsr__fragment_tile_cells(&fragment->metadata, number);
  if (fetch->format.values_per_cell == TSR_VARIABLE) {
    if (!s->var_sizes) return tsr__fail(error, TSR_CORRUPT, "the fragment has no sizes of its variable-length tiles");
    fetch->source.variable_size = s->var_sizes[number];
  }
  for (unsigned p = 0; p < TSR_PART_COUNT; p++) {
    if (!tsr__fragment_slot_has_part(&fragment->metadata, slot, p)) continue;
    if (!s->offsets[p] || s->offsets[p][number + 1] < s->offsets[p][number])
      return tsr__fail(error, TSR_CORRUPT, "the fragment has no offsets of its tiles");
    fetch->source.sizes[p] = s->offsets[p][number + 1] - s->offsets[p][number];
  }
  return TSR_OK;
}

/* Charges the memory that decoding the tile of a fetch takes. */
static int charge_fetch(tsr_load *load, tile_fetch *fetch, uint64_t cost, tsr_error *error) {
  TSR_TRY(tsr__memory_charge(load->memory, cost, error));
  fetch->cost = cost;
  return TSR_OK;
}

/* Prepares a fetch whose cells go to a sink, chunk by chunk: it needs memory for one chunk only. `bytes` is the decoded
 * size of the tile. */
static int prepare_for_sink(tsr_load *load, tile_fetch *fetch, uint64_t bytes, tsr_error *error) {
  const uint64_t validity = fetch->format.nullable ? fetch->source.cells : 0;
  fetch->sink_bytes = bytes;
  fetch->source.first = fetch->request->first;
  fetch->source.end = fetch->request->end;
  return charge_fetch(load, fetch, TSR_MIN(bytes, tsr__add_sat(fetch->format.values->max_chunk_size, validity)), error);
}

/* Prepares a fetch: decides whether its tile is decoded in full, in part or for a sink, and charges the memory that
 * this takes. */
static int prepare_fetch(tsr_load *load, tile_fetch *fetch, tsr_error *error) {
  TSR_TRY(find_stored(load, fetch, error));
  const tsr_slot *slot = &fetch->request->fragment->metadata.slots[fetch->request->slot];
  uint64_t cost = cost_of(&fetch->format, slot, fetch->request->number, fetch->source.cells);
  const uint64_t reach = fetch->request->end - fetch->request->first;
  fetch->source.cut_end = 0;
  if (goes_to_sink(load, fetch, cost)) return prepare_for_sink(load, fetch, cost, error);
  if (!may_decode_part(load, fetch->request, fetch->source.cells)) fetch->request->end = 0;
  if (fetch->request->end > 0 && needed_cells(fetch->request) <= largest_part(fetch->request, fetch->source.cells) &&
      !fetch->format.values->uncut && tsr__tile_divides(&fetch->format)) {
    const uint64_t chunks = tsr__mul_sat(2, fetch->format.values->max_chunk_size),
                   size = tsr__mul_sat(tsr_datatype_size(fetch->format.datatype), fetch->format.values_per_cell);
    fetch->source.first = fetch->request->first;
    fetch->source.end = fetch->request->end;
    fetch->source.needed = fetch->request->needed;
    cost = TSR_MIN(cost, tsr__add_sat(tsr__add_sat(chunks, tsr__mul_sat(reach, size)),
                                      fetch->format.nullable ? fetch->source.cells : 0));
  }
  return charge_fetch(load, fetch, cost, error);
}

static int compare_fetches(const void *a, const void *b) {
  const tsr_tile_request *x = ((const tile_fetch *)a)->request, *y = ((const tile_fetch *)b)->request;
  if (x->fragment != y->fragment) return x->fragment->id < y->fragment->id ? -1 : 1;
  if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

static uint64_t stored_bytes(const tile_fetch *fetch) {
  uint64_t bytes = 0;
  for (unsigned p = 0; p < TSR_PART_COUNT; p++) bytes = tsr__add_sat(bytes, fetch->source.sizes[p]);
  return bytes;
}

typedef struct stored_tile { /* where the fixed part of a tile is */
  tsr_file *file;
  uint64_t offset;
} stored_tile;

static int read_stored(void *argument, uint64_t at, void *bytes, uint64_t size, tsr_error *error) {
  const stored_tile *tile = argument;
  return tsr__store_read_at(tile->file, tile->offset + at, bytes, size, error);
}

/* Lists the chunks of the tile: as an earlier load of it found them, or from their headers. */
static int list_chunks(const tile_fetch *fetch, stored_tile *tile, uint64_t size, tsr_chunk_size *chunks,
                       uint32_t *count, tsr_error *error) {
  if (!fetch->known_part) return tsr__pipeline_list_chunks(read_stored, tile, size, chunks, count, error);
  *count = fetch->known_part->chunk_count;
  memcpy(chunks, fetch->known_part->chunks, *count * sizeof *chunks);
  return TSR_OK;
}

/* Reads the chunks of the fixed part that have the requested cells, and the other parts of the tile whole. If that
 * saves too little, or something is wrong with the tile, clears group->cut and reads nothing. */
static int read_cut(tsr_load *load, fetch_group *group, tsr_error *error) {
  tile_fetch *fetch = &load->fetches[group->first];
  tsr_tile_source *source = &fetch->source;
  stored_tile tile = {group->files[TSR_PART_FIXED], group->offsets[TSR_PART_FIXED]};
  const uint64_t cell = tsr_datatype_size(fetch->format.datatype) * fetch->format.values_per_cell;
  tsr_chunk_size chunks[TSR_CHUNKS_LISTED];
  uint32_t count;
  TSR_TRY(list_chunks(fetch, &tile, group->sizes[TSR_PART_FIXED], chunks, &count, error));
  const tsr_chunk_range range = tsr__pipeline_find_chunks(chunks, count, source->first * cell, source->end * cell);
  group->cut = range.count > 0 && range.total == tsr__mul_sat(source->cells, cell) && range.first % cell == 0 &&
               range.last % cell == 0 && range.size <= group->sizes[TSR_PART_FIXED] / 2;
  if (!group->cut) return TSR_OK;
  const uint64_t list = count * sizeof *chunks;
  uint64_t bytes = list + sizeof(uint64_t) + range.size;
  for (unsigned p = 0; p < TSR_PART_COUNT; p++)
    if (p != TSR_PART_FIXED) bytes = tsr__add_sat(bytes, group->sizes[p]);
  TSR_TRY(TSR_ALLOC_RAW(load->memory, bytes, &group->bytes, error));
  source->chunks = memcpy(group->bytes, chunks, list);
  source->chunk_count = count;
  uint8_t *at = group->bytes + list;
  tsr__store64(at, range.count);
  TSR_TRY(read_stored(&tile, range.at, at + sizeof(uint64_t), range.size, error));
  source->bytes[TSR_PART_FIXED] = at;
  source->sizes[TSR_PART_FIXED] = sizeof(uint64_t) + range.size;
  source->cut_first = range.first / cell;
  source->cut_end = range.last / cell;
  at += source->sizes[TSR_PART_FIXED];
  for (unsigned p = 0; p < TSR_PART_COUNT; p++) {
    if (p == TSR_PART_FIXED) continue;
    if (group->sizes[p] > 0)
      TSR_TRY(tsr__store_read_at(group->files[p], group->offsets[p], at, group->sizes[p], error));
    source->bytes[p] = at;
    at += group->sizes[p];
  }
  return TSR_OK;
}

static int read_whole(tsr_load *load, fetch_group *group, tsr_error *error) {
  uint64_t bytes = 0;
  for (unsigned p = 0; p < TSR_PART_COUNT; p++) bytes = tsr__add_sat(bytes, group->sizes[p]);
  TSR_TRY(TSR_ALLOC_RAW(load->memory, bytes, &group->bytes, error));
  uint8_t *at = group->bytes;
  for (unsigned p = 0; p < TSR_PART_COUNT; p++) {
    if (group->sizes[p] > 0)
      TSR_TRY(tsr__store_read_at(group->files[p], group->offsets[p], at, group->sizes[p], error));
    for (uint64_t k = group->first; k < group->end; k++) {
      load->fetches[k].source.bytes[p] = at;
      at += load->fetches[k].source.sizes[p];
    }
  }
  return TSR_OK;
}

static int read_group(tsr_load *load, fetch_group *group, tsr_error *error) {
  int rc = group->cut ? read_cut(load, group, error) : TSR_OK;
  if (rc >= 0 && !group->cut) rc = read_whole(load, group, error);
  group->read = rc >= 0;
  if (rc >= 0) return TSR_OK;
  const tsr_tile_request *request = load->fetches[group->first].request;
  return wrap_tile(request->fragment, request->slot, request->number, error);
}

/* Frees the stored bytes of a group, which can then be read again. */
static void drop_bytes(tsr_load *load, fetch_group *group) {
  tsr__free(group->bytes);
  group->bytes = NULL;
  group->read = false;
  if (!group->cut) return;
  tsr_tile_source *source = &load->fetches[group->first].source;
  source->sizes[TSR_PART_FIXED] = group->sizes[TSR_PART_FIXED];
  source->cut_end = 0;
}

static void drop_files(const tsr_load *load, fetch_group *group) {
  const tsr_tile_request *request = load->fetches[group->first].request;
  for (unsigned p = 0; p < TSR_PART_COUNT; p++) {
    if (group->files[p]) tsr__fragment_file_drop(request->fragment, request->slot, p);
    group->files[p] = NULL;
  }
}

/* Reads the groups before the last one now, so that their files can be closed. */
static int read_early(tsr_load *load, tsr_error *error) {
  for (uint64_t i = 0; i + 1 < load->group_count; i++) {
    if (!load->groups[i].read) TSR_TRY(read_group(load, &load->groups[i], error));
    drop_files(load, &load->groups[i]);
  }
  tsr__array_files_done(load->array);
  return TSR_OK;
}

/* Opens a file for the last group. If too many files are open, first reads the earlier groups and closes theirs. */
static int open_file_for(tsr_load *load, const tsr_tile_request *request, unsigned part, tsr_file **file,
                         tsr_error *error) {
  tsr_array *array = load->array;
  const bool few = array->store->uses_descriptors;
  if (few && array->open_files.count >= array->environment->files_used) TSR_TRY(read_early(load, error));
  int rc = tsr__fragment_file(array, request->fragment, request->slot, part, file, error);
  if (rc != TSR_IO || !few || load->group_count == 1) return rc;
  TSR_TRY(read_early(load, error));
  return tsr__fragment_file(array, request->fragment, request->slot, part, file, error);
}

/* Divides the sorted fetches into groups of adjacent tiles, opens their files and holds them. Groups are short enough
 * that every thread gets some. */
static int make_groups(tsr_load *load, unsigned threads, tsr_error *error) {
  const uint64_t fetches_max =
      threads > 1 ? TSR_MAX(1, load->fetch_count / ((uint64_t)GROUPS_PER_THREAD * threads)) : load->fetch_count;
  const uint64_t bytes_max = reads_small(load->array->store) ? GROUP_BYTES_SMALL : GROUP_BYTES;
  for (uint64_t i = 0; i < load->fetch_count;) {
    fetch_group *group = &load->groups[load->group_count++];
    const tsr_tile_request *request = load->fetches[i].request;
    const tsr_slot *slot = &request->fragment->metadata.slots[request->slot];
    uint64_t bytes = 0;
    group->first = i;
    do {
      bytes = tsr__add_sat(bytes, stored_bytes(&load->fetches[i]));
      i++;
    } while (i < load->fetch_count && i - group->first < fetches_max && !pays_to_cut(load, &load->fetches[i]) &&
             !pays_to_cut(load, &load->fetches[i - 1]) && load->fetches[i].request->fragment == request->fragment &&
             load->fetches[i].request->slot == request->slot &&
             load->fetches[i].request->number == load->fetches[i - 1].request->number + 1 &&
             tsr__add_sat(bytes, stored_bytes(&load->fetches[i])) <= bytes_max);
    group->end = i;
    for (unsigned p = 0; p < TSR_PART_COUNT; p++) {
      for (uint64_t k = group->first; k < group->end; k++) group->sizes[p] += load->fetches[k].source.sizes[p];
      if (group->sizes[p] == 0) continue;
      group->offsets[p] = slot->offsets[p][request->number];
      if (open_file_for(load, request, p, &group->files[p], error) < 0)
        return wrap_tile(request->fragment, request->slot, request->number, error);
      tsr__fragment_file_hold(request->fragment, request->slot, p);
    }
    group->cut = pays_to_cut(load, &load->fetches[group->first]) && group->files[TSR_PART_FIXED] &&
                 reads_small(group->files[TSR_PART_FIXED]->store);
  }
  return TSR_OK;
}

/* Hints to the stores which ranges the groups will read. Fragments of one load may be in several stores. */
static void prefetch_groups(tsr_load *load) {
  tsr_read_hint *hints;
  tsr_store *store = NULL;
  uint64_t count = 0;
  if (!tsr__store_prefetches(load->array->store) ||
      TSR_ALLOC_RAW(load->memory, load->group_count * TSR_PART_COUNT, &hints, NULL) < 0)
    return;
  for (uint64_t i = 0; i < load->group_count; i++)
    for (unsigned p = 0; p < TSR_PART_COUNT; p++) {
      const fetch_group *group = &load->groups[i];
      if (!group->files[p]) continue;
      if (store && group->files[p]->store != store) {
        tsr__store_prefetch(store, hints, count);
        count = 0;
      }
      store = group->files[p]->store;
      hints[count++] =
          (tsr_read_hint){.path = group->files[p]->path, .offset = group->offsets[p], .size = group->sizes[p]};
    }
  if (store) tsr__store_prefetch(store, hints, count);
  tsr__free(hints);
}

/* Decodes the tile of a fetch, whose bytes have been read: into request->tile or for the request's sink. */
static int decode_fetch(tsr_load *load, tile_fetch *fetch, tsr_error *error) {
  tsr_tile_request *request = fetch->request;
  const uint64_t cells = fetch->source.end > 0 ? fetch->source.end - fetch->source.first : fetch->source.cells;
  TSR_TRY(tsr__cancelled_after(load->memory, TSR_MAX(fetch->cost, fetch->sink_bytes), cells, error));
  if (fetch->sink_bytes > 0) {
    if (tsr__tile_decode_each(&fetch->format, &fetch->source, request->sink->take, request->sink->argument,
                              &load->array->memory, error) < 0)
      return wrap_tile(request->fragment, request->slot, request->number, error);
    fetch->sink_done = true;
    return TSR_OK;
  }
  if (tsr__tile_decode(&fetch->format, &fetch->source, &load->array->memory, &request->tile, error) < 0)
    return wrap_tile(request->fragment, request->slot, request->number, error);
  request->tile->partly = request->partly;
  return TSR_OK;
}

/* Reads a group, unless that has been done, and decodes its tiles: a task of the pool. */
static int fetch_group_at(void *argument, uint64_t index, tsr_error *error) {
  tsr_load *load = argument;
  fetch_group *group = &load->groups[index];
  if (!group->read) TSR_TRY(read_group(load, group, error));
  for (uint64_t i = group->first; i < group->end; i++) TSR_TRY(decode_fetch(load, &load->fetches[i], error));
  drop_bytes(load, group);
  return TSR_OK;
}

/* ---- Loading ---------------------------------------------------------------------------------------------------- */

void tsr__tile_return(tsr_tile *tile, tsr_memory *memory) {
  if (!tile) return;
  tsr__memory_release(memory, tile->bytes);
  tsr__tile_drop(tile);
}

/* Returns a reference to a tile that is in memory, in the cache or in an uncommitted fragment; else NULL. */
static tsr_tile *find_tile(tsr_array *array, const tsr_tile_request *request) {
  if (!request->fragment->run.tiles)
    return tsr__cache_get(array->cache, request->fragment->id, request->slot, request->number);
  tsr_tile *tile =
      request->fragment->run.tiles[request->slot * request->fragment->metadata.tile_count + request->number];
  tsr__tile_hold(tile);
  return tile;
}

/* Returns true if the tile has all needed blocks of the request. */
static bool has_needed(const tsr_tile_request *request, const tsr_tile *tile) {
  if (!tile->needed) return true;
  for (uint64_t b = request->first / TSR_NEEDED_CELLS; b <= (request->end - 1) / TSR_NEEDED_CELLS; b++)
    if ((!request->needed || request->needed[b]) && !tile->needed[b]) return false;
  return true;
}

bool tsr__tile_request_fits(tsr_tile_request *request, const tsr_tile *tile) {
  if (tile->end == 0) return true;
  if (request->end > 0 && tile->first <= request->first && request->end <= tile->end && has_needed(request, tile))
    return true;
  request->partly = tsr__add_sat(tile->partly, tile->decoded);
  return false;
}

bool tsr__tile_is_in_memory(tsr_array *array, tsr_tile_request request) {
  tsr_tile *tile = find_tile(array, &request);
  const bool fits = tile && tsr__tile_request_fits(&request, tile);
  tsr__tile_drop(tile);
  return fits;
}

/* Returns a reference to a part of the fetch's tile that is in memory, if it helps: a read of another part needs the
 * list of the tile's chunks, and decoding the whole tile can copy the part if it is complete. Else NULL. */
static tsr_tile *find_known_part(const tsr_load *load, const tile_fetch *fetch) {
  const bool whole = fetch->source.end == 0 && fetch->sink_bytes == 0 && tsr__tile_divides(&fetch->format);
  if (fetch->request->partly == 0 || (!whole && !pays_to_cut(load, fetch))) return NULL;
  tsr_tile *tile = find_tile(load->array, fetch->request);
  if (tile && (whole ? tile->end > 0 && !tile->needed : tile->chunk_count > 0)) return tile;
  tsr__tile_drop(tile);
  return NULL;
}

/* Serves requests from memory, and makes sorted fetches for the rest. */
static int find_tiles(tsr_load *load, tsr_error *error) {
  uint64_t missing = 0;
  for (uint64_t i = 0; i < load->count; i++) {
    tsr_tile_request *request = &load->requests[i];
    tsr_tile *tile = find_tile(load->array, request);
    if (tile && !tsr__tile_request_fits(request, tile)) {
      tsr__tile_drop(tile);
      tile = NULL;
    }
    if (!tile) {
      missing++;
      continue;
    }
    if (tsr__memory_charge(load->memory, tile->bytes, error) < 0) {
      tsr__tile_drop(tile);
      return wrap_tile(request->fragment, request->slot, request->number, error);
    }
    request->tile = tile;
  }
  load->cached_count = load->count - missing;
  if (missing == 0) return TSR_OK;

  TSR_TRY(TSR_ALLOC_ARRAY(load->memory, missing, &load->fetches, error));
  TSR_TRY(TSR_ALLOC_ARRAY(load->memory, missing, &load->groups, error));
  for (uint64_t i = 0; i < load->count; i++) {
    tsr_tile_request *request = &load->requests[i];
    if (request->tile) continue;
    tile_fetch *fetch = &load->fetches[load->fetch_count];
    fetch->request = request;
    if (prepare_fetch(load, fetch, error) < 0)
      return wrap_tile(request->fragment, request->slot, request->number, error);
    fetch->known_part = find_known_part(load, fetch);
    if (fetch->source.end == 0) fetch->source.known = fetch->known_part;
    load->fetch_count++;
  }
  if (load->fetch_count > 1) qsort(load->fetches, load->fetch_count, sizeof(tile_fetch), compare_fetches);
  return TSR_OK;
}

/* Corrects the charges of decoded tiles from their estimated to their actual size. */
static int correct_charges(tsr_load *load, tsr_error *error) {
  for (uint64_t i = 0; i < load->fetch_count; i++) {
    tile_fetch *fetch = &load->fetches[i];
    if (fetch->sink_done) {
      tsr__memory_release(load->memory, fetch->cost);
      fetch->cost = 0;
      fetch->request->decoded = true;
    }
    if (!fetch->request->tile) continue; /* the load was cancelled before this fetch began */
    const uint64_t cost = fetch->request->tile->bytes;
    if (cost > fetch->cost && tsr__memory_charge(load->memory, cost - fetch->cost, error) < 0)
      return wrap_tile(fetch->request->fragment, fetch->request->slot, fetch->request->number, error);
    if (cost < fetch->cost) tsr__memory_release(load->memory, fetch->cost - cost);
    fetch->cost = cost;
    fetch->request->decoded = true;
  }
  return TSR_OK;
}

/* Returns the bytes of a tile without the values that were not decoded for it, and without the list of its chunks. */
static uint64_t decoded_bytes(const tsr_tile *tile) {
  const uint64_t bytes = tile->bytes - tile->chunk_count * sizeof *tile->chunks;
  const uint64_t cells = tile->end > 0 ? tile->end - tile->first : tile->cells;
  return bytes - (cells - tile->decoded) * tile->cell_size;
}

/* Puts decoded tiles into the cache, and counts them. */
static void cache_tiles(tsr_load *load) {
  uint64_t tiles = 0, bytes = 0;
  for (uint64_t i = 0; i < load->fetch_count; i++) {
    const tsr_tile_request *request = load->fetches[i].request;
    if (load->fetches[i].sink_done) {
      tiles++;
      bytes += load->fetches[i].sink_bytes;
    }
    if (!request->tile) continue;
    tiles++;
    bytes += decoded_bytes(request->tile);
    if (!load->array->uncached)
      tsr__cache_put(load->array->cache, request->fragment->id, request->slot, request->number, request->tile);
  }
  tsr__count(load->array->environment, TSR_COUNT_tiles_read, tiles);
  tsr__count(load->array->environment, TSR_COUNT_bytes_decoded, bytes);
  if (load->ahead) tsr__count(load->array->environment, TSR_COUNT_tiles_ahead, tiles);
}

/* Ends a load: releases everything but the tiles, and after a failure (rc < 0) the tiles too. */
static int load_end(tsr_load *load, int rc, tsr_error *error) {
  for (uint64_t i = 0; i < load->group_count; i++) {
    drop_files(load, &load->groups[i]);
    tsr__free(load->groups[i].bytes);
  }
  if (rc < 0) {
    for (uint64_t i = 0; i < load->fetch_count; i++) { /* charged by the fetch, not by the tile */
      tsr__memory_release(load->memory, load->fetches[i].cost);
      tsr__tile_drop(load->fetches[i].request->tile);
      load->fetches[i].request->tile = NULL;
    }
    for (uint64_t i = 0; i < load->count; i++) {
      tsr__tile_return(load->requests[i].tile, load->memory);
      load->requests[i].tile = NULL;
      load->requests[i].decoded = false;
    }
  }
  for (uint64_t i = 0; i < load->fetch_count; i++) tsr__tile_drop(load->fetches[i].known_part);
  if (load->fetches) tsr__array_files_done(load->array);
  tsr__free(load->fetches);
  tsr__free(load->groups);
  return rc < 0 ? tsr__damage(rc, error) : rc;
}

int tsr__load_start(tsr_load *load, tsr_array *array, unsigned workers, bool ahead, tsr_tile_request *requests,
                    uint64_t count, tsr_memory *memory, tsr_error *error) {
  load->array = array; /* field by field, since tsr_job is large */
  load->memory = memory;
  load->requests = requests;
  load->count = count;
  load->ahead = ahead;
  load->fetches = NULL;
  load->groups = NULL;
  load->fetch_count = load->group_count = load->cached_count = 0;
  for (uint64_t i = 0; i < count; i++) {
    requests[i].tile = NULL;
    requests[i].decoded = false;
  }
  int rc = find_tiles(load, error);
  if (array->environment->single_threaded) workers = 0;
  if (rc >= 0 && load->fetch_count > 0) {
    rc = make_groups(load, workers + !ahead, error);
    if (rc >= 0) prefetch_groups(load);
    if (rc >= 0) rc = tsr__cancelled(&array->environment->memory, error);
    for (uint64_t i = 0; i < load->group_count && rc >= 0 && !array->store->workers_may_read; i++)
      if (!load->groups[i].read) rc = read_group(load, &load->groups[i], error);
  }
  if (rc < 0) return load_end(load, rc, error);
  const uint64_t mine = !ahead && load->group_count > 0; /* the caller takes one group right away */
  workers = (unsigned)TSR_MIN(workers, load->group_count - mine);
  tsr__job_start(&load->job, workers, load->group_count, fetch_group_at, load);
  return TSR_OK;
}

/* Fails for a file that a read did not find. A store that opens files without a request notices only now that a
 * fragment has been vacuumed: names that fragment in the error. */
static int fail_missing(tsr_load *load, tsr_error *error) {
  const tsr_fragment *missing = load->fetches[0].request->fragment;
  const tsr_error found = *error;
  TSR_TRY(tsr__log_list(&load->array->log, true, true, error));
  for (uint64_t i = 0; i < load->fetch_count; i++) {
    const tsr_fragment *fragment = load->fetches[i].request->fragment;
    if (!tsr__map_get(&load->array->log.listing->names, fragment->name)) missing = fragment;
  }
  *error = found;
  return tsr__fragment_fail_missing(load->array, missing, error);
}

/* Reads and decodes all tiles once more, if one could not be decoded and its bytes may have been corrupted in
 * transit. */
static int load_again(tsr_load *load, int rc, tsr_error *error) {
  if (!tsr__store_doubt(load->array->store)) return rc;
  for (uint64_t i = 0; i < load->fetch_count; i++) {
    tsr__tile_drop(load->fetches[i].request->tile);
    load->fetches[i].request->tile = NULL;
    load->fetches[i].sink_done = false;
  }
  rc = TSR_OK;
  for (uint64_t i = 0; i < load->group_count && rc >= 0; i++) {
    drop_bytes(load, &load->groups[i]);
    rc = fetch_group_at(load, i, error);
  }
  return rc;
}

int tsr__load_finish(tsr_load *load, tsr_error *error) {
  if (load->fetch_count == 0) { /* as in most lookups */
    tsr__count(load->array->environment, TSR_COUNT_tiles_cached, load->cached_count);
    return TSR_OK;
  }
  int rc = tsr__job_finish(&load->job, load->memory, error);
  if (tsr__may_be_corrupt_transfer(rc)) rc = load_again(load, rc, error);
  if (rc == TSR_NOT_FOUND && error) rc = fail_missing(load, error);
  if (rc >= 0) rc = correct_charges(load, error);
  if (rc >= 0) tsr__count(load->array->environment, TSR_COUNT_tiles_cached, load->cached_count);
  if (rc >= 0) cache_tiles(load);
  return load_end(load, rc, error);
}

void tsr__load_cancel(tsr_load *load) {
  tsr__job_cancel(&load->job);
  cache_tiles(load);
  load_end(load, TSR_ABORT, NULL);
}

int tsr__tiles_load(tsr_array *array, unsigned threads, tsr_tile_request *requests, uint64_t count, tsr_memory *memory,
                    tsr_error *error) {
  tsr_load load;
  TSR_TRY(tsr__load_start(&load, array, threads > 1 ? threads - 1 : 0, false, requests, count, memory, error));
  return tsr__load_finish(&load, error);
}

uint64_t tsr__tiles_prefetch(tsr_array *array, const tsr_tile_request *requests, uint64_t count) {
  uint64_t bytes = 0;
  tsr_error unseen; /* whoever loads the tile gets the same error */
  for (uint64_t i = 0; i < count; i++) {
    const tsr_tile_request *request = &requests[i];
    tsr_read_hint hints[TSR_PART_COUNT];
    tsr_store *store = NULL;
    uint64_t n = 0;
    tsr_tile *tile = find_tile(array, request);
    tsr__tile_drop(tile);
    if (tile || tsr__fragment_load_slot(array, request->fragment, request->slot, &unseen) < 0) continue;
    for (unsigned p = 0; p < TSR_PART_COUNT; p++) {
      const uint64_t *offsets = request->fragment->metadata.slots[request->slot].offsets[p];
      tsr_file *file;
      if (!tsr__fragment_slot_has_part(&request->fragment->metadata, request->slot, p) || !offsets ||
          offsets[request->number + 1] <= offsets[request->number] ||
          tsr__fragment_file(array, request->fragment, request->slot, p, &file, &unseen) < 0)
        continue;
      store = file->store;
      hints[n] = (tsr_read_hint){.path = file->path, .offset = offsets[request->number]};
      hints[n].size = offsets[request->number + 1] - offsets[request->number];
      bytes = tsr__add_sat(bytes, TSR_MAX(hints[n].size, PREFETCH_LEAST));
      n++;
    }
    if (n > 0) tsr__store_prefetch(store, hints, n);
  }
  return bytes;
}
