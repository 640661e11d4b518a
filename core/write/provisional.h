/* provisional.h: directories of fragments under provisional names, ".UUID", which no reader takes for a fragment's. */
#ifndef TSR_PROVISIONAL_H
#define TSR_PROVISIONAL_H

#include "store/store.h"
#include "format/layout.h"
#include "write/fragment_writer.h"
#include "write/writer.h"

/* Returns the path of a fragment of the writer's array. */
static inline tsr_path tsr__writer_path(const tsr_writer *writer, const char *name) {
  return tsr__path_of(layout_has_commits_folder(writer->version) ? TSR_DIR_FRAGMENTS "/" : "", name, "");
}

/* Makes a provisional name. */
int tsr__provisional_name(char name[128], tsr_error *error);

/* Makes a directory for a fragment under a provisional name, in the root of `scratch`, or among the array's fragments
 * if `scratch` is NULL. */
int tsr__provisional_directory(tsr_writer *writer, tsr_store *scratch, char name[128], tsr_error *error);

/* Makes a directory of the array's layout if it does not exist. */
int tsr__provisional_folder(tsr_writer *writer, const char *folder, tsr_error *error);

/* Returns the target for a fragment's files in an existing directory. `directory` and `box` are borrowed. */
tsr_fragment_target tsr__provisional_target(tsr_writer *writer, const char *directory, const tsr_interval *box);

#endif
