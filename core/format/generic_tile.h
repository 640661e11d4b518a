/* generic_tile.h: the objects on disk, one file each: decode, validate, free. A version is data here: branches on `version`,
 * never a second decoder. What decode accepts, the rest relies on: counts fit, names are plain, offsets rise, sizes are
 * those of the files. docs/format.md is the normative description; each .c file opens with the bytes it owns. Encoders
 * append to buffers; on failure the buffer is as it was.
 */
#ifndef TSR_GENERIC_TILE_H
#define TSR_GENERIC_TILE_H

#include "store/store_bounds.h"

/* u32 version, u64 persisted size, u64 tile size, u8 datatype, u64 cell size, u8 encryption, u32 pipeline size,
 * pipeline, tile. */
typedef struct tsr_generic_tile {
  uint32_t version;
  tsr_datatype datatype;
  uint64_t cell_size;
  bool encrypted;
  uint64_t persisted, size;
} tsr_generic_tile;

#define TSR_METADATA_MAX (UINT64_C(1) << 30) /* bytes of an object of metadata where nothing says less */

/* Decodes the generic tile at the front of `in`, appends its content to `out`; `consumed` is its size in the file. An
 * encrypted tile without key, or with one that does not fit, is TSR_AUTH, and so is a plain one where there is a key: it
 * is anyone's. `header` (may be NULL) is given where it could be read, though the rest cannot. The content's size is
 * checked against `most` before memory is taken. */
int tsr__generic_tile_decode(const uint8_t *in, uint64_t in_size, const uint8_t *key, uint64_t most, tsr_buffer *out,
                             tsr_generic_tile *header, uint64_t *consumed, tsr_error *error);

/* The same from a file, reading only what the tile takes; `next` (may be NULL) is the offset behind it. */
int tsr__generic_tile_read(tsr_file *file, uint64_t offset, const uint8_t *key, uint64_t most, tsr_buffer *out,
                           uint64_t *next, tsr_error *error);

/* Appends `content` as TileDB stores metadata: datatype CHAR, cell size 1, gzip level 1, encrypted if there is a key.
 * `version` is that of the fragment or schema, so that libraries of its age can read it. */
int tsr__generic_tile_encode(const uint8_t *content, uint64_t size, uint32_t version, const uint8_t *key,
                             tsr_buffer *out, tsr_error *error);

#endif
