/* boxes.c: pairs the cells of a block with the rows of a joined table, each of which is a box of coordinates.
 *
 * The rows are sorted into buckets by their intervals in one range. A block is cut into stretches of cells that agree
 * in the numbers of all ranges but one, the fastest, whose number does not fall: a piece of a line of a dense tile is
 * one. For a stretch, the bucket gives the rows that may meet it; a binary search in the fastest range gives the cells
 * that a row meets.
 *
 * In a dense tile blocks come again with the same numbers, if a dimension without a range is slower than those with
 * one: the next step of time. The distance is the period. Parts keep the pairs of some blocks as patterns, for blocks
 * at the same place of the period. These pairs are sorted by a key of their rows, so that cells of one group follow
 * each other, in their order. With the pairs goes what is the same in each period: values of the rows, and the runs of
 * groups (batch.c).
 *
 * Sections: buckets; numbers of cells; pairs. */
#include "query/query.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/pool.h"
#include "base/sort.h"
#include "model/datatype.h"

#define NUMBER_NONE (-1) /* a coordinate that meets no row; below all intervals of ranges with `numbers` */

/* ---- Buckets ----------------------------------------------------------------------------------------------------- */

static bool is_text(const tsr_field *field) {
  return tsr_datatype_kind(field->datatype) == TSR_KIND_TEXT && field->values_per_cell == TSR_VARIABLE &&
         tsr_datatype_size(field->datatype) == 1;
}

static int check_boxes(const tsr_query_run *run, const tsr_query_boxes *boxes, tsr_error *error) {
  if (run->query.key_count == 0 && run->query.aggregate_count == 0)
    return tsr__fail(error, TSR_ERROR, "a query of cells has no boxes");
  if (boxes->row_count >= UINT32_MAX || boxes->range_count == 0 || boxes->range_count > TSR_QUERY_RANGES)
    return tsr__fail(error, TSR_ERROR, "boxes have 1 to %u ranges, and fewer than %u rows", TSR_QUERY_RANGES,
                     UINT32_MAX);
  for (uint32_t r = 0; r < boxes->range_count; r++) {
    const uint32_t field = boxes->ranges[r].field;
    const tsr_field *of = field < run->schema->dimension_count ? &run->schema->fields[field] : NULL;
    const tsr_kind kind = of ? tsr_datatype_kind(of->datatype) : TSR_KIND_FLOAT;
    const bool suits =
        kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED || kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME;
    if ((!suits || of->values_per_cell != 1) && !(of && is_text(of)))
      return tsr__fail(error, TSR_ERROR, "range %u is not of a dimension of integers, datetimes or strings", r);
  }
  return TSR_OK;
}

/* Returns the range that changes fastest in the order of cells; QUERY_NONE if there is only one range. */
static uint32_t fastest_range(const tsr_query_run *run, const tsr_query_boxes *boxes) {
  uint32_t best = 0;
  if (boxes->range_count == 1) return QUERY_NONE;
  for (uint32_t r = 1; r < boxes->range_count; r++) {
    const bool later = boxes->ranges[r].field > boxes->ranges[best].field;
    if (later != run->snapshot->grid.col_major_cells && boxes->ranges[r].field != boxes->ranges[best].field) best = r;
  }
  return best;
}

static bool is_empty(const int64_t ends[2]) { return ends[0] > ends[1]; }

/* Finds the least and the greatest number of a range. Returns the mean share of them that a row has, 0 to 1. */
static double range_share(const tsr_query_boxes *boxes, uint32_t range, int64_t *low, int64_t *high) {
  const int64_t(*ends)[2] = boxes->ranges[range].ends;
  double sum = 0;
  *low = INT64_MAX;
  *high = INT64_MIN;
  for (uint64_t i = 0; i < boxes->row_count; i++) {
    if (is_empty(ends[i])) continue;
    *low = TSR_MIN(*low, ends[i][0]);
    *high = TSR_MAX(*high, ends[i][1]);
    sum += (double)((uint64_t)ends[i][1] - (uint64_t)ends[i][0]) + 1;
  }
  return *low > *high ? 0 : sum / ((double)((uint64_t)*high - (uint64_t)*low) + 1) / (double)boxes->row_count;
}

static uint64_t bucket_of(const query_boxes *boxes, int64_t number) {
  return ((uint64_t)number - (uint64_t)boxes->low) >> boxes->shift;
}

