/* test_passes.c: aggregates over frames of every kind, in boxes seen from every axis, and over listed offsets, against
 * sums over each frame by itself. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "query/pass.h"

#define CELLS_MAX 4000

static uint64_t state_of_chance = 1;

static uint64_t chance(uint64_t below) {
  state_of_chance = state_of_chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (state_of_chance >> 33) % below;
}

/* A box of values: quarters, so that no sum is rounded. */
static struct {
  double reals[CELLS_MAX];
  int64_t integers[CELLS_MAX];
  uint64_t unsigneds[CELLS_MAX];
  tsr_text_value texts[CELLS_MAX];
  uint8_t known[CELLS_MAX];
} box;

static void fill_box(void) {
  static const char words[][4] = {"a", "ab", "b", "", "zz", "m"};
  for (int i = 0; i < CELLS_MAX; i++) {
    const uint64_t word = chance(6);
    box.known[i] = chance(5) == 0 ? (uint8_t)(1 + chance(2)) : TSR_KNOWN_VALUE;
    box.integers[i] = (int64_t)chance(200) - 100;
    box.unsigneds[i] = UINT64_MAX - chance(200);
    box.reals[i] = box.known[i] == TSR_KNOWN_VALUE ? (double)box.integers[i] / 4 : (double)NAN;
    box.texts[i] = (tsr_text_value){words[word], strlen(words[word])};
  }
}

static const void *values_of(tsr_value_type type) {
  return type == TSR_VALUE_REAL       ? (const void *)box.reals
         : type == TSR_VALUE_INTEGER  ? (const void *)box.integers
         : type == TSR_VALUE_UNSIGNED ? (const void *)box.unsigneds
                                      : (const void *)box.texts;
}

/* ---- By the definition ---- */

typedef struct gathered { /* the cells of a frame, in order */
  uint64_t cells[CELLS_MAX];
  double weights[CELLS_MAX];
  uint64_t count;
} gathered;

typedef struct answer {
  bool null;
  double real; /* REAL, INTEGER */
  uint64_t word; /* of a cell: its value */
  tsr_text_value text;
} answer;

static double number_of(tsr_value_type type, uint64_t cell) {
  return type == TSR_VALUE_REAL ? box.reals[cell] : (double)box.integers[cell];
}

