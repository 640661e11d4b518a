/* fragment_writer.h: writes the files of one fragment, from cells in global order or from dense tiles. */
#ifndef TSR_WRITE_FRAGMENT_WRITER_H
#define TSR_WRITE_FRAGMENT_WRITER_H

#include "store/store.h"
#include "format/fragment_statistics.h"
#include "base/memory.h"

typedef struct tsr_fragment_target {
  tsr_environment *environment; /* polled for cancellation once per window; counts cells of progress */
  tsr_store *store;
  const char *directory; /* the fragment's directory, which exists and is empty */
  const char *metadata_name; /* __fragment_metadata.tdb, or a name that will be renamed to it */
  const tsr_schema *schema;
  uint32_t version; /* format version of the fragment */
  const uint8_t *key; /* NULL: not encrypted */
  const tsr_interval *box; /* box of a dense fragment; NULL: a sparse fragment */
  /* system columns after the fields: times of cells; times and condition numbers of deletion (u64) */
  bool has_times, has_delete_metadata;
  uint32_t processed_count; /* number of names in `processed`: delete conditions already applied to its cells */
  char **processed;
  tsr_memory *memory;
  uint64_t window_bytes; /* approximate bytes of cells in a window; 0: some MiB */
  unsigned threads;
  bool durable; /* files and directory are synced */
  bool in_bulk; /* most cells arrive in calls of tsr__fragment_writer_window cells */
} tsr_fragment_target;

typedef struct tsr_fragment_writer tsr_fragment_writer;
#define TSR_NO_CELL UINT64_MAX

/* Opens a writer. The target's pointers are borrowed until it is closed. */
int tsr__fragment_writer_open(const tsr_fragment_target *target, tsr_fragment_writer **writer, tsr_error *error);

/* Appends cells order[0..count) of `columns`; if `order` is NULL, the first `count`. There is one column for each
 * field, then the system columns. Values are copied. Sparse fragments take cells in global order. Dense fragments take
 * tile after tile in tile order, each complete and in cell order, with TSR_NO_CELL for cells outside of the box;
 * columns of dimensions are then not read. */
int tsr__fragment_writer_add(tsr_fragment_writer *writer, const tsr_column *columns, const uint64_t *order,
                             uint64_t count, tsr_error *error);

/* Returns true if the next function can be called: the fragment is dense, its attributes have cells of a fixed size,
 * and a tile has cells enough. */
bool tsr__fragment_writer_takes_rows(const tsr_fragment_writer *writer);

/* Appends the next tile of a dense fragment: the cells of all `rows` in turn, which add up to a tile. A row whose
 * `first` is TSR_NO_CELL is outside of the box. The rows are copied; the columns are borrowed until the writer is
 * finished, and must be the same in all calls. Tiles of other calls must not come in between. */
int tsr__fragment_writer_add_rows(tsr_fragment_writer *writer, const tsr_column *columns, const tsr_cell_range *rows,
                                  uint64_t count, tsr_error *error);

/* Returns the number of cells that a call should append, or a multiple of it: in bulk, the writer encodes such cells
 * without copying them first. */
uint64_t tsr__fragment_writer_window(const tsr_fragment_writer *writer);

/* Writes the rest of the files, and the metadata. After this call the fragment lacks only its final name. */
int tsr__fragment_writer_finish(tsr_fragment_writer *writer, tsr_error *error);

/* Frees the writer and leaves the files. NULL is allowed. */
void tsr__fragment_writer_close(tsr_fragment_writer *writer);

#endif
