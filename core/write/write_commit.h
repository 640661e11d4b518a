/* write_commit.h: the commit of a writer: prepares it, publishes it, and takes it back. The functions are those of
 * tessera.h (tsr_writer_prepare, tsr_writer_publish, tsr_writer_reopen, tsr_writer_abandon); this header has the
 * commit's state. */
#ifndef TSR_WRITE_COMMIT_H
#define TSR_WRITE_COMMIT_H

#include "format/commits.h"
#include "array/pending.h"

typedef struct tsr_commit_options { /* how the writer commits: from tsr_writer_options, or set by recovery */
  char *owner, *owner_file; /* in the writer's arena; NULL: none */
  uint64_t time; /* 0: preparing chooses the time */
  bool durable; /* files and directories are synced */
  bool part; /* the schema lacks attributes of the array's newest one, so that gaps between boxes cannot be filled */
  bool listed; /* from format version 12 on the commit is a list even of one fragment, published by a rename */
  const tsr_commits *carried; /* delete conditions that are committed unchanged, by their own names; NULL: none */
} tsr_commit_options;

typedef struct tsr_commit_state {
  tsr_commit_options options;
  /* tsr_piece of each fragment on disk: first `boxes` pieces that were appended as boxes, then pieces made of cells */
  tsr_buffer pieces;
  uint64_t boxes;
  uint64_t time; /* of the prepared commit */
  char path[TSR_COMMIT_PATH]; /* the file whose creation publishes the commit; "": none */
  tsr_file *lock; /* the marker of `path`, locked by this writer; NULL: none */
  struct tsr_turn *turn; /* of the prepared commit; NULL: none */
  bool prepared; /* all files have their names, and nothing was changed since */
  bool reusable; /* a prepared commit has failed, and nothing was changed since: the pieces hold all cells */
  bool published;
  bool refused; /* publishing has failed before: others may have removed the pieces since */
  bool reopened; /* `path` was published and must be withdrawn */
  tsr_buffer withdrawn; /* char[TSR_COMMIT_PATH]: commits that were withdrawn; the host may have brought one back */
} tsr_commit_state;

/* Notes a change: the pieces on disk no longer hold all cells to be committed. */
static inline void tsr__commit_outdate(tsr_commit_state *commit) { commit->prepared = commit->reusable = false; }

/* Frees the state. Files of a prepared commit stay: recovery finds them by the marker. */
void tsr__commit_release(tsr_commit_state *commit);

/* Closes the marker, which was removed or is left to recovery. */
void tsr__commit_unlock(tsr_commit_state *commit);

#endif
