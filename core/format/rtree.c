/* rtree.c: the R-tree of a fragment: the MBRs of its tiles, and levels of MBRs above them.
 *
 * It is the content of a generic tile of __fragment_metadata.tdb:
 *
 *   u32 dimensions        below version 5 only: the same number as in the schema
 *   u32 fanout
 *   u8 datatype           below version 5 only: that of all dimensions
 *   u32 levels
 *   levels times, root first: u64 count, then count MBRs
 *   MBR: for each dimension, fixed size: low, high; strings: u64 bytes of both, u64 bytes of low, low, high
 *
 * Invariants: MBR i of the last level is that of tile i. The children of node i are the nodes fanout * i to fanout * i
 * + fanout - 1 of the next level, so a level has as many nodes as the next level, divided by the fanout and rounded up.
 * The MBR of a node contains those of its children; decoding widens it if it does not. TileDB writes fanout 10 and a
 * root level of one node. Dense fragments have a tree without levels. MBRs are inclusive; strings are compared as
 * unsigned bytes.
 *
 * Two kinds of ends are unknown and are treated as open. TileDB accepts NaN as a coordinate, so an end of an MBR may be
 * NaN. Versions 5 to 9 do not store the high end of a string MBR whose low end is '' (docs/errata.md).
 *
 * A walk descends depth-first and prunes nodes whose MBR has nothing that is sought. Below a node that is wholly within
 * it all leaves are visited without comparing (visit_below). Queries test MBRs against spans; places.c tests them
 * against many places at once.
 */
#include "format/rtree.h"
#include "format/layout.h"

#include <string.h>

#include "model/datatype.h"

const uint8_t tsr__top_text[TSR_TOP_TEXT_SIZE] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                                                  255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                                                  255, 255, 255, 255, 255, 255, 255, 255, 255, 255};

static bool rtree_is_text(const tsr_schema *schema, uint32_t dimension) {
  return schema->fields[dimension].values_per_cell == TSR_VARIABLE;
}

static bool rtree_has_text(const tsr_schema *schema) {
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    if (rtree_is_text(schema, d)) return true;
  }
  return false;
}

/* Returns the smallest size of an MBR in bytes. */
static uint64_t mbr_size(const tsr_schema *schema) {
  uint64_t size = 0;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    size += rtree_is_text(schema, d) ? 16 : 2 * tsr_datatype_size(schema->fields[d].datatype);
  }
  return size;
}

/* Decodes the two ends of an MBR in one dimension. Reading past the end of the input gives zeros; the caller checks for
 * that afterwards. `sizes` is NULL if no dimension is a string. */
static int decode_range(tsr_input *in, const tsr_field *field, uint32_t version, uint64_t *keys, uint64_t *sizes,
                        tsr_error *error) {
  if (field->values_per_cell == TSR_VARIABLE) {
    uint64_t size = tsr__input_u64(in), low_size = tsr__input_u64(in);
    keys[0] = in->at;
    if (low_size > size) {
      return tsr__fail(error, TSR_CORRUPT, "byte %llu: the low end takes %llu bytes of the %llu of both",
                       (unsigned long long)in->at, (unsigned long long)low_size, (unsigned long long)size);
    }
    if (!tsr__input_take(in, size)) return TSR_OK;
    keys[1] = keys[0] + low_size;
    sizes[0] = low_size;
    sizes[1] = size - low_size;
    if (low_size == 0 && !layout_has_string_high_ends(version)) {
      keys[1] = in->size; /* where the text has tsr__top_text */
      sizes[1] = TSR_TOP_TEXT_SIZE;
    }
  } else {
    uint64_t size = tsr_datatype_size(field->datatype);
    const uint8_t *bytes = tsr__input_take(in, 2 * size);
    if (!bytes) return TSR_OK;
    keys[0] = tsr__key(field->datatype, bytes);
    keys[1] = tsr__key(field->datatype, bytes + size); /* the key of NaN is the greatest */
    if (keys[0] == TSR_KEY_NAN && tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT) keys[0] = 0;
  }
  return TSR_OK;
}