/* Chooses buckets so wide that their rows, counted once in each bucket, are at most `most`. Returns that count. */
static uint64_t choose_buckets(query_boxes *boxes, int64_t high, uint64_t most) {
  const tsr_query_boxes *given = boxes->given;
  const int64_t(*ends)[2] = given->ranges[boxes->by].ends;
  uint64_t entries = 0;
  for (boxes->shift = 0; boxes->shift < 64; boxes->shift++) {
    boxes->bucket_count = tsr__add_sat(bucket_of(boxes, high), 1);
    if (boxes->bucket_count > most) continue;
    entries = 0;
    for (uint64_t i = 0; i < given->row_count && entries <= most; i++)
      if (!is_empty(ends[i])) entries += bucket_of(boxes, ends[i][1]) - bucket_of(boxes, ends[i][0]) + 1;
    if (entries <= most) break;
  }
  return entries;
}

static int compare_boxes(const void *a, const void *b) {
  const query_box *x = a, *y = b;
  return x->low != y->low ? (x->low > y->low) - (x->low < y->low) : (x->row > y->row) - (x->row < y->row);
}

static int fill_buckets(tsr_query_run *run, uint64_t entries, tsr_error *error) {
  query_boxes *boxes = &run->boxes;
  const tsr_query_boxes *given = boxes->given;
  const int64_t(*ends)[2] = given->ranges[boxes->by].ends;
  const int64_t(*along)[2] = boxes->along == QUERY_NONE ? NULL : given->ranges[boxes->along].ends;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, boxes->bucket_count + 2, &boxes->starts, error));
  TSR_TRY(TSR_ARENA_RAW(&run->arena, entries + 1, &boxes->rows, error));
  uint64_t *next = boxes->starts + 1; /* counts, then starts, then ends: the starts of the next buckets */
  for (uint64_t i = 0; i < given->row_count; i++)
    if (!is_empty(ends[i]))
      for (uint64_t b = bucket_of(boxes, ends[i][0]), last = bucket_of(boxes, ends[i][1]); b <= last; b++)
        next[b + 1]++;
  for (uint64_t b = 1; b <= boxes->bucket_count; b++) next[b] += next[b - 1];
  for (uint64_t i = 0; i < given->row_count; i++) {
    query_box box = {.low = INT64_MIN, .high = INT64_MAX, .row = (uint32_t)i};
    if (along) box.low = along[i][0], box.high = along[i][1];
    if (!is_empty(ends[i]))
      for (uint64_t b = bucket_of(boxes, ends[i][0]), last = bucket_of(boxes, ends[i][1]); b <= last; b++)
        boxes->rows[next[b]++] = box;
  }
  for (uint64_t b = 0; b < boxes->bucket_count && along; b++)
    qsort(boxes->rows + boxes->starts[b], boxes->starts[b + 1] - boxes->starts[b], sizeof *boxes->rows, compare_boxes);
  for (uint64_t b = 0; b < boxes->bucket_count; b++) {
    int64_t reach = INT64_MIN;
    for (uint64_t i = boxes->starts[b]; i < boxes->starts[b + 1]; i++)
      boxes->rows[i].reach = reach = TSR_MAX(reach, boxes->rows[i].high);
  }
  return TSR_OK;
}

int tsr__query_boxes_make(tsr_query_run *run, tsr_error *error) {
  query_boxes *boxes = &run->boxes;
  const tsr_query_boxes *given = run->query.boxes;
  double least = 2;
  int64_t low, high, most = INT64_MIN;
  TSR_TRY(check_boxes(run, given, error));
  boxes->given = given;
  boxes->keeps = run->expressions.program ? tsr__program_kept(run->expressions.program) : 0;
  boxes->along = fastest_range(run, given);
  for (uint32_t r = 0; r < given->range_count; r++) {
    run->input.fields[given->ranges[r].field] = true;
    const double share = range_share(given, r, &low, &high);
    if (r == boxes->along || share >= least) continue;
    least = share;
    boxes->by = r;
    boxes->low = low;
    most = high;
  }
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->input.field_count, &boxes->steady, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, PERIODS, &boxes->periods, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, PATTERNS_KNOWN, &boxes->known, error));
  if (given->row_count == 0 || boxes->low > most) return TSR_OK;
  return fill_buckets(run, choose_buckets(boxes, most, 4 * given->row_count + 1024), error);
}

/* ---- Numbers of cells -------------------------------------------------------------------------------------------- */

