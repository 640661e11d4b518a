/* fragment_slot.c: the slots of a fragment: the field that each stores, its data files, its tile offsets and
 * statistics.
 *
 * Slots: attributes, one for __coords (empty from version 5 on), dimensions (from 5 on), then t, dt and dci if the
 * fragment has them. Files of a slot: NAME.tdb (values, or offsets of cells of variable size), NAME_var.tdb,
 * NAME_validity.tdb. NAME is the field's name up to version 7; the same with some characters escaped as %XX in version
 * 8; "a" or "d" and the number of the attribute or dimension from version 9 on. System columns are named "__coords",
 * "t", "dt" and "dci" in all versions.
 *
 * Contents of the generic tiles of a slot:
 *
 *   tile offsets, of the three parts   u64 count, u64 offset in the file each
 *   sizes of variable tiles            u64 count, u64 bytes in memory each
 *   minima; maxima                     u64 bytes of values, u64 bytes of text, values, text     from version 11 on
 *                                      (variable fields: values are u64 offsets into the text)
 *   sums; null counts                  u64 count, 8 bytes each                                  from version 11 on
 *
 * Offsets and sizes have an entry for each tile; for parts that a slot does not have, the entries are zeros. Statistics
 * have an entry for each tile, or none at all.
 *
 * Sections: slots and fields; file names; tile offsets; statistics.
 */
#include "format/fragment_metadata.h"

#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "format/generic_tile.h"
#include "format/layout.h"

/* ---- Slots and fields -------------------------------------------------------------------------------------------- */

static const char *const system_column_names[] = {TSR_SLOT_NAME_COORDS, "t", "dt", "dci"};

int64_t tsr__fragment_slot_field(const tsr_fragment_metadata *metadata, uint32_t slot,
                                 tsr_system_column *system_column) {
  const tsr_schema *schema = metadata->schema;
  uint32_t attributes = schema->attribute_count;
  uint32_t dimensions = layout_has_dimension_files(metadata->version) ? schema->dimension_count : 0;
  if (slot < attributes) return (int64_t)schema->dimension_count + slot;
  if (slot == attributes) {
    *system_column = TSR_SLOT_COORDS;
    return -1;
  }
  if (slot <= attributes + dimensions) return slot - attributes - 1;
  uint32_t extra = slot - attributes - dimensions - 1 + (metadata->has_times ? 0 : 1);
  *system_column = extra == 0 ? TSR_SLOT_TIMES : extra == 1 ? TSR_SLOT_DELETE_TIMES : TSR_SLOT_DELETE_CONDITIONS;
  return -1;
}

const char *tsr__fragment_slot_name(const tsr_fragment_metadata *metadata, uint32_t slot) {
  tsr_system_column system_column = TSR_SLOT_COORDS;
  int64_t field = tsr__fragment_slot_field(metadata, slot, &system_column);
  return field >= 0 ? metadata->schema->fields[field].name : system_column_names[system_column];
}

bool tsr__fragment_slot_has_part(const tsr_fragment_metadata *metadata, uint32_t slot, tsr_part_kind part) {
  tsr_system_column system_column;
  int64_t field = tsr__fragment_slot_field(metadata, slot, &system_column);
  if (part == TSR_PART_FIXED || field < 0) return part == TSR_PART_FIXED;
  const tsr_field *found = &metadata->schema->fields[field];
  return part == TSR_PART_VARIABLE ? found->values_per_cell == TSR_VARIABLE : found->nullable;
}

int64_t tsr__fragment_slot(const tsr_fragment_metadata *metadata, uint32_t field) {
  uint32_t dimensions = metadata->schema->dimension_count, attributes = metadata->schema->attribute_count;
  uint32_t slot = attributes; /* __coords */
  if (field >= dimensions) {
    slot = field - dimensions;
  } else if (layout_has_dimension_files(metadata->version)) {
    slot = attributes + 1 + field;
  }
  return metadata->slots[slot].present ? (int64_t)slot : -1;
}

