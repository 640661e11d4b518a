/* fragment_writer.h: cells in global order, or dense tiles -> the files of one fragment. */
#ifndef TSR_FRAGMENT_WRITER_H
#define TSR_FRAGMENT_WRITER_H

#include "store/store.h"

typedef struct tsr_fragment_target {
  tsr_environment *environment; /* asked for interrupts, once for each window of tiles; told of cells */
  tsr_store *store;
  const char *directory; /* of the fragment: exists, is empty */
  const char *metadata_name; /* __fragment_metadata.tdb, or what is to be renamed to it */
  const tsr_schema *schema;
  uint32_t version; /* of the fragment */
  const uint8_t *key; /* NULL: not encrypted */
  const tsr_interval *box; /* of a dense fragment; NULL: a sparse one */
  bool has_times, has_delete_metadata; /* columns behind the fields': times; times and numbers of deletion (u64) */
  uint32_t processed_count; /* delete conditions that its cells have been through: names */
  char **processed;
  tsr_memory *memory;
  uint64_t window_bytes; /* of cells that are gathered, about; 0: some MiB */
  unsigned threads;
  bool durable; /* files and directory are synced */
  bool in_bulk; /* most cells come in calls of tsr__fragment_writer_window */
} tsr_fragment_target;

typedef struct tsr_fragment_writer tsr_fragment_writer;
#define TSR_NO_CELL UINT64_MAX

/* The target's pointers are borrowed until the writer is closed. */
int tsr__fragment_writer_open(const tsr_fragment_target *target, tsr_fragment_writer **writer, tsr_error *error);

/* Appends cells order[0..count) of `columns` (NULL: the first `count`): one column for each field, those of dimensions
 * not looked at in dense fragments, then the special ones. Sparse: in global order. Dense: tile after tile in tile
 * order, each whole and in cell order, TSR_NO_CELL where the box does not reach. Values are copied. */
int tsr__fragment_writer_add(tsr_fragment_writer *writer, const tsr_column *columns, const uint64_t *order,
                             uint64_t count, tsr_error *error);

/* How many cells are best given to it at once, or a multiple: in bulk they are written without being copied first. */
uint64_t tsr__fragment_writer_window(const tsr_fragment_writer *writer);

/* The rest of the files, and the metadata; after it the fragment only lacks its name. */
int tsr__fragment_writer_finish(tsr_fragment_writer *writer, tsr_error *error);
void tsr__fragment_writer_close(tsr_fragment_writer *writer); /* NULL is fine; leaves the files */

#endif
