/* test_prefetch.c: what a store fetches ahead of its readers: which requests become of wishes, what stays here and what
 * must go, and that every reader gets the right bytes, whatever fails. */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_bucket.h"
#include "store/prefetch.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1024) * KIB)

static tsr_memory root;
static tsr_bucket_prefetch *ahead;
static uint64_t allocations, fail_at;

static void *reallocate(void *argument, void *pointer, uint64_t size) {
  if (size == 0) {
    free(pointer);
    return NULL;
  }
  return ++allocations == fail_at ? NULL : realloc(pointer, size);
}

static int begin(void **state) {
  allocations = fail_at = 0;
  tsr__memory_init_root(&root, reallocate, NULL);
  return tsr__bucket_prefetch_open(&root, &fake.client, &ahead, NULL);
}

static int end(void **state) {
  tsr__bucket_prefetch_close(ahead);
  assert_int_equal(root.used, 0);
  assert_int_equal(fake.under_way, 0);
  fake_clear();
  return 0;
}

static void expect_part(const char *key, uint64_t offset, uint64_t size) {
  const tsr_bucket_part part = {key, offset, size, false};
  tsr__bucket_prefetch_start(ahead, &part, 1);
}

/* Reads a part and checks its bytes, unless the table has no answer. */
static int read_part(const char *key, uint64_t offset, uint64_t size) {
  const fake_object *o = fake_find(key);
  uint8_t *bytes = malloc(size + 1);
  tsr_error error = {0};
  const int rc = tsr__bucket_prefetch_read(ahead, key, o ? o->size : offset + size, offset, bytes, size, &error);
  if (rc == 1) assert_memory_equal(bytes, o->bytes + offset, size);
  free(bytes);
  return rc;
}

static void test_close_parts_are_one_request(void **state) {
  const tsr_bucket_part parts[] = {
      {"a", 10, 100, false}, {"b", 0, 10, false}, {"a", 200 * KIB, 50, false}, {"a", 900 * KIB, 50, false}};
  fake_put_pattern("a", MIB);
  fake_put_pattern("b", 20);
  tsr__bucket_prefetch_start(ahead, parts, 4);
  for (int i = 0; i < 4; i++) assert_int_equal(read_part(parts[i].key, parts[i].offset, parts[i].size), 1);
  assert_string_equal(fake.log, "GET a 0+262144\nGET b 0+65536\nGET a 917504+65536\n");
  assert_int_equal(read_part("a", 100 * KIB, 50 * KIB), 1); /* what lay between two parts is here, too */
  assert_int_equal(fake.requests, 3);
}

static void test_wishes_are_sent_once(void **state) {
  fake_put_pattern("a", MIB);
  for (int i = 0; i < 3; i++) expect_part("a", 0, 100 * KIB);
  for (int i = 0; i < 3; i++) assert_int_equal(read_part("a", 50 * KIB, 50 * KIB), 1);
  assert_string_equal(fake.log, "GET a 0+131072\n");
}

static void test_at_most_so_many_are_under_way(void **state) {
  fake.parallel = 3;
  fake_put_pattern("a", 40 * MIB);
  for (uint64_t i = 0; i < 20; i++) expect_part("a", 2 * i * MIB, 10);
  assert_int_equal(fake.under_way, 3);
  for (uint64_t i = 0; i < 20; i++) assert_int_equal(read_part("a", 2 * i * MIB, 10), 1);
  assert_int_equal(fake.most_under_way, 3);
  assert_int_equal(fake.requests, 20);
}

/* Requests that nobody waits for end in the next call, so that others can leave. */
static void test_answers_make_way(void **state) {
  fake.parallel = 2;
  fake.answers_at_once = true;
  fake_put_pattern("a", 40 * MIB);
  for (uint64_t i = 0; i < 10; i++) expect_part("a", 2 * i * MIB, 10);
  assert_true(fake.requests >= 9);
  assert_true(fake.most_under_way <= 2);
}

static void test_readers_from_front_to_back_are_led(void **state) {
  fake_put_pattern("a", 4 * MIB);
  for (uint64_t at = 0; at < 4 * MIB; at += 32 * KIB) {
    assert_int_equal(read_part("a", at, 32 * KIB), 1);
    const bool led = at >= 64 * KIB && at < 4032 * KIB; /* the next request is sent before its bytes are asked for */
    assert_int_equal(fake.under_way, led);
  }
  assert_true(fake.requests <= 10); /* each twice as long as the last one */
  assert_int_equal(fake.cancelled, 0); /* none behind the end */
}

