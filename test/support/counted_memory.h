/* counted_memory.h: memory for tests that counts its blocks (none are left, or something leaks) and can run out. */
#ifndef COUNTED_MEMORY_H
#define COUNTED_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct counted_memory {
  _Atomic int blocks; /* workers allocate, too */
  _Atomic long calls; /* that gave memory */
  long left; /* allocations that succeed, where there are no workers; < 0: all */
  _Atomic long each; /* of so many calls one fails; 0: none */
  _Atomic long asked; /* calls of which this is said */
  _Atomic bool failed; /* one did not */
} counted_memory;

/* As an environment's `reallocate`; its argument is the counted_memory. */
static inline void *counted_reallocate(void *argument, void *pointer, uint64_t size) {
  counted_memory *m = argument;
  if (size == 0) {
    m->blocks -= pointer != NULL;
    free(pointer);
    return NULL;
  }
  if (m->left == 0 || (m->each > 0 && ++m->asked % m->each == 0)) {
    m->failed = true;
    return NULL;
  }
  if (m->left > 0) m->left--;
  m->blocks += pointer == NULL;
  m->calls++;
  return realloc(pointer, size);
}

#endif