static int compare_numbers(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int compare_texts(const tsr_text_value *a, const tsr_text_value *b) {
  const int order = memcmp(a->bytes, b->bytes, (size_t)(a->size < b->size ? a->size : b->size));
  return order ? order : (a->size > b->size) - (a->size < b->size);
}

static bool better(const tsr_pass *pass, uint64_t a, uint64_t b) {
  int order;
  if (pass->type == TSR_VALUE_TEXT) order = compare_texts(&box.texts[a], &box.texts[b]);
  else if (pass->type == TSR_VALUE_UNSIGNED)
    order = box.unsigneds[a] < box.unsigneds[b] ? -1 : box.unsigneds[a] > box.unsigneds[b];
  else order = compare_numbers(&(double){number_of(pass->type, a)}, &(double){number_of(pass->type, b)});
  return pass->function == TSR_AGGREGATE_MIN ? order < 0 : order > 0;
}

static answer answer_of_cell(const tsr_pass *pass, uint64_t cell) {
  answer a = {.null = box.known[cell] != TSR_KNOWN_VALUE, .text = box.texts[cell]};
  a.word = pass->type == TSR_VALUE_UNSIGNED ? box.unsigneds[cell] : 0;
  if (!a.null && pass->type != TSR_VALUE_TEXT && pass->type != TSR_VALUE_UNSIGNED) a.real = number_of(pass->type, cell);
  return a;
}

static answer pick(const tsr_pass *pass, const gathered *g) {
  uint64_t places[CELLS_MAX], n = 0;
  for (uint64_t i = 0; i < g->count; i++)
    if (box.known[g->cells[i]] != TSR_KNOWN_MISSING) places[n++] = g->cells[i];
  const uint64_t nth = pass->function == TSR_AGGREGATE_FIRST  ? 1
                       : pass->function == TSR_AGGREGATE_LAST ? n
                       : pass->from_end                       ? n + 1 - pass->nth
                                                              : pass->nth;
  if (nth == 0 || nth > n) return (answer){.null = true};
  return answer_of_cell(pass, places[nth - 1]);
}

static answer extreme(const tsr_pass *pass, const gathered *g) {
  uint64_t best = UINT64_MAX;
  for (uint64_t i = 0; i < g->count; i++)
    if (box.known[g->cells[i]] == TSR_KNOWN_VALUE && (best == UINT64_MAX || better(pass, g->cells[i], best)))
      best = g->cells[i];
  return best == UINT64_MAX ? (answer){.null = true} : answer_of_cell(pass, best);
}

static answer by_definition(const tsr_pass *pass, tsr_value_type argument, const gathered *g) {
  double numbers[CELLS_MAX], sum = 0, squares = 0;
  uint64_t n = 0;
  switch (pass->function) {
  case TSR_AGGREGATE_FIRST:
  case TSR_AGGREGATE_LAST:
  case TSR_AGGREGATE_NTH: return pick(pass, g);
  case TSR_AGGREGATE_MIN:
  case TSR_AGGREGATE_MAX:
    if (pass->type == TSR_VALUE_TEXT || pass->type == TSR_VALUE_UNSIGNED) return extreme(pass, g);
    break;
  default: break;
  }
  for (uint64_t i = 0; i < g->count; i++)
    if (box.known[g->cells[i]] == TSR_KNOWN_VALUE)
      numbers[n++] = (argument == TSR_VALUE_NULL ? 1 : number_of(argument, g->cells[i])) * g->weights[i];
  for (uint64_t i = 0; i < n; i++) sum += numbers[i];
  const double mean = n ? sum / (double)n : 0;
  for (uint64_t i = 0; i < n; i++) squares += (numbers[i] - mean) * (numbers[i] - mean);
  qsort(numbers, n, sizeof *numbers, compare_numbers);
  const double place = n ? pass->percent * (double)(n - 1) / 100 : 0;
  const uint64_t low = (uint64_t)place, high = low + 1 < n ? low + 1 : low;
  answer a = {.null = n == 0};
  switch (pass->function) {
  case TSR_AGGREGATE_COUNT: a = (answer){.real = (double)n}; break;
  case TSR_AGGREGATE_TOTAL: a = (answer){.real = sum}; break;
  case TSR_AGGREGATE_AVG: a.real = mean; break;
  case TSR_AGGREGATE_MIN: a.real = n ? numbers[0] : 0; break;
  case TSR_AGGREGATE_MAX: a.real = n ? numbers[n - 1] : 0; break;
  case TSR_AGGREGATE_PERCENTILE:
    a.real = n ? numbers[low] + (numbers[high] - numbers[low]) * (place - (double)low) : 0;
    break;
  case TSR_AGGREGATE_VARIANCE: a = (answer){.null = n < 2, .real = squares / (double)(n - 1)}; break;
  case TSR_AGGREGATE_STDDEV: a = (answer){.null = n < 2, .real = sqrt(squares / (double)(n - 1))}; break;
  default: a.real = sum;
  }
  return a;
}

/* ---- Results ---- */

static union {
  double reals[CELLS_MAX];
  int64_t integers[CELLS_MAX];
  uint64_t words[CELLS_MAX];
  tsr_text_value texts[CELLS_MAX];
} results;
static uint8_t valid[CELLS_MAX];

/* Sets what cells show that get no result. */
static void clear_results(void) {
  memset(&results, 0x5a, sizeof results);
  memset(valid, 0x5a, sizeof valid);
}

static void check_result(const tsr_pass *pass, uint64_t cell, const answer *expected) {
  const tsr_value_type type = tsr__pass_type(pass->function, pass->type);
  const bool null = type == TSR_VALUE_REAL ? isnan(results.reals[cell]) : valid[cell] == 0;
  if (type != TSR_VALUE_REAL) assert_true(valid[cell] <= 1);
  assert_int_equal(null, expected->null);
  if (null) return;
  if (type == TSR_VALUE_TEXT) assert_int_equal(compare_texts(&results.texts[cell], &expected->text), 0);
  else if (type == TSR_VALUE_UNSIGNED) assert_true(results.words[cell] == expected->word);
  else if (type == TSR_VALUE_INTEGER) assert_true((double)results.integers[cell] == expected->real);
  else assert_true(fabs(results.reals[cell] - expected->real) <= 1e-11 * fmax(1, fabs(expected->real)));
}

static void check_untouched(const tsr_pass *pass, uint64_t cell) {
  const uint64_t untouched = UINT64_C(0x5a5a5a5a5a5a5a5a);
  assert_true(tsr__pass_type(pass->function, pass->type) == TSR_VALUE_TEXT ? results.texts[cell].size == untouched
                                                                           : results.words[cell] == untouched);
}

/* ---- Frames ---- */

typedef enum frames_kind {
  AROUND,
  BEFORE,
  BEHIND,
  GROWING,
  SHRINKING,
  WHOLE,
  ITSELF,
  GAPS,
  IRREGULAR,
  FRAMES
} frames_kind;

/* Makes frames whose ends never decrease. */
static void make_frames(frames_kind kind, int64_t count, tsr_window_frame *frames) {
  int64_t first = 0, last = -1;
  for (int64_t i = 0; i < count; i++) {
    tsr_window_frame f = {i, i};
    if (kind == AROUND) f = (tsr_window_frame){i - 2, i + 3};
    if (kind == BEFORE) f = (tsr_window_frame){i - 9, i - 4};
    if (kind == BEHIND) f = (tsr_window_frame){i + 1, i + 7};
    if (kind == GROWING) f = (tsr_window_frame){0, i};
    if (kind == SHRINKING) f = (tsr_window_frame){i, count - 1};
    if (kind == WHOLE) f = (tsr_window_frame){0, count - 1};
    if (kind == GAPS) f = i % 5 == 2 ? (tsr_window_frame){i, i - 1} : (tsr_window_frame){i - 1, i};
    if (kind == IRREGULAR) {
      first += (int64_t)chance(3);
      last += (int64_t)chance(4);
      f = (tsr_window_frame){first, last};
    }
    frames[i] = f;
    if (frames[i].first < 0) frames[i].first = 0;
    if (frames[i].last > count - 1) frames[i].last = count - 1;
  }
}

static void frames_of_lines(const tsr_window_frame *given, uint64_t count, tsr_frame *frames) {
  int64_t cuts[CELLS_MAX];
  tsr__frames_cut(given, count, cuts);
  for (uint64_t i = 0; i < count; i++)
    frames[i] = (tsr_frame){given[i].first, given[i].last, given[i].first <= given[i].last ? cuts[i] : 0};
}

typedef struct case_of { /* a function of an argument */
  tsr_aggregate_function function;
  tsr_value_type type;
} case_of;

static const case_of all[] = {
    {TSR_AGGREGATE_COUNT, TSR_VALUE_REAL},         {TSR_AGGREGATE_COUNT, TSR_VALUE_INTEGER},
    {TSR_AGGREGATE_SUM, TSR_VALUE_REAL},           {TSR_AGGREGATE_SUM, TSR_VALUE_INTEGER},
    {TSR_AGGREGATE_TOTAL, TSR_VALUE_REAL},         {TSR_AGGREGATE_TOTAL, TSR_VALUE_INTEGER},
    {TSR_AGGREGATE_AVG, TSR_VALUE_REAL},           {TSR_AGGREGATE_AVG, TSR_VALUE_INTEGER},
    {TSR_AGGREGATE_MIN, TSR_VALUE_REAL},           {TSR_AGGREGATE_MIN, TSR_VALUE_INTEGER},
    {TSR_AGGREGATE_MAX, TSR_VALUE_REAL},           {TSR_AGGREGATE_MAX, TSR_VALUE_INTEGER},
    {TSR_AGGREGATE_MIN, TSR_VALUE_UNSIGNED},       {TSR_AGGREGATE_MAX, TSR_VALUE_UNSIGNED},
    {TSR_AGGREGATE_VARIANCE, TSR_VALUE_REAL},      {TSR_AGGREGATE_VARIANCE, TSR_VALUE_INTEGER},
    {TSR_AGGREGATE_STDDEV, TSR_VALUE_REAL},        {TSR_AGGREGATE_PERCENTILE, TSR_VALUE_REAL},
    {TSR_AGGREGATE_PERCENTILE, TSR_VALUE_INTEGER}, {TSR_AGGREGATE_FIRST, TSR_VALUE_REAL},
    {TSR_AGGREGATE_LAST, TSR_VALUE_INTEGER},       {TSR_AGGREGATE_NTH, TSR_VALUE_TEXT},
    {TSR_AGGREGATE_MIN, TSR_VALUE_TEXT},           {TSR_AGGREGATE_MAX, TSR_VALUE_TEXT},
};
#define ALL (sizeof all / sizeof *all)

static tsr_pass pass_of(const case_of *c) {
  return (tsr_pass){.function = c->function,
                    .type = c->type,
                    .percent = 30,
                    .nth = 2,
                    .from_end = chance(2) == 0,
                    .values = values_of(c->type),
                    .known = box.known,
                    .first = true,
                    .last = true,
                    .results = &results,
                    .valid = valid};
}

static void check_lines(const tsr_pass *pass, const tsr_lines *lines) {
  static gathered g;
  for (uint64_t cell = 0; cell < lines->outer * lines->count * lines->inner; cell++) {
    const uint64_t position = cell / lines->inner % lines->count;
    if (position < lines->from || position >= lines->to) {
      check_untouched(pass, cell);
      continue;
    }
    const tsr_frame *frame = &lines->frames[position];
    g.count = 0;
    for (int64_t p = frame->first; p <= frame->last; p++) {
      g.weights[g.count] = 1;
      g.cells[g.count++] = cell + (uint64_t)(p - (int64_t)position) * lines->inner;
    }
    const answer expected = by_definition(pass, pass->type, &g);
    check_result(pass, cell, &expected);
  }
}

/* Boxes seen from their first, middle and last axis, and one line; lines that are many, few, or more than lanes. */
static void test_frames_of_every_kind_give_what_each_frame_has(void **state) {
  static const uint64_t shapes[][3] = {{1, 37, 1},  {1, 23, 17}, {29, 13, 1}, {5, 11, 9},
                                       {1, 5, 300}, {3, 1, 4},   {40, 7, 2}};
  tsr_window_frame given[64];
  tsr_frame frames[64];
  tsr_error error = {0};
  (void)state;
  fill_box();
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (frames_kind kind = AROUND; kind < FRAMES; kind++)
      for (size_t c = 0; c < ALL; c++) {
        tsr_pass pass = pass_of(&all[c]);
        tsr_lines lines = {shapes[s][0], shapes[s][1], shapes[s][2], 0, shapes[s][1], frames};
        if (chance(2)) lines.from = chance(lines.count), lines.to = lines.from + 1 + chance(lines.count - lines.from);
        make_frames(kind, (int64_t)lines.count, given);
        frames_of_lines(given, lines.count, frames);
        clear_results();
        assert_int_equal(tsr__pass_run(&pass, &lines, 1 + (unsigned)chance(3), tsr__memory_process(), &error), TSR_OK);
        check_lines(&pass, &lines);
      }
}

/* A box of frames in three dimensions is a pass for each. */
static void test_passes_over_several_axes_give_what_each_box_has(void **state) {
  enum { A = 7, B = 9, C = 21, CELLS = A * B * C };
  static const uint64_t shape[3] = {A, B, C};
  static uint64_t words[2][TSR_PASS_PARTS][CELLS];
  static gathered g;
  tsr_window_frame given[3][C];
  tsr_frame frames[3][C];
  tsr_error error = {0};
  (void)state;
  fill_box();
  for (size_t c = 0; c < ALL; c++) {
    tsr_pass pass = pass_of(&all[c]);
    if (tsr__pass_parts(&pass) == 0) continue;
    clear_results();
    for (uint32_t a = 0; a < 3; a++) {
      make_frames((frames_kind)chance(FRAMES), (int64_t)shape[a], given[a]);
      frames_of_lines(given[a], shape[a], frames[a]);
      const tsr_lines lines = {
          a == 0 ? 1 : a == 1 ? A : A * B, shape[a], a == 0 ? B * C : a == 1 ? C : 1, 0, shape[a], frames[a]};
      pass.first = a == 0;
      pass.last = a == 2;
      for (uint32_t p = 0; p < TSR_PASS_PARTS; p++)
        pass.partial[p] = words[a % 2][p], pass.made[p] = words[1 - a % 2][p];
      assert_int_equal(tsr__pass_run(&pass, &lines, 2, tsr__memory_process(), &error), TSR_OK);
    }
    for (int64_t cell = 0; cell < CELLS; cell++) {
      const tsr_frame *f0 = &frames[0][cell / (B * C)], *f1 = &frames[1][cell / C % B], *f2 = &frames[2][cell % C];
      g.count = 0;
      for (int64_t x = f0->first; x <= f0->last; x++)
        for (int64_t y = f1->first; y <= f1->last; y++)
          for (int64_t z = f2->first; z <= f2->last; z++) {
            g.weights[g.count] = 1;
            g.cells[g.count++] = (uint64_t)((x * B + y) * C + z);
          }
      const answer expected = by_definition(&pass, pass.type, &g);
      check_result(&pass, (uint64_t)cell, &expected);
    }
  }
}

/* Results do not depend on threads, and a sum not on what came before: 1e300 leaves nothing behind. */
static void test_nothing_is_subtracted(void **state) {
  enum { N = 50 };
  tsr_window_frame given[N];
  tsr_frame frames[N];
  double values[N];
  tsr_error error = {0};
  (void)state;
  for (int i = 0; i < N; i++) values[i] = i % 7 == 3 ? 1e300 : i % 11 == 5 ? (double)INFINITY : 0.1;
  for (int i = 0; i < N; i++) given[i] = (tsr_window_frame){i > 1 ? i - 2 : 0, i};
  frames_of_lines(given, N, frames);
  tsr_pass pass = {.function = TSR_AGGREGATE_SUM,
                   .type = TSR_VALUE_REAL,
                   .values = values,
                   .first = true,
                   .last = true,
                   .results = &results,
                   .valid = valid};
  const tsr_lines lines = {1, N, 1, 0, N, frames};
  assert_int_equal(tsr__pass_run(&pass, &lines, 1, tsr__memory_process(), &error), TSR_OK);
  for (int i = 2; i < N; i++) {
    const bool plain = values[i] < 1 && values[i - 1] < 1 && values[i - 2] < 1;
    if (plain) assert_true(results.reals[i] == 0.1 + 0.2 || fabs(results.reals[i] - 0.3) < 1e-16);
    if (isinf(values[i])) assert_true(isinf(results.reals[i]));
  }
}

/* What a sum of doubles has lost comes back, wherever the frame is cut. */
static void test_sums_keep_what_rounding_loses(void **state) {
  enum { N = 12 };
  static const double terms[4] = {1e16, 1, 1, -1e16};
  tsr_window_frame given[N];
  tsr_frame frames[N];
  double values[N];
  tsr_error error = {0};
  (void)state;
  for (int i = 0; i < N; i++) values[i] = terms[i % 4];
  for (int i = 0; i < N; i++) given[i] = (tsr_window_frame){i > 3 ? i - 3 : 0, i};
  frames_of_lines(given, N, frames);
  tsr_pass pass = {.function = TSR_AGGREGATE_SUM,
                   .type = TSR_VALUE_REAL,
                   .values = values,
                   .first = true,
                   .last = true,
                   .results = &results,
                   .valid = valid};
  const tsr_lines lines = {1, N, 1, 0, N, frames};
  assert_int_equal(tsr__pass_run(&pass, &lines, 1, tsr__memory_process(), &error), TSR_OK);
  for (int i = 3; i < N; i++) assert_true(results.reals[i] == 2);
  const int64_t offsets[] = {-3, -2, -1, 0};
  const uint64_t extent = N, from = 3, to = N;
  const tsr_window_kernel kernel = {4, offsets, TSR_VALUE_NULL, NULL};
  const tsr_offsets around = {1, &extent, &from, &to, &kernel};
  clear_results();
  assert_int_equal(tsr__pass_offsets(&pass, TSR_VALUE_REAL, &around, 1, tsr__memory_process(), &error), TSR_OK);
  for (int i = 3; i < N; i++) assert_true(results.reals[i] == 2);
}

/* ---- Offsets ---- */

typedef struct offsets_case {
  uint64_t extents[3], from[3], to[3];
  int64_t offsets[3 * 90], integers[90];
  double reals[90];
  tsr_window_kernel kernel;
  tsr_offsets given;
} offsets_case;

static void make_offsets(offsets_case *c, uint32_t dimensions, tsr_value_type weight) {
  static const uint64_t shapes[3][3] = {{700}, {9, 270}, {5, 6, 19}};
  c->kernel = (tsr_window_kernel){.count = chance(chance(4) ? 20 : 90), .offsets = c->offsets, .type = weight};
  c->kernel.weights = weight == TSR_VALUE_REAL ? (const void *)c->reals : (const void *)c->integers;
  for (uint32_t d = 0; d < dimensions; d++) {
    c->extents[d] = shapes[dimensions - 1][d];
    c->from[d] = chance(c->extents[d]);
    c->to[d] = c->from[d] + 1 + chance(c->extents[d] - c->from[d]);
  }
  for (uint64_t k = 0; k < c->kernel.count; k++) {
    for (uint32_t d = 0; d < dimensions; d++) c->offsets[k * dimensions + d] = (int64_t)chance(9) - 4;
    if (chance(8) == 0) c->offsets[k * dimensions] = INT64_C(1) << 31;
    c->integers[k] = (int64_t)chance(7) - 3;
    c->reals[k] = (double)c->integers[k] / 4;
  }
  c->given = (tsr_offsets){dimensions, c->extents, c->from, c->to, &c->kernel};
}

static void gather_offsets(const offsets_case *c, const uint64_t *place, gathered *g) {
  g->count = 0;
  for (uint64_t k = 0; k < c->kernel.count; k++) {
    bool within = true;
    uint64_t cell = 0;
    for (uint32_t d = 0; d < c->given.dimensions; d++) {
      const int64_t there = (int64_t)place[d] + c->offsets[k * c->given.dimensions + d];
      within &= there >= 0 && there < (int64_t)c->extents[d];
      cell = cell * c->extents[d] + (uint64_t)there;
    }
    if (!within) continue;
    g->weights[g->count] = c->kernel.type == TSR_VALUE_REAL      ? c->reals[k]
                           : c->kernel.type == TSR_VALUE_INTEGER ? (double)c->integers[k]
                                                                 : 1;
    g->cells[g->count++] = cell;
  }
}

static void check_offsets(const tsr_pass *pass, tsr_value_type argument, const offsets_case *c) {
  static gathered g;
  uint64_t cells = 1;
  for (uint32_t d = 0; d < c->given.dimensions; d++) cells *= c->extents[d];
  for (uint64_t cell = 0; cell < cells; cell++) {
    uint64_t place[3], left = cell;
    bool within = true;
    for (uint32_t d = c->given.dimensions; d-- > 0; left /= c->extents[d]) {
      place[d] = left % c->extents[d];
      within &= place[d] >= c->from[d] && place[d] < c->to[d];
    }
    if (!within) {
      check_untouched(pass, cell);
      continue;
    }
    gather_offsets(c, place, &g);
    const answer expected = by_definition(pass, argument, &g);
    check_result(pass, cell, &expected);
  }
}

static void test_offsets_give_what_their_cells_have(void **state) {
  static const tsr_value_type weights[] = {TSR_VALUE_NULL, TSR_VALUE_INTEGER, TSR_VALUE_REAL};
  offsets_case c;
  tsr_error error = {0};
  (void)state;
  fill_box();
  for (uint32_t dimensions = 1; dimensions <= 3; dimensions++)
    for (size_t w = 0; w < 3; w++)
      for (size_t i = 0; i < 2 * ALL; i++) {
        tsr_pass pass = pass_of(&all[i % ALL]);
        const tsr_value_type argument = i >= ALL && w > 0 ? TSR_VALUE_NULL : pass.type;
        const bool listed = pass.function == TSR_AGGREGATE_MEDIAN || pass.function == TSR_AGGREGATE_PERCENTILE;
        if (tsr__pass_parts(&pass) == 0 && !listed) continue;
        if (tsr__pass_product(argument, weights[w]) == TSR_VALUE_OPAQUE) continue;
        if (argument == TSR_VALUE_NULL) pass.values = NULL;
        make_offsets(&c, dimensions, weights[w]);
        pass.type = tsr__pass_product(argument, weights[w]);
        clear_results();
        assert_int_equal(
            tsr__pass_offsets(&pass, argument, &c.given, 1 + (unsigned)chance(4), tsr__memory_process(), &error),
            TSR_OK);
        check_offsets(&pass, argument, &c);
      }
}

/* A product with the weight 0 counts for an average, unless the cell is null: wherever the null is. */
static void test_averages_leave_out_nulls_of_weight_0(void **state) {
  enum { N = 40 };
  static const int64_t offsets[] = {-1, 0}, weights[] = {0, 1};
  static const uint64_t extent = N, from = 0, to = N;
  const tsr_window_kernel kernel = {2, offsets, TSR_VALUE_INTEGER, weights};
  const tsr_offsets given = {1, &extent, &from, &to, &kernel};
  double values[N];
  tsr_error error = {0};
  (void)state;
  tsr_pass pass = {.function = TSR_AGGREGATE_AVG, .type = TSR_VALUE_REAL, .values = values, .results = &results};
  for (int null = 0; null < N; null++) {
    for (int i = 0; i < N; i++) values[i] = i == null ? (double)NAN : 3;
    clear_results();
    assert_int_equal(tsr__pass_offsets(&pass, TSR_VALUE_REAL, &given, 1, tsr__memory_process(), &error), TSR_OK);
    for (int i = 0; i < N; i++) {
      if (i == null && i == 0) assert_true(isnan(results.reals[i]));
      else assert_true(results.reals[i] == (i == null ? 0 : i == 0 || i == null + 1 ? 3 : 1.5));
    }
  }
}

/* ---- Sums to the bit ---- */

enum { DIGIT_ROWS = 3, DIGIT_CELLS = 45, DIGITS = DIGIT_ROWS * DIGIT_CELLS };

typedef struct digits_case { /* integers of up to so many bits, their doubles, and a kernel of 3 x 3 cells */
  int64_t integers[DIGITS], offsets[18], integer_weights[9];
  double reals[DIGITS], scaled[DIGITS], real_weights[9];
  uint8_t known[DIGITS];
} digits_case;

static int64_t number_of_bits(uint32_t bits) {
  const int64_t magnitude = (int64_t)(((uint64_t)chance(1u << 31) << 32 | chance(1u << 31) << 1 | 1) >> (63 - bits));
  return chance(2) ? magnitude : -magnitude;
}

/* Scaled are the integers times 2^scale. One cell in `nulls` is null, in the first rows. */
static void make_digits(digits_case *c, uint32_t bits, int scale, uint32_t nulls) {
  for (uint32_t i = 0; i < DIGITS; i++) {
    c->integers[i] = number_of_bits(bits);
    c->known[i] = nulls && i < 60 && chance(nulls) == 0 ? TSR_KNOWN_NULL : TSR_KNOWN_VALUE;
    c->reals[i] = c->known[i] == TSR_KNOWN_VALUE ? (double)c->integers[i] : (double)NAN;
    c->scaled[i] = ldexp(c->reals[i], scale);
  }
  for (uint32_t k = 0; k < 9; k++) {
    c->offsets[2 * k] = (int64_t)k / 3 - 1;
    c->offsets[2 * k + 1] = (int64_t)k % 3 - 1;
    c->integer_weights[k] = (int64_t)chance(5) - 2;
    c->real_weights[k] = chance(4) ? ldexp((double)c->integer_weights[k], scale / 3) : 1.0 / 3;
  }
}

/* Returns the cell at offset k of a cell; UINT32_MAX if there is none. */
static uint32_t digit_at(const digits_case *c, uint32_t cell, uint32_t k) {
  const int64_t y = cell / DIGIT_CELLS + c->offsets[2 * k], x = cell % DIGIT_CELLS + c->offsets[2 * k + 1];
  return y < 0 || y >= DIGIT_ROWS || x < 0 || x >= DIGIT_CELLS ? UINT32_MAX : (uint32_t)(y * DIGIT_CELLS + x);
}

static double weight_at(const tsr_window_kernel *kernel, uint32_t k) {
  if (kernel->type == TSR_VALUE_NULL) return 1;
  return kernel->type == TSR_VALUE_REAL ? ((const double *)kernel->weights)[k]
                                        : (double)((const int64_t *)kernel->weights)[k];
}

/* The sum of doubles, in the order of the offsets, with what each addition loses. NaN: of nothing. */
static double sum_of_digits(const digits_case *c, const double *values, const tsr_window_kernel *kernel, uint32_t cell,
                            double *count) {
  volatile double sum = 0, rest = 0, total, back;
  *count = 0;
  for (uint32_t k = 0; k < 9; k++) {
    const uint32_t at = digit_at(c, cell, k);
    const double x = at == UINT32_MAX ? (double)NAN : values[at] * weight_at(kernel, k);
    if (isnan(x)) continue;
    total = sum + x;
    back = total - sum;
    rest += (sum - (total - back)) + (x - back);
    sum = total;
    *count += 1;
  }
  return *count > 0 ? sum + rest + 0.0 : (double)NAN;
}

static void check_digits(const digits_case *c, const tsr_window_kernel *kernel, tsr_value_type argument, bool average) {
  static const uint64_t extents[2] = {DIGIT_ROWS, DIGIT_CELLS}, from[2] = {0, 0}, to[2] = {DIGIT_ROWS, DIGIT_CELLS};
  const tsr_offsets given = {2, extents, from, to, kernel};
  tsr_error error = {0};
  tsr_pass pass = {.function = average ? TSR_AGGREGATE_AVG : TSR_AGGREGATE_SUM,
                   .type = tsr__pass_product(argument, kernel->type),
                   .values = argument == TSR_VALUE_REAL ? (const void *)c->scaled : (const void *)c->integers,
                   .known = c->known,
                   .results = &results,
                   .valid = valid};
  const bool whole = pass.type == TSR_VALUE_INTEGER;
  clear_results();
  assert_int_equal(tsr__pass_offsets(&pass, argument, &given, 1 + (unsigned)chance(3), tsr__memory_process(), &error),
                   TSR_OK);
  for (uint32_t cell = 0; cell < DIGITS; cell++) {
    int64_t exact = 0; /* of at most 60 bits */
    double count, sum = sum_of_digits(c, argument == TSR_VALUE_REAL ? c->scaled : c->reals, kernel, cell, &count);
    for (uint32_t k = 0; k < 9 && whole; k++) {
      const uint32_t at = digit_at(c, cell, k);
      if (at != UINT32_MAX && c->known[at] == TSR_KNOWN_VALUE) exact += c->integers[at] * (int64_t)weight_at(kernel, k);
    }
    if (whole) sum = (double)exact;
    if (whole && !average) {
      assert_int_equal(valid[cell], count > 0);
      assert_true(results.integers[cell] == exact);
      continue;
    }
    const double expected = count > 0 ? (average ? sum / count : sum) : (double)NAN;
    assert_true(results.reals[cell] == expected || (isnan(results.reals[cell]) && isnan(expected)));
  }
}

/* Sums have the same bits whether doubles hold all partial sums or not: integers and multiples of small powers of 2
 * with few digits and many, with nulls in some places. */
static void test_sums_have_the_bits_of_their_definition(void **state) {
  static digits_case c;
  (void)state;
  for (uint32_t round = 0; round < 3; round++)
    for (uint32_t bits = 1; bits <= 55; bits++) {
      make_digits(&c, bits, (int)chance(600) - 300, round ? 4 * round * round * round : 0);
      const tsr_window_kernel kernels[] = {{9, c.offsets, TSR_VALUE_NULL, NULL},
                                           {9, c.offsets, TSR_VALUE_INTEGER, c.integer_weights},
                                           {9, c.offsets, TSR_VALUE_REAL, c.real_weights}};
      for (uint32_t k = 0; k < 3; k++)
        for (int average = 0; average < 2; average++) {
          check_digits(&c, &kernels[k], TSR_VALUE_REAL, average);
          check_digits(&c, &kernels[k], TSR_VALUE_INTEGER, average);
        }
    }
}

/* Extremes of infinities are these, and of nulls alone there is none. */
static void test_extremes_know_infinities_from_nothing(void **state) {
  enum { CELLS = 60 };
  static const double numbers[] = {(double)INFINITY, (double)-INFINITY, (double)NAN, (double)NAN, -0.0, 0.0, 7.5, -7.5};
  static const int64_t offsets[] = {-1, 0, 1};
  const uint64_t extent = CELLS, from = 0, to = CELLS;
  const tsr_window_kernel kernel = {3, offsets, TSR_VALUE_NULL, NULL};
  const tsr_offsets given = {1, &extent, &from, &to, &kernel};
  tsr_error error = {0};
  double values[CELLS], found[CELLS];
  (void)state;
  for (uint32_t round = 0; round < 200; round++) {
    const bool least = round % 2;
    for (uint32_t i = 0; i < CELLS; i++) values[i] = numbers[chance(round % 4 < 2 ? 3 : 8)];
    tsr_pass pass = {.function = least ? TSR_AGGREGATE_MIN : TSR_AGGREGATE_MAX,
                     .type = TSR_VALUE_REAL,
                     .values = values,
                     .results = found};
    assert_int_equal(tsr__pass_offsets(&pass, TSR_VALUE_REAL, &given, 1, tsr__memory_process(), &error), TSR_OK);
    for (uint32_t i = 0; i < CELLS; i++) {
      double best = (double)NAN;
      for (uint32_t k = i ? i - 1 : 0; k <= i + 1 && k < CELLS; k++)
        if (!isnan(values[k]) && !(least ? best <= values[k] : best >= values[k])) best = values[k];
      assert_true(isnan(best) ? isnan(found[i]) : found[i] == best && (best != 0 || !signbit(found[i])));
    }
  }
}

static bool always(void *argument) {
  (void)argument;
  return true;
}

/* The host can interrupt a pass: between lines, and within a long one whose values are kept sorted. */
static void test_passes_end_when_the_host_cancels(void **state) {
  static const case_of kinds[] = {{TSR_AGGREGATE_MEDIAN, TSR_VALUE_INTEGER},
                                  {TSR_AGGREGATE_SUM, TSR_VALUE_INTEGER},
                                  {TSR_AGGREGATE_MIN, TSR_VALUE_TEXT}};
  enum { N = 2000 };
  static tsr_frame frames[N];
  const tsr_lines lines = {1, N, 1, 0, N, frames};
  tsr_memory root;
  (void)state;
  fill_box();
  for (int64_t i = 0; i < N; i++) {
    frames[i] = (tsr_frame){0, i, 1};
    box.integers[i] = -i; /* each moves all others */
    box.known[i] = TSR_KNOWN_VALUE;
  }
  tsr__memory_init_root(&root, NULL, NULL);
  root.cancel.requested = always;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    tsr_pass pass = pass_of(&kinds[k]);
    tsr_error error = {0};
    atomic_store(&root.cancel.decoded, k == 0 ? 0 : UINT64_C(1) << 22); /* a poll is due */
    clear_results();
    assert_int_equal(tsr__pass_run(&pass, &lines, 1, &root, &error), TSR_INTERRUPT);
  }
}

