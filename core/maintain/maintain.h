/* maintain.h: what the files of this folder share.
 *
 * consolidate.c chooses fragments to merge, merge.c writes the merged fragment, replace.c commits it in place of its
 * sources, and merge_conflict.c decides which of several conflicting merges commits. consolidate_files.c consolidates
 * commits, footers and metadata. vacuum.c and vacuum_commits.c remove replaced files. recover.c settles prepared
 * commits, revert_merges.c reverts merges that made cells appear twice, and lease.c implements advisory leases. */
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

/* ---- merge.c: merges sorted sources of cells --------------------------------------------------------------------- */

typedef struct tsr_merge_block { /* consecutive cells of a source */
  uint64_t count; /* cells, less than 2^32 */
  const tsr_column *columns; /* one per field, then the system columns (u64): time, time of deletion, condition */
} tsr_merge_block;

typedef struct tsr_merge_source {
  /* Loads the next block, which is valid until the next call. Returns 1; 0 at the end; an error. */
  int (*next)(struct tsr_merge_source *source, tsr_merge_block *block, tsr_error *error);
  /* Returns a lower bound of the next block before it is loaded: one column per dimension, with a coordinate that is
   * not greater than any coordinate of the block; NULL if none is known. The merge loads a block only when it has
   * reached the lower bound. The member itself may be NULL. */
  const tsr_column *(*lower_bound)(struct tsr_merge_source *source);
  bool sort_blocks; /* cells may be unsorted within a block; the merge sorts them. Blocks never overlap */
} tsr_merge_source;

typedef struct tsr_merge_options {
  const tsr_schema *schema;
  uint32_t system_columns; /* of the sources: 0; 1: times; 3: times, times of deletion, conditions */
  /* drop deleted cells and older cells with their coordinates; the only system column written is then the times */
  bool purge;
  tsr_environment *environment;
  tsr_memory *memory;
} tsr_merge_options;

/* ---- merge.c: merges sparse fragments into one ------------------------------------------------------------------- */

/* consolidate.c fills in a plan, lets tsr__merge_conditions find the relevant delete conditions, and passes both to
 * tsr__merge_sparse. */

typedef struct tsr_merge_plan { /* which fragments are merged, and how; all pointers are borrowed */
  tsr_array *array;
  tsr_snapshot *snapshot; /* with the schema of the merged fragment; contains the fragments */
  uint32_t count;
  const uint32_t *fragments; /* indices in the snapshot, oldest first */
  bool keep_times; /* sparse: cells keep their times, and older cells with the same coordinates are kept */
  bool purge; /* sparse: deleted cells are dropped */
  tsr_memory *memory;
  unsigned threads;
} tsr_merge_plan;

/* The delete conditions that have been applied to the merged cells, by this merge or an earlier one. */
typedef struct tsr_merge_conditions {
  uint32_t count;
  char **names; /* borrowed from the fragments and conditions */
  tsr_map numbers; /* name -> its index in `names`, plus 1; the caller releases it */
  bool has_deletes; /* the merged cells have times of deletion */
} tsr_merge_conditions;

/* Finds the conditions for a plan. The list of names is allocated in `arena`. */
int tsr__merge_conditions(const tsr_merge_plan *plan, tsr_arena *arena, tsr_merge_conditions *conditions,
                          tsr_error *error);
/* Writes the merged fragment `target` in target->schema. *cells: the number of cells written; if 0, the fragment is not
 * finished, and the caller removes its directory. */
int tsr__merge_sparse(const tsr_merge_plan *plan, const tsr_merge_conditions *conditions,
                      const tsr_fragment_target *target, uint64_t *cells, tsr_error *error);

/* ---- merge.c: writes a box of cells of several dense fragments as one fragment ----------------------------------- */

/* Consolidation divides the written cells into such boxes; recover.c uses this to copy the visible part of a prepared
 * commit. */

/* Writes the box low..high (ordinals, inclusive, one per dimension) to the fragment `target`, whose `box` is the same
 * box in values. The plan's fragments must cover every cell of the box; each cell is taken from the newest of them. */
