/* write_pieces.h: the pieces of a commit: fragments on disk, under provisional names until the commit is prepared, that
 * hold the writer's cells. */
#ifndef TSR_WRITE_PIECES_H
#define TSR_WRITE_PIECES_H

#include "write/write_commit.h"

typedef struct tsr_fragment_target tsr_fragment_target;

typedef struct tsr_piece {
  char name[128]; /* of its directory */
  tsr_interval *box; /* of a box that was appended, in the writer's arena; NULL: made of cells */
} tsr_piece;

static inline uint64_t tsr__piece_count(const tsr_commit_state *commit) {
  return commit->pieces.size / sizeof(tsr_piece);
}
static inline tsr_piece *tsr__piece_at(const tsr_commit_state *commit, uint64_t index) {
  return (tsr_piece *)(void *)commit->pieces.data + index;
}

/* Writes the cells in memory and in runs as pieces: of a sparse array one fragment at most, of a dense array one for
 * each box that they form. Pieces that were written stay in the list after an error. */
int tsr__pieces_write(tsr_writer *writer, tsr_error *error);

/* Removes the pieces from number `from` on, with their files. */
int tsr__pieces_remove(tsr_writer *writer, uint64_t from, tsr_error *error);

/* Opens a snapshot of the array's present state, which the transaction itself may not see. The caller closes it.
 * `argument` is the writer. */
int tsr__pieces_open_present(void *argument, tsr_snapshot **snapshot, tsr_error *error);

/* Adds a fragment to the commit, as tsr_writer_append_box does, but `write` makes its files. The box lies within the
 * domain and meets no other box of the commit. `write` gets the fragment's target, which is borrowed for the call. */
typedef int (*tsr_piece_writer)(void *argument, const tsr_fragment_target *target, tsr_error *error);

int tsr__pieces_add_box(tsr_writer *writer, const tsr_interval *box, tsr_piece_writer write, void *argument,
                        tsr_error *error);

#endif
