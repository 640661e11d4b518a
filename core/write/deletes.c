/* deletes.c: turns the coordinates of removed cells into delete conditions that delete just these cells.
 *
 * A condition states which cells are kept. To remove one cell at (a, b): x <> a OR y <> b. To remove several cells: an
 * AND of such terms. Every reader evaluates every node on every cell, so the number of nodes is the cost to minimize.
 *
 * Coordinates that differ in only one dimension become one term with a set in that dimension. Terms that then differ in
 * only one other dimension, sets included, are joined again, and so on. So products of sets cover the removed cells.
 * The code tries several dimensions as the first one and takes the cheapest result.
 *
 * "Not in the set" is written as inequalities (x <> 1 AND x <> 5), as ranges if values are consecutive (x < 1 OR x > 9)
 * or, from format version 20 on, as NOT IN if there are many values: TileDB looks them up by hash, which costs about as
 * much as thirty comparisons of numbers.
 *
 * The values of each dimension are numbered in ascending order; these numbers are its symbols. Sets have symbols, too,
 * numbered after the values. Equal sets usually share one symbol. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "model/datatype.h"
#include "format/condition.h"
#include "format/generic_tile.h"
#include "array/array.h"
#include "read/reader.h"
#include "write/writer.h"

#define SETS_FROM     20 /* format version from which NOT IN can be used */
#define SET_COST      32 /* cost of a NOT IN, in comparisons of numbers */
#define TEXT_SET_COST 4 /* in comparisons of strings */
#define LONG_RUN      4096 /* this many consecutive values always become a range */
#define SET_MAX       (1u << 20) /* values of a NOT IN */
#define CONTENT_MAX   (UINT64_C(32) << 20) /* bytes of a condition; a term is never split */
#define FIRST_MAX     8 /* number of dimensions to try as the first one */
#define RANGES_MAX    2000 /* ranges of a dimension in which to look for cells */

typedef struct set {
  uint64_t first, count; /* places in `members` */
} set;

typedef struct side { /* a dimension */
  const tsr_field *field;
  bool neighbours; /* values can be consecutive: not strings and floats */
  uint64_t count; /* different values */
  uint64_t *keys; /* [symbol], fixed size: order keys */
  uint32_t *cells; /* [symbol], strings: a cell that has the value */
  tsr_buffer sets, members; /* sets; the u32 symbols of their values, ascending */
} side;

typedef struct terms { /* symbols[d * capacity + t] */
  uint64_t count, capacity;
  uint32_t *symbols;
} terms;

typedef struct maker {
  const tsr_schema *schema;
  const tsr_column *columns;
  uint32_t dimensions;
  uint32_t version;
  tsr_memory *memory;
  tsr_arena arena;
  side *sides;
  tsr_pair *pairs, *spare;
  terms all, now; /* the coordinates; the terms made of them */
  tsr_error *error;
} maker;

/* ---- Symbols -------------------------------------------------------------------------------- */

static bool is_text(const side *s) { return !s->field->cell_size; }

static const uint8_t *text_of(const maker *m, uint32_t d, uint64_t symbol, uint64_t *size) {
  const tsr_column *column = &m->columns[d];
  uint64_t cell = column->constant ? 0 : m->sides[d].cells[symbol];
  *size = column->offsets[cell + 1] - column->offsets[cell];
  return (const uint8_t *)column->values + column->offsets[cell];
}

/* The pairs are the cells, sorted by key. Sets numbers[cell] to the symbol of the cell's value. */
static int number_values(maker *m, uint32_t d, uint64_t count, uint32_t *numbers) {
  side *s = &m->sides[d];
  s->count = 1;
  for (uint64_t i = 1; i < count; i++) s->count += m->pairs[i].key != m->pairs[i - 1].key;
  if (is_text(s)) TSR_TRY(TSR_ARENA_ARRAY(&m->arena, s->count, &s->cells, m->error));
  else TSR_TRY(TSR_ARENA_ARRAY(&m->arena, s->count, &s->keys, m->error));
  uint64_t symbol = 0;
  for (uint64_t i = 0; i < count; i++) {
    symbol += i && m->pairs[i].key != m->pairs[i - 1].key;
    if (is_text(s)) s->cells[symbol] = m->pairs[i].cell;
    else s->keys[symbol] = m->pairs[i].key;
    numbers[m->pairs[i].cell] = (uint32_t)symbol;
  }
  return TSR_OK;
}

