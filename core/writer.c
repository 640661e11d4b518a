/* writer.c: the cells of one commit: buffered (sparse) or written box by box (dense), prepared, published.
 *
 * A fragment is first written under a name that nobody takes for one: ".UUID", below __fragments (before version 12 in
 * the array's directory). Preparing gives the fragments their names, with a time chosen last; publishing is one step:
 *
 *   from 12 on   one fragment: __commits/NAME.wrt is created. Several: __commits/.UUID, lines that name them all, is
 *                renamed to __commits/__T_T_UUID_V.con
 *   7 to 11      NAME.ok is created
 *   3            the metadata file, written as ".metadata", is renamed to __fragment_metadata.tdb
 *
 * Invariants: `columns` hold `count` cells, of sparse arrays; fragments are `piece_count` pieces, each on disk.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "ops.h"

#define METADATA         "__fragment_metadata.tdb"
#define PROVISIONAL_FILE ".metadata"
#define DEFAULT_MEMORY   (UINT64_C(1) << 30)
#define WAIT_MOST        2000 /* milliseconds that a prepare waits for the clock */

typedef struct buffered { /* a column of what is appended */
  tsr_buffer values, offsets, validity; /* variable: count + 1 offsets, none before the first append */
} buffered;

typedef struct piece { /* a fragment on disk, not published */
  char name[128]; /* ".UUID", or its own */
  tsr_interval *box; /* dense */
} piece;

struct tsr_writer {
  tsr_array *array;
  const tsr_schema *schema;
  uint32_t version;
  tsr_memory memory;
  tsr_arena arena; /* boxes */
  unsigned threads;
  bool durable;
  uint64_t asked_time, time;
  uint32_t field_count;
  buffered *columns;
  uint64_t count; /* cells */
  tsr_buffer pieces;
  bool prepared; /* all of it has its name; nothing was appended since */
  bool published;
  char *owner; /* or NULL */
  bool marked; /* a marker of the commit is on disk */
  char staged[128]; /* the consolidated commits file before it is published, or '' */
  char commit[160]; /* what publishes */
};

static piece *piece_at(const tsr_writer *w, uint64_t i) { return (piece *)(void *)w->pieces.data + i; }
static uint64_t piece_count(const tsr_writer *w) { return w->pieces.size / sizeof(piece); }
static const char *fragments_directory(const tsr_writer *w) { return w->version < 12 ? "" : "__fragments/"; }

/* A path of the store: directory, name, suffix. */
typedef struct path {
  char text[320];
} path;
static path path_of(const char *directory, const char *name, const char *suffix) {
  path p;
  snprintf(p.text, sizeof p.text, "%s%s%s", directory, name, suffix);
  return p;
}

/* ---- Open and close ------------------------------------------------------------------------- */

static int prepare_columns(tsr_writer *w, tsr_error *error) {
  void *room;
  w->field_count = w->schema->dimension_count + w->schema->attribute_count;
  TSR_TRY(tsr__arena_array(&w->arena, w->field_count, sizeof(buffered), &room, error));
  w->columns = room;
  for (uint32_t i = 0; i < w->field_count; i++)
    w->columns[i].values.memory = w->columns[i].offsets.memory = w->columns[i].validity.memory = &w->memory;
  return TSR_OK;
}

/* The last schema of all: writing does not look at times. */
static int open_schema(tsr_writer *w, tsr_error *error) {
  TSR_TRY(tsr__array_list(w->array, false, false, error));
  TSR_TRY(tsr__array_schema_at(w->array, UINT64_MAX, &w->schema, error));
  if (w->schema->key_value) return tsr__fail(error, TSR_READONLY, "key-value stores are not written");
  return tsr__schema_write_version(w->schema, &w->version, error);
}

static int copy_owner(tsr_writer *w, const char *owner, tsr_error *error) {
  void *copy;
  TSR_TRY(tsr__arena_copy(&w->arena, owner, strlen(owner), &copy, error));
  w->owner = copy;
  return TSR_OK;
}

