/* fuzz_objects.c: fuzzes the decoder of each object on disk. An object that is accepted is used as the layers above use it,
 * and written again; the written bytes must decode to an equal object.
 *
 *   u8 kind of object | u8 flags: 1 wrapped in a generic tile with filters, 2 also encrypted | u8 version | pieces
 *
 * If an object needs a schema, that is its first piece.
 */

#include <stdlib.h>
#include <string.h>

#include "crypto/crypto.h"
#include "store/store.h"
#include "store_memory.h"
#include "model/datatype.h"
#include "model/name.h"
#include "format/commits.h"
#include "format/condition.h"
#include "format/enumeration.h"
#include "format/fragment_metadata.h"
#include "format/generic_tile.h"
#include "format/group.h"
#include "format/metadata.h"
#include "format/rtree.h"
#include "format/schema.h"
#include "format/tile.h"
#include "fuzz.h"

#define ROWS 100

typedef struct input {
  room room;
  tsr_error error;
  pieces pieces;
  style how;
  uint8_t version;
  tsr_schema schema; /* from the first piece, if the object needs one */
} input;

static const uint8_t key[TSR_KEY_SIZE] = "a key of thirty-two bytes, fixed";

/* ---- Contents of generic tiles ---------------------------------------------------------------------------------- */

/* Returns the content of a piece after it was wrapped as a generic tile and unwrapped. */
static bool content(input *i, uint32_t number, tsr_buffer *out) {
  *out = (tsr_buffer){.memory = &i->room.root};
  if (number >= i->pieces.count) return false;
  const piece *one = &i->pieces.items[number];
  uint8_t version = (uint8_t)(1 + i->version % TSR_FORMAT_READ_MAX);
  tsr_buffer stored = {.memory = &i->room.root};
  tsr_generic_tile header;
  uint64_t consumed;
  pieces_generic_tile(one->bytes, one->size, version, &i->how, &stored);
  int code = tsr__generic_tile_decode(stored.data, stored.size, i->how.filtered ? i->how.key : NULL, FUZZ_INPUT, out,
                                      &header, &consumed, &i->error);
  CHECK(code == TSR_OK && consumed == stored.size && header.version == version);
  CHECK(out->size == one->size && (!one->size || !memcmp(out->data, one->bytes, one->size)));
  if (i->how.filtered && i->how.key)
    CHECK(tsr__generic_tile_decode(stored.data, stored.size, NULL, FUZZ_INPUT, out, NULL, NULL, NULL) == TSR_AUTH);
  tsr__buffer_release(&stored);
  return true;
}

static bool told(input *i, int code) {
  check_told(code, &i->error);
  i->error = (tsr_error){0};
  return code >= 0;
}

/* Checks that the schema, written and decoded again, is the same. TSR_BUDGET is allowed. */
static bool fits(int code) {
  CHECK(code >= 0 || code == TSR_BUDGET);
  return code >= 0;
}

static bool decode_schema(input *i, uint32_t number, tsr_schema *schema) {
  tsr_buffer bytes;
  if (!content(i, number, &bytes)) return false;
  uint8_t *exact = fuzz_exact(bytes.data, bytes.size);
  tsr_input in = tsr__input(exact, bytes.size);
  bool good =
      told(i, tsr__schema_decode(&in, "__1_1_0123456789abcdef0123456789abcdef", &i->room.arena, schema, &i->error));
  free(exact);
  tsr__buffer_release(&bytes);
  return good;
}

static void run_schema(input *i) {
  tsr_schema schema, again;
  tsr_buffer out[2] = {{.memory = &i->room.memory}, {.memory = &i->room.memory}};
  if (!decode_schema(i, 0, &schema)) return;
  for (uint32_t f = 0; f < schema.dimension_count + schema.attribute_count; f++) {
    CHECK(tsr__schema_field(&schema, schema.fields[f].name) == f);
    CHECK(tsr__schema_pipeline(&schema, f));
  }
  told(i, tsr__schema_check(&schema, &i->room.memory, &i->error));
  uint32_t version;
  told(i, tsr__schema_write_version(&schema, &version, &i->error));
  if (schema.dense) {
    tsr_grid grid;
    told(i, tsr__grid_make(&schema, &i->room.arena, &grid, &i->error));
  }
  int code = tsr__schema_encode(&schema, &out[0], &i->error);
  if (told(i, code)) {
    tsr_input in = tsr__input(out[0].data, out[0].size);
    if (fits(tsr__schema_decode(&in, schema.name, &i->room.arena, &again, &i->error)) &&
        fits(tsr__schema_encode(&again, &out[1], &i->error)))
      CHECK(out[0].size == out[1].size && !memcmp(out[0].data, out[1].data, out[0].size));
  }
  tsr__buffer_release(&out[0]);
  tsr__buffer_release(&out[1]);
}

