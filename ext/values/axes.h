/* axes.h: the axes of a grid as SQL gives them: by the numeric labels of two dimensions, or as edge and step. */
#ifndef TSX_AXES_H
#define TSX_AXES_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "tessera_host.h"
#include "sql/options.h"
#include "values/slice.h"

typedef struct tsx_plane { /* where the cells of an array are in a plane; `= {0}` may be closed */
  uint32_t dimensions[2]; /* y, x */
  tsr_grid_axis *axes[2];
  double wrap; /* 0: none */
} tsx_plane;

/* Reads the options {"axes":{"y":"lat","x":[origin,step]},"wrap":360}: the keys of `axes` are two dimensions, first y;
 * by default the last two. Each is the name of a numeric label, or the outer edge of the dimension's first cell and the
 * step from cell to cell, or null: its only numeric label. `options` may be NULL or an SQL NULL; `names` are those of
 * the schema's fields in SQL. The caller closes the grid before the environment, after an error too. TSR_ERROR: unknown
 * dimensions and labels; TSR_MISMATCH: other wrong options, and labels that are no axis. */
int tsx_plane_open(sqlite3 *db, tsr_environment *environment, sqlite3_value *options, const tsr_schema *schema,
                   char *const *names, const tsx_label_source *labels, tsx_plane *plane, tsr_error *error);
void tsx_plane_close(tsx_plane *plane);

/* The same in two steps, for a function with options of its own: tsx_plane_take_axes reads the option "axes", and
 * tsx_plane_make makes the plane. `dimensions` are y and x if the option was not given; NULL: the last two. */
typedef struct tsx_axis_words { /* what the options say about one axis */
  char *dimension, *label; /* owned; NULL: not given */
  double ends[2]; /* origin and step */
  int numbers; /* how many of them were read; 0: it is not affine */
} tsx_axis_words;
typedef struct tsx_plane_words { /* `= {0}` may be released */
  sqlite3 *db;
  tsx_axis_words axes[2];
  int count; /* of the keys of `axes` */
  double wrap;
} tsx_plane_words;
int tsx_plane_take_axes(tsx_plane_words *words, const tsx_option_value *value, tsr_error *error);
int tsx_plane_make(tsr_environment *environment, const tsx_plane_words *words, const uint32_t *dimensions,
                   const tsr_schema *schema, char *const *names, const tsx_label_source *labels, tsx_plane *plane,
                   tsr_error *error);
void tsx_plane_words_release(tsx_plane_words *words);

/* Makes the axis of a label of numbers, datetimes or times, by its number in the schema. Of datetimes and times, an
 * axis has distances from *base, which is 0 for numbers: tsx_axis_place gives that of another value, and `beyond`, what
 * lies between it and the value in the label's unit. The caller closes the axis before the environment. TSR_MISMATCH:
 * values that are no axis. */
int tsx_axis_of_label(tsr_environment *environment, const tsr_schema *schema, uint32_t label, char *const *names,
                      const tsx_label_source *labels, tsr_grid_axis **axis, int64_t *base, tsr_error *error);
double tsx_axis_place(int64_t value, double beyond, int64_t base);

#endif
