/* format.h: the objects on disk, one file each: decode, validate, free. A version is data here: branches on `version`,
 * never a second decoder. What decode accepts, the rest relies on: counts fit, names are plain, offsets rise, sizes are
 * those of the files. docs/format.md is the normative description; each .c file opens with the bytes it owns. Encoders
 * append to buffers; on failure the buffer is as it was.
 */
#ifndef TSR_FORMAT_H
#define TSR_FORMAT_H

#include "filter.h"
#include "store.h"

/* ---- generic_tile.c: a tile with its own header, as all metadata is stored ---- */
/* u32 version, u64 persisted size, u64 tile size, u8 datatype, u64 cell size, u8 encryption, u32 pipeline size,
 * pipeline, tile. */
typedef struct tsr_generic_tile {
  uint32_t version;
  tsr_datatype datatype;
  uint64_t cell_size;
  bool encrypted;
  uint64_t persisted, size;
} tsr_generic_tile;
#define TSR_METADATA_MOST (UINT64_C(1) << 30) /* bytes of an object of metadata where nothing says less */
/* Decodes the generic tile at the front of `in`, appends its content to `out`; `consumed` is its size in the file. An
 * encrypted tile without key, or with one that does not fit, is TSR_AUTH, and so is a plain one where there is a key: it
 * is anyone's. `header` (may be NULL) is given where it could be read, though the rest cannot. The content's size is
 * checked against `most` before memory is taken. */
int tsr__generic_tile_decode(const uint8_t *in, uint64_t in_size, const uint8_t *key, uint64_t most, tsr_buffer *out,
                             tsr_generic_tile *header, uint64_t *consumed, tsr_error *error);
/* The same from a file, reading only what the tile takes; `next` (may be NULL) is the offset behind it. */
int tsr__generic_tile_read(tsr_file *file, uint64_t offset, const uint8_t *key, uint64_t most, tsr_buffer *out,
                           uint64_t *next, tsr_error *error);
/* Appends `content` as TileDB stores metadata: datatype CHAR, cell size 1, gzip level 1, encrypted if there is a key.
 * `version` is that of the fragment or schema, so that libraries of its age can read it. */
int tsr__generic_tile_encode(const uint8_t *content, uint64_t size, uint32_t version, const uint8_t *key,
                             tsr_buffer *out, tsr_error *error);

/* ---- schema.c ---- */
/* Decodes and validates the content of a schema's generic tile. All memory of the schema comes from `arena`. `name` is
 * its file's. */
int tsr__schema_decode(tsr_input *in, const char *name, tsr_arena *arena, tsr_schema *schema, tsr_error *error);
/* The field's number by its name as stored; -1 if there is none. */
int64_t tsr__schema_field(const tsr_schema *schema, const char *name);
bool tsr__schema_has_text(const tsr_schema *schema); /* a dimension of variable size */
/* The pipeline that a field's values go through: a dimension without filters of its own takes the schema's
 * coords_filters. */
const tsr_pipeline *tsr__schema_pipeline(const tsr_schema *schema, uint32_t field);

/* ---- schema_write.c, schema_rules.c ---- */
/* Appends the content of a schema's generic tile, in its version; of a schema that was decoded or has passed
 * tsr__schema_check. */
int tsr__schema_encode(const tsr_schema *schema, tsr_buffer *out, tsr_error *error);
/* May an array of this schema be created? Messages name the field and the rule: TSR_CONSTRAINT, TSR_RANGE for ends of
 * domains and numbers outside their limits, TSR_UNSUPPORTED for what the version lacks. */
int tsr__schema_check(const tsr_schema *schema, tsr_memory *memory, tsr_error *error);
/* May cells be written by this schema, which stands in a file? TSR_UNSUPPORTED where they could not be read back. */
int tsr__schema_check_writable(const tsr_schema *schema, tsr_error *error);
/* The version of the fragments that are written into an array of this schema: its own where that is 3 or 7 to 22, else
 * 22. TSR_READONLY for newer ones. */
