/* extremes.c: values in the row of a group's minimum or maximum (TSR_AGGREGATE_AT), as in SELECT t, max(v) GROUP BY y.
 *
 * All aggregates of one extreme share words of the record: the extreme so far, and the coordinates of its row. Each has
 * words of its own for its value in that row. Among rows with equal extremes the one with the least coordinates counts,
 * in row-major order. If the extreme is null in all rows, the last one counts, as in SQLite, unless a filter has left
 * rows out.
 *
 * Order: the words of a record; comparing; adding rows; merging records; results.
 */
#include <string.h>

#include "query/query.h"

#include "model/datatype.h"
#include "query/program.h"

/* Words of a record, from at->word on; the coordinates begin at AT_PLACE. */
enum { AT_SEEN, AT_BEST, AT_BEST_SIZE, AT_PLACE };

enum { AT_NONE, AT_NULL, AT_EXTREME }; /* what AT_SEEN says */

/* The greatest (or least) extreme of the tiles of the group that will be read: from at->promise_word on, in the query's
 * records only. */
enum { AT_PROMISED, AT_PROMISE, AT_PROMISE_WORDS };

enum { AT_KNOWN, AT_VALUE, AT_VALUE_SIZE, AT_VALUE_WORDS }; /* from at->value_word on */

static uint32_t at_width(tsr_value_type type) { return type == TSR_VALUE_TEXT ? 2 : 1; }

/* Assigns an aggregate the words of its extreme: an earlier aggregate's, or new ones. */
static void at_share(tsr_query_run *run, query_at *at) {
  for (const query_at *other = run->extremes.list; other < at; other++)
    if (other->measure == at->measure && other->greatest == at->greatest) {
      at->word = other->word;
      return;
    }
  at->leads = true;
  at->word = run->layout.words;
  run->layout.words += AT_PLACE;
  for (uint32_t d = 0; d < run->schema->dimension_count; d++)
    run->layout.words += at_width(tsr__program_type(run->expressions.program, run->extremes.coordinates[d]));
  at->promise_word = run->layout.words;
  run->layout.words += AT_PROMISE_WORDS;
}

int tsr__query_extremes_make(tsr_query_run *run, tsr_error *error) {
  for (uint32_t a = 0; a < run->query.aggregate_count; a++) {
    const tsr_query_aggregate *aggregate = &run->query.aggregates[a], *of;
    if (aggregate->function != TSR_AGGREGATE_AT) continue;
    of = aggregate->of < run->query.aggregate_count ? &run->query.aggregates[aggregate->of] : NULL;
    if (!of || !of->has_argument || (of->function != TSR_AGGREGATE_MIN && of->function != TSR_AGGREGATE_MAX))
      return tsr__fail(error, TSR_ERROR, "aggregate %u is not a minimum or maximum", aggregate->of);
    query_at *at = &run->extremes.list[run->extremes.count++];
    *at = (query_at){
        .aggregate = a, .measure = run->layout.measure_of[aggregate->of], .value = run->extremes.value_of[a]};
    at->greatest = of->function == TSR_AGGREGATE_MAX;
    at_share(run, at);
    at->value_word = run->layout.words;
    run->layout.words += AT_VALUE_WORDS;
    run->layout.straight = false; /* texts may be borrowed from the batch */
  }
  return TSR_OK;
}

/* Writes one value of a vector as two words. */
static void at_words(const tsr_vector *v, const void *values, uint64_t row, uint64_t *words) {
  words[1] = v->whole ? v->whole[v->constant ? 0 : row] : 0;
  if (v->type == TSR_VALUE_TEXT) {
    words[0] = (uint64_t)(uintptr_t)((const tsr_text_value *)values)[row].bytes;
    words[1] = ((const tsr_text_value *)values)[row].size;
  } else {
    words[0] = ((const uint64_t *)values)[row];
  }
}

static int at_compare(tsr_value_type type, const uint64_t *a, const uint64_t *b) {
  double x, y;
  switch (type) {
  case TSR_VALUE_REAL:
  case TSR_VALUE_NUMBER:
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
  case TSR_VALUE_UNSIGNED: return (a[0] > b[0]) - (a[0] < b[0]);
  case TSR_VALUE_TEXT:
    return tsr__bytes_compare((const void *)(uintptr_t)a[0], a[1], (const void *)(uintptr_t)b[0], b[1]);
  default: return ((int64_t)a[0] > (int64_t)b[0]) - ((int64_t)a[0] < (int64_t)b[0]);
  }
}

