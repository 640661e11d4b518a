/* read_limits.c: the options of a read that bound its memory and its threads. */
#include "functions/read_limits.h"

#include <string.h>

#include "connection/errors.h"

#define READ_MEMORY_MB_MAX (1 << 24)
#define READ_THREADS_MAX   64

int tsx_read_number(const tsx_json_option *o, sqlite3_int64 least, sqlite3_int64 most, uint64_t *number,
                    tsr_error *error) {
  const bool whole = strcmp(o->type, "integer") == 0;
  const sqlite3_int64 value = whole ? sqlite3_value_int64(o->value) : 0;
  if (!whole || value < least)
    return tsx_fail(error, TSR_MISMATCH, "'%s': expected a number %s, not %.60s", o->key,
                    least ? "above 0" : "of 0 or more", o->text);
  if (value > most)
    return tsx_fail(error, TSR_MISMATCH, "'%s': at most %lld, not %.60s", o->key, (long long)most, o->text);
  *number = (uint64_t)value;
  return TSR_OK;
}

int tsx_read_limit(const tsx_json_option *o, tsx_read_limits *limits, tsr_error *error) {
  const bool cache = strcmp(o->key, "cache_mb") == 0, threads = strcmp(o->key, "threads") == 0;
  uint64_t number = 0;
  if (!cache && !threads && strcmp(o->key, "memory_mb") != 0) return 0;
  const int code = tsx_read_number(o, cache ? 0 : 1, threads ? READ_THREADS_MAX : READ_MEMORY_MB_MAX, &number, error);
  if (code < 0) return code;
  if (threads) limits->threads = (unsigned)number;
  else if (cache) limits->cache_bytes = number << 20;
  else limits->memory_bytes = number << 20;
  limits->cache_given |= cache;
  return 1;
}

void tsx_read_limits_apply(const tsx_read_limits *limits, tsr_array *array) {
  if (limits->cache_given) tsr_array_set_cache(array, limits->cache_bytes);
}