int tsr_writer_open(tsr_array *array, const tsr_writer_options *options, tsr_writer **writer, tsr_error *error) {
  static const tsr_writer_options none = {0};
  tsr_error unseen;
  if (!error) error = &unseen;
  if (!options) options = &none;
  void *block;
  TSR_TRY(tsr__alloc_zero(&array->memory, sizeof(tsr_writer), &block, error));
  tsr_writer *w = block;
  w->array = array;
  tsr__memory_init(&w->memory, &array->memory, options->memory_bytes ? options->memory_bytes : DEFAULT_MEMORY,
                   "memory_mb");
  tsr__arena_init(&w->arena, &w->memory);
  w->pieces.memory = &w->memory;
  w->threads = options->threads && !array->environment->single_threaded ? options->threads : array->threads;
  w->durable = !options->unsynced;
  w->asked_time = options->time;
  int code = open_schema(w, error);
  if (code >= 0 && options->owner) code = copy_owner(w, options->owner, error);
  if (code >= 0) code = prepare_columns(w, error);
  if (code < 0) {
    tsr_writer_close(w);
    return tsr__wrap(error, "array %s", array->path);
  }
  *writer = w;
  return TSR_OK;
}

const tsr_schema *tsr_writer_schema(const tsr_writer *writer) { return writer->schema; }

/* Where the marker lies; before version 12 in the fragment, whatever that is called now. */
static void marker_path(const tsr_writer *w, char marker[TSR_COMMIT_PATH]) {
  char staged[TSR_COMMIT_PATH];
  if (w->version >= 12) tsr__pending_paths(w->commit, marker, staged);
  else snprintf(marker, TSR_COMMIT_PATH, "%.128s/" TSR_PENDING_FILE, piece_at(w, 0)->name);
}

/* The marker goes after all that it knows of. */
static int unmark(tsr_writer *w, tsr_error *error) {
  char marker[TSR_COMMIT_PATH];
  if (!w->marked) return TSR_OK;
  if (w->version >= 12 || piece_count(w)) {
    marker_path(w, marker);
    TSR_TRY(tsr__pending_unmark(w->array->store, marker, error));
  }
  w->marked = false;
  return TSR_OK;
}

static int remove_pieces(tsr_writer *w, uint64_t from, tsr_error *error) {
  while (piece_count(w) > from) {
    path p = path_of(fragments_directory(w), piece_at(w, piece_count(w) - 1)->name, "");
    TSR_TRY(tsr__fragment_remove(w->array->store, p.text, error));
    w->pieces.size -= sizeof(piece);
  }
  return TSR_OK;
}

static int remove_staged(tsr_writer *w, tsr_error *error) {
  if (!*w->staged) return TSR_OK;
  int code = tsr__store_remove(w->array->store, w->staged, error);
  if (code < 0 && code != TSR_NOT_FOUND) return code;
  *w->staged = 0;
  return TSR_OK;
}

static int wrapped(const tsr_writer *w, int code, tsr_error *error) {
  return code < 0 ? tsr__wrap(error, "array %s", w->array->path) : code;
}

int tsr_writer_abandon(tsr_writer *writer, tsr_error *error) {
  tsr_error unseen;
  if (!error) error = &unseen;
  if (writer->published) return TSR_OK;
  writer->prepared = false;
  int code = remove_staged(writer, error);
  if (code >= 0) code = remove_pieces(writer, 0, error);
  if (code >= 0) code = unmark(writer, error);
  return wrapped(writer, code, error);
}

void tsr_writer_close(tsr_writer *writer) {
  if (!writer) return;
  tsr_writer *w = writer;
  if (!w->prepared && !w->published && piece_count(w)) (void)tsr_writer_abandon(w, NULL);
  for (uint32_t i = 0; w->columns && i < w->field_count; i++) {
    tsr__buffer_release(&w->columns[i].values);
    tsr__buffer_release(&w->columns[i].offsets);
    tsr__buffer_release(&w->columns[i].validity);
  }
  tsr__buffer_release(&w->pieces);
  tsr__arena_release(&w->arena);
  tsr__free(w);
}

/* ---- What columns may hold ------------------------------------------------------------------ */

