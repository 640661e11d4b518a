/* tiles.c: what a query learns from statistics: tiles that the reader can skip, and tiles that need not be read.
 *
 * - Predicates: the comparisons of the WHERE by which the reader skips tiles.
 * - Whole tiles: the reader offers each tile whose cells it would all give (reader.h); the query takes it if it can
 *   count the cells without reading them. The same for boxes of cells that were never written.
 *
 * Sections: predicates; statistics; the WHERE; the group; tiles; cells that were never written; planning.
 */
#include "query/query.h"
#include "base/arithmetic.h"

#include <math.h>
#include <string.h>

#include "model/datatype.h"
#include "environment/environment.h"
#include "format/fragment_metadata.h"
#include "read/reader.h"

/* ---- Predicates for the reader ---------------------------------------------------------------------------------- */
/* These are the terms `FIELD op CONSTANT`, joined by AND, whose field is an attribute of numbers. They become
 * predicates whose ranges may be wider than the comparison: the query tests each cell itself.
 */

typedef struct where_predicates {
  tsr_query_run *run;
  tsr_predicate *list;
  uint32_t count;
} where_predicates;

/* Writes a bound of a range in a field's datatype, rounded outwards. Returns false if the datatype has no such
 * bound. */
static bool where_bound(const tsr_field *field, const tsr_value *value, bool is_low, uint8_t *bound) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  if (kind == TSR_KIND_FLOAT) {
    if (value->type == TSR_VALUE_INTEGER && (value->as.integer > TSR_EXACT_REAL || value->as.integer < -TSR_EXACT_REAL))
      return false;
    const double wanted = value->type == TSR_VALUE_INTEGER ? (double)value->as.integer : value->as.real;
    if (!isfinite(wanted)) return false;
    if (field->datatype == TSR_FLOAT64) {
      memcpy(bound, &wanted, sizeof wanted);
      return true;
    }
    if (fabs(wanted) > 3e38) return false;
    float nearest = (float)wanted;
    if (is_low && (double)nearest > wanted) nearest = nextafterf(nearest, -INFINITY);
    if (!is_low && (double)nearest < wanted) nearest = nextafterf(nearest, INFINITY);
    memcpy(bound, &nearest, sizeof nearest);
    return true;
  }
  if (value->type != TSR_VALUE_INTEGER || field->datatype == TSR_UINT64) return false;
  if (kind != TSR_KIND_SIGNED && kind != TSR_KIND_UNSIGNED) return false;
  const unsigned bits = 8 * (unsigned)field->cell_size;
  const int64_t least = kind == TSR_KIND_UNSIGNED ? 0 : bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1));
  const int64_t most = kind == TSR_KIND_UNSIGNED ? (INT64_C(1) << bits) - 1 : -(least + 1);
  if (value->as.integer < least || value->as.integer > most) return false;
  memcpy(bound, &value->as.integer, field->cell_size); /* little-endian */
  return true;
}

static int where_compare(where_predicates *to, tsr_operation operation, const tsr_node *field_node,
                         const tsr_node *constant, tsr_error *error) {
  const tsr_schema *schema = to->run->snapshot->schema;
  const tsr_field *field = &schema->fields[field_node->field];
  const bool has_low = operation != TSR_OP_LESS && operation != TSR_OP_LESS_EQUAL;
  const bool has_high = operation != TSR_OP_GREATER && operation != TSR_OP_GREATER_EQUAL;
  uint8_t low[8] = {0}, high[8] = {0}, *bounds;
  tsr_range *range;
  if (field->is_dimension || field->values_per_cell != 1) return TSR_OK;
  if (constant->value.type != TSR_VALUE_INTEGER && constant->value.type != TSR_VALUE_REAL) return TSR_OK;
  if ((has_low && !where_bound(field, &constant->value, true, low)) ||
      (has_high && !where_bound(field, &constant->value, false, high)))
    return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&to->run->arena, 16, &bounds, error));
  TSR_TRY(TSR_ARENA_ARRAY(&to->run->arena, 1, &range, error));
  memcpy(bounds, low, sizeof low);
  memcpy(bounds + 8, high, sizeof high);
  *range = (tsr_range){.low = has_low ? bounds : NULL, .high = has_high ? bounds + 8 : NULL};
  to->list[to->count++] = (tsr_predicate){
      .field = field_node->field, .kind = TSR_PREDICATE_WITHIN, .ranges = {.ranges = range, .count = 1}};
  return TSR_OK;
}

