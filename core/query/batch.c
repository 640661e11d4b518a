/* batch.c: adds a batch of cells to the groups of a query.
 *
 * The batch is cut into parts. Worker threads evaluate several parts at once: for each block of a part, the WHERE
 * selects rows, the expressions are evaluated, the rows are mapped to groups, and each measure is added to the groups'
 * records. Then the parts are merged into the query, in their order, so that results do not depend on the number of
 * threads.
 *
 * Sections: memory of parts; expressions; values; groups of a block; measures of a block; merging; batches.
 */
#include "query/query.h"

#include <math.h>
#include <string.h>

#include "model/datatype.h"
#include "read/reader.h"

#define PART_CELLS 8192u
#define PLACES_MAX (UINT64_C(1) << 20) /* a grid of at most so many groups has a place for each of them in every part */
#define PART_GRID  256u /* a grid of at most so many groups has a record for each of them in every part */

/* ---- Memory of parts --------------------------------------------------------------------------------------------- */

static int part_make(tsr_query_run *run, query_part **made, tsr_error *error) {
  query_part *part;
  TSR_TRY(TSR_ALLOC(&run->memory, &part, error));
  *made = part; /* the caller frees it, even if it is incomplete */
  part->run = run;
  TSR_TRY(tsr__collected_groups_make(&part->collected, run->layout.measure_count, &run->memory, NULL, error));
  tsr__groups_init(&part->collected.groups, run->grouping.width, &run->memory);
  tsr__arena_init(&part->arena, &run->memory);
  if (run->expressions.where) TSR_TRY(tsr__scratch_make(run->expressions.where, &part->arena, &part->where, error));
  if (run->expressions.program)
    TSR_TRY(tsr__scratch_make(run->expressions.program, &part->arena, &part->scratch, error));
  const uint64_t windows = run->windows.given ? run->windows.given->count : 0;
  TSR_TRY(TSR_ARENA_ARRAY(&part->arena, run->input.field_count + 1 + windows, &part->inputs, error));
  if (run->input.placed) TSR_TRY(TSR_ARENA_RAW(&part->arena, 1, &part->places, error));
  TSR_TRY(TSR_ARENA_ARRAY(&part->arena, run->expressions.count, &part->vectors, error));
  const uint32_t words = TSR_MAX(run->grouping.width, 1);
  TSR_TRY(TSR_ALLOC_RAW(&run->memory, (uint64_t)words * QUERY_BLOCK, &part->buffers.words[0], error));
  for (uint32_t w = 1; w < words; w++) part->buffers.words[w] = part->buffers.words[0] + w * QUERY_BLOCK;
  TSR_TRY(TSR_ALLOC_RAW(&run->memory, 4 * QUERY_BLOCK, &part->buffers.cells, error));
  part->buffers.joined = part->buffers.cells + 3 * QUERY_BLOCK;
  part->buffers.numbers = part->buffers.cells + QUERY_BLOCK;
  part->buffers.ends = part->buffers.numbers + QUERY_BLOCK;
  TSR_TRY(TSR_ALLOC_RAW(&run->memory, 3 * QUERY_BLOCK, &part->buffers.mask, error));
  if (run->boxes.given) TSR_TRY(tsr__query_pairs_make(part, error));
  return TSR_ALLOC_RAW(&run->memory, QUERY_BLOCK, &part->buffers.values, error);
}

static void part_free(query_part *part) {
  tsr__collected_groups_release(&part->collected);
  tsr__arena_release(&part->arena);
  tsr__free(part->buffers.words[0]);
  tsr__free(part->buffers.cells);
  tsr__free(part->buffers.mask);
  tsr__free(part->buffers.values);
  tsr__free(part->collected_at);
  tsr__free(part);
}

void tsr__query_parts_release(tsr_query_run *run) {
  for (uint32_t p = 0; p < run->parts.count; p++) part_free(run->parts.list[p]);
  run->parts.count = 0;
  tsr__query_boxes_release(run);
}

/* Returns true if there is memory for one more part, and as much again for the groups of each part. */
static bool parts_fit(const tsr_query_run *run) {
  const uint64_t used = run->memory.used, more = run->parts.bytes * (run->parts.count + UINT64_C(2));
  return run->parts.count == 0 || tsr__add_sat(used, more) <= run->memory.limit;
}

