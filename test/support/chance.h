/* chance.h: numbers by chance, the same everywhere. */
#ifndef CHANCE_H
#define CHANCE_H

#include <stdint.h>

/* A number below n: each test sets the seed that it wants. */
static uint64_t seed = 1;
static inline uint64_t chance(uint64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (seed >> 33) % n;
}

/* A stream of 64 bits each. */
static inline uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

#endif
