/* fragment_metadata_write.c: writes __fragment_metadata.tdb. fragment_metadata.c and fragment_slot.c describe the
 * bytes.
 *
 * Generic tiles are written in TileDB's order: R-tree; tile offsets of all slots, offsets of variable tiles, sizes of
 * variable tiles, offsets of validity tiles (from version 7 on); minima, maxima, sums, null counts (from 11 on);
 * fragment statistics (from 12 on); processed conditions (from 16 on). The list of a part that a slot does not have is
 * all zeros. The footer follows. Fragment statistics are, for each slot: u64 size and the minimum, u64 size and the
 * maximum, 8 bytes of sum, u64 null count.
 */
#include "format/fragment_metadata_write.h"

#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "format/format_footer.h"
#include "format/fragment_statistics.h"
#include "format/generic_tile.h"
#include "format/rtree.h"
#include "format/layout.h"

#define FLUSH_SIZE (UINT64_C(1) << 20)

typedef struct fragment_metadata_write_writer {
  tsr_fragment_metadata *metadata;
  const tsr_statistics_writer *statistics;
  tsr_file *file;
  const uint8_t *key;
  tsr_buffer content; /* of the generic tile being made */
  tsr_buffer out; /* bytes that are not yet in the file */
  tsr_error *error;
} fragment_metadata_write_writer;

static int fragment_metadata_write_flush(fragment_metadata_write_writer *w, uint64_t most) {
  if (w->out.size <= most) return TSR_OK;
  TSR_TRY(tsr__store_append(w->file, w->out.data, w->out.size, w->error));
  w->out.size = 0;
  return TSR_OK;
}

/* Encodes the content as a generic tile. *at: the offset of that tile in the file. */
static int put_tile(fragment_metadata_write_writer *w, uint64_t *at) {
  *at = w->file->size + w->out.size;
  TSR_TRY(tsr__generic_tile_encode(w->content.data, w->content.size, w->metadata->version, w->key, &w->out, w->error));
  w->content.size = 0;
  return fragment_metadata_write_flush(w, FLUSH_SIZE);
}

/* Writes u64 tile count and one u64 for each tile; zeros if `values` is NULL. */
static int put_list(fragment_metadata_write_writer *w, const uint64_t *values, uint64_t *at) {
  uint64_t count = w->metadata->tile_count;
  TSR_TRY(tsr__buffer_append_u64(&w->content, count, w->error));
  TSR_TRY(tsr__buffer_reserve(&w->content, tsr__mul_sat(count, 8), w->error));
  if (values) memcpy(w->content.data + w->content.size, values, count * 8);
  else memset(w->content.data + w->content.size, 0, count * 8);
  w->content.size += count * 8;
  return put_tile(w, at);
}

static int put_bounds(fragment_metadata_write_writer *w, const tsr_buffer *values, const tsr_buffer *text,
                      uint64_t *at) {
  TSR_TRY(tsr__buffer_append_u64(&w->content, values->size, w->error));
  TSR_TRY(tsr__buffer_append_u64(&w->content, text->size, w->error));
  if (values->size) TSR_TRY(tsr__buffer_append(&w->content, values->data, values->size, w->error));
  if (text->size) TSR_TRY(tsr__buffer_append(&w->content, text->data, text->size, w->error));
  return put_tile(w, at);
}

/* Writes u64 count and 8 bytes for each value. `values` is empty, and the count 0, if the slot has no such
 * statistics. */
static int put_numbers(fragment_metadata_write_writer *w, const tsr_buffer *values, uint64_t *at) {
  TSR_TRY(tsr__buffer_append_u64(&w->content, values->size / 8, w->error));
  if (values->size) TSR_TRY(tsr__buffer_append(&w->content, values->data, values->size, w->error));
  return put_tile(w, at);
}

static int put_rtree(fragment_metadata_write_writer *w) {
  tsr_rtree none = {.dimensions = w->metadata->schema->dimension_count};
  const tsr_rtree *rtree = w->metadata->rtree ? w->metadata->rtree : &none;
  TSR_TRY(tsr__rtree_encode(rtree, w->metadata->schema, w->metadata->version, &w->content, w->error));
  return put_tile(w, &w->metadata->at.rtree);
}

static int put_slots(fragment_metadata_write_writer *w) {
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

static int put_fragment_statistics(fragment_metadata_write_writer *w) {
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

static int put_processed(fragment_metadata_write_writer *w) {
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

/* ---- The footer -------------------------------------------------------------------------------------------------- */

static int put_interval(fragment_metadata_write_writer *w, const tsr_field *field, const tsr_interval *interval) {
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

static int put_row(fragment_metadata_write_writer *w, const footer_row *row) {
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

static int put_footer_body(fragment_metadata_write_writer *w) {
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

static int put_footer(fragment_metadata_write_writer *w) {
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
  fragment_metadata_write_writer w = {
      .metadata = metadata, .statistics = statistics, .file = file, .key = key, .error = error};
  w.content.memory = w.out.memory = memory;
  int rc = put_rtree(&w);
  if (rc >= 0) rc = put_slots(&w);
  if (rc >= 0) rc = put_fragment_statistics(&w);
  if (rc >= 0) rc = put_processed(&w);
  if (rc >= 0) rc = put_footer(&w);
  if (rc >= 0) rc = fragment_metadata_write_flush(&w, 0);
  tsr__buffer_release(&w.content);
  tsr__buffer_release(&w.out);
  if (rc < 0) return tsr__wrap(error, "fragment metadata");
  metadata->at.file_size = file->size;
  return TSR_OK;
}
