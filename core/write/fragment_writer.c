/* fragment_writer.c: writes the files of one fragment from cells in their final order, window by window.
 *
 * A window is a few whole tiles, kept as plain columns. When it is full, each (tile, slot) is a task for the worker
 * threads: the task filters the tile and computes its statistics. In bulk, and where a dense tile comes as rows of a
 * box, a task also gathers the cells of its tile and field, which are then still in the core's cache. Then the stored
 * tiles are appended to their files in order, and the metadata of the tiles is recorded. So memory is bounded by a
 * window and the metadata, and files are written sequentially. A file is created when its first bytes are written; for
 * small fragments, at the end. Files are synced several at a time, which costs little more than syncing one.
 *
 * Invariants: all inputs hold `window.pending` cells (none while `direct.active`). Between calls that is less than
 * window.tile_cells * window.tiles. */
#include "write/fragment_writer.h"

#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "store/store.h"
#include "model/datatype.h"
#include "model/domain.h"
#include "format/fragment_metadata.h"
#include "format/fragment_statistics.h"
#include "format/layout.h"
#include "format/rtree.h"
#include "format/tile.h"
#include "environment/environment.h"

/* Approximate bytes of values in a window, unless a single tile has more. */
#define FRAGMENT_WRITER_WINDOW_BYTES (UINT64_C(4) << 20)
/* Bytes of values at which complete tiles are written even if the window has room. */
#define PENDING_MAX     (UINT64_C(64) << 20)
#define PENDING_WINDOWS 2 /* the same, as a multiple of target.window_bytes */
/* The largest window, as a multiple of target.window_bytes, so that all threads have tiles to encode. */
#define BUSY_WINDOWS                 4
#define FRAGMENT_WRITER_WINDOW_TILES 256
#define OUT_BYTES                    (UINT64_C(32) << 20) /* approximate bytes of all files' buffers together */
#define DIRECT_MIN                   1024 /* minimum number of cells in a tile for tasks to gather cells themselves */
#define ENDING_MAX                   32 /* complete files that may be open at once */

typedef struct input { /* a column of the window */
  const tsr_field *field; /* NULL: a system column */
  uint64_t cell_size; /* 0: variable size */
  bool nullable;
  bool stored; /* a slot stores it: not the dimensions of a dense fragment */
  tsr_buffer values, validity;
  tsr_buffer starts; /* u64: where each variable cell begins in `values`; then, not counted in its size, their end */
} input;

typedef struct slot_part {
  tsr_file *file;
  tsr_buffer out, offsets; /* bytes not in the file yet; u64 for each tile */
  uint64_t size;
} slot_part;

typedef struct written_slot {
  uint32_t number; /* number in the metadata */
  uint32_t first, inputs; /* inputs that it stores: one, or all dimensions (__coords) */
  tsr_tile_format format;
  slot_part parts[TSR_PART_COUNT];
  tsr_buffer var_sizes;
  bool used[TSR_PART_COUNT];
} written_slot;

typedef struct encoded { /* the result of a task: a tile of a slot */
  tsr_buffer parts[TSR_PART_COUNT];
  uint64_t variable_size;
  tsr_cell_statistics statistics;
} encoded;

typedef struct tile_window {
  uint64_t tile_cells, tiles; /* cells of a tile; maximum number of tiles in the window */
  uint64_t pending; /* cells in the window */
  uint64_t pending_max; /* bytes at which complete tiles are written even if the window has room */
  tsr_buffer written; /* dense: u8 for each pending cell; 0: padding */
  tsr_buffer runs; /* tsr_cell_range: cells of the window's tiles that are not padding */
  uint64_t *run_starts; /* tiles + 1: the first of `runs` of each tile */
  encoded *encoded; /* [tile * slot_count + slot] */
} tile_window;

typedef struct direct_writing { /* tasks gather the cells of their tiles themselves */
  input *gathered; /* [tile * slot_count + slot]: the cells; NULL: tasks never gather */
  uint32_t *slot_of; /* slot of each input */
  bool active; /* the window's cells are whole tiles of the current call */
  tsr_buffer rows; /* tsr_cell_range: the rows of the window's tiles, which come from `added.columns` */
  uint64_t *row_starts; /* window.tiles + 1: the first of `rows` of each tile */
} direct_writing;

typedef struct rtree_leaves { /* MBRs of a sparse fragment, as tsr__rtree_build takes them */
  tsr_buffer keys, sizes, text;
} rtree_leaves;

typedef struct tile_ending { /* complete files, to be synced and closed */
  tsr_file *files[ENDING_MAX];
  uint32_t count;
} tile_ending;

typedef struct added_cells { /* of tsr__fragment_writer_add, for the `count` cells from `from` on */
  const tsr_column *columns;
  const uint64_t *order;
  uint64_t from, count;
} added_cells;

struct tsr_fragment_writer {
  tsr_fragment_target target;
  tsr_fragment_metadata metadata; /* filled in as tiles are written */
  tsr_statistics_writer *statistics; /* by slot of the metadata */
  uint32_t input_count, slot_count;
  input *inputs;
  written_slot *slots; /* slots that have files */
  uint64_t out_max; /* maximum number of buffered bytes of a file */
  tile_window window;
  direct_writing direct;
  rtree_leaves leaves;
  tile_ending ending;
  added_cells added;
};

/* ---- Open and close ---------------------------------------------------------------------------------------------- */

static int make_inputs(tsr_fragment_writer *w, tsr_error *error) {
  const tsr_schema *schema = w->target.schema;
  uint32_t fields = schema->dimension_count + schema->attribute_count;
  uint32_t system_columns = (w->target.has_times ? 1 : 0) + (w->target.has_delete_metadata ? 2 : 0);
  w->input_count = fields + system_columns;
  TSR_TRY(TSR_ARENA_ARRAY(&w->metadata.arena, w->input_count, &w->inputs, error));
  for (uint32_t i = 0; i < w->input_count; i++) {
    input *in = &w->inputs[i];
    in->field = i < fields ? &schema->fields[i] : NULL;
    in->cell_size = in->field ? in->field->cell_size : 8;
    in->nullable = in->field && in->field->nullable;
    in->stored = !w->metadata.dense || i >= schema->dimension_count;
    in->values.memory = in->starts.memory = in->validity.memory = w->target.memory;
  }
  return TSR_OK;
}