static uint64_t cell_of(const tsr_column *column, const uint32_t *selection, uint64_t i) {
  return column->constant ? 0 : selection ? selection[i] : i;
}

static void print_value(tsr_datatype datatype, const uint8_t *value, char *text, size_t size) {
  char iso[48];
  uint64_t bits = 0;
  tsr_kind kind = tsr_datatype_kind(datatype);
  memcpy(&bits, value, tsr_datatype_size(datatype));
  int64_t number = (int64_t)(tsr__key(datatype, value) ^ UINT64_C(1) << 63);
  if ((kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) && tsr_datetime_print(datatype, number, iso))
    snprintf(text, size, "%s", iso);
  else if (datatype == TSR_FLOAT64) {
    double d;
    memcpy(&d, value, 8);
    snprintf(text, size, "%.17g", d);
  } else if (datatype == TSR_FLOAT32) {
    float f;
    memcpy(&f, value, 4);
    snprintf(text, size, "%.9g", (double)f);
  } else if (kind == TSR_KIND_UNSIGNED) snprintf(text, size, "%" PRIu64, bits);
  else snprintf(text, size, "%" PRId64, number);
}

static int outside(const tsr_field *field, const uint8_t *value, const uint8_t *low, const uint8_t *high, bool current,
                   tsr_error *error) {
  char text[3][64];
  print_value(field->datatype, value, text[0], sizeof text[0]);
  print_value(field->datatype, low, text[1], sizeof text[1]);
  print_value(field->datatype, high, text[2], sizeof text[2]);
  return tsr__fail(error, TSR_RANGE, "dimension '%s': %s is outside the %sdomain, %s to %s", field->name, text[0],
                   current ? "current " : "", text[1], text[2]);
}

static int check_texts(const tsr_writer *w, uint32_t d, const tsr_column *column, const uint32_t *selection,
                       uint64_t count, tsr_error *error) {
  if (!w->schema->current_domain) return TSR_OK;
  const tsr_interval *now = &w->schema->current_domain[d];
  bool open = !now->low_size && now->high_size == 1 && *now->high_text == 0x7f; /* how TileDB stores "no bounds" */
  for (uint64_t i = 0; i < count && !open; i++) {
    uint64_t cell = cell_of(column, selection, i), size = column->offsets[cell + 1] - column->offsets[cell];
    const uint8_t *text = (const uint8_t *)column->values + column->offsets[cell];
    if (tsr__bytes_compare(text, size, now->low_text, now->low_size) >= 0 &&
        tsr__bytes_compare(text, size, now->high_text, now->high_size) <= 0)
      continue;
    return tsr__fail(error, TSR_RANGE, "dimension '%s': '%.*s' is outside the current domain",
                     w->schema->fields[d].name, (int)TSR_MIN(size, 64), (const char *)text);
  }
  return TSR_OK;
}

/* Coordinates lie in the domain and in the current domain; a NaN lies in neither. */
static int check_coordinates(const tsr_writer *w, uint32_t d, const tsr_column *column, const uint32_t *selection,
                             uint64_t count, tsr_error *error) {
  const tsr_field *field = &w->schema->fields[d];
  if (!field->cell_size) return check_texts(w, d, column, selection, count, error);
  const uint8_t *low = field->low, *high = field->high, *values = column->values;
  bool current = w->schema->current_domain != NULL;
  if (current) {
    low = w->schema->current_domain[d].low;
    high = w->schema->current_domain[d].high;
  }
  uint64_t low_key = tsr__key(field->datatype, low), high_key = tsr__key(field->datatype, high), keys[256];
  if (column->constant) count = TSR_MIN(count, 1);
  for (uint64_t done = 0; done < count;) {
    uint64_t n = TSR_MIN(count - done, 256);
    if (selection && !column->constant)
      for (uint64_t i = 0; i < n; i++)
        keys[i] = tsr__key(field->datatype, values + selection[done + i] * field->cell_size);
    else tsr__keys(field->datatype, values + done * field->cell_size, n, keys);
    for (uint64_t i = 0; i < n; i++)
      if (keys[i] < low_key || keys[i] > high_key)
        return outside(field, values + cell_of(column, selection, done + i) * field->cell_size, low, high, current,
                       error);
    done += n;
  }
  return TSR_OK;
}

