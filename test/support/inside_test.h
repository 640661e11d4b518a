/* inside_test.h: the fixture for tests of modules below an open array: an environment whose memory counts its blocks and
 * can run out, and a store in memory whose memory is not charged to that environment. */
#ifndef INSIDE_TEST_H
#define INSIDE_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "store/store.h"
#include "store_memory.h"
#include "environment/environment.h"
#include "tiny_array.h"

static counted_memory counted;
static tsr_environment *environment;
static tsr_memory own;
static tsr_store *store;
static tsr_error error;

static inline int setup(void **state) {
  const tsr_environment_options options = {.reallocate = counted_reallocate, .reallocate_argument = &counted};
  counted = (counted_memory){.left = -1};
  error = (tsr_error){0};
  tsr__memory_init_root(&own, NULL, NULL);
  if (tsr__store_memory_open(&own, "tiny", &store, NULL) < 0) return 1;
  return tsr_environment_open(&options, &environment, NULL);
}
static inline int teardown(void **state) {
  tsr__store_close(store);
  tsr_environment_close(environment);
  return counted.blocks;
}

static inline tsr_buffer buffer_of(const void *bytes, uint64_t size) {
  tsr_buffer b = {.memory = &own};
  tiny_bytes(&b, bytes, size);
  return b;
}

#define U "_0123456789abcdef0123456789abcdef"

#endif
