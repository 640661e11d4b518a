/* cells.c: decodes every tile of a fragment and checks every cell.
 *
 * Tiles are read and decoded in windows, by worker threads if the store allows it, and then checked one by one on the
 * caller's thread. In sparse fragments, coordinates and cell times are checked first: coordinates must be in the
 * domain, fill their tile's MBR exactly, be in global order, and differ unless duplicates are allowed. Then the
 * statistics of each field are checked (statistics.c); in dense fragments only these.
 *
 * If memory is short, a window shrinks to the tiles that fit, in the end to one tile, whose fields are decoded one by
 * one. Only what does not fit even then is reported as not checked.
 *
 * TileDB is known to break some rules (errata.md), and these cases are not reported as errors: strings in the order of
 * signed bytes; NaN coordinates, which may be anywhere; dimensions behind lossy filters, whose order and boxes are
 * those of the values before filtering.
 */
#include "check/check.h"

#include <stdio.h>
#include <string.h>

#include "base/pool.h"
#include "store/store.h"
#include "model/datatype.h"
#include "model/domain.h"
#include "filter/pipeline.h"
#include "format/fragment_metadata.h"
#include "format/schema.h"
#include "format/layout.h"
#include "environment/environment.h"
#include "array/array.h"

#define CHECK_CELLS_WINDOW_BYTES (UINT64_C(4) << 20) /* decoded bytes of a window with several tiles */
#define CHECK_CELLS_SHARE        4 /* a window with several tiles uses at most 1/4 of the memory */
#define CHECK_CELLS_WINDOW_TILES 64 /* tiles of a window, counted for each slot */

typedef struct dense_box dense_box;

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

typedef struct opened_slot {
  uint32_t slot;
  tsr_file *files[TSR_PART_COUNT]; /* NULL: the slot has no such part */
  tsr_tile_format format;
} opened_slot;

typedef struct cells_job {
  opened_slot *source;
  uint64_t number;
  tsr_tile *tile; /* NULL if it could not be decoded */
  bool cut; /* the file ends before the tile; this has been reported already */
  tsr_part_kind failed; /* the part that could not be read */
  tsr_error fault; /* why */
} cells_job;

typedef struct cells_window {
  tsr_fragment_check *f;
  opened_slot *slots;
  uint32_t slot_count;
  cells_job *jobs; /* [tile * slot_count + slot] */
  uint64_t first, count; /* tiles */
} cells_window;

static void close_slot(opened_slot *s) {
  for (unsigned part = 0; part < TSR_PART_COUNT; part++) tsr__store_close_file(s->files[part]);
}

static int open_parts(tsr_fragment_check *f, uint32_t slot, opened_slot *s, bool *usable) {
  tsr_error fault = {0};
  if (!f->metadata.slots[slot].present || !f->slot_sound[slot]) return TSR_OK;
  for (unsigned part = 0; part < TSR_PART_COUNT; part++) {
    tsr_check_path path;
    if (!tsr__fragment_slot_has_part(&f->metadata, slot, part)) continue;
    TSR_TRY(tsr__check_part_path(f, slot, part, &path));
    int rc = tsr__store_open_file(f->c->store, path.text, &s->files[part], &fault);
    if (rc >= 0) continue;
    return rc == TSR_NOT_FOUND ? TSR_OK : tsr__check_fault(f->c, path.text, &fault, NULL);
  }
  if (tsr__tile_format(&f->metadata, slot, f->c->key, &s->format, &fault) < 0)
    return tsr__check_fault(f->c, f->directory.text, &fault, NULL);
  *usable = true;
  return TSR_OK;
}

/* Opens the files of a slot. *usable is false if a file is missing or the positions of its tiles are not known; both
 * have been reported already, and nothing is open then. */
static int open_slot(tsr_fragment_check *f, uint32_t slot, opened_slot *s, bool *usable) {
  *s = (opened_slot){.slot = slot};
  *usable = false;
  const int rc = open_parts(f, slot, s, usable);
  if (*usable) return rc;
  close_slot(s);
  *s = (opened_slot){0};
  return rc;
}

/* Returns the size of a tile in memory. */
static uint64_t decoded_bytes(const tsr_fragment_check *f, const opened_slot *s, uint64_t number) {
  uint64_t cells = tsr__fragment_tile_cells(&f->metadata, number), bytes;
  const tsr_tile_format *format = &s->format;
  if (format->values_per_cell == TSR_VARIABLE && format->coordinate_dimensions == 0)
    bytes = tsr__add_sat(tsr__mul_sat(cells, 8), f->metadata.slots[s->slot].var_sizes[number]);
  else
    bytes = tsr__mul_sat(tsr__mul_sat(cells, tsr_datatype_size(format->datatype)),
                         TSR_MAX(format->values_per_cell, format->coordinate_dimensions));
  return tsr__add_sat(bytes, format->nullable ? cells : 0);
}

/* Fails if bytes follow the last chunk of a stored tile: tiles are stored in their file without gaps. */
static int check_end(const uint8_t *bytes, uint64_t size, tsr_error *error) {
  tsr_input in = tsr__input(bytes, size);
  uint64_t chunks = tsr__input_u64(&in);
  for (uint64_t i = 0; i < chunks && !in.failed; i++) {
    (void)tsr__input_u32(&in);
    uint64_t filtered = tsr__input_u32(&in), metadata = tsr__input_u32(&in);
    (void)tsr__input_take(&in, filtered + metadata);
  }
  if (in.failed || tsr__input_left(&in) == 0) return TSR_OK; /* decoding reports a truncated tile */
  return tsr__fail(error, TSR_CORRUPT, "%llu of its %llu bytes follow its last chunk",
                   (unsigned long long)tsr__input_left(&in), (unsigned long long)size);
}