static int make_slot(tsr_fragment_writer *w, uint32_t number, tsr_error *error) {
  written_slot *s = &w->slots[w->slot_count++];
  tsr_system_column system_column = TSR_SLOT_COORDS;
  int64_t field = tsr__fragment_slot_field(&w->metadata, number, &system_column);
  uint32_t fields = w->target.schema->dimension_count + w->target.schema->attribute_count;
  s->number = number;
  s->inputs = 1;
  if (field >= 0) s->first = (uint32_t)field;
  else if (system_column == TSR_SLOT_COORDS) s->inputs = w->target.schema->dimension_count;
  else
    s->first =
        fields +
        (system_column == TSR_SLOT_TIMES ? 0 : w->target.has_times + (system_column == TSR_SLOT_DELETE_CONDITIONS));
  s->var_sizes.memory = w->target.memory;
  for (int p = 0; p < TSR_PART_COUNT; p++) {
    s->parts[p].out.memory = s->parts[p].offsets.memory = w->target.memory;
    s->used[p] = tsr__fragment_slot_has_part(&w->metadata, number, p);
  }
  return tsr__tile_format(&w->metadata, number, w->target.key, &s->format, error);
}

static int make_slots(tsr_fragment_writer *w, tsr_error *error) {
  tsr_fragment_metadata *m = &w->metadata;
  TSR_TRY(tsr__fragment_metadata_make_slots(m, error));
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, m->slot_count, &w->slots, error));
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, m->slot_count, &w->statistics, error));
  for (uint32_t n = 0; n < m->slot_count; n++) {
    tsr_system_column system_column = TSR_SLOT_COORDS;
    int64_t field = tsr__fragment_slot_field(m, n, &system_column);
    bool attribute = field >= m->schema->dimension_count;
    tsr__statistics_writer_init(&w->statistics[n], field >= 0 ? &m->schema->fields[field] : NULL, w->target.memory);
    bool coordinates = field < 0 && system_column == TSR_SLOT_COORDS;
    m->slots[n].present =
        coordinates ? !layout_has_dimension_files(m->version) && !m->dense : attribute || field < 0 || !m->dense;
    if (m->slots[n].present) TSR_TRY(make_slot(w, n, error));
  }
  return TSR_OK;
}

static int make_window(tsr_fragment_writer *w, tsr_error *error) {
  uint64_t cell = 0, parts = 0;
  for (uint32_t i = 0; i < w->input_count; i++)
    if (w->inputs[i].stored) cell += w->inputs[i].cell_size ? w->inputs[i].cell_size : 24;
  for (uint32_t s = 0; s < w->slot_count; s++)
    for (int p = 0; p < TSR_PART_COUNT; p++) parts += w->slots[s].used[p];
  const uint64_t window = w->target.window_bytes ? TSR_MIN(w->target.window_bytes, FRAGMENT_WRITER_WINDOW_BYTES)
                                                 : FRAGMENT_WRITER_WINDOW_BYTES;
  const uint64_t tile = tsr__mul_sat(cell, w->window.tile_cells);
  uint64_t fit = window / TSR_MAX(tile, 1);
  uint64_t busy = (2 * (uint64_t)w->target.threads + w->slot_count - 1) / w->slot_count;
  if (w->target.window_bytes)
    busy = TSR_MIN(busy, tsr__mul_sat(BUSY_WINDOWS, w->target.window_bytes) / TSR_MAX(tile, 1));
  w->window.tiles = TSR_MIN(TSR_MAX(TSR_MAX(fit, busy), 1), FRAGMENT_WRITER_WINDOW_TILES);
  w->window.pending_max = w->target.window_bytes
                              ? TSR_MIN(tsr__mul_sat(PENDING_WINDOWS, w->target.window_bytes), PENDING_MAX)
                              : PENDING_MAX;
  const uint64_t out = w->target.window_bytes ? TSR_MIN(w->target.window_bytes, OUT_BYTES) : OUT_BYTES;
  w->out_max = TSR_MIN(TSR_MAX(out / parts, 16384), UINT64_C(1) << 20);
  TSR_TRY(TSR_ARENA_ARRAY(&w->metadata.arena, w->window.tiles + 1, &w->window.run_starts, error));
  uint64_t tasks = w->window.tiles * w->slot_count;
  TSR_TRY(TSR_ARENA_ARRAY(&w->metadata.arena, tasks, &w->window.encoded, error));
  for (uint64_t i = 0; i < tasks; i++)
    for (int p = 0; p < TSR_PART_COUNT; p++) w->window.encoded[i].parts[p].memory = w->target.memory;
  return TSR_OK;
}

/* Returns true if each input has its own slot, and in a dense fragment cells of a fixed size. */
static bool inputs_are_separate(const tsr_fragment_writer *w) {
  uint32_t taken = 0;
  for (uint32_t i = 0; i < w->input_count; i++) {
    taken += w->inputs[i].stored;
    if (w->metadata.dense && w->inputs[i].stored && !w->inputs[i].cell_size) return false;
  }
  for (uint32_t s = 0; s < w->slot_count; s++)
    if (w->slots[s].inputs > 1 || w->slots[s].format.coordinate_dimensions) return false;
  return w->slot_count == taken;
}

/* Lets tasks gather their cells if that is possible and tiles are large enough. */
static int make_gathered(tsr_fragment_writer *w, tsr_error *error) {
  if ((!w->target.in_bulk && !w->metadata.dense) || w->window.tile_cells < DIRECT_MIN || !inputs_are_separate(w))
    return TSR_OK;
  if (w->metadata.dense)
    TSR_TRY(TSR_ARENA_ARRAY(&w->metadata.arena, w->window.tiles + 1, &w->direct.row_starts, error));
  TSR_TRY(TSR_ARENA_ARRAY(&w->metadata.arena, w->input_count, &w->direct.slot_of, error));
  for (uint32_t s = 0; s < w->slot_count; s++) w->direct.slot_of[w->slots[s].first] = s;
  TSR_TRY(TSR_ARENA_ARRAY(&w->metadata.arena, w->window.tiles * w->slot_count, &w->direct.gathered, error));
  for (uint64_t i = 0; i < w->window.tiles * w->slot_count; i++)
    w->direct.gathered[i] = w->inputs[w->slots[i % w->slot_count].first];
  return TSR_OK;
}

