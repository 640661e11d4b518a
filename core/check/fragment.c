/* fragment.c: checks one fragment: its files, the tiles of its metadata file, its MBRs and non-empty domain.
 * cells.c checks the cells.
 *
 * Since version 3 the metadata file is a sequence of generic tiles without gaps, then the footer. Each tile is decoded
 * here, even for slots without files (the coordinates of dense fragments), whose lists contain only zeros.
 *
 * Boxes are compared bottom-up: the MBRs of tiles, then the inner nodes of the R-tree, then the non-empty domain. An
 * end of a box is wrong only if it agrees neither with the cells nor with the stored boxes one level below. So one
 * wrong box, or one wrong cell, is reported once, and not again at every level above it.
 */
#include "check/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "model/datatype.h"
#include "format/fragment_metadata.h"
#include "format/generic_tile.h"
#include "format/layout.h"
#include "environment/environment.h"
#include "array/array.h"

/* ---- Names ------------------------------------------------------------------------------------------------------- */

const char *tsr__check_field(const tsr_fragment_check *f, uint32_t slot, tsr_check_words *words) {
  tsr_system_column system_column;
  bool field = tsr__fragment_slot_field(&f->metadata, slot, &system_column) >= 0;
  snprintf(words->text, sizeof words->text, "%s%s%s", field ? "field '" : "",
           tsr__fragment_slot_name(&f->metadata, slot), field ? "'" : "");
  return words->text;
}

/* Returns the name of a part for a message. */
static const char *part_noun(const tsr_fragment_check *f, uint32_t slot, unsigned part) {
  if (part == TSR_PART_VALIDITY) return "validity";
  bool variable = tsr__fragment_slot_has_part(&f->metadata, slot, TSR_PART_VARIABLE);
  return variable && part == TSR_PART_FIXED ? "offsets" : "values";
}

int tsr__check_part_path(tsr_fragment_check *f, uint32_t slot, tsr_part_kind part, tsr_check_path *path) {
  char *name;
  tsr_arena arena;
  tsr__arena_init(&arena, &f->c->memory);
  int rc = tsr__fragment_file_name(&f->metadata, slot, part, &arena, &name, f->c->error);
  if (rc >= 0) tsr__check_join(path, f->directory.text, name, "");
  tsr__arena_release(&arena);
  return rc;
}

/* ---- Metadata and schema ----------------------------------------------------------------------------------------- */

/* Callback of tsr__fragment_metadata_read: finds a schema that the check has loaded. */
static int find_schema(void *argument, const char *name, const tsr_schema **schema, tsr_error *error) {
  tsr_fragment_check *f = argument;
  const tsr_checked_schema *found = tsr__map_get(&f->c->schemas, name);
  if (!found) return tsr__fail(error, TSR_CORRUPT, "its schema %s is missing", name);
  if (!found->sound) {
    f->schema_damaged = true;
    return tsr__fail(error, TSR_CORRUPT, "schema %s is damaged", name);
  }
  *schema = &found->schema;
  return TSR_OK;
}

/* Reads the footer of the metadata file. *opened is false if the fragment cannot be checked any further. */
static int open_metadata(tsr_fragment_check *f, bool *opened) {
  tsr_checker *c = f->c;
  const tsr_checked_fragment *fragment = f->fragment;
  tsr_error fault = {0};
  *opened = false;
  if (fragment->parsed.version > TSR_FORMAT_READ_MAX)
    return tsr__check_say(c, TSR_SEVERITY_WARNING, f->directory.text,
                          "not checked: format version %u is newer than %d, the newest that is known",
                          fragment->parsed.version, TSR_FORMAT_READ_MAX);
  int rc = tsr__store_open_file(c->store, f->metadata_path.text, &f->file, &fault);
  if (rc == TSR_NOT_FOUND) {
    if (!tsr__check_is_there(c, fragment->commit)) return TSR_OK; /* a vacuum has removed both */
    return tsr__check_say(c, TSR_SEVERITY_ERROR, f->metadata_path.text, "missing: the fragment cannot be read");
  }
  if (rc >= 0)
    rc = tsr__fragment_metadata_read(f->file, fragment->parsed.version, c->key, find_schema, f, tsr__arena(&c->memory),
                                     &f->metadata, &fault);
  if (rc < 0 && f->schema_damaged)
    return tsr__check_say(c, TSR_SEVERITY_NOTE, f->directory.text, "not checked: its schema is damaged");
  if (rc < 0) TSR_TRY(tsr__check_fault(c, f->metadata_path.text, &fault, NULL));
  if (rc < 0 && f->file && fragment->footer) /* the footer is damaged, but a .meta has a copy */
    rc = tsr__fragment_metadata_decode_footer(fragment->footer, fragment->footer_size, f->file->size, f->file->size,
                                              find_schema, f, tsr__arena(&c->memory), &f->metadata, NULL);
  *opened = rc >= 0;
  return TSR_OK;
}

