/* fragment_metadata.c: reads and writes __fragment_metadata.tdb, the description of a fragment: its non-empty domain
 * and the positions of its tiles and statistics. fragment_slot.c describes the generic tiles of a slot.
 *
 * From version 3 on the file is a sequence of generic tiles (R-tree, tile offsets, statistics, processed conditions),
 * followed by the footer as plain bytes:
 *
 *   u32 version
 *   u64 size + schema name                          from version 10 on; before: __array_schema.tdb
 *   u8 dense, u8 empty domain
 *   non-empty domain: for each dimension low, high  strings: u64 bytes of both, u64 bytes of low, low, high
 *   u64 sparse tiles, u64 cells of the last tile
 *   u8 has times                                    from 14 on
 *   u8 has delete metadata                          from 15 on
 *   rows of u64, one u64 for each slot in each row  footer_sizes, footer_offsets in fragment_metadata.h
 *   u64 fragment statistics                         from 12 on
 *   u64 processed conditions                        from 16 on
 *   u32 count, then u64 identifier, u32 size, bytes from 23 on: optional sections
 *   u64 size of all this                            from 10 on; before only if a dimension is of variable size
 *
 * Slots: attributes, one for __coords, dimensions (from 5 on), then t, dt and dci if the fragment has them. Below
 * version 5 the slot of __coords is the last one, and rows of variable parts leave it out. Versions 3 and 4 have the
 * same layout. The names of their directories have no version; it is the first u32 of the file, in the header of the
 * first generic tile.
 *
 * In versions 1 and 2 the file is one generic tile:
 *
 *   u32 version
 *   u64 size + non-empty domain
 *   u64 count + MBRs; u64 count + bounding coordinates (as large as MBRs; not used here)
 *   for each slot u64 count + tile offsets; for each attribute u64 count + offsets of variable tiles;
 *   for each attribute u64 count + sizes of variable tiles
 *   u64 cells of the last tile
 *   u64 file size of each slot; u64 size of the variable file of each attribute
 *
 * No flag says whether such a fragment is dense: sparse fragments have MBRs, dense fragments do not.
 *
 * Invariants after decoding: the non-empty domain is within the domain, and low ends are not above high ends (an
 * unknown end, see rtree.c, becomes the end of the domain or tsr__top_text); the data files are large enough for
 * tile_count tiles; last_tile_cells is 1 to the capacity; generic tiles are before the footer; tile offsets increase
 * and are within their file, and the last offset is the size of the file.
 *
 * Sections: parts shared by footers and versions 1 and 2; the footer; versions 1 and 2; from a file; parts loaded on
 * demand; writing; writing the footer.
 */
#include "format/fragment_metadata.h"

#include <string.h>

#include "store/store.h"
#include "model/datatype.h"
#include "model/name.h"
#include "format/generic_tile.h"
#include "format/rtree.h"
#include "format/schema.h"
#include "format/layout.h"
#include "base/arithmetic.h"
#include "format/fragment_statistics.h"

#define FEW_BYTES 512 /* on the stack for the content of a small R-tree, to save an allocation */

/* ---- Parts that footers and the metadata of versions 1 and 2 share ----------------------------------------------- */

static int read_flag(tsr_input *in, const char *what, bool *flag, tsr_error *error) {
  uint8_t byte = tsr__input_u8(in);
  if (byte > 1)
    return tsr__fail(error, TSR_CORRUPT, "byte %llu: %s is %u, not 0 or 1", (unsigned long long)in->at - 1, what, byte);
  *flag = byte;
  return TSR_OK;
}

static int read_text_interval(tsr_input *in, uint32_t version, tsr_arena *arena, tsr_interval *interval,
                              tsr_error *error) {
  uint64_t size = tsr__input_u64(in), low_size = tsr__input_u64(in);
  if (low_size > size) {
    return tsr__fail(error, TSR_CORRUPT, "the low end takes %llu bytes of the %llu of both",
                     (unsigned long long)low_size, (unsigned long long)size);
  }
  const uint8_t *bytes = tsr__input_take(in, size);
  if (!bytes) return TSR_OK; /* the input ended: the caller checks for that */
  const uint8_t *high_bytes = bytes + low_size;
  uint64_t high_size = size - low_size;
  if (low_size == 0 && !layout_has_string_high_ends(version)) {
    high_bytes = tsr__top_text;
    high_size = TSR_TOP_TEXT_SIZE;
  }
  uint8_t *low;
  uint8_t *high;
  TSR_TRY(TSR_ARENA_COPY(arena, bytes, low_size, &low, error));
  TSR_TRY(TSR_ARENA_COPY(arena, high_bytes, high_size, &high, error));
  interval->low_text = low;
  interval->low_size = low_size;
  interval->high_text = high;
  interval->high_size = high_size;
  if (tsr__bytes_compare(low, low_size, high, high_size) > 0) {
    return tsr__fail(error, TSR_CORRUPT, "the low end is above the high end");
  }
  return TSR_OK;
}

static int read_interval(tsr_input *in, const tsr_field *field, tsr_interval *interval, tsr_error *error) {
  uint64_t size = tsr_datatype_size(field->datatype);
  const uint8_t *bytes = tsr__input_take(in, 2 * size);
  if (!bytes) return TSR_OK;
  const uint8_t *low_bytes = bytes, *high_bytes = bytes + size;
  if (tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT) {
    if (tsr__key(field->datatype, low_bytes) == TSR_KEY_NAN) low_bytes = field->low;
    if (tsr__key(field->datatype, high_bytes) == TSR_KEY_NAN) high_bytes = field->high;
  }
  memcpy(interval->low, low_bytes, size);
  memcpy(interval->high, high_bytes, size);
  uint64_t low = tsr__key(field->datatype, low_bytes), high = tsr__key(field->datatype, high_bytes);
  if (low > high) return tsr__fail(error, TSR_CORRUPT, "the low end is above the high end");
  if (field->has_domain &&
      (low < tsr__key(field->datatype, field->low) || high > tsr__key(field->datatype, field->high))) {
    return tsr__fail(error, TSR_CORRUPT, "it is not within the domain");
  }
  return TSR_OK;
}

