/* png.c: maps numbers to colours, and writes PNG files (RFC 2083), whose layout is:
 *
 *   89 "PNG" 0D 0A 1A 0A | chunks: u32 length | type, 4 letters | data | u32 CRC of type and data   (all big-endian)
 *   IHDR: u32 width, u32 height, 8 bits, colour type 3 (palette), 2 (RGB) or 6 (RGBA), 0, 0, 0
 *   PLTE: 3 bytes for each colour of the palette | tRNS: their alpha, up to the last one that is not opaque
 *   IDAT... | IEND
 *   The data of all IDAT together is one zlib stream of rows: a filter type and 1, 3 or 4 bytes for each pixel.
 *
 * A picture with at most 256 colours gets a palette, which makes the stream a quarter as long. zlib's default settings
 * take longer than all other work, and only pictures with patterns benefit from them. So some sample rows are
 * compressed with several settings (png_settings), and the fastest setting that compresses well is used for all rows.
 *
 * A colour map is a list of a few evenly spaced anchor colours, between which fill_table interpolates. The map
 * `terrain` consists of two maps: one for values below 0, one for values from 0 on.
 *
 * Sections: colours, files. */
#include "picture/picture.h"

#include <math.h>
#include <string.h>
#include <zlib.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "tessera_host.h"
#include "sql/tokens.h"
#include "values/value.h"

/* ---- Colours ----------------------------------------------------------------------------------------------------- */

#define ANCHORS_MAX 9
#define SEA         "the part of terrain below 0"

typedef struct colour_map {
  const char *name;
  int count;
  uint8_t anchors[ANCHORS_MAX][3];
} colour_map;

/* clang-format off */
static const colour_map sea = {
    SEA, 5, {{8, 20, 66}, {18, 56, 118}, {36, 96, 164}, {82, 148, 204}, {164, 210, 236}}};
static const colour_map maps[] = {
    {"viridis", 9, {{68, 1, 84}, {71, 44, 122}, {59, 81, 139}, {44, 113, 142}, {33, 144, 141}, {39, 173, 129},
                    {92, 200, 99}, {170, 220, 50}, {253, 231, 37}}},
    {"magma", 9, {{0, 0, 4}, {28, 16, 68}, {79, 18, 123}, {129, 37, 129}, {181, 54, 122}, {229, 80, 100},
                  {251, 135, 97}, {254, 194, 135}, {252, 253, 191}}},
    {"inferno", 9, {{0, 0, 4}, {31, 12, 72}, {85, 15, 109}, {136, 34, 106}, {186, 54, 85}, {227, 89, 51},
                    {249, 140, 10}, {249, 201, 50}, {252, 255, 164}}},
    {"turbo", 9, {{48, 18, 59}, {70, 107, 227}, {40, 187, 236}, {49, 242, 153}, {162, 252, 60}, {237, 208, 58},
                  {251, 128, 34}, {210, 49, 5}, {122, 4, 3}}},
    {"coolwarm", 5, {{59, 76, 192}, {141, 176, 254}, {221, 221, 221}, {244, 154, 123}, {180, 4, 38}}},
    {"gray", 2, {{0, 0, 0}, {255, 255, 255}}},
    {"terrain", 7, {{58, 122, 66}, {132, 164, 88}, {208, 196, 132}, {178, 138, 92}, {142, 106, 86},
                    {196, 188, 184}, {252, 252, 252}}},
};
/* clang-format on */

static void fill_table(const colour_map *map, uint8_t table[256][4]) {
  for (int i = 0; i < 256; i++) {
    const double at = (double)i / 255 * (map->count - 1);
    const int k = at >= map->count - 1 ? map->count - 2 : (int)at;
    for (int c = 0; c < 3; c++)
      table[i][c] = (uint8_t)lround(map->anchors[k][c] + (at - k) * (map->anchors[k + 1][c] - map->anchors[k][c]));
    table[i][3] = 255;
  }
}

