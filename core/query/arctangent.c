/* arctangent.c: atan of many numbers, with the bits that the C library gives.
 *
 * For x >= 0 and a number c of three digits near it, atan(x) is atan(c), from a table, and atan(t) with t = (x - c) /
 * (1 + x * c), whose series is short since |t| <= 1/16. Below 1/16, c is 0; from 16 on it is infinite, and t = -1 / x.
 * Sums of two doubles carry t and the table, so that the error stays below 2^-6 of the result's last digit.
 *
 * glibc's atan, by the bounds in its source, errs by at most .56 of the last digit: it gives the nearest double unless
 * the exact value is within .06 of the middle between two of them. So where ours is within DOUBT of a middle, and for
 * NaN and infinities, glibc is asked. Other libraries promise less, and are always asked.
 *
 * Sections: with AVX2 and FMA; what all call.
 */
#include "query/program.h"

#include <math.h>
#include <string.h>

#include "base/arithmetic.h"

#if defined(__GLIBC__) && defined(__x86_64__)
#define WITH_VECTORS 1
#include <immintrin.h>
#endif

#ifdef WITH_VECTORS

/* ---- With AVX2 and FMA ------------------------------------------------------------------------------------------- */

#define DOUBT  0x5p-6 /* of the last digit */
#define FAST   __attribute__((target("avx2,fma")))
#define INLINE FAST static inline __attribute__((always_inline))
#define FOUR   4u

typedef double reals __attribute__((vector_size(32)));
typedef int64_t words __attribute__((vector_size(32)));

/* atan(c) as the sum of two doubles, of c = 0, then (4 + m) / 4 * 2^e with e from -4 on and m of 0 to 3, up to 16, and
 * of infinity. */
