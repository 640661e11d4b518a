/* arena.h: memory for a tree of small objects that are freed together: what a parser makes of a text. */
#ifndef TSX_SQL_ARENA_H
#define TSX_SQL_ARENA_H

#include <stdint.h>

typedef struct tsx_arena { /* `= {0}` is empty */
  struct tsx_arena_block *blocks;
} tsx_arena;

/* Returns zeroed memory that lives as long as the arena, or NULL if memory is exhausted. */
void *tsx_arena_take(tsx_arena *arena, uint64_t size);
char *tsx_arena_copy(tsx_arena *arena, const char *text, uint64_t size); /* a NUL-terminated copy, or NULL */
void tsx_arena_free(tsx_arena *arena);

#endif