#define DEFINE_LOAD(name, TYPE)                                                                                        \
  static void load_##name(const void *from, const query_rows *rows, bool constant, int64_t *numbers) {                 \
    const TYPE *values = from;                                                                                         \
    if (constant)                                                                                                      \
      for (uint32_t i = 0; i < rows->count; i++) numbers[i] = (int64_t)values[0];                                      \
    else if (rows->cells)                                                                                              \
      for (uint32_t i = 0; i < rows->count; i++) numbers[i] = (int64_t)values[rows->cells[i]];                         \
    else                                                                                                               \
      for (uint32_t i = 0; i < rows->count; i++) numbers[i] = (int64_t)values[rows->first + i];                        \
  }
DEFINE_LOAD(i8, int8_t)
DEFINE_LOAD(i16, int16_t)
DEFINE_LOAD(i32, int32_t)
DEFINE_LOAD(i64, int64_t)
DEFINE_LOAD(u8, uint8_t)
DEFINE_LOAD(u16, uint16_t)
DEFINE_LOAD(u32, uint32_t)

static int compare_texts(const char *bytes, uint64_t size, const tsr_text_value *text) {
  const uint64_t common = TSR_MIN(size, text->size);
  const int order = common ? memcmp(bytes, text->bytes, common) : 0;
  return order ? order : (size > text->size) - (size < text->size);
}

static int64_t text_number(const tsr_query_range *range, const char *bytes, uint64_t size) {
  uint64_t low = 0, high = range->text_count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    const int order = compare_texts(bytes, size, &range->texts[middle]);
    if (order == 0) return (int64_t)(2 * middle + 1);
    if (order > 0) low = middle + 1;
    else high = middle;
  }
  return (int64_t)(2 * low);
}

/* Cells of one text often follow each other: it is searched once for a run of them. */
static void load_texts(const tsr_query_range *range, const tsr_column *column, const query_rows *rows,
                       int64_t *numbers) {
  const char *before = NULL;
  uint64_t before_size = 0;
  for (uint32_t i = 0; i < rows->count; i++) {
    const uint64_t cell = column->constant ? 0 : rows->cells ? rows->cells[i] : rows->first + i;
    const char *bytes = (const char *)column->values + column->offsets[cell];
    const uint64_t size = column->offsets[cell + 1] - column->offsets[cell];
    const bool same = before && size == before_size && memcmp(bytes, before, size) == 0;
    numbers[i] = same ? numbers[i - 1] : text_number(range, bytes, size);
    before = bytes;
    before_size = size;
  }
}

/* Sets the numbers that the cells of a block have in a range. */
static void load_numbers(const tsr_query_run *run, const tsr_query_range *range, const query_rows *rows,
                         int64_t *numbers) {
  const tsr_column *column = &run->input.columns[range->field].column;
  void (*load)(const void *, const query_rows *, bool, int64_t *) = load_i64;
  if (is_text(&run->schema->fields[range->field])) {
    load_texts(range, column, rows, numbers);
    return;
  }
  switch (tsr__datatype_physical(run->schema->fields[range->field].datatype)) {
  case TSR_PHYSICAL_I8: load = load_i8; break;
  case TSR_PHYSICAL_I16: load = load_i16; break;
  case TSR_PHYSICAL_I32: load = load_i32; break;
  case TSR_PHYSICAL_U8: load = load_u8; break;
  case TSR_PHYSICAL_U16: load = load_u16; break;
  case TSR_PHYSICAL_U32: load = load_u32; break;
  default: break;
  }
  load(column->values, rows, column->constant, numbers);
  if (!range->numbers) return;
  for (uint32_t i = 0; i < rows->count; i++) {
    const uint64_t at = (uint64_t)numbers[i] - (uint64_t)range->low;
    numbers[i] = at < range->count && range->numbers[at] != UINT32_MAX ? (int64_t)range->numbers[at] : NUMBER_NONE;
  }
}

/* Returns the first index from `from` to `end` whose number is not below `least`; `end` if there is none. In most
 * stretches the numbers are consecutive, so that it looks there first. */
static uint32_t first_from(const int64_t *numbers, uint32_t from, uint32_t end, int64_t least) {
  const uint64_t ahead = (uint64_t)least - (uint64_t)numbers[from];
  if (least > numbers[from] && ahead < end - from && numbers[from + ahead] == least &&
      numbers[from + ahead - 1] < least)
    return from + (uint32_t)ahead;
  while (from < end) {
    const uint32_t middle = from + (end - from) / 2;
    if (numbers[middle] < least) from = middle + 1;
    else end = middle;
  }
  return from;
}