/* Makes as many parts as memory allows: at least one, at most `wanted`. */
static int parts_make(tsr_query_run *run, uint64_t wanted, tsr_error *error) {
  while (run->parts.count < TSR_MIN(wanted, QUERY_PARTS_MAX) && parts_fit(run)) {
    query_part *part = NULL;
    tsr_error failure = {0};
    const uint64_t before = run->memory.used;
    const int rc = part_make(run, &part, &failure);
    if (rc >= 0) {
      run->parts.bytes = run->memory.used - before;
      run->parts.list[run->parts.count++] = part;
      continue;
    }
    if (part) part_free(part);
    if (run->parts.count > 0 && tsr__lacks_memory(rc)) break;
    run->parts.failed = rc == TSR_BUDGET;
    if (error) *error = failure;
    return rc;
  }
  return TSR_OK;
}

/* ---- Expressions ------------------------------------------------------------------------------------------------- */

static void point_inputs(query_part *part, const query_rows *rows) {
  const tsr_query_run *run = part->run;
  for (uint32_t f = 0; f < run->input.field_count; f++) {
    if (!run->input.evaluated[f]) continue;
    part->inputs[f] = run->input.columns[f];
    part->inputs[f].selection = rows->cells;
    part->inputs[f].first = rows->first;
  }
  part->inputs[run->input.field_count].column.values = rows->joined;
  if (run->windows.given) tsr__query_windows_point(part, rows);
}

int tsr__query_evaluate(query_part *part, const query_rows *rows, tsr_error *error) {
  const tsr_query_run *run = part->run;
  uint32_t expression;
  if (!run->expressions.program) return TSR_OK;
  point_inputs(part, rows);
  if (rows->kept && run->boxes.keeps) tsr__program_lend(part->scratch, rows->kept->words, rows->kept->stride);
  const int rc =
      tsr__program_run(run->expressions.program, part->scratch, part->inputs, rows->count, part->vectors, error);
  tsr__program_lend(part->scratch, NULL, 0);
  if (rc < 0 && tsr__program_fault(part->scratch, &expression, &part->fault.node))
    part->fault.expression = run->expressions.list[expression];
  return rc;
}