/* Compares a new extreme with the record's: > 0 if it replaces it, 0 if they are equal. */
static int at_improves(const query_at *at, tsr_value_type type, const uint64_t *best, const uint64_t *record) {
  if (record[at->word + AT_SEEN] != AT_EXTREME) return 1;
  const int c = at_compare(type, best, record + at->word + AT_BEST);
  return at->greatest ? c : -c;
}

bool tsr__query_at_wants(const tsr_query_run *run, const uint64_t *known, uint64_t *record) {
  bool wanted = false;
  for (const query_at *at = run->extremes.list; at < run->extremes.list + run->extremes.count; at++) {
    const tsr_measure *m = &run->layout.measures[at->measure].measure;
    uint64_t *promise = record + at->promise_word;
    if (!at->leads) continue;
    wanted |= known[m->count_at] == 0 && !promise[AT_PROMISED]; /* perhaps all of the group are null */
    if (known[m->count_at] == 0) continue;
    const uint64_t *end = known + (at->greatest ? m->high_at : m->low_at);
    if (promise[AT_PROMISED]) {
      const int c = at_compare(m->type, end, promise + AT_PROMISE);
      if (at->greatest ? c < 0 : c > 0) continue;
    }
    promise[AT_PROMISED] = 1;
    promise[AT_PROMISE] = *end;
    wanted = true;
  }
  return wanted;
}

/* Returns true if coordinates a come before b. */
static bool at_is_before(const tsr_query_run *run, const uint64_t *a, const uint64_t *b) {
  for (uint32_t d = 0; d < run->schema->dimension_count; d++) {
    const tsr_value_type type = tsr__program_type(run->expressions.program, run->extremes.coordinates[d]);
    const int c = at_compare(type, a, b);
    if (c) return c < 0;
    a += at_width(type);
    b += at_width(type);
  }
  return false;
}

static bool at_is_null(const tsr_vector *v, uint64_t row) {
  const uint64_t i = v->constant ? 0 : row;
  if (v->type == TSR_VALUE_REAL || v->type == TSR_VALUE_NUMBER) return v->as.reals[i] != v->as.reals[i];
  return v->type == TSR_VALUE_NULL || v->type == TSR_VALUE_OPAQUE || (v->nulls && v->nulls[i]);
}

/* Returns true if the coordinates of a row come before `place`. */
static bool at_row_is_before(const query_part *part, uint64_t row, const uint64_t *place) {
  const tsr_query_run *run = part->run;
  for (uint32_t d = 0; d < run->schema->dimension_count; d++) {
    const tsr_vector *v = &part->vectors[run->extremes.coordinates[d]];
    uint64_t words[2];
    at_words(v, v->as.integers, v->constant ? 0 : row, words);
    const int c = at_compare(v->type, words, place);
    if (c) return c < 0;
    place += at_width(v->type);
  }
  return false;
}

/* Replaces the extreme and the values of all its aggregates by those of a row. */
static void at_take(const query_part *part, const query_at *at, uint64_t row, uint64_t seen, const uint64_t *best,
                    uint64_t *record) {
  const tsr_query_run *run = part->run;
  uint64_t *place = record + at->word + AT_PLACE;
  record[at->word + AT_SEEN] = seen;
  memcpy(record + at->word + AT_BEST, best, 2 * sizeof *best);
  for (uint32_t d = 0; d < run->schema->dimension_count; d++) {
    const tsr_vector *v = &part->vectors[run->extremes.coordinates[d]];
    uint64_t words[2];
    at_words(v, v->as.integers, v->constant ? 0 : row, words);
    memcpy(place, words, at_width(v->type) * sizeof *place);
    place += at_width(v->type);
  }
  for (const query_at *of = run->extremes.list; of < run->extremes.list + run->extremes.count; of++) {
    if (of->word != at->word) continue;
    const tsr_vector *value = &part->vectors[of->value];
    uint64_t *words = record + of->value_word;
    words[AT_KNOWN] = !at_is_null(value, row);
    if (words[AT_KNOWN]) at_words(value, value->as.integers, value->constant ? 0 : row, words + AT_VALUE);
  }
}