static int check_nulls(const tsr_field *field, const tsr_column *column, const uint32_t *selection, uint64_t count,
                       tsr_error *error) {
  if (field->nullable || !column->validity) return TSR_OK;
  for (uint64_t i = 0; i < count; i++)
    if (!column->validity[cell_of(column, selection, i)])
      return tsr__fail(error, TSR_CONSTRAINT, "%s '%s' cannot be null: cell %llu",
                       field->is_dimension ? "dimension" : "attribute", field->name, (unsigned long long)i);
  return TSR_OK;
}

/* ---- Sparse cells --------------------------------------------------------------------------- */

static int append_fixed(buffered *b, uint64_t size, const tsr_column *column, const uint32_t *selection, uint64_t count,
                        tsr_error *error) {
  TSR_TRY(tsr__buffer_reserve(&b->values, tsr__mul_sat(count, size), error));
  uint8_t *to = b->values.data + b->values.size;
  const uint8_t *values = column->values;
  if (!selection && !column->constant) memcpy(to, values, count * size);
  else
    for (uint64_t i = 0; i < count; i++, to += size) memcpy(to, values + cell_of(column, selection, i) * size, size);
  b->values.size += count * size;
  return TSR_OK;
}

static int append_variable(buffered *b, const tsr_column *column, const uint32_t *selection, uint64_t count,
                           tsr_error *error) {
  uint64_t total = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t cell = cell_of(column, selection, i);
    total += column->offsets[cell + 1] - column->offsets[cell];
  }
  TSR_TRY(tsr__buffer_reserve(&b->values, total, error));
  TSR_TRY(tsr__buffer_reserve(&b->offsets, tsr__mul_sat(count + 1, 8), error));
  if (!b->offsets.size) {
    tsr__store64(b->offsets.data, 0);
    b->offsets.size = 8;
  }
  for (uint64_t i = 0; i < count; i++) {
    uint64_t cell = cell_of(column, selection, i), size = column->offsets[cell + 1] - column->offsets[cell];
    if (size) memcpy(b->values.data + b->values.size, (const uint8_t *)column->values + column->offsets[cell], size);
    b->values.size += size;
    tsr__store64(b->offsets.data + b->offsets.size, b->values.size);
    b->offsets.size += 8;
  }
  return TSR_OK;
}

static int append_column(const tsr_field *field, buffered *b, const tsr_column *column, const uint32_t *selection,
                         uint64_t count, tsr_error *error) {
  TSR_TRY(field->cell_size ? append_fixed(b, field->cell_size, column, selection, count, error)
                           : append_variable(b, column, selection, count, error));
  if (!field->nullable) return TSR_OK;
  TSR_TRY(tsr__buffer_reserve(&b->validity, count, error));
  uint8_t *to = b->validity.data + b->validity.size;
  for (uint64_t i = 0; i < count; i++)
    to[i] = !column->validity || column->validity[cell_of(column, selection, i)] != 0;
  b->validity.size += count;
  return TSR_OK;
}

static void truncate_columns(tsr_writer *w, uint64_t count) {
  for (uint32_t f = 0; f < w->field_count; f++) {
    buffered *b = &w->columns[f];
    uint64_t size = w->schema->fields[f].cell_size;
    if (size) b->values.size = TSR_MIN(b->values.size, count * size);
    else if (b->offsets.size) {
      b->values.size = tsr__load64(b->offsets.data + 8 * count);
      b->offsets.size = 8 * (count + 1);
    }
    b->validity.size = TSR_MIN(b->validity.size, count);
  }
  w->count = count;
}

