/* generic_tile.h: generic tiles, the containers of all metadata: a header with a filter pipeline, followed by one
 * filtered tile.
 *
 * All modules of this folder follow the same rules. A module decodes and validates one kind of object. Format versions
 * are branches in one decoder, never a second decoder. Users of a decoded object rely on the checks that decoding made:
 * counts fit, names are file names, offsets are in order, sizes are those of the files. docs/format.md is the normative
 * description; each .c file begins with the byte layout of its object. Encoders append to buffers; on an error the
 * buffer is unchanged.
 */
#ifndef TSR_GENERIC_TILE_H
#define TSR_GENERIC_TILE_H

#include "store/store.h"

/* The header of a generic tile. */
typedef struct tsr_generic_tile {
  uint32_t version;
  tsr_datatype datatype;
  uint64_t cell_size; /* in bytes */
  bool encrypted;
  uint64_t persisted, size; /* of the filtered tile and of its content, in bytes */
} tsr_generic_tile;

#define TSR_METADATA_MAX (UINT64_C(1) << 30) /* largest content in bytes, where no smaller limit applies */

/* Decodes the generic tile at the beginning of `in` and appends its content to `out`. `most`: largest size of the
 * content in bytes; a larger tile is refused with TSR_TOOBIG before memory is allocated. `header` (may be NULL) is
 * filled if the header can be read, even if the rest cannot. *consumed: bytes of the tile in the file. Returns TSR_AUTH
 * if the tile is encrypted and `key` is NULL or wrong, and also if there is a key but the tile is not encrypted, since
 * anybody could have put such a tile there. */
int tsr__generic_tile_decode(const uint8_t *in, uint64_t in_size, const uint8_t *key, uint64_t most, tsr_buffer *out,
                             tsr_generic_tile *header, uint64_t *consumed, tsr_error *error);

/* The same for the generic tile at `offset` of a file. Reads only the tile and a small probe. *next (may be NULL): the
 * offset after the tile. */
int tsr__generic_tile_read(tsr_file *file, uint64_t offset, const uint8_t *key, uint64_t most, tsr_buffer *out,
                           uint64_t *next, tsr_error *error);

/* Appends `content` as a generic tile, as TileDB stores metadata: datatype CHAR, cell size 1, gzip level 1, encrypted
 * if `key` is not NULL. `version` is the format version of the fragment or schema that the tile belongs to, so that
 * libraries of that version can read it. */
int tsr__generic_tile_encode(const uint8_t *content, uint64_t size, uint32_t version, const uint8_t *key,
                             tsr_buffer *out, tsr_error *error);

#endif