int tsr__schema_write_version(const tsr_schema *schema, uint32_t *version, tsr_error *error);

/* ---- enumeration.c ---- */
/* Fills `enumeration` (name and file are set) from the content of its generic tile; checks that labels are unique and
 * offsets rise. */
int tsr__enumeration_decode(tsr_input *in, tsr_arena *arena, tsr_enumeration *enumeration, tsr_error *error);
/* Fails with `wrong` where two labels are the same; their offsets must be right. */
int tsr__enumeration_unique(const tsr_enumeration *enumeration, tsr_memory *memory, int wrong, tsr_error *error);
/* Appends the content of its generic tile. */
int tsr__enumeration_encode(const tsr_enumeration *enumeration, tsr_buffer *out, tsr_error *error);

/* ---- rtree.c ---- */
#define TSR_RTREE_LEVELS 64 /* at most: a fanout of 2 needs no more for any count */
/* An R-tree, every level; level 0 is the root. MBRs as order keys, strings as slices of one buffer. */
typedef struct tsr_rtree {
  uint32_t dimensions, fanout, levels;
  uint64_t *counts; /* MBRs of each level */
  uint64_t **keys; /* [level][(mbr * dimensions + d) * 2 + (0 low | 1 high)]; for strings: offsets into text */
  uint64_t **sizes; /* the same shape: sizes of strings; NULL if no dimension is a string */
  uint8_t *text;
} tsr_rtree;
int tsr__rtree_decode(tsr_input *in, const tsr_schema *schema, uint32_t version, tsr_arena *arena, tsr_rtree *rtree,
                      tsr_error *error);
/* From a plain list of MBRs (versions 1 and 2, dense fragments): one level. */
int tsr__rtree_single_level(tsr_input *in, uint64_t count, const tsr_schema *schema, tsr_arena *arena, tsr_rtree *rtree,
                            tsr_error *error);
/* Builds the levels above `count` leaves (fanout 10) from their keys and sizes, laid out as in tsr_rtree, which are
 * borrowed, as the text is; `sizes` is NULL if no dimension is a string. No leaves: no levels. */
int tsr__rtree_build(const tsr_schema *schema, uint64_t count, uint64_t *keys, uint64_t *sizes, uint8_t *text,
                     tsr_arena *arena, tsr_rtree *rtree, tsr_error *error);
/* Appends the content of its generic tile. */
int tsr__rtree_encode(const tsr_rtree *rtree, const tsr_schema *schema, uint32_t version, tsr_buffer *out,
                      tsr_error *error);
/* The high end of a string box that is open: above every string, but such as begin with it (rtree.c). */
#define TSR_TOP_TEXT_SIZE 32
extern const uint8_t tsr__top_text[TSR_TOP_TEXT_SIZE];
/* Calls fn(argument, leaf, inside) for each leaf whose MBR meets the spans (one per dimension), in order; `inside`: it
 * lies within them. fn returns < 0 to stop with that code. */
typedef int (*tsr_rtree_visitor)(void *argument, uint64_t leaf, bool inside, tsr_error *error);
int tsr__rtree_query(const tsr_rtree *rtree, const tsr_spans *spans, tsr_rtree_visitor fn, void *argument,
                     tsr_error *error);

/* ---- fragment_metadata.c, fragment_slot.c ---- */
/* Slots of the footer: attributes, one for the old __coords (empty from version 5 on), dimensions (from 5 on), then t,
 * dt, dci where present. */
typedef enum tsr_part_kind { TSR_PART_FIXED, TSR_PART_VARIABLE, TSR_PART_VALIDITY, TSR_PART_COUNT } tsr_part_kind;

typedef struct tsr_statistics { /* of one slot: one entry per tile, or NULL arrays where the fragment has none */
  uint64_t count;
  uint64_t value_size; /* bytes of a fixed min or max; 0: variable */
  const uint8_t *min, *max; /* fixed values, or the bytes of variable ones */
  const uint64_t *min_offsets, *max_offsets; /* variable: count + 1 */
  uint64_t min_size, max_size; /* bytes in all */
  const uint64_t *sums, *null_counts;
} tsr_statistics;

