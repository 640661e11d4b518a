/* png.h: maps numbers to colours, and writes PNG files (RFC 2083). */
#ifndef TSX_PNG_H
#define TSX_PNG_H

#include "tessera.h"

typedef struct tsx_colours { /* a colour map for the values from low to high; all colours are RGBA */
  bool split; /* values below 0 have the map `below`, all others `map` */
  double low, high;
  uint8_t below[256][4], map[256][4], nodata[4];
} tsx_colours;

/* Makes the colour map called `name` for the values from low to high. colours->nodata stays as it is. Returns TSR_ERROR
 * with a list of the names if there is no such map. */
int tsx_colours_make(const char *name, double low, double high, tsx_colours *colours, tsr_error *error);

/* Returns the colour of a value; NaN has the colour `nodata`, values outside of low..high that of the nearer end. */
const uint8_t *tsx_colour_of(const tsx_colours *colours, double value);

/* Parses "transparent", "black", "white", "gray", "#rrggbb" or "#rrggbbaa". */
int tsx_colour_parse(const char *text, uint8_t colour[4], tsr_error *error);

/* Writes row y, counted from the top, as 4 * width bytes of RGBA. */
typedef int (*tsx_png_row)(void *argument, uint64_t y, uint8_t *row, tsr_error *error);

/* Encodes an RGBA picture as a PNG file. `row` is called once for each row, from the top down. The caller frees *file with
 * sqlite3_free. Returns TSR_TOOBIG if the file would be larger than `limit` bytes. */
int tsx_png_encode(uint32_t width, uint32_t height, tsx_png_row row, void *argument, uint64_t limit, uint8_t **file,
                   uint64_t *size, tsr_error *error);

#endif