static void test_room_is_bounded(void **state) {
  fake_put_pattern("a", 300 * MIB);
  for (uint64_t i = 0; i < 100; i++) expect_part("a", 3 * i * MIB, 2 * MIB);
  assert_true(root.used <= 70 * MIB);
  for (uint64_t i = 0; i < 100; i++) {
    assert_int_equal(read_part("a", 3 * i * MIB, 2 * MIB), 1);
    assert_true(root.used <= 70 * MIB);
  }
  assert_int_equal(read_part("a", 0, 9 * MIB), 0); /* more than a part: the caller sends several requests */
}

static void test_tail_opens_an_object(void **state) {
  const tsr_bucket_part tails[] = {
      {"small", 0, 64 * KIB, true}, {"large", 0, 64 * KIB, true}, {"none", 0, 64 * KIB, true}};
  fake_put_pattern("small", 100);
  fake_put_pattern("large", MIB);
  tsr__bucket_prefetch_start(ahead, tails, 3);
  for (int i = 0; i < 2; i++) {
    tsr_buffer bytes = {.memory = &root};
    uint64_t size = 0;
    const fake_object *o = fake_find(tails[i].key);
    assert_int_equal(tsr__bucket_prefetch_tail(ahead, o->key, &bytes, &size, NULL), 1);
    assert_int_equal(size, o->size);
    assert_int_equal(bytes.size, TSR_MIN(o->size, 64 * KIB));
    assert_memory_equal(bytes.data, o->bytes + o->size - bytes.size, bytes.size);
    tsr__buffer_release(&bytes);
  }
  tsr_buffer bytes = {.memory = &root};
  uint64_t size;
  tsr_error error;
  assert_int_equal(tsr__bucket_prefetch_tail(ahead, "none", &bytes, &size, &error), TSR_NOT_FOUND);
  assert_int_equal(tsr__bucket_prefetch_tail(ahead, "never wished for", &bytes, &size, &error), 0);
  assert_int_equal(fake.requests, 3);
}

/* A fetch that fails tells nobody: the reader sends a request of his own. The host's interrupt is told. */
static void test_failures(void **state) {
  fake_put_pattern("a", MIB);
  fake.fail_at = 1;
  fake.fail_rc = TSR_UNREACHABLE;
  expect_part("a", 0, 10);
  assert_int_equal(read_part("a", 0, 10), 0);
  assert_int_equal(read_part("a", 0, 10), 1); /* the failure is not remembered */
  const tsr_bucket_part tail = {"a", 0, 64 * KIB, true};
  tsr_buffer bytes = {.memory = &root};
  uint64_t size;
  tsr_error error;
  tsr__bucket_prefetch_start(ahead, &tail, 1);
  fake.fail_at = fake.requests + 1;
  assert_int_equal(tsr__bucket_prefetch_tail(ahead, "a", &bytes, &size, &error), 0);
  fake.fail_at = fake.requests + 1;
  fake.fail_rc = TSR_INTERRUPT;
  assert_int_equal(read_part("a", 500 * KIB, 10), TSR_INTERRUPT);
  assert_int_equal(read_part("a", 500 * KIB, 10), 1);
  assert_int_equal(read_part("none", 0, 10), 0);
}

static void keep(const char *key, uint64_t size) {
  tsr_buffer bytes = {.memory = &root};
  fake_put_pattern(key, size);
  assert_int_equal(tsr__buffer_append(&bytes, fake_find(key)->bytes, size, NULL), TSR_OK);
  tsr__bucket_prefetch_keep(ahead, key, &bytes);
  assert_int_equal(bytes.size, 0);
}

