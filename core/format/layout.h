/* layout.h: the names of files and directories on disk, and the format version in which each feature appeared. No other
 * file of core/ quotes such a name or compares a format version with a literal (test/lint/lint.py checks that); the
 * features of filters are in filter/filter_version.h. docs/format.md describes the contents of the files.
 */
#ifndef TSR_LAYOUT_H
#define TSR_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* ---- Directories ------------------------------------------------------------------------------------------------- */

#define TSR_DIR_SCHEMA       "__schema"
#define TSR_DIR_ENUMERATIONS "__enumerations" /* in __schema */
#define TSR_DIR_FRAGMENTS    "__fragments"
#define TSR_DIR_COMMITS      "__commits"
#define TSR_DIR_META         "__meta" /* key-value metadata */
#define TSR_DIR_FOOTERS      "__fragment_meta" /* consolidated footers */
#define TSR_DIR_LABELS       "__labels" /* arrays of dimension labels */
#define TSR_DIR_GROUP        "__group" /* members of a group */
#define TSR_DIR_TURNS        ".turns" /* claims of writers (commit_queue.c); TileDB ignores it */

/* ---- Files ------------------------------------------------------------------------------------------------------- */

#define TSR_FILE_OLD_SCHEMA        "__array_schema.tdb" /* below version 10 */
#define TSR_FILE_KV_SCHEMA         "__kv_schema.tdb" /* the same in a key-value store */
#define TSR_FILE_OLD_LOCK          "__lock.tdb" /* below version 10 */
#define TSR_FILE_OLD_GROUP         "__tiledb_group.tdb" /* marks a group in the first versions */
#define TSR_FILE_FRAGMENT_METADATA "__fragment_metadata.tdb"
#define TSR_FILE_STAGED_METADATA   ".metadata" /* below version 5: the same until its fragment is published */
#define TSR_FILE_OLD_PENDING       ".pending" /* below version 12: a marker in the fragment's directory */
#define TSR_SLOT_NAME_COORDS       "__coords" /* below version 5: the slot of all coordinates */

/* ---- Keys of metadata --------------------------------------------------------------------------------------------- */

#define TSR_KEY_DURATION "__tessera_duration." /* the name of a field follows (duration.h) */

/* ---- Suffixes and prefixes --------------------------------------------------------------------------------------- */

#define TSR_SUFFIX_WRITE         ".wrt" /* commits a fragment, from version 12 on */
#define TSR_SUFFIX_OLD_WRITE     ".ok" /* commits a fragment of versions 5 to 11 */
#define TSR_SUFFIX_DELETE        ".del" /* delete condition */
#define TSR_SUFFIX_UPDATE        ".upd" /* update condition */
#define TSR_SUFFIX_CONSOLIDATED  ".con" /* consolidated commits */
#define TSR_SUFFIX_IGNORED       ".ign" /* ignored commits */
#define TSR_SUFFIX_VACUUM        ".vac" /* fragments that a merged one replaces */
#define TSR_SUFFIX_STAGED_VACUUM ".vac.new" /* .NAME.vac.new counts as NAME.vac once NAME is committed */
#define TSR_SUFFIX_EXCHANGED     ".vac.ign" /* NAME.vac.ign cancels NAME until it becomes NAME.vac (replace.c) */
#define TSR_SUFFIX_DECIDED       ".decided" /* .NAME.decided: whether the merge NAME commits (merge_conflict.c) */
#define TSR_SUFFIX_FOOTERS       ".meta" /* consolidated footers */
#define TSR_SUFFIX_PENDING       ".pending" /* marker of a prepared commit in __commits */
#define TSR_SUFFIX_LATE          ".late" /* record of a late publication */
#define TSR_SUFFIX_DATA          ".tdb" /* data file: values of fixed size, or offsets */
#define TSR_SUFFIX_VARIABLE      "_var.tdb" /* data file: values of variable size */
#define TSR_SUFFIX_VALIDITY      "_validity.tdb" /* data file: validity */
#define TSR_PREFIX_CREATED       ".pending" /* of __schema or __array_schema.tdb until the array is published */
#define TSR_PREFIX_DROPPED       ".dropped" /* of the schemas of an array that is being dropped */
#define TSR_PREFIX_COPYING       ".copying" /* of the schemas of an array that is being copied */
#define TSR_PREFIX_SYNCED        ".synced_" /* of a copy's record of a sync (maintain/sync.c) */
#define TSR_PREFIX_LEASE         ".lease_" /* of a lease, followed by its generation */