/* Compares the fragment's footer with its copy in a .meta, which readers prefer. */
static int check_footer(tsr_fragment_check *f) {
  tsr_checker *c = f->c;
  const tsr_checked_fragment *fragment = f->fragment;
  const tsr_fragment_metadata *m = &f->metadata;
  tsr_error fault = {0};
  uint8_t *own;
  if (!fragment->footer || m->at.footer == 0 || m->at.footer >= m->at.file_size) return TSR_OK;
  uint64_t size = fragment->footer_size, left = m->at.file_size - m->at.footer;
  if (TSR_ARENA_RAW(&f->arena, left, &own, &fault) < 0 ||
      tsr__store_read_at(f->file, m->at.footer, own, left, &fault) < 0)
    return tsr__check_fault(c, f->metadata_path.text, &fault, "footer");
  if ((left == size || left == size + 8) && memcmp(own, fragment->footer, size) == 0) return TSR_OK;
  return tsr__check_say(c, TSR_SEVERITY_ERROR, fragment->footer_path,
                        "the footer of fragment %s differs from the fragment's own", fragment->name);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* Finds the size of a file: in the listing of the fragment's directory, or by opening the file. */
static int find_size(tsr_fragment_check *f, const tsr_listing *entries, const char *name, const char *path,
                     uint64_t *size, tsr_error *fault) {
  tsr_file *file;
  const tsr_entry *entry = tsr__listing_find(entries, name);
  if (entry && entry->kind == TSR_ENTRY_FILE && entry->known) {
    *size = entry->size;
    return TSR_OK;
  }
  TSR_TRY(tsr__store_open_file(f->c->store, path, &file, fault));
  *size = file->size;
  tsr__store_close_file(file);
  return TSR_OK;
}

static int check_file(tsr_fragment_check *f, const tsr_listing *entries, uint32_t slot, unsigned part,
                      const char *name) {
  tsr_checker *c = f->c;
  tsr_check_path path;
  tsr_check_words words;
  tsr_error fault = {0};
  uint64_t size;
  tsr__check_join(&path, f->directory.text, name, "");
  int rc = find_size(f, entries, name, path.text, &size, &fault);
  if (rc == TSR_NOT_FOUND) {
    if (!tsr__check_is_there(c, f->fragment->commit)) return TSR_OK;
    return tsr__check_say(c, TSR_SEVERITY_ERROR, path.text, "missing: it holds the %s of %s", part_noun(f, slot, part),
                          tsr__check_field(f, slot, &words));
  }
  if (rc < 0) return tsr__check_fault(c, path.text, &fault, NULL);
  const uint64_t claimed = f->metadata.slots[slot].file_size[part];
  if (size == claimed) return TSR_OK;
  return tsr__check_say(c, TSR_SEVERITY_ERROR, path.text, "%llu bytes, but the fragment's metadata tells of %llu",
                        (unsigned long long)size, (unsigned long long)claimed);
}

/* Reports files of the fragment's directory that are not in `expected`. */
static int check_strays(tsr_fragment_check *f, const tsr_listing *entries, const tsr_map *expected) {
  int rc = TSR_OK;
  for (uint64_t i = 0; rc >= 0 && i < entries->count; i++) {
    const tsr_entry *entry = &entries->entries[i];
    tsr_check_path path;
    uint64_t stem;
    if (entry->kind == TSR_ENTRY_FILE &&
        (strcmp(entry->name, TSR_FILE_FRAGMENT_METADATA) == 0 || tsr__map_get(expected, entry->name)))
      continue;
    tsr__check_join(&path, f->directory.text, entry->name, "");
    if (entry->kind == TSR_ENTRY_FILE && tsr__name_suffix(entry->name, TSR_SUFFIX_PENDING, &stem))
      rc = tsr__check_say(f->c, TSR_SEVERITY_NOTE, path.text, "a marker of the database that prepared this fragment");
    else rc = tsr__check_stray(f->c, path.text, entry->kind, "this fragment");
  }
  return rc;
}

static int check_files(tsr_fragment_check *f) {
  tsr_map expected = {.memory = &f->c->memory};
  tsr_listing entries;
  bool found;
  int rc = tsr__check_list(f->c, f->directory.text, &entries, &found);
  for (uint32_t slot = 0; rc >= 0 && slot < f->metadata.slot_count; slot++) {
    if (!f->metadata.slots[slot].present) continue;
    for (unsigned part = 0; rc >= 0 && part < TSR_PART_COUNT; part++) {
      char *name;
      if (!tsr__fragment_slot_has_part(&f->metadata, slot, part)) continue;
      rc = tsr__fragment_file_name(&f->metadata, slot, part, &f->arena, &name, f->c->error);
      if (rc >= 0) rc = tsr__map_put(&expected, name, name, f->c->error);
      if (rc >= 0) rc = check_file(f, &entries, slot, part, name);
    }
  }
  if (rc >= 0) rc = check_strays(f, &entries, &expected);
  tsr__map_release(&expected);
  if (found) tsr__listing_release(&entries);
  return rc;
}

/* Lets the store prefetch all data files, which are opened next. */
static void hint_files(tsr_fragment_check *f) {
  for (uint32_t slot = 0; slot < f->metadata.slot_count; slot++) {
    for (unsigned part = 0; f->metadata.slots[slot].present && part < TSR_PART_COUNT; part++) {
      tsr_check_path path;
      if (tsr__fragment_slot_has_part(&f->metadata, slot, part) && tsr__check_part_path(f, slot, part, &path) >= 0)
        tsr__check_prefetch_add(f->c, path.text);
    }
  }
  tsr__check_prefetch_send(f->c);
}

/* ---- Generic tiles of the metadata file -------------------------------------------------------------------------- */

typedef enum metadata_tile_kind {
  METADATA_OTHER,
  METADATA_OFFSETS, /* a list of numbers without which the slot's tiles cannot be found */
  METADATA_LIST, /* another list of numbers */
  METADATA_BOUNDS /* minima or maxima */
} metadata_tile_kind;

typedef struct metadata_tile {
  uint64_t at, end; /* bytes of the file */
  uint32_t slot; /* UINT32_MAX: it belongs to the whole fragment */
  metadata_tile_kind kind;
  const char *what; /* for messages */
  bool sound;
} metadata_tile;

static int by_place(const void *a, const void *b) {
  const metadata_tile *x = a, *y = b;
  return x->at < y->at ? -1 : x->at > y->at;
}

/* Lists the tiles that the footer names. */
static int list_metadata_tiles(tsr_fragment_check *f, metadata_tile **tiles, uint64_t *count) {
  static const struct {
    size_t member;
    uint32_t since;
    bool variable;
    metadata_tile_kind kind;
    const char *what;
  } rows[] = {
      {offsetof(tsr_slot, offsets_at[TSR_PART_FIXED]), 0, false, METADATA_OFFSETS, "tile offsets"},
      {offsetof(tsr_slot, offsets_at[TSR_PART_VARIABLE]), 0, true, METADATA_OFFSETS, "offsets of variable tiles"},
      {offsetof(tsr_slot, var_sizes_at), 0, true, METADATA_OFFSETS, "sizes of variable tiles"},
      {offsetof(tsr_slot, offsets_at[TSR_PART_VALIDITY]), 7, false, METADATA_OFFSETS, "offsets of validity tiles"},
      {offsetof(tsr_slot, min_at), 11, false, METADATA_BOUNDS, "minima"},
      {offsetof(tsr_slot, max_at), 11, false, METADATA_BOUNDS, "maxima"},
      {offsetof(tsr_slot, sum_at), 11, false, METADATA_LIST, "sums"},
      {offsetof(tsr_slot, null_count_at), 11, false, METADATA_LIST, "null counts"},
  };
  const tsr_fragment_metadata *m = &f->metadata;
  uint64_t n = 0, capacity = (uint64_t)m->slot_count * (sizeof rows / sizeof *rows) + 3;
  metadata_tile *t;
  TSR_TRY(TSR_ARENA_ARRAY(&f->arena, capacity, &t, f->c->error));
  t[n++] = (metadata_tile){.at = m->at.rtree, .slot = UINT32_MAX, .what = "R-tree"};
  for (uint32_t slot = 0; slot < m->slot_count; slot++)
    for (unsigned r = 0; r < sizeof rows / sizeof *rows; r++) {
      if (m->version < rows[r].since ||
          (rows[r].variable && !layout_has_dimension_files(m->version) && slot + 1 == m->slot_count))
        continue;
      t[n] = (metadata_tile){.slot = slot, .kind = rows[r].kind, .what = rows[r].what};
      memcpy(&t[n++].at, (const uint8_t *)&m->slots[slot] + rows[r].member, sizeof(uint64_t));
    }
  if (layout_has_fragment_statistics(m->version))
    t[n++] = (metadata_tile){.at = m->at.fragment_statistics, .slot = UINT32_MAX, .what = "fragment statistics"};
  if (layout_has_delete_conditions(m->version))
    t[n++] = (metadata_tile){.at = m->at.processed_conditions, .slot = UINT32_MAX, .what = "processed conditions"};
  *tiles = t;
  *count = n;
  return TSR_OK;
}

/* Returns true if the counts and sizes in a tile's content make up the size of the content. The readers of the lists
 * compare the counts with the number of tiles. */
static bool sizes_agree(const metadata_tile *t, const tsr_buffer *content) {
  if (t->kind == METADATA_OTHER) return true;
  if (t->kind == METADATA_BOUNDS) {
    if (content->size < 16) return false;
    uint64_t values = tsr__load64(content->data), text = tsr__load64(content->data + 8);
    return tsr__add_sat(values, tsr__add_sat(text, 16)) == content->size;
  }
  return content->size >= 8 && tsr__add_sat(tsr__mul_sat(tsr__load64(content->data), 8), 8) == content->size;
}

/* Decodes one tile and reports its faults. */
static int check_metadata_tile(tsr_fragment_check *f, metadata_tile *t) {
  tsr_checker *c = f->c;
  tsr_buffer content = {.memory = &c->memory};
  tsr_check_words words, what;
  tsr_error fault = {0};
  bool own = t->slot != UINT32_MAX;
  int rc = tsr__generic_tile_read(f->file, t->at, c->key, TSR_CHECK_CONTENT_MAX, &content, &t->end, &fault);
  snprintf(what.text, sizeof what.text, "%.240s%s%s", own ? tsr__check_field(f, t->slot, &words) : "", own ? ": " : "",
           t->what);
  t->sound = rc >= 0 && sizes_agree(t, &content);
  if (rc < 0) rc = tsr__check_fault(c, f->metadata_path.text, &fault, what.text);
  else if (!t->sound)
    rc = tsr__check_say(c, TSR_SEVERITY_ERROR, f->metadata_path.text,
                        "%s at byte %llu: the sizes in it do not make up its %llu bytes", what.text,
                        (unsigned long long)t->at, (unsigned long long)content.size);
  if (!t->sound && own) {
    if (t->kind == METADATA_OFFSETS) f->slot_sound[t->slot] = false;
    else f->statistics_sound[t->slot] = false;
  }
  if (!t->sound && !own) {
    if (t->at == f->metadata.at.rtree) f->rtree_sound = false;
    else if (t->at == f->metadata.at.processed_conditions) f->processed_sound = false;
    else f->summary_sound = false;
  }
  tsr__buffer_release(&content);
  return rc;
}

/* Reports bytes of the metadata file that belong to no tile or to two. The tiles are sorted by offset. */
static int check_gaps(tsr_fragment_check *f, metadata_tile *tiles, uint64_t count) {
  const tsr_fragment_metadata *m = &f->metadata;
  uint64_t end = 0;
  bool known = true; /* `end` is the end of the previous tile */
  for (uint64_t i = 0; i <= count; i++) {
    uint64_t at = i < count ? tiles[i].at : m->at.footer;
    if (i == count && layout_hides_processed_conditions(m->version))
      break; /* the footer of this version does not name the processed conditions */
    if (known && at != end)
      TSR_TRY(
          tsr__check_say(f->c, TSR_SEVERITY_ERROR, f->metadata_path.text,
                         at > end ? "bytes %llu to %llu belong to nothing" : "bytes %llu to %llu belong to two things",
                         (unsigned long long)TSR_MIN(at, end), (unsigned long long)TSR_MAX(at, end) - 1));
    known = i < count && tiles[i].end > tiles[i].at;
    if (known) end = tiles[i].end;
  }
  return TSR_OK;
}

static int check_metadata_tiles(tsr_fragment_check *f) {
  metadata_tile *tiles;
  uint64_t count;
  if (!layout_has_footers(f->metadata.version)) return TSR_OK;
  TSR_TRY(list_metadata_tiles(f, &tiles, &count));
  qsort(tiles, count, sizeof *tiles, by_place);
  for (uint64_t i = 0; i < count; i++) {
    if (i % 64 == 63) TSR_TRY(tsr__cancelled(&f->c->environment->memory, f->c->error));
    TSR_TRY(check_metadata_tile(f, &tiles[i]));
  }
  /* In version 23 optional sections may have further tiles. If the footer came from a .meta, its offset in the metadata
   * file is not known. */
  if (layout_has_footer_sections(f->metadata.version) || f->metadata.at.footer == f->metadata.at.file_size)
    return TSR_OK;
  return check_gaps(f, tiles, count);
}

/* ---- Tile offsets ------------------------------------------------------------------------------------------------ */

/* Loads the offsets of a slot's tiles, and checks that the first tile begins at 0. */
static int check_tile_offsets(tsr_fragment_check *f, uint32_t slot) {
  tsr_checker *c = f->c;
  const tsr_slot *s = &f->metadata.slots[slot];
  tsr_check_words words;
  tsr_error fault = {0};
  if (tsr__fragment_metadata_load_slot(&f->metadata, slot, f->file, c->key, &fault) < 0) {
    f->slot_sound[slot] = false;
    return tsr__check_fault(c, f->metadata_path.text, &fault, NULL);
  }
  for (unsigned part = 0; part < TSR_PART_COUNT; part++)
    if (s->offsets[part] && s->offsets[part][0] != 0)
      TSR_TRY(tsr__check_say(c, TSR_SEVERITY_ERROR, f->metadata_path.text,
                             "%s: the %s of tile 0 begin at byte %llu of their file, not at 0",
                             tsr__check_field(f, slot, &words), part_noun(f, slot, part),
                             (unsigned long long)s->offsets[part][0]));
  return TSR_OK;
}

static int check_slots(tsr_fragment_check *f) {
  for (uint32_t slot = 0; slot < f->metadata.slot_count; slot++) {
    if (!f->metadata.slots[slot].present) continue;
    if (f->slot_sound[slot]) TSR_TRY(check_tile_offsets(f, slot));
    if (!layout_has_tile_statistics(f->metadata.version) || !f->statistics_sound[slot]) continue;
    tsr_statistics statistics;
    tsr_error fault = {0};
    if (tsr__fragment_metadata_statistics(&f->metadata, slot, f->file, f->c->key, &statistics, &fault) < 0) {
      f->statistics_sound[slot] = false;
      TSR_TRY(tsr__check_fault(f->c, f->metadata_path.text, &fault, NULL));
    }
  }
  return TSR_OK;
}

static int check_processed(tsr_fragment_check *f) {
  tsr_error fault = {0};
  if (!f->processed_sound) return TSR_OK;
  if (tsr__fragment_metadata_load_processed(&f->metadata, f->file, f->c->key, &fault) >= 0) return TSR_OK;
  f->processed_sound = false;
  return tsr__check_fault(f->c, f->metadata_path.text, &fault, NULL);
}

/* ---- Boxes ------------------------------------------------------------------------------------------------------- */

/* Returns true for ends of floats that come from NaN coordinates: these are not compared. */
static bool is_open_end(const tsr_field *field, uint64_t key) {
  return tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT && (key == 0 || key == TSR_KEY_NAN);
}

/* Fills f->boxes with the leaves of the R-tree, and f->cell_boxes with the same boxes until the cells have been
 * checked. */
static int load_boxes(tsr_fragment_check *f) {
  tsr_fragment_metadata *m = &f->metadata;
  tsr_error fault = {0};
  tsr_check_bound *block;
  if (m->dense || m->tile_count == 0 || !f->rtree_sound) return TSR_OK;
  if (tsr__fragment_metadata_load_rtree(m, f->file, f->c->key, &fault) < 0)
    return tsr__check_fault(f->c, f->metadata_path.text, &fault, NULL);
  const tsr_rtree *rtree = m->rtree;
  uint64_t ends = m->tile_count * rtree->dimensions * 2; /* the decoded R-tree has as many, so this cannot overflow */
  if (TSR_ARENA_ARRAY(&f->arena, tsr__mul_sat(2, ends), &block, &fault) < 0 ||
      TSR_ARENA_ARRAY(&f->arena, rtree->dimensions, &f->box_open, &fault) < 0)
    return tsr__check_fault(f->c, f->metadata_path.text, &fault, "R-tree");
  f->boxes = block;
  f->cell_boxes = f->boxes + ends;
  for (uint64_t i = 0; i < ends; i++) {
    uint32_t d = (uint32_t)(i / 2 % rtree->dimensions);
    uint64_t key = rtree->keys[rtree->levels - 1][i];
    if (tsr__check_is_text(f, d))
      f->boxes[i] = (tsr_check_bound){rtree->sizes[rtree->levels - 1][i], rtree->text + key};
    else {
      f->boxes[i].key = key;
      f->box_open[d] = f->box_open[d] || is_open_end(&m->schema->fields[d], key);
    }
    f->cell_boxes[i] = f->boxes[i];
  }
  return TSR_OK;
}

int tsr__check_compare_bounds(bool text, const tsr_check_bound *a, const tsr_check_bound *b) {
  if (text) return tsr__bytes_compare(a->text, a->key, b->text, b->key);
  return a->key < b->key ? -1 : a->key > b->key;
}

/* Returns true if the string is the greatest possible one, which represents an open end. */
static bool is_top(const tsr_check_bound *bound) {
  return bound->key == TSR_TOP_TEXT_SIZE && memcmp(bound->text, tsr__top_text, TSR_TOP_TEXT_SIZE) == 0;
}

const char *tsr__check_show_bound(const tsr_fragment_check *f, uint32_t dimension, const tsr_check_bound *bound,
                                  tsr_check_words *words) {
  const tsr_field *field = &f->metadata.schema->fields[dimension];
  if (tsr__check_is_text(f, dimension)) {
    snprintf(words->text, sizeof words->text, "'%.*s'", (int)TSR_MIN(bound->key, 60), (const char *)bound->text);
    return words->text;
  }
  uint8_t value[8];
  tsr__key_value(field->datatype, bound->key, value);
  return tsr__check_show_value(field->datatype, value, words);
}

/* Replaces `below` boxes by the boxes around each `fanout` of them, in place. */
static void merge_boxes(const tsr_fragment_check *f, tsr_check_bound *boxes, uint64_t below, uint64_t fanout) {
  uint32_t dimensions = f->metadata.schema->dimension_count;
  for (uint64_t i = 0; i < below; i++)
    for (uint32_t d = 0; d < dimensions; d++) {
      bool text = tsr__check_is_text(f, d);
      const tsr_check_bound *child = &boxes[(i * dimensions + d) * 2];
      tsr_check_bound *parent = &boxes[(i / fanout * dimensions + d) * 2];
      bool first = i % fanout == 0;
      tsr_check_bound low = child[0], high = child[1];
      if (first || tsr__check_compare_bounds(text, &low, &parent[0]) < 0) parent[0] = low;
      if (first || tsr__check_compare_bounds(text, &high, &parent[1]) > 0) parent[1] = high;
    }
}

static void merge_level(const tsr_fragment_check *f, uint64_t below, uint64_t fanout) {
  merge_boxes(f, f->boxes, below, fanout);
  merge_boxes(f, f->cell_boxes, below, fanout);
}

/* Returns true if a stored end differs from what it should be. Ends that cannot be known are not compared: those of
 * floats with NaN, and in versions 5 to 9 the high end of strings whose low end is empty. */
static bool end_differs(const tsr_fragment_check *f, uint32_t d, const tsr_check_bound *stored,
                        const tsr_check_bound *should, unsigned end) {
  bool text = tsr__check_is_text(f, d);
  if (f->box_open[d]) return false;
  if (text && end == 1 && !layout_has_string_high_ends(f->metadata.version) &&
      (is_top(&should[1]) || should[0].key == 0))
    return false;
  return tsr__check_compare_bounds(text, &stored[end], &should[end]) != 0;
}

/* Reads both ends of a dimension from the bytes of an inner node. */
static bool read_box(tsr_input *in, const tsr_fragment_check *f, uint32_t d, tsr_check_bound stored[2]) {
  const tsr_field *field = &f->metadata.schema->fields[d];
  if (tsr__check_is_text(f, d)) {
    uint64_t size = tsr__input_u64(in), low = tsr__input_u64(in);
    const uint8_t *bytes = low <= size ? tsr__input_take(in, size) : NULL;
    stored[0] = (tsr_check_bound){low, bytes};
    stored[1] = (tsr_check_bound){size - low, bytes ? bytes + low : NULL};
    return bytes != NULL;
  }
  uint64_t size = tsr_datatype_size(field->datatype);
  const uint8_t *bytes = tsr__input_take(in, 2 * size);
  for (unsigned end = 0; bytes && end < 2; end++) stored[end].key = tsr__key(field->datatype, bytes + end * size);
  return bytes != NULL;
}

/* Returns true if a stored end agrees neither with the stored boxes below nor with the cells. */
static bool end_is_wrong(const tsr_fragment_check *f, uint32_t d, const tsr_check_bound *stored, uint64_t at,
                         unsigned end) {
  return end_differs(f, d, stored, &f->boxes[at], end) && end_differs(f, d, stored, &f->cell_boxes[at], end);
}

static int tree_has_changed(tsr_fragment_check *f) {
  return tsr__check_say(f->c, TSR_SEVERITY_ERROR, f->metadata_path.text, "the R-tree changes while it is checked");
}

/* Reads a level of the R-tree above the leaves from its bytes (format.md, "R-tree"), and if `compare`, compares its
 * boxes with f->boxes and f->cell_boxes. The bytes were read again since the tree was decoded, and may be others. */
static int check_level(tsr_fragment_check *f, tsr_input *in, uint32_t level, bool compare) {
  uint32_t dimensions = f->metadata.schema->dimension_count;
  uint64_t count = tsr__input_u64(in);
  if (count != f->metadata.rtree->counts[level]) return tree_has_changed(f);
  for (uint64_t i = 0; i < count; i++)
    for (uint32_t d = 0; d < dimensions; d++) {
      uint64_t at = (i * dimensions + d) * 2;
      tsr_check_bound stored[2];
      tsr_check_words a, b;
      if (!read_box(in, f, d, stored)) return tree_has_changed(f);
      for (unsigned end = 0; compare && end < 2; end++)
        if (end_is_wrong(f, d, stored, at, end))
          TSR_TRY(tsr__check_say(f->c, TSR_SEVERITY_ERROR, f->metadata_path.text,
                                 "R-tree level %u, box %llu, dimension '%s': its %s end is %s, the tiles below have %s",
                                 level, (unsigned long long)i, f->metadata.schema->fields[d].name, end ? "high" : "low",
                                 tsr__check_show_bound(f, d, &stored[end], &a),
                                 tsr__check_show_bound(f, d, &f->cell_boxes[at + end], &b)));
    }
  return TSR_OK;
}

/* Compares all inner levels. The file has the root's level first, but boxes are merged from the leaves upward, so the
 * bytes are read once for each level. */
static int check_levels(tsr_fragment_check *f, const tsr_buffer *content) {
  const tsr_rtree *rtree = f->metadata.rtree;
  uint64_t below = f->metadata.tile_count;
  for (uint32_t level = rtree->levels - 1; level-- > 0;) {
    tsr_input in = tsr__input(content->data, content->size);
    (void)tsr__input_take(&in, layout_has_dimension_datatypes(f->metadata.version) ? 8 : 13);
    merge_level(f, below, rtree->fanout);
    below = rtree->counts[level];
    for (uint32_t i = 0; i <= level; i++) TSR_TRY(check_level(f, &in, i, i == level));
  }
  merge_level(f, below, below); /* one box around all tiles */
  return TSR_OK;
}

static int check_non_empty_domain(tsr_fragment_check *f) {
  const tsr_schema *schema = f->metadata.schema;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_interval *box = &f->metadata.non_empty_domain[d];
    const tsr_field *field = &schema->fields[d];
    tsr_check_bound stored[2] = {{box->low_size, box->low_text}, {box->high_size, box->high_text}};
    tsr_check_words a, b;
    if (!tsr__check_is_text(f, d)) {
      stored[0].key = tsr__key(field->datatype, box->low);
      stored[1].key = tsr__key(field->datatype, box->high);
    }
    for (unsigned end = 0; end < 2; end++)
      if (end_is_wrong(f, d, stored, 2 * d, end))
        TSR_TRY(tsr__check_say(f->c, TSR_SEVERITY_ERROR, f->metadata_path.text,
                               "non-empty domain of dimension '%s': its %s end is %s, the cells have %s", field->name,
                               end ? "high" : "low", tsr__check_show_bound(f, d, &stored[end], &a),
                               tsr__check_show_bound(f, d, &f->cell_boxes[2 * d + end], &b)));
  }
  return TSR_OK;
}