static int append_cells(tsr_writer *w, const tsr_column *columns, const uint32_t *selection, uint64_t count,
                        tsr_error *error) {
  for (uint32_t f = 0; f < w->field_count; f++) {
    if (f < w->schema->dimension_count) TSR_TRY(check_coordinates(w, f, &columns[f], selection, count, error));
    TSR_TRY(check_nulls(&w->schema->fields[f], &columns[f], selection, count, error));
  }
  for (uint32_t f = 0; f < w->field_count; f++) {
    int code = append_column(&w->schema->fields[f], &w->columns[f], &columns[f], selection, count, error);
    if (code < 0) {
      truncate_columns(w, w->count);
      return code;
    }
  }
  w->count += count;
  w->prepared = false;
  return TSR_OK;
}

int tsr_writer_append(tsr_writer *writer, const tsr_column *columns, const uint32_t *selection, uint64_t count,
                      tsr_error *error) {
  tsr_error unseen;
  if (!error) error = &unseen;
  if (!count) return TSR_OK;
  int code = TSR_OK;
  if (writer->published) code = tsr__fail(error, TSR_ERROR, "the writer has published its commit");
  else if (writer->schema->dense) code = tsr__fail(error, TSR_ERROR, "cells of a dense array are written as boxes");
  else code = append_cells(writer, columns, selection, count, error);
  return wrapped(writer, code, error);
}

void tsr_writer_column(const tsr_writer *writer, uint32_t field, tsr_column *column) {
  const buffered *b = &writer->columns[field];
  *column = (tsr_column){.values = b->values.data,
                         .offsets = (const uint64_t *)(const void *)b->offsets.data,
                         .validity = b->validity.data,
                         .cell_size = writer->schema->fields[field].cell_size};
}

/* ---- Fragments under provisional names ------------------------------------------------------ */

static int make_if_absent(tsr_writer *w, const char *directory, tsr_error *error) {
  tsr_error one;
  int code = tsr__store_make_directory(w->array->store, directory, &one);
  if (code >= 0 && w->durable) return tsr__store_sync_directory(w->array->store, "", error);
  if (code < 0 && code != TSR_EXISTS) {
    *error = one;
    return code;
  }
  return TSR_OK;
}

/* A new directory, listed in pieces before it is there: so it is removed whatever happens. */
static int new_piece(tsr_writer *w, piece **made, tsr_error *error) {
  uint8_t random[16];
  tsr_name name;
  piece one = {.name = "."};
  if (w->version >= 12) {
    TSR_TRY(make_if_absent(w, "__fragments", error));
    TSR_TRY(make_if_absent(w, "__commits", error));
  }
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(0, 0, 0, &name, random));
  memcpy(one.name + 1, name.uuid, strlen(name.uuid) + 1);
  TSR_TRY(tsr__buffer_append(&w->pieces, &one, sizeof one, error));
  path p = path_of(fragments_directory(w), one.name, "");
  int code = tsr__store_make_directory(w->array->store, p.text, error);
  if (code < 0) {
    w->pieces.size -= sizeof one;
    return code;
  }
  *made = piece_at(w, piece_count(w) - 1);
  return TSR_OK;
}

static tsr_fragment_target target_of(tsr_writer *w, const char *directory, const tsr_interval *box) {
  return (tsr_fragment_target){.environment = w->array->environment,
                               .store = w->array->store,
                               .directory = directory,
                               .metadata_name = w->version < 5 ? PROVISIONAL_FILE : METADATA,
                               .schema = w->schema,
                               .version = w->version,
                               .key = tsr__array_key(w->array),
                               .box = box,
                               .memory = &w->memory,
                               .threads = w->threads,
                               .durable = w->durable};
}

static int write_cells(tsr_writer *w, tsr_error *error) {
  piece *made = NULL;
  void *columns = NULL;
  TSR_TRY(tsr__alloc_array(&w->memory, w->field_count, sizeof(tsr_column), &columns, error));
  for (uint32_t f = 0; f < w->field_count; f++) tsr_writer_column(w, f, (tsr_column *)columns + f);
  int code = new_piece(w, &made, error);
  if (code >= 0) {
    path p = path_of(fragments_directory(w), made->name, "");
    tsr_fragment_target target = target_of(w, p.text, NULL);
    code = tsr__write_sparse(&target, columns, w->count, error);
    if (code < 0) {
      tsr_error ignored;
      (void)remove_pieces(w, piece_count(w) - 1, &ignored);
    }
  }
  tsr__free(columns);
  return code;
}