/* ---- Format versions --------------------------------------------------------------------------------------------- */

/* The first format version that has a feature. */
enum {
  TSR_SINCE_SPLIT_COORDINATES = 2,
  TSR_SINCE_FOOTERS = 3,
  TSR_SINCE_METADATA = 4,
  TSR_SINCE_COMMIT_FILES = 5,
  TSR_SINCE_DIMENSION_FILES = 5,
  TSR_SINCE_DIMENSION_DATATYPES = 5,
  TSR_SINCE_DIMENSION_FILTERS = 5,
  TSR_SINCE_STRING_DIMENSIONS = 5,
  TSR_SINCE_DUPLICATES = 5,
  TSR_SINCE_CHECKSUM_FILTERS = 5,
  TSR_SINCE_FILL_VALUES = 6,
  TSR_SINCE_VALIDITY = 7,
  TSR_SINCE_HILBERT = 7,
  TSR_SINCE_NUMBERED_FILES = 9,
  TSR_SINCE_RELATIVE_FOOTER_NAMES = 9,
  TSR_SINCE_TIMES_OF_DAY = 9,
  TSR_SINCE_SCHEMA_FOLDER = 10,
  TSR_SINCE_FOOTER_SIZES = 10,
  TSR_SINCE_STRING_HIGH_ENDS = 10,
  TSR_SINCE_TILE_STATISTICS = 11,
  TSR_SINCE_COMMITS_FOLDER = 12,
  TSR_SINCE_FRAGMENT_STATISTICS = 12,
  TSR_SINCE_BOOL_AND_BLOB = 12,
  TSR_SINCE_DICTIONARY_FILTER = 13,
  TSR_SINCE_CELL_TIMES = 14,
  TSR_SINCE_DELETE_METADATA = 15,
  TSR_SINCE_TIMED_MERGES = 15,
  TSR_SINCE_SCALE_FLOAT_FILTER = 15,
  TSR_SINCE_DELETE_CONDITIONS = 16,
  TSR_SINCE_STATISTICS_OF_CELLS_ALONE = 16,
  TSR_SINCE_XOR_FILTER = 16,
  TSR_SINCE_DATA_ORDER = 17,
  TSR_SINCE_LABELS = 18,
  TSR_SINCE_STRING_STATISTICS = 18,
  TSR_SINCE_RELATIVE_VACUUM_NAMES = 19,
  TSR_SINCE_DELTA_FILTER = 19,
  TSR_SINCE_ENUMERATIONS = 20,
  TSR_SINCE_REINTERPRETED_DOUBLE_DELTA = 20,
  TSR_SINCE_GEOMETRIES = 21,
  TSR_SINCE_NULLABLE_STRING_STATISTICS = 21,
  TSR_SINCE_CURRENT_DOMAIN = 22,
  TSR_SINCE_FOOTER_SECTIONS = 23
};

/* __coords is always stored dimension after dimension. */
static inline bool layout_has_split_coordinates(uint32_t version) { return version >= TSR_SINCE_SPLIT_COORDINATES; }
/* Fragment metadata is a sequence of generic tiles with a footer; before, it is one generic tile. */
static inline bool layout_has_footers(uint32_t version) { return version >= TSR_SINCE_FOOTERS; }
/* Arrays have __meta. */
static inline bool layout_has_metadata(uint32_t version) { return version >= TSR_SINCE_METADATA; }
/* A separate file commits a fragment, and the fragment's name ends in the version; before, the fragment's metadata file
 * commits it. */