/* Reads the non-empty domain. If the domain is empty, its bytes are still there but mean nothing. */
static int read_domain(tsr_input *in, tsr_fragment_metadata *metadata, tsr_error *error) {
  const tsr_schema *schema = metadata->schema;
  TSR_TRY(TSR_ARENA_ARRAY(&metadata->arena, schema->dimension_count, &metadata->non_empty_domain, error));
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_field *field = &schema->fields[d];
    tsr_interval *interval = &metadata->non_empty_domain[d];
    uint64_t at = in->at;
    int rc = TSR_OK;
    if (metadata->empty_domain) {
      (void)tsr__input_take(in, 2 * tsr_datatype_size(field->datatype));
    } else if (field->values_per_cell == TSR_VARIABLE) {
      rc = read_text_interval(in, metadata->version, &metadata->arena, interval, error);
    } else {
      rc = read_interval(in, field, interval, error);
    }
    if (rc < 0) {
      return tsr__wrap(error, "byte %llu: non-empty domain of dimension '%s'", (unsigned long long)at, field->name);
    }
  }
  return tsr__input_check(in, "non-empty domain", error);
}

static void read_row(tsr_input *in, const footer_row *r, tsr_fragment_metadata *metadata) {
  if (metadata->version < r->since) return;
  uint32_t count = metadata->slot_count;
  if (r->variable && !layout_has_dimension_files(metadata->version)) count--;
  for (uint32_t slot = 0; slot < count; slot++) {
    uint64_t value = tsr__input_u64(in);
    memcpy((uint8_t *)&metadata->slots[slot] + r->member, &value, sizeof value);
  }
}

/* Sets the number of tiles: a dense fragment stores every space tile that its non-empty domain touches, with all cells
 * of the tile. */
static int count_dense_tiles(tsr_fragment_metadata *metadata, tsr_error *error) {
  const tsr_schema *schema = metadata->schema;
  tsr_grid grid;
  TSR_TRY(tsr__grid_make(schema, &metadata->arena, &grid, error));
  metadata->last_tile_cells = grid.tile_cells;
  metadata->tile_count = metadata->empty_domain ? 0 : 1;
  for (uint32_t d = 0; d < schema->dimension_count && !metadata->empty_domain; d++) {
    const tsr_interval *interval = &metadata->non_empty_domain[d];
    uint64_t low = tsr__key(schema->fields[d].datatype, interval->low) - grid.low_key[d];
    uint64_t high = tsr__key(schema->fields[d].datatype, interval->high) - grid.low_key[d];
    uint64_t tiles = high / grid.extent[d] - low / grid.extent[d] + 1;
    if (tiles == 0 || !tsr__mul(metadata->tile_count, tiles, &metadata->tile_count)) {
      return tsr__fail(error, TSR_CORRUPT, "the non-empty domain touches more tiles than can be counted");
    }
  }
  return TSR_OK;
}

/* Sets tile_count and marks the slots that have files. Needs the kind of the fragment, its domain, the stored numbers
 * of tiles and cells, and the file sizes. */
static int check_counts(tsr_fragment_metadata *metadata, tsr_error *error) {
  const tsr_schema *schema = metadata->schema;
  if (metadata->dense) {
    if (!schema->dense) return tsr__fail(error, TSR_CORRUPT, "a dense fragment in a sparse array");
    TSR_TRY(count_dense_tiles(metadata, error));
  } else {
    metadata->tile_count = metadata->sparse_tile_count;
    if (metadata->tile_count > 0 && metadata->empty_domain) {
      return tsr__fail(error, TSR_CORRUPT, "%llu tiles, but the non-empty domain is empty",
                       (unsigned long long)metadata->tile_count);
    }
    if (metadata->tile_count > 0 && (metadata->last_tile_cells == 0 || metadata->last_tile_cells > schema->capacity)) {
      return tsr__fail(error, TSR_CORRUPT, "the last tile has %llu cells, a full one %llu",
                       (unsigned long long)metadata->last_tile_cells, (unsigned long long)schema->capacity);
    }
  }
  for (uint32_t s = 0; s < metadata->slot_count; s++) {
    tsr_system_column system_column = TSR_SLOT_TIMES;
    int64_t field = tsr__fragment_slot_field(metadata, s, &system_column);
    tsr_slot *slot = &metadata->slots[s];
    bool coordinates = field >= 0 ? field < schema->dimension_count : system_column == TSR_SLOT_COORDS;
    slot->present = metadata->tile_count > 0 && (!coordinates || !metadata->dense);
    if (field < 0 && system_column == TSR_SLOT_COORDS && layout_has_dimension_files(metadata->version)) {
      slot->present = false;
    }
    for (int part = 0; part < TSR_PART_COUNT && slot->present; part++) {
      if (!tsr__fragment_slot_has_part(metadata, s, part)) continue;
      if (slot->file_size[part] / 8 < metadata->tile_count) { /* a tile begins with a u64 */
        return tsr__fail(error, TSR_CORRUPT, "'%s': %llu tiles in a file of %llu bytes%s",
                         tsr__fragment_slot_name(metadata, s), (unsigned long long)metadata->tile_count,
                         (unsigned long long)slot->file_size[part], metadata->dense ? ": " TSR_SPLIT_BOX : "");
      }
    }
  }
  return TSR_OK;
}

int tsr__fragment_metadata_make_slots(tsr_fragment_metadata *metadata, tsr_error *error) {
  const tsr_schema *schema = metadata->schema;
  metadata->slot_count =
      schema->attribute_count + 1 + (metadata->has_times ? 1 : 0) + (metadata->has_delete_metadata ? 2 : 0);
  if (layout_has_dimension_files(metadata->version)) metadata->slot_count += schema->dimension_count;
  TSR_TRY(TSR_ARENA_ARRAY(&metadata->arena, metadata->slot_count, &metadata->slots, error));
  return TSR_OK;
}

