/* merge_sparse.c: merges sparse fragments into one.
 *
 * Each fragment is a source of merge.c, and each of its tiles a block. A cell brings its time along: its own if the
 * fragment stores times, else the time of the fragment. Delete conditions that have not been applied to a fragment's
 * cells are evaluated here. A deleted cell gets the time of the first condition that deletes it, or keeps an earlier
 * time of deletion from a previous merge.
 *
 * TileDB sorts strings with bytes above 127 in another order than it merges them, so the tiles of a fragment may
 * overlap. Such a fragment is split: each of its tiles becomes a source of its own, and the merge starts again.
 */
#include "maintain/merge_sparse.h"

#include <string.h>

#include "store/store.h"
#include "model/datatype.h"
#include "format/fragment_slot.h"
#include "format/schema.h"
#include "format/layout.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/snapshot.h"
#include "read/tile_loader.h"
#include "maintain/merge.h"

enum { TIMES, DELETE_TIMES, DELETE_CONDITIONS }; /* the system columns */

typedef struct tile_source { /* the tiles at..end - 1 of a fragment */
  tsr_merge_source base;
  struct sparse_merge *merge;
  const tsr_snapshot_fragment *fragment;
  uint32_t index; /* of its fragment in the plan */
  uint64_t at, end;
  tsr_tile_request *requests; /* of the current tile, one per slot */
  uint32_t request_count;
  bool loaded;
  tsr_column *columns; /* of the block: fields, then system columns */
  tsr_buffer delete_times; /* u64[cell]: time of deletion, or `never` */
  tsr_buffer conditions; /* u64[cell]: the condition that deletes it, an index of tsr_merge_conditions; or `never` */
  tsr_column *bound; /* [dimension]: low corner of the next tile's MBR */
  tsr_buffer bound_bytes; /* its values */
  uint64_t time; /* of cells that do not store their own */
  /* Indices of tsr_merge_conditions: */
  const uint32_t *renumbered; /* [condition in the fragment's list of processed conditions] */
  uint32_t *numbers; /* [condition of the snapshot's fragment] */
} tile_source;

typedef struct sparse_merge {
  const tsr_merge_plan *plan;
  const tsr_merge_conditions *conditions;
  const tsr_schema *schema; /* of the merged fragment */
  const tsr_schema *newest; /* of the array */
  uint32_t fields, system_columns;
  tsr_arena arena; /* of one attempt */
  tile_source *sources;
  tsr_merge_source **list; /* the same, for merge.c */
  uint32_t count;
} sparse_merge;

#define EXPECTED_BYTES (UINT64_C(32) << 20) /* stored bytes of first tiles that a store may fetch ahead */

static const uint64_t never = UINT64_MAX;

/* ---- The current tile -------------------------------------------------------------------------------------------- */

static void return_tiles(tile_source *s) {
  for (uint32_t i = 0; s->loaded && i < s->request_count; i++)
    tsr__tile_return(s->requests[i].tile, s->merge->plan->memory);
  s->loaded = false;
}

static const tsr_tile *merge_sparse_tile_of(const tile_source *s, int64_t slot) {
  for (uint32_t i = 0; i < s->request_count; i++)
    if (s->requests[i].slot == (uint32_t)slot) return s->requests[i].tile;
  return NULL;
}

/* Requests the current tile of a slot, once; a slot below 0 is none. */
static void request_slot(tile_source *s, int64_t slot) {
  for (uint32_t i = 0; i < s->request_count && slot >= 0; i++)
    if (s->requests[i].slot == (uint32_t)slot) return;
  if (slot < 0) return;
  s->requests[s->request_count++] =
      (tsr_tile_request){.fragment = s->fragment->fragment, .slot = (uint32_t)slot, .number = s->at};
}

static int merge_sparse_find_field(const tile_source *s, const tsr_condition *condition, const char *name,
                                   const tsr_field **field, int64_t *slot, tsr_error *error) {
  return tsr__condition_field(s->merge->plan->array, s->merge->newest, s->fragment->fragment, condition, name, field,
                              slot, error);
}

