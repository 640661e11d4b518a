/* memory.h: memory with budgets, arenas and growable buffers. Every allocation names the tsr_memory that pays for it;
 * budgets nest, so that a query stays within its own budget and within that of its environment. Allocate through the
 * typed macros (TSR_ALLOC and its family): they set a pointer of any type and derive the element size from that
 * type. */
#ifndef TSR_MEMORY_H
#define TSR_MEMORY_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/region.h"

typedef struct tsr_context_pool tsr_context_pool;
typedef struct tsr_spare_blocks tsr_spare_blocks;

/* ---- Budgets --------------------------------------------------------------------------------- */

/* How tsr__cancelled (pool.h) finds out whether the host wants to cancel. */
typedef struct tsr_cancel {
  bool (*requested)(void *argument); /* NULL: the host never cancels */
  void *argument; /* borrowed */
  _Atomic uint64_t decoded; /* bytes decoded since the host was last polled (tsr__cancelled_after) */
} tsr_cancel;

/* A budget. A charge to it is also a charge to each of its parents, and no level's `used` passes its `limit`. A
 * tsr_memory outlives all blocks that it pays for. All operations are thread-safe; the fields without _Atomic are set
 * before any other thread uses the tsr_memory. */
typedef struct tsr_memory {
  struct tsr_memory *parent; /* borrowed; NULL for a root */
  void *(*reallocate)(void *argument, void *pointer, uint64_t size); /* like realloc; a size of 0 frees */
  void *argument; /* of `reallocate`, borrowed */
  uint64_t limit; /* in bytes; UINT64_MAX: none */
  _Atomic uint64_t lent; /* bytes that may temporarily be used past the limit; planning by `limit` ignores them */
  const char *name; /* of the limit in error messages, for example "memory_mb"; borrowed */
  uint64_t largest; /* size in bytes of the largest block that `reallocate` can return */
  _Atomic uint64_t used, peak; /* in bytes */
  /* Called on the charging thread when a charge to this budget, or through it to one of its parents, hits a limit.
   * Frees memory that can be spared and returns true, or returns false if there is none. NULL: nothing can be
   * spared. */
  bool (*relieve)(void *argument);
  void *relieve_argument; /* borrowed */
  tsr_cancel cancel; /* in a root */
  /* In a root: idle contexts of compression libraries (filter.h), borrowed. NULL: contexts are not pooled. */
  struct tsr_context_pool *contexts;
  /* In a root: large blocks that were freed and wait for their next use, borrowed. NULL: they go back to the allocator
   * at once. */
  struct tsr_spare_blocks *spares;
} tsr_memory;

/* Makes a root without a limit. `reallocate` must be thread-safe; NULL means the C library's allocator. */
void tsr__memory_init_root(tsr_memory *memory, void *(*reallocate)(void *, void *, uint64_t), void *argument);

/* Returns a root without a limit that uses the C library's allocator and lives as long as the process: for blocks that
 * are handed to the host and may outlive the environment that made them. */
tsr_memory *tsr__memory_process(void);

/* Makes a budget of `limit` bytes below `parent`, with the parent's allocator. `name` is borrowed. */
void tsr__memory_init(tsr_memory *memory, tsr_memory *parent, uint64_t limit, const char *name);

/* Changes the limit, in bytes. The spare blocks of the root follow the lowest limit: from then on they hold at most a
 * 32nd of it, and nothing if it is below 64 MiB. So a host that may use little memory keeps none. */
void tsr__memory_set_limit(tsr_memory *memory, uint64_t limit);

/* Charges `size` bytes to the budget without allocating them: for memory that another owner holds on behalf of this
 * budget, such as a pinned tile or a library's context. Release the same number of bytes later.
 * Errors: TSR_BUDGET if a limit would be passed; then nothing is charged. */
int tsr__memory_charge(tsr_memory *memory, uint64_t size, tsr_error *error);
void tsr__memory_release(tsr_memory *memory, uint64_t size);

static inline tsr_memory *tsr__memory_root(tsr_memory *memory) {
  while (memory->parent) memory = memory->parent;
  return memory;
}

/* Returns true if `code` means out of memory, in a budget or on the machine. A caller that can work with less memory
 * tries again after either. */
static inline bool tsr__lacks_memory(int code) { return code == TSR_BUDGET || code == TSR_NOMEM; }

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* The typed allocations. `pointer` is the address of a pointer to T, where T is a complete type; the size of an element
 * is sizeof(T). A product of count and size that overflows is an error, so a count may come from a file. Each macro is
 * an expression with the value of the function that it calls, for TSR_TRY or `rc = ...`:
 *
 *   uint64_t *keys;
 *   TSR_TRY(TSR_ALLOC_ARRAY(memory, count, &keys, error));
 * The caller owns the block and frees it with tsr__free. `*pointer` is set only on success. A block of 0 bytes is
 * valid. The BYTES macros are for a structure that is followed by data of variable size: `bytes` counts both. RAW
 * memory is uninitialised; all other blocks are zeroed. Errors: TSR_BUDGET past a limit, with a message that says how
 * much was requested and names the limit; TSR_NOMEM if the allocator fails. */
