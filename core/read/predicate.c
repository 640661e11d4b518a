/* predicate.c: tests predicates on attributes, against the statistics of tiles and against columns of cells.
 *
 * Sections: preparing the predicates of a request; testing columns of cells; testing pinned tiles; what is needed of
 * them; statistics.
 *
 * Nulls. A predicate sees the values that the host shows: a null cell is null, NaN is null, and NaT is null if the host
 * says so. Cells that were never written, or whose fragment lacks the attribute, are null unless the host shows their
 * fill value.
 *
 * Statistics. TileDB's statistics are missing or wrong in many cases (docs/errata-values.md). A tile is skipped
 * only if all of these conditions hold:
 * - The attribute has one number, datetime or time per cell; or it is CHAR or ASCII and the format version is at least
 *   18 (before, TileDB compared past the ends of strings). UTF8 and all other variable or multi-valued attributes are
 *   read.
 * - Floats: the sum is less than SUM_MAX, and the bounds are less than BOUND_MAX. A NaN resets the bounds and makes the
 *   sum NaN, which the comparison detects. But a sum that has reached an infinity, or has overflowed, stays at the
 *   greatest double and hides a NaN; bounds below BOUND_MAX ensure that no later value brought such a sum down again.
 * - Strings: TileDB compares them up to the first NUL, so the bounds are widened by everything that may follow it. In
 *   dense arrays variable strings are always read, and nullable ones before version 21.
 * - The attribute has no lossy filter: statistics are made from values before the filters.
 *
 * The statistics of a whole fragment are used only for single integers, datetimes and times. Sums of tiles that stick
 * at both ends can add up to a sum that looks right, and TileDB skips values where it should skip tiles of null
 * strings.
 *
 * Null counts are right where minimum and maximum are, but they do not include NaN and NaT. The padding of dense tiles
 * (format versions 11 to 15) widens bounds and raises null counts, never the reverse. The callers make sure that a
 * skipped tile does not uncover older versions of its cells.
 */
#include "read/reader.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "model/datatype.h"
#include "filter/pipeline.h"
#include "format/fragment_metadata.h"
#include "format/layout.h"
#include "format/schema.h"
#include "array/array.h"

#define SUM_MAX         1e300 /* see above, "Floats" */
#define BOUND_MAX       1e290
#define PREDICATE_BLOCK 65536u /* cells tested at a time */
#define NEGATED         512u /* cells tested at a time if the predicate is negated */
#define TEXT_BOUND      256u /* bytes of a string bound that are compared */

/* ---- Preparing --------------------------------------------------------------------------------------------------- */

static bool is_float(const tsr_field *field) {
  return field->values_per_cell == 1 && tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT;
}

static bool is_text(const tsr_field *field) {
  return tsr_datatype_kind(field->datatype) == TSR_KIND_TEXT && tsr_datatype_size(field->datatype) == 1;
}

static int prepare(const tsr_schema *schema, const tsr_predicate *given, tsr_arena *arena,
                   tsr_typed_predicate *predicate, tsr_error *error) {
  if (given->field < schema->dimension_count || given->field >= schema->dimension_count + schema->attribute_count)
    return tsr__fail(error, TSR_ERROR, "a predicate on field %u, which is not an attribute", given->field);
  const tsr_field *field = &schema->fields[given->field];
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  const bool single = field->values_per_cell == 1 && kind != TSR_KIND_BYTES && kind != TSR_KIND_TEXT;
  *predicate = (tsr_typed_predicate){.field = given->field, .kind = given->kind};
  if (given->negated && given->kind != TSR_PREDICATE_WITHIN)
    predicate->kind = given->kind == TSR_PREDICATE_IS_NULL ? TSR_PREDICATE_NOT_NULL : TSR_PREDICATE_IS_NULL;
  predicate->nan = is_float(field);
  predicate->nat = given->nat_is_null && single && (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME);
  if (given->kind != TSR_PREDICATE_WITHIN) return TSR_OK;
  if (!single && !is_text(field))
    return tsr__fail(error, TSR_ERROR, "attribute %s cannot be compared with ranges", field->name);
  tsr_field plain = *field; /* a string of fixed length is compared like one of variable length */
  if (is_text(field)) plain.values_per_cell = TSR_VARIABLE;
  if (tsr__spans_make(&plain, &given->ranges, arena, &predicate->spans, error) < 0)
    return tsr__wrap(error, "attribute %s", field->name);
  if (predicate->spans.all) predicate->kind = given->negated ? TSR_PREDICATE_IS_NULL : TSR_PREDICATE_NOT_NULL;
  else predicate->negated = given->negated;
  return TSR_OK;
}