static void run_enumeration(input *i) {
  tsr_buffer bytes, out = {.memory = &i->room.memory};
  if (!content(i, 0, &bytes)) return;
  uint8_t *exact = fuzz_exact(bytes.data, bytes.size);
  /* an array has the enumeration's name from the schema; here it is taken from the content */
  tsr_input in = tsr__input(exact, bytes.size), peek = in;
  tsr__input_u32(&peek);
  uint32_t length = tsr__input_u32(&peek);
  const uint8_t *text = tsr__input_take(&peek, length);
  void *name = NULL;
  CHECK(tsr__arena_copy(&i->room.arena, text ? text : (const uint8_t *)"", text ? length : 0, &name, NULL) == TSR_OK);
  tsr_enumeration made = {.name = name, .file = (char *)"file"}, again = made;
  if (told(i, tsr__enumeration_decode(&in, &i->room.arena, &made, &i->error))) {
    for (uint64_t l = 0; l < made.count; l++) CHECK(made.offsets[l] <= made.offsets[l + 1]);
    CHECK(made.offsets[made.count] == made.data_size);
    if (fits(tsr__enumeration_encode(&made, &out, &i->error))) {
      tsr_input written = tsr__input(out.data, out.size);
      if (fits(tsr__enumeration_decode(&written, &i->room.arena, &again, &i->error)))
        CHECK(again.count == made.count && again.data_size == made.data_size);
    }
  }
  free(exact);
  tsr__buffer_release(&bytes);
  tsr__buffer_release(&out);
}

static void run_metadata(input *i) {
  tsr_buffer bytes, out = {.memory = &i->room.memory};
  tsr_metadata_entries entries, again;
  if (!content(i, 0, &bytes)) return;
  tsr_input in = tsr__input(bytes.data, bytes.size);
  if (told(i, tsr__metadata_decode(&in, &i->room.arena, &entries, &i->error))) {
    for (uint64_t e = 0; e < entries.count; e++)
      if (!fits(tsr__metadata_encode(&entries.entries[e], &out, &i->error))) break;
    tsr_input written = tsr__input(out.data, out.size);
    if (fits(tsr__metadata_decode(&written, &i->room.arena, &again, &i->error))) {
      CHECK(again.count == entries.count);
      for (uint64_t e = 0; e < again.count; e++) {
        const tsr_metadata_entry *a = &entries.entries[e], *b = &again.entries[e];
        CHECK(a->key_size == b->key_size && !memcmp(a->key, b->key, a->key_size) && a->deleted == b->deleted);
        CHECK(a->deleted ||
              (a->value_size == b->value_size && (!a->value_size || !memcmp(a->value, b->value, a->value_size))));
      }
    }
  }
  tsr__buffer_release(&bytes);
  tsr__buffer_release(&out);
}

static void run_group(input *i) {
  tsr_buffer bytes, out = {.memory = &i->room.memory};
  tsr_members members, again;
  if (!content(i, 0, &bytes)) return;
  tsr_input in = tsr__input(bytes.data, bytes.size);
  if (told(i, tsr__group_decode(&in, &i->room.arena, &members, &i->error)) &&
      told(i, tsr__group_encode(&members, &out, &i->error))) {
    tsr_input written = tsr__input(out.data, out.size);
    if (fits(tsr__group_decode(&written, &i->room.arena, &again, &i->error))) CHECK(again.count == members.count);
  }
  tsr__buffer_release(&bytes);
  tsr__buffer_release(&out);
}

/* ---- Delete conditions: the first byte of a name chooses the field ---------------------------------------------- */