/* ---- The footer -------------------------------------------------------------------------------------------------- */

static int read_schema_name(tsr_input *in, tsr_fragment_metadata *metadata, tsr_error *error) {
  const uint8_t *name = (const uint8_t *)TSR_FILE_OLD_SCHEMA;
  uint64_t size = strlen(TSR_FILE_OLD_SCHEMA);
  if (layout_has_schema_folder(metadata->version)) {
    size = tsr__input_u64(in);
    name = tsr__input_take(in, size);
    TSR_TRY(tsr__input_check(in, "schema name", error));
    if (size == 0 || memchr(name, 0, size) || memchr(name, '/', size)) {
      return tsr__fail(error, TSR_CORRUPT, "the schema's name is not a file name");
    }
  }
  TSR_TRY(TSR_ARENA_COPY(&metadata->arena, name, size, &metadata->schema_name, error));
  return TSR_OK;
}

/* Skips the optional sections. The only known one is number 0, the first and last coordinates of tiles, which nobody
 * needs. */
static int skip_sections(tsr_input *in, tsr_error *error) {
  uint32_t count = tsr__input_u32(in);
  for (uint32_t i = 0; i < count && !in->failed; i++) {
    (void)tsr__input_u64(in);
    uint32_t size = tsr__input_u32(in);
    (void)tsr__input_take(in, size);
  }
  return tsr__input_check(in, "optional sections", error);
}

static int check_offset(const tsr_fragment_metadata *metadata, uint64_t at, const char *what, const char *name,
                        tsr_error *error) {
  if (metadata->at.file_size == 0 || at < metadata->at.footer) return TSR_OK;
  return tsr__fail(error, TSR_CORRUPT, "%s%s%s%s should be at byte %llu, but the footer begins at %llu", what,
                   name ? " of '" : "", name ? name : "", name ? "'" : "", (unsigned long long)at,
                   (unsigned long long)metadata->at.footer);
}

static int check_offsets(const tsr_fragment_metadata *metadata, tsr_error *error) {
  TSR_TRY(check_offset(metadata, metadata->at.rtree, "the R-tree", NULL, error));
  TSR_TRY(check_offset(metadata, metadata->at.fragment_statistics, "fragment statistics", NULL, error));
  TSR_TRY(check_offset(metadata, metadata->at.processed_conditions, "processed conditions", NULL, error));
  for (uint32_t s = 0; s < metadata->slot_count; s++) {
    const tsr_slot *slot = &metadata->slots[s];
    const char *name = tsr__fragment_slot_name(metadata, s);
    if (!slot->present) continue;
    for (size_t r = 0; r < COUNT(footer_offsets); r++) {
      uint64_t at;
      memcpy(&at, (const uint8_t *)slot + footer_offsets[r].member, sizeof at);
      TSR_TRY(check_offset(metadata, at, "metadata", name, error));
    }
  }
  return TSR_OK;
}

static int decode_footer(tsr_input *in, tsr_schema_finder find, void *argument, tsr_fragment_metadata *metadata,
                         tsr_error *error) {
  metadata->version = tsr__input_u32(in);
  TSR_TRY(tsr__input_check(in, "version", error));
  if (metadata->version > TSR_FORMAT_READ_MAX) {
    return tsr__fail(error, TSR_UNSUPPORTED, "format version %u; %u is the newest that can be read", metadata->version,
                     TSR_FORMAT_READ_MAX);
  }
  if (!layout_has_footers(metadata->version)) {
    return tsr__fail(error, TSR_CORRUPT, "format version %u, which has no footers", metadata->version);
  }
  TSR_TRY(read_schema_name(in, metadata, error));
  TSR_TRY(find(argument, metadata->schema_name, &metadata->schema, error));
  TSR_TRY(read_flag(in, "'dense'", &metadata->dense, error));
  TSR_TRY(read_flag(in, "'empty domain'", &metadata->empty_domain, error));
  TSR_TRY(read_domain(in, metadata, error));
  metadata->sparse_tile_count = tsr__input_u64(in);
  metadata->last_tile_cells = tsr__input_u64(in);
  if (layout_has_cell_times(metadata->version)) { TSR_TRY(read_flag(in, "'has times'", &metadata->has_times, error)); }
  if (layout_has_delete_metadata(metadata->version)) {
    TSR_TRY(read_flag(in, "'has delete metadata'", &metadata->has_delete_metadata, error));
  }
  TSR_TRY(tsr__fragment_metadata_make_slots(metadata, error));
  for (size_t r = 0; r < COUNT(footer_sizes); r++) read_row(in, &footer_sizes[r], metadata);
  metadata->at.rtree = tsr__input_u64(in);
  for (size_t r = 0; r < COUNT(footer_offsets); r++) read_row(in, &footer_offsets[r], metadata);
  if (layout_has_fragment_statistics(metadata->version)) metadata->at.fragment_statistics = tsr__input_u64(in);
  if (layout_has_delete_conditions(metadata->version)) metadata->at.processed_conditions = tsr__input_u64(in);
  TSR_TRY(tsr__input_check(in, "footer", error));
  if (layout_has_footer_sections(metadata->version)) TSR_TRY(skip_sections(in, error));
  /* Newer versions of TileDB write one more u64 into footers of version 11, which no reader uses. */
  if (layout_has_longer_footers(metadata->version) && tsr__input_left(in) == 8) (void)tsr__input_u64(in);
  if (tsr__input_left(in)) {
    return tsr__fail(error, TSR_CORRUPT, "%llu of %llu bytes do not belong to a footer of version %u",
                     (unsigned long long)tsr__input_left(in), (unsigned long long)in->size, metadata->version);
  }
  TSR_TRY(check_counts(metadata, error));
  return check_offsets(metadata, error);
}

