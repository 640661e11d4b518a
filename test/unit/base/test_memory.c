/* test_memory.c: budgets in a chain of owners, blocks, arenas, buffers; every allocation made to fail once. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/memory.h"

#define HEADER    16u /* bytes of a block's header, which are charged, too */
#define ALIGNMENT (2 * sizeof(void *)) /* of the machine's allocator; blocks and arenas keep it */

/* An allocator that counts its calls and fails at the call number `fail_at`. */
typedef struct faulty {
  uint64_t calls, fail_at; /* `fail_at` counts from 1; 0: no call fails */
  int64_t live;
} faulty;

static void *faulty_reallocate(void *argument, void *pointer, uint64_t size) {
  faulty *f = argument;
  if (size == 0) {
    f->live -= pointer != NULL;
    free(pointer);
    return NULL;
  }
  if (++f->calls == f->fail_at) return NULL;
  f->live += pointer == NULL;
  return realloc(pointer, size);
}

static void test_a_block_is_charged_to_all_parents(void **state) {
  tsr_memory root, all, query;
  tsr__memory_init_root(&root, NULL, NULL);
  tsr__memory_init(&all, &root, 1000, "memory_mb");
  tsr__memory_init(&query, &all, 600, "query_mb");
  void *a = NULL, *b = NULL, *none = &root;
  tsr_error error = {0};
  assert_int_equal(tsr__alloc(&query, 400, &a, &error), TSR_OK);
  assert_int_equal((uintptr_t)a % ALIGNMENT, 0);
  assert_true(query.used == 400 + HEADER && all.used == 400 + HEADER && root.used == 400 + HEADER);

  assert_int_equal(tsr__alloc(&query, 300, &none, &error), TSR_BUDGET); /* past the child's limit */
  assert_string_equal(error.message,
                      "316 bytes of memory requested: query_mb allows 600 bytes, 416 are in use (raise query_mb)");
  assert_ptr_equal(none, &root);
  assert_int_equal(tsr__alloc(&all, 500, &b, &error), TSR_OK);
  /* Past the parent's limit: the charge of the child is taken back. */
  assert_int_equal(tsr__alloc(&query, 100, &none, &error), TSR_BUDGET);
  assert_string_equal(error.message,
                      "116 bytes of memory requested: memory_mb allows 1000 bytes, 932 are in use (raise memory_mb)");
  assert_true(query.used == 416 && all.used == 932 && root.used == 932);
  assert_int_equal(tsr__memory_charge(&query, 68, NULL), TSR_OK); /* up to the limit exactly */
  assert_int_equal(tsr__memory_charge(&query, 1, NULL), TSR_BUDGET);
  tsr__memory_release(&query, 68);
  tsr__free(a);
  assert_true(query.used == 0 && all.used == 516);
  tsr__free(b);
  tsr__free(NULL);
  assert_true(all.used == 0 && root.used == 0);
  assert_true(query.peak == 484 && all.peak == 1000 && root.peak == 1000);
}

static void test_sizes_that_overflow_are_refused(void **state) {
  tsr_memory root, m;
  tsr__memory_init_root(&root, NULL, NULL);
  tsr__memory_init(&m, &root, UINT64_MAX, "none");
  static const uint64_t absurd[] = {UINT64_MAX, UINT64_MAX - 15, UINT64_MAX - 16, (uint64_t)INT64_MAX,
                                    (uint64_t)INT64_MAX - 15};
  void *p = NULL;
  tsr_error error = {0};
  for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
    assert_int_equal(tsr__alloc(&m, absurd[i], &p, &error), TSR_BUDGET);
    assert_int_equal(tsr__alloc_zero(&m, absurd[i], &p, &error), TSR_BUDGET);
    assert_int_equal(tsr__realloc(&m, absurd[i], &p, &error), TSR_BUDGET);
    assert_null(p);
  }
  assert_int_equal(tsr__alloc_array(&m, UINT64_C(1) << 33, UINT64_C(1) << 33, &p, &error), TSR_BUDGET);
  assert_non_null(strstr(error.message, "8589934592 times 8589934592"));
  assert_int_equal(tsr__alloc_array(&m, UINT64_MAX, 1, &p, &error), TSR_BUDGET);
  assert_null(p);
  assert_int_equal(m.used, 0);

  assert_int_equal(tsr__alloc(&m, 0, &p, &error), TSR_OK);
  assert_non_null(p);
  tsr__free(p);
  assert_int_equal(tsr__alloc_array(&m, 0, 8, &p, &error), TSR_OK);
  tsr__free(p);
  assert_int_equal(tsr__alloc_array(&m, 100, 8, &p, &error), TSR_OK);
  for (int i = 0; i < 800; i++) assert_int_equal(((uint8_t *)p)[i], 0);
  tsr__free(p);
  assert_int_equal(m.used, 0);
}

/* TSR_BUDGET: past a limit, or past the largest block of the allocator. TSR_NOMEM: the allocator has no more memory. */
static void test_limits_give_budget_and_a_failing_allocator_nomem(void **state) {
  faulty f = {0};
  tsr_memory root, m;
  tsr_error error = {0};
  void *p = NULL;
  tsr__memory_init_root(&root, faulty_reallocate, &f);
  root.largest = 1000;
  tsr__memory_init(&m, &root, 10000, "memory_mb");
  f.fail_at = f.calls + 1;
  assert_int_equal(tsr__alloc(&m, 1001, &p, &error), TSR_BUDGET);
  assert_string_equal(error.message, "1001 bytes of memory requested: one block can have at most 1000");
  f.fail_at = f.calls + 1;
  assert_int_equal(tsr__alloc(&m, 1000, &p, &error), TSR_NOMEM);
  assert_int_equal(tsr__alloc(&m, 10000, &p, &error), TSR_BUDGET);
  assert_true(tsr__lacks_memory(TSR_NOMEM) && tsr__lacks_memory(TSR_BUDGET) && !tsr__lacks_memory(TSR_TOOBIG));
  assert_true(m.used == 0 && root.used == 0 && f.live == 0);
}