static const struct {
  tsr_datatype datatype;
  uint32_t values_per_cell;
  bool nullable, constant, unwritten;
} kinds[] = {{TSR_INT32, 1, false, false, false},
             {TSR_INT64, 1, true, false, false},
             {TSR_FLOAT32, 1, false, false, false},
             {TSR_FLOAT64, 1, true, false, false},
             {TSR_ASCII, TSR_VARIABLE, false, false, false},
             {TSR_UTF8, TSR_VARIABLE, true, false, false},
             {TSR_UINT8, 1, false, true, false},
             {TSR_UINT16, 1, true, true, true},
             {TSR_BOOL, 1, false, false, false},
             {TSR_DATETIME_DAY, 1, false, false, true},
             {TSR_CHAR, 4, false, false, false},
             {TSR_BLOB, TSR_VARIABLE, false, false, false},
             {TSR_INT8, 1, false, false, false},
             {TSR_UINT64, 1, false, false, false},
             {TSR_UTF16, TSR_VARIABLE, false, false, false},
             {TSR_INT16, 2, false, false, false}};
#define KINDS (sizeof kinds / sizeof *kinds)
typedef struct cells {
  tsr_field fields[KINDS];
  tsr_column columns[KINDS];
  uint8_t values[ROWS * 8], validity[ROWS];
  uint64_t offsets[ROWS + 1];
} cells;

static int get_column(void *argument, const char *field, const tsr_field **description, const tsr_column **column,
                      tsr_error *error) {
  cells *c = argument;
  if (*field == 'z') return tsr__fail(error, TSR_CORRUPT, "there is no field '%s'", field);
  *description = &c->fields[(uint8_t)*field % KINDS];
  *column = &c->columns[(uint8_t)*field % KINDS];
  return TSR_OK;
}

static void make_cells(cells *c) {
  memset(c, 0, sizeof *c);
  for (uint64_t r = 0; r < ROWS; r++) {
    uint64_t value = r % 7 == 0 ? 0x4141414100000000u + r
                                : r % 16; /* these bits are used as texts, integers and floats; some are equal */
    tsr__store64(c->values + 8 * r, value);
    c->validity[r] = r % 5 != 0;
    c->offsets[r + 1] = c->offsets[r] + (r % 4) * 2;
  }
  for (size_t k = 0; k < KINDS; k++) {
    bool variable = kinds[k].values_per_cell == TSR_VARIABLE;
    uint64_t size = variable ? 0 : tsr_datatype_size(kinds[k].datatype) * kinds[k].values_per_cell;
    c->fields[k] = (tsr_field){.name = (char *)"field",
                               .datatype = kinds[k].datatype,
                               .values_per_cell = kinds[k].values_per_cell,
                               .nullable = kinds[k].nullable,
                               .cell_size = size};
    c->columns[k] = (tsr_column){.values = c->values,
                                 .offsets = variable ? c->offsets : NULL,
                                 .validity = kinds[k].nullable ? c->validity : NULL,
                                 .cell_size = size,
                                 .constant = kinds[k].constant,
                                 .unwritten = kinds[k].unwritten};
  }
}

static void evaluate(input *i, const tsr_condition *condition) {
  static cells c;
  uint8_t forward[ROWS], backward[ROWS];
  uint32_t selection[ROWS];
  make_cells(&c);
  for (uint32_t r = 0; r < ROWS; r++) selection[r] = ROWS - 1 - r;
  int code = tsr__condition_evaluate(condition, get_column, &c, NULL, ROWS, forward, &i->room.memory, &i->error);
  if (!told(i, code)) return;
  if (!told(i,
            tsr__condition_evaluate(condition, get_column, &c, selection, ROWS, backward, &i->room.memory, &i->error)))
    return;
  for (uint32_t r = 0; r < ROWS; r++) CHECK(forward[r] <= 1 && forward[r] == backward[ROWS - 1 - r]);
}

static void decode_condition(input *i, const uint8_t *bytes, uint64_t size) {
  tsr_condition condition;
  tsr_input in = tsr__input(bytes, size);
  if (told(i, tsr__condition_decode(&in, "__1_1_0123456789abcdef0123456789abcdef_22", 1, &i->room.arena, &condition,
                                    &i->error)))
    evaluate(i, &condition);
}

static void run_condition(input *i) {
  tsr_buffer bytes;
  if (!content(i, 0, &bytes)) return;
  uint8_t *exact = fuzz_exact(bytes.data, bytes.size);
  decode_condition(i, exact, bytes.size);
  free(exact);
  tsr__buffer_release(&bytes);
}