/* Returns which part of a tile could not be decoded. If the decoder does not say so, it failed on the values. */
static tsr_part_kind failed_part(const opened_slot *s, const tsr_error *fault) {
  if (fault->subject > 0) return (tsr_part_kind)(fault->subject - 1);
  return s->files[TSR_PART_VARIABLE] ? TSR_PART_VARIABLE : TSR_PART_FIXED;
}

/* Reads the parts of a tile into blocks, which the caller frees. */
static int read_parts(const cells_window *w, cells_job *j, tsr_tile_source *source, uint8_t *blocks[TSR_PART_COUNT]) {
  const opened_slot *s = j->source;
  const tsr_slot *slot = &w->f->metadata.slots[s->slot];
  source->cells = tsr__fragment_tile_cells(&w->f->metadata, j->number);
  if (slot->var_sizes) source->variable_size = slot->var_sizes[j->number];
  for (unsigned part = 0; part < TSR_PART_COUNT; part++) {
    if (!s->files[part]) continue;
    uint64_t at = slot->offsets[part][j->number], end = slot->offsets[part][j->number + 1];
    j->failed = part;
    j->cut = end > s->files[part]->size;
    if (j->cut) return TSR_CORRUPT;
    TSR_TRY(TSR_ALLOC_RAW(&w->f->c->memory, end - at, &blocks[part], &j->fault));
    TSR_TRY(tsr__store_read_at(s->files[part], at, blocks[part], end - at, &j->fault));
    TSR_TRY(check_end(blocks[part], end - at, &j->fault));
    source->bytes[part] = blocks[part];
    source->sizes[part] = end - at;
  }
  return TSR_OK;
}

/* Reads and decodes one tile, on a worker thread. Failures are kept in the job and reported later. */
static int load_tile(void *argument, uint64_t index, tsr_error *error) {
  const cells_window *w = argument;
  cells_job *j = &w->jobs[index];
  tsr_tile_source source = {0};
  uint8_t *blocks[TSR_PART_COUNT] = {0};
  if (read_parts(w, j, &source, blocks) >= 0 &&
      tsr__tile_decode(&j->source->format, &source, &w->f->c->memory, &j->tile, &j->fault) < 0)
    j->failed = failed_part(j->source, &j->fault);
  for (unsigned part = 0; part < TSR_PART_COUNT; part++) tsr__free(blocks[part]);
  return TSR_OK;
}

/* Reports a tile that could not be decoded. */
static int report_job(tsr_fragment_check *f, const cells_job *j) {
  tsr_check_words words, what;
  tsr_check_path path;
  TSR_TRY(tsr__check_part_path(f, j->source->slot, j->failed, &path));
  snprintf(what.text, sizeof what.text, "%s, tile %llu", tsr__check_field(f, j->source->slot, &words),
           (unsigned long long)j->number);
  return tsr__check_fault(f->c, path.text, &j->fault, what.text);
}

/* Chooses how many tiles from `first` on a window loads: at least one. */
static void plan_window(cells_window *w, uint64_t first) {
  const tsr_fragment_check *f = w->f;
  const uint64_t most = TSR_MIN(CHECK_CELLS_WINDOW_BYTES, f->c->memory.limit / CHECK_CELLS_SHARE);
  uint64_t bytes = 0;
  w->first = first;
  for (w->count = 0; w->count < CHECK_CELLS_WINDOW_TILES && first + w->count < f->metadata.tile_count; w->count++) {
    for (uint32_t s = 0; s < w->slot_count; s++)
      bytes = tsr__add_sat(bytes, decoded_bytes(f, &w->slots[s], first + w->count));
    if (w->count > 0 && (bytes > most || (w->count + 1) * w->slot_count > CHECK_CELLS_WINDOW_TILES)) break;
  }
}

/* Returns true if there was not enough memory to decode a tile. */
static bool job_lacks_memory(const cells_job *j) { return !j->tile && !j->cut && tsr__lacks_memory(j->fault.code); }

/* Frees the tiles of a window from `keep` on; the next window loads them. */
static void shorten_window(cells_window *w, uint64_t keep) {
  for (uint64_t i = keep * w->slot_count; i < w->count * w->slot_count; i++) tsr__tile_drop(w->jobs[i].tile);
  w->count = keep;
}

/* Shortens a window to the first tiles that fit into memory. If not even the first one fits, its fields are decoded
 * again, one by one. */
static void fit_window(cells_window *w) {
  uint64_t fitting = 0;
  while (fitting < w->count * w->slot_count && !job_lacks_memory(&w->jobs[fitting])) fitting++;
  fitting /= w->slot_count;
  shorten_window(w, TSR_MAX(fitting, 1));
  if (fitting > 0) return;
  for (uint32_t s = 0; s < w->slot_count; s++) {
    if (!job_lacks_memory(&w->jobs[s])) continue;
    w->jobs[s].fault = (tsr_error){0};
    (void)load_tile(w, s, NULL);
  }
}

/* Loads as many of the tiles from `first` on as fit into a window, at least one, and reports tiles that cannot be
 * decoded. */
static int load_window(cells_window *w, uint64_t first) {
  tsr_fragment_check *f = w->f;
  uint64_t decoded = 0;
  TSR_TRY(tsr__cancelled(&f->c->environment->memory, f->c->error));
  plan_window(w, first);
  TSR_TRY(TSR_ALLOC_ARRAY(&f->c->memory, w->count * w->slot_count, &w->jobs, f->c->error));
  for (uint64_t i = 0; i < w->count * w->slot_count; i++) {
    w->jobs[i].source = &w->slots[i % w->slot_count];
    w->jobs[i].number = first + i / w->slot_count;
  }
  TSR_TRY(tsr__parallel_for(f->c->threads, w->count * w->slot_count, load_tile, w, f->c->error));
  fit_window(w);
  for (uint64_t i = 0; i < w->count * w->slot_count; i++)
    decoded = tsr__add_sat(decoded, decoded_bytes(f, w->jobs[i].source, w->jobs[i].number));
  tsr__count(f->c->environment, TSR_COUNT_bytes_decoded, decoded);
  for (uint64_t i = 0; i < w->count * w->slot_count; i++)
    if (!w->jobs[i].tile && !w->jobs[i].cut) TSR_TRY(report_job(f, &w->jobs[i]));
  return TSR_OK;
}

