/* memory.c: budgets, blocks, the arena and the growable buffer. No other file calls an allocator.
 *
 * A 16-byte header precedes each block: the tsr_memory that pays for the block, the size of the block without the
 * header, and how much larger the allocation is. Header and block are charged to that tsr_memory and to each of its
 * parents, and `used` never passes `limit` in any of them. The charge is made before the allocator is called and undone
 * if the allocator fails.
 *
 * Order: the budget; spare blocks, which wait for their next use; blocks, which are allocated under a budget; the
 * arena, which cuts larger blocks into pieces; the growable buffer.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include "base/memory.h"
#include "tessera_host.h"

#include "base/arithmetic.h"
#include "base/system.h"

#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#endif
#endif
#ifdef ADDRESS_SANITIZER /* lets the sanitizer catch writes past an allocation within an arena's block */
#include <sanitizer/asan_interface.h>
#define POISON(pointer, size)   __asan_poison_memory_region(pointer, size)
#define UNPOISON(pointer, size) __asan_unpoison_memory_region(pointer, size)
#else
#define POISON(pointer, size)   ((void)0)
#define UNPOISON(pointer, size) ((void)0)
#endif

typedef struct memory_block {
  tsr_memory *owner;
  _Alignas(8) uint64_t sizes; /* i386 would place it at byte 4. See block_size and block_slack. */
} memory_block;
_Static_assert(sizeof(memory_block) == 16, "a block behind its header is aligned as the allocator's own blocks are");

static void *reallocate_standard(void *argument, void *pointer, uint64_t size) {
  if (size > SIZE_MAX) return NULL; /* on a 32-bit machine */
  if (size > 0) return realloc(pointer, (size_t)size);
  free(pointer);
  return NULL;
}

/* Makes a budget with nothing charged to it. `parent` is NULL for a root. */
static void memory_init(tsr_memory *memory, tsr_memory *parent, uint64_t limit, const char *name) {
  memory->parent = parent;
  memory->reallocate = parent ? parent->reallocate : reallocate_standard;
  memory->argument = parent ? parent->argument : NULL;
  memory->limit = limit;
  memory->largest = parent ? parent->largest : UINT64_MAX;
  memory->name = name;
  memory->relieve = NULL;
  memory->relieve_argument = NULL;
  memory->cancel.requested = NULL;
  memory->cancel.argument = NULL;
  memory->contexts = NULL;
  memory->spares = NULL;
  atomic_init(&memory->lent, 0);
  atomic_init(&memory->cancel.decoded, 0);
  atomic_init(&memory->used, 0);
  atomic_init(&memory->peak, 0);
}

void tsr__memory_init_root(tsr_memory *memory, void *(*reallocate)(void *, void *, uint64_t), void *argument) {
  memory_init(memory, NULL, UINT64_MAX, "the machine");
  if (!reallocate) return;
  memory->reallocate = reallocate;
  memory->argument = argument;
}

tsr_memory *tsr__memory_process(void) {
  static tsr_memory process = {
      .reallocate = reallocate_standard, .limit = UINT64_MAX, .largest = UINT64_MAX, .name = "the machine"};
  return &process;
}

void tsr__memory_init(tsr_memory *memory, tsr_memory *parent, uint64_t limit, const char *name) {
  memory_init(memory, parent, UINT64_MAX, name);
  tsr__memory_set_limit(memory, limit);
}

/* ---- The budget ------------------------------------------------------------------------------ */

/* Charges one level without its parents. Returns false, and sets *in_use, if this would pass the limit. */
static bool charge_level(tsr_memory *memory, uint64_t size, uint64_t *in_use) {
  const uint64_t lent = atomic_load_explicit(&memory->lent, memory_order_relaxed);
  uint64_t used = atomic_load_explicit(&memory->used, memory_order_relaxed), sum;
  do {
    if (!tsr__add(used, size, &sum) || sum > tsr__add_sat(memory->limit, lent)) {
      *in_use = used;
      return false;
    }
  } while (
      !atomic_compare_exchange_weak_explicit(&memory->used, &used, sum, memory_order_relaxed, memory_order_relaxed));
  return true;
}

static void note_peak(tsr_memory *memory) {
  uint64_t used = atomic_load_explicit(&memory->used, memory_order_relaxed);
  uint64_t peak = atomic_load_explicit(&memory->peak, memory_order_relaxed);
  while (peak < used && !atomic_compare_exchange_weak_explicit(&memory->peak, &peak, used, memory_order_relaxed,
                                                               memory_order_relaxed)) {}
}

