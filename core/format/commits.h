/* commits.h: decodes and encodes the lists that an array keeps beside its fragments: consolidated commits (.con),
 * ignored commits (.ign), vacuum lists (.vac) and consolidated footers (.meta). The listing of an array reads them;
 * consolidation and transactions write them.
 */
#ifndef TSR_COMMITS_H
#define TSR_COMMITS_H

#include "base/input.h"
#include "base/memory.h"

typedef enum tsr_commit_kind { TSR_COMMIT_WRITE, TSR_COMMIT_DELETE, TSR_COMMIT_UPDATE } tsr_commit_kind;

typedef struct tsr_commit {
  tsr_commit_kind kind;
  char *name; /* of the fragment or the delete condition, without directory and suffix */
  /* delete or update in a consolidated file: its generic tile, borrowed from the input; else NULL */
  const uint8_t *bytes;
  uint64_t size; /* of `bytes`, in bytes */
} tsr_commit;

typedef struct tsr_commits {
  uint64_t count;
  tsr_commit *commits;
  bool truncated; /* the file is empty or ends within an entry */
} tsr_commits;

/* Decodes a consolidated commits file (.con) and checks the names in it. `arena` owns the names; the bytes of deletes
 * are borrowed from the input. Returns TSR_CORRUPT for a damaged file, and for one that is empty or ends within an
 * entry; in the latter case `commits->truncated` is true and `commits` has the complete entries. */
int tsr__commits_decode(tsr_input *in, tsr_arena *arena, tsr_commits *commits, tsr_error *error);

/* Appends an entry for the fragment `name`, of format version 12 or later, to the content of a consolidated commits
 * file. */
int tsr__commits_encode_write(const char *name, tsr_buffer *out, tsr_error *error);

/* Appends an entry for the delete condition `name`. `bytes` is the content of its .del file; `size` is in bytes. On an
 * error `out` is unchanged. */
int tsr__commits_encode_delete(const char *name, const void *bytes, uint64_t size, tsr_buffer *out, tsr_error *error);

/* The entries of an ignore or vacuum file: the last component of each path, with its suffix. Only the last component
 * counts, because a vacuum file may hold absolute URIs of an array that has been moved since. */
typedef struct tsr_names {
  uint64_t count;
  char **names;
} tsr_names;

/* Decodes an ignore file (.ign) or a vacuum file (.vac). `arena` owns the names. Returns TSR_CORRUPT if a line does not
 * end in a file name. */
int tsr__names_decode(tsr_input *in, tsr_arena *arena, tsr_names *names, tsr_error *error);

/* The position of one fragment's footer in the content of a consolidated fragment metadata file (.meta). */
typedef struct tsr_footer {
  char *name; /* of the fragment */
  uint64_t at, size; /* offset and size in bytes */
} tsr_footer;

typedef struct tsr_footers {
  uint64_t count;
  tsr_footer *footers;
  bool partial; /* the file has more footers, but their offsets cannot be trusted (commits.c) */
} tsr_footers;

/* Decodes the table of a consolidated fragment metadata file. `bytes` is the content of the file's generic tile.
 * `arena` owns the names. Leaves out footers that TileDB writes at other offsets than the table says (commits.c). */
int tsr__footers_decode(const uint8_t *bytes, uint64_t size, tsr_arena *arena, tsr_footers *footers, tsr_error *error);

/* Returns true if both files name the same fragments in the same order, all of them of format version 12 or later, and
 * `commits` has no deletes. */
bool tsr__commits_match(const tsr_commits *commits, const tsr_footers *footers);

#endif
