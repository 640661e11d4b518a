/* maintain.h: merges sorted sources of cells into one fragment in global order. merge.c makes a source of each
 * fragment. */
#ifndef TSR_MAINTAIN_MAINTAIN_H
#define TSR_MAINTAIN_MAINTAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "write/fragment_writer.h"
#include "base/map.h"
#include "array/array.h"
#include "store/store.h"
#include "model/name.h"
#include "format/commits.h"
#include "base/error.h"
#include "log/log.h"

typedef struct tsr_merge_block { /* consecutive cells of a source */
  uint64_t count; /* cells, less than 2^32 */
  const tsr_column *columns; /* one per field, then the system columns (u64): time, time of deletion, condition */
} tsr_merge_block;

typedef struct tsr_merge_source {
  /* Loads the next block, which is valid until the next call. Returns 1; 0 at the end; an error. */
  int (*next)(struct tsr_merge_source *source, tsr_merge_block *block, tsr_error *error);
  /* Returns a lower bound of the next block before it is loaded: one column per dimension with a coordinate that is not
   * greater than any coordinate of the block. NULL if none is known. The merge loads a block only when it has reached
   * the lower bound. The member may be NULL. */
  const tsr_column *(*lower_bound)(struct tsr_merge_source *source);
  bool sort_blocks; /* cells may be unsorted within a block: the merge sorts them. Blocks never overlap */
} tsr_merge_source;

typedef struct tsr_merge_options {
  const tsr_schema *schema;
  uint32_t system_columns; /* that the sources have: 0; 1: times; 3: times, times of deletion, conditions */
  bool purge; /* drop deleted cells and older cells of their coordinates; of the system columns write only the times */
  tsr_environment *environment;
  tsr_memory *memory;
} tsr_merge_options;

/* Merges sparse fragments into one. The user (consolidate.c) fills in a plan, lets
 * tsr__merge_conditions find the delete conditions that concern it, and calls tsr__merge_sparse with both. */

typedef struct tsr_merge_plan { /* which fragments are merged, and how; all pointers are borrowed */
  tsr_array *array;
  tsr_snapshot *snapshot; /* shows the schema of the merged fragment, and has the fragments */
  uint32_t count;
  const uint32_t *fragments; /* indices in the snapshot, oldest first */
  bool keep_times; /* sparse: cells keep their times, and older cells of the same coordinates are kept */
  bool purge; /* sparse: deleted cells are dropped */
  tsr_memory *memory;
  unsigned threads;
} tsr_merge_plan;

/* The delete conditions that have been applied to the merged cells, by this merge or by an earlier one. */
typedef struct tsr_merge_conditions {
  uint32_t count;
  char **names; /* borrowed from the fragments and conditions */
  tsr_map numbers; /* name -> its index in `names`, plus 1; the caller releases it */
  bool has_deletes; /* the merged cells have times of deletion */
} tsr_merge_conditions;

/* Finds the conditions of a plan. `arena` provides the list of names. */
int tsr__merge_conditions(const tsr_merge_plan *plan, tsr_arena *arena, tsr_merge_conditions *conditions,
                          tsr_error *error);
/* Writes the merged fragment `target` in target->schema. *cells: how many cells it has; if there are none, the fragment
 * is not finished, and the caller removes its directory. */
int tsr__merge_sparse(const tsr_merge_plan *plan, const tsr_merge_conditions *conditions,
                      const tsr_fragment_target *target, uint64_t *cells, tsr_error *error);

/* Writes one box of cells of several dense fragments as a new fragment. Consolidation splits the written
 * cells into such boxes; recover.c writes what is left of a prepared commit with it. */

typedef struct tsr_merge_plan tsr_merge_plan;

/* Writes the box low..high (ordinals, inclusive, one per dimension) to the fragment `target`, whose `box` is the same
 * box in values. The plan's fragments must cover every cell of the box; each cell is taken from the newest of them. */
int tsr__merge_dense(const tsr_merge_plan *plan, const uint64_t *low, const uint64_t *high,
                     const tsr_fragment_target *target, tsr_error *error);