int tsr__merge_dense(const tsr_merge_plan *plan, const uint64_t *low, const uint64_t *high,
                     const tsr_fragment_target *target, tsr_error *error);

/* ---- interleave.c: writes a fragment from cells of several sources, in an order that the caller picks ------------ */

#define TSR_NO_SOURCE UINT32_MAX /* padding of a dense tile */

typedef struct tsr_pick {
  uint32_t source, cell;
} tsr_pick;

typedef struct tsr_interleaver { /* `= {0}` can be released safely */
  const tsr_schema *schema;
  uint32_t columns; /* columns of a source: one for each field, then system columns (u64) */
  bool dense; /* columns of dimensions are not read */
  tsr_memory *memory;
  tsr_fragment_writer *writer;
  tsr_buffer order;
  tsr_column *staged; /* by column: the current cells, if they come from several sources */
  struct tsr_interleaved *buffers;
} tsr_interleaver;

/* Makes an interleaver that appends to `writer`. Release it even after an error. Each source has `system_columns`
 * columns after its fields. */
int tsr__interleaver_init(tsr_interleaver *interleaver, const tsr_schema *schema, uint32_t system_columns, bool dense,
                          tsr_memory *memory, tsr_fragment_writer *writer, tsr_error *error);

/* Appends cells in the order of the picks; sources[s] has the columns of source s. */
int tsr__interleaver_write(tsr_interleaver *interleaver, const tsr_column *const *sources, const tsr_pick *picks,
                           uint64_t count, tsr_error *error);
void tsr__interleaver_release(tsr_interleaver *interleaver);

/* ---- replace.c: replaces fragments by merged ones, in one commit ------------------------------------------------- */

/* Fill in a tsr_replacement; call tsr__replacement_add for each merged fragment and write it; then call
 * tsr__replacements_commit, and in any case tsr__replacement_end. */

typedef struct tsr_replacement {
  /* Set by the caller; all pointers are borrowed. */
  tsr_array *array;
  tsr_memory *memory;
  uint32_t version; /* format version of the merged fragments */
  uint64_t start, end; /* times of the merged fragments, inclusive */
  bool duplicates; /* the array allows duplicates */
  char (*names)[128]; /* room for the name of each merged fragment: at most TSR_BOXES_MAX */
  uint32_t source_count;
  const tsr_fragment **sources; /* the fragments to replace */
  /* Initially zero. */
  uint32_t count; /* merged fragments that exist on disk but are not committed */
  char staged[160]; /* path of the staged commit, or "" */
  char vacuum[160]; /* path of the staged vacuum file, or "" */
  char exchanged[160]; /* path of NAME.vac.ign (replace.c), or "" */
  char decided[160]; /* path of the file that decides that the merge commits (merge_conflict.c), or "" */
} tsr_replacement;

/* Makes a directory for another merged fragment. `path` receives its path within the array; the caller writes the
 * fragment's files there. */
int tsr__replacement_add(tsr_replacement *replacement, char path[160], tsr_error *error);

typedef struct tsr_merges { /* merges of one array, at least one; each source belongs to one of them */
  uint32_t count;
  tsr_replacement *const *items;
} tsr_merges;

/* Commits the merged fragments of each merge in place of their sources. All of their files must be complete and
 * durable. *committed: that many merges, the first ones, are committed; after an error the next one may be committed,
 * too. TSR_ABORT if another process has merged or vacuumed a source, or has written a fragment with a time between
 * those of the sources. The array is listed once for all of them, unless others interfere. */
int tsr__replacements_commit(const tsr_merges *merges, uint32_t *committed, tsr_error *error);

/* Removes the staged files, and the fragments that were added but not committed. Must be called in any case. */
void tsr__replacement_end(tsr_replacement *replacement);

/* Fills `names`, an empty map, with the names of all fragments that vacuum files in the array's listing name. They are
 * borrowed until the array is listed again. This function itself relists the array if a vacuum file has disappeared
 * meanwhile. TSR_ABORT if that happens repeatedly. */
int tsr__replaced(tsr_array *array, tsr_map *names, tsr_error *error);