int tsr__predicates_make(tsr_reader *reader, const tsr_request *request, tsr_error *error) {
  reader->predicates.count = 0;
  reader->predicates.fill_unwritten = request->fill_unwritten;
  if (request->predicate_count == 0) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, request->predicate_count, &reader->predicates.list, error));
  for (uint32_t i = 0; i < request->predicate_count; i++) {
    tsr_typed_predicate *predicate = &reader->predicates.list[i];
    TSR_TRY(prepare(reader->snapshot->schema, &request->predicates[i], &reader->arena, predicate, error));
    predicate->never = predicate->kind == TSR_PREDICATE_WITHIN && predicate->spans.count == 0 && !predicate->negated;
    reader->predicates.count++;
  }
  return TSR_OK;
}

/* ---- Columns of cells -------------------------------------------------------------------------------------------- */

/* Defines a function that keeps the cells of selection[0..count) (NULL: 0..count-1) for which TEST, of the cell's value
 * v, is `expected`: it writes their indices to `out` and returns their number. */
#define DEFINE_KEEP(name, type, TEST)                                                                                  \
  static uint64_t keep_##name(const type *values, const uint32_t *selection, uint64_t count, bool expected,            \
                              uint32_t *out) {                                                                         \
    uint64_t kept = 0;                                                                                                 \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      const uint32_t cell = selection ? selection[i] : (uint32_t)i;                                                    \
      type v;                                                                                                          \
      memcpy(&v, (const uint8_t *)values + cell * sizeof v, sizeof v);                                                 \
      out[kept] = cell;                                                                                                \
      kept += (TEST) == expected;                                                                                      \
    }                                                                                                                  \
    return kept;                                                                                                       \
  }
DEFINE_KEEP(valid, uint8_t, v != 0)
DEFINE_KEEP(number_f32, float, v == v)
DEFINE_KEEP(number_f64, double, v == v)
DEFINE_KEEP(time, int64_t, v != INT64_MIN)

static uint64_t keep_numbers(const void *values, uint64_t size, const uint32_t *selection, uint64_t count,
                             bool expected, uint32_t *out) {
  if (size == 4) return keep_number_f32(values, selection, count, expected, out);
  return keep_number_f64(values, selection, count, expected, out);
}

/* Selects nulls of any kind, including NaN and NaT. */
static uint64_t select_nulls(const tsr_typed_predicate *predicate, const tsr_column *column, const uint32_t *selection,
                             uint64_t count, uint32_t *out) {
  if (!predicate->nan && !predicate->nat)
    return column->validity ? keep_valid(column->validity, selection, count, false, out) : 0;
  uint64_t kept = 0;
  for (uint64_t i = 0; i < count; i++) {
    const uint32_t cell = selection ? selection[i] : (uint32_t)i;
    uint32_t alone = cell;
    bool null = column->validity && !column->validity[cell];
    if (!null && predicate->nan) null = keep_numbers(column->values, column->cell_size, &alone, 1, false, &alone) > 0;
    else if (!null) null = keep_time(column->values, &alone, 1, false, &alone) > 0;
    out[kept] = cell;
    kept += null;
  }
  return kept;
}

