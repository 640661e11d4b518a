/* tile_loader.c: decoded tiles of fragments, from the cache or from the store.
 *
 * What is missing in the cache is read (neighbours in a file by one read, on workers where the store allows it) and decoded
 * on the pool, a run of neighbours by one task. A load is started and finished: in between the workers are at it, and the
 * caller may do something else; what is left at the finish it does itself. Decoded tiles belong to the array, since the
 * cache may keep them; their bytes are charged to the query that holds them before any memory is taken, so one that cannot
 * fit is refused by its sizes in the metadata.
 *
 * Until the finish workers touch the fetches, the runs, their own wants' `tile`, and the files of the runs, which are held
 * open; all else (cache, budgets, counters, the question whether to stop) is the caller's.
 */
#include "read/tile_loader.h"

#include <stdlib.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "format/fragment_slot.h"
#include "array/array.h"
#include "array/cache.h"
#include "array/environment.h"

#define RUN_BYTES                                                                                                      \
  (UINT64_C(4) << 20) /* stored bytes that are read at once, at most, where there is more than one tile */
#define RUNS_FOR_A_THREAD 2 /* at least, where there are so many tiles */

#define LOAD_PART 4 /* this part of a tile, or less, is decoded alone */

typedef struct tsr_fetch { /* a tile that is not in the cache */
  tsr_tile_request *request;
  uint64_t cost; /* charged */
  tsr_tile_format format;
  tsr_tile_source source;
} fetch;

typedef struct tsr_fetch_group { /* fetches whose stored bytes stand together in each of the slot's files */
  uint64_t first, end;
  bool read; /* its bytes are there */
  tsr_file *files[TSR_PART_COUNT]; /* NULL: the slot has no such part, or it is empty */
  uint64_t offsets[TSR_PART_COUNT], sizes[TSR_PART_COUNT];
  uint8_t *bytes; /* the parts one after the other */
} load_run;

/* ---- What a tile is, for sizes and messages --------------------------------------------------------------------- */

static int wrap_tile(const tsr_fragment *fragment, uint32_t slot, uint64_t number, tsr_error *error) {
  return tsr__wrap(error, "fragment %s, field %s, tile %llu", fragment->name,
                   tsr__fragment_slot_name(&fragment->metadata, slot), (unsigned long long)number);
}