/* Checks the boxes above the leaves. Called after the cells, when f->cell_boxes is known. */
static int check_boxes(tsr_fragment_check *f) {
  tsr_fragment_metadata *m = &f->metadata;
  tsr_buffer content = {.memory = &f->c->memory};
  tsr_error fault = {0};
  int rc = TSR_OK;
  if (!f->boxes) return TSR_OK;
  if (layout_has_footers(m->version) && m->rtree->levels > 1) {
    rc = tsr__fragment_metadata_tile(m, f->file, m->at.rtree, f->c->key, UINT64_MAX, &content, &fault);
    if (rc < 0) rc = tsr__check_fault(f->c, f->metadata_path.text, &fault, "R-tree");
    else rc = check_levels(f, &content);
  } else merge_level(f, m->tile_count, m->tile_count);
  tsr__buffer_release(&content);
  return rc >= 0 ? check_non_empty_domain(f) : rc;
}

/* Checks that the non-empty domain is within the current domain of the newest schema: a current domain only grows.
 * String dimensions are skipped: without bounds, their current domain has no meaning (errata.md). */
static int check_current_domain(tsr_fragment_check *f) {
  const tsr_schema *newest = f->c->newest;
  if (!newest || !newest->current_domain || f->metadata.tile_count == 0 || f->metadata.empty_domain) return TSR_OK;
  for (uint32_t d = 0; d < newest->dimension_count && d < f->metadata.schema->dimension_count; d++) {
    const tsr_field *field = &newest->fields[d];
    const tsr_interval *box = &f->metadata.non_empty_domain[d], *current = &newest->current_domain[d];
    if (tsr__check_is_text(f, d) || field->datatype != f->metadata.schema->fields[d].datatype) continue;
    if (tsr__key(field->datatype, box->low) < tsr__key(field->datatype, current->low) ||
        tsr__key(field->datatype, box->high) > tsr__key(field->datatype, current->high))
      TSR_TRY(tsr__check_say(f->c, TSR_SEVERITY_ERROR, f->metadata_path.text,
                             "non-empty domain of dimension '%s' reaches beyond the current domain", field->name));
  }
  return TSR_OK;
}