static void test_products_and_sums_that_do_not_fit_are_an_error(void **state) {
  const int64_t values[] = {INT64_MAX, INT64_MAX, 3}, offsets[] = {-1, 0, 1}, weights[] = {1, 1, INT64_MAX / 2};
  const uint8_t known[] = {TSR_KNOWN_VALUE, TSR_KNOWN_VALUE, TSR_KNOWN_VALUE};
  const uint64_t extent = 3, from = 0, to = 3;
  const tsr_window_kernel kernel = {3, offsets, TSR_VALUE_INTEGER, weights};
  const tsr_offsets given = {1, &extent, &from, &to, &kernel};
  tsr_error error = {0};
  (void)state;
  tsr_pass pass = {.function = TSR_AGGREGATE_MAX,
                   .type = TSR_VALUE_INTEGER,
                   .values = values,
                   .known = known,
                   .results = &results,
                   .valid = valid};
  assert_int_equal(tsr__pass_offsets(&pass, TSR_VALUE_INTEGER, &given, 1, tsr__memory_process(), &error), TSR_ERROR);
  assert_string_equal(error.message, TSR_SUM_OVERFLOW);
}

/* ---- Boxes of offsets ---- */

#define BOX_ROWS  5
#define BOX_CELLS 400 /* of a row */

