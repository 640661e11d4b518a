/* chance.h: pseudo-random numbers for tests, the same on all platforms. */
#ifndef CHANCE_H
#define CHANCE_H

#include <stdint.h>

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

#endif