static int number_dimension(maker *m, uint32_t d, const uint32_t *selection, uint64_t count, uint32_t *numbers) {
  side *s = &m->sides[d];
  const tsr_column *column = &m->columns[d];
  tsr_kind kind = tsr_datatype_kind(m->schema->fields[d].datatype);
  s->field = &m->schema->fields[d];
  s->neighbours = !is_text(s) && kind != TSR_KIND_FLOAT;
  s->sets.memory = s->members.memory = m->memory;
  for (uint64_t i = 0; i < count; i++) {
    uint32_t cell = selection ? selection[i] : (uint32_t)i;
    m->pairs[i].cell = cell;
    if (!is_text(s))
      m->pairs[i].key = tsr__key(s->field->datatype,
                                 (const uint8_t *)column->values + (column->constant ? 0 : cell) * s->field->cell_size);
  }
  if (is_text(s)) TSR_TRY(tsr__pairs_rank(column, m->pairs, m->spare, count, m->memory, m->error));
  else tsr__pairs_sort(m->pairs, m->spare, count);
  TSR_TRY(number_values(m, d, count, numbers));
  uint32_t *symbols = m->all.symbols + d * m->all.capacity;
  for (uint64_t i = 0; i < count; i++) symbols[i] = numbers[selection ? selection[i] : i];
  return TSR_OK;
}

static int number_all(maker *m, const uint32_t *selection, uint64_t count) {
  uint64_t cells = count;
  uint32_t *numbers = NULL;
  for (uint64_t i = 0; i < count && selection; i++) cells = TSR_MAX(cells, (uint64_t)selection[i] + 1);
  TSR_TRY(TSR_ALLOC_RAW(m->memory, cells, &numbers, m->error));
  int rc = TSR_OK;
  for (uint32_t d = 0; d < m->dimensions && rc >= 0; d++) rc = number_dimension(m, d, selection, count, numbers);
  tsr__free(numbers);
  m->all.count = count;
  return rc;
}

static int allocate_terms(maker *m, terms *t, uint64_t capacity) {
  uint32_t *room;
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, tsr__mul_sat(capacity, m->dimensions), &room, m->error));
  *t = (terms){0, capacity, room};
  return TSR_OK;
}

static int open_maker(maker *m, const tsr_schema *schema, const tsr_column *columns, const uint32_t *selection,
                      uint64_t count, tsr_memory *memory, tsr_error *error) {
  *m = (maker){.schema = schema, .columns = columns, .dimensions = schema->dimension_count, .memory = memory};
  m->error = error;
  tsr__arena_init(&m->arena, memory);
  if (count > UINT32_MAX / 2) /* symbols of sets follow those of values */
    return tsr__fail(error, TSR_TOOBIG, "%" PRIu64 " cells are removed at once: %u at most", count, UINT32_MAX / 2);
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, m->dimensions, &m->sides, error));
  TSR_TRY(TSR_ARENA_RAW(&m->arena, count, &m->pairs, error));
  TSR_TRY(TSR_ARENA_RAW(&m->arena, count, &m->spare, error));
  TSR_TRY(allocate_terms(m, &m->all, count));
  TSR_TRY(allocate_terms(m, &m->now, count));
  return number_all(m, selection, count);
}

static void close_maker(maker *m) {
  for (uint32_t d = 0; d < m->dimensions && m->sides; d++) {
    tsr__buffer_release(&m->sides[d].sets);
    tsr__buffer_release(&m->sides[d].members);
  }
  tsr__arena_release(&m->arena);
}

/* ---- Terms ---------------------------------------------------------------------------------- */