/* The slot's offsets are loaded. */
static uint64_t load_cost_of(const tsr_tile_format *format, const tsr_slot *slot, uint64_t number, uint64_t cells) {
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
  if (fragment->tiles) {
    *bytes = fragment->tiles[slot * fragment->metadata.tile_count + number]->bytes;
    return TSR_OK;
  }
  TSR_TRY(tsr__fragment_load_slot(array, fragment, slot, error));
  TSR_TRY(tsr__tile_format(&fragment->metadata, slot, tsr__array_key(array), &format, error));
  *bytes = load_cost_of(&format, &fragment->metadata.slots[slot], number,
                        tsr__fragment_tile_cells(&fragment->metadata, number));
  return TSR_OK;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

/* What the fetch needs to know of its tile, and its bytes in memory, charged. */
static int prepare_fetch(tsr_load *l, fetch *j, tsr_error *error) {
  tsr_fragment *fragment = j->request->fragment;
  const uint32_t slot = j->request->slot;
  const uint64_t number = j->request->number;
  if (slot >= fragment->metadata.slot_count || number >= fragment->metadata.tile_count)
    return tsr__fail(error, TSR_CORRUPT, "the fragment has %u slots and %llu tiles", fragment->metadata.slot_count,
                     (unsigned long long)fragment->metadata.tile_count);
  TSR_TRY(tsr__fragment_load_slot(l->array, fragment, slot, error));
  TSR_TRY(tsr__tile_format(&fragment->metadata, slot, tsr__array_key(l->array), &j->format, error));
  const tsr_slot *s = &fragment->metadata.slots[slot];
  j->source.cells = tsr__fragment_tile_cells(&fragment->metadata, number);
  if (j->format.values_per_cell == TSR_VARIABLE) {
    if (!s->var_sizes) return tsr__fail(error, TSR_CORRUPT, "the fragment has no sizes of its variable-length tiles");
    j->source.variable_size = s->var_sizes[number];
  }
  for (unsigned p = 0; p < TSR_PART_COUNT; p++) {
    if (!tsr__fragment_slot_has_part(&fragment->metadata, slot, p)) continue;
    if (!s->offsets[p] || s->offsets[p][number + 1] < s->offsets[p][number])
      return tsr__fail(error, TSR_CORRUPT, "the fragment has no offsets of its tiles");
    j->source.sizes[p] = s->offsets[p][number + 1] - s->offsets[p][number];
  }
  uint64_t cost = load_cost_of(&j->format, s, number, j->source.cells);
  const uint64_t wanted = j->request->end - j->request->first;
  if (j->request->end > 0 && wanted <= j->source.cells / LOAD_PART && !j->format.values->uncut &&
      tsr__tile_divides(&j->format)) {
    const uint64_t chunks = tsr__mul_sat(2, j->format.values->max_chunk_size),
                   size = tsr__mul_sat(tsr_datatype_size(j->format.datatype), j->format.values_per_cell);
    j->source.first = j->request->first;
    j->source.end = j->request->end;
    cost = TSR_MIN(
        cost, tsr__add_sat(tsr__add_sat(chunks, tsr__mul_sat(wanted, size)), j->format.nullable ? j->source.cells : 0));
  }
  TSR_TRY(tsr__memory_charge(l->memory, cost, error));
  j->cost = cost;
  return TSR_OK;
}

static int compare_fetches(const void *a, const void *b) {
  const tsr_tile_request *x = ((const fetch *)a)->request, *y = ((const fetch *)b)->request;
  if (x->fragment != y->fragment) return x->fragment->id < y->fragment->id ? -1 : 1;
  if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

static uint64_t stored_bytes(const fetch *j) {
  uint64_t bytes = 0;
  for (unsigned p = 0; p < TSR_PART_COUNT; p++) bytes = tsr__add_sat(bytes, j->source.sizes[p]);
  return bytes;
}

/* Runs of fetches that stand together, their files open, and held open: none so long that threads have nothing to do. */
static int load_make_runs(tsr_load *l, unsigned threads, tsr_error *error) {
  const uint64_t most =
      threads > 1 ? TSR_MAX(1, l->fetch_count / ((uint64_t)RUNS_FOR_A_THREAD * threads)) : l->fetch_count;
  for (uint64_t i = 0; i < l->fetch_count;) {
    load_run *r = &l->runs[l->run_count++];
    const tsr_tile_request *request = l->fetches[i].request;
    const tsr_slot *slot = &request->fragment->metadata.slots[request->slot];
    uint64_t bytes = 0;
    r->first = i;
    do {
      bytes = tsr__add_sat(bytes, stored_bytes(&l->fetches[i]));
      i++;
    } while (i < l->fetch_count && i - r->first < most && l->fetches[i].request->fragment == request->fragment &&
             l->fetches[i].request->slot == request->slot &&
             l->fetches[i].request->number == l->fetches[i - 1].request->number + 1 &&
             tsr__add_sat(bytes, stored_bytes(&l->fetches[i])) <= RUN_BYTES);
    r->end = i;
    for (unsigned p = 0; p < TSR_PART_COUNT; p++) {
      for (uint64_t k = r->first; k < r->end; k++) r->sizes[p] += l->fetches[k].source.sizes[p];
      if (r->sizes[p] == 0) continue;
      r->offsets[p] = slot->offsets[p][request->number];
      if (tsr__fragment_file(l->array, request->fragment, request->slot, p, &r->files[p], error) < 0)
        return wrap_tile(request->fragment, request->slot, request->number, error);
      tsr__fragment_file_hold(request->fragment, request->slot, p);
    }
    if (TSR_ALLOC_RAW(l->memory, bytes, &r->bytes, error) < 0)
      return wrap_tile(request->fragment, request->slot, request->number, error);
  }
  return TSR_OK;
}

static int read_run(tsr_load *l, load_run *r, tsr_error *error) {
  uint8_t *at = r->bytes;
  for (unsigned p = 0; p < TSR_PART_COUNT; p++) {
    if (r->sizes[p] > 0 && tsr__store_read_at(r->files[p], r->offsets[p], at, r->sizes[p], error) < 0) {
      const tsr_tile_request *request = l->fetches[r->first].request;
      return wrap_tile(request->fragment, request->slot, request->number, error);
    }
    for (uint64_t k = r->first; k < r->end; k++) {
      l->fetches[k].source.bytes[p] = at;
      at += l->fetches[k].source.sizes[p];
    }
  }
  r->read = true;
  return TSR_OK;
}

static int fetch_run(void *argument, uint64_t index, tsr_error *error) {
  tsr_load *l = argument;
  load_run *r = &l->runs[index];
  if (!r->read) TSR_TRY(read_run(l, r, error));
  for (uint64_t i = r->first; i < r->end; i++) {
    fetch *j = &l->fetches[i];
    const uint64_t cells = j->source.end > 0 ? j->source.end - j->source.first : j->source.cells;
    TSR_TRY(tsr__cancelled_after(l->memory, j->cost, cells, error));
    if (tsr__tile_decode(&j->format, &j->source, &l->array->memory, &j->request->tile, error) < 0)
      return wrap_tile(j->request->fragment, j->request->slot, j->request->number, error);
  }
  return TSR_OK;
}

/* ---- Loading ---------------------------------------------------------------------------------------------------- */

void tsr__tile_return(tsr_tile *tile, tsr_memory *memory) {
  if (!tile) return;
  tsr__memory_release(memory, tile->bytes);
  tsr__tile_drop(tile);
}

/* A tile that is in memory. */
static tsr_tile *load_find_tile(tsr_array *array, const tsr_tile_request *request) {
  if (!request->fragment->tiles)
    return tsr__cache_get(array->cache, request->fragment->id, request->slot, request->number);
  tsr_tile *tile = request->fragment->tiles[request->slot * request->fragment->metadata.tile_count + request->number];
  tsr__tile_hold(tile);
  return tile;
}

bool tsr__tile_request_fits(tsr_tile_request *request, const tsr_tile *tile) {
  if (tile->end == 0) return true;
  if (request->end > 0 && tile->first <= request->first && request->end <= tile->end) return true;
  request->end = 0; /* the second time, the whole tile is worth it */
  return false;
}

/* What is not in memory is to be fetched. */
static int load_find_tiles(tsr_load *l, tsr_error *error) {
  uint64_t missing = 0;
  for (uint64_t i = 0; i < l->count; i++) {
    tsr_tile_request *w = &l->requests[i];
    tsr_tile *tile = load_find_tile(l->array, w);
    if (tile && !tsr__tile_request_fits(w, tile)) {
      tsr__tile_drop(tile);
      tile = NULL;
    }
    if (!tile) {
      missing++;
      continue;
    }
    if (tsr__memory_charge(l->memory, tile->bytes, error) < 0) {
      tsr__tile_drop(tile);
      return wrap_tile(w->fragment, w->slot, w->number, error);
    }
    w->tile = tile;
  }
  l->found = l->count - missing;
  if (missing == 0) return TSR_OK;

  TSR_TRY(TSR_ALLOC_ARRAY(l->memory, missing, &l->fetches, error));
  TSR_TRY(TSR_ALLOC_ARRAY(l->memory, missing, &l->runs, error));
  for (uint64_t i = 0; i < l->count; i++) {
    tsr_tile_request *w = &l->requests[i];
    if (w->tile) continue;
    fetch *j = &l->fetches[l->fetch_count];
    j->request = w;
    if (prepare_fetch(l, j, error) < 0) return wrap_tile(w->fragment, w->slot, w->number, error);
    l->fetch_count++;
  }
  if (l->fetch_count > 1) qsort(l->fetches, l->fetch_count, sizeof(fetch), compare_fetches);
  return TSR_OK;
}

/* Of tiles that have been decoded: from what they were to cost to what they do. */
static int load_settle(tsr_load *l, tsr_error *error) {
  for (uint64_t i = 0; i < l->fetch_count; i++) {
    fetch *j = &l->fetches[i];
    if (!j->request->tile) continue; /* cancelled before it was begun */
    const uint64_t cost = j->request->tile->bytes;
    if (cost > j->cost && tsr__memory_charge(l->memory, cost - j->cost, error) < 0)
      return wrap_tile(j->request->fragment, j->request->slot, j->request->number, error);
    if (cost < j->cost) tsr__memory_release(l->memory, j->cost - cost);
    j->cost = cost;
    j->request->decoded = true;
  }
  return TSR_OK;
}

/* Into the cache, and into the counters. */
static void load_keep(tsr_load *l) {
  uint64_t tiles = 0, bytes = 0;
  for (uint64_t i = 0; i < l->fetch_count; i++) {
    const tsr_tile_request *w = l->fetches[i].request;
    if (!w->tile) continue;
    tiles++;
    bytes += w->tile->bytes;
    if (!l->array->uncached) tsr__cache_put(l->array->cache, w->fragment->id, w->slot, w->number, w->tile);
  }
  tsr__count(l->array->environment, TSR_COUNT_tiles_read, tiles);
  tsr__count(l->array->environment, TSR_COUNT_bytes_decoded, bytes);
  if (l->ahead) tsr__count(l->array->environment, TSR_COUNT_tiles_ahead, tiles);
}

/* Ends a load: all but the tiles goes back, and these, too, where it has failed. */
static int load_end(tsr_load *l, int rc, tsr_error *error) {
  for (uint64_t i = 0; i < l->run_count; i++) {
    const tsr_tile_request *w = l->fetches[l->runs[i].first].request;
    for (unsigned p = 0; p < TSR_PART_COUNT; p++)
      if (l->runs[i].files[p]) tsr__fragment_file_drop(w->fragment, w->slot, p);
    tsr__free(l->runs[i].bytes);
  }
  if (rc < 0) {
    for (uint64_t i = 0; i < l->fetch_count; i++) { /* what a fetch has charged, its tile has not */
      tsr__memory_release(l->memory, l->fetches[i].cost);
      tsr__tile_drop(l->fetches[i].request->tile);
      l->fetches[i].request->tile = NULL;
    }
    for (uint64_t i = 0; i < l->count; i++) {
      tsr__tile_return(l->requests[i].tile, l->memory);
      l->requests[i].tile = NULL;
      l->requests[i].decoded = false;
    }
  }
  if (l->fetches) tsr__array_files_done(l->array);
  tsr__free(l->fetches);
  tsr__free(l->runs);
  return rc < 0 ? tsr__array_damage(rc, error) : rc;
}

int tsr__load_start(tsr_load *load, tsr_array *array, unsigned workers, bool ahead, tsr_tile_request *requests,
                    uint64_t count, tsr_memory *memory, tsr_error *error) {
  load->array = array; /* one by one: the job is large */
  load->memory = memory;
  load->requests = requests;
  load->count = count;
  load->ahead = ahead;
  load->fetches = NULL;
  load->runs = NULL;
  load->fetch_count = load->run_count = load->found = 0;
  for (uint64_t i = 0; i < count; i++) {
    requests[i].tile = NULL;
    requests[i].decoded = false;
  }
  int rc = load_find_tiles(load, error);
  if (array->environment->single_threaded) workers = 0;
  if (rc >= 0 && load->fetch_count > 0) {
    rc = load_make_runs(load, workers + !ahead, error);
    if (rc >= 0) rc = tsr__environment_cancelled(array->environment, error);
    for (uint64_t i = 0; i < load->run_count && rc >= 0 && !array->store->workers_may_read; i++)
      rc = read_run(load, &load->runs[i], error);
  }
  if (rc < 0) return load_end(load, rc, error);
  const uint64_t mine = !ahead && load->run_count > 0; /* runs that the caller will take at once */
  workers = (unsigned)TSR_MIN(workers, load->run_count - mine);
  tsr__job_start(&load->job, workers, load->run_count, fetch_run, load);
  return TSR_OK;
}

int tsr__load_finish(tsr_load *load, tsr_error *error) {
  if (load->fetch_count == 0) { /* as for most lookups */
    tsr__count(load->array->environment, TSR_COUNT_tiles_cached, load->found);
    return TSR_OK;
  }
  int rc = tsr__job_finish(&load->job, load->memory, error);
  if (rc >= 0) rc = load_settle(load, error);
  if (rc >= 0) tsr__count(load->array->environment, TSR_COUNT_tiles_cached, load->found);
  if (rc >= 0) load_keep(load);
  return load_end(load, rc, error);
}

void tsr__load_cancel(tsr_load *load) {
  tsr__job_cancel(&load->job);
  load_keep(load);
  load_end(load, TSR_ABORT, NULL);
}

int tsr__tiles_load(tsr_array *array, unsigned threads, tsr_tile_request *requests, uint64_t count, tsr_memory *memory,
                    tsr_error *error) {
  tsr_load load;
  TSR_TRY(tsr__load_start(&load, array, threads > 1 ? threads - 1 : 0, false, requests, count, memory, error));
  return tsr__load_finish(&load, error);
}
