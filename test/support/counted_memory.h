/* counted_memory.h: an allocator for tests that counts its blocks, so that a test sees leaks, and that can fail on
 * request. */
#ifndef COUNTED_MEMORY_H
#define COUNTED_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct counted_memory {
  _Atomic int blocks; /* allocated now; atomic, since workers allocate, too */
  _Atomic long calls; /* calls that returned memory */
  long left; /* this many calls succeed, then all fail (for tests without workers); < 0: no limit */
  _Atomic long each; /* every each-th call fails; 0: none */
  _Atomic long counted; /* calls counted for `each` */
  _Atomic bool failed; /* a call has failed */
} counted_memory;

/* The callback for tsr_environment_options.reallocate; its argument is the counted_memory. */
static inline void *counted_reallocate(void *argument, void *pointer, uint64_t size) {
  counted_memory *m = argument;
  if (size == 0) {
    m->blocks -= pointer != NULL;
    free(pointer);
    return NULL;
  }
  if (m->left == 0 || (m->each > 0 && ++m->counted % m->each == 0)) {
    m->failed = true;
    return NULL;
  }
  if (m->left > 0) m->left--;
  m->blocks += pointer == NULL;
  m->calls++;
  return realloc(pointer, size);
}

#endif
