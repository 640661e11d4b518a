/* fragment_metadata.h: __fragment_metadata.tdb, the description of a fragment: its non-empty domain and the positions
 * of its tiles and statistics. The footer is decoded when a fragment is opened; the R-tree, tile offsets, statistics
 * and processed conditions are loaded when they are first needed. In all functions `file` is the open metadata file,
 * and `key` is NULL if the array is not encrypted. Loading is not thread-safe for one fragment.
 *
 * Sections: fragment_metadata.c (the whole file: reading, writing), the table of the footer, fragment_slot.c (one
 * slot).
 */
#ifndef TSR_FORMAT_FRAGMENT_METADATA_H
#define TSR_FORMAT_FRAGMENT_METADATA_H

#include "store/store.h"
#include "format/layout.h"
#include "base/input.h"

/* ---- fragment_metadata.c: the metadata file ---------------------------------------------------------------------- */

typedef struct tsr_rtree tsr_rtree;

/* The files that a slot may have: values of fixed size, or the offsets of values of variable size; values of variable
 * size; validity. */
typedef enum tsr_part_kind { TSR_PART_FIXED, TSR_PART_VARIABLE, TSR_PART_VALIDITY, TSR_PART_COUNT } tsr_part_kind;

typedef struct tsr_statistics { /* of one slot, with an entry for each tile; arrays are NULL if the fragment has none */
  uint64_t count; /* tiles */
  uint64_t value_size; /* of a minimum or maximum, in bytes; 0: they are of variable size */
  const uint8_t *min, *max; /* values of fixed size, or the bytes of values of variable size */
  const uint64_t *min_offsets, *max_offsets; /* variable size: count + 1 byte offsets into min and max */
  uint64_t min_size, max_size; /* of `min` and `max`, in bytes */
  const uint64_t *sums, *null_counts;
} tsr_statistics;

/* A slot of the footer: one set of data files. Slots are, in this order: attributes; __coords (empty from version 5
 * on); dimensions (from version 5 on); then t, dt and dci if the fragment has them. */
typedef struct tsr_slot {
  bool present; /* the slot has data files */
  uint64_t file_size[TSR_PART_COUNT]; /* of the data files, in bytes */
  uint64_t offsets_at[TSR_PART_COUNT]; /* positions of the generic tiles of tile offsets in the metadata file */
  uint64_t var_sizes_at, min_at, max_at, sum_at, null_count_at; /* positions of the other generic tiles */
  uint64_t *offsets[TSR_PART_COUNT]; /* NULL until loaded: tile_count + 1 offsets; the last is the size of the file */
  uint64_t *var_sizes; /* NULL until loaded: bytes of each tile's unfiltered TSR_PART_VARIABLE */
  tsr_statistics *statistics; /* NULL until loaded */
} tsr_slot;

/* Positions of parts of the metadata in the fragment's metadata file, in bytes. */
typedef struct tsr_metadata_places {
  uint64_t rtree, fragment_statistics, processed_conditions, footer;
  uint64_t file_size; /* 0: unknown */
} tsr_metadata_places;

/* The delete conditions that were applied to the fragment's cells when it was written. */
typedef struct tsr_processed_conditions {
  bool loaded; /* the other fields are set */
  uint32_t count;
  char **names; /* as tsr_commit.name */
} tsr_processed_conditions;

typedef struct tsr_fragment_metadata {
  tsr_arena arena; /* owns the memory of all pointers below, except `schema` */
  uint32_t version;
  char *schema_name; /* "__array_schema.tdb" below version 10 */
  const tsr_schema *schema; /* the schema of that name; borrowed from the array */
  bool dense, empty_domain;
  tsr_interval *non_empty_domain; /* by dimension; the high end of a string is tsr__top_text if it is unknown */
  uint64_t sparse_tile_count, last_tile_cells; /* as stored; dense: all tiles have last_tile_cells cells */
  uint64_t tile_count; /* sparse: sparse_tile_count; dense: space tiles that the non-empty domain touches */
  bool has_times, has_delete_metadata;
  uint32_t slot_count;
  tsr_slot *slots;
  tsr_metadata_places at;
  tsr_statistics *own_statistics; /* NULL until loaded: by slot, over all tiles of the fragment */
  tsr_rtree *rtree; /* NULL until loaded */
  tsr_processed_conditions processed;
} tsr_fragment_metadata;

/* Finds the schema of a fragment by the name of its schema file. The schema must live as long as the fragment's
 * metadata. */
