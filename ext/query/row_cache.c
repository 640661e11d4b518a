/* row_cache.c: all rows of a query in memory, for a cursor that SQLite restarts for each row of an outer loop.
 *
 * A hash table finds the rows by the items that SQLite compares. Numbers are hashed as doubles, so that 1 and 1.0
 * collide. Depending on affinities, SQLite may compare a number and a text as numbers or as texts; so if the types of
 * a sought value and of the rows differ, the walk is over all rows, and SQLite tests them. */
#include "query/query_internal.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"

#define NO_ROW UINT32_MAX

struct tsx_row_cache {
  tsx_arena arena; /* of texts */
  uint32_t item_count, indexed_count;
  uint32_t *indexed; /* items */
  bool *texts, *numbers; /* [indexed_count]: some row has a text, a number, in that item */
  tsr_value *values; /* [row][item] */
  int64_t *rowids; /* [row] */
  uint64_t count, room, bytes;
  uint32_t *next, *heads; /* [row]: the next row in the same bucket; [hash & mask]: the first row of a bucket */
  uint64_t mask;
  uint32_t at; /* the current row of the walk, or NO_ROW */
  bool started, all;
};

static uint64_t hash_value(uint64_t hash, const tsr_value *value) {
  double number;
  switch (value->type) {
  case TSR_VALUE_TEXT: return tsr_hash(hash, value->as.text.bytes, value->as.text.size);
  case TSR_VALUE_INTEGER:
  case TSR_VALUE_REAL:
    number = (value->type == TSR_VALUE_INTEGER ? (double)value->as.integer : value->as.real) + 0.0; /* -0.0 is 0.0 */
    return tsr_hash(hash, &number, sizeof number);
  default: return tsr_hash(hash, "", 1);
  }
}

static uint64_t hash_row(const tsx_row_cache *rows, const tsr_value *row) {
  uint64_t hash = (uintptr_t)rows; /* a seed that nobody can foresee */
  for (uint32_t i = 0; i < rows->indexed_count; i++) hash = hash_value(hash, &row[rows->indexed[i]]);
  return hash;
}

/* Adds the current row of the run. Returns 1; 0 if it cannot be kept. */
static int add_row(tsx_row_cache *rows, tsx_run *run, uint64_t limit, tsr_error *error) {
  const uint64_t width = rows->item_count * sizeof(tsr_value);
  rows->bytes += width + sizeof(int64_t) + 3 * sizeof(uint32_t);
  if (rows->bytes > limit || rows->count == NO_ROW) return 0;
  if (rows->count == rows->room) {
    const uint64_t room = rows->room ? 2 * rows->room : 64;
    tsr_value *more = sqlite3_realloc64(rows->values, room * width);
    if (!more) return tsx_out_of_memory(error);
    rows->values = more;
    int64_t *rowids = sqlite3_realloc64(rows->rowids, room * sizeof *rowids);
    if (!rowids) return tsx_out_of_memory(error);
    rows->rowids = rowids;
    rows->room = room;
  }
  tsr_value *row = rows->values + rows->count * rows->item_count;
  for (uint32_t i = 0; i < rows->item_count; i++) {
    TSX_TRY(tsx_run_value(run, i, &row[i], error));
    if (row[i].type == TSR_VALUE_TEXT) {
      rows->bytes += row[i].as.text.size + 1;
      row[i].as.text.bytes = tsx_arena_copy(&rows->arena, row[i].as.text.bytes, row[i].as.text.size);
      if (!row[i].as.text.bytes) return tsx_out_of_memory(error);
    } else if (row[i].type != TSR_VALUE_NULL && row[i].type != TSR_VALUE_INTEGER && row[i].type != TSR_VALUE_REAL) {
      return 0;
    }
  }
  TSX_TRY(tsx_run_rowid(run, &rows->rowids[rows->count++], error));
  return 1;
}