static inline bool layout_has_commit_files(uint32_t version) { return version >= TSR_SINCE_COMMIT_FILES; }
/* Each dimension has its own slot and files; before, all are in __coords. */
static inline bool layout_has_dimension_files(uint32_t version) { return version >= TSR_SINCE_DIMENSION_FILES; }
/* Each dimension has its own datatype, which the schema stores with the dimension. */
static inline bool layout_has_dimension_datatypes(uint32_t version) { return version >= TSR_SINCE_DIMENSION_DATATYPES; }
/* Dimensions have filters of their own. */
static inline bool layout_has_dimension_filters(uint32_t version) { return version >= TSR_SINCE_DIMENSION_FILTERS; }
/* Sparse arrays may allow duplicates. */
static inline bool layout_has_duplicates(uint32_t version) { return version >= TSR_SINCE_DUPLICATES; }
/* Schemas store fill values. */
static inline bool layout_has_fill_values(uint32_t version) { return version >= TSR_SINCE_FILL_VALUES; }
/* Attributes may be nullable. */
static inline bool layout_has_validity(uint32_t version) { return version >= TSR_SINCE_VALIDITY; }
/* Data files are named by escaped field names; before by field names, later by field numbers. */
static inline bool layout_has_escaped_files(uint32_t version) { return version == TSR_SINCE_NUMBERED_FILES - 1; }
static inline bool layout_has_numbered_files(uint32_t version) { return version >= TSR_SINCE_NUMBERED_FILES; }
/* Consolidated footers name fragments without URIs. */
static inline bool layout_has_relative_footer_names(uint32_t version) {
  return version >= TSR_SINCE_RELATIVE_FOOTER_NAMES;
}
/* Schemas are in __schema, and footers name them. */
static inline bool layout_has_schema_folder(uint32_t version) { return version >= TSR_SINCE_SCHEMA_FOLDER; }
/* The size of a footer always follows it; before, only if a dimension is of variable size. */
static inline bool layout_has_footer_sizes(uint32_t version) { return version >= TSR_SINCE_FOOTER_SIZES; }
/* The high end of a string interval is stored even if the low end is ''. */
static inline bool layout_has_string_high_ends(uint32_t version) { return version >= TSR_SINCE_STRING_HIGH_ENDS; }
/* Fragments store statistics of tiles. */
static inline bool layout_has_tile_statistics(uint32_t version) { return version >= TSR_SINCE_TILE_STATISTICS; }
/* Commits are in __commits and fragments in __fragments; before, both are in the array's directory. */
static inline bool layout_has_commits_folder(uint32_t version) { return version >= TSR_SINCE_COMMITS_FOLDER; }
/* Fragments store statistics over all of their tiles. */
static inline bool layout_has_fragment_statistics(uint32_t version) { return version >= TSR_SINCE_FRAGMENT_STATISTICS; }
/* Fragments may store times of cells. */
static inline bool layout_has_cell_times(uint32_t version) { return version >= TSR_SINCE_CELL_TIMES; }
/* Fragments may store times of deletion. */
static inline bool layout_has_delete_metadata(uint32_t version) { return version >= TSR_SINCE_DELETE_METADATA; }
/* Sparse merged fragments store the times of their cells. */
static inline bool layout_has_timed_merges(uint32_t version) { return version >= TSR_SINCE_TIMED_MERGES; }
/* Arrays have delete conditions, and fragments list those that have been applied to their cells. */
static inline bool layout_has_delete_conditions(uint32_t version) { return version >= TSR_SINCE_DELETE_CONDITIONS; }
/* Fragments may have processed conditions that the footer does not mention. */
static inline bool layout_hides_processed_conditions(uint32_t version) {
  return version == TSR_SINCE_DELETE_CONDITIONS - 1;
}
/* Statistics of dense tiles leave out the cells around the written box, which hold fill values. */
static inline bool layout_has_statistics_of_cells_alone(uint32_t version) {
  return version >= TSR_SINCE_STATISTICS_OF_CELLS_ALONE;
}
/* Attributes may be ordered. */
static inline bool layout_has_data_order(uint32_t version) { return version >= TSR_SINCE_DATA_ORDER; }
/* Arrays may have dimension labels. */
static inline bool layout_has_labels(uint32_t version) { return version >= TSR_SINCE_LABELS; }
/* Statistics of CHAR and ASCII attributes are right; the second: also those of nullable ones in dense fragments. */
static inline bool layout_has_string_statistics(uint32_t version) { return version >= TSR_SINCE_STRING_STATISTICS; }
static inline bool layout_has_nullable_string_statistics(uint32_t version) {
  return version >= TSR_SINCE_NULLABLE_STRING_STATISTICS;
}
/* Vacuum files of arrays hold paths without URIs. */
static inline bool layout_has_relative_vacuum_names(uint32_t version) {
  return version >= TSR_SINCE_RELATIVE_VACUUM_NAMES;
}
/* Attributes may have enumerations. */
static inline bool layout_has_enumerations(uint32_t version) { return version >= TSR_SINCE_ENUMERATIONS; }
/* Schemas store a current domain. */
static inline bool layout_has_current_domain(uint32_t version) { return version >= TSR_SINCE_CURRENT_DOMAIN; }
/* Footers end in optional sections. */
static inline bool layout_has_footer_sections(uint32_t version) { return version >= TSR_SINCE_FOOTER_SECTIONS; }

