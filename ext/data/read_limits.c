/* read_limits.c: the options memory_mb, cache_mb and threads, which limit the memory and the threads of a read. */
#include "data/data.h"

void tsx_read_limits_take(tsx_read_limits *limits, tsx_read_option option, const tsx_option_value *value) {
  const uint64_t number = (uint64_t)value->whole;
  switch (option) {
  case TSX_READ_MEMORY_MB: limits->memory_bytes = number << 20; break;
  case TSX_READ_CACHE_MB:
    limits->cache_bytes = number << 20;
    limits->cache_given = true;
    break;
  default: limits->threads = (unsigned)number;
  }
}

void tsx_read_limits_apply(const tsx_read_limits *limits, tsr_array *array) {
  if (limits->cache_given) tsr_array_set_cache(array, limits->cache_bytes);
}
