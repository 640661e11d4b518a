/* consolidate_files.h: consolidates commits, footers of fragments, and the metadata of arrays and groups: many small
 * files become one. consolidate.c calls it for arrays. It also has what all of maintain/ needs to publish such
 * files. */
#ifndef TSR_CONSOLIDATE_FILES_H
#define TSR_CONSOLIDATE_FILES_H

#include "store/store.h"

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

#endif
