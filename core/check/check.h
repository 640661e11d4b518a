/* check.h: what the files of the check share. check.c: the array as a whole; check_commits.c: what is committed;
 * check_fragment.c: the files and metadata of a fragment; check_cells.c: its tiles and cells; check_statistics.c: what
 * is said of them.
 *
 * Nothing here relies on what a reader would have validated: each object is decoded by itself, what is wrong with it is
 * told, and the check goes on with the next. So a function returns an error only to stop everything: the caller asked
 * to, or there is no memory to go on with.
 */
#ifndef TSR_CHECK_H
#define TSR_CHECK_H

#include "base/map.h"
#include "store/store_bounds.h"
#include "model/name.h"

#define TSR_CHECK_CONTENT_MAX (UINT64_C(1) << 30) /* bytes of an object of metadata, unfiltered */

typedef struct tsr_checked_schema {
  const char *path;
  tsr_arena arena;
  bool sound;
  tsr_schema schema; /* if so */
} tsr_checked_schema;

typedef struct tsr_checked_fragment { /* a name that is committed */
  const char *name;
  tsr_name parsed;
  bool old_layout;
  const char *commit; /* path of what says so; of versions 1 to 4 the fragment's metadata file */
  const uint8_t *footer; /* in a consolidated file, or NULL */
  uint64_t footer_size;
  const char *footer_path; /* of that file */
} tsr_checked_fragment;

typedef struct tsr_checker {
  tsr_environment *environment;
  tsr_store *store;
  tsr_memory memory;
  tsr_arena arena; /* lives as long as the check */
  const uint8_t *key;
  unsigned threads;
  bool quick;
  bool stopped; /* a look of which nothing is told was interrupted */
  tsr_check_report report;
  void *argument;
  tsr_error *error; /* the caller's: why all stops */
  tsr_listing root;
  tsr_map schemas; /* name -> tsr_checked_schema */
  const tsr_schema *newest; /* the last sound one by name, or NULL */
  tsr_map fragments; /* name -> tsr_checked_fragment */
  tsr_buffer contents; /* tsr_buffer *: what the footers point into */
  uint64_t fragments_done; /* of progress, in which each counts TSR_CHECK_PARTS */
} tsr_checker;

/* A path of three parts, of which the first ones may be empty; in `text`, whose size is enough for all that stores
 * hold. */
typedef struct tsr_check_path {
  char text[1280];
} tsr_check_path;

const char *tsr__check_join(tsr_check_path *path, const char *a, const char *b, const char *c);

/* Tells the caller. `file` is relative to the array. */
int tsr__check_say(tsr_checker *c, tsr_severity severity, const char *file, const char *format, ...) TSR_PRINTF(4, 5);

/* Tells of a call that failed: `what` was it about (may be NULL)? An interrupt stops the check; memory that is not
 * there for this object is a warning; all else is an error in the array. */
int tsr__check_fault(tsr_checker *c, const char *file, const tsr_error *fault, const char *what);

/* *found false: there is no such directory, or it cannot be listed, which has been told. */
int tsr__check_list(tsr_checker *c, const char *path, tsr_listing *listing, bool *found);

/* False only where it is sure that there is no such file. */
bool tsr__check_is_there(tsr_checker *c, const char *path);

/* The content of a file that is one generic tile and nothing else. *sound false: what is wrong has been told. */
int tsr__check_read_tile(tsr_checker *c, const char *path, tsr_buffer *content, bool *sound);
int tsr__check_stray(tsr_checker *c, const char *path, tsr_entry_kind kind, const char *where);
bool tsr__check_root_has(const tsr_checker *c, const char *name, tsr_entry_kind kind);

typedef struct tsr_check_label { /* a few words of a message */
  char text[320];
} tsr_check_label;

const char *tsr__check_show_value(tsr_datatype datatype, const void *value, tsr_check_label *label);

/* check.c: the array in a store, which it closes. */
int tsr__check_store(tsr_environment *environment, tsr_store *store, const tsr_check_options *options,
                     tsr_check_report report, void *argument, tsr_error *error);

#endif