int64_t tsr__fragment_system_slot(const tsr_fragment_metadata *metadata, tsr_system_column system_column) {
  for (uint32_t slot = metadata->schema->attribute_count; slot < metadata->slot_count; slot++) {
    tsr_system_column found;
    if (!metadata->slots[slot].present || tsr__fragment_slot_field(metadata, slot, &found) >= 0) continue;
    if (found == system_column) return slot;
  }
  return -1;
}

uint64_t tsr__fragment_tile_cells(const tsr_fragment_metadata *metadata, uint64_t tile) {
  if (metadata->dense || tile + 1 == metadata->tile_count) return metadata->last_tile_cells;
  return metadata->schema->capacity;
}

/* ---- File names -------------------------------------------------------------------------------------------------- */

/* Returns the two characters after '%' in the escape of `c` in version 8; NULL if `c` is not escaped. The codes of the
 * last four characters differ from RFC 3986. */
static const char *escape(char c) {
  static const char plain[] = "!#$%&'()*+,/:;=?@[]\"<>\\|";
  static const char codes[] = "21232425262728292A2B2C2F3A3B3D3F405B5D22202D303C";
  const char *at = strchr(plain, c);
  return at ? codes + 2 * (at - plain) : NULL;
}

int tsr__fragment_file_name(const tsr_fragment_metadata *metadata, uint32_t slot, tsr_part_kind part, tsr_arena *arena,
                            char **name, tsr_error *error) {
  static const char *const suffixes[TSR_PART_COUNT] = {TSR_SUFFIX_DATA, TSR_SUFFIX_VARIABLE, TSR_SUFFIX_VALIDITY};
  tsr_system_column system_column;
  int64_t field = tsr__fragment_slot_field(metadata, slot, &system_column);
  const char *stem = tsr__fragment_slot_name(metadata, slot);
  char index[32];
  if (field >= 0 && layout_has_numbered_files(metadata->version)) {
    uint32_t dimensions = metadata->schema->dimension_count;
    bool attribute = field >= dimensions;
    snprintf(index, sizeof index, "%c%u", attribute ? 'a' : 'd', (unsigned)(attribute ? field - dimensions : field));
    stem = index;
  }
  bool escapes = field >= 0 && layout_has_escaped_files(metadata->version);
  char *made;
  TSR_TRY(TSR_ARENA_RAW(arena, strlen(stem) * 3 + sizeof TSR_SUFFIX_VALIDITY, &made, error));
  char *to = made;
  for (const char *from = stem; *from; from++) {
    const char *code = escapes ? escape(*from) : NULL;
    if (code) {
      *to++ = '%';
      *to++ = code[0];
      *to++ = code[1];
    } else {
      *to++ = *from;
    }
  }
  strcpy(to, suffixes[part]);
  *name = made;
  return TSR_OK;
}

/* ---- Tile offsets ------------------------------------------------------------------------------------------------ */

int tsr__fragment_list_read(tsr_input *in, uint64_t count, const char *what, tsr_arena *arena, uint64_t **values,
                            tsr_error *error) {
  uint64_t stored = tsr__input_u64(in);
  if (!tsr__input_fits(in, stored, 8)) return tsr__input_check(in, what, error);
  const uint8_t *bytes = tsr__input_take(in, stored * 8);
  if (!values) return TSR_OK;
  if (stored != count) {
    return tsr__fail(error, TSR_CORRUPT, "%s: %llu entries for %llu tiles", what, (unsigned long long)stored,
                     (unsigned long long)count);
  }
  uint64_t *made;
  TSR_TRY(TSR_ARENA_ARRAY(arena, count + 1, &made, error));
  memcpy(made, bytes, count * 8);
  *values = made;
  return TSR_OK;
}