static uint64_t select_within(const tsr_typed_predicate *predicate, tsr_datatype datatype, const tsr_column *column,
                              const uint32_t *selection, uint64_t count, uint32_t *out) {
  if (!predicate->spans.text)
    return tsr__spans_select(&predicate->spans, datatype, column->values, selection, count, out);
  if (column->offsets)
    return tsr__spans_select_text(&predicate->spans, column->values, column->offsets, selection, count, out);
  uint64_t kept = 0;
  for (uint64_t i = 0; i < count; i++) {
    const uint32_t cell = selection ? selection[i] : (uint32_t)i;
    const uint8_t *value = (const uint8_t *)column->values + cell * column->cell_size;
    out[kept] = cell;
    kept += tsr__spans_contain_text(&predicate->spans, value, column->cell_size);
  }
  return kept;
}

/* Selects the cells that satisfy the predicate, ignoring its negation. `out` may be the selection. */
static uint64_t select_plain(const tsr_typed_predicate *predicate, tsr_datatype datatype, const tsr_column *column,
                             const uint32_t *selection, uint64_t count, uint32_t *out) {
  if (predicate->never) return 0;
  if (predicate->kind == TSR_PREDICATE_IS_NULL) return select_nulls(predicate, column, selection, count, out);
  if (predicate->kind == TSR_PREDICATE_WITHIN) {
    count = select_within(predicate, datatype, column, selection, count, out);
    selection = out;
  }
  if (column->validity) {
    count = keep_valid(column->validity, selection, count, true, out);
    selection = out;
  }
  if (predicate->nan && predicate->kind == TSR_PREDICATE_NOT_NULL)
    count = keep_numbers(column->values, column->cell_size, selection, count, true, out), selection = out;
  if (predicate->nat) count = keep_time(column->values, selection, count, true, out), selection = out;
  return tsr__select_all(selection, count, out);
}

static uint64_t select_cells(const tsr_typed_predicate *predicate, tsr_datatype datatype, const tsr_column *column,
                             const uint32_t *selection, uint64_t count, uint32_t *out) {
  uint32_t some[NEGATED], within[NEGATED];
  uint64_t kept = 0;
  if (!predicate->negated) return select_plain(predicate, datatype, column, selection, count, out);
  for (uint64_t from = 0; from < count; from += NEGATED) {
    const uint64_t n = TSR_MIN(count - from, NEGATED);
    for (uint64_t i = 0; i < n; i++) some[i] = selection ? selection[from + i] : (uint32_t)(from + i);
    const uint64_t left = select_plain(predicate, datatype, column, some, n, within);
    for (uint64_t i = 0, k = 0; i < n; i++) {
      if (k < left && within[k] == some[i]) k++;
      else out[kept++] = some[i];
    }
  }
  return kept;
}

/* Returns true if the cells of a constant column pass. */
static bool constant_passes(const tsr_reader *reader, const tsr_typed_predicate *predicate, const tsr_column *column) {
  uint32_t cell;
  if (column->unwritten && !reader->predicates.fill_unwritten)
    return predicate->kind == TSR_PREDICATE_IS_NULL || predicate->negated;
  return select_cells(predicate, reader->snapshot->schema->fields[predicate->field].datatype, column, NULL, 1, &cell) ==
         1;
}

bool tsr__predicates_pass_unwritten(const tsr_reader *reader) {
  for (uint32_t i = 0; i < reader->predicates.count; i++)
    if (!constant_passes(reader, &reader->predicates.list[i], &reader->columns.fills[reader->predicates.list[i].field]))
      return false;
  return true;
}

uint64_t tsr__predicate_select(const tsr_reader *reader, const tsr_typed_predicate *predicate, const tsr_column *column,
                               const uint32_t *selection, uint64_t count, uint32_t *out) {
  const tsr_field *field = &reader->snapshot->schema->fields[predicate->field];
  if (!column->constant) return select_cells(predicate, field->datatype, column, selection, count, out);
  if (!constant_passes(reader, predicate, column)) return 0;
  return tsr__select_all(selection, count, out);
}