/* Sorts the pairs, whose cells are terms, by all dimensions, with dimension `last` as the least significant. */
static void sort_terms(maker *m, const terms *t, uint32_t last) {
  const uint32_t n = m->dimensions;
  for (uint64_t i = 0; i < t->count; i++) m->pairs[i].cell = (uint32_t)i;
  for (uint32_t i = 0; i < n; i += 2) { /* two dimensions in a key */
    const uint32_t *low = t->symbols + (last + n - i) % n * t->capacity;
    const uint32_t *high = i + 1 < n ? t->symbols + (last + n - i - 1) % n * t->capacity : NULL;
    for (uint64_t p = 0; p < t->count; p++) {
      uint32_t term = m->pairs[p].cell;
      m->pairs[p].key = (high ? (uint64_t)high[term] << 32 : 0) | low[term];
    }
    tsr__pairs_sort(m->pairs, m->spare, t->count);
  }
}

static bool agree(const maker *m, const terms *t, uint32_t a, uint32_t b, uint32_t but) {
  for (uint32_t d = 0; d < m->dimensions; d++)
    if (d != but && t->symbols[d * t->capacity + a] != t->symbols[d * t->capacity + b]) return false;
  return true;
}

static set *sets_of(const side *s) { return (set *)(void *)s->sets.data; }
static const uint32_t *members_of(const side *s, const set *one) {
  return (const uint32_t *)(const void *)s->members.data + one->first;
}

/* Merges equal sets: renamed[set] is the new number of a set, that of the first set equal to it. */
static int unite_sets(maker *m, side *s, uint32_t *renamed) {
  uint64_t count = s->sets.size / sizeof(set);
  for (uint64_t i = 0; i < count; i++) {
    const uint32_t *members = members_of(s, sets_of(s) + i);
    m->pairs[i] = (tsr_pair){tsr__hash_bytes(0, members, sets_of(s)[i].count * sizeof *members), (uint32_t)i};
  }
  tsr__pairs_sort(m->pairs, m->spare, count);
  for (uint64_t i = 0, first = 0; i < count; i++) {
    if (m->pairs[i].key != m->pairs[first].key) first = i;
    const set *a = sets_of(s) + m->pairs[first].cell, *b = sets_of(s) + m->pairs[i].cell;
    bool equal = a->count == b->count && !memcmp(members_of(s, a), members_of(s, b), a->count * sizeof(uint32_t));
    renamed[m->pairs[i].cell] = m->pairs[equal ? first : i].cell;
  }
  return TSR_OK;
}

/* Joins pairs[begin..end), which differ only in dimension d, into one term. */
static int join_run(maker *m, uint32_t d, uint64_t begin, uint64_t end, terms *out) {
  side *s = &m->sides[d];
  const uint32_t *symbols = m->now.symbols + d * m->now.capacity;
  set one = {s->members.size / sizeof(uint32_t), 0};
  uint32_t only = symbols[m->pairs[begin].cell];
  for (uint64_t i = begin + 1; i < end; i++) {
    uint32_t symbol = symbols[m->pairs[i].cell], before = symbols[m->pairs[i - 1].cell];
    if (symbol == before) continue;
    if (!one.count++) TSR_TRY(tsr__buffer_append_u32(&s->members, only, m->error));
    TSR_TRY(tsr__buffer_append_u32(&s->members, symbol, m->error));
  }
  for (uint32_t e = 0; e < m->dimensions; e++)
    out->symbols[e * out->capacity + out->count] = m->now.symbols[e * m->now.capacity + m->pairs[begin].cell];
  if (one.count++) {
    out->symbols[d * out->capacity + out->count] = (uint32_t)(s->count + s->sets.size / sizeof(set));
    TSR_TRY(tsr__buffer_append(&s->sets, &one, sizeof one, m->error));
  }
  out->count++;
  return TSR_OK;
}

/* Joins terms that differ only in dimension d. */
static int join(maker *m, uint32_t d, terms *scratch, uint32_t *renamed) {
  side *s = &m->sides[d];
  s->sets.size = s->members.size = scratch->count = 0;
  sort_terms(m, &m->now, d);
  for (uint64_t begin = 0; begin < m->now.count;) {
    uint64_t end = begin + 1;
    while (end < m->now.count && agree(m, &m->now, m->pairs[begin].cell, m->pairs[end].cell, d)) end++;
    TSR_TRY(join_run(m, d, begin, end, scratch));
    begin = end;
  }
  TSR_TRY(unite_sets(m, s, renamed));
  uint32_t *symbols = scratch->symbols + d * scratch->capacity;
  for (uint64_t t = 0; t < scratch->count; t++)
    if (symbols[t] >= s->count) symbols[t] = (uint32_t)s->count + renamed[symbols[t] - s->count];
  terms swap = m->now;
  m->now = *scratch;
  *scratch = swap;
  return TSR_OK;
}