/* Adds a window to the progress. */
static void report_progress(cells_window *w) {
  tsr_fragment_check *f = w->f;
  double all = 0;
  for (uint32_t slot = 0; slot < f->metadata.slot_count; slot++)
    all += f->metadata.slots[slot].present ? (double)f->metadata.tile_count : 0;
  f->tiles_done += w->count * w->slot_count;
  if (all > 0 && (double)f->tiles_done < all)
    tsr__work_reach(f->c->environment,
                    f->c->fragments_done * TSR_CHECK_PARTS + (uint64_t)((double)f->tiles_done / all * TSR_CHECK_PARTS));
}

/* Frees the tiles of a window that has been checked up to `index`. */
static void drop_checked(cells_window *w, uint64_t index) {
  for (uint32_t s = 0; s < w->slot_count; s++) {
    cells_job *j = &w->jobs[index * w->slot_count + s];
    tsr__tile_drop(j->tile);
    j->tile = NULL;
  }
}

static void drop_window(cells_window *w) {
  report_progress(w);
  for (uint64_t i = 0; w->jobs && i < w->count * w->slot_count; i++) tsr__tile_drop(w->jobs[i].tile);
  tsr__free(w->jobs);
  w->jobs = NULL;
}

/* ---- Coordinates ------------------------------------------------------------------------------------------------- */

typedef struct cell_block { /* the coordinates of one tile, or of the last cell of one */
  tsr_arena arena;
  uint64_t number, cells;
  tsr_tile **tiles; /* [slot], borrowed; NULL for a last cell */
  tsr_check_bound *texts; /* [dimension]: strings of a last cell; NULL for a tile */
  uint64_t **keys; /* [dimension][cell]: order keys; NULL for strings */
  uint64_t **numbers; /* [dimension][cell]: space tile numbers; NULL for dimensions without a tile extent */
  uint64_t *codes; /* [cell]: Hilbert codes; NULL for other orders */
  const uint64_t *times; /* [cell], or NULL */
  bool loaded;
} cell_block;

typedef struct coordinates_check {
  tsr_fragment_check *f;
  const tsr_schema *schema;
  uint32_t slot_count;
  opened_slot *slots; /* of the dimensions, or __coords; then the system columns t, dt, dci that exist */
  uint32_t dimension_slots; /* how many of these are dimensions */
  int64_t times, delete_times, delete_conditions; /* indices in `slots`, or -1 */
  bool together; /* __coords holds all dimensions (below version 5) */
  bool lossy; /* some dimension has a lossy filter: cells may be unordered or equal after decoding */
  bool old_order; /* the library that wrote the fragment had another global order */
  bool *dimension_lossy; /* [dimension] */
  bool reported_signed, reported_old_order; /* once per fragment */
  cell_block block; /* the current tile */
  cell_block last; /* the last cell of the previous tile */
} coordinates_check;

/* Returns a coordinate on a dimension of fixed size. */
static const uint8_t *fixed_value(const coordinates_check *k, const cell_block *b, uint32_t d, uint64_t cell) {
  uint64_t size = tsr_datatype_size(k->schema->fields[d].datatype);
  return k->together ? b->tiles[0]->values + ((uint64_t)d * b->cells + cell) * size : b->tiles[d]->values + cell * size;
}

static tsr_check_bound bound_at(const coordinates_check *k, const cell_block *b, uint32_t d, uint64_t cell) {
  if (b->keys[d]) return (tsr_check_bound){.key = b->keys[d][cell]};
  if (b->texts) return b->texts[d];
  const tsr_tile *tile = b->tiles[d];
  return (tsr_check_bound){tile->offsets[cell + 1] - tile->offsets[cell], tile->values + tile->offsets[cell]};
}

static bool is_nan(const coordinates_check *k, uint32_t d, uint64_t key) {
  return key == TSR_KEY_NAN && tsr_datatype_kind(k->schema->fields[d].datatype) == TSR_KIND_FLOAT;
}

static bool has_nan(const coordinates_check *k, const cell_block *b, uint64_t cell) {
  for (uint32_t d = 0; d < k->schema->dimension_count; d++)
    if (b->keys[d] && is_nan(k, d, b->keys[d][cell])) return true;
  return false;
}

/* Fills the keys, space tile numbers and Hilbert codes of all cells of a block. */
static int prepare_job(coordinates_check *k, cell_block *b, tsr_error *fault) {
  const tsr_schema *schema = k->schema;
  uint32_t n = schema->dimension_count;
  bool hilbert = schema->cell_order == TSR_ORDER_HILBERT;
  TSR_TRY(TSR_ARENA_ARRAY(&b->arena, tsr__mul_sat(2, n), &b->keys, fault));
  b->numbers = b->keys + n;
  for (uint32_t d = 0; d < n; d++) {
    const tsr_field *field = &schema->fields[d];
    if (field->values_per_cell == TSR_VARIABLE) continue;
    TSR_TRY(TSR_ARENA_RAW(&b->arena, b->cells, &b->keys[d], fault));
    tsr__keys(field->datatype, fixed_value(k, b, d, 0), b->cells, b->keys[d]);
    if (!field->has_extent || hilbert) continue;
    TSR_TRY(TSR_ARENA_RAW(&b->arena, b->cells, &b->numbers[d], fault));
    for (uint64_t i = 0; i < b->cells; i++) b->numbers[d][i] = tsr__tile_number(field, fixed_value(k, b, d, i));
  }
  b->codes = NULL;
  if (!hilbert) return TSR_OK;
  TSR_TRY(TSR_ARENA_RAW(&b->arena, b->cells, &b->codes, fault));
  const void **values;
  uint64_t *sizes;
  TSR_TRY(TSR_ARENA_ARRAY(&b->arena, n, &values, fault));
  TSR_TRY(TSR_ARENA_ARRAY(&b->arena, n, &sizes, fault));
  for (uint64_t i = 0; i < b->cells; i++) {
    for (uint32_t d = 0; d < n; d++) {
      tsr_check_bound bound = bound_at(k, b, d, i);
      values[d] = b->keys[d] ? fixed_value(k, b, d, i) : bound.text;
      sizes[d] = bound.key;
    }
    b->codes[i] = tsr__hilbert_code(schema, values, sizes);
  }
  return TSR_OK;
}