/* Compares the number of tiles of a dense fragment with that of its non-empty domain. If they differ, *sound is false,
 * and the fragment is not checked any further: all other findings would follow from this one. */
static int check_tile_count(tsr_fragment_check *f, bool *sound) {
  const tsr_fragment_metadata *m = &f->metadata;
  tsr_buffer content = {.memory = &f->c->memory};
  tsr_error unseen;
  uint32_t slot = 0;
  *sound = true;
  if (!m->dense || m->tile_count == 0) return TSR_OK;
  while (slot < m->slot_count && !m->slots[slot].present) slot++;
  if (slot == m->slot_count) return TSR_OK;
  const int rc = tsr__fragment_metadata_tile(&f->metadata, f->file, m->slots[slot].offsets_at[TSR_PART_FIXED],
                                             f->c->key, TSR_CHECK_CONTENT_MAX, &content, &unseen);
  const uint64_t count = rc >= 0 && content.size >= 8 ? tsr__load64(content.data) : 0;
  const bool complete = count && content.size == tsr__add_sat(8, tsr__mul_sat(count, 8));
  tsr__buffer_release(&content);
  *sound = !complete || count == m->tile_count; /* check_metadata_tiles reports other faults of this list */
  if (*sound) return TSR_OK;
  return tsr__check_say(f->c, TSR_SEVERITY_ERROR, f->metadata_path.text,
                        "the fragment's box has %llu tiles, and %llu are stored: " TSR_SPLIT_BOX
                        "; it cannot be known which cells these are: write them again",
                        (unsigned long long)m->tile_count, (unsigned long long)count);
}

