/* generic_tile.c: generic tiles. All metadata is stored in them.
 *
 *   u32 format version | u64 persisted size | u64 tile size | u8 datatype | u64 cell size
 *   | u8 encryption (0 none, 1 AES-256-GCM) | u32 pipeline size | pipeline | persisted size bytes: the tile (filter.h)
 *
 * The layout is the same in all versions. TileDB writes datatype CHAR, cell size 1 and gzip level 1, but any pipeline
 * is allowed, even an empty one. In an encrypted tile, and only there, AES-256-GCM (type 11) is the last filter of the
 * pipeline. Decoding requires that the pipeline takes exactly its size, that the tile is within the input, and that its
 * chunks have exactly `tile size` bytes. To refuse absurd sizes before allocating memory, `tile size` may not exceed
 * the most that gzip could make of the stored bytes, plus ROOM_MAX for filters that compress better.
 */
#include "format/generic_tile.h"

#include "store/store.h"
#include "model/datatype.h"
#include "filter/filter.h"
#include "filter/pipeline.h"

#define HEADER_SIZE 34
#define MAX_CHUNK   65536u /* chunk size in bytes of the tiles that are written */
#define PROBE_SIZE  1024 /* bytes of the first read from a file: most generic tiles are smaller */
#define FEW_FILTERS 256 /* bytes on the stack for a small pipeline, to save an allocation */
#define RATIO_MAX   1032 /* largest ratio of gzip */
#define ROOM_MAX    (UINT64_C(1) << 20) /* bytes that other filters may yield beyond that ratio */

typedef struct sizes { /* sizes in bytes of the parts that follow the header */
  uint64_t pipeline, tile;
} sizes;

static int decode_header(tsr_input *in, tsr_generic_tile *header, sizes *behind, tsr_error *error) {
  tsr_generic_tile h = {0};
  h.version = tsr__input_u32(in);
  h.persisted = tsr__input_u64(in);
  h.size = tsr__input_u64(in);
  uint8_t datatype = tsr__input_u8(in);
  h.cell_size = tsr__input_u64(in);
  uint8_t encryption = tsr__input_u8(in);
  uint32_t pipeline_size = tsr__input_u32(in);
  TSR_TRY(tsr__input_check(in, "the header", error));
  if (h.version < TSR_FORMAT_READ_MIN) return tsr__fail(error, TSR_CORRUPT, "format version 0");
  if (h.version > TSR_FORMAT_READ_MAX)
    return tsr__fail(error, TSR_UNSUPPORTED, "format version %u is newer than %d, the newest that is known", h.version,
                     TSR_FORMAT_READ_MAX);
  if (!tsr__datatype_valid(datatype)) return tsr__fail(error, TSR_CORRUPT, "datatype %u is unknown", datatype);
  if (!h.cell_size) return tsr__fail(error, TSR_CORRUPT, "cell size 0");
  if (encryption > 1) return tsr__fail(error, TSR_CORRUPT, "encryption type %u is unknown", encryption);
  h.datatype = (tsr_datatype)datatype;
  h.encrypted = encryption == 1;
  *header = h;
  *behind = (sizes){pipeline_size, h.persisted};
  return TSR_OK;
}

/* Decodes the pipeline and the tile. `in` is positioned after the header. */
static int decode_body(tsr_input *in, const tsr_generic_tile *header, const sizes *behind, const uint8_t *key,
                       uint64_t most, tsr_buffer *out, tsr_error *error) {
  if (header->encrypted && !key) return tsr__fail(error, TSR_AUTH, "it is encrypted: a key is needed");
  if (!header->encrypted && key) return tsr__fail(error, TSR_AUTH, "it is not encrypted, though there is a key");
  const uint8_t *bytes = tsr__input_take(in, behind->pipeline), *tile = tsr__input_take(in, behind->tile);
  TSR_TRY(tsr__input_check(in, "the tile", error));
  if (header->size > tsr__add_sat(tsr__mul_sat(behind->tile, RATIO_MAX), ROOM_MAX))
    return tsr__fail(error, TSR_CORRUPT, "it claims to hold %llu bytes, which the %llu that are stored cannot",
                     (unsigned long long)header->size, (unsigned long long)behind->tile);
  if (header->size > most)
    return tsr__fail(error, TSR_TOOBIG, "it holds %llu bytes, more than the %llu that are allowed",
                     (unsigned long long)header->size, (unsigned long long)most);

  _Alignas(16) uint8_t few[FEW_FILTERS]; /* for the filters that writers use */
  tsr_arena arena;
  tsr__arena_lend(&arena, out->memory, few, sizeof few);
  tsr_pipeline pipeline;
  tsr_input filters = tsr__input(bytes, behind->pipeline);
  uint64_t stored;
  int rc = tsr__pipeline_read(&filters, header->version, &arena, &pipeline, error);
  if (rc >= 0 && tsr__input_left(&filters))
    rc = tsr__fail(error, TSR_CORRUPT, "its filters take %llu of %llu bytes", (unsigned long long)filters.at,
                   (unsigned long long)filters.size);
  if (rc >= 0) rc = tsr__pipeline_original_size(tile, behind->tile, &stored, error);
  if (rc >= 0 && stored != header->size)
    rc = tsr__fail(error, TSR_CORRUPT, "its chunks hold %llu bytes, its header says %llu", (unsigned long long)stored,
                   (unsigned long long)header->size);
  if (rc >= 0) rc = tsr__buffer_reserve(out, TSR_MAX(header->size, 1), error);
  if (rc >= 0) {
    tsr_tile_shape shape = {header->datatype, header->cell_size, header->version, header->encrypted ? key : NULL};
    rc = tsr__pipeline_decode(&pipeline, &shape, tile, behind->tile, out->data + out->size, header->size, out->memory,
                              error);
  }
  if (rc >= 0) out->size += header->size;
  tsr__arena_release(&arena);
  return rc;
}