typedef struct tsr_slot { /* what one file set of a fragment holds, for all its tiles */
  bool present; /* has data files */
  uint64_t file_size[TSR_PART_COUNT];
  uint64_t offsets_at[TSR_PART_COUNT]; /* where the generic tiles of tile offsets stand in the metadata file */
  uint64_t var_sizes_at, min_at, max_at, sum_at, null_count_at;
  /* loaded when needed, NULL before: tile_count + 1 offsets (the last is the file's size) */
  uint64_t *offsets[TSR_PART_COUNT];
  uint64_t *var_sizes; /* bytes in memory of each tile's variable part */
  tsr_statistics *statistics;
} tsr_slot;

typedef struct tsr_fragment_metadata {
  tsr_arena arena;
  uint32_t version;
  char *schema_name; /* "__array_schema.tdb" below version 10 */
  const tsr_schema *schema; /* that schema; borrowed from the array */
  bool dense, empty_domain;
  tsr_interval *non_empty_domain; /* one per dimension; a string's high end may be tsr__top_text: unknown */
  uint64_t sparse_tile_count, last_tile_cells;
  uint64_t tile_count; /* sparse: sparse_tile_count; dense: tiles that the non-empty domain touches */
  bool has_times, has_delete_metadata;
  uint32_t slot_count;
  tsr_slot *slots;
  uint64_t rtree_at, fragment_statistics_at, processed_conditions_at;
  tsr_statistics *own_statistics; /* by slot, of all tiles together; loaded when needed */
  uint64_t file_size; /* of the metadata file */
  uint64_t footer_at;
  tsr_rtree *rtree; /* loaded when needed */
  uint32_t processed_count; /* delete markers that its cells have been through already; loaded when needed */
  bool processed_loaded;
  char **processed; /* their names, as tsr_commit.name */
} tsr_fragment_metadata;

/* Decodes a footer (version 3 on). `bytes` is the footer alone, its trailing u64 length not included: from a metadata
 * file or from a consolidated one. `schemas` finds the schema by name. file_size 0: not known yet (consolidated),
 * offsets are then checked when they are followed. */
typedef int (*tsr_schema_finder)(void *argument, const char *name, const tsr_schema **schema, tsr_error *error);
int tsr__fragment_metadata_decode_footer(const uint8_t *bytes, uint64_t size, uint64_t file_size, uint64_t footer_at,
                                         tsr_schema_finder find, void *argument, tsr_memory *memory,
                                         tsr_fragment_metadata *metadata, tsr_error *error);
/* Reads it from a fragment's open __fragment_metadata.tdb; `version` is the fragment name's (0: none), which tells
 * versions without footer length apart. Versions 1 and 2: the whole file is one generic tile, all is loaded at once. */
int tsr__fragment_metadata_read(tsr_file *file, uint32_t version, const uint8_t *key, tsr_schema_finder find,
                                void *argument, tsr_memory *memory, tsr_fragment_metadata *metadata, tsr_error *error);
void tsr__fragment_metadata_release(tsr_fragment_metadata *metadata);
/* The lazy parts, each loaded once; all take the metadata file, open. Sizes are checked against file sizes and tile
 * count. */
int tsr__fragment_metadata_load_rtree(tsr_fragment_metadata *metadata, tsr_file *file, const uint8_t *key,
                                      tsr_error *error);
/* What is said where a dense fragment has fewer tiles than its box (errata.md). */
#define TSR_SPLIT_BOX "TileDB before 2.29.2 leaves such fragments where max_fragment_size is set"
int tsr__fragment_metadata_load_slot(tsr_fragment_metadata *metadata, uint32_t slot, tsr_file *file, const uint8_t *key,
                                     tsr_error *error);
int tsr__fragment_metadata_load_processed(tsr_fragment_metadata *metadata, tsr_file *file, const uint8_t *key,
                                          tsr_error *error);