int tsr__query_where_predicates(tsr_query_run *run, const tsr_predicate **predicates, uint32_t *count,
                                tsr_error *error) {
  const tsr_expression *where = &run->query.where;
  where_predicates to = {.run = run};
  bool *holds; /* by node: the WHERE is true only if it is */
  *count = 0;
  if (!run->expressions.where) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, where->count, &holds, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, where->count, &to.list, error));
  holds[where->count - 1] = true;
  for (uint32_t n = where->count; n-- > 0;) {
    const tsr_node *node = &where->nodes[n];
    if (!holds[n]) continue;
    if (node->operation == TSR_OP_AND) holds[node->operands[0]] = holds[node->operands[1]] = true;
    if (node->operation != TSR_OP_EQUAL && node->operation != TSR_OP_LESS && node->operation != TSR_OP_LESS_EQUAL &&
        node->operation != TSR_OP_GREATER && node->operation != TSR_OP_GREATER_EQUAL)
      continue;
    const tsr_node *a = &where->nodes[node->operands[0]], *b = &where->nodes[node->operands[1]];
    if (a->operation == TSR_OP_FIELD && b->operation == TSR_OP_CONSTANT)
      TSR_TRY(where_compare(&to, node->operation, a, b, error));
    else if (b->operation == TSR_OP_FIELD && a->operation == TSR_OP_CONSTANT)
      TSR_TRY(where_compare(&to, tsr__mirrored(node->operation), b, a, error));
  }
  *predicates = to.list;
  *count = to.count;
  return TSR_OK;
}

/* ---- Whole tiles ------------------------------------------------------------------------------------------------ */
/* The query takes a tile if all of its cells belong to one group and surely satisfy the WHERE, and if trustworthy
 * statistics (predicate.c) are certain to give what the cells would:
 * - Counts follow from the number of cells and of nulls. A NaN is null, so reals need bounds that rule it out.
 * - Minima and maxima are those of the tile. Those of a dimension are the ends of a dense tile.
 * - Sums of integers are used only if they cannot have saturated at the limits of 64 bits.
 * - Sums of reals are ordinary sums with rounding errors, and are not used, except by tsr_aggregate_open, which reads
 *   again if the likely error may show.
 * - A value in the row of an extreme needs the cells of the tile that has this row. Tiles are read if no tile that is
 *   read has a greater maximum, or a lesser minimum; equal ones are read, since the first of their rows counts.
 * - Dense tiles must have no padding. Versions below 16 counted the zeros of the padding, and in all versions a
 *   consolidation by TileDB counts the fill values around the box.
 */

#define QUERY_TILE_STEPS 65536u /* most coordinates of a tile whose key numbers are compared */
#define UNWRITTEN_MIN    8u /* cells of a box per combination of key coordinates; with fewer, the cells are read */
#define UNWRITTEN_STEPS  65536u /* combinations between two checks for cancellation */

typedef struct tile_values { /* what is known about a field's values in a tile */
  uint64_t nulls;
  tsr_value low, high; /* INTEGER, UNSIGNED, REAL; TSR_VALUE_NULL: not known, or all are null */
  bool bounded; /* low and high are known */
  const uint64_t *sum; /* as stored; NULL: unknown */
} tile_values;

/* ---- Statistics -------------------------------------------------------------------------------------------------- */

/* Makes a value of a field from its bytes. */
static tsr_value tile_value_of(const tsr_field *field, const uint8_t *bytes) {
  tsr_value value = {.type = TSR_VALUE_REAL};
  if (field->datatype == TSR_FLOAT64) {
    memcpy(&value.as.real, bytes, sizeof value.as.real);
  } else if (field->datatype == TSR_FLOAT32) {
    float narrow;
    memcpy(&narrow, bytes, sizeof narrow);
    value.as.real = (double)narrow;
  } else {
    value.type = field->datatype == TSR_UINT64 ? TSR_VALUE_UNSIGNED : TSR_VALUE_INTEGER;
    value.as.unsigned_integer = tsr__query_value_of_key(field->datatype, tsr__key(field->datatype, bytes));
  }
  return value;
}

