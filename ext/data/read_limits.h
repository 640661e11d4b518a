/* read_limits.h: the options memory_mb, cache_mb and threads of a read: of tessera_stream and tessera_npy. */
#ifndef TSX_READ_LIMITS_H
#define TSX_READ_LIMITS_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "sql/options.h"

/* The three stand next to each other in a list of options. */
#define TSX_READ_LIMIT_SPECS TSX_SPEC_MEMORY_MB, TSX_SPEC_CACHE_MB, TSX_SPEC_THREADS
typedef enum tsx_read_option { TSX_READ_MEMORY_MB, TSX_READ_CACHE_MB, TSX_READ_THREADS } tsx_read_option;

typedef struct tsx_read_limits { /* `= {0}`: none is given */
  uint64_t memory_bytes, cache_bytes;
  unsigned threads;
  bool cache_given; /* a cache of 0 bytes is one that keeps nothing */
} tsx_read_limits;

void tsx_read_limits_take(tsx_read_limits *limits, tsx_read_option option, const tsx_option_value *value);

/* Gives the array the cache that was asked for. */
void tsx_read_limits_apply(const tsx_read_limits *limits, tsr_array *array);

#endif
