/* kept_rows.c: all rows of a query in memory, with a hash table of the items that SQLite compares.
 *
 * Numbers are hashed as doubles, so that 1 and 1.0 meet. SQLite may compare a number with a text as numbers or as texts,
 * depending on the columns; so where the types of a sought value and of the rows differ, all rows are given, and SQLite
 * tests them.
 */
#include "query/kept_rows.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"

#define NO_ROW UINT32_MAX

struct tsx_kept_rows {
  tsx_arena arena; /* of texts */
  uint32_t item_count, indexed_count;
  uint32_t *indexed; /* items */
  bool *texts, *numbers; /* [indexed]: some row has a text, a number */
  tsr_value *values; /* [row][item] */
  int64_t *rowids; /* [row] */
  uint64_t count, room, bytes;
  uint32_t *next, *heads; /* [row]: the next row of the same hash; [hash & mask]: the first row */
  uint64_t mask;
  uint32_t at; /* the row of the walk */
  bool started, all;
};

static uint64_t kept_mix(uint64_t hash, const void *bytes, uint64_t size) {
  const uint8_t *from = bytes;
  for (uint64_t i = 0; i < size; i++) hash = (hash ^ from[i]) * UINT64_C(0x100000001b3);
  return hash ^ hash >> 29;
}

static uint64_t kept_hash(uint64_t hash, const tsr_value *value) {
  double number;
  switch (value->type) {
  case TSR_VALUE_TEXT: return kept_mix(hash, value->as.text.bytes, value->as.text.size);
  case TSR_VALUE_INTEGER:
  case TSR_VALUE_REAL:
    number = (value->type == TSR_VALUE_INTEGER ? (double)value->as.integer : value->as.real) + 0.0; /* -0.0 is 0.0 */
    return kept_mix(hash, &number, sizeof number);
  default: return kept_mix(hash, "", 1);
  }
}

static uint64_t kept_hash_row(const tsx_kept_rows *rows, const tsr_value *row) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (uint32_t i = 0; i < rows->indexed_count; i++) hash = kept_hash(hash, &row[rows->indexed[i]]);
  return hash;
}

/* Adds the row of the run. Returns 0 if it cannot be kept. */
static int kept_add(tsx_kept_rows *rows, tsx_run *run, uint64_t limit, tsr_error *error) {
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
    const int code = tsx_run_value(run, i, &row[i], error);
    if (code < 0) return code;
    if (row[i].type == TSR_VALUE_TEXT) {
      rows->bytes += row[i].as.text.size + 1;
      row[i].as.text.bytes = tsx_arena_copy(&rows->arena, row[i].as.text.bytes, row[i].as.text.size);
      if (!row[i].as.text.bytes) return tsx_out_of_memory(error);
    } else if (row[i].type != TSR_VALUE_NULL && row[i].type != TSR_VALUE_INTEGER && row[i].type != TSR_VALUE_REAL) {
      return 0;
    }
  }
  const int code = tsx_run_rowid(run, &rows->rowids[rows->count++], error);
  return code < 0 ? code : 1;
}

static int kept_index(tsx_kept_rows *rows, tsr_error *error) {
  uint64_t size = 16;
  while (size < 2 * rows->count) size *= 2;
  rows->mask = size - 1;
  rows->heads = sqlite3_malloc64(size * sizeof *rows->heads);
  rows->next = sqlite3_malloc64((rows->count + 1) * sizeof *rows->next);
  if (!rows->heads || !rows->next) return tsx_out_of_memory(error);
  memset(rows->heads, 0xFF, size * sizeof *rows->heads);
  for (uint64_t r = rows->count; r-- > 0;) { /* from the last row on, so that rows keep their order */
    const tsr_value *row = rows->values + r * rows->item_count;
    uint32_t *head = &rows->heads[kept_hash_row(rows, row) & rows->mask];
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

int tsx_kept_rows_make(tsx_run *run, uint32_t item_count, const uint32_t *indexed, uint32_t indexed_count,
                       uint64_t limit, tsx_kept_rows **out, tsr_error *error) {
  tsx_kept_rows *rows = sqlite3_malloc64(sizeof *rows);
  *out = rows;
  if (!rows) return tsx_out_of_memory(error);
  *rows = (tsx_kept_rows){.item_count = item_count, .indexed_count = indexed_count};
  rows->indexed = tsx_arena_take(&rows->arena, (indexed_count + 1) * sizeof *rows->indexed);
  rows->texts = tsx_arena_take(&rows->arena, 2 * ((uint64_t)indexed_count + 1) * sizeof *rows->texts);
  if (!rows->indexed || !rows->texts) return tsx_out_of_memory(error);
  rows->numbers = rows->texts + indexed_count + 1;
  if (indexed_count) memcpy(rows->indexed, indexed, indexed_count * sizeof *indexed);
  memset(rows->texts, 0, 2 * ((uint64_t)indexed_count + 1) * sizeof *rows->texts);
  int code;
  while ((code = tsx_run_next(run, error)) > 0)
    if ((code = kept_add(rows, run, limit, error)) <= 0) return code;
  return code < 0 ? code : kept_index(rows, error);
}

void tsx_kept_rows_free(tsx_kept_rows *rows) {
  if (!rows) return;
  tsx_arena_free(&rows->arena);
  sqlite3_free(rows->values);
  sqlite3_free(rows->rowids);
  sqlite3_free(rows->heads);
  sqlite3_free(rows->next);
  sqlite3_free(rows);
}

void tsx_kept_rows_find(tsx_kept_rows *rows, sqlite3_value *const *values) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  rows->all = !values || !rows->indexed_count;
  for (uint32_t i = 0; i < rows->indexed_count && !rows->all; i++) {
    tsr_value value = {.type = TSR_VALUE_NULL};
    switch (sqlite3_value_type(values[i])) {
    case SQLITE_INTEGER:
      value = (tsr_value){.type = TSR_VALUE_INTEGER, .as.integer = sqlite3_value_int64(values[i])};
      rows->all |= rows->texts[i];
      break;
    case SQLITE_FLOAT:
      value = (tsr_value){.type = TSR_VALUE_REAL, .as.real = sqlite3_value_double(values[i])};
      rows->all |= rows->texts[i];
      break;
    case SQLITE_TEXT:
      value.type = TSR_VALUE_TEXT;
      value.as.text.bytes = (const char *)sqlite3_value_text(values[i]);
      value.as.text.size = (uint64_t)sqlite3_value_bytes(values[i]);
      rows->all |= rows->numbers[i] || !value.as.text.bytes;
      break;
    case SQLITE_BLOB: rows->all = true; break;
    default: break;
    }
    if (!rows->all) hash = kept_hash(hash, &value);
  }
  rows->started = false;
  rows->at = rows->all ? (rows->count ? 0 : NO_ROW) : rows->heads[hash & rows->mask];
}

bool tsx_kept_rows_next(tsx_kept_rows *rows) {
  if (rows->started && rows->at != NO_ROW)
    rows->at = !rows->all ? rows->next[rows->at] : rows->at + 1 < rows->count ? rows->at + 1 : NO_ROW;
  rows->started = true;
  return rows->at != NO_ROW;
}

int64_t tsx_kept_rows_rowid(const tsx_kept_rows *rows) { return rows->rowids[rows->at]; }

void tsx_kept_rows_column(const tsx_kept_rows *rows, sqlite3_context *context, uint32_t item) {
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
