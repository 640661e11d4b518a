/* deduplicate.c: finds the rows of an ingest that have the coordinates of an earlier row, and drops them.
 *
 * The coordinates of a row are turned into a key of 16 bytes, which goes into a hash table; a row whose key is in the
 * table already is a duplicate. The key is the coordinates themselves if they fit, otherwise the beginning of their
 * SHA-256. The keys are in the table itself, not in a list with a hash index (hash.h), so that a row costs one access
 * to memory that no cache holds, and not two. If the keys of all rows would take more than a quarter of the budget,
 * they are partitioned by a hash, with one pass over the rows for each partition.
 */
#include <string.h>

#include "base/arithmetic.h"
#include "base/hash.h"
#include "environment/environment.h"
#include "crypto/crypto.h"
#include "model/datatype.h"
#include "ingest/ingest.h"
#include "tessera_host.h"

#define DUPLICATE_PASSES_MAX (UINT64_C(1) << 32)

typedef struct duplicate_key {
  uint64_t words[2];
} duplicate_key;

typedef struct duplicate_search {
  tsr_ingest *ingest;
  uint32_t dimension_count;
  bool fixed; /* the coordinates of all rows have one size, which is at most that of a key */
  tsr_buffer *scratch; /* by dimension */
  tsr_ingest_values *values; /* by dimension: of the part that is loaded */
  tsr_buffer row; /* the coordinates of one row as bytes */
  duplicate_key *table; /* words of 0: empty */
  uint64_t room, used; /* room: number of slots, a power of two */
  bool zero; /* the key of zeros was met */
  uint64_t seed, pass, passes; /* passes: a power of two */
  uint8_t *duplicates;
  uint64_t found;
} duplicate_search;

/* ---- Keys -------------------------------------------------------------------------------------------------------- */

/* Appends the coordinate of a row in one dimension, self-delimiting for strings. */
static int duplicate_append(duplicate_search *s, uint32_t d, uint64_t row, tsr_error *error) {
  const tsr_ingest_values *values = &s->values[d];
  const tsr_ingest_kept *c = &s->ingest->columns[s->ingest->options.dimensions[d]];
  if (values->ends) {
    const uint64_t begin = row ? values->ends[row - 1] : 0, size = values->ends[row] - begin;
    TSR_TRY(tsr__buffer_append_u8(&s->row, (uint8_t)TSR_MIN(size, 255), error));
    if (size >= 255) TSR_TRY(tsr__buffer_append_u64(&s->row, size, error));
    return tsr__buffer_append(&s->row, values->values + begin, size, error);
  }
  uint8_t value[8];
  tsr__ingest_narrow_value(c->datatype, values->class == TSR_INGEST_REALS, tsr__ingest_word(values, row), value);
  const uint64_t key = tsr__key(c->datatype, value); /* -0.0 has that of 0.0 */
  tsr__key_value(c->datatype, key, value);
  return tsr__buffer_append(&s->row, value, tsr_datatype_size(c->datatype), error);
}

static int duplicate_make_key(duplicate_search *s, uint64_t row, duplicate_key *key, tsr_error *error) {
  uint8_t digest[TSR_SHA256_SIZE] = {0};
  s->row.size = 0;
  for (uint32_t d = 0; d < s->dimension_count; d++) TSR_TRY(duplicate_append(s, d, row, error));
  if (s->fixed || s->row.size < sizeof *key) {
    memcpy(digest, s->row.data, s->row.size);
    if (!s->fixed) digest[sizeof *key - 1] = (uint8_t)s->row.size;
  } else {
    TSR_TRY(tsr__sha256(s->row.data, s->row.size, digest, error));
  }
  memcpy(key, digest, sizeof *key);
  return TSR_OK;
}

static uint64_t duplicate_hash(const duplicate_search *s, const duplicate_key *key) {
  return tsr__hash_mix(tsr__hash_mix(tsr__hash_mix(s->seed, key->words[0]), key->words[1]), 0);
}

/* ---- The search -------------------------------------------------------------------------------------------------- */

/* Adds a key of this pass to the table. Returns 1 if it was in it already, 0 if not, or an error. */
static int duplicate_put(duplicate_search *s, const duplicate_key *key, uint64_t hash, tsr_error *error) {
  if (!(key->words[0] | key->words[1])) {
    const bool met = s->zero;
    s->zero = true;
    return met;
  }
  for (uint64_t at = hash / s->passes;; at++) {
    duplicate_key *place = &s->table[at & (s->room - 1)];
    if (place->words[0] == key->words[0] && place->words[1] == key->words[1]) return 1;
    if (place->words[0] | place->words[1]) continue;
    if (++s->used == s->room) return tsr__fail(error, TSR_TOOBIG, "rows with equal coordinates: the table is full");
    *place = *key;
    return 0;
  }
}