/* ---- Pinned tiles ----------------------------------------------------------------------------------------------- */

int tsr__predicates_request(tsr_reader *reader, tsr_pinned_tile *pinned, tsr_error *error) {
  const int64_t *slots = reader->snapshot->fragments[pinned->fragment].slots;
  for (uint32_t i = 0; i < reader->predicates.count; i++)
    TSR_TRY(tsr__reader_request(reader, pinned, slots[reader->predicates.list[i].field], error));
  return TSR_OK;
}

int tsr__predicates_select(tsr_reader *reader, tsr_pinned_tile *pinned, uint64_t first, const uint32_t *selection,
                           uint64_t *count, uint32_t *out, tsr_error *error) {
  for (uint32_t i = 0; *count > 0 && i < reader->predicates.count; i++) {
    tsr_column column;
    if (pinned) TSR_TRY(tsr__pinned_column(reader, pinned, reader->predicates.list[i].field, first, &column, error));
    else column = reader->columns.fills[reader->predicates.list[i].field];
    *count = tsr__predicate_select(reader, &reader->predicates.list[i], &column, selection, *count, out);
    selection = out;
  }
  return TSR_OK;
}

int tsr__predicates_any(tsr_reader *reader, tsr_pinned_tile *pinned, tsr_error *error) {
  tsr_buffer *room = &reader->predicates.passing;
  room->size = 0;
  TSR_TRY(tsr__buffer_reserve(room, TSR_MIN(pinned->end - pinned->first, PREDICATE_BLOCK) * sizeof(uint32_t), error));
  for (uint64_t first = pinned->first; first < pinned->end; first += PREDICATE_BLOCK) {
    uint64_t count = TSR_MIN(pinned->end - first, PREDICATE_BLOCK);
    TSR_TRY(tsr__predicates_select(reader, pinned, first, NULL, &count, (uint32_t *)(void *)room->data, error));
    if (count > 0) return 1;
  }
  return 0;
}

/* ---- What is needed of pinned tiles ------------------------------------------------------------------------------ */
/* A tile of several columns: those that the predicates read are decoded first. Where no cell of a chunk can satisfy the
 * predicates, that chunk of the other columns is not decoded.
 *
 * Whoever reads consecutive cells that are not tested may take up to TSR_NEEDED_CELLS of them at a time. If one of
 * these may pass, all are read, so the blocks beside one with such a cell are needed, too.
 */

#define MARK_FIRST  128u /* cells of a block that are tested first: often one of them passes */
#define MARK_TILES  8u /* after so many tiles it is known whether marks spare anything; then one of so many is marked */
#define MARK_SPARED 16u /* the least part of the cells that must be spared */
#define MARK_CHUNK  (8192u / TSR_NEEDED_CELLS) /* blocks of a small chunk */

bool tsr__predicates_may_mark(tsr_reader *reader, const tsr_pinned_tile *pinned) {
  const tsr_snapshot_fragment *f = &reader->snapshot->fragments[pinned->fragment];
  const tsr_schema *schema = reader->snapshot->schema;
  tsr_reader_predicates *p = &reader->predicates;
  if (p->marked_tiles >= MARK_TILES && p->spared < p->marked / MARK_SPARED && p->marked_tiles++ % MARK_TILES > 0)
    return false;
  for (uint32_t i = 0; i < p->count; i++)
    if (f->slots[p->list[i].field] >= 0 && !pinned->tiles[f->slots[p->list[i].field]]) return false;
  for (uint32_t i = f->fragment->metadata.dense ? schema->dimension_count : 0;
       i < schema->dimension_count + schema->attribute_count; i++) {
    if (!reader->request.fields[i] || f->slots[i] < 0 || pinned->tiles[f->slots[i]]) continue;
    const tsr_tile_request request = {.fragment = f->fragment,
                                      .slot = (uint32_t)f->slots[i],
                                      .number = pinned->number,
                                      .first = pinned->first,
                                      .end = pinned->end};
    if (!tsr__tile_is_in_memory(reader->snapshot->array, request)) return true;
  }
  return false;
}

