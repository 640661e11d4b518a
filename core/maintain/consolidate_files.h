/* consolidate_files.h: many small files become one: commits, footers of fragments, metadata of arrays and groups. */
#ifndef TSR_CONSOLIDATE_FILES_H
#define TSR_CONSOLIDATE_FILES_H

#include "store/store_bounds.h"

typedef struct tsr_maintained { /* an array, or a group */
  tsr_environment *environment;
  tsr_store *store;
  const uint8_t *key;
  tsr_array *array; /* NULL: a group */
  uint32_t version; /* of what is written: 22 for groups */
  const char *path; /* of the directory, as it was given */
} tsr_maintained;

int tsr__consolidate_commits(tsr_array *array, uint32_t version, uint64_t *merged, tsr_error *error);

/* Removes .con files that are cut and without which nothing is lost, as the array's listing has them; how many is added to
 * `removed`. */
int tsr__mend_commits(tsr_array *array, uint32_t version, uint64_t *removed, tsr_error *error);
int tsr__consolidate_footers(tsr_array *array, uint32_t version, uint64_t since, uint64_t as_of, uint64_t *merged,
                             tsr_error *error);
int tsr__consolidate_metadata(const tsr_maintained *object, uint64_t since, uint64_t as_of, uint64_t *merged,
                              tsr_error *error);

/* A file that is whole when it appears: written under a provisional name, synced, renamed to `path`, which must not be
 * there; then the directory is synced. */
int tsr__file_publish(tsr_store *store, const char *path, const void *bytes, uint64_t size, tsr_error *error);

/* The same for a .con, which must not name what a vacuum removes meanwhile: when it is staged, `look` is asked whether all
 * that it names is still committed: 1, or 0, or an error. TSR_ABORT: it is not, or a vacuum has removed what was staged. */
typedef int (*tsr_con_look)(void *argument, tsr_error *error);

int tsr__con_publish(tsr_store *store, const char *path, const tsr_buffer *lines, tsr_con_look look, void *argument,
                     tsr_error *error);

/* DIRECTORY/__START_END_UUID_V and a suffix. */
int tsr__file_path(const char *directory, uint64_t start, uint64_t end, uint32_t version, const char *suffix,
                   char path[160], tsr_error *error);

/* A line of a vacuum file: "/DIRECTORY/NAME", below version 19 an absolute URI. */
int tsr__vacuum_line(const tsr_maintained *object, const char *directory, const char *name, tsr_buffer *out,
                     tsr_error *error);

#endif