static void test_what_was_written_is_kept(void **state) {
  char key[20];
  keep("first", 1000);
  assert_int_equal(read_part("first", 10, 100), 1);
  for (int i = 0; i < 2; i++) {
    tsr_buffer bytes = {.memory = &root};
    uint64_t size;
    assert_int_equal(tsr__bucket_prefetch_tail(ahead, "first", &bytes, &size, NULL), 1);
    assert_int_equal(bytes.size, 1000);
    assert_int_equal(size, 1000);
    tsr__buffer_release(&bytes);
  }
  assert_int_equal(fake.requests, 0);
  for (int i = 0; i < 40; i++) {
    snprintf(key, sizeof key, "k%d", i);
    keep(key, 60 * KIB);
  }
  assert_true(root.used <= 2 * MIB); /* the oldest have gone */
  assert_int_equal(read_part("k39", 0, 60 * KIB), 1);
  assert_int_equal(fake.requests, 0);
  assert_int_equal(read_part("first", 0, 10), 1);
  assert_int_equal(fake.requests, 1);
  tsr__bucket_prefetch_forget(ahead, "k39");
  (void)fake_delete("k39");
  assert_int_equal(read_part("k39", 0, 10), 0);
  assert_int_equal(fake.requests, 2);
}

/* The table takes bytes over also where it has no room for them. */
static void test_too_large_to_keep(void **state) {
  keep("large", 2 * MIB);
  assert_int_equal(read_part("large", 0, 10), 1);
  assert_int_equal(fake.requests, 1);
}

static void test_what_nobody_reads_is_cancelled(void **state) {
  fake_put_pattern("a", 40 * MIB);
  for (uint64_t i = 0; i < 8; i++) expect_part("a", 4 * i * MIB, 10);
  tsr__bucket_prefetch_close(ahead);
  assert_int_equal(fake.cancelled, 8);
  assert_int_equal(tsr__bucket_prefetch_open(&root, &fake.client, &ahead, NULL), TSR_OK);
}

static void *read_at_random(void *argument) {
  uint64_t x = (uint64_t)(uintptr_t)argument * 7919;
  for (int i = 0; i < 300; i++) {
    x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
    const uint64_t offset = (x >> 20) % (4 * MIB), size = TSR_MIN(1 + (x >> 50), 4 * MIB - offset);
    const char *key = x >> 63 ? "a" : "b";
    if (x >> 62 & 1) expect_part(key, offset, size);
    if (x >> 61 & 1) tsr__bucket_prefetch_forget(ahead, key);
    assert_true(read_part(key, offset, size) >= 0);
  }
  return NULL;
}

static void test_many_threads_read(void **state) {
  pthread_t threads[8];
  fake.parallel = 4;
  fake_put_pattern("a", 4 * MIB);
  fake_put_pattern("b", 4 * MIB);
  for (uintptr_t i = 0; i < 8; i++) pthread_create(&threads[i], NULL, read_at_random, (void *)(i + 1));
  for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  assert_true(fake.most_under_way <= 4 + 8); /* a reader need not wait until others have come to an end */
}

/* Without memory a reader gets the right bytes or none. */
static void test_lack_of_memory(void **state) {
  fake_put_pattern("a", 4 * MIB);
  uint64_t had = 0;
  for (uint64_t n = 1; n < 200; n++) {
    tsr__bucket_prefetch_close(ahead);
    fail_at = 0;
    assert_int_equal(tsr__bucket_prefetch_open(&root, &fake.client, &ahead, NULL), TSR_OK);
    allocations = 0;
    fail_at = n;
    const tsr_bucket_part parts[] = {{"a", 0, 100, false}, {"a", MIB, 100, false}, {"a", 0, 64 * KIB, true}};
    tsr_buffer bytes = {.memory = &root};
    uint64_t size;
    tsr__bucket_prefetch_start(ahead, parts, 3);
    for (int i = 0; i < 2; i++) had += read_part("a", parts[i].offset, 100) == 1;
    const int rc = tsr__bucket_prefetch_tail(ahead, "a", &bytes, &size, NULL);
    if (rc == 1) assert_memory_equal(bytes.data, fake_find("a")->bytes + 4 * MIB - bytes.size, bytes.size);
    tsr__buffer_release(&bytes);
    if (allocations < n) break;
    assert_true(n < 100);
  }
  assert_true(had > 4);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {TEST(test_close_parts_are_one_request),
                                     TEST(test_wishes_are_sent_once),
                                     TEST(test_at_most_so_many_are_under_way),
                                     TEST(test_answers_make_way),
                                     TEST(test_readers_from_front_to_back_are_led),
                                     TEST(test_room_is_bounded),
                                     TEST(test_tail_opens_an_object),
                                     TEST(test_failures),
                                     TEST(test_what_was_written_is_kept),
                                     TEST(test_too_large_to_keep),
                                     TEST(test_what_nobody_reads_is_cancelled),
                                     TEST(test_many_threads_read),
                                     TEST(test_lack_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