/* Reads the statistics of a field in a tile. Returns 1; 0 if they cannot be used. */
static int read_statistics(const tsr_query_run *run, const tsr_whole_tile *tile, uint32_t slot, const tsr_field *field,
                           tile_values *values, tsr_error *error) {
  tsr_fragment *fragment = run->snapshot->fragments[tile->fragment].fragment;
  tsr_statistics s;
  if (fragment->metadata.dense && tile->cells != run->snapshot->grid.tile_cells) return 0;
  TSR_TRY(tsr__statistics_load(run->snapshot->array, fragment, slot, false, &s, error));
  if (!s.min || !s.max || s.value_size != field->cell_size || tile->tile >= s.count) return 0;
  if (field->nullable && (!s.null_counts || s.null_counts[tile->tile] > tile->cells)) return 0;
  const uint8_t *min = s.min + tile->tile * s.value_size, *max = s.max + tile->tile * s.value_size;
  values->nulls = field->nullable ? s.null_counts[tile->tile] : 0;
  if (values->nulls == tile->cells) return 1;
  if (tsr__key(field->datatype, min) > tsr__key(field->datatype, max)) return 0;
  values->sum = s.sums ? &s.sums[tile->tile] : NULL;
  if (tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT && !tsr__statistics_plain(field, min, max, values->sum))
    return 0;
  values->low = tile_value_of(field, min);
  values->high = tile_value_of(field, max);
  values->bounded = true;
  return 1;
}

/* Finds the ends of a dimension in a dense tile, all of whose cells are there. Returns 1; 0 if they are not numbers. */
static int find_coordinates(const tsr_query_run *run, const tsr_whole_tile *tile, uint32_t d, tile_values *values) {
  const tsr_datatype datatype = run->snapshot->schema->fields[d].datatype;
  const tsr_kind kind = tsr_datatype_kind(datatype);
  uint64_t cells = 1;
  if (!tile->low || (kind != TSR_KIND_SIGNED && kind != TSR_KIND_UNSIGNED)) return 0;
  for (uint32_t i = 0; i < run->schema->dimension_count; i++)
    cells = tsr__mul_sat(cells, tsr__add_sat(tile->high[i] - tile->low[i], 1));
  if (cells != tile->cells) return 0;
  const uint64_t low = run->snapshot->grid.low_key[d] + tile->low[d],
                 high = run->snapshot->grid.low_key[d] + tile->high[d];
  values->low.type = values->high.type = datatype == TSR_UINT64 ? TSR_VALUE_UNSIGNED : TSR_VALUE_INTEGER;
  values->low.as.unsigned_integer = tsr__query_value_of_key(datatype, low);
  values->high.as.unsigned_integer = tsr__query_value_of_key(datatype, high);
  values->bounded = true;
  return 1;
}

/* Finds out what is known about a field in a tile. Returns 1; 0 if nothing is known. */
static int find_values(const tsr_query_run *run, const tsr_whole_tile *tile, uint32_t number, tile_values *values,
                       tsr_error *error) {
  const tsr_snapshot_fragment *f = &run->snapshot->fragments[tile->fragment];
  const tsr_fragment_metadata *m = &f->fragment->metadata;
  const tsr_field *shown = &run->schema->fields[number];
  const tsr_kind kind = tsr_datatype_kind(shown->datatype);
  const int64_t slot = f->slots[number];
  tsr_system_column system_column;
  *values = (tile_values){0};
  if (shown->is_dimension) return find_coordinates(run, tile, number, values);
  if (slot < 0) { /* the fragment lacks the attribute */
    values->nulls = tile->cells;
    return !run->query.fill_unwritten;
  }
  const int64_t in_fragment = tsr__fragment_slot_field(m, (uint32_t)slot, &system_column);
  if (in_fragment < m->schema->dimension_count) return 0;
  const tsr_field *field = &m->schema->fields[in_fragment];
  if (kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES || shown->values_per_cell != 1) return !field->nullable;
  if (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) return 0; /* NaT is null, and some values cannot be printed */
  if (field->datatype != run->snapshot->schema->fields[number].datatype) return 0;
  if (f->fragment->run.tiles) return 0; /* an uncommitted fragment, whose tiles are in memory, has no statistics */
  if (!tsr__statistics_trusted(m, (uint32_t)in_fragment)) return 0;
  return read_statistics(run, tile, (uint32_t)slot, field, values, error);
}

/* ---- The WHERE --------------------------------------------------------------------------------------------------- */