/* Receives one fragment. A negative result ends the enumeration and is returned. */
typedef int (*tsr_uncommitted_fragment)(void *argument, const char *name, const tsr_name *parsed, tsr_error *error);

/* Calls `found` for each fragment directory that is not committed but may still be: it is less than a day old, or a
 * pending marker in the array's listing names it. Fragments of merges in progress are skipped, since they add no new
 * cells. The array must have just been listed. */
int tsr__uncommitted_fragments(tsr_array *array, tsr_memory *memory, tsr_uncommitted_fragment found, void *argument,
                               tsr_error *error);

/* ---- consolidate_files.c: consolidates commits, footers of fragments, and metadata: many small files become one -- */

/* Also has the functions with which all files of this folder publish files. */

typedef struct tsr_maintained { /* an array or a group whose files are consolidated; all members are borrowed */
  tsr_environment *environment;
  tsr_store *store;
  const uint8_t *key; /* 32 bytes, or NULL if it is not encrypted */
  tsr_array *array; /* NULL for a group */
  uint32_t version; /* format version of the files to write: 22 for groups */
  const char *path; /* of the directory, as passed by the caller */
} tsr_maintained;

/* The next three functions write one file in place of many. The replaced files stay until a vacuum. *merged receives
 * the number of files (footers: fragments) that were consolidated; it is unchanged if there was nothing to do.
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

/* Writes the commits that no .con has yet into one .con, also those of fragments that merges have replaced. Then nobody
 * needs the commits' own files (tsr__vacuum_joined). `version` is 12 or greater. */
int tsr__join_commits(tsr_array *array, uint32_t version, tsr_error *error);

/* Removes the .con files that are unfinished according to the array's listing: they are truncated, and no reader loses
 * anything without them. First writes a new .con with all commits. Adds the number of removed files to *removed, and
 * relists the array. */
int tsr__replace_truncated_con(tsr_array *array, uint32_t version, uint64_t *removed, tsr_error *error);

/* Writes a file that is complete and durable when it appears: written under a temporary name, synced and renamed to
 * `path`; then the directory is synced. TSR_EXISTS if there is a file at `path`. */
int tsr__file_publish(tsr_store *store, const char *path, const void *bytes, uint64_t size, tsr_error *error);

/* Returns 1 if everything that a staged .con names is still committed, 0 if not, or an error. */
typedef int (*tsr_con_check)(void *argument, tsr_error *error);

/* Publishes a .con like tsr__file_publish. A .con must not name commits that a vacuum is removing meanwhile, so `check`
 * is called between staging and renaming. TSR_ABORT if it returns 0, or if a vacuum has removed the staged file. */
int tsr__con_publish(tsr_store *store, const char *path, const tsr_buffer *lines, tsr_con_check check, void *argument,
                     tsr_error *error);

/* Makes the path DIRECTORY/__START_END_UUID_VERSION plus `suffix`, with a new UUID; version 0 is left out. */
int tsr__file_path(const char *directory, uint64_t start, uint64_t end, uint32_t version, const char *suffix,
                   char path[160], tsr_error *error);

/* Appends a line of a vacuum file to `out`: "/DIRECTORY/NAME" from format version 19 on, otherwise an absolute URI. */
int tsr__vacuum_line(const tsr_maintained *object, const char *directory, const char *name, tsr_buffer *out,
                     tsr_error *error);

/* ---- vacuum.c: a running vacuum and its .vac files --------------------------------------------------------------- */

typedef struct tsr_vacuum { /* pointers are borrowed */
  tsr_environment *environment;
  tsr_store *store;
  tsr_array *array; /* NULL: a group */
  tsr_arena arena; /* for one kind of objects: fragments, commits, footers or metadata */
  uint64_t removed; /* files and fragments */
  bool listed; /* the array has been listed since this vacuum last removed a commit */
  uint64_t grace; /* in milliseconds, see tsr_vacuum_options */
  uint64_t most; /* fragments, see tsr_vacuum_options; 0: no limit */
} tsr_vacuum;