/* Returns the end of the stretch that begins at `from`. */
static uint32_t stretch_end(const query_part *part, uint32_t from, uint32_t count) {
  const query_boxes *boxes = &part->run->boxes;
  uint32_t end = count;
  for (uint32_t r = 0; r < boxes->given->range_count; r++) {
    const int64_t *numbers = part->pairs.numbers[r];
    uint32_t i = from + 1;
    if (r == boxes->along)
      while (i < end && numbers[i] >= numbers[i - 1]) i++;
    else
      while (i < end && numbers[i] == numbers[from]) i++;
    end = TSR_MIN(end, i);
  }
  return end;
}

/* ---- Pairs ------------------------------------------------------------------------------------------------------- */

typedef int (*pairs_add)(query_part *part, const query_rows *rows, tsr_error *error);

int tsr__query_pairs_make(query_part *part, tsr_error *error) {
  query_pairs *pairs = &part->pairs;
  query_boxes *boxes = &part->run->boxes;
  for (uint32_t k = 0; k < part->run->query.key_count && !boxes->groups; k++)
    boxes->groups = part->run->grouping.keys[k].row_numbers;
  if (boxes->groups) TSR_TRY(TSR_ARENA_RAW(&part->arena, UINT64_C(2) * QUERY_BLOCK, &pairs->sorted, error));
  for (uint32_t r = 0; r < part->run->boxes.given->range_count; r++)
    TSR_TRY(TSR_ARENA_RAW(&part->arena, QUERY_BLOCK, &pairs->numbers[r], error));
  TSR_TRY(TSR_ARENA_RAW(&part->arena, QUERY_BLOCK, &pairs->cells, error));
  return TSR_ARENA_RAW(&part->arena, QUERY_BLOCK, &pairs->rows, error);
}

/* Returns true if the keys of groups depend on the rows, on the ranges, and on steady dimensions alone. */
static bool keys_come_again(const tsr_query_run *run) {
  const query_boxes *boxes = &run->boxes;
  bool all = run->grouping.grid;
  for (uint32_t a = 0; a < run->grouping.axis_count; a++) {
    const query_axis *axis = &run->grouping.axes[a];
    bool ranged = false;
    for (uint32_t r = 0; r < boxes->given->range_count; r++) ranged |= boxes->given->ranges[r].field == axis->field;
    all &= axis->rows || ranged || boxes->steady[axis->field];
  }
  return all;
}

void tsr__query_boxes_period(tsr_query_run *run, const tsr_subtile *subtile) {
  query_boxes *boxes = &run->boxes;
  query_period now = {0};
  boxes->period = 0;
  if (!subtile || !boxes->periods) return;
  const uint32_t n = subtile->dimensions;
  boxes->line = subtile->axes[n - 1].extent;
  boxes->origin = subtile->origin;
  for (uint32_t r = 0; r < boxes->given->range_count; r++) {
    const uint32_t field = boxes->given->ranges[r].field;
    const tsr_axis *axis = &subtile->axes[run->snapshot->grid.col_major_cells ? n - 1 - field : field];
    boxes->period = TSR_MAX(boxes->period, axis->stride * axis->extent);
    now.bases[r] = axis->base;
    now.extents[r] = axis->extent;
    now.strides[r] = axis->stride;
  }
  for (uint32_t a = 0; a < n; a++) {
    const uint32_t field = run->snapshot->grid.col_major_cells ? n - 1 - a : a;
    boxes->steady[field] = subtile->axes[a].stride >= boxes->period;
  }
  boxes->grouped = keys_come_again(run);
  for (uint64_t p = 0; p < TSR_MIN(boxes->period_count, PERIODS); p++) {
    now.serial = boxes->serial = boxes->periods[p].serial;
    if (memcmp(&boxes->periods[p], &now, sizeof now) == 0) return;
  }
  now.serial = boxes->serial = boxes->period_count + 1;
  boxes->periods[boxes->period_count++ % PERIODS] = now;
}

/* Makes room for what is kept with the pairs of a pattern: for all of its chunks or none. Only pairs without a WHERE
 * whose groups form a grid have any. */