/* Releases `size` bytes from `from` and its ancestors, up to but excluding `end`; NULL: from all of them. */
static void memory_release(tsr_memory *from, const tsr_memory *end, uint64_t size) {
  for (tsr_memory *m = from; m != end; m = m->parent) {
    uint64_t before = atomic_fetch_sub_explicit(&m->used, size, memory_order_relaxed);
    assert(before >= size);
    (void)before;
  }
}

/* Asks the levels from `memory` up to `met`, whose limit was hit, to free memory. Returns true as soon as one of them
 * has. */
static bool memory_relieve(tsr_memory *memory, const tsr_memory *met) {
  for (tsr_memory *m = memory;; m = m->parent) {
    if (m->relieve && m->relieve(m->relieve_argument)) return true;
    if (m == met) return false;
  }
}

int tsr__memory_charge(tsr_memory *memory, uint64_t size, tsr_error *error) {
  for (tsr_memory *m = memory; m; m = m->parent) {
    uint64_t used;
    if (charge_level(m, size, &used)) continue;
    memory_release(memory, m, size);
    if (memory_relieve(memory, m)) return tsr__memory_charge(memory, size, error);
    return tsr__fail(
        error, TSR_BUDGET, "%llu bytes of memory requested: %s allows %llu bytes, %llu are in use (raise %s)",
        (unsigned long long)size, m->name, (unsigned long long)m->limit, (unsigned long long)used, m->name);
  }
  for (tsr_memory *m = memory; m; m = m->parent) note_peak(m); /* only now: an undone charge is no peak */
  return TSR_OK;
}

void tsr__memory_release(tsr_memory *memory, uint64_t size) { memory_release(memory, NULL, size); }

/* ---- Spare blocks ---------------------------------------------------------------------------- */

#define SPARE_LEAST (UINT64_C(64) << 10) /* bytes of the smallest block that is kept; a smaller one costs few faults */
#define SPARE_BYTES (UINT64_C(32) << 20) /* kept at most, in all slots together */
#define SPARE_PART  32 /* and at most this part of the limit of a statement */
#define SPARE_LIMIT (UINT64_C(64) << 20) /* a statement with a lower limit leaves nothing */
#define SPARE_FIT   8 /* a block may be larger than its size, which is what is charged, by this part of it */

/* A size fits 48 bits: no machine has more address space. The other 16 bits tell the capacity, the bytes that the
 * allocation really has behind the header: 0 if that is the size; else n if it is the size, rounded up to a unit, and
 * n - 1 units. */
#define SIZE_BITS  48
#define SIZE_MASK  ((UINT64_C(1) << SIZE_BITS) - 1)
#define SLACK_UNIT UINT64_C(64)
#define SLACK_MOST UINT64_C(0xffff)

static uint64_t to_units(uint64_t size) { return (size + SLACK_UNIT - 1) / SLACK_UNIT; }
static uint64_t block_size(const memory_block *b) { return b->sizes & SIZE_MASK; }

static uint64_t block_capacity(const memory_block *b) {
  const uint64_t size = block_size(b), slack = b->sizes >> SIZE_BITS;
  return slack == 0 ? size : (to_units(size) + slack - 1) * SLACK_UNIT;
}

/* Hands out `size` of the `capacity` bytes of a block. */
static void use_block(memory_block *b, tsr_memory *owner, uint64_t size, uint64_t capacity) {
  uint64_t slack = 0;
  if (capacity > size && capacity % SLACK_UNIT == 0) slack = capacity / SLACK_UNIT - to_units(size) + 1;
  b->owner = owner;
  b->sizes = size | TSR_MIN(slack, SLACK_MOST) << SIZE_BITS;
  UNPOISON(b + 1, size);
  POISON((char *)(b + 1) + size, block_capacity(b) - size);
}

/* Returns how many bytes to ask the allocator for: large blocks are rounded up by at most a SPARE_FIT-th, so that
 * blocks of about one size, like the stored bytes of a file's tiles, can take each other's place. Pages of the slack
 * that are never used are never touched. */
static uint64_t capacity_for(tsr_memory *memory, uint64_t size) {
  const tsr_spare_blocks *spares = tsr__memory_root(memory)->spares;
  if (size < SPARE_LEAST || !spares || atomic_load_explicit(&spares->most, memory_order_relaxed) < size) return size;
  uint64_t step = SPARE_LEAST / SPARE_FIT;
  while (step * 2 * SPARE_FIT <= size) step *= 2;
  const uint64_t capacity = (size + step - 1) / step * step;
  return capacity <= memory->largest ? capacity : size;
}

