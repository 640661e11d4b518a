/* chance.h: pseudo-random numbers for tests, the same on all platforms. */
#ifndef CHANCE_H
#define CHANCE_H

#include <stdint.h>
#include <stdlib.h>

/* Returns a number below n. A test may set the seed. */
static uint64_t seed = 1;
static inline uint64_t chance(uint64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (seed >> 33) % n;
}

/* Returns 64 bits (xorshift); *state is not 0 at first. */
static inline uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

/* A long test takes one in so many of its cases: 1, all of them, unless the environment variable SAMPLE says otherwise, as it does in `./run test`. */
static inline unsigned sample(void) {
  const char *share = getenv("SAMPLE");
  return share && atoi(share) > 1 ? (unsigned)atoi(share) : 1;
}

/* How many of `all` random rounds a test runs: at least one. */
static inline unsigned rounds_of(unsigned all) { return (all + sample() - 1) / sample(); }

#endif