/* ---- Plain files ------------------------------------------------------------------------------------------------ */

static void join(input *i, uint32_t from, tsr_buffer *out) {
  pieces rest = {.count = i->pieces.count - from};
  memcpy(rest.items, i->pieces.items + from, rest.count * sizeof *rest.items);
  *out = (tsr_buffer){.memory = &i->room.root};
  pieces_join(&rest, &i->how, out);
}

/* Decodes a consolidated commits file and the delete conditions in it. */
static void run_commits(input *i) {
  tsr_buffer file;
  tsr_commits commits;
  join(i, 0, &file);
  uint8_t *exact = fuzz_exact(file.data, file.size);
  tsr_input in = tsr__input(exact, file.size);
  if (told(i, tsr__commits_decode(&in, &i->room.arena, &commits, &i->error)))
    for (uint64_t n = 0; n < commits.count; n++) {
      tsr_commit *commit = &commits.commits[n];
      CHECK(strlen(commit->name) > 0 && !strchr(commit->name, '/'));
      if (commit->kind != TSR_COMMIT_DELETE) continue;
      tsr_buffer bytes = {.memory = &i->room.memory};
      if (told(i, tsr__generic_tile_decode(commit->bytes, commit->size, i->how.key, FUZZ_INPUT, &bytes, NULL, NULL,
                                           &i->error)))
        decode_condition(i, bytes.data, bytes.size);
      tsr__buffer_release(&bytes);
    }
  free(exact);
  tsr__buffer_release(&file);
}

static void run_names(input *i) {
  tsr_buffer file;
  tsr_names names;
  join(i, 0, &file);
  uint8_t *exact = fuzz_exact(file.data, file.size);
  tsr_input in = tsr__input(exact, file.size);
  if (told(i, tsr__names_decode(&in, &i->room.arena, &names, &i->error)))
    for (uint64_t n = 0; n < names.count; n++) {
      tsr_name parsed;
      CHECK(!strchr(names.names[n], '/') && strcmp(names.names[n], "..") != 0);
      tsr__name_parse(names.names[n], strlen(names.names[n]), &parsed);
    }
  free(exact);
  tsr__buffer_release(&file);
}

/* Decodes a generic tile that is raw input, header included. */
static void run_tile(input *i) {
  tsr_buffer file, out = {.memory = &i->room.memory};
  tsr_generic_tile header;
  uint64_t consumed;
  join(i, 0, &file);
  uint8_t *exact = fuzz_exact(file.data, file.size);
  if (told(i, tsr__generic_tile_decode(exact, file.size, i->how.key, (uint64_t)1 << 20, &out, &header, &consumed,
                                       &i->error))) {
    CHECK(consumed <= file.size && out.size == header.size && out.size <= (uint64_t)1 << 20);
  }
  free(exact);
  tsr__buffer_release(&file);
  tsr__buffer_release(&out);
}

/* ---- R-trees ---------------------------------------------------------------------------------------------------- */

static int visit(void *argument, uint64_t leaf, bool inside, tsr_error *error) {
  uint64_t *next = argument;
  CHECK(leaf >= *next); /* leaves come in ascending order */
  *next = leaf + 1;
  return TSR_OK;
}

/* Queries everything, and for each dimension the range of the first leaf. */
static void query(input *i, const tsr_schema *schema, const tsr_rtree *rtree) {
  void *block;
  uint64_t next = 0;
  if (!fits(tsr__arena_array(&i->room.arena, schema->dimension_count, sizeof(tsr_spans), &block, &i->error))) return;
  tsr_spans *spans = block;
  for (uint32_t d = 0; d < schema->dimension_count; d++) spans[d] = (tsr_spans){.all = true};
  told(i, tsr__rtree_query(rtree, spans, visit, &next, &i->error));
  uint64_t leaves = rtree->levels ? rtree->counts[rtree->levels - 1] : 0;
  CHECK(next == leaves);
  if (leaves == 0) return;
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_field *field = &schema->fields[d];
    const uint64_t *keys = rtree->keys[rtree->levels - 1] + 2 * d;
    tsr_range range = {0};
    uint8_t low[8], high[8];
    if (field->values_per_cell == TSR_VARIABLE) {
      const uint64_t *sizes = rtree->sizes[rtree->levels - 1] + 2 * d;
      range = (tsr_range){rtree->text + keys[0], rtree->text + keys[1], sizes[0], sizes[1], false, false};
    } else {
      tsr__key_value(field->datatype, keys[0], low);
      tsr__key_value(field->datatype, keys[1], high);
      range = (tsr_range){.low = low, .high = high};
    }
    tsr_ranges ranges = {.ranges = &range, .count = 1};
    if (!told(i, tsr__spans_make(field, &ranges, &i->room.arena, &spans[d], &i->error))) return;
  }
  next = 0;
  told(i, tsr__rtree_query(rtree, spans, visit, &next, &i->error));
}