void tsr__query_at_add(query_part *part, const query_at *at, const tsr_operand *operand, const tsr_spread *spread,
                       uint64_t *records) {
  const tsr_query_run *run = part->run;
  tsr_vector of = {
      .type = run->layout.measures[at->measure].measure.type, .nulls = operand->nulls, .whole = operand->whole};
  of.as.integers = operand->values;
  const bool filtered = run->layout.measures[at->measure].filter != QUERY_NONE;
  for (uint32_t r = 0, n = 0; r < spread->count && at->leads; r++) {
    uint64_t best[2] = {0};
    const bool null = at_is_null(&of, r) || (of.nulls && of.nulls[r]);
    if (null && filtered) continue;
    if (spread->run_count > 0)
      while (spread->ends[n] <= r) n++;
    uint64_t *record = records + (uint64_t)spread->groups[spread->run_count > 0 ? n : r] * run->layout.words;
    if (null) {
      if (record[at->word + AT_SEEN] == AT_NONE ||
          (record[at->word + AT_SEEN] == AT_NULL && !at_row_is_before(part, r, record + at->word + AT_PLACE)))
        at_take(part, at, r, AT_NULL, best, record);
      continue;
    }
    at_words(&of, operand->values, r, best);
    const int improves = at_improves(at, of.type, best, record);
    if (improves > 0 || (improves == 0 && at_row_is_before(part, r, record + at->word + AT_PLACE)))
      at_take(part, at, r, AT_EXTREME, best, record);
  }
}

static int at_keep(tsr_query_run *run, tsr_value_type type, uint64_t *words, tsr_error *error) {
  char *copy;
  if (type != TSR_VALUE_TEXT) return TSR_OK;
  TSR_TRY(TSR_ARENA_COPY(&run->arena, (const void *)(uintptr_t)words[0], words[1], &copy, error));
  words[0] = (uint64_t)(uintptr_t)copy;
  return TSR_OK;
}

/* Copies the extreme, its coordinates and the values of its aggregates. */
static int at_copy(tsr_query_run *run, const query_at *at, uint64_t *to, const uint64_t *from, tsr_error *error) {
  uint64_t *place = to + at->word + AT_PLACE;
  memcpy(to + at->word, from + at->word, AT_PLACE * sizeof *to);
  TSR_TRY(at_keep(run, run->layout.measures[at->measure].measure.type, to + at->word + AT_BEST, error));
  for (uint32_t d = 0; d < run->schema->dimension_count; d++) {
    const tsr_value_type type = tsr__program_type(run->expressions.program, run->extremes.coordinates[d]);
    memcpy(place, from + (place - to), at_width(type) * sizeof *place);
    TSR_TRY(at_keep(run, type, place, error));
    place += at_width(type);
  }
  for (const query_at *of = run->extremes.list; of < run->extremes.list + run->extremes.count; of++) {
    uint64_t *words = to + of->value_word;
    if (of->word != at->word) continue;
    memcpy(words, from + of->value_word, AT_VALUE_WORDS * sizeof *words);
    if (words[AT_KNOWN])
      TSR_TRY(at_keep(run, tsr__program_type(run->expressions.program, of->value), words + AT_VALUE, error));
  }
  return TSR_OK;
}

int tsr__query_at_merge(tsr_query_run *run, const query_at *at, uint64_t *to, const uint64_t *from, tsr_error *error) {
  const uint64_t seen = from[at->word + AT_SEEN], before = to[at->word + AT_SEEN];
  if (!at->leads || seen < before || seen == AT_NONE) return TSR_OK;
  if (seen == AT_NULL) {
    if (before == AT_NULL && at_is_before(run, from + at->word + AT_PLACE, to + at->word + AT_PLACE)) return TSR_OK;
    return at_copy(run, at, to, from, error);
  }
  const int improves = at_improves(at, run->layout.measures[at->measure].measure.type, from + at->word + AT_BEST, to);
  if (improves < 0 || (improves == 0 && !at_is_before(run, from + at->word + AT_PLACE, to + at->word + AT_PLACE)))
    return TSR_OK;
  return at_copy(run, at, to, from, error);
}

void tsr__query_extremes_value(const tsr_query_run *run, uint32_t aggregate, const uint64_t *record, tsr_value *value) {
  const query_at *at = run->extremes.list;
  while (at->aggregate != aggregate) at++;
  const uint64_t *words = record + at->value_word;
  *value = (tsr_value){.type = TSR_VALUE_NULL};
  if (!words[AT_KNOWN]) return;
  value->type = tsr__program_type(run->expressions.program, at->value);
  value->as.unsigned_integer = words[AT_VALUE];
  if (value->type == TSR_VALUE_TEXT) {
    value->as.text.bytes = (const char *)(uintptr_t)words[AT_VALUE];
    value->as.text.size = words[AT_VALUE_SIZE];
  } else if (value->type == TSR_VALUE_NUMBER) {
    value->type = words[AT_VALUE_SIZE] ? TSR_VALUE_INTEGER : TSR_VALUE_REAL;
    if (words[AT_VALUE_SIZE]) value->as.integer = (int64_t)value->as.real;
  }
}