/* ---- Boxes ---------------------------------------------------------------------------------- */

static int check_box(const tsr_writer *w, const tsr_interval *box, tsr_error *error) {
  if (piece_count(w) && w->version < 12)
    return tsr__fail(error, TSR_UNSUPPORTED, "format version %u commits one box at a time", w->version);
  for (uint32_t d = 0; d < w->schema->dimension_count; d++) {
    const tsr_field *field = &w->schema->fields[d];
    const tsr_column low = {.values = box[d].low, .constant = true}, high = {.values = box[d].high, .constant = true};
    TSR_TRY(check_coordinates(w, d, &low, NULL, 1, error));
    TSR_TRY(check_coordinates(w, d, &high, NULL, 1, error));
    if (tsr__key(field->datatype, box[d].low) > tsr__key(field->datatype, box[d].high))
      return tsr__fail(error, TSR_RANGE, "dimension '%s': the box is empty", field->name);
  }
  for (uint64_t i = 0; i < piece_count(w); i++) {
    bool meet = true;
    for (uint32_t d = 0; d < w->schema->dimension_count && meet; d++) {
      tsr_datatype datatype = w->schema->fields[d].datatype;
      const tsr_interval *other = &piece_at(w, i)->box[d];
      meet = tsr__key(datatype, box[d].low) <= tsr__key(datatype, other->high) &&
             tsr__key(datatype, box[d].high) >= tsr__key(datatype, other->low);
    }
    if (meet) return tsr__fail(error, TSR_ERROR, "the box overlaps another one of the same commit");
  }
  return TSR_OK;
}

static int write_box(tsr_writer *w, const tsr_interval *box, bool array_order, const tsr_column *columns,
                     tsr_error *error) {
  uint64_t cells = 0;
  void *copy;
  piece *made = NULL;
  TSR_TRY(check_box(w, box, error));
  TSR_TRY(tsr__box_cells(w->schema, box, &w->memory, &cells, error));
  for (uint32_t f = w->schema->dimension_count; f < w->field_count; f++)
    TSR_TRY(check_nulls(&w->schema->fields[f], &columns[f], NULL, cells, error));
  TSR_TRY(tsr__arena_copy(&w->arena, box, w->schema->dimension_count * sizeof *box, &copy, error));
  TSR_TRY(new_piece(w, &made, error));
  made->box = copy;
  w->prepared = false;
  path p = path_of(fragments_directory(w), made->name, "");
  tsr_fragment_target target = target_of(w, p.text, copy);
  int code = tsr__write_dense(&target, array_order, columns, error);
  if (code < 0) {
    tsr_error ignored;
    (void)remove_pieces(w, piece_count(w) - 1, &ignored);
  }
  return code;
}

int tsr_writer_append_box(tsr_writer *writer, const tsr_interval *box, bool array_order, const tsr_column *columns,
                          tsr_error *error) {
  tsr_error unseen;
  if (!error) error = &unseen;
  int code = TSR_OK;
  if (writer->published) code = tsr__fail(error, TSR_ERROR, "the writer has published its commit");
  else if (!writer->schema->dense) code = tsr__fail(error, TSR_ERROR, "boxes are for dense arrays");
  else code = write_box(writer, box, array_order, columns, error);
  return wrapped(writer, code, error);
}

tsr_mark tsr_writer_mark(const tsr_writer *writer) {
  return (tsr_mark){.cells = writer->count, .boxes = writer->schema->dense ? piece_count(writer) : 0};
}

bool tsr_writer_changed(const tsr_writer *writer) {
  return writer->count || (writer->schema->dense && piece_count(writer));
}