static void kept_make(query_part *part, query_pattern *pattern) {
  const tsr_query_run *run = part->run;
  const uint64_t words = run->boxes.keeps * (uint64_t)PATTERN_PAIRS, numbers = 2 * PATTERN_PAIRS;
  const uint64_t size = PATTERNS * (words * sizeof(uint64_t) + numbers * sizeof(uint32_t));
  query_kept all = {.stride = PATTERN_PAIRS};
  if (!run->grouping.grid || run->expressions.where || size * QUERY_PARTS_MAX > run->memory.limit / 16 ||
      TSR_ARENA_RAW(&part->arena, words + 1, &all.words, NULL) < 0 ||
      TSR_ARENA_RAW(&part->arena, PATTERN_PAIRS, &all.groups, NULL) < 0 ||
      TSR_ARENA_RAW(&part->arena, PATTERN_PAIRS, &all.ends, NULL) < 0)
    return;
  for (uint32_t c = 0; c < PATTERN_CHUNKS; c++) {
    const uint32_t at = c * QUERY_BLOCK;
    pattern->kept[c] =
        (query_kept){.words = all.words + at, .stride = all.stride, .groups = all.groups + at, .ends = all.ends + at};
  }
}

void tsr__query_pairs_keep(query_part *part) {
  tsr_query_run *run = part->run;
  const uint64_t size = PATTERNS * 2 * PATTERN_PAIRS * sizeof(uint32_t);
  query_pattern *patterns;
  if (part->pairs.patterns || size * QUERY_PARTS_MAX > run->memory.limit / 16) return;
  if (TSR_ARENA_ARRAY(&part->arena, PATTERNS, &patterns, NULL) < 0) return;
  for (uint32_t p = 0; p < PATTERNS; p++)
    if (TSR_ARENA_RAW(&part->arena, QUERY_BLOCK, &patterns[p].block, NULL) < 0 ||
        TSR_ARENA_RAW(&part->arena, PATTERN_PAIRS, &patterns[p].cells, NULL) < 0 ||
        TSR_ARENA_RAW(&part->arena, PATTERN_PAIRS, &patterns[p].rows, NULL) < 0)
      return;
  for (uint32_t p = 0; p < PATTERNS; p++) kept_make(part, &patterns[p]);
  part->pairs.patterns = patterns;
}

/* Returns the index of a block's first cell. */
static uint64_t first_cell(const query_rows *block) { return block->cells ? block->cells[0] : block->first; }

/* Returns where in the period a cell lies. */
static uint64_t place_in_period(const query_boxes *boxes, uint64_t cell) {
  return (boxes->origin + cell) % boxes->period;
}

uint32_t tsr__query_boxes_cut(const tsr_query_run *run, uint64_t at, uint64_t count) {
  const tsr_batch *batch = run->input.batch;
  const uint32_t *cells = batch->selection ? batch->selection + at : NULL;
  const uint64_t first = cells ? cells[0] : batch->first + at;
  const uint64_t left = run->boxes.period - place_in_period(&run->boxes, first);
  if (!cells) return (uint32_t)TSR_MIN(count, left);
  uint64_t low = 1, high = count; /* cells ascend */
  if (cells[count - 1] - first < left) return (uint32_t)count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (cells[middle] - first < left) low = middle + 1;
    else high = middle;
  }
  return (uint32_t)low;
}

static query_pattern *known_pattern(const query_boxes *boxes, uint64_t serial, uint64_t place) {
  return &boxes->known[tsr__hash_mix(tsr__hash_mix(0, serial), place) % PATTERNS_KNOWN];
}

static bool is_pattern(const query_pattern *pattern, uint64_t serial, uint64_t place, uint32_t cells) {
  return pattern->cell_count == cells && pattern->serial == serial && pattern->place == place;
}

/* Returns true if the pattern is that of a block's cells. */
static bool pattern_fits(const query_pattern *pattern, uint64_t serial, uint64_t place, const query_rows *block) {
  uint32_t other = 0;
  if (!is_pattern(pattern, serial, place, block->count)) return false;
  if (!block->cells) return pattern->block[block->count - 1] == block->count - 1;
  for (uint32_t i = 0; i < block->count; i++) other |= pattern->block[i] ^ (block->cells[i] - block->cells[0]);
  return other == 0;
}