/* Returns true if end `a` of level `a_level` is above end `b` of level `b_level`. Ends are numbered as in
 * tsr_rtree.keys; `text`: they are strings. */
static bool is_above(const tsr_rtree *rtree, bool text, uint32_t a_level, uint64_t a, uint32_t b_level, uint64_t b) {
  uint64_t a_key = rtree->keys[a_level][a], b_key = rtree->keys[b_level][b];
  if (!text) return a_key > b_key;
  return tsr__bytes_compare(rtree->text + a_key, rtree->sizes[a_level][a], rtree->text + b_key,
                            rtree->sizes[b_level][b]) > 0;
}

/* Allocates `count` MBRs of a level. */
static int allocate_level(tsr_rtree *rtree, uint32_t level, uint64_t count, tsr_arena *arena, tsr_error *error) {
  const uint64_t values = count * rtree->dimensions * 2;
  uint64_t *keys;
  uint64_t *sizes = NULL;
  TSR_TRY(TSR_ARENA_ARRAY(arena, values, &keys, error));
  if (rtree->sizes) TSR_TRY(TSR_ARENA_ARRAY(arena, values, &sizes, error));
  rtree->counts[level] = count;
  rtree->keys[level] = keys;
  if (rtree->sizes) rtree->sizes[level] = sizes;
  return TSR_OK;
}

/* Allocates a level, decodes its `count` MBRs, and checks that no low end is above its high end. */
static int decode_level(tsr_input *in, const tsr_schema *schema, uint32_t version, uint32_t level, uint64_t count,
                        tsr_arena *arena, tsr_rtree *rtree, tsr_error *error) {
  uint32_t dimensions = schema->dimension_count;
  if (!tsr__input_fits(in, count, mbr_size(schema))) {
    return tsr__fail(error, TSR_CORRUPT, "R-tree level %u has %llu boxes, more than the %llu bytes left can hold",
                     level, (unsigned long long)count, (unsigned long long)tsr__input_left(in));
  }
  uint64_t values = count * dimensions * 2; /* does not overflow: no more than the bytes of the input */
  TSR_TRY(allocate_level(rtree, level, count, arena, error));
  for (uint64_t i = 0; i < values && !in->failed; i += 2) {
    const tsr_field *field = &schema->fields[i / 2 % dimensions];
    int rc =
        decode_range(in, field, version, rtree->keys[level] + i, rtree->sizes ? rtree->sizes[level] + i : NULL, error);
    if (rc == TSR_OK && is_above(rtree, field->values_per_cell == TSR_VARIABLE, level, i, level, i + 1)) {
      rc = tsr__fail(error, TSR_CORRUPT, "the low end is above the high end");
    }
    if (rc < 0) {
      return tsr__wrap(error, "R-tree level %u, box %llu, dimension '%s'", level,
                       (unsigned long long)(i / 2 / dimensions), field->name);
    }
  }
  return tsr__input_check(in, "R-tree", error);
}

/* Widens the MBRs of `level` to contain those of their children. */
static void rtree_widen(const tsr_rtree *rtree, const tsr_schema *schema, uint32_t level) {
  for (uint64_t i = 0; i < rtree->counts[level + 1]; i++) {
    for (uint32_t d = 0; d < rtree->dimensions; d++) {
      bool text = rtree_is_text(schema, d);
      uint64_t child = (i * rtree->dimensions + d) * 2, parent = (i / rtree->fanout * rtree->dimensions + d) * 2;
      bool lower = is_above(rtree, text, level, parent, level + 1, child);
      bool higher = is_above(rtree, text, level + 1, child + 1, level, parent + 1);
      for (uint64_t end = lower ? 0 : 1; end < (higher ? 2 : 1); end++) {
        rtree->keys[level][parent + end] = rtree->keys[level + 1][child + end];
        if (text) rtree->sizes[level][parent + end] = rtree->sizes[level + 1][child + end];
      }
    }
  }
}