int tsr__fragment_metadata_decode_footer(const uint8_t *bytes, uint64_t size, uint64_t file_size, uint64_t footer_at,
                                         tsr_schema_finder find, void *argument, tsr_arena arena,
                                         tsr_fragment_metadata *metadata, tsr_error *error) {
  tsr_fragment_metadata made = {.arena = arena, .at.file_size = file_size, .at.footer = footer_at};
  tsr_input in = tsr__input(bytes, size);
  int rc = decode_footer(&in, find, argument, &made, error);
  if (rc < 0) {
    tsr__arena_release(&made.arena);
    return tsr__wrap(error, "footer");
  }
  *metadata = made;
  return TSR_OK;
}

/* ---- Versions 1 and 2 -------------------------------------------------------------------------------------------- */

static int decode_old_slots(tsr_input *in, tsr_fragment_metadata *metadata, tsr_error *error) {
  uint32_t attributes = metadata->schema->attribute_count;
  tsr_slot *slots = metadata->slots;
  for (uint32_t s = 0; s <= attributes; s++) {
    bool wanted = s < attributes || !metadata->dense;
    TSR_TRY(tsr__fragment_list_read(in, metadata->tile_count, "tile offsets", &metadata->arena,
                                    wanted ? &slots[s].offsets[TSR_PART_FIXED] : NULL, error));
  }
  for (uint32_t s = 0; s < attributes; s++) {
    bool wanted = tsr__fragment_slot_has_part(metadata, s, TSR_PART_VARIABLE);
    TSR_TRY(tsr__fragment_list_read(in, metadata->tile_count, "offsets of variable tiles", &metadata->arena,
                                    wanted ? &slots[s].offsets[TSR_PART_VARIABLE] : NULL, error));
  }
  for (uint32_t s = 0; s < attributes; s++) {
    bool wanted = tsr__fragment_slot_has_part(metadata, s, TSR_PART_VARIABLE);
    TSR_TRY(tsr__fragment_list_read(in, metadata->tile_count, "sizes of variable tiles", &metadata->arena,
                                    wanted ? &slots[s].var_sizes : NULL, error));
  }
  uint64_t last_tile_cells = tsr__input_u64(in);
  if (!metadata->dense) metadata->last_tile_cells = last_tile_cells;
  for (size_t r = 0; r < COUNT(footer_sizes); r++) read_row(in, &footer_sizes[r], metadata);
  TSR_TRY(tsr__input_check(in, "file sizes", error));
  TSR_TRY(check_counts(metadata, error));
  for (uint32_t s = 0; s <= attributes; s++) {
    for (int part = 0; part < TSR_PART_COUNT; part++) {
      if (!slots[s].offsets[part]) continue;
      int rc =
          tsr__fragment_offsets_finish(slots[s].offsets[part], metadata->tile_count, slots[s].file_size[part], error);
      if (rc < 0) return tsr__wrap(error, "'%s'", tsr__fragment_slot_name(metadata, s));
    }
  }
  return TSR_OK;
}

static int decode_old(tsr_input *in, tsr_schema_finder find, void *argument, tsr_fragment_metadata *metadata,
                      tsr_error *error) {
  metadata->version = tsr__input_u32(in);
  TSR_TRY(tsr__input_check(in, "version", error));
  if (metadata->version < TSR_FORMAT_READ_MIN || layout_has_footers(metadata->version)) {
    return tsr__fail(error, TSR_CORRUPT, "format version %u in metadata of version 1 or 2", metadata->version);
  }
  TSR_TRY(read_schema_name(in, metadata, error));
  TSR_TRY(find(argument, metadata->schema_name, &metadata->schema, error));
  const tsr_schema *schema = metadata->schema;
  uint64_t box_size = 0;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    box_size += 2 * tsr_datatype_size(schema->fields[d].datatype);
  }
  uint64_t domain_size = tsr__input_u64(in);
  metadata->empty_domain = domain_size == 0;
  if (domain_size != 0) {
    if (domain_size != box_size) {
      return tsr__fail(error, TSR_CORRUPT, "the non-empty domain takes %llu bytes, not %llu",
                       (unsigned long long)domain_size, (unsigned long long)box_size);
    }
    TSR_TRY(read_domain(in, metadata, error));
  }
  metadata->sparse_tile_count = tsr__input_u64(in);
  metadata->dense = schema->dense && metadata->sparse_tile_count == 0;
  metadata->tile_count = metadata->sparse_tile_count;
  tsr_rtree *rtree;
  TSR_TRY(TSR_ARENA_ARRAY(&metadata->arena, 1, &rtree, error));
  TSR_TRY(tsr__rtree_single_level(in, metadata->sparse_tile_count, schema, &metadata->arena, rtree, error));
  metadata->rtree = rtree;
  uint64_t bounds = tsr__input_u64(in);
  if (tsr__input_fits(in, bounds, box_size)) (void)tsr__input_take(in, bounds * box_size);
  TSR_TRY(tsr__input_check(in, "bounding coordinates", error));
  if (metadata->dense) TSR_TRY(count_dense_tiles(metadata, error));
  TSR_TRY(tsr__fragment_metadata_make_slots(metadata, error));
  TSR_TRY(decode_old_slots(in, metadata, error));
  if (tsr__input_left(in)) {
    return tsr__fail(error, TSR_CORRUPT, "%llu of %llu bytes do not belong to metadata of version %u",
                     (unsigned long long)tsr__input_left(in), (unsigned long long)in->size, metadata->version);
  }
  metadata->processed.loaded = true;
  return TSR_OK;
}

/* ---- From a file ------------------------------------------------------------------------------------------------- */