int tsr_writer_rewind(tsr_writer *writer, tsr_mark mark, tsr_error *error) {
  tsr_error unseen;
  if (!error) error = &unseen;
  if (writer->published) return TSR_OK;
  int code = TSR_OK;
  const tsr_mark now = tsr_writer_mark(writer);
  if (mark.cells > now.cells || mark.removed > now.removed || mark.boxes > now.boxes)
    code =
        tsr__fail(error, TSR_ERROR, "rewind to %llu cells of %llu, %llu boxes of %llu", (unsigned long long)mark.cells,
                  (unsigned long long)now.cells, (unsigned long long)mark.boxes, (unsigned long long)now.boxes);
  else if (mark.cells < now.cells || mark.boxes < now.boxes) {
    writer->prepared = false;
    if (writer->schema->dense) code = remove_pieces(writer, mark.boxes, error);
    else truncate_columns(writer, mark.cells);
  }
  return wrapped(writer, code, error);
}

/* ---- Time ----------------------------------------------------------------------------------- */

/* Later than what this environment has prepared and than all that is committed and not in the future. */
static int choose_time(tsr_writer *w, tsr_error *error) {
  if (w->asked_time) {
    w->time = w->asked_time;
    return TSR_OK;
  }
  tsr_environment *environment = w->array->environment;
  TSR_TRY(tsr__array_list(w->array, true, true, error));
  uint64_t now = tsr__environment_now(), time = now;
  const tsr_commit_list *lists[] = {&w->array->listing->fragments, &w->array->listing->deletes};
  for (int l = 0; l < 2; l++)
    for (uint64_t i = 0; i < lists[l]->count; i++) {
      uint64_t end = lists[l]->items[i].parsed.end;
      if (end <= now && end >= time) time = end + 1;
    }
  if (environment->last_commit >= time && environment->last_commit < now + WAIT_MOST)
    time = environment->last_commit + 1;
  while (tsr__environment_now() < time) {
    const struct timespec moment = {.tv_nsec = 200000};
    nanosleep(&moment, NULL);
    TSR_TRY(tsr__interrupted(environment, error));
  }
  environment->last_commit = time;
  w->time = time;
  return TSR_OK;
}

/* ---- Prepare -------------------------------------------------------------------------------- */

static int new_name(const tsr_writer *w, char *text, tsr_error *error) {
  uint8_t random[16];
  tsr_name name;
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(w->time, w->time, w->version < 5 ? 0 : w->version, &name, random));
  tsr__name_print(&name, text);
  return TSR_OK;
}

/* What publishes the commit, and under which name its content waits. */
static int choose_commit(tsr_writer *w, const char (*names)[128], tsr_error *error) {
  char own[128], marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH] = "";
  if (piece_count(w) > 1) {
    TSR_TRY(new_name(w, own, error));
    snprintf(w->commit, sizeof w->commit, "__commits/%.120s.con", own);
    if (tsr__pending_paths(w->commit, marker, staged)) snprintf(w->staged, sizeof w->staged, "%.120s", staged);
  } else if (w->version >= 12) snprintf(w->commit, sizeof w->commit, "__commits/%.120s.wrt", names[0]);
  else if (w->version >= 5) snprintf(w->commit, sizeof w->commit, "%.120s.ok", names[0]);
  else snprintf(w->commit, sizeof w->commit, "%.120s/" METADATA, names[0]);
  return TSR_OK;
}

static int mark(tsr_writer *w, const char (*names)[128], tsr_error *error) {
  if (!w->owner) return TSR_OK;
  void *block;
  uint64_t count = piece_count(w);
  char marker[TSR_COMMIT_PATH];
  TSR_TRY(tsr__alloc_array(&w->memory, count, sizeof(char *), &block, error));
  const char **list = block;
  for (uint64_t i = 0; i < count; i++) list[i] = names[i];
  marker_path(w, marker);
  tsr_pending pending = {.commit = w->commit, .owner = w->owner, .fragment_count = count, .fragments = list};
  int code = tsr__pending_mark(w->array->store, marker, &pending, w->durable, error);
  tsr__free(block);
  if (code >= 0) w->marked = true;
  return code;
}