/* Compares strings as signed bytes. */
static int compare_signed(const tsr_check_bound *a, const tsr_check_bound *b) {
  for (uint64_t i = 0; i < a->key && i < b->key; i++)
    if (a->text[i] != b->text[i]) return (int8_t)a->text[i] < (int8_t)b->text[i] ? -1 : 1;
  return a->key < b->key ? -1 : a->key > b->key;
}

/* Compares two cells in global order (format.md, "Orders"). */
static int compare_cells(const coordinates_check *k, const cell_block *a, uint64_t i, const cell_block *b, uint64_t j,
                         bool signed_text) {
  uint32_t n = k->schema->dimension_count;
  bool col_tiles = k->schema->tile_order == TSR_ORDER_COL, col_cells = k->schema->cell_order == TSR_ORDER_COL;
  if (a->codes && a->codes[i] != b->codes[j]) return a->codes[i] < b->codes[j] ? -1 : 1;
  for (uint32_t at = 0; at < n; at++) {
    uint32_t d = col_tiles ? n - 1 - at : at;
    if (a->numbers[d] && a->numbers[d][i] != b->numbers[d][j]) return a->numbers[d][i] < b->numbers[d][j] ? -1 : 1;
  }
  for (uint32_t at = 0; at < n; at++) {
    uint32_t d = col_cells ? n - 1 - at : at;
    tsr_check_bound x = bound_at(k, a, d, i), y = bound_at(k, b, d, j);
    bool text = !a->keys[d];
    int c = text && signed_text ? compare_signed(&x, &y) : tsr__check_compare_bounds(text, &x, &y);
    if (c) return c;
  }
  return 0;
}

typedef struct order_faults { /* of one tile */
  uint64_t disorder, first_disorder; /* cells out of order: number, and the first one */
  uint64_t duplicates, first_duplicate; /* cells with the coordinates of the previous cell */
  bool signed_order; /* strings in the order of signed bytes */
} order_faults;

/* Checks cell j of b, which follows cell i of a. */
static void check_pair(const coordinates_check *k, const cell_block *a, uint64_t i, const cell_block *b, uint64_t j,
                       order_faults *faults) {
  int c = compare_cells(k, a, i, b, j, false);
  if (c < 0) return;
  if (has_nan(k, a, i) || has_nan(k, b, j)) return;
  if (c > 0 && compare_cells(k, a, i, b, j, true) <= 0) {
    faults->signed_order = true;
    c = compare_cells(k, a, i, b, j, true);
    if (c < 0) return;
  }
  if (c > 0) {
    if (faults->disorder++ == 0) faults->first_disorder = j;
    return;
  }
  /* Merged fragments keep all versions of a cell, newest first. */
  if (k->schema->allows_duplicates || (a->times && b->times && a->times[i] >= b->times[j])) return;
  if (faults->duplicates++ == 0) faults->first_duplicate = j;
}

static int check_order(coordinates_check *k, const cell_block *b, const cell_block *before) {
  tsr_fragment_check *f = k->f;
  order_faults faults = {0};
  if (k->lossy) return TSR_OK;
  if (before->loaded && before->number + 1 == b->number) check_pair(k, before, before->cells - 1, b, 0, &faults);
  for (uint64_t i = 1; i < b->cells; i++) check_pair(k, b, i - 1, b, i, &faults);
  if (faults.signed_order && !k->reported_signed) {
    k->reported_signed = true;
    TSR_TRY(tsr__check_say(f->c, TSR_SEVERITY_NOTE, f->directory.text,
                           "tile %llu: strings with bytes of 0x80 and more are in the order of signed bytes, as TileDB "
                           "writes them",
                           (unsigned long long)b->number));
  }
  if (faults.disorder > 0 && k->old_order && !k->reported_old_order) {
    k->reported_old_order = true;
    TSR_TRY(tsr__check_say(f->c, TSR_SEVERITY_NOTE, f->directory.text,
                           "tile %llu: cells are in another order than today's, as libraries of version %u wrote them",
                           (unsigned long long)b->number, f->metadata.version));
  }
  if (faults.disorder > 0 && !k->old_order)
    TSR_TRY(tsr__check_say(f->c, TSR_SEVERITY_ERROR, f->directory.text,
                           "tile %llu: out of order: cell %llu belongs before the one in front of it (%llu such cells)",
                           (unsigned long long)b->number, (unsigned long long)faults.first_disorder,
                           (unsigned long long)faults.disorder));
  if (faults.duplicates > 0)
    TSR_TRY(
        tsr__check_say(f->c, TSR_SEVERITY_ERROR, f->directory.text,
                       "tile %llu: duplicates: cell %llu has the coordinates of the one before it (%llu such cells), "
                       "but the array allows no duplicates",
                       (unsigned long long)b->number, (unsigned long long)faults.first_duplicate,
                       (unsigned long long)faults.duplicates));
  return TSR_OK;
}