/* Compares a number of a field with a constant. Returns false if their order is not certain. */
static bool compare_certainly(const tsr_value *a, const tsr_value *b, int *order) {
  const double most = (double)TSR_EXACT_REAL;
  if (a->type == TSR_VALUE_INTEGER && b->type == TSR_VALUE_INTEGER) {
    *order = (a->as.integer > b->as.integer) - (a->as.integer < b->as.integer);
    return true;
  }
  if ((a->type != TSR_VALUE_INTEGER && a->type != TSR_VALUE_REAL) ||
      (b->type != TSR_VALUE_INTEGER && b->type != TSR_VALUE_REAL))
    return false;
  const double x = a->type == TSR_VALUE_REAL ? a->as.real : (double)a->as.integer;
  const double y = b->type == TSR_VALUE_REAL ? b->as.real : (double)b->as.integer;
  *order = (x > y) - (x < y);
  return !isnan(x) && !isnan(y) && (a->type == b->type || (fabs(x) <= most && fabs(y) <= most));
}

static bool comparison_holds(tsr_operation operation, int order) {
  switch (operation) {
  case TSR_OP_LESS: return order < 0;
  case TSR_OP_LESS_EQUAL: return order <= 0;
  case TSR_OP_GREATER: return order > 0;
  case TSR_OP_GREATER_EQUAL: return order >= 0;
  case TSR_OP_UNEQUAL: return order != 0;
  default: return order == 0;
  }
}

static bool is_comparison(tsr_operation operation) {
  return operation >= TSR_OP_EQUAL && operation <= TSR_OP_GREATER_EQUAL;
}

/* Returns 1 if a comparison of an attribute with a constant holds for all cells of a tile; 0 if that is unknown. With
 * `tile` NULL: whether statistics could prove it at all. */
static int comparison_is_sure(const tsr_query_run *run, const tsr_whole_tile *tile, const tsr_node *node,
                              tsr_error *error) {
  const tsr_node *a = &run->query.where.nodes[node->operands[0]];
  const tsr_node *b = node->operand_count > 1 ? &run->query.where.nodes[node->operands[1]] : NULL;
  tile_values values;
  int low, high;
  const bool turned = b && a->operation == TSR_OP_CONSTANT;
  const tsr_node *field = turned ? b : a, *constant = turned ? a : b;
  if (field->operation != TSR_OP_FIELD || run->schema->fields[field->field].is_dimension) return 0;
  if (constant && constant->operation != TSR_OP_CONSTANT) return 0;
  if (!tile) return 1;
  const int rc = find_values(run, tile, field->field, &values, error);
  if (rc <= 0 || values.nulls > 0) return rc < 0 ? rc : 0;
  if (!constant) return 1; /* NOT NULL */
  if (!values.bounded || !compare_certainly(&values.low, &constant->value, &low) ||
      !compare_certainly(&values.high, &constant->value, &high))
    return 0;
  if (node->operation == TSR_OP_UNEQUAL) return low * high > 0;
  return comparison_holds(node->operation, turned ? -low : low) &&
         comparison_holds(node->operation, turned ? -high : high);
}

/* Returns 1 if node n of the WHERE is true for all cells of a tile; 0 if that is unknown. With `tile` NULL: whether
 * statistics could prove it at all. Follows at most `depth` nested nodes. */
static int is_sure(const tsr_query_run *run, const tsr_whole_tile *tile, uint32_t n, unsigned depth, tsr_error *error) {
  const tsr_node *node = &run->query.where.nodes[n];
  if (depth == 0) return 0;
  if (is_comparison(node->operation) || node->operation == TSR_OP_NOT_NULL)
    return comparison_is_sure(run, tile, node, error);
  if (node->operation != TSR_OP_AND && node->operation != TSR_OP_OR) return 0;
  const int first = is_sure(run, tile, node->operands[0], depth - 1, error);
  if (first < 0 || (first > 0) == (node->operation == TSR_OP_OR)) return first;
  return is_sure(run, tile, node->operands[1], depth - 1, error);
}

#define WHERE_DEPTH 24u

static int where_is_sure(const tsr_query_run *run, const tsr_whole_tile *tile, tsr_error *error) {
  return run->expressions.where ? is_sure(run, tile, run->query.where.count - 1, WHERE_DEPTH, error) : 1;
}

/* ---- The group --------------------------------------------------------------------------------------------------- */