static int prepare_writer(tsr_fragment_writer *w, tsr_error *error) {
  tsr_fragment_metadata *m = &w->metadata;
  const tsr_schema *schema = w->target.schema;
  m->version = w->target.version;
  m->schema = schema;
  m->schema_name = schema->name;
  m->dense = w->target.box != NULL;
  m->has_times = w->target.has_times;
  m->has_delete_metadata = w->target.has_delete_metadata;
  m->processed.count = w->target.processed_count;
  m->processed.names = w->target.processed;
  if (m->has_times && (!layout_has_cell_times(m->version) || m->dense))
    return tsr__fail(error, TSR_UNSUPPORTED, "a fragment of format version %u cannot have times of cells", m->version);
  if (m->dense) {
    tsr_grid grid;
    TSR_TRY(tsr__grid_make(schema, &m->arena, &grid, error));
    w->window.tile_cells = m->last_tile_cells = grid.tile_cells;
  } else {
    w->window.tile_cells = schema->capacity;
  }
  TSR_TRY(make_inputs(w, error));
  TSR_TRY(make_slots(w, error));
  TSR_TRY(make_window(w, error));
  return make_gathered(w, error);
}

int tsr__fragment_writer_open(const tsr_fragment_target *target, tsr_fragment_writer **writer, tsr_error *error) {
  tsr_fragment_writer *w;
  TSR_TRY(TSR_ALLOC(target->memory, &w, error));
  w->target = *target;
  tsr__arena_init(&w->metadata.arena, target->memory);
  w->window.written.memory = w->window.runs.memory = w->direct.rows.memory = target->memory;
  w->leaves.keys.memory = w->leaves.sizes.memory = w->leaves.text.memory = target->memory;
  int rc = prepare_writer(w, error);
  if (rc < 0) {
    tsr__fragment_writer_close(w);
    return rc;
  }
  *writer = w;
  return TSR_OK;
}

static void release_input(input *in) {
  tsr__buffer_release(&in->values);
  tsr__buffer_release(&in->starts);
  tsr__buffer_release(&in->validity);
}

static void close_ending(tsr_fragment_writer *w) {
  while (w->ending.count > 0) tsr__store_close_file(w->ending.files[--w->ending.count]);
}

void tsr__fragment_writer_close(tsr_fragment_writer *writer) {
  if (!writer) return;
  tsr_fragment_writer *w = writer;
  close_ending(w);
  for (uint32_t i = 0; w->inputs && i < w->input_count; i++) release_input(&w->inputs[i]);
  for (uint32_t s = 0; s < w->slot_count; s++) {
    for (int p = 0; p < TSR_PART_COUNT; p++) {
      tsr__store_close_file(w->slots[s].parts[p].file);
      tsr__buffer_release(&w->slots[s].parts[p].out);
      tsr__buffer_release(&w->slots[s].parts[p].offsets);
    }
    tsr__buffer_release(&w->slots[s].var_sizes);
  }
  for (uint32_t n = 0; w->statistics && n < w->metadata.slot_count; n++)
    tsr__statistics_writer_release(&w->statistics[n]);
  for (uint64_t i = 0; w->window.encoded && i < w->window.tiles * w->slot_count; i++) {
    for (int p = 0; p < TSR_PART_COUNT; p++) tsr__buffer_release(&w->window.encoded[i].parts[p]);
    if (w->direct.gathered) release_input(&w->direct.gathered[i]);
  }
  tsr__buffer_release(&w->window.written);
  tsr__buffer_release(&w->window.runs);
  tsr__buffer_release(&w->direct.rows);
  tsr__buffer_release(&w->leaves.keys);
  tsr__buffer_release(&w->leaves.sizes);
  tsr__buffer_release(&w->leaves.text);
  tsr__arena_release(&w->metadata.arena);
  tsr__free(w);
}

/* ---- Cells into the window --------------------------------------------------------------------------------------- */

#define AHEAD 24 /* how many cells ahead values are prefetched, since access is random */

static inline void fetch_ahead(const void *from, uint64_t size, const uint64_t *order, uint64_t i, uint64_t count) {
  if (i + AHEAD < count && order[i + AHEAD] != TSR_NO_CELL)
    __builtin_prefetch((const uint8_t *)from + order[i + AHEAD] * size);
}

#define FRAGMENT_WRITER_GATHER(type)                                                                                   \
  for (uint64_t i = 0; i < count; i++) {                                                                               \
    fetch_ahead(from, sizeof(type), order, i, count);                                                                  \
    if (order[i] != TSR_NO_CELL) ((type *)(void *)to)[i] = ((const type *)from)[order[i]];                             \
    else ((type *)(void *)to)[i] = 0;                                                                                  \
  }

/* Gathers cells of a fixed size; the buffer has room. */
static void gather_fixed(const uint8_t *from, uint64_t size, const uint64_t *order, uint64_t count, uint8_t *to) {
  bool aligned = ((uintptr_t)from | (uintptr_t)to) % size == 0;
  if (size == 1) {
    FRAGMENT_WRITER_GATHER(uint8_t)
  } else if (size == 2 && aligned) {
    FRAGMENT_WRITER_GATHER(uint16_t)
  } else if (size == 4 && aligned) {
    FRAGMENT_WRITER_GATHER(uint32_t)
  } else if (size == 8 && aligned) {
    FRAGMENT_WRITER_GATHER(uint64_t)
  } else {
    for (uint64_t i = 0; i < count; i++, to += size)
      if (order[i] != TSR_NO_CELL) memcpy(to, from + order[i] * size, size);
      else memset(to, 0, size);
  }
}

static int take_fixed(input *in, const tsr_column *column, uint64_t first, const uint64_t *order, uint64_t count,
                      tsr_error *error) {
  uint64_t size = in->cell_size, bytes = tsr__mul_sat(count, size);
  TSR_TRY(tsr__buffer_reserve(&in->values, bytes, error));
  uint8_t *to = in->values.data + in->values.size;
  const uint8_t *from = column->values;
  if (column->constant) {
    for (uint64_t i = 0; i < count; i++, to += size)
      if (order && order[i] == TSR_NO_CELL) memset(to, 0, size);
      else memcpy(to, from, size);
  } else if (order) {
    gather_fixed(from, size, order, count, to);
  } else {
    memcpy(to, from + first * size, bytes);
  }
  in->values.size += bytes;
  return TSR_OK;
}

