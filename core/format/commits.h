/* commits.h: what is committed. */
#ifndef TSR_COMMITS_H
#define TSR_COMMITS_H

#include "base/input.h"
#include "base/memory.h"

typedef enum tsr_commit_kind { TSR_COMMIT_WRITE, TSR_COMMIT_DELETE, TSR_COMMIT_UPDATE } tsr_commit_kind;

typedef struct tsr_commit {
  tsr_commit_kind kind;
  char *name; /* the fragment's or condition's name, without directory and suffix */
  const uint8_t *bytes;
  uint64_t size; /* a delete's generic tile, where it stands in a consolidated file */
} tsr_commit;

typedef struct tsr_commits {
  uint64_t count;
  tsr_commit *commits;
  bool cut;
} tsr_commits;

/* Decodes a consolidated commits file (.con); names are checked and copied to `arena`, bytes are borrowed from the
 * input. A file that is empty, or ends within an entry, is TSR_CORRUPT, too; `commits->cut` then says so, and `commits`
 * holds the entries that stand before its end. */
int tsr__commits_decode(tsr_input *in, tsr_arena *arena, tsr_commits *commits, tsr_error *error);

/* Appends the entry of a committed fragment of version 12 or later to a consolidated commits file. */
int tsr__commits_encode_write(const char *name, tsr_buffer *out, tsr_error *error);

/* Appends that of a delete: `bytes` are its .del file. */
int tsr__commits_encode_delete(const char *name, const void *bytes, uint64_t size, tsr_buffer *out, tsr_error *error);

/* Decodes an ignore or vacuum file: the last path part of each line, suffixes kept; absolute URIs of moved arrays are
 * taken by what they end in. */
typedef struct tsr_names {
  uint64_t count;
  char **names;
} tsr_names;

int tsr__names_decode(tsr_input *in, tsr_arena *arena, tsr_names *names, tsr_error *error);

/* Decodes the content of the generic tile that a consolidated fragment metadata file (.meta) is: names, and where each
 * footer stands in `bytes`. Those that TileDB put elsewhere (see commits.c) are left out. */
typedef struct tsr_footer {
  char *name;
  uint64_t at, size;
} tsr_footer;

typedef struct tsr_footers {
  uint64_t count;
  tsr_footer *footers;
  bool partial; /* there are more, whose places are not known */
} tsr_footers;

int tsr__footers_decode(const uint8_t *bytes, uint64_t size, tsr_arena *arena, tsr_footers *footers, tsr_error *error);

/* Are both of the same fragments, of version 12 and later, in the same order, with no deletes beside them? */
bool tsr__commits_match(const tsr_commits *commits, const tsr_footers *footers);

#endif