/* Checks that the tile's MBR is exactly the bounding box of its cells, and keeps the ends of the cells. */
static int check_tile_box(coordinates_check *k, const cell_block *b, uint32_t d, tsr_check_bound low,
                          tsr_check_bound high) {
  tsr_fragment_check *f = k->f;
  const tsr_check_bound should[2] = {low, high};
  bool text = tsr__check_is_text(f, d);
  uint64_t at = (b->number * k->schema->dimension_count + d) * 2;
  const tsr_check_bound *stored = &f->boxes[at];
  tsr_check_bound *kept = &f->cell_boxes[at];
  for (unsigned end = 0; end < 2; end++) {
    tsr_check_words x, y;
    if (text && end == 1 && !layout_has_string_high_ends(f->metadata.version) && should[0].key == 0)
      continue; /* these versions lose such a high end */
    if (tsr__check_compare_bounds(text, &stored[end], &should[end]) == 0) continue;
    TSR_TRY(tsr__check_say(f->c, TSR_SEVERITY_ERROR, f->metadata_path.text,
                           "R-tree: box (MBR) of tile %llu, dimension '%s': its %s end is %s, the cells have %s",
                           (unsigned long long)b->number, k->schema->fields[d].name, end ? "high" : "low",
                           tsr__check_show_bound(f, d, &stored[end], &x),
                           tsr__check_show_bound(f, d, &should[end], &y)));
    kept[end].key = should[end].key;
    if (!text) continue;
    TSR_TRY(TSR_ARENA_COPY(&f->arena, should[end].text, should[end].key, &kept[end].text, f->c->error));
  }
  return TSR_OK;
}

/* *within: all cells are in the domain. */
static int check_domain(coordinates_check *k, const cell_block *b, uint32_t d, bool *within) {
  const tsr_field *field = &k->schema->fields[d];
  uint64_t low = tsr__key(field->datatype, field->low), high = tsr__key(field->datatype, field->high);
  uint64_t outside = 0, first = 0;
  for (uint64_t i = 0; i < b->cells; i++) {
    uint64_t key = b->keys[d][i];
    if ((key >= low && key <= high) || is_nan(k, d, key)) continue;
    if (outside++ == 0) first = i;
  }
  *within = outside == 0;
  if (*within) return TSR_OK;
  tsr_check_path path;
  tsr_check_words words;
  TSR_TRY(tsr__check_part_path(k->f, k->slots[k->together ? 0 : d].slot, TSR_PART_FIXED, &path));
  return tsr__check_say(k->f->c, TSR_SEVERITY_ERROR, path.text,
                        "field '%s', tile %llu: cell %llu is %s, outside of the domain (%llu such cells)", field->name,
                        (unsigned long long)b->number, (unsigned long long)first,
                        tsr__check_show_value(field->datatype, fixed_value(k, b, d, first), &words),
                        (unsigned long long)outside);
}

static int check_dimension(coordinates_check *k, const cell_block *b, uint32_t d) {
  tsr_fragment_check *f = k->f;
  bool text = !b->keys[d], nan = false, within = true;
  tsr_check_bound low = bound_at(k, b, d, 0), high = low;
  if (k->dimension_lossy[d]) return TSR_OK;
  for (uint64_t i = 0; i < b->cells; i++) {
    tsr_check_bound v = bound_at(k, b, d, i);
    nan = nan || (!text && is_nan(k, d, v.key));
    if (tsr__check_compare_bounds(text, &v, &low) < 0) low = v;
    if (tsr__check_compare_bounds(text, &v, &high) > 0) high = v;
  }
  if (k->schema->fields[d].has_domain && !text) TSR_TRY(check_domain(k, b, d, &within));
  if (!f->boxes || !within) return TSR_OK;
  if (nan) f->box_open[d] = true; /* what TileDB stores for NaN depends on the order of the cells */
  return nan ? TSR_OK : check_tile_box(k, b, d, low, high);
}

/* ---- Times of cells ---------------------------------------------------------------------------------------------- */

static int report_time(coordinates_check *k, const cell_block *b, int64_t slot, uint64_t cell, uint64_t value,
                       const char *fault) {
  tsr_check_path path;
  TSR_TRY(tsr__check_part_path(k->f, k->slots[slot].slot, TSR_PART_FIXED, &path));
  return tsr__check_say(k->f->c, TSR_SEVERITY_ERROR, path.text, "tile %llu: cell %llu has %llu, %s",
                        (unsigned long long)b->number, (unsigned long long)cell, (unsigned long long)value, fault);
}

static const uint64_t *values_of(const cell_block *b, int64_t slot) {
  return slot < 0 ? NULL : (const uint64_t *)(const void *)b->tiles[slot]->values;
}

/* Checks the system columns of a tile; reports the first fault of each kind. */
static int check_times(coordinates_check *k, const cell_block *b) {
  const tsr_name *name = &k->f->fragment->parsed;
  const uint64_t *times = b->times, *deleted = values_of(b, k->delete_times);
  const uint64_t *conditions = values_of(b, k->delete_conditions);
  for (uint64_t i = 0; times && i < b->cells; i++)
    if (times[i] < name->start || times[i] > name->end) {
      TSR_TRY(report_time(k, b, k->times, i, times[i], "a time outside of the fragment's"));
      break;
    }
  for (uint64_t i = 0; deleted && times && i < b->cells; i++)
    if (deleted[i] < times[i]) {
      TSR_TRY(report_time(k, b, k->delete_times, i, deleted[i], "a time of deletion before it was written"));
      break;
    }
  for (uint64_t i = 0; conditions && deleted && k->f->processed_sound && i < b->cells; i++)
    if (deleted[i] != UINT64_MAX && conditions[i] >= k->f->metadata.processed.count) {
      TSR_TRY(report_time(k, b, k->delete_conditions, i, conditions[i], "a condition that the fragment does not list"));
      break;
    }
  return TSR_OK;
}