static int rename_pieces(tsr_writer *w, const char (*names)[128], tsr_error *error) {
  for (uint64_t i = 0; i < piece_count(w); i++) {
    piece *one = piece_at(w, i);
    path from = path_of(fragments_directory(w), one->name, ""), to = path_of(fragments_directory(w), names[i], "");
    TSR_TRY(tsr__store_rename_exclusive(w->array->store, from.text, to.text, error));
    memcpy(one->name, names[i], sizeof names[i]);
  }
  if (!w->durable) return TSR_OK;
  return tsr__store_sync_directory(w->array->store, w->version < 12 ? "" : "__fragments", error);
}

static int write_staged(tsr_writer *w, tsr_error *error) {
  tsr_buffer lines = {.memory = &w->memory};
  tsr_file *file = NULL;
  int code = TSR_OK;
  if (!*w->staged) return TSR_OK;
  for (uint64_t i = 0; i < piece_count(w) && code >= 0; i++)
    code = tsr__commits_encode_write(piece_at(w, i)->name, &lines, error);
  if (code >= 0) code = tsr__store_create_exclusive(w->array->store, w->staged, &file, error);
  if (code >= 0) code = tsr__store_append(file, lines.data, lines.size, error);
  if (code >= 0 && w->durable) code = tsr__store_sync(file, error);
  tsr__store_close_file(file);
  tsr__buffer_release(&lines);
  return code;
}

/* The names, the marker that tells them, then the fragments under them. */
static int name_all(tsr_writer *w, tsr_error *error) {
  void *block;
  TSR_TRY(tsr__alloc_array(&w->memory, piece_count(w), 128, &block, error));
  char(*names)[128] = block;
  int code = TSR_OK;
  for (uint64_t i = 0; code >= 0 && i < piece_count(w); i++) code = new_name(w, names[i], error);
  if (code >= 0) code = choose_commit(w, names, error);
  if (code >= 0) code = mark(w, names, error);
  if (code >= 0) code = rename_pieces(w, names, error);
  if (code >= 0) code = write_staged(w, error);
  tsr__free(block);
  return code;
}

static int prepare(tsr_writer *w, tsr_error *error) {
  if (w->published) return tsr__fail(error, TSR_ERROR, "the writer has published its commit");
  if (w->prepared) return TSR_OK;
  TSR_TRY(remove_staged(w, error));
  if (!w->schema->dense) {
    TSR_TRY(remove_pieces(w, 0, error));
    TSR_TRY(unmark(w, error));
    if (w->count) TSR_TRY(write_cells(w, error));
  }
  TSR_TRY(unmark(w, error));
  *w->commit = 0;
  if (piece_count(w)) {
    TSR_TRY(choose_time(w, error));
    TSR_TRY(name_all(w, error));
  }
  w->prepared = true;
  return TSR_OK;
}

int tsr_writer_prepare(tsr_writer *writer, tsr_error *error) {
  tsr_error unseen;
  if (!error) error = &unseen;
  return wrapped(writer, prepare(writer, error), error);
}

uint64_t tsr_writer_fragment_count(const tsr_writer *writer) { return piece_count(writer); }
const char *tsr_writer_fragment(const tsr_writer *writer, uint64_t index) { return piece_at(writer, index)->name; }
uint64_t tsr_writer_time(const tsr_writer *writer) { return writer->time; }
const char *tsr_writer_commit(const tsr_writer *writer) { return writer->commit; }

/* ---- Publish -------------------------------------------------------------------------------- */

static int publish(tsr_writer *w, tsr_error *error) {
  if (w->published) return TSR_OK;
  if (!w->prepared) return tsr__fail(error, TSR_ERROR, "nothing was prepared");
  if (!*w->commit) {
    w->published = true;
    return TSR_OK;
  }
  int code = tsr__pending_publish(w->array->store, w->commit, w->durable, error);
  if (code == 0)
    return tsr__fail(error, TSR_EXISTS, "%s: something is there already, or what is to be published has gone",
                     w->commit);
  w->published = code > 0 || tsr__store_exists(w->array->store, w->commit);
  if (code > 0) code = unmark(w, error);
  return code;
}

int tsr_writer_publish(tsr_writer *writer, tsr_error *error) {
  tsr_error unseen;
  if (!error) error = &unseen;
  return wrapped(writer, publish(writer, error), error);
}