/* Makes the requests for the current tile. */
static int request_tile(tile_source *s, tsr_error *error) {
  const tsr_fragment_metadata *m = &s->fragment->fragment->metadata;
  s->request_count = 0;
  for (uint32_t f = 0; f < s->merge->fields; f++) request_slot(s, s->fragment->slots[f]);
  for (int i = TIMES; i <= DELETE_CONDITIONS; i++)
    request_slot(s, tsr__fragment_system_slot(m, (tsr_system_column)(TSR_SLOT_TIMES + i)));
  for (uint32_t i = 0; i < s->fragment->condition_count; i++)
    for (uint32_t k = 0; k < s->fragment->conditions[i]->field_count; k++) {
      const tsr_field *field;
      int64_t slot;
      TSR_TRY(merge_sparse_find_field(s, s->fragment->conditions[i], s->fragment->conditions[i]->fields[k], &field,
                                      &slot, error));
      request_slot(s, slot);
    }
  return TSR_OK;
}

static int merge_sparse_load_tile(tile_source *s, tsr_error *error) {
  const tsr_merge_plan *plan = s->merge->plan;
  TSR_TRY(request_tile(s, error));
  TSR_TRY(tsr__tiles_load(plan->array, plan->threads, s->requests, s->request_count, plan->memory, error));
  s->loaded = true;
  return TSR_OK;
}

/* Makes the column of a slot of the current tile. */
static void slot_column(const tile_source *s, const tsr_field *field, uint32_t dimension, int64_t slot,
                        tsr_column *column) {
  const tsr_tile *tile = merge_sparse_tile_of(s, slot);
  *column = (tsr_column){.values = tile->values, .offsets = tile->offsets, .validity = tile->validity};
  if (field->values_per_cell == TSR_VARIABLE) return;
  column->cell_size = field->cell_size;
  if (field->is_dimension &&
      !layout_has_dimension_files(s->fragment->fragment->metadata.version)) /* __coords: dimension after dimension */
    column->values = tile->values + dimension * tile->cells * field->cell_size;
}

/* Makes a system column of the current tile; `constant` is the value of all cells if the fragment does not store it. */
static void system_column_of(const tile_source *s, int which, const uint64_t *constant, tsr_column *column) {
  int64_t slot =
      tsr__fragment_system_slot(&s->fragment->fragment->metadata, (tsr_system_column)(TSR_SLOT_TIMES + which));
  *column = (tsr_column){.values = constant, .cell_size = sizeof(uint64_t), .constant = true};
  if (slot >= 0) *column = (tsr_column){.values = merge_sparse_tile_of(s, slot)->values, .cell_size = sizeof(uint64_t)};
}

/* ---- Deletes ----------------------------------------------------------------------------------------------------- */

typedef struct getter { /* argument of merge_sparse_condition_column */
  const tile_source *source;
  const tsr_condition *condition;
  tsr_column *columns; /* room for the condition's fields */
  uint32_t count; /* columns in use */
} getter;

static int merge_sparse_condition_column(void *argument, const char *name, const tsr_field **field,
                                         const tsr_column **column, tsr_error *error) {
  getter *g = argument;
  tsr_column *out = &g->columns[g->count++];
  int64_t slot;
  TSR_TRY(merge_sparse_find_field(g->source, g->condition, name, field, &slot, error));
  if (!*field) return tsr__fail(error, TSR_ERROR, "it names the field '%s', which the array lacks", name);
  *out = (tsr_column){.constant = true, .unwritten = true};
  const tsr_schema *theirs = g->source->fragment->fragment->metadata.schema;
  if (slot >= 0) slot_column(g->source, *field, (uint32_t)tsr__schema_field(theirs, name), slot, out);
  *column = out;
  return TSR_OK;
}

/* Evaluates a condition of the snapshot's fragment for the current tile, and notes the cells that it deletes. `keep` is
 * room for one byte per cell. */