int tsx_colours_make(const char *name, double low, double high, tsx_colours *colours, tsr_error *error) {
  const size_t count = sizeof maps / sizeof *maps;
  char all[128] = "";
  for (size_t i = 0; i < count; i++) {
    const size_t size = strlen(all);
    sqlite3_snprintf((int)(sizeof all - size), all + size, "%s%s", size ? ", " : "", maps[i].name);
    if (sqlite3_stricmp(maps[i].name, name) != 0) continue;
    const bool is_terrain = i == count - 1;
    colours->low = low;
    colours->high = high;
    colours->split = is_terrain && low < 0 && high > 0;
    fill_table(is_terrain && high <= 0 ? &sea : &maps[i], colours->map);
    fill_table(&sea, colours->below);
    return TSR_OK;
  }
  return tsx_fail(error, TSR_ERROR, "'colormap': no colormap is called '%.64s': %s", name, all);
}

/* Returns the entry 0..255 of a colour table for a value in low..high; values outside are clamped. */
static int step_of(double value, double low, double high) {
  if (value <= low) return low < high ? 0 : 128;
  if (value >= high) return 255;
  return (int)(tsx_share(value, low, high) * 255 + 0.5);
}

static uint16_t colour_number(const tsx_colours *colours, double value) {
  if (isnan(value)) return TSX_COLOUR_NODATA;
  if (!colours->split) return (uint16_t)step_of(value, colours->low, colours->high);
  return (uint16_t)(value < 0 ? 256 + step_of(value, colours->low, 0) : step_of(value, 0, colours->high));
}

/* Like colour_number, for a single map with finite bounds: branch-free, so that compilers vectorize it. */
static void number_finite(const tsx_colours *colours, const double *values, uint64_t count, uint16_t *numbers) {
  const double low = colours->low, high = colours->high, reach = high / 2 - low / 2;
  for (uint64_t i = 0; i < count; i++) {
    const double value = values[i], above = value > low ? value : low, within = above < high ? above : high;
    const int step = (int)((within / 2 - low / 2) / reach * 255 + 0.5);
    numbers[i] = (uint16_t)(value == value ? step : TSX_COLOUR_NODATA);
  }
}

void tsx_colours_number(const tsx_colours *colours, const double *values, uint64_t count, uint16_t *numbers) {
  const double low = colours->low, high = colours->high;
  if (!colours->split && isfinite(low) && isfinite(high) && high / 2 - low / 2 > 0) {
    number_finite(colours, values, count, numbers);
    return;
  }
  for (uint64_t i = 0; i < count; i++) numbers[i] = colour_number(colours, values[i]);
}

static const uint8_t *colour_numbered(const tsx_colours *colours, uint64_t number) {
  return number == TSX_COLOUR_NODATA ? colours->nodata
         : number < 256              ? colours->map[number]
                                     : colours->below[number - 256];
}

int tsx_colour_parse(const char *text, uint8_t colour[4], tsr_error *error) {
  static const struct {
    const char *name;
    uint8_t colour[4];
  } names[] = {{"transparent", {0, 0, 0, 0}},
               {"black", {0, 0, 0, 255}},
               {"white", {255, 255, 255, 255}},
               {"gray", {128, 128, 128, 255}}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!sqlite3_stricmp(names[i].name, text)) {
      memcpy(colour, names[i].colour, 4);
      return TSR_OK;
    }
  const size_t size = strlen(text);
  uint8_t made[4] = {0, 0, 0, 255};
  bool good = *text == '#' && (size == 7 || size == 9);
  for (size_t i = 0; good && 2 * i + 2 < size; i++) {
    const int high = tsr_hex_digit(text[2 * i + 1]), low = tsr_hex_digit(text[2 * i + 2]);
    good = high >= 0 && low >= 0;
    made[i] = (uint8_t)(16 * high + low);
  }
  if (!good)
    return tsx_fail(error, TSR_MISMATCH,
                    "'nodata': '%.64s' is not a colour: transparent, black, white, gray, #rrggbb or #rrggbbaa", text);
  memcpy(colour, made, 4);
  return TSR_OK;
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

#define IDAT_MAX 65536u /* the maximum number of bytes of data in an IDAT chunk */

typedef struct png_file {
  uint8_t *bytes;
  uint64_t size, room, limit;
  z_stream stream;
} png_file;

static void store32(uint8_t *p, uint64_t value) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (24 - 8 * i));
}