static int make_levels(tsr_input *in, const tsr_schema *schema, uint32_t levels, tsr_arena *arena, tsr_rtree *rtree,
                       tsr_error *error) {
  uint64_t *counts;
  uint64_t **keys;
  uint64_t **sizes = NULL;
  uint8_t *text = NULL;
  TSR_TRY(TSR_ARENA_ARRAY(arena, levels, &counts, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, levels, &keys, error));
  if (rtree_has_text(schema)) {
    /* the text is a copy of the input, so offsets of strings are offsets in the input */
    TSR_TRY(TSR_ARENA_ARRAY(arena, levels, &sizes, error));
    TSR_TRY(TSR_ARENA_RAW(arena, tsr__add_sat(in->size, TSR_TOP_TEXT_SIZE), &text, error));
    if (in->size) memcpy(text, in->data, in->size);
    memcpy(text + in->size, tsr__top_text, TSR_TOP_TEXT_SIZE);
  }
  *rtree = (tsr_rtree){.dimensions = schema->dimension_count, .levels = levels};
  rtree->counts = counts;
  rtree->keys = keys;
  rtree->sizes = sizes;
  rtree->text = text;
  return TSR_OK;
}

int tsr__rtree_decode(tsr_input *in, const tsr_schema *schema, uint32_t version, tsr_arena *arena, tsr_rtree *rtree,
                      tsr_error *error) {
  uint32_t dimensions = !layout_has_dimension_datatypes(version) ? tsr__input_u32(in) : schema->dimension_count;
  uint32_t fanout = tsr__input_u32(in);
  if (!layout_has_dimension_datatypes(version)) (void)tsr__input_u8(in); /* the datatype: the schema has it, too */
  uint32_t levels = tsr__input_u32(in);
  TSR_TRY(tsr__input_check(in, "R-tree", error));
  if (dimensions != schema->dimension_count) {
    return tsr__fail(error, TSR_CORRUPT, "R-tree of %u dimensions in an array of %u", dimensions,
                     schema->dimension_count);
  }
  if (levels > TSR_RTREE_LEVELS || (levels > 1 && fanout < 2)) {
    return tsr__fail(error, TSR_CORRUPT, "R-tree of %u levels with fanout %u", levels, fanout);
  }
  tsr_rtree made;
  TSR_TRY(make_levels(in, schema, levels, arena, &made, error));
  made.fanout = fanout;
  for (uint32_t level = 0; level < levels; level++) {
    uint64_t count = tsr__input_u64(in);
    TSR_TRY(tsr__input_check(in, "R-tree", error));
    TSR_TRY(decode_level(in, schema, version, level, count, arena, &made, error));
    if (level == 0) continue;
    if (made.counts[level - 1] != count / fanout + (count % fanout != 0)) {
      return tsr__fail(error, TSR_CORRUPT, "R-tree level %u has %llu boxes over %llu with fanout %u", level - 1,
                       (unsigned long long)made.counts[level - 1], (unsigned long long)count, fanout);
    }
  }
  if (tsr__input_left(in)) {
    return tsr__fail(error, TSR_CORRUPT, "R-tree is followed by %llu bytes that do not belong to it",
                     (unsigned long long)tsr__input_left(in));
  }
  for (uint32_t level = levels; level-- > 1;) rtree_widen(&made, schema, level - 1);
  *rtree = made;
  return TSR_OK;
}

int tsr__rtree_single_level(tsr_input *in, uint64_t count, const tsr_schema *schema, tsr_arena *arena, tsr_rtree *rtree,
                            tsr_error *error) {
  tsr_rtree made;
  TSR_TRY(make_levels(in, schema, 1, arena, &made, error));
  TSR_TRY(decode_level(in, schema, 1, 0, count, arena, &made, error));
  *rtree = made;
  return TSR_OK;
}

static tsr_relation relate_spans(const void *sought, const tsr_rtree *rtree, uint32_t level, uint64_t node) {
  const tsr_spans *spans = sought;
  uint64_t at = node * rtree->dimensions * 2;
  const uint64_t *keys = rtree->keys[level] + at;
  tsr_relation all = TSR_INSIDE;
  for (uint32_t d = 0; d < rtree->dimensions; d++, keys += 2) {
    if (spans[d].all) continue;
    tsr_relation one;
    if (spans[d].text) {
      const uint64_t *sizes = rtree->sizes[level] + at + 2 * d;
      one = tsr__spans_relate_text(&spans[d], rtree->text + keys[0], sizes[0], rtree->text + keys[1], sizes[1]);
    } else {
      one = tsr__spans_relate(&spans[d], keys[0], keys[1]);
    }
    if (one == TSR_OUTSIDE) return one;
    if (one == TSR_OVERLAP) all = one;
  }
  return all;
}

