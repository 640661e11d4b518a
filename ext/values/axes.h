/* axes.h: the axes of a grid as SQL gives them: by the numeric labels of two dimensions, or as edge and step. */
#ifndef TSX_AXES_H
#define TSX_AXES_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "tessera_host.h"
#include "values/slice.h"

typedef struct tsx_plane { /* where the cells of an array are in a plane; `= {0}` may be closed */
  uint32_t dimensions[2]; /* y, x */
  tsr_grid_axis *axes[2];
  double wrap; /* 0: none */
} tsx_plane;

/* Reads the options {"axes":{"y":"lat","x":[origin,step]},"wrap":360}: the keys of `axes` are two dimensions, first y; by
 * default the last two. Each is the name of a numeric label, or the outer edge of the dimension's first cell and the
 * step from cell to cell, or null: its only numeric label. `options` may be NULL or an SQL NULL; `names` are those of
 * the schema's fields in SQL. The caller closes the grid before the environment, after an error too. TSR_ERROR: unknown
 * dimensions and labels; TSR_MISMATCH: other wrong options, and labels that are no axis. */
int tsx_plane_open(sqlite3 *db, tsr_environment *environment, sqlite3_value *options, const tsr_schema *schema,
                   char *const *names, const tsx_label_source *labels, tsx_plane *plane, tsr_error *error);
void tsx_plane_close(tsx_plane *plane);

/* Makes the axis of a label of numbers, datetimes or times, by its number in the schema. Of datetimes and times, an axis
 * has distances from *base, which is 0 for numbers: tsx_axis_place gives that of another value, and `beyond`, what lies
 * between it and the value in the label's unit. The caller closes the axis before the environment. TSR_MISMATCH: values
 * that are no axis. */
int tsx_axis_of_label(tsr_environment *environment, const tsr_schema *schema, uint32_t label, char *const *names,
                      const tsx_label_source *labels, tsr_grid_axis **axis, int64_t *base, tsr_error *error);
double tsx_axis_place(int64_t value, double beyond, int64_t base);

#endif