static int join_all(maker *m, uint32_t first, terms *scratch, uint32_t *renamed) {
  for (uint32_t d = 0; d < m->dimensions; d++)
    memcpy(m->now.symbols + d * m->now.capacity, m->all.symbols + d * m->all.capacity, m->all.count * sizeof(uint32_t));
  m->now.count = m->all.count;
  for (uint32_t i = 0; i < m->dimensions; i++) TSR_TRY(join(m, (first + i) % m->dimensions, scratch, renamed));
  return TSR_OK;
}

/* ---- Sets as nodes -------------------------------------------------------------------------- */

typedef struct members { /* values of a symbol */
  const uint32_t *symbols;
  uint64_t count;
} members;

static members members_at(const side *s, const uint32_t *symbol) {
  if (*symbol < s->count) return (members){symbol, 1};
  const set *one = sets_of(s) + (*symbol - s->count);
  return (members){members_of(s, one), one->count};
}

/* Returns the number of consecutive values from `at` on. */
static uint64_t run_at(const side *s, members all, uint64_t at) {
  uint64_t end = at + 1;
  while (s->neighbours && end < all.count && s->keys[all.symbols[end]] - s->keys[all.symbols[end - 1]] == 1) end++;
  return end - at;
}

typedef struct shape { /* how a set is written: as an AND of pieces */
  bool set; /* write values outside of long runs as NOT IN */
  uint64_t pieces; /* single values, ranges, sets */
  uint64_t cost;
  bool range; /* the only piece is a range */
} shape;

static shape shape_of(const maker *m, const side *s, members all) {
  shape some = {0}, sets = {.set = true};
  uint64_t rest = 0;
  for (uint64_t at = 0, run; at < all.count; at += run) {
    run = run_at(s, all, at);
    uint64_t pieces = run == 2 ? 2 : 1;
    some.pieces += pieces;
    some.cost += run > 2 ? 2 : pieces;
    some.range = run > 2;
    sets.pieces += run >= LONG_RUN;
    sets.cost += run >= LONG_RUN ? 2 : 0;
    rest += run >= LONG_RUN ? 0 : run;
  }
  if (all.count == 2 && some.pieces == 2 && run_at(s, all, 0) == 2)
    some = (shape){.pieces = 1, .cost = 2, .range = true};
  some.range = some.range && some.pieces == 1;
  sets.pieces += (rest + SET_MAX - 1) / SET_MAX;
  sets.cost += (is_text(s) ? TEXT_SET_COST : SET_COST) * ((rest + SET_MAX - 1) / SET_MAX);
  return m->version >= SETS_FROM && sets.cost < some.cost ? sets : some;
}

static uint64_t cost_of(const maker *m) {
  uint64_t cost = 0;
  for (uint32_t d = 0; d < m->dimensions; d++)
    for (uint64_t t = 0; t < m->now.count; t++)
      cost += shape_of(m, &m->sides[d], members_at(&m->sides[d], &m->now.symbols[d * m->now.capacity + t])).cost;
  return cost;
}

static int put_value(const maker *m, uint32_t d, tsr_condition_op op, uint64_t symbol, tsr_buffer *out) {
  const side *s = &m->sides[d];
  uint8_t fixed[8];
  const uint8_t *value = fixed;
  uint64_t size = s->field->cell_size;
  if (is_text(s)) value = text_of(m, d, symbol, &size);
  else tsr__key_value(s->field->datatype, s->keys[symbol], fixed);
  return tsr__condition_put_comparison(op, s->field->name, value, size, out, m->error);
}

/* Appends two nodes joined by OR. */
static int put_range(const maker *m, uint32_t d, uint32_t low, uint32_t high, tsr_buffer *out) {
  TSR_TRY(put_value(m, d, TSR_LT, low, out));
  return put_value(m, d, TSR_GT, high, out);
}