typedef struct hoard { /* blocks that can be spared */
  tsr_memory *memory;
  void *blocks[3];
  unsigned count, asked;
} hoard;

static bool give_back(void *argument) {
  hoard *h = argument;
  h->asked++;
  if (h->count == 0) return false;
  tsr__free(h->blocks[--h->count]);
  return true;
}

static void test_a_charge_past_a_limit_asks_for_relief(void **state) {
  tsr_memory root, m, child;
  tsr_error error = {0};
  void *p = NULL;
  hoard h = {.memory = &m};
  tsr__memory_init_root(&root, NULL, NULL);
  tsr__memory_init(&m, &root, 1000, "memory_mb");
  tsr__memory_init(&child, &m, 800, "memory_mb");
  m.relieve = give_back;
  m.relieve_argument = &h;
  for (; h.count < 3; h.count++) assert_int_equal(tsr__alloc(&m, 184, &h.blocks[h.count], &error), TSR_OK);
  assert_int_equal(tsr__alloc(&child, 484, &p, &error), TSR_OK); /* the parent gives one block back */
  assert_true(h.count == 2 && h.asked == 1 && m.used == 900);
  /* Past the child's own limit: the parent cannot help. */
  assert_int_equal(tsr__alloc(&child, 484, &h.blocks[2], &error), TSR_BUDGET);
  assert_true(h.count == 2 && h.asked == 1 && m.used == 900);
  assert_int_equal(tsr__realloc(&child, 684, &p, &error), TSR_OK);
  assert_true(h.count == 1 && m.used == 900);
  assert_int_equal(tsr__alloc(&m, 484, &h.blocks[2], &error), TSR_BUDGET);
  assert_true(h.count == 0 && m.used == 700);
  tsr__free(p);
  assert_true(m.used == 0 && root.used == 0);
}

static void test_realloc_charges_the_difference(void **state) {
  faulty f = {0};
  tsr_memory root, m;
  tsr__memory_init_root(&root, faulty_reallocate, &f);
  tsr__memory_init(&m, &root, 1000, "small");
  void *p = NULL;
  assert_int_equal(tsr__realloc(&m, 10, &p, NULL), TSR_OK);
  memcpy(p, "0123456789", 10);
  assert_int_equal(tsr__realloc(&m, 500, &p, NULL), TSR_OK);
  assert_memory_equal(p, "0123456789", 10);
  assert_int_equal(m.used, 516);
  void *before = p;
  tsr_error error = {0};
  assert_int_equal(tsr__realloc(&m, 985, &p, &error), TSR_BUDGET);
  assert_int_equal(tsr__realloc(&m, UINT64_MAX, &p, &error), TSR_BUDGET);
  assert_ptr_equal(p, before);
  f.fail_at = f.calls + 1;
  assert_int_equal(tsr__realloc(&m, 600, &p, &error), TSR_NOMEM);
  assert_non_null(strstr(error.message, "600 bytes"));
  assert_ptr_equal(p, before);
  assert_int_equal(m.used, 516);
  f.fail_at = f.calls + 1; /* an allocator that cannot shrink */
  assert_int_equal(tsr__realloc(&m, 5, &p, &error), TSR_OK);
  assert_memory_equal(p, "01234", 5);
  assert_int_equal(tsr__realloc(&m, 5, &p, &error), TSR_OK);
  assert_int_equal(m.used, 21);
  assert_int_equal(tsr__realloc(&m, 984, &p, &error), TSR_OK);
  assert_memory_equal(p, "01234", 5);
  tsr__free(p);
  assert_true(m.used == 0 && root.used == 0 && f.live == 0);
}

typedef struct with_tail {
  uint64_t count;
  uint32_t items[];
} with_tail;

static void test_typed_allocations_take_the_size_from_the_pointer(void **state) {
  tsr_memory root, memory;
  tsr_arena arena;
  tsr_error error;
  uint64_t *numbers = NULL, *same;
  const char *text;
  with_tail *tail = NULL;
  tsr__memory_init_root(&root, NULL, NULL);
  tsr__memory_init(&memory, &root, 4096, "query_mb");
  tsr__arena_init(&arena, &memory);
  assert_int_equal(TSR_ALLOC_ARRAY(&memory, 5, &numbers, &error), TSR_OK);
  assert_int_equal(memory.used, 5 * sizeof(uint64_t) + HEADER);
  for (int i = 0; i < 5; i++) assert_int_equal(numbers[i], 0);
  numbers[4] = 7;
  assert_int_equal(TSR_REALLOC_ARRAY(&memory, 9, &numbers, &error), TSR_OK);
  assert_int_equal(memory.used, 9 * sizeof(uint64_t) + HEADER);
  assert_int_equal(numbers[4], 7);
  same = numbers;
  assert_int_equal(TSR_REALLOC_ARRAY(&memory, UINT64_MAX / 4, &numbers, &error), TSR_BUDGET);
  assert_int_equal(TSR_ALLOC_ARRAY(&memory, UINT64_MAX / 4, &numbers, &error), TSR_BUDGET);
  assert_int_equal(TSR_ALLOC_RAW(&memory, UINT64_MAX / 4, &numbers, &error), TSR_BUDGET);
  assert_int_equal(TSR_ALLOC_RAW(&memory, 4096, &numbers, &error), TSR_BUDGET);
  assert_int_equal(TSR_ARENA_ARRAY(&arena, UINT64_MAX / 4, &numbers, &error), TSR_BUDGET);
  assert_int_equal(TSR_ARENA_RAW(&arena, UINT64_MAX / 4, &numbers, &error), TSR_BUDGET);
  assert_ptr_equal(numbers, same); /* a failure leaves the pointer as it was */
  assert_int_equal(TSR_ALLOC_BYTES(&memory, sizeof(with_tail) + 3 * sizeof(uint32_t), &tail, &error), TSR_OK);
  assert_true(tail->count == 0 && tail->items[2] == 0);
  tsr__free(tail);
  assert_int_equal(TSR_ALLOC(&memory, &tail, &error), TSR_OK);
  assert_int_equal(tail->count, 0);
  assert_int_equal(TSR_ARENA_COPY(&arena, "abc", 2, &text, &error), TSR_OK);
  assert_string_equal(text, "ab");
  assert_int_equal(TSR_ARENA_RAW_BYTES(&arena, 40, &same, &error), TSR_OK);
  same[4] = 1;
  tsr__free(tail);
  tsr__free(numbers);
  tsr__arena_release(&arena);
  assert_int_equal(root.used, 0);
}