static int merge_sparse_apply_condition(tile_source *s, uint32_t number, uint64_t cells, uint8_t *keep,
                                        tsr_error *error) {
  const tsr_condition *condition = s->fragment->conditions[number];
  getter g = {.source = s, .condition = condition};
  tsr_column *room;
  TSR_TRY(TSR_ALLOC_ARRAY(s->merge->plan->memory, condition->field_count, &room, error));
  g.columns = room;
  int rc = tsr__condition_evaluate(condition, merge_sparse_condition_column, &g, NULL, cells, keep,
                                   s->merge->plan->memory, error);
  tsr__free(room);
  if (rc < 0) return tsr__wrap(error, "fragment %s, tile %llu", s->fragment->fragment->name, (unsigned long long)s->at);
  uint64_t *delete_times = (uint64_t *)(void *)s->delete_times.data,
           *conditions = (uint64_t *)(void *)s->conditions.data;
  const tsr_column *times = &s->columns[s->merge->fields];
  for (uint64_t i = 0; i < cells; i++) {
    uint64_t time = ((const uint64_t *)times->values)[times->constant ? 0 : i];
    if (keep[i] || time > condition->time || delete_times[i] <= condition->time) continue;
    delete_times[i] = condition->time;
    conditions[i] = s->numbers[number];
  }
  return TSR_OK;
}

/* Translates the stored conditions of the cells into indices of tsr_merge_conditions. */
static int renumber(const tile_source *s, const tsr_column *stored, uint64_t cells, uint64_t *conditions,
                    tsr_error *error) {
  const tsr_fragment_metadata *m = &s->fragment->fragment->metadata;
  for (uint64_t i = 0; i < cells; i++) {
    uint64_t number = stored->constant ? never : tsr__load64((const uint8_t *)stored->values + 8 * i);
    if (number != never && number >= m->processed.count)
      return tsr__fail(error, TSR_CORRUPT, "fragment %s, tile %llu: cell %llu was deleted by condition %llu of %u",
                       s->fragment->fragment->name, (unsigned long long)s->at, (unsigned long long)i,
                       (unsigned long long)number, m->processed.count);
    conditions[i] = number == never ? never : s->renumbered[number];
  }
  return TSR_OK;
}

/* Makes the columns of deletion times and conditions of the current tile. */
static int find_deletes(tile_source *s, uint64_t cells, tsr_error *error) {
  tsr_column stored, by;
  s->delete_times.size = s->conditions.size = 0;
  TSR_TRY(tsr__buffer_reserve(&s->delete_times, cells * sizeof(uint64_t), error));
  TSR_TRY(tsr__buffer_reserve(&s->conditions, cells * sizeof(uint64_t), error));
  uint64_t *delete_times = (uint64_t *)(void *)s->delete_times.data,
           *conditions = (uint64_t *)(void *)s->conditions.data;
  system_column_of(s, DELETE_TIMES, &never, &stored);
  system_column_of(s, DELETE_CONDITIONS, &never, &by);
  for (uint64_t i = 0; i < cells; i++)
    delete_times[i] = stored.constant ? never : tsr__load64((const uint8_t *)stored.values + 8 * i);
  TSR_TRY(renumber(s, &by, cells, conditions, error));
  uint8_t *keep;
  TSR_TRY(TSR_ALLOC_RAW(s->merge->plan->memory, cells, &keep, error));
  int rc = TSR_OK;
  for (uint32_t i = 0; i < s->fragment->condition_count && rc >= 0; i++)
    rc = merge_sparse_apply_condition(s, i, cells, keep, error);
  tsr__free(keep);
  s->columns[s->merge->fields + DELETE_TIMES] = (tsr_column){.values = delete_times, .cell_size = sizeof(uint64_t)};
  s->columns[s->merge->fields + DELETE_CONDITIONS] = (tsr_column){.values = conditions, .cell_size = sizeof(uint64_t)};
  return rc;
}

/* ---- The source -------------------------------------------------------------------------------------------------- */