/* Lets merged fragments take the place of their sources, in one commit. A user fills in a tsr_replacement,
 * calls tsr__replacement_add for each merged fragment and writes it, then tsr__replacement_commit, and in any case
 * tsr__replacement_end.
 *
 * The files of this folder: consolidate.c chooses fragments to merge; merge.c and merge.c write a merged
 * fragment (merge.c merges sorted sources for the first); replace.c commits it, merge_conflict.c settles which of
 * several merges of the same fragments commits; consolidate_files.c consolidates
 * commits, footers and metadata; the vacuum files remove what was replaced; recover.c and recover.c settle prepared
 * commits.
 */

typedef struct tsr_replacement {
  /* Set by the user; all pointers are borrowed. */
  tsr_array *array;
  tsr_memory *memory;
  uint32_t version; /* format version of the merged fragments */
  uint64_t start, end; /* times of the merged fragments, inclusive */
  bool duplicates; /* the array allows duplicates */
  char (*names)[128]; /* room for each merged fragment's name: at most TSR_BOXES_MAX */
  uint32_t source_count;
  const tsr_fragment **sources; /* the fragments that are replaced */
  /* Zero at first. */
  uint32_t count; /* merged fragments that exist on disk and are not committed */
  char staged[160]; /* path of the staged commit, or "" */
  char vacuum[160]; /* path of the staged vacuum file, or "" */
  char exchanged[160]; /* path of NAME.vac.ign (replace.c), or "" */
  char decided[160]; /* path of the file that decides that the merge commits (merge_conflict.c), or "" */
} tsr_replacement;

/* Makes a directory for one more merged fragment. `path` receives its path within the array; the caller writes the
 * fragment's files there. */
int tsr__replacement_add(tsr_replacement *replacement, char path[160], tsr_error *error);

/* Commits the merged fragments in place of their sources. All of their files must be complete and durable. TSR_ABORT if
 * another process has merged or vacuumed a source, or has written a fragment at a time between the sources. */
int tsr__replacement_commit(tsr_replacement *replacement, tsr_error *error);

/* Removes the fragments that were added and not committed, and the staged files. Must be called in any case. */
void tsr__replacement_end(tsr_replacement *replacement);

/* Puts into `names`, an empty map, the names of all fragments that vacuum files of the array's listing name. The names
 * are borrowed until the array is listed anew. The function itself lists the array anew if a vacuum file has gone
 * meanwhile. TSR_ABORT if that happens time after time. */
int tsr__replaced(tsr_array *array, tsr_map *names, tsr_error *error);

/* Receives one fragment. A negative result ends the enumeration and is returned. */
typedef int (*tsr_uncommitted_fragment)(void *argument, const char *name, const tsr_name *parsed, tsr_error *error);

/* Calls `found` for each fragment directory that is not committed but may still be: it is less than a day old, or a
 * pending marker of the array's listing names it. Fragments of merges in progress are left out, since they bring no new
 * cells. */
int tsr__uncommitted_fragments(tsr_array *array, tsr_memory *memory, tsr_uncommitted_fragment found, void *argument,
                               tsr_error *error);

/* Consolidates commits, footers of fragments, and the metadata of arrays and groups: many small
 * files become one. consolidate.c calls it for arrays. It also has what all of maintain/ needs to publish such
 * files. */

typedef struct tsr_maintained { /* an array or a group whose files are consolidated; all members are borrowed */
  tsr_environment *environment;
  tsr_store *store;
  const uint8_t *key; /* 32 bytes, or NULL if it is not encrypted */
  tsr_array *array; /* NULL for a group */
  uint32_t version; /* format version of the files to write: 22 for groups */
  const char *path; /* of the directory, as it was given */
} tsr_maintained;

/* The next three functions write one file in place of many. The files that it replaces stay until a vacuum. *merged
 * receives how many files (of footers: how many fragments) were taken up; it is left alone if there was nothing to do.
 * `version` is the format version of the new file; times are inclusive.
 *
 * Writes all commits and deletes of an array into one .con. TSR_UNSUPPORTED below format version 12. */
