/* check.h: what the files of tsr_array_check share. check.c checks the array's directory, schemas and metadata;
 * check_commits.c commits; check_fragment.c the files and metadata of a fragment; check_cells.c its tiles and cells;
 * check_statistics.c the statistics of tiles and fragments.
 *
 * The check does not rely on the validation of readers. It decodes each object by itself, reports each fault as a
 * finding, and goes on with the next object. So unless a comment says otherwise, a function here returns an error only
 * to end the whole check: the caller has cancelled it, or there is not enough memory to go on.
 */
#ifndef TSR_CHECK_H
#define TSR_CHECK_H

#include "base/map.h"
#include "store/store.h"
#include "model/name.h"

#define TSR_CHECK_CONTENT_MAX (UINT64_C(1) << 30) /* bytes of an object of metadata, unfiltered */

typedef struct tsr_checked_schema {
  const char *path;
  tsr_arena arena; /* of `schema` */
  bool sound; /* it could be decoded */
  tsr_schema schema; /* if sound */
} tsr_checked_schema;

typedef struct tsr_checked_fragment { /* a committed fragment */
  const char *name;
  tsr_name parsed;
  bool old_layout; /* it lies in the array's root instead of __fragments */
  const char *commit; /* path of the file that commits it; in versions 1 to 4 the fragment's metadata file */
  const uint8_t *footer; /* its footer in a consolidated file (.meta), or NULL */
  uint64_t footer_size; /* bytes */
  const char *footer_path; /* of that file */
} tsr_checked_fragment;

/* Files that will be read next (tsr__check_wish). */
typedef struct tsr_check_wishes {
  tsr_arena paths;
  tsr_buffer list; /* of tsr_wish */
} tsr_check_wishes;

typedef struct tsr_checker {
  tsr_environment *environment;
  tsr_store *store;
  tsr_memory memory;
  tsr_arena arena; /* lives as long as the check */
  const uint8_t *key;
  unsigned threads;
  bool quick;
  bool cancelled; /* the caller has cancelled a read whose failure is not reported */
  tsr_check_report report;
  void *argument;
  tsr_error *error; /* the caller's: why the check ends early */
  tsr_listing root;
  tsr_map schemas; /* name -> tsr_checked_schema */
  const tsr_schema *newest; /* the last sound schema by name, or NULL */
  tsr_map fragments; /* name -> tsr_checked_fragment */
  tsr_buffer contents; /* of tsr_buffer: the contents of .meta files, which the footers point into */
  tsr_check_wishes wishes;
  uint64_t fragments_done; /* for progress; each fragment counts TSR_CHECK_PARTS */
} tsr_checker;

/* A path within the array. The size is enough for all paths of a store. */
typedef struct tsr_check_path {
  char text[1280];
} tsr_check_path;

/* Joins up to three parts with '/', leaving out empty ones. Returns path->text. */
const char *tsr__check_join(tsr_check_path *path, const char *a, const char *b, const char *c);

/* Notes a file that will be opened soon. tsr__check_ask tells the store of all that were noted since the last call, so that
 * it may fetch the ends of them at one time. Where memory is short, fewer are told of. */
void tsr__check_wish(tsr_checker *c, const char *path);
void tsr__check_ask(tsr_checker *c);

/* Reports a finding to the caller. `file` is relative to the array. */
int tsr__check_say(tsr_checker *c, tsr_severity severity, const char *file, const char *format, ...) TSR_PRINTF(4, 5);

/* Reports a call that failed with the error `fault`. `what` says which part of the file the call was about, or is NULL.
 * A cancelled call ends the check; a lack of memory for one object is a warning; all other errors are errors of the
 * array. */
int tsr__check_fault(tsr_checker *c, const char *file, const tsr_error *fault, const char *what);

/* Lists a directory. *found is false if there is no such directory, or if it cannot be listed, which is reported. */
int tsr__check_list(tsr_checker *c, const char *path, tsr_listing *listing, bool *found);

/* Returns false only if there certainly is no such file. */
bool tsr__check_is_there(tsr_checker *c, const char *path);

/* Reads a file that is one generic tile. *sound is false if it cannot be decoded, which is reported. */
int tsr__check_read_tile(tsr_checker *c, const char *path, tsr_buffer *content, bool *sound);

/* Reports an entry that does not belong into the directory `where` (words for the message): a staged file as a note,
 * all others as a warning. */
int tsr__check_stray(tsr_checker *c, const char *path, tsr_entry_kind kind, const char *where);

/* Returns true if the array's directory has an entry of this name and kind. */
bool tsr__check_root_has(const tsr_checker *c, const char *name, tsr_entry_kind kind);

typedef struct tsr_check_label { /* a few words of a message */
  char text[320];
} tsr_check_label;

/* Writes a number as text. Returns label->text. */
const char *tsr__check_show_value(tsr_datatype datatype, const void *value, tsr_check_label *label);

/* Checks the array in a store without its labels, and closes the store. Arguments and errors as for tsr_array_check. */
int tsr__check_store(tsr_environment *environment, tsr_store *store, const tsr_check_options *options,
                     tsr_check_report report, void *argument, tsr_error *error);

#endif