/* ---- Sparse fragments -------------------------------------------------------------------------------------------- */

/* Copies the last cell of a tile, which the first cell of the next one is compared with. */
static int copy_last(coordinates_check *k, const cell_block *b, tsr_error *fault) {
  cell_block *last = &k->last;
  const uint32_t n = k->schema->dimension_count;
  const uint64_t cell = b->cells - 1;
  uint64_t *value;
  tsr__arena_release(&last->arena);
  last->loaded = false;
  TSR_TRY(TSR_ARENA_ARRAY(&last->arena, tsr__mul_sat(2, n), &last->keys, fault));
  TSR_TRY(TSR_ARENA_ARRAY(&last->arena, n, &last->texts, fault));
  TSR_TRY(TSR_ARENA_ARRAY(&last->arena, tsr__mul_sat(2, n) + 2, &value, fault));
  last->numbers = last->keys + n;
  for (uint32_t d = 0; d < n; d++) {
    const tsr_check_bound bound = bound_at(k, b, d, cell);
    if (b->keys[d]) *(last->keys[d] = value++) = bound.key;
    else TSR_TRY(TSR_ARENA_COPY(&last->arena, bound.text, bound.key, &last->texts[d].text, fault));
    last->texts[d].key = bound.key;
    if (b->numbers[d]) *(last->numbers[d] = value++) = b->numbers[d][cell];
  }
  last->codes = NULL;
  last->times = NULL;
  if (b->codes) *(last->codes = value++) = b->codes[cell];
  if (b->times) {
    *value = b->times[cell];
    last->times = value;
  }
  last->number = b->number;
  last->cells = 1;
  last->loaded = true;
  return TSR_OK;
}

/* Reports that something about a tile's coordinates was not checked. */
static int report_unchecked(coordinates_check *k, const cell_block *b, const char *part, const tsr_error *fault) {
  tsr_check_words what;
  snprintf(what.text, sizeof what.text, "%s of tile %llu", part, (unsigned long long)b->number);
  return tsr__check_fault(k->f->c, k->f->directory.text, fault, what.text);
}

/* Checks the coordinates and times of the tile `index` of a window. If memory is short, it drops the tiles that
 * follow. */
static int check_block(coordinates_check *k, cells_window *w, uint64_t index) {
  cell_block *b = &k->block;
  tsr_error fault = {0};
  int rc = prepare_job(k, b, &fault);
  if (tsr__lacks_memory(rc) && w->count > index + 1) {
    shorten_window(w, index + 1);
    tsr__arena_release(&b->arena);
    rc = prepare_job(k, b, &fault);
  }
  if (rc < 0) return report_unchecked(k, b, "coordinates", &fault);
  for (uint32_t d = 0; d < k->schema->dimension_count; d++) TSR_TRY(check_dimension(k, b, d));
  TSR_TRY(check_order(k, b, &k->last));
  TSR_TRY(check_times(k, b));
  return copy_last(k, b, &fault) < 0 ? report_unchecked(k, b, "order behind the last cell", &fault) : TSR_OK;
}

static int check_coordinate_tile(coordinates_check *k, cells_window *w, uint64_t index) {
  const cells_job *jobs = &w->jobs[index * w->slot_count];
  cell_block *b = &k->block;
  for (uint32_t s = 0; s < k->slot_count; s++) {
    if (s >= k->dimension_slots)
      TSR_TRY(tsr__check_tile_statistics(k->f, k->slots[s].slot, jobs->number, jobs[s].tile, NULL));
  }
  for (uint32_t s = 0; s < k->slot_count; s++)
    if (!jobs[s].tile) return TSR_OK;
  for (uint32_t s = 0; s < k->slot_count; s++) b->tiles[s] = jobs[s].tile;
  b->number = jobs->number;
  b->cells = jobs->tile->cells;
  b->times = values_of(b, k->times);
  const int rc = check_block(k, w, index);
  tsr__arena_release(&b->arena);
  return rc;
}

static int walk_coordinates(coordinates_check *k) {
  cells_window w = {.f = k->f, .slots = k->slots, .slot_count = k->slot_count};
  int rc = TSR_OK;
  for (uint64_t tile = 0; rc >= 0 && tile < k->f->metadata.tile_count; tile += w.count) {
    rc = load_window(&w, tile);
    for (uint64_t i = 0; rc >= 0 && i < w.count; i++) {
      rc = check_coordinate_tile(k, &w, i);
      drop_checked(&w, i);
    }
    drop_window(&w);
  }
  return rc;
}

static bool is_coordinate(const tsr_fragment_check *f, uint32_t slot, tsr_system_column *system_column) {
  int64_t field = tsr__fragment_slot_field(&f->metadata, slot, system_column);
  return field >= 0 ? (uint64_t)field < f->metadata.schema->dimension_count : true;
}

/* Returns true if the library that wrote this version may have used a different global order for this schema. Before
 * 2.12, TileDB computed different tile numbers and Hilbert codes for some datatypes:
 * - up to version 4: the quotients of floats were not truncated to tile numbers
 * - up to 8: differences of integers overflowed if the domain is wider than the signed type
 * - 9 to 15: INT8 and INT16 were taken for unsigned if the domain begins below 0
 * - Hilbert codes up to 8: the divisor for integers was greater by one; up to 15: empty strings gave arbitrary codes */