int tsr__consolidate_commits(tsr_array *array, uint32_t version, uint64_t *merged, tsr_error *error);
/* Writes the footers of all fragments between two times into one .meta. */
int tsr__consolidate_footers(tsr_array *array, uint32_t version, uint64_t since, uint64_t as_of, uint64_t *merged,
                             tsr_error *error);
/* Writes the last entry of each metadata key between two times into one file of __meta, and its vacuum file. */
int tsr__consolidate_metadata(const tsr_maintained *object, uint64_t since, uint64_t as_of, uint64_t *merged,
                              tsr_error *error);

/* Removes the .con files that the array's listing calls unfinished: they are cut, and no reader loses anything without
 * them. Before that, a new .con with all commits is written. Adds the number of removed files to *removed, and lists
 * the array anew. */
int tsr__mend_commits(tsr_array *array, uint32_t version, uint64_t *removed, tsr_error *error);

/* Writes a file that is complete and durable when it appears: it is written under a temporary name, synced and renamed
 * to `path`; then the directory is synced. TSR_EXISTS if there is a file at `path`. */
int tsr__file_publish(tsr_store *store, const char *path, const void *bytes, uint64_t size, tsr_error *error);

/* Returns 1 if everything that a staged .con names is still committed, 0 if not, or an error. */
typedef int (*tsr_con_check)(void *argument, tsr_error *error);

/* Publishes a .con as tsr__file_publish does. A .con must not name commits that a vacuum removes meanwhile: so `check`
 * is called between staging and renaming. TSR_ABORT if it returns 0, or if a vacuum has removed the staged file. */
int tsr__con_publish(tsr_store *store, const char *path, const tsr_buffer *lines, tsr_con_check check, void *argument,
                     tsr_error *error);

/* Makes the path DIRECTORY/__START_END_UUID_VERSION and `suffix`, with a new UUID; version 0 is left out. */
int tsr__file_path(const char *directory, uint64_t start, uint64_t end, uint32_t version, const char *suffix,
                   char path[160], tsr_error *error);

/* Appends a line of a vacuum file to `out`: "/DIRECTORY/NAME" for arrays since format version 19, otherwise an absolute
 * URI. */
int tsr__vacuum_line(const tsr_maintained *object, const char *directory, const char *name, tsr_buffer *out,
                     tsr_error *error);

/* A running vacuum, what its parts share, and the .vac files that it works through. */

typedef struct tsr_vacuum { /* pointers are borrowed */
  tsr_environment *environment;
  tsr_store *store;
  tsr_array *array; /* NULL: a group */
  tsr_arena arena; /* of one kind of objects: fragments, commits, footers or metadata */
  uint64_t removed; /* files and fragments */
  bool listed; /* the array was listed since this vacuum removed a commit */
  uint64_t grace; /* in milliseconds, see tsr_vacuum_options */
} tsr_vacuum;

typedef struct tsr_vacuum_file { /* a .vac */
  const char *name; /* of the merged fragment or metadata file that it belongs to */
  const char *path; /* its own */
  tsr_name parsed; /* `name` */
  tsr_names names; /* the names in it */
  bool done; /* tsr__vacuum_files_next has returned it */
  bool stays; /* it was written too lately */
} tsr_vacuum_file;

/* Removes a file, without counting it in `removed`. Returns 1 if it existed, 0 if not, < 0 on error. */
int tsr__vacuum_remove(tsr_vacuum *v, const char *name, tsr_error *error);

/* Returns 1 if what the file at this path replaces stays: the file was written less than the grace ago, by the store's
 * clock, or is gone. Returns 0 if not, < 0 on error. */
int tsr__vacuum_is_recent(tsr_vacuum *v, const char *path, tsr_error *error);

/* Makes removals from a directory durable. Does nothing if there is no such directory. */
int tsr__vacuum_sync(tsr_vacuum *v, const char *directory, tsr_error *error);