static int read_old(tsr_file *file, const uint8_t *key, tsr_schema_finder find, void *argument, tsr_arena arena,
                    tsr_fragment_metadata *metadata, tsr_error *error) {
  tsr_fragment_metadata made = {.arena = arena, .at.file_size = file->size, .at.footer = file->size};
  tsr_buffer content = {.memory = arena.memory};
  int rc = tsr__fragment_metadata_tile(&made, file, 0, key, TSR_METADATA_MAX, &content, error);
  if (rc == TSR_OK) {
    tsr_input in = tsr__input(content.data, content.size);
    rc = decode_old(&in, find, argument, &made, error);
  }
  tsr__buffer_release(&content);
  if (rc < 0) {
    tsr__arena_release(&made.arena);
    return rc;
  }
  *metadata = made;
  return TSR_OK;
}

/* Computes the size in bytes of a footer that is not followed by its size: versions 3 to 9, all dimensions of fixed
 * size. */
static uint64_t footer_size(const tsr_schema *schema, uint32_t version) {
  bool own_files = layout_has_dimension_files(version);
  uint64_t slots = schema->attribute_count + UINT64_C(1) + (own_files ? schema->dimension_count : 0);
  uint64_t size = 4 + 1 + 1 + 8 + 8 + 8; /* version, two flags, two counts, the R-tree's offset */
  for (uint32_t d = 0; d < schema->dimension_count; d++) size += 2 * tsr_datatype_size(schema->fields[d].datatype);
  for (size_t r = 0; r < COUNT(footer_sizes) + COUNT(footer_offsets); r++) {
    const footer_row *one = r < COUNT(footer_sizes) ? &footer_sizes[r] : &footer_offsets[r - COUNT(footer_sizes)];
    if (version >= one->since) size += 8 * (slots - (one->variable && !own_files));
  }
  return size;
}

static int find_footer(tsr_file *file, uint32_t version, tsr_schema_finder find, void *argument, uint64_t *at,
                       uint64_t *size, tsr_error *error) {
  uint64_t found, behind = 0;
  const tsr_schema *schema = NULL;
  if (!layout_has_footer_sizes(version)) TSR_TRY(find(argument, TSR_FILE_OLD_SCHEMA, &schema, error));
  if (!schema || tsr__schema_has_text(schema)) {
    uint8_t bytes[8];
    if (file->size < sizeof bytes) {
      return tsr__fail(error, TSR_CORRUPT, "a file of %llu bytes has no footer", (unsigned long long)file->size);
    }
    TSR_TRY(tsr__store_read_at(file, file->size - sizeof bytes, bytes, sizeof bytes, error));
    found = tsr__load64(bytes);
    behind = sizeof bytes;
  } else {
    found = footer_size(schema, version);
  }
  if (found > file->size - behind) {
    return tsr__fail(error, TSR_CORRUPT, "a footer of %llu bytes in a file of %llu", (unsigned long long)found,
                     (unsigned long long)file->size);
  }
  *at = file->size - behind - found;
  *size = found;
  return TSR_OK;
}

static int fragment_metadata_read(tsr_file *file, uint32_t version, const uint8_t *key, tsr_schema_finder find,
                                  void *argument, tsr_arena arena, tsr_fragment_metadata *metadata, tsr_error *error) {
  bool told = version != 0;
  if (!told) {
    uint8_t bytes[4];
    TSR_TRY(tsr__store_read_at(file, 0, bytes, sizeof bytes, error));
    version = tsr__load32(bytes);
    if (version < TSR_FORMAT_READ_MIN || layout_has_commit_files(version)) {
      return tsr__fail(error, TSR_CORRUPT, "the fragment's name has no version, and its metadata begins with %u",
                       version);
    }
  }
  if (!layout_has_footers(version)) return read_old(file, key, find, argument, arena, metadata, error);
  if (version > TSR_FORMAT_READ_MAX) {
    return tsr__fail(error, TSR_UNSUPPORTED, "format version %u; %u is the newest that can be read", version,
                     TSR_FORMAT_READ_MAX);
  }
  uint64_t at = 0, size = 0;
  TSR_TRY(find_footer(file, version, find, argument, &at, &size, error));
  uint8_t *bytes = NULL;
  tsr_fragment_metadata made;
  int rc = TSR_OK;
  if (!file->kept) {
    TSR_TRY(TSR_ALLOC_RAW(arena.memory, size, &bytes, error));
    rc = tsr__store_read_at(file, at, bytes, size, error);
  }
  if (rc == TSR_OK) {
    const uint8_t *footer = file->kept ? file->kept + at : bytes;
    rc = tsr__fragment_metadata_decode_footer(footer, size, file->size, at, find, argument, arena, &made, error);
  }
  tsr__free(bytes);
  TSR_TRY(rc);
  if (told && made.version != version) {
    uint32_t found = made.version;
    tsr__fragment_metadata_release(&made);
    return tsr__fail(error, TSR_CORRUPT, "the footer says version %u, the fragment's name %u", found, version);
  }
  *metadata = made;
  return TSR_OK;
}

int tsr__fragment_metadata_read(tsr_file *file, uint32_t version, const uint8_t *key, tsr_schema_finder find,
                                void *argument, tsr_arena arena, tsr_fragment_metadata *metadata, tsr_error *error) {
  const int rc = fragment_metadata_read(file, version, key, find, argument, arena, metadata, error);
  if (rc < 0) tsr__arena_release(&arena);
  return rc;
}

void tsr__fragment_metadata_release(tsr_fragment_metadata *metadata) {
  tsr__arena_release(&metadata->arena);
  *metadata = (tsr_fragment_metadata){0};
}

/* ---- Parts loaded on demand -------------------------------------------------------------------------------------- */

int tsr__fragment_metadata_tile(const tsr_fragment_metadata *metadata, tsr_file *file, uint64_t at, const uint8_t *key,
                                uint64_t most, tsr_buffer *content, tsr_error *error) {
  uint64_t next;
  TSR_TRY(check_offset(metadata, at, "a generic tile", NULL, error));
  int rc = tsr__generic_tile_read(file, at, key, most, content, &next, error);
  if (rc == TSR_TOOBIG) {
    return tsr__fail(error, TSR_CORRUPT, "the generic tile holds more than the %llu bytes that can be here",
                     (unsigned long long)most);
  }
  return rc;
}