static bool has_old_order(const tsr_schema *schema, uint32_t version) {
  if (layout_has_exact_order(version)) return false;
  if (schema->cell_order == TSR_ORDER_HILBERT && layout_has_other_hilbert_divisor(version)) return true;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_field *field = &schema->fields[d];
    tsr_kind kind = tsr_datatype_kind(field->datatype);
    uint64_t size = tsr_datatype_size(field->datatype);
    if (schema->cell_order == TSR_ORDER_HILBERT) {
      if (field->values_per_cell == TSR_VARIABLE) return true;
      continue;
    }
    if (!field->has_extent) continue;
    uint64_t low = tsr__key(field->datatype, field->low), high = tsr__key(field->datatype, field->high);
    uint64_t zero = tsr__key(field->datatype, (const uint8_t[8]){0});
    if (kind == TSR_KIND_FLOAT && layout_has_float_tile_numbers(version)) return true;
    if (kind == TSR_KIND_FLOAT) continue;
    if (layout_overflows_wide_domains(version) && high - low >= UINT64_C(1) << (8 * size - 1)) return true;
    if (layout_takes_small_integers_for_unsigned(version) && size <= 2 && kind == TSR_KIND_SIGNED && low < zero)
      return true;
  }
  return false;
}

/* Opens the slots of k->slots in order. *usable is false if a dimension is not usable. */
static int open_coordinates(coordinates_check *k, bool *usable) {
  tsr_fragment_check *f = k->f;
  static const tsr_system_column system_columns[] = {TSR_SLOT_TIMES, TSR_SLOT_DELETE_TIMES, TSR_SLOT_DELETE_CONDITIONS};
  int64_t *const places[] = {&k->times, &k->delete_times, &k->delete_conditions};
  int64_t together = tsr__fragment_system_slot(&f->metadata, TSR_SLOT_COORDS);
  uint32_t dimensions = k->schema->dimension_count;
  bool opened = true;
  *usable = true;
  k->together = together >= 0;
  k->old_order = has_old_order(k->schema, f->metadata.version);
  TSR_TRY(TSR_ARENA_ARRAY(&f->arena, dimensions + 4, &k->slots, f->c->error));
  TSR_TRY(TSR_ARENA_ARRAY(&f->arena, dimensions + 4, &k->block.tiles, f->c->error));
  TSR_TRY(TSR_ARENA_ARRAY(&f->arena, dimensions, &k->dimension_lossy, f->c->error));
  for (uint32_t d = 0; d < dimensions; d++) {
    k->dimension_lossy[d] = tsr__pipeline_is_lossy(tsr__schema_pipeline(k->schema, d));
    k->lossy = k->lossy || k->dimension_lossy[d];
  }
  for (uint32_t d = 0; opened && d < (k->together ? 1 : dimensions); d++) {
    int64_t slot = k->together ? together : tsr__fragment_slot(&f->metadata, d);
    opened = slot >= 0;
    if (opened) TSR_TRY(open_slot(f, (uint32_t)slot, &k->slots[k->slot_count], &opened));
    if (opened) k->slot_count++;
  }
  *usable = opened;
  k->dimension_slots = k->slot_count;
  for (unsigned i = 0; i < 3; i++) {
    int64_t slot = tsr__fragment_system_slot(&f->metadata, system_columns[i]);
    *places[i] = -1;
    if (slot >= 0) TSR_TRY(open_slot(f, (uint32_t)slot, &k->slots[k->slot_count], &opened));
    if (slot >= 0 && opened) *places[i] = k->slot_count++;
  }
  return TSR_OK;
}

static int check_slot(tsr_fragment_check *f, uint32_t slot, dense_box *box);

static int check_coordinates(tsr_fragment_check *f) {
  coordinates_check k = {
      .f = f, .schema = f->metadata.schema, .times = -1, .delete_times = -1, .delete_conditions = -1};
  bool usable = false;
  tsr__arena_init(&k.block.arena, &f->c->memory);
  tsr__arena_init(&k.last.arena, &f->c->memory);
  int rc = open_coordinates(&k, &usable);
  if (rc >= 0 && usable) rc = walk_coordinates(&k);
  tsr__arena_release(&k.block.arena);
  tsr__arena_release(&k.last.arena);
  for (uint32_t s = 0; s < k.slot_count; s++) close_slot(&k.slots[s]);
  if (rc < 0 || usable) return rc;
  for (uint32_t slot = 0; slot < f->metadata.slot_count; slot++) { /* decode at least the existing slots */
    tsr_system_column system_column;
    if (is_coordinate(f, slot, &system_column)) TSR_TRY(check_slot(f, slot, NULL));
  }
  return TSR_OK;
}

/* ---- Dense tiles, and their cells in the fragment's box ---------------------------------------------------------- */

struct dense_box { /* all lists are by dimension */
  tsr_grid grid;
  uint64_t *low, *high; /* the fragment's non-empty domain: ordinals, inclusive */
  uint64_t *first, *count; /* its first space tile and number of tiles */
  uint64_t *from, *to; /* the part of the current tile in the box, inclusive, counted from the tile's first cell */
  uint64_t *at; /* a cell of that part */
  tsr_buffer mask; /* u8[cell of the tile] */
};

static int make_box(tsr_fragment_check *f, dense_box *box, tsr_error *fault) {
  const tsr_schema *schema = f->metadata.schema;
  uint32_t n = schema->dimension_count;
  box->mask.memory = &f->c->memory;
  TSR_TRY(tsr__grid_make(schema, &f->arena, &box->grid, fault));
  TSR_TRY(TSR_ARENA_ARRAY(&f->arena, tsr__mul_sat(7, n), &box->low, fault));
  box->high = box->low + n;
  box->first = box->high + n;
  box->count = box->first + n;
  box->from = box->count + n;
  box->to = box->from + n;
  box->at = box->to + n;
  for (uint32_t d = 0; d < n; d++) {
    tsr_datatype datatype = schema->fields[d].datatype;
    const tsr_interval *domain = &f->metadata.non_empty_domain[d];
    box->low[d] = tsr__key(datatype, domain->low) - box->grid.low_key[d];
    box->high[d] = tsr__key(datatype, domain->high) - box->grid.low_key[d];
    box->first[d] = box->low[d] / box->grid.extent[d];
    box->count[d] = box->high[d] / box->grid.extent[d] - box->first[d] + 1;
  }
  return TSR_OK;
}