/* Most strings are short: they are copied without a call. */
static inline void copy_short(uint8_t *to, const uint8_t *from, uint64_t size) {
  if (size > 16) memcpy(to, from, size);
  else if (size >= 8) {
    const uint64_t a = tsr__load64(from), b = tsr__load64(from + size - 8);
    tsr__store64(to, a);
    tsr__store64(to + size - 8, b);
  } else if (size >= 4) {
    const uint32_t a = tsr__load32(from), b = tsr__load32(from + size - 4);
    tsr__store32(to, a);
    tsr__store32(to + size - 4, b);
  } else {
    for (uint64_t i = 0; i < size; i++) to[i] = from[i];
  }
}

/* A padding cell is a single zero value. */
static int take_variable(input *in, const tsr_column *column, uint64_t first, const uint64_t *order, uint64_t count,
                         tsr_error *error) {
  uint64_t padding = tsr_datatype_size(in->field->datatype), total = 0;
  const uint64_t *offsets = column->offsets;
  const uint8_t *values = column->values;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t at = order ? order[i] : first + i, cell = column->constant ? 0 : at;
    if (order && !column->constant) fetch_ahead(offsets, 8, order, i, count);
    total += at == TSR_NO_CELL ? padding : offsets[cell + 1] - offsets[cell];
  }
  /* the buffer must exist even if all strings are empty */
  TSR_TRY(tsr__buffer_reserve(&in->values, TSR_MAX(total, 1), error));
  TSR_TRY(tsr__buffer_reserve(&in->starts, (count + 1) * 8, error));
  uint64_t *starts = (uint64_t *)(void *)(in->starts.data + in->starts.size);
  uint64_t start = in->values.size;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t at = order ? order[i] : first + i, cell = column->constant ? 0 : at, size = padding;
    starts[i] = start;
    if (order && values && !column->constant && i + AHEAD < count && order[i + AHEAD] != TSR_NO_CELL)
      __builtin_prefetch(values + offsets[order[i + AHEAD]]);
    if (at == TSR_NO_CELL) {
      memset(in->values.data + start, 0, size);
    } else {
      size = offsets[cell + 1] - offsets[cell];
      if (size) copy_short(in->values.data + start, values + offsets[cell], size);
    }
    start += size;
  }
  starts[count] = start;
  in->values.size = start;
  in->starts.size += count * 8;
  return TSR_OK;
}

static int take_validity(input *in, const tsr_column *column, uint64_t first, const uint64_t *order, uint64_t count,
                         tsr_error *error) {
  TSR_TRY(tsr__buffer_reserve(&in->validity, count, error));
  uint8_t *to = in->validity.data + in->validity.size;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t at = order ? order[i] : first + i;
    if (at == TSR_NO_CELL) to[i] = 0;
    else to[i] = !column->validity || column->validity[column->constant ? 0 : at] != 0;
  }
  in->validity.size += count;
  return TSR_OK;
}

/* Takes `count` cells of the current call, from `from` on. */
static int take_cells(const tsr_fragment_writer *w, uint32_t number, uint64_t from, uint64_t count, input *in,
                      tsr_error *error) {
  const tsr_column *column = &w->added.columns[number];
  const uint64_t *order = w->added.order ? w->added.order + from : NULL;
  TSR_TRY(in->cell_size ? take_fixed(in, column, from, order, count, error)
                        : take_variable(in, column, from, order, count, error));
  return in->nullable ? take_validity(in, column, from, order, count, error) : TSR_OK;
}

/* Takes the rows of a tile of the window. */
static int take_rows(const tsr_fragment_writer *w, uint64_t tile, uint32_t number, input *in, tsr_error *error) {
  const tsr_cell_range *rows = (const tsr_cell_range *)(const void *)w->direct.rows.data;
  TSR_TRY(tsr__buffer_reserve_exactly(&in->values, w->window.tile_cells * in->cell_size, error));
  if (in->nullable) TSR_TRY(tsr__buffer_reserve_exactly(&in->validity, w->window.tile_cells, error));
  for (uint64_t r = w->direct.row_starts[tile]; r < w->direct.row_starts[tile + 1]; r++) {
    if (rows[r].first != TSR_NO_CELL) {
      TSR_TRY(take_cells(w, number, rows[r].first, rows[r].count, in, error));
      continue;
    }
    memset(in->values.data + in->values.size, 0, rows[r].count * in->cell_size);
    in->values.size += rows[r].count * in->cell_size;
    if (!in->nullable) continue;
    memset(in->validity.data + in->validity.size, 0, rows[r].count);
    in->validity.size += rows[r].count;
  }
  return TSR_OK;
}

static int take_task(void *argument, uint64_t index, tsr_error *error) {
  tsr_fragment_writer *w = argument;
  input *in = &w->inputs[index];
  return in->stored ? take_cells(w, (uint32_t)index, w->added.from, w->added.count, in, error) : TSR_OK;
}

/* Returns the column with an input's cells of a tile of the window; they begin at *first. */
static const input *cells_of(const tsr_fragment_writer *w, uint64_t tile, uint32_t number, uint64_t *first) {
  *first = w->direct.active ? 0 : tile * w->window.tile_cells;
  return w->direct.active ? &w->direct.gathered[tile * w->slot_count + w->direct.slot_of[number]] : &w->inputs[number];
}

/* Records which cells of a dense tile are not padding. Sets *cells to their number. */
static int take_written(tsr_fragment_writer *w, uint64_t *cells, tsr_error *error) {
  *cells = w->added.count;
  if (!w->metadata.dense) return TSR_OK;
  TSR_TRY(tsr__buffer_reserve(&w->window.written, w->added.count, error));
  uint8_t *to = w->window.written.data + w->window.written.size;
  for (uint64_t i = 0; i < w->added.count; i++) {
    to[i] = !w->added.order || w->added.order[w->added.from + i] != TSR_NO_CELL;
    *cells -= !to[i];
  }
  w->window.written.size += w->added.count;
  return TSR_OK;
}

/* ---- Tiles of the window into bytes ------------------------------------------------------------------------------ */

