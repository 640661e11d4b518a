/* dropped.c: which tiles may have cells that delete conditions have dropped, for snapshots that show these cells.
 *
 * A tile is kept if, by the MBR alone, one of the snapshot's conditions may delete a cell in it. Attributes and times
 * do not count: a newer version of such a cell, which hides it, has the same coordinates, so its tile is kept, too, and
 * the version merge decides as ever. What the transaction has deleted is known by row, and its own cells are few.
 *
 * A condition is stored negated (format/condition.h): it deletes the cells for which it is false.
 */
#include "read/reader.h"

#include <string.h>

#include "array/array.h"
#include "format/condition.h"
#include "format/fragment_metadata.h"
#include "format/schema.h"
#include "model/datatype.h"

#define CHILDREN_LEFT 64 /* most children of a root that are evaluated one by one */

typedef struct dropped_tile { /* a tile's MBR */
  const tsr_schema *schema;
  const tsr_rtree *rtree;
  uint64_t number;
} dropped_tile;

/* Compares a value with the ends of an MBR on a dimension: *low is the sign of value - low end, *high that of value -
 * high end. Returns false if it cannot tell. */
static bool relate(const dropped_tile *t, uint32_t d, const uint8_t *value, uint64_t size, int *low, int *high) {
  const tsr_field *dimension = &t->schema->fields[d];
  const uint32_t leaf = t->rtree->levels - 1;
  const uint64_t at = (t->number * t->rtree->dimensions + d) * 2;
  const uint64_t *keys = t->rtree->keys[leaf] + at;
  if (dimension->values_per_cell == TSR_VARIABLE) {
    const uint64_t *sizes = t->rtree->sizes ? t->rtree->sizes[leaf] + at : NULL;
    if (!sizes) return false;
    *low = tsr__bytes_compare(value, size, t->rtree->text + keys[0], sizes[0]);
    *high = tsr__bytes_compare(value, size, t->rtree->text + keys[1], sizes[1]);
    return true;
  }
  const tsr_kind kind = tsr_datatype_kind(dimension->datatype);
  static const uint8_t zeros[8];
  if (size != tsr_datatype_size(dimension->datatype) || size > sizeof zeros) return false;
  if (kind == TSR_KIND_FLOAT) { /* keys tell -0.0 from 0.0, and order NaN */
    double number = 0;
    float single = 0;
    memcpy(size == sizeof single ? (void *)&single : (void *)&number, value, size);
    if (size == sizeof single) number = (double)single;
    if (!(number < 0 || number > 0)) return false;
  }
  const uint64_t key = tsr__key(dimension->datatype, value);
  *low = key < keys[0] ? -1 : key > keys[0];
  *high = key < keys[1] ? -1 : key > keys[1];
  return true;
}

/* Returns true if a cell with a value of NOT IN may be in the tile. */
static bool may_be_in(const dropped_tile *t, uint32_t d, const tsr_condition_node *node) {
  for (uint64_t i = 0; i < node->value_count; i++) {
    const uint64_t at = node->value_offsets[i];
    int low, high;
    if (!relate(t, d, node->value + at, node->value_offsets[i + 1] - at, &low, &high) || (low >= 0 && high <= 0))
      return true;
  }
  return false;
}

static bool comparison_may_fail(const dropped_tile *t, const tsr_condition_node *node) {
  const int64_t field = tsr__schema_field(t->schema, node->field);
  int low, high;
  if (node->op == TSR_ALWAYS_TRUE) return false;
  if (node->op == TSR_ALWAYS_FALSE || field < 0 || field >= t->schema->dimension_count) return true;
  if (node->op == TSR_NOT_IN) return may_be_in(t, (uint32_t)field, node);
  if (node->op == TSR_IN || !node->value) return true;
  if (!relate(t, (uint32_t)field, node->value, node->value_size, &low, &high)) return true;
  switch (node->op) {
  case TSR_LT: return high <= 0;
  case TSR_LE: return high < 0;
  case TSR_GT: return low >= 0;
  case TSR_GE: return low > 0;
  case TSR_EQ: return low != 0 || high != 0;
  default: return low >= 0 && high <= 0;
  }
}

