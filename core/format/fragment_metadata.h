/* fragment_metadata.h: __fragment_metadata.tdb: what a fragment holds and where its tiles stand. */
#ifndef TSR_FRAGMENT_METADATA_H
#define TSR_FRAGMENT_METADATA_H

#include "store/store_bounds.h"

typedef struct tsr_rtree tsr_rtree;

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
int tsr__fragment_metadata_load_processed(tsr_fragment_metadata *metadata, tsr_file *file, const uint8_t *key,
                                          tsr_error *error);

typedef enum tsr_system_column {
  TSR_SLOT_COORDS,
  TSR_SLOT_TIMES,
  TSR_SLOT_DELETE_TIMES,
  TSR_SLOT_DELETE_CONDITIONS
} tsr_system_column;

/* Room for its slots, all zero: of version, schema and times, which are set. */
int tsr__fragment_metadata_make_slots(tsr_fragment_metadata *metadata, tsr_error *error);

/* Appends the content of a generic tile of the metadata file. */
int tsr__fragment_metadata_tile(const tsr_fragment_metadata *metadata, tsr_file *file, uint64_t at, const uint8_t *key,
                                uint64_t most, tsr_buffer *content, tsr_error *error);

#endif