typedef struct box_case {
  int64_t ends[2][2], offsets[2 * 64]; /* ends: the first and the last offset along each dimension */
  double reals[BOX_ROWS * BOX_CELLS];
  int64_t integers[BOX_ROWS * BOX_CELLS];
  uint8_t known[BOX_ROWS * BOX_CELLS];
  uint64_t count;
} box_case;

static void make_box(box_case *c, uint64_t rarity) {
  static const double odd[] = {(double)NAN, (double)NAN, (double)INFINITY, (double)-INFINITY, -0.0, 0.0, 7.5};
  for (int d = 0; d < 2; d++) {
    c->ends[d][0] = (int64_t)chance(7) - 4;
    c->ends[d][1] = c->ends[d][0] + (int64_t)chance(7);
  }
  c->count = 0;
  for (int64_t y = c->ends[0][0]; y <= c->ends[0][1]; y++)
    for (int64_t x = c->ends[1][0]; x <= c->ends[1][1]; x++) {
      c->offsets[2 * c->count] = y;
      c->offsets[2 * c->count++ + 1] = x;
    }
  if (chance(4) == 0) c->offsets[2 * chance(c->count) + 1]++; /* no box */
  for (int i = 0; i < BOX_ROWS * BOX_CELLS; i++) {
    const bool other = chance(rarity) == 0;
    c->integers[i] = (int64_t)chance(2000) - 1000;
    c->known[i] = other && chance(2) ? TSR_KNOWN_NULL : TSR_KNOWN_VALUE;
    c->reals[i] = other ? odd[chance(7)] : (double)c->integers[i] / 8;
  }
}