#define TSR_ALLOC(memory, pointer, error) tsr__alloc_zero(memory, sizeof **(pointer), TSR_ADDRESS_(pointer), error)
#define TSR_ALLOC_ARRAY(memory, count, pointer, error)                                                                 \
  tsr__alloc_array(memory, count, sizeof **(pointer), TSR_ADDRESS_(pointer), error)
#define TSR_ALLOC_BYTES(memory, bytes, pointer, error) tsr__alloc_zero(memory, bytes, TSR_ADDRESS_(pointer), error)
#define TSR_ALLOC_RAW(memory, count, pointer, error)                                                                   \
  tsr__alloc_raw(memory, count, sizeof **(pointer), TSR_ADDRESS_(pointer), error)
#define TSR_ALLOC_RAW_BYTES(memory, bytes, pointer, error) tsr__alloc(memory, bytes, TSR_ADDRESS_(pointer), error)

/* Changes the number of elements of a block; the pointer may be NULL. Elements beyond the old number are uninitialised.
 * On failure the block and the pointer are unchanged. */
#define TSR_REALLOC_ARRAY(memory, count, pointer, error)                                                               \
  tsr__realloc_array(memory, count, sizeof **(pointer), TSR_ADDRESS_(pointer), error)

/* C converts a `T **` to a `void *`, but not to a `void **`. The sizeof rejects anything but the address of a
 * pointer. */
#define TSR_ADDRESS_(pointer) ((void)sizeof **(pointer), (void *)(pointer))

/* The functions behind the macros. `pointer` is the address of a pointer of any type. Other files must use the macros
 * (test/lint/lint.py enforces it). */
int tsr__alloc(tsr_memory *memory, uint64_t size, void *pointer, tsr_error *error);
int tsr__alloc_zero(tsr_memory *memory, uint64_t size, void *pointer, tsr_error *error);
int tsr__alloc_array(tsr_memory *memory, uint64_t count, uint64_t size, void *pointer, tsr_error *error);
int tsr__alloc_raw(tsr_memory *memory, uint64_t count, uint64_t size, void *pointer, tsr_error *error);
int tsr__realloc(tsr_memory *memory, uint64_t size, void *pointer, tsr_error *error);
int tsr__realloc_array(tsr_memory *memory, uint64_t count, uint64_t size, void *pointer, tsr_error *error);

/* Frees a block and releases its bytes from the budget that paid for it. NULL is allowed. */
void tsr__free(void *pointer);

/* Large blocks that were freed. A scan takes and frees megabytes for each tile, and most allocators return such blocks
 * to the operating system at once, so each tile would pay for page faults and zeroed pages again. Blocks keep their
 * pages here instead, for the next allocation of about their size. They are charged to the root alone, and they go back
 * to the allocator when it fails, and with tsr__spare_blocks_release. Lock-free, so that a fork finds no lock held. */
#define TSR_SPARE_SLOTS 16

struct tsr_spare_blocks {
  _Atomic(void *) slots[TSR_SPARE_SLOTS]; /* a free block, or NULL */
  _Atomic uint64_t bytes; /* of the blocks in all slots */
  _Atomic uint64_t most; /* at most so many; see tsr__memory_set_limit */
  _Atomic unsigned next; /* the slot that gives way when all are taken */
  bool huge; /* blocks are cut from regions, once the first few MiB are in use */
  tsr_regions regions; /* charged to the root whole, so that their blocks are not charged to it */
};

/* Makes an empty set; `huge`: with regions. */
void tsr__spare_blocks_init(tsr_spare_blocks *spares, bool huge);

/* Returns all spare blocks and empty regions of a root to the allocator. Returns true if there was one. */
bool tsr__spare_blocks_release(tsr_memory *root);

/* Zeroes memory in a way that the compiler cannot optimise away, for keys. */
void tsr__wipe(void *pointer, uint64_t size);

/* ---- Arenas ---------------------------------------------------------------------------------- */

/* An arena hands out many small blocks that are all freed together. Not thread-safe. `= {0}` may be released. */
typedef struct tsr_arena {
  tsr_memory *memory; /* borrowed */
  struct tsr_arena_block *blocks; /* owned; the first is being filled */
  uint64_t at, capacity; /* of the first block: bytes handed out, bytes in all */
  struct tsr_arena_block *lent; /* the block that tsr__arena_lend made of the caller's memory; NULL: none */
} tsr_arena;

/* Makes an empty arena that allocates its blocks from `memory`. */
void tsr__arena_init(tsr_arena *arena, tsr_memory *memory);

