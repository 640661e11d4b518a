/* percentiles.c: medians and percentiles, from lists of all values.
 *
 * While batches are added, each value that such an aggregate needs is appended to its measure's list, together with the
 * number of its group (batch.c). When all cells have been read, each list is sorted once, by group and value: then the
 * values of a group are consecutive, and a percentile is found by two binary searches.
 */
#include <string.h>

#include "query/query.h"

#include "base/heap.h"
#include "base/sort.h"

#define LISTED_POLL 65536u /* values after which a sort polls for cancellation */

/* Numbers that sort as the values do; no value is NaN or -0.0 (batch.c). */
static uint64_t number_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits ^ (bits >> 63 ? UINT64_MAX : UINT64_C(1) << 63);
}

static double value_of(uint64_t number) {
  const uint64_t bits = number ^ (number >> 63 ? UINT64_C(1) << 63 : UINT64_MAX);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Sorts a list by value on all threads, and then moves each value to its group. `pairs`: room for the list; `starts`:
 * for one number a group, all 0. */
static int sort_list(tsr_query_run *run, query_listed *list, uint64_t count, uint64_t groups, tsr_pair *pairs,
                     uint64_t *starts, unsigned threads, tsr_error *error) {
  tsr_memory *memory = &run->snapshot->array->environment->memory;
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; i++) {
    starts[list[i].group]++;
    pairs[i] = (tsr_pair){number_of(list[i].value), (uint32_t)list[i].group};
  }
  TSR_TRY(tsr__pairs_sort_many(pairs, (tsr_pair *)(void *)list, count, threads, memory, error));
  for (uint64_t g = 0; g < groups; g++) {
    const uint64_t values = starts[g];
    starts[g] = sum;
    sum += values;
  }
  for (uint64_t i = 0; i < count; i++) {
    if (i % LISTED_POLL == 0) TSR_TRY(tsr__cancelled(memory, error));
    list[starts[pairs[i].cell]++] = (query_listed){pairs[i].cell, value_of(pairs[i].key)};
  }
  return TSR_OK;
}

static bool comes_after(const void *unused, const query_listed *a, const query_listed *b) {
  (void)unused;
  return a->group != b->group ? a->group > b->group : a->value > b->value;
}

TSR_DEFINE_HEAP(listed_heap, void, query_listed, comes_after)

/* The same in place, which is slower. */
static int sort_list_in_place(tsr_query_run *run, query_listed *list, uint64_t count, tsr_error *error) {
  listed_heap_build(NULL, list, count);
  for (uint64_t end = count - 1; end > 0; end--) {
    const query_listed last = list[end];
    if (end % LISTED_POLL == 0) TSR_TRY(tsr__cancelled(&run->snapshot->array->environment->memory, error));
    list[end] = list[0];
    listed_heap_sink_deep(NULL, list, end, 0, last);
  }
  return TSR_OK;
}

int tsr__query_lists_sort(tsr_query_run *run, unsigned threads, tsr_error *error) {
  const uint64_t groups = run->collected.records.size / (run->layout.words * sizeof(uint64_t));
  for (uint32_t m = 0; m < run->layout.measure_count; m++) {
    query_listed *list = (query_listed *)(void *)run->collected.lists[m].data;
    const uint64_t count = run->collected.lists[m].size / sizeof *list;
    uint64_t *starts = NULL;
    tsr_pair *pairs = NULL;
    if (count == 0) continue;
    int rc = TSR_ALLOC_RAW(&run->memory, count, &pairs, NULL);
    if (rc >= 0) rc = TSR_ALLOC_ARRAY(&run->memory, groups, &starts, NULL);
    rc = rc < 0 ? sort_list_in_place(run, list, count, error)
                : sort_list(run, list, count, groups, pairs, starts, threads, error);
    tsr__free(pairs);
    tsr__free(starts);
    TSR_TRY(rc);
  }
  return TSR_OK;
}

/* Returns the lower bound of `group`: the index of the first value whose group is not below it. */
static uint64_t first_of_group(const query_listed *list, uint64_t count, uint64_t group) {
  uint64_t low = 0;
  while (low < count) {
    const uint64_t middle = low + (count - low) / 2;
    if (list[middle].group < group) low = middle + 1;
    else count = middle;
  }
  return low;
}

void tsr__query_list_percentile(const tsr_query_run *run, uint32_t measure, uint32_t group, double percent,
                                tsr_value *value) {
  const query_listed *list = (const query_listed *)(const void *)run->collected.lists[measure].data;
  const uint64_t count = run->collected.lists[measure].size / sizeof *list;
  const uint64_t first = first_of_group(list, count, group), end = first_of_group(list, count, (uint64_t)group + 1);
  *value = (tsr_value){.type = TSR_VALUE_NULL};
  if (first == end) return;
  value->type = TSR_VALUE_REAL;
  value->as.real = tsr__percentile(&list[first].value, sizeof *list / sizeof list->value, end - first, percent);
}
