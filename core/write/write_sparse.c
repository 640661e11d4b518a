/* write_sparse.c: writes cells in global order as a sparse fragment. */
#include "write/write_sparse.h"

#include "base/arithmetic.h"
#include "write/fragment_writer.h"

#define WRITE_SPARSE_BLOCK 262144u /* cells that the fragment's writer gets at once, about */

static int write_cells(tsr_fragment_writer *writer, const tsr_column *columns, const uint32_t *order, uint64_t count,
                       uint64_t *block, uint64_t most, tsr_error *error) {
  for (uint64_t done = 0; done < count;) {
    uint64_t n = TSR_MIN(count - done, most);
    for (uint64_t i = 0; i < n; i++) block[i] = order[done + i];
    TSR_TRY(tsr__fragment_writer_add(writer, columns, block, n, error));
    done += n;
  }
  return tsr__fragment_writer_finish(writer, error);
}

int tsr__write_ordered(const tsr_fragment_target *target, const tsr_column *columns, const uint32_t *order,
                       uint64_t count, tsr_error *error) {
  uint64_t *block = NULL;
  tsr_fragment_writer *writer = NULL;
  tsr_fragment_target bulk = *target;
  bulk.in_bulk = true;
  TSR_TRY(tsr__fragment_writer_open(&bulk, &writer, error));
  const uint64_t window = tsr__fragment_writer_window(writer);
  const uint64_t most =
      TSR_MIN(count, window < WRITE_SPARSE_BLOCK ? WRITE_SPARSE_BLOCK / window * window : WRITE_SPARSE_BLOCK);
  int rc = TSR_ALLOC_RAW(target->memory, most, &block, error);
  if (rc >= 0) rc = write_cells(writer, columns, order, count, block, most, error);
  tsr__fragment_writer_close(writer);
  tsr__free(block);
  return rc;
}
