/* codecs.c: how fast one thread encodes and decodes with each filter alone. Prints for each filter and datatype the
 * millions of bytes a second of unfiltered data, the best of many rounds over a tile of 1 MiB in chunks of 64 KiB, which
 * stays in the processor's cache; filters.py puts other libraries beside them.
 *
 * Usage: bench_codecs [ROUNDS]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "filter/filter.h"
#include "model/datatype.h"

#define TILE  (UINT64_C(1) << 20)
#define CHUNK 65536

static tsr_error error;

static void need(int rc) {
  if (rc >= 0) return;
  fprintf(stderr, "%s\n", error.message);
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A slow wave with small noise, as measurements have. */
static void make_values(tsr_datatype datatype, uint8_t *to) {
  const uint64_t size = tsr_datatype_size(datatype);
  uint64_t state = 1;
  for (uint64_t i = 0; i < TILE / size; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    const double x = 1000 + 200 * sin((double)i / 3000) + (double)(state >> 60);
    const float single = (float)x;
    const int64_t whole = (int64_t)x;
    const void *from = datatype == TSR_FLOAT32   ? (const void *)&single
                       : datatype == TSR_FLOAT64 ? (const void *)&x
                                                 : &whole;
    memcpy(to + i * size, from, size);
  }
}

static void measure(tsr_filter filter, tsr_datatype datatype, int rounds) {
  static uint8_t values[TILE], decoded[TILE];
  tsr_memory memory;
  tsr_pipeline pipeline = {.max_chunk_size = CHUNK, .count = 1, .filters = &filter};
  const tsr_tile_shape shape = {datatype, tsr_datatype_size(datatype), 22, NULL};
  double encode = 1e9, decode = 1e9;
  tsr__memory_init_root(&memory, NULL, NULL);
  tsr_buffer stored = {.memory = &memory};
  make_values(datatype, values);
  for (int i = 0; i < rounds; i++) {
    stored.size = 0;
    double began = now();
    need(tsr__pipeline_encode(&pipeline, &shape, values, TILE, NULL, 0, &stored, &error));
    encode = fmin(encode, now() - began);
    began = now();
    need(tsr__pipeline_decode(&pipeline, &shape, stored.data, stored.size, decoded, TILE, &memory, &error));
    decode = fmin(decode, now() - began);
  }
  printf("%s %s %.0f %.0f %.3f\n", tsr__filter_name(filter.type), tsr_datatype_name(datatype),
         (double)TILE / encode / 1e6, (double)TILE / decode / 1e6, (double)stored.size / (double)TILE);
  tsr__buffer_release(&stored);
}

int main(int count, char **arguments) {
  const int rounds = count > 1 ? atoi(arguments[1]) : 50;
  static const tsr_datatype integers[] = {TSR_INT16, TSR_INT32, TSR_INT64}, floats[] = {TSR_FLOAT32, TSR_FLOAT64};
  static const tsr_filter_type of_integers[] = {TSR_FILTER_DELTA, TSR_FILTER_DOUBLE_DELTA, TSR_FILTER_POSITIVE_DELTA,
                                                TSR_FILTER_BIT_WIDTH_REDUCTION};
  static const tsr_filter_type of_all[] = {TSR_FILTER_NONE, TSR_FILTER_BYTESHUFFLE, TSR_FILTER_BITSHUFFLE,
                                           TSR_FILTER_XOR};
  for (unsigned f = 0; f < sizeof of_all / sizeof *of_all; f++) {
    const tsr_filter filter = {.type = of_all[f], .reinterpret = TSR_ANY};
    for (unsigned i = 0; i < 3; i++) measure(filter, integers[i], rounds);
    for (unsigned i = 0; i < 2; i++) measure(filter, floats[i], rounds);
  }
  for (unsigned f = 0; f < sizeof of_integers / sizeof *of_integers; f++)
    for (unsigned i = 0; i < 3; i++)
      measure((tsr_filter){.type = of_integers[f], .reinterpret = TSR_ANY, .window = 1024}, integers[i], rounds);
  for (unsigned i = 0; i < 2; i++)
    for (uint64_t width = 1; width <= 8; width *= 2)
      measure((tsr_filter){.type = TSR_FILTER_SCALE_FLOAT, .scale = 0.5, .offset = 1000, .byte_width = width},
              floats[i], rounds);
  for (unsigned i = 0; i < 2; i++) {
    measure((tsr_filter){.type = TSR_FILTER_ZSTD, .level = 5}, floats[i], rounds / 4 + 1);
    measure((tsr_filter){.type = TSR_FILTER_LZ4, .level = -1}, floats[i], rounds / 4 + 1);
    measure((tsr_filter){.type = TSR_FILTER_MD5}, floats[i], rounds / 4 + 1);
  }
  return 0;
}