static void run_rtree(input *i) {
  tsr_schema schema;
  tsr_rtree rtree, again;
  tsr_buffer bytes, out = {.memory = &i->room.memory};
  if (!decode_schema(i, 0, &schema) || !content(i, 1, &bytes)) return;
  uint8_t *exact = fuzz_exact(bytes.data, bytes.size);
  tsr_input in = tsr__input(exact, bytes.size);
  uint32_t version = 1 + i->version % TSR_FORMAT_READ_MAX;
  if (told(i, tsr__rtree_decode(&in, &schema, version, &i->room.arena, &rtree, &i->error))) {
    query(i, &schema, &rtree);
    if (told(i, tsr__rtree_encode(&rtree, &schema, version, &out, &i->error))) {
      tsr_input written = tsr__input(out.data, out.size);
      if (fits(tsr__rtree_decode(&written, &schema, version, &i->room.arena, &again, &i->error)))
        CHECK(again.levels == rtree.levels &&
              (rtree.levels < 2 || again.fanout == rtree.fanout)); /* a tree of one level has no fanout */
    }
  }
  free(exact);
  tsr__buffer_release(&bytes);
  tsr__buffer_release(&out);
}

/* ---- Fragment metadata ------------------------------------------------------------------------------------------ */

static int find_schema(void *argument, const char *name, const tsr_schema **schema, tsr_error *error) {
  input *i = argument;
  if (*name == 0) return tsr__fail(error, TSR_NOT_FOUND, "no schema");
  *schema = &i->schema;
  return TSR_OK;
}

/* Makes all calls that readers make on fragment metadata. */
static void use_metadata(input *i, tsr_fragment_metadata *metadata, tsr_file *file, const uint8_t *secret) {
  CHECK(metadata->schema == &i->schema);
  for (uint32_t s = 0; s < metadata->slot_count; s++) {
    for (int part = 0; part < TSR_PART_COUNT; part++) {
      char *name;
      if (tsr__fragment_slot_has_part(metadata, s, (tsr_part_kind)part))
        told(i, tsr__fragment_file_name(metadata, s, (tsr_part_kind)part, &i->room.arena, &name, &i->error));
    }
    tsr_tile_format format;
    told(i, tsr__tile_format(metadata, s, secret, &format, &i->error));
  }
  for (uint64_t tile = 0; tile < TSR_MIN(metadata->tile_count, 100); tile++) tsr__fragment_tile_cells(metadata, tile);
  if (!file) return;
  if (told(i, tsr__fragment_metadata_load_rtree(metadata, file, secret, &i->error)) && metadata->rtree)
    query(i, &i->schema, metadata->rtree);
  told(i, tsr__fragment_metadata_load_processed(metadata, file, secret, &i->error));
  for (uint32_t s = 0; s < metadata->slot_count; s++) {
    tsr_statistics statistics;
    if (told(i, tsr__fragment_metadata_load_slot(metadata, s, file, secret, &i->error)))
      for (int part = 0; part < TSR_PART_COUNT; part++) {
        const uint64_t *offsets = metadata->slots[s].offsets[part];
        for (uint64_t tile = 0; offsets && tile < metadata->tile_count; tile++)
          CHECK(offsets[tile] <= offsets[tile + 1]);
      }
    told(i, tsr__fragment_metadata_statistics(metadata, s, file, secret, &statistics, &i->error));
    told(i, tsr__fragment_metadata_own_statistics(metadata, s, file, secret, &statistics, &i->error));
  }
}