/* Lists the array anew, unless that was done since this vacuum removed commits. */
int tsr__vacuum_list_array(tsr_vacuum *v, tsr_error *error);

/* Lists a directory; one that is missing is empty. The caller releases `entries` in any case. */
int tsr__vacuum_list(tsr_vacuum *v, const char *directory, tsr_listing *entries, tsr_error *error);

/* The part of a vacuum that removes commit files. `sources` are names of fragments, as a list of
 * const char *. */

/* Removes all commits of the sources. If `at_once`, a reader sees either all of the sources or none. TSR_ABORT if other
 * processes keep vacuuming the same sources. */
int tsr__vacuum_uncommit(tsr_vacuum *v, const tsr_buffer *sources, bool at_once, tsr_error *error);

/* Removes all staged .con files. Another process may have listed the sources before they were merged, and be about to
 * commit them again by a .con that it has staged. Its rename fails when the staged file is gone. A .con that is staged
 * after this finds that the sources are not committed any more (still_committed in consolidate_files.c). */
int tsr__vacuum_remove_staged_con(tsr_vacuum *v, tsr_error *error);

/* Cancels sources that a .con commits by now, because another process renamed it before
 * tsr__vacuum_remove_staged_con. The caller repeats this after it has removed the fragments, for other libraries, which
 * do not stage their .con files. */
int tsr__vacuum_cancel_new_commits(tsr_vacuum *v, const tsr_buffer *sources, tsr_error *error);

/* Removes unfinished .con files (tsr__mend_commits). */
int tsr__vacuum_mend(tsr_vacuum *v, tsr_error *error);

/* Removes each .wrt file whose fragment a .con commits, each .con whose active entries a later one has, and each .ign
 * that cancels no entry of a .con. */
int tsr__vacuum_commits(tsr_vacuum *v, tsr_error *error);

/* The part of a vacuum that removes fragments. */

/* Takes back merges that have made cells appear twice. */

typedef struct tsr_array tsr_array;

/* In an array that allows duplicates: takes back each merged fragment whose cells are seen twice (log.h), as long as
 * all of its sources are still committed. What cannot be taken back stays, and tessera_check reports it. The array must
 * have been listed; it is listed anew if a merge was taken back. */
int tsr__undouble(tsr_array *array, tsr_error *error);

/* Merges of other processes that are to replace some of the same fragments (merge_conflict.c). */

/* The paths of the steps of a merge: "DIRECTORY/PREFIX NAME SUFFIX" in the directory that has the commits or the
 * fragments of a format version. */
tsr_path tsr__merge_commit_path(uint32_t version, const char *prefix, const char *name, const char *suffix);
tsr_path tsr__merge_fragment_path(uint32_t version, const char *name);

/* Sets `stem` to what the names of all fragments of one merge have in common: the name without the last eight digits of
 * its UUID and without its version. Returns false if `name` is not the name of a fragment with a UUID of 32 digits. */
bool tsr__merge_stem(const char *name, char stem[128]);

/* Cancels the merges of some of the same sources, or waits for those that go first. TSR_ABORT if one of them is about
 * to commit. */
int tsr__rivals_cancel(const tsr_replacement *replacement, tsr_error *error);

/* Decides that this merge commits. From here on nobody cancels it. TSR_ABORT if it was cancelled. */
int tsr__rivals_decide(tsr_replacement *replacement, tsr_error *error);

/* Returns TSR_ABORT with a message that says that another consolidation merges the same fragments. */
int tsr__rivals_fail(tsr_error *error);

/* Carries out what was decided about merges whose processes have died since. */
int tsr__rivals_finish(tsr_array *array, tsr_memory *memory, uint32_t version, tsr_error *error);

/* The files of advisory leases. tsr_lease takes and gives back a lease. */

/* Returns true if a file in the root of an array or a group has the name of a lease, and sets its generation, which is
 * at least 1. */
bool tsr__lease_parse(const char *name, uint64_t *generation);

/* Publishes a prepared commit that a merge has spanned, under another name and at another time.
 * recover.c calls it for each commit that it is going to publish. */

#endif