typedef struct gathered_cells { /* values of a NOT IN */
  tsr_buffer values, offsets;
} gathered_cells;

static int gather(const maker *m, uint32_t d, uint64_t symbol, gathered_cells *g) {
  const side *s = &m->sides[d];
  uint8_t fixed[8];
  uint64_t size = s->field->cell_size;
  const uint8_t *value = fixed;
  if (is_text(s)) value = text_of(m, d, symbol, &size);
  else tsr__key_value(s->field->datatype, s->keys[symbol], fixed);
  TSR_TRY(tsr__buffer_append_u64(&g->offsets, g->values.size, m->error));
  TSR_TRY(tsr__buffer_append(&g->values, value, size, m->error));
  if (tsr_datatype_kind(s->field->datatype) != TSR_KIND_FLOAT ||
      s->keys[symbol] != tsr__key(s->field->datatype, (const double[1]){0}))
    return TSR_OK;
  memset(fixed, 0, sizeof fixed); /* NOT IN compares bits, so the set needs both zeros */
  fixed[size - 1] = g->values.data[g->values.size - 1] ^ 0x80;
  TSR_TRY(tsr__buffer_append_u64(&g->offsets, g->values.size, m->error));
  return tsr__buffer_append(&g->values, fixed, size, m->error);
}

static int put_gathered(const maker *m, uint32_t d, gathered_cells *g, tsr_buffer *out) {
  int rc = tsr__condition_put_set(TSR_NOT_IN, m->sides[d].field->name, g->values.data, g->values.size,
                                  (const uint64_t *)(const void *)g->offsets.data, g->offsets.size / 8, out, m->error);
  g->values.size = g->offsets.size = 0;
  return rc;
}

/* Receives pieces: parts in succession, or each completed by a separate call. */
typedef struct node_sink {
  tsr_buffer *out;
  int (*ended)(struct node_sink *to, tsr_error *error); /* NULL is allowed */
} node_sink;
static int end_piece(const maker *m, node_sink *to) { return to->ended ? to->ended(to, m->error) : TSR_OK; }

static int put_run(const maker *m, uint32_t d, members all, uint64_t at, uint64_t run, bool range, node_sink *to) {
  if (!range && run <= 2) {
    for (uint64_t i = at; i < at + run; i++) {
      TSR_TRY(put_value(m, d, TSR_NE, all.symbols[i], to->out));
      TSR_TRY(end_piece(m, to));
    }
    return TSR_OK;
  }
  TSR_TRY(tsr__condition_put_expression(TSR_JOIN_OR, 2, to->out, m->error));
  TSR_TRY(put_range(m, d, all.symbols[at], all.symbols[at + run - 1], to->out));
  return end_piece(m, to);
}

static int put_set(const maker *m, uint32_t d, members all, node_sink *to, gathered_cells *g) {
  const side *s = &m->sides[d];
  uint64_t in_set = 0;
  for (uint64_t at = 0, run; at < all.count; at += run) {
    run = run_at(s, all, at);
    if (run >= LONG_RUN) {
      TSR_TRY(put_run(m, d, all, at, run, true, to));
      continue;
    }
    for (uint64_t i = at; i < at + run; i++) {
      TSR_TRY(gather(m, d, all.symbols[i], g));
      if (++in_set % SET_MAX) continue;
      TSR_TRY(put_gathered(m, d, g, to->out));
      TSR_TRY(end_piece(m, to));
    }
  }
  if (!g->offsets.size) return TSR_OK;
  TSR_TRY(put_gathered(m, d, g, to->out));
  return end_piece(m, to);
}

/* Appends the pieces of a set, whose AND means "not in the set". */
static int put_pieces(const maker *m, uint32_t d, members all, shape how, node_sink *to) {
  if (how.set) {
    gathered_cells g = {{.memory = m->memory}, {.memory = m->memory}};
    int rc = put_set(m, d, all, to, &g);
    tsr__buffer_release(&g.values);
    tsr__buffer_release(&g.offsets);
    return rc;
  }
  for (uint64_t at = 0, run; at < all.count; at += run) {
    run = run_at(&m->sides[d], all, at);
    TSR_TRY(put_run(m, d, all, at, run, how.range, to));
  }
  return TSR_OK;
}

