/* array_directories.h: the listings of an array's directories. The store lists several of them in one call. */
#ifndef TSR_ARRAY_DIRECTORIES_H
#define TSR_ARRAY_DIRECTORIES_H

#include "store/store.h"

typedef enum tsr_directory {
  TSR_IN_ROOT,
  TSR_IN_SCHEMAS,
  TSR_IN_COMMITS,
  TSR_IN_FOOTERS,
  TSR_DIRECTORIES
} tsr_directory;

/* `= {.store = S}`: no directory is listed yet. */
typedef struct tsr_array_directories {
  tsr_store *store; /* borrowed */
  bool listed[TSR_DIRECTORIES];
  tsr_listing lists[TSR_DIRECTORIES]; /* of a directory that is missing or not listed: empty */
  tsr_stamp stamps[TSR_DIRECTORIES]; /* before it was listed */
} tsr_array_directories;

/* Returns the path of a directory; that of the root is "". */
const char *tsr__directory_path(tsr_directory which);

/* Lists those of the directories that are not listed yet, in this order or all at once. */
int tsr__directories_list(tsr_array_directories *directories, const tsr_directory *which, unsigned count,
                          tsr_error *error);

/* Lists a listed directory again until the listing is a state that the directory had at one moment. Returns 1 if it had
 * to be listed again, else 0. Fails with TSR_BUSY if the directory changes faster than it can be listed. */
int tsr__directory_settle(tsr_array_directories *directories, tsr_directory which, tsr_error *error);

/* Returns 1 if a listed directory has the same entries as when it was listed, else 0. */
int tsr__directory_is_same(const tsr_array_directories *directories, tsr_directory which, tsr_error *error);

/* Forgets the listing of a directory. */
void tsr__directory_forget(tsr_array_directories *directories, tsr_directory which);
void tsr__directories_release(tsr_array_directories *directories);

#endif