/* Returns the keys of both ends of a sparse tile's MBR on a dimension; for strings, sets texts. */
static const uint64_t *ends_of_tile(const tsr_query_run *run, const tsr_whole_tile *tile, uint32_t dimension,
                                    tsr_text_value texts[2]) {
  const tsr_rtree *rtree = run->snapshot->fragments[tile->fragment].fragment->metadata.rtree;
  const uint64_t at = (tile->tile * rtree->dimensions + dimension) * 2;
  const uint64_t *keys = rtree->keys[rtree->levels - 1] + at;
  for (unsigned i = 0; run->schema->fields[dimension].values_per_cell == TSR_VARIABLE && i < 2; i++)
    texts[i] = (tsr_text_value){(const char *)rtree->text + keys[i], rtree->sizes[rtree->levels - 1][at + i]};
  return keys;
}

/* Sets the word of a key, like tsr__query_key_words, if all values low..high have the same. Returns false if not. */
static bool word_of_values(const tsr_query_run *run, uint32_t k, uint64_t low, uint64_t high, uint64_t *word) {
  const query_key *key = &run->grouping.keys[k];
  const tsr_query_key *given = &run->query.keys[k];
  uint64_t other;
  if (key->plain) {
    *word = low;
    return low == high;
  }
  if (key->rising)
    return tsr__query_rising_word(&given->expression, key->type, (int64_t)low, word) &&
           tsr__query_rising_word(&given->expression, key->type, (int64_t)high, &other) && *word == other;
  const uint64_t first = low - (uint64_t)given->low, last = high - (uint64_t)given->low;
  if (first > last || last >= given->count || last - first >= QUERY_TILE_STEPS) return false;
  for (uint64_t i = first + 1; i <= last; i++)
    if (given->numbers[i] != given->numbers[first]) return false;
  *word = (uint64_t)given->numbers[first] + 1;
  return given->numbers[first] < given->number_count;
}

/* Returns the number that a word of a key has in the grid; key->extent or more: it is outside. */
static uint64_t number_of_word(const query_key *key, uint64_t word) {
  return key->plain ? word - key->low : word - 1 + key->has_null;
}

/* Finds the query's group by the words of its keys. Returns 1; 0 if a value is outside the grid. */
static int group_of_words(tsr_query_run *run, const uint64_t *words, uint32_t *group, tsr_error *error) {
  uint64_t index = 0;
  if (!run->grouping.grid) {
    const int rc = tsr__query_group(run, words, group, error);
    return rc < 0 ? tsr__query_fail_groups(run, rc, error) : 1;
  }
  for (uint32_t k = 0; k < run->query.key_count; k++) {
    const query_key *key = &run->grouping.keys[k];
    const uint64_t number = number_of_word(key, words[k]);
    if (number >= key->extent) return 0;
    index += number * key->stride;
  }
  *group = (uint32_t)index;
  return 1;
}

/* The keys of a tile: words, or texts not yet numbered. */
typedef struct tile_keys {
  uint64_t words[TSR_QUERY_KEYS + 1];
  tsr_text_value texts[TSR_QUERY_KEYS][2]; /* both ends */
} tile_keys;

/* Returns true if all cells of a tile belong to one group, and sets its keys. */
static bool has_one_group(const tsr_query_run *run, const tsr_whole_tile *tile, tile_keys *keys) {
  for (uint32_t k = 0; k < run->query.key_count; k++) {
    const uint32_t d = run->grouping.keys[k].field;
    const tsr_datatype datatype = run->snapshot->schema->fields[d].datatype;
    uint64_t low, high;
    if (tile->low) {
      low = run->snapshot->grid.low_key[d] + tile->low[d];
      high = run->snapshot->grid.low_key[d] + tile->high[d];
    } else {
      tsr_text_value *texts = keys->texts[k];
      const uint64_t *ends = ends_of_tile(run, tile, d, texts);
      if (run->grouping.keys[k].type == TSR_VALUE_TEXT) {
        if (tsr__bytes_compare(texts[0].bytes, texts[0].size, texts[1].bytes, texts[1].size) != 0) return false;
        continue;
      }
      low = ends[0];
      high = ends[1];
    }
    if (!word_of_values(run, k, tsr__query_value_of_key(datatype, low), tsr__query_value_of_key(datatype, high),
                        &keys->words[k]))
      return false;
  }
  return true;
}

