/* ingest_instants.c: columns of text that were declared as dates or datetimes: they become so if each value is one. The
 * parts keep their text; it is read again when a part is loaded. */
#include <string.h>

#include "base/arithmetic.h"
#include "array/environment.h"
#include "ingest/ingest.h"

#define INSTANT_LENGTH 10 /* of a whole date: a year or a month alone is no instant here */

/* Reads one text. A column of instants has days alone if no text has a time of day, even midnight. */
static bool ingest_instant_at(const tsr_ingest_kept *c, const tsr_ingest_values *texts, uint64_t row,
                              tsr_datatype datatype, int64_t *instant) {
  tsr_error ignored = {0};
  const uint64_t at = row ? texts->ends[row - 1] : 0, size = texts->ends[row] - at;
  if (c->given->declared == TSR_INGEST_INSTANTS && datatype == TSR_DATETIME_DAY && size > INSTANT_LENGTH) return false;
  return size >= INSTANT_LENGTH &&
         tsr_datetime_parse(datatype, (const char *)texts->values + at, size, instant, &ignored) == TSR_OK;
}

/* Finds the coarsest of the datatypes that has all values of a part, from datatypes[*choice] on. */
static bool ingest_instants_fit(const tsr_ingest_kept *c, const tsr_ingest_values *texts, const tsr_datatype *datatypes,
                                size_t count, size_t *choice) {
  int64_t instant;
  for (uint64_t row = 0; row < texts->rows; row++) {
    if (texts->validity && !texts->validity[row]) continue;
    while (!ingest_instant_at(c, texts, row, datatypes[*choice], &instant))
      if (++*choice == count) return false;
  }
  return true;
}

/* Sets the least and the greatest value of a part. */
static int ingest_bound_instants(tsr_ingest *g, uint32_t column, uint64_t number, tsr_buffer *scratch,
                                 tsr_error *error) {
  tsr_ingest_part *part = tsr__ingest_part(&g->columns[column], number);
  tsr_ingest_values values;
  int64_t low = INT64_MAX, high = INT64_MIN;
  TSR_TRY(tsr__ingest_load(g, column, number, scratch, &values, error));
  for (uint64_t row = 0; row < values.rows && part->class != TSR_INGEST_NONE; row++) {
    const int64_t value = (int64_t)tsr__ingest_word(&values, row);
    if (values.validity && !values.validity[row]) continue;
    low = TSR_MIN(low, value);
    high = TSR_MAX(high, value);
    part->bounded = true;
  }
  memcpy(part->low, &low, sizeof low);
  memcpy(part->high, &high, sizeof high);
  return TSR_OK;
}

int tsr__ingest_find_instants(tsr_ingest *g, uint32_t column, tsr_error *error) {
  static const tsr_datatype datatypes[] = {TSR_DATETIME_DAY, TSR_DATETIME_SEC, TSR_DATETIME_MS, TSR_DATETIME_US,
                                           TSR_DATETIME_NS};
  tsr_ingest_kept *c = &g->columns[column];
  const size_t count = c->given->declared == TSR_INGEST_DATES ? 1 : sizeof datatypes / sizeof *datatypes;
  tsr_buffer scratch = {.memory = &g->memory};
  size_t choice = 0;
  bool fit = true;
  int rc = TSR_OK;
  for (uint64_t p = 0; p < g->counts.parts && fit && rc >= 0; p++) {
    tsr_ingest_values texts;
    rc = tsr__ingest_load(g, column, p, &scratch, &texts, error);
    if (rc >= 0 && texts.class == TSR_INGEST_TEXTS) fit = ingest_instants_fit(c, &texts, datatypes, count, &choice);
  }
  if (rc >= 0 && fit) {
    c->class = TSR_INGEST_INTEGERS;
    c->datatype = datatypes[choice];
    c->values_per_cell = 1;
    for (uint64_t p = 0; p < g->counts.parts && rc >= 0; p++) rc = ingest_bound_instants(g, column, p, &scratch, error);
  }
  tsr__buffer_release(&scratch);
  return rc;
}

void tsr__ingest_parse_instants(const tsr_ingest_kept *c, uint8_t *words, tsr_ingest_values *values) {
  for (uint64_t row = 0; row < values->rows; row++) {
    int64_t instant = 0;
    if (!values->validity || values->validity[row]) (void)ingest_instant_at(c, values, row, c->datatype, &instant);
    memcpy(words + row * 8, &instant, 8);
  }
  values->class = TSR_INGEST_INTEGERS;
  values->values = words;
  values->ends = NULL;
}