/* Statistics of a slot, loaded once into the fragment's arena (format 11 on; TSR_OK and NULL arrays before). */
int tsr__fragment_metadata_statistics(tsr_fragment_metadata *metadata, uint32_t slot, tsr_file *file,
                                      const uint8_t *key, tsr_statistics *statistics, tsr_error *error);
/* Those of all tiles together, as of one tile; without sums, and bounds of fixed size only. NULL arrays below version
 * 12. */
int tsr__fragment_metadata_own_statistics(tsr_fragment_metadata *metadata, uint32_t slot, tsr_file *file,
                                          const uint8_t *key, tsr_statistics *statistics, tsr_error *error);
/* The slot of a field of the fragment's own schema (dimensions below version 5: the __coords slot), and of the times.
 * -1 where there is none. */
int64_t tsr__fragment_slot(const tsr_fragment_metadata *metadata, uint32_t field);
typedef enum tsr_special {
  TSR_SLOT_COORDS,
  TSR_SLOT_TIMES,
  TSR_SLOT_DELETE_TIMES,
  TSR_SLOT_DELETE_CONDITIONS
} tsr_special;
int64_t tsr__fragment_special_slot(const tsr_fragment_metadata *metadata, tsr_special special);
/* File name of a slot's part ("a0.tdb", "d1_var.tdb", "x_validity.tdb", "__coords.tdb"...), into arena. By name to
 * version 7, by escaped name in 8, by index from 9 on. */
int tsr__fragment_file_name(const tsr_fragment_metadata *metadata, uint32_t slot, tsr_part_kind part, tsr_arena *arena,
                            char **name, tsr_error *error);
/* Cells of a tile: sparse: capacity, the last one last_tile_cells; dense: cells of a grid tile. */
uint64_t tsr__fragment_tile_cells(const tsr_fragment_metadata *metadata, uint64_t tile);
/* Between fragment_metadata.c and fragment_slot.c: the field that a slot holds, or -1 and which of the special ones;
 * its name for messages; whether it has such a part. */
int64_t tsr__fragment_slot_field(const tsr_fragment_metadata *metadata, uint32_t slot, tsr_special *special);
const char *tsr__fragment_slot_name(const tsr_fragment_metadata *metadata, uint32_t slot);
bool tsr__fragment_slot_has_part(const tsr_fragment_metadata *metadata, uint32_t slot, tsr_part_kind part);
/* u64 count, which must be `count`, and as many u64, into an array with room for one more. values NULL: skipped. */
int tsr__fragment_list_read(tsr_input *in, uint64_t count, const char *what, tsr_arena *arena, uint64_t **values,
                            tsr_error *error);
/* Puts the file's size behind tile offsets, and checks that they rise, by the u64 that a tile begins with at least. */
int tsr__fragment_offsets_finish(uint64_t *offsets, uint64_t count, uint64_t file_size, tsr_error *error);
/* ---- fragment_statistics.c: statistics of what is written ---- */
typedef struct tsr_run { /* cells first..first + count - 1 of a tile */
  uint64_t first, count;
} tsr_run;
/* Does a field have minima and maxima; sums (version 11 on; dimensions of dense fragments have no tiles)? */
bool tsr__statistics_have_bounds(const tsr_field *field);
bool tsr__statistics_have_sum(const tsr_field *field);
/* What is collected for one field, tile after tile. `= {.field = f}`, memory set by _init; release frees. */
typedef struct tsr_statistics_writer {
  const tsr_field *field; /* NULL: nothing is collected (times, coordinates) */
  tsr_buffer min, max; /* fixed values; variable: u64 offsets into the texts */
  tsr_buffer min_text, max_text;
  tsr_buffer sums, null_counts; /* u64 each */
  tsr_buffer valued; /* u8 each: the tile has a value that is not null */
} tsr_statistics_writer;
typedef struct tsr_cell_statistics { /* of one tile, or of a fragment */
  bool valued;
  const uint8_t *min, *max; /* borrowed; NULL where there is none */
  uint64_t min_size, max_size, null_count;
  uint8_t sum[8];
} tsr_cell_statistics;
void tsr__statistics_writer_init(tsr_statistics_writer *writer, const tsr_field *field, tsr_memory *memory);
void tsr__statistics_writer_release(tsr_statistics_writer *writer);
/* The statistics of the cells of `runs` of a tile, in their order. Thread-safe. */
void tsr__statistics_of_tile(const tsr_field *field, const uint8_t *values, const uint64_t *offsets,
                             const uint8_t *validity, const tsr_run *runs, uint64_t run_count,
                             tsr_cell_statistics *tile);
