/* write_ahead.h: sorts the writer's cells in memory into Hilbert order, block by block on worker threads, while the
 * caller appends more.
 *
 * All functions do nothing for arrays that have another order, and if the writer has one thread. */
#ifndef TSR_WRITE_AHEAD_H
#define TSR_WRITE_AHEAD_H

#include <stdatomic.h>

#include "base/pool.h"
#include "write/write_order.h"

typedef struct tsr_ahead { /* the order of cells in memory, found by workers while others come (write_ahead.c) */
  uint64_t next; /* number of cells in memory at which the next block is complete; UINT64_MAX: no block is made */
  tsr_buffer blocks; /* tsr_pair * for each block: its sorted pairs; NULL: a block that was left out */
  bool working; /* a worker sorts a block: */
  tsr_job job;
  uint64_t number; /* index in memory of the block's first cell */
  tsr_pair *pairs, *spare;
  tsr_column *columns; /* copies of the block's coordinates, by dimension */
  _Atomic bool sorted;
} tsr_ahead;

/* Decides whether blocks are sorted ahead. */
void tsr__ahead_open(tsr_writer *writer);

/* Drops all blocks and frees the room of the worker. */
void tsr__ahead_release(tsr_writer *writer);

/* Starts the next block, if no worker is busy. Call when ahead.next cells or more are in memory. */
void tsr__ahead_more(tsr_writer *writer);

/* Drops the blocks that have cells from index `cells` in memory on. A worker goes on with an earlier block. */
void tsr__ahead_rewind(tsr_writer *writer, uint64_t cells);

/* Waits for the block in work and returns all blocks, from the first cell in memory on. They stay valid until the next
 * call that changes the writer's cells. */
tsr_order_ahead tsr__ahead_blocks(tsr_writer *writer);
/* Returns the bytes of the sorted blocks. */
uint64_t tsr__ahead_bytes(const tsr_writer *writer);

#endif
