/* check.h: what the files of tsr_array_check share. check.c checks the array's directory, schemas and metadata;
 * commits.c commits; fragment.c the files and metadata of a fragment; cells.c its tiles and cells;
 * statistics.c the statistics of tiles and fragments. opened.c then checks what needs the array open: the arrays of
 * its labels, its CHECK constraints and durations.
 *
 * The check does not rely on the validation of readers. It decodes each object by itself, reports each fault as a
 * finding, and goes on with the next object. So unless a comment says otherwise, a function here returns an error only
 * to end the whole check: the caller has cancelled it, or there is not enough memory to go on.
 */
#ifndef TSR_CHECK_CHECK_H
#define TSR_CHECK_CHECK_H

#include "base/map.h"
#include "store/store.h"
#include "model/name.h"
#include "tessera_host.h"
#include "format/fragment_metadata.h"
#include "format/tile.h"

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
  bool old_layout; /* it is in the array's root instead of __fragments */
  const char *commit; /* path of the file that commits it; in versions 1 to 4 the fragment's metadata file */
  const uint8_t *footer; /* its footer in a consolidated file (.meta), or NULL */
  uint64_t footer_size; /* bytes */
  const char *footer_path; /* of that file */
} tsr_checked_fragment;

/* Files that will be read next (tsr__check_prefetch_add). */
typedef struct tsr_check_hints {
  tsr_arena paths;
  tsr_buffer list; /* of tsr_read_hint */
} tsr_check_hints;

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
  const char *schemas_in; /* the directory of the schemas: __schema, or its name before publication */
  const char *unpublished; /* of `root`: what publishes the array when it is renamed; NULL: it is published */
  tsr_map schemas; /* name -> tsr_checked_schema */
  const tsr_schema *newest; /* the last sound schema by name, or NULL */
  tsr_map fragments; /* name -> tsr_checked_fragment */
  tsr_buffer contents; /* of tsr_buffer: the contents of .meta files, which the footers point into */
  tsr_check_hints hints;
  uint64_t fragments_done; /* for progress; each fragment counts TSR_CHECK_PARTS */
} tsr_checker;

/* A path within the array. Large enough for every path of a store. */
typedef struct tsr_check_path {
  char text[1280];
} tsr_check_path;

/* Joins up to three parts with '/', leaving out empty ones. Returns path->text. */
const char *tsr__check_join(tsr_check_path *path, const char *a, const char *b, const char *c);

/* tsr__check_prefetch_add records a file that will be opened soon. tsr__check_prefetch_send passes all files recorded
 * since its last call to the store, so that it can fetch their ends together. If memory is short, some are dropped. */
void tsr__check_prefetch_add(tsr_checker *c, const char *path);
void tsr__check_prefetch_send(tsr_checker *c);

/* Reports a finding to the caller. `file` is relative to the array. */
int tsr__check_say(tsr_checker *c, tsr_severity severity, const char *file, const char *format, ...) TSR_PRINTF(4, 5);

/* Reports a call that failed with the error `fault`. `what` names the part of the file concerned, or is NULL. A
 * cancelled call ends the check; a lack of memory for one object is a warning; all other errors are errors of the
 * array. */
int tsr__check_fault(tsr_checker *c, const char *file, const tsr_error *fault, const char *what);

/* Lists a directory. *found is false if there is no such directory, or if it cannot be listed, which is reported. */
int tsr__check_list(tsr_checker *c, const char *path, tsr_listing *listing, bool *found);

/* Returns true if the file may exist; false if it certainly does not. */
bool tsr__check_is_there(tsr_checker *c, const char *path);

/* Reads a file that is one generic tile. *sound is false if it cannot be decoded, which is reported. */
int tsr__check_read_tile(tsr_checker *c, const char *path, tsr_buffer *content, bool *sound);

/* Reports an entry that does not belong in the directory `where` (words for the message): a staged file as a note, all
 * others as a warning. */
int tsr__check_stray(tsr_checker *c, const char *path, tsr_entry_kind kind, const char *where);

/* Returns true if the array's directory has an entry of this name and kind. */
bool tsr__check_root_has(const tsr_checker *c, const char *name, tsr_entry_kind kind);

typedef struct tsr_check_words { /* a few words of a message */
  char text[320];
} tsr_check_words;

/* Writes a number as text. Returns words->text. */
const char *tsr__check_show_value(tsr_datatype datatype, const void *value, tsr_check_words *words);

/* Checks the array in a store without its labels, and closes the store. Arguments and errors as for tsr_array_check. */
int tsr__check_store(tsr_environment *environment, tsr_store *store, const tsr_check_options *options,
                     tsr_check_report report, void *argument, tsr_error *error);

/* ---- cells.c: decodes every tile of a fragment and checks every cell --------------------------------------------- */

typedef struct tsr_fragment_check tsr_fragment_check;

/* Called by fragment.c after it has read the fragment's metadata. Checks the tiles whose positions in their files are
 * known (slot_sound), and puts the boxes and statistics of the cells into cell_boxes and summaries. A quick check only
 * trusts the stored statistics. */