static int encode_variable(const written_slot *s, const input *in, uint64_t first, uint64_t cells, encoded *e,
                           tsr_error *error) {
  const tsr_tile_format *f = &s->format;
  tsr_tile_shape shape = {f->datatype, tsr_datatype_size(f->datatype), f->version, f->key};
  tsr_tile_shape offsets_shape = {TSR_UINT64, sizeof(uint64_t), f->version, f->key};
  const uint64_t *starts = (const uint64_t *)(const void *)in->starts.data;
  uint64_t *offsets;
  TSR_TRY(TSR_ALLOC_RAW(e->parts[0].memory, cells + 1, &offsets, error));
  for (uint64_t i = 0; i < cells; i++) offsets[i] = starts[first + i] - starts[first];
  offsets[cells] = e->variable_size = starts[first + cells] - starts[first];
  int rc = TSR_OK;
  bool holds = tsr__pipeline_holds_offsets(f->values, f->datatype, f->values_per_cell, f->version);
  if (holds) rc = tsr__buffer_append_u64(&e->parts[TSR_PART_FIXED], 0, error); /* a tile of no chunks */
  else
    rc = tsr__pipeline_encode(f->offsets, &offsets_shape, (const uint8_t *)offsets, cells * sizeof(uint64_t), NULL,
                              cells, &e->parts[TSR_PART_FIXED], error);
  if (rc < 0) rc = tsr__wrap(error, "offsets");
  /* A tile without bytes has no chunks either: some pipelines turn an empty chunk into bytes that TileDB cannot read.
   */
  else if (!holds && !e->variable_size) rc = tsr__buffer_append_u64(&e->parts[TSR_PART_VARIABLE], 0, error);
  else
    rc = tsr__pipeline_encode(f->values, &shape, in->values.data + starts[first], e->variable_size, offsets, cells,
                              &e->parts[TSR_PART_VARIABLE], error);
  tsr__free(offsets);
  return rc;
}

/* Encodes the coordinates of all dimensions, dimension by dimension. */
static int encode_coordinates(const tsr_fragment_writer *w, const written_slot *s, uint64_t first, uint64_t cells,
                              encoded *e, tsr_error *error) {
  tsr_buffer zipped = {.memory = w->target.memory};
  int rc = TSR_OK;
  uint64_t size = w->inputs[0].cell_size;
  for (uint32_t d = 0; d < s->inputs && rc >= 0; d++)
    rc = tsr__buffer_append(&zipped, w->inputs[d].values.data + first * size, cells * size, error);
  tsr_tile_shape shape = {s->format.datatype, size * s->inputs, s->format.version, s->format.key};
  if (rc >= 0)
    rc = tsr__pipeline_encode(s->format.values, &shape, zipped.data, zipped.size, NULL, cells,
                              &e->parts[TSR_PART_FIXED], error);
  tsr__buffer_release(&zipped);
  return rc;
}

static int encode_values(const tsr_fragment_writer *w, const written_slot *s, const input *in, uint64_t first,
                         uint64_t cells, encoded *e, tsr_error *error) {
  if (s->inputs > 1 || s->format.coordinate_dimensions) return encode_coordinates(w, s, first, cells, e, error);
  if (!in->cell_size) return encode_variable(s, in, first, cells, e, error);
  tsr_tile_shape shape = {s->format.datatype, in->cell_size, s->format.version, s->format.key};
  return tsr__pipeline_encode(s->format.values, &shape, in->values.data + first * in->cell_size, cells * in->cell_size,
                              NULL, cells, &e->parts[TSR_PART_FIXED], error);
}

static void find_statistics(const tsr_fragment_writer *w, const written_slot *s, const input *in, uint64_t tile,
                            uint64_t first, encoded *e) {
  const tsr_field *field = w->statistics[s->number].field;
  if (!field) return;
  const tsr_cell_range *runs = (const tsr_cell_range *)(const void *)w->window.runs.data + w->window.run_starts[tile];
  uint64_t count = w->window.run_starts[tile + 1] - w->window.run_starts[tile];
  const uint8_t *validity = in->nullable ? in->validity.data + first : NULL;
  if (in->cell_size) {
    tsr__statistics_of_tile(field, in->values.data + first * in->cell_size, NULL, validity, runs, count,
                            &e->statistics);
  } else {
    tsr__statistics_of_tile(field, in->values.data, (const uint64_t *)(const void *)in->starts.data + first, validity,
                            runs, count, &e->statistics);
  }
}

static int encode_task(void *argument, uint64_t index, tsr_error *error) {
  tsr_fragment_writer *w = argument;
  uint64_t tile = index / w->slot_count, first;
  uint64_t cells = TSR_MIN(w->window.tile_cells, w->window.pending - tile * w->window.tile_cells);
  const written_slot *s = &w->slots[index % w->slot_count];
  encoded *e = &w->window.encoded[index];
  for (int p = 0; p < TSR_PART_COUNT; p++) e->parts[p].size = 0;
  int rc = TSR_OK;
  if (w->direct.active) {
    input *taken = &w->direct.gathered[index];
    taken->values.size = taken->starts.size = taken->validity.size = 0;
    rc = w->metadata.dense ? take_rows(w, tile, s->first, taken, error)
                           : take_cells(w, s->first, w->added.from + tile * w->window.tile_cells, cells, taken, error);
  }
  const input *in = cells_of(w, tile, s->first, &first);
  if (rc >= 0) rc = encode_values(w, s, in, first, cells, e, error);
  if (rc >= 0 && s->used[TSR_PART_VALIDITY]) {
    tsr_tile_shape shape = {TSR_UINT8, 1, s->format.version, s->format.key};
    rc = tsr__pipeline_encode(s->format.validity, &shape, in->validity.data + first, cells, NULL, cells,
                              &e->parts[TSR_PART_VALIDITY], error);
    if (rc < 0) rc = tsr__wrap(error, "validity");
  }
  if (rc < 0) return tsr__wrap(error, "'%s'", tsr__fragment_slot_name(&w->metadata, s->number));
  find_statistics(w, s, in, tile, first, e);
  return TSR_OK;
}

/* ---- Bytes into files -------------------------------------------------------------------------------------------- */

static int open_part(tsr_fragment_writer *w, const written_slot *s, tsr_part_kind kind, slot_part *p,
                     tsr_error *error) {
  tsr_buffer path = {.memory = w->target.memory};
  char *name = NULL;
  TSR_TRY(tsr__fragment_file_name(&w->metadata, s->number, kind, &w->metadata.arena, &name, error));
  int rc = tsr__buffer_printf(&path, error, "%s/%s", w->target.directory, name);
  if (rc >= 0) rc = tsr__buffer_append_u8(&path, 0, error);
  if (rc >= 0) rc = tsr__store_create_exclusive(w->target.store, (const char *)path.data, &p->file, error);
  tsr__buffer_release(&path);
  return rc;
}

