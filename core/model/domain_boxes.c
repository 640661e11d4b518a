/* domain_boxes.c: sets of boxes of a dense domain, in ordinals.
 *
 * The boxes of a set are kept apart from each other: of a new one only what is not there yet is added, in pieces; boxes
 * that agree on all sides but one, where they touch, become one again.
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

/* Do they make one box? Then `a` becomes it. */
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

/* A box that overlaps none of the set; what can be joined is. */
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

/* Replaces piece number `i` by what of it lies outside of `box`. */
static int domain_boxes_cut(tsr_box_set *pieces, uint64_t i, const uint64_t *box, uint64_t *room, tsr_error *error) {
  uint32_t n = pieces->dimensions;
  uint64_t size = 2 * sizeof(uint64_t) * n, *rest = room, *part = room + 2 * n;
  memcpy(rest, box_at(pieces, i), size);
  remove_box(pieces, i);
  for (uint32_t d = 0; d < n; d++) {
    uint64_t low = box[2 * d], high = box[2 * d + 1];
    if (rest[2 * d] < low) {
      memcpy(part, rest, size);
      part[2 * d + 1] = low - 1;
      TSR_TRY(tsr__buffer_append(&pieces->ends, part, size, error));
      rest[2 * d] = low;
    }
    if (rest[2 * d + 1] > high) {
      memcpy(part, rest, size);
      part[2 * d] = high + 1;
      TSR_TRY(tsr__buffer_append(&pieces->ends, part, size, error));
      rest[2 * d + 1] = high;
    }
  }
  return TSR_OK;
}

static int add_pieces(tsr_box_set *set, tsr_box_set *pieces, uint64_t *room, tsr_error *error) {
  uint32_t n = set->dimensions;
  for (uint64_t b = 0; b < tsr__box_set_count(set); b++)
    for (uint64_t i = 0; i < tsr__box_set_count(pieces);) {
      if (domain_boxes_meet(n, box_at(pieces, i), box_at(set, b)))
        TSR_TRY(domain_boxes_cut(pieces, i, box_at(set, b), room, error));
      else i++;
    }
  for (uint64_t i = 0; i < tsr__box_set_count(pieces); i++) TSR_TRY(put_box(set, box_at(pieces, i), error));
  return TSR_OK;
}

int tsr__box_set_add(tsr_box_set *set, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  tsr_box_set pieces = {.dimensions = set->dimensions, .ends.memory = set->ends.memory};
  uint64_t *room;
  TSR_TRY(TSR_ALLOC_ARRAY(set->ends.memory, 4 * (uint64_t)set->dimensions, &room, error));
  int rc = TSR_OK;
  for (uint32_t d = 0; d < set->dimensions && rc >= 0; d++) {
    rc = tsr__buffer_append_u64(&pieces.ends, low[d], error);
    if (rc >= 0) rc = tsr__buffer_append_u64(&pieces.ends, high[d], error);
  }
  if (rc >= 0) rc = add_pieces(set, &pieces, room, error);
  tsr__buffer_release(&pieces.ends);
  tsr__free(room);
  return rc;
}

int tsr__box_set_cut(tsr_box_set *set, const uint64_t *low, const uint64_t *high, tsr_error *error) {
  const uint32_t n = set->dimensions;
  bool found = false;
  uint64_t *memory;
  TSR_TRY(TSR_ALLOC_ARRAY(set->ends.memory, 6 * (uint64_t)n, &memory, error));
  uint64_t *box = memory, *room = box + 2 * n;
  int rc = TSR_OK;
  for (uint32_t d = 0; d < n; d++) {
    box[2 * d] = low[d];
    box[2 * d + 1] = high[d];
  }
  for (uint64_t i = 0; i < tsr__box_set_count(set) && rc >= 0;) {
    const bool meets = domain_boxes_meet(n, box_at(set, i), box);
    if (meets) rc = domain_boxes_cut(set, i, box, room, error); /* what is left of it stands at the end */
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