/* Visits all leaves below a node whose MBR is within what is sought. */
static int visit_below(const tsr_rtree *rtree, uint32_t level, uint64_t node, tsr_rtree_visitor fn, void *argument,
                       tsr_error *error) {
  uint64_t first = node, past = node + 1;
  for (; level + 1 < rtree->levels; level++) {
    first = first * rtree->fanout; /* does not overflow: this child exists */
    past = TSR_MIN(tsr__mul_sat(past, rtree->fanout), rtree->counts[level + 1]);
  }
  for (uint64_t leaf = first; leaf < past; leaf++) TSR_TRY(fn(argument, leaf, true, error));
  return TSR_OK;
}

/* Inlined, so that a query calls its test directly: many queries test few nodes. */
static inline __attribute__((always_inline)) int walk(const tsr_rtree *rtree, tsr_rtree_test test, const void *sought,
                                                      tsr_rtree_visitor fn, void *argument, tsr_error *error) {
  if (rtree->levels == 0) return TSR_OK;
  /* of each level on the way down: the nodes not visited yet */
  uint64_t next[TSR_RTREE_LEVELS], past[TSR_RTREE_LEVELS];
  uint32_t level = 0;
  next[0] = 0;
  past[0] = rtree->counts[0];
  for (;;) {
    if (next[level] >= past[level]) {
      if (level == 0) return TSR_OK;
      level--;
      continue;
    }
    uint64_t node = next[level]++;
    tsr_relation relation = test(sought, rtree, level, node);
    if (relation == TSR_OUTSIDE) continue;
    if (relation == TSR_INSIDE) {
      TSR_TRY(visit_below(rtree, level, node, fn, argument, error));
    } else if (level + 1 == rtree->levels) {
      TSR_TRY(fn(argument, node, false, error));
    } else {
      level++;
      next[level] = node * rtree->fanout;
      past[level] = TSR_MIN(next[level] + rtree->fanout, rtree->counts[level]);
    }
  }
}

int tsr__rtree_query(const tsr_rtree *rtree, const tsr_spans *spans, tsr_rtree_visitor fn, void *argument,
                     tsr_error *error) {
  return walk(rtree, relate_spans, spans, fn, argument, error);
}

int tsr__rtree_walk(const tsr_rtree *rtree, tsr_rtree_test test, const void *sought, tsr_rtree_visitor fn,
                    void *argument, tsr_error *error) {
  return walk(rtree, test, sought, fn, argument, error);
}

/* ---- Building and encoding --------------------------------------------------------------------------------------- */

#define FANOUT 10u

/* Makes a level of `count` nodes above the next level. The MBR of a node starts as that of its first child and is
 * widened to contain the others. */
static int add_level(const tsr_schema *schema, uint32_t level, uint64_t count, tsr_arena *arena, tsr_rtree *rtree,
                     tsr_error *error) {
  const uint64_t values = count * rtree->dimensions * 2;
  TSR_TRY(allocate_level(rtree, level, count, arena, error));
  for (uint64_t i = 0; i < values; i++) {
    uint64_t child = i / (2 * rtree->dimensions) * FANOUT * 2 * rtree->dimensions + i % (2 * rtree->dimensions);
    rtree->keys[level][i] = rtree->keys[level + 1][child];
    if (rtree->sizes) rtree->sizes[level][i] = rtree->sizes[level + 1][child];
  }
  rtree_widen(rtree, schema, level);
  return TSR_OK;
}