/* Finds the pattern of a block. */
static const query_pattern *pattern_find(const query_part *part, const query_rows *block) {
  const query_boxes *boxes = &part->run->boxes;
  if (!boxes->period || !part->pairs.patterns) return NULL;
  const uint64_t place = place_in_period(boxes, first_cell(block));
  const query_pattern *known = known_pattern(boxes, boxes->serial, place);
  if (pattern_fits(known, boxes->serial, place, block)) return known;
  for (uint32_t p = 0; p < PATTERNS; p++)
    if (pattern_fits(&part->pairs.patterns[p], boxes->serial, place, block)) return &part->pairs.patterns[p];
  return NULL;
}

bool tsr__query_boxes_begin(const tsr_query_run *run, uint64_t size) {
  const query_boxes *boxes = &run->boxes;
  const tsr_batch *batch = run->input.batch;
  if (!boxes->period || boxes->period > size || batch->count / size < 4) return false;
  const uint64_t place = place_in_period(boxes, batch->selection ? batch->selection[0] : batch->first);
  const query_pattern *known = known_pattern(boxes, boxes->serial, place);
  return known->cell_count == 0 || known->serial != boxes->serial || known->place != place;
}

static uint64_t known_size(const tsr_query_run *run, const query_pattern *pattern) {
  uint64_t numbers = pattern->cell_count + UINT64_C(2) * pattern->pair_count;
  for (uint32_t c = 0; c < PATTERN_CHUNKS; c++) numbers += UINT64_C(2) * pattern->kept[c].run_count;
  return numbers * sizeof(uint32_t) + (uint64_t)run->boxes.keeps * pattern->pair_count * sizeof(uint64_t);
}

static void known_free(tsr_query_run *run, query_pattern *known) {
  run->boxes.known_bytes -= known->memory ? known_size(run, known) : 0;
  tsr__free(known->memory);
  *known = (query_pattern){0};
}

static uint32_t *copy_numbers(uint32_t **to, const uint32_t *from, uint64_t count) {
  uint32_t *copy = *to;
  *to += count;
  return memcpy(copy, from, count * sizeof *copy);
}

/* Copies a pattern to `memory`, which has known_size bytes: first the words, then the numbers. */
static void known_copy(const tsr_query_run *run, const query_pattern *own, uint64_t *memory, query_pattern *known) {
  uint32_t *numbers = (uint32_t *)(void *)(memory + (uint64_t)run->boxes.keeps * own->pair_count);
  *known = *own;
  known->memory = memory;
  known->block = copy_numbers(&numbers, own->block, own->cell_count);
  known->cells = copy_numbers(&numbers, own->cells, own->pair_count);
  known->rows = copy_numbers(&numbers, own->rows, own->pair_count);
  for (uint32_t c = 0; c < PATTERN_CHUNKS && c * QUERY_BLOCK < own->pair_count; c++) {
    const query_kept *from = &own->kept[c];
    query_kept *to = &known->kept[c];
    const uint64_t at = c * (uint64_t)QUERY_BLOCK, count = TSR_MIN(own->pair_count - at, QUERY_BLOCK);
    if (from->run_count == 0) continue;
    to->stride = own->pair_count;
    to->words = memory + at;
    for (uint64_t k = 0; k < run->boxes.keeps; k++)
      memcpy(to->words + k * to->stride, from->words + k * from->stride, count * sizeof *to->words);
    to->groups = copy_numbers(&numbers, from->groups, from->run_count);
    to->ends = copy_numbers(&numbers, from->ends, from->run_count);
  }
}

void tsr__query_pairs_share(query_part *part) {
  query_boxes *boxes = &part->run->boxes;
  for (uint32_t p = 0; p < PATTERNS && part->pairs.patterns; p++) {
    query_pattern *own = &part->pairs.patterns[p], *known = known_pattern(boxes, own->serial, own->place);
    const uint64_t bytes = known_size(part->run, own);
    uint64_t *memory;
    if (own->cell_count == 0 || is_pattern(known, own->serial, own->place, own->cell_count)) continue;
    known_free(part->run, known);
    if (boxes->known_bytes + bytes > part->run->memory.limit / 16 ||
        TSR_ALLOC_RAW_BYTES(&part->run->memory, bytes, &memory, NULL) < 0)
      continue;
    boxes->known_bytes += bytes;
    known_copy(part->run, own, memory, known);
    own->cell_count = 0;
  }
}

void tsr__query_boxes_release(tsr_query_run *run) {
  for (uint32_t p = 0; p < PATTERNS_KNOWN && run->boxes.known; p++) known_free(run, &run->boxes.known[p]);
}