static void run_fragment(input *i) {
  tsr_store *store;
  tsr_file *file;
  tsr_buffer bytes;
  if (!decode_schema(i, 0, &i->schema)) return;
  join(i, 1, &bytes);
  const uint8_t *secret = i->how.filtered ? i->how.key : NULL;
  CHECK(tsr__store_memory_open(&i->room.root, "fragment", &store, NULL) == TSR_OK);
  CHECK(tsr__store_create_exclusive(store, "m", &file, NULL) == TSR_OK);
  CHECK(tsr__store_append(file, bytes.data, bytes.size, NULL) == TSR_OK);
  tsr__store_close_file(file);
  tsr__buffer_release(&bytes);
  CHECK(tsr__store_open_file(store, "m", &file, NULL) == TSR_OK);
  tsr_fragment_metadata metadata;
  uint32_t version = i->version % (TSR_FORMAT_READ_MAX + 2);
  if (told(i, tsr__fragment_metadata_read(file, version, secret, find_schema, i, tsr__arena(&i->room.memory), &metadata,
                                          &i->error))) {
    use_metadata(i, &metadata, file, secret);
    tsr__fragment_metadata_release(&metadata);
  }
  tsr__store_close_file(file);
  tsr__store_close(store);
}

/* Decodes consolidated fragment metadata: names and footers. */
static void run_footers(input *i) {
  tsr_buffer bytes;
  tsr_footers footers;
  if (!decode_schema(i, 0, &i->schema) || !content(i, 1, &bytes)) return;
  uint8_t *exact = fuzz_exact(bytes.data, bytes.size);
  if (told(i, tsr__footers_decode(exact, bytes.size, &i->room.arena, &footers, &i->error)))
    for (uint64_t f = 0; f < footers.count; f++) {
      tsr_fragment_metadata metadata;
      const tsr_footer *footer = &footers.footers[f];
      CHECK(footer->at <= bytes.size && footer->size <= bytes.size - footer->at);
      if (!told(i, tsr__fragment_metadata_decode_footer(exact + footer->at, footer->size, 0, 0, find_schema, i,
                                                        tsr__arena(&i->room.memory), &metadata, &i->error)))
        continue;
      use_metadata(i, &metadata, NULL, NULL);
      tsr__fragment_metadata_release(&metadata);
    }
  free(exact);
  tsr__buffer_release(&bytes);
}

static void (*const objects[])(input *i) = {run_schema,    run_enumeration, run_metadata, run_group,
                                            run_condition, run_commits,     run_names,    run_tile,
                                            run_rtree,     run_fragment,    run_footers};
#define HEAD 3

int LLVMFuzzerInitialize(int *count, char ***arguments) { return 0; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input i = {0};
  if (size < HEAD || size > FUZZ_INPUT) return 0;
  room_open(&i.room);
  i.how = (style){data[1] & 3, data[1] & 2 ? key : NULL};
  i.version = data[2];
  tsr_input in = tsr__input(data + HEAD, size - HEAD);
  pieces_read(&in, &i.pieces);
  if (i.pieces.count > 0) objects[data[0] % (sizeof objects / sizeof *objects)](&i);
  room_close(&i.room);
  return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  if (size < HEAD + 1 || most < HEAD + 16 || fuzz_random(&state) % 32 == 0) return LLVMFuzzerMutate(data, size, most);
  if (fuzz_random(&state) % 32 == 0) {
    data[1 + fuzz_random(&state) % 2] = (uint8_t)(fuzz_random(&state) % 24);
    return size;
  }
  tsr_memory memory;
  tsr_arena arena;
  pieces p;
  tsr__memory_init_root(&memory, NULL, NULL);
  tsr__arena_init(&arena, &memory);
  tsr_buffer out = {.memory = &memory};
  tsr_input in = tsr__input(data + HEAD, size - HEAD);
  pieces_read(&in, &p);
  for (uint64_t n = 1 + fuzz_random(&state) % 3; n > 0; n--) pieces_mutate(&p, &state, most - size, &arena);
  pieces_write(&p, &out);
  if (out.size <= most - HEAD) {
    memcpy(data + HEAD, out.data, out.size);
    size = HEAD + out.size;
  }
  tsr__buffer_release(&out);
  tsr__arena_release(&arena);
  return size;
}
