/* heap.c: SQLite's allocator while libFuzzer runs. SQLite allocates thousands of blocks for one input, and a third of the time
 * was spent in AddressSanitizer's malloc and in libFuzzer's hooks of it. Here blocks of up to 4 KiB come from one arena, from a
 * free list for each size. Free blocks are poisoned, and a freed block goes to the end of its list: so AddressSanitizer still
 * detects reads beyond a block and uses after free. This file is not instrumented. The replay under ctest uses malloc.
 */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "database.h"

#define ARENA    ((size_t)64 << 20)
#define UNIT     16 /* sizes are multiples of it; also the size of a block's header, the red zone between blocks */
#define LARGEST  4096
#define CLASSES  13
#define WAIT_MAX 64 /* so many freed blocks of a size wait before the first of them is used again */

void __asan_poison_memory_region(const volatile void *bytes, size_t size);
void __asan_unpoison_memory_region(const volatile void *bytes, size_t size);
size_t __sanitizer_get_allocated_size(const volatile void *bytes);

typedef struct block {
  struct block *next;
  uint32_t size;
  uint8_t which;
  bool used;
} block;
_Static_assert(sizeof(block) == UNIT, "a header is one unit");

static const uint32_t sizes[CLASSES] = {16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, LARGEST};
static uint8_t class_of[LARGEST / UNIT + 1];
static struct {
  block *first, *last;
  unsigned count;
} lists[CLASSES];
static uint8_t *arena, *end;
static long live;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* workers allocate, too */

long heap_blocks(void) { return live; }

static bool is_ours(const void *p) { return (const uint8_t *)p >= arena && (const uint8_t *)p < arena + ARENA; }
static block *header(void *p) { return (block *)((uint8_t *)p - UNIT); }

static block *take_waiting(uint8_t which, unsigned least) {
  if (lists[which].count <= least) return NULL;
  block *b = lists[which].first;
  lists[which].first = b->next;
  lists[which].count--;
  return b;
}

static block *take(uint8_t which) {
  pthread_mutex_lock(&lock);
  live++;
  block *b = which < CLASSES ? take_waiting(which, WAIT_MAX) : NULL;
  if (!b && which < CLASSES && (size_t)(arena + ARENA - end) >= UNIT + sizes[which]) {
    b = (block *)end;
    end += UNIT + sizes[which];
  }
  if (!b && which < CLASSES) b = take_waiting(which, 0);
  pthread_mutex_unlock(&lock);
  return b;
}

static void *heap_allocate(int wanted) {
  const uint8_t which = wanted > LARGEST ? CLASSES : class_of[(wanted + UNIT - 1) / UNIT];
  block *b = take(which);
  if (!b) return malloc((size_t)wanted);
  b->size = (uint32_t)wanted;
  b->which = which;
  b->used = true;
  void *bytes = (uint8_t *)b + UNIT;
  __asan_unpoison_memory_region(bytes, (size_t)wanted);
  return bytes;
}

static void let_wait(block *b) {
  CHECK(b->used); /* otherwise it is freed twice */
  b->used = false;
  __asan_poison_memory_region(b + 1, b->size);
  b->next = NULL;
  if (lists[b->which].count++ == 0) lists[b->which].first = b;
  else lists[b->which].last->next = b;
  lists[b->which].last = b;
}

static void heap_free(void *p) {
  pthread_mutex_lock(&lock);
  live--;
  if (is_ours(p)) let_wait(header(p));
  pthread_mutex_unlock(&lock);
  if (!is_ours(p)) free(p);
}

static int heap_size(void *p) { return (int)(is_ours(p) ? header(p)->size : __sanitizer_get_allocated_size(p)); }

static void *heap_reallocate(void *p, int wanted) {
  if (!is_ours(p) && wanted > LARGEST)
    return realloc(p, (size_t)wanted); /* large before and after: realloc's own block */
  void *grown = heap_allocate(wanted);
  if (!grown) return NULL;
  memcpy(grown, p, (size_t)TSR_MIN(wanted, heap_size(p)));
  heap_free(p);
  return grown;
}

static int heap_roundup(int wanted) { return (wanted + 7) & ~7; }
static int heap_open(void *unused) { return SQLITE_OK; }
static void heap_close(void *unused) {}

/* Installs the allocator; call it before all other functions of SQLite. SQLite's memory statistics are switched off, since they
 * take another lock for each block. */
__attribute__((constructor)) static void heap_use(void) {
  static const sqlite3_mem_methods methods = {heap_allocate, heap_free, heap_reallocate, heap_size,
                                              heap_roundup,  heap_open, heap_close,      NULL};
  uint8_t which = 0;
  for (uint32_t i = 0; i <= LARGEST / UNIT; i++) {
    while (sizes[which] < i * UNIT) which++;
    class_of[i] = which;
  }
  arena = end = aligned_alloc(UNIT, ARENA);
  CHECK(arena);
  __asan_poison_memory_region(arena, ARENA);
  CHECK(sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) == SQLITE_OK);
  CHECK(sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0) == SQLITE_OK);
}