int tsr__fragment_offsets_finish(uint64_t *offsets, uint64_t count, uint64_t file_size, tsr_error *error) {
  offsets[count] = file_size;
  for (uint64_t i = 0; i < count; i++) {
    if (offsets[i] >= offsets[i + 1] || offsets[i + 1] - offsets[i] < 8) {
      return tsr__fail(error, TSR_CORRUPT, "tile %llu begins at byte %llu of its file, %s at %llu",
                       (unsigned long long)i, (unsigned long long)offsets[i],
                       i + 1 == count ? "which ends" : "the next one", (unsigned long long)offsets[i + 1]);
    }
  }
  return TSR_OK;
}

/* Loads a list from a generic tile: u64 count, 8 bytes for each entry. If `absent` is not NULL, the count may be 0;
 * then *absent becomes true. */
static int load_list(tsr_fragment_metadata *metadata, tsr_file *file, uint64_t at, const uint8_t *key, const char *what,
                     bool *absent, uint64_t **values, tsr_error *error) {
  tsr_buffer content = {.memory = metadata->arena.memory};
  uint64_t most = tsr__add_sat(tsr__mul_sat(metadata->tile_count, 8), 8);
  int rc = tsr__fragment_metadata_tile(metadata, file, at, key, most, &content, error);
  if (rc == TSR_OK) {
    tsr_input in = tsr__input(content.data, content.size);
    const uint64_t count = content.size >= 8 ? tsr__load64(content.data) : 0;
    if (absent && content.size >= 8 && count == 0) {
      *absent = true;
    } else if (metadata->dense && count && count != metadata->tile_count) {
      rc = tsr__fail(error, TSR_CORRUPT, "%s: %llu entries for the %llu tiles of the fragment's box: " TSR_SPLIT_BOX,
                     what, (unsigned long long)count, (unsigned long long)metadata->tile_count);
    } else {
      rc = tsr__fragment_list_read(&in, metadata->tile_count, what, &metadata->arena, values, error);
    }
  }
  tsr__buffer_release(&content);
  if (rc < 0) return tsr__wrap(error, "%s at byte %llu", what, (unsigned long long)at);
  return TSR_OK;
}

int tsr__fragment_metadata_load_slot(tsr_fragment_metadata *metadata, uint32_t number, tsr_file *file,
                                     const uint8_t *key, tsr_error *error) {
  static const char *const whats[TSR_PART_COUNT] = {"tile offsets", "offsets of variable tiles",
                                                    "offsets of validity tiles"};
  tsr_slot *slot = &metadata->slots[number];
  if (!slot->present || slot->offsets[TSR_PART_FIXED]) return TSR_OK;
  uint64_t *offsets[TSR_PART_COUNT] = {0}, *var_sizes = NULL;
  int rc = TSR_OK;
  for (int part = 0; part < TSR_PART_COUNT && rc == TSR_OK; part++) {
    if (!tsr__fragment_slot_has_part(metadata, number, part)) continue;
    rc = load_list(metadata, file, slot->offsets_at[part], key, whats[part], NULL, &offsets[part], error);
    if (rc < 0) break;
    rc = tsr__fragment_offsets_finish(offsets[part], metadata->tile_count, slot->file_size[part], error);
    if (rc < 0) rc = tsr__wrap(error, "%s", whats[part]);
  }
  if (rc == TSR_OK && offsets[TSR_PART_VARIABLE]) {
    rc = load_list(metadata, file, slot->var_sizes_at, key, "sizes of variable tiles", NULL, &var_sizes, error);
  }
  if (rc < 0) return tsr__wrap(error, "'%s'", tsr__fragment_slot_name(metadata, number));
  memcpy(slot->offsets, offsets, sizeof offsets);
  slot->var_sizes = var_sizes;
  return TSR_OK;
}

/* ---- Statistics -------------------------------------------------------------------------------------------------- */

/* The minima or the maxima of all tiles. */
typedef struct bounds {
  const uint8_t *values; /* of fixed size, or the bytes of all strings */
  const uint64_t *offsets; /* strings: count + 1 byte offsets */
  uint64_t size; /* of `values`, in bytes */
} bounds;