/* ---- Faults of single versions (docs/errata.md) ------------------------------------------------------------------ */

/* TileDB writes wrong offsets for the footers that follow a footer of this version in a consolidated file. `version` is
 * 0 for fragments below version 5, whose names have no version. */
static inline bool layout_miscounts_footers(uint32_t version) {
  return version < TSR_SINCE_COMMIT_FILES || version == 11;
}
/* A footer of this version may be 8 bytes longer than its layout. */
static inline bool layout_has_longer_footers(uint32_t version) { return version == 11; }
/* From this version on TileDB orders cells exactly by tile numbers and Hilbert codes. */
static inline bool layout_has_exact_order(uint32_t version) { return version >= 16; }
/* Hilbert codes of integers have a divisor that is larger by one. */
static inline bool layout_has_other_hilbert_divisor(uint32_t version) { return version <= 8; }
/* Tile numbers of floats are not truncated to integers. */
static inline bool layout_has_float_tile_numbers(uint32_t version) { return version <= 4; }
/* Tile numbers overflow in domains that are wider than the signed type. */
static inline bool layout_overflows_wide_domains(uint32_t version) { return version <= 8; }
/* Tile numbers treat INT8 and INT16 as unsigned. */
static inline bool layout_takes_small_integers_for_unsigned(uint32_t version) { return version >= 9 && version < 16; }

/* ---- What this library writes ------------------------------------------------------------------------------------ */

/* New fragments may have this version, if it is no newer than TSR_FORMAT_WRITE_MAX. */
static inline bool layout_is_written(uint32_t version) { return version == 3 || version >= 7; }
/* New arrays may have this version, if it is no newer than TSR_FORMAT_WRITE_MAX. */
static inline bool layout_is_created(uint32_t version) { return version == 3 || layout_has_commits_folder(version); }
/* Fragments of arrays of this version are consolidated. */
static inline bool layout_is_consolidated(uint32_t version) { return version >= 7; }

/* ---- Versions of other objects ----------------------------------------------------------------------------------- */

enum {
  TSR_GROUP_LISTS_MEMBERS = 1, /* version of a file in __group that lists all members */
  TSR_GROUP_LISTS_CHANGES = 2, /* version of a file in __group that lists changes, and of its members */
  TSR_CURRENT_DOMAIN_MAX = 1 /* newest version of current domains */
};

/* ---- Places that depend on the version --------------------------------------------------------------------------- */

/* Returns the directory of commits; "" is the array's directory. */
static inline const char *layout_commits_folder(uint32_t version) {
  return layout_has_commits_folder(version) ? TSR_DIR_COMMITS : "";
}
/* Returns the directory of fragments; "" is the array's directory. */
static inline const char *layout_fragments_folder(uint32_t version) {
  return layout_has_commits_folder(version) ? TSR_DIR_FRAGMENTS : "";
}
/* Returns the suffix of the file that commits a fragment, from TSR_SINCE_COMMIT_FILES on. */
static inline const char *layout_commit_suffix(uint32_t version) {
  return layout_has_commits_folder(version) ? TSR_SUFFIX_WRITE : TSR_SUFFIX_OLD_WRITE;
}

#endif