/* Calloc is used with the C library's allocator only. */
static void test_zeroed_blocks_of_a_custom_allocator_are_zero(void **state) {
  faulty f = {0};
  tsr_memory root;
  tsr__memory_init_root(&root, faulty_reallocate, &f);
  void *p;
  assert_int_equal(tsr__alloc(&root, 4096, &p, NULL), TSR_OK);
  memset(p, 0xff, 4096);
  tsr__free(p);
  assert_int_equal(tsr__alloc_zero(&root, 4096, &p, NULL), TSR_OK);
  for (int i = 0; i < 4096; i++) assert_int_equal(((uint8_t *)p)[i], 0);
  tsr__free(p);
  f.fail_at = f.calls + 1;
  assert_int_equal(tsr__alloc_zero(&root, 1, &p, NULL), TSR_NOMEM);
  assert_true(root.used == 0 && f.live == 0);
}

static void *churn(void *argument) {
  tsr_memory *m = argument;
  for (int i = 0; i < 20000; i++) {
    void *p;
    if (tsr__alloc(m, (uint64_t)(i % 100), &p, NULL) == TSR_OK) tsr__free(p);
  }
  return NULL;
}

static void test_budgets_are_exact_with_several_threads(void **state) {
  tsr_memory root, all, query[4];
  tsr__memory_init_root(&root, NULL, NULL);
  tsr__memory_init(&all, &root, 250, "all"); /* so that some allocations fail and are taken back */
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    tsr__memory_init(&query[i], &all, 200, "query");
    assert_int_equal(pthread_create(&threads[i], NULL, churn, &query[i]), 0);
  }
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  assert_true(all.used == 0 && root.used == 0 && all.peak <= 250);
  for (int i = 0; i < 4; i++) assert_int_equal(query[i].used, 0);
}

static void test_arena_allocations_do_not_overlap(void **state) {
  faulty f = {0};
  tsr_memory root;
  tsr__memory_init_root(&root, faulty_reallocate, &f);
  tsr_arena arena = {0};
  tsr__arena_init(&arena, &root);
  tsr__arena_release(&arena); /* an empty arena */
  uint8_t *pieces[2000];
  for (int round = 0; round < 3; round++) {
    for (uint64_t i = 0; i < 2000; i++) {
      void *p;
      assert_int_equal(tsr__arena_alloc(&arena, i % 777, &p, NULL), TSR_OK);
      assert_int_equal((uintptr_t)p % ALIGNMENT, 0);
      memset(p, (int)(i & 0xff), i % 777);
      pieces[i] = p;
    }
    for (uint64_t i = 0; i < 2000; i++) /* no two allocations overlap */
      for (uint64_t k = 0; k < i % 777; k++) assert_int_equal(pieces[i][k], i & 0xff);
    uint64_t calls = f.calls;
    assert_true(calls < 25); /* blocks grow */
    tsr__arena_reset(&arena);
    assert_int_equal(f.live, 1);
    assert_int_equal(root.used, 256 * 1024);
    f.calls = 0;
  }
  void *a, *big, *b;
  assert_int_equal(tsr__arena_alloc(&arena, 100, &a, NULL), TSR_OK);
  assert_int_equal(tsr__arena_alloc(&arena, 1000000, &big, NULL), TSR_OK); /* in a block of its own */
  assert_int_equal(tsr__arena_alloc(&arena, 100, &b, NULL), TSR_OK);
  assert_ptr_equal((uint8_t *)a + 112, b);
  memset(big, 1, 1000000);
  tsr__arena_reset(&arena); /* the large block is kept now */
  assert_int_equal(f.live, 1);
  assert_int_equal(tsr__arena_alloc(&arena, 1000000, &a, NULL), TSR_OK);
  assert_ptr_equal(a, big);
  tsr__arena_release(&arena);
  assert_true(f.live == 0 && root.used == 0);
  tsr__arena_release(&arena);
}

