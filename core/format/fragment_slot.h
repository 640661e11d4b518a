/* fragment_slot.h: the slots of a fragment: what each holds, its files, where its tiles stand, their statistics. */
#ifndef TSR_FRAGMENT_SLOT_H
#define TSR_FRAGMENT_SLOT_H

#include "base/input.h"
#include "format/fragment_metadata.h"

typedef struct tsr_fragment_metadata tsr_fragment_metadata;
typedef struct tsr_statistics tsr_statistics;

int tsr__fragment_metadata_load_slot(tsr_fragment_metadata *metadata, uint32_t slot, tsr_file *file, const uint8_t *key,
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
int64_t tsr__fragment_system_slot(const tsr_fragment_metadata *metadata, tsr_system_column system_column);

/* File name of a slot's part ("a0.tdb", "d1_var.tdb", "x_validity.tdb", "__coords.tdb"...), into arena. By name to
 * version 7, by escaped name in 8, by index from 9 on. */
int tsr__fragment_file_name(const tsr_fragment_metadata *metadata, uint32_t slot, tsr_part_kind part, tsr_arena *arena,
                            char **name, tsr_error *error);

/* Cells of a tile: sparse: capacity, the last one last_tile_cells; dense: cells of a grid tile. */
uint64_t tsr__fragment_tile_cells(const tsr_fragment_metadata *metadata, uint64_t tile);

/* Between fragment_metadata.c and fragment_slot.c: the field that a slot holds, or -1 and which of the special ones;
 * its name for messages; whether it has such a part. */
int64_t tsr__fragment_slot_field(const tsr_fragment_metadata *metadata, uint32_t slot,
                                 tsr_system_column *system_column);
const char *tsr__fragment_slot_name(const tsr_fragment_metadata *metadata, uint32_t slot);
bool tsr__fragment_slot_has_part(const tsr_fragment_metadata *metadata, uint32_t slot, tsr_part_kind part);

/* u64 count, which must be `count`, and as many u64, into an array with room for one more. values NULL: skipped. */
int tsr__fragment_list_read(tsr_input *in, uint64_t count, const char *what, tsr_arena *arena, uint64_t **values,
                            tsr_error *error);

/* Puts the file's size behind tile offsets, and checks that they rise, by the u64 that a tile begins with at least. */
int tsr__fragment_offsets_finish(uint64_t *offsets, uint64_t count, uint64_t file_size, tsr_error *error);

#endif