/* Returns 1 if some of the cells low to high - 1 satisfies all predicates. */
static int any_passes(tsr_reader *reader, tsr_pinned_tile *pinned, uint64_t low, uint64_t high, tsr_error *error) {
  uint32_t passing[TSR_NEEDED_CELLS];
  uint64_t count = TSR_MIN(high - low, MARK_FIRST);
  TSR_TRY(tsr__predicates_select(reader, pinned, low, NULL, &count, passing, error));
  if (count > 0 || high - low <= MARK_FIRST) return count > 0;
  count = high - low - MARK_FIRST;
  TSR_TRY(tsr__predicates_select(reader, pinned, low + MARK_FIRST, NULL, &count, passing, error));
  return count > 0;
}

typedef struct marking {
  tsr_reader *reader;
  tsr_pinned_tile *const *tiles;
} marking;

static int mark_tile(void *argument, uint64_t index, tsr_error *error) {
  const marking *m = argument;
  tsr_pinned_tile *pinned = m->tiles[index];
  const uint64_t blocks = tsr__needed_blocks(pinned->cells);
  for (uint64_t low = pinned->first, high; low < pinned->end; low = high) {
    const uint64_t b = low / TSR_NEEDED_CELLS;
    high = TSR_MIN(pinned->end, (b + 1) * TSR_NEEDED_CELLS);
    const int any = any_passes(m->reader, pinned, low, high, error);
    if (any < 0) return any;
    if (!any) continue;
    pinned->needed[b] = TSR_NEEDED_PASS;
    if (b > 0 && pinned->needed[b - 1] == 0) pinned->needed[b - 1] = TSR_NEEDED_NEAR;
    if (b + 1 < blocks) pinned->needed[b + 1] = TSR_NEEDED_NEAR;
  }
  return TSR_OK;
}

/* Counts the cells of whole chunks that are not needed. */
static void count_spared(tsr_reader_predicates *predicates, const tsr_pinned_tile *pinned) {
  const uint64_t end = tsr__needed_blocks(pinned->end);
  predicates->marked_tiles++;
  predicates->marked += pinned->end - pinned->first;
  for (uint64_t b = pinned->first / TSR_NEEDED_CELLS, next; b < end; b = next) {
    next = TSR_MIN(end, (b / MARK_CHUNK + 1) * MARK_CHUNK);
    bool any = false;
    for (uint64_t i = b; i < next; i++) any |= pinned->needed[i] != 0;
    if (!any) predicates->spared += (next - b) * TSR_NEEDED_CELLS;
  }
}

int tsr__predicates_mark(tsr_reader *reader, tsr_pinned_tile *const *tiles, uint64_t count, tsr_error *error) {
  marking m = {reader, tiles};
  for (uint64_t i = 0; i < count; i++)
    TSR_TRY(TSR_ARENA_ARRAY(&reader->window.arena, tsr__needed_blocks(tiles[i]->cells), &tiles[i]->needed, error));
  TSR_TRY(tsr__parallel_for(tsr__reader_threads(reader), count, mark_tile, &m, error));
  for (uint64_t i = 0; i < count; i++) count_spared(&reader->predicates, tiles[i]);
  return TSR_OK;
}

bool tsr__predicates_marked_any(const tsr_pinned_tile *pinned) {
  return memchr(pinned->needed, TSR_NEEDED_PASS, tsr__needed_blocks(pinned->cells)) != NULL;
}

/* ---- Statistics -------------------------------------------------------------------------------------------------- */