/* Returns the largest possible size of the R-tree's content in bytes: a level has at most half as many MBRs as the
 * level below, rounded up. */
static uint64_t rtree_max(const tsr_fragment_metadata *metadata) {
  const tsr_schema *schema = metadata->schema;
  uint64_t box = 0;
  if (tsr__schema_has_text(schema)) return TSR_METADATA_MAX;
  for (uint32_t d = 0; d < schema->dimension_count; d++) box += 2 * tsr_datatype_size(schema->fields[d].datatype);
  return tsr__add_sat(tsr__mul_sat(tsr__mul_sat(metadata->tile_count, 2), box), TSR_RTREE_LEVELS * (8 + box) + 16);
}

int tsr__fragment_metadata_load_rtree(tsr_fragment_metadata *metadata, tsr_file *file, const uint8_t *key,
                                      tsr_error *error) {
  if (metadata->rtree) return TSR_OK;
  uint8_t few[FEW_BYTES]; /* for the content of a small fragment's tree */
  tsr_buffer content = {.memory = metadata->arena.memory, .data = few, .capacity = sizeof few, .lent = true};
  tsr_rtree *made = NULL;
  int rc = tsr__fragment_metadata_tile(metadata, file, metadata->at.rtree, key, rtree_max(metadata), &content, error);
  if (rc == TSR_OK) rc = TSR_ARENA_ARRAY(&metadata->arena, 1, &made, error);
  if (rc == TSR_OK) {
    tsr_input in = tsr__input(content.data, content.size);
    rc = tsr__rtree_decode(&in, metadata->schema, metadata->version, &metadata->arena, made, error);
  }
  tsr__buffer_release(&content);
  if (rc < 0) return tsr__wrap(error, "R-tree at byte %llu", (unsigned long long)metadata->at.rtree);
  tsr_rtree *rtree = made;
  uint64_t leaves = rtree->levels ? rtree->counts[rtree->levels - 1] : 0;
  if (!metadata->dense && leaves != metadata->tile_count) {
    return tsr__fail(error, TSR_CORRUPT, "the R-tree has %llu leaves, the fragment %llu tiles",
                     (unsigned long long)leaves, (unsigned long long)metadata->tile_count);
  }
  metadata->rtree = rtree;
  return TSR_OK;
}

/* Decodes u64 count, then for each condition u64 size and "__commits/NAME.del". NAME is stored. */
static int decode_processed(tsr_input *in, tsr_fragment_metadata *metadata, tsr_error *error) {
  uint64_t count = tsr__input_u64(in);
  if (!tsr__input_fits(in, count, 8)) return tsr__input_check(in, "processed conditions", error);
  if (count > UINT32_MAX) {
    return tsr__fail(error, TSR_CORRUPT, "%llu processed conditions", (unsigned long long)count);
  }
  char **processed;
  TSR_TRY(TSR_ARENA_ARRAY(&metadata->arena, count, &processed, error));
  for (uint64_t i = 0; i < count; i++) {
    uint64_t size = tsr__input_u64(in);
    const uint8_t *marker = tsr__input_take(in, size);
    TSR_TRY(tsr__input_check(in, "processed conditions", error));
    char *copy;
    TSR_TRY(TSR_ARENA_COPY(&metadata->arena, marker, size, &copy, error));
    if (strlen(copy) != size)
      return tsr__fail(error, TSR_CORRUPT, "marker %llu has a NUL in it", (unsigned long long)i);
    char *slash = strrchr(copy, '/'), *name = slash ? slash + 1 : copy;
    uint64_t stem;
    if (tsr__name_suffix(name, TSR_SUFFIX_DELETE, &stem)) name[stem] = 0;
    processed[i] = name;
  }
  if (tsr__input_left(in)) {
    return tsr__fail(error, TSR_CORRUPT, "%llu bytes follow the last marker", (unsigned long long)tsr__input_left(in));
  }
  metadata->processed.names = processed;
  metadata->processed.count = (uint32_t)count;
  return TSR_OK;
}