static int duplicate_search_part(duplicate_search *s, uint64_t part, uint64_t first, tsr_error *error) {
  tsr_ingest *g = s->ingest;
  const uint64_t rows = tsr__ingest_part_rows(g, part);
  for (uint32_t d = 0; d < s->dimension_count; d++)
    TSR_TRY(tsr__ingest_load(g, g->options.dimensions[d], part, &s->scratch[d], &s->values[d], error));
  for (uint64_t i = 0; i < rows; i++) {
    duplicate_key key;
    TSR_TRY(duplicate_make_key(s, i, &key, error));
    const uint64_t hash = duplicate_hash(s, &key);
    if ((hash & (s->passes - 1)) != s->pass) continue;
    const int met = duplicate_put(s, &key, hash, error);
    if (met < 0) return met;
    if (!met) continue;
    s->duplicates[(first + i) / 8] |= (uint8_t)(1u << (first + i) % 8);
    s->found++;
  }
  return tsr__cancelled(&g->environment->memory, error);
}

/* Chooses the number of passes, so that a table with room for twice the keys of one pass fits. */
static void duplicate_divide(duplicate_search *s) {
  const uint64_t rows = s->ingest->counts.rows,
                 most = TSR_MAX(s->ingest->memory.limit / 4 / sizeof(duplicate_key), 4096);
  s->passes = 1;
  s->room = 1024;
  while (s->room / 2 <= rows && s->room < UINT64_MAX / 4) s->room *= 2;
  for (; s->room > most && s->passes < DUPLICATE_PASSES_MAX; s->room /= 2) s->passes *= 2;
}

static int duplicate_begin(duplicate_search *s, tsr_error *error) {
  tsr_ingest *g = s->ingest;
  uint64_t size = 0;
  s->dimension_count = g->options.dimension_count;
  s->fixed = true;
  s->row.memory = &g->memory;
  TSR_TRY(TSR_ALLOC_ARRAY(&g->memory, s->dimension_count, &s->scratch, error));
  TSR_TRY(TSR_ALLOC_ARRAY(&g->memory, s->dimension_count, &s->values, error));
  for (uint32_t d = 0; d < s->dimension_count; d++) {
    const tsr_ingest_kept *c = &g->columns[g->options.dimensions[d]];
    s->scratch[d].memory = &g->memory;
    s->fixed &= c->class < TSR_INGEST_TEXTS;
    size += tsr_datatype_size(c->datatype);
  }
  s->fixed &= size <= sizeof(duplicate_key);
  duplicate_divide(s);
  TSR_TRY(tsr__buffer_reserve(&s->row, 64, error));
  TSR_TRY(tsr__random(&s->seed, sizeof s->seed, error));
  TSR_TRY(TSR_ALLOC_ARRAY(&g->memory, g->counts.rows / 8 + 1, &s->duplicates, error));
  return TSR_ALLOC_ARRAY(&g->memory, s->room, &s->table, error);
}

static int duplicate_run(duplicate_search *s, tsr_error *error) {
  TSR_TRY(duplicate_begin(s, error));
  for (s->pass = 0; s->pass < s->passes; s->pass++) {
    uint64_t first = 0;
    if (s->pass) memset(s->table, 0, s->room * sizeof *s->table);
    s->zero = false;
    s->used = 0;
    for (uint64_t p = 0; p < s->ingest->counts.parts; first += tsr__ingest_part_rows(s->ingest, p++))
      TSR_TRY(duplicate_search_part(s, p, first, error));
  }
  return TSR_OK;
}

