/* pipeline.c: filter pipelines as schemas store them, and the rules for which filters a pipeline may have.
 *
 * A stored pipeline is the u32 largest size of a chunk in bytes, the u32 number of filters, then for each filter its u8
 * type, the u32 size of its options in bytes, and its options:
 *   gzip zstd lz4 rle bzip2 dictionary     u8 compressor, i32 level
 *   double delta, delta                    the same, and u8 datatype of the values (from version 20; for delta, 19)
 *   bit width reduction, positive delta    u32 largest window, in bytes
 *   scale float                            f64 scale, f64 offset, u64 bytes of the integer: 1, 2, 4 or 8
 *   none, shuffles, checksums, xor, AES    no options
 * The number of a compressor is its filter type, except 7 for dictionary and 8 for delta. Only the pipelines of
 * encrypted generic tiles list AES; schemas never do. Types 17 (never used) and 18 (webp) are rejected.
 *
 * Order: reading and writing; the rules of a schema; the loop over the parts of a chunk.
 */
#include "filter/pipeline.h"

#include <math.h>

#include "model/datatype.h"
#include "filter/filter.h"
#include "filter/filter_version.h"
#include "base/arithmetic.h"

#define FILTERS_MAX 1000u

static uint8_t compressor_of(tsr_filter_type type) {
  return type == TSR_FILTER_DICTIONARY ? 7 : type == TSR_FILTER_DELTA ? 8 : (uint8_t)type;
}

/* Returns the size of a filter's options in bytes, or -1 for an unknown type. */
static int options_size(uint8_t type, uint32_t version) {
  switch (type) {
  case TSR_FILTER_GZIP:
  case TSR_FILTER_ZSTD:
  case TSR_FILTER_LZ4:
  case TSR_FILTER_RLE:
  case TSR_FILTER_BZIP2:
  case TSR_FILTER_DICTIONARY: return 5;
  case TSR_FILTER_DOUBLE_DELTA:
  case TSR_FILTER_DELTA: return tsr__filter_version_has_reinterpret(version, type) ? 6 : 5;
  case TSR_FILTER_BIT_WIDTH_REDUCTION:
  case TSR_FILTER_POSITIVE_DELTA: return 4;
  case TSR_FILTER_SCALE_FLOAT: return 24;
  case TSR_FILTER_NONE:
  case TSR_FILTER_BITSHUFFLE:
  case TSR_FILTER_BYTESHUFFLE:
  case TSR_FILTER_AES_256_GCM:
  case TSR_FILTER_MD5:
  case TSR_FILTER_SHA256:
  case TSR_FILTER_XOR: return 0;
  default: return -1;
  }
}

static int read_compressor(tsr_input *in, uint32_t version, tsr_filter *filter, tsr_error *error) {
  uint8_t compressor = tsr__input_u8(in);
  filter->level = (int32_t)tsr__input_u32(in);
  if (tsr__filter_version_has_reinterpret(version, filter->type)) filter->reinterpret = tsr__input_u8(in);
  if (compressor != compressor_of(filter->type))
    return tsr__fail(error, TSR_CORRUPT, "compressor %u in the options of %s", compressor,
                     tsr__filter_name(filter->type));
  if (!tsr__datatype_valid(filter->reinterpret))
    return tsr__fail(error, TSR_CORRUPT, "datatype %u in the options of %s", filter->reinterpret,
                     tsr__filter_name(filter->type));
  return TSR_OK;
}

static int read_filter(tsr_input *in, uint32_t version, tsr_filter *filter, tsr_error *error) {
  uint8_t type = tsr__input_u8(in);
  uint32_t size = tsr__input_u32(in);
  TSR_TRY(tsr__input_check(in, "its header", error));
  int expected = options_size(type, version);
  if (expected < 0) {
    const char *name = tsr__filter_name(type);
    return tsr__fail(error, TSR_UNSUPPORTED, "filter type %u%s%s%s", type, name ? " (" : "", name ? name : "",
                     name ? ")" : "");
  }
  if (size != (uint32_t)expected)
    return tsr__fail(error, TSR_CORRUPT, "%u bytes of options of %s: version %u has %d", size, tsr__filter_name(type),
                     version, expected);
  *filter = (tsr_filter){.type = type, .level = -1, .reinterpret = TSR_ANY};
  switch (type) {
  case TSR_FILTER_BIT_WIDTH_REDUCTION:
  case TSR_FILTER_POSITIVE_DELTA: filter->window = tsr__input_u32(in); break;
  case TSR_FILTER_SCALE_FLOAT:
    filter->scale = tsr__input_f64(in);
    filter->offset = tsr__input_f64(in);
    filter->byte_width = tsr__input_u64(in);
    if (!in->failed && filter->byte_width != 1 && filter->byte_width != 2 && filter->byte_width != 4 &&
        filter->byte_width != 8)
      return tsr__fail(error, TSR_CORRUPT, "scale_float to integers of %llu bytes",
                       (unsigned long long)filter->byte_width);
    break;
  default:
    if (size > 0) TSR_TRY(read_compressor(in, version, filter, error));
  }
  return tsr__input_check(in, "its options", error);
}