static void free_spare(tsr_memory *root, memory_block *b) {
  if (!b) return;
  const uint64_t capacity = block_capacity(b);
  UNPOISON(b + 1, capacity);
  atomic_fetch_sub_explicit(&root->spares->bytes, capacity, memory_order_relaxed);
  memory_release(root, NULL, capacity + sizeof *b);
  root->reallocate(root->argument, b, 0);
}

static memory_block *take_slot(tsr_spare_blocks *spares, unsigned slot) {
  if (!atomic_load_explicit(&spares->slots[slot], memory_order_relaxed)) return NULL;
  return atomic_exchange_explicit(&spares->slots[slot], NULL, memory_order_acq_rel);
}

/* Puts a block that the spares already count into an empty slot, or else in the place of another. */
static void fill_slot(tsr_memory *root, memory_block *b) {
  tsr_spare_blocks *spares = root->spares;
  for (unsigned i = 0; i < TSR_SPARE_SLOTS; i++) {
    void *none = NULL;
    if (atomic_compare_exchange_strong_explicit(&spares->slots[i], &none, b, memory_order_acq_rel,
                                                memory_order_relaxed))
      return;
  }
  const unsigned victim = atomic_fetch_add_explicit(&spares->next, 1, memory_order_relaxed) % TSR_SPARE_SLOTS;
  free_spare(root, atomic_exchange_explicit(&spares->slots[victim], b, memory_order_acq_rel));
}

/* Gives blocks back until at most `most` bytes are kept. */
static void trim_spares(tsr_memory *root, uint64_t most) {
  tsr_spare_blocks *spares = root->spares;
  for (unsigned i = 0; i < TSR_SPARE_SLOTS && atomic_load_explicit(&spares->bytes, memory_order_relaxed) > most; i++) {
    const unsigned victim = atomic_fetch_add_explicit(&spares->next, 1, memory_order_relaxed) % TSR_SPARE_SLOTS;
    free_spare(root, take_slot(spares, victim));
  }
}

/* Keeps a block that was freed. Returns false if the caller must free it. */
static bool keep_spare(tsr_memory *root, memory_block *b) {
  const uint64_t capacity = block_capacity(b);
  if (!root->spares || capacity < SPARE_LEAST) return false;
  const uint64_t most = atomic_load_explicit(&root->spares->most, memory_order_relaxed);
  if (capacity > most / 2 || tsr__memory_charge(root, capacity + sizeof *b, NULL) < 0) return false;
  trim_spares(root, most - capacity);
  use_block(b, NULL, capacity, capacity);
  POISON(b + 1, capacity);
  atomic_fetch_add_explicit(&root->spares->bytes, capacity, memory_order_relaxed);
  fill_slot(root, b);
  return true;
}

/* Takes a spare block for `size` bytes. Returns NULL if none fits. Its content is whatever it was. */
static memory_block *take_spare(tsr_memory *root, uint64_t size) {
  if (!root->spares || size < SPARE_LEAST) return NULL;
  for (unsigned i = 0; i < TSR_SPARE_SLOTS; i++) {
    memory_block *b = take_slot(root->spares, i);
    if (!b) continue;
    const uint64_t capacity = block_capacity(b);
    if (capacity >= size && capacity - size <= size / SPARE_FIT) {
      atomic_fetch_sub_explicit(&root->spares->bytes, capacity, memory_order_relaxed);
      memory_release(root, NULL, capacity + sizeof *b);
      return b;
    }
    fill_slot(root, b);
  }
  return NULL;
}

/* ---- Huge pages -------------------------------------------------------------------------------------------------- */

/* Bytes of a block that has a huge page wherever it begins, and mostly several. */
#define ADVISE_LEAST (UINT64_C(4) << 20)

void tsr_memory_advise(void *block, uint64_t size) {
  const uint64_t before = (TSR_REGION_HUGE - (uintptr_t)block % TSR_REGION_HUGE) % TSR_REGION_HUGE;
  if (size < ADVISE_LEAST || !tsr__huge_pages()) return;
  tsr__advise_huge_pages((uint8_t *)block + before, (size - before) / TSR_REGION_HUGE * TSR_REGION_HUGE);
}

/* ---- Pieces of regions ------------------------------------------------------------------------------------------- */

#define REGION_FROM (UINT64_C(4) << 20) /* bytes in use from which there are regions */
/* A region is aligned within its block, whose other pages are never touched. */
#define REGION_BLOCK (TSR_REGION_BYTES + TSR_REGION_HUGE)
#define PIECE_EXTRA  SLACK_UNIT /* bytes of a piece for the header, and so that its capacity is whole units of slack */

static uint32_t piece_units(uint64_t size) { return tsr__region_units(size + PIECE_EXTRA); }