int tsr__statistics_writer_add(tsr_statistics_writer *writer, const tsr_cell_statistics *tile, tsr_error *error);
/* Those of all tiles together. */
void tsr__statistics_of_fragment(const tsr_statistics_writer *writer, tsr_cell_statistics *fragment);

/* ---- fragment_metadata_write.c ---- */
/* Writes __fragment_metadata.tdb: R-tree, tile offsets and sizes, statistics, processed conditions, footer. `metadata`
 * has all of it as if it had been loaded, offsets and var_sizes NULL where a slot lacks the part; where each generic
 * tile stands is set here. `statistics` has one entry for each slot. */
int tsr__fragment_metadata_write(tsr_fragment_metadata *metadata, const tsr_statistics_writer *statistics,
                                 tsr_file *file, const uint8_t *key, tsr_error *error);
/* Room for its slots, all zero: of version, schema and times, which are set. */
int tsr__fragment_metadata_make_slots(tsr_fragment_metadata *metadata, tsr_error *error);

/* Appends the content of a generic tile of the metadata file. */
int tsr__fragment_metadata_tile(const tsr_fragment_metadata *metadata, tsr_file *file, uint64_t at, const uint8_t *key,
                                uint64_t most, tsr_buffer *content, tsr_error *error);

/* ---- tile.c: data tiles -> columns ---- */
/* One decoded tile of one slot: a block of memory, shared by reference count (the cache and readers hold it). */
typedef struct tsr_tile {
  _Atomic uint32_t references;
  uint64_t cells, bytes; /* bytes: what it costs to keep */
  uint64_t cell_size; /* 0: variable */
  uint64_t first, end; /* only these cells' values are there; end 0: all */
  uint8_t *values; /* from `first` on */
  uint64_t values_size;
  uint64_t *offsets; /* variable: cells + 1, checked to rise and to end within values */
  uint8_t *validity; /* cells, or NULL */
} tsr_tile;
void tsr__tile_hold(tsr_tile *tile);
void tsr__tile_drop(tsr_tile *tile); /* NULL is fine */
typedef struct tsr_tile_source { /* stored bytes of a tile's parts, read already */
  const uint8_t *bytes[TSR_PART_COUNT];
  uint64_t sizes[TSR_PART_COUNT];
  uint64_t variable_size; /* from the slot's var_sizes */
  uint64_t cells;
  uint64_t first, end; /* cells whose values are wanted, for tsr__tile_divides; end 0: all */
} tsr_tile_source;
typedef struct tsr_tile_format { /* how a slot's tiles are stored */
  tsr_datatype datatype;
  uint32_t values_per_cell;
  bool nullable;
  uint32_t version;
  const tsr_pipeline *values, *offsets, *validity;
  const uint8_t *key;
  uint32_t coordinate_dimensions; /* > 0: a __coords tile of so many dimensions (below version 5) ... */
  bool coordinates_split; /* ... one dimension after the other, rather than cell by cell; decoded to split order always
                           */
} tsr_tile_format;
int tsr__tile_format(const tsr_fragment_metadata *metadata, uint32_t slot, const uint8_t *key, tsr_tile_format *format,
                     tsr_error *error);