typedef struct tsr_vacuum_file { /* a .vac */
  const char *name; /* of the merged fragment or metadata file that it belongs to */
  const char *path; /* its own */
  tsr_name parsed; /* `name` */
  tsr_names names; /* the names in it */
  bool done; /* tsr__vacuum_files_next has returned it */
  bool stays; /* it was written too recently */
} tsr_vacuum_file;

/* Uncommits and removes fragments (names, const char *), whose cells are in merged ones. `at_once`: all of them are
 * uncommitted in one step. Uses of v->array only its log. */
int tsr__vacuum_sources(tsr_vacuum *v, bool at_once, const tsr_buffer *sources, tsr_error *error);

/* Removes a file, without counting it in `removed`. Returns 1 if it existed, 0 if not, < 0 on error. */
int tsr__vacuum_remove(tsr_vacuum *v, const char *name, tsr_error *error);

/* Returns 1 if the files that the file at `path` replaces must stay: it was written less than the grace ago, by the
 * store's clock, or is gone. Returns 0 if not, < 0 on error. */
int tsr__vacuum_is_recent(tsr_vacuum *v, const char *path, tsr_error *error);

/* Makes removals from a directory durable. Does nothing if the directory does not exist. */
int tsr__vacuum_sync(tsr_vacuum *v, const char *directory, tsr_error *error);

/* Relists the array, unless it has been listed since this vacuum last removed commits. */
int tsr__vacuum_list_array(tsr_vacuum *v, tsr_error *error);

/* Lists a directory; a missing directory is empty. The caller releases `entries` in any case. */
int tsr__vacuum_list(tsr_vacuum *v, const char *directory, tsr_listing *entries, tsr_error *error);

/* ---- vacuum_commits.c: removes commit files ---------------------------------------------------------------------- */

/* `sources` are names of fragments, as a list of const char *. */

/* Removes all commits of the sources. If `at_once`, every reader sees either all of the sources or none. TSR_ABORT if
 * other processes keep vacuuming the same sources. */
int tsr__vacuum_uncommit(tsr_vacuum *v, const tsr_buffer *sources, bool at_once, tsr_error *error);

/* Removes all staged .con files. Another process may have listed the sources before they were merged, and may be about
 * to commit them again with a .con that it has staged. Once the staged file is gone, its rename fails. A .con that is
 * staged later finds that the sources are no longer committed (still_committed in consolidate_files.c). */
int tsr__vacuum_remove_staged_con(tsr_vacuum *v, tsr_error *error);

/* Cancels sources that a .con commits after all, because another process renamed it before
 * tsr__vacuum_remove_staged_con. The caller calls this again after removing the fragments, for other libraries, which
 * do not stage their .con files. Fails if a commit file of a source is there: a server has said that it removed the
 * file, or that there was none, and without its fragment the array could not be opened. */
int tsr__vacuum_cancel_new_commits(tsr_vacuum *v, const tsr_buffer *sources, tsr_error *error);

/* Removes unfinished .con files (tsr__replace_truncated_con). */
int tsr__vacuum_mend(tsr_vacuum *v, tsr_error *error);

/* Removes redundant commit files: each .wrt whose fragment a .con commits, each .con whose active entries a later one
 * contains, and each .ign that cancels no entry of a .con. */
int tsr__vacuum_commits(tsr_vacuum *v, tsr_error *error);

/* Removes each .wrt whose fragment is committed by a .con that is older than the grace (ms), and nothing else. No
 * reader misses such a file: readers take its name from a listing, and never open it. The grace is for readers whose
 * listings are not states of the directory: one that passed over the .con before it was there must have passed over the
 * .wrt before it is gone. */
int tsr__vacuum_joined(tsr_array *array, uint64_t grace, tsr_error *error);

/* ---- revert_merges.c: reverts merges that made cells appear twice ------------------------------------------------ */

/* In an array that allows duplicates: reverts each merged fragment whose cells readers see twice (log.h), if all of its
 * sources are still committed. Merges that cannot be reverted stay, and tessera_check reports them. The array must have
 * been listed; it is relisted if a merge was reverted. */