static int merge_sparse_next(tsr_merge_source *source, tsr_merge_block *block, tsr_error *error) {
  tile_source *s = (tile_source *)source;
  const tsr_schema *schema = s->merge->schema;
  if (s->loaded) {
    return_tiles(s);
    s->at++;
  }
  if (s->at == s->end) return 0;
  TSR_TRY(merge_sparse_load_tile(s, error));
  uint64_t cells = tsr__fragment_tile_cells(&s->fragment->fragment->metadata, s->at);
  for (uint32_t f = 0; f < s->merge->fields; f++)
    slot_column(s, &schema->fields[f], f, s->fragment->slots[f], &s->columns[f]);
  if (s->merge->system_columns) system_column_of(s, TIMES, &s->time, &s->columns[s->merge->fields]);
  if (s->merge->system_columns == 3) TSR_TRY(find_deletes(s, cells, error));
  *block = (tsr_merge_block){cells, s->columns};
  return 1;
}

/* Returns the low corner of the next tile's MBR. */
static const tsr_column *merge_sparse_lower_bound(tsr_merge_source *source) {
  tile_source *s = (tile_source *)source;
  const tsr_rtree *rtree = s->fragment->fragment->metadata.rtree;
  uint64_t at = s->loaded ? s->at + 1 : s->at;
  if (at >= s->end) return NULL;
  const uint32_t leaf = rtree->levels - 1;
  for (uint32_t d = 0; d < rtree->dimensions; d++) {
    const uint64_t k = (at * rtree->dimensions + d) * 2;
    const tsr_field *field = &s->merge->schema->fields[d];
    uint64_t *number = (uint64_t *)(void *)s->bound_bytes.data + 2 * (uint64_t)d;
    if (field->cell_size) {
      tsr__key_value(field->datatype, rtree->keys[leaf][k], number);
      s->bound[d] = (tsr_column){.values = number, .cell_size = field->cell_size, .constant = true};
    } else {
      number[0] = 0;
      number[1] = rtree->sizes[leaf][k];
      s->bound[d] = (tsr_column){.values = rtree->text + rtree->keys[leaf][k], .offsets = number, .constant = true};
    }
  }
  return s->bound;
}

/* ---- Open and close ---------------------------------------------------------------------------------------------- */

/* The index of a condition in the merged list, which has it. */
static uint32_t merge_sparse_number_of(const tsr_merge_conditions *conditions, const char *name) {
  return (uint32_t)(uintptr_t)tsr__map_get(&conditions->numbers, name) - 1;
}

/* Adds the tiles from..end - 1 of a fragment of the plan as a source. */
static int add_source(sparse_merge *m, uint32_t index, uint64_t from, uint64_t end, const uint32_t *renumbered,
                      uint32_t *numbers, tsr_error *error) {
  tile_source *s = &m->sources[m->count];
  const tsr_snapshot_fragment *fragment = &m->plan->snapshot->fragments[m->plan->fragments[index]];
  const tsr_fragment_metadata *metadata = &fragment->fragment->metadata;
  const uint64_t dimensions = m->schema->dimension_count;
  *s = (tile_source){.merge = m, .fragment = fragment, .index = index, .at = from, .end = end};
  s->renumbered = renumbered;
  s->base = (tsr_merge_source){.next = merge_sparse_next, .lower_bound = merge_sparse_lower_bound, .sort_blocks = true};
  s->numbers = numbers;
  s->time = fragment->fragment->parsed.start;
  s->delete_times.memory = s->conditions.memory = s->bound_bytes.memory = m->plan->memory;
  m->list[m->count++] = &s->base;
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, metadata->slot_count, &s->requests, error));
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, m->fields + 3, &s->columns, error));
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, dimensions, &s->bound, error));
  TSR_TRY(tsr__buffer_reserve(&s->bound_bytes, 2 * sizeof(uint64_t) * dimensions, error));
  return TSR_OK;
}