static void test_arena_lists_grow_and_stay_whole_where_they_cannot(void **state) {
  tsr_memory root, m;
  tsr__memory_init_root(&root, NULL, NULL);
  tsr__memory_init(&m, &root, 20000, "small");
  tsr_arena arena = tsr__arena(&m);
  uint64_t *list = NULL, count = 0, capacity = 0;
  int code;
  while ((code = TSR_ARENA_GROW(&arena, &list, count, &capacity, 5, NULL)) == TSR_OK) {
    list[count] = count * 3;
    count++;
    assert_true(count <= capacity && capacity % 5 == 0);
  }
  assert_int_equal(code, TSR_BUDGET);
  assert_int_equal(count, capacity);
  assert_true(count > 40);
  for (uint64_t i = 0; i < count; i++) assert_int_equal(list[i], i * 3);
  tsr__arena_release(&arena);
  assert_int_equal(m.used, 0);
}

static void test_arena_arrays_are_zeroed_and_copies_end_with_nul(void **state) {
  tsr_memory root, m;
  tsr__memory_init_root(&root, NULL, NULL);
  tsr__memory_init(&m, &root, 3000, "small");
  tsr_arena arena;
  tsr__arena_init(&arena, &m);
  void *p = NULL;
  assert_int_equal(tsr__arena_alloc(&arena, 0, &p, NULL), TSR_OK);
  assert_non_null(p);
  assert_int_equal(tsr__arena_copy(&arena, "abc", 3, &p, NULL), TSR_OK);
  assert_string_equal(p, "abc");
  assert_int_equal(tsr__arena_copy(&arena, NULL, 0, &p, NULL), TSR_OK);
  assert_string_equal(p, "");
  assert_int_equal(tsr__arena_array(&arena, 20, 8, &p, NULL), TSR_OK);
  for (int i = 0; i < 160; i++) assert_int_equal(((uint8_t *)p)[i], 0);
  assert_int_equal(m.used, 1024);
  void *before = p;
  tsr_error error = {0};
  static const uint64_t absurd[] = {3000,
                                    UINT64_MAX,
                                    UINT64_MAX - 1,
                                    UINT64_MAX - 15,
                                    UINT64_MAX - 16,
                                    UINT64_MAX - 31,
                                    UINT64_MAX - 47,
                                    (uint64_t)INT64_MAX};
  for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
    assert_int_equal(tsr__arena_alloc(&arena, absurd[i], &p, &error), TSR_BUDGET);
    assert_int_equal(tsr__arena_array(&arena, absurd[i], 1, &p, &error), TSR_BUDGET);
    assert_int_equal(tsr__arena_copy(&arena, "x", absurd[i], &p, &error), TSR_BUDGET);
  }
  assert_int_equal(tsr__arena_array(&arena, UINT64_C(1) << 40, UINT64_C(1) << 40, &p, &error), TSR_BUDGET);
  assert_ptr_equal(p, before);
  assert_int_equal(tsr__arena_alloc(&arena, 16, &p, &error), TSR_OK); /* the arena can still be used */
  tsr__arena_release(&arena);
  assert_int_equal(m.used, 0);
}

static unsigned copies;

static void *count_copies(void *argument, void *pointer, uint64_t size) {
  (void)argument;
  if (size == 0) return free(pointer), NULL;
  copies += pointer != NULL;
  return realloc(pointer, size);
}

/* Close to the budget's end a buffer grows by less than half, but not by each append alone: it would be copied as often. */
static void test_buffers_grow_to_the_end_of_a_budget(void **state) {
  tsr_memory root, m;
  tsr__memory_init_root(&root, count_copies, NULL);
  tsr__memory_init(&m, &root, 1 << 20, "small");
  tsr_buffer b = {.memory = &m};
  copies = 0;
  while (tsr__buffer_append(&b, &(uint64_t[2]){0}, 16, NULL) >= 0) {}
  assert_true(b.size > (1 << 20) - 256);
  assert_true(copies < 100);
  tsr__buffer_release(&b);
  assert_int_equal(m.used, 0);
}

static void test_buffers_grow_shrink_and_print(void **state) {
  tsr_memory root, m;
  tsr__memory_init_root(&root, NULL, NULL);
  tsr__memory_init(&m, &root, 200000, "small");
  tsr_buffer b = {.memory = &m};
  tsr__buffer_release(&b);
  assert_int_equal(tsr__buffer_append(&b, NULL, 0, NULL), TSR_OK);
  assert_null(b.data);
  for (uint32_t i = 0; i < 5000; i++) {
    assert_int_equal(tsr__buffer_append_u8(&b, (uint8_t)i, NULL), TSR_OK);
    assert_int_equal(tsr__buffer_append_u32(&b, i, NULL), TSR_OK);
    assert_int_equal(tsr__buffer_append_u64(&b, i * UINT64_C(0x100000001), NULL), TSR_OK);
  }
  assert_int_equal(b.size, 65000);
  for (uint32_t i = 0; i < 5000; i++) {
    assert_int_equal(b.data[i * 13], i & 0xff);
    assert_int_equal(tsr__load32(b.data + i * 13 + 1), i);
    assert_true(tsr__load64(b.data + i * 13 + 5) == i * UINT64_C(0x100000001));
  }
  tsr_error error = {0};
  uint8_t *data = b.data;
  assert_int_equal(tsr__buffer_reserve(&b, UINT64_MAX, &error), TSR_BUDGET);
  assert_int_equal(tsr__buffer_reserve(&b, 200000, &error), TSR_BUDGET);
  assert_true(b.size == 65000 && b.data == data && b.capacity < 130000);
  error.code = TSR_OK;
  assert_int_equal(tsr__buffer_reserve(&b, 134984, &error), TSR_OK); /* exactly the rest of the budget */
  assert_int_equal(b.capacity, 199984);
  assert_int_equal(error.code, TSR_OK);
  tsr__buffer_release(&b);
  assert_true(m.used == 0 && !b.data && b.size == 0);

  assert_int_equal(tsr__buffer_printf(&b, NULL, "%s", ""), TSR_OK);
  assert_int_equal(b.size, 0);
  char wanted[60000];
  size_t at = 0;
  for (int i = 0; i < 9000; i++) {
    at += (size_t)snprintf(wanted + at, sizeof wanted - at, "%d,", i);
    assert_int_equal(tsr__buffer_printf(&b, NULL, "%d,", i), TSR_OK);
  }
  assert_int_equal(b.size, at);
  assert_memory_equal(b.data, wanted, at);
  tsr__buffer_release(&b);
  assert_int_equal(m.used, 0);
}