typedef int (*tsr_schema_finder)(void *argument, const char *name, const tsr_schema **schema, tsr_error *error);

/* Decodes a footer of version 3 or later, from a fragment's own metadata file or from a consolidated one. `bytes` is
 * the footer without the u64 length that may follow it. `footer_at` is its position in the fragment's metadata file, of
 * `file_size` bytes; file_size 0: unknown, because the footer comes from a consolidated file, so its offsets are
 * checked when they are followed. Takes ownership of `arena`, which must be empty; tsr__fragment_metadata_release frees
 * it. */
int tsr__fragment_metadata_decode_footer(const uint8_t *bytes, uint64_t size, uint64_t file_size, uint64_t footer_at,
                                         tsr_schema_finder find, void *argument, tsr_arena arena,
                                         tsr_fragment_metadata *metadata, tsr_error *error);

/* Reads the metadata from a fragment's open __fragment_metadata.tdb. `version`: of the fragment's name; 0 if the name
 * has none (versions 1 to 4). A file of version 1 or 2 is one generic tile, which is decoded completely; of later
 * versions only the footer is decoded. Takes ownership of `arena`, as above. */
int tsr__fragment_metadata_read(tsr_file *file, uint32_t version, const uint8_t *key, tsr_schema_finder find,
                                void *argument, tsr_arena arena, tsr_fragment_metadata *metadata, tsr_error *error);
void tsr__fragment_metadata_release(tsr_fragment_metadata *metadata);

/* Load the R-tree, or the processed conditions, unless already loaded. Return TSR_CORRUPT if they do not fit the file
 * or the number of tiles. */
int tsr__fragment_metadata_load_rtree(tsr_fragment_metadata *metadata, tsr_file *file, const uint8_t *key,
                                      tsr_error *error);

int tsr__fragment_metadata_load_processed(tsr_fragment_metadata *metadata, tsr_file *file, const uint8_t *key,
                                          tsr_error *error);

/* Part of the message for a dense fragment that has fewer tiles than its non-empty domain touches (errata.md). */
#define TSR_SPLIT_BOX "TileDB before 2.29.2 leaves such fragments where max_fragment_size is set"

/* Slots that do not store a field of the schema. */
typedef enum tsr_system_column {
  TSR_SLOT_COORDS, /* __coords: all coordinates, below version 5 */
  TSR_SLOT_TIMES, /* t: when a cell was written */
  TSR_SLOT_DELETE_TIMES, /* dt: when a cell was deleted */
  TSR_SLOT_DELETE_CONDITIONS /* dci: which condition deleted a cell */
} tsr_system_column;

/* Allocates the slots, all zero, and sets slot_count. The version, the schema and the flags of system columns must be
 * set beforehand. */
int tsr__fragment_metadata_make_slots(tsr_fragment_metadata *metadata, tsr_error *error);

/* Appends the content of the generic tile at offset `at` of the metadata file to `content`. `most`: largest size of the
 * content in bytes; a larger tile is TSR_CORRUPT. */
int tsr__fragment_metadata_tile(const tsr_fragment_metadata *metadata, tsr_file *file, uint64_t at, const uint8_t *key,
                                uint64_t most, tsr_buffer *content, tsr_error *error);

typedef struct tsr_statistics_writer tsr_statistics_writer;

/* Writes the metadata file: appends R-tree, tile offsets and sizes, statistics, processed conditions and footer to
 * `file`, which must be empty. `metadata` has all of these as if they had been loaded; `offsets` and `var_sizes` are
 * NULL if a slot lacks the part. Sets the positions of the generic tiles in `metadata`. `statistics`: one entry for
 * each slot. */
int tsr__fragment_metadata_write(tsr_fragment_metadata *metadata, const tsr_statistics_writer *statistics,
                                 tsr_file *file, const uint8_t *key, tsr_error *error);

/* ---- The table of the footer ------------------------------------------------------------------------------------- */