/* Can chunks of such tiles be decoded alone? */
bool tsr__tile_divides(const tsr_tile_format *format);
/* Thread-safe. The tile's memory comes from `memory`, scratch too. */
int tsr__tile_decode(const tsr_tile_format *format, const tsr_tile_source *source, tsr_memory *memory, tsr_tile **tile,
                     tsr_error *error);

/* ---- commits.c: what is committed ---- */
typedef enum tsr_commit_kind { TSR_COMMIT_WRITE, TSR_COMMIT_DELETE, TSR_COMMIT_UPDATE } tsr_commit_kind;
typedef struct tsr_commit {
  tsr_commit_kind kind;
  char *name; /* the fragment's or condition's name, without directory and suffix */
  const uint8_t *bytes;
  uint64_t size; /* a delete's generic tile, where it stands in a consolidated file */
} tsr_commit;
typedef struct tsr_commits {
  uint64_t count;
  tsr_commit *commits;
  bool cut;
} tsr_commits;
/* Decodes a consolidated commits file (.con); names are checked and copied to `arena`, bytes are borrowed from the
 * input. A file that is empty, or ends within an entry, is TSR_CORRUPT, too; `commits->cut` then says so, and `commits`
 * holds the entries that stand before its end. */
int tsr__commits_decode(tsr_input *in, tsr_arena *arena, tsr_commits *commits, tsr_error *error);
/* Appends the entry of a committed fragment of version 12 or later to a consolidated commits file. */
int tsr__commits_encode_write(const char *name, tsr_buffer *out, tsr_error *error);
/* Appends that of a delete: `bytes` are its .del file. */
int tsr__commits_encode_delete(const char *name, const void *bytes, uint64_t size, tsr_buffer *out, tsr_error *error);
/* Decodes an ignore or vacuum file: the last path part of each line, suffixes kept; absolute URIs of moved arrays are
 * taken by what they end in. */
typedef struct tsr_names {
  uint64_t count;
  char **names;
} tsr_names;
int tsr__names_decode(tsr_input *in, tsr_arena *arena, tsr_names *names, tsr_error *error);
/* Decodes the content of the generic tile that a consolidated fragment metadata file (.meta) is: names, and where each
 * footer stands in `bytes`. Those that TileDB put elsewhere (see commits.c) are left out. */
typedef struct tsr_footer {
  char *name;
  uint64_t at, size;
} tsr_footer;
typedef struct tsr_footers {
  uint64_t count;
  tsr_footer *footers;
  bool partial; /* there are more, whose places are not known */
} tsr_footers;
int tsr__footers_decode(const uint8_t *bytes, uint64_t size, tsr_arena *arena, tsr_footers *footers, tsr_error *error);
/* Are both of the same fragments, of version 12 and later, in the same order, with no deletes beside them? */
bool tsr__commits_match(const tsr_commits *commits, const tsr_footers *footers);

/* ---- condition.c: delete conditions ---- */
/* A tree in post-order-free form: nodes with children by index. Cells that satisfy it are KEPT (errata.md). */
typedef enum tsr_condition_op {
  TSR_LT = 0,
  TSR_LE = 1,
  TSR_GT = 2,
  TSR_GE = 3,
  TSR_EQ = 4,
  TSR_NE = 5,
  TSR_IN = 6,
  TSR_NOT_IN = 7,
  TSR_ALWAYS_TRUE = 253,
  TSR_ALWAYS_FALSE = 254
} tsr_condition_op;
typedef struct tsr_condition_node {
  bool expression; /* else a comparison */
  uint8_t op; /* expression: 0 AND, 1 OR; comparison: tsr_condition_op */
  uint32_t child_count;
  struct tsr_condition_node *children;
  char *field;
  uint32_t field_number; /* in the condition's fields */
  const uint8_t *value;
  uint64_t value_size; /* IN, NOT IN: the values, one after the other */
  const uint64_t *value_offsets;
  uint64_t value_count; /* IN, NOT IN: value_count + 1 offsets */
  const struct tsr_condition_set *set; /* IN, NOT IN: the values, ready for search (condition.c) */
  const struct tsr_condition_guards *guards; /* expression: its children, looked up by value; or NULL (condition.c) */
} tsr_condition_node;
typedef struct tsr_condition {
  char *name;
  uint64_t time;
  tsr_condition_node root;
  uint32_t depth; /* of the tree; 1: the root alone */
  uint64_t comparisons; /* in the tree */
  uint32_t field_count;
  char **fields; /* that it names, each once */
} tsr_condition;
/* Decodes the content of a delete's generic tile; nothing is borrowed. Depth and counts are bounded (TSR_CORRUPT). */
int tsr__condition_decode(tsr_input *in, const char *name, uint64_t time, tsr_arena *arena, tsr_condition *condition,
                          tsr_error *error);