/* Finds the group of a tile. Returns 1; 0 if its keys are outside the grid. */
static int find_tile_group(tsr_query_run *run, tile_keys *keys, uint32_t *group, tsr_error *error) {
  for (uint32_t k = 0; k < run->query.key_count; k++)
    if (run->grouping.keys[k].type == TSR_VALUE_TEXT)
      TSR_TRY(tsr__texts_number(&run->collected.texts, keys->texts[k][0].bytes, keys->texts[k][0].size, &keys->words[k],
                                error));
  return group_of_words(run, keys->words, group, error);
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------- */

/* Returns true if no sum of `count` integers between the minimum and the maximum can overflow 64 bits. */
static bool sum_fits(const tsr_field *field, uint64_t count, const tile_values *values) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  const uint64_t low = values->low.as.unsigned_integer, high = values->high.as.unsigned_integer;
  uint64_t product;
  if (kind != TSR_KIND_SIGNED && kind != TSR_KIND_DATETIME && kind != TSR_KIND_TIME)
    return tsr__mul(count, high, &product);
  const uint64_t greatest = TSR_MAX(low >> 63 ? 0 - low : low, high >> 63 ? 0 - high : high);
  return tsr__mul(count, greatest, &product) && product <= INT64_MAX;
}

static double real_end(const tsr_value *value) { return fabs(value->as.real); }

/* Writes the words of a sum. Returns false if the sum is not certain. */
static bool set_sum(const tsr_query_run *run, const tsr_measure *m, const tsr_field *field, uint64_t count,
                    const tile_values *values, uint64_t *record) {
  if (!values->sum) return false;
  record[m->sum_at] = *values->sum;
  record[m->sum_at + 1] = 0;
  if (m->type == TSR_VALUE_REAL) {
    if (run->layout.doubt_at == QUERY_NO_WORD) return false;
    double doubt;
    memcpy(&doubt, &record[run->layout.doubt_at], sizeof doubt);
    doubt += (double)count * TSR_MAX(real_end(&values->low), real_end(&values->high)) * 0x1p-53;
    memcpy(&record[run->layout.doubt_at], &doubt, sizeof doubt);
    return true;
  }
  if (m->type == TSR_VALUE_UNSIGNED && !run->habits.plain && values->high.as.unsigned_integer > INT64_MAX) return false;
  if (m->type == TSR_VALUE_INTEGER && tsr_datatype_kind(field->datatype) == TSR_KIND_SIGNED)
    record[m->sum_at + 1] = *values->sum >> 63 ? UINT64_MAX : 0;
  return sum_fits(field, count, values);
}

/* Writes what statistics say about a measure in a tile into run->layout.known. Returns 1; 0 if it is unknown. */
static int know_measure(const tsr_query_run *run, const tsr_whole_tile *tile, const query_measure *q,
                        tsr_error *error) {
  const tsr_measure *m = &q->measure;
  const uint32_t number = run->expressions.list[q->argument]->nodes[0].field;
  tile_values values;
  const int rc = find_values(run, tile, number, &values, error);
  if (rc <= 0) return rc;
  const uint64_t count = tile->cells - values.nulls;
  run->layout.known[m->count_at] = count;
  if (count == 0 || (!m->sum && !m->ends)) return 1;
  if (!values.bounded || values.low.type != m->type) return 0;
  if (m->sum && !set_sum(run, m, &run->schema->fields[number], count, &values, run->layout.known)) return 0;
  if (!m->ends) return 1;
  run->layout.known[m->low_at] = values.low.as.unsigned_integer;
  run->layout.known[m->high_at] = values.high.as.unsigned_integer;
  return 1;
}

static int add_known(tsr_query_run *run, uint32_t group, tsr_error *error) {
  uint64_t *to = query_record(&run->collected.records, group, run->layout.words);
  to[0] += run->layout.known[0];
  for (uint32_t m = 0; m < run->layout.measure_count; m++)
    TSR_TRY(tsr__measure_merge(&run->layout.measures[m].measure, to, run->layout.known, &run->arena, error));
  if (run->layout.doubt_at == QUERY_NO_WORD) return TSR_OK;
  double doubt, more;
  memcpy(&doubt, &to[run->layout.doubt_at], sizeof doubt);
  memcpy(&more, &run->layout.known[run->layout.doubt_at], sizeof more);
  doubt += more;
  memcpy(&to[run->layout.doubt_at], &doubt, sizeof doubt);
  return TSR_OK;
}

