/* picture.h: pictures of two dimensions of an array, or of a query: colour maps and PNG files (RFC 2083), and the SQL
 * functions that draw them. */
#ifndef TSX_PICTURE_PICTURE_H
#define TSX_PICTURE_PICTURE_H

#include "tessera.h"
#include "tessera_host.h"
#include "connection/sqlite_api.h"
#include "data/data.h"
#include "values/axes.h"

/* ---- png.c: colour maps and PNG files ---------------------------------------------------------------------------- */

typedef struct tsx_colours { /* a colour map for the values from low to high; all colours are RGBA */
  bool split; /* values below 0 use the map `below`, others `map`; else `map` covers all values */
  double low, high;
  uint8_t below[256][4], map[256][4], nodata[4];
} tsx_colours;

/* Makes the colour map called `name` for the values from low to high. Leaves colours->nodata unchanged. TSR_ERROR, with
 * a list of the names, if there is no such map. */
int tsx_colours_make(const char *name, double low, double high, tsx_colours *colours, tsr_error *error);

/* Colours are numbered: 0 to 255 in `map`, 256 to 511 in `below`, and TSX_COLOUR_NODATA. */
#define TSX_COLOUR_NODATA 512
#define TSX_COLOUR_COUNT  513

/* Finds the colour number of each value. NaN has the colour `nodata`; values outside of low..high are clamped. */
void tsx_colours_number(const tsx_colours *colours, const double *values, uint64_t count, uint16_t *numbers);

/* Parses "transparent", "black", "white", "gray", "#rrggbb" or "#rrggbbaa". */
int tsx_colour_parse(const char *text, uint8_t colour[4], tsr_error *error);

/* Writes row y, counted from the top, as colour numbers: row[width]. */
typedef int (*tsx_png_row)(void *argument, uint64_t y, uint16_t *row, tsr_error *error);

/* A picture to encode. used[number] is true for each colour that its rows have. */
typedef struct tsx_png_picture {
  uint32_t width, height;
  const tsx_colours *colours;
  bool used[TSX_COLOUR_COUNT];
  tsx_png_row row;
  void *argument; /* of `row` */
} tsx_png_picture;

/* Encodes a picture as a PNG file: with a palette if it has at most 256 colours, else as RGB or RGBA. Calls `row` first
 * for some sample rows, then for each row from the top down. The caller frees *file with sqlite3_free. TSR_TOOBIG if
 * the file would be larger than `limit` bytes. */
int tsx_png_encode(const tsx_png_picture *picture, uint64_t limit, uint8_t **file, uint64_t *size, tsr_error *error);

/* ---- tile.c: XYZ tiles of Web Mercator --------------------------------------------------------------------------- */

#define TSX_TILE_SIDE     256 /* pixels, if no size is given */
#define TSX_TILE_SIDE_MAX 4096

typedef struct tsx_tile { /* `= {0}` may be closed */
  bool given;
  uint64_t zoom, x, y;
  tsx_plane_words words; /* the option "axes" */
  tsx_plane plane;
  tsr_web_side *rows, *columns;
} tsx_tile;

/* Reads the option "tile": [z, x, y]. TSR_MISMATCH: not three integers; TSR_RANGE: no such tile. */
int tsx_tile_take(tsx_tile *tile, sqlite3 *db, const tsx_option_value *value, tsr_error *error);

/* Finds the cells of the pixels of both sides, `side` pixels long, instead of those found before. `shifts` and `lows`,
 * of y and x, are those of tsr_web_request; NULL: no overview. */
int tsx_tile_find(tsr_environment *environment, tsx_tile *tile, uint64_t side, bool nearest, const unsigned *shifts,
                  const int64_t *lows, tsr_error *error);

/* Makes the axes of a query's two keys, which are degrees: first latitudes, then longitudes. */
int tsx_tile_axes_of_grid(tsr_environment *environment, tsx_tile *tile, const tsx_grid *grid, tsr_error *error);

/* Draws the numbers of a query's grid: means[side * side], and the other results, of which `means` is set. */
int tsx_tile_draw_grid(const tsx_tile *tile, const tsx_grid *grid, double *means, tsr_downsample *drawn,
                       tsr_error *error);

void tsx_tile_close(tsx_tile *tile);

/* ---- picture.c: tessera_png and tessera_preview ------------------------------------------------------------------ */

void tsx_png(sqlite3_context *context, int count,
             sqlite3_value **values); /* (path, attribute[, slice[, options]]) or (query[, column][, options]) */
void tsx_preview(sqlite3_context *context, int count, sqlite3_value **values); /* the same arguments */

#endif