/* The result at a cell by the definition; sums of these numbers are exact. */
static double box_result(const box_case *c, tsr_aggregate_function function, bool integers, int64_t y, int64_t x) {
  const bool least = function == TSR_AGGREGATE_MIN, greatest = function == TSR_AGGREGATE_MAX;
  double sum = 0, best = (double)NAN, count = 0;
  for (uint64_t k = 0; k < c->count; k++) {
    const int64_t there[2] = {y + c->offsets[2 * k], x + c->offsets[2 * k + 1]}, at = there[0] * BOX_CELLS + there[1];
    if (there[0] < 0 || there[0] >= BOX_ROWS || there[1] < 0 || there[1] >= BOX_CELLS) continue;
    const double value = !integers                         ? c->reals[at]
                         : c->known[at] == TSR_KNOWN_VALUE ? (double)c->integers[at]
                                                           : (double)NAN;
    if (isnan(value)) continue;
    sum += value;
    count++;
    if (isnan(best) || (least ? value < best : value > best)) best = value;
  }
  if (count == 0) return function == TSR_AGGREGATE_TOTAL ? 0 : (double)NAN;
  return (least || greatest ? best : function == TSR_AGGREGATE_AVG ? sum / count : sum) + 0.0;
}

static void test_boxes_of_offsets_have_the_bits_of_their_definition(void **state) {
  static const tsr_aggregate_function functions[] = {TSR_AGGREGATE_SUM, TSR_AGGREGATE_TOTAL, TSR_AGGREGATE_AVG,
                                                     TSR_AGGREGATE_MIN, TSR_AGGREGATE_MAX};
  static const uint64_t extents[] = {BOX_ROWS, BOX_CELLS}, from[] = {0, 0}, rarities[] = {3, 60, 4000};
  static box_case c;
  tsr_error error = {0};
  (void)state;
  for (uint32_t round = 0; round < 300; round++) {
    const tsr_aggregate_function function = functions[round % 5];
    const bool integers = round % 2 && round % 5 < 3, whole = integers && function == TSR_AGGREGATE_SUM;
    make_box(&c, rarities[round / 10 % 3]);
    const tsr_window_kernel kernel = {c.count, c.offsets, TSR_VALUE_NULL, NULL};
    const tsr_offsets given = {2, extents, from, extents, &kernel};
    tsr_pass pass = {.function = function,
                     .type = integers ? TSR_VALUE_INTEGER : TSR_VALUE_REAL,
                     .values = integers ? (const void *)c.integers : (const void *)c.reals,
                     .known = integers ? c.known : NULL,
                     .results = &results,
                     .valid = valid};
    clear_results();
    assert_int_equal(tsr__pass_offsets(&pass, pass.type, &given, 1, tsr__memory_process(), &error), TSR_OK);
    for (int64_t cell = 0; cell < BOX_ROWS * BOX_CELLS; cell++) {
      const double expected = box_result(&c, function, integers, cell / BOX_CELLS, cell % BOX_CELLS);
      const bool null = whole ? !valid[cell] : isnan(results.reals[cell]);
      const double found = whole ? (double)results.integers[cell] : results.reals[cell];
      assert_true(null == isnan(expected));
      assert_true(null || !memcmp(&found, &expected, sizeof found));
    }
  }
}