static int flush_part(tsr_fragment_writer *w, const written_slot *s, tsr_part_kind kind, slot_part *p,
                      tsr_error *error) {
  if (!p->file) TSR_TRY(open_part(w, s, kind, p, error));
  if (p->out.size) TSR_TRY(tsr__store_append(p->file, p->out.data, p->out.size, error));
  p->out.size = 0;
  return TSR_OK;
}

/* A tile as large as the file's buffer is written directly, so that memory holds it only once. */
static int append_stored(tsr_fragment_writer *w, const written_slot *s, tsr_part_kind kind, slot_part *p,
                         const tsr_buffer *stored, tsr_error *error) {
  const bool large = stored->size >= w->out_max;
  if (large) TSR_TRY(flush_part(w, s, kind, p, error));
  TSR_TRY(large ? tsr__store_append(p->file, stored->data, stored->size, error)
                : tsr__buffer_append(&p->out, stored->data, stored->size, error));
  p->size += stored->size;
  return p->out.size >= w->out_max ? flush_part(w, s, kind, p, error) : TSR_OK;
}

static int append_tile(tsr_fragment_writer *w, written_slot *s, const encoded *e, tsr_error *error) {
  for (int kind = 0; kind < TSR_PART_COUNT; kind++) {
    if (!s->used[kind]) continue;
    slot_part *p = &s->parts[kind];
    TSR_TRY(tsr__buffer_append_u64(&p->offsets, p->size, error));
    TSR_TRY(append_stored(w, s, kind, p, &e->parts[kind], error));
  }
  if (s->used[TSR_PART_VARIABLE]) TSR_TRY(tsr__buffer_append_u64(&s->var_sizes, e->variable_size, error));
  tsr_statistics_writer *statistics = &w->statistics[s->number];
  if (!statistics->field || !layout_has_tile_statistics(w->metadata.version)) return TSR_OK;
  return tsr__statistics_writer_add(statistics, &e->statistics, error);
}

/* Records the MBR of a tile of the window. */
static int note_box(tsr_fragment_writer *w, uint64_t tile, uint64_t cells, tsr_error *error) {
  bool texts = false;
  uint32_t dimensions = w->target.schema->dimension_count;
  for (uint32_t d = 0; d < dimensions; d++) texts = texts || !w->inputs[d].cell_size;
  for (uint32_t d = 0; d < dimensions; d++) {
    uint64_t first;
    const input *in = cells_of(w, tile, d, &first);
    uint64_t low = UINT64_MAX, high = 0, keys[256], low_size = 0, high_size = 0;
    for (uint64_t done = 0; in->cell_size && done < cells;) {
      uint64_t n = TSR_MIN(cells - done, 256);
      tsr__keys(in->field->datatype, in->values.data + (first + done) * in->cell_size, n, keys);
      for (uint64_t i = 0; i < n; i++) {
        low = TSR_MIN(low, keys[i]);
        high = TSR_MAX(high, keys[i]);
      }
      done += n;
    }
    if (!in->cell_size) {
      const uint64_t *starts = (const uint64_t *)(const void *)in->starts.data;
      const uint8_t *least = NULL, *most = NULL;
      for (uint64_t i = first; i < first + cells; i++) {
        uint64_t size = starts[i + 1] - starts[i];
        const uint8_t *value = in->values.data ? in->values.data + starts[i] : (const uint8_t *)"";
        if (!least || tsr__bytes_compare(value, size, least, low_size) < 0) least = value, low_size = size;
        if (!most || tsr__bytes_compare(value, size, most, high_size) > 0) most = value, high_size = size;
      }
      low = w->leaves.text.size;
      TSR_TRY(tsr__buffer_append(&w->leaves.text, least, low_size, error));
      high = w->leaves.text.size;
      TSR_TRY(tsr__buffer_append(&w->leaves.text, most, high_size, error));
    }
    TSR_TRY(tsr__buffer_append_u64(&w->leaves.keys, low, error));
    TSR_TRY(tsr__buffer_append_u64(&w->leaves.keys, high, error));
    if (!texts) continue;
    TSR_TRY(tsr__buffer_append_u64(&w->leaves.sizes, low_size, error));
    TSR_TRY(tsr__buffer_append_u64(&w->leaves.sizes, high_size, error));
  }
  return TSR_OK;
}

/* Finds the runs of non-padding cells among the rows of a tile. */
static int find_runs_of_rows(tsr_fragment_writer *w, uint64_t tile, tsr_error *error) {
  const tsr_cell_range *rows = (const tsr_cell_range *)(const void *)w->direct.rows.data;
  tsr_cell_range run = {0, 0};
  uint64_t at = 0;
  for (uint64_t r = w->direct.row_starts[tile]; r < w->direct.row_starts[tile + 1]; at += rows[r++].count) {
    if (rows[r].first == TSR_NO_CELL) continue;
    if (run.count > 0 && run.first + run.count != at) {
      TSR_TRY(tsr__buffer_append(&w->window.runs, &run, sizeof run, error));
      run.count = 0;
    }
    if (run.count == 0) run.first = at;
    run.count += rows[r].count;
  }
  return run.count ? tsr__buffer_append(&w->window.runs, &run, sizeof run, error) : TSR_OK;
}

/* Finds the runs of non-padding cells in each tile of the window, which the statistics count. */
static int find_runs(tsr_fragment_writer *w, uint64_t tiles, tsr_error *error) {
  w->window.runs.size = 0;
  for (uint64_t tile = 0; tile < tiles; tile++) {
    uint64_t first = tile * w->window.tile_cells, cells = TSR_MIN(w->window.tile_cells, w->window.pending - first);
    const uint8_t *written = w->metadata.dense ? w->window.written.data + first : NULL;
    w->window.run_starts[tile] = w->window.runs.size / sizeof(tsr_cell_range);
    if (w->metadata.dense && w->direct.active) {
      TSR_TRY(find_runs_of_rows(w, tile, error));
      continue;
    }
    for (uint64_t i = 0; i < cells;) {
      uint64_t begin = i, end = cells;
      if (written) {
        const uint8_t *next = memchr(written + i, 1, cells - i);
        if (!next) break;
        begin = (uint64_t)(next - written);
        const uint8_t *stop = memchr(next, 0, cells - begin);
        end = stop ? (uint64_t)(stop - written) : cells;
      }
      tsr_cell_range run = {begin, end - begin};
      TSR_TRY(tsr__buffer_append(&w->window.runs, &run, sizeof run, error));
      i = end;
    }
  }
  w->window.run_starts[tiles] = w->window.runs.size / sizeof(tsr_cell_range);
  return TSR_OK;
}