/* Makes an empty arena that first uses `size` bytes at `room`, aligned as allocators align blocks, and only then
 * allocates. The room stays the caller's and must outlive everything that the arena hands out. */
void tsr__arena_lend(tsr_arena *arena, tsr_memory *memory, void *room, uint64_t size);

static inline tsr_arena tsr__arena(tsr_memory *memory) { return (tsr_arena){.memory = memory}; }

/* Returns how many bytes the arena has handed out, or slightly more. */
uint64_t tsr__arena_size(const tsr_arena *arena);

/* Frees all blocks. The arena is then empty and can be used again. */
void tsr__arena_release(tsr_arena *arena);

/* Frees all blocks but the largest, which the arena reuses. Invalidates everything that it handed out. */
void tsr__arena_reset(tsr_arena *arena);

/* The typed allocations of an arena: like TSR_ALLOC_ARRAY and so on, but the arena owns the memory. Results are aligned
 * to 16 bytes if the allocator's blocks are. TSR_ARENA_COPY copies `size` bytes and appends a NUL byte that `size` does
 * not count. */
#define TSR_ARENA_ARRAY(arena, count, pointer, error)                                                                  \
  tsr__arena_array(arena, count, sizeof **(pointer), TSR_ADDRESS_(pointer), error)
#define TSR_ARENA_RAW(arena, count, pointer, error)                                                                    \
  tsr__arena_raw(arena, count, sizeof **(pointer), TSR_ADDRESS_(pointer), error)
#define TSR_ARENA_RAW_BYTES(arena, bytes, pointer, error) tsr__arena_alloc(arena, bytes, TSR_ADDRESS_(pointer), error)
#define TSR_ARENA_COPY(arena, bytes, size, pointer, error)                                                             \
  tsr__arena_copy(arena, bytes, size, TSR_ADDRESS_(pointer), error)

/* Makes room for one more element of a list of `count` in an arena. A full list is copied to twice the room, `least` at
 * first; the arena keeps the old copies until it is reset. `capacity` is a uint64_t *. */
#define TSR_ARENA_GROW(arena, list, count, capacity, least, error)                                                     \
  ((count) < *(capacity) ? TSR_OK                                                                                      \
                         : tsr__arena_grow(arena, sizeof **(list), TSR_ADDRESS_(list), count, capacity, least, error))

/* The functions behind the macros. */
int tsr__arena_alloc(tsr_arena *arena, uint64_t size, void *pointer, tsr_error *error);
int tsr__arena_array(tsr_arena *arena, uint64_t count, uint64_t size, void *pointer, tsr_error *error);
int tsr__arena_raw(tsr_arena *arena, uint64_t count, uint64_t size, void *pointer, tsr_error *error);
int tsr__arena_copy(tsr_arena *arena, const void *bytes, uint64_t size, void *pointer, tsr_error *error);
int tsr__arena_grow(tsr_arena *arena, uint64_t size, void *list, uint64_t count, uint64_t *capacity, uint64_t least,
                    tsr_error *error);

/* ---- Buffers --------------------------------------------------------------------------------- */

/* A growable array of bytes. `= {.memory = memory}` is an empty one. Its capacity grows by at least half each time. */
typedef struct tsr_buffer {
  tsr_memory *memory; /* borrowed */
  uint8_t *data; /* owned; NULL while `capacity` is 0 */
  uint64_t size, capacity; /* in bytes */
  bool lent; /* `data` is the caller's memory: used until it is too small, never freed */
} tsr_buffer;

/* Makes room for `more` bytes past the current `size`, which does not change. The data may move. */
int tsr__buffer_reserve(tsr_buffer *buffer, uint64_t more, tsr_error *error);

/* The same without spare room to grow, for when the final size is known. */
int tsr__buffer_reserve_exactly(tsr_buffer *buffer, uint64_t more, tsr_error *error);

/* Each appends bytes; integers as little-endian. On failure the buffer's content is unchanged. */
int tsr__buffer_append(tsr_buffer *buffer, const void *bytes, uint64_t size, tsr_error *error);
int tsr__buffer_append_u8(tsr_buffer *buffer, uint8_t value, tsr_error *error);
int tsr__buffer_append_u32(tsr_buffer *buffer, uint32_t value, tsr_error *error);
int tsr__buffer_append_u64(tsr_buffer *buffer, uint64_t value, tsr_error *error);

/* Appends text. A NUL byte follows it, which `size` does not count. */
int tsr__buffer_printf(tsr_buffer *buffer, tsr_error *error, const char *format, ...) TSR_PRINTF(3, 4);

/* Gives back most of the unused capacity. */
void tsr__buffer_shrink(tsr_buffer *buffer);

/* Frees the data. The buffer is then empty and can be used again. */
void tsr__buffer_release(tsr_buffer *buffer);

#endif