/* ---- All --------------------------------------------------------------------------------------------------------- */

/* Checks a fragment whose footer has been read. */
static int check_opened(tsr_fragment_check *f) {
  bool *block;
  bool sound;
  uint32_t slots = f->metadata.slot_count;
  TSR_TRY(TSR_ARENA_ARRAY(&f->arena, tsr__mul_sat(2, slots), &block, f->c->error));
  f->slot_sound = block;
  f->statistics_sound = f->slot_sound + slots;
  memset(block, true, 2 * slots * sizeof(bool));
  f->rtree_sound = f->summary_sound = f->processed_sound = true;
  TSR_TRY(tsr__check_summaries(f));
  TSR_TRY(check_footer(f));
  TSR_TRY(check_files(f));
  TSR_TRY(check_tile_count(f, &sound));
  if (!sound) return TSR_OK;
  TSR_TRY(check_metadata_tiles(f));
  TSR_TRY(check_slots(f));
  TSR_TRY(check_processed(f));
  TSR_TRY(load_boxes(f));
  TSR_TRY(check_current_domain(f));
  hint_files(f);
  TSR_TRY(tsr__check_cells(f));
  TSR_TRY(check_boxes(f));
  return tsr__check_fragment_statistics(f);
}

int tsr__check_fragment(tsr_checker *c, const tsr_checked_fragment *fragment) {
  tsr_fragment_check f = {.c = c, .fragment = fragment};
  bool opened;
  tsr__check_join(&f.directory, fragment->old_layout ? "" : TSR_DIR_FRAGMENTS, fragment->name, "");
  tsr__check_join(&f.metadata_path, f.directory.text, TSR_FILE_FRAGMENT_METADATA, "");
  tsr__arena_init(&f.arena, &c->memory);
  int rc = tsr__cancelled(&c->environment->memory, c->error);
  if (rc >= 0) rc = open_metadata(&f, &opened);
  if (rc >= 0 && opened) rc = check_opened(&f);
  tsr__fragment_metadata_release(&f.metadata);
  tsr__store_close_file(f.file);
  tsr__arena_release(&f.arena);
  return rc;
}