static int decode_bounds(tsr_input *in, uint64_t count, uint64_t value_size, tsr_arena *arena, bounds *out,
                         tsr_error *error) {
  uint64_t size = tsr__input_u64(in), text_size = tsr__input_u64(in);
  TSR_TRY(tsr__input_check(in, "sizes", error));
  if (size == 0 && text_size == 0) return TSR_OK;
  uint64_t expected = tsr__mul_sat(count, value_size ? value_size : 8);
  if (size != expected || (value_size && text_size) || tsr__input_left(in) != tsr__add_sat(size, text_size)) {
    return tsr__fail(error, TSR_CORRUPT,
                     "%llu bytes of values and %llu of text in %llu bytes; %llu of values were expected",
                     (unsigned long long)size, (unsigned long long)text_size, (unsigned long long)tsr__input_left(in),
                     (unsigned long long)expected);
  }
  const uint8_t *values = tsr__input_take(in, size), *text = tsr__input_take(in, text_size);
  uint8_t *copy;
  TSR_TRY(TSR_ARENA_COPY(arena, value_size ? values : text, value_size ? size : text_size, &copy, error));
  *out = (bounds){.values = copy, .size = value_size ? size : text_size};
  if (value_size) return TSR_OK;
  uint64_t *offsets;
  TSR_TRY(TSR_ARENA_ARRAY(arena, count + 1, &offsets, error));
  memcpy(offsets, values, size);
  offsets[count] = text_size;
  for (uint64_t i = 0; i < count; i++) {
    if (offsets[i] > offsets[i + 1]) {
      return tsr__fail(error, TSR_CORRUPT, "tile %llu: offset %llu is above the next, %llu", (unsigned long long)i,
                       (unsigned long long)offsets[i], (unsigned long long)offsets[i + 1]);
    }
  }
  out->offsets = offsets;
  return TSR_OK;
}

static int load_bounds(tsr_fragment_metadata *metadata, tsr_file *file, uint64_t at, const uint8_t *key,
                       const char *what, uint64_t value_size, bounds *out, tsr_error *error) {
  tsr_buffer content = {.memory = metadata->arena.memory};
  uint64_t most = value_size ? tsr__add_sat(tsr__mul_sat(metadata->tile_count, value_size), 16) : TSR_METADATA_MAX;
  int rc = tsr__fragment_metadata_tile(metadata, file, at, key, most, &content, error);
  if (rc == TSR_OK) {
    tsr_input in = tsr__input(content.data, content.size);
    rc = decode_bounds(&in, metadata->tile_count, value_size, &metadata->arena, out, error);
  }
  tsr__buffer_release(&content);
  if (rc < 0) return tsr__wrap(error, "%s at byte %llu", what, (unsigned long long)at);
  return TSR_OK;
}

static int load_statistics(tsr_fragment_metadata *metadata, uint32_t number, tsr_file *file, const uint8_t *key,
                           tsr_statistics *made, tsr_error *error) {
  const tsr_slot *slot = &metadata->slots[number];
  tsr_system_column system_column;
  int64_t field = tsr__fragment_slot_field(metadata, number, &system_column);
  made->value_size = 8; /* t, dt, dci */
  if (field >= 0) made->value_size = metadata->schema->fields[field].cell_size;
  bounds min = {0}, max = {0};
  uint64_t *sums = NULL, *null_counts = NULL;
  bool absent = false;
  TSR_TRY(load_bounds(metadata, file, slot->min_at, key, "minima", made->value_size, &min, error));
  TSR_TRY(load_bounds(metadata, file, slot->max_at, key, "maxima", made->value_size, &max, error));
  TSR_TRY(load_list(metadata, file, slot->sum_at, key, "sums", &absent, &sums, error));
  TSR_TRY(load_list(metadata, file, slot->null_count_at, key, "null counts", &absent, &null_counts, error));
  made->min = min.values;
  made->min_offsets = min.offsets;
  made->min_size = min.size;
  made->max = max.values;
  made->max_offsets = max.offsets;
  made->max_size = max.size;
  made->sums = sums;
  made->null_counts = null_counts;
  return TSR_OK;
}