static const double arcs[][2] = {
    {0, 0},
    {0x1.ff55bb72cfdeap-5, -0x1.c934d86d23f1dp-60},
    {0x1.3f59f0e7c559dp-4, 0x1.ac4ce285df847p-58},
    {0x1.7ee182602f10fp-4, -0x1.cfb654c0c3d98p-58},
    {0x1.be39ebe6f07c3p-4, 0x1.f7b8f29a05987p-58},
    {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
    {0x1.3d6eee8c6626cp-3, 0x1.61a3b0ce9281bp-57},
    {0x1.7b97b4bce5b02p-3, 0x1.347b0b4f881cap-58},
    {0x1.b90d7529260a2p-3, 0x1.17b10d2e0e5abp-61},
    {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
    {0x1.362773707ebccp-2, -0x1.963a544b672d8p-57},
    {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
    {0x1.a64eec3cc23fdp-2, -0x1.24dec1b50b7ffp-56},
    {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
    {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
    {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
    {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
    {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
    {0x1.cac7c57846f9ep-1, 0x1.0dae13ad18a6bp-55},
    {0x1.f730bd281f69bp-1, 0x1.007887af0cbbdp-56},
    {0x1.0d38f2c5ba09fp+0, -0x1.bd0dc231bfd70p-54},
    {0x1.1b6e192ebbe44p+0, 0x1.b1b466a88828ep-54},
    {0x1.30b6d796a4da8p+0, 0x1.6254cb03bb199p-54},
    {0x1.3fc176b7a8560p+0, -0x1.441a3bd3f1083p-59},
    {0x1.4ae10fc6589a5p+0, -0x1.3b03e8a27f555p-54},
    {0x1.5368c951e9cfdp+0, -0x1.96f47948a99f1p-54},
    {0x1.5f97315254857p+0, -0x1.31151a43b51cap-55},
    {0x1.67d8863bc99bdp+0, -0x1.9b7bd2e1e8c9cp-54},
    {0x1.6dcc57bb565fdp+0, -0x1.29c86447928e7p-54},
    {0x1.7249faa996a21p+0, 0x1.a8cc1e7480c68p-54},
    {0x1.789bd2c160054p+0, -0x1.f45503ccad255p-54},
    {0x1.7cd6f6dc59db4p+0, 0x1.69c1fed612cfcp-54},
    {0x1.7fde80870c2a0p+0, -0x1.008d760c989abp-60},
    {0x1.82250768ac529p+0, -0x1.e78c96d05afcbp-58},
    {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54},
};
#define ARC_LOW      0x1p-4
#define ARC_HIGH     16.0
#define ARC_INFINITE (sizeof arcs / sizeof *arcs - 1)

INLINE reals all(double x) { return (reals){x, x, x, x}; }
INLINE words same(int64_t x) { return (words){x, x, x, x}; }
INLINE reals choose(words mask, reals a, reals b) { return (reals)(((words)a & mask) | ((words)b & ~mask)); }
INLINE reals fused(reals a, reals b, reals c) { return (reals)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c); }

/* Gives atan of x >= 0, and in *rest what rounding it has left out. */
INLINE reals arctangents(reals x, reals *rest) {
  const words small = (words)(x < all(ARC_LOW)), large = ~(words)(x < all(ARC_HIGH)), between = ~(small | large);
  const words digits =
      ((words)x & between) + same(INT64_C(1) << 49); /* rounded to three, when the others are cut off */
  const reals c = (reals)(digits & same(-(INT64_C(1) << 50)));
  const words first = same((INT64_C(1023) - 4) * 4 - 1);
  const words at = (((digits >> 50) - first) & between) | (same((int64_t)ARC_INFINITE) & large);
  reals arc, arc_rest;
  for (uint32_t i = 0; i < FOUR; i++) arc[i] = arcs[at[i]][0], arc_rest[i] = arcs[at[i]][1];

  const reals product = x * c, sum = product + all(1), back = sum - all(1);
  const reals sum_rest = (all(1) - (sum - back)) + (product - back) + fused(x, c, -product);
  const reals over = choose(large, all(-1), x - c), under = choose(large, x, sum);
  const reals under_rest = (reals)((words)sum_rest & ~large);
  const reals inverse = all(1) / under, t = over * inverse, square = t * t;
  const reals left = fused(-t, under_rest, fused(-t, under, over)), t_rest = left * inverse;

  reals series = all(1.0 / 13);
  series = fused(series, square, all(-1.0 / 11));
  series = fused(series, square, all(1.0 / 9));
  series = fused(series, square, all(-1.0 / 7));
  series = fused(series, square, all(1.0 / 5));
  series = fused(series, square, all(-1.0 / 3));
  const reals cubic = series * square * t;

  const reals rough = arc + t;
  const reals small_sum = (t - (rough - arc)) + (arc_rest + (cubic + fused(-t_rest, square, t_rest)));
  const reals result = rough + small_sum;
  *rest = small_sum - (result - rough);
  return result;
}

/* Gives atan of `count` numbers, a multiple of FOUR. Returns how many of them are in doubt, and lists these. */
FAST static uint32_t arctangents_of(const double *xs, uint32_t count, double *out, uint32_t *doubtful) {
  const words sign = same(INT64_MIN), exponent = same(INT64_C(0x7ff) << 52);
  uint32_t doubts = 0;
  for (uint32_t i = 0; i < count; i += FOUR) {
    reals x, rest;
    memcpy(&x, xs + i, sizeof x);
    const reals found = arctangents((reals)((words)x & ~sign), &rest);
    const reals doubt = (reals)((words)found & exponent) * all(0x1p-52 * DOUBT);
    const words sure = (words)(found + (rest + doubt) == found) & (words)(found + (rest - doubt) == found);
    const reals signed_found = (reals)((words)found | ((words)x & sign));
    memcpy(out + i, &signed_found, sizeof signed_found);
    const uint32_t bits = ~(uint32_t)_mm256_movemask_pd((__m256d)sure);
    for (uint32_t k = 0; k < FOUR; k++) {
      doubtful[doubts] = i + k;
      doubts += bits >> k & 1;
    }
  }
  return doubts;
}

#endif

/* ---- What all call ----------------------------------------------------------------------------------------------- */

#ifdef WITH_VECTORS
#define TOGETHER 256u

/* Gives atan of the first numbers, all but the last ones that are fewer than FOUR. Returns their count. */
static uint32_t vectors_of(const double *xs, uint32_t count, double *out) {
  uint32_t done = 0, doubtful[TOGETHER + 1];
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
  for (uint32_t n; (n = TSR_MIN(count - done, TOGETHER) / FOUR * FOUR) > 0; done += n) {
    const uint32_t doubts = arctangents_of(xs + done, n, out + done, doubtful);
    for (uint32_t d = 0; d < doubts; d++) out[done + doubtful[d]] = atan(xs[done + doubtful[d]]);
  }
  return done;
}
#else
static uint32_t vectors_of(const double *xs, uint32_t count, double *out) {
  (void)xs, (void)count, (void)out;
  return 0;
}
#endif

void tsr__arctangents(const double *xs, uint32_t count, double *out) {
  for (uint32_t i = vectors_of(xs, count, out); i < count; i++) out[i] = atan(xs[i]);
}