static int png_reserve(png_file *f, uint64_t more, tsr_error *error) {
  if (more > f->limit - f->size)
    return tsx_fail(error, TSR_TOOBIG,
                    "the PNG has more than %llu bytes, the most that memory_mb and SQLite's values allow",
                    (unsigned long long)f->limit);
  if (f->size + more <= f->room) return TSR_OK;
  const uint64_t room = f->size + more + f->room / 2;
  uint8_t *larger = sqlite3_realloc64(f->bytes, room);
  if (!larger) return tsx_out_of_memory(error);
  f->bytes = larger;
  f->room = room;
  return TSR_OK;
}

/* Completes a chunk whose `size` bytes of data are already in place, 8 bytes after the end of the file: writes length,
 * type and CRC around them. */
static void close_chunk(png_file *f, const char *type, uint64_t size) {
  uint8_t *chunk = f->bytes + f->size;
  store32(chunk, size);
  memcpy(chunk + 4, type, 4);
  store32(chunk + 8 + size, crc32(0, chunk + 4, (uInt)(4 + size)));
  f->size += 12 + size;
}

static int add_chunk(png_file *f, const char *type, const void *data, uint64_t size, tsr_error *error) {
  TSX_TRY(png_reserve(f, 12 + size, error));
  if (size) memcpy(f->bytes + f->size + 8, data, size);
  close_chunk(f, type, size);
  return TSR_OK;
}

/* Compresses all pending input of the stream directly into an IDAT chunk, which is closed when it is full, and at the
 * end of the stream. */
static int compress_input(png_file *f, bool end, tsr_error *error) {
  int rc = Z_OK;
  while (f->stream.avail_in || (end && rc != Z_STREAM_END)) {
    TSX_TRY(png_reserve(f, 12 + IDAT_MAX, error));
    f->stream.next_out = f->bytes + f->size + 8 + (IDAT_MAX - f->stream.avail_out);
    rc = deflate(&f->stream, end ? Z_FINISH : Z_NO_FLUSH);
    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR) return tsx_fail(error, TSR_ERROR, "zlib: %d", rc);
    if (f->stream.avail_out && !(end && rc == Z_STREAM_END)) continue;
    close_chunk(f, "IDAT", IDAT_MAX - f->stream.avail_out);
    f->stream.avail_out = IDAT_MAX;
  }
  return TSR_OK;
}

/* How the pixels of a file are stored. */
typedef struct png_pixels {
  uint8_t type; /* 3: palette, 2: RGB, 6: RGBA */
  uint32_t size; /* bytes per pixel */
  uint8_t bytes[TSX_COLOUR_COUNT][4]; /* the bytes of a pixel, by colour number */
  uint32_t colours, alphas; /* colours in the palette; how many of them, from the first, have an entry in tRNS */
  uint8_t palette[256 * 3], alpha[256];
} png_pixels;

static void choose_pixels(const tsx_png_picture *picture, png_pixels *pixels) {
  uint32_t count = 0;
  bool opaque = true;
  for (uint32_t i = 0; i < TSX_COLOUR_COUNT; i++) {
    count += picture->used[i];
    opaque = opaque && (!picture->used[i] || colour_numbered(picture->colours, i)[3] == 255);
  }
  *pixels = (png_pixels){.type = opaque ? 2 : 6, .size = opaque ? 3 : 4};
  for (uint32_t i = 0; i < TSX_COLOUR_COUNT; i++) memcpy(pixels->bytes[i], colour_numbered(picture->colours, i), 4);
  if (count > 256) return;
  pixels->type = 3;
  pixels->size = 1;
  for (uint32_t i = TSX_COLOUR_COUNT; i-- > 0;) { /* `nodata`, often transparent, comes first, so that tRNS is short */
    if (!picture->used[i]) continue;
    memcpy(pixels->palette + 3 * pixels->colours, pixels->bytes[i], 3);
    pixels->alpha[pixels->colours] = pixels->bytes[i][3];
    pixels->bytes[i][0] = (uint8_t)pixels->colours++;
    if (pixels->alpha[pixels->colours - 1] < 255) pixels->alphas = pixels->colours;
  }
}