int tsr__ingest_find_duplicates(tsr_ingest *g, uint8_t **duplicates, uint64_t *count, tsr_error *error) {
  duplicate_search s = {.ingest = g};
  const int rc = duplicate_run(&s, error);
  for (uint32_t d = 0; s.scratch && d < s.dimension_count; d++) tsr__buffer_release(&s.scratch[d]);
  tsr__buffer_release(&s.row);
  tsr__free(s.scratch);
  tsr__free(s.values);
  tsr__free(s.table);
  if (rc < 0) {
    tsr__free(s.duplicates);
    return rc;
  }
  *duplicates = s.duplicates;
  *count = s.found;
  return TSR_OK;
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

static int duplicate_print_text(const uint8_t *bytes, uint64_t size, tsr_buffer *out, tsr_error *error) {
  return tsr__buffer_printf(out, error, "'%.*s'", (int)tsr_utf8_cut(bytes, size, 60), (const char *)bytes);
}

static int duplicate_print_value(tsr_datatype datatype, const uint8_t *value, tsr_buffer *out, tsr_error *error) {
  char iso[48];
  double real;
  float narrow;
  memcpy(&real, value, sizeof real);
  memcpy(&narrow, value, sizeof narrow);
  const uint64_t key = tsr__key(datatype, value);
  const int64_t integer = (int64_t)(key ^ UINT64_C(1) << 63);
  if (datatype == TSR_FLOAT64) return tsr__buffer_printf(out, error, "%.15g", real);
  if (datatype == TSR_FLOAT32) return tsr__buffer_printf(out, error, "%.7g", (double)narrow);
  if (tsr_datatype_kind(datatype) == TSR_KIND_UNSIGNED)
    return tsr__buffer_printf(out, error, "%llu", (unsigned long long)key);
  if (tsr_datetime_print(datatype, integer, iso)) return tsr__buffer_printf(out, error, "%s", iso);
  return tsr__buffer_printf(out, error, "%lld", (long long)integer);
}

/* Appends the value of a label at a coordinate. */
static int duplicate_print_label(const tsr_ingest_label *label, uint64_t coordinate, tsr_buffer *out,
                                 tsr_error *error) {
  const uint8_t *values = label->values.data;
  if (!label->offsets.size) {
    uint8_t value[8] = {0};
    const uint64_t size = tsr_datatype_size(label->datatype);
    memcpy(value, values + coordinate * size, size);
    return duplicate_print_value(label->datatype, value, out, error);
  }
  uint64_t ends[2];
  memcpy(ends, label->offsets.data + coordinate * sizeof *ends, sizeof ends);
  return duplicate_print_text(values + ends[0], ends[1] - ends[0], out, error);
}

static int duplicate_print(const tsr_ingest_kept *c, const tsr_ingest_values *values, uint64_t row, tsr_buffer *out,
                           tsr_error *error) {
  if (values->ends) {
    const uint64_t at = row ? values->ends[row - 1] : 0;
    return duplicate_print_text(values->values + at, values->ends[row] - at, out, error);
  }
  uint8_t value[8];
  const uint64_t word = tsr__ingest_word(values, row);
  if (c->label && !c->given->label) return duplicate_print_label(c->label, word, out, error);
  tsr__ingest_narrow_value(c->datatype, values->class == TSR_INGEST_REALS, word, value);
  return duplicate_print_value(c->datatype, value, out, error);
}

int tsr__ingest_print_first(tsr_ingest *g, const uint8_t *duplicates, tsr_buffer *out, tsr_error *error) {
  tsr_buffer scratch = {.memory = &g->memory};
  uint64_t part = 0, row = 0;
  while (!(duplicates[row / 8] >> row % 8 & 1)) row++;
  for (; row >= tsr__ingest_part_rows(g, part); part++) row -= tsr__ingest_part_rows(g, part);
  int rc = tsr__buffer_printf(out, error, "(");
  for (uint32_t d = 0; d < g->options.dimension_count && rc >= 0; d++) {
    tsr_ingest_values values;
    rc = tsr__ingest_load(g, g->options.dimensions[d], part, &scratch, &values, error);
    if (rc >= 0 && d) rc = tsr__buffer_printf(out, error, ", ");
    if (rc >= 0) rc = duplicate_print(&g->columns[g->options.dimensions[d]], &values, row, out, error);
  }
  tsr__buffer_release(&scratch);
  return rc < 0 ? rc : tsr__buffer_printf(out, error, ")");
}

/* ---- Dropping rows ----------------------------------------------------------------------------------------------- */

/* Reports all dropped rows, in order. */
static int duplicate_tell(tsr_ingest *g, const uint8_t *duplicates, tsr_error *error) {
  tsr_buffer where = {.memory = &g->memory};
  const char *text = NULL;
  uint64_t run = 0, number = 0;
  int rc = tsr__ingest_print_first(g, duplicates, &where, error);
  for (uint64_t row = 0; row < g->counts.rows && rc >= 0; row++) {
    const tsr_ingest_numbered *runs = (const tsr_ingest_numbered *)(const void *)g->numbers.runs.data;
    number++;
    if (run < g->numbers.runs.size / sizeof *runs && runs[run].row == row) number = runs[run++].number;
    if (!(duplicates[row / 8] >> row % 8 & 1)) continue;
    g->options.left_out(g->options.left_out_argument, number, text ? NULL : (const char *)where.data);
    text = (const char *)where.data;
  }
  tsr__buffer_release(&where);
  return rc;
}

int tsr__ingest_leave_out_duplicates(tsr_ingest *g, tsr_error *error) {
  uint8_t *duplicates = NULL;
  uint64_t count = 0, first = 0;
  if (!g->options.left_out || g->options.dimension_count == 0 || !g->counts.rows) return TSR_OK;
  TSR_TRY(tsr__ingest_find_duplicates(g, &duplicates, &count, error));
  int rc = count ? duplicate_tell(g, duplicates, error) : TSR_OK;
  for (uint64_t p = 0; p < g->counts.parts && count && rc >= 0; p++) {
    const uint64_t rows = tsr__ingest_part_rows(g, p);
    rc = tsr__ingest_shrink_part(g, p, duplicates, first, error);
    first += rows;
  }
  if (rc >= 0) g->counts.rows -= count;
  g->options.left_out = NULL;
  tsr__free(duplicates);
  return rc;
}