/* Begins to keep the pairs of a block. */
static void pattern_begin(query_part *part, const query_rows *block) {
  query_pairs *pairs = &part->pairs;
  pairs->kept = NULL;
  if (!part->run->boxes.period || !pairs->patterns) return;
  pairs->kept = &pairs->patterns[pairs->next++ % PATTERNS];
  pairs->kept->serial = part->run->boxes.serial;
  pairs->kept->place = place_in_period(&part->run->boxes, first_cell(block));
  pairs->kept->cell_count = block->count;
  pairs->kept->pair_count = 0;
  for (uint32_t c = 0; c < PATTERN_CHUNKS; c++) pairs->kept->kept[c].run_count = 0;
  for (uint32_t i = 0; i < block->count; i++)
    pairs->kept->block[i] = block->cells ? block->cells[i] - block->cells[0] : i;
}

/* Keeps the current pairs of a block, or gives the pattern up if it has too many. */
static void pattern_add(query_part *part, const query_rows *block) {
  query_pairs *pairs = &part->pairs;
  query_pattern *kept = pairs->kept;
  if (pairs->count > PATTERN_PAIRS - kept->pair_count) {
    kept->cell_count = 0;
    pairs->kept = NULL;
    return;
  }
  query_kept *made = pairs->count ? &kept->kept[kept->pair_count / QUERY_BLOCK] : NULL;
  if (made && made->words && part->run->boxes.grouped) pairs->made = made;
  for (uint32_t i = 0; i < pairs->count; i++) {
    kept->cells[kept->pair_count] = pairs->cells[i] - (uint32_t)first_cell(block);
    kept->rows[kept->pair_count++] = pairs->rows[i];
  }
}

/* Sorts the current pairs by the keys of their rows. Pairs of one key stay in their order. */
static void sort_pairs(const query_part *part) {
  const query_pairs *pairs = &part->pairs;
  const uint32_t *groups = part->run->boxes.groups, count = pairs->count;
  tsr_pair *sorted = pairs->sorted, *spare = sorted + QUERY_BLOCK;
  bool rising = true;
  for (uint32_t i = 0; i < count; i++) {
    sorted[i] = (tsr_pair){.key = groups[pairs->rows[i]], .cell = i};
    rising &= i == 0 || sorted[i - 1].key <= sorted[i].key;
  }
  if (rising) return;
  tsr__pairs_sort(sorted, spare, count);
  uint32_t *moved = (uint32_t *)(void *)spare;
  for (uint32_t i = 0; i < count; i++) moved[i] = pairs->cells[sorted[i].cell];
  for (uint32_t i = 0; i < count; i++) moved[QUERY_BLOCK + i] = pairs->rows[sorted[i].cell];
  memcpy(pairs->cells, moved, count * sizeof *moved);
  memcpy(pairs->rows, moved + QUERY_BLOCK, count * sizeof *moved);
}

static int pairs_add_all(query_part *part, const query_kept *kept, pairs_add add, tsr_error *error) {
  query_pairs *pairs = &part->pairs;
  const query_rows rows = {.cells = pairs->cells, .joined = pairs->rows, .count = pairs->count, .kept = kept};
  if (pairs->count == 0) return TSR_OK;
  pairs->counted += pairs->count;
  pairs->count = 0;
  return add(part, &rows, error);
}

/* Adds the pairs that were found in a block. */
static int pairs_flush(query_part *part, const query_rows *block, pairs_add add, tsr_error *error) {
  if (part->run->boxes.period && part->pairs.sorted) sort_pairs(part);
  part->pairs.made = NULL;
  if (part->pairs.kept) pattern_add(part, block);
  const int rc = pairs_add_all(part, NULL, add, error);
  part->pairs.made = NULL;
  return rc;
}

/* Returns true if the cells of a stretch meet the row in all ranges but the one along it. The bucket decides for `by`
 * if it has a single number. */
static bool row_meets(const query_part *part, uint32_t row, uint32_t cell) {
  const query_boxes *boxes = &part->run->boxes;
  for (uint32_t r = 0; r < boxes->given->range_count; r++) {
    if (r == boxes->along || (r == boxes->by && boxes->shift == 0)) continue;
    const int64_t number = part->pairs.numbers[r][cell], *ends = boxes->given->ranges[r].ends[row];
    if (number < ends[0] || number > ends[1]) return false;
  }
  return true;
}

