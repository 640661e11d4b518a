/* passes.c: aggregates over moving frames, along one axis of a box.
 *
 * Aggregates that combine go through the axis with TSR_LANES lines side by side, so that each step is a loop over
 * lanes (pass_kinds.h). While positions advance, the part of the frame before the cut comes from `before`, which has a
 * row for each position from the frame's first to the cut, and the part after it is one row that grows.
 *
 * Medians, texts and functions that pick a cell work on one line at a time.
 *
 * Sections: frames; lanes; lines one by one; running a pass.
 */
#include "query/pass.h"

#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "model/datatype.h"
#include "query/pass_kinds.h"

/* ---- Frames ------------------------------------------------------------------------------------------------------ */

void tsr__frames_cut(const tsr_window_frame *frames, uint64_t count, int64_t *cuts) {
  int64_t cut = INT64_MIN;
  for (uint64_t i = 0; i < count; i++) {
    const tsr_window_frame *frame = &frames[i];
    if (frame->first <= frame->last && frame->first >= cut) cut = frame->last + 1;
    cuts[i] = cut;
  }
}

/* ---- Lanes ------------------------------------------------------------------------------------------------------- */

typedef struct lane_block { /* lines that go side by side */
  tsr_pass *pass;
  const tsr_pass_kind *kind;
  const tsr_lines *lines;
  uint32_t lanes, stride; /* stride: words of a part of `rows`, at least `lanes` */
  uint64_t bases[TSR_LANES]; /* the cell at position 0 of each line */
  bool together; /* the lines are neighbours */
  /* scratch: */
  uint64_t *rows; /* for `before`: [positions][parts][stride] */
  tsr_row after, whole, given;
  uint8_t known[TSR_LANES];
} lane_block;

static tsr_row row_before(const lane_block *b, uint64_t place) {
  tsr_row row;
  for (uint32_t p = 0; p < TSR_PASS_PARTS; p++)
    row.words[p] = b->rows + (place * b->kind->parts + TSR_MIN(p, b->kind->parts - 1)) * b->stride;
  return row;
}

/* Adds the cells at a position to a row. */
static void block_add(lane_block *b, uint64_t position, const tsr_row *row, const tsr_row *out) {
  const tsr_pass *pass = b->pass;
  const uint64_t at = b->bases[0] + position * b->lines->inner, step = position * b->lines->inner;
  if (!pass->first) {
    tsr_row given = b->given;
    for (uint32_t p = 0; p < b->kind->parts; p++) {
      if (b->together) given.words[p] = pass->partial[p] + at;
      else
        for (uint32_t i = 0; i < b->lanes; i++) given.words[p][i] = pass->partial[p][b->bases[i] + step];
    }
    b->kind->merge(row, &given, out, b->lanes);
    return;
  }
  const uint64_t *values = pass->values;
  if (b->together) {
    b->kind->extend(row, values ? values + at : NULL, pass->known ? pass->known + at : NULL, out, b->lanes);
    return;
  }
  for (uint32_t i = 0; i < b->lanes; i++) {
    if (values) b->given.words[0][i] = values[b->bases[i] + step];
    if (pass->known) b->known[i] = pass->known[b->bases[i] + step];
  }
  b->kind->extend(row, b->given.words[0], b->known, out, b->lanes);
}

/* Stores the aggregate of the frame at a position. */
static void block_store(lane_block *b, uint64_t position, const tsr_row *row) {
  tsr_pass *pass = b->pass;
  const uint64_t step = position * b->lines->inner, at = b->bases[0] + step;
  if (!pass->last) {
    for (uint32_t p = 0; p < b->kind->parts; p++)
      for (uint32_t i = 0; i < b->lanes; i++) pass->made[p][b->bases[i] + step] = row->words[p][i];
    return;
  }
  uint64_t *results = pass->results;
  if (b->together) {
    tsr__pass_results(pass, row, b->lanes, results + at, pass->valid ? pass->valid + at : NULL);
    return;
  }
  tsr__pass_results(pass, row, b->lanes, b->given.words[0], b->known);
  for (uint32_t i = 0; i < b->lanes; i++) {
    results[b->bases[i] + step] = b->given.words[0][i];
    if (pass->valid) pass->valid[b->bases[i] + step] = b->known[i];
  }
}