/* How the rows are compressed. */
typedef struct png_setting {
  uint8_t filter; /* 0: none, 2: the difference from the row above */
  int level, strategy; /* of zlib */
} png_setting;

/* From the fastest to the slowest. Smooth values compress worst without a filter, patterns with one. */
static const png_setting png_settings[] = {
    {2, Z_BEST_SPEED, Z_RLE}, {0, Z_BEST_SPEED, Z_DEFAULT_STRATEGY}, {0, 6, Z_DEFAULT_STRATEGY}};
#define PNG_WAYS ((int)(sizeof png_settings / sizeof *png_settings))

typedef struct png_rows { /* makes the bytes of rows */
  const tsx_png_picture *picture;
  const png_pixels *pixels;
  uint16_t *numbers; /* the colour numbers of a row */
  uint8_t *line, *above, *filtered; /* the bytes of this row and of the row above; this row with its filter type */
  uint64_t size; /* of `filtered` */
} png_rows;

/* Makes row y. Unless it is the `first` one, the previous call must have made row y - 1. */
static int png_row_make(png_rows *r, uint32_t y, bool first, const png_setting *setting, tsr_error *error) {
  uint8_t *to = r->above;
  const uint32_t width = r->picture->width, size = r->pixels->size;
  TSX_TRY(r->picture->row(r->picture->argument, y, r->numbers, error));
  r->above = r->line;
  r->line = to;
  for (uint32_t x = 0; x < width && size == 1; x++) *to++ = *r->pixels->bytes[r->numbers[x]];
  for (uint32_t x = 0; x < width && size > 1; x++, to += size) memcpy(to, r->pixels->bytes[r->numbers[x]], size);
  r->filtered[0] = first ? 0 : setting->filter;
  if (r->filtered[0]) {
    for (uint64_t i = 0; i + 1 < r->size; i++) r->filtered[i + 1] = (uint8_t)(r->line[i] - r->above[i]);
  } else {
    memcpy(r->filtered + 1, r->line, r->size - 1);
  }
  return TSR_OK;
}

static int png_deflate_init(z_stream *stream, const png_setting *setting, tsr_error *error) {
  const int rc = deflateInit2(stream, setting->level, Z_DEFLATED, 15, 8, setting->strategy);
  return rc == Z_OK ? TSR_OK : tsx_out_of_memory(error);
}

#define SAMPLE_STRIPS 2
#define SAMPLE_ROWS   24 /* of a strip */

/* Compresses sample rows. *size is the number of bytes that they take. */
static int png_sample(png_rows *r, const png_setting *setting, uint64_t *size, tsr_error *error) {
  z_stream stream = {0};
  uint8_t room[4096];
  const uint32_t height = r->picture->height, rows = height < SAMPLE_ROWS ? height : SAMPLE_ROWS;
  int code = png_deflate_init(&stream, setting, error);
  if (code < 0) return code;
  for (uint32_t i = 0; i < SAMPLE_STRIPS * rows && code == TSR_OK; i++) {
    const uint32_t strip = i / rows, last = strip + 1 == SAMPLE_STRIPS && i % rows + 1 == rows;
    const uint32_t from = (uint32_t)((uint64_t)(height - rows) * (strip + 1) / (SAMPLE_STRIPS + 1));
    code = png_row_make(r, from + i % rows, i % rows == 0, setting, error);
    stream.next_in = r->filtered;
    stream.avail_in = (uInt)r->size;
    do {
      stream.next_out = room;
      stream.avail_out = sizeof room;
    } while (code == TSR_OK && deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH) == Z_OK && !stream.avail_out);
  }
  *size = stream.total_out;
  deflateEnd(&stream);
  return code;
}

