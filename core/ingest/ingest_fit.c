/* ingest_fit.c: prepares rows and an array for each other before the rows are appended: numbers rows without coordinates,
 * and makes a current domain large enough. */
#include <string.h>

#include "base/arithmetic.h"
#include "array/environment.h"
#include "model/datatype.h"
#include "ingest/ingest.h"

#define FIT_ATTEMPTS 8 /* while others expand the current domain, too */

typedef struct fit_box { /* the rows' interval in one dimension; texts are owned */
  bool any; /* there are rows */
  uint64_t low, high; /* order keys */
  tsr_buffer low_text, high_text;
} fit_box;

/* ---- Rows without coordinates ------------------------------------------------------------------------------------ */

int tsr__ingest_next_row(tsr_array *array, uint64_t *key, uint64_t *room, tsr_error *error) {
  tsr_snapshot *snapshot;
  const tsr_interval *filled;
  TSR_TRY(tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, error));
  const tsr_schema *schema = tsr_snapshot_schema(snapshot);
  const tsr_field *row = &schema->fields[0];
  const uint64_t high = tsr__key(row->datatype, row->high);
  const int rc = tsr_snapshot_non_empty_domain(snapshot, &filled, error);
  if (rc > 0) {
    const uint64_t last = tsr__key(row->datatype, filled[0].high);
    *room = high - TSR_MIN(last, high);
    *key = last + 1;
  } else if (rc == 0) {
    *key = tsr__key(row->datatype, schema->current_domain ? schema->current_domain[0].low : row->low);
    *room = tsr__add_sat(high - *key, 1);
  }
  tsr_snapshot_close(snapshot);
  return TSR_MIN(rc, TSR_OK);
}

/* Numbers the rows after the last one of the array. */
static int fit_number_rows(tsr_ingest *g, tsr_array *array, const tsr_field *row, tsr_error *error) {
  uint64_t room;
  TSR_TRY(tsr__ingest_next_row(array, &g->next_row, &room, error));
  if (g->counts.rows <= room) return TSR_OK;
  return tsr__fail(
      error, TSR_RANGE,
      "the domain of '%s' has room for %llu more rows, not for %llu: an array to which rows are appended is "
      "made with \"grow\":[\"%s\"]",
      row->name, (unsigned long long)room, (unsigned long long)g->counts.rows, row->name);
}

/* ---- The box of the rows ----------------------------------------------------------------------------------------- */

static int fit_take_text(fit_box *box, const uint8_t *bytes, uint64_t size, tsr_error *error) {
  const bool lower = !box->any || tsr__bytes_compare(bytes, size, box->low_text.data, box->low_text.size) < 0,
             higher = !box->any || tsr__bytes_compare(bytes, size, box->high_text.data, box->high_text.size) > 0;
  box->any = true;
  if (lower) {
    box->low_text.size = 0;
    TSR_TRY(tsr__buffer_append(&box->low_text, bytes, size, error));
  }
  if (!higher) return TSR_OK;
  box->high_text.size = 0;
  return tsr__buffer_append(&box->high_text, bytes, size, error);
}

/* Extends a box by the rows of one part of a column. */
static int fit_take_part(const tsr_field *field, const tsr_ingest_values *values, fit_box *box, tsr_error *error) {
  for (uint64_t i = 0; i < values->rows; i++) {
    if (values->ends) {
      const uint64_t begin = i ? values->ends[i - 1] : 0;
      TSR_TRY(fit_take_text(box, values->values + begin, values->ends[i] - begin, error));
      continue;
    }
    uint8_t value[8];
    const bool is_real = values->class == TSR_INGEST_REALS;
    tsr__ingest_narrow_value(field->datatype, is_real, tsr__ingest_word(values, i), value);
    const uint64_t key = tsr__key(field->datatype, value);
    box->low = box->any ? TSR_MIN(box->low, key) : key;
    box->high = box->any ? TSR_MAX(box->high, key) : key;
    box->any = true;
  }
  return TSR_OK;
}