int tsr__check_cells(tsr_fragment_check *f);

/* ---- commits.c: checks commits, delete conditions, vacuum files and consolidated footers ------------------------- */

/* Checks __commits, __fragment_meta and __fragments, and the files of the same kinds in the array's root. Fills
 * c->fragments with the committed fragments. c->schemas must be filled. */
int tsr__check_commits(tsr_checker *c);

/* Compares two fragments by start time and name. For qsort: the arguments point to tsr_checked_fragment *. */
int tsr__check_compare_fragments(const void *a, const void *b);

/* ---- opened.c: checks what needs the open array: labels, constraints, durations ---------------------------------- */

/* Checks what needs the array at `path` open: the arrays of all labels, the order of their values, CHECK constraints
 * and durations. Arguments and errors as for tsr_array_check; the files of findings are relative to the labelled array.
 * Does nothing if the array cannot be opened. */
int tsr__check_opened(tsr_environment *environment, const char *path, const tsr_check_options *options,
                      tsr_check_report report, void *argument, tsr_error *error);

/* ---- fragment.c: checks one fragment: its files, the tiles of its metadata file, its MBRs and non-empty domain --- */

/* The structure below also carries the findings of cells.c and statistics.c. */

typedef struct tsr_check_summary tsr_check_summary;

typedef struct tsr_check_bound { /* one end of a box on one dimension, or a value */
  uint64_t key; /* order key; of strings the size in bytes */
  const uint8_t *text; /* strings */
} tsr_check_bound;

#define TSR_CHECK_PARTS 1000 /* units of progress per fragment */

typedef struct tsr_fragment_check {
  tsr_checker *c;
  const tsr_checked_fragment *fragment;
  tsr_check_path directory, metadata_path;
  tsr_file *file; /* the metadata file */
  tsr_fragment_metadata metadata;
  tsr_arena arena; /* of this fragment's check */
  bool schema_damaged;
  uint64_t tiles_done; /* of all fields together */
  /* The next five are false for unusable parts of the metadata, whose faults have been reported. */
  bool *slot_sound; /* [slot]: the positions of its tiles */
  bool *statistics_sound; /* [slot]: its statistics */
  bool rtree_sound;
  bool summary_sound; /* fragment statistics */
  bool processed_sound; /* list of processed conditions */
  /* Sparse fragments: the ends of the tiles' MBRs, [(tile * dimensions + d) * 2 + (0 low | 1 high)]. NULL if
   * unknown. */
  tsr_check_bound *boxes; /* as stored */
  tsr_check_bound *cell_boxes; /* as the cells have them; as stored where the cells are not known */
  bool *box_open; /* [dimension]: some end is unknowable, and not compared */
  struct tsr_check_summary *summaries; /* two per slot, of its tiles' statistics: as stored, as the cells have them */
} tsr_fragment_check;

/* Checks one committed fragment. */
int tsr__check_fragment(tsr_checker *c, const tsr_checked_fragment *fragment);

static inline bool tsr__check_is_text(const tsr_fragment_check *f, uint32_t dimension) {
  return f->metadata.schema->fields[dimension].values_per_cell == TSR_VARIABLE;
}

/* Writes the name of a slot for a message: "field 'a'", or a system column as "__coords" or "t". Returns
 * words->text. */
const char *tsr__check_field(const tsr_fragment_check *f, uint32_t slot, tsr_check_words *words);

/* Makes the path of the file with one part (offsets or values, variable values, validity) of a slot. */
int tsr__check_part_path(tsr_fragment_check *f, uint32_t slot, tsr_part_kind part, tsr_check_path *path);

/* Compares two ends; `text`: of a string dimension. Returns < 0, 0, > 0. */
int tsr__check_compare_bounds(bool text, const tsr_check_bound *a, const tsr_check_bound *b);

/* Writes an end as text for a message. Returns words->text. */
const char *tsr__check_show_bound(const tsr_fragment_check *f, uint32_t dimension, const tsr_check_bound *bound,
                                  tsr_check_words *words);

/* ---- statistics.c: checks the statistics of tiles against their cells, and those of the fragment against its tiles */

/* cells.c passes in the tiles one by one; fragment.c calls the other two functions. */

/* Makes empty summaries, f->summaries. Must be called before the other two. */
int tsr__check_summaries(tsr_fragment_check *f);

/* Compares the stored statistics of one tile with its cells, and adds the tile to the slot's summaries. `mask` has one
 * byte per cell, 0 for cells outside of a dense fragment's box; NULL: all cells are inside. If `tile` is NULL, its
 * cells are not known and the stored statistics are trusted. */
int tsr__check_tile_statistics(tsr_fragment_check *f, uint32_t slot, uint64_t number, const tsr_tile *tile,
                               const uint8_t *mask);

/* Compares the statistics of the whole fragment with the summaries of its tiles. */
int tsr__check_fragment_statistics(tsr_fragment_check *f);

#endif