bool tsr__statistics_trusted(const tsr_fragment_metadata *metadata, uint32_t field) {
  const tsr_field *f = &metadata->schema->fields[field];
  const tsr_kind kind = tsr_datatype_kind(f->datatype);
  if (!layout_has_tile_statistics(metadata->version) ||
      tsr__pipeline_is_lossy(tsr__schema_pipeline(metadata->schema, field)))
    return false;
  if (f->datatype == TSR_CHAR || f->datatype == TSR_ASCII) {
    if (!layout_has_string_statistics(metadata->version)) return false;
    return !metadata->dense || (f->values_per_cell != TSR_VARIABLE &&
                                (!f->nullable || layout_has_nullable_string_statistics(metadata->version)));
  }
  return f->values_per_cell == 1 && kind != TSR_KIND_TEXT && kind != TSR_KIND_BYTES;
}

static bool text_outside(const tsr_spans *spans, const uint8_t *min, uint64_t min_size, const uint8_t *max,
                         uint64_t max_size) {
  uint8_t high[TEXT_BOUND];
  const uint8_t *nul = min_size ? memchr(min, 0, min_size) : NULL;
  if (nul) min_size = (uint64_t)(nul - min);
  nul = max_size ? memchr(max, 0, max_size) : NULL;
  if (nul) max_size = (uint64_t)(nul - max);
  if (max_size == 0) return false; /* all strings are empty or null, or the maximum is unknown */
  if (max_size < TEXT_BOUND) {
    memcpy(high, max, max_size);
    high[max_size++] = 1; /* greater than all strings with a NUL here */
  } else {
    memcpy(high, max, TEXT_BOUND);
    max_size = TEXT_BOUND;
    if (high[TEXT_BOUND - 1]++ == UINT8_MAX) return false;
  }
  return tsr__spans_relate_text(spans, min, min_size, high, max_size) == TSR_OUTSIDE;
}

bool tsr__statistics_plain(const tsr_field *field, const uint8_t *min, const uint8_t *max, const uint64_t *sum) {
  double d[3];
  if (!sum) return false;
  memcpy(&d[0], sum, sizeof(double));
  for (unsigned i = 0; i < 2; i++) {
    if (field->cell_size == sizeof(double)) {
      memcpy(&d[i + 1], i ? max : min, sizeof(double));
    } else {
      float f;
      memcpy(&f, i ? max : min, sizeof f);
      d[i + 1] = (double)f;
    }
  }
  return fabs(d[0]) < SUM_MAX && fabs(d[1]) < BOUND_MAX && fabs(d[2]) < BOUND_MAX; /* false for NaN */
}

bool tsr__predicate_excludes(const tsr_typed_predicate *predicate, const tsr_field *field, const tsr_statistics *s,
                             uint64_t tile, uint64_t cells) {
  if (!s->min || !s->max || tile >= s->count) return false;
  const bool counted = field->nullable && s->null_counts;
  const bool takes_nulls = predicate->kind == TSR_PREDICATE_IS_NULL || predicate->negated;
  if (!takes_nulls && counted && s->null_counts[tile] == cells) return true;
  if (predicate->kind == TSR_PREDICATE_NOT_NULL) return false;
  const uint64_t size = s->value_size;
  const uint8_t *min = s->min + (size ? tile * size : s->min_offsets[tile]);
  const uint8_t *max = s->max + (size ? tile * size : s->max_offsets[tile]);
  if (predicate->nan && !tsr__statistics_plain(field, min, max, s->sums ? &s->sums[tile] : NULL)) return false;
  if (takes_nulls) {
    if (field->nullable && (!counted || s->null_counts[tile] > 0)) return false;
    if (predicate->nat && tsr__key(field->datatype, min) == 0) return false;
  }
  if (predicate->kind == TSR_PREDICATE_IS_NULL) return true;
  if (predicate->spans.text)
    return !predicate->negated &&
           text_outside(&predicate->spans, min, size ? size : s->min_offsets[tile + 1] - s->min_offsets[tile], max,
                        size ? size : s->max_offsets[tile + 1] - s->max_offsets[tile]);
  const uint64_t low = tsr__key(field->datatype, min), high = tsr__key(field->datatype, max);
  return tsr__spans_relate(&predicate->spans, low, high) == (predicate->negated ? TSR_INSIDE : TSR_OUTSIDE);
}