/* Adds the pairs of a row with the cells from..end of a block. */
static int pair_cells(query_part *part, const query_rows *block, uint32_t row, uint32_t from, uint32_t end,
                      pairs_add add, tsr_error *error) {
  query_pairs *pairs = &part->pairs;
  while (from < end) {
    const uint32_t n = TSR_MIN(end - from, QUERY_BLOCK - pairs->count);
    for (uint32_t i = 0; i < n; i++) {
      pairs->cells[pairs->count + i] = block->cells ? block->cells[from + i] : (uint32_t)block->first + from + i;
      pairs->rows[pairs->count + i] = row;
    }
    pairs->count += n;
    from += n;
    if (pairs->count == QUERY_BLOCK) TSR_TRY(pairs_flush(part, block, add, error));
  }
  return TSR_OK;
}

/* Returns the first row from..end-1 of a bucket before which all rows end below `least`. */
static uint64_t first_reaching(const query_box *rows, uint64_t from, uint64_t end, int64_t least) {
  while (from < end) {
    const uint64_t middle = from + (end - from) / 2;
    if (rows[middle].reach < least) from = middle + 1;
    else end = middle;
  }
  return from;
}

static int pair_stretch(query_part *part, const query_rows *block, uint32_t from, uint32_t end, pairs_add add,
                        tsr_error *error) {
  const query_boxes *boxes = &part->run->boxes;
  const int64_t number = part->pairs.numbers[boxes->by][from];
  if (number < boxes->low || bucket_of(boxes, number) >= boxes->bucket_count) return TSR_OK;
  const uint64_t bucket = bucket_of(boxes, number), first = boxes->starts[bucket], last = boxes->starts[bucket + 1];
  TSR_TRY(tsr__cancelled_after(&part->run->snapshot->array->environment->memory, 0, last - first, error));
  const int64_t *numbers = boxes->along == QUERY_NONE ? NULL : part->pairs.numbers[boxes->along];
  for (uint64_t i = numbers ? first_reaching(boxes->rows, first, last, numbers[from]) : first; i < last; i++) {
    const query_box *box = &boxes->rows[i];
    uint32_t begin = from, stop = end;
    if (numbers && box->low > numbers[end - 1]) break;
    if ((numbers && box->high < numbers[from]) || box->low > box->high || !row_meets(part, box->row, from)) continue;
    if (numbers && box->low > numbers[from]) begin = first_from(numbers, from, end, box->low);
    if (numbers && box->high < numbers[end - 1]) stop = first_from(numbers, begin, end, box->high + 1);
    TSR_TRY(pair_cells(part, block, box->row, begin, stop, add, error));
  }
  return TSR_OK;
}

/* Adds the pairs of a pattern for the current block. */
static int pattern_pair(query_part *part, const query_rows *block, const query_pattern *pattern, pairs_add add,
                        tsr_error *error) {
  query_pairs *pairs = &part->pairs;
  const uint32_t first = (uint32_t)first_cell(block);
  for (uint32_t from = 0; from < pattern->pair_count; from += QUERY_BLOCK) {
    const query_kept *kept = &pattern->kept[from / QUERY_BLOCK];
    pairs->count = TSR_MIN(pattern->pair_count - from, QUERY_BLOCK);
    for (uint32_t i = 0; i < pairs->count; i++) pairs->cells[i] = first + pattern->cells[from + i];
    memcpy(pairs->rows, pattern->rows + from, pairs->count * sizeof *pairs->rows);
    TSR_TRY(pairs_add_all(part, part->run->boxes.grouped && kept->run_count ? kept : NULL, add, error));
  }
  return TSR_OK;
}

int tsr__query_pair(query_part *part, const query_rows *block, pairs_add add, tsr_error *error) {
  const query_boxes *boxes = &part->run->boxes;
  if (boxes->bucket_count == 0) return TSR_OK;
  const query_pattern *known = pattern_find(part, block);
  if (known) return pattern_pair(part, block, known, add, error);
  for (uint32_t r = 0; r < boxes->given->range_count; r++)
    load_numbers(part->run, &boxes->given->ranges[r], block, part->pairs.numbers[r]);
  pattern_begin(part, block);
  for (uint32_t from = 0, end; from < block->count; from = end) {
    end = stretch_end(part, from, block->count);
    TSR_TRY(pair_stretch(part, block, from, end, add, error));
  }
  const int rc = pairs_flush(part, block, add, error);
  part->pairs.kept = NULL;
  return rc;
}