/* Appends a term: x is not in its set OR y is not in its own ... */
static int put_term(const maker *m, uint64_t term, tsr_buffer *out) {
  node_sink to = {out, NULL};
  uint64_t count = 0;
  for (uint32_t pass = 0; pass < 2; pass++) {
    if (pass) TSR_TRY(tsr__condition_put_expression(TSR_JOIN_OR, count, out, m->error));
    for (uint32_t d = 0; d < m->dimensions; d++) {
      members all = members_at(&m->sides[d], &m->now.symbols[d * m->now.capacity + term]);
      shape how = shape_of(m, &m->sides[d], all);
      if (!pass) count += how.range ? 2 : 1;
      else if (how.range) TSR_TRY(put_range(m, d, all.symbols[0], all.symbols[all.count - 1], out));
      else {
        if (how.pieces > 1) TSR_TRY(tsr__condition_put_expression(TSR_JOIN_AND, how.pieces, out, m->error));
        TSR_TRY(put_pieces(m, d, all, how, &to));
      }
    }
  }
  return TSR_OK;
}

/* ---- Conditions ----------------------------------------------------------------------------- */

typedef struct condition_writer { /* joins nodes by AND until the condition is large enough */
  node_sink sink; /* nodes of the current condition */
  const maker *maker;
  const uint8_t *key;
  tsr_buffer nodes;
  uint64_t count;
  tsr_deletes *deletes;
} condition_writer;

static int end_condition(condition_writer *w, tsr_error *error) {
  tsr_buffer content = {.memory = w->nodes.memory};
  int rc = TSR_OK;
  if (w->count > 1) rc = tsr__condition_put_expression(TSR_JOIN_AND, w->count, &content, error);
  if (rc >= 0) rc = tsr__buffer_append(&content, w->nodes.data, w->nodes.size, error);
  if (rc >= 0)
    rc = tsr__generic_tile_encode(content.data, content.size, w->maker->version, w->key, &w->deletes->bytes, error);
  tsr__buffer_release(&content);
  if (rc >= 0) rc = tsr__buffer_append_u64(&w->deletes->ends, w->deletes->bytes.size, error);
  w->deletes->count += rc >= 0;
  w->nodes.size = w->count = 0;
  return rc;
}

static int end_node(node_sink *to, tsr_error *error) {
  condition_writer *w = (condition_writer *)to;
  w->count++;
  return w->nodes.size < CONTENT_MAX ? TSR_OK : end_condition(w, error);
}

static int write_terms(condition_writer *w) {
  const maker *m = w->maker;
  for (uint64_t t = 0; t < m->now.count; t++) {
    if (m->dimensions == 1) {
      members all = members_at(&m->sides[0], &m->now.symbols[t]);
      TSR_TRY(put_pieces(m, 0, all, shape_of(m, &m->sides[0], all), &w->sink));
      continue;
    }
    TSR_TRY(put_term(m, t, &w->nodes));
    TSR_TRY(end_node(&w->sink, m->error));
  }
  return w->count ? end_condition(w, m->error) : TSR_OK;
}

/* Tries dimensions as the first one and keeps the terms with the fewest nodes. */
static int choose_terms(maker *m) {
  uint64_t best = UINT64_MAX;
  uint32_t best_first = 0, tried = TSR_MIN(m->dimensions, FIRST_MAX);
  terms scratch;
  uint32_t *renamed;
  TSR_TRY(allocate_terms(m, &scratch, m->all.count));
  TSR_TRY(TSR_ARENA_RAW(&m->arena, m->all.count, &renamed, m->error));
  for (uint32_t first = 0; first < tried; first++) {
    TSR_TRY(join_all(m, first, &scratch, renamed));
    uint64_t cost = cost_of(m);
    if (cost < best) best_first = first;
    best = TSR_MIN(best, cost);
  }
  return best_first + 1 == tried ? TSR_OK : join_all(m, best_first, &scratch, renamed);
}

void tsr__deletes_release(tsr_deletes *deletes) {
  tsr__buffer_release(&deletes->bytes);
  tsr__buffer_release(&deletes->ends);
  *deletes = (tsr_deletes){0};
}