static void block_run(lane_block *b) {
  const tsr_lines *lines = b->lines;
  int64_t cut = INT64_MIN, next = 0, low = 0; /* next: the first position that `after` lacks; low: row 0 of `before` */
  bool started = false;
  for (uint64_t i = lines->from; i < lines->to; i++) {
    const tsr_frame *frame = &lines->frames[i];
    if (frame->first > frame->last) {
      b->kind->clear(&b->whole, b->lanes);
      block_store(b, i, &b->whole);
      continue;
    }
    if (!started || frame->cut != cut) {
      started = true;
      cut = next = frame->cut;
      low = frame->first;
      b->kind->clear(&b->whole, b->lanes);
      tsr_row before = b->whole;
      for (int64_t k = cut - 1; k >= low; k--) {
        const tsr_row row = row_before(b, (uint64_t)(k - low));
        block_add(b, (uint64_t)k, &before, &row);
        before = row;
      }
      b->kind->clear(&b->after, b->lanes);
    }
    for (; next <= frame->last; next++) block_add(b, (uint64_t)next, &b->after, &b->after);
    const tsr_row before = row_before(b, (uint64_t)(frame->first - low));
    if (frame->last < cut) {
      block_store(b, i, &before);
      continue;
    }
    b->kind->merge(&before, &b->after, &b->whole, b->lanes);
    block_store(b, i, &b->whole);
  }
}

/* ---- Lines one by one -------------------------------------------------------------------------------------------- */

typedef struct one_line {
  tsr_pass *pass;
  const tsr_lines *lines;
  tsr_memory *memory;
  uint64_t base;
  double *sorted; /* [count]: the values of the frame */
  uint64_t *cells; /* [count + 1]: how many cells there are before a position; then positions of cells */
  uint64_t *best; /* [count]: positions of extremes */
} one_line;

static uint64_t line_cell(const one_line *l, uint64_t position) { return l->base + position * l->lines->inner; }

/* Returns the number at a position, NaN if it has none. */
static double line_number(const one_line *l, uint64_t position) {
  const tsr_pass *pass = l->pass;
  const uint64_t cell = line_cell(l, position);
  if (pass->known[cell] != TSR_KNOWN_VALUE) return NAN;
  return (pass->type == TSR_VALUE_REAL ? ((const double *)pass->values)[cell]
                                       : (double)((const int64_t *)pass->values)[cell]) +
         0.0;
}

static uint64_t sorted_place(const double *sorted, uint64_t count, double value) {
  uint64_t low = 0;
  while (low < count) {
    const uint64_t middle = low + (count - low) / 2;
    if (sorted[middle] < value) low = middle + 1;
    else count = middle;
  }
  return low;
}

double tsr__percentile(const double *sorted, uint64_t step, uint64_t count, double percent) {
  if (count == 0) return NAN;
  const double place = percent * (double)(count - 1) / 100;
  const uint64_t below = TSR_MIN((uint64_t)place, count - 1), above = TSR_MIN(below + 1, count - 1);
  const double low = sorted[below * step], high = sorted[above * step], part = place - (double)below;
  if (low == high || part <= 0) return low;
  const double reach = high - low; /* may overflow a double */
  return isfinite(reach) ? low + reach * part : low * (1 - part) + high * part;
}

#define MOVED_BYTES (UINT64_C(1) << 16) /* after which a line may poll for cancellation */

/* Medians and percentiles: the values of the frame are kept sorted. Each one that enters or leaves moves half of the
 * others, on average, so a long frame takes time. */
static int line_percentiles(const one_line *l, tsr_error *error) {
  const tsr_lines *lines = l->lines;
  const double percent = l->pass->function == TSR_AGGREGATE_MEDIAN ? 50 : l->pass->percent;
  uint64_t count = 0, moved = 0;
  int64_t first = 0, next = 0; /* the sorted values are those of first..next-1 */
  bool started = false;
  for (uint64_t i = lines->from; i < lines->to; i++) {
    const tsr_frame *frame = &lines->frames[i];
    double *result = (double *)l->pass->results + line_cell(l, i);
    *result = NAN;
    if (frame->first > frame->last) continue;
    if (!started) first = next = frame->first;
    started = true;
    for (; first < frame->first && first < next; first++) {
      const double value = line_number(l, (uint64_t)first);
      if (isnan(value)) continue;
      const uint64_t place = sorted_place(l->sorted, count, value);
      memmove(l->sorted + place, l->sorted + place + 1, (--count - place) * sizeof *l->sorted);
      moved += (count - place) * sizeof *l->sorted;
    }
    if (first < frame->first) first = next = frame->first;
    for (; next <= frame->last; next++) {
      const double value = line_number(l, (uint64_t)next);
      if (isnan(value)) continue;
      const uint64_t place = sorted_place(l->sorted, count, value);
      memmove(l->sorted + place + 1, l->sorted + place, (count++ - place) * sizeof *l->sorted);
      moved += (count - place) * sizeof *l->sorted;
      l->sorted[place] = value;
      if (moved < MOVED_BYTES) continue;
      TSR_TRY(tsr__cancelled_after(l->memory, moved, 0, error));
      moved = 0;
    }
    *result = tsr__percentile(l->sorted, 1, count, percent);
  }
  return TSR_OK;
}