static int take_tile(tsr_query_run *run, const tsr_whole_tile *tile, tsr_error *error) {
  tile_keys keys = {{0}, {{{0}}}};
  uint32_t group;
  if (!has_one_group(run, tile, &keys)) return 0;
  memcpy(run->layout.known, run->layout.blank, run->layout.words * sizeof *run->layout.known);
  run->layout.known[0] = tile->cells;
  int rc = where_is_sure(run, tile, error);
  for (uint32_t m = 0; rc > 0 && m < run->layout.measure_count; m++)
    rc = know_measure(run, tile, &run->layout.measures[m], error);
  if (rc > 0) rc = find_tile_group(run, &keys, &group, error);
  if (rc <= 0) return rc;
  if (tsr__query_at_wants(run, run->layout.known, query_record(&run->collected.records, group, run->layout.words)))
    return 0;
  TSR_TRY(add_known(run, group, error));
  tsr__count(run->snapshot->array->environment, TSR_COUNT_tiles_skipped_by_value, 1);
  return 1;
}

/* ---- Cells that were never written ------------------------------------------------------------------------------- */

typedef struct unwritten_axes { /* the dimensions that determine the keys, and the current coordinates in a box */
  uint32_t count, fields[TSR_QUERY_KEYS];
  uint64_t at[TSR_QUERY_KEYS]; /* ordinals */
} unwritten_axes;

static uint32_t unwritten_axis(unwritten_axes *axes, uint32_t field) {
  uint32_t a = 0;
  while (a < axes->count && axes->fields[a] != field) a++;
  if (a == axes->count) axes->fields[axes->count++] = field;
  return a;
}

/* Returns true if a key is certain at a coordinate of its dimension, and not outside the grid. */
static bool key_is_known(const tsr_query_run *run, uint32_t k, uint64_t ordinal) {
  const query_key *key = &run->grouping.keys[k];
  const uint64_t value = tsr__query_value_of_key(run->snapshot->schema->fields[key->field].datatype,
                                                 run->snapshot->grid.low_key[key->field] + ordinal);
  uint64_t word;
  return word_of_values(run, k, value, value, &word) &&
         (!run->grouping.grid || number_of_word(key, word) < key->extent);
}

/* Returns 1 if all coordinates of a box have groups, else 0. It is asked before the first cell is counted: a box is
 * counted as a whole, or read as a whole. */
static int box_has_groups(const tsr_query_run *run, const tsr_whole_tile *tile, tsr_error *error) {
  uint64_t done = 0;
  for (uint32_t k = 0; k < run->query.key_count; k++) {
    const query_key *key = &run->grouping.keys[k];
    const uint64_t low = tile->low[key->field], high = tile->high[key->field];
    const bool rises = key->plain || key->rising; /* what is known at both ends is known between them */
    for (uint64_t at = low;; at = rises ? high : at + 1) {
      if (!key_is_known(run, k, at)) return 0;
      if (at == high) break;
      if (++done % UNWRITTEN_STEPS == 0) TSR_TRY(tsr__cancelled(&run->snapshot->array->environment->memory, error));
    }
  }
  return 1;
}

/* Adds `each` cells to the group of the current coordinates. Returns 1; 0 if there is no such group. */
static int add_unwritten_cells(tsr_query_run *run, unwritten_axes *axes, uint64_t each, tsr_error *error) {
  uint64_t words[TSR_QUERY_KEYS + 1] = {0};
  uint32_t group;
  for (uint32_t k = 0; k < run->query.key_count; k++) {
    const uint32_t d = run->grouping.keys[k].field;
    const uint64_t key = run->snapshot->grid.low_key[d] + axes->at[unwritten_axis(axes, d)];
    const uint64_t value = tsr__query_value_of_key(run->snapshot->schema->fields[d].datatype, key);
    if (!word_of_values(run, k, value, value, &words[k])) return 0;
  }
  const int rc = group_of_words(run, words, &group, error);
  if (rc > 0) query_record(&run->collected.records, group, run->layout.words)[0] += each;
  return rc;
}