/* The u64 values that a footer has for each slot. fragment_metadata.c reads and writes footers by this table. */

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* One row of the footer: one value for each slot, in the order of slots. */
typedef struct footer_row {
  size_t member; /* offset of the value in tsr_slot */
  uint32_t since; /* first format version that has the row */
  bool variable; /* the row is about variable-length parts: below version 5 it has no value for the slot of __coords */
} footer_row;
static const footer_row footer_sizes[] = {
    {offsetof(tsr_slot, file_size[TSR_PART_FIXED]), 0, false},
    {offsetof(tsr_slot, file_size[TSR_PART_VARIABLE]), 0, true},
    {offsetof(tsr_slot, file_size[TSR_PART_VALIDITY]), TSR_SINCE_VALIDITY, false},
};
/* between these two tables the footer has the u64 offset of the R-tree */
static const footer_row footer_offsets[] = {
    {offsetof(tsr_slot, offsets_at[TSR_PART_FIXED]), 0, false},
    {offsetof(tsr_slot, offsets_at[TSR_PART_VARIABLE]), 0, true},
    {offsetof(tsr_slot, var_sizes_at), 0, true},
    {offsetof(tsr_slot, offsets_at[TSR_PART_VALIDITY]), TSR_SINCE_VALIDITY, false},
    {offsetof(tsr_slot, min_at), TSR_SINCE_TILE_STATISTICS, false},
    {offsetof(tsr_slot, max_at), TSR_SINCE_TILE_STATISTICS, false},
    {offsetof(tsr_slot, sum_at), TSR_SINCE_TILE_STATISTICS, false},
    {offsetof(tsr_slot, null_count_at), TSR_SINCE_TILE_STATISTICS, false},
};

/* ---- fragment_slot.c: the slots: fields, data files, tile offsets, statistics ------------------------------------ */

/* Readers look up the slot of a field, load its offsets, and open its files by name. */

/* Loads the tile offsets of a slot, and the sizes of variable tiles, unless already loaded. */
int tsr__fragment_metadata_load_slot(tsr_fragment_metadata *metadata, uint32_t slot, tsr_file *file, const uint8_t *key,
                                     tsr_error *error);

/* Gives the statistics of each tile of a slot, loading them on the first call. The fragment's arena owns them. Below
 * version 11 the arrays are NULL. */
int tsr__fragment_metadata_statistics(tsr_fragment_metadata *metadata, uint32_t slot, tsr_file *file,
                                      const uint8_t *key, tsr_statistics *statistics, tsr_error *error);

/* Gives the statistics of a slot over the whole fragment, as if it were one tile. Never gives sums, and bounds only for
 * fields of fixed size. Below version 12 the arrays are NULL. */
int tsr__fragment_metadata_own_statistics(tsr_fragment_metadata *metadata, uint32_t slot, tsr_file *file,
                                          const uint8_t *key, tsr_statistics *statistics, tsr_error *error);

/* Return the slot of a field, by its number in the fragment's own schema, or of a system column; -1 if the fragment has
 * no files for it. Below version 5 the slot of every dimension is __coords. */
int64_t tsr__fragment_slot(const tsr_fragment_metadata *metadata, uint32_t field);
int64_t tsr__fragment_system_slot(const tsr_fragment_metadata *metadata, tsr_system_column system_column);

/* Makes the name of a data file: "a0.tdb", "d1_var.tdb", "x_validity.tdb", "__coords.tdb" ... Files are named by field
 * name up to version 7, by escaped field name in version 8, and by field number from version 9 on. `arena` owns the
 * name. */
int tsr__fragment_file_name(const tsr_fragment_metadata *metadata, uint32_t slot, tsr_part_kind part, tsr_arena *arena,
                            char **name, tsr_error *error);

/* Returns the number of cells in a tile. Sparse: the capacity, or last_tile_cells for the last tile; dense: the cells
 * of a space tile. */
uint64_t tsr__fragment_tile_cells(const tsr_fragment_metadata *metadata, uint64_t tile);

/* Returns the number of the field that a slot stores; -1 and *system_column if it stores a system column. */
int64_t tsr__fragment_slot_field(const tsr_fragment_metadata *metadata, uint32_t slot,
                                 tsr_system_column *system_column);
/* Returns the name of the slot's field or system column, for messages. */
const char *tsr__fragment_slot_name(const tsr_fragment_metadata *metadata, uint32_t slot);
/* Returns true if the slot has files of this part. */
bool tsr__fragment_slot_has_part(const tsr_fragment_metadata *metadata, uint32_t slot, tsr_part_kind part);

/* Reads u64 count, which must be `count`, and as many u64 into an array of the arena that has room for one more. If
 * `values` is NULL, skips the list, whatever its count. `what` names the list in messages. */
int tsr__fragment_list_read(tsr_input *in, uint64_t count, const char *what, tsr_arena *arena, uint64_t **values,
                            tsr_error *error);

/* Sets offsets[count] to the size of the data file and checks that offsets rise by at least 8, since every tile begins
 * with a u64. */
int tsr__fragment_offsets_finish(uint64_t *offsets, uint64_t count, uint64_t file_size, tsr_error *error);

#endif