int tsr__generic_tile_decode(const uint8_t *in, uint64_t in_size, const uint8_t *key, uint64_t most, tsr_buffer *out,
                             tsr_generic_tile *header, uint64_t *consumed, tsr_error *error) {
  tsr_input input = tsr__input(in, in_size);
  tsr_generic_tile h;
  sizes behind;
  int rc = decode_header(&input, &h, &behind, error);
  if (rc >= 0 && header) *header = h;
  if (rc >= 0) rc = decode_body(&input, &h, &behind, key, most, out, error);
  if (rc < 0) {
    tsr__wrap(error, "generic tile");
    return rc;
  }
  if (consumed) *consumed = input.at;
  return TSR_OK;
}

static int read_tile(tsr_file *file, uint64_t offset, const uint8_t *key, uint64_t most, tsr_buffer *stored,
                     tsr_buffer *out, uint64_t *next, tsr_error *error) {
  if (offset > file->size || file->size - offset < HEADER_SIZE)
    return tsr__fail(error, TSR_CORRUPT, "the file of %llu bytes ends before its header does",
                     (unsigned long long)file->size);
  uint64_t left = file->size - offset, probe = file->kept ? left : TSR_MIN(left, PROBE_SIZE);
  if (!file->kept) {
    TSR_TRY(tsr__buffer_reserve(stored, probe, error));
    TSR_TRY(tsr__store_read_at(file, offset, stored->data, probe, error));
    stored->size = probe;
  }

  tsr_input in = tsr__input(file->kept ? file->kept + offset : stored->data, probe);
  tsr_generic_tile header;
  sizes behind;
  TSR_TRY(decode_header(&in, &header, &behind, error));
  uint64_t total = tsr__add_sat(tsr__add_sat(HEADER_SIZE, behind.pipeline), behind.tile);
  if (total > left)
    return tsr__fail(error, TSR_CORRUPT, "it takes %llu bytes, the file has %llu from there on",
                     (unsigned long long)total, (unsigned long long)left);
  if (total > probe) {
    TSR_TRY(tsr__buffer_reserve(stored, total - probe, error));
    TSR_TRY(tsr__store_read_at(file, offset + probe, stored->data + probe, total - probe, error));
  }
  in = tsr__input(file->kept ? file->kept + offset : stored->data, total);
  in.at = HEADER_SIZE;
  TSR_TRY(decode_body(&in, &header, &behind, key, most, out, error));
  if (next) *next = offset + total;
  return TSR_OK;
}

int tsr__generic_tile_read(tsr_file *file, uint64_t offset, const uint8_t *key, uint64_t most, tsr_buffer *out,
                           uint64_t *next, tsr_error *error) {
  tsr_buffer stored = {.memory = out->memory};
  int rc = read_tile(file, offset, key, most, &stored, out, next, error);
  tsr__buffer_release(&stored);
  if (rc < 0) tsr__wrap(error, "%s: generic tile at byte %llu", file->path, (unsigned long long)offset);
  return rc;
}

/* ---- Encoding ---------------------------------------------------------------------------------------------------- */

int tsr__generic_tile_encode(const uint8_t *content, uint64_t size, uint32_t version, const uint8_t *key,
                             tsr_buffer *out, tsr_error *error) {
  tsr_filter filters[] = {{.type = TSR_FILTER_GZIP, .level = 1, .reinterpret = TSR_ANY},
                          {.type = TSR_FILTER_AES_256_GCM, .level = -1, .reinterpret = TSR_ANY}};
  tsr_pipeline pipeline = {.max_chunk_size = MAX_CHUNK, .count = key ? 2 : 1, .filters = filters};
  tsr_tile_shape shape = {TSR_CHAR, 1, version, key};
  uint64_t begin = out->size;
  int rc = tsr__buffer_append_u32(out, version, error);
  if (rc >= 0) rc = tsr__buffer_append_u64(out, 0, error); /* persisted size: set at the end */
  if (rc >= 0) rc = tsr__buffer_append_u64(out, size, error);
  if (rc >= 0) rc = tsr__buffer_append_u8(out, TSR_CHAR, error);
  if (rc >= 0) rc = tsr__buffer_append_u64(out, 1, error);
  if (rc >= 0) rc = tsr__buffer_append_u8(out, key != NULL, error);
  if (rc >= 0) rc = tsr__buffer_append_u32(out, 0, error); /* size of the pipeline: set at the end */
  uint64_t pipeline_at = out->size;
  if (rc >= 0) rc = tsr__pipeline_write(&pipeline, version, out, error);
  uint64_t tile_at = out->size;
  if (rc >= 0) rc = tsr__pipeline_encode(&pipeline, &shape, content, size, NULL, size, out, error);
  if (rc < 0) {
    out->size = begin;
    return tsr__wrap(error, "generic tile");
  }
  tsr__store32(out->data + pipeline_at - 4, (uint32_t)(tile_at - pipeline_at));
  tsr__store64(out->data + begin + 4, out->size - tile_at);
  return TSR_OK;
}