static uint64_t pending_bytes(const tsr_fragment_writer *w) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < w->input_count; i++) bytes += w->inputs[i].values.size + w->inputs[i].starts.size;
  return bytes;
}

/* Empties the window. If its tile was larger than a window should be, frees its memory: the caller needs it to gather
 * the next tile. */
static void empty_window(tsr_fragment_writer *w) {
  const bool large = w->target.window_bytes && w->window.tiles == 1 && pending_bytes(w) > w->target.window_bytes;
  for (uint32_t i = 0; i < w->input_count; i++) {
    w->inputs[i].values.size = w->inputs[i].starts.size = w->inputs[i].validity.size = 0;
    if (large) release_input(&w->inputs[i]);
  }
  for (uint32_t s = 0; large && s < w->slot_count; s++)
    for (int p = 0; p < TSR_PART_COUNT; p++) tsr__buffer_release(&w->window.encoded[s].parts[p]);
  w->window.pending = w->window.written.size = 0;
}

static int write_window(tsr_fragment_writer *w, tsr_error *error) {
  /* rounded up without an overflow: tile_cells may be any 64-bit number */
  const uint64_t tiles = w->window.pending / w->window.tile_cells + (w->window.pending % w->window.tile_cells != 0);
  if (!tiles) return TSR_OK;
  TSR_TRY(tsr__cancelled(&w->target.environment->memory, error));
  TSR_TRY(find_runs(w, tiles, error));
  int rc = tsr__parallel_for(w->target.threads, tiles * w->slot_count, encode_task, w, error);
  if (rc < 0) return tsr__wrap(error, "tiles from %llu on", (unsigned long long)w->metadata.tile_count);
  for (uint64_t tile = 0; tile < tiles; tile++) {
    for (uint32_t s = 0; s < w->slot_count; s++)
      TSR_TRY(append_tile(w, &w->slots[s], &w->window.encoded[tile * w->slot_count + s], error));
    if (w->metadata.dense) continue;
    w->metadata.last_tile_cells = TSR_MIN(w->window.tile_cells, w->window.pending - tile * w->window.tile_cells);
    TSR_TRY(note_box(w, tile, w->metadata.last_tile_cells, error));
  }
  w->metadata.tile_count += tiles;
  empty_window(w);
  return TSR_OK;
}

/* Returns the bytes of the variable cells of a tile that starts at cell `from` of the current call. */
static uint64_t variable_bytes(const tsr_fragment_writer *w, uint64_t from) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < w->input_count; i++) {
    const uint64_t *offsets = w->added.columns[i].offsets, *order = w->added.order;
    if (w->inputs[i].cell_size) continue;
    if (w->added.columns[i].constant) bytes += tsr__mul_sat(offsets[1] - offsets[0], w->window.tile_cells);
    else if (!order) bytes += offsets[from + w->window.tile_cells] - offsets[from];
    else
      for (uint64_t c = 0; c < w->window.tile_cells; c++) {
        fetch_ahead(offsets, sizeof *offsets, order + from, c, w->window.tile_cells);
        bytes += offsets[order[from + c] + 1] - offsets[order[from + c]];
      }
  }
  return bytes;
}

/* Returns how many whole tiles from cell `from` on the tasks gather themselves, out of `cells` remaining cells; 0 if
 * there are too few. */
static uint64_t direct_tiles(const tsr_fragment_writer *w, uint64_t from, uint64_t cells) {
  uint64_t tiles = 0, bytes = 0;
  const uint64_t most = TSR_MIN(cells / w->window.tile_cells, w->window.tiles);
  if (!w->direct.gathered || w->metadata.dense || w->window.pending > 0) return 0;
  while (tiles < most && bytes <= w->window.pending_max)
    bytes += variable_bytes(w, from + tiles++ * w->window.tile_cells);
  return tiles;
}

static int write_directly(tsr_fragment_writer *w, uint64_t tiles, tsr_error *error) {
  w->added.count = w->window.pending = tiles * w->window.tile_cells;
  w->direct.active = true;
  const int rc = write_window(w, error);
  tsr_work_done(w->target.environment, w->added.count);
  w->direct.active = false;
  w->window.pending = 0;
  return rc;
}

/* ---- Tiles of rows ----------------------------------------------------------------------------------------------- */

/* Returns the bytes of a cell of a dense fragment. */
static uint64_t row_cell_bytes(const tsr_fragment_writer *w) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < w->input_count; i++) bytes += w->inputs[i].stored ? w->inputs[i].cell_size : 0;
  return bytes;
}

/* Frees the memory of the window's tile if that is larger than a window should be. */
static void release_large(tsr_fragment_writer *w) {
  const uint64_t bytes = tsr__mul_sat(w->window.tile_cells, row_cell_bytes(w));
  if (!w->target.window_bytes || w->window.tiles > 1 || bytes <= w->target.window_bytes) return;
  for (uint32_t s = 0; s < w->slot_count; s++) {
    release_input(&w->direct.gathered[s]);
    for (int p = 0; p < TSR_PART_COUNT; p++) tsr__buffer_release(&w->window.encoded[s].parts[p]);
  }
}

/* Writes the tiles of rows that are pending, if there are any. */
static int write_rows(tsr_fragment_writer *w, tsr_error *error) {
  const tsr_cell_range *rows = (const tsr_cell_range *)(const void *)w->direct.rows.data;
  const uint64_t count = w->direct.rows.size / sizeof *rows;
  uint64_t cells = 0;
  if (count == 0) return TSR_OK;
  for (uint64_t r = 0; r < count; r++) cells += rows[r].first == TSR_NO_CELL ? 0 : rows[r].count;
  w->direct.active = true;
  const int rc = write_window(w, error);
  w->direct.active = false;
  w->window.pending = w->direct.rows.size = 0;
  tsr_work_done(w->target.environment, cells);
  release_large(w);
  return rc;
}

bool tsr__fragment_writer_takes_rows(const tsr_fragment_writer *writer) { return writer->direct.row_starts != NULL; }