int tsr__revert_duplicating_merges(tsr_array *array, tsr_error *error);

/* ---- merge_conflict.c: concurrent merges with a source in common ------------------------------------------------- */

/* Paths of the files of a merge: "DIRECTORY/PREFIX NAME SUFFIX" in the directory of commits or of fragments of a format
 * version. */
tsr_path tsr__merge_commit_path(uint32_t version, const char *prefix, const char *name, const char *suffix);
tsr_path tsr__merge_fragment_path(uint32_t version, const char *name);

/* Sets `stem` to the common part of the names of all fragments of one merge: the name without the last eight digits of
 * its UUID and without its version. Returns false if `name` is not a fragment name with a UUID of 32 digits. */
bool tsr__merge_stem(const char *name, char stem[128]);

/* Cancels the rivals of these merges, others with a source in common, or waits for those that have priority. TSR_ABORT
 * if one of them is about to commit. The array must have been listed since the merges were staged. Sets *outdated if a
 * rival may have committed since that listing. */
int tsr__merge_conflict_cancel(const tsr_merges *merges, bool *outdated, tsr_error *error);

/* Decides that this merge commits. From then on nobody can cancel it. TSR_ABORT if it has been cancelled. */
int tsr__merge_conflict_decide(tsr_replacement *replacement, tsr_error *error);

/* Returns TSR_ABORT, with the message that another consolidation merges the same fragments. */
int tsr__merge_conflict_fail(tsr_error *error);

/* Carries out the decisions about merges whose processes have died since. */
int tsr__merge_conflict_finish(tsr_array *array, tsr_memory *memory, uint32_t version, tsr_error *error);

/* ---- consolidate.c and upkeep.c: merges by tiers (tsr_array_upkeep) ---------------------------------------------- */

typedef struct tsr_tier_fragment { /* one of several neighbours that may be merged */
  uint64_t cells, bytes; /* bytes: as stored */
} tsr_tier_fragment;

typedef struct tsr_tier_rules {
  uint64_t fanout; /* neighbours that become one fragment: 2 or more */
  uint64_t max_fragment_bytes; /* no larger fragment is made */
  bool bytes_limited; /* larger runs than `bytes` wait */
  uint64_t bytes;
} tsr_tier_rules;

/* Finds the newest run of `fanout` neighbours that are worth merging among `fragments`, oldest first, that ends at or
 * before *end: sets *end to the end of the run (exclusive) and returns true; false if there is none. The caller begins
 * with *end = count. Adds to *waits the runs that it skips because they are too large for `bytes`. */
bool tsr__tier_choose(const tsr_tier_fragment *fragments, uint64_t count, const tsr_tier_rules *rules, uint64_t *end,
                      uint64_t *waits);

typedef struct tsr_tiers { /* the merges of one call of tsr_array_upkeep */
  tsr_tier_rules rules; /* rules.bytes: what may still be read */
  uint64_t merges_left; /* how many merges may still begin */
  uint64_t deadline; /* tsr__moment after which none but the first begins; 0: none */
  uint64_t merges, merged; /* so far: merges, and the fragments that they have replaced */
  uint64_t waits; /* runs that were not merged because of these limits */
  /* what the next call will find if merged fragments have as many cells as their sources: perhaps merges, or else runs
   * that wait */
  bool again;
  uint64_t waits_next;
} tsr_tiers;

/* Goes over the fragments of the array once, and merges the runs that tsr__tier_choose finds. Fragments that this call
 * makes are candidates of the next call. */
int tsr__consolidate_tiers(tsr_array *array, const tsr_consolidate_options *options, tsr_tiers *tiers,
                           tsr_error *error);

/* ---- lease.c: the files of advisory leases (tsr_lease) ----------------------------------------------------------- */

/* Returns true if `name`, a file in the root of an array or a group, is the name of a lease, and sets its generation,
 * at least 1. */
bool tsr__lease_parse(const char *name, uint64_t *generation);

/* tsr_lease on the array or group whose store this is. */
int tsr__lease_take(tsr_environment *environment, tsr_store *store, uint64_t seconds, tsr_error *error);

#endif
