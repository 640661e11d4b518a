/* open_array.h: the fixture for tests of one open array: a tiny array (tiny_array.h) in a store in memory. All memory is
 * charged to an environment that counts its blocks. */
#ifndef OPEN_ARRAY_H
#define OPEN_ARRAY_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "store_memory.h"
#include "array/array.h"
#include "environment/environment.h"
#include "tiny_array.h"

#define U "_00000000000000000000000000000001"
static const tiny_attribute a_only[] = {{"a", TSR_INT32, false, NULL}};
static counted_memory counted;
static tsr_environment *environment;
static tsr_store *store;
static tsr_array *array;
static tsr_error error;

/* A test calls setup_store, writes schemas and fragments into the store, and then calls setup_array. */
static inline int setup_store(void) {
  const tsr_environment_options options = {.reallocate = counted_reallocate, .reallocate_argument = &counted};
  counted = (counted_memory){.left = -1};
  error = (tsr_error){0};
  if (tsr_environment_open(&options, &environment, NULL) < 0) return 1;
  return tsr__store_memory_open(&environment->memory, "tiny", &store, NULL);
}
static inline int setup_array(const tsr_array_options *options) {
  return tsr__array_open_store(environment, store, "tiny", options, &array, &error);
}
static inline int teardown(void **state) {
  tsr_array_close(array);
  tsr_environment_close(environment);
  return counted.blocks;
}

#endif