static void line_copy(const one_line *l, uint64_t to, uint64_t from) {
  tsr_pass *pass = l->pass;
  const bool there = pass->known[from] == TSR_KNOWN_VALUE;
  if (pass->type == TSR_VALUE_TEXT) {
    if (there) ((tsr_text_value *)pass->results)[to] = ((const tsr_text_value *)pass->values)[from];
  } else {
    ((uint64_t *)pass->results)[to] = ((const uint64_t *)pass->values)[from];
  }
  if (pass->valid) pass->valid[to] = there;
}

static void line_none(const one_line *l, uint64_t to) {
  if (l->pass->valid) l->pass->valid[to] = 0;
  if (l->pass->type == TSR_VALUE_REAL) ((double *)l->pass->results)[to] = NAN;
}

/* first_value, last_value and nth_value: the cell of the frame with this number, null or not. */
static void line_picks(const one_line *l) {
  const tsr_lines *lines = l->lines;
  const tsr_pass *pass = l->pass;
  uint64_t *before = l->cells, *places = l->cells + lines->count + 1, cells = 0;
  for (uint64_t i = 0; i < lines->count; i++) {
    before[i] = cells;
    if (pass->known[line_cell(l, i)] != TSR_KNOWN_MISSING) places[cells++] = i;
  }
  before[lines->count] = cells;
  for (uint64_t i = lines->from; i < lines->to; i++) {
    const tsr_frame *frame = &lines->frames[i];
    const bool any = frame->first <= frame->last;
    const uint64_t from = any ? before[frame->first] : 0, end = any ? before[frame->last + 1] : 0;
    uint64_t number = pass->function == TSR_AGGREGATE_LAST ? end - from : 1;
    if (pass->function == TSR_AGGREGATE_NTH)
      number = !pass->from_end ? pass->nth : pass->nth <= end - from ? end - from + 1 - pass->nth : 0;
    if (number == 0 || number > end - from) line_none(l, line_cell(l, i));
    else line_copy(l, line_cell(l, i), line_cell(l, places[from + number - 1]));
  }
}

/* Returns the position of the lesser text (or greater); UINT64_MAX: none. */
static uint64_t better_text(const one_line *l, uint64_t a, uint64_t b) {
  if (a == UINT64_MAX) return b;
  if (b == UINT64_MAX) return a;
  const tsr_text_value *texts = l->pass->values;
  const tsr_text_value *x = &texts[line_cell(l, a)], *y = &texts[line_cell(l, b)];
  const int order = tsr__bytes_compare(x->bytes, x->size, y->bytes, y->size);
  return (l->pass->function == TSR_AGGREGATE_MIN ? order <= 0 : order >= 0) ? a : b;
}

/* The position itself if it has a text. */
static uint64_t line_text(const one_line *l, int64_t position) {
  return l->pass->known[line_cell(l, (uint64_t)position)] == TSR_KNOWN_VALUE ? (uint64_t)position : UINT64_MAX;
}

/* Extremes of texts: as block_run, with positions in place of partial aggregates. */
static void line_texts(const one_line *l) {
  const tsr_lines *lines = l->lines;
  int64_t cut = INT64_MIN, next = 0;
  uint64_t after = UINT64_MAX;
  bool started = false;
  for (uint64_t i = lines->from; i < lines->to; i++) {
    const tsr_frame *frame = &lines->frames[i];
    uint64_t best = UINT64_MAX;
    if (frame->first <= frame->last) {
      if (!started || frame->cut != cut) {
        started = true;
        cut = next = frame->cut;
        after = UINT64_MAX;
        for (int64_t k = cut - 1; k >= frame->first; k--) best = l->best[k] = better_text(l, best, line_text(l, k));
      }
      for (; next <= frame->last; next++) after = better_text(l, after, line_text(l, next));
      best = better_text(l, l->best[frame->first], frame->last < cut ? UINT64_MAX : after);
    }
    if (best == UINT64_MAX) line_none(l, line_cell(l, i));
    else line_copy(l, line_cell(l, i), line_cell(l, best));
  }
}

/* ---- Running a pass ---------------------------------------------------------------------------------------------- */

#define PASS_SCRATCH   (UINT64_C(1) << 18) /* bytes of a task, if its frames fit */
#define LANES_TOGETHER 8u /* so many neighbours are read in place; fewer lines are gathered from further away */

typedef struct pass_task {
  tsr_pass *pass;
  const tsr_lines *lines;
  uint64_t from, to; /* lines */
  uint32_t lanes; /* that go side by side, at most */
  uint64_t *scratch;
  uint64_t before_words;
  tsr_memory *memory;
} pass_task;

static uint64_t base_of(const tsr_lines *lines, uint64_t line) {
  return line / lines->inner * lines->count * lines->inner + line % lines->inner;
}