int tsr__query_select(query_part *part, const query_rows *block, query_rows *rows, tsr_error *error) {
  const tsr_query_run *run = part->run;
  uint32_t expression, count;
  *rows = *block;
  if (!run->expressions.where) return TSR_OK;
  point_inputs(part, block);
  const int rc = tsr__program_select(run->expressions.where, part->where, part->inputs, block->count,
                                     part->buffers.cells, &count, error);
  if (rc < 0 && tsr__program_fault(part->where, &expression, &part->fault.node))
    part->fault.expression = &run->query.where;
  TSR_TRY(rc);
  if (count == block->count) return TSR_OK;
  for (uint32_t r = 0; r < count && block->joined; r++) part->buffers.joined[r] = block->joined[part->buffers.cells[r]];
  if (block->joined) rows->joined = part->buffers.joined;
  for (uint32_t r = 0; r < count; r++)
    part->buffers.cells[r] =
        block->cells ? block->cells[part->buffers.cells[r]] : (uint32_t)block->first + part->buffers.cells[r];
  rows->cells = part->buffers.cells;
  rows->count = count;
  return TSR_OK;
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/* Expands a constant vector to `count` values, in the part's buffers, which the next call reuses. */
static tsr_vector expand_vector(query_part *part, const tsr_vector *vector, uint32_t count) {
  tsr_vector all = *vector;
  if (!vector->constant) return all;
  uint64_t *words = (uint64_t *)(void *)part->buffers.values;
  for (uint32_t r = 0; r < count && vector->as.integers; r++) {
    if (vector->type == TSR_VALUE_TEXT) part->buffers.values[r] = vector->as.texts[0];
    else words[r] = vector->as.unsigned_integers[0];
  }
  all.constant = false;
  all.as.texts = part->buffers.values;
  uint8_t *nulls = part->buffers.mask + QUERY_BLOCK, *whole = nulls + QUERY_BLOCK;
  if (vector->nulls) all.nulls = memset(nulls, vector->nulls[0], count);
  if (vector->whole) all.whole = memset(whole, vector->whole[0], count);
  return all;
}

/* Sets mask[r] to 1 for rows whose value is not true. */
static void mask_untrue(const tsr_vector *v, uint32_t count, uint8_t *mask) {
  const double *reals = v->as.reals;
  const int64_t *integers = v->as.integers;
  if (v->type == TSR_VALUE_NULL) memset(mask, 1, count);
  else if (v->type == TSR_VALUE_REAL || v->type == TSR_VALUE_NUMBER)
    for (uint32_t r = 0; r < count; r++) mask[r] = !(reals[r] < 0 || reals[r] > 0);
  else
    for (uint32_t r = 0; r < count; r++) mask[r] = integers[r] == 0;
  for (uint32_t r = 0; r < count && v->nulls; r++) mask[r] |= v->nulls[r];
}

/* ---- Groups of a block ------------------------------------------------------------------------------------------- */

/* Sets the words of a key that is an expression. The word of a text is its number in part->collected.texts. */
static int words_of_values(query_part *part, uint32_t key, const query_rows *rows, tsr_error *error) {
  uint64_t *words = part->buffers.words[key], *nulls = part->buffers.words[part->run->query.key_count];
  const tsr_vector v = expand_vector(part, &part->vectors[part->run->grouping.keys[key].value], rows->count);
  if (v.type == TSR_VALUE_REAL) {
    tsr__words_of_reals(v.as.reals, rows->count, words);
    return TSR_OK;
  }
  for (uint32_t r = 0; r < rows->count; r++) {
    const bool null = v.type == TSR_VALUE_NULL || (v.nulls && v.nulls[r]);
    words[r] = 0;
    nulls[r] |= (uint64_t)null << key;
    if (null) continue;
    if (v.type == TSR_VALUE_TEXT)
      TSR_TRY(tsr__texts_number(&part->collected.texts, v.as.texts[r].bytes, v.as.texts[r].size, &words[r], error));
    else words[r] = v.as.unsigned_integers[r];
  }
  return TSR_OK;
}

/* Numbers groups of a small grid in the part, without hashing: collected_at has the number of each group, plus 1. */
static int number_places(query_part *part, const uint64_t *groups, uint32_t count, tsr_error *error) {
  tsr_groups *list = &part->collected.groups;
  TSR_TRY(tsr__buffer_reserve(&list->tuples, count * sizeof *groups, error));
  for (uint32_t i = 0; i < count; i++) {
    uint32_t *place = &part->collected_at[groups[i]];
    if (*place == 0) {
      *tsr__groups_tuple(list, list->count) = groups[i];
      list->tuples.size += sizeof *groups;
      *place = (uint32_t)++list->count;
    }
    part->buffers.numbers[i] = *place - 1;
  }
  return TSR_OK;
}

/* Numbers the rows' groups in the part's table, and makes records for new groups. */
static int number_in_part(query_part *part, const uint64_t *const *words, uint32_t count, tsr_error *error) {
  const tsr_query_run *run = part->run;
  const uint64_t bytes = run->layout.words * sizeof(uint64_t), before = part->collected.groups.count;
  if (part->collected_at) TSR_TRY(number_places(part, words[0], count, error));
  else TSR_TRY(tsr__groups_number(&part->collected.groups, words, count, part->buffers.numbers, error));
  TSR_TRY(tsr__buffer_reserve(&part->collected.records, (part->collected.groups.count - before) * bytes, error));
  for (uint64_t g = before; g < part->collected.groups.count; g++, part->collected.records.size += bytes)
    memcpy(part->collected.records.data + part->collected.records.size, run->layout.blank, bytes);
  return TSR_OK;
}

/* Gives pairs that have come before their stored runs of groups. */
static int reuse_runs(query_part *part, const query_rows *rows, tsr_spread *spread, tsr_error *error) {
  const query_kept *kept = rows->kept;
  uint32_t steady;
  TSR_TRY(tsr__query_steady_number(part, rows, &steady, error));
  for (uint32_t i = 0; i < kept->run_count; i++) part->buffers.numbers[i] = kept->groups[i] + steady;
  *spread = (tsr_spread){
      .count = rows->count, .run_count = kept->run_count, .groups = part->buffers.numbers, .ends = kept->ends};
  return TSR_OK;
}

/* Stores the values and the runs of groups of pairs, for when these pairs come again. */
static int store_runs(query_part *part, const query_rows *rows, const tsr_spread *spread, tsr_error *error) {
  const tsr_query_run *run = part->run;
  query_kept *made = part->pairs.made;
  uint32_t steady;
  TSR_TRY(tsr__query_steady_number(part, rows, &steady, error));
  if (run->boxes.keeps &&
      !tsr__program_keep(run->expressions.program, part->scratch, rows->count, made->words, made->stride))
    return TSR_OK;
  for (uint32_t i = 0; i < spread->run_count; i++) made->groups[i] = part->buffers.numbers[i] - steady;
  for (uint32_t i = 0; i < spread->run_count; i++) made->ends[i] = part->buffers.ends[i];
  made->run_count = spread->run_count;
  return TSR_OK;
}

/* Finds the groups of rows in a grid. Unless the part counts straight in the query's records, it numbers them. */
static int find_grid_groups(query_part *part, const query_rows *block, const query_rows *rows, tsr_spread *spread,
                            tsr_error *error) {
  if (rows->kept) TSR_TRY(reuse_runs(part, rows, spread, error));
  else TSR_TRY(tsr__query_grid_rows(part, block, rows, spread, error));
  if (part->pairs.made) TSR_TRY(store_runs(part, rows, spread, error));
  if (part->straight) return TSR_OK;
  const uint32_t known = spread->run_count ? spread->run_count : spread->count;
  for (uint32_t i = 0; i < known; i++) part->buffers.words[0][i] = part->buffers.numbers[i];
  return number_in_part(part, (const uint64_t *const *)part->buffers.words, known, error);
}

/* Finds the groups of rows by the words of their keys, and numbers them in the part. */
static int find_hashed_groups(query_part *part, const query_rows *rows, tsr_spread *spread, tsr_error *error) {
  const tsr_query_run *run = part->run;
  if (run->grouping.has_nulls) memset(part->buffers.words[run->query.key_count], 0, rows->count * sizeof(uint64_t));
  for (uint32_t k = 0; k < run->query.key_count; k++) {
    if (run->grouping.keys[k].value != QUERY_NONE) TSR_TRY(words_of_values(part, k, rows, error));
    else TSR_TRY(tsr__query_key_words(part, k, rows, part->buffers.words[k], error));
  }
  const uint32_t runs = tsr__runs_of_words(part->buffers.words, run->grouping.width, rows->count, part->buffers.ends);
  TSR_TRY(number_in_part(part, (const uint64_t *const *)part->buffers.words, runs ? runs : rows->count, error));
  *spread = (tsr_spread){
      .count = rows->count, .run_count = runs, .groups = part->buffers.numbers, .ends = part->buffers.ends};
  return TSR_OK;
}

/* Finds the groups of a block's rows, and the records that they are numbered in: the query's or the part's. */
static int find_records(query_part *part, const query_rows *block, const query_rows *rows, tsr_spread *spread,
                        uint64_t **records, tsr_error *error) {
  const tsr_query_run *run = part->run;
  if (run->grouping.grid) TSR_TRY(find_grid_groups(part, block, rows, spread, error));
  else TSR_TRY(find_hashed_groups(part, rows, spread, error));
  *records = (uint64_t *)(void *)(part->straight ? run->collected.records.data : part->collected.records.data);
  return TSR_OK;
}

/* ---- Measures of a block ----------------------------------------------------------------------------------------- */

/* Adds the rows that a filter leaves out to the nulls of an argument. */
static void mask_operand(query_part *part, const tsr_vector *v, uint32_t count, tsr_operand *operand) {
  if (v->type == TSR_VALUE_REAL) {
    double *reals = (double *)(void *)part->buffers.values;
    for (uint32_t r = 0; r < count; r++) reals[r] = part->buffers.mask[r] ? NAN : v->as.reals[r];
    operand->values = reals;
    return;
  }
  for (uint32_t r = 0; r < count && v->nulls; r++) part->buffers.mask[r] |= v->nulls[r];
  operand->nulls = part->buffers.mask;
}

/* Fails if a UINT64 that is to be added is not an integer of SQL. */
static int check_unsigned(query_part *part, const query_measure *m, const tsr_vector *v, const tsr_operand *o,
                          uint32_t count, tsr_error *error) {
  if (v->type != TSR_VALUE_UNSIGNED || part->run->habits.plain ||
      !(m->measure.sum || m->measure.moments || m->measure.list))
    return TSR_OK;
  const tsr_expression *expression = part->run->expressions.list[m->argument];
  for (uint32_t r = 0; r < count; r++) {
    if (v->as.unsigned_integers[r] <= INT64_MAX || (o->nulls && o->nulls[r])) continue;
    part->fault.expression = expression;
    part->fault.node = expression->count - 1;
    return tsr__fail(error, TSR_RANGE, "%llu is past the integers of SQL",
                     (unsigned long long)v->as.unsigned_integers[r]);
  }
  return TSR_OK;
}

static uint32_t group_of_row(const tsr_spread *spread, uint32_t row, uint32_t *run) {
  if (spread->run_count == 0) return spread->groups[row];
  while (spread->ends[*run] <= row) ++*run;
  return spread->groups[*run];
}

/* Appends values to the part's lists or sets. */
static int part_collect(query_part *part, uint32_t m, const tsr_vector *v, const tsr_operand *o,
                        const tsr_spread *spread, tsr_error *error) {
  const bool reals = v->type == TSR_VALUE_REAL || v->type == TSR_VALUE_NUMBER;
  const bool distinct = part->run->layout.measures[m].measure.distinct;
  for (uint32_t r = 0, run = 0; r < spread->count; r++) {
    uint64_t pair[2];
    uint32_t number;
    if (o->nulls && o->nulls[r]) continue;
    double real = reals ? ((const double *)o->values)[r] + 0.0 : 0;
    if (isnan(real)) continue;
    pair[0] = group_of_row(spread, r, &run);
    if (v->type == TSR_VALUE_TEXT) {
      const tsr_text_value *text = (const tsr_text_value *)o->values + r;
      TSR_TRY(tsr__texts_number(&part->collected.values, text->bytes, text->size, &pair[1], error));
    } else if (reals || !distinct) {
      if (!reals) real = (double)((const int64_t *)o->values)[r];
      memcpy(&pair[1], &real, sizeof real);
    } else {
      pair[1] = ((const uint64_t *)o->values)[r];
    }
    const uint64_t *const words[2] = {&pair[0], &pair[1]};
    if (distinct) TSR_TRY(tsr__groups_number(&part->collected.pairs[m], words, 1, &number, error));
    else TSR_TRY(tsr__buffer_append(&part->collected.lists[m], pair, sizeof pair, error));
  }
  return TSR_OK;
}

static int add_measure(query_part *part, uint32_t number, const query_rows *rows, const tsr_spread *spread,
                       uint64_t *records, tsr_error *error) {
  const query_measure *m = &part->run->layout.measures[number];
  tsr_vector v = {.type = TSR_VALUE_NULL};
  tsr_operand operand = {0};
  if (m->filter != QUERY_NONE) {
    v = expand_vector(part, &part->vectors[m->filter], rows->count);
    mask_untrue(&v, rows->count, part->buffers.mask);
    v = (tsr_vector){.type = TSR_VALUE_NULL};
  }
  if (m->argument != QUERY_NONE) {
    v = expand_vector(part, &part->vectors[m->argument], rows->count);
    if (v.type == TSR_VALUE_NULL) return TSR_OK;
    operand = (tsr_operand){.values = v.as.integers, .nulls = v.nulls, .whole = v.whole};
  }
  if (m->filter != QUERY_NONE) mask_operand(part, &v, rows->count, &operand);
  TSR_TRY(check_unsigned(part, m, &v, &operand, rows->count, error));
  if (m->measure.list || m->measure.distinct) TSR_TRY(part_collect(part, number, &v, &operand, spread, error));
  if (!m->measure.distinct) tsr__measure_add(&m->measure, &operand, spread, records, part->run->layout.words);
  for (uint32_t a = 0; a < part->run->extremes.count; a++)
    if (part->run->extremes.list[a].measure == number)
      tsr__query_at_add(part, &part->run->extremes.list[a], &operand, spread, records);
  return TSR_OK;
}

static int part_add_rows(query_part *part, const query_rows *block, tsr_error *error) {
  const tsr_query_run *run = part->run;
  query_rows rows = *block;
  tsr_spread spread;
  uint64_t *records;
  TSR_TRY(tsr__query_select(part, block, &rows, error));
  if (rows.count == 0) return TSR_OK;
  TSR_TRY(tsr__query_evaluate(part, &rows, error));
  TSR_TRY(find_records(part, block, &rows, &spread, &records, error));
  tsr__rows_add(&spread, records, run->layout.words);
  for (uint32_t m = 0; m < run->layout.measure_count; m++)
    TSR_TRY(add_measure(part, m, &rows, &spread, records, error));
  return TSR_OK;
}

bool tsr__query_narrow(query_part *part, query_rows *block) {
  const query_input *input = &part->run->input;
  uint32_t left = 0;
  if (!input->needed) return true;
  if (!block->cells) { /* if one cell may pass, the columns of all of them are decoded */
    const uint64_t from = input->needed_origin + block->first, last = from + block->count - 1;
    return memchr(input->needed + from / TSR_NEEDED_CELLS, TSR_NEEDED_PASS,
                  last / TSR_NEEDED_CELLS - from / TSR_NEEDED_CELLS + 1) != NULL;
  }
  for (uint32_t r = 0; r < block->count; r++) {
    const uint32_t cell = block->cells[r];
    part->buffers.joined[left] = cell;
    left += input->needed[(input->needed_origin + cell) / TSR_NEEDED_CELLS] == TSR_NEEDED_PASS;
  }
  block->cells = part->buffers.joined;
  block->count = left;
  return left > 0;
}

static int part_add_block(query_part *part, const query_rows *block, tsr_error *error) {
  return part->run->boxes.given ? tsr__query_pair(part, block, part_add_rows, error)
                                : part_add_rows(part, block, error);
}

/* Forgets the groups of the last batch. */
static void part_clear(query_part *part) {
  for (uint64_t g = 0; g < part->collected.groups.count && part->collected_at; g++)
    part->collected_at[*tsr__groups_tuple(&part->collected.groups, g)] = 0;
  tsr__collected_groups_clear(&part->collected);
}

/* Adds the cells of one part, on a worker thread. */
static int part_add_cells(void *argument, uint64_t index, tsr_error *error) {
  query_part *part = ((query_part **)argument)[index];
  const tsr_query_run *run = part->run;
  const tsr_batch *batch = run->input.batch;
  part_clear(part);
  part->fault.expression = NULL;
  part->pairs.counted = 0;
  for (uint64_t at = part->from, n; at < part->end; at += n) {
    n = TSR_MIN(part->end - at, QUERY_BLOCK);
    if (run->boxes.period) n = tsr__query_boxes_cut(run, at, n);
    query_rows block = {.cells = batch->selection ? batch->selection + at : NULL,
                        .first = batch->selection ? 0 : batch->first + at,
                        .count = (uint32_t)n};
    if (tsr__query_narrow(part, &block)) TSR_TRY(part_add_block(part, &block, error));
  }
  return TSR_OK;
}

/* ---- Merging ----------------------------------------------------------------------------------------------------- */

int tsr__query_group(tsr_query_run *run, const uint64_t *words, uint32_t *number, tsr_error *error) {
  const uint64_t bytes = run->layout.words * sizeof(uint64_t);
  const uint64_t *places[TSR_QUERY_KEYS + 1];
  for (uint32_t w = 0; w < run->grouping.width; w++) places[w] = &words[w];
  TSR_TRY(tsr__groups_number(&run->collected.groups, places, 1, number, error));
  if (*number < run->collected.records.size / bytes) return TSR_OK;
  return tsr__buffer_append(&run->collected.records, run->layout.blank, bytes, error);
}

/* Finds the number of the query's record for a group of a part. */
static int record_of_part(tsr_query_run *run, const query_part *part, uint64_t group, uint32_t *number,
                          tsr_error *error) {
  const uint64_t *tuple = tsr__groups_tuple(&part->collected.groups, group);
  uint64_t words[TSR_QUERY_KEYS + 1];
  if (run->grouping.grid) {
    *number = (uint32_t)tuple[0];
    return TSR_OK;
  }
  for (uint32_t w = 0; w < run->grouping.width; w++) {
    words[w] = tuple[w];
    if (w == run->query.key_count || run->grouping.keys[w].value == QUERY_NONE ||
        run->grouping.keys[w].type != TSR_VALUE_TEXT || query_key_is_null(run, tuple, w))
      continue;
    const tsr_text_value *text = tsr__texts_at(&part->collected.texts, tuple[w]);
    TSR_TRY(tsr__texts_number(&run->collected.texts, text->bytes, text->size, &words[w], error));
  }
  return tsr__query_group(run, words, number, error);
}

/* Adds a value of a set to its group, unless the group already has it. */
static int merge_pair(tsr_query_run *run, const query_part *part, uint32_t m, const uint64_t *pair, uint32_t group,
                      tsr_error *error) {
  const tsr_measure *measure = &run->layout.measures[m].measure;
  const uint64_t before = run->collected.pairs[m].count, to = group;
  uint64_t value = pair[1];
  uint32_t number, end = 1;
  if (measure->type == TSR_VALUE_TEXT) {
    const tsr_text_value *text = tsr__texts_at(&part->collected.values, value);
    TSR_TRY(tsr__texts_number(&run->collected.values, text->bytes, text->size, &value, error));
  }
  const uint64_t *const words[2] = {&to, &value};
  TSR_TRY(tsr__groups_number(&run->collected.pairs[m], words, 1, &number, error));
  if (run->collected.pairs[m].count == before) return TSR_OK;
  if (measure->list) {
    double real = (double)(int64_t)value;
    if (measure->type == TSR_VALUE_REAL || measure->type == TSR_VALUE_NUMBER) memcpy(&real, &value, sizeof real);
    uint64_t listed[2] = {group, 0};
    memcpy(&listed[1], &real, sizeof real);
    TSR_TRY(tsr__buffer_append(&run->collected.lists[m], listed, sizeof listed, error));
  }
  uint64_t *record = query_record(&run->collected.records, group, run->layout.words);
  if (measure->type == TSR_VALUE_TEXT) {
    record[measure->count_at]++;
    return TSR_OK;
  }
  const uint32_t zero = 0;
  tsr__measure_add(measure, &(tsr_operand){.values = &value},
                   &(tsr_spread){.count = 1, .run_count = 1, .groups = &zero, .ends = &end}, record, run->layout.words);
  return TSR_OK;
}

/* Merges the lists and sets of a part. numbers[g] is the query's number of the part's group g. */
static int merge_values(tsr_query_run *run, const query_part *part, const uint32_t *numbers, tsr_error *error) {
  int rc = TSR_OK;
  for (uint32_t m = 0; rc >= 0 && m < run->layout.measure_count; m++) {
    for (uint64_t i = 0; rc >= 0 && i < part->collected.pairs[m].count; i++) {
      const uint64_t *pair = tsr__groups_tuple(&part->collected.pairs[m], i);
      rc = merge_pair(run, part, m, pair, numbers[pair[0]], error);
    }
    if (rc >= 0) rc = tsr__buffer_reserve(&run->collected.lists[m], part->collected.lists[m].size, error);
    for (uint64_t i = 0; rc >= 0 && i < part->collected.lists[m].size; i += 16) {
      const uint64_t pair[2] = {numbers[tsr__load64(part->collected.lists[m].data + i)],
                                tsr__load64(part->collected.lists[m].data + i + 8)};
      rc = tsr__buffer_append(&run->collected.lists[m], pair, sizeof pair, error);
    }
  }
  return rc;
}

static int merge_part(tsr_query_run *run, query_part *part, tsr_error *error) {
  uint32_t *numbers;
  const uint64_t count = part->collected.groups.count;
  if (part->straight || count == 0) return TSR_OK;
  TSR_TRY(TSR_ALLOC_RAW(&run->memory, count, &numbers, error));
  int rc = TSR_OK;
  for (uint64_t g = 0; rc >= 0 && g < count; g++) {
    rc = record_of_part(run, part, g, &numbers[g], error);
    if (rc < 0) break;
    const uint64_t *from = query_record(&part->collected.records, g, run->layout.words);
    uint64_t *to = query_record(&run->collected.records, numbers[g], run->layout.words);
    to[0] += from[0];
    for (uint32_t m = 0; rc >= 0 && m < run->layout.measure_count; m++)
      if (!run->layout.measures[m].measure.distinct)
        rc = tsr__measure_merge(&run->layout.measures[m].measure, to, from, &run->arena, error);
    for (uint32_t a = 0; rc >= 0 && a < run->extremes.count; a++)
      rc = tsr__query_at_merge(run, &run->extremes.list[a], to, from, error);
  }
  rc = rc < 0 ? rc : merge_values(run, part, numbers, error);
  tsr__free(numbers);
  return rc;
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

/* How a batch is cut into parts: in a dense tile, at the ends of its rows, or with boxes where its pairs come again. */
typedef struct part_cut {
  uint64_t before, size; /* rows before the first cut, and between cuts */
} part_cut;

static part_cut choose_cut(const tsr_query_run *run) {
  part_cut cut = {.before = 0, .size = PART_CELLS};
  uint64_t row = 0, place = 0;
  if (run->input.subtile) {
    row = run->input.subtile->axes[run->input.subtile->dimensions - 1].extent;
    place = run->input.subtile->origin + run->input.batch->first;
  } else if (run->boxes.period && run->input.batch->selection) {
    const uint64_t count = run->input.batch->count;
    cut.before = tsr__query_boxes_cut(run, 0, count);
    row = cut.before < count ? tsr__query_boxes_cut(run, cut.before, count - cut.before) : 0;
    if (row > 0 && row <= PART_CELLS) cut.size = PART_CELLS / row * row;
    else cut.before = 0;
    return cut;
  } else if (run->boxes.period) {
    row = run->boxes.period <= PART_CELLS ? run->boxes.period : run->boxes.line;
    place = run->boxes.origin + run->input.batch->first;
  }
  if (row == 0 || row > PART_CELLS) return cut;
  cut.size = PART_CELLS / row * row;
  cut.before = (row - place % row) % row;
  return cut;
}

static uint64_t end_of_part(const part_cut *cut, uint64_t from, uint64_t count) {
  if (from < cut->before) return TSR_MIN(cut->before, count);
  return TSR_MIN(from + cut->size, count);
}

/* Returns true if no group has cells in two parts of the batch. */
static bool parts_are_apart(const tsr_query_run *run, const part_cut *cut) {
  uint64_t before_low = 0, before_high = 0;
  if (!run->grouping.grid || !run->layout.straight || !run->input.subtile || run->grouping.grid_size <= PART_GRID)
    return false;
  for (uint64_t from = 0, end; from < run->input.batch->count; from = end) {
    uint64_t low, high;
    end = end_of_part(cut, from, run->input.batch->count);
    tsr__query_grid_range(run, from, end, &low, &high);
    if (from == 0) before_low = low, before_high = high;
    else if (low > before_high) before_high = high;
    else if (high < before_low) before_low = low;
    else return false;
  }
  return true;
}

static void note_fault(tsr_query_run *run, uint64_t count) {
  for (uint64_t p = count; p-- > 0;) {
    run->grouping.outside |= run->parts.list[p]->outside;
    if (run->parts.list[p]->fault.expression) run->fault = run->parts.list[p]->fault;
  }
}

int tsr__query_each_part(tsr_query_run *run, tsr_task add, tsr_error *error) {
  const uint64_t count = run->input.batch->count;
  const part_cut cut = {.size = PART_CELLS};
  TSR_TRY(parts_make(run, count / PART_CELLS + 1, error));
  for (uint64_t from = 0; from < count;) {
    uint64_t parts = 0;
    for (; parts < run->parts.count && from < count; parts++) {
      query_part *part = run->parts.list[parts];
      part->from = from;
      from = part->end = end_of_part(&cut, from, count);
      part->fault.expression = NULL;
    }
    const int rc = tsr__parallel_for(tsr__reader_threads(run->input.reader), parts, add, run->parts.list, error);
    if (rc < 0) note_fault(run, parts);
    TSR_TRY(rc);
  }
  return TSR_OK;
}

/* Gives a part places for the groups of a small grid, if there is memory. */
static void part_take_places(query_part *part) {
  tsr_query_run *run = part->run;
  const uint64_t size = run->grouping.grid_size;
  if (part->collected_at || !run->grouping.grid || size > PLACES_MAX || size * QUERY_PARTS_MAX > run->memory.limit / 32)
    return;
  if (TSR_ALLOC_ARRAY(&run->memory, size, &part->collected_at, NULL) < 0) part->collected_at = NULL;
}

int tsr__query_add_batch(tsr_query_run *run, tsr_error *error) {
  const uint64_t count = run->input.batch->count;
  const part_cut cut = choose_cut(run);
  const bool straight = parts_are_apart(run, &cut);
  TSR_TRY(parts_make(run, count / PART_CELLS + 2, error));
  for (uint64_t from = 0; from < count;) {
    uint64_t parts = 0;
    const uint64_t most = from == 0 && tsr__query_boxes_begin(run, cut.size) ? 1 : run->parts.count;
    for (; parts < most && from < count; parts++) {
      query_part *part = run->parts.list[parts];
      part->from = from;
      part->straight = straight;
      if (!straight) part_take_places(part);
      if (run->boxes.period) tsr__query_pairs_keep(part);
      from = part->end = end_of_part(&cut, from, count);
      part->fault.expression = NULL;
    }
    const int rc =
        tsr__parallel_for(tsr__reader_threads(run->input.reader), parts, part_add_cells, run->parts.list, error);
    if (rc < 0) note_fault(run, parts);
    TSR_TRY(rc);
    for (uint64_t p = 0; p < parts; p++) {
      TSR_TRY(merge_part(run, run->parts.list[p], error));
      if (run->boxes.period) tsr__query_pairs_share(run->parts.list[p]);
      tsr__count(run->snapshot->array->environment, TSR_COUNT_cells_paired, run->parts.list[p]->pairs.counted);
    }
  }
  return TSR_OK;
}

int tsr__query_part_make(tsr_query_run *run, tsr_error *error) { return parts_make(run, 1, error); }