/* Adds the sources of a fragment: one, or if it is `split`, one per tile. */
static int merge_sparse_add_fragment(sparse_merge *m, uint32_t index, bool split, tsr_error *error) {
  const tsr_snapshot_fragment *fragment = &m->plan->snapshot->fragments[m->plan->fragments[index]];
  tsr_fragment_metadata *metadata = &fragment->fragment->metadata;
  const tsr_rtree *rtree;
  TSR_TRY(tsr__fragment_rtree(m->plan->array, fragment->fragment, &rtree, error));
  TSR_TRY(tsr__fragment_processed(m->plan->array, fragment->fragment, error));
  uint32_t *renumbered;
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, metadata->processed.count, &renumbered, error));
  for (uint32_t i = 0; i < metadata->processed.count; i++)
    renumbered[i] = merge_sparse_number_of(m->conditions, metadata->processed.names[i]);
  uint32_t *numbers;
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, fragment->condition_count, &numbers, error));
  for (uint32_t i = 0; i < fragment->condition_count; i++)
    numbers[i] = merge_sparse_number_of(m->conditions, fragment->conditions[i]->name);
  if (!split) return add_source(m, index, 0, metadata->tile_count, renumbered, numbers, error);
  for (uint64_t t = 0; t < metadata->tile_count; t++)
    TSR_TRY(add_source(m, index, t, t + 1, renumbered, numbers, error));
  return TSR_OK;
}

static void close_sources(sparse_merge *m) {
  for (uint32_t i = 0; i < m->count; i++) {
    return_tiles(&m->sources[i]);
    tsr__buffer_release(&m->sources[i].delete_times);
    tsr__buffer_release(&m->sources[i].conditions);
    tsr__buffer_release(&m->sources[i].bound_bytes);
  }
  m->count = 0;
  tsr__arena_reset(&m->arena);
}

/* Tells the store of the first tiles of the sources, which the merge loads one after the other. */
static void expect_first_tiles(sparse_merge *m) {
  tsr_array *array = m->plan->array;
  uint64_t bytes = 0;
  tsr_error unseen; /* the load of the tile gets it, too */
  for (uint32_t i = 0; tsr__store_expects(array->store) && i < m->count && bytes < EXPECTED_BYTES; i++) {
    tile_source *s = &m->sources[i];
    if (s->at < s->end && request_tile(s, &unseen) >= 0)
      bytes = tsr__add_sat(bytes, tsr__tiles_expect(array, s->requests, s->request_count));
  }
}

static int open_sources(sparse_merge *m, const bool *split, tsr_error *error) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < m->plan->count; i++) {
    const tsr_fragment *f = m->plan->snapshot->fragments[m->plan->fragments[i]].fragment;
    count += split[i] ? f->metadata.tile_count : 1;
  }
  if (count >= UINT32_MAX) return tsr__fail(error, TSR_UNSUPPORTED, "too many tiles out of order");
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, count, &m->sources, error));
  TSR_TRY(TSR_ARENA_ARRAY(&m->arena, count, &m->list, error));
  for (uint32_t i = 0; i < m->plan->count; i++) {
    TSR_TRY(tsr__cancelled(&m->plan->array->environment->memory, error));
    TSR_TRY(merge_sparse_add_fragment(m, i, split[i], error));
  }
  expect_first_tiles(m);
  return TSR_OK;
}

static int write_merged(sparse_merge *m, const tsr_fragment_target *target, uint64_t *cells, uint32_t *unsorted,
                        tsr_error *error) {
  tsr_fragment_writer *writer = NULL;
  tsr_merge_options options = {.schema = m->schema,
                               .system_columns = m->system_columns,
                               .purge = m->plan->purge,
                               .environment = m->plan->array->environment,
                               .memory = m->plan->memory};
  int rc = tsr__fragment_writer_open(target, &writer, error);
  if (rc >= 0) rc = tsr__merge(&options, m->list, m->count, writer, cells, unsorted, error);
  if (rc >= 0 && *cells) rc = tsr__fragment_writer_finish(writer, error);
  tsr__fragment_writer_close(writer);
  return rc;
}