int tsr__deletes_make(const tsr_schema *schema, uint32_t version, const uint8_t *key, const tsr_column *columns,
                      const uint32_t *selection, uint64_t count, tsr_memory *memory, tsr_deletes *deletes,
                      tsr_error *error) {
  tsr_deletes made = {.bytes.memory = memory, .ends.memory = memory};
  if (!count) {
    *deletes = made;
    return TSR_OK;
  }
  maker m;
  int rc = open_maker(&m, schema, columns, selection, count, memory, error);
  m.version = version;
  if (rc >= 0) rc = choose_terms(&m);
  if (rc >= 0) {
    condition_writer w = {.sink = {.ended = end_node}, .maker = &m, .key = key, .deletes = &made};
    w.nodes.memory = memory;
    w.sink.out = &w.nodes;
    rc = write_terms(&w);
    tsr__buffer_release(&w.nodes);
  }
  close_maker(&m);
  if (rc >= 0) *deletes = made;
  else {
    tsr__deletes_release(&made);
    tsr__wrap(error, "delete conditions");
  }
  return rc;
}

/* ---- Duplicates ----------------------------------------------------------------------------- */

typedef struct check {
  maker *maker;
  tsr_reader *reader;
  const tsr_batch *batch;
  int64_t *rows; /* removed rowids, sorted */
  uint64_t count;
  uint64_t chosen; /* when the rows were chosen, or 0 */
  uint32_t *met; /* [first of equal terms]: cells found at these coordinates */
  const tsr_column *columns[TSR_MAX_DIMENSIONS];
} check;

static int compare_rows(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* Makes ranges that contain all values of a dimension. If there are many values, the ranges also contain others. */
static int make_ranges(maker *m, uint32_t d, tsr_ranges *ranges) {
  const side *s = &m->sides[d];
  uint64_t step = (s->count + RANGES_MAX - 1) / RANGES_MAX;
  const uint64_t range_count = (s->count + step - 1) / step;
  tsr_range *all;
  uint8_t *value; /* both ends of each range, 8 bytes each */
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, range_count, &all, m->error));
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, 16 * range_count, &value, m->error));
  *ranges = (tsr_ranges){.ranges = all};
  for (uint64_t at = 0; at < s->count; at += step, value += 16) {
    tsr_range *one = &all[ranges->count++];
    uint64_t last = TSR_MIN(at + step, s->count) - 1;
    if (is_text(s)) {
      one->low = text_of(m, d, at, &one->low_size);
      one->high = text_of(m, d, last, &one->high_size);
      continue;
    }
    tsr__key_value(s->field->datatype, s->keys[at], value);
    tsr__key_value(s->field->datatype, s->keys[last], value + 8);
    one->low = value;
    one->high = value + 8;
  }
  return TSR_OK;
}

static int compare_symbol(const maker *m, uint32_t d, const tsr_column *column, uint64_t cell, uint64_t symbol) {
  const side *s = &m->sides[d];
  if (column->constant) cell = 0;
  if (is_text(s)) {
    uint64_t size;
    const uint8_t *text = text_of(m, d, symbol, &size);
    return tsr__bytes_compare((const uint8_t *)column->values + column->offsets[cell],
                              column->offsets[cell + 1] - column->offsets[cell], text, size);
  }
  uint64_t key = tsr__key(s->field->datatype, (const uint8_t *)column->values + cell * s->field->cell_size);
  return key < s->keys[symbol] ? -1 : key > s->keys[symbol];
}

/* Finds the terms with a cell's coordinates: first..last - 1 of the pairs, which are the terms in sorted order. Returns
 * false if there are none. */