static int fit_find_box(tsr_ingest *g, uint32_t d, const tsr_field *field, fit_box *box, tsr_error *error) {
  if (g->options.dimension_count == 0) {
    *box = (fit_box){.any = g->counts.rows > 0, .low = g->next_row, .high = g->next_row + g->counts.rows - 1};
    return TSR_OK;
  }
  tsr_buffer scratch = {.memory = &g->memory};
  box->low_text.memory = box->high_text.memory = &g->memory;
  int rc = TSR_OK;
  for (uint64_t p = 0; p < g->counts.parts && rc >= 0; p++) {
    tsr_ingest_values values;
    rc = tsr__ingest_load(g, g->options.dimensions[d], p, &scratch, &values, error);
    if (rc >= 0) rc = fit_take_part(field, &values, box, error);
    if (rc >= 0) rc = tsr__cancelled(&g->environment->memory, error);
  }
  tsr__buffer_release(&scratch);
  return rc;
}

/* ---- The current domain ------------------------------------------------------------------------------------------ */

/* Makes *to the interval around a current domain and a box. Returns whether it is larger than the current domain. */
static bool fit_join(const tsr_field *field, const tsr_interval *now, const fit_box *box, tsr_interval *to) {
  *to = *now;
  if (!box->any) return false;
  if (!field->cell_size) {
    const bool open = !now->low_size && now->high_size == 1 && *now->high_text == 0x7f; /* TileDB's "no bounds" */
    const bool lower = tsr__bytes_compare(box->low_text.data, box->low_text.size, now->low_text, now->low_size)<
        0, higher = tsr__bytes_compare(box->high_text.data, box->high_text.size, now->high_text, now->high_size)> 0;
    if (!open && lower) {
      to->low_text = box->low_text.data;
      to->low_size = box->low_text.size;
    }
    if (!open && higher) {
      to->high_text = box->high_text.data;
      to->high_size = box->high_text.size;
    }
    return !open && (lower || higher);
  }
  const bool lower =
      box->low<tsr__key(field->datatype, now->low), higher = box->high> tsr__key(field->datatype, now->high);
  if (lower) tsr__key_value(field->datatype, box->low, to->low);
  if (higher) tsr__key_value(field->datatype, box->high, to->high);
  return lower || higher;
}

/* Expands the current domain, unless it has all boxes. */
static int fit_expand(tsr_array *array, const fit_box *boxes, tsr_interval *domain, tsr_error *error) {
  int rc = TSR_OK;
  for (int attempt = 0; attempt < FIT_ATTEMPTS; attempt++) {
    const tsr_schema *schema;
    bool grows = false;
    TSR_TRY(tsr_array_schema(array, TSR_TIME_NOW, &schema, error));
    if (!schema->current_domain) return TSR_OK;
    for (uint32_t d = 0; d < schema->dimension_count; d++)
      grows |= fit_join(&schema->fields[d], &schema->current_domain[d], &boxes[d], &domain[d]);
    if (!grows) return TSR_OK;
    rc = tsr_array_expand_domain(array, domain, error);
    if (rc != TSR_CONSTRAINT) return rc; /* TSR_CONSTRAINT: another process has expanded it meanwhile */
  }
  return rc;
}

int tsr_ingest_fit(tsr_ingest *g, tsr_array *array, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_schema *schema;
  fit_box *boxes;
  tsr_interval *domain;
  if (!g->complete) return tsr__fail(error, TSR_ERROR, "tsr_ingest_fit before tsr_ingest_schema");
  TSR_TRY(tsr_array_schema(array, TSR_TIME_NOW, &schema, error));
  if (g->options.dimension_count == 0) TSR_TRY(fit_number_rows(g, array, &schema->fields[0], error));
  if (!schema->current_domain) return TSR_OK;
  const uint32_t count = schema->dimension_count;
  TSR_TRY(TSR_ALLOC_ARRAY(&g->memory, count, &boxes, error));
  int rc = TSR_ALLOC_ARRAY(&g->memory, count, &domain, error);
  for (uint32_t d = 0; d < count && rc >= 0; d++) rc = fit_find_box(g, d, &schema->fields[d], &boxes[d], error);
  if (rc >= 0) {
    rc = fit_expand(array, boxes, domain, error);
    tsr__free(domain);
  }
  for (uint32_t d = 0; d < count; d++) {
    tsr__buffer_release(&boxes[d].low_text);
    tsr__buffer_release(&boxes[d].high_text);
  }
  tsr__free(boxes);
  return rc;
}