/* Charges a root for memory that it has whether or not a block uses it, which no limit forbids. */
static void charge_root(tsr_memory *root, uint64_t size) {
  atomic_fetch_add_explicit(&root->used, size, memory_order_relaxed);
}

/* Returns an empty region to the allocator if the others have `room` bytes left. */
static bool remove_region(tsr_memory *root, uint64_t room) {
  uint8_t *block = tsr__regions_remove(&root->spares->regions, room);
  if (!block) return false;
  UNPOISON(block, REGION_BLOCK);
  root->reallocate(root->argument, block, 0);
  memory_release(root, NULL, REGION_BLOCK);
  return true;
}

/* Adds a region if at most half of one and a quarter of all others is free, in pieces that are too small. */
static bool add_region(tsr_memory *root) {
  tsr_spare_blocks *spares = root->spares;
  const uint64_t room = atomic_load_explicit(&spares->regions.room, memory_order_relaxed),
                 count = atomic_load_explicit(&spares->regions.count, memory_order_relaxed);
  if (TSR_REGION_BYTES > atomic_load_explicit(&spares->most, memory_order_relaxed) ||
      room > TSR_REGION_BYTES / 2 + count * TSR_REGION_BYTES / 4)
    return false;
  uint8_t *block = root->reallocate(root->argument, NULL, REGION_BLOCK);
  if (!block) return false;
  uint8_t *base = block + (TSR_REGION_HUGE - (uintptr_t)block % TSR_REGION_HUGE) % TSR_REGION_HUGE;
  tsr__advise_huge_pages(base, TSR_REGION_BYTES);
  POISON(base, TSR_REGION_BYTES);
  charge_root(root, REGION_BLOCK);
  note_peak(root);
  if (tsr__regions_add(&spares->regions, base, block)) return true;
  UNPOISON(base, TSR_REGION_BYTES);
  root->reallocate(root->argument, block, 0);
  memory_release(root, NULL, REGION_BLOCK);
  return false;
}

/* Takes a piece of a region for a block of `size` bytes. Returns NULL if the block has to be allocated. */
static memory_block *take_piece(tsr_memory *root, uint64_t size) {
  tsr_spare_blocks *spares = root->spares;
  if (!spares || !spares->huge || size + PIECE_EXTRA > TSR_REGION_LARGEST || REGION_BLOCK > root->largest ||
      atomic_load_explicit(&root->used, memory_order_relaxed) < REGION_FROM + size) /* which is counted already */
    return NULL;
  const uint32_t units = piece_units(size);
  bool full;
  memory_block *b = tsr__regions_take(&spares->regions, units, &full);
  if (!b && full && add_region(root)) b = tsr__regions_take(&spares->regions, units, &full);
  if (b) UNPOISON(b, sizeof *b);
  return b;
}

static void use_piece(memory_block *b, tsr_memory *owner, uint64_t size) {
  use_block(b, owner, size, piece_units(size) * TSR_REGION_UNIT - PIECE_EXTRA);
  memory_release(tsr__memory_root(owner), NULL, size + sizeof *b);
}

/* Keeps the charge of a piece, which changes its size in place, from the root. */
static void resize_piece(tsr_memory *root, uint64_t before, uint64_t size) {
  if (size > before) memory_release(root, NULL, size - before);
  else charge_root(root, before - size);
}

static bool is_piece(const tsr_memory *root, const memory_block *b) {
  return root->spares && tsr__regions_have(&root->spares->regions, b);
}

/* Gives back a piece. The caller releases its bytes, of which the root was relieved when the piece was taken. */
static void give_piece(tsr_memory *root, memory_block *b) {
  const uint64_t capacity = block_capacity(b);
  charge_root(root, block_size(b) + sizeof *b);
  POISON(b, capacity + PIECE_EXTRA);
  tsr__regions_give(&root->spares->regions, b, piece_units(capacity));
  remove_region(root, TSR_REGION_BYTES);
}

/* ---- What is kept ------------------------------------------------------------------------------------------------ */

void tsr__memory_set_limit(tsr_memory *memory, uint64_t limit) {
  if (limit == memory->limit) return; /* a reader sets it for each look-up */
  tsr_memory *root = tsr__memory_root(memory);
  memory->limit = limit;
  if (!root->spares || limit == UINT64_MAX) return;
  const uint64_t most = limit < SPARE_LIMIT ? 0 : TSR_MIN(SPARE_BYTES, limit / SPARE_PART);
  uint64_t before = atomic_load_explicit(&root->spares->most, memory_order_relaxed);
  while (most < before && !atomic_compare_exchange_weak_explicit(&root->spares->most, &before, most,
                                                                 memory_order_relaxed, memory_order_relaxed)) {}
  if (most < before) trim_spares(root, most);
}