static bool find_terms(const check *c, uint64_t cell, uint64_t *found, uint64_t *behind) {
  const maker *m = c->maker;
  uint64_t begin = 0, end = m->all.count;
  for (uint32_t d = 0; d < m->dimensions && begin < end; d++) {
    uint64_t low = 0, high = m->sides[d].count;
    int order = 1;
    while (low < high && order) {
      uint64_t middle = low + (high - low) / 2;
      order = compare_symbol(m, d, c->columns[d], cell, middle);
      if (order <= 0) high = middle;
      else low = middle + 1;
    }
    if (order) return false;
    const uint32_t *symbols = m->all.symbols + d * m->all.capacity;
    uint64_t first = begin, last = end; /* from `first` on no symbol is below it; from `last` on all are above it */
    while (first < last) {
      uint64_t middle = first + (last - first) / 2;
      if (symbols[m->pairs[middle].cell] < high) first = middle + 1;
      else last = middle;
    }
    begin = first;
    for (last = end; first < last;) {
      uint64_t middle = first + (last - first) / 2;
      if (symbols[m->pairs[middle].cell] <= high) first = middle + 1;
      else last = middle;
    }
    end = first;
  }
  *found = begin;
  *behind = end;
  return begin < end;
}

/* Returns true if a cell is one of the removed rows, or may be a copy of one that a merge has made since: with another
 * rowid, but the same coordinates and time. */
static bool may_be_removed(const check *c, uint64_t cell) {
  const tsr_batch *batch = c->batch;
  const int64_t row = tsr_batch_rowid(batch, cell);
  if (bsearch(&row, c->rows, c->count, sizeof row, compare_rows)) return true;
  return (batch->times ? batch->times[cell] : batch->time) <= c->chosen;
}

/* Fails if a cell of the batch has the coordinates of a removed row but is not one. A merge keeps the number of cells
 * at each coordinate, so if there are more of them than were removed, some belong to others. */
static int check_batch(check *c) {
  maker *m = c->maker;
  for (uint32_t d = 0; d < m->dimensions; d++) TSR_TRY(tsr_reader_column(c->reader, d, &c->columns[d], m->error));
  for (uint64_t r = 0; r < c->batch->count; r++) {
    const uint64_t cell = tsr_batch_index(c->batch, r);
    uint64_t first, last;
    if (!find_terms(c, cell, &first, &last)) continue;
    if (!may_be_removed(c, cell) || ++c->met[first] > last - first)
      return tsr__fail(
          m->error, TSR_CONSTRAINT,
          "cells are deleted by their coordinates: another cell has the same coordinates and would be deleted, too");
  }
  return TSR_OK;
}

static int check_cells(check *c, tsr_snapshot *snapshot, unsigned threads) {
  maker *m = c->maker;
  tsr_ranges *ranges;
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, m->dimensions, &ranges, m->error));
  bool *fields;
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, m->dimensions + m->schema->attribute_count, &fields, m->error));
  for (uint32_t d = 0; d < m->dimensions; d++) {
    TSR_TRY(make_ranges(m, d, &ranges[d]));
    fields[d] = true;
  }
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, m->all.count, &c->met, m->error));
  sort_terms(m, &m->all, m->dimensions - 1);
  TSR_TRY(tsr_reader_open(snapshot, &c->reader, m->error));
  const tsr_request request = {.dimensions = ranges, .fields = fields, .times = true, .threads = threads};
  TSR_TRY(tsr_reader_start(c->reader, &request, m->error));
  for (;;) {
    int rc = tsr_reader_next(c->reader, &c->batch, m->error);
    if (rc <= 0) return rc;
    TSR_TRY(check_batch(c));
  }
}

int tsr__deletes_check(tsr_snapshot *snapshot, const tsr_column *columns, const int64_t *rows,
                       const uint32_t *selection, uint64_t count, uint64_t chosen, tsr_memory *memory, unsigned threads,
                       tsr_error *error) {
  maker m;
  int64_t *sorted = NULL;
  if (!count) return TSR_OK;
  int rc = open_maker(&m, snapshot->schema, columns, selection, count, memory, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(memory, count, &sorted, error);
  if (rc >= 0) {
    check c = {.maker = &m, .rows = sorted, .count = count, .chosen = chosen};
    for (uint64_t i = 0; i < count; i++) c.rows[i] = rows[selection ? selection[i] : i];
    qsort(c.rows, count, sizeof *c.rows, compare_rows);
    rc = check_cells(&c, snapshot, threads);
    tsr_reader_close(c.reader);
  }
  tsr__free(sorted);
  close_maker(&m);
  return rc;
}