/* Makes the mask of a tile: 1 for cells in the box, 0 for others. *mask is NULL if all cells are in the box. */
static int make_mask(dense_box *box, uint64_t number, const uint8_t **mask, tsr_error *fault) {
  const tsr_grid *grid = &box->grid;
  uint32_t n = grid->dimensions;
  bool all_inside = true;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t d = grid->col_major_tiles ? i : n - 1 - i; /* the fastest dimension first */
    uint64_t corner = (box->first[d] + number % box->count[d]) * grid->extent[d];
    number /= box->count[d];
    box->from[d] = box->low[d] > corner ? box->low[d] - corner : 0;
    box->to[d] = TSR_MIN(box->high[d] - corner, grid->extent[d] - 1);
    all_inside = all_inside && box->from[d] == 0 && box->to[d] == grid->extent[d] - 1;
    box->at[d] = box->from[d];
  }
  *mask = NULL;
  if (all_inside) return TSR_OK;
  box->mask.size = 0;
  TSR_TRY(tsr__buffer_reserve(&box->mask, grid->tile_cells, fault));
  memset(box->mask.data, 0, grid->tile_cells);
  uint32_t fast = grid->col_major_cells ? 0 : n - 1;
  for (;;) { /* row by row */
    memset(box->mask.data + tsr__grid_cell(grid, box->at), 1, box->to[fast] - box->from[fast] + 1);
    uint32_t i = 1;
    for (; i < n; i++) {
      uint32_t d = grid->col_major_cells ? i : n - 1 - i;
      if (box->at[d]++ < box->to[d]) break;
      box->at[d] = box->from[d];
    }
    if (i >= n) break;
  }
  *mask = box->mask.data;
  return TSR_OK;
}

/* ---- Attributes -------------------------------------------------------------------------------------------------- */

static int check_validity(tsr_fragment_check *f, uint32_t slot, uint64_t number, const tsr_tile *tile) {
  tsr_check_path path;
  tsr_check_words words;
  uint64_t odd = 0;
  for (uint64_t i = 0; tile->validity && i < tile->cells; i++) odd += tile->validity[i] > 1;
  if (odd == 0) return TSR_OK;
  TSR_TRY(tsr__check_part_path(f, slot, TSR_PART_VALIDITY, &path));
  return tsr__check_say(f->c, TSR_SEVERITY_WARNING, path.text,
                        "%s, tile %llu: the validity of %llu cells is neither 0 nor 1",
                        tsr__check_field(f, slot, &words), (unsigned long long)number, (unsigned long long)odd);
}

/* Checks the tile `index` of a window of one slot. If memory is short, it drops the tiles that follow. */
static int check_tile(cells_window *w, dense_box *box, uint64_t index) {
  tsr_fragment_check *f = w->f;
  const cells_job *j = &w->jobs[index];
  const uint32_t slot = j->source->slot;
  const uint8_t *mask = NULL;
  tsr_error fault = {0};
  int rc = TSR_OK;
  if (j->tile) TSR_TRY(check_validity(f, slot, j->number, j->tile));
  if (j->tile && box) rc = make_mask(box, j->number, &mask, &fault);
  if (tsr__lacks_memory(rc) && w->count > index + 1) {
    shorten_window(w, index + 1);
    rc = make_mask(box, j->number, &mask, &fault);
  }
  if (rc < 0) return tsr__check_fault(f->c, f->directory.text, &fault, "statistics");
  return tsr__check_tile_statistics(f, slot, j->number, j->tile, mask);
}

static int check_slot(tsr_fragment_check *f, uint32_t slot, dense_box *box) {
  opened_slot opened;
  bool usable;
  TSR_TRY(open_slot(f, slot, &opened, &usable));
  if (!usable) return TSR_OK;
  cells_window w = {.f = f, .slots = &opened, .slot_count = 1};
  int rc = TSR_OK;
  for (uint64_t tile = 0; rc >= 0 && tile < f->metadata.tile_count; tile += w.count) {
    rc = load_window(&w, tile);
    for (uint64_t i = 0; rc >= 0 && i < w.count; i++) {
      rc = check_tile(&w, box, i);
      drop_checked(&w, i);
    }
    drop_window(&w);
  }
  close_slot(&opened);
  return rc;
}

/* Adds the stored statistics of all tiles to the summaries, without reading a tile. */
static int check_quickly(tsr_fragment_check *f) {
  for (uint32_t slot = 0; slot < f->metadata.slot_count; slot++)
    for (uint64_t tile = 0; f->metadata.slots[slot].present && tile < f->metadata.tile_count; tile++) {
      if (tile % 65536 == 65535) TSR_TRY(tsr__cancelled(&f->c->environment->memory, f->c->error));
      TSR_TRY(tsr__check_tile_statistics(f, slot, tile, NULL, NULL));
    }
  return TSR_OK;
}

int tsr__check_cells(tsr_fragment_check *f) {
  dense_box box = {0};
  tsr_error fault = {0};
  if (f->metadata.tile_count == 0) return TSR_OK;
  if (f->c->quick) return check_quickly(f);
  if (f->metadata.dense && make_box(f, &box, &fault) < 0)
    return tsr__check_fault(f->c, f->directory.text, &fault, NULL);
  int rc = f->metadata.dense ? TSR_OK : check_coordinates(f);
  for (uint32_t slot = 0; rc >= 0 && slot < f->metadata.slot_count; slot++) {
    tsr_system_column system_column;
    if (!is_coordinate(f, slot, &system_column)) rc = check_slot(f, slot, f->metadata.dense ? &box : NULL);
  }
  tsr__buffer_release(&box.mask);
  return rc;
}
