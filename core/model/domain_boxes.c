/* domain_boxes.c: sets of disjoint boxes of a dense domain.
 *
 * A box that is added or removed is cut along the boxes of the set, one dimension after the other, so that the boxes
 * stay disjoint. Two boxes that differ in one dimension only, and touch there, are joined.
 */
#include "model/domain_boxes.h"

#include <string.h>

#include "base/arithmetic.h"

static uint64_t *box_at(const tsr_box_set *set, uint64_t i) {
  return (uint64_t *)(void *)set->ends.data + i * 2 * set->dimensions;
}

static void remove_box(tsr_box_set *set, uint64_t i) {
  uint64_t size = 2 * sizeof(uint64_t) * set->dimensions, last = tsr__box_set_count(set) - 1;
  if (i < last) memcpy(box_at(set, i), box_at(set, last), size);
  set->ends.size -= size;
}

/* If both boxes together are a box, makes `a` that box and returns true. */
static bool domain_boxes_join(uint32_t n, uint64_t *a, const uint64_t *b) {
  uint32_t differ = n;
  for (uint32_t d = 0; d < n; d++) {
    if (a[2 * d] == b[2 * d] && a[2 * d + 1] == b[2 * d + 1]) continue;
    if (differ < n) return false;
    differ = d;
  }
  if (differ == n) return true;
  uint64_t *x = a + 2 * differ;
  const uint64_t *y = b + 2 * differ;
  if (x[0] > y[0] ? x[0] - 1 != y[1] : y[0] == 0 || y[0] - 1 != x[1]) return false;
  x[0] = TSR_MIN(x[0], y[0]);
  x[1] = TSR_MAX(x[1], y[1]);
  return true;
}

/* Adds a box that overlaps no box of the set, joined with those that it makes a box with. */
static int put_box(tsr_box_set *set, uint64_t *box, tsr_error *error) {
  for (uint64_t i = 0; i < tsr__box_set_count(set);) {
    if (domain_boxes_join(set->dimensions, box, box_at(set, i))) {
      remove_box(set, i);
      i = 0;
    } else {
      i++;
    }
  }
  return tsr__buffer_append(&set->ends, box, 2 * sizeof(uint64_t) * set->dimensions, error);
}

static bool domain_boxes_meet(uint32_t n, const uint64_t *a, const uint64_t *b) {
  for (uint32_t d = 0; d < n; d++)
    if (a[2 * d] > b[2 * d + 1] || b[2 * d] > a[2 * d + 1]) return false;
  return true;
}

/* Replaces box number `i` of the set by its parts that lie outside `box`. The parts are appended to the set. */
static int domain_boxes_cut(tsr_box_set *parts, uint64_t i, const uint64_t *box, uint64_t *scratch, tsr_error *error) {
  uint32_t n = parts->dimensions;
  uint64_t size = 2 * sizeof(uint64_t) * n, *rest = scratch, *part = scratch + 2 * n;
  memcpy(rest, box_at(parts, i), size);
  remove_box(parts, i);
  for (uint32_t d = 0; d < n; d++) {
    uint64_t low = box[2 * d], high = box[2 * d + 1];
    if (rest[2 * d] < low) {
      memcpy(part, rest, size);
      part[2 * d + 1] = low - 1;
      TSR_TRY(tsr__buffer_append(&parts->ends, part, size, error));
      rest[2 * d] = low;
    }
    if (rest[2 * d + 1] > high) {
      memcpy(part, rest, size);
      part[2 * d] = high + 1;
      TSR_TRY(tsr__buffer_append(&parts->ends, part, size, error));
      rest[2 * d + 1] = high;
    }
  }
  return TSR_OK;
}

static int box_set_add_parts(tsr_box_set *set, tsr_box_set *parts, uint64_t *scratch, tsr_error *error) {
  uint32_t n = set->dimensions;
  for (uint64_t b = 0; b < tsr__box_set_count(set); b++)
    for (uint64_t i = 0; i < tsr__box_set_count(parts);) {
      if (domain_boxes_meet(n, box_at(parts, i), box_at(set, b)))
        TSR_TRY(domain_boxes_cut(parts, i, box_at(set, b), scratch, error));
      else i++;
    }
  for (uint64_t i = 0; i < tsr__box_set_count(parts); i++) TSR_TRY(put_box(set, box_at(parts, i), error));
  return TSR_OK;
}

int tsr__box_set_add(tsr_box_set *set, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  tsr_box_set parts = {.dimensions = set->dimensions, .ends.memory = set->ends.memory};
  uint64_t *scratch;
  TSR_TRY(TSR_ALLOC_ARRAY(set->ends.memory, 4 * (uint64_t)set->dimensions, &scratch, error));
  int rc = TSR_OK;
  for (uint32_t d = 0; d < set->dimensions && rc >= 0; d++) {
    rc = tsr__buffer_append_u64(&parts.ends, low[d], error);
    if (rc >= 0) rc = tsr__buffer_append_u64(&parts.ends, high[d], error);
  }
  if (rc >= 0) rc = box_set_add_parts(set, &parts, scratch, error);
  tsr__buffer_release(&parts.ends);
  tsr__free(scratch);
  return rc;
}

int tsr__box_set_cut(tsr_box_set *set, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  const uint32_t n = set->dimensions;
  bool found = false;
  uint64_t *memory;
  TSR_TRY(TSR_ALLOC_ARRAY(set->ends.memory, 6 * (uint64_t)n, &memory, error));
  uint64_t *box = memory, *scratch = box + 2 * n;
  int rc = TSR_OK;
  for (uint32_t d = 0; d < n; d++) {
    box[2 * d] = low[d];
    box[2 * d + 1] = high[d];
  }
  for (uint64_t i = 0; i < tsr__box_set_count(set) && rc >= 0;) {
    const bool meets = domain_boxes_meet(n, box_at(set, i), box);
    if (meets)
      rc = domain_boxes_cut(set, i, box, scratch, error); /* its parts outside the box are at the end of the set now */
    else i++;
    found |= meets;
  }
  tsr__free(memory);
  return rc < 0 ? rc : found;
}

uint64_t tsr__box_set_cells(const tsr_box_set *set) {
  uint64_t cells = 0;
  for (uint64_t i = 0; i < tsr__box_set_count(set); i++) {
    uint64_t one = 1;
    for (uint32_t d = 0; d < set->dimensions; d++)
      one = tsr__mul_sat(one, tsr__add_sat(box_at(set, i)[2 * d + 1] - box_at(set, i)[2 * d], 1));
    cells = tsr__add_sat(cells, one);
  }
  return cells;
}