/* Does the same work with the n-th allocation failing, for every n: nothing leaks, and nothing is charged at the
 * end. */
static void test_no_failing_allocation_leaks(void **state) {
  bool finished = false;
  for (uint64_t n = 1; !finished; n++) {
    faulty f = {.fail_at = n};
    tsr_memory root, m;
    tsr__memory_init_root(&root, faulty_reallocate, &f);
    tsr__memory_init(&m, &root, 1u << 20, "query");
    tsr_arena arena;
    tsr__arena_init(&arena, &m);
    tsr_buffer b = {.memory = &m};
    tsr_error error = {0};
    int rc = TSR_OK;
    void *p;
    for (int i = 0; i < 200 && rc == TSR_OK; i++) {
      rc = tsr__arena_alloc(&arena, 100, &p, &error);
      if (rc == TSR_OK) rc = tsr__buffer_printf(&b, &error, "line %d", i);
    }
    finished = rc == TSR_OK;
    if (!finished) assert_int_equal(error.code, TSR_NOMEM);
    tsr__arena_release(&arena);
    tsr__buffer_release(&b);
    assert_true(m.used == 0 && root.used == 0 && f.live == 0);
    assert_true(n < 100);
  }
}

/* Memory of the caller's is used first, is charged to nobody, and is not freed. */
static void test_lent_memory_is_used_first(void **state) {
  tsr_memory root;
  tsr__memory_init_root(&root, NULL, NULL);
  _Alignas(16) uint8_t room[256];
  for (int round = 0; round < 2; round++) {
    tsr_arena arena;
    uint8_t *first, *second, *large;
    tsr__arena_lend(&arena, &root, room, sizeof room);
    assert_int_equal(TSR_ARENA_RAW_BYTES(&arena, 100, &first, NULL), TSR_OK);
    assert_int_equal(TSR_ARENA_RAW_BYTES(&arena, 100, &second, NULL), TSR_OK);
    assert_true(first > room && second >= first + 100 && second + 100 <= room + sizeof room);
    assert_int_equal(root.used, 0);
    assert_in_range(tsr__arena_size(&arena), 200, 240);
    assert_int_equal(TSR_ARENA_RAW_BYTES(&arena, 1000, &large, NULL), TSR_OK);
    assert_true(root.used >= 1000 && tsr__arena_size(&arena) >= 1200);
    memset(first, 1, 100);
    memset(second, 2, 100);
    memset(large, 3, 1000);
    const tsr_arena before = arena; /* an arena may be moved */
    if (round == 0) tsr__arena_reset(&arena);
    tsr__arena_release(round == 0 ? &arena : &(tsr_arena){0});
    arena = before;
    if (round == 1) tsr__arena_release(&arena);
    assert_int_equal(root.used, 0);
  }
  memset(room, 7, sizeof room); /* nothing of it is poisoned */

  tsr_buffer buffer = {.memory = &root, .data = room, .capacity = 10, .lent = true};
  assert_int_equal(tsr__buffer_append(&buffer, "0123456789", 10, NULL), TSR_OK);
  assert_true(buffer.data == room && root.used == 0);
  tsr__buffer_shrink(&buffer);
  assert_int_equal(tsr__buffer_append(&buffer, "ab", 2, NULL), TSR_OK);
  assert_true(buffer.data != room && root.used > 0);
  assert_memory_equal(buffer.data, "0123456789ab", 12);
  tsr__buffer_release(&buffer);
  buffer = (tsr_buffer){.memory = &root, .data = room, .size = 3, .capacity = 3, .lent = true};
  assert_int_equal(tsr__buffer_reserve_exactly(&buffer, 1, NULL), TSR_OK);
  assert_memory_equal(buffer.data, room, 3);
  assert_int_equal(buffer.capacity, 4);
  tsr__buffer_release(&buffer);
  buffer = (tsr_buffer){.memory = &root, .data = room, .capacity = 3, .lent = true};
  tsr__buffer_release(&buffer);
  assert_int_equal(root.used, 0);
}

static void test_wipe_zeroes_exactly_its_range(void **state) {
  uint8_t secret[40];
  memset(secret, 7, sizeof secret);
  tsr__wipe(secret + 1, 38);
  assert_true(secret[0] == 7 && secret[39] == 7);
  for (int i = 1; i < 39; i++) assert_int_equal(secret[i], 0);
  tsr__wipe(NULL, 0);
}

/* ---- Spare blocks ------------------------------------------------------------------------------------------------ */

#define LARGE (UINT64_C(1) << 20)
#define MUCH  (12 * LARGE) /* from where on there are regions, and too large for one */

static void kept_root(tsr_memory *root, tsr_spare_blocks *spares, faulty *f, bool huge) {
  tsr__memory_init_root(root, faulty_reallocate, f);
  tsr__spare_blocks_init(spares, huge);
  root->spares = spares;
}

static void spare_root(tsr_memory *root, tsr_spare_blocks *spares, faulty *f) { kept_root(root, spares, f, false); }

