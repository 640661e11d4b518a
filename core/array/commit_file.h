/* commit_file.h: the decoded .con, .ign, .vac and .meta files of an array. */
#ifndef TSR_COMMIT_FILE_H
#define TSR_COMMIT_FILE_H

#include "base/map.h"
#include "store/store.h"
#include "format/commits.h"

typedef struct tsr_commit_files tsr_commit_files;

/* A decoded .con, .ign, .vac or .meta file. These files never change once they are written. But TileDB writes them in
 * place, and a list (.con, .ign, .vac) that is cut between two lines cannot be told from a complete one. So lists are
 * checked for changes whenever the array is listed again, and for 2 seconds after they were read also if no directory
 * has changed. */
typedef struct tsr_commit_file {
  struct tsr_commit_file *next; /* in tsr_commit_files.outdated */
  char *path;
  tsr_look look; /* list: size and time of change before it was read; zeros if the store does not know them */
  uint64_t generation; /* of the last listing that has the file */
  tsr_arena arena;
  tsr_buffer content; /* kept if the fields below point into it */
  tsr_commits commits; /* .con; none if the file is cut, which counts as not written yet */
  tsr_commits rest; /* .con that is cut: the entries before its end */
  tsr_names names; /* .ign, .vac */
  tsr_footers footers; /* .meta */
  bool damaged; /* .meta: no footer can be read */
  tsr_map footers_by_name; /* .meta: name -> tsr_footer */
} tsr_commit_file;

/* Gives the decoded .con, .ign, .vac or .meta file at `path`, reading it the first time. It is borrowed until the
 * listing is renewed. */
int tsr__array_commit_file(tsr_array *array, const char *path, const tsr_commit_file **file, tsr_error *error);

/* Notes that the listing of this generation has the file at `path`, so that tsr__commit_files_prune keeps it. Does
 * nothing if the file is not decoded. */
void tsr__commit_file_keep(tsr_array *array, const char *path, uint64_t generation);

/* Marks all lists as outdated that have changed on disk since they were read. They stay in memory until
 * tsr__commit_files_prune, because the last listing may point into them. */
int tsr__commit_files_outdate(tsr_array *array, tsr_error *error);

/* Returns 1 if a list has changed on disk since it was read, else 0. */
int tsr__commit_files_changed(tsr_array *array, tsr_error *error);

/* Returns 1 if a list has changed on disk since it was read, and some list was read within the last 2 seconds; 0 if
 * not; < 0 on error. */
int tsr__commit_files_grown(tsr_array *array, tsr_error *error);

/* Frees outdated files and files that the listing of this generation does not have. */
void tsr__commit_files_prune(tsr_commit_files *files, uint64_t generation);

#endif