static int index_rows(tsx_row_cache *rows, tsr_error *error) {
  uint64_t size = 16;
  while (size < 2 * rows->count) size *= 2;
  rows->mask = size - 1;
  rows->heads = sqlite3_malloc64(size * sizeof *rows->heads);
  rows->next = sqlite3_malloc64((rows->count + 1) * sizeof *rows->next);
  if (!rows->heads || !rows->next) return tsx_out_of_memory(error);
  memset(rows->heads, 0xFF, size * sizeof *rows->heads);
  for (uint64_t r = rows->count; r-- > 0;) { /* backwards, so that buckets list their rows in order */
    const tsr_value *row = rows->values + r * rows->item_count;
    uint32_t *head = &rows->heads[hash_row(rows, row) & rows->mask];
    rows->next[r] = *head;
    *head = (uint32_t)r;
    for (uint32_t i = 0; i < rows->indexed_count; i++) {
      const tsr_value_type type = row[rows->indexed[i]].type;
      rows->texts[i] |= type == TSR_VALUE_TEXT;
      rows->numbers[i] |= type == TSR_VALUE_INTEGER || type == TSR_VALUE_REAL;
    }
  }
  return 1;
}

int tsx_row_cache_make(tsx_run *run, uint32_t item_count, const uint32_t *indexed, uint32_t indexed_count,
                       uint64_t limit, tsx_row_cache **out, tsr_error *error) {
  tsx_row_cache *rows = sqlite3_malloc64(sizeof *rows);
  *out = rows;
  if (!rows) return tsx_out_of_memory(error);
  *rows = (tsx_row_cache){.item_count = item_count, .indexed_count = indexed_count};
  rows->indexed = tsx_arena_take(&rows->arena, (indexed_count + 1) * sizeof *rows->indexed);
  rows->texts = tsx_arena_take(&rows->arena, 2 * ((uint64_t)indexed_count + 1) * sizeof *rows->texts);
  if (!rows->indexed || !rows->texts) return tsx_out_of_memory(error);
  rows->numbers = rows->texts + indexed_count + 1;
  if (indexed_count) memcpy(rows->indexed, indexed, indexed_count * sizeof *indexed);
  memset(rows->texts, 0, 2 * ((uint64_t)indexed_count + 1) * sizeof *rows->texts);
  int code;
  while ((code = tsx_run_next(run, error)) > 0)
    if ((code = add_row(rows, run, limit, error)) <= 0) return code;
  return code < 0 ? code : index_rows(rows, error);
}

void tsx_row_cache_free(tsx_row_cache *rows) {
  if (!rows) return;
  tsx_arena_free(&rows->arena);
  sqlite3_free(rows->values);
  sqlite3_free(rows->rowids);
  sqlite3_free(rows->heads);
  sqlite3_free(rows->next);
  sqlite3_free(rows);
}

void tsx_row_cache_find(tsx_row_cache *rows, sqlite3_value *const *values) {
  uint64_t hash = (uintptr_t)rows;
  rows->all = !values || !rows->indexed_count;
  for (uint32_t i = 0; i < rows->indexed_count && !rows->all; i++) {
    tsr_value value;
    const int code = tsx_query_value(values[i], &value, NULL); /* without memory the walk is over all rows, too */
    const bool mixed = value.type == TSR_VALUE_TEXT ? rows->numbers[i] : value.type != TSR_VALUE_NULL && rows->texts[i];
    rows->all = code < 0 || mixed || value.type == TSR_VALUE_OPAQUE;
    if (!rows->all) hash = hash_value(hash, &value);
  }
  rows->started = false;
  rows->at = rows->all ? (rows->count ? 0 : NO_ROW) : rows->heads[hash & rows->mask];
}

bool tsx_row_cache_next(tsx_row_cache *rows) {
  if (rows->started && rows->at != NO_ROW)
    rows->at = !rows->all ? rows->next[rows->at] : rows->at + 1 < rows->count ? rows->at + 1 : NO_ROW;
  rows->started = true;
  return rows->at != NO_ROW;
}

int64_t tsx_row_cache_rowid(const tsx_row_cache *rows) { return rows->rowids[rows->at]; }

void tsx_row_cache_column(const tsx_row_cache *rows, sqlite3_context *context, uint32_t item) {
  const tsr_value *value = &rows->values[(uint64_t)rows->at * rows->item_count + item];
  switch (value->type) {
  case TSR_VALUE_INTEGER: sqlite3_result_int64(context, value->as.integer); break;
  case TSR_VALUE_REAL: sqlite3_result_double(context, value->as.real); break;
  case TSR_VALUE_TEXT:
    sqlite3_result_text64(context, value->as.text.bytes, value->as.text.size, SQLITE_TRANSIENT, SQLITE_UTF8);
    break;
  default: sqlite3_result_null(context);
  }
}
