/* region.c: finds runs of free units in regions, by their bits. */
#include "base/region.h"

#include <stddef.h>
#include <string.h>

void tsr__regions_init(tsr_regions *regions) {
  memset(regions, 0, sizeof *regions);
  atomic_flag_clear(&regions->busy);
}

/* ---- Bits -------------------------------------------------------------------------------------------------------- */

/* Finds the first run of free units. */
static bool find_run(const _Atomic uint64_t *taken, uint32_t units, uint32_t *at) {
  uint32_t run = 0;
  for (uint32_t w = 0; w < TSR_REGION_WORDS; w++) {
    const uint64_t word = atomic_load_explicit(&taken[w], memory_order_acquire);
    for (uint32_t bit = 0; bit < 64; bit++) {
      if (word == UINT64_MAX) break;
      if (word == 0 && run + 64 < units) {
        run += 64;
        break;
      }
      run = word >> bit & 1 ? 0 : run + 1;
      if (run < units) continue;
      *at = w * 64 + bit + 1 - units;
      return true;
    }
    if (word == UINT64_MAX) run = 0;
  }
  return false;
}

/* Sets or clears the bits of the units at..at+units-1. */
static void change_bits(_Atomic uint64_t *taken, uint32_t at, uint32_t units, bool set) {
  for (uint32_t unit = at, n; unit < at + units; unit += n) {
    const uint32_t bit = unit % 64, left = at + units - unit;
    n = left < 64 - bit ? left : 64 - bit;
    const uint64_t bits = (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << bit;
    if (set) atomic_fetch_or_explicit(&taken[unit / 64], bits, memory_order_relaxed);
    else atomic_fetch_and_explicit(&taken[unit / 64], ~bits, memory_order_release);
  }
}

/* ---- Pieces ------------------------------------------------------------------------------------------------------ */

static uint32_t region_of(const tsr_regions *regions, const void *pointer) {
  uint32_t r = 0;
  for (; r < TSR_REGIONS; r++) {
    const uint8_t *base = atomic_load_explicit(&regions->bases[r], memory_order_relaxed);
    if (base && (uintptr_t)pointer - (uintptr_t)base < TSR_REGION_BYTES) break;
  }
  return r;
}

bool tsr__regions_have(const tsr_regions *regions, const void *pointer) {
  return atomic_load_explicit(&regions->count, memory_order_relaxed) > 0 && region_of(regions, pointer) < TSR_REGIONS;
}

static bool lock(tsr_regions *regions) {
  return !atomic_flag_test_and_set_explicit(&regions->busy, memory_order_acquire);
}

static void unlock(tsr_regions *regions) { atomic_flag_clear_explicit(&regions->busy, memory_order_release); }

void *tsr__regions_take(tsr_regions *regions, uint32_t units, bool *full) {
  uint8_t *piece = NULL;
  *full = false;
  if (!lock(regions)) return NULL;
  for (uint32_t r = 0, at; r < TSR_REGIONS && !piece; r++) {
    uint8_t *base = atomic_load_explicit(&regions->bases[r], memory_order_relaxed);
    const uint32_t used = atomic_load_explicit(&regions->used[r], memory_order_relaxed);
    if (!base || used + units > TSR_REGION_WORDS * 64 || !find_run(regions->taken[r], units, &at)) continue;
    change_bits(regions->taken[r], at, units, true);
    atomic_fetch_add_explicit(&regions->used[r], units, memory_order_relaxed);
    atomic_fetch_sub_explicit(&regions->room, units * TSR_REGION_UNIT, memory_order_relaxed);
    piece = base + at * TSR_REGION_UNIT;
  }
  *full = !piece;
  unlock(regions);
  return piece;
}

/* The bits first: an empty region may vanish at once. */
void tsr__regions_give(tsr_regions *regions, void *piece, uint32_t units) {
  const uint32_t r = region_of(regions, piece);
  const uint8_t *base = atomic_load_explicit(&regions->bases[r], memory_order_relaxed);
  change_bits(regions->taken[r], (uint32_t)((uint64_t)((uint8_t *)piece - base) / TSR_REGION_UNIT), units, false);
  atomic_fetch_add_explicit(&regions->room, units * TSR_REGION_UNIT, memory_order_relaxed);
  atomic_fetch_sub_explicit(&regions->used[r], units, memory_order_release);
}

/* ---- Regions ----------------------------------------------------------------------------------------------------- */

bool tsr__regions_add(tsr_regions *regions, uint8_t *base, void *block) {
  bool added = false;
  if (!lock(regions)) return false;
  for (uint32_t r = 0; r < TSR_REGIONS && !added; r++) {
    if (atomic_load_explicit(&regions->bases[r], memory_order_relaxed)) continue;
    regions->blocks[r] = block;
    atomic_fetch_add_explicit(&regions->room, TSR_REGION_BYTES, memory_order_relaxed);
    atomic_fetch_add_explicit(&regions->count, 1, memory_order_relaxed);
    atomic_store_explicit(&regions->bases[r], base, memory_order_release);
    added = true;
  }
  unlock(regions);
  return added;
}

void *tsr__regions_remove(tsr_regions *regions, uint64_t room) {
  void *block = NULL;
  if (atomic_load_explicit(&regions->count, memory_order_relaxed) == 0 || !lock(regions)) return NULL;
  for (uint32_t r = 0; r < TSR_REGIONS && !block; r++) {
    if (!atomic_load_explicit(&regions->bases[r], memory_order_relaxed) ||
        atomic_load_explicit(&regions->used[r], memory_order_acquire) > 0 ||
        atomic_load_explicit(&regions->room, memory_order_relaxed) < room + TSR_REGION_BYTES)
      continue;
    atomic_store_explicit(&regions->bases[r], NULL, memory_order_relaxed);
    atomic_fetch_sub_explicit(&regions->count, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&regions->room, TSR_REGION_BYTES, memory_order_relaxed);
    block = regions->blocks[r];
  }
  unlock(regions);
  return block;
}