int tsr__statistics_load(tsr_array *array, tsr_fragment *fragment, uint32_t slot, bool of_fragment,
                         tsr_statistics *statistics, tsr_error *error) {
  tsr_fragment_metadata *m = &fragment->metadata;
  const uint8_t *key = tsr__array_key(array);
  tsr_file *file = NULL;
  if (of_fragment ? !m->own_statistics : !m->slots[slot].statistics)
    TSR_TRY(tsr__fragment_metadata_file(array, fragment, &file, error));
  const int rc = of_fragment ? tsr__fragment_metadata_own_statistics(m, slot, file, key, statistics, error)
                             : tsr__fragment_metadata_statistics(m, slot, file, key, statistics, error);
  if (file) tsr__array_files_done(array);
  if (rc >= 0) return TSR_OK;
  return tsr__damage(tsr__wrap(error, "fragment %s", fragment->name), error);
}

/* Returns true if no cell of a fragment can pass: the fragment lacks the attribute (field NULL), and the fill value
 * does not pass; or the predicate selects nulls of an attribute that cannot have any. */
static bool never_passes(const tsr_reader *reader, const tsr_typed_predicate *predicate, const tsr_field *field) {
  if (!field) return !constant_passes(reader, predicate, &reader->columns.fills[predicate->field]);
  return predicate->kind == TSR_PREDICATE_IS_NULL && !field->nullable && !predicate->nan && !predicate->nat;
}

/* Returns the field that a predicate reads, in the fragment's schema; NULL if the fragment lacks it. */
static const tsr_field *field_of(const tsr_reader *reader, const tsr_typed_predicate *predicate, uint32_t fragment,
                                 uint32_t *number) {
  const tsr_fragment_metadata *m = &reader->snapshot->fragments[fragment].fragment->metadata;
  const int64_t slot = reader->snapshot->fragments[fragment].slots[predicate->field];
  tsr_system_column system_column;
  const int64_t field = slot < 0 ? -1 : tsr__fragment_slot_field(m, (uint32_t)slot, &system_column);
  if (field < 0) return NULL;
  *number = (uint32_t)field;
  return &m->schema->fields[field];
}

/* Returns 1 if the statistics of a fragment, or of one of its tiles, prove that no cell satisfies all predicates; else
 * 0. */
static int statistics_exclude(tsr_reader *reader, uint32_t fragment, bool whole, uint64_t tile, tsr_error *error) {
  tsr_fragment *f = reader->snapshot->fragments[fragment].fragment;
  for (uint32_t i = 0; i < reader->predicates.count; i++) {
    const tsr_typed_predicate *predicate = &reader->predicates.list[i];
    uint32_t number = 0;
    const tsr_field *field = field_of(reader, predicate, fragment, &number);
    tsr_statistics statistics;
    if (never_passes(reader, predicate, field)) return 1;
    if (!field || f->run.tiles || !tsr__statistics_trusted(&f->metadata, number)) continue;
    if (whole && (predicate->nan || is_text(field) || f->metadata.tile_count == 1))
      continue; /* the statistics of a single tile say the same */
    TSR_TRY(tsr__statistics_load(reader->snapshot->array, f,
                                 (uint32_t)reader->snapshot->fragments[fragment].slots[predicate->field], whole,
                                 &statistics, error));
    const uint64_t cells = whole ? UINT64_MAX : tsr__fragment_tile_cells(&f->metadata, tile);
    if (tsr__predicate_excludes(predicate, field, &statistics, whole ? 0 : tile, cells)) return 1;
  }
  return 0;
}

int tsr__predicates_exclude_fragment(tsr_reader *reader, uint32_t fragment, tsr_error *error) {
  return statistics_exclude(reader, fragment, true, 0, error);
}

int tsr__predicates_exclude(tsr_reader *reader, uint32_t fragment, uint64_t tile, tsr_error *error) {
  return statistics_exclude(reader, fragment, false, tile, error);
}
