/* query_lists.c: the values that medians and percentiles are taken of: pairs of a group and a value, sorted once. */
#include "analyze/query_lists.h"

#include <math.h>
#include <stdlib.h>

#include "base/arithmetic.h"

typedef struct listed { /* as in tsr_query_run.lists */
  uint64_t group;
  double value;
} listed;

static int compare_listed(const void *a, const void *b) {
  const listed *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  return (x->value > y->value) - (x->value < y->value);
}

int tsr__query_lists_sort(tsr_query_run *run, tsr_error *error) {
  for (uint32_t m = 0; m < run->layout.measure_count; m++) {
    tsr_buffer *list = &run->collected.lists[m];
    if (list->size == 0) continue;
    TSR_TRY(tsr__cancelled(&run->snapshot->array->environment->memory, error));
    qsort(list->data, list->size / sizeof(listed), sizeof(listed), compare_listed);
  }
  return TSR_OK;
}

/* Returns the index of the first value of a group that is not below `group`. */
static uint64_t first_of_group(const listed *list, uint64_t count, uint64_t group) {
  uint64_t low = 0;
  while (low < count) {
    const uint64_t middle = low + (count - low) / 2;
    if (list[middle].group < group) low = middle + 1;
    else count = middle;
  }
  return low;
}

/* The value between two neighbours. Their difference may pass the greatest double. */
static double between(double low, double high, double part) {
  if (low == high || part <= 0) return low;
  const double reach = high - low;
  return isfinite(reach) ? low + reach * part : low * (1 - part) + high * part;
}

void tsr__query_list_value(const tsr_query_run *run, uint32_t measure, uint32_t group, double percent,
                           tsr_value *value) {
  const listed *list = (const listed *)(const void *)run->collected.lists[measure].data;
  const uint64_t count = run->collected.lists[measure].size / sizeof *list;
  const uint64_t first = first_of_group(list, count, group), end = first_of_group(list, count, (uint64_t)group + 1);
  *value = (tsr_value){.type = TSR_VALUE_NULL};
  if (first == end) return;
  const double place = percent * (double)(end - first - 1) / 100;
  const uint64_t below = TSR_MIN((uint64_t)place, end - first - 1), above = TSR_MIN(below + 1, end - first - 1);
  const double low = list[first + below].value, high = list[first + above].value, part = place - (double)below;
  value->type = TSR_VALUE_REAL;
  value->as.real = between(low, high, part);
}