/* A scan's pattern: blocks of about one size, one after the other. Only the first comes from the allocator. */
static void test_large_blocks_are_used_again(void **state) {
  faulty f = {0};
  tsr_memory root, query;
  tsr_spare_blocks spares;
  spare_root(&root, &spares, &f);
  tsr__memory_init(&query, &root, 1024 * LARGE, "query");
  for (uint64_t i = 0; i < 100; i++) {
    const uint64_t size = LARGE - 500 * (i % 7);
    uint8_t *p;
    assert_int_equal(tsr__alloc(&query, size, &p, NULL), TSR_OK);
    assert_int_equal((uintptr_t)p % ALIGNMENT, 0);
    assert_int_equal(query.used, size + HEADER); /* the size, not what the block could hold */
    memset(p, 0xee, size);
    tsr__free(p);
    assert_int_equal(query.used, 0);
    assert_true(root.used > LARGE / 2); /* the spare block stays charged to the root */
  }
  assert_int_equal(f.calls, 1);
  uint8_t *zeros; /* zeroed blocks are zero, whatever a spare block held */
  assert_int_equal(tsr__alloc_zero(&query, LARGE - 3000, &zeros, NULL), TSR_OK);
  for (uint64_t i = 0; i < LARGE - 3000; i++) assert_int_equal(zeros[i], 0);
  tsr__free(zeros);
  assert_int_equal(f.calls, 1);
  assert_true(tsr__spare_blocks_release(&root) && !tsr__spare_blocks_release(&root));
  assert_true(root.used == 0 && spares.bytes == 0 && f.live == 0);
}

/* Small blocks go back at once; so does a block of a root without spares. */
static void test_small_blocks_are_not_kept(void **state) {
  faulty f = {0};
  tsr_memory root;
  tsr_spare_blocks spares;
  void *p;
  spare_root(&root, &spares, &f);
  assert_int_equal(tsr__alloc(&root, 60000, &p, NULL), TSR_OK);
  tsr__free(p);
  assert_true(root.used == 0 && f.live == 0);
  root.spares = NULL;
  assert_int_equal(tsr__alloc(&root, LARGE, &p, NULL), TSR_OK);
  tsr__free(p);
  assert_true(root.used == 0 && f.live == 0);
}

/* The spare blocks follow the limits: a statement that may use little memory leaves little behind. */
static void test_spare_blocks_follow_the_limits(void **state) {
  faulty f = {0};
  tsr_memory root, query;
  tsr_spare_blocks spares;
  void *p[4];
  spare_root(&root, &spares, &f);
  for (uint64_t limit = 4096 * LARGE; limit >= LARGE; limit /= 4) {
    tsr__memory_init(&query, &root, limit, "query");
    assert_true(spares.bytes <= limit / 32);
    for (int i = 0; i < 4; i++) assert_int_equal(tsr__alloc(&root, 70000 << i, &p[i], NULL), TSR_OK);
    for (int i = 0; i < 4; i++) tsr__free(p[i]);
    assert_true(spares.bytes <= limit / 32 && spares.bytes <= 32 * LARGE);
    assert_int_equal(spares.bytes > 0, limit >= 64 * LARGE);
  }
  tsr__memory_init(&query, &root, 1024 * LARGE, "query"); /* the lowest limit counts */
  assert_int_equal(spares.most, 0);
  tsr__spare_blocks_release(&root);
  assert_true(root.used == 0 && f.live == 0);
}

/* More blocks than slots, and more bytes than are kept: the oldest give way. */
static void test_spare_blocks_are_bounded(void **state) {
  faulty f = {0};
  tsr_memory root;
  tsr_spare_blocks spares;
  void *p[200];
  spare_root(&root, &spares, &f);
  for (uint64_t size = 70000; size <= 8 * LARGE; size *= 5) {
    for (int i = 0; i < 50; i++) assert_int_equal(tsr__alloc(&root, size, &p[i], NULL), TSR_OK);
    for (int i = 0; i < 50; i++) tsr__free(p[i]);
    assert_true(f.live > 0 && f.live <= TSR_SPARE_SLOTS);
    assert_true(spares.bytes <= 32 * LARGE && root.used == spares.bytes + (uint64_t)f.live * HEADER);
  }
  tsr__spare_blocks_release(&root);
  assert_true(root.used == 0 && f.live == 0);
}

/* A block grows and shrinks; its content stays, and the charge is its size. */
static void test_large_blocks_grow_in_place(void **state) {
  faulty f = {0};
  tsr_memory root;
  tsr_spare_blocks spares;
  uint8_t *p = NULL;
  spare_root(&root, &spares, &f);
  uint64_t filled = 0;
  for (int i = 0; i < 400; i++) {
    const uint64_t size = i < 200 ? 1000 + 4321 * (uint64_t)i : 1000 + 4321 * (uint64_t)(400 - i);
    assert_int_equal(tsr__realloc(&root, size, &p, NULL), TSR_OK);
    assert_int_equal(root.used, size + HEADER + spares.bytes + (spares.bytes > 0 ? HEADER : 0));
    for (uint64_t k = filled; k < size; k++) p[k] = (uint8_t)(k * 31);
    for (uint64_t k = 0; k < size; k += 997) assert_int_equal(p[k], (uint8_t)(k * 31));
    filled = size;
  }
  tsr__free(p);
  tsr__spare_blocks_release(&root);
  assert_true(root.used == 0 && f.live == 0);
}

