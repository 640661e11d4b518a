/* listing_renewal.h: a listing that is being made, and the functions that add to it. listing.c makes it from the array's
 * directories; listing_prepared.c adds the commits that a transaction of the host has prepared.
 */
#ifndef TSR_LISTING_RENEWAL_H
#define TSR_LISTING_RENEWAL_H

#include "base/map.h"
#include "array/array.h"
#include "array/array_directories.h"
#include "array/commit_file.h"
#include "array/listing.h"

typedef struct tsr_renewal {
  tsr_array *array;
  tsr_array_directories *directories; /* some of them may be listed already */
  tsr_commit_listing *listing;
  tsr_map ignored; /* names with suffix, from .ign files */
  tsr_map in_con; /* names of fragments in .con files */
  tsr_map deletes; /* names of deletes, from .con and .del files */
  tsr_map ok; /* names of .ok files without suffix */
  tsr_map metas; /* names of the files in __fragment_meta without suffix -> their paths */
  tsr_map settled; /* names of fragments that are not committed, and which no .con can have committed (unfinished.c) */
  /* if the listing fails because of a cut .con: the file whose age says whether that may pass; else '' */
  tsr_path doubtful;
  tsr_buffer gone; /* gone_commit: prepared commits that count but whose fragment or staged file is missing */
  bool last_footers; /* __fragment_meta is not listed: the footers of the last listing count */
  bool need_root; /* the array's own directory is listed in any case */
  uint64_t future; /* times from here on are wrong: see tsr_commit_listing.newest */
  bool counting; /* fragments that are added belong to a prepared commit */
  tsr_error *error;
} tsr_renewal;

/* Copy a text of `size` bytes, or join a directory and a name, into the listing's memory. */
int tsr__renewal_copy_text(tsr_renewal *r, const char *text, uint64_t size, const char **copy);
int tsr__renewal_join_path(tsr_renewal *r, const char *directory, const char *name, const char **path);

/* Appends an item to a list of the listing. */
int tsr__renewal_append(tsr_renewal *r, tsr_commit_list *list, const tsr_committed *item);

/* Add a committed fragment, or a delete, unless the listing has it. `name` and `item` are in the listing's memory. */
int tsr__renewal_add_fragment(tsr_renewal *r, const char *name, const tsr_name *parsed, bool old_layout);
int tsr__renewal_add_delete(tsr_renewal *r, const tsr_committed *item);

/* Adds what an entry of a .con says. `path`: of the .con. */
int tsr__renewal_add_con_entry(tsr_renewal *r, const char *path, const tsr_commit *commit);

/* Reads a .con or .ign of __commits, whose name need not be timestamped, or a .con under the name that it has while it
 * is prepared. */
int tsr__renewal_read_file(tsr_renewal *r, const char *name, const tsr_commit_file **file);

#endif
