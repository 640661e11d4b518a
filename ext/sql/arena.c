/* arena.c: an arena: blocks of at least BLOCK bytes from sqlite3_malloc, of which the newest has room. */
#include "sql/arena.h"

#include <string.h>

#include "connection/sqlite_api.h"

#define BLOCK 8000

typedef struct tsx_arena_block {
  struct tsx_arena_block *next;
  uint64_t room, used;
  uint64_t bytes[];
} tsx_arena_block;

void *tsx_arena_take(tsx_arena *arena, uint64_t size) {
  if (size > INT64_MAX) return NULL;
  size = (size + 7) & ~(uint64_t)7;
  tsx_arena_block *block = arena->blocks;
  if (!block || block->room - block->used < size) {
    const uint64_t room = size > BLOCK ? size : BLOCK;
    block = sqlite3_malloc64(sizeof *block + room);
    if (!block) return NULL;
    *block = (tsx_arena_block){.next = arena->blocks, .room = room};
    arena->blocks = block;
  }
  void *memory = (uint8_t *)block->bytes + block->used;
  block->used += size;
  return memset(memory, 0, size);
}

char *tsx_arena_copy(tsx_arena *arena, const char *text, uint64_t size) {
  char *copy = tsx_arena_take(arena, size + 1);
  if (copy) memcpy(copy, text, size);
  return copy;
}

void tsx_arena_free(tsx_arena *arena) {
  for (tsx_arena_block *block = arena->blocks, *next; block; block = next) {
    next = block->next;
    sqlite3_free(block);
  }
  arena->blocks = NULL;
}