/* An allocator that fails gets the spare blocks, and is asked again. */
static void test_spare_blocks_help_a_failing_allocator(void **state) {
  faulty f = {0};
  tsr_memory root;
  tsr_spare_blocks spares;
  void *p, *small;
  spare_root(&root, &spares, &f);
  assert_int_equal(tsr__alloc(&root, LARGE, &p, NULL), TSR_OK);
  tsr__free(p);
  f.fail_at = f.calls + 1;
  assert_int_equal(tsr__alloc(&root, 100, &small, NULL), TSR_OK);
  assert_int_equal(spares.bytes, 0);
  f.fail_at = f.calls + 1;
  assert_int_equal(tsr__alloc(&root, 100, &p, NULL), TSR_NOMEM); /* nothing is left to give back */
  tsr__free(small);
  assert_true(root.used == 0 && f.live == 0);
}

static void *use_blocks(void *argument) {
  tsr_memory *root = argument;
  for (uint64_t i = 0; i < 2000; i++) {
    uint8_t *p;
    const uint64_t size = 66000 + (i % 13) * 9000;
    if (tsr__alloc(root, size, &p, NULL) < 0) return root;
    memset(p, (int)i, size);
    for (uint64_t k = 0; k < size; k += 4096)
      if (p[k] != (uint8_t)i) return root; /* another thread has this block, too */
    tsr__free(p);
  }
  return NULL;
}

static void share_between_threads(bool huge) {
  tsr_memory root;
  tsr_spare_blocks spares;
  pthread_t threads[4];
  void *much;
  tsr__spare_blocks_init(&spares, huge);
  tsr__memory_init_root(&root, NULL, NULL);
  root.spares = &spares;
  assert_int_equal(tsr__alloc(&root, MUCH, &much, NULL), TSR_OK);
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, use_blocks, &root), 0);
  for (int i = 0; i < 4; i++) {
    void *failed;
    assert_int_equal(pthread_join(threads[i], &failed), 0);
    assert_null(failed);
  }
  tsr__free(much);
  tsr__spare_blocks_release(&root);
  assert_true(root.used == 0 && spares.bytes == 0 && spares.regions.count == 0 && spares.regions.room == 0);
}

static void test_threads_share_spare_blocks(void **state) { share_between_threads(false); }

/* ---- Regions ----------------------------------------------------------------------------------------------------- */

#define REGION_BLOCK (TSR_REGION_BYTES + TSR_REGION_HUGE) /* what the allocator gives for a region */

static void test_threads_share_regions(void **state) { share_between_threads(true); }

static uint8_t *filled_block(tsr_memory *memory, uint64_t size, unsigned seed) {
  uint8_t *p;
  assert_int_equal(tsr__alloc(memory, size, &p, NULL), TSR_OK);
  assert_int_equal((uintptr_t)p % ALIGNMENT, 0);
  for (uint64_t i = 0; i < size; i += 509) p[i] = (uint8_t)(seed + i);
  p[size - 1] = (uint8_t)seed;
  return p;
}

static void assert_filled(const uint8_t *p, uint64_t size, unsigned seed) {
  for (uint64_t i = 0; i < size - 1; i += 509) assert_int_equal(p[i], (uint8_t)(seed + i));
  assert_int_equal(p[size - 1], (uint8_t)seed);
}

/* Blocks of many sizes come and go. Budgets count the blocks, the root counts regions whole, and no two blocks overlap. */
static void test_blocks_share_regions(void **state) {
  enum { BLOCKS = 60 };
  faulty f = {0};
  tsr_memory root, query;
  tsr_spare_blocks spares;
  uint8_t *p[BLOCKS] = {0};
  uint64_t sizes[BLOCKS], sum = 0;
  void *much;
  uint32_t chance = 1;
  kept_root(&root, &spares, &f, true);
  tsr__memory_init(&query, &root, 1024 * LARGE, "query");
  assert_int_equal(tsr__alloc(&query, MUCH, &much, NULL), TSR_OK);
  for (unsigned turn = 0; turn < 2000; turn++) {
    chance = chance * 1664525 + 1013904223;
    const unsigned i = (chance >> 8) % BLOCKS;
    if (p[i]) assert_filled(p[i], sizes[i], i);
    tsr__free(p[i]);
    sum -= p[i] ? sizes[i] + HEADER : 0;
    p[i] = NULL;
    if (turn >= 1700) continue;
    sizes[i] = turn % 4 ? 65536 + (chance >> 10) % 400000 : UINT64_C(65536) << (chance >> 10) % 6;
    p[i] = filled_block(&query, sizes[i], i);
    sum += sizes[i] + HEADER;
    assert_int_equal(query.used, sum + MUCH + HEADER);
    if (turn == 1600) assert_true(f.live <= 8 && spares.regions.count > 1);
  }
  for (unsigned i = 0; i < BLOCKS; i++) tsr__free(p[i]);
  assert_true(spares.regions.room <= 2 * TSR_REGION_BYTES); /* what is empty goes back, but for the next use */
  assert_int_equal(root.used, spares.regions.count * REGION_BLOCK + MUCH + HEADER);
  assert_true(tsr__spare_blocks_release(&root));
  tsr__free(much);
  tsr__spare_blocks_release(&root);
  assert_true(root.used == 0 && query.used == 0 && f.live == 0);
}

static void test_blocks_of_regions_grow_and_move(void **state) {
  faulty f = {0};
  tsr_memory root, query;
  tsr_spare_blocks spares;
  void *much;
  kept_root(&root, &spares, &f, true);
  tsr__memory_init(&query, &root, 1024 * LARGE, "query");
  assert_int_equal(tsr__alloc(&query, MUCH, &much, NULL), TSR_OK);
  for (uint64_t size = 1000; size < 9 * LARGE; size += size / 5) {
    uint8_t *p = filled_block(&query, LARGE, 7);
    assert_true(tsr__regions_have(&spares.regions, p));
    assert_int_equal(tsr__realloc(&query, size, &p, NULL), TSR_OK);
    for (uint64_t i = 0; i < TSR_MIN(size, LARGE) - 1; i += 509) assert_int_equal(p[i], (uint8_t)(7 + i));
    assert_int_equal(query.used, size + HEADER + MUCH + HEADER);
    tsr__free(p);
    assert_int_equal(query.used, MUCH + HEADER);
    assert_int_equal(root.used, spares.regions.count * REGION_BLOCK + spares.bytes + MUCH +
                                    (uint64_t)(f.live - (int)spares.regions.count) * HEADER);
  }
  tsr__free(much);
  tsr__spare_blocks_release(&root);
  assert_true(root.used == 0 && f.live == 0);
}