int tsr__fragment_metadata_statistics(tsr_fragment_metadata *metadata, uint32_t number, tsr_file *file,
                                      const uint8_t *key, tsr_statistics *statistics, tsr_error *error) {
  tsr_slot *slot = &metadata->slots[number];
  if (!slot->statistics) {
    tsr_statistics *made;
    TSR_TRY(TSR_ARENA_ARRAY(&metadata->arena, 1, &made, error));
    made->count = metadata->tile_count;
    if (layout_has_tile_statistics(metadata->version) && slot->present) {
      int rc = load_statistics(metadata, number, file, key, made, error);
      if (rc < 0) return tsr__wrap(error, "statistics of '%s'", tsr__fragment_slot_name(metadata, number));
    }
    slot->statistics = made;
  }
  *statistics = *slot->statistics;
  return TSR_OK;
}

/* Decodes fragment statistics. For each slot: u64 size, minimum, u64 size, maximum, 8 bytes of sum, u64 null count. */
static int decode_own(const tsr_fragment_metadata *metadata, tsr_input *in, tsr_arena *arena, tsr_statistics *own,
                      uint64_t *null_counts, tsr_error *error) {
  for (uint32_t slot = 0; slot < metadata->slot_count; slot++) {
    tsr_system_column system_column;
    const int64_t field = tsr__fragment_slot_field(metadata, slot, &system_column);
    const uint64_t value_size = field >= 0 ? metadata->schema->fields[field].cell_size : 0;
    const uint64_t min_size = tsr__input_u64(in);
    const uint8_t *min = tsr__input_take(in, min_size);
    const uint64_t max_size = tsr__input_u64(in);
    const uint8_t *max = tsr__input_take(in, max_size);
    tsr__input_u64(in);
    null_counts[slot] = tsr__input_u64(in);
    TSR_TRY(tsr__input_check(in, "fragment statistics", error));
    own[slot] = (tsr_statistics){.count = 1};
    if (value_size == 0 || min_size != value_size || max_size != value_size) continue;
    TSR_TRY(TSR_ARENA_COPY(arena, min, value_size, &own[slot].min, error));
    TSR_TRY(TSR_ARENA_COPY(arena, max, value_size, &own[slot].max, error));
    own[slot].value_size = own[slot].min_size = own[slot].max_size = value_size;
    own[slot].null_counts = &null_counts[slot];
  }
  return TSR_OK;
}

int tsr__fragment_metadata_own_statistics(tsr_fragment_metadata *metadata, uint32_t slot, tsr_file *file,
                                          const uint8_t *key, tsr_statistics *statistics, tsr_error *error) {
  if (!layout_has_fragment_statistics(metadata->version)) {
    *statistics = (tsr_statistics){0};
    return TSR_OK;
  }
  if (!metadata->own_statistics) {
    tsr_buffer content = {.memory = metadata->arena.memory};
    tsr_statistics *own = NULL;
    uint64_t *null_counts = NULL;
    int rc = TSR_ARENA_ARRAY(&metadata->arena, metadata->slot_count, &own, error);
    if (rc == TSR_OK) rc = TSR_ARENA_ARRAY(&metadata->arena, metadata->slot_count, &null_counts, error);
    if (rc == TSR_OK)
      rc = tsr__fragment_metadata_tile(metadata, file, metadata->at.fragment_statistics, key, TSR_METADATA_MAX,
                                       &content, error);
    if (rc == TSR_OK) {
      tsr_input in = tsr__input(content.data, content.size);
      rc = decode_own(metadata, &in, &metadata->arena, own, null_counts, error);
    }
    tsr__buffer_release(&content);
    if (rc < 0)
      return tsr__wrap(error, "fragment statistics at byte %llu", (unsigned long long)metadata->at.fragment_statistics);
    metadata->own_statistics = own;
  }
  *statistics = metadata->own_statistics[slot];
  return TSR_OK;
}
