/* write_hilbert.c: sorts sparse cells into Hilbert order, if blocks of cells have been sorted by their codes before.
 *
 * Blocks are sorted while more cells come (write_ahead.c); the others are sorted first. Then the codes are cut into
 * places of about as many cells as stay in a core's cache. A place takes its part of each block, in the order of
 * blocks, and sorts them again, stably. That costs as much as a merge, for any number of blocks. Equal codes are in one
 * place, so each place settles its ties by itself. Places are tasks for worker threads.
 *
 * Invariants: bounds[block][place] is the first pair of a block with a code not below that of the place. starts[place]
 * is the sum of these. */
#include "write/write_hilbert.h"

#include <stdatomic.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "write/write_order.h"

#define CODES              256u /* codes that are computed at once */
#define WRITE_HILBERT_STEP 1024u /* one code of so many is looked at to find places */
#define PLACE              8u /* steps of a place, at least */

typedef struct write_hilbert_sorter {
  const tsr_schema *schema;
  const tsr_column *columns;
  tsr_memory *memory;
  tsr_arena arena;
  uint64_t count, block_count, place_count;
  tsr_pair *const *given;
  tsr_pair **blocks;
  uint64_t *lows; /* by place: its lowest code */
  uint32_t *bounds; /* place_count + 1 for each block */
  uint64_t *starts, *kept; /* by place: its first cell; how many cells are left in it */
  uint32_t *order;
  _Atomic uint64_t ties;
} write_hilbert_sorter;