int tsr__fragment_writer_add_rows(tsr_fragment_writer *writer, const tsr_column *columns, const tsr_cell_range *rows,
                                  uint64_t count, tsr_error *error) {
  tsr_fragment_writer *w = writer;
  const uint64_t tile = w->window.pending / w->window.tile_cells;
  w->added.columns = columns;
  w->added.order = NULL;
  w->direct.row_starts[tile] = w->direct.rows.size / sizeof *rows;
  TSR_TRY(tsr__buffer_append(&w->direct.rows, rows, count * sizeof *rows, error));
  w->direct.row_starts[tile + 1] = w->direct.rows.size / sizeof *rows;
  w->window.pending += w->window.tile_cells;
  const uint64_t bytes = tsr__mul_sat(w->window.pending, row_cell_bytes(w));
  return tile + 1 == w->window.tiles || bytes > w->window.pending_max ? write_rows(w, error) : TSR_OK;
}

uint64_t tsr__fragment_writer_window(const tsr_fragment_writer *writer) {
  return tsr__mul_sat(writer->window.tile_cells, writer->window.tiles);
}

int tsr__fragment_writer_add(tsr_fragment_writer *writer, const tsr_column *columns, const uint64_t *order,
                             uint64_t count, tsr_error *error) {
  tsr_fragment_writer *w = writer;
  w->added.columns = columns;
  w->added.order = order;
  for (uint64_t done = 0; done < count; done += w->added.count) {
    w->added.from = done;
    const uint64_t tiles = direct_tiles(w, done, count - done);
    if (tiles > 0) {
      TSR_TRY(write_directly(w, tiles, error));
      continue;
    }
    w->added.count = TSR_MIN(count - done, w->window.tile_cells - w->window.pending % w->window.tile_cells);
    TSR_TRY(tsr__parallel_for(w->added.count < 1024 ? 1 : w->target.threads, w->input_count, take_task, w, error));
    uint64_t cells;
    TSR_TRY(take_written(w, &cells, error));
    tsr_work_done(w->target.environment, cells);
    w->window.pending += w->added.count;
    bool whole = w->window.pending % w->window.tile_cells == 0;
    if (whole &&
        (w->window.pending == w->window.tile_cells * w->window.tiles || pending_bytes(w) > w->window.pending_max))
      TSR_TRY(write_window(w, error));
  }
  return TSR_OK;
}

/* ---- Finishing --------------------------------------------------------------------------------------------------- */

/* Syncs the complete files and, at the end, the directory. */
static int sync_ended(tsr_fragment_writer *w, bool last, tsr_error *error) {
  if (w->target.durable)
    TSR_TRY(tsr__store_sync_all(w->target.store, w->ending.files, w->ending.count, &w->target.directory, last,
                                w->target.threads, error));
  close_ending(w);
  return TSR_OK;
}

/* Takes ownership of a complete file, to be synced and closed. */
static int end_file(tsr_fragment_writer *w, tsr_file *file, tsr_error *error) {
  const int rc = w->ending.count == ENDING_MAX ? sync_ended(w, false, error) : TSR_OK;
  if (rc < 0) tsr__store_close_file(file);
  else w->ending.files[w->ending.count++] = file;
  return rc;
}

static int finish_files(tsr_fragment_writer *w, tsr_error *error) {
  for (uint32_t i = 0; i < w->slot_count; i++) {
    written_slot *s = &w->slots[i];
    tsr_slot *known = &w->metadata.slots[s->number];
    for (int kind = 0; kind < TSR_PART_COUNT; kind++) {
      slot_part *p = &s->parts[kind];
      if (!s->used[kind]) continue;
      TSR_TRY(flush_part(w, s, kind, p, error));
      tsr_file *file = p->file;
      p->file = NULL;
      TSR_TRY(end_file(w, file, error));
      tsr__buffer_release(&p->out);
      known->file_size[kind] = p->size;
      known->offsets[kind] = (uint64_t *)(void *)p->offsets.data;
    }
    known->var_sizes = (uint64_t *)(void *)s->var_sizes.data;
  }
  return TSR_OK;
}

/* Sets the non-empty domain: the box, or the root of the R-tree. */
static int find_domain(tsr_fragment_writer *w, tsr_error *error) {
  tsr_fragment_metadata *m = &w->metadata;
  uint32_t dimensions = m->schema->dimension_count;
  tsr_rtree *rtree;
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, dimensions, &m->non_empty_domain, error));
  if (m->dense) {
    memcpy(m->non_empty_domain, w->target.box, dimensions * sizeof(tsr_interval));
    return TSR_OK;
  }
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, 1, &rtree, error));
  uint64_t *sizes = w->leaves.sizes.size ? (uint64_t *)(void *)w->leaves.sizes.data : NULL;
  uint8_t *text = w->leaves.text.data ? w->leaves.text.data : (uint8_t *)rtree;
  TSR_TRY(tsr__rtree_build(m->schema, m->tile_count, (uint64_t *)(void *)w->leaves.keys.data, sizes, text, &m->arena,
                           rtree, error));
  m->rtree = rtree;
  m->empty_domain = m->tile_count == 0;
  if (!m->empty_domain) tsr__rtree_domain(m->rtree, m->schema, m->non_empty_domain);
  return TSR_OK;
}

static int write_metadata(tsr_fragment_writer *w, tsr_error *error) {
  tsr_buffer path = {.memory = w->target.memory};
  tsr_file *file = NULL;
  int rc = tsr__buffer_printf(&path, error, "%s/%s", w->target.directory, w->target.metadata_name);
  if (rc >= 0) rc = tsr__buffer_append_u8(&path, 0, error);
  if (rc >= 0) rc = tsr__store_create_exclusive(w->target.store, (const char *)path.data, &file, error);
  tsr__buffer_release(&path);
  TSR_TRY(rc);
  rc = tsr__fragment_metadata_write(&w->metadata, w->statistics, file, w->target.key, error);
  if (rc >= 0) return end_file(w, file, error);
  tsr__store_close_file(file);
  return rc;
}

int tsr__fragment_writer_finish(tsr_fragment_writer *writer, tsr_error *error) {
  TSR_TRY(write_rows(writer, error));
  TSR_TRY(write_window(writer, error));
  TSR_TRY(finish_files(writer, error));
  TSR_TRY(find_domain(writer, error));
  TSR_TRY(write_metadata(writer, error));
  return sync_ended(writer, true, error);
}
