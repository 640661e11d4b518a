/* read_limits.h: the options memory_mb, cache_mb and threads of a read: of tessera_stream and tessera_npy. */
#ifndef TSX_READ_LIMITS_H
#define TSX_READ_LIMITS_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "text/json_in.h"

typedef struct tsx_read_limits { /* `= {0}`: none is given */
  uint64_t memory_bytes, cache_bytes;
  unsigned threads;
  bool cache_given; /* a cache of 0 bytes is one that keeps nothing */
} tsx_read_limits;

/* Reads a whole number from `least` to `most`. */
int tsx_read_number(const tsx_json_option *option, sqlite3_int64 least, sqlite3_int64 most, uint64_t *number,
                    tsr_error *error);

/* Takes one of the options. Returns 1; 0 for another option. */
int tsx_read_limit(const tsx_json_option *option, tsx_read_limits *limits, tsr_error *error);

/* Gives the array the cache that was asked for. */
void tsx_read_limits_apply(const tsx_read_limits *limits, tsr_array *array);

#endif