int tsr__rtree_build(const tsr_schema *schema, uint64_t count, uint64_t *keys, uint64_t *sizes, uint8_t *text,
                     tsr_arena *arena, tsr_rtree *rtree, tsr_error *error) {
  tsr_rtree made = {.dimensions = schema->dimension_count, .fanout = FANOUT, .text = text};
  if (count) made.levels = 1;
  for (uint64_t nodes = count; nodes > 1; nodes = (nodes + FANOUT - 1) / FANOUT) made.levels++;
  TSR_TRY(TSR_ARENA_ARRAY(arena, made.levels, &made.counts, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, made.levels, &made.keys, error));
  if (sizes) { TSR_TRY(TSR_ARENA_ARRAY(arena, made.levels, &made.sizes, error)); }
  if (count) {
    made.counts[made.levels - 1] = count;
    made.keys[made.levels - 1] = keys;
    if (sizes) made.sizes[made.levels - 1] = sizes;
    for (uint32_t level = made.levels - 1; level-- > 0;)
      TSR_TRY(add_level(schema, level, (made.counts[level + 1] + FANOUT - 1) / FANOUT, arena, &made, error));
  }
  *rtree = made;
  return TSR_OK;
}

void tsr__rtree_domain(const tsr_rtree *rtree, const tsr_schema *schema, tsr_interval *domain) {
  for (uint32_t d = 0; d < rtree->dimensions; d++) {
    const uint64_t *keys = rtree->keys[0] + 2 * d;
    if (!rtree_is_text(schema, d)) {
      tsr__key_value(schema->fields[d].datatype, keys[0], domain[d].low);
      tsr__key_value(schema->fields[d].datatype, keys[1], domain[d].high);
      continue;
    }
    domain[d].low_text = rtree->text + keys[0];
    domain[d].high_text = rtree->text + keys[1];
    domain[d].low_size = rtree->sizes[0][2 * d];
    domain[d].high_size = rtree->sizes[0][2 * d + 1];
  }
}

static int encode_range(const tsr_rtree *rtree, const tsr_field *field, uint32_t level, uint64_t at, tsr_buffer *out,
                        tsr_error *error) {
  const uint64_t *keys = rtree->keys[level] + at;
  if (field->values_per_cell != TSR_VARIABLE) {
    uint8_t values[16];
    uint64_t size = tsr_datatype_size(field->datatype);
    tsr__key_value(field->datatype, keys[0], values);
    tsr__key_value(field->datatype, keys[1], values + size);
    return tsr__buffer_append(out, values, 2 * size, error);
  }
  const uint64_t *sizes = rtree->sizes[level] + at;
  TSR_TRY(tsr__buffer_append_u64(out, sizes[0] + sizes[1], error));
  TSR_TRY(tsr__buffer_append_u64(out, sizes[0], error));
  TSR_TRY(tsr__buffer_append(out, rtree->text + keys[0], sizes[0], error));
  return tsr__buffer_append(out, rtree->text + keys[1], sizes[1], error);
}

static int rtree_encode(const tsr_rtree *rtree, const tsr_schema *schema, uint32_t version, tsr_buffer *out,
                        tsr_error *error) {
  if (!layout_has_dimension_datatypes(version)) TSR_TRY(tsr__buffer_append_u32(out, schema->dimension_count, error));
  /* the fanout of a decoded list of MBRs is 0 */
  TSR_TRY(tsr__buffer_append_u32(out, rtree->fanout ? rtree->fanout : FANOUT, error));
  if (!layout_has_dimension_datatypes(version))
    TSR_TRY(tsr__buffer_append_u8(out, (uint8_t)schema->fields[0].datatype, error));
  TSR_TRY(tsr__buffer_append_u32(out, rtree->levels, error));
  for (uint32_t level = 0; level < rtree->levels; level++) {
    TSR_TRY(tsr__buffer_append_u64(out, rtree->counts[level], error));
    uint64_t values = rtree->counts[level] * rtree->dimensions * 2;
    for (uint64_t at = 0; at < values; at += 2)
      TSR_TRY(encode_range(rtree, &schema->fields[at / 2 % rtree->dimensions], level, at, out, error));
  }
  return TSR_OK;
}

int tsr__rtree_encode(const tsr_rtree *rtree, const tsr_schema *schema, uint32_t version, tsr_buffer *out,
                      tsr_error *error) {
  uint64_t before = out->size;
  int rc = rtree_encode(rtree, schema, version, out, error);
  if (rc < 0) out->size = before;
  return rc;
}
