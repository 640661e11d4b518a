/* fragment_slot.h: the slots of a fragment: which field each one stores, the names of its data files, the offsets of
 * its tiles and their statistics. Readers ask for the slot of a field, load its offsets, and open its files by name.
 * `file` is the open metadata file in all functions; `key` is NULL if the array is not encrypted. Loading is not
 * thread-safe for one fragment.
 */
#ifndef TSR_FRAGMENT_SLOT_H
#define TSR_FRAGMENT_SLOT_H

#include "base/input.h"
#include "format/fragment_metadata.h"

typedef struct tsr_fragment_metadata tsr_fragment_metadata;
typedef struct tsr_statistics tsr_statistics;

/* Loads the tile offsets of a slot, and the sizes of variable tiles, unless they are loaded already. */
int tsr__fragment_metadata_load_slot(tsr_fragment_metadata *metadata, uint32_t slot, tsr_file *file, const uint8_t *key,
                                     tsr_error *error);

/* Gives the statistics of each tile of a slot, loading them the first time. The fragment's arena owns them. Below
 * version 11 the arrays are NULL. */
int tsr__fragment_metadata_statistics(tsr_fragment_metadata *metadata, uint32_t slot, tsr_file *file,
                                      const uint8_t *key, tsr_statistics *statistics, tsr_error *error);

/* Gives the statistics of a slot over the whole fragment, as those of one tile. There are no sums, and bounds only for
 * fields of fixed size. Below version 12 the arrays are NULL. */
int tsr__fragment_metadata_own_statistics(tsr_fragment_metadata *metadata, uint32_t slot, tsr_file *file,
                                          const uint8_t *key, tsr_statistics *statistics, tsr_error *error);

/* Returns the slot of a field, whose number is that in the fragment's own schema, or of a system column; -1 if the
 * fragment has no files for it. Below version 5 the slot of every dimension is __coords. */
int64_t tsr__fragment_slot(const tsr_fragment_metadata *metadata, uint32_t field);
int64_t tsr__fragment_system_slot(const tsr_fragment_metadata *metadata, tsr_system_column system_column);

/* Makes the name of a data file: "a0.tdb", "d1_var.tdb", "x_validity.tdb", "__coords.tdb" ... Files are named by field
 * name up to version 7, by escaped field name in version 8, and by field number from version 9 on. `arena` owns the
 * name. */
int tsr__fragment_file_name(const tsr_fragment_metadata *metadata, uint32_t slot, tsr_part_kind part, tsr_arena *arena,
                            char **name, tsr_error *error);

/* Returns the number of cells in a tile: sparse: the capacity, or last_tile_cells for the last tile; dense: the cells
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
 * `values` is NULL, the list is skipped and its count may be any. `what` names the list in messages. */
int tsr__fragment_list_read(tsr_input *in, uint64_t count, const char *what, tsr_arena *arena, uint64_t **values,
                            tsr_error *error);

/* Sets offsets[count] to the size of the data file and checks that offsets rise by at least 8, since every tile begins
 * with a u64. */
int tsr__fragment_offsets_finish(uint64_t *offsets, uint64_t count, uint64_t file_size, tsr_error *error);

#endif