int tsr__pipeline_read(tsr_input *in, uint32_t version, tsr_arena *arena, tsr_pipeline *pipeline, tsr_error *error) {
  tsr_pipeline p = {.max_chunk_size = tsr__input_u32(in), .count = tsr__input_u32(in)};
  TSR_TRY(tsr__input_check(in, "filter pipeline", error));
  p.uncut = p.max_chunk_size == 0;
  if (p.count > FILTERS_MAX || !tsr__input_fits(in, p.count, 5))
    return tsr__fail(error, TSR_CORRUPT, "filter pipeline: %u filters in %llu bytes, at most %u are taken", p.count,
                     (unsigned long long)tsr__input_left(in), FILTERS_MAX);
  tsr_filter *filters = NULL;
  if (p.count > 0) TSR_TRY(TSR_ARENA_ARRAY(arena, p.count, &filters, error));
  p.filters = filters;
  for (uint32_t i = 0; i < p.count; i++) {
    int rc = read_filter(in, version, &p.filters[i], error);
    if (rc < 0) return tsr__wrap(error, "filter pipeline: filter %u of %u", i, p.count);
  }
  *pipeline = p;
  return TSR_OK;
}

static int write_filter(const tsr_filter *filter, uint32_t version, tsr_buffer *out, tsr_error *error) {
  int size = options_size((uint8_t)filter->type, version);
  if (size < 0) return tsr__fail(error, TSR_UNSUPPORTED, "filter type %u", (unsigned)filter->type);
  TSR_TRY(tsr__buffer_append_u8(out, (uint8_t)filter->type, error));
  TSR_TRY(tsr__buffer_append_u32(out, (uint32_t)size, error));
  switch (filter->type) {
  case TSR_FILTER_BIT_WIDTH_REDUCTION:
  case TSR_FILTER_POSITIVE_DELTA: return tsr__buffer_append_u32(out, filter->window, error);
  case TSR_FILTER_SCALE_FLOAT:
    TSR_TRY(tsr__buffer_append(out, &filter->scale, 8, error));
    TSR_TRY(tsr__buffer_append(out, &filter->offset, 8, error));
    return tsr__buffer_append_u64(out, filter->byte_width, error);
  default: break;
  }
  if (size == 0) return TSR_OK;
  TSR_TRY(tsr__buffer_append_u8(out, compressor_of(filter->type), error));
  TSR_TRY(tsr__buffer_append_u32(out, (uint32_t)filter->level, error));
  if (tsr__filter_version_has_reinterpret(version, filter->type))
    return tsr__buffer_append_u8(out, filter->reinterpret, error);
  if ((filter->type == TSR_FILTER_DELTA || filter->type == TSR_FILTER_DOUBLE_DELTA) && filter->reinterpret != TSR_ANY)
    return tsr__fail(error, TSR_UNSUPPORTED, "%s of another datatype is not known to format version %u",
                     tsr__filter_name(filter->type), version);
  return TSR_OK;
}

int tsr__pipeline_write(const tsr_pipeline *pipeline, uint32_t version, tsr_buffer *out, tsr_error *error) {
  uint64_t before = out->size;
  int rc = tsr__buffer_append_u32(out, pipeline->max_chunk_size, error);
  if (rc == TSR_OK) rc = tsr__buffer_append_u32(out, pipeline->count, error);
  for (uint32_t i = 0; i < pipeline->count && rc == TSR_OK; i++) {
    rc = write_filter(&pipeline->filters[i], version, out, error);
    if (rc < 0) tsr__wrap(error, "filter pipeline: filter %u of %u", i, pipeline->count);
  }
  if (rc < 0) out->size = before;
  return rc;
}