static void test_what_does_not_combine_takes_no_offsets(void **state) {
  const int64_t offset = 0;
  const uint64_t extent = 3, from = 0, to = 3;
  const tsr_window_kernel kernel = {1, &offset, TSR_VALUE_NULL, NULL};
  const tsr_offsets given = {1, &extent, &from, &to, &kernel};
  tsr_error error = {0};
  (void)state;
  tsr_pass pass = pass_of(&(case_of){TSR_AGGREGATE_FIRST, TSR_VALUE_REAL});
  assert_int_equal(tsr__pass_offsets(&pass, TSR_VALUE_REAL, &given, 1, tsr__memory_process(), &error), TSR_UNSUPPORTED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_frames_of_every_kind_give_what_each_frame_has),
      cmocka_unit_test(test_passes_over_several_axes_give_what_each_box_has),
      cmocka_unit_test(test_nothing_is_subtracted),
      cmocka_unit_test(test_sums_keep_what_rounding_loses),
      cmocka_unit_test(test_extremes_know_infinities_from_nothing),
      cmocka_unit_test(test_offsets_give_what_their_cells_have),
      cmocka_unit_test(test_averages_leave_out_nulls_of_weight_0),
      cmocka_unit_test(test_sums_have_the_bits_of_their_definition),
      cmocka_unit_test(test_boxes_of_offsets_have_the_bits_of_their_definition),
      cmocka_unit_test(test_passes_end_when_the_host_cancels),
      cmocka_unit_test(test_products_and_sums_that_do_not_fit_are_an_error),
      cmocka_unit_test(test_what_does_not_combine_takes_no_offsets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
