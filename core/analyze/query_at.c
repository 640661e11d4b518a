/* query_at.c: the value of an expression in the row of a group's minimum or maximum (TSR_AGGREGATE_AT).
 *
 * Each such aggregate has words of its own in the records: the extreme so far, and the value beside it. Of rows with
 * equal extremes the first counts.
 */
#include <string.h>

#include "model/datatype.h"
#include "analyze/query_run.h"

enum {
  AT_SEEN,
  AT_BEST,
  AT_BEST_SIZE,
  AT_KNOWN,
  AT_VALUE,
  AT_VALUE_SIZE,
  AT_WORDS
}; /* of a record, from at->word on */

int tsr__query_at_make(tsr_query_run *run, tsr_error *error) {
  for (uint32_t a = 0; a < run->query.aggregate_count; a++) {
    const tsr_query_aggregate *aggregate = &run->query.aggregates[a], *of;
    if (aggregate->function != TSR_AGGREGATE_AT) continue;
    of = aggregate->of < run->query.aggregate_count ? &run->query.aggregates[aggregate->of] : NULL;
    if (!of || !of->has_argument || (of->function != TSR_AGGREGATE_MIN && of->function != TSR_AGGREGATE_MAX))
      return tsr__fail(error, TSR_ERROR, "aggregate %u is no minimum or maximum", aggregate->of);
    query_at *at = &run->ats[run->at_count++];
    *at = (query_at){.aggregate = a, .measure = run->measure_of[aggregate->of], .value = run->value_of[a]};
    at->greatest = of->function == TSR_AGGREGATE_MAX;
    at->word = run->words;
    run->words += AT_WORDS;
    run->straight = false; /* texts may be borrowed from the batch */
  }
  return TSR_OK;
}

/* Sets two words to a value of a vector. */
static void at_words(const tsr_vector *v, const void *values, uint64_t row, uint64_t *words) {
  words[1] = v->whole ? v->whole[v->constant ? 0 : row] : 0;
  if (v->type == TSR_VALUE_TEXT) {
    words[0] = (uint64_t)(uintptr_t)((const tsr_text *)values)[row].bytes;
    words[1] = ((const tsr_text *)values)[row].size;
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

static bool at_is_better(const query_at *at, tsr_value_type type, const uint64_t *best, const uint64_t *record) {
  if (!record[at->word + AT_SEEN]) return true;
  const int c = at_compare(type, best, record + at->word + AT_BEST);
  return at->greatest ? c > 0 : c < 0;
}

static bool at_is_null(const tsr_vector *v, uint64_t row) {
  const uint64_t i = v->constant ? 0 : row;
  if (v->type == TSR_VALUE_REAL || v->type == TSR_VALUE_NUMBER) return v->as.reals[i] != v->as.reals[i];
  return v->type == TSR_VALUE_NULL || v->type == TSR_VALUE_OPAQUE || (v->nulls && v->nulls[i]);
}

void tsr__query_at_add(query_part *part, const query_at *at, const tsr_operand *operand, const tsr_spread *spread,
                       uint64_t *records) {
  const tsr_query_run *run = part->run;
  const tsr_vector *value = &part->vectors[at->value];
  tsr_vector of = {.type = run->measures[at->measure].measure.type, .nulls = operand->nulls, .whole = operand->whole};
  of.as.integers = operand->values;
  for (uint32_t r = 0, n = 0; r < spread->count; r++) {
    uint64_t best[2];
    if (at_is_null(&of, r) || (of.nulls && of.nulls[r])) continue;
    if (spread->run_count > 0)
      while (spread->ends[n] <= r) n++;
    uint64_t *record = records + (uint64_t)spread->groups[spread->run_count > 0 ? n : r] * run->words;
    at_words(&of, operand->values, r, best);
    if (!at_is_better(at, of.type, best, record)) continue;
    uint64_t *words = record + at->word;
    words[AT_SEEN] = 1;
    memcpy(words + AT_BEST, best, sizeof best);
    words[AT_KNOWN] = !at_is_null(value, r);
    if (words[AT_KNOWN]) at_words(value, value->as.integers, value->constant ? 0 : r, words + AT_VALUE);
  }
}

static int at_keep(tsr_query_run *run, tsr_value_type type, uint64_t *words, tsr_error *error) {
  char *copy;
  if (type != TSR_VALUE_TEXT) return TSR_OK;
  TSR_TRY(TSR_ARENA_COPY(&run->arena, (const void *)(uintptr_t)words[0], words[1], &copy, error));
  words[0] = (uint64_t)(uintptr_t)copy;
  return TSR_OK;
}

int tsr__query_at_merge(tsr_query_run *run, const query_at *at, uint64_t *to, const uint64_t *from, tsr_error *error) {
  const tsr_value_type type = run->measures[at->measure].measure.type;
  uint64_t *words = to + at->word;
  if (!from[at->word + AT_SEEN] || !at_is_better(at, type, from + at->word + AT_BEST, to)) return TSR_OK;
  memcpy(words, from + at->word, AT_WORDS * sizeof *words);
  TSR_TRY(at_keep(run, type, words + AT_BEST, error));
  return words[AT_KNOWN] ? at_keep(run, tsr__program_type(run->program, at->value), words + AT_VALUE, error) : TSR_OK;
}

void tsr__query_at_value(const tsr_query_run *run, uint32_t aggregate, const uint64_t *record, tsr_value *value) {
  const query_at *at = run->ats;
  while (at->aggregate != aggregate) at++;
  const uint64_t *words = record + at->word;
  *value = (tsr_value){.type = TSR_VALUE_NULL};
  if (!words[AT_KNOWN]) return;
  value->type = tsr__program_type(run->program, at->value);
  value->as.unsigned_integer = words[AT_VALUE];
  if (value->type == TSR_VALUE_TEXT) {
    value->as.text.bytes = (const char *)(uintptr_t)words[AT_VALUE];
    value->as.text.size = words[AT_VALUE_SIZE];
  } else if (value->type == TSR_VALUE_NUMBER) {
    value->type = words[AT_VALUE_SIZE] ? TSR_VALUE_INTEGER : TSR_VALUE_REAL;
    if (words[AT_VALUE_SIZE]) value->as.integer = (int64_t)value->as.real;
  }
}