bool tsr__pipeline_is_lossy(const tsr_pipeline *pipeline) {
  for (uint32_t i = 0; i < pipeline->count; i++)
    if (pipeline->filters[i].type == TSR_FILTER_SCALE_FLOAT) return true;
  return false;
}

/* ---- Rules of a schema ----------------------------------------------------------------------- */

static bool pipeline_is_float(tsr_datatype datatype) { return tsr_datatype_kind(datatype) == TSR_KIND_FLOAT; }
static bool is_plain_text(tsr_datatype datatype) {
  return tsr_datatype_kind(datatype) == TSR_KIND_TEXT && datatype != TSR_GEOM_WKT; /* to TileDB GEOM_WKT is bytes */
}

/* Returns true if this filter's encoded data may not be a multiple of the value size. */
static bool breaks_data(tsr_filter_type type) {
  switch (type) {
  case TSR_FILTER_GZIP:
  case TSR_FILTER_ZSTD:
  case TSR_FILTER_LZ4:
  case TSR_FILTER_RLE:
  case TSR_FILTER_BZIP2:
  case TSR_FILTER_DICTIONARY:
  case TSR_FILTER_DOUBLE_DELTA:
  case TSR_FILTER_BIT_WIDTH_REDUCTION: return true;
  default: return false; /* delta writes a u64 and then whole values */
  }
}

/* Returns true if this filter cannot decode its data after a later filter has rounded it. */
static bool needs_exact_bytes(tsr_filter_type type) {
  return type != TSR_FILTER_NONE && type != TSR_FILTER_BITSHUFFLE && type != TSR_FILTER_BYTESHUFFLE &&
         type != TSR_FILTER_XOR && type != TSR_FILTER_SCALE_FLOAT;
}

static int pipeline_refuse(const tsr_filter *filter, tsr_datatype datatype, tsr_error *error) {
  return tsr__fail(error, TSR_CONSTRAINT, "filter %s cannot be applied to %s", tsr__filter_name(filter->type),
                   tsr_datatype_name(datatype));
}

/* Checks TileDB's rules for variable-size strings: a filter that stores their offsets must come first. */
static int check_strings(const tsr_pipeline *p, uint32_t place, tsr_datatype datatype, uint32_t values_per_cell,
                         tsr_error *error) {
  const tsr_filter *filter = &p->filters[place];
  bool strings = values_per_cell == TSR_VARIABLE && (datatype == TSR_ASCII || datatype == TSR_UTF8);
  if (filter->type == TSR_FILTER_DICTIONARY && !strings)
    return tsr__fail(error, TSR_CONSTRAINT,
                     "filter dictionary is for ASCII and UTF8 strings of variable length, not for %s",
                     tsr_datatype_name(datatype));
  if (strings && (filter->type == TSR_FILTER_DICTIONARY || filter->type == TSR_FILTER_RLE) &&
      p->filters[0].type != filter->type)
    return tsr__fail(error, TSR_CONSTRAINT, "filter %s must be the first on strings of variable length",
                     tsr__filter_name(filter->type));
  if (strings && place > 0 && (filter->type == TSR_FILTER_DICTIONARY || filter->type == TSR_FILTER_RLE))
    return tsr__fail(error, TSR_CONSTRAINT, "filter %s twice on strings of variable length cannot be read back",
                     tsr__filter_name(filter->type));
  return TSR_OK;
}

/* Checks that a filter that needs whole values (RLE: whole cells) does not follow one whose output may have another
 * size. TileDB accepts such pipelines, but cannot write tiles with them, or cannot read them back. A compressor also
 * needs the metadata of earlier filters in whole units; its size is a multiple of 8 bytes, except after the two filters
 * with windows. */
static int check_sizes(const tsr_pipeline *p, uint32_t place, uint64_t unit, bool compresses, tsr_error *error) {
  if (unit == 1) return TSR_OK;
  for (uint32_t i = 0; i < place; i++) {
    tsr_filter_type before = p->filters[i].type;
    bool windows = before == TSR_FILTER_POSITIVE_DELTA || before == TSR_FILTER_BIT_WIDTH_REDUCTION,
         plain = before == TSR_FILTER_NONE;
    if (breaks_data(before) || (compresses && (windows || (!plain && 8 % unit != 0))))
      return tsr__fail(error, TSR_CONSTRAINT, "filter %s cannot follow %s: it takes whole units of %llu bytes",
                       tsr__filter_name(p->filters[place].type), tsr__filter_name(before), (unsigned long long)unit);
  }
  return TSR_OK;
}