/* Adds the cells of a box, whose attributes are null, to their groups. */
static int take_unwritten(tsr_query_run *run, const tsr_whole_tile *tile, tsr_error *error) {
  unwritten_axes axes = {0};
  uint64_t each = tile->cells, done = 0;
  int rc;
  if (run->expressions.where || run->extremes.count > 0 || (run->query.fill_unwritten && run->layout.measure_count > 0))
    return 0;
  for (uint32_t m = 0; m < run->layout.measure_count; m++)
    if (run->schema->fields[run->expressions.list[run->layout.measures[m].argument]->nodes[0].field].is_dimension)
      return 0;
  if (tile->cells == UINT64_MAX) return tsr__fail(error, TSR_TOOBIG, "there are more cells than 64 bits can count");
  for (uint32_t k = 0; k < run->query.key_count; k++) unwritten_axis(&axes, run->grouping.keys[k].field);
  for (uint32_t a = 0; a < axes.count; a++) {
    axes.at[a] = tile->low[axes.fields[a]];
    each /= tile->high[axes.fields[a]] - tile->low[axes.fields[a]] + 1;
  }
  if (each < UNWRITTEN_MIN && axes.count > 0) return 0;
  if ((rc = box_has_groups(run, tile, error)) <= 0) return rc;
  for (;;) {
    uint32_t a = axes.count;
    if ((rc = add_unwritten_cells(run, &axes, each, error)) <= 0) return rc;
    for (; a > 0 && axes.at[a - 1] == tile->high[axes.fields[a - 1]]; a--)
      axes.at[a - 1] = tile->low[axes.fields[a - 1]];
    if (a == 0) return 1;
    axes.at[a - 1]++;
    if (++done % UNWRITTEN_STEPS == 0) TSR_TRY(tsr__cancelled(&run->snapshot->array->environment->memory, error));
  }
}

/* Called by the reader for each fully selected tile. */
static int take_whole(void *argument, const tsr_whole_tile *tile, tsr_error *error) {
  tsr_query_run *run = argument;
  const int rc = tile->fragment == TSR_NO_FRAGMENT ? take_unwritten(run, tile, error) : take_tile(run, tile, error);
  if (rc > 0) tsr_work_done(run->snapshot->array->environment, tile->cells);
  return rc;
}

/* ---- Planning ---------------------------------------------------------------------------------------------------- */

/* Returns true if statistics could give everything that a measure counts. */
static bool measure_can_be_known(const tsr_query_run *run, const query_measure *q) {
  const tsr_measure *m = &q->measure;
  if (q->argument == QUERY_NONE || q->filter != QUERY_NONE || m->moments || m->list || m->distinct) return false;
  if (run->expressions.list[q->argument]->count != 1 ||
      run->expressions.list[q->argument]->nodes[0].operation != TSR_OP_FIELD)
    return false;
  if (run->expressions.list[q->argument]->nodes[0].nat_is_null) return false; /* statistics take NaT for a value */
  if (m->sum && m->type == TSR_VALUE_REAL && !run->habits.stored_reals) return false;
  const tsr_field *field = &run->schema->fields[run->expressions.list[q->argument]->nodes[0].field];
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  if (m->sum && (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME)) return false; /* statistics have no such sums */
  return (!m->sum && !m->ends) || m->type == TSR_VALUE_INTEGER || m->type == TSR_VALUE_UNSIGNED ||
         m->type == TSR_VALUE_REAL;
}

/* Returns true if the coordinates of a tile determine the values of a key. */
static bool key_can_be_known(const tsr_query_run *run, query_key *key, const tsr_query_key *given) {
  uint32_t field;
  key->rising = key->value != QUERY_NONE && (key->type == TSR_VALUE_INTEGER || key->type == TSR_VALUE_REAL) &&
                tsr__query_rises(run->schema, &given->expression, &field);
  if (key->rising) key->field = field;
  if (key->rising) return true;
  if (key->field >= run->schema->dimension_count) return false;
  if (key->value == QUERY_NONE) return tsr_datatype_kind(run->schema->fields[key->field].datatype) != TSR_KIND_FLOAT;
  return key->type == TSR_VALUE_TEXT && run->schema->fields[key->field].values_per_cell == TSR_VARIABLE &&
         given->expression.count == 1 && given->expression.nodes[0].operation == TSR_OP_FIELD;
}

void tsr__query_tiles_take(tsr_query_run *run, tsr_reader_mode *mode) {
  if (run->query.read_all || run->boxes.given || (run->query.key_count == 0 && run->query.aggregate_count == 0)) return;
  if (run->query.key_count > 0 && !run->schema->dense && tsr_coordinates_lossy(run->schema)) return;
  for (uint32_t k = 0; k < run->query.key_count; k++)
    if (!key_can_be_known(run, &run->grouping.keys[k], &run->query.keys[k])) return;
  for (uint32_t m = 0; m < run->layout.measure_count; m++)
    if (!measure_can_be_known(run, &run->layout.measures[m])) return;
  if (where_is_sure(run, NULL, NULL) <= 0) return;
  mode->take = take_whole;
  mode->take_argument = run;
}