void tsr__spare_blocks_init(tsr_spare_blocks *spares, bool huge) {
  memset(spares, 0, sizeof *spares);
  atomic_init(&spares->most, SPARE_BYTES);
  tsr__regions_init(&spares->regions);
  spares->huge = huge;
}

bool tsr__spare_blocks_release(tsr_memory *root) {
  bool any = false;
  for (unsigned i = 0; i < TSR_SPARE_SLOTS && root->spares; i++) {
    memory_block *b = take_slot(root->spares, i);
    any = any || b;
    free_spare(root, b);
  }
  while (root->spares && remove_region(root, 0)) any = true;
  return any;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* Bytes of the largest block: sizes have 48 bits, and the allocator may round up. */
#define BLOCK_MOST TSR_MIN((uint64_t)PTRDIFF_MAX / 8 * 7 - sizeof(memory_block), SIZE_MASK / 2)

/* Charges a block of `size` bytes and its header. */
static int charge_block(tsr_memory *memory, uint64_t size, tsr_error *error) {
  if (size > BLOCK_MOST)
    return tsr__fail(error, TSR_BUDGET, "%llu bytes of memory requested: more than can be addressed",
                     (unsigned long long)size);
  return tsr__memory_charge(memory, size + sizeof(memory_block), error);
}

static int fail_system(tsr_memory *memory, uint64_t size, tsr_error *error) {
  const uint64_t largest = memory->largest;
  if (size > largest) /* the allocator never gives a block of this size, however much memory is free */
    return tsr__fail(error, TSR_BUDGET, "%llu bytes of memory requested: one block can have at most %llu",
                     (unsigned long long)size, (unsigned long long)largest);
  return tsr__fail(error, TSR_NOMEM, "%llu bytes of memory requested: the system has no more",
                   (unsigned long long)size);
}

/* Stores a pointer to a block in a pointer of any type. memcpy, because writing a `T *` as a `void *` would break C's
 * aliasing rules. */
static void set_pointer(void *pointer, void *block) { memcpy(pointer, &block, sizeof block); }

/* Calls the allocator; spare blocks make room if it fails. */
static memory_block *allocate_block(tsr_memory *memory, memory_block *old, uint64_t capacity, bool zero) {
  const uint64_t bytes = capacity + sizeof(memory_block);
  const bool standard = memory->reallocate == reallocate_standard; /* calloc skips pages that are known to be zero */
  memory_block *b;
  do b = zero && standard ? calloc(1, bytes) : memory->reallocate(memory->argument, old, bytes);
  while (!b && tsr__spare_blocks_release(tsr__memory_root(memory)));
  if (b && !old) tsr_memory_advise(b, bytes);
  if (b && zero && !standard) memset(b, 0, bytes);
  return b;
}

static int memory_allocate(tsr_memory *memory, uint64_t size, bool zero, void *pointer, tsr_error *error) {
  TSR_TRY(charge_block(memory, size, error));
  tsr_memory *root = tsr__memory_root(memory);
  memory_block *b = size < SPARE_LEAST ? NULL : take_spare(root, size);
  if (b) {
    use_block(b, memory, size, block_capacity(b));
    if (zero) memset(b + 1, 0, size);
  } else if (size >= SPARE_LEAST && !zero &&
             (b = take_piece(root, size)) != NULL) { /* calloc's pages are zero as they come */
    use_piece(b, memory, size);
  } else {
    const uint64_t capacity = capacity_for(memory, size);
    b = allocate_block(memory, NULL, capacity, zero);
    if (!b) {
      memory_release(memory, NULL, size + sizeof *b);
      return fail_system(memory, size, error);
    }
    use_block(b, memory, size, capacity);
  }
  set_pointer(pointer, b + 1);
  return TSR_OK;
}

int tsr__alloc(tsr_memory *memory, uint64_t size, void *pointer, tsr_error *error) {
  return memory_allocate(memory, size, false, pointer, error);
}

int tsr__alloc_zero(tsr_memory *memory, uint64_t size, void *pointer, tsr_error *error) {
  return memory_allocate(memory, size, true, pointer, error);
}

/* Checked multiplication: counts of elements come from files. */
static int memory_product(uint64_t count, uint64_t size, uint64_t *bytes, tsr_error *error) {
  if (tsr__mul(count, size, bytes)) return TSR_OK;
  return tsr__fail(error, TSR_BUDGET, "memory for %llu times %llu bytes requested: more than can be addressed",
                   (unsigned long long)count, (unsigned long long)size);
}

int tsr__alloc_array(tsr_memory *memory, uint64_t count, uint64_t size, void *pointer, tsr_error *error) {
  uint64_t bytes;
  TSR_TRY(memory_product(count, size, &bytes, error));
  return memory_allocate(memory, bytes, true, pointer, error);
}

int tsr__alloc_raw(tsr_memory *memory, uint64_t count, uint64_t size, void *pointer, tsr_error *error) {
  uint64_t bytes;
  TSR_TRY(memory_product(count, size, &bytes, error));
  return memory_allocate(memory, bytes, false, pointer, error);
}

int tsr__realloc(tsr_memory *memory, uint64_t size, void *pointer, tsr_error *error) {
  memory_block *old;
  memcpy(&old, pointer, sizeof old);
  if (!old) return memory_allocate(memory, size, false, pointer, error);
  old--;
  const uint64_t before = block_size(old), capacity = block_capacity(old);
  assert(old->owner == memory);
  if (size > before) {
    if (size > BLOCK_MOST) return charge_block(memory, size, error);
    TSR_TRY(tsr__memory_charge(memory, size - before, error));
  }
  const bool fits = size <= capacity && size >= SPARE_LEAST && capacity - size <= size / SPARE_FIT;
  const bool piece = capacity >= SPARE_LEAST && is_piece(tsr__memory_root(memory), old);
  if (fits) {
    if (piece) resize_piece(tsr__memory_root(memory), before, size);
    use_block(old, memory, size, capacity);
  } else {
    const uint64_t wanted = capacity_for(memory, size);
    UNPOISON(old + 1, capacity);
    memory_block *b = allocate_block(memory, piece ? NULL : old, wanted, false);
    if (!b) {
      use_block(old, memory, before, capacity);
      if (size <= before) return TSR_OK; /* the old block is large enough */
      memory_release(memory, NULL, size - before);
      return fail_system(memory, size, error);
    }
    if (piece) {
      memcpy(b + 1, old + 1, TSR_MIN(before, size));
      give_piece(tsr__memory_root(memory), old);
    }
    use_block(b, memory, size, wanted);
    set_pointer(pointer, b + 1);
  }
  if (size < before) memory_release(memory, NULL, before - size);
  return TSR_OK;
}

int tsr__realloc_array(tsr_memory *memory, uint64_t count, uint64_t size, void *pointer, tsr_error *error) {
  uint64_t bytes;
  TSR_TRY(memory_product(count, size, &bytes, error));
  return tsr__realloc(memory, bytes, pointer, error);
}

void tsr__free(void *pointer) {
  if (!pointer) return;
  memory_block *b = (memory_block *)pointer - 1;
  tsr_memory *owner = b->owner;
  const uint64_t size = block_size(b) + sizeof *b, capacity = block_capacity(b);
  tsr_memory *root = tsr__memory_root(owner);
  if (capacity >= SPARE_LEAST && is_piece(root, b)) {
    give_piece(root, b);
  } else if (capacity < SPARE_LEAST || !keep_spare(root, b)) {
    UNPOISON(b + 1, capacity);
    owner->reallocate(owner->argument, b, 0);
  }
  memory_release(owner, NULL, size);
}

void tsr__wipe(void *pointer, uint64_t size) {
  if (size == 0) return;
  memset(pointer, 0, size);
  __asm__ volatile("" : : "r"(pointer) : "memory"); /* the compiler must assume that the zeros are read */
}

/* ---- The arena ------------------------------------------------------------------------------- */

/* Allocations come from the first block of the list, up to arena->at. The other blocks are full, or hold one large
 * allocation each. */
typedef struct tsr_arena_block {
  struct tsr_arena_block *next;
  _Alignas(8) uint64_t capacity; /* bytes behind this header */
} arena_block;
_Static_assert(sizeof(arena_block) == 16, "allocations are aligned to 16 bytes");

#define ARENA_FIRST   1024u /* bytes of the first block, with both headers */
#define ARENA_LARGEST (256u * 1024) /* bytes at which blocks stop doubling, with both headers */
/* Subtracted so that the system allocates 2^n bytes. */
#define ARENA_OVERHEAD (sizeof(memory_block) + sizeof(arena_block))

void tsr__arena_init(tsr_arena *arena, tsr_memory *memory) { *arena = (tsr_arena){.memory = memory}; }

void tsr__arena_lend(tsr_arena *arena, tsr_memory *memory, void *room, uint64_t size) {
  arena_block *b = room;
  assert(size >= sizeof *b && (uintptr_t)room % _Alignof(arena_block) == 0);
  *b = (arena_block){.capacity = (size - sizeof *b) & ~UINT64_C(15)};
  *arena = (tsr_arena){.memory = memory, .blocks = b, .capacity = b->capacity, .lent = b};
  POISON(b + 1, b->capacity);
}

static void free_block(const tsr_arena *arena, arena_block *b) {
  UNPOISON(b + 1, b->capacity);
  if (b == arena->lent) b->next = NULL;
  else tsr__free(b);
}

uint64_t tsr__arena_size(const tsr_arena *arena) {
  uint64_t size = arena->at;
  for (const arena_block *b = arena->blocks ? arena->blocks->next : NULL; b; b = b->next) size += b->capacity;
  return size;
}

void tsr__arena_release(tsr_arena *arena) {
  for (arena_block *b = arena->blocks, *next; b; b = next) {
    next = b->next;
    free_block(arena, b);
  }
  tsr__arena_init(arena, arena->memory);
}

void tsr__arena_reset(tsr_arena *arena) {
  arena_block *largest = arena->blocks;
  if (!largest) return; /* it has handed out nothing */
  for (arena_block *b = largest; b; b = b->next)
    if (b->capacity > largest->capacity) largest = b;
  for (arena_block *b = arena->blocks, *next; b; b = next) {
    next = b->next;
    if (b != largest) free_block(arena, b);
  }
  *arena = (tsr_arena){.memory = arena->memory, .lent = largest == arena->lent ? largest : NULL};
  largest->next = NULL;
  arena->blocks = largest;
  arena->capacity = largest->capacity;
  POISON(largest + 1, largest->capacity);
}

/* Adds a block with room for at least `size` bytes, a multiple of 16, and hands out its first `size` bytes. */
static int arena_grow(tsr_arena *arena, uint64_t size, void **bytes, tsr_error *error) {
  uint64_t usual = arena->blocks ? TSR_MIN(2 * (arena->capacity + ARENA_OVERHEAD), ARENA_LARGEST) : ARENA_FIRST;
  uint64_t capacity = TSR_MAX(usual - ARENA_OVERHEAD, size);
  arena_block *b;
  TSR_TRY(TSR_ALLOC_RAW_BYTES(arena->memory, tsr__add_sat(capacity, sizeof(arena_block)), &b, error));
  b->capacity = capacity;
  POISON(b + 1, capacity);
  *bytes = b + 1;
  if (arena->blocks &&
      arena->capacity - arena->at > capacity - size) { /* the current block has more room left: keep filling it */
    b->next = arena->blocks->next;
    arena->blocks->next = b;
    return TSR_OK;
  }
  b->next = arena->blocks;
  arena->blocks = b;
  arena->capacity = capacity;
  arena->at = size;
  return TSR_OK;
}

int tsr__arena_alloc(tsr_arena *arena, uint64_t size, void *pointer, tsr_error *error) {
  uint64_t rounded = tsr__add_sat(TSR_MAX(size, 1), 15) & ~UINT64_C(15);
  void *bytes;
  if (rounded <= arena->capacity - arena->at) {
    bytes = (uint8_t *)(arena->blocks + 1) + arena->at;
    arena->at += rounded;
  } else {
    TSR_TRY(arena_grow(arena, rounded, &bytes, error));
  }
  UNPOISON(bytes, size);
  set_pointer(pointer, bytes);
  return TSR_OK;
}

int tsr__arena_array(tsr_arena *arena, uint64_t count, uint64_t size, void *pointer, tsr_error *error) {
  uint64_t bytes;
  TSR_TRY(memory_product(count, size, &bytes, error));
  void *zeroed;
  TSR_TRY(tsr__arena_alloc(arena, bytes, &zeroed, error));
  memset(zeroed, 0, bytes);
  set_pointer(pointer, zeroed);
  return TSR_OK;
}

int tsr__arena_raw(tsr_arena *arena, uint64_t count, uint64_t size, void *pointer, tsr_error *error) {
  uint64_t bytes;
  TSR_TRY(memory_product(count, size, &bytes, error));
  return tsr__arena_alloc(arena, bytes, pointer, error);
}

int tsr__arena_copy(tsr_arena *arena, const void *bytes, uint64_t size, void *pointer, tsr_error *error) {
  uint8_t *copy;
  TSR_TRY(tsr__arena_alloc(arena, tsr__add_sat(size, 1), &copy, error));
  if (size > 0) memcpy(copy, bytes, size);
  copy[size] = 0;
  set_pointer(pointer, copy);
  return TSR_OK;
}

int tsr__arena_grow(tsr_arena *arena, uint64_t size, void *list, uint64_t count, uint64_t *capacity, uint64_t least,
                    tsr_error *error) {
  const uint64_t larger = TSR_MAX(least, tsr__mul_sat(*capacity, 2));
  void *before, *copy;
  TSR_TRY(tsr__arena_raw(arena, larger, size, &copy, error));
  memcpy(&before, list, sizeof before);
  if (count > 0) memcpy(copy, before, count * size);
  set_pointer(list, copy);
  *capacity = larger;
  return TSR_OK;
}

/* ---- The growable buffer --------------------------------------------------------------------- */

#define ROOM_KEPT UINT64_C(2048) /* bytes; a buffer whose capacity is at most twice this is not shrunk */

/* Moves the bytes of a lent buffer into memory of its own. */
static int buffer_own(tsr_buffer *buffer, uint64_t capacity, tsr_error *error) {
  uint8_t *own;
  TSR_TRY(TSR_ALLOC_RAW(buffer->memory, capacity, &own, error));
  if (buffer->size > 0) memcpy(own, buffer->data, buffer->size);
  buffer->data = own;
  buffer->capacity = capacity;
  buffer->lent = false;
  return TSR_OK;
}

int tsr__buffer_reserve(tsr_buffer *buffer, uint64_t more, tsr_error *error) {
  if (more <= buffer->capacity - buffer->size) return TSR_OK;
  if (buffer->lent) return buffer_own(buffer, tsr__add_sat(buffer->size, more), error);
  const uint64_t need = tsr__add_sat(buffer->size, more);
  const uint64_t generous = TSR_MAX(need, TSR_MAX(tsr__add_sat(buffer->capacity, buffer->capacity / 2), 64));
  /* If the budget has no room for as much, it may have room for less. The size is exact only close to the budget's end:
   * otherwise every append there would copy all that came before. */
  for (uint64_t spare = generous - need; spare > 0; spare = spare < 128 ? 0 : spare / 2)
    if (TSR_REALLOC_ARRAY(buffer->memory, need + spare, &buffer->data, NULL) >= 0) {
      buffer->capacity = need + spare;
      return TSR_OK;
    }
  TSR_TRY(TSR_REALLOC_ARRAY(buffer->memory, need, &buffer->data, error));
  buffer->capacity = need;
  return TSR_OK;
}

int tsr__buffer_reserve_exactly(tsr_buffer *buffer, uint64_t more, tsr_error *error) {
  void *data = buffer->data;
  if (more <= buffer->capacity - buffer->size) return TSR_OK;
  const uint64_t need = tsr__add_sat(buffer->size, more);
  if (buffer->lent) return buffer_own(buffer, need, error);
  TSR_TRY(tsr__realloc(buffer->memory, need, &data, error));
  buffer->data = data;
  buffer->capacity = need;
  return TSR_OK;
}

int tsr__buffer_append(tsr_buffer *buffer, const void *bytes, uint64_t size, tsr_error *error) {
  TSR_TRY(tsr__buffer_reserve(buffer, size, error));
  if (size > 0) memcpy(buffer->data + buffer->size, bytes, size);
  buffer->size += size;
  return TSR_OK;
}

int tsr__buffer_append_u8(tsr_buffer *buffer, uint8_t value, tsr_error *error) {
  return tsr__buffer_append(buffer, &value, 1, error);
}

int tsr__buffer_append_u32(tsr_buffer *buffer, uint32_t value, tsr_error *error) {
  return tsr__buffer_append(buffer, &value, 4, error);
}

int tsr__buffer_append_u64(tsr_buffer *buffer, uint64_t value, tsr_error *error) {
  return tsr__buffer_append(buffer, &value, 8, error);
}

int tsr__buffer_printf(tsr_buffer *buffer, tsr_error *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (length < 0) return tsr__fail(error, TSR_ERROR, "a text cannot be printed by the format '%s'", format);
  TSR_TRY(tsr__buffer_reserve(buffer, (uint64_t)length + 1, error));
  va_start(arguments, format);
  vsnprintf((char *)buffer->data + buffer->size, (size_t)length + 1, format, arguments);
  va_end(arguments);
  buffer->size += (uint64_t)length;
  return TSR_OK;
}

void tsr__buffer_shrink(tsr_buffer *buffer) {
  const uint64_t enough = tsr__mul_sat(2, TSR_MAX(buffer->size, ROOM_KEPT));
  if (buffer->size == 0) tsr__buffer_release(buffer);
  else if (!buffer->lent && buffer->capacity > enough &&
           TSR_REALLOC_ARRAY(buffer->memory, enough, &buffer->data, NULL) >= 0)
    buffer->capacity = enough;
}

void tsr__buffer_release(tsr_buffer *buffer) {
  if (!buffer->lent) tsr__free(buffer->data);
  *buffer = (tsr_buffer){.memory = buffer->memory};
}
