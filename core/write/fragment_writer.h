/* fragment_writer.h: writes cells in global order, or dense tiles, as the files of one fragment. */
#ifndef TSR_WRITE_FRAGMENT_WRITER_H
#define TSR_WRITE_FRAGMENT_WRITER_H

#include "store/store.h"
#include "base/memory.h"

typedef struct tsr_fragment_target {
  tsr_environment *environment; /* polled for cancellation once for each window; counts cells of progress */
  tsr_store *store;
  const char *directory; /* the fragment's directory, which exists and is empty */
  const char *metadata_name; /* __fragment_metadata.tdb, or a name that will be renamed to it */
  const tsr_schema *schema;
  uint32_t version; /* format version of the fragment */
  const uint8_t *key; /* NULL: not encrypted */
  const tsr_interval *box; /* box of a dense fragment; NULL: a sparse fragment */
  /* system columns behind the fields: times of cells; times and condition numbers of deletion (u64) */
  bool has_times, has_delete_metadata;
  uint32_t processed_count; /* names of delete conditions that were applied to its cells */
  char **processed;
  tsr_memory *memory;
  uint64_t window_bytes; /* bytes of cells in a window, about; 0: some MiB */
  unsigned threads;
  bool durable; /* files and directory are synced */
  bool in_bulk; /* most cells come in calls of tsr__fragment_writer_window cells */
} tsr_fragment_target;

typedef struct tsr_fragment_writer tsr_fragment_writer;
#define TSR_NO_CELL UINT64_MAX

/* Opens a writer. The target's pointers are borrowed until it is closed. */
int tsr__fragment_writer_open(const tsr_fragment_target *target, tsr_fragment_writer **writer, tsr_error *error);

/* Appends cells order[0..count) of `columns`; if `order` is NULL, the first `count`. There is one column for each
 * field, then the system columns. Values are copied. Sparse fragments get cells in global order. Dense fragments get
 * tile after tile in tile order, each complete and in cell order, with TSR_NO_CELL where the box does not reach;
 * columns of dimensions are not read then. */
int tsr__fragment_writer_add(tsr_fragment_writer *writer, const tsr_column *columns, const uint64_t *order,
                             uint64_t count, tsr_error *error);

/* Returns the number of cells that a call should append, or a multiple of this number: in bulk the writer encodes such
 * cells without copying them first. */
uint64_t tsr__fragment_writer_window(const tsr_fragment_writer *writer);

/* Writes all that is left of the files, and the metadata. After this call the fragment lacks only its final name. */
int tsr__fragment_writer_finish(tsr_fragment_writer *writer, tsr_error *error);

/* Frees the writer and leaves the files. NULL is allowed. */
void tsr__fragment_writer_close(tsr_fragment_writer *writer);

/* Appends cells of several sources, in any order, to one fragment. */

typedef struct tsr_fragment_writer tsr_fragment_writer;

#define TSR_NO_SOURCE UINT32_MAX /* padding of a dense tile */

typedef struct tsr_pick {
  uint32_t source, cell;
} tsr_pick;

typedef struct tsr_interleaver { /* `= {0}` may be released */
  const tsr_schema *schema;
  uint32_t columns; /* columns of a source: one for each field, then system columns (u64) */
  bool dense; /* columns of dimensions are not read */
  tsr_memory *memory;
  tsr_fragment_writer *writer;
  tsr_buffer order;
  tsr_column *staged; /* by column: cells at hand, if they come from several sources */
  struct tsr_interleaved *buffers;
} tsr_interleaver;

/* Makes an interleaver that appends to `writer`. Release it after an error, too. `system_columns` stand behind the
 * fields of each source. */
int tsr__interleaver_init(tsr_interleaver *interleaver, const tsr_schema *schema, uint32_t system_columns, bool dense,
                          tsr_memory *memory, tsr_fragment_writer *writer, tsr_error *error);

/* Appends cells in the order of the picks; sources[s] has the columns of source s. */
int tsr__interleaver_write(tsr_interleaver *interleaver, const tsr_column *const *sources, const tsr_pick *picks,
                           uint64_t count, tsr_error *error);
void tsr__interleaver_release(tsr_interleaver *interleaver);

#endif