/* Removes the directory of an attempt with its files, and makes it again, empty. */
static int merge_sparse_clear(const tsr_fragment_target *target, tsr_error *error) {
  TSR_TRY(tsr__store_remove_tree(target->store, target->directory, error));
  return tsr__store_make_provisional(target->store, target->directory, error);
}

/* Merges, and starts again with one fragment split each time the merge finds a fragment whose tiles overlap. */
static int merge_sparse_attempt(sparse_merge *m, bool *split, const tsr_fragment_target *target, uint64_t *cells,
                                tsr_error *error) {
  for (;;) {
    uint32_t unsorted = UINT32_MAX;
    int rc = open_sources(m, split, error);
    if (rc >= 0) rc = write_merged(m, target, cells, &unsorted, error);
    uint32_t index = unsorted < m->count ? m->sources[unsorted].index : UINT32_MAX;
    close_sources(m);
    if (rc != TSR_CORRUPT || index == UINT32_MAX || split[index]) return rc;
    split[index] = true;
    TSR_TRY(merge_sparse_clear(target, error));
  }
}

int tsr__merge_sparse(const tsr_merge_plan *plan, const tsr_merge_conditions *conditions,
                      const tsr_fragment_target *target, uint64_t *cells, tsr_error *error) {
  const tsr_schema *schema = target->schema;
  sparse_merge m = {.plan = plan, .conditions = conditions, .schema = schema};
  m.fields = schema->dimension_count + schema->attribute_count;
  m.system_columns = !plan->keep_times ? 0 : conditions->has_deletes ? 3 : 1;
  bool *split;
  TSR_TRY(tsr__array_schema_at(plan->array, UINT64_MAX, &m.newest, error));
  TSR_TRY(TSR_ALLOC_ARRAY(plan->memory, plan->count, &split, error));
  tsr__arena_init(&m.arena, plan->memory);
  int rc = merge_sparse_attempt(&m, split, target, cells, error);
  tsr__arena_release(&m.arena);
  tsr__free(split);
  return rc;
}

/* ---- Conditions -------------------------------------------------------------------------------------------------- */

/* Adds a condition to the list unless it is there; *room is the capacity of the list. */
static int add_name(tsr_merge_conditions *conditions, uint32_t *room, char *name, tsr_arena *arena, tsr_error *error) {
  if (tsr__map_get(&conditions->numbers, name)) return TSR_OK;
  if (conditions->count == *room) {
    uint32_t more = *room ? 2 * *room : 16;
    char **names;
    TSR_TRY(TSR_ARENA_ARRAY(arena, more, &names, error));
    if (conditions->count) memcpy(names, conditions->names, conditions->count * sizeof(char *));
    conditions->names = names;
    *room = more;
  }
  conditions->names[conditions->count++] = name;
  return tsr__map_put(&conditions->numbers, name, (void *)(uintptr_t)conditions->count, error);
}

int tsr__merge_conditions(const tsr_merge_plan *plan, tsr_arena *arena, tsr_merge_conditions *conditions,
                          tsr_error *error) {
  uint32_t room = 0;
  *conditions = (tsr_merge_conditions){.numbers.memory = plan->memory};
  for (uint32_t i = 0; i < plan->count; i++) {
    const tsr_snapshot_fragment *item = &plan->snapshot->fragments[plan->fragments[i]];
    tsr_fragment_metadata *m = &item->fragment->metadata;
    TSR_TRY(tsr__cancelled(&plan->array->environment->memory, error));
    TSR_TRY(tsr__fragment_processed(plan->array, item->fragment, error));
    for (uint32_t p = 0; p < m->processed.count; p++)
      TSR_TRY(add_name(conditions, &room, m->processed.names[p], arena, error));
    for (uint32_t c = 0; c < item->condition_count; c++)
      TSR_TRY(add_name(conditions, &room, item->conditions[c]->name, arena, error));
    conditions->has_deletes = conditions->has_deletes || m->has_delete_metadata || item->condition_count;
  }
  return TSR_OK;
}
