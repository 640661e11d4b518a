/* memory.h: memory with a budget, arenas, growable buffers. */
#ifndef TSR_MEMORY_H
#define TSR_MEMORY_H

#include <stdatomic.h>

#include "base/error.h"

typedef struct tsr_context_pool tsr_context_pool;

/* Every allocation names the tsr_memory that pays for it. A child pays with its parent's money too, so a query's budget
 * stands within the environment's. Blocks remember who pays: tsr__free needs only the pointer. Thread-safe. */
typedef struct tsr_memory {
  struct tsr_memory *parent;
  void *(*reallocate)(void *argument, void *pointer, uint64_t size);
  void *argument;
  uint64_t limit; /* bytes; UINT64_MAX = none */
  const char *name; /* of the limit, for messages: "memory_mb" */
  uint64_t largest; /* bytes of a block that the allocator can give, at most */
  _Atomic uint64_t used, peak;
  bool (*relieve)(
      void *argument); /* asked where a charge to this meets a limit: gives back what can be done without, on the
                                      thread that charges; false: there is nothing. NULL: nobody is asked */
  void *relieve_argument;
  bool (*interrupted)(
      void *argument); /* of a root: does its host want long work to end? NULL: never (tsr__cancelled) */
  void *interrupted_argument;
  _Atomic uint64_t work; /* of a root: done since its host was asked */
  struct tsr_context_pool
      *contexts; /* of a root: libraries' contexts that wait to be used again (filter.h); NULL: none is kept */
} tsr_memory;

/* A root: allocator (NULL: the C library's) and no limit. */
void tsr__memory_init_root(tsr_memory *memory, void *(*reallocate)(void *, void *, uint64_t), void *argument);
void tsr__memory_init(tsr_memory *memory, tsr_memory *parent, uint64_t limit, const char *name);

/* TSR_OK; TSR_BUDGET past a limit, with a message that says how much was asked for and names the limit; or TSR_NOMEM where
 * the allocator has no more. `*pointer` is set only on success. A size of 0 gives a block that can be freed. */
int tsr__alloc(tsr_memory *memory, uint64_t size, void **pointer, tsr_error *error);
int tsr__alloc_zero(tsr_memory *memory, uint64_t size, void **pointer, tsr_error *error);
int tsr__alloc_array(tsr_memory *memory, uint64_t count, uint64_t size, void **pointer,
                     tsr_error *error); /* checked product, zeroed */
int tsr__realloc(tsr_memory *memory, uint64_t size, void **pointer,
                 tsr_error *error); /* *pointer may be NULL; unchanged on failure */
void tsr__free(void *pointer); /* NULL is fine */

/* Counts bytes that others hold for us (a pinned tile, a library's context) against the budget, without allocating. */
int tsr__memory_charge(tsr_memory *memory, uint64_t size, tsr_error *error);
void tsr__memory_release(tsr_memory *memory, uint64_t size);

static inline tsr_memory *tsr__memory_root(tsr_memory *memory) {
  while (memory->parent) memory = memory->parent;
  return memory;
}

/* Was there too little memory, by a budget or of the machine? Who can do with less tries again, whichever it was. */
static inline bool tsr__lacks_memory(int code) { return code == TSR_BUDGET || code == TSR_NOMEM; }

/* Zeroes memory in a way that no compiler removes. */
void tsr__wipe(void *pointer, uint64_t size);

/* An arena: many small blocks that live as long as it does. `= {0}` then init; release frees all. Not thread-safe. */
typedef struct tsr_arena {
  tsr_memory *memory;
  struct tsr_arena_block *blocks;
  uint64_t at, capacity;
} tsr_arena;

void tsr__arena_init(tsr_arena *arena, tsr_memory *memory);
void tsr__arena_release(tsr_arena *arena);

/* Frees all but the largest block, which is used again. */
void tsr__arena_reset(tsr_arena *arena);
int tsr__arena_alloc(tsr_arena *arena, uint64_t size, void **pointer,
                     tsr_error *error); /* 16-byte aligned, not zeroed */
int tsr__arena_array(tsr_arena *arena, uint64_t count, uint64_t size, void **pointer,
                     tsr_error *error); /* checked, zeroed */
int tsr__arena_copy(tsr_arena *arena, const void *bytes, uint64_t size, void **pointer,
                    tsr_error *error); /* plus a NUL byte behind */

/* A growable buffer. `= {.memory = m}`; release frees. Growth is by half again at least. */
typedef struct tsr_buffer {
  tsr_memory *memory;
  uint8_t *data;
  uint64_t size, capacity;
} tsr_buffer;

int tsr__buffer_reserve(tsr_buffer *buffer, uint64_t more, tsr_error *error); /* room for `more` bytes behind size */
int tsr__buffer_append(tsr_buffer *buffer, const void *bytes, uint64_t size, tsr_error *error);
int tsr__buffer_append_u8(tsr_buffer *buffer, uint8_t value, tsr_error *error);
int tsr__buffer_append_u32(tsr_buffer *buffer, uint32_t value, tsr_error *error);
int tsr__buffer_append_u64(tsr_buffer *buffer, uint64_t value, tsr_error *error);
int tsr__buffer_printf(tsr_buffer *buffer, tsr_error *error, const char *format, ...)
    TSR_PRINTF(3, 4); /* no NUL counted */

/* Gives back most of the room that its bytes do not need. */
void tsr__buffer_shrink(tsr_buffer *buffer);
void tsr__buffer_release(tsr_buffer *buffer);

#endif