int tsr__fragment_metadata_load_processed(tsr_fragment_metadata *metadata, tsr_file *file, const uint8_t *key,
                                          tsr_error *error) {
  if (metadata->processed.loaded) return TSR_OK;
  int rc = TSR_OK;
  if (layout_has_delete_conditions(metadata->version)) {
    tsr_buffer content = {.memory = metadata->arena.memory};
    uint64_t at = metadata->at.processed_conditions;
    rc = tsr__fragment_metadata_tile(metadata, file, at, key, TSR_METADATA_MAX, &content, error);
    if (rc == TSR_OK) {
      tsr_input in = tsr__input(content.data, content.size);
      rc = decode_processed(&in, metadata, error);
    }
    tsr__buffer_release(&content);
    if (rc < 0) return tsr__wrap(error, "processed conditions at byte %llu", (unsigned long long)at);
  }
  metadata->processed.loaded = true;
  return TSR_OK;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

/* Generic tiles are written in TileDB's order: R-tree; tile offsets of all slots, offsets of variable tiles, sizes of
 * variable tiles, offsets of validity tiles (from version 7 on); minima, maxima, sums, null counts (from 11 on);
 * fragment statistics (from 12 on); processed conditions (from 16 on). The list of a part that a slot does not have is
 * all zeros. The footer follows. Fragment statistics are, for each slot: u64 size and the minimum, u64 size and the
 * maximum, 8 bytes of sum, u64 null count.
 */

#define FLUSH_SIZE (UINT64_C(1) << 20)

typedef struct metadata_writer {
  tsr_fragment_metadata *metadata;
  const tsr_statistics_writer *statistics;
  tsr_file *file;
  const uint8_t *key;
  tsr_buffer content; /* of the generic tile under construction */
  tsr_buffer out; /* bytes not yet written to the file */
  tsr_error *error;
} metadata_writer;

static int flush_metadata(metadata_writer *w, uint64_t most) {
  if (w->out.size <= most) return TSR_OK;
  TSR_TRY(tsr__store_append(w->file, w->out.data, w->out.size, w->error));
  w->out.size = 0;
  return TSR_OK;
}

/* Encodes the content as a generic tile. *at: the offset of that tile in the file. */
static int put_tile(metadata_writer *w, uint64_t *at) {
  *at = w->file->size + w->out.size;
  TSR_TRY(tsr__generic_tile_encode(w->content.data, w->content.size, w->metadata->version, w->key, &w->out, w->error));
  w->content.size = 0;
  return flush_metadata(w, FLUSH_SIZE);
}

/* Writes u64 tile count and one u64 for each tile; zeros if `values` is NULL. */
static int put_list(metadata_writer *w, const uint64_t *values, uint64_t *at) {
  uint64_t count = w->metadata->tile_count;
  TSR_TRY(tsr__buffer_append_u64(&w->content, count, w->error));
  TSR_TRY(tsr__buffer_reserve(&w->content, tsr__mul_sat(count, 8), w->error));
  if (values) memcpy(w->content.data + w->content.size, values, count * 8);
  else memset(w->content.data + w->content.size, 0, count * 8);
  w->content.size += count * 8;
  return put_tile(w, at);
}

static int put_bounds(metadata_writer *w, const tsr_buffer *values, const tsr_buffer *text, uint64_t *at) {
  TSR_TRY(tsr__buffer_append_u64(&w->content, values->size, w->error));
  TSR_TRY(tsr__buffer_append_u64(&w->content, text->size, w->error));
  if (values->size) TSR_TRY(tsr__buffer_append(&w->content, values->data, values->size, w->error));
  if (text->size) TSR_TRY(tsr__buffer_append(&w->content, text->data, text->size, w->error));
  return put_tile(w, at);
}

/* Writes u64 count and 8 bytes for each value. `values` is empty, and the count 0, if the slot has no such
 * statistics. */
static int put_numbers(metadata_writer *w, const tsr_buffer *values, uint64_t *at) {
  TSR_TRY(tsr__buffer_append_u64(&w->content, values->size / 8, w->error));
  if (values->size) TSR_TRY(tsr__buffer_append(&w->content, values->data, values->size, w->error));
  return put_tile(w, at);
}

static int put_rtree(metadata_writer *w) {
  tsr_rtree none = {.dimensions = w->metadata->schema->dimension_count};
  const tsr_rtree *rtree = w->metadata->rtree ? w->metadata->rtree : &none;
  TSR_TRY(tsr__rtree_encode(rtree, w->metadata->schema, w->metadata->version, &w->content, w->error));
  return put_tile(w, &w->metadata->at.rtree);
}

static int put_slots(metadata_writer *w) {
  tsr_fragment_metadata *m = w->metadata;
  tsr_slot *slots = m->slots;
  uint32_t count = m->slot_count;
  /* below version 5 the rows of variable parts leave out __coords */
  uint32_t variable = !layout_has_dimension_files(m->version) ? count - 1 : count;
  for (uint32_t s = 0; s < count; s++)
    TSR_TRY(put_list(w, slots[s].offsets[TSR_PART_FIXED], &slots[s].offsets_at[TSR_PART_FIXED]));
  for (uint32_t s = 0; s < variable; s++)
    TSR_TRY(put_list(w, slots[s].offsets[TSR_PART_VARIABLE], &slots[s].offsets_at[TSR_PART_VARIABLE]));
  for (uint32_t s = 0; s < variable; s++) TSR_TRY(put_list(w, slots[s].var_sizes, &slots[s].var_sizes_at));
  for (uint32_t s = 0; s < count && layout_has_validity(m->version); s++)
    TSR_TRY(put_list(w, slots[s].offsets[TSR_PART_VALIDITY], &slots[s].offsets_at[TSR_PART_VALIDITY]));
  if (!layout_has_tile_statistics(m->version)) return TSR_OK;
  for (uint32_t s = 0; s < count; s++)
    TSR_TRY(put_bounds(w, &w->statistics[s].min, &w->statistics[s].min_text, &slots[s].min_at));
  for (uint32_t s = 0; s < count; s++)
    TSR_TRY(put_bounds(w, &w->statistics[s].max, &w->statistics[s].max_text, &slots[s].max_at));
  for (uint32_t s = 0; s < count; s++) TSR_TRY(put_numbers(w, &w->statistics[s].sums, &slots[s].sum_at));
  for (uint32_t s = 0; s < count; s++) TSR_TRY(put_numbers(w, &w->statistics[s].null_counts, &slots[s].null_count_at));
  return TSR_OK;
}

static int put_fragment_statistics(metadata_writer *w) {
  if (!layout_has_fragment_statistics(w->metadata->version)) return TSR_OK;
  for (uint32_t s = 0; s < w->metadata->slot_count; s++) {
    tsr_cell_statistics all;
    tsr__statistics_of_fragment(&w->statistics[s], &all);
    uint64_t min_size = all.min ? all.min_size : 0, max_size = all.max ? all.max_size : 0;
    TSR_TRY(tsr__buffer_append_u64(&w->content, min_size, w->error));
    if (min_size) TSR_TRY(tsr__buffer_append(&w->content, all.min, min_size, w->error));
    TSR_TRY(tsr__buffer_append_u64(&w->content, max_size, w->error));
    if (max_size) TSR_TRY(tsr__buffer_append(&w->content, all.max, max_size, w->error));
    TSR_TRY(tsr__buffer_append(&w->content, all.sum, 8, w->error));
    TSR_TRY(tsr__buffer_append_u64(&w->content, all.null_count, w->error));
  }
  return put_tile(w, &w->metadata->at.fragment_statistics);
}

static int put_processed(metadata_writer *w) {
  static const char before[] = TSR_DIR_COMMITS "/", behind[] = TSR_SUFFIX_DELETE;
  const tsr_fragment_metadata *m = w->metadata;
  if (!layout_has_delete_conditions(m->version)) return TSR_OK;
  TSR_TRY(tsr__buffer_append_u64(&w->content, m->processed.count, w->error));
  for (uint32_t i = 0; i < m->processed.count; i++) {
    uint64_t size = strlen(before) + strlen(m->processed.names[i]) + strlen(behind);
    TSR_TRY(tsr__buffer_append_u64(&w->content, size, w->error));
    TSR_TRY(tsr__buffer_printf(&w->content, w->error, "%s%s%s", before, m->processed.names[i], behind));
  }
  return put_tile(w, &w->metadata->at.processed_conditions);
}

/* ---- Writing the footer ------------------------------------------------------------------------------------------ */

static int put_interval(metadata_writer *w, const tsr_field *field, const tsr_interval *interval) {
  tsr_buffer *out = &w->out;
  uint64_t size = field->cell_size;
  if (size) {
    static const tsr_interval none = {{0}, {0}, NULL, NULL, 0, 0};
    if (!interval) interval = &none;
    TSR_TRY(tsr__buffer_append(out, interval->low, size, w->error));
    return tsr__buffer_append(out, interval->high, size, w->error);
  }
  if (!interval) return TSR_OK; /* an empty domain has no bytes for a string dimension */
  TSR_TRY(tsr__buffer_append_u64(out, interval->low_size + interval->high_size, w->error));
  TSR_TRY(tsr__buffer_append_u64(out, interval->low_size, w->error));
  TSR_TRY(tsr__buffer_append(out, interval->low_text, interval->low_size, w->error));
  return tsr__buffer_append(out, interval->high_text, interval->high_size, w->error);
}

static int put_row(metadata_writer *w, const footer_row *row) {
  const tsr_fragment_metadata *m = w->metadata;
  if (m->version < row->since) return TSR_OK;
  uint32_t count = row->variable && !layout_has_dimension_files(m->version) ? m->slot_count - 1 : m->slot_count;
  for (uint32_t s = 0; s < count; s++) {
    uint64_t value;
    memcpy(&value, (const uint8_t *)&m->slots[s] + row->member, sizeof value);
    TSR_TRY(tsr__buffer_append_u64(&w->out, value, w->error));
  }
  return TSR_OK;
}

static int put_footer_body(metadata_writer *w) {
  const tsr_fragment_metadata *m = w->metadata;
  tsr_buffer *out = &w->out;
  TSR_TRY(tsr__buffer_append_u32(out, m->version, w->error));
  if (layout_has_schema_folder(m->version)) {
    TSR_TRY(tsr__buffer_append_u64(out, strlen(m->schema_name), w->error));
    TSR_TRY(tsr__buffer_append(out, m->schema_name, strlen(m->schema_name), w->error));
  }
  TSR_TRY(tsr__buffer_append_u8(out, m->dense, w->error));
  TSR_TRY(tsr__buffer_append_u8(out, m->empty_domain, w->error));
  for (uint32_t d = 0; d < m->schema->dimension_count; d++)
    TSR_TRY(put_interval(w, &m->schema->fields[d], m->empty_domain ? NULL : &m->non_empty_domain[d]));
  TSR_TRY(tsr__buffer_append_u64(out, m->dense ? 0 : m->tile_count, w->error));
  TSR_TRY(tsr__buffer_append_u64(out, m->last_tile_cells, w->error));
  if (layout_has_cell_times(m->version)) TSR_TRY(tsr__buffer_append_u8(out, m->has_times, w->error));
  if (layout_has_delete_metadata(m->version)) TSR_TRY(tsr__buffer_append_u8(out, m->has_delete_metadata, w->error));
  for (size_t r = 0; r < COUNT(footer_sizes); r++) TSR_TRY(put_row(w, &footer_sizes[r]));
  TSR_TRY(tsr__buffer_append_u64(out, m->at.rtree, w->error));
  for (size_t r = 0; r < COUNT(footer_offsets); r++) TSR_TRY(put_row(w, &footer_offsets[r]));
  if (layout_has_fragment_statistics(m->version))
    TSR_TRY(tsr__buffer_append_u64(out, m->at.fragment_statistics, w->error));
  if (layout_has_delete_conditions(m->version))
    TSR_TRY(tsr__buffer_append_u64(out, m->at.processed_conditions, w->error));
  return TSR_OK;
}

static int put_footer(metadata_writer *w) {
  tsr_fragment_metadata *m = w->metadata;
  bool sized = layout_has_footer_sizes(m->version);
  for (uint32_t d = 0; d < m->schema->dimension_count; d++) sized = sized || !m->schema->fields[d].cell_size;
  uint64_t begin = w->out.size;
  m->at.footer = w->file->size + begin;
  TSR_TRY(put_footer_body(w));
  return sized ? tsr__buffer_append_u64(&w->out, w->out.size - begin, w->error) : TSR_OK;
}

int tsr__fragment_metadata_write(tsr_fragment_metadata *metadata, const tsr_statistics_writer *statistics,
                                 tsr_file *file, const uint8_t *key, tsr_error *error) {
  tsr_memory *memory = metadata->arena.memory;
  metadata_writer w = {.metadata = metadata, .statistics = statistics, .file = file, .key = key, .error = error};
  w.content.memory = w.out.memory = memory;
  int rc = put_rtree(&w);
  if (rc >= 0) rc = put_slots(&w);
  if (rc >= 0) rc = put_fragment_statistics(&w);
  if (rc >= 0) rc = put_processed(&w);
  if (rc >= 0) rc = put_footer(&w);
  if (rc >= 0) rc = flush_metadata(&w, 0);
  tsr__buffer_release(&w.content);
  tsr__buffer_release(&w.out);
  if (rc < 0) return tsr__wrap(error, "fragment metadata");
  metadata->at.file_size = file->size;
  return TSR_OK;
}