/* Returns false only if the node holds for every cell of the tile. Decoding has bounded the depth. */
static bool may_fail(const dropped_tile *t, const tsr_condition_node *node) {
  if (!node->expression) return comparison_may_fail(t, node);
  const bool is_and = node->op == TSR_JOIN_AND;
  for (uint32_t i = 0; i < node->child_count; i++)
    if (may_fail(t, &node->children[i]) == is_and) return is_and;
  return !is_and;
}

static dropped_tile tile_of(const tsr_snapshot *snapshot, uint32_t fragment, uint64_t tile) {
  return (dropped_tile){snapshot->schema, snapshot->fragments[fragment].fragment->metadata.rtree, tile};
}

/* Deletes of single cells become an AND of many children, few of which meet a tile. The narrowed root has no index of
 * its children (condition.c, "Guards"), so it is made only if it has few of them. */
int tsr__may_drop(const tsr_snapshot *snapshot, uint32_t fragment, uint64_t tile, uint64_t number, tsr_arena *arena,
                  tsr_condition *narrowed, tsr_error *error) {
  const dropped_tile t = tile_of(snapshot, fragment, tile);
  const tsr_condition_node *root = &snapshot->conditions[number]->root;
  uint32_t few[CHILDREN_LEFT], count = 0;
  *narrowed = *snapshot->conditions[number];
  if (!root->expression || root->op != TSR_JOIN_AND) return may_fail(&t, root);
  for (uint32_t i = 0; i < root->child_count; i++)
    if (may_fail(&t, &root->children[i]) && count++ < CHILDREN_LEFT) few[count - 1] = i;
  if (count == 0 || count > CHILDREN_LEFT) return count > 0;
  if (count == 1) return narrowed->root = root->children[few[0]], 1;
  narrowed->root.child_count = count;
  narrowed->root.guards = NULL;
  TSR_TRY(TSR_ARENA_RAW(arena, count, &narrowed->root.children, error));
  for (uint32_t i = 0; i < count; i++) narrowed->root.children[i] = root->children[few[i]];
  return 1;
}

bool tsr__any_may_drop(const tsr_snapshot *snapshot, uint32_t fragment, uint64_t tile,
                       const tsr_condition *const *conditions, uint64_t count) {
  const dropped_tile t = tile_of(snapshot, fragment, tile);
  for (uint64_t i = 0; i < count; i++)
    if (may_fail(&t, &conditions[i]->root)) return true;
  return false;
}

bool tsr__removes_some(const tsr_snapshot *snapshot, uint32_t fragment, uint64_t tile) {
  const tsr_snapshot_view *view = &snapshot->view;
  const tsr_fragment *f = snapshot->fragments[fragment].fragment;
  if (!view->removed || f->run.uncommitted) return false;
  const int64_t first = f->row_base + (int64_t)(tile * f->cells_per_tile);
  const uint64_t cells = tsr__fragment_tile_cells(&f->metadata, tile);
  return view->functions->hides_some(view->writer, first, first + (int64_t)cells - 1);
}

uint64_t tsr__dropped_tiles(const tsr_snapshot *snapshot, uint32_t number, tsr_plan_tile *tiles, uint64_t from,
                            uint64_t end) {
  const bool own = snapshot->fragments[number].fragment->run.uncommitted;
  uint64_t kept = from;
  for (uint64_t i = from; i < end; i++)
    if (own || tsr__removes_some(snapshot, number, tiles[i].tile) ||
        tsr__any_may_drop(snapshot, number, tiles[i].tile, snapshot->conditions, snapshot->condition_count))
      tiles[kept++] = tiles[i];
  return kept;
}