static int task_lanes(const pass_task *task, const tsr_pass_kind *kind, tsr_error *error) {
  lane_block block = {
      .pass = task->pass, .kind = kind, .lines = task->lines, .rows = task->scratch, .stride = task->lanes};
  uint64_t *more = task->scratch + task->before_words;
  for (uint32_t p = 0; p < TSR_PASS_PARTS; p++) {
    block.after.words[p] = more + p * TSR_LANES;
    block.whole.words[p] = more + (TSR_PASS_PARTS + p) * TSR_LANES;
    block.given.words[p] = more + (2 * TSR_PASS_PARTS + p) * TSR_LANES;
  }
  for (uint64_t line = task->from; line < task->to; line += block.lanes) {
    uint64_t lanes = TSR_MIN(task->to - line, task->lanes);
    const uint64_t left = task->lines->inner - line % task->lines->inner; /* neighbours */
    block.together = task->lines->inner >= LANES_TOGETHER;
    if (block.together) lanes = TSR_MIN(lanes, left);
    block.lanes = (uint32_t)lanes;
    for (uint32_t i = 0; i < block.lanes; i++) block.bases[i] = base_of(task->lines, line + i);
    TSR_TRY(tsr__cancelled_after(task->memory, 0, lanes * task->lines->count, error));
    block_run(&block);
  }
  return TSR_OK;
}

static int task_lines(const pass_task *task, tsr_error *error) {
  const uint64_t count = task->lines->count;
  one_line line = {.pass = task->pass, .lines = task->lines, .memory = task->memory};
  line.cells = line.best = task->scratch;
  line.sorted = (double *)(void *)(task->scratch + 2 * count + 1);
  for (uint64_t l = task->from; l < task->to; l++) {
    TSR_TRY(tsr__cancelled_after(task->memory, 0, count, error));
    line.base = base_of(task->lines, l);
    switch (task->pass->function) {
    case TSR_AGGREGATE_MEDIAN:
    case TSR_AGGREGATE_PERCENTILE: TSR_TRY(line_percentiles(&line, error)); break;
    case TSR_AGGREGATE_MIN:
    case TSR_AGGREGATE_MAX: line_texts(&line); break;
    default: line_picks(&line);
    }
  }
  return TSR_OK;
}

static int task_run(void *argument, uint64_t index, tsr_error *error) {
  const pass_task *task = (const pass_task *)argument + index;
  const tsr_pass_kind *kind = tsr__pass_kind_of(task->pass);
  return kind ? task_lanes(task, kind, error) : task_lines(task, error);
}

/* Returns the most positions that lie before a cut in one frame. */
static uint64_t longest_before(const tsr_lines *lines) {
  int64_t most = 1;
  for (uint64_t i = lines->from; i < lines->to; i++)
    if (lines->frames[i].first <= lines->frames[i].last)
      most = TSR_MAX(most, lines->frames[i].cut - lines->frames[i].first);
  return (uint64_t)most;
}

int tsr__pass_run(tsr_pass *pass, const tsr_lines *lines, unsigned threads, tsr_memory *memory, tsr_error *error) {
  const tsr_pass_kind *kind = tsr__pass_kind_of(pass);
  const uint64_t all = lines->outer * lines->inner;
  pass_task tasks[TSR_PASS_TASKS] = {{0}};
  uint64_t words = tsr__add_sat(tsr__mul_sat(lines->count, 3), 1), before = 0, lanes = TSR_LANES, *scratch;
  if (all == 0 || lines->from >= lines->to) return TSR_OK;
  if (kind) {
    const uint64_t row = tsr__mul_sat(longest_before(lines), kind->parts);
    lanes = TSR_MAX(TSR_MIN(PASS_SCRATCH / sizeof(uint64_t) / row, TSR_LANES), 1);
    before = tsr__mul_sat(row, lanes);
    words = tsr__add_sat(before, 3 * TSR_PASS_PARTS * TSR_LANES);
  }
  uint64_t count = TSR_MIN(TSR_MIN(TSR_MAX(threads, 1u), TSR_PASS_TASKS), (all + 63) / 64);
  TSR_TRY(TSR_ALLOC_RAW(memory, tsr__mul_sat(count, words), &scratch, error));
  const uint64_t share = (all + count - 1) / count;
  for (uint64_t t = 0; t < count; t++)
    tasks[t] = (pass_task){.pass = pass,
                           .lines = lines,
                           .from = TSR_MIN(t * share, all),
                           .to = TSR_MIN((t + 1) * share, all),
                           .lanes = (uint32_t)lanes,
                           .scratch = scratch + t * words,
                           .before_words = before,
                           .memory = memory};
  const int rc = tsr__parallel_for(threads, count, task_run, tasks, error);
  tsr__free(scratch);
  if (rc < 0) return rc;
  return atomic_load(&pass->overflow) ? tsr__fail(error, TSR_ERROR, TSR_SUM_OVERFLOW) : TSR_OK;
}