static int check_rle(const tsr_pipeline *p, uint32_t place, uint64_t cell_size, tsr_error *error) {
  for (uint32_t i = 0; i < place && cell_size > 1; i++)
    if (p->filters[i].type == TSR_FILTER_SCALE_FLOAT)
      return tsr__fail(error, TSR_CONSTRAINT, "filter rle cannot follow scale_float: it takes the cells' first size");
  return check_sizes(p, place, cell_size, true, error);
}

/* Checks the scale, since TileDB accepts any value. Nothing could be read back with a scale that is 0, or that is not
 * finite in the type of the values. */
static int check_scale(const tsr_pipeline *pipeline, uint32_t place, tsr_datatype datatype, tsr_error *error) {
  const tsr_filter *filter = &pipeline->filters[place];
  uint64_t size = tsr_datatype_size(datatype), width = filter->byte_width;
  if (size != 4 && size != 8) return pipeline_refuse(filter, datatype, error);
  if (width != 1 && width != 2 && width != 4 && width != 8)
    return tsr__fail(error, TSR_CONSTRAINT, "filter scale_float to integers of %llu bytes: 1, 2, 4 or 8",
                     (unsigned long long)width);
  for (uint32_t i = 0; i < place; i++)
    if (needs_exact_bytes(pipeline->filters[i].type))
      return tsr__fail(error, TSR_CONSTRAINT, "filter scale_float rounds: it cannot follow %s",
                       tsr__filter_name(pipeline->filters[i].type));
  const double scale = size == 4 ? (double)(float)filter->scale : filter->scale;
  const double offset = size == 4 ? (double)(float)filter->offset : filter->offset;
  if (!isfinite(scale) || !isfinite(offset) || scale == 0)
    return tsr__fail(
        error, TSR_CONSTRAINT,
        "filter scale_float(%llu, %g, %g): no value comes back with such a factor or offset; the factor is a "
        "finite number that is not 0, the offset is finite",
        (unsigned long long)width, filter->scale, filter->offset);
  return TSR_OK;
}

int tsr__filter_allowed(const tsr_pipeline *pipeline, uint32_t place, tsr_datatype datatype, uint32_t values_per_cell,
                        bool is_dimension, tsr_error *error) {
  const tsr_filter *filter = &pipeline->filters[place];
  if (options_size((uint8_t)filter->type, TSR_FORMAT_READ_MAX) < 0 || filter->type == TSR_FILTER_AES_256_GCM)
    return tsr__fail(error, TSR_UNSUPPORTED, "filter type %u", (unsigned)filter->type);
  TSR_TRY(check_strings(pipeline, place, datatype, values_per_cell, error));
  uint64_t cell_size = tsr_datatype_size(datatype) * (values_per_cell == TSR_VARIABLE ? 1 : values_per_cell);
  for (uint32_t i = 0; i < place; i++) datatype = tsr__filter_gives(&pipeline->filters[i], datatype);
  switch (filter->type) {
  case TSR_FILTER_DELTA:
  case TSR_FILTER_DOUBLE_DELTA: {
    tsr_datatype taken = tsr__filter_gives(filter, datatype);
    bool reinterprets = filter->reinterpret != TSR_ANY;
    if (!tsr__datatype_valid((uint8_t)taken) || pipeline_is_float(taken) || (reinterprets && is_plain_text(taken)))
      return pipeline_refuse(filter, taken, error);
    if (tsr_datatype_size(datatype) % tsr_datatype_size(taken) != 0)
      return tsr__fail(error, TSR_CONSTRAINT, "filter %s cannot take %s for %s: their sizes differ",
                       tsr__filter_name(filter->type), tsr_datatype_name(datatype), tsr_datatype_name(taken));
    return check_sizes(pipeline, place, tsr_datatype_size(taken), true, error);
  }
  case TSR_FILTER_POSITIVE_DELTA:
  case TSR_FILTER_BIT_WIDTH_REDUCTION:
    if (pipeline_is_float(datatype) || datatype == TSR_ANY || is_plain_text(datatype))
      return pipeline_refuse(filter, datatype, error);
    if (filter->type == TSR_FILTER_BIT_WIDTH_REDUCTION) return TSR_OK;
    return check_sizes(pipeline, place, tsr_datatype_size(datatype), false, error);
  case TSR_FILTER_XOR: return check_sizes(pipeline, place, tsr_datatype_size(datatype), false, error);
  case TSR_FILTER_RLE: return check_rle(pipeline, place, cell_size, error);
  case TSR_FILTER_SCALE_FLOAT: return check_scale(pipeline, place, datatype, error);
  default: return TSR_OK;
  }
}