/* Could it be evaluated on this field, which it names: have its values the field's size? */
bool tsr__condition_fits(const tsr_condition *condition, const tsr_field *field);
/* Evaluates the tree on the cells selection[0..count) of columns (NULL: 0..count-1), as TileDB does (format.md, "Delete
 * conditions": a comparison with null is false): keep[r] = 1 where it holds, else 0. `column` gives a field's column,
 * is asked once for each field, and fails for one that the schema lacks. A column that is `unwritten` is one of an
 * attribute that the cells' fragment lacks. Thread-safe. */
typedef int (*tsr_column_getter)(void *argument, const char *field, const tsr_field **description,
                                 const tsr_column **column, tsr_error *error);
int tsr__condition_evaluate(const tsr_condition *condition, tsr_column_getter column, void *argument,
                            const uint32_t *selection, uint64_t count, uint8_t *keep, tsr_memory *memory,
                            tsr_error *error);

/* ---- condition_write.c: the content of a delete's generic tile, node by node (condition.c has the bytes) ---- */
#define TSR_JOIN_AND 0
#define TSR_JOIN_OR  1
/* Its `count` children, at least two, are appended next. */
int tsr__condition_put_expression(uint8_t join, uint64_t count, tsr_buffer *out, tsr_error *error);
/* Any operator but IN and NOT IN. */
int tsr__condition_put_comparison(tsr_condition_op op, const char *field, const void *value, uint64_t size,
                                  tsr_buffer *out, tsr_error *error);
/* IN, NOT IN (format version 20 and later): `offsets` are those of `count` values, which take `size` bytes in all, not
 * none. */
int tsr__condition_put_set(tsr_condition_op op, const char *field, const void *values, uint64_t size,
                           const uint64_t *offsets, uint64_t count, tsr_buffer *out, tsr_error *error);

/* ---- metadata.c: key-value metadata of arrays and groups ---- */
typedef struct tsr_metadata_entry {
  char *key;
  uint64_t key_size;
  bool deleted;
  tsr_datatype datatype;
  uint32_t count; /* 0: a key without a value */
  const uint8_t *value;
  uint64_t value_size;
} tsr_metadata_entry;
typedef struct tsr_metadata_entries {
  uint64_t count;
  tsr_metadata_entry *entries;
} tsr_metadata_entries;
/* The entries of one file, in file order; nothing is borrowed. */
int tsr__metadata_decode(tsr_input *in, tsr_arena *arena, tsr_metadata_entries *entries, tsr_error *error);
/* Appends an entry. */
int tsr__metadata_encode(const tsr_metadata_entry *entry, tsr_buffer *out, tsr_error *error);

/* ---- group.c ---- */
typedef struct tsr_member {
  char *uri;
  char *name;
  bool is_array, relative, named, deleted;
} tsr_member;
typedef struct tsr_members {
  uint32_t version; /* of the file: 1 or 2 */
  uint64_t count;
  tsr_member *members;
} tsr_members;
/* The members of one file, in file order: all members (version 1, the newest file counts) or changes (version 2). */
int tsr__group_decode(tsr_input *in, tsr_arena *arena, tsr_members *members, tsr_error *error);
/* Appends a file of changes, version 2. */
int tsr__group_encode(const tsr_members *members, tsr_buffer *out, tsr_error *error);

#endif
