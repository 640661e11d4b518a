/* write_ahead.c: sorts the writer's cells in memory into Hilbert order, block by block, while the caller appends more.
 *
 * The host makes rows on one thread. Whenever TSR_ORDER_BLOCK more cells are in memory, a worker gets a copy of their
 * coordinates (the columns move when they grow), computes their Hilbert codes and sorts them. Preparing and spilling go
 * on from there. One block is in work at a time. If it is not finished yet when the next one is complete, or memory is
 * short, a block is left out and sorted with the others in the end.
 *
 * Invariants: block i has the cells from index i * TSR_ORDER_BLOCK on. `next` is the end of the block after the last
 * one, or UINT64_MAX. The block in work is one of the blocks; blocks behind it were left out. */
#include "write/write_ahead.h"

#include <stdatomic.h>
#include <string.h>

#include "write/write_hilbert.h"
#include "write/writer.h"

static tsr_pair **block_at(const tsr_writer *w, uint64_t i) {
  return (tsr_pair **)(void *)w->cells.ahead.blocks.data + i;
}
static uint64_t block_count(const tsr_writer *w) { return w->cells.ahead.blocks.size / sizeof(tsr_pair *); }
/* Returns the number of the block in work. */
static uint64_t block_in_work(const tsr_writer *w) { return w->cells.ahead.number / TSR_ORDER_BLOCK; }

void tsr__ahead_open(tsr_writer *writer) {
  const tsr_schema *schema = writer->schema;
  bool numbers = true;
  for (uint32_t d = 0; d < schema->dimension_count; d++) numbers = numbers && schema->fields[d].cell_size > 0;
  writer->cells.ahead.blocks.memory = &writer->memory;
  writer->cells.ahead.next = UINT64_MAX;
  if (!schema->dense && schema->cell_order == TSR_ORDER_HILBERT && numbers && writer->threads > 1)
    writer->cells.ahead.next = TSR_ORDER_BLOCK;
}

/* ---- The block in work ----------------------------------------------------------------------- */

static int write_ahead_sort_block(void *argument, uint64_t index, tsr_error *error) {
  tsr_writer *w = argument;
  tsr_ahead *a = &w->cells.ahead;
  (void)index, (void)error;
  tsr__order_block(w->schema, a->columns, 0, TSR_ORDER_BLOCK, a->number, a->pairs, a->spare);
  atomic_store_explicit(&a->sorted, true, memory_order_release);
  return TSR_OK;
}

/* Waits for the block in work. A block that another process had begun (before a fork) is left out. */
static void write_ahead_finish(tsr_writer *w) {
  tsr_ahead *a = &w->cells.ahead;
  if (!a->working) return;
  a->working = false;
  if (tsr__job_finish(&a->job, NULL, NULL) >= 0) return;
  tsr__free(a->pairs);
  *block_at(w, block_in_work(w)) = NULL;
}

/* Makes room for the coordinates and the second array of pairs that a worker needs, once. */
static int write_ahead_make_room(tsr_writer *w) {
  tsr_ahead *a = &w->cells.ahead;
  const tsr_schema *schema = w->schema;
  uint64_t cell = sizeof(tsr_pair);
  if (a->spare) return TSR_OK;
  for (uint32_t d = 0; d < schema->dimension_count; d++) cell += schema->fields[d].cell_size;
  const uint64_t bytes = TSR_ORDER_BLOCK * cell + schema->dimension_count * sizeof(tsr_column);
  if (bytes > w->memory.limit / 16) return TSR_BUDGET;
  TSR_TRY(TSR_ALLOC_BYTES(&w->memory, bytes, &a->spare, NULL));
  a->columns = (tsr_column *)(void *)(a->spare + TSR_ORDER_BLOCK);
  uint8_t *values = (uint8_t *)(a->columns + schema->dimension_count);
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    a->columns[d] = (tsr_column){.values = values, .cell_size = schema->fields[d].cell_size};
    values += TSR_ORDER_BLOCK * a->columns[d].cell_size;
  }
  return TSR_OK;
}

/* Gives a worker the cells from index `number` on. If memory is short the block is left out: its pairs stay NULL. */
static void write_ahead_start(tsr_writer *w, uint64_t number) {
  tsr_ahead *a = &w->cells.ahead;
  tsr_pair *pairs = NULL;
  if (w->memory.used > w->memory.limit / 2 || write_ahead_make_room(w) < 0) return;
  if (TSR_ALLOC_RAW(&w->memory, TSR_ORDER_BLOCK, &pairs, NULL) < 0) return;
  for (uint32_t d = 0; d < w->schema->dimension_count; d++) {
    const uint64_t size = a->columns[d].cell_size;
    memcpy((void *)(uintptr_t)a->columns[d].values, w->cells.columns[d].values.data + number * size,
           TSR_ORDER_BLOCK * size);
  }
  a->number = number;
  a->pairs = *block_at(w, block_in_work(w)) = pairs;
  a->working = true;
  atomic_store_explicit(&a->sorted, false, memory_order_relaxed);
  tsr__job_start(&a->job, 1, 1, write_ahead_sort_block, w);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

void tsr__ahead_more(tsr_writer *writer) {
  tsr_ahead *a = &writer->cells.ahead;
  tsr_pair *none = NULL;
  const uint64_t cells = tsr__writer_in_memory(writer);
  if (a->working && atomic_load_explicit(&a->sorted, memory_order_acquire)) write_ahead_finish(writer);
  for (; cells >= a->next; a->next += TSR_ORDER_BLOCK) {
    if (tsr__buffer_append(&a->blocks, &none, sizeof none, NULL) < 0) {
      a->next = UINT64_MAX; /* until the writer is rewound to fewer cells */
      return;
    }
    if (!a->working && cells < a->next + TSR_ORDER_BLOCK) write_ahead_start(writer, a->next - TSR_ORDER_BLOCK);
  }
}

void tsr__ahead_rewind(tsr_writer *writer, uint64_t cells) {
  tsr_ahead *a = &writer->cells.ahead;
  const uint64_t whole = cells / TSR_ORDER_BLOCK;
  if (a->next == UINT64_MAX && !a->blocks.size) return;
  if (a->working && block_in_work(writer) >= whole) { /* an earlier block stays, and its worker goes on */
    tsr__job_cancel(&a->job);
    a->working = false;
  }
  for (; block_count(writer) > whole; a->blocks.size -= sizeof(tsr_pair *))
    tsr__free(*block_at(writer, block_count(writer) - 1));
  /* memory may have been short for some of the complete blocks */
  a->next = (block_count(writer) + 1) * TSR_ORDER_BLOCK;
}

tsr_order_ahead tsr__ahead_blocks(tsr_writer *writer) {
  write_ahead_finish(writer);
  if (!block_count(writer)) return (tsr_order_ahead){0};
  return (tsr_order_ahead){.blocks = block_at(writer, 0), .count = block_count(writer)};
}

uint64_t tsr__ahead_bytes(const tsr_writer *writer) {
  uint64_t blocks = 0;
  for (uint64_t i = 0; i < block_count(writer); i++) blocks += *block_at(writer, i) != NULL;
  return blocks * TSR_ORDER_BLOCK * sizeof(tsr_pair);
}

void tsr__ahead_release(tsr_writer *writer) {
  tsr__ahead_rewind(writer, 0);
  tsr__buffer_release(&writer->cells.ahead.blocks);
  tsr__free(writer->cells.ahead.spare);
  writer->cells.ahead.spare = NULL;
  writer->cells.ahead.next = UINT64_MAX;
}