static uint64_t write_hilbert_cells_of(const write_hilbert_sorter *s, uint64_t block) {
  return TSR_MIN(s->count - block * TSR_ORDER_BLOCK, TSR_ORDER_BLOCK);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

void tsr__order_block(const tsr_schema *schema, const tsr_column *columns, uint64_t first, uint64_t count,
                      uint64_t number, tsr_pair *pairs, tsr_pair *spare) {
  uint64_t codes[CODES];
  for (uint64_t done = 0, n; done < count; done += n) {
    n = TSR_MIN(count - done, CODES);
    tsr__order_codes(schema, columns, first + done, n, codes);
    for (uint64_t i = 0; i < n; i++) pairs[done + i] = (tsr_pair){codes[i], (uint32_t)(number + done + i)};
  }
  tsr__pairs_sort(pairs, spare, count);
}

static int write_hilbert_sort_block(void *argument, uint64_t index, tsr_error *error) {
  write_hilbert_sorter *s = argument;
  const uint64_t first = index * TSR_ORDER_BLOCK, count = write_hilbert_cells_of(s, index);
  tsr_pair *spare;
  if (s->blocks[index] == s->given[index]) return TSR_OK;
  TSR_TRY(TSR_ALLOC_RAW(s->memory, count, &spare, error));
  tsr__order_block(s->schema, s->columns, first, count, first, s->blocks[index], spare);
  tsr__free(spare);
  return TSR_OK;
}

/* ---- Places ---------------------------------------------------------------------------------- */

static int make_places(write_hilbert_sorter *s, tsr_error *error) {
  uint64_t samples = 0;
  tsr_pair *taken;
  tsr_pair *spare;
  TSR_TRY(TSR_ARENA_RAW(&s->arena, s->count / WRITE_HILBERT_STEP + 1, &taken, error));
  TSR_TRY(TSR_ARENA_RAW(&s->arena, s->count / WRITE_HILBERT_STEP + 1, &spare, error));
  tsr_pair *sample = taken;
  for (uint64_t b = 0; b < s->block_count; b++)
    for (uint64_t i = WRITE_HILBERT_STEP - 1; i < write_hilbert_cells_of(s, b); i += WRITE_HILBERT_STEP)
      sample[samples++] = (tsr_pair){s->blocks[b][i].key, 0};
  tsr__pairs_sort(sample, spare, samples);
  /* if there are many blocks, each gives a place a few dozen pairs */
  const uint64_t steps = TSR_MAX(PLACE, s->block_count / 16);
  s->place_count = samples ? (samples - 1) / steps + 1 : 1;
  TSR_TRY(TSR_ARENA_ARRAY(&s->arena, 3 * (s->place_count + 1), &s->lows, error));
  s->starts = s->lows + s->place_count + 1;
  s->kept = s->starts + s->place_count + 1;
  for (uint64_t p = 1; p < s->place_count; p++) s->lows[p] = sample[p * steps].key;
  TSR_TRY(TSR_ARENA_ARRAY(&s->arena, s->block_count * (s->place_count + 1), &s->bounds, error));
  return TSR_OK;
}

static int find_bounds(void *argument, uint64_t block, tsr_error *error) {
  const write_hilbert_sorter *s = argument;
  uint32_t *bounds = s->bounds + block * (s->place_count + 1);
  const tsr_pair *pairs = s->blocks[block];
  const uint64_t count = write_hilbert_cells_of(s, block);
  (void)error;
  for (uint64_t p = 1, low = 0; p < s->place_count; p++) {
    uint64_t high = count;
    while (low < high) {
      const uint64_t middle = (low + high) / 2;
      if (pairs[middle].key < s->lows[p]) low = middle + 1;
      else high = middle;
    }
    bounds[p] = (uint32_t)low;
  }
  bounds[s->place_count] = (uint32_t)count;
  return TSR_OK;
}

/* Sets the order of the cells of a place. If the schema has no duplicates, only the last of equal cells is left. */
static void write_hilbert_leave_out(const write_hilbert_sorter *s, uint64_t place, const tsr_pair *pairs,
                                    uint64_t count) {
  uint32_t *order = s->order + s->starts[place];
  uint64_t kept = 0;
  for (uint64_t i = 0; i < count; i++) {
    order[kept] = pairs[i].cell;
    kept += s->schema->allows_duplicates || i + 1 == count || pairs[i].key != pairs[i + 1].key ||
            tsr__order_compare(s->schema, s->columns, pairs[i].cell, pairs[i + 1].cell) != 0;
  }
  s->kept[place] = kept;
}

static int write_hilbert_compare_cells(const void *argument, uint32_t a, uint32_t b) {
  const write_hilbert_sorter *s = argument;
  return tsr__order_compare(s->schema, s->columns, a, b);
}

static int write_hilbert_sort_place(void *argument, uint64_t place, tsr_error *error) {
  write_hilbert_sorter *s = argument;
  const uint64_t count = s->starts[place + 1] - s->starts[place];
  const uint32_t *bounds = s->bounds + place;
  uint64_t at = 0, ties = 0;
  tsr_pair *room;
  TSR_TRY(TSR_ALLOC_RAW(s->memory, 2 * count, &room, error));
  tsr_pair *pairs = room, *spare = pairs + count;
  for (uint64_t b = 0; b < s->block_count; b++, bounds += s->place_count + 1) {
    memcpy(pairs + at, s->blocks[b] + bounds[0], (bounds[1] - bounds[0]) * sizeof *pairs);
    at += bounds[1] - bounds[0];
  }
  if (count > 0) tsr__pairs_sort(pairs, spare, count);
  for (uint64_t i = 1; i < count; i++) ties += pairs[i - 1].key == pairs[i].key;
  if (tsr__order_few_ties(atomic_fetch_add(&s->ties, ties) + ties, s->count)) {
    if (ties) tsr__pairs_sort_ties(pairs, spare, count, write_hilbert_compare_cells, s);
    write_hilbert_leave_out(s, place, pairs, count);
  }
  tsr__free(room);
  return TSR_OK;
}

static int sort_places(write_hilbert_sorter *s, unsigned threads, uint64_t *count, tsr_error *error) {
  uint64_t kept = 0;
  TSR_TRY(make_places(s, error));
  TSR_TRY(tsr__parallel_for(threads, s->block_count, find_bounds, s, error));
  for (uint64_t p = 0; p < s->place_count; p++) {
    s->starts[p + 1] = s->starts[p];
    for (uint64_t b = 0; b < s->block_count; b++) {
      const uint32_t *bounds = s->bounds + b * (s->place_count + 1) + p;
      s->starts[p + 1] += bounds[1] - bounds[0];
    }
  }
  TSR_TRY(tsr__parallel_for(threads, s->place_count, write_hilbert_sort_place, s, error));
  if (!tsr__order_few_ties(s->ties, s->count)) return 0;
  for (uint64_t p = 0; p < s->place_count; p++) {
    memmove(s->order + kept, s->order + s->starts[p], s->kept[p] * sizeof *s->order);
    kept += s->kept[p];
  }
  *count = kept;
  return 1;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int make_blocks(write_hilbert_sorter *s, unsigned threads, tsr_pair **made, tsr_error *error) {
  uint64_t missing = 0;
  for (uint64_t b = 0; b < s->block_count; b++) missing += !s->blocks[b];
  TSR_TRY(TSR_ALLOC_RAW(s->memory, missing * TSR_ORDER_BLOCK, made, error));
  for (uint64_t b = 0, next = 0; b < s->block_count; b++)
    if (!s->blocks[b]) s->blocks[b] = *made + next++ * TSR_ORDER_BLOCK;
  return tsr__parallel_for(threads, s->block_count, write_hilbert_sort_block, s, error);
}

int tsr__order_blocks(const tsr_schema *schema, const tsr_column *columns, tsr_memory *memory, unsigned threads,
                      const tsr_order_ahead *ahead, uint32_t *order, uint64_t *count, tsr_error *error) {
  write_hilbert_sorter s = {.schema = schema, .columns = columns, .memory = memory, .count = *count, .order = order};
  tsr_pair **room;
  tsr_pair *made = NULL;
  s.block_count = (s.count + TSR_ORDER_BLOCK - 1) / TSR_ORDER_BLOCK;
  tsr__arena_init(&s.arena, memory);
  int rc = TSR_ARENA_ARRAY(&s.arena, 2 * s.block_count, &room, error);
  if (rc >= 0) {
    tsr_pair **given = room;
    memcpy(given, ahead->blocks, TSR_MIN(ahead->count, s.block_count) * sizeof *given);
    s.given = given;
    s.blocks = given + s.block_count;
    memcpy(s.blocks, given, s.block_count * sizeof *given);
    rc = make_blocks(&s, threads, &made, error);
  }
  if (rc >= 0) rc = sort_places(&s, threads, count, error);
  tsr__free(made);
  tsr__arena_release(&s.arena);
  return rc;
}