/* No regions for hosts that use little memory, by their limit or in fact, and none if the rest of one would be wasted. */
static void test_regions_are_for_much_memory(void **state) {
  for (int little = 0; little < 2; little++) {
    faulty f = {0};
    tsr_memory root, query;
    tsr_spare_blocks spares;
    void *p[30];
    kept_root(&root, &spares, &f, true);
    tsr__memory_init(&query, &root, (little ? 256 : 1024) * LARGE, "query");
    for (int i = 0; i < 30; i++) assert_int_equal(tsr__alloc(&query, LARGE, &p[i], NULL), TSR_OK);
    for (int i = 0; i < 4; i++) assert_false(tsr__regions_have(&spares.regions, p[i]));
    assert_int_equal(tsr__regions_have(&spares.regions, p[29]), !little);
    for (int i = 0; i < 30; i++) tsr__free(p[i]);
    tsr__spare_blocks_release(&root);
    assert_true(root.used == 0 && f.live == 0);
  }
  faulty f = {0};
  tsr_memory root;
  tsr_spare_blocks spares;
  void *p[64];
  kept_root(&root, &spares, &f, true);
  for (int i = 0; i < 64; i++) assert_int_equal(tsr__alloc(&root, LARGE * 19 / 4, &p[i], NULL), TSR_OK);
  assert_true(spares.regions.count > 1 && spares.regions.room <= TSR_REGION_BYTES / 2 +
                                                                     spares.regions.count * TSR_REGION_BYTES / 4 +
                                                                     TSR_REGION_BYTES);
  for (int i = 0; i < 64; i++) tsr__free(p[i]);
  tsr__spare_blocks_release(&root);
  assert_true(root.used == 0 && f.live == 0);
}

/* Without memory for a region a block comes alone; and an empty region goes back for the sake of another block. */
static void test_regions_of_a_failing_allocator(void **state) {
  faulty f = {0};
  tsr_memory root;
  tsr_spare_blocks spares;
  void *much, *p, *small;
  kept_root(&root, &spares, &f, true);
  assert_int_equal(tsr__alloc(&root, MUCH, &much, NULL), TSR_OK);
  f.fail_at = f.calls + 1;
  assert_int_equal(tsr__alloc(&root, LARGE, &p, NULL), TSR_OK);
  assert_int_equal(spares.regions.count, 0);
  tsr__free(p);
  tsr__spare_blocks_release(&root);
  assert_int_equal(tsr__alloc(&root, LARGE, &p, NULL), TSR_OK);
  assert_int_equal(spares.regions.count, 1);
  tsr__free(p);
  f.fail_at = f.calls + 1;
  assert_int_equal(tsr__alloc(&root, 100, &small, NULL), TSR_OK);
  assert_int_equal(spares.regions.count, 0);
  tsr__free(small);
  tsr__free(much);
  tsr__spare_blocks_release(&root);
  assert_true(root.used == 0 && f.live == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_block_is_charged_to_all_parents),
      cmocka_unit_test(test_sizes_that_overflow_are_refused),
      cmocka_unit_test(test_limits_give_budget_and_a_failing_allocator_nomem),
      cmocka_unit_test(test_a_charge_past_a_limit_asks_for_relief),
      cmocka_unit_test(test_realloc_charges_the_difference),
      cmocka_unit_test(test_typed_allocations_take_the_size_from_the_pointer),
      cmocka_unit_test(test_zeroed_blocks_of_a_custom_allocator_are_zero),
      cmocka_unit_test(test_budgets_are_exact_with_several_threads),
      cmocka_unit_test(test_arena_allocations_do_not_overlap),
      cmocka_unit_test(test_arena_lists_grow_and_stay_whole_where_they_cannot),
      cmocka_unit_test(test_arena_arrays_are_zeroed_and_copies_end_with_nul),
      cmocka_unit_test(test_buffers_grow_shrink_and_print),
      cmocka_unit_test(test_buffers_grow_to_the_end_of_a_budget),
      cmocka_unit_test(test_no_failing_allocation_leaks),
      cmocka_unit_test(test_lent_memory_is_used_first),
      cmocka_unit_test(test_wipe_zeroes_exactly_its_range),
      cmocka_unit_test(test_large_blocks_are_used_again),
      cmocka_unit_test(test_small_blocks_are_not_kept),
      cmocka_unit_test(test_spare_blocks_follow_the_limits),
      cmocka_unit_test(test_spare_blocks_are_bounded),
      cmocka_unit_test(test_large_blocks_grow_in_place),
      cmocka_unit_test(test_spare_blocks_help_a_failing_allocator),
      cmocka_unit_test(test_threads_share_spare_blocks),
      cmocka_unit_test(test_threads_share_regions),
      cmocka_unit_test(test_blocks_share_regions),
      cmocka_unit_test(test_blocks_of_regions_grow_and_move),
      cmocka_unit_test(test_regions_are_for_much_memory),
      cmocka_unit_test(test_regions_of_a_failing_allocator),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