/* ---- Parts -----------------------------------------------------------------------------------
 *
 * The loop over the parts of a chunk, in the layout of pipeline.h. The sizes of all parts add up to the size of the
 * data.
 */

int tsr__parts_read(tsr_input *metadata, uint64_t data_size, const uint8_t **sizes, uint32_t *count, tsr_error *error) {
  uint32_t parts = tsr__input_u32(metadata);
  const uint8_t *list = tsr__input_take(metadata, 4 * (uint64_t)parts);
  if (!list)
    return tsr__fail(error, TSR_CORRUPT, "%u data parts are listed in %llu bytes of metadata", parts,
                     (unsigned long long)metadata->size);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < parts; i++) sum += tsr__load32(list + 4 * (uint64_t)i);
  if (sum != data_size)
    return tsr__fail(error, TSR_CORRUPT, "%u data parts of %llu bytes in all: %llu bytes are there", parts,
                     (unsigned long long)sum, (unsigned long long)data_size);
  *sizes = list;
  *count = parts;
  return TSR_OK;
}

int tsr__parts_size(const tsr_chunk *in, uint64_t *size, tsr_error *error) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < in->data_count; i++) sum = tsr__add_sat(sum, in->data[i].size);
  if (sum > UINT32_MAX)
    return tsr__fail(error, TSR_TOOBIG, "%llu bytes of data: the format allows 4,294,967,295 in a chunk",
                     (unsigned long long)sum);
  *size = sum;
  return TSR_OK;
}

int tsr__parts_decode(const tsr_filter_context *context, tsr_part_transform transform, tsr_input *metadata,
                      tsr_input data, tsr_part *data_out, tsr_error *error) {
  uint64_t size = tsr__input_left(&data);
  unsigned width = (unsigned)tsr_datatype_size(context->datatype);
  const uint8_t *sizes = NULL;
  uint32_t count = 0;
  uint8_t *out;
  TSR_TRY(tsr__parts_read(metadata, size, &sizes, &count, error));
  TSR_TRY(tsr__filter_room(context, size, &out, error));
  *data_out = (tsr_part){out, size};
  for (uint32_t i = 0; i < count; i++) {
    uint32_t part = tsr__load32(sizes + 4 * (uint64_t)i);
    int rc = transform(width, tsr__input_take(&data, part), part, out, error);
    if (rc < 0) return tsr__wrap(error, "part %u of %u", i, count);
    out += part;
  }
  return TSR_OK;
}

int tsr__parts_encode(const tsr_filter_context *context, tsr_part_transform transform, const tsr_chunk *in,
                      tsr_chunk *out, tsr_error *error) {
  uint64_t size = 0;
  unsigned width = (unsigned)tsr_datatype_size(context->datatype);
  tsr_chunk made = {0};
  TSR_TRY(tsr__parts_size(in, &size, error));
  TSR_TRY(tsr__filter_prepend(context, in, 4 + 4 * (uint64_t)in->data_count, &made, error));
  TSR_TRY(tsr__filter_part(context, size, &made.data, &made.data_count, error));
  uint8_t *list = made.metadata->data, *to = made.data->data;
  tsr__store32(list, in->data_count);
  for (uint32_t i = 0; i < in->data_count; i++) {
    tsr__store32(list += 4, (uint32_t)in->data[i].size);
    int rc = transform(width, in->data[i].data, in->data[i].size, to, error);
    if (rc < 0) return tsr__wrap(error, "part %u of %u", i, in->data_count);
    to += in->data[i].size;
  }
  *out = made;
  return TSR_OK;
}