/* Chooses the fastest way whose sample is at most 1.3 times as long as the shortest. If the shortest is very short, all
 * ways are fast, and the shortest wins. The slowest way only helps with patterns: it is not tried unless one of the
 * others compresses to less than a quarter. */
static int choose_setting(png_rows *r, const png_setting **setting, tsr_error *error) {
  const uint64_t rows = r->picture->height < SAMPLE_ROWS ? r->picture->height : SAMPLE_ROWS;
  const uint64_t whole = SAMPLE_STRIPS * rows * r->size;
  uint64_t sizes[PNG_WAYS], least = UINT64_MAX;
  int tried = 0;
  for (; tried < PNG_WAYS && (tried + 1 < PNG_WAYS || least < whole / 4); tried++) {
    const int code = png_sample(r, &png_settings[tried], &sizes[tried], error);
    if (code < 0) return code;
    if (sizes[tried] < least) least = sizes[tried];
  }
  const unsigned tenths = least < whole / 8 ? 10 : 13;
  for (int i = tried; i-- > 0;)
    if (sizes[i] * 10 <= least * tenths) *setting = &png_settings[i];
  return TSR_OK;
}

static int compress_rows(png_file *f, png_rows *r, const png_setting *setting, tsr_error *error) {
  for (uint32_t y = 0; y < r->picture->height; y++) {
    TSX_TRY(png_row_make(r, y, y == 0, setting, error));
    f->stream.next_in = r->filtered;
    f->stream.avail_in = (uInt)r->size;
    TSX_TRY(compress_input(f, y + 1 == r->picture->height, error));
  }
  return TSR_OK;
}

static int add_rows(png_file *f, png_rows *r, tsr_error *error) {
  const png_setting *setting = png_settings;
  TSX_TRY(choose_setting(r, &setting, error));
  TSX_TRY(png_deflate_init(&f->stream, setting, error));
  f->stream.avail_out = IDAT_MAX;
  const int code = compress_rows(f, r, setting, error);
  deflateEnd(&f->stream);
  return code;
}

static int add_chunks(png_file *f, png_rows *rows, tsr_error *error) {
  static const uint8_t mark[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  const png_pixels *pixels = rows->pixels;
  uint8_t header[13] = {[8] = 8, [9] = pixels->type};
  store32(header, rows->picture->width);
  store32(header + 4, rows->picture->height);
  TSX_TRY(png_reserve(f, sizeof mark, error));
  memcpy(f->bytes, mark, f->size = sizeof mark);
  TSX_TRY(add_chunk(f, "IHDR", header, sizeof header, error));
  if (pixels->colours) TSX_TRY(add_chunk(f, "PLTE", pixels->palette, 3 * pixels->colours, error));
  if (pixels->alphas) TSX_TRY(add_chunk(f, "tRNS", pixels->alpha, pixels->alphas, error));
  TSX_TRY(add_rows(f, rows, error));
  return add_chunk(f, "IEND", NULL, 0, error);
}

int tsx_png_encode(const tsx_png_picture *picture, uint64_t limit, uint8_t **bytes, uint64_t *size, tsr_error *error) {
  png_file f = {.limit = limit};
  png_pixels pixels;
  choose_pixels(picture, &pixels);
  const uint64_t line = 1 + (uint64_t)pixels.size * picture->width;
  png_rows rows = {.picture = picture, .pixels = &pixels, .size = line};
  uint8_t *lines = sqlite3_malloc64(3 * line);
  rows.line = lines;
  rows.above = lines ? lines + line : NULL;
  rows.filtered = lines ? lines + 2 * line : NULL;
  rows.numbers = sqlite3_malloc64(picture->width * sizeof *rows.numbers);
  const int code = lines && rows.numbers ? add_chunks(&f, &rows, error) : tsx_out_of_memory(error);
  sqlite3_free(lines);
  sqlite3_free(rows.numbers);
  if (code < 0) sqlite3_free(f.bytes);
  else *bytes = f.bytes, *size = f.size;
  return code;
}
