/* png.h: colours of values, and PNG files (RFC 2083). */
#ifndef TSX_PNG_H
#define TSX_PNG_H

#include "tessera.h"

typedef struct tsx_colours { /* a colour map laid over a range of values */
  bool split; /* another map below 0, where the range has 0 inside */
  double low, high;
  uint8_t below[256][4], map[256][4], nodata[4]; /* RGBA */
} tsx_colours;

/* The map `name` over low..high; `nodata` is left as it is. TSR_ERROR, naming all, where none is called so. */
int tsx_colours_make(const char *name, double low, double high, tsx_colours *colours, tsr_error *error);
const uint8_t *tsx_colour_of(const tsx_colours *colours, double value); /* NaN: nodata */

/* "transparent", a few names, "#rrggbb", "#rrggbbaa" */
int tsx_colour_parse(const char *text, uint8_t colour[4], tsr_error *error);

/* A PNG file of RGBA, of sqlite3_malloc. `row` gives one row of 4 * width bytes after the other, the highest first;
 * TSR_TOOBIG where the file is larger than `limit` bytes. */
typedef int (*tsx_png_row)(void *argument, uint64_t y, uint8_t *row, tsr_error *error);

int tsx_png_encode(uint32_t width, uint32_t height, tsx_png_row row, void *argument, uint64_t limit, uint8_t **file,
                   uint64_t *size, tsr_error *error);

#endif
